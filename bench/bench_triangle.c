/* SPDX-License-Identifier: Apache-2.0 */
/* bench_triangle.c - three parties on this machine: sessions with sealed links, everything from the
 * first message of a step to its last, preprocessing included. Operands are shares already there;
 * nothing is opened. Who drives the sessions is one of
 *
 *     parties    a thread for each party, which computes too, as in the tools (tools/parties.h)
 *     workers    the same, and a thread for each party's jobs
 *     turns      one thread over the in-memory network, and a thread for each party's jobs
 *
 * One JSON object per line. Each variant runs several steps; the first, which finds cold memory, is
 * left out, the median of the others is given, with the best of them and the processor time of all
 * threads ("cpu_seconds": what of it counts where others use the machine, too). "bytes" are those
 * of all parties, "memory_bytes" the most that party 0's session had, beside that of its tensors.
 *
 *     bench_triangle [PART OF A NAME [parties|workers|turns]...]
 *
 * "one_op" is one op of 2^26 products, in the usual window and in one of 64 MiB; "deep" a training
 * step of 48 layers and 64 microbatches of one sequence, narrow ones, since it is about the size of
 * the program. Either takes 10 GB, so they run by their names only. So do the forward passes of a
 * layer of BERT-base, "bert_layer/128" and "bert_layer/512" tokens, whose "memory_bytes" are all
 * that the session had, and "embed/V", the rows of 128 tokens of a secret table of V rows and 768
 * columns, by one-hot rows that are shared, by token ids of a party and by keys of a client's. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <uvcc/loopback.h>
#include <uvcc/model.h>
#include <uvcc/nonlinear.h>
#include <uvcc/transformer.h>
#include <uvcc/uvcc.h>

#include "../tools/parties.h"

enum { STEPS = 11, PIECE = 1 << 15 };
static const char large[] = "one_op", deep[] = "deep", layer[] = "bert_layer", embed[] = "embed/";

typedef enum drive_by { PARTIES, WORKERS, TURNS, DRIVERS } drive_by;
static const char *const driver_names[DRIVERS] = {"parties", "workers", "turns"};

static double read_clock(clockid_t which) {
    struct timespec t;
    clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double now(void) {
    return read_clock(CLOCK_MONOTONIC);
}

static void check(int rc, const char *what) {
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_triangle: %s: %s\n", what, uvcc_error_text(rc));
    exit(1);
}

/* ---- programs ---- */

typedef struct workload {
    const char *name;
    uint64_t work;  /* elements; multiplications of one product for GEMM */
    unsigned steps; /* up to STEPS */
    bool audit;
    uvcc_program *p;
} workload;

static uint32_t add_tensor(uvcc_program *p, const char *stem, unsigned i, uvcc_tensor_desc d) {
    char name[64];
    snprintf(name, sizeof name, "%s%u", stem, i);
    d.name = name;
    d.in_buffer_of = UVCC_NO_TENSOR;
    int rc = uvcc_program_tensor(p, &d);
    check(rc, "tensor");
    return (uint32_t)rc;
}

static uvcc_program *begin(void) {
    uvcc_program *p;
    uvcc_allocator al = uvcc_host_allocator();
    check(uvcc_program_new(&p, &al), "program");
    check(uvcc_program_entry(p, "run"), "entry");
    return p;
}

static uvcc_program *end(uvcc_program *p) {
    char why[256];
    int rc = uvcc_program_finish(p, why, sizeof why);
    if (rc != 0) {
        fprintf(stderr, "bench_triangle: %s\n", why);
        exit(1);
    }
    return p;
}

/* x of n elements cut into ops of PIECE each, so that keys, messages and computing overlap. */
static uvcc_program *elements(uint32_t n, uvcc_op_desc op, uint8_t bits, uint8_t scale) {
    uvcc_program *p = begin();
    for (unsigned i = 0; n != 0; i++) {
        const uint32_t piece = n < PIECE ? n : PIECE;
        uvcc_tensor_desc d = {.rows = 1, .cols = piece, .bits = bits, .scale = scale};
        op.in[0] = op.in[1] = add_tensor(p, "x", i, d);
        d.lifetime = UVCC_TRANSIENT;
        d.bits = op.opcode == UVCC_OP_ELEM_MUL ? (uint8_t)(2 * bits - op.shift) : bits;
        d.scale = op.opcode == UVCC_OP_ELEM_MUL ? (uint8_t)(2 * scale - op.shift) : scale;
        op.out[0] = add_tensor(p, "y", i, d);
        d.bits = 1;
        d.scale = 0;
        if (op.out_count == 2)
            op.out[1] = add_tensor(p, "d", i, d);
        op.k = (uint16_t)i;
        check(uvcc_program_op(p, &op), "op");
        n -= piece;
    }
    return end(p);
}

static uvcc_program *product(uint32_t n, uvcc_truncation truncation) {
    uvcc_program *p = begin();
    uvcc_tensor_desc d = {.rows = n, .cols = n, .bits = 24, .scale = 16};
    uint32_t a = add_tensor(p, "a", 0, d), b = add_tensor(p, "b", 0, d);
    d.lifetime = UVCC_TRANSIENT;
    d.bits = 45;
    uvcc_op_desc op = {.opcode = UVCC_OP_GEMM_SS,
                       .in_count = 2,
                       .out_count = 1,
                       .in = {a, b},
                       .shift = 16,
                       .truncation = (uint8_t)truncation};
    op.out[0] = add_tensor(p, "c", 0, d);
    check(uvcc_program_op(p, &op), "op");
    return end(p);
}

static uvcc_program *nonlinear(uvcc_nonlinear what, uint32_t rows, uint32_t cols, uint8_t bits) {
    uvcc_program *p = begin();
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_nonlinear_options o = {.size = sizeof o, .scale = 16, .in_bits = bits, .cols = cols};
    uint16_t k = 0;
    const uint32_t most = PIECE / cols;
    for (unsigned i = 0; rows != 0; i++) {
        const uint32_t piece = rows < most ? rows : most;
        char prefix[32];
        snprintf(prefix, sizeof prefix, "t%u.", i);
        uvcc_tensor_desc in = {.rows = piece, .cols = cols, .bits = bits, .scale = 16}, out[4];
        uint32_t x = add_tensor(p, "x", i, in), y[4];
        uvcc_emit e = {.program = p, .k = k, .prefix = prefix, .alloc = &al};
        int n = uvcc_nonlinear_output(what, &o, &in, out);
        check(n, "nonlinear");
        for (int j = 0; j < n; j++)
            y[j] = add_tensor(p, j == 0 ? "y" : "z", i, out[j]);
        check(uvcc_emit_nonlinear(&e, what, &o, &x, y), "nonlinear");
        k = e.k;
        rows -= piece;
    }
    return end(p);
}

/* A layer of BERT-base on hidden states that are shares already. */
static uvcc_program *bert_layer(uint32_t tokens, uint8_t inner_bits) {
    uvcc_program *p = begin();
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_config c;
    uvcc_tensor_desc x;
    char why[256];
    uint32_t weights[32], y;
    uvcc_emit e = {.program = p, .prefix = "", .alloc = &al};
    check(uvcc_model_default(&c, sizeof c), "model");
    c.tokens = tokens;
    c.inner_bits = inner_bits;
    c.epsilon = 1e-5;
    check(uvcc_model_weights(&c, p, "", weights, why, sizeof why), why);
    check(uvcc_model_inputs(&c, &x, NULL), "model");
    x.lifetime = UVCC_PERSIST;
    check(uvcc_model_emit(&c, &e, weights, add_tensor(p, "x", 0, x), UVCC_NO_TENSOR, &y, why,
                          sizeof why),
          why);
    return end(p);
}

/* Rows of a table: of one-hot rows, of ids, or of keys that a client deals (here zeros, of which no
 * time depends). */
typedef enum embedding_by { BY_ROWS, BY_IDS, BY_KEYS } embedding_by;
static uvcc_program *embedding(uint32_t vocabulary, embedding_by by) {
    enum { TOKENS = 128, WIDTH = 768 };
    const bool ids = by != BY_ROWS;
    uvcc_program *p = begin();
    uvcc_tensor_desc d = {.rows = vocabulary, .cols = WIDTH, .bits = 20, .scale = 16};
    const uint32_t table = add_tensor(p, "E", 0, d);
    d.lifetime = UVCC_TRANSIENT;
    d.rows = TOKENS;
    d.bits = 20 + 1 + 20; /* a sum of all rows, as one-hot rows might be */
    const uint32_t z = add_tensor(p, "z", 0, d);
    d.sharing = UVCC_ADDITIVE;
    const uint32_t part = ids ? add_tensor(p, "part", 0, d) : 0;
    d = (uvcc_tensor_desc){.rows = TOKENS,
                           .cols = ids ? 1 : vocabulary,
                           .bits = ids ? 20 : 1,
                           .lifetime = by == BY_KEYS ? UVCC_PERSIST : UVCC_TRANSIENT,
                           .sharing = ids ? UVCC_ONE_HOT : UVCC_REPLICATED};
    for (unsigned bits = 1; ids && 1u << bits < 2 * vocabulary; bits++)
        d.bits = (uint8_t)bits;
    const uint32_t x = add_tensor(p, "x", 0, d);
    if (by != BY_KEYS)
        check(uvcc_program_input(p, 1, x, 0), "input");
    uvcc_op_desc op = {.opcode = ids ? UVCC_OP_EMBED : UVCC_OP_GEMM_SS,
                       .in_count = 2,
                       .in = {x, table},
                       .out_count = 1,
                       .out = {ids ? part : z}};
    check(uvcc_program_op(p, &op), "op");
    op = (uvcc_op_desc){
        .opcode = UVCC_OP_RESHARE, .k = 1, .in_count = 1, .in = {part}, .out_count = 1, .out = {z}};
    if (ids)
        check(uvcc_program_op(p, &op), "op");
    return end(p);
}

/* n products in one op. */
static uvcc_program *one_op(uint32_t n, uvcc_op_desc op, uint64_t window) {
    uvcc_program *p = begin();
    uvcc_tensor_desc d = {.rows = 1, .cols = n, .bits = 22, .scale = 16};
    op.in[0] = op.in[1] = add_tensor(p, "x", 0, d);
    d.lifetime = UVCC_TRANSIENT;
    d.bits = 28;
    op.out[0] = add_tensor(p, "y", 0, d);
    check(uvcc_program_op(p, &op), "op");
    check(uvcc_program_window(p, window), "window");
    return end(p);
}

/* A training step of a model that is deep and narrow. */
static uvcc_program *deep_model(void) {
    const uvcc_transformer_worker only = {0, 0, 0};
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_transformer_config c;
    uvcc_program *p = NULL;
    check(uvcc_transformer_default(&c, sizeof c), "options");
    c.layers = 48;
    c.batch = c.microbatches = 64;
    c.context = 4;
    c.dim = c.hidden = 16;
    c.heads = 2;
    check(uvcc_transformer_program(&p, &c, &only, &al, NULL, 0), "program");
    return p;
}

typedef struct triangle {
    drive_by by;
    uvcc_loopback *net;
    parties *threads;
    uvcc_session *s[3];
    uvcc_cpu *cpu[3];
    uvcc_seeded_random random[3];
    atomic_uint finished, ready;
    unsigned until_ready, until_finished;
} triangle;

static bool hear(triangle *t, unsigned i) {
    uvcc_event e;
    bool heard = false;
    for (; uvcc_session_poll_event(t->s[i], &e) == 1; heard = true) {
        atomic_fetch_add(&t->finished, e.kind == UVCC_EVENT_STEP_FINISHED);
        atomic_fetch_add(&t->ready, e.kind == UVCC_EVENT_READY);
        if (e.kind == UVCC_EVENT_ABORTED) {
            fprintf(stderr, "bench_triangle: aborted: %s\n", e.text);
            exit(1);
        }
    }
    return heard;
}

static bool there(triangle *t) {
    return atomic_load(&t->ready) >= t->until_ready &&
           atomic_load(&t->finished) >= t->until_finished;
}

static int hear_party(void *user, uint32_t worker, unsigned party, bool *moved) {
    triangle *t = user;
    (void)worker; /* there is one */
    *moved |= hear(t, party);
    return there(t);
}

static uint64_t now_of(const triangle *t) {
    return t->by == TURNS ? uvcc_loopback_now(t->net) : parties_now(t->threads);
}

static void drive(triangle *t, const char *name) {
    int rc = 1;
    while (!there(t) && rc > 0) {
        rc =
            t->by == TURNS ? uvcc_loopback_drive(t->net, t->s, t->cpu, 3) : parties_run(t->threads);
        check(rc, "drive");
        for (unsigned i = 0; i < 3; i++)
            (void)hear(t, i);
    }
    if (rc == 0) {
        fprintf(stderr, "bench_triangle: %s: stuck\n", name);
        exit(1);
    }
}

static void open_executor(triangle *t, uint8_t i) {
    uvcc_cpu_config x = {.size = sizeof x,
                         .alloc = uvcc_host_allocator(),
                         .mode = t->by == PARTIES ? UVCC_CPU_INLINE : UVCC_CPU_THREADS,
                         .threads = 1};
    if (t->by != TURNS)
        parties_configure(t->threads, 0, i, &x);
    check(uvcc_cpu_new(&t->cpu[i], &x), "executor");
    if (t->by != TURNS)
        parties_join(t->threads, 0, i, t->s[i], t->cpu[i]);
}

static void open_triangle(triangle *t, const workload *w, drive_by by) {
    uvcc_allocator al = uvcc_host_allocator();
    memset(t, 0, sizeof *t);
    t->by = by;
    const parties_config threads = {.workers = 1, .user = t, .hear = hear_party};
    check(uvcc_loopback_new(&t->net, &al, 3, false, 1), "network");
    check(parties_new(&t->threads, &threads), "threads");
    for (uint8_t i = 0; i < 3; i++) {
        uvcc_config c;
        check(uvcc_config_default(&c, sizeof c), "config");
        c.alloc = al;
        c.random = uvcc_seeded(&t->random[i], 1, i);
        c.identity.party = i;
        c.checks.audit_off = !w->audit;
        memset(c.identity.sid_job, 5, 32);
        memset(c.identity.sign_seed, 0x40 + i, 32);
        for (uint8_t q = 0; q < 3; q++)
            memset(c.identity.pair_secret[q], 0x10 << ((i + q) % 3) | 1, 32);
        check(uvcc_session_new(&t->s[i], &c), "session");
        check(uvcc_session_load_program(t->s[i], w->p), "load");
        for (uint32_t k = 0; k < uvcc_program_tensor_count(w->p); k++) {
            const uvcc_tensor_desc *d = uvcc_program_tensor_at(w->p, k);
            if (d->lifetime != UVCC_PERSIST || d->sharing == UVCC_ONE_HOT)
                continue; /* or keys, which are zeros where nobody sets them */
            const size_t n = (size_t)d->rows * d->cols;
            int64_t *v = malloc(n * sizeof *v);
            for (size_t j = 0; v != NULL && j < n; j++)
                v[j] = (int64_t)((j * 2654435761u % (1u << 16) + 4096) & ((1ull << d->bits) - 1));
            check(v != NULL ? uvcc_session_set_public(t->s[i], k, v) : UVCC_ERR_NOMEM, "values");
            free(v);
        }
        open_executor(t, i);
        check(uvcc_session_start(t->s[i], 0), "start");
    }
}

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t bytes_of(const triangle *t, bool keys) {
    uint64_t sum = 0;
    uvcc_session_stats st;
    for (unsigned i = 0; i < 3; i++) {
        uvcc_session_get_stats(t->s[i], &st);
        sum += keys ? st.bytes_preprocessing : st.bytes_online;
    }
    return sum;
}

/* A triangle that ran some steps. */
typedef struct variant {
    triangle t;
    workload w;
    double seconds[STEPS], cpu[STEPS]; /* cpu: of all threads */
} variant;

/* Zeros. */
static void give_inputs(triangle *t, const uvcc_program *p, uint32_t step) {
    for (uint32_t k = 0; k < uvcc_program_input_count(p, 0); k++) {
        const uvcc_io_desc *io = uvcc_program_input_at(p, 0, k);
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
        int64_t *v = calloc((size_t)d->rows * d->cols, sizeof *v);
        check(v != NULL ? uvcc_session_input(t->s[io->owner], step, io->id, v, now_of(t))
                        : UVCC_ERR_NOMEM,
              "input");
        free(v);
    }
}

static void run_step(variant *v, uint32_t step) {
    triangle *t = &v->t;
    const double start = now(), cpu = read_clock(CLOCK_PROCESS_CPUTIME_ID);
    for (unsigned i = 0; i < 3; i++)
        check(uvcc_session_step(t->s[i], step, 0, now_of(t)), "step");
    give_inputs(t, v->w.p, step);
    t->until_finished = 3 * (step + 1);
    drive(t, v->w.name);
    v->seconds[step] = now() - start;
    v->cpu[step] = read_clock(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}

static uint64_t tensors_of(const uvcc_program *p) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < uvcc_program_tensor_count(p); i++) {
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, i);
        bytes += 16ull * d->rows * d->cols;
    }
    return bytes;
}

static bool is_layer(const char *name) {
    return strncmp(name, layer, strlen(layer)) == 0;
}

static void say(variant *v) {
    uvcc_session_stats st;
    uvcc_session_get_stats(v->t.s[0], &st);
    const unsigned steps = v->w.steps;
    qsort(v->seconds + 1, steps - 1, sizeof *v->seconds, by_size);
    qsort(v->cpu + 1, steps - 1, sizeof *v->cpu, by_size);
    const double median = v->seconds[1 + (steps - 1) / 2];
    printf("{\"bench\": \"triangle/%s\", \"driver\": \"%s\", \"audit\": %s, \"seconds\": %.4g, "
           "\"best\": %.4g, \"cpu_seconds\": %.4g, "
           "\"per_second\": %.4g, \"online_bytes\": %.4g, \"key_bytes\": %.4g, \"rounds\": %.4g, "
           "\"memory_bytes\": %.4g}\n",
           v->w.name, driver_names[v->t.by], v->w.audit ? "true" : "false", median, v->seconds[1],
           v->cpu[1 + (steps - 1) / 2], (double)v->w.work / median,
           (double)bytes_of(&v->t, false) / steps, (double)bytes_of(&v->t, true) / steps,
           (double)st.rounds / steps,
           (double)(st.memory_peak_bytes - (is_layer(v->w.name) ? 0 : tensors_of(v->w.p))));
    fflush(stdout);
}

static void close_triangle(triangle *t) {
    for (unsigned i = 0; i < 3; i++) {
        uvcc_cpu_free(t->cpu[i]);
        uvcc_session_free(t->s[i]);
    }
    parties_free(t->threads);
    uvcc_loopback_free(t->net);
}

/* Steps of all variants take turns: what else the machine does slows all of them. */
static void measure(variant *v, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        open_triangle(&v[i].t, &v[i].w, v[i].t.by);
        v[i].t.until_ready = 3;
        drive(&v[i].t, v[i].w.name);
    }
    for (uint32_t step = 0; step < v->w.steps; step++)
        for (unsigned i = 0; i < count; i++)
            run_step(&v[i], step);
    for (unsigned i = 0; i < count; i++) {
        say(&v[i]);
        close_triangle(&v[i].t);
    }
}

/* What the words of the command line leave. */
typedef struct choice {
    const char *part; /* of a name; NULL: all */
    bool drivers[DRIVERS];
} choice;

static bool is_wanted(const choice *only, const char *name) {
    return only->part == NULL || strstr(name, only->part) != NULL;
}

static void run(const choice *only, const char *name, uint64_t work, uvcc_program *p) {
    variant v[2 * DRIVERS];
    unsigned count = 0;
    const bool alone = strstr(name, large) != NULL || strstr(name, "bert_layer/512") != NULL ||
                       strncmp(name, embed, sizeof embed - 1) == 0;
    const unsigned steps = strstr(name, deep) != NULL ? 2 : alone ? 3 : is_layer(name) ? 7 : STEPS;
    for (unsigned k = 0; k < 2 * DRIVERS; k++)
        if (only->drivers[k / 2])
            v[count++] = (variant){
                .t.by = (drive_by)(k / 2),
                .w = {.name = name, .work = work, .steps = steps, .audit = k % 2 != 0, .p = p}};
    for (unsigned k = 0; k < count && alone; k++) /* one variant at a time: for want of memory */
        measure(&v[k], 1);
    if (!alone && is_wanted(only, name))
        measure(v, count);
    uvcc_program_free(p);
}

static choice choose(int argc, char **argv) {
    choice c = {.part = argc > 1 ? argv[1] : NULL};
    for (drive_by d = 0; d < DRIVERS; d++) {
        c.drivers[d] = argc < 3;
        for (int i = 2; i < argc; i++)
            c.drivers[d] |= strcmp(argv[i], driver_names[d]) == 0;
    }
    return c;
}

int main(int argc, char **argv) {
    uvcc_host_keep_memory();
    const choice chosen = choose(argc, argv), *only = &chosen;
    const uint32_t million = 1000000;
    uvcc_op_desc relu = {.opcode = UVCC_OP_RELU, .in_count = 1, .out_count = 2};
    const uvcc_op_desc mul = {.opcode = UVCC_OP_ELEM_MUL,
                              .in_count = 2,
                              .out_count = 1,
                              .shift = 16,
                              .truncation = UVCC_TRUNC_STOCHASTIC};
    if (only->part != NULL && strcmp(only->part, large) == 0) {
        run(only, "product/2^26_one_op", 1u << 26, one_op(1u << 26, mul, UVCC_WINDOW_BYTES));
        run(only, "product/2^26_one_op_64_MiB", 1u << 26, one_op(1u << 26, mul, 64u << 20));
        return 0;
    }
    if (only->part != NULL && is_layer(only->part)) {
        const bool longer = strcmp(only->part, "bert_layer/512") == 0;
        run(only, longer ? only->part : "bert_layer/128", 1, bert_layer(longer ? 512 : 128, 0));
        if (!longer) /* scores and the activation's inputs below 32 */
            run(only, "bert_layer/128_inner_5", 1, bert_layer(128, 5));
        return 0;
    }
    if (only->part != NULL && strncmp(only->part, embed, sizeof embed - 1) == 0) {
        const uint32_t rows = (uint32_t)strtoul(only->part + sizeof embed - 1, NULL, 10);
        run(only, "embed/one-hot", rows, embedding(rows, BY_ROWS));
        run(only, "embed/ids", rows, embedding(rows, BY_IDS));
        run(only, "embed/keys", rows, embedding(rows, BY_KEYS));
        return 0;
    }
    if (only->part != NULL && strcmp(only->part, deep) == 0) {
        uvcc_program *p = deep_model();
        run(only, "step/deep", uvcc_program_op_count(p, 0), p);
        return 0;
    }
    run(only, "relu/fss/31_bits", million, elements(million, relu, 30, 16));
    relu.flags = UVCC_OP_CIRCUIT;
    run(only, "relu/circuit/31_bits", million, elements(million, relu, 30, 16));
    run(only, "relu/circuit/62_bits", million, elements(million, relu, 61, 16));
    run(only, "product/1e6", million, elements(million, mul, 22, 16));
    run(only, "gemm/512", 1ull << 27, product(512, UVCC_TRUNC_STOCHASTIC));
    run(only, "gemm/1024", 1ull << 30, product(1024, UVCC_TRUNC_STOCHASTIC));
    run(only, "gemm/1024 exact", 1ull << 30, product(1024, UVCC_TRUNC_EXACT));
    run(only, "gemm/1024 exact, by DCF", 1ull << 30, product(1024, UVCC_TRUNC_EXACT_DCF));
    static const struct {
        const char *name;
        uvcc_nonlinear what;
        uint8_t bits;
        uint32_t cols;
    } functions[] = {
        {"exp/1e5", UVCC_NL_EXP, 23, 1},
        {"gelu/1e5", UVCC_NL_GELU, 22, 1},
        {"reciprocal/1e5", UVCC_NL_RECIPROCAL, 29, 1},
        {"rsqrt/1e5", UVCC_NL_RSQRT, 29, 1},
        {"softmax/1e5_in_rows_of_128", UVCC_NL_SOFTMAX, 22, 128},
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        run(only, functions[i].name, 100000,
            nonlinear(functions[i].what, 100000 / functions[i].cols, functions[i].cols,
                      functions[i].bits));
    return 0;
}
