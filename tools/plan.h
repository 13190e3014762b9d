/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - `uvcc plan`: what a job will take, before anybody runs it. */
#ifndef UVCC_TOOLS_PLAN_H
#define UVCC_TOOLS_PLAN_H

/* The words after `uvcc plan`; returns the exit status. */
int plan_main(int argc, char *const *argv);

#endif
