/* SPDX-License-Identifier: Apache-2.0 */
/* plain.c - see plain.h. */
#include "plain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>

#include "../report.h"

uint32_t ft_place_row(void *place, uint32_t i) {
    const ft_place *p = place;
    const uvcc_finetune_config *c = &p->m->cfg;
    const uint32_t within = p->mb * c->model.sequences + i;
    if (p->eval)
        return p->d->learned + p->step * c->model.sequences + i;
    const uint64_t batch = (uint64_t)c->microbatches * c->model.sequences;
    return ft_data_row(p->d, p->seed, p->step * batch + within);
}

typedef struct plain {
    uvcc_program *program;
    uvcc_reference *reference;
    int64_t *input;
    char message[256];
} plain;

static int set(plain *p, const char *name, const int64_t *v) {
    return uvcc_reference_set(p->reference, (uint32_t)uvcc_program_find(p->program, name), v);
}

static int set_state(plain *p, const ft_model *m, const int64_t *initial) {
    int rc = 0;
    for (uint32_t i = 0; i < m->count && rc == 0; i++) {
        const uvcc_finetune_weight *w = &m->weight[i];
        const size_t n = m->at[i + 1] - m->at[i];
        char master[40];
        rc = set(p, w->about.name, initial + m->at[i]);
        if (rc != 0 || !w->trained)
            continue;
        int64_t *fine = malloc(n * sizeof *fine);
        for (size_t e = 0; fine != NULL && e < n; e++)
            fine[e] = initial[m->at[i] + e] * (1ll << UVCC_FINETUNE_FINE_BITS);
        (void)snprintf(master, sizeof master, "M.%s", w->about.name);
        rc = fine != NULL ? set(p, master, fine) : UVCC_ERR_NOMEM;
        free(fine);
    }
    return rc;
}

static int step(plain *p, const ft_model *m, ft_data *d, uint64_t seed, uint32_t number,
                const char *entry) {
    const uint32_t e = (uint32_t)uvcc_program_find_entry(p->program, entry);
    const int64_t rate = uvcc_finetune_rate(&m->cfg, number);
    int rc = set(p, "rate", &rate);
    for (uint32_t i = 0; i < uvcc_program_input_count(p->program, e) && rc == 0; i++) {
        const uvcc_io_desc *in = uvcc_program_input_at(p->program, e, i);
        ft_place at = {m, d, seed, number, in->id & 0xFFF, false};
        ft_model_input(m, d, in->id, ft_place_row, &at, p->input);
        rc = uvcc_reference_set(p->reference, in->tensor, p->input);
    }
    return rc == 0 ? uvcc_reference_step(p->reference, e, p->message, sizeof p->message) : rc;
}

static bool same(const plain *p, const ft_model *m) {
    const uint32_t e = (uint32_t)uvcc_program_find_entry(p->program, "reveal");
    for (uint32_t k = 0; k < uvcc_program_output_count(p->program, e); k++) {
        const uvcc_io_desc *out = uvcc_program_output_at(p->program, e, k);
        const uint32_t i = out->id - UVCC_FINETUNE_OUT_WEIGHT;
        if (memcmp(uvcc_reference_get(p->reference, out->tensor), m->values + m->at[i],
                   (m->at[i + 1] - m->at[i]) * sizeof *m->values) != 0)
            return false;
    }
    return true;
}

int ft_plain_check(const ft_model *m, ft_data *d, const ft_options *o, const int64_t *initial,
                   bool *equal) {
    const uvcc_allocator al = uvcc_host_allocator();
    plain p = {.message = ""};
    int rc = uvcc_finetune_program(&p.program, &m->cfg, &al, p.message, sizeof p.message);
    if (rc == 0)
        rc = uvcc_reference_new(&p.reference, p.program, &al);
    p.input = malloc(ft_model_room(m) * sizeof *p.input);
    if (p.input == NULL)
        rc = UVCC_ERR_NOMEM;
    if (rc == 0)
        rc = set_state(&p, m, initial);
    for (uint32_t i = 0; i < o->steps && rc == 0; i++)
        rc = step(&p, m, d, o->run.seed, i, "train");
    if (rc == 0)
        rc = step(&p, m, d, o->run.seed, o->steps, "reveal");
    if (rc == 0)
        *equal = same(&p, m);
    free(p.input);
    uvcc_reference_free(p.reference);
    uvcc_program_free(p.program);
    return rc == 0 ? EXIT_DONE
                   : report_error(EXIT_FAILED, "the plaintext run: %s%s%s", uvcc_error_text(rc),
                                  p.message[0] != '\0' ? ": " : "", p.message);
}
