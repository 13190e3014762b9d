/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h - two links face to face, which make and take the frames of listings, and the fields
 * that all frames have. */
#ifndef UVCC_TEST_FRAMES_H
#define UVCC_TEST_FRAMES_H

#include "listing.h"

#include "proto/link_state.h"
#include <uvcc/frame.h>

/* Who sends a frame to whom, and when. */
typedef struct scene {
    uint8_t kind, src, dst;
    uint8_t sid_sub[32];
    uint32_t run, step;
    uint8_t suite; /* 0: nothing is sealed */
    uint8_t prk[32];
    uint8_t nonce[24];           /* of sealed control frames */
    uint64_t rx_online, rx_keys; /* what src lets the other send; 0: the default */
    uint32_t datagram_bytes;     /* the greatest packet; 0: the default */
    uint32_t piece;              /* which of a message's frames, from 1; the last one */
} scene;

/* l[0] is the sender's end, l[1] the receiver's. */
typedef struct wire {
    scene s;
    test_alloc mem;
    uvcc_link *l[2];
} wire;

enum { PACKET_MAX = 1500, PIECES_MAX = 4 };
typedef struct packet {
    uint8_t bytes[PACKET_MAX];
    size_t len;
} packet;

/* kind, src, dst, sid_sub, run, step; if they come next, datagram_bytes and piece; suite and prk,
 * and the nonce of a control kind. */
void scene_values(listing *l, scene *s);
/* Datagram links. False if the library does not want them so: the listing is refused then. */
bool wire_new(listing *l, wire *w, const scene *s);
/* Run, step and keys are known, data may flow, both have their first credit. */
bool wire_start(listing *l, wire *w);
void wire_free(wire *w);
/* The one packet that an end sends now; refuses if there is none. */
packet wire_poll(listing *l, wire *w, unsigned end, uint64_t now);
/* Gives an end a packet, which must be taken without complaint. */
void wire_feed(listing *l, wire *w, unsigned end, const uint8_t *bytes, size_t len, uint64_t now);

/* After a frame was made: decodes its header, and gives the fields of it and, where it is sealed,
 * of nonce, ciphertext and tag; the payload's fields go to what was opened then. plain: what the
 * receiver has of this frame, unsealed. Returns its length. */
size_t frame_fields(listing *l, const scene *s, uvcc_frame_header *h, const uint8_t *plain);
/* Opens a sealed control frame's payload. */
void control_open(listing *l, const scene *s, const uint8_t *frame, const uvcc_frame_header *h,
                  uint8_t *plain);

#endif
