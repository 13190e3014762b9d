/* SPDX-License-Identifier: Apache-2.0 */
/* key_layout.c - where the parts of a gate's key stream lie (compute.h, uvcc_gate). */
#include <assert.h>
#include <uvcc/compute.h>

#include "exec/primitives/dcf.h"
#include "exec/primitives/dpf.h"

enum { BLOCK = 16 };

static uint32_t place(uvcc_key_layout *k, uint32_t bytes) {
    const uint32_t at = k->total_bytes;
    assert(bytes <= UINT32_MAX - at);
    k->total_bytes += bytes;
    return at;
}

/* Sections stand one behind the other in the order of struct uvcc_key_layout; which ones there are
 * follows from the gate and from whether pads are compact. */
void uvcc_key_layout_of(uvcc_gate gate, bool compact, unsigned shift, unsigned bits, uint32_t count,
                        uvcc_role role, uvcc_key_layout *out) {
    if (out == NULL)
        return;
    const uint32_t no = UINT32_MAX;
    *out = (uvcc_key_layout){no, no, no, {no, no, no}, {no, no}, no, 0};
    const bool tail = role == UVCC_TAIL, trunc = gate != UVCC_GATE_RELU;
    const bool dpf = gate == UVCC_GATE_TRUNC_ARS || gate == UVCC_GATE_RELU;
    const unsigned depth = uvcci_dpf_levels(trunc ? shift : bits);
    if (gate == UVCC_GATE_NONE)
        return;

    if (gate == UVCC_GATE_TRUNC_DCF)
        out->dcf = place(out, (uint32_t)uvcci_dcf_bytes(shift, 1, count));
    if (dpf) {
        out->levels = place(out, depth * count * BLOCK);
        out->terminals = place(out, count * BLOCK);
    }
    if (tail && dpf)
        out->words[0] = place(out, count * 8);
    if (tail && gate == UVCC_GATE_RELU)
        out->words[1] = place(out, count * 8);
    if (tail && trunc && !compact)
        for (unsigned m = 0; m < 2; m++)
            out->words[1 + m] = place(out, count * 8);
    if (dpf)
        out->bits = place(out, count * ((2 * depth + 7) / 8));
    if (tail && trunc && compact)
        for (unsigned m = 0; m < 2; m++)
            out->corr[m] = place(out, (count * shift + 7) / 8);
}
