/* SPDX-License-Identifier: Apache-2.0 */
/* work_nonlinear.c - the nonlinear functions between parties, as `uvcc nonlinear` measures them in
 * one process: are opened values what they should be, how far from the real function, and what does
 * this party send and wait for them.
 *
 * All inputs follow from job.run.seed, so that each party knows what it should see; party i gives
 * input i. Exact functions must open what the plaintext run gives. Fast ones round by the low bits
 * of masks that nobody sees here: they must keep to the error's bound.
 *
 * One program has the entries of all that is measured. Values are compared with a plan of the
 * function that is measured at the time (measure_plan.h), which is made again where a run begins
 * again before it. */
#include "work.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../flags_json.h"
#include "../measure_plan.h"
#include "../nonlinear.h"
#include "../report.h"
#include "work_util.h"

#define MESSAGE_BYTES 640u
#define INPUTS        (1u << 14) /* those of --quick: a network is between the parties */

/* Per element of the first input, or of a step. */
typedef struct cost {
    uint64_t rounds, online, keys, ns;
} cost;

typedef struct measured {
    unsigned subject, mode;
    measure_job job;
    uint32_t base; /* its first entry in the program */
    uint32_t first, batches, widths;
    uint64_t batch_elements;
    bool done;
    measure_result result;
    uint64_t compared; /* elements of the first input */
    uint8_t opened[32];
    cost without, with; /* of a step; of `with_count` of them */
    bool without_known;
    uint32_t with_count;
} measured;

typedef struct measuring {
    nonlinear_choice choice;
    uint8_t party;
    uint64_t inputs, seed;
    uint32_t count, steps;
    measured m[NONLINEAR_SUBJECTS * NONLINEAR_MODES];
    /* Of the function that is measured. */
    measured *now; /* NULL: none yet */
    measure_plan plan;
    uvcc_program *program; /* the plan's */
    uint32_t filled;       /* the plan has the inputs of this fill; those before are over */
    crypto_hash_sha256_state opened;
    /* When the session's last step finished. */
    const uvcc_session *session;
    uint32_t step;
    cost at;
} measuring;

static int no_memory(void) {
    return report_error(EXIT_FAILED, "out of memory");
}

/* ---- what the job says ---- */

static int take_functions(measuring *n, const json_t *list, const flag_message *m) {
    const size_t count = json_array_size(list);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(list, i));
        if (name == NULL || nonlinear_want(&n->choice, name, m) != 0)
            return name == NULL ? flag_fail(m, "a function is named by a string") : -1;
    }
    return list == NULL || count != 0 ? 0 : flag_fail(m, "give an array of names");
}

static int take_bool(const json_t *run, const char *name, bool *out, const flag_message *m) {
    const json_t *v = json_object_get(run, name);
    if (v != NULL && !json_is_boolean(v))
        return flag_fail(m, "job.run.%s: give true or false", name);
    *out = json_is_true(v);
    return 0;
}

static int take_seed(measuring *n, const json_t *run, const flag_message *m) {
    static const flag seed = {"seed", "N", FLAG_SEED, offsetof(measuring, seed), 0, 0, NULL, ""};
    static const flag_set set = {"party", &seed, 1, 0};
    static const char *const names[] = {"seed", NULL};
    static const char *const more[] = {"kind",  "functions", "exact", "fast",
                                       "plain", "inputs",    NULL};
    return flags_take_json(&set, names, more, n, run, "job.run", m);
}

static int take_run(measuring *n, const work_config *c) {
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    n->inputs = INPUTS;
    n->seed = 1;
    int bad = take_seed(n, c->run, &m);
    if (bad == 0)
        bad = flags_json_count(c->run, "job.run", "inputs", 1, NONLINEAR_INPUTS_MAX, &n->inputs,
                               NULL, &m);
    if (bad == 0)
        bad = take_bool(c->run, "exact", &n->choice.mode[NONLINEAR_EXACT], &m);
    if (bad == 0)
        bad = take_bool(c->run, "fast", &n->choice.mode[NONLINEAR_FAST], &m);
    if (bad == 0)
        bad = take_bool(c->run, "plain", &n->choice.plain, &m);
    if (bad != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (take_functions(n, json_object_get(c->run, "functions"), &m) != 0)
        return report_error(EXIT_BAD_INPUT, "job.run.functions: %s", text);
    if (nonlinear_choose(&n->choice, &m) == 0)
        return EXIT_DONE;
    flags_json_words("job.run", NULL, &m);
    return report_error(EXIT_BAD_INPUT, "%s", text);
}

static int check_rest(const work_config *c) {
    static const char *const none[] = {NULL};
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    if (flags_json_only(c->data, "data", none, &m) != 0 ||
        flags_json_only(c->output, "output", none, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (c->replicas != 1 || c->stages != 1 || c->tensor_ranks != 1 || c->microbatches != 1 ||
        c->sks != 0)
        return report_error(EXIT_BAD_INPUT,
                            "job: functions are measured by one worker per party: leave out "
                            "replicas, stages, tensor_ranks, microbatches and sks");
    return EXIT_DONE;
}

/* ---- programs ---- */

/* Fast ones are held to the bound: see above. */
static void plan_of(measure_plan *p, const measured *m) {
    measure_plan_of(p, &m->job);
    if (!m->job.exact)
        p->result.check = MEASURE_BOUND;
}

/* A program of some of what is measured; *base as measure_plan.h. */
static int build(measured *m, uint32_t count, uvcc_program **out, measure_plan *kept) {
    const uvcc_allocator al = uvcc_host_allocator();
    char message[MESSAGE_BYTES] = "";
    measure_plan plan;
    int rc = uvcc_program_new(out, &al);
    for (uint32_t i = 0; i < count && rc == 0; i++) {
        measure_plan *p = kept != NULL ? kept : &plan;
        plan_of(p, &m[i]);
        rc = measure_plan_add(p, *out);
        if (rc == 0 && kept == NULL) {
            const measure_shape s = p->entry[MEASURE_WITH].shape;
            m[i].base = p->base;
            m[i].batches = (uint32_t)measure_batches(p);
            m[i].widths = p->entries - MEASURE_WITH - 1;
            m[i].batch_elements = (uint64_t)s.rows * s.cols;
        }
    }
    if (rc == 0)
        rc = uvcc_program_finish(*out, message, sizeof message);
    if (rc == 0)
        return EXIT_DONE;
    uvcc_program_free(*out);
    *out = NULL;
    return report_error(rc == UVCC_ERR_LIMIT ? EXIT_BAD_INPUT : EXIT_FAILED,
                        "the program of the functions: %s%s%s%s", uvcc_error_text(rc),
                        *message != '\0' ? ": " : "", message,
                        rc == UVCC_ERR_LIMIT ? "; name fewer in job.run.functions" : "");
}

static int make_program(void *work, const work_worker *w, uvcc_program **out) {
    measuring *n = work;
    (void)w;
    return build(n->m, n->count, out, NULL);
}

/* ---- begin and end ---- */

static void close_plan(measuring *n) {
    if (n->now != NULL)
        measure_plan_free(&n->plan);
    uvcc_program_free(n->program);
    n->program = NULL;
    n->now = NULL;
}

static void close_measuring(void *work) {
    measuring *n = work;
    if (n == NULL)
        return;
    close_plan(n);
    free(n);
}

static int open_measuring(void **work, const work_config *c) {
    measuring *n = calloc(1, sizeof *n);
    uvcc_program *program = NULL;
    *work = n;
    if (n == NULL)
        return no_memory();
    n->party = c->party;
    int status = take_run(n, c);
    if (status == EXIT_DONE)
        status = check_rest(c);
    for (unsigned i = 0; i < NONLINEAR_SUBJECTS * NONLINEAR_MODES; i++) {
        const unsigned subject = i / NONLINEAR_MODES, mode = i % NONLINEAR_MODES;
        if (n->choice.wanted[subject] && n->choice.mode[mode])
            n->m[n->count++] = (measured){.subject = subject,
                                          .mode = mode,
                                          .job = nonlinear_job(subject, mode, n->inputs, n->seed)};
    }
    if (status == EXIT_DONE)
        status = build(n->m, n->count, &program, NULL);
    for (uint32_t i = 0; status == EXIT_DONE && i < n->count; i++) {
        n->m[i].first = n->steps;
        n->steps += MEASURE_WITHOUT_STEPS + n->m[i].batches + n->m[i].widths;
    }
    uvcc_program_free(program);
    if (status == EXIT_DONE)
        return status;
    close_measuring(n);
    *work = NULL;
    return status;
}

/* ---- steps ---- */

typedef struct place {
    measured *m;
    uint32_t fill; /* see measure_plan_fill() */
    unsigned entry;
    uint32_t local; /* the step, of those of m */
    bool last;
} place;

static place place_of(const measuring *n, uint32_t step) {
    uint32_t i = n->count - 1;
    while (n->m[i].first > step)
        i--;
    measured *m = (measured *)(uintptr_t)&n->m[i]; /* the callers' */
    const uint32_t local = step - m->first;
    place p = {.m = m, .local = local};
    p.last = local + 1 == MEASURE_WITHOUT_STEPS + m->batches + m->widths;
    if (local < MEASURE_WITHOUT_STEPS)
        return p;
    p.fill = local - MEASURE_WITHOUT_STEPS + 1;
    p.entry = p.fill <= m->batches ? MEASURE_WITH : MEASURE_WITH + (p.fill - m->batches);
    return p;
}

static uint32_t count_steps(const void *work) {
    return ((const measuring *)work)->steps;
}

/* Inputs of a step are there one at a time. */
static uint32_t entry_of(const void *work, const work_worker *w, uint32_t step, const char **name,
                         bool *ahead) {
    const place p = place_of(work, step);
    (void)w;
    *name = nonlinear_name(p.m->subject);
    *ahead = false;
    return p.m->base + p.entry;
}

static int open_plan(measuring *n, measured *m) {
    close_plan(n);
    int status = build(m, 1, &n->program, &n->plan);
    if (status != EXIT_DONE)
        return status;
    n->now = m;
    m->done = m->without_known = false;
    m->with = (cost){0};
    m->with_count = 0;
    m->compared = 0;
    (void)crypto_hash_sha256_init(&n->opened);
    if (m->job.exact && measure_plan_reference(&n->plan) != 0)
        return no_memory();
    return measure_plan_room(&n->plan);
}

/* The plan has the step's inputs. Fills come in order: one that is over takes a new plan. */
static int bring(measuring *n, const place *p) {
    int status = EXIT_DONE;
    if (n->now == p->m && n->filled == p->fill)
        return status;
    if (n->now != p->m || n->filled > p->fill) {
        status = open_plan(n, p->m);
        if (status == EXIT_DONE)
            measure_plan_fill(&n->plan, MEASURE_WITHOUT, 0);
        n->filled = 0;
    }
    for (; status == EXIT_DONE && n->filled < p->fill; n->filled++) {
        const uint32_t fill = n->filled + 1;
        if (fill <= p->m->batches)
            measure_plan_fill(&n->plan, MEASURE_WITH, fill - 1);
        else
            measure_plan_fill(&n->plan, MEASURE_WITH + (fill - p->m->batches), 0);
    }
    return status;
}

static int prepare(void *work, const work_worker *w, uvcc_session *s, uint32_t step) {
    const place p = place_of(work, step);
    (void)w;
    (void)s;
    return bring(work, &p);
}

/* Nothing is kept from one step to the next. */
static int first_values(void *work, const work_worker *w, uvcc_session *s) {
    (void)work;
    (void)w;
    (void)s;
    return EXIT_DONE;
}

static const int64_t *give_input(void *work, const work_worker *w, uint32_t step, uint32_t id) {
    const measuring *n = work;
    const place p = place_of(work, step);
    (void)w;
    return n->plan.in[id - 10 * (p.m->base + p.entry)];
}

/* ---- what is opened ---- */

static uint64_t id_of(const place *p, unsigned output) {
    return 10 * ((uint64_t)p->m->base + p->entry) + output;
}

static int compare(measuring *n, const place *p, const uvcc_session *s, uint32_t step) {
    const int64_t *opened[MEASURE_OUTPUTS_MAX];
    const measure_shape shape = n->plan.entry[p->entry].shape;
    for (unsigned o = 0; o < n->plan.outputs; o++) {
        opened[o] = uvcc_session_output(s, step, (uint32_t)id_of(p, o));
        if (opened[o] == NULL)
            return report_error(EXIT_FAILED, "%s: nothing is open", nonlinear_name(p->m->subject));
        (void)crypto_hash_sha256_update(&n->opened, (const uint8_t *)opened[o],
                                        measure_plan_elements(&n->plan, p->entry) *
                                            sizeof *opened[o]);
    }
    p->m->compared += (uint64_t)shape.rows * shape.cols;
    int status = EXIT_DONE;
    if (p->m->job.exact)
        status = measure_plan_compare(&n->plan, p->entry, opened);
    measure_plan_errors(&n->plan, p->entry, opened[0]);
    return status;
}

/* A step costs what the counters have more of than after the one before it, in one session. */
static void note_cost(measuring *n, const place *p, const uvcc_session *s, uint32_t step) {
    uvcc_session_stats st;
    uvcc_session_get_stats(s, &st);
    const cost now = {st.rounds, st.bytes_online, st.bytes_preprocessing, uvcc_host_now_ns()};
    const cost then = n->at;
    const bool known = n->session == s && n->step + 1 == step && now.rounds >= then.rounds &&
                       now.online >= then.online && now.keys >= then.keys;
    const cost more = {now.rounds - then.rounds, now.online - then.online, now.keys - then.keys,
                       now.ns - then.ns};
    n->session = s;
    n->step = step;
    n->at = now;
    if (!known)
        return;
    if (p->entry == MEASURE_WITHOUT) {
        p->m->without = more;
        p->m->without_known = p->local + 1 == MEASURE_WITHOUT_STEPS;
    } else if (p->entry == MEASURE_WITH) {
        p->m->with.rounds += more.rounds;
        p->m->with.online += more.online;
        p->m->with.keys += more.keys;
        p->m->with.ns += more.ns;
        p->m->with_count++;
    }
}

static void finish(measuring *n, measured *m) {
    measure_plan_finish(&n->plan);
    m->result = n->plan.result;
    m->result.inputs = m->compared;
    (void)crypto_hash_sha256_final(&n->opened, m->opened);
    m->done = true;
}

static int finished(void *work, const work_worker *w, uvcc_session *s, uint32_t step,
                    char text[64]) {
    measuring *n = work;
    const place p = place_of(work, step);
    (void)w;
    note_cost(n, &p, s, step);
    (void)snprintf(text, 64, "%s %s", nonlinear_name(p.m->subject), nonlinear_mode(p.m->mode));
    if (p.entry == MEASURE_WITHOUT)
        return EXIT_DONE;
    const int status = compare(n, &p, s, step);
    if (status == EXIT_DONE && p.last)
        finish(n, p.m);
    return status;
}

/* ---- the result ---- */

/* Bytes are those that this party sends; null where a run that began again cut the steps. */
static json_t *result_json(const measured *m) {
    const bool known = m->without_known && m->with_count != 0;
    const double elements = (double)m->batch_elements, count = known ? m->with_count : 1;
    json_t *o = nonlinear_json(m->subject, m->mode, &m->result);
    const struct {
        const char *name;
        json_t *value;
    } members[] = {
        {"rounds", json_integer((json_int_t)(m->with.rounds / (known ? m->with_count : 1)) -
                                (json_int_t)m->without.rounds)},
        {"own_online_bytes",
         json_real(((double)m->with.online / count - (double)m->without.online) / elements)},
        {"own_key_bytes",
         json_real(((double)m->with.keys / count - (double)m->without.keys) / elements)},
        {"per_s", json_real(elements * count / ((double)m->with.ns * 1e-9 + 1e-9))},
    };
    int bad = json_object_del(o, "online_bytes") | json_object_del(o, "key_bytes");
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        bad |= json_object_set(o, members[i].name, known ? members[i].value : json_null());
        json_decref(members[i].value);
    }
    bad |= json_object_set_new(o, "opened_sha256", report_hex(m->opened, sizeof m->opened));
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

static int part(void *work, uint8_t **bytes, size_t *len) {
    const measuring *n = work;
    json_t *list = json_array();
    int bad = list == NULL;
    for (uint32_t i = 0; i < n->count && bad == 0; i++)
        if (n->m[i].done)
            bad |= json_array_append_new(list, result_json(&n->m[i]));
    char *text = bad == 0 ? json_dumps(list, JSON_COMPACT) : NULL;
    json_decref(list);
    *bytes = (uint8_t *)text;
    *len = text != NULL ? strlen(text) : 0;
    return text != NULL ? EXIT_DONE : no_memory();
}

/* What is wrong is said, and the result has it too. */
static int say_wrong(const json_t *list) {
    int status = EXIT_DONE;
    size_t i;
    json_t *f;
    json_array_foreach(list, i, f) {
        const bool equal = json_is_true(json_object_get(f, "secure_equal"));
        if (equal && json_number_value(json_object_get(f, "of_bound")) <= 1)
            continue;
        status = report_error(EXIT_FAILED, "%s, %s: %s",
                              json_string_value(json_object_get(f, "function")),
                              json_string_value(json_object_get(f, "mode")),
                              equal ? "an error is above its bound"
                                    : "the opened values are not what they should be");
    }
    return status;
}

static int merge(void *work, const uint8_t *const *parts, const size_t *len, size_t count,
                 json_t *result) {
    (void)work;
    json_t *list = count == 1 ? json_loadb((const char *)parts[0], len[0], 0, NULL) : NULL;
    if (list == NULL)
        return no_memory();
    const int status = say_wrong(list);
    return json_object_set_new(result, "functions", list) == 0 ? status : no_memory();
}

const work_kind work_nonlinear = {.name = "nonlinear",
                                  .open = open_measuring,
                                  .close = close_measuring,
                                  .program = make_program,
                                  .steps = count_steps,
                                  .entry = entry_of,
                                  .prepare = prepare,
                                  .first_values = first_values,
                                  .input = give_input,
                                  .finished = finished,
                                  .part = part,
                                  .merge = merge};
