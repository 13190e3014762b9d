/* SPDX-License-Identifier: Apache-2.0 */
/* audit.h - `uvcc audit`: checks bundles, makes and checks proofs, shows files. */
#ifndef UVCC_TOOLS_AUDIT_H
#define UVCC_TOOLS_AUDIT_H

#include <stdbool.h>
#include <stddef.h>
#include <uvcc/audit.h>

#include "bundles.h"
#include "report.h"

enum { AUDIT_GOOD = 0, AUDIT_FAULT = 1, AUDIT_UNUSABLE = 2 };

/* The words after `uvcc audit`; returns the exit status. */
int audit_main(int argc, char *const *argv);

/* ---- audit_verify.c ---- */

/* All files of a directory of bundles, by run, step, worker (job roots behind all), party. */
typedef struct audit_list {
    bundle_place *entries;
    size_t count, room;
} audit_list;

/* 0, AUDIT_FAULT if there is what does not belong there, AUDIT_UNUSABLE; after reporting. */
int audit_list_read(const char *dir, audit_list *out);
void audit_list_free(audit_list *l);
/* DIR/name; NULL after reporting. free() it. */
char *audit_path(const char *dir, const bundle_place *at);
/* Text of a fault: "leaf 4 (OPEN_SENT, row 3, op 01020304, byte 811): it differs ... (party 1, leaf
 * 7)". */
void audit_fault_text(const uvcc_audit_fault *f, char *out, size_t cap);

typedef struct verify_options {
    const char *dir, *keys, *json;
    bool unfinished, progress;
} verify_options;
int audit_verify(const verify_options *o);

#endif
