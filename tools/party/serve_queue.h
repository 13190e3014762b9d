/* SPDX-License-Identifier: Apache-2.0 */
/* serve_queue.h - the requests of clients that a party has and has not answered, from the service
 * (uvcc/request.h) to the steps of the session and back. It outlives runs: what a run that ended
 * did not answer waits for the next. */
#ifndef UVCC_TOOLS_SERVE_QUEUE_H
#define UVCC_TOOLS_SERVE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <uvcc/request.h>

#include "serve_offer.h"

typedef struct serve_queue serve_queue;

typedef struct serve_counts {
    uint64_t served, dropped, mismatched, refused;
    uint32_t waiting;
} serve_counts;

/* In what a request differs from those that there are for a job, as uvcc_service_refuse() says it;
 * 0: it is one. */
typedef uint32_t serve_differs(const void *user, const uvcc_request_shape *s);
/* uvcc_service_answer() and uvcc_service_refuse() of the service that they come from. */
typedef struct serve_replies {
    int (*answer)(void *user, uint64_t token, uvcc_request_status status, const uint64_t *lo,
                  const uint64_t *hi, size_t n);
    int (*refuse)(void *user, uint64_t token, uint32_t why);
    void *user;
} serve_replies;

/* NULL without memory. */
serve_queue *serve_queue_new(serve_differs *differs, const void *user);
void serve_queue_free(serve_queue *q);
/* Where answers go; what the others have not by then is dropped after wait_ns. Before the first
 * run. */
void serve_queue_attach(serve_queue *q, const serve_replies *to, uint64_t wait_ns);
/* A request that is whole, of the client with this public key, which outlives it. False without
 * memory: the same again later. */
bool serve_queue_put(serve_queue *q, const uvcc_service_job *job, const uint8_t key[32]);
void serve_queue_counts(const serve_queue *q, serve_counts *out);

/* A run begins: nothing is offered, nothing is being served. */
void serve_queue_run(serve_queue *q);
/* Whether there is something to offer now: a request that was not offered yet, or one of which the
 * others may have heard meanwhile. */
bool serve_queue_wants(const serve_queue *q, uint64_t now);
/* This party's offer for a turn. */
void serve_queue_offer(serve_queue *q, uint32_t turn, uint64_t now, int64_t words[SERVE_WORDS]);
/* What the three offers came to: requests whose shares differ are answered, and so are those that
 * the others have not had for long. The rest of the list is served in its order: *count of them. */
void serve_queue_chosen(serve_queue *q, const int64_t *const offer[UVCC_PARTIES], uint32_t turn,
                        uint64_t now, uint32_t *count);
/* The one that is served now; NULL: none is left. */
const uvcc_service_job *serve_queue_now(const serve_queue *q);
/* It is answered: its components of rows * cols values. 0, or what the answer came to. */
int serve_queue_answer(serve_queue *q, const uint64_t *lo, const uint64_t *hi, size_t n);

#endif
