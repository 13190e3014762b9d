/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear.h - `uvcc nonlinear`: what the nonlinear functions are worth, measured; and which there
 * are, for whoever measures them elsewhere. */
#ifndef UVCC_TOOLS_NONLINEAR_H
#define UVCC_TOOLS_NONLINEAR_H

#include <jansson.h>

#include "flags.h"
#include "measure.h"

/* The words after `uvcc nonlinear`; returns the exit status. */
int nonlinear_main(int argc, char *const *argv);

enum { NONLINEAR_SUBJECTS = 22, NONLINEAR_MODES = 2 }; /* functions in the order of reports; */
enum { NONLINEAR_FAST, NONLINEAR_EXACT };              /* modes */
#define NONLINEAR_INPUTS     (1u << 20)
#define NONLINEAR_INPUTS_MAX (1u << 24)
/* "rmsnorm plain" is the norm without gamma and beta. */
const char *nonlinear_name(unsigned subject);
const char *nonlinear_mode(unsigned mode);
/* What is measured of it: function, mode, inputs and seed; nobody is told. */
measure_job nonlinear_job(unsigned subject, unsigned mode, uint64_t inputs, uint64_t seed);
/* NULL without memory. */
json_t *nonlinear_json(unsigned subject, unsigned mode, const measure_result *r);

/* What somebody asks for. */
typedef struct nonlinear_choice {
    bool wanted[NONLINEAR_SUBJECTS], mode[NONLINEAR_MODES], plain;
} nonlinear_choice;
/* 0, or -1 and one line that names the functions. */
int nonlinear_want(nonlinear_choice *c, const char *name, const flag_message *m);
/* After all names: all functions if none was named, both modes if none was; with --plain only norms
 * may be named. 0, or -1 and one line. */
int nonlinear_choose(nonlinear_choice *c, const flag_message *m);

#endif
