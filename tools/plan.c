/* SPDX-License-Identifier: Apache-2.0 */
/* plan.c - see plan.h.
 *
 * Bytes and rounds are those of the job's programs, counted by the library from the flows of their
 * protocols. The time follows from them, a line's rate and the round trip, by the model of
 * docs/operations.md: a round is one way of a message; keys cost rate and no rounds. The keys of a
 * block of 4,096 elements are dealt by one party, which follows from a hash, so the line that
 * matters is the one that has most to carry: here the mean of the greatest of three, over draws. */
#include "plan.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/uvcc.h>

#include "flags_json.h"
#include "party/config.h"
#include "party/work.h"
#include "report.h"

enum {
    NOBODY = 2 /* a party that has no data in any kind of work */,
    ENTRIES_MAX = 256,
    DRAWS = 32
};

typedef struct plan_options {
    const char *config, *json;
    double mbit, rtt_ms, compute;
    bool help;
} plan_options;

#define AT(member) offsetof(plan_options, member)
static const flag options[] = {
    {"config", "FILE", FLAG_TEXT, AT(config), 0, 0, NULL,
     "a file with \"job\": that of a party, or of uvcc launch. Required"},
    {"mbit", "RATE", FLAG_REAL, AT(mbit), 0, 1000000, NULL,
     "what a party's line carries in each direction, megabits per second (1000)"},
    {"rtt", "MS", FLAG_REAL, AT(rtt_ms), 0, 10000, NULL, "round trip between parties (20)"},
    {"compute", "SECONDS", FLAG_REAL, AT(compute), 0, 1000000, NULL,
     "of a step of the entry that runs most, as measured on one machine: uvcc launch says it (0)"},
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "write the numbers as JSON; with -, alone on standard output"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
#undef AT
static const flag_set set = {"plan", options, sizeof options / sizeof options[0],
                             offsetof(plan_options, help)};

static void print_help(void) {
    flags_text(stdout,
               "Usage: uvcc plan --config FILE [OPTION...]\n"
               "\n"
               "Says what a job takes before anybody runs it: steps, rounds, bytes and memory, and "
               "from a line's rate and round trip the time of a step. It needs no data, keys or "
               "peers.\n"
               "\n"
               "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout, "\nExit status: 0 done, 1 the system failed, 2 wrong options or files.\n");
}

/* One step of an entry, all workers and parties together; rounds are of the worker with the most.
 */
typedef struct entry_plan {
    const char *name;
    uint32_t steps, rounds;
    uint64_t online, keys, messages;
    double dealt[DRAWS][UVCC_PARTIES]; /* of the keys, by who deals them, in each draw */
    bool ahead;                        /* it is agreed to while the one before it runs */
} entry_plan;

typedef struct job_plan {
    const plan_options *o;
    party_config c;
    const work_kind *kind;
    void *work;
    uint32_t workers;
    entry_plan entry[ENTRIES_MAX];
    uint64_t memory; /* most of one worker; 0: not known */
} job_plan;

/* ---- what the programs say ---- */

static uint32_t draw(uint64_t *dice) {
    *dice = *dice * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*dice >> 33);
}

/* Who deals the keys of an op: each block's by a party of its own; of many blocks, all alike. */
static void deal(entry_plan *e, const uvcc_program *p, uint32_t number, uint32_t op, uint64_t keys,
                 uint64_t *dice) {
    enum { MANY = 64 };
    const uvcc_op_desc *d = uvcc_program_op_at(p, number, op);
    const uvcc_tensor_desc *t = d->out_count != 0 ? uvcc_program_tensor_at(p, d->out[0]) : NULL;
    const uint64_t elems = t != NULL ? (uint64_t)t->rows * t->cols : 1;
    const uint64_t blocks = (elems + UVCC_BLOCK_ELEMS - 1) / UVCC_BLOCK_ELEMS;
    for (unsigned k = 0; k < DRAWS; k++) {
        if (blocks >= MANY)
            for (unsigned i = 0; i < UVCC_PARTIES; i++)
                e->dealt[k][i] += (double)keys / UVCC_PARTIES;
        else
            for (uint64_t b = 0; b < blocks; b++)
                e->dealt[k][draw(dice) % UVCC_PARTIES] += (double)keys / (double)blocks;
    }
}

/* What the busiest line carries of the keys. */
static double busiest(const entry_plan *e) {
    double sum = 0;
    for (unsigned k = 0; k < DRAWS; k++) {
        double most = 0;
        for (unsigned i = 0; i < UVCC_PARTIES; i++)
            most = e->dealt[k][i] > most ? e->dealt[k][i] : most;
        sum += most;
    }
    return sum / DRAWS;
}

static int add_entry(entry_plan *e, const uvcc_program *p, uint32_t number) {
    uint32_t rounds;
    uint64_t dice = 1;
    int rc = uvcc_program_rounds(p, number, NULL, &rounds);
    e->rounds = rc == 0 && rounds > e->rounds ? rounds : e->rounds;
    for (uint32_t i = 0; i < uvcc_program_op_count(p, number) && rc == 0; i++) {
        uvcc_op_cost cost;
        rc = uvcc_program_cost(p, number, i, &cost);
        if (rc != 0)
            break;
        e->online += cost.online_bytes;
        e->keys += cost.preprocessing_bytes;
        e->messages += cost.messages;
        deal(e, p, number, i, cost.preprocessing_bytes, &dice);
    }
    return rc;
}

static uint64_t memory_of(const party_config *c, const work_worker *w) {
    uvcc_config cfg;
    uvcc_memory_bound bound;
    if (uvcc_config_default(&cfg, sizeof cfg) != 0)
        return 0;
    cfg.alloc = uvcc_host_allocator();
    cfg.random = uvcc_host_random();
    cfg.place = (uvcc_config_place){.replicas = (uint16_t)c->replicas,
                                    .stages = (uint16_t)c->stages,
                                    .tp_ranks = (uint16_t)c->tensor_ranks,
                                    .replica = w->replica,
                                    .stage = w->stage,
                                    .tp_rank = w->tensor_rank};
    cfg.resume.checkpoint_every = c->checkpoint_every;
    memset(cfg.identity.sid_job, 1, sizeof cfg.identity.sid_job);
    memset(cfg.identity.sign_seed, 1, sizeof cfg.identity.sign_seed);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        memset(cfg.identity.pair_secret[p], 1 + (int)p, 32);
    return uvcc_session_memory_bound(&cfg, w->program, &bound) == 0 ? bound.bytes : 0;
}

/* Of a job that serves clients: those until a request is served. */
static uint32_t steps_of(const job_plan *j) {
    return j->kind->queue == NULL ? j->kind->steps(j->work) : j->kind->first_steps(j->work);
}

static int plan_worker(job_plan *j, uint32_t rank) {
    const uint32_t ranks = j->c.tensor_ranks, stages = j->c.stages;
    work_worker w = {.replica = (uint16_t)(rank / (stages * ranks)),
                     .stage = (uint16_t)(rank / ranks % stages),
                     .tensor_rank = (uint16_t)(rank % ranks)};
    int status = j->kind->program(j->work, &w, &w.program), rc = 0;
    if (status != EXIT_DONE)
        return status;
    for (uint32_t step = 0; rank == 0 && step < steps_of(j); step++) {
        const char *name;
        bool ahead;
        const uint32_t e = j->kind->entry(j->work, &w, step, &name, &ahead);
        if (e >= ENTRIES_MAX)
            continue;
        j->entry[e].name = uvcc_program_entry_name(w.program, e);
        j->entry[e].steps++;
        j->entry[e].ahead = ahead;
    }
    for (uint32_t e = 0; e < ENTRIES_MAX && rc == 0; e++)
        if (j->entry[e].steps != 0)
            rc = add_entry(&j->entry[e], w.program, e);
    const uint64_t memory = memory_of(&j->c, &w);
    j->memory = memory > j->memory ? memory : j->memory;
    for (uint32_t e = 0; e < ENTRIES_MAX && rank == 0; e++) /* names outlive this program */
        if (j->entry[e].name != NULL && (j->entry[e].name = strdup(j->entry[e].name)) == NULL)
            rc = UVCC_ERR_NOMEM;
    uvcc_program_free(w.program);
    return rc == 0 ? EXIT_DONE
                   : report_error(EXIT_FAILED, "the programs cannot be looked at: %s",
                                  uvcc_error_text(rc));
}

/* ---- time ---- */

typedef struct step_time {
    double rounds, line, least; /* seconds */
} step_time;

/* Rounds follow each other. Keys that are dealt while the step before runs pass beside its rounds.
 * Of a step that is not agreed to ahead they are dealt when it begins, and it costs one way more,
 * for the proposal: its first rounds wait for their keys and behind later ones, and the others
 * follow when all have passed. */
static step_time time_of(const job_plan *j, const entry_plan *e) {
    const double way = j->o->rtt_ms / 2000, rate = j->o->mbit * 1e6 / 8;
    const double online = (double)e->online / UVCC_PARTIES / rate, keys = busiest(e) / rate;
    const double rounds = e->rounds * way, all = online + keys, chain = rounds + online;
    return (step_time){.rounds = rounds,
                       .line = all,
                       .least = !e->ahead     ? rounds + way + all
                                : chain > all ? chain
                                              : all};
}

/* ---- what is said ---- */

static double total_of(const job_plan *j, bool with_compute) {
    double sum = 0;
    uint32_t most = 0;
    for (uint32_t e = 0; e < ENTRIES_MAX; e++) {
        sum += j->entry[e].steps * time_of(j, &j->entry[e]).least;
        most = j->entry[e].steps > most ? j->entry[e].steps : most;
    }
    return sum + (with_compute ? most * j->o->compute : 0);
}

static void show(const job_plan *j, FILE *to) {
    (void)fprintf(to, "job              %s, %s, %u steps, %u workers per party\n", j->c.name,
                  j->kind->name, steps_of(j), j->workers);
    (void)fprintf(to, "line             %g Mbit/s each way, round trip %g ms\n", j->o->mbit,
                  j->o->rtt_ms);
    (void)fprintf(to, "%-16s %8s %8s %10s %10s %9s %9s %9s\n", "entry", "steps", "rounds",
                  "online MB", "keys MB", "rounds s", "line s", "step s");
    for (uint32_t e = 0; e < ENTRIES_MAX; e++) {
        const entry_plan *p = &j->entry[e];
        const step_time t = time_of(j, p);
        if (p->steps != 0)
            (void)fprintf(to, "%-16.16s %8u %8u %10.3f %10.3f %9.3f %9.3f %9.3f\n", p->name,
                          p->steps, p->rounds, (double)p->online * 1e-6, (double)p->keys * 1e-6,
                          t.rounds, t.line, t.least);
    }
    if (j->memory != 0)
        (void)fprintf(to, "memory           %.1f MB at most in one worker, %.1f MB in a party\n",
                      (double)j->memory * 1e-6, (double)j->memory * 1e-6 * j->workers);
    (void)fprintf(to, "the job          %.1f s by the network%s\n", total_of(j, false),
                  j->o->compute == 0 ? "; computing comes on top (--compute)" : "");
    if (j->o->compute != 0)
        (void)fprintf(to, "with computing   %.1f s at most: what overlaps is not taken off\n",
                      total_of(j, true));
    report_flush(to);
}

static json_t *to_json(const job_plan *j) {
    json_t *entries = json_array();
    int bad = entries == NULL;
    for (uint32_t e = 0; e < ENTRIES_MAX && bad == 0; e++) {
        const entry_plan *p = &j->entry[e];
        const step_time t = time_of(j, p);
        if (p->steps != 0)
            bad = json_array_append_new(
                entries, json_pack("{s:s, s:i, s:i, s:I, s:I, s:I, s:f, s:f, s:f}", "entry",
                                   p->name, "steps", (int)p->steps, "rounds", (int)p->rounds,
                                   "bytes_online", (json_int_t)p->online, "bytes_preprocessing",
                                   (json_int_t)p->keys, "messages", (json_int_t)p->messages,
                                   "rounds_s", t.rounds, "line_s", t.line, "step_s", t.least));
    }
    return json_pack("{s:s, s:s, s:i, s:f, s:f, s:o, s:I, s:f}", "job", j->c.name, "kind",
                     j->kind->name, "workers", (int)j->workers, "mbit", j->o->mbit, "rtt_ms",
                     j->o->rtt_ms, "entries", entries, "memory_bytes", (json_int_t)j->memory,
                     "network_s", total_of(j, false));
}

/* ---- from begin to end ---- */

static char *no_environment(const char *name) {
    (void)name;
    return NULL;
}

/* The file's "job" alone, as a party would read it that has nothing else: it needs neither keys nor
 * data. */
static int read_job(job_plan *j) {
    static const char nobody[] =
        "{\"address\": \"unix:x%\", "
        "\"key\": \"0101010101010101010101010101010101010101010101010101010101010101\"}";
    char message[512] = "";
    const flag_message m = {message, sizeof message};
    json_t *file = flags_json_load(j->o->config, &m);
    if (file == NULL)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    json_t *root = json_pack("{s:O*, s:i, s:[o, o, o], s:s, s:s}", "job",
                             json_object_get(file, "job"), "party", NOBODY, "parties",
                             json_loads(nobody, 0, NULL), json_loads(nobody, 0, NULL),
                             json_loads(nobody, 0, NULL), "identity", "x", "store", "x");
    json_decref(file);
    if (root == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    if (config_take(&j->c, root, j->o->config, -1, no_environment, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    j->kind = work_find(j->c.kind);
    if (j->kind == NULL)
        return report_error(EXIT_BAD_INPUT, "%s: job.run.kind: there is no '%s'; it is one of %s",
                            j->o->config, j->c.kind, work_names());
    const bool gives_weights =
        json_integer_value(json_object_get(j->c.run, "weights_owner")) == NOBODY;
    const work_config w = {.file = j->o->config,
                           .run = j->c.run,
                           .dir = j->c.dir,
                           .party = gives_weights ? 0 : NOBODY,
                           .replicas = (uint16_t)j->c.replicas,
                           .stages = (uint16_t)j->c.stages,
                           .tensor_ranks = (uint16_t)j->c.tensor_ranks,
                           .microbatches = j->c.microbatches,
                           .sks = (uint16_t)j->c.sks};
    return j->kind->open(&j->work, &w);
}

static int run(job_plan *j, report_json *json) {
    int status = read_job(j);
    j->workers = status == EXIT_DONE ? config_workers(&j->c) : 0;
    for (uint32_t i = 0; i < j->workers && status == EXIT_DONE; i++)
        status = plan_worker(j, i);
    if (status != EXIT_DONE)
        return status;
    show(j, report_stream(j->o->json));
    return j->o->json != NULL ? report_json_put(json, to_json(j)) : EXIT_DONE;
}

int plan_main(int argc, char *const *argv) {
    char message[256];
    const flag_message m = {message, sizeof message};
    plan_options o = {.mbit = 1000, .rtt_ms = 20};
    if (flags_parse(&set, &o, argc, argv, NULL, NULL, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", message);
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    if (o.config == NULL)
        return report_error(EXIT_BAD_INPUT, "--config is missing; see uvcc plan --help");
    if (o.mbit <= 0)
        return report_error(EXIT_BAD_INPUT, "--mbit %g: give more than 0", o.mbit);
    report_json *json = report_json_open(o.json);
    if (json == NULL)
        return EXIT_BAD_INPUT;
    job_plan *j = calloc(1, sizeof *j);
    int status = j == NULL ? report_error(EXIT_FAILED, "out of memory") : EXIT_DONE;
    if (j != NULL) {
        j->o = &o;
        status = run(j, json);
        for (uint32_t e = 0; e < ENTRIES_MAX; e++)
            free((char *)(uintptr_t)j->entry[e].name);
        if (j->work != NULL)
            j->kind->close(j->work);
        config_free(&j->c);
        free(j);
    }
    report_json_close(json);
    return status;
}
