/* SPDX-License-Identifier: Apache-2.0 */
/* one_hot.c - INPUT_ONE_HOT, EMBED: numbers of rows that their owner alone knows, and the rows of a
 * table that they name (protocols.md, "Rows by one-hot keys").
 *
 * The owner, HEAD, deals each of the two others a DPF key for each number; they expand it into
 * additive shares of a one-hot row, tile by tile, and multiply by the component of the table that
 * both hold and HEAD lacks; HEAD multiplies the row itself by the sum of its two. A tensor of such
 * numbers has at TAIL and OTHER the keys, one behind the other, then their roots; at HEAD the
 * numbers stand where the roots are.
 *
 * Of a client, who is no party, a PERSIST tensor has keys that hosts set: a pair for each component
 * of the table, whose holders have one key each. So a party has two keys of a number, of two pairs,
 * each with its roots behind it: it is TAIL in the pair of its second component, OTHER in that of
 * its first, and nobody is HEAD. */
#include "exec/primitives/one_hot.h"
#include "exec/base/bounds.h"
#include "exec/ops/families.h"
#include "exec/ops/operands.h"
#include "exec/ops/tasks.h"
#include "exec/program/op_check.h"
#include "exec/program/plan_maker.h"

#include <assert.h>

/* ---- the tensor ---- */

static const uvcci_tensor *tensor_of(const uvcci_builder *b, uint32_t tensor) {
    return &b->s->program->tensors[tensor];
}

static uint64_t *keys_of(const uvcci_builder *b, uint32_t tensor) {
    return uvcci_shares_of(b->s, tensor)->lo;
}

/* Of TAIL and OTHER the roots, of HEAD the numbers. */
static uint64_t *roots_of(const uvcci_tensor *t, uint64_t *keys) {
    return keys + t->elems * uvcci_one_hot_key_words(t->desc.bits);
}
static uint64_t *behind_keys(const uvcci_builder *b, uint32_t tensor) {
    return roots_of(tensor_of(b, tensor), keys_of(b, tensor));
}

/* ---- INPUT_ONE_HOT ---- */

enum { ROUND = 0 };

static int plan_input(uvcci_draft *d) {
    const uvcci_tensor *t = &d->p->tensors[d->op->desc.out[0]];
    d->plan->fixed_edge = d->e->inputs[d->op->io].owner;
    d->plan->bits = t->desc.bits;
    d->plan->elems = t->elems * uvcci_one_hot_key_words(t->desc.bits);
    d->plan->blocks = uvcci_blocks(d->plan->elems);
    uvcci_draft_vector(d, UVCCI_PROTO_INPUT, UVCCI_STREAM_INPUT);
    return 0;
}

/* The keys, or their roots, of blocks of the tensor. */
static void make_keys(uvcci_builder *b, unsigned roles) {
    const uint32_t out = b->r->op->desc.out[0];
    const uint64_t *numbers = uvcci_staged(b->r);
    const uint32_t key_words = uvcci_one_hot_key_words(tensor_of(b, out)->desc.bits);
    uint32_t n;
    uvcc_block *k =
        uvcci_add_blocks(b, UVCC_TASK_ONE_HOT_KEYS, 0, roles, tensor_of(b, out)->elems, &n);
    for (uint32_t i = 0; i < n; i++) {
        if (k[i].role == UVCC_HEAD)
            uvcci_set_one_hot_dealt(&k[i], numbers, keys_of(b, out), key_words,
                                    behind_keys(b, out));
        else
            uvcci_set_one_hot_roots(&k[i], behind_keys(b, out));
    }
}

/* All keys to one of the others. */
static void send_keys(uvcci_builder *b, unsigned slot) {
    uint32_t n;
    uvcc_block *k = uvcci_add_op_blocks(b, UVCC_TASK_PACK, 0, UVCCI_ROLE_HEAD, &n);
    for (uint32_t i = 0; i < n; i++)
        uvcci_set_pack(&k[i], keys_of(b, b->r->op->desc.out[0]),
                       uvcci_sent_at(b->r, ROUND, 0, slot, k[i].block));
}

static void take_keys(uvcci_builder *b) {
    uint32_t n;
    uvcc_block *k =
        uvcci_add_op_blocks(b, UVCC_TASK_UNPACK, 0, UVCCI_ROLE_TAIL | UVCCI_ROLE_OTHER, &n);
    for (uint32_t i = 0; i < n; i++)
        uvcci_set_unpack(&k[i], uvcci_rx_at(b->r, ROUND, 0, UVCCI_FIRST, k[i].block),
                         keys_of(b, b->r->op->desc.out[0]));
}

static bool build_input(uvcci_builder *b) {
    if (!uvcci_ensure_outputs(b))
        return false;
    assert(b->r->turn <= 1);
    if (b->r->turn == 0) {
        make_keys(b, UVCCI_ROLE_HEAD);
        send_keys(b, UVCCI_FIRST);
        send_keys(b, UVCCI_SECOND);
    } else {
        take_keys(b);
        make_keys(b, UVCCI_ROLE_TAIL | UVCCI_ROLE_OTHER);
    }
    return uvcci_end_turn(b);
}

/* ---- EMBED: what it asks ---- */

enum { IDS = 0, TABLE = 1, SUM = 2 };

/* The table is one of rows for a column of numbers, or two of them, one below the other. */
static unsigned tables_of(const uvcc_op_desc *d) {
    return d->constant != 0 ? 2 : 1;
}
static uint64_t table_first(const uvcc_op_desc *d, unsigned table) {
    return table == 0 ? 0 : (uint64_t)d->constant;
}
static uint64_t table_rows(const uvcc_op_desc *d, const uvcc_tensor_desc *rows, unsigned table) {
    return table == 0 && tables_of(d) == 2 ? (uint64_t)d->constant
                                           : rows->rows - table_first(d, table);
}

static int check_tables(const uvcci_op_check *c) {
    const uvcc_tensor_desc *ids = c->in[IDS], *rows = c->in[TABLE];
    if (c->d->constant < 0 || c->d->constant >= (int64_t)rows->rows)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: a second table from row %lld of %s on, which has %u", c->label,
                          (long long)c->d->constant, rows->name, rows->rows);
    if (ids->cols != tables_of(c->d))
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM,
                          "%s: %s has %u columns; a column for each table, 1, or 2 with a constant",
                          c->label, ids->name, ids->cols);
    for (unsigned i = 0; i < tables_of(c->d); i++)
        if (table_rows(c->d, rows, i) > (uint64_t)1 << ids->bits)
            return uvcci_fail(c->m, UVCC_ERR_BOUND,
                              "%s: numbers of %u bits in %s do not reach %llu rows", c->label,
                              ids->bits, ids->name, (unsigned long long)table_rows(c->d, rows, i));
    return 0;
}

static int check_embed(const uvcci_op_check *c) {
    const uvcc_tensor_desc *ids = c->in[IDS], *rows = c->in[TABLE], *z = c->out[0];
    if (c->d->in_count != 2 && c->d->in_count != 3)
        return uvcci_fail(c->m, UVCC_ERR_PROGRAM, "%s has %u inputs; it takes 2 or 3", c->label,
                          c->d->in_count);
    int err = check_tables(c);
    if (err == 0)
        err = uvcci_want_shape(c, z, ids->rows, rows->cols);
    if (err == 0)
        err = uvcci_want_scale(c, z, rows->scale);
    if (err == 0 && c->d->in_count == 3)
        err = uvcci_want_same_shape(c, c->in[SUM], z);
    if (err == 0 && c->d->in_count == 3)
        err = uvcci_want_scale(c, c->in[SUM], z->scale);
    return err;
}

/* A row of each table, and what was there before. */
static uint64_t embed_sum_max(const uvcc_program *p, const uvcc_op_desc *d) {
    const uint64_t row = 1ull << p->tensors[d->in[TABLE]].desc.bits;
    const uint64_t before = d->in_count == 3 ? p->tensors[d->in[SUM]].sum_max : 0;
    return uvcci_sat_add(uvcci_sat_mul(row, tables_of(d)), before);
}

/* ---- EMBED: tiles ---- */

/* A tile is some rows by some of the table's rows: enough for a product to be worth its packing,
 * little enough to stay in a cache. */
enum { CHUNK_ROWS = 1024, TILE_WORDS = 1 << 19, TILE_COLS_LEAST = 256, TILE_COLS_MOST = 2048 };

/* All tasks are listed at once. So many take days, with numbers or tables beyond any memory. */
enum { TASKS_MOST = 1 << 28 };

static uint32_t chunk_rows(const uvcc_tensor_desc *ids) {
    return ids->rows < CHUNK_ROWS ? ids->rows : CHUNK_ROWS;
}

static uint32_t tile_cols(const uvcc_tensor_desc *ids, const uvcc_tensor_desc *rows) {
    const uint32_t room = TILE_WORDS / chunk_rows(ids);
    uint32_t cols = TILE_COLS_MOST;
    while (cols > TILE_COLS_LEAST && cols > room)
        cols /= 2;
    return rows->rows < cols ? rows->rows : cols;
}

static uint64_t tile_words(const uvcc_program *p, const uvcc_op_desc *d) {
    const uvcc_tensor_desc *ids = &p->tensors[d->in[IDS]].desc;
    return (uint64_t)chunk_rows(ids) * tile_cols(ids, &p->tensors[d->in[TABLE]].desc);
}

static uint64_t embed_bytes(const uvcc_program *p, const uvcci_op *op, const uvcci_plan *plan) {
    (void)plan;
    return uvcci_arena_rounded(tile_words(p, &op->desc) * 8);
}

static uint32_t chunks_of(const uvcc_tensor_desc *ids) {
    return (ids->rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
}

static int plan_embed(uvcci_draft *d) {
    const uvcc_op_desc *op = &d->op->desc;
    const uvcc_tensor_desc *ids = &d->p->tensors[op->in[IDS]].desc;
    const uvcc_tensor_desc *rows = &d->p->tensors[op->in[TABLE]].desc;
    const bool dealt = uvcci_is_dealt(ids);
    uint32_t i = 0;
    while (i < d->e->input_count && d->e->inputs[i].tensor != op->in[IDS])
        i++;
    if (i == d->e->input_count && !dealt)
        return UVCC_ERR_PROGRAM; /* nothing else writes such a tensor */
    d->plan->fixed_edge = dealt ? 0 : d->e->inputs[i].owner;
    d->plan->bits = ids->bits;
    const uint64_t tiles = (uint64_t)rows->rows / tile_cols(ids, rows) + tables_of(op);
    const uint64_t tasks = 2 * tiles * chunks_of(ids) * (dealt ? 2 : 1);
    if (tasks > TASKS_MOST)
        return UVCC_ERR_PROGRAM;
    d->plan->tasks_max += (uint32_t)tasks;
    return 0;
}

/* ---- EMBED: tasks ---- */

typedef struct embed_state {
    uint64_t *tile;
} embed_state;

static embed_state *state_of(const uvcci_instance *r) {
    assert(r->state != NULL);
    return r->state;
}

static void release_embed(uvcc_session *s, uvcci_instance *r) {
    uvcci_give_words(s, &state_of(r)->tile, tile_words(s->program, &r->op->desc));
}

/* Rows that this party makes, and what it multiplies them by. */
typedef struct product {
    uvcci_role role;
    uint64_t *keys;           /* of HEAD the numbers */
    uvcc_shares factor;       /* of the table */
    const uvcc_step_keys *of; /* of the trees */
} product;

enum { PRODUCTS_MOST = 2 };

/* HEAD multiplies by the sum of its components, the two others by the one that both have. What is
 * public is HEAD's business alone. */
static unsigned owned_products(const uvcci_builder *b, product out[PRODUCTS_MOST]) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcc_shares *e = uvcci_shares_of(b->s, d->in[TABLE]);
    const uvcci_role role = uvcci_role_at(b->s, b->r, 0);
    const bool open = tensor_of(b, d->in[TABLE])->desc.sharing == UVCC_PUBLIC;
    if (open && role != UVCCI_HEAD)
        return 0;
    out[0] =
        (product){.role = role,
                  .keys = role == UVCCI_HEAD ? behind_keys(b, d->in[IDS]) : keys_of(b, d->in[IDS]),
                  .factor = *e,
                  .of = &b->r->step->keys};
    if (role != UVCCI_HEAD)
        out[0].factor = (uvcc_shares){.lo = role == UVCCI_TAIL ? e->hi : e->lo};
    return 1;
}

/* By each component with the keys of its pair. What is public counts as component 0. */
static unsigned dealt_products(const uvcci_builder *b, product out[PRODUCTS_MOST]) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcc_shares *e = uvcci_shares_of(b->s, d->in[TABLE]);
    const uvcc_shares *ids = uvcci_shares_of(b->s, d->in[IDS]);
    const bool open = tensor_of(b, d->in[TABLE])->desc.sharing == UVCC_PUBLIC;
    const product of[PRODUCTS_MOST] = {
        {.role = UVCCI_OTHER, .keys = ids->lo, .factor = {.lo = e->lo}, .of = &b->s->dealt},
        {.role = UVCCI_TAIL,
         .keys = ids->hi,
         .factor = {.lo = open ? e->lo : e->hi},
         .of = &b->s->dealt},
    };
    unsigned n = 0;
    for (uint8_t i = 0; i < PRODUCTS_MOST; i++)
        if (!open || (b->s->party + i) % UVCC_PARTIES == 0)
            out[n++] = of[i];
    return n;
}

/* z of some rows (+)= their one-hot rows, of a table's rows from `first` on, times these. */
static void multiply_tile(uvcci_builder *b, const product *of, const uvcc_block *rows,
                          uint64_t first, uint32_t cols, const uvcc_shares *factor, uint64_t *z,
                          bool accumulate) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *table = tensor_of(b, d->in[TABLE]);
    uvcc_task *t = uvcci_add_task(b, UVCC_TASK_ONE_HOT_ROWS, 0);
    if (t == NULL)
        return;
    t->keys = of->of;
    t->u.vec.blocks = rows;
    t->u.vec.count = 1;
    t->u.vec.bits = b->r->plan->bits;
    t->u.vec.constant = first;
    t->u.vec.cols = cols;
    t->u.vec.step = tables_of(d);
    t = uvcci_add_task(b, UVCC_TASK_GEMM, 0);
    if (t == NULL)
        return;
    t->u.gemm.m = rows->count;
    t->u.gemm.n = table->desc.cols;
    t->u.gemm.k = cols;
    t->u.gemm.accumulate = accumulate;
    t->u.gemm.y_bytes = table->width < 8 ? table->width : 0;
    t->u.gemm.x = (uvcc_shares){.lo = rows->out[0]};
    t->u.gemm.y = *factor;
    t->u.gemm.z = z;
}

/* The rows of one chunk and table: `k` is where these keys, or numbers, and the tile are. */
static void multiply_table(uvcci_builder *b, const product *of, const uvcc_block *k, unsigned table,
                           uint64_t *z, bool accumulate) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcc_tensor_desc *ids = &tensor_of(b, d->in[IDS])->desc;
    const uvcc_tensor_desc *rows = &tensor_of(b, d->in[TABLE])->desc;
    const uint64_t from = table_first(d, table), end = table_rows(d, rows, table);
    const uint32_t most = tile_cols(ids, rows);
    for (uint64_t first = 0; first < end; first += most) {
        const uint32_t cols = (uint32_t)(end - first < most ? end - first : most);
        const uint64_t at = (from + first) * rows->cols * tensor_of(b, d->in[TABLE])->width;
        const uvcc_shares factor = {.lo = (uint64_t *)(void *)((uint8_t *)of->factor.lo + at),
                                    .hi = of->factor.hi != NULL ? of->factor.hi + at / 8 : NULL};
        multiply_tile(b, of, k, first, cols, &factor, z, accumulate || first != 0);
    }
}

/* A block for each chunk of rows and table, the same for all tiles. */
static uvcc_block *chunk_blocks(uvcci_builder *b, const product *of) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcci_tensor *ids = tensor_of(b, d->in[IDS]);
    const uint32_t chunks = chunks_of(&ids->desc), tables = tables_of(d);
    const uint32_t key_words = uvcci_one_hot_key_words(ids->desc.bits);
    uvcc_block *blocks = uvcci_bump_take(&b->r->turn_bump, chunks * tables * sizeof *blocks);
    if (blocks == NULL) {
        b->failed = true;
        return NULL;
    }
    for (uint32_t i = 0; i < chunks * tables; i++) {
        const uint32_t row = i / tables * CHUNK_ROWS, left = ids->desc.rows - row;
        const uint64_t at = (uint64_t)row * tables + i % tables;
        uvcc_block *k = &blocks[i];
        *k = (uvcc_block){.block = i / tables,
                          .count = left < CHUNK_ROWS ? left : CHUNK_ROWS,
                          .role = (uint8_t)of->role};
        if (of->role == UVCCI_HEAD)
            uvcci_set_one_hot_known(k, of->keys + at, state_of(b->r)->tile);
        else
            uvcci_set_one_hot_shared(k, of->keys + at * key_words,
                                     roots_of(ids, of->keys) + at * UVCCI_ONE_HOT_ROOT_WORDS,
                                     state_of(b->r)->tile);
    }
    return blocks;
}

/* All rows of one product. */
static void multiply(uvcci_builder *b, const product *of, const uvcc_shares *out, bool accumulate) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const uvcc_block *k = chunk_blocks(b, of);
    const uint32_t tables = tables_of(d), width = tensor_of(b, d->out[0])->desc.cols;
    for (uint32_t i = 0; k != NULL && i < chunks_of(&tensor_of(b, d->in[IDS])->desc) * tables; i++)
        multiply_table(b, of, &k[i], i % tables,
                       out->lo + (uint64_t)(i / tables) * CHUNK_ROWS * width,
                       accumulate || i % tables != 0);
}

/* Nothing to add: what others add a public table's rows to. INDEX is 0 in components but the first.
 */
static void clear(uvcci_builder *b, const uvcc_tensor_desc *z, const uvcc_shares *out) {
    uvcc_task *t = uvcci_task_map(b, UVCC_MAP_INDEX, z->rows, z->cols, out, NULL, out);
    if (t != NULL)
        t->u.map.party = 1;
}

static bool build_embed(uvcci_builder *b) {
    const uvcc_op_desc *d = &b->r->op->desc;
    const bool added = d->in_count == 3;
    product of[PRODUCTS_MOST];
    assert(b->r->turn == 0);
    if (!uvcci_ensure_outputs(b) ||
        !uvcci_take_words(b->s, &state_of(b->r)->tile, tile_words(b->s->program, d)))
        return false;
    const uvcci_tensor *z = tensor_of(b, d->out[0]);
    const uvcc_shares *out = uvcci_shares_of(b->s, d->out[0]);
    if (added && tensor_of(b, d->in[SUM])->buffer != z->buffer)
        (void)uvcci_task_map(b, UVCC_MAP_COPY, z->desc.rows, z->desc.cols,
                             uvcci_shares_of(b->s, d->in[SUM]), NULL, out);
    const unsigned n = uvcci_is_dealt(&tensor_of(b, d->in[IDS])->desc) ? dealt_products(b, of)
                                                                       : owned_products(b, of);
    if (n == 0 && !added)
        clear(b, &z->desc, out);
    for (unsigned i = 0; i < n; i++)
        multiply(b, &of[i], out, added || i != 0);
    return !b->failed;
}

/* ---- the family ---- */

static const uvcci_op_way input_way = {.ready = uvcci_input_ready, .build = build_input};
static const uvcci_op_way embed_way = {.state_bytes = sizeof(embed_state),
                                       .tensor_bytes = embed_bytes,
                                       .build = build_embed,
                                       .release = release_embed};

static const uvcci_op_class classes[] = {
    {.opcode = UVCC_OP_INPUT_ONE_HOT,
     .traits = UVCCI_IS_INPUT | UVCCI_PLANS_BY_ENTRY,
     .out = UVCCI_TAKES_ONE_HOT,
     .plan = plan_input,
     .way = &input_way},
    {.opcode = UVCC_OP_EMBED,
     .traits = UVCCI_USES_CONSTANT | UVCCI_WORKS_IN_PLACE /* on its third input alone */ |
               UVCCI_PLANS_BY_ENTRY | UVCCI_READS_NARROW,
     .in = {[IDS] = UVCCI_TAKES_ONE_HOT,
            [TABLE] = UVCCI_TAKES_REPLICATED | UVCCI_TAKES_PUBLIC,
            [SUM] = UVCCI_TAKES_ADDITIVE},
     .out = UVCCI_TAKES_ADDITIVE,
     .check = check_embed,
     .sum_max = embed_sum_max,
     .plan = plan_embed,
     .way = &embed_way},
};
const uvcci_op_family uvcci_ops_one_hot = UVCCI_FAMILY(classes);
