/* SPDX-License-Identifier: Apache-2.0 */
/* reseal.h - frames of a link opened and sealed again with that link's own keys, so that a target
 * can change what a party says and not only its bytes. In a file of its own: a link's state and a
 * session's use the same names. */
#ifndef UVCC_FUZZ_RESEAL_H
#define UVCC_FUZZ_RESEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uvcc/frame.h>
#include <uvcc/link.h>

typedef struct reseal_seqs {
    uint64_t tx_cum, tx_next; /* of what the link sends */
    uint64_t rx_cum, rx_top;  /* of what came */
} reseal_seqs;
reseal_seqs reseal_seqs_of(const uvcc_link *l);

/* The plaintext of a frame that the link sent: its length, or -1. `out`: msg bytes of the frame. */
ptrdiff_t reseal_open(uvcc_link *l, const uvcc_frame_header *h, const uint8_t *frame, uint8_t *out);
/* Header and plaintext as a frame with the right seal and CRC: its length, or 0 where there is no
 * key. payload_len is set; control frames get msg_len too. */
size_t reseal_seal(uvcc_link *l, uvcc_frame_header h, const uint8_t *plain, uint32_t len,
                   uint8_t *out);

#endif
