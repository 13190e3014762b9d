/* beaver.h - products on Beaver triples in a session: made ahead under a budget, or given by the
 * host; used once. */
#ifndef UVCCI_BEAVER_H
#define UVCCI_BEAVER_H

#include "exec/runtime/core.h"

/* The state of a Beaver product in a step; false without memory. Others get none. */
bool uvcci_beaver_init(uvcci_step *st, uvcci_instance *r);
/* Lets triples be made, in program order, under the budget. True if anything changed. */
bool uvcci_beaver_advance(uvcc_session *s);
/* Whether the turn may be built, as far as triples and masks count. */
bool uvcci_beaver_ready(const uvcci_instance *r);
/* After a turn, its messages sent. */
void uvcci_beaver_turn_done(uvcc_session *s, uvcci_instance *r);
void uvcci_beaver_free(uvcc_session *s, uvcci_instance *r);
/* Whether a round would make the triple that the host gave. */
static inline bool uvcci_triple_given(const uvcci_instance *r, unsigned round) {
    return r->beaver != NULL && r->beaver->stored != NULL && round == r->plan->beaver.triple_round;
}
/* Between making the triple and turn 0. */
static inline bool uvcci_before_start(const uvcci_instance *r) {
    return r->turn == UVCCI_TURN_TRIPLE || r->turn == UVCCI_TURN_TRIPLE_HERE;
}

#endif
