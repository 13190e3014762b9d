/* SPDX-License-Identifier: Apache-2.0 */
/* vectors.c - see vectors.h: files, runs, comparisons. Reading a case is in vectors_read.c.
 *
 * Memory of a run lives until it is freed, as later cases read what earlier ones gave. Every
 * operand has guards around it, and what a task only reads is compared afterwards, so that a kernel
 * that writes where it must not is found here. */
#include "vectors.h"

#include <assert.h>
#include <dirent.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/collective.h>
#include <uvcc/host.h>

#include "internal.h"

enum { GUARD = 64, GUARD_BYTE = 0xA5, FRESH_BYTE = 0xEE };

/* ---- messages ---- */

int vector_fail(vector_message *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(m->text, sizeof m->text, format, args);
    va_end(args);
    return -1;
}

int vector_fail_case(vector_message *m, const vector_run *r, const vector_case *c,
                     const char *format, ...) {
    char what[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return vector_fail(m, "%s: %s: %s", r->file->path, c->name != NULL ? c->name : "a case", what);
}

/* ---- files ---- */

static int is_vectors(const struct dirent *d) {
    const size_t n = strlen(d->d_name);
    return n > 5 && strcmp(d->d_name + n - 5, ".json") == 0;
}

static int load_file(vector_file *f, const char *dir, const char *name, vector_message *m) {
    json_error_t e;
    const size_t bytes = strlen(dir) + strlen(name) + 2;
    f->path = malloc(bytes);
    if (f->path == NULL)
        return vector_fail(m, "no memory");
    (void)snprintf(f->path, bytes, "%s/%s", dir, name);
    f->root = json_load_file(f->path, JSON_REJECT_DUPLICATES, &e);
    return f->root != NULL ? 0 : vector_fail(m, "%s: line %d: %s", f->path, e.line, e.text);
}

int vector_set_load(vector_set *out, const char *dir, vector_message *m) {
    struct dirent **names = NULL;
    *out = (vector_set){0};
    const int n = scandir(dir, &names, is_vectors, alphasort);
    if (n <= 0) {
        free(names);
        return vector_fail(m, n < 0 ? "%s cannot be read" : "%s has no vectors", dir);
    }
    int e = 0;
    out->files = calloc((size_t)n, sizeof *out->files);
    if (out->files == NULL)
        e = vector_fail(m, "no memory");
    for (int i = 0; i < n; i++) {
        if (e == 0)
            e = load_file(&out->files[out->count++], dir, names[i]->d_name, m);
        free(names[i]);
    }
    free(names);
    if (e != 0)
        vector_set_free(out);
    return e;
}

void vector_set_free(vector_set *s) {
    for (size_t i = 0; i < s->count; i++) {
        free(s->files[i].path);
        json_decref(s->files[i].root);
    }
    free(s->files);
    *s = (vector_set){0};
}

/* ---- memory ---- */

void *vector_take(vector_run *r, size_t bytes, vector_message *m) {
    const uvcc_allocator *al = &r->on->memory;
    const size_t all = sizeof(vector_chunk) + bytes;
    vector_chunk *c = al->alloc(al->user, all, UVCC_MEM_WIRE);
    if (c == NULL) {
        (void)vector_fail(m, "no memory");
        return NULL;
    }
    memset(c, 0, all);
    c->bytes = all;
    c->next = r->chunks;
    r->chunks = c;
    return &c->first;
}

/* Words stand at multiples of 8, bytes at odd addresses. */
static int make_room(vector_run *r, vector_memory *x, bool words, size_t len, vector_message *m) {
    const size_t shift = words ? 0 : 1;
    x->all = vector_take(r, len + shift + 2 * (size_t)GUARD, m);
    if (x->all == NULL)
        return -1;
    x->data = x->all + GUARD + shift;
    x->len = len;
    memset(x->all, GUARD_BYTE, len + shift + 2 * (size_t)GUARD);
    memset(x->data, FRESH_BYTE, len);
    return 0;
}

static bool guards_hold(const vector_memory *x) {
    assert(x->all != NULL && x->data - x->all >= GUARD);
    for (const uint8_t *p = x->all; p < x->data; p++)
        if (*p != GUARD_BYTE)
            return false;
    for (unsigned i = 0; i < GUARD; i++)
        if (x->data[x->len + i] != GUARD_BYTE)
            return false;
    return true;
}

/* ---- operands ---- */

static int make_operand(vector_run *r, vector_case *c, uint32_t unit, const char *name,
                        json_t *value, vector_message *m) {
    const int i = vector_slot_of(c->form, name);
    const json_int_t len = vector_length(r, unit, value);
    if (i < 0 || len < 0)
        return vector_fail_case(m, r, c, "operand %s is not understood", name);
    vector_memory *x = &c->units[unit].memory[i];
    if (make_room(r, x, vector_slot_at(c->form, (unsigned)i)->words, (size_t)len, m) != 0 ||
        vector_fill(r, c, unit, value, x->data, x->len, m) != 0)
        return -1;
    x->was = vector_take(r, x->len, m);
    if (x->was == NULL)
        return -1;
    memcpy(x->was, x->data, x->len);
    return 0;
}

/* Those of all units, then those of this one. */
static int make_operands(vector_run *r, vector_case *c, uint32_t unit, vector_message *m) {
    json_t *const with[2] = {json_object_get(c->json, "with"),
                             json_object_get(c->units[unit].json, "with")};
    const char *name;
    json_t *value;
    for (unsigned i = 0; i < 2; i++)
        json_object_foreach(with[i], name, value) {
            if (make_operand(r, c, unit, name, value, m) != 0)
                return -1;
        }
    return 0;
}

static int share_operands(vector_run *r, vector_case *c, vector_unit *u, vector_message *m) {
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(c->json, "same"), name, value) {
        const char *other = json_string_value(value);
        const int i = vector_slot_of(c->form, name);
        const int k = other == NULL ? -1 : vector_slot_of(c->form, other);
        if (i < 0 || k < 0 || u->memory[k].data == NULL || u->memory[i].data != NULL)
            return vector_fail_case(m, r, c, "%s cannot be the same as another operand", name);
        u->memory[i] = u->memory[k];
        u->memory[i].shared = true;
    }
    return 0;
}

static int make_results(vector_run *r, vector_case *c, vector_unit *u, vector_message *m) {
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(u->json, "gives"), name, value) {
        const int i = vector_slot_of(c->form, name);
        const json_int_t len = vector_length(r, 0, value);
        if (i < 0 || len < 0)
            return vector_fail_case(m, r, c, "result %s is not understood", name);
        vector_memory *x = &u->memory[i];
        x->gives = true;
        if (x->data == NULL) {
            if (make_room(r, x, vector_slot_at(c->form, (unsigned)i)->words, (size_t)len, m) != 0)
                return -1;
        } else if (x->len != (size_t)len) {
            return vector_fail_case(m, r, c, "result %s has another length before", name);
        }
    }
    for (unsigned i = 0; i < VECTOR_SLOTS_MAX; i++) /* what is written in place may change */
        for (unsigned k = 0; k < VECTOR_SLOTS_MAX; k++)
            if (u->memory[k].gives && u->memory[k].data == u->memory[i].data)
                u->memory[i].was = NULL;
    return 0;
}

/* Puts the addresses where the task expects them. */
static void bind(vector_case *c, uint32_t unit) {
    static const struct {
        char form;
        size_t bytes;
    } items[] = {{'B', sizeof(uvcc_block)},
                 {'H', sizeof(uvcc_hash_item)},
                 {'C', sizeof(uvcc_copy_item)},
                 {'L', sizeof(uvcc_task)}};
    uint8_t *base = (uint8_t *)&c->task;
    for (unsigned i = 0; i < sizeof items / sizeof items[0]; i++)
        if (c->form == items[i].form)
            base = (uint8_t *)c->items + unit * items[i].bytes;
    const vector_slot *s;
    for (unsigned i = 0; (s = vector_slot_at(c->form, i)) != NULL; i++) {
        const vector_memory *x = &c->units[unit].memory[i];
        memcpy(base + s->at, &x->data, sizeof x->data);
        if (x->data == NULL)
            continue;
        if (c->form == 'C')
            ((uvcc_copy_item *)(void *)base)->len = x->len;
        if (c->form == 'H' && strcmp(s->name, "data") == 0)
            ((uvcc_hash_item *)(void *)base)->len = x->len;
    }
}

/* ---- running ---- */

static int check_memory(const vector_run *r, const vector_case *c, vector_message *m) {
    for (uint32_t u = 0; u < c->unit_count; u++)
        for (unsigned i = 0; i < VECTOR_SLOTS_MAX; i++) {
            const vector_memory *x = &c->units[u].memory[i];
            if (x->data == NULL)
                continue;
            const char *name = vector_slot_at(c->form, i)->name;
            if (!guards_hold(x))
                return vector_fail_case(m, r, c, "wrote beside %s of unit %u", name, u);
            if (x->was != NULL && c->want == 0 && memcmp(x->was, x->data, x->len) != 0)
                return vector_fail_case(m, r, c, "changed %s of unit %u, which it reads only", name,
                                        u);
        }
    return 0;
}

static int check_completion(const vector_run *r, const vector_case *c, const uvcc_job *job,
                            const uvcc_completion *done, vector_message *m) {
    if (done->id != job->id || done->cookie != job->cookie)
        return vector_fail_case(m, r, c, "the completion is another job's");
    if (done->status != c->want)
        return vector_fail_case(m, r, c, "the status is %s, not %s", uvcc_error_name(done->status),
                                uvcc_error_name(c->want));
    return 0;
}

static int run_task(const vector_run *r, const vector_case *c, vector_message *m) {
    const uvcc_job job = {.id = 1 + r->done, .cookie = 7, .tasks = &c->task, .count = 1};
    uvcc_completion done;
    if (r->on->run(r->on->user, &job, &done) != 0)
        return vector_fail_case(m, r, c, "the executor took no job or gave no completion");
    return check_completion(r, c, &job, &done, m);
}

/* Each member gives its task; when the last one has, all are done. The units are the workers of one
 * party, along the dimension that the group has. */
static int run_members(vector_run *r, const vector_case *c, vector_message *m) {
    const uint8_t group = c->task.u.collective.group;
    const uint16_t n = (uint16_t)c->unit_count;
    const uvcc_collective_config cfg = {
        .size = sizeof cfg,
        .alloc = uvcc_host_allocator(),
        .replicas = group == UVCC_GROUP_DP ? n : 1,
        .stages = group == UVCC_GROUP_PP ? n : 1,
        .tp_ranks = group == UVCC_GROUP_TP || group == UVCC_GROUP_STAGE ? n : 1};
    uvcc_collective *plane = NULL;
    uvcc_job *jobs = vector_take(r, (n + 1u) * sizeof *jobs, m);
    if (jobs == NULL || uvcc_collective_new(&plane, &cfg) != 0)
        return vector_fail_case(m, r, c, "no collective for its members");
    int e = 0;
    for (uint32_t i = 0; i < n && e == 0; i++) {
        jobs[i] = (uvcc_job){.id = i + 1, .cookie = i, .count = 1, .plane = UVCC_PLANE_LOCAL};
        jobs[i].tasks = (const uvcc_task *)c->items + i;
        if (uvcc_collective_submit(plane, i, &jobs[i]) != 0)
            e = vector_fail_case(m, r, c, "member %u is refused", i);
    }
    for (uint32_t i = 0; i < n && e == 0; i++) {
        uvcc_completion done;
        e = uvcc_collective_poll(plane, i, &done) != 1
                ? vector_fail_case(m, r, c, "member %u has no completion", i)
                : check_completion(r, c, &jobs[i], &done, m);
    }
    uvcc_collective_free(plane);
    return e;
}

/* Results are known by the name of their case. */
static int check_name(const vector_run *r, const vector_case *c, vector_message *m) {
    for (uint32_t i = 0; i < r->done; i++)
        if (strcmp(r->cases[i].name, c->name) == 0)
            return vector_fail_case(m, r, c, "two cases have this name");
    return 0;
}

static vector_watcher *watcher;
static void *watcher_user;

void vector_watch(vector_watcher *w, void *user) {
    watcher = w;
    watcher_user = user;
}

static int run_case(vector_run *r, vector_case *c, vector_message *m) {
    if (vector_read_case(r, c, m) != 0 || check_name(r, c, m) != 0)
        return -1;
    if (c->want == 0 && c->unit_count == 0)
        return vector_fail_case(m, r, c, "it has no units");
    if (watcher != NULL)
        watcher(watcher_user, r->file->path, c->name);
    for (uint32_t u = 0; u < c->unit_count; u++) {
        if (make_operands(r, c, u, m) != 0 || share_operands(r, c, &c->units[u], m) != 0 ||
            make_results(r, c, &c->units[u], m) != 0)
            return -1;
        bind(c, u);
    }
    const bool members = c->form == 'L' && c->want == 0;
    if ((members ? run_members(r, c, m) : run_task(r, c, m)) != 0)
        return -1;
    return check_memory(r, c, m);
}

static int run_cases(vector_run *r, vector_message *m) {
    json_t *list = json_object_get(r->file->root, "cases");
    size_t i;
    json_t *value;
    r->cases = vector_take(r, (json_array_size(list) + 1) * sizeof *r->cases, m);
    if (r->cases == NULL || vector_read_keys(r, m) != 0)
        return -1;
    if (json_array_size(list) == 0)
        return vector_fail(m, "%s: there are no cases", r->file->path);
    json_array_foreach(list, i, value) {
        r->cases[i].json = value;
        r->case_count++;
        if (run_case(r, &r->cases[i], m) != 0)
            return -1;
        r->done++;
    }
    return 0;
}

int vector_run_on(vector_run **out, const vector_file *f, const vector_executor *x, uint64_t reseed,
                  vector_message *m) {
    vector_run *r = calloc(1, sizeof *r);
    if (r == NULL)
        return vector_fail(m, "no memory");
    r->file = f;
    r->on = x;
    r->reseed = reseed;
    const int e = run_cases(r, m);
    if (e != 0)
        vector_run_free(r);
    else
        *out = r;
    return e;
}

static int run_on_cpu(void *user, const uvcc_job *job, uvcc_completion *done) {
    return uvcc_cpu_submit(user, job) == 0 && uvcc_cpu_poll(user, done) == 1 ? 0 : -1;
}

/* What a run's memory comes from outlives its executor. */
static const vector_executor *on_cpu(void) {
    static vector_executor x = {.run = run_on_cpu};
    x.memory = uvcc_host_allocator();
    return &x;
}

int vector_run_new(vector_run **out, const vector_file *f, uint32_t backend, uint64_t reseed,
                   vector_message *m) {
    uvcc_cpu_config cfg = {.size = sizeof cfg, .mode = UVCC_CPU_INLINE, .backend = backend};
    uvcc_cpu *cpu = NULL;
    cfg.alloc = uvcc_host_allocator();
    const int e = uvcc_cpu_new(&cpu, &cfg);
    if (e != 0)
        return vector_fail(m, "no executor: %s", uvcc_error_text(e));
    vector_executor x = *on_cpu();
    x.user = cpu;
    const int failed = vector_run_on(out, f, &x, reseed, m);
    if (failed == 0)
        (*out)->on = on_cpu();
    uvcc_cpu_free(cpu);
    return failed;
}

void vector_run_free(vector_run *r) {
    if (r == NULL)
        return;
    while (r->chunks != NULL) {
        vector_chunk *next = r->chunks->next;
        const uvcc_allocator *al = &r->on->memory;
        al->free(al->user, r->chunks, r->chunks->bytes, UVCC_MEM_WIRE);
        r->chunks = next;
    }
    free(r);
}

/* ---- results ---- */

/* A result of a run, one after the other. */
typedef struct cursor {
    uint32_t at, unit;
    unsigned slot;
} cursor;

static const vector_memory *next_result(const vector_run *r, cursor *k) {
    for (; k->at < r->case_count; k->at++, k->unit = 0)
        for (; k->unit < r->cases[k->at].unit_count; k->unit++, k->slot = 0)
            while (k->slot < VECTOR_SLOTS_MAX) {
                const vector_memory *x = &r->cases[k->at].units[k->unit].memory[k->slot++];
                if (x->gives)
                    return x;
            }
    return NULL;
}

uint64_t vector_run_results(const vector_run *r) {
    uint64_t n = 0;
    cursor k = {0};
    while (next_result(r, &k) != NULL)
        n++;
    return n;
}

static void place_of(const vector_run *r, const cursor *k, vector_mismatch *out) {
    assert(k->at < r->case_count && k->slot >= 1); /* next_result() is one ahead */
    const vector_case *c = &r->cases[k->at];
    *out = (vector_mismatch){.name = c->name,
                             .task = c->task_name,
                             .role = c->role_name,
                             .operand = vector_slot_at(c->form, k->slot - 1)->name,
                             .unit = k->unit};
}

/* The first element that differs, if they do. */
static bool differ(const vector_run *r, const cursor *k, const uint8_t *expected,
                   const vector_memory *x, vector_mismatch *out) {
    if (x->len == 0 || memcmp(expected, x->data, x->len) == 0)
        return false;
    size_t i = 0; /* ends: they differ somewhere */
    while (expected[i] == x->data[i])
        i++;
    place_of(r, k, out);
    out->bytes = vector_slot_at(r->cases[k->at].form, k->slot - 1)->words ? 8 : 1;
    out->element = i / out->bytes;
    for (unsigned b = 0; b < out->bytes; b++) {
        out->expected |= (uint64_t)expected[out->element * out->bytes + b] << 8 * b;
        out->got |= (uint64_t)x->data[out->element * out->bytes + b] << 8 * b;
    }
    return true;
}

int vector_run_compare(const vector_run *r, const vector_run *expected, vector_mismatch *out,
                       vector_message *m) {
    cursor k = {0}, e = {0};
    for (const vector_memory *x; (x = next_result(r, &k)) != NULL;) {
        const vector_memory *y = next_result(expected, &e);
        if (y == NULL || y->len != x->len)
            return vector_fail(m, "%s: the runs are of different files", r->file->path);
        if (differ(r, &k, y->data, x, out))
            return 1;
    }
    return 0;
}

static json_t *golden(const vector_run *r, const cursor *k) {
    const vector_case *c = &r->cases[k->at];
    const char *name = vector_slot_at(c->form, k->slot - 1)->name;
    return json_object_get(json_object_get(c->units[k->unit].json, "gives"), name);
}

static void hex_of(const uint8_t *from, size_t n, char *to) {
    (void)sodium_bin2hex(to, 2 * n + 1, from, n);
}

/* 1: it is not what the digest is of. */
static int check_digest(const vector_memory *x, const char *want) {
    uint8_t digest[32];
    char text[65];
    (void)crypto_hash_sha256(digest, x->data, x->len);
    hex_of(digest, sizeof digest, text);
    return strcmp(text, want) != 0;
}

int vector_run_check(const vector_run *r, vector_mismatch *out, vector_message *m) {
    cursor k = {0};
    for (const vector_memory *x; (x = next_result(r, &k)) != NULL;) {
        uint8_t bytes[VECTOR_SHOWN_BYTES];
        size_t n = 0;
        json_t *want = golden(r, &k);
        const char *hex = json_string_value(json_object_get(want, "hex"));
        const char *sum = json_string_value(json_object_get(want, "sha256"));
        if (hex != NULL) {
            if (sodium_hex2bin(bytes, sizeof bytes, hex, strlen(hex), NULL, &n, NULL) != 0 ||
                n != x->len)
                return vector_fail_case(m, r, &r->cases[k.at], "a result's hex is not its bytes");
            if (differ(r, &k, bytes, x, out))
                return 1;
        } else if (sum == NULL) {
            return vector_fail_case(m, r, &r->cases[k.at], "a result has neither hex nor sha256");
        } else if (check_digest(x, sum) != 0) {
            place_of(r, &k, out);
            return 1;
        }
    }
    return 0;
}

/* ---- writing ---- */

static int put_bytes(json_t *to, const uint8_t *from, size_t n) {
    char text[2 * VECTOR_SHOWN_BYTES + 1];
    if (n <= VECTOR_SHOWN_BYTES) {
        hex_of(from, n, text);
        return json_object_set_new(to, "hex", json_string(text));
    }
    uint8_t digest[32];
    (void)crypto_hash_sha256(digest, from, n);
    hex_of(digest, sizeof digest, text);
    return json_object_set_new(to, "sha256", json_string(text));
}

static int record_seeds(const vector_unit *u, char form) {
    const char *name;
    json_t *value;
    int e = 0;
    json_object_foreach(json_object_get(u->json, "with"), name, value) {
        const vector_memory *x = &u->memory[vector_slot_of(form, name)];
        if (json_object_get(value, "seed") != NULL && x->len <= VECTOR_SHOWN_BYTES &&
            x->was != NULL)
            e |= put_bytes(value, x->was, x->len);
    }
    return e;
}

int vector_run_record(const vector_run *r, vector_message *m) {
    cursor k = {0};
    int e = 0;
    for (uint32_t i = 0; i < r->case_count; i++)
        for (uint32_t u = 0; u < r->cases[i].unit_count; u++)
            e |= record_seeds(&r->cases[i].units[u], r->cases[i].form);
    for (const vector_memory *x; (x = next_result(r, &k)) != NULL;)
        e |= put_bytes(golden(r, &k), x->data, x->len);
    return e == 0 ? 0 : vector_fail(m, "no memory");
}
