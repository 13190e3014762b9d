/* fss_x86.c - trees of the 1-bit DPF by AVX-512 and VAES, four nodes to a register.
 *
 * The children of 16 nodes are made, corrected and stored without leaving the registers. What
 * decides something for a node - a direction, alpha, a control bit - is a mask of its register, two
 * bits per node, so nothing branches on it or indexes by it. Invariant: as in fss.c, a node's
 * control bit is the lowest bit of its seed; a correction word carries, in its lowest bit, the
 * correction of that bit, so that one masked addition corrects both. */
#include "fss.h"

#if UVCCI_FSS_X86

#include <immintrin.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/crypto.h"

#define WIDE        __attribute__((target("avx512f,vaes,bmi2")))
#define WIDE_INLINE static inline __attribute__((always_inline, target("avx512f,vaes,bmi2")))

/* Loops over registers must be unrolled at any -O level, or the registers live in memory. */
#if defined(__clang__)
#define UNROLL _Pragma("unroll")
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

enum { ROUNDS = 10, BLOCK = 16, PER_REG = 4, REGS = 8, CHUNK = PER_REG * REGS };
/* Registers in flight: of leaf blocks; of nodes, with round keys that are blended from registers.
 * The other nodes read theirs from memory: so neither the vector units nor the loads are the limit.
 */
enum { LEAVES = 4, BLENDED = 5 };
enum { CHUNKS = UVCCI_DPF_GROUP / CHUNK };
enum { LEAF_BITS = 7, CONTROL_LEVELS = 32 /* in one half of a key's control bits */ };

/* Truth tables of ternary logic: the index is a << 2 | b << 1 | c. */
enum {
    A_XOR_B_ANDNOT_C = 0xb4,
    A_XOR_B_AND_C = 0x78,
    A_XOR_B_XOR_C = 0x96,
    A_PICKS_B_ELSE_C = 0xca,
    A_PICKS_NOT_B_ELSE_C = 0x3a,
};

/* x in the lowest 64 bits of each node. */
WIDE_INLINE __m512i low_half(long long x) {
    return _mm512_set_epi64(0, x, 0, x, 0, x, 0, x);
}

WIDE_INLINE __m512i *reg(uvcci_dpf_node *x) {
    return (__m512i *)(void *)x;
}

/* The masks of node i and of those after it, of `count` nodes. */
WIDE_INLINE __mmask8 part(uint32_t count, uint32_t i) {
    if (i >= count)
        return 0;
    return count - i >= PER_REG ? 0xff : (__mmask8)((1u << 2 * (count - i)) - 1);
}

WIDE_INLINE __m512i load_part(const uint8_t *p, __mmask8 k) {
    return _mm512_maskz_loadu_epi64(k, p);
}

/* Every word twice, for the two halves of nodes. Words at and after count are 0. */
WIDE_INLINE void twice(uvcci_dpf_node *out, const uint64_t *x, uint32_t count) {
    const __m512i halves = _mm512_set_epi64(3, 3, 2, 2, 1, 1, 0, 0);
    for (uint32_t i = 0; i < count; i += PER_REG) {
        const uint32_t left = count - i;
        const __mmask8 k = left >= PER_REG ? 0xf : (__mmask8)((1u << left) - 1);
        const __m512i words = _mm512_maskz_loadu_epi64(k, x + i);
        _mm512_store_si512(reg(out + i), _mm512_permutexvar_epi64(halves, words));
    }
}

WIDE_INLINE void round_keys(__m512i k[ROUNDS + 1], const uvcci_aes *a) {
    UNROLL for (unsigned r = 0; r <= ROUNDS; r++) {
        k[r] = _mm512_broadcast_i32x4(
            _mm_load_si128((const __m128i *)(const void *)(a->rk + r * BLOCK)));
    }
}

/* The round after the first key. */
WIDE_INLINE __m512i aes_round(__m512i s, __m512i k, unsigned r) {
    return r == ROUNDS ? _mm512_aesenclast_epi128(s, k) : _mm512_aesenc_epi128(s, k);
}

/* x ^ node without the control bit. */
WIDE_INLINE __m512i add_seed(__m512i x, __m512i node) {
    return _mm512_ternarylogic_epi64(x, node, low_half(1), A_XOR_B_ANDNOT_C);
}

WIDE_INLINE __mmask8 control_mask(__m512i node) {
    return _mm512_test_epi64_mask(_mm512_unpacklo_epi64(node, node), _mm512_set1_epi64(1));
}

/* --- Evaluation ------------------------------------------------------------------------------- */

/* A word of masks: two bits a node, eight registers. Masks are made of its even bits. */
#define EVEN_BITS 0x5555555555555555u

WIDE void uvcci_dpf_wide_begin(uvcci_dpf_wide *w, const uvcci_aes dpf[2]) {
    __m512i left[ROUNDS + 1], right[ROUNDS + 1];
    round_keys(left, &dpf[0]);
    round_keys(right, &dpf[1]);
    for (unsigned p = 0; p < 1 << PER_REG; p++) {
        const __mmask8 k = (__mmask8)(_pdep_u32(p, 0x55) * 3);
        UNROLL for (unsigned r = 0; r <= ROUNDS; r++) {
            _mm512_store_si512(w->round_key[p][r], _mm512_mask_blend_epi64(k, left[r], right[r]));
        }
    }
}

WIDE void uvcci_dpf_wide_roots(uvcci_dpf_nodes *g, const uvcci_dpf_keys *k, uint32_t at,
                               uint32_t m) {
    const uint8_t *root = k->root + (size_t)at * BLOCK;
    const __m512i one = low_half(1), control = low_half(k->party1);
    for (uint32_t i = 0; i < m; i += PER_REG) {
        const __m512i x = load_part(root + (size_t)i * BLOCK, part(m, i));
        *reg(g->seed + i) = _mm512_ternarylogic_epi64(one, control, x, A_PICKS_B_ELSE_C);
        *reg(g->passed + i) = _mm512_setzero_si512();
    }
}

WIDE void uvcci_dpf_wide_keys(uvcci_dpf_wide *w, const uvcci_dpf_keys *k, uint32_t at, uint32_t m) {
    const unsigned tb = (2 * uvcci_dpf_levels(k->n) + 7) / 8;
    const size_t end = (size_t)k->c * tb;
    for (uint32_t i = 0; i < m; i++) {
        const size_t from = (size_t)(at + i) * tb;
        uint64_t both[2] = {0};
        if (from + sizeof both <= end)
            memcpy(both, k->bits + from, sizeof both); /* those of the next keys too: never read */
        else
            memcpy(both, k->bits + from, tb);
        w->control[0][i] = both[0];
        w->control[1][i] = both[1];
    }
}

/* Where 32 nodes go: a bit each where x goes right, masks of that, and masks of where the control
 * bit of the child that it goes to is corrected. */
typedef struct turn {
    uint32_t to_right;
    uint64_t rights, correct;
} turn;

WIDE_INLINE turn turn_of(const uint64_t *x, const uint64_t *control, unsigned n, unsigned l) {
    const __m512i direction = _mm512_set1_epi64((long long)((uint64_t)1 << (n - 1 - l)));
    const __m512i left_bit =
        _mm512_set1_epi64((long long)((uint64_t)1 << 2 * (l % CONTROL_LEVELS)));
    const __m512i right_bit = _mm512_add_epi64(left_bit, left_bit);
    uint32_t to_right = 0, correct = 0;
    UNROLL for (unsigned j = 0; j < CHUNK / 8; j++) {
        const __mmask8 k = _mm512_test_epi64_mask(_mm512_loadu_si512(x + 8 * j), direction);
        const __m512i bit = _mm512_mask_blend_epi64(k, left_bit, right_bit);
        to_right |= (uint32_t)k << 8 * j;
        correct |= (uint32_t)_mm512_test_epi64_mask(_mm512_loadu_si512(control + 8 * j), bit)
                   << 8 * j;
    }
    return (turn){to_right, _pdep_u64(to_right, EVEN_BITS), _pdep_u64(correct, EVEN_BITS)};
}

/* The masks of register j. */
WIDE_INLINE __mmask8 mask_of(uint64_t masks, unsigned j) {
    return (__mmask8)(masks >> 8 * j);
}

/* The lowest bits of 32 nodes. */
WIDE_INLINE uint64_t low_bits(uvcci_dpf_node *x) {
    uint64_t low = 0;
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        low |= (uint64_t)_mm512_test_epi64_mask(*reg(x + j * PER_REG), low_half(1)) << 8 * j;
    }
    return low;
}

WIDE_INLINE void set_low_bits(uvcci_dpf_node *x, uint64_t low) {
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        const __m512i y = _mm512_andnot_si512(low_half(1), *reg(x + j * PER_REG));
        *reg(x + j * PER_REG) = _mm512_mask_or_epi64(y, mask_of(low, j), y, low_half(1));
    }
}

/* Keeps a mask in its register: compilers take it for an integer and move it there again at every
 * use. */
WIDE_INLINE __mmask8 pinned(__mmask8 k) {
    __asm__("" : "+Yk"(k));
    return k;
}

/* `count` of 32 nodes. */
WIDE_INLINE void walk_chunk(const __m512i left[ROUNDS + 1], const __m512i right[ROUNDS + 1],
                            const uvcci_dpf_wide *w, turn t, const uint8_t *level,
                            uvcci_dpf_node *nodes, uint32_t count, uint64_t *control,
                            uint64_t *passed) {
    const uint64_t rights = t.rights * 3, controls = *control * 3;
    uint64_t low = 0;
    __m512i s[REGS];
    __mmask8 mask[BLENDED];
    const __m512i *picked[REGS]; /* x is public: its bits may choose what is read */
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        if (j < BLENDED)
            mask[j] = pinned(mask_of(rights, j));
        else
            picked[j] = (const __m512i *)(const void *)w->round_key[t.to_right >> PER_REG * j & 15];
    }
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        const __m512i k =
            j < BLENDED ? _mm512_mask_blend_epi64(mask[j], left[0], right[0]) : picked[j][0];
        s[j] = add_seed(k, *reg(nodes + j * PER_REG));
    }
    UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
        UNROLL for (unsigned j = 0; j < REGS; j++) {
            const __m512i k =
                j < BLENDED ? _mm512_mask_blend_epi64(mask[j], left[r], right[r]) : picked[j][r];
            s[j] = aes_round(s[j], k, r);
        }
    }
    UNROLL for (unsigned j = 0; j < REGS; j++) {
        __m512i *node = reg(nodes + j * PER_REG);
        const __m512i child = add_seed(s[j], *node);
        const __m512i cw = load_part(level + j * 64, part(count, j * PER_REG));
        low |= (uint64_t)_mm512_test_epi64_mask(child, low_half(1)) << 8 * j;
        *node = _mm512_mask_xor_epi64(child, mask_of(controls, j), child, cw);
    }
    const uint64_t next = low ^ (*control & t.correct);
    *passed ^= t.rights & (*control ^ next);
    *control = next;
}

WIDE void uvcci_dpf_wide_walk(const uvcci_aes dpf[2], uvcci_dpf_walk *g, const uvcci_dpf_keys *k,
                              uint32_t at, uint32_t m, const uint64_t *x, unsigned from,
                              unsigned to) {
    __m512i left[ROUNDS + 1], right[ROUNDS + 1];
    uint64_t control[CHUNKS], passed[CHUNKS];
    turn turns[CHUNKS];
    round_keys(left, &dpf[0]);
    round_keys(right, &dpf[1]);
    memcpy(g->wide.x, x, (size_t)m * sizeof *x);
    for (uint32_t i = 0; i < m; i += CHUNK) {
        control[i / CHUNK] = low_bits(g->nodes.seed + i);
        passed[i / CHUNK] = low_bits(g->nodes.passed + i);
        turns[i / CHUNK] =
            turn_of(g->wide.x + i, g->wide.control[from / CONTROL_LEVELS] + i, k->n, from);
    }
    for (unsigned l = from; l < to; l++) {
        /* Of the next level; the last one is its own. */
        const unsigned next = l + 1 < to ? l + 1 : l;
        const uint64_t *next_control = g->wide.control[next / CONTROL_LEVELS];
        const size_t ahead = (size_t)(next - l) * k->c * BLOCK;
        const uint8_t *level = k->levels + ((size_t)l * k->c + at) * BLOCK;
        uint32_t i = 0;
        for (; i + CHUNK <= m; i += CHUNK) {
            const turn t = turns[i / CHUNK];
            turns[i / CHUNK] = turn_of(g->wide.x + i, next_control + i, k->n, next);
            UNROLL for (unsigned j = 0; j < REGS; j++) {
                _mm_prefetch((const char *)(level + ahead + (size_t)i * BLOCK + 64 * j),
                             _MM_HINT_T0);
            }
            walk_chunk(left, right, &g->wide, t, level + (size_t)i * BLOCK, g->nodes.seed + i,
                       CHUNK, &control[i / CHUNK], &passed[i / CHUNK]);
        }
        if (i < m) {
            const turn t = turns[i / CHUNK];
            turns[i / CHUNK] = turn_of(g->wide.x + i, next_control + i, k->n, next);
            walk_chunk(left, right, &g->wide, t, level + (size_t)i * BLOCK, g->nodes.seed + i,
                       m - i, &control[i / CHUNK], &passed[i / CHUNK]);
        }
    }
    for (uint32_t i = 0; i < m; i += CHUNK) {
        set_low_bits(g->nodes.seed + i, control[i / CHUNK]);
        set_low_bits(g->nodes.passed + i, passed[i / CHUNK]);
    }
    uvcci_wipe(control, sizeof control);
    uvcci_wipe(passed, sizeof passed);
}

WIDE void uvcci_dpf_wide_prefix(const uvcci_aes dpf[2], uvcci_dpf_walk *g, const uvcci_dpf_keys *k,
                                uint32_t at, uint32_t m, const uint64_t *x, uint8_t *out) {
    __m512i key[ROUNDS + 1];
    round_keys(key, &dpf[0]);
    twice(g->child, x, m);
    const __m512i leaf = _mm512_set1_epi64((1 << (k->n < LEAF_BITS ? k->n : LEAF_BITS)) - 1);
    const __m512i last = _mm512_set_epi64(127, 63, 127, 63, 127, 63, 127, 63);
    const __m512i zero = _mm512_setzero_si512(), ones = _mm512_set1_epi64(-1);
    const uint8_t *finals = k->leaves + (size_t)at * BLOCK;
    for (uint32_t i = 0; i < m; i += LEAVES * PER_REG) {
        __m512i s[LEAVES];
        UNROLL for (unsigned j = 0; j < LEAVES; j++) {
            s[j] = add_seed(key[0], *reg(g->nodes.seed + i + j * PER_REG));
        }
        UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
            UNROLL for (unsigned j = 0; j < LEAVES; j++) {
                s[j] = aes_round(s[j], key[r], r);
            }
        }
        UNROLL for (unsigned j = 0; j < LEAVES; j++) {
            const uint32_t to = i + j * PER_REG;
            const __m512i node = *reg(g->nodes.seed + to), point = *reg(g->child + to);
            const __m512i cw = load_part(finals + (size_t)to * BLOCK, part(m, to));
            __m512i block = add_seed(s[j], node);
            block = _mm512_mask_xor_epi64(block, control_mask(node), block, cw);
            /* The leaves up to x: all ones, less those after it. */
            const __m512i after = _mm512_sub_epi64(last, _mm512_and_si512(point, leaf));
            const __m512i upto = _mm512_srlv_epi64(ones, _mm512_max_epi64(after, zero));
            const __m512i bit = _mm512_and_si512(*reg(g->nodes.passed + to), low_half(1));
            *reg(g->child + to) = _mm512_ternarylogic_epi64(bit, block, upto, A_XOR_B_AND_C);
        }
    }
    for (uint32_t i = 0; i < m; i++)
        out[i] = (uint8_t)__builtin_parityll(g->child[i].lo ^ g->child[i].hi);
}

/* --- Keys ------------------------------------------------------------------------------------- */

typedef struct gen_group {
    _Alignas(64) uvcci_dpf_node seed[2][UVCCI_DPF_GROUP]; /* of both parties */
    uvcci_dpf_node alpha[UVCCI_DPF_GROUP];
    uvcci_dpf_node control[2][UVCCI_DPF_GROUP];
    uvcci_dpf_node hit[UVCCI_DPF_GROUP]; /* party 0's leaf block where it is alpha's leaf */
} gen_group;

WIDE_INLINE void gen_roots(gen_group *g, uint32_t m, const uint64_t *alpha, const uint8_t *root0,
                           const uint8_t *root1) {
    const __m512i one = low_half(1);
    twice(g->alpha, alpha, m);
    for (uint32_t i = 0; i < m; i += PER_REG) {
        const __mmask8 k = part(m, i);
        *reg(g->seed[0] + i) = _mm512_andnot_si512(one, load_part(root0 + (size_t)i * BLOCK, k));
        *reg(g->seed[1] + i) = _mm512_or_si512(one, load_part(root1 + (size_t)i * BLOCK, k));
        *reg(g->control[0] + i) = *reg(g->control[1] + i) = _mm512_setzero_si512();
    }
}

/* Four nodes of both parties from level l to the next. */
WIDE_INLINE void gen_level(const __m512i left[ROUNDS + 1], const __m512i right[ROUNDS + 1],
                           gen_group *g, uint32_t i, __mmask8 there, __m512i shift, unsigned l,
                           uint8_t *to) {
    const __m512i one = low_half(1), three = low_half(3);
    const __m512i node[2] = {*reg(g->seed[0] + i), *reg(g->seed[1] + i)};
    const __mmask8 goes_right = _mm512_test_epi64_mask(*reg(g->alpha + i), shift);
    __m512i child[2][2]; /* [party][left, right] */
    UNROLL for (unsigned p = 0; p < 2; p++) {
        child[p][0] = add_seed(left[0], node[p]);
        child[p][1] = add_seed(right[0], node[p]);
    }
    UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
        UNROLL for (unsigned p = 0; p < 2; p++) {
            child[p][0] = aes_round(child[p][0], left[r], r);
            child[p][1] = aes_round(child[p][1], right[r], r);
        }
    }
    UNROLL for (unsigned p = 0; p < 2; p++) {
        child[p][0] = add_seed(child[p][0], node[p]);
        child[p][1] = add_seed(child[p][1], node[p]);
    }
    const __m512i left_sum = _mm512_xor_si512(child[0][0], child[1][0]);
    const __m512i right_sum = _mm512_xor_si512(child[0][1], child[1][1]);
    const __m512i lost = _mm512_mask_blend_epi64(goes_right, right_sum, left_sum);
    const __m512i kept = _mm512_mask_blend_epi64(goes_right, left_sum, right_sum);
    _mm512_mask_storeu_epi64(to, there, _mm512_andnot_si512(one, lost));

    /* Children's control bits are to differ where alpha is below, else to agree. */
    const __m512i bits = _mm512_ternarylogic_epi64(
        one, left_sum, _mm512_add_epi64(right_sum, right_sum), A_PICKS_B_ELSE_C);
    const __m512i differ = _mm512_mask_blend_epi64(goes_right, one, low_half(2));
    const __m512i control = _mm512_ternarylogic_epi64(differ, bits, three, A_XOR_B_AND_C);
    __m512i *all = reg(g->control[l / CONTROL_LEVELS] + i);
    *all = _mm512_or_si512(
        *all, _mm512_sll_epi64(control, _mm_cvtsi32_si128((int)(2 * (l % CONTROL_LEVELS)))));

    const __m512i cw = _mm512_ternarylogic_epi64(one, kept, lost, A_PICKS_NOT_B_ELSE_C);
    const __mmask8 t0 = control_mask(node[0]);
    UNROLL for (unsigned p = 0; p < 2; p++) {
        const __m512i next = _mm512_mask_blend_epi64(goes_right, child[p][0], child[p][1]);
        const __mmask8 t = p == 0 ? t0 : (__mmask8)~t0;
        *reg(g->seed[p] + i) = _mm512_mask_xor_epi64(next, t, next, cw);
    }
}

WIDE_INLINE void gen_leaves(const __m512i key[ROUNDS + 1], gen_group *g, uint32_t m, unsigned n,
                            uint8_t *leaves) {
    const __m512i leaf = _mm512_set1_epi64((1 << (n < LEAF_BITS ? n : LEAF_BITS)) - 1);
    const __m512i first = _mm512_set_epi64(64, 0, 64, 0, 64, 0, 64, 0), one = _mm512_set1_epi64(1);
    for (uint32_t i = 0; i < m; i += PER_REG) {
        const __m512i node[2] = {*reg(g->seed[0] + i), *reg(g->seed[1] + i)};
        __m512i s[2] = {add_seed(key[0], node[0]), add_seed(key[0], node[1])};
        UNROLL for (unsigned r = 1; r <= ROUNDS; r++) {
            s[0] = aes_round(s[0], key[r], r);
            s[1] = aes_round(s[1], key[r], r);
        }
        s[0] = add_seed(s[0], node[0]);
        s[1] = add_seed(s[1], node[1]);
        /* A shift by 64 or more, as a negative one is, leaves nothing. */
        const __m512i a = _mm512_and_si512(*reg(g->alpha + i), leaf);
        const __m512i point = _mm512_sllv_epi64(one, _mm512_sub_epi64(a, first));
        const __m512i cw = _mm512_ternarylogic_epi64(s[0], s[1], point, A_XOR_B_XOR_C);
        _mm512_mask_storeu_epi64(leaves + (size_t)i * BLOCK, part(m, i), cw);
        s[0] = _mm512_mask_xor_epi64(s[0], control_mask(node[0]), s[0], cw);
        *reg(g->hit + i) = _mm512_and_si512(s[0], point);
    }
}

/* tb bytes of each key. A store of 16 bytes is the faster one; the next keys go over its end. */
WIDE_INLINE void gen_control(const gen_group *g, uint32_t m, unsigned tb, uint8_t *bits) {
    for (uint32_t i = 0; i < m; i++) {
        const uint64_t both[2] = {g->control[0][i].lo, g->control[1][i].lo};
        if ((size_t)(m - i) * tb >= sizeof both)
            memcpy(bits + (size_t)i * tb, both, sizeof both);
        else
            memcpy(bits + (size_t)i * tb, both, tb);
    }
}

WIDE void uvcci_dpf_wide_gen(const uvcci_aes dpf[2], unsigned n, uint32_t c, const uint64_t *alpha,
                             const uint8_t *root0, const uint8_t *root1, uint8_t *levels,
                             uint8_t *leaves, uint8_t *bits, uint8_t *sign) {
    const unsigned depth = uvcci_dpf_levels(n), tb = (2 * depth + 7) / 8;
    __m512i left[ROUNDS + 1], right[ROUNDS + 1];
    round_keys(left, &dpf[0]);
    round_keys(right, &dpf[1]);
    gen_group g;
    for (uint32_t at = 0; at < c; at += UVCCI_DPF_GROUP) {
        const uint32_t m = c - at < UVCCI_DPF_GROUP ? c - at : UVCCI_DPF_GROUP;
        gen_roots(&g, m, alpha + at, root0 + (size_t)at * BLOCK, root1 + (size_t)at * BLOCK);
        for (unsigned l = 0; l < depth; l++) {
            const __m512i shift = _mm512_set1_epi64((long long)((uint64_t)1 << (n - 1 - l)));
            uint8_t *to = levels + ((size_t)l * c + at) * BLOCK;
            for (uint32_t i = 0; i < m; i += PER_REG)
                gen_level(left, right, &g, i, part(m, i), shift, l, to + (size_t)i * BLOCK);
        }
        gen_control(&g, m, tb, bits + (size_t)at * tb);
        gen_leaves(left, &g, m, n, leaves + (size_t)at * BLOCK);
        if (sign != NULL)
            for (uint32_t i = 0; i < m; i++)
                sign[at + i] = (uint8_t)__builtin_parityll(g.hit[i].lo ^ g.hit[i].hi);
    }
    uvcci_wipe(&g, sizeof g);
}

#endif
