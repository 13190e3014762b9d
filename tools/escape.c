/* SPDX-License-Identifier: Apache-2.0 */
/* escape.c - see escape.h. */
#include "escape.h"

#include <stdbool.h>
#include <string.h>

static void put_bytes(FILE *to, const uint8_t *bytes, unsigned n) {
    for (unsigned i = 0; i < n; i++)
        (void)fprintf(to, "\\x%02x", bytes[i]);
}

/* Bytes of a character that begins so; 0: none does. */
static unsigned length_of(uint8_t lead) {
    return lead >= 0xC2 && lead <= 0xDF   ? 2
           : lead >= 0xE0 && lead <= 0xEF ? 3
           : lead >= 0xF0 && lead <= 0xF4 ? 4
                                          : 0;
}

/* Not: a form that is longer than it must be, a half of a pair, C1, marks that turn the direction.
 */
static bool passes(const uint8_t *s, unsigned n) {
    static const uint32_t least[5] = {0, 0, 0xA0, 0x800, 0x10000};
    uint32_t c = s[0] & (0x7Fu >> n);
    for (unsigned i = 1; i < n; i++)
        c = c << 6 | (s[i] & 0x3Fu);
    const bool half = c >= 0xD800 && c <= 0xDFFF, mark = c == 0x61C || c == 0x200E || c == 0x200F;
    const bool turns = (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);
    return c >= least[n] && c <= 0x10FFFF && !half && !mark && !turns;
}

/* The character is whole, or the next byte is none of its. */
static void settle(escaper *e, FILE *to) {
    if (e->have == e->need && passes(e->part, e->have))
        (void)fwrite(e->part, 1, e->have, to);
    else
        put_bytes(to, e->part, e->have);
    e->have = 0;
}

static void put(escaper *e, FILE *to, uint8_t b) {
    if (e->have != 0 && (b & 0xC0) == 0x80) {
        e->part[e->have++] = b;
        if (e->have == e->need)
            settle(e, to);
        return;
    }
    escape_end(e, to);
    const bool kept = b != 0 && e->keep != NULL && strchr(e->keep, b) != NULL;
    e->need = length_of(b);
    if ((b >= ' ' && b < 0x7F) || kept)
        (void)fputc(b, to);
    else if (e->need != 0)
        e->part[e->have++] = b;
    else
        put_bytes(to, &b, 1);
}

void escape_put(escaper *e, FILE *to, const char *text, size_t len) {
    for (size_t i = 0; i < len; i++)
        put(e, to, (uint8_t)text[i]);
}

void escape_end(escaper *e, FILE *to) {
    if (e->have != 0)
        settle(e, to);
}
