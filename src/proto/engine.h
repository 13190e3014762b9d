/* SPDX-License-Identifier: Apache-2.0 */
/* engine.h - the small state machines of the MPC protocols: inputs, openings, reshares, keys,
 * lifts.
 *
 * A protocol is a table of flows: which role sends which TLV to which role, in which hop, after
 * what. The same table plans messages (exec/plan), checks what a peer sends, and drives one
 * uvcci_engine per block. Tensors and links are not here. */
#ifndef UVCCI_ENGINE_H
#define UVCCI_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include <uvcc/blv1.h>

/* Role of a party on an edge e: HEAD = P_e, TAIL = P_(e+1), OTHER = P_(e+2). Protocols without an
 * edge use a fixed one: RESHARE, OPEN_ALL and DIGEST_ALL edge 0, INPUT the owner, OPEN_ONE the
 * receiver. */
typedef enum uvcci_role { UVCCI_HEAD = 0, UVCCI_TAIL = 1, UVCCI_OTHER = 2 } uvcci_role;
static inline uvcci_role uvcci_role_of(uint8_t party, uint8_t edge) {
    return (uvcci_role)((party + 3u - edge) % 3u);
}
static inline uint8_t uvcci_party_of(uvcci_role role, uint8_t edge) {
    return (uint8_t)((edge + (unsigned)role) % 3u);
}

/* Whether a peer is the second of a role's two, in the order HEAD, TAIL, OTHER. */
static inline unsigned uvcci_is_second_peer(unsigned role, unsigned peer) {
    return peer == UVCCI_OTHER || (role == UVCCI_OTHER && peer == UVCCI_TAIL) ? 1 : 0;
}

typedef enum uvcci_protocol {
#define UVCCI_PROTOCOL(name, hops, text) UVCCI_PROTO_##name,
#include "proto/protocols.def"
#undef UVCCI_PROTOCOL
    UVCCI_PROTO_COUNT
} uvcci_protocol;

typedef struct uvcci_flow {
    uint8_t protocol; /* uvcci_protocol */
    uint8_t from, to; /* roles */
    uint8_t hop;      /* communication round inside the protocol, from 0 */
    uint8_t tlv;      /* UVCC_TLV_* */
    uint8_t after;    /* 0: the local share suffices; else 1 + role whose flow must have come */
} uvcci_flow;

/* The whole table (flows of one protocol stand together); tests walk it. */
extern const uvcci_flow uvcci_flows[];
extern const unsigned uvcci_flow_count;
/* A protocol in which a role may write to both of its peers, or hear of both: what goes to or comes
 * from the second peer stands in buffers of its own. */
bool uvcci_protocol_has_places(uvcci_protocol p);
/* First flow of a protocol and their number. */
const uvcci_flow *uvcci_protocol_flows(uvcci_protocol p, unsigned *count);
unsigned uvcci_protocol_hops(uvcci_protocol p);
const char *uvcci_protocol_name(uvcci_protocol p);
/* The flow from role `from` to role `to` in `hop` with that TLV type, or NULL. */
const uvcci_flow *uvcci_flow_find(uvcci_protocol p, uvcci_role from, uvcci_role to, unsigned hop,
                                  uint8_t tlv);

/* One block's run of one protocol at one party. Flow i of the protocol is bit i of the masks. */
typedef struct uvcci_engine {
    uint8_t protocol, role;
    uint8_t local;    /* local share ready */
    uint8_t may_send; /* flows whose bytes may be built now and were not taken yet */
    uint8_t sent, got;
} uvcci_engine;

void uvcci_engine_init(uvcci_engine *e, uvcci_protocol p, uvcci_role role);
/* The local share is ready. UVCC_ERR_STATE the second time. */
int uvcci_engine_local(uvcci_engine *e);
/* A TLV of type `tlv` from role `from` in `hop` came: UVCC_ERR_PROTOCOL if this party expects no
 * such flow or has it already. A flow whose bytes span several TLVs (KEY_CHUNK) is one call, when
 * its last byte is here. It may come before the local share. */
int uvcci_engine_receive(uvcci_engine *e, uvcci_role from, unsigned hop, uint8_t tlv);
/* Takes the mask of flows to send now (each flow is handed out once). */
uint8_t uvcci_engine_take_sends(uvcci_engine *e);
/* True once the local share is ready, everything was taken to send and everything has come. */
bool uvcci_engine_done(const uvcci_engine *e);

#endif
