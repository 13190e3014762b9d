/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - `uvcc audit`: the commands, their options, proofs and the texts of files. */
#include "audit.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "atomic_file.h"
#include "files.h"
#include "flags.h"

#define LINE_HEX      64u
#define MESSAGE_BYTES 512u

enum { WORDS_MAX = 3 };

typedef struct audit_options {
    const char *word[WORDS_MAX]; /* what is no option: the command first */
    int words;
    const char *keys, *json, *out, *worker, *run; /* NULL: not given */
    bool unfinished, progress, leaves, help;
} audit_options;

/* ---- options ---- */

#define AT(member) offsetof(audit_options, member)
static const flag options[] = {
    {"keys", "FILE", FLAG_TEXT, AT(keys), 0, 0, NULL,
     "the parties' public keys (DIR/public-keys). An auditor takes them from the parties, not from "
     "what is to be checked"},
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "verify, check: write the outcome as JSON; with -, alone on standard output"},
    {"unfinished", NULL, FLAG_SWITCH, AT(unfinished), 0, 0, NULL,
     "verify: let a run's last step pass if not all parties have it"},
    {"out", "FILE", FLAG_TEXT, AT(out), 0, 0, NULL,
     "prove: write the proof there (as hexadecimal to standard output)"},
    {"worker", "rRsStT", FLAG_TEXT, AT(worker), 0, 0, NULL,
     "prove: whose leaf: replica, stage, tensor rank (r0s0t0)"},
    {"run", "N", FLAG_TEXT, AT(run), 0, 0, NULL, "prove: of which run (the last with the step)"},
    {"leaves", NULL, FLAG_SWITCH, AT(leaves), 0, 0, NULL, "show: list the leaves too"},
    {"progress", NULL, FLAG_SWITCH, AT(progress), 0, 0, NULL,
     "show progress even where standard error is no terminal"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"audit", options, sizeof options / sizeof options[0], AT(help)};

static void print_help(void) {
    flags_text(stdout,
               "Usage: uvcc audit verify DIR [OPTION...]\n"
               "       uvcc audit prove DIR LEAF [OPTION...]\n"
               "       uvcc audit check PROOF --keys FILE\n"
               "       uvcc audit show FILE [--leaves]\n"
               "\n"
               "verify  checks the bundles that uvcc train --audit DIR wrote: each alone, the\n"
               "        three parties' against each other, and all signatures. It names the\n"
               "        first fault: file, leaf, and what differs from what.\n"
               "prove   proves that a leaf is under the root that its party signed. LEAF is\n"
               "        PARTY/STEP/INDEX or the leaf's hash, 64 hexadecimal digits.\n"
               "check   checks such a proof with the public keys alone, and says what it proves.\n"
               "show    shows what a bundle, a proof or a root over several workers says, "
               "unchecked.\n"
               "\n"
               "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout,
               "\n"
               "Exit status: 0 good, 1 a fault was found, 2 wrong options or files that cannot be "
               "used.\n");
}

static int parse(audit_options *o, int argc, char *const *argv) {
    char text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    const char **words = malloc(((size_t)argc + 1) * sizeof *words);
    *o = (audit_options){0};
    if (words == NULL)
        return report_error(AUDIT_UNUSABLE, "out of memory");
    int status = 0;
    if (flags_parse(&set, o, argc, argv, words, &o->words, &m) != 0)
        status = report_error(AUDIT_UNUSABLE, "%s", text);
    else if (o->words > WORDS_MAX && !o->help)
        status = report_error(AUDIT_UNUSABLE, "'%s' is one word too many", words[WORDS_MAX]);
    for (int i = 0; i < o->words && i < WORDS_MAX && status == 0; i++)
        o->word[i] = words[i];
    free(words);
    return status;
}

/* What a command does not take would do nothing: it is refused by name. */
static int refuse_idle(const audit_options *o, int argc, char *const *argv) {
    static const struct {
        const char *command, *takes; /* options with blanks around them */
    } commands[] = {{"verify", " keys json unfinished progress "},
                    {"prove", " keys out worker run "},
                    {"check", " keys json "},
                    {"show", " leaves "}};
    for (size_t c = 0; c < sizeof commands / sizeof commands[0]; c++)
        for (size_t i = 0; i < set.count && strcmp(commands[c].command, o->word[0]) == 0; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, " %s ", set.flags[i].name);
            if (strstr(commands[c].takes, name) == NULL &&
                flags_given(&set, argc, argv, set.flags[i].name))
                return report_error(AUDIT_UNUSABLE, "%s: --%s does nothing here; leave it out",
                                    o->word[0], set.flags[i].name);
        }
    return 0;
}

/* ---- small things ---- */

/* The files of this command begin so; then comes their version. */
static const char magic_bundle[] = "uvccbdl", magic_job_root[] = "uvccjob",
                  magic_proof[] = "uvccprf";

static void print_hex(FILE *to, const char *name, const uint8_t *bytes, size_t len) {
    (void)fprintf(to, "%-16s ", name);
    for (size_t i = 0; i < len; i++)
        (void)fprintf(to, "%02x", bytes[i]);
    (void)fputc('\n', to);
}

static bool parse_count(const char *text, char end, uint32_t *out, const char **rest) {
    uint64_t v = 0;
    const char *c = text;
    for (; *c >= '0' && *c <= '9' && v <= UINT32_MAX; c++)
        v = 10 * v + (uint64_t)(*c - '0');
    *out = (uint32_t)v;
    *rest = *c == '\0' ? c : c + 1;
    return c != text && v <= UINT32_MAX && *c == end;
}

static int flushed(void) {
    return report_output(AUDIT_UNUSABLE);
}

static int fault(const char *path, const uvcc_audit_fault *f) {
    char text[400];
    audit_fault_text(f, text, sizeof text);
    return report_error(AUDIT_FAULT, "%s: %s", path, text);
}

/* ---- leaves as text ---- */

static void print_leaf(const uvcc_leaf *l) {
    const uint8_t *s = l->stored;
    (void)printf("%-16s", uvcc_leaf_name(l->type));
    if (l->type != UVCC_LEAF_STEP_BEGIN)
        (void)printf(" op %08x", l->op_id);
    if (l->src != UVCC_NO_PARTY)
        (void)printf(" %u to %u", l->src, l->dst);
    const bool batch = l->src != UVCC_NO_PARTY && l->type != UVCC_LEAF_KEYS_DONE;
    if (batch)
        (void)printf(" msg %02x%02x%02x%02x", s[10], s[9], s[8], s[7]);
    if (l->type == UVCC_LEAF_OPEN_DONE || l->type == UVCC_LEAF_COMPONENT_COMMIT ||
        l->type == UVCC_LEAF_LIFT_DONE) {
        (void)printf(" id ");
        for (unsigned i = 0; i < 8; i++)
            (void)printf("%02x", s[12 - i]);
    }
    if (l->type == UVCC_LEAF_COMPONENT_COMMIT)
        (void)printf(" component %u", s[13]);
    if (l->digest != NULL) {
        (void)printf(" digest ");
        for (unsigned i = 0; i < 32; i++)
            (void)printf("%02x", l->digest[i]);
    }
}

/* All that the bundle claims comes before the leaves: whose it is shows without reading them. */
static int show_bundle(const audit_options *o, const uint8_t *bytes, size_t len) {
    uvcc_bundle b;
    uvcc_audit_fault f;
    if (uvcc_bundle_decode(&b, bytes, len, &f) != 0)
        return fault(o->word[1], &f);
    (void)printf("bundle           party %u, run %u, step %u, worker r%us%ut%u of %u x %u x %u\n",
                 b.party, b.run, b.step, b.replica, b.stage, b.tp_rank, b.replicas, b.stages,
                 b.tp_ranks);
    (void)printf("run began        with step %u\n", b.first);
    print_hex(stdout, "job", b.sid_job, 32);
    print_hex(stdout, "program", b.h_program, 32);
    print_hex(stdout, "policy", b.policy_hash, 32);
    (void)printf("op table         %u rows\nleaves           %u\n", b.row_count, b.leaf_count);
    print_hex(stdout, "step root", b.step_root, 32);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        char name[32];
        (void)snprintf(name, sizeof name, "root of party %u", p);
        if (b.audit[p].root == NULL) {
            (void)printf("%s is not here\n", name);
            continue;
        }
        print_hex(stdout, name, b.audit[p].root, 32);
        print_hex(stdout, "  audit root", b.audit[p].audit_root, 32);
        print_hex(stdout, "  goes on from", b.audit[p].before, 32);
    }
    uvcc_leaf_reader r;
    uvcc_leaf l;
    uvcc_leaf_reader_init(&r, &b);
    while (o->leaves && uvcc_leaf_next(&r, &l) == 1) {
        uint8_t hash[32];
        uvcc_leaf_hash(&b, &l, hash);
        (void)printf("leaf %-6u row %-5u ", l.index, l.row);
        print_leaf(&l);
        (void)printf(" hash ");
        for (unsigned i = 0; i < 32; i++)
            (void)printf("%02x", hash[i]);
        (void)putchar('\n');
    }
    return flushed();
}

static int show_job_root(const audit_options *o, const uint8_t *bytes, size_t len) {
    uvcc_job_root j;
    uvcc_audit_fault f;
    if (uvcc_job_root_decode(&j, bytes, len, &f) != 0)
        return fault(o->word[1], &f);
    (void)printf("root             party %u, run %u, step %u, %u x %u x %u workers\n", j.party,
                 j.run, j.step, j.replicas, j.stages, j.tp_ranks);
    print_hex(stdout, "job", j.sid_job, 32);
    print_hex(stdout, "policy", j.policy_hash, 32);
    size_t at = 0;
    for (unsigned r = 0; r < j.replicas; r++)
        for (unsigned s = 0; s < j.stages; s++)
            for (unsigned t = 0; t < j.tp_ranks; t++) {
                char name[32];
                (void)snprintf(name, sizeof name, "r%us%ut%u", r, s, t);
                print_hex(stdout, name, j.step_roots + 32 * at++, 32);
            }
    print_hex(stdout, "global root", j.global.root, 32);
    (void)printf("run began        with step %u\n", j.first);
    print_hex(stdout, "audit root", j.global.audit_root, 32);
    print_hex(stdout, "goes on from", j.global.before, 32);
    return flushed();
}

static void print_proof(FILE *to, const uvcc_proof *p) {
    (void)fprintf(to, "leaf             %s\n", uvcc_leaf_name(p->leaf[0]));
    print_hex(to, "leaf bytes", p->leaf, p->leaf_len);
    (void)fprintf(to, "place            index %u, party %u, run %u, step %u, worker r%us%ut%u\n",
                  p->index, p->party, p->run, p->step, p->replica, p->stage, p->tp_rank);
    print_hex(to, "job", p->sid_job, 32);
    print_hex(to, "policy", p->policy_hash, 32);
    (void)fprintf(to, "run began        with step %u\n", p->first);
    print_hex(to, "audit root", p->audit_root, 32);
    print_hex(to, "goes on from", p->before, 32);
    (void)fprintf(to, "under            %s\n",
                  p->of_job ? "the party's root over all its workers" : "the root of this worker");
}

/* ---- proofs as files ---- */

static int nibble(uint8_t c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Hexadecimal lines to bytes, in place; what is neither is left as it is. */
static void from_hex(uint8_t *bytes, size_t *len) {
    size_t n = 0;
    for (size_t i = 0; i < *len; i++)
        if (bytes[i] != '\n' && bytes[i] != '\r' && nibble(bytes[i]) < 0)
            return;
        else
            n += nibble(bytes[i]) >= 0;
    if (n == 0 || n % 2 != 0)
        return;
    n = 0;
    for (size_t i = 0; i < *len; i++) {
        int v = nibble(bytes[i]);
        if (v < 0)
            continue;
        if (n % 2 == 0)
            bytes[n / 2] = (uint8_t)(v << 4);
        else
            bytes[n / 2] |= (uint8_t)v;
        n++;
    }
    *len = n / 2;
}

/* Reads, decodes and checks it; *bytes are the caller's to free in any case. */
static int check_proof(const audit_options *o, uint8_t **bytes, uvcc_proof *p,
                       uvcc_audit_fault *f) {
    uvcc_audit_keys keys;
    size_t len;
    if (o->words != 2)
        return report_error(AUDIT_UNUSABLE, "check: give one PROOF");
    if (o->keys == NULL)
        return report_error(AUDIT_UNUSABLE, "check: --keys FILE is missing; name the public keys");
    int status = bundle_keys_read(o->keys, AUDIT_UNUSABLE, &keys);
    if (status == 0)
        status = file_read(o->word[1], AUDIT_UNUSABLE, bytes, &len);
    if (status != 0)
        return status;
    from_hex(*bytes, &len);
    if (uvcc_proof_decode(p, *bytes, len, f) != 0 || uvcc_proof_check(p, &keys, f) != 0)
        return fault(o->word[1], f);
    return 0;
}

static json_t *hex_json(const uint8_t *bytes, size_t len) {
    char text[2 * UVCC_LEAF_MAX_BYTES + 1];
    return json_string(sodium_bin2hex(text, sizeof text, bytes, len));
}

/* What is proved; of a proof that is not good only what is wrong with it. */
static json_t *proof_json(const uvcc_proof *p, const uvcc_audit_fault *f, int status) {
    if (status != AUDIT_GOOD)
        return json_pack("{s:b, s:o, s:s}", "good", 0, "kind",
                         status == AUDIT_FAULT ? json_integer(f->kind) : json_null(), "error",
                         report_last());
    return json_pack("{s:b, s:i, s:I, s:I, s:I, s:i, s:i, s:i, s:I, s:s, s:b, s:o, s:o, s:o, s:o, "
                     "s:o, s:n, s:n}",
                     "good", 1, "party", p->party, "run", (json_int_t)p->run, "step",
                     (json_int_t)p->step, "first_step", (json_int_t)p->first, "replica", p->replica,
                     "stage", p->stage, "tensor_rank", p->tp_rank, "index", (json_int_t)p->index,
                     "type", uvcc_leaf_name(p->leaf[0]), "of_job", p->of_job, "leaf",
                     hex_json(p->leaf, p->leaf_len), "job", report_hex(p->sid_job, 32), "policy",
                     report_hex(p->policy_hash, 32), "audit_root", report_hex(p->audit_root, 32),
                     "before", report_hex(p->before, 32), "kind", "error");
}

/* The JSON object is written whatever happened, as that of verify. */
static int check(const audit_options *o) {
    uvcc_audit_fault f = {.kind = UVCC_FAULT_NONE};
    uvcc_proof p;
    uint8_t *bytes = NULL;
    report_json *json = report_json_open(o->json);
    if (json == NULL)
        return AUDIT_UNUSABLE;
    int status = check_proof(o, &bytes, &p, &f);
    if (report_json_put(json, proof_json(&p, &f, status)) != EXIT_DONE)
        status = AUDIT_UNUSABLE;
    if (status == AUDIT_GOOD) {
        FILE *to = report_stream(o->json);
        print_proof(to, &p);
        (void)fprintf(
            to,
            "proved           party %u signed a transcript of step %u of run %u with this leaf\n",
            p.party, p.step, p.run);
        status = flushed();
    }
    report_json_close(json);
    free(bytes);
    return status;
}

/* One of the three kinds, of any version. */
static bool is_evidence(const uint8_t *bytes, size_t len) {
    static const char *const magic[] = {magic_bundle, magic_job_root, magic_proof};
    for (size_t i = 0; i < sizeof magic / sizeof magic[0]; i++)
        if (len >= 8 && memcmp(bytes, magic[i], 7) == 0)
            return true;
    return false;
}

static int show(const audit_options *o) {
    uint8_t *bytes;
    size_t len;
    uvcc_proof p;
    uvcc_audit_fault f;
    if (o->words != 2)
        return report_error(AUDIT_UNUSABLE, "show: give one FILE");
    int status = file_read(o->word[1], AUDIT_UNUSABLE, &bytes, &len);
    if (status == 0) {
        from_hex(bytes, &len);
        if (!is_evidence(bytes, len)) {
            status = report_error(
                AUDIT_UNUSABLE,
                "%s: is no bundle, no proof and no root over several workers; name such a file",
                o->word[1]);
        } else if (memcmp(bytes, magic_job_root, 7) == 0) {
            status = show_job_root(o, bytes, len);
        } else if (memcmp(bytes, magic_bundle, 7) == 0) {
            status = show_bundle(o, bytes, len);
        } else if (uvcc_proof_decode(&p, bytes, len, &f) != 0) {
            status = fault(o->word[1], &f);
        } else {
            print_proof(stdout, &p);
            status = flushed();
        }
    }
    free(bytes);
    return status;
}

/* ---- making proofs ---- */

/* Which leaf: by place, or by hash. */
typedef struct wanted {
    bool by_hash, any_run;
    bundle_place at;
    uint32_t index;
    uint8_t hash[32];
} wanted;

static int parse_leaf(const audit_options *o, wanted *w) {
    const char *text = o->word[2], *rest;
    uint32_t party;
    size_t n = 0;
    *w = (wanted){.any_run = o->run == NULL};
    if (o->worker != NULL && !bundle_parse_worker(o->worker, &w->at))
        return report_error(AUDIT_UNUSABLE, "--worker %s: give a worker such as r0s1t0", o->worker);
    if (o->run != NULL && !parse_count(o->run, '\0', &w->at.run, &rest))
        return report_error(AUDIT_UNUSABLE, "--run %s: give the number of a run", o->run);
    if (strlen(text) == 64 && sodium_hex2bin(w->hash, 32, text, 64, NULL, &n, NULL) == 0 &&
        n == 32) {
        w->by_hash = true;
        return 0;
    }
    if (!parse_count(text, '/', &party, &rest) || party >= UVCC_PARTIES ||
        !parse_count(rest, '/', &w->at.step, &rest) || !parse_count(rest, '\0', &w->index, &rest))
        return report_error(AUDIT_UNUSABLE,
                            "%s: give a leaf as PARTY/STEP/INDEX, such as 0/12/3, or its hash",
                            text);
    w->at.party = (uint8_t)party;
    return 0;
}

/* The index of the leaf with the hash, or UVCC_NO_LEAF. */
static uint32_t find_hash(const uvcc_bundle *b, const uint8_t hash[32]) {
    uvcc_leaf_reader r;
    uvcc_leaf l;
    uint8_t h[32];
    uvcc_leaf_reader_init(&r, b);
    while (uvcc_leaf_next(&r, &l) == 1) {
        uvcc_leaf_hash(b, &l, h);
        if (memcmp(h, hash, 32) == 0)
            return l.index;
    }
    return UVCC_NO_LEAF;
}

/* Whether the wanted leaf may be in a file; runs are tried from the last. */
static bool candidate(const wanted *w, const bundle_place *e) {
    if (e->job || (!w->any_run && e->run != w->at.run))
        return false;
    return w->by_hash || (e->party == w->at.party && e->step == w->at.step && e->r == w->at.r &&
                          e->s == w->at.s && e->t == w->at.t);
}

/* Looks into one file: *found with the bundle, whose bytes the caller frees in any case. */
static int look_into(const audit_options *o, const bundle_place *e, wanted *w, uint8_t **bytes,
                     uvcc_bundle *b, bool *found) {
    size_t len;
    uvcc_audit_fault f;
    char *path = audit_path(o->word[1], e);
    if (path == NULL)
        return AUDIT_UNUSABLE;
    int status = file_read(path, AUDIT_UNUSABLE, bytes, &len);
    if (status == 0 && uvcc_bundle_decode(b, *bytes, len, &f) != 0)
        status = fault(path, &f);
    if (status == 0 && w->by_hash)
        w->index = find_hash(b, w->hash);
    *found = status == 0 && (!w->by_hash || w->index != UVCC_NO_LEAF);
    if (*found && w->index >= b->leaf_count)
        status = report_error(AUDIT_UNUSABLE, "%s: has %u leaves, so no leaf %u", path,
                              b->leaf_count, w->index);
    free(path);
    return status;
}

static int write_proof(const audit_options *o, const uint8_t *bytes, size_t len) {
    if (o->out != NULL) {
        int status;
        atomic_file *out = atomic_file_open("out", o->out, &status);
        if (out == NULL)
            return AUDIT_UNUSABLE;
        (void)fwrite(bytes, 1, len, atomic_file_stream(out));
        status = atomic_file_finish(out) == EXIT_DONE ? 0 : AUDIT_UNUSABLE;
        atomic_file_close(out);
        return status;
    }
    for (size_t i = 0; i < len; i++)
        (void)printf("%02x%s", bytes[i], i % (LINE_HEX / 2) == LINE_HEX / 2 - 1 ? "\n" : "");
    (void)putchar('\n');
    return flushed();
}

/* Makes the proof, and does not hand out one that does not hold. */
static int make_proof(const audit_options *o, const uvcc_bundle *b, uint32_t index,
                      const uvcc_job_root *job, const uvcc_audit_keys *keys) {
    size_t cap = uvcc_proof_max_bytes(job);
    uint8_t *bytes = malloc(cap);
    uvcc_proof p;
    uvcc_audit_fault f;
    int status;
    if (bytes == NULL)
        return report_error(AUDIT_UNUSABLE, "out of memory");
    int64_t len = uvcc_proof_make(b, index, job, bytes, cap);
    if (len == UVCC_ERR_MISMATCH)
        status = report_error(AUDIT_FAULT, "the root over all workers is not over this bundle");
    else if (len < 0)
        status = report_error(AUDIT_UNUSABLE, "%s", uvcc_error_text((int)len));
    else if (uvcc_proof_decode(&p, bytes, (size_t)len, &f) != 0 ||
             uvcc_proof_check(&p, keys, &f) != 0)
        status = fault("the proof", &f);
    else
        status = write_proof(o, bytes, (size_t)len);
    free(bytes);
    return status;
}

/* With several workers the proof goes up to the root over all of them. */
static int prove_in(const audit_options *o, const uvcc_bundle *b, uint32_t index,
                    const uvcc_audit_keys *keys) {
    if ((uint64_t)b->replicas * b->stages * b->tp_ranks == 1)
        return make_proof(o, b, index, NULL, keys);
    const bundle_place at = {.party = b->party, .job = true, .run = b->run, .step = b->step};
    uint8_t *bytes;
    size_t len;
    uvcc_job_root j;
    uvcc_audit_fault f;
    char *path = audit_path(o->word[1], &at);
    if (path == NULL)
        return AUDIT_UNUSABLE;
    int status = file_read(path, AUDIT_UNUSABLE, &bytes, &len);
    if (status == 0 &&
        (uvcc_job_root_decode(&j, bytes, len, &f) != 0 || uvcc_job_root_check(&j, keys, &f) != 0))
        status = fault(path, &f);
    if (status == 0)
        status = make_proof(o, b, index, &j, keys);
    free(path);
    free(bytes);
    return status;
}

/* How far a bundle's place is to fit what is wanted; what follows next is what may differ. */
enum fit { FIT_PARTY, FIT_WORKER, FIT_RUN };

static uint64_t next_of(const bundle_place *e, enum fit fit) {
    return fit == FIT_PARTY    ? (uint64_t)e->r << 32 | (uint64_t)e->s << 16 | e->t
           : fit == FIT_WORKER ? e->run
                               : e->step;
}

/* Of the bundles that fit so far those with the least and the greatest of what follows. */
static bool span_of(const audit_list *l, const wanted *w, enum fit fit, bundle_place *least,
                    bundle_place *most) {
    bool any = false;
    for (size_t i = 0; i < l->count; i++) {
        const bundle_place *e = &l->entries[i];
        const bool worker = e->r == w->at.r && e->s == w->at.s && e->t == w->at.t;
        if (e->job || e->party != w->at.party || (fit >= FIT_WORKER && !worker) ||
            (fit >= FIT_RUN && !w->any_run && e->run != w->at.run))
            continue;
        if (!any || next_of(e, fit) < next_of(least, fit))
            *least = *e;
        if (!any || next_of(e, fit) > next_of(most, fit))
            *most = *e;
        any = true;
    }
    return any;
}

/* Nothing is at the place that was named: how far it fits, and what there is instead. */
static int not_there(const audit_options *o, const audit_list *l, const wanted *w) {
    const char *leaf = o->word[2], *dir = o->word[1];
    const bundle_place *at = &w->at;
    bundle_place a, b;
    if (w->by_hash)
        return report_error(AUDIT_UNUSABLE, "%s: no leaf in %s has this hash%s", leaf, dir,
                            w->any_run ? "" : ", in this run");
    if (!span_of(l, w, FIT_PARTY, &a, &b))
        return report_error(AUDIT_UNUSABLE, "%s: %s has no bundles of party %u", leaf, dir,
                            at->party);
    if (!span_of(l, w, FIT_WORKER, &a, &b)) {
        (void)span_of(l, w, FIT_PARTY, &a, &b);
        return report_error(AUDIT_UNUSABLE,
                            "%s: %s has no worker r%us%ut%u: they are r%us%ut%u to r%us%ut%u", leaf,
                            dir, at->r, at->s, at->t, a.r, a.s, a.t, b.r, b.s, b.t);
    }
    if (!w->any_run && !span_of(l, w, FIT_RUN, &a, &b)) {
        (void)span_of(l, w, FIT_WORKER, &a, &b);
        return report_error(AUDIT_UNUSABLE, "%s: %s has no run %u: its runs are %u to %u", leaf,
                            dir, at->run, a.run, b.run);
    }
    (void)span_of(l, w, FIT_RUN, &a, &b);
    return report_error(AUDIT_UNUSABLE, "%s: %s has no step %u%s: its steps are %u to %u", leaf,
                        dir, at->step, w->any_run ? "" : " of this run", a.step, b.step);
}

/* From the latest bundle back: a leaf that a restart made again counts as it was made last. */
static int prove(const audit_options *o) {
    wanted w;
    audit_list list;
    uvcc_audit_keys keys;
    if (o->words != 3)
        return report_error(AUDIT_UNUSABLE, "prove: give DIR and LEAF");
    int status = parse_leaf(o, &w);
    if (status != 0)
        return status;
    size_t room = strlen(o->word[1]) + 16;
    char *path = malloc(room);
    if (path == NULL)
        return report_error(AUDIT_UNUSABLE, "out of memory");
    (void)snprintf(path, room, "%s/public-keys", o->word[1]);
    status = audit_list_read(o->word[1], &list);
    if (status == 0)
        status = bundle_keys_read(o->keys != NULL ? o->keys : path, AUDIT_UNUSABLE, &keys);
    free(path);
    bool found = false;
    for (size_t i = list.count; i-- > 0 && status == 0 && !found;) {
        uint8_t *bytes = NULL;
        uvcc_bundle b;
        if (!candidate(&w, &list.entries[i]))
            continue;
        status = look_into(o, &list.entries[i], &w, &bytes, &b, &found);
        if (status == 0 && found)
            status = prove_in(o, &b, w.index, &keys);
        free(bytes);
    }
    if (status == 0 && !found)
        status = not_there(o, &list, &w);
    audit_list_free(&list);
    return status;
}

/* ---- the command ---- */

static int verify(const audit_options *o) {
    return audit_verify(&(verify_options){.dir = o->words == 2 ? o->word[1] : NULL,
                                          .keys = o->keys,
                                          .json = o->json,
                                          .unfinished = o->unfinished,
                                          .progress = o->progress});
}

int audit_main(int argc, char *const *argv) {
    audit_options o;
    report_command("audit");
    int status = parse(&o, argc, argv);
    if (status != 0)
        return status;
    if (o.help) {
        print_help();
        return flushed();
    }
    if (o.words == 0)
        return report_error(AUDIT_UNUSABLE,
                            "give one of verify, prove, check, show; see uvcc audit --help");
    if (sodium_init() < 0)
        return report_error(AUDIT_UNUSABLE, "libsodium cannot start");
    if (refuse_idle(&o, argc, argv) != 0)
        return AUDIT_UNUSABLE;
    if (strcmp(o.word[0], "verify") == 0)
        return verify(&o);
    if (strcmp(o.word[0], "prove") == 0)
        return prove(&o);
    if (strcmp(o.word[0], "check") == 0)
        return check(&o);
    if (strcmp(o.word[0], "show") == 0)
        return show(&o);
    return report_error(AUDIT_UNUSABLE,
                        "there is no command '%s': give one of verify, prove, check, show",
                        o.word[0]);
}
