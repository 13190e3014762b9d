/* SPDX-License-Identifier: Apache-2.0 */
/* cc_bbr.h - BBR of draft-ietf-ccwg-bbr, but that loss without growing delay is no congestion. */
#ifndef UVCCI_CC_BBR_H
#define UVCCI_CC_BBR_H

#include "proto/cc.h"

enum {
    UVCCI_BBR_STARTUP,
    UVCCI_BBR_DRAIN,
    UVCCI_BBR_DOWN,
    UVCCI_BBR_CRUISE,
    UVCCI_BBR_REFILL,
    UVCCI_BBR_UP,
    UVCCI_BBR_PROBE_RTT,
};

extern const uvcci_cc_class uvcci_cc_bbr;

#endif
