/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_stepmsg.c - the payloads of STEP, AUDIT, BYE and CANCEL: what decodes encodes to the same
 * bytes, and an encoder takes what its decoder gives, in exactly the room that it needs. */
#include "common.h"

#include "proto/stepmsg.h"

static void step(const uint8_t *in, size_t len) {
    uvcci_step_msg m;
    uint8_t out[UVCCI_STEP_MAX_BYTES];
    memset(&m, 0xA5, sizeof m);
    int err = uvcci_step_decode(&m, in, len);
    FUZZ_CHECK(err == 0 || err == UVCC_ERR_BATCH);
    if (err != 0)
        return;
    FUZZ_CHECK(len <= sizeof out);
    FUZZ_CHECK(uvcci_step_encode(&m, out, len) == (int)len && memcmp(in, out, len) == 0);
    FUZZ_CHECK(uvcci_step_encode(&m, out, len - 1) == UVCC_ERR_USAGE);
}

static void audit(const uint8_t *in, size_t len) {
    uvcci_audit_msg_t m;
    uint8_t out[UVCCI_AUDIT_BYTES];
    int err = uvcci_audit_decode(&m, in, len);
    FUZZ_CHECK(err == 0 || err == UVCC_ERR_BATCH);
    if (err != 0)
        return;
    FUZZ_CHECK(len == sizeof out && m.party < UVCC_PARTIES);
    FUZZ_CHECK(uvcci_audit_encode(&m, out, len) == (int)len && memcmp(in, out, len) == 0);
    FUZZ_CHECK(uvcci_audit_encode(&m, out, len - 1) == UVCC_ERR_USAGE);
}

static void bye(const uint8_t *in, size_t len) {
    uint16_t reason;
    uint8_t out[UVCCI_BYE_BYTES];
    int err = uvcci_bye_decode(&reason, in, len);
    FUZZ_CHECK(err == 0 || err == UVCC_ERR_BATCH);
    if (err == 0)
        FUZZ_CHECK(uvcci_bye_encode(reason, out, sizeof out) == (int)len &&
                   memcmp(in, out, len) == 0);
}

static void cancel(const uint8_t *in, size_t len) {
    uvcci_cancel_msg m;
    uint8_t out[UVCCI_CANCEL_BYTES];
    int err = uvcci_cancel_decode(&m, in, len);
    FUZZ_CHECK(err == 0 || err == UVCC_ERR_BATCH);
    if (err == 0)
        FUZZ_CHECK(uvcci_cancel_encode(&m, out, sizeof out) == (int)len &&
                   memcmp(in, out, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    step(data, size);
    audit(data, size);
    bye(data, size);
    cancel(data, size);
    if (size >= UVCCI_STEP_MIN_BYTES) { /* shapes as many as there is room for */
        size_t len = UVCCI_STEP_MIN_BYTES +
                     (size - UVCCI_STEP_MIN_BYTES) / UVCCI_SHAPE_BYTES * UVCCI_SHAPE_BYTES;
        size_t shapes = (len - UVCCI_STEP_MIN_BYTES) / UVCCI_SHAPE_BYTES;
        uint8_t *copy = fuzz_copy(data, len);
        copy[UVCCI_STEP_MIN_BYTES - 2] = (uint8_t)shapes;
        copy[UVCCI_STEP_MIN_BYTES - 1] = (uint8_t)(shapes >> 8);
        step(copy, len);
        free(copy);
    }
    return 0;
}
