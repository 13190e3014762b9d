/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/function.h - nonlinear functions as data.
 *
 * A function is a list of instructions on vectors. Two parties (HEAD and TAIL of an edge) run it on
 * keys and words that the third (OTHER) deals; the same list defines the function in plaintext. So
 * a new function is a new list, not a new protocol. A program registers functions
 * (uvcc_program_function) and runs them by the op FUNCTION; uvcc/nonlinear.h has the functions that
 * a transformer needs.
 *
 * Kinds of values while it runs (protocols.md 3, 4, 7):
 *   M  masked: HEAD and TAIL know x + r, OTHER knows r. Public linear maps of it are free.
 *   B  bits: HEAD and TAIL know d ^ k, OTHER knows k. Up to 64 of them per element.
 *   A  additive: x = HEAD's share + TAIL's share.
 * Rounds: OPEN, COMPARE, TABLE, EXCHANGE and LIFT send one message each; instructions that do not
 * wait for each other share a round.
 *
 * Index modes. SHIFT drops bits of the masked value, so it gives floor((x + r_low) / 2^shift) with
 * r_low = r mod 2^shift: stochastic rounding, a pure function of x and r_low (the *fast* mode); so
 * do TRUNC and MULTISCALE. *Exact* functions have none of them: they take an index that was
 * truncated exactly before, truncate by FLOOR, or take off by LOW what the masks carry: then their
 * results are the same whatever r_low is.
 *
 * Arithmetic is mod 2^64; `width` is the number of columns of a value (the input's, changed by
 * pairs, groups of four and sums of rows).
 *
 * The keys of all instructions on vectors of one width go together, those of 4096 elements in one
 * message of at most 8 MiB (uvcc_program_finish refuses more), and those of a row, or of an op's
 * segment, in at most 64 (a session refuses more).
 */
#ifndef UVCC_FUNCTION_H
#define UVCC_FUNCTION_H

#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What an instruction does. In plaintext, with x = value of instruction a, y = value of
 * instruction b: */
typedef enum uvcc_fn_kind {
    /** M: input tensor `io`. Its low `bits` bits are opened (64: all; what is wanted mod 2^64 needs
     * all). */
    UVCC_FN_OPEN = 1,
    /** M: floor(x / 2^shift), fast mode: floor((x + r_low) / 2^shift). For COMPARE and TABLE only.
     */
    UVCC_FN_SHIFT,
    /** M: x[.., 2j] - x[.., 2j + 1]; the last column of an odd width is paired with itself. */
    UVCC_FN_PAIR_DIFF,
    /** M: x[.., 2j + 1], or the last column. */
    UVCC_FN_PAIR_SECOND,
    /** B: bit j = [x >= words[j]], for |x - words[j]| < 2^bits. word_count 1..64. */
    UVCC_FN_COMPARE,
    /** A: entries[x - first] for first <= x < first + entry_count, else 0. The DPF works mod
     * 2^bits: x must not differ from an argument in the window by 2^bits or more; but entries 0 to
     * 2^bits - 1 are read at x mod 2^bits, whatever x is. With b (A): times y. With shift s > 0
     * (then b is not A but the M that a is SHIFT of, by s): with lo = (y + r_low) mod 2^s and z(c,
     * l) = c[0] + (l (c[1] + (l (c[2] + (l c[3] >> s)) >> s)) >> s) on words c, the result is
     * (entries[..] * z(words, lo) >> 30) * (z(words + 4, r_low) >> constant): a factor that depends
     * on what the index leaves out. In plaintext exact mode r_low = 0. word_count 8. */
    UVCC_FN_TABLE,
    /** A: y * sum over j of words[j] * bit j of x; x is a B, y an M. word_count as x has bits. */
    UVCC_FN_SELECT,
    /** A: sum over j of words[j] * bit j of x; x is a B. */
    UVCC_FN_BITS,
    /** A: x + y + constant; x is an A, y an A or M or UVCC_FN_NONE. */
    UVCC_FN_ADD,
    /** A: 2j + 1 for column j of the width that x (M or A) has. */
    UVCC_FN_INDEX,
    /** M: x (A), masked anew, so that instructions can go on; output tensor `io` too, unless
     * UVCC_FN_NONE. bits > 0 (here and in LIFT): the author knows that |x| < 2^bits, where bounds
     * carried from instruction to instruction do not see it (telescoping sums). uvcc_function_eval
     * checks it, a secure run cannot. */
    UVCC_FN_EXCHANGE,
    /** Output tensor `io`: x (A). */
    UVCC_FN_LIFT,
    /** M: the differences of each group of four columns, six columns for a group: of the columns 0
     * and 1, 0 and 2, 0 and 3, 1 and 2, 1 and 3, 2 and 3. Columns beyond the last are the last. x
     * may be a SHIFT; then COMPARE only may read the differences. */
    UVCC_FN_QUAD_DIFF,
    /** M: x[.., 4j + 3], or the last column. */
    UVCC_FN_QUAD_LAST,
    /** A: the greatest of each group less its last, by y, the QUAD_DIFF of the values, and x, the
     * COMPARE (one word, 0) of their QUAD_DIFF or that of their SHIFT: a column for six. The first
     * of the group that no later one exceeds and that exceeds all earlier ones by these bits; the
     * last if there is none. */
    UVCC_FN_QUAD_BEST,
    /** M: x, a single column, in every column of the width that y (M) has. */
    UVCC_FN_SPREAD,
    /** M: x - y, both M. */
    UVCC_FN_SUB,
    /** M: the sum of each row of x, a single column. */
    UVCC_FN_ROW_SUM,
    /** A: x y, both M. No round: 64 bits of both are opened already. */
    UVCC_FN_MUL,
    /** A: floor((x + r_low) / 2^shift) of an M with |x| < 2^62, r_low = r mod 2^shift: stochastic
     * rounding without a round. shift 1..62. */
    UVCC_FN_TRUNC,
    /** A: constant + a table that is finer where x (M) is smaller. n = word_count / (9 first)
     * scales; the index of x at scale k is floor(x / 2^s), s = shift + 2k, fast mode: floor((x +
     * r_low) / 2^s) with r_low = r mod 2^s. x belongs to the highest scale where its index i is
     * `first` or more (less than 4 first), and adds c0 + c1 l + c2 l^2: c are the words [9 first k
     * + (0, 3, 6) first + i - first], l = lo - q, lo and q the highest 12 bits of (x + r) mod 2^s
     * and of r_low; so x is about 2^s (i + l / 2^12). Below the first scale nothing is added.
     * first 2..16, n 1..32; bits: of the tree, so many that 2^(bits - 2n + 2) holds 4 first and all
     * indices of the last scale. No round. */
    UVCC_FN_MULTISCALE,
    /** A: floor(x / 2^shift) of an M with |x| < 2^62, whatever the masks are: as TRUNC, less a bit
     * that a key of its own gives (a DCF: Boyle et al. 2021, "Function Secret Sharing for
     * Mixed-Mode and Fixed-Point Secure Computation"). For exact functions too. shift 1..62. No
     * round. */
    UVCC_FN_FLOOR,
    /** A: a polynomial for each piece between public knots, exactly, mod 2^64. first: its degree d,
     * 0..3. words: K knots, rising, then K + 1 times c_0 .. c_d, for the pieces below all knots,
     * between them and above (a knot belongs to the piece above it): c_0 + c_1 x + .. + c_d x^d of
     * the piece that x (M) is in. K 1..UVCC_FN_KNOTS_MAX, word_count = K + (K + 1)(d + 1); |x -
     * knot| < 2^bits for every knot. Nothing is scaled back: with f fraction bits in x and g in
     * c_j, the author gives c_j as integers of g + (d - j) f fraction bits, so the result has g + d
     * f, and FLOOR takes them away after an EXCHANGE. One DCF key for all knots (as FLOOR's), no
     * round; for exact functions too. */
    UVCC_FN_SPLINE,
    /** M: ((x + r_low) mod 2^bits) - r_low, r_low = r mod 2^bits: x mod 2^bits, but 2^bits less
     * where the sum carries. For COMPARE and tables only. For exact functions too: a SHIFT by
     * `bits` of the same x is floor(x / 2^bits) + 1 - [LOW >= 0], the TRUNC too, and a TABLE of
     * 2^bits entries reads x mod 2^bits. In plaintext exact mode x mod 2^bits. bits 1..62. */
    UVCC_FN_LOW,
    /** A: an entry as TABLE has it, without a shift, times the bit of b (a B of one word) and times
     * the value of c (an M, or a TABLE without b that is opened in the same round); either may be
     * UVCC_FN_NONE. Neither makes it wait: both are wanted when its round is over. */
    UVCC_FN_TABLE_MUL,
    /** A: as SELECT, times the bit of c (a B of one word). */
    UVCC_FN_SELECT_MUL,
    UVCC_FN_KIND_END
} uvcc_fn_kind;

#define UVCC_FN_NONE        255u
#define UVCC_FN_INSTRS_MAX  192u
#define UVCC_FN_ENTRIES_MAX 65536u
#define UVCC_FN_WORDS_MAX   4096u /**< of a MULTISCALE or SPLINE; others have 64 at most */
#define UVCC_FN_KNOTS_MAX   64u   /**< of a SPLINE */

/** Fields that a kind does not use are ignored. Every input is opened, every output written once.
 */
typedef struct uvcc_fn_instr {
    uint8_t kind; /**< uvcc_fn_kind */
    uint8_t a, b; /**< earlier instructions, or UVCC_FN_NONE */
    uint8_t c;    /**< of TABLE_MUL and SELECT_MUL: one more */
    uint8_t bits, shift;
    uint8_t io; /**< index into the op's inputs or outputs, or UVCC_FN_NONE */
    int64_t first, constant;
    uint32_t entry_count, word_count;
    const int32_t *entries;
    const int64_t *words;
} uvcc_fn_instr;

typedef struct uvcc_function {
    const char *name; /**< for errors and reports */
    uint8_t inputs, outputs;
    uint8_t instr_count;
    const uvcc_fn_instr *instrs;
} uvcc_function;

/** What a function costs per element of its first input: counted from the instructions, for `cols`
 * columns. Online bytes are those of payloads, over all parties; key bytes what OTHER sends to
 * both. */
typedef struct uvcc_fn_cost {
    uint32_t rounds;
    double online_bytes, key_bytes;
} uvcc_fn_cost;

/** Checks a function for inputs of `cols` columns and in_bits[inputs] declared bits; out_bits (may
 * be NULL) gets the bits that its outputs need. message as in uvcc_program_finish: it names the
 * instruction. */
UVCC_API int uvcc_function_check(const uvcc_function *f, uint32_t cols, const uint8_t *in_bits,
                                 uint8_t *out_bits, char *message, size_t message_cap);
UVCC_API int uvcc_function_cost(const uvcc_function *f, uint32_t cols, uvcc_fn_cost *out);
/** Columns of output o for inputs of `cols` columns; 0 if there is no such output. */
UVCC_API uint32_t uvcc_function_cols(const uvcc_function *f, uint32_t cols, uint8_t output);
/** How many of the lowest bits of the mask r an instruction rounds with: r_low of SHIFT, LOW, TRUNC
 * and MULTISCALE; 0 of others. */
UVCC_API unsigned uvcc_function_low_bits(const uvcc_fn_instr *instr);
/** The function in plaintext on rows x cols elements: in[inputs], out[outputs]. low: per
 * instruction, for each SHIFT, LOW, TRUNC and MULTISCALE (and no other) the r_low of its elements,
 * of a MULTISCALE that of its last scale, or NULL: exact mode, all 0. Instructions that read one
 * value have low bits of one r. UVCC_ERR_BOUND where a value leaves the bits that EXCHANGE or LIFT
 * declare for it. */
UVCC_API int uvcc_function_eval(const uvcc_function *f, uint32_t rows, uint32_t cols,
                                const int64_t *const *in, int64_t *const *out,
                                const uint64_t *const *low, const uvcc_allocator *al);

#ifdef __cplusplus
}
#endif
#endif
