/* SPDX-License-Identifier: Apache-2.0 */
/* load.c - a checkpoint as the commands of `uvcc model` look at it. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../atomic_file.h"
#include "../report.h"
#include "model.h"

enum { WEIGHT_BITS_LEAST = 4 };

/* One after the other, so that a large checkpoint needs memory for one weight. */
static int look(loaded *l, unsigned bits, const flag_message *m) {
    uvcc_model_weight w;
    l->stats = calloc(l->w.count + 1, sizeof *l->stats);
    int rc = l->stats == NULL ? flag_fail(m, "out of memory") : 0;
    for (uint32_t i = 0; rc == 0 && uvcc_model_weight_at(&l->w.shape, i, &w) == 0; i++) {
        const uint64_t n = (uint64_t)w.rows * w.cols;
        double *v = malloc(n * sizeof *v);
        rc = v == NULL ? flag_fail(m, "out of memory") : weights_read(&l->w, i, v, m);
        if (rc == 0) {
            fixed_note(&l->stats[i], v, n, l->pass.frac_bits, bits);
            fixed_note(&l->all, v, n, l->pass.frac_bits, bits);
        }
        free(v);
    }
    return rc;
}

/* BERT classifies where it has a classifier; the others say what follows. */
static uint8_t usual(const loaded *l) {
    if (l->d.family != FAMILY_BERT)
        return GIVES_LAST_LOGITS;
    return checkpoint_find(&l->from, "classifier.weight") != NULL ? GIVES_LABELS : GIVES_HIDDEN;
}

static int describe(loaded *l, const model_options *o, const flag_message *m) {
    uvcc_model_config shape;
    if (description_read(&l->d, l->from.config, l->from.config_path, m) != 0)
        return -1;
    if (l->d.unknown[0] != '\0' && !o->ignore_unknown && strcmp(o->word[0], "inspect") != 0)
        return flag_fail(m,
                         "%s: %s: not known here; if it changes nothing of the forward pass, give "
                         "--ignore-unknown",
                         l->from.config_path, l->d.unknown);
    if (l->pass.gives == GIVES_USUAL)
        l->pass.gives = usual(l);
    if (l->pass.tokens == 0)
        l->pass.tokens = l->d.positions < 128 ? l->d.positions : 128;
    const int err = description_config(&l->d, &l->pass, &shape, l->refused, sizeof l->refused);
    if (err == UVCC_ERR_USAGE)
        return flag_fail(m, "%s: %s", l->from.config_path, l->refused);
    return weights_open(&l->w, &l->from, &l->d, &shape, m);
}

static int load(loaded *l, const model_options *o, const flag_message *m) {
    int rc = checkpoint_open(&l->from, o->word[1], m);
    if (rc == 0)
        rc = describe(l, o, m);
    if (rc == 0)
        rc = look(l, o->pass.weight_bits != 0 ? o->pass.weight_bits : FIXED_BITS_MOST, m);
    if (rc == 0 && o->pass.weight_bits == 0)
        l->pass.weight_bits = l->all.bits > WEIGHT_BITS_LEAST ? l->all.bits : WEIGHT_BITS_LEAST;
    if (rc == 0 && description_config(&l->d, &l->pass, &l->config, l->refused, sizeof l->refused) ==
                       UVCC_ERR_USAGE)
        rc = flag_fail(m, "%s: %s", l->from.config_path, l->refused);
    return rc;
}

int model_load(loaded *out, const model_options *o) {
    char message[MODEL_MESSAGE_BYTES] = "";
    const flag_message m = {message, sizeof message};
    *out = (loaded){.pass = o->pass};
    if (load(out, o, &m) == 0)
        return EXIT_DONE;
    model_unload(out);
    return report_error(EXIT_BAD_INPUT, "%s", message);
}

int model_settle(loaded *l, plain_pass *p, const flag_message *m) {
    l->pass.sequences = p->in.sequences;
    l->pass.tokens = p->in.tokens;
    l->pass.padding = p->in.padding != NULL;
    p->d = l->d;
    if (description_config(&l->d, &l->pass, &p->config, p->refused, sizeof p->refused) ==
        UVCC_ERR_USAGE)
        return flag_fail(m, "%s: %s", l->from.config_path, p->refused);
    p->shape = p->config;
    p->config.frac_bits = (uint8_t)l->pass.frac_bits;
    p->config.weight_bits = (uint8_t)l->pass.weight_bits;
    p->config.value_bits = (uint8_t)l->pass.value_bits;
    p->config.inner_bits = (uint8_t)l->pass.inner_bits;
    p->config.index_bits = (uint8_t)l->pass.index_bits;
    l->w.shape = p->shape;
    return 0;
}

int model_refuse(const loaded *l) {
    return report_error(EXIT_BAD_INPUT, "%s: %s", l->from.dir, l->refused);
}

static int spares(const checkpoint *from, const output_use *out) {
    char index[PATH_MAX];
    (void)snprintf(index, sizeof index, "%s/" CHECKPOINT_INDEX, from->dir);
    const output_use about[] = {{"DIR", from->config_path}, {"DIR", index}};
    int status = atomic_file_spares(out->option, out->path, about, 2);
    for (size_t i = 0; status == EXIT_DONE && i < from->file_count; i++) {
        const output_use one = {"DIR", from->file[i].path};
        status = atomic_file_spares(out->option, out->path, &one, 1);
    }
    return status;
}

int model_spares(const checkpoint *from, const output_use *written, size_t count) {
    int status = EXIT_DONE;
    for (size_t i = 0; status == EXIT_DONE && i < count; i++)
        if (written[i].path != NULL)
            status = spares(from, &written[i]);
    return status;
}

void model_unload(loaded *l) {
    free(l->stats);
    weights_close(&l->w);
    checkpoint_close(&l->from);
    l->stats = NULL;
}
