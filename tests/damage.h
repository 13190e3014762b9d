/* SPDX-License-Identifier: Apache-2.0 */
/* damage.h - bundles of a run, edited as an attacker or a bad disk would, for tests. */
#ifndef UVCC_TEST_DAMAGE_H
#define UVCC_TEST_DAMAGE_H

#include "support.h"
#include <uvcc/audit.h>

enum { AUDIT_STEPS_MAX = 24 };

typedef struct file {
    uint8_t *bytes; /* malloc() */
    size_t len;
} file;

typedef struct audit_run {
    file f[AUDIT_STEPS_MAX][3]; /* by step and party */
    uint32_t steps;
    uvcc_audit_keys keys;
} audit_run;
void audit_run_free(audit_run *r);

/* With room for one more leaf. */
file copy_of(const file *f);
uvcc_leaf leaf_at(const file *f, uint32_t index);
uint32_t leaf_count(const file *f);
/* These leave the checksums and the number of leaves in the header as they are. */
void remove_leaf(file *f, uint32_t index);
void duplicate_leaf(file *f, uint32_t index);
void swap_leaves(file *f, uint32_t a, uint32_t b);
void add_count(file *f, int by);
/* Whether leaf j of one file is the counterpart of leaf i of another. */
bool counterparts(const file *f, uint32_t i, const file *g, uint32_t j);

typedef struct damage {
    file f; /* of `party` at `step`, damaged: always other than it was */
    uint32_t step;
    unsigned party;
    uint32_t leaf, second; /* where it is; either must be named. UVCC_NO_LEAF: no leaf */
    bool forged;           /* the checksums are right */
    char what[200];
} damage;
damage damage_make(const audit_run *r, uint64_t *rnd);
/* The fault names the damaged leaf, or the counterpart of the one that is gone. */
bool damage_names_leaf(const damage *d, const audit_run *r, const uvcc_audit_fault *f);

#endif
