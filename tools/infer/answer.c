/* SPDX-License-Identifier: Apache-2.0 */
/* answer.c - what `uvcc infer` says: the answer as its receiver reads it, what it took, what each
 * party saw; as text, as JSON, and as a file of all values. */
#include "infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic_file.h"
#include "../escape.h"

enum { TOP = 5, ROWS_SHOWN = 8, VALUES_SHOWN = 6, NAME_BYTES = 64 };

static const char *const gives_names[] = {"hidden", "logits", "last", "pooled", "labels"};
static const char *const modes[] = {"fast", "exact", "exact-dcf"};

static void put(FILE *to, const char *text, size_t len) {
    escaper e = {0};
    escape_put(&e, to, text, len);
    escape_end(&e, to);
}

/* ---- names of columns ---- */

/* Logits and labels are of classes, of which the greatest is the answer. */
static bool has_classes(const infer *f) {
    const uint8_t gives = f->l.pass.gives;
    return gives == GIVES_LABELS || gives == GIVES_LOGITS || gives == GIVES_LAST_LOGITS;
}

/* As config.json names a label; a byte of a model over bytes; NULL: only a number. */
static const char *class_name(const infer *f, size_t i, char room[NAME_BYTES]) {
    if (f->l.pass.gives == GIVES_LABELS) {
        (void)snprintf(room, NAME_BYTES, "%zu", i);
        const json_t *names = json_object_get(f->l.from.config, "id2label");
        return json_string_value(json_object_get(names, room));
    }
    if (!infer_of_bytes(f) || i < ' ' || i > '~')
        return NULL;
    (void)snprintf(room, NAME_BYTES, "'%c'", (char)i);
    return room;
}

size_t infer_greatest(const double *row, size_t n) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = row[i] > row[best] ? i : best;
    return best;
}

/* The greatest few, in order; returns how many. */
static size_t top_of(const double *row, size_t n, size_t top[TOP]) {
    size_t count = 0;
    for (size_t i = 0; i < n; i++) {
        size_t at = count;
        while (at > 0 && row[top[at - 1]] < row[i])
            at--;
        if (at == TOP)
            continue;
        count = count < TOP ? count + 1 : count;
        memmove(top + at + 1, top + at, (count - at - 1) * sizeof *top);
        top[at] = i;
    }
    return count;
}

static double softmax_of(const double *row, size_t n, size_t i) {
    const double most = row[infer_greatest(row, n)];
    double sum = 0;
    for (size_t k = 0; k < n; k++)
        sum += exp(row[k] - most);
    return exp(row[i] - most) / sum;
}

/* ---- the answer ---- */

static void name_row(const infer *f, size_t row, FILE *to) {
    if (f->answer.rows == f->p.in.sequences)
        (void)fprintf(to, "sequence %zu", row + 1);
    else
        (void)fprintf(to, "sequence %zu, token %zu", row / f->p.in.tokens + 1,
                      row % f->p.in.tokens + 1);
}

static void show_classes(const infer *f, const double *row, FILE *to) {
    char room[NAME_BYTES];
    size_t top[TOP];
    const size_t cols = f->answer.cols, count = top_of(row, cols, top);
    for (size_t i = 0; i < count; i++) {
        const char *name = class_name(f, top[i], room);
        (void)fprintf(to, "  %5.1f%%  %9.4f  %6zu  ", 100 * softmax_of(row, cols, top[i]),
                      row[top[i]], top[i]);
        put(to, name != NULL ? name : "", name != NULL ? strlen(name) : 0);
        (void)fputc('\n', to);
    }
}

static void show_values(const infer *f, const double *row, FILE *to) {
    for (size_t i = 0; i < f->answer.cols && i < VALUES_SHOWN; i++)
        (void)fprintf(to, " %9.5f", row[i]);
    (void)fprintf(to, "%s\n", f->answer.cols > VALUES_SHOWN ? " .." : "");
}

void infer_show_rows(const infer *f, FILE *to) {
    const infer_answer *a = &f->answer;
    const size_t shown = a->rows < ROWS_SHOWN ? a->rows : ROWS_SHOWN;
    for (size_t r = 0; r < shown; r++) {
        name_row(f, r, to);
        (void)fputs(has_classes(f) ? "\n" : " ", to);
        if (has_classes(f))
            show_classes(f, a->y + r * a->cols, to);
        else
            show_values(f, a->y + r * a->cols, to);
    }
    if (shown < a->rows)
        (void)fprintf(to, "and %zu rows more (--output FILE has all)\n", a->rows - shown);
}

static void show_answer(const infer *f, FILE *to) {
    const infer_answer *a = &f->answer;
    if (f->o->receiver == UVCC_TO_ALL)
        (void)fputs("Answer, to all parties", to);
    else
        (void)fprintf(to, "Answer, to party %u alone", f->o->receiver);
    (void)fprintf(to, ": %s, %zu x %zu\n", gives_names[f->l.pass.gives], a->rows, a->cols);
    infer_show_rows(f, to);
}

/* ---- what each party saw ---- */

static void hex(FILE *to, const uint8_t bytes[INFER_SEEN_BYTES]) {
    for (unsigned i = 0; i < INFER_SEEN_BYTES; i++)
        (void)fprintf(to, "%02x", bytes[i]);
}

static void show_seen(const char *what, const uint8_t bytes[2][INFER_SEEN_BYTES], FILE *to) {
    for (unsigned i = 0; i < 2; i++) {
        (void)fprintf(to, "  %-10s  ", i == 0 ? what : "");
        hex(to, bytes[i]);
        (void)fprintf(to, " ..%s\n", i == 0 ? "" : "  its two shares of it");
    }
}

/* The owner's input, as it gave it. */
static void show_input(const infer *f, FILE *to) {
    const infer_options *o = f->o;
    (void)fprintf(to, "  %-10s  ", "input");
    if (o->text != NULL) {
        put(to, o->text, strlen(o->text));
    } else {
        const size_t n = f->p.in.tokens < VALUES_SHOWN ? f->p.in.tokens : VALUES_SHOWN;
        (void)fputs("tokens", to);
        for (size_t i = 0; i < n; i++)
            (void)fprintf(to, " %lld", (long long)f->p.in.ids[i]);
        (void)fputs(" ..", to);
    }
    (void)fputs("  (its own)\n", to);
}

void infer_name_first(const infer *f, char *out, size_t cap) {
    char room[NAME_BYTES];
    const infer_answer *a = &f->answer;
    const size_t best = infer_greatest(a->y, a->cols);
    const char *name = has_classes(f) ? class_name(f, best, room) : NULL;
    if (name != NULL)
        (void)snprintf(out, cap, "%s", name);
    else if (has_classes(f))
        (void)snprintf(out, cap, "token %zu", best);
    else
        (void)snprintf(out, cap, "%.5f ..", a->y[0]);
}

static void show_learned(const infer *f, unsigned party, FILE *to) {
    char name[NAME_BYTES] = "nothing";
    if (f->answer.learns[party])
        infer_name_first(f, name, sizeof name);
    (void)fprintf(to, "  %-10s  ", "learns");
    put(to, name, strlen(name));
    (void)fputc('\n', to);
}

static void show_view(const infer *f, FILE *to) {
    uvcc_model_weight w;
    (void)uvcc_model_weight_at(&f->l.w.shape, f->seen_weight, &w);
    (void)fprintf(to,
                  "\nWhat each party saw of the input's first token and of weight %s, %d bytes\n",
                  w.name, INFER_SEEN_BYTES);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        (void)fprintf(to, "party %u\n", p);
        if (p == f->o->input_owner)
            show_input(f, to);
        else
            show_seen("input", f->seen[p].input, to);
        if (f->o->public_weights)
            (void)fprintf(to, "  %-10s  public\n", "weights");
        else if (p == f->o->weights_owner)
            (void)fprintf(to, "  %-10s  %.6f %.6f ..  (its own)\n", "weights", f->seen_real[0],
                          f->seen_real[1]);
        else
            show_seen("weights", f->seen[p].weights, to);
        show_learned(f, p, to);
    }
}

/* ---- the summary ---- */

static void show_checked(const infer *f, FILE *to) {
    const infer_checked *c = &f->checked;
    (void)fprintf(to, "check            off double precision by %.3g (rms %.3g)", c->real.most,
                  plain_rms(&c->real));
    if (f->p.in.expected != NULL)
        (void)fprintf(to, ", off what --input has by %.3g", c->given.most);
    if (has_classes(f))
        (void)fprintf(to, "; the greatest is the same in %zu of %zu rows", c->same, c->rows);
    if (f->p.config.mode != UVCC_MODEL_FAST)
        (void)fprintf(to, "; %s the plaintext twin\n",
                      c->equal ? "equal bit for bit to" : "DIFFERENT from");
    else
        (void)fprintf(to, "; off the plaintext twin, which rounds down, by %.3g\n", c->twin.most);
}

void infer_show(const infer *f) {
    const infer_options *o = f->o;
    FILE *to = report_stream(o->run.json);
    const host_totals *t = &f->totals;
    show_answer(f, to);
    if (o->view)
        show_view(f, to);
    (void)fprintf(to, "\nmodel            %s, %u layers, width %u, %llu weights, ",
                  description_family(&f->l.d), f->l.d.layers, f->l.d.width,
                  (unsigned long long)uvcc_model_parameters(&f->p.config));
    if (o->public_weights)
        (void)fputs("public\n", to);
    else
        (void)fprintf(to, "secret, of party %u\n", o->weights_owner);
    (void)fprintf(to, "input            %u x %u tokens of party %u%s\n", f->p.in.sequences,
                  f->p.in.tokens, o->input_owner,
                  f->p.in.padding != NULL ? ", padding among them" : "");
    (void)fprintf(to,
                  "numbers          %s, frac_bits %u, value_bits %u, inner_bits %u, "
                  "weight_bits %u",
                  modes[f->p.config.mode], f->p.config.frac_bits, plain_value_bits(&f->p),
                  plain_inner_bits(&f->p), f->p.config.weight_bits);
    description_show_index(&f->p.config, to);
    (void)fputc('\n', to);
    if (o->check)
        show_checked(f, to);
    (void)fprintf(to, "time             %.2f s, and %.2f s to share the weights\n", f->pass_s,
                  f->shares_s);
    (void)fprintf(to, "traffic          %.1f MB online, %.1f MB of keys, %llu messages\n",
                  (double)t->bytes_online * 1e-6, (double)t->bytes_preprocessing * 1e-6,
                  (unsigned long long)t->messages);
    (void)fprintf(to, "rounds           %llu\n", (unsigned long long)t->rounds);
    report_flush(to);
}

/* ---- JSON ---- */

static json_t *top_json(const infer *f, const double *row) {
    char room[NAME_BYTES];
    size_t top[TOP];
    const size_t cols = f->answer.cols, count = top_of(row, cols, top);
    json_t *all = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(all, json_pack("{s:I, s:s?, s:f, s:f}", "class", (json_int_t)top[i],
                                             "name", class_name(f, top[i], room), "value",
                                             row[top[i]], "share", softmax_of(row, cols, top[i])));
    return all;
}

json_t *infer_tops(const infer *f) {
    if (!has_classes(f))
        return json_null();
    json_t *all = json_array();
    for (size_t r = 0; r < f->answer.rows; r++)
        json_array_append_new(all, top_json(f, f->answer.y + r * f->answer.cols));
    return all;
}

static json_t *checked_json(const infer *f) {
    const infer_checked *c = &f->checked;
    const bool exact = f->p.config.mode != UVCC_MODEL_FAST;
    return json_pack(
        "{s:f, s:f, s:f, s:o, s:o, s:o}", "error", c->real.most, "error_rms", plain_rms(&c->real),
        "twin_error", c->twin.most, "twin_equal", exact ? json_boolean(c->equal) : json_null(),
        "same", has_classes(f) ? json_integer((json_int_t)c->same) : json_null(), "expected_error",
        f->p.in.expected != NULL ? json_real(c->given.most) : json_null());
}

static json_t *seen_json(const uint8_t bytes[2][INFER_SEEN_BYTES]) {
    json_t *all = json_array();
    for (unsigned i = 0; i < 2; i++)
        json_array_append_new(all, report_hex(bytes[i], INFER_SEEN_BYTES));
    return all;
}

/* null: its own, or public. */
static json_t *view_json(const infer *f) {
    json_t *all = json_array();
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const bool known = f->o->public_weights || p == f->o->weights_owner;
        json_array_append_new(
            all, json_pack("{s:o, s:o, s:b}", "input",
                           p == f->o->input_owner ? json_null() : seen_json(f->seen[p].input),
                           "weights", known ? json_null() : seen_json(f->seen[p].weights), "learns",
                           (int)f->answer.learns[p]));
    }
    return all;
}

json_t *infer_json(const infer *f) {
    const infer_options *o = f->o;
    const host_totals *t = &f->totals;
    const struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"kind", json_string(description_family(&f->l.d))},
        {"gives", json_string(gives_names[f->l.pass.gives])},
        {"mode", json_string(modes[f->p.config.mode])},
        {"receiver", o->receiver == UVCC_TO_ALL ? json_string("all") : json_integer(o->receiver)},
        {"input_owner", json_integer(o->input_owner)},
        {"weights_owner", o->public_weights ? json_null() : json_integer(o->weights_owner)},
        {"sequences", json_integer(f->p.in.sequences)},
        {"tokens", json_integer(f->p.in.tokens)},
        {"rows", json_integer((json_int_t)f->answer.rows)},
        {"cols", json_integer((json_int_t)f->answer.cols)},
        {"top", infer_tops(f)},
        {"frac_bits", json_integer(f->p.config.frac_bits)},
        {"value_bits", json_integer(plain_value_bits(&f->p))},
        {"inner_bits", json_integer(plain_inner_bits(&f->p))},
        {"weight_bits", json_integer(f->p.config.weight_bits)},
        {"index_bits", description_index_json(&f->p.config)},
        {"parameters", json_integer((json_int_t)uvcc_model_parameters(&f->p.config))},
        {"check", o->check ? checked_json(f) : json_null()},
        {"view", o->view ? view_json(f) : json_null()},
        {"bytes_online", json_integer((json_int_t)t->bytes_online)},
        {"bytes_preprocessing", json_integer((json_int_t)t->bytes_preprocessing)},
        {"messages", json_integer((json_int_t)t->messages)},
        {"rounds", json_integer((json_int_t)t->rounds)},
        {"tensor_peak_bytes", json_integer((json_int_t)t->tensor_peak)},
        {"time_s", json_real(f->pass_s)},
        {"shares_s", json_real(f->shares_s)},
    };
    json_t *all = json_object();
    int bad = 0;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        bad |= json_object_set_new(all, members[i].key, members[i].value);
    if (bad == 0)
        return all;
    json_decref(all);
    return NULL;
}

/* ---- the file ---- */

static const char *output_name(const infer *f) {
    switch (f->l.pass.gives) {
    case GIVES_HIDDEN:
        return "last_hidden_state";
    case GIVES_POOLED:
        return "pooler_output";
    default:
        return "logits";
    }
}

/* Shapes are those of the library transformers: rows of tokens have a dimension for sequences. */
static void write_tensors(const infer *f, FILE *to) {
    const infer_answer *a = &f->answer;
    const bool of_tokens = a->rows != f->p.in.sequences;
    char shape[64], head[256];
    if (of_tokens)
        (void)snprintf(shape, sizeof shape, "%u,%u,%zu", f->p.in.sequences, f->p.in.tokens,
                       a->cols);
    else
        (void)snprintf(shape, sizeof shape, "%zu,%zu", a->rows, a->cols);
    int n = snprintf(head, sizeof head,
                     "{\"%s\":{\"dtype\":\"F64\",\"shape\":[%s],\"data_offsets\":[0,%zu]}}",
                     output_name(f), shape, a->rows * a->cols * 8);
    while (n % 8 != 0)
        head[n++] = ' ';
    for (unsigned i = 0; i < 8; i++)
        (void)fputc(i < 4 ? (int)((unsigned)n >> 8 * i & 255) : 0, to);
    (void)fwrite(head, 1, (size_t)n, to);
    for (size_t i = 0; i < a->rows * a->cols; i++) {
        uint64_t bits;
        memcpy(&bits, &a->y[i], 8);
        for (unsigned k = 0; k < 8; k++)
            (void)fputc((int)(bits >> 8 * k & 255), to);
    }
}

static int write_json(const infer *f, FILE *to) {
    const infer_answer *a = &f->answer;
    json_t *rows = json_array();
    for (size_t r = 0; r < a->rows; r++) {
        json_t *row = json_array();
        for (size_t i = 0; i < a->cols; i++)
            json_array_append_new(row, json_real(a->y[r * a->cols + i]));
        json_array_append_new(rows, row);
    }
    json_t *all = json_pack("{s:I, s:I, s:o}", "sequences", (json_int_t)f->p.in.sequences, "tokens",
                            (json_int_t)f->p.in.tokens, output_name(f), rows);
    const bool ok = all != NULL && (json_dumpf(all, to, JSON_COMPACT) == 0 || ferror(to));
    (void)fputc('\n', to);
    json_decref(all);
    return ok ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
}

int infer_write(const infer *f, atomic_file *to) {
    const char *path = f->o->output;
    const size_t n = strlen(path);
    int status = EXIT_DONE;
    if (n > 5 && strcmp(path + n - 5, ".json") == 0)
        status = write_json(f, atomic_file_stream(to));
    else
        write_tensors(f, atomic_file_stream(to));
    return status == EXIT_DONE ? atomic_file_finish(to) : status;
}
