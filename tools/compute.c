/* SPDX-License-Identifier: Apache-2.0 */
/* compute.c - see compute.h. */
#include "compute.h"

#include <string.h>

#define BYTES_LEAST ((uint64_t)1 << 20)
#define DEVICE_MAX  65535u
/* Of keys ahead of use, unless the environment says it: what a pass of twelve layers of width 768
 * takes, and no more than this part of what a session may take. */
#define KEYS_USUAL ((uint64_t)1 << 30)
#define KEYS_PART  8

const char compute_help[] =
    "\n"
    "Environment: UVCC_FSS_BACKEND=cpu|gpu|auto says where jobs run if no option does (auto: "
    "on "
    "a CUDA device if there is one); UVCC_GPU_ID is its number if --device is not given, and "
    "UVCC_GPU_BYTES=40GiB the most that a session takes of it, UVCC_GPU_KEYS_BYTES=1GiB of that "
    "for keys ahead of their use.\n";

int compute_read_wish(compute_getenv *env, compute_wish *out, const flag_message *m) {
    static const char *const names[] = {"cpu", "gpu", "auto"};
    const char *text = env("UVCC_FSS_BACKEND");
    *out = COMPUTE_CPU;
    if (text == NULL || *text == '\0')
        return 0;
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(text, names[i]) == 0) {
            *out = (compute_wish)i;
            return 0;
        }
    return flag_fail(
        m, "UVCC_FSS_BACKEND=%.40s in the environment: give cpu, gpu or auto, or unset it", text);
}

/* The digits at the beginning; false: there are none, or too many. */
static bool read_digits(const char **text, uint64_t *out) {
    const char *at = *text;
    uint64_t v = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        const uint64_t digit = (uint64_t)(*at - '0');
        if (v > (UINT64_MAX - digit) / 10)
            return false;
        v = 10 * v + digit;
    }
    const bool some = at != *text;
    *text = at;
    *out = v;
    return some;
}

int compute_read_device(compute_getenv *env, uint32_t *out, const flag_message *m) {
    const char *text = env("UVCC_GPU_ID"), *at = text;
    uint64_t v;
    if (text == NULL || *text == '\0')
        return 0;
    if (!read_digits(&at, &v) || *at != '\0' || v > DEVICE_MAX)
        return flag_fail(m,
                         "UVCC_GPU_ID=%.40s in the environment: give a whole number from 0 to %u, "
                         "or unset it",
                         text, DEVICE_MAX);
    *out = (uint32_t)v;
    return 0;
}

/* What stands behind the digits; 0: nothing that is known. */
static uint64_t unit_of(const char *text) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {
        {"", 1},
        {"B", 1},
        {"KiB", (uint64_t)1 << 10},
        {"MiB", (uint64_t)1 << 20},
        {"GiB", (uint64_t)1 << 30},
        {"TiB", (uint64_t)1 << 40},
        {"kB", 1000},
        {"MB", 1000 * 1000},
        {"GB", 1000 * 1000 * 1000},
        {"TB", (uint64_t)1000 * 1000 * 1000 * 1000},
    };
    for (unsigned i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text, units[i].name) == 0)
            return units[i].bytes;
    return 0;
}

/* Nothing is no size, and leaves *out. */
static bool read_size(const char *text, uint64_t *out) {
    uint64_t v = 0;
    if (text == NULL || *text == '\0')
        return true;
    const uint64_t unit = read_digits(&text, &v) ? unit_of(text) : 0;
    if (unit == 0 || v > UINT64_MAX / unit)
        return false;
    *out = v * unit;
    return true;
}

int compute_read_bytes(compute_getenv *env, uint64_t *out, const flag_message *m) {
    const char *text = env("UVCC_GPU_BYTES");
    uint64_t v = BYTES_LEAST;
    if (!read_size(text, &v) || v < BYTES_LEAST)
        return flag_fail(m,
                         "UVCC_GPU_BYTES=%.40s in the environment: give a size of at least 1MiB, "
                         "such as 40GiB or 40000MB, or unset it",
                         text);
    if (text != NULL && *text != '\0')
        *out = v;
    return 0;
}

int compute_read_keys(compute_getenv *env, uint64_t device_bytes, uint64_t *out,
                      const flag_message *m) {
    const char *text = env("UVCC_GPU_KEYS_BYTES");
    const uint64_t part = device_bytes / KEYS_PART;
    uint64_t v = device_bytes != 0 && part < KEYS_USUAL ? part : KEYS_USUAL;
    if (!read_size(text, &v))
        return flag_fail(
            m,
            "UVCC_GPU_KEYS_BYTES=%.40s in the environment: give a size, such as 256MiB "
            "or 0, or unset it",
            text);
    if (device_bytes != 0 && v > device_bytes)
        return flag_fail(
            m,
            "UVCC_GPU_KEYS_BYTES=%.40s in the environment is more than UVCC_GPU_BYTES, "
            "%llu, of which it is a part: give less, or unset it",
            text, (unsigned long long)device_bytes);
    *out = v;
    return 0;
}
