/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - `uvcc replay`: a recorded session again, or its records as text. */
#ifndef UVCC_TOOLS_REPLAY_H
#define UVCC_TOOLS_REPLAY_H

/* The words after `uvcc replay`; returns the exit status. */
int replay_main(int argc, char *const *argv);

#endif
