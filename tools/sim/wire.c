/* SPDX-License-Identifier: Apache-2.0 */
/* wire.c - from a session's transmits to the network: frames are followed in both kinds of links,
 * and the hostile party's are mutated one by one. A mutant never opens, because links are sealed;
 * what is tried is everything that a network or a peer without the keys can do. */
#include "world.h"

#include <stdlib.h>
#include <string.h>
#include <uvcc/frame.h>
#include <uvcc/loopback.h>

enum { STORM = 40, MUTANTS = 10 };

/* Of a frame with a HELLO 1: what anybody can write there (docs/wire.md 5). Other HELLOs are
 * shorter. */
enum {
    HELLO1_N = UVCC_FRAME_HEADER_BYTES + 84,
    HELLO1_OFFERS = UVCC_FRAME_HEADER_BYTES + 148,
    HELLO1_LEAST = UVCC_FRAME_HEADER_BYTES + 324
};

static void append(sim_bytes *b, const void *data, size_t len) {
    if (b->cap - b->len < len) {
        b->cap = 2 * b->cap + len + 256;
        b->data = realloc(b->data, b->cap);
        if (b->data == NULL)
            abort();
    }
    if (len != 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
}

/* Whether the party's ACKs are troubled; a hostile party has enough to do. */
static bool sim_acks(const sim_party *p) {
    const sim_world *w = p->w;
    return sim_on(w, SIM_ACKS) && p->node == w->plan->acks_party &&
           !(sim_on(w, SIM_HOSTILE) && p->node == w->plan->hostile_party);
}

static void put32(uint8_t *p, uint32_t v) {
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static size_t frame_bytes(const uint8_t *header) {
    return UVCC_FRAME_HEADER_BYTES + ((size_t)header[48] | (size_t)header[49] << 8 |
                                      (size_t)header[50] << 16 | (size_t)header[51] << 24);
}

/* ---- packets on their way out ---- */

static void parcel_add(sim_world *w, const sim_parcel *like, const uvcc_slice *slices,
                       uint32_t count) {
    if (w->parcel_count == w->parcel_cap) {
        w->parcel_cap = 2 * w->parcel_cap + 16;
        w->parcels = realloc(w->parcels, w->parcel_cap * sizeof *w->parcels);
        if (w->parcels == NULL)
            abort();
    }
    sim_parcel *x = &w->parcels[w->parcel_count++];
    *x = *like;
    x->len = 0;
    for (uint32_t i = 0; i < count; i++)
        x->len += slices[i].len;
    x->data = malloc(x->len + 1);
    if (x->data == NULL)
        abort();
    uint8_t *at = x->data;
    for (uint32_t i = 0; i < count; at += slices[i].len, i++)
        memcpy(at, slices[i].data, slices[i].len);
}

/* A datagram: too long for the path it is gone; a narrow way out has one queue for both peers, and
 * what does not fit is gone too. */
static size_t packet_send(sim_party *p, uint32_t to, const uvcc_slice *slices, uint32_t count,
                          size_t total) {
    sim_world *w = p->w;
    uint64_t now = sim_now(w), *fre = &w->uplink_free[p->node];
    w->vanished = w->path_bytes != 0 && total > w->path_bytes;
    if (w->vanished) {
        w->out->injected++;
        return total;
    }
    if (!sim_on(w, SIM_BOTTLENECK))
        return uvcc_loopback_send(w->net, p->node, to, slices, count);
    uint64_t bps = w->plan->bottleneck_bps, from = *fre > now ? *fre : now;
    if ((from - now) * bps / SIM_S / 8 + total > w->plan->bottleneck_bytes) {
        w->out->injected++;
        return total;
    }
    *fre = from + total * 8 * SIM_S / bps;
    const sim_parcel like = {.due = *fre, .from = p->node, .to = to};
    parcel_add(w, &like, slices, count);
    return total;
}

bool sim_parcels_due(sim_world *w) {
    bool any = false;
    for (uint32_t i = 0; i < w->parcel_count;) {
        sim_parcel x = w->parcels[i];
        if (x.due > sim_now(w)) {
            i++;
            continue;
        }
        w->parcel_count--; /* the others keep their order */
        memmove(&w->parcels[i], &w->parcels[i + 1], (w->parcel_count - i) * sizeof x);
        sim_pipe *pipe = &w->pipe[x.from][x.to];
        uvcc_slice s = {x.data, x.len};
        if (w->plan->datagram)
            (void)uvcc_loopback_send(w->net, x.from, x.to, &s, 1);
        else if (pipe->epoch == x.epoch)
            append(&pipe->queue, x.data, x.len);
        free(x.data);
        any = true;
    }
    return any;
}

uint64_t sim_parcels_next(const sim_world *w) {
    uint64_t next = UVCC_NEVER;
    for (uint32_t i = 0; i < w->parcel_count; i++)
        next = w->parcels[i].due < next ? w->parcels[i].due : next;
    return next;
}

/* ---- a party whose ACKs are late, few, or many ---- */

static void emit(sim_party *p, uint32_t to, const uint8_t *data, size_t len);

/* All are authentic and right when they were made; older ones come after newer ones. */
static void trouble_ack(sim_party *p, uint32_t to, const uint8_t *frame, size_t len) {
    sim_world *w = p->w;
    sim_random *r = &w->r[SIM_ACKS];
    uvcc_slice s = {frame, len};
    sim_parcel like = {.from = p->node, .to = to, .epoch = w->pipe[p->node][to].epoch};
    w->out->injected++;
    switch (sim_below(r, 4)) {
    case 0: /* withheld */
        break;
    case 1: /* late */
        like.due = sim_now(w) + sim_some_time(r, 100000, 400 * SIM_MS);
        parcel_add(w, &like, &s, 1);
        break;
    case 2: /* repeated, at once and later */
        emit(p, to, frame, len);
        for (uint64_t n = sim_below(r, 4); n != 0; n--) {
            like.due = sim_now(w) + sim_some_time(r, 100000, 400 * SIM_MS);
            parcel_add(w, &like, &s, 1);
        }
        break;
    default:
        emit(p, to, frame, len);
        break;
    }
}

/* ---- the hostile party ---- */

static void emit(sim_party *p, uint32_t to, const uint8_t *data, size_t len) {
    sim_world *w = p->w;
    if (w->plan->datagram) {
        uvcc_slice s = {data, len};
        (void)packet_send(p, to, &s, 1, len);
    } else {
        append(&w->pipe[p->node][to].queue, data, len);
    }
}

static void crc_again(uint8_t *frame, size_t len) {
    put32(frame + 60,
          uvcc_frame_crc(frame, frame + UVCC_FRAME_HEADER_BYTES, len - UVCC_FRAME_HEADER_BYTES));
}

static uint32_t interesting(sim_random *r) {
    static const uint32_t v[] = {0, 1, 2, 63, 64, 0x7fffffff, 0x80000000, 0xffffffff, 1u << 20};
    uint64_t i = sim_below(r, 16);
    return i < sizeof v / sizeof v[0] ? v[i] : (uint32_t)sim_next(r);
}

static const sim_bytes *old_frame(sim_world *w, uint32_t from, uint32_t to, sim_random *r) {
    const sim_bytes *b = &w->pipe[from][to].old[sim_below(r, SIM_HISTORY)];
    return b->len != 0 ? b : NULL;
}

/* A HELLO 1 of now or of a session that is gone; half of them as if another one began: with
 * another N and, of these half, with offers that nobody made. */
static void old_hello1(sim_party *p, uint32_t to) {
    sim_random *r = &p->w->lone;
    const sim_bytes *b = &p->w->pipe[p->node][to].hello1[sim_below(r, SIM_HELLOS)];
    const uint64_t how = sim_below(r, 4), at = sim_below(r, 32);
    if (b->len == 0)
        return;
    uint8_t *m = malloc(b->len);
    if (m == NULL)
        abort();
    memcpy(m, b->data, b->len);
    m[HELLO1_N + at] ^= how >= 2;
    m[HELLO1_OFFERS + at] ^= how == 3;
    crc_again(m, b->len);
    emit(p, to, m, b->len);
    free(m);
}

/* A mutant of the frame instead of it or, half of the time, before it. */
static void mutate(sim_party *p, uint32_t to, const uint8_t *frame, size_t len) {
    sim_world *w = p->w;
    sim_random *r = &w->r[SIM_HOSTILE];
    uint32_t third = 3u * p->triangle + (3u - p->index - to % 3u), from = p->node;
    uint8_t *m = malloc(len + 64);
    const sim_bytes *old = NULL;
    if (m == NULL)
        abort();
    memcpy(m, frame, len);
    w->out->injected++;
    switch (sim_below(r, MUTANTS)) {
    case 0: /* bits anywhere */
        for (uint64_t n = 1 + sim_below(r, 8); n > 0; n--)
            m[sim_below(r, len)] ^= (uint8_t)(1u << sim_below(r, 8));
        emit(p, to, m, len);
        break;
    case 1: /* bits after the length, with the CRC made right */
        for (uint64_t n = 1 + sim_below(r, 3); n > 0; n--) {
            uint64_t at = sim_below(r, len - 4);
            m[at >= 48 && at < 52 ? 4 : at < 60 ? at : at + 4] ^= (uint8_t)(1u << sim_below(r, 8));
        }
        crc_again(m, len);
        emit(p, to, m, len);
        break;
    case 2: { /* a field */
        static const uint8_t at[] = {16, 20, 24, 28, 32, 36, 40, 44, 52, 56};
        put32(m + at[sim_below(r, sizeof at)], interesting(r));
        crc_again(m, len);
        emit(p, to, m, len);
        break;
    }
    case 3: /* replay, of earlier runs too */
        old = old_frame(w, from, to, r);
        old_hello1(p, to);
        break;
    case 4: /* reflection */
        old = old_frame(w, to, from, r);
        break;
    case 5: /* what was for, or from, the third party */
        old = sim_below(r, 2) == 0 ? old_frame(w, from, third, r) : old_frame(w, third, to, r);
        break;
    case 6:
        emit(p, to, m, sim_below(r, len));
        break;
    case 7:
        for (unsigned i = 0; i < STORM; i++)
            emit(p, to, m, len);
        break;
    case 8: /* another session's: its own frames if there is one */
        if (w->nodes > 3)
            old = old_frame(w, (from + 3) % 6, (to + 3) % 6, r);
        else
            put32(m + 8, interesting(r));
        crc_again(m, len);
        emit(p, to, m, len);
        break;
    default:
        for (size_t i = 0; i < len; i++)
            m[i] = (uint8_t)sim_next(r);
        emit(p, to, m, len);
        break;
    }
    if (old != NULL)
        emit(p, to, old->data, old->len);
    free(m);
    if (sim_below(r, 2) == 0)
        emit(p, to, frame, len);
}

/* ---- following frames ---- */

/* Data that a path stopped carrying goes again in a packet that it carries, soon. */
static void note_path(sim_party *p, sim_pipe *pipe, uint64_t seq) {
    sim_world *w = p->w;
    uint64_t now = sim_now(w);
    if (w->vanished && seq > pipe->top_seq && pipe->lost_seq == 0) {
        pipe->lost_seq = seq;
        pipe->lost_at = now;
    } else if (!w->vanished && seq == pipe->lost_seq) {
        pipe->lost_seq = 0;
        if (sim_path_judged(w) && now - pipe->lost_at > SIM_PATH_NS)
            sim_fail(w, "party %u: what the path stopped carrying went again after %.2f s",
                     p->index, (double)(now - pipe->lost_at) * 1e-9);
    }
    pipe->top_seq = seq > pipe->top_seq ? seq : pipe->top_seq;
}

static void keep_hello1(sim_pipe *pipe, const uint8_t *frame, size_t len) {
    const sim_bytes *last = &pipe->hello1[(pipe->hellos + SIM_HELLOS - 1) % SIM_HELLOS];
    if (len < HELLO1_LEAST || frame[UVCC_FRAME_HEADER_BYTES] != 1 ||
        (last->len == len && memcmp(last->data, frame, len) == 0))
        return;
    sim_bytes *b = &pipe->hello1[pipe->hellos++ % SIM_HELLOS];
    b->len = 0;
    append(b, frame, len);
}

/* Who has been CLOSED for a while asks a peer for nothing but room for what waits for it. */
static void check_needed(sim_party *p, uint8_t peer) {
    uvcc_peer_info i = {.size = sizeof i};
    if (uvcc_session_peer_info(p->s, peer, &i) != 0 || !i.blocked)
        sim_fail(p->w, "party %u is closed and asks party %u on", p->index, peer);
}

/* Frames are kept as they went by: the hostile party sends old ones again. The first of each kind
 * in a step is always mutated, or rare kinds would hardly ever be. */
static void on_frame(sim_party *p, uint32_t to, const uint8_t *frame, size_t len, bool hostile) {
    sim_world *w = p->w;
    sim_pipe *pipe = &w->pipe[p->node][to];
    uvcc_frame_header h;
    const char *why;
    if (uvcc_frame_decode_header(frame, &h, &why) != 0) {
        sim_fail(w, "party %u sends a malformed frame: %s", p->index, why);
        return;
    }
    pipe->frames++;
    p->frames_since++;
    if (p->frames_since > p->frames_most)
        p->frames_most = p->frames_since;
    if (h.kind == UVCC_FRAME_PING && p->closed && sim_now(w) > p->closed_at + SIM_S)
        check_needed(p, (uint8_t)(to % 3));
    if (h.seq != 0) {
        note_path(p, pipe, h.seq);
    }
    sim_trace(w, 20 + p->node, (uint64_t)h.kind << 32 | h.msg_len, h.seq);
    if (sim_acks(p)) {
        if (h.kind == UVCC_FRAME_ACK)
            trouble_ack(p, to, frame, len);
        else
            emit(p, to, frame, len);
        return;
    }
    if (!hostile && !sim_on(w, SIM_HOSTILE))
        return;
    if (pipe->seen_step != h.step) {
        pipe->seen_step = h.step;
        pipe->seen_kinds = 0;
    }
    uint64_t kind = UINT64_C(1) << (h.kind & 15);
    bool first = (pipe->seen_kinds & kind) == 0;
    pipe->seen_kinds |= kind;
    sim_bytes *old = &pipe->old[pipe->frames % SIM_HISTORY];
    old->len = 0;
    append(old, frame, len);
    if (h.kind == UVCC_FRAME_HELLO)
        keep_hello1(pipe, frame, len);
    if (!hostile)
        return;
    if (first || sim_strikes(w, SIM_HOSTILE))
        mutate(p, to, frame, len);
    else
        emit(p, to, frame, len);
}

static void follow(sim_party *p, uint32_t to, const uint8_t *data, size_t len, bool hostile) {
    sim_bytes *part = &p->w->pipe[p->node][to].part;
    while (len > 0) {
        size_t want =
            part->len < UVCC_FRAME_HEADER_BYTES ? UVCC_FRAME_HEADER_BYTES : frame_bytes(part->data);
        size_t n = want - part->len < len ? want - part->len : len;
        append(part, data, n);
        data += n;
        len -= n;
        if (part->len >= UVCC_FRAME_HEADER_BYTES && part->len == frame_bytes(part->data)) {
            on_frame(p, to, part->data, part->len, hostile);
            part->len = 0;
        }
    }
}

/* Bytes are looked at as they go, not as the session has them: a partial send is part of a frame.
 */
size_t sim_wire_send(sim_party *p, uint8_t peer, const uvcc_transmit *tx) {
    sim_world *w = p->w;
    uint32_t to = 3u * p->triangle + peer;
    bool hostile = sim_on(w, SIM_HOSTILE) && p->node == w->plan->hostile_party;
    size_t taken = tx->total;
    w->vanished = false;
    if (!w->plan->datagram && !p->up[peer])
        return 0;
    if (!hostile && !sim_acks(p)) {
        if (w->pipe[p->node][to].queue.len != 0)
            return 0; /* what was mutated goes first */
        uvcc_loopback_stats before, after;
        uvcc_loopback_get_stats(w->net, &before);
        taken = w->plan->datagram
                    ? packet_send(p, to, tx->slices, tx->slice_count, tx->total)
                    : uvcc_loopback_send(w->net, p->node, to, tx->slices, tx->slice_count);
        uvcc_loopback_get_stats(w->net, &after);
        /* A stream that lost or changed bytes ends: what TCP delivers is right, or nothing comes.
         */
        if (!w->plan->datagram &&
            (before.truncated != after.truncated || before.corrupted != after.corrupted) &&
            w->pipe[p->node][to].drop_at == UVCC_NEVER)
            w->pipe[p->node][to].drop_at =
                sim_now(w) + SIM_MS + sim_below(&w->compute, 300 * SIM_MS);
    }
    size_t left = taken;
    for (uint32_t i = 0; i < tx->slice_count && left > 0; i++) {
        size_t n = tx->slices[i].len < left ? tx->slices[i].len : left;
        follow(p, to, tx->slices[i].data, n, hostile);
        left -= n;
    }
    if (w->plan->datagram && w->pipe[p->node][to].part.len != 0)
        sim_fail(w, "party %u: a datagram ends inside a frame", p->index);
    return taken;
}

bool sim_wire_flush(sim_party *p) {
    sim_world *w = p->w;
    bool any = false;
    for (uint32_t peer = 0; peer < 3; peer++) {
        uint32_t to = 3u * p->triangle + peer;
        sim_bytes *q = &w->pipe[p->node][to].queue;
        if (q->len == 0)
            continue;
        uvcc_slice s = {q->data, q->len};
        size_t n = uvcc_loopback_send(w->net, p->node, to, &s, 1);
        memmove(q->data, q->data + n, q->len - n);
        q->len -= n;
        any |= n != 0;
    }
    return any;
}

void sim_wire_reset(sim_world *w, uint32_t a, uint32_t b) {
    w->pipe[a][b].part.len = w->pipe[a][b].queue.len = 0;
    w->pipe[a][b].epoch++;
    w->pipe[a][b].drop_at = UVCC_NEVER;
}

void sim_wire_free(sim_world *w) {
    for (unsigned a = 0; a < SIM_NODES; a++)
        for (unsigned b = 0; b < SIM_NODES; b++) {
            free(w->pipe[a][b].part.data);
            free(w->pipe[a][b].queue.data);
            for (unsigned i = 0; i < SIM_HISTORY; i++)
                free(w->pipe[a][b].old[i].data);
            for (unsigned i = 0; i < SIM_HELLOS; i++)
                free(w->pipe[a][b].hello1[i].data);
        }
    for (uint32_t i = 0; i < w->parcel_count; i++)
        free(w->parcels[i].data);
    free(w->parcels);
    for (unsigned i = 0; i < UVCC_PARTIES; i++)
        uvcc_prg_uses_free(w->uses[i]);
}

void sim_wire_forget(sim_party *p) {
    for (uint32_t b = 0; b < p->w->nodes; b++)
        p->w->pipe[p->node][b].lost_seq = 0;
}
