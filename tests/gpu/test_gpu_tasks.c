/* SPDX-License-Identifier: Apache-2.0 */
/* Every task on a card: the golden vectors, other operands beside the portable kernels, with
 * operands in pinned memory; what cannot run fails and says why; completions go to whose cookie
 * they have. Skipped where there is no card. */
#include "card_job.h"
#include "hashes.h"
#include "in_place.h"
#include "vector_test.h"

static vector_executor on_card(uvcc_gpu *x) {
    vector_executor v = {.run = card_run, .user = x};
    v.memory = uvcc_gpu_allocator(x);
    return v;
}

static void golden_vectors(void **state) {
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const vector_executor v = on_card(x);
    (void)state;
    vector_test_golden(&v);
    uvcc_gpu_free(x);
}

static void other_operands(void **state) {
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const vector_executor v = on_card(x);
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++)
        vector_test_random(&v, seed);
    uvcc_gpu_free(x);
}

static void maps_in_place(void **state) {
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const vector_executor v = on_card(x);
    (void)state;
    in_place_maps(&v);
    uvcc_gpu_free(x);
}

static void hashes(void **state) {
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const vector_executor v = on_card(x);
    (void)state;
    hashes_anywhere(&v);
    uvcc_gpu_free(x);
}

/* ---- jobs ---- */

/* Memory of the test goes up and down with the job; completions have the cookie of their job. */
static void jobs_of_several_sessions(void **state) {
    enum { SESSIONS = 7 };
    static sum_job s[SESSIONS];
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    uvcc_completion c;
    (void)state;
    for (unsigned i = 0; i < SESSIONS; i++) {
        sum_make(&s[i], x, 100 + i);
        assert_int_equal(uvcc_gpu_submit(x, &s[i].job), 0);
    }
    for (unsigned i = SESSIONS; i-- != 0;) {
        while (uvcc_gpu_poll_of(x, 100 + i, &c) != 1)
            ; /* it comes: a job that hangs would fail at its deadline */
        assert_int_equal(c.cookie, 100 + i);
        assert_int_equal(c.id, 3 * (100 + i));
        assert_int_equal(c.status, 0);
        for (unsigned k = 0; k < ELEMS; k++)
            assert_int_equal(s[i].host[0][k], 100 + i + 8u * k);
        sum_free(&s[i]);
    }
    assert_int_equal(uvcc_gpu_pending(x), 0);
    assert_int_equal(uvcc_gpu_poll(x, &c), 0);
    assert_string_equal(uvcc_gpu_trouble(x), "");
    uvcc_gpu_free(x);
}

/* A job that names memory of nobody's is refused before a kernel sees it, and others run on. */
static void a_stray_pointer_is_refused(void **state) {
    static sum_job s;
    static uint64_t stray[ELEMS];
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    (void)state;
    sum_make(&s, x, 1);
    s.task[1].u.map.y.lo = stray;
    assert_int_equal(card_status(x, &s.job), UVCC_ERR_JOB);
    assert_non_null(strstr(uvcc_gpu_trouble(x), "MAP: y"));
    s.task[1].u.map.y.lo = s.y;
    assert_int_equal(card_status(x, &s.job), 0);
    sum_free(&s);
    uvcc_gpu_free(x);
}

/* Each item reads what the one before wrote. */
static void items_of_a_copy_keep_their_order(void **state) {
    enum { STEP = 4096, STEPS = 60 };
    static uint8_t host[STEP * (STEPS + 1)];
    uvcc_copy_item it[STEPS + 2];
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    uint8_t *p = al.alloc(al.user, sizeof host, UVCC_MEM_TENSOR);
    const uvcc_task t = {.kind = UVCC_TASK_COPY, .u.copy = {.items = it, .count = STEPS + 2}};
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    (void)state;
    assert_non_null(p);
    memset(host, 9, STEP);
    it[0] = (uvcc_copy_item){p, host, STEP};
    for (unsigned i = 0; i < STEPS; i++)
        it[i + 1] = (uvcc_copy_item){p + (size_t)STEP * (i + 1), p + (size_t)STEP * i, STEP};
    it[STEPS + 1] = (uvcc_copy_item){host, p, sizeof host};
    assert_int_equal(card_status(x, &job), 0);
    for (size_t i = 0; i < sizeof host; i++)
        assert_int_equal(host[i], 9);
    al.free(al.user, p, sizeof host, UVCC_MEM_TENSOR);
    uvcc_gpu_free(x);
}

/* From memory of the host to the device, there, and back, from every place of a word of 16 bytes to
 * every other: what lies beside stays as it was. */
static void copies_of_all_alignments(void **state) {
    enum { PLACES = 16, LENGTHS = 6, STRIDE = 9216, COUNT = PLACES * PLACES * LENGTHS, SHIFT = 5 };
    static const size_t length[LENGTHS] = {1, 15, 49, 513, 2048, 9001};
    const size_t bytes = (size_t)COUNT * STRIDE;
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    uint8_t *from = al.alloc(al.user, bytes, UVCC_MEM_WIRE);
    uint8_t *back = al.alloc(al.user, bytes, UVCC_MEM_WIRE);
    uint8_t *device = al.alloc(al.user, bytes, UVCC_MEM_TENSOR);
    uint8_t *moved = al.alloc(al.user, bytes + SHIFT, UVCC_MEM_TENSOR);
    uvcc_copy_item *it = calloc(COUNT, sizeof *it);
    const uvcc_copy_item before = {device, back, bytes}, move = {moved + SHIFT, device, bytes},
                         after = {back, moved + SHIFT, bytes};
    const uvcc_task t[] = {{.kind = UVCC_TASK_COPY, .u.copy = {.items = &before, .count = 1}},
                           {.kind = UVCC_TASK_COPY, .u.copy = {.items = it, .count = COUNT}},
                           {.kind = UVCC_TASK_COPY, .u.copy = {.items = &move, .count = 1}},
                           {.kind = UVCC_TASK_COPY, .u.copy = {.items = &after, .count = 1}}};
    const uvcc_job job = {.id = 1, .tasks = t, .count = 4};
    (void)state;
    assert_true(from != NULL && back != NULL && device != NULL && moved != NULL && it != NULL);
    memset(back, 0xaa, bytes);
    for (size_t i = 0; i < bytes; i++)
        from[i] = (uint8_t)(i * 2654435761u >> 13);
    for (size_t i = 0; i < COUNT; i++)
        it[i] = (uvcc_copy_item){device + i * STRIDE + i % PLACES,
                                 from + i * STRIDE + i / PLACES % PLACES,
                                 length[i / (PLACES * PLACES)]};
    assert_int_equal(card_status(x, &job), 0);
    for (size_t i = 0; i < COUNT; i++)
        for (size_t k = 0; k < STRIDE; k++) {
            const size_t at = k - i % PLACES;
            const uint8_t want = k >= i % PLACES && at < it[i].len ? it[i].src[at] : 0xaa;
            if (back[i * STRIDE + k] != want)
                fail_msg("item %zu, byte %zu", i, k);
        }
    free(it);
    al.free(al.user, from, bytes, UVCC_MEM_WIRE);
    al.free(al.user, back, bytes, UVCC_MEM_WIRE);
    al.free(al.user, device, bytes, UVCC_MEM_TENSOR);
    al.free(al.user, moved, bytes + SHIFT, UVCC_MEM_TENSOR);
    uvcc_gpu_free(x);
}

static void a_collective_is_refused(void **state) {
    const uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_task t = {.kind = UVCC_TASK_COLLECTIVE};
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    (void)state;
    assert_int_equal(card_status(x, &job), UVCC_ERR_JOB);
    assert_non_null(strstr(uvcc_gpu_trouble(x), "COLLECTIVE"));
    uvcc_gpu_free(x);
}

static void a_budget_holds(void **state) {
    uvcc_gpu_config cfg = card_config();
    cfg.device_bytes = 256u << 20;
    cfg.pinned_bytes = 64u << 20;
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    (void)state;
    assert_null(al.alloc(al.user, 300u << 20, UVCC_MEM_TENSOR));
    assert_null(al.alloc(al.user, 100u << 20, UVCC_MEM_WIRE));
    void *p = al.alloc(al.user, 200u << 20, UVCC_MEM_TENSOR);
    assert_non_null(p);
    assert_null(al.alloc(al.user, 200u << 20, UVCC_MEM_TENSOR));
    al.free(al.user, p, 200u << 20, UVCC_MEM_TENSOR);
    void *q = al.alloc(al.user, 200u << 20, UVCC_MEM_TENSOR);
    assert_ptr_equal(p, q);
    al.free(al.user, q, 200u << 20, UVCC_MEM_TENSOR);
    uvcc_gpu_free(x);
}

/* What fills the budget comes back, and is zero. */
static void messages_are_zero_when_they_come_back(void **state) {
    enum { BLOCKS = 8, BYTES = 8 << 20 };
    uvcc_gpu_config cfg = card_config();
    cfg.pinned_bytes = BLOCKS * BYTES;
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    uint8_t *p[BLOCKS];
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            p[i] = al.alloc(al.user, BYTES - i, UVCC_MEM_WIRE);
            assert_non_null(p[i]);
            for (unsigned k = 0; round != 0 && k < BYTES - BLOCKS; k++)
                assert_int_equal(p[i][k], 0);
            memset(p[i], 7, BYTES - i);
        }
        for (unsigned i = 0; i < BLOCKS; i++)
            al.free(al.user, p[i], BYTES - i, UVCC_MEM_WIRE);
    }
    uvcc_gpu_free(x);
}

int main(void) {
    card_needed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors),
        cmocka_unit_test(other_operands),
        cmocka_unit_test(maps_in_place),
        cmocka_unit_test(hashes),
        cmocka_unit_test(messages_are_zero_when_they_come_back),
        cmocka_unit_test(jobs_of_several_sessions),
        cmocka_unit_test(a_stray_pointer_is_refused),
        cmocka_unit_test(items_of_a_copy_keep_their_order),
        cmocka_unit_test(copies_of_all_alignments),
        cmocka_unit_test(a_collective_is_refused),
        cmocka_unit_test(a_budget_holds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
