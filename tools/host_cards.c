/* SPDX-License-Identifier: Apache-2.0 */
/* host_cards.c - what a host's workers need of CUDA devices: an executor each, and between several
 * of a party a local plane that reaches them. */
#include "host_cards.h"

#include "nccl_library.h"
#include "report.h"

/* Workers on devices: what a party's exchange goes between these. */
int host_open_planes(host *h) {
    int rc = 0;
    for (unsigned p = 0; p < UVCC_PARTIES && rc == 0; p++) {
        uvcc_collective_config cfg = {.size = sizeof cfg,
                                      .alloc = h->al,
                                      .replicas = (uint16_t)h->c.replicas,
                                      .stages = (uint16_t)h->c.stages,
                                      .tp_ranks = (uint16_t)h->c.tensor_ranks};
        if (h->c.run->compute == RUN_COMPUTE_GPU && h->workers > 1) {
            const char *why = NULL;
            rc = cards_open(&h->cards[p], cfg.replicas, cfg.stages, cfg.tp_ranks, &why);
            if (why != NULL)
                return report_error(EXIT_BAD_INPUT,
                                    "--compute gpu: %s; give fewer workers, or inline or threads",
                                    why);
            if (rc == 0)
                cfg.elsewhere = cards_elsewhere(h->cards[p]);
        }
        if (rc == 0)
            rc = uvcc_collective_new(&h->plane[p], &cfg);
    }
    return rc == 0 ? EXIT_DONE : host_failed(h, "the local plane", rc);
}

int host_open_card(const host *h, host_worker *w, unsigned p, uvcc_config *cfg,
                   uvcc_cpu_config *cpu) {
    const run_options *o = h->c.run;
    const card_config c = {.device = o->device,
                           .rank = w->rank,
                           .bytes = o->device_bytes,
                           .memory = h->cards[p] != NULL ? nccl_library_on_memory : NULL,
                           .lender = p != 0 ? w->party[0].card : NULL};
    char why[CARD_TEXT_BYTES];
    if (o->compute != RUN_COMPUTE_GPU)
        return EXIT_DONE;
    const int rc = card_open(&w->party[p].card, &c, cpu, why);
    if (rc != 0)
        return report_error(rc == UVCC_ERR_CONFIG ? EXIT_BAD_INPUT : EXIT_FAILED,
                            "--compute gpu: %s; give inline or threads to do without", why);
    cfg->alloc = card_allocator(w->party[p].card);
    cfg->limits.keys_gathered_bytes = o->device_keys;
    return EXIT_DONE;
}

const char *host_card_trouble(const host *h, const host_worker *w, unsigned p) {
    const char *trouble = card_trouble(w->party[p].card);
    return *trouble != '\0' ? trouble : cards_trouble(h->cards[p]);
}
