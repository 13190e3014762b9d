/* SPDX-License-Identifier: Apache-2.0 */
/* checkpoint.c - see checkpoint.h. */
#include "checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../flags_json.h"

#define WHOLE "model.safetensors"

static char *path_of(const char *dir, const char *name) {
    const size_t room = strlen(dir) + strlen(name) + 2;
    char *path = malloc(room);
    if (path != NULL)
        (void)snprintf(path, room, "%s/%s", dir, name);
    return path;
}

/* A pipe in the place of a file is refused, not waited for. */
static json_t *load_json(const char *path, const flag_message *m) {
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        (void)flag_fail(m, "%s: is no regular file; name a file", path);
        return NULL;
    }
    return flags_json_load(path, m);
}

/* One more file of the checkpoint. */
static int open_file(checkpoint *c, const char *name, const flag_message *m) {
    char *path = path_of(c->dir, name);
    const int rc =
        path == NULL ? flag_fail(m, "out of memory") : st_open(&c->file[c->file_count], path, m);
    c->file_count += rc == 0;
    free(path);
    return rc;
}

/* ---- several files ---- */

/* A name in the same directory: an index leads nowhere else. */
static bool is_plain(const char *name) {
    return *name != '\0' && *name != '.' && strchr(name, '/') == NULL;
}

/* Number of files the index names, each once, into names; they stay the index's. */
static int list_files(const char *path, const json_t *map, const char **names, size_t *count,
                      const flag_message *m) {
    const char *tensor;
    json_t *file;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, file) {
        const char *name = json_string_value(file);
        size_t i = 0;
        if (name == NULL || !is_plain(name))
            return flag_fail(m, "%s: weight_map: '%.200s' is not in a file of this directory", path,
                             tensor);
        while (i < *count && strcmp(names[i], name) != 0)
            i++;
        if (i == CHECKPOINT_FILES_MAX)
            return flag_fail(m, "%s: weight_map names more than %u files", path,
                             CHECKPOINT_FILES_MAX);
        names[i] = name;
        *count += i == *count;
    }
    return 0;
}

/* What the index says of a tensor holds: it is in that file. */
static int check_index(const checkpoint *c, const char *path, const json_t *map,
                       const char *const *names, const flag_message *m) {
    for (size_t i = 0; i < c->file_count; i++)
        for (size_t k = 0; k < c->file[i].count; k++) {
            const char *tensor = c->file[i].tensor[k].name;
            const char *file = json_string_value(json_object_get(map, tensor));
            if (file == NULL || strcmp(file, names[i]) != 0)
                return flag_fail(m, "%s: %s has the tensor '%.200s', which weight_map %s", path,
                                 names[i], tensor,
                                 file == NULL ? "does not name" : "has in another file");
        }
    if (checkpoint_tensors(c) == json_object_size(map))
        return 0;
    const char *tensor;
    json_t *file;
    json_object_foreach((json_t *)(uintptr_t)map, tensor, file) {
        if (checkpoint_find(c, tensor) == NULL)
            return flag_fail(m, "%s: weight_map names '%.200s', which is not in %s", path, tensor,
                             json_string_value(file));
    }
    return 0;
}

static int open_indexed(checkpoint *c, const char *path, const flag_message *m) {
    const char *names[CHECKPOINT_FILES_MAX];
    size_t count = 0;
    json_t *index = load_json(path, m);
    if (index == NULL)
        return -1;
    const json_t *map = json_object_get(index, "weight_map");
    int rc = json_is_object(map) ? list_files(path, map, names, &count, m)
                                 : flag_fail(m, "%s: weight_map is missing, or no object", path);
    for (size_t i = 0; i < count && rc == 0; i++)
        rc = open_file(c, names[i], m);
    if (rc == 0)
        rc = check_index(c, path, map, names, m);
    json_decref(index);
    return rc;
}

/* ---- the directory ---- */

static int open_weights(checkpoint *c, const flag_message *m) {
    char *whole = path_of(c->dir, WHOLE), *index = path_of(c->dir, CHECKPOINT_INDEX);
    int rc;
    c->file = calloc(CHECKPOINT_FILES_MAX, sizeof *c->file);
    if (whole == NULL || index == NULL || c->file == NULL)
        rc = flag_fail(m, "out of memory");
    else if (access(whole, F_OK) == 0)
        rc = open_file(c, WHOLE, m);
    else if (access(index, F_OK) == 0)
        rc = open_indexed(c, index, m);
    else
        rc = flag_fail(m,
                       "%s: has no " WHOLE " and no " CHECKPOINT_INDEX
                       "; save_pretrained() writes them, by safe_serialization=True",
                       c->dir);
    free(whole);
    free(index);
    return rc;
}

int checkpoint_open(checkpoint *out, const char *dir, const flag_message *m) {
    *out = (checkpoint){.dir = dir};
    out->config_path = path_of(dir, "config.json");
    if (out->config_path == NULL)
        return flag_fail(m, "out of memory");
    out->config = load_json(out->config_path, m);
    int rc = out->config == NULL ? -1 : open_weights(out, m);
    if (rc == 0 && !json_is_object(out->config))
        rc = flag_fail(m, "%s: is no JSON object", out->config_path);
    if (rc != 0)
        checkpoint_close(out);
    return rc;
}

void checkpoint_close(checkpoint *c) {
    for (size_t i = 0; i < c->file_count; i++)
        st_close(&c->file[i]);
    free(c->file);
    free(c->config_path);
    json_decref(c->config);
    *c = (checkpoint){0};
}

void checkpoint_forget(const checkpoint *c) {
    for (size_t i = 0; i < c->file_count; i++)
        map_forget(&c->file[i].map);
}

size_t checkpoint_tensors(const checkpoint *c) {
    size_t n = 0;
    for (size_t i = 0; i < c->file_count; i++)
        n += c->file[i].count;
    return n;
}

const st_tensor *checkpoint_at(const checkpoint *c, size_t i) {
    for (size_t k = 0; k < c->file_count; k++) {
        if (i < c->file[k].count)
            return &c->file[k].tensor[i];
        i -= c->file[k].count;
    }
    return NULL;
}

const st_tensor *checkpoint_find(const checkpoint *c, const char *name) {
    const st_tensor *t = NULL;
    for (size_t i = 0; i < c->file_count && t == NULL; i++)
        t = st_find(&c->file[i], name);
    return t;
}
