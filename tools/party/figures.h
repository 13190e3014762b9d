/* SPDX-License-Identifier: Apache-2.0 */
/* figures.h - what a process of `uvcc party` says of itself to machines: its log, and its page of
 * figures (log.h, status.h). */
#ifndef UVCC_TOOLS_PARTY_FIGURES_H
#define UVCC_TOOLS_PARTY_FIGURES_H

#include "party.h"

/* "log" and "status" of the configuration: what is wrong with them (they are not opened), and
 * opening them. An exit status after reporting. */
int figures_check(const party *p);
/* The full path of log.file; "": none. An exit status. */
int figures_log_path(const party *p, char path[PARTY_PATH_BYTES]);
int figures_open(party *p);
void figures_close(party *p);
/* The trace of --trace, of all runs of the process. Hooks of a worker; its run is over; the end,
 * which gives the file its name: an exit status. */
void figures_hook(const worker *w, uvcc_config *session, uvcc_cpu_config *executor);
void figures_forget(const party *p);
int figures_finish(party *p);

/* Every event of a worker's session. */
void figures_event(const worker *w, const uvcc_event *e);
/* A line of a library; w NULL: of none of the sessions. */
void figures_line(const party *p, const worker *w, uvcc_log_level level, const char *source,
                  const char *line);
/* What is said to people is said to the log as well. */
void figures_say(const party *p, uvcc_log_level level, const char *event, const char *text);
/* Worker 0 has finished a step. */
void figures_step(party *p, uint64_t now);
/* The process waited so long; `before`: what for, from figures_waits() before. */
typedef enum figures_wait { WAITS_PEER, WAITS_COMPUTE, WAITS_DISK, WAITS_NOTHING } figures_wait;
figures_wait figures_waits(const party *p, uint64_t now);
void figures_waited(party *p, figures_wait what, uint64_t ns);

#endif
