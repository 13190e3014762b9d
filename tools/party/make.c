/* SPDX-License-Identifier: Apache-2.0 */
/* make.c - see make.h. The process of `uvcc party` with another kind of work in front of the job's
 * own: it has the same programs, entries and steps, and neither inputs nor a result. */
#include "make.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../interrupt.h"
#include "party.h"

/* The work: the job's, up to a step. */
typedef struct maker {
    const work_kind *kind;
    void *work;
    uint32_t end;
    uint64_t triples, bytes; /* of all workers here */
} maker;

static void maker_close(void *work) {
    maker *m = work;
    m->kind->close(m->work);
    free(m);
}

static uint32_t maker_steps(const void *work) {
    return ((const maker *)work)->end;
}

static uint32_t maker_entry(const void *work, const work_worker *w, uint32_t step,
                            const char **name, bool *ahead) {
    const maker *m = work;
    const uint32_t entry = m->kind->entry(m->work, w, step, name, ahead);
    *name = "triples";
    return entry;
}

/* The store has them on the disk before the next step is agreed to. */
static int maker_finished(void *work, const work_worker *w, uvcc_session *s, uint32_t step,
                          char text[64]) {
    maker *m = work;
    const uint8_t *data;
    uint32_t of;
    size_t len, at = 0;
    uvcc_triple_info t;
    (void)w;
    text[0] = '\0';
    if (uvcc_session_triples(s, &of, &data, &len) != 0 || of != step)
        return EXIT_DONE;
    for (; at < len && uvcc_triple_read(data + at, len - at, &t) == 0; at += t.bytes)
        m->triples++;
    m->bytes += len;
    (void)snprintf(text, 64, "%" PRIu64 " triples", m->triples);
    return EXIT_DONE;
}

static const work_kind maker_kind = {.name = "triples",
                                     .close = maker_close,
                                     .steps = maker_steps,
                                     .entry = maker_entry,
                                     .finished = maker_finished};

/* ---- what the process asks ---- */

void make_configure(const party *p, uvcc_config *cfg) {
    cfg->triples = (uvcc_config_triples){.only = true, .run = UVCC_TRIPLES_ANY_RUN};
    cfg->resume.next_step = p->make_first;
    cfg->resume.checkpoint_every = 0;
    cfg->checks.bundles = false;
    cfg->consent.policy = NULL; /* its steps are the job's, and are not counted here */
    cfg->consent.policy_len = 0;
}

/* The three must be told the same steps. They stand in the place of what a maker has no use for. */
static void agree_on_steps(party *p, uint32_t end) {
    char text[64];
    const int n = snprintf(text, sizeof text, "triples %u %u", p->make_first, end);
    unsigned i = 0;
    while (i + 1 < UVCC_AGREE_MAX && strcmp(p->agree.name[i], "job.checkpoint_every") != 0)
        i++;
    (void)snprintf(p->agree.name[i], sizeof p->agree.name[i], "--steps");
    p->agree.parts.name[i] = p->agree.name[i];
    p->agree.parts.part[i] = uvcc_agree_hash(text, (size_t)n);
}

static int begin(party *p, const make_options *o) {
    if (p->kind->queue != NULL)
        return report_error(EXIT_BAD_INPUT,
                            "%s: job.run.kind: nobody knows which steps of a job that serves need "
                            "triples; they are made as they come",
                            p->c.file);
    const uint32_t steps = p->kind->steps(p->work), end = o->all ? steps : o->end;
    if (end > steps || o->first >= end)
        return report_error(EXIT_BAD_INPUT,
                            "--steps: the job has steps 0..%u; give some of them, FIRST..LAST",
                            steps - 1);
    maker *m = calloc(1, sizeof *m);
    if (m == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    *m = (maker){.kind = p->kind, .work = p->work, .end = end};
    p->kind = &maker_kind;
    p->work = m;
    p->make = true;
    p->make_first = o->first;
    p->c.audit = NULL;
    p->c.linger_s = p->c.linger_s < 5 ? p->c.linger_s : 5; /* nobody comes back */
    agree_on_steps(p, end);
    return EXIT_DONE;
}

/* What is on the disk stays, whatever the end was. */
static void say_end(const party *p, int status) {
    const maker *m = p->work;
    const uint32_t done = p->told ? p->worker[0].finished : p->make_first;
    if (status == EXIT_DONE && m->triples == 0)
        (void)printf("no triples: the products of this job are native (job.run.products)\n");
    else if (status == EXIT_DONE)
        (void)printf("triples          %" PRIu64 " for steps %u..%u, %.1f MB, made in run %u\n",
                     m->triples, p->make_first, m->end - 1, (double)m->bytes * 1e-6, p->run);
    else if (done > p->make_first)
        report_line(true, "triples of steps %u..%u are kept; go on with --steps %u..%u",
                    p->make_first, done - 1, done, m->end - 1);
}

static int run(party *p, const make_options *o) {
    int status = party_open(p, o->config, o->worker, NULL);
    if (status == EXIT_DONE)
        status = begin(p, o);
    if (status == EXIT_DONE)
        status = party_open_store(p);
    if (status == EXIT_DONE)
        status = party_connect(p);
    if (status != EXIT_DONE)
        return status;
    status = party_run(p);
    if (status == EXIT_INTERRUPTED)
        (void)report_error(status, "interrupted");
    say_end(p, status);
    return status != EXIT_DONE ? status : report_output(EXIT_FAILED);
}

int make_triples(const make_options *o) {
    party *p = calloc(1, sizeof *p);
    if (p == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    p->progress = o->progress;
    int status =
        sodium_init() < 0 ? report_error(EXIT_FAILED, "libsodium cannot start") : EXIT_DONE;
    if (status == EXIT_DONE) {
        interrupt_catch();
        status = run(p, o);
    }
    party_close(p);
    free(p);
    return status;
}

static bool add_worker(const party_config *c, char dir[PARTY_PATH_BYTES]) {
    return c->all_workers || config_workers(c) == 1 || config_own_place(c, c->local_rank, dir);
}

int make_find_store(const char *config, int64_t rank, char dir[PARTY_PATH_BYTES],
                    uint32_t *party_index) {
    char text[512];
    const flag_message m = {text, sizeof text};
    party_config c;
    int status = EXIT_DONE;
    if (config_read(&c, config, rank, getenv, &m) != 0)
        status = report_error(EXIT_BAD_INPUT, "%s", text);
    else if (!config_path(&c, c.store, dir) || !add_worker(&c, dir))
        status = report_error(EXIT_BAD_INPUT, "%s: store: the path is too long", config);
    *party_index = status == EXIT_DONE ? c.party : 0;
    config_free(&c);
    return status;
}
