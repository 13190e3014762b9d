/* SPDX-License-Identifier: Apache-2.0 */
/* make_tasks_gates.c - vectors of openings, gates, lifts and triples (docs/compute.md, sections 5
 * and 8): what HEAD, TAIL and OTHER of an edge do, one after the other, with one another's
 * messages. */
#include "make_tasks.h"

#include <stdio.h>
#include <string.h>
#include <uvcc/task.h>

enum { EDGE = 2, ALL = 3 };

/* Roles that have nothing to do: no operands. */
static void idle(maker *m, const char *task, const char *variant, unsigned role, const char *arg,
                 int value) {
    maker_case c = maker_begin(m, task, variant, maker_roles[role], maker_few);
    if (arg != NULL)
        maker_arg(&c, arg, json_integer(value));
}

/* ---- inputs and openings ---- */

static void input(maker *m, const char *variant, const uint32_t *counts) {
    const maker_label head = maker_of("INPUT", variant, UVCC_HEAD);
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = maker_begin(m, "INPUT", variant, maker_roles[r], counts);
        if (r == UVCC_HEAD) {
            maker_with(&c, "in[0]", WORDS(1));
            maker_gives(&c, "wire_out[0]", WORDS(1));
            maker_gives(&c, "wire_out[1]", WORDS(1));
        } else {
            maker_from(&c, "wire_in[0]", head.text, r == UVCC_TAIL ? "wire_out[0]" : "wire_out[1]");
        }
        maker_gives(&c, "out[0]", WORDS(1));
        maker_gives(&c, "out[1]", WORDS(1));
    }
}

static void open4(maker *m, const char *variant, const uint32_t *counts, int f) {
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = maker_begin(m, "OPEN4_MASK", variant, maker_roles[r], counts);
        maker_arg(&c, "shift", json_integer(f));
        maker_with(&c, "in[0]", WORDS(1));
        maker_gives(&c, "wire_out[0]", WORDS(1));
        maker_gives(&c, r == UVCC_OTHER ? "wire_out[1]" : "out[0]", WORDS(1));
    }
    for (unsigned r = 0; r < EDGE; r++) {
        const maker_label self = maker_of("OPEN4_MASK", variant, r),
                          peer = maker_of("OPEN4_MASK", variant, 1 - r);
        const maker_label other = maker_of("OPEN4_MASK", variant, UVCC_OTHER);
        const maker_label name = maker_join("of three", variant, "");
        maker_case c = maker_begin(m, "OPEN_FINISH", name.text, maker_roles[r], counts);
        maker_arg(&c, "constant", json_integer((json_int_t)1 << 62));
        maker_from(&c, "in[0]", self.text, "out[0]");
        maker_from(&c, "wire_in[0]", peer.text, "wire_out[0]");
        maker_from(&c, "wire_in[1]", other.text, r == 0 ? "wire_out[0]" : "wire_out[1]");
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

static void open2(maker *m, const char *variant, const uint32_t *counts) {
    for (unsigned r = 0; r < EDGE; r++) {
        maker_case c = maker_begin(m, "OPEN2_MASK", variant, maker_roles[r], counts);
        maker_with(&c, "in[0]", WORDS(1));
        maker_with(&c, "in[1]", WORDS(1));
        maker_gives(&c, "out[0]", WORDS(1));
        maker_gives(&c, "wire_out[0]", WORDS(1));
    }
    for (unsigned r = 0; r < EDGE; r++) {
        const maker_label self = maker_of("OPEN2_MASK", variant, r),
                          peer = maker_of("OPEN2_MASK", variant, 1 - r);
        const maker_label name = maker_join("in place", variant, "");
        maker_case c = maker_begin(m, "OPEN_FINISH", name.text, maker_roles[r], counts);
        maker_arg(&c, "constant", json_integer(-5));
        maker_from(&c, "in[0]", self.text, "out[0]");
        maker_from(&c, "wire_in[0]", peer.text, "wire_out[0]");
        maker_same(&c, "out[0]", "in[0]");
        maker_gives(&c, "out[0]", WORDS(1));
    }
}

/* ---- gates ---- */

typedef struct gate {
    const char *variant;
    const uint32_t *counts;
    uvcc_gate gate;
    bool compact;
    int bits; /* f, or n of RELU */
} gate;

static size_t dpf_bytes(int n) {
    const size_t depth = n > 7 ? (size_t)n - 7 : 0;
    return 16 * depth + 16 + (2 * depth + 7) / 8;
}

static size_t dcf_bytes(int n) {
    return (size_t)n * 24 + 8 + ((size_t)n * 2 + 7) / 8;
}

static shape stream_of(const gate *g, bool tail) {
    shape s = {0};
    if (g->gate == UVCC_GATE_TRUNC_DCF)
        s.bytes += dcf_bytes(g->bits);
    if (g->gate == UVCC_GATE_TRUNC_ARS || g->gate == UVCC_GATE_RELU)
        s.bytes += dpf_bytes(g->bits) + (tail ? 8 : 0);
    if (tail && g->gate == UVCC_GATE_RELU)
        s.bytes += 8;
    if (tail && g->gate != UVCC_GATE_RELU && !g->compact)
        s.bytes += 16;
    if (tail && g->gate != UVCC_GATE_RELU && g->compact) {
        s.packs = 2;
        s.bits = (unsigned)g->bits;
    }
    return s;
}

static maker_case begin_gate(maker *m, const char *task, const gate *g, unsigned role) {
    maker_case c = maker_begin(m, task, g->variant, maker_roles[role], g->counts);
    maker_arg(&c, g->gate == UVCC_GATE_RELU ? "bits" : "shift", json_integer(g->bits));
    maker_arg(&c, "gate", json_integer(g->gate));
    if (g->compact)
        maker_arg(&c, "compact", json_true());
    return c;
}

static void with_key(maker_case *c, const gate *g, unsigned role) {
    const maker_label deal = maker_of("DEAL", g->variant, UVCC_OTHER);
    const shape s = stream_of(g, role == UVCC_TAIL);
    if (s.bytes != 0 || s.packs != 0)
        maker_from(c, "key", deal.text, role == UVCC_TAIL ? "out_bytes[1]" : "out_bytes[0]");
}

static void deal(maker *m, const gate *g) {
    maker_case c = begin_gate(m, "DEAL", g, UVCC_OTHER);
    for (unsigned tail = 0; tail < 2; tail++) {
        const shape s = stream_of(g, tail != 0);
        if (s.bytes != 0 || s.packs != 0)
            maker_gives(&c, tail == 0 ? "out_bytes[0]" : "out_bytes[1]", s);
    }
}

/* The comparison of a gate: its bit, masked and opened. */
static void compare(maker *m, const gate *g) {
    for (unsigned r = 0; r < EDGE; r++) {
        maker_case c = begin_gate(m, "LESS_MASK", g, r);
        maker_with(&c, "in[0]", WORDS(1));
        with_key(&c, g, r);
        maker_gives(&c, "out_bits", PACKED(1));
        maker_gives(&c, "wire_out[0]", PACKED(1));
    }
    (void)begin_gate(m, "LESS_MASK", g, UVCC_OTHER);
    for (unsigned r = 0; r < EDGE; r++) {
        const maker_label self = maker_of("LESS_MASK", g->variant, r),
                          peer = maker_of("LESS_MASK", g->variant, 1 - r);
        maker_case c = maker_begin(m, "OPEN_BITS", g->variant, maker_roles[r], g->counts);
        maker_from(&c, "in_bits", self.text, "out_bits");
        maker_from(&c, "wire_in[0]", peer.text, "wire_out[0]");
        maker_gives(&c, "out_bits", PACKED(1));
    }
}

static void finish_gate(maker *m, const gate *g, unsigned r) {
    const maker_label self = maker_of("LESS_MASK", g->variant, r),
                      peer = maker_of("LESS_MASK", g->variant, 1 - r);
    const bool relu = g->gate == UVCC_GATE_RELU;
    maker_case c = begin_gate(m, relu ? "RELU" : "TRUNC_EXACT", g, r);
    if (relu)
        maker_with(&c, "in[0]", WORDS(1));
    else
        maker_from(&c, "in[0]", maker_of("TRUNC", g->variant, r).text, "out[0]");
    maker_from(&c, "in_bits", self.text, "out_bits");
    maker_from(&c, "wire_in[0]", peer.text, "wire_out[0]");
    with_key(&c, g, r);
    maker_gives(&c, "out[0]", WORDS(1));
    if (relu)
        maker_gives(&c, "out[1]", WORDS(1));
}

/* What an op that truncates by a DCF runs after TRUNC. */
static void take_floor(maker *m, const gate *g, unsigned r) {
    const maker_label name = maker_join("of a gate,", g->variant, "");
    maker_case c = maker_begin(m, "FN_FLOOR", name.text, maker_roles[r], g->counts);
    maker_fn(&c, "shift", json_integer(g->bits));
    maker_with(&c, "in[0]", WORDS(1));
    maker_from(&c, "in[1]", maker_of("TRUNC", g->variant, r).text, "out[0]");
    maker_from(&c, "key", maker_of("DEAL", g->variant, UVCC_OTHER).text,
               r == 0 ? "out_bytes[0]" : "out_bytes[1]");
    maker_same(&c, "out[0]", "in[1]");
    maker_gives(&c, "out[0]", WORDS(1));
}

static void gate_cases(maker *m, const gate *g) {
    const bool relu = g->gate == UVCC_GATE_RELU, bit = relu || g->gate == UVCC_GATE_TRUNC_ARS;
    deal(m, g);
    for (unsigned r = 0; r < EDGE && !relu; r++) {
        maker_case c = begin_gate(m, "TRUNC", g, r);
        maker_with(&c, "in[0]", WORDS(1));
        with_key(&c, g, r);
        maker_gives(&c, "out[0]", WORDS(1));
    }
    if (bit)
        compare(m, g);
    for (unsigned r = 0; r < EDGE; r++)
        if (bit)
            finish_gate(m, g, r);
        else if (g->gate == UVCC_GATE_TRUNC_DCF)
            take_floor(m, g, r);
}

/* ---- lifts ---- */

typedef struct lift {
    const char *variant;
    const uint32_t *counts;
    uvcc_lift_kind kind;
} lift;

static void lift_masks(maker *m, const lift *l) {
    for (unsigned r = 0; r < EDGE; r++) {
        maker_case c = maker_begin(m, "LIFT_MASK", l->variant, maker_roles[r], l->counts);
        maker_arg(&c, "lift", json_integer(l->kind));
        maker_with(&c, "in[0]", WORDS(1));
        if (r == UVCC_TAIL && l->kind == UVCC_LIFT_SEQUENTIAL)
            maker_from(&c, "wire_in[0]", maker_of("LIFT_MASK", l->variant, 0).text, "wire_out[0]");
        if (r == UVCC_HEAD || l->kind != UVCC_LIFT_PARALLEL)
            maker_gives(&c, "out[0]", WORDS(1));
        maker_gives(&c, "out[1]", WORDS(1));
        maker_gives(&c, "wire_out[0]", WORDS(1));
    }
    idle(m, "LIFT_MASK", l->variant, UVCC_OTHER, "lift", l->kind);
}

static void lift_finishes(maker *m, const lift *l) {
    const maker_label head = maker_of("LIFT_MASK", l->variant, 0),
                      tail = maker_of("LIFT_MASK", l->variant, 1);
    const bool exchange = l->kind == UVCC_LIFT_EXCHANGE;
    for (unsigned r = 0; r < ALL; r++) {
        if ((r == UVCC_HEAD && !exchange) || (r == UVCC_TAIL && l->kind == UVCC_LIFT_SEQUENTIAL)) {
            idle(m, "LIFT_FINISH", l->variant, r, "lift", l->kind);
            continue;
        }
        maker_case c = maker_begin(m, "LIFT_FINISH", l->variant, maker_roles[r], l->counts);
        maker_arg(&c, "lift", json_integer(l->kind));
        if (r != UVCC_OTHER || !exchange)
            maker_from(&c, "wire_in[0]", r == UVCC_TAIL ? head.text : tail.text, "wire_out[0]");
        if (r != UVCC_OTHER && exchange) {
            const char *sum = r == UVCC_HEAD ? "out[1]" : "out[0]";
            maker_from(&c, sum, maker_of("LIFT_MASK", l->variant, r).text, sum);
            maker_gives(&c, sum, WORDS(1));
            continue;
        }
        maker_gives(&c, "out[0]", WORDS(1));
        if (r == UVCC_OTHER)
            maker_gives(&c, "out[1]", WORDS(1));
    }
}

/* ---- what all roles do alike ---- */

static void alike(maker *m, const char *variant, const uint32_t *counts) {
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = maker_begin(m, "RESHARE_MASK", variant, maker_roles[r], counts);
        maker_with(&c, "in[0]", WORDS(1));
        maker_gives(&c, "out[0]", WORDS(1));
        maker_gives(&c, "wire_out[0]", WORDS(1));
    }
    for (unsigned r = 0; r < ALL; r++) {
        const maker_label next = maker_of("RESHARE_MASK", variant, (r + 1) % 3);
        const maker_label self = maker_of("RESHARE_MASK", variant, r);
        maker_case c = maker_begin(m, "UNPACK", variant, maker_roles[r], counts);
        maker_from(&c, "wire_in[0]", next.text, "wire_out[0]");
        maker_gives(&c, "out[0]", WORDS(1));
        c = maker_begin(m, "PACK", variant, maker_roles[r], counts);
        maker_from(&c, "in[0]", self.text, "out[0]");
        maker_gives(&c, "wire_out[0]", WORDS(1));
    }
    for (unsigned r = 0; r < ALL; r++)
        for (unsigned in_place = 0; in_place < 2; in_place++) {
            const maker_label name = maker_join(in_place != 0 ? "in place" : "apart", variant, "");
            maker_case c = maker_begin(m, "OPEN_ALL_FINISH", name.text, maker_roles[r], counts);
            maker_with(&c, "in[0]", WORDS(1));
            maker_with(&c, "in[1]", WORDS(1));
            maker_with(&c, "wire_in[0]", WORDS(1));
            if (in_place != 0)
                maker_same(&c, "out[0]", "in[0]");
            maker_gives(&c, "out[0]", WORDS(1));
        }
}

/* At HEAD and TAIL: in the gates. */
static void open_bits(maker *m) {
    maker_case c = maker_begin(m, "OPEN_BITS", "", maker_roles[UVCC_OTHER], maker_all);
    maker_with(&c, "in_bits", PACKED(1));
    maker_with(&c, "wire_in[0]", PACKED(1));
    maker_gives(&c, "out_bits", PACKED(1));
}

static void triple(maker *m, const char *task, const char *variant, const uint32_t *counts) {
    for (unsigned r = 0; r < ALL; r++)
        for (unsigned form = 0; form < 4; form++) {
            static const char *const forms[] = {"both", "lo", "hi", "less"};
            const maker_label name = maker_join(forms[form], variant, "");
            if (form > 0 && form < 3 && *variant != '\0')
                continue;
            maker_case c = maker_begin(m, task, name.text, maker_roles[r], counts);
            if (form == 3) {
                maker_with(&c, "in[0]", WORDS(1));
                maker_with(&c, "in[1]", WORDS(1));
                maker_gives(&c, "wire_out[0]", WORDS(1));
            }
            if (form != 2)
                maker_gives(&c, "out[0]", WORDS(1));
            if (form != 1)
                maker_gives(&c, "out[1]", WORDS(1));
        }
}

static void triple_c(maker *m, const char *variant, const uint32_t *counts) {
    for (unsigned r = 0; r < ALL; r++) {
        maker_case c = maker_begin(m, "TRIPLE_C", variant, maker_roles[r], counts);
        maker_with(&c, "in[0]", WORDS(1));
        maker_same(&c, "out[0]", "in[0]");
        maker_gives(&c, "out[0]", WORDS(1));
        maker_gives(&c, "wire_out[0]", WORDS(1));
    }
}

static void random_words(maker *m) {
    static const struct {
        const char *name;
        const uint32_t *counts;
        int bits;
    } of[] = {{"1", maker_few, 1}, {"20", maker_all, 20}, {"62 large", maker_large, 62}};
    static const int bad[] = {0, 63};
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        for (unsigned r = 0; r < ALL; r++) {
            maker_case c = maker_begin(m, "RANDOM", of[i].name, maker_roles[r], of[i].counts);
            maker_arg(&c, "bits", json_integer(of[i].bits));
            maker_gives(&c, "out[0]", WORDS(1));
            maker_gives(&c, "out[1]", WORDS(1));
        }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        maker_case c = maker_begin(m, "RANDOM", i == 0 ? "refused, bits 0" : "refused, bits 63",
                                   "HEAD", maker_few);
        maker_arg(&c, "bits", json_integer(bad[i]));
        maker_fails(&c);
    }
}

/* ---- refusals ---- */

/* Just outside the limits of each task. */
static void refuse(maker *m) {
    static const struct {
        const char *task, *role, *name;
        int shift, bits, gate;
    } bad[] = {{"OPEN4_MASK", "HEAD", "shift 0", 0, 0, 0},
               {"OPEN4_MASK", "OTHER", "shift 63", 63, 0, 0},
               {"TRUNC", "HEAD", "shift 0", 0, 0, UVCC_GATE_TRUNC_SR},
               {"TRUNC", "TAIL", "shift 63", 63, 0, UVCC_GATE_TRUNC_SR},
               {"LESS_MASK", "HEAD", "shift 0", 0, 0, UVCC_GATE_TRUNC_ARS},
               {"LESS_MASK", "HEAD", "no gate", 16, 16, UVCC_GATE_NONE},
               {"LESS_MASK", "TAIL", "a DCF", 16, 16, UVCC_GATE_TRUNC_DCF},
               {"LESS_MASK", "TAIL", "bits 64", 16, 64, UVCC_GATE_RELU},
               {"RELU", "HEAD", "bits 0", 0, 0, UVCC_GATE_RELU},
               {"RELU", "TAIL", "bits 64", 0, 64, UVCC_GATE_RELU},
               {"DEAL", "OTHER", "no gate", 16, 16, UVCC_GATE_NONE},
               {"DEAL", "OTHER", "a function", 16, 16, UVCC_GATE_FUNCTION},
               {"DEAL", "OTHER", "shift 63", 63, 16, UVCC_GATE_TRUNC_DCF},
               {"DEAL", "OTHER", "bits 0", 16, 0, UVCC_GATE_RELU}};
    static const uint32_t too_many[] = {UVCC_BLOCK_ELEMS + 1, 0};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        const maker_label name = maker_join("refused,", bad[i].name, "");
        maker_case c = maker_begin(m, bad[i].task, name.text, bad[i].role, maker_few);
        maker_arg(&c, "shift", json_integer(bad[i].shift));
        maker_arg(&c, "bits", json_integer(bad[i].bits));
        maker_arg(&c, "gate", json_integer(bad[i].gate));
        maker_fails(&c);
    }
    maker_case c = maker_begin(m, "UNPACK", "refused, a block too large", "HEAD", too_many);
    maker_fails(&c);
}

/* Sizes are chosen so that keys stay short where blocks are long, for the sake of slow checkers. */
void make_gates(maker *m) {
    static const gate gates[] = {
        {"sr compact", maker_all, UVCC_GATE_TRUNC_SR, true, 16},
        {"sr compact 13", maker_few, UVCC_GATE_TRUNC_SR, true, 13},
        {"sr compact 62", maker_few, UVCC_GATE_TRUNC_SR, true, 62},
        {"sr compact 1 large", maker_large, UVCC_GATE_TRUNC_SR, true, 1},
        {"sr full", maker_all, UVCC_GATE_TRUNC_SR, false, 16},
        {"sr full large", maker_large, UVCC_GATE_TRUNC_SR, false, 62},
        {"ars compact", maker_all, UVCC_GATE_TRUNC_ARS, true, 16},
        {"ars compact 7", maker_few, UVCC_GATE_TRUNC_ARS, true, 7},
        {"ars compact 3", maker_few, UVCC_GATE_TRUNC_ARS, true, 3},
        {"ars compact 9", maker_group, UVCC_GATE_TRUNC_ARS, true, 9},
        {"ars compact 8 large", maker_large, UVCC_GATE_TRUNC_ARS, true, 8},
        {"ars full", maker_all, UVCC_GATE_TRUNC_ARS, false, 16},
        {"ars full 62", maker_few, UVCC_GATE_TRUNC_ARS, false, 62},
        {"dcf compact", maker_all, UVCC_GATE_TRUNC_DCF, true, 16},
        {"dcf compact 5", maker_group, UVCC_GATE_TRUNC_DCF, true, 5},
        {"dcf full", maker_all, UVCC_GATE_TRUNC_DCF, false, 16},
        {"dcf full 1 large", maker_large, UVCC_GATE_TRUNC_DCF, false, 1},
        {"relu", maker_all, UVCC_GATE_RELU, false, 31},
        {"relu 1", maker_few, UVCC_GATE_RELU, false, 1},
        {"relu 63", maker_few, UVCC_GATE_RELU, false, 63},
        {"relu 8 large", maker_large, UVCC_GATE_RELU, false, 8},
    };
    static const lift lifts[] = {{"parallel", maker_all, UVCC_LIFT_PARALLEL},
                                 {"parallel large", maker_large, UVCC_LIFT_PARALLEL},
                                 {"sequential", maker_all, UVCC_LIFT_SEQUENTIAL},
                                 {"sequential large", maker_large, UVCC_LIFT_SEQUENTIAL},
                                 {"exchange", maker_all, UVCC_LIFT_EXCHANGE},
                                 {"exchange large", maker_large, UVCC_LIFT_EXCHANGE}};
    static const char *const edge_only[] = {"OPEN2_MASK", "OPEN_FINISH", "TRUNC_EXACT"};
    input(m, "", maker_all);
    input(m, "large", maker_large);
    open4(m, "", maker_all, 16);
    open4(m, "1", maker_few, 1);
    open4(m, "62 large", maker_large, 62);
    open2(m, "", maker_all);
    open2(m, "large", maker_large);
    for (size_t i = 0; i < sizeof gates / sizeof gates[0]; i++)
        gate_cases(m, &gates[i]);
    for (size_t i = 0; i < sizeof lifts / sizeof lifts[0]; i++) {
        lift_masks(m, &lifts[i]);
        lift_finishes(m, &lifts[i]);
    }
    for (size_t i = 0; i < sizeof edge_only / sizeof edge_only[0]; i++)
        idle(m, edge_only[i], "", UVCC_OTHER, NULL, 0);
    idle(m, "TRUNC", "", UVCC_OTHER, "shift", 16);
    idle(m, "RELU", "", UVCC_OTHER, "bits", 16);
    alike(m, "", maker_all);
    alike(m, "large", maker_large);
    open_bits(m);
    triple(m, "TRIPLE_A", "", maker_all);
    triple(m, "TRIPLE_A", "large", maker_large);
    triple(m, "TRIPLE_B", "", maker_all);
    triple(m, "TRIPLE_B", "large", maker_large);
    triple_c(m, "", maker_all);
    triple_c(m, "large", maker_large);
    refuse(m);
    random_words(m);
}
