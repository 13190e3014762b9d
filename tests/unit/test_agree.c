/* SPDX-License-Identifier: Apache-2.0 */
/* test_agree.c - parts of a job that hosts want alike (uvcc_config_agree): the first that differs
 * is named, and no job begins; names are for people, and neither compared nor logged. */
#include "triangle.h"

#include "exec/runtime/core.h"
#include <string.h>
#include <uvcc/record.h>

static uvcc_program *program(const uvcc_allocator *al) {
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    const uint32_t x = test_tensor(p, "X", 1, 2, 20, 0, UVCC_TRANSIENT);
    const uint32_t y = test_tensor(p, "Y", 1, 2, 21, 0, UVCC_TRANSIENT);
    assert_true(uvcc_program_entry(p, "run") >= 0);
    assert_int_equal(uvcc_program_input(p, 1, x, 0), 0);
    const uvcc_op_desc op = {
        .opcode = UVCC_OP_ADD, .in_count = 2, .out_count = 1, .in = {x, x}, .out = {y}};
    assert_int_equal(uvcc_program_op(p, &op), 0);
    assert_int_equal(uvcc_program_output(p, 7, y), 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

/* What the parties are configured with, by party. */
static uvcc_config_agree say[3];

static struct {
    uint8_t bytes[1 << 20];
    size_t len;
    char line[256]; /* the last that was logged */
} seen;

static void record(void *user, const uint8_t *bytes, size_t len) {
    (void)user;
    assert_true(len <= sizeof seen.bytes - seen.len);
    memcpy(seen.bytes + seen.len, bytes, len);
    seen.len += len;
}

static void log_line(void *user, uvcc_log_level level, const char *line) {
    (void)user;
    if (level <= UVCC_LOG_WARN)
        (void)snprintf(seen.line, sizeof seen.line, "%s", line);
}

static void with_parts(uvcc_config *c) {
    c->agree = say[c->identity.party];
    if (c->identity.party == 0) {
        c->record.write = record;
        c->log.write = log_line;
    }
}

/* Three parties with the parts of say[], driven until READY or until nothing is to be said. */
static void begin(triangle *t, const uvcc_program *p, bool datagram) {
    memset(&seen, 0, sizeof seen);
    triangle_open(t, p, &(triangle_options){.seed = 3, .tweak = with_parts, .datagram = datagram});
    for (unsigned n = 0; n < 2000 && triangle_turn(t); n++)
        ;
}

/* All three say the same, in 0 to 16 parts, whatever they call it. */
static void alike(void **state) {
    (void)state;
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = program(&al);
    for (uint32_t count = 0; count <= UVCC_AGREE_MAX; count += 8) {
        memset(say, 0, sizeof say);
        for (unsigned q = 0; q < 3; q++) {
            say[q].count = count;
            for (uint32_t i = 0; i < count; i++) {
                say[q].part[i] = uvcc_agree_hash(&i, sizeof i);
                say[q].name[i] = q == 0 ? "rate" : q == 1 ? "" : NULL;
            }
        }
        triangle t;
        triangle_open(&t, p, &(triangle_options){.seed = 3, .tweak = with_parts});
        triangle_ready(&t);
        triangle_close(&t);
        triangle_free(&t);
    }
    uvcc_program_free(p);
}

/* Each part flipped at party 1: it and the others are told which, by their own names, and nobody is
 * READY. A part that one party alone has is told as well. */
static void each_is_named(void **state) {
    (void)state;
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = program(&al);
    for (uint32_t i = 0; i < UVCC_AGREE_MAX; i++) {
        char name[UVCC_AGREE_MAX][UVCC_AGREE_NAME_MAX + 1], want[64];
        memset(say, 0, sizeof say);
        for (unsigned q = 0; q < 3; q++) {
            say[q].count = q == 2 ? i : UVCC_AGREE_MAX; /* party 2 lacks it, and the later ones */
            for (uint32_t k = 0; k < say[q].count; k++) {
                memset(name[k], 'a' + (int)k, UVCC_AGREE_NAME_MAX);
                name[k][UVCC_AGREE_NAME_MAX] = '\0';
                say[q].name[k] = name[k];
                say[q].part[k] = k + 2;
            }
        }
        say[1].part[i] ^= 1ull << (4 * i); /* one bit, in any byte */
        triangle t;
        begin(&t, p, i % 2 == 1);
        memset(name, 'x', sizeof name); /* they were copied */
        for (unsigned a = 0; a < 3; a++) {
            assert_int_equal(t.ready[a], 0);
            assert_int_equal(t.aborted[a], 0);
            if (a == 2)
                (void)snprintf(want, sizeof want, "job: part %u", i);
            else
                (void)snprintf(want, sizeof want, "job: %.*s", UVCC_AGREE_NAME_MAX,
                               "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa");
            for (char *at = want; a != 2 && *at != '\0'; at++)
                if (*at == 'a' && at != want)
                    *at = (char)('a' + i);
            for (unsigned b = 0; b < 3; b++)
                if (a != b)
                    assert_string_equal(t.mismatch[a][b], want);
        }
        assert_non_null(strstr(seen.line, "differs from ours in job: "));
        assert_non_null(strchr(seen.line, 'a' + (int)i));
        triangle_free(&t);
    }
    uvcc_program_free(p);
}

static uint32_t told_id;

static void on_event(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e) {
    (void)user;
    (void)party;
    (void)s;
    if (e->kind == UVCC_EVENT_MISMATCH)
        told_id = e->id;
}

/* A job that differs is told as that, also where the program follows from it; a part that differs
 * is `id`. */
static void before_the_program(void **state) {
    (void)state;
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = program(&al);
    memset(say, 0, sizeof say);
    for (unsigned q = 0; q < 3; q++) {
        say[q].count = 5;
        say[q].part[4] = 1 + q;
    }
    triangle t;
    memset(&seen, 0, sizeof seen);
    triangle_make(&t, p, &(triangle_options){.seed = 3, .tweak = with_parts, .on_event = on_event});
    memset(t.s[1]->h_program, 7, 32);
    triangle_start(&t);
    for (unsigned n = 0; n < 2000 && triangle_turn(&t); n++)
        ;
    assert_string_equal(t.mismatch[0][1], "job: part 4");
    assert_string_equal(t.mismatch[1][0], "job: part 4");
    assert_int_equal(told_id, 4);
    triangle_free(&t);
    uvcc_program_free(p);
}

/* A log has the parts and not their names: its replay says the same. */
static void replays(void **state) {
    (void)state;
    uvcc_allocator al = uvcc_host_allocator();
    uvcc_program *p = program(&al);
    uvcc_cpu *cpu;
    uvcc_replay_result r;
    memset(say, 0, sizeof say);
    for (unsigned q = 0; q < 3; q++) {
        say[q].count = 2;
        say[q].name[1] = "a name that is not in the log";
        say[q].part[1] = 1 + q;
    }
    triangle t;
    begin(&t, p, false);
    assert_string_equal(t.mismatch[0][1], "job: a name that is not in the log");
    triangle_free(&t);
    const char *name = say[0].name[1];
    for (size_t i = 0; i + strlen(name) <= seen.len; i++)
        assert_memory_not_equal(seen.bytes + i, name, strlen(name));
    assert_int_equal(uvcc_cpu_new(&cpu, &(uvcc_cpu_config){.size = sizeof(uvcc_cpu_config),
                                                           .mode = UVCC_CPU_INLINE,
                                                           .alloc = al}),
                     0);
    const uvcc_replay_options opt = {
        .size = sizeof opt, .alloc = al, .executor = cpu, .until = UVCC_NEVER};
    if (uvcc_replay(seen.bytes, seen.len, p, &opt, &r) != 0)
        fail_msg("%s", r.what);
    seen.bytes[0] ^= 1;
    assert_int_equal(uvcc_replay(seen.bytes, seen.len, p, &opt, &r), UVCC_ERR_FRAME);
    uvcc_cpu_free(cpu);
    uvcc_program_free(p);
}

/* What cannot be is refused by name. */
static void config_is_checked(void **state) {
    (void)state;
    test_alloc mem = {0};
    uint64_t seed = 1;
    uvcc_session *s;
    static const char *const want[] = {NULL, "agree.count", "agree.part", "agree.name", NULL};
    for (unsigned i = 0; i < sizeof want / sizeof want[0]; i++) {
        uvcc_config c = triangle_config_alone(&mem, &seed);
        char name[UVCC_AGREE_NAME_MAX + 2];
        memset(name, 'n', sizeof name);
        name[i == 3 ? UVCC_AGREE_NAME_MAX + 1 : UVCC_AGREE_NAME_MAX] = '\0';
        c.log.write = log_line;
        c.agree.count = i == 1 ? UVCC_AGREE_MAX + 1 : 3;
        c.agree.name[2] = name;
        c.agree.name[3] = (const char *)(uintptr_t)1; /* not looked at */
        c.agree.part[i == 2 ? 3 : 2] = 1;
        memset(&seen, 0, sizeof seen);
        if (i == 4)
            c.size = offsetof(uvcc_config, agree); /* of a host that knows nothing of it */
        assert_int_equal(uvcc_session_new(&s, &c), want[i] == NULL ? 0 : UVCC_ERR_CONFIG);
        if (want[i] == NULL)
            uvcc_session_free(s);
        else
            assert_non_null(strstr(seen.line, want[i]));
    }
    assert_int_equal(mem.live_blocks, 0);
}

static void hashes(void **state) {
    (void)state;
    /* The first 8 bytes of SHA-256 over "UVCC_AGREE_V1" and "item 0": as make_hello.py has it. */
    json_t *root = LOAD_VECTORS("hello.json"), *c;
    size_t at;
    bool any = false;
    json_array_foreach(json_object_get(root, "cases"), at, c) {
        json_t *parts = json_object_get(c, "parts");
        for (size_t i = 0; i < json_array_size(parts); i++) {
            char item[16];
            const int n = snprintf(item, sizeof item, "item %zu", i);
            any = true;
            assert_true(uvcc_agree_hash(item, (size_t)n) ==
                        strtoull(json_string_value(json_array_get(parts, i)), NULL, 16));
        }
    }
    assert_true(any);
    json_decref(root);
    assert_true(uvcc_agree_hash("", 0) != 0 && uvcc_agree_hash("", 0) == uvcc_agree_hash(NULL, 0));
    assert_true(uvcc_agree_hash(NULL, 1) == 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alike),
        cmocka_unit_test(each_is_named),
        cmocka_unit_test(before_the_program),
        cmocka_unit_test(replays),
        cmocka_unit_test(config_is_checked),
        cmocka_unit_test(hashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
