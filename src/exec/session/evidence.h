/* SPDX-License-Identifier: Apache-2.0 */
/* evidence.h - what a session signs of its steps, and what the peers signed of theirs: statements,
 * AUDIT messages, and the trees over the roots of this run (wire.md 8). */
#ifndef UVCCI_EVIDENCE_H
#define UVCCI_EVIDENCE_H

#include "exec/runtime/core.h"

/* READY: a run begins at the session's step. */
void uvcci_evidence_begin(uvcc_session *s);
/* A step is finished: its root goes into the tree, and what this party says of it is signed. */
void uvcci_evidence_sign(uvcc_session *s, uint32_t step, const uint8_t step_root[32],
                         uvcci_audit_msg_t *out);
void uvcci_evidence_send(uvcc_session *s, const uvcci_audit_msg_t *a);
/* True if it was right: *step is its step. Else the session aborted. */
bool uvcci_evidence_on_audit(uvcc_session *s, uint8_t peer, const uint8_t *data, uint32_t len,
                             uint32_t *step);
/* What a checkpoint taken now carries: the audit root after the last step that this run finished,
 * or what the run goes on from if it has finished none. */
void uvcci_root_before(const uvcc_session *s, uint8_t out[32]);

#endif
