/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_record.c - logs of sessions (uvcc/record.h).
 *
 * Bytes as a log: what the reader takes, the writer makes again byte for byte. And as a program:
 * its bytes make calls of a recorded session without peers, whose log must replay equal; then they
 * change records of that log, under right checksums, and the replay must come to an end with an
 * answer. */
#include "common.h"

#include "exec/session/record.h"
#include <uvcc/uvcc.h>

enum { CALLS_MAX = 60, CHANGES_MAX = 6, ROWS = 2, COLS = 2 };
#define MEMORY_MAX (UINT64_C(64) << 20)

typedef struct bytes {
    uint8_t *p;
    size_t len, room;
} bytes;

static void append(void *user, const uint8_t *p, size_t len) {
    bytes *b = user;
    if (len > b->room - b->len) {
        b->room = 2 * (b->len + len) + 4096;
        b->p = realloc(b->p, b->room);
        if (b->p == NULL)
            abort();
    }
    if (len != 0)
        memcpy(b->p + b->len, p, len);
    b->len += len;
}

/* ---- any bytes ---- */

static void as_log(const uint8_t *data, size_t size) {
    uvcc_record_reader rd;
    uvcc_record r;
    uvcci_record_writer w;
    bytes out = {0};
    uint8_t *log = fuzz_copy(data, size);
    int rc;
    uvcci_record_begin(&w, &(uvcc_recorder){.write = append, .user = &out});
    uvcc_record_reader_init(&rd, log, size);
    while ((rc = uvcc_record_next(&rd, &r)) == 1) {
        FUZZ_CHECK(r.offset + r.bytes == rd.offset && rd.offset <= size && rd.index == r.index + 1);
        FUZZ_CHECK(uvcc_record_name(r.type) != NULL);
        uvcci_record_put(&w, &r);
        FUZZ_CHECK(r.type == UVCC_RECORD_END ||
                   (out.len == rd.offset && memcmp(out.p, log, out.len) == 0));
    }
    FUZZ_CHECK(rc == 0 || (rc == UVCC_ERR_FRAME && rd.why != NULL && rd.offset <= size));
    rc = uvcc_record_check(&rd, log, size);
    FUZZ_CHECK(rc != 0 || (out.len == size && memcmp(out.p, log, size) == 0));
    free(out.p);
    free(log);
}

/* Bodies of records, given checksums: the fuzzer need not find CRCs. */
static void as_bodies(fuzz_in *in) {
    bytes log = {0};
    uvcci_record_writer w;
    uint8_t body[600];
    uvcci_record_begin(&w, &(uvcc_recorder){.write = append, .user = &log});
    while (in->left != 0) {
        size_t n, want = fuzz_u8(in);
        const uint8_t *p = fuzz_take(in, want, &n);
        uvcc_record r;
        size_t head = 0;
        body[head++] = (uint8_t)(n & 0x7f) | (n > 0x7f ? 0x80 : 0);
        if (n > 0x7f)
            body[head++] = (uint8_t)(n >> 7);
        memcpy(body + head, p, n);
        memset(body + head + n, 0, 4);
        if (uvcci_record_decode(body, head + n + 4, w.now, &r) == 0)
            uvcci_record_put(&w, &r);
    }
    as_log(log.p, log.len);
    free(log.p);
}

/* ---- a session's log ---- */

static uvcc_program *make_program(const uvcc_allocator *al) {
    uvcc_program *p;
    if (uvcc_program_new(&p, al) != 0)
        abort();
    uvcc_tensor_desc t = {.name = "W",
                          .rows = ROWS,
                          .cols = COLS,
                          .bits = 20,
                          .lifetime = UVCC_PERSIST,
                          .in_buffer_of = UVCC_NO_TENSOR};
    int w = uvcc_program_tensor(p, &t);
    t.name = "X";
    t.lifetime = UVCC_TRANSIENT;
    int x = uvcc_program_tensor(p, &t);
    t.name = "Y";
    t.bits = 21;
    int y = uvcc_program_tensor(p, &t);
    uvcc_op_desc add = {.opcode = UVCC_OP_ADD,
                        .in_count = 2,
                        .out_count = 1,
                        .in = {(uint32_t)w, (uint32_t)x},
                        .out = {(uint32_t)y}};
    if (w < 0 || x < 0 || y < 0 || uvcc_program_entry(p, "run") < 0 ||
        uvcc_program_input(p, 1, (uint32_t)x, 0) < 0 || uvcc_program_op(p, &add) < 0 ||
        uvcc_program_output(p, 2, (uint32_t)y) < 0 || uvcc_program_finish(p, NULL, 0) != 0)
        abort();
    return p;
}

static void one_call(fuzz_in *in, uvcc_session *s, uvcc_cpu *cpu, const uvcc_program *p,
                     uint64_t *now) {
    static const int64_t values[ROWS * COLS] = {1, -2, 300, 4};
    static const uint64_t share[ROWS * COLS] = {5, 6, 7, 8};
    uint8_t what = fuzz_u8(in), peer = fuzz_u8(in) % 4;
    uvcc_transmit tx;
    uvcc_event event;
    uvcc_completion c;
    const uvcc_job *job;
    size_t n;
    *now += (uint64_t)fuzz_u8(in) * FUZZ_MS;
    switch (what % 16) {
    case 0: {
        const uint8_t *data = fuzz_take(in, fuzz_u8(in), &n);
        uint8_t *copy = fuzz_copy(data, n);
        (void)uvcc_session_feed(s, peer, copy, n, *now);
        free(copy);
        break;
    }
    case 1:
        (void)uvcc_session_peer_open(s, peer, *now);
        break;
    case 2:
        (void)uvcc_session_peer_closed(s, peer, *now);
        break;
    case 3:
        (void)uvcc_session_on_timer(s, *now - FUZZ_MS);
        break;
    case 4:
        while (uvcc_cpu_poll(cpu, &c) == 1)
            (void)uvcc_session_complete(s, &c, *now);
        break;
    case 5:
        c = (uvcc_completion){.id = fuzz_u8(in), .cookie = peer, .status = UVCC_ERR_JOB};
        (void)uvcc_session_complete(s, &c, *now);
        break;
    case 6:
        if (uvcc_session_poll_transmit(s, &tx, *now) == 1)
            (void)uvcc_session_transmit_done(s, tx.peer, tx.id, what & 16 ? tx.total : 0, *now);
        break;
    case 7:
        if (uvcc_session_poll_job(s, &job) == 1 && uvcc_cpu_submit(cpu, job) != 0)
            abort();
        break;
    case 8:
        (void)uvcc_session_poll_event(s, &event);
        break;
    case 9:
        (void)uvcc_session_step(s, peer, fuzz_u8(in) % 2, *now);
        break;
    case 10:
        (void)uvcc_session_input(s, peer, 1, values, *now);
        break;
    case 11:
        (void)uvcc_session_set_public(s, peer, values);
        break;
    case 12:
        (void)uvcc_session_set_shares(s, peer, share, share);
        break;
    case 13:
        (void)uvcc_session_resume(s, (const uint8_t *)values, sizeof values);
        break;
    case 14:
        (void)(what & 16 ? uvcc_session_load_program(s, p) : uvcc_session_start(s, *now));
        break;
    default:
        (void)(what & 128  ? uvcc_session_abort(s, peer, *now)
               : what & 64 ? uvcc_session_close(s, *now)
                           : uvcc_session_transmit_done(s, peer, what, 1, *now));
        break;
    }
}

static bytes record(fuzz_in *in, const uvcc_program *p) {
    fuzz_mem mem = {.limit = MEMORY_MAX}, xmem = {0};
    fuzz_rng rng = {.state = 7};
    bytes log = {0};
    uvcc_session *s;
    uvcc_cpu *cpu;
    uvcc_config c;
    uint8_t how = fuzz_u8(in);
    uvcc_cpu_config x = {.size = sizeof x, .alloc = fuzz_allocator(&xmem)};
    if (uvcc_cpu_new(&cpu, &x) != 0 || uvcc_config_default(&c, sizeof c) != 0)
        abort();
    rng.fail_in = how & 1 ? fuzz_u8(in) : 0;
    mem.fail_in = how & 2 ? fuzz_u8(in) : 0;
    c.alloc = fuzz_allocator(&mem);
    c.random = fuzz_random(&rng);
    c.links.datagram = (how & 4) != 0;
    c.checks.audit_off = (how & 8) != 0;
    c.resume.checkpoint_every = how >> 4 & 1;
    c.identity.party = how >> 6;
    for (unsigned q = 0; q < 3; q++)
        memset(c.identity.pair_secret[q], 1 + (int)q, 32);
    memset(c.identity.sid_job, 5, 32);
    memset(c.identity.sign_seed, 7, 32);
    c.record = (uvcc_recorder){.write = append, .user = &log};
    if (uvcc_session_new(&s, &c) == 0) {
        uint64_t now = FUZZ_MS;
        if ((how & 32) == 0 && uvcc_session_load_program(s, p) == 0)
            (void)uvcc_session_start(s, now);
        for (unsigned i = 0; i < CALLS_MAX && in->left > CHANGES_MAX; i++)
            one_call(in, s, cpu, p, &now);
        uvcc_cpu_free(cpu);
        uvcc_session_free(s);
    } else {
        uvcc_cpu_free(cpu);
    }
    FUZZ_CHECK(mem.live_blocks == 0 && xmem.live_blocks == 0);
    return log;
}

static int replay(const bytes *log, const uvcc_program *p, uvcc_replay_result *out) {
    fuzz_mem mem = {.limit = MEMORY_MAX}, xmem = {0};
    uvcc_cpu *cpu;
    uvcc_cpu_config x = {
        .size = sizeof x, .alloc = fuzz_allocator(&xmem), .mode = UVCC_CPU_DEFERRED};
    if (uvcc_cpu_new(&cpu, &x) != 0)
        abort();
    uvcc_replay_options opt = {
        .size = sizeof opt, .alloc = fuzz_allocator(&mem), .executor = cpu, .until = UVCC_NEVER};
    uint8_t *exact = fuzz_copy(log->p, log->len);
    int rc = uvcc_replay(exact, log->len, p, &opt, out);
    free(exact);
    FUZZ_CHECK(uvcc_cpu_pending(cpu) == 0);
    uvcc_cpu_free(cpu);
    FUZZ_CHECK(mem.live_blocks == 0 && xmem.live_blocks == 0);
    return rc;
}

/* One record of the log changed, left out or doubled. */
static bytes change(fuzz_in *in, const bytes *log) {
    bytes out = {0};
    uvcci_record_writer w;
    uvcc_record_reader rd;
    uvcc_record r;
    uint64_t at = fuzz_u16(in);
    uint8_t what = fuzz_u8(in);
    uint64_t value = fuzz_u64(in) >> fuzz_u8(in) % 64;
    uvcc_record_reader_init(&rd, log->p, log->len);
    uvcci_record_begin(&w, &(uvcc_recorder){.write = append, .user = &out});
    while (uvcc_record_next(&rd, &r) == 1) {
        uint8_t *copy = NULL;
        unsigned d = what >> 4 & 1; /* the header's configuration is data[1] */
        if (r.index == at || (r.index > at && r.type == UVCC_RECORD_END && at >= rd.index)) {
            switch (what % 8) {
            case 0:
                continue;
            case 1:
                uvcci_record_put(&w, &r);
                break;
            case 2:
                r.now = value;
                r.number ^= value;
                break;
            case 3:
                r.id = value;
                r.step = (uint32_t)value;
                break;
            case 4:
                r.peer = (uint8_t)value;
                r.entry = (uint32_t)value;
                r.status = (int32_t)(uint32_t)value;
                break;
            case 5:
                if (strchr(uvcc_record_fields(r.type), 'H') == NULL && r.data[d].len != 0)
                    r.data[d].len = (size_t)(value % r.data[d].len);
                break;
            default:
                copy = fuzz_copy(r.data[d].data, r.data[d].len);
                if (r.data[d].len != 0)
                    copy[value % r.data[d].len] ^= (uint8_t)(what | 1);
                r.data[d].data = copy;
                break;
            }
        }
        uvcci_record_put(&w, &r);
        free(copy);
    }
    return out;
}

static void as_session(fuzz_in *in) {
    fuzz_mem mem = {0};
    uvcc_allocator al = fuzz_allocator(&mem);
    uvcc_program *p = make_program(&al);
    uvcc_replay_result r;
    bytes log = record(in, p);
    if (log.len != 0) { /* else there was no memory to record with */
        FUZZ_CHECK(replay(&log, p, &r) == 0 && r.equal == r.records);
        for (unsigned i = 0; i < CHANGES_MAX && in->left != 0; i++) {
            bytes other = change(in, &log);
            int rc = replay(&other, p, &r);
            FUZZ_CHECK(rc == 0 || r.what[0] != '\0' || rc == UVCC_ERR_NOMEM);
            free(other.p);
        }
    }
    free(log.p);
    uvcc_program_free(p);
    FUZZ_CHECK(mem.live_blocks == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in = {data, size};
    switch (fuzz_u8(&in) % 3) {
    case 0:
        as_log(in.at, in.left);
        break;
    case 1:
        as_bodies(&in);
        break;
    default:
        as_session(&in);
        break;
    }
    return 0;
}
