/* SPDX-License-Identifier: Apache-2.0 */
/* test_keygen.c - `uvcc keygen` as a user runs it: argv[1] is the binary. */
#include "run_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#define IDENTITY "uvcc identity v1\n"
#define PAIR     "uvcc pair secret v1\n"
#define DIGITS   "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
/* Ed25519 public key of the seed 00 01 .. 1f, by another program. */
#define DIGITS_PUBLIC "03a107bff3ce10be1d70dd18e74bc09967e4d6309ba50d5f1ddc8664125531b8"

static unsigned mode_of(const char *path) {
    struct stat st;
    assert_int_equal(lstat(path, &st), 0);
    return (unsigned)(st.st_mode & 07777);
}

static void key_file(const char *path, const char *text) {
    (void)unlink(path);
    write_file(path, text, strlen(text));
    assert_int_equal(chmod(path, 0600), 0);
}

static void makes_identities(void **state) {
    (void)state;
    (void)unlink("a.key");
    (void)unlink("b.key");
    char *a = output_of("keygen --out a.key");
    mode_t old = umask(0777); /* takes nothing from the mode */
    char *b = output_of("keygen --out=b.key");
    umask(old);
    assert_int_equal(mode_of("a.key"), 0600);
    assert_int_equal(mode_of("b.key"), 0600);
    assert_true(strlen(a) == 65 && strspn(a, "0123456789abcdef") == 64 && a[64] == '\n');
    assert_string_not_equal(a, b);
    char *text = read_all("a.key"), *other = read_all("b.key");
    assert_int_equal(strlen(text), strlen(IDENTITY) + 65);
    assert_int_equal(strncmp(text, IDENTITY, strlen(IDENTITY)), 0);
    assert_string_not_equal(text, other);
    char *again = output_of("keygen --public a.key");
    assert_string_equal(a, again);

    /* Never overwritten. */
    refused("keygen --out a.key", "a.key: exists");
    refused("keygen --pair --out a.key", "a.key: exists");
    assert_int_equal(symlink("nowhere.key", "link.key"), 0);
    refused("keygen --out link.key", "link.key: exists");
    assert_int_equal(access("nowhere.key", F_OK), -1);
    char *still = read_all("a.key");
    assert_string_equal(text, still);
    assert_int_equal(unlink("link.key"), 0);
    free(a);
    free(b);
    free(text);
    free(other);
    free(again);
    free(still);

    key_file("c.key", IDENTITY DIGITS "\n");
    char *known = output_of("keygen --public c.key");
    assert_string_equal(known, DIGITS_PUBLIC "\n");
    free(known);
}

static void makes_pair_secrets(void **state) {
    (void)state;
    (void)unlink("pair.key");
    char *out = output_of("keygen --pair --out pair.key");
    assert_string_equal(out, ""); /* a secret is never shown */
    free(out);
    assert_int_equal(mode_of("pair.key"), 0600);
    char *text = read_all("pair.key");
    assert_int_equal(strlen(text), strlen(PAIR) + 65);
    assert_int_equal(strncmp(text, PAIR, strlen(PAIR)), 0);
    free(text);
    refused("keygen --public pair.key", "holds a pair secret; an identity is needed");
}

static void refuses_key_files(void **state) {
    (void)state;
    static const char *const texts[] = {
        "",
        "\n",
        "uvcc",
        IDENTITY,
        IDENTITY "\n",
        IDENTITY DIGITS,
        IDENTITY DIGITS "\n\n",
        IDENTITY DIGITS " \n",
        IDENTITY " " DIGITS "\n",
        IDENTITY DIGITS "00\n",
        IDENTITY DIGITS "\r\n",
        "uvcc identity v2\n" DIGITS "\n",
        "uvcc identity v1\r\n" DIGITS "\n",
        DIGITS "\n",
        IDENTITY "000102030405060708090A0B0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
        IDENTITY "000102030405060708090g0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n",
        IDENTITY "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1\n\n",
        IDENTITY DIGITS DIGITS DIGITS DIGITS "\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        key_file("bad.key", texts[i]);
        refused("keygen --public bad.key", "bad.key: is ");
    }
    key_file("good.key", IDENTITY DIGITS "\n");
    static const unsigned modes[] = {0644, 0640, 0604, 0660, 0606, 0700, 0400, 04600, 01600};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        char part[32];
        assert_int_equal(chmod("good.key", (mode_t)modes[i]), 0);
        snprintf(part, sizeof part, "mode %04o", modes[i]);
        refused("keygen --public good.key", part);
    }
    assert_int_equal(chmod("good.key", 0600), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown("good.key", 1234, (gid_t)-1), 0);
        refused("keygen --public good.key", "another user (1234)");
        assert_int_equal(chown("good.key", 0, (gid_t)-1), 0);
    }
    free(output_of("keygen --public good.key"));
    (void)unlink("to.key");
    assert_int_equal(symlink("good.key", "to.key"), 0);
    refused("keygen --public to.key", "symbolic link");
    assert_int_equal(mkfifo("pipe.key", 0600), 0);
    refused("keygen --public pipe.key", "no regular file");
    refused("keygen --public .", "no regular file");
    refused("keygen --public /dev/null", "no regular file");
    refused("keygen --public none.key", "none.key: is not there");
    refused("keygen --out no/such/place.key", "its directory cannot be opened: No such file");
    refused("keygen --out .", "exists");
}

static void refuses_keygen_options(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"keygen", "--out FILE is missing"},
        {"keygen --pair", "--out FILE is missing"},
        {"keygen --out", "--out needs a value"},
        {"keygen --out=", "--out: the file is empty"},
        {"keygen --public", "--public needs a value"},
        {"keygen --out x.key --out y.key", "--out is given twice"},
        {"keygen --public x.key --out y.key", "--public stands alone"},
        {"keygen --public x.key --pair", "--public stands alone"},
        {"keygen --pairs --out x.key", "no option --pairs"},
        {"keygen --pair=1 --out x.key", "no option --pair=1"},
        {"keygen --outer x.key", "no option --outer"},
        {"keygen x.key", "'x.key' is no option"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
    assert_int_equal(access("x.key", F_OK), -1);
    char *help = output_of("keygen --help");
    assert_non_null(strstr(help, "--pair"));
    free(help);
}

static int leave_files(void **state) {
    static const char *const keys[] = {"a.key",   "b.key",    "c.key",  "pair.key",
                                       "bad.key", "good.key", "to.key", "pipe.key"};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        (void)unlink(keys[i]);
    return leave(state);
}

int main(int argc, char **argv) {
    if (argc != 2 || !find_tool(argv[1]))
        return 2;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(makes_identities),
        cmocka_unit_test(makes_pair_secrets),
        cmocka_unit_test(refuses_key_files),
        cmocka_unit_test(refuses_keygen_options),
    };
    return cmocka_run_group_tests(tests, enter, leave_files);
}
