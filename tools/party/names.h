/* SPDX-License-Identifier: Apache-2.0 */
/* names.h - "names": a file to which every process of a party adds what its sessions use that must
 * never be used again (uvcc/names.h), for who looks whether a name comes twice. */
#ifndef UVCC_TOOLS_PARTY_NAMES_H
#define UVCC_TOOLS_PARTY_NAMES_H

#include "party.h"

/* Without "names" nothing. An exit status after reporting. */
int names_open(party *p);
void names_close(party *p);
/* The session of a worker will tell of its names. */
void names_hook(worker *w, uvcc_config *cfg);

#endif
