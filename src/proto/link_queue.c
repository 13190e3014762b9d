/* SPDX-License-Identifier: Apache-2.0 */
/* link_queue.c - a list while orders do not fall, a pairing heap for messages that come with a
 * lower order than the list's last.
 *
 * Invariants: the orders of the list do not fall; a message of the heap is not before its parent.
 */
#include "proto/link_queue.h"

#include <assert.h>

static bool before(const uvcc_link_msg *a, const uvcc_link_msg *b) {
    return a->order != b->order ? a->order < b->order : a->serial < b->serial;
}

static uvcc_link_msg *meld(uvcc_link_msg *a, uvcc_link_msg *b) {
    if (a == NULL || b == NULL)
        return a == NULL ? b : a;
    if (before(b, a)) {
        uvcc_link_msg *t = a;
        a = b;
        b = t;
    }
    b->sibling = a->child;
    a->child = b;
    return a;
}

void uvcci_link_queue_push(uvcci_tx_class *q, uvcc_link_msg *m) {
    m->next = m->child = m->sibling = NULL;
    if (q->last != NULL && m->order < q->last->order) {
        q->heap = meld(q->heap, m);
        return;
    }
    if (q->last != NULL)
        q->last->next = m;
    else
        q->first = m;
    q->last = m;
}

uvcc_link_msg *uvcci_link_queue_peek(const uvcci_tx_class *q) {
    if (q->heap == NULL || (q->first != NULL && before(q->first, q->heap)))
        return q->first;
    return q->heap;
}

/* A pairing heap by hand, without recursion: a burst of messages in falling order costs log n each,
 * where a sorted list would cost n. */
void uvcci_link_queue_pop(uvcci_tx_class *q) {
    uvcc_link_msg *m = uvcci_link_queue_peek(q);
    assert(m != NULL);
    if (m == q->first) {
        q->first = m->next;
        if (q->first == NULL)
            q->last = NULL;
        return;
    }
    /* Meld the children pair by pair, then the pairs from the last to the first. */
    uvcc_link_msg *rest = m->child, *pairs = NULL;
    while (rest != NULL) {
        uvcc_link_msg *a = rest, *b = a->sibling;
        rest = b != NULL ? b->sibling : NULL;
        a->sibling = NULL;
        if (b != NULL)
            b->sibling = NULL;
        a = meld(a, b);
        a->sibling = pairs;
        pairs = a;
    }
    uvcc_link_msg *heap = NULL;
    while (pairs != NULL) {
        uvcc_link_msg *p = pairs;
        pairs = p->sibling;
        p->sibling = NULL;
        heap = meld(heap, p);
    }
    q->heap = heap;
}
