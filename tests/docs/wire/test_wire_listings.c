/* SPDX-License-Identifier: Apache-2.0 */
/* test_wire_listings.c - the annotated bytes of docs/wire/ are those of the library, both ways;
 * every frame kind, TLV, leaf and record type is there; and the reader of listings lets nothing
 * pass.
 *
 *     test_wire_listings                 the test
 *     test_wire_listings --print FILE    FILE with its blocks of bytes made anew from the values */
#include "listing.h"

#include <dirent.h>
#include <sys/stat.h>
#include <uvcc/audit.h>
#include <uvcc/blv1.h>
#include <uvcc/frame.h>
#include <uvcc/record.h>

enum { FILES_MAX = 32 };

typedef struct document {
    char name[64];
    char *text;
} document;

static document documents[FILES_MAX];
static size_t document_count;

/* ---- reading ---- */

static char *read_text(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return NULL;
    struct stat st;
    assert_int_equal(fstat(fileno(f), &st), 0);
    char *text = malloc((size_t)st.st_size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)st.st_size, f), (size_t)st.st_size);
    text[st.st_size] = '\0';
    fclose(f);
    return text;
}

static int load(void **state) {
    (void)state;
    DIR *d = opendir(UVCC_LISTINGS_DIR);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[512];
        if (e->d_name[0] == '.')
            continue;
        assert_true(document_count < FILES_MAX && strlen(e->d_name) < sizeof documents[0].name);
        snprintf(path, sizeof path, "%s/%s", UVCC_LISTINGS_DIR, e->d_name);
        document *doc = &documents[document_count++];
        snprintf(doc->name, sizeof doc->name, "%.63s", e->d_name);
        doc->text = read_text(path);
        assert_non_null(doc->text);
    }
    closedir(d);
    return 0;
}

static int unload(void **state) {
    (void)state;
    for (size_t i = 0; i < document_count; i++)
        free(documents[i].text);
    return 0;
}

static bool is_index(const document *d) {
    return strcmp(d->name, "README.md") == 0;
}

/* Past the title and the words before the first listing; nothing may be fenced there. */
static const char *first_listing(const char *text, unsigned *line) {
    *line = 1;
    while (*text != '\0' && strncmp(text, "## ", 3) != 0) {
        if (strncmp(text, "```", 3) == 0)
            fail_msg("line %u: a block outside a listing", *line);
        const char *next = strchr(text, '\n');
        if (next == NULL)
            return text + strlen(text);
        text = next + 1;
        (*line)++;
    }
    return text;
}

/* Checks the listing that is `text` from its heading on; what is wrong with it, or "". */
static void check_text(const char *name, const char *text, listing_seen *seen, char why[256]) {
    static listing l;
    const char *at = text;
    unsigned line = 1;
    listing_read(&l, name, &at, &line, false);
    listing_check(&l, seen);
    if (listing_good(&l) && *at != '\0')
        listing_refuse(&l, line, "what follows is no listing");
    memcpy(why, l.why, sizeof l.why);
    listing_free(&l);
}

/* ---- the documents ---- */

static void check_document(const document *d, listing_seen *seen) {
    static listing l;
    unsigned line, count = 0;
    const char *at = first_listing(d->text, &line);
    for (; *at != '\0'; count++) {
        listing_read(&l, d->name, &at, &line, false);
        listing_check(&l, seen);
        if (!listing_good(&l))
            fail_msg("%s (test_wire_listings --print shows what it should be)", l.why);
        listing_free(&l);
    }
    if (count == 0)
        fail_msg("%s: no listing", d->name);
}

/* Every listing holds, and everything that has a code has one. */
static void listings_hold(void **state) {
    static listing_seen seen;
    (void)state;
    memset(&seen, 0, sizeof seen);
    for (size_t i = 0; i < document_count; i++)
        if (!is_index(&documents[i]))
            check_document(&documents[i], &seen);
#define MISSING(what, name)                                                                        \
    if (!(what))                                                                                   \
    fail_msg("no listing of " name)
#define UVCC_KIND(name, code, cls, label) MISSING(seen.kind[code], "the frame kind " #name);
#include <uvcc/kinds.def>
#undef UVCC_KIND
#define UVCC_TLV(name, code) MISSING(seen.tlv[code], "the TLV " #name);
#include <uvcc/tlvs.def>
#undef UVCC_TLV
#define UVCC_LEAF(name, code, bytes, key) MISSING(seen.leaf[code], "the leaf " #name);
#include <uvcc/leaves.def>
#undef UVCC_LEAF
#define UVCC_RECORD(name, code, fields, what) MISSING(seen.record[code], "the log record " #name);
#include <uvcc/records.def>
#undef UVCC_RECORD
    MISSING(seen.hello[1] && seen.hello[2] && seen.hello[3], "HELLO 1, 2 or 3");
    MISSING(seen.sealed[0] && seen.sealed[1], "a sealed data or control frame");
    MISSING(seen.suite[1] && seen.suite[2], "suite 1 or 2");
    MISSING(seen.bundle && seen.job_root && seen.proof, "a bundle, job root or proof");
    MISSING(seen.call, "the call");
    MISSING(seen.dialog[0] && seen.dialog[1] && seen.dialog[2] && seen.dialog[3],
            "a dialog's message");
    MISSING(seen.checkpoint, "a checkpoint");
    MISSING(seen.triple && seen.triple_store, "a triple or a store of them");
}

/* The index links every document, and nothing that is not there. */
static void index_is_whole(void **state) {
    (void)state;
    const char *text = NULL;
    for (size_t i = 0; i < document_count; i++)
        if (is_index(&documents[i]))
            text = documents[i].text;
    assert_non_null(text);
    for (size_t i = 0; i < document_count; i++) {
        char link[sizeof documents->name + 8];
        snprintf(link, sizeof link, "](%.*s)", (int)sizeof documents->name, documents[i].name);
        if (!is_index(&documents[i]) && strstr(text, link) == NULL)
            fail_msg("README.md does not link %s", documents[i].name);
    }
}

/* ---- what is changed is noticed ---- */

/* A listing cut out of its document, so that it can be changed. */
typedef struct cutting {
    char *text;
    size_t len;
    const char *name;
} cutting;

static bool refused(const cutting *c, char why[256]) {
    listing_seen seen = {.bundle = false};
    check_text(c->name, c->text, &seen, why);
    return why[0] != '\0';
}

/* Puts `now` in the place of n bytes at `at`, and expects a refusal; then all is as before. */
static void change(cutting *c, size_t at, size_t n, const char *now, const char *what) {
    char why[256];
    const size_t len = c->len - n + strlen(now);
    char *before = c->text, *text = malloc(len + 1);
    assert_non_null(text);
    memcpy(text, before, at);
    memcpy(text + at, now, strlen(now));
    memcpy(text + at + strlen(now), before + at + n, c->len - at - n + 1);
    c->text = text;
    if (!refused(c, why)) {
        size_t from = at;
        while (from > 0 && before[from - 1] != '\n')
            from--;
        fail_msg("%s: %s passes: %.*s", c->name, what, (int)strcspn(before + from, "\n"),
                 before + from);
    }
    free(text);
    c->text = before;
}

/* Another digit of the same width. */
static const char *other_digit(char c) {
    static char text[2];
    text[0] = c == '0' ? '1' : c == 'f' || c == '9' ? (char)(c - 1) : (char)(c + 1);
    return text;
}

static void change_value_line(cutting *c, size_t at, size_t len) {
    change(c, at, len + 1, "", "a value left out");
    change(c, at, 1, "!", "a value of another name");
    const char last = c->text[at + len - 1];
    if (strchr("0123456789abcdef", last) != NULL && last != '\0')
        change(c, at + len - 1, 1, other_digit(last), "another value");
    else
        change(c, at + len - 1, 1, "", "another value");
}

static void change_bytes_line(cutting *c, size_t at, size_t len) {
    change(c, at, len + 1, "", "a line left out");
    change(c, at + len - 1, 1, "", "a comment cut short");
    change(c, at + len, 0, " ", "a comment with a blank behind it");
    if (c->text[at] == '#') {
        change(c, at + 2, 1, "!", "another title");
        return;
    }
    change(c, at + 3, 1, other_digit(c->text[at + 3]), "another offset");
    change(c, at + 6, 1, other_digit(c->text[at + 6]), "another byte");
    change(c, at + 6, 3, "   ", "a byte left out");
    change(c, at + 57, 1, "!", "a field of another name");
    change(c, at + 53, len - 53, "", "bytes without a comment");
}

/* Every line of a block, changed in every way above. */
static void change_lines(cutting *c) {
    char block = ' ';
    for (size_t at = 0, len; at < c->len; at += len + 1) {
        len = strcspn(c->text + at, "\n");
        if (strncmp(c->text + at, "```", 3) == 0) {
            change(c, at, len + 1, "", "a block without an end");
            block = block == ' ' ? c->text[at + 3] : ' ';
        } else if (block == 'v') {
            change_value_line(c, at, len);
        } else if (block != ' ') {
            change_bytes_line(c, at, len);
        }
    }
    const size_t heading = strcspn(c->text, "\n");
    change(c, 3, 1, "!", "a listing under another name");
    change(c, heading, 0, "\n```\nfree\n```\n", "a block of another kind");
}

static void changes_are_noticed(void **state) {
    (void)state;
    char why[256];
    for (size_t i = 0; i < document_count; i++) {
        unsigned line;
        const char *at = is_index(&documents[i]) ? "" : first_listing(documents[i].text, &line);
        while (*at != '\0') {
            const char *next = strstr(at, "\n## ");
            cutting c = {.len = next != NULL ? (size_t)(next + 1 - at) : strlen(at),
                         .name = documents[i].name};
            c.text = strndup(at, c.len);
            assert_non_null(c.text);
            assert_false(refused(&c, why));
            change_lines(&c);
            at += c.len;
            free(c.text);
        }
    }
}

/* What no listing of ours has. */
static void forms_are_refused(void **state) {
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"## X\n\nA.\n\n```values\ncodec = none\n```\n\n```bytes\n```\n",
         "no codec is called none"},
        {"## X\n\nA.\n\n```values\nkind = ACK\n```\n\n```bytes\n```\n", "codec"},
        {"## X\n\n```values\ncodec = leaf\n```\n\n```bytes\n```\n", "no sentence"},
        {"## X\n\nA.\n\n```bytes\n```\n", "wrong place"},
        {"## X\n\nA.\n\n```values\ncodec = leaf\n```\n", "no block of bytes"},
        {"## X\n\nA.\n\n```values\ncodec=leaf\n```\n\n```bytes\n```\n", "no `name = value`"},
        {"## X\n\nA.\n\n```values\ncodec = leaf\n```\n\n```bytes\n\n```\n", "the offset here is"},
        {"X\n", "begins with"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        listing_seen seen = {.bundle = false};
        char why[256];
        check_text("case", cases[i].text, &seen, why);
        if (strstr(why, cases[i].why) == NULL)
            fail_msg("\"%s\" instead of: %s", why, cases[i].why);
    }
}

/* ---- printing ---- */

/* The document with its blocks of bytes made anew. */
static int print(const char *path) {
    static listing l;
    char *text = read_text(path);
    unsigned line;
    if (text == NULL) {
        fprintf(stderr, "%s cannot be read\n", path);
        return 2;
    }
    const char *at = first_listing(text, &line);
    fwrite(text, 1, (size_t)(at - text), stdout);
    bool good = true;
    while (*at != '\0' && good) {
        listing_seen seen = {.bundle = false};
        const char *from = at;
        listing_read(&l, path, &at, &line, true);
        listing_check(&l, &seen);
        good = listing_good(&l);
        for (unsigned i = 0; i < LISTING_BLOCKS && good; i++) {
            const listing_block *b = &l.block[i];
            if (b->text == NULL)
                continue;
            fwrite(from, 1, (size_t)(b->text - from), stdout);
            fwrite(b->again, 1, b->again_len, stdout);
            from = b->text + b->text_len;
        }
        fwrite(from, 1, (size_t)(at - from), stdout);
        if (!good)
            fprintf(stderr, "%s\n", l.why);
        listing_free(&l);
    }
    free(text);
    return good ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "--print") == 0)
        return print(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(listings_hold),
        cmocka_unit_test(index_is_whole),
        cmocka_unit_test(forms_are_refused),
        cmocka_unit_test(changes_are_noticed),
    };
    return cmocka_run_group_tests(tests, load, unload);
}
