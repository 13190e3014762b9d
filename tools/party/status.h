/* SPDX-License-Identifier: Apache-2.0 */
/* status.h - what a process shows of itself over HTTP: GET /metrics (Prometheus text) and GET
 * /status (JSON). It knows nothing of parties: figures come from a source.
 *
 * It lives in the loop of its host: one descriptor to watch, one deadline, and a turn that never
 * blocks and does a bounded amount of work, whoever is at the other end. Connections, the length of
 * requests and the life of a connection are limited, and a page is made at most ten times a second,
 * so readers cost the host little. Nothing that comes in changes anything. */
#ifndef UVCC_TOOLS_PARTY_STATUS_H
#define UVCC_TOOLS_PARTY_STATUS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Connections at a time (the oldest goes), bytes of a request's head, the life of a connection. */
enum { STATUS_CONNECTIONS = 16, STATUS_REQUEST_BYTES = 4096 };
#define STATUS_LIFE_NS 10000000000ull
#define STATUS_PAGE_NS                                                                             \
    100000000ull /* a page is as old as that at most, and not made more often                      \
                  */

/* Where figures come from; called from status_turn() only. */
typedef struct status_source {
    void (*metrics)(void *user, FILE *to); /* writes lines of metrics.h */
    json_t *(*status)(void *user);         /* an object, or NULL: no memory */
    void *user;
} status_source;

typedef struct status_page status_page;

/* An address: "127.0.0.1:PORT", "[::1]:PORT", "localhost:PORT" (PORT 0: any that is free),
 * "unix:PATH". Others than those of this machine want "anywhere:" before them: who can connect sees
 * the job's names, addresses and progress, and nobody is asked who he is. 0, or -1 and one line. */
int status_address_check(const char *address, char *why, size_t cap);
/* Listens. 0, or -1 and one line in why. */
int status_open(status_page **out, const char *address, const status_source *source, char *why,
                size_t cap);
void status_close(status_page *s);
/* What it is reached at, as above, with the port that it got. */
const char *status_address(const status_page *s);

/* Readable when status_turn() has something to do; the same as long as s lives. */
int status_fd(const status_page *s);
/* When the turn must come at the latest, by uvcc_host_now_ns(); UVCC_NEVER. */
uint64_t status_deadline(const status_page *s);
void status_turn(status_page *s, uint64_t now);

/* Requests that were answered with a page, refused, and cut off, for tests and for the page itself.
 */
typedef struct status_counts {
    uint64_t answered, refused, cut;
    uint32_t connections; /* now */
    uint64_t pages;       /* made */
} status_counts;
void status_get_counts(const status_page *s, status_counts *out);

#endif
