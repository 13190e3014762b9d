/* SPDX-License-Identifier: Apache-2.0 */
/* flags_json.h - the options of a command as members of a JSON object: the same table (flags.h),
 * so the same names, with _ for -, the same ranges and defaults.
 *
 * A count and a seed are whole numbers (a seed may be a string of digits, since many programs round
 * large numbers), a real is a number, a choice is a string, but true or false where the choice is
 * between yes and no or on and off; a switch is true or false, a list of numbers is an array. */
#ifndef UVCC_TOOLS_FLAGS_JSON_H
#define UVCC_TOOLS_FLAGS_JSON_H

#include <jansson.h>

#include "flags.h"

/* `names`: the flags that may stand there, NULL-terminated, as the command calls them; NULL: all of
 * the set. `more`: members that the caller takes itself, as they stand in JSON; may be NULL.
 * `where` is the object's place, "job.run"; "": it is the whole text. `o` NULL: no members. Returns
 * 0, or -1 and one line that names the member and what is allowed. */
int flags_take_json(const flag_set *set, const char *const *names, const char *const *more,
                    void *options, const json_t *o, const char *where, const flag_message *m);
/* A line about options, as commands say it, in the words of such an object: "--weight-decay" is
 * "job.run.weight_decay". What has another place stands in `others`, which a NULL ends. */
typedef struct flag_place {
    const char *name, *place; /* "tensor", "job.tensor_ranks" */
} flag_place;
void flags_json_words(const char *where, const flag_place *others, const flag_message *m);

/* A file with a JSON value, which the caller json_decref()s. NULL: the message begins with its
 * path, and with the line where the text is wrong. */
json_t *flags_json_load(const char *path, const flag_message *m);

/* One member of its own: a whole number in [min, max] in *out, which stays if there is none.
 * *given may be NULL. */
int flags_json_count(const json_t *o, const char *where, const char *name, uint64_t min,
                     uint64_t max, uint64_t *out, bool *given, const flag_message *m);
/* A string that is not empty; NULL if there is none. It lives as long as the object. */
int flags_json_text(const json_t *o, const char *where, const char *name, const char **out,
                    const flag_message *m);
/* Refuses members that are not among these, NULL-terminated. o may be NULL. */
int flags_json_only(const json_t *o, const char *where, const char *const *names,
                    const flag_message *m);

#endif
