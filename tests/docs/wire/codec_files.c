/* SPDX-License-Identifier: Apache-2.0 */
/* codec_files.c - listings of what a host keeps: checkpoints, logs, triples. */
#include "listing.h"

#include "exec/base/triple_record.h"
#include "exec/session/record.h"
#include "proto/bytes.h"
#include "proto/ids.h"
#include "triangle.h"

enum { ELEMS = 2, TENSORS = 2, STEPS_MAX = 9, OUT = 4 };

/* ---- checkpoints ---- */

/* Y = X + W, and Z = Y + V opened: W and V persist and stay as they were set. */
static uvcc_program *program_new(const uvcc_allocator *al) {
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    const uint32_t w = test_tensor(p, "W", 1, ELEMS, 20, 0, UVCC_PERSIST);
    const uint32_t v = test_tensor(p, "V", 1, ELEMS, 20, 0, UVCC_PERSIST);
    const uint32_t x = test_tensor(p, "X", 1, ELEMS, 20, 0, UVCC_TRANSIENT);
    const uint32_t y = test_tensor(p, "Y", 1, ELEMS, 22, 0, UVCC_TRANSIENT);
    const uint32_t z = test_tensor(p, "Z", 1, ELEMS, 23, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, 1, x, 0) >= 0);
    const uvcc_op_desc ops[] = {
        {.opcode = UVCC_OP_ADD, .k = 0, .in_count = 2, .out_count = 1, .in = {x, w}, .out = {y}},
        {.opcode = UVCC_OP_ADD, .k = 1, .in_count = 2, .out_count = 1, .in = {y, v}, .out = {z}},
    };
    for (unsigned i = 0; i < sizeof ops / sizeof ops[0]; i++)
        assert_true(uvcc_program_op(p, &ops[i]) >= 0);
    assert_true(uvcc_program_output(p, OUT, z) >= 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

static void every_step(uvcc_config *c) {
    c->resume.checkpoint_every = 1;
}

/* The checkpoint of a party that was given these shares, after so many steps. */
static void checkpoint_made(listing *l, const uvcc_program *p, uint8_t party, uint32_t step,
                            uint64_t shares[TENSORS][2][ELEMS]) {
    static const uint64_t zeros[ELEMS];
    static const int64_t x[ELEMS];
    triangle t;
    triangle_options opt = {.tweak = every_step, .seed = 7};
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (uint32_t k = 0; k < TENSORS; k++)
        for (uint8_t i = 0; i < 3; i++) {
            /* Party i has components i and i + 1. */
            const uint64_t *lo = i == party             ? shares[k][0]
                                 : i == (party + 1) % 3 ? shares[k][1]
                                                        : zeros;
            const uint64_t *hi = i == party             ? shares[k][1]
                                 : i == (party + 2) % 3 ? shares[k][0]
                                                        : zeros;
            assert_int_equal(uvcc_session_set_shares(t.s[i], k, lo, hi), 0);
        }
    const uint8_t *data = NULL;
    uint32_t at = 0;
    size_t len = 0;
    for (uint32_t m = 0; m < step; m++) {
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(uvcc_session_step(t.s[i], m, 0, 0), 0);
        assert_int_equal(uvcc_session_input(t.s[0], m, 1, x, 0), 0);
        triangle_finish(&t, m + 1);
        while (uvcc_session_checkpoint(t.s[party], &at, &data, &len) != 0 || at != m + 1)
            assert_true(triangle_turn(&t));
    }
    listing_made(l, LISTING_BYTES, data, len);
    triangle_close(&t);
    triangle_free(&t);
}

/* Read by the functions that hosts have for it. */
static void checkpoint_fields(listing *l, const uint8_t sid_sub[32]) {
    const listing_block *b = &l->block[LISTING_BYTES];
    uvcc_checkpoint_info info = {.party = 0};
    listing_must(l, uvcc_checkpoint_read(b->bytes, b->len, &info) == 0, "no checkpoint");
    listing_must(l, memcmp(info.sid_sub, sid_sub, 32) == 0, "these sessions have another sid_job");
    if (!listing_good(l))
        return;
    field_text(l, "magic", "UVCK", 4);
    field_number(l, "version", 1, 2, "");
    field_number(l, "party", 1, info.party, "");
    field_number(l, "zero", 2, 0, "");
    field_bytes(l, "sid_sub", info.sid_sub, 32, "");
    field_bytes(l, "H(program)", info.program_hash, 32, "");
    field_number(l, "step", 4, info.step, "");
    field_number(l, "tensors", 4, info.tensors, "");
    field_number(l, "run", 4, info.run, "");
    field_bytes(l, "root before", info.root_before, 32, "");
    field_bytes(l, "lineage", info.lineage, 32, "");
    for (uint32_t k = 0; k < info.tensors && listing_good(l); k++) {
        uint64_t share[2][ELEMS];
        listing_must(l, uvcc_checkpoint_tensor(b->bytes, b->len, k, share[0], share[1], ELEMS) == 0,
                     "no such tensor");
        field_title(l, "tensor %u", k);
        field_number(l, "index", 4, k, "");
        field_number(l, "zero", 4, 0, "");
        field_number(l, "elements", 8, ELEMS, "");
        for (unsigned half = 0; half < 2; half++)
            for (unsigned i = 0; i < ELEMS; i++) {
                char name[32];
                snprintf(name, sizeof name, "%s %u", half == 0 ? "lo" : "hi", i);
                field_code(l, name, 8, share[half][i], "");
            }
    }
    field_bytes(l, "SHA-256", field_peek(l, 32), 32, "of all before");
}

void codec_checkpoint(listing *l, listing_seen *seen) {
    uint64_t shares[TENSORS][2][ELEMS] = {{{0}}};
    uint8_t sid_job[32], sid_rep[32], sid_sub[32];
    value_exactly(l, "sid_job", sid_job, 32);
    uvcci_sid_rep(sid_job, 0, sid_rep);
    uvcci_sid_sub(sid_rep, 0, 0, sid_sub);
    const uint8_t party = (uint8_t)value_number(l, "party", 2);
    const uint32_t step = (uint32_t)value_number(l, "step", STEPS_MAX);
    for (unsigned k = 0; k < TENSORS; k++)
        for (unsigned half = 0; half < 2; half++)
            listing_must(l,
                         value_numbers(l, half == 0 ? "lo" : "hi", shares[k][half], ELEMS) == ELEMS,
                         "two elements each");
    listing_must(l, step != 0, "the first checkpoint comes after the first step");
    if (!listing_good(l))
        return;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = program_new(&al);
    checkpoint_made(l, p, party, step, shares);
    uvcc_program_free(p);
    checkpoint_fields(l, sid_sub);
    snprintf(l->subject, sizeof l->subject, "Checkpoint");
    seen->checkpoint = true;
}

/* ---- logs ---- */

enum { LOG_MAX = LISTING_BYTES_MAX, DATA_MAX = 256 };

typedef struct log_bytes {
    uint8_t p[LOG_MAX];
    size_t len;
} log_bytes;

static void append(void *user, const uint8_t *p, size_t len) {
    log_bytes *b = user;
    assert_true(len <= sizeof b->p - b->len);
    memcpy(b->p + b->len, p, len);
    b->len += len;
}

/* The values of a record's fields, by its letters in records.def. */
static void record_values(listing *l, uvcc_record *r, uint8_t data[3][DATA_MAX]) {
    r->type = value_name(l, "record", uvcc_record_name);
    const char *fields = listing_good(l) ? uvcc_record_fields(r->type) : "";
    unsigned d = 0;
    for (const char *f = fields; *f != '\0'; f++) {
        switch (*f) {
        case 't':
            r->now = value_number(l, "now", UINT64_MAX);
            break;
        case 'p':
            r->peer = (uint8_t)value_number(l, "peer", UINT8_MAX);
            break;
        case 'i':
            r->id = value_number(l, "id", UINT64_MAX);
            break;
        case 'n':
            r->number = value_number(l, "number", UINT64_MAX);
            break;
        case 's':
            r->step = (uint32_t)value_number(l, "step", UINT32_MAX);
            break;
        case 'e':
            r->entry = (uint32_t)value_number(l, "entry", UINT32_MAX);
            break;
        case 'r':
            r->status = (int32_t)value_signed(l, "status");
            break;
        default:
            if (r->type == UVCC_RECORD_END && d == 1)
                break; /* SHA-256 of the log: the writer has it */
            const bool hash = *f == 'H';
            size_t n = value_bytes(l, hash ? "hash" : "data", data[d], DATA_MAX);
            listing_must(l, !hash || n == 32, "a hash has 32 bytes");
            r->data[d] = (uvcc_slice){data[d], n};
            d++;
        }
    }
}

static uint64_t zigzag(int64_t v) {
    return (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0);
}

/* One field that is a number; `before` is the time before. */
static void log_number_field(listing *l, const uvcc_record *r, char letter, uint64_t before) {
    char text[96];
    const int64_t dt = (int64_t)(r->now - before);
    switch (letter) {
    case 't':
        snprintf(text, sizeof text, "%+lld ns, zigzag; now %llu", (long long)dt,
                 (unsigned long long)r->now);
        field_varint(l, "t, time", zigzag(dt), text);
        return;
    case 'r':
        snprintf(text, sizeof text, "%d, zigzag", r->status);
        field_varint(l, "r, status", zigzag(r->status), text);
        return;
    default:
        break;
    }
    const char *name = letter == 'p'   ? "p, peer"
                       : letter == 'i' ? "i, id"
                       : letter == 'n' ? "n, number"
                       : letter == 's' ? "s, step"
                                       : "e, entry";
    const uint64_t v = letter == 'p'   ? r->peer
                       : letter == 'i' ? r->id
                       : letter == 'n' ? r->number
                       : letter == 's' ? r->step
                                       : r->entry;
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    field_varint(l, name, v, text);
}

static void record_fields(listing *l, const uvcc_record *r, uint64_t before) {
    const listing_block *b = &l->block[LISTING_BYTES];
    char text[32];
    unsigned d = 0;
    field_title(l, "record %llu", (unsigned long long)r->index);
    const size_t end = (size_t)(r->offset + r->bytes);
    /* What follows the length: it is a varint of one or two bytes here. */
    const size_t head = b->bytes[b->at] < 0x80 ? 1 : 2, len = (size_t)r->bytes - head - 4;
    snprintf(text, sizeof text, "%zu", len);
    field_varint(l, "length", len, text);
    field_number(l, "type", 1, r->type, uvcc_record_name(r->type));
    for (const char *f = uvcc_record_fields(r->type); *f != '\0' && listing_good(l); f++) {
        if (*f == 'H') {
            field_bytes(l, "H", r->data[d].data, 32, "");
            d++;
        } else if (*f == 'D') {
            snprintf(text, sizeof text, "%zu", r->data[d].len);
            field_varint(l, "D, length", r->data[d].len, text);
            field_bytes(l, "D", r->data[d].data, r->data[d].len, "");
            d++;
        } else {
            log_number_field(l, r, *f, before);
        }
    }
    field_code(l, "crc32", 4, uvcci_ld32(field_peek(l, 4)), "of LE64 number and all before");
    listing_must(l, b->at == end, "the record ends elsewhere");
}

/* A log of the records in the values, made by the writer that sessions use. */
void codec_log(listing *l, listing_seen *seen) {
    static log_bytes made;
    static uint8_t data[3][DATA_MAX];
    uvcci_record_writer w;
    made.len = 0;
    uvcci_record_begin(&w, &(uvcc_recorder){.write = append, .user = &made});
    uint64_t now = 0;
    while (listing_has(l, "record")) {
        uvcc_record r = {.now = now};
        record_values(l, &r, data);
        if (!listing_good(l))
            return;
        now = r.now;
        uvcci_record_put(&w, &r);
    }
    listing_made(l, LISTING_BYTES, made.p, made.len);
    const listing_block *b = &l->block[LISTING_BYTES];
    uvcc_record_reader in;
    if (listing_good(l) && uvcc_record_check(&in, b->bytes, b->len) != 0)
        listing_refuse(l, b->line, "no log: record %llu: %s", (unsigned long long)in.index, in.why);
    if (!listing_good(l))
        return;
    uvcc_record r;
    uvcc_record_reader_init(&in, b->bytes, b->len);
    field_text(l, "magic", "uvcclog", 7);
    field_number(l, "version", 1, 1, "");
    for (uint64_t before = 0; uvcc_record_next(&in, &r) == 1; before = r.now) {
        record_fields(l, &r, before);
        seen->record[r.type] = true;
    }
    snprintf(l->subject, sizeof l->subject, "Log");
}

/* ---- triples ---- */

enum { KEYS = 4, TRIPLE_MAX = 1024 };

/* A record of the values: its head is the library's, keys and shares come as they are. */
static size_t triple_values(listing *l, uint8_t *out) {
    uvcc_triple_info t = {.party = (uint8_t)value_number(l, "party", 2)};
    uint64_t n[6] = {0};
    value_exactly(l, "sid_sub", t.sid_sub, 32);
    value_exactly(l, "h_program", t.program, 32);
    t.run = (uint32_t)value_number(l, "run", UINT32_MAX);
    t.step = (uint32_t)value_number(l, "step", UINT32_MAX);
    t.entry = (uint32_t)value_number(l, "entry", UINT32_MAX);
    t.ordinal = (uint32_t)value_number(l, "ordinal", UINT32_MAX);
    t.maker_run = (uint32_t)value_number(l, "maker_run", UINT32_MAX);
    t.triple_id = value_number(l, "triple_id", UINT64_MAX);
    listing_must(l, value_numbers(l, "shapes", n, 6) == 6, "rows and cols of A, of B, of C");
    for (unsigned i = 0; i < 3; i++) {
        t.rows[i] = (uint32_t)n[2 * i];
        t.cols[i] = (uint32_t)n[2 * i + 1];
    }
    uvcci_triple_head_put(&t, out);
    for (unsigned i = 0; i < KEYS; i++)
        value_exactly(l, "key", out + UVCCI_TRIPLE_KEYS_AT + 16 * i, 16);
    const uint64_t elems = uvcci_triple_elems(&t, 2);
    listing_must(l, elems != 0 && elems <= ELEMS, "C of one or two elements");
    for (unsigned half = 0; half < 2 && listing_good(l); half++) {
        uint64_t c[ELEMS];
        listing_must(l, value_numbers(l, half == 0 ? "c_lo" : "c_hi", c, ELEMS) == elems,
                     "as many as C has");
        for (unsigned i = 0; i < elems && listing_good(l); i++)
            uvcci_st64(out + UVCCI_TRIPLE_C_AT + 8 * (half * elems + i), c[i]);
    }
    if (!listing_good(l))
        return 0;
    const size_t len = uvcci_triple_bytes(elems) - UVCCI_TRIPLE_HASH_BYTES;
    uvcci_sha256_once(out, len, out + len);
    return len + UVCCI_TRIPLE_HASH_BYTES;
}

/* What the library reads of a record, then keys and shares as they stand. */
static void triple_fields(listing *l, const uint8_t *p, size_t len) {
    static const char *const keys[] = {"A of NEXT", "B of NEXT", "A of PREV", "B of PREV"};
    uvcc_triple_info t;
    listing_must(l, uvcc_triple_read(p, len, &t) == 0, "no triple");
    if (!listing_good(l))
        return;
    field_text(l, "magic", "UVTR", 4);
    field_number(l, "version", 1, 1, "");
    field_number(l, "party", 1, t.party, "");
    field_number(l, "zero", 2, 0, "");
    field_bytes(l, "sid_sub", t.sid_sub, 32, "");
    field_bytes(l, "H(program)", t.program, 32, "");
    field_number(l, "run", 4, t.run, "");
    field_number(l, "step", 4, t.step, "");
    field_number(l, "entry", 4, t.entry, "");
    field_number(l, "op ordinal", 4, t.ordinal, "");
    field_number(l, "run of the maker", 4, t.maker_run, "");
    field_number(l, "zero", 4, 0, "");
    field_code(l, "triple_id", 8, t.triple_id, "");
    for (unsigned i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "rows of %c", 'A' + (int)i);
        field_number(l, name, 4, t.rows[i], "");
        snprintf(name, sizeof name, "cols of %c", 'A' + (int)i);
        field_number(l, name, 4, t.cols[i], "");
    }
    for (unsigned i = 0; i < KEYS; i++)
        field_bytes(l, keys[i], field_peek(l, 16), 16, "");
    for (unsigned i = 0; i < 2 * uvcci_triple_elems(&t, 2); i++) {
        const unsigned elems = (unsigned)uvcci_triple_elems(&t, 2);
        char name[16];
        snprintf(name, sizeof name, "C_%s %u", i < elems ? "lo" : "hi", i % elems);
        field_code(l, name, 8, uvcci_ld64(field_peek(l, 8)), "");
    }
    field_bytes(l, "SHA-256", field_peek(l, 32), 32, "of all before");
}

void codec_triple(listing *l, listing_seen *seen) {
    uint8_t out[TRIPLE_MAX];
    size_t len = triple_values(l, out);
    listing_made(l, LISTING_BYTES, out, len);
    const listing_block *b = &l->block[LISTING_BYTES];
    triple_fields(l, b->bytes, b->len);
    snprintf(l->subject, sizeof l->subject, "Triple");
    seen->triple = true;
}

/* A store that has handed out a step, and holds one triple of a later one. */
void codec_triple_store(listing *l, listing_seen *seen) {
    uint8_t record[TRIPLE_MAX], out[TRIPLE_MAX];
    const uint8_t *none;
    size_t none_len, len = 0;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    const uint32_t run = (uint32_t)value_number(l, "taken_run", UINT32_MAX);
    const uint32_t step = (uint32_t)value_number(l, "taken_step", UINT32_MAX - 1);
    size_t record_len = triple_values(l, record);
    if (!listing_good(l))
        return;
    uvcc_triple_store *st;
    assert_int_equal(uvcc_triple_store_new(&st, &al), 0);
    listing_must(l, uvcc_triple_store_add(st, record, record_len) == 0, "it is not taken");
    listing_must(l,
                 uvcc_triple_store_take(st, run, step, &none, &none_len) == UVCC_ERR_NOT_FOUND &&
                     uvcc_triple_store_count(st) == 1,
                 "the triple is not of a later step");
    if (listing_good(l)) {
        len = uvcc_triple_store_saved_bytes(st);
        assert_int_equal(uvcc_triple_store_save(st, out, sizeof out), 0);
    }
    uvcc_triple_store_free(st);
    listing_made(l, LISTING_BYTES, out, len);
    const listing_block *b = &l->block[LISTING_BYTES];
    if (!listing_good(l))
        return;
    listing_must(l, uvcc_triple_store_load(&st, &al, b->bytes, b->len) == 0, "no store");
    if (!listing_good(l))
        return;
    /* What was handed out does not come again. */
    listing_must(l, uvcc_triple_store_take(st, run, step, &none, &none_len) == UVCC_ERR_STATE,
                 "its mark is lower");
    uvcc_triple_store_free(st);
    field_text(l, "magic", "UVTS", 4);
    field_number(l, "version", 1, 1, "");
    field_number(l, "zero", 3, 0, "");
    field_number(l, "run", 4, run, "");
    field_number(l, "step", 4, step + 1, "all before was handed out");
    field_number(l, "bytes", 8, b->len - 24 - 32, "of records");
    field_title(l, "record 0");
    triple_fields(l, b->bytes + 24, b->len - 24 - 32);
    field_bytes(l, "SHA-256", field_peek(l, 32), 32, "of all before");
    snprintf(l->subject, sizeof l->subject, "Triple store");
    seen->triple_store = true;
}
