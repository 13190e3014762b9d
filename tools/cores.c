/* SPDX-License-Identifier: Apache-2.0 */
/* cores.c - see cores.h. */
#define _GNU_SOURCE
#include "cores.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

/* The cgroup's path, which begins with a slash, from the line "0::PATH" of cgroup v2. */
static bool read_path(const char *self, char path[PATH_BYTES]) {
    static const char begin[] = "0::/";
    char line[PATH_BYTES];
    FILE *f = fopen(self, "re");
    bool found = false;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        found = strncmp(line, begin, sizeof begin - 1) == 0 && strchr(line, '\n') != NULL;
        if (found)
            (void)snprintf(path, PATH_BYTES, "%.*s", (int)strcspn(line + 3, "\n"), line + 3);
    }
    if (f != NULL)
        (void)fclose(f);
    return found;
}

/* cpu.max is "QUOTA PERIOD" in microseconds, or "max PERIOD". */
static long read_quota(const char *mount, const char *path) {
    char name[2 * PATH_BYTES];
    long quota, period;
    (void)snprintf(name, sizeof name, "%s%s/cpu.max", mount, path);
    FILE *f = fopen(name, "re");
    const bool there = f != NULL && fscanf(f, "%ld %ld", &quota, &period) == 2;
    if (f != NULL)
        (void)fclose(f);
    return there && quota > 0 && period > 0 ? quota / period + (quota % period != 0) : LONG_MAX;
}

long cores_of_quota(const char *self, const char *mount) {
    char path[PATH_BYTES], *last;
    long least = LONG_MAX;
    if (!read_path(self, path))
        return least;
    do { /* from the cgroup up to the top, whose path is empty */
        last = strrchr(path, '/');
        if (last != NULL && last[1] == '\0')
            *last = '\0';
        const long cores = read_quota(mount, path);
        least = cores < least ? cores : least;
        last = strrchr(path, '/');
        if (last != NULL)
            *last = '\0';
    } while (last != NULL);
    return least;
}

long cores_usable_by(const char *self, const char *mount) {
    cpu_set_t set;
    long cores = sched_getaffinity(0, sizeof set, &set) == 0
                     ? CPU_COUNT(&set)
                     : sysconf(_SC_NPROCESSORS_ONLN); /* more than the set has room for */
    const long quota = cores_of_quota(self, mount);
    cores = quota < cores ? quota : cores;
    return cores > 1 ? cores : 1;
}

long cores_usable(void) {
    return cores_usable_by("/proc/self/cgroup", "/sys/fs/cgroup");
}
