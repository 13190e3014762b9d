/* kernels.c - every task of <uvcc/task.h> on one core, as docs/compute.md defines it.
 *
 * Vectors run chunk by chunk: pads of a chunk are made by the PRG into slots that stay in cache,
 * then one fused loop makes the results. Chunks begin at multiples of CHUNK elements, so bits and
 * packed words of a chunk begin at whole bytes, and PRG words at whole blocks. Only the DPF works
 * on a block as a whole.
 *
 * State: a worker's scratch. Its expanded AES keys live as long as one job, because the memory that
 * held a step's keys may hold another's afterwards. Invariant: nothing branches or indexes on a
 * share, a pad or a mask; roles, counts, shifts and opened values are public to whoever has them.
 */
#include "kernels_impl.h"

#include <assert.h>
#include <uvcc/blv1.h>

#include "fss.h"
#include "function.h"
#include "proto/crypto.h"

/* --- Where things are ------------------------------------------------------------------------- */

static inline block_scratch *scratch_of(const uvcci_cpu_worker *w) {
    return (block_scratch *)(void *)w->block_scratch;
}

/* What HEAD and TAIL share with each other. */
static inline unsigned pair_edge(const chunk *c) {
    return c->b->role == UVCC_HEAD ? UVCC_PAIR_NEXT : UVCC_PAIR_PREV;
}

/* Bits of a comparison. */
static inline unsigned less_bits(const uvcc_task *t) {
    return t->u.vec.gate == UVCC_GATE_RELU ? t->u.vec.bits : t->u.vec.shift;
}

static uvcc_key_layout layout_of(const uvcc_task *t, const uvcc_block *b, uvcc_role role) {
    uvcc_key_layout k;
    uvcc_key_layout_of((uvcc_gate)t->u.vec.gate, t->u.vec.compact, t->u.vec.shift, t->u.vec.bits,
                       b->count, role, &k);
    return k;
}

/* Words of one section of this party's key stream. */
static inline const uint8_t *key_words(const chunk *c, unsigned i) {
    const uvcc_key_layout k = layout_of(c->t, c->b, (uvcc_role)c->b->role);
    return c->b->key + k.words[i] + (size_t)c->first * 8;
}

/* --- Pads ------------------------------------------------------------------------------------- */

static void key_init(uvcci_aes *a, const uint8_t key[16], uvcci_aes_backend backend) {
    /* The expanded key is the same for all back ends, and the worker asked the CPU once. */
    uvcci_aes_init(a, key, UVCCI_AES_PORTABLE);
    a->backend = backend;
}

static key_cache *keys_of(const chunk *c) {
    key_cache *k = &c->s->keys;
    if (k->of != c->t->keys) {
        memset(k->have_prg, 0, sizeof k->have_prg);
        k->have_dpf = false;
        k->of = c->t->keys;
    }
    return k;
}

const uvcci_aes *uvcci_kernel_prg_key(const chunk *c, unsigned pair, uvcc_prg_tag tag) {
    key_cache *k = keys_of(c);
    if (!k->have_prg[pair][tag]) {
        key_init(&k->prg[pair][tag], c->t->keys->prg[pair][tag], c->aes);
        k->have_prg[pair][tag] = true;
    }
    return &k->prg[pair][tag];
}

const uvcci_aes *uvcci_kernel_dpf_keys(const chunk *c) {
    key_cache *k = keys_of(c);
    if (!k->have_dpf) {
        for (unsigned i = 0; i < 2; i++)
            key_init(&k->dpf[i], c->t->keys->dpf[i], c->aes);
        k->have_dpf = true;
    }
    return k->dpf;
}

/* Bit pads of the comparison: as many words as the chunk's bits need. */
static const uint8_t *bit_pad(const chunk *c, unsigned slot, unsigned pair) {
    prg(c, pair, UVCC_TAG_mask, 2, c->first / 64, c->s->slot[slot], (c->n + 63) / 64);
    return (const uint8_t *)c->s->slot[slot];
}

/* Bit i as a mask. */
static const uint64_t *bit_masks(const chunk *c, unsigned slot, const uint8_t *a,
                                 const uint8_t *b) {
    uint64_t *m = c->s->slot[slot];
    for (uint32_t i = 0; i < c->n; i += 8) {
        const unsigned byte = a[i / 8] ^ b[i / 8];
        for (unsigned k = 0; k < 8; k++)
            m[i + k] = 0 - (uint64_t)(byte >> k & 1);
    }
    return m;
}

/* The comparison's opened bits v as masks. */
static const uint64_t *opened_bits(const chunk *c, unsigned slot) {
    const size_t at = c->first / 8;
    return bit_masks(c, slot, c->b->in_bits + at, c->b->wire_in[0] + at);
}

/* --- Inputs, openings and reshares ------------------------------------------------------------ */

static void input(const chunk *c) {
    if (c->b->role == UVCC_TAIL) {
        prg(c, UVCC_PAIR_PREV, UVCC_TAG_input, 0, c->first, out(c, 0), c->n);
        memcpy(out(c, 1), wire_in(c, 0), (size_t)c->n * 8);
        return;
    }
    if (c->b->role == UVCC_OTHER) {
        memcpy(out(c, 0), wire_in(c, 0), (size_t)c->n * 8);
        prg(c, UVCC_PAIR_NEXT, UVCC_TAG_input, 0, c->first, out(c, 1), c->n);
        return;
    }
    const uint64_t *lo = pad(c, 0, UVCC_PAIR_PREV, UVCC_TAG_input, 0);
    const uint64_t *hi = pad(c, 1, UVCC_PAIR_NEXT, UVCC_TAG_input, 0);
    const uint64_t *x = in(c, 0);
    uint64_t *out_lo = out(c, 0), *out_hi = out(c, 1);
    uint8_t *to0 = wire_out(c, 0), *to1 = wire_out(c, 1);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t rest = x[i] - lo[i] - hi[i];
        put(to0, i, rest);
        put(to1, i, rest);
        out_lo[i] = lo[i];
        out_hi[i] = hi[i];
    }
}

static void open4_mask(const chunk *c) {
    const uint64_t *next = pad(c, 0, UVCC_PAIR_NEXT, UVCC_TAG_zero, 0);
    const uint64_t *prev = pad(c, 1, UVCC_PAIR_PREV, UVCC_TAG_zero, 0);
    const uint64_t *z = in(c, 0);
    const unsigned f = c->t->u.vec.shift;
    uint8_t *to0 = wire_out(c, 0);
    if (c->b->role == UVCC_OTHER) {
        const uint64_t *low = pad(c, 2, UVCC_PAIR_OWN, UVCC_TAG_own, 0);
        const uint64_t mask = low_bits(f);
        uint8_t *to1 = wire_out(c, 1);
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t x = z[i] + next[i] - prev[i] + (low[i] & mask);
            put(to0, i, x);
            put(to1, i, x);
        }
        return;
    }
    const uint64_t *p = pad(c, 2, pair_other(c), UVCC_TAG_trunc, 0);
    uint64_t *kept = out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t x = z[i] + next[i] - prev[i] + (p[i] << f);
        kept[i] = x;
        put(to0, i, x);
    }
}

static void open2_mask(const chunk *c) {
    if (c->b->role == UVCC_OTHER)
        return;
    const bool head = c->b->role == UVCC_HEAD;
    const uint64_t *p = pad(c, 0, pair_other(c), UVCC_TAG_mask, 0);
    const uint64_t *mine = in(c, head ? 0 : 1), *common = in(c, head ? 1 : 0);
    uint64_t *kept = out(c, 0);
    uint8_t *to = wire_out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t x = mine[i] + p[i];
        kept[i] = x + common[i];
        put(to, i, x);
    }
}

static void open_finish(const chunk *c) {
    if (c->b->role == UVCC_OTHER)
        return;
    const uint64_t *kept = in(c, 0), add = c->t->u.vec.constant;
    const uint8_t *from0 = wire_in(c, 0);
    uint64_t *to = out(c, 0);
    if (c->b->wire_in[1] == NULL) {
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = kept[i] + get(from0, i) + add;
        return;
    }
    const uint8_t *from1 = wire_in(c, 1);
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = kept[i] + get(from0, i) + get(from1, i) + add;
}

static void open_all_finish(const chunk *c) {
    const uint64_t *lo = in(c, 0), *hi = in(c, 1);
    const uint8_t *from = wire_in(c, 0);
    uint64_t *to = out(c, 0);
    for (uint32_t i = 0; i < c->n; i++)
        to[i] = lo[i] + hi[i] + get(from, i);
}

/* Of a product that is kept, or of a triple: zero shares have a lane each. */
static void reshare_mask(const chunk *c) {
    const uint8_t lane = c->t->kind == UVCC_TASK_TRIPLE_C ? 1 : 0;
    const uint64_t *next = pad(c, 0, UVCC_PAIR_NEXT, UVCC_TAG_zero, lane);
    const uint64_t *prev = pad(c, 1, UVCC_PAIR_PREV, UVCC_TAG_zero, lane);
    const uint64_t *z = in(c, 0);
    uint64_t *lo = out(c, 0);
    uint8_t *to = wire_out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t t = z[i] + next[i] - prev[i];
        lo[i] = t;
        put(to, i, t);
    }
}

/* The mask of a tensor, or the tensor less its mask. */
static void triple_mask(const chunk *c) {
    static const unsigned pairs[2] = {UVCC_PAIR_PREV, UVCC_PAIR_NEXT};
    const uvcc_prg_tag tag = c->t->kind == UVCC_TASK_TRIPLE_A ? UVCC_TAG_tripleA : UVCC_TAG_tripleB;
    for (unsigned k = 0; k < 2; k++) {
        if (c->b->out[k] == NULL)
            continue;
        uint64_t *to = out(c, k);
        if (c->b->in[0] == NULL) {
            prg(c, pairs[k], tag, 0, c->first, to, c->n);
            continue;
        }
        const uint64_t *mask = pad(c, k, pairs[k], tag, 0), *x = in(c, k);
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = x[i] - mask[i];
    }
    if (c->b->wire_out[0] != NULL)
        memcpy(wire_out(c, 0), out(c, 0), (size_t)c->n * 8);
}

static void unpack(const chunk *c) {
    memcpy(out(c, 0), wire_in(c, 0), (size_t)c->n * 8);
}

static void pack(const chunk *c) {
    memcpy(wire_out(c, 0), in(c, 0), (size_t)c->n * 8);
}

/* --- Truncation and comparison ---------------------------------------------------------------- */

/* HEAD's or TAIL's share of the correction for m = the top bit of each zh. */
static const uint64_t *correction(const chunk *c, const uint64_t *zh) {
    uint64_t *w[2] = {c->s->slot[0], c->s->slot[1]};
    if (c->b->role == UVCC_HEAD) {
        for (uint8_t m = 0; m < 2; m++)
            pad(c, m, UVCC_PAIR_PREV, UVCC_TAG_trunc, 1 + m);
    } else {
        const unsigned f = c->t->u.vec.shift;
        const uvcc_key_layout k = layout_of(c->t, c->b, UVCC_TAIL);
        for (unsigned m = 0; m < 2; m++)
            if (c->t->u.vec.compact)
                uvcc_bits_unpack(c->b->key + k.corr[m] + (size_t)c->first * f / 8, c->n, f, w[m]);
            else
                memcpy(w[m], c->b->key + k.words[1 + m] + (size_t)c->first * 8, (size_t)c->n * 8);
    }
    for (uint32_t i = 0; i < c->n; i++)
        w[0][i] ^= (w[0][i] ^ w[1][i]) & (0 - (zh[i] >> 63));
    return w[0];
}

static void truncation(const chunk *c) {
    if (c->b->role == UVCC_OTHER)
        return;
    const bool head = c->b->role == UVCC_HEAD;
    const unsigned f = c->t->u.vec.shift;
    const uint64_t *zh = in(c, 0), bias = BIAS >> f;
    const uint64_t *w = correction(c, zh);
    uint64_t *y = out(c, 0);
    if (!c->t->u.vec.compact) {
        for (uint32_t i = 0; i < c->n; i++)
            y[i] = head ? (zh[i] >> f) + w[i] - bias : w[i];
        return;
    }
    const uint64_t *p = pad(c, 2, pair_other(c), UVCC_TAG_trunc, 0), mask = low_bits(64 - f);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t own = (w[i] << (64 - f)) - (p[i] & mask);
        y[i] = head ? (zh[i] >> f) + own - bias : own;
    }
}

/* Eight bytes of 0 or 1 to eight bits, the first lowest. */
static inline uint8_t pack8(const uint8_t *p) {
    return (uint8_t)(uvcci_ld64(p) * 0x0102040810204080u >> 56);
}

static void less_mask(const chunk *c) {
    const uvcc_block *b = c->b;
    if (b->role == UVCC_OTHER)
        return;
    block_scratch *s = c->s;
    const bool head = b->role == UVCC_HEAD;
    const unsigned n = less_bits(c->t);
    const uvcc_key_layout k = layout_of(c->t, b, (uvcc_role)b->role);
    const uint64_t mask = low_bits(n);
    for (uint32_t i = 0; i < b->count; i++)
        s->words[i] = b->in[0][i] & mask;
    prg(c, pair_other(c), UVCC_TAG_root, 0, 0, s->roots[0], (size_t)b->count * 2);
    uvcci_dpf_prefix(uvcci_kernel_dpf_keys(c), n, b->count, s->words, (const uint8_t *)s->roots[0],
                     !head, b->key + k.levels, b->key + k.leaves, b->key + k.bits, s->shares);

    const uint32_t bytes = (b->count + 7) / 8;
    memset(s->shares + b->count, 0, (size_t)bytes * 8 - b->count);
    prg(c, pair_other(c), UVCC_TAG_mask, 2, 0, s->words, (b->count + 63) / 64);
    const uint8_t *pads = (const uint8_t *)s->words;
    for (uint32_t i = 0; i < bytes; i++)
        b->out_bits[i] = (uint8_t)(pack8(s->shares + 8 * (size_t)i) ^ pads[i] ^ (head ? 0xff : 0));
    b->out_bits[bytes - 1] &= (uint8_t)(0xff >> (bytes * 8 - b->count));
    memcpy(b->wire_out[0], b->out_bits, bytes);
}

static void open_bits(const chunk *c) {
    for (uint32_t i = 0; i < (c->n + 7) / 8; i++)
        c->b->out_bits[i] = (uint8_t)(c->b->in_bits[i] ^ c->b->wire_in[0][i]);
}

static void trunc_exact(const chunk *c) {
    if (c->b->role == UVCC_OTHER)
        return;
    const uint64_t *v = opened_bits(c, 0), *y = in(c, 0);
    uint64_t *to = out(c, 0);
    if (c->b->role == UVCC_HEAD) {
        const uint64_t *q = pad(c, 1, UVCC_PAIR_PREV, UVCC_TAG_select, 0);
        for (uint32_t i = 0; i < c->n; i++) /* v is minus the bit */
            to[i] = y[i] + v[i] - flip(q[i], v[i]);
    } else {
        const uint8_t *q = key_words(c, 0);
        for (uint32_t i = 0; i < c->n; i++)
            to[i] = y[i] - flip(get(q, i), v[i]);
    }
}

static void relu(const chunk *c) {
    if (c->b->role == UVCC_OTHER)
        return;
    const unsigned n = c->t->u.vec.bits;
    const uint64_t *xh = in(c, 0), *v = opened_bits(c, 0);
    const uint64_t *r = pad(c, 1, pair_other(c), UVCC_TAG_mask, 0);
    uint64_t *dx = out(c, 0), *d = out(c, 1);
    if (c->b->role == UVCC_HEAD) {
        const uint64_t *k = pad(c, 2, UVCC_PAIR_PREV, UVCC_TAG_select, 0);
        const uint64_t *kr = pad(c, 3, UVCC_PAIR_PREV, UVCC_TAG_select, 1);
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t x = xh[i], w = ~(v[i] ^ (0 - (x >> n & 1)));
            dx[i] = ((x - r[i]) & w) + flip(k[i] * x - kr[i], w);
            d[i] = flip(k[i], w) - w;
        }
    } else {
        const uint8_t *k = key_words(c, 0), *kr = key_words(c, 1);
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t x = xh[i], w = ~(v[i] ^ (0 - (x >> n & 1)));
            dx[i] = flip(get(k, i) * x - get(kr, i), w) - (r[i] & w);
            d[i] = flip(get(k, i), w);
        }
    }
}

/* --- Lifts ------------------------------------------------------------------------------------ */

/* out[0] = a' = PRG(HO, lift, 0), m = y - a' sent; HEAD's b' is PRG(HT, lift, 1), plus m in one
 * round. */
static void lift_head(const chunk *c, bool parallel) {
    const uint64_t *a = pad(c, 0, UVCC_PAIR_PREV, UVCC_TAG_lift, 0);
    const uint64_t *p = pad(c, 1, UVCC_PAIR_NEXT, UVCC_TAG_lift, 1);
    const uint64_t *y = in(c, 0), use_m = 0 - (uint64_t)parallel;
    uint64_t *lo = out(c, 0), *hi = out(c, 1);
    uint8_t *to = wire_out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t m = y[i] - a[i];
        put(to, i, m);
        lo[i] = a[i];
        hi[i] = p[i] + (m & use_m);
    }
}

static void lift_tail(const chunk *c, bool parallel) {
    const uint64_t *p = pad(c, 0, UVCC_PAIR_PREV, UVCC_TAG_lift, 1), *y = in(c, 0);
    uint64_t *hi = out(c, 1);
    uint8_t *to = wire_out(c, 0);
    if (parallel) { /* out[0] waits for m */
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t x = y[i] - p[i];
            hi[i] = x;
            put(to, i, x);
        }
        return;
    }
    const uint8_t *m = wire_in(c, 0);
    uint64_t *lo = out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t x = get(m, i) + y[i] - p[i];
        lo[i] = p[i];
        hi[i] = x;
        put(to, i, x);
    }
}

static void lift_exchange(const chunk *c) {
    const bool head = c->b->role == UVCC_HEAD;
    const uint64_t *p = pad(c, 0, pair_other(c), UVCC_TAG_lift, 2), *y = in(c, 0);
    uint64_t *minus = out(c, head ? 0 : 1), *sum = out(c, head ? 1 : 0);
    uint8_t *to = wire_out(c, 0);
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t x = y[i] + p[i];
        minus[i] = 0 - p[i];
        sum[i] = x;
        put(to, i, x);
    }
}

static void lift_mask(const chunk *c) {
    if (c->b->role == UVCC_OTHER)
        return;
    const bool parallel = c->t->u.vec.lift == UVCC_LIFT_PARALLEL;
    if (c->t->u.vec.lift == UVCC_LIFT_EXCHANGE)
        lift_exchange(c);
    else if (c->b->role == UVCC_HEAD)
        lift_head(c, parallel);
    else
        lift_tail(c, parallel);
}

static void lift_finish_exchange(const chunk *c) {
    if (c->b->role == UVCC_OTHER) {
        const uint64_t *to = pad(c, 0, PAIR_TO, UVCC_TAG_lift, 2);
        const uint64_t *ho = pad(c, 1, PAIR_HO, UVCC_TAG_lift, 2);
        uint64_t *lo = out(c, 0), *hi = out(c, 1);
        for (uint32_t i = 0; i < c->n; i++) {
            lo[i] = 0 - to[i];
            hi[i] = 0 - ho[i];
        }
        return;
    }
    uint64_t *sum = out(c, c->b->role == UVCC_HEAD ? 1 : 0);
    const uint8_t *from = wire_in(c, 0);
    for (uint32_t i = 0; i < c->n; i++)
        sum[i] += get(from, i);
}

static void lift_finish(const chunk *c) {
    if (c->t->u.vec.lift == UVCC_LIFT_EXCHANGE) {
        lift_finish_exchange(c);
    } else if (c->b->role == UVCC_OTHER) {
        memcpy(out(c, 0), wire_in(c, 0), (size_t)c->n * 8);
        prg(c, PAIR_HO, UVCC_TAG_lift, 0, c->first, out(c, 1), c->n);
    } else if (c->b->role == UVCC_TAIL && c->t->u.vec.lift == UVCC_LIFT_PARALLEL) {
        const uint64_t *p = pad(c, 0, pair_edge(c), UVCC_TAG_lift, 1);
        const uint8_t *m = wire_in(c, 0);
        uint64_t *lo = out(c, 0);
        for (uint32_t i = 0; i < c->n; i++)
            lo[i] = get(m, i) + p[i];
    }
}

/* --- Dealing ---------------------------------------------------------------------------------- */

/* r of OPEN2_MASK: the sum of two full pads. */
static uint64_t *full_mask(const chunk *c, unsigned slot, unsigned spare) {
    uint64_t *r = c->s->slot[slot];
    const uint64_t *t = pad(c, spare, PAIR_TO, UVCC_TAG_mask, 0);
    pad(c, slot, PAIR_HO, UVCC_TAG_mask, 0);
    for (uint32_t i = 0; i < c->n; i++)
        r[i] += t[i];
    return r;
}

/* The corrections of a truncation, less HEAD's shares; s->words gets alpha. */
static void deal_trunc(const chunk *c, const uvcc_key_layout *k) {
    const unsigned f = c->t->u.vec.shift;
    const uint64_t low = low_bits(f), high = low_bits(64 - f);
    uint64_t *alpha = c->s->words + c->first, *corr = c->s->slot[4];
    uint8_t *tail = c->b->out_bytes[1];
    if (!c->t->u.vec.compact) {
        const uint64_t *r = full_mask(c, 0, 1);
        for (uint8_t m = 0; m < 2; m++) {
            const uint64_t *head = pad(c, 1, PAIR_HO, UVCC_TAG_trunc, 1 + m);
            uint8_t *to = tail + k->words[1 + m] + (size_t)c->first * 8;
            for (uint32_t i = 0; i < c->n; i++) {
                const uint64_t top = m == 0 ? (r[i] >> 63) << (64 - f) : 0;
                put(to, i, top - (r[i] >> f) - head[i]);
            }
        }
        for (uint32_t i = 0; i < c->n; i++)
            alpha[i] = r[i] & low;
        return;
    }
    const uint64_t *ph = pad(c, 0, PAIR_HO, UVCC_TAG_trunc, 0);
    const uint64_t *pt = pad(c, 1, PAIR_TO, UVCC_TAG_trunc, 0);
    for (uint8_t m = 0; m < 2; m++) {
        const uint64_t *head = pad(c, 2, PAIR_HO, UVCC_TAG_trunc, 1 + m);
        for (uint32_t i = 0; i < c->n; i++) {
            const uint64_t sum = (ph[i] & high) + (pt[i] & high);
            const uint64_t rb = m == 0 ? sum >> (63 - f) & 1 : 0;
            corr[i] = ((sum >> (64 - f)) + rb - head[i]) & low;
        }
        uvcc_bits_pack(corr, c->n, f, tail + k->corr[m] + (size_t)c->first * f / 8);
    }
    if (c->t->u.vec.gate != UVCC_GATE_TRUNC_SR) {
        const uint64_t *own = pad(c, 3, UVCC_PAIR_OWN, UVCC_TAG_own, 0);
        for (uint32_t i = 0; i < c->n; i++)
            alpha[i] = own[i] & low;
    }
}

/* TAIL's shares of rho, the XOR of both bit pads. */
static void deal_trunc_exact(const chunk *c, const uvcc_key_layout *k) {
    const uint8_t *ho = bit_pad(c, 0, PAIR_HO), *to = bit_pad(c, 1, PAIR_TO);
    const uint64_t *rho = bit_masks(c, 2, ho, to);
    const uint64_t *head = pad(c, 3, PAIR_HO, UVCC_TAG_select, 0);
    uint8_t *tail = c->b->out_bytes[1] + k->words[0] + (size_t)c->first * 8;
    for (uint32_t i = 0; i < c->n; i++)
        put(tail, i, 0 - rho[i] - head[i]);
}

/* TAIL's shares of k and k r; s->words gets alpha. */
static void deal_relu(const chunk *c, const uvcc_key_layout *k) {
    const unsigned n = c->t->u.vec.bits;
    const uint64_t *r = full_mask(c, 0, 1), low = low_bits(n);
    const uint8_t *ho = bit_pad(c, 1, PAIR_HO), *to = bit_pad(c, 2, PAIR_TO);
    const uint64_t *rho = bit_masks(c, 3, ho, to);
    const uint64_t *head_k = pad(c, 4, PAIR_HO, UVCC_TAG_select, 0);
    const uint64_t *head_kr = pad(c, 5, PAIR_HO, UVCC_TAG_select, 1);
    uint8_t *tail_k = c->b->out_bytes[1] + k->words[0] + (size_t)c->first * 8;
    uint8_t *tail_kr = c->b->out_bytes[1] + k->words[1] + (size_t)c->first * 8;
    uint64_t *alpha = c->s->words + c->first;
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t bit = rho[i] ^ (0 - (r[i] >> n & 1));
        put(tail_k, i, 0 - bit - head_k[i]);
        put(tail_kr, i, (r[i] & bit) - head_kr[i]);
        alpha[i] = r[i] & low;
    }
}

/* Correction words into TAIL's stream, and the same into HEAD's. */
static void deal_dpf(const chunk *c, const uvcc_key_layout *k) {
    const uvcc_block *b = c->b;
    const unsigned n = less_bits(c->t);
    uint64_t(*roots)[2 * BLOCK] = c->s->roots;
    uint8_t *head = b->out_bytes[0], *tail = b->out_bytes[1];
    prg(c, PAIR_HO, UVCC_TAG_root, 0, 0, roots[0], (size_t)b->count * 2);
    prg(c, PAIR_TO, UVCC_TAG_root, 0, 0, roots[1], (size_t)b->count * 2);
    uvcci_dpf_gen(uvcci_kernel_dpf_keys(c), n, b->count, c->s->words, (const uint8_t *)roots[0],
                  (const uint8_t *)roots[1], tail + k->levels, tail + k->leaves, tail + k->bits,
                  NULL);

    const uvcc_key_layout h = layout_of(c->t, b, UVCC_HEAD);
    memcpy(head + h.levels, tail + k->levels, h.bits - h.levels); /* levels and leaves */
    memcpy(head + h.bits, tail + k->bits, h.total_bytes - h.bits);
}

static void deal(const chunk *c) {
    const uvcc_key_layout k = layout_of(c->t, c->b, UVCC_TAIL);
    const uint8_t gate = c->t->u.vec.gate;
    chunk part = *c;
    for (part.first = 0; part.first < c->b->count; part.first += CHUNK) {
        const uint32_t left = c->b->count - part.first;
        part.n = left < CHUNK ? left : CHUNK;
        if (gate == UVCC_GATE_RELU)
            deal_relu(&part, &k);
        else
            deal_trunc(&part, &k);
        if (gate == UVCC_GATE_TRUNC_ARS)
            deal_trunc_exact(&part, &k);
    }
    if (gate == UVCC_GATE_TRUNC_DCF)
        uvcci_kernel_deal_less(c, 0, c->t->u.vec.shift);
    else if (gate != UVCC_GATE_TRUNC_SR)
        deal_dpf(c, &k);
}

/* --- Comparison without keys ------------------------------------------------------------------ */

static void circuit(const chunk *c) {
    const uvcci_circuit_job j = {
        .task = c->t,
        .block = c->b,
        .key = {[UVCC_PAIR_NEXT] = uvcci_kernel_prg_key(c, UVCC_PAIR_NEXT, UVCC_TAG_zero),
                [UVCC_PAIR_PREV] = uvcci_kernel_prg_key(c, UVCC_PAIR_PREV, UVCC_TAG_zero)},
        .scratch = &c->s->circuit,
    };
    uvcci_circuit_run(&j);
}

/* --- Element-wise work on shares -------------------------------------------------------------- */

static void map_add_row(const uint64_t *x, const uint64_t *y, uint64_t *z, size_t rows,
                        size_t cols) {
    for (size_t i = 0; i < rows; i++, x += cols, z += cols)
        for (size_t j = 0; j < cols; j++)
            z[j] = x[j] + y[j];
}

static void map_sum_rows(const uint64_t *x, uint64_t *z, size_t rows, size_t cols) {
    memset(z, 0, cols * sizeof *z);
    for (size_t i = 0; i < rows; i++, x += cols)
        for (size_t j = 0; j < cols; j++)
            z[j] += x[j];
}

/* z = sign_x x + sign_y y with a column y. */
static void map_add_col(const uint64_t *x, const uint64_t *y, uint64_t *z, size_t rows, size_t cols,
                        uint64_t sign_x, uint64_t sign_y) {
    for (size_t i = 0; i < rows; i++, x += cols, z += cols) {
        const uint64_t add = sign_y * y[i];
        for (size_t j = 0; j < cols; j++)
            z[j] = sign_x * x[j] + add;
    }
}

static void map_sum_cols(const uint64_t *x, uint64_t *z, size_t rows, size_t cols) {
    for (size_t i = 0; i < rows; i++, x += cols) {
        uint64_t sum = 0;
        for (size_t j = 0; j < cols; j++)
            sum += x[j];
        z[i] = sum;
    }
}

static void map_causal(const uint64_t *x, uint64_t *z, size_t rows, size_t cols, uint64_t fill) {
    for (size_t i = 0; i < rows; i++, x += cols, z += cols)
        for (size_t j = 0; j < cols; j++)
            z[j] = j > i % cols ? fill : x[j];
}

/* Element i of x times element k of y, a third of it. */
static uint64_t mul_at(const uvcc_shares *x, const uvcc_shares *y, size_t i, size_t k) {
    return x->lo[i] * (y->lo[k] + y->hi[k]) + x->hi[i] * y->lo[k];
}

/* Products; false: not one. */
static bool map_product(const uvcc_task *t) {
    const uvcc_shares *x = &t->u.map.x, *y = &t->u.map.y;
    const size_t rows = t->u.map.rows, cols = t->u.map.cols;
    uint64_t *z = t->u.map.out.lo;
    switch (t->u.map.op) {
    case UVCC_MAP_MUL:
        for (size_t i = 0; i < rows * cols; i++)
            z[i] = mul_at(x, y, i, i);
        return true;
    case UVCC_MAP_MUL_COL:
        for (size_t i = 0, at = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++, at++)
                z[at] = mul_at(x, y, at, i);
        return true;
    case UVCC_MAP_MUL_ROW:
        for (size_t i = 0, at = 0; i < rows; i++)
            for (size_t j = 0; j < cols; j++, at++)
                z[at] = mul_at(x, y, at, j);
        return true;
    case UVCC_MAP_DOT_ROWS:
        for (size_t i = 0, at = 0; i < rows; i++) {
            uint64_t sum = 0;
            for (size_t j = 0; j < cols; j++, at++)
                sum += mul_at(x, y, at, at);
            z[i] = t->u.map.constant * sum;
        }
        return true;
    default:
        return false;
    }
}

/* From pairs of columns; the last of an odd number of columns is paired with itself. */
static void map_pairs(const uint64_t *x, uint64_t *z, size_t rows, size_t cols, bool diff) {
    for (size_t i = 0; i < rows; i++, x += cols)
        for (size_t j = 0; j < cols; j += 2) {
            const uint64_t second = x[j + 1 < cols ? j + 1 : j];
            *z++ = diff ? x[j] - second : second;
        }
}

static void map_quads(const uint64_t *x, uint64_t *z, size_t rows, size_t cols, bool diff) {
    for (size_t i = 0; i < rows; i++, x += cols)
        for (size_t j = 0; j < cols; j += 4) {
            uint64_t of[4];
            for (size_t k = 0; k < 4; k++)
                of[k] = x[j + k < cols ? j + k : cols - 1];
            for (unsigned p = 0; diff && p < UVCCI_FN_QUAD_PAIRS; p++)
                *z++ = of[uvcci_fn_quad[p][0]] - of[uvcci_fn_quad[p][1]];
            if (!diff)
                *z++ = of[3];
        }
}

static void map_spread(const uint64_t *x, uint64_t *z, size_t rows, size_t cols) {
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < cols; j++)
            *z++ = x[i];
}

/* Operations on component `index` of a value, by itself. */
static int map_component(const uvcc_task *t, unsigned index, const uint64_t *x, const uint64_t *y,
                         uint64_t *z) {
    const size_t rows = t->u.map.rows, cols = t->u.map.cols, n = rows * cols;
    const uint64_t constant = t->u.map.constant, fill = index == 0 ? constant : 0;
    switch (t->u.map.op) {
    case UVCC_MAP_ADD:
        for (size_t i = 0; i < n; i++)
            z[i] = x[i] + y[i];
        return 0;
    case UVCC_MAP_SUB:
        for (size_t i = 0; i < n; i++)
            z[i] = x[i] - y[i];
        return 0;
    case UVCC_MAP_ADD_ROW:
        map_add_row(x, y, z, rows, cols);
        return 0;
    case UVCC_MAP_SUM_ROWS:
        map_sum_rows(x, z, rows, cols);
        return 0;
    case UVCC_MAP_COPY:
        memmove(z, x, n * sizeof *z);
        return 0;
    case UVCC_MAP_SHL:
        for (size_t i = 0; i < n; i++)
            z[i] = x[i] << t->u.map.shift;
        return 0;
    case UVCC_MAP_ADD_COL:
        map_add_col(x, y, z, rows, cols, 1, 1);
        return 0;
    case UVCC_MAP_SUB_COL:
        map_add_col(x, y, z, rows, cols, 1, UINT64_MAX);
        return 0;
    case UVCC_MAP_RSUB_COL:
        map_add_col(x, y, z, rows, cols, UINT64_MAX, 1);
        return 0;
    case UVCC_MAP_SUM_COLS:
        map_sum_cols(x, z, rows, cols);
        return 0;
    case UVCC_MAP_SCALE:
        for (size_t i = 0; i < n; i++)
            z[i] = constant * x[i];
        return 0;
    case UVCC_MAP_ADD_PUBLIC:
        for (size_t i = 0; i < n; i++)
            z[i] = x[i] + fill;
        return 0;
    case UVCC_MAP_CAUSAL:
        map_causal(x, z, rows, cols, fill);
        return 0;
    case UVCC_MAP_PAIR_DIFF:
    case UVCC_MAP_PAIR_SECOND:
        map_pairs(x, z, rows, cols, t->u.map.op == UVCC_MAP_PAIR_DIFF);
        return 0;
    case UVCC_MAP_QUAD_DIFF:
    case UVCC_MAP_QUAD_LAST:
        map_quads(x, z, rows, cols, t->u.map.op == UVCC_MAP_QUAD_DIFF);
        return 0;
    case UVCC_MAP_SPREAD:
        map_spread(x, z, rows, cols);
        return 0;
    default:
        return UVCC_ERR_JOB;
    }
}

/* A public value in component 0. */
static void map_public(const uvcc_task *t) {
    const size_t cols = t->u.map.cols, n = t->u.map.rows * cols;
    uint64_t *const part[2] = {t->u.map.out.lo, t->u.map.out.hi};
    for (unsigned i = 0; i < 2; i++)
        if (part[i] == NULL)
            continue;
        else if ((t->u.map.party + i) % UVCC_PARTIES != 0)
            memset(part[i], 0, n * sizeof *part[i]);
        else if (t->u.map.op == UVCC_MAP_PUBLIC)
            memmove(part[i], t->u.map.x.lo, n * sizeof *part[i]);
        else
            for (size_t j = 0; j < n; j++)
                part[i][j] = 2 * (j % cols) + 1;
}

static int map(const uvcc_task *t) {
    const uvcc_shares *x = &t->u.map.x, *y = &t->u.map.y, *z = &t->u.map.out;
    const unsigned lo = t->u.map.party, hi = (lo + 1) % UVCC_PARTIES;
    if (map_product(t))
        return 0;
    if (t->u.map.op == UVCC_MAP_PUBLIC || t->u.map.op == UVCC_MAP_INDEX) {
        map_public(t);
        return 0;
    }
    const int e = map_component(t, lo, x->lo, y->lo, z->lo);
    return e != 0 || z->hi == NULL ? e : map_component(t, hi, x->hi, y->hi, z->hi);
}

/* --- Hashes, copies --------------------------------------------------------------------------- */

static void hash_one(const uvcc_hash_item *h) {
    if (h->mode == UVCC_HASH_HMAC) {
        uvcci_hmac m;
        uvcci_hmac_init(&m, h->key, sizeof h->key);
        uvcci_hmac_update(&m, h->prefix, h->prefix_len);
        uvcci_hmac_update(&m, h->data, h->len);
        uvcci_hmac_final(&m, h->out);
        return;
    }
    uvcci_sha256 s;
    uvcci_sha256_init(&s);
    uvcci_sha256_update(&s, h->prefix, h->prefix_len);
    uvcci_sha256_update(&s, h->data, h->len);
    uvcci_sha256_final(&s, h->out);
    if (h->mode == UVCC_HASH_SALTED)
        uvcci_hmac_once(h->key, sizeof h->key, h->out, 32, h->out);
}

static void hash(const uvcc_task *t) {
    for (uint32_t i = 0; i < t->u.hash.count; i++)
        hash_one(&t->u.hash.items[i]);
}

static void copy(const uvcc_task *t) {
    for (uint32_t i = 0; i < t->u.copy.count; i++)
        if (t->u.copy.items[i].len != 0)
            memcpy(t->u.copy.items[i].dst, t->u.copy.items[i].src, t->u.copy.items[i].len);
}

static void wipe(const uvcc_task *t) {
    for (uint32_t i = 0; i < t->u.copy.count; i++)
        if (t->u.copy.items[i].len != 0)
            uvcci_wipe(t->u.copy.items[i].dst, t->u.copy.items[i].len);
}

/* --- Dispatch --------------------------------------------------------------------------------- */

static const vec_kernel vec_kernels[UVCC_TASK_KIND_END] = {
    [UVCC_TASK_INPUT] = {input, false},
    [UVCC_TASK_OPEN4_MASK] = {open4_mask, false},
    [UVCC_TASK_OPEN2_MASK] = {open2_mask, false},
    [UVCC_TASK_OPEN_FINISH] = {open_finish, false},
    [UVCC_TASK_TRUNC] = {truncation, false},
    [UVCC_TASK_LESS_MASK] = {less_mask, true},
    [UVCC_TASK_TRUNC_EXACT] = {trunc_exact, false},
    [UVCC_TASK_RELU] = {relu, false},
    [UVCC_TASK_LIFT_MASK] = {lift_mask, false},
    [UVCC_TASK_LIFT_FINISH] = {lift_finish, false},
    [UVCC_TASK_RESHARE_MASK] = {reshare_mask, false},
    [UVCC_TASK_UNPACK] = {unpack, false},
    [UVCC_TASK_PACK] = {pack, false},
    [UVCC_TASK_OPEN_ALL_FINISH] = {open_all_finish, false},
    [UVCC_TASK_DEAL] = {deal, true},
    [UVCC_TASK_OPEN_BITS] = {open_bits, true},
    [UVCC_TASK_BOOL_SHARE] = {circuit, true},
    [UVCC_TASK_BOOL_JOIN] = {circuit, true},
    [UVCC_TASK_BOOL_MERGE] = {circuit, true},
    [UVCC_TASK_BOOL_RECEIVE] = {circuit, true},
    [UVCC_TASK_BOOL_SELECT_MASK] = {circuit, true},
    [UVCC_TASK_BOOL_SELECT_FINISH] = {circuit, true},
    [UVCC_TASK_TRIPLE_A] = {triple_mask, false},
    [UVCC_TASK_TRIPLE_B] = {triple_mask, false},
    [UVCC_TASK_TRIPLE_C] = {reshare_mask, false},
};

/* Whether the numbers of a task are within what its formulas allow. */
static bool vec_is_sane(const uvcc_task *t) {
    const unsigned f = t->u.vec.shift, n = t->u.vec.bits, gate = t->u.vec.gate;
    const bool uses_gate = t->kind == UVCC_TASK_DEAL || t->kind == UVCC_TASK_LESS_MASK;
    if (t->kind >= UVCC_TASK_BOOL_SHARE && t->kind <= UVCC_TASK_BOOL_SELECT_FINISH)
        return uvcci_circuit_is_sane(t);
    if (t->kind == UVCC_TASK_TRUNC || t->kind == UVCC_TASK_OPEN4_MASK)
        return f >= 1 && f <= 62;
    if (t->kind == UVCC_TASK_RELU || (uses_gate && gate == UVCC_GATE_RELU))
        return n >= 1 && n <= 63;
    if (uses_gate)
        return f >= 1 && f <= 62 &&
               (gate == UVCC_GATE_TRUNC_ARS ||
                (t->kind == UVCC_TASK_DEAL &&
                 (gate == UVCC_GATE_TRUNC_SR || gate == UVCC_GATE_TRUNC_DCF)));
    return true;
}

/* At least `words` words of packing memory. */
static int reserve(uvcci_cpu_worker *w, size_t words) {
    if (words <= w->scratch_words)
        return 0;
    uint64_t *p = w->alloc.alloc(w->alloc.user, words * sizeof *p, UVCC_MEM_TENSOR);
    if (p == NULL)
        return UVCC_ERR_NOMEM;
    if (w->scratch != NULL) {
        const size_t bytes = w->scratch_words * sizeof *p;
        uvcci_wipe(w->scratch, bytes);
        w->alloc.free(w->alloc.user, w->scratch, bytes, UVCC_MEM_TENSOR);
    }
    w->scratch = p;
    w->scratch_words = words;
    return 0;
}

static int run_vec(uvcci_cpu_worker *w, const uvcc_task *t) {
    const vec_kernel *fn = uvcci_fn_kernel(t->kind), *k = fn != NULL ? fn : &vec_kernels[t->kind];
    if (k->run == NULL || !(fn != NULL ? uvcci_fn_is_sane(t) : vec_is_sane(t)))
        return UVCC_ERR_JOB;
    if (reserve(w, uvcci_fn_packing_words(t)) != 0)
        return UVCC_ERR_JOB;
    if (fn != NULL)
        uvcci_fn_prepare(t, w->scratch);
    chunk c = {.s = scratch_of(w), .packing = w->scratch, .t = t, .aes = w->aes, .simd = w->gemm};
    for (uint32_t i = 0; i < t->u.vec.count; i++) {
        c.b = &t->u.vec.blocks[i];
        const uint32_t count = c.b->count;
        if (count == 0 || count > BLOCK || c.b->role > UVCC_OTHER)
            return UVCC_ERR_JOB;
        const uint32_t step = k->whole ? BLOCK : CHUNK;
        for (c.first = 0; c.first < count; c.first += step) {
            c.n = count - c.first < step ? count - c.first : step;
            k->run(&c);
        }
    }
    return 0;
}

static int gemm(uvcci_cpu_worker *w, const uvcc_task *t) {
    const uint32_t m = t->u.gemm.m, n = t->u.gemm.n, k = t->u.gemm.k;
    const uvcci_gemm_backend b = w->gemm_by_shape ? uvcci_gemm_pick(w->gemm, m, n, k) : w->gemm;
    if (reserve(w, uvcci_gemm_scratch_words(b, m, n, k)) != 0)
        return UVCC_ERR_JOB;
    const uvcc_shares *x = &t->u.gemm.x, *y = &t->u.gemm.y;
    uvcci_gemm_replicated p = {.m = m,
                               .n = n,
                               .k = k,
                               .trans_x = t->u.gemm.trans_x,
                               .trans_y = t->u.gemm.trans_y,
                               .accumulate = t->u.gemm.accumulate,
                               .ldx = t->u.gemm.trans_x ? m : k,
                               .ldy = t->u.gemm.trans_y ? k : n,
                               .ldz = n};
    const bool blocks = t->u.gemm.groups != 0;
    const uvcc_gemm_layout none = {0};
    const uvcc_gemm_layout *lx = blocks ? &t->u.gemm.lx : &none;
    const uvcc_gemm_layout *ly = blocks ? &t->u.gemm.ly : &none;
    const uvcc_gemm_layout *lz = blocks ? &t->u.gemm.lz : &none;
    if (blocks) {
        p.ldx = lx->ld;
        p.ldy = ly->ld;
        p.ldz = lz->ld;
    }
    for (uint32_t g = 0; g < (blocks ? t->u.gemm.groups : 1); g++)
        for (uint32_t h = 0; h < (blocks ? t->u.gemm.heads : 1); h++) {
            const size_t at_x = g * lx->group + h * lx->head, at_y = g * ly->group + h * ly->head;
            p.x_lo = x->lo + at_x;
            p.x_hi = x->hi + at_x;
            p.y_lo = y->lo + at_y;
            p.y_hi = y->hi + at_y;
            p.z = t->u.gemm.z + g * lz->group + h * lz->head;
            uvcci_gemm_rss(b, &p, w->scratch);
        }
    return 0;
}

static int bit_sums(uvcci_cpu_worker *w, const uvcc_task *t) {
    if (t->u.bits.rows == 0 || t->u.bits.cols == 0 || reserve(w, uvcci_bit_sums_words()) != 0)
        return UVCC_ERR_JOB;
    uvcci_bit_sums(t, w->gemm, w->aes, w->scratch);
    return 0;
}

static int run_task(uvcci_cpu_worker *w, const uvcc_task *t) {
    switch (t->kind) {
    case UVCC_TASK_MAP:
        return map(t);
    case UVCC_TASK_GEMM:
        return gemm(w, t);
    case UVCC_TASK_BIT_SUMS:
        return bit_sums(w, t);
    case UVCC_TASK_HASH:
        hash(t);
        return 0;
    case UVCC_TASK_COPY:
        copy(t);
        return 0;
    case UVCC_TASK_WIPE:
        wipe(t);
        return 0;
    default:
        return t->kind < UVCC_TASK_KIND_END ? run_vec(w, t) : UVCC_ERR_JOB;
    }
}

int uvcci_cpu_run(uvcci_cpu_worker *w, const uvcc_job *job) {
    int e = 0;
    for (uint32_t i = 0; i < job->count && e == 0; i++)
        e = run_task(w, &job->tasks[i]);
    key_cache *k = &scratch_of(w)->keys;
    if (k->of != NULL)
        uvcci_wipe(k, sizeof *k);
    return e;
}

int uvcci_cpu_worker_init(uvcci_cpu_worker *w, const uvcc_allocator *al, uint32_t backend) {
    static const uvcci_aes_backend aes[] = {UVCCI_AES_AUTO, UVCCI_AES_PORTABLE, UVCCI_AES_NI,
                                            UVCCI_AES_VAES, UVCCI_AES_VAES};
    if (backend >= sizeof aes / sizeof *aes)
        return UVCC_ERR_CONFIG;
    block_scratch *s = al->alloc(al->user, sizeof *s, UVCC_MEM_SECRET);
    if (s == NULL)
        return UVCC_ERR_NOMEM;
    memset(&s->keys, 0, sizeof s->keys);

    const uvcci_aes_backend best_aes = uvcci_aes_best();
    const uvcci_gemm_backend gemm = (uvcci_gemm_backend)backend;
    const bool any = backend == 0;
    *w = (uvcci_cpu_worker){
        .alloc = *al,
        .aes = any || aes[backend] > best_aes ? best_aes : aes[backend],
        .gemm = any || gemm == UVCCI_GEMM_AMX ? uvcci_gemm_best() : gemm,
        .gemm_by_shape = any,
        .block_scratch = (uint8_t *)s,
    };
    return 0;
}

int uvcci_cpu_worker_reserve(uvcci_cpu_worker *w) {
    const size_t gemm_words = uvcci_gemm_scratch_words(w->gemm, UINT32_MAX, UINT32_MAX, UINT32_MAX);
    const size_t others[] = {uvcci_fn_packing_words_max(), uvcci_bit_sums_words()};
    size_t most = gemm_words;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        most = others[i] > most ? others[i] : most;
    return reserve(w, most);
}

void uvcci_cpu_worker_free(uvcci_cpu_worker *w) {
    const uvcc_allocator *al = &w->alloc;
    if (w->block_scratch != NULL) {
        uvcci_wipe(w->block_scratch, sizeof(block_scratch));
        al->free(al->user, w->block_scratch, sizeof(block_scratch), UVCC_MEM_SECRET);
    }
    if (w->scratch != NULL) {
        uvcci_wipe(w->scratch, w->scratch_words * sizeof *w->scratch);
        al->free(al->user, w->scratch, w->scratch_words * sizeof *w->scratch, UVCC_MEM_TENSOR);
    }
    *w = (uvcci_cpu_worker){0};
}
