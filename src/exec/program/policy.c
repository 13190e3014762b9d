/* SPDX-License-Identifier: Apache-2.0 */
/* policy.c - policies as text: lines, rules, and whether a program keeps to them.
 *
 * A policy is read again wherever it is asked for something: it is short, and nothing has to be
 * kept beside the text whose hash is signed. What it does not allow is not allowed. */
#include "exec/base/message.h"
#include "exec/program/program.h"

#include "proto/crypto.h"
#include "proto/mutant.h"
#include <assert.h>
#include <string.h>
#include <uvcc/policy.h>

enum { WORDS_MAX = 6 };

typedef struct word {
    const char *at;
    size_t len;
} word;

typedef struct line {
    word word[WORDS_MAX];
    unsigned count;
} line;

static bool is(const word *w, const char *text) {
    return w->len == strlen(text) && memcmp(w->at, text, w->len) == 0;
}

/* Printable ASCII, words between spaces. False: other bytes, or too many words. */
static bool split(const char *at, size_t len, line *out) {
    out->count = 0;
    for (size_t i = 0; i < len; i++) {
        if (at[i] < ' ' || at[i] > '~')
            return false;
        if (at[i] == ' ')
            continue;
        if (i == 0 || at[i - 1] == ' ') {
            if (out->count == WORDS_MAX)
                return false;
            out->word[out->count++] = (word){at + i, 0};
        }
        out->word[out->count - 1].len++;
    }
    return true;
}

/* Decimal digits alone, without leading zeros, so that a number has one form. */
static bool number(const char *at, size_t len, uint64_t max, uint64_t *out) {
    uint64_t v = 0;
    if (len == 0 || (len > 1 && at[0] == '0'))
        return false;
    for (size_t i = 0; i < len; i++) {
        const unsigned digit = (unsigned)(at[i] - '0');
        if (digit > 9 || v > (max - digit) / 10)
            return false;
        v = 10 * v + digit;
    }
    *out = v;
    return true;
}

static bool hash_of(const word *w, uint8_t out[32]) {
    if (w->len != 64)
        return false;
    for (size_t i = 0; i < 64; i++) {
        const char c = w->at[i];
        const unsigned digit = c >= '0' && c <= '9'   ? (unsigned)(c - '0')
                               : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10)
                                                      : 16;
        if (digit == 16)
            return false;
        out[i / 2] = (uint8_t)(i % 2 == 0 ? digit << 4 : out[i / 2] | digit);
    }
    return true;
}

static bool entry_of(const word *w, uvcc_policy_rule *r) {
    r->any = is(w, "*");
    if (w->len >= sizeof r->entry)
        return false;
    memcpy(r->entry, w->at, w->len);
    return true;
}

/* Where a byte stands first; NULL: nowhere. */
static const char *find(const char *at, size_t len, char byte) {
    for (size_t i = 0; i < len; i++)
        if (at[i] == byte)
            return at + i;
    return NULL;
}

/* An id, two with a dash between, or a star. */
static bool ids_of(const word *w, uvcc_policy_rule *r) {
    const char *dash = find(w->at, w->len, '-');
    const size_t first_len = dash != NULL ? (size_t)(dash - w->at) : w->len;
    uint64_t first = 0, last = UINT32_MAX;
    if (!is(w, "*")) {
        if (!number(w->at, first_len, UINT32_MAX, &first))
            return false;
        last = first;
        if (dash != NULL && !number(dash + 1, w->len - first_len - 1, UINT32_MAX, &last))
            return false;
    }
    r->first = (uint32_t)first;
    r->last = (uint32_t)last;
    return first <= last;
}

static bool receiver_of(const word *w, uvcc_policy_rule *r) {
    uint64_t party;
    if (is(w, "all")) {
        r->receiver = UVCC_TO_ALL;
        return true;
    }
    r->receiver = number(w->at, w->len, UVCC_PARTIES - 1, &party) ? (uint8_t)party : UVCC_PARTIES;
    return r->receiver < UVCC_PARTIES;
}

static bool rule_of(const line *l, uvcc_policy_rule *r) {
    const word *w = l->word;
    if (is(&w[0], "program") && l->count == 2) {
        r->kind = UVCC_POLICY_PROGRAM;
        r->any = is(&w[1], "any");
        return r->any || hash_of(&w[1], r->program);
    }
    if (is(&w[0], "open") && l->count == 5 && is(&w[3], "to")) {
        r->kind = UVCC_POLICY_OPEN;
        return entry_of(&w[1], r) && ids_of(&w[2], r) && receiver_of(&w[4], r);
    }
    if (is(&w[0], "steps") && l->count == 3) {
        r->kind = UVCC_POLICY_STEPS;
        return entry_of(&w[1], r) && number(w[2].at, w[2].len, UINT64_MAX, &r->limit);
    }
    if (is(&w[0], "input") && l->count == 4) {
        r->kind = UVCC_POLICY_INPUT;
        return entry_of(&w[1], r) && ids_of(&w[2], r) &&
               number(w[3].at, w[3].len, UINT64_MAX, &r->limit);
    }
    r->kind = UVCC_POLICY_CHECKPOINTS;
    return is(&w[0], "checkpoints") && l->count == 2 && is(&w[1], "no");
}

/* The line from *at on, without its end; false if it has none, or there is no line. */
static bool next_line(const char *text, size_t len, size_t *at, word *out) {
    const char *end = *at < len ? find(text + *at, len - *at, '\n') : NULL;
    if (end == NULL)
        return false;
    *out = (word){text + *at, (size_t)(end - text) - *at};
    *at = (size_t)(end - text) + 1;
    return true;
}

static uint32_t lines_before(const char *text, size_t at) {
    uint32_t n = 0;
    for (size_t i = 0; i < at; i++)
        n += text[i] == '\n';
    return n;
}

int uvcc_policy_next(const char *text, size_t len, size_t *at, uvcc_policy_rule *rule) {
    word w;
    line l;
    if (text == NULL || at == NULL || rule == NULL)
        return UVCC_ERR_USAGE;
    memset(rule, 0, sizeof *rule);
    rule->line = 1;
    if (len > UVCC_POLICY_BYTES_MAX || *at > len)
        return UVCC_ERR_CONFIG;
    if (*at == 0 && (!next_line(text, len, at, &w) || !is(&w, "uvcc policy v1")))
        return UVCC_ERR_CONFIG;
    while (*at < len) {
        rule->line = 1 + lines_before(text, *at);
        if (!next_line(text, len, at, &w))
            return UVCC_ERR_CONFIG;
        if (w.len != 0 && w.at[0] == '#')
            continue;
        if (!split(w.at, w.len, &l))
            return UVCC_ERR_CONFIG;
        if (l.count == 0)
            continue;
        return rule_of(&l, rule) ? 1 : UVCC_ERR_CONFIG;
    }
    return 0;
}

int uvcc_policy_check(const char *text, size_t len, char *message, size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    uvcc_policy_rule r;
    size_t at = 0;
    unsigned programs = 0, limits = 0;
    int rc;
    if (text == NULL)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no policy");
    if (len > UVCC_POLICY_BYTES_MAX)
        return uvcci_fail(&m, UVCC_ERR_CONFIG, "the policy has %zu bytes; at most %u are possible",
                          len, UVCC_POLICY_BYTES_MAX);
    while ((rc = uvcc_policy_next(text, len, &at, &r)) == 1) {
        programs += r.kind == UVCC_POLICY_PROGRAM;
        limits += r.kind == UVCC_POLICY_STEPS || r.kind == UVCC_POLICY_INPUT;
        if (limits > UVCC_POLICY_LIMITS_MAX)
            return uvcci_fail(&m, UVCC_ERR_CONFIG, "line %u: more than %u lines with limits",
                              r.line, UVCC_POLICY_LIMITS_MAX);
    }
    if (rc != 0)
        return uvcci_fail(&m, rc, "line %u: this is no line of a policy", r.line);
    if (programs == 0)
        return uvcci_fail(&m, UVCC_ERR_CONFIG, "there is no line that says which program may run");
    return uvcci_fail(&m, 0, "%s", "");
}

void uvcc_policy_hash(const char *text, size_t len, uint8_t out[32]) {
    if (out != NULL && (text != NULL || len == 0))
        uvcci_sha256_once((const uint8_t *)text, len, out);
}

/* ---- programs ---- */

static bool of_entry(const uvcc_policy_rule *r, const uvcci_entry *e) {
    return r->any || strcmp(r->entry, e->name) == 0;
}

static bool may_run(const char *text, size_t len, const uvcc_program *p) {
    uvcc_policy_rule r;
    for (size_t at = 0; uvcc_policy_next(text, len, &at, &r) == 1;)
        if (r.kind == UVCC_POLICY_PROGRAM && (r.any || memcmp(r.program, p->hash, 32) == 0))
            return true;
    return false;
}

/* An entry of which no step may run opens nothing, whatever it says. */
static bool never_runs(const char *text, size_t len, const uvcci_entry *e) {
    uvcc_policy_rule r;
    for (size_t at = 0; uvcc_policy_next(text, len, &at, &r) == 1;)
        if (r.kind == UVCC_POLICY_STEPS && r.limit == 0 && of_entry(&r, e))
            return true;
    return false;
}

static bool may_open(const char *text, size_t len, const uvcci_entry *e, const uvcc_io_desc *io) {
    uvcc_policy_rule r;
    if (UVCCI_MUTANT(33))
        return true;
    for (size_t at = 0; uvcc_policy_next(text, len, &at, &r) == 1;)
        if (r.kind == UVCC_POLICY_OPEN && of_entry(&r, e) && io->id >= r.first &&
            io->id <= r.last && (r.receiver == UVCC_TO_ALL || r.receiver == io->receiver))
            return true;
    return false;
}

/* A session sends what its own program says and nothing else, whatever its peers send. So this is
 * where it is decided what it opens. */
int uvcc_policy_program(const char *text, size_t len, const uvcc_program *p, char *message,
                        size_t message_cap) {
    const uvcci_message m = {message, message_cap};
    if (p == NULL || !p->finished)
        return uvcci_fail(&m, UVCC_ERR_USAGE, "there is no finished program");
    int rc = uvcc_policy_check(text, len, message, message_cap);
    if (rc != 0)
        return rc;
    if (!may_run(text, len, p))
        return uvcci_fail(&m, UVCC_ERR_REFUSED, "the policy does not allow this program");
    for (uint32_t i = 0; i < p->entry_count; i++) {
        const uvcci_entry *e = &p->entries[i];
        if (never_runs(text, len, e))
            continue;
        for (uint32_t k = 0; k < e->output_count; k++) {
            const uvcc_io_desc *io = &e->outputs[k];
            char to[16] = "all parties";
            assert(io->tensor < p->tensor_count);
            if (io->receiver != UVCC_TO_ALL)
                memcpy(to,
                       (const char[]){'p', 'a', 'r', 't', 'y', ' ', (char)('0' + io->receiver), 0},
                       8);
            if (!may_open(text, len, e, io))
                return uvcci_fail(&m, UVCC_ERR_REFUSED,
                                  "the policy does not allow output %u of entry %s (%s) to open to "
                                  "%s",
                                  io->id, e->name, p->tensors[io->tensor].name, to);
        }
    }
    return 0;
}
