/* SPDX-License-Identifier: Apache-2.0 */
/* show.h - `uvcc status`: the page of a running process (status.h), for people. */
#ifndef UVCC_TOOLS_PARTY_SHOW_H
#define UVCC_TOOLS_PARTY_SHOW_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

int show_main(int argc, char *const *argv);

/* Asks the process at an address ("127.0.0.1:PORT", "[::1]:PORT", "unix:PATH") for its /status: the
 * object, or NULL and one line in why. Waits so long at most for each answer of the system. */
json_t *show_fetch(const char *address, uint32_t wait_ms, char *why, size_t cap);

#endif
