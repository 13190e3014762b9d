/* SPDX-License-Identifier: Apache-2.0 */
/* shares.h - a party's shares of a model's weights in a file, as the weights' owner split them
 * once. Format: docs/files.md, "Shares of weights".
 *
 * x = component 0 + component 1 + component 2 mod 2^64, and party p has components p and p + 1. Of
 * owner o component o and component o + 2 follow from seeds, so that component o + 1 is what is
 * missing to the weights: parties o and o + 1 have it in their files, 8 bytes a weight, and party
 * o + 2, of whom both components follow from seeds, has none.
 *
 * A file is for the holder of one identity alone, and signed by the owner's. */
#ifndef UVCC_TOOLS_PARTY_SHARES_H
#define UVCC_TOOLS_PARTY_SHARES_H

#include <stdint.h>
#include <stdio.h>
#include <uvcc/types.h>

#include "../flags.h"

enum { SHARES_HEAD_BYTES = 336, SHARES_PIECE_WORDS = 65536 };

/* What a sharing is of: the same at whoever splits and whoever reads. */
typedef struct shares_of {
    uint8_t owner;                 /* the party that splits */
    uint8_t key[UVCC_PARTIES][32]; /* the parties' identities */
    uint8_t model[32];             /* a hash of all that the weights and their order follow from */
    uint64_t words;                /* weights */
} shares_of;

/* ---- the owner's side ---- */

typedef struct shares_writer shares_writer;
/* Begins the files of the three parties; seed: of the owner's identity. NULL: out of memory, or a
 * key of `of` is none. */
shares_writer *shares_begin(FILE *const to[UVCC_PARTIES], const shares_of *of,
                            const uint8_t seed[32]);
/* The next weights, in pieces of any size, `of->words` in all. Errors of a file show in
 * atomic_file_finish(). */
void shares_put(shares_writer *w, const int64_t *v, uint64_t count);
/* The last piece; frees it and wipes what it knew. */
void shares_end(shares_writer *w);

/* ---- a party's side ---- */

typedef struct shares_file {
    const char *path; /* the caller's; NULL: no file */
    int fd;           /* negative: it is not open */
    uint64_t len;     /* bytes, when it was opened */
    uint8_t id[32];   /* of the sharing: the same in its three files, and in no others */
    uint64_t words;
    bool sealed[2];      /* of component p and p + 1: it stands in the file */
    uint8_t seed[2][32]; /* of one that does not */
    uint8_t key[32];     /* of the pieces */
    uint8_t head[32];    /* hash of the head, which all pieces are sealed with */
    uint64_t *piece;     /* the piece that was opened last, `at`; UINT64_MAX: none */
    uint64_t at;
    uint8_t *sealed_piece; /* as it stands in the file */
} shares_file;

/* Opens a file of this party, whose identity has this seed, and looks at its head: 0, or -1 and a
 * line that names the file, says what it is of instead, and what to do. */
int shares_open(shares_file *out, const char *path, const shares_of *of, uint8_t party,
                const uint8_t seed[32], const flag_message *m);
/* Both components of `count` weights from number `from` on. 0, or -1 and a line: a piece is
 * damaged, or the file was cut since it was opened. */
int shares_read(shares_file *f, uint64_t from, uint64_t count, uint64_t *lo, uint64_t *hi,
                const flag_message *m);
/* The id of the sharing that a file says it is of; false: it says none. */
bool shares_name(const char *path, uint8_t id[32]);
/* Every piece opens: as shares_read(). */
int shares_check(shares_file *f, const flag_message *m);
/* The piece that was opened last is not kept: what is read next is read from the file. */
void shares_forget(shares_file *f);
void shares_close(shares_file *f);

#endif
