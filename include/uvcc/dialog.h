/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/dialog.h - a sealed dialog between a client, who is no party, and one of the parties, sans
 * I/O.
 *
 * Both know each other's Ed25519 public key. The client calls; three messages make keys that only
 * the two have and that nobody has any more once the dialog is over; then either end sends messages
 * of up to UVCC_DIALOG_MESSAGE_BYTES, which arrive once, whole and in the order in which they
 * became whole. A client that vanishes and comes anew, or a party that does, begins a new dialog:
 * what was under way is lost, and the layer above says it again (<uvcc/request.h>).
 *
 * It stands on a link (<uvcc/link.h>), which the host gives to whatever carries bytes:
 *
 *     uvcc_dialog_new(&d, &cfg);
 *     uvcc_net_add_link(net, uvcc_dialog_link(d), &how);  // how: UVCC_DIALOG_ME(cfg.client) ...
 *     ... in the net's hook for the link, and at uvcc_dialog_deadline(d):
 *     uvcc_dialog_turn(d, now);
 *     while (uvcc_dialog_poll_event(d, &event) == 1)
 *         ...;
 *     while (uvcc_dialog_receive(d, &message) == 1)
 *         ... uvcc_dialog_release(d, &message, now);
 *
 * docs/wire/dialog.md has the bytes, docs/clients.md what they promise. */
#ifndef UVCC_DIALOG_H
#define UVCC_DIALOG_H

#include <stdbool.h>
#include <uvcc/link.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A link has party indices for its ends: the client is 1 here and the party 0, whichever it is, so
 * that the client dials. */
#define UVCC_DIALOG_ME(client)   ((uint8_t)((client) ? 1 : 0))
#define UVCC_DIALOG_PEER(client) ((uint8_t)((client) ? 0 : 1))

/** Greatest message. */
#define UVCC_DIALOG_MESSAGE_BYTES UVCC_PART_BYTES

typedef struct uvcc_dialog_config {
    size_t size; /**< sizeof(uvcc_dialog_config) */
    uvcc_allocator alloc;
    uvcc_random random;
    uvcc_logger log;       /**< may be NULL; WARN: what was refused and why, at a limited rate */
    bool client;           /**< this end is the client */
    uint8_t party;         /**< index of the party at the other end, or of this one */
    bool datagram;         /**< over packets */
    uint8_t suite;         /**< client: 1 ChaCha20-Poly1305, 2 AES-256-GCM; 0: 1. Parties take
                                either */
    uint8_t sid_job[32];   /**< names the job; not zeros */
    uint8_t sign_seed[32]; /**< Ed25519 seed of this end's identity */
    uint8_t peer_key[32];  /**< Ed25519 public key of the other end */
    uint64_t tx_bytes, rx_bytes; /**< messages being sent; received and not released. 0: 32 MiB */
    uint64_t repeat_ns;          /**< until a message of the handshake is said again; it doubles, 32
                                      times that at most. 0: 200 ms; an hour at most */
} uvcc_dialog_config;

typedef struct uvcc_dialog uvcc_dialog;

/** Zeros and the size. */
UVCC_API void uvcc_dialog_config_default(uvcc_dialog_config *cfg);
/** UVCC_ERR_CONFIG: cfg->log says which member; UVCC_ERR_RANDOM; UVCC_ERR_NOMEM. */
UVCC_API int uvcc_dialog_new(uvcc_dialog **out, const uvcc_dialog_config *cfg,
                             uint64_t now) UVCC_MUST_USE;
/** Frees it with its link, which no net may have any more, and wipes keys. Links of events LINK
 * that were not polled go too. */
UVCC_API void uvcc_dialog_free(uvcc_dialog *d);
/** The link that carries it now. It stays the dialog's. */
UVCC_API uvcc_link *uvcc_dialog_link(const uvcc_dialog *d);
/** The sid_tag of its frames and calls: of the job, the party and the client, so a party can listen
 * for the clients that it knows. */
UVCC_API uint64_t uvcc_dialog_sid_tag(const uvcc_dialog *d);
UVCC_API uint64_t uvcc_dialog_tag_of(const uint8_t sid_job[32], uint8_t party,
                                     const uint8_t client_key[32]);

/** Takes the handshake on: after anything happened with the link, and at the deadline. 0, or an
 * error of the memory or the random hook, after which it may be called again. */
UVCC_API int uvcc_dialog_turn(uvcc_dialog *d, uint64_t now);
/** When uvcc_dialog_turn() must come at the latest; UVCC_NEVER. The link has a deadline of its own.
 */
UVCC_API uint64_t uvcc_dialog_deadline(const uvcc_dialog *d);

typedef enum uvcc_dialog_event_kind {
    UVCC_DIALOG_OPEN = 1, /**< the other end has proved who it is: messages may be sent. `id` is the
                               dialog's: the same at both ends, and of no other */
    UVCC_DIALOG_LINK = 2, /**< the other end began anew: what was on the way is lost, and another
                               link takes the place of `old_link`, which is to be taken from the net
                               and freed (uvcc_link_free); uvcc_dialog_link() is to be added. OPEN
                               follows */
} uvcc_dialog_event_kind;
typedef struct uvcc_dialog_event {
    uvcc_dialog_event_kind kind;
    uvcc_link *old_link;
    uint8_t id[32];
} uvcc_dialog_event;
/** 1 and the next event, else 0. */
UVCC_API int uvcc_dialog_poll_event(uvcc_dialog *d, uvcc_dialog_event *out);

/** Queues a message, len bytes, which are copied. UVCC_ERR_STATE: it is not open;
 * UVCC_ERR_AGAIN: tx_bytes are on the way, try after a turn; UVCC_ERR_LIMIT: it is longer than
 * UVCC_DIALOG_MESSAGE_BYTES or tx_bytes; UVCC_ERR_USAGE: 0 bytes; UVCC_ERR_NOMEM. */
UVCC_API int uvcc_dialog_send(uvcc_dialog *d, const void *bytes, size_t len, uint64_t now);
/** Nothing of ours is on the way any more. */
UVCC_API bool uvcc_dialog_drained(const uvcc_dialog *d);

typedef struct uvcc_dialog_message {
    const uint8_t *data; /**< 64-byte aligned, until released or the event LINK */
    size_t len;
    uint64_t token;
} uvcc_dialog_message;
/** 1 and the next message, else 0. It counts against rx_bytes until it is released. A message that
 * was handed out is acknowledged. */
UVCC_API int uvcc_dialog_receive(uvcc_dialog *d, uvcc_dialog_message *out, uint64_t now);
UVCC_API int uvcc_dialog_release(uvcc_dialog *d, const uvcc_dialog_message *m, uint64_t now);

#ifdef __cplusplus
}
#endif
#endif
