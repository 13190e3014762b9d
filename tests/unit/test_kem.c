/* SPDX-License-Identifier: Apache-2.0 */
/* Key encapsulation: vectors of RFC 9180, what no honest peer makes. */
#include "support.h"

#include "proto/kem.h"

/* RFC 9180, A.1.1. */
static void rfc9180(void **state) {
    (void)state;
    const uvcci_kem *k = uvcci_kem_of(UVCCI_KEM_X25519);
    uint8_t sk_e[32], sk_r[32], want[32], ek[32], dk[32], ct[32], ss[32];
    assert_non_null(k);
    assert_true(k->ek_bytes == 32 && k->dk_bytes == 32 && k->ct_bytes == 32);
    test_hex_n("52c4a758a802cd8b936eceea314432798d5baf2d7e9235dc084ab1b9cfa2f736", sk_e, 32);
    test_hex_n("4612c550263fc8ad58375df3f557aac531d26850903e55a9f23f21d8534e8ac8", sk_r, 32);
    assert_int_equal(k->keypair(sk_r, ek, dk), 0);
    test_hex_n("3948cfe0ad1ddb695d780e59077195da6c56506b027329794ab02bca80815c4d", want, 32);
    assert_memory_equal(ek, want, 32);
    assert_int_equal(k->encapsulate(ek, sk_e, ct, ss), 0);
    test_hex_n("37fda3567bdbd628e88668c3c8d7e97d1d1253b6d4ea6d44c150f741f1bf4431", want, 32);
    assert_memory_equal(ct, want, 32);
    test_hex_n("fe0e18c9f024ce43799ae393c7e8fe8fce9d218875e8227b0187c04e7d2ea1fc", want, 32);
    assert_memory_equal(ss, want, 32);
    memset(ss, 0, sizeof ss);
    assert_int_equal(k->decapsulate(dk, ek, ct, ss), 0);
    assert_memory_equal(ss, want, 32);
}

static void unknown_and_bad(void **state) {
    (void)state;
    for (unsigned id = 0; id < 0x10000; id++)
        assert_true((uvcci_kem_of((uint16_t)id) != NULL) == (id == UVCCI_KEM_X25519));
    const uvcci_kem *k = uvcci_kem_of(UVCCI_KEM_X25519);
    assert_true(k->ek_bytes <= UVCCI_KEM_EK_MAX && k->dk_bytes <= UVCCI_KEM_DK_MAX &&
                k->ct_bytes <= UVCCI_KEM_CT_MAX);
    static const uint8_t zero[32];
    uint8_t seed[32] = {1}, ek[32], dk[32], ct[32], ss[32];
    assert_int_equal(k->keypair(seed, ek, dk), 0);
    assert_int_equal(k->encapsulate(zero, seed, ct, ss), UVCC_ERR_AUTH);
    assert_int_equal(k->decapsulate(dk, ek, zero, ss), UVCC_ERR_AUTH);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rfc9180),
        cmocka_unit_test(unknown_and_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
