/* SPDX-License-Identifier: Apache-2.0 */
/* stepmsg.c - codecs of STEP, AUDIT, BYE and CANCEL.
 *
 * Stateless. A decoder checks the whole payload's length first, from the count that it holds where
 * it has one, so no read after that can fail and nothing is written before. */
#include "proto/stepmsg.h"

#include <uvcc/types.h>

#include "proto/bytes.h"

static int end_encode(const uvcci_writer *w) {
    return w->bad ? UVCC_ERR_USAGE : (int)w->len;
}

static void put_shape(uvcci_writer *w, const uvcci_shape *s) {
    uvcci_put32(w, s->id);
    uvcci_put32(w, s->rows);
    uvcci_put32(w, s->cols);
}

int uvcci_step_encode(const uvcci_step_msg *m, uint8_t *out, size_t cap) {
    uvcci_writer w = uvcci_writer_on(out, cap);
    uvcci_put32(&w, m->step);
    uvcci_put(&w, m->lineage, 32);
    uvcci_put(&w, m->h_program, 32);
    uvcci_put(&w, m->h_optable, 32);
    uvcci_put(&w, m->h_given, 32);
    uvcci_put16(&w, m->shape_count);
    if (m->shape_count > UVCCI_SHAPES_MAX)
        uvcci_put(&w, m->h_shapes, 32);
    for (unsigned i = 0; i < m->shape_count && m->shape_count <= UVCCI_SHAPES_MAX; i++)
        put_shape(&w, &m->shapes[i]);
    return end_encode(&w);
}

int uvcci_step_decode(uvcci_step_msg *m, const uint8_t *in, size_t len) {
    if (len < UVCCI_STEP_MIN_BYTES)
        return UVCC_ERR_BATCH;
    uint16_t n = uvcci_ld16(in + UVCCI_STEP_MIN_BYTES - 2);
    const size_t shapes = n > UVCCI_SHAPES_MAX ? 32 : n * (size_t)UVCCI_SHAPE_BYTES;
    if (len != UVCCI_STEP_MIN_BYTES + shapes)
        return UVCC_ERR_BATCH;
    uvcci_reader r = uvcci_reader_on(in, len);
    m->step = uvcci_get32(&r);
    uvcci_get(&r, m->lineage, 32);
    uvcci_get(&r, m->h_program, 32);
    uvcci_get(&r, m->h_optable, 32);
    uvcci_get(&r, m->h_given, 32);
    m->shape_count = uvcci_get16(&r);
    if (n > UVCCI_SHAPES_MAX)
        uvcci_get(&r, m->h_shapes, 32);
    for (unsigned i = 0; i < n && n <= UVCCI_SHAPES_MAX; i++) {
        m->shapes[i].id = uvcci_get32(&r);
        m->shapes[i].rows = uvcci_get32(&r);
        m->shapes[i].cols = uvcci_get32(&r);
    }
    return 0;
}

void uvcci_shapes_begin(uvcci_sha256 *h, uint16_t n) {
    uint8_t buf[2];
    uvcci_st16(buf, n);
    uvcci_sha256_init(h);
    uvcci_sha256_update(h, buf, sizeof buf);
}

void uvcci_shapes_put(uvcci_sha256 *h, const uvcci_shape *shape) {
    uint8_t buf[UVCCI_SHAPE_BYTES];
    uvcci_writer w = uvcci_writer_on(buf, sizeof buf);
    put_shape(&w, shape);
    uvcci_sha256_update(h, buf, sizeof buf);
}

int uvcci_audit_encode(const uvcci_audit_msg_t *m, uint8_t *out, size_t cap) {
    if (m->party >= UVCC_PARTIES)
        return UVCC_ERR_USAGE;
    uvcci_writer w = uvcci_writer_on(out, cap);
    uvcci_put8(&w, m->party);
    uvcci_put32(&w, m->step);
    uvcci_put(&w, m->global_root, 32);
    uvcci_put(&w, m->audit_root, 32);
    uvcci_put(&w, m->before, 32);
    uvcci_put(&w, m->signature, 64);
    return end_encode(&w);
}

int uvcci_audit_decode(uvcci_audit_msg_t *m, const uint8_t *in, size_t len) {
    if (len != UVCCI_AUDIT_BYTES || in[0] >= UVCC_PARTIES)
        return UVCC_ERR_BATCH;
    uvcci_reader r = uvcci_reader_on(in, len);
    m->party = uvcci_get8(&r);
    m->step = uvcci_get32(&r);
    uvcci_get(&r, m->global_root, 32);
    uvcci_get(&r, m->audit_root, 32);
    uvcci_get(&r, m->before, 32);
    uvcci_get(&r, m->signature, 64);
    return 0;
}

int uvcci_bye_encode(uint16_t reason, uint8_t *out, size_t cap) {
    uvcci_writer w = uvcci_writer_on(out, cap);
    uvcci_put16(&w, reason);
    return end_encode(&w);
}

int uvcci_bye_decode(uint16_t *reason, const uint8_t *in, size_t len) {
    if (len != UVCCI_BYE_BYTES)
        return UVCC_ERR_BATCH;
    *reason = uvcci_ld16(in);
    return 0;
}

int uvcci_cancel_encode(const uvcci_cancel_msg *m, uint8_t *out, size_t cap) {
    if (m->vote < UVCCI_VOTE_STOPPED || m->vote > UVCCI_VOTE_FLUSHED)
        return UVCC_ERR_USAGE;
    uvcci_writer w = uvcci_writer_on(out, cap);
    uvcci_put8(&w, m->vote);
    uvcci_put32(&w, m->step);
    return end_encode(&w);
}

int uvcci_cancel_decode(uvcci_cancel_msg *m, const uint8_t *in, size_t len) {
    if (len != UVCCI_CANCEL_BYTES || in[0] < UVCCI_VOTE_STOPPED || in[0] > UVCCI_VOTE_FLUSHED)
        return UVCC_ERR_BATCH;
    m->vote = in[0];
    m->step = uvcci_ld32(in + 1);
    return 0;
}
