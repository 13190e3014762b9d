/* SPDX-License-Identifier: Apache-2.0 */
/* make_run.c - runs one small program in three sessions and leaves their logs and bundles, for the
 * reader in Python to recompute:
 *
 *     make_run DIR
 *
 * The program has what a training does not: a checked product, products on triples, one of them in
 * tiles, each kind of lift and truncation, a function whose keys have two widths. known.py knows it
 * op by op. Run 4 has suite 1, run 5 suite 2 and triples that run 3 made. Run 6, in DIR/large, has
 * a program of large ops in a window of one byte, so that their segments run one by one; large.py
 * knows it. All randomness is of one counter, so a run can be repeated. Public headers only.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <uvcc/loopback.h>
#include <uvcc/uvcc.h>

enum { F = 16, STEPS = 2, IN_X = 1, IN_W = 2, IN_V = 3, OUT_FIRST = 10, PATH = 512, USER_RUN = 5 };
enum { SIDE = 769, LONG = 530001, ROWS = 400, COLS = 500, LARGE_RUN = 6 };

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "make_run: %s:%d: %s\n", __FILE__, __LINE__, #x);                      \
            exit(EXIT_FAILURE);                                                                    \
        }                                                                                          \
    } while (0)

/* ---- the program ---- */

static uint32_t tensor(uvcc_program *p, const char *name, uint32_t rows, uint32_t cols,
                       uint8_t bits, uint8_t scale) {
    const int t = uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = name,
                                                             .rows = rows,
                                                             .cols = cols,
                                                             .bits = bits,
                                                             .scale = scale,
                                                             .lifetime = UVCC_TRANSIENT,
                                                             .in_buffer_of = UVCC_NO_TENSOR});
    CHECK(t >= 0);
    return (uint32_t)t;
}

/* Keys of the pairs' differences come first, so the narrow group of keys does. */
static uint16_t function(uvcc_program *p) {
    static const int64_t zero = 0, one = 1, five = 5;
    static const uvcc_fn_instr list[] = {
        {.kind = UVCC_FN_OPEN, .io = 0, .bits = 64, .a = UVCC_FN_NONE, .b = UVCC_FN_NONE},
        {.kind = UVCC_FN_PAIR_DIFF, .a = 0},
        {.kind = UVCC_FN_COMPARE, .a = 1, .bits = 30, .word_count = 1, .words = &zero},
        {.kind = UVCC_FN_BITS, .a = 2, .word_count = 1, .words = &five},
        {.kind = UVCC_FN_COMPARE, .a = 0, .bits = 29, .word_count = 1, .words = &zero},
        {.kind = UVCC_FN_SELECT, .a = 4, .b = 0, .word_count = 1, .words = &one},
        {.kind = UVCC_FN_LIFT, .a = 5, .io = 0},
        {.kind = UVCC_FN_LIFT, .a = 3, .io = 1},
    };
    const uvcc_function f = {
        .name = "two widths", .inputs = 1, .outputs = 2, .instr_count = 8, .instrs = list};
    const int i = uvcc_program_function(p, &f);
    CHECK(i >= 0);
    return (uint16_t)i;
}

static void op(uvcc_program *p, uvcc_op_desc desc) {
    static uint16_t k;
    desc.k = k++;
    CHECK(uvcc_program_op(p, &desc) >= 0);
}

#define IN(...)  .in = {__VA_ARGS__}, .in_count = sizeof((uint32_t[]){__VA_ARGS__}) / 4
#define OUT(...) .out = {__VA_ARGS__}, .out_count = sizeof((uint32_t[]){__VA_ARGS__}) / 4

static uvcc_program *make_program(void) {
    const uvcc_allocator alloc = uvcc_host_allocator();
    uvcc_program *p = NULL;
    char message[256] = "";
    CHECK(uvcc_program_new(&p, &alloc) == 0);
    const uint32_t x = tensor(p, "X", 2, 3, 20, F), w = tensor(p, "W", 3, 2, 20, F);
    const uint32_t v = tensor(p, "V", 2, 2, 20, F), c = tensor(p, "C", 2, 2, 42, 2 * F);
    const uint32_t z = tensor(p, "Z", 2, 2, 26, F), y = tensor(p, "Y", 2, 2, 26, F);
    const uint32_t d = tensor(p, "D", 2, 2, 1, 0), b = tensor(p, "B", 2, 2, 30, F);
    const uint32_t s = tensor(p, "S", 2, 2, 26, F), e = tensor(p, "E", 2, 2, 46, 2 * F);
    const uint32_t g = tensor(p, "G", 2, 2, 29, F), h = tensor(p, "H", 2, 1, 10, F);
    const uint32_t n = tensor(p, "N", 2, 2, 30, F), y2 = tensor(p, "Y2", 2, 2, 26, F);
    const uint32_t d2 = tensor(p, "D2", 2, 2, 1, 0), r = tensor(p, "R", 2, 2, 21, F - 5);
    const uint16_t fn = function(p);
    CHECK(uvcc_program_entry(p, "all") >= 0);
    CHECK(uvcc_program_input(p, IN_X, x, 0) >= 0 && uvcc_program_input(p, IN_W, w, 1) >= 0 &&
          uvcc_program_input(p, IN_V, v, 2) >= 0);
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_GEMM_SS, IN(x, w), OUT(c)});
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_SKS_START, IN(x, w, c), .constant = 1000});
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE, IN(c), OUT(z), .shift = F});
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_RELU, IN(z), OUT(y, d)});
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_ELEM_MUL,
                         IN(y, v),
                         OUT(b),
                         .shift = F,
                         .flags = UVCC_OP_BEAVER,
                         .truncation = UVCC_TRUNC_EXACT_DCF,
                         .lift = UVCC_LIFT_EXCHANGE});
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE,
                         IN(c),
                         OUT(s),
                         .shift = F,
                         .truncation = UVCC_TRUNC_STOCHASTIC,
                         .lift = UVCC_LIFT_SEQUENTIAL});
    op(p,
       (uvcc_op_desc){
           .opcode = UVCC_OP_ELEM_MUL, IN(z, v), OUT(e), .flags = UVCC_OP_BEAVER, .tile_rows = 1});
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_FUNCTION, IN(z), OUT(g, h), .function = fn});
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_ELEM_MUL,
                         IN(z, v),
                         OUT(n),
                         .shift = F,
                         .truncation = UVCC_TRUNC_STOCHASTIC});
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_TRUNCATE,
                         IN(z),
                         OUT(r),
                         .shift = 5,
                         .truncation = UVCC_TRUNC_STOCHASTIC});
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_RELU, IN(z), OUT(y2, d2), .flags = UVCC_OP_CIRCUIT});
    op(p, (uvcc_op_desc){.opcode = UVCC_OP_SKS_GEMM_CHECK, IN(x, w, c)});
    const uint32_t outs[] = {b, s, e, g, h, n, y2, r};
    for (uint32_t i = 0; i < sizeof outs / sizeof *outs; i++)
        CHECK(uvcc_program_output(p, OUT_FIRST + i, outs[i]) >= 0);
    if (uvcc_program_finish(p, message, sizeof message) != 0) {
        fprintf(stderr, "make_run: %s\n", message);
        exit(EXIT_FAILURE);
    }
    return p;
}

/* Products cut between rows, truncations between elements, for what they are and for their keys. */
static uvcc_program *make_large(void) {
    const uvcc_allocator alloc = uvcc_host_allocator();
    uvcc_program *p = NULL;
    char message[256] = "";
    uint16_t k = 0;
    CHECK(uvcc_program_new(&p, &alloc) == 0 && uvcc_program_window(p, 1) == 0);
    const uint32_t a = tensor(p, "A", SIDE, 1, 10, 0), b = tensor(p, "B", 1, SIDE, 10, 0);
    const uint32_t x = tensor(p, "X", 1, LONG, 30, F), c = tensor(p, "C", SIDE, SIDE, 20, 0);
    const uint32_t t = tensor(p, "T", 1, LONG, 23, F - 7), u = tensor(p, "U", 1, LONG, 41, 13);
    const uint32_t g = tensor(p, "G", ROWS, 1, 10, 0), h = tensor(p, "H", 1, COLS, 10, F);
    const uint32_t d = tensor(p, "D", ROWS, COLS, 20, F), v = tensor(p, "V", ROWS, COLS, 4, 0);
    const uint32_t in[] = {a, b, x, g, h};
    const uvcc_op_desc ops[] = {
        {.opcode = UVCC_OP_GEMM_SS, IN(a, b), OUT(c)},
        {.opcode = UVCC_OP_TRUNCATE,
         IN(x),
         OUT(t),
         .shift = 7,
         .truncation = UVCC_TRUNC_STOCHASTIC},
        {.opcode = UVCC_OP_ELEM_MUL,
         IN(t, t),
         OUT(u),
         .shift = 5,
         .truncation = UVCC_TRUNC_STOCHASTIC},
        {.opcode = UVCC_OP_GEMM_SS, IN(g, h), OUT(d)},
        {.opcode = UVCC_OP_TRUNCATE, IN(d), OUT(v), .shift = F},
    };
    CHECK(uvcc_program_entry(p, "all") >= 0);
    for (uint32_t i = 0; i < sizeof in / sizeof *in; i++)
        CHECK(uvcc_program_input(p, 1 + i, in[i], (uint8_t)(i % UVCC_PARTIES)) >= 0);
    for (uint32_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        uvcc_op_desc desc = ops[i];
        desc.k = k++;
        CHECK(uvcc_program_op(p, &desc) >= 0);
    }
    CHECK(uvcc_program_output(p, OUT_FIRST, u) >= 0 &&
          uvcc_program_output(p, OUT_FIRST + 1, v) >= 0);
    CHECK(uvcc_program_output_to(p, OUT_FIRST + 2, c, 1) >= 0);
    if (uvcc_program_finish(p, message, sizeof message) != 0) {
        fprintf(stderr, "make_run: %s\n", message);
        exit(EXIT_FAILURE);
    }
    return p;
}

/* ---- files ---- */

static FILE *create(const char *path) {
    char dir[PATH];
    for (const char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
        CHECK(mkdir(dir, 0777) == 0 || errno == EEXIST);
    }
    FILE *f = fopen(path, "wb");
    CHECK(f != NULL);
    return f;
}

static void write_file(const char *path, const void *data, size_t len) {
    FILE *f = create(path);
    CHECK(fwrite(data, 1, len, f) == len && fclose(f) == 0);
}

static void log_write(void *user, const uint8_t *bytes, size_t len) {
    CHECK(fwrite(bytes, 1, len, user) == len);
}

/* ---- three parties ---- */

/* What runs: a program, its steps, and what owners give to each. */
struct given {
    uint32_t id;
    uint8_t owner;
    const int64_t *values;
};

struct work {
    uvcc_program *program;
    uint32_t steps, count;
    const struct given *given;
};

struct party {
    const struct work *work;
    uvcc_session *session;
    uvcc_cpu *cpu;
    uvcc_triple_store *store;
    FILE *log;
    uint64_t random;
    uint8_t id;
    bool maker, closed;
};

/* Not random at all: SplitMix64 of a counter. What is made here protects nothing. */
static int fill(void *user, void *out, size_t bytes) {
    struct party *h = user;
    uint8_t *to = out;
    for (size_t i = 0; i < bytes; i++) {
        uint64_t a = (h->random += 0x9e3779b97f4a7c15u);
        a = (a ^ (a >> 30)) * 0xbf58476d1ce4e5b9u;
        a = (a ^ (a >> 27)) * 0x94d049bb133111ebu;
        to[i] = (uint8_t)(a >> 56);
    }
    return 0;
}

/* Agrees to the next step and gives the own input, or closes after the last. */
static void begin_step(struct party *h, uint32_t run, uint32_t step, uint64_t now) {
    const struct work *w = h->work;
    if (step >= w->steps) {
        CHECK(uvcc_session_close(h->session, now) == 0);
        return;
    }
    if (h->store != NULL && !h->maker) {
        const uint8_t *data;
        size_t len;
        CHECK(uvcc_triple_store_take(h->store, run, step, &data, &len) == 0 && len > 0);
        CHECK(uvcc_session_load_triples(h->session, data, len) == 0);
    }
    CHECK(uvcc_session_step(h->session, step, 0, now) == 0);
    if (h->maker)
        return;
    for (uint32_t i = 0; i < w->count; i++)
        if (h->id == w->given[i].owner)
            CHECK(uvcc_session_input(h->session, step, w->given[i].id, w->given[i].values, now) ==
                  0);
}

static void on_event(struct party *h, const char *dir, const uvcc_event *ev, uint64_t now) {
    char path[PATH];
    const uint8_t *data;
    size_t len;
    if (ev->kind == UVCC_EVENT_READY)
        begin_step(h, ev->run, ev->step, now);
    if (ev->kind == UVCC_EVENT_STEP_FINISHED)
        begin_step(h, ev->run, ev->step + 1, now);
    if (ev->kind == UVCC_EVENT_BUNDLE) {
        CHECK(uvcc_session_bundle(h->session, ev->step, &data, &len) == 0);
        snprintf(path, sizeof path, "%s/evidence/party-%u/r0s0t0/run-%06u/step-%08u.bundle", dir,
                 h->id, ev->run, ev->step);
        write_file(path, data, len);
    }
    if (ev->kind == UVCC_EVENT_TRIPLES) {
        uint32_t step;
        CHECK(uvcc_session_triples(h->session, &step, &data, &len) == 0 && step == ev->step);
        CHECK(uvcc_triple_store_add(h->store, data, len) == 0);
    }
    if (ev->kind == UVCC_EVENT_ABORTED)
        fprintf(stderr, "make_run: party %u: aborted: %s\n", h->id, ev->text);
    CHECK(ev->kind != UVCC_EVENT_ABORTED);
    h->closed |= ev->kind == UVCC_EVENT_CLOSED;
}

static void config(uvcc_config *cfg, struct party *h, uint32_t run) {
    CHECK(uvcc_config_default(cfg, sizeof *cfg) == 0);
    cfg->alloc = uvcc_host_allocator();
    cfg->random = (uvcc_random){.fill = fill, .user = h};
    cfg->record = (uvcc_recorder){.write = log_write, .user = h->log};
    cfg->identity.party = h->id;
    memset(cfg->identity.sid_job, 0x51, 32);
    memset(cfg->identity.sign_seed, 0x61 + h->id, 32);
    memset(cfg->identity.policy_hash, 0x71, 32);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        memset(cfg->identity.pair_secret[p], (int)(0x81 + h->id + p), 32);
    cfg->resume.next_run = run;
    cfg->checks.bundles = !h->maker;
    cfg->checks.audit_off = h->maker;
    cfg->triples.only = h->maker;
    cfg->triples.run = h->maker ? USER_RUN : 0;
    cfg->links.suites = run % 2 == 0 ? UVCC_SUITE_CHACHA20_POLY1305 : UVCC_SUITES_ALL;
}

static void run(struct party *all, const char *dir, const struct work *work, uint32_t number) {
    const uvcc_allocator alloc = uvcc_host_allocator();
    const uvcc_cpu_config cpu = {.size = sizeof cpu, .alloc = alloc, .mode = UVCC_CPU_INLINE};
    uvcc_session *sessions[UVCC_PARTIES];
    uvcc_cpu *cpus[UVCC_PARTIES];
    uvcc_loopback *net = NULL;
    char path[PATH];
    CHECK(uvcc_loopback_new(&net, &alloc, UVCC_PARTIES, false, 1) == 0);
    for (uint8_t i = 0; i < UVCC_PARTIES; i++) {
        struct party *h = &all[i];
        uvcc_config cfg;
        h->closed = false;
        h->work = work;
        snprintf(path, sizeof path, "%s/logs-%u/party%u.uvlog", dir, number, i);
        h->log = create(path);
        config(&cfg, h, number);
        CHECK(uvcc_cpu_new(&h->cpu, &cpu) == 0 && uvcc_session_new(&h->session, &cfg) == 0);
        CHECK(uvcc_session_load_program(h->session, work->program) == 0);
        CHECK(uvcc_session_start(h->session, uvcc_loopback_now(net)) == 0);
        sessions[i] = h->session;
        cpus[i] = h->cpu;
    }
    for (int left = UVCC_PARTIES; left > 0;) {
        CHECK(uvcc_loopback_drive(net, sessions, cpus, UVCC_PARTIES) >= 0);
        left = UVCC_PARTIES;
        for (uint8_t i = 0; i < UVCC_PARTIES; i++) {
            uvcc_event ev;
            while (uvcc_session_poll_event(sessions[i], &ev) == 1)
                on_event(&all[i], dir, &ev, uvcc_loopback_now(net));
            left -= all[i].closed;
        }
    }
    for (uint8_t i = 0; i < UVCC_PARTIES; i++) {
        uvcc_session_free(sessions[i]);
        uvcc_cpu_free(cpus[i]);
        CHECK(fclose(all[i].log) == 0);
    }
    uvcc_loopback_free(net);
}

/* Any values that declare so many bits, of both signs. */
static int64_t *numbers(size_t n, unsigned bits, uint64_t seed) {
    int64_t *v = malloc(n * sizeof *v);
    CHECK(v != NULL);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        v[i] = (int64_t)(seed >> (64 - bits)) - ((int64_t)1 << (bits - 1));
    }
    return v;
}

static void run_large(struct party *all, const char *top) {
    static const size_t size[] = {SIDE, SIDE, LONG, ROWS, COLS};
    static const unsigned bits[] = {10, 10, 30, 10, 10};
    struct given given[5];
    int64_t *values[5];
    char dir[PATH];
    for (uint32_t i = 0; i < 5; i++) {
        values[i] = numbers(size[i], bits[i], i);
        given[i] = (struct given){1 + i, (uint8_t)(i % UVCC_PARTIES), values[i]};
    }
    const struct work work = {make_large(), 1, 5, given};
    snprintf(dir, sizeof dir, "%s/large", top);
    run(all, dir, &work, LARGE_RUN);
    uvcc_program_free(work.program);
    for (uint32_t i = 0; i < 5; i++)
        free(values[i]);
}

int main(int argc, char **argv) {
    static const int64_t x[] = {98304, -131072, 16384, 32768, 65536, -65536};
    static const int64_t w[] = {65536, -32768, 131072, 16384, -262144, 524287};
    static const int64_t v[] = {65536, -98304, 32768, 40000};
    static const struct given given[] = {{IN_X, 0, x}, {IN_W, 1, w}, {IN_V, 2, v}};
    struct party all[UVCC_PARTIES] = {
        {.id = 0, .random = 11}, {.id = 1, .random = 22}, {.id = 2, .random = 33}};
    const uvcc_allocator alloc = uvcc_host_allocator();
    if (argc != 2) {
        fprintf(stderr, "usage: make_run DIR\n");
        return 2;
    }
    const struct work work = {make_program(), STEPS, 3, given};
    run(all, argv[1], &work, 4);
    for (unsigned i = 0; i < UVCC_PARTIES; i++) {
        all[i].maker = true;
        CHECK(uvcc_triple_store_new(&all[i].store, &alloc) == 0);
    }
    run(all, argv[1], &work, 3);
    for (unsigned i = 0; i < UVCC_PARTIES; i++)
        all[i].maker = false;
    run(all, argv[1], &work, USER_RUN);
    for (unsigned i = 0; i < UVCC_PARTIES; i++) {
        uvcc_triple_store_free(all[i].store);
        all[i].store = NULL;
    }
    uvcc_program_free(work.program);
    run_large(all, argv[1]);
    return EXIT_SUCCESS;
}
