/* SPDX-License-Identifier: Apache-2.0 */
/* keygen.h - `uvcc keygen`: makes identities and pair secrets, and shows public keys. */
#ifndef UVCC_TOOLS_KEYGEN_H
#define UVCC_TOOLS_KEYGEN_H

/* The words after `uvcc keygen`; returns the exit status. */
int keygen_main(int argc, char *const *argv);

#endif
