/* SPDX-License-Identifier: Apache-2.0 */
/* Files of shares of weights (tools/party/shares.h): what is written in pieces of any size is read
 * in any ranges, at and across the ends of pieces; a bit that changed anywhere is seen. */
#include "../../tools/party/shares.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

enum { OWNER = 2, TEXT_BYTES = 512, PATH_BYTES = 64 };

typedef struct sharing {
    shares_of of;
    uint8_t seed[UVCC_PARTIES][32];
    char dir[32], path[UVCC_PARTIES][PATH_BYTES];
    int64_t *weight;
} sharing;

static void make_identities(sharing *s) {
    uint8_t secret[crypto_sign_SECRETKEYBYTES];
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        memset(s->seed[p], 7 + (int)p, 32);
        (void)crypto_sign_seed_keypair(s->of.key[p], secret, s->seed[p]);
    }
}

static void put_all(shares_writer *w, const sharing *s) {
    uint64_t at = 0, n = 1;
    for (; at < s->of.words; at += n) {
        n = n * 7 + 1; /* 8, 57, 400 .. */
        n = n < s->of.words - at ? n : s->of.words - at;
        shares_put(w, s->weight + at, n);
    }
}

static void sharing_make(sharing *s, uint64_t words) {
    FILE *to[UVCC_PARTIES];
    *s = (sharing){.of = {.owner = OWNER, .words = words}, .dir = "/tmp/uvcc-shares-XXXXXX"};
    make_identities(s);
    memset(s->of.model, 5, sizeof s->of.model);
    s->weight = malloc(words * sizeof *s->weight + 1);
    assert_non_null(s->weight);
    for (uint64_t i = 0; i < words; i++)
        s->weight[i] = (int64_t)(i * 0x9E3779B97F4A7C15u) >> (i % 60);
    assert_non_null(mkdtemp(s->dir));
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        (void)snprintf(s->path[p], PATH_BYTES, "%s/%u", s->dir, p);
        to[p] = fopen(s->path[p], "wb");
        assert_non_null(to[p]);
    }
    shares_writer *w = shares_begin(to, &s->of, s->seed[OWNER]);
    assert_non_null(w);
    put_all(w, s);
    shares_end(w);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        assert_int_equal(fclose(to[p]), 0);
}

static void sharing_free(sharing *s) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        (void)unlink(s->path[p]);
    assert_int_equal(rmdir(s->dir), 0);
    free(s->weight);
}

/* Both components of a range at every party are what gives the weights. */
static void check_range(const sharing *s, shares_file f[UVCC_PARTIES], uint64_t from,
                        uint64_t count) {
    uint64_t *part[UVCC_PARTIES][2];
    char text[TEXT_BYTES] = "";
    const flag_message m = {text, sizeof text};
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        for (unsigned i = 0; i < 2; i++)
            assert_non_null(part[p][i] = malloc(8 * count + 1));
        if (shares_read(&f[p], from, count, part[p][0], part[p][1], &m) != 0)
            fail_msg("%s", text);
    }
    for (uint64_t i = 0; i < count; i++) {
        assert_int_equal(part[0][0][i] + part[1][0][i] + part[2][0][i],
                         (uint64_t)s->weight[from + i]);
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            assert_int_equal(part[p][1][i], part[(p + 1) % UVCC_PARTIES][0][i]);
    }
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        for (unsigned i = 0; i < 2; i++)
            free(part[p][i]);
}

static void ranges_of(uint64_t words) {
    enum { P = SHARES_PIECE_WORDS };
    static const uint64_t from[] = {0, 1, 7, 8, 513, P - 1, P, P + 1, 2 * P - 3, 2 * P};
    static const uint64_t count[] = {1, 2, 9, 511, 512, 513, P, P + 1, 2 * P + 3};
    sharing s;
    shares_file f[UVCC_PARTIES];
    char text[TEXT_BYTES] = "";
    const flag_message m = {text, sizeof text};
    sharing_make(&s, words);
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        if (shares_open(&f[p], s.path[p], &s.of, p, s.seed[p], &m) != 0)
            fail_msg("%s", text);
    assert_memory_equal(f[0].id, f[1].id, 32);
    assert_memory_equal(f[0].id, f[2].id, 32);
    for (unsigned a = 0; a < sizeof from / sizeof from[0]; a++)
        for (unsigned b = 0; b < sizeof count / sizeof count[0]; b++)
            if (from[a] + count[b] <= words)
                check_range(&s, f, from[a], count[b]);
    check_range(&s, f, 0, words);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        assert_int_equal(shares_check(&f[p], &m), 0);
        shares_close(&f[p]);
    }
    sharing_free(&s);
}

static void test_ranges(void **state) {
    (void)state;
    ranges_of(1);
    ranges_of(SHARES_PIECE_WORDS - 1);
    ranges_of(SHARES_PIECE_WORDS);
    ranges_of(SHARES_PIECE_WORDS + 1);
    ranges_of(2 * SHARES_PIECE_WORDS + 77);
}

static uint8_t *read_file(const char *path, long *len) {
    FILE *from = fopen(path, "rb");
    assert_non_null(from);
    assert_int_equal(fseek(from, 0, SEEK_END), 0);
    *len = ftell(from);
    rewind(from);
    uint8_t *bytes = malloc((size_t)*len);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, (size_t)*len, from), (size_t)*len);
    (void)fclose(from);
    return bytes;
}

static void write_file(const char *path, const uint8_t *bytes, long len) {
    FILE *to = fopen(path, "wb");
    assert_non_null(to);
    assert_int_equal(fwrite(bytes, 1, (size_t)len, to), (size_t)len);
    assert_int_equal(fclose(to), 0);
}

static int opens(const sharing *s, uint8_t p, char text[TEXT_BYTES]) {
    const flag_message m = {text, TEXT_BYTES};
    shares_file f;
    int rc = shares_open(&f, s->path[p], &s->of, p, s->seed[p], &m);
    if (rc == 0)
        rc = shares_check(&f, &m);
    shares_close(&f);
    return rc;
}

/* Every byte of the head, and some of the pieces; pieces that changed places. */
static void test_harm(void **state) {
    (void)state;
    sharing s;
    char text[TEXT_BYTES];
    sharing_make(&s, 2 * SHARES_PIECE_WORDS);
    for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
        long len;
        uint8_t *good = read_file(s.path[p], &len);
        assert_int_equal(opens(&s, p, text), 0);
        write_file(s.path[p], good, len - 1);
        assert_int_equal(opens(&s, p, text), -1);
        good = realloc(good, (size_t)len + 1);
        assert_non_null(good);
        good[len] = 0;
        write_file(s.path[p], good, len + 1);
        assert_int_equal(opens(&s, p, text), -1);
        for (long at = 0; at < len; at += at < SHARES_HEAD_BYTES ? 1 : 104729) {
            good[at] ^= 0x10;
            write_file(s.path[p], good, len);
            assert_int_equal(opens(&s, p, text), -1);
            good[at] ^= 0x10;
        }
        if (len > SHARES_HEAD_BYTES) {
            const size_t piece = ((size_t)len - SHARES_HEAD_BYTES) / 2;
            uint8_t *other = malloc((size_t)len);
            assert_non_null(other);
            memcpy(other, good, SHARES_HEAD_BYTES);
            memcpy(other + SHARES_HEAD_BYTES, good + SHARES_HEAD_BYTES + piece, piece);
            memcpy(other + SHARES_HEAD_BYTES + piece, good + SHARES_HEAD_BYTES, piece);
            write_file(s.path[p], other, len);
            assert_int_equal(opens(&s, p, text), -1);
            free(other);
        }
        write_file(s.path[p], good, len);
        free(good);
    }
    sharing_free(&s);
}

/* Whoever is not meant: another identity, another signer, another model. */
static void test_others(void **state) {
    (void)state;
    sharing s;
    char text[TEXT_BYTES] = "";
    const flag_message m = {text, sizeof text};
    shares_file f;
    sharing_make(&s, 100);
    assert_int_equal(shares_open(&f, s.path[0], &s.of, 0, s.seed[1], &m), -1);
    assert_non_null(strstr(text, "sealed for another identity"));
    shares_close(&f);
    assert_int_equal(shares_open(&f, s.path[1], &s.of, 0, s.seed[0], &m), -1);
    assert_non_null(strstr(text, "is of party 1, and this is party 0"));
    shares_close(&f);
    shares_of of = s.of;
    of.owner = 1;
    assert_int_equal(shares_open(&f, s.path[0], &of, 0, s.seed[0], &m), -1);
    assert_non_null(strstr(text, "was made by party 2, and job.run.weights_owner is 1"));
    shares_close(&f);
    of = s.of;
    of.model[31] ^= 1;
    assert_int_equal(shares_open(&f, s.path[0], &of, 0, s.seed[0], &m), -1);
    assert_non_null(strstr(text, "is of another model"));
    shares_close(&f);
    of = s.of;
    of.words--;
    assert_int_equal(shares_open(&f, s.path[0], &of, 0, s.seed[0], &m), -1);
    assert_non_null(strstr(text, "is of another model"));
    shares_close(&f);
    of = s.of;
    of.key[1][3] ^= 1;
    assert_int_equal(shares_open(&f, s.path[0], &of, 0, s.seed[0], &m), -1);
    assert_non_null(strstr(text, "was made for other parties"));
    shares_close(&f);
    sharing_free(&s);
}

/* What becomes of a file while a service has it open: cut, it is an error with words; put back, it
 * is read again; another one under its name is another file. */
static void test_open_while_changed(void **state) {
    (void)state;
    sharing s;
    char text[TEXT_BYTES] = "";
    const flag_message m = {text, sizeof text};
    shares_file f;
    long len;
    uint64_t lo, hi;
    sharing_make(&s, 2 * SHARES_PIECE_WORDS);
    const uint8_t p = OWNER;
    uint8_t *good = read_file(s.path[p], &len);
    assert_int_equal(shares_open(&f, s.path[p], &s.of, p, s.seed[p], &m), 0);
    assert_int_equal(shares_read(&f, 0, 1, &lo, &hi, &m), 0);
    for (long cut = 0; cut < len; cut += len / 3) {
        assert_int_equal(truncate(s.path[p], cut), 0);
        assert_int_equal(shares_check(&f, &m), -1);
        assert_non_null(strstr(text, "is damaged"));
        assert_int_equal(shares_read(&f, SHARES_PIECE_WORDS, 1, &lo, &hi, &m), -1);
    }
    write_file(s.path[p], good, len);
    assert_int_equal(shares_read(&f, 0, 1, &lo, &hi, &m), 0);
    good[SHARES_HEAD_BYTES + 5] ^= 1; /* written over: of the piece that was read last it shows once
                                         that is not kept any more */
    write_file(s.path[p], good, len);
    assert_int_equal(shares_read(&f, 1, 1, &lo, &hi, &m), 0);
    shares_forget(&f);
    for (size_t i = 0; i < SHARES_PIECE_WORDS; i++)
        assert_true(f.piece[i] == 0);
    assert_int_equal(shares_read(&f, 1, 1, &lo, &hi, &m), -1);
    good[SHARES_HEAD_BYTES + 5] ^= 1;
    write_file(s.path[p], good, len);
    assert_int_equal(shares_check(&f, &m), 0);
    assert_int_equal(unlink(s.path[p]), 0);
    write_file(s.path[p], good, SHARES_HEAD_BYTES);
    assert_int_equal(shares_check(&f, &m), 0);
    shares_close(&f);
    free(good);
    sharing_free(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranges),
        cmocka_unit_test(test_harm),
        cmocka_unit_test(test_others),
        cmocka_unit_test(test_open_while_changed),
    };
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
