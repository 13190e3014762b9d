/* SPDX-License-Identifier: Apache-2.0 */
/* convert.c - `uvcc model convert`: a checkpoint's weights as fixed-point integers in one file. */
#include <sodium.h>
#include <stdlib.h>

#include "../atomic_file.h"
#include "../report.h"
#include "container.h"
#include "model.h"

static int put_weight(const loaded *l, uint32_t i, const uvcc_model_weight *w,
                      container_writer *to) {
    char message[MODEL_MESSAGE_BYTES] = "";
    const flag_message m = {message, sizeof message};
    const uint64_t n = (uint64_t)w->rows * w->cols;
    double *v = malloc(n * sizeof *v);
    int64_t *q = malloc(n * sizeof *q);
    int rc =
        v == NULL || q == NULL ? flag_fail(&m, "out of memory") : weights_read(&l->w, i, v, &m);
    if (rc == 0) {
        fixed_round(v, n, l->pass.frac_bits, l->pass.weight_bits, q);
        container_put(to, q, n);
    }
    free(v);
    free(q);
    return rc == 0 ? EXIT_DONE : report_error(EXIT_FAILED, "%s", message);
}

static int put_all(const loaded *l, atomic_file *file, uint8_t sha256[32]) {
    uvcc_model_weight w;
    container_writer *to =
        container_begin(atomic_file_stream(file), &l->config, description_family(&l->d));
    if (to == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    int status = EXIT_DONE;
    for (uint32_t i = 0; status == EXIT_DONE && uvcc_model_weight_at(&l->config, i, &w) == 0; i++)
        status = put_weight(l, i, &w, to);
    container_end(to, sha256);
    return status;
}

/* Weights that leave the bits that --weight-bits gives are wrong ones. */
static int check_clipped(const loaded *l, const model_options *o) {
    if (l->all.clipped == 0 || o->clip)
        return EXIT_DONE;
    return report_error(EXIT_BAD_INPUT,
                        "%llu weights leave %u bits, the greatest is %g; give --weight-bits %u, "
                        "or --clip",
                        (unsigned long long)l->all.clipped, l->pass.weight_bits, l->all.most,
                        l->all.bits);
}

static int write(const loaded *l, const model_options *o) {
    uint8_t sha256[32];
    char hex[2 * sizeof sha256 + 1];
    int status = EXIT_DONE;
    atomic_file *file = atomic_file_open_own("out", o->out, &status);
    if (file == NULL)
        return status;
    status = put_all(l, file, sha256);
    if (status == EXIT_DONE)
        status = atomic_file_finish(file);
    atomic_file_close(file);
    if (status != EXIT_DONE)
        return status;
    (void)printf("%s: %llu weights of a model of kind %s, frac_bits %u, weight_bits %u, SHA-256 "
                 "%s\n",
                 o->out, (unsigned long long)uvcc_model_parameters(&l->config),
                 description_family(&l->d), l->pass.frac_bits, l->pass.weight_bits,
                 sodium_bin2hex(hex, sizeof hex, sha256, sizeof sha256));
    return EXIT_DONE;
}

int model_convert(const model_options *o) {
    loaded l;
    if (o->out == NULL)
        return report_error(EXIT_BAD_INPUT, "--out FILE is missing; name the file to write");
    int status = model_load(&l, o);
    if (status != EXIT_DONE)
        return status;
    if (l.refused[0] != '\0')
        status = model_refuse(&l);
    if (status == EXIT_DONE)
        status = check_clipped(&l, o);
    if (status == EXIT_DONE)
        status = atomic_file_apart(&(output_use){"out", o->out}, 1);
    if (status == EXIT_DONE)
        status = model_spares(&l.from, &(output_use){"out", o->out}, 1);
    if (status == EXIT_DONE)
        status = write(&l, o);
    model_unload(&l);
    return status;
}
