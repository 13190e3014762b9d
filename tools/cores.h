/* SPDX-License-Identifier: Apache-2.0 */
/* cores.h - how many processors this process may keep busy: those that it may use (taskset, a
 * container's cpuset), or fewer where a container's quota of time is less. */
#ifndef UVCC_TOOLS_CORES_H
#define UVCC_TOOLS_CORES_H

/* At least 1. Reads files, so it is for a command's start. */
long cores_usable(void);
/* The same by other files: as below. */
long cores_usable_by(const char *self, const char *mount);
/* What the quotas of cgroup v2 come to, in cores, rounded up: of the cgroup that a file such as
 * /proc/self/cgroup names, and of those above it, in a file system such as that of /sys/fs/cgroup.
 * LONG_MAX: there is no quota, or none that can be read. */
long cores_of_quota(const char *self, const char *mount);

#endif
