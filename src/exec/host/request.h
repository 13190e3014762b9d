/* SPDX-License-Identifier: Apache-2.0 */
/* request.h - the bytes of requests and answers (docs/clients.md), for both ends: pieces of a body,
 * each a message of a dialog, sent one by one and put together in any order. */
#ifndef UVCCI_REQUEST_H
#define UVCCI_REQUEST_H

#include <uvcc/request.h>

enum { UVCCI_REQUEST_ASKS = 0, UVCCI_REQUEST_ANSWERS = 1 };
enum {
    UVCCI_PIECE_HEAD = 40,
    UVCCI_REQUEST_SHAPE = 48,
    UVCCI_REQUEST_HEAD = UVCCI_REQUEST_SHAPE + 64,
    UVCCI_ANSWER_HEAD = 16
};
#define UVCCI_PIECE_BYTES (UINT64_C(4) << 20)
#define UVCCI_BODY_MAX    (64 * UVCCI_PIECE_BYTES) /* a bit for each piece */

/* A body that is sent or comes. */
typedef struct uvcci_body {
    uint8_t *bytes;
    uint64_t total;
    uint64_t have; /* coming: bits of pieces */
    uint64_t sent; /* going: bytes */
} uvcci_body;

/* What the head of a piece says. */
typedef struct uvcci_piece {
    uint8_t kind, party;
    uint8_t id[16];
    uint64_t total, offset;
    const uint8_t *bytes;
    size_t len;
} uvcci_piece;

/* Values of a shape, or 0 if it is none. */
uint64_t uvcci_request_values(uint32_t rows, uint32_t cols);
/* What a request has of each of a party's two components, in words: values, keys, their roots. */
typedef struct uvcci_request_part {
    uint64_t values, keys, roots;
} uvcci_request_part;
/* False: there is no such shape. */
bool uvcci_request_part_of(const uvcc_request_shape *s, uvcci_request_part *out);
static inline uint64_t uvcci_request_part_words(const uvcci_request_part *p) {
    return p->values + p->keys + p->roots;
}
uint64_t uvcci_request_bytes(const uvcc_request_shape *s); /* of the body; 0: no such shape */
uint64_t uvcci_answer_bytes(const uvcc_request_shape *s, uvcc_request_status status);
void uvcci_put_shape(const uvcc_request_shape *s, uint8_t *body);
/* False: there is none such. */
bool uvcci_get_shape(uvcc_request_shape *s, const uint8_t *body, uint64_t total);

bool uvcci_piece_read(uvcci_piece *p, const uint8_t *message, size_t len);
/* It is none that uvcci_piece_read() reads, for its version is not this one. */
bool uvcci_piece_of_other_version(const uint8_t *message, size_t len);
/* Sends pieces until the dialog takes no more: 1 all went out, 0 not yet, or an error. */
int uvcci_body_send(uvcci_body *b, uint8_t kind, uint8_t party, const uint8_t id[16],
                    const uvcc_allocator *al, uvcc_dialog *d, uint64_t now);
/* Places a piece in a body of its total; true once the body is whole. */
bool uvcci_body_place(uvcci_body *b, const uvcci_piece *p);
void uvcci_body_free(uvcci_body *b, const uvcc_allocator *al); /* wipes */

/* Of component c (0..2) of a request: what both of its holders have, which is all but roots. */
void uvcci_request_digest(const uint8_t id[16], const uint8_t client_key[32],
                          const uvcc_request_shape *s, uint8_t c, const uint8_t salt[32],
                          const uint8_t *component, uint8_t out[32]);

#endif
