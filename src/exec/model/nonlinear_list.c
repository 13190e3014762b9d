/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear_list.c - which functions there are, what is known of each before it is built, and what
 * options several of them ask for. Below all that build one; how one is built says nonlinear.c. */
#include "exec/model/nonlinear_impl.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const uvcc_nonlinear_info list[UVCC_NL_COUNT] = {
#define UVCC_NONLINEAR(NAME, name, inputs, outputs, form, index_bits, bound, relative, low, high,  \
                       what)                                                                       \
    {name, what, UVCC_NL_##form, inputs, outputs, index_bits, relative, bound, low, high},
#include <uvcc/nonlinear.def>
#undef UVCC_NONLINEAR
};

const uvcc_nonlinear_info *uvcc_nonlinear_at(uvcc_nonlinear what) {
    return (unsigned)what < UVCC_NL_COUNT ? &list[what] : NULL;
}

int uvcc_nonlinear_find(const char *name) {
    if (name == NULL)
        return UVCC_ERR_USAGE;
    for (unsigned i = 0; name != NULL && i < UVCC_NL_COUNT; i++)
        if (strcmp(list[i].name, name) == 0)
            return (int)i;
    return UVCC_ERR_NOT_FOUND;
}

bool uvcci_nl_index_fits(const uvcci_nl_builder *b) {
    assert((unsigned)b->what < UVCC_NL_COUNT && b->o.scale <= UVCCI_NL_SCALE_MAX);
    const unsigned index = b->o.index_bits;
    return list[b->what].index_bits == 0 || (index >= 4 && index <= 12 && index <= b->o.scale);
}

uvcci_fixed uvcci_nl_bound(uvcc_nonlinear what) {
    assert((unsigned)what < UVCC_NL_COUNT && list[what].bound < 1);
    return uvcci_fixed_of((int64_t)ldexp(list[what].bound, 62), 62);
}

bool uvcci_nl_columns_fit(const uvcci_nl_builder *b) {
    return b->o.cols != 0 && b->o.cols <= 1u << 16;
}
