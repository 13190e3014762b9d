/* SPDX-License-Identifier: Apache-2.0 */
/* record.c - the codec of session logs (uvcc/record.h): a writer over a hook and a reader over
 * bytes.
 *
 * One table, records.def, says which fields a type has; both directions walk its letters. The
 * encoding is canonical: a record that the reader takes is the one that the writer makes of it. */
#include "exec/session/record.h"

#include "proto/bytes.h"
#include "proto/crc.h"
#include <assert.h>
#include <string.h>

enum { MAGIC_BYTES = 8, CRC_BYTES = 4, VARINT_MAX = 10 };
static const uint8_t magic[MAGIC_BYTES] = "uvcclog\1";

const char *uvcc_record_name(uint8_t type) {
    switch (type) {
#define UVCC_RECORD(name, code, fields, what)                                                      \
    case code:                                                                                     \
        return #name;
#include <uvcc/records.def>
#undef UVCC_RECORD
    default:
        return NULL;
    }
}

const char *uvcc_record_fields(uint8_t type) {
    switch (type) {
#define UVCC_RECORD(name, code, fields, what)                                                      \
    case code:                                                                                     \
        return fields;
#include <uvcc/records.def>
#undef UVCC_RECORD
    default:
        return NULL;
    }
}

/* ---- numbers ---- */

/* Differences and statuses: small ones of either sign are short. */
static uint64_t fold(uint64_t v) {
    return v << 1 ^ (0 - (v >> 63));
}
static uint64_t unfold(uint64_t v) {
    return v >> 1 ^ (0 - (v & 1));
}

static size_t varint_bytes(uint64_t v) {
    size_t n = 1;
    while ((v >>= 7) != 0)
        n++;
    return n;
}

static size_t varint_put(uint8_t *out, uint64_t v) {
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (uint8_t)(v | 0x80);
    out[n++] = (uint8_t)v;
    assert(n <= VARINT_MAX);
    return n;
}

/* The shortest form only. */
static uint64_t varint_get(uvcci_reader *r) {
    uint64_t v = 0;
    for (unsigned i = 0; i < VARINT_MAX; i++) {
        uint8_t b = uvcci_get8(r);
        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if ((b & 0x80) == 0) {
            if ((b == 0 && i > 0) || (i == VARINT_MAX - 1 && b > 1))
                break;
            return v;
        }
    }
    r->bad = true;
    return 0;
}

/* ---- fields ---- */

/* The number that a field letter stands for; D and H are bytes. */
static uint64_t field_value(const uvcc_record *r, uint64_t before, char field) {
    switch (field) {
    case 't':
        return fold(r->now - before);
    case 'p':
        return r->peer;
    case 'i':
        return r->id;
    case 'n':
        return r->number;
    case 's':
        return r->step;
    case 'e':
        return r->entry;
    default:
        assert(field == 'r');
        return fold((uint64_t)(int64_t)r->status);
    }
}

/* The other way round; *bad: the number is too large for its field, or another one stands for the
 * same value. */
static void set_field(uvcc_record *r, uint64_t v, char field, bool *bad) {
    switch (field) {
    case 't':
        r->now += unfold(v);
        return;
    case 'i':
        r->id = v;
        return;
    case 'n':
        r->number = v;
        return;
    case 'p':
        r->peer = (uint8_t)v;
        *bad |= v > UINT8_MAX;
        return;
    case 's':
        r->step = (uint32_t)v;
        *bad |= v > UINT32_MAX;
        return;
    case 'e':
        r->entry = (uint32_t)v;
        *bad |= v > UINT32_MAX;
        return;
    default:
        assert(field == 'r');
        r->status = (int32_t)(uint32_t)unfold(v);
        *bad |= fold((uint64_t)(int64_t)r->status) != v;
        return;
    }
}

/* ---- writing ---- */

static void flush(uvcci_record_writer *w) {
    if (w->small_len != 0)
        w->hook.write(w->hook.user, w->small, w->small_len);
    w->small_len = 0;
}

static void put(uvcci_record_writer *w, const void *bytes, size_t len) {
    assert(w->small_len <= sizeof w->small && (bytes != NULL || len == 0));
    if (len > sizeof w->small - w->small_len)
        flush(w);
    if (len > sizeof w->small)
        w->hook.write(w->hook.user, bytes, len);
    else if (len != 0)
        memcpy(w->small + w->small_len, bytes, len);
    w->small_len += len > sizeof w->small ? 0 : len;
    uvcci_sha256_update(&w->all, bytes, len);
    w->crc = uvcci_crc32(w->crc, bytes, len);
}

static void put_number(uvcci_record_writer *w, uint64_t v) {
    uint8_t b[VARINT_MAX];
    put(w, b, varint_put(b, v));
}

static uint32_t crc_begin(uint64_t index) {
    uint8_t b[8];
    uvcci_st64(b, index);
    return uvcci_crc32(0, b, sizeof b);
}

void uvcci_record_begin(uvcci_record_writer *w, const uvcc_recorder *hook) {
    memset(w, 0, sizeof *w);
    w->hook = *hook;
    uvcci_sha256_init(&w->all);
    put(w, magic, sizeof magic);
}

/* The length stands first, so the fields are walked twice. What is short is gathered, so that a
 * record without long bytes reaches the hook in one piece. */
void uvcci_record_put(uvcci_record_writer *w, const uvcc_record *r) {
    const char *fields = uvcc_record_fields(r->type);
    assert(fields != NULL);
    uvcc_record whole = *r;
    uint8_t all[32];
    if (r->type == UVCC_RECORD_END) {
        uvcci_sha256 h = w->all;
        uvcci_sha256_final(&h, all);
        whole.data[1] = (uvcc_slice){all, sizeof all};
    }
    uint64_t bytes = 1;
    const uvcc_slice *d = whole.data;
    for (const char *f = fields; *f != '\0'; f++) {
        bool view = *f == 'H' || *f == 'D';
        assert(*f != 'H' || d->len == 32);
        if (*f != 'H')
            bytes += varint_bytes(view ? d->len : field_value(&whole, w->now, *f));
        if (view)
            bytes += (d++)->len;
    }
    w->crc = crc_begin(w->index++);
    put_number(w, bytes);
    put(w, &whole.type, 1);
    d = whole.data;
    for (const char *f = fields; *f != '\0'; f++) {
        if (*f == 'H' || *f == 'D') {
            if (*f == 'D')
                put_number(w, d->len);
            put(w, d->data, d->len);
            d++;
            continue;
        }
        put_number(w, field_value(&whole, w->now, *f));
        if (*f == 't')
            w->now = whole.now;
    }
    uint8_t crc[CRC_BYTES];
    uvcci_st32(crc, w->crc);
    put(w, crc, sizeof crc);
    flush(w);
    assert(w->small_len == 0);
}

/* ---- reading ---- */

/* Type and fields; the reader stands behind the length. */
static bool decode(uvcci_reader *in, uint64_t now, uvcc_record *out) {
    memset(out, 0, sizeof *out);
    out->now = now;
    out->type = uvcci_get8(in);
    const char *fields = uvcc_record_fields(out->type);
    if (in->bad || fields == NULL)
        return false;
    uvcc_slice *d = out->data;
    for (; *fields != '\0' && !in->bad; fields++) {
        if (*fields == 'H' || *fields == 'D') {
            uint64_t len = *fields == 'H' ? 32 : varint_get(in);
            in->bad |= len > in->len - in->at;
            if (in->bad)
                break;
            *d++ = (uvcc_slice){in->p + in->at, (size_t)len};
            in->at += (size_t)len;
        } else {
            set_field(out, varint_get(in), *fields, &in->bad);
        }
    }
    return !in->bad && in->at == in->len;
}

int uvcci_record_decode(const uint8_t *bytes, size_t len, uint64_t now, uvcc_record *out) {
    uvcci_reader in = uvcci_reader_on(bytes, len);
    uint64_t body = varint_get(&in);
    if (in.bad || len - in.at < CRC_BYTES || body != len - in.at - CRC_BYTES)
        return UVCC_ERR_FRAME;
    in.len -= CRC_BYTES;
    if (!decode(&in, now, out))
        return UVCC_ERR_FRAME;
    out->bytes = len;
    return 0;
}

void uvcc_record_reader_init(uvcc_record_reader *r, const uint8_t *log, size_t len) {
    if (r == NULL)
        return;
    *r = (uvcc_record_reader){.bytes = log, .len = len};
}

/* HEADER, then calls: each a record of its own (that of uvcc_session_new is the HEADER), what its
 * hooks did, its RESULT, and maybe STEP_END. */
static bool may_stand(const uvcc_record_reader *r, uint8_t type) {
    switch (type) {
    case UVCC_RECORD_HEADER:
        return r->index == 0;
    case UVCC_RECORD_RANDOM:
    case UVCC_RECORD_NOMEM:
    case UVCC_RECORD_RESULT:
        return r->in_call;
    case UVCC_RECORD_STEP_END:
        return r->last_type == UVCC_RECORD_RESULT;
    default:
        return r->index != 0 && !r->in_call;
    }
}

static int refuse(uvcc_record_reader *r, const char *why) {
    r->why = why;
    return UVCC_ERR_FRAME;
}

/* A cut log is told from a damaged one where that can be known: a host may keep what stands before
 * the cut. Nothing of a refused record reaches *r but the reason. */
int uvcc_record_next(uvcc_record_reader *r, uvcc_record *out) {
    if (r == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    static const char cut[] = "the log ends within it";
    size_t at = (size_t)r->offset;
    if (r->last_type == UVCC_RECORD_END)
        return 0;
    if (r->index == 0) {
        if (r->len < MAGIC_BYTES || memcmp(r->bytes, magic, MAGIC_BYTES) != 0)
            return refuse(r, "this is no session log, or one of another format");
        at = MAGIC_BYTES;
    }
    assert(at <= r->len);
    if (at == r->len)
        return refuse(r, "the log ends without its END record");
    uvcci_reader in = uvcci_reader_on(r->bytes + at, r->len - at);
    uint64_t body = varint_get(&in);
    if (in.bad)
        return refuse(r, in.at >= in.len ? cut : "its length is malformed");
    if (in.len - in.at < CRC_BYTES || body > in.len - in.at - CRC_BYTES)
        return refuse(r, cut);
    size_t bytes = in.at + (size_t)body + CRC_BYTES;
    uint32_t crc = uvcci_crc32(crc_begin(r->index), in.p, bytes - CRC_BYTES);
    if (crc != uvcci_ld32(in.p + bytes - CRC_BYTES))
        return refuse(r, "its checksum is wrong");
    in.len = bytes - CRC_BYTES;
    if (!decode(&in, r->now, out))
        return refuse(r, "its fields are malformed");
    if (out->type == UVCC_RECORD_RESULT && out->data[0].len != 0 &&
        out->data[0].len != UVCCI_RECORD_DIGEST_BYTES)
        return refuse(r, "its digest is malformed");
    if (!may_stand(r, out->type))
        return refuse(r, "it may not stand here");
    if (out->type == UVCC_RECORD_END && at + bytes != r->len)
        return refuse(r, "bytes follow the END record");
    out->index = r->index;
    out->offset = at;
    out->bytes = bytes;
    r->offset = at + bytes;
    r->index++;
    r->now = out->now;
    r->last_type = out->type;
    if (out->type == UVCC_RECORD_RESULT)
        r->in_call = false;
    else if (out->type == UVCC_RECORD_HEADER || out->type >= UVCC_RECORD_LOAD_PROGRAM)
        r->in_call = true;
    return 1;
}

int uvcc_record_check(uvcc_record_reader *r, const uint8_t *log, size_t len) {
    if (r == NULL || log == NULL)
        return UVCC_ERR_USAGE;
    uvcc_record rec;
    uint8_t all[32];
    int rc;
    uvcc_record_reader_init(r, log, len);
    while ((rc = uvcc_record_next(r, &rec)) == 1)
        ;
    if (rc != 0)
        return rc;
    uvcci_sha256_once(log, (size_t)rec.offset, all);
    if (memcmp(all, rec.data[1].data, sizeof all) == 0)
        return 0;
    r->index = rec.index;
    r->offset = rec.offset;
    return refuse(r, "the SHA-256 of the log is another");
}

/* ---- configuration ---- */

/* What a log holds of a configuration, in this order: append only. */
typedef struct member {
    size_t at, bytes;
    bool boolean;
} member;
/* A bool must not be made of a byte that is neither 0 nor 1. */
#define IS_BOOL(name) _Generic(((uvcc_config *)0)->name, bool : true, default : false)
#define MEMBER(name)                                                                               \
    { offsetof(uvcc_config, name), sizeof((uvcc_config *)0)->name, IS_BOOL(name) }
static const member members[] = {MEMBER(flags),
                                 MEMBER(identity.party),
                                 MEMBER(links.suites),
                                 MEMBER(identity.sid_job),
                                 MEMBER(place.replicas),
                                 MEMBER(place.stages),
                                 MEMBER(place.tp_ranks),
                                 MEMBER(place.replica),
                                 MEMBER(place.stage),
                                 MEMBER(place.tp_rank),
                                 MEMBER(identity.pair_secret),
                                 MEMBER(identity.sign_seed),
                                 MEMBER(identity.peer_sign_key),
                                 MEMBER(identity.policy_hash),
                                 MEMBER(resume.next_step),
                                 MEMBER(resume.next_run),
                                 MEMBER(links.datagram),
                                 MEMBER(checks.audit_off),
                                 MEMBER(links.frame_bytes),
                                 MEMBER(links.datagram_bytes),
                                 MEMBER(links.rx_online_bytes),
                                 MEMBER(links.rx_keys_bytes),
                                 MEMBER(links.tx_online_bytes),
                                 MEMBER(links.tx_keys_bytes),
                                 MEMBER(limits.keys_ahead_bytes),
                                 MEMBER(limits.tensor_bytes),
                                 MEMBER(limits.jobs_max),
                                 MEMBER(limits.leaves_max),
                                 MEMBER(cookie),
                                 MEMBER(links.rto_initial_ns),
                                 MEMBER(links.rto_min_ns),
                                 MEMBER(links.rto_max_ns),
                                 MEMBER(links.ack_delay_ns),
                                 MEMBER(links.keepalive_ns),
                                 MEMBER(links.hello_repeat_ns),
                                 MEMBER(resume.checkpoint_every),
                                 MEMBER(identity.exchange_x25519),
                                 MEMBER(links.rx_messages_max),
                                 MEMBER(links.rx_ranges_max),
                                 MEMBER(links.suspicious_max),
                                 MEMBER(links.suspicious_window_ns),
                                 MEMBER(limits.triples_ahead_bytes),
                                 MEMBER(triples.only),
                                 MEMBER(triples.run),
                                 MEMBER(checks.bundles),
                                 MEMBER(checks.sks_refused),
                                 MEMBER(checks.sks_override),
                                 MEMBER(checks.sks_step),
                                 MEMBER(limits.close_ns),
                                 MEMBER(links.silence_ns),
                                 MEMBER(links.silence_abort_ns),
                                 MEMBER(identity.kem),
                                 MEMBER(links.congestion),
                                 MEMBER(links.rate_bytes_per_s),
                                 MEMBER(resume.cancellable),
                                 MEMBER(checks.prg_uses),
                                 MEMBER(agree.count),
                                 MEMBER(agree.part),
                                 MEMBER(links.transmit_frames),
                                 MEMBER(limits.keys_gathered_bytes)};
enum { MEMBER_COUNT = sizeof members / sizeof members[0] };

size_t uvcci_record_config_bytes(void) {
    size_t n = 0;
    for (unsigned i = 0; i < MEMBER_COUNT; i++)
        n += members[i].bytes;
    return n;
}

void uvcci_record_config_put(const uvcc_config *cfg, uint8_t *out) {
    uvcc_config c;
    assert(cfg->size <= sizeof c);
    memset(&c, 0, sizeof c);
    memcpy(&c, cfg, cfg->size);
    for (unsigned p = 0; p < 3; p++)
        if (c.identity.exchange_x25519 || p == c.identity.party)
            memset(c.identity.pair_secret[p], 0, sizeof c.identity.pair_secret[p]);
    for (unsigned i = 0; i < MEMBER_COUNT; i++) {
        memcpy(out, (const uint8_t *)&c + members[i].at, members[i].bytes);
        out += members[i].bytes;
    }
    uvcci_wipe(&c, sizeof c);
}

int uvcci_record_config_get(uvcc_config *cfg, const uint8_t *in, size_t len) {
    if (len != uvcci_record_config_bytes())
        return UVCC_ERR_MISMATCH;
    for (unsigned i = 0; i < MEMBER_COUNT; i++) {
        if (members[i].boolean && *in > 1)
            return UVCC_ERR_FRAME;
        memcpy((uint8_t *)cfg + members[i].at, in, members[i].bytes);
        in += members[i].bytes;
    }
    return 0;
}
