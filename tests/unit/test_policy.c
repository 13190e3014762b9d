/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: their text, what they say of programs, and that a session refuses what its own does not
 * allow, by name, with nothing changed. */
#include "triangle.h"

#include "exec/session/record.h"
#include "proto/crypto.h"
#include <uvcc/policy.h>
#include <uvcc/record.h>

enum { ID_X = 1, ID_OUT = 7, RECEIVER = 2 };
static const char any[] = "uvcc policy v1\nprogram any\nopen * * to all\n";

static uint32_t sum(uvcc_program *p, const char *entry, uint32_t id, uint32_t x, uint32_t y) {
    const uvcc_op_desc op = {
        .opcode = UVCC_OP_ADD, .in_count = 2, .out_count = 1, .in = {x, x}, .out = {y}};
    const int e = uvcc_program_entry(p, entry);
    assert_true(e >= 0);
    assert_int_equal(uvcc_program_input(p, id, x, 0), 0);
    assert_int_equal(uvcc_program_op(p, &op), 0);
    return (uint32_t)e;
}

/* "run": X of party 0 twice, opened to RECEIVER. "show": of input 2, opened to all. */
static uvcc_program *program(const uvcc_allocator *al) {
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    const uint32_t x = test_tensor(p, "X", 1, 2, 20, 0, UVCC_TRANSIENT);
    const uint32_t y = test_tensor(p, "Y", 1, 2, 21, 0, UVCC_TRANSIENT);
    assert_int_equal(sum(p, "run", ID_X, x, y), 0);
    assert_int_equal(uvcc_program_output_to(p, ID_OUT, y, RECEIVER), 0);
    assert_int_equal(sum(p, "show", ID_X + 1, x, y), 1);
    assert_int_equal(uvcc_program_output(p, ID_OUT, y), 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

/* ---- the text ---- */

static void wrong(const char *text, const char *part) {
    char why[160];
    assert_int_equal(uvcc_policy_check(text, strlen(text), why, sizeof why), UVCC_ERR_CONFIG);
    if (strstr(why, part) == NULL)
        fail_msg("'%s', not '%s'", why, part);
}

static void texts(void **state) {
    (void)state;
    static const char text[] =
        "uvcc policy v1\n"
        "# a comment of more words than any rule has: they say nothing \xe2\x82\xac\n"
        "\n"
        "program 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
        "  open   run 7 to 2 \n"
        "open * 100-200 to all\n"
        "steps train 12\n"
        "steps * 18446744073709551615\n"
        "input train * 0\n"
        "checkpoints no\n";
    uvcc_policy_rule r;
    size_t at = 0;
    uint8_t hash[32], want[32];
    const size_t n = sizeof text - 1;
    assert_int_equal(uvcc_policy_check(text, n, NULL, 0), 0);
    assert_int_equal(uvcc_policy_next(text, n, &at, &r), 1);
    assert_true(r.kind == UVCC_POLICY_PROGRAM && !r.any && r.line == 4);
    assert_true(r.program[0] == 0x00 && r.program[1] == 0x11 && r.program[31] == 0xff);
    assert_int_equal(uvcc_policy_next(text, n, &at, &r), 1);
    assert_true(r.kind == UVCC_POLICY_OPEN && !r.any && r.line == 5 && r.first == 7 &&
                r.last == 7 && r.receiver == 2 && strcmp(r.entry, "run") == 0);
    assert_int_equal(uvcc_policy_next(text, n, &at, &r), 1);
    assert_true(r.any && r.first == 100 && r.last == 200 && r.receiver == UVCC_TO_ALL);
    assert_int_equal(uvcc_policy_next(text, n, &at, &r), 1);
    assert_true(r.kind == UVCC_POLICY_STEPS && r.limit == 12 && strcmp(r.entry, "train") == 0);
    assert_int_equal(uvcc_policy_next(text, n, &at, &r), 1);
    assert_true(r.any && r.limit == UINT64_MAX);
    assert_int_equal(uvcc_policy_next(text, n, &at, &r), 1);
    assert_true(r.kind == UVCC_POLICY_INPUT && r.first == 0 && r.last == UINT32_MAX &&
                r.limit == 0);
    assert_int_equal(uvcc_policy_next(text, n, &at, &r), 1);
    assert_int_equal(r.kind, UVCC_POLICY_CHECKPOINTS);
    assert_int_equal(uvcc_policy_next(text, n, &at, &r), 0);
    uvcc_policy_hash(text, n, hash);
    uvcci_sha256_once((const uint8_t *)text, n, want);
    assert_memory_equal(hash, want, 32);
}

static void wrong_texts(void **state) {
    (void)state;
    char why[8] = "", longest[UVCC_POLICY_BYTES_MAX + 2];
#define HEAD "uvcc policy v1\nprogram any\n"
    wrong("", "line 1");
    wrong("uvcc policy v2\nprogram any\n", "line 1");
    wrong("uvcc policy v1", "line 1");
    wrong("uvcc policy v1\n", "which program may run");
    wrong(HEAD "open * * to all", "line 3"); /* no end of line */
    wrong(HEAD "open * * to 3\n", "line 3");
    wrong(HEAD "\nopen * 4-3 to all\n", "line 4");
    wrong(HEAD "open * 4294967296 to all\n", "line 3");
    wrong(HEAD "open * 01 to all\n", "line 3");
    wrong(HEAD "open * 1- to all\n", "line 3");
    wrong(HEAD "open * * for all\n", "line 3");
    wrong(HEAD "open * * to all all\n", "line 3");
    wrong(HEAD "steps 3\n", "line 3");
    wrong(HEAD "steps * -1\n", "line 3");
    wrong(HEAD "steps * 18446744073709551616\n", "line 3");
    wrong(HEAD "input * 3\n", "line 3");
    wrong(HEAD "checkpoints yes\n", "line 3");
    wrong(HEAD "steps\t* 3\n", "line 3");
    wrong(HEAD "program AA\n", "line 3");
    wrong(HEAD "steps "
               "0123456789012345678901234567890123456789012345678901234567890123 1\n",
          "line 3");
    memset(longest, '\n', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest, HEAD, sizeof HEAD - 1);
    wrong(longest, "4097 bytes");
    longest[UVCC_POLICY_BYTES_MAX] = '\0';
    assert_int_equal(uvcc_policy_check(longest, strlen(longest), NULL, 0), 0);
    for (unsigned i = 0; i <= UVCC_POLICY_LIMITS_MAX; i++)
        memcpy(longest + sizeof HEAD - 1 + 10 * i, "steps * 1\n", 10);
    wrong(longest, "more than 32");
    assert_int_equal(uvcc_policy_check(NULL, 0, why, sizeof why), UVCC_ERR_USAGE);
}

/* A program's hash is 64 digits, the letters small ones: any other byte is refused wherever it is,
 * and another number of digits. */
static void hashes(void **state) {
    (void)state;
    static const char digits[] = "0123456789abcdef";
    for (unsigned byte = 1; byte < 256; byte++)
        for (unsigned at = 0; at < 64; at++) {
            char text[128];
            uvcc_policy_rule r;
            size_t next = 0;
            const int n = snprintf(text, sizeof text, "uvcc policy v1\nprogram %s%s%s%s\n", digits,
                                   digits, digits, digits);
            text[n - 65 + (int)at] = (char)byte;
            const char *digit = strchr(digits, (char)byte);
            assert_int_equal(uvcc_policy_check(text, (size_t)n, NULL, 0),
                             digit != NULL ? 0 : UVCC_ERR_CONFIG);
            if (digit == NULL)
                continue;
            assert_int_equal(uvcc_policy_next(text, (size_t)n, &next, &r), 1);
            assert_int_equal(r.program[at / 2] >> (at % 2 == 0 ? 4 : 0) & 15, digit - digits);
        }
    wrong("uvcc policy v1\nprogram "
          "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n",
          "line 2");
    wrong("uvcc policy v1\nprogram "
          "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0\n",
          "line 2");
}

/* ---- programs ---- */

static void judge(const uvcc_program *p, const char *rules, const char *part) {
    char text[512], why[256];
    const int n = snprintf(text, sizeof text, "uvcc policy v1\n%s", rules);
    const int rc = uvcc_policy_program(text, (size_t)n, p, why, sizeof why);
    if (rc != (part != NULL ? UVCC_ERR_REFUSED : 0) || (part != NULL && strstr(why, part) == NULL))
        fail_msg("%s: %d, '%s'", rules, rc, why);
}

static void of_programs(void **state) {
    (void)state;
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = program(&al);
    uint8_t hash[32];
    char rules[160];
    judge(p, "program any\n", "output 7 of entry run (Y) to open to party 2");
    judge(p, "program any\nopen * * to all\n", NULL);
    judge(p, "program any\nopen run * to 2\n", "output 7 of entry show (Y) to open to all");
    judge(p, "program any\nopen run 7 to 2\nopen show 7 to all\n", NULL);
    judge(p, "program any\nopen run 7 to 1\nopen show 7 to all\n", "entry run");
    judge(p, "program any\nopen run 7 to 2\nopen show 8-9 to all\n", "entry show");
    judge(p, "program any\nopen run 7 to 2\nopen show 0-6 to all\n", "entry show");
    judge(p, "program any\nopen run 7 to 2\nopen show 7 to 0\nopen show 7 to 1\nopen show 7 to 2\n",
          "entry show"); /* to all is said, or not */
    judge(p, "program any\nopen run 7 to 2\nsteps show 0\n", NULL);
    judge(p, "program any\nopen run 7 to 2\nsteps show 1\n", "entry show");
    judge(p,
          "program 00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"
          "open * * to all\n",
          "this program");
    uvcc_program_hash(p, hash);
    int n = snprintf(rules, sizeof rules, "program ");
    for (unsigned i = 0; i < 32; i++)
        n += snprintf(rules + n, sizeof rules - (size_t)n, "%02x", hash[i]);
    (void)snprintf(rules + n, sizeof rules - (size_t)n, "\nopen * * to all\n");
    judge(p, rules, NULL);
    uvcc_program_free(p);
}

/* ---- sessions ---- */

static const char *policy;
static const uint64_t *used;
static uint32_t used_count;

static void with_policy(uvcc_config *c) {
    c->consent.policy = policy;
    c->consent.policy_len = strlen(policy);
    c->consent.used = used;
    c->consent.used_count = used_count;
}

static void config_is_checked(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t seed = 1;
    uvcc_session *s;
    const uvcc_config good = triangle_config_alone(&mem, &seed);
    static const uint64_t counts[2] = {0, 0};
    for (unsigned i = 0; i < 7; i++) {
        uvcc_config c = good;
        policy = i == 0 ? "uvcc policy v1\n" : any;
        used = NULL;
        used_count = 0;
        with_policy(&c);
        if (i == 1)
            memset(c.identity.policy_hash, 3, 32);
        else if (i == 2)
            c.consent.used_count = 1;
        else if (i == 3) {
            c.consent.used = counts;
            c.consent.used_count = 2; /* of no limits */
        } else if (i == 4)
            c.consent.policy = NULL;
        else if (i == 5)
            uvcc_policy_hash(any, sizeof any - 1, c.identity.policy_hash);
        assert_int_equal(uvcc_session_new(&s, &c), i < 5 ? UVCC_ERR_CONFIG : 0);
        if (i >= 5)
            uvcc_session_free(s);
    }
    assert_int_equal(mem.live_blocks, 0);
}

typedef struct log_of {
    uint8_t bytes[8192];
    size_t len;
} log_of;

static void keep(void *user, const uint8_t *p, size_t len) {
    log_of *log = user;
    assert_true(len <= sizeof log->bytes - log->len);
    memcpy(log->bytes + log->len, p, len);
    log->len += len;
}

/* A log has the hash of the policy in force and no policy: of the text, or the one that is set. Of
 * a text that is too long nothing is read. */
static void logs_have_its_hash(void **state) {
    (void)state;
    static char longest[UVCC_POLICY_BYTES_MAX + 2];
    memset(longest, '\n', sizeof longest - 1);
    memcpy(longest, any, sizeof any - 1);
    for (unsigned i = 0; i < 5; i++) {
        test_alloc mem = {0};
        uint64_t seed = 1;
        static log_of log;
        uint8_t want[32] = {0};
        uvcc_session *s;
        uvcc_record_reader rd;
        uvcc_record rec;
        uvcc_config c = triangle_config_alone(&mem, &seed), logged;
        policy = i == 1 ? any : longest;
        longest[UVCC_POLICY_BYTES_MAX] = i == 2 ? '\0' : '\n';
        if (i != 0 && i != 4)
            with_policy(&c);
        log.len = 0;
        c.record = (uvcc_recorder){.write = keep, .user = &log};
        if (i == 1 || i == 2)
            uvcc_policy_hash(policy, strlen(policy), want);
        if (i == 4)
            memset(want, 3, 32);
        if (i == 4)
            memcpy(c.identity.policy_hash, want, 32);
        assert_int_equal(uvcc_session_new(&s, &c), i == 3 ? UVCC_ERR_CONFIG : 0);
        uvcc_record_reader_init(&rd, log.bytes, log.len);
        assert_int_equal(uvcc_record_next(&rd, &rec), 1);
        assert_int_equal(uvcci_record_config_get(&logged, rec.data[1].data, rec.data[1].len), 0);
        assert_memory_equal(logged.identity.policy_hash, want, 32);
        if (i != 3)
            uvcc_session_free(s);
        assert_int_equal(mem.live_blocks, 0);
    }
}

/* A refused load leaves the session as it was: another program loads. */
static void refused_program(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t seed = 1;
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = program(&al), *other;
    uvcc_session *s;
    assert_int_equal(uvcc_program_new(&other, &al), 0);
    const uint32_t x = test_tensor(other, "X", 1, 2, 20, 0, UVCC_TRANSIENT);
    const uint32_t y = test_tensor(other, "Y", 1, 2, 21, 0, UVCC_TRANSIENT);
    (void)sum(other, "run", ID_X, x, y);
    assert_int_equal(uvcc_program_finish(other, NULL, 0), 0);
    for (unsigned i = 0; i < 2; i++) {
        uvcc_config c = triangle_config_alone(&mem, &seed);
        policy = "uvcc policy v1\nprogram any\ncheckpoints no\nopen run * to all\n";
        with_policy(&c);
        c.resume.checkpoint_every = i;
        assert_int_equal(uvcc_session_new(&s, &c), 0);
        assert_int_equal(uvcc_session_load_program(s, p), UVCC_ERR_REFUSED);
        assert_non_null(strstr(uvcc_session_error_detail(s), i == 0 ? "entry show" : "checkpoint"));
        assert_int_equal(uvcc_session_load_program(s, other), i == 0 ? 0 : UVCC_ERR_REFUSED);
        uvcc_session_free(s);
    }
    uvcc_program_free(p);
    uvcc_program_free(other);
    assert_int_equal(mem.live_blocks, 0);
}

static void run_step(triangle *t, uint32_t step, uint32_t entry) {
    static const int64_t x[2] = {1, 2};
    triangle_agree(t, step, entry);
    triangle_input(t, 0, step, ID_X + entry, x);
    triangle_finish(t, step + 1);
}

static void limits_hold(void **state) {
    (void)state;
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = program(&al);
    static const int64_t x[2] = {1, 2};
    static const uint64_t before[4] = {0, 5, 0, 0};
    uint64_t now_used[4];
    uint8_t hash[32];
    triangle t;
    policy = "uvcc policy v1\nprogram any\nopen * * to all\n"
             "steps * 4\nsteps run 7\ninput run 1 9\ninput show * 1\n";
    used = before;
    used_count = 4;
    triangle_open(&t, p, &(triangle_options){.seed = 2, .tweak = with_policy});
    triangle_ready(&t);
    run_step(&t, 0, 0);
    run_step(&t, 1, 0);
    for (unsigned i = 0; i < 3; i++) { /* 5 and 2 of 7 are used */
        assert_int_equal(uvcc_session_step(t.s[i], 2, 0, triangle_now(&t)), UVCC_ERR_REFUSED);
        assert_non_null(strstr(uvcc_session_error_detail(t.s[i]), "line 5"));
        assert_non_null(strstr(uvcc_session_error_detail(t.s[i]), "entry run"));
    }
    run_step(&t, 2, 1); /* nothing has changed */
    triangle_agree(&t, 3, 1);
    assert_int_equal(uvcc_session_input(t.s[0], 3, 2, x, triangle_now(&t)), UVCC_ERR_REFUSED);
    assert_non_null(strstr(uvcc_session_error_detail(t.s[0]), "input 2 of entry show"));
    assert_int_equal(uvcc_session_step(t.s[1], 4, 1, triangle_now(&t)), UVCC_ERR_REFUSED);
    assert_int_equal(uvcc_session_policy_used(t.s[0], now_used, 4), 4);
    assert_int_equal(now_used[0], 4);
    assert_int_equal(now_used[1], 7);
    assert_int_equal(now_used[2], 2);
    assert_int_equal(now_used[3], 1);
    assert_int_equal(uvcc_session_policy_used(t.s[1], now_used, 3), 4);
    assert_int_equal(now_used[2], 0); /* that party gave none */
    uvcc_policy_hash(policy, strlen(policy), hash);
    uvcc_bundle b;
    const uint8_t *data;
    size_t len;
    assert_int_equal(uvcc_session_bundle(t.s[0], 2, &data, &len), 0);
    assert_int_equal(uvcc_bundle_decode(&b, data, len, NULL), 0);
    assert_memory_equal(b.policy_hash, hash, 32);
    triangle_free(&t);
    uvcc_program_free(p);
    used = NULL;
    used_count = 0;
}

/* Peers cannot make this party run what its host does not ask it for: one whose policy forbids the
 * step never begins it, and the other two wait. */
static void only_at_one(uvcc_config *c) {
    uvcc_policy_hash(policy, strlen(policy), c->identity.policy_hash); /* the others only say so */
    if (c->identity.party == 1) {
        c->consent.policy = policy;
        c->consent.policy_len = strlen(policy);
    }
}

static void peers_do_not_overrule(void **state) {
    (void)state;
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = program(&al);
    static const int64_t x[2] = {1, 2};
    triangle t;
    policy = "uvcc policy v1\nprogram any\nopen * * to all\nsteps show 0\n";
    triangle_open(
        &t, p,
        &(triangle_options){.seed = 2, .tweak = only_at_one, .audit_off = true, .wired = true});
    triangle_ready(&t);
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(uvcc_session_step(t.s[i], 0, 1, triangle_now(&t)),
                         i == 1 ? UVCC_ERR_REFUSED : 0);
    assert_int_equal(uvcc_session_input(t.s[0], 0, 2, x, triangle_now(&t)), 0);
    triangle_settle(&t);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(t.started[i], 0);
        assert_null(uvcc_session_output(t.s[i], 0, ID_OUT));
    }
    triangle_free(&t);
    uvcc_program_free(p);
}

/* One text for all three: who has another one, or none, is told so before anything runs, with
 * AUDITs or without, and whether or not anybody has keys to verify what is signed. */
static void another_text(uvcc_config *c) {
    with_policy(c);
    if (c->identity.party == 1)
        c->consent.policy_len -= sizeof "steps * 4\n" - 1;
    memset(c->identity.peer_sign_key, 0, sizeof c->identity.peer_sign_key);
}

static void no_text(uvcc_config *c) {
    if (c->identity.party != 1)
        with_policy(c);
}

static void texts_are_compared(void **state) {
    (void)state;
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = program(&al);
    void (*const tweaks[])(uvcc_config *) = {another_text, no_text};
    for (unsigned i = 0; i < 4; i++) {
        triangle t;
        policy = "uvcc policy v1\nprogram any\nopen * * to all\nsteps * 4\n";
        triangle_open(
            &t, p,
            &(triangle_options){.seed = 2 + i, .tweak = tweaks[i / 2], .audit_off = i % 2 == 1});
        for (unsigned n = 0; n < 2000 && triangle_turn(&t); n++)
            ;
        for (unsigned a = 0; a < 3; a++) {
            assert_int_equal(t.ready[a], 0);
            assert_int_equal(t.aborted[a], 0); /* anybody may have sent that HELLO */
            assert_int_equal(uvcc_session_step(t.s[a], 0, 0, triangle_now(&t)), UVCC_ERR_STATE);
            for (unsigned b = 0; b < 3; b++)
                if (a != b && (a == 1 || b == 1))
                    assert_string_equal(t.mismatch[a][b], "policy");
                else
                    assert_null(t.mismatch[a][b]);
        }
        triangle_free(&t);
    }
    uvcc_program_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(wrong_texts),
        cmocka_unit_test(hashes),
        cmocka_unit_test(of_programs),
        cmocka_unit_test(config_is_checked),
        cmocka_unit_test(logs_have_its_hash),
        cmocka_unit_test(refused_program),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(peers_do_not_overrule),
        cmocka_unit_test(texts_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
