/* SPDX-License-Identifier: Apache-2.0 */
/* ids.c - the identifiers and keys of wire.md 1 and protocols.md 2.
 *
 * Stateless. An identifier is the front of SHA-256 over a label and fixed-width little-endian
 * fields, gathered in a small buffer; a key is HKDF over an info string built the same way. No
 * field comes from a peer unchecked and none has variable width, so no buffer can overflow: the
 * writers' `bad` flag is an assertion. */
#include "proto/ids.h"

#include <assert.h>
#include <string.h>
#include <uvcc/frame.h>

#include "proto/bytes.h"

/* The longest input is a lineage's. */
#define BUF_BYTES (15u + 32u + 1u + 8u + 64u)

typedef struct input {
    uvcci_writer w;
    uint8_t buf[BUF_BYTES];
} input;

static void begin(input *in, const char *label) {
    in->w = uvcci_writer_on(in->buf, sizeof in->buf);
    uvcci_put(&in->w, label, strlen(label));
}

static void begin_with_id(input *in, const char *label, const uint8_t id[32]) {
    begin(in, label);
    uvcci_put(&in->w, id, 32);
}

static void hash(const input *in, uint8_t out[32]) {
    assert(!in->w.bad);
    uvcci_sha256_once(in->buf, in->w.len, out);
}

static uint32_t hash32(const input *in) {
    uint8_t h[32];
    hash(in, h);
    return uvcci_ld32(h);
}

static uint64_t hash64(const input *in) {
    uint8_t h[32];
    hash(in, h);
    return uvcci_ld64(h);
}

void uvcci_sid_rep(const uint8_t sid_job[32], uint32_t replica, uint8_t out[32]) {
    input in;
    begin_with_id(&in, "UVCC_SID_REPLICA_V1", sid_job);
    uvcci_put32(&in.w, replica);
    hash(&in, out);
}

void uvcci_lineage(const uint8_t before[32], uint8_t what, uint32_t run, uint32_t step,
                   const uint8_t nonce[32], const uint8_t h_optable[32], uint8_t out[32]) {
    input in;
    begin_with_id(&in, "UVCC_LINEAGE_V1", before);
    uvcci_put8(&in.w, what);
    uvcci_put32(&in.w, run);
    uvcci_put32(&in.w, step);
    uvcci_put(&in.w, nonce, 32);
    uvcci_put(&in.w, h_optable, 32);
    hash(&in, out);
}

void uvcci_sid_sub(const uint8_t sid_rep[32], uint8_t stage, uint16_t tp_rank, uint8_t out[32]) {
    input in;
    begin_with_id(&in, "UVCC_SID_SUB_V1", sid_rep);
    uvcci_put8(&in.w, stage);
    uvcci_put16(&in.w, tp_rank);
    hash(&in, out);
}

uint64_t uvcci_sid_tag(const uint8_t sid_sub[32]) {
    input in;
    begin_with_id(&in, "UVCC_SIDTAG_V1", sid_sub);
    return hash64(&in);
}

void uvcci_client_dpf(const uint8_t sid_job[32], uint8_t out[2][16]) {
    input in;
    begin_with_id(&in, "UVCC_CLIENT_DPF_V1", sid_job);
    hash(&in, out[0]);
}

uint32_t uvcci_op_id(const uint8_t sid_sub[32], uint32_t step, uint8_t phase, uint16_t mb,
                     uint16_t k, uint16_t batch, uint16_t attempt) {
    input in;
    begin_with_id(&in, "UVCC_OPID_V1", sid_sub);
    uvcci_put32(&in.w, step);
    uvcci_put8(&in.w, phase);
    uvcci_put16(&in.w, mb);
    uvcci_put16(&in.w, k);
    if (batch != 0 || attempt != 0) {
        uvcci_put16(&in.w, batch);
        uvcci_put16(&in.w, attempt);
    }
    return hash32(&in);
}

uint64_t uvcci_fss_id(const uint8_t sid_sub[32], uint32_t step, uint32_t op_id, uint16_t call,
                      uint32_t block) {
    input in;
    begin_with_id(&in, "UVCC_FSSID_V1", sid_sub);
    uvcci_put32(&in.w, step);
    uvcci_put32(&in.w, op_id);
    uvcci_put16(&in.w, call);
    uvcci_put32(&in.w, block);
    return hash64(&in);
}

static const char *const stream_names[] = {
#define UVCCI_STREAM(name) #name,
#include "proto/mutant.h"
#include "proto/streams.def"
#undef UVCCI_STREAM
};

uint64_t uvcci_stream_id(const uint8_t sid_sub[32], uint32_t step, uint32_t op_id,
                         uvcci_stream_name name, uint16_t call, uint32_t tile) {
    assert((unsigned)name < UVCCI_STREAM_COUNT);
    const char *text = stream_names[name];
    size_t len = strlen(text);
    input in;
    begin_with_id(&in, "UVCC_OPEN_V1", sid_sub);
    uvcci_put32(&in.w, step);
    uvcci_put32(&in.w, op_id);
    uvcci_put8(&in.w, (uint8_t)len);
    uvcci_put(&in.w, text, len);
    uvcci_put16(&in.w, call);
    uvcci_put32(&in.w, tile);
    return hash64(&in);
}

uint64_t uvcci_triple_id(const uint8_t sid_sub[32], uint32_t step, uint32_t op_id, uint32_t tile) {
    input in;
    begin_with_id(&in, "UVCC_TRIPLE_V1", sid_sub);
    uvcci_put32(&in.w, step);
    uvcci_put32(&in.w, op_id);
    uvcci_put32(&in.w, tile);
    return hash64(&in);
}

uint32_t uvcci_msg_id(uint8_t kind, const uint8_t sid_sub[32], uint32_t op_id, uint8_t src,
                      uint8_t dst, uint16_t chunk_idx, uint16_t chunk_cnt) {
    const char *label = uvcc_frame_kind_label(kind);
    if (label == NULL || label[0] == '\0')
        return 0;
    input in;
    begin_with_id(&in, label, sid_sub);
    uvcci_put32(&in.w, op_id);
    uvcci_put8(&in.w, src);
    uvcci_put8(&in.w, dst);
    uvcci_put16(&in.w, chunk_idx);
    uvcci_put16(&in.w, chunk_cnt);
    return hash32(&in);
}

/* Expand fails only for outputs longer than 255 hashes; ours are at most one. */
static void expand(const uint8_t prk[32], const input *info, uint8_t *key, size_t len) {
    assert(!info->w.bad);
    int rc = uvcci_hkdf_expand(prk, info->buf, info->w.len, key, len);
    assert(rc == 0);
    (void)rc;
}

void uvcci_derive_prk(const uint8_t sid_sub[32], const uint8_t k_ab[32], uint8_t prk[32]) {
    uvcci_hkdf_extract(sid_sub, 32, k_ab, 32, prk);
}

/* "uvcc/" || tag || U8(0) || LE64(step) || LE32(run): the info of every key that lives one step. */
static void begin_step_key(input *in, const char *label, uint64_t step, uint32_t run) {
    begin(in, label);
    uvcci_put8(&in->w, 0);
    uvcci_put64(&in->w, step);
    uvcci_put32(&in->w, UVCCI_MUTANT(6) ? 0 : run);
}

static const char *const tag_labels[] = {
#define UVCCI_TAG(name) "uvcc/" #name,
#include <uvcc/tags.def>
#undef UVCCI_TAG
};

void uvcci_derive_chain(const uint8_t prk[32], uint64_t step, uint32_t run, uint8_t chain[32]) {
    input in;
    begin_step_key(&in, "uvcc/chain", step, run);
    expand(prk, &in, chain, 32);
}

void uvcci_ratchet(uint8_t chain[32], uint64_t step, uint32_t run) {
    input in;
    uint8_t next[32];
    begin_step_key(&in, "uvcc/ratchet", step, run);
    expand(chain, &in, next, 32);
    memcpy(chain, next, 32);
    uvcci_wipe(next, sizeof next);
}

void uvcci_derive_prg_key(const uint8_t chain[32], uvcci_tag tag, uint64_t step, uint32_t run,
                          uint8_t key[16]) {
    assert((unsigned)tag < UVCCI_TAG_COUNT);
    input in;
    begin_step_key(&in, tag_labels[tag], step, run);
    expand(chain, &in, key, 16);
}

void uvcci_derive_frame_key(const uint8_t chain[32], uint64_t step, uint32_t run, uint8_t src,
                            uint8_t dst, uint32_t epoch, uint8_t key[32]) {
    input in;
    begin_step_key(&in, "uvcc/frame", step, run);
    uvcci_put8(&in.w, src);
    uvcci_put8(&in.w, dst);
    if (epoch != 0)
        uvcci_put32(&in.w, epoch);
    expand(chain, &in, key, 32);
}

void uvcci_derive_ctl_key(const uint8_t prk[32], uint32_t run, uint8_t src, uint8_t dst,
                          uint8_t key[32]) {
    input in;
    begin(&in, "uvcc/ctl");
    uvcci_put8(&in.w, 0);
    uvcci_put32(&in.w, run);
    uvcci_put8(&in.w, src);
    uvcci_put8(&in.w, dst);
    expand(prk, &in, key, 32);
}

void uvcci_derive_leaf_salt(const uint8_t chain[32], uint64_t step, uint32_t run, uint8_t s[32]) {
    input in;
    begin_step_key(&in, "uvcc/leaf", step, run);
    expand(chain, &in, s, 32);
}

void uvcci_derive_session_key(const uint8_t n_a[32], const uint8_t n_b[32], const uint8_t ikm[32],
                              const uint8_t sid_job[32], uint32_t run, uint8_t a, uint8_t b,
                              uint8_t k_ab[32]) {
    assert(a < b);
    uint8_t salt[64], prk[32];
    memcpy(salt, n_a, 32);
    memcpy(salt + 32, n_b, 32);
    uvcci_hkdf_extract(salt, sizeof salt, ikm, 32, prk);
    input in;
    begin_with_id(&in, "uvcc/session", sid_job);
    uvcci_put32(&in.w, run);
    uvcci_put8(&in.w, a);
    uvcci_put8(&in.w, b);
    expand(prk, &in, k_ab, 32);
    uvcci_wipe(prk, sizeof prk);
}

/* Both secrets in one extraction (the combiner of draft-ietf-tls-hybrid-design and of NIST SP
 * 800-56C): their lengths are fixed by the ids, so what is extracted says which is which. Its
 * output is random to who lacks either of them, as long as HMAC-SHA256 extracts from the other; the
 * transcript in the expansion ties it to the ciphertext and to both public keys, so that nobody
 * who changes one gets keys that are related (Giacon, Heuer, Poettering, PKC 2018). */
void uvcci_derive_hybrid_key(const uint8_t n_a[32], const uint8_t n_b[32], const uint8_t ss_1[32],
                             const uint8_t ss_2[32], const uint8_t transcript[32], uint16_t kem,
                             uint32_t run, uint8_t a, uint8_t b, uint8_t k_ab[32]) {
    assert(a < b && kem != 0);
    uint8_t salt[64], ikm[64], prk[32];
    memcpy(salt, n_a, 32);
    memcpy(salt + 32, n_b, 32);
    memcpy(ikm, ss_1, 32);
    memcpy(ikm + 32, ss_2, 32);
    uvcci_hkdf_extract(salt, sizeof salt, ikm, sizeof ikm, prk);
    input in;
    begin_with_id(&in, "uvcc/hybrid", transcript);
    uvcci_put16(&in.w, kem);
    uvcci_put32(&in.w, run);
    uvcci_put8(&in.w, a);
    uvcci_put8(&in.w, b);
    expand(prk, &in, k_ab, 32);
    uvcci_wipe(ikm, sizeof ikm);
    uvcci_wipe(prk, sizeof prk);
}

void uvcci_derive_proof_key(const uint8_t secret[32], const uint8_t sid_job[32], uint8_t a,
                            uint8_t b, uint8_t key[32]) {
    assert(a < b);
    static const char salt[] = "UVCC_PROOF_V1";
    uint8_t prk[32];
    uvcci_hkdf_extract(salt, sizeof salt - 1, secret, 32, prk);
    input in;
    begin_with_id(&in, "uvcc/proof", sid_job);
    uvcci_put8(&in.w, a);
    uvcci_put8(&in.w, b);
    expand(prk, &in, key, 32);
    uvcci_wipe(prk, sizeof prk);
}
