/* SPDX-License-Identifier: Apache-2.0 */
/* train.c - trains the default model, or one by options, in float32, and with --fixed 1 the
 * fixed-point reference beside it, from the same weights on the same batches. The last line has the
 * mean losses over the last tenth of the steps, in nats per byte.
 *
 *   float_train TEXT [--steps N] [--OPTION VALUE]... */
#include "model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>

typedef struct run {
    uvcc_transformer_config c;
    double seed, fixed, every;
    uint8_t *text, *tokens, *targets;
    size_t bytes;
    uvcc_program *p;
    uvcc_reference *r;
    int64_t *weights, *room;
} run;

static int fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    return 1;
}

static bool set_option(run *r, const char *name, double v) {
    uvcc_transformer_config *c = &r->c;
    const struct {
        const char *name;
        uint32_t *u32;
        uint8_t *u8;
        double *real;
    } options[] = {
        {"context", &c->context, NULL, NULL},
        {"dim", &c->dim, NULL, NULL},
        {"heads", &c->heads, NULL, NULL},
        {"layers", &c->layers, NULL, NULL},
        {"hidden", &c->hidden, NULL, NULL},
        {"batch", &c->batch, NULL, NULL},
        {"steps", &c->steps, NULL, NULL},
        {"warmup", &c->warmup, NULL, NULL},
        {"block", NULL, &c->block, NULL},
        {"norm", NULL, &c->norm, NULL},
        {"optimizer", NULL, &c->optimizer, NULL},
        {"momentum_shift", NULL, &c->momentum_shift, NULL},
        {"variance_shift", NULL, &c->variance_shift, NULL},
        {"exact", NULL, &c->exact, NULL},
        {"learning_rate", NULL, NULL, &c->learning_rate},
        {"final_rate", NULL, NULL, &c->final_rate},
        {"weight_decay", NULL, NULL, &c->weight_decay},
        {"epsilon", NULL, NULL, &c->epsilon},
        {"clip", NULL, NULL, &c->clip},
        {"seed", NULL, NULL, &r->seed},
        {"fixed", NULL, NULL, &r->fixed},
        {"every", NULL, NULL, &r->every},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        if (strcmp(options[i].name, name) != 0)
            continue;
        if (options[i].u32 != NULL)
            *options[i].u32 = (uint32_t)v;
        else if (options[i].u8 != NULL)
            *options[i].u8 = (uint8_t)v;
        else
            *options[i].real = v;
        return true;
    }
    return false;
}

static bool read_file(run *r, const char *path) {
    FILE *f = fopen(path, "rb");
    const size_t room = 16u << 20;
    r->text = malloc(room);
    if (f == NULL || r->text == NULL)
        return false;
    r->bytes = fread(r->text, 1, room, f);
    fclose(f);
    return r->bytes > r->c.context;
}

static void read_batch(run *r, uint32_t step) {
    const uint32_t context = r->c.context;
    for (uint32_t i = 0; i < r->c.batch; i++) {
        const uint64_t at = uvcc_transformer_sequence(&r->c, (uint64_t)r->seed, step, i, r->bytes);
        memcpy(r->tokens + (size_t)i * context, r->text + at, context);
        memcpy(r->targets + (size_t)i * context, r->text + at + 1, context);
    }
}

static void initial_weights(run *r) {
    uvcc_transformer_weight w;
    uint64_t at = 0;
    r->weights = calloc(uvcc_transformer_parameters(&r->c), sizeof *r->weights);
    for (uint32_t i = 0; uvcc_transformer_weight_at(&r->c, i, &w) == 0; i++) {
        uvcc_transformer_initial(&r->c, (uint64_t)r->seed, i, r->weights + at);
        at += (uint64_t)w.rows * w.cols;
    }
}

static bool begin_fixed(run *r) {
    const uvcc_transformer_worker only = {0};
    const uvcc_allocator al = uvcc_host_allocator();
    char why[256];
    uint32_t tensor;
    if (uvcc_transformer_program(&r->p, &r->c, &only, &al, why, sizeof why) != 0) {
        fail(why);
        return false;
    }
    r->room = calloc((size_t)r->c.batch * r->c.context * UVCC_TRANSFORMER_VOCAB +
                         uvcc_transformer_parameters(&r->c),
                     sizeof *r->room);
    if (uvcc_reference_new(&r->r, r->p, &al) != 0)
        return false;
    for (uint32_t i = 0;
         uvcc_transformer_state(&r->c, &only, r->p, i, r->weights, &tensor, r->room) == 0; i++)
        if (uvcc_reference_set(r->r, tensor, r->room) != 0)
            return false;
    return true;
}

/* The loss, or NAN. */
static double step_fixed(run *r, uint32_t step) {
    const int64_t rate = uvcc_transformer_rate(&r->c, step);
    const uint32_t rows = r->c.batch * r->c.context;
    const uint32_t e = (uint32_t)uvcc_program_find_entry(r->p, "train");
    char why[256] = "";
    if (uvcc_reference_set(r->r, (uint32_t)uvcc_program_find(r->p, "rate"), &rate) != 0)
        return NAN;
    for (uint32_t k = 0; k < uvcc_program_input_count(r->p, e); k++) {
        const uvcc_io_desc *io = uvcc_program_input_at(r->p, e, k);
        const bool targets = io->id >= UVCC_TRANSFORMER_IN_TARGETS;
        uvcc_transformer_one_hot(targets ? r->targets : r->tokens, rows, r->room);
        if (uvcc_reference_set(r->r, io->tensor, r->room) != 0)
            return NAN;
    }
    if (uvcc_reference_step(r->r, e, why, sizeof why) != 0) {
        fprintf(stderr, "step %u: %s\n", step, why);
        return NAN;
    }
    const int64_t loss = *uvcc_reference_get(r->r, uvcc_program_output_at(r->p, e, 0)->tensor);
    return ldexp((double)loss, -(int)UVCC_TRANSFORMER_LOSS_BITS) / rows;
}

static int train(run *r) {
    const uint32_t rows = r->c.batch * r->c.context, last = (r->c.steps + 9) / 10;
    double sum[2] = {0};
    float_model *m = float_new(&r->c, r->weights);
    for (uint32_t step = 0; step < r->c.steps; step++) {
        read_batch(r, step);
        double loss[2] = {float_gradient(m, r->tokens, r->targets, r->c.batch) / rows, 0};
        float_update(
            m, ldexp((double)uvcc_transformer_rate(&r->c, step), -(int)UVCC_TRANSFORMER_RATE_BITS));
        if (r->fixed != 0 && isnan(loss[1] = step_fixed(r, step)))
            return 1;
        if (step % (uint32_t)r->every == 0)
            printf(r->fixed != 0 ? "%u %.4f %.4f\n" : "%u %.4f\n", step, loss[0], loss[1]);
        for (unsigned k = 0; k < 2 && step + last >= r->c.steps; k++)
            sum[k] += loss[k] / last;
    }
    printf("float %.4f", sum[0]);
    if (r->fixed != 0)
        printf(", fixed %.4f (%+.2f%%)", sum[1], 100 * (sum[1] / sum[0] - 1));
    printf(", %llu weights\n", (unsigned long long)uvcc_transformer_parameters(&r->c));
    float_free(m);
    return 0;
}

int main(int argc, char **argv) {
    run r = {.seed = 1, .every = 20};
    char why[256];
    uvcc_transformer_default(&r.c, sizeof r.c);
    for (int i = 2; i + 1 < argc; i += 2)
        if (strncmp(argv[i], "--", 2) != 0 || !set_option(&r, argv[i] + 2, atof(argv[i + 1])))
            return fail("unknown option");
    if (uvcc_transformer_check(&r.c, why, sizeof why) != 0)
        return fail(why);
    if (argc < 2 || !read_file(&r, argv[1]))
        return fail("usage: float_train TEXT [--OPTION VALUE]...");
    r.tokens = calloc(r.c.batch, r.c.context);
    r.targets = calloc(r.c.batch, r.c.context);
    initial_weights(&r);
    int rc = r.fixed == 0 || begin_fixed(&r) ? train(&r) : 1;
    uvcc_reference_free(r.r);
    uvcc_program_free(r.p);
    free(r.text);
    free(r.tokens);
    free(r.targets);
    free(r.weights);
    free(r.room);
    return rc;
}
