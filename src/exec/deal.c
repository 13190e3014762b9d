/* deal.c - keys dealt ahead: this party is OTHER on some blocks of a gate and sends their key streams
 * to HEAD and TAIL, in schedule order, as soon as the step is agreed and the links have room. One op's
 * deal is one job: generate, copy into the blobs of the messages, hash. */
#include "session.h"

#include <stdlib.h>
#include <string.h>

/* One key stream to place: its block and sort key. */
typedef struct stream {
    uint64_t fss_id;
    uint32_t block;
    uint32_t bytes;
} stream;

static int compare_streams(const void *a, const void *b) {
    const stream *x = a, *y = b;
    return x->fss_id < y->fss_id ? -1 : x->fss_id > y->fss_id;
}

size_t uvcci_key_offsets(const uvcci_run *r, uint8_t dealer, uint8_t to, uvcci_bump *bump,
                         size_t **at) {
    const uvcci_plan *plan = r->plan;
    stream *list = uvcci_bump_take(bump, plan->blocks * sizeof *list);
    *at = uvcci_bump_take(bump, plan->blocks * sizeof **at);
    if (list == NULL || *at == NULL) {
        *at = NULL;
        return 0;
    }
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->blocks; i++) {
        (*at)[i] = SIZE_MAX;
        uint8_t edge = r->ids.edge[i];
        uvcci_role role = uvcci_role_of(to, edge);
        if (uvcci_role_of(dealer, edge) != UVCCI_OTHER || role == UVCCI_OTHER)
            continue;
        uvcc_key_layout lay;
        uvcc_key_layout_of((uvcc_gate)plan->gate, plan->compact, plan->shift, plan->bits,
                           uvcci_plan_count(plan, i), (uvcc_role)role, &lay);
        list[n++] = (stream){
            .fss_id = r->ids.id[UVCCI_ID_FSS0][i], .block = i, .bytes = lay.total_bytes};
    }
    qsort(list, n, sizeof list[0], compare_streams);
    size_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        (*at)[list[i].block] = total;
        total += list[i].bytes;
    }
    return total;
}

static bool deals_here(const uvcc_session *s, const uvcci_run *r) {
    if (r->plan->keys.vec_count == 0)
        return false;
    for (uint32_t i = 0; i < r->plan->blocks; i++)
        if (uvcci_role_of(s->party, r->ids.edge[i]) == UVCCI_OTHER)
            return true;
    return false;
}

/* Builds the deal's tasks. 0, UVCC_ERR_AGAIN or UVCC_ERR_NOMEM. */
static int deal_build(uvcc_session *s, uvcci_run *r, uvcc_task **tasks, uint32_t *count) {
    const uvcci_plan *plan = r->plan;
    uvcci_bump *bump = &r->deal_bump;
    int rc = uvcci_batch_open(s, r, &plan->keys, bump, &r->deal_out);
    if (rc != 0)
        return rc;
    size_t *at[2], total[2];
    uint8_t dst[2] = {uvcci_next_party(s), uvcci_prev_party(s)};
    for (unsigned k = 0; k < 2; k++) {
        total[k] = uvcci_key_offsets(r, s->party, dst[k], bump, &at[k]);
        if (at[k] == NULL)
            return UVCC_ERR_NOMEM;
    }
    r->deal_bytes = total[0] + total[1];
    r->deal_buf = uvcci_arena_take(&s->tensors, r->deal_bytes);
    uvcc_block *blocks = uvcci_bump_take(bump, plan->blocks * sizeof *blocks);
    uvcc_copy_item *copies =
        uvcci_bump_take(bump, r->deal_out.blob_count * sizeof *copies + sizeof *copies);
    uvcc_hash_item *hashes = uvcci_bump_take(bump, 2 * sizeof *hashes);
    *tasks = uvcci_bump_take(bump, 3 * sizeof **tasks);
    if (r->deal_buf == NULL || blocks == NULL || copies == NULL || hashes == NULL || *tasks == NULL)
        return UVCC_ERR_NOMEM;
    uint8_t *base[2] = {r->deal_buf, r->deal_buf + total[0]};

    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->blocks; i++) {
        uint8_t edge = r->ids.edge[i];
        if (uvcci_role_of(s->party, edge) != UVCCI_OTHER)
            continue;
        unsigned head = uvcci_party_of(UVCCI_HEAD, edge) == dst[0] ? 0 : 1;
        blocks[n++] = (uvcc_block){
            .block = i,
            .count = uvcci_plan_count(plan, i),
            .role = UVCC_OTHER,
            .out_bytes = {base[head] + at[head][i], base[1 - head] + at[1 - head][i]}};
    }
    uvcc_task *t = *tasks;
    t[0] = (uvcc_task){.kind = UVCC_TASK_DEAL, .ordinal = r->ordinal, .keys = &r->step->keys};
    t[0].u.vec.blocks = blocks;
    t[0].u.vec.count = n;
    t[0].u.vec.shift = plan->shift;
    t[0].u.vec.bits = plan->bits;
    t[0].u.vec.gate = plan->gate;
    t[0].u.vec.compact = plan->compact;
    for (uint32_t i = 0; i < r->deal_out.blob_count; i++) {
        const uvcci_blob *b = &r->deal_out.blobs[i];
        unsigned k = b->dst == dst[0] ? 0 : 1;
        copies[i] = (uvcc_copy_item){
            .dst = b->at, .src = base[k] + at[k][b->block] + b->offset, .len = b->len};
    }
    t[1] = (uvcc_task){.kind = UVCC_TASK_COPY,
                       .u.copy = {.items = copies, .count = r->deal_out.blob_count}};
    *count = 2;
    uint32_t hn = 0;
    for (unsigned k = 0; k < 2 && !s->cfg.audit_off; k++) {
        if (total[k] == 0)
            continue;
        uvcci_pending_leaf *l =
            uvcci_leaf_later(bump, &r->deal_leaves, UVCCI_LEAF_KEYS_DONE);
        if (l == NULL)
            return UVCC_ERR_NOMEM;
        l->src = s->party;
        l->dst = dst[k];
        hashes[hn] = (uvcc_hash_item){
            .mode = UVCC_HASH_SALTED, .data = base[k], .len = total[k], .out = l->digest};
        memcpy(hashes[hn].key, r->step->salt[dst[k]], 32);
        hn++;
    }
    if (hn != 0)
        t[(*count)++] =
            (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = hashes, .count = hn}};
    return 0;
}

static void deal_free(uvcc_session *s, uvcci_run *r) {
    uvcci_arena_give(&s->tensors, r->deal_buf, r->deal_bytes);
    r->deal_buf = NULL;
    r->deal_leaves = NULL;
    memset(&r->deal_out, 0, sizeof r->deal_out);
    uvcci_bump_reset(&r->deal_bump);
}

/* Sends one op's keys; its job is done. */
static void deal_send(uvcc_session *s, uvcci_run *r) {
    uvcci_step *st = r->step;
    if (!s->cfg.audit_off)
        uvcci_leaves_write(s, r, r->deal_leaves);
    for (uint32_t i = 0; i < r->deal_out.count; i++) {
        uvcci_tx *tx = &r->deal_out.tx[i];
        uvcc_link_msg *msg = tx->msg;
        tx->msg = NULL;
        uvcci_send(s, tx->dst, msg, UVCC_FRAME_KEYS_BATCH, tx->len, st->number,
                   st->table.rows[r->row0 + tx->b].op_id,
                   (uint64_t)st->number << 32 | (uint64_t)r->index << 4);
        if (uvcci_failed(s))
            return;
    }
    deal_free(s, r);
    st->deals_sent++;
}

/* Keys go out in schedule order whatever order their jobs end in: keys of later ops must not use up the
 * credit that an earlier op's keys need. */
static void send_in_order(uvcc_session *s) {
    for (uint32_t k = 0; k < 2; k++) {
        uvcci_step *st = uvcci_step_of(s, s->step + k);
        if (st == NULL)
            return;
        while (st->deals_sent < st->entry->op_count && st->runs[st->deals_sent].deal_done) {
            deal_send(s, &st->runs[st->deals_sent]);
            if (uvcci_failed(s))
                return;
        }
        if (st->deals_sent < st->entry->op_count)
            return;
    }
}

void uvcci_deal_job_done(uvcc_session *s, uvcci_run *r) {
    r->deal_done = true;
    send_in_order(s);
}

/* Starts deals of one step in program order until room runs out. */
static bool deal_step(uvcc_session *s, uvcci_step *st) {
    bool any = false;
    while (st->deal_next < st->entry->op_count && !uvcci_failed(s)) {
        uvcci_run *r = &st->runs[st->deal_next];
        if (!deals_here(s, r)) {
            r->deal_done = true; /* nothing to send, in its turn */
            st->deal_next++;
            any = true;
            continue;
        }
        uint32_t most = r->plan->key_bytes_max < UVCC_MSG_MAX_BYTES ? (uint32_t)r->plan->key_bytes_max
                                                                     : UVCC_MSG_MAX_BYTES;
        if (uvcci_jobs_full(&s->jobs) ||
            !uvcc_link_writable(s->peer[uvcci_next_party(s)].link, UVCC_FRAME_KEYS_BATCH, most) ||
            !uvcc_link_writable(s->peer[uvcci_prev_party(s)].link, UVCC_FRAME_KEYS_BATCH, most))
            return any;
        uvcc_task *tasks;
        uint32_t count;
        int rc = deal_build(s, r, &tasks, &count);
        if (rc == UVCC_ERR_AGAIN) {
            deal_free(s, r);
            return any;
        }
        if (rc != 0) {
            uvcci_abort(s, UVCC_ABORT_MEMORY, "no memory to deal keys");
            return true;
        }
        st->deal_next++;
        uvcci_jobs_push(&s->jobs, tasks, count, UVCCI_JOB_DEAL, r);
        any = true;
    }
    return any;
}

bool uvcci_deal_advance(uvcc_session *s) {
    bool any = false;
    for (uint32_t k = 0; k < 2 && !uvcci_failed(s); k++) { /* the running step first */
        uvcci_step *st = uvcci_step_of(s, s->step + k);
        if (st == NULL || !st->agreed)
            break;
        any |= deal_step(s, st);
        if (st->deal_next < st->entry->op_count)
            break; /* in schedule order */
    }
    if (any && !uvcci_failed(s))
        send_in_order(s);
    return any;
}
