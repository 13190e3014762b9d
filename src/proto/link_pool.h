/* SPDX-License-Identifier: Apache-2.0 */
/* link_pool.h - records of messages, named by tokens that nobody can use too late, and the buffers
 * that hold the messages' bytes. */
#ifndef UVCCI_LINK_POOL_H
#define UVCCI_LINK_POOL_H

#include "proto/link_state.h"

void *uvcci_pool_take(uvcc_link *l, uvcci_pool *p);
void uvcci_pool_give(uvcc_link *l, uvcci_pool *p, void *object);
void *uvcci_pool_find(const uvcci_pool *p, uint64_t token);
/* The first live object at or after *at (begin with 0), NULL at the end. */
void *uvcci_pool_each(const uvcci_pool *p, uint32_t *at);
/* Gives back what no object needs. */
void uvcci_pool_trim(uvcc_link *l, uvcci_pool *p);
uint64_t uvcci_pool_bound(uint64_t objects);
/* A message's bytes: in its record if they fit, else a buffer. NULL without memory. */
uint8_t *uvcci_data_take(uvcc_link *l, void *record, uint32_t len);
/* sealed: all of them were sealed where they stand, so they are no secret. */
void uvcci_data_give(uvcc_link *l, uint8_t *data, uint32_t len, bool sealed);
void uvcci_data_trim(uvcc_link *l);
uint64_t uvcci_data_bound(const uvcc_link *l);

#endif
