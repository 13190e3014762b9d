/* SPDX-License-Identifier: Apache-2.0 */
/* digest.h - SHA-256, and the digests of the task HASH: each chunk of a tree by itself, then the
 * roots and what is made of them. */
#ifndef UVCCI_GPU_DIGEST_H
#define UVCCI_GPU_DIGEST_H

#include "gpu/arith.h"

enum { TREE_CHUNK = 4096, DIGEST_BYTES = 32 };

typedef struct sha256 {
    uint32_t h[8], block[16]; /* big-endian words of the block so far */
    uint64_t len;
} sha256;

#define SHA256_K                                                                                   \
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,            \
        0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,        \
        0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,        \
        0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,        \
        0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,        \
        0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,        \
        0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,        \
        0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,        \
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,        \
        0xc67178f2

#ifdef __CUDACC__
static __constant__ const uint32_t sha256_k_device[64] = {SHA256_K};
#endif
static const uint32_t sha256_k_host[64] = {SHA256_K};
#ifdef __CUDA_ARCH__
#define SHA256_KEY(i) sha256_k_device[i]
#else
#define SHA256_KEY(i) sha256_k_host[i]
#endif

ON_BOTH void sha256_begin(sha256 *s) {
    const uint32_t h[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                           0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (unsigned i = 0; i < 8; i++)
        s->h[i] = h[i];
    s->len = 0;
}
ON_BOTH uint32_t turn_right(uint32_t x, unsigned n) {
    return x >> n | x << (32 - n);
}

/* What round i takes of the block in w, which it changes: of the state it needs nothing. */
ON_BOTH uint32_t sha256_taken(uint32_t *w, unsigned i) {
    const unsigned k = i & 15;
    if (i >= 16) {
        const uint32_t x = w[(i + 1) & 15], y = w[(i + 14) & 15];
        w[k] += w[(i + 9) & 15] + (turn_right(x, 7) ^ turn_right(x, 18) ^ x >> 3) +
                (turn_right(y, 17) ^ turn_right(y, 19) ^ y >> 10);
    }
    return w[k] + SHA256_KEY(i);
}
ON_BOTH void sha256_round(uint32_t *a, uint32_t taken) {
    const uint32_t e = a[4], s1 = turn_right(e, 6) ^ turn_right(e, 11) ^ turn_right(e, 25);
    const uint32_t t1 = a[7] + taken + ((e & a[5]) ^ (~e & a[6])) + s1;
    const uint32_t s0 = turn_right(a[0], 2) ^ turn_right(a[0], 13) ^ turn_right(a[0], 22);
    const uint32_t t2 = s0 + ((a[0] & a[1]) ^ (a[0] & a[2]) ^ (a[1] & a[2]));
    a[7] = a[6];
    a[6] = a[5];
    a[5] = e;
    a[4] = a[3] + t1;
    a[3] = a[2];
    a[2] = a[1];
    a[1] = a[0];
    a[0] = t1 + t2;
}

/* Takes the block in w, which it changes. */
ON_BOTH void sha256_rounds(uint32_t *h, uint32_t *w) {
    uint32_t a[8];
    for (unsigned i = 0; i < 8; i++)
        a[i] = h[i];
#ifdef __CUDACC__
#pragma unroll 16
#endif
    for (unsigned i = 0; i < 64; i++)
        sha256_round(a, sha256_taken(w, i));
    for (unsigned i = 0; i < 8; i++)
        h[i] += a[i];
}

ON_BOTH_FAR void sha256_compress(uint32_t *h, uint32_t *w) {
    sha256_rounds(h, w);
}

ON_BOTH uint32_t big_endian(uint32_t x) {
    return x >> 24 | (x >> 8 & 0xff00) | (x << 8 & 0xff0000) | x << 24;
}

ON_BOTH void sha256_byte(sha256 *s, uint8_t byte) {
    const unsigned at = (unsigned)(s->len & 63), k = at / 4;
    s->block[k] = (at % 4 == 0 ? 0 : s->block[k]) | (uint32_t)byte << (24 - 8 * (at % 4));
    s->len++;
    if (at == 63)
        sha256_compress(s->h, s->block);
}
/* A big-endian word, where a whole number of them is in. */
ON_BOTH void sha256_word(sha256 *s, uint32_t word) {
    s->block[s->len / 4 & 15] = word;
    s->len += 4;
    if ((s->len & 63) == 0)
        sha256_compress(s->h, s->block);
}
ON_BOTH uint32_t word_at(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
/* Less than a block; gives how much of it was taken. */
ON_BOTH size_t sha256_piece(sha256 *s, const uint8_t *p, size_t len) {
    if ((s->len & 3) != 0 || len < 4) {
        sha256_byte(s, *p);
        return 1;
    }
    sha256_word(s, word_at(p));
    return 4;
}
/* Whole blocks, with the state in registers. */
ON_BOTH_FAR void sha256_blocks(uint32_t *state, const uint8_t *p, size_t blocks) {
    uint32_t h[8], w[16];
    for (unsigned i = 0; i < 8; i++)
        h[i] = state[i];
    for (; blocks != 0; blocks--, p += 64) {
        for (unsigned i = 0; i < 8; i++) {
            const uint64_t x = load64(p + 8 * i);
            w[2 * i] = big_endian((uint32_t)x);
            w[2 * i + 1] = big_endian((uint32_t)(x >> 32));
        }
        sha256_rounds(h, w);
    }
    for (unsigned i = 0; i < 8; i++)
        state[i] = h[i];
}
ON_BOTH_FAR void sha256_add(sha256 *s, const uint8_t *p, size_t len) {
    size_t at = 0;
    while (at != len && (s->len & 63) != 0)
        at += sha256_piece(s, p + at, len - at);
    const size_t blocks = (len - at) / 64;
    sha256_blocks(s->h, p + at, blocks);
    s->len += 64 * blocks;
    for (at += 64 * blocks; at != len;)
        at += sha256_piece(s, p + at, len - at);
}
ON_BOTH void sha256_end(sha256 *s, uint8_t *out) {
    const uint64_t bits = 8 * s->len;
    sha256_byte(s, 0x80);
    while ((s->len & 3) != 0)
        sha256_byte(s, 0);
    while ((s->len & 63) != 56)
        sha256_word(s, 0);
    sha256_word(s, (uint32_t)(bits >> 32));
    sha256_word(s, (uint32_t)bits);
    for (unsigned i = 0; i < DIGEST_BYTES; i++)
        out[i] = (uint8_t)(s->h[i / 4] >> (24 - 8 * (i % 4)));
}

/* --- Items ------------------------------------------------------------------------------------ */

/* An item and where the digests of its chunks are: of all items of a task they stand one behind the
 * other. */
typedef struct digest_item {
    uvcc_hash_item of;
    uint64_t first; /* chunk of the task */
} digest_item;

/* Where digests of chunks go: those before `split`, the others. */
typedef struct digest_places {
    uint8_t *near, *far;
    uint64_t split;
} digest_places;

ON_BOTH uint64_t digest_chunks(const uvcc_hash_item *h) {
    return h->mode == UVCC_HASH_PLAIN ? 0 : (h->len + TREE_CHUNK - 1) / TREE_CHUNK;
}

/* A chunk's bytes. */
typedef struct digest_bytes {
    const uint8_t *at;
    uint32_t len;
} digest_bytes;
ON_BOTH digest_bytes digest_bytes_of(const digest_item *items, uint32_t count, uint64_t chunk) {
    uint32_t i = 0, end = count; /* the last item that begins at `chunk` or before */
    while (end - i > 1) {
        const uint32_t mid = i + (end - i) / 2;
        if (items[mid].first <= chunk)
            i = mid;
        else
            end = mid;
    }
    const size_t at = (size_t)(chunk - items[i].first) * TREE_CHUNK, left = items[i].of.len - at;
    digest_bytes b;
    b.at = items[i].of.data + at;
    b.len = left < TREE_CHUNK ? (uint32_t)left : TREE_CHUNK;
    return b;
}
ON_BOTH void digest_chunk(const digest_item *items, uint32_t count, uint64_t chunk, uint8_t *out) {
    const digest_bytes b = digest_bytes_of(items, count, chunk);
    sha256 s;
    sha256_begin(&s);
    sha256_add(&s, b.at, b.len);
    sha256_end(&s, out);
}

/* What stands before the digests of the chunks. */
enum { TREE_HEAD = 20 };
ON_BOTH void digest_head(uint64_t len, uint8_t *head) {
    const uint8_t label[12] = {'U', 'V', 'C', 'C', '_', 'T', 'R', 'E', 'E', '_', 'V', '1'};
    for (unsigned i = 0; i < 12; i++)
        head[i] = label[i];
    for (unsigned i = 0; i < 8; i++)
        head[12 + i] = (uint8_t)(len >> 8 * i);
}

ON_BOTH void digest_root(const digest_item *item, const uint8_t *chunks, uint8_t *out) {
    uint8_t head[TREE_HEAD];
    sha256 s;
    digest_head(item->of.len, head);
    sha256_begin(&s);
    sha256_add(&s, head, sizeof head);
    sha256_add(&s, chunks + DIGEST_BYTES * item->first, DIGEST_BYTES * digest_chunks(&item->of));
    sha256_end(&s, out);
}

ON_BOTH void hmac_pad(sha256 *s, const uint8_t *key, uint8_t pad) {
    sha256_begin(s);
    for (unsigned i = 0; i < 16; i++)
        sha256_word(s, (i < DIGEST_BYTES / 4 ? word_at(key + 4 * i) : 0) ^ pad * 0x01010101u);
}

/* An item's digest, of `len` bytes: its data or their root. */
ON_BOTH void digest_close(const uvcc_hash_item *h, const uint8_t *data, size_t len) {
    uint8_t root[DIGEST_BYTES];
    sha256 s;
    if (h->mode == UVCC_HASH_HMAC)
        hmac_pad(&s, h->key, 0x36);
    else
        sha256_begin(&s);
    sha256_add(&s, h->prefix, h->prefix_len);
    sha256_add(&s, data, len);
    sha256_end(&s, root);
    if (h->mode == UVCC_HASH_HMAC) {
        hmac_pad(&s, h->key, 0x5c);
        sha256_add(&s, root, DIGEST_BYTES);
        sha256_end(&s, root);
    }
    for (unsigned i = 0; i < DIGEST_BYTES; i++)
        h->out[i] = root[i];
}

/* The item's digest, when those of its chunks are there. */
ON_BOTH void digest_item_end(const digest_item *item, const uint8_t *chunks) {
    const uvcc_hash_item *h = &item->of;
    uint8_t root[DIGEST_BYTES];
    const bool plain = h->mode == UVCC_HASH_PLAIN;
    if (!plain)
        digest_root(item, chunks, root);
    digest_close(h, plain ? h->data : root, plain ? h->len : DIGEST_BYTES);
}

#endif
