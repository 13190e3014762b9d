/* SPDX-License-Identifier: Apache-2.0 */
/* Logs of sessions: the codec at every cut and flip, replays of runs of every kind, and that what
 * was changed in a log is noticed. */
#include "triangle.h"

#include "exec/runtime/core.h"
#include "exec/session/record.h"
#include <uvcc/loopback.h>

/* ---- logs in memory ---- */

static test_bytes logs[3];
static const uint8_t app[] = "what the host wants to know";

static void recorded(uvcc_config *c) {
    c->record = (uvcc_recorder){
        .write = test_append, .user = &logs[c->identity.party], .app = app, .app_len = sizeof app};
    c->resume.checkpoint_every = 1;
}

static void recorded_cancellable(uvcc_config *c) {
    recorded(c);
    c->resume.cancellable = 1;
}

static void recorded_x25519(uvcc_config *c) {
    recorded(c);
    c->identity.exchange_x25519 = true;
    for (unsigned q = 0; q < 3; q++) {
        uint8_t seed[32], sk[64];
        memset(seed, 0x40 + (int)q, sizeof seed); /* as triangle_make gives them */
        uvcci_sign_keypair(seed, c->identity.peer_sign_key[q], sk);
    }
}

static void forget_logs(void) {
    for (unsigned i = 0; i < 3; i++)
        test_bytes_free(&logs[i]);
}

/* The log again, record by record, with one of them changed: checksums are right. */
typedef void (*change)(uvcc_record *r, uint8_t *copy);
static test_bytes rewrite(const test_bytes *log, uint64_t index, change how) {
    test_bytes out = {0};
    uvcci_record_writer w;
    uvcc_record_reader rd;
    uvcc_record rec;
    uvcci_record_begin(&w, &(uvcc_recorder){.write = test_append, .user = &out});
    uvcc_record_reader_init(&rd, log->p, log->len);
    while (uvcc_record_next(&rd, &rec) == 1) {
        uint8_t *copy = NULL;
        if (how != NULL && rec.index == index) {
            copy = malloc(rec.data[0].len + 1);
            assert_non_null(copy);
            if (rec.data[0].len != 0)
                memcpy(copy, rec.data[0].data, rec.data[0].len);
            rec.data[0].data = copy;
            how(&rec, copy);
        }
        uvcci_record_put(&w, &rec);
        free(copy);
    }
    assert_null(rd.why);
    return out;
}

/* ---- a program with all kinds of inputs ---- */

enum { ROWS = 4, COLS = 3, UNITS = 2, IN_X = 1, OUT_A = 10, OUT_W = 11, OUT_F = 12 };

/* |a| or so, scaled back: keys of two kinds. */
static const int64_t pieces[] = {-4096, 4096, 0, -2, 0, 3, 0, 2};
static const uvcc_fn_instr fn_steps[] = {
    {.kind = UVCC_FN_OPEN, .bits = 64},
    {.kind = UVCC_FN_SPLINE, .a = 0, .bits = 42, .first = 1, .word_count = 8, .words = pieces},
    {.kind = UVCC_FN_EXCHANGE, .a = 1, .io = UVCC_FN_NONE},
    {.kind = UVCC_FN_FLOOR, .a = 2, .shift = 3},
    {.kind = UVCC_FN_LIFT, .a = 3},
};
static const uvcc_function fn = {"f", 1, 1, sizeof fn_steps / sizeof *fn_steps, fn_steps};

/* A = relu(X W + V), opened with W and a function of A. W and V persist: tensors 0 and 1. */
static uvcc_program *make_program(test_alloc *mem, uint8_t v_bits) {
    uvcc_allocator al = test_allocator(mem);
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, &al), 0);
    uint32_t w = test_tensor(p, "W", COLS, UNITS, 20, 12, UVCC_PERSIST);
    uint32_t v = test_tensor(p, "V", ROWS, UNITS, v_bits, 12, UVCC_PERSIST);
    uint32_t x = test_tensor(p, "X", ROWS, COLS, 20, 12, UVCC_TRANSIENT);
    uint32_t z = test_tensor(p, "Z", ROWS, UNITS, 40, 12, UVCC_TRANSIENT);
    uint32_t y = test_tensor(p, "Y", ROWS, UNITS, 41, 12, UVCC_TRANSIENT);
    uint32_t a = test_tensor(p, "A", ROWS, UNITS, 41, 12, UVCC_TRANSIENT);
    uint32_t d = test_tensor(p, "D", ROWS, UNITS, 1, 0, UVCC_TRANSIENT);
    uint32_t f = test_tensor(p, "F", ROWS, UNITS, 41, 12, UVCC_TRANSIENT);
    assert_int_equal(uvcc_program_function(p, &fn), 0);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    const uvcc_op_desc ops[] = {
        {.opcode = UVCC_OP_GEMM_SS,
         .k = 0,
         .in_count = 2,
         .out_count = 1,
         .in = {x, w},
         .out = {z},
         .shift = 12},
        {.opcode = UVCC_OP_ADD, .k = 1, .in_count = 2, .out_count = 1, .in = {z, v}, .out = {y}},
        {.opcode = UVCC_OP_RELU, .k = 2, .in_count = 1, .out_count = 2, .in = {y}, .out = {a, d}},
        {.opcode = UVCC_OP_FUNCTION, .k = 3, .in_count = 1, .out_count = 1, .in = {a}, .out = {f}},
    };
    for (unsigned i = 0; i < sizeof ops / sizeof ops[0]; i++)
        assert_true(uvcc_program_op(p, &ops[i]) >= 0);
    assert_true(uvcc_program_output(p, OUT_A, a) >= 0);
    assert_true(uvcc_program_output(p, OUT_W, w) >= 0);
    assert_true(uvcc_program_output(p, OUT_F, f) >= 0);
    char why[256] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

static const int64_t weights[COLS * UNITS] = {4096, -4096, 2048, 8192, -100, 5};

/* ---- runs ---- */

/* They are there before a step, and nobody takes them: the step forgets them. */
static void leave_shares(triangle *t) {
    uint64_t lo[COLS * UNITS], hi[COLS * UNITS];
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_shares(t->s[i], 0, lo, hi), UVCC_ERR_AGAIN);
    for (unsigned turn = 0; turn < 8; turn++)
        (void)triangle_turn(t);
}

/* Of the weights: together they are what was set. */
static void take_shares(triangle *t) {
    uint64_t lo[3][COLS * UNITS], hi[3][COLS * UNITS];
    int64_t v[COLS * UNITS];
    int rc;
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(uvcc_session_shares(t->s[i], 0, lo[i], hi[i]), UVCC_ERR_AGAIN);
        while ((rc = uvcc_session_shares(t->s[i], 0, lo[i], hi[i])) == UVCC_ERR_AGAIN)
            (void)triangle_turn(t);
        assert_int_equal(rc, 0);
    }
    for (unsigned i = 0; i < 3; i++)
        assert_memory_equal(hi[i], lo[(i + 1) % 3], sizeof hi[i]);
    uvcc_client_combine(lo[0], lo[1], lo[2], COLS * UNITS, v);
    assert_memory_equal(v, weights, sizeof weights);
}

static void play_steps(triangle *t, uint32_t steps) {
    int64_t x[ROWS * COLS], v[ROWS * UNITS];
    uint64_t rnd = 3, c[3][ROWS * UNITS];
    uvcc_random random = test_random(&rnd);
    for (unsigned i = 0; i < ROWS * UNITS; i++)
        v[i] = (int64_t)i * 1000 - 3000;
    assert_int_equal(uvcc_client_split(v, ROWS * UNITS, &random, c[0], c[1], c[2]), 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(uvcc_session_set_public(t->s[i], 0, weights), 0);
        assert_int_equal(uvcc_session_set_shares(t->s[i], 1, c[i], c[(i + 1) % 3]), 0);
    }
    triangle_ready(t);
    for (uint32_t step = 0; step < steps; step++) {
        for (unsigned i = 0; i < ROWS * COLS; i++)
            x[i] = (int64_t)((i + 1) * (step + 7) % 50) * 500 - 9000;
        leave_shares(t);
        triangle_agree(t, step, 0);
        triangle_input(t, 0, step, IN_X, x);
        triangle_finish(t, step + 1);
        for (unsigned i = 0; i < 3; i++) {
            const int64_t *w = uvcc_session_output(t->s[i], step, OUT_W);
            assert_non_null(w);
            assert_memory_equal(w, weights, sizeof weights);
        }
        take_shares(t);
    }
}

static uint8_t last_digest[3][32];

/* Three recorded sessions, from new to free; the logs are in `logs`. */
static size_t told_at; /* where party 0's log was at its last event before CLOSED */
static void note_told(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e) {
    (void)user;
    (void)s;
    if (party == 0 && e->kind != UVCC_EVENT_CLOSED)
        told_at = logs[0].len;
}

static void record_run(const uvcc_program *p, const triangle_options *opt, uint32_t steps) {
    triangle_options o = *opt;
    triangle t;
    if (o.on_event == NULL)
        o.on_event = note_told;
    if (o.tweak == NULL)
        o.tweak = recorded;
    forget_logs();
    triangle_open(&t, p, &o);
    play_steps(&t, steps);
    triangle_close(&t);
    for (unsigned i = 0; i < 3; i++)
        uvcc_session_digest(t.s[i], last_digest[i]);
    triangle_free(&t);
}

typedef struct replayed {
    int rc;
    uvcc_replay_result result;
} replayed;

static replayed replay_until(const test_bytes *log, const uvcc_program *p, uvcc_cpu_mode mode,
                             uint64_t until) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_cpu_config x = {.size = sizeof x, .alloc = al, .mode = mode, .seed = 99, .queue_jobs = 3};
    uvcc_cpu *cpu;
    assert_int_equal(uvcc_cpu_new(&cpu, &x), 0);
    uvcc_replay_options opt = {.size = sizeof opt, .alloc = al, .executor = cpu, .until = until};
    replayed r;
    /* Exactly the log's bytes, so that a sanitizer sees a read beyond. */
    uint8_t *exact = malloc(log->len + (log->len == 0));
    assert_non_null(exact);
    memcpy(exact, log->p, log->len);
    r.rc = uvcc_replay(exact, log->len, p, &opt, &r.result);
    free(exact);
    assert_int_equal(uvcc_cpu_pending(cpu), 0);
    uvcc_cpu_free(cpu);
    assert_int_equal(mem.live_blocks, 0);
    return r;
}

static replayed replay(const test_bytes *log, const uvcc_program *p, uvcc_cpu_mode mode) {
    return replay_until(log, p, mode, UVCC_NEVER);
}

static uint64_t count_records(const test_bytes *log) {
    uvcc_record_reader rd;
    assert_int_equal(uvcc_record_check(&rd, log->p, log->len), 0);
    return rd.index;
}

static void replays_equal(const test_bytes *log, const uvcc_program *p, uvcc_cpu_mode mode,
                          const uint8_t digest[32]) {
    replayed r = replay(log, p, mode);
    if (r.rc != 0)
        fail_msg("replay says %d: record %llu at %llu: %s", r.rc,
                 (unsigned long long)r.result.record, (unsigned long long)r.result.offset,
                 r.result.what);
    assert_int_equal(r.result.equal, count_records(log));
    assert_int_equal(r.result.records, r.result.equal);
    assert_string_equal(r.result.what, "");
    if (digest != NULL)
        assert_memory_equal(r.result.digest, digest, 32);
}

/* ---- the codec ---- */

static void test_round_trip(void **state) {
    (void)state;
    uint64_t rnd = 5;
    uint8_t data[3][300];
    test_rand_bytes(&rnd, data, sizeof data);
    unsigned types = 0;
    for (unsigned type = 0; type < 256; type++) {
        const char *fields = uvcc_record_fields((uint8_t)type);
        assert_true((fields == NULL) == (uvcc_record_name((uint8_t)type) == NULL));
        if (fields == NULL)
            continue;
        types++;
        for (unsigned round = 0; round < 200; round++) {
            uvcc_record r = {.type = (uint8_t)type};
            unsigned d = 0;
            for (const char *f = fields; *f != '\0'; f++) {
                uint64_t v = test_rand(&rnd) >> test_rand(&rnd) % 64;
                if (round == 0)
                    v = UINT64_MAX;
                switch (*f) {
                case 't':
                    r.now = v;
                    break;
                case 'p':
                    r.peer = (uint8_t)v;
                    break;
                case 'i':
                    r.id = v;
                    break;
                case 'n':
                    r.number = v;
                    break;
                case 's':
                    r.step = (uint32_t)v;
                    break;
                case 'e':
                    r.entry = (uint32_t)v;
                    break;
                case 'r':
                    r.status = (int32_t)(uint32_t)v;
                    break;
                default:
                    r.data[d] = (uvcc_slice){data[d], *f == 'H' ? 32 : v % sizeof data[d]};
                    d++;
                    break;
                }
            }
            test_bytes out = {0};
            uvcci_record_writer w;
            uvcci_record_begin(&w, &(uvcc_recorder){.write = test_append, .user = &out});
            w.now = 12345;
            uvcci_record_put(&w, &r);
            size_t head = 8; /* the magic */
            uvcc_record back;
            assert_int_equal(uvcci_record_decode(out.p + head, out.len - head, 12345, &back), 0);
            assert_int_equal(back.peer, r.peer);
            assert_int_equal(back.status, r.status);
            assert_int_equal(back.step, r.step);
            assert_int_equal(back.entry, r.entry);
            assert_int_equal(back.id, r.id);
            assert_int_equal(back.number, r.number);
            if (strchr(fields, 't') != NULL)
                assert_int_equal(back.now, r.now);
            for (unsigned i = 0; i < d && type != UVCC_RECORD_END; i++) {
                assert_int_equal(back.data[i].len, r.data[i].len);
                if (back.data[i].len != 0)
                    assert_memory_equal(back.data[i].data, r.data[i].data, r.data[i].len);
            }
            for (size_t cut = 0; cut < out.len - head; cut++)
                assert_int_equal(uvcci_record_decode(out.p + head, cut, 0, &back), UVCC_ERR_FRAME);
            free(out.p);
        }
    }
    assert_int_equal(types, 30);
}

/* A short log with most types in it. */
static void short_log(const uvcc_program *p) {
    forget_logs();
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 4, .tweak = recorded});
    for (unsigned i = 0; i < 4; i++)
        assert_true(triangle_turn(&t));
    assert_int_equal(uvcc_session_abort(t.s[0], 3, 77), 0);
    triangle_free(&t);
}

static void test_cut_and_flipped(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    short_log(p);
    const test_bytes *log = &logs[0];
    replays_equal(log, p, UVCC_CPU_INLINE, NULL);

    size_t n = 0;
    uint64_t *starts = malloc((log->len + 1) * sizeof *starts);
    assert_non_null(starts);
    uvcc_record_reader rd;
    uvcc_record rec;
    uvcc_record_reader_init(&rd, log->p, log->len);
    for (; uvcc_record_next(&rd, &rec) == 1; n++) {
        assert_int_equal(rec.index, n);
        starts[n] = n == 0 ? 0 : rec.offset; /* the magic counts as the header's */
    }
    starts[n] = log->len;

    uint8_t *copy = malloc(log->len);
    assert_non_null(copy);
    for (size_t cut = 0, at = 0; cut < log->len; cut++) {
        at += cut >= starts[at + 1];
        test_bytes part = {.p = log->p, .len = cut};
        replayed r = replay(&part, p, UVCC_CPU_INLINE);
        assert_int_equal(r.rc, UVCC_ERR_FRAME);
        assert_int_equal(r.result.record, at);
        assert_int_equal(r.result.offset, starts[at]);
        assert_true(r.result.what[0] != '\0');
        assert_int_equal(r.result.equal, 0);
    }
    for (size_t i = 0, at = 0; i < log->len; i++) {
        at += i >= starts[at + 1];
        memcpy(copy, log->p, log->len);
        copy[i] ^= (uint8_t)(1u << i % 8);
        assert_int_equal(uvcc_record_check(&rd, copy, log->len), UVCC_ERR_FRAME);
        assert_int_equal(rd.index, at);
        assert_int_equal(rd.offset, starts[at]);
        assert_non_null(rd.why);
    }
    /* Bytes behind the end; two records that change places; a record taken out. */
    test_bytes longer = {0};
    test_append(&longer, log->p, log->len);
    test_append(&longer, log->p, 1);
    assert_int_equal(uvcc_record_check(&rd, longer.p, longer.len), UVCC_ERR_FRAME);
    assert_int_equal(rd.index, n - 1);
    free(longer.p);
    test_bytes shorter = {0};
    test_append(&shorter, log->p, starts[5]);
    test_append(&shorter, log->p + starts[6], log->len - starts[6]);
    assert_int_equal(uvcc_record_check(&rd, shorter.p, shorter.len), UVCC_ERR_FRAME);
    assert_int_equal(rd.index, 5);
    free(shorter.p);
    /* Records of right checksums from which the last hash does not follow. */
    test_bytes same = rewrite(log, 0, NULL);
    assert_int_equal(same.len, log->len);
    assert_memory_equal(same.p, log->p, log->len);
    free(same.p);
    free(copy);
    free(starts);
    forget_logs();
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* The SHA-256 at the end stands for all of it, where CRCs were made right again. */
static void test_sha_of_the_log(void **state) {
    (void)state;
    test_bytes log = {0};
    uvcci_record_writer w;
    uvcc_record_reader rd;
    uint8_t zero[32] = {0};
    uvcci_record_begin(&w, &(uvcc_recorder){.write = test_append, .user = &log});
    uvcci_record_put(&w, &(uvcc_record){.type = UVCC_RECORD_HEADER});
    uvcci_record_put(&w, &(uvcc_record){.type = UVCC_RECORD_RESULT});
    uvcci_sha256_update(&w.all, zero, 1);
    uvcci_record_put(&w, &(uvcc_record){.type = UVCC_RECORD_END, .data = {{zero, 32}}});
    assert_int_equal(uvcc_record_check(&rd, log.p, log.len), UVCC_ERR_FRAME);
    assert_int_equal(rd.index, 2);
    assert_non_null(strstr(rd.why, "SHA-256"));
    free(log.p);
}

/* Where types may not stand. */
static void test_grammar(void **state) {
    (void)state;
    static const struct {
        uint8_t types[4], refused;
    } cases[] = {
        {{UVCC_RECORD_START}, 0},
        {{UVCC_RECORD_END}, 0},
        {{UVCC_RECORD_HEADER, UVCC_RECORD_HEADER}, 1},
        {{UVCC_RECORD_HEADER, UVCC_RECORD_START}, 1},
        {{UVCC_RECORD_HEADER, UVCC_RECORD_END}, 1},
        {{UVCC_RECORD_HEADER, UVCC_RECORD_STEP_END}, 1},
        {{UVCC_RECORD_HEADER, UVCC_RECORD_RESULT, UVCC_RECORD_RESULT}, 2},
        {{UVCC_RECORD_HEADER, UVCC_RECORD_RESULT, UVCC_RECORD_RANDOM}, 2},
        {{UVCC_RECORD_HEADER, UVCC_RECORD_RESULT, UVCC_RECORD_STEP_END, UVCC_RECORD_STEP_END}, 3},
        {{UVCC_RECORD_HEADER, UVCC_RECORD_RESULT, UVCC_RECORD_START, UVCC_RECORD_START}, 3},
    };
    uint8_t zero[32] = {0};
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        test_bytes log = {0};
        uvcci_record_writer w;
        uvcci_record_begin(&w, &(uvcc_recorder){.write = test_append, .user = &log});
        for (unsigned k = 0; k < 4 && cases[i].types[k] != 0; k++) {
            uvcc_record r = {.type = cases[i].types[k]};
            if (strchr(uvcc_record_fields(r.type), 'H') != NULL)
                r.data[0] = r.data[1] = (uvcc_slice){zero, 32};
            uvcci_record_put(&w, &r);
        }
        uvcc_record_reader rd;
        assert_int_equal(uvcc_record_check(&rd, log.p, log.len), UVCC_ERR_FRAME);
        assert_int_equal(rd.index, cases[i].refused);
        assert_string_equal(rd.why, "it may not stand here");
        free(log.p);
    }
}

/* A record by hand: all of its numbers are 0 but one, its hashes too, its bytes none. */
static int one_number(uint8_t type, const char *number, uint64_t v, uvcc_record *out) {
    uint8_t b[128] = {0};
    size_t n = 1; /* its length comes here */
    b[n++] = type;
    for (const char *f = uvcc_record_fields(type); *f != '\0'; f++) {
        for (uint64_t left = f == number ? v : 0; left >= 0x80; left >>= 7)
            b[n++] = (uint8_t)(left | 0x80);
        if (f == number)
            b[n] = (uint8_t)(v >> (v == 0 ? 0 : (63 - (unsigned)__builtin_clzll(v)) / 7 * 7));
        n += *f == 'H' ? 32 : 1;
    }
    b[0] = (uint8_t)(n - 1);
    assert_true(n - 1 < 0x80 && n + 4 <= sizeof b);
    return uvcci_record_decode(b, n + 4, 0, out);
}

/* Each number of each type of record holds what its field holds, and what is larger is refused, not
 * cut. */
static void test_numbers(void **state) {
    (void)state;
    unsigned fields = 0;
    for (unsigned type = 0; type < 256; type++) {
        const char *all = uvcc_record_fields((uint8_t)type);
        for (const char *f = all; f != NULL && *f != '\0'; f++) {
            if (*f == 'H' || *f == 'D')
                continue;
            const uint64_t most = *f == 'p'                             ? UINT8_MAX
                                  : *f == 's' || *f == 'e' || *f == 'r' ? UINT32_MAX
                                                                        : UINT64_MAX;
            uvcc_record r;
            fields++;
            assert_int_equal(one_number((uint8_t)type, f, 0, &r), 0);
            assert_int_equal(one_number((uint8_t)type, f, most, &r), 0);
            assert_int_equal(r.type, type);
            const uint64_t have = *f == 'p'   ? r.peer
                                  : *f == 's' ? r.step
                                  : *f == 'e' ? r.entry
                                  : *f == 'i' ? r.id
                                  : *f == 'n' ? r.number
                                              : most;
            assert_int_equal(have, most);
            if (*f == 'r')
                assert_int_equal(r.status, INT32_MIN);
            if (*f == 't')
                assert_int_equal(r.now, (uint64_t)INT64_MIN);
            if (most != UINT64_MAX) {
                assert_int_equal(one_number((uint8_t)type, f, most + 1, &r), UVCC_ERR_FRAME);
                assert_int_equal(one_number((uint8_t)type, f, UINT64_MAX, &r), UVCC_ERR_FRAME);
            }
        }
    }
    assert_true(fields > 30);
}

/* Every member of the configuration is in the log; what a session does not use is not. */
static void test_config(void **state) {
    (void)state;
    uvcc_config in, out;
    uint8_t buf[UVCCI_RECORD_CONFIG_MAX];
    size_t len = uvcci_record_config_bytes();
    assert_true(len <= sizeof buf);
    memset(buf, 1, len);
    memset(&out, 0, sizeof out);
    assert_int_equal(uvcci_record_config_get(&out, buf, len), 0);
    size_t covered = 0;
    for (size_t i = 0; i < sizeof out; i++)
        covered += ((const uint8_t *)&out)[i] == 1;
    assert_int_equal(covered, len);
    /* The hooks, `size`, what groups reserve and the gaps between members are all that is left:
     * whoever adds a member to uvcc_config adds it to members[] in record.c, and here its gap, if
     * any. */
    size_t hooks = sizeof out.size + sizeof out.alloc + sizeof out.random + sizeof out.log +
                   sizeof out.record + sizeof out.trace + sizeof out.identity.reserved +
                   sizeof out.place.reserved + sizeof out.limits.reserved +
                   sizeof out.resume.reserved + sizeof out.checks.reserved +
                   sizeof out.triples.reserved + sizeof out.consent /* the log has its hash */ +
                   sizeof out.agree.name + sizeof out.agree.reserved + sizeof out.names +
                   sizeof out.threads;
    assert_in_range(sizeof out - hooks - len, 0, 36);

    assert_int_equal(uvcc_config_default(&in, sizeof in), 0);
    memset(in.identity.pair_secret, 7, sizeof in.identity.pair_secret);
    in.identity.party = 1;
    in.resume.next_run = 9;
    uvcci_record_config_put(&in, buf);
    memset(&out, 0, sizeof out);
    assert_int_equal(uvcci_record_config_get(&out, buf, len), 0);
    assert_int_equal(out.resume.next_run, 9);
    for (unsigned p = 0; p < 3; p++)
        assert_int_equal(out.identity.pair_secret[p][5], p == 1 ? 0 : 7);
    in.identity.exchange_x25519 = true;
    uvcci_record_config_put(&in, buf);
    assert_int_equal(uvcci_record_config_get(&out, buf, len), 0);
    for (unsigned p = 0; p < 3; p++)
        assert_int_equal(out.identity.pair_secret[p][5], 0);
    assert_int_equal(uvcci_record_config_get(&out, buf, len - 1), UVCC_ERR_MISMATCH);
    /* datagram, audit_off, exchange_x25519, triples_only, bundles, sks_refused, sks_override: bytes
     * that make no bool are refused, each alone */
    unsigned refused = 0;
    for (size_t i = 0; i < len; i++) {
        const uint8_t was = buf[i];
        buf[i] = 2;
        refused += uvcci_record_config_get(&out, buf, len) == UVCC_ERR_FRAME;
        buf[i] = was;
    }
    assert_int_equal(refused, 7);
}

/* ---- replays ---- */

static const uvcc_fault_config bad = {.drop = 0.2,
                                      .duplicate = 0.1,
                                      .reorder = 0.2,
                                      .corrupt = 0.1,
                                      .truncate = 0.05,
                                      .jitter_ns = 30000};
static const uvcc_fault_config bad_stream = {
    .split = 0.3, .coalesce = 0.2, .partial = 0.3, .disconnect = 0.02, .corrupt = 0.005};

static void test_replays(void **state) {
    (void)state;
    const triangle_options runs[] = {
        {.seed = 1},
        {.seed = 2, .mode = UVCC_CPU_DEFERRED, .compute_seed = 8, .suites = UVCC_SUITE_AES256_GCM},
        {.seed = 3, .mode = UVCC_CPU_THREADS},
        {.seed = 4, .datagram = true, .faulty = true, .faults = bad},
        {.seed = 5, .mode = UVCC_CPU_DEFERRED, .faulty = true, .faults = bad_stream},
        {.seed = 6, .datagram = true, .faulty = true, .faults = bad, .tweak = recorded_x25519},
        {.seed = 7, .audit_off = true},
    };
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    for (unsigned i = 0; i < sizeof runs / sizeof runs[0]; i++) {
        record_run(p, &runs[i], 3);
        for (unsigned k = 0; k < 3; k++) {
            uvcc_record_reader rd;
            uvcc_record header;
            uvcc_record_reader_init(&rd, logs[k].p, logs[k].len);
            assert_int_equal(uvcc_record_next(&rd, &header), 1);
            assert_int_equal(header.type, UVCC_RECORD_HEADER);
            assert_int_equal(header.data[2].len, sizeof app);
            assert_memory_equal(header.data[2].data, app, sizeof app);
            for (unsigned mode = 0; mode < 3; mode++)
                replays_equal(&logs[k], p, (uvcc_cpu_mode)mode, last_digest[k]);
            assert_int_equal(replay(&logs[k], p, UVCC_CPU_INLINE).result.steps, 3);
        }
    }
    forget_logs();
    uvcc_program_free(p);
    assert_int_equal(mem.live_blocks, 0);
}

/* What comes out, and only that, moves the digest of all outputs. */
static void test_outputs_are_digested(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    record_run(p, &(triangle_options){.seed = 1}, 1);
    uvcc_record_reader rd;
    uvcc_record r;
    uint8_t call = 0, last[UVCCI_RECORD_DIGEST_BYTES] = {0};
    unsigned seen[256] = {0};
    uvcc_record_reader_init(&rd, logs[1].p, logs[1].len);
    while (uvcc_record_next(&rd, &r) == 1) {
        bool out =
            r.status == 1 && (call == UVCC_RECORD_POLL_JOB || call == UVCC_RECORD_POLL_EVENT ||
                              call == UVCC_RECORD_POLL_TRANSMIT);
        out = out || (r.status == 0 && call == UVCC_RECORD_SHARES);
        if (r.type == UVCC_RECORD_RESULT) {
            assert_int_equal(r.data[0].len, out ? sizeof last : 0);
            if (out) {
                assert_memory_not_equal(r.data[0].data, last, sizeof last);
                memcpy(last, r.data[0].data, sizeof last);
                seen[call]++;
            }
        }
        if (r.type == UVCC_RECORD_END)
            assert_memory_equal(r.data[0].data, last, sizeof last);
        if (r.type >= UVCC_RECORD_LOAD_PROGRAM)
            call = r.type;
    }
    assert_int_equal(seen[UVCC_RECORD_SHARES], 1);
    assert_true(seen[UVCC_RECORD_POLL_JOB] > 5 && seen[UVCC_RECORD_POLL_EVENT] > 5 &&
                seen[UVCC_RECORD_POLL_TRANSMIT] > 5);
    forget_logs();
    uvcc_program_free(p);
}

static void test_until(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    record_run(p, &(triangle_options){.seed = 1}, 1);
    uint64_t n = count_records(&logs[1]), steps = 0;
    for (uint64_t until = 0; until < n; until += 1 + n / 60) {
        replayed r = replay_until(&logs[1], p, UVCC_CPU_DEFERRED, until);
        assert_int_equal(r.rc, 0);
        assert_true(r.result.equal > until);
        assert_true(r.result.equal < until + 8 || until < 8);
        assert_true(r.result.steps >= steps);
        steps = r.result.steps;
    }
    assert_int_equal(steps, 1);
    forget_logs();
    uvcc_program_free(p);
}

/* Bytes that were read straight into place stand in the log as those that were fed: it is the same
 * log to the byte, and a replay feeds them. */
static void test_in_place(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    test_bytes fed[3];
    triangle_options o = {.seed = 9, .wired = true, .ticks = true, .placing = TRIANGLE_FED_APART};
    record_run(p, &o, 2);
    assert_int_equal(triangle_in_place(), 0);
    memcpy(fed, logs, sizeof fed);
    memset(logs, 0, sizeof logs);
    o.placing = TRIANGLE_IN_PLACE;
    record_run(p, &o, 2);
    assert_true(triangle_in_place() > 1000);
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(logs[k].len, fed[k].len);
        assert_memory_equal(logs[k].p, fed[k].p, fed[k].len);
        replays_equal(&logs[k], p, UVCC_CPU_DEFERRED, last_digest[k]);
        free(fed[k].p);
    }
    forget_logs();
    uvcc_program_free(p);
}

/* So do those of a transmit's slices. */
static void test_slices(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    test_bytes fed[3];
    triangle_options o = {.seed = 9, .wired = true, .ticks = true};
    record_run(p, &o, 2);
    memcpy(fed, logs, sizeof fed);
    memset(logs, 0, sizeof logs);
    o.placing = TRIANGLE_SLICES;
    record_run(p, &o, 2);
    for (unsigned k = 0; k < 3; k++) {
        assert_int_equal(logs[k].len, fed[k].len);
        assert_memory_equal(logs[k].p, fed[k].p, fed[k].len);
        free(fed[k].p);
    }
    forget_logs();
    uvcc_program_free(p);
}

/* ---- changed logs ---- */

static void flip_data(uvcc_record *r, uint8_t *copy) {
    copy[r->data[0].len / 2] ^= 1;
}
static void one_less(uvcc_record *r, uint8_t *copy) {
    (void)copy;
    r->number--;
}
static void fail_status(uvcc_record *r, uint8_t *copy) {
    (void)copy;
    r->status = r->status == 0 ? -1 : 0;
}
static void other_number(uvcc_record *r, uint8_t *copy) {
    (void)copy;
    r->number ^= 1;
}
static void cut_data(uvcc_record *r, uint8_t *copy) {
    (void)copy;
    r->data[0].len -= r->data[0].len != 0;
}
static void end_of_time(uvcc_record *r, uint8_t *copy) {
    (void)copy;
    r->now = UVCC_NEVER;
}

/* Each n-th record of `type` from `first` on changed in turn: every replay must find a difference,
 * not before it. */
static void notices_from(const test_bytes *log, const uvcc_program *p, uint8_t type, unsigned every,
                         change how, const char *what, uint64_t first) {
    uvcc_record_reader rd;
    uvcc_record rec;
    unsigned seen = 0, tried = 0;
    uvcc_record_reader_init(&rd, log->p, log->len);
    while (uvcc_record_next(&rd, &rec) == 1) {
        if (rec.type != type || rec.index < first || (how == flip_data && rec.data[0].len == 0) ||
            seen++ % every != 0)
            continue;
        if (type == UVCC_RECORD_FEED && rec.offset >= told_at)
            break; /* ACKs: one of them lets the session close, and the others change nothing */
        tried++;
        test_bytes other = rewrite(log, rec.index, how);
        replayed r = replay(&other, p, UVCC_CPU_INLINE);
        if (r.rc != 1 || r.result.record < rec.index || r.result.what[0] == '\0' ||
            (what != NULL && strstr(r.result.what, what) == NULL))
            fail_msg("%s %llu changed: %d, record %llu at %llu: %s", uvcc_record_name(type),
                     (unsigned long long)rec.index, r.rc, (unsigned long long)r.result.record,
                     (unsigned long long)r.result.offset, r.result.what);
        uvcc_record_reader there;
        uvcc_record at;
        uvcc_record_reader_init(&there, other.p, other.len);
        do
            assert_int_equal(uvcc_record_next(&there, &at), 1);
        while (at.index != r.result.record);
        assert_int_equal(at.offset, r.result.offset);
        free(other.p);
    }
    assert_true(tried > 0);
}

static void notices(const test_bytes *log, const uvcc_program *p, uint8_t type, unsigned every,
                    change how, const char *what) {
    notices_from(log, p, type, every, how, what, 0);
}

static void test_changes_are_noticed(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    record_run(p, &(triangle_options){.seed = 1}, 2);
    notices(&logs[0], p, UVCC_RECORD_FEED, 3, flip_data, NULL);
    /* Random bytes before start() are the party's key to itself, on which here the values of one
     * party hang, and seeds of hash tables, on which nothing does. */
    uvcc_record_reader rd;
    uvcc_record rec;
    uvcc_record_reader_init(&rd, logs[0].p, logs[0].len);
    do
        assert_int_equal(uvcc_record_next(&rd, &rec), 1);
    while (rec.type != UVCC_RECORD_START);
    notices_from(&logs[0], p, UVCC_RECORD_RANDOM, 1, flip_data, NULL, rec.index);
    unsigned own = 0;
    for (unsigned i = 0; i < 3; i++) {
        test_bytes other = rewrite(&logs[i], 1, flip_data);
        own += replay(&other, p, UVCC_CPU_INLINE).rc == 1;
        free(other.p);
    }
    assert_int_equal(own, 1);
    notices(&logs[0], p, UVCC_RECORD_RANDOM, 1, one_less, "random bytes");
    notices(&logs[0], p, UVCC_RECORD_RESULT, 20, fail_status, "returned");
    notices(&logs[0], p, UVCC_RECORD_RESULT, 20, flip_data, "put out something else");
    notices(&logs[0], p, UVCC_RECORD_STEP_END, 1, flip_data, "digest after");
    notices(&logs[0], p, UVCC_RECORD_STEP_END, 1, other_number, NULL);
    notices(&logs[0], p, UVCC_RECORD_INPUT, 1, flip_data, NULL);
    notices(&logs[0], p, UVCC_RECORD_INPUT, 1, cut_data, NULL);
    notices(&logs[0], p, UVCC_RECORD_SET_SHARES, 1, cut_data, NULL);
    notices(&logs[0], p, UVCC_RECORD_COMPLETE, 5, other_number, NULL);
    notices(&logs[0], p, UVCC_RECORD_COMPLETE, 5, fail_status, NULL);
    notices(&logs[0], p, UVCC_RECORD_TRANSMIT_DONE, 5, other_number, NULL);
    notices(&logs[0], p, UVCC_RECORD_FEED, 5, end_of_time, NULL);
    notices(&logs[0], p, UVCC_RECORD_END, 1, flip_data, NULL);
    forget_logs();
    uvcc_program_free(p);
}

static void test_another_program(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20), *other = make_program(&mem, 21);
    record_run(p, &(triangle_options){.seed = 1}, 1);
    replayed r = replay(&logs[2], other, UVCC_CPU_INLINE);
    assert_int_equal(r.rc, UVCC_ERR_MISMATCH);
    assert_int_equal(r.result.equal, 0);
    assert_true(r.result.record > 0 && r.result.offset > 0);
    assert_string_equal(r.result.what, "the log is of another program");
    forget_logs();
    uvcc_program_free(p);
    uvcc_program_free(other);
}

/* ---- inputs of every kind ---- */

static int place_junk(uvcc_session *s, uint8_t peer, uint64_t r, uint64_t now) {
    uint8_t *at;
    size_t room = 0;
    if (uvcc_session_rx_buffer(s, peer, &at, &room) == 1)
        memset(at, 0x5a, room);
    return uvcc_session_rx_filled(s, peer, r % 3 == 0 ? room + r % 2 : r % (room + 1), now);
}

/* A hostile host: refused calls, wrong completions, times that go back, closed and opened streams.
 * The calls themselves are what is tested, so the triangle is not driven as others are: events
 * wait, and the driver may fail. */
static void test_odd_calls(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    uint64_t rnd = 11;
    for (unsigned seed = 0; seed < 12; seed++) {
        triangle t;
        uint8_t junk[700] = {0};
        int64_t x[ROWS * COLS] = {1, 2, 3}, v[ROWS * COLS] = {5};
        uint64_t lo[COLS * UNITS + ROWS * UNITS], hi[COLS * UNITS + ROWS * UNITS];
        forget_logs();
        triangle_open(&t, p,
                      &(triangle_options){
                          .seed = seed, .tweak = recorded_cancellable, .datagram = seed % 3 == 0});
        uvcc_session *s = t.s[seed % 3];
        for (unsigned turn = 0; turn < 150; turn++) {
            uint64_t r = test_rand(&rnd);
            uint64_t now = uvcc_loopback_now(t.net) + r % 1000 - 500;
            uint8_t peer = (uint8_t)(r >> 20) % 4;
            const uvcc_job *job;
            uvcc_transmit tx;
            uvcc_completion c = {.id = r >> 40, .cookie = 100 + seed % 3, .status = 0};
            switch ((r >> 32) % 21) {
            case 0:
                test_rand_bytes(&rnd, junk, sizeof junk);
                (void)uvcc_session_feed(s, peer, junk, r % sizeof junk, now);
                break;
            case 20: /* places that are refused, or full of junk */
                (void)place_junk(s, peer, r, now);
                break;
            case 1:
                (void)uvcc_session_peer_open_bound(s, peer, r % 2 != 0 ? junk : NULL, now);
                break;
            case 2:
                (void)uvcc_session_peer_closed(s, peer, now);
                break;
            case 3:
                (void)uvcc_session_on_timer(s, now);
                break;
            case 4:
                (void)uvcc_session_complete(s, &c, now);
                break;
            case 5:
                c.cookie++;
                (void)uvcc_session_complete(s, &c, now);
                break;
            case 6:
                (void)uvcc_session_transmit_done(s, peer, r, 5, now);
                break;
            case 7:
                (void)uvcc_session_step(s, (uint32_t)(r % 3), (uint32_t)(r >> 50) % 2, now);
                break;
            case 8:
                (void)uvcc_session_input(s, (uint32_t)(r % 2), IN_X, x, now);
                break;
            case 9:
                (void)uvcc_session_input(s, (uint32_t)(r % 2), 77, x, now);
                break;
            case 10:
                (void)uvcc_session_set_public(s, (uint32_t)(r % 4), v);
                break;
            case 11:
                (void)uvcc_session_set_shares(s, 1, (const uint64_t *)v, (const uint64_t *)v);
                break;
            case 12:
                (void)uvcc_session_resume(s, junk, r % sizeof junk);
                (void)uvcc_session_shares(s, (uint32_t)(r % 2), lo, hi);
                break;
            case 13: /* lost */
                if (uvcc_session_poll_transmit(s, &tx, now) == 1)
                    (void)uvcc_session_transmit_done(s, tx.peer, tx.id, 0, now);
                break;
            case 14: /* a job that fails, or is told twice */
                if (r % 5 == 0 && uvcc_session_poll_job(s, &job) == 1) {
                    c = (uvcc_completion){job->id, job->cookie, UVCC_ERR_JOB};
                    (void)uvcc_session_complete(s, &c, now);
                    (void)uvcc_session_complete(s, &c, now);
                }
                break;
            case 15:
                if (turn > 120)
                    (void)uvcc_session_close(s, now);
                break;
            case 16:
                if (turn > 140)
                    (void)uvcc_session_abort(s, (uint16_t)(r % 5), now);
                break;
            case 17:
                (void)uvcc_session_load_program(s, p);
                break;
            case 18:
                (void)uvcc_session_cancel(s, (uint32_t)(r % 3), now);
                break;
            default:
                (void)uvcc_session_start(s, now);
                break;
            }
            uvcc_event event;
            for (unsigned i = 0; turn % 2 == 0 && i < 3; i++)
                while (uvcc_session_poll_event(t.s[i], &event) == 1)
                    ;
            (void)uvcc_loopback_drive(t.net, t.s, t.cpu, 3); /* may find that a call was hostile */
        }
        triangle_free(&t);
        for (unsigned k = 0; k < 3; k++)
            replays_equal(&logs[k], p, (uvcc_cpu_mode)((seed + k) % 3), NULL);
    }
    forget_logs();
    uvcc_program_free(p);
}

/* A step that is dropped, wherever it is asked for, is dropped in the replay. */
static void test_cancelled_steps(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    const int64_t x[ROWS * COLS] = {1, 2, 3};
    uint64_t dropped = 0;
    for (unsigned turns = 0; turns < 4; turns++) {
        triangle t;
        forget_logs();
        triangle_open(&t, p, &(triangle_options){.seed = turns, .tweak = recorded_cancellable});
        triangle_ready(&t);
        triangle_agree(&t, 0, 0);
        triangle_input(&t, 0, 0, IN_X, x);
        for (unsigned k = 0; k < turns; k++)
            (void)triangle_turn(&t);
        (void)uvcc_session_cancel(t.s[turns % 3], 0, triangle_now(&t));
        uvcc_session_stats st = {0};
        while (st.steps_cancelled + st.steps_finished == 0) {
            assert_true(triangle_turn(&t));
            uvcc_session_get_stats(t.s[turns % 3], &st);
        }
        dropped += st.steps_cancelled;
        while (t.bundles[0] + t.bundles[1] + t.bundles[2] < 3)
            assert_true(triangle_turn(&t));
        triangle_close(&t);
        triangle_free(&t);
        for (unsigned k = 0; k < 3; k++)
            replays_equal(&logs[k], p, UVCC_CPU_INLINE, NULL);
    }
    assert_true(dropped != 0);
    forget_logs();
    uvcc_program_free(p);
}

/* From a checkpoint: resume() is an input too. */
static void resuming(uvcc_config *c) {
    recorded(c);
    c->resume.next_run = 1;
}

static void test_resume(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    test_bytes kept[3] = {{0}, {0}, {0}};
    triangle t;
    triangle_open(&t, p, &(triangle_options){.seed = 1, .tweak = recorded});
    play_steps(&t, 1);
    for (unsigned i = 0; i < 3; i++) {
        uint32_t step;
        const uint8_t *data;
        size_t len;
        while (uvcc_session_checkpoint(t.s[i], &step, &data, &len) != 0)
            assert_true(triangle_turn(&t));
        assert_int_equal(step, 1);
        test_append(&kept[i], data, len);
    }
    triangle_free(&t);
    forget_logs();
    triangle_make(&t, p, &(triangle_options){.seed = 2, .tweak = resuming});
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_resume(t.s[i], kept[i].p, kept[i].len), 0);
    triangle_start(&t);
    triangle_ready(&t);
    int64_t x[ROWS * COLS] = {4096};
    triangle_agree(&t, 1, 0);
    triangle_input(&t, 0, 1, IN_X, x);
    triangle_finish(&t, 1);
    triangle_close(&t);
    triangle_free(&t);
    for (unsigned i = 0; i < 3; i++) {
        replays_equal(&logs[i], p, UVCC_CPU_DEFERRED, NULL);
        notices(&logs[i], p, UVCC_RECORD_RESUME, 1, flip_data, "RESUME returned");
        free(kept[i].p);
    }
    forget_logs();
    uvcc_program_free(p);
}

/* ---- hooks that fail ---- */

typedef struct failing {
    test_alloc mem;
    uint64_t rnd;
    unsigned random_left;
} failing;

static int fill_some(void *user, void *out, size_t n) {
    failing *f = user;
    if (f->random_left-- == 0)
        return -7;
    test_rand_bytes(&f->rnd, out, n);
    return 0;
}

/* One party without peers: new, load, start, set, some calls, free. */
static void lonely(failing *f, const uvcc_program *p) {
    uvcc_session *s = NULL;
    uvcc_transmit tx;
    uvcc_config c = triangle_config_alone(&f->mem, &f->rnd);
    c.random = (uvcc_random){.fill = fill_some, .user = f};
    c.links.datagram = true;
    recorded(&c);
    forget_logs();
    if (uvcc_session_new(&s, &c) == 0) {
        (void)uvcc_session_load_program(s, p);
        (void)uvcc_session_set_public(s, 0, weights);
        (void)uvcc_session_start(s, 5);
        for (uint64_t now = 10; now < 2000000000; now += 100000000)
            if (uvcc_session_poll_transmit(s, &tx, now) == 1)
                (void)uvcc_session_transmit_done(s, tx.peer, tx.id, tx.total, now);
        (void)uvcc_session_feed(s, 1, (const uint8_t *)"x", 1, 20);
        (void)uvcc_session_abort(s, UVCC_ABORT_MEMORY, 21);
        (void)uvcc_session_close(s, 22);
        uvcc_session_free(s);
    }
    assert_int_equal(f->mem.live_blocks, 0);
}

static void test_failing_hooks(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_program *p = make_program(&mem, 20);
    failing f = {.random_left = UINT32_MAX};
    lonely(&f, p);
    size_t calls = f.mem.calls;
    assert_true(calls > 10);
    for (size_t i = 1; i <= calls; i++) {
        f = (failing){.random_left = UINT32_MAX, .mem = {.fail_at = i}};
        lonely(&f, p);
        if (i == 1)
            assert_int_equal(logs[0].len, 0); /* the recording's own block */
        else
            replays_equal(&logs[0], p, UVCC_CPU_INLINE, NULL);
    }
    for (unsigned i = 0; i < 8; i++) {
        f = (failing){.random_left = i};
        lonely(&f, p);
        replays_equal(&logs[0], p, UVCC_CPU_INLINE, NULL);
    }
    forget_logs();
    uvcc_program_free(p);
}

/* Memory that fails in the replay only is an error or a difference, and nothing leaks. */
static void test_replay_without_memory(void **state) {
    (void)state;
    test_alloc mem = {0}, xmem = {0};
    uvcc_program *p = make_program(&mem, 20);
    record_run(p, &(triangle_options){.seed = 1}, 1);
    uvcc_cpu_config x = {.size = sizeof x, .alloc = test_allocator(&xmem)};
    uvcc_cpu *cpu;
    assert_int_equal(uvcc_cpu_new(&cpu, &x), 0);
    size_t calls = 0, failed = 0;
    for (size_t i = 0; i == 0 || i <= calls; i += 1 + i / 16) {
        test_alloc m = {.fail_at = i};
        uvcc_replay_options opt = {
            .size = sizeof opt, .alloc = test_allocator(&m), .executor = cpu, .until = UVCC_NEVER};
        uvcc_replay_result r;
        int rc = uvcc_replay(logs[0].p, logs[0].len, p, &opt, &r);
        if (i == 0)
            calls = m.calls;
        if (rc == 0) /* also where freeing could have done with more */
            assert_int_equal(r.equal, r.records);
        else
            assert_true(rc == UVCC_ERR_NOMEM || rc == 1);
        failed += rc != 0;
        assert_int_equal(m.live_blocks, 0);
    }
    assert_true(failed > 20);
    uvcc_replay_result r;
    uvcc_replay_options opt = {
        .size = sizeof opt, .alloc = test_allocator(&mem), .executor = cpu, .until = UVCC_NEVER};
    assert_int_equal(uvcc_replay(NULL, 0, p, &opt, &r), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_replay(logs[0].p, 9, NULL, &opt, &r), UVCC_ERR_USAGE);
    opt.size = 0;
    assert_int_equal(uvcc_replay(logs[0].p, 9, p, &opt, &r), UVCC_ERR_USAGE);
    uvcc_cpu_free(cpu);
    forget_logs();
    uvcc_program_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),      cmocka_unit_test(test_cut_and_flipped),
        cmocka_unit_test(test_sha_of_the_log),  cmocka_unit_test(test_grammar),
        cmocka_unit_test(test_numbers),         cmocka_unit_test(test_config),
        cmocka_unit_test(test_replays),         cmocka_unit_test(test_outputs_are_digested),
        cmocka_unit_test(test_until),           cmocka_unit_test(test_in_place),
        cmocka_unit_test(test_slices),          cmocka_unit_test(test_changes_are_noticed),
        cmocka_unit_test(test_another_program), cmocka_unit_test(test_odd_calls),
        cmocka_unit_test(test_cancelled_steps), cmocka_unit_test(test_resume),
        cmocka_unit_test(test_failing_hooks),   cmocka_unit_test(test_replay_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
