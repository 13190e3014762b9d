/* SPDX-License-Identifier: Apache-2.0 */
/* work_util.c - see work_util.h. */
#include "work_util.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../flags_json.h"
#include "../report.h"

char *work_path(const char *dir, const char *path) {
    if (path[0] == '/' || dir == NULL || strcmp(path, "-") == 0)
        return strdup(path);
    const size_t len = strlen(dir), room = len + strlen(path) + 2;
    char *out = malloc(room);
    if (out != NULL)
        (void)snprintf(out, room, "%s%s%s", dir, len > 0 && dir[len - 1] == '/' ? "" : "/", path);
    return out;
}

int work_take_path(const work_config *c, const char *name, char **path) {
    *path = name != NULL ? work_path(c->dir, name) : NULL;
    return name == NULL || *path != NULL ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
}

int work_output(const work_config *c, const char *const *members, const char *member, char **path) {
    char text[512] = "";
    const flag_message m = {text, sizeof text};
    const char *name = NULL;
    *path = NULL;
    if (flags_json_only(c->output, "output", members, &m) != 0 ||
        flags_json_text(c->output, "output", member, &name, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s%s%s", c->file != NULL ? c->file : "",
                            c->file != NULL ? ": " : "", text);
    if (name == NULL)
        return EXIT_DONE;
    *path = work_path(c->dir, name);
    return *path != NULL ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
}

int work_alone(const work_config *c, const char *does) {
    if (c->replicas * c->stages * c->tensor_ranks != 1 || c->microbatches != 1)
        return report_error(EXIT_BAD_INPUT,
                            "%s: job: a job that %s has one worker for each party; replicas, "
                            "stages, tensor_ranks and microbatches are 1",
                            c->file, does);
    return c->sks == 0 ? EXIT_DONE
                       : report_error(EXIT_BAD_INPUT,
                                      "%s: job.sks: a job that %s has no checks of its products; "
                                      "give 0",
                                      c->file, does);
}

void work_put(work_bytes *b, const void *bytes, size_t len) {
    if (b->failed || len == 0)
        return;
    if (len > b->room - b->len) {
        const size_t room = 2 * b->room + len + 256;
        uint8_t *more = realloc(b->at, room);
        b->failed = more == NULL;
        if (b->failed)
            return;
        b->at = more;
        b->room = room;
    }
    memcpy(b->at + b->len, bytes, len);
    b->len += len;
}

void work_put_u64(work_bytes *b, uint64_t v) {
    uint8_t bytes[8];
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(v >> (8 * i));
    work_put(b, bytes, sizeof bytes);
}

const void *work_get(work_reader *r, uint64_t n, size_t size) {
    if (n > r->len / size)
        return NULL;
    const void *at = r->at;
    r->at += n * size;
    r->len -= n * size;
    return at;
}

bool work_get_u64(work_reader *r, uint64_t *out) {
    const uint8_t *at = work_get(r, 1, 8);
    *out = 0;
    for (unsigned i = 0; at != NULL && i < 8; i++)
        *out |= (uint64_t)at[i] << (8 * i);
    return at != NULL;
}
