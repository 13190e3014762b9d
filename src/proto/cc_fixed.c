/* SPDX-License-Identifier: Apache-2.0 */
/* cc_fixed.c - a configured rate, or none: the window is the peer's credit, and nothing that the
 * network says changes either. It starves what shares a path with it; for links that share none. */
#include "proto/cc_fixed.h"

static void fixed_init(uvcci_cc *c, uint64_t now) {
    (void)now;
    c->window = UVCCI_CC_NONE;
    c->quantum = UVCCI_CC_NONE;
    c->rate = 0;
    if (c->rate_bound != 0)
        uvcci_cc_pace(c, c->rate_bound);
}

static void fixed_sent(uvcci_cc *c, bool idle, uint64_t now) {
    (void)c, (void)idle, (void)now;
}
static void fixed_rtt(uvcci_cc *c, uint64_t rtt) {
    (void)c, (void)rtt;
}
static void fixed_lost(uvcci_cc *c, const uvcci_cc_loss *loss) {
    (void)c, (void)loss;
}
static void fixed_acked(uvcci_cc *c, const uvcci_cc_ack *ack) {
    (void)c, (void)ack;
}
static void fixed_persistent(uvcci_cc *c, uint64_t now) {
    (void)c, (void)now;
}
static void fixed_spurious(uvcci_cc *c, uint64_t bytes, uint64_t now) {
    (void)c, (void)bytes, (void)now;
}

const uvcci_cc_class uvcci_cc_fixed = {
    .init = fixed_init,
    .sent = fixed_sent,
    .rtt = fixed_rtt,
    .lost = fixed_lost,
    .acked = fixed_acked,
    .persistent = fixed_persistent,
    .spurious = fixed_spurious,
};
