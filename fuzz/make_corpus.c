/* SPDX-License-Identifier: Apache-2.0 */
/* make_corpus.c - writes what fuzzing starts from:
 *
 *     make_corpus VECTORS FUZZ     FUZZ/uvcc.dict and FUZZ/corpus/TARGET/seed-*: from the .def
 * tables, the golden vectors in VECTORS, and traffic recorded here make_corpus --check DICT fails
 * if DICT is not what the tables give
 *
 * Inputs that fuzzing found stand beside the seeds under other names and are not touched. */
#include "bundles.h"
#include "common.h"

#include <errno.h>
#include <jansson.h>
#include <stdarg.h>
#include <sys/stat.h>

#include "proto/bytes.h"
#include "proto/stepmsg.h"
#include <uvcc/blv1.h>
#include <uvcc/demux.h>
#include <uvcc/link.h>
#include <uvcc/uvcc.h>

static const char *fuzz_dir;

static _Noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));
static _Noreturn void die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    exit(1);
}

static FILE *create(const char *path) {
    FILE *f = fopen(path, "wb");
    if (f == NULL)
        die("%s: %s", path, strerror(errno));
    return f;
}

/* One seed: a first part of one byte or none (-1), then the data. */
static void seed(const char *target, const char *name, int first, const void *data, size_t len) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/corpus", fuzz_dir);
    (void)mkdir(path, 0777);
    (void)snprintf(path, sizeof path, "%s/corpus/%s", fuzz_dir, target);
    (void)mkdir(path, 0777);
    (void)snprintf(path, sizeof path, "%s/corpus/%s/seed-%s", fuzz_dir, target, name);
    for (char *p = path + strlen(path) - strlen(name); *p != '\0'; p++)
        if (strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", *p) == NULL)
            *p = '-';
    FILE *f = create(path);
    if (first >= 0)
        (void)fputc(first, f);
    if (len != 0 && fwrite(data, 1, len, f) != len)
        die("%s: cannot be written", path);
    if (fclose(f) != 0)
        die("%s: cannot be written", path);
}

static void seed_text(const char *target, const char *name, int first, const char *text) {
    seed(target, name, first, text, strlen(text));
}

/* ---- the dictionary ---- */

static void dict_bytes(FILE *f, const char *name, const void *data, size_t len) {
    const uint8_t *p = data;
    (void)fprintf(f, "%s=\"", name);
    for (size_t i = 0; i < len; i++)
        if (p[i] >= 0x20 && p[i] < 0x7F && p[i] != '"' && p[i] != '\\')
            (void)fputc(p[i], f);
        else
            (void)fprintf(f, "\\x%02X", p[i]);
    (void)fputs("\"\n", f);
}

static void dict_number(FILE *f, const char *prefix, const char *name, uint64_t v, size_t bytes) {
    char key[128];
    uint8_t le[8];
    uvcci_st64(le, v);
    (void)snprintf(key, sizeof key, "%s_%s", prefix, name);
    dict_bytes(f, key, le, bytes);
}

static void dictionary(FILE *f) {
    (void)fputs("# Made by fuzz/make_corpus.c from the .def tables.\n", f);
    dict_bytes(f, "magic_frame", "UVF1\x01", 5);
    dict_bytes(f, "magic_call", "UVC1\x01", 5);
    dict_bytes(f, "magic_dialog", "UVCD\x01", 5);
    dict_bytes(f, "magic_bundle", UVCCI_MAGIC_BUNDLE, 8);
    dict_bytes(f, "magic_job_root", UVCCI_MAGIC_JOB, 8);
    dict_bytes(f, "magic_proof", UVCCI_MAGIC_PROOF, 8);
#define UVCC_LEAF(name, code, bytes, key) dict_number(f, "leaf", #name, code, 1);
#include <uvcc/leaves.def>
#undef UVCC_LEAF
    dict_bytes(f, "magic_batch", "BLV1\x01\x00\x00\x00", 8);
#define UVCC_KIND(name, code, cls, label)                                                          \
    dict_number(f, "kind", #name, code, 1);                                                        \
    if (label[0] != '\0')                                                                          \
        dict_bytes(f, "label_" #name, label, strlen(label));
#include <uvcc/kinds.def>
#undef UVCC_KIND
#define UVCC_TLV(name, code) dict_number(f, "tlv", #name, code, 2);
#include <uvcc/tlvs.def>
#undef UVCC_TLV
#define UVCC_OPCODE(name, code, n_in, n_out, what) dict_number(f, "opcode", #name, code, 2);
#include <uvcc/opcodes.def>
#undef UVCC_OPCODE
#define UVCC_ABORT(name, code, text) dict_number(f, "abort", #name, code, 2);
#include <uvcc/aborts.def>
#undef UVCC_ABORT
    static const uint64_t sizes[] = {UVCC_CHUNK_BYTES,     UVCC_PART_BYTES,  UVCC_MSG_MAX_BYTES,
                                     UVCC_KEY_CHUNK_BYTES, UVCC_BLOCK_ELEMS, UINT32_MAX,
                                     UINT64_C(1) << 31};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "%llu", (unsigned long long)sizes[i]);
        dict_number(f, "size", name, sizes[i], 4);
    }
    static const char *const words[] = {"nan",  "inf",  "1e308", "-0.5",       "\xEF\xBB\xBF",
                                        "\r\n", ",\"a", "4095",  "a,b,label\n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "csv_%zu", i);
        dict_bytes(f, name, words[i], strlen(words[i]));
    }
    static const char *const policy[] = {
        "uvcc policy v1\n", "program any\n",    "\nprogram ", "\nopen ", "\nsteps ", "\ninput ",
        " to all\n",        "checkpoints no\n", " to ",       " * ",     "0-7",      "\n#"};
    for (size_t i = 0; i < sizeof policy / sizeof policy[0]; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "policy_%zu", i);
        dict_bytes(f, name, policy[i], strlen(policy[i]));
    }
}

static int check_dictionary(const char *path) {
    char *want = NULL;
    size_t len = 0;
    FILE *made = open_memstream(&want, &len), *f = fopen(path, "rb");
    if (made == NULL || f == NULL)
        die("%s: %s", path, strerror(errno));
    dictionary(made);
    (void)fclose(made);
    char *have = calloc(1, len + 2);
    size_t got = have != NULL ? fread(have, 1, len + 1, f) : 0;
    (void)fclose(f);
    bool same = got == len && memcmp(have, want, len) == 0;
    free(have);
    free(want);
    if (!same)
        die("%s is not what the .def tables give: run make_corpus tests/vectors fuzz", path);
    return 0;
}

/* ---- vectors ---- */

static json_t *load(const char *dir, const char *name) {
    char path[4096];
    json_error_t error;
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    json_t *o = json_load_file(path, 0, &error);
    if (o == NULL)
        die("%s:%d: %s", path, error.line, error.text);
    return o;
}

static size_t unhex(const char *hex, uint8_t **out) {
    size_t n = strlen(hex) / 2;
    *out = malloc(n + 1);
    if (*out == NULL)
        die("out of memory");
    for (size_t i = 0; i < n; i++) {
        char two[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
        (*out)[i] = (uint8_t)strtoul(two, NULL, 16);
    }
    return n;
}

static void vectors(const char *dir, const char *file, const char *target, const char *member,
                    int first) {
    static const char *const lists[] = {"vectors", "reject"};
    json_t *all = load(dir, file), *o;
    size_t i;
    for (size_t k = 0; k < 2; k++)
        json_array_foreach(json_object_get(all, lists[k]), i, o) {
            uint8_t *bytes;
            char name[128];
            const char *hex = json_string_value(json_object_get(o, member));
            const char *what = json_string_value(json_object_get(o, "name"));
            if (hex == NULL || what == NULL || strlen(hex) > 8192)
                continue;
            size_t len = unhex(hex, &bytes);
            (void)snprintf(name, sizeof name, "%s-%s", lists[k], what);
            seed(target, name, first, bytes, len);
            free(bytes);
        }
    json_decref(all);
}

static void mlp_csv(const char *dir) {
    json_t *all = load(dir, "mlp.json"), *line;
    char text[4096] = "";
    size_t i, len = 0;
    json_array_foreach(json_object_get(all, "csv"), i, line) {
        const char *row = json_string_value(line);
        if (row != NULL && len + strlen(row) + 2 < sizeof text)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s\n", row);
    }
    json_decref(all);
    seed_text("csv", "vectors", 0, text);
}

/* ---- recorded traffic ---- */

static uvcc_link *link_new(fuzz_mem *mem, fuzz_rng *rng, int i, bool datagram, uint8_t suite) {
    uvcc_link_config c;
    uvcc_link *l;
    uint8_t prk[32];
    uvcc_link_config_default(&c);
    c.alloc = fuzz_allocator(mem);
    c.random = fuzz_random(rng);
    c.me = (uint8_t)(i == 0 ? 2 : 0); /* the sender is the peer of frames.h */
    c.peer = (uint8_t)(i == 0 ? 0 : 2);
    c.datagram = datagram;
    c.sid_tag = 0x1122334455667788u;
    memset(prk, 0x42, sizeof prk);
    if (uvcc_link_new(&l, &c) != 0 || uvcc_link_set_run(l, 3) != 0 ||
        uvcc_link_set_step(l, 4) != 0 || (suite != 0 && uvcc_link_set_keys(l, suite, prk) != 0) ||
        uvcc_link_set_step(l, 5) != 0 || uvcc_link_start(l, FUZZ_MS) != 0)
        die("a link cannot be made");
    uvcc_link_stream_opened(l, FUZZ_MS);
    return l;
}

static void send_message(uvcc_link *l, uint8_t kind, uint32_t len, uint32_t op_id, uint64_t now) {
    uvcc_link_msg *m;
    const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {op_id * 100};
    if (uvcc_link_msg_new(l, kind, len, &m) != 0)
        die("no message");
    for (uint32_t i = 0; i < len; i++)
        uvcc_link_msg_data(m)[i] = (uint8_t)(i * 3);
    if (uvcc_link_send(l, m, 5, op_id, ids, 0, now) != 0)
        die("a message is not taken");
}

/* What one of two links sends until all is quiet: each packet, or the stream, as an input of
 * fuzz_frame, and the stream as raw bytes for fuzz_split. */
static void traffic(bool datagram, uint8_t suite) {
    fuzz_mem mem[2] = {{0}, {0}};
    fuzz_rng rng[2] = {{.state = 1}, {.state = 2}};
    uvcc_link *l[2];
    static uint8_t stream[65536], buf[65536];
    size_t stream_len = 0;
    unsigned packets = 0;
    for (int i = 0; i < 2; i++)
        l[i] = link_new(&mem[i], &rng[i], i, datagram, suite);
    uvcc_link_start(l[0], FUZZ_MS);
    for (uint64_t now = FUZZ_MS, turn = 0; turn < 40; turn++, now += FUZZ_MS) {
        if (turn == 3) {
            send_message(l[0], UVCC_FRAME_OPEN_BATCH, 40, 1, now);
            send_message(l[0], UVCC_FRAME_KEYS_BATCH, 1500, 2, now);
            send_message(l[0], UVCC_FRAME_STEP, 70, 0, now);
            send_message(l[0], UVCC_FRAME_INPUT_BATCH, 0, 3, now);
            (void)uvcc_link_send_hello(l[0], stream, 33, false);
        }
        for (int i = 0; i < 2; i++) {
            uvcc_transmit t;
            uvcc_link_on_timer(l[i], now);
            while (uvcc_link_poll_transmit(l[i], &t, now) == 1) {
                size_t len = 0;
                for (uint32_t k = 0; k < t.slice_count && len + t.slices[k].len <= sizeof buf;
                     k++) {
                    memcpy(buf + len, t.slices[k].data, t.slices[k].len);
                    len += t.slices[k].len;
                }
                if (i == 0 && stream_len + len <= sizeof stream) {
                    char name[64];
                    memcpy(stream + stream_len, buf, len);
                    stream_len += len;
                    (void)snprintf(name, sizeof name, "%s-suite%u-%u",
                                   datagram ? "packet" : "stream", suite, packets++);
                    if (packets <= 12)
                        seed("frame", name, -1, buf, len);
                }
                if (uvcc_link_transmit_done(l[i], t.id, t.total, now) != 0 ||
                    uvcc_link_feed(l[1 - i], buf, len, now) != 0)
                    die("recorded traffic is refused");
            }
            uvcc_link_rx rx;
            while (uvcc_link_poll_message(l[i], &rx) == 1) {
                (void)uvcc_link_accept(l[i], rx.token, now);
                (void)uvcc_link_release(l[i], rx.token, now);
            }
        }
    }
    if (!datagram && stream_len < UINT16_MAX) {
        static uint8_t input[sizeof stream + 6];
        char name[32];
        const uint8_t how = (uint8_t)(suite << 1);
        const uint8_t split[] = {how, 0, 1, 0xE0}, hostile[] = {how, 0, 0x84};
        (void)snprintf(name, sizeof name, "recorded-suite%u", suite);
        for (int k = 0; k < 2; k++) {
            size_t n = k == 0 ? sizeof split : sizeof hostile;
            memcpy(input, k == 0 ? split : hostile, n);
            uvcci_st16(input + n, (uint16_t)stream_len);
            memcpy(input + n + 2, stream, stream_len);
            seed(k == 0 ? "split" : "link_hostile", name, -1, input, n + 2 + stream_len);
        }
    }
    for (int i = 0; i < 2; i++)
        uvcc_link_free(l[i]);
}

/* ---- what has no vectors ---- */

static void step_messages(void) {
    uvcci_step_msg m = {.step = 5, .shape_count = 2, .shapes = {{1, 16, 64}, {2, 16, 10}}};
    uvcci_audit_msg_t a = {.party = 2, .step = 7};
    uint8_t out[UVCCI_STEP_MAX_BYTES];
    seed("stepmsg", "step", -1, out, (size_t)uvcci_step_encode(&m, out, sizeof out));
    m.shape_count = 0;
    seed("stepmsg", "step-empty", -1, out, (size_t)uvcci_step_encode(&m, out, sizeof out));
    m.shape_count = UVCCI_SHAPES_MAX;
    seed("stepmsg", "step-full", -1, out, (size_t)uvcci_step_encode(&m, out, sizeof out));
    m.shape_count = UVCCI_SHAPES_MAX + 1;
    seed("stepmsg", "step-hash", -1, out, (size_t)uvcci_step_encode(&m, out, sizeof out));
    seed("stepmsg", "audit", -1, out, (size_t)uvcci_audit_encode(&a, out, sizeof out));
    seed("stepmsg", "bye", -1, out, (size_t)uvcci_bye_encode(UVCC_ABORT_PLAN, out, sizeof out));
}

/* Programs of inputs: random bytes, each kind of link or session once. */
static void random_programs(const char *target, unsigned configs, unsigned step, size_t len) {
    uint8_t data[512];
    uint64_t random = configs;
    for (unsigned how = 0; how < configs; how += step) {
        char name[32];
        for (size_t i = 0; i < len; i++)
            data[i] = (uint8_t)(fuzz_next(&random) >> 24);
        (void)snprintf(name, sizeof name, "random-%02x", how);
        seed(target, name, (int)how, data, len);
    }
}

/* Products and a truncation by a DCF: bytes as fuzz_program.c reads them. */
static void dcf_program(void) {
    static const uint8_t actions[] = {0x0A,                             /* an entry */
                                      0x01, 0x0F, 0x01, 0x0F,           /* two of 4 x 4 */
                                      0x04, 0xA0, 0x00, 0x00, 0,    1,  /* GEMM_SS, shift 10 */
                                      0x04, 0xA1, 0x80, 0x00, 0,    1,  /* ELEM_MUL on a triple */
                                      0x04, 0xA7, 0x20, 0x00, 0,    0,  /* TRUNCATE */
                                      0x07, 0x01, 2,    0x07, 0x02, 4}; /* two outputs */
    uint8_t data[1 + sizeof actions] = {0}; /* all allocations succeed */
    memcpy(data + 1, actions, sizeof actions);
    seed("program", "dcf", 3, data, sizeof data);
}

/* Rows of a 4 x 4 input by numbers; a second table; of numbers that nobody gives. */
static void embed_program(void) {
    static const uint8_t actions[] = {0x0A,                         /* an entry */
                                      0x01, 0x0F,                   /* one of 4 x 4 */
                                      0xA7, 0x00, 0x0B, 0x00, 0xFF, /* four rows of it */
                                      0xA7, 0x1B, 0x09, 0x00, 0xFF, /* two and two */
                                      0xA7, 0x40, 0x0B, 0x00, 0xFF};
    uint8_t data[1 + sizeof actions] = {0};
    memcpy(data + 1, actions, sizeof actions);
    seed("program", "embed", 3, data, sizeof data - 5);
    seed("program", "embed-nobody", 3, data, sizeof data);
}

/* Words that nobody chooses, twice, and one that has too little room. */
static void random_words_program(void) {
    static const uint8_t actions[] = {0x0A,                             /* an entry */
                                      0x97, 0x14, 0x05,                 /* RANDOM of 20 bits */
                                      0x97, 0x3C, 0x10,                 /* of 60 */
                                      0x07, 0x01, 0,    0x07, 0x02, 1}; /* two outputs */
    uint8_t data[1 + sizeof actions + 3] = {0};
    memcpy(data + 1, actions, sizeof actions);
    seed("program", "words", 3, data, 1 + sizeof actions);
    memcpy(data + 1 + sizeof actions, (const uint8_t[]){0x97, 0x94, 0x05}, 3);
    seed("program", "words-tight", 3, data, sizeof data);
}

static void audits(void) {
    static fuzz_bundles b;
    uvcc_bundle d;
    uint8_t out[FUZZ_BUNDLE_BYTES], sign_seed[32];
    fuzz_bundles_make(&b);
    for (int p = 0; p < 3; p++) {
        char name[32];
        (void)snprintf(name, sizeof name, "bundle-%d", p);
        seed("audit", name, p % 2, b.bytes[p], b.len[p]);
    }
    if (uvcc_bundle_decode(&d, b.bytes[1], b.len[1], NULL) != 0)
        die("a bundle is refused");
    const uvcc_job_root j = {.party = 1,
                             .replicas = 1,
                             .stages = 1,
                             .tp_ranks = 1,
                             .step = d.step,
                             .run = d.run,
                             .first = d.first,
                             .sid_job = d.sid_job,
                             .policy_hash = d.policy_hash,
                             .step_roots = d.step_root};
    memset(sign_seed, 2, sizeof sign_seed);
    uvcc_audit_tree tree;
    uvcc_audit_tree_init(&tree);
    for (uint32_t i = d.first; i < d.step; i++) /* any roots of the steps before will do */
        (void)uvcc_audit_tree_add(&tree, d.step_root);
    if (uvcc_job_root_encode(&j, &tree, sign_seed, out, sizeof out) != 0)
        die("a root cannot be made");
    seed("audit", "job-root", 1, out, uvcc_job_root_bytes(1, 1, 1));
    int64_t len = uvcc_proof_make(&d, 3, NULL, out, sizeof out);
    seed("audit", "proof", 1, out, len > 0 ? (size_t)len : 0);
    random_programs("audit", 4, 1, 33);
}

static void texts(void) {
    seed_text("csv", "header", 0, "a,b,label\n1,2.5,0\n-3e2,4,1\n");
    seed_text("csv", "crlf-bom", 0, "\xEF\xBB\xBFx,y\r\n 1 , 2\r\n3,4\r\n\r\n");
    seed_text("csv", "named-label", 5, "labelx,label,y\n1,0,2\n2,1,2\n3,2,2\n4,3,2\n5,4,2\n");
    seed_text("csv", "numbered-label", 1, "11,0.5\n2,0.25\n");
    seed_text("csv", "short-row", 0, "1,2,3\n1,2\n");
    seed_text("csv", "long-row", 0, "1,2\n1,2,3\n");
    seed_text("csv", "quotes", 0, "1,\"2\"\n");
    seed_text("csv", "semicolons", 0, "1;2;3\n");
    seed_text("csv", "nan", 0, "1,2\nnan,1\n");
    seed_text("csv", "overflow", 0, "1e999,2\n");
    seed_text("csv", "empty-line", 0, "1,2\n\n3,4\n");
    seed_text(
        "options", "all", -1,
        "--data\nx.csv\n--label\n3\n--hidden\n64,32\n--epochs\n2\n--batch\n8\n--lr-shift\n3\n"
        "--frac-bits\n12\n--seed\n7\n--truncation\nsr\n--compute\ndeferred\n--compute-seed\n9\n"
        "--drop\n0.1\n--duplicate\n0.2\n--reorder\n1e-3\n--corrupt\n.5\n--fault-seed\n4\n--json\n-"
        "\n"
        "--progress\n");
    seed_text("options", "equals", -1, "--data=x\n--batch=16\n--hidden=1,2,3\n");
    seed_text("options", "dcf", -1, "--data=x\n--truncation\nars-dcf\n");
    seed_text("options", "help", -1, "-h\n");
    seed_text("options", "wrong", -1, "--data=x\n--batch=3\n");
    seed_text("options", "missing", -1, "--epochs\n");
}

/* Policies with every kind of line, and wrong ones. */
static void policies(void) {
#define HEAD "uvcc policy v1\nprogram any\n"
    seed_text("policy", "all-lines", -1,
              "uvcc policy v1\n# a comment\n\n"
              "program 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
              "open train 1 to 0\n  open   * 7-9 to all \nsteps * 400\nsteps reveal 0\n"
              "input train * 3200\ninput * 4-4294967295 18446744073709551615\ncheckpoints no\n");
    seed_text("policy", "least", -1, HEAD);
    seed_text("policy", "no-program", -1, "uvcc policy v1\nopen * * to all\n");
    seed_text("policy", "version", -1, "uvcc policy v2\nprogram any\n");
    seed_text("policy", "no-end", -1, HEAD "open * * to all");
    seed_text("policy", "range", -1, HEAD "open * 4-3 to all\n");
    seed_text("policy", "zeros", -1, HEAD "steps * 01\n");
    seed_text("policy", "too-large", -1, HEAD "steps * 18446744073709551616\n");
    seed_text("policy", "words", -1, HEAD "open a b c d e f g\n");
    seed_text("policy", "entry", -1,
              HEAD "steps 0123456789012345678901234567890123456789012345678901234567890123 1\n");
    char text[UVCC_POLICY_BYTES_MAX + 2] = HEAD;
    for (unsigned i = 0; i <= UVCC_POLICY_LIMITS_MAX; i++)
        memcpy(text + sizeof HEAD - 1 + 10 * i, "steps * 1\n", 10);
    seed_text("policy", "limits", -1, text);
    memset(text, '\n', UVCC_POLICY_BYTES_MAX + 1);
    memcpy(text, HEAD, sizeof HEAD - 1);
    seed_text("policy", "too-long", -1, text);
#undef HEAD
}

/* A safetensors file: what fuzz_model makes of its first byte, the header's length, header, values.
 */
static void safetensors(const char *name, const char *header, size_t values) {
    uint8_t bytes[1024] = {0};
    const size_t len = strlen(header);
    uvcci_st64(bytes, len);
    memcpy(bytes + 8, header, len);
    for (size_t i = 0; i < values; i++)
        bytes[8 + len + i] = (uint8_t)(60 + i);
    seed("model", name, 0, bytes, 8 + len + values);
}

/* Checkpoints: files of weights, good and bad ones, descriptions, and what convert writes. */
static void models(void) {
    safetensors("none", "{}", 0);
    safetensors("two",
                "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2,1],"
                "\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"BF16\",\"shape\":[3],"
                "\"data_offsets\":[8,14]}}  ",
                14);
    safetensors("dtypes",
                "{\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
                "\"b\":{\"dtype\":\"F16\",\"shape\":[0,4],\"data_offsets\":[8,8]},"
                "\"c\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[8,16]}}",
                16);
    safetensors("overlap",
                "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
                "\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}",
                6);
    safetensors("hole", "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[2,6]}}", 6);
    seed_text("model", "bert", 1,
              "{\"model_type\":\"bert\",\"hidden_size\":24,\"num_hidden_layers\":2,"
              "\"num_attention_heads\":3,\"intermediate_size\":40,\"vocab_size\":97,"
              "\"max_position_embeddings\":16,\"type_vocab_size\":2,\"hidden_act\":\"gelu\","
              "\"layer_norm_eps\":1e-12,\"use_cache\":true}");
    seed_text("model", "gpt2", 1,
              "{\"model_type\":\"gpt2\",\"n_embd\":24,\"n_layer\":2,\"n_head\":3,\"n_inner\":null,"
              "\"n_positions\":16,\"vocab_size\":97,\"scale_attn_weights\":false}");
    seed_text("model", "gpt_neo", 1,
              "{\"model_type\":\"gpt_neo\",\"hidden_size\":24,\"num_layers\":2,\"num_heads\":3,"
              "\"max_position_embeddings\":16,\"vocab_size\":97,\"window_size\":4,"
              "\"attention_types\":[[[\"global\",\"local\"],1]]}");
    seed_text("model", "llama", 1,
              "{\"model_type\":\"llama\",\"hidden_size\":24,\"num_hidden_layers\":2,"
              "\"num_attention_heads\":3,\"num_key_value_heads\":1,\"head_dim\":10,"
              "\"intermediate_size\":40,\"vocab_size\":97,\"rope_parameters\":{\"rope_theta\":1e4,"
              "\"rope_type\":\"default\"}}");
    /* of the first version and of the third, which has two members more */
#define WEIGHTS(ACTIVATION, MORE)                                                                  \
    "{\"config\":{\"activation\":\"" ACTIVATION "\",\"biases\":0,"                                 \
    "\"embedding_norm\":0,\"epsilon\":0.5,\"ff\":\"plain\",\"ff_width\":1,"                        \
    "\"frac_bits\":12,\"head\":\"none\",\"head_size\":0,\"heads\":1," MORE                         \
    "\"inner_bits\":0,\"input\":\"hidden\",\"kv_heads\":0,\"labels\":0,"                           \
    "\"last_norm\":0,\"layers\":1,\"logits_last\":0,\"mask\":\"none\","                            \
    "\"mode\":\"fast\",\"norm\":\"rms\",\"order\":\"pre\",\"padding\":0,"                          \
    "\"pool\":\"none\",\"segments\":0,\"positions\":\"none\","                                     \
    "\"rope_theta\":0.0,\"sequences\":1,\"tokens\":1,\"unscaled\":0,"                              \
    "\"window_layers\":\"0000000000000000\",\"window_period\":0,"                                  \
    "\"value_bits\":0,\"vocabulary\":0,\"weight_bits\":0,"                                         \
    "\"weights\":\"secret\",\"width\":1,\"window\":0},\"element_bytes\":4,"                        \
    "\"model_type\":\"bert\",\"parameters\":8}"
    seed_text("model", "weights", 2, WEIGHTS("relu", ""));
    seed_text("model", "weights-3", 2 | 2 << 2,
              WEIGHTS("gelu", "\"index_bits\":6,\"plain_norms\":0,"));
#undef WEIGHTS
}

/* The two calls of a triangle to party 0, whole, cut, and with a flipped bit. */
static void calls(void) {
    for (uint8_t from = 1; from < UVCC_PARTIES; from++) {
        uint8_t bytes[UVCC_CALL_BYTES];
        const uvcc_call c = {.from = from, .to = 0, .sid_tag = UINT64_C(0x0b290ba195f1bd1c)};
        if (uvcc_call_encode(bytes, &c) != 0)
            die("no call of party %u", from);
        seed("demux", from == 1 ? "call-1" : "call-2", -1, bytes, sizeof bytes);
        seed("demux", from == 1 ? "cut-1" : "cut-2", -1, bytes, from == 1 ? 5 : 23);
        bytes[from == 1 ? 6 : 21] ^= 1;
        seed("demux", from == 1 ? "bad-1" : "bad-2", -1, bytes, sizeof bytes);
    }
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--check") == 0)
        return check_dictionary(argv[2]);
    if (argc != 3 || argv[1][0] == '-')
        die("usage: make_corpus VECTORS FUZZ | make_corpus --check DICT");
    fuzz_dir = argv[2];
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/uvcc.dict", fuzz_dir);
    FILE *f = create(path);
    dictionary(f);
    if (fclose(f) != 0)
        die("%s: cannot be written", path);
    vectors(argv[1], "frame.json", "frame", "frame", -1);
    vectors(argv[1], "blv1.json", "blv1", "payload", 0);
    mlp_csv(argv[1]);
    step_messages();
    audits();
    for (uint8_t suite = 0; suite < 3; suite++) {
        traffic(true, suite);
        traffic(false, suite);
    }
    random_programs("blv1", 2, 1, 200);
    random_programs("link", 64, 7, 300);
    random_programs("link_hostile", 128, 9, 300);
    random_programs("link_acks", 64, 5, 300);
    random_programs("split", 128, 18, 300);
    random_programs("session", 256, 31, 120);
    random_programs("traitor", 256, 37, 150);
    random_programs("program", 8, 1, 300);
    random_programs("triple", 16, 1, 200);
    random_programs("demux", 64, 7, 512);
    random_programs("dialog", 64, 5, 400);
    random_programs("request", 64, 5, 400);
    dcf_program();
    random_words_program();
    embed_program();
    texts();
    policies();
    calls();
    models();
    return 0;
}
