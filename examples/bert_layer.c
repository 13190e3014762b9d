/* SPDX-License-Identifier: Apache-2.0 */
/* bert_layer.c - a layer of BERT. P0 owns the input and alone reads the result, P1 owns the
 * weights. All stand in one process here; embed.c has a host over sockets. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/client.h>
#include <uvcc/loopback.h>
#include <uvcc/model.h>
#include <uvcc/uvcc.h>
enum { ELEMS = 7 * 24, WEIGHTS_MAX = 8192 };
static uvcc_session *s[UVCC_PARTIES];
static uvcc_cpu *cpu[UVCC_PARTIES];
static uvcc_loopback *net;

static void check(int rc, const char *what) {
    if (rc < 0) {
        fprintf(stderr, "bert_layer: %s: %s\n", what, uvcc_error_text(rc));
        exit(EXIT_FAILURE);
    }
}

static void open_party(uint8_t party, const uvcc_program *p) {
    const uvcc_cpu_config one = {.size = sizeof one, .alloc = uvcc_host_allocator()};
    uvcc_config c;
    check(uvcc_config_default(&c, sizeof c), "config");
    c.alloc = one.alloc;
    c.random = uvcc_host_random();
    c.identity.party = party;
    memset(c.identity.sid_job, 1, 32);
    memset(c.identity.sign_seed, 2 + party, 32);
    for (unsigned q = 0; q < UVCC_PARTIES; q++) /* real ones are random, and of the pair alone */
        memset(c.identity.pair_secret[q], 8 << ((party + q) % 3), 32);
    check(uvcc_cpu_new(&cpu[party], &one), "executor");
    check(uvcc_session_new(&s[party], &c), "session");
    check(uvcc_session_load_program(s[party], p), "program");
    check(uvcc_session_start(s[party], 0), "start");
}

/* P1 splits each weight; each party takes two of its three components. */
static void share_weights(const uvcc_program *p, const uvcc_model_config *c, const int64_t *v) {
    static uint64_t part[3][WEIGHTS_MAX];
    const uvcc_random random = uvcc_host_random();
    uvcc_model_weight w;
    for (uint32_t i = 0; uvcc_model_weight_at(c, i, &w) == 0; i++) {
        const uint32_t n = w.rows * w.cols, t = (uint32_t)uvcc_program_find(p, w.name);
        check(uvcc_client_split(v, n, &random, part[0], part[1], part[2]), "split");
        for (unsigned q = 0; q < UVCC_PARTIES; q++)
            check(uvcc_session_set_shares(s[q], t, part[q], part[(q + 1) % 3]), w.name);
        v += n;
    }
}

static void until(uvcc_event_kind kind) {
    uvcc_event e;
    for (unsigned had = 0; had < UVCC_PARTIES;) {
        check(uvcc_loopback_drive(net, s, cpu, UVCC_PARTIES) == 1 ? 0 : UVCC_ERR_STATE, "drive");
        for (unsigned q = 0; q < UVCC_PARTIES; q++)
            while (uvcc_session_poll_event(s[q], &e) == 1)
                had += e.kind == kind;
    }
}

int main(void) {
    static int64_t weights[WEIGHTS_MAX + ELEMS], *x = weights + WEIGHTS_MAX, expected[ELEMS];
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_model_config c;
    uvcc_program *p;
    char why[256];
    check(uvcc_model_default(&c, sizeof c), "model"); /* BERT-base; smaller: */
    c.width = 24;
    c.heads = 3;
    c.ff_width = 40;
    c.tokens = 7;
    c.mode = UVCC_MODEL_EXACT;
    check(uvcc_model_program(&p, &c, 0, 0, &al, why, sizeof why), why);
    for (size_t i = 0; i < WEIGHTS_MAX + ELEMS; i++) /* for a checkpoint, and for embeddings */
        weights[i] = (int64_t)(i * 2654435761u % 32768) - 16384; /* of 16 fraction bits */
    check(uvcc_loopback_new(&net, &al, UVCC_PARTIES, false, 1), "network");
    for (uint8_t q = 0; q < UVCC_PARTIES; q++)
        open_party(q, p);
    until(UVCC_EVENT_READY);
    share_weights(p, &c, weights);
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        check(uvcc_session_step(s[q], 0, 0, uvcc_loopback_now(net)), "step");
    check(uvcc_session_input(s[0], 0, UVCC_MODEL_IN_X, x, uvcc_loopback_now(net)), "input");
    until(UVCC_EVENT_STEP_FINISHED);
    check(uvcc_model_reference(&c, &al, weights, x, NULL, expected, why, sizeof why), why);
    const int64_t *y = uvcc_session_output(s[0], 0, UVCC_MODEL_OUT_Y);
    const int same = y != NULL && memcmp(y, expected, sizeof expected) == 0;
    puts(same ? "the same as in plaintext, bit for bit" : "not what plaintext gives");
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        uvcc_session_free(s[q]);
        uvcc_cpu_free(cpu[q]);
    }
    uvcc_loopback_free(net);
    uvcc_program_free(p);
    return !same;
}
