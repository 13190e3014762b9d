/* SPDX-License-Identifier: Apache-2.0 */
/* sort.c - heapsort over elements of any size. */
#include "proto/sort.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

static void swap(uint8_t *a, uint8_t *b, size_t bytes) {
    uint8_t part[64];
    for (size_t at = 0, n; at < bytes; at += n) {
        n = bytes - at < sizeof part ? bytes - at : sizeof part;
        memcpy(part, a + at, n);
        memcpy(a + at, b + at, n);
        memcpy(b + at, part, n);
    }
}

/* Element i of a max-heap of n goes down to its place; those below it are in theirs. */
static void sift_down(uint8_t *list, size_t i, size_t n, size_t bytes, uvcci_compare compare) {
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && compare(list + child * bytes, list + (child + 1) * bytes) < 0)
            child++;
        if (compare(list + i * bytes, list + child * bytes) >= 0)
            return;
        swap(list + i * bytes, list + child * bytes, bytes);
    }
}

void uvcci_sort(void *list, size_t count, size_t bytes, uvcci_compare compare) {
    assert(bytes != 0 && count <= SIZE_MAX / bytes);
    for (size_t i = count / 2; i-- > 0;)
        sift_down(list, i, count, bytes, compare);
    for (size_t end = count; end-- > 1;) {
        swap(list, (uint8_t *)list + end * bytes, bytes);
        sift_down(list, 0, end, bytes, compare);
    }
}

int uvcci_compare_u64(const void *a, const void *b) {
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}
