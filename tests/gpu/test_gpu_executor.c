/* SPDX-License-Identifier: Apache-2.0 */
/* The executor on a device that is made of memory of the host (fake/fake_cuda.h): what it makes of
 * jobs, and that nothing hangs and nobody touches what was given back when the device does not
 * answer. No card and no CUDA is needed. */
#include "fake/fake_cuda.h"

#include "card_job.h"
#include "gpu/executor.h"
#include "hashes.h"
#include "in_place.h"
#include "triangle.h"
#include "vector_test.h"

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <sys/mman.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <unistd.h>
#include <uvcc/model.h>

enum { STREAMS = 4 };                     /* of an executor that is not told */
enum { MESSAGES = 8, MESSAGE = 8 << 20 }; /* as many as one chunk of a pool */

static uvcc_gpu *open_one(void) {
    const uvcc_gpu_config cfg = card_config();
    return card_open(&cfg);
}

static vector_executor on_fake(uvcc_gpu *x) {
    vector_executor v = {.run = card_run, .user = x};
    v.memory = uvcc_gpu_allocator(x);
    return v;
}

/* ---- results ---- */

static void golden_vectors(void **state) {
    uvcc_gpu *x = open_one();
    const vector_executor v = on_fake(x);
    (void)state;
    vector_test_golden(&v);
    vector_test_random(&v, 9);
    in_place_maps(&v);
    uvcc_gpu_free(x);
    assert_int_equal(fake_device_bytes() + fake_pinned_bytes(), 0);
}

static void hashes(void **state) {
    uvcc_gpu *x = open_one();
    const vector_executor v = on_fake(x);
    (void)state;
    hashes_anywhere(&v);
    uvcc_gpu_free(x);
    assert_int_equal(fake_device_bytes() + fake_pinned_bytes(), 0);
}

/* Short texts in pinned memory, which the CPU hashes behind the device's part of a job. */
typedef struct texts {
    uvcc_allocator al;
    uint8_t *text, *digest;
    uvcc_hash_item *item;
    uint32_t count, len;
    uvcc_task task;
    uvcc_job job;
} texts;

static void texts_make(texts *t, uvcc_gpu *x, uint32_t count, uint32_t len) {
    *t = (texts){.al = uvcc_gpu_allocator(x), .count = count, .len = len};
    t->text = t->al.alloc(t->al.user, len, UVCC_MEM_WIRE);
    t->digest = t->al.alloc(t->al.user, (size_t)count * 32, UVCC_MEM_WIRE);
    t->item = calloc(count, sizeof *t->item);
    assert_true(t->text != NULL && t->digest != NULL && t->item != NULL);
    memset(t->text, 9, len);
    memset(t->digest, 0, (size_t)count * 32);
    for (uint32_t i = 0; i < count; i++)
        t->item[i] = (uvcc_hash_item){.mode = UVCC_HASH_PLAIN,
                                      .data = t->text,
                                      .len = len,
                                      .out = t->digest + (size_t)i * 32};
    t->task = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = t->item, .count = t->count}};
    t->job = (uvcc_job){.id = 1, .tasks = &t->task, .count = 1};
}

static void texts_free(texts *t) {
    t->al.free(t->al.user, t->text, t->len, UVCC_MEM_WIRE);
    t->al.free(t->al.user, t->digest, (size_t)t->count * 32, UVCC_MEM_WIRE);
    free(t->item);
}

/* A job whose digests were not made failed, and the next one is none the worse. */
static void hashes_that_fail(void **state) {
    texts t;
    uvcc_gpu *x = open_one();
    (void)state;
    texts_make(&t, x, 3, 1000);
    fake_cpu_fails(true);
    assert_int_equal(card_status(x, &t.job), UVCC_ERR_JOB);
    assert_non_null(strstr(uvcc_gpu_trouble(x), "HASH"));
    fake_cpu_fails(false);
    assert_int_equal(card_status(x, &t.job), 0);
    texts_free(&t);
    uvcc_gpu_free(x);
}

/* The thread that looks at all jobs hashes no more than takes a moment. */
static void hashes_by_whom(void **state) {
    enum { FEW = 200, MANY = 300, SHORT = 64 << 10 };
    const uint32_t counts[] = {FEW, MANY};
    uint8_t digest[2][32];
    uvcc_gpu *x = open_one();
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        texts t;
        texts_make(&t, x, counts[i], SHORT);
        const uint32_t before = fake_cpu_hashes();
        assert_int_equal(card_status(x, &t.job), 0);
        assert_int_equal(fake_cpu_hashes() - before, counts[i] == FEW ? FEW : 0);
        for (uint32_t k = 1; k < counts[i]; k++)
            assert_memory_equal(t.digest, t.digest + (size_t)k * 32, 32);
        memcpy(digest[i], t.digest, 32);
        texts_free(&t);
    }
    assert_memory_equal(digest[0], digest[1], 32);
    uvcc_gpu_free(x);
}

/* ---- devices ---- */

static void devices_are_looked_at(void **state) {
    const char *why = NULL;
    uvcc_gpu_config cfg = card_config();
    uvcc_gpu *x = NULL;
    (void)state;
    fake_devices(3, 2, 8, 0);
    assert_int_equal(uvcc_gpu_count(&why), 1);
    assert_null(why);
    x = card_open(&cfg);
    uvcc_gpu_free(x);
    cfg.device = 1;
    x = NULL;
    assert_int_equal(uvcc_gpu_new(&x, &cfg), UVCC_ERR_CONFIG);
    fake_devices(1, 0, 7, 5);
    assert_int_equal(uvcc_gpu_count(&why), 0);
    assert_non_null(strstr(why, "architecture"));
    fake_devices(0, 0, 8, 0);
    assert_int_equal(uvcc_gpu_count(&why), 0);
    assert_non_null(strstr(why, "no CUDA device"));
    fake_devices(1, 0, 8, 6);
    assert_int_equal(uvcc_gpu_count(&why), 1);
    fake_devices(1, 0, 8, 0);
}

/* ---- memory outside ---- */

/* What only one task reads is not written back, though what lies behind it is. */
static void what_is_read_is_not_written(void **state) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uvcc_gpu *x = open_one();
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    uint8_t *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *mid = al.alloc(al.user, page, UVCC_MEM_TENSOR);
    (void)state;
    assert_true(two != MAP_FAILED && mid != NULL);
    memset(two, 7, page);
    assert_int_equal(mprotect(two, page, PROT_READ), 0);
    const uvcc_copy_item up = {mid, two, page}, down = {two + page, mid, page};
    const uvcc_copy_item far = {two + page + 1, two + 8, page - 8};
    const uvcc_task tasks[] = {{.kind = UVCC_TASK_COPY, .u.copy = {.items = &up, .count = 1}},
                               {.kind = UVCC_TASK_COPY, .u.copy = {.items = &down, .count = 1}},
                               {.kind = UVCC_TASK_COPY, .u.copy = {.items = &far, .count = 1}}};
    const uvcc_job job = {.id = 1, .tasks = tasks, .count = 3};
    assert_int_equal(card_status(x, &job), 0);
    assert_memory_equal(two, two + page, page);
    al.free(al.user, mid, page, UVCC_MEM_TENSOR);
    uvcc_gpu_free(x);
    assert_int_equal(munmap(two, 2 * page), 0);
}

/* Copies are pinned memory within its budget, and take nothing of the device. */
static void copies_are_within_budgets(void **state) {
    enum { BYTES = 9 << 20 };
    uvcc_gpu_config cfg = card_config();
    cfg.pinned_bytes = 1;
    uvcc_gpu *x = card_open(&cfg);
    uint8_t *from = calloc(1, BYTES), *to = calloc(1, BYTES);
    uint64_t said[2];
    const uvcc_copy_item it = {to, from, BYTES};
    const uvcc_task t = {.kind = UVCC_TASK_COPY, .u.copy = {.items = &it, .count = 1}};
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    (void)state;
    assert_true(from != NULL && to != NULL);
    memset(from, 3, BYTES);
    assert_int_equal(card_status(x, &job), UVCC_ERR_JOB);
    assert_non_null(strstr(uvcc_gpu_trouble(x), "pinned"));
    uvcc_gpu_free(x);
    cfg.pinned_bytes = 0;
    x = card_open(&cfg);
    const size_t device = fake_device_bytes(), pinned = fake_pinned_bytes();
    assert_int_equal(card_status(x, &job), 0);
    assert_memory_equal(from, to, BYTES);
    assert_int_equal(uvcc_gpu_memory(x, &said[0], &said[1]), 0);
    assert_int_equal(said[0], fake_device_bytes());
    assert_true(said[1] <= fake_pinned_bytes() && said[1] + 4096 > fake_pinned_bytes()); /* marks */
    assert_int_equal(fake_device_bytes(), device);
    assert_true(fake_pinned_bytes() >= pinned + 2 * BYTES);
    uvcc_gpu_free(x);
    free(from);
    free(to);
}

static void on_growth(void *user, bool done) {
    (void)user;
    (void)done;
}

/* Of a process with several devices. */
static uvcc_gpu *open_of_several(void) {
    uvcc_gpu_config cfg = card_config();
    cfg.memory = on_growth;
    return card_open(&cfg);
}

/* The process has so many bytes of memory that are there; a sanitizer's beside them tell nothing.
 */
static size_t resident_bytes(void) {
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*u %lu", &pages), 1);
    (void)fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* Messages' memory is pages that are there before CUDA pins them, so that it has little to do while
 * it keeps others from their devices; or CUDA's own, where it does not pin them where they are.
 * None are kept either way. */
static void pages_are_there_before_they_are_pinned(void **state) {
    enum { MANY_BYTES = 48 << 20, ODD = (20 << 20) + 12345 };
    static const fake_pins all[] = {FAKE_PINS_THERE, FAKE_PINS_ELSEWHERE, FAKE_PINS_NOT};
    (void)state;
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, 1 << 20); /* the device's memory is none that free() keeps */
#endif
    for (unsigned i = 0; i < 3; i++) {
        fake_pin(all[i]);
        uvcc_gpu *x = open_of_several();
        const uvcc_allocator al = uvcc_gpu_allocator(x);
        const size_t before = resident_bytes(), pinned = fake_pinned_bytes();
        assert_int_equal(fake_pages_bytes(), 0);
        uint8_t *p = al.alloc(al.user, MANY_BYTES, UVCC_MEM_WIRE),
                *q = al.alloc(al.user, ODD, UVCC_MEM_WIRE),
                *s = al.alloc(al.user, 64, UVCC_MEM_WIRE);
        assert_true(p != NULL && q != NULL && s != NULL);
        for (size_t k = 0; k < MANY_BYTES && all[i] == FAKE_PINS_THERE; k += 4096)
            assert_int_equal(p[k], 0);
        memset(p, 1, MANY_BYTES);
        memset(q, 1, ODD);
        const size_t grown = fake_pinned_bytes() - pinned;
        assert_int_equal(fake_pages_bytes(), all[i] == FAKE_PINS_THERE ? grown : 0);
        assert_true(SANITIZED || resident_bytes() - before < grown + (16 << 20));
        al.free(al.user, p, MANY_BYTES, UVCC_MEM_WIRE);
        al.free(al.user, q, ODD, UVCC_MEM_WIRE);
        al.free(al.user, s, 64, UVCC_MEM_WIRE);
        uvcc_gpu_free(x);
        assert_int_equal(fake_pinned_bytes(), 0);
        assert_true(SANITIZED || resident_bytes() < before + (16 << 20));
    }
}

static int pin_as_ever(void **state) {
    (void)state;
    fake_pin(FAKE_PINS_THERE);
    return 0;
}

/* With one device it is CUDA's own. */
static void pages_of_one_device_are_cudas(void **state) {
    enum { SOME_BYTES = 20 << 20 };
    (void)state;
    uvcc_gpu *x = open_one();
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    void *p = al.alloc(al.user, SOME_BYTES, UVCC_MEM_WIRE);
    assert_non_null(p);
    assert_int_equal(fake_pages_bytes(), 0);
    al.free(al.user, p, SOME_BYTES, UVCC_MEM_WIRE);
    uvcc_gpu_free(x);
}

/* What the device may write to is not unmapped: something else would lie there next. */
static void pages_that_are_kept_stay(void **state) {
    enum { SOME_BYTES = 20 << 20 };
    (void)state;
    for (unsigned i = 0; i < 2; i++) { /* when it is taken, and at the end */
        fake_pin(i == 0 ? FAKE_PINS_KEPT : FAKE_PINS_THERE);
        uvcc_gpu *x = open_of_several();
        const uvcc_allocator al = uvcc_gpu_allocator(x);
        uint8_t *p = al.alloc(al.user, SOME_BYTES, UVCC_MEM_WIRE);
        assert_non_null(p);
        memset(p, 1, SOME_BYTES);
        al.free(al.user, p, SOME_BYTES, UVCC_MEM_WIRE);
        fake_pin(FAKE_PINS_KEPT);
        uvcc_gpu_free(x);
        fake_pin(FAKE_PINS_THERE);
        assert_true(fake_pages_bytes() >= SOME_BYTES);
        assert_true(fake_pages_go());
        assert_int_equal(fake_pinned_bytes(), 0);
    }
}

static void memory_of_a_device_is_refused(void **state) {
    static sum_job s;
    uvcc_gpu *x = open_one();
    uint8_t *foreign = fake_device_memory(sizeof s.host[0]);
    (void)state;
    sum_make(&s, x, 1);
    s.up[1].src = foreign;
    assert_int_equal(card_status(x, &s.job), UVCC_ERR_JOB);
    assert_non_null(strstr(uvcc_gpu_trouble(x), "memory of a device"));
    sum_free(&s);
    uvcc_gpu_free(x);
    assert_int_equal(cudaFree(foreign), 0);
}

/* ---- memory of another executor ---- */

/* y of a product by a public matrix, or of turns, may lie with the lender, and nothing else. */
static void memory_that_is_lent(void **state) {
    enum { WORDS = 4 }; /* 2 x 2 */
    static const int16_t y[WORDS] = {1, -2, 3, 4};
    static const uint64_t x[WORDS] = {5, 6, 7, 8};
    static const uint64_t want[WORDS] = {23, 14, 31, 18};
    static const uint64_t turned[WORDS] = {-11, 60, -15, 112};
    uint64_t got[WORDS];
    uvcc_gpu_config cfg = card_config();
    uvcc_gpu *lender = open_one(), *own = NULL;
    const uvcc_allocator far = uvcc_gpu_allocator(lender);
    (void)state;
    int16_t *lent = far.alloc(far.user, sizeof y, UVCC_MEM_TENSOR);
    uint64_t *lent_x = far.alloc(far.user, sizeof x, UVCC_MEM_TENSOR);
    const uvcc_copy_item fill[] = {{(uint8_t *)lent, (const uint8_t *)y, sizeof y},
                                   {(uint8_t *)lent_x, (const uint8_t *)x, sizeof x}};
    const uvcc_task up = {.kind = UVCC_TASK_COPY, .u.copy = {.items = fill, .count = 2}};
    assert_int_equal(card_status(lender, &(uvcc_job){.id = 1, .tasks = &up, .count = 1}), 0);
    for (unsigned borrows = 0; borrows < 2; borrows++) {
        cfg.lender = borrows != 0 ? lender : NULL;
        own = card_open(&cfg);
        const uvcc_allocator al = uvcc_gpu_allocator(own);
        uint64_t *a = al.alloc(al.user, sizeof x, UVCC_MEM_TENSOR);
        uint64_t *z = al.alloc(al.user, sizeof x, UVCC_MEM_TENSOR);
        const uvcc_copy_item in = {(uint8_t *)a, (const uint8_t *)x, sizeof x};
        const uvcc_copy_item out = {(uint8_t *)got, (const uint8_t *)z, sizeof got};
        uvcc_task tasks[] = {{.kind = UVCC_TASK_COPY, .u.copy = {.items = &in, .count = 1}},
                             {.kind = UVCC_TASK_GEMM,
                              .u.gemm = {.m = 2,
                                         .n = 2,
                                         .k = 2,
                                         .y_bytes = sizeof y[0],
                                         .x = {a, NULL},
                                         .y = {(uint64_t *)(void *)lent, NULL},
                                         .z = z}},
                             {.kind = UVCC_TASK_COPY, .u.copy = {.items = &out, .count = 1}}};
        const uvcc_job job = {.id = 2, .tasks = tasks, .count = 3};
        assert_int_equal(card_status(own, &job), borrows != 0 ? 0 : UVCC_ERR_JOB);
        if (borrows != 0)
            assert_memory_equal(got, want, sizeof want);
        else
            assert_non_null(strstr(uvcc_gpu_trouble(own), "y is not memory"));
        const uvcc_task product = tasks[1];
        tasks[1] = (uvcc_task){.kind = UVCC_TASK_MAP, /* turns, of which y is public */
                               .u.map = {.op = UVCC_MAP_ROTATE,
                                         .rows = 2,
                                         .cols = 2,
                                         .block = 2,
                                         .part = 2,
                                         .x = {a, NULL},
                                         .y = {lent_x, NULL},
                                         .out = {z, NULL}}};
        assert_int_equal(card_status(own, &job), borrows != 0 ? 0 : UVCC_ERR_JOB);
        if (borrows != 0)
            assert_memory_equal(got, turned, sizeof turned);
        tasks[1].u.map.op = UVCC_MAP_ADD; /* other maps' is not */
        assert_int_equal(card_status(own, &job), UVCC_ERR_JOB);
        tasks[1] = product;
        tasks[1].u.gemm.x.lo = lent_x; /* y alone is lent, */
        assert_int_equal(card_status(own, &job), UVCC_ERR_JOB);
        tasks[1].u.gemm.x.lo = a;
        tasks[1].u.gemm.y_bytes = 0; /* and no shares of it */
        tasks[1].u.gemm.y = (uvcc_shares){lent_x, lent_x};
        assert_int_equal(card_status(own, &job), UVCC_ERR_JOB);
        al.free(al.user, a, sizeof x, UVCC_MEM_TENSOR);
        al.free(al.user, z, sizeof x, UVCC_MEM_TENSOR);
        uvcc_gpu_free(own);
    }
    far.free(far.user, lent, sizeof y, UVCC_MEM_TENSOR);
    far.free(far.user, lent_x, sizeof x, UVCC_MEM_TENSOR);
    uvcc_gpu_free(lender);
}

/* ---- sessions ---- */

static uvcc_gpu *of_party[3];

static int submit_at(void *user, const uvcc_job *job) {
    return uvcc_gpu_submit(user, job);
}

static int poll_at(void *user, uvcc_completion *out) {
    return uvcc_gpu_poll(user, out);
}

static void wait_at(void *user) {
    uvcc_gpu_wait(user);
}

/* An executor for each party, of which the first lends to the others. */
static void on_device(unsigned party, uvcc_config *cfg, uvcc_cpu_config *x) {
    uvcc_gpu_config own = card_config();
    own.lender = party != 0 ? of_party[0] : NULL;
    of_party[party] = card_open(&own);
    cfg->alloc = uvcc_gpu_allocator(of_party[party]);
    x->mode = UVCC_CPU_ELSEWHERE;
    x->elsewhere = (uvcc_cpu_elsewhere){
        .submit = submit_at, .poll = poll_at, .wait = wait_at, .user = of_party[party]};
}

static void set_weight(triangle *t, uint32_t tensor, bool public, const int64_t *v) {
    for (unsigned i = 0; i < 3; i++) {
        int rc;
        while ((rc = public && t->opt.borrow && i != 0
                         ? uvcc_session_set_borrowed(t->s[i], tensor)
                         : uvcc_session_set_public(t->s[i], tensor, v)) == UVCC_ERR_AGAIN)
            assert_true(triangle_turn(t));
        assert_int_equal(rc, 0);
    }
}

/* A pass of a small model whose weights are public: what comes out, and the root. */
static void pass(const uvcc_program *p, const uvcc_model_config *c, const triangle_options *opt,
                 int64_t *out, size_t count, uint8_t root[32]) {
    enum { MOST = 4096 };
    static int64_t v[MOST];
    triangle t;
    uvcc_model_weight w;
    uint64_t draws = 5;
    triangle_open(&t, p, opt);
    triangle_ready(&t);
    for (uint32_t i = 0; uvcc_model_weight_at(c, i, &w) == 0; i++) {
        const int tensor = uvcc_program_find(p, w.name);
        assert_in_range(tensor, 0, INT32_MAX);
        assert_true((size_t)w.rows * w.cols <= MOST);
        for (size_t k = 0; k < (size_t)w.rows * w.cols; k++)
            v[k] = (int64_t)(test_rand(&draws) >> 54) - 512;
        set_weight(&t, (uint32_t)tensor,
                   uvcc_program_tensor_at(p, (uint32_t)tensor)->sharing == UVCC_PUBLIC, v);
    }
    triangle_agree(&t, 0, 0);
    triangle_input(&t, 0, 0, UVCC_MODEL_IN_X, (const int64_t[]){3, 1, 4, 1, 5, 9});
    triangle_finish(&t, 1);
    const uvcc_io_desc *y = uvcc_program_output_at(p, 0, 0);
    memcpy(out, uvcc_session_output(t.s[1], 0, y->id), count * sizeof *out);
    memcpy(root, t.root[1], 32);
    triangle_close(&t);
    triangle_free(&t);
}

/* Public weights that parties on a device have once, in 2 or 4 bytes by their bits, from the
 * embeddings to the tied head: results and roots are the CPU's of three copies. */
static void public_weights(void **state) {
    enum { TOKENS = 6, WIDTH = 16, VOCABULARY = 11 };
    const uvcc_allocator al = uvcc_host_allocator();
    (void)state;
    for (unsigned bits = 3; bits <= 4; bits++) {
        int64_t out[2][TOKENS * VOCABULARY];
        uint8_t root[2][32];
        char why[256] = "";
        uvcc_model_config c;
        uvcc_program *p = NULL;
        assert_int_equal(uvcc_model_default(&c, sizeof c), 0);
        c.layers = 1;
        c.width = WIDTH;
        c.heads = 2;
        c.ff_width = 24;
        c.tokens = TOKENS;
        c.frac_bits = 12;
        c.weight_bits = (uint8_t)bits;
        c.input = UVCC_MODEL_INPUT_TOKENS;
        c.vocabulary = VOCABULARY;
        c.head = UVCC_MODEL_HEAD_TIED;
        c.weights = UVCC_MODEL_PUBLIC_WEIGHTS;
        if (uvcc_model_program(&p, &c, 0, UVCC_TO_ALL, &al, why, sizeof why) != 0)
            fail_msg("%s", why);
        assert_int_equal(uvcc_program_element_bytes(p, (uint32_t)uvcc_program_find(p, "L0.WQ")),
                         bits == 3 ? 2 : 4);
        pass(p, &c, &(triangle_options){.seed = 6}, out[0], TOKENS * VOCABULARY, root[0]);
        pass(p, &c, &(triangle_options){.seed = 6, .borrow = true, .place = on_device}, out[1],
             TOKENS * VOCABULARY, root[1]);
        for (unsigned i = 3; i-- != 0;)
            uvcc_gpu_free(of_party[i]);
        assert_memory_equal(out[0], out[1], sizeof out[0]);
        assert_memory_equal(root[0], root[1], sizeof root[0]);
        assert_int_equal(fake_device_bytes() + fake_pinned_bytes(), 0);
        uvcc_program_free(p);
    }
}

/* ---- copies ---- */

/* Each item reads what the one before wrote; the kernel runs them the other way round. */
static void items_of_a_copy_keep_their_order(void **state) {
    enum { STEP = 32, STEPS = 100 };
    uvcc_gpu *x = open_one();
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    uint8_t *p = al.alloc(al.user, (size_t)STEP * (2 * STEPS + 2), UVCC_MEM_STATE);
    uvcc_copy_item chain[STEPS];
    (void)state;
    assert_non_null(p);
    for (unsigned i = 0; i < STEPS; i++)
        chain[i] = (uvcc_copy_item){p + (size_t)STEP * (i + 1), p + (size_t)STEP * i, STEP};
    const uvcc_task t = {.kind = UVCC_TASK_COPY, .u.copy = {.items = chain, .count = STEPS}};
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    memset(p, 0, (size_t)STEP * (STEPS + 1));
    memset(p, 9, STEP);
    assert_int_equal(card_status(x, &job), 0);
    assert_memory_equal(p, p + STEP, (size_t)STEP * STEPS);
    /* One place is written twice, and read between. */
    p[0] = 1;
    p[1] = 2;
    const uvcc_copy_item twice[] = {{p + 2, p, 1}, {p + 3, p + 2, 1}, {p + 2, p + 1, 1}};
    chain[0] = twice[0];
    chain[1] = twice[1];
    chain[2] = twice[2];
    const uvcc_task u = {.kind = UVCC_TASK_COPY, .u.copy = {.items = chain, .count = 3}};
    const uvcc_job other = {.id = 2, .tasks = &u, .count = 1};
    assert_int_equal(card_status(x, &other), 0);
    assert_int_equal(p[3], 1);
    assert_int_equal(p[2], 2);
    /* Parts of one buffer to another: one launch. */
    for (unsigned i = 0; i < STEPS; i++)
        chain[i] = (uvcc_copy_item){p + (size_t)STEP * (STEPS + 2 + i), p + (size_t)STEP * i, STEP};
    const unsigned before = fake_byte_launches();
    assert_int_equal(card_status(x, &job), 0);
    assert_int_equal(fake_byte_launches(), before + 1);
    al.free(al.user, p, (size_t)STEP * (2 * STEPS + 2), UVCC_MEM_STATE);
    uvcc_gpu_free(x);
}

/* ---- memory that comes back ---- */

static void tensors_are_zero_when_they_come_back(void **state) {
    static sum_job s;
    uvcc_gpu *x = open_one();
    (void)state;
    sum_make(&s, x, 5);
    assert_int_equal(card_status(x, &s.job), 0);
    sum_free(&s);
    sum_make(&s, x, 6);
    s.job.tasks = &s.task[2];
    s.job.count = 1;
    assert_int_equal(card_status(x, &s.job), 0);
    for (unsigned i = 0; i < ELEMS; i++)
        assert_int_equal(s.host[0][i], 0);
    sum_free(&s);
    uvcc_gpu_free(x);
}

/* ---- a device that does not answer ---- */

/* A job in memory that is freed as soon as it is done. */
typedef struct loose_job {
    sum_job *s;
    uvcc_job job;
} loose_job;

static loose_job loose_make(uvcc_gpu *x, uint64_t cookie) {
    loose_job j = {.s = calloc(1, sizeof *j.s)};
    assert_non_null(j.s);
    sum_make(j.s, x, cookie);
    j.job = j.s->job;
    return j;
}

static void loose_end(uvcc_gpu *x, loose_job *j) {
    uvcc_completion c;
    uvcc_gpu_wait_of(x, j->job.cookie);
    assert_int_equal(uvcc_gpu_poll_of(x, j->job.cookie, &c), 1);
    assert_int_equal(c.status, UVCC_ERR_JOB);
    sum_free(j->s);
    memset(j->s, 0xff, sizeof *j->s);
    free(j->s);
}

enum { MANY = 9 }; /* more than there are streams */

/* Jobs that CUDA keeps, and those that wait behind, fail; so do later ones. */
static void all_fail(uvcc_gpu *x, loose_job *j) {
    for (unsigned i = 0; i < MANY; i++)
        loose_end(x, &j[i]);
    assert_string_not_equal(uvcc_gpu_trouble(x), "");
    const uvcc_job late = {.id = 1, .cookie = 77};
    assert_int_equal(card_status(x, &late), UVCC_ERR_JOB);
}

static void kernels_that_never_end(void **state) {
    loose_job j[MANY];
    uvcc_gpu *x = open_one();
    (void)state;
    for (unsigned i = 0; i < MANY; i++)
        j[i] = loose_make(x, i);
    fake_hang(STREAMS);
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(uvcc_gpu_submit(x, &j[i].job), 0);
    all_fail(x, j);
    assert_non_null(strstr(uvcc_gpu_trouble(x), "deadline"));
    uvcc_gpu_free(x);
    fake_hang(0);
}

/* The thread that launches is kept by a call; it gets away when the executor is long gone. */
static void calls_that_do_not_return(void **state) {
    const fake_call all[] = {FAKE_LAUNCH, FAKE_HOST_ALLOC};
    (void)state;
    for (unsigned c = 0; c < 2; c++) {
        static uint8_t large[4 << 20];
        loose_job j[MANY];
        uvcc_gpu *x = open_one();
        for (unsigned i = 0; i < MANY; i++) {
            j[i] = loose_make(x, i);
            j[i].s->up[1].src = large; /* its copy needs more pinned memory than is there */
            j[i].s->up[1].len = sizeof j[i].s->host[0];
        }
        uvcc_copy_item more = {large, large + (sizeof large >> 1), sizeof large >> 1};
        j[0].s->up[1] = more;
        fake_block(all[c]);
        for (unsigned i = 0; i < MANY; i++)
            assert_int_equal(uvcc_gpu_submit(x, &j[i].job), 0);
        all_fail(x, j);
        uvcc_gpu_free(x);
        fake_block(FAKE_NONE);
    }
}

/* An owner's thread gets an answer where CUDA has none, whether jobs are out or not. */
static void memory_that_does_not_come(void **state) {
    uvcc_gpu *x = open_one();
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    (void)state;
    fake_block(FAKE_MALLOC);
    assert_null(al.alloc(al.user, 100u << 20, UVCC_MEM_TENSOR));
    assert_non_null(strstr(uvcc_gpu_trouble(x), "a call of CUDA"));
    uvcc_gpu_free(x);
    fake_block(FAKE_NONE);
}

static void memory_that_is_not_wiped(void **state) {
    uvcc_gpu *x = open_one();
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    void *p[2000];
    (void)state;
    for (unsigned i = 0; i < 2000; i++) {
        p[i] = al.alloc(al.user, 64, UVCC_MEM_TENSOR);
        assert_non_null(p[i]);
    }
    fake_block(FAKE_MEMSET);
    for (unsigned i = 0; i < 2000; i++) /* more than the list of those that wait has room for */
        al.free(al.user, p[i], 64, UVCC_MEM_TENSOR);
    const uvcc_job late = {.id = 1, .cookie = 77};
    assert_int_equal(card_status(x, &late), UVCC_ERR_JOB);
    uvcc_gpu_free(x);
    fake_block(FAKE_NONE);
}

/* What fills the budget comes back, and is zero. */
static void messages_are_zero_when_they_come_back(void **state) {
    static const uint8_t zero[MESSAGE] = {0};
    uvcc_gpu_config cfg = card_config();
    uint8_t *p[MESSAGES];
    (void)state;
    cfg.pinned_bytes = MESSAGES * (uint64_t)MESSAGE;
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < MESSAGES; i++) {
            p[i] = al.alloc(al.user, MESSAGE - i, UVCC_MEM_WIRE);
            assert_non_null(p[i]);
            assert_true(round == 0 || memcmp(p[i], zero, MESSAGE - MESSAGES) == 0);
            memset(p[i], 7, MESSAGE - i);
        }
        for (unsigned i = 0; i < MESSAGES; i++)
            al.free(al.user, p[i], MESSAGE - i, UVCC_MEM_WIRE);
    }
    uvcc_gpu_free(x);
}

/* Owners that give all of the budget back, and take it again: memory that only waits to be wiped is
 * memory. */
typedef struct owner {
    uvcc_allocator al;
    unsigned rounds, refused;
} owner;

static void *give_and_take(void *user) {
    enum { BYTES = 1 << 20 };
    owner *o = user;
    for (unsigned i = 0; i < o->rounds; i++) {
        void *p = o->al.alloc(o->al.user, BYTES, UVCC_MEM_WIRE);
        o->refused += p == NULL;
        o->al.free(o->al.user, p, BYTES, UVCC_MEM_WIRE);
    }
    return NULL;
}

static void memory_that_waits_to_be_wiped(void **state) {
    enum { MOST = 4, ROUNDS = 200 };
    (void)state;
    for (unsigned owners = 1; owners <= MOST; owners++) {
        owner o[MOST];
        pthread_t t[MOST];
        uvcc_gpu_config cfg = card_config();
        cfg.pinned_bytes = (uint64_t)owners << 20;
        uvcc_gpu *x = card_open(&cfg);
        for (unsigned i = 0; i < owners; i++) {
            o[i] = (owner){.al = uvcc_gpu_allocator(x), .rounds = ROUNDS};
            assert_int_equal(pthread_create(&t[i], NULL, give_and_take, &o[i]), 0);
        }
        for (unsigned i = 0; i < owners; i++) {
            (void)pthread_join(t[i], NULL);
            assert_int_equal(o[i].refused, 0);
        }
        uvcc_gpu_free(x);
    }
    assert_int_equal(fake_pinned_bytes(), 0);
}

static struct {
    bool asks;
    unsigned times;
    size_t before, grown;
} asked;

static void on_memory(void *user, bool done) {
    const size_t bytes = fake_device_bytes() + fake_pinned_bytes();
    assert_ptr_equal(user, &asked);
    assert_true(asked.asks == done);
    asked.asks = !done;
    asked.times += done;
    asked.grown += done ? bytes - asked.before : 0;
    asked.before = bytes;
}

/* A host hears before CUDA is asked for memory, and after. */
static void memory_is_said(void **state) {
    enum { BYTES = 2 << 20 };
    uvcc_gpu_config cfg = card_config();
    cfg.memory = on_memory;
    cfg.memory_user = &asked;
    (void)state;
    uvcc_gpu *x = card_open(&cfg);
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    const size_t before = fake_device_bytes() + fake_pinned_bytes();
    for (unsigned i = 0; i < 2; i++) {
        const uvcc_mem_class cls = i == 0 ? UVCC_MEM_TENSOR : UVCC_MEM_WIRE;
        void *p = al.alloc(al.user, BYTES, cls);
        assert_non_null(p);
        al.free(al.user, p, BYTES, cls);
    }
    assert_int_equal(asked.times, 2);
    assert_true(asked.grown >= 2 * (size_t)BYTES && !asked.asks);
    assert_int_equal(fake_device_bytes() + fake_pinned_bytes(), before + asked.grown);
    uvcc_gpu_free(x);
}

/* Of memory that waits to be wiped who needs some takes the last of its size, but never the first
 * in line, which the sweeper may be at; what was taken is not wiped a second time. */
static void memory_is_claimed(void **state) {
    enum { COUNT = 4, BYTES = 32 << 10 };
    static const size_t size[COUNT] = {BYTES, BYTES, BYTES, 2 * BYTES};
    static uint8_t at[COUNT][2 * BYTES], zero[BYTES];
    const uvcc_allocator records = card_config().alloc;
    uvcc_gpu *x = calloc(1, sizeof *x);
    (void)state;
    assert_non_null(x);
    memset(at, 7, sizeof at);
    uvcci_gpu_pool_init(&x->home.pinned, &records, true, 0);
    assert_int_equal(pthread_mutex_init(&x->lock, NULL), 0);
    assert_int_equal(pthread_cond_init(&x->news, NULL), 0);
    assert_null(uvcci_gpu_claim(x, BYTES));
    for (x->handed = 0; x->handed < COUNT; x->handed++)
        x->sweep[x->handed] = (uvcci_gpu_wipe){at[x->handed], size[x->handed]};
    assert_null(uvcci_gpu_claim(x, 8 * BYTES));
    assert_ptr_equal(uvcci_gpu_claim(x, BYTES - 1), at[2]);
    assert_memory_equal(at[2], zero, BYTES);
    assert_ptr_equal(uvcci_gpu_claim(x, BYTES), at[1]);
    assert_null(uvcci_gpu_claim(x, BYTES));
    memset(at[1], 9, BYTES);
    x->sweeps_last = true;
    (void)uvcci_gpu_sweeper(x);
    assert_int_equal(x->swept, COUNT);
    assert_int_equal(at[1][0], 9);
    assert_ptr_equal(uvcci_gpu_pool_take(&x->home.pinned, BYTES), at[0]);
    assert_null(uvcci_gpu_pool_take(&x->home.pinned, BYTES));
    assert_ptr_equal(uvcci_gpu_pool_take(&x->home.pinned, 2 * BYTES), at[3]);
    assert_memory_equal(at[0], zero, BYTES);
    uvcci_gpu_pool_close(&x->home.pinned, false);
    (void)pthread_cond_destroy(&x->news);
    (void)pthread_mutex_destroy(&x->lock);
    free(x);
}

/* A device that does not answer keeps nobody from wiping what came back before. */
static void messages_of_a_lost_device(void **state) {
    static const uint8_t zero[MESSAGE] = {0};
    uvcc_gpu *x = open_one();
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    (void)state;
    uint8_t *p = al.alloc(al.user, MESSAGE, UVCC_MEM_WIRE);
    assert_non_null(p);
    memset(p, 7, MESSAGE);
    fake_hang(1);
    loose_job j = loose_make(x, 1);
    assert_int_equal(uvcc_gpu_submit(x, &j.job), 0);
    al.free(al.user, p, MESSAGE, UVCC_MEM_WIRE);
    loose_end(x, &j);
    uvcc_gpu_free(x);
    assert_memory_equal(p, zero, MESSAGE);
    fake_hang(0);
}

/* uvcc_gpu_free() does not wait for ever for the thread that launches, which ends by itself. */
static void launcher_is_through(uvcc_gpu *x) {
    (void)pthread_mutex_lock(&x->lock);
    while (!x->launcher_ended)
        (void)pthread_cond_wait(&x->news, &x->lock);
    (void)pthread_mutex_unlock(&x->lock);
}

/* Keys and inputs of jobs that it had, or was to have, go from memory of the host, which stays. */
static void secrets_of_a_lost_device(void **state) {
    static uint8_t pattern[32];
    (void)state;
    memset(pattern, 0xa7, sizeof pattern);
    for (unsigned hangs = 0; hangs < 2; hangs++) {
        uvcc_gpu *x = open_one();
        const uvcc_allocator al = uvcc_gpu_allocator(x);
        uint8_t *text = al.alloc(al.user, 4096, UVCC_MEM_TENSOR);
        uint8_t *digest = al.alloc(al.user, 32, UVCC_MEM_WIRE);
        assert_true(text != NULL && digest != NULL);
        const uvcc_copy_item up = {text, pattern, sizeof pattern};
        uvcc_hash_item h = {.mode = UVCC_HASH_HMAC, .data = text, .len = 4096, .out = digest};
        memcpy(h.key, pattern, sizeof h.key);
        const uvcc_task tasks[] = {{.kind = UVCC_TASK_COPY, .u.copy = {.items = &up, .count = 1}},
                                   {.kind = UVCC_TASK_HASH, .u.hash = {.items = &h, .count = 1}}};
        const uvcc_job job = {.id = 1, .tasks = tasks, .count = 2};
        if (hangs)
            fake_hang(1);
        else
            fake_block(FAKE_LAUNCH);
        assert_int_equal(card_status(x, &job), UVCC_ERR_JOB);
        assert_non_null(strstr(uvcc_gpu_trouble(x), "deadline"));
        fake_block(FAKE_NONE); /* the thread that launches gets away */
        launcher_is_through(x);
        uvcc_gpu_free(x);
        assert_false(fake_pinned_has(pattern, sizeof pattern));
        fake_hang(0);
    }
}

/* ---- sessions ---- */

/* A completion of another session does not end the wait for one's own. */
static void one_waits_for_ones_own(void **state) {
    static sum_job s;
    uvcc_completion c;
    uvcc_gpu *x = open_one();
    (void)state;
    sum_make(&s, x, 1);
    assert_int_equal(uvcc_gpu_submit(x, &s.job), 0);
    uvcc_gpu_wait(x);
    uvcc_gpu_wait_of(x, 5); /* nothing of it is out */
    fake_hang(1);
    loose_job j = loose_make(x, 2);
    assert_int_equal(uvcc_gpu_submit(x, &j.job), 0);
    loose_end(x, &j);
    assert_int_equal(uvcc_gpu_poll(x, &c), 1);
    assert_int_equal(c.cookie, 1);
    assert_int_equal(c.status, 0);
    sum_free(&s);
    uvcc_gpu_free(x);
    fake_hang(0);
}

/* Nothing but a question to its stream tells that a job's kernel failed. Last: the device is broken
 * from here on. */
static void kernels_that_fail(void **state) {
    uvcc_gpu *x = open_one();
    loose_job first = loose_make(x, 1), second = loose_make(x, 2);
    (void)state;
    fake_break();
    assert_int_equal(uvcc_gpu_submit(x, &first.job), 0);
    loose_end(x, &first);
    assert_non_null(strstr(uvcc_gpu_trouble(x), "a fake error"));
    assert_int_equal(uvcc_gpu_submit(x, &second.job), 0);
    loose_end(x, &second);
    uvcc_gpu_free(x);
}

/* What a lost device may still reach stays to the process's end (docs/gpu.md), so LeakSanitizer,
 * which asks this function, would report it. */
int __lsan_is_turned_off(void);
__attribute__((visibility("default"), used)) int __lsan_is_turned_off(void) {
    return 1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_vectors),
        cmocka_unit_test(hashes),
        cmocka_unit_test(hashes_that_fail),
        cmocka_unit_test(hashes_by_whom),
        cmocka_unit_test(devices_are_looked_at),
        cmocka_unit_test(what_is_read_is_not_written),
        cmocka_unit_test(copies_are_within_budgets),
        cmocka_unit_test_teardown(pages_are_there_before_they_are_pinned, pin_as_ever),
        cmocka_unit_test(pages_of_one_device_are_cudas),
        cmocka_unit_test_teardown(pages_that_are_kept_stay, pin_as_ever),
        cmocka_unit_test(memory_of_a_device_is_refused),
        cmocka_unit_test(memory_that_is_lent),
        cmocka_unit_test(public_weights),
        cmocka_unit_test(items_of_a_copy_keep_their_order),
        cmocka_unit_test(tensors_are_zero_when_they_come_back),
        cmocka_unit_test(messages_are_zero_when_they_come_back),
        cmocka_unit_test(memory_that_waits_to_be_wiped),
        cmocka_unit_test(memory_is_said),
        cmocka_unit_test(memory_is_claimed),
        cmocka_unit_test(messages_of_a_lost_device),
        cmocka_unit_test(secrets_of_a_lost_device),
        cmocka_unit_test(kernels_that_never_end),
        cmocka_unit_test(calls_that_do_not_return),
        cmocka_unit_test(memory_that_does_not_come),
        cmocka_unit_test(memory_that_is_not_wiped),
        cmocka_unit_test(one_waits_for_ones_own),
        cmocka_unit_test(kernels_that_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
