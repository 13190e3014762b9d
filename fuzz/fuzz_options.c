/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_options.c - the options of `uvcc train`: the input is its words, one per line. What is taken
 * is in range; what is refused is told in one line that fits. */
#include "common.h"

#include "options.h"
#include <uvcc/compute.h>

enum { WORDS_MAX = 64 };

static void check_taken(const train_options *o) {
    FUZZ_CHECK(o->data != NULL && o->data[0] != '\0');
    FUZZ_CHECK(o->net.hidden.count >= 1 && o->net.hidden.count < UVCC_MLP_MAX_LAYERS);
    for (uint32_t i = 0; i < o->net.hidden.count; i++)
        FUZZ_CHECK(o->net.hidden.v[i] >= 1 && o->net.hidden.v[i] <= 4096);
    FUZZ_CHECK(o->net.epochs >= 1 && o->net.epochs <= 10000);
    FUZZ_CHECK(o->net.batch >= 1 && o->net.batch <= 1u << 20 &&
               (o->net.batch & (o->net.batch - 1)) == 0);
    FUZZ_CHECK(o->net.lr_shift <= 20 && o->net.frac_bits >= 4 && o->net.frac_bits <= 24);
    FUZZ_CHECK(o->net.truncation <= UVCC_TRUNC_EXACT_DCF && o->run.compute <= UVCC_CPU_THREADS);
    const double rates[] = {o->run.faults.drop, o->run.faults.duplicate, o->run.faults.reorder,
                            o->run.faults.corrupt};
    for (int i = 0; i < 4; i++)
        FUZZ_CHECK(rates[i] >= 0 && rates[i] < 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *argv[WORDS_MAX + 1] = {0}, message[200];
    int argc = 0;
    train_options o;
    char *text = malloc(size + 1);
    if (text == NULL)
        abort();
    if (size != 0)
        memcpy(text, data, size);
    text[size] = '\0';
    for (char *at = text; at < text + size && argc < WORDS_MAX;) {
        char *end = memchr(at, '\n', (size_t)(text + size - at));
        if (end != NULL)
            *end = '\0';
        argv[argc++] = at;
        at = end != NULL ? end + 1 : text + size;
    }
    memset(message, 0, sizeof message);
    memset(&o, 0xA5, sizeof o);
    int rc = options_parse(&o, argc, argv, message, sizeof message);
    if (rc == 0 && !o.run.help)
        check_taken(&o);
    if (rc != 0) {
        size_t len = strnlen(message, sizeof message);
        FUZZ_CHECK(rc == -1 && len > 0 && len < sizeof message);
        FUZZ_CHECK(memchr(message, '\n', len) == NULL);
    }
    free(text);
    return 0;
}
