/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_demux.c - the call and the table of sid_tags: 24 bytes are a call exactly if encoding what
 * they say gives them again, and then no beginning of them is refused; the table agrees with a
 * plain list after every addition and removal, also when memory is refused, and finds for a packet
 * what it finds for its tag. */
#include "common.h"

#include <uvcc/demux.h>
#include <uvcc/frame.h>

enum { TAGS = 200, OPS_MAX = 1200 };

/* ---- the call ---- */

static void check_call(const uint8_t *data, size_t size) {
    uint8_t same[UVCC_CALL_BYTES];
    uvcc_call c = {.from = 9, .to = 9, .sid_tag = 9};
    if (size < UVCC_CALL_BYTES) {
        uint8_t *start = fuzz_copy(data, size);
        const int rc = uvcc_call_may_be(start, size);
        FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_FRAME);
        free(start);
        return;
    }
    uint8_t *whole = fuzz_copy(data, UVCC_CALL_BYTES);
    const int rc = uvcc_call_decode(whole, &c);
    FUZZ_CHECK(rc == 0 || rc == UVCC_ERR_FRAME);
    if (rc == 0) {
        FUZZ_CHECK(c.from < UVCC_PARTIES && c.to < UVCC_PARTIES && c.from != c.to);
        FUZZ_CHECK(c.sid_tag != 0);
        FUZZ_CHECK(uvcc_call_encode(same, &c) == 0 && memcmp(same, whole, sizeof same) == 0);
        for (size_t n = 0; n <= UVCC_CALL_BYTES; n++)
            FUZZ_CHECK(uvcc_call_may_be(whole, n) == 0);
        for (unsigned bit = 0; bit < 8 * UVCC_CALL_BYTES; bit++) { /* any bit that flips is seen */
            whole[bit / 8] ^= (uint8_t)(1u << bit % 8);
            FUZZ_CHECK(uvcc_call_decode(whole, &c) == UVCC_ERR_FRAME);
            whole[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    } else {
        FUZZ_CHECK(c.from == 9 && c.to == 9 && c.sid_tag == 9);
        /* What a beginning shows to be none is none. */
        bool refused = false;
        for (size_t n = 0; n <= UVCC_CALL_BYTES; n++) {
            const bool now = uvcc_call_may_be(whole, n) != 0;
            FUZZ_CHECK(now || !refused);
            refused = now;
        }
    }
    free(whole);
}

/* ---- the table ---- */

typedef struct model {
    uint64_t tag[TAGS];
    uint8_t value[TAGS]; /* its address is what is kept */
    bool here[TAGS];
    unsigned count;
} model;

/* Tags that fall together: few low bits, and the same ones in both halves. */
static uint64_t tag_of(uint8_t n, uint8_t form) {
    const uint64_t low = n + 1u;
    return form % 4 == 0   ? low
           : form % 4 == 1 ? low << 32
           : form % 4 == 2 ? low << 32 | low
                           : low * UINT64_C(0x0101010101010101);
}

static void check_table(const uvcc_demux *d, const model *m) {
    for (unsigned i = 0; i < TAGS; i++)
        FUZZ_CHECK(uvcc_demux_find(d, m->tag[i]) ==
                   (m->here[i] ? (const void *)&m->value[i] : NULL));
    FUZZ_CHECK(uvcc_demux_count(d) == m->count);
    FUZZ_CHECK(uvcc_demux_find(d, 0) == NULL);
}

static void add(uvcc_demux *d, model *m, unsigned i) {
    const int rc = uvcc_demux_add(d, m->tag[i], &m->value[i]);
    FUZZ_CHECK(rc == (m->here[i] ? UVCC_ERR_STATE : 0) || (rc == UVCC_ERR_NOMEM && !m->here[i]));
    if (rc != 0)
        return;
    m->here[i] = true;
    m->count++;
}

static void remove_it(uvcc_demux *d, model *m, unsigned i) {
    FUZZ_CHECK(uvcc_demux_remove(d, m->tag[i]) == (m->here[i] ? 0 : UVCC_ERR_NOT_FOUND));
    m->count -= m->here[i];
    m->here[i] = false;
}

/* A packet with any tag: of a session that is here, or of nobody. */
static void packet(const uvcc_demux *d, fuzz_in *in) {
    size_t len;
    uint64_t tag = 0;
    const uint8_t *bytes = fuzz_take(in, fuzz_u8(in), &len);
    uint8_t *copy = fuzz_copy(bytes, len);
    const void *want =
        uvcc_frame_peek_sid_tag(copy, len, &tag) == 0 ? uvcc_demux_find(d, tag) : NULL;
    FUZZ_CHECK(uvcc_demux_packet(d, copy, len) == want);
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static model m;
    fuzz_in in = {data, size};
    fuzz_mem mem = {0};
    const uvcc_allocator al = fuzz_allocator(&mem);
    uvcc_demux *d = NULL;
    check_call(data, size);
    memset(&m, 0, sizeof m);
    mem.fail_in = fuzz_u8(&in);
    const uint8_t form = fuzz_u8(&in);
    for (unsigned i = 0; i < TAGS; i++)
        m.tag[i] = tag_of((uint8_t)i, form);
    if (uvcc_demux_new(&d, &al) != 0) {
        FUZZ_CHECK(mem.live_blocks == 0);
        return 0;
    }
    for (unsigned n = 0; n < OPS_MAX && in.left > 0; n++) {
        const uint8_t op = fuzz_u8(&in);
        const unsigned i = fuzz_u8(&in) % TAGS;
        if (op < 140)
            add(d, &m, i);
        else if (op < 250)
            remove_it(d, &m, i);
        else
            packet(d, &in);
        if (n % 16 == 0)
            check_table(d, &m);
    }
    check_table(d, &m);
    uvcc_demux_free(d);
    FUZZ_CHECK(mem.live_blocks == 0 && mem.live_bytes == 0);
    return 0;
}
