/* SPDX-License-Identifier: Apache-2.0 */
/* backend.c - see backend.h. What the portable kernels give is what must come out, and the first
 * result that differs is shown with its task, role, element and both values. */
#include "backend.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/host.h>

#include "../card.h"
#include "../report.h"
#include "../runflags.h"

#define MESSAGE_BYTES 512u

typedef struct tested {
    const selftest_job *job;
    uint32_t backend;
    card *card; /* NULL: of the CPU */
    vector_executor on;
    selftest_reference *reference;
} tested;

const char *selftest_name(uint32_t backend) {
    return backend == SELFTEST_GPU ? "gpu" : uvcc_cpu_backend_name(backend);
}

/* ---- vectors ---- */

static int run_file(vector_run **out, const tested *t, const vector_file *f, uint64_t reseed,
                    vector_message *m) {
    return t->card != NULL ? vector_run_on(out, f, &t->on, reseed, m)
                           : vector_run_new(out, f, t->backend, reseed, m);
}

static int show(const vector_file *f, const tested *t, const vector_mismatch *x, uint64_t seed) {
    char values[128] = "its digest is not that of the golden vector", round[64] = "";
    if (x->bytes != 0)
        (void)snprintf(values, sizeof values, "%s %zu: expected 0x%0*" PRIx64 ", got 0x%0*" PRIx64,
                       x->bytes == 8 ? "word" : "byte", x->element, (int)(2 * x->bytes),
                       x->expected, (int)(2 * x->bytes), x->got);
    if (seed != 0)
        (void)snprintf(round, sizeof round, ", seed %" PRIu64, seed);
    return report_error(EXIT_FAILED, "%s: %s: '%s': task %s%s%s, unit %u, %s, %s%s",
                        selftest_name(t->backend), f->path, x->name, x->task,
                        *x->role == '\0' ? "" : " at ", x->role, x->unit, x->operand, values,
                        round);
}

/* The golden vector of a long result is a digest. The portable kernels have the result, if they are
 * right. */
static void find_element(const vector_file *f, const vector_run *r, vector_mismatch *x) {
    vector_message m;
    vector_mismatch other;
    vector_run *p = NULL;
    if (x->bytes != 0 || vector_run_new(&p, f, UVCC_BACKEND_PORTABLE, 0, &m) != 0)
        return;
    if (vector_run_check(p, &other, &m) == 0 && vector_run_compare(r, p, &other, &m) == 1)
        *x = other;
    vector_run_free(p);
}

/* Golden vectors; 0 or an exit status. */
static int check_file(const vector_file *f, const tested *t, uint64_t *results) {
    vector_message m;
    vector_mismatch x;
    vector_run *r = NULL;
    if (run_file(&r, t, f, 0, &m) != 0)
        return report_error(EXIT_FAILED, "%s: %s", selftest_name(t->backend), m.text);
    const int found = vector_run_check(r, &x, &m);
    int status = EXIT_DONE;
    if (found < 0)
        status = report_error(EXIT_FAILED, "%s", m.text);
    if (found > 0) {
        find_element(f, r, &x);
        status = show(f, t, &x, 0);
    }
    *results += vector_run_results(r);
    vector_run_free(r);
    return status;
}

/* Random operands. */
static int check_round(const vector_file *f, const tested *t, uint64_t seed) {
    vector_message m;
    vector_mismatch x;
    vector_run *r = NULL, *p = NULL;
    const uint64_t reseed = seed != 0 ? seed : UINT64_MAX; /* 0 would be the golden vectors */
    if (vector_run_new(&p, f, UVCC_BACKEND_PORTABLE, reseed, &m) != 0)
        return report_error(EXIT_FAILED, "portable: %s", m.text);
    int status = EXIT_DONE;
    if (run_file(&r, t, f, reseed, &m) != 0)
        status = report_error(EXIT_FAILED, "%s: %s", selftest_name(t->backend), m.text);
    const int found = r == NULL ? 0 : vector_run_compare(r, p, &x, &m);
    if (found < 0)
        status = report_error(EXIT_FAILED, "%s", m.text);
    if (found > 0)
        status = show(f, t, &x, reseed);
    vector_run_free(r);
    vector_run_free(p);
    return status;
}

static int check_golden(const tested *t, selftest_result *out) {
    const vector_set *v = t->job->vectors;
    int status = EXIT_DONE;
    for (size_t i = 0; i < v->count && status == EXIT_DONE; i++)
        status = check_file(&v->files[i], t, &out->golden);
    if (status == EXIT_DONE)
        (void)fprintf(t->job->to, "%s: %" PRIu64 " golden results are right\n",
                      selftest_name(t->backend), out->golden);
    return status;
}

static int check_random(const tested *t, selftest_result *out) {
    const selftest_job *j = t->job;
    int status = EXIT_DONE;
    report_pace pace;
    report_pace_start(&pace, j->progress);
    for (uint32_t k = 0; k < j->rounds && status == EXIT_DONE; k++) {
        for (size_t i = 0; i < j->vectors->count && status == EXIT_DONE; i++)
            status = check_round(&j->vectors->files[i], t, j->seed + k);
        if (status == EXIT_DONE && report_pace_due(&pace, k + 1 == j->rounds))
            report_line(false, "%s: round %u/%u  %s", selftest_name(t->backend), k + 1, j->rounds,
                        report_pace_left(&pace, k + 1.0, j->rounds));
    }
    report_line_clear();
    if (status != EXIT_DONE || j->rounds == 0)
        return status;
    out->random = out->golden * j->rounds;
    (void)fprintf(j->to,
                  "%s: %" PRIu64 " results of random operands are those of the portable kernels "
                  "(--seed %" PRIu64 " --rounds %u)\n",
                  selftest_name(t->backend), out->random, j->seed, j->rounds);
    return EXIT_DONE;
}

/* ---- a training step ---- */

/* A step of a small transformer among three parties, exact, and the opening of its weights. */
static int train(uint64_t seed, const run_options *on, lm_train_outcome *out) {
    static const char words[] =
        "--layers 1 --dim 8 --heads 2 --context 4 --batch 4 --steps 1 --truncation ars "
        "--index exact --compute inline --seed";
    char text[sizeof words], number[24], message[MESSAGE_BYTES], *argv[32], *at = text;
    int argc = 0;
    lm_options o;
    memcpy(text, words, sizeof words);
    for (char *word; (word = strtok_r(at, " ", &at)) != NULL;)
        argv[argc++] = word;
    (void)snprintf(number, sizeof number, "%" PRIu64, seed);
    argv[argc++] = number;
    if (lm_options_parse(&o, argc, argv, message, sizeof message) != 0)
        return report_error(EXIT_FAILED, "%s", message);
    o.run.compute = on->compute;
    o.run.backend = on->backend;
    o.run.device = on->device;
    o.run.device_bytes = on->device_bytes;
    return lm_train_quietly(&o, out);
}

static int differs(const tested *t, const char *what, const uint8_t got[32],
                   const uint8_t want[32]) {
    char hex[2][65];
    (void)sodium_bin2hex(hex[0], sizeof hex[0], got, 32);
    (void)sodium_bin2hex(hex[1], sizeof hex[1], want, 32);
    return report_error(EXIT_FAILED,
                        "%s: a training step of a small transformer: %s %s, not %s, which the "
                        "portable kernels give, seed %" PRIu64,
                        selftest_name(t->backend), what, hex[0], hex[1], t->job->seed);
}

/* Every kind of task that a training has comes here as sessions give it: several in a job, on
 * memory of the device. */
static int check_training(const tested *t, selftest_result *out) {
    run_options on = t->job->on;
    const lm_train_outcome *want = &t->reference->is;
    lm_train_outcome got;
    int status = EXIT_DONE;
    if (!t->reference->there)
        status = train(t->job->seed, &(run_options){.backend = UVCC_BACKEND_PORTABLE},
                       &t->reference->is);
    t->reference->there = status == EXIT_DONE;
    got = t->reference->is;
    on.compute = t->card != NULL ? RUN_COMPUTE_GPU : UVCC_CPU_INLINE;
    on.backend = t->card != NULL ? 0 : t->backend;
    if (status == EXIT_DONE && t->backend != UVCC_BACKEND_PORTABLE)
        status = train(t->job->seed, &on, &got);
    if (status != EXIT_DONE)
        return status;
    memcpy(out->weights_sha256, got.weights_sha256, sizeof out->weights_sha256);
    memcpy(out->global_root, got.global_root[0], sizeof out->global_root);
    out->trained = true;
    if (memcmp(got.weights_sha256, want->weights_sha256, sizeof want->weights_sha256) != 0)
        return differs(t, "weights sha256", got.weights_sha256, want->weights_sha256);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if (memcmp(got.global_root[p], want->global_root[p], sizeof want->global_root[p]) != 0)
            return differs(t, "root", got.global_root[p], want->global_root[p]);
    (void)fprintf(t->job->to,
                  "%s: a training step of a small transformer has the weights and roots of the "
                  "portable kernels\n",
                  selftest_name(t->backend));
    return EXIT_DONE;
}

/* ---- the whole ---- */

static int run_on_card(void *user, const uvcc_job *job, uvcc_completion *done) {
    return card_run(user, job, done);
}

static int open_card(tested *t, selftest_result *out) {
    const card_config c = {.device = t->job->on.device, .bytes = t->job->on.device_bytes};
    uvcc_cpu_config unused = {.size = sizeof unused};
    char why[CARD_TEXT_BYTES];
    const int rc = t->backend == SELFTEST_GPU ? card_open(&t->card, &c, &unused, why) : 0;
    if (rc != 0)
        return report_error(rc == UVCC_ERR_CONFIG ? EXIT_BAD_INPUT : EXIT_FAILED,
                            "--backend gpu: %s; give cpu to test what this CPU has", why);
    if (t->card == NULL)
        return EXIT_DONE;
    t->on =
        (vector_executor){.memory = card_allocator(t->card), .run = run_on_card, .user = t->card};
    out->device = card_device(t->card);
    (void)fprintf(t->job->to, "gpu: CUDA device %u\n", out->device);
    return EXIT_DONE;
}

int selftest_backend(const selftest_job *j, uint32_t backend, selftest_reference *reference,
                     selftest_result *out) {
    tested t = {.job = j, .backend = backend, .reference = reference};
    *out = (selftest_result){0};
    int status = open_card(&t, out);
    if (status == EXIT_DONE)
        status = check_golden(&t, out);
    if (status == EXIT_DONE)
        status = check_random(&t, out);
    if (status == EXIT_DONE && j->rounds != 0)
        status = check_training(&t, out);
    if (status == EXIT_FAILED && *card_trouble(t.card) != '\0')
        (void)report_error(status, "gpu: %s", card_trouble(t.card));
    out->right = status == EXIT_DONE;
    card_close(t.card);
    return status;
}
