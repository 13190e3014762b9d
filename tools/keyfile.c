/* SPDX-License-Identifier: Apache-2.0 */
/* keyfile.c - see keyfile.h. The file is opened once and all checks are made on what was opened, so
 * it cannot be exchanged in between. Secrets pass no buffer that is not wiped. */
#include "keyfile.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEX_BYTES  64u
#define TEXT_BYTES 128u

static const char *const headers[] = {
    [KEYFILE_IDENTITY] = "uvcc identity v1\n",
    [KEYFILE_PAIR] = "uvcc pair secret v1\n",
    [KEYFILE_STORAGE] = "uvcc storage key v1\n",
};
static const char *const names[] = {
    [KEYFILE_IDENTITY] = "an identity",
    [KEYFILE_PAIR] = "a pair secret",
    [KEYFILE_STORAGE] = "a storage key",
};

typedef struct says {
    char *message;
    size_t cap;
} says;

static int fail(const says *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
static int fail(const says *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(m->message, m->cap, format, args);
    va_end(args);
    return -1;
}

/* ---- reading ---- */

static int check_file(int fd, const says *m) {
    struct stat st;
    if (fstat(fd, &st) != 0)
        return fail(m, "cannot be read: %s", strerror(errno));
    if (!S_ISREG(st.st_mode))
        return fail(m, "is no regular file; name a key file");
    if (st.st_uid != geteuid())
        return fail(m, "belongs to another user (%lu); a key file must be your own",
                    (unsigned long)st.st_uid);
    if ((st.st_mode & 07777) != 0600)
        return fail(m,
                    "has mode %04o; a key file must have 0600: chmod 600, if nobody else read it",
                    (unsigned)(st.st_mode & 07777));
    return 0;
}

/* Up to cap bytes, or -1. */
static ptrdiff_t read_some(int fd, char *text, size_t cap) {
    size_t len = 0;
    while (len < cap) {
        ssize_t n = read(fd, text + len, cap - len);
        if (n == 0)
            break;
        if (n > 0)
            len += (size_t)n;
        else if (errno != EINTR)
            return -1;
    }
    return (ptrdiff_t)len;
}

static int nibble(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_hex(const char *text, uint8_t out[32]) {
    int bad = 0;
    for (unsigned i = 0; i < 32; i++) {
        int high = nibble(text[2 * i]), low = nibble(text[2 * i + 1]);
        bad |= high | low;
        out[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
    }
    return bad >= 0;
}

static int parse(const char *text, size_t len, keyfile_kind kind, uint8_t secret[32],
                 const says *m) {
    keyfile_kind other = kind == KEYFILE_IDENTITY ? KEYFILE_PAIR : KEYFILE_IDENTITY;
    size_t head = strlen(headers[kind]), other_head = strlen(headers[other]);
    if (len >= other_head && memcmp(text, headers[other], other_head) == 0)
        return fail(m, "holds %s; %s is needed here", names[other], names[kind]);
    if (len < head || memcmp(text, headers[kind], head) != 0)
        return fail(m, "is no key file: its first line is not '%.*s'", (int)head - 1,
                    headers[kind]);
    if (len != head + HEX_BYTES + 1 || text[len - 1] != '\n' || !parse_hex(text + head, secret)) {
        sodium_memzero(secret, 32);
        return fail(m, "is damaged: its second and last line must be 64 digits from 0-9 and a-f");
    }
    return 0;
}

int keyfile_read(const char *path, keyfile_kind kind, uint8_t secret[32], char *message,
                 size_t message_cap) {
    says m = {message, message_cap};
    /* Without O_NONBLOCK a pipe would keep us waiting before it is refused. */
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 && errno == ELOOP)
        return fail(&m, "is a symbolic link; name the key file itself");
    if (fd < 0)
        return fail(&m, "cannot be opened: %s", strerror(errno));
    int rc = check_file(fd, &m);
    if (rc == 0) {
        char text[TEXT_BYTES];
        ptrdiff_t len = read_some(fd, text, sizeof text);
        rc = len < 0 ? fail(&m, "cannot be read: %s", strerror(errno))
                     : parse(text, (size_t)len, kind, secret, &m);
        sodium_memzero(text, sizeof text);
    }
    (void)close(fd);
    return rc;
}

/* ---- writing ---- */

static bool write_all(int fd, const char *text, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0) {
            text += n;
            len -= (size_t)n;
        }
    }
    return true;
}

int keyfile_write(const char *path, keyfile_kind kind, const uint8_t secret[32], char *message,
                  size_t message_cap) {
    says m = {message, message_cap};
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return fail(&m, "exists; a key is never overwritten, choose another name");
    if (fd < 0)
        return fail(&m, "cannot be made: %s", strerror(errno));

    char text[TEXT_BYTES];
    size_t head = strlen(headers[kind]);
    memcpy(text, headers[kind], head);
    (void)sodium_bin2hex(text + head, HEX_BYTES + 1, secret, 32);
    text[head + HEX_BYTES] = '\n';
    /* The mode once more: a umask may have taken from it. */
    bool done =
        fchmod(fd, 0600) == 0 && write_all(fd, text, head + HEX_BYTES + 1) && fsync(fd) == 0;
    int why = errno;
    sodium_memzero(text, sizeof text);
    if (close(fd) != 0 && done) {
        done = false;
        why = errno;
    }
    if (done)
        return 0;
    (void)unlink(path);
    return fail(&m, "cannot be written: %s", strerror(why));
}
