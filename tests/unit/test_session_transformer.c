/* SPDX-License-Identifier: Apache-2.0 */
/* The transformer among three sessions: what is opened is the plaintext reference's, bit for bit.
 */
#include "triangle.h"

#include <uvcc/transformer.h>

enum { SEED = 9, ROOM = 1 << 15 };

typedef struct one {
    uvcc_transformer_config c;
    uvcc_program *p;
    uvcc_reference *r;
    triangle t;
    int64_t *weights, *room;
    uint32_t steps;
} one;

static const uvcc_transformer_worker only = {0};

static uvcc_transformer_config tiny(void) {
    uvcc_transformer_config c;
    assert_int_equal(uvcc_transformer_default(&c, sizeof c), 0);
    c.context = 4;
    c.dim = 8;
    c.heads = 2;
    c.layers = 2;
    c.hidden = 12;
    c.batch = 4;
    c.microbatches = 2;
    c.warmup = 0;
    return c;
}

static void set_public(one *o, uint32_t tensor, const int64_t *v) {
    assert_int_equal(uvcc_reference_set(o->r, tensor, v), 0);
    for (unsigned p = 0; p < 3; p++) {
        int rc;
        while ((rc = uvcc_session_set_public(o->t.s[p], tensor, v)) == UVCC_ERR_AGAIN)
            assert_true(triangle_turn(&o->t)); /* jobs of earlier ones are out */
        assert_int_equal(rc, 0);
    }
}

static void open_one(one *o, const uvcc_transformer_config *c) {
    const uvcc_allocator al = uvcc_host_allocator();
    uvcc_transformer_weight w;
    uint64_t at = 0;
    uint32_t tensor;
    char why[256];
    *o = (one){.c = *c};
    o->weights = calloc(uvcc_transformer_parameters(c), sizeof *o->weights);
    o->room = calloc(ROOM, sizeof *o->room);
    for (uint32_t i = 0; uvcc_transformer_weight_at(c, i, &w) == 0; i++) {
        uvcc_transformer_initial(c, SEED, i, o->weights + at);
        at += (uint64_t)w.rows * w.cols;
    }
    if (uvcc_transformer_program(&o->p, c, &only, &al, why, sizeof why) != 0)
        fail_msg("%s", why);
    assert_int_equal(uvcc_reference_new(&o->r, o->p, &al), 0);
    triangle_open(&o->t, o->p, &(triangle_options){.seed = SEED});
    triangle_ready(&o->t);
    for (uint32_t i = 0;
         uvcc_transformer_state(c, &only, o->p, i, o->weights, &tensor, o->room) == 0; i++)
        set_public(o, tensor, o->room);
}

static void close_one(one *o) {
    triangle_close(&o->t);
    triangle_free(&o->t);
    uvcc_reference_free(o->r);
    uvcc_program_free(o->p);
    free(o->weights);
    free(o->room);
}

/* A step of the entry, whose every output is compared. */
static void run(one *o, const char *entry) {
    static const uint8_t text[] = "to be, or not to be, that is the question: whether 'tis nobler";
    const uint32_t e = (uint32_t)uvcc_program_find_entry(o->p, entry), step = o->steps++;
    char why[256] = "";
    const int64_t rate = uvcc_transformer_rate(&o->c, step);
    set_public(o, (uint32_t)uvcc_program_find(o->p, "rate"), &rate);
    triangle_agree(&o->t, step, e);
    for (uint32_t k = 0; k < uvcc_program_input_count(o->p, e); k++) {
        const uvcc_io_desc *io = uvcc_program_input_at(o->p, e, k);
        const uint32_t rows = uvcc_program_tensor_at(o->p, io->tensor)->rows;
        uvcc_transformer_one_hot(text + step + k, rows, o->room);
        assert_int_equal(uvcc_reference_set(o->r, io->tensor, o->room), 0);
        triangle_input(&o->t, io->owner, step, io->id, o->room);
    }
    if (uvcc_reference_step(o->r, e, why, sizeof why) != 0)
        fail_msg("%s: %s", entry, why);
    triangle_finish(&o->t, o->steps);
    for (uint32_t k = 0; k < uvcc_program_output_count(o->p, e); k++) {
        const uvcc_io_desc *io = uvcc_program_output_at(o->p, e, k);
        const uvcc_tensor_desc *d = uvcc_program_tensor_at(o->p, io->tensor);
        for (unsigned p = 0; p < 3; p++) {
            const int64_t *v = uvcc_session_output(o->t.s[p], step, io->id);
            assert_int_equal(io->receiver,
                             strcmp(entry, "reveal") == 0 ? UVCC_TO_ALL : o->c.text_owner);
            assert_true((v != NULL) == (io->receiver == UVCC_TO_ALL || io->receiver == p));
            if (v != NULL)
                assert_memory_equal(v, uvcc_reference_get(o->r, io->tensor),
                                    (size_t)d->rows * d->cols * sizeof(int64_t));
        }
    }
}

static void whole_run(const uvcc_transformer_config *c, unsigned steps) {
    one o;
    open_one(&o, c);
    for (unsigned i = 0; i < steps; i++)
        run(&o, "train");
    run(&o, "eval");
    run(&o, "logits");
    run(&o, "reveal");
    close_one(&o);
}

static void test_equal_reference(void **state) {
    (void)state;
    uvcc_transformer_config c = tiny();
    whole_run(&c, 3);
    c.block = UVCC_BLOCK_SWIGLU;
    c.optimizer = UVCC_OPTIMIZER_MOMENTUM;
    c.weight_decay = 0.01;
    whole_run(&c, 1);
    c.block = UVCC_BLOCK_GPT2;
    c.optimizer = UVCC_OPTIMIZER_SGD;
    whole_run(&c, 1);
}

/* With clipping, and without it but with decay. */
static void test_mini_equals_reference(void **state) {
    (void)state;
    uvcc_transformer_config c = tiny();
    c.optimizer = UVCC_OPTIMIZER_ADAM_MINI;
    c.clip = 0.125;
    whole_run(&c, 2);
    c.clip = 0;
    c.weight_decay = 0.01;
    c.truncation = UVCC_TRUNC_EXACT_DCF;
    whole_run(&c, 1);
}

/* Four tiles of four rows; with the forward pass computed again, in the buffers of other tiles and
 * of the layer behind. */
static void test_tiles(void **state) {
    (void)state;
    uvcc_transformer_config c = tiny();
    c.context = 16;
    c.batch = 2;
    c.heads = 4;
    for (c.recompute = 0; c.recompute < 2; c.recompute++)
        whole_run(&c, 1);
    c.recompute = 0;
    c.window_mib = 1; /* some of its ops take more */
    whole_run(&c, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_equal_reference),
        cmocka_unit_test(test_mini_equals_reference),
        cmocka_unit_test(test_tiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
