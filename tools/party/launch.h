/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - `uvcc launch`: the three parties of a job as processes of this machine, for trying a
 * job and for learning how one is set up. Real jobs have a machine for each party. */
#ifndef UVCC_TOOLS_PARTY_LAUNCH_H
#define UVCC_TOOLS_PARTY_LAUNCH_H

#include <jansson.h>
#include <stdbool.h>
#include <uvcc/types.h>

#define LAUNCH_PATH_BYTES 4096u

int launch_main(int argc, char *const *argv);

/* What is started for a party. */
typedef struct launch_party {
    char config[LAUNCH_PATH_BYTES], dir[LAUNCH_PATH_BYTES]; /* dir: for its output and result */
    char status[256];                                       /* address of its page; "": none */
    uint32_t workers;
} launch_party;

/* ---- launch_make.c ---- */

/* Makes DIR/party0..2 of a file that has "job" and what the parties have of their own: identities,
 * free addresses of this machine, configurations. Where they are already, of the same job, they
 * stay. An exit status, after reporting. */
int launch_make(const char *dir, const char *file, launch_party out[UVCC_PARTIES]);
/* The configurations of three parties that are there, in any order; outputs go to dir. */
int launch_take(const char *const file[UVCC_PARTIES], const char *dir,
                launch_party out[UVCC_PARTIES]);

#endif
