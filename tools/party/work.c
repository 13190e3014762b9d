/* SPDX-License-Identifier: Apache-2.0 */
/* work.c - the kinds of work by their names. */
#include "work.h"

#include <string.h>

static const work_kind *const kinds[] = {&work_mlp,   &work_transformer, &work_generate,
                                         &work_infer, &work_nonlinear,   &work_serve};

const work_kind *work_find(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(kinds[i]->name, name) == 0)
            return kinds[i];
    return NULL;
}

const char *work_names(void) {
    return "mlp, transformer, generate, infer, nonlinear, serve";
}
