/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_policy.c - policies as text: what is taken is read to its end, rule by rule, in range and in
 * the order of its lines; what is refused is told in one line that names a line, and gives no rule
 * that a check would not have refused. A text that is taken, written anew from its rules, gives the
 * same rules. */
#include "common.h"

#include <stdio.h>
#include <uvcc/policy.h>

enum { WRITTEN_MAX = 1 << 17 }; /* of UVCC_POLICY_BYTES_MAX bytes: a rule has at least 8 */

static void check_rule(const uvcc_policy_rule *r, uint32_t line_before) {
    FUZZ_CHECK(r->line > line_before);
    FUZZ_CHECK(r->kind >= UVCC_POLICY_PROGRAM && r->kind <= UVCC_POLICY_CHECKPOINTS);
    const bool named = r->kind >= UVCC_POLICY_OPEN && r->kind <= UVCC_POLICY_INPUT;
    const size_t len = strnlen(r->entry, sizeof r->entry);
    FUZZ_CHECK(len < sizeof r->entry && (len != 0) == named);
    if (named)
        FUZZ_CHECK(r->any == (strcmp(r->entry, "*") == 0));
    for (size_t i = 0; i < len; i++)
        FUZZ_CHECK(r->entry[i] > ' ' && r->entry[i] <= '~');
    FUZZ_CHECK(r->first <= r->last);
    if (r->kind == UVCC_POLICY_OPEN)
        FUZZ_CHECK(r->receiver < UVCC_PARTIES || r->receiver == UVCC_TO_ALL);
}

/* A rule as a line in its one form. */
static size_t write_rule(char *at, size_t cap, const uvcc_policy_rule *r) {
    char hash[65];
    for (unsigned i = 0; i < 32; i++)
        (void)snprintf(hash + 2 * i, 3, "%02x", r->program[i]);
    int n = 0;
    switch (r->kind) {
    case UVCC_POLICY_PROGRAM:
        n = snprintf(at, cap, "program %s\n", r->any ? "any" : hash);
        break;
    case UVCC_POLICY_OPEN:
        n = snprintf(at, cap, "open %s %u-%u to %.*s\n", r->entry, r->first, r->last,
                     r->receiver == UVCC_TO_ALL ? 3 : 1,
                     r->receiver == UVCC_TO_ALL ? "all" : &"012"[r->receiver]);
        break;
    case UVCC_POLICY_STEPS:
        n = snprintf(at, cap, "steps %s %llu\n", r->entry, (unsigned long long)r->limit);
        break;
    case UVCC_POLICY_INPUT:
        n = snprintf(at, cap, "input %s %u-%u %llu\n", r->entry, r->first, r->last,
                     (unsigned long long)r->limit);
        break;
    case UVCC_POLICY_CHECKPOINTS:
        n = snprintf(at, cap, "checkpoints no\n");
        break;
    }
    FUZZ_CHECK(n > 0 && (size_t)n < cap);
    return (size_t)n;
}

/* The rules of both texts are the same, but for the numbers of their lines. */
static void check_same(const char *text, size_t len, const char *again, size_t again_len) {
    uvcc_policy_rule a, b;
    size_t at = 0, at_again = 0;
    for (;;) {
        memset(&a, 0, sizeof a);
        memset(&b, 0, sizeof b);
        const int rc = uvcc_policy_next(text, len, &at, &a);
        FUZZ_CHECK(uvcc_policy_next(again, again_len, &at_again, &b) == rc);
        if (rc != 1)
            break;
        FUZZ_CHECK(a.kind == b.kind && a.any == b.any && memcmp(a.program, b.program, 32) == 0);
        FUZZ_CHECK(strcmp(a.entry, b.entry) == 0 && a.first == b.first && a.last == b.last);
        FUZZ_CHECK(a.receiver == b.receiver && a.limit == b.limit);
    }
}

/* Reads all rules; writes them anew, if `out` is there. Their number; -1: it is no policy. */
static int read_rules(const char *text, size_t len, unsigned *limits, char *out, size_t *out_len) {
    uvcc_policy_rule r;
    uint32_t line = 0;
    size_t at = 0, before = 0;
    int count = 0, rc;
    *limits = 0;
    while ((rc = uvcc_policy_next(text, len, &at, &r)) == 1) {
        FUZZ_CHECK(at > before && at <= len);
        before = at;
        check_rule(&r, line);
        line = r.line;
        *limits += r.kind == UVCC_POLICY_STEPS || r.kind == UVCC_POLICY_INPUT;
        *out_len += write_rule(out + *out_len, WRITTEN_MAX - *out_len, &r);
        count++;
    }
    return rc == 0 ? count : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char written[WRITTEN_MAX];
    static const char head[] = "uvcc policy v1\n";
    char why[160];
    unsigned limits = 0;
    char *text = (char *)fuzz_copy(data, size);
    memset(why, 'x', sizeof why);
    const int rc = uvcc_policy_check(text, size, why, sizeof why);
    size_t len = sizeof head - 1;
    memcpy(written, head, len);
    const int count =
        size <= UVCC_POLICY_BYTES_MAX ? read_rules(text, size, &limits, written, &len) : -1;
    if (rc == 0) {
        FUZZ_CHECK(size <= UVCC_POLICY_BYTES_MAX && count >= 1 && limits <= UVCC_POLICY_LIMITS_MAX);
        if (len <= UVCC_POLICY_BYTES_MAX)
            FUZZ_CHECK(uvcc_policy_check(written, len, NULL, 0) == 0);
        if (len <= UVCC_POLICY_BYTES_MAX)
            check_same(text, size, written, len);
    } else {
        const size_t told = strnlen(why, sizeof why);
        FUZZ_CHECK(rc == UVCC_ERR_CONFIG && told > 0 && told < sizeof why);
        for (size_t i = 0; i < told; i++)
            FUZZ_CHECK(why[i] >= ' ' && why[i] <= '~');
        FUZZ_CHECK(uvcc_policy_check(text, size, NULL, 0) == rc);
    }
    free(text);
    return 0;
}
