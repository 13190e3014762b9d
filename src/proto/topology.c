/* SPDX-License-Identifier: Apache-2.0 */
/* topology.c - coordinates of workers and the groups they form. Stateless. */
#include "proto/topology.h"

#include <assert.h>
#include <uvcc/types.h>

#define MAX_STAGES 256u

int uvcci_topology_check(const uvcci_topology *topo) {
    if (topo->replicas == 0 || topo->stages == 0 || topo->tp_ranks == 0 ||
        topo->stages > MAX_STAGES)
        return UVCC_ERR_CONFIG;
    uint64_t workers = (uint64_t)topo->replicas * topo->stages * topo->tp_ranks;
    return workers <= INT32_MAX ? 0 : UVCC_ERR_CONFIG;
}

uint32_t uvcci_topology_workers(const uvcci_topology *topo) {
    return (uint32_t)topo->replicas * topo->stages * topo->tp_ranks;
}

int uvcci_topology_rank(const uvcci_topology *topo, uvcci_coord at, uint32_t *local_rank) {
    if (at.replica >= topo->replicas || at.stage >= topo->stages || at.tp_rank >= topo->tp_ranks)
        return UVCC_ERR_USAGE;
    *local_rank = ((uint32_t)at.replica * topo->stages + at.stage) * topo->tp_ranks + at.tp_rank;
    return 0;
}

int uvcci_topology_coord(const uvcci_topology *topo, uint32_t local_rank, uvcci_coord *at) {
    if (local_rank >= uvcci_topology_workers(topo))
        return UVCC_ERR_USAGE;
    assert(uvcci_topology_check(topo) == 0);
    uint32_t pipeline_at = local_rank / topo->tp_ranks;
    *at = (uvcci_coord){.replica = (uint16_t)(pipeline_at / topo->stages),
                        .stage = (uint16_t)(pipeline_at % topo->stages),
                        .tp_rank = (uint16_t)(local_rank % topo->tp_ranks)};
    return 0;
}

/* All workers of a stage: the tensor ranks of each replica in turn. */
static int stage_group(const uvcci_topology *topo, uvcci_coord at, uint32_t *members, size_t cap) {
    uint32_t count = (uint32_t)topo->replicas * topo->tp_ranks;
    if (cap < count)
        return UVCC_ERR_USAGE;
    for (uint32_t i = 0; i < count; i++)
        members[i] =
            (i / topo->tp_ranks * topo->stages + at.stage) * topo->tp_ranks + i % topo->tp_ranks;
    return (int)count;
}

int uvcci_topology_group(const uvcci_topology *topo, uvcci_group kind, uvcci_coord at,
                         uint32_t *members, size_t cap) {
    assert(uvcci_topology_check(topo) == 0);
    uint32_t per_replica = (uint32_t)topo->stages * topo->tp_ranks;
    uint32_t rank, own, count, stride;
    int rc = uvcci_topology_rank(topo, at, &rank);
    if (rc != 0)
        return rc;
    switch (kind) {
    case UVCCI_GROUP_TP:
        own = at.tp_rank, count = topo->tp_ranks, stride = 1;
        break;
    case UVCCI_GROUP_PP:
        own = at.stage, count = topo->stages, stride = topo->tp_ranks;
        break;
    case UVCCI_GROUP_DP:
        own = at.replica, count = topo->replicas, stride = per_replica;
        break;
    case UVCCI_GROUP_STAGE:
        return stage_group(topo, at, members, cap);
    default:
        return UVCC_ERR_USAGE;
    }
    if (cap < count)
        return UVCC_ERR_USAGE;
    for (uint32_t i = 0; i < count; i++)
        members[i] = rank - own * stride + i * stride;
    return (int)count;
}
