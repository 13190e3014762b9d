/* uvcc/compute.h - compute jobs and executors.
 *
 * A session never computes on large data itself: uvcc_session_poll_job() hands out jobs, an
 * executor runs them and gives one completion each, uvcc_session_complete() takes it. A job is a
 * short list of tasks that run in order (a CUDA executor enqueues them on one stream); different
 * jobs that are out at the same time are independent.
 *
 * Memory: pointers in tasks are addresses in the place where the session's allocator put them.
 * TENSOR memory is touched by tasks only (never by the session), WIRE and STATE memory is host
 * memory that the executor may read and write until the job's completion is handed in. Keys and
 * shares pass through: an executor keeps no copy.
 *
 * Notation: party p holds components p ("lo") and p+1 ("hi") of every RSS value. On an edge, HEAD
 * holds (a, b) = (lo, hi), TAIL (b, c), OTHER (c, a). Pair keys: NEXT is shared with party p+1,
 * PREV with p-1. So HEAD has HT = NEXT, HO = PREV; TAIL has TO = NEXT, HT = PREV; OTHER has HO =
 * NEXT, TO = PREV. PRG(pair, tag, lane)[j] is word j at (task.ordinal, call, block.block) of
 * protocols.md 2.
 */
#ifndef UVCC_COMPUTE_H
#define UVCC_COMPUTE_H

#include <stdbool.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum uvcc_prg_tag {
#define UVCCI_TAG(name) UVCC_TAG_##name,
#include <uvcc/tags.def>
#undef UVCCI_TAG
    UVCC_TAG_COUNT
} uvcc_prg_tag;
enum { UVCC_PAIR_NEXT = 0, UVCC_PAIR_PREV = 1, UVCC_PAIR_OWN = 2 };

/** AES-128 keys of one step. Stable while any job that names it is out. */
typedef struct uvcc_step_keys {
    uint8_t prg[3][UVCC_TAG_COUNT][16]; /**< [pair][tag] */
    uint8_t dpf[2][16];                 /**< fixed keys of the DPF's node PRG: left, right */
} uvcc_step_keys;

typedef enum uvcc_role { UVCC_HEAD = 0, UVCC_TAIL = 1, UVCC_OTHER = 2 } uvcc_role;

/** Workers of one party that act together (parallel.md): the tensor ranks of a stage of a replica,
 * the stages of one (replica, rank), the replicas of one (stage, rank), and all workers of a stage.
 * Members are ordered by local rank. */
typedef enum uvcc_group {
    UVCC_GROUP_TP = 0,
    UVCC_GROUP_PP = 1,
    UVCC_GROUP_DP = 2,
    UVCC_GROUP_STAGE = 3,
} uvcc_group;

/** What a task does. B: works on task.u.vec (blocks), M: on task.u.map, G: on task.u.gemm, H: on
 * task.u.hash, C: on task.u.copy. Arithmetic is mod 2^64; f = vec.shift, n = vec.bits. `w->`/`->w`
 * are little-endian wire words. zs = PRG(NEXT, zero, 0) - PRG(PREV, zero, 0). */
typedef enum uvcc_task_kind {
    /** B. HEAD (the owner): in[0] = x; lo = PRG(PREV, input, 0), hi = PRG(NEXT, input, 0),
     * rest = x - lo - hi -> wire_out[0] and wire_out[1]; out[0] = lo, out[1] = hi.
     * TAIL: out[0] = PRG(PREV, input, 0), out[1] = wire_in[0]. OTHER: out[0] = wire_in[0],
     * out[1] = PRG(NEXT, input, 0). */
    UVCC_TASK_INPUT = 1,
    /** B. Mask of OPEN4 with compact pads. in[0] = z, 3-additive without zero share; t = z + zs.
     * HEAD: t + (PRG(HO, trunc, 0) << f) -> out[0] and wire_out[0]. TAIL: the same with TO.
     * OTHER: t + (PRG(OWN, own, 0) mod 2^f) -> wire_out[0] and wire_out[1]. */
    UVCC_TASK_OPEN4_MASK,
    /** B. Mask of OPEN on RSS, full pads. in[0] = lo, in[1] = hi. HEAD: lo + PRG(HO, mask, 0) ->
     * wire_out[0], the same + hi -> out[0]. TAIL: hi + PRG(TO, mask, 0) -> wire_out[0], the same +
     * lo
     * -> out[0]. OTHER: nothing. */
    UVCC_TASK_OPEN2_MASK,
    /** B. HEAD, TAIL: out[0] = in[0] + wire_in[0] (+ wire_in[1] where not NULL) + vec.constant.
     * in[0] == out[0] allowed. */
    UVCC_TASK_OPEN_FINISH,
    /** B. Truncated share before any bit correction (GapSR). in[0] = zh = z + 2^62 + r, m = zh
     * >> 63. vec.gate (TRUNC_*) and vec.compact say where TAIL's key stream has its words.
     * Compact: packed f-bit words corr_0, corr_1 (HEAD takes PRG(HO, trunc, 1 + m) mod 2^f):
     * HEAD: out[0] = (zh >> f) - (PRG(HO, trunc, 0) mod 2^(64-f)) + (corr_m << (64-f)) - 2^(62-f);
     * TAIL: out[0] = -(PRG(TO, trunc, 0) mod 2^(64-f)) + (corr_m << (64-f)).
     * Not compact: 64-bit words w_0, w_1 (HEAD takes PRG(HO, trunc, 1 + m)):
     * HEAD: out[0] = (zh >> f) + word - 2^(62-f); TAIL: out[0] = word. */
    UVCC_TASK_TRUNC,
    /** B. Comparison bit, masked. in[0] = xh; x = xh mod 2^n, n = vec.bits for gate RELU and
     * vec.shift for TRUNC_ARS; the key stream has the DPF's correction words. Share of [x < alpha]
     * = 1 ^ [alpha <= x] (HEAD carries the 1) by uvcci_dpf_prefix; XOR PRG(HO | TO, mask, 2) bits
     * (bit i of word i/64); packed bits -> out_bits and wire_out[0]. */
    UVCC_TASK_LESS_MASK,
    /** B. Subtracts the opened comparison bit (GapARS). v = in_bits ^ wire_in[0]; rho share q =
     * PRG(HO, select, 0) (HEAD) or the key's rho words (TAIL); in[0] = y share: out[0] =
     * y - (v + (1-2v) q) for HEAD, y - (1-2v) q for TAIL. */
    UVCC_TASK_TRUNC_EXACT,
    /** B. ReLU after its bit. in[0] = xh = x + r (64-bit pads), v = in_bits ^ wire_in[0],
     * w = 1 ^ bit n of xh ^ v (the comparison was on n bits, the value has n + 1); k, kr =
     * PRG(HO, select, 0), PRG(HO, select, 1) (HEAD) or the key's k, kr words (TAIL).
     * out[1] = d share: HEAD w + (1-2w) k, TAIL (1-2w) k. out[0] = d*x share: HEAD w xh -
     * w PRG(HO, mask, 0) + (1-2w)(k xh - kr); TAIL -w PRG(TO, mask, 0) + (1-2w)(k xh - kr). */
    UVCC_TASK_RELU,
    /** B. Sender's half of a lift of the share in[0] = y (protocols.md 4), by vec.lift:
     * PARALLEL: HEAD: out[0] = a' = PRG(HO, lift, 0), m = y - a' -> wire_out[0], out[1] = m +
     * PRG(HT, lift, 1). TAIL: out[1] = c' = y - PRG(HT, lift, 1) -> wire_out[0]. OTHER: nothing.
     * SEQUENTIAL: HEAD: out[0] = a', m -> wire_out[0], out[1] = PRG(HT, lift, 1). TAIL: wire_in[0]
     * = m; out[0] = b' = PRG(HT, lift, 1), out[1] = c' = m + y - b' -> wire_out[0]. EXCHANGE: HEAD:
     * out[0] = -PRG(HO, lift, 2), out[1] = y + PRG(HO, lift, 2) -> wire_out[0]. TAIL: out[1] =
     * -PRG(TO, lift, 2), out[0] = y + PRG(TO, lift, 2) -> wire_out[0]. */
    UVCC_TASK_LIFT_MASK,
    /** B. Receiver's half. PARALLEL: TAIL: out[0] = wire_in[0] + PRG(HT, lift, 1); OTHER: out[0] =
     * wire_in[0], out[1] = PRG(HO, lift, 0). SEQUENTIAL: OTHER as in PARALLEL. EXCHANGE: HEAD:
     * out[1] += wire_in[0]; TAIL: out[0] += wire_in[0]; OTHER: out[0] = -PRG(TO, lift, 2), out[1] =
     * -PRG(HO, lift, 2). */
    UVCC_TASK_LIFT_FINISH,
    /** B. t = in[0] + zs -> out[0] (lo) and wire_out[0] (to p-1). */
    UVCC_TASK_RESHARE_MASK,
    /** B. out[0] words = wire_in[0] words: any unpacking of 64-bit vectors. */
    UVCC_TASK_UNPACK,
    /** B. wire_out[0] words = in[0] words. */
    UVCC_TASK_PACK,
    /** B. out[0] = in[0] + in[1] + wire_in[0]: a value opened to all. in[0] == out[0] allowed. */
    UVCC_TASK_OPEN_ALL_FINISH,
    /** B. OTHER deals the keys of one block by vec.gate: writes HEAD's key stream to out_bytes[0]
     * and TAIL's to out_bytes[1] (layouts below; either may have length 0). It knows r from the
     * PRGs. */
    UVCC_TASK_DEAL,
    /** M. Element-wise on shares, see uvcc_map_op. */
    UVCC_TASK_MAP,
    /** G. z = op(x_lo) op(y_lo + y_hi) + op(x_hi) op(y_lo), 3-additive, no zero share; with
     * gemm.accumulate this is added to z. With gemm.groups: one such product per (group g, head h),
     * of the blocks at words g * group + h * head of the three matrices. */
    UVCC_TASK_GEMM,
    /** H. Digests. */
    UVCC_TASK_HASH,
    /** C. Copies between key streams and the key chunks of a message. */
    UVCC_TASK_COPY,
    /** C, dst only. Zeroes memory. */
    UVCC_TASK_WIPE,
    /** B. out_bits = in_bits ^ wire_in[0], ceil(count / 8) bytes: an opened comparison bit, packed.
     */
    UVCC_TASK_OPEN_BITS,

    /* Steps of functions (uvcc/function.h). All B, with vec.fn. An M value is two vectors at HEAD
     * and TAIL: xh = x + r, and this party's own part p of the mask, r = p_HEAD + p_TAIL; at OTHER
     * one: r. A "word" q of a TAIL word section stands at 8 (q count + i) for element i; HEAD takes
     * word q 4096 + i of PRG(HO, select, lane) instead. W(call, lane, q) is that share: HEAD's from
     * the PRG at `call`, TAIL's from the section. */

    /** out[0] = the low fn.bits bits of xh: as OPEN2_MASK, but wire_out[0] has fn.bits bits per
     * element, packed (64: words). out[0] gets what this party knows of the sum (as OPEN2_MASK). */
    UVCC_TASK_FN_OPEN_MASK,
    /** out[0] = in[0] + wire_in[0] mod 2^fn.bits (fn.bits bits per element, packed; 64: words);
     * in[0] == out[0] allowed. out_bits (may be NULL): the same, packed as in OPEN_VEC. */
    UVCC_TASK_FN_OPEN_FINISH,
    /** out[0] = HEAD, TAIL: p of an opened value: PRG(HO | TO, mask, 0), fn.exchange: PRG(.., lift,
     * 2); OTHER: r, the sum of both. At vec's call. */
    UVCC_TASK_FN_PADS,
    /** out[0] = in[0] >> fn.shift, unsigned, after taking in[0] mod 2^fn.bits. All roles. */
    UVCC_TASK_FN_SHIFT,
    /** in[0] = xh, key: CW(m) with m = fn.bits, 1..63; at least m + 1 bits of xh are right (root:
     * PRG(HO | TO, root, 0)[2i, 2i+1] at fn.call_key). For each j < fn.word_count:
     * z = xh - fn.words[j]; share of d_j ^ bit m of r = prefix share of [alpha <= z mod 2^m] (HEAD:
     * ^ bit m of z). out[0] = the word of these bits (bit j), XOR the low word_count bits of PRG(HO
     * | TO, mask, 2)[i]; wire_out[0] = the same, packed. */
    UVCC_TASK_FN_COMPARE,
    /** out[0] = in[0] ^ wire_in[0], fn.bits bits per element packed (the word_count of FN_COMPARE);
     * out_bits (may be NULL): the same, packed. in[0] == out[0] allowed. Gives e_j = d_j ^ k_j. */
    UVCC_TASK_FN_OPEN_BITS,
    /** in[0] = xh, in[1] = p, in[2] = e. k_j = W(fn.call_bits, 0, j) from words[0], kr_j =
     * W(call, 1, j) from words[1]. out[0] = sum over j of fn.words[j] (HEAD: e_j (xh - p) +
     * (1-2e_j)(k_j xh - kr_j); TAIL: -e_j p + (1-2e_j)(k_j xh - kr_j)). With in[3] = e' of one more
     * bit: k', k'r = W(call, 2, 0), W(call, 2, 1) and for each j kr_j, k_j k', k_j k' r = W(call,
     * 2, 2 + 3j ..) from words[1]. Let X(v) = (HEAD: v (xh - p); TAIL: -v p), K(k) = k xh - kr:
     * out[0] = sum over j of fn.words[j] (e_j (X(e') + (1-2e') K(k')) + (1-2e_j) (e' K(k_j) +
     * (1-2e') K(k_j k'))). */
    UVCC_TASK_FN_SELECT,
    /** in[2] = e, k_j as above. out[0] = sum over j of fn.words[j] (HEAD: e_j + (1-2e_j) k_j; TAIL:
     * (1-2e_j) k_j). */
    UVCC_TASK_FN_BITS,
    /** in[0] = xh, key: CW(m), m 1..64, fn.entry_count <= 2^m, root as in FN_COMPARE. v = sum over
     * i in [0, fn.entry_count) of bit[(xh - fn.first - i) mod 2^m] T[i] (TAIL: minus that); T =
     * fn.entries, or with fn.shift = s > 0 T[i] = fn.entries[i] z(fn.words, in[1] mod 2^s) >> 30.
     * out[0] = v + PRG(HO | TO, mask, 1), wire_out[0] the same. With in[2] (an A share b; shift is
     * 0 then): out[1] = b + PRG(HO | TO, mask, 0), wire_out[1] the same. */
    UVCC_TASK_FN_TABLE,
    /** in[0] = vh, opened; in[1] = bh, opened, or NULL. s = W(call, 2, 0), t = W(call, 2, 1) from
     * words[0]: out[0] = s vh - t; with in[1]: u = W(call, 2, 2), w = W(call, 2, 3): out[0] =
     * s vh bh - t bh - u vh + w. With in[2] = e of one bit: y being that, and y' the same of the
     * words from W(call, 2, 2), with in[1] from W(call, 2, 4) on: out[0] = e y + (1-2e) y'. */
    UVCC_TASK_FN_SCALAR,
    /** out[0] = in[0] + in[1] (an A share; may be NULL) + (HEAD: fn.constant); with in[2]: in[1] =
     * xh, in[2] = p of an M value: HEAD adds xh - p, TAIL -p. in[0] == out[0] allowed. */
    UVCC_TASK_FN_ADD,
    /** OTHER. in[0] = r. A DPF key on m = fn.bits bits for alpha = r mod 2^m, roots at fn.call_key:
     * out_bytes[0] and [1] = CW(m), the same for HEAD and TAIL. out[0] (may be NULL) = 1 if HEAD's
     * share of the terminal alpha is 1, else -1. */
    UVCC_TASK_FN_DEAL_KEY,
    /** OTHER. in[0] = r of what was compared. k_j = rho_j ^ bit fn.bits of r, rho = XOR of the
     * masks of FN_COMPARE, j < fn.word_count. out[0] = the word of these bits; out_words = k_j - W
     * of HEAD at (call, 0, j). */
    UVCC_TASK_FN_DEAL_BITS,
    /** OTHER. in[0] = k, in[1] = r of the selected M: out_words = k_j r - W of HEAD at (call, 1,
       j). With in[2] = k' of one more bit: k', k' r, and for each j k_j r, k_j k', k_j k' r, less W
       of HEAD at (call, 2, ..). */
    UVCC_TASK_FN_DEAL_SELECT,
    /** OTHER. in[0] = sign (1 or -1); fn.shift = s > 0: times z(fn.words + 4, in[1] mod 2^s) >>
     * fn.constant, in[1] = r of the M that the index was shifted from. rho = sum of PRG(.., mask,
     * 1), rho_b = sum of PRG(.., mask, 0): out_words = sign, sign rho, and with fn.times: sign
     * rho_b, sign rho rho_b, less W of HEAD at (call, 2, q). Without fn.times in[2] (may be NULL)
     * is rho_b, r of an M value; with fn.by_table in[0] is multiplied by in[1], the sign of a table
     * at fn.call_bits, and rho_b is that table's rho. With in[3] = k of one bit the same words
     * follow times k. */
    UVCC_TASK_FN_DEAL_SCALAR,
    /** in[0] = xh, in[1] = p of x, in[2] = yh, in[3] = p of y. w = W(call, 2, 0) from words[0]:
     * out[0] = (HEAD: xh yh) + w - xh in[3] - yh in[1]. */
    UVCC_TASK_FN_MUL,
    /** OTHER. in[0], in[1] = r of x and of y: out_words = the product less W of HEAD at (call, 2,
       0). */
    UVCC_TASK_FN_DEAL_MUL,
    /** in[0] = xh, zh = xh + 2^62, m = zh >> 63, s = fn.shift: w = W(call, 2, m) from words[0];
     * out[0] = HEAD: (zh >> s) - 2^(62-s) + w, TAIL: w. */
    UVCC_TASK_FN_TRUNC,
    /** OTHER. in[0] = r, rb = r >> 63: out_words = -(r >> s) + (1-m) rb 2^(64-s), m = 0 and 1, less
     * W of HEAD at (call, 2, m). */
    UVCC_TASK_FN_DEAL_TRUNC,
    /** Groups of four columns: in[0] = xh and in[1] = p of six differences, in[2] = the six e of
     * their comparisons (6i to 6i + 5 for element i). For candidate c < 3 with its pairs: E = the
     * bits not (e ^ lost) of its three pairs, lowest first; H_v, D_v = W(call, 2, 14 c + v),
     * W(call, 2, 14 c + 7 + v) from words[0], v < 7. H = H_E and D = D_E, but for E = 7 H = (HEAD:
     * 1) - sum H_v and D = p of its difference less the last - sum D_v. out[0] = sum over c of H xh
     * - D. */
    UVCC_TASK_FN_BEST,
    /** OTHER. in[0] = k of the six comparisons, in[1] = r of the six differences. P = the bits k of
     * the candidate's pairs; H_v = [P == v], D_v = H_v r: out_words = these less W of HEAD at
     * (call, 2, ..). */
    UVCC_TASK_FN_DEAL_BEST,
    /** in[0] = xh, key: the correction words of a multiscale with fn.bits levels, fn.shift,
     * fn.first cells and fn.word_count / (9 fn.first) scales (src/exec/primitives/multiscale.h;
     * root: PRG(HO | TO, root, 0)[2i, 2i+1] at fn.call_key). out[0] = this party's share of the
     * polynomial with coefficients fn.words (HEAD: + fn.constant). */
    UVCC_TASK_FN_MULTISCALE,
    /** OTHER. in[0] = r. out_bytes[0] and [1] = the correction words, the same for HEAD and TAIL.
     */
    UVCC_TASK_FN_DEAL_MULTISCALE,
    /** in[0] = xh, in[1] = what FN_TRUNC or TRUNC makes of it, s = fn.shift, key: a DCF key
     * (src/exec/primitives/dcf.h) on s bits with one word (root: PRG(HO | TO, root, 0)[2i, 2i+1] at
     * fn.call_key). out[0] = in[1] - this party's share of [xh mod 2^s < r mod 2^s]. in[1] ==
     * out[0] allowed. */
    UVCC_TASK_FN_FLOOR,
    /** OTHER. in[0] = r. out_bytes[0] and [1] = the DCF key for alpha = r mod 2^s, beta = 1, the
     * same for HEAD and TAIL. */
    UVCC_TASK_FN_DEAL_FLOOR,
    /** in[0] = xh, in[1] = p of x (NULL where d = 0), m = fn.bits, d = fn.first, key: a DCF key on
     * m bits with d + 1 words (root as in FN_FLOOR). u_j = W(call, 2, j), j <= d, and v_j = W(call,
     * 2, d - 1 + j), j = 2..d, from words[0]; v_1 = p, v_0 = (HEAD: 1). out[0] = this party's share
     * of the spline fn.words of fn.word_count (src/exec/primitives/spline.h). */
    UVCC_TASK_FN_SPLINE,
    /** OTHER. in[0] = r, b = bit m of r. out_bytes[0] and [1] = the DCF key for alpha = r mod 2^m,
     * beta_j = (2b - 1) r^j, j <= d, the same for HEAD and TAIL. */
    UVCC_TASK_FN_DEAL_SPLINE,
    /** OTHER. in[0] = r, b as above. out_words = (1 - b) r^j for j = 0..d, then r^j for j = 2..d,
     * less W of HEAD at (call, 2, ..). */
    UVCC_TASK_FN_DEAL_POWERS,

    /* Comparison without keys (protocols.md 7, end): x = u + c with u = a + b known to HEAD and c
     * to TAIL and OTHER; |x| < 2^m or x = -2^m, m = vec.bits in 1..63. All B, whole blocks. A plane
     * is one bit of every element: w = ceil(count / 64) words, element i in bit i mod 64 of word i
     * / 64; excess bits mean nothing. A boolean RSS value is (lo, hi) like an arithmetic one, with
     * XOR. The bits below m form G groups (BOOL_SHARE); the state of G groups has S = 2 G - 1
     * planes a component: plane 0 is g of group 0, planes 2j-1 and 2j are g and p of group j > 0
     * (g: the group makes a carry, p: it passes one on). out[0] of a task is the state: 2 S w
     * words, S planes lo, then S planes hi. Calls: one a round. B(pair, k) is plane k of PRG(pair,
     * zero, 3), words [w k, w k + w); A(pair, k)[i] is its word 4096 k + i. Messages are planes (or
     * words) one after the other; uvcci_circuit_message_words() says how many. They come in pieces
     * with vec.gap bytes between them that are somebody else's: 4096 words a piece, in the last
     * round e_0 and e_1.
     *
     * Levels L = max(0, ceil(log2(ceil(m / 4)))), G = 2^L, group j has the bits [j m / G, (j + 1) m
     * / G), that is k <= 4 of them. For a subset s of them and a word x, x_s = AND of its bits in
     * s. With s' = the bits of the group above s's lowest that are not in s: g = XOR over nonempty
     * s of u_s c_(lowest of s) c_(s'), p = XOR over all s of u_s c_(group less s). Subsets are
     * numbered by bits, lowest first; M = sum over groups of 2^k - 1. */

    /** Round 0. in[0] = lo, in[1] = hi of x. HEAD: for subset s >= 1 of group j, as plane t = s - 1
     * + the subsets of the groups before: u_s ^ B(HO, t) ^ B(HT, t) -> wire_out[0] (to TAIL) and
     * wire_out[1] (to OTHER), M planes each. TAIL: hi planes of g and p with c's AND products and
     * B(HT, t) for u_s (nothing for the empty s), ^ B(TO, S + plane) -> state lo and wire_out[0].
     * OTHER: the same with B(HO, t), ^ B(TO, plane) -> state hi and wire_out[0]. Both to HEAD. */
    UVCC_TASK_BOOL_SHARE,
    /** Round 0's end, at its call. HEAD: wire_in[0] (from OTHER) -> state lo, wire_in[1] (from
     * TAIL)
     * -> state hi. TAIL: g and p with wire_in[0] for u_s, the empty s included, ^ B(TO, plane) ^
     * B(TO, S + plane) -> state hi. OTHER: the same -> state lo. in as in BOOL_SHARE. */
    UVCC_TASK_BOOL_JOIN,
    /** Round l = vec.shift in 1..L: G / 2^l groups out of pairs. XOR zs = B(NEXT, plane) ^ B(PREV,
     * plane): g'_j = g_(2j+1) ^ p_(2j+1) g_2j, p'_j = p_(2j+1) p_2j, lo = own part of them (x y =
     * x_lo (y_lo ^ y_hi) ^ x_hi y_lo) ^ zs -> state lo and wire_out[0], to p-1. In round L HEAD's
     * wire_out[0] may be NULL: nobody needs its part. S stays that of round 0. */
    UVCC_TASK_BOOL_MERGE,
    /** Round l's end. wire_in[0] -> state hi. In round L OTHER has no message (NULL: nothing). */
    UVCC_TASK_BOOL_RECEIVE,
    /** Round L + 1. in[0], in[1] = x, in[2] = state. d = [x >= 0] = q ^ v: HEAD has q = 1 ^ lo ^ hi
     * ^ bit m of u, TAIL v = hi ^ bit m of c, OTHER v = lo ^ bit m of c. vec.gate: UVCC_BOOL_*
     * wanted. HEAD: e_0 = q u - A(HO, 0) - A(HT, 0) (PRODUCT only), e_1 = q - A(HO, 1) - A(HT, 1),
     * count words each -> wire_out[0] (to TAIL) and wire_out[1] (to OTHER). TAIL: PRODUCT: (1-2v)
     * (A(HT, 0) + A(HT, 1) c) + v b + A(TO, 1) -> out[0], wire_out[0]; BIT: (1-2v) A(HT, 1) + A(TO,
     * 3) -> out[1], wire_out[1]. OTHER: the same with HO, a, A(TO, 0) and A(TO, 2). So out has
     * TAIL's lo, OTHER's hi of d x and d. Both to HEAD. */
    UVCC_TASK_BOOL_SELECT_MASK,
    /** Round L + 1's end, at its call. vec.gate is one of UVCC_BOOL_*; out[0], out[1] = lo, hi of
     * its value. HEAD: wire_in[0] (from OTHER) -> out[0], wire_in[1] (from TAIL) -> out[1]. TAIL
     * and OTHER, in as in SELECT_MASK: PRODUCT: wire_in[0] = e_0, wire_in[1] = e_1: (1-2v) (e_0 +
     * e_1 c) + v c - A(TO, 0) - A(TO, 1); BIT: wire_in[0] = e_1: (1-2v) e_1 + v - A(TO, 2) - A(TO,
     * 3) -> TAIL's out[1], OTHER's out[0]. */
    UVCC_TASK_BOOL_SELECT_FINISH,
    /** task.u.collective, the only task of its job, whose plane is UVCC_PLANE_LOCAL: no executor
     * runs it, <uvcc/collective.h> does. */
    UVCC_TASK_COLLECTIVE,

    /* Beaver triples (protocols.md 6). All B, every role alike. */

    /** The mask A of a tensor, one or both components: A_lo = PRG(PREV, tripleA, 0), A_hi =
     * PRG(NEXT, tripleA, 0). Without in[0]: out[0] = A_lo, out[1] = A_hi, where not NULL. With
     * in[0] = lo and in[1] = hi of x: out[0] = lo - A_lo, out[1] = hi - A_hi, wire_out[0] = out[0].
     */
    UVCC_TASK_TRIPLE_A,
    /** The same with the tag tripleB. */
    UVCC_TASK_TRIPLE_B,
    /** t = in[0] + PRG(NEXT, zero, 1) - PRG(PREV, zero, 1) -> out[0] (lo of C) and wire_out[0] (to
     * p-1). in[0] == out[0] allowed. */
    UVCC_TASK_TRIPLE_C,
    /** Of the check of a product, on task.u.bits, both components: out[a][j] = sum over i < rows of
     * w_ia op(x)[i][j], a < 64: out is 64 x cols. w_ia = bit a of word i of the PRG with the key
     * `key` at (task.ordinal, call, block 0, lane `lane`). op(x) is rows x cols, stored cols x rows
     * when trans. The bits are public. */
    UVCC_TASK_BIT_SUMS,
    UVCC_TASK_KIND_END
} uvcc_task_kind;

/** What a collective does with tensors of shares, component by component. The members of a group
 * stand in the order of their local ranks. */
typedef enum uvcc_collective_op {
    UVCC_COLLECTIVE_SEND = 1, /**< `in` goes to the next stage (FWD) or the one before (BWD) */
    UVCC_COLLECTIVE_RECV =
        2, /**< `out` = what the stage before (FWD) or the next one (BWD) sends */
    /** out = the i-th of the slices, at member i, of the sum of all members' `in` mod 2^64. */
    UVCC_COLLECTIVE_REDUCE_SCATTER = 3,
    UVCC_COLLECTIVE_ALL_GATHER = 4, /**< out = all members' `in`, one behind the other */
} uvcc_collective_op;

typedef enum uvcc_lift_kind {
    UVCC_LIFT_PARALLEL = 0,
    UVCC_LIFT_SEQUENTIAL = 1,
    UVCC_LIFT_EXCHANGE = 2,
} uvcc_lift_kind;

/** What BOOL_SELECT makes, one or both. */
enum { UVCC_BOOL_BIT = 1 /**< d */, UVCC_BOOL_PRODUCT = 2 /**< d x */ };

/** Gates whose keys OTHER deals. Key streams, `c` = count, structure of arrays, L = max(n - 7, 0),
 * tb = ceil(2 L / 8):
 *   CW(n)  = L levels of c * 16 bytes, then c * 16 bytes final words, then c * tb bytes control
 * bits (level l's left bit at 2l, right at 2l + 1, LSB first) TRUNC_SR: HEAD: nothing. TAIL:
 * compact: corr_0, corr_1 (each ceil(c f / 8) bytes); not compact: w_0, w_1 (each c * 8 bytes).
 *   TRUNC_ARS: HEAD: CW(f). TAIL: CW(f)'s levels and final words, then rho shares (c * 8), then not
 *     compact: w_0, w_1 (c * 8 each), then CW's control bits, then compact: corr_0, corr_1.
 *   TRUNC_DCF: HEAD: a DCF key (src/exec/primitives/dcf.h) on f bits with one word. TAIL: the same,
 * then not compact: w_0, w_1, compact: corr_0, corr_1. FN_FLOOR takes the bit off. RELU (n
 * comparison bits): HEAD: CW(n). TAIL: levels, final words, k (c * 8), kr (c * 8), control bits.
 * uvcc_key_layout() computes the offsets. Values: r of the masks above; alpha = r mod 2^f (trunc)
 * or r mod 2^n (ReLU); rb = bit 63 of r; compact: carry = [p_h + p_t >= 2^(64-f)], corr_m = (carry
 * + (1-m) rb) - HEAD's share mod 2^f; not compact: w_m = -(r >> f) + (1-m) rb 2^(64-f) - HEAD's
 * share; rho = XOR of the two bit pads of LESS_MASK; TRUNC: rho share of TAIL = rho - PRG(HO,
 * select, 0); RELU: k = rho ^ bit n of r, kr = k * r, minus PRG(HO, select, 0), (.., 1). DCF: alpha
 * as above, beta = 1. Roots of both: words 2j, 2j+1 of PRG(HO, root, 0) (HEAD) and PRG(TO, root, 0)
 * (TAIL). */
typedef enum uvcc_gate {
    UVCC_GATE_NONE = 0,
    UVCC_GATE_TRUNC_SR = 1,
    UVCC_GATE_TRUNC_ARS = 2,
    UVCC_GATE_RELU = 3,
    UVCC_GATE_FUNCTION = 4, /**< of a FUNCTION op; its tasks say what is in it */
    UVCC_GATE_TRUNC_DCF = 5,
} uvcc_gate;

/** Offsets in the key stream of one block for one receiver; UINT32_MAX where a section is absent.
 */
typedef struct uvcc_key_layout {
    uint32_t levels, terminals, bits; /**< sections of CW */
    uint32_t words[3];                /**< TRUNC: rho, w_0, w_1; RELU: k, kr, - */
    uint32_t corr[2];
    uint32_t dcf; /**< TRUNC_DCF: the whole DCF key, first of all */
    uint32_t total_bytes;
} uvcc_key_layout;
/** role HEAD or TAIL. n: comparison bits (TRUNC_ARS, TRUNC_DCF: f). */
UVCC_API void uvcc_key_layout_of(uvcc_gate gate, bool compact, unsigned shift, unsigned bits,
                                 uint32_t count, uvcc_role role, uvcc_key_layout *out);

/** One block of a vector at this party. Unused members are NULL. */
typedef struct uvcc_block {
    uint32_t block; /**< block index: the PRG position */
    uint32_t count; /**< 1..UVCC_BLOCK_ELEMS */
    uint8_t role;   /**< this party's role on the block's edge (or in the protocol) */
    const uint64_t *in[4];
    uint64_t *out[2];
    const uint8_t *in_bits; /**< packed bits kept by LESS_MASK */
    uint8_t *out_bits;
    const uint8_t *wire_in[2]; /**< in a received message; any alignment */
    uint8_t *wire_out[2];      /**< in a message to send; any alignment */
    const uint8_t *key;        /**< this party's contiguous key stream of the block */
    uint8_t *out_bytes[2];     /**< DEAL: key streams of HEAD and TAIL */
    const uint8_t *words[2];   /**< FN: TAIL's word sections; NULL at HEAD */
    uint8_t *out_words;        /**< FN: a word section of TAIL, dealt */
} uvcc_block;

/** What tasks of functions need beside their blocks. */
typedef struct uvcc_fn_args {
    uint8_t bits, shift;
    bool exchange, times, by_table;
    uint16_t call_key,
        call_bits; /**< calls of the step that owns the key, of the one that owns k */
    int64_t first, constant;
    uint32_t entry_count, word_count;
    const int32_t *entries;
    const int64_t *words;
} uvcc_fn_args;

typedef enum uvcc_map_op {
    /** out = x + y, out = x - y, both components, rows * cols elements. */
    UVCC_MAP_ADD,
    UVCC_MAP_SUB,
    /** out[i][j] = x[i][j] + y[j]. */
    UVCC_MAP_ADD_ROW,
    /** out[j] = sum over i of x[i][j]; x is rows x cols. */
    UVCC_MAP_SUM_ROWS,
    /** out_lo = x_lo (y_lo + y_hi) + x_hi y_lo, 3-additive, no zero share. */
    UVCC_MAP_MUL,
    /** out = x. */
    UVCC_MAP_COPY,
    /** out = x << shift. */
    UVCC_MAP_SHL,
    /** A public value (x[0], this party's host copy) as trivial RSS: component 0 = x. `party` says
     * which of lo and hi that is. */
    UVCC_MAP_PUBLIC,
    /** out[i][j] = x[i][2j] - x[i][2j+1], and = x[i][2j+1]; x is rows x cols, out rows x ceil(cols
     * / 2); the last column of an odd number is paired with itself. */
    UVCC_MAP_PAIR_DIFF,
    UVCC_MAP_PAIR_SECOND,
    /** The public values 2j + 1 of column j, rows x cols, as in PUBLIC (`party` 0: in lo); x is
       unused. */
    UVCC_MAP_INDEX,
    /** y is a column: out[i][j] = x[i][j] + y[i], x[i][j] - y[i], y[i] - x[i][j]. */
    UVCC_MAP_ADD_COL,
    UVCC_MAP_SUB_COL,
    UVCC_MAP_RSUB_COL,
    /** out[i] = sum over j of x[i][j]; x is rows x cols. */
    UVCC_MAP_SUM_COLS,
    /** As MUL, with a column or a row y: y[i], y[j] for the element (i, j). */
    UVCC_MAP_MUL_COL,
    UVCC_MAP_MUL_ROW,
    /** out[i] = constant * sum over j of x[i][j] y[i][j], 3-additive as MUL; x and y rows x cols.
     */
    UVCC_MAP_DOT_ROWS,
    /** out = constant * x. */
    UVCC_MAP_SCALE,
    /** out = x + the public constant: component 0 gets it. */
    UVCC_MAP_ADD_PUBLIC,
    /** out[i][j] = x[i][j], but where j > i mod cols the public constant: component 0 gets it, the
     * others 0. */
    UVCC_MAP_CAUSAL,
    /** Groups of four columns of x, columns beyond the last being the last; x is rows x cols.
     * QUAD_DIFF: six columns for a group, the differences of its columns 0 and 1, 0 and 2, 0 and 3,
     * 1 and 2, 1 and 3, 2 and 3. QUAD_LAST: its column 3. */
    UVCC_MAP_QUAD_DIFF,
    UVCC_MAP_QUAD_LAST,
    /** out[i][j] = x[i]; out is rows x cols. */
    UVCC_MAP_SPREAD,
} uvcc_map_op;

/** An RSS tensor's two components, contiguous row-major. In a map, `hi` may be NULL in x, y and out
 * together: then only `lo` is worked on (3-additive values). */
typedef struct uvcc_shares {
    uint64_t *lo, *hi;
} uvcc_shares;

/** Where the blocks of a matrix stand: rows `ld` words apart, group after group and head after head
 * `group` and `head` words apart. */
typedef struct uvcc_gemm_layout {
    uint64_t ld, group, head;
} uvcc_gemm_layout;

typedef enum uvcc_hash_mode {
    UVCC_HASH_PLAIN = 0,  /**< H(prefix || data) */
    UVCC_HASH_SALTED = 1, /**< HMAC(key, H(prefix || data)): D of wire.md 4 */
    UVCC_HASH_HMAC = 2,   /**< HMAC(key, prefix || data) */
} uvcc_hash_mode;
typedef struct uvcc_hash_item {
    uint8_t prefix[32];
    uint8_t prefix_len;
    uint8_t mode;
    uint8_t key[32];
    const uint8_t *data;
    size_t len;
    uint8_t *out; /**< 32 bytes of host memory */
} uvcc_hash_item;

typedef struct uvcc_copy_item {
    uint8_t *dst;
    const uint8_t *src;
    size_t len;
} uvcc_copy_item;

typedef struct uvcc_task {
    uint16_t kind; /**< uvcc_task_kind */
    uint32_t ordinal;
    uint16_t call;
    const uvcc_step_keys *keys; /**< B only */
    union {
        struct {
            const uvcc_block *blocks;
            uint32_t count;
            uint8_t shift, bits, lift, gate;
            bool compact;
            uint8_t gap; /**< BOOL: bytes between the pieces of a message */
            uint64_t constant;
            const uvcc_fn_args *fn; /**< FN tasks */
        } vec;
        struct {
            uint8_t op, shift, party;
            uint32_t rows, cols;
            uvcc_shares x, y, out;
            uint64_t constant; /**< SCALE, ADD_PUBLIC, CAUSAL, DOT_ROWS */
        } map;
        struct {
            uint32_t m, n, k; /**< op(x) is m x k, op(y) is k x n: of a block */
            bool trans_x, trans_y, accumulate;
            uint32_t groups, heads; /**< 0 and 0: one product, rows without gaps, layouts unused */
            uvcc_shares x, y;
            uint64_t *z;
            uvcc_gemm_layout lx, ly, lz;
        } gemm;
        struct {
            uint32_t rows, cols;
            bool trans;
            uint8_t lane, key[16];
            uvcc_shares x, out;
        } bits;
        struct {
            const uvcc_hash_item *items;
            uint32_t count;
        } hash;
        struct {
            const uvcc_copy_item *items;
            uint32_t count;
        } copy;
        struct {
            uint8_t op;    /**< uvcc_collective_op */
            uint8_t group; /**< uvcc_group; SEND, RECV: UVCC_GROUP_PP */
            uint8_t phase; /**< uvcc_phase */
            uint16_t mb, k;
            uint32_t step;
            uint64_t elems;      /**< of `in` (REDUCE_SCATTER, SEND) or of `out` */
            uvcc_shares in, out; /**< hi NULL: one component only (additive) */
        } collective;
    } u;
} uvcc_task;

/** Where a job runs. */
typedef enum uvcc_plane {
    UVCC_PLANE_COMPUTE = 0, /**< an executor */
    UVCC_PLANE_LOCAL = 1,   /**< the collectives of this party's workers */
} uvcc_plane;

typedef struct uvcc_job {
    uint64_t id;     /**< names the job and its generation */
    uint64_t cookie; /**< of the session, from its config */
    const uvcc_task *tasks;
    uint32_t count;
    uint8_t plane; /**< uvcc_plane */
    /** Which of the jobs that wait to run should be next: the one of least rank, among equals the
     * one that came first (docs/pipeline.md). Any order gives the same results. */
    uint64_t rank;
} uvcc_job;

typedef struct uvcc_completion {
    uint64_t id;
    uint64_t cookie;
    int status; /**< 0 or UVCC_ERR_JOB */
} uvcc_completion;

/* ---- executors on the CPU ---- */

/** Stack that running a job may take, whatever its tasks are, beside what the hooks of the host
 * take. A thread that submits to an INLINE executor, or polls a DEFERRED one, needs that much left;
 * threads of a host may have less by default (musl: 128 KiB). The workers of THREADS have four
 * times as much or the system's default if that is more, for the hooks and what belongs to a thread
 * too. */
#define UVCC_TASK_STACK_BYTES (256u << 10)

typedef enum uvcc_cpu_mode {
    UVCC_CPU_INLINE = 0,   /**< submit runs the job; its completion waits in the queue */
    UVCC_CPU_DEFERRED = 1, /**< submit keeps it; poll runs kept jobs in a seeded shuffled order, and
                                sometimes none, so that completions come late and out of order */
    UVCC_CPU_THREADS = 2,
    /** One compute resource in simulated time, for simulations and measurements of schedules: of
     * the jobs that wait the one of least rank runs, for as long as the `cost` hook says, and its
     * completion comes when `clock` has reached its end. uvcc_cpu_due() says when that is. */
    UVCC_CPU_TIMED = 3,
} uvcc_cpu_mode;

/** What a job costs a TIMED executor. */
typedef struct uvcc_cpu_cost {
    uint64_t duration_ns; /**< 0: it takes nothing from the resource, and is done at once */
    uint64_t rank;        /**< the job's, which the hook may replace */
} uvcc_cpu_cost;

typedef struct uvcc_cpu_config {
    size_t size;
    uvcc_allocator alloc; /**< called from the owner's thread only, in all modes */
    uvcc_cpu_mode mode;
    uint32_t threads;    /**< THREADS: workers; 0: 2 */
    uint32_t queue_jobs; /**< jobs out at a time, 0: 1024; submit says UVCC_ERR_AGAIN beyond */
    uint64_t seed;       /**< DEFERRED: the shuffle */
    /** 0: the best kernels of this CPU for each task; 1: portable; 2: AVX2; 3: AVX-512; 4: AMX for
     * all matrix products, else as 3. Where the CPU has less, its best below. On a CPU with AMX, 0
     * and 4 ask Linux to let the process use it (ARCH_REQ_XCOMP_PERM). */
    uint32_t backend;
    /** THREADS: called from a worker after it pushed a completion, to wake the host's loop; may be
     * NULL. Must not call the library. */
    void (*wake)(void *user);
    void *wake_user;
    /** Called by the thread that runs a job right before it runs (`done` false) and right after, so
     * that a host can time jobs; may be NULL. Must not call the library. */
    void (*job)(void *user, const uvcc_job *job, bool done);
    void *job_user;
    /** TIMED: what a job costs, asked once when it is submitted, and the present time. Both needed;
     * must not call the library. */
    void (*cost)(void *user, const uvcc_job *job, uvcc_cpu_cost *cost);
    uint64_t (*clock)(void *user);
    void *timed_user;
} uvcc_cpu_config;

typedef struct uvcc_cpu uvcc_cpu;
UVCC_API int uvcc_cpu_new(uvcc_cpu **out, const uvcc_cpu_config *cfg) UVCC_MUST_USE;
/** Jobs still out are finished first; their completions are dropped. */
UVCC_API void uvcc_cpu_free(uvcc_cpu *x);
/** The job and all that it points to stay valid until its completion was polled. */
UVCC_API int uvcc_cpu_submit(uvcc_cpu *x, const uvcc_job *job);
/** 1 and the next completion, 0 if none is ready now. */
UVCC_API int uvcc_cpu_poll(uvcc_cpu *x, uvcc_completion *out);
/** Jobs submitted whose completion was not polled yet. */
UVCC_API uint32_t uvcc_cpu_pending(const uvcc_cpu *x);
/** When uvcc_cpu_poll() has something to give: TIMED: the end of the job that runs, UVCC_NEVER
 * while none does; other modes: 0, that is any time now, while jobs are pending. UVCC_NEVER:
 * nothing is pending. */
UVCC_API uint64_t uvcc_cpu_due(const uvcc_cpu *x);
/** THREADS: blocks until a completion is ready or nothing is pending (for hosts without a loop of
 * their own). TIMED: no more jobs come at the present time, so the next one starts if the resource
 * is free. Other modes: returns at once. */
UVCC_API void uvcc_cpu_wait(uvcc_cpu *x);

#ifdef __cplusplus
}
#endif
#endif
