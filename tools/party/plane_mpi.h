/* SPDX-License-Identifier: Apache-2.0 */
/* plane_mpi.h - the local plane between processes, by MPI. */
#ifndef UVCC_TOOLS_PARTY_PLANE_MPI_H
#define UVCC_TOOLS_PARTY_PLANE_MPI_H

#include "plane.h"

extern const plane_ops plane_mpi;

#endif
