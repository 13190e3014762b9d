/* SPDX-License-Identifier: Apache-2.0 */
/* sort.h - the one sort of the core: in place, without recursion or memory of its own (the C
 * library's qsort may call malloc), in O(n log n) steps whatever the list. */
#ifndef UVCCI_SORT_H
#define UVCCI_SORT_H

#include <stddef.h>

/* Below 0, 0 or above it as *a comes before, is equal to or comes after *b. */
typedef int (*uvcci_compare)(const void *a, const void *b);

/* Sorts `count` elements of `bytes` each, the least first. Not stable: elements that compare equal
 * end in an order that only the list as given decides. */
void uvcci_sort(void *list, size_t count, size_t bytes, uvcci_compare compare);

/* For lists of uint64_t. */
int uvcci_compare_u64(const void *a, const void *b);

#endif
