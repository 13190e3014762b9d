/* SPDX-License-Identifier: Apache-2.0 */
/* keyfile.c - see <uvcc/store.h>. Secrets pass no buffer that is not wiped. */
#include "keyfile.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <uvcc/host.h>

#define KEY_BYTES  32u
#define HEX_BYTES  64u
#define TEXT_BYTES 128u
#define KINDS      3u

static const char *const headers[KINDS] = {
    [UVCC_KEY_IDENTITY] = "uvcc identity v1\n",
    [UVCC_KEY_PAIR] = "uvcc pair secret v1\n",
    [UVCC_KEY_STORAGE] = "uvcc storage key v1\n",
};
static const char *const names[KINDS] = {
    [UVCC_KEY_IDENTITY] = "an identity",
    [UVCC_KEY_PAIR] = "a pair secret",
    [UVCC_KEY_STORAGE] = "a storage key",
};

static int nibble(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_hex(const char *text, uint8_t out[KEY_BYTES]) {
    int bad = 0;
    for (unsigned i = 0; i < KEY_BYTES; i++) {
        const int high = nibble(text[2 * i]), low = nibble(text[2 * i + 1]);
        bad |= high | low;
        out[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
    }
    return bad >= 0;
}

static bool begins(const char *text, size_t len, const char *with) {
    const size_t n = strlen(with);
    return len >= n && memcmp(text, with, n) == 0;
}

static int parse(const uvcci_dir *d, const char *name, const char *text, size_t len,
                 uvcc_key_kind kind, uint8_t key[KEY_BYTES], const uvcci_says *to) {
    const size_t head = strlen(headers[kind]);
    for (unsigned other = 0; other < KINDS; other++)
        if (other != (unsigned)kind && begins(text, len, headers[other]))
            return uvcci_say(to, UVCC_ERR_MISMATCH, "%s%s%s: holds %s; %s is needed here",
                             UVCCI_PATH(d, name), names[other], names[kind]);
    if (!begins(text, len, headers[kind]))
        return uvcci_say(to, UVCC_ERR_MISMATCH,
                         "%s%s%s: is no key file: its first line is not '%.*s'; name the one that "
                         "uvcc keygen made, or put it back from a copy",
                         UVCCI_PATH(d, name), (int)head - 1, headers[kind]);
    if (len == head + HEX_BYTES + 1 && text[len - 1] == '\n' && parse_hex(text + head, key))
        return 0;
    sodium_memzero(key, KEY_BYTES);
    return uvcci_say(to, UVCC_ERR_AUTH,
                     "%s%s%s: is damaged: its second and last line must be 64 digits from 0-9 and "
                     "a-f; put it back from a copy",
                     UVCCI_PATH(d, name));
}

int uvcci_key_read_at(const uvcci_dir *d, const char *name, uvcc_key_kind kind,
                      uint8_t key[KEY_BYTES], const uvcci_says *to) {
    char text[TEXT_BYTES];
    size_t len;
    int rc = uvcci_file_read_some(d, name, true, (uint8_t *)text, sizeof text, &len, to);
    if (rc == 0)
        rc = parse(d, name, text, len, kind, key, to);
    sodium_memzero(text, sizeof text);
    return rc;
}

static int write_at(const uvcci_dir *d, const char *name, uvcc_key_kind kind,
                    const uint8_t key[KEY_BYTES], const uvcci_says *to) {
    char text[TEXT_BYTES];
    const size_t head = strlen(headers[kind]);
    memcpy(text, headers[kind], head);
    (void)sodium_bin2hex(text + head, HEX_BYTES + 1, key, KEY_BYTES);
    text[head + HEX_BYTES] = '\n';
    const int rc = uvcci_file_write_new(d, name, text, head + HEX_BYTES + 1, to);
    sodium_memzero(text, sizeof text);
    return rc;
}

/* Another process may make it at the same time: then it is the other's. */
int uvcci_key_make_at(const uvcci_dir *d, const char *name, uvcc_key_kind kind,
                      uint8_t key[KEY_BYTES], const uvcc_random *random, const uvcci_says *to) {
    if (uvcci_file_there(d, name))
        return uvcci_key_read_at(d, name, kind, key, to);
    int rc = random->fill(random->user, key, KEY_BYTES);
    if (rc != 0)
        return uvcci_say(to, UVCC_ERR_RANDOM, "%s%s%s: there are no random bytes for a key",
                         UVCCI_PATH(d, name));
    rc = write_at(d, name, kind, key, to);
    if (rc != 0)
        sodium_memzero(key, KEY_BYTES);
    return rc == UVCC_ERR_STATE ? uvcci_key_read_at(d, name, kind, key, to) : rc;
}

/* ---- by path ---- */

enum todo { READ, WRITE, MAKE };

static int by_path(enum todo todo, const char *path, uvcc_key_kind kind, uint8_t *key, char *why,
                   size_t why_cap) {
    const uvcci_says to = {why, why_cap};
    const uvcc_random random = uvcc_host_random();
    char at[UVCCI_PATH_BYTES];
    const char *name;
    uvcci_dir d;
    if (path == NULL || key == NULL || (unsigned)kind >= KINDS)
        return uvcci_say(&to, UVCC_ERR_USAGE, "a key file needs a path, a kind and 32 bytes");
    int rc = uvcci_dir_of(&d, path, at, sizeof at, &name, &to);
    if (rc != 0)
        return rc;
    rc = todo == READ    ? uvcci_key_read_at(&d, name, kind, key, &to)
         : todo == WRITE ? write_at(&d, name, kind, key, &to)
                         : uvcci_key_make_at(&d, name, kind, key, &random, &to);
    uvcci_dir_close(&d);
    return rc;
}

int uvcc_key_read(const char *path, uvcc_key_kind kind, uint8_t key[32], char *why,
                  size_t why_cap) {
    return by_path(READ, path, kind, key, why, why_cap);
}

int uvcc_key_write(const char *path, uvcc_key_kind kind, const uint8_t key[32], char *why,
                   size_t why_cap) {
    uint8_t copy[KEY_BYTES];
    if (key == NULL)
        return by_path(WRITE, path, kind, NULL, why, why_cap);
    memcpy(copy, key, sizeof copy);
    const int rc = by_path(WRITE, path, kind, copy, why, why_cap);
    sodium_memzero(copy, sizeof copy);
    return rc;
}

int uvcc_key_make(const char *path, uvcc_key_kind kind, uint8_t key[32], char *why,
                  size_t why_cap) {
    return by_path(MAKE, path, kind, key, why, why_cap);
}
