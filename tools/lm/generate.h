/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - `uvcc generate`: samples text from a model that is kept as shares. */
#ifndef UVCC_TOOLS_LM_GENERATE_H
#define UVCC_TOOLS_LM_GENERATE_H

/* The words after `uvcc generate`; returns the exit status. */
int generate_main(int argc, char *const *argv);

#endif
