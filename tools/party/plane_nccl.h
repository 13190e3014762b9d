/* SPDX-License-Identifier: Apache-2.0 */
/* plane_nccl.h - the local plane between processes whose workers are on CUDA devices: values by
 * NCCL, all else by MPI. */
#ifndef UVCC_TOOLS_PARTY_PLANE_NCCL_H
#define UVCC_TOOLS_PARTY_PLANE_NCCL_H

#include "plane.h"

extern const plane_ops plane_nccl;

#endif
