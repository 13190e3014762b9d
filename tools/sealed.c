/* sealed.c - see sealed.h. */
#include "sealed.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC       "UVCCSEAL"
#define MAGIC_BYTES 8u
#define NONCE_BYTES crypto_aead_xchacha20poly1305_ietf_NPUBBYTES
#define TAG_BYTES   crypto_aead_xchacha20poly1305_ietf_ABYTES
#define SEALED_MOST ((size_t)1 << 40)

static bool write_all(int fd, const uint8_t *bytes, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, bytes, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        bytes += n;
        len -= (size_t)n;
    }
    return true;
}

/* The new name is on the disk once its directory is. */
static bool flush_directory(const char *path) {
    char *dir = strdup(path);
    if (dir == NULL)
        return false;
    char *slash = strrchr(dir, '/');
    if (slash == dir)
        slash[1] = '\0';
    else if (slash != NULL)
        *slash = '\0';
    int fd = open(slash != NULL ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    free(dir);
    bool ok = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0)
        (void)close(fd);
    return ok;
}

int whole_file_write(const char *path, unsigned mode, const void *bytes, size_t len) {
    size_t room = strlen(path) + 32;
    char *draft = malloc(room);
    if (draft == NULL)
        return -1;
    (void)snprintf(draft, room, "%s.%ld.tmp", path, (long)getpid());
    (void)unlink(draft);
    int fd = open(draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
    bool ok = fd >= 0 && write_all(fd, bytes, len) && fsync(fd) == 0;
    ok = fd >= 0 && close(fd) == 0 && ok;
    ok = ok && rename(draft, path) == 0 && flush_directory(path);
    int error = errno;
    if (!ok && fd >= 0)
        (void)unlink(draft);
    free(draft);
    errno = error;
    return ok ? 0 : -1;
}

int whole_file_read(const char *path, size_t most, uint8_t **bytes, size_t *len) {
    struct stat st;
    FILE *f = fopen(path, "rb");
    if (f == NULL)
        return -1;
    int error = 0;
    *bytes = NULL;
    if (fstat(fileno(f), &st) != 0)
        error = errno;
    else if (!S_ISREG(st.st_mode) || st.st_size < 0 || (uintmax_t)st.st_size > most)
        error = EFBIG;
    else if ((*bytes = malloc((size_t)st.st_size + 1)) == NULL)
        error = ENOMEM;
    else if (fread(*bytes, 1, (size_t)st.st_size, f) != (size_t)st.st_size)
        error = EIO;
    (void)fclose(f);
    if (error != 0) {
        free(*bytes);
        *bytes = NULL;
        errno = error;
        return -1;
    }
    *len = (size_t)st.st_size;
    (*bytes)[*len] = 0;
    return 0;
}

int sealed_write(const char *path, const char *label, const uint8_t key[32], const uint8_t *bytes,
                 size_t len) {
    const size_t total = MAGIC_BYTES + NONCE_BYTES + len + TAG_BYTES;
    uint8_t *out = malloc(total), *nonce = out != NULL ? out + MAGIC_BYTES : NULL;
    if (out == NULL)
        return -1;
    memcpy(out, MAGIC, MAGIC_BYTES);
    randombytes_buf(nonce, NONCE_BYTES);
    (void)crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + NONCE_BYTES, NULL, bytes, len,
                                                     (const uint8_t *)label, strlen(label), NULL,
                                                     nonce, key);
    int rc = whole_file_write(path, 0600, out, total);
    int error = errno;
    free(out);
    errno = error;
    return rc;
}

int sealed_read(const char *path, const char *label, const uint8_t key[32], uint8_t **bytes,
                size_t *len) {
    uint8_t *in;
    size_t n;
    const size_t head = MAGIC_BYTES + NONCE_BYTES;
    if (whole_file_read(path, SEALED_MOST, &in, &n) != 0)
        return -1;
    *bytes = n >= head + TAG_BYTES ? malloc(n - head - TAG_BYTES + 1) : NULL;
    bool ok = *bytes != NULL && memcmp(in, MAGIC, MAGIC_BYTES) == 0 &&
              crypto_aead_xchacha20poly1305_ietf_decrypt(*bytes, NULL, NULL, in + head, n - head,
                                                         (const uint8_t *)label, strlen(label),
                                                         in + MAGIC_BYTES, key) == 0;
    free(in);
    if (!ok) {
        free(*bytes);
        *bytes = NULL;
        errno = EBADMSG;
        return -1;
    }
    *len = n - head - TAG_BYTES;
    return 0;
}
