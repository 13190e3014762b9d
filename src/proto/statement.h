/* SPDX-License-Identifier: Apache-2.0 */
/* statement.h - what a party signs of a step, and the tree over a run's roots (wire.md 8). The
 * types are public: uvcc/audit.h. Pure functions. */
#ifndef UVCCI_STATEMENT_H
#define UVCCI_STATEMENT_H

#include <uvcc/audit.h>

/* Signs with an Ed25519 secret key; the statement can be one. */
void uvcci_statement_sign(const uvcc_statement *s, const uint8_t sk[64], uint8_t signature[64]);

#endif
