/* SPDX-License-Identifier: Apache-2.0 */
/* nonlinear.h - `uvcc nonlinear`: what the nonlinear functions cost and how exact they are. */
#ifndef UVCC_TOOLS_NONLINEAR_H
#define UVCC_TOOLS_NONLINEAR_H

/* The words after `uvcc nonlinear`; returns the exit status. */
int nonlinear_main(int argc, char *const *argv);

#endif
