/* SPDX-License-Identifier: Apache-2.0 */
/* bundle_store.h - bundles of finished steps, for the host until it has had them.
 *
 * A bundle is here from the end of its step; the host is told once, when the third signed root goes
 * in; and it goes when a later step ends after the host was told. */
#ifndef UVCCI_BUNDLE_STORE_H
#define UVCCI_BUNDLE_STORE_H

#include "exec/runtime/core.h"

/* Keeps the bundle of a step whose transcript is rooted, with what this party signed of it; lets
 * those go that the host has had. False without memory. */
bool uvcci_bundle_store_add(uvcc_session *s, const uvcci_step *st, const uint8_t step_root[32],
                            const uvcci_audit_msg_t *own);
/* After STEP_FINISHED: puts in the AUDITs that came before the step ended here. */
void uvcci_bundle_store_early(uvcc_session *s, uint32_t step);
void uvcci_bundle_store_audit(uvcc_session *s, const uvcci_audit_msg_t *a);
void uvcci_bundle_store_told(uvcc_session *s, uint32_t step);
void uvcci_bundle_store_free(uvcc_session *s);

#endif
