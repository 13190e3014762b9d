/* SPDX-License-Identifier: Apache-2.0 */
/* damage.c - see damage.h: bundles of a run, copies of them, and what is done to the copies. */
#include "damage.h"

#include "proto/bundle.h"

void audit_run_free(audit_run *r) {
    for (uint32_t m = 0; m < r->steps; m++)
        for (unsigned p = 0; p < 3; p++)
            free(r->f[m][p].bytes);
}

file copy_of(const file *f) {
    file c = {.bytes = malloc(f->len + 512), .len = f->len};
    memcpy(c.bytes, f->bytes, f->len);
    return c;
}

uvcc_leaf leaf_at(const file *f, uint32_t index) {
    uvcc_bundle b;
    uvcc_leaf_reader at;
    uvcc_leaf l;
    assert_int_equal(uvcc_bundle_decode(&b, f->bytes, f->len, NULL), 0);
    uvcc_leaf_reader_init(&at, &b);
    do
        assert_int_equal(uvcc_leaf_next(&at, &l), 1);
    while (l.index != index);
    return l;
}

uint32_t leaf_count(const file *f) {
    uvcc_bundle b;
    assert_int_equal(uvcc_bundle_decode(&b, f->bytes, f->len, NULL), 0);
    return b.leaf_count;
}

enum { COUNT_AT = UVCCI_HEAD_BYTES + 32 + 4 };

static size_t record_bytes(const uvcc_leaf *l) {
    return 1 + l->stored_len + 4;
}

void add_count(file *f, int by) {
    uvcci_st32(f->bytes + COUNT_AT, uvcci_ld32(f->bytes + COUNT_AT) + (uint32_t)by);
}

void remove_leaf(file *f, uint32_t index) {
    uvcc_leaf l = leaf_at(f, index);
    size_t n = record_bytes(&l);
    memmove(f->bytes + l.offset, f->bytes + l.offset + n, f->len - l.offset - n);
    f->len -= n;
}

/* In an allocation of copy_of. */
void duplicate_leaf(file *f, uint32_t index) {
    uvcc_leaf l = leaf_at(f, index);
    size_t n = record_bytes(&l);
    memmove(f->bytes + l.offset + n, f->bytes + l.offset, f->len - l.offset);
    f->len += n;
}

void swap_leaves(file *f, uint32_t a, uint32_t b) {
    uint8_t *out = malloc(f->len);
    uvcc_leaf la = leaf_at(f, a), lb = leaf_at(f, b);
    size_t na = record_bytes(&la), nb = record_bytes(&lb), between = lb.offset - la.offset - na;
    uint8_t *at = out;
    memcpy(at, f->bytes, la.offset);
    at += la.offset;
    memcpy(at, f->bytes + lb.offset, nb);
    at += nb;
    memcpy(at, f->bytes + la.offset + na, between);
    at += between;
    memcpy(at, f->bytes + la.offset, na);
    at += na;
    memcpy(at, f->bytes + lb.offset + nb, f->len - lb.offset - nb);
    memcpy(f->bytes, out, f->len);
    free(out);
}

/* The leaf a byte belongs to, or UVCC_NO_LEAF. */
static uint32_t leaf_of_byte(const file *f, size_t at) {
    for (uint32_t i = 0, n = leaf_count(f); i < n; i++) {
        uvcc_leaf l = leaf_at(f, i);
        if (at >= l.offset && at < l.offset + record_bytes(&l))
            return i;
    }
    return UVCC_NO_LEAF;
}

/* Whether leaf j of one file is the counterpart of leaf i of another. */
bool counterparts(const file *f, uint32_t i, const file *g, uint32_t j) {
    uvcc_leaf a = leaf_at(f, i), b = leaf_at(g, j);
    bool batch = uvcci_leaf_is_sent(a.type) || uvcci_leaf_is_received(a.type);
    uint8_t want = !batch                       ? a.type
                   : uvcci_leaf_is_sent(a.type) ? (uint8_t)(a.type + 1)
                                                : (uint8_t)(a.type - 1);
    return b.type == want && a.stored_len == b.stored_len &&
           memcmp(a.stored + 1, b.stored + 1, a.stored_len - 1) == 0;
}

static void damage_byte(damage *d, uint64_t *rnd) {
    file *f = &d->f;
    size_t at = test_rand(rnd) % f->len;
    d->leaf = leaf_of_byte(f, at);
    d->second = d->leaf != UVCC_NO_LEAF && d->forged ? d->leaf + 1 : d->leaf;
    f->bytes[at] ^= (uint8_t)(1 + test_rand(rnd) % 255);
    snprintf(d->what, sizeof d->what, "byte %zu of %zu", at, f->len);
}

static void damage_leaves(damage *d, unsigned how, uint64_t *rnd) {
    static const char *const words[] = {"removed", "doubled", "swapped"};
    file *f = &d->f;
    uint32_t n = leaf_count(f), i = (uint32_t)(test_rand(rnd) % n);
    d->leaf = d->second = i;
    if (how == 0) {
        remove_leaf(f, i);
    } else if (how == 1) {
        duplicate_leaf(f, i);
        d->leaf = d->second = i + 1;
    } else {
        i = (uint32_t)(test_rand(rnd) % (n - 1));
        uint32_t j = i + 1 + (uint32_t)(test_rand(rnd) % (n - 1 - i));
        swap_leaves(f, i, j);
        d->leaf = i;
        d->second = i + 1;
    }
    if (d->forged && how < 2)
        add_count(f, how == 0 ? -1 : 1);
    snprintf(d->what, sizeof d->what, "leaf %u of %u %s", i, n, words[how]);
}

static void damage_file(damage *d, const audit_run *r, uint64_t *rnd) {
    file *f = &d->f;
    d->leaf = d->second = UVCC_NO_LEAF;
    d->forged = false;
    if (test_rand(rnd) % 2 == 0) {
        f->len = test_rand(rnd) % f->len;
        snprintf(d->what, sizeof d->what, "cut to %zu", f->len);
        return;
    }
    uint32_t other = (d->step + 1 + (uint32_t)(test_rand(rnd) % (r->steps - 1))) % r->steps;
    unsigned from = (unsigned)(test_rand(rnd) % 3);
    free(f->bytes);
    *f = copy_of(&r->f[other][from]);
    snprintf(d->what, sizeof d->what, "that of step %u, party %u", other, from);
}

static damage damage_once(const audit_run *r, uint64_t *rnd) {
    damage d = {.step = (uint32_t)(test_rand(rnd) % r->steps),
                .party = (unsigned)(test_rand(rnd) % 3),
                .forged = test_rand(rnd) % 2 != 0};
    d.f = copy_of(&r->f[d.step][d.party]);
    unsigned how = (unsigned)(test_rand(rnd) % 8);
    if (how < 4)
        damage_byte(&d, rnd);
    else if (how < 7)
        damage_leaves(&d, how - 4, rnd);
    else
        damage_file(&d, r, rnd);
    if (d.forged)
        uvcci_bundle_seal(d.f.bytes, d.f.len);
    char what[sizeof d.what];
    memcpy(what, d.what, sizeof what);
    snprintf(d.what, sizeof d.what, "step %u, party %u, %.120s%s", d.step, d.party, what,
             d.forged ? ", forged" : "");
    return d;
}

damage damage_make(const audit_run *r, uint64_t *rnd) {
    for (;;) {
        damage d = damage_once(r, rnd);
        const file *was = &r->f[d.step][d.party];
        if (d.f.len != was->len || memcmp(d.f.bytes, was->bytes, was->len) != 0)
            return d;
        free(d.f.bytes); /* a checksum, made right again */
    }
}

bool damage_names_leaf(const damage *d, const audit_run *r, const uvcc_audit_fault *f) {
    if (f->leaf == d->leaf || f->leaf == d->second)
        return true;
    return f->kind == UVCC_FAULT_MISSING && f->other < 3 &&
           counterparts(&r->f[d->step][d->party], d->leaf, &r->f[d->step][f->other], f->other_leaf);
}
