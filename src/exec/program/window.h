/* SPDX-License-Identifier: Apache-2.0 */
/* window.h - what may be at work at one time.
 *
 * The instances of a step, its ops or their segments, stand in program order, segments in theirs.
 * One may begin when all before it that are not done, and it itself, take no more than the
 * program's window together (uvcc_program_window), or when it is the first that is not done. So no
 * more is at work at once than any such range of instances takes, and program order is one in which
 * every instance finds what it waits for: with the least window they run one by one.
 *
 * An entry that exchanges tensors with neighbouring stages has no window: what a stage sends is
 * done when the neighbour takes it, which may stand behind in that one's order.
 *
 * A peer may be far ahead: who receives nothing in an instance is done with it when its messages
 * are queued. So messages are sent in an order that goes with program order, by stretches of a
 * window (step.c): what a party needs first has before it, in its peer's queue and in its own
 * credit, what the peer sent while it was not ahead, which is of one window, and what stands before
 * it in its stretch. A credit of two windows has room for that, and so the party always gets on.
 *
 * Of its own messages a party needs room for one window until they are acknowledged. Those of
 * instances behind one whose turn is not sent are of one window with it, so the peer has credit for
 * them, takes them and acknowledges them, and the room is free again for the turn. */
#ifndef UVCCI_WINDOW_H
#define UVCCI_WINDOW_H

#include "exec/program/plan.h"

/* Called for each instance in its turn, when it comes into the range and when it leaves it. */
typedef struct uvcci_window_walk {
    void (*enter)(void *user, uint32_t op, const uvcci_plan *plan);
    void (*leave)(void *user, uint32_t op, const uvcci_plan *plan);
    void *user;
} uvcci_window_walk;

/* Goes through all largest ranges of an entry's instances; plans are its ops', in program order. */
void uvcci_window_ranges(const uvcci_plan **plans, uint32_t op_count, uint64_t window,
                         const uvcci_window_walk *w);

#endif
