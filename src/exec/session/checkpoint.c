/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - values into and out of PERSIST tensors: what the host sets, checkpoints, resuming.
 *
 * Format, little-endian: "UVCK" || U8 version=2 || U8 party || LE16 0 || sid_sub(32) ||
 * H(program)(32) || LE32 step || LE32 tensor count || LE32 run || root before(32) || lineage(32) ||
 * per PERSIST tensor in index order: LE32 index || LE32 0 || LE64 elements || lo || hi; then
 * SHA-256 of all before. The run is that which made it.
 *
 * Shares move by jobs only; a step does not start while a checkpoint of its beginning is being
 * copied or a value is being set, and no value is set while a checkpoint is being copied. */
#include "exec/session/checkpoint.h"

#include "exec/base/bounds.h"
#include "exec/session/evidence.h"
#include "exec/session/lineage.h"

#include "proto/bytes.h"
#include <assert.h>
#include <string.h>
#include <uvcc/checkpoint.h>

enum {
    VERSION = 2,
    AT_SID_SUB = 8,
    AT_PROGRAM = 40,
    AT_STEP = 72,
    AT_COUNT = 76,
    AT_RUN = 80,
    AT_ROOT = 84,
    AT_LINEAGE = 116,
    HEAD_BYTES = 148,
    TENSOR_HEAD_BYTES = 16,
    HASH_BYTES = 32
};

static void *state_alloc(uvcc_session *s, size_t bytes) {
    void *p = s->alloc.alloc(s->alloc.user, bytes, UVCC_MEM_STATE);
    if (p != NULL)
        memset(p, 0, bytes);
    return p;
}

static void state_free(uvcc_session *s, void *p, size_t bytes) {
    if (p != NULL)
        s->alloc.free(s->alloc.user, p, bytes, UVCC_MEM_STATE);
}

static bool persists(const uvcc_session *s, uint32_t i) {
    return s->program->tensors[i].desc.lifetime == UVCC_PERSIST;
}

/* Public ones are no secrets to be kept: who resumes sets them again. */
static bool is_shared(const uvcc_session *s, uint32_t i) {
    return persists(s, i) && s->program->tensors[i].desc.sharing != UVCC_PUBLIC;
}

/* ---- setting ---- */

/* Weights are set once: blocks of theirs that were kept would be as much memory as they. */
void uvcci_set_free(uvcc_session *s, uvcci_set *set) {
    enum { LARGE = 1 << 20 };
    if (set->bytes >= LARGE)
        uvcci_arena_drop(&s->wire, set->staged, set->bytes);
    else
        uvcci_arena_give(&s->wire, set->staged, set->bytes);
    state_free(s, set->items, set->item_count * sizeof set->items[0]);
    state_free(s, set, sizeof *set);
}

uvcci_set *uvcci_set_new(uvcc_session *s, size_t bytes, uint32_t items) {
    uvcci_set *set = state_alloc(s, sizeof *set);
    if (set == NULL)
        return NULL;
    set->tasks = 1;
    set->bytes = bytes;
    set->item_count = items;
    set->staged = uvcci_arena_take(&s->wire, bytes);
    if (items != 0)
        set->items = state_alloc(s, items * sizeof set->items[0]);
    if (set->staged != NULL && (items == 0 || set->items != NULL))
        return set;
    if (set->items == NULL)
        set->item_count = 0;
    uvcci_set_free(s, set);
    return NULL;
}

void uvcci_sets_advance(uvcc_session *s) {
    if (s->checkpoint.wanted || s->checkpoint.job_out || s->cancel.job_out)
        return;
    for (uvcci_set *set = s->sets; set != NULL; set = set->next) {
        const bool others = s->sets != set || set->next != NULL;
        if (set->out || (set->alone && others) || uvcci_jobs_full(&s->jobs))
            continue;
        set->out = true;
        uvcci_jobs_push(&s->jobs, set->task, set->tasks, UVCCI_JOB_SET, 0, set);
    }
}

void uvcci_set_push(uvcc_session *s, uvcci_set *set) {
    uvcci_step *st = uvcci_step_of(s, s->step);
    if (st != NULL)
        st->saved = false;
    set->next = s->sets;
    s->sets = set;
    uvcci_sets_advance(s);
}

void uvcci_set_failed(uvcc_session *s, const uvcci_set *set) {
    for (uint32_t i = 0; set->tasks > 1 && i < s->program->tensor_count; i++)
        if (s->buffers[i].digest == set->hash.out)
            s->buffers[i].set = false;
}

void uvcci_set_add_copy(uvcci_set *set, void *dst, const void *src, size_t len) {
    assert(set->task[0].u.copy.count < set->item_count && dst != NULL);
    set->items[set->task[0].u.copy.count++] = (uvcc_copy_item){.dst = dst, .src = src, .len = len};
}

int uvcci_may_touch(uvcc_session *s, const char *what) {
    if (uvcci_failed(s))
        return uvcci_refuse(s, UVCC_ERR_ABORTED, "%s: the session has ended", what);
    if (s->state == UVCCI_SESSION_NEW || s->state == UVCCI_SESSION_CLOSING)
        return uvcci_refuse(s, UVCC_ERR_STATE, "%s: %s", what,
                            s->state == UVCCI_SESSION_NEW ? "no program is loaded"
                                                          : "the session is closing");
    /* Else a value would come before the step at one party and into it at another. */
    if (uvcci_step_of(s, s->step) != NULL)
        return uvcci_refuse(s, UVCC_ERR_STATE,
                            "%s: step %u is agreed to; this comes before uvcc_session_step", what,
                            s->step);
    return 0;
}

static int may_set(uvcc_session *s) {
    return uvcci_may_touch(s, "tensors stay");
}

bool uvcci_being_touched(const uvcc_session *s, const uint64_t *lo) {
    for (const uvcci_set *set = s->sets; set != NULL; set = set->next) {
        if (set->task[0].kind == UVCC_TASK_MAP && set->task[0].u.map.out.lo == lo)
            return true;
        for (uint32_t i = 0; i < set->item_count; i++)
            if (set->items[i].dst == (const uint8_t *)lo ||
                set->items[i].src == (const uint8_t *)lo)
                return true;
    }
    return false;
}

/* The tensor, if it may be set now; NULL and the reason. What is wrong for good comes first. */
static const uvcci_tensor *settable(uvcc_session *s, uint32_t tensor, int *rc) {
    *rc = may_set(s);
    if (*rc != 0)
        return NULL;
    if (tensor >= s->program->tensor_count) {
        *rc = uvcci_refuse(s, UVCC_ERR_USAGE, "the program has no tensor %u", tensor);
        return NULL;
    }
    const uvcci_tensor *t = &s->program->tensors[tensor];
    if (!persists(s, tensor))
        *rc = uvcci_refuse(s, UVCC_ERR_USAGE, "%s is TRANSIENT: nothing is kept in it", t->name);
    else if (t->constant != NULL)
        *rc = uvcci_refuse(s, UVCC_ERR_USAGE, "%s is a constant of the program", t->name);
    else if (uvcci_being_touched(s, s->buffers[t->buffer].shares.lo))
        *rc = uvcci_refuse(s, UVCC_ERR_AGAIN, "%s is being set or read already", t->name);
    return *rc == 0 ? t : NULL;
}

/* What all know may be named. */
static int check_public(uvcc_session *s, const uvcci_tensor *t, const int64_t *v) {
    const size_t n = (size_t)t->elems;
    if (uvcci_all_within(v, n, t->desc.bits))
        return 0;
    const size_t i = uvcci_first_outside(v, n, t->desc.bits);
    return uvcci_refuse(s, UVCC_ERR_BOUND, "value %zu of %s is %lld, outside its %u bits", i,
                        t->name, (long long)v[i], t->desc.bits);
}

/* What all set alike is compared by its digest in the next STEP (lineage.h): that of its words,
 * however the session keeps them. */
static int tell(uvcc_session *s, uvcci_set *set, uint32_t tensor) {
    uvcci_buffer *b = &s->buffers[tensor];
    if (b->digest == NULL)
        b->digest = state_alloc(s, HASH_BYTES);
    if (b->digest == NULL)
        return UVCC_ERR_NOMEM;
    set->hash = (uvcc_hash_item){.mode = UVCC_HASH_TREE,
                                 .data = set->staged,
                                 .len = s->program->tensors[tensor].elems * 8,
                                 .out = b->digest};
    uvcci_writer w = uvcci_writer_on(set->hash.prefix, sizeof set->hash.prefix);
    uvcci_put(&w, "UVCC_PUBLIC_V1", 14);
    uvcci_put32(&w, tensor);
    set->hash.prefix_len = (uint8_t)w.len;
    set->task[1] = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = &set->hash, .count = 1}};
    set->tasks = 2;
    return 0;
}

/* Values as signed integers of `width` bytes: 2 or 4. */
static void narrow(const int64_t *v, size_t n, unsigned width, uint8_t *out) {
    int16_t *two = (int16_t *)(void *)out;
    int32_t *four = (int32_t *)(void *)out;
    assert(width == sizeof *two || width == sizeof *four);
    for (size_t i = 0; i < n && width == sizeof *two; i++)
        two[i] = (int16_t)v[i];
    for (size_t i = 0; i < n && width == sizeof *four; i++)
        four[i] = (int32_t)v[i];
}

/* What a set job does: shares, or narrow values, are copied, of others a map makes what is kept.
 * Staged are the words of one or both vectors; narrow values stand behind the words. */
static void set_by_copy(uvcc_session *s, uvcci_set *set, const uvcci_tensor *t) {
    const uvcc_shares *to = &s->buffers[t->buffer].shares;
    const size_t n = uvcci_component_words(t) * 8;
    set->task[0].kind = UVCC_TASK_COPY;
    set->task[0].u.copy.items = set->items;
    if (t->width != 8) {
        uvcci_set_add_copy(set, to->lo, set->staged + n, uvcci_component_bytes(t));
        return;
    }
    uvcci_set_add_copy(set, to->lo, set->staged, n);
    uvcci_set_add_copy(set, to->hi, set->staged + n, n);
}

static void set_by_map(uvcc_session *s, uvcci_set *set, const uvcci_tensor *t) {
    const uvcc_shares *to = &s->buffers[t->buffer].shares;
    set->task[0].kind = UVCC_TASK_MAP;
    set->task[0].u.map.op = to->hi != NULL ? UVCC_MAP_PUBLIC : UVCC_MAP_COPY;
    set->task[0].u.map.party = s->party;
    set->task[0].u.map.rows = t->desc.rows;
    set->task[0].u.map.cols = t->desc.cols;
    set->task[0].u.map.x.lo = (uint64_t *)(void *)set->staged; /* arenas align to 64 bytes */
    set->task[0].u.map.out = *to;
}

/* One vector: public; two: this party's shares. What the host gave is copied before this returns; a
 * job brings it to where tensors are. */
static int set_tensor(uvcc_session *s, uint32_t tensor, const void *a, const void *b) {
    int rc;
    const uvcci_tensor *t = settable(s, tensor, &rc);
    if (t != NULL && b == NULL && t->desc.sharing == UVCC_ONE_HOT)
        rc = uvcci_refuse(s, UVCC_ERR_USAGE, "%s is one-hot: it takes keys, as shares", t->name);
    else if (t != NULL && b == NULL)
        rc = check_public(s, t, a);
    else if (t != NULL && t->desc.sharing == UVCC_PUBLIC)
        rc = uvcci_refuse(s, UVCC_ERR_USAGE, "%s is public: it has no shares", t->name);
    if (rc == 0 && s->buffers[tensor].borrowed)
        rc = uvcci_refuse(s, UVCC_ERR_USAGE,
                          "%s is borrowed: set it in the session that lends it, then "
                          "uvcc_session_set_borrowed",
                          t->name);
    if (rc != 0)
        return rc;
    const size_t n = uvcci_component_words(t) * 8;
    const size_t more = b != NULL ? n : t->width != 8 ? uvcci_component_bytes(t) : 0;
    assert(t->buffer == tensor && s->buffers[tensor].shares.lo != NULL);
    uvcci_set *set = uvcci_set_new(s, n + more, b != NULL ? 2 : more != 0);
    if (set == NULL || (b == NULL && tell(s, set, tensor) != 0)) {
        if (set != NULL)
            uvcci_set_free(s, set);
        return uvcci_refuse(s, UVCC_ERR_NOMEM, "no memory to set %s", t->name);
    }
    memcpy(set->staged, a, n);
    if (b != NULL)
        memcpy(set->staged + n, b, n);
    else if (more != 0)
        narrow(a, (size_t)t->elems, t->width, set->staged + n);
    if (more != 0)
        set_by_copy(s, set, t);
    else
        set_by_map(s, set, t);
    uvcci_set_push(s, set);
    s->buffers[tensor].set = true;
    s->buffers[tensor].told = s->buffers[tensor].given = b == NULL;
    return 0;
}

/* The memory is that of the last session that lends to the one that lends, and so on: all of them
 * know what is there now. A session that has ended sets no more; one that began anew may have
 * zeros. */
static int check_lent(uvcc_session *s, const uvcci_tensor *t) {
    const uint8_t *digest = s->lender->buffers[t->buffer].digest;
    bool touched = false;
    for (const uvcc_session *l = s->lender; l != NULL; l = l->lender) {
        const uvcci_buffer *from = &l->buffers[t->buffer];
        const bool here = uvcci_being_touched(l, from->shares.lo);
        if (!from->set || !from->given || (here && uvcci_failed(l)) ||
            memcmp(from->digest, digest, HASH_BYTES) != 0)
            return uvcci_refuse(s, UVCC_ERR_STATE, "%s has no value in the session that lends it",
                                t->name);
        touched |= here;
    }
    return touched ? uvcci_refuse(s, UVCC_ERR_AGAIN, "%s is being set in the session that lends it",
                                  t->name)
                   : 0;
}

/* What the lender's digest is of is what all three compare. No session that is recorded borrows. */
int uvcc_session_set_borrowed(uvcc_session *s, uint32_t tensor) {
    int rc;
    if (s == NULL)
        return UVCC_ERR_USAGE;
    const uvcci_tensor *t = settable(s, tensor, &rc);
    if (t == NULL)
        return rc;
    uvcci_buffer *b = &s->buffers[tensor];
    if (!b->borrowed)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "%s is not borrowed", t->name);
    rc = check_lent(s, t);
    if (rc != 0)
        return rc;
    if (b->digest == NULL)
        b->digest = state_alloc(s, HASH_BYTES);
    if (b->digest == NULL)
        return uvcci_refuse(s, UVCC_ERR_NOMEM, "no memory to set %s", t->name);
    memcpy(b->digest, s->lender->buffers[tensor].digest, HASH_BYTES);
    b->set = b->told = b->given = true;
    return 0;
}

/* Tensors that nobody set: constants of the program if they are, else to become zeros. */
static uint32_t count_unset(const uvcc_session *s, bool constants) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->program->tensor_count; i++)
        if (persists(s, i) && !s->buffers[i].set &&
            (s->program->tensors[i].constant != NULL) == constants)
            n += uvcci_components(&s->program->tensors[i].desc);
    return n;
}

/* Constants are copied from where the program has them, the others wiped. */
static int fill_unset(uvcc_session *s, bool constants) {
    const uint32_t n = count_unset(s, constants);
    if (n == 0)
        return 0;
    uvcci_set *set = uvcci_set_new(s, 0, n);
    if (set == NULL)
        return UVCC_ERR_NOMEM;
    set->alone = !constants; /* a checkpoint that is not wanted may still be on its way into them */
    set->task[0].kind = constants ? UVCC_TASK_COPY : UVCC_TASK_WIPE;
    set->task[0].u.copy.items = set->items;
    for (uint32_t i = 0; i < s->program->tensor_count; i++) {
        const uvcci_tensor *t = &s->program->tensors[i];
        if (!persists(s, i) || s->buffers[i].set || (t->constant != NULL) != constants)
            continue;
        const uvcc_shares *to = &s->buffers[i].shares;
        uvcci_set_add_copy(set, to->lo, t->constant, uvcci_component_bytes(t));
        if (to->hi != NULL)
            uvcci_set_add_copy(set, to->hi, NULL, uvcci_component_bytes(t));
        s->buffers[i].set = true;
    }
    uvcci_set_push(s, set);
    return 0;
}

/* A checkpoint has no public tensors, so zeros in them would be another model; nor is what another
 * session has for this one to fill. */
static int check_public_set(uvcc_session *s) {
    for (uint32_t i = 0; i < s->program->tensor_count; i++) {
        const uvcci_tensor *t = &s->program->tensors[i];
        if (s->buffers[i].borrowed && !s->buffers[i].set)
            return uvcci_refuse(s, UVCC_ERR_STATE,
                                "%s is borrowed and was not set: uvcc_session_set_borrowed it "
                                "before the first step",
                                t->name);
        if (s->step == 0)
            continue;
        if (t->desc.sharing == UVCC_PUBLIC && t->constant == NULL && !s->buffers[i].set)
            return uvcci_refuse(s, UVCC_ERR_STATE,
                                "%s is public, so no checkpoint has it: uvcc_session_set_public "
                                "it again before the first step",
                                t->name);
    }
    return 0;
}

int uvcci_zero_unset(uvcc_session *s) {
    int rc = check_public_set(s);
    if (rc == 0)
        rc = fill_unset(s, true);
    return rc == 0 ? fill_unset(s, false) : rc;
}

int uvcci_session_set_public(uvcc_session *s, uint32_t tensor, const int64_t *v) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    if (v == NULL)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "there are no values: NULL");
    return set_tensor(s, tensor, v, NULL);
}

int uvcci_session_set_shares(uvcc_session *s, uint32_t tensor, const uint64_t *lo,
                             const uint64_t *hi) {
    if (s == NULL)
        return UVCC_ERR_USAGE;
    if (lo == NULL || hi == NULL)
        return uvcci_refuse(s, UVCC_ERR_USAGE, "there are not both components: NULL");
    return set_tensor(s, tensor, lo, hi);
}

/* ---- checkpoints ---- */

int uvcci_checkpoint_init(uvcc_session *s) {
    uvcci_checkpoint *c = &s->checkpoint;
    c->bytes = HEAD_BYTES + HASH_BYTES;
    for (uint32_t i = 0; i < s->program->tensor_count; i++)
        if (is_shared(s, i)) {
            c->bytes += TENSOR_HEAD_BYTES + 16 * uvcci_component_words(&s->program->tensors[i]);
            c->item_count += 2;
        }
    if (s->cfg.resume.checkpoint_every == 0)
        return 0;
    c->items = state_alloc(s, (c->item_count + 1u) * sizeof c->items[0]);
    c->data = uvcci_arena_take(&s->wire, c->bytes);
    c->next = uvcci_arena_take(&s->wire, c->bytes);
    return c->items != NULL && c->data != NULL && c->next != NULL ? 0 : UVCC_ERR_NOMEM;
}

void uvcci_checkpoint_free(uvcc_session *s) {
    uvcci_checkpoint *c = &s->checkpoint;
    uvcci_arena_give(&s->wire, c->data, c->bytes);
    uvcci_arena_give(&s->wire, c->next, c->bytes);
    state_free(s, c->items, (c->item_count + 1u) * sizeof c->items[0]);
    memset(c, 0, sizeof *c);
}

/* The header of a checkpoint that resumes at `step`. A resuming session compares it up to the run.
 */
static void write_head(const uvcc_session *s, uint32_t step, uint8_t head[HEAD_BYTES]) {
    uint8_t root_before[32];
    uvcci_root_before(s, root_before);
    uvcci_writer w = uvcci_writer_on(head, HEAD_BYTES);
    uvcci_put(&w, "UVCK", 4);
    uvcci_put8(&w, VERSION);
    uvcci_put8(&w, s->party);
    uvcci_put16(&w, 0);
    uvcci_put(&w, s->sid_sub, 32);
    uvcci_put(&w, s->h_program, 32);
    uvcci_put32(&w, step);
    uvcci_put32(&w, s->checkpoint.item_count / 2);
    uvcci_put32(&w, s->run);
    uvcci_put(&w, root_before, 32);
    uvcci_put(&w, s->lineage, 32);
    assert(!w.bad && w.len == HEAD_BYTES);
}

static void write_tensor_head(const uvcc_session *s, uint32_t i, uint8_t *out) {
    uvcci_st32(out, i);
    uvcci_st32(out + 4, 0);
    uvcci_st64(out + 8, uvcci_component_words(&s->program->tensors[i]));
}

/* Header and tensors' heads are written here, shares and the hash by the job: only jobs may read
 * TENSOR memory. The last checkpoint stays as it is until this one is done. */
static void start_copy(uvcc_session *s) {
    uvcci_checkpoint *c = &s->checkpoint;
    uint8_t *at = c->next + HEAD_BYTES;
    uint32_t n = 0;
    assert(c->wanted && !c->job_out && c->items != NULL);
    c->next_step = s->step;
    write_head(s, s->step, c->next);
    for (uint32_t i = 0; i < s->program->tensor_count; i++) {
        if (!is_shared(s, i))
            continue;
        const uvcc_shares *from = &s->buffers[i].shares;
        size_t len = uvcci_component_words(&s->program->tensors[i]) * 8;
        write_tensor_head(s, i, at);
        at += TENSOR_HEAD_BYTES;
        c->items[n++] = (uvcc_copy_item){.dst = at, .src = (const uint8_t *)from->lo, .len = len};
        c->items[n++] =
            (uvcc_copy_item){.dst = at + len, .src = (const uint8_t *)from->hi, .len = len};
        at += 2 * len;
    }
    assert(n == c->item_count && at == c->next + c->bytes - HASH_BYTES);
    c->hash = (uvcc_hash_item){.mode = UVCC_HASH_PLAIN,
                               .data = c->next,
                               .len = c->bytes - HASH_BYTES,
                               .out = c->next + c->bytes - HASH_BYTES};
    c->tasks[0] = (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = c->items, .count = n}};
    c->tasks[1] = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = &c->hash, .count = 1}};
    c->wanted = false;
    c->job_out = true;
    uvcci_jobs_push(&s->jobs, c->tasks, 2, UVCCI_JOB_CHECKPOINT, 0, c);
}

void uvcci_checkpoint_due(uvcc_session *s) {
    s->checkpoint.wanted =
        s->cfg.resume.checkpoint_every != 0 && s->step % s->cfg.resume.checkpoint_every == 0;
}

void uvcci_checkpoint_first(uvcc_session *s) {
    if (s->cfg.resume.checkpoint_every == 0 || s->step != s->hello.step || s->checkpoint.here ||
        s->checkpoint.job_out || s->sets != NULL || !uvcci_lineage_is_ours(s->hello.lineage))
        return;
    s->checkpoint.wanted = true;
}

bool uvcci_checkpoint_busy(uvcc_session *s) {
    if (s->checkpoint.wanted && !s->checkpoint.job_out && !uvcci_jobs_full(&s->jobs))
        start_copy(s);
    return s->checkpoint.wanted || s->checkpoint.job_out;
}

void uvcci_checkpoint_done(uvcc_session *s) {
    uvcci_checkpoint *c = &s->checkpoint;
    assert(c->job_out);
    c->job_out = false;
    if (uvcci_failed(s))
        return;
    uint8_t *old = c->data;
    c->data = c->next;
    c->next = old;
    c->step = c->next_step;
    c->here = true;
    uvcci_event_push(s,
                     &(uvcc_event){.kind = UVCC_EVENT_CHECKPOINT, .run = s->run, .step = c->step});
}

int uvcc_session_checkpoint(const uvcc_session *s, uint32_t *step, const uint8_t **data,
                            size_t *len) {
    if (s == NULL || step == NULL || data == NULL || len == NULL)
        return UVCC_ERR_USAGE;
    if (!s->checkpoint.here)
        return UVCC_ERR_STATE;
    *step = s->checkpoint.step;
    *data = s->checkpoint.data;
    *len = s->checkpoint.bytes;
    return 0;
}

static bool hash_fits(const uint8_t *data, size_t len) {
    uint8_t h[32];
    uvcci_sha256_once(data, len - HASH_BYTES, h);
    return memcmp(h, data + len - HASH_BYTES, HASH_BYTES) == 0;
}

int uvcc_checkpoint_read(const uint8_t *data, size_t len, uvcc_checkpoint_info *info) {
    if (data == NULL || info == NULL)
        return UVCC_ERR_USAGE;
    if (len < HEAD_BYTES + HASH_BYTES || memcmp(data, "UVCK", 4) != 0 || data[4] != VERSION ||
        data[5] >= UVCC_PARTIES)
        return UVCC_ERR_MISMATCH;
    if (!hash_fits(data, len))
        return UVCC_ERR_AUTH;
    *info = (uvcc_checkpoint_info){.party = data[5],
                                   .run = uvcci_ld32(data + AT_RUN),
                                   .step = uvcci_ld32(data + AT_STEP),
                                   .tensors = uvcci_ld32(data + AT_COUNT)};
    memcpy(info->sid_sub, data + AT_SID_SUB, 32);
    memcpy(info->program_hash, data + AT_PROGRAM, 32);
    memcpy(info->root_before, data + AT_ROOT, 32);
    memcpy(info->lineage, data + AT_LINEAGE, 32);
    return 0;
}

int uvcc_checkpoint_tensor(const uint8_t *data, size_t len, uint32_t tensor, uint64_t *lo,
                           uint64_t *hi, uint64_t elems) {
    if (data == NULL || lo == NULL || hi == NULL)
        return UVCC_ERR_USAGE;
    if (len < HEAD_BYTES + HASH_BYTES)
        return UVCC_ERR_MISMATCH;
    size_t at = HEAD_BYTES, end = len - HASH_BYTES;
    while (end - at >= TENSOR_HEAD_BYTES) {
        uint64_t here = uvcci_ld64(data + at + 8);
        uint32_t index = uvcci_ld32(data + at);
        at += TENSOR_HEAD_BYTES;
        if (here > (end - at) / 16)
            return UVCC_ERR_MISMATCH;
        if (index != tensor) {
            at += 16 * (size_t)here;
            continue;
        }
        if (here != elems)
            return UVCC_ERR_MISMATCH;
        for (uint64_t i = 0; i < elems; i++) {
            lo[i] = uvcci_ld64(data + at + 8 * i);
            hi[i] = uvcci_ld64(data + at + 8 * (elems + i));
        }
        return 0;
    }
    return UVCC_ERR_NOT_FOUND;
}

/* 0 if the bytes are a whole checkpoint of this session's coordinate. */
static int check(uvcc_session *s, const uint8_t *data, size_t len) {
    static const char other[] = "the checkpoint is of another party, worker or program";
    uint8_t head[HEAD_BYTES];
    if (len != s->checkpoint.bytes)
        return uvcci_refuse(s, UVCC_ERR_MISMATCH, "%s", other);
    if (!hash_fits(data, len))
        return uvcci_refuse(s, UVCC_ERR_AUTH, "the checkpoint is damaged");
    write_head(s, uvcci_ld32(data + AT_STEP), head);
    if (memcmp(head, data, AT_RUN) != 0 || uvcci_lineage_is_ours(data + AT_LINEAGE))
        return uvcci_refuse(s, UVCC_ERR_MISMATCH, "%s", other);
    size_t at = HEAD_BYTES;
    for (uint32_t i = 0; i < s->program->tensor_count; i++) {
        uint8_t th[TENSOR_HEAD_BYTES];
        if (!is_shared(s, i))
            continue;
        write_tensor_head(s, i, th);
        if (memcmp(th, data + at, sizeof th) != 0)
            return uvcci_refuse(s, UVCC_ERR_MISMATCH, "%s", other);
        at += TENSOR_HEAD_BYTES + 16 * uvcci_component_words(&s->program->tensors[i]);
    }
    return 0;
}

/* Sets of all tensors that have not begun: nobody wants their values any more. */
static void drop_waiting(uvcc_session *s) {
    for (uvcci_set **at = &s->sets; *at != NULL;) {
        uvcci_set *set = *at;
        if (!set->alone || set->out) {
            at = &set->next;
            continue;
        }
        *at = set->next;
        uvcci_set_free(s, set);
    }
}

/* Sets all tensors to a checkpoint's: once the sets before are done, or instead of one like it that
 * has not begun. */
static int set_all(uvcc_session *s, const uint8_t *data, size_t len) {
    uvcci_set *set = uvcci_set_new(s, len, s->checkpoint.item_count);
    if (set == NULL)
        return UVCC_ERR_NOMEM;
    memcpy(set->staged, data, len);
    set->alone = true;
    set->task[0].kind = UVCC_TASK_COPY;
    set->task[0].u.copy.items = set->items;
    size_t at = HEAD_BYTES;
    for (uint32_t i = 0; i < s->program->tensor_count; i++) {
        if (!is_shared(s, i))
            continue;
        const uvcc_shares *to = &s->buffers[i].shares;
        size_t n = uvcci_component_words(&s->program->tensors[i]) * 8;
        at += TENSOR_HEAD_BYTES;
        uvcci_set_add_copy(set, to->lo, set->staged + at, n);
        uvcci_set_add_copy(set, to->hi, set->staged + at + n, n);
        at += 2 * n;
        s->buffers[i].set = true;
        s->buffers[i].told = s->buffers[i].given = false;
    }
    assert(at == len - HASH_BYTES);
    drop_waiting(s);
    uvcci_set_push(s, set);
    return 0;
}

/* Another place where the session may go on. 0 too if it is offered already. */
static int add_offer(uvcc_session *s, const uvcci_offer *o) {
    for (uint32_t i = 0; i < s->offer_count; i++)
        if (s->offer[i].step == o->step && memcmp(s->offer[i].lineage, o->lineage, 32) == 0)
            return 0;
    if (s->offer_count == UVCCI_OFFERS)
        return uvcci_refuse(s, UVCC_ERR_LIMIT, "%u checkpoints are offered already", UVCCI_OFFERS);
    s->offer[s->offer_count++] = *o;
    return 0;
}

/* Begins on what the host sets: before the start that is offered too, after READY no tensor is set
 * any more. */
static int begin_anew(uvcc_session *s, bool ready) {
    uvcci_offer o = {.step = s->cfg.resume.next_step};
    if (!ready)
        return add_offer(s, &o);
    if (o.step != s->step || !uvcci_lineage_is_ours(s->hello.lineage))
        return uvcci_refuse(s, UVCC_ERR_MISMATCH,
                            "the parties agreed on a checkpoint of step %u, not to begin anew",
                            s->step);
    drop_waiting(s);
    for (uint32_t i = 0; i < s->program->tensor_count; i++)
        s->buffers[i].set = s->buffers[i].told = s->buffers[i].given = false;
    s->loaded = o;
    memset(s->root_before, 0, 32);
    s->tensors_here = true;
    return 0;
}

/* All tensors at once, or none: the bytes are checked as a whole before the first is set. Before
 * the start each one is offered, and the newest is set; after READY it must be the one that the
 * parties agreed on. */
int uvcci_session_resume(uvcc_session *s, const uint8_t *data, size_t len) {
    if (s == NULL || (data == NULL) != (len == 0))
        return UVCC_ERR_USAGE;
    const bool ready = s->state == UVCCI_SESSION_READY;
    if (!uvcci_failed(s) && ((s->state != UVCCI_SESSION_LOADED && !ready) || s->ctx[0].active ||
                             s->ctx[1].active || s->stats.steps_finished != 0))
        return uvcci_refuse(s, UVCC_ERR_STATE,
                            "a checkpoint is taken before the start, or after READY before any "
                            "step");
    int rc = may_set(s);
    if (rc == 0 && data == NULL)
        return begin_anew(s, ready);
    if (rc == 0)
        rc = check(s, data, len);
    if (rc != 0)
        return rc;
    uvcci_offer o = {.step = uvcci_ld32(data + AT_STEP)};
    const uint32_t run = uvcci_ld32(data + AT_RUN), offers = s->offer_count;
    memcpy(o.lineage, data + AT_LINEAGE, 32);
    if (ready && (o.step != s->step || memcmp(o.lineage, s->hello.lineage, 32) != 0))
        return uvcci_refuse(s, UVCC_ERR_MISMATCH,
                            "the checkpoint of step %u is not that of step %u on which the parties "
                            "agreed, or of another history",
                            o.step, s->step);
    if (!ready && (rc = add_offer(s, &o)) != 0)
        return rc;
    const bool older = o.step < s->loaded.step || (o.step == s->loaded.step && run < s->loaded_run);
    if (!ready && !uvcci_lineage_is_ours(s->loaded.lineage) && older)
        return 0;
    if ((rc = set_all(s, data, len)) != 0) {
        s->offer_count = offers;
        return rc;
    }
    s->loaded = o;
    s->loaded_run = run;
    memcpy(s->root_before, data + AT_ROOT, 32);
    s->tensors_here = ready;
    return 0;
}
