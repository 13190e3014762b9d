/* SPDX-License-Identifier: Apache-2.0 */
/* The digest of outputs at the end of a log is what docs/replay.md says: a host that hashes all
 * that its session hands out has the same. So each kind of output, and each of its bytes, is in it.
 */
#include "triangle.h"

#include "exec/session/record.h"
#include <uvcc/mlp.h>

enum { OUT_TRANSMIT = 1, OUT_JOB = 2, OUT_EVENT = 3 };

/* What the host of one party keeps. */
typedef struct host {
    uvcci_sha256 outputs;
    test_bytes log;
} host;
static host hosts[3];
static uvcc_program *program;
static unsigned seen[64]; /* events, by kind */
static size_t triple_bytes;

static void put(host *h, const void *p, size_t len) {
    uvcci_sha256_update(&h->outputs, p, len);
}

static void transmit(void *user, unsigned party, const uvcc_transmit *tx) {
    const uint64_t head[] = {OUT_TRANSMIT, tx->peer, tx->id, tx->total};
    (void)user;
    put(&hosts[party], head, sizeof head);
    for (uint32_t i = 0; i < tx->slice_count; i++)
        put(&hosts[party], tx->slices[i].data, tx->slices[i].len);
}

static void task(void *user, unsigned party, const uvcc_job *job, uint32_t k, bool done) {
    const uint64_t head[] = {OUT_JOB, job->id, job->cookie, job->count};
    (void)user;
    if (k != 0 || done)
        return;
    put(&hosts[party], head, sizeof head);
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        const uint64_t body[] = {t->kind, t->ordinal, t->call};
        put(&hosts[party], body, sizeof body);
    }
}

static void values(host *h, const uvcc_session *s, const uvcc_event *e) {
    const int64_t *v = uvcc_session_output(s, e->step, e->id);
    assert_non_null(v);
    for (uint32_t entry = 0; entry < uvcc_program_entry_count(program); entry++)
        for (uint32_t k = 0; k < uvcc_program_output_count(program, entry); k++) {
            const uvcc_io_desc *io = uvcc_program_output_at(program, entry, k);
            const uvcc_tensor_desc *d = uvcc_program_tensor_at(program, io->tensor);
            if (io->id == e->id)
                put(h, v, (size_t)d->rows * d->cols * 8);
        }
}

static void event(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e) {
    host *h = &hosts[party];
    const uint64_t head[] = {OUT_EVENT, (uint64_t)e->kind, e->peer, e->reason,
                             e->run,    e->step,           e->id};
    uint32_t step;
    const uint8_t *data;
    size_t len;
    (void)user;
    seen[e->kind]++;
    put(h, head, sizeof head);
    put(h, e->root, sizeof e->root);
    put(h, e->signature, sizeof e->signature);
    if (e->text != NULL)
        put(h, e->text, strlen(e->text));
    if (e->kind == UVCC_EVENT_PEER_SILENT)
        put(h, &e->since_ns, sizeof e->since_ns);
    if (e->kind == UVCC_EVENT_OUTPUT)
        values(h, s, e);
    if (e->kind == UVCC_EVENT_CHECKPOINT) {
        assert_int_equal(uvcc_session_checkpoint(s, &step, &data, &len), 0);
        put(h, data + len - 32, 32);
    }
    if (e->kind == UVCC_EVENT_BUNDLE) {
        assert_int_equal(uvcc_session_bundle(s, e->step, &data, &len), 0);
        put(h, data, len);
    }
    if (e->kind == UVCC_EVENT_TRIPLES) {
        assert_int_equal(uvcc_session_triples(s, &step, &data, &len), 0);
        triple_bytes += len;
        put(h, data, len);
    }
}

/* ---- runs ---- */

static void recorded(uvcc_config *c) {
    host *h = &hosts[c->identity.party];
    uvcci_sha256_init(&h->outputs);
    c->record = (uvcc_recorder){.write = test_append, .user = &h->log};
}

static void with_all(uvcc_config *c) {
    recorded(c);
    c->resume.checkpoint_every = 1;
    c->checks.bundles = true;
}

static void triples_only(uvcc_config *c) {
    recorded(c);
    c->triples.only = true;
    c->triples.run = 1;
}

/* The digest in the log's END. */
static void end_digest(const host *h, uint8_t out[32]) {
    uvcc_record_reader rd;
    uvcc_record r;
    bool found = false;
    uvcc_record_reader_init(&rd, h->log.p, h->log.len);
    while (uvcc_record_next(&rd, &r) == 1)
        if (r.type == UVCC_RECORD_END) {
            found = true;
            memcpy(out, r.data[0].data, 32);
        }
    assert_true(found);
}

static void run(void (*tweak)(uvcc_config *)) {
    static const int64_t zeros[4096];
    triangle t;
    memset(seen, 0, sizeof seen);
    triple_bytes = 0;
    triangle_open(&t, program,
                  &(triangle_options){.seed = 3,
                                      .wired = true,
                                      .ticks = true,
                                      .tweak = tweak,
                                      .on_task = task,
                                      .on_transmit = transmit,
                                      .on_event = event});
    triangle_ready(&t);
    for (uint32_t i = 0; uvcc_program_tensor_at(program, i) != NULL; i++)
        if (uvcc_program_tensor_at(program, i)->lifetime == UVCC_PERSIST)
            triangle_set_public(&t, i, zeros);
    for (uint32_t e = 0; e < uvcc_program_entry_count(program); e++) {
        triangle_agree(&t, e, e);
        for (uint32_t k = 0; k < uvcc_program_input_count(program, e); k++) {
            const uvcc_io_desc *io = uvcc_program_input_at(program, e, k);
            triangle_input(&t, io->owner, e, io->id, zeros);
        }
        triangle_finish(&t, e + 1);
    }
    triangle_close(&t);
    triangle_free(&t);
    for (unsigned i = 0; i < 3; i++) {
        uint8_t ours[32], logged[32];
        end_digest(&hosts[i], logged);
        uvcci_sha256_final(&hosts[i].outputs, ours);
        assert_memory_equal(ours, logged, 32);
        test_bytes_free(&hosts[i].log);
    }
}

static void make(uint8_t products) {
    const uvcc_mlp_config c = {.features = 4,
                               .classes = 2,
                               .hidden_count = 1,
                               .hidden = {3},
                               .batch = 2,
                               .predict_rows = 2,
                               .lr_shift = 5,
                               .frac_bits = 12,
                               .products = products};
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p;
    char why[256] = "";
    if (uvcc_mlp_program(&p, &c, &al, why, sizeof why) != 0)
        fail_msg("%s", why);
    program = p;
}

static void forget(void) {
    uvcc_program_free(program);
    program = NULL;
}

static void test_training(void **state) {
    (void)state;
    make(UVCC_PRODUCTS_NATIVE);
    run(with_all);
    assert_true(seen[UVCC_EVENT_OUTPUT] != 0 && seen[UVCC_EVENT_CHECKPOINT] != 0 &&
                seen[UVCC_EVENT_BUNDLE] != 0 && seen[UVCC_EVENT_AUDIT] != 0);
    forget();
}

static void test_triples(void **state) {
    (void)state;
    make(UVCC_PRODUCTS_BEAVER);
    run(triples_only);
    assert_true(seen[UVCC_EVENT_TRIPLES] >= 3 && triple_bytes > 300);
    forget();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_training),
        cmocka_unit_test(test_triples),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
