/* SPDX-License-Identifier: Apache-2.0 */
/* sort.c - heapsort over elements of any size. */
#include "proto/sort.h"

#include <assert.h>
#include <stdint.h>
#include <string.h>

/* By words: a call of memcpy for each part would cost more than the part. */
static void swap(uint8_t *a, uint8_t *b, size_t bytes) {
    for (; bytes >= 8; a += 8, b += 8, bytes -= 8) {
        uint64_t x, y;
        memcpy(&x, a, 8);
        memcpy(&y, b, 8);
        memcpy(a, &y, 8);
        memcpy(b, &x, 8);
    }
    for (; bytes != 0; a++, b++, bytes--) {
        const uint8_t x = *a;
        *a = *b;
        *b = x;
    }
}

/* Element i of a max-heap of n goes down to its place; those below it are in theirs. It came from
 * the bottom, so its place is sought from there, on the path of the greater children: half as many
 * comparisons (Floyd). */
static void sift_down(uint8_t *list, size_t i, size_t n, size_t bytes, uvcci_compare compare) {
    size_t at = i;
    for (size_t child; (child = 2 * at + 1) < n; at = child)
        if (child + 1 < n && compare(list + child * bytes, list + (child + 1) * bytes) < 0)
            child++;
    while (at != i && compare(list + i * bytes, list + at * bytes) > 0)
        at = (at - 1) / 2;
    for (; at > i; at = (at - 1) / 2) /* those on the path go up by one */
        swap(list + i * bytes, list + at * bytes, bytes);
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
