/* SPDX-License-Identifier: Apache-2.0 */
/* link_place.h - a frame's way into its message. It is judged (nothing changes), given a place
 * (memory, credit), filled by the caller (copied or opened) and committed; if its CRC or seal fails
 * after it got a place, the place is given back. */
#ifndef UVCCI_LINK_PLACE_H
#define UVCCI_LINK_PLACE_H

#include "proto/link_state.h"

typedef enum uvcci_verdict {
    UVCCI_TAKE,    /* a new piece */
    UVCCI_REPEAT,  /* seen before: acknowledged again */
    UVCCI_FOREIGN, /* another session's */
    UVCCI_STALE,   /* another run's */
    UVCCI_IGNORE,  /* cannot be judged in this state, no failure */
    UVCCI_LATER, /* no room for it now: as if lost (datagrams), refused (streams resend nothing) */
    UVCCI_WRONG, /* in itself or of the step before; a violation if authentic */
    UVCCI_REFUSE,
} uvcci_verdict;

typedef struct uvcci_place {
    uvcci_rx_msg *msg;
    bool created;
} uvcci_place;

/* Rules that need no message: of the session, the run, the window. */
uvcci_verdict uvcci_judge_session(const uvcc_link *l, const uvcc_frame_header *h);
/* Is the frame's step one of those that are taken now? */
bool uvcci_step_is_open(const uvcc_link *l, const uvcc_frame_header *h);
/* Rules of a reliable frame against the message that it belongs to, NULL for a new one. On WRONG
 * *why says what is. */
uvcci_verdict uvcci_judge_message(const uvcc_link *l, const uvcc_frame_header *h, uvcci_rx_msg *m,
                                  const char **why);
/* All memory that committing will need; false without it. Only after both verdicts were TAKE. */
bool uvcci_place_take(uvcc_link *l, const uvcc_frame_header *h, uvcci_rx_msg *m, uvcci_place *p);
void uvcci_place_undo(uvcc_link *l, const uvcci_place *p);
/* The frame passed every check and its bytes are in place. */
void uvcci_place_commit(uvcc_link *l, const uvcc_frame_header *h, const uvcci_place *p);

#endif
