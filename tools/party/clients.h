/* SPDX-License-Identifier: Apache-2.0 */
/* clients.h - the clients of a party whose job serves some (docs/clients.md): who they are, by the
 * member "clients" of the party's file; a dialog with each over the party's net; their requests in
 * the queue of the work. They outlive runs. */
#ifndef UVCC_TOOLS_PARTY_CLIENTS_H
#define UVCC_TOOLS_PARTY_CLIENTS_H

#include "party.h"

/* Exit statuses after reporting. Reads "clients"; *out NULL if the job serves none. */
int clients_read(party *p, clients **out);
/* Listens, when the net is there. */
int clients_listen(clients *c);
void clients_free(clients *c);
/* Hears them, and says what there is to say; the net's next turn sends it. */
void clients_turn(clients *c, uint64_t now);
uint64_t clients_deadline(const clients *c);
/* For --check. */
void clients_describe(const clients *c);

#endif
