/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - DIR/model.json of a checkpoint directory: all that a kept model's weights depend on,
 * as it was begun with. Public.
 *
 * Version 2. Version 1 had the sizes only: a text or a rate that was another one passed. */
#ifndef UVCC_TOOLS_LM_MANIFEST_H
#define UVCC_TOOLS_LM_MANIFEST_H

#include <uvcc/transformer.h>

#include "options.h"
#include "text.h"

typedef struct lm_manifest {
    uvcc_transformer_config cfg; /* its schedule as --steps, --warmup and --final-rate said it */
    uint64_t seed;
    uint64_t text_bytes;
    char text_sha256[65];
    uint32_t extended; /* times that --extend gave more steps */
} lm_manifest;

void lm_manifest_of(lm_manifest *m, const lm_options *o, const uvcc_transformer_config *cfg,
                    const lm_text *text);
/* All return an exit status after reporting. Reads it; *any: there is one. */
int lm_manifest_read(const char *dir, lm_manifest *m, bool *any);
int lm_manifest_write(const char *dir, const lm_manifest *m);
/* Refuses, by the options' names and with both values, what goes on another way than it was begun.
 * Steps are another matter: */
int lm_manifest_compare(const char *dir, const lm_manifest *kept, const lm_manifest *want);
/* `done` steps are there. The schedule of the rate hangs on the number of all steps, so another one
 * is refused, or, if more and `extend`, written down: the model goes on by the new schedule. */
int lm_manifest_steps(const char *dir, lm_manifest *kept, const lm_manifest *want, uint32_t done,
                      bool extend);

/* What a worker's log says of its program: JSON; NULL without memory. free() it. */
char *lm_manifest_app(const lm_manifest *m, const uvcc_transformer_worker *at);
/* That program again: 0; UVCC_ERR_NOT_FOUND: the text is not of a transformer; another error with a
 * line in message. */
int lm_manifest_app_program(uvcc_program **out, const uint8_t *text, size_t len,
                            const uvcc_allocator *al, char *message, size_t message_cap);

#endif
