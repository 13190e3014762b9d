/* SPDX-License-Identifier: Apache-2.0 */
/* tally.c - see tally.h. Ops are counted where they stand in their program; names, formulas and
 * chains are worked out when a table is asked for. */
#include "tally.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/types.h>

typedef struct op_tally {
    uint64_t done; /* at all parties */
    uint64_t bytes[2];
} op_tally;

/* An entry of a program that ran. */
typedef struct entry_tally {
    const uvcc_program *program;
    uint32_t entry, op_count;
    op_tally *ops;
} entry_tally;

struct tally {
    tally_section name;
    void *user;
    entry_tally *entries;
    uint32_t count, cap;
};

/* A sum over ops: what was sent, and the formula times how often they were done. */
typedef struct tally_row {
    char name[TALLY_NAME_BYTES];
    uint32_t order;
    uint32_t rounds; /* of the longest chain in one step that lies in it, at any worker */
    uint32_t steps;  /* of entries: at one party */
    uint64_t bytes[2], formula[2];
} tally_row;
typedef struct tally_table {
    tally_row *rows;
    uint32_t count, cap;
} tally_table;

/* ---- counting ---- */

static bool is_input(const uvcc_op_desc *d) {
    return d->opcode == UVCC_OP_INPUT || d->opcode == UVCC_OP_INPUT_ONE_HOT;
}

static void by_block(void *user, const char *entry, const uvcc_op_desc *op,
                     char out[TALLY_NAME_BYTES]) {
    static const char *const phases[] = {"forward", "backward", "update"};
    (void)user;
    (void)entry;
    if (is_input(op) || op->opcode == UVCC_OP_OUTPUT || op->opcode == UVCC_OP_OUTPUT_TO)
        (void)snprintf(out, TALLY_NAME_BYTES, "%s", is_input(op) ? "inputs" : "opening");
    else
        (void)snprintf(out, TALLY_NAME_BYTES, "block %u %s", op->k >> 8,
                       phases[op->phase <= UVCC_UPD ? op->phase : UVCC_UPD]);
}

tally *tally_new(void) {
    tally *t = calloc(1, sizeof *t);
    if (t != NULL)
        t->name = by_block;
    return t;
}

void tally_name_by(tally *t, tally_section name, void *user) {
    t->name = name;
    t->user = user;
}

void tally_free(tally *t) {
    for (uint32_t i = 0; t != NULL && i < t->count; i++)
        free(t->entries[i].ops);
    if (t != NULL)
        free(t->entries);
    free(t);
}

void *tally_room(void *items, uint32_t count, uint32_t *cap, size_t size) {
    if (count < *cap)
        return items;
    const uint32_t more = *cap == 0 ? 64 : 2 * *cap;
    void *bigger = realloc(items, more * size);
    if (bigger != NULL)
        *cap = more;
    return bigger;
}

static op_tally *op_at(tally *t, const uvcc_program *p, uint32_t entry, uint32_t op) {
    for (uint32_t i = t->count; i-- > 0;)
        if (t->entries[i].program == p && t->entries[i].entry == entry)
            return &t->entries[i].ops[op];
    const uint32_t ops = uvcc_program_op_count(p, entry);
    op_tally *list = calloc(ops, sizeof *list);
    entry_tally *room =
        list != NULL ? tally_room(t->entries, t->count, &t->cap, sizeof *room) : NULL;
    if (room == NULL) {
        free(list);
        return NULL;
    }
    t->entries = room;
    t->entries[t->count++] =
        (entry_tally){.program = p, .entry = entry, .op_count = ops, .ops = list};
    return &list[op];
}

int tally_done(tally *t, const uvcc_program *p, uint32_t entry, uint32_t op) {
    op_tally *o = op_at(t, p, entry, op);
    if (o != NULL)
        o->done++;
    return o != NULL ? 0 : -1;
}

int tally_sent(tally *t, const uvcc_program *p, uint32_t entry, uint32_t op, bool before,
               uint64_t bytes) {
    op_tally *o = op_at(t, p, entry, op);
    if (o != NULL)
        o->bytes[before] += bytes;
    return o != NULL ? 0 : -1;
}

/* ---- tables ---- */

/* What its runs cost by the formula, all parties together. */
static int add_formula(const entry_tally *e, uint32_t op, uint64_t formula[2]) {
    uvcc_op_cost c;
    if (uvcc_program_cost(e->program, e->entry, op, &c) != 0)
        return -1;
    formula[0] += e->ops[op].done * c.online_bytes / UVCC_PARTIES;
    formula[1] += e->ops[op].done * c.preprocessing_bytes / UVCC_PARTIES;
    return 0;
}

int tally_formulas(const tally *t, tally_visit visit, void *user) {
    for (uint32_t i = 0; i < t->count; i++)
        for (uint32_t k = 0; k < t->entries[i].op_count; k++) {
            const entry_tally *e = &t->entries[i];
            uint64_t formula[2] = {0};
            if (add_formula(e, k, formula) != 0)
                return -1;
            visit(user, e->program, uvcc_program_op_at(e->program, e->entry, k), formula);
        }
    return 0;
}

static tally_row *row_of(tally_table *t, const char *name, uint32_t order) {
    for (uint32_t i = 0; i < t->count; i++)
        if (strcmp(t->rows[i].name, name) == 0)
            return &t->rows[i];
    tally_row *room = tally_room(t->rows, t->count, &t->cap, sizeof *room);
    if (room == NULL)
        return NULL;
    t->rows = room;
    tally_row *r = &t->rows[t->count++];
    *r = (tally_row){.order = order};
    (void)snprintf(r->name, sizeof r->name, "%s", name);
    return r;
}

static int add_op(tally_row *r, const entry_tally *e, uint32_t op) {
    r->bytes[0] += e->ops[op].bytes[0];
    r->bytes[1] += e->ops[op].bytes[1];
    return add_formula(e, op, r->formula);
}

static int add_chain(tally_row *r, const entry_tally *e, const bool *counted) {
    uint32_t rounds;
    if (uvcc_program_rounds(e->program, e->entry, counted, &rounds) != 0)
        return -1;
    r->rounds = rounds > r->rounds ? rounds : r->rounds;
    return 0;
}

/* Inputs come first, whatever their k. */
static uint32_t order_of(const uvcc_op_desc *d) {
    return is_input(d) ? 0 : 1 + ((uint32_t)d->phase << 8 | d->k >> 8);
}

/* All ops of the entry that are in the section of op `first`; those before it are in others. */
static int add_section(const tally *t, const entry_tally *e, uint32_t first, const char *name,
                       bool *taken, bool *counted, tally_table *out) {
    const char *entry = uvcc_program_entry_name(e->program, e->entry);
    char other[TALLY_NAME_BYTES];
    tally_row *r = row_of(out, name, order_of(uvcc_program_op_at(e->program, e->entry, first)));
    int rc = r != NULL ? 0 : -1;
    memset(counted, 0, e->op_count * sizeof *counted);
    for (uint32_t k = first; rc == 0 && k < e->op_count; k++) {
        t->name(t->user, entry, uvcc_program_op_at(e->program, e->entry, k), other);
        counted[k] = strcmp(other, name) == 0;
        taken[k] |= counted[k];
        rc = counted[k] ? add_op(r, e, k) : 0;
    }
    return rc == 0 ? add_chain(r, e, counted) : rc;
}

static int add_sections(const tally *t, const entry_tally *e, tally_table *out) {
    const char *entry = uvcc_program_entry_name(e->program, e->entry);
    bool *marks = calloc(e->op_count, 2 * sizeof *marks), *taken = marks;
    char name[TALLY_NAME_BYTES];
    int rc = marks != NULL ? 0 : -1;
    for (uint32_t k = 0; rc == 0 && k < e->op_count; k++) {
        if (taken[k])
            continue;
        t->name(t->user, entry, uvcc_program_op_at(e->program, e->entry, k), name);
        rc = add_section(t, e, k, name, taken, marks + e->op_count, out);
    }
    free(marks);
    return rc;
}

static int compare(const void *a, const void *b) {
    const tally_row *x = a, *y = b;
    return x->order != y->order ? (x->order < y->order ? -1 : 1) : strcmp(x->name, y->name);
}

/* Tables by section and by entry, in the order of a step; freed with free(rows). -1: no memory. */
static int by_section(const tally *t, tally_table *out) {
    *out = (tally_table){0};
    for (uint32_t i = 0; i < t->count; i++)
        if (add_sections(t, &t->entries[i], out) != 0) {
            free(out->rows);
            return -1;
        }
    if (out->count != 0)
        qsort(out->rows, out->count, sizeof *out->rows, compare);
    return 0;
}

static int add_entry(const entry_tally *e, tally_table *out) {
    tally_row *r = row_of(out, uvcc_program_entry_name(e->program, e->entry), e->entry);
    int rc = r != NULL ? add_chain(r, e, NULL) : -1;
    const uint32_t steps = (uint32_t)(e->ops[0].done / UVCC_PARTIES);
    for (uint32_t k = 0; rc == 0 && k < e->op_count; k++)
        rc = add_op(r, e, k);
    if (rc == 0)
        r->steps = steps > r->steps ? steps : r->steps;
    return rc;
}

static int by_entry(const tally *t, tally_table *out) {
    *out = (tally_table){0};
    for (uint32_t i = 0; i < t->count; i++)
        if (add_entry(&t->entries[i], out) != 0) {
            free(out->rows);
            return -1;
        }
    return 0;
}

/* ---- what is shown ---- */

static double share(const tally_row *r, uint64_t all) {
    return all != 0 ? (double)(r->bytes[0] + r->bytes[1]) / (double)all : 0;
}

static void print_row(const tally_row *r, const char *name, uint64_t all, double steps, FILE *to) {
    (void)fprintf(to, "%-20.40s %8" PRIu32 "  %9.3f  %9.3f  %9.3f  %9.3f  %5.1f%%\n", name,
                  r->rounds, (double)r->bytes[0] * 1e-6 / steps,
                  (double)r->formula[0] * 1e-6 / steps, (double)r->bytes[1] * 1e-6 / steps,
                  (double)r->formula[1] * 1e-6 / steps, 100 * share(r, all));
}

static void print_heads(const char *what, FILE *to) {
    (void)fprintf(to, "%-20s %8s  %9s  %9s  %9s  %9s  %6s\n", what, "rounds", "MB online",
                  "formula", "MB keys", "formula", "bytes");
}

int tally_print(const tally *t, uint64_t all_bytes, FILE *to) {
    tally_table table;
    if (by_section(t, &table) != 0)
        return -1;
    print_heads("part", to);
    for (uint32_t i = 0; i < table.count; i++)
        print_row(&table.rows[i], table.rows[i].name, all_bytes, 1, to);
    free(table.rows);
    if (by_entry(t, &table) != 0)
        return -1;
    print_heads("one step", to);
    for (uint32_t i = 0; i < table.count; i++) {
        const tally_row *r = &table.rows[i];
        char name[TALLY_NAME_BYTES + 16];
        (void)snprintf(name, sizeof name, "%s (of %" PRIu32 ")", r->name, r->steps);
        print_row(r, name, all_bytes, r->steps != 0 ? r->steps : 1, to);
    }
    free(table.rows);
    return 0;
}

static json_t *row_json(const char *key, const tally_row *r, uint64_t all) {
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:f}", key, r->name, "rounds",
                     (json_int_t)r->rounds, "bytes_online", (json_int_t)r->bytes[0],
                     "formula_online_bytes", (json_int_t)r->formula[0], "bytes_preprocessing",
                     (json_int_t)r->bytes[1], "formula_key_bytes", (json_int_t)r->formula[1],
                     "bytes_share", share(r, all));
}

/* Frees the table's rows. */
static json_t *table_json(const char *key, tally_table *table, bool steps, uint64_t all) {
    json_t *list = json_array();
    int bad = 0;
    for (uint32_t i = 0; i < table->count; i++) {
        json_t *o = row_json(key, &table->rows[i], all);
        if (steps)
            bad |= json_object_set_new(o, "steps", json_integer(table->rows[i].steps));
        bad |= json_array_append_new(list, o);
    }
    free(table->rows);
    if (bad == 0)
        return list;
    json_decref(list);
    return NULL;
}

int tally_json(const tally *t, uint64_t all_bytes, json_t *o) {
    tally_table table;
    if (by_section(t, &table) != 0 ||
        json_object_set_new(o, "layers", table_json("layer", &table, false, all_bytes)) != 0)
        return -1;
    if (by_entry(t, &table) != 0)
        return -1;
    return json_object_set_new(o, "entries", table_json("entry", &table, true, all_bytes));
}
