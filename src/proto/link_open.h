/* SPDX-License-Identifier: Apache-2.0 */
/* link_open.h - frames of a stream that are whole and follow each other in one message: opened side
 * by side, right into their places. */
#ifndef UVCCI_LINK_OPEN_H
#define UVCCI_LINK_OPEN_H

#include "proto/link_state.h"

/* The first n bytes of that were taken. */
void uvcci_slices_skip(uvcci_slices *s, size_t n);

/* Between two frames of a stream: takes as many of the frames that come as can be opened side by
 * side. How many, 0 if it is not at least two; UVCC_ERR_FRAME if one was not what it seemed: those
 * before it are taken. */
int uvcci_open_frames(uvcc_link *l, uvcci_slices *from);

#endif
