/* SPDX-License-Identifier: Apache-2.0 */
/* crew.h - threads that help others with work which comes in equal pieces: the hook uvcc_parallel
 * of any number of sessions. Who asks works too, so a crew that is busy elsewhere holds nobody up.
 */
#ifndef UVCC_TOOLS_CREW_H
#define UVCC_TOOLS_CREW_H

#include <poll.h>
#include <uvcc/net.h>
#include <uvcc/session.h>

typedef struct crew crew;

/* 0, or UVCC_ERR_NOMEM: no memory, or no thread. */
int crew_new(crew **out, unsigned threads);
/* Nobody asks it any more. NULL is allowed. */
void crew_free(crew *c);
uvcc_parallel crew_parallel(crew *c);

/* For each worker of a process: so many cores, or a core is one that others want; and helpers at
 * most. A transmit has 8 frames, and threads beyond those that seal one look for work in vain,
 * which takes memory from those that have some, most of all between processors of several sockets.
 */
enum { CREW_CORES = 8, CREW_HELPERS = 6 };
enum { CREW_LOOK_NS = 200000 }; /* for more to do, before a thread sleeps: waking takes longer */
/* Threads for the crew of a process that drives so many workers of each of its parties, by the
 * cores that it may use (cores.h, or so many); 0: none. */
unsigned crew_threads(uint32_t workers);
unsigned crew_threads_of(long cores, uint32_t workers);
/* A session's frames are sealed and opened by the crew; NULL: as they are without one. */
void crew_share_frames(crew *c, uvcc_config *session);
/* So are a net's reads and writes of several connections, and the thread that waits for them looks
 * for CREW_LOOK_NS before it sleeps, as the crew's do: a crew is only where there are cores. */
void crew_share_net(crew *c, uvcc_net_config *net);
/* poll() for so long at most, for who watches more than a net, and so does not call
 * uvcc_net_wait(): with a crew it looks as long before it sleeps. A signal does not end a look. */
void crew_poll(const crew *c, struct pollfd *watched, nfds_t count, uint64_t wait_ns);

#endif
