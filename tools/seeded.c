/* SPDX-License-Identifier: Apache-2.0 */
/* seeded.c - see seeded.h. */
#include "seeded.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/loopback.h>

#define DATAGRAM_BYTES 8192u

static void hash_words(const char *command, const char *what, uint64_t seed, uint32_t number,
                       uint8_t out[32]) {
    const char *const label[] = {"uvcc/", command, "/", what};
    uint8_t tail[12];
    for (unsigned i = 0; i < 8; i++)
        tail[i] = (uint8_t)(seed >> (8 * i));
    for (unsigned i = 0; i < 4; i++)
        tail[8 + i] = (uint8_t)(number >> (8 * i));
    crypto_hash_sha256_state h;
    (void)crypto_hash_sha256_init(&h);
    for (unsigned i = 0; i < sizeof label / sizeof label[0]; i++)
        (void)crypto_hash_sha256_update(&h, (const uint8_t *)label[i], strlen(label[i]));
    (void)crypto_hash_sha256_update(&h, tail, sizeof tail);
    (void)crypto_hash_sha256_final(&h, out);
}

void seeded_identity(uvcc_config *cfg, const char *command, uint64_t seed, unsigned p) {
    hash_words(command, "job", seed, 0, cfg->identity.sid_job);
    hash_words(command, "sign", seed, p, cfg->identity.sign_seed);
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        uint8_t sign_seed[32], secret_key[crypto_sign_SECRETKEYBYTES];
        hash_words(command, "sign", seed, q, sign_seed);
        (void)crypto_sign_seed_keypair(cfg->identity.peer_sign_key[q], secret_key, sign_seed);
        if (q != p) /* pairs {0,1}, {1,2}, {0,2} are 1, 3, 2 */
            hash_words(command, "pair", seed, p + q, cfg->identity.pair_secret[q]);
    }
}

static bool any(const uvcc_fault_config *f) {
    return f != NULL && (f->drop > 0 || f->duplicate > 0 || f->reorder > 0 || f->corrupt > 0);
}

static void keep_log(void *user, uvcc_log_level level, const char *line) {
    session_log *log = user;
    if (level != UVCC_LOG_ERROR)
        return;
    if (log->lock != NULL)
        (void)pthread_mutex_lock(log->lock);
    (void)snprintf(log->line, sizeof log->line, "%s", line);
    if (log->lock != NULL)
        (void)pthread_mutex_unlock(log->lock);
}

void seeded_session(uvcc_config *cfg, const uvcc_allocator *al, const char *command, uint64_t seed,
                    unsigned p, const uvcc_fault_config *faults, session_log *log) {
    cfg->alloc = *al;
    cfg->log = (uvcc_logger){.write = keep_log, .user = log};
    cfg->identity.party = (uint8_t)p;
    seeded_identity(cfg, command, seed, p);
    cfg->links.datagram = any(faults);
    cfg->links.datagram_bytes = DATAGRAM_BYTES;
    cfg->links.keepalive_ns = UVCC_NEVER;
}

int seeded_network(uvcc_loopback **out, const uvcc_allocator *al, const uvcc_fault_config *faults,
                   uint64_t seed) {
    const int rc = uvcc_loopback_new(out, al, UVCC_PARTIES, any(faults), seed);
    return rc != 0 ? rc : uvcc_loopback_set_all_faults(*out, faults);
}

void seeded_bundles(bundles_config *c, const char *command, uint64_t seed) {
    uvcc_config cfg;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        seeded_identity(&cfg, command, seed, p);
        memcpy(c->sign_seed[p], cfg.identity.sign_seed, sizeof c->sign_seed[p]);
        memcpy(c->keys.key[p], cfg.identity.peer_sign_key[p], sizeof c->keys.key[p]);
    }
}
