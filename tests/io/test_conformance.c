/* Every adapter is the same to a session: the cases that each transport must pass. Argument: its
 * name, a row of world.c; then, for one case only, the case's. */
#include "world.h"

static const transport *over;

static void test_relu(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, over);
    job_relu(&j, 3, 4, 5);
    world_open(&w);
    world_run(&w, &j);
    world_close(&w);
    job_free(&j);
}

static void test_mlp(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, over);
    job_mlp(&j, 10);
    world_open(&w);
    world_run(&w, &j);
    world_close(&w);
    job_free(&j);
}

static void test_threads(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, over);
    w.threads = true;
    job_mlp(&j, 5);
    world_open(&w);
    world_run(&w, &j);
    world_close(&w);
    job_free(&j);
}

/* Eight workers of each party behind one listener, or one socket for packets. */
static void test_workers(void **state) {
    (void)state;
    world w;
    job j;
    world_init(&w, over);
    job_mlp(&j, 3);
    world_open(&w);
    for (unsigned i = 0; i < WORKERS_MAX; i++)
        world_add(&w, &j);
    world_until(&w, all_closed);
    world_check(&w);
    world_close(&w);
    job_free(&j);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_relu),
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_workers),
    };
    over = argc > 1 ? transport_named(argv[1]) : NULL;
    if (over == NULL) {
        fprintf(stderr, "usage: conformance TRANSPORT [CASE]\n");
        return 2;
    }
    const char *why = transport_missing(over);
    if (why != NULL) {
        fprintf(stderr, "skipped: %s\n", why);
        return 77;
    }
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
