/* SPDX-License-Identifier: Apache-2.0 */
/* hardware.c - the machine, as far as a process sees it by itself; scripts/describe-hardware sees
 * devices and the network too, and --hardware takes its file. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../report.h"
#include "result.h"

/* What follows the name and a colon in a file of lines. */
static bool read_line(const char *path, const char *name, char *out, size_t cap) {
    FILE *f = fopen(path, "re");
    char line[512];
    bool found = false;
    while (f != NULL && !found && fgets(line, sizeof line, f) != NULL) {
        const char *colon = strchr(line, ':');
        if (colon == NULL || strncmp(line, name, strlen(name)) != 0)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        (void)snprintf(out, cap, "%.*s", (int)strcspn(colon, "\n"), colon);
        found = true;
    }
    if (f != NULL)
        (void)fclose(f);
    return found;
}

/* The number in a file; UINT64_MAX: none ("max"). */
static uint64_t read_number(const char *path) {
    FILE *f = fopen(path, "re");
    uint64_t v = UINT64_MAX;
    if (f != NULL && fscanf(f, "%" SCNu64, &v) != 1)
        v = UINT64_MAX;
    if (f != NULL)
        (void)fclose(f);
    return v;
}

uint64_t hardware_memory(void) {
    char text[64];
    uint64_t free_bytes = UINT64_MAX;
    if (read_line("/proc/meminfo", "MemAvailable", text, sizeof text))
        free_bytes = strtoull(text, NULL, 10) * 1024;
    const uint64_t limit = read_number("/sys/fs/cgroup/memory.max");
    const uint64_t used = read_number("/sys/fs/cgroup/memory.current");
    if (limit != UINT64_MAX && used != UINT64_MAX && limit > used && limit - used < free_bytes)
        free_bytes = limit - used;
    return free_bytes;
}

double hardware_load(void) {
    FILE *f = fopen("/proc/loadavg", "re");
    double v = -1;
    if (f != NULL && fscanf(f, "%lf", &v) != 1)
        v = -1;
    if (f != NULL)
        (void)fclose(f);
    return v;
}

static json_t *own(void) {
    char host[128] = "", cpu[128] = "unknown", memory[64] = "0";
    (void)gethostname(host, sizeof host - 1);
    (void)read_line("/proc/cpuinfo", "model name", cpu, sizeof cpu);
    (void)read_line("/proc/meminfo", "MemTotal", memory, sizeof memory);
    const double gb = floor(strtod(memory, NULL) * 1024 / 1e8 + 0.5) / 10;
    return json_pack("{s:s, s:s, s:i, s:f, s:[], s:{s:n, s:n}}", "hostname", host, "cpu_model", cpu,
                     "cpu_cores", (int)sysconf(_SC_NPROCESSORS_ONLN), "ram_gb", gb, "gpus",
                     "network", "measured_bandwidth_gbps", "ping_ms");
}

json_t *hardware_json(const char *path) {
    static const char *const members[] = {"hostname", "cpu_model", "cpu_cores",
                                          "ram_gb",   "gpus",      "network"};
    json_error_t e;
    json_t *o = path != NULL ? json_load_file(path, 0, &e) : own();
    if (o == NULL) {
        if (path != NULL)
            (void)report_error(EXIT_BAD_INPUT, "--hardware %s: %s (line %d)", path, e.text, e.line);
        else
            (void)report_error(EXIT_FAILED, "out of memory");
        return NULL;
    }
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_object_get(o, members[i]) == NULL) {
            (void)report_error(EXIT_BAD_INPUT,
                               "--hardware %s: it has no \"%s\"; give a file that "
                               "scripts/describe-hardware wrote",
                               path, members[i]);
            json_decref(o);
            return NULL;
        }
    return o;
}
