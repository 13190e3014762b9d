/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - see job.h. */
#include "job.h"

#include <string.h>

#include "../flags_json.h"

enum { WAIT_DEFAULT_S = 60, WAIT_MAX_S = 86400, WHERE_BYTES = 32 };

/* "tcp:[::1]" has colons and no port. */
static bool has_port(const char *host) {
    const char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
    return colon != NULL && colon != host && colon[1] != '\0' &&
           (bracket == NULL || colon > bracket);
}

/* A path is relative to the file, so that all three find each other, wherever they are started. */
static int put_address(const char *file, const char *place, const char *member, const char *a,
                       char out[UVCC_NET_ADDRESS_BYTES], const flag_message *m) {
    const bool path = strncmp(a, "unix:", 5) == 0 && a[5] != '\0';
    const char *slash = strrchr(file, '/');
    if (!path && (strncmp(a, "tcp:", 4) != 0 || !has_port(a + 4)))
        return flag_fail(m, "%s.%s: give tcp:HOST:PORT or unix:PATH", place, member);
    const int n = path && a[5] != '/' && slash != NULL
                      ? snprintf(out, UVCC_NET_ADDRESS_BYTES, "unix:%.*s%s",
                                 (int)(slash + 1 - file), file, a + 5)
                      : snprintf(out, UVCC_NET_ADDRESS_BYTES, "%s", a);
    return n < (int)UVCC_NET_ADDRESS_BYTES ? 0 : flag_fail(m, "%s.%s: is too long", place, member);
}

static int read_party(bench_job *j, const char *file, unsigned p, const json_t *o,
                      const flag_message *m) {
    static const char *const names[] = {"address", "listen", NULL};
    const char *given[2] = {NULL, NULL}, **const to[2] = {&j->address[p], &j->listen[p]};
    char where[WHERE_BYTES];
    (void)snprintf(where, sizeof where, "parties[%u]", p);
    if (flags_json_only(o, where, names, m) != 0)
        return -1;
    for (unsigned i = 0; i < 2; i++) {
        if (flags_json_text(o, where, names[i], &given[i], m) != 0)
            return -1;
        if (i == 0 && given[i] == NULL)
            given[i] = ""; /* it must be given */
        if (given[i] != NULL && put_address(file, where, names[i], given[i], j->text[p][i], m) != 0)
            return -1;
        *to[i] = given[i] != NULL ? j->text[p][i] : NULL;
    }
    for (unsigned q = 0; q < p; q++)
        if (strcmp(j->address[q], j->address[p]) == 0)
            return flag_fail(m, "%s.address: is that of party %u too; each has its own", where, q);
    return 0;
}

static int read_all(bench_job *j, const char *file, const flag_message *m) {
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
        if (read_party(j, file, p, json_array_get(list, p), m) != 0)
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
    return read_all(j, path, &inner) == 0 ? 0 : flag_fail(m, "%s: %s", path, why);
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
