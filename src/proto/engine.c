/* SPDX-License-Identifier: Apache-2.0 */
/* engine.c - the flow table of the MPC protocols and the state machine that walks it.
 *
 * States of an engine: the local share is ready or not; per flow of its role: not allowed yet, may
 * be sent, sent; awaited, come. Invariants: sent and may_send are disjoint and hold own flows only;
 * got holds flows to this role only; nothing is handed out before the local share is ready. */
#include "proto/engine.h"

#include <assert.h>
#include <stddef.h>

#include <uvcc/types.h>

enum { H = UVCCI_HEAD, T = UVCCI_TAIL, O = UVCCI_OTHER, AT_ONCE = 0, AFTER_HEAD = 1 + UVCCI_HEAD };

/* protocol, from, to, hop, TLV, after. In RESHARE, OPEN_ALL and DIGEST_ALL the edge is 0: H, T, O
 * are P0, P1, P2. */
#define FLOW(proto, from, to, hop, tlv, after)                                                     \
    { UVCCI_PROTO_##proto, (from), (to), (hop), UVCC_TLV_##tlv, (after) }
const uvcci_flow uvcci_flows[] = {
    /* x_(p+2) of owner p; the other two components are PRG words of the pairs. */
    FLOW(INPUT, H, T, 0, INPUT_U64VEC, AT_ONCE),
    FLOW(INPUT, H, O, 0, INPUT_U64VEC, AT_ONCE),
    /* a + rho_HO and c + rho_TO. */
    FLOW(OPEN2, H, T, 0, OPEN_VEC, AT_ONCE),
    FLOW(OPEN2, T, H, 0, OPEN_VEC, AT_ONCE),
    /* z_h + rho_HO, z_t + rho_TO, and z_o + s to both. */
    FLOW(OPEN4, H, T, 0, OPEN_VEC, AT_ONCE),
    FLOW(OPEN4, T, H, 0, OPEN_VEC, AT_ONCE),
    FLOW(OPEN4, O, H, 0, OPEN_VEC, AT_ONCE),
    FLOW(OPEN4, O, T, 0, OPEN_VEC, AT_ONCE),
    /* x_p, which p + 1 lacks; H(x_(p+1)), which p - 1 gets from p + 1. */
    FLOW(OPEN_ALL, H, T, 0, OPEN_VEC, AT_ONCE),
    FLOW(OPEN_ALL, T, O, 0, OPEN_VEC, AT_ONCE),
    FLOW(OPEN_ALL, O, H, 0, OPEN_VEC, AT_ONCE),
    FLOW(OPEN_ALL, H, O, 0, DIGEST, AT_ONCE),
    FLOW(OPEN_ALL, T, H, 0, DIGEST, AT_ONCE),
    FLOW(OPEN_ALL, O, T, 0, DIGEST, AT_ONCE),
    /* The receiver lacks c: TAIL's second component, OTHER's first. */
    FLOW(OPEN_ONE, T, H, 0, OPEN_VEC, AT_ONCE),
    FLOW(OPEN_ONE, O, H, 0, DIGEST, AT_ONCE),
    /* z_p becomes component p, which p - 1 holds too. */
    FLOW(RESHARE, H, O, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(RESHARE, T, H, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(RESHARE, O, T, 0, RESHARE_U64VEC, AT_ONCE),
    /* m = y_h - a' and c' = y_t - PRG(K_HT): c' does not wait for m. */
    FLOW(LIFT_PARALLEL, H, T, 0, LIFT_M_U64VEC, AT_ONCE),
    FLOW(LIFT_PARALLEL, T, O, 0, LIFT_COMP_U64VEC, AT_ONCE),
    /* m = y_h - a', then c' = m + y_t - b'. */
    FLOW(LIFT_SEQUENTIAL, H, T, 0, LIFT_M_U64VEC, AT_ONCE),
    FLOW(LIFT_SEQUENTIAL, T, O, 1, LIFT_COMP_U64VEC, AFTER_HEAD),
    /* y_h + rho_HO and y_t + rho_TO. */
    FLOW(LIFT_EXCHANGE, H, T, 0, LIFT_X_U64VEC, AT_ONCE),
    FLOW(LIFT_EXCHANGE, T, H, 0, LIFT_X_U64VEC, AT_ONCE),
    /* Correction words, the same to both, and dealt shares. */
    FLOW(KEYS, O, H, 0, KEY_CHUNK, AT_ONCE),
    FLOW(KEYS, O, T, 0, KEY_CHUNK, AT_ONCE),
    /* f(u) less pads of HO and HT, the same to both; the pads times g(c), masked by TO. */
    FLOW(CIRCUIT_HEAD, H, T, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(CIRCUIT_HEAD, H, O, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(CIRCUIT_HEAD, T, H, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(CIRCUIT_HEAD, O, H, 0, RESHARE_U64VEC, AT_ONCE),
    /* z_t and z_o: component 0, which OTHER would get, is HEAD's alone from here on. */
    FLOW(CIRCUIT_TOP, T, H, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(CIRCUIT_TOP, O, T, 0, RESHARE_U64VEC, AT_ONCE),
    /* Commitments, their openings, keyed digests of what all should hold. */
    FLOW(DIGEST_ALL, H, T, 0, DIGEST, AT_ONCE),
    FLOW(DIGEST_ALL, H, O, 0, DIGEST, AT_ONCE),
    FLOW(DIGEST_ALL, T, O, 0, DIGEST, AT_ONCE),
    FLOW(DIGEST_ALL, T, H, 0, DIGEST, AT_ONCE),
    FLOW(DIGEST_ALL, O, H, 0, DIGEST, AT_ONCE),
    FLOW(DIGEST_ALL, O, T, 0, DIGEST, AT_ONCE),
    /* z_t + r and z_o, with the zero share of the two; HEAD's and TAIL's words of the wrap. */
    FLOW(SR_OPEN, T, H, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(SR_OPEN, O, H, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(SR_OPEN, H, O, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(SR_OPEN, T, O, 0, RESHARE_U64VEC, AT_ONCE),
    /* a' and e; e; OTHER's words of the wrap, made of what came from HEAD in the round before. */
    FLOW(SR_SEND, H, O, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(SR_SEND, H, T, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(SR_SEND, O, T, 0, RESHARE_U64VEC, AT_ONCE),
    /* a' and d; d; TAIL's and OTHER's halves of the wrap. */
    FLOW(SR2, H, O, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(SR2, H, T, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(SR2, T, O, 0, RESHARE_U64VEC, AT_ONCE),
    FLOW(SR2, O, T, 0, RESHARE_U64VEC, AT_ONCE),
};
const unsigned uvcci_flow_count = sizeof uvcci_flows / sizeof *uvcci_flows;

const uvcci_flow *uvcci_protocol_flows(uvcci_protocol p, unsigned *count) {
    unsigned first = 0;
    while (first < uvcci_flow_count && uvcci_flows[first].protocol != p)
        first++;
    unsigned end = first;
    while (end < uvcci_flow_count && uvcci_flows[end].protocol == p)
        end++;
    *count = end - first;
    assert(*count <= 8); /* bits of a byte in an engine */
    return uvcci_flows + first;
}

unsigned uvcci_protocol_hops(uvcci_protocol p) {
    switch (p) {
#define UVCCI_PROTOCOL(name, hops, text)                                                           \
    case UVCCI_PROTO_##name:                                                                       \
        return hops;
#include "proto/protocols.def"
#undef UVCCI_PROTOCOL
    default:
        return 0;
    }
}

bool uvcci_protocol_has_places(uvcci_protocol p) {
    return p == UVCCI_PROTO_SR_OPEN || p == UVCCI_PROTO_SR_SEND || p == UVCCI_PROTO_SR2;
}

const char *uvcci_protocol_name(uvcci_protocol p) {
    switch (p) {
#define UVCCI_PROTOCOL(name, hops, text)                                                           \
    case UVCCI_PROTO_##name:                                                                       \
        return #name;
#include "proto/protocols.def"
#undef UVCCI_PROTOCOL
    default:
        return NULL;
    }
}

const uvcci_flow *uvcci_flow_find(uvcci_protocol p, uvcci_role from, uvcci_role to, unsigned hop,
                                  uint8_t tlv) {
    unsigned n;
    const uvcci_flow *f = uvcci_protocol_flows(p, &n);
    for (unsigned i = 0; i < n; i++)
        if (f[i].from == from && f[i].to == to && f[i].hop == hop && f[i].tlv == tlv)
            return &f[i];
    return NULL;
}

/* Marks the own flows that have become allowed. */
static void allow(uvcci_engine *e) {
    if (!e->local)
        return;
    unsigned n;
    const uvcci_flow *f = uvcci_protocol_flows((uvcci_protocol)e->protocol, &n);
    uint8_t heard = 0; /* bit 1 + role: a flow of that role has come */
    for (unsigned i = 0; i < n; i++)
        if ((e->got >> i & 1) != 0)
            heard |= (uint8_t)(1u << (1 + f[i].from));
    for (unsigned i = 0; i < n; i++) {
        bool ready = f[i].after == AT_ONCE || (heard >> f[i].after & 1) != 0;
        if (f[i].from == e->role && ready && (e->sent >> i & 1) == 0)
            e->may_send |= (uint8_t)(1u << i);
    }
    assert((e->may_send & e->sent) == 0);
}

void uvcci_engine_init(uvcci_engine *e, uvcci_protocol p, uvcci_role role) {
    assert(p < UVCCI_PROTO_COUNT && role <= UVCCI_OTHER);
    *e = (uvcci_engine){.protocol = (uint8_t)p, .role = (uint8_t)role};
}

int uvcci_engine_local(uvcci_engine *e) {
    if (e->local)
        return UVCC_ERR_STATE;
    e->local = 1;
    allow(e);
    return 0;
}

int uvcci_engine_receive(uvcci_engine *e, uvcci_role from, unsigned hop, uint8_t tlv) {
    uvcci_protocol p = (uvcci_protocol)e->protocol;
    const uvcci_flow *f = uvcci_flow_find(p, from, (uvcci_role)e->role, hop, tlv);
    if (f == NULL)
        return UVCC_ERR_PROTOCOL;
    unsigned n;
    uint8_t bit = (uint8_t)(1u << (f - uvcci_protocol_flows(p, &n)));
    if ((e->got & bit) != 0)
        return UVCC_ERR_PROTOCOL;
    e->got |= bit;
    allow(e);
    return 0;
}

uint8_t uvcci_engine_take_sends(uvcci_engine *e) {
    uint8_t now = e->may_send;
    e->sent |= now;
    e->may_send = 0;
    return now;
}

bool uvcci_engine_done(const uvcci_engine *e) {
    unsigned n;
    const uvcci_flow *f = uvcci_protocol_flows((uvcci_protocol)e->protocol, &n);
    uint8_t to_send = 0, to_get = 0;
    for (unsigned i = 0; i < n; i++) {
        to_send |= (uint8_t)((f[i].from == e->role) << i);
        to_get |= (uint8_t)((f[i].to == e->role) << i);
    }
    return e->local && e->sent == to_send && e->got == to_get;
}
