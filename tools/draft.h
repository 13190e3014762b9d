/* draft.h - an output file under another name beside its place until it is whole, so that a place
 * that cannot be written is known before the work, and a name never stands for half a file. */
#ifndef UVCC_TOOLS_DRAFT_H
#define UVCC_TOOLS_DRAFT_H

#include <stdio.h>

typedef struct draft draft;
/* `path` as --`option` gave it; "-" is standard output. NULL after reporting the error (report.h),
 * with its exit status in *status. */
draft *draft_open(const char *option, const char *path, int *status);
FILE *draft_file(draft *d);
/* Whether such a file can be made: an exit status after reporting, before work whose results go
 * there by other means. NULL: yes. */
int draft_check(const char *option, const char *path);
/* Everything is written: the file gets its name. An exit status; also for writes that failed. */
int draft_finish(draft *d);
/* Takes away what was not finished. */
void draft_close(draft *d);

#endif
