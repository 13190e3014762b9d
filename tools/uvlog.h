/* SPDX-License-Identifier: Apache-2.0 */
/* uvlog.h - logs of sessions as files, and what `uvcc train` says of its program in their headers.
 */
#ifndef UVCC_TOOLS_UVLOG_H
#define UVCC_TOOLS_UVLOG_H

#include <stddef.h>
#include <stdint.h>
#include <uvcc/mlp.h>
#include <uvcc/session.h>

#include "options.h"

/* DIR/NAME.uvlog, mode 0600, made under another name in the same place, which it keeps if the
 * process ends early. Errors are reported (report.h). */
typedef struct uvlog uvlog;
/* The directory, which is made if there is none, is this process's until *lock is given to
 * dir_unlock(): an exit status after reporting. */
int uvlog_lock(const char *dir, int *lock);
/* NULL after reporting. */
uvlog *uvlog_open(const char *dir, const char *name, bool force);
/* The hook; app and app_len are the caller's to set. */
uvcc_recorder uvlog_recorder(uvlog *l);
/* The file gets its name; an exit status. */
int uvlog_finish(uvlog *l);
/* Bytes of a log that is finished. */
uint64_t uvlog_bytes(const uvlog *l);
/* Takes away what was not finished. */
void uvlog_close(uvlog *l);

/* JSON text; NULL without memory. free() it. */
char *uvlog_app_text(const train_options *o, const uvcc_mlp_config *mlp);
/* The program's configuration out of such text: 0, or -1 and one line in message. */
int uvlog_app_read(const uint8_t *text, size_t len, uvcc_mlp_config *mlp, char *message,
                   size_t message_cap);

#endif
