/* SPDX-License-Identifier: Apache-2.0 */
/* result.h - what `uvcc bench` says: one object of docs/json/bench.schema.json, and a summary. */
#ifndef UVCC_TOOLS_BENCH_RESULT_H
#define UVCC_TOOLS_BENCH_RESULT_H

#include <jansson.h>

#include "run.h"

typedef struct result {
    const subject *s;
    const figures *f; /* NULL: an estimate by `cost`, nothing ran */
    const subject_cost *cost;
    json_t *hardware;    /* borrowed */
    const char *command; /* line */
    double load;         /* average of the machine when it began; below 0: not known */
    bool interrupted;
} result;

/* NULL without memory. */
json_t *result_json(const result *r);
void result_show(const result *r, FILE *to);

/* Memory of this machine that a run takes, by the program's tables. */
uint64_t result_host_bytes(const subject *s, const subject_cost *c);
/* Memory of its device that one party takes, that which others borrow included; 0: it has none. */
uint64_t result_party_bytes(const subject *s, const subject_cost *c);

/* What --hardware names, or what this machine says of itself, without devices and network. NULL
 * after reporting. */
json_t *hardware_json(const char *path);
/* Memory that this process can still take; UINT64_MAX: not known. */
uint64_t hardware_memory(void);
/* The load average of the last minute; below 0: not known. */
double hardware_load(void);

#endif
