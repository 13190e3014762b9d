/* SPDX-License-Identifier: Apache-2.0 */
/* request.c - a client's side of a request, see uvcc/request.h. The three bodies are made once, so
 * whatever is sent again is the same. */
#include "exec/host/request.h"

#include <assert.h>
#include <string.h>
#include <uvcc/client.h>

#include "proto/bytes.h"
#include "proto/crypto.h"

typedef struct side {
    uvcci_body asks, answer;
    bool opened, answered;
    uvcc_request_status status;
    uint32_t why; /* it is refused */
} side;

struct uvcc_request {
    uvcc_allocator alloc;
    uvcc_request_shape shape;
    uint8_t id[16];
    side party[UVCC_PARTIES];
    uint8_t suspects; /* once all answered */
};

/* Component p or, hi, p + 1 of party p: values, then keys, then their roots. */
static uint64_t *component(const uvcc_request *r, const uvcci_request_part *part, unsigned party,
                           bool hi) {
    assert(party < UVCC_PARTIES && r->party[party].asks.bytes != NULL);
    uint8_t *at = r->party[party].asks.bytes + UVCCI_REQUEST_HEAD;
    return (uint64_t *)(void *)at + (hi ? uvcci_request_part_words(part) : 0);
}

/* Keys of all numbers, to where each party has them. */
static int deal(uvcc_request *r, const uvcc_request_config *cfg, const uvcci_request_part *part) {
    uint64_t *share[3][2];
    if (r->shape.key_cols == 0)
        return 0;
    for (unsigned p = 0; p < 3; p++)
        for (unsigned i = 0; i < 2; i++)
            share[p][i] = component(r, part, p, i == 1) + part->values;
    return uvcc_client_deal(cfg->sid_job, r->shape.key_bits, cfg->numbers,
                            (size_t)r->shape.in_rows * r->shape.key_cols, &cfg->random, share);
}

/* Party p's body: the shape, the salts of components p and p + 1, both components. */
static int make_bodies(uvcc_request *r, const uvcc_request_config *cfg,
                       const uvcci_request_part *part) {
    const size_t n = (size_t)part->values;
    uint8_t salt[3][32];
    uint64_t *c[3];
    for (unsigned p = 0; p < 3; p++) {
        uvcci_body *b = &r->party[p].asks;
        const uint64_t total = uvcci_request_bytes(&r->shape);
        b->bytes = r->alloc.alloc(r->alloc.user, total, UVCC_MEM_SECRET);
        if (b->bytes == NULL)
            return UVCC_ERR_NOMEM;
        b->total = total;
        memset(b->bytes, 0, total);
        c[p] = component(r, part, p, false);
    }
    if (cfg->random.fill(cfg->random.user, r->id, sizeof r->id) != 0 ||
        cfg->random.fill(cfg->random.user, salt, sizeof salt) != 0)
        return UVCC_ERR_RANDOM;
    int rc = n == 0 ? 0 : uvcc_client_split(cfg->values, n, &cfg->random, c[0], c[1], c[2]);
    if (rc == 0)
        rc = deal(r, cfg, part);
    for (unsigned p = 0; p < 3 && rc == 0; p++) {
        uint8_t *b = r->party[p].asks.bytes;
        uvcci_put_shape(&r->shape, b);
        memcpy(b + UVCCI_REQUEST_SHAPE, salt[p], 32);
        memcpy(b + UVCCI_REQUEST_SHAPE + 32, salt[(p + 1) % 3], 32);
        memcpy(component(r, part, p, true), c[(p + 1) % 3], 8 * n);
    }
    uvcci_wipe(salt, sizeof salt);
    return rc;
}

int uvcc_request_new(uvcc_request **out, const uvcc_request_config *cfg) {
    if (out == NULL || cfg == NULL || cfg->size != sizeof *cfg || cfg->alloc.alloc == NULL ||
        cfg->alloc.free == NULL || cfg->random.fill == NULL ||
        (cfg->values == NULL && cfg->shape.in_cols != 0) ||
        (cfg->numbers == NULL) != (cfg->shape.key_cols == 0))
        return UVCC_ERR_USAGE;
    uvcci_request_part part;
    if (!uvcci_request_part_of(&cfg->shape, &part) ||
        uvcci_request_values(cfg->shape.out_rows, cfg->shape.out_cols) == 0)
        return UVCC_ERR_LIMIT;
    uvcc_request *r = cfg->alloc.alloc(cfg->alloc.user, sizeof *r, UVCC_MEM_SECRET);
    if (r == NULL)
        return UVCC_ERR_NOMEM;
    memset(r, 0, sizeof *r);
    r->alloc = cfg->alloc;
    r->shape = cfg->shape;
    const int rc = make_bodies(r, cfg, &part);
    if (rc != 0) {
        uvcc_request_free(r);
        return rc;
    }
    *out = r;
    return 0;
}

void uvcc_request_free(uvcc_request *r) {
    if (r == NULL)
        return;
    for (unsigned p = 0; p < 3; p++) {
        uvcci_body_free(&r->party[p].asks, &r->alloc);
        uvcci_body_free(&r->party[p].answer, &r->alloc);
    }
    const uvcc_allocator al = r->alloc;
    uvcci_wipe(r, sizeof *r);
    al.free(al.user, r, sizeof *r, UVCC_MEM_SECRET);
}

int uvcc_request_opened(uvcc_request *r, uint8_t party) {
    if (r == NULL || party >= UVCC_PARTIES)
        return UVCC_ERR_USAGE;
    side *s = &r->party[party];
    s->opened = true;
    s->asks.sent = 0;
    if (!s->answered)
        uvcci_body_free(&s->answer, &r->alloc);
    return 0;
}

/* ---- answers ---- */

/* Component j as party p has it: each is with two of them. */
static const uint8_t *output_of(const uvcc_request *r, unsigned p, unsigned j) {
    const uint64_t n = uvcci_request_values(r->shape.out_rows, r->shape.out_cols);
    assert(r->party[p].answered && (j == p || j == (p + 1) % 3));
    return r->party[p].answer.bytes + UVCCI_ANSWER_HEAD + (j == p ? 0 : 8 * n);
}

/* One who lies alone is in every pair that differs. */
static uint8_t compare(const uvcc_request *r) {
    const size_t n = (size_t)uvcci_request_values(r->shape.out_rows, r->shape.out_cols);
    uint8_t all = 0, every = 7;
    for (unsigned j = 0; j < 3; j++) {
        const unsigned before = (j + 2) % 3;
        if (memcmp(output_of(r, j, j), output_of(r, before, j), 8 * n) == 0)
            continue;
        all |= (uint8_t)(1u << j | 1u << before);
        every &= (uint8_t)(1u << j | 1u << before);
    }
    return all != 0 && every != 0 ? every : all;
}

static void whole_answer(uvcc_request *r, side *s) {
    const uint8_t *b = s->answer.bytes;
    const uint32_t status = uvcci_ld32(b);
    const bool ok = status == UVCC_REQUEST_OK;
    const uint32_t why = uvcci_ld32(b + 12);
    if (status >= UVCC_REQUEST_STATUSES || uvcci_ld32(b + 4) != (ok ? r->shape.out_rows : 0) ||
        uvcci_ld32(b + 8) != (ok ? r->shape.out_cols : 0) ||
        (why != 0 && status != UVCC_REQUEST_REFUSED) ||
        uvcci_answer_bytes(&r->shape, (uvcc_request_status)status) != s->answer.total) {
        uvcci_body_free(&s->answer, &r->alloc);
        return;
    }
    s->answered = true;
    s->status = (uvcc_request_status)status;
    s->why = why;
    bool all = true;
    for (unsigned p = 0; p < 3; p++)
        all = all && r->party[p].answered && r->party[p].status == UVCC_REQUEST_OK;
    if (all)
        r->suspects = compare(r);
}

static int take(uvcc_request *r, uint8_t party, const uvcc_dialog_message *m) {
    side *s = &r->party[party];
    uvcci_piece p;
    if (!uvcci_piece_read(&p, m->data, m->len) || p.kind != UVCCI_REQUEST_ANSWERS ||
        p.party != party || memcmp(p.id, r->id, sizeof r->id) != 0 || s->answered ||
        (p.total != UVCCI_ANSWER_HEAD && p.total != uvcci_answer_bytes(&r->shape, UVCC_REQUEST_OK)))
        return 0;
    if (s->answer.total != p.total)
        uvcci_body_free(&s->answer, &r->alloc);
    if (s->answer.bytes == NULL) {
        s->answer.bytes = r->alloc.alloc(r->alloc.user, p.total, UVCC_MEM_SECRET);
        if (s->answer.bytes == NULL)
            return UVCC_ERR_NOMEM;
        s->answer.total = p.total;
    }
    if (uvcci_body_place(&s->answer, &p))
        whole_answer(r, s);
    return 0;
}

int uvcc_request_turn(uvcc_request *r, uint8_t party, uvcc_dialog *d, uint64_t now) {
    uvcc_dialog_message m;
    int got, rc = 0;
    if (r == NULL || party >= UVCC_PARTIES || d == NULL)
        return UVCC_ERR_USAGE;
    side *s = &r->party[party];
    while (rc == 0 && (got = uvcc_dialog_receive(d, &m, now)) != 0) {
        if (got < 0)
            return got;
        rc = take(r, party, &m);
        const int done = uvcc_dialog_release(d, &m, now);
        rc = rc != 0 ? rc : done;
    }
    if (rc != 0 || s->answered || !s->opened)
        return rc;
    rc = uvcci_body_send(&s->asks, UVCCI_REQUEST_ASKS, party, r->id, &r->alloc, d, now);
    return rc < 0 ? rc : 0;
}

int uvcc_request_get_state(const uvcc_request *r, uvcc_request_state *out) {
    if (r == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    *out = (uvcc_request_state){.suspects = r->suspects};
    bool refused = r->suspects != 0;
    for (unsigned p = 0; p < 3; p++) {
        out->status[p] = r->party[p].status;
        out->why[p] = r->party[p].why;
        out->missing |= (uint8_t)((r->party[p].answered ? 0u : 1u) << p);
        refused = refused || r->party[p].status != UVCC_REQUEST_OK;
    }
    if (refused)
        out->kind = UVCC_REQUEST_FAILED;
    else if (out->missing == 0)
        out->kind = UVCC_REQUEST_DONE;
    return 0;
}

int uvcc_request_id(const uvcc_request *r, uint8_t out[16]) {
    if (r == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    memcpy(out, r->id, sizeof r->id);
    return 0;
}

int uvcc_request_output(const uvcc_request *r, int64_t *values, size_t n) {
    uvcc_request_state st;
    if (r == NULL || values == NULL ||
        n != uvcci_request_values(r->shape.out_rows, r->shape.out_cols))
        return UVCC_ERR_USAGE;
    (void)uvcc_request_get_state(r, &st);
    if (st.kind != UVCC_REQUEST_DONE)
        return UVCC_ERR_STATE;
    for (size_t i = 0; i < n; i++)
        values[i] = (int64_t)(uvcci_ld64(output_of(r, 0, 0) + 8 * i) +
                              uvcci_ld64(output_of(r, 1, 1) + 8 * i) +
                              uvcci_ld64(output_of(r, 2, 2) + 8 * i));
    return 0;
}
