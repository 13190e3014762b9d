/* SPDX-License-Identifier: Apache-2.0 */
/* errors.c - names and texts of the error codes, from errors.def; the library's version. */
#include <uvcc/types.h>

const char *uvcc_error_text(int error) {
    switch (error) {
    case UVCC_OK:
        return "success";
#define UVCC_ERROR(name, code, text)                                                               \
    case code:                                                                                     \
        return text;
#include <uvcc/errors.def>
#undef UVCC_ERROR
    default:
        return "unknown error";
    }
}

const char *uvcc_error_name(int error) {
    switch (error) {
    case UVCC_OK:
        return "OK";
#define UVCC_ERROR(name, code, text)                                                               \
    case code:                                                                                     \
        return #name;
#include <uvcc/errors.def>
#undef UVCC_ERROR
    default:
        return "UNKNOWN";
    }
}

const char *uvcc_version(void) {
    return UVCC_VERSION;
}
