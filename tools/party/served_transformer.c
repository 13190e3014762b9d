/* SPDX-License-Identifier: Apache-2.0 */
/* served_transformer.c - a pretrained transformer, of which one party has the weights or all have.
 * What a client asks are sequences: tokens, as keys or as one-hot rows, or rows of hidden states.
 */
#include <stdlib.h>

#include "../flags_json.h"
#include "../report.h"
#include "pass.h"
#include "serve_offer.h"
#include "served.h"
#include "work_util.h"

enum { MESSAGE_BYTES = 512 };

typedef struct served {
    work_config c;
    pass v;
} served;

static int bad(const served *v, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s: %s", v->c.file, why);
}

/* ---- what is told ---- */

static int read_data(served *v) {
    static const char *const members[] = {"model", "shares", NULL};
    char text[MESSAGE_BYTES] = "";
    const flag_message m = {text, sizeof text};
    const char *model = NULL, *shares = NULL;
    if (flags_json_only(v->c.data, "data", members, &m) != 0 ||
        flags_json_text(v->c.data, "data", "model", &model, &m) != 0 ||
        flags_json_text(v->c.data, "data", "shares", &shares, &m) != 0)
        return bad(v, text);
    return pass_read_weights(&v->v, &v->c, model, shares);
}

static int check_form(const served *v, const serving_form *f) {
    const uvcc_request_shape s = serving_request(f, f->units);
    const uint64_t in = serving_values(&s) + serving_key_words(&s);
    const uint64_t out = (uint64_t)s.out_rows * s.out_cols;
    if (in <= UVCC_REQUEST_VALUES_MAX && out <= UVCC_REQUEST_VALUES_MAX)
        return EXIT_DONE;
    return report_error(EXIT_BAD_INPUT,
                        "%s: job.run: a request has %llu values, its answer %llu, and %u are "
                        "possible; give fewer sequences or tokens%s",
                        v->c.file, (unsigned long long)in, (unsigned long long)out,
                        UVCC_REQUEST_VALUES_MAX,
                        v->v.run.pass.takes == TAKES_ONE_HOT ? ", or takes \"tokens\"" : "");
}

static void transformer_close(void *of) {
    served *v = of;
    pass_free(&v->v);
    free(v);
}

static int transformer_open(void **of, const work_config *c, serving_form *form) {
    served *v = calloc(1, sizeof *v);
    if (v == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    v->c = *c;
    int status = pass_read_served(&v->v, c->file, "job.run", c->run);
    if (status == EXIT_DONE)
        status = work_alone(c, "serves");
    if (status == EXIT_DONE) {
        *form = pass_form(&v->v);
        status = check_form(v, form);
    }
    if (status == EXIT_DONE)
        status = read_data(v);
    if (status == EXIT_DONE)
        *of = v;
    else
        transformer_close(v);
    return status;
}

/* ---- what is computed ---- */

static int add_all(const pass *v, uvcc_program *p, uint32_t *tensors, char *why, size_t cap) {
    const uvcc_model_config *c = &v->f.p.config;
    const uvcc_allocator al = uvcc_host_allocator();
    int rc = pass_streams(v) ? 0 : pass_add_weights(v, p, tensors, why, cap);
    if (rc == 0)
        rc = serving_add_choose(p, SERVE_WORDS, SERVE_WORD_BITS);
    if (rc != 0)
        return rc;
    return pass_streams(v) ? uvcc_model_forward_streamed_shared(c, p, tensors, &al, why, cap)
                           : uvcc_model_forward_shared(c, p, tensors, &al, why, cap);
}

/* A pass, or one by layers. */
static uint32_t parts(const void *of) {
    const served *v = of;
    return pass_streams(&v->v) ? pass_streamed_steps(&v->v) : 1;
}

static const char *part_entry(const void *of, uint32_t part) {
    const served *v = of;
    return pass_streams(&v->v) ? pass_streamed_entry(&v->v, part) : "forward";
}

static int before_part(void *of, const work_worker *w, uvcc_session *s, uint32_t part) {
    served *v = of;
    return pass_streams(&v->v) ? pass_set_streamed(&v->v, w, s, part) : EXIT_DONE;
}

static int transformer_program(void *of, uvcc_program **out, serving_program *at) {
    served *v = of;
    uvcc_program *p = NULL;
    const int status = pass_program(&v->v, &p, add_all);
    if (status != EXIT_DONE)
        return status;
    const int padding = uvcc_program_find(p, "PADDING");
    *at = (serving_program){.choose_entry = (uint32_t)uvcc_program_find_entry(p, "choose"),
                            .serve_entry = (uint32_t)uvcc_program_find_entry(p, part_entry(v, 0)),
                            .asked = (uint32_t)uvcc_program_find(p, "X"),
                            .answer = (uint32_t)uvcc_program_find(p, "Y"),
                            .padding = padding < 0 ? UVCC_NO_TENSOR : (uint32_t)padding};
    *out = p;
    return EXIT_DONE;
}

static uint32_t weight_steps(const void *of) {
    return pass_weight_steps(&((const served *)of)->v);
}

static uint32_t weight_entry(const void *of, const uvcc_program *p, uint32_t step) {
    (void)of;
    return pass_weight_entry(p, step);
}

static const int64_t *give_weight(void *of, uint32_t id) {
    return pass_weight(&((served *)of)->v, id);
}

static int first_values(void *of, const work_worker *w, uvcc_session *s) {
    return pass_set_weights(&((served *)of)->v, w, s);
}

static uint64_t agree(const void *of, const char **name) {
    return pass_agree(&((const served *)of)->v, name);
}

static int share(void *of, const char *dir) {
    served *v = of;
    return pass_share(&v->v, &v->c, dir);
}

const served_kind served_transformer = {.open = transformer_open,
                                        .close = transformer_close,
                                        .program = transformer_program,
                                        .weight_steps = weight_steps,
                                        .weight_entry = weight_entry,
                                        .weight = give_weight,
                                        .parts = parts,
                                        .part_entry = part_entry,
                                        .before_part = before_part,
                                        .first_values = first_values,
                                        .agree = agree,
                                        .share = share};
