/* SPDX-License-Identifier: Apache-2.0 */
/* keyfile.h - key files of a directory that is open; <uvcc/store.h> has them by path. */
#ifndef UVCC_IO_HOST_KEYFILE_H
#define UVCC_IO_HOST_KEYFILE_H

#include "fs.h"

#include <uvcc/store.h>

int uvcci_key_read_at(const uvcci_dir *d, const char *name, uvcc_key_kind kind, uint8_t key[32],
                      const uvcci_says *to);
int uvcci_key_make_at(const uvcci_dir *d, const char *name, uvcc_key_kind kind, uint8_t key[32],
                      const uvcc_random *random, const uvcci_says *to);

#endif
