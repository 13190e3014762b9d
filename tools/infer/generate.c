/* SPDX-License-Identifier: Apache-2.0 */
/* generate.c - text from a pretrained model among three parties: a pass for each token, of a window
 * of the last ones. The logits of the next one open to who gave the prompt, who takes one and goes
 * on. A text shorter than the window has something before it that means nothing. */
#include "infer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../escape.h"

enum { FILLER_BYTE = '\n', WINDOW_MORE = 32 };

typedef struct generation {
    infer f;
    int64_t *ids; /* the text so far */
    size_t count;
    uvcc_seeded_random seeded;
    uvcc_random random; /* of the owner of the prompt */
    bool on_terminal;
    escaper escaper;
} generation;

/* ---- the window ---- */

/* What stands before a short text: its mark, or a newline; token 0 where nobody knows better. */
static int64_t filler(const infer *f) {
    const int64_t mark = infer_begin_mark(f);
    return mark >= 0 ? mark : infer_of_bytes(f) ? FILLER_BYTE : 0;
}

static void slide(generation *g) {
    model_input *in = &g->f.p.in;
    for (size_t i = 0; i < in->tokens; i++)
        in->ids[i] = g->count + i >= in->tokens ? g->ids[g->count + i - in->tokens] : filler(&g->f);
}

/* A window as long as --context, else as the prompt and a little more. */
static int make_window(generation *g, const flag_message *m) {
    infer *f = &g->f;
    const uint32_t had = f->p.in.tokens, most = f->l.d.positions;
    if (f->p.in.sequences != 1)
        return flag_fail(m, "the prompt is one sequence");
    uint32_t n = f->o->tokens != 0 ? f->o->tokens : had + WINDOW_MORE;
    if (f->o->tokens > most)
        return flag_fail(m, "--context %u is more than the model's %u positions", f->o->tokens,
                         most);
    n = n < most ? n : most;
    g->ids = calloc((size_t)had + f->o->generate, sizeof *g->ids);
    int64_t *ids = calloc(n, sizeof *ids);
    if (g->ids == NULL || ids == NULL) {
        free(ids);
        return flag_fail(m, "out of memory");
    }
    g->count = had;
    memcpy(g->ids, f->p.in.ids, had * sizeof *ids);
    input_free(&f->p.in);
    if (input_make(&f->p.in, &f->l.w, 1, n, ids, NULL, m) != 0)
        return -1;
    slide(g);
    return 0;
}

/* ---- a token ---- */

/* From 0 to 1, not 1. */
static double draw(generation *g) {
    uint64_t v = 0;
    (void)g->random.fill(g->random.user, (uint8_t *)&v, sizeof v);
    return (double)(v >> 11) * 0x1p-53;
}

/* The likeliest at temperature 0, else as the probabilities say. */
static size_t choose(generation *g) {
    const double *y = g->f.answer.y, t = g->f.o->temperature;
    const size_t n = g->f.answer.cols, best = infer_greatest(y, n);
    double sum = 0;
    if (t <= 0)
        return best;
    for (size_t i = 0; i < n; i++)
        sum += exp((y[i] - y[best]) / t);
    double at = draw(g) * sum;
    for (size_t i = 0; i < n; i++) {
        at -= exp((y[i] - y[best]) / t);
        if (at < 0)
            return i;
    }
    return best;
}

/* Bytes are shown as `uvcc generate DIR` shows them, other tokens by their numbers. */
static void show(generation *g, const int64_t *ids, size_t count) {
    for (size_t i = 0; i < count; i++) {
        const char byte = (char)ids[i];
        if (!infer_of_bytes(&g->f))
            (void)printf("%lld ", (long long)ids[i]);
        else if (ids[i] < 256 && g->on_terminal)
            escape_put(&g->escaper, stdout, &byte, 1);
        else if (ids[i] < 256)
            (void)fputc(byte, stdout);
    }
    report_flush(stdout);
}

static int next(generation *g, uint32_t step) {
    infer *f = &g->f;
    const uint8_t owner = (uint8_t)f->o->input_owner;
    free(f->x);
    f->x = plain_input(&f->p);
    int status = f->x != NULL ? host_run(&f->host, step + 1, true)
                              : report_error(EXIT_FAILED, "out of memory");
    if (status != EXIT_DONE)
        return status;
    const int64_t *v =
        uvcc_session_output(f->host.worker[0].party[owner].session, step, UVCC_MODEL_OUT_Y);
    status = v != NULL ? infer_take_answer(f, v)
                       : host_failed(&f->host, "the logits are not open", UVCC_ERR_STATE);
    if (status != EXIT_DONE)
        return status;
    g->ids[g->count++] = (int64_t)choose(g);
    slide(g);
    show(g, g->ids + g->count - 1, 1);
    return ferror(stdout) ? report_output(EXIT_FAILED) : EXIT_DONE;
}

static int sample(generation *g) {
    const uint32_t length = g->f.o->generate;
    uint32_t made = 0;
    int status = EXIT_DONE;
    show(g, g->ids, g->count);
    while (made < length && status == EXIT_DONE) {
        status = next(g, made);
        made += status == EXIT_DONE;
    }
    escape_end(&g->escaper, stdout);
    (void)fputc('\n', stdout);
    report_flush(stdout);
    if (status == EXIT_INTERRUPTED)
        return report_error(status, "interrupted after %u of %u tokens; nothing is kept", made,
                            length);
    return status;
}

/* ---- from begin to end ---- */

static int prepare(generation *g, const flag_message *m) {
    infer *f = &g->f;
    int status = infer_load(f);
    if (status != EXIT_DONE)
        return status;
    if (infer_read_prompt(f, m) != 0 || make_window(g, m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", m->text);
    return infer_settle(f, m);
}

int infer_generate(const infer_options *o) {
    char message[MODEL_MESSAGE_BYTES] = "";
    const flag_message m = {message, sizeof message};
    generation g = {.f.o = o, .escaper.keep = "\n\t"};
    g.on_terminal = isatty(STDOUT_FILENO) == 1;
    g.random = uvcc_seeded(&g.seeded, o->run.seed, INFER_SAMPLING_STREAM);
    int status = prepare(&g, &m);
    if (status == EXIT_DONE)
        status = infer_begin(&g.f);
    if (status == EXIT_INTERRUPTED)
        status = report_error(status, "interrupted before the first token; nothing is kept");
    else if (status == EXIT_DONE)
        status = sample(&g);
    if (status == EXIT_DONE)
        status = host_close(&g.f.host);
    const int ended = host_end(&g.f.host);
    infer_forget(&g.f);
    free(g.ids);
    return status != EXIT_DONE ? status : ended;
}
