/* SPDX-License-Identifier: Apache-2.0 */
/* draw.h - numbers that follow from a seed and nothing secret hangs on: tokens and values that are
 * tried, the order of rows. */
#ifndef UVCC_TOOLS_DRAW_H
#define UVCC_TOOLS_DRAW_H

#include <stdint.h>

/* The next one, all of its bits alike: splitmix64. *state begins at any number. */
static inline uint64_t draw(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

#endif
