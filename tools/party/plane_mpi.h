/* SPDX-License-Identifier: Apache-2.0 */
/* plane_mpi.h - the local plane between processes, by MPI. */
#ifndef UVCC_TOOLS_PARTY_PLANE_MPI_H
#define UVCC_TOOLS_PARTY_PLANE_MPI_H

#include <uvcc/mpi.h>

#include "plane.h"

extern const plane_ops plane_mpi;

/* Short messages between the processes, for a plane that stands on this one: its state is that of
 * plane_mpi.open(). As uvcc_mpi_note() and uvcc_mpi_on_note(). */
int plane_mpi_note(void *state, uint32_t to, const void *bytes, size_t len);
int plane_mpi_on_note(void *state, const uvcc_mpi_reader *reader);

#endif
