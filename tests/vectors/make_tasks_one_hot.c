/* SPDX-License-Identifier: Apache-2.0 */
/* make_tasks_one_hot.c - vectors of one-hot rows by DPF keys (docs/compute.md, section 5): HEAD's
 * keys, the roots of the others, and what all three expand of them. */
#include "make_tasks.h"

#include <stdio.h>
#include <uvcc/task.h>

enum { H = UVCC_HEAD, T = UVCC_TAIL, O = UVCC_OTHER, ALL = 3 };

typedef struct one_hot {
    maker *m;
    const char *variant;
    const uint32_t *keys, *rows; /* counts of the two tasks: those of keys are step times those */
    unsigned n, step;
    uint64_t first;
    unsigned cols;
} one_hot;

static unsigned key_words(unsigned n) {
    return n <= 2 ? 4 : 2 * (n - 2) + 5;
}

static maker_case begin(const one_hot *k, const char *task, unsigned role, const uint32_t *counts) {
    maker_case c = maker_begin(k->m, task, k->variant, maker_roles[role], counts);
    maker_arg(&c, "bits", json_integer(k->n));
    return c;
}

static void make_keys(const one_hot *k) {
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = begin(k, "ONE_HOT_KEYS", r, k->keys);
        if (r == H)
            maker_with(&c, "in[0]", WORDS(1));
        maker_gives(&c, "out[0]", WORDS(r == H ? key_words(k->n) : 2));
        if (r == H)
            maker_gives(&c, "out[1]", WORDS(1));
    }
}

static void make_rows(const one_hot *k) {
    const maker_label head = maker_of("ONE_HOT_KEYS", k->variant, H);
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = begin(k, "ONE_HOT_ROWS", r, k->rows);
        maker_arg(&c, "constant", json_integer((json_int_t)k->first));
        maker_arg(&c, "cols", json_integer(k->cols));
        maker_arg(&c, "step", json_integer(k->step));
        maker_from(&c, "in[0]", head.text, r == H ? "out[1]" : "out[0]");
        if (r != H)
            maker_from(&c, "in[1]", maker_of("ONE_HOT_KEYS", k->variant, r).text, "out[0]");
        maker_gives(&c, "out[0]", WORDS(k->cols));
    }
}

/* A whole block: roots, and rows of numbers that are known, which the checker in Python has soon.
 */
static void large(maker *m) {
    const one_hot k = {m, "large", maker_large, maker_large, 5, 3, 0, 0};
    maker_case c = begin(&k, "ONE_HOT_KEYS", T, k.keys);
    maker_gives(&c, "out[0]", WORDS(2));
    c = begin(&k, "ONE_HOT_ROWS", H, k.rows);
    maker_arg(&c, "constant", json_integer(30));
    maker_arg(&c, "cols", json_integer(2));
    maker_arg(&c, "step", json_integer(k.step));
    maker_with(&c, "in[0]", WORDS(k.step));
    maker_gives(&c, "out[0]", WORDS(2));
}

static void refuse(maker *m) {
    static const struct {
        const char *task, *why;
        unsigned n, first, cols, step;
    } all[] = {{"ONE_HOT_KEYS", "refused, no bits", 0, 0, 0, 0},
               {"ONE_HOT_KEYS", "refused, 33 bits", 33, 0, 0, 0},
               {"ONE_HOT_ROWS", "refused, no bits", 0, 0, 1, 1},
               {"ONE_HOT_ROWS", "refused, no columns", 3, 0, 0, 1},
               {"ONE_HOT_ROWS", "refused, no step", 3, 0, 1, 0},
               {"ONE_HOT_ROWS", "refused, a column too many", 3, 5, 4, 1},
               {"ONE_HOT_ROWS", "refused, beyond the end", 3, 9, 1, 1}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        maker_case c = maker_begin(m, all[i].task, all[i].why, "HEAD", maker_tiny);
        maker_arg(&c, "bits", json_integer(all[i].n));
        maker_arg(&c, "constant", json_integer(all[i].first));
        maker_arg(&c, "cols", json_integer(all[i].cols));
        maker_arg(&c, "step", json_integer(all[i].step));
        maker_fails(&c);
    }
}

void make_one_hot(maker *m) {
    static const uint32_t twice[] = {2, 14, 0}, once[] = {1, 7, 0};
    const one_hot all[] = {{m, "1", maker_few, maker_few, 1, 1, 0, 2},
                           {m, "2", maker_few, maker_few, 2, 1, 0, 4},
                           {m, "3", maker_group, maker_group, 3, 1, 1, 6},
                           {m, "6", maker_all, maker_all, 6, 1, 62, 2},
                           {m, "9", maker_all, maker_all, 9, 1, 101, 10},
                           {m, "17 steps", twice, once, 17, 2, 0x1fff0, 16},
                           {m, "32", maker_tiny, maker_tiny, 32, 1, 0xfffffffd, 3}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        make_keys(&all[i]);
        make_rows(&all[i]);
    }
    large(m);
    refuse(m);
}
