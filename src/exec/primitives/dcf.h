/* SPDX-License-Identifier: Apache-2.0 */
/* dcf.h - the distributed comparison function of BCGGKR21 (Boyle, Chandran, Gilboa, Gupta, Ishai,
 * Kumar, Rathee: "Function Secret Sharing for Mixed-Mode and Fixed-Point Secure Computation", 2021,
 * figure 3) with payloads of w = 1..4 words of Z_2^64: the shares of both parties add up to beta
 * where x < alpha, else to 0.
 *
 * Children and control bits as in the DPF (dpf.h), but down to a single terminal; words 2k and 2k +
 * 1 of a child's value are MMO_side(seed ^ (2k + 1)), those of a terminal MMO_left. A key of c
 * points is levels (n * c * 16 bytes), values (n * c * w words), final words (c * w words), control
 * bits (c * ceil(2n/8) bytes). */
#ifndef UVCCI_DCF_H
#define UVCCI_DCF_H

#include "exec/primitives/dpf.h"

enum { UVCCI_DCF_WORDS_MAX = 4 };

static inline size_t uvcci_dcf_bytes(unsigned n, unsigned w, uint32_t c) {
    return (size_t)c * (16 * n + 8 * w * n + 8 * w + (2 * n + 7) / 8);
}

/* Keys for c points alpha[i] < 2^n, n 1..64, payloads beta[i w .. i w + w - 1]. */
void uvcci_dcf_gen(const uvcci_aes dpf[2], unsigned n, unsigned w, uint32_t c,
                   const uint64_t *alpha, const uint64_t *beta, const uint8_t *root0,
                   const uint8_t *root1, uint8_t *key);

/* One party's keys of c points. */
typedef struct uvcci_dcf_keys {
    unsigned n, w;
    uint32_t c;
    bool party1; /* TAIL */
    const uint8_t *root, *key;
} uvcci_dcf_keys;

/* The keys [at, at + m): out[i w + j] = this party's share of beta_j [x[i] < alpha of key at + i].
 * x[m] is public to the edge and < 2^n. */
void uvcci_dcf_eval(const uvcci_aes dpf[2], const uvcci_dcf_keys *k, uint32_t at, uint32_t m,
                    const uint64_t *x, uint64_t *out);

/* --- For dcf*.c only -------------------------------------------------------------------------- */

/* Where the parts of a key begin; the levels lie at 0. */
typedef struct uvcci_dcf_sections {
    size_t values, finals, bits;
} uvcci_dcf_sections;

static inline uvcci_dcf_sections uvcci_dcf_sections_of(unsigned n, unsigned w, uint32_t c) {
    const size_t values = (size_t)n * c * 16, finals = values + (size_t)n * c * w * 8;
    return (uvcci_dcf_sections){values, finals, finals + (size_t)c * w * 8};
}

#if UVCCI_FSS_X86
/* For the CPUs that uvcci_fss_is_wide() names. */
void uvcci_dcf_wide_gen(const uvcci_aes dpf[2], unsigned n, unsigned w, uint32_t c,
                        const uint64_t *alpha, const uint64_t *beta, const uint8_t *root0,
                        const uint8_t *root1, uint8_t *key);
void uvcci_dcf_wide_eval(const uvcci_aes dpf[2], const uvcci_dcf_keys *k, uint32_t first,
                         uint32_t count, const uint64_t *points, uint64_t *out);
#endif

#endif
