/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_audit.c - bundles, roots of jobs and proofs (uvcc/audit.h).
 *
 * The first byte says how the rest is read. As bytes of a file, as they are or with their checksums
 * made right: decoders read nothing outside, and what they take holds together. As a program: it
 * changes bytes of three good bundles; those must be refused if, and only if, anything is changed.
 */
#include "bundles.h"

enum { CHANGES_MAX = 8 };

static const fuzz_bundles *base(void) {
    static fuzz_bundles b; /* a constant */
    static bool made;
    if (!made)
        fuzz_bundles_make(&b);
    made = true;
    return &b;
}

static void check_fault(const uvcc_audit_fault *f, size_t size) {
    FUZZ_CHECK(f->kind > UVCC_FAULT_NONE && f->kind <= UVCC_FAULT_CANCELLED);
    FUZZ_CHECK(f->party < 3 || f->party == UVCC_NO_PARTY);
    FUZZ_CHECK(f->other < 3 || f->other == UVCC_NO_PARTY);
    FUZZ_CHECK(f->offset <= size);
    FUZZ_CHECK(uvcc_fault_text(f->kind) != NULL);
}

/* ---- any bytes ---- */

static void as_proof(const uint8_t *data, size_t size) {
    uvcc_proof p;
    uvcc_audit_fault f;
    int rc = uvcc_proof_decode(&p, data, size, &f);
    FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_FRAME);
    if (rc != 0) {
        check_fault(&f, size);
        return;
    }
    FUZZ_CHECK(p.party < 3 && p.leaf_len <= sizeof p.leaf && p.path_len <= UVCC_PATH_MAX);
    rc = uvcc_proof_check(&p, &base()->keys, &f);
    FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_AUTH);
}

static void as_job_root(const uint8_t *data, size_t size) {
    uvcc_job_root j;
    uvcc_audit_fault f;
    int rc = uvcc_job_root_decode(&j, data, size, &f);
    FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_FRAME);
    if (rc != 0) {
        check_fault(&f, size);
        return;
    }
    FUZZ_CHECK(uvcc_job_root_bytes(j.replicas, j.stages, j.tp_ranks) == size);
    rc = uvcc_job_root_check(&j, &base()->keys, &f);
    FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_AUTH);
}

/* Every leaf of a bundle that was taken has a proof, good up to its signature. */
static void walk(const uvcc_bundle *b) {
    uvcc_leaf_reader r;
    uvcc_leaf l;
    uint32_t n = 0;
    uint8_t proof[4096], hash[32];
    uvcc_leaf_reader_init(&r, b);
    while (uvcc_leaf_next(&r, &l) == 1) {
        FUZZ_CHECK(l.index == n++ && l.offset < b->len && l.row < (b->row_count + 1));
        FUZZ_CHECK(strcmp(uvcc_leaf_name(l.type), "UNKNOWN") != 0);
        uvcc_leaf_hash(b, &l, hash);
        if (n > 4)
            continue;
        int64_t len = uvcc_proof_make(b, l.index, NULL, proof, sizeof proof);
        FUZZ_CHECK(len > 0);
        as_proof(proof, (size_t)len);
    }
    FUZZ_CHECK(n == b->leaf_count);
}

static void as_bundle(const uint8_t *data, size_t size) {
    uvcc_bundle b, three[3];
    uvcc_audit_fault f;
    int rc = uvcc_bundle_decode(&b, data, size, &f);
    FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_FRAME);
    if (rc != 0) {
        check_fault(&f, size);
        return;
    }
    walk(&b);
    rc = uvcc_bundle_check(&b, &base()->keys, &f);
    FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_AUTH);
    for (unsigned p = 0; p < 3; p++)
        if (uvcc_bundle_decode(&three[p], base()->bytes[p], base()->len[p], NULL) != 0)
            abort();
    three[b.party] = b;
    rc = uvcc_bundle_verify(three, &base()->keys, &f);
    FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_AUTH);
    if (rc != 0)
        check_fault(&f, size > FUZZ_BUNDLE_BYTES ? size : FUZZ_BUNDLE_BYTES);
}

static void as_file(const uint8_t *data, size_t size, bool right) {
    uint8_t *copy = fuzz_copy(data, size);
    if (right && uvcci_head_magic(copy, size, UVCCI_MAGIC_BUNDLE))
        uvcci_bundle_seal(copy, size);
    else if (right && size >= 4)
        uvcci_sum_put(copy, size);
    as_bundle(copy, size);
    as_job_root(copy, size);
    as_proof(copy, size);
    free(copy);
}

/* ---- three good bundles, changed ---- */

static void as_changes(fuzz_in *in) {
    const fuzz_bundles *good = base();
    uint8_t *copy[3];
    uvcc_bundle b[3];
    uvcc_audit_fault f;
    unsigned changed = 0; /* bits of parties */
    int rc = 0;
    for (unsigned p = 0; p < 3; p++)
        copy[p] = fuzz_copy(good->bytes[p], good->len[p]);
    const bool right = fuzz_u8(in) % 2 != 0;
    for (unsigned i = 0; i < CHANGES_MAX && in->left != 0; i++) {
        const unsigned p = fuzz_u8(in) % 3;
        copy[p][fuzz_u16(in) % good->len[p]] ^= fuzz_u8(in);
    }
    for (unsigned p = 0; p < 3; p++) {
        if (right)
            uvcci_bundle_seal(copy[p], good->len[p]);
        changed |= (unsigned)(memcmp(copy[p], good->bytes[p], good->len[p]) != 0) << p;
    }
    for (uint8_t p = 0; p < 3 && rc == 0; p++) {
        rc = uvcc_bundle_decode(&b[p], copy[p], good->len[p], &f);
        FUZZ_CHECK(rc == 0 || (changed >> p & 1) != 0);
        if (rc == 0 && b[p].party != p)
            rc = UVCC_ERR_USAGE; /* a file of another party: the host sees that */
    }
    if (rc == 0) {
        rc = uvcc_bundle_verify(b, &good->keys, &f);
        FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_AUTH);
        if (rc != 0) {
            check_fault(&f, FUZZ_BUNDLE_BYTES);
            FUZZ_CHECK(f.party < 3);
            if ((changed & (changed - 1)) == 0) /* one party's file alone */
                FUZZ_CHECK((changed >> f.party & 1) != 0);
        }
    }
    FUZZ_CHECK((rc == 0) == (changed == 0));
    for (unsigned p = 0; p < 3; p++)
        free(copy[p]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    fuzz_in in = {data, size};
    const uint8_t how = fuzz_u8(&in);
    if (how % 4 < 2)
        as_file(in.at, in.left, how % 4 == 1);
    else
        as_changes(&in);
    return 0;
}
