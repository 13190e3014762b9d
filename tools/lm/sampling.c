/* SPDX-License-Identifier: Apache-2.0 */
/* sampling.c - see sampling.h. */
#include "sampling.h"

#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "../report.h"
#include "model.h"

#define MESSAGE_BYTES 512u

/* ---- a step ---- */

uvcc_transformer_config lm_sampling_config(const uvcc_transformer_config *kept) {
    uvcc_transformer_config cfg = *kept;
    cfg.replicas = cfg.stages = cfg.tensor_ranks = cfg.microbatches = 1;
    cfg.batch = cfg.windows = 1;
    return cfg;
}

int64_t lm_sampling_temperature(const uvcc_transformer_config *cfg, double x) {
    return llround(ldexp(x, cfg->frac_bits));
}

static size_t used_of(const uvcc_transformer_config *cfg, size_t len) {
    return len < cfg->context ? len : cfg->context;
}

void lm_sampling_select(const uvcc_transformer_config *cfg, size_t len, int64_t *out) {
    memset(out, 0, cfg->context * sizeof *out);
    out[used_of(cfg, len) - 1] = 1;
}

/* Rows behind the text are zeros: no row before them sees one. */
void lm_sampling_window(const uvcc_transformer_config *cfg, const uint8_t *text, size_t len,
                        int64_t *out) {
    static const uint8_t zero;
    const size_t used = used_of(cfg, len);
    for (size_t i = 0; i < cfg->context; i++)
        uvcc_transformer_one_hot(i < used ? text + (len - used) + i : &zero, 1,
                                 out + i * UVCC_TRANSFORMER_VOCAB);
}

/* ---- the weights' shares ---- */

/* What worker `at` has of the weights, out of its checkpoint. */
static int take_worker(lm_shares *to, const uvcc_transformer_worker *at, const uvcc_program *p,
                       const uint8_t *bytes, size_t len) {
    for (uint32_t i = 0; i < uvcc_transformer_weight_count(to->cfg); i++) {
        uvcc_transformer_weight w;
        uvcc_transformer_part part;
        if (uvcc_transformer_weight_at(to->cfg, i, &w) != 0 || w.stage != at->stage ||
            !uvcc_transformer_part_of(to->cfg, at, i, &part))
            continue;
        const size_t offset = lm_model_offset(to->cfg, i);
        int t = uvcc_program_find(p, w.name);
        int rc = t < 0 ? t
                       : uvcc_checkpoint_tensor(bytes, len, (uint32_t)t, to->part_lo, to->part_hi,
                                                (uint64_t)part.rows * part.cols);
        if (rc != 0)
            return report_error(EXIT_BAD_INPUT, "the checkpoint's %s: %s", w.name,
                                uvcc_error_text(rc));
        uvcc_transformer_put(to->cfg, at, i, (const int64_t *)to->part_lo,
                             (int64_t *)to->lo + offset);
        uvcc_transformer_put(to->cfg, at, i, (const int64_t *)to->part_hi,
                             (int64_t *)to->hi + offset);
    }
    return EXIT_DONE;
}

static int load_worker(lm_shares *to, const uvcc_transformer_worker *at, unsigned party,
                       const char *where, lm_share_fn load, void *user) {
    const uvcc_allocator al = uvcc_host_allocator();
    char message[MESSAGE_BYTES] = "";
    uvcc_program *p = NULL;
    uvcc_checkpoint_info info;
    uint8_t *bytes = NULL, hash[32];
    size_t len = 0;
    if (uvcc_transformer_program(&p, to->cfg, at, &al, message, sizeof message) != 0)
        return report_error(EXIT_BAD_INPUT, "the kept model: %s", message);
    uvcc_program_hash(p, hash);
    int status = load(user, at, &bytes, &len);
    if (status == EXIT_DONE && (uvcc_checkpoint_read(bytes, len, &info) != 0 ||
                                info.party != party || memcmp(info.program_hash, hash, 32) != 0))
        status = report_error(EXIT_BAD_INPUT, "%s: party %u's shares are of another model", where,
                              party);
    if (status == EXIT_DONE)
        status = take_worker(to, at, p, bytes, len);
    if (bytes != NULL)
        sodium_memzero(bytes, len);
    free(bytes);
    uvcc_program_free(p);
    return status;
}

int lm_shares_gather(lm_shares *to, const uvcc_transformer_config *cfg, unsigned party,
                     const char *where, lm_share_fn load, void *user) {
    const size_t n = (size_t)uvcc_transformer_parameters(cfg);
    int status = EXIT_DONE;
    *to = (lm_shares){cfg, calloc(n, 8), calloc(n, 8), calloc(n, 8), calloc(n, 8)};
    if (to->lo == NULL || to->hi == NULL || to->part_lo == NULL || to->part_hi == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    for (uint32_t i = 0; i < cfg->stages * cfg->tensor_ranks && status == EXIT_DONE; i++) {
        const uvcc_transformer_worker at = {0, i / cfg->tensor_ranks, i % cfg->tensor_ranks};
        status = load_worker(to, &at, party, where, load, user);
    }
    return status;
}

int lm_shares_set(const lm_shares *from, const uvcc_program *p, uvcc_session *s) {
    for (uint32_t i = 0; i < uvcc_transformer_weight_count(from->cfg); i++) {
        uvcc_transformer_weight weight;
        const size_t offset = lm_model_offset(from->cfg, i);
        (void)uvcc_transformer_weight_at(from->cfg, i, &weight);
        int t = uvcc_program_find(p, weight.name);
        int rc =
            t < 0 ? t
                  : uvcc_session_set_shares(s, (uint32_t)t, from->lo + offset, from->hi + offset);
        if (rc != 0)
            return report_error(EXIT_FAILED, "%s: %s", weight.name, uvcc_error_text(rc));
    }
    return EXIT_DONE;
}

void lm_shares_free(lm_shares *s) {
    uint64_t *const all[] = {s->lo, s->hi, s->part_lo, s->part_hi};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i] != NULL)
            sodium_memzero(all[i], (size_t)uvcc_transformer_parameters(s->cfg) * 8);
        free(all[i]);
    }
    *s = (lm_shares){0};
}
