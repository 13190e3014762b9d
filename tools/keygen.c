/* SPDX-License-Identifier: Apache-2.0 */
/* keygen.c - see keygen.h. Secrets come from the operating system, go into a key file and are never
 * shown; the public key of an identity goes to standard output. */
#include "keygen.h"

#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <uvcc/store.h>

#include "report.h"

#define MESSAGE_BYTES UVCC_STORE_TEXT_BYTES
#define PATH_BYTES    4096u

typedef struct keygen_options {
    const char *out, *public_of; /* NULL: not given */
    bool pair, help;
} keygen_options;

static int refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int refuse(const char *format, ...) {
    char text[PATH_BYTES + MESSAGE_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return report_error(EXIT_BAD_INPUT, "%s", text);
}

static void print_help(void) {
    (void)fputs("Usage: uvcc keygen --out FILE           a new identity; prints its public key\n"
                "       uvcc keygen --pair --out FILE    a new secret for a pair of parties\n"
                "       uvcc keygen --public FILE        prints the public key of an identity\n"
                "\n"
                "An identity stays with its party; give its public key to the other two. A pair\n"
                "secret goes to both parties of the pair, over a channel that nobody else can\n"
                "read; every pair needs its own. Key files have mode 0600 and are never\n"
                "overwritten.\n"
                "\n"
                "Options:\n"
                "  --out FILE             the key file to make\n"
                "  --pair                 a secret for a pair of parties, no identity\n"
                "  --public FILE          show the public key of this identity\n"
                "  --help                 show this\n"
                "\n"
                "Exit status: 0 done, 1 the system failed, 2 wrong options or files.\n",
                stdout);
}

/* Takes --name FILE or --name=FILE at argv[*at]. 1: taken, 0: another option, -1: reported. */
static int take_file(const char *name, int argc, char *const *argv, int *at, const char **out) {
    const char *word = argv[*at], *value;
    size_t len = strlen(name);
    if (strncmp(word, name, len) != 0 || (word[len] != '\0' && word[len] != '='))
        return 0;
    if (word[len] == '=') {
        value = word + len + 1;
    } else if (*at + 1 < argc) {
        value = argv[++*at];
    } else {
        (void)refuse("%s needs a value: a file", name);
        return -1;
    }
    if (*value == '\0' || *out != NULL) {
        (void)refuse(*value == '\0' ? "%s: the file is empty; name one" : "%s is given twice",
                     name);
        return -1;
    }
    *out = value;
    return 1;
}

/* 0, or an exit status after reporting. */
static int parse(keygen_options *o, int argc, char *const *argv) {
    for (int i = 0; i < argc; i++) {
        const char *word = argv[i];
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
            o->help = true;
            return 0;
        }
        if (strcmp(word, "--pair") == 0) {
            o->pair = true;
            continue;
        }
        int taken = take_file("--out", argc, argv, &i, &o->out);
        if (taken == 0)
            taken = take_file("--public", argc, argv, &i, &o->public_of);
        if (taken < 0)
            return EXIT_BAD_INPUT;
        if (taken == 0)
            return refuse(strncmp(word, "--", 2) == 0
                              ? "there is no option %s; see uvcc keygen --help"
                              : "'%s' is no option; see uvcc keygen --help",
                          word);
    }
    if (o->public_of != NULL && (o->out != NULL || o->pair))
        return refuse("--public stands alone; it makes no key");
    if (o->public_of == NULL && o->out == NULL)
        return refuse("--out FILE is missing; see uvcc keygen --help");
    return 0;
}

/* The public key of a seed, on standard output. */
static int show_public(const uint8_t seed[32]) {
    uint8_t pk[crypto_sign_PUBLICKEYBYTES], sk[crypto_sign_SECRETKEYBYTES];
    char hex[2 * sizeof pk + 1];
    (void)crypto_sign_seed_keypair(pk, sk, seed);
    sodium_memzero(sk, sizeof sk);
    (void)sodium_bin2hex(hex, sizeof hex, pk, sizeof pk);
    (void)printf("%s\n", hex);
    return report_output(EXIT_FAILED);
}

static int run(const keygen_options *o, uint8_t secret[32]) {
    char why[MESSAGE_BYTES];
    if (o->public_of != NULL) {
        if (uvcc_key_read(o->public_of, UVCC_KEY_IDENTITY, secret, why, sizeof why) != 0)
            return refuse("%s", why);
        return show_public(secret);
    }
    randombytes_buf(secret, 32);
    const uvcc_key_kind kind = o->pair ? UVCC_KEY_PAIR : UVCC_KEY_IDENTITY;
    if (uvcc_key_write(o->out, kind, secret, why, sizeof why) != 0)
        return refuse("--out %s", why);
    return o->pair ? EXIT_DONE : show_public(secret);
}

int keygen_main(int argc, char *const *argv) {
    keygen_options o = {0};
    int status = parse(&o, argc, argv);
    if (status != 0)
        return status;
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    if (sodium_init() < 0) {
        (void)refuse("libsodium could not start: there are no random bytes");
        return EXIT_FAILED;
    }
    uint8_t secret[32];
    status = run(&o, secret);
    sodium_memzero(secret, sizeof secret);
    return status;
}
