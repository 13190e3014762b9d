/* SPDX-License-Identifier: Apache-2.0 */
/* Tasks on a CUDA device: what libuvcc-gpu does in a second, each task as a job of its own, from
 * uvcc_gpu_submit() to the completion, over operands that lie on the device (messages in pinned
 * memory of the host where it says so). Of several runs the median, one JSON object a line. Skipped
 * without a device. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <uvcc/function.h>
#include <uvcc/gpu.h>
#include <uvcc/host.h>

#include "card.h"

enum { RUNS = 5, BLOCK = UVCC_BLOCK_ELEMS, SKIPPED = 77 };

static uvcc_step_keys keys;

/* Seconds that a job of that task takes; the first loads the kernel. */
static double time_of(const uvcc_task *t) {
    const uvcc_job job = {.id = 1, .tasks = t, .count = 1};
    double took[RUNS];
    time_job(&job, 1, RUNS, took);
    return took[RUNS / 2];
}

static void row(const char *what, double amount, double s, const char *unit) {
    (void)printf("{\"bench\": \"gpu\", \"task\": \"%s\", \"ms\": %.4f, \"rate\": %.5g, "
                 "\"unit\": \"%s\"}\n",
                 what, 1e3 * s, amount / s, unit);
    (void)fflush(stdout);
}

/* ---- matrix products ---- */

static void product(uint32_t m, uint32_t k, uint32_t n) {
    char what[64];
    uint64_t *x = take((size_t)m * k * 16, UVCC_MEM_TENSOR);
    uint64_t *y = take((size_t)k * n * 16, UVCC_MEM_TENSOR);
    uint64_t *z = take((size_t)m * n * 8, UVCC_MEM_TENSOR);
    const uvcc_task t = {.kind = UVCC_TASK_GEMM,
                         .u.gemm = {.m = m,
                                    .n = n,
                                    .k = k,
                                    .x = {x, x + (size_t)m * k},
                                    .y = {y, y + (size_t)k * n},
                                    .z = z}};
    (void)snprintf(what, sizeof what, "GEMM %u x %u x %u, of shares", m, k, n);
    row(what, 2e-12 * m * k * n, time_of(&t), "TMAC/s mod 2^64");
    memory.free(memory.user, x, (size_t)m * k * 16, UVCC_MEM_TENSOR);
    memory.free(memory.user, y, (size_t)k * n * 16, UVCC_MEM_TENSOR);
    memory.free(memory.user, z, (size_t)m * n * 8, UVCC_MEM_TENSOR);
}

/* As attention does: for each head a product of its own, columns of all side by side. */
static void products_of_heads(uint32_t m, uint32_t k, uint32_t n, uint32_t heads) {
    char what[64];
    const size_t x_words = (size_t)m * k * heads, y_words = (size_t)k * n * heads,
                 z_words = (size_t)m * n * heads;
    uint64_t *all = take((2 * x_words + 2 * y_words + z_words) * 8, UVCC_MEM_TENSOR);
    uint64_t *y = all + 2 * x_words;
    const uvcc_task t = {.kind = UVCC_TASK_GEMM,
                         .u.gemm = {.m = m,
                                    .n = n,
                                    .k = k,
                                    .groups = 1,
                                    .heads = heads,
                                    .trans_y = true,
                                    .lx = {.ld = (size_t)k * heads, .head = k},
                                    .ly = {.ld = (size_t)k * heads, .head = k},
                                    .lz = {.ld = n, .head = (size_t)m * n},
                                    .x = {all, all + x_words},
                                    .y = {y, y + y_words},
                                    .z = y + 2 * y_words}};
    (void)snprintf(what, sizeof what, "GEMM %u x %u x %u, %u heads", m, k, n, heads);
    row(what, 2e-12 * m * k * n * heads, time_of(&t), "TMAC/s mod 2^64");
    memory.free(memory.user, all, (2 * x_words + 2 * y_words + z_words) * 8, UVCC_MEM_TENSOR);
}

/* ---- tasks of blocks ---- */

/* Blocks whose operands are parts of a few large ones. */
typedef struct blocks {
    uvcc_block *b;
    uint32_t count;
    uint8_t *all;
    size_t each, bytes;
} blocks;

static blocks make_blocks(uint32_t count, size_t each, uvcc_role role, uvcc_mem_class cls) {
    blocks k = {.count = count, .each = each, .bytes = count * each};
    k.b = calloc(count, sizeof *k.b);
    k.all = take(k.bytes, cls);
    must(k.b != NULL, "no memory");
    for (uint32_t i = 0; i < count; i++) {
        k.b[i].block = i;
        k.b[i].count = BLOCK;
        k.b[i].role = (uint8_t)role;
    }
    return k;
}

static void drop_blocks(blocks *k, uvcc_mem_class cls) {
    memory.free(memory.user, k->all, k->bytes, cls);
    free(k->b);
}

static size_t key_bytes(unsigned n) {
    const size_t depth = n > 7 ? n - 7 : 0;
    return BLOCK * (16 * depth + 16 + (2 * depth + 7) / 8);
}

static void comparisons(unsigned bits, uint32_t count) {
    char what[64];
    const int64_t zero = 0;
    const uvcc_fn_args fn = {.bits = (uint8_t)bits, .word_count = 1, .words = &zero};
    blocks k =
        make_blocks(count, 16 * BLOCK + BLOCK / 8 + key_bytes(bits), UVCC_HEAD, UVCC_MEM_TENSOR);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *at = k.all + i * k.each;
        k.b[i].in[0] = (uint64_t *)(void *)at;
        k.b[i].out[0] = (uint64_t *)(void *)(at + 8 * BLOCK);
        k.b[i].wire_out[0] = at + 16 * BLOCK;
        k.b[i].key = at + 16 * BLOCK + BLOCK / 8;
    }
    const uvcc_task t = {.kind = UVCC_TASK_FN_COMPARE,
                         .keys = &keys,
                         .u.vec = {.blocks = k.b, .count = count, .fn = &fn}};
    const double s = time_of(&t), elems = (double)count * BLOCK;
    (void)snprintf(what, sizeof what, "FN_COMPARE, DPF of %u bits, keys on the device", bits);
    row(what, 1e-6 * elems, s, "M/s");
    (void)snprintf(what, sizeof what, "FN_COMPARE, DPF of %u bits: AES of it", bits);
    row(what, 1e-9 * elems * (bits > 7 ? bits - 6 : 1), s, "G blocks/s");
    drop_blocks(&k, UVCC_MEM_TENSOR);
}

/* As GELU's: entries of two bytes. */
static void tables(unsigned bits, uint32_t entries, uint32_t count) {
    static int32_t of[UVCC_FN_ENTRIES_MAX];
    char what[64];
    const uvcc_fn_args fn = {.bits = (uint8_t)bits, .entry_count = entries, .entries = of};
    for (uint32_t i = 0; i < entries; i++)
        of[i] = -(int32_t)(i * 7919u % 700);
    blocks k = make_blocks(count, 24 * BLOCK + key_bytes(bits), UVCC_HEAD, UVCC_MEM_TENSOR);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *at = k.all + i * k.each;
        k.b[i].in[0] = (uint64_t *)(void *)at;
        k.b[i].out[0] = (uint64_t *)(void *)(at + 8 * BLOCK);
        k.b[i].wire_out[0] = at + 16 * BLOCK;
        k.b[i].key = at + 24 * BLOCK;
    }
    const uvcc_task t = {.kind = UVCC_TASK_FN_TABLE,
                         .keys = &keys,
                         .u.vec = {.blocks = k.b, .count = count, .fn = &fn}};
    (void)snprintf(what, sizeof what, "FN_TABLE, %u entries, %u bits, %u elements", entries, bits,
                   count * BLOCK);
    row(what, 1e-6 * count * BLOCK, time_of(&t), "M/s");
    drop_blocks(&k, UVCC_MEM_TENSOR);
}

/* As those of LAYERNORM and SOFTMAX: few elements, whose nodes come one after the other. */
static void multi_scale_tables(unsigned bits, unsigned scales, uint32_t elems) {
    enum { CELLS = 9, WORDS = 9 * CELLS };
    static int64_t words[WORDS * 16];
    char what[64];
    const uvcc_fn_args fn = {.bits = (uint8_t)bits,
                             .shift = 4,
                             .first = CELLS,
                             .words = words,
                             .word_count = WORDS * scales};
    const size_t key = elems * (16 * bits + 24 * scales + (2 * bits + 7) / 8);
    blocks k = make_blocks(1, 16 * BLOCK + key, UVCC_HEAD, UVCC_MEM_TENSOR);
    k.b[0].count = elems;
    k.b[0].in[0] = (uint64_t *)(void *)k.all;
    k.b[0].out[0] = (uint64_t *)(void *)(k.all + 8 * BLOCK);
    k.b[0].key = k.all + 16 * BLOCK;
    const uvcc_task t = {.kind = UVCC_TASK_FN_MULTISCALE,
                         .keys = &keys,
                         .u.vec = {.blocks = k.b, .count = 1, .fn = &fn}};
    (void)snprintf(what, sizeof what, "FN_MULTISCALE, %u scales, %u bits, %u elements", scales,
                   bits, elems);
    row(what, 1e-6 * elems, time_of(&t), "M/s");
    drop_blocks(&k, UVCC_MEM_TENSOR);
}

/* HEAD draws its dealt words, TAIL reads them. */
static void greatest(uvcc_role role, uint32_t elems) {
    enum { PAIRS = 6, WORDS = 42 };
    char what[64];
    const uvcc_fn_args fn = {.bits = 1};
    blocks k = make_blocks(1, (size_t)8 * BLOCK * (3 * PAIRS + WORDS + 1), role, UVCC_MEM_TENSOR);
    uint64_t *at = (uint64_t *)(void *)k.all;
    k.b[0].count = elems;
    for (unsigned i = 0; i < 3; i++)
        k.b[0].in[i] = at + (size_t)i * PAIRS * BLOCK;
    k.b[0].words[0] = k.all + (size_t)8 * 3 * PAIRS * BLOCK;
    k.b[0].out[0] = at + (size_t)(3 * PAIRS + WORDS) * BLOCK;
    const uvcc_task t = {
        .kind = UVCC_TASK_FN_BEST, .keys = &keys, .u.vec = {.blocks = k.b, .count = 1, .fn = &fn}};
    (void)snprintf(what, sizeof what, "FN_BEST at %s, %u elements",
                   role == UVCC_HEAD ? "HEAD" : "TAIL", elems);
    row(what, 1e-6 * elems, time_of(&t), "M/s");
    drop_blocks(&k, UVCC_MEM_TENSOR);
}

static void dealing(unsigned bits, uint32_t count) {
    char what[64];
    const uvcc_fn_args fn = {.bits = (uint8_t)bits};
    blocks k = make_blocks(count, 8 * BLOCK + 2 * key_bytes(bits), UVCC_OTHER, UVCC_MEM_TENSOR);
    for (uint32_t i = 0; i < count; i++) {
        uint8_t *at = k.all + i * k.each;
        k.b[i].in[0] = (uint64_t *)(void *)at;
        k.b[i].out_bytes[0] = at + 8 * BLOCK;
        k.b[i].out_bytes[1] = at + 8 * BLOCK + key_bytes(bits);
    }
    const uvcc_task t = {.kind = UVCC_TASK_FN_DEAL_KEY,
                         .keys = &keys,
                         .u.vec = {.blocks = k.b, .count = count, .fn = &fn}};
    (void)snprintf(what, sizeof what, "FN_DEAL_KEY, %u bits, keys on the device", bits);
    row(what, 1e-6 * count * BLOCK, time_of(&t), "M pairs/s");
    drop_blocks(&k, UVCC_MEM_TENSOR);
}

static void packing(uint32_t count) {
    blocks k = make_blocks(count, 8 * BLOCK, UVCC_HEAD, UVCC_MEM_TENSOR);
    blocks w = make_blocks(count, 8 * BLOCK, UVCC_HEAD, UVCC_MEM_WIRE);
    for (uint32_t i = 0; i < count; i++) {
        k.b[i].in[0] = (uint64_t *)(void *)(k.all + i * k.each);
        k.b[i].wire_out[0] = w.all + i * w.each;
    }
    const uvcc_task t = {.kind = UVCC_TASK_PACK, .u.vec = {.blocks = k.b, .count = count}};
    row("PACK into pinned memory of the host", 8e-9 * count * BLOCK, time_of(&t), "GB/s");
    drop_blocks(&k, UVCC_MEM_TENSOR);
    drop_blocks(&w, UVCC_MEM_WIRE);
}

static void masking(uint32_t count) {
    blocks k = make_blocks(count, 32 * BLOCK, UVCC_HEAD, UVCC_MEM_TENSOR);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t *at = (uint64_t *)(void *)(k.all + i * k.each);
        k.b[i].in[0] = at;
        k.b[i].in[1] = at + BLOCK;
        k.b[i].out[0] = at + 2 * BLOCK;
        k.b[i].wire_out[0] = (uint8_t *)(at + 3 * BLOCK);
    }
    const uvcc_task t = {
        .kind = UVCC_TASK_OPEN2_MASK, .keys = &keys, .u.vec = {.blocks = k.b, .count = count}};
    row("OPEN2_MASK, message on the device", 1e-9 * count * BLOCK, time_of(&t), "G elements/s");
    drop_blocks(&k, UVCC_MEM_TENSOR);
}

/* ---- the rest ---- */

static void sums(uint32_t rows, uint32_t cols) {
    char what[64];
    const size_t n = (size_t)rows * cols;
    uint64_t *x = take(48 * n, UVCC_MEM_TENSOR);
    uvcc_task t = {.kind = UVCC_TASK_MAP,
                   .u.map = {.op = UVCC_MAP_ADD,
                             .rows = rows,
                             .cols = cols,
                             .x = {x, x + n},
                             .y = {x + 2 * n, x + 3 * n},
                             .out = {x + 4 * n, x + 5 * n}}};
    (void)snprintf(what, sizeof what, "MAP ADD of shares, %u x %u", rows, cols);
    row(what, 48e-9 * (double)n, time_of(&t), "GB/s");
    t.u.map.op = UVCC_MAP_SUM_COLS;
    (void)snprintf(what, sizeof what, "MAP SUM_COLS, %u x %u", rows, cols);
    row(what, 16e-9 * (double)n, time_of(&t), "GB/s");
    t.u.map.op = UVCC_MAP_SUM_ROWS;
    (void)snprintf(what, sizeof what, "MAP SUM_ROWS, %u x %u", rows, cols);
    row(what, 16e-9 * (double)n, time_of(&t), "GB/s");
    memory.free(memory.user, x, 48 * n, UVCC_MEM_TENSOR);
}

static void digests(size_t bytes, uint32_t count) {
    char what[64];
    uint8_t *data = take(bytes * count, UVCC_MEM_TENSOR), *out = take(32u * count, UVCC_MEM_WIRE);
    uvcc_hash_item *items = calloc(count, sizeof *items);
    must(items != NULL, "no memory");
    for (uint32_t i = 0; i < count; i++) {
        items[i] = (uvcc_hash_item){.mode = UVCC_HASH_TREE, .data = data + i * bytes, .len = bytes};
        items[i].out = out + (size_t)32 * i;
    }
    const uvcc_task t = {.kind = UVCC_TASK_HASH, .u.hash = {.items = items, .count = count}};
    (void)snprintf(what, sizeof what, "HASH, %u trees of %zu KiB", count, bytes >> 10);
    row(what, 1e-9 * (double)bytes * count, time_of(&t), "GB/s");
    memory.free(memory.user, data, bytes * count, UVCC_MEM_TENSOR);
    memory.free(memory.user, out, 32u * count, UVCC_MEM_WIRE);
    free(items);
}

int main(void) {
    const char *why = NULL;
    uvcc_gpu_config cfg = {.size = sizeof cfg};
    cfg.alloc = uvcc_host_allocator();
    if (uvcc_gpu_count(&why) == 0) {
        (void)printf("skipped: %s\n", why);
        return SKIPPED;
    }
    must(uvcc_gpu_new(&gpu, &cfg) == 0, "no executor");
    memory = uvcc_gpu_allocator(gpu);
    for (size_t i = 0; i < sizeof keys; i++)
        ((uint8_t *)&keys)[i] = (uint8_t)(37 * i + 11);
    sums(1, 1);
    product(4096, 4096, 4096);
    product(512, 3072, 768);
    product(128, 4096, 4096);
    product(1, 4096, 4096);
    products_of_heads(128, 64, 128, 12);
    products_of_heads(64, 64, 64, 12);
    comparisons(63, 512);
    comparisons(16, 2048);
    comparisons(26, 1);
    tables(17, 3584, 96);
    tables(17, 3584, 16);
    tables(17, 3584, 4);
    tables(20, 209, 2);
    multi_scale_tables(30, 9, 128);
    multi_scale_tables(20, 5, 192);
    greatest(UVCC_HEAD, 1024);
    greatest(UVCC_TAIL, 1024);
    dealing(64, 256);
    dealing(16, 512);
    masking(4096);
    packing(4096);
    sums(8192, 8192);
    digests(4096, 65536);
    digests(1 << 20, 256);
    digests(8 << 20, 1);
    uvcc_gpu_free(gpu);
    return 0;
}
