/* SPDX-License-Identifier: Apache-2.0 */
/* audit_runs.c - see audit_runs.h. Of each run its first step, what it goes on from, and the global
 * roots of its steps are kept; of the present one a tree per signer besides. */
#include "audit_runs.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum origin { BEGINS, GOES_ON, NOT_HERE };

typedef struct run_record {
    uint32_t run, first;
    size_t start, count; /* of its steps, in `roots` */
    enum origin origin;
    size_t from;           /* GOES_ON: the index of an earlier record */
    uint8_t (*before)[32]; /* by signer: [party * (workers + 1) + index] */
} run_record;

/* Of the present run. */
typedef struct signer {
    uvcc_audit_tree tree;
} signer;

typedef struct step_roots {
    uint8_t of[UVCC_PARTIES][32];
} step_roots;

struct audit_runs {
    size_t workers, per_party, count, room, steps, steps_room;
    run_record *all;
    signer *signers;
    step_roots *roots;
    uint8_t *said; /* of the comparison at hand: by signer, enum said */
};

static const uint8_t zero[32];

audit_runs *audit_runs_new(size_t workers) {
    audit_runs *r = calloc(1, sizeof *r);
    if (r == NULL)
        return NULL;
    r->workers = workers;
    r->per_party = workers + 1;
    r->signers = calloc(UVCC_PARTIES * r->per_party, sizeof *r->signers);
    r->said = calloc(UVCC_PARTIES, r->per_party);
    if (r->signers == NULL || r->said == NULL) {
        audit_runs_free(r);
        return NULL;
    }
    return r;
}

void audit_runs_free(audit_runs *r) {
    if (r == NULL)
        return;
    for (size_t i = 0; i < r->count; i++)
        free(r->all[i].before);
    free(r->all);
    free(r->signers);
    free(r->roots);
    free(r->said);
    free(r);
}

static run_record *present(const audit_runs *r) {
    assert(r->count != 0);
    return &r->all[r->count - 1];
}

bool audit_runs_begin(audit_runs *r, uint32_t run) {
    if (r->count == r->room) {
        const size_t room = r->room == 0 ? 8 : 2 * r->room;
        run_record *all = realloc(r->all, room * sizeof *all);
        if (all == NULL)
            return false;
        r->all = all;
        r->room = room;
    }
    uint8_t(*before)[32] = calloc(UVCC_PARTIES * r->per_party, sizeof *before);
    if (before == NULL)
        return false;
    r->all[r->count++] = (run_record){.run = run, .start = r->steps, .before = before};
    for (size_t i = 0; i < UVCC_PARTIES * r->per_party; i++)
        uvcc_audit_tree_init(&r->signers[i].tree);
    return true;
}

/* The first statement of a run says where it begins and what it goes on from; all others agree:
 * steps come without gaps, so the tree has as many roots as there were steps since. */
uvcc_fault_kind audit_runs_take(audit_runs *r, unsigned party, size_t index, uint32_t step,
                                uint32_t first, const uvcc_signed_root *s) {
    run_record *run = present(r);
    const size_t at = party * r->per_party + index;
    uvcc_audit_tree *tree = &r->signers[at].tree;
    uint8_t root[32];
    if (run->count == 0 && party == 0 && index == 0)
        run->first = first;
    if (tree->count != step - first)
        return UVCC_FAULT_FIRST;
    if (tree->count == 0)
        memcpy(run->before[at], s->before, 32);
    if (memcmp(run->before[at], s->before, 32) != 0)
        return UVCC_FAULT_BEFORE;
    (void)uvcc_audit_tree_add(tree, s->root);
    (void)uvcc_audit_tree_root(tree, root);
    return memcmp(root, s->audit_root, 32) == 0 ? UVCC_FAULT_NONE : UVCC_FAULT_AUDIT_ROOT;
}

bool audit_runs_step(audit_runs *r, uint8_t roots[UVCC_PARTIES][32]) {
    if (r->steps == r->steps_room) {
        const size_t room = r->steps_room == 0 ? 1024 : 2 * r->steps_room;
        step_roots *all = realloc(r->roots, room * sizeof *all);
        if (all == NULL)
            return false;
        r->roots = all;
        r->steps_room = room;
    }
    memcpy(r->roots[r->steps++].of, roots, sizeof r->roots[0].of);
    present(r)->count++;
    return true;
}

bool audit_runs_at_first(const audit_runs *r) {
    return present(r)->count == 1;
}

/* ---- where a run comes from ---- */

static bool zero_before(const audit_runs *r, const run_record *run, unsigned party, size_t index) {
    return memcmp(run->before[party * r->per_party + index], zero, 32) == 0;
}

/* How an earlier run compares with what the present one's workers say that it goes on from. */
typedef struct comparison {
    size_t yes, no;
} comparison;

enum said { NOTHING, YES, NO };

static void begin_comparison(const audit_runs *r, comparison *c) {
    *c = (comparison){0};
    memset(r->said, NOTHING, UVCC_PARTIES * r->per_party);
}

static void compare(const audit_runs *r, comparison *c, unsigned party, size_t index, bool equal) {
    c->yes += equal;
    c->no += !equal;
    r->said[party * r->per_party + index] = equal ? YES : NO;
}

/* With the audit roots after the step before the present run's first. */
static int compare_ends(const audit_runs *r, const run_record *e, audit_runs_look *look, void *user,
                        comparison *c) {
    const run_record *run = present(r);
    begin_comparison(r, c);
    if (run->first == 0 || e->first >= run->first)
        return 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        for (size_t i = 0; i < r->workers; i++) {
            uint8_t root[32];
            const int rc = look(user, p, i, e->run, run->first - 1, root);
            if (rc < 0)
                return rc;
            if (rc == 1)
                compare(r, c, p, i, memcmp(root, run->before[p * r->per_party + i], 32) == 0);
        }
    return 0;
}

/* With what a run that began at the same step goes on from. */
static void compare_beginnings(const audit_runs *r, const run_record *e, comparison *c) {
    const run_record *run = present(r);
    begin_comparison(r, c);
    if (e->first != run->first || e->count == 0)
        return;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        for (size_t i = 0; i < r->workers; i++) {
            const size_t at = p * r->per_party + i;
            compare(r, c, p, i, memcmp(e->before[at], run->before[at], 32) == 0);
        }
}

/* It is (by some) and is not (by others) what the run goes on from. Two parties that differ over
 * one worker contradict each other, and either may be right; where none do, the workers differ. */
static bool torn(const audit_runs *r, const comparison *c, audit_runs_conflict *out) {
    bool found = false;
    if (c->yes == 0 || c->no == 0)
        return false;
    out->kind = AUDIT_RUNS_WORKERS;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        for (size_t i = 0; i < r->workers && out->kind == AUDIT_RUNS_WORKERS; i++) {
            if (r->said[p * r->per_party + i] != NO)
                continue;
            if (!found) {
                out->party = p;
                out->index = i;
                found = true;
            }
            for (unsigned q = 0; q < UVCC_PARTIES && out->kind == AUDIT_RUNS_WORKERS; q++)
                if (r->said[q * r->per_party + i] == YES)
                    *out = (audit_runs_conflict){AUDIT_RUNS_PARTIES, p, q, i};
        }
    return true;
}

/* Before step 0 there is none to go on from, whatever the others say. */
static bool wrong_beginning(const audit_runs *r, audit_runs_conflict *out) {
    const run_record *run = present(r);
    for (unsigned p = 0; p < UVCC_PARTIES && run->first == 0; p++)
        for (size_t i = 0; i < r->workers; i++)
            if (!zero_before(r, run, p, i)) {
                *out = (audit_runs_conflict){AUDIT_RUNS_BEGINNING, p, UVCC_NO_PARTY, i};
                return true;
            }
    return false;
}

/* No earlier run fits. That is a fault unless one is missing: every number below is that of a run,
 * but not every run came so far that it left a bundle. */
static int none_fits(const audit_runs *r, bool begins, audit_runs_conflict *out) {
    run_record *run = present(r);
    const bool first_of_all = r->count == 1;
    *out = (audit_runs_conflict){.kind = AUDIT_RUNS_NONE, .other = UVCC_NO_PARTY};
    run->origin = begins ? BEGINS : NOT_HERE;
    if (begins)
        return run->first != 0 && !first_of_all;
    return r->count - 1 == run->run;
}

int audit_runs_origin(audit_runs *r, audit_runs_look *look, void *user, audit_runs_conflict *out) {
    run_record *run = present(r);
    comparison zeros, c;
    if (wrong_beginning(r, out))
        return 1;
    begin_comparison(r, &zeros);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        for (size_t i = 0; i < r->workers; i++)
            compare(r, &zeros, p, i, !zero_before(r, run, p, i));
    if (torn(r, &zeros, out))
        return 1;
    const bool begins = zeros.yes == 0;
    for (size_t e = r->count - 1; e-- > 0 && !begins;) {
        const int rc = compare_ends(r, &r->all[e], look, user, &c);
        if (rc < 0)
            return rc;
        if (torn(r, &c, out))
            return 1;
        if (c.yes == 0)
            continue;
        run->origin = GOES_ON;
        run->from = e;
        return 0;
    }
    for (size_t e = r->count - 1; e-- > 0;) {
        compare_beginnings(r, &r->all[e], &c);
        if (torn(r, &c, out))
            return 1;
        if (c.yes == 0)
            continue;
        run->origin = r->all[e].origin;
        run->from = r->all[e].from;
        return 0;
    }
    return none_fits(r, begins, out);
}

bool audit_runs_unknown(const audit_runs *r, size_t n, uint32_t *run) {
    for (size_t i = 0; i < r->count; i++)
        if (r->all[i].origin == NOT_HERE && r->all[i].count != 0 && n-- == 0) {
            *run = r->all[i].run;
            return true;
        }
    return false;
}

/* ---- the history of the last run ---- */

/* Back from the last run: how many steps of each record belong to its history. */
static void mark_history(const audit_runs *r, size_t *steps) {
    size_t at = r->count;
    uint32_t until = UINT32_MAX; /* steps below */
    while (at != 0 && r->all[at - 1].count == 0)
        at--; /* nothing of it is here */
    while (at != 0) {
        const run_record *run = &r->all[at - 1];
        const size_t below = until > run->first ? until - run->first : 0;
        steps[at - 1] = run->count < below ? run->count : below;
        until = run->first < until ? run->first : until;
        at = run->origin == GOES_ON ? run->from + 1 : 0;
    }
}

size_t audit_runs_history(const audit_runs *r, uint32_t *first, uint32_t *last,
                          uint8_t audit_root[UVCC_PARTIES][32]) {
    uvcc_audit_tree tree[UVCC_PARTIES];
    size_t total = 0, *steps = calloc(r->count + 1, sizeof *steps);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        uvcc_audit_tree_init(&tree[p]);
    if (steps != NULL)
        mark_history(r, steps);
    for (size_t i = 0; i < r->count && steps != NULL; i++)
        for (size_t k = 0; k < steps[i]; k++) {
            const run_record *run = &r->all[i];
            for (unsigned p = 0; p < UVCC_PARTIES; p++)
                (void)uvcc_audit_tree_add(&tree[p], r->roots[run->start + k].of[p]);
            *last = run->first + (uint32_t)k;
            if (total++ == 0)
                *first = *last;
        }
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        (void)uvcc_audit_tree_root(&tree[p], audit_root[p]);
    free(steps);
    return total;
}
