/* SPDX-License-Identifier: Apache-2.0 */
/* test_party_log.c - lines of a log (tools/party/log.h): what they are made of, how many there may
 * be, and what becomes of them where they cannot be written. */
#include "support.h"

#include "party/log.h"
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t now;
static char path[] = "/tmp/uvcc-log-XXXXXX";
static char *text; /* of the file */
static char message[256];
static const flag_message told = {message, sizeof message};

int flag_fail(const flag_message *m, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(m->text, m->cap, format, args);
    va_end(args);
    return -1;
}

static uint64_t at_now(void *user) {
    (void)user;
    return now;
}

static party_log *begin(bool json, uint32_t rate) {
    party_log *l;
    const log_config c = {
        .file = path, .level = UVCC_LOG_INFO, .json = json, .rate = rate, .party = 1};
    now = 1766000000123456789u;
    const int fd = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    if (log_open(&l, &c, at_now, NULL, &told) != 0)
        fail_msg("%s", message);
    return l;
}

/* The file's lines so far. */
static size_t read_back(void) {
    static char room[1 << 20];
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    const size_t n = fread(room, 1, sizeof room - 1, f);
    (void)fclose(f);
    room[n] = '\0';
    text = room;
    size_t lines = 0;
    for (size_t i = 0; i < n; i++)
        lines += room[i] == '\n';
    return lines;
}

/* Line `i` as an object. */
static json_t *object(size_t i) {
    char *at = text;
    while (i-- != 0)
        at = strchr(at, '\n') + 1;
    json_error_t e;
    json_t *o = json_loadb(at, strcspn(at, "\n"), JSON_REJECT_DUPLICATES, &e);
    if (o == NULL)
        fail_msg("%s: %.200s", e.text, at);
    return o;
}

static void has(const json_t *o, const char *name, const char *want) {
    const char *is = json_string_value(json_object_get(o, name));
    if (is == NULL || strcmp(is, want) != 0)
        fail_msg("%s is '%s', not '%s'", name, is != NULL ? is : "(none)", want);
}

static void number(const json_t *o, const char *name, json_int_t want) {
    const json_t *v = json_object_get(o, name);
    if (want < 0)
        assert_null(v);
    else if (!json_is_integer(v) || json_integer_value(v) != want)
        fail_msg("%s is not %lld", name, (long long)want);
}

static const log_place somewhere = {1, 0, 2, 0xabcdef0102030405, 3, 17, -1, -1, -1};

static void members(void **state) {
    (void)state;
    party_log *l = begin(true, 0);
    log_write(l, UVCC_LOG_INFO, "ready", NULL, "all %u are here", 3u);
    log_write(l, UVCC_LOG_WARN, "step", &somewhere, "slow");
    log_write(l, UVCC_LOG_DEBUG, "step", &somewhere, "not written");
    log_line(l, UVCC_LOG_ERROR, "session", &somewhere,
             "party 1: step 18 of run 4: op 12, message 9 of party 2 is bad; stop 5");
    log_write(NULL, UVCC_LOG_ERROR, "x", NULL, "nowhere");
    assert_int_equal(read_back(), 3);
    json_t *o = object(0);
    has(o, "time", "2025-12-17T19:33:20.123Z");
    has(o, "level", "info");
    has(o, "event", "ready");
    has(o, "text", "all 3 are here");
    number(o, "party", 1);
    number(o, "step", -1);
    assert_int_equal(json_object_size(o), 5);
    json_decref(o);
    o = object(1);
    has(o, "worker", "r1-s0-t2");
    has(o, "sid", "abcdef0102030405");
    number(o, "run", 3);
    number(o, "step", 17);
    number(o, "op", -1);
    json_decref(o);
    o = object(2);
    number(o, "run", 4);
    number(o, "step", 18);
    number(o, "op", 12);
    number(o, "message", 9);
    number(o, "peer", 2);
    json_decref(o);
    log_counts c;
    log_get_counts(l, &c);
    assert_int_equal(c.lines, 3);
    log_close(l);
}

static void for_people(void **state) {
    (void)state;
    party_log *l = begin(false, 0);
    log_write(l, UVCC_LOG_WARN, "step", &somewhere, "a \x1b[31m b \xc2\x9b caf\xc3\xa9");
    (void)read_back();
    assert_string_equal(text, "2025-12-17T19:33:20.123Z warn  party 1 r1-s0-t2 run=3 step=17 step: "
                              "a \\x1b[31m b \\x9b caf\xc3\xa9\n");
    log_close(l);
}

/* Any bytes, of any length, are one line that is JSON. */
static void any_bytes(void **state) {
    (void)state;
    uint64_t seed = 9;
    for (unsigned json = 0; json < 2; json++) {
        party_log *l = begin(json != 0, 0);
        for (unsigned i = 0; i < 300; i++) {
            char bytes[3000];
            const size_t len = test_rand(&seed) % sizeof bytes;
            test_rand_bytes(&seed, (uint8_t *)bytes, len);
            for (size_t k = 0; k < len && i % 3 == 0; k++)
                bytes[k] = (char)(i % 2 == 0 ? 1 + k % 31 : '"');
            bytes[len == 0 ? 0 : len - 1] = '\0';
            log_line(l, UVCC_LOG_INFO, i % 2 == 0 ? "x" : bytes, &somewhere, bytes);
        }
        assert_int_equal(read_back(), 300);
        for (size_t i = 0; i < 300 && json != 0; i++)
            json_decref(object(i));
        for (char *at = text; *at != '\0'; at++)
            assert_true(*at == '\n' || (unsigned char)*at >= ' ');
        log_close(l);
    }
}

/* Three lines of a kind in a second; the next one that is written says what was not. */
static void limited(void **state) {
    (void)state;
    party_log *l = begin(true, 3);
    for (unsigned i = 0; i < 10; i++) {
        log_line(l, UVCC_LOG_WARN, "net", NULL,
                 i % 2 == 0 ? "10.0.0.1:5 is gone" : "10.0.0.2:77 is gone");
        log_write(l, UVCC_LOG_INFO, "step", NULL, "%s", i % 2 == 0 ? "one" : "two");
    }
    log_line(l, UVCC_LOG_WARN, "net", NULL, "something else");
    assert_int_equal(read_back(), 7);
    now += 1000000000u;
    log_line(l, UVCC_LOG_WARN, "net", NULL, "10.0.0.3:1 is gone");
    log_line(l, UVCC_LOG_WARN, "net", NULL, "10.0.0.3:1 is gone");
    assert_int_equal(read_back(), 9);
    json_t *o = object(7);
    number(o, "dropped", 7);
    json_decref(o);
    o = object(8);
    number(o, "dropped", -1);
    json_decref(o);
    log_counts c;
    log_get_counts(l, &c);
    assert_int_equal(c.dropped, 14);
    log_close(l); /* says what nobody was told of */
    assert_int_equal(read_back(), 10);
    o = object(9);
    has(o, "event", "step");
    number(o, "dropped", 7);
    json_decref(o);
}

/* More kinds than are counted: what is forgotten is told first, and nothing is lost. */
static void many_kinds(void **state) {
    (void)state;
    party_log *l = begin(true, 1);
    for (unsigned turn = 0; turn < 2; turn++)
        log_line(l, UVCC_LOG_INFO, "a", NULL, "first");
    for (unsigned i = 0; i < 3 * LOG_KINDS; i++) {
        char line[300];
        memset(line, 'x', i + 1);
        line[i + 1] = '\0';
        now++;
        log_line(l, UVCC_LOG_INFO, "b", NULL, line);
    }
    assert_int_equal(read_back(), 1 + 3 * LOG_KINDS + 1);
    log_close(l);
}

/* No room on the disk: nothing ends, and it is said when there is room again. */
static void full_disk(void **state) {
    (void)state;
    struct rlimit was, small;
    party_log *l = begin(true, 0);
    log_write(l, UVCC_LOG_INFO, "a", NULL, "one");
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 120; /* the first line, and part of another one */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (unsigned i = 0; i < 3; i++)
        log_write(l, UVCC_LOG_INFO, "a", NULL, "not written");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    log_write(l, UVCC_LOG_INFO, "a", NULL, "two");
    log_write(l, UVCC_LOG_INFO, "a", NULL, "three");
    assert_int_equal(read_back(), 4); /* one, what is left of another, two, three */
    json_t *o = object(2);
    number(o, "lost", 3);
    has(o, "text", "two");
    json_decref(o);
    o = object(3);
    number(o, "lost", -1);
    json_decref(o);
    log_close(l);
}

static void configuration(void **state) {
    (void)state;
    log_config c;
    assert_int_equal(log_config_read(&c, NULL, &told), 0);
    assert_true(c.file == NULL && c.level == UVCC_LOG_INFO && !c.json && c.rate == 20);
    json_t *o = json_pack("{s:s,s:s,s:s,s:i}", "file", "a.log", "level", "debug", "format", "json",
                          "rate", 0);
    assert_int_equal(log_config_read(&c, o, &told), 0);
    assert_true(strcmp(c.file, "a.log") == 0 && c.level == UVCC_LOG_DEBUG && c.json && c.rate == 0);
    json_decref(o);
    static const char *const bad[][2] = {
        {"[]", "log: give an object"},          {"{\"fiel\":\"x\"}", "log.fiel: there is no such"},
        {"{\"level\":\"loud\"}", "log.level"},  {"{\"level\":3}", "log.level"},
        {"{\"format\":\"xml\"}", "log.format"}, {"{\"file\":\"\"}", "log.file"},
        {"{\"file\":3}", "log.file"},           {"{\"rate\":-1}", "log.rate"},
        {"{\"rate\":1000001}", "log.rate"},     {"{\"rate\":\"1\"}", "log.rate"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        o = json_loads(bad[i][0], 0, NULL);
        assert_non_null(o);
        assert_int_equal(log_config_read(&c, o, &told), -1);
        if (strncmp(message, bad[i][1], strlen(bad[i][1])) != 0)
            fail_msg("%s: %s", bad[i][0], message);
        json_decref(o);
    }
    party_log *l;
    c.file = "/nowhere/at/all";
    assert_int_equal(log_open(&l, &c, NULL, NULL, &told), -1);
    assert_non_null(strstr(message, "log.file: /nowhere/at/all cannot be written"));
}

/* A pipe is refused, whether somebody reads it or not; to open it waits for nobody. */
static void pipes(void **state) {
    (void)state;
    char name[sizeof path + 8];
    party_log *l;
    log_config c = {.level = UVCC_LOG_INFO};
    (void)snprintf(name, sizeof name, "%s.fifo", path);
    assert_int_equal(mkfifo(name, 0600), 0);
    c.file = name;
    for (unsigned i = 0; i < 2; i++) {
        const int reader = i == 0 ? -1 : open(name, O_RDONLY | O_NONBLOCK);
        assert_int_equal(log_open(&l, &c, NULL, NULL, &told), -1);
        assert_non_null(strstr(message, ".fifo is a pipe: give a file"));
        assert_true(i == 0 || close(reader) == 0);
    }
    assert_int_equal(unlink(name), 0);
}

int main(void) {
    const int fd = mkstemp(path);
    if (fd < 0)
        return 1;
    (void)close(fd);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members),       cmocka_unit_test(for_people), cmocka_unit_test(any_bytes),
        cmocka_unit_test(limited),       cmocka_unit_test(many_kinds), cmocka_unit_test(full_disk),
        cmocka_unit_test(configuration), cmocka_unit_test(pipes),
    };
    const int rc = cmocka_run_group_tests(tests, NULL, NULL);
    (void)unlink(path);
    return rc;
}
