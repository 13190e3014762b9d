/* SPDX-License-Identifier: Apache-2.0 */
/* interrupt.h - what signals do to a command, in one place: SIGINT, SIGTERM and SIGHUP interrupt
 * it, and whatever ends it, no file that was not finished stays behind.
 *
 * A command that looks at interrupted() ends its work in order at the first such signal; the second
 * ends it at once, as the first does in a command that never asked. Exit status 130 in all cases. A
 * reader of our output that went away (SIGPIPE) ends the command quietly. A signal that was ignored
 * when the command began (nohup) stays ignored. */
#ifndef UVCC_TOOLS_INTERRUPT_H
#define UVCC_TOOLS_INTERRUPT_H

#include <stdbool.h>
#include <sys/types.h>

/* First thing in main(). A file that becomes larger than it may is an error of the write, no
 * signal.
 */
void interrupt_begin(void);
/* In a child process that leaves its parent's files alone: signals do what they did before. */
void interrupt_leave(void);
/* From now on the first interruption only sets a mark. */
void interrupt_catch(void);
/* The same, and the first interruption is said on standard error when it comes, with what the next
 * one does: of a command that may take any time until it looks at the mark. */
void interrupt_catch_saying(void);
bool interrupted(void);
/* Such a command ends so many seconds after the mark was set, whatever it waits for then, as by a
 * second signal; 0: it may take its time. Counts from now where the mark is set already. */
void interrupt_within(unsigned seconds);
/* The end of a command that was interrupted and has done what it had to: its memory goes with the
 * process, since giving back gigabytes piece by piece takes longer than anybody who pressed
 * Ctrl-C waits. What standard output was given is written. */
_Noreturn void interrupt_end(void);

/* A new file under a name that does not stay, which a signal takes away: at most TEMPORARIES_MAX at
 * one time are, of names below TEMPORARY_NAME_BYTES. A descriptor, or -1 with errno set. */
enum { TEMPORARIES_MAX = 256, TEMPORARY_NAME_BYTES = 4096 };
int temporary_make(const char *name, mode_t mode);
/* It gets its name for good (without `replace` none that is taken), or goes. 0, or -1 with errno
 * set: then it is still there. */
int temporary_name(const char *name, const char *to, bool replace);
void temporary_remove(const char *name);
/* The same of a file that a library makes and takes away in order, a socket: a signal takes it away
 * from the one call to the other. */
void temporary_begin(const char *name);
void temporary_end(const char *name);

#endif
