/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - what goes into `uvcc infer`: tokens of a safetensors file, of a list, or of text, whose
 * bytes are the tokens of a model over bytes. */
#include "infer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "../files.h"

/* Bytes are tokens 0 to 255; a few behind them mark things. */
enum { BYTES = 256, MARKS_MAX = 16 };

/* Sequences of tokens, of any lengths, one after the other. */
typedef struct token_lists {
    int64_t *ids;
    size_t *ends; /* of each */
    size_t count, sequences, room;
} token_lists;

static int no_memory(const flag_message *m) {
    return flag_fail(m, "out of memory");
}

static void lists_free(token_lists *t) {
    free(t->ids);
    free(t->ends);
}

/* Room for as many tokens and sequences as a text of so many bytes can have. */
static int lists_make(token_lists *t, size_t bytes, const flag_message *m) {
    *t = (token_lists){.room = 2 * bytes + 2};
    t->ids = malloc(t->room * sizeof *t->ids);
    t->ends = malloc(t->room * sizeof *t->ends);
    return t->ids != NULL && t->ends != NULL ? 0 : no_memory(m);
}

/* ---- text ---- */

int64_t infer_begin_mark(const infer *f) {
    const json_t *v = json_object_get(f->l.from.config, "bos_token_id");
    const json_int_t mark = json_is_integer(v) ? json_integer_value(v) : -1;
    return mark >= BYTES && mark < (json_int_t)f->l.d.vocabulary ? mark : -1;
}

bool infer_of_bytes(const infer *f) {
    return f->l.d.vocabulary >= BYTES && f->l.d.vocabulary <= BYTES + MARKS_MAX;
}

static int of_bytes(const infer *f, const char *option, const flag_message *m) {
    if (infer_of_bytes(f))
        return 0;
    return flag_fail(
        m,
        "%s: text is for models over bytes, with a vocabulary of %d to %d; this one "
        "has %u: give the tokens that its tokenizer makes, as input_ids of a file that "
        "ends in .safetensors%s",
        option, BYTES, BYTES + MARKS_MAX, f->l.d.vocabulary,
        strcmp(option, "--calibrate") != 0 ? ", or by --ids" : "");
}

static void add_text(token_lists *t, const infer *f, const char *text, size_t len) {
    const int64_t mark = infer_begin_mark(f);
    if (mark >= 0)
        t->ids[t->count++] = mark;
    for (size_t i = 0; i < len; i++)
        t->ids[t->count++] = (unsigned char)text[i];
    t->ends[t->sequences++] = t->count;
}

static int take_text(const infer *f, const char *option, const char *text, size_t len, bool lines,
                     token_lists *t, const flag_message *m) {
    int rc = of_bytes(f, option, m);
    if (rc == 0)
        rc = lists_make(t, len, m);
    for (size_t at = 0; rc == 0 && at < len;) {
        const char *end = lines ? memchr(text + at, '\n', len - at) : NULL;
        const size_t n = end != NULL ? (size_t)(end - (text + at)) : len - at;
        if (n != 0)
            add_text(t, f, text + at, n);
        at += n + 1;
    }
    return rc == 0 && t->sequences == 0 ? flag_fail(m, "%s: there is no text", option) : rc;
}

/* ---- lists ---- */

/* "1,2,3;4,5,6" */
static int take_ids(const infer *f, token_lists *t, const flag_message *m) {
    const char *at = f->o->ids;
    int rc = lists_make(t, strlen(at), m);
    for (char *end; rc == 0; at = end + 1) {
        errno = 0;
        const unsigned long long id = strtoull(at, &end, 10);
        if (*at < '0' || *at > '9' || errno != 0 || (*end != ',' && *end != ';' && *end != '\0'))
            return flag_fail(m, "--ids %s: give tokens as 1,2,3 and sequences as 1,2;3,4",
                             f->o->ids);
        if (id >= f->l.d.vocabulary)
            return flag_fail(m, "--ids: token %llu is not one of the model's %u", id,
                             f->l.d.vocabulary);
        t->ids[t->count++] = (int64_t)id;
        if (*end != ',')
            t->ends[t->sequences++] = t->count;
        if (*end == '\0')
            break;
    }
    return rc;
}

/* ---- into the shape of a pass ---- */

static size_t length_of(const token_lists *t, size_t s) {
    return t->ends[s] - (s != 0 ? t->ends[s - 1] : 0);
}

/* Sequences are as long as the longest, or as --tokens says; what is behind a text is none. */
static int shape(infer *f, const token_lists *t, uint32_t tokens, model_input *out,
                 const flag_message *m) {
    size_t longest = 0, shortest = SIZE_MAX;
    for (size_t s = 0; s < t->sequences; s++) {
        longest = length_of(t, s) > longest ? length_of(t, s) : longest;
        shortest = length_of(t, s) < shortest ? length_of(t, s) : shortest;
    }
    const size_t n = tokens > longest ? tokens : longest;
    if (longest > f->l.d.positions)
        return flag_fail(m, "%zu tokens are more than the model's %u positions", longest,
                         f->l.d.positions);
    if (tokens != 0 && tokens < longest)
        return flag_fail(m, "%s %u: there is a sequence of %zu",
                         f->o->agreed != NULL ? f->o->agreed : "--tokens", tokens, longest);
    if (n != shortest && f->l.d.causal)
        return flag_fail(m,
                         "a %s takes sequences of one length, without padding; the shortest has "
                         "%zu of %zu tokens",
                         description_family(&f->l.d), shortest, n);
    int64_t *ids = calloc(t->sequences * n, sizeof *ids);
    int64_t *padding = n != shortest ? malloc(t->sequences * n * sizeof *padding) : NULL;
    if (ids == NULL || (n != shortest && padding == NULL)) {
        free(ids);
        free(padding);
        return no_memory(m);
    }
    for (size_t s = 0; s < t->sequences; s++) {
        const size_t len = length_of(t, s);
        memcpy(ids + s * n, t->ids + t->ends[s] - len, len * sizeof *ids);
        for (size_t i = 0; padding != NULL && i < n; i++)
            padding[s * n + i] = i >= len;
    }
    return input_make(out, &f->l.w, (uint32_t)t->sequences, (uint32_t)n, ids, padding, m);
}

static bool ends_in(const char *path, const char *end) {
    const size_t n = strlen(path), e = strlen(end);
    return n >= e && strcmp(path + n - e, end) == 0;
}

/* Lines of a text. */
static int take_file(const infer *f, const char *option, const char *path, token_lists *t,
                     const flag_message *m) {
    uint8_t *bytes = NULL;
    size_t len;
    int rc = file_read_why(path, &bytes, &len, m->text, m->cap);
    if (rc == 0) /* a file that is not there is no text that does not fit */
        rc = of_bytes(f, option, m);
    if (rc == 0)
        rc = take_text(f, option, (const char *)bytes, len, true, t, m);
    free(bytes);
    return rc;
}

static int read_as(infer *f, uint32_t tokens, const flag_message *m) {
    const infer_options *o = f->o;
    token_lists t = {0};
    int rc;
    if (o->input != NULL && ends_in(o->input, ".safetensors") && !plain_takes_tokens(&f->p) &&
        f->l.w.from == NULL) /* nobody embeds here */
        return input_read_rows(&f->p.in, o->input, &f->l.w, m);
    if (!plain_takes_tokens(&f->p) && f->l.w.from == NULL)
        return flag_fail(m, "there are no embeddings here: give a file that ends in .safetensors, "
                            "with inputs_embeds");
    if (o->input != NULL && ends_in(o->input, ".safetensors"))
        return input_read(&f->p.in, o->input, &f->l.w, o->agreed != NULL ? 0 : tokens, m);
    if (o->text != NULL)
        rc = take_text(f, "--text", o->text, strlen(o->text), false, &t, m);
    else if (o->ids != NULL)
        rc = take_ids(f, &t, m);
    else
        rc = take_file(f, "--input", o->input, &t, m);
    if (rc == 0)
        rc = shape(f, &t, tokens, &f->p.in, m);
    lists_free(&t);
    return rc;
}

int infer_read_input(infer *f, const flag_message *m) {
    return read_as(f, f->o->tokens, m);
}

int infer_read_prompt(infer *f, const flag_message *m) {
    return read_as(f, 0, m);
}

/* ---- to whom ---- */

int infer_take_receiver(infer_options *o, const flag_message *m) {
    if (o->to == NULL || strcmp(o->to, "owner") == 0)
        o->receiver = (uint8_t)o->input_owner;
    else if (strcmp(o->to, "all") == 0)
        o->receiver = UVCC_TO_ALL;
    else if (o->to[0] >= '0' && o->to[0] <= '2' && o->to[1] == '\0')
        o->receiver = (uint8_t)(o->to[0] - '0');
    else
        return flag_fail(m, "--to %s: give owner, all, or a party: 0, 1 or 2", o->to);
    return 0;
}

/* ---- calibration ---- */

enum { DRAWN_SEQUENCES = 4, SPARE_BITS = 1, BITS_MOST = 12 };

/* Tokens that the owner of the weights has: no one's secret. */
static int read_calibration(infer *f, model_input *out, const flag_message *m) {
    const char *path = f->o->calibrate;
    const uint32_t tokens = f->p.in.tokens;
    token_lists t = {0};
    if (path == NULL)
        return input_draw(out, &f->l.w, DRAWN_SEQUENCES, tokens, f->o->run.seed, m);
    if (ends_in(path, ".safetensors"))
        return input_read(out, path, &f->l.w, tokens, m);
    int rc = take_file(f, "--calibrate", path, &t, m);
    for (size_t s = 0; rc == 0 && s < t.sequences; s++)
        if (length_of(&t, s) > tokens) /* a pass of the input's length is what is asked for */
            rc = flag_fail(m, "--calibrate %s: line %zu is longer than the input's %u tokens", path,
                           s + 1, tokens);
    if (rc == 0)
        rc = shape(f, &t, 0, out, m);
    lists_free(&t);
    return rc;
}

static uint32_t spared(unsigned bits) {
    return bits + SPARE_BITS < BITS_MOST ? bits + SPARE_BITS : BITS_MOST;
}

static int calibrate(infer *f, const flag_message *m) {
    const infer_options *o = f->o;
    const range *who;
    model_input input = f->p.in;
    int rc = read_calibration(f, &f->p.in, m), status = EXIT_DONE;
    if (rc != 0) {
        f->p.in = input;
        return report_error(EXIT_BAD_INPUT, "%s", m->text);
    }
    status = plain_real(&f->p);
    if (status == EXIT_DONE && o->value_bits == 0)
        f->l.pass.value_bits = spared(plain_bits(&f->p, false, &who));
    if (status == EXIT_DONE && o->inner_bits == 0)
        f->l.pass.inner_bits = spared(plain_bits(&f->p, true, &who));
    if (f->l.pass.inner_bits > f->l.pass.value_bits)
        f->l.pass.inner_bits = f->l.pass.value_bits;
    input_free(&f->p.in);
    f->p.in = input;
    return status;
}

/* ---- the numbers of the pass ---- */

int infer_load(infer *f) {
    const infer_options *o = f->o;
    const model_options asked = {.word = {"infer", o->model},
                                 .pass = {.sequences = 1,
                                          .frac_bits = o->frac_bits,
                                          .value_bits = o->value_bits,
                                          .weight_bits = o->weight_bits,
                                          .inner_bits = o->inner_bits,
                                          .index_bits = o->index_bits,
                                          .mode = o->mode,
                                          .takes = o->public_weights ? TAKES_HIDDEN
                                                   : o->view         ? TAKES_ONE_HOT
                                                                     : TAKES_TOKENS,
                                          .gives = o->gives,
                                          .public_weights = o->public_weights != 0,
                                          .fold = o->fold},
                                 .ignore_unknown = o->ignore_unknown};
    const int status = model_load(&f->l, &asked);
    if (status == EXIT_DONE && f->l.all.clipped != 0)
        return report_error(EXIT_BAD_INPUT,
                            "%llu weights leave %u bits, the greatest is %g; give --weight-bits %u",
                            (unsigned long long)f->l.all.clipped, f->l.pass.weight_bits,
                            f->l.all.most, f->l.all.bits);
    return status;
}

/* Weights in double precision are there only while they are needed. */
int infer_settle(infer *f, const flag_message *m) {
    const infer_options *o = f->o;
    const bool calibrates = o->value_bits == 0 || o->inner_bits == 0;
    int rc = model_settle(&f->l, &f->p, m), status = EXIT_DONE;
    if (rc == 0 && (calibrates || o->check))
        rc = plain_weights(&f->p, &f->l.w, o->check, m);
    if (rc == 0 && calibrates)
        status = calibrate(f, m);
    if (status != EXIT_DONE)
        return status;
    if (rc == 0)
        rc = model_settle(&f->l, &f->p, m);
    if (rc != 0)
        return report_error(EXIT_BAD_INPUT, "%s", m->text);
    if (f->p.refused[0] != '\0')
        return report_error(EXIT_BAD_INPUT, "%s: %s", o->model, f->p.refused);
    if (!o->check) {
        free(f->p.weights);
        f->p.weights = NULL;
    }
    return EXIT_DONE;
}
