/* SPDX-License-Identifier: Apache-2.0 */
/* places.c - whether a party can write where its configuration says: --check finds it before a run
 * does, and makes nothing. */
#define _GNU_SOURCE /* AT_EACCESS */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "figures.h"
#include "party.h"

static int bad(const party *p, const char *member, const char *path, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s: %s: %s %s", p->c.file, member, path, why);
}

/* Names can be made in it. */
static bool may_write(const char *path, int how) {
    return faccessat(AT_FDCWD, path, how, AT_EACCESS) == 0;
}

/* What is not there yet is made in a directory that must be. */
static int check_parent(const party *p, const char *member, const char *path) {
    char parent[PARTY_PATH_BYTES], why[128];
    struct stat st;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    while (n > 1 && path[n - 1] == '/')
        n--;
    (void)snprintf(parent, sizeof parent, "%.*s", n > 0 ? (int)n : 1, n > 0 ? path : ".");
    if (stat(parent, &st) != 0) {
        (void)snprintf(why, sizeof why, "cannot be made there: %s; make the directory above it",
                       strerror(errno));
        return bad(p, member, path, why);
    }
    if (!S_ISDIR(st.st_mode))
        return bad(p, member, path, "cannot be made there: what is above it is no directory");
    if (may_write(parent, W_OK | X_OK))
        return EXIT_DONE;
    (void)snprintf(why, sizeof why,
                   "cannot be made there (%s); give the directory above it to user %lu",
                   strerror(errno), (unsigned long)geteuid());
    return bad(p, member, path, why);
}

static int check_directory(const party *p, const char *member, const char *path) {
    char full[PARTY_PATH_BYTES], why[128];
    struct stat st;
    if (path == NULL)
        return EXIT_DONE;
    if (!config_path(&p->c, path, full))
        return bad(p, member, path, "is too long");
    if (stat(full, &st) != 0)
        return check_parent(p, member, full);
    if (!S_ISDIR(st.st_mode))
        return bad(p, member, full, "is no directory; name one, or what is to be made");
    if (may_write(full, R_OK | W_OK | X_OK))
        return EXIT_DONE;
    (void)snprintf(why, sizeof why, "cannot be written in (%s); give it to user %lu",
                   strerror(errno), (unsigned long)geteuid());
    return bad(p, member, full, why);
}

static int check_log(const party *p) {
    char full[PARTY_PATH_BYTES] = "", why[128];
    struct stat st;
    const int status = figures_log_path(p, full);
    if (status != EXIT_DONE || *full == '\0')
        return status;
    if (stat(full, &st) != 0)
        return check_parent(p, "log.file", full);
    if (!S_ISDIR(st.st_mode) && may_write(full, W_OK))
        return EXIT_DONE;
    (void)snprintf(why, sizeof why, "cannot be written (%s)",
                   S_ISDIR(st.st_mode) ? "it is a directory" : strerror(errno));
    return bad(p, "log.file", full, why);
}

const char *party_in_use(const char *why) {
    return strstr(why, strerror(EADDRINUSE)) != NULL
               ? "; does this party, or another worker of it, run already? ss -ltnp says who has "
                 "it; else give another port"
               : "";
}

int party_check_places(const party *p) {
    int status = check_directory(p, "store", p->c.store);
    if (status == EXIT_DONE)
        status = check_directory(p, "audit", p->c.audit);
    return status == EXIT_DONE ? check_log(p) : status;
}
