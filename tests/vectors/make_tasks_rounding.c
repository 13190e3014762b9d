/* SPDX-License-Identifier: Apache-2.0 */
/* make_tasks_rounding.c - vectors of stochastic truncation without keys (docs/compute.md, section
 * 5): three parties, each with the others' messages. */
#include "make_tasks.h"

#include <stdio.h>
#include <uvcc/task.h>

enum { H = UVCC_HEAD, T = UVCC_TAIL, O = UVCC_OTHER, ALL = 3 };

typedef struct rounding {
    maker *m;
    const char *variant;
    const uint32_t *counts;
    unsigned f, gap;
} rounding;

/* n-bit values in whole words. */
static shape in_words(unsigned n) {
    return (shape){.whole = n};
}

/* The component, the gap and bits or words of the wrap. */
static shape component_and(const rounding *k, unsigned n) {
    return (shape){.bytes = 8, .whole = n, .fixed = k->gap};
}

static maker_case begin(const rounding *k, const char *task, unsigned role) {
    maker_case c = maker_begin(k->m, task, k->variant, maker_roles[role], k->counts);
    maker_arg(&c, "shift", json_integer(k->f));
    if (k->gap != 0)
        maker_arg(&c, "gap", json_integer(k->gap));
    return c;
}

static maker_label of(const rounding *k, const char *task, unsigned role) {
    return maker_of(task, k->variant, role);
}

/* Both messages of HEAD: that for OTHER has a gap, which keeps what was there. */
static void head_sends(const rounding *k, maker_case *c, unsigned n) {
    maker_with(c, "wire_out[1]", component_and(k, n));
    maker_gives(c, "wire_out[0]", in_words(n));
    maker_gives(c, "wire_out[1]", component_and(k, n));
    maker_gives(c, "out[0]", WORDS(1));
    maker_gives(c, "out[1]", WORDS(1));
}

static void additive(const rounding *k) {
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = begin(k, "SR_OPEN", r);
        if (r != H)
            maker_with(&c, "in[0]", WORDS(1));
        maker_gives(&c, "wire_out[0]", r == H ? in_words(k->f) : WORDS(1));
        if (r == T)
            maker_gives(&c, "wire_out[1]", in_words(k->f));
    }
    maker_case c = begin(k, "SR_SEND", H);
    maker_with(&c, "in[0]", WORDS(1));
    maker_from(&c, "wire_in[0]", of(k, "SR_OPEN", T).text, "wire_out[0]");
    maker_from(&c, "wire_in[1]", of(k, "SR_OPEN", O).text, "wire_out[0]");
    head_sends(k, &c, 1);
    (void)begin(k, "SR_SEND", T);
    c = begin(k, "SR_SEND", O);
    maker_from(&c, "wire_in[0]", of(k, "SR_OPEN", H).text, "wire_out[0]");
    maker_from(&c, "wire_in[1]", of(k, "SR_OPEN", T).text, "wire_out[1]");
    maker_gives(&c, "wire_out[0]", in_words(k->f));
    maker_gives(&c, "out[0]", WORDS(1));
    (void)begin(k, "SR_FINISH", H);
    c = begin(k, "SR_FINISH", T);
    maker_from(&c, "wire_in[0]", of(k, "SR_SEND", H).text, "wire_out[0]");
    maker_from(&c, "wire_in[1]", of(k, "SR_SEND", O).text, "wire_out[0]");
    maker_gives(&c, "out[0]", WORDS(1));
    maker_gives(&c, "out[1]", WORDS(1));
    c = begin(k, "SR_FINISH", O);
    maker_from(&c, "in[0]", of(k, "SR_SEND", O).text, "out[0]");
    maker_from_at(&c, "wire_in[0]", of(k, "SR_SEND", H).text, "wire_out[1]", WORDS(1), FIXED(0));
    maker_from_at(&c, "wire_in[1]", of(k, "SR_SEND", H).text, "wire_out[1]", in_words(1),
                  (shape){.bytes = 8, .fixed = k->gap});
    maker_same(&c, "out[0]", "in[0]");
    maker_gives(&c, "out[0]", WORDS(1));
    maker_gives(&c, "out[1]", WORDS(1));
}

/* A component of x, as the vectors of a role need it twice. */
static void make_x(const rounding *k, unsigned role, const char *which) {
    const maker_label l = maker_join("sr2", k->variant, which);
    maker_case c = maker_begin(k->m, "UNPACK", l.text, maker_roles[role], k->counts);
    maker_with(&c, "wire_in[0]", WORDS(1));
    maker_gives(&c, "out[0]", WORDS(1));
}

static void same_x(const rounding *k, maker_case *c, unsigned role) {
    const maker_label lo = maker_join("sr2", k->variant, "lo"),
                      hi = maker_join("sr2", k->variant, "hi");
    maker_from(c, "in[0]", maker_of("UNPACK", lo.text, role).text, "out[0]");
    maker_from(c, "in[1]", maker_of("UNPACK", hi.text, role).text, "out[0]");
}

static void replicated(const rounding *k) {
    for (unsigned r = 0; r < ALL; r++) {
        make_x(k, r, "lo");
        make_x(k, r, "hi");
        maker_case c = begin(k, "SR2_SEND", r);
        same_x(k, &c, r);
        if (r == H)
            head_sends(k, &c, k->f);
        else
            maker_gives(&c, "wire_out[0]", in_words(k->f));
    }
    (void)begin(k, "SR2_FINISH", H);
    for (unsigned r = T; r <= O; r++) {
        maker_case c = begin(k, "SR2_FINISH", r);
        same_x(k, &c, r);
        maker_from(&c, "wire_in[0]", of(k, "SR2_SEND", H).text,
                   r == T ? "wire_out[0]" : "wire_out[1]");
        maker_from(&c, "wire_in[1]", of(k, "SR2_SEND", r == T ? O : T).text, "wire_out[0]");
        maker_same(&c, "out[0]", "in[0]");
        maker_same(&c, "out[1]", "in[1]");
        maker_gives(&c, "out[0]", WORDS(1));
        maker_gives(&c, "out[1]", WORDS(1));
    }
}

static void refuse(maker *m) {
    static const char *const tasks[] = {"SR_OPEN", "SR_SEND", "SR_FINISH", "SR2_SEND",
                                        "SR2_FINISH"};
    for (size_t i = 0; i < sizeof tasks / sizeof tasks[0]; i++) {
        const bool none = i % 2 == 0;
        maker_case c = maker_begin(m, tasks[i], none ? "refused, shift 0" : "refused, shift 63",
                                   "OTHER", maker_few);
        maker_arg(&c, "shift", json_integer(none ? 0 : 63));
        maker_fails(&c);
    }
}

void make_rounding(maker *m) {
    const rounding all[] = {{m, "", maker_all, 16, 0},
                            {m, "1", maker_few, 1, 16},
                            {m, "13", maker_few, 13, 20},
                            {m, "62", maker_few, 62, 20},
                            {m, "20 large", maker_large, 20, 24}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        additive(&all[i]);
        replicated(&all[i]);
    }
    refuse(m);
}
