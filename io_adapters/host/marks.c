/* SPDX-License-Identifier: Apache-2.0 */
/* marks.c - small files of a store that must not be lost: numbers, and what a policy counted. What
 * cannot be told is refused, never made up: what it says not to do again must not be done. */
#include "store_state.h"

#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 32, COUNTS_BYTES = 2048, HASH_BYTES = 32 };

#define COUNTS_HEAD "uvcc policy counts v1\n"

/* ---- numbers ---- */

static size_t numbers_text(const uint32_t *v, unsigned count, char out[NUMBER_BYTES]) {
    size_t n = 0;
    for (unsigned i = 0; i < count; i++)
        n += (size_t)snprintf(out + n, NUMBER_BYTES - n, "%u%c", v[i], i + 1 < count ? ' ' : '\n');
    return n;
}

/* They would be written just so. */
static bool parse_numbers(const uint8_t *bytes, size_t len, uint32_t *out, unsigned count) {
    char again[NUMBER_BYTES];
    size_t at = 0;
    for (unsigned k = 0; k < count; k++, at++) {
        uint64_t v = 0;
        for (; at < len && bytes[at] >= '0' && bytes[at] <= '9' && v <= UINT32_MAX; at++)
            v = 10 * v + (uint64_t)(bytes[at] - '0');
        if (v >= UINT32_MAX)
            return false;
        out[k] = (uint32_t)v;
    }
    return numbers_text(out, count, again) == len && memcmp(again, bytes, len) == 0;
}

int uvcci_numbers_read(uvcc_store *st, const char *name, const char *advice, bool *any,
                       uint32_t *out, unsigned count) {
    const uvcci_says to = uvcci_store_says(st);
    uint8_t text[NUMBER_BYTES];
    size_t len;
    *any = false;
    memset(out, 0, count * sizeof *out);
    if (!uvcci_file_there(&st->dir, name))
        return 0;
    const int rc = uvcci_file_read_some(&st->dir, name, false, text, sizeof text, &len, &to);
    if (rc != 0)
        return rc;
    if (!parse_numbers(text, len, out, count))
        return uvcci_say(&to, UVCC_ERR_AUTH,
                         "%s/%s: is not the number that stood there; it is damaged: %s", st->path,
                         name, advice);
    *any = true;
    return 0;
}

int uvcci_numbers_write(uvcc_store *st, const char *name, const uint32_t *v, unsigned count) {
    const uvcci_says to = uvcci_store_says(st);
    char text[NUMBER_BYTES];
    const size_t n = numbers_text(v, count, text);
    return uvcci_file_write(&st->dir, name, text, n, &to);
}

/* ---- counts of a policy ---- */

static void counts_name(const uvcci_worker *w, char out[UVCCI_NAME_BYTES]) {
    (void)snprintf(out, UVCCI_NAME_BYTES, "r%u-s%u-t%u" UVCCI_USED, w->replica, w->stage,
                   w->tp_rank);
}

/* "uvcc policy counts v1", the policy's hash, a line for each limit. */
static size_t counts_text(const uvcci_worker *w, const uint64_t *used, char out[COUNTS_BYTES]) {
    size_t n = (size_t)snprintf(out, COUNTS_BYTES, "%s", COUNTS_HEAD);
    for (unsigned i = 0; i < HASH_BYTES; i++)
        n += (size_t)snprintf(out + n, COUNTS_BYTES - n, "%02x", w->policy_hash[i]);
    n += (size_t)snprintf(out + n, COUNTS_BYTES - n, "\n");
    for (uint32_t i = 0; i < w->limits; i++)
        n += (size_t)snprintf(out + n, COUNTS_BYTES - n, "%llu\n", (unsigned long long)used[i]);
    return n;
}

static int counts_write(uvcc_store *st, uvcci_worker *w) {
    const uvcci_says to = uvcci_store_says(st);
    char name[UVCCI_NAME_BYTES], text[COUNTS_BYTES];
    counts_name(w, name);
    const size_t n = counts_text(w, w->used, text);
    return uvcci_file_write(&st->dir, name, text, n, &to);
}

static int read_limits(uvcc_store *st, uvcci_worker *w, const uvcc_config_consent *consent) {
    const uvcci_says to = uvcci_store_says(st);
    char message[256];
    uvcc_policy_rule rule;
    size_t at = 0;
    int rc = uvcc_policy_check(consent->policy, consent->policy_len, message, sizeof message);
    if (rc != 0)
        return uvcci_say(&to, UVCC_ERR_CONFIG, "consent.policy: %s", message);
    w->limits = 0;
    while ((rc = uvcc_policy_next(consent->policy, consent->policy_len, &at, &rule)) == 1)
        if ((rule.kind == UVCC_POLICY_STEPS || rule.kind == UVCC_POLICY_INPUT) &&
            w->limits < UVCC_POLICY_LIMITS_MAX)
            w->used[w->limits++] = 0;
    uvcc_policy_hash(consent->policy, consent->policy_len, w->policy_hash);
    return rc;
}

/* The numbers after the hash; true if the file would be written just so. */
static bool parse_counts(uvcci_worker *w, const char *text, size_t len) {
    uint64_t used[UVCC_POLICY_LIMITS_MAX] = {0};
    char again[COUNTS_BYTES];
    size_t at = sizeof COUNTS_HEAD - 1 + 2 * HASH_BYTES + 1;
    for (uint32_t i = 0; i < w->limits; i++) {
        for (; at < len && text[at] >= '0' && text[at] <= '9'; at++)
            used[i] = 10 * used[i] + (uint64_t)(text[at] - '0');
        at++;
    }
    if (counts_text(w, used, again) != len || memcmp(again, text, len) != 0)
        return false;
    memcpy(w->used, used, sizeof used);
    return true;
}

static bool other_policy(const uvcci_worker *w, const char *text, size_t len) {
    const size_t head = sizeof COUNTS_HEAD - 1;
    char mine[COUNTS_BYTES];
    (void)counts_text(w, w->used, mine);
    return len > head + 2 * HASH_BYTES && memcmp(text, COUNTS_HEAD, head) == 0 &&
           memcmp(text + head, mine + head, 2 * HASH_BYTES) != 0;
}

/* An empty file is an operator's word that nothing was counted before: no end of a process leaves
 * one. */
int uvcci_counts_read(uvcc_store *st, uvcci_worker *w, bool kept, const uvcc_config *cfg) {
    const uvcci_says to = uvcci_store_says(st);
    char name[UVCCI_NAME_BYTES], text[COUNTS_BYTES];
    size_t len;
    int rc = read_limits(st, w, &cfg->consent);
    if (rc != 0)
        return rc;
    counts_name(w, name);
    if (!uvcci_file_there(&st->dir, name) && kept)
        return uvcci_say(&to, UVCC_ERR_NOT_FOUND,
                         "%s/%s: is missing, but checkpoints are there: it says what the policy "
                         "counted; put it back from a copy, or make an empty one if there was no "
                         "policy before",
                         st->path, name);
    if (!uvcci_file_there(&st->dir, name))
        return counts_write(st, w);
    rc = uvcci_file_read_some(&st->dir, name, false, (uint8_t *)text, sizeof text, &len, &to);
    if (rc != 0)
        return rc;
    if (len == 0)
        return counts_write(st, w);
    if (other_policy(w, text, len))
        return uvcci_say(&to, UVCC_ERR_MISMATCH,
                         "%s/%s: has the counts of another policy; give that one, or take the "
                         "file away if all three parties agreed on a new one",
                         st->path, name);
    if (!parse_counts(w, text, len))
        return uvcci_say(&to, UVCC_ERR_AUTH,
                         "%s/%s: is damaged: it says what the policy counted; put it back from a "
                         "copy",
                         st->path, name);
    return 0;
}

int uvcci_counts_keep(uvcc_store *st, uvcci_worker *w) {
    uint64_t used[UVCC_POLICY_LIMITS_MAX];
    if (!w->has_policy)
        return 0;
    const int n = uvcc_session_policy_used(w->session, used, UVCC_POLICY_LIMITS_MAX);
    if (n < 0)
        return n;
    if (!w->uncounted && memcmp(used, w->used, w->limits * sizeof used[0]) == 0)
        return 0;
    memcpy(w->used, used, w->limits * sizeof used[0]);
    const int rc = counts_write(st, w);
    w->uncounted = rc != 0;
    return rc;
}
