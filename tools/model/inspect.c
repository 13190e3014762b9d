/* SPDX-License-Identifier: Apache-2.0 */
/* inspect.c - `uvcc model inspect`: what a checkpoint is, what its weights take as fixed-point
 * numbers, and what a pass of it costs. */
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>

#include "../escape.h"
#include "../report.h"
#include "model.h"

typedef struct view {
    const model_options *o;
    loaded l;
    bool priced;
    uvcc_model_costs cost;
    uint64_t embedded; /* values of embeddings that are no weights of the library's */
    char dtypes[96];
} view;

/* Positions of GPT are weight P, and embeddings the caller's, unless tokens go in. */
static void count_embeddings(view *v) {
    if (v->o->pass.takes != TAKES_HIDDEN)
        return;
    for (unsigned e = 0; e < EMBEDDINGS; e++) {
        const st_tensor *t = v->l.w.embedding[e];
        if (t != NULL && (e != EMBEDDING_POSITIONS || v->l.d.embedding_norm))
            v->embedded += t->elements;
    }
}

static void list_dtypes(view *v) {
    const st_tensor *t;
    size_t n = 0;
    bool seen[ST_DTYPES] = {false};
    for (size_t i = 0; (t = checkpoint_at(&v->l.from, i)) != NULL; i++) {
        if (!seen[t->dtype] && n < sizeof v->dtypes)
            n += (size_t)snprintf(v->dtypes + n, sizeof v->dtypes - n, "%s%s", n != 0 ? ", " : "",
                                  st_dtype_name(t->dtype));
        seen[t->dtype] = true;
    }
}

static void price(view *v) {
    const uvcc_allocator al = uvcc_host_allocator();
    char why[sizeof v->l.refused] = "";
    if (v->l.refused[0] == '\0') {
        v->priced = uvcc_model_cost(&v->l.config, &al, &v->cost, why, sizeof why) == 0;
        if (!v->priced)
            memcpy(v->l.refused, why, sizeof why);
    }
}

/* ---- as text ---- */

static unsigned shown_bits(uint32_t given, unsigned otherwise) {
    return given != 0 ? given : otherwise;
}

static unsigned value_bits(const view *v) {
    return shown_bits(v->l.pass.value_bits, 7);
}

/* What of a pass's numbers says how its activation is looked up, of one that is refused too. */
static uvcc_model_config numbers(const view *v) {
    return (uvcc_model_config){.activation = v->l.d.activation,
                               .frac_bits = (uint8_t)v->l.pass.frac_bits,
                               .index_bits = (uint8_t)v->l.pass.index_bits};
}

static void show_weights(const view *v, FILE *to) {
    uvcc_model_weight w;
    char shape[40];
    (void)fprintf(to, "\n%-10s %13s %12s %5s  tensor\n", "weight", "shape", "greatest", "bits");
    for (uint32_t i = 0; uvcc_model_weight_at(&v->l.w.shape, i, &w) == 0; i++) {
        (void)snprintf(shape, sizeof shape, "%u x %u", w.rows, w.cols);
        (void)fprintf(to, "%-10s %13s %12.6f %5u  %s\n", w.name, shape, v->l.stats[i].most,
                      v->l.stats[i].bits, weights_source(&v->l.w, i));
        if (v->l.stats[i].clipped != 0)
            (void)fprintf(to, "%-10s %llu values leave %u bits\n", "",
                          (unsigned long long)v->l.stats[i].clipped, v->l.pass.weight_bits);
    }
}

/* Names are a file's, which may have what commands a terminal. */
static void put_name(const char *name, FILE *to) {
    escaper e = {0};
    escape_put(&e, to, name, strlen(name));
    escape_end(&e, to);
}

static void show_ignored(const view *v, FILE *to) {
    if (v->l.w.ignored == 0)
        return;
    (void)fprintf(to, "\nNot read, what comes out does not need them:");
    for (size_t i = 0; i < v->l.w.ignored; i++) {
        (void)fputs(i != 0 ? ", " : " ", to);
        put_name(weights_ignored(&v->l.w, i), to);
    }
    (void)fputc('\n', to);
}

static void show_cost(const view *v, FILE *to) {
    (void)fprintf(to,
                  "A pass of %u x %u tokens: %u rounds, %.1f MB online, %.1f MB of keys; at a "
                  "party %.1f MB of tensors, %.1f MB of weights\n",
                  v->l.pass.sequences, v->l.pass.tokens, v->cost.rounds,
                  (double)v->cost.online_bytes / 1e6, (double)v->cost.key_bytes / 1e6,
                  (double)v->cost.transient_bytes / 1e6, (double)v->cost.weight_bytes / 1e6);
}

static void show(const view *v, FILE *to) {
    const model_description *d = &v->l.d;
    const uvcc_model_config index = numbers(v);
    (void)fprintf(to, "Model: %s, %u layers, width %u, %u heads of %u columns (%u of keys), ",
                  description_family(d), d->layers, d->width, d->heads, d->head_size, d->kv_heads);
    (void)fprintf(to, "%u units, vocabulary %u, %u positions\n", d->ff_width, d->vocabulary,
                  d->positions);
    (void)fprintf(to, "Files: %zu with %zu tensors of %s\n", v->l.from.file_count,
                  checkpoint_tensors(&v->l.from), v->dtypes);
    (void)fprintf(to, "Parameters: %llu", (unsigned long long)uvcc_model_parameters(&v->l.w.shape));
    if (v->embedded != 0) /* else they are weights */
        (void)fprintf(to, ", and %llu of embeddings, which are the caller's",
                      (unsigned long long)v->embedded);
    (void)fputc('\n', to);
    if (d->unknown[0] != '\0') {
        (void)fputs("Not known in config.json: ", to);
        put_name(d->unknown, to);
        (void)fputc('\n', to);
    }
    show_weights(v, to);
    show_ignored(v, to);
    (void)fprintf(to, "\nNumbers: frac_bits %u, value_bits %u, weight_bits %u, inner_bits %u",
                  v->l.pass.frac_bits, value_bits(v), v->l.pass.weight_bits,
                  shown_bits(v->l.pass.inner_bits, value_bits(v)));
    description_show_index(&index, to);
    (void)fprintf(to, "; greatest weight %.6f needs %u bits, %llu values are clipped\n",
                  v->l.all.most, v->l.all.bits, (unsigned long long)v->l.all.clipped);
    if (v->priced)
        show_cost(v, to);
    else
        (void)fprintf(to, "Not run: %s\n", v->l.refused);
}

/* ---- as JSON ---- */

static json_t *weights_json(const view *v) {
    uvcc_model_weight w;
    json_t *all = json_array();
    for (uint32_t i = 0; uvcc_model_weight_at(&v->l.w.shape, i, &w) == 0; i++)
        json_array_append_new(all, json_pack("{s:s, s:s, s:i, s:i, s:f, s:i, s:I}", "name", w.name,
                                             "tensor", weights_source(&v->l.w, i), "rows",
                                             (int)w.rows, "cols", (int)w.cols, "greatest",
                                             v->l.stats[i].most, "bits", (int)v->l.stats[i].bits,
                                             "clipped", (json_int_t)v->l.stats[i].clipped));
    return all;
}

static json_t *cost_json(const view *v) {
    if (!v->priced)
        return json_null();
    return json_pack("{s:i, s:I, s:I, s:I, s:I}", "rounds", (int)v->cost.rounds, "online_bytes",
                     (json_int_t)v->cost.online_bytes, "key_bytes", (json_int_t)v->cost.key_bytes,
                     "transient_bytes", (json_int_t)v->cost.transient_bytes, "weight_bytes",
                     (json_int_t)v->cost.weight_bytes);
}

static json_t *to_json(const view *v) {
    const model_description *d = &v->l.d;
    const uvcc_model_config index = numbers(v);
    json_t *ignored = json_array();
    for (size_t i = 0; i < v->l.w.ignored; i++)
        json_array_append_new(ignored, json_string(weights_ignored(&v->l.w, i)));
    json_t *o = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:I, s:I, s:s, s:s, s:I, s:I}", "model_type",
        description_family(d), "layers", (int)d->layers, "width", (int)d->width, "heads",
        (int)d->heads, "kv_heads", (int)d->kv_heads, "head_size", (int)d->head_size, "ff_width",
        (int)d->ff_width, "vocabulary", (int)d->vocabulary, "positions", (int)d->positions, "files",
        (json_int_t)v->l.from.file_count, "tensors", (json_int_t)checkpoint_tensors(&v->l.from),
        "dtypes", v->dtypes, "unknown", d->unknown, "parameters",
        (json_int_t)uvcc_model_parameters(&v->l.w.shape), "embedding_parameters",
        (json_int_t)v->embedded);
    json_t *pass = json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:i, s:o, s:s?, s:I}", "sequences", (int)v->l.pass.sequences,
        "tokens", (int)v->l.pass.tokens, "frac_bits", (int)v->l.pass.frac_bits, "value_bits",
        (int)value_bits(v), "weight_bits", (int)v->l.pass.weight_bits, "inner_bits",
        (int)shown_bits(v->l.pass.inner_bits, value_bits(v)), "index_bits",
        description_index_json(&index), "refused", v->priced ? NULL : v->l.refused, "clipped",
        (json_int_t)v->l.all.clipped);
    json_object_update(o, pass);
    json_decref(pass);
    json_object_set_new(o, "ignored", ignored);
    json_object_set_new(o, "weights", weights_json(v));
    json_object_set_new(o, "cost", cost_json(v));
    return o;
}

int model_inspect(const model_options *o) {
    view v = {.o = o};
    report_json *json = report_json_open(o->json);
    if (json == NULL)
        return EXIT_BAD_INPUT;
    int status = model_load(&v.l, o);
    if (status == EXIT_DONE &&
        (status = model_spares(&v.l.from, &(output_use){"json", o->json}, 1)) != EXIT_DONE)
        model_unload(&v.l);
    if (status == EXIT_DONE) {
        count_embeddings(&v);
        list_dtypes(&v);
        price(&v);
        show(&v, report_stream(o->json));
        if (o->json != NULL)
            status = report_json_put(json, to_json(&v));
        model_unload(&v.l);
    }
    report_json_close(json);
    return status;
}
