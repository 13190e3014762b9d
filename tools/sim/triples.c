/* SPDX-License-Identifier: Apache-2.0 */
/* triples.c - triples that stores keep over restarts: beside the run of every few seeds, a small
 * job of its own. Three sessions make triples; others use them, are ended at any step and begin
 * again some steps before with other inputs, and the stores of one or two parties, never of all
 * three, may be put back from old copies.
 * Nothing is opened twice under one mask, no life of the job stops, and all products are right. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>
#include <uvcc/prg_uses.h>

enum {
    EVERY = 4,
    ELEMS = 6,
    TILE = 2,
    MADE = 5,
    LIVES = 3,
    ALL = 7,
    IN_X = 1,
    IN_Y = 2,
    OUT_Z = 3,
    TURNS = 100000
};

typedef struct kept {
    uvcc_triple_store *store;
    uint8_t *saved, *old; /* on the disk; as it was when the triples had been made */
    size_t saved_len, old_len;
} kept;

/* Three parties and what is between them: nothing is lost, and time goes on when all wait. */
typedef struct trio {
    sim_outcome *out;
    uint64_t seed, now;
    uvcc_program *program;
    uvcc_cpu *cpu;
    uvcc_session *s[UVCC_PARTIES];
    uvcc_seeded_random random[UVCC_PARTIES];
    uvcc_prg_uses *uses[UVCC_PARTIES]; /* over all lives */
    kept kept[UVCC_PARTIES];
    sim_random draw;
    unsigned ready, finished; /* how many parties said so */
    unsigned put_back;        /* bit p: party p's store was, in this life or before; never all */
} trio;

static void fail(trio *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(trio *t, const char *format, ...) {
    char text[160];
    va_list args;
    if (t->out->failed)
        return;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    t->out->failed = true;
    (void)snprintf(t->out->why, sizeof t->out->why, "triples that are kept: %s", text);
}

static void must(trio *t, int rc, const char *what) {
    if (rc != 0)
        fail(t, "%s says %d", what, rc);
}

/* ---- the job ---- */

static uint32_t tensor(uvcc_program *p, const char *name, uint8_t bits) {
    const uvcc_tensor_desc d = {.name = name,
                                .rows = ELEMS,
                                .cols = 1,
                                .bits = bits,
                                .lifetime = UVCC_TRANSIENT,
                                .in_buffer_of = UVCC_NO_TENSOR};
    return (uint32_t)uvcc_program_tensor(p, &d);
}

/* z = x y, in tiles. */
static void make_program(trio *t) {
    const uvcc_allocator al = uvcc_host_allocator();
    must(t, uvcc_program_new(&t->program, &al), "uvcc_program_new");
    if (t->out->failed)
        return;
    const uint32_t x = tensor(t->program, "x", 20), y = tensor(t->program, "y", 20),
                   z = tensor(t->program, "z", 50);
    (void)uvcc_program_entry(t->program, "run");
    (void)uvcc_program_input(t->program, IN_X, x, 0);
    (void)uvcc_program_input(t->program, IN_Y, y, 1);
    (void)uvcc_program_op(t->program, &(uvcc_op_desc){.opcode = UVCC_OP_ELEM_MUL,
                                                      .phase = UVCC_FWD,
                                                      .flags = UVCC_OP_BEAVER,
                                                      .tile_rows = TILE,
                                                      .in_count = 2,
                                                      .in = {x, y},
                                                      .out_count = 1,
                                                      .out = {z}});
    (void)uvcc_program_output(t->program, OUT_Z, z);
    must(t, uvcc_program_finish(t->program, NULL, 0), "uvcc_program_finish");
}

static void begin(trio *t, bool make, uint32_t run, uint32_t step) {
    t->ready = t->finished = 0;
    for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
        uvcc_config c;
        (void)uvcc_config_default(&c, sizeof c);
        c.alloc = uvcc_host_allocator();
        c.random = uvcc_seeded(&t->random[p], t->seed, 1000u + 16u * run + p);
        c.identity.party = p;
        memset(c.identity.sid_job, 0x77, 32);
        memset(c.identity.sign_seed, 0x40 + p, 32);
        for (uint8_t q = 0; q < UVCC_PARTIES; q++)
            if (q != p)
                memset(c.identity.pair_secret[q], 0x21 * (p + q), 32);
        c.resume.next_run = run;
        c.resume.next_step = step;
        c.triples.only = make;
        c.triples.run = make ? UVCC_TRIPLES_ANY_RUN : 0;
        must(t, uvcc_session_new(&t->s[p], &c), "uvcc_session_new");
        if (t->s[p] == NULL)
            return;
        must(t, uvcc_session_load_program(t->s[p], t->program), "uvcc_session_load_program");
        must(t, uvcc_session_start(t->s[p], t->now), "uvcc_session_start");
        for (uint8_t q = 0; q < UVCC_PARTIES; q++)
            if (q != p)
                (void)uvcc_session_peer_open(t->s[p], q, t->now);
    }
}

static void end(trio *t) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_session_free(t->s[p]);
        t->s[p] = NULL;
    }
}

/* ---- its world ---- */

static void inspect(trio *t, unsigned party, const uvcc_job *job) {
    uvcc_prg_use u;
    for (uint32_t i = 0; i < job->count; i++)
        if (uvcc_prg_uses_task(t->uses[party], &job->tasks[i], &u) == UVCC_ERR_REFUSED)
            fail(t, "party %u uses a word twice: tag %s, lane %u, ordinal %u, block %u, task %u",
                 party, uvcc_prg_tag_name(u.tag), u.lane, u.ordinal, u.block, u.kind);
}

static bool work(trio *t, uint8_t p) {
    const uvcc_job *job;
    uvcc_completion c;
    uvcc_transmit tx;
    bool any = false;
    while (uvcc_session_poll_job(t->s[p], &job) == 1) {
        inspect(t, p, job);
        must(t, uvcc_cpu_submit(t->cpu, job), "uvcc_cpu_submit");
        while (uvcc_cpu_poll(t->cpu, &c) == 1)
            (void)uvcc_session_complete(t->s[p], &c, t->now);
        any = true;
    }
    while (uvcc_session_poll_transmit(t->s[p], &tx, t->now) == 1) {
        for (uint32_t i = 0; i < tx.slice_count; i++)
            (void)uvcc_session_feed(t->s[tx.peer], p, tx.slices[i].data, tx.slices[i].len, t->now);
        (void)uvcc_session_transmit_done(t->s[p], tx.peer, tx.id, tx.total, t->now);
        any = true;
    }
    return any;
}

static bool events(trio *t, uint8_t p) {
    uvcc_event e;
    bool any = false;
    for (; uvcc_session_poll_event(t->s[p], &e) == 1; any = true) {
        t->ready += e.kind == UVCC_EVENT_READY;
        t->finished += e.kind == UVCC_EVENT_STEP_FINISHED;
        if (e.kind == UVCC_EVENT_ABORTED)
            fail(t, "party %u aborts: %s", p, uvcc_abort_text(e.reason));
    }
    return any;
}

/* Until as many have said it. */
static void until(trio *t, const unsigned *said, unsigned many) {
    for (unsigned i = 0; *said < many && !t->out->failed; i++) {
        uint64_t next = UVCC_NEVER;
        bool any = false;
        for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
            any |= work(t, p);
            any |= events(t, p);
        }
        for (uint8_t p = 0; p < UVCC_PARTIES && !any; p++) {
            const uint64_t at = uvcc_session_next_deadline(t->s[p]);
            next = at < next ? at : next;
        }
        if (!any && (next == UVCC_NEVER || i > TURNS))
            fail(t, "all wait");
        if (any || t->out->failed)
            continue;
        t->now = next > t->now ? next : t->now;
        for (uint8_t p = 0; p < UVCC_PARTIES; p++)
            if (uvcc_session_next_deadline(t->s[p]) <= t->now)
                (void)uvcc_session_on_timer(t->s[p], t->now);
    }
}

/* ---- stores ---- */

static void save(trio *t, kept *k) {
    free(k->saved);
    k->saved_len = uvcc_triple_store_saved_bytes(k->store);
    k->saved = malloc(k->saved_len);
    if (k->saved == NULL)
        abort();
    must(t, uvcc_triple_store_save(k->store, k->saved, k->saved_len), "uvcc_triple_store_save");
}

static void make(trio *t) {
    const uvcc_allocator al = uvcc_host_allocator();
    begin(t, true, 1, 0);
    until(t, &t->ready, UVCC_PARTIES);
    for (uint32_t step = 0; step < MADE && !t->out->failed; step++) {
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            must(t, uvcc_session_step(t->s[p], step, 0, t->now), "uvcc_session_step");
        until(t, &t->finished, UVCC_PARTIES * (step + 1));
        for (unsigned p = 0; p < UVCC_PARTIES && !t->out->failed; p++) {
            kept *k = &t->kept[p];
            const uint8_t *data;
            uint32_t of;
            size_t len;
            if (k->store == NULL)
                must(t, uvcc_triple_store_new(&k->store, &al), "uvcc_triple_store_new");
            must(t, uvcc_session_triples(t->s[p], &of, &data, &len), "uvcc_session_triples");
            if (!t->out->failed)
                must(t, uvcc_triple_store_add(k->store, data, len), "uvcc_triple_store_add");
        }
    }
    for (unsigned p = 0; p < UVCC_PARTIES && !t->out->failed; p++) {
        kept *k = &t->kept[p];
        save(t, k);
        k->old = malloc(k->saved_len);
        if (k->old == NULL)
            abort();
        k->old_len = k->saved_len;
        memcpy(k->old, k->saved, k->saved_len);
    }
}

/* What is on the disk, or a copy of what was there at first. */
static void load(trio *t, unsigned party, bool old) {
    const uvcc_allocator al = uvcc_host_allocator();
    kept *k = &t->kept[party];
    uvcc_triple_store_free(k->store);
    k->store = NULL;
    must(t,
         uvcc_triple_store_load(&k->store, &al, old ? k->old : k->saved,
                                old ? k->old_len : k->saved_len),
         "uvcc_triple_store_load");
}

/* As hosts do it: what is handed out is saved before the step is agreed to. */
static void give(trio *t, unsigned party, uint32_t step) {
    kept *k = &t->kept[party];
    const uint8_t *data;
    size_t len;
    const int rc = uvcc_triple_store_take(k->store, UVCC_TRIPLES_ANY_RUN, step, &data, &len);
    save(t, k);
    if (rc == 0)
        must(t, uvcc_session_load_triples(t->s[party], data, len), "uvcc_session_load_triples");
}

/* ---- a life ---- */

static void fill(trio *t, int64_t v[ELEMS]) {
    for (unsigned i = 0; i < ELEMS; i++)
        v[i] = (int64_t)sim_below(&t->draw, 1000) - 500;
}

static void one_step(trio *t, uint32_t step) {
    int64_t x[ELEMS], y[ELEMS];
    const unsigned before = t->finished;
    fill(t, x);
    fill(t, y);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        give(t, p, step);
        must(t, uvcc_session_step(t->s[p], step, 0, t->now), "uvcc_session_step");
    }
    if (t->out->failed)
        return;
    must(t, uvcc_session_input(t->s[0], step, IN_X, x, t->now), "uvcc_session_input");
    must(t, uvcc_session_input(t->s[1], step, IN_Y, y, t->now), "uvcc_session_input");
    until(t, &t->finished, before + UVCC_PARTIES);
    for (unsigned p = 0; p < UVCC_PARTIES && !t->out->failed; p++) {
        const int64_t *z = uvcc_session_output(t->s[p], step, OUT_Z);
        for (unsigned i = 0; i < ELEMS; i++)
            if (z == NULL || z[i] != x[i] * y[i])
                fail(t, "the product of step %u is wrong", step);
    }
}

/* From `step` to some later one, which may be agreed to and never end; where the next life begins.
 */
static uint32_t live(trio *t, uint32_t life, uint32_t step) {
    unsigned old = (unsigned)sim_below(&t->draw, 7); /* bit p: party p's is */
    const uint32_t last = step + (uint32_t)sim_below(&t->draw, 3);
    if (life == 0 || (t->put_back | old) == ALL) /* who was put back once may be behind for good */
        old &= t->put_back;
    t->put_back |= old;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        load(t, p, (old >> p & 1) != 0);
    begin(t, false, 2 + life, step);
    until(t, &t->ready, UVCC_PARTIES);
    for (uint32_t m = step; m <= last && !t->out->failed; m++)
        one_step(t, m);
    if (!t->out->failed && sim_below(&t->draw, 2) == 0) {
        for (unsigned p = 0; p < UVCC_PARTIES; p++) { /* killed in the step after it */
            give(t, p, last + 1);
            (void)uvcc_session_step(t->s[p], last + 1, 0, t->now);
        }
    }
    end(t);
    const uint32_t back = (uint32_t)sim_below(&t->draw, 3);
    return last + 1 > back ? last + 1 - back : 0;
}

void sim_triples(uint64_t seed, sim_outcome *out) {
    if (seed % EVERY != 0 || out->failed)
        return;
    trio *t = calloc(1, sizeof *t);
    if (t == NULL)
        abort();
    *t = (trio){.out = out, .seed = seed, .draw = sim_stream(seed, SIM_STREAM_TRIPLES)};
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_cpu_config x = {.size = sizeof x, .alloc = al};
    must(t, uvcc_cpu_new(&t->cpu, &x), "uvcc_cpu_new");
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        must(t, uvcc_prg_uses_new(&t->uses[p], &al, true), "uvcc_prg_uses_new");
    make_program(t);
    if (!out->failed)
        make(t);
    end(t);
    uint32_t step = 0;
    for (uint32_t life = 0; life < LIVES && !out->failed; life++)
        step = live(t, life, step);
    end(t);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_prg_uses_free(t->uses[p]);
        uvcc_triple_store_free(t->kept[p].store);
        free(t->kept[p].saved);
        free(t->kept[p].old);
    }
    uvcc_program_free(t->program);
    uvcc_cpu_free(t->cpu);
    free(t);
}
