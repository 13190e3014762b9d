/* SPDX-License-Identifier: Apache-2.0 */
/* triangle.c - see triangle.h. */
#include "triangle.h"
#include <uvcc/audit.h>

uvcc_config triangle_config_alone(test_alloc *mem, uint64_t *random) {
    uvcc_config c;
    assert_int_equal(uvcc_config_default(&c, sizeof c), 0);
    c.alloc = test_allocator(mem);
    c.random = test_random(random);
    for (unsigned q = 1; q < 3; q++)
        memset(c.identity.pair_secret[q], (int)q, 32);
    memset(c.identity.sid_job, 9, 32);
    memset(c.identity.sign_seed, 8, 32);
    return c;
}

/* All three from one seed; secrets are made by pair, so that both ends have the same. */
void triangle_make(triangle *t, const uvcc_program *p, const triangle_options *opt) {
    memset(t, 0, sizeof *t);
    if (opt != NULL)
        t->opt = *opt;
    uvcc_allocator al = test_allocator(&t->mem);
    stays_begin(&t->stays);
    t->mem.freed = stays_freed;
    t->mem.freed_user = &t->stays;
    assert_int_equal(uvcc_loopback_new(&t->net, &al, 3, t->opt.datagram, t->opt.seed + 77), 0);
    if (t->opt.faulty)
        assert_int_equal(uvcc_loopback_set_all_faults(t->net, &t->opt.faults), 0);
    for (uint8_t i = 0; i < 3; i++) {
        uvcc_config c;
        assert_int_equal(uvcc_config_default(&c, sizeof c), 0);
        c.alloc = al;
        c.random = uvcc_seeded(&t->rnd[i], t->opt.seed, i);
        c.identity.party = i;
        c.links.suites = t->opt.suites;
        c.links.datagram = t->opt.datagram;
        c.checks.audit_off = t->opt.audit_off;
        c.checks.bundles = !t->opt.audit_off;
        c.cookie = 100u + i;
        for (unsigned k = 0; k < 32; k++)
            c.identity.sid_job[k] = (uint8_t)k;
        memset(c.identity.sign_seed, 0x40 + i, 32);
        for (uint8_t q = 0; q < 3; q++)
            if (q != i) /* by pair, the same at both ends */
                memset(c.identity.pair_secret[q], 0x11 * (i + q), 32);
        if (t->opt.tweak != NULL)
            t->opt.tweak(&c);
        uvcc_cpu_config x = {
            .size = sizeof x, .alloc = al, .mode = t->opt.mode, .seed = t->opt.compute_seed + i};
        x.job = stays_job;
        x.job_user = &t->stays;
        if (t->opt.place != NULL)
            t->opt.place(i, &c, &x);
        assert_int_equal(uvcc_session_new(&t->s[i], &c), 0);
        memcpy(t->keys.key[i], uvcc_session_public_key(t->s[i]), 32);
        uvcc_session *lender = t->opt.borrow && i != 0 ? t->s[0] : t->opt.lender;
        if (lender != NULL)
            assert_int_equal(uvcc_session_borrow_public(t->s[i], lender), 0);
        assert_int_equal(uvcc_session_load_program(t->s[i], p), 0);
        assert_int_equal(uvcc_cpu_new(&t->cpu[i], &x), 0);
    }
}

void triangle_start(triangle *t) {
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_start(t->s[i], triangle_now(t)), 0);
    for (uint8_t i = 0; i < 6 && t->opt.wired; i++) /* each to its two peers */
        assert_int_equal(uvcc_session_peer_open(t->s[i / 2], (i / 2 + 1 + i % 2) % 3, 0), 0);
}

void triangle_open(triangle *t, const uvcc_program *p, const triangle_options *opt) {
    triangle_make(t, p, opt);
    triangle_start(t);
}

static void forget_bundles(triangle *t, unsigned at) {
    for (unsigned i = 0; i < 3; i++) {
        free(t->bundle[i][at].bytes);
        t->bundle[i][at].bytes = NULL;
    }
}

/* The three bundles of a step must agree. */
static void take_bundle(triangle *t, unsigned party, uint32_t step) {
    const unsigned at = step % 4;
    const uint8_t *bytes;
    size_t len;
    assert_int_equal(uvcc_session_bundle(t->s[party], step, &bytes, &len), 0);
    t->bundles[party]++;
    if (t->opt.unverified)
        return;
    if (t->opt.on_bundle != NULL)
        t->opt.on_bundle(t->opt.user, party, step, bytes, len);
    assert_null(t->bundle[party][at].bytes);
    uint8_t *copy = malloc(len);
    memcpy(copy, bytes, len);
    t->bundle[party][at].bytes = copy;
    t->bundle[party][at].len = len;
    t->bundle[party][at].step = step;
    uvcc_bundle b[3];
    uvcc_audit_fault f;
    for (unsigned i = 0; i < 3; i++) {
        if (t->bundle[i][at].bytes == NULL)
            return;
        assert_int_equal(t->bundle[i][at].step, step);
        if (uvcc_bundle_decode(&b[i], t->bundle[i][at].bytes, t->bundle[i][at].len, &f) != 0)
            fail_msg("party %u, step %u, leaf %d: %s", i, step, (int)f.leaf,
                     uvcc_fault_text(f.kind));
    }
    if (uvcc_bundle_verify(b, &t->keys, &f) != 0)
        fail_msg("step %u: party %u, leaf %d %s, party %u, leaf %d: %s", step, f.party, (int)f.leaf,
                 uvcc_leaf_name(f.type), f.other, (int)f.other_leaf, uvcc_fault_text(f.kind));
    forget_bundles(t, at);
}

/* The caller hears it first: what it looks at is what was there when the event came. */
static void take_event(triangle *t, unsigned i, const uvcc_event *e) {
    if (t->opt.on_event != NULL)
        t->opt.on_event(t->opt.user, i, t->s[i], e);
    switch (e->kind) {
    case UVCC_EVENT_READY:
        t->ready[i] = true;
        break;
    case UVCC_EVENT_STEP_STARTED:
        t->started[i]++;
        break;
    case UVCC_EVENT_STEP_FINISHED:
        t->finished[i]++;
        memcpy(t->root[i], e->root, 32);
        break;
    case UVCC_EVENT_AUDIT:
        t->audits[i]++;
        break;
    case UVCC_EVENT_BUNDLE:
        take_bundle(t, i, e->step);
        break;
    case UVCC_EVENT_MISMATCH:
        t->mismatch[i][e->peer] = e->text;
        break;
    case UVCC_EVENT_ABORTED:
        t->aborted[i] = e->reason;
        t->abort_text[i] = e->text;
        t->aborted_step[i] = e->step;
        break;
    case UVCC_EVENT_CLOSED:
        assert_false(t->closed[i]);
        t->closed[i] = true;
        break;
    default:
        break;
    }
}

static void take_events(triangle *t, unsigned i) {
    uvcc_event e;
    while (t->s[i] != NULL && uvcc_session_poll_event(t->s[i], &e) == 1)
        take_event(t, i, &e);
}

void triangle_events(triangle *t) {
    for (unsigned i = 0; i < 3; i++)
        take_events(t, i);
}

/* ---- perfect wires ---- */

static void run_tasks(triangle *t, unsigned i, const uvcc_job *job, uint32_t first,
                      uint32_t count) {
    uvcc_job part = *job;
    uvcc_completion c;
    part.tasks = &job->tasks[first];
    part.count = count;
    assert_int_equal(uvcc_cpu_submit(t->cpu[i], &part), 0);
    assert_int_equal(uvcc_cpu_poll(t->cpu[i], &c), 1);
    assert_int_equal(c.status, 0);
}

static void run_job(triangle *t, unsigned i, const uvcc_job *job) {
    const uvcc_completion c = {.id = job->id, .cookie = job->cookie};
    if (t->opt.on_task == NULL)
        run_tasks(t, i, job, 0, job->count);
    for (uint32_t k = 0; k < job->count && t->opt.on_task != NULL; k++) {
        t->opt.on_task(t->opt.user, i, job, k, false);
        run_tasks(t, i, job, k, 1);
        t->opt.on_task(t->opt.user, i, job, k, true);
    }
    assert_int_equal(uvcc_session_complete(t->s[i], &c, t->wire_ns), 0);
}

static size_t in_place; /* bytes that went straight in */

size_t triangle_in_place(void) {
    const size_t n = in_place;
    in_place = 0;
    return n;
}

static void hear(triangle *t, uint8_t to, uint8_t from, const uint8_t *data, size_t len) {
    for (size_t n; len != 0; data += n, len -= n) {
        uint8_t *at;
        size_t room = 0;
        int rc;
        if (t->opt.placing != TRIANGLE_FED)
            (void)uvcc_session_rx_buffer(t->s[to], from, &at, &room);
        n = room != 0 && room < len ? room : len;
        if (room != 0 && t->opt.placing == TRIANGLE_IN_PLACE) {
            memcpy(at, data, n);
            in_place += n;
            rc = uvcc_session_rx_filled(t->s[to], from, n, t->wire_ns);
        } else {
            rc = uvcc_session_feed(t->s[to], from, data, n, t->wire_ns);
        }
        assert_int_equal(rc, 0);
    }
}

static bool send_all(triangle *t, uint8_t i) {
    bool any = false;
    for (uvcc_transmit tx; uvcc_session_poll_transmit(t->s[i], &tx, t->wire_ns) == 1; any = true) {
        if (t->opt.on_transmit != NULL)
            t->opt.on_transmit(t->opt.user, i, &tx);
        if (t->opt.placing == TRIANGLE_SLICES)
            assert_int_equal(
                uvcc_session_feed_slices(t->s[tx.peer], i, tx.slices, tx.slice_count, t->wire_ns),
                0);
        for (uint32_t k = 0; k < tx.slice_count && t->opt.placing != TRIANGLE_SLICES; k++)
            hear(t, tx.peer, i, tx.slices[k].data, tx.slices[k].len);
        assert_int_equal(uvcc_session_transmit_done(t->s[i], tx.peer, tx.id, tx.total, t->wire_ns),
                         0);
    }
    return any;
}

static bool wires_turn(triangle *t) {
    bool any = false;
    for (uint8_t i = 0; i < 3; i++) {
        for (const uvcc_job *job; uvcc_session_poll_job(t->s[i], &job) == 1; any = true)
            run_job(t, i, job);
        if (t->opt.on_send != NULL)
            t->opt.on_send(t->opt.user, i);
        if (t->opt.ticks)
            assert_int_equal(uvcc_session_on_timer(t->s[i], t->wire_ns), 0);
        any |= send_all(t, i);
        take_events(t, i);
    }
    t->wire_ns += t->opt.ticks ? 1000000 : 0;
    return any || t->opt.ticks;
}

/* ---- driving ---- */

uint64_t triangle_now(const triangle *t) {
    return t->opt.wired ? t->wire_ns : uvcc_loopback_now(t->net);
}

/* A deadline that has come is gone after on_timer, or a poll gives something: else a host that
 * sleeps until then spins. The driver has handed out all jobs and taken all events. */
static void check_deadlines(triangle *t) {
    for (unsigned i = 0; i < 3; i++) {
        const uint64_t now = triangle_now(t);
        uvcc_session *s = t->s[i];
        uvcc_transmit tx;
        if (s == NULL || uvcc_session_next_deadline(s) > now)
            continue;
        assert_int_equal(uvcc_session_on_timer(s, now), 0);
        take_events(t, i);
        if (uvcc_session_next_deadline(s) > now)
            continue;
        if (uvcc_session_poll_transmit(s, &tx, now) != 1)
            fail_msg("party %u: the deadline is in the past, and no poll gives anything", i);
        assert_int_equal(uvcc_session_transmit_done(s, tx.peer, tx.id, 0, now), 0);
    }
}

int triangle_drive(triangle *t) {
    if (t->opt.wired)
        return wires_turn(t);
    const int rc = uvcc_loopback_drive(t->net, t->s, t->cpu, 3);
    triangle_events(t);
    check_deadlines(t);
    return rc;
}

bool triangle_turn(triangle *t) {
    const int rc = triangle_drive(t);
    assert_true(rc >= 0);
    return rc == 1;
}

void triangle_settle(triangle *t) {
    while (triangle_turn(t))
        ;
}

void triangle_agree(triangle *t, uint32_t step, uint32_t entry) {
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_step(t->s[i], step, entry, triangle_now(t)), 0);
}

void triangle_input(triangle *t, unsigned party, uint32_t step, uint32_t id, const int64_t *v) {
    assert_int_equal(uvcc_session_input(t->s[party], step, id, v, triangle_now(t)), 0);
}

void triangle_give_inputs(triangle *t, const uvcc_program *p, uvcc_reference *ref, uint32_t step,
                          unsigned most) {
    for (uint32_t i = 0; i < uvcc_program_input_count(p, 0); i++) {
        const uvcc_io_desc *io = uvcc_program_input_at(p, 0, i);
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
        const size_t n = (size_t)d->rows * d->cols;
        uint64_t seed = 31 * step + i;
        int64_t *v = malloc(n * sizeof *v);
        for (size_t k = 0; k < n; k++)
            v[k] = (int64_t)(test_rand(&seed) % (2 * most + 1)) - most;
        triangle_input(t, io->owner, step, io->id, v);
        assert_int_equal(uvcc_reference_set(ref, io->tensor, v), 0);
        free(v);
    }
}

void triangle_check_outputs(const triangle *t, const uvcc_program *p, uvcc_reference *ref,
                            uint32_t step) {
    char why[256];
    if (uvcc_reference_step(ref, 0, why, sizeof why) != 0)
        fail_msg("%s", why);
    for (uint32_t o = 0; o < uvcc_program_output_count(p, 0); o++) {
        const uvcc_io_desc *io = uvcc_program_output_at(p, 0, o);
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(p, io->tensor);
        const int64_t *want = uvcc_reference_get(ref, io->tensor);
        for (unsigned i = 0; i < 3; i++) {
            const int64_t *got = uvcc_session_output(t->s[i], step, io->id);
            if (io->receiver != UVCC_TO_ALL && io->receiver != i) {
                assert_null(got);
                continue;
            }
            assert_non_null(got);
            for (size_t k = 0; k < (size_t)d->rows * d->cols; k++)
                if (got[k] != want[k])
                    fail_msg("step %u: %s, element %zu: %lld at party %u, not %lld", step, d->name,
                             k, (long long)got[k], i, (long long)want[k]);
        }
    }
}

void triangle_set_public(triangle *t, uint32_t tensor, const int64_t *v) {
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_set_public(t->s[i], tensor, v), 0);
}

static void no_abort(const triangle *t) {
    for (unsigned i = 0; i < 3; i++)
        if (t->aborted[i] != 0)
            fail_msg("party %u aborted: %s", i, t->abort_text[i]);
}

void triangle_ready(triangle *t) {
    while (!t->ready[0] || !t->ready[1] || !t->ready[2]) {
        if (!triangle_turn(t))
            fail_msg("stuck in the handshake");
        no_abort(t);
    }
}

void triangle_finish(triangle *t, uint32_t steps) {
    while (t->finished[0] < steps || t->finished[1] < steps || t->finished[2] < steps) {
        if (!triangle_turn(t))
            fail_msg("stuck with %u %u %u of %u steps finished", t->finished[0], t->finished[1],
                     t->finished[2], steps);
        no_abort(t);
    }
}

void triangle_close(triangle *t) {
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_close(t->s[i], triangle_now(t)), 0);
    while (!t->closed[0] || !t->closed[1] || !t->closed[2])
        if (!triangle_turn(t))
            fail_msg("stuck in close");
}

void triangle_free(triangle *t) {
    for (unsigned at = 0; at < 4; at++)
        forget_bundles(t, at);
    for (unsigned i = 3; i-- != 0;) { /* who borrows goes before who lends */
        if (t->cpu[i] != NULL)
            uvcc_cpu_free(t->cpu[i]);
        uvcc_session_free(t->s[i]);
    }
    uvcc_loopback_free(t->net);
    assert_int_equal(t->mem.live_blocks, 0);
    assert_int_equal(t->mem.live_bytes, 0);
    t->mem.freed = NULL;
    stays_end(&t->stays);
}

triangle_outcome triangle_run(uvcc_program *p, const uvcc_allocator *al,
                              const triangle_options *opt, unsigned most) {
    uvcc_reference *ref;
    triangle_outcome out;
    triangle t;
    assert_int_equal(uvcc_reference_new(&ref, p, al), 0);
    triangle_open(&t, p, opt);
    triangle_ready(&t);
    for (uint32_t step = 0; step < 2; step++) {
        triangle_agree(&t, step, 0);
        triangle_give_inputs(&t, p, ref, step, most);
        triangle_finish(&t, step + 1);
        triangle_check_outputs(&t, p, ref, step);
    }
    triangle_close(&t);
    memcpy(out.root, t.root[0], sizeof out.root);
    uvcc_session_get_stats(t.s[0], &out.stats);
    if (opt->on_end != NULL)
        opt->on_end(&t);
    assert_true(opt->audit_off || (t.stays.hashed != 0 && t.stays.read != 0));
    triangle_free(&t);
    uvcc_reference_free(ref);
    uvcc_program_free(p);
    return out;
}
