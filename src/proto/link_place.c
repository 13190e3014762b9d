/* SPDX-License-Identifier: Apache-2.0 */
/* link_place.c - a frame's way into its message, see link_place.h.
 *
 * Invariants: admitted - released <= capacity of the class; every frame is told as received when it
 * is committed; the cumulative ack passes one that completes a message when its owner accepts the
 * message, the others when they are committed. */
#include "proto/link_place.h"

#include <assert.h>

#include "proto/frame.h"
#include "proto/link_acked.h"
#include "proto/link_assembly.h"
#include "proto/link_core.h"
#include "proto/link_window.h"
#include "proto/mutant.h"

/* ---- judging ---- */

bool uvcci_step_is_open(const uvcc_link *l, const uvcc_frame_header *h) {
    if (h->step == l->step || h->step == l->step + UINT64_C(1))
        return true;
    return h->step + UINT64_C(1) == l->step && uvcci_link_stepless(h->kind);
}

/* The order matters: what is not of this session or run says nothing about it, and an old seq must
 * be acknowledged again even when its step is over. */
uvcci_verdict uvcci_judge_session(const uvcc_link *l, const uvcc_frame_header *h) {
    if (h->sid_tag != l->cfg.sid_tag)
        return UVCCI_FOREIGN;
    if (h->src != l->cfg.peer || h->dst != l->cfg.me)
        return UVCCI_REFUSE;
    if (h->kind == UVCC_FRAME_HELLO)
        return UVCCI_TAKE;
    if (!l->have_run)
        return UVCCI_IGNORE;
    bool control = uvcc_frame_kind_class(h->kind) == UVCC_CLASS_CONTROL;
    if (!control && h->seq >> 40 != l->run)
        return UVCCI_STALE;
    if (uvcci_frame_is_sealed(h) != (l->keys != NULL))
        return uvcci_frame_is_sealed(h) ? UVCCI_IGNORE : UVCCI_REFUSE;
    if (control) {
        if (h->payload_len > UVCCI_PACKET_MAX_BYTES)
            return UVCCI_REFUSE;
        if (uvcci_frame_is_sealed(h))
            return UVCCI_TAKE;
        if (h->ack >> 40 != l->run)
            return UVCCI_STALE;
        return uvcci_tx_cum_valid(l, h->ack) ? UVCCI_TAKE : UVCCI_REFUSE;
    }
    if (l->cfg.datagram && UVCC_FRAME_HEADER_BYTES + h->payload_len > UVCCI_PACKET_BYTES)
        return UVCCI_REFUSE;
    if (h->seq <= l->rx.cum)
        return UVCCI_REPEAT;
    if (h->seq - l->rx.cum > UVCCI_WINDOW)
        return UVCCI_REFUSE;
    if (!UVCCI_MUTANT(1) && uvcci_window_seen(l, h->seq))
        return UVCCI_REPEAT;
    if (!l->started)
        return UVCCI_IGNORE;
    if (!uvcci_step_is_open(l, h)) /* the keys of the step before are still here, to judge it by */
        return uvcci_frame_is_sealed(h) && h->step + UINT64_C(1) == l->step ? UVCCI_WRONG
                                                                            : UVCCI_REFUSE;
    return uvcci_frame_is_sealed(h) || uvcci_tx_cum_valid(l, h->ack) ? UVCCI_TAKE : UVCCI_REFUSE;
}

/* Nothing that is asked here costs a seal: what is wrong counts only if it is authentic, which the
 * caller finds out. */
uvcci_verdict uvcci_judge_message(const uvcc_link *l, const uvcc_frame_header *h, uvcci_rx_msg *m,
                                  const char **why) {
    uint32_t piece = uvcci_frame_piece(h);
    if (!uvcci_step_is_open(l, h)) {
        *why = "a new frame of a step that is over";
        return UVCCI_WRONG;
    }
    if (m != NULL) {
        if (m->len != h->msg_len) {
            *why = "another length for one message";
            return UVCCI_WRONG;
        }
        if ((m->ids_known >> h->chunk_idx & 1) != 0 && m->msg_ids[h->chunk_idx] != h->msg_id) {
            *why = "another msg_id for one chunk";
            return UVCCI_WRONG;
        }
        uvcci_range_slot s = uvcci_range_slot_of(m, h->offset, h->offset + piece);
        if (s.overlap) {
            *why = "two frames for one place";
            return UVCCI_WRONG;
        }
        return uvcci_range_admissible(l, m, &s) ? UVCCI_TAKE : UVCCI_LATER;
    }
    int cls = uvcc_frame_kind_class(h->kind);
    if (l->rx.admitted[cls] + uvcci_msg_cost(h->msg_len) > l->rx.granted[cls]) {
        *why = "a message beyond the credit";
        return UVCCI_WRONG;
    }
    return piece != h->msg_len && l->rx.table_live >= l->cfg.rx_messages_max ? UVCCI_LATER
                                                                             : UVCCI_TAKE;
}

/* ---- placing ---- */

void uvcci_place_undo(uvcc_link *l, const uvcci_place *p) {
    if (!p->created)
        return;
    assert(p->msg->got == 0);
    l->rx.admitted[p->msg->cls] -= uvcci_msg_cost(p->msg->len);
    uvcci_assembly_free(l, p->msg);
}

bool uvcci_place_take(uvcc_link *l, const uvcc_frame_header *h, uvcci_rx_msg *m, uvcci_place *p) {
    *p = (uvcci_place){.msg = m, .created = m == NULL};
    if (!uvcci_window_reserve(l, h->seq))
        return false;
    if (m == NULL && (p->msg = uvcci_assembly_new(l, h)) == NULL)
        return false;
    assert(l->rx.admitted[p->msg->cls] <= l->rx.granted[p->msg->cls]);
    if (p->msg->tabled) {
        uvcci_range_slot s =
            uvcci_range_slot_of(p->msg, h->offset, h->offset + uvcci_frame_piece(h));
        if (!uvcci_range_reserve(l, p->msg, &s)) {
            uvcci_place_undo(l, p);
            return false;
        }
    }
    return true;
}

void uvcci_place_commit(uvcc_link *l, const uvcc_frame_header *h, const uvcci_place *p) {
    uvcci_rx_msg *m = p->msg;
    uint32_t piece = uvcci_frame_piece(h);
    assert(m->state == UVCCI_MSG_OPEN && piece <= m->len - m->got);
    if (m->tabled) {
        uvcci_range_slot s = uvcci_range_slot_of(m, h->offset, h->offset + piece);
        uvcci_range_fill(m, &s, h->offset, h->offset + piece);
    }
    m->got += piece;
    m->msg_ids[h->chunk_idx] = h->msg_id;
    m->ids_known |= (uint16_t)(1u << h->chunk_idx);
    uvcci_window_see(l, h->seq);
    l->rx.taken++;
    uvcci_heard(l);
    if (uvcci_frame_is_sealed(h))
        l->heard = true;
    else
        uvcci_tx_cum(l, h->ack);
    if (m->got == m->len) {
        uvcci_assembly_whole(l, m, h->seq);
        if (UVCCI_MUTANT(4))
            uvcci_window_keep(l, h->seq);
        if (!l->cfg.datagram) /* a stream's sender waits for acceptance alone */
            return;
    } else {
        uvcci_window_keep(l, h->seq);
    }
    uvcci_ack_note(l, UVCC_FRAME_HEADER_BYTES + h->payload_len);
}
