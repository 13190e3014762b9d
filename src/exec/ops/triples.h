/* SPDX-License-Identifier: Apache-2.0 */
/* triples.h - triples that the host keeps: what it gave a session until their step opens, and what
 * a session makes that makes nothing else. */
#ifndef UVCCI_TRIPLES_H
#define UVCCI_TRIPLES_H

#include "exec/runtime/core.h"

/* A triple that the host gave: C until the op takes it, and the keys of its masks. */
typedef struct uvcci_stored_triple {
    struct uvcci_stored_triple *next;
    uvcc_triple_info info;
    uvcc_step_keys keys; /* tags tripleA and tripleB of NEXT and PREV */
    uint8_t *c;          /* lo, hi; WIRE arena */
} uvcci_stored_triple;

/* uvcc_session_load_triples() without its recording. */
int uvcci_session_load_triples(uvcc_session *s, const uint8_t *data, size_t len);
/* Finds what the host gave for a step that opens, drops the rest of it; STEP says what there is. */
void uvcci_triples_match(uvcc_session *s, uvcci_step *st);
/* All three agreed to the step. `same`: they were given the same triples, which are used; else each
 * drops its own, and all are made. */
void uvcci_triples_agreed(uvcc_session *s, uvcci_step *st, bool same);
void uvcci_stored_free(uvcc_session *s, uvcci_stored_triple *t);
void uvcci_stored_wipe_c(uvcc_session *s, uvcci_stored_triple *t);
/* In a session that makes triples: room for the step's, its record of an op's tile ready but for C
 * and the digest, and the end of the step. */
int uvcci_triples_room(uvcc_session *s, uvcci_step *st);
uint8_t *uvcci_triple_record(uvcc_session *s, const uvcci_instance *r, uint32_t tile);
void uvcci_triples_keep(uvcc_session *s, uvcci_step *st);
void uvcci_triples_free(uvcc_session *s);

#endif
