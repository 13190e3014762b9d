/* SPDX-License-Identifier: Apache-2.0 */
/* flags_json.c - see flags_json.h. */
#include "flags_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NAME_BYTES 64u

/* The member's name of a flag. */
static void member_of(const char *name, char out[NAME_BYTES]) {
    size_t n = 0;
    for (; name[n] != '\0' && n + 1 < NAME_BYTES; n++)
        out[n] = (char)(name[n] == '-' ? '_' : name[n]);
    out[n] = '\0';
}

static const flag *find(const flag_set *set, const char *const *names, const char *key) {
    char member[NAME_BYTES];
    for (size_t k = 0; names == NULL && k < set->count; k++) {
        member_of(set->flags[k].name, member);
        if (strcmp(member, key) == 0)
            return &set->flags[k];
    }
    for (size_t i = 0; names != NULL && names[i] != NULL; i++) {
        member_of(names[i], member);
        if (strcmp(member, key) != 0)
            continue;
        for (size_t k = 0; k < set->count; k++)
            if (strcmp(set->flags[k].name, names[i]) == 0)
                return &set->flags[k];
    }
    return NULL;
}

static bool among(const char *const *names, const char *key) {
    for (size_t i = 0; names != NULL && names[i] != NULL; i++)
        if (strcmp(names[i], key) == 0)
            return true;
    return false;
}

/* Between an object's place and a member's name. */
static const char *dot(const char *where) {
    return *where != '\0' ? "." : "";
}

/* "there is no member 'foo'; there are a, b, c". */
static int no_member(const flag_set *set, const char *const *names, const char *const *more,
                     const char *where, const char *key, const flag_message *m) {
    char list[1024] = "", member[NAME_BYTES];
    size_t n = 0;
    for (size_t k = 0; names == NULL && set != NULL && k < set->count && n < sizeof list; k++) {
        member_of(set->flags[k].name, member);
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n != 0 ? ", " : "", member);
    }
    const char *const *const from[] = {names, more};
    for (unsigned k = 0; k < 2; k++)
        for (size_t i = 0; from[k] != NULL && from[k][i] != NULL && n < sizeof list; i++) {
            member_of(from[k][i], member);
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n != 0 ? ", " : "", member);
        }
    if (n == 0)
        return flag_fail(m, "%s%s%s: nothing is to be said there; leave it out", where, dot(where),
                         key);
    return flag_fail(m, "%s%s%s: there is no such member; there are %s", where, dot(where), key,
                     list);
}

/* ---- values ---- */

static bool whole(const json_t *v, uint64_t min, uint64_t max, uint64_t *out) {
    const json_int_t n = json_integer_value(v);
    if (!json_is_integer(v) || n < 0 || (uint64_t)n < min || (uint64_t)n > max)
        return false;
    *out = (uint64_t)n;
    return true;
}

static bool take_seed(const json_t *v, uint64_t *out) {
    const char *text = json_string_value(v);
    char again[24];
    if (text == NULL)
        return whole(v, 0, INT64_MAX, out);
    *out = strtoull(text, NULL, 10);
    (void)snprintf(again, sizeof again, "%llu", (unsigned long long)*out);
    return strcmp(again, text) == 0;
}

static bool is_choice(const flag *f, const char *first, const char *second) {
    return strcmp(f->choices[0], first) == 0 && strcmp(f->choices[1], second) == 0;
}

static int take_choice(const flag *f, const json_t *v, const char *at, uint32_t *out,
                       const flag_message *m) {
    const char *text = json_string_value(v);
    if (is_choice(f, "yes", "no") || is_choice(f, "on", "off")) {
        if (!json_is_boolean(v))
            return flag_fail(m, "%s: give true or false", at);
        *out = json_is_true(v) ? 0 : 1;
        return 0;
    }
    for (uint32_t i = 0; text != NULL && f->choices[i] != NULL; i++)
        if (strcmp(text, f->choices[i]) == 0) {
            *out = i;
            return 0;
        }
    char list[256] = "";
    size_t n = 0;
    for (uint32_t i = 0; f->choices[i] != NULL && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s\"%s\"", i > 0 ? ", " : "",
                              f->choices[i]);
    return text != NULL ? flag_fail(m, "%s \"%s\": give one of %s", at, text, list)
                        : flag_fail(m, "%s: give one of %s", at, list);
}

static int take_list(const flag *f, const json_t *v, const char *at, flag_list *out,
                     const flag_message *m) {
    const size_t count = json_array_size(v);
    bool ok = json_is_array(v) && count > 0 && count <= FLAG_LIST_MAX;
    for (size_t i = 0; i < count && ok; i++) {
        uint64_t n = 0;
        ok = whole(json_array_get(v, i), f->min, f->max, &n);
        out->v[i] = (uint32_t)n;
    }
    out->count = (uint32_t)count;
    return ok ? 0
              : flag_fail(m,
                          "%s: give an array of 1 to %u whole numbers from %u to %u, as [64, 32]",
                          at, FLAG_LIST_MAX, f->min, f->max);
}

/* A message says what to give instead: it is all that a user sees. */
static int take_value(const flag *f, const json_t *v, const char *at, void *options,
                      const flag_message *m) {
    void *to = (char *)options + f->at;
    const double x = json_number_value(v);
    uint64_t n;
    switch (f->kind) {
    case FLAG_TEXT:
        if (!json_is_string(v) || *json_string_value(v) == '\0')
            return flag_fail(m, "%s: give a string: %s", at, f->value);
        *(const char **)to = json_string_value(v);
        return 0;
    case FLAG_COUNT:
        if (!whole(v, f->min, f->max, &n))
            return flag_fail(m, "%s: give a whole number from %u to %u", at, f->min, f->max);
        *(uint32_t *)to = (uint32_t)n;
        return 0;
    case FLAG_SEED:
        if (!take_seed(v, to))
            return flag_fail(m,
                             "%s: give a whole number from 0 to 2^63 - 1, or a string of digits, "
                             "up to 2^64 - 1",
                             at);
        return 0;
    case FLAG_RATE:
        if (!json_is_number(v) || !(x >= 0 && x < 1))
            return flag_fail(m, "%s: give a rate of at least 0 and less than 1, such as 0.05", at);
        *(double *)to = x;
        return 0;
    case FLAG_REAL:
        if (!json_is_number(v) || !(x >= f->min && x <= f->max))
            return flag_fail(m, "%s: give a number from %u to %u, such as 0.5", at, f->min, f->max);
        *(double *)to = x;
        return 0;
    case FLAG_CHOICE:
        return take_choice(f, v, at, to, m);
    case FLAG_LIST:
        return take_list(f, v, at, to, m);
    default:
        if (!json_is_boolean(v))
            return flag_fail(m, "%s: give true or false", at);
        *(bool *)to = json_is_true(v);
        return 0;
    }
}

int flags_take_json(const flag_set *set, const char *const *names, const char *const *more,
                    void *options, const json_t *o, const char *where, const flag_message *m) {
    char at[128];
    if (o != NULL && !json_is_object(o))
        return flag_fail(m, "%s: give an object: {...}", *where != '\0' ? where : "the text");
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)o, key, v) { /* which it does not change */
        if (among(more, key))
            continue;
        const flag *f = find(set, names, key);
        if (f == NULL)
            return no_member(set, names, more, where, key, m);
        (void)snprintf(at, sizeof at, "%s%s%s", where, dot(where), key);
        if (take_value(f, v, at, options, m) != 0)
            return -1;
    }
    return 0;
}

/* ---- texts ---- */

/* Up to the end of an option's name. */
static size_t name_len(const char *at) {
    size_t n = 0;
    while ((at[n] >= 'a' && at[n] <= 'z') || at[n] == '-')
        n++;
    return n;
}

/* Where an option stands in JSON. */
static void place_of(const char *where, const flag_place *others, const char *name, size_t len,
                     char out[2 * NAME_BYTES]) {
    for (size_t i = 0; others != NULL && others[i].name != NULL; i++)
        if (strlen(others[i].name) == len && memcmp(others[i].name, name, len) == 0) {
            (void)snprintf(out, 2 * NAME_BYTES, "%s", others[i].place);
            return;
        }
    const int n = snprintf(out, 2 * NAME_BYTES, "%s.%.*s", where, (int)len, name);
    for (int i = (int)strlen(where); i < n && out[i] != '\0'; i++)
        out[i] = (char)(out[i] == '-' ? '_' : out[i]);
}

void flags_json_words(const char *where, const flag_place *others, const flag_message *m) {
    char line[1024], place[2 * NAME_BYTES];
    size_t n = 0;
    (void)snprintf(line, sizeof line, "%s", m->text);
    for (const char *at = line; *at != '\0' && n + 1 < m->cap;) {
        const size_t len = strncmp(at, "--", 2) == 0 ? name_len(at + 2) : 0;
        if (len == 0) {
            m->text[n++] = *at++;
            continue;
        }
        place_of(where, others, at + 2, len, place);
        const int put = snprintf(m->text + n, m->cap - n, "%s", place);
        n += (size_t)put < m->cap - n ? (size_t)put : m->cap - n - 1;
        at += 2 + len;
    }
    m->text[n] = '\0';
}

/* ---- members of their own ---- */

int flags_json_count(const json_t *o, const char *where, const char *name, uint64_t min,
                     uint64_t max, uint64_t *out, bool *given, const flag_message *m) {
    const json_t *v = json_object_get(o, name);
    if (given != NULL)
        *given = v != NULL;
    if (v == NULL || whole(v, min, max, out))
        return 0;
    return flag_fail(m, "%s%s%s: give a whole number from %llu to %llu", where, dot(where), name,
                     (unsigned long long)min, (unsigned long long)max);
}

int flags_json_text(const json_t *o, const char *where, const char *name, const char **out,
                    const flag_message *m) {
    const json_t *v = json_object_get(o, name);
    *out = json_string_value(v);
    if (v == NULL || (*out != NULL && **out != '\0'))
        return 0;
    return flag_fail(m, "%s%s%s: give a string that is not empty", where, dot(where), name);
}

int flags_json_only(const json_t *o, const char *where, const char *const *names,
                    const flag_message *m) {
    const char *key;
    json_t *v;
    if (o != NULL && !json_is_object(o))
        return flag_fail(m, "%s: give an object: {...}", where);
    json_object_foreach((json_t *)(uintptr_t)o, key, v) {
        if (!among(names, key))
            return no_member(NULL, NULL, names, where, key, m);
    }
    return 0;
}

/* A byte order mark, which editors put before a text unasked, is none of it. */
static void skip_mark(FILE *f) {
    const int first = getc(f);
    if (first != 0xef) {
        (void)ungetc(first, f); /* nothing at the end */
        return;
    }
    (void)getc(f); /* no other text begins so */
    (void)getc(f);
}

json_t *flags_json_load(const char *path, const flag_message *m) {
    json_error_t error;
    struct stat st;
    const int rc = stat(path, &st);
    if (rc == 0 && S_ISDIR(st.st_mode)) {
        (void)flag_fail(m, "%s: is a directory; name the configuration's file in it", path);
        return NULL;
    }
    FILE *f = rc == 0 ? fopen(path, "rb") : NULL;
    if (f == NULL) {
        (void)flag_fail(m, "%s: cannot be read: %s", path, strerror(errno));
        return NULL;
    }
    skip_mark(f);
    json_t *root = json_loadf(f, JSON_REJECT_DUPLICATES, &error);
    (void)fclose(f);
    if (root == NULL && error.line < 0)
        (void)flag_fail(m, "%s: %s", path, error.text);
    else if (root == NULL)
        (void)flag_fail(m, "%s:%d:%d: %s", path, error.line, error.column, error.text);
    return root;
}
