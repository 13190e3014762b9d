/* The queue of a class against a plain list: whatever orders come and when they go, the least order
 * goes first, equal ones as they came. */
#include "support.h"

#include "proto/link_queue.h"

enum { MESSAGES = 400 };

typedef struct queue_pair {
    uvcci_tx_class queue;
    uvcc_link_msg msg[MESSAGES];
    uvcc_link_msg *waiting[MESSAGES]; /* as they came */
    uint32_t made, left;
} queue_pair;

static void push(queue_pair *p, uint64_t order) {
    uvcc_link_msg *m = &p->msg[p->made];
    m->order = order;
    m->serial = p->made++;
    p->waiting[p->left++] = m;
    uvcci_link_queue_push(&p->queue, m);
}

static void pop(queue_pair *p) {
    uint32_t least = 0;
    for (uint32_t i = 1; i < p->left; i++)
        if (p->waiting[i]->order < p->waiting[least]->order)
            least = i;
    assert_ptr_equal(uvcci_link_queue_peek(&p->queue), p->waiting[least]);
    uvcci_link_queue_pop(&p->queue);
    for (uint32_t i = least + 1; i < p->left; i++)
        p->waiting[i - 1] = p->waiting[i];
    p->left--;
}

/* kind: rising, falling, equal, few different, any. */
static uint64_t order_of(unsigned kind, uint32_t i, uint64_t *rng) {
    switch (kind) {
    case 0:
        return i;
    case 1:
        return MESSAGES - i;
    case 2:
        return 7;
    case 3:
        return test_rand(rng) % 5;
    default:
        return test_rand(rng);
    }
}

/* eighths: of all turns so many push, as long as there is something to push. */
static void run(unsigned kind, unsigned eighths) {
    static queue_pair p;
    uint64_t rng = 100 * kind + eighths;
    memset(&p, 0, sizeof p);
    assert_null(uvcci_link_queue_peek(&p.queue));
    while (p.made < MESSAGES || p.left != 0) {
        if (p.made < MESSAGES && (p.left == 0 || test_rand(&rng) % 8 < eighths))
            push(&p, order_of(kind, p.made, &rng));
        else
            pop(&p);
    }
    assert_null(uvcci_link_queue_peek(&p.queue));
}

static void least_order_first(void **state) {
    (void)state;
    for (unsigned kind = 0; kind < 5; kind++)
        for (unsigned eighths = 4; eighths <= 8; eighths++)
            run(kind, eighths);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least_order_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
