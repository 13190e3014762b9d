/* SPDX-License-Identifier: Apache-2.0 */
/* audit.c - the three parties' bundles of one worker and step against each other.
 *
 * The op tables are equal, and leaves stand by rows: so the three are walked side by side, a row at
 * a time, and within a row a type at a time. In a type leaves ascend, so counterparts are found by
 * merging; nothing is searched for and nothing is kept but where the types of the row begin.
 *
 * A leaf that differs from its counterpart does not say which of the two is wrong. Where the leaves
 * of one bundle do not give its root, that is the wrong one. */
#include "proto/bundle.h"

#include <uvcc/frame.h>

enum { FIRST_TYPE = 0x70, TYPES = 16, ALL = 7 };

/* Leaves of one type in one row of one bundle. */
typedef struct span {
    uvcc_leaf_reader at;
    uint32_t count;
} span;

/* A bundle being walked: `leaf` is the next one. */
typedef struct walk {
    uvcc_leaf_reader at, next; /* before and behind `leaf` */
    uvcc_leaf leaf;
    bool left;
} walk;

/* How much a fault says; the first of the best kind is kept. */
typedef enum rank { NOTHING, DISAGREE, WRONG_LACKS, WRONG_LEAF } rank;

typedef struct cross {
    const uvcc_bundle *b;
    bool wrong[UVCC_PARTIES]; /* its leaves do not give its root */
    walk walk[UVCC_PARTIES];
    span span[UVCC_PARTIES][TYPES];
    rank found;
    uvcc_audit_fault fault;
} cross;

/* ---- what is found ---- */

static void found(cross *c, rank r, const uvcc_audit_fault *f) {
    if (r > c->found) {
        c->found = r;
        c->fault = *f;
    }
}

/* Leaves of parties p and q that should be equal. */
static void differ(cross *c, uint8_t p, const uvcc_leaf *lp, uint8_t q, const uvcc_leaf *lq) {
    uvcc_audit_fault f;
    if (c->wrong[q] && !c->wrong[p]) {
        uint8_t swap = p;
        p = q;
        q = swap;
        const uvcc_leaf *leaf = lp;
        lp = lq;
        lq = leaf;
    }
    (void)uvcci_fault_leaf(&f, 0, UVCC_FAULT_DIFFERS, &c->b[p], lp);
    f.other = q;
    f.other_leaf = lq->index;
    found(c, c->wrong[p] ? WRONG_LEAF : DISAGREE, &f);
}

/* Party p has a leaf that party q (or nobody) has the counterpart of. */
static void lacks(cross *c, uint8_t p, const uvcc_leaf *lp, uint8_t q) {
    uvcc_audit_fault f;
    (void)uvcci_fault_leaf(&f, 0, UVCC_FAULT_NO_COUNTERPART, &c->b[p], lp);
    f.other = q;
    if (c->wrong[p] || q == UVCC_NO_PARTY || !c->wrong[q]) {
        found(c, c->wrong[p] ? WRONG_LEAF : DISAGREE, &f);
        return;
    }
    f.kind = UVCC_FAULT_MISSING;
    f.party = q;
    f.other = p;
    f.leaf = UVCC_NO_LEAF;
    f.other_leaf = lp->index;
    f.offset = 0;
    found(c, WRONG_LACKS, &f);
}

/* ---- rows ---- */

static void step_on(walk *w) {
    w->at = w->next;
    w->left = uvcc_leaf_next(&w->next, &w->leaf) == 1;
}

static void collect_row(cross *c, uint32_t row) {
    memset(c->span, 0, sizeof c->span);
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        for (walk *w = &c->walk[p]; w->left && w->leaf.row == row; step_on(w)) {
            span *s = &c->span[p][w->leaf.type - FIRST_TYPE];
            if (s->count++ == 0)
                s->at = w->at;
        }
}

/* The next leaf of a span that goes from src to dst (UVCC_NO_PARTY: any). */
static bool take(span *s, uint8_t src, uint8_t dst, uvcc_leaf *out) {
    while (s->count != 0) {
        s->count--;
        if (uvcc_leaf_next(&s->at, out) == 1 && (src == UVCC_NO_PARTY || out->src == src) &&
            (dst == UVCC_NO_PARTY || out->dst == dst))
            return true;
    }
    return false;
}

/* What src says it sent to dst is what dst says it received. One batch goes each way in a row. */
static void match_batches(cross *c, uint8_t sent, uint8_t src, uint8_t dst) {
    span out = c->span[src][sent - FIRST_TYPE], in = c->span[dst][sent + 1 - FIRST_TYPE];
    uvcc_leaf a, b;
    bool has_a = take(&out, src, dst, &a), has_b = take(&in, src, dst, &b);
    if (has_a && has_b) {
        if (memcmp(a.stored + 1, b.stored + 1, a.stored_len - 1) != 0)
            differ(c, src, &a, dst, &b);
    } else if (has_a) {
        lacks(c, src, &a, dst);
    } else if (has_b) {
        lacks(c, dst, &b, src);
    }
}

/* ---- leaves that several parties have ---- */

static bool is_output_row(const uvcc_bundle *b, uint32_t row) {
    uvcci_oprow r;
    uvcci_oprow_get(&r, b->rows + (size_t)row * UVCCI_OPROW_BYTES);
    return r.phase == UVCCI_PHASE_UPD && r.k >> 8 == UVCCI_BLOCK_IO;
}

static bool is_to_one_row(const uvcc_bundle *b, uint32_t row) {
    uvcci_oprow r;
    if (row >= b->row_count)
        return false;
    uvcci_oprow_get(&r, b->rows + (size_t)row * UVCCI_OPROW_BYTES);
    return r.phase == UVCCI_PHASE_UPD && r.k >> 8 == UVCCI_BLOCK_TO_ONE;
}

/* Bits of the parties that must have a leaf like this one, given which do. */
static unsigned holders(const cross *c, const uvcc_leaf *l, unsigned have) {
    switch (l->type) {
    case UVCC_LEAF_KEYS_DONE:
        return 1u << l->src | 1u << l->dst;
    case UVCC_LEAF_COMPONENT_COMMIT:
        return 1u << l->stored[13] | 1u << (l->stored[13] + 2u) % UVCC_PARTIES;
    case UVCC_LEAF_OPEN_DONE: /* to an edge: HEAD and TAIL, whoever they are */
        return is_output_row(c->b, l->row) ? ALL : have;
    case UVCC_LEAF_SKS_VERDICT: /* an override is each party's own */
        return l->op_id == 0 ? have : ALL;
    default:
        return ALL;
    }
}

static bool equal(const uvcc_leaf *a, const uvcc_leaf *b) {
    return memcmp(a->stored, b->stored, a->stored_len) == 0;
}

/* Of the parties in `have`, the one that the others are against; UVCC_NO_PARTY: all are equal. */
static uint8_t odd_one(const uvcc_leaf l[UVCC_PARTIES], unsigned have, uint8_t *against) {
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        for (uint8_t q = 0; q < UVCC_PARTIES; q++) {
            uint8_t third = (uint8_t)(UVCC_PARTIES - p - q);
            if (p == q || (have >> p & 1) == 0 || (have >> q & 1) == 0 || equal(&l[p], &l[q]))
                continue;
            if (have != ALL || !equal(&l[p], &l[third])) {
                *against = q;
                return p;
            }
        }
    return UVCC_NO_PARTY;
}

static void match_group(cross *c, const uvcc_leaf l[UVCC_PARTIES], unsigned have) {
    uint8_t first = 0, against;
    while ((have >> first & 1) == 0)
        first++;
    const unsigned want = holders(c, &l[first], have);
    for (uint8_t q = 0; q < UVCC_PARTIES; q++)
        if ((want & ~have) >> q & 1)
            lacks(c, first, &l[first], q);
    if ((have & (have - 1)) == 0 && l[first].type == UVCC_LEAF_OPEN_DONE && want == have) {
        /* an opening that one party alone has */
        uint8_t q = 0;
        while (q < UVCC_PARTIES && (q == first || !c->wrong[q]))
            q++;
        lacks(c, first, &l[first], q < UVCC_PARTIES ? q : UVCC_NO_PARTY);
    }
    uint8_t odd = odd_one(l, have, &against);
    if (odd != UVCC_NO_PARTY)
        differ(c, odd, &l[odd], against, &l[against]);
}

/* Merges the parties' leaves of a type; those with equal keys belong together. */
static void match_mirrored(cross *c, uint8_t type) {
    const size_t key = uvcci_leaf_key(type);
    span s[UVCC_PARTIES];
    uvcc_leaf l[UVCC_PARTIES] = {0}; /* of who has none, nothing is compared */
    unsigned left = 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        s[p] = c->span[p][type - FIRST_TYPE];
        left |= (unsigned)take(&s[p], UVCC_NO_PARTY, UVCC_NO_PARTY, &l[p]) << p;
    }
    while (left != 0) {
        const uint8_t *least = NULL;
        unsigned have = 0;
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if ((left >> p & 1) != 0 && (least == NULL || memcmp(l[p].stored, least, key) < 0))
                least = l[p].stored;
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if ((left >> p & 1) != 0 && memcmp(l[p].stored, least, key) == 0)
                have |= 1u << p;
        match_group(c, l, have);
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            if ((have >> p & 1) != 0 && !take(&s[p], UVCC_NO_PARTY, UVCC_NO_PARTY, &l[p]))
                left &= ~(1u << p);
    }
}

/* Party p's leaf of an opening to one party, against party q and its leaf; neither need be. */
static void not_alone(cross *c, uint8_t p, const uvcc_leaf *l, uint8_t q, const uvcc_leaf *lq) {
    uvcc_audit_fault f;
    (void)uvcci_fault_leaf(&f, 0, UVCC_FAULT_RECEIVER, &c->b[p], l);
    f.other = q;
    f.other_leaf = lq != NULL ? lq->index : UVCC_NO_LEAF;
    found(c, c->wrong[p] ? WRONG_LEAF : DISAGREE, &f);
}

/* A row of an output to one party: all that is sent goes to one, who alone has what was opened. */
static void match_to_one(cross *c) {
    uvcc_leaf l, sent;
    uint8_t from = UVCC_NO_PARTY;
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        for (span s = c->span[p][UVCC_LEAF_OPEN_SENT - FIRST_TYPE];
             take(&s, UVCC_NO_PARTY, UVCC_NO_PARTY, &l);) {
            if (from != UVCC_NO_PARTY && l.dst != sent.dst)
                not_alone(c, p, &l, from, &sent);
            if (from == UVCC_NO_PARTY) {
                from = p;
                sent = l;
            }
        }
    for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
        span s = c->span[p][UVCC_LEAF_OPEN_DONE - FIRST_TYPE];
        const bool has = take(&s, UVCC_NO_PARTY, UVCC_NO_PARTY, &l);
        const bool receiver = from != UVCC_NO_PARTY && p == sent.dst;
        if (has && (!receiver || s.count != 0))
            not_alone(c, p, &l, receiver ? UVCC_NO_PARTY : from,
                      receiver || from == UVCC_NO_PARTY ? NULL : &sent);
        if (!has && receiver)
            not_alone(c, from, &sent, p, NULL);
    }
}

static void match_row(cross *c, uint32_t row) {
    const bool to_one = is_to_one_row(c->b, row);
    if (to_one)
        match_to_one(c);
    for (unsigned i = 0; i < TYPES; i++) {
        const uint8_t type = (uint8_t)(FIRST_TYPE + i);
        if (uvcci_leaf_is_received(type) || (to_one && type == UVCC_LEAF_OPEN_DONE))
            continue; /* with its sending, or with its opening */
        if (!uvcci_leaf_is_sent(type)) {
            if (c->span[0][i].count + c->span[1][i].count + c->span[2][i].count != 0)
                match_mirrored(c, type);
            continue;
        }
        for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
            match_batches(c, type, p, (uint8_t)((p + 1) % UVCC_PARTIES));
            match_batches(c, type, p, (uint8_t)((p + 2) % UVCC_PARTIES));
        }
    }
}

static void match_all(cross *c) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        uvcc_leaf_reader_init(&c->walk[p].next, &c->b[p]);
        step_on(&c->walk[p]);
    }
    uint32_t row = 0;
    do { /* a program without ops has one leaf, in row 0 all the same */
        collect_row(c, row);
        match_row(c, row);
    } while (++row < c->b->row_count);
}

/* ---- the whole ---- */

static bool same_step(const uvcc_bundle *a, const uvcc_bundle *b) {
    return a->replicas == b->replicas && a->stages == b->stages && a->tp_ranks == b->tp_ranks &&
           a->replica == b->replica && a->stage == b->stage && a->tp_rank == b->tp_rank &&
           a->step == b->step && a->run == b->run && a->first == b->first &&
           a->row_count == b->row_count && memcmp(a->sid_job, b->sid_job, 32) == 0 &&
           memcmp(a->h_program, b->h_program, 32) == 0 &&
           memcmp(a->policy_hash, b->policy_hash, 32) == 0 &&
           memcmp(a->rows, b->rows, (size_t)a->row_count * UVCCI_OPROW_BYTES) == 0;
}

static int check_same(const uvcc_bundle *b, uvcc_audit_fault *f) {
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        if (b[p].party != p)
            return UVCC_ERR_USAGE;
    const bool s01 = same_step(&b[0], &b[1]), s02 = same_step(&b[0], &b[2]);
    if (s01 && s02)
        return 0;
    const uint8_t odd = s01 ? 2 : s02 ? 1 : 0;
    (void)uvcci_fault_at(f, UVCC_ERR_AUTH, UVCC_FAULT_OTHER_STEP, odd, 8);
    if (f != NULL)
        f->other = odd == 0 ? 1 : 0;
    return UVCC_ERR_AUTH;
}

static bool same_statement(const uvcc_signed_root *a, const uvcc_signed_root *b) {
    return memcmp(a->root, b->root, 32) == 0 && memcmp(a->audit_root, b->audit_root, 32) == 0 &&
           memcmp(a->before, b->before, 32) == 0;
}

/* Each party has what the others signed. All signatures are good, over statements of the same step
 * of the same run and worker: so who signed two that differ told two stories. */
static int check_audits(const uvcc_bundle *b, uvcc_audit_fault *f) {
    for (uint8_t p = 0; p < UVCC_PARTIES; p++)
        for (uint8_t q = 0; q < UVCC_PARTIES; q++) {
            const uint8_t *root = b[p].audit[q].root;
            if (root == NULL || same_statement(&b[p].audit[q], &b[q].audit[q]))
                continue;
            (void)uvcci_fault_at(f, UVCC_ERR_AUTH, UVCC_FAULT_TWO_ROOTS, p,
                                 (uint64_t)(root - b[p].bytes));
            if (f != NULL)
                f->other = q;
            return UVCC_ERR_AUTH;
        }
    return 0;
}

/* Which fault is told matters: a bundle may be wrong in itself only because a leaf of it was
 * changed, so a wrong root alone is told after a disagreement that names this party's leaf, and any
 * other fault of a bundle before what it makes the others look like. Statements are compared
 * last, over bundles that agree. */
int uvcc_bundle_verify(const uvcc_bundle b[3], const uvcc_audit_keys *keys,
                       uvcc_audit_fault *fault) {
    if (b == NULL || keys == NULL)
        return UVCC_ERR_USAGE;
    cross c = {.b = b};
    uvcc_audit_fault alone, f;
    bool any = false;
    int rc = check_same(b, fault);
    if (rc != 0)
        return rc;
    for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
        if (uvcc_bundle_check(&b[p], keys, &f) == 0)
            continue;
        c.wrong[p] = f.kind == UVCC_FAULT_ROOT;
        if (!any)
            alone = f;
        any = true;
    }
    match_all(&c);
    if (any &&
        (c.found <= DISAGREE || alone.kind != UVCC_FAULT_ROOT || c.fault.party != alone.party)) {
        if (fault != NULL)
            *fault = alone;
        return UVCC_ERR_AUTH;
    }
    if (c.found != NOTHING) {
        if (fault != NULL)
            *fault = c.fault;
        return UVCC_ERR_AUTH;
    }
    rc = check_audits(b, fault);
    return rc != 0 ? rc : uvcci_fault_at(fault, 0, UVCC_FAULT_NONE, UVCC_NO_PARTY, 0);
}
