/* SPDX-License-Identifier: Apache-2.0 */
/* collective_order.c - one order of collectives at all ranks of a group (uvcc/collective.h).
 *
 * Rank 0 has one list, of what it submitted: from its head come a token and an issue in turn.
 * Another rank has two: tokens in order of arrival, and what it submitted; it issues while the
 * first token's operation was submitted. A rank that disagrees with a token is broken for good. */
#include <assert.h>
#include <uvcc/collective.h>

#include <string.h>

typedef struct node {
    struct node *next;
    uvcc_collective_tag tag;
    uint64_t id;
} node;

struct uvcc_collective_order {
    uvcc_allocator alloc;
    uint32_t rank;
    node *ready, *tokens; /* the oldest first */
    bool token_out;       /* rank 0: the head's token was polled */
    bool broken;
};

int uvcc_collective_order_new(uvcc_collective_order **out, const uvcc_allocator *al,
                              uint32_t rank) {
    if (out == NULL || al == NULL || al->alloc == NULL || al->free == NULL)
        return UVCC_ERR_USAGE;
    uvcc_collective_order *o = al->alloc(al->user, sizeof *o, UVCC_MEM_STATE);
    if (o == NULL)
        return UVCC_ERR_NOMEM;
    *o = (uvcc_collective_order){.alloc = *al, .rank = rank};
    *out = o;
    return 0;
}

/* Takes a node out of its list and frees it. */
static void drop(uvcc_collective_order *o, node **at) {
    node *n = *at;
    assert(n != NULL);
    *at = n->next;
    o->alloc.free(o->alloc.user, n, sizeof *n, UVCC_MEM_STATE);
}

void uvcc_collective_order_free(uvcc_collective_order *o) {
    if (o == NULL)
        return;
    while (o->ready != NULL)
        drop(o, &o->ready);
    while (o->tokens != NULL)
        drop(o, &o->tokens);
    uvcc_allocator al = o->alloc;
    al.free(al.user, o, sizeof *o, UVCC_MEM_STATE);
}

static bool same_name(const uvcc_collective_tag *a, const uvcc_collective_tag *b) {
    return a->step == b->step && a->phase == b->phase && a->mb == b->mb && a->k == b->k;
}

static node **find(node **at, const uvcc_collective_tag *tag) {
    while (*at != NULL && !same_name(&(*at)->tag, tag))
        at = &(*at)->next;
    return at;
}

/* Adds to `list`; `others` may have the same operation with other particulars. */
static int add(uvcc_collective_order *o, node **list, node **others, const uvcc_collective_tag *tag,
               uint64_t id) {
    node **at = find(list, tag);
    if (o->broken)
        return UVCC_ERR_MISMATCH;
    if (*at != NULL)
        return UVCC_ERR_STATE;
    const node *other = *find(others, tag);
    if (other != NULL && (other->tag.op != tag->op || other->tag.elems != tag->elems ||
                          other->tag.additive != tag->additive)) {
        o->broken = true;
        return UVCC_ERR_MISMATCH;
    }
    node *n = o->alloc.alloc(o->alloc.user, sizeof *n, UVCC_MEM_STATE);
    if (n == NULL)
        return UVCC_ERR_NOMEM;
    *n = (node){.tag = *tag, .id = id};
    *at = n;
    return 0;
}

int uvcc_collective_order_submit(uvcc_collective_order *o, const uvcc_collective_tag *tag,
                                 uint64_t id) {
    if (o == NULL || tag == NULL)
        return UVCC_ERR_USAGE;
    return add(o, &o->ready, &o->tokens, tag, id);
}

int uvcc_collective_order_token(uvcc_collective_order *o, const uvcc_collective_tag *tag) {
    if (o == NULL || tag == NULL || o->rank == 0)
        return UVCC_ERR_USAGE;
    return add(o, &o->tokens, &o->ready, tag, 0);
}

int uvcc_collective_order_poll(uvcc_collective_order *o, uvcc_collective_action *out) {
    if (o == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    if (o == NULL || out == NULL || o->broken)
        return 0;
    assert(o->rank == 0 ? o->tokens == NULL : !o->token_out);
    node **at = &o->ready;
    if (o->rank != 0) {
        if (o->tokens == NULL)
            return 0;
        at = find(&o->ready, &o->tokens->tag);
    }
    if (*at == NULL)
        return 0;
    *out =
        (uvcc_collective_action){.kind = UVCC_COLLECTIVE_ISSUE, .id = (*at)->id, .tag = (*at)->tag};
    if (o->rank == 0) {
        o->token_out = !o->token_out;
        if (o->token_out) { /* the token goes first, so that the others can start with us */
            out->kind = UVCC_COLLECTIVE_TOKEN;
            return 1;
        }
    } else {
        drop(o, &o->tokens);
    }
    drop(o, at);
    return 1;
}
