/* SPDX-License-Identifier: Apache-2.0 */
/* stepmsg.h - payloads of STEP, AUDIT, BYE and CANCEL (wire.md 6). Struct-out codecs: no
 * allocation, no session. An encoder returns the payload's length, or UVCC_ERR_USAGE for a field
 * out of range or a buffer that is too small; a decoder returns 0 or UVCC_ERR_BATCH and writes only
 * on 0. Lengths are strict: nothing may be missing or left over. */
#ifndef UVCCI_STEPMSG_H
#define UVCCI_STEPMSG_H

#include "proto/crypto.h"

#include <stddef.h>
#include <stdint.h>

#define UVCCI_SHAPES_MAX     64u /* that STEP lists: with more it has their hash */
#define UVCCI_SHAPE_BYTES    12u
#define UVCCI_STEP_MIN_BYTES (4u + 4u * 32u + 2u)
#define UVCCI_STEP_MAX_BYTES (UVCCI_STEP_MIN_BYTES + UVCCI_SHAPES_MAX * UVCCI_SHAPE_BYTES)
#define UVCCI_AUDIT_BYTES    (1u + 4u + 3u * 32u + 64u)
#define UVCCI_BYE_BYTES      2u
#define UVCCI_CANCEL_BYTES   5u

/* Public shape of one input tensor of a step; what id, rows and cols may be is the session's rule.
 */
typedef struct uvcci_shape {
    uint32_t id, rows, cols;
} uvcci_shape;

typedef struct uvcci_step_msg {
    uint32_t step;
    uint8_t lineage[32]; /* before the step before, or of the run's first step (ids.h) */
    uint8_t h_program[32], h_optable[32];
    uint8_t h_given[32]; /* of the triples that the sender's host gave; zeros: none */
    uint16_t shape_count;
    uvcci_shape shapes[UVCCI_SHAPES_MAX]; /* decode leaves those past shape_count alone */
    uint8_t h_shapes[32];                 /* more than UVCCI_SHAPES_MAX: in place of `shapes` */
} uvcci_step_msg;

int uvcci_step_encode(const uvcci_step_msg *m, uint8_t *out, size_t cap);
int uvcci_step_decode(uvcci_step_msg *m, const uint8_t *in, size_t len);
/* H(public shapes) of STEP_BEGIN: over LE16 n || n * (LE32 id || LE32 rows || LE32 cols). They are
 * put one by one. */
void uvcci_shapes_begin(uvcci_sha256 *h, uint16_t n);
void uvcci_shapes_put(uvcci_sha256 *h, const uvcci_shape *shape);

typedef struct uvcci_audit_msg_t {
    uint8_t party; /* 0..2 */
    uint32_t step;
    uint8_t global_root[32], audit_root[32], before[32];
    uint8_t signature[64];
} uvcci_audit_msg_t;

int uvcci_audit_encode(const uvcci_audit_msg_t *m, uint8_t *out, size_t cap);
int uvcci_audit_decode(uvcci_audit_msg_t *m, const uint8_t *in, size_t len);

/* reason: 0 when done, else why the sender aborts. */
int uvcci_bye_encode(uint16_t reason, uint8_t *out, size_t cap);
int uvcci_bye_decode(uint16_t *reason, const uint8_t *in, size_t len);

/* What a party says about dropping a step. */
enum {
    UVCCI_VOTE_NONE = 0,
    UVCCI_VOTE_STOPPED = 1,  /* it starts nothing of the step any more, until another finishes it */
    UVCCI_VOTE_FINISHED = 2, /* it finished the step, or will */
    UVCCI_VOTE_FLUSHED = 3   /* after STOPPED by all: the receiver has all that it sent of it */
};
typedef struct uvcci_cancel_msg {
    uint8_t vote; /* UVCCI_VOTE_STOPPED to _FLUSHED */
    uint32_t step;
} uvcci_cancel_msg;

int uvcci_cancel_encode(const uvcci_cancel_msg *m, uint8_t *out, size_t cap);
int uvcci_cancel_decode(uvcci_cancel_msg *m, const uint8_t *in, size_t len);

#endif
