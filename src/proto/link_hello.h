/* SPDX-License-Identifier: Apache-2.0 */
/* link_hello.h - HELLOs of a link: those that came, whole or in pieces, and the one to send. */
#ifndef UVCCI_LINK_HELLO_H
#define UVCCI_LINK_HELLO_H

#include "proto/link_state.h"

/* A HELLO that came whole; `sealed`: its seal was verified. */
void uvcci_link_hello_push(uvcc_link *l, const uint8_t *payload, size_t len, bool sealed,
                           bool foreign);
/* An unsealed HELLO frame: a whole one, or a piece. */
void uvcci_link_hello_take(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *payload,
                           bool foreign);
/* Pieces whose rest did not come are given up: HELLO repeats. */
void uvcci_link_hello_trim(uvcc_link *l);
/* What waits to be sent is dropped. */
void uvcci_link_hello_drop(uvcc_link *l);
/* What came too early is forgotten. */
void uvcci_link_hello_late(uvcc_link *l);
void uvcci_link_hello_free(uvcc_link *l);

#endif
