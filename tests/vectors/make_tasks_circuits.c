/* SPDX-License-Identifier: Apache-2.0 */
/* make_tasks_circuits.c - vectors of comparison without keys (docs/compute.md, section 7): three
 * parties, round after round, each with the others' messages. */
#include "make_tasks.h"

#include <stdio.h>
#include <uvcc/task.h>

enum { H = UVCC_HEAD, T = UVCC_TAIL, O = UVCC_OTHER, ALL = 3, GROUP_BITS = 4, PIECE = 4096 };

typedef struct circuit {
    maker *m;
    const char *variant;
    const uint32_t *counts;
    unsigned bits, gap;
    unsigned levels, groups, planes, shared; /* L, G, S, M */
} circuit;

static maker_label of(const circuit *k, const char *task, const char *what, unsigned role) {
    return maker_of(task, maker_join(k->variant, what, "").text, role);
}

static maker_case begin(const circuit *k, const char *task, const char *what, unsigned role,
                        unsigned round) {
    const maker_label l = maker_join(k->variant, what, "");
    maker_case c = maker_begin(k->m, task, l.text, maker_roles[role], k->counts);
    maker_call(&c, round);
    maker_arg(&c, "bits", json_integer(k->bits));
    if (k->gap != 0)
        maker_arg(&c, "gap", json_integer(k->gap));
    return c;
}

static shape planes_of(unsigned planes) {
    return (shape){.planes = planes};
}

/* A message of so many planes: with the gaps between its pieces. */
static shape message(const circuit *k, unsigned planes) {
    return (shape){.planes = planes, .piece = (size_t)8 * PIECE, .gap = k->gap};
}

/* The components that a role had in BOOL_SHARE. */
static void same_x(maker_case *c, unsigned role, const circuit *k) {
    const maker_label x = of(k, "UNPACK", "lo", role), y = of(k, "UNPACK", "hi", role);
    maker_from(c, "in[0]", x.text, "out[0]");
    maker_from(c, "in[1]", y.text, "out[0]");
}

static void make_x(const circuit *k, unsigned role, const char *which) {
    const maker_label l = maker_join(k->variant, which, "");
    maker_case c = maker_begin(k->m, "UNPACK", l.text, maker_roles[role], k->counts);
    maker_with(&c, "wire_in[0]", WORDS(1));
    maker_gives(&c, "out[0]", WORDS(1));
}

static void share(const circuit *k) {
    for (unsigned r = 0; r < ALL; r++) {
        make_x(k, r, "lo");
        make_x(k, r, "hi");
        maker_case c = begin(k, "BOOL_SHARE", "", r, 0);
        same_x(&c, r, k);
        if (r == H) {
            maker_with(&c, "wire_out[0]", message(k, k->shared)); /* gaps keep what was there */
            maker_with(&c, "wire_out[1]", message(k, k->shared));
            maker_gives(&c, "wire_out[0]", message(k, k->shared));
            maker_gives(&c, "wire_out[1]", message(k, k->shared));
            continue;
        }
        maker_with(&c, "out[0]", planes_of(2 * k->planes));
        maker_gives(&c, "out[0]", planes_of(2 * k->planes));
        maker_gives(&c, "wire_out[0]", planes_of(k->planes));
    }
}

static void join(const circuit *k) {
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = begin(k, "BOOL_JOIN", "", r, 0);
        if (r == H) {
            maker_from(&c, "wire_in[0]", of(k, "BOOL_SHARE", "", O).text, "wire_out[0]");
            maker_from(&c, "wire_in[1]", of(k, "BOOL_SHARE", "", T).text, "wire_out[0]");
        } else {
            same_x(&c, r, k);
            maker_from(&c, "wire_in[0]", of(k, "BOOL_SHARE", "", H).text,
                       r == T ? "wire_out[0]" : "wire_out[1]");
            maker_from(&c, "out[0]", of(k, "BOOL_SHARE", "", r).text, "out[0]");
        }
        maker_gives(&c, "out[0]", planes_of(2 * k->planes));
    }
}

/* The case that left the state before level `level`. */
static maker_label state_before(const circuit *k, unsigned level, unsigned role) {
    char what[16];
    (void)snprintf(what, sizeof what, "%u", level - 1);
    return level == 1 ? of(k, "BOOL_JOIN", "", role) : of(k, "BOOL_RECEIVE", what, role);
}

static void level(const circuit *k, unsigned l) {
    const shape state = planes_of(2 * k->planes);
    const shape sent = planes_of(2 * (k->groups >> l) - 1);
    const bool last = l == k->levels;
    char what[16];
    (void)snprintf(what, sizeof what, "%u", l);
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = begin(k, "BOOL_MERGE", what, r, l);
        maker_arg(&c, "shift", json_integer(l));
        maker_from(&c, "out[0]", state_before(k, l, r).text, "out[0]");
        maker_gives(&c, "out[0]", state);
        if (!last || r != H)
            maker_gives(&c, "wire_out[0]", sent);
    }
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = begin(k, "BOOL_RECEIVE", what, r, l);
        maker_arg(&c, "shift", json_integer(l));
        maker_from(&c, "out[0]", of(k, "BOOL_MERGE", what, r).text, "out[0]");
        if (!last || r != O)
            maker_from(&c, "wire_in[0]", of(k, "BOOL_MERGE", what, (r + 1) % 3).text,
                       "wire_out[0]");
        maker_gives(&c, "out[0]", state);
    }
}

static const char *const wants[] = {"", "bit", "product", "both"};

static shape head_message(const circuit *k, unsigned want) {
    return want == (UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT) || want == UVCC_BOOL_PRODUCT
               ? (shape){.bytes = 16, .fixed = k->gap}
               : WORDS(1);
}

static void select_masks(const circuit *k, unsigned want) {
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = begin(k, "BOOL_SELECT_MASK", wants[want], r, k->levels + 1);
        maker_arg(&c, "gate", json_integer(want));
        same_x(&c, r, k);
        maker_from(&c, "in[2]", state_before(k, k->levels + 1, r).text, "out[0]");
        if (r == H) {
            maker_with(&c, "wire_out[0]", head_message(k, want));
            maker_with(&c, "wire_out[1]", head_message(k, want));
            maker_gives(&c, "wire_out[0]", head_message(k, want));
            maker_gives(&c, "wire_out[1]", head_message(k, want));
            continue;
        }
        if (want & UVCC_BOOL_PRODUCT) {
            maker_gives(&c, "out[0]", WORDS(1));
            maker_gives(&c, "wire_out[0]", WORDS(1));
        }
        if (want & UVCC_BOOL_BIT) {
            maker_gives(&c, "out[1]", WORDS(1));
            maker_gives(&c, "wire_out[1]", WORDS(1));
        }
    }
}

/* One of the two values of a last round that made `want`. */
static void select_finishes(const circuit *k, unsigned want, unsigned value) {
    const char *what = wants[want],
               *sent = value == UVCC_BOOL_PRODUCT ? "wire_out[0]" : "wire_out[1]";
    const bool has_product = (want & UVCC_BOOL_PRODUCT) != 0;
    const shape e1 = has_product ? (shape){.bytes = 8, .fixed = k->gap} : FIXED(0);
    const maker_label name = maker_join(wants[value], "of", what);
    for (unsigned r = 0; r < ALL; r++) {
        const maker_label head = of(k, "BOOL_SELECT_MASK", what, H);
        const char *mine = r == T ? "wire_out[0]" : "wire_out[1]";
        maker_case c = begin(k, "BOOL_SELECT_FINISH", name.text, r, k->levels + 1);
        maker_arg(&c, "gate", json_integer(value));
        same_x(&c, r, k);
        maker_from(&c, "in[2]", state_before(k, k->levels + 1, r).text, "out[0]");
        if (r == H) {
            maker_from(&c, "wire_in[0]", of(k, "BOOL_SELECT_MASK", what, O).text, sent);
            maker_from(&c, "wire_in[1]", of(k, "BOOL_SELECT_MASK", what, T).text, sent);
            maker_gives(&c, "out[0]", WORDS(1));
            maker_gives(&c, "out[1]", WORDS(1));
            continue;
        }
        maker_from_at(&c, "wire_in[0]", head.text, mine, WORDS(1),
                      value == UVCC_BOOL_BIT ? e1 : FIXED(0));
        if (value == UVCC_BOOL_PRODUCT)
            maker_from_at(&c, "wire_in[1]", head.text, mine, WORDS(1), e1);
        maker_gives(&c, r == T ? "out[1]" : "out[0]", WORDS(1));
    }
}

static void circuit_cases(maker *m, const char *variant, const uint32_t *counts, unsigned bits,
                          unsigned gap) {
    circuit k = {
        .m = m, .variant = variant, .counts = counts, .bits = bits, .gap = gap, .groups = 1};
    while (k.groups * GROUP_BITS < bits) {
        k.groups *= 2;
        k.levels++;
    }
    k.planes = 2 * k.groups - 1;
    for (unsigned j = 0; j < k.groups; j++)
        k.shared += (1u << ((j + 1) * bits / k.groups - j * bits / k.groups)) - 1;
    share(&k);
    join(&k);
    for (unsigned l = 1; l <= k.levels; l++)
        level(&k, l);
    for (unsigned want = UVCC_BOOL_BIT; want <= (UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT); want++) {
        if (want != (UVCC_BOOL_BIT | UVCC_BOOL_PRODUCT) && bits != 5)
            continue; /* sessions want both */
        select_masks(&k, want);
        for (unsigned value = UVCC_BOOL_BIT; value <= UVCC_BOOL_PRODUCT; value++)
            if (want & value)
                select_finishes(&k, want, value);
    }
}

static void refuse(maker *m) {
    static const struct {
        const char *task, *name;
        int bits, shift, gate;
    } bad[] = {{"BOOL_SHARE", "bits 0", 0, 0, 0},
               {"BOOL_JOIN", "bits 64", 64, 0, 0},
               {"BOOL_MERGE", "level 0", 16, 0, 0},
               {"BOOL_MERGE", "level 3 of 2", 16, 3, 0},
               {"BOOL_RECEIVE", "level 1 of none", 4, 1, 0},
               {"BOOL_SELECT_MASK", "nothing", 16, 0, 0},
               {"BOOL_SELECT_MASK", "gate 4", 16, 0, 4},
               {"BOOL_SELECT_FINISH", "both", 16, 0, 3}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const maker_label name = maker_join("refused,", bad[i].name, "");
        maker_case c = maker_begin(m, bad[i].task, name.text, "TAIL", maker_few);
        maker_arg(&c, "bits", json_integer(bad[i].bits));
        maker_arg(&c, "shift", json_integer(bad[i].shift));
        maker_arg(&c, "gate", json_integer(bad[i].gate));
        maker_fails(&c);
    }
}

void make_circuits(maker *m) {
    circuit_cases(m, "1 bit", maker_few, 1, 0);
    circuit_cases(m, "5 bits", maker_all, 5, 0);
    circuit_cases(m, "16 bits", maker_few, 16, 8);
    circuit_cases(m, "31 bits", maker_few, 31, 8);
    circuit_cases(m, "63 bits large", maker_large, 63, 24);
    refuse(m);
}
