/* SPDX-License-Identifier: Apache-2.0 */
/* listing.h - annotated bytes of docs/wire/: reading a listing, and holding it against the library.
 *
 * A document is a row of listings. A listing is a heading, prose, a block of values, a block of
 * bytes, and where these are sealed a block of what they open to:
 *
 *     ## OPEN_BATCH: what it is
 *
 *     A sentence.
 *
 *     ```values
 *     codec = frame
 *     name = value
 *     ```
 *
 *     ```bytes
 *     0000  55 56 46 31                                      # magic: "UVF1"
 *     ```
 *
 * Its codec takes the values one by one, in order, makes the bytes with the library, and compares.
 * Then it reads the listing's bytes with the library and says what it read, field by field; from
 * that the block of bytes is written once more, and must be the listing's, letter for letter.
 *
 * Errors stick: the first one is kept, with its line, and what follows has no effect. So a codec
 * reads its values without looking, and asks listing_good() before it uses them. */
#ifndef UVCC_TEST_LISTING_H
#define UVCC_TEST_LISTING_H

#include "support.h"

#include <stdbool.h>

enum {
    LISTING_VALUES_MAX = 200,
    LISTING_BYTES_MAX = 4096,
    LISTING_TEXT_MAX = 65536,
    LISTING_BLOCKS = 2
};
/* The blocks of hex: what goes over the wire, and what its sealed part opens to. */
enum { LISTING_BYTES = 0, LISTING_OPENED = 1 };

/* A line `name = value`; its words stand in listing.words. */
typedef struct listing_value {
    const char *name, *text;
    unsigned line;
} listing_value;

typedef struct listing_block {
    bool here;
    unsigned line;    /* of the first line within it */
    const char *text; /* within the document; ends at text_len */
    size_t text_len;
    uint8_t bytes[LISTING_BYTES_MAX];
    size_t len;
    char *again;          /* the block as the codec writes it */
    size_t again_len, at; /* at: bytes that have their field */
} listing_block;

typedef struct listing {
    const char *file;
    unsigned line;
    char heading[160];
    char subject[64]; /* what the codec found it to be: the heading begins with it */
    char *words;      /* the values' text, cut into names and values */
    listing_value value[LISTING_VALUES_MAX];
    unsigned count, next;
    listing_block block[LISTING_BLOCKS];
    unsigned into; /* the block that fields go to */
    bool printing; /* the blocks of bytes are made, not read */
    char why[256]; /* "": good so far */
} listing;

/* Reads the listing that begins at *at, a line `## `; moves *at and *line behind it. Whatever is
 * wrong with its form is in why; the listing is to be freed in any case. */
void listing_read(listing *l, const char *file, const char **at, unsigned *line, bool printing);
void listing_free(listing *l);
/* Whether all values were taken, all bytes have fields, the blocks are as written again, and the
 * heading fits. */
void listing_end(listing *l);

bool listing_good(const listing *l);
void listing_refuse(listing *l, unsigned line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Refuses if `ok` is not so: what the library returned, or what must hold between values. */
void listing_must(listing *l, bool ok, const char *what);

/* ---- values, in the order in which they stand ---- */

/* Whether the next one has this name; it stays. */
bool listing_has(const listing *l, const char *name);
/* Take the next one, which must have this name. 0, "" or zeros after an error. */
const char *value_word(listing *l, const char *name);
uint64_t value_number(listing *l, const char *name, uint64_t most);
int64_t value_signed(listing *l, const char *name);
/* Numbers between blanks; returns how many. */
unsigned value_numbers(listing *l, const char *name, uint64_t *out, unsigned most);
/* `0a0b0c`; `32 x 0a` for 32 bytes 0a; `3 from 0a` for 0a0b0c; `-` for none. Returns how many. */
size_t value_bytes(listing *l, const char *name, uint8_t *out, size_t most);
void value_exactly(listing *l, const char *name, uint8_t *out, size_t n);
/* The code for which `name_of` gives the word. */
uint8_t value_name(listing *l, const char *name, const char *(*name_of)(uint8_t));

/* ---- bytes ---- */

/* What the library made of the values: must be the block's bytes (printing: they become it). The
 * fields that follow go to this block. */
void listing_made(listing *l, unsigned block, const uint8_t *bytes, size_t len);

/* ---- fields, in the order of their bytes, as the library read them ---- */

/* A number in `width` bytes. `what` (may be "") follows the value. */
void field_number(listing *l, const char *name, unsigned width, uint64_t value, const char *what);
/* The same, shown in hexadecimal. */
void field_code(listing *l, const char *name, unsigned width, uint64_t value, const char *what);
/* The number as a varint; `what` is all that is shown. */
void field_varint(listing *l, const char *name, uint64_t value, const char *what);
/* n bytes; `what` in place of their number if it is not "". */
void field_bytes(listing *l, const char *name, const uint8_t *bytes, size_t n, const char *what);
/* Letters. */
void field_text(listing *l, const char *name, const char *text, size_t n);
/* A line that says what begins here. */
void field_title(listing *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The next n bytes of the block, to be read by the caller; zeros if there are fewer. */
const uint8_t *field_peek(listing *l, size_t n);

/* ---- codecs ---- */

/* What was listed, for the test that nothing is missing. */
typedef struct listing_seen {
    bool kind[256], tlv[256], leaf[256], record[256];
    bool hello[4], sealed[2], suite[3];
    bool bundle, job_root, proof, checkpoint, triple, triple_store, call, dialog[4];
} listing_seen;

/* Finds the listing's codec, runs it, ends the listing. */
void listing_check(listing *l, listing_seen *seen);

/* codec_frames.c */
void codec_frame(listing *l, listing_seen *seen);
void codec_batch(listing *l, listing_seen *seen);
void codec_call(listing *l, listing_seen *seen);
/* codec_hello.c: HELLO frames, a handshake of three in the making. */
void codec_hello(listing *l, listing_seen *seen);
/* codec_dialog.c: the handshake of a client's dialog with a party. */
void codec_dialog(listing *l, listing_seen *seen);
/* codec_audit.c */
void codec_leaf(listing *l, listing_seen *seen);
void codec_bundle(listing *l, listing_seen *seen);
void codec_job_root(listing *l, listing_seen *seen);
void codec_proof(listing *l, listing_seen *seen);
/* codec_files.c */
void codec_checkpoint(listing *l, listing_seen *seen);
void codec_log(listing *l, listing_seen *seen);
void codec_triple(listing *l, listing_seen *seen);
void codec_triple_store(listing *l, listing_seen *seen);

#endif
