/* SPDX-License-Identifier: Apache-2.0 */
/* model.c - see model.h. */
#include "model.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic_file.h"
#include "../report.h"

/* ---- what the checkpoint is loaded as ---- */

static uint32_t labels_of(const ft_data *d, const ft_options *o) {
    return o->labels != 0 ? o->labels : d->labels < 2 ? 2 : d->labels;
}

static int load(ft_model *m, const ft_data *d, const ft_options *o, uint8_t gives) {
    model_options mo = {.word = {"train", o->model},
                        .pass = {.sequences = 1,
                                 .tokens = d->tokens,
                                 .frac_bits = o->frac_bits,
                                 .value_bits = o->value_bits,
                                 .weight_bits = o->weight_bits,
                                 .inner_bits = o->inner_bits,
                                 .mode = o->mode,
                                 .takes = o->public_weights ? TAKES_HIDDEN : TAKES_ONE_HOT,
                                 .gives = gives,
                                 .public_weights = o->public_weights,
                                 .fold = o->fold},
                        .ignore_unknown = o->ignore_unknown};
    const int status = model_load(&m->from, &mo);
    if (status != EXIT_DONE || m->from.refused[0] == '\0')
        return status;
    const int why = model_refuse(&m->from);
    model_unload(&m->from);
    return why;
}

/* BERT's classifier is where training begins, if there is one of as many labels. */
static bool has_classifier(const ft_model *m, uint32_t labels) {
    const st_tensor *t = checkpoint_find(&m->from.from, "classifier.weight");
    return t != NULL && t->rank == 2 && t->shape[0] == labels && m->from.d.labels == labels;
}

static int load_classified(ft_model *m, const ft_data *d, const ft_options *o) {
    const uint32_t labels = labels_of(d, o);
    int status = load(m, d, o, GIVES_HIDDEN);
    if (status != EXIT_DONE)
        return status;
    const bool bert = m->from.d.family == FAMILY_BERT;
    const uint32_t pool = o->pool_given ? o->pool : bert ? FT_POOL_TANH : FT_POOL_MEAN;
    if (pool == FT_POOL_TANH && !bert) {
        model_unload(&m->from);
        return report_error(EXIT_BAD_INPUT, "--pool tanh: %s has no pooler; give first or mean",
                            o->model);
    }
    if (pool == FT_POOL_TANH) {
        const uint8_t gives = has_classifier(m, labels) ? GIVES_LABELS : GIVES_POOLED;
        model_unload(&m->from);
        status = load(m, d, o, gives);
    }
    m->cfg.model = m->from.config;
    m->cfg.model.labels = labels;
    m->cfg.model.pool = pool == FT_POOL_TANH    ? UVCC_MODEL_POOL_TANH
                        : pool == FT_POOL_FIRST ? UVCC_MODEL_POOL_FIRST
                                                : UVCC_MODEL_POOL_MEAN;
    return status;
}

static int load_checkpoint(ft_model *m, const ft_data *d, const ft_options *o) {
    if (d->labelled)
        return load_classified(m, d, o);
    const char *option = o->labels != 0         ? "--labels"
                         : o->pool_given        ? "--pool"
                         : o->label_owner_given ? "--label-owner"
                                                : NULL;
    if (option != NULL)
        return report_error(EXIT_BAD_INPUT, "%s does nothing: %s has no labels; leave it out",
                            option, o->data);
    if (o->method == UVCC_FINETUNE_HEAD)
        return report_error(EXIT_BAD_INPUT,
                            "--method head: %s has no labels to learn; give --method lora or full "
                            "for its next tokens",
                            o->data);
    const int status = load(m, d, o, GIVES_LOGITS);
    m->cfg.model = m->from.config;
    return status;
}

/* ---- the program's configuration ---- */

static uint32_t microbatches(const ft_options *o, bool padding) {
    const bool apart = padding && o->method != UVCC_FINETUNE_HEAD;
    return o->microbatches != 0 ? o->microbatches : apart ? o->batch : 1;
}

/* The library says it of its own fields. */
static int check_rows(const ft_data *d, const ft_options *o) {
    const uint64_t rows = (uint64_t)o->batch * (d->labelled ? 1 : d->tokens);
    if ((rows & (rows - 1)) == 0)
        return EXIT_DONE;
    if (d->labelled)
        return report_error(EXIT_BAD_INPUT, "--batch %u: give a power of two", o->batch);
    return report_error(EXIT_BAD_INPUT,
                        "--batch %u: with rows of %u tokens and one that is only predicted, batch "
                        "times tokens is no power of two; give others, or --tokens too",
                        o->batch, d->tokens);
}

/* The library names its fields; a command has options for most of them. */
static int refuse(const ft_options *o, const char *line) {
    static const struct {
        const char *field, *option;
    } names[] = {{"pool ", "--pool"},
                 {"rank ", "--rank"},
                 {"labels ", "--labels"},
                 {"microbatches ", "--microbatches"},
                 {"learning_rate ", "--lr"},
                 {"final_rate ", "--final-rate"},
                 {"weight_decay ", "--weight-decay"},
                 {"warmup ", "--warmup"},
                 {"clip ", "--clip"},
                 {"steps ", "--steps"},
                 {"tokens ", "--tokens"},
                 {"value_bits ", "--value-bits"},
                 {"inner_bits ", "--inner-bits"},
                 {"weight_bits ", "--weight-bits"},
                 {"frac_bits ", "--frac-bits"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const size_t n = strlen(names[i].field);
        if (strncmp(line, names[i].field, n) == 0)
            return report_error(EXIT_BAD_INPUT, "%s %s", names[i].option, line + n);
    }
    return report_error(EXIT_BAD_INPUT, "%s: %s", o->model, line);
}

static int configure(ft_model *m, const ft_data *d, const ft_options *o) {
    uvcc_finetune_config *c = &m->cfg;
    char message[256] = "";
    const int bad = check_rows(d, o);
    if (bad != EXIT_DONE)
        return bad;
    c->model.padding = d->in.padding != NULL;
    c->microbatches = microbatches(o, c->model.padding);
    c->model.sequences = o->batch / c->microbatches;
    c->method = (uint8_t)o->method;
    c->rank = o->rank;
    c->adapted = ft_options_adapted(o);
    c->optimizer = (uint8_t)o->optimizer;
    c->learning_rate = o->lr;
    c->warmup = o->warmup < o->steps ? o->warmup : o->steps;
    c->steps = o->steps;
    c->final_rate = o->final_rate;
    c->clip = o->clip;
    c->weight_decay = o->weight_decay;
    c->text_owner = (uint8_t)o->text_owner;
    c->label_owner = (uint8_t)(d->labelled ? o->label_owner : o->text_owner);
    c->receiver = (uint8_t)o->receiver;
    if (uvcc_finetune_check(c, message, sizeof message) != 0)
        return refuse(o, message);
    if (o->held_out % c->model.sequences != 0)
        return report_error(EXIT_BAD_INPUT,
                            "--held-out %u is no multiple of the %u rows of a microbatch; give one "
                            "that is, or other --batch or --microbatches",
                            o->held_out, c->model.sequences);
    return EXIT_DONE;
}

/* ---- values ---- */

bool ft_model_known(const ft_model *m, uint32_t i) {
    return i >= m->kept || m->cfg.model.weights == UVCC_MODEL_PUBLIC_WEIGHTS;
}

static int read_weight(const ft_model *m, uint32_t i, const flag_message *why) {
    const size_t n = m->at[i + 1] - m->at[i];
    double *v = malloc(n * sizeof *v);
    const int rc =
        v == NULL ? flag_fail(why, "out of memory") : weights_read(&m->from.w, i, v, why);
    if (rc == 0)
        fixed_round(v, n, m->from.pass.frac_bits, m->from.pass.weight_bits, m->values + m->at[i]);
    free(v);
    return rc;
}

/* A classifier that the checkpoint has not, and adapters, come behind all that it has. */
static int read_weights(ft_model *m, const ft_options *o) {
    char message[256] = "";
    const flag_message why = {message, sizeof message};
    m->count = uvcc_finetune_weight_count(&m->cfg);
    m->kept = m->from.w.count;
    m->at = calloc(m->count + 1, sizeof *m->at);
    m->weight = calloc(m->count + 1, sizeof *m->weight);
    if (m->at == NULL || m->weight == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    for (uint32_t i = 0; i < m->count; i++) {
        uvcc_finetune_weight *w = &m->weight[i];
        (void)uvcc_finetune_weight_at(&m->cfg, i, w);
        m->elements = m->at[i + 1] = m->at[i] + (size_t)w->about.rows * w->about.cols;
        m->trained += w->trained ? m->at[i + 1] - m->at[i] : 0;
    }
    m->values = calloc(m->elements, sizeof *m->values);
    if (m->values == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    if (m->from.all.clipped != 0)
        return report_error(EXIT_BAD_INPUT,
                            "%llu weights leave %u bits, the greatest is %g; give --weight-bits %u",
                            (unsigned long long)m->from.all.clipped, m->from.pass.weight_bits,
                            m->from.all.most, m->from.all.bits);
    for (uint32_t i = 0; i < m->count; i++) {
        if (i >= m->kept)
            uvcc_finetune_initial(&m->cfg, o->run.seed, i, m->values + m->at[i]);
        else if (read_weight(m, i, &why) != 0)
            return report_error(EXIT_BAD_INPUT, "%s", message);
    }
    return EXIT_DONE;
}

int ft_model_load(ft_model *out, ft_data *d, const ft_options *o) {
    char message[256] = "";
    const flag_message why = {message, sizeof message};
    *out = (ft_model){.count = 0};
    if (uvcc_finetune_default(&out->cfg, sizeof out->cfg) != 0)
        return report_error(EXIT_FAILED, "another version of the library");
    int status = load_checkpoint(out, d, o);
    if (status == EXIT_DONE && ft_data_read(d, o, &out->from.w, &why) != 0)
        status = report_error(EXIT_BAD_INPUT, "%s", message);
    if (status == EXIT_DONE)
        status = configure(out, d, o);
    return status == EXIT_DONE ? read_weights(out, o) : status;
}

void ft_model_free(ft_model *m) {
    model_unload(&m->from);
    free(m->at);
    free(m->weight);
    free(m->values);
}

/* ---- inputs ---- */

size_t ft_model_room(const ft_model *m) {
    uvcc_tensor_desc x;
    uint32_t rows = 0, cols = 0;
    (void)uvcc_model_inputs(&m->cfg.model, &x, NULL);
    (void)uvcc_model_output(&m->cfg.model, &rows, &cols);
    const size_t in = (size_t)x.rows * x.cols, targets = (size_t)rows * cols;
    return in > targets ? in : targets;
}

/* One-hot tokens and types, or rows of embeddings. */
static void put_tokens(const ft_model *m, const ft_data *d, size_t token, int64_t *out) {
    const uvcc_model_config *c = &m->cfg.model;
    const model_input *in = &d->in;
    if (c->input != UVCC_MODEL_INPUT_ONE_HOT) {
        fixed_round(in->x + token * c->width, c->width, c->frac_bits, FIXED_BITS_MOST, out);
        return;
    }
    memset(out, 0, ((size_t)c->vocabulary + c->segments) * sizeof *out);
    out[in->ids[token]] = 1;
    if (c->segments != 0)
        out[c->vocabulary + (in->types != NULL ? in->types[token] : 0)] = 1;
}

void ft_model_input(const ft_model *m, const ft_data *d, uint32_t id, ft_row_fn row, void *user,
                    int64_t *out) {
    const uvcc_model_config *c = &m->cfg.model;
    uvcc_tensor_desc x;
    uint32_t rows = 0, cols = 0;
    (void)uvcc_model_inputs(c, &x, NULL);
    (void)uvcc_model_output(c, &rows, &cols);
    const bool padding = id >= UVCC_FINETUNE_IN_PADDING || id == UVCC_FINETUNE_IN_EVAL_PADDING;
    const bool targets =
        !padding && (id >= UVCC_FINETUNE_IN_TARGETS || id == UVCC_FINETUNE_IN_EVAL_TARGETS);
    const uint32_t each = rows / c->sequences; /* rows that have a target, of one of the data's */
    for (uint32_t s = 0; s < c->sequences; s++) {
        const size_t from = row(user, s);
        for (uint32_t t = 0; t < (targets ? each : c->tokens); t++)
            if (targets) {
                memset(out, 0, cols * sizeof *out);
                out[d->target[from * each + t]] = 1;
                out += cols;
            } else if (padding) {
                *out++ = d->in.padding[from * c->tokens + t];
            } else {
                put_tokens(m, d, from * c->tokens + t, out);
                out += x.cols;
            }
    }
}

/* ---- results ---- */

void ft_model_hash(const ft_model *m, uint8_t out[32]) {
    crypto_hash_sha256_state h;
    (void)crypto_hash_sha256_init(&h);
    for (uint32_t i = 0; i < m->count; i++)
        for (size_t e = m->at[i]; m->weight[i].trained && e < m->at[i + 1]; e++) {
            uint8_t word[8];
            for (unsigned k = 0; k < sizeof word; k++)
                word[k] = (uint8_t)((uint64_t)m->values[e] >> (8 * k));
            (void)crypto_hash_sha256_update(&h, word, sizeof word);
        }
    (void)crypto_hash_sha256_final(&h, out);
}

/* {"L0.WQ.A": {"dtype": "F64", "shape": [rows, cols], "data_offsets": [from, to]}, ..}; NULL
 * without memory. */
static char *header_of(const ft_model *m) {
    static const char *const methods[] = {"head", "lora", "full"};
    json_t *o = json_object();
    uint64_t from = 0;
    int bad = json_object_set_new(
        o, "__metadata__",
        json_pack("{s:s, s:s}", "format", "uvcc train", "method", methods[m->cfg.method]));
    for (uint32_t i = 0; i < m->count; i++) {
        const uvcc_model_weight *w = &m->weight[i].about;
        const uint64_t to = from + 8 * (uint64_t)(m->at[i + 1] - m->at[i]);
        if (!m->weight[i].trained)
            continue;
        bad |= json_object_set_new(o, w->name,
                                   json_pack("{s:s, s:[i,i], s:[I,I]}", "dtype", "F64", "shape",
                                             (int)w->rows, (int)w->cols, "data_offsets",
                                             (json_int_t)from, (json_int_t)to));
        from = to;
    }
    char *text = bad == 0 ? json_dumps(o, JSON_COMPACT) : NULL;
    json_decref(o);
    return text;
}

static void put_word(FILE *to, uint64_t v) {
    for (unsigned k = 0; k < 8; k++)
        (void)fputc((int)(v >> (8 * k) & 0xFF), to);
}

/* Errors show in atomic_file_finish(). */
static void put_values(const ft_model *m, FILE *to) {
    for (uint32_t i = 0; i < m->count; i++)
        for (size_t e = m->at[i]; m->weight[i].trained && e < m->at[i + 1]; e++) {
            const double real = fixed_real(m->values[e], m->cfg.model.frac_bits);
            uint64_t bits;
            memcpy(&bits, &real, sizeof bits);
            put_word(to, bits);
        }
}

int ft_model_write(const ft_model *m, const char *path) {
    int status;
    atomic_file *out = atomic_file_open_own("out", path, &status);
    if (out == NULL)
        return status;
    char *header = header_of(m);
    if (header == NULL) {
        status = report_error(EXIT_FAILED, "out of memory");
    } else {
        const size_t len = strlen(header), pad = (8 - len % 8) % 8; /* values begin at words */
        FILE *to = atomic_file_stream(out);
        put_word(to, len + pad);
        (void)fprintf(to, "%s%*s", header, (int)pad, "");
        put_values(m, to);
        status = atomic_file_finish(out);
    }
    free(header);
    atomic_file_close(out);
    return status;
}
