/* SPDX-License-Identifier: Apache-2.0 */
/* topology.h - workers of one party: coordinates, local ranks, groups (parallel.md).
 *
 * local_rank = r*S*T + s*T + t. A TP group fixes (r, s), a PP group (r, t), a DP group (s, t), a
 * STAGE group s; the member at index i of a group has t = i, s = i, r = i or r*T + t = i, so ranks
 * ascend in every group. */
#ifndef UVCCI_TOPOLOGY_H
#define UVCCI_TOPOLOGY_H

#include <stddef.h>
#include <stdint.h>

/* Numbers of replicas, stages (at most 256: a stage is one byte in sid_sub) and tensor ranks. */
typedef struct uvcci_topology {
    uint16_t replicas, stages, tp_ranks;
} uvcci_topology;

typedef struct uvcci_coord {
    uint16_t replica, stage, tp_rank;
} uvcci_coord;

typedef enum uvcci_group {
    UVCCI_GROUP_TP,
    UVCCI_GROUP_PP,
    UVCCI_GROUP_DP,
    UVCCI_GROUP_STAGE
} uvcci_group;

/* 0, or UVCC_ERR_CONFIG: a size of 0, more than 256 stages, or more than INT32_MAX workers (ranks
 * are ints to every launcher). The other functions take a topology that passed. */
int uvcci_topology_check(const uvcci_topology *topo);
/* r * s * t: workers of one party. */
uint32_t uvcci_topology_workers(const uvcci_topology *topo);

/* All three return UVCC_ERR_USAGE for a coordinate or rank outside the topology. */
int uvcci_topology_rank(const uvcci_topology *topo, uvcci_coord at, uint32_t *local_rank);
int uvcci_topology_coord(const uvcci_topology *topo, uint32_t local_rank, uvcci_coord *at);
/* Local ranks of the group of that kind that `at` belongs to; returns their number. Also
 * UVCC_ERR_USAGE if cap (in members) is smaller than that. */
int uvcci_topology_group(const uvcci_topology *topo, uvcci_group kind, uvcci_coord at,
                         uint32_t *members, size_t cap);

#endif
