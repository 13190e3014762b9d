/* SPDX-License-Identifier: Apache-2.0 */
/* optable.h - the op table of one step: every (phase, mb, k, b) in order, each with a 32-bit id
 * that is unused in this step; equal ids are re-salted (wire.md 1). Memory is the caller's. */
#ifndef UVCCI_OPTABLE_H
#define UVCCI_OPTABLE_H

#include "proto/ids.h"

typedef struct uvcci_oprow {
    uint8_t phase;
    uint16_t mb, k, b; /* b: batch */
    uint16_t attempt;  /* filled */
    uint32_t op_id;    /* filled */
    uint32_t ordinal;  /* filled: index of (phase, mb, k) among the step's ops; same for all b */
} uvcci_oprow;

typedef struct uvcci_optable {
    uvcci_oprow *rows; /* ascending by (phase, mb, k, b) */
    uint32_t count;
    uint32_t *index;    /* open-addressing hash table op_id -> row + 1; index_cap a power of two */
    uint32_t index_cap; /* >= 2 * count */
} uvcci_optable;

/* rows come in with phase, mb, k, b in any order, b dense from 0 per op, no duplicates (else
 * UVCC_ERR_USAGE); they are sorted, numbered and given ids. `veto` (may be NULL) may refuse an id
 * (return true), which raises the attempt: the session uses it for collisions of fss or stream ids
 * inside one op, tests use it to force collisions. UVCC_ERR_USAGE also for an index_cap that is no
 * power of two or too small, UVCC_ERR_LIMIT when a row ran out of attempts. After a failure rows
 * and index are in no useful order and must not be searched. */
int uvcci_optable_build(uvcci_optable *t, const uint8_t sid_sub[32], uint32_t step,
                        bool (*veto)(void *user, const uvcci_oprow *row), void *user);
/* Row of op_id, or NULL. */
const uvcci_oprow *uvcci_optable_find(const uvcci_optable *t, uint32_t op_id);
/* A row as H(op table) and bundles have it: U8 phase, LE16 mb, k, b, attempt, LE32 op id; the
 * ordinal is not in it. */
#define UVCCI_OPROW_BYTES 13u
void uvcci_oprow_put(const uvcci_oprow *row, uint8_t out[UVCCI_OPROW_BYTES]);
void uvcci_oprow_get(uvcci_oprow *row, const uint8_t in[UVCCI_OPROW_BYTES]);
/* H(op table) as in STEP. */
void uvcci_optable_hash(const uvcci_optable *t, uint8_t out[32]);
#endif
