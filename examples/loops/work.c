/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - see work.h. The perceptron is that of docs/training.md: `uvcc train --hidden 16 --batch
 * 32 --epochs 1` in one process opens the same weights. */
#include "work.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAC_BITS 16
enum { ROWS = 2, INNER = 3, COLS = 2 };
enum { IN_X = 1, IN_W = 2, OUT_Y = 3 };
static const double x_values[ROWS * INNER] = {1.5, -2.0, 0.25, 0.5, 1.0, -1.0};
static const double w_values[INNER * COLS] = {1.0, -0.5, 2.0, 0.25, -4.0, 8.0};

/* The digits: public are their number, form and greatest feature. Every fifth row is held out. */
enum { FEATURES = 64, CLASSES = 10, TABLE_ROWS = 1797, TRAIN_ROWS = 1438, FEATURE_MAX = 16 };
#define SEED 1
static const uvcc_mlp_config mlp = {.features = FEATURES,
                                    .classes = CLASSES,
                                    .hidden_count = 1,
                                    .hidden = {16},
                                    .batch = 32,
                                    .lr_shift = 2,
                                    .frac_bits = FRAC_BITS,
                                    .x_owner = 0,
                                    .y_owner = 1};

static int say(const char *what, int rc) {
    fprintf(stderr, "%s: %s\n", what, uvcc_error_text(rc));
    return rc;
}

/* ---- relu(X W): one step ---- */

static int tensor(uvcc_program *p, const char *name, uint32_t rows, uint32_t cols, uint8_t bits,
                  uint8_t scale) {
    return uvcc_program_tensor(p, &(uvcc_tensor_desc){.name = name,
                                                      .rows = rows,
                                                      .cols = cols,
                                                      .bits = bits,
                                                      .scale = scale,
                                                      .lifetime = UVCC_TRANSIENT,
                                                      .in_buffer_of = UVCC_NO_TENSOR});
}

static int relu_program(uvcc_program **out, const uvcc_allocator *al, char *why, size_t why_cap) {
    int rc = uvcc_program_new(out, al);
    if (rc != 0)
        return rc;
    uvcc_program *p = *out;
    const int x = tensor(p, "X", ROWS, INNER, 20, FRAC_BITS);
    const int w = tensor(p, "W", INNER, COLS, 20, FRAC_BITS);
    const int z = tensor(p, "Z", ROWS, COLS, 26, FRAC_BITS);
    const int y = tensor(p, "Y", ROWS, COLS, 26, FRAC_BITS);
    const int d = tensor(p, "D", ROWS, COLS, 1, 0);
    const uvcc_op_desc product = {.opcode = UVCC_OP_GEMM_SS,
                                  .in_count = 2,
                                  .in = {(uint32_t)x, (uint32_t)w},
                                  .out_count = 1,
                                  .out = {(uint32_t)z},
                                  .shift = FRAC_BITS,
                                  .truncation = UVCC_TRUNC_EXACT};
    const uvcc_op_desc relu = {.opcode = UVCC_OP_RELU,
                               .k = 1,
                               .in_count = 1,
                               .in = {(uint32_t)z},
                               .out_count = 2,
                               .out = {(uint32_t)y, (uint32_t)d}};
    if (x < 0 || w < 0 || z < 0 || y < 0 || d < 0 || uvcc_program_entry(p, "relu(XW)") < 0 ||
        uvcc_program_input(p, IN_X, (uint32_t)x, 0) < 0 ||
        uvcc_program_input(p, IN_W, (uint32_t)w, 1) < 0 || uvcc_program_op(p, &product) < 0 ||
        uvcc_program_op(p, &relu) < 0 || uvcc_program_output(p, OUT_Y, (uint32_t)y) < 0)
        return UVCC_ERR_PROGRAM;
    return uvcc_program_finish(p, why, why_cap);
}

static int relu_input(uvcc_store *st, uvcc_session *s, uint32_t step, uint32_t id, const double *v,
                      uint64_t now) {
    int64_t fixed[ROWS * INNER];
    for (size_t i = 0; i < ROWS * INNER; i++)
        fixed[i] = (int64_t)(v[i] * (1 << FRAC_BITS));
    return uvcc_store_input(st, s, step, id, fixed, now);
}
_Static_assert(ROWS *INNER == INNER * COLS, "relu_input() takes both");

/* ---- the digits ---- */

/* Each party keeps what is its own of a row: the features, or the label as ten numbers. */
static int read_digits(work *w, const char *path) {
    char line[1024];
    FILE *f = path != NULL ? fopen(path, "r") : NULL;
    unsigned row = 0, kept = 0;
    w->x = calloc((size_t)TRAIN_ROWS * FEATURES, sizeof *w->x);
    w->y = calloc((size_t)TRAIN_ROWS * CLASSES, sizeof *w->y);
    while (f != NULL && w->x != NULL && w->y != NULL && fgets(line, sizeof line, f) != NULL) {
        char *at = line;
        if (row++ % 5 == 4 || kept == TRAIN_ROWS)
            continue;
        for (unsigned i = 0; i < FEATURES; i++, at += *at == ',') {
            const long v = strtol(at, &at, 10);
            if (w->party == 0)
                w->x[kept * FEATURES + i] = v * (1 << FRAC_BITS) / FEATURE_MAX;
        }
        if (w->party == 1)
            w->y[kept * CLASSES + (size_t)(strtoul(at, NULL, 10) % CLASSES)] = 1 << FRAC_BITS;
        kept++;
    }
    if (f != NULL)
        (void)fclose(f);
    if (row != TABLE_ROWS) {
        fprintf(stderr, "--data %s: not the %d rows of digits.csv\n", path != NULL ? path : "",
                TABLE_ROWS);
        return UVCC_ERR_CONFIG;
    }
    return 0;
}

static int set_layer(const work *w, uvcc_session *s, uint32_t l, int64_t *v, size_t n,
                     const int64_t *zeros) {
    const char *const names[] = {"W", "MW", "b", "Mb"};
    int rc = 0;
    uvcc_mlp_initial_weights(&mlp, SEED, l, v);
    for (unsigned i = 0; i < 4 && rc == 0; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%s%u", names[i], l);
        for (size_t k = 0; i == 1 && k < n; k++)
            v[k] *= (int64_t)1 << uvcc_mlp_master_shift(&mlp);
        rc = uvcc_session_set_public(s, (uint32_t)uvcc_program_find(w->program, name),
                                     i < 2 ? v : zeros);
    }
    return rc;
}

static void print_hash(const work *w, uvcc_session *s, uint32_t step) {
    crypto_hash_sha256_state h;
    uint8_t hash[32];
    const uint32_t entry = work_entry(w, step);
    (void)crypto_hash_sha256_init(&h);
    for (uint32_t i = 0; i < uvcc_program_output_count(w->program, entry); i++) {
        const uvcc_io_desc *out = uvcc_program_output_at(w->program, entry, i);
        const uvcc_tensor_desc *t = uvcc_program_tensor_at(w->program, out->tensor);
        const int64_t *v = uvcc_session_output(s, step, out->id);
        if (v != NULL) /* the bytes of a little-endian machine */
            (void)crypto_hash_sha256_update(&h, (const uint8_t *)v,
                                            sizeof *v * t->rows * (size_t)t->cols);
    }
    (void)crypto_hash_sha256_final(&h, hash);
    printf("weights ");
    for (unsigned i = 0; i < sizeof hash; i++)
        printf("%02x", hash[i]);
    printf("\n");
}

/* ---- both ---- */

int work_open(work *w, const char *name, uint8_t party, const char *data) {
    const uvcc_allocator al = uvcc_host_allocator();
    char why[256] = "";
    *w = (work){.mlp = strcmp(name, "mlp") == 0, .party = party, .steps = 1};
    if (!w->mlp && strcmp(name, "relu") != 0) {
        fprintf(stderr, "--job %s: relu or mlp\n", name);
        return UVCC_ERR_CONFIG;
    }
    if (w->mlp)
        w->steps = TRAIN_ROWS / mlp.batch + 1; /* one pass, then the weights are opened */
    int rc = w->mlp ? uvcc_mlp_program(&w->program, &mlp, &al, why, sizeof why)
                    : relu_program(&w->program, &al, why, sizeof why);
    if (rc != 0)
        return say(why, rc);
    return w->mlp && party != 2 ? read_digits(w, data) : 0;
}

void work_close(work *w) {
    uvcc_program_free(w->program);
    free(w->x);
    free(w->y);
}

uint32_t work_entry(const work *w, uint32_t step) {
    if (!w->mlp)
        return 0;
    return (uint32_t)uvcc_program_find_entry(w->program, step + 1 < w->steps ? "train" : "reveal");
}

int work_first_values(const work *w, uvcc_session *s) {
    int rc = 0;
    for (uint32_t l = 0; w->mlp && l < uvcc_mlp_layers(&mlp) && rc == 0; l++) {
        uint32_t in, out;
        uvcc_mlp_shape(&mlp, l, &in, &out);
        int64_t *v = malloc((size_t)in * out * sizeof *v), *zeros = calloc(out, sizeof *zeros);
        rc = v != NULL && zeros != NULL ? set_layer(w, s, l, v, (size_t)in * out, zeros)
                                        : UVCC_ERR_NOMEM;
        free(v);
        free(zeros);
    }
    return rc;
}

int work_inputs(const work *w, uvcc_store *st, uvcc_session *s, uint32_t step, uint64_t now) {
    static uint32_t order[TRAIN_ROWS];
    static int64_t batch[32 * FEATURES];
    if (w->party == 2 || (w->mlp && step + 1 == w->steps))
        return 0;
    if (!w->mlp)
        return w->party == 0 ? relu_input(st, s, step, IN_X, x_values, now)
                             : relu_input(st, s, step, IN_W, w_values, now);
    const size_t width = w->party == 0 ? FEATURES : CLASSES;
    const int64_t *from = w->party == 0 ? w->x : w->y;
    uvcc_mlp_order(SEED, 0, TRAIN_ROWS, order);
    for (uint32_t i = 0; i < mlp.batch; i++)
        memcpy(batch + i * width, from + order[step * mlp.batch + i] * width,
               width * sizeof *batch);
    return uvcc_store_input(st, s, step, w->party == 0 ? UVCC_MLP_IN_X : UVCC_MLP_IN_Y, batch, now);
}

void work_outputs(const work *w, uvcc_session *s, uint32_t step) {
    if (step + 1 < w->steps)
        return;
    if (w->mlp) {
        print_hash(w, s, step);
        return;
    }
    const int64_t *y = uvcc_session_output(s, step, OUT_Y);
    printf("relu(X W) =");
    for (unsigned i = 0; y != NULL && i < ROWS * COLS; i++)
        printf(" %g", (double)y[i] / (1 << FRAC_BITS));
    printf("\n");
}
