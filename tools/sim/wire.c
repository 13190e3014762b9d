/* wire.c - from a session's transmits to the network: frames are followed in both kinds of links,
 * and the hostile party's are mutated one by one. A mutant never opens, because links are sealed;
 * what is tried is everything that a network or a peer without the keys can do. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

enum { STORM = 40, MUTANTS = 10 };

bool sim_append(sim_bytes *b, const void *data, size_t len) {
    if (b->cap - b->len < len) {
        b->cap = 2 * b->cap + len + 256;
        b->data = realloc(b->data, b->cap);
        if (b->data == NULL)
            abort();
    }
    if (len != 0)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    return true;
}

static void put32(uint8_t *p, uint32_t v) {
    for (unsigned i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static size_t frame_bytes(const uint8_t *header) {
    return UVCC_FRAME_HEADER_BYTES + ((size_t)header[48] | (size_t)header[49] << 8 |
                                      (size_t)header[50] << 16 | (size_t)header[51] << 24);
}

/* ---- the hostile party ---- */

static void emit(sim_party *p, uint32_t to, const uint8_t *data, size_t len) {
    sim_world *w = p->w;
    if (w->plan->datagram) {
        uvcc_slice s = {data, len};
        (void)uvcc_loopback_send(w->net, p->node, to, &s, 1);
    } else {
        (void)sim_append(&w->pipe[p->node][to].queue, data, len);
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
    if (h.seq != 0)
        pipe->data_at = sim_now(w);
    sim_trace(w, 20 + p->node, (uint64_t)h.kind << 32 | h.msg_len, h.seq);
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
    (void)sim_append(old, frame, len);
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
        (void)sim_append(part, data, n);
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
    if (!w->plan->datagram && !p->up[peer])
        return 0;
    if (!hostile) {
        if (w->pipe[p->node][to].queue.len != 0)
            return 0; /* what was mutated goes first */
        uvcc_loopback_stats before, after;
        uvcc_loopback_get_stats(w->net, &before);
        taken = uvcc_loopback_send(w->net, p->node, to, tx->slices, tx->slice_count);
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
    w->pipe[a][b].drop_at = UVCC_NEVER;
}

void sim_wire_free(sim_world *w) {
    for (unsigned a = 0; a < SIM_NODES; a++)
        for (unsigned b = 0; b < SIM_NODES; b++) {
            free(w->pipe[a][b].part.data);
            free(w->pipe[a][b].queue.data);
            for (unsigned i = 0; i < SIM_HISTORY; i++)
                free(w->pipe[a][b].old[i].data);
        }
    free(w->uses);
}
