/* SPDX-License-Identifier: Apache-2.0 */
/* sessions.c - three whole sessions: their provisioned or exchanged secrets, their identities and
 * their private inputs are secret, from the handshake to the opened output. So everything around
 * the tasks is watched too: the handshake, the keys of a step, links, jobs, the transcript.
 *
 * What becomes public does so at the border between the library's core and its cryptography, in the
 * functions below that the linker puts in front of the real ones (--wrap). */
#include "triangle.h"

#include "exec/base/bounds.h"
#include "exec/compute/kernels.h"
#include "proto/coin.h"
#include "proto/hello.h"
#include "taint.h"

/* Off for the other tests of this program. */
static bool in_session;

static void publish(void *p, size_t n) {
    if (in_session)
        look(p, n);
}

#define WRAP(result, name, ...)                                                                    \
    result __real_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__);                                                             \
    result __wrap_##name(__VA_ARGS__)

/* Ciphertext and tag go over the wire. */
WRAP(int, uvcci_aead_seal, uvcci_aead *a, uint64_t seq, const void *ad, size_t ad_len,
     const void *in, size_t len, void *out, uint8_t tag[16]) {
    const int rc = __real_uvcci_aead_seal(a, seq, ad, ad_len, in, len, out, tag);
    publish(out, len);
    publish(tag, 16);
    return rc;
}

WRAP(void, uvcci_aead_seal_more, uvcci_aead *a, uvcci_gcm_part *part, const void *in, size_t len,
     void *out) {
    __real_uvcci_aead_seal_more(a, part, in, len, out);
    publish(out, len);
}

WRAP(int, uvcci_aead_seal_end, uvcci_aead *a, uvcci_gcm_part *part, uint8_t tag[16]) {
    const int rc = __real_uvcci_aead_seal_end(a, part, tag);
    publish(tag, 16);
    return rc;
}

WRAP(int, uvcci_xaead_seal, const uint8_t key[32], const uint8_t nonce[24], const void *ad,
     size_t ad_len, const void *in, size_t len, void *out) {
    const int rc = __real_uvcci_xaead_seal(key, nonce, ad, ad_len, in, len, out);
    publish(out, len + UVCCI_TAG_BYTES);
    return rc;
}

/* What one party wrote into a message for another is masked for it: shapes and identifiers are
 * public, values carry pads (tasks.c says which). Key streams are secret here; there they stay so.
 */
WRAP(int, uvcci_aead_open, uvcci_aead *a, uint64_t seq, const void *ad, size_t ad_len,
     const void *in, size_t len, const uint8_t tag[16], void *out) {
    const int rc = __real_uvcci_aead_open(a, seq, ad, ad_len, in, len, tag, out);
    publish(out, len);
    return rc;
}

WRAP(void, uvcci_aead_open_more, uvcci_aead *a, uvcci_gcm_part *part, const void *in, size_t len,
     void *out) {
    __real_uvcci_aead_open_more(a, part, in, len, out);
    publish(out, len);
}

/* Control frames acknowledge and say who is there; they hold nothing secret. */
WRAP(int, uvcci_xaead_open, const uint8_t key[32], const uint8_t nonce[24], const void *ad,
     size_t ad_len, const void *in, size_t len, void *out) {
    const int rc = __real_uvcci_xaead_open(key, nonce, ad, ad_len, in, len, out);
    publish(out, len - UVCCI_TAG_BYTES);
    return rc;
}

/* Whether two secrets are equal is what the caller asks. */
WRAP(bool, uvcci_ct_equal, const void *a, const void *b, size_t len) {
    bool equal = __real_uvcci_ct_equal(a, b, len);
    publish(&equal, sizeof equal);
    return equal;
}

/* Whether all values of an input are within its declared bits: if not, it is refused. */
WRAP(bool, uvcci_all_below, const int64_t *v, size_t n, unsigned bits) {
    bool below = __real_uvcci_all_below(v, n, bits);
    publish(&below, sizeof below);
    return below;
}

WRAP(bool, uvcci_all_within, const int64_t *v, size_t n, unsigned bits) {
    bool within = __real_uvcci_all_within(v, n, bits);
    publish(&within, sizeof within);
    return within;
}

/* Outside of crypto.c these make digests for the transcript only: under a salt or a fresh key. */
WRAP(void, uvcci_hmac_final, uvcci_hmac *m, uint8_t out[32]) {
    __real_uvcci_hmac_final(m, out);
    publish(out, 32);
}

WRAP(void, uvcci_hmac_once, const void *key, size_t key_len, const void *data, size_t len,
     uint8_t out[32]) {
    __real_uvcci_hmac_once(key, key_len, data, len, out);
    publish(out, 32);
}

/* Public keys and signatures are sent in the clear. */
WRAP(void, uvcci_sign_keypair, const uint8_t seed[32], uint8_t pk[32], uint8_t sk[64]) {
    __real_uvcci_sign_keypair(seed, pk, sk);
    publish(pk, 32);
    publish(sk + 32, 32); /* libsodium keeps the public key there */
}

WRAP(void, uvcci_sign, const uint8_t sk[64], const void *msg, size_t len, uint8_t sig[64]) {
    __real_uvcci_sign(sk, msg, len, sig);
    publish(sig, 64);
}

WRAP(int, uvcci_x25519_public, const uint8_t sk[32], uint8_t pk[32]) {
    const int rc = __real_uvcci_x25519_public(sk, pk);
    publish(pk, 32);
    return rc;
}

/* A coin is known to all three once it is open. */
WRAP(int, uvcci_coin_seed, const uvcci_coin *c, const uint8_t *roots, uint8_t seed[32]) {
    const int rc = __real_uvcci_coin_seed(c, roots, seed);
    publish(seed, 32);
    return rc;
}

/* N of HELLO 1 is sent in the clear. */
WRAP(int, uvcci_hello_init, uvcci_hello *h, const uvcci_hello_config *cfg, uint64_t now) {
    uvcci_hello_config c = *cfg;
    publish(c.n, sizeof c.n);
    const int rc = __real_uvcci_hello_init(h, &c, now);
    uvcci_wipe(&c, sizeof c);
    return rc;
}

/* What an opening gives is public to the two parties of its edge, and so are the comparison bits
 * that they exchange. Tasks of a job run one by one, so that the next one finds it so. */
static void publish_opened(const uvcc_task *t) {
    if (t->kind != UVCC_TASK_OPEN_FINISH && t->kind != UVCC_TASK_LESS_MASK)
        return;
    for (uint32_t i = 0; i < t->u.vec.count; i++) {
        const uvcc_block *b = &t->u.vec.blocks[i];
        if (b->role == UVCC_OTHER)
            continue;
        if (t->kind == UVCC_TASK_OPEN_FINISH)
            publish(b->out[0], (size_t)b->count * 8);
        else
            publish(b->out_bits, (b->count + 7) / 8);
    }
}

WRAP(int, uvcci_cpu_run, uvcci_cpu_worker *w, const uvcc_job *job) {
    int rc = 0;
    for (uint32_t i = 0; i < job->count && rc == 0; i++) {
        uvcc_job one = *job;
        one.tasks = &job->tasks[i];
        one.count = 1;
        rc = __real_uvcci_cpu_run(w, &one);
        if (rc == 0)
            publish_opened(one.tasks);
    }
    return rc;
}

/* --- The program: Y = relu(X W), X of P0 and W of P1 ------------------------------------------ */

enum { ROWS = 5, INNER = 7, COLS = 9, FRAC_BITS = 12, IN_X = 1, IN_W = 2, OUT_Y = 3 };

static uint32_t tensor(uvcc_program *p, const char *name, uint32_t rows, uint32_t cols,
                       uint8_t bits, uint8_t scale) {
    return test_tensor(p, name, rows, cols, bits, scale, UVCC_TRANSIENT);
}

typedef enum form { NATIVE, PARTS, TRIPLE, CHECKED } form;

/* With `part` the product is made by GEMM_PART and TRUNCATE, else by GEMM_SS. */
static void add_product(uvcc_program *p, uint32_t x, uint32_t w, uint32_t z, uint32_t part,
                        uvcc_truncation truncation, uint8_t flags) {
    uvcc_op_desc d = {.opcode = UVCC_OP_GEMM_SS,
                      .flags = flags,
                      .in_count = 2,
                      .in = {x, w},
                      .out_count = 1,
                      .out = {z},
                      .shift = FRAC_BITS,
                      .truncation = (uint8_t)truncation};
    uvcc_op_desc t = d;
    if (part != UVCC_NO_TENSOR) {
        d.opcode = UVCC_OP_GEMM_PART;
        d.out[0] = part;
        d.shift = d.truncation = 0;
        t.opcode = UVCC_OP_TRUNCATE;
        t.in_count = 1;
        t.in[0] = part;
        t.k = 1;
    }
    assert_true(uvcc_program_op(p, &d) >= 0);
    if (part != UVCC_NO_TENSOR)
        assert_true(uvcc_program_op(p, &t) >= 0);
}

/* Z = X W, kept whole and checked, then truncated. */
static void add_checked(uvcc_program *p, uint32_t x, uint32_t w, uint32_t z,
                        uvcc_truncation truncation) {
    const uint32_t c = tensor(p, "C", ROWS, COLS, 44, 2 * FRAC_BITS);
    const uvcc_op_desc whole = {
        .opcode = UVCC_OP_GEMM_SS, .in_count = 2, .in = {x, w}, .out_count = 1, .out = {c}};
    const uvcc_op_desc cut = {.opcode = UVCC_OP_TRUNCATE,
                              .k = 3,
                              .in_count = 1,
                              .in = {c},
                              .out_count = 1,
                              .out = {z},
                              .shift = FRAC_BITS,
                              .truncation = (uint8_t)truncation};
    uvcc_op_desc check = {
        .opcode = UVCC_OP_SKS_START, .k = 1, .in_count = 3, .in = {x, w, c}, .constant = 1000};
    assert_true(uvcc_program_op(p, &whole) >= 0);
    assert_true(uvcc_program_op(p, &check) >= 0);
    check.opcode = UVCC_OP_SKS_GEMM_CHECK;
    check.k = 2;
    check.constant = 0;
    assert_true(uvcc_program_op(p, &check) >= 0);
    assert_true(uvcc_program_op(p, &cut) >= 0);
}

static uvcc_program *make_program(const uvcc_allocator *al, uvcc_truncation truncation,
                                  uint8_t relu_flags, form product) {
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    const uint32_t x = tensor(p, "X", ROWS, INNER, 20, FRAC_BITS);
    const uint32_t w = tensor(p, "W", INNER, COLS, 20, FRAC_BITS);
    const uint32_t z = tensor(p, "Z", ROWS, COLS, 32, FRAC_BITS);
    const uint32_t y = tensor(p, "Y", ROWS, COLS, 32, FRAC_BITS);
    const uint32_t d = tensor(p, "D", ROWS, COLS, 1, 0);
    assert_true(uvcc_program_entry(p, "relu(XW)") >= 0);
    assert_true(uvcc_program_input(p, IN_X, x, 0) >= 0);
    assert_true(uvcc_program_input(p, IN_W, w, 1) >= 0);
    const int part =
        product != PARTS
            ? -1
            : uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = "P",
                                                         .rows = ROWS,
                                                         .cols = COLS,
                                                         .bits = 44,
                                                         .scale = 2 * FRAC_BITS,
                                                         .lifetime = UVCC_TRANSIENT,
                                                         .in_buffer_of = UVCC_NO_TENSOR,
                                                         .sharing = UVCC_ADDITIVE});
    assert_true(part >= 0 || product != PARTS);
    if (product == CHECKED)
        add_checked(p, x, w, z, truncation);
    else
        add_product(p, x, w, z, product == PARTS ? (uint32_t)part : UVCC_NO_TENSOR, truncation,
                    product == TRIPLE ? UVCC_OP_BEAVER : 0);
    assert_true(uvcc_program_op(p, &(uvcc_op_desc){.opcode = UVCC_OP_RELU,
                                                   .flags = relu_flags,
                                                   .k = 4,
                                                   .in_count = 1,
                                                   .in = {z},
                                                   .out_count = 2,
                                                   .out = {y, d}}) >= 0);
    assert_true(uvcc_program_output(p, OUT_Y, y) >= 0);
    char why[200] = "";
    if (uvcc_program_finish(p, why, sizeof why) != 0)
        fail_msg("%s", why);
    return p;
}

/* The sizes tell what random bytes are for: 32 are K_own, N or an ephemeral key, 24 the nonce of a
 * control frame, 8 a hash table's multiplier, which only hinders those who would fill it. */
static int secret_random(void *user, void *out, size_t bytes) {
    const uvcc_random *seeded = user;
    const int rc = seeded->fill(seeded->user, out, bytes);
    if (bytes == 32)
        taint(out, bytes);
    return rc;
}

static void secret_config(uvcc_config *c) {
    static uvcc_random seeded[3];
    seeded[c->identity.party] = c->random;
    c->random = (uvcc_random){.fill = secret_random, .user = &seeded[c->identity.party]};
    taint(c->identity.sign_seed, sizeof c->identity.sign_seed);
    taint(c->identity.pair_secret, sizeof c->identity.pair_secret);
}

static void exchanging_config(uvcc_config *c) {
    c->identity.exchange_x25519 = true;
    for (uint8_t p = 0; p < 3; p++) {
        uint8_t seed[32], sk[64];
        memset(seed, 0x40 + p, sizeof seed); /* as triangle.c gives to each */
        uvcci_sign_keypair(seed, c->identity.peer_sign_key[p], sk);
    }
    secret_config(c);
}

static void relu_of_product(void (*config)(uvcc_config *), uint8_t suite,
                            uvcc_truncation truncation, uint8_t relu_flags, form product) {
    in_session = true;
    test_alloc mem = {0};
    const uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = make_program(&al, truncation, relu_flags, product);
    triangle t;
    triangle_open(
        &t, p,
        &(triangle_options){.seed = 5, .suites = suite, .unverified = true, .tweak = config});
    triangle_ready(&t);

    int64_t x[ROWS * INNER], w[INNER * COLS], want[ROWS * COLS];
    uint64_t rng = 3;
    for (unsigned i = 0; i < ROWS * INNER; i++)
        x[i] = (int64_t)(test_rand(&rng) % 20000) - 10000;
    for (unsigned i = 0; i < INNER * COLS; i++)
        w[i] = (int64_t)(test_rand(&rng) % 20000) - 10000;
    for (unsigned i = 0; i < ROWS * COLS; i++) {
        int64_t sum = 0;
        for (unsigned k = 0; k < INNER; k++)
            sum += x[i / COLS * INNER + k] * w[k * COLS + i % COLS];
        want[i] = sum >> FRAC_BITS < 0 ? 0 : sum >> FRAC_BITS;
    }
    taint(x, sizeof x);
    taint(w, sizeof w);
    const uint64_t now = uvcc_loopback_now(t.net);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_step(t.s[i], 0, 0, now), 0);
    assert_int_equal(uvcc_session_input(t.s[0], 0, IN_X, x, now), 0);
    assert_int_equal(uvcc_session_input(t.s[1], 0, IN_W, w, now), 0);
    triangle_finish(&t, 1);
    for (unsigned i = 0; i < 3; i++) {
        const int64_t *y = uvcc_session_output(t.s[i], 0, OUT_Y);
        int64_t opened[ROWS * COLS];
        assert_non_null(y);
        memcpy(opened, y, sizeof opened);
        if (relu_flags == 0)
            declassify(opened, sizeof opened, "an output is opened to all");
        else /* HEAD has all of it from messages, which are public here */
            publish(opened, sizeof opened);
        for (unsigned k = 0; k < ROWS * COLS; k++)
            assert_true(opened[k] - want[k] >= 0 &&
                        opened[k] - want[k] <= (truncation == UVCC_TRUNC_STOCHASTIC));
    }
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
    in_session = false;
}

static void provisioned(void **state) {
    (void)state;
    relu_of_product(secret_config, 1, UVCC_TRUNC_EXACT, 0, NATIVE);
}

static void exchanged(void **state) {
    (void)state;
    relu_of_product(exchanging_config, 2, UVCC_TRUNC_STOCHASTIC, 0, NATIVE);
}

static void keyless(void **state) {
    (void)state;
    relu_of_product(secret_config, 1, UVCC_TRUNC_EXACT, UVCC_OP_CIRCUIT, PARTS);
}

static void on_dcf_keys(void **state) {
    (void)state;
    relu_of_product(secret_config, 1, UVCC_TRUNC_EXACT_DCF, 0, NATIVE);
}

static void on_triples(void **state) {
    (void)state;
    relu_of_product(secret_config, 2, UVCC_TRUNC_EXACT, 0, TRIPLE);
}

static void checked_product(void **state) {
    (void)state;
    relu_of_product(secret_config, 1, UVCC_TRUNC_EXACT, 0, CHECKED);
}

int test_sessions(void) {
    const struct CMUnitTest tests[] = {SECRETS_TEST(provisioned), SECRETS_TEST(exchanged),
                                       SECRETS_TEST(keyless),     SECRETS_TEST(on_dcf_keys),
                                       SECRETS_TEST(on_triples),  SECRETS_TEST(checked_product)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
