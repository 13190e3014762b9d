/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - see job.h. */
#include "job.h"

#include <string.h>

#include "../flags_json.h"

enum { WAIT_DEFAULT_S = 60, WAIT_MAX_S = 86400, WHERE_BYTES = 32 };

static int read_party(bench_job *j, unsigned p, const json_t *o, const flag_message *m) {
    static const char *const names[] = {"address", "listen", NULL};
    char where[WHERE_BYTES];
    (void)snprintf(where, sizeof where, "parties[%u]", p);
    if (flags_json_only(o, where, names, m) != 0 ||
        flags_json_text(o, where, "address", &j->address[p], m) != 0 ||
        flags_json_text(o, where, "listen", &j->listen[p], m) != 0)
        return -1;
    const char *a = j->address[p];
    if (a == NULL || (strncmp(a, "tcp:", 4) != 0 && strncmp(a, "unix:", 5) != 0))
        return flag_fail(m, "%s.address: give tcp:HOST:PORT or unix:PATH", where);
    return 0;
}

static int read_all(bench_job *j, const flag_message *m) {
    static const char *const names[] = {"parties", "wait_s", NULL};
    uint64_t wait_s = WAIT_DEFAULT_S;
    if (!json_is_object(j->root))
        return flag_fail(m, "give an object with \"parties\"");
    const json_t *list = json_object_get(j->root, "parties");
    if (flags_json_only(j->root, "", names, m) != 0 ||
        flags_json_count(j->root, "", "wait_s", 1, WAIT_MAX_S, &wait_s, NULL, m) != 0)
        return -1;
    if (!json_is_array(list) || json_array_size(list) != UVCC_PARTIES)
        return flag_fail(m, "parties: give a list of three, {\"address\": ...} for parties 0, 1 "
                            "and 2");
    j->wait_s = (uint32_t)wait_s;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if (read_party(j, p, json_array_get(list, p), m) != 0)
            return -1;
    return 0;
}

int bench_job_open(bench_job *j, const char *path, const flag_message *m) {
    char why[256] = "";
    const flag_message inner = {why, sizeof why};
    memset(j, 0, sizeof *j);
    j->root = flags_json_load(path, m);
    if (j->root == NULL)
        return -1;
    return read_all(j, &inner) == 0 ? 0 : flag_fail(m, "%s: %s", path, why);
}

void bench_job_close(bench_job *j) {
    json_decref(j->root);
}

const char *bench_job_transport(const bench_job *j) {
    return strncmp(j->address[0], "unix:", 5) == 0 ? "unix" : "tcp";
}

/* "tcp:HOST" of tcp:HOST:PORT; a socket's file is of this machine. */
static size_t host_bytes(const char *address) {
    return strncmp(address, "unix:", 5) == 0 ? strlen("unix:")
                                             : (size_t)(strrchr(address, ':') - address);
}

bool bench_job_one_machine(const bench_job *j) {
    const size_t n = host_bytes(j->address[0]);
    for (unsigned p = 1; p < UVCC_PARTIES; p++)
        if (host_bytes(j->address[p]) != n || strncmp(j->address[p], j->address[0], n) != 0)
            return false;
    return true;
}
