/* SPDX-License-Identifier: Apache-2.0 */
/* audit_runs.h - the statements of a directory's runs beside each other, for `uvcc audit verify`
 * (docs/audit.md, "Reruns"): what each signer says of one run fits together, and each run goes on
 * from an earlier one.
 *
 * Signers are the three parties' workers, and the parties for all their workers. Runs come in
 * ascending order, their steps without gaps; statements are verified before they come here. */
#ifndef UVCC_TOOLS_AUDIT_RUNS_H
#define UVCC_TOOLS_AUDIT_RUNS_H

#include <stdbool.h>
#include <uvcc/audit.h>

#include "bundles.h"

typedef struct audit_runs audit_runs;

/* A job of so many workers. NULL without memory. */
audit_runs *audit_runs_new(size_t workers);
void audit_runs_free(audit_runs *r);

/* A run begins. False without memory. */
bool audit_runs_begin(audit_runs *r, uint32_t run);
/* What party `party` signed of the run's next step, as worker `index` or (index = workers) for all
 * of them: NONE, or what is wrong with it. */
uvcc_fault_kind audit_runs_take(audit_runs *r, unsigned party, size_t index, uint32_t step,
                                uint32_t first, const uvcc_signed_root *s);
/* The step whose statements came counts, with the parties' global roots over all workers. False
 * without memory. */
bool audit_runs_step(audit_runs *r, uint8_t roots[UVCC_PARTIES][32]);

/* Whether the run's first step is the one that counted last. */
bool audit_runs_at_first(const audit_runs *r);
/* What worker `index` of a party says that an earlier run's step ended with; finds it by its file.
 * 1 and audit_root; 0: there is no such file; negative: after reporting. */
typedef int audit_runs_look(void *user, unsigned party, size_t index, uint32_t run, uint32_t step,
                            uint8_t audit_root[32]);
/* What does not fit together. But for BEGINNING it tells no liar: of two parties that contradict
 * each other either may be right, and what no file here shows may have been. */
typedef struct audit_runs_conflict {
    enum {
        AUDIT_RUNS_BEGINNING, /* the run begins with step 0, and the party has it go on from one */
        AUDIT_RUNS_PARTIES,   /* party and other say different things of worker `index` */
        AUDIT_RUNS_WORKERS,   /* all parties say one thing of this worker, another of others */
        AUDIT_RUNS_NONE       /* no party's statements fit an earlier run */
    } kind;
    unsigned party, other; /* other: UVCC_NO_PARTY but for PARTIES */
    size_t index;
} audit_runs_conflict;
/* After a run's first step: which run it goes on from. 0; 1 and *out; negative: `look` said so. */
int audit_runs_origin(audit_runs *r, audit_runs_look *look, void *user, audit_runs_conflict *out);
/* The runs, from 0 on, that go on from one that is not here: the number of the n-th, or false. */
bool audit_runs_unknown(const audit_runs *r, size_t n, uint32_t *run);

/* The history of the last run: the steps of it and of those that it goes on from. Returns their
 * number, and the first and the last; with none the roots are those of no steps. */
size_t audit_runs_history(const audit_runs *r, uint32_t *first, uint32_t *last,
                          uint8_t audit_root[UVCC_PARTIES][32]);

#endif
