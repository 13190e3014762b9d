/* SPDX-License-Identifier: Apache-2.0 */
/* keys.c - see keys.h. */
#include "keys.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvcc/store.h>

#include "../files.h"
#include "../report.h"

static int bad(const party_config *c, const char *place, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s: %s: %s", c->file, place, why);
}

int keys_identity(const party_config *c, uint8_t seed[32], uint8_t public_key[32]) {
    char path[PARTY_PATH_BYTES], why[UVCC_STORE_TEXT_BYTES];
    uint8_t secret[crypto_sign_SECRETKEYBYTES];
    if (!config_path(c, c->identity, path))
        return bad(c, "identity", "the path is too long");
    if (uvcc_key_read(path, UVCC_KEY_IDENTITY, seed, why, sizeof why) != 0)
        return bad(c, "identity", why);
    (void)crypto_sign_seed_keypair(public_key, secret, seed);
    sodium_memzero(secret, sizeof secret);
    return EXIT_DONE;
}

static bool parse_hex(const char *text, size_t len, uint8_t out[32]) {
    size_t n = 0;
    while (len > 0 && strchr("\r\n \t", text[len - 1]) != NULL)
        len--;
    return len == 64 && sodium_hex2bin(out, 32, text, len, NULL, &n, NULL) == 0 && n == 32 &&
           !sodium_is_zero(out, 32);
}

int keys_public(const party_config *c, const char *place, const char *text, uint8_t out[32]) {
    char path[PARTY_PATH_BYTES], why[PARTY_PATH_BYTES + 200];
    uint8_t *bytes = NULL;
    size_t len = 0;
    if (*text != '@') {
        if (parse_hex(text, strlen(text), out))
            return EXIT_DONE;
        return bad(c, place,
                   "is no public key: give the 64 hexadecimal digits that uvcc keygen printed, or "
                   "\"@FILE\" with them");
    }
    int status = config_path(c, text + 1, path) ? EXIT_DONE : bad(c, place, "the path is too long");
    if (status == EXIT_DONE && access(path, R_OK) != 0) {
        (void)snprintf(why, sizeof why, "%s: %s", path, strerror(errno));
        status = bad(c, place, why);
    } else if (status == EXIT_DONE && file_read(path, EXIT_BAD_INPUT, &bytes, &len) != EXIT_DONE)
        status = EXIT_BAD_INPUT; /* it has said so */
    else if (status == EXIT_DONE && !parse_hex((const char *)bytes, len, out)) {
        (void)snprintf(why, sizeof why,
                       "%s is no public key: its one line is the 64 hexadecimal digits that uvcc "
                       "keygen printed",
                       path);
        status = bad(c, place, why);
    }
    free(bytes);
    return status;
}
