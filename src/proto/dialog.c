/* SPDX-License-Identifier: Apache-2.0 */
/* dialog.c - a client's sealed dialog with one party, see uvcc/dialog.h; docs/wire/dialog.md.
 *
 * Three messages, HELLOs of the link: the client's CALL, with a fresh nonce; the party's OFFER, an
 * ephemeral key that it signs over that CALL; the client's PROOF, its own, signed over both. So
 * each end hears something new from the other's identity, and nothing that was said before is worth
 * anything: an OFFER answers one CALL, a PROOF one OFFER. Keys come of the two ephemerals and of
 * the hash of all three (SIGMA's way, with both identities in what is signed). The party answers a
 * PROOF by ACCEPT, sealed, which shows that it has them. What it sends after it waits for the
 * client's credit, which comes once that is open.
 *
 * A party keeps nothing of a CALL: its OFFER is made again of what the PROOF repeats. So whoever
 * calls in a client's name takes nothing from it but time, of which there is a bound.
 *
 * A dialog that is open goes on over any number of streams. The client calls again when a new
 * stream is there, or nothing was heard for long, and names the dialog that it has: a party that
 * has it too says nothing, one that lost it (it began anew) makes an offer. Either end goes over to
 * new keys only after the other has proved itself under them, or, the client, offered them afresh.
 */
#include <uvcc/dialog.h>

#include <string.h>

#include "proto/bytes.h"
#include "proto/crypto.h"

enum { CALL = 0, OFFER = 1, PROOF = 2, ACCEPT = 3 };
enum {
    AT_VERSION = 4,
    AT_KIND = 5,
    AT_PARTY = 6,
    AT_SUITE = 7,
    HEAD_BYTES = 8,
    /* CALL; a PROOF repeats both */
    AT_NONCE = HEAD_BYTES,
    AT_KNOWN = AT_NONCE + 32,
    CALL_BYTES = AT_KNOWN + 32,
    /* OFFER */
    AT_OFFER_KEY = HEAD_BYTES,
    AT_OFFER_SIGN = AT_OFFER_KEY + 32,
    OFFER_BYTES = AT_OFFER_SIGN + 64,
    /* PROOF */
    AT_PROOF_KEY = CALL_BYTES,
    AT_PROOF_SIGN = AT_PROOF_KEY + 32,
    PROOF_BYTES = AT_PROOF_SIGN + 64,
    /* ACCEPT */
    AT_ID = HEAD_BYTES,
    ACCEPT_BYTES = AT_ID + 32,
    MESSAGE_MAX = PROOF_BYTES,
};
#define VERSION       1u
#define RUN           1u
#define REPEAT_NS     UINT64_C(200000000)
#define REPEAT_MAX_NS (UINT64_C(3600) * 1000000000)
#define SILENCE_NS    UINT64_C(2000000000)  /* with messages on the way: then the client asks */
#define IDLE_NS       UINT64_C(25000000000) /* without: two PINGs of the link were not answered */
#define LOOKED_AT_MAX 64u                   /* CALLs and PROOFs in a repeat_ns */
#define PROOFS_MAX    5u                    /* without an answer: the party that offered is gone */

static const uint8_t MAGIC[4] = {'U', 'V', 'C', 'D'};
static const char OFFER_TEXT[] = "UVCC_DIALOG_V1/OFFER";
static const char PROOF_TEXT[] = "UVCC_DIALOG_V1/PROOF";
static const char ID_TEXT[] = "UVCC_DIALOG_V1/ID";
static const char TAG_TEXT[] = "UVCC_DIALOG_V1/TAG";

/* What is being said until it is answered. */
typedef enum says { SAYS_NOTHING, SAYS_CALL, SAYS_PROOF } says;

struct uvcc_dialog {
    uvcc_dialog_config cfg;
    uint8_t public_key[32], sign_sk[64];
    uvcc_link *link;
    bool open, stream_up;
    uint8_t id[32];        /* of the dialog that the link has keys of; zeros: none */
    uint8_t ephemeral[32]; /* secret. Party: of its next OFFER. Client: of its PROOF */
    uint8_t call[CALL_BYTES], offer[OFFER_BYTES], proof[PROOF_BYTES];
    says says; /* client */
    uint64_t now, say_at, say_ns, asked_at;
    uint32_t said; /* times */
    uint64_t opened_at;
    uint64_t window_at;
    uint32_t looked_at, refused;
    uvcc_link *old_link; /* of an event LINK */
    bool event_link, event_open;
};

/* ---- small things ---- */

void uvcc_dialog_config_default(uvcc_dialog_config *cfg) {
    if (cfg != NULL)
        *cfg = (uvcc_dialog_config){.size = sizeof *cfg};
}

uint64_t uvcc_dialog_tag_of(const uint8_t sid_job[32], uint8_t party,
                            const uint8_t client_key[32]) {
    uvcci_sha256 h;
    uint8_t hash[32];
    if (sid_job == NULL || client_key == NULL)
        return 0;
    uvcci_sha256_init(&h);
    uvcci_sha256_update(&h, TAG_TEXT, sizeof TAG_TEXT - 1);
    uvcci_sha256_update(&h, sid_job, 32);
    uvcci_sha256_update(&h, &party, 1);
    uvcci_sha256_update(&h, client_key, 32);
    uvcci_sha256_final(&h, hash);
    return uvcci_ld64(hash) | 1; /* 0 is nobody's */
}

/* `line` is whole: no text is put together here. */
static void warn(uvcc_dialog *d, const char *line) {
    if (d->cfg.log.write != NULL && d->refused++ == 0)
        d->cfg.log.write(d->cfg.log.user, UVCC_LOG_WARN, line);
}

static const uint8_t *client_key(const uvcc_dialog *d) {
    return d->cfg.client ? d->public_key : d->cfg.peer_key;
}
static const uint8_t *party_key(const uvcc_dialog *d) {
    return d->cfg.client ? d->cfg.peer_key : d->public_key;
}

static void put_head(const uvcc_dialog *d, uint8_t *m, uint8_t kind, uint8_t suite) {
    memcpy(m, MAGIC, sizeof MAGIC);
    m[AT_VERSION] = VERSION;
    m[AT_KIND] = kind;
    m[AT_PARTY] = d->cfg.party;
    m[AT_SUITE] = suite;
}

/* The kind of a message of its form, else -1. */
static int kind_of(const uvcc_dialog *d, const uint8_t *m, size_t len) {
    static const uint8_t bytes[] = {CALL_BYTES, OFFER_BYTES, PROOF_BYTES, ACCEPT_BYTES};
    if (len < HEAD_BYTES || memcmp(m, MAGIC, sizeof MAGIC) != 0 || m[AT_VERSION] != VERSION ||
        m[AT_KIND] > ACCEPT || len != bytes[m[AT_KIND]] || m[AT_PARTY] != d->cfg.party)
        return -1;
    if (m[AT_KIND] == PROOF
            ? m[AT_SUITE] != UVCCI_SUITE_CHACHA20_POLY1305 && m[AT_SUITE] != UVCCI_SUITE_AES256_GCM
            : m[AT_SUITE] != 0)
        return -1;
    return m[AT_KIND];
}

/* What is signed: who speaks with whom about which job, the CALL, the OFFER's key and, of a PROOF,
 * all of it but its signature. Returns the bytes. */
enum { SIGNED_MAX = 32 + 3 * 32 + CALL_BYTES + AT_OFFER_SIGN + AT_PROOF_SIGN };
static size_t to_sign(const uvcc_dialog *d, const char *text, bool with_proof,
                      uint8_t out[SIGNED_MAX]) {
    uvcci_writer w = uvcci_writer_on(out, SIGNED_MAX);
    uvcci_put(&w, text, strlen(text));
    uvcci_put(&w, d->cfg.sid_job, 32);
    uvcci_put(&w, client_key(d), 32);
    uvcci_put(&w, party_key(d), 32);
    uvcci_put(&w, d->call, CALL_BYTES);
    uvcci_put(&w, d->offer, AT_OFFER_SIGN);
    if (with_proof)
        uvcci_put(&w, d->proof, AT_PROOF_SIGN);
    return w.len;
}

static void make_id(const uvcc_dialog *d, uint8_t id[32]) {
    uint8_t bytes[SIGNED_MAX];
    uvcci_sha256 h;
    const size_t len = to_sign(d, ID_TEXT, true, bytes);
    uvcci_sha256_init(&h);
    uvcci_sha256_update(&h, bytes, len);
    uvcci_sha256_update(&h, d->proof + AT_PROOF_SIGN, 64);
    uvcci_sha256_final(&h, id);
}

/* ---- links and keys ---- */

static int new_link(const uvcc_dialog *d, uvcc_link **out) {
    uvcc_link_config c;
    uvcc_link_config_default(&c);
    c.alloc = d->cfg.alloc;
    c.random = d->cfg.random;
    c.me = UVCC_DIALOG_ME(d->cfg.client);
    c.peer = UVCC_DIALOG_PEER(d->cfg.client);
    c.datagram = d->cfg.datagram;
    c.sid_tag = uvcc_dialog_sid_tag(d);
    c.tx_online_bytes = d->cfg.tx_bytes;
    c.rx_online_bytes = d->cfg.rx_bytes;
    c.tx_keys_bytes = c.rx_keys_bytes = UVCC_CHUNK_BYTES; /* nothing is of that class */
    return uvcc_link_new(out, &c);
}

/* Keys of the CALL, OFFER and PROOF that d has, for a link without any. */
static int key_link(uvcc_dialog *d, uvcc_link *l, const uint8_t peer_ephemeral[32]) {
    uint8_t shared[32], prk[32], id[32];
    make_id(d, id);
    int rc = uvcci_x25519_shared(d->ephemeral, peer_ephemeral, shared);
    if (rc == 0) {
        uvcci_hkdf_extract(id, sizeof id, shared, sizeof shared, prk);
        rc = uvcc_link_set_run(l, RUN);
    }
    if (rc == 0)
        rc = uvcc_link_set_keys(l, d->proof[AT_SUITE], prk);
    if (rc == 0)
        memcpy(d->id, id, sizeof id);
    uvcci_wipe(shared, sizeof shared);
    uvcci_wipe(prk, sizeof prk);
    return rc;
}

/* A link without keys takes the place of one that has some. */
static void take_link(uvcc_dialog *d, uvcc_link *l) {
    if (d->old_link != NULL)
        uvcc_link_free(d->link); /* no net has heard of it yet */
    else
        d->old_link = d->link;
    d->link = l;
    d->event_link = true;
    d->event_open = d->open = d->stream_up = false;
}

static void now_open(uvcc_dialog *d) {
    d->open = d->event_open = true;
    d->opened_at = d->now;
    d->says = SAYS_NOTHING;
    d->refused = 0;
}

/* ---- the party ---- */

static int new_ephemeral(const uvcc_dialog *d, uint8_t out[32]) {
    return d->cfg.random.fill(d->cfg.random.user, out, 32) != 0 ? UVCC_ERR_RANDOM : 0;
}

/* The OFFER for d->call, always the same until the next ephemeral. */
static int make_offer(uvcc_dialog *d) {
    uint8_t bytes[SIGNED_MAX];
    put_head(d, d->offer, OFFER, 0);
    const int rc = uvcci_x25519_public(d->ephemeral, d->offer + AT_OFFER_KEY);
    if (rc == 0)
        uvcci_sign(d->sign_sk, bytes, to_sign(d, OFFER_TEXT, false, bytes),
                   d->offer + AT_OFFER_SIGN);
    return rc;
}

static int say_accept(uvcc_dialog *d) {
    uint8_t m[ACCEPT_BYTES];
    put_head(d, m, ACCEPT, 0);
    memcpy(m + AT_ID, d->id, 32);
    return uvcc_link_send_hello(d->link, m, sizeof m, true);
}

static bool may_look(uvcc_dialog *d) {
    if (d->now - d->window_at >= d->cfg.repeat_ns || d->now < d->window_at) {
        d->window_at = d->now;
        d->looked_at = 0;
    }
    return d->looked_at++ < LOOKED_AT_MAX;
}

static int take_call(uvcc_dialog *d, const uint8_t *m) {
    if (d->open && memcmp(m + AT_KNOWN, d->id, 32) == 0)
        return 0; /* it has this one: what it sends is heard */
    memcpy(d->call, m, CALL_BYTES);
    const int rc = make_offer(d);
    return rc != 0 ? rc : uvcc_link_send_hello(d->link, d->offer, OFFER_BYTES, false);
}

/* A link with the keys of the PROOF that d has, in the place of this one if that has keys: both are
 * as before, or it is done. The ephemeral that was offered is no more: an old PROOF is worth
 * nothing. */
static int take_keys(uvcc_dialog *d) {
    uint8_t next[32];
    uvcc_link *l = d->link;
    int rc = new_ephemeral(d, next);
    if (rc == 0) /* the one before it may have got as far as a run */
        rc = d->open ? new_link(d, &l) : uvcc_link_reset(l);
    if (rc == 0) {
        rc = key_link(d, l, d->proof + AT_PROOF_KEY);
        if (rc == 0)
            rc = uvcc_link_start(l, d->now);
        if (rc != 0 && d->open)
            uvcc_link_free(l);
    }
    if (rc == 0) {
        if (d->open)
            take_link(d, l);
        now_open(d);
        memcpy(d->ephemeral, next, sizeof next);
    }
    uvcci_wipe(next, sizeof next);
    return rc;
}

/* The CALL that a PROOF repeats, and the OFFER that answered it: what the PROOF must be signed
 * over. */
static int take_proof(uvcc_dialog *d, const uint8_t *m) {
    uint8_t bytes[SIGNED_MAX], before[PROOF_BYTES];
    if (d->open && memcmp(m, d->proof, PROOF_BYTES) == 0)
        return say_accept(d); /* it got lost */
    memcpy(before, d->proof, PROOF_BYTES);
    put_head(d, d->call, CALL, 0);
    memcpy(d->call + AT_NONCE, m + AT_NONCE, CALL_BYTES - AT_NONCE);
    memcpy(d->proof, m, PROOF_BYTES);
    int rc = make_offer(d);
    if (rc == 0 && uvcci_sign_verify(d->cfg.peer_key, bytes, to_sign(d, PROOF_TEXT, true, bytes),
                                     m + AT_PROOF_SIGN) != 0)
        rc = UVCC_ERR_AUTH;
    if (rc == 0)
        rc = take_keys(d);
    if (rc == 0)
        return say_accept(d);
    memcpy(d->proof, before, PROOF_BYTES);
    if (rc != UVCC_ERR_AUTH)
        return rc;
    warn(d, "dialog: a proof that is not this client's, or answers an old offer");
    return 0;
}

/* ---- the client ---- */

static void say(uvcc_dialog *d, says what) {
    d->says = what;
    d->said = 0;
    d->say_at = d->asked_at = d->now;
    d->say_ns = d->cfg.repeat_ns;
}

static int begin_call(uvcc_dialog *d) {
    put_head(d, d->call, CALL, 0);
    if (d->cfg.random.fill(d->cfg.random.user, d->call + AT_NONCE, 32) != 0)
        return UVCC_ERR_RANDOM;
    memset(d->call + AT_KNOWN, 0, 32);
    if (d->open)
        memcpy(d->call + AT_KNOWN, d->id, 32);
    say(d, SAYS_CALL);
    return 0;
}

static int make_proof(uvcc_dialog *d) {
    uint8_t bytes[SIGNED_MAX];
    put_head(d, d->proof, PROOF, d->cfg.suite);
    memcpy(d->proof + AT_NONCE, d->call + AT_NONCE, CALL_BYTES - AT_NONCE);
    int rc = new_ephemeral(d, d->ephemeral);
    if (rc == 0)
        rc = uvcci_x25519_public(d->ephemeral, d->proof + AT_PROOF_KEY);
    if (rc == 0)
        uvcci_sign(d->sign_sk, bytes, to_sign(d, PROOF_TEXT, true, bytes),
                   d->proof + AT_PROOF_SIGN);
    return rc;
}

/* The party has not the dialog that we have, if we have one: this is signed over our last CALL. */
static int take_offer(uvcc_dialog *d, const uint8_t *m) {
    uint8_t bytes[SIGNED_MAX], before[OFFER_BYTES];
    if (d->says == SAYS_NOTHING || (d->says == SAYS_PROOF && memcmp(m, d->offer, OFFER_BYTES) == 0))
        return 0;
    memcpy(before, d->offer, OFFER_BYTES);
    memcpy(d->offer, m, OFFER_BYTES);
    if (uvcci_sign_verify(d->cfg.peer_key, bytes, to_sign(d, OFFER_TEXT, false, bytes),
                          m + AT_OFFER_SIGN) != 0) {
        memcpy(d->offer, before, OFFER_BYTES);
        warn(d, "dialog: an offer that is not this party's, or answers an old call");
        return 0;
    }
    uvcc_link *l = d->link;
    const bool fresh = !d->open;
    int rc = make_proof(d);
    if (rc == 0)
        rc = fresh ? uvcc_link_reset(l) : new_link(d, &l);
    if (rc != 0)
        return rc;
    rc = key_link(d, l, m + AT_OFFER_KEY);
    if (rc == 0 && !fresh)
        take_link(d, l);
    else if (!fresh)
        uvcc_link_free(l);
    if (rc == 0)
        say(d, SAYS_PROOF);
    return rc;
}

static int take_accept(uvcc_dialog *d, const uint8_t *m) {
    if (d->says != SAYS_PROOF || memcmp(m + AT_ID, d->id, 32) != 0)
        return 0;
    uvcci_wipe(d->ephemeral, sizeof d->ephemeral);
    now_open(d);
    return uvcc_link_start(d->link, d->now);
}

/* Whether the party still has the dialog is asked on a new stream, and when messages that are on
 * the way find no answer, or the link's PINGs. */
static int ask(uvcc_dialog *d, const uvcc_link_stats *st) {
    uint64_t heard = d->opened_at;
    if (st->heard_ns != UVCC_NEVER && st->heard_ns > heard)
        heard = st->heard_ns;
    if (d->says == SAYS_CALL) {
        if (heard > d->asked_at)
            d->says = SAYS_NOTHING;
        return 0;
    }
    const bool anew = st->stream_up && !d->stream_up;
    const uint64_t most = uvcc_link_drained(d->link) ? IDLE_NS : SILENCE_NS;
    if (!anew && d->now <= heard + most)
        return 0;
    return begin_call(d);
}

/* ---- both ---- */

static int take(uvcc_dialog *d, const uint8_t *m, size_t len, bool sealed) {
    const int kind = kind_of(d, m, len);
    if (kind < 0 || sealed != (kind == ACCEPT)) {
        warn(d, "dialog: a message of another form");
        return 0;
    }
    if (d->cfg.client)
        return kind == OFFER ? take_offer(d, m) : kind == ACCEPT ? take_accept(d, m) : 0;
    if (kind == OFFER || kind == ACCEPT || !may_look(d))
        return 0;
    return kind == CALL ? take_call(d, m) : take_proof(d, m);
}

/* What came, then, at a client, what is due: a message on its way out goes with a stream that ends,
 * so a new one is a reason to say it again. */
int uvcc_dialog_turn(uvcc_dialog *d, uint64_t now) {
    uint8_t m[UVCC_HELLO_MAX_BYTES];
    uvcc_link_stats st;
    bool sealed;
    size_t len;
    int rc = 0;
    if (d == NULL)
        return UVCC_ERR_USAGE;
    d->now = now > d->now ? now : d->now;
    while (rc == 0 && (len = uvcc_link_poll_hello(d->link, m, &sealed)) != 0)
        rc = take(d, m, len, sealed);
    if (rc != 0 || !d->cfg.client)
        return rc;
    uvcc_link_get_stats(d->link, &st);
    if (d->open)
        rc = ask(d, &st);
    const bool anew = st.stream_up && !d->stream_up;
    d->stream_up = st.stream_up;
    if (rc != 0 || d->says == SAYS_NOTHING || (d->now < d->say_at && !anew))
        return rc;
    if (d->says == SAYS_PROOF && d->said == PROOFS_MAX)
        rc = begin_call(d);
    if (rc == 0 && d->says == SAYS_CALL)
        rc = uvcc_link_send_hello(d->link, d->call, CALL_BYTES, false);
    else if (rc == 0)
        rc = uvcc_link_send_hello(d->link, d->proof, PROOF_BYTES, false);
    d->said++;
    d->say_at = d->now + d->say_ns;
    if (d->say_ns < 32 * d->cfg.repeat_ns)
        d->say_ns *= 2;
    return rc;
}

uint64_t uvcc_dialog_deadline(const uvcc_dialog *d) {
    uvcc_link_stats st;
    if (d == NULL || !d->cfg.client)
        return UVCC_NEVER;
    if (d->says != SAYS_NOTHING)
        return d->say_at;
    uvcc_link_get_stats(d->link, &st);
    const bool heard = st.heard_ns != UVCC_NEVER && st.heard_ns > d->opened_at;
    return (heard ? st.heard_ns : d->opened_at) + 1 +
           (uvcc_link_drained(d->link) ? IDLE_NS : SILENCE_NS);
}

int uvcc_dialog_poll_event(uvcc_dialog *d, uvcc_dialog_event *out) {
    if (d == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    *out = (uvcc_dialog_event){0};
    if (d->event_link) {
        out->kind = UVCC_DIALOG_LINK;
        out->old_link = d->old_link;
        d->old_link = NULL;
        d->event_link = false;
        return 1;
    }
    if (!d->event_open)
        return 0;
    out->kind = UVCC_DIALOG_OPEN;
    memcpy(out->id, d->id, 32);
    d->event_open = false;
    return 1;
}

/* ---- messages ---- */

int uvcc_dialog_send(uvcc_dialog *d, const void *bytes, size_t len, uint64_t now) {
    static const uint32_t ids[UVCC_MSG_MAX_CHUNKS] = {1, 2, 3, 4, 5, 6, 7, 8, 9};
    uvcc_link_msg *m;
    if (d == NULL || bytes == NULL || len == 0)
        return UVCC_ERR_USAGE;
    if (!d->open)
        return UVCC_ERR_STATE;
    if (len > UVCC_DIALOG_MESSAGE_BYTES)
        return UVCC_ERR_LIMIT;
    int rc = uvcc_link_msg_new(d->link, UVCC_FRAME_INPUT_BATCH, (uint32_t)len, &m);
    if (rc != 0)
        return rc;
    memcpy(uvcc_link_msg_data(m), bytes, len);
    rc = uvcc_link_send(d->link, m, 0, 0, ids, 0, now);
    if (rc != 0)
        uvcc_link_msg_drop(d->link, m);
    return rc;
}

bool uvcc_dialog_drained(const uvcc_dialog *d) {
    return d != NULL && uvcc_link_drained(d->link);
}

int uvcc_dialog_receive(uvcc_dialog *d, uvcc_dialog_message *out, uint64_t now) {
    uvcc_link_rx rx;
    if (d == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (!d->open || d->event_link)
        return 0;
    while (uvcc_link_poll_message(d->link, &rx) == 1) {
        const int rc = uvcc_link_accept(d->link, rx.token, now);
        if (rc != 0)
            return rc;
        *out = (uvcc_dialog_message){.data = rx.data, .len = rx.len, .token = rx.token};
        if (rx.kind == UVCC_FRAME_INPUT_BATCH && rx.step == 0 && rx.len != 0)
            return 1;
        warn(d, "dialog: a message of another kind");
        (void)uvcc_link_release(d->link, rx.token, now);
    }
    *out = (uvcc_dialog_message){0};
    return 0;
}

int uvcc_dialog_release(uvcc_dialog *d, const uvcc_dialog_message *m, uint64_t now) {
    if (d == NULL || m == NULL)
        return UVCC_ERR_USAGE;
    return uvcc_link_release(d->link, m->token, now);
}

/* ---- its life ---- */

static bool zeros(const uint8_t b[32]) {
    static const uint8_t none[32];
    return memcmp(b, none, sizeof none) == 0;
}

static const char *fault_of(const uvcc_dialog_config *c) {
    if (c->alloc.alloc == NULL || c->alloc.free == NULL || c->random.fill == NULL)
        return "alloc or random has no hook";
    if (c->party >= UVCC_PARTIES)
        return "party is no party's index";
    if (c->suite > UVCCI_SUITE_AES256_GCM)
        return "suite is 0, 1 or 2";
    if (c->repeat_ns > REPEAT_MAX_NS)
        return "repeat_ns is more than an hour";
    if (zeros(c->sid_job))
        return "sid_job is not set";
    if (zeros(c->sign_seed))
        return "sign_seed is not set";
    return zeros(c->peer_key) ? "peer_key is not set" : NULL;
}

/* The seed is kept as the key that it makes; the rest of the configuration as it is. */
int uvcc_dialog_new(uvcc_dialog **out, const uvcc_dialog_config *cfg, uint64_t now) {
    if (out == NULL || cfg == NULL || cfg->size != sizeof *cfg)
        return UVCC_ERR_USAGE;
    const char *fault = fault_of(cfg);
    if (fault != NULL) {
        if (cfg->log.write != NULL)
            cfg->log.write(cfg->log.user, UVCC_LOG_ERROR, fault);
        return UVCC_ERR_CONFIG;
    }
    uvcc_dialog *d = cfg->alloc.alloc(cfg->alloc.user, sizeof *d, UVCC_MEM_SECRET);
    if (d == NULL)
        return UVCC_ERR_NOMEM;
    memset(d, 0, sizeof *d);
    d->cfg = *cfg;
    d->now = now;
    if (d->cfg.suite == 0)
        d->cfg.suite = UVCCI_SUITE_CHACHA20_POLY1305;
    if (d->cfg.repeat_ns == 0)
        d->cfg.repeat_ns = REPEAT_NS;
    uvcci_sign_keypair(d->cfg.sign_seed, d->public_key, d->sign_sk);
    uvcci_wipe(d->cfg.sign_seed, sizeof d->cfg.sign_seed);
    int rc = new_link(d, &d->link);
    if (rc == 0)
        rc = d->cfg.client ? begin_call(d) : new_ephemeral(d, d->ephemeral);
    if (rc != 0) {
        uvcc_dialog_free(d);
        return rc;
    }
    *out = d;
    return 0;
}

void uvcc_dialog_free(uvcc_dialog *d) {
    if (d == NULL)
        return;
    uvcc_link_free(d->old_link);
    uvcc_link_free(d->link);
    const uvcc_allocator al = d->cfg.alloc;
    uvcci_wipe(d, sizeof *d);
    al.free(al.user, d, sizeof *d, UVCC_MEM_SECRET);
}

uvcc_link *uvcc_dialog_link(const uvcc_dialog *d) {
    return d != NULL ? d->link : NULL;
}

uint64_t uvcc_dialog_sid_tag(const uvcc_dialog *d) {
    return d != NULL ? uvcc_dialog_tag_of(d->cfg.sid_job, d->cfg.party, client_key(d)) : 0;
}
