/* SPDX-License-Identifier: Apache-2.0 */
/* listing.c - reading listings, writing them again (listing.h). The form is strict: whatever is not
 * a heading, prose, one block of values and one or two blocks of bytes is refused with its line. */
#include "listing.h"

#include <assert.h>
#include <ctype.h>

enum { HEX_COLUMNS = 16 * 3 - 1, PER_LINE = 16 };

/* ---- errors ---- */

bool listing_good(const listing *l) {
    return l->why[0] == '\0';
}

void listing_refuse(listing *l, unsigned line, const char *format, ...) {
    if (!listing_good(l))
        return;
    int n = snprintf(l->why, sizeof l->why, "%s:%u: ", l->file, line);
    va_list args;
    va_start(args, format);
    vsnprintf(l->why + n, sizeof l->why - (size_t)n, format, args);
    va_end(args);
}

void listing_must(listing *l, bool ok, const char *what) {
    if (!ok)
        listing_refuse(l, l->line, "%s", what);
}

/* ---- lines ---- */

/* A line of the document; next is where the one after it begins. */
typedef struct text_line {
    const char *p, *next;
    size_t len;
} text_line;

static text_line line_at(const char *at) {
    const char *end = strchr(at, '\n');
    size_t len = end != NULL ? (size_t)(end - at) : strlen(at);
    return (text_line){.p = at, .len = len, .next = at + len + (end != NULL)};
}

static bool line_is(const text_line *t, const char *text) {
    return t->len == strlen(text) && memcmp(t->p, text, t->len) == 0;
}

static bool begins(const text_line *t, const char *text) {
    return t->len >= strlen(text) && memcmp(t->p, text, strlen(text)) == 0;
}

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

static unsigned hex_digit(char c) {
    return (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
}

/* ---- reading ---- */

/* `name = value`, a copy of which is cut in two. */
static void read_value(listing *l, const text_line *t, unsigned line, char **words) {
    size_t n = 0;
    while (n < t->len && (islower((unsigned char)t->p[n]) || isdigit((unsigned char)t->p[n]) ||
                          t->p[n] == '_' || t->p[n] == '.'))
        n++;
    if (n == 0 || t->len < n + 4 || memcmp(t->p + n, " = ", 3) != 0 || t->p[n + 3] == ' ' ||
        t->p[t->len - 1] == ' ') {
        listing_refuse(l, line, "no `name = value`");
        return;
    }
    if (l->count == LISTING_VALUES_MAX) {
        listing_refuse(l, line, "too many values");
        return;
    }
    char *at = *words;
    memcpy(at, t->p, t->len);
    at[n] = at[t->len] = '\0';
    l->value[l->count++] = (listing_value){.name = at, .text = at + n + 3, .line = line};
    *words = at + t->len + 1;
}

/* `0010  55 56 46 31   # field: value`: the offset is right, every byte is there, and the comment.
 */
static void read_bytes(listing *l, const text_line *t, unsigned line, listing_block *b) {
    if (begins(t, "# ")) /* a title: it has no bytes */
        return;
    char offset[24];
    snprintf(offset, sizeof offset, "%04zx  ", b->len);
    const size_t hex_at = 6, comment_at = hex_at + HEX_COLUMNS + 2;
    if (!begins(t, offset)) {
        listing_refuse(l, line, "the offset here is %04zx", b->len);
        return;
    }
    if (t->len < comment_at + 3 || memcmp(t->p + comment_at - 2, "  # ", 4) != 0) {
        listing_refuse(l, line, "bytes without `# field` in column %zu", comment_at + 1);
        return;
    }
    size_t at = hex_at;
    for (; at < comment_at - 2 && is_hex(t->p[at]); at += 3) {
        if (!is_hex(t->p[at + 1]) || (t->p[at + 2] != ' ')) {
            listing_refuse(l, line, "no pair of hex digits in column %zu", at + 1);
            return;
        }
        if (b->len == LISTING_BYTES_MAX) {
            listing_refuse(l, line, "too many bytes");
            return;
        }
        b->bytes[b->len++] = (uint8_t)(hex_digit(t->p[at]) << 4 | hex_digit(t->p[at + 1]));
    }
    if (at == hex_at)
        listing_refuse(l, line, "a line without bytes");
    for (; at < comment_at; at++)
        if (t->p[at] != ' ')
            listing_refuse(l, line, "what is in column %zu?", at + 1);
}

/* The lines up to the end of the block; *at stands behind its ``` then. */
static void read_block(listing *l, const char **at, unsigned *line, int which) {
    listing_block *b = which < 0 ? NULL : &l->block[which];
    char *words = NULL;
    if (which < 0) {
        listing_must(l, l->words == NULL, "two blocks of values");
        free(l->words);
        l->words = words = malloc(strlen(*at) + 1);
        assert_non_null(words);
    } else {
        listing_must(l, !b->here && l->words != NULL && (which == 0 || l->block[0].here),
                     "a block of bytes in the wrong place");
        b->here = true;
        b->line = *line;
        b->text = *at;
    }
    while (**at != '\0') {
        text_line t = line_at(*at);
        *at = t.next;
        (*line)++;
        if (line_is(&t, "```"))
            return;
        if (!listing_good(l))
            continue;
        if (which < 0)
            read_value(l, &t, *line - 1, &words);
        else if (!l->printing)
            read_bytes(l, &t, *line - 1, b);
        if (b != NULL)
            b->text_len = (size_t)(t.next - b->text);
    }
    listing_refuse(l, *line, "the block does not end");
}

/* Heading, then prose and blocks in any order in which blocks may stand, up to the next heading. */
void listing_read(listing *l, const char *file, const char **at, unsigned *line, bool printing) {
    memset(l, 0, sizeof *l);
    l->file = file;
    l->line = *line;
    l->printing = printing;
    for (unsigned i = 0; i < LISTING_BLOCKS; i++) {
        l->block[i].again = malloc(LISTING_TEXT_MAX);
        assert_non_null(l->block[i].again);
    }
    text_line t = line_at(*at);
    listing_must(l, begins(&t, "## ") && t.len > 3, "a listing begins with `## `");
    snprintf(l->heading, sizeof l->heading, "%.*s", (int)t.len, t.p);
    *at = t.next;
    (*line)++;
    bool prose = false;
    while (**at != '\0') {
        t = line_at(*at);
        if (begins(&t, "#"))
            break;
        *at = t.next;
        (*line)++;
        if (line_is(&t, "```values"))
            read_block(l, at, line, -1);
        else if (line_is(&t, "```bytes"))
            read_block(l, at, line, LISTING_BYTES);
        else if (line_is(&t, "```opened"))
            read_block(l, at, line, LISTING_OPENED);
        else if (begins(&t, "```"))
            listing_refuse(l, *line - 1, "what block is this?");
        else if (t.len != 0 && l->words == NULL)
            prose = true;
    }
    listing_must(l, prose, "no sentence before the values");
    listing_must(l, l->words != NULL, "no block of values");
    listing_must(l, l->block[LISTING_BYTES].here, "no block of bytes");
}

void listing_free(listing *l) {
    free(l->words);
    for (unsigned i = 0; i < LISTING_BLOCKS; i++)
        free(l->block[i].again);
    memset(l, 0, sizeof *l);
}

/* ---- values ---- */

bool listing_has(const listing *l, const char *name) {
    return listing_good(l) && l->next < l->count && strcmp(l->value[l->next].name, name) == 0;
}

const char *value_word(listing *l, const char *name) {
    if (listing_has(l, name))
        return l->value[l->next++].text;
    unsigned line = l->next < l->count ? l->value[l->next].line : l->line;
    listing_refuse(l, line, "`%s = ...` is what comes next", name);
    return "";
}

static unsigned last_line(const listing *l) {
    return l->next != 0 ? l->value[l->next - 1].line : l->line;
}

/* A number and what follows it; decimal digits, or hexadecimal ones after 0x. */
static uint64_t parse_number(listing *l, const char *text, const char **end) {
    const bool hex = text[0] == '0' && text[1] == 'x';
    const char *p = hex ? text + 2 : text;
    uint64_t v = 0;
    bool ok = hex ? is_hex(*p) : isdigit((unsigned char)*p) != 0;
    for (; ok && (hex ? is_hex(*p) : isdigit((unsigned char)*p) != 0); p++) {
        uint64_t base = hex ? 16 : 10, digit = hex_digit(*p);
        ok = v <= (UINT64_MAX - digit) / base;
        v = v * base + digit;
    }
    if (!ok)
        listing_refuse(l, last_line(l), "no number: %s", text);
    *end = p;
    return ok ? v : 0;
}

uint64_t value_number(listing *l, const char *name, uint64_t most) {
    const char *text = value_word(l, name), *end;
    if (!listing_good(l))
        return 0;
    uint64_t v = parse_number(l, text, &end);
    if (*end != '\0' || v > most)
        listing_refuse(l, last_line(l), "no number up to %llu: %s", (unsigned long long)most, text);
    return listing_good(l) ? v : 0;
}

int64_t value_signed(listing *l, const char *name) {
    const bool negative = listing_has(l, name) && l->value[l->next].text[0] == '-';
    if (!negative)
        return (int64_t)value_number(l, name, INT64_MAX);
    l->value[l->next].text++;
    return -(int64_t)value_number(l, name, INT64_MAX);
}

unsigned value_numbers(listing *l, const char *name, uint64_t *out, unsigned most) {
    const char *text = value_word(l, name);
    unsigned n = 0;
    while (listing_good(l) && n < most) {
        out[n++] = parse_number(l, text, &text);
        if (*text == '\0')
            return n;
        if (*text++ != ' ')
            listing_refuse(l, last_line(l), "numbers with a blank between them");
    }
    listing_refuse(l, last_line(l), "at most %u numbers", most);
    return 0;
}

/* `32 x 0a`: 32 bytes 0a. `32 from 0a`: 0a, 0b, 0c and so on. 0 if it is neither. */
static size_t parse_run(const char *text, uint8_t *out, size_t most) {
    const bool from = strstr(text, " from ") != NULL;
    const char *sign = strstr(text, from ? " from " : " x "), *p = text;
    size_t n = 0;
    for (; isdigit((unsigned char)*p) && n <= most; p++)
        n = 10 * n + hex_digit(*p);
    if (p == text || p != sign || n > most)
        return 0;
    p += strlen(from ? " from " : " x ");
    if (!is_hex(p[0]) || !is_hex(p[1]) || p[2] != '\0')
        return 0;
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)((hex_digit(p[0]) << 4 | hex_digit(p[1])) + (from ? i : 0));
    return n;
}

size_t value_bytes(listing *l, const char *name, uint8_t *out, size_t most) {
    const char *text = value_word(l, name);
    if (!listing_good(l) || strcmp(text, "-") == 0)
        return 0;
    size_t n = 0;
    if (strchr(text, ' ') != NULL) {
        n = parse_run(text, out, most);
    } else if (strlen(text) <= 2 * most) {
        for (; is_hex(text[2 * n]) && is_hex(text[2 * n + 1]); n++)
            out[n] = (uint8_t)(hex_digit(text[2 * n]) << 4 | hex_digit(text[2 * n + 1]));
        n = text[2 * n] == '\0' ? n : 0;
    }
    if (n == 0)
        listing_refuse(l, last_line(l),
                       "no bytes (`0a0b`, `32 x 0a`, `32 from 0a`, `-`), or over %zu: %s", most,
                       text);
    return n;
}

void value_exactly(listing *l, const char *name, uint8_t *out, size_t n) {
    memset(out, 0, n);
    if (value_bytes(l, name, out, n) != n)
        listing_refuse(l, last_line(l), "%s has %zu bytes", name, n);
}

uint8_t value_name(listing *l, const char *name, const char *(*name_of)(uint8_t)) {
    const char *text = value_word(l, name);
    for (unsigned code = 0; listing_good(l) && code <= UINT8_MAX; code++) {
        const char *known = name_of((uint8_t)code);
        if (known != NULL && strcmp(known, text) == 0)
            return (uint8_t)code;
    }
    listing_refuse(l, last_line(l), "nothing is called %s", text);
    return 0;
}

/* ---- bytes and fields ---- */

static void append(listing *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(listing *l, const char *format, ...) {
    listing_block *b = &l->block[l->into];
    const size_t room = LISTING_TEXT_MAX - b->again_len;
    va_list args;
    va_start(args, format);
    int n = vsnprintf(b->again + b->again_len, room, format, args);
    va_end(args);
    assert_true(n >= 0 && (size_t)n < room);
    b->again_len += (size_t)n;
}

void listing_made(listing *l, unsigned block, const uint8_t *bytes, size_t len) {
    listing_block *b = &l->block[block];
    l->into = block;
    if (!listing_good(l))
        return;
    if (l->printing) {
        assert_true(len <= sizeof b->bytes);
        b->here = true;
        b->len = len;
        memcpy(b->bytes, bytes, len);
        return;
    }
    if (!b->here || b->len != len) {
        listing_refuse(l, b->here ? b->line : l->line, "the library makes %zu bytes of the values",
                       len);
        return;
    }
    for (size_t i = 0; i < len; i++)
        if (b->bytes[i] != bytes[i]) {
            listing_refuse(l, b->line, "at %04zx the library makes %02x of the values", i,
                           bytes[i]);
            return;
        }
}

const uint8_t *field_peek(listing *l, size_t n) {
    static const uint8_t zeros[LISTING_BYTES_MAX];
    listing_block *b = &l->block[l->into];
    if (listing_good(l) && n <= b->len - b->at)
        return b->bytes + b->at;
    listing_must(l, false, "the bytes end before the fields do");
    assert_true(n <= sizeof zeros);
    return zeros;
}

/* The next n bytes as lines of 16, the first with `comment`, the others with the field's name. */
static void put_lines(listing *l, const char *name, size_t n, const char *comment) {
    listing_block *b = &l->block[l->into];
    for (size_t from = 0; from < n; from += PER_LINE) {
        const size_t here = n - from < PER_LINE ? n - from : PER_LINE;
        append(l, "%04zx ", b->at);
        for (size_t i = 0; i < PER_LINE; i++)
            if (i < here)
                append(l, " %02x", b->bytes[b->at + i]);
            else
                append(l, "   ");
        if (from == 0)
            append(l, "  # %s: %s\n", name, comment);
        else
            append(l, "  #   %s, from byte %zu\n", name, from);
        b->at += here;
    }
}

static void put_number(listing *l, const char *name, unsigned width, uint64_t value, bool code,
                       const char *what) {
    const uint8_t *p = field_peek(l, width);
    uint64_t here = 0;
    for (unsigned i = 0; i < width; i++)
        here |= (uint64_t)p[i] << (8 * i);
    if (here != value)
        listing_refuse(l, l->block[l->into].line, "%s at %04zx is %llu to the library", name,
                       l->block[l->into].at, (unsigned long long)value);
    if (!listing_good(l))
        return;
    char text[160];
    const char *comma = what[0] != '\0' ? ", " : "";
    if (code)
        snprintf(text, sizeof text, "0x%0*llx%s%s", (int)(2 * width), (unsigned long long)value,
                 comma, what);
    else
        snprintf(text, sizeof text, "%llu%s%s", (unsigned long long)value, comma, what);
    put_lines(l, name, width, text);
}

void field_number(listing *l, const char *name, unsigned width, uint64_t value, const char *what) {
    put_number(l, name, width, value, false, what);
}

void field_code(listing *l, const char *name, unsigned width, uint64_t value, const char *what) {
    put_number(l, name, width, value, true, what);
}

void field_varint(listing *l, const char *name, uint64_t value, const char *what) {
    const listing_block *b = &l->block[l->into];
    uint64_t here = 0;
    unsigned n = 0;
    for (bool more = true; more && n < 10 && b->at + n < b->len; n++) {
        here |= (uint64_t)(b->bytes[b->at + n] & 0x7F) << (7 * n);
        more = (b->bytes[b->at + n] & 0x80) != 0;
    }
    (void)field_peek(l, n == 0 ? 1 : n);
    if (here != value)
        listing_refuse(l, b->line, "%s at %04zx is %llu to the library", name, b->at,
                       (unsigned long long)value);
    if (listing_good(l))
        put_lines(l, name, n, what);
}

void field_bytes(listing *l, const char *name, const uint8_t *bytes, size_t n, const char *what) {
    const uint8_t *here = field_peek(l, n);
    if (n == 0 || !listing_good(l))
        return;
    if (memcmp(here, bytes, n) != 0) {
        listing_refuse(l, l->block[l->into].line, "%s at %04zx is something else to the library",
                       name, l->block[l->into].at);
        return;
    }
    bool same = n > 1, ascending = n > 2;
    for (size_t i = 1; i < n; i++) {
        same = same && bytes[i] == bytes[0];
        ascending = ascending && bytes[i] == (uint8_t)(bytes[0] + i);
    }
    char text[160];
    const char *comma = what[0] != '\0' ? ", " : "";
    if (same || ascending)
        snprintf(text, sizeof text, "%zu %s %02x%s%s", n, same ? "x" : "from", bytes[0], comma,
                 what);
    else if (what[0] != '\0')
        snprintf(text, sizeof text, "%s", what);
    else
        snprintf(text, sizeof text, "%zu byte%s", n, n == 1 ? "" : "s");
    put_lines(l, name, n, text);
}

void field_text(listing *l, const char *name, const char *text, size_t n) {
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%.*s\"", (int)n, text);
    field_bytes(l, name, (const uint8_t *)text, n, quoted);
}

void field_title(listing *l, const char *format, ...) {
    char text[128];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (listing_good(l))
        append(l, "# %s\n", text);
}

/* ---- the end ---- */

/* The first line of the block that is not as the codec writes it. */
static void compare_text(listing *l, const listing_block *b) {
    const char *have = b->text, *want = b->again;
    const char *have_end = b->text + b->text_len;
    for (unsigned line = b->line; have < have_end || *want != '\0'; line++) {
        text_line h = line_at(have), w = line_at(want);
        const bool over = have >= have_end;
        if (over || h.len != w.len || memcmp(h.p, w.p, h.len) != 0) {
            listing_refuse(l, line, "this line is to be\n%.*s", (int)w.len, w.p);
            return;
        }
        have = h.next;
        want = w.next;
    }
}

void listing_end(listing *l) {
    if (listing_good(l) && l->next < l->count)
        listing_refuse(l, l->value[l->next].line, "nothing takes this value");
    const size_t n = strlen(l->subject);
    const char *heading = l->heading + strlen("## ");
    if (listing_good(l) && (strncmp(heading, l->subject, n) != 0 ||
                            (heading[n] != '\0' && heading[n] != ':' && heading[n] != ',')))
        listing_refuse(l, l->line, "this is %s, says the codec", l->subject);
    for (unsigned i = 0; i < LISTING_BLOCKS && listing_good(l); i++) {
        const listing_block *b = &l->block[i];
        b->again[b->again_len] = '\0';
        if (b->here && b->len == 0)
            listing_refuse(l, b->line, "a block without bytes");
        else if (b->at != b->len)
            listing_refuse(l, b->line, "the bytes from %04zx on have no field", b->at);
        else if (b->here && !l->printing)
            compare_text(l, b);
    }
}

static const struct {
    const char *name;
    void (*check)(listing *l, listing_seen *seen);
} codecs[] = {
    {"frame", codec_frame},   {"batch", codec_batch},
    {"hello", codec_hello},   {"leaf", codec_leaf},
    {"bundle", codec_bundle}, {"job root", codec_job_root},
    {"proof", codec_proof},   {"checkpoint", codec_checkpoint},
    {"log", codec_log},       {"call", codec_call},
    {"triple", codec_triple}, {"triple store", codec_triple_store},
    {"dialog", codec_dialog},
};

void listing_check(listing *l, listing_seen *seen) {
    const char *name = value_word(l, "codec");
    bool found = false;
    for (size_t i = 0; i < sizeof codecs / sizeof codecs[0] && listing_good(l); i++)
        if (strcmp(codecs[i].name, name) == 0) {
            found = true;
            codecs[i].check(l, seen);
        }
    if (!found)
        listing_refuse(l, last_line(l), "no codec is called %s", name);
    listing_end(l);
}
