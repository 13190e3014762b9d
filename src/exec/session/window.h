/* SPDX-License-Identifier: Apache-2.0 */
/* window.h - which instances of a running step may begin: program/window.h has the rule. */
#ifndef UVCCI_SESSION_WINDOW_H
#define UVCCI_SESSION_WINDOW_H

#include "exec/runtime/core.h"

/* The step runs, or an instance of it is done: those that may begin now are woken. */
void uvcci_window_slide(uvcci_step *st);
bool uvcci_window_has(const uvcci_instance *r);

#endif
