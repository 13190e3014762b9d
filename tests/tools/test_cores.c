/* SPDX-License-Identifier: Apache-2.0 */
/* The processors that this process may keep busy (tools/cores.h): quotas of cgroups, each alone and
 * below each other, as files of the same form as the system's have them. */
#define _GNU_SOURCE
#include "cores.h"
#include "support.h"

#include <limits.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 128 };

typedef struct world {
    char dir[32], self[PATH_BYTES];
} world;

/* NULL: no file. */
static void put(const world *w, const char *name, const char *text) {
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/%s", w->dir, name);
    (void)unlink(path);
    FILE *f = text != NULL ? fopen(path, "w") : NULL;
    assert_true(text == NULL || f != NULL);
    if (f != NULL) {
        (void)fputs(text, f);
        assert_int_equal(fclose(f), 0);
    }
}

static void world_make(world *w) {
    char path[PATH_BYTES];
    *w = (world){.dir = "/tmp/uvcc-cores-XXXXXX"};
    assert_non_null(mkdtemp(w->dir));
    (void)snprintf(w->self, sizeof w->self, "%s/self", w->dir);
    (void)snprintf(path, sizeof path, "%s/a", w->dir);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof path, "%s/a/b", w->dir);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void world_remove(const world *w) {
    static const char *const files[] = {"self", "cpu.max", "a/cpu.max", "a/b/cpu.max"};
    static const char *const dirs[] = {"a/b", "a", ""};
    char path[PATH_BYTES];
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        put(w, files[i], NULL);
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", w->dir, dirs[i]);
        assert_int_equal(rmdir(path), 0);
    }
}

/* Whole cores, rounded up; what is no quota, or no number, is none. */
static void one_quota(void **state) {
    static const struct {
        const char *text;
        long cores;
    } of[] = {{"max 100000\n", LONG_MAX}, {"100000 100000\n", 1},
              {"100001 100000\n", 2},     {"50000 100000\n", 1},
              {"350000 100000\n", 4},     {"1600000 100000\n", 16},
              {"1000 1000\n", 1},         {"400000\n", LONG_MAX},
              {"400000 0\n", LONG_MAX},   {"0 100000\n", LONG_MAX},
              {"\n", LONG_MAX},           {"", LONG_MAX},
              {NULL, LONG_MAX},           {"18446744073709551615 1\n", LONG_MAX},
              {"-1 100000\n", LONG_MAX},  {"-100000 -100000\n", LONG_MAX},
              {"1 -1\n", LONG_MAX}};
    world w;
    (void)state;
    world_make(&w);
    put(&w, "self", "0::/\n");
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++) {
        put(&w, "cpu.max", of[i].text);
        assert_int_equal(cores_of_quota(w.self, w.dir), of[i].cores);
    }
    world_remove(&w);
}

/* A cgroup has no more than those above it let it have. */
static void least_of_all_above(void **state) {
    static const struct {
        const char *top, *a, *b;
        long cores;
    } of[] = {{NULL, NULL, NULL, LONG_MAX},
              {NULL, "max 1000\n", "3000 1000\n", 3},
              {NULL, "2000 1000\n", "3000 1000\n", 2},
              {NULL, "2000 1000\n", NULL, 2},
              {"1000 1000\n", "2000 1000\n", "3000 1000\n", 1},
              {"5000 1000\n", NULL, "max 1000\n", 5}};
    static const char *const selves[] = {"0::/a/b\n", "0::/a/b/\n",
                                         "2:cpu:/c\n1:name=systemd:/\n0::/a/b\n"};
    world w;
    (void)state;
    world_make(&w);
    for (size_t i = 0; i < sizeof of / sizeof of[0]; i++)
        for (size_t k = 0; k < sizeof selves / sizeof selves[0]; k++) {
            put(&w, "self", selves[k]);
            put(&w, "cpu.max", of[i].top);
            put(&w, "a/cpu.max", of[i].a);
            put(&w, "a/b/cpu.max", of[i].b);
            assert_int_equal(cores_of_quota(w.self, w.dir), of[i].cores);
        }
    world_remove(&w);
}

/* No cgroup v2, no such file, no end of the line, a path that leads elsewhere. */
static void no_cgroup(void **state) {
    static const char *const selves[] = {NULL, "", "1:cpu:/\n", "0::\n", "0::/", "0::/../x\n"};
    world w;
    (void)state;
    world_make(&w);
    put(&w, "a/cpu.max", "1000 1000\n");
    for (size_t i = 0; i < sizeof selves / sizeof selves[0]; i++) {
        put(&w, "self", selves[i]);
        assert_int_equal(cores_of_quota(w.self, w.dir), LONG_MAX);
    }
    world_remove(&w);
}

/* The smaller of both. */
static void own(void **state) {
    cpu_set_t before, one;
    world w;
    (void)state;
    world_make(&w);
    put(&w, "self", "0::/\n");
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    const long set = CPU_COUNT(&before);
    assert_int_equal(cores_usable_by(w.self, w.dir), set);
    put(&w, "cpu.max", "100000000 100000\n");
    assert_int_equal(cores_usable_by(w.self, w.dir), set < 1000 ? set : 1000);
    put(&w, "cpu.max", "10000 100000\n");
    assert_int_equal(cores_usable_by(w.self, w.dir), 1);
    world_remove(&w);
    const long quota = cores_of_quota("/proc/self/cgroup", "/sys/fs/cgroup");
    assert_int_equal(cores_usable(), quota < set ? quota : set);
    CPU_ZERO(&one);
    for (unsigned i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
        if (CPU_ISSET(i, &before))
            CPU_SET(i, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(cores_usable(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(one_quota),
                                       cmocka_unit_test(least_of_all_above),
                                       cmocka_unit_test(no_cgroup), cmocka_unit_test(own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
