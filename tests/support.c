/* SPDX-License-Identifier: Apache-2.0 */
/* support.c - see support.h: JSON vectors, hex, random numbers by a seed, an allocator that counts,
 * limits and fails, memory that ends at a page that must not be touched. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "support.h"

#include <dirent.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

json_t *test_load_json(const char *path) {
    json_error_t err;
    json_t *j = json_load_file(path, 0, &err);
    if (j == NULL)
        fail_msg("%s:%d: %s", path, err.line, err.text);
    return j;
}

static const json_t *member(const json_t *o, const char *key) {
    const json_t *v = json_object_get(o, key);
    if (v == NULL)
        fail_msg("vector lacks member %s", key);
    return v;
}

const char *test_str(const json_t *o, const char *key) {
    return json_string_value(member(o, key));
}
uint64_t test_u64(const json_t *o, const char *key) {
    return (uint64_t)json_integer_value(member(o, key));
}
uint64_t test_hex64(const char *hex) {
    return strtoull(hex, NULL, 16);
}

uint32_t test_tensor(uvcc_program *p, const char *name, uint32_t rows, uint32_t cols, uint8_t bits,
                     uint8_t scale, uint8_t lifetime) {
    const uvcc_tensor_desc d = {.name = name,
                                .rows = rows,
                                .cols = cols,
                                .bits = bits,
                                .scale = scale,
                                .lifetime = lifetime,
                                .in_buffer_of = UVCC_NO_TENSOR};
    const int rc = uvcc_program_tensor(p, &d);
    assert_true(rc >= 0);
    return (uint32_t)rc;
}

static int nibble(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    fail_msg("bad hex digit %c", c);
    return 0;
}

size_t test_hex(const char *hex, uint8_t **out) {
    size_t n = strlen(hex) / 2;
    *out = malloc(n + 1);
    assert_non_null(*out);
    test_hex_n(hex, *out, n);
    return n;
}

void test_hex_n(const char *hex, uint8_t *out, size_t n) {
    assert_int_equal(strlen(hex), 2 * n);
    for (size_t i = 0; i < n; i++)
        out[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
}

uint64_t test_rand(uint64_t *state) {
    uint64_t z = (*state += 0x9E3779B97F4A7C15u);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

void test_rand_bytes(uint64_t *state, void *out, size_t n) {
    uint8_t *p = out;
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)test_rand(state);
}

static void *t_alloc(void *user, size_t bytes, uvcc_mem_class cls) {
    test_alloc *t = user;
    (void)cls;
    t->calls++;
    if (t->fail_at != 0 && --t->fail_at == 0)
        return NULL;
    void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (p == NULL)
        return NULL;
    memset(p, 0xA5, bytes);
    t->live_bytes += bytes;
    t->live_blocks++;
    if (t->live_bytes > t->peak_bytes)
        t->peak_bytes = t->live_bytes;
    return p;
}

static void t_free(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    test_alloc *t = user;
    (void)cls;
    if (p == NULL)
        return;
    assert_true(t->live_bytes >= bytes && t->live_blocks > 0);
    t->live_bytes -= bytes;
    t->live_blocks--;
    if (t->freed != NULL)
        t->freed(t->freed_user, p, bytes);
    memset(p, 0x5A, bytes);
    free(p);
}

uvcc_allocator test_allocator(test_alloc *t) {
    return (uvcc_allocator){.alloc = t_alloc, .free = t_free, .user = t};
}

static int t_random(void *user, void *out, size_t bytes) {
    test_rand_bytes(user, out, bytes);
    return 0;
}
uvcc_random test_random(uint64_t *state) {
    return (uvcc_random){.fill = t_random, .user = state};
}

test_edge test_edge_copy(const void *bytes, size_t n, size_t gap) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (n + gap + page - 1) / page * page;
    test_edge e = {.map_bytes = room + page};
    e.map = mmap(NULL, e.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(e.map != MAP_FAILED);
    assert_int_equal(mprotect((uint8_t *)e.map + room, page, PROT_NONE), 0);
    e.at = (uint8_t *)e.map + room - gap - n;
    memcpy(e.at, bytes, n);
    return e;
}

void test_edge_free(const test_edge *e) {
    assert_int_equal(munmap(e->map, e->map_bytes), 0);
}

void test_remove_all(const char *dir) {
    DIR *d = opendir(dir);
    struct dirent *e;
    while (d != NULL && (e = readdir(d)) != NULL) {
        char path[512];
        struct stat st;
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (lstat(path, &st) == 0 && S_ISDIR(st.st_mode))
            test_remove_all(path);
        else
            (void)unlink(path);
    }
    if (d != NULL)
        (void)closedir(d);
    (void)rmdir(dir);
}

void test_append(void *user, const uint8_t *p, size_t len) {
    test_bytes *b = user;
    if (b->len + len > b->room) {
        b->room = 2 * (b->len + len) + 4096;
        b->p = realloc(b->p, b->room);
        assert_non_null(b->p);
    }
    memcpy(b->p + b->len, p, len);
    b->len += len;
}

void test_bytes_free(test_bytes *b) {
    free(b->p);
    *b = (test_bytes){0};
}
