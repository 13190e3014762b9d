/* SPDX-License-Identifier: Apache-2.0 */
/* leader.c - what worker 0 does for all: hears who is there and on which device, finds operations
 * for which all members are ready, and tells them to begin.
 *
 * Operations get one order in the whole party, that of the GOs, which all of their members hear in
 * the same order. So no two workers wait for each other's next operation, whatever streams and
 * communicators the operations share (an order within each group would not give that). And a
 * member is told to begin when its own tensor and all others' are ready: what is on a device ends
 * by itself, also after a failure, which is nothing more than that no GO follows.
 *
 * Parties of one process get one order too. They share its context of each device, and a context
 * has fewer queues than there are streams, so what is on one stream may stand behind what is on
 * another one. An operation of party B that is behind one of party A on device 0, and before it on
 * device 1, would hold up both for ever, since NCCL's kernels wait for those of the other devices.
 * So there is a turn (turn.c): whose turn it is sends GOs, the members say BEGUN when what they
 * were told is on their streams, and when all have, the turn goes to the next that waits for it.
 * While nobody waits its holder goes on sending. Joining (START) takes a turn as well, and no GO
 * comes before all have joined: what NCCL does with devices then is not between two launches of
 * another party's operation.
 *
 * Why nothing waits for ever: count the operations of all these parties in the order of their GOs.
 * Every device gets them in this order: of one party since its worker begins them as it hears of
 * them, of two since the turn goes on only when all is on its streams. Take the first, k, that is
 * not over. Its launches wait for nothing but what is on the same device already, and for each
 * other: that is operations before k, which are over, and kernels that end by themselves, as all do
 * but NCCL's. On the device it waits for what is before it in its queue, which is the same, and for
 * its peers' k. So it ends, and so does the next. What a device that fails holds up ends by force:
 * a party that says so of its devices gives up the turn at once, one that fails otherwise when what
 * it told to begin has. And a turn has an end, for a holder waits for BEGUN no longer than the
 * deadline.
 *
 * That holds while no call of CUDA that waits for a device keeps others from launching on another
 * one. Those that take and give back memory may: they wait for all devices that reach each other. A
 * host makes them between uvcc_nccl_pause() and uvcc_nccl_resume(), which take the turn too: then
 * no operation is on one of its devices only. A device must have room for one operation of each
 * party at a time, besides. And where the workers 0 of parties are in different processes, and
 * other workers of theirs in one, nobody gives one order. */
#include <stdio.h>
#include <string.h>

#include "io_adapters/nccl/state.h"

static const char too_different[] = "members of a group are at different operations";
static const char other_size[] = "members of a group have tensors of different sizes";
static const char other_sharing[] = "members of a group share their tensors in different ways";
static const char no_slices[] =
    "a tensor cannot be cut into one slice for each member of its group";
static const char someone_left[] =
    "a worker of the party has left before an operation of its group";
static const char no_memory[] = "no memory at worker 0";
static const char unknown[] = "a message that this version does not know";

int uvcci_nccl_leader_init(uvcc_nccl *n) {
    const uint32_t count = n->place.count;
    uvcci_nccl_leader *l = &n->leader;
    l->last_due = &l->due;
    n->wish.of = n;
    if (n->place.rank != 0)
        return 0;
    l->hello = uvcci_nccl_take(n, count * sizeof *l->hello);
    l->greeted = uvcci_nccl_take(n, count * sizeof *l->greeted);
    l->left = uvcci_nccl_take(n, count * sizeof *l->left);
    return l->hello == NULL || l->greeted == NULL || l->left == NULL ? UVCC_ERR_NOMEM : 0;
}

static size_t meeting_bytes(uint32_t size) {
    return sizeof(uvcci_nccl_meeting) + size * sizeof(((uvcci_nccl_meeting *)0)->member[0]);
}

static void drop(uvcc_nccl *n, uvcci_nccl_meeting **at) {
    uvcci_nccl_meeting *m = *at;
    *at = m->next;
    uvcci_nccl_give(n, m, meeting_bytes(m->size));
}

void uvcci_nccl_leader_free(uvcc_nccl *n) {
    const uint32_t count = n->place.count;
    uvcci_nccl_leader *l = &n->leader;
    while (l->meetings != NULL)
        drop(n, &l->meetings);
    while (l->due != NULL)
        drop(n, &l->due);
    uvcci_nccl_give(n, l->hello, count * sizeof *l->hello);
    uvcci_nccl_give(n, l->greeted, count * sizeof *l->greeted);
    uvcci_nccl_give(n, l->left, count * sizeof *l->left);
}

static void send_all(uvcc_nccl *n, const uvcci_nccl_message *m) {
    for (uint32_t i = 0; i < n->place.count; i++)
        uvcci_nccl_tell(n, i, m);
}

/* The first failure is everybody's; worker 0 hears of it as the others do, behind its own GOs. That
 * devices are to stop may come on top of it. */
static void fail_all(uvcc_nccl *n, uint32_t rank, uint32_t code, const char *why, bool broken) {
    uvcci_nccl_message m = {.kind = UVCCI_NCCL_FAIL, .broken = broken, .rank = rank, .code = code};
    if (n->leader.failed && (n->leader.broken || !broken))
        return;
    n->leader.failed = true;
    n->leader.broken = broken;
    if (broken) /* what it has on devices ends by force */
        uvcci_nccl_lead_no_more(n);
    (void)snprintf((char *)m.body, sizeof m.body, "%s", why);
    send_all(n, &m);
}

/* ---- the beginning ---- */

static void greet(uvcc_nccl *n, uint32_t from, const uvcci_nccl_message *m) {
    const uvcci_nccl_hello own = {.version = UVCCI_NCCL_VERSION,
                                  .replicas = n->place.replicas,
                                  .stages = n->place.stages,
                                  .tp_ranks = n->place.tp_ranks};
    char why[UVCC_NCCL_WHY_BYTES];
    uvcci_nccl_leader *l = &n->leader;
    uvcci_nccl_hello *h = &l->hello[from];
    if (l->greeted[from] || l->failed)
        return;
    memcpy(h, m->body, sizeof *h);
    if (h->version != own.version || h->replicas != own.replicas || h->stages != own.stages ||
        h->tp_ranks != own.tp_ranks) {
        (void)snprintf(why, sizeof why,
                       "worker %u is one of %u x %u x %u (version %u), worker 0 of %u x %u x %u "
                       "(version %u)",
                       from, h->replicas, h->stages, h->tp_ranks, h->version, own.replicas,
                       own.stages, own.tp_ranks, own.version);
        fail_all(n, from, 0, why, false);
        return;
    }
    for (uint32_t i = 0; i < n->place.count; i++)
        if (l->greeted[i] && memcmp(l->hello[i].device, h->device, sizeof h->device) == 0) {
            (void)snprintf(why, sizeof why,
                           "workers %u and %u are on the same device: NCCL takes one worker of a "
                           "party for each device",
                           i < from ? i : from, i < from ? from : i);
            fail_all(n, from, 0, why, false);
            return;
        }
    l->greeted[from] = true;
    l->all_here = ++l->hello_count == n->place.count;
}

static void start(uvcc_nccl *n) {
    uvcci_nccl_message m = {.kind = UVCCI_NCCL_START};
    if (n->ops->make_id(n->device, m.body) != 0) {
        fail_all(n, 0, 0, n->ops->trouble(n->device), false);
        return;
    }
    n->leader.started = true;
    n->leader.to_begin = n->place.count;
    send_all(n, &m);
}

/* ---- operations ---- */

static bool same_name(const uvcci_nccl_meeting *m, const uvcci_nccl_meeting *at) {
    return m->pair == at->pair && m->group == at->group && m->first == at->first &&
           m->tag.step == at->tag.step && m->tag.phase == at->tag.phase &&
           m->tag.mb == at->tag.mb && (m->pair || m->tag.k == at->tag.k);
}

/* Who meets for an operation of worker `from`: in *at all but the members, in *index its place. */
static int find_place(const uvcc_nccl *n, uint32_t from, const uvcci_nccl_message *m,
                      uvcci_nccl_meeting *at, uint32_t *index) {
    *at =
        (uvcci_nccl_meeting){.tag = m->tag, .group = m->group, .pair = uvcci_nccl_is_pair(&m->tag)};
    if (at->pair) {
        uint32_t other = 0;
        const bool sends = m->tag.op == UVCC_COLLECTIVE_SEND;
        if (uvcci_nccl_neighbour(&n->place, from, &m->tag, &other) != 0)
            return UVCC_ERR_USAGE;
        at->group = UVCC_GROUP_PP;
        at->size = 2;
        at->first = sends ? from : other;
        *index = sends ? 0 : 1;
        return 0;
    }
    if (m->group > UVCC_GROUP_STAGE)
        return UVCC_ERR_USAGE;
    at->size = uvcci_nccl_group_size(&n->place, m->group);
    at->first = uvcci_nccl_member(&n->place, from, m->group, 0);
    for (*index = 0; uvcci_nccl_member(&n->place, from, m->group, *index) != from;)
        ++*index;
    return 0;
}

static uint32_t member(const uvcc_nccl *n, const uvcci_nccl_meeting *m, uint32_t index) {
    uint32_t other = m->first;
    const uvcc_collective_tag sent = {.op = UVCC_COLLECTIVE_SEND, .phase = m->tag.phase};
    if (!m->pair)
        return uvcci_nccl_member(&n->place, m->first, m->group, index);
    if (index == 1)
        (void)uvcci_nccl_neighbour(&n->place, m->first, &sent, &other);
    return other;
}

static const char *disagreement(const uvcci_nccl_meeting *m, const uvcc_collective_tag *x) {
    if (!m->pair && x->op != m->tag.op)
        return too_different;
    if (x->elems != m->tag.elems)
        return other_size;
    if (x->additive != m->tag.additive)
        return other_sharing;
    return !m->pair && x->elems % m->size != 0 ? no_slices : NULL;
}

/* A member that said BYE will never be ready. */
static bool in_vain(const uvcc_nccl *n, const uvcci_nccl_meeting *m) {
    for (uint32_t i = 0; i < m->size; i++)
        if (!m->member[i].here && n->leader.left[member(n, m, i)])
            return true;
    return false;
}

static void ready(uvcc_nccl *n, uint32_t from, const uvcci_nccl_message *m) {
    uvcci_nccl_meeting at, **found = &n->leader.meetings;
    uint32_t index = 0;
    if (n->leader.failed)
        return;
    if (find_place(n, from, m, &at, &index) != 0) {
        fail_all(n, from, 0, too_different, false);
        return;
    }
    while (*found != NULL && !same_name(*found, &at))
        found = &(*found)->next;
    if (*found == NULL) {
        *found = uvcci_nccl_take(n, meeting_bytes(at.size));
        if (*found == NULL) {
            fail_all(n, 0, 0, no_memory, false);
            return;
        }
        **found = at;
    }
    uvcci_nccl_meeting *meets = *found;
    const char *why = disagreement(meets, &m->tag);
    if (why == NULL && meets->member[index].here)
        why = too_different; /* twice: its own door holds that */
    meets->member[index].here = true;
    meets->member[index].id = m->id;
    meets->here++;
    if (why == NULL && in_vain(n, meets))
        why = someone_left;
    if (why != NULL) {
        fail_all(n, from, 0, why, false);
    } else if (meets->here == meets->size) {
        *found = meets->next;
        meets->next = NULL;
        *n->leader.last_due = meets;
        n->leader.last_due = &meets->next;
    }
}

static void go(uvcc_nccl *n) {
    uvcci_nccl_leader *l = &n->leader;
    while (l->due != NULL) {
        const uvcci_nccl_meeting *meets = l->due;
        uvcci_nccl_message m = {.kind = UVCCI_NCCL_GO};
        l->to_begin += meets->size;
        for (uint32_t i = 0; i < meets->size; i++) {
            m.id = meets->member[i].id;
            uvcci_nccl_tell(n, member(n, meets, i), &m);
        }
        drop(n, &l->due);
    }
    l->last_due = &l->due;
}

/* ---- the turn ---- */

static void has_begun(uvcc_nccl *n, uint32_t from) {
    uvcci_nccl_leader *l = &n->leader;
    if (l->to_begin == 0) {
        fail_all(n, from, 0, unknown, false);
        return;
    }
    l->since_ns = uvcci_nccl_now();
    l->to_begin--;
    l->all_in = l->all_in || l->to_begin == 0; /* what began first was START */
}

void uvcci_nccl_lead_no_more(uvcc_nccl *n) {
    if (n->leader.asked)
        uvcci_nccl_turn_give(&n->wish);
    n->leader.asked = n->leader.holds = false;
}

/* After a failure that is none of devices the turn is kept until what was told to begin has. */
void uvcci_nccl_lead_on(uvcc_nccl *n) {
    uvcci_nccl_leader *l = &n->leader;
    const bool to_start = l->all_here && !l->started && !l->failed;
    const bool to_go = l->all_in && l->due != NULL && !l->failed;
    if (l->holds ? l->to_begin == 0 : !to_start && !to_go)
        uvcci_nccl_lead_no_more(n);
    if ((!to_start && !to_go) || (l->holds && uvcci_nccl_turn_wanted()))
        return;
    l->asked = true;
    l->holds = uvcci_nccl_turn_take(&n->wish);
    if (!l->holds)
        return;
    l->since_ns = uvcci_nccl_now();
    if (to_start)
        start(n);
    else
        go(n);
    n->moved = true;
}

/* ---- the end ---- */

static void leaves(uvcc_nccl *n, uint32_t from) {
    const uvcci_nccl_message end = {.kind = UVCCI_NCCL_END};
    uvcci_nccl_leader *l = &n->leader;
    if (l->left[from])
        return;
    l->left[from] = true;
    l->left_count++;
    for (const uvcci_nccl_meeting *m = l->meetings; m != NULL && !l->failed; m = m->next)
        if (in_vain(n, m))
            fail_all(n, from, 0, someone_left, false);
    if (l->left_count == n->place.count)
        send_all(n, &end);
}

void uvcci_nccl_lead(uvcc_nccl *n, uint32_t from, const uvcci_nccl_message *m) {
    char why[UVCC_NCCL_WHY_BYTES];
    switch (m->kind) {
    case UVCCI_NCCL_HELLO:
        greet(n, from, m);
        break;
    case UVCCI_NCCL_READY:
        ready(n, from, m);
        break;
    case UVCCI_NCCL_FAIL:
        memcpy(why, m->body, sizeof why);
        why[sizeof why - 1] = '\0';
        fail_all(n, from, m->code, why, m->broken != 0);
        break;
    case UVCCI_NCCL_BYE:
        leaves(n, from);
        break;
    case UVCCI_NCCL_BEGUN:
        has_begun(n, from);
        break;
    default: /* nothing of worker 0's comes back */
        fail_all(n, from, 0, unknown, false);
    }
}
