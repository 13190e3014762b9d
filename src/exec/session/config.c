/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - a session's configuration. What is 0 means a default; a contradiction is refused
 * before anything depends on it, by name and in the host's own log: there is no session yet that it
 * could ask. */
#include "exec/session/config.h"

#include "proto/crypto.h"
#include "proto/kem.h"
#include "proto/link_session.h"
#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define KEEPALIVE_NS   10000000000ull /* of links, unless silence has to be noticed before */
#define SILENCE_MIN_NS 1000000ull

int uvcc_config_default(uvcc_config *cfg, size_t cfg_size) {
    if (cfg == NULL || cfg_size < sizeof(size_t) || cfg_size > sizeof *cfg)
        return UVCC_ERR_USAGE;
    memset(cfg, 0, cfg_size);
    cfg->size = cfg_size;
    return 0;
}

/* ---- what is refused ---- */

static bool all_zero(const uint64_t *words, size_t n) {
    uint64_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= words[i];
    return any == 0;
}

/* Words that a later version gave a meaning: whoever sets them relies on it. */
static const char *reserved_fault(const uvcc_config *c) {
#define USED(group) !all_zero(c->group.reserved, sizeof c->group.reserved / sizeof(uint64_t))
    if (c->flags != 0)
        return "flags are unknown to this version";
    if (USED(identity) || USED(place) || USED(limits) || USED(resume) || USED(checks) ||
        USED(triples) || USED(consent) || c->consent.reserved32 != 0 || USED(agree) ||
        USED(names) || USED(threads) || c->agree.reserved32 != 0)
        return "a reserved word is not 0: this version knows no such option";
    return NULL;
#undef USED
}

static bool zero32(const uint8_t b[32]) {
    static const uint8_t zero[32];
    return uvcci_ct_equal(b, zero, 32);
}

/* What a host forgot to fill in would be a job that others can join, or keys that everybody knows.
 * The member that is wrong, and what is wrong with it; NULL if nothing is. */
static const char *identity_fault(const uvcc_config *c) {
    const uvcc_config_identity *id = &c->identity;
    const uint8_t a = (uint8_t)((id->party + 1u) % 3u), b = (uint8_t)((id->party + 2u) % 3u);
    uint8_t own[32], sk[64];
    if (id->kem != UVCC_KEM_NONE &&
        (id->kem > UINT16_MAX || uvcci_kem_of((uint16_t)id->kem) == NULL))
        return "identity.kem is unknown";
    if (zero32(id->sid_job))
        return "identity.sid_job is zero";
    if ((id->exchange_x25519 || !c->checks.audit_off) && zero32(id->sign_seed))
        return "identity.sign_seed is zero";
    if (!id->exchange_x25519) {
        if (zero32(id->pair_secret[a]) || zero32(id->pair_secret[b]))
            return "identity.pair_secret of a peer is zero";
        if (uvcci_ct_equal(id->pair_secret[a], id->pair_secret[b], 32))
            return "identity.pair_secret of both peers is the same";
        return NULL;
    }
    if (zero32(id->peer_sign_key[a]) || zero32(id->peer_sign_key[b]))
        return "identity.peer_sign_key of a peer is zero";
    uvcci_sign_keypair(id->sign_seed, own, sk);
    uvcci_wipe(sk, sizeof sk);
    if (uvcci_ct_equal(id->peer_sign_key[a], id->peer_sign_key[b], 32) ||
        uvcci_ct_equal(id->peer_sign_key[a], own, 32) ||
        uvcci_ct_equal(id->peer_sign_key[b], own, 32))
        return "identity.peer_sign_key of two parties is the same";
    return NULL;
}

static const char *place_fault(const uvcc_config_place *p) {
    if (p->replica >= p->replicas)
        return "place.replica is not below place.replicas";
    if (p->stage >= p->stages)
        return "place.stage is not below place.stages";
    if (p->tp_rank >= p->tp_ranks)
        return "place.tp_rank is not below place.tp_ranks";
    return p->stages > 256 ? "place.stages is above 256" : NULL;
}

/* A peer that has nothing to say is heard by the answers to our PINGs alone: several of them must
 * fit into the least time of silence. */
static const char *silence_fault(const uvcc_config_links *l) {
    if (l->silence_ns == 0 && l->silence_abort_ns == 0)
        return NULL;
    const uint64_t least = l->silence_ns != 0 ? l->silence_ns : l->silence_abort_ns;
    if (l->silence_abort_ns != 0 && l->silence_abort_ns < least)
        return "links.silence_abort_ns is below links.silence_ns";
    if (least < SILENCE_MIN_NS || l->keepalive_ns > least / 2)
        return "links.silence_ns is below 1 ms, or below twice links.keepalive_ns";
    return NULL;
}

static bool is_short(const char *name) {
    unsigned n = 0;
    while (n <= UVCC_AGREE_NAME_MAX && name[n] != '\0')
        n++;
    return n <= UVCC_AGREE_NAME_MAX;
}

static const char *agree_fault(const uvcc_config_agree *a) {
    if (a->count > UVCC_AGREE_MAX)
        return "agree.count is above 16";
    for (uint32_t i = a->count; i < UVCC_AGREE_MAX; i++)
        if (a->part[i] != 0)
            return "agree.part has more than agree.count says";
    for (uint32_t i = 0; i < a->count; i++)
        if (a->name[i] != NULL && !is_short(a->name[i]))
            return "agree.name has one of more than 47 bytes";
    return NULL;
}

static const char *rest_fault(const uvcc_config *c) {
    if (c->checks.bundles && c->checks.audit_off)
        return "checks.bundles is set with checks.audit_off: there is nothing to put into them";
    if (c->checks.prg_uses > 1)
        return "checks.prg_uses is neither 0 nor 1";
    if (c->triples.only && c->resume.checkpoint_every != 0)
        return "resume.checkpoint_every is set with triples.only: no step changes anything";
    if (c->resume.cancellable > 1)
        return "resume.cancellable is neither 0 nor 1";
    if (c->resume.cancellable != 0 && c->checks.audit_off)
        return "resume.cancellable is set with checks.audit_off";
    if (!c->triples.only && c->triples.run != 0)
        return "triples.run is set without triples.only";
    return c->limits.jobs_max < 4 ? "limits.jobs_max is below 4" : NULL;
}

static int refuse(const uvcc_config *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static int refuse(const uvcc_config *c, const char *format, ...) {
    char line[256];
    if (c->log.write != NULL) {
        va_list ap;
        va_start(ap, format);
        (void)vsnprintf(line, sizeof line, format, ap);
        va_end(ap);
        c->log.write(c->log.user, UVCC_LOG_ERROR, line);
    }
    return UVCC_ERR_CONFIG;
}

/* Where a configuration of some version may end: behind `place`, or behind any group after it. */
static bool is_an_end(size_t size) {
    static const size_t ends[] = {offsetof(uvcc_config, links),   offsetof(uvcc_config, limits),
                                  offsetof(uvcc_config, resume),  offsetof(uvcc_config, checks),
                                  offsetof(uvcc_config, triples), offsetof(uvcc_config, consent),
                                  offsetof(uvcc_config, agree),   offsetof(uvcc_config, names),
                                  offsetof(uvcc_config, threads), sizeof(uvcc_config)};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (size == ends[i])
            return true;
    return false;
}

/* In the order of the structure, but for what others are understood by: hooks, unknown words, the
 * party. */
int uvcci_config_check(const uvcc_config *in) {
    if (in == NULL || !is_an_end(in->size))
        return UVCC_ERR_USAGE;
    uvcc_config c;
    uvcc_link_config link;
    uvcci_config_take(&c, in);
    const char *fault = c.alloc.alloc == NULL || c.alloc.free == NULL
                            ? "alloc has no hooks: <uvcc/host.h> has the usual ones"
                        : c.random.fill == NULL
                            ? "random has no hook: <uvcc/host.h> has the usual one"
                            : reserved_fault(&c);
    if (fault == NULL && c.identity.party >= UVCC_PARTIES)
        fault = "identity.party is not 0, 1 or 2";
    if (fault == NULL)
        fault = identity_fault(&c);
    if (fault == NULL)
        fault = place_fault(&c.place);
    if (fault == NULL && c.links.suites > UVCC_SUITES_ALL)
        fault = "links.suites has unknown bits";
    if (fault == NULL)
        fault = silence_fault(&c.links);
    if (fault == NULL)
        fault = rest_fault(&c);
    if (fault == NULL)
        fault = agree_fault(&c.agree);
    int rc = fault == NULL ? 0 : refuse(&c, "party %u: %s", c.identity.party, fault);
    if (rc == 0) {
        uvcci_config_link(&c, &link);
        link.peer = (uint8_t)((c.identity.party + 1u) % UVCC_PARTIES);
        fault = uvcci_link_config_fault(&link);
        if (fault != NULL)
            rc = refuse(&c, "party %u: links.%s", c.identity.party, fault);
    }
    uvcci_wipe(&c, sizeof c);
    return rc;
}

/* ---- what is used ---- */

static void or_else(uint64_t *v, uint64_t usual) {
    if (*v == 0)
        *v = usual;
}

static void or_else32(uint32_t *v, uint32_t usual) {
    if (*v == 0)
        *v = usual;
}

static void or_one(uint16_t *v) {
    if (*v == 0)
        *v = 1;
}

void uvcci_config_take(uvcc_config *c, const uvcc_config *in) {
    memset(c, 0, sizeof *c);
    memcpy(c, in, in->size);
    or_one(&c->place.replicas);
    or_one(&c->place.stages);
    or_one(&c->place.tp_ranks);
    if (c->links.suites == 0)
        c->links.suites = UVCC_SUITES_ALL;
    or_else(&c->links.hello_repeat_ns, 200000000ull);
    const uvcc_config_links *l = &c->links;
    const uint64_t least = l->silence_ns != 0 ? l->silence_ns : l->silence_abort_ns;
    if (least != 0)
        or_else(&c->links.keepalive_ns, least / 4 < KEEPALIVE_NS ? least / 4 : KEEPALIVE_NS);
    or_else32(&c->limits.jobs_max, 256);
    or_else32(&c->limits.leaves_max, UVCCI_LEAVES_USUAL);
    or_else(&c->limits.keys_ahead_bytes, 32ull << 20);
    or_else(&c->limits.close_ns, 3000000000ull);
    or_else(&c->limits.triples_ahead_bytes, 64ull << 20);
#ifdef UVCC_CHECK_PRG
    or_else(&c->checks.prg_uses, 1);
#endif
}

void uvcci_config_link(const uvcc_config *cfg, uvcc_link_config *out) {
    const uvcc_config_links *l = &cfg->links;
    uvcc_link_config_default(out);
    out->me = cfg->identity.party;
    out->alloc = cfg->alloc;
    out->random = cfg->random;
    out->datagram = l->datagram;
    out->frame_bytes = l->frame_bytes;
    out->datagram_bytes = l->datagram_bytes;
    out->tx_online_bytes = l->tx_online_bytes;
    out->tx_keys_bytes = l->tx_keys_bytes;
    out->rx_online_bytes = l->rx_online_bytes;
    out->rx_keys_bytes = l->rx_keys_bytes;
    out->rx_messages_max = l->rx_messages_max;
    out->rto_initial_ns = l->rto_initial_ns;
    out->rto_min_ns = l->rto_min_ns;
    out->rto_max_ns = l->rto_max_ns;
    out->ack_delay_ns = l->ack_delay_ns;
    out->keepalive_ns = l->keepalive_ns;
    out->rx_ranges_max = l->rx_ranges_max;
    out->suspicious_max = l->suspicious_max;
    out->suspicious_window_ns = l->suspicious_window_ns;
    out->congestion = l->congestion;
    out->rate_bytes_per_s = l->rate_bytes_per_s;
    out->parallel = cfg->threads.parallel;
    out->transmit_frames = l->transmit_frames;
}
