/* SPDX-License-Identifier: Apache-2.0 */
/* make_tasks.c - writes the golden vectors of compute tasks into a folder, by the portable kernels.
 * The same program gives the same bytes, so a change of the files is a change of what tasks do. */
#include "make_tasks.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "selftest/vectors.h"

const uint32_t maker_all[] = {1, 7, 64, 65, 0}, maker_few[] = {7, 65, 0};
const uint32_t maker_tiny[] = {1, 2, 0}, maker_group[] = {8, 257, 0},
               maker_large[] = {UVCC_BLOCK_ELEMS, 3, 0};

/* Where tasks stand; no byte of the counter block is 0 for all of them. */
enum { ORDINAL = 0x01020304, CALL = 0x0506, BLOCK = 0x0708090A };

static void must(bool ok, const char *what) {
    if (ok)
        return;
    (void)fprintf(stderr, "make_task_vectors: %s\n", what);
    exit(1);
}

static void set(json_t *to, const char *name, json_t *value) {
    must(json_object_set_new(to, name, value) == 0, "no memory");
}

/* The member of that name, an object. */
static json_t *object_in(json_t *of, const char *name) {
    if (json_object_get(of, name) == NULL)
        set(of, name, json_object());
    return json_object_get(of, name);
}

const char *const maker_roles[3] = {"HEAD", "TAIL", "OTHER"};

maker_label maker_join(const char *a, const char *b, const char *c) {
    const char *const words[] = {a, b, c};
    maker_label l = {""};
    size_t n = 0;
    for (unsigned i = 0; i < 3; i++) {
        const size_t len = strlen(words[i]);
        must(n + len + 2 <= sizeof l.text, "a name is too long");
        if (len != 0 && n != 0)
            l.text[n++] = ' ';
        memcpy(l.text + n, words[i], len + 1);
        n += len;
    }
    return l;
}

maker_label maker_of(const char *task, const char *variant, unsigned role) {
    return maker_join(task, variant, maker_roles[role]);
}

static size_t size_of(shape s, uint32_t count) {
    const size_t packed = ((size_t)count * s.bits + 7) / 8, plane = ((size_t)count + 63) / 64 * 8;
    const size_t whole = ((size_t)count * s.whole + 63) / 64 * 8;
    const size_t n = s.bytes * count + s.fixed + s.packs * packed + s.planes * plane + whole;
    return n + (s.piece == 0 || n == 0 ? 0 : (n - 1) / s.piece * s.gap);
}

/* ---- cases ---- */

static void add_unit(maker_case *c, uint32_t count) {
    json_t *u = json_object();
    must(json_array_append_new(c->units, u) == 0, "no memory");
    if (count != 0)
        set(u, "count", json_integer(count));
}

maker_case maker_begin(maker *m, const char *task, const char *variant, const char *role,
                       const uint32_t *counts) {
    const maker_label label = maker_join(task, variant, role == NULL ? "" : role);
    maker_case c = {.of = m, .json = json_object(), .counts = role == NULL ? NULL : counts};
    const char *name;
    json_t *other;
    size_t i;
    json_array_foreach(m->cases, i, other) {
        name = json_string_value(json_object_get(other, "name"));
        must(strcmp(name, label.text) != 0, label.text);
    }
    must(json_array_append_new(m->cases, c.json) == 0, "no memory");
    set(c.json, "name", json_string(label.text));
    set(c.json, "task", json_string(task));
    if (role != NULL)
        set(c.json, "role", json_string(role));
    set(c.json, "units", json_array());
    c.units = json_object_get(c.json, "units");
    for (unsigned k = 0; c.counts != NULL && c.counts[k] != 0; k++)
        add_unit(&c, c.counts[k]);
    if (c.counts == NULL)
        add_unit(&c, 0);
    return c;
}

void maker_next_unit(maker_case *c) {
    add_unit(c, 0);
}

void maker_call(maker_case *c, unsigned call) {
    set(c->json, "call", json_integer(call));
}

void maker_arg(maker_case *c, const char *name, json_t *value) {
    set(object_in(c->json, "args"), name, value);
}

void maker_fn(maker_case *c, const char *name, json_t *value) {
    set(object_in(c->json, "fn"), name, value);
}

static json_t *next_seed(maker *m) {
    json_t *o = json_object();
    set(o, "seed", json_integer(++m->seed));
    return o;
}

void maker_fn_seed(maker_case *c, const char *name) {
    maker_fn(c, name, next_seed(c->of));
}

void maker_unit(maker_case *c, const char *name, json_t *value) {
    set(json_array_get(c->units, json_array_size(c->units) - 1), name, value);
}

/* The units that an operand is for: all blocks, or the last item. */
static size_t first_unit(const maker_case *c) {
    return c->counts != NULL ? 0 : json_array_size(c->units) - 1;
}

static uint32_t count_of(const maker_case *c, size_t unit) {
    return c->counts != NULL ? c->counts[unit] : 0;
}

void maker_with(maker_case *c, const char *operand, shape s) {
    for (size_t i = first_unit(c); i < json_array_size(c->units); i++) {
        json_t *o = next_seed(c->of);
        set(o, "bytes", json_integer((json_int_t)size_of(s, count_of(c, i))));
        set(object_in(json_array_get(c->units, i), "with"), operand, o);
    }
}

static json_t *reference(const char *other, const char *result) {
    json_t *o = json_object();
    set(o, "case", json_string(other));
    set(o, "gives", json_string(result));
    return o;
}

void maker_from(maker_case *c, const char *operand, const char *other, const char *result) {
    set(object_in(c->json, "with"), operand, reference(other, result));
}

void maker_from_at(maker_case *c, const char *operand, const char *other, const char *result,
                   shape s, shape at) {
    for (size_t i = first_unit(c); i < json_array_size(c->units); i++) {
        json_t *o = reference(other, result);
        set(o, "from", json_integer((json_int_t)size_of(at, count_of(c, i))));
        set(o, "bytes", json_integer((json_int_t)size_of(s, count_of(c, i))));
        set(object_in(json_array_get(c->units, i), "with"), operand, o);
    }
}

void maker_same(maker_case *c, const char *operand, const char *as) {
    set(object_in(c->json, "same"), operand, json_string(as));
}

void maker_gives(maker_case *c, const char *result, shape s) {
    for (size_t i = first_unit(c); i < json_array_size(c->units); i++) {
        json_t *o = json_object();
        set(o, "bytes", json_integer((json_int_t)size_of(s, count_of(c, i))));
        set(object_in(json_array_get(c->units, i), "gives"), result, o);
    }
}

void maker_fails(maker_case *c) {
    set(c->json, "status", json_string("JOB"));
}

/* ---- files ---- */

/* 16 bytes that no other name has. */
static json_t *key_of(const char *pair, const char *tag) {
    uint8_t digest[32];
    char text[64];
    (void)snprintf(text, sizeof text, "uvcc task vectors/%s/%s", pair, tag);
    (void)crypto_hash_sha256(digest, (const uint8_t *)text, strlen(text));
    (void)sodium_bin2hex(text, sizeof text, digest, 16);
    return json_string(text);
}

static json_t *keys(void) {
    static const char *const pairs[] = {"HT", "HO", "TO"};
    static const char *const tags[] = {
#define UVCCI_TAG(name) #name,
#include <uvcc/tags.def>
#undef UVCCI_TAG
    };
    json_t *all = json_object(), *dpf = json_array();
    for (unsigned p = 0; p < 3; p++)
        for (unsigned t = 0; t < UVCC_TAG_COUNT; t++)
            set(object_in(all, pairs[p]), tags[t], key_of(pairs[p], tags[t]));
    for (unsigned r = 0; r < 3; r++)
        set(object_in(all, "own"), maker_roles[r], key_of("OWN", maker_roles[r]));
    must(json_array_append_new(dpf, key_of("dpf", "left")) == 0 &&
             json_array_append_new(dpf, key_of("dpf", "right")) == 0,
         "no memory");
    set(all, "dpf", dpf);
    return all;
}

/* A case to a line, so that a difference names its case. */
static void write_file(const char *path, json_t *root) {
    FILE *f = fopen(path, "w");
    must(f != NULL, path);
    size_t i;
    json_t *value;
    (void)fputs("{\"keys\": ", f);
    must(json_dumpf(json_object_get(root, "keys"), f, 0) == 0, path);
    (void)fprintf(f, ",\n\"ordinal\": %d, \"call\": %d, \"block\": %d,\n\"cases\": [", ORDINAL,
                  CALL, BLOCK);
    json_array_foreach(json_object_get(root, "cases"), i, value) {
        (void)fputs(i == 0 ? "\n" : ",\n", f);
        must(json_dumpf(value, f, JSON_COMPACT) == 0, path);
    }
    (void)fputs("\n]}\n", f);
    must(fclose(f) == 0, path);
}

static void make_file(const char *dir, const char *name, void (*make)(maker *m)) {
    char path[1024];
    vector_message message;
    vector_run *run = NULL;
    maker m = {.root = json_object(), .cases = json_array()};
    must((size_t)snprintf(path, sizeof path, "%s/%s.json", dir, name) < sizeof path, dir);
    set(m.root, "keys", keys());
    set(m.root, "ordinal", json_integer(ORDINAL));
    set(m.root, "call", json_integer(CALL));
    set(m.root, "block", json_integer(BLOCK));
    set(m.root, "cases", m.cases);
    make(&m);
    const vector_file f = {.path = path, .root = m.root};
    must(vector_run_new(&run, &f, UVCC_BACKEND_PORTABLE, 0, &message) == 0 &&
             vector_run_record(run, &message) == 0,
         message.text);
    write_file(path, m.root);
    vector_run_free(run);
    json_decref(m.root);
}

int main(int argc, char **argv) {
    if (argc != 2) {
        (void)fputs("Usage: make_task_vectors DIR\nWrites the golden vectors of compute tasks.\n",
                    stderr);
        return 2;
    }
    make_file(argv[1], "circuits", make_circuits);
    make_file(argv[1], "rounding", make_rounding);
    make_file(argv[1], "one_hot", make_one_hot);
    make_file(argv[1], "forms", make_forms);
    make_file(argv[1], "functions", make_functions);
    make_file(argv[1], "gates", make_gates);
    return 0;
}
