/* prg_use.c - every job of a run is looked at before it runs: which words of which key stream it
 * reads, that none is read for two ends, and that digests of secrets are salted. The rules are
 * those of <uvcc/compute.h>, written down a second time. */
#include "world.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- one context, one purpose ---- */

/* Kinds of tasks that may read a lane, as <uvcc/compute.h> tells. Each party reads a place at most
 * once per kind; a zero share has one use in all. */
#define KIND(k) (UINT64_C(1) << UVCC_TASK_##k)
/* No lane: that something was opened under a mask, whose words are read for other ends too. */
enum { OPENED_UNDER = 255 };
_Static_assert(UVCC_TASK_KIND_END <= 64, "kinds are bits of a word");
static const struct {
    uvcc_prg_tag tag;
    uint8_t lane;
    bool once; /* one kind per party */
    uint64_t kinds;
    uint64_t again; /* kinds that may read a place as often as a function's steps share it */
} purposes[] = {
    {UVCC_TAG_input, 0, true, KIND(INPUT), 0},
    {UVCC_TAG_input, 1, true, KIND(RANDOM), 0},
    {UVCC_TAG_zero, 0, true, KIND(OPEN4_MASK) | KIND(RESHARE_MASK), 0},
    {UVCC_TAG_own, 0, false, KIND(OPEN4_MASK) | KIND(DEAL), 0},
    {UVCC_TAG_trunc, 0, false, KIND(OPEN4_MASK) | KIND(TRUNC) | KIND(DEAL), 0},
    {UVCC_TAG_trunc, 1, true, KIND(TRUNC) | KIND(DEAL), 0},
    {UVCC_TAG_zero, 3, true, KIND(BOOL_SHARE) | KIND(BOOL_MERGE) | KIND(BOOL_SELECT_MASK), 0},
    {UVCC_TAG_mask, 0, false,
     KIND(OPEN2_MASK) | KIND(RELU) | KIND(DEAL) | KIND(FN_OPEN_MASK) | KIND(FN_PADS) |
         KIND(FN_TABLE) | KIND(FN_DEAL_SCALAR),
     0},
    {UVCC_TAG_mask, 1, true, KIND(FN_TABLE), KIND(FN_DEAL_SCALAR)},
    {UVCC_TAG_mask, 2, true, KIND(LESS_MASK) | KIND(DEAL) | KIND(FN_COMPARE) | KIND(FN_DEAL_BITS),
     0},
    {UVCC_TAG_root, 0, true,
     KIND(LESS_MASK) | KIND(DEAL) | KIND(FN_DEAL_KEY) | KIND(FN_FLOOR) | KIND(FN_DEAL_FLOOR) |
         KIND(FN_SPLINE) | KIND(FN_DEAL_SPLINE) | KIND(FN_MULTISCALE) | KIND(FN_DEAL_MULTISCALE),
     KIND(FN_COMPARE) | KIND(FN_TABLE)},
    {UVCC_TAG_select, 0, true, KIND(TRUNC_EXACT) | KIND(RELU) | KIND(DEAL) | KIND(FN_DEAL_BITS),
     KIND(FN_SELECT) | KIND(FN_BITS)},
    {UVCC_TAG_select, 1, true, KIND(FN_SELECT) | KIND(FN_DEAL_SELECT), 0},
    {UVCC_TAG_select, 2, true,
     KIND(FN_SCALAR) | KIND(FN_DEAL_SCALAR) | KIND(FN_TRUNC) | KIND(FN_DEAL_TRUNC) |
         KIND(FN_SPLINE) | KIND(FN_DEAL_POWERS) | KIND(FN_SELECT) | KIND(FN_DEAL_SELECT) |
         KIND(FN_MUL) | KIND(FN_DEAL_MUL) | KIND(FN_BEST) | KIND(FN_DEAL_BEST),
     0},
    {UVCC_TAG_lift, 0, true, KIND(LIFT_MASK) | KIND(LIFT_FINISH), 0},
    {UVCC_TAG_lift, 1, false, KIND(LIFT_MASK) | KIND(LIFT_FINISH), 0},
    {UVCC_TAG_lift, 2, false, KIND(LIFT_MASK) | KIND(LIFT_FINISH) | KIND(FN_PADS), 0},
    {UVCC_TAG_zero, 1, true, KIND(TRIPLE_C), 0},
    {UVCC_TAG_tripleA, 0, true, 0, KIND(TRIPLE_A)},
    {UVCC_TAG_tripleA, OPENED_UNDER, true, KIND(TRIPLE_A), 0},
    {UVCC_TAG_tripleB, 0, true, 0, KIND(TRIPLE_B)},
    {UVCC_TAG_tripleB, OPENED_UNDER, true, KIND(TRIPLE_B), 0},
};

static sim_use *use_find(sim_world *w, const uint64_t key[2]) {
    size_t i = key[0] & (w->use_cap - 1);
    while (w->uses[i].key[0] != 0 && (w->uses[i].key[0] != key[0] || w->uses[i].key[1] != key[1]))
        i = (i + 1) & (w->use_cap - 1);
    return &w->uses[i];
}

static bool use_grow(sim_world *w) {
    if (2 * w->use_count < w->use_cap)
        return true;
    sim_use *old = w->uses;
    size_t cap = w->use_cap;
    w->use_cap = cap == 0 ? 1024 : 2 * cap;
    w->uses = calloc(w->use_cap, sizeof *w->uses);
    if (w->uses == NULL)
        abort();
    for (size_t i = 0; i < cap; i++)
        if (old[i].key[0] != 0)
            *use_find(w, old[i].key) = old[i];
    free(old);
    return true;
}

/* At another call than the task's own. */
static void use_at(sim_party *p, const uvcc_task *t, uint16_t call, const uvcc_block *b,
                   unsigned pair, uvcc_prg_tag tag, uint8_t lane) {
    sim_world *w = p->w;
    const uint64_t at[3] = {(uint64_t)t->ordinal << 32 | b->block, (uint64_t)call << 32 | lane,
                            tag};
    uint64_t key[2];
    for (unsigned i = 0; i < 2; i++)
        key[i] = sim_hash(at, sizeof at, sim_hash(t->keys->prg[pair][tag], 16, i + 1));
    key[0] |= 1;
    (void)use_grow(w);
    sim_use *u = use_find(w, key);
    if (u->key[0] == 0) {
        w->use_count++;
        memcpy(u->key, key, sizeof key);
    }
    size_t i = 0;
    while (i < sizeof purposes / sizeof purposes[0] &&
           (purposes[i].tag != tag || purposes[i].lane != lane))
        i++;
    uint64_t kind = UINT64_C(1) << t->kind, before = u->kinds[p->index];
    u->kinds[p->index] |= kind;
    if (i < sizeof purposes / sizeof purposes[0] && (purposes[i].again & kind) != 0 &&
        (before & ~purposes[i].again) == 0)
        return;
    if ((before & kind) != 0 || (purposes[i].once && before != 0) ||
        (purposes[i].kinds & kind) == 0)
        sim_fail(
            w,
            "a PRG word is used twice: party %u, tag %u, lane %u, ordinal %u, call %u, block %u, "
            "task %u",
            p->index, tag, lane, t->ordinal, call, b->block, t->kind);
}

static void use(sim_party *p, const uvcc_task *t, const uvcc_block *b, unsigned pair,
                uvcc_prg_tag tag, uint8_t lane) {
    use_at(p, t, t->call, b, pair, tag, lane);
}

/* Which reader a kind has stands in readers[]: no reader is asked for what it does not know. */
static void not_mine(sim_party *p, const uvcc_task *t) {
    sim_fail(p->w, "the check of PRG words does not know what task %u reads: party %u", t->kind,
             p->index);
}

/* Tasks of functions, of the party that deals. */
static void use_function_deal(sim_party *p, const uvcc_task *t, const uvcc_block *b) {
    const uvcc_fn_args *fn = t->u.vec.fn;
    const unsigned ho = UVCC_PAIR_NEXT, to = UVCC_PAIR_PREV;
    switch (t->kind) {
    case UVCC_TASK_FN_DEAL_TRUNC:
    case UVCC_TASK_FN_DEAL_POWERS:
    case UVCC_TASK_FN_DEAL_MUL:
    case UVCC_TASK_FN_DEAL_BEST:
        use(p, t, b, ho, UVCC_TAG_select, 2);
        break;
    case UVCC_TASK_FN_DEAL_FLOOR:
    case UVCC_TASK_FN_DEAL_SPLINE:
    case UVCC_TASK_FN_DEAL_MULTISCALE:
    case UVCC_TASK_FN_DEAL_KEY:
        use_at(p, t, fn->call_key, b, ho, UVCC_TAG_root, 0);
        use_at(p, t, fn->call_key, b, to, UVCC_TAG_root, 0);
        break;
    case UVCC_TASK_FN_DEAL_BITS:
        use(p, t, b, ho, UVCC_TAG_mask, 2);
        use(p, t, b, to, UVCC_TAG_mask, 2);
        use(p, t, b, ho, UVCC_TAG_select, 0);
        break;
    case UVCC_TASK_FN_DEAL_SELECT:
        use(p, t, b, ho, UVCC_TAG_select, b->in[2] == NULL ? 1 : 2);
        break;
    case UVCC_TASK_FN_DEAL_SCALAR:
        for (unsigned pair = 0; pair < 2; pair++) {
            use(p, t, b, pair, UVCC_TAG_mask, 1);
            if (fn->times)
                use(p, t, b, pair, UVCC_TAG_mask, 0);
            if (fn->by_table)
                use_at(p, t, fn->call_bits, b, pair, UVCC_TAG_mask, 1);
        }
        use(p, t, b, ho, UVCC_TAG_select, 2);
        break;
    default:
        not_mine(p, t);
    }
}

/* Tasks of functions, of those that hold keys. */
static void use_function(sim_party *p, const uvcc_task *t, const uvcc_block *b) {
    const uvcc_fn_args *fn = t->u.vec.fn;
    const uvcc_role role = (uvcc_role)b->role;
    const unsigned other = role == UVCC_HEAD ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
    const bool head = role == UVCC_HEAD;
    switch (t->kind) {
    case UVCC_TASK_FN_OPEN_MASK:
        use(p, t, b, other, UVCC_TAG_mask, 0);
        break;
    case UVCC_TASK_FN_PADS:
        for (unsigned pair = 0; pair < 2; pair++)
            if (role == UVCC_OTHER || pair == other)
                use(p, t, b, pair, fn->exchange ? UVCC_TAG_lift : UVCC_TAG_mask,
                    fn->exchange ? 2 : 0);
        break;
    case UVCC_TASK_FN_COMPARE:
        use_at(p, t, fn->call_key, b, other, UVCC_TAG_root, 0);
        use(p, t, b, other, UVCC_TAG_mask, 2);
        break;
    case UVCC_TASK_FN_TABLE:
        use_at(p, t, fn->call_key, b, other, UVCC_TAG_root, 0);
        use(p, t, b, other, UVCC_TAG_mask, 1);
        if (fn->times)
            use(p, t, b, other, UVCC_TAG_mask, 0);
        break;
    case UVCC_TASK_FN_SELECT:
    case UVCC_TASK_FN_BITS:
        if (head)
            use_at(p, t, fn->call_bits, b, other, UVCC_TAG_select, 0);
        if (head && t->kind == UVCC_TASK_FN_SELECT)
            use(p, t, b, other, UVCC_TAG_select, b->in[3] == NULL ? 1 : 2);
        break;
    case UVCC_TASK_FN_FLOOR:
    case UVCC_TASK_FN_MULTISCALE:
    case UVCC_TASK_FN_SPLINE:
        use_at(p, t, fn->call_key, b, other, UVCC_TAG_root, 0);
        if (head && t->kind == UVCC_TASK_FN_SPLINE)
            use(p, t, b, other, UVCC_TAG_select, 2);
        break;
    case UVCC_TASK_FN_SCALAR:
    case UVCC_TASK_FN_TRUNC:
    case UVCC_TASK_FN_MUL:
    case UVCC_TASK_FN_BEST:
        if (head)
            use(p, t, b, other, UVCC_TAG_select, 2);
        break;
    default:
        not_mine(p, t);
    }
}

static void use_mask(sim_party *p, const uvcc_task *t, const uvcc_block *b, uvcc_prg_tag tag) {
    for (unsigned k = 0; k < 2; k++) {
        const unsigned pair = k == 0 ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
        if (b->out[k] == NULL)
            continue;
        use(p, t, b, pair, tag, 0);
        if (b->in[0] != NULL)
            use(p, t, b, pair, tag, OPENED_UNDER);
    }
}

static void use_deal(sim_party *p, const uvcc_task *t, const uvcc_block *b) {
    const unsigned ho = UVCC_PAIR_NEXT, to = UVCC_PAIR_PREV;
    const uint8_t gate = t->u.vec.gate;
    if (gate != UVCC_GATE_RELU && t->u.vec.compact) {
        use(p, t, b, UVCC_PAIR_OWN, UVCC_TAG_own, 0);
        use(p, t, b, ho, UVCC_TAG_trunc, 0);
        use(p, t, b, to, UVCC_TAG_trunc, 0);
    } else {
        use(p, t, b, ho, UVCC_TAG_mask, 0);
        use(p, t, b, to, UVCC_TAG_mask, 0);
    }
    if (gate != UVCC_GATE_RELU)
        use(p, t, b, ho, UVCC_TAG_trunc, 1);
    if (gate == UVCC_GATE_TRUNC_SR)
        return;
    use(p, t, b, ho, UVCC_TAG_root, 0);
    use(p, t, b, to, UVCC_TAG_root, 0);
    if (gate == UVCC_GATE_TRUNC_DCF)
        return;
    use(p, t, b, ho, UVCC_TAG_mask, 2);
    use(p, t, b, to, UVCC_TAG_mask, 2);
    use(p, t, b, ho, UVCC_TAG_select, 0);
}

/* Tasks that carry a gate's result back to full shares. */
static void use_lift(sim_party *p, const uvcc_task *t, const uvcc_block *b) {
    const uvcc_role role = (uvcc_role)b->role;
    const unsigned other = role == UVCC_HEAD ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
    const unsigned next = UVCC_PAIR_NEXT, prev = UVCC_PAIR_PREV;
    switch (t->kind) {
    case UVCC_TASK_LIFT_MASK:
        if (role == UVCC_OTHER)
            break;
        if (t->u.vec.lift == UVCC_LIFT_EXCHANGE) {
            use(p, t, b, other, UVCC_TAG_lift, 2);
            break;
        }
        if (role == UVCC_HEAD)
            use(p, t, b, prev, UVCC_TAG_lift, 0);
        use(p, t, b, role == UVCC_HEAD ? next : prev, UVCC_TAG_lift, 1);
        break;
    case UVCC_TASK_LIFT_FINISH:
        if (role == UVCC_OTHER && t->u.vec.lift == UVCC_LIFT_EXCHANGE) {
            use(p, t, b, prev, UVCC_TAG_lift, 2);
            use(p, t, b, next, UVCC_TAG_lift, 2);
        } else if (role == UVCC_OTHER) {
            use(p, t, b, next, UVCC_TAG_lift, 0);
        } else if (role == UVCC_TAIL && t->u.vec.lift == UVCC_LIFT_PARALLEL) {
            use(p, t, b, prev, UVCC_TAG_lift, 1);
        }
        break;
    default:
        not_mine(p, t);
    }
}

/* Tasks of truncations and comparisons, on dealt keys or without. */
static void use_gate(sim_party *p, const uvcc_task *t, const uvcc_block *b) {
    const uvcc_role role = (uvcc_role)b->role;
    const unsigned other = role == UVCC_HEAD ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
    const unsigned next = UVCC_PAIR_NEXT, prev = UVCC_PAIR_PREV;
    switch (t->kind) {
    case UVCC_TASK_OPEN2_MASK:
        if (role != UVCC_OTHER)
            use(p, t, b, other, UVCC_TAG_mask, 0);
        break;
    case UVCC_TASK_TRUNC:
        if (role == UVCC_HEAD)
            use(p, t, b, prev, UVCC_TAG_trunc, 1);
        if (role != UVCC_OTHER && t->u.vec.compact)
            use(p, t, b, other, UVCC_TAG_trunc, 0);
        break;
    case UVCC_TASK_LESS_MASK:
        if (role == UVCC_OTHER)
            break;
        use(p, t, b, other, UVCC_TAG_root, 0);
        use(p, t, b, other, UVCC_TAG_mask, 2);
        break;
    case UVCC_TASK_TRUNC_EXACT:
        if (role == UVCC_HEAD)
            use(p, t, b, prev, UVCC_TAG_select, 0);
        break;
    case UVCC_TASK_RELU:
        if (role == UVCC_OTHER)
            break;
        use(p, t, b, other, UVCC_TAG_mask, 0);
        if (role == UVCC_HEAD)
            use(p, t, b, prev, UVCC_TAG_select, 0);
        break;
    case UVCC_TASK_DEAL:
        use_deal(p, t, b);
        break;
    case UVCC_TASK_BOOL_SHARE:
    case UVCC_TASK_BOOL_MERGE:
    case UVCC_TASK_BOOL_SELECT_MASK:
        use(p, t, b, next, UVCC_TAG_zero, 3);
        use(p, t, b, prev, UVCC_TAG_zero, 3);
        break;
    default:
        not_mine(p, t);
    }
}

/* What a block of a task reads, as compute.h defines the task: inputs and products here. */
static void use_block(sim_party *p, const uvcc_task *t, const uvcc_block *b) {
    const uvcc_role role = (uvcc_role)b->role;
    const unsigned other = role == UVCC_HEAD ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
    const unsigned next = UVCC_PAIR_NEXT, prev = UVCC_PAIR_PREV;
    switch (t->kind) {
    case UVCC_TASK_INPUT:
        if (role != UVCC_OTHER)
            use(p, t, b, prev, UVCC_TAG_input, 0);
        if (role != UVCC_TAIL)
            use(p, t, b, next, UVCC_TAG_input, 0);
        break;
    case UVCC_TASK_RANDOM:
        use(p, t, b, prev, UVCC_TAG_input, 1);
        use(p, t, b, next, UVCC_TAG_input, 1);
        break;
    case UVCC_TASK_OPEN4_MASK:
        use(p, t, b, next, UVCC_TAG_zero, 0);
        use(p, t, b, prev, UVCC_TAG_zero, 0);
        if (role == UVCC_OTHER)
            use(p, t, b, UVCC_PAIR_OWN, UVCC_TAG_own, 0);
        else
            use(p, t, b, other, UVCC_TAG_trunc, 0);
        break;
    case UVCC_TASK_RESHARE_MASK:
        use(p, t, b, next, UVCC_TAG_zero, 0);
        use(p, t, b, prev, UVCC_TAG_zero, 0);
        break;
    case UVCC_TASK_TRIPLE_A:
        use_mask(p, t, b, UVCC_TAG_tripleA);
        break;
    case UVCC_TASK_TRIPLE_B:
        use_mask(p, t, b, UVCC_TAG_tripleB);
        break;
    case UVCC_TASK_TRIPLE_C:
        use(p, t, b, next, UVCC_TAG_zero, 1);
        use(p, t, b, prev, UVCC_TAG_zero, 1);
        break;
    default:
        not_mine(p, t);
    }
}

typedef void reader(sim_party *p, const uvcc_task *t, const uvcc_block *b);

/* Who knows what words each kind reads; NULL: it reads none (BIT_SUMS those of a key that a coin
 * gave). A kind that has no line here does not compile. */
#define READS_INPUT              use_block
#define READS_RANDOM             use_block
#define READS_OPEN4_MASK         use_block
#define READS_RESHARE_MASK       use_block
#define READS_TRIPLE_A           use_block
#define READS_TRIPLE_B           use_block
#define READS_TRIPLE_C           use_block
#define READS_OPEN2_MASK         use_gate
#define READS_TRUNC              use_gate
#define READS_LESS_MASK          use_gate
#define READS_TRUNC_EXACT        use_gate
#define READS_RELU               use_gate
#define READS_DEAL               use_gate
#define READS_BOOL_SHARE         use_gate
#define READS_BOOL_MERGE         use_gate
#define READS_BOOL_SELECT_MASK   use_gate
#define READS_LIFT_MASK          use_lift
#define READS_LIFT_FINISH        use_lift
#define READS_FN_OPEN_MASK       use_function
#define READS_FN_PADS            use_function
#define READS_FN_COMPARE         use_function
#define READS_FN_SELECT          use_function
#define READS_FN_BITS            use_function
#define READS_FN_TABLE           use_function
#define READS_FN_SCALAR          use_function
#define READS_FN_MUL             use_function
#define READS_FN_TRUNC           use_function
#define READS_FN_BEST            use_function
#define READS_FN_MULTISCALE      use_function
#define READS_FN_FLOOR           use_function
#define READS_FN_SPLINE          use_function
#define READS_FN_DEAL_KEY        use_function_deal
#define READS_FN_DEAL_BITS       use_function_deal
#define READS_FN_DEAL_SELECT     use_function_deal
#define READS_FN_DEAL_SCALAR     use_function_deal
#define READS_FN_DEAL_MUL        use_function_deal
#define READS_FN_DEAL_TRUNC      use_function_deal
#define READS_FN_DEAL_BEST       use_function_deal
#define READS_FN_DEAL_MULTISCALE use_function_deal
#define READS_FN_DEAL_FLOOR      use_function_deal
#define READS_FN_DEAL_SPLINE     use_function_deal
#define READS_FN_DEAL_POWERS     use_function_deal
#define READS_OPEN_FINISH        NULL
#define READS_UNPACK             NULL
#define READS_PACK               NULL
#define READS_OPEN_ALL_FINISH    NULL
#define READS_OPEN_BITS          NULL
#define READS_FN_OPEN_FINISH     NULL
#define READS_FN_SHIFT           NULL
#define READS_FN_OPEN_BITS       NULL
#define READS_FN_ADD             NULL
#define READS_BOOL_JOIN          NULL
#define READS_BOOL_RECEIVE       NULL
#define READS_BOOL_SELECT_FINISH NULL
#define READS_MAP                NULL
#define READS_GEMM               NULL
#define READS_HASH               NULL
#define READS_COPY               NULL
#define READS_WIPE               NULL
#define READS_COLLECTIVE         NULL
#define READS_BIT_SUMS           NULL
static reader *const readers[] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = READS_##name,
#include <uvcc/tasks.def>
#undef UVCC_TASK
};

/* Without salt: a checkpoint's digest, which stays at home; the two copies of an opened component
 * that are compared; and what is opened to all. */
static bool may_be_plain(const uvcc_job *job, const uvcc_hash_item *it, bool *leaf) {
    *leaf = false;
    if (it->prefix_len >= 13 && memcmp(it->prefix, "UVCC_CHECK_V1", 13) == 0)
        return true;
    *leaf = true;
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        if (t->kind == UVCC_TASK_OPEN_ALL_FINISH && t->u.vec.count != 0 &&
            (const uint8_t *)t->u.vec.blocks[0].out[0] == it->data)
            return true;
    }
    *leaf = false; /* last: what is still to be computed may lie where a checkpoint was */
    return it->len >= 4 && memcmp(it->data, "UVCK", 4) == 0;
}

/* The first job of a checked product makes a triple and has commitments, but no lift. */
static bool starts_check(const uvcc_job *job) {
    bool triple = false, commits = false;
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        triple |= t->kind == UVCC_TASK_TRIPLE_C;
        commits |= t->kind == UVCC_TASK_HASH && t->u.hash.items[0].mode == UVCC_HASH_HMAC;
    }
    return triple && commits;
}

static void inspect_hash(sim_party *p, const uvcc_job *job, const uvcc_task *t) {
    static const uint8_t zero[32];
    for (uint32_t i = 0; i < t->u.hash.count; i++) {
        const uvcc_hash_item *it = &t->u.hash.items[i];
        bool leaf = true;
        if (it->mode == UVCC_HASH_PLAIN ? !may_be_plain(job, it, &leaf)
                                        : memcmp(it->key, zero, 32) == 0)
            sim_fail(p->w, "party %u: a digest of secrets has no salt", p->index);
        const bool verdict = it->prefix_len >= 3 && memcmp(it->prefix, "SKS", 3) == 0;
        p->hash_items += leaf && !verdict;
        p->verdict_items += verdict;
        p->commit_items += it->mode == UVCC_HASH_HMAC && !verdict && !starts_check(job);
    }
}

/* The job of a Beaver product itself takes masks one component at a time. Its op has a leaf without
 * a digest. */
static bool consumes_triple(const uvcc_job *job) {
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        if ((t->kind == UVCC_TASK_TRIPLE_A || t->kind == UVCC_TASK_TRIPLE_B) &&
            t->u.vec.blocks[0].out[1] == NULL)
            return true;
    }
    return false;
}

void sim_inspect(sim_party *p, const uvcc_job *job) {
    p->coins += starts_check(job);
    p->hash_items += consumes_triple(job);
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        assert(t->kind < UVCC_TASK_KIND_END);
        reader *const reads = readers[t->kind];
        if (t->kind == UVCC_TASK_HASH)
            inspect_hash(p, job, t);
        for (uint32_t k = 0; reads != NULL && k < t->u.vec.count; k++)
            reads(p, t, &t->u.vec.blocks[k]);
    }
}
