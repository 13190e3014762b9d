/* SPDX-License-Identifier: Apache-2.0 */
/* dir_use.c - see dir_use.h. What a directory is for shows by what lies in it. */
#include "dir_use.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "place.h"
#include "report.h"

#define PATH_BYTES 4096u

static const char *const options[] = {
    [DIR_MODEL] = "checkpoint", [DIR_EVIDENCE] = "audit", [DIR_LOGS] = "record"};
static const char *const holds[] = {[DIR_MODEL] = "a kept model, with its keys",
                                    [DIR_EVIDENCE] = "evidence, which goes to auditors",
                                    [DIR_LOGS] = "logs, which hold all secrets"};

static bool there(const char *dir, const char *name) {
    char path[PATH_BYTES];
    struct stat st;
    return snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path &&
           lstat(path, &st) == 0;
}

/* Unfinished ones too: PARTY.uvlog.PID.part. */
static bool has_logs(const char *dir) {
    DIR *d = opendir(dir);
    bool has = false;
    for (struct dirent *e; d != NULL && !has && (e = readdir(d)) != NULL;)
        has = strstr(e->d_name, ".uvlog") != NULL;
    if (d != NULL)
        (void)closedir(d);
    return has;
}

static bool used_for(const char *dir, dir_use use) {
    static const char *const model[] = {"model.json", "finetune.json", "party-0/key", "party-1/key",
                                        "party-2/key"};
    bool found = false;
    if (use == DIR_EVIDENCE)
        return there(dir, "public-keys");
    if (use == DIR_LOGS)
        return has_logs(dir);
    for (size_t i = 0; i < sizeof model / sizeof model[0]; i++)
        found = found || there(dir, model[i]);
    return found;
}

/* The path of a directory that is not there yet; NULL: there is none, or no memory. */
static char *path_to_be(const char *dir) {
    place p;
    char *copy = strdup(dir);
    size_t len = copy != NULL ? strlen(copy) : 0;
    while (len > 1 && copy[len - 1] == '/')
        copy[--len] = '\0';
    const bool found = copy != NULL && place_find(&p, copy) == 0;
    free(copy);
    return found ? p.path : NULL;
}

static bool same(const char *a, const char *b) {
    struct stat x, y;
    const bool is_a = stat(a, &x) == 0, is_b = stat(b, &y) == 0;
    if (is_a || is_b)
        return is_a && is_b && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
    char *to_be_a = path_to_be(a), *to_be_b = path_to_be(b);
    const bool equal = to_be_a != NULL && to_be_b != NULL && strcmp(to_be_a, to_be_b) == 0;
    free(to_be_a);
    free(to_be_b);
    return equal;
}

int dir_use_check(const dir_user *users, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const dir_user *u = &users[i];
        for (size_t k = 0; k < i && u->dir != NULL; k++)
            if (users[k].dir != NULL && same(u->dir, users[k].dir))
                return report_error(EXIT_BAD_INPUT,
                                    "--%s %s: is the directory of --%s too; give each its own",
                                    options[u->use], u->dir, options[users[k].use]);
        for (dir_use other = DIR_MODEL; u->dir != NULL && other <= DIR_LOGS; other++)
            if (other != u->use && used_for(u->dir, other))
                return report_error(EXIT_BAD_INPUT,
                                    "--%s %s: has %s (--%s); give another directory",
                                    options[u->use], u->dir, holds[other], options[other]);
    }
    return EXIT_DONE;
}
