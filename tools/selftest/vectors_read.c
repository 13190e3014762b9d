/* SPDX-License-Identifier: Apache-2.0 */
/* vectors_read.c - a case of the golden vectors as a task: names to members, values to bytes. Every
 * name that a file uses must be known here, so that a misspelt one is no silent zero. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* ---- names ---- */

static const struct {
    const char *name, *form;
} kinds[UVCC_TASK_KIND_END] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = {#name, #form},
#include <uvcc/tasks.def>
#undef UVCC_TASK
};

static const char *const map_ops[UVCC_MAP_OP_END] = {
#define UVCC_MAP(name, number, form, what) [number] = #name,
#include <uvcc/maps.def>
#undef UVCC_MAP
};

static const char *const roles[3] = {"HEAD", "TAIL", "OTHER"};

static const char *const tags[UVCC_TAG_COUNT] = {
#define UVCCI_TAG(name) #name,
#include <uvcc/tags.def>
#undef UVCCI_TAG
};

static int index_of(const char *const *names, size_t count, const char *name) {
    for (size_t i = 0; name != NULL && i < count; i++)
        if (names[i] != NULL && strcmp(names[i], name) == 0)
            return (int)i;
    return -1;
}

#define BLOCK(name, member, words)                                                                 \
    { 'B', name, offsetof(uvcc_block, member), words }
#define TASK(form, name, member)                                                                   \
    { form, name, offsetof(uvcc_task, u.member), true }
const vector_slot vector_slots[] = {
    BLOCK("in[0]", in[0], true),
    BLOCK("in[1]", in[1], true),
    BLOCK("in[2]", in[2], true),
    BLOCK("in[3]", in[3], true),
    BLOCK("out[0]", out[0], true),
    BLOCK("out[1]", out[1], true),
    BLOCK("in_bits", in_bits, false),
    BLOCK("out_bits", out_bits, false),
    BLOCK("wire_in[0]", wire_in[0], false),
    BLOCK("wire_in[1]", wire_in[1], false),
    BLOCK("wire_out[0]", wire_out[0], false),
    BLOCK("wire_out[1]", wire_out[1], false),
    BLOCK("key", key, false),
    BLOCK("out_bytes[0]", out_bytes[0], false),
    BLOCK("out_bytes[1]", out_bytes[1], false),
    BLOCK("words[0]", words[0], false),
    BLOCK("words[1]", words[1], false),
    BLOCK("out_words", out_words, false),
    TASK('M', "x.lo", map.x.lo),
    TASK('M', "x.hi", map.x.hi),
    TASK('M', "y.lo", map.y.lo),
    TASK('M', "y.hi", map.y.hi),
    TASK('M', "out.lo", map.out.lo),
    TASK('M', "out.hi", map.out.hi),
    TASK('G', "x.lo", gemm.x.lo),
    TASK('G', "x.hi", gemm.x.hi),
    TASK('G', "y.lo", gemm.y.lo),
    TASK('G', "y.hi", gemm.y.hi),
    TASK('G', "z", gemm.z),
    TASK('G', "z_hi", gemm.z_hi),
    TASK('S', "x.lo", bits.x.lo),
    TASK('S', "x.hi", bits.x.hi),
    TASK('S', "out.lo", bits.out.lo),
    TASK('S', "out.hi", bits.out.hi),
    TASK('L', "in.lo", collective.in.lo),
    TASK('L', "in.hi", collective.in.hi),
    TASK('L', "out.lo", collective.out.lo),
    TASK('L', "out.hi", collective.out.hi),
    {'H', "data", offsetof(uvcc_hash_item, data), false},
    {'H', "digest", offsetof(uvcc_hash_item, out), false},
    {'C', "src", offsetof(uvcc_copy_item, src), false},
    {'C', "dst", offsetof(uvcc_copy_item, dst), false},
};
const size_t vector_slot_count = sizeof vector_slots / sizeof vector_slots[0];

const vector_slot *vector_slot_at(char form, unsigned i) {
    for (size_t k = 0; k < vector_slot_count; k++)
        if (vector_slots[k].form == form && i-- == 0)
            return &vector_slots[k];
    return NULL;
}

int vector_slot_of(char form, const char *name) {
    const vector_slot *s;
    for (unsigned i = 0; (s = vector_slot_at(form, i)) != NULL; i++)
        if (strcmp(s->name, name) == 0)
            return (int)i;
    return -1;
}

/* A number or a truth value of the task, or of the arguments of a function ('F'). */
typedef struct member {
    char form;
    const char *name;
    size_t at, bytes;
} member;
#define OF_TASK(form, of, name)                                                                    \
    { form, #name, offsetof(uvcc_task, u.of.name), sizeof((uvcc_task *)0)->u.of.name }
#define OF_FN(name)                                                                                \
    { 'F', #name, offsetof(uvcc_fn_args, name), sizeof((uvcc_fn_args *)0)->name }
static const member members[] = {
    OF_TASK('B', vec, shift),
    OF_TASK('B', vec, bits),
    OF_TASK('B', vec, lift),
    OF_TASK('B', vec, gate),
    OF_TASK('B', vec, compact),
    OF_TASK('B', vec, gap),
    OF_TASK('B', vec, constant),
    OF_TASK('B', vec, cols),
    OF_TASK('B', vec, step),
    OF_TASK('M', map, shift),
    OF_TASK('M', map, party),
    OF_TASK('M', map, rows),
    OF_TASK('M', map, cols),
    OF_TASK('M', map, block),
    OF_TASK('M', map, part),
    OF_TASK('M', map, constant),
    OF_TASK('G', gemm, m),
    OF_TASK('G', gemm, n),
    OF_TASK('G', gemm, k),
    OF_TASK('G', gemm, trans_x),
    OF_TASK('G', gemm, trans_y),
    OF_TASK('G', gemm, accumulate),
    OF_TASK('G', gemm, y_bytes),
    OF_TASK('G', gemm, groups),
    OF_TASK('G', gemm, heads),
    OF_TASK('S', bits, rows),
    OF_TASK('S', bits, cols),
    OF_TASK('S', bits, trans),
    OF_TASK('S', bits, lane),
    OF_TASK('L', collective, op),
    OF_TASK('L', collective, group),
    OF_TASK('L', collective, phase),
    OF_TASK('L', collective, elems),
    OF_FN(bits),
    OF_FN(shift),
    OF_FN(exchange),
    OF_FN(times),
    OF_FN(by_table),
    OF_FN(call_key),
    OF_FN(call_bits),
    OF_FN(first),
    OF_FN(constant),
    OF_FN(entry_count),
    OF_FN(word_count),
};

/* False: there is no such member, or the value does not fit into it. */
static bool set_member(char form, void *of, const char *name, json_t *value) {
    if (!json_is_integer(value) && !json_is_boolean(value))
        return false;
    const json_int_t x = json_is_boolean(value) ? json_is_true(value) : json_integer_value(value);
    const uint64_t u64 = (uint64_t)x;
    const uint32_t u32 = (uint32_t)x;
    const uint16_t u16 = (uint16_t)x;
    const uint8_t u8 = (uint8_t)x;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        const member *m = &members[i];
        const void *from = m->bytes == 8   ? (const void *)&u64
                           : m->bytes == 4 ? (const void *)&u32
                           : m->bytes == 2 ? (const void *)&u16
                                           : (const void *)&u8;
        if (m->form != form || strcmp(m->name, name) != 0)
            continue;
        if (m->bytes < 8 && u64 >> 8 * m->bytes != 0)
            return false;
        memcpy((uint8_t *)of + m->at, from, m->bytes);
        return true;
    }
    return false;
}

/* ---- values ---- */

static uint64_t mix(uint64_t z) {
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

static uint64_t word_of(const vector_run *r, uint64_t seed, uint64_t j) {
    const uint64_t s = r->reseed == 0 ? seed : mix(seed ^ mix(r->reseed));
    return mix(s + (j + 1) * 0x9E3779B97F4A7C15u);
}

static bool get_hex(json_t *from, uint8_t *to, size_t len) {
    const char *text = json_string_value(from);
    size_t n = 0;
    return text != NULL && sodium_hex2bin(to, len, text, strlen(text), NULL, &n, NULL) == 0 &&
           n == len && 2 * n == strlen(text);
}

static const vector_memory *result_of(const vector_run *r, uint32_t unit, json_t *from) {
    const char *name = json_string_value(json_object_get(from, "case"));
    const char *slot = json_string_value(json_object_get(from, "gives"));
    for (uint32_t i = 0; name != NULL && slot != NULL && i < r->done; i++) {
        const vector_case *c = &r->cases[i];
        const int k = vector_slot_of(c->form, slot);
        if (strcmp(c->name, name) == 0)
            return unit < c->unit_count && k >= 0 && c->units[unit].memory[k].gives
                       ? &c->units[unit].memory[k]
                       : NULL;
    }
    return NULL;
}

json_int_t vector_length(const vector_run *r, uint32_t unit, json_t *of) {
    json_t *bytes = json_object_get(of, "bytes");
    const char *hex = json_string_value(json_object_get(of, "hex"));
    const json_int_t n = json_integer_value(bytes);
    if (json_is_integer(bytes))
        return n < 0 || n > (json_int_t)1 << 30 ? -1 : n;
    if (hex != NULL)
        return (json_int_t)strlen(hex) / 2;
    const vector_memory *x = result_of(r, unit, of);
    return x != NULL ? (json_int_t)x->len : -1;
}

int vector_fill(vector_run *r, const vector_case *c, uint32_t unit, json_t *from, uint8_t *to,
                size_t len, vector_message *m) {
    json_t *seed = json_object_get(from, "seed");
    if (json_is_integer(seed)) {
        for (size_t i = 0; i < len; i++)
            to[i] = (uint8_t)(word_of(r, (uint64_t)json_integer_value(seed), i / 8) >> 8 * (i % 8));
        json_t *hex = json_object_get(from, "hex");
        uint8_t shown[VECTOR_SHOWN_BYTES];
        if (hex != NULL && r->reseed == 0 &&
            (len > sizeof shown || !get_hex(hex, shown, len) || memcmp(shown, to, len) != 0))
            return vector_fail_case(m, r, c, "hex is not what the seed makes");
        return 0;
    }
    if (json_object_get(from, "hex") != NULL)
        return get_hex(json_object_get(from, "hex"), to, len)
                   ? 0
                   : vector_fail_case(m, r, c, "hex is not as long as it says");
    const vector_memory *x = result_of(r, unit, from);
    const json_int_t at = json_integer_value(json_object_get(from, "from"));
    if (x == NULL || at < 0 || (size_t)at > x->len || len > x->len - (size_t)at)
        return vector_fail_case(m, r, c, "an operand is no part of an earlier result");
    memcpy(to, x->data + at, len);
    return 0;
}

/* ---- keys ---- */

static int read_key(vector_run *r, json_t *from, uint8_t to[16], uint64_t number,
                    vector_message *m) {
    if (!get_hex(from, to, 16))
        return vector_fail(m, "%s: a key is missing", r->file->path);
    for (unsigned i = 0; r->reseed != 0 && i < 16; i++)
        to[i] = (uint8_t)(word_of(r, ~number, i / 8) >> 8 * (i % 8));
    return 0;
}

int vector_read_keys(vector_run *r, vector_message *m) {
    static const struct {
        const char *name;
        uint8_t next_at, prev_at; /* roles */
    } pairs[3] = {
        {"HT", UVCC_HEAD, UVCC_TAIL}, {"TO", UVCC_TAIL, UVCC_OTHER}, {"HO", UVCC_OTHER, UVCC_HEAD}};
    json_t *keys = json_object_get(r->file->root, "keys");
    json_t *own = json_object_get(keys, "own"), *dpf = json_object_get(keys, "dpf");
    uint64_t number = 0;
    for (unsigned p = 0; p < 3; p++)
        for (unsigned t = 0; t < UVCC_TAG_COUNT; t++) {
            uint8_t *to = r->keys[pairs[p].next_at].prg[UVCC_PAIR_NEXT][t];
            json_t *from = json_object_get(json_object_get(keys, pairs[p].name), tags[t]);
            if (read_key(r, from, to, number++, m) != 0)
                return -1;
            memcpy(r->keys[pairs[p].prev_at].prg[UVCC_PAIR_PREV][t], to, 16);
        }
    for (unsigned i = 0; i < 3; i++)
        if (read_key(r, json_object_get(own, roles[i]), r->keys[i].prg[UVCC_PAIR_OWN][UVCC_TAG_own],
                     number++, m) != 0)
            return -1;
    for (unsigned i = 0; i < 2; i++)
        if (read_key(r, json_array_get(dpf, i), r->keys[0].dpf[i], number++, m) != 0)
            return -1;
    for (unsigned i = 1; i < 3; i++)
        memcpy(r->keys[i].dpf, r->keys[0].dpf, sizeof r->keys[0].dpf);
    return 0;
}

/* ---- cases ---- */

static int read_status(json_t *from) {
    static const struct {
        const char *name;
        int code;
    } errors[] = {
#define UVCC_ERROR(name, code, text) {#name, code},
#include <uvcc/errors.def>
#undef UVCC_ERROR
    };
    for (size_t i = 0; from != NULL && i < sizeof errors / sizeof errors[0]; i++)
        if (strcmp(errors[i].name, json_string_value(from)) == 0)
            return errors[i].code;
    return from == NULL ? 0 : 1;
}

static bool read_layout(json_t *from, uvcc_gemm_layout *to) {
    *to = (uvcc_gemm_layout){(uint64_t)json_integer_value(json_array_get(from, 0)),
                             (uint64_t)json_integer_value(json_array_get(from, 1)),
                             (uint64_t)json_integer_value(json_array_get(from, 2))};
    return json_array_size(from) == 3;
}

/* What set_member() has not: names, lists, keys. */
static bool set_other(vector_case *c, const char *name, json_t *value) {
    uvcc_task *t = &c->task;
    if (c->form == 'M' && strcmp(name, "op") == 0) {
        const int op = index_of(map_ops, UVCC_MAP_OP_END, json_string_value(value));
        t->u.map.op = (uint8_t)(op < 0 ? UVCC_MAP_OP_END : op); /* a name that is none: no op */
        return json_is_string(value);
    }
    if (c->form == 'S' && strcmp(name, "key") == 0)
        return get_hex(value, t->u.bits.key, sizeof t->u.bits.key);
    if (c->form != 'G')
        return false;
    return (strcmp(name, "lx") == 0 && read_layout(value, &t->u.gemm.lx)) ||
           (strcmp(name, "ly") == 0 && read_layout(value, &t->u.gemm.ly)) ||
           (strcmp(name, "lz") == 0 && read_layout(value, &t->u.gemm.lz));
}

static int read_args(vector_run *r, vector_case *c, vector_message *m) {
    const char *name;
    json_t *value;
    json_object_foreach(json_object_get(c->json, "args"), name, value) {
        if (!set_member(c->form, &c->task, name, value) && !set_other(c, name, value))
            return vector_fail_case(m, r, c, "argument %s is not understood", name);
    }
    return 0;
}

/* The words or entries of a function. */
static void *read_list(vector_run *r, json_t *from, size_t count, bool words, vector_message *m) {
    const uint64_t seed = (uint64_t)json_integer_value(json_object_get(from, "seed"));
    const size_t n = json_is_array(from) ? json_array_size(from) : count;
    uint64_t *to = vector_take(r, (n + 1) * sizeof *to, m);
    for (size_t i = 0; to != NULL && i < n; i++) {
        const uint64_t x = json_is_array(from)
                               ? (uint64_t)json_integer_value(json_array_get(from, i))
                               : word_of(r, seed, i);
        const uint32_t half = (uint32_t)x;
        if (words)
            to[i] = x;
        else
            memcpy((uint8_t *)to + i * sizeof half, &half, sizeof half);
    }
    return to;
}

static int read_fn(vector_run *r, vector_case *c, vector_message *m) {
    json_t *from = json_object_get(c->json, "fn"), *value;
    const char *name;
    if (from == NULL)
        return 0;
    c->task.u.vec.fn = &c->fn;
    json_object_foreach(from, name, value) {
        const bool list = strcmp(name, "words") == 0 || strcmp(name, "entries") == 0;
        if (!list && !set_member('F', &c->fn, name, value))
            return vector_fail_case(m, r, c, "argument %s of fn is not understood", name);
    }
    json_t *words = json_object_get(from, "words"), *entries = json_object_get(from, "entries");
    if (words != NULL && (c->fn.words = read_list(r, words, c->fn.word_count, true, m)) == NULL)
        return -1;
    if (entries != NULL &&
        (c->fn.entries = read_list(r, entries, c->fn.entry_count, false, m)) == NULL)
        return -1;
    return 0;
}

/* Where tasks stand; another seed puts them elsewhere. */
static uint32_t place_of(const vector_run *r, const char *name) {
    const uint64_t x = (uint64_t)json_integer_value(json_object_get(r->file->root, name));
    return (uint32_t)(r->reseed == 0 ? x : word_of(r, x, 0));
}

static int read_unit(vector_run *r, vector_case *c, uint32_t i, vector_message *m) {
    json_t *u = json_array_get(json_object_get(c->json, "units"), i);
    c->units[i].json = u;
    if (c->form == 'B') {
        uvcc_block *b = (uvcc_block *)c->items + i;
        b->block = place_of(r, "block") + i;
        b->count = (uint32_t)json_integer_value(json_object_get(u, "count"));
        b->role = c->role;
    } else if (c->form == 'L') {
        json_t *op = json_object_get(u, "op");
        uvcc_task *task = (uvcc_task *)c->items + i;
        *task = c->task;
        if (op != NULL && !set_member('L', task, "op", op))
            return vector_fail_case(m, r, c, "op of unit %u is not understood", i);
    } else if (c->form == 'H') {
        uvcc_hash_item *h = (uvcc_hash_item *)c->items + i;
        const json_int_t len = vector_length(r, i, json_object_get(u, "prefix"));
        h->mode = (uint8_t)json_integer_value(json_object_get(u, "mode"));
        h->prefix_len = (uint8_t)(len < 0 ? 0 : len);
        if (len > (json_int_t)sizeof h->prefix ||
            (len > 0 &&
             vector_fill(r, c, i, json_object_get(u, "prefix"), h->prefix, (size_t)len, m) != 0) ||
            vector_fill(r, c, i, json_object_get(u, "key"), h->key, sizeof h->key, m) != 0)
            return vector_fail_case(m, r, c, "item %u is not understood", i);
    }
    return 0;
}

static int read_units(vector_run *r, vector_case *c, vector_message *m) {
    static const size_t bytes = sizeof(uvcc_block) + sizeof(uvcc_hash_item) + sizeof(uvcc_task);
    uvcc_task *t = &c->task;
    c->unit_count = (uint32_t)json_array_size(json_object_get(c->json, "units"));
    c->units = vector_take(r, (c->unit_count + 1) * sizeof *c->units, m);
    c->items = vector_take(r, (c->unit_count + 1) * bytes, m);
    if (c->units == NULL || c->items == NULL)
        return -1;
    if (c->form == 'B') {
        t->u.vec.blocks = c->items;
        t->u.vec.count = c->unit_count;
    } else if (c->form == 'H') {
        t->u.hash.items = c->items;
        t->u.hash.count = c->unit_count;
    } else if (c->form == 'C') {
        t->u.copy.items = c->items;
        t->u.copy.count = c->unit_count;
    }
    for (uint32_t i = 0; i < c->unit_count; i++)
        if (read_unit(r, c, i, m) != 0)
            return -1;
    return 0;
}

int vector_read_case(vector_run *r, vector_case *c, vector_message *m) {
    json_t *role = json_object_get(c->json, "role"), *call = json_object_get(c->json, "call");
    const int is = index_of(roles, 3, json_string_value(role));
    c->name = json_string_value(json_object_get(c->json, "name"));
    c->task_name = json_string_value(json_object_get(c->json, "task"));
    c->role_name = is < 0 ? "" : roles[is];
    for (uint16_t k = 0; c->task_name != NULL && k < UVCC_TASK_KIND_END; k++)
        if (kinds[k].name != NULL && strcmp(kinds[k].name, c->task_name) == 0)
            c->task.kind = k;
    c->want = read_status(json_object_get(c->json, "status"));
    if (c->name == NULL || c->task.kind == 0 || (role != NULL && is < 0) || c->want > 0)
        return vector_fail_case(m, r, c, "its name, task, role or status is not understood");
    c->form = kinds[c->task.kind].form[0];
    c->role = (uint8_t)(is < 0 ? 0 : is);
    c->task.ordinal = place_of(r, "ordinal");
    c->task.call = (uint16_t)json_integer_value(
        json_object_get(call != NULL ? c->json : r->file->root, "call"));
    c->task.keys = &r->keys[c->role];
    if ((role == NULL) == (c->form == 'B'))
        return vector_fail_case(m, r, c, "form B has a role, the others have none");
    if (read_args(r, c, m) != 0 || read_fn(r, c, m) != 0)
        return -1;
    return read_units(r, c, m);
}
