/* SPDX-License-Identifier: Apache-2.0 */
/* work_drive.c - see work_drive.h. */
#include "work_drive.h"

#include "report.h"
#include "seeded.h"

#include <sys/stat.h>
#include <uvcc/store.h>
#include <uvcc/uvcc.h>

enum { WORKERS_MAX = 8, TURNS_MAX = 5000000 };

typedef struct member {
    work_worker at;
    void *work;
    uvcc_store *store;
    uvcc_session *session;
    uvcc_cpu *cpu;
    uvcc_seeded_random random;
    uint32_t agreed, finished, checkpointed;
    bool ready, closed;
} member;

typedef struct drive {
    const work_job *j;
    uint32_t workers, steps, run;
    json_t *run_json, *data[UVCC_PARTIES], *output[UVCC_PARTIES];
    void *work[UVCC_PARTIES][WORKERS_MAX];        /* the first alone, unless they are apart */
    uvcc_store *store[UVCC_PARTIES][WORKERS_MAX]; /* the same; NULL: none */
    member m[WORKERS_MAX][UVCC_PARTIES];
    uvcc_loopback *net[WORKERS_MAX];
    uvcc_collective *plane[UVCC_PARTIES];
    session_log log;
    uvcc_allocator al;
} drive;

json_t *work_json(const char *text) {
    char line[2048];
    if (text == NULL)
        return NULL;
    (void)snprintf(line, sizeof line, "%s", text);
    for (char *c = line; *c != '\0'; c++)
        *c = *c == '\'' ? '"' : *c;
    json_t *o = json_loads(line, 0, NULL);
    assert_non_null(o);
    return o;
}

static work_config config_of(const drive *d, unsigned p) {
    const work_job *j = d->j;
    return (work_config){.run = d->run_json,
                         .data = d->data[p],
                         .output = d->output[p],
                         .dir = ".",
                         .party = (uint8_t)p,
                         .replicas = j->replicas,
                         .stages = j->stages,
                         .tensor_ranks = j->tensor_ranks,
                         .microbatches = j->microbatches,
                         .sks = j->sks};
}

static void read_json(drive *d, const work_job *j) {
    *d = (drive){.j = j,
                 .workers = (uint32_t)j->replicas * j->stages * j->tensor_ranks,
                 .run_json = work_json(j->run),
                 .al = uvcc_host_allocator()};
    assert_true(d->workers <= WORKERS_MAX);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        d->data[p] = work_json(j->data[p]);
        d->output[p] = work_json(j->output[p]);
    }
}

static void free_json(drive *d) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        json_decref(d->data[p]);
        json_decref(d->output[p]);
    }
    json_decref(d->run_json);
}

void work_refused(const work_job *j, unsigned p, const char *part) {
    drive d;
    read_json(&d, j);
    const work_config c = config_of(&d, p);
    void *work = &d;
    const int kept = hear();
    const int status = j->kind->open(&work, &c);
    char *said = heard(kept);
    if (status != EXIT_BAD_INPUT || strstr(said, part) == NULL || lines(said) != 1)
        fail_msg("status %d, not a line with '%s': %s", status, part, said);
    assert_null(work);
    free(said);
    free_json(&d);
}

/* ---- sessions ---- */

static void begin_member(drive *d, uint32_t i, unsigned p, uvcc_program *program) {
    const work_job *j = d->j;
    member *m = &d->m[i][p];
    const uint32_t number = (d->run << 8 | i) * UVCC_PARTIES + p;
    uvcc_cpu_config cpu = {.size = sizeof cpu, .alloc = d->al, .mode = UVCC_CPU_INLINE};
    uvcc_config cfg;
    *m = (member){.at = {.replica = (uint16_t)(i / j->tensor_ranks / j->stages),
                         .stage = (uint16_t)(i / j->tensor_ranks % j->stages),
                         .tensor_rank = (uint16_t)(i % j->tensor_ranks),
                         .program = program},
                  .work = d->work[p][j->apart ? i : 0],
                  .store = d->store[p][j->apart ? i : 0]};
    if (program == NULL)
        assert_int_equal(j->kind->program(m->work, &m->at, &m->at.program), EXIT_DONE);
    assert_int_equal(uvcc_config_default(&cfg, sizeof cfg), 0);
    seeded_session(&cfg, &d->al, "party", j->seed, p, NULL, &d->log);
    cfg.random = uvcc_seeded(&m->random, j->seed, number);
    cfg.resume.next_run = d->run;
    cfg.place.replicas = j->replicas;
    cfg.place.stages = j->stages;
    cfg.place.tp_ranks = j->tensor_ranks;
    cfg.place.replica = m->at.replica;
    cfg.place.stage = m->at.stage;
    cfg.place.tp_rank = m->at.tensor_rank;
    cfg.resume.checkpoint_every = m->store != NULL ? 1 : 0;
    assert_int_equal(uvcc_cpu_new(&m->cpu, &cpu), 0);
    if (m->store != NULL)
        assert_int_equal(uvcc_store_configure(m->store, &cfg), 0);
    assert_int_equal(uvcc_session_new(&m->session, &cfg), 0);
    assert_int_equal(uvcc_session_load_program(m->session, m->at.program), 0);
    if (m->store != NULL)
        assert_int_equal(uvcc_store_offer(m->store, m->session, &cfg), 0);
    assert_int_equal(uvcc_session_start(m->session, uvcc_loopback_now(d->net[i])), 0);
}

/* Before a run: each process takes its number. */
static void open_stores(drive *d) {
    char dir[128], why[UVCC_STORE_TEXT_BYTES];
    for (unsigned p = 0; d->j->store != NULL && p < UVCC_PARTIES; p++)
        for (uint32_t i = 0; i < (d->j->apart ? d->workers : 1); i++) {
            const uint32_t ranks = d->j->tensor_ranks, stages = d->j->stages;
            uint32_t run;
            uvcc_store_config c;
            int n = snprintf(dir, sizeof dir, "%s-%u", d->j->store, p);
            (void)mkdir(dir, 0700);
            if (d->j->apart)
                (void)snprintf(dir + n, sizeof dir - (size_t)n, "/r%u-s%u-t%u", i / ranks / stages,
                               i / ranks % stages, i % ranks);
            uvcc_store_config_default(&c);
            c.dir = dir;
            c.party = (uint8_t)p;
            if (d->store[p][i] == NULL &&
                uvcc_store_open(&d->store[p][i], &c, why, sizeof why) != 0)
                fail_msg("%s", why);
            assert_int_equal(uvcc_store_next_run(d->store[p][i], &run), 0);
        }
}

static void begin(drive *d) {
    const work_job *j = d->j;
    open_stores(d);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        assert_int_equal(
            uvcc_collective_new(&d->plane[p],
                                &(uvcc_collective_config){.size = sizeof(uvcc_collective_config),
                                                          .alloc = d->al,
                                                          .replicas = j->replicas,
                                                          .stages = j->stages,
                                                          .tp_ranks = j->tensor_ranks}),
            0);
    for (uint32_t i = 0; i < d->workers; i++) {
        assert_int_equal(seeded_network(&d->net[i], &d->al, NULL, 1), 0);
        assert_int_equal(uvcc_loopback_set_all_faults(d->net[i], d->j->path), 0);
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            begin_member(d, i, p, d->m[i][p].at.program);
    }
    d->run++;
}

static void end(drive *d) {
    for (uint32_t i = 0; i < d->workers; i++) {
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            uvcc_cpu_free(d->m[i][p].cpu);
            d->m[i][p].cpu = NULL;
        }
    }
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        uvcc_collective_free(d->plane[p]);
    for (uint32_t i = 0; i < d->workers; i++) {
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            uvcc_session_free(d->m[i][p].session);
        uvcc_loopback_free(d->net[i]);
    }
}

/* ---- steps ---- */

static void take_events(drive *d, member *m) {
    uvcc_event e;
    while (uvcc_session_poll_event(m->session, &e) == 1) {
        char text[64] = "not set";
        const int kept = m->store != NULL ? uvcc_store_event(m->store, m->session, &e) : 0;
        assert_true(kept >= 0);
        if (e.kind == UVCC_EVENT_ABORTED || e.kind == UVCC_EVENT_MISMATCH)
            fail_msg("a session stopped: %s: %s", e.text, d->log.line);
        if (e.kind == UVCC_EVENT_READY) {
            m->ready = true;
            m->agreed = m->finished = e.step;
            if (m->store == NULL || kept == UVCC_STORE_SET)
                assert_int_equal(d->j->kind->first_values(m->work, &m->at, m->session), EXIT_DONE);
        }
        if (e.kind == UVCC_EVENT_STEP_FINISHED) {
            assert_int_equal(e.step, m->finished);
            assert_int_equal(d->j->kind->finished(m->work, &m->at, m->session, e.step, text),
                             EXIT_DONE);
            assert_true(strcmp(text, "not set") != 0 && strlen(text) < sizeof text);
            m->finished++;
        }
        if (e.kind == UVCC_EVENT_CHECKPOINT)
            m->checkpointed = e.step;
        m->closed = m->closed || e.kind == UVCC_EVENT_CLOSED;
    }
}

static void give_inputs(drive *d, member *m, unsigned p, uint32_t step, uint32_t entry,
                        uint64_t now) {
    for (uint32_t k = 0; k < uvcc_program_input_count(m->at.program, entry); k++) {
        const uvcc_io_desc *in = uvcc_program_input_at(m->at.program, entry, k);
        if (in->owner != p)
            continue;
        const int64_t *v = d->j->kind->input(m->work, &m->at, step, in->id);
        assert_non_null(v);
        assert_int_equal(uvcc_session_input(m->session, step, in->id, v, now), 0);
    }
}

static void advance(drive *d, member *m, unsigned p, uint32_t until, uint64_t now) {
    const work_kind *k = d->j->kind;
    while (m->ready && m->agreed < until) {
        const char *name = NULL;
        bool ahead = false;
        const uint32_t entry = k->entry(m->work, &m->at, m->agreed, &name, &ahead);
        assert_non_null(name);
        if (m->agreed > m->finished + (ahead ? 1 : 0))
            return;
        if (k->prepare != NULL)
            assert_int_equal(k->prepare(m->work, &m->at, m->session, m->agreed), EXIT_DONE);
        const int rc = m->store != NULL
                           ? uvcc_store_step(m->store, m->session, m->agreed, entry, now)
                           : uvcc_session_step(m->session, m->agreed, entry, now);
        if (rc == UVCC_ERR_AGAIN)
            return;
        assert_int_equal(rc, 0);
        give_inputs(d, m, p, m->agreed, entry, now);
        m->agreed++;
    }
}

static void turn(drive *d, uint32_t until) {
    uvcc_loopback_triangle t[WORKERS_MAX];
    for (uint32_t i = 0; i < d->workers; i++) {
        t[i] = (uvcc_loopback_triangle){.net = d->net[i]};
        for (unsigned p = 0; p < UVCC_PARTIES; p++) {
            member *m = &d->m[i][p];
            take_events(d, m);
            advance(d, m, p, until, uvcc_loopback_now(d->net[i]));
            t[i].sessions[p] = m->session;
            t[i].executors[p] = m->cpu;
        }
    }
    assert_true(uvcc_loopback_drive_all(t, d->workers, d->plane) >= 0);
}

static bool all_done(const drive *d, uint32_t until, bool closed) {
    for (uint32_t i = 0; i < d->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if (d->m[i][p].finished < until ||
                (d->j->store != NULL && d->m[i][p].checkpointed < until) ||
                (closed && !d->m[i][p].closed))
                return false;
    return true;
}

static void drive_until(drive *d, uint32_t until, bool closed) {
    for (unsigned n = 0; !all_done(d, until, closed); n++) {
        assert_true(n < TURNS_MAX);
        turn(d, until);
    }
}

/* ---- the whole ---- */

/* What the parties' handshakes would compare. */
static void check_agree(const drive *d, uint32_t objects) {
    const char *name = NULL, *first = NULL;
    if (d->j->kind->agree == NULL)
        return;
    const uint64_t v = d->j->kind->agree(d->work[0][0], &first);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        for (uint32_t i = 0; i < objects; i++) {
            assert_true(d->j->kind->agree(d->work[p][i], &name) == v);
            assert_string_equal(name, first);
        }
}

static void merge(drive *d, unsigned p, json_t **result) {
    const work_kind *k = d->j->kind;
    const uint32_t count = d->j->apart ? d->workers : 1;
    uint8_t *bytes[WORKERS_MAX];
    size_t len[WORKERS_MAX];
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(k->part(d->work[p][i], &bytes[i], &len[i]), EXIT_DONE);
    *result = json_object();
    assert_int_equal(k->merge(d->work[p][0], (const uint8_t *const *)bytes, len, count, *result),
                     EXIT_DONE);
    for (uint32_t i = 0; i < count; i++)
        free(bytes[i]);
}

void work_drive(const work_job *j, json_t *result[UVCC_PARTIES]) {
    drive *d = malloc(sizeof *d);
    assert_non_null(d);
    read_json(d, j);
    const uint32_t objects = j->apart ? d->workers : 1;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        for (uint32_t i = 0; i < objects; i++) {
            const work_config c = config_of(d, p);
            assert_int_equal(j->kind->open(&d->work[p][i], &c), EXIT_DONE);
        }
    const uint32_t steps = j->kind->steps(d->work[0][0]);
    begin(d);
    if (j->restart_after != 0) {
        drive_until(d, j->restart_after, false);
        end(d);
        begin(d);
    }
    drive_until(d, steps, false);
    if (j->took_ns != NULL)
        *j->took_ns = uvcc_loopback_now(d->net[0]);
    check_agree(d, objects);
    for (uint32_t i = 0; i < d->workers; i++)
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            assert_int_equal(uvcc_session_close(d->m[i][p].session, uvcc_loopback_now(d->net[i])),
                             0);
    drive_until(d, steps, true);
    end(d);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        merge(d, p, &result[p]);
        for (uint32_t i = 0; i < d->workers; i++)
            uvcc_program_free(d->m[i][p].at.program);
        for (uint32_t i = 0; i < objects; i++) {
            j->kind->close(d->work[p][i]);
            uvcc_store_free(d->store[p][i]);
        }
    }
    free_json(d);
    free(d);
}
