/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that a job writes and hashes: the executor makes them on the device, here one that is
 * made of memory of the host (fake/fake_cuda.h). Messages and digests are those of the portable
 * kernels, whatever else a job does with the bytes; and what is staged is not hashed over the bus.
 */
#include "fake/fake_cuda.h"

#include "card_job.h"
#include "gpu/describe.h"
#include "gpu/executor.h"
#include "gpu/staging.h"
#include "vector_test.h"

enum { BLOCK = 4096, HEADER = 40, BLOCKS = 5, DIGEST = 32 };
enum { GARBAGE = 0x5b, ODD = 3, SPAN = HEADER + 8 * BLOCK, MESSAGE = BLOCKS * SPAN + HEADER };

static uvcc_gpu *open_one(void) {
    const uvcc_gpu_config cfg = card_config();
    return card_open(&cfg);
}

static uint64_t staged(uvcc_gpu *x) {
    return atomic_load(&x->home.staged_bytes);
}

static void on_cpu(const uvcc_job *job) {
    const uvcc_cpu_config cfg = {
        .size = sizeof cfg, .alloc = uvcc_host_allocator(), .backend = UVCC_BACKEND_PORTABLE};
    uvcc_completion done;
    uvcc_cpu *cpu = NULL;
    assert_int_equal(uvcc_cpu_new(&cpu, &cfg), 0);
    assert_int_equal(uvcc_cpu_submit(cpu, job), 0);
    assert_int_equal(uvcc_cpu_poll(cpu, &done), 1);
    assert_int_equal(done.status, 0);
    uvcc_cpu_free(cpu);
}

/* ---- a job with two messages ---- */

/* Both of blocks behind headers that the host wrote; the first stands at an odd address. */
typedef struct letters {
    uvcc_allocator al;
    bool pinned_words;
    uint64_t *words;
    uint8_t *room[2], *message[2], *digest, *aside;
    uvcc_block block[2][BLOCKS];
    uvcc_copy_item up, clear, copy[2];
    uvcc_block other; /* of tasks that a case adds */
    uvcc_hash_item part;
    uvcc_step_keys keys;
    uint64_t own[(size_t)BLOCK * BLOCKS];
    uvcc_hash_item item[3];
    uint8_t third[DIGEST]; /* of the host's own, so the device makes it */
    uvcc_task first[2], task[8];
    uvcc_job before, job; /* what the tensors have, and what is done with them */
} letters;

static uvcc_mem_class words_class(const letters *l) {
    return l->pinned_words ? UVCC_MEM_WIRE : UVCC_MEM_TENSOR;
}

/* Tasks: PACK of each message's blocks, the last one's first; HASH of both. */
static void letters_make(letters *l, const uvcc_allocator *al, bool pinned_words) {
    *l = (letters){.al = *al, .pinned_words = pinned_words};
    l->words = al->alloc(al->user, 8 * BLOCK * BLOCKS, words_class(l));
    l->digest = al->alloc(al->user, 2 * DIGEST, UVCC_MEM_STATE);
    l->aside = al->alloc(al->user, MESSAGE, UVCC_MEM_TENSOR);
    assert_true(l->words != NULL && l->digest != NULL && l->aside != NULL);
    for (size_t i = 0; i < (size_t)BLOCK * BLOCKS; i++)
        l->own[i] = 0x9E3779B97F4A7C15u * (i + 1);
    l->up = (uvcc_copy_item){(uint8_t *)l->words, (uint8_t *)l->own, sizeof l->own};
    l->clear = (uvcc_copy_item){l->aside, NULL, MESSAGE};
    l->first[0] = (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = &l->up, .count = 1}};
    l->first[1] = (uvcc_task){.kind = UVCC_TASK_WIPE, .u.copy = {.items = &l->clear, .count = 1}};
    l->before = (uvcc_job){.id = 2, .tasks = l->first, .count = 2};
    for (unsigned m = 0; m < 2; m++) {
        l->room[m] = al->alloc(al->user, MESSAGE + ODD, UVCC_MEM_WIRE);
        assert_non_null(l->room[m]);
        l->message[m] = l->room[m] + (m == 0 ? ODD : 0);
        memset(l->room[m], 0x31, MESSAGE + ODD);
        for (unsigned i = 0; i < BLOCKS; i++)
            l->block[m][BLOCKS - 1 - i] =
                (uvcc_block){.block = i,
                             .count = BLOCK,
                             .role = UVCC_HEAD,
                             .in[0] = l->words + (size_t)BLOCK * i,
                             .wire_out[0] = l->message[m] + HEADER + (size_t)SPAN * i};
        l->task[m] =
            (uvcc_task){.kind = UVCC_TASK_PACK, .u.vec = {.blocks = l->block[m], .count = BLOCKS}};
        l->item[m] = (uvcc_hash_item){.mode = UVCC_HASH_HMAC,
                                      .data = l->message[m],
                                      .len = MESSAGE,
                                      .out = l->digest + (size_t)DIGEST * m};
        memset(l->item[m].key, 7, sizeof l->item[m].key);
    }
    l->task[2] = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = l->item, .count = 2}};
    l->job = (uvcc_job){.id = 1, .tasks = l->task, .count = 3};
}

static void letters_free(letters *l) {
    const uvcc_allocator *al = &l->al;
    al->free(al->user, l->words, 8 * BLOCK * BLOCKS, words_class(l));
    al->free(al->user, l->digest, 2 * DIGEST, UVCC_MEM_STATE);
    al->free(al->user, l->aside, MESSAGE, UVCC_MEM_TENSOR);
    for (unsigned m = 0; m < 2; m++)
        al->free(al->user, l->room[m], MESSAGE + ODD, UVCC_MEM_WIRE);
}

/* Puts a task before the others, or behind the first `at`. */
static void insert(letters *l, uint32_t at, uvcc_task t) {
    memmove(&l->task[at + 1], &l->task[at], (l->job.count - at) * sizeof l->task[0]);
    l->task[at] = t;
    l->job.count++;
}

/* What a case makes of the job. */
typedef void variant(letters *l);

/* The same on both executors; gives how many bytes were staged. */
static uint64_t both_ways(uvcc_gpu *x, variant *change, bool pinned_words) {
    const uvcc_allocator host = uvcc_host_allocator(), card = uvcc_gpu_allocator(x);
    static letters want, got;
    letters_make(&want, &host, pinned_words);
    letters_make(&got, &card, pinned_words);
    if (change != NULL) {
        change(&want);
        change(&got);
    }
    const uint64_t before = staged(x);
    const size_t over_bus = fake_hashed_over_bus();
    on_cpu(&want.before);
    on_cpu(&want.job);
    assert_int_equal(card_status(x, &got.before), 0);
    assert_int_equal(card_status(x, &got.job), 0);
    for (unsigned m = 0; m < 2; m++)
        assert_memory_equal(want.room[m], got.room[m], MESSAGE + ODD);
    assert_memory_equal(want.digest, got.digest, 2 * DIGEST);
    assert_memory_equal(want.third, got.third, DIGEST);
    assert_memory_equal(want.aside, got.aside, MESSAGE);
    const uint64_t bytes = staged(x) - before;
    if (change == NULL)
        assert_int_equal(fake_hashed_over_bus() - over_bus, 2 * MESSAGE - bytes);
    letters_free(&want);
    letters_free(&got);
    return bytes;
}

static void messages_are_staged(void **state) {
    uvcc_gpu *x = open_one();
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(both_ways(x, NULL, false), 2 * MESSAGE);
    uvcc_gpu_free(x);
    assert_int_equal(fake_device_bytes() + fake_pinned_bytes(), 0);
}

/* ---- what keeps a message where it is ---- */

static void read_by_copy(letters *l) {
    l->copy[0] = (uvcc_copy_item){l->aside, l->message[0] + SPAN, 100};
    insert(l, 2, (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = l->copy, .count = 1}});
}

/* Words of a message that was not written yet, and those around its first byte. */
static void read_by_block(letters *l) {
    l->other =
        (uvcc_block){.count = 2, .wire_in[0] = l->message[0] - 2, .out[0] = (uint64_t *)l->aside};
    insert(l, 1, (uvcc_task){.kind = UVCC_TASK_UNPACK, .u.vec = {.blocks = &l->other, .count = 1}});
}

static void read_by_hash(letters *l) {
    l->part = l->item[0];
    l->part.out = l->item[1].out;
    insert(l, 2, (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = &l->part, .count = 1}});
}

static void wiped(letters *l) {
    l->copy[0] = (uvcc_copy_item){l->message[0] + 5, NULL, 20};
    insert(l, 2, (uvcc_task){.kind = UVCC_TASK_WIPE, .u.copy = {.items = l->copy, .count = 1}});
}

static void written_beyond(letters *l) {
    l->copy[0] = (uvcc_copy_item){l->message[0] - 2, (const uint8_t *)l->words, 12};
    insert(l, 2, (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = l->copy, .count = 1}});
}

/* A digest that stands in a message is of its other bytes. */
static void digest_inside(letters *l) {
    l->part = l->item[1];
    l->part.len = SPAN;
    l->part.data = (const uint8_t *)l->words;
    l->part.out = l->message[0] + 1;
    insert(l, 2, (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = &l->part, .count = 1}});
}

static void half_written(letters *l) {
    l->task[0].u.vec.count = BLOCKS - 1;
}

static void hashed_twice(letters *l) {
    l->item[1] = l->item[0];
    l->item[1].out += DIGEST;
    l->item[1].len -= 1;
}

/* An item that begins in a message and ends behind it, where no task writes. */
static void hashed_beyond(letters *l) {
    l->item[0].len -= HEADER / 2;
    l->item[2] = l->item[0];
    l->item[2].data += MESSAGE - 2 * HEADER;
    l->item[2].len = 2 * HEADER;
    l->item[2].out = l->third;
    l->task[2].u.hash.count = 3;
}

/* The third has a part of the first and of the second. */
static void hashed_across(letters *l) {
    l->item[0].len = 2 * SPAN;
    l->item[1].data = l->message[0] + 3 * SPAN;
    l->item[1].len = 2 * SPAN;
    l->item[2] = l->item[0];
    l->item[2].data = l->message[0] + SPAN;
    l->item[2].len = 3 * SPAN;
    l->item[2].out = l->third;
    l->task[2].u.hash.count = 3;
}

static void not_the_last(letters *l) {
    l->copy[0] = (uvcc_copy_item){l->aside, l->digest, DIGEST};
    insert(l, 3, (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = l->copy, .count = 1}});
}

/* A kind of which it is not known here what it writes. */
static void unknown_kind(letters *l) {
    l->other = (uvcc_block){.count = 8,
                            .role = UVCC_HEAD,
                            .out = {(uint64_t *)l->aside, (uint64_t *)(l->aside + 64)},
                            .wire_out[0] = l->message[0] + HEADER};
    insert(l, 2,
           (uvcc_task){.kind = UVCC_TASK_TRIPLE_A,
                       .keys = &l->keys,
                       .u.vec = {.blocks = &l->other, .count = 1}});
}

/* Parts that COPY brings are written too, in whatever order. */
static void copied(letters *l) {
    l->task[0].u.vec.count = BLOCKS - 1; /* the blocks stand last first */
    l->copy[0] =
        (uvcc_copy_item){l->message[0] + HEADER + 7, (const uint8_t *)l->words, 8 * BLOCK - 7};
    l->copy[1] = (uvcc_copy_item){l->message[0] + HEADER, (const uint8_t *)l->words + 9, 7};
    insert(l, 2, (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = l->copy, .count = 2}});
}

static void what_is_staged(void **state) {
    static const struct {
        variant *change;
        unsigned messages;
    } cases[] = {{read_by_copy, 1},   {read_by_block, 1}, {read_by_hash, 1}, {wiped, 1},
                 {written_beyond, 1}, {digest_inside, 1}, {half_written, 1}, {hashed_twice, 0},
                 {hashed_beyond, 1},  {hashed_across, 0}, {not_the_last, 0}, {unknown_kind, 0},
                 {copied, 2}};
    uvcc_gpu *x = open_one();
    (void)state;
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (both_ways(x, cases[i].change, false) != (uint64_t)cases[i].messages * MESSAGE)
            fail_msg("case %u: not %u messages are staged", i, cases[i].messages);
    assert_int_equal(both_ways(x, NULL, true), 0); /* words lie with the messages */
    uvcc_gpu_free(x);
}

/* Tensors go before: of a small device messages take nothing, and of what they may have as much as
 * fits. */
static void room_for_staging(void **state) {
    uvcc_gpu_config cfg = card_config();
    (void)state;
    const uint64_t limits[] = {1 << 20, 64 * (MESSAGE + 1000), 256 * MESSAGE};
    const uint64_t want[] = {0, MESSAGE, 2 * MESSAGE};
    for (unsigned i = 0; i < 3; i++) {
        cfg.device_bytes = limits[i];
        uvcc_gpu *x = card_open(&cfg);
        assert_int_equal(both_ways(x, NULL, false), want[i]);
        uvcc_gpu_free(x);
    }
}

/* Nothing of a message is on the device when its memory goes back. */
static void staged_messages_are_wiped(void **state) {
    uvcc_gpu *x = open_one();
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    uint64_t header[4];
    static letters l;
    (void)state;
    letters_make(&l, &al, false);
    memset(l.message[0] + SPAN, 0x5c, HEADER); /* bytes that are nowhere else */
    memset(header, 0x5c, sizeof header);
    assert_int_equal(card_status(x, &l.job), 0);
    assert_int_equal(staged(x), 2 * MESSAGE);
    letters_free(&l);
    fake_watch(header, sizeof header);
    uvcc_gpu_free(x);
    assert_false(fake_watched());
    fake_watch(NULL, 0);
}

/* ---- messages that came ---- */

/* One of words, hashed by a job of its own, then read by another one's blocks. */
typedef struct parcel {
    uvcc_allocator al;
    uint8_t *message, *digest;
    uint64_t *out;
    uvcc_hash_item item;
    uvcc_task task;
    uvcc_job job;
    uvcc_block block[BLOCKS];
    uvcc_task use[2];
    uvcc_job uses;
    uvcc_copy_item down;
    uint64_t got[(size_t)BLOCK * BLOCKS];
} parcel;
enum { WORDS_BYTES = 8 * BLOCK * BLOCKS };

static void parcel_fill(parcel *p, uint8_t byte) {
    memset(p->message, byte, WORDS_BYTES);
}

static void parcel_make(parcel *p, uvcc_gpu *x) {
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    *p = (parcel){.al = al};
    p->message = al.alloc(al.user, WORDS_BYTES, UVCC_MEM_WIRE);
    p->digest = al.alloc(al.user, DIGEST, UVCC_MEM_STATE);
    p->out = al.alloc(al.user, WORDS_BYTES, UVCC_MEM_TENSOR);
    assert_true(p->message != NULL && p->digest != NULL && p->out != NULL);
    p->item = (uvcc_hash_item){.mode = UVCC_HASH_TREE,
                               .stays = true,
                               .data = p->message,
                               .len = WORDS_BYTES,
                               .out = p->digest};
    p->task = (uvcc_task){.kind = UVCC_TASK_HASH, .u.hash = {.items = &p->item, .count = 1}};
    p->job = (uvcc_job){.id = 1, .tasks = &p->task, .count = 1};
    for (unsigned i = 0; i < BLOCKS; i++)
        p->block[i] = (uvcc_block){.block = i,
                                   .count = BLOCK,
                                   .wire_in[0] = p->message + (size_t)8 * BLOCK * i,
                                   .out[0] = p->out + (size_t)BLOCK * i};
    p->down = (uvcc_copy_item){(uint8_t *)p->got, (const uint8_t *)p->out, WORDS_BYTES};
    p->use[0] =
        (uvcc_task){.kind = UVCC_TASK_UNPACK, .u.vec = {.blocks = p->block, .count = BLOCKS}};
    p->use[1] = (uvcc_task){.kind = UVCC_TASK_COPY, .u.copy = {.items = &p->down, .count = 1}};
    p->uses = (uvcc_job){.id = 2, .tasks = p->use, .count = 2};
}

static void parcel_free(parcel *p) {
    if (p->message != NULL)
        p->al.free(p->al.user, p->message, WORDS_BYTES, UVCC_MEM_WIRE);
    p->al.free(p->al.user, p->digest, DIGEST, UVCC_MEM_STATE);
    p->al.free(p->al.user, p->out, WORDS_BYTES, UVCC_MEM_TENSOR);
}

static void check_digest(const uvcc_hash_item *got, const uint8_t *bytes) {
    uint8_t want[DIGEST];
    uvcc_hash_item h = *got;
    h.data = bytes;
    h.out = want;
    const uvcc_task t = {.kind = UVCC_TASK_HASH, .u.hash = {.items = &h, .count = 1}};
    const uvcc_job job = {.id = 1, .tasks = &t, .count = 1};
    on_cpu(&job);
    assert_memory_equal(want, got->out, DIGEST);
}

/* Hashes it, and gives how many of the blocks that read it then found a copy. */
static unsigned hash_and_use(uvcc_gpu *x, parcel *p, uint8_t byte) {
    const uint64_t before = atomic_load(&x->home.kept_reads);
    parcel_fill(p, byte);
    assert_int_equal(card_status(x, &p->job), 0);
    check_digest(&p->item, p->message);
    assert_int_equal(card_status(x, &p->uses), 0);
    assert_memory_equal(p->got, p->message, WORDS_BYTES);
    return (unsigned)(atomic_load(&x->home.kept_reads) - before);
}

static void messages_are_kept(void **state) {
    uvcc_gpu *x = open_one();
    const size_t over_bus = fake_hashed_over_bus();
    static parcel p, q;
    (void)state;
    parcel_make(&p, x);
    parcel_make(&q, x);
    for (uint8_t i = 1; i < 4; i++) /* the memory is another message's each time */
        assert_int_equal(hash_and_use(x, &p, i), BLOCKS);
    assert_int_equal(hash_and_use(x, &q, 9), BLOCKS);
    assert_int_equal(atomic_load(&x->home.kept.count), 2);
    assert_int_equal(fake_hashed_over_bus(), over_bus);
    assert_int_equal(card_status(x, &p.uses), 0); /* and the other one's is there still */
    assert_memory_equal(p.got, p.message, WORDS_BYTES);
    parcel_free(&p);
    assert_int_equal(atomic_load(&x->home.kept.count), 1);
    parcel_free(&q);
    assert_int_equal(atomic_load(&x->home.kept.count), 0);
    assert_int_equal(x->home.kept.room, 0);
    uvcc_gpu_free(x);
    assert_int_equal(fake_device_bytes() + fake_pinned_bytes(), 0);
}

/* What is hashed anew, in whatever part, is not what it was; what may change is not kept. */
static void kept_until_hashed_anew(void **state) {
    uvcc_gpu *x = open_one();
    static parcel p;
    (void)state;
    parcel_make(&p, x);
    assert_int_equal(hash_and_use(x, &p, 1), BLOCKS);
    p.item.stays = false;
    assert_int_equal(hash_and_use(x, &p, 2), 0);
    p.item.stays = true;
    assert_int_equal(hash_and_use(x, &p, 3), BLOCKS);
    p.item.len = 100;
    p.item.data += 5000; /* the CPU hashes it */
    parcel_fill(&p, 4);
    assert_int_equal(card_status(x, &p.job), 0);
    assert_int_equal(card_status(x, &p.uses), 0);
    assert_memory_equal(p.got, p.message, WORDS_BYTES);
    parcel_free(&p);
    uvcc_gpu_free(x);
}

/* An operand that is not all of the message's is read where it is. */
static void kept_in_part(void **state) {
    uvcc_gpu *x = open_one();
    static parcel p;
    (void)state;
    parcel_make(&p, x);
    p.item.len -= 8;
    assert_int_equal(hash_and_use(x, &p, 1), BLOCKS - 1);
    p.item.data += 8;
    p.item.len -= 8;
    assert_int_equal(hash_and_use(x, &p, 2), BLOCKS - 2);
    parcel_free(&p);
    uvcc_gpu_free(x);
}

static void room_for_copies(void **state) {
    uvcc_gpu *x = open_one();
    static parcel p, q;
    (void)state;
    parcel_make(&p, x);
    parcel_make(&q, x);
    x->home.kept.most = uvcci_kept_room(WORDS_BYTES);
    assert_int_equal(hash_and_use(x, &p, 1), BLOCKS);
    assert_int_equal(hash_and_use(x, &q, 2), 0);
    p.al.free(p.al.user, p.message, WORDS_BYTES, UVCC_MEM_WIRE);
    p.message = NULL;
    assert_int_equal(hash_and_use(x, &q, 3), BLOCKS);
    parcel_free(&q);
    parcel_free(&p);
    uvcc_gpu_free(x);
}

/* A message may be hashed anew while a job reads what was copied: the copy's memory is not another
 * one's before that job is over. */
static void kept_while_it_is_read(void **state) {
    enum { BYTES = 1000, READER = 4 };
    static uint8_t first[BYTES], second[BYTES], block[BYTES + 256];
    uvcci_kept k = {0};
    uvcci_kept_copy c = {.at = first, .bytes = BYTES}, other = {.at = second, .bytes = BYTES},
                    found;
    (void)state;
    uvcci_kept_init(&k, 2 * uvcci_kept_room(BYTES));
    assert_true(uvcci_kept_reserve(&k, &c));
    c.block = block;
    uvcci_kept_add(&k, &c);
    assert_true(uvcci_kept_find(&k, first, BYTES, READER, &found));
    uvcci_kept_forget(&k, first, BYTES);
    assert_true(uvcci_kept_reserve(&k, &other));
    assert_null(other.block);
    uvcci_kept_drop(&k, &other);
    uvcci_kept_release(&k, 1);
    assert_true(uvcci_kept_reserve(&k, &other));
    assert_null(other.block);
    uvcci_kept_drop(&k, &other);
    uvcci_kept_release(&k, READER);
    assert_true(uvcci_kept_reserve(&k, &other));
    assert_ptr_equal(other.block, block);
    uvcci_kept_drop(&k, &other);
    uvcci_kept_close(&k);
}

/* Copies that nobody gave back are zeroed too, and so is the memory of those that were. */
static void copies_are_wiped(void **state) {
    uint8_t bytes[64];
    (void)state;
    memset(bytes, 0x5d, sizeof bytes);
    for (unsigned early = 0; early < 2; early++) {
        uvcc_gpu *x = open_one();
        static parcel p;
        parcel_make(&p, x);
        parcel_fill(&p, 0x5d);
        assert_int_equal(card_status(x, &p.job), 0);
        assert_int_equal(atomic_load(&x->home.kept.count), 1);
        if (early != 0)
            parcel_free(&p);
        fake_watch(bytes, sizeof bytes);
        uvcc_gpu_free(x);
        assert_false(fake_watched());
        fake_watch(NULL, 0);
    }
}

/* ---- all kinds ---- */

static size_t written_most(const uvcc_task *t, const uvcc_block *b, unsigned k) {
    uvcci_wire_piece piece[UVCCI_WIRE_PIECES];
    const int n = uvcci_gpu_wire_pieces(t, b, piece);
    size_t most = 0;
    for (int i = 0; i < n; i++) {
        const size_t at = (size_t)(piece[i].at - b->wire_out[k]);
        const bool other = n > 1 && piece[i].at == b->wire_out[1 - k];
        if (piece[i].at != NULL && b->wire_out[k] != NULL && !other && at < (size_t)1 << 20 &&
            at + piece[i].most > most)
            most = at + piece[i].most;
    }
    return most;
}

/* What is said to be written is: garbage that stood there is gone, or results are wrong. */
static int run_on_garbage(void *user, const uvcc_job *job, uvcc_completion *done) {
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        for (uint32_t k = 0; uvcci_gpu_is_vec(t->kind) && k < t->u.vec.count; k++) {
            uvcci_wire_piece piece[UVCCI_WIRE_PIECES];
            const bool sane = uvcci_gpu_check(t) == 0;
            const int n = sane ? uvcci_gpu_wire_pieces(t, &t->u.vec.blocks[k], piece) : 0;
            for (int p = 0; p < n; p++)
                if (piece[p].at != NULL)
                    memset(piece[p].at, GARBAGE, piece[p].bytes);
        }
    }
    return card_run(user, job, done);
}

static void all_kinds_on_garbage(void **state) {
    uvcc_gpu *x = open_one();
    vector_executor v = {.run = run_on_garbage, .user = x};
    (void)state;
    v.memory = uvcc_gpu_allocator(x);
    vector_test_random(&v, 5);
    uvcc_gpu_free(x);
}

/* A block whose messages are pinned memory of their own. */
typedef struct envelope {
    uint8_t *room, *at, *original;
    size_t bytes;
} envelope;
enum { ROOM = 128 };

/* The task's messages are staged, its other operands are the device's. */
static int run_staged(void *user, const uvcc_job *job, uvcc_completion *done) {
    uvcc_gpu *x = user;
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    const uvcc_task *t = &job->tasks[0];
    if (job->count != 1 || !uvcci_gpu_is_vec(t->kind) || uvcci_gpu_check(t) != 0)
        return card_run(user, job, done);
    const uint32_t count = t->u.vec.count;
    uvcc_block *block = calloc(count, sizeof *block);
    envelope *e = calloc(2 * count, sizeof *e);
    uvcc_hash_item *item = calloc(2 * count, sizeof *item);
    uint8_t *digest = al.alloc(al.user, 2 * count * DIGEST, UVCC_MEM_STATE);
    uint32_t items = 0;
    assert_true(block != NULL && e != NULL && item != NULL && digest != NULL);
    for (uint32_t i = 0; i < 2 * count; i++) {
        uvcc_block *b = &block[i / 2];
        if (i % 2 == 0)
            *b = t->u.vec.blocks[i / 2];
        e[i].bytes = written_most(t, &t->u.vec.blocks[i / 2], i % 2);
        if (e[i].bytes == 0)
            continue;
        e[i].original = b->wire_out[i % 2];
        e[i].room = al.alloc(al.user, e[i].bytes + ROOM, UVCC_MEM_WIRE);
        assert_non_null(e[i].room);
        e[i].at = e[i].room + (uintptr_t)e[i].original % 16;
        memcpy(e[i].at, e[i].original, e[i].bytes);
        b->wire_out[i % 2] = e[i].at;
        item[items] = (uvcc_hash_item){.mode = UVCC_HASH_TREE,
                                       .data = e[i].at,
                                       .len = e[i].bytes,
                                       .out = digest + (size_t)DIGEST * items};
        items++;
    }
    uvcc_task tasks[2] = {*t, {.kind = UVCC_TASK_HASH, .u.hash = {.items = item, .count = items}}};
    tasks[0].u.vec.blocks = block;
    const uvcc_job with = {.id = job->id, .cookie = job->cookie, .tasks = tasks, .count = 2};
    const int rc = card_run(user, &with, done);
    for (uint32_t i = 0, k = 0; i < 2 * count; i++) {
        if (e[i].bytes == 0)
            continue;
        check_digest(&item[k++], e[i].at);
        memcpy(e[i].original, e[i].at, e[i].bytes);
        al.free(al.user, e[i].room, e[i].bytes + ROOM, UVCC_MEM_WIRE);
    }
    al.free(al.user, digest, 2 * count * DIGEST, UVCC_MEM_STATE);
    free(item);
    free(e);
    free(block);
    return rc;
}

/* Of the fake device, whose memory the test reaches; none comes back, or it would be zeroed when
 * the test had it again. */
static void *take_tensor(void *user, size_t bytes, uvcc_mem_class cls) {
    const uvcc_allocator al = uvcc_gpu_allocator(user);
    (void)cls;
    return al.alloc(al.user, bytes, UVCC_MEM_TENSOR);
}

static void give_tensor(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    (void)user;
    (void)p;
    (void)bytes;
    (void)cls;
}

static void all_kinds_staged(void **state) {
    uvcc_gpu *x = open_one();
    const vector_executor v = {
        .run = run_staged, .user = x, .memory = {take_tensor, give_tensor, x}};
    (void)state;
    x->home.stage_least = 0;
    vector_test_random(&v, 6);
    assert_true(staged(x) > 100000);
    uvcc_gpu_free(x);
}

/* What came back is zeroed before it runs: the test writes to memory of the device itself. */
static void settle(uvcc_gpu *x) {
    uint8_t byte = 1;
    const uvcc_copy_item it = {&byte, NULL, 1};
    const uvcc_task t = {.kind = UVCC_TASK_WIPE, .u.copy = {.items = &it, .count = 1}};
    const uvcc_job job = {.id = 1, .cookie = 99, .tasks = &t, .count = 1};
    assert_int_equal(card_status(x, &job), 0);
}

/* Of BOOL tasks and of SR_FINISH it is not said how much less than that they read. */
static bool reads_exactly(const uvcc_task *t) {
    return t->kind != UVCC_TASK_SR_FINISH && t->kind != UVCC_TASK_SR2_FINISH &&
           (t->kind < UVCC_TASK_BOOL_SHARE || t->kind > UVCC_TASK_BOOL_SELECT_FINISH);
}

/* Of what the task's blocks read of messages there is a copy, of as much as they read. */
static int run_kept(void *user, const uvcc_job *job, uvcc_completion *done) {
    uvcc_gpu *x = user;
    const uvcc_allocator al = uvcc_gpu_allocator(x);
    const uvcc_task *t = &job->tasks[0];
    if (job->count != 1 || !uvcci_gpu_is_vec(t->kind) || uvcci_gpu_check(t) != 0 ||
        !reads_exactly(t))
        return card_run(user, job, done);
    const uint32_t count = t->u.vec.count;
    uvcc_block *block = calloc(count, sizeof *block);
    envelope *e = calloc(2 * count, sizeof *e);
    uint8_t *digest = al.alloc(al.user, DIGEST, UVCC_MEM_STATE);
    const uint64_t before = atomic_load(&x->home.kept_reads);
    uint32_t reads = 0;
    assert_true(block != NULL && e != NULL && digest != NULL);
    for (uint32_t i = 0; i < 2 * count; i++) {
        uvcc_block *b = &block[i / 2];
        if (i % 2 == 0)
            *b = t->u.vec.blocks[i / 2];
        if (b->wire_in[i % 2] == NULL)
            continue;
        e[i].bytes = uvcci_gpu_wire_in_most(t, b);
        e[i].room = al.alloc(al.user, e[i].bytes + ROOM, UVCC_MEM_WIRE);
        assert_non_null(e[i].room);
        e[i].at = e[i].room + i % 16;
        memset(e[i].room, GARBAGE, e[i].bytes + ROOM);
        memcpy(e[i].at, b->wire_in[i % 2], e[i].bytes);
        const uvcc_hash_item h = {.mode = UVCC_HASH_TREE,
                                  .stays = true,
                                  .data = e[i].at,
                                  .len = e[i].bytes,
                                  .out = digest};
        const uvcc_task hash = {.kind = UVCC_TASK_HASH, .u.hash = {.items = &h, .count = 1}};
        const uvcc_job first = {.id = 1, .cookie = job->cookie, .tasks = &hash, .count = 1};
        assert_int_equal(card_status(x, &first), 0);
        check_digest(&h, e[i].at);
        memset(e[i].room, GARBAGE,
               e[i].bytes + ROOM); /* who read it there would give another result */
        b->wire_in[i % 2] = e[i].at;
        reads++;
    }
    uvcc_task task = *t;
    task.u.vec.blocks = block;
    const uvcc_job with = {.id = job->id, .cookie = job->cookie, .tasks = &task, .count = 1};
    const int rc = card_run(user, &with, done);
    assert_int_equal(atomic_load(&x->home.kept_reads) - before, reads);
    for (uint32_t i = 0; i < 2 * count; i++)
        if (e[i].room != NULL)
            al.free(al.user, e[i].room, e[i].bytes + ROOM, UVCC_MEM_WIRE);
    al.free(al.user, digest, DIGEST, UVCC_MEM_STATE);
    free(e);
    free(block);
    settle(x);
    return rc;
}

static void all_kinds_kept(void **state) {
    uvcc_gpu *x = open_one();
    const vector_executor v = {.run = run_kept, .user = x, .memory = {take_tensor, give_tensor, x}};
    (void)state;
    x->home.stage_least = 0;
    vector_test_random(&v, 7);
    assert_true(atomic_load(&x->home.kept_reads) > 100);
    assert_int_equal(atomic_load(&x->home.kept.count), 0);
    uvcc_gpu_free(x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_are_staged), cmocka_unit_test(what_is_staged),
        cmocka_unit_test(room_for_staging),    cmocka_unit_test(staged_messages_are_wiped),
        cmocka_unit_test(messages_are_kept),   cmocka_unit_test(kept_until_hashed_anew),
        cmocka_unit_test(kept_in_part),        cmocka_unit_test(room_for_copies),
        cmocka_unit_test(copies_are_wiped),    cmocka_unit_test(kept_while_it_is_read),
        cmocka_unit_test(all_kinds_kept),      cmocka_unit_test(all_kinds_on_garbage),
        cmocka_unit_test(all_kinds_staged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
