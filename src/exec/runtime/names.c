/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - see names.h. */
#include "exec/runtime/names.h"

#include "exec/compute/prg_uses.h"
#include "proto/link_session.h"

#include <string.h>

static void tell(const uvcc_session *s, const uvcc_name *n) {
    s->cfg.names.used(s->cfg.names.user, n);
}

/* ---- links ---- */

static void tell_data(void *user, const uvcc_link *l, uint32_t step, uint64_t key, uint64_t seq) {
    const uvcc_session *s = user;
    tell(s, &(uvcc_name){.kind = UVCC_NAME_FRAME,
                         .run = s->run,
                         .step = step,
                         .peer = uvcci_link_config_of(l)->peer,
                         .key = key,
                         .seq = seq});
}

static void tell_control(void *user, const uvcc_link *l, uint64_t key, const uint8_t nonce[24]) {
    const uvcc_session *s = user;
    uvcc_name n = {.kind = UVCC_NAME_CONTROL,
                   .run = s->run,
                   .peer = uvcci_link_config_of(l)->peer,
                   .key = key};
    memcpy(n.nonce, nonce, sizeof n.nonce);
    tell(s, &n);
}

void uvcci_names_link(uvcc_session *s, uvcc_link *l) {
    if (s->cfg.names.used != NULL)
        uvcci_link_tell_names(l, &(uvcci_link_names){tell_data, tell_control, s});
}

/* ---- tasks ---- */

typedef struct telling {
    const uvcc_session *s;
    uint32_t step;
} telling;

static void tell_words(void *user, const uvcc_prg_use *words, uint64_t key) {
    const telling *t = user;
    const uvcc_name n = {
        .kind = UVCC_NAME_WORDS, .run = t->s->run, .step = t->step, .key = key, .words = *words};
    tell(t->s, &n);
}

void uvcci_names_job(const uvcc_session *s, const uvcci_instance *r, const uvcc_task *tasks,
                     uint32_t count) {
    telling t = {s, r->step->number};
    if (s->cfg.names.used == NULL)
        return;
    for (uint32_t i = 0; i < count; i++)
        uvcci_prg_words(&tasks[i], tell_words, &t);
}

void uvcci_names_triple(const uvcc_session *s, const uvcci_instance *r, uint64_t id,
                        uint32_t maker_run) {
    const uvcc_name n = {.kind = UVCC_NAME_TRIPLE,
                         .run = s->run,
                         .step = r->step->number,
                         .maker_run = maker_run,
                         .seq = id};
    if (s->cfg.names.used != NULL)
        tell(s, &n);
}
