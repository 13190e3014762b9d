/* SPDX-License-Identifier: Apache-2.0 */
/* bench_model.c - the forward pass of a transformer, or one function of it, among three parties
 * that are threads of this process, on a card (one executor for each party) or on the CPU. Keys are
 * dealt before the input is there, and counted apart. One JSON object for each model.
 *
 * "keys_seconds" goes from the beginning of the step until all parties wait for the input,
 * "online_seconds" from there until the output is open. Weights and input are random numbers of the
 * ranges of a trained model. Of several steps the medians; the first, which finds cold memory, is
 * left out. "output" is a digest of what was opened: equal for equal seeds, whatever computes. */
#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <uvcc/gpu.h>
#include <uvcc/model.h>
#include <uvcc/uvcc.h>

#include "../../tools/parties.h"

#define KEYS_BYTES  ((uint64_t)16 << 30)
#define FRAME_BYTES (128u << 10) /* a peer opens one while the next is sealed */

enum { STEPS_MAX = 64, KINDS_MAX = 256, SKIPPED = 77 };

typedef struct options {
    const char *model, *compute;
    uint32_t layers, tokens, steps, streams;
    uint8_t frac_bits;
    bool audit, exact, trust, breakdown, check;
} options;

typedef struct timing {
    double seconds;
    uint64_t jobs;
} timing;

typedef struct party_run {
    uvcc_session *session;
    uvcc_cpu *executor;
    uvcc_gpu *gpu;
    uvcc_seeded_random random;
    atomic_bool on;
    atomic_uint running;
    struct {
        uint64_t id;
        double from;
    } jobs[1024];
    timing kinds[KINDS_MAX];
} party_run;

typedef struct run {
    const options *o;
    uvcc_program *program;
    parties *threads;
    party_run party[UVCC_PARTIES];
    int64_t *x;
    uint32_t step;
    bool given;
    atomic_uint ready, finished;
    unsigned until_ready, until_finished;
    double began, keys_done;
} run;

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(int rc, const char *what) {
    if (rc >= 0)
        return;
    fprintf(stderr, "bench_model: %s: %s\n", what, uvcc_error_text(rc));
    exit(1);
}

/* ---- models ---- */

static uvcc_model_config config_of(const options *o) {
    uvcc_model_config c;
    check(uvcc_model_default(&c, sizeof c), "model");
    c.layers = 12;
    c.epsilon = 1e-5;
    c.frac_bits = o->frac_bits;
    c.tokens = o->tokens;
    if (strncmp(o->model, "gpt2", 4) == 0) {
        c.order = UVCC_MODEL_PRE_NORM;
        c.activation = UVCC_NL_GELU_TANH;
        c.mask = UVCC_MODEL_MASK_CAUSAL;
        c.last_norm = 1;
    } else if (strcmp(o->model, "bert-tiny") == 0) {
        c.layers = 2;
        c.width = 128;
        c.heads = 2;
        c.ff_width = 512;
    } else if (strcmp(o->model, "bert-large") == 0) {
        c.layers = 24;
        c.width = 1024;
        c.heads = 16;
        c.ff_width = 4096;
    } else if (strcmp(o->model, "bert-base") != 0) {
        fprintf(stderr, "bench_model: no model %s\n", o->model);
        exit(2);
    }
    c.layers = o->layers != 0 ? o->layers : c.layers;
    c.mode = o->exact ? UVCC_MODEL_EXACT : UVCC_MODEL_FAST;
    return c;
}

static bool is_function(const options *o) {
    return strcmp(o->model, "gelu") == 0 || strcmp(o->model, "softmax") == 0 ||
           strcmp(o->model, "layernorm") == 0;
}

static uint32_t layers_of(const options *o) {
    return is_function(o) ? 0 : config_of(o).layers;
}

/* One function on `rows` rows of `cols`, as an entry with an input and an output. */
static uvcc_program *function(const options *o, uvcc_nonlinear what, uint32_t rows, uint32_t cols) {
    const uvcc_allocator al = uvcc_host_allocator();
    const uint8_t bits = o->frac_bits + 7;
    char why[256] = "";
    uvcc_program *p;
    check(uvcc_program_new(&p, &al), "program");
    uvcc_tensor_desc in = {.rows = rows,
                           .cols = cols,
                           .bits = bits,
                           .scale = o->frac_bits,
                           .name = "x",
                           .in_buffer_of = UVCC_NO_TENSOR,
                           .lifetime = UVCC_TRANSIENT};
    uvcc_tensor_desc out[4];
    uvcc_nonlinear_options n = {
        .size = sizeof n, .scale = o->frac_bits, .in_bits = bits, .cols = cols};
    n.causal = what == UVCC_NL_SOFTMAX;
    const int x = uvcc_program_tensor(p, &in);
    check(x, "tensor");
    const int count = uvcc_nonlinear_output(what, &n, &in, out);
    check(count, "nonlinear");
    uint32_t y[4];
    static const char *const names[4] = {"y", "z", "v", "w"};
    for (int i = 0; i < count; i++) {
        out[i].name = names[i];
        out[i].in_buffer_of = UVCC_NO_TENSOR;
        const int t = uvcc_program_tensor(p, &out[i]);
        check(t, "tensor");
        y[i] = (uint32_t)t;
    }
    check(uvcc_program_entry(p, "run"), "entry");
    check(uvcc_program_input(p, UVCC_MODEL_IN_X, (uint32_t)x, 0), "input");
    uvcc_emit e = {.program = p, .prefix = "", .alloc = &al};
    uint32_t from[3] = {(uint32_t)x};
    for (unsigned i = 1; i < 3 && what == UVCC_NL_LAYERNORM; i++) { /* gain and shift */
        in.name = i == 1 ? "gamma" : "beta";
        in.rows = 1;
        in.lifetime = UVCC_PERSIST;
        const int t = uvcc_program_tensor(p, &in);
        check(t, "tensor");
        from[i] = (uint32_t)t;
    }
    check(uvcc_emit_nonlinear(&e, what, &n, from, y), "emit");
    if (uvcc_program_finish(p, why, sizeof why) != 0) {
        fprintf(stderr, "bench_model: %s\n", why);
        exit(1);
    }
    return p;
}

static uvcc_program *program_of(const options *o) {
    char why[256] = "";
    if (strcmp(o->model, "gelu") == 0)
        return function(o, UVCC_NL_GELU, 128, 3072);
    if (strcmp(o->model, "softmax") == 0)
        return function(o, UVCC_NL_SOFTMAX, 12 * 128, 128);
    if (strcmp(o->model, "layernorm") == 0)
        return function(o, UVCC_NL_LAYERNORM, 128, 768);
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_model_config c = config_of(o);
    uvcc_program *p;
    const int rc = uvcc_model_program(&p, &c, 0, UVCC_TO_ALL, &al, why, sizeof why);
    if (rc != 0) {
        fprintf(stderr, "bench_model: %s: %s\n", o->model, why);
        exit(1);
    }
    return p;
}

/* ---- executors ---- */

static void at_job(void *user, const uvcc_job *job, bool done) {
    party_run *me = user;
    const unsigned slot = (unsigned)(job->id % 1024), kind = job->tasks[0].kind % KINDS_MAX;
    if (!done) {
        me->jobs[slot].id = job->id;
        me->jobs[slot].from = now();
        return;
    }
    if (me->jobs[slot].id != job->id || !atomic_load(&me->on))
        return;
    me->kinds[kind].seconds += now() - me->jobs[slot].from;
    me->kinds[kind].jobs++;
}

static int submit(void *user, const uvcc_job *job) {
    return uvcc_gpu_submit(user, job);
}

static int poll_done(void *user, uvcc_completion *out) {
    return uvcc_gpu_poll(user, out);
}

static void wait_for(void *user) {
    uvcc_gpu_wait(user);
}

static void open_executor(run *r, unsigned p, uvcc_config *cfg) {
    party_run *me = &r->party[p];
    uvcc_cpu_config x = {
        .size = sizeof x, .alloc = uvcc_host_allocator(), .job = at_job, .job_user = me};
    x.mode = strcmp(r->o->compute, "threads") == 0 ? UVCC_CPU_THREADS : UVCC_CPU_INLINE;
    parties_configure(r->threads, p, &x);
    if (strcmp(r->o->compute, "gpu") == 0) {
        uvcc_gpu_config g = {.size = sizeof g,
                             .alloc = uvcc_host_allocator(),
                             .wake = x.wake,
                             .wake_user = x.wake_user,
                             .streams = r->o->streams,
                             .trust_pointers = r->o->trust,
                             .job = at_job,
                             .job_user = me};
        check(uvcc_gpu_new(&me->gpu, &g), "a card");
        x.mode = UVCC_CPU_ELSEWHERE;
        x.elsewhere = (uvcc_cpu_elsewhere){
            .submit = submit, .poll = poll_done, .wait = wait_for, .user = me->gpu};
        cfg->alloc = uvcc_gpu_allocator(me->gpu);
    }
    check(uvcc_cpu_new(&me->executor, &x), "executor");
}

/* ---- sessions ---- */

static int hear(void *user, unsigned p, bool *moved) {
    run *r = user;
    uvcc_event e;
    for (; uvcc_session_poll_event(r->party[p].session, &e) == 1; *moved = true) {
        atomic_fetch_add(&r->finished, e.kind == UVCC_EVENT_STEP_FINISHED);
        atomic_fetch_add(&r->ready, e.kind == UVCC_EVENT_READY);
        if (e.kind == UVCC_EVENT_ABORTED) {
            fprintf(stderr, "bench_model: aborted: %s; %s\n", e.text,
                    r->party[p].gpu != NULL ? uvcc_gpu_trouble(r->party[p].gpu) : "");
            exit(1);
        }
    }
    return atomic_load(&r->ready) >= r->until_ready &&
           atomic_load(&r->finished) >= r->until_finished;
}

/* All that can be done without the input is done. */
static int idle(void *user) {
    run *r = user;
    if (r->given || r->until_finished == 0)
        return 0;
    r->given = true;
    r->keys_done = now();
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        atomic_store(&r->party[p].on, true);
    check(uvcc_session_input(r->party[0].session, r->step, UVCC_MODEL_IN_X, r->x,
                             parties_now(r->threads)),
          "input");
    return 0;
}

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

/* Uniform, |v| < 2^bits. */
static int64_t value(uint64_t seed, unsigned bits) {
    return (int64_t)(mix(seed) >> (63 - bits)) - ((int64_t)1 << bits);
}

/* Element k of tensor i: matrices below 2^-5, gains and shifts of norms about 1. */
static int64_t weight_at(const uvcc_tensor_desc *d, uint32_t i, size_t k) {
    return d->rows == 1 ? ((int64_t)1 << d->scale) + value(k, d->scale - 4u)
                        : value((uint64_t)i << 40 | k, d->scale - 5u);
}

static void give_weights(run *r, uvcc_session *s) {
    const uint32_t count = uvcc_program_tensor_count(r->program);
    for (uint32_t i = 0; i < count; i++) {
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(r->program, i);
        if (d->lifetime != UVCC_PERSIST)
            continue;
        const size_t n = (size_t)d->rows * d->cols;
        int64_t *v = malloc(n * sizeof *v);
        check(v == NULL ? UVCC_ERR_NOMEM : 0, "weights");
        for (size_t k = 0; k < n; k++)
            v[k] = weight_at(d, i, k);
        check(uvcc_session_set_public(s, i, v), d->name);
        free(v);
    }
}

static void drive(run *r) {
    const int rc = parties_run(r->threads);
    check(rc, "drive");
    if (rc != 0)
        return;
    fprintf(stderr, "bench_model: stuck\n");
    exit(1);
}

static void open_run(run *r, const options *o) {
    const parties_config threads = {.workers = 1, .user = r, .hear = hear, .idle = idle};
    memset(r, 0, sizeof *r);
    r->o = o;
    r->program = program_of(o);
    check(parties_new(&r->threads, &threads), "threads");
    const uvcc_io_desc *io = uvcc_program_input_at(r->program, 0, 0);
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(r->program, io->tensor);
    r->x = malloc((size_t)d->rows * d->cols * sizeof *r->x);
    check(r->x == NULL ? UVCC_ERR_NOMEM : 0, "input");
    for (size_t i = 0; i < (size_t)d->rows * d->cols; i++)
        r->x[i] = value(~(uint64_t)i, d->scale);
    for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
        party_run *me = &r->party[p];
        uvcc_config c;
        check(uvcc_config_default(&c, sizeof c), "config");
        c.alloc = uvcc_host_allocator();
        c.random = uvcc_seeded(&me->random, 1, p);
        c.identity.party = p;
        c.checks.audit_off = !o->audit;
        c.links.frame_bytes = FRAME_BYTES;
        c.limits.keys_ahead_bytes = KEYS_BYTES; /* all of a step's */
        c.links.rx_keys_bytes = c.links.tx_keys_bytes = KEYS_BYTES;
        memset(c.identity.sid_job, 5, 32);
        memset(c.identity.sign_seed, 0x40 + p, 32);
        for (uint8_t q = 0; q < UVCC_PARTIES; q++)
            memset(c.identity.pair_secret[q], 0x10 << ((p + q) % 3) | 1, 32);
        open_executor(r, p, &c);
        check(uvcc_session_new(&me->session, &c), "session");
        check(uvcc_session_load_program(me->session, r->program), "load");
        give_weights(r, me->session);
        parties_join(r->threads, 0, p, me->session, me->executor);
        check(uvcc_session_start(me->session, 0), "start");
    }
    r->until_ready = UVCC_PARTIES;
    drive(r);
}

static void close_run(run *r) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_session_free(r->party[p].session);
        uvcc_cpu_free(r->party[p].executor);
        uvcc_gpu_free(r->party[p].gpu);
    }
    parties_free(r->threads);
    uvcc_program_free(r->program);
    free(r->x);
}

/* ---- results ---- */

static int by_size(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, uint32_t n) {
    qsort(x, n, sizeof *x, by_size);
    return x[n / 2];
}

static uint64_t digest(run *r) {
    const uvcc_program *p = r->program;
    uint64_t h = 0;
    if (uvcc_program_output_count(p, 0) == 0)
        return 0;
    const uvcc_io_desc *io = uvcc_program_output_at(p, 0, 0);
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
    const int64_t *y = uvcc_session_output(r->party[0].session, r->step, io->id);
    for (size_t i = 0; y != NULL && i < (size_t)d->rows * d->cols; i++)
        h = mix(h ^ (uint64_t)y[i]);
    return h;
}

/* Weights as give_weights() has them. */
static int64_t *plain_weights(const run *r) {
    const uvcc_model_config c = config_of(r->o);
    int64_t *all = malloc(uvcc_model_parameters(&c) * sizeof *all), *v = all;
    uvcc_model_weight w;
    check(all == NULL ? UVCC_ERR_NOMEM : 0, "weights");
    for (uint32_t i = 0; uvcc_model_weight_at(&c, i, &w) == 0; i++) {
        const uint32_t t = (uint32_t)uvcc_program_find(r->program, w.name);
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(r->program, t);
        const size_t n = (size_t)w.rows * w.cols;
        for (size_t k = 0; k < n; k++)
            v[k] = weight_at(d, t, k);
        v += n;
    }
    return all;
}

/* Every value, of the last step. */
static void compare(run *r) {
    const uvcc_model_config c = config_of(r->o);
    const uvcc_allocator al = uvcc_host_allocator();
    const size_t n = (size_t)c.tokens * c.width;
    int64_t *weights = plain_weights(r), *y = malloc(n * sizeof *y);
    const int64_t *got = uvcc_session_output(r->party[0].session, r->step, UVCC_MODEL_OUT_Y);
    char why[256] = "";
    size_t wrong = 0;
    check(y == NULL || got == NULL ? UVCC_ERR_NOMEM : 0, "output");
    check(uvcc_model_reference(&c, &al, weights, r->x, NULL, y, why, sizeof why), why);
    for (size_t i = 0; i < n; i++)
        wrong += y[i] != got[i];
    fprintf(stderr, "bench_model: step %u: %zu of %zu values are not what plaintext gives\n",
            r->step, wrong, n);
    if (wrong != 0)
        exit(1);
    free(weights);
    free(y);
}

static void say_kinds(const run *r, uint32_t steps) {
    static const char *const names[KINDS_MAX] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = #name,
#include <uvcc/tasks.def>
#undef UVCC_TASK
    };
    for (unsigned k = 0; k < KINDS_MAX; k++) {
        timing all = {0};
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            all.seconds += r->party[p].kinds[k].seconds;
            all.jobs += r->party[p].kinds[k].jobs;
        }
        if (all.jobs != 0)
            fprintf(stderr, "  %-24s %8.2f jobs a step %9.3f ms in jobs that begin with it\n",
                    names[k] != NULL ? names[k] : "?", (double)all.jobs / steps,
                    1e3 * all.seconds / steps);
    }
}

static void measure(const options *o) {
    static run r;
    double keys[STEPS_MAX], online[STEPS_MAX];
    uvcc_session_stats st;
    uint64_t bytes[2] = {0};
    uint64_t output = 0;
    const double opened = now();
    open_run(&r, o);
    const double loaded = now() - opened;
    for (r.step = 0; r.step < o->steps; r.step++) {
        r.given = false;
        r.began = now();
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            if (r.step == 1)
                memset(r.party[p].kinds, 0, sizeof r.party[p].kinds);
            atomic_store(&r.party[p].on, false);
            check(uvcc_session_step(r.party[p].session, r.step, 0, parties_now(r.threads)), "step");
        }
        r.until_finished = UVCC_PARTIES * (r.step + 1);
        drive(&r);
        online[r.step] = now() - r.keys_done;
        keys[r.step] = r.keys_done - r.began;
        output = digest(&r);
        if (o->check && !is_function(o) && o->exact && r.step + 1 == o->steps)
            compare(&r);
    }
    uint64_t rounds = 0, jobs = 0, peak = 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_session_get_stats(r.party[p].session, &st);
        bytes[0] += st.bytes_online / o->steps;
        bytes[1] += st.bytes_preprocessing / o->steps;
        rounds = st.rounds / o->steps;
        jobs += st.jobs / o->steps;
        peak += st.memory_peak_bytes;
    }
    const double middle = median(online + 1, o->steps - 1); /* sorts */
    printf("{\"bench\": \"gpu/model\", \"model\": \"%s\", \"layers\": %u, \"tokens\": %u, "
           "\"frac_bits\": %u, \"mode\": \"%s\", \"compute\": \"%s\", \"streams\": %u, "
           "\"audit\": %s, "
           "\"online_seconds\": %.4g, \"online_best\": %.4g, \"keys_seconds\": %.4g, "
           "\"load_seconds\": %.3g, "
           "\"online_bytes\": %.4g, \"key_bytes\": %.4g, \"rounds\": %" PRIu64
           ", \"jobs\": %" PRIu64 ", \"memory_bytes\": %.4g, \"output\": \"%016" PRIx64 "\"}\n",
           o->model, layers_of(o), o->tokens, o->frac_bits, o->exact ? "exact" : "fast", o->compute,
           o->streams, o->audit ? "true" : "false", middle, online[1],
           median(keys + 1, o->steps - 1), loaded, (double)bytes[0], (double)bytes[1], rounds, jobs,
           (double)peak, output);
    (void)fflush(stdout);
    if (o->breakdown)
        say_kinds(&r, o->steps - 1);
    close_run(&r);
}

/* ---- options ---- */

static const char usage[] =
    "bench_model [--model gpt2|bert-tiny|bert-base|bert-large|gelu|softmax|layernorm] [--layers "
    "N]\n"
    "            [--tokens N] [--frac-bits N] [--compute gpu|inline|threads] [--streams N]\n"
    "            [--steps N] [--audit] [--exact] [--trust] [--breakdown] [--check]\n"
    "--check: with --exact, beside what plaintext gives, bit for bit\n";

static uint32_t number(const char *text) {
    char *end;
    const unsigned long n = strtoul(text, &end, 10);
    if (*text != '\0' && *end == '\0' && n <= 65536)
        return (uint32_t)n;
    fprintf(stderr, "bench_model: %s is no number up to 65536\n%s", text, usage);
    exit(2);
}

static bool flag(options *o, const char *name) {
    const struct {
        const char *name;
        bool *to;
    } all[] = {{"--audit", &o->audit},
               {"--exact", &o->exact},
               {"--trust", &o->trust},
               {"--breakdown", &o->breakdown},
               {"--check", &o->check}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (strcmp(name, all[i].name) == 0)
            return *all[i].to = true;
    return false;
}

static bool with_value(options *o, const char *name, const char *text) {
    uint32_t bits = o->frac_bits;
    const struct {
        const char *name;
        uint32_t *to;
    } numbers[] = {{"--layers", &o->layers},
                   {"--tokens", &o->tokens},
                   {"--steps", &o->steps},
                   {"--streams", &o->streams},
                   {"--frac-bits", &bits}};
    if (strcmp(name, "--model") == 0)
        o->model = text;
    else if (strcmp(name, "--compute") == 0)
        o->compute = text;
    else {
        for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
            if (strcmp(name, numbers[i].name) == 0) {
                *numbers[i].to = number(text);
                o->frac_bits = (uint8_t)bits;
                return true;
            }
        return false;
    }
    return true;
}

int main(int argc, char **argv) {
    options o = {.model = "gpt2", .compute = "gpu", .tokens = 128, .steps = 4, .frac_bits = 12};
    for (int i = 1; i < argc; i++) {
        if (flag(&o, argv[i]))
            continue;
        if (i + 1 == argc || !with_value(&o, argv[i], argv[i + 1])) {
            fputs(usage, stderr);
            return 2;
        }
        i++;
    }
    const char *why = NULL;
    if (strcmp(o.compute, "gpu") == 0 && uvcc_gpu_count(&why) == 0) {
        fprintf(stderr, "bench_model: skipped: %s\n", why);
        return SKIPPED;
    }
    if (o.steps < 2 || o.steps > STEPS_MAX) {
        fprintf(stderr, "bench_model: --steps: 2 to %d\n", STEPS_MAX);
        return 2;
    }
    uvcc_host_keep_memory();
    measure(&o);
    return 0;
}
