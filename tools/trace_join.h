/* SPDX-License-Identifier: Apache-2.0 */
/* trace_join.h - `uvcc trace`: traces of several processes as one. */
#ifndef UVCC_TOOLS_TRACE_JOIN_H
#define UVCC_TOOLS_TRACE_JOIN_H

int trace_join_main(int argc, char *const *argv);

#endif
