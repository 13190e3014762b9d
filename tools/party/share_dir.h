/* SPDX-License-Identifier: Apache-2.0 */
/* share_dir.h - the directory of `uvcc party --share`: files of one sharing for the three parties,
 * which another one may not replace by accident, for parties may use them.
 *
 * While the three files get their names one after the other a file `unfinished` stands beside them.
 * Where a process died meanwhile what is there is of no use, and the next sharing replaces it: but
 * for files that are all of one sharing, which is whole. */
#ifndef UVCC_TOOLS_PARTY_SHARE_DIR_H
#define UVCC_TOOLS_PARTY_SHARE_DIR_H

#include <stdbool.h>

enum { SHARE_PATH_BYTES = 4096 };

/* Makes DIR, takes it for this process alone, and takes away, whatever comes of it, what a process
 * that died left under names of its own. Refused: files of shares are there, and neither `force` is
 * given nor were they left unfinished. An exit status after reporting; *lock: for dir_unlock(). */
int share_dir_open(const char *dir, bool force, int *lock);
/* The path of the file of a party: an exit status after reporting. */
int share_dir_path(const char *dir, unsigned party, char path[SHARE_PATH_BYTES]);
/* Before the first file gets its name. An exit status. */
int share_dir_begin(const char *dir);
/* After the last one has it, or after a failure, of this status, which is given back. */
int share_dir_end(const char *dir, int status);

#endif
