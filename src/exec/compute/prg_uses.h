/* SPDX-License-Identifier: Apache-2.0 */
/* prg_uses.h - the places that a uvcc_prg_uses has, to be compared with what tasks draw. */
#ifndef UVCCI_PRG_USES_H
#define UVCCI_PRG_USES_H

#include <uvcc/prg_uses.h>

/* What a task reads of key streams, but for words that it may read again for the same end, with a
 * name of each key. */
void uvcci_prg_words(const uvcc_task *task,
                     void (*each)(void *user, const uvcc_prg_use *words, uint64_t key), void *user);
/* Place i in no order, from 0 on; its kind and count are 0. False: there are no more. */
bool uvcci_prg_place(const uvcc_prg_uses *u, size_t i, uvcc_prg_use *out);

#endif
