/* SPDX-License-Identifier: Apache-2.0 */
/* description.c - see description.h.
 *
 * Members are asked for one by one, each with what it may be; those that were asked for, and those
 * of a list that change nothing of a forward pass, are the known ones. */
#include "description.h"

#include <stdlib.h>
#include <string.h>

const char *const model_gives_names[] = {"hidden", "logits", "last", "pooled", "labels", NULL};
const char *const model_mode_names[] = {"fast", "exact", "exact-dcf", NULL};
const char *const model_weights_names[] = {"secret", "public", NULL};

enum { KNOWN_MAX = 64, SHOWN_BYTES = 80, NAME_SHOWN = 100 };

typedef struct reader {
    const json_t *o;
    const char *path;
    const flag_message *m;
    const char *known[KNOWN_MAX];
    unsigned count;
    bool failed;
} reader;

/* They are of training, of sampling, of heads that are not read, or of how the library runs. */
static const char *const ignored[] = {
    "_name_or_path",
    "architectures",
    "attention_dropout",
    "attention_probs_dropout_prob",
    "attn_pdrop",
    "bos_token_id",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "decoder_start_token_id",
    "directionality",
    "dtype",
    "embd_pdrop",
    "embed_dropout",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "hidden_dropout_prob",
    "initializer_range",
    "label2id",
    "n_ctx",
    "output_attentions",
    "output_hidden_states",
    "output_past",
    "pad_token_id",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
    "pretraining_tp",
    "problem_type",
    "reorder_and_upcast_attn",
    "resid_dropout",
    "resid_pdrop",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "tokenizer_class",
    "torch_dtype",
    "transformers_version",
    "unk_token_id",
    "use_cache",
};

/* ---- members ---- */

static const json_t *ask(reader *r, const char *name) {
    if (r->count < KNOWN_MAX)
        r->known[r->count++] = name;
    const json_t *v = json_object_get(r->o, name);
    return json_is_null(v) ? NULL : v;
}

/* A value in one short line. */
static void show(const json_t *v, char out[SHOWN_BYTES]) {
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_SORT_KEYS);
    (void)snprintf(out, SHOWN_BYTES, "%s", text != NULL ? text : "?");
    free(text);
}

static void refuse(reader *r, const char *name, const json_t *v, const char *why) {
    char shown[SHOWN_BYTES];
    show(v, shown);
    if (!r->failed)
        (void)flag_fail(r->m, "%s: %s: %s %s", r->path, name, shown, why);
    r->failed = true;
}

/* A whole number; where it is missing or null, `missing`, and 0 there means that it must not be. */
static uint32_t count_of(reader *r, const char *name, uint32_t max, uint32_t missing) {
    char why[64];
    const json_t *v = ask(r, name);
    if (v == NULL && missing == 0 && !r->failed) {
        (void)flag_fail(r->m, "%s: %s is missing", r->path, name);
        r->failed = true;
    }
    if (v == NULL)
        return missing;
    if (json_is_integer(v) && json_integer_value(v) >= 1 && json_integer_value(v) <= max)
        return (uint32_t)json_integer_value(v);
    (void)snprintf(why, sizeof why, "must be a whole number from 1 to %u", max);
    refuse(r, name, v, why);
    return missing;
}

static double real_of(reader *r, const char *name, double max, double missing) {
    const json_t *v = ask(r, name);
    if (v == NULL)
        return missing;
    if (json_is_number(v) && json_number_value(v) >= 0 && json_number_value(v) <= max)
        return json_number_value(v);
    refuse(r, name, v, "must be a number of 0 or more, and not as large");
    return missing;
}

/* What is supported with one value alone; a member that is missing has it. */
static void only_bool(reader *r, const char *name, bool want) {
    const json_t *v = ask(r, name);
    if (v != NULL && !(json_is_boolean(v) && json_is_true(v) == want))
        refuse(r, name, v, "is not supported");
}

static void only_text(reader *r, const char *name, const char *want) {
    const json_t *v = ask(r, name);
    const char *text = json_string_value(v);
    if (v != NULL && (text == NULL || strcmp(text, want) != 0))
        refuse(r, name, v, "is not supported");
}

static void only_missing(reader *r, const char *name) {
    const json_t *v = ask(r, name);
    if (v != NULL)
        refuse(r, name, v, "is not supported");
}

static bool bool_of(reader *r, const char *name) {
    const json_t *v = ask(r, name);
    if (v != NULL && !json_is_boolean(v))
        refuse(r, name, v, "must be true or false");
    return json_is_true(v);
}

static bool bool_or(reader *r, const char *name, bool missing) {
    return json_object_get(r->o, name) != NULL ? bool_of(r, name) : missing;
}

/* As many as there are names; without names, two. */
static uint32_t labels_of(reader *r) {
    const json_t *names = ask(r, "id2label");
    if (names != NULL && (!json_is_object(names) || json_object_size(names) == 0))
        refuse(r, "id2label", names, "must be an object with a member for each label");
    return names != NULL ? (uint32_t)json_object_size(names) : 2;
}

static uint8_t activation_of(reader *r, const char *name, const char *missing) {
    static const struct {
        const char *name;
        uint8_t function;
    } all[] = {
        {"gelu", UVCC_NL_GELU},          {"gelu_python", UVCC_NL_GELU},
        {"gelu_new", UVCC_NL_GELU_TANH}, {"gelu_pytorch_tanh", UVCC_NL_GELU_TANH},
        {"relu", UVCC_NL_RELU},          {"silu", UVCC_NL_SILU},
        {"swish", UVCC_NL_SILU},
    };
    const json_t *v = ask(r, name);
    const char *text = v != NULL ? json_string_value(v) : missing;
    for (size_t i = 0; text != NULL && i < sizeof all / sizeof all[0]; i++)
        if (strcmp(all[i].name, text) == 0)
            return all[i].function;
    refuse(r, name, v, "is not supported: gelu, gelu_new, gelu_pytorch_tanh, relu and silu are");
    return UVCC_NL_GELU;
}

/* ---- families ---- */

enum { WIDTH_MAX = 65536, HEADS_MAX = 65535, UNITS_MAX = 1 << 20, ROWS_MAX = 1 << 24 };

static void read_bert(reader *r, model_description *d) {
    d->width = count_of(r, "hidden_size", WIDTH_MAX, 0);
    d->layers = count_of(r, "num_hidden_layers", UVCC_MODEL_MAX_LAYERS, 0);
    d->heads = count_of(r, "num_attention_heads", HEADS_MAX, 0);
    d->ff_width = count_of(r, "intermediate_size", UNITS_MAX, 0);
    d->vocabulary = count_of(r, "vocab_size", ROWS_MAX, 0);
    d->positions = count_of(r, "max_position_embeddings", ROWS_MAX, 0);
    d->types = count_of(r, "type_vocab_size", WIDTH_MAX, 2);
    d->activation = activation_of(r, "hidden_act", "gelu");
    d->epsilon = real_of(r, "layer_norm_eps", 1, 1e-12);
    only_text(r, "position_embedding_type", "absolute");
    only_bool(r, "is_decoder", false);
    only_bool(r, "add_cross_attention", false);
    d->learned = d->embedding_norm = true;
    d->biases = 1;
}

/* GPT-2 and GPT-Neo, but for the names of members. */
static void like_gpt(model_description *d) {
    d->order = UVCC_MODEL_PRE_NORM;
    d->last_norm = d->biases = 1;
    d->causal = d->learned = true;
}

static void read_gpt2(reader *r, model_description *d) {
    like_gpt(d);
    d->width = count_of(r, "n_embd", WIDTH_MAX, 0);
    d->layers = count_of(r, "n_layer", UVCC_MODEL_MAX_LAYERS, 0);
    d->heads = count_of(r, "n_head", HEADS_MAX, 0);
    d->ff_width = count_of(r, "n_inner", UNITS_MAX, 4 * d->width);
    d->vocabulary = count_of(r, "vocab_size", ROWS_MAX, 0);
    d->positions = count_of(r, "n_positions", ROWS_MAX, 0);
    d->activation = activation_of(r, "activation_function", "gelu_new");
    d->epsilon = real_of(r, "layer_norm_epsilon", 1, 1e-5);
    only_bool(r, "scale_attn_by_inverse_layer_idx", false);
    only_bool(r, "add_cross_attention", false);
    const json_t *scaled = ask(r, "scale_attn_weights");
    if (scaled != NULL && !json_is_boolean(scaled))
        refuse(r, "scale_attn_weights", scaled, "must be true or false");
    d->unscaled = json_is_false(scaled);
}

/* A layer of this name, "global" or "local". */
static void add_layer(reader *r, model_description *d, uint32_t *n, const json_t *kind) {
    const char *text = json_string_value(kind);
    const bool local = text != NULL && strcmp(text, "local") == 0;
    if (text == NULL || (!local && strcmp(text, "global") != 0))
        refuse(r, "attention_layers", kind, "is not supported: global and local are");
    if (*n < UVCC_MODEL_MAX_LAYERS)
        d->local[*n] = local;
    (*n)++;
}

/* attention_layers has a name for each layer; attention_types, which says the same, has pairs of
 * names and how often they are repeated. */
static void read_layers(reader *r, model_description *d) {
    const json_t *layers = ask(r, "attention_layers"), *types = ask(r, "attention_types");
    uint32_t n = 0;
    for (size_t i = 0; i < json_array_size(layers) && !r->failed; i++)
        add_layer(r, d, &n, json_array_get(layers, i));
    for (size_t i = 0; layers == NULL && i < json_array_size(types); i++) {
        const json_t *pair = json_array_get(types, i), *names = json_array_get(pair, 0);
        const json_int_t times =
            json_array_size(names) != 0 ? json_integer_value(json_array_get(pair, 1)) : 0;
        for (json_int_t k = 0; k < times && n <= d->layers && !r->failed; k++)
            for (size_t j = 0; j < json_array_size(names) && !r->failed; j++)
                add_layer(r, d, &n, json_array_get(names, j));
    }
    if (n == d->layers || r->failed)
        return;
    if (layers != NULL)
        refuse(r, "attention_layers", layers, "does not have one for each layer");
    else
        refuse(r, "attention_types", types, "does not have one for each layer");
}

static void read_gpt_neo(reader *r, model_description *d) {
    like_gpt(d);
    d->width = count_of(r, "hidden_size", WIDTH_MAX, 0);
    d->layers = count_of(r, "num_layers", UVCC_MODEL_MAX_LAYERS, 0);
    d->heads = count_of(r, "num_heads", HEADS_MAX, 0);
    d->ff_width = count_of(r, "intermediate_size", UNITS_MAX, 4 * d->width);
    d->vocabulary = count_of(r, "vocab_size", ROWS_MAX, 0);
    d->positions = count_of(r, "max_position_embeddings", ROWS_MAX, 0);
    d->window = count_of(r, "window_size", ROWS_MAX, 256);
    d->activation = activation_of(r, "activation_function", "gelu_new");
    d->epsilon = real_of(r, "layer_norm_epsilon", 1, 1e-5);
    d->unscaled = true;
    read_layers(r, d);
}

/* rope_theta, or rope_parameters of later versions, which have it inside. */
static void read_rotary(reader *r, model_description *d) {
    static const char parameters_name[] = "rope_parameters";
    d->rotary = true;
    d->theta = real_of(r, "rope_theta", 1e9, 10000);
    if (d->theta <= 1) /* 0 stands for another one in uvcc_model_config */
        refuse(r, "rope_theta", json_object_get(r->o, "rope_theta"), "must be above 1");
    only_missing(r, "rope_scaling");
    const json_t *parameters = ask(r, parameters_name), *value;
    const char *key;
    json_object_foreach((json_t *)(uintptr_t)parameters, key, value) {
        if (strcmp(key, "rope_theta") == 0 && json_is_number(value) &&
            json_number_value(value) > 1 && json_number_value(value) <= 1e9)
            d->theta = json_number_value(value);
        else if (strcmp(key, "rope_type") != 0 || json_string_value(value) == NULL ||
                 strcmp(json_string_value(value), "default") != 0)
            refuse(r, parameters_name, parameters, "is not supported");
    }
    if (parameters != NULL && !json_is_object(parameters))
        refuse(r, parameters_name, parameters, "is not supported");
}

static void read_llama(reader *r, model_description *d) {
    d->norm = UVCC_MODEL_RMS_NORM;
    d->order = UVCC_MODEL_PRE_NORM;
    d->ff = UVCC_MODEL_FF_GATED;
    d->last_norm = 1;
    d->causal = true;
    d->width = count_of(r, "hidden_size", WIDTH_MAX, 0);
    d->layers = count_of(r, "num_hidden_layers", UVCC_MODEL_MAX_LAYERS, 0);
    d->heads = count_of(r, "num_attention_heads", HEADS_MAX, 0);
    d->kv_heads = count_of(r, "num_key_value_heads", HEADS_MAX, d->heads);
    d->ff_width = count_of(r, "intermediate_size", UNITS_MAX, 0);
    d->vocabulary = count_of(r, "vocab_size", ROWS_MAX, 0);
    d->positions = count_of(r, "max_position_embeddings", ROWS_MAX, 2048);
    d->activation = activation_of(r, "hidden_act", "silu");
    d->epsilon = real_of(r, "rms_norm_eps", 1, 1e-6);
    d->biases = bool_of(r, "attention_bias");
    only_bool(r, "mlp_bias", false);
    read_rotary(r, d);
    const uint32_t even = d->heads != 0 ? d->width / d->heads : 0;
    d->head_size = count_of(r, "head_dim", WIDTH_MAX, even);
    if (d->head_size % 2 != 0 && !r->failed) {
        (void)flag_fail(r->m, "%s: head_dim must be even: rotary positions turn pairs", r->path);
        r->failed = true;
    }
}

/* ---- the whole ---- */

static const struct {
    const char *name;
    void (*read)(reader *r, model_description *d);
} families[] = {
    [FAMILY_BERT] = {"bert", read_bert},
    [FAMILY_GPT2] = {"gpt2", read_gpt2},
    [FAMILY_GPT_NEO] = {"gpt_neo", read_gpt_neo},
    [FAMILY_LLAMA] = {"llama", read_llama},
};

static bool is_known(const reader *r, const char *key) {
    for (unsigned i = 0; i < r->count; i++)
        if (strcmp(r->known[i], key) == 0)
            return true;
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++)
        if (strcmp(ignored[i], key) == 0)
            return true;
    return false;
}

/* Bytes of the whole characters of UTF-8 within the first `most`. */
static size_t whole_characters(const char *text, size_t most) {
    size_t n = strnlen(text, most);
    while (n != 0 && n == most && ((unsigned char)text[n] & 0xc0) == 0x80)
        most = --n;
    return n;
}

/* What is null changes nothing. */
static void list_unknown(const reader *r, model_description *d) {
    static const char more[] = ", ..";
    const char *key;
    json_t *value;
    size_t n = 0;
    json_object_foreach((json_t *)(uintptr_t)r->o, key, value) {
        const size_t shown = whole_characters(key, NAME_SHOWN);
        if (json_is_null(value) || is_known(r, key))
            continue;
        if (n + 2 + shown + sizeof more > sizeof d->unknown) {
            (void)snprintf(d->unknown + n, sizeof d->unknown - n, "%s", more);
            return;
        }
        n += (size_t)snprintf(d->unknown + n, sizeof d->unknown - n, "%s%.*s", n != 0 ? ", " : "",
                              (int)shown, key);
    }
}

static void check_heads(reader *r, const model_description *d) {
    if (r->failed)
        return;
    if (d->head_size == 0 || (uint64_t)d->head_size * d->heads > WIDTH_MAX ||
        (d->family != FAMILY_LLAMA && d->width % d->heads != 0)) {
        (void)flag_fail(r->m, "%s: %u heads do not divide a width of %u", r->path, d->heads,
                        d->width);
        r->failed = true;
    } else if (d->heads % d->kv_heads != 0) {
        (void)flag_fail(r->m, "%s: num_key_value_heads: %u does not divide %u heads", r->path,
                        d->kv_heads, d->heads);
        r->failed = true;
    }
}

int description_read(model_description *out, const json_t *config, const char *path,
                     const flag_message *m) {
    reader r = {.o = config, .path = path, .m = m};
    const json_t *type = ask(&r, "model_type");
    const char *name = json_string_value(type);
    *out = (model_description){0};
    if (name == NULL)
        return flag_fail(m, "%s: model_type is missing, or no string", path);
    size_t i = 0;
    while (i < sizeof families / sizeof families[0] && strcmp(families[i].name, name) != 0)
        i++;
    if (i == sizeof families / sizeof families[0]) {
        refuse(&r, "model_type", type, "is not supported: bert, gpt2, gpt_neo and llama are");
        return -1;
    }
    out->family = (model_family)i;
    families[i].read(&r, out);
    out->tied = bool_or(&r, "tie_word_embeddings", out->family != FAMILY_LLAMA);
    out->labels = labels_of(&r);
    if (out->kv_heads == 0)
        out->kv_heads = out->heads;
    if (out->head_size == 0 && out->heads != 0)
        out->head_size = out->width / out->heads;
    check_heads(&r, out);
    list_unknown(&r, out);
    return r.failed ? -1 : 0;
}

const char *description_family(const model_description *d) {
    return families[d->family].name;
}

/* ---- as the library has it ---- */

bool description_is_local(const model_description *d, uint32_t layer, uint32_t tokens) {
    return layer < d->layers && d->local[layer] != 0 && d->window < tokens;
}

/* The fields that the weights' list follows from, under numbers that always fit. */
static void shape_of(const model_description *d, uvcc_model_config *c) {
    (void)uvcc_model_default(c, sizeof *c);
    c->layers = d->layers;
    c->width = d->width;
    c->heads = d->heads;
    c->kv_heads = d->kv_heads;
    c->head_size = d->head_size;
    c->ff_width = d->ff_width;
    c->ff = d->ff;
    c->activation = d->activation;
    c->norm = d->norm;
    c->order = d->order;
    c->last_norm = d->last_norm;
    c->biases = d->biases;
    c->mask = d->causal ? UVCC_MODEL_MASK_CAUSAL : UVCC_MODEL_MASK_NONE;
    c->positions = d->learned && d->family != FAMILY_BERT ? UVCC_MODEL_POSITIONS_LEARNED
                                                          : UVCC_MODEL_POSITIONS_NONE;
    c->epsilon = d->epsilon;
    c->unscaled = d->unscaled;
    c->sequences = c->tokens = 1;
    c->frac_bits = 12;
}

/* Layers repeat after so many; 0: after more than a description can say. */
static uint32_t period_of(const model_description *d) {
    enum { PERIOD_MAX = 64 };
    for (uint32_t p = 1; p <= PERIOD_MAX; p++) {
        uint32_t l = p;
        while (l < d->layers && d->local[l] == d->local[l - p])
            l++;
        if (l >= d->layers)
            return p;
    }
    return 0;
}

/* Windows that some layers have and that show among so many tokens. */
static void take_windows(const model_description *d, uint32_t tokens, uvcc_model_config *c) {
    bool any = false;
    for (uint32_t l = 0; l < d->layers; l++)
        any = any || description_is_local(d, l, tokens);
    if (!any)
        return;
    c->mask = UVCC_MODEL_MASK_WINDOW;
    c->window = d->window;
    c->window_period = period_of(d);
    for (uint32_t l = 0; l < c->window_period && l < d->layers; l++)
        c->window_layers |= (uint64_t)(d->local[l] != 0) << l;
}

static void take_logits(const model_description *d, uint8_t gives, uvcc_model_config *c) {
    c->head = d->tied ? UVCC_MODEL_HEAD_TIED : UVCC_MODEL_HEAD_OWN;
    c->vocabulary = d->vocabulary;
    c->logits_last = gives == GIVES_LAST_LOGITS;
}

static void take_tokens(const model_description *d, uint8_t takes, uvcc_model_config *c) {
    c->input = takes == TAKES_ONE_HOT ? UVCC_MODEL_INPUT_ONE_HOT : UVCC_MODEL_INPUT_TOKENS;
    c->vocabulary = d->vocabulary;
    c->segments = d->types;
    c->embedding_norm = d->embedding_norm;
    if (d->learned)
        c->positions = UVCC_MODEL_POSITIONS_LEARNED;
}

/* What stands before and behind the layers; else why there is no such thing. */
static const char *take_ends(const model_description *d, const model_pass *pass,
                             uvcc_model_config *c) {
    const bool bert = d->family == FAMILY_BERT;
    if (pass->takes != TAKES_HIDDEN)
        take_tokens(d, pass->takes, c);
    switch (pass->gives) {
    case GIVES_HIDDEN:
        return NULL;
    case GIVES_LOGITS:
    case GIVES_LAST_LOGITS:
        if (bert)
            return "logits of bert are not there: its head (cls.) has a layer of its own";
        take_logits(d, pass->gives, c);
        return NULL;
    default:
        if (!bert)
            return "pooled rows and labels are there of bert only";
        c->pool = UVCC_MODEL_POOL_TANH;
        c->labels = pass->gives == GIVES_LABELS ? d->labels : 0;
        return NULL;
    }
}

static int say(char *message, size_t cap, int err, const char *text) {
    if (message != NULL && cap != 0)
        (void)snprintf(message, cap, "%s", text);
    return err;
}

int description_config(const model_description *d, const model_pass *pass, uvcc_model_config *out,
                       char *message, size_t message_cap) {
    uvcc_model_config c;
    char why[160];
    shape_of(d, &c);
    if (pass->tokens > d->positions) {
        (void)snprintf(why, sizeof why, "tokens: %u are more than the model's %u positions",
                       pass->tokens, d->positions);
        return say(message, message_cap, UVCC_ERR_USAGE, why);
    }
    if (pass->fold && d->order != UVCC_MODEL_PRE_NORM)
        return say(message, message_cap, UVCC_ERR_USAGE,
                   "--fold: norms behind the sums, as this model's, keep their gains");
    c.plain_norms = pass->fold;
    c.tokens = pass->tokens; /* rows of P */
    const char *missing = take_ends(d, pass, &c);
    if (missing != NULL)
        return say(message, message_cap, UVCC_ERR_USAGE, missing);
    *out = c;
    int err = uvcc_model_check(&c, message, message_cap);
    if (err != 0)
        return UVCC_ERR_USAGE;
    c.sequences = pass->sequences;
    c.padding = pass->padding;
    c.frac_bits = (uint8_t)pass->frac_bits;
    c.value_bits = (uint8_t)pass->value_bits;
    c.weight_bits = (uint8_t)pass->weight_bits;
    c.inner_bits = (uint8_t)pass->inner_bits;
    c.index_bits = (uint8_t)pass->index_bits;
    c.mode = pass->mode;
    c.weights = pass->public_weights ? UVCC_MODEL_PUBLIC_WEIGHTS : UVCC_MODEL_SECRET_WEIGHTS;
    if (d->rotary) {
        c.positions = UVCC_MODEL_POSITIONS_ROTARY;
        c.rope_theta = d->theta;
    }
    take_windows(d, pass->tokens, &c);
    if (c.mask == UVCC_MODEL_MASK_WINDOW && c.window_period == 0)
        return say(message, message_cap, UVCC_ERR_CONFIG,
                   "attention_layers: global and local ones do not repeat after 64 or fewer");
    if (c.index_bits != 0 && description_index_bits(&c) == 0)
        return say(message, message_cap, UVCC_ERR_CONFIG,
                   "index_bits: does nothing with ReLU, which has no table; leave it out");
    err = uvcc_model_check(&c, message, message_cap);
    if (err == 0)
        *out = c;
    return err;
}

unsigned description_index_bits(const uvcc_model_config *c) {
    return c->activation != UVCC_NL_RELU ? uvcc_model_index_bits(c) : 0;
}

void description_show_index(const uvcc_model_config *c, FILE *to) {
    const unsigned bits = description_index_bits(c);
    if (bits != 0)
        (void)fprintf(to, ", index_bits %u", bits);
}

json_t *description_index_json(const uvcc_model_config *c) {
    const unsigned bits = description_index_bits(c);
    return bits != 0 ? json_integer(bits) : json_null();
}
