/* SPDX-License-Identifier: Apache-2.0 */
/* fixed.c - see fixed.h. */
#include "fixed.h"

#include <math.h>
#include <stdlib.h>

enum { FAR_BITS = 62 }; /* what is beyond is beyond all bits that there can be */

static int64_t nearest(double v, unsigned frac_bits) {
    const double scaled = ldexp(v, (int)frac_bits), far = ldexp(1, FAR_BITS);
    return llrint(fmax(-far, fmin(far, scaled)));
}

void fixed_note(fixed_stats *s, const double *v, uint64_t count, unsigned frac_bits,
                unsigned bits) {
    uint64_t most = 0;
    s->bits = s->bits == 0 ? 1 : s->bits;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t q = (uint64_t)llabs(nearest(v[i], frac_bits));
        most = q > most ? q : most;
        s->most = fmax(s->most, fabs(v[i]));
        s->clipped += q >> (frac_bits + bits) != 0;
    }
    while (most >> (frac_bits + s->bits) != 0)
        s->bits++;
}

void fixed_round(const double *v, uint64_t count, unsigned frac_bits, unsigned bits, int64_t *out) {
    const int64_t most = (int64_t)(1ull << (frac_bits + bits)) - 1;
    for (uint64_t i = 0; i < count; i++) {
        const int64_t q = nearest(v[i], frac_bits);
        out[i] = q > most ? most : q < -most ? -most : q;
    }
}

double fixed_real(int64_t v, unsigned frac_bits) {
    return ldexp((double)v, -(int)frac_bits);
}
