/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_csv.c - the reader of tables and what is made of them. The first byte's low bits are the
 * length of --label, then the label, then the file. What is read holds its promises, and written
 * down again it reads the same; what is refused is told. */
#define _GNU_SOURCE /* memfd_create */
#include "common.h"

#include <math.h>
#include <sys/mman.h>
#include <unistd.h>

#include "csv.h"
#include "dataset.h"

enum { FRAC_BITS = 16, RANGE_BITS = 8 };

static int read_bytes(const uint8_t *data, size_t len, const char *label, csv_table *t,
                      char *message, size_t cap) {
    char path[64];
    int fd = memfd_create("csv", 0);
    FUZZ_CHECK(fd >= 0);
    for (size_t at = 0; at < len;) {
        ssize_t n = write(fd, data + at, len - at);
        FUZZ_CHECK(n > 0);
        at += (size_t)n;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = csv_read(t, path, label, message, cap);
    FUZZ_CHECK(rc == 0 || strncmp(message, path, strlen(path)) == 0);
    (void)close(fd);
    return rc;
}

/* It may show what stands in the file; who prints it escapes it (escape.h). */
static void check_line(const char *message, size_t cap) {
    size_t n = strnlen(message, cap);
    FUZZ_CHECK(n > 0 && n < cap);
}

static void check_again(const csv_table *t) {
    size_t room = 64 + (size_t)t->rows * ((size_t)t->features + 1) * 32, len = 0;
    char *text = malloc(room), label[16], message[256];
    csv_table again = {0};
    FUZZ_CHECK(text != NULL);
    for (uint32_t r = 0; r < t->rows; r++) {
        const double *v = t->value + (size_t)r * t->features;
        for (uint32_t c = 0; c <= t->features; c++) {
            if (c == t->label_column)
                len += (size_t)snprintf(text + len, room - len, "%u", t->label[r]);
            else
                len += (size_t)snprintf(text + len, room - len, "%.17g", *v++);
            text[len++] = c == t->features ? '\n' : ',';
            FUZZ_CHECK(len < room);
        }
    }
    (void)snprintf(label, sizeof label, "%u", t->label_column + 1);
    FUZZ_CHECK(read_bytes((uint8_t *)text, len, label, &again, message, sizeof message) == 0);
    FUZZ_CHECK(again.rows == t->rows && again.features == t->features);
    FUZZ_CHECK(memcmp(again.label, t->label, t->rows * sizeof *t->label) == 0);
    for (size_t i = 0; i < (size_t)t->rows * t->features; i++)
        FUZZ_CHECK(again.value[i] == t->value[i]);
    csv_free(&again);
    free(text);
}

static void check_dataset(const csv_table *t) {
    dataset d;
    char message[256] = "";
    if (dataset_build(&d, t, "data", FRAC_BITS, RANGE_BITS, message, sizeof message) != 0) {
        check_line(message, sizeof message);
        return;
    }
    FUZZ_CHECK(d.train.rows + d.test.rows == t->rows && d.features == t->features);
    const dataset_part *parts[] = {&d.train, &d.test};
    for (int k = 0; k < 2; k++) {
        for (uint32_t r = 0; r < parts[k]->rows; r++)
            FUZZ_CHECK(parts[k]->label[r] < d.classes);
        for (size_t i = 0; i < (size_t)parts[k]->rows * d.features; i++)
            FUZZ_CHECK(llabs(parts[k]->x[i]) < (k == 0 ? 2LL : 1LL << RANGE_BITS) << FRAC_BITS);
    }
    dataset_free(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char label[16] = "", message[256] = "";
    csv_table t = {0};
    fuzz_in in = {data, size};
    size_t got, len = fuzz_u8(&in) & 15;
    const uint8_t *name = fuzz_take(&in, len, &got);
    if (got != 0)
        memcpy(label, name, got);
    int rc = read_bytes(in.at, in.left, len == 0 ? NULL : label, &t, message, sizeof message);
    if (rc != 0) {
        FUZZ_CHECK(rc == -1);
        check_line(message, sizeof message);
        return 0;
    }
    FUZZ_CHECK(t.rows >= 1 && t.features >= 1 && t.label_column <= t.features);
    for (uint32_t r = 0; r < t.rows; r++)
        FUZZ_CHECK(t.label[r] <= CSV_LABEL_MAX && csv_line(&t, r) >= 1);
    for (uint32_t c = 0; c < t.features; c++)
        FUZZ_CHECK(csv_column(&t, c) >= 1 && csv_column(&t, c) <= t.features + 1);
    for (size_t i = 0; i < (size_t)t.rows * t.features; i++)
        FUZZ_CHECK(isfinite(t.value[i]));
    check_again(&t);
    check_dataset(&t);
    csv_free(&t);
    return 0;
}
