/* SPDX-License-Identifier: Apache-2.0 */
/* prg_uses.c - see <uvcc/prg_uses.h>: which words of which key stream each kind of task reads, and
 * that none is read for two ends. The rules are those of compute.md, written down a second time. */
#include "exec/compute/prg_uses.h"

#include "proto/crypto.h"

#include <assert.h>
#include <string.h>

/* ---- one context, one purpose ---- */

/* Kinds of tasks that may read a lane, as <uvcc/compute.h> tells. Each party reads a place at most
 * once per kind; a zero share has one use in all. Lanes that are always read together have one
 * place here: trunc 1 stands for 2 as well, select 0 of RELU and DEAL for 1. */
#define KIND(k) BIT_OF(UVCC_TASK_##k)
/* MAP to OPEN_BITS read nothing: no bits are kept for them. */
enum { NO_BITS_FIRST = 16, NO_BITS_END = 22 };
#define BIT_OF(kind)                                                                               \
    (UINT64_C(1) << ((unsigned)(kind) < NO_BITS_FIRST                                              \
                         ? (unsigned)(kind)                                                        \
                         : (unsigned)(kind) - (NO_BITS_END - NO_BITS_FIRST)))
_Static_assert((int)UVCC_TASK_MAP == NO_BITS_FIRST && (int)UVCC_TASK_OPEN_BITS + 1 == NO_BITS_END,
               "these kinds");
/* No lane: that something was opened under a mask, whose words are read for other ends too. */
enum { OPENED_UNDER = 255 };
_Static_assert((int)UVCC_TASK_KIND_END - (NO_BITS_END - NO_BITS_FIRST) <= 64,
               "kinds are bits of a word");
static const struct {
    uvcc_prg_tag tag;
    uint8_t lane;
    bool once; /* one kind per party */
    uint64_t kinds;
    uint64_t again; /* kinds that may read a place as often as a function's steps share it */
} purposes[] = {
    {UVCC_TAG_input, 0, true, KIND(INPUT), 0},
    {UVCC_TAG_input, 1, true, KIND(RANDOM), 0},
    {UVCC_TAG_zero, 0, true, KIND(OPEN4_MASK) | KIND(RESHARE_MASK) | KIND(SR_OPEN), 0},
    {UVCC_TAG_own, 0, false, KIND(OPEN4_MASK) | KIND(DEAL), 0},
    {UVCC_TAG_own, 2, false, KIND(SR_OPEN) | KIND(SR_SEND), 0},
    {UVCC_TAG_trunc, 0, false,
     KIND(OPEN4_MASK) | KIND(TRUNC) | KIND(DEAL) | KIND(SR_OPEN) | KIND(SR_SEND) | KIND(SR_FINISH),
     0},
    {UVCC_TAG_trunc, 1, true, KIND(TRUNC) | KIND(DEAL), 0},
    {UVCC_TAG_trunc, 3, false, KIND(SR_OPEN) | KIND(SR_FINISH) | KIND(SR2_SEND) | KIND(SR2_FINISH),
     0},
    {UVCC_TAG_trunc, 4, false,
     KIND(SR_OPEN) | KIND(SR_SEND) | KIND(SR_FINISH) | KIND(SR2_SEND) | KIND(SR2_FINISH), 0},
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
         KIND(FN_SPLINE) | KIND(FN_DEAL_SPLINE) | KIND(FN_MULTISCALE) | KIND(FN_DEAL_MULTISCALE) |
         KIND(ONE_HOT_KEYS),
     KIND(FN_COMPARE) | KIND(FN_TABLE)},
    {UVCC_TAG_select, 0, true, KIND(TRUNC_EXACT) | KIND(RELU) | KIND(DEAL) | KIND(FN_DEAL_BITS),
     KIND(FN_SELECT) | KIND(FN_BITS)},
    {UVCC_TAG_select, 1, true, KIND(FN_SELECT) | KIND(FN_DEAL_SELECT), 0},
    {UVCC_TAG_select, 2, true,
     KIND(FN_SCALAR) | KIND(FN_DEAL_SCALAR) | KIND(FN_TRUNC) | KIND(FN_DEAL_TRUNC) |
         KIND(FN_SPLINE) | KIND(FN_DEAL_POWERS) | KIND(FN_SELECT) | KIND(FN_DEAL_SELECT) |
         KIND(FN_MUL) | KIND(FN_DEAL_MUL) | KIND(FN_BEST) | KIND(FN_DEAL_BEST),
     0},
    {UVCC_TAG_lift, 0, true,
     KIND(LIFT_MASK) | KIND(LIFT_FINISH) | KIND(SR_SEND) | KIND(SR_FINISH) | KIND(SR2_SEND) |
         KIND(SR2_FINISH),
     0},
    {UVCC_TAG_lift, 1, false, KIND(LIFT_MASK) | KIND(LIFT_FINISH), 0},
    {UVCC_TAG_lift, 2, false, KIND(LIFT_MASK) | KIND(LIFT_FINISH) | KIND(FN_PADS), 0},
    {UVCC_TAG_zero, 1, true, KIND(TRIPLE_C), 0},
    {UVCC_TAG_tripleA, 0, true, 0, KIND(TRIPLE_A)},
    {UVCC_TAG_tripleA, OPENED_UNDER, true, KIND(TRIPLE_A), 0},
    {UVCC_TAG_tripleB, 0, true, 0, KIND(TRIPLE_B)},
    {UVCC_TAG_tripleB, OPENED_UNDER, true, KIND(TRIPLE_B), 0},
};

/* ---- places ---- */

typedef struct place {
    uint64_t kinds; /* that read it; 0: no place */
    uint64_t key;   /* names the PRG key */
    uint32_t ordinal, block;
    uint16_t call;
    uint8_t pair, tag, lane;
} place;

_Static_assert(sizeof(place) <= UVCC_PRG_PLACE_BYTES, "prg_uses.h says so");

struct uvcc_prg_uses {
    uvcc_allocator alloc;
    bool by_key;
    place *places; /* open addressing */
    size_t count, cap;
};

/* What is known of the task that is looked at. */
typedef struct look {
    uvcc_prg_uses *u; /* NULL: what it reads is told, not noted, */
    void (*each)(void *user, const uvcc_prg_use *words, uint64_t key);
    void *user;
    uvcc_prg_use *twice;
    int rc;
} look;

enum { FIRST_CAP = 64 };

static bool same(const place *a, const place *b) {
    return a->key == b->key && a->ordinal == b->ordinal && a->block == b->block &&
           a->call == b->call && a->pair == b->pair && a->tag == b->tag && a->lane == b->lane;
}

/* As splitmix64 does. */
static uint64_t mixed(uint64_t x, uint64_t more) {
    x = (x ^ more) + UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Where it is, or where it goes. */
static place *find(const uvcc_prg_uses *u, const place *x) {
    uint64_t h = mixed(x->key, (uint64_t)x->ordinal << 32 | x->block);
    h = mixed(h,
              (uint64_t)x->call << 32 | (uint64_t)x->pair << 16 | (uint64_t)x->tag << 8 | x->lane);
    size_t i = (size_t)h & (u->cap - 1);
    while (u->places[i].kinds != 0 && !same(&u->places[i], x))
        i = (i + 1) & (u->cap - 1);
    return &u->places[i];
}

/* Room for one more: half of the table stays empty. */
static bool grow(uvcc_prg_uses *u) {
    if (2 * u->count < u->cap)
        return true;
    place *const old = u->places;
    const size_t cap = u->cap, bytes = 2 * cap * sizeof *old;
    if (bytes / sizeof *old != 2 * cap)
        return false;
    place *places = u->alloc.alloc(u->alloc.user, bytes, UVCC_MEM_STATE);
    if (places == NULL)
        return false;
    memset(places, 0, bytes);
    u->places = places;
    u->cap = 2 * cap;
    for (size_t i = 0; i < cap; i++)
        if (old[i].kinds != 0)
            *find(u, &old[i]) = old[i];
    u->alloc.free(u->alloc.user, old, cap * sizeof *old, UVCC_MEM_STATE);
    return true;
}

/* A name that gives nothing of the key away. */
static uint64_t name_of(const uint8_t key[16]) {
    uint8_t digest[32];
    uint64_t name;
    uvcci_sha256_once(key, 16, digest);
    memcpy(&name, digest, sizeof name);
    return name;
}

enum { PURPOSES = sizeof purposes / sizeof purposes[0] };

/* PURPOSES: there is none. */
static size_t purpose_of(uint8_t tag, uint8_t lane) {
    size_t i = 0;
    while (i < PURPOSES && (purposes[i].tag != tag || purposes[i].lane != lane))
        i++;
    return i;
}

/* Notes a place; false: that kind may not read it, or not again. */
static bool may_read(place *at, uint64_t kind) {
    const size_t i = purpose_of(at->tag, at->lane);
    const uint64_t before = at->kinds;
    at->kinds |= kind;
    if (i == PURPOSES)
        return false;
    if ((purposes[i].again & kind) != 0 && (before & ~purposes[i].again) == 0)
        return true;
    return (before & kind) == 0 && !(purposes[i].once && before != 0) &&
           (purposes[i].kinds & kind) != 0;
}

/* At another call than the task's own. */
static void use_at(look *p, const uvcc_task *t, uint16_t call, const uvcc_block *b, unsigned pair,
                   uvcc_prg_tag tag, uint8_t lane) {
    uvcc_prg_uses *u = p->u;
    const uvcc_prg_use words = {.kind = t->kind,
                                .call = call,
                                .ordinal = t->ordinal,
                                .block = b->block,
                                .count = b->count,
                                .pair = (uint8_t)pair,
                                .tag = (uint8_t)tag,
                                .lane = lane};
    if (p->rc != 0)
        return;
    if (u == NULL) {
        const size_t i = purpose_of(words.tag, lane);
        if (i == PURPOSES || (purposes[i].again & BIT_OF(t->kind)) == 0)
            p->each(p->user, &words, name_of(t->keys->prg[pair][tag]));
        return;
    }
    if (!grow(u)) {
        p->rc = UVCC_ERR_NOMEM;
        return;
    }
    /* The two holders of a key read its places at one party each: a pair's name is its key. */
    const place x = {.key = u->by_key ? name_of(t->keys->prg[pair][tag]) : 0,
                     .ordinal = t->ordinal,
                     .block = b->block,
                     .call = call,
                     .pair = (uint8_t)(u->by_key ? 0 : pair),
                     .tag = (uint8_t)tag,
                     .lane = lane};
    place *at = find(u, &x);
    if (at->kinds == 0) {
        u->count++;
        *at = x;
    }
    if (may_read(at, BIT_OF(t->kind)))
        return;
    *p->twice = words;
    p->rc = UVCC_ERR_REFUSED;
}

static void use(look *p, const uvcc_task *t, const uvcc_block *b, unsigned pair, uvcc_prg_tag tag,
                uint8_t lane) {
    use_at(p, t, t->call, b, pair, tag, lane);
}

/* ---- what each kind reads ---- */

/* Tasks of functions, of the party that deals. */
static void use_function_deal(look *p, const uvcc_task *t, const uvcc_block *b) {
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
        assert(!"readers[] sends no other kind here");
    }
}

/* Tasks of functions, of those that hold keys. */
static void use_function(look *p, const uvcc_task *t, const uvcc_block *b) {
    const uvcc_fn_args *fn = t->u.vec.fn;
    const uvcc_role role = (uvcc_role)b->role;
    const unsigned other = role == UVCC_HEAD ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
    const bool head = role == UVCC_HEAD;
    if (role == UVCC_OTHER && t->kind != UVCC_TASK_FN_PADS)
        return; /* it dealt the keys and has nothing to do */
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
        if (b->in[2] != NULL)
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
        assert(!"readers[] sends no other kind here");
    }
}

static void use_mask(look *p, const uvcc_task *t, const uvcc_block *b, uvcc_prg_tag tag) {
    for (unsigned k = 0; k < 2; k++) {
        const unsigned pair = k == 0 ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
        if (b->out[k] == NULL)
            continue;
        use(p, t, b, pair, tag, 0);
        if (b->in[0] != NULL)
            use(p, t, b, pair, tag, OPENED_UNDER);
    }
}

static void use_deal(look *p, const uvcc_task *t, const uvcc_block *b) {
    const unsigned ho = UVCC_PAIR_NEXT, to = UVCC_PAIR_PREV;
    const uint8_t gate = t->u.vec.gate;
    if (gate != UVCC_GATE_RELU && t->u.vec.compact) {
        if (gate != UVCC_GATE_TRUNC_SR)
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
    const uint16_t call = gate == UVCC_GATE_TRUNC_DCF ? 0 : t->call; /* whose key it is */
    use_at(p, t, call, b, ho, UVCC_TAG_root, 0);
    use_at(p, t, call, b, to, UVCC_TAG_root, 0);
    if (gate == UVCC_GATE_TRUNC_DCF)
        return;
    use(p, t, b, ho, UVCC_TAG_mask, 2);
    use(p, t, b, to, UVCC_TAG_mask, 2);
    use(p, t, b, ho, UVCC_TAG_select, 0);
}

/* Tasks that carry a gate's result back to full shares. */
static void use_lift(look *p, const uvcc_task *t, const uvcc_block *b) {
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
        assert(!"readers[] sends no other kind here");
    }
}

/* Stochastic truncations that HEAD opens. */
static void use_rounding(look *p, const uvcc_task *t, const uvcc_block *b) {
    const uvcc_role role = (uvcc_role)b->role;
    const bool head = role == UVCC_HEAD, tail = role == UVCC_TAIL, other = role == UVCC_OTHER;
    const unsigned ht = head ? UVCC_PAIR_NEXT : UVCC_PAIR_PREV;
    const unsigned ho = head ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
    const unsigned to = tail ? UVCC_PAIR_NEXT : UVCC_PAIR_PREV;
    const bool open = t->kind == UVCC_TASK_SR_OPEN, finish = t->kind == UVCC_TASK_SR_FINISH;
    if ((tail && !open && !finish) || (head && finish))
        return;
    if (head)
        use(p, t, b, UVCC_PAIR_OWN, UVCC_TAG_own, 2);
    if (open && !head)
        use(p, t, b, to, UVCC_TAG_zero, 0);
    if (tail || (other && !open))
        use(p, t, b, to, UVCC_TAG_trunc, 0);
    if (tail || (head && open))
        use(p, t, b, ht, UVCC_TAG_trunc, 3);
    if (tail || (head && !open))
        use(p, t, b, ht, UVCC_TAG_trunc, 4);
    if (!tail && !open)
        use(p, t, b, ho, UVCC_TAG_trunc, 4);
    if (!other && !open)
        use(p, t, b, ht, UVCC_TAG_lift, 0);
}

/* The same of shares, where nothing is opened. */
static void use_rounding2(look *p, const uvcc_task *t, const uvcc_block *b) {
    const bool head = b->role == UVCC_HEAD, other = b->role == UVCC_OTHER;
    const unsigned ht = head ? UVCC_PAIR_NEXT : UVCC_PAIR_PREV;
    const unsigned ho = head ? UVCC_PAIR_PREV : UVCC_PAIR_NEXT;
    const bool finish = t->kind == UVCC_TASK_SR2_FINISH;
    if (head && finish)
        return;
    for (uint8_t lane = 3; lane <= 4; lane++) {
        if (!other)
            use(p, t, b, ht, UVCC_TAG_trunc, lane);
        if (head || other)
            use(p, t, b, ho, UVCC_TAG_trunc, lane);
    }
    if (head || (finish && !other))
        use(p, t, b, ht, UVCC_TAG_lift, 0);
}

/* Tasks of truncations and comparisons, on dealt keys or without. */
static void use_gate(look *p, const uvcc_task *t, const uvcc_block *b) {
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
        assert(!"readers[] sends no other kind here");
    }
}

/* What a block of a task reads, as compute.h defines the task: inputs and products here. */
static void use_block(look *p, const uvcc_task *t, const uvcc_block *b) {
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
    case UVCC_TASK_ONE_HOT_KEYS: /* of the pairs with HEAD */
        if (role != UVCC_OTHER)
            use(p, t, b, role == UVCC_HEAD ? next : prev, UVCC_TAG_root, 0);
        if (role != UVCC_TAIL)
            use(p, t, b, role == UVCC_HEAD ? prev : next, UVCC_TAG_root, 0);
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
        assert(!"readers[] sends no other kind here");
    }
}

typedef void reader(look *p, const uvcc_task *t, const uvcc_block *b);

/* Who knows what words each kind reads; NULL: it reads none (BIT_SUMS those of a key that a coin
 * gave; BOOL_JOIN and BOOL_SELECT_FINISH those that the first task of their round reads, for the
 * same end). A kind that has no line here does not compile. */
#define READS_INPUT              use_block
#define READS_RANDOM             use_block
#define READS_OPEN4_MASK         use_block
#define READS_ONE_HOT_KEYS       use_block
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
#define READS_SR_OPEN            use_rounding
#define READS_SR_SEND            use_rounding
#define READS_SR_FINISH          use_rounding
#define READS_SR2_SEND           use_rounding2
#define READS_SR2_FINISH         use_rounding2
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
#define READS_ONE_HOT_ROWS       NULL
static reader *const readers[] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = READS_##name,
#include <uvcc/tasks.def>
#undef UVCC_TASK
};

/* ---- the calls ---- */

int uvcc_prg_uses_new(uvcc_prg_uses **out, const uvcc_allocator *alloc, bool by_key) {
    if (out == NULL || alloc == NULL || alloc->alloc == NULL || alloc->free == NULL)
        return UVCC_ERR_USAGE;
    uvcc_prg_uses *u = alloc->alloc(alloc->user, sizeof *u, UVCC_MEM_STATE);
    if (u == NULL)
        return UVCC_ERR_NOMEM;
    *u = (uvcc_prg_uses){.alloc = *alloc, .by_key = by_key, .cap = FIRST_CAP};
    u->places = alloc->alloc(alloc->user, u->cap * sizeof *u->places, UVCC_MEM_STATE);
    if (u->places == NULL) {
        alloc->free(alloc->user, u, sizeof *u, UVCC_MEM_STATE);
        return UVCC_ERR_NOMEM;
    }
    memset(u->places, 0, u->cap * sizeof *u->places);
    *out = u;
    return 0;
}

void uvcc_prg_uses_free(uvcc_prg_uses *u) {
    if (u == NULL)
        return;
    const uvcc_allocator al = u->alloc;
    al.free(al.user, u->places, u->cap * sizeof *u->places, UVCC_MEM_STATE);
    al.free(al.user, u, sizeof *u, UVCC_MEM_STATE);
}

int uvcc_prg_uses_task(uvcc_prg_uses *u, const uvcc_task *task, uvcc_prg_use *twice) {
    if (u == NULL || task == NULL || twice == NULL || task->kind >= UVCC_TASK_KIND_END)
        return UVCC_ERR_USAGE;
    look p = {.u = u, .twice = twice};
    reader *const reads = readers[task->kind];
    for (uint32_t k = 0; reads != NULL && p.rc == 0 && k < task->u.vec.count; k++)
        reads(&p, task, &task->u.vec.blocks[k]);
    return p.rc;
}

void uvcci_prg_words(const uvcc_task *task,
                     void (*each)(void *user, const uvcc_prg_use *words, uint64_t key),
                     void *user) {
    look p = {.each = each, .user = user};
    reader *const reads = readers[task->kind];
    for (uint32_t k = 0; reads != NULL && k < task->u.vec.count; k++)
        reads(&p, task, &task->u.vec.blocks[k]);
}

bool uvcci_prg_place(const uvcc_prg_uses *u, size_t i, uvcc_prg_use *out) {
    size_t at = 0;
    for (; at < u->cap; at++)
        if (u->places[at].kinds != 0 && i-- == 0)
            break;
    if (at == u->cap)
        return false;
    const place *p = &u->places[at];
    *out = (uvcc_prg_use){.call = p->call,
                          .ordinal = p->ordinal,
                          .block = p->block,
                          .pair = p->pair,
                          .tag = p->tag,
                          .lane = p->lane};
    return true;
}

const char *uvcc_prg_tag_name(uint8_t tag) {
    static const char *const names[] = {
#define UVCCI_TAG(name) #name,
#include <uvcc/tags.def>
#undef UVCCI_TAG
    };
    return tag < UVCC_TAG_COUNT ? names[tag] : NULL;
}
