/* SPDX-License-Identifier: Apache-2.0 */
/* agree.c - see agree.h. A member's part follows from its name, so that parties of which one has a
 * member that the others have not compare the same things all the same. Two members may share a
 * part; its name says both. */
#include "agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIXED = 4 }; /* parts of members of "job"; the rest is for those of "job.run" */

/* Puts "member=value" behind what a part has; its text is hashed at the end. */
static bool put(char **text, const char *member, const json_t *value) {
    char *dump = json_dumps(value, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    const size_t before = *text != NULL ? strlen(*text) : 0;
    const size_t room = before + strlen(member) + (dump != NULL ? strlen(dump) : 0) + 3;
    char *more = dump != NULL ? realloc(*text, room) : NULL;
    if (more != NULL) {
        (void)snprintf(more + before, room - before, "%s=%s\n", member, dump);
        *text = more;
    }
    free(dump);
    return more != NULL;
}

static void put_name(char name[UVCC_AGREE_NAME_MAX + 1], const char *place, const char *member) {
    const size_t n = strlen(name);
    if (n == 0)
        (void)snprintf(name, UVCC_AGREE_NAME_MAX + 1, "%s%s", place, member);
    else
        (void)snprintf(name + n, UVCC_AGREE_NAME_MAX + 1 - n, " or %s", member);
}

static uint32_t part_of(const char *member) {
    const uint64_t h = uvcc_agree_hash(member, strlen(member));
    return FIXED + (uint32_t)(h % (UVCC_AGREE_MAX - FIXED));
}

/* Members in the order of their names, whatever order the file has. */
static bool put_run(party_agree *out, json_t *run, char *text[UVCC_AGREE_MAX]) {
    char *dump = json_dumps(run, JSON_COMPACT | JSON_SORT_KEYS);
    json_t *sorted = dump != NULL ? json_loads(dump, 0, NULL) : NULL, *value;
    const char *member;
    bool ok = sorted != NULL;
    free(dump);
    json_object_foreach(sorted, member, value) {
        if (strcmp(member, "kind") == 0)
            continue;
        const uint32_t part = part_of(member);
        ok = ok && put(&text[part], member, value);
        put_name(out->name[part], "job.run.", member);
    }
    json_decref(sorted);
    return ok;
}

static bool put_number(party_agree *out, unsigned part, const char *member, uint32_t value,
                       char *text[UVCC_AGREE_MAX]) {
    json_t *v = json_integer((json_int_t)value);
    const bool ok = v != NULL && put(&text[part], member, v);
    json_decref(v);
    put_name(out->name[part], "job.", member);
    return ok;
}

int agree_make(party_agree *out, const party_config *c) {
    char *text[UVCC_AGREE_MAX] = {0};
    *out = (party_agree){.parts.count = UVCC_AGREE_MAX};
    bool ok = put(&text[0], "kind", json_object_get(c->run, "kind"));
    put_name(out->name[0], "job.run.", "kind");
    ok = put_number(out, 1, "microbatches", c->microbatches, text) && ok;
    ok = put_number(out, 2, "sks", c->sks, text) && ok;
    ok = put_number(out, 3, "checkpoint_every", c->checkpoint_every, text) && ok;
    ok = put_run(out, c->run, text) && ok;
    for (unsigned i = 0; i < UVCC_AGREE_MAX; i++) {
        if (out->name[i][0] == '\0')
            (void)snprintf(out->name[i], sizeof out->name[i], "job.run");
        out->parts.name[i] = out->name[i];
        out->parts.part[i] = text[i] != NULL ? uvcc_agree_hash(text[i], strlen(text[i])) : 0;
        free(text[i]);
    }
    return ok ? 0 : UVCC_ERR_NOMEM;
}

void agree_add(party_agree *out, const char *name, uint64_t value) {
    const uint32_t part = part_of(name);
    const uint64_t both[] = {out->parts.part[part], value};
    if (out->parts.part[part] == 0)
        out->name[part][0] = '\0'; /* it stood for what others may have */
    put_name(out->name[part], "", name);
    out->parts.part[part] = uvcc_agree_hash(both, sizeof both);
}
