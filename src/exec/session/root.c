/* SPDX-License-Identifier: Apache-2.0 */
/* root.c - see root.h.
 *
 * The leaves are sorted here, and cut into slices of UVCCI_ROOT_SLICE. A job hashes one slice: its
 * leaves, then level by level the nodes above them, each level a HASH task, up to the slice's root.
 * A slice begins at a multiple of its size, so its root is the node of the whole tree at that
 * height, also the last one's, where odd nodes move up; the few levels above are hashed here.
 *
 * States: no root -> begun (jobs go out while there are lanes and the table of jobs has room) ->
 * all slices done. Hash items point at leaf bytes, which never move, so even an ABORT leaf that is
 * added while jobs are out harms nothing. */
#include "exec/session/root.h"

#include <string.h>

enum {
    LEVELS = 11, /* of a whole slice: its leaves' hashes, then ten of nodes */
    ITEMS = 2 * UVCCI_ROOT_SLICE,
    TASKS = 2 * LEVELS,
};
_Static_assert(UVCCI_ROOT_SLICE == 1u << (LEVELS - 1), "a level halves");

/* What one job works on. */
typedef struct lane {
    struct uvcci_root *of;
    uint32_t slice;
    bool out;
    const uint8_t *top; /* the slice's root, once the job is done */
    uvcc_task task[TASKS];
    uvcc_hash_item item[ITEMS];
    uvcc_copy_item moved[LEVELS];
    uint8_t node[2][UVCCI_ROOT_SLICE][32]; /* the levels, by turns */
} lane;

struct uvcci_root {
    uint32_t slices, next, done;
    uint8_t (*top)[32]; /* [slices] */
    lane *lanes[UVCCI_ROOT_LANES];
};

static void *take(uvcc_session *s, size_t bytes) {
    return s->alloc.alloc(s->alloc.user, bytes, UVCC_MEM_STATE);
}

static void give(uvcc_session *s, void *p, size_t bytes) {
    if (p != NULL)
        s->alloc.free(s->alloc.user, p, bytes, UVCC_MEM_STATE);
}

void uvcci_root_free(uvcc_session *s, uvcci_step *st) {
    struct uvcci_root *r = st->root;
    if (r == NULL)
        return;
    for (unsigned i = 0; i < UVCCI_ROOT_LANES; i++)
        give(s, r->lanes[i], sizeof(lane));
    give(s, r->top, (size_t)r->slices * 32);
    give(s, r, sizeof *r);
    st->root = NULL;
}

uint64_t uvcci_root_bound(uint64_t leaves) {
    const uint64_t slices = leaves / UVCCI_ROOT_SLICE + 1;
    if (leaves <= UVCCI_ROOT_INLINE)
        return 0;
    return sizeof(struct uvcci_root) + slices * 32 +
           (slices < UVCCI_ROOT_LANES ? slices : UVCCI_ROOT_LANES) * sizeof(lane);
}

/* One lane will do; the others come if there is memory. */
static int begin(uvcc_session *s, uvcci_step *st) {
    const uint32_t n = uvcci_transcript_count(st->transcript);
    assert(st->root == NULL && n != 0);
    if (uvcci_transcript_sort(st->transcript) != 0)
        return UVCC_ERR_NOMEM;
    struct uvcci_root *r = take(s, sizeof *r);
    if (r == NULL)
        return UVCC_ERR_NOMEM;
    memset(r, 0, sizeof *r);
    st->root = r;
    r->slices = n / UVCCI_ROOT_SLICE + (n % UVCCI_ROOT_SLICE != 0);
    r->top = take(s, (size_t)r->slices * 32);
    for (uint32_t i = 0; i < UVCCI_ROOT_LANES && i < r->slices; i++)
        if ((r->lanes[i] = take(s, sizeof(lane))) != NULL) {
            r->lanes[i]->of = r;
            r->lanes[i]->out = false;
        }
    if (r->top != NULL && r->lanes[0] != NULL)
        return 0;
    uvcci_root_free(s, st);
    return UVCC_ERR_NOMEM;
}

static void leaf_level(lane *l, const uvcci_transcript *t, uint32_t first, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        uint32_t row;
        uvcc_hash_item *h = &l->item[i];
        *h = (uvcc_hash_item){.mode = UVCC_HASH_PLAIN, .out = l->node[0][i]};
        int rc = uvcci_transcript_leaf(t, first + i, &row, &h->data, &h->len);
        assert(rc == 0);
        (void)rc;
    }
    l->task[0] = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = l->item, .count = n}};
}

/* The tasks of a slice of n leaves from `first` on: a node is the hash of U8(1) and the two below;
 * a last odd one moves up as it is. Returns their number. */
static uint32_t fill(lane *l, const uvcci_transcript *t, uint32_t first, uint32_t n) {
    uint32_t items = n, tasks = 1, level = 0;
    leaf_level(l, t, first, n);
    for (; n > 1; n = n / 2 + (n & 1)) {
        uint8_t(*from)[32] = l->node[level & 1], (*to)[32] = l->node[~level & 1];
        uvcc_hash_item *h = &l->item[items];
        assert(items + n / 2 <= ITEMS && level + 1 < LEVELS);
        for (uint32_t i = 0; i < n / 2; i++)
            h[i] = (uvcc_hash_item){.mode = UVCC_HASH_PLAIN,
                                    .prefix = {1},
                                    .prefix_len = 1,
                                    .data = from[2 * (size_t)i],
                                    .len = 64,
                                    .out = to[i]};
        l->task[tasks++] =
            (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = h, .count = n / 2}};
        if (n % 2 != 0) {
            l->moved[level] = (uvcc_copy_item){.dst = to[n / 2], .src = from[n - 1], .len = 32};
            l->task[tasks++] = (uvcc_task){.kind = UVCC_TASK_COPY,
                                           .u.copy = {.items = &l->moved[level], .count = 1}};
        }
        items += n / 2;
        level++;
    }
    l->top = l->node[level & 1][0];
    assert(tasks <= TASKS);
    return tasks;
}

int uvcci_root_advance(uvcc_session *s, uvcci_step *st) {
    int rc = st->root == NULL ? begin(s, st) : 0;
    if (rc != 0)
        return rc;
    struct uvcci_root *r = st->root;
    const uint32_t n = uvcci_transcript_count(st->transcript);
    for (unsigned i = 0; i < UVCCI_ROOT_LANES; i++) {
        lane *l = r->lanes[i];
        if (l == NULL || l->out || r->next == r->slices || uvcci_jobs_full(&s->jobs))
            continue;
        const uint32_t first = r->next * UVCCI_ROOT_SLICE;
        const uint32_t count = n - first < UVCCI_ROOT_SLICE ? n - first : UVCCI_ROOT_SLICE;
        l->slice = r->next++;
        l->out = true;
        uvcci_jobs_push(&s->jobs, l->task, fill(l, st->transcript, first, count), UVCCI_JOB_ROOT, 0,
                        l);
    }
    if (r->done < r->slices)
        return 0;
    uvcci_merkle_root(r->top[0], r->slices, st->step_root);
    uvcci_root_free(s, st);
    return 1;
}

void uvcci_root_job_done(void *who) {
    lane *l = who;
    assert(l->out && l->slice < l->of->slices);
    memcpy(l->of->top[l->slice], l->top, 32);
    l->out = false;
    l->of->done++;
}
