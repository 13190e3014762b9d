/* link_keys.h - the keys of a sealed link: one for control frames of a run, one for data frames of
 * each step, source and destination, derived at first use and wiped two steps later. */
#ifndef UVCCI_LINK_KEYS_H
#define UVCCI_LINK_KEYS_H

#include "proto/link_state.h"

/* The key of a step, derived at first use; NULL if it cannot be. */
uvcci_aead *uvcci_link_key_of(uvcc_link *l, uint32_t step, bool tx);
/* Wipes the keys of steps that are over: `step` is the first unfinished one. */
void uvcci_keys_expire(uvcc_link *l, uint32_t step);
/* Wipes the keys of steps; they are derived again at need. */
void uvcci_step_keys_free(uvcc_link *l);
/* Wipes all. */
void uvcci_keys_free(uvcc_link *l);

#endif
