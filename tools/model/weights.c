/* SPDX-License-Identifier: Apache-2.0 */
/* weights.c - see weights.h.
 *
 * PyTorch's Linear keeps outputs x inputs, so it is transposed; Conv1D of GPT-2 keeps inputs x
 * outputs, and its c_attn Q, K and V side by side. */
#include "weights.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 128 };

/* How a tensor has a weight. */
typedef enum form {
    VECTOR,
    LINEAR, /* transposed */
    CONV,
    VECTOR_THIRD, /* `part` of three, side by side */
    CONV_THIRD,
    TABLE,   /* the first rows */
    STACKED, /* the same, and behind them the rows of token types */
    ZEROS,   /* the model has none: a bias that adds nothing */
} form;

typedef struct source {
    const char *weight; /* within its layer, where it has one */
    const char *tensor; /* behind the layer's name; "/x": x, without the prefix of the others */
    uint8_t form, part;
} source;

typedef struct family {
    const char *prefix;                /* of checkpoints that have heads */
    const char *layers;                /* "encoder.layer." */
    const char *embedding[EMBEDDINGS]; /* NULL: none */
    const source *sources;             /* ended by one without a weight */
    /* Behind the prefix or without one; "*" stands for any number: what changes nothing, and what
     * begins with one of them (".") */
    const char *const *ignored;
} family;

static const source bert_sources[] = {
    {"E", "embeddings.word_embeddings.weight", STACKED, 0},
    {"P", "embeddings.position_embeddings.weight", TABLE, 0},
    {"GE", "embeddings.LayerNorm.weight", VECTOR, 0},
    {"CE", "embeddings.LayerNorm.bias", VECTOR, 0},
    {"WP", "pooler.dense.weight", LINEAR, 0},
    {"BP", "pooler.dense.bias", VECTOR, 0},
    {"WC", "/classifier.weight", LINEAR, 0},
    {"BC", "/classifier.bias", VECTOR, 0},
    {"G1", "attention.output.LayerNorm.weight", VECTOR, 0},
    {"C1", "attention.output.LayerNorm.bias", VECTOR, 0},
    {"WQ", "attention.self.query.weight", LINEAR, 0},
    {"BQ", "attention.self.query.bias", VECTOR, 0},
    {"WK", "attention.self.key.weight", LINEAR, 0},
    {"BK", "attention.self.key.bias", VECTOR, 0},
    {"WV", "attention.self.value.weight", LINEAR, 0},
    {"BV", "attention.self.value.bias", VECTOR, 0},
    {"WO", "attention.output.dense.weight", LINEAR, 0},
    {"BO", "attention.output.dense.bias", VECTOR, 0},
    {"G2", "output.LayerNorm.weight", VECTOR, 0},
    {"C2", "output.LayerNorm.bias", VECTOR, 0},
    {"W1", "intermediate.dense.weight", LINEAR, 0},
    {"B1", "intermediate.dense.bias", VECTOR, 0},
    {"W2", "output.dense.weight", LINEAR, 0},
    {"B2", "output.dense.bias", VECTOR, 0},
    {NULL, NULL, 0, 0},
};
static const source gpt2_sources[] = {
    {"E", "wte.weight", STACKED, 0},
    {"WL", "/lm_head.weight", LINEAR, 0},
    {"P", "wpe.weight", TABLE, 0},
    {"G1", "ln_1.weight", VECTOR, 0},
    {"C1", "ln_1.bias", VECTOR, 0},
    {"WQ", "attn.c_attn.weight", CONV_THIRD, 0},
    {"BQ", "attn.c_attn.bias", VECTOR_THIRD, 0},
    {"WK", "attn.c_attn.weight", CONV_THIRD, 1},
    {"BK", "attn.c_attn.bias", VECTOR_THIRD, 1},
    {"WV", "attn.c_attn.weight", CONV_THIRD, 2},
    {"BV", "attn.c_attn.bias", VECTOR_THIRD, 2},
    {"WO", "attn.c_proj.weight", CONV, 0},
    {"BO", "attn.c_proj.bias", VECTOR, 0},
    {"G2", "ln_2.weight", VECTOR, 0},
    {"C2", "ln_2.bias", VECTOR, 0},
    {"W1", "mlp.c_fc.weight", CONV, 0},
    {"B1", "mlp.c_fc.bias", VECTOR, 0},
    {"W2", "mlp.c_proj.weight", CONV, 0},
    {"B2", "mlp.c_proj.bias", VECTOR, 0},
    {"GF", "ln_f.weight", VECTOR, 0},
    {"CF", "ln_f.bias", VECTOR, 0},
    {NULL, NULL, 0, 0},
};
static const source gpt_neo_sources[] = {
    {"E", "wte.weight", STACKED, 0},
    {"WL", "/lm_head.weight", LINEAR, 0},
    {"P", "wpe.weight", TABLE, 0},
    {"G1", "ln_1.weight", VECTOR, 0},
    {"C1", "ln_1.bias", VECTOR, 0},
    {"WQ", "attn.attention.q_proj.weight", LINEAR, 0},
    {"BQ", NULL, ZEROS, 0},
    {"WK", "attn.attention.k_proj.weight", LINEAR, 0},
    {"BK", NULL, ZEROS, 0},
    {"WV", "attn.attention.v_proj.weight", LINEAR, 0},
    {"BV", NULL, ZEROS, 0},
    {"WO", "attn.attention.out_proj.weight", LINEAR, 0},
    {"BO", "attn.attention.out_proj.bias", VECTOR, 0},
    {"G2", "ln_2.weight", VECTOR, 0},
    {"C2", "ln_2.bias", VECTOR, 0},
    {"W1", "mlp.c_fc.weight", LINEAR, 0},
    {"B1", "mlp.c_fc.bias", VECTOR, 0},
    {"W2", "mlp.c_proj.weight", LINEAR, 0},
    {"B2", "mlp.c_proj.bias", VECTOR, 0},
    {"GF", "ln_f.weight", VECTOR, 0},
    {"CF", "ln_f.bias", VECTOR, 0},
    {NULL, NULL, 0, 0},
};
static const source llama_sources[] = {
    {"E", "embed_tokens.weight", STACKED, 0},
    {"WL", "/lm_head.weight", LINEAR, 0},
    {"G1", "input_layernorm.weight", VECTOR, 0},
    {"WQ", "self_attn.q_proj.weight", LINEAR, 0},
    {"BQ", "self_attn.q_proj.bias", VECTOR, 0},
    {"WK", "self_attn.k_proj.weight", LINEAR, 0},
    {"BK", "self_attn.k_proj.bias", VECTOR, 0},
    {"WV", "self_attn.v_proj.weight", LINEAR, 0},
    {"BV", "self_attn.v_proj.bias", VECTOR, 0},
    {"WO", "self_attn.o_proj.weight", LINEAR, 0},
    {"BO", "self_attn.o_proj.bias", VECTOR, 0},
    {"G2", "post_attention_layernorm.weight", VECTOR, 0},
    {"W1", "mlp.gate_proj.weight", LINEAR, 0},
    {"B1", NULL, ZEROS, 0},
    {"WU", "mlp.up_proj.weight", LINEAR, 0},
    {"W2", "mlp.down_proj.weight", LINEAR, 0},
    {"B2", NULL, ZEROS, 0},
    {"GF", "norm.weight", VECTOR, 0},
    {NULL, NULL, 0, 0},
};

/* Heads and poolers, which hidden states do not need, and buffers of constants. */
static const char *const bert_ignored[] = {"embeddings.position_ids",
                                           "embeddings.token_type_ids",
                                           "pooler.",
                                           "cls.",
                                           "classifier.",
                                           "qa_outputs.",
                                           NULL};
static const char *const gpt2_ignored[] = {"h.*.attn.bias", "h.*.attn.masked_bias", "lm_head.",
                                           "score.",        "classifier.",          NULL};
static const char *const gpt_neo_ignored[] = {"h.*.attn.attention.bias",
                                              "h.*.attn.attention.masked_bias",
                                              "lm_head.",
                                              "score.",
                                              "classifier.",
                                              "qa_outputs.",
                                              NULL};
static const char *const llama_ignored[] = {"layers.*.self_attn.rotary_emb.inv_freq",
                                            "rotary_emb.inv_freq",
                                            "lm_head.",
                                            "score.",
                                            "qa_outputs.",
                                            NULL};

static const family families[] = {
    [FAMILY_BERT] = {"bert.",
                     "encoder.layer.",
                     {"embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight",
                      "embeddings.token_type_embeddings.weight", "embeddings.LayerNorm.weight",
                      "embeddings.LayerNorm.bias"},
                     bert_sources,
                     bert_ignored},
    [FAMILY_GPT2] = {"transformer.",
                     "h.",
                     {"wte.weight", "wpe.weight", NULL, NULL, NULL},
                     gpt2_sources,
                     gpt2_ignored},
    [FAMILY_GPT_NEO] = {"transformer.",
                        "h.",
                        {"wte.weight", "wpe.weight", NULL, NULL, NULL},
                        gpt_neo_sources,
                        gpt_neo_ignored},
    [FAMILY_LLAMA] = {"model.",
                      "layers.",
                      {"embed_tokens.weight", NULL, NULL, NULL, NULL},
                      llama_sources,
                      llama_ignored},
};

static const family *family_of(const weights *w) {
    return &families[w->d->family];
}

/* ---- names ---- */

/* "L12.WQ" is "WQ". */
static const char *short_name(const uvcc_model_weight *w) {
    const char *dot = strchr(w->name, '.');
    return w->layer != UVCC_MODEL_NO_LAYER && dot != NULL ? dot + 1 : w->name;
}

static const source *source_of(const weights *w, const uvcc_model_weight *of) {
    const source *s = family_of(w)->sources;
    while (s->weight != NULL && strcmp(s->weight, short_name(of)) != 0)
        s++;
    return s->weight != NULL ? s : NULL;
}

static void tensor_name(const weights *w, const uvcc_model_weight *of, const source *s,
                        char out[NAME_BYTES]) {
    if (of->layer != UVCC_MODEL_NO_LAYER)
        (void)snprintf(out, NAME_BYTES, "%s%s%u.%s", w->prefix, family_of(w)->layers, of->layer,
                       s->tensor);
    else if (s->tensor[0] == '/')
        (void)snprintf(out, NAME_BYTES, "%s", s->tensor + 1);
    else
        (void)snprintf(out, NAME_BYTES, "%s%s", w->prefix, s->tensor);
}

/* Norms of old checkpoints of BERT have gamma and beta, which the library reads as weight and bias.
 */
static const st_tensor *find(const weights *w, const char *name) {
    static const char *const ends[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                          {"LayerNorm.bias", "LayerNorm.beta"}};
    const st_tensor *t = checkpoint_find(w->from, name);
    for (unsigned i = 0; t == NULL && i < 2 && w->d->family == FAMILY_BERT; i++) {
        const size_t n = strlen(name), end = strlen(ends[i][0]);
        char old[NAME_BYTES];
        if (n < end || strcmp(name + n - end, ends[i][0]) != 0)
            continue;
        (void)snprintf(old, sizeof old, "%.*s%s", (int)(n - end), name, ends[i][1]);
        t = checkpoint_find(w->from, old);
    }
    return t;
}

/* Without heads there may be no prefix. */
static const char *prefix_of(const weights *w) {
    char name[NAME_BYTES];
    const family *f = family_of(w);
    (void)snprintf(name, sizeof name, "%s%s", f->prefix, f->embedding[EMBEDDING_TOKENS]);
    return checkpoint_find(w->from, name) != NULL ? f->prefix : "";
}

/* Whether a name is of the pattern: "*" is a number, and what ends in "." is a beginning. */
static bool matches(const char *name, const char *pattern) {
    for (; *pattern != '\0'; pattern++) {
        if (*pattern == '*') {
            const size_t digits = strspn(name, "0123456789");
            if (digits == 0)
                return false;
            name += digits;
        } else if (*name++ != *pattern) {
            return false;
        } else if (pattern[1] == '\0' && *pattern == '.') {
            return true;
        }
    }
    return *name == '\0';
}

static bool is_ignored(const weights *w, const char *name) {
    const size_t n = strlen(w->prefix);
    const char *inner = strncmp(name, w->prefix, n) == 0 ? name + n : name;
    for (const char *const *p = family_of(w)->ignored; *p != NULL; p++)
        if (matches(inner, *p) || matches(name, *p))
            return true;
    return false;
}

/* ---- checks ---- */

static int check_real(const st_tensor *t, const flag_message *m) {
    if (st_is_real(t))
        return 0;
    return flag_fail(m,
                     "tensor '%s' has dtype %s, which is not supported: F64, F32, F16 and BF16 "
                     "are",
                     t->name, st_dtype_name(t->dtype));
}

/* rows 0: one dimension. */
static int check_shape(const st_tensor *t, uint64_t rows, uint64_t cols, const flag_message *m) {
    char shape[ST_SHAPE_BYTES], want[64];
    const bool right = rows == 0 ? t->rank == 1 && t->shape[0] == cols
                                 : t->rank == 2 && t->shape[0] == rows && t->shape[1] == cols;
    if (right)
        return check_real(t, m);
    if (rows == 0)
        (void)snprintf(want, sizeof want, "%llu", (unsigned long long)cols);
    else
        (void)snprintf(want, sizeof want, "%llu x %llu", (unsigned long long)rows,
                       (unsigned long long)cols);
    return flag_fail(m, "tensor '%s' is %s; config.json makes it %s", t->name,
                     st_shape_text(t, shape), want);
}

static int check_form(const weights *w, const uvcc_model_weight *of, const source *s,
                      const st_tensor *t, const flag_message *m) {
    switch (s->form) {
    case VECTOR:
        return check_shape(t, 0, of->cols, m);
    case VECTOR_THIRD:
        return check_shape(t, 0, 3ull * of->cols, m);
    case LINEAR:
        return check_shape(t, of->cols, of->rows, m);
    case CONV:
        return check_shape(t, of->rows, of->cols, m);
    case CONV_THIRD:
        return check_shape(t, of->rows, 3ull * of->cols, m);
    case STACKED:
        return check_shape(t, w->d->vocabulary, of->cols, m);
    default:
        return check_shape(t, w->d->positions, of->cols, m);
    }
}

/* Its tensor, of the right shape; *t stays NULL where it is zeros. */
static int find_source(const weights *w, const uvcc_model_weight *of, const st_tensor **t,
                       const flag_message *m) {
    char name[NAME_BYTES];
    const source *s = source_of(w, of);
    if (s == NULL)
        return flag_fail(m, "weight %s has no place in checkpoints of %s", of->name,
                         description_family(w->d));
    if (s->form == ZEROS)
        return 0;
    tensor_name(w, of, s, name);
    *t = find(w, name);
    if (*t == NULL)
        return flag_fail(m, "there is no tensor '%s'", name);
    return check_form(w, of, s, *t, m);
}

static int take_weight(weights *w, uint32_t i, const flag_message *m) {
    uvcc_model_weight of;
    if (uvcc_model_weight_at(&w->shape, i, &of) != 0)
        return flag_fail(m, "there is no weight %u", i);
    return find_source(w, &of, &w->used[i], m);
}

/* The norms that the shape's list does not have. Shifts need biases that take them, which all kinds
 * of layer norms have. */
static int take_norms(weights *w, const flag_message *m) {
    static const char *const names[WEIGHTS_NORMS] = {"G1", "C1", "G2", "C2"};
    const bool shifts = w->shape.norm == UVCC_MODEL_LAYER_NORM;
    assert(!shifts || w->shape.biases);
    w->norms = calloc((size_t)w->shape.layers * WEIGHTS_NORMS, sizeof *w->norms);
    if (w->norms == NULL)
        return flag_fail(m, "out of memory");
    for (uint32_t i = 0; i < w->shape.layers * WEIGHTS_NORMS; i++) {
        const unsigned n = i % WEIGHTS_NORMS;
        uvcc_model_weight of = {.rows = 1, .cols = w->shape.width, .layer = i / WEIGHTS_NORMS};
        (void)snprintf(of.name, sizeof of.name, "L%u.%s", of.layer, names[n]);
        if (n % 2 == 1 && !shifts)
            continue;
        if (find_source(w, &of, &w->norms[i], m) != 0)
            return -1;
    }
    return 0;
}

static int take_embedding(weights *w, unsigned e, const flag_message *m) {
    const uint64_t rows[EMBEDDINGS] = {w->d->vocabulary, w->d->positions, w->d->types, 0, 0};
    char name[NAME_BYTES];
    if (family_of(w)->embedding[e] == NULL)
        return 0;
    (void)snprintf(name, sizeof name, "%s%s", w->prefix, family_of(w)->embedding[e]);
    w->embedding[e] = find(w, name);
    if (w->embedding[e] == NULL)
        return flag_fail(m, "there is no tensor '%s'", name);
    return check_shape(w->embedding[e], rows[e], w->d->width, m);
}

static int by_place(const void *a, const void *b) {
    const uintptr_t x = (uintptr_t) * (const st_tensor *const *)a,
                    y = (uintptr_t) * (const st_tensor *const *)b;
    return (x > y) - (x < y);
}

static size_t norms_of(const weights *w) {
    return w->norms != NULL ? (size_t)w->shape.layers * WEIGHTS_NORMS : 0;
}

/* What is read, by place, into room for all of it. */
static size_t list_read(const weights *w, const st_tensor **out) {
    size_t n = 0;
    for (unsigned e = 0; e < EMBEDDINGS; e++)
        if (w->embedding[e] != NULL)
            out[n++] = w->embedding[e];
    for (uint32_t i = 0; i < w->count; i++)
        if (w->used[i] != NULL)
            out[n++] = w->used[i];
    for (size_t i = 0; i < norms_of(w); i++)
        if (w->norms[i] != NULL)
            out[n++] = w->norms[i];
    qsort(out, n, sizeof out[0], by_place);
    return n;
}

static int list_surplus(weights *w, const st_tensor *const *read, size_t count,
                        const flag_message *m) {
    const st_tensor *t;
    for (size_t i = 0; (t = checkpoint_at(w->from, i)) != NULL; i++) {
        if (bsearch(&t, read, count, sizeof read[0], by_place) != NULL)
            continue;
        if (!is_ignored(w, t->name))
            return flag_fail(m, "tensor '%.200s' has no place in a model of kind %s", t->name,
                             description_family(w->d));
        w->surplus[w->ignored++] = t;
    }
    return 0;
}

/* What nobody reads might change the result: it must be known not to. */
static int check_surplus(weights *w, const flag_message *m) {
    const st_tensor **read = calloc(w->count + EMBEDDINGS + norms_of(w), sizeof *read);
    w->surplus = calloc(checkpoint_tensors(w->from) + 1, sizeof *w->surplus);
    const int rc = read == NULL || w->surplus == NULL
                       ? flag_fail(m, "out of memory")
                       : list_surplus(w, read, list_read(w, read), m);
    free(read);
    return rc;
}

/* ---- calls ---- */

int weights_open(weights *out, const checkpoint *from, const model_description *d,
                 const uvcc_model_config *shape, const flag_message *m) {
    *out = (weights){.d = d, .from = from, .shape = *shape};
    out->count = uvcc_model_weight_count(shape);
    out->used = calloc(out->count + 1, sizeof *out->used);
    if (out->used == NULL)
        return flag_fail(m, "out of memory");
    out->prefix = prefix_of(out);
    int rc = 0;
    for (unsigned e = 0; e < EMBEDDINGS && rc == 0; e++)
        rc = take_embedding(out, e, m);
    for (uint32_t i = 0; i < out->count && rc == 0; i++)
        rc = take_weight(out, i, m);
    if (rc == 0 && shape->plain_norms)
        rc = take_norms(out, m);
    if (rc == 0)
        rc = check_surplus(out, m);
    if (rc != 0)
        weights_close(out);
    return rc;
}

void weights_close(weights *w) {
    free(w->used);
    free(w->norms);
    free(w->surplus);
    *w = (weights){0};
}

static void read_columns(const st_tensor *t, const uvcc_model_weight *of, unsigned part,
                         double *out) {
    for (uint64_t r = 0; r < of->rows; r++)
        st_reals(t, (3 * r + part) * of->cols, of->cols, out + r * of->cols);
}

/* Row by row of the tensor, which is a column of the weight. */
static int read_transposed(const st_tensor *t, const uvcc_model_weight *of, double *out,
                           const flag_message *m) {
    double *row = malloc(of->rows * sizeof *row);
    if (row == NULL)
        return flag_fail(m, "out of memory");
    for (uint64_t c = 0; c < of->cols; c++) {
        st_reals(t, c * of->rows, of->rows, row);
        for (uint64_t r = 0; r < of->rows; r++)
            out[r * of->cols + c] = row[r];
    }
    free(row);
    return 0;
}

/* Words, and then types of tokens, if the weight has them. */
static void read_stacked(const weights *w, const uvcc_model_weight *of, double *out) {
    const uint64_t words = (uint64_t)w->d->vocabulary * of->cols;
    const uint64_t all = (uint64_t)of->rows * of->cols;
    st_reals(w->embedding[EMBEDDING_TOKENS], 0, words, out);
    if (all > words)
        st_reals(w->embedding[EMBEDDING_TYPES], 0, all - words, out + words);
}

/* As the checkpoint has it. */
static int read_plain(const weights *w, uint32_t i, const uvcc_model_weight *of, double *out,
                      const flag_message *m) {
    const uint64_t n = (uint64_t)of->rows * of->cols;
    const source *s = source_of(w, of);
    const st_tensor *t = w->used[i];
    if (t == NULL || s == NULL)
        memset(out, 0, n * sizeof *out);
    else if (s->form == LINEAR)
        return read_transposed(t, of, out, m);
    else if (s->form == STACKED)
        read_stacked(w, of, out);
    else if (s->form == CONV_THIRD || s->form == VECTOR_THIRD)
        read_columns(t, of, s->part, out);
    else
        st_reals(t, 0, n, out);
    return 0;
}

/* ---- folding ---- */

/* The matrices that read what a norm gives, and the bias behind each. */
static const struct {
    const char *matrix, *bias;
    weights_norm gain, shift;
} readers[] = {{"WQ", "BQ", NORM_G1, NORM_C1},
               {"WK", "BK", NORM_G1, NORM_C1},
               {"WV", "BV", NORM_G1, NORM_C1},
               {"W1", "B1", NORM_G2, NORM_C2},
               {"WU", NULL, NORM_G2, NORM_C2}};

static int fold_gain(const st_tensor *gain, const uvcc_model_weight *of, double *out,
                     const flag_message *m) {
    double *g = malloc(of->rows * sizeof *g);
    if (g == NULL)
        return flag_fail(m, "out of memory");
    st_reals(gain, 0, of->rows, g);
    for (uint64_t k = 0; k < (uint64_t)of->rows * of->cols; k++)
        out[k] *= g[k / of->cols];
    free(g);
    return 0;
}

/* bias += shift times the matrix, which has not its gain. */
static int fold_shift(const weights *w, const st_tensor *shift, const uvcc_model_weight *bias,
                      const char *matrix, double *out, const flag_message *m) {
    uvcc_model_weight of;
    char name[sizeof of.name];
    uint32_t i = 0;
    (void)snprintf(name, sizeof name, "L%u.%s", bias->layer, matrix);
    while (uvcc_model_weight_at(&w->shape, i, &of) == 0 && strcmp(of.name, name) != 0)
        i++;
    assert(i < w->count && of.cols == bias->cols);
    double *a = malloc((uint64_t)of.rows * of.cols * sizeof *a);
    double *c = malloc(of.rows * sizeof *c);
    int rc = a == NULL || c == NULL ? flag_fail(m, "out of memory") : read_plain(w, i, &of, a, m);
    if (rc == 0)
        st_reals(shift, 0, of.rows, c);
    for (uint64_t k = 0; rc == 0 && k < (uint64_t)of.rows * of.cols; k++)
        out[k % of.cols] += c[k / of.cols] * a[k];
    free(a);
    free(c);
    return rc;
}

static int fold(const weights *w, const uvcc_model_weight *of, double *out, const flag_message *m) {
    if (w->norms == NULL || of->layer == UVCC_MODEL_NO_LAYER)
        return 0;
    const st_tensor *const *norms = w->norms + (size_t)of->layer * WEIGHTS_NORMS;
    for (unsigned k = 0; k < sizeof readers / sizeof readers[0]; k++) {
        if (strcmp(readers[k].matrix, short_name(of)) == 0)
            return fold_gain(norms[readers[k].gain], of, out, m);
        if (readers[k].bias != NULL && strcmp(readers[k].bias, short_name(of)) == 0 &&
            norms[readers[k].shift] != NULL)
            return fold_shift(w, norms[readers[k].shift], of, readers[k].matrix, out, m);
    }
    return 0;
}

int weights_read(const weights *w, uint32_t i, double *out, const flag_message *m) {
    uvcc_model_weight of;
    if (uvcc_model_weight_at(&w->shape, i, &of) != 0)
        return flag_fail(m, "there is no weight %u", i);
    const uint64_t n = (uint64_t)of.rows * of.cols;
    int rc = read_plain(w, i, &of, out, m);
    if (rc == 0)
        rc = fold(w, &of, out, m);
    checkpoint_forget(w->from);
    for (uint64_t k = 0; k < n && rc == 0; k++)
        if (!isfinite(out[k]))
            return flag_fail(m, "tensor '%s' has a value that is no number", weights_source(w, i));
    return rc;
}

const char *weights_source(const weights *w, uint32_t i) {
    return i < w->count && w->used[i] != NULL ? w->used[i]->name : "(zeros)";
}

const char *weights_ignored(const weights *w, size_t i) {
    return i < w->ignored ? w->surplus[i]->name : NULL;
}
