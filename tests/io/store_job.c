/* SPDX-License-Identifier: Apache-2.0 */
/* store_job.c - see store_job.h. */
#include "store_job.h"

#include <uvcc/host.h>

int64_t job_value(uint32_t step, uint32_t i) {
    int64_t w = 7 * (int64_t)i;
    for (uint32_t m = 0; m < step; m++)
        w += (int64_t)(m % 5) + i;
    return w;
}

static int64_t input_value(uint32_t step, uint32_t i) {
    return (int64_t)(step % 5) + i;
}

static uvcc_program *make_program(bool beaver) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    const uint32_t x = test_tensor(p, "x", JOB_ELEMS, 1, 20, 0, UVCC_TRANSIENT);
    const uint32_t w = test_tensor(p, "w", JOB_ELEMS, 1, 40, 0, UVCC_PERSIST);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, JOB_IN, x, 0) >= 0);
    if (beaver) {
        const uint32_t v = test_tensor(p, "v", JOB_ELEMS, 1, 60, 0, UVCC_TRANSIENT);
        assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_ELEM_MUL,
                                                       .phase = UVCC_FWD,
                                                       .flags = UVCC_OP_BEAVER,
                                                       .tile_rows = 1,
                                                       .in_count = 2,
                                                       .in = {x, w},
                                                       .out_count = 1,
                                                       .out = {v}}) >= 0);
        assert_true(uvcc_program_output(p, JOB_PRODUCT, v) >= 0);
    }
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_ADD,
                                                   .phase = UVCC_UPD,
                                                   .in_count = 2,
                                                   .in = {w, x},
                                                   .out_count = 1,
                                                   .out = {w}}) >= 0);
    assert_true(uvcc_program_output(p, JOB_OUT, w) >= 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

static void config(job_host *h) {
    uvcc_config *c = &h->cfg;
    assert_int_equal(uvcc_config_default(c, sizeof *c), 0);
    c->alloc = uvcc_host_allocator();
    c->random = uvcc_host_random();
    c->identity.party = h->party;
    memset(c->identity.sid_job, 9, 32);
    memset(c->identity.sign_seed, 0x40 + h->party, 32);
    for (uint8_t q = 0; q < UVCC_PARTIES; q++)
        if (q != h->party)
            memset(c->identity.pair_secret[q], 0x11 * (h->party + q), 32);
    c->resume.checkpoint_every = h->opt->every;
    c->resume.next_step = h->opt->first;
    c->triples.only = h->opt->make;
    c->triples.run = h->opt->make ? UVCC_TRIPLES_ANY_RUN : 0;
    if (h->opt->policy != NULL) {
        c->consent.policy = h->opt->policy;
        c->consent.policy_len = strlen(h->opt->policy);
    }
    if (h->opt->tweak != NULL)
        h->opt->tweak(c);
}

static int open_store(job_host *h) {
    char dir[128];
    uvcc_store_config c;
    uvcc_store_config_default(&c);
    (void)snprintf(dir, sizeof dir, "%s/party-%u", h->opt->dir, h->party);
    c.dir = dir;
    c.party = h->party;
    c.must_resume = h->opt->must_resume;
    c.behind = h->opt->behind;
    c.set_aside = h->opt->set_aside;
    c.leave_triples = h->opt->leave_triples;
    c.log = h->opt->log;
    return uvcc_store_open(&h->store, &c, h->why, sizeof h->why);
}

int job_open(job_host *h, const job_options *opt, uint8_t party) {
    *h = (job_host){.opt = opt, .party = party, .program = make_program(opt->beaver)};
    const uvcc_cpu_config x = {
        .size = sizeof x, .alloc = uvcc_host_allocator(), .mode = UVCC_CPU_INLINE};
    assert_int_equal(uvcc_cpu_new(&h->cpu, &x), 0);
    config(h);
    h->open_rc = open_store(h);
    if (h->open_rc != 0)
        return h->open_rc;
    return job_again(h);
}

int job_again(job_host *h) {
    uvcc_session_free(h->session);
    h->session = NULL;
    h->ready = h->closing = h->closed = h->aborted = h->restarted = false;
    h->set = 0;
    int rc = uvcc_store_next_run(h->store, &h->run);
    if (rc == 0)
        rc = uvcc_store_configure(h->store, &h->cfg);
    if (rc == 0) {
        assert_int_equal(uvcc_session_new(&h->session, &h->cfg), 0);
        assert_int_equal(uvcc_session_load_program(h->session, h->program), 0);
        rc = h->opt->make            ? uvcc_store_make(h->store, h->session, &h->cfg)
             : h->opt->offer != NULL ? h->opt->offer(h->opt->user, h->store, h->session, &h->cfg)
                                     : uvcc_store_offer(h->store, h->session, &h->cfg);
    }
    (void)snprintf(h->why, sizeof h->why, "%s", uvcc_store_error(h->store));
    return rc;
}

static void set_first(job_host *h) {
    int64_t w[JOB_ELEMS];
    for (uint32_t i = 0; i < JOB_ELEMS; i++)
        w[i] = job_value(h->opt->first, i);
    assert_int_equal(uvcc_session_set_public(h->session, 1, w), 0);
    h->set++;
}

static void check_output(const job_host *h, uint32_t step) {
    if (h->opt->make)
        return;
    const int64_t *v = h->opt->beaver ? uvcc_session_output(h->session, step, JOB_PRODUCT) : NULL;
    for (uint32_t i = 0; v != NULL && i < JOB_ELEMS; i++)
        if (v[i] != input_value(step, i) * job_value(step, i))
            fail_msg("party %u: the product of step %u is wrong", h->party, step);
    const int64_t *w = uvcc_session_output(h->session, step, JOB_OUT);
    assert_non_null(w);
    for (uint32_t i = 0; i < JOB_ELEMS; i++)
        if (w[i] != job_value(step + 1, i))
            fail_msg("party %u: w after step %u is wrong", h->party, step);
}

static void on_event(job_host *h, const uvcc_event *e) {
    const int rc = uvcc_store_event(h->store, h->session, e);
    if (rc == UVCC_STORE_SET)
        set_first(h);
    else if (rc != 0)
        h->event_rc = rc;
    if (e->kind == UVCC_EVENT_READY) {
        h->ready = true;
        h->at = h->finished = h->begun_at = e->step;
    } else if (e->kind == UVCC_EVENT_STEP_FINISHED) {
        check_output(h, e->step);
        h->finished = e->step + 1;
    } else if (e->kind == UVCC_EVENT_CLOSED) {
        h->closed = true;
    } else if (e->kind == UVCC_EVENT_ABORTED) {
        h->aborted = true;
    } else if (e->kind == UVCC_EVENT_PEER_RESTARTED) {
        h->restarted = true;
    }
    if (h->opt->on_event != NULL)
        h->opt->on_event(h->opt->user, h->party, e);
}

static void events(job_host *h) {
    uvcc_event e;
    while (uvcc_session_poll_event(h->session, &e) == 1)
        on_event(h, &e);
}

/* A step ahead of the one that runs, so that rules have something to hold. */
void job_turn(job_host *h, uint64_t now) {
    events(h);
    while (h->ready && !h->closing && !h->aborted && h->at < h->opt->steps) {
        const uint32_t step = h->at;
        h->step_rc = uvcc_store_step(h->store, h->session, step, 0, now);
        if (h->step_rc != 0)
            break;
        h->at++;
        if (h->party != 0 || h->opt->make)
            continue;
        int64_t x[JOB_ELEMS];
        for (uint32_t i = 0; i < JOB_ELEMS; i++)
            x[i] = input_value(step, i);
        assert_int_equal(uvcc_store_input(h->store, h->session, step, JOB_IN, x, now), 0);
    }
    events(h);
}

void job_free(job_host *h) {
    uvcc_session_free(h->session);
    uvcc_cpu_free(h->cpu);
    uvcc_store_free(h->store);
    uvcc_program_free(h->program);
    h->session = NULL;
    h->cpu = NULL;
    h->store = NULL;
    h->program = NULL;
}

/* ---- three of them ---- */

void job_start(job *j, const job_options *opt) {
    const uvcc_allocator al = uvcc_host_allocator();
    memset(j, 0, sizeof *j);
    assert_int_equal(uvcc_loopback_new(&j->net, &al, UVCC_PARTIES, false, 5), 0);
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        if (job_open(&j->host[p], opt, p) != 0)
            fail_msg("party %u: %s", p, j->host[p].why);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        assert_int_equal(uvcc_session_start(j->host[p].session, uvcc_loopback_now(j->net)), 0);
}

static bool turn(job *j) {
    uvcc_session *s[UVCC_PARTIES];
    uvcc_cpu *cpu[UVCC_PARTIES];
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        s[p] = j->host[p].session;
        cpu[p] = j->host[p].cpu;
    }
    const int rc = uvcc_loopback_drive(j->net, s, cpu, UVCC_PARTIES);
    assert_true(rc >= 0);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        job_turn(&j->host[p], uvcc_loopback_now(j->net));
    return rc == 1;
}

bool job_drive(job *j, uint32_t steps) {
    const uint64_t until = uvcc_loopback_now(j->net) + 60 * UINT64_C(1000000000);
    for (unsigned i = 0; i < 1000000; i++) {
        unsigned done = 0;
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            done += j->host[p].ready && j->host[p].finished >= steps;
        if (done == UVCC_PARTIES)
            return true;
        if (!turn(j) && i > 1000)
            return false;
        if (uvcc_loopback_now(j->net) > until)
            return false; /* only keep-alives and repeated HELLOs */
    }
    return false;
}

bool job_close(job *j) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        j->host[p].closing = true;
        assert_int_equal(uvcc_session_close(j->host[p].session, uvcc_loopback_now(j->net)), 0);
    }
    for (unsigned i = 0; i < 100000; i++) {
        if (j->host[0].closed && j->host[1].closed && j->host[2].closed)
            return true;
        (void)turn(j);
    }
    return false;
}

void job_kill(job *j) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        job_free(&j->host[p]);
    uvcc_loopback_free(j->net);
    j->net = NULL;
}
