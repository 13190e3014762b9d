/* SPDX-License-Identifier: Apache-2.0 */
/* selftest.h - `uvcc selftest`: the compute tasks of a back end against the golden vectors, and on
 * random operands against the portable kernels. */
#ifndef UVCC_TOOLS_SELFTEST_H
#define UVCC_TOOLS_SELFTEST_H

/* The words after `uvcc selftest`; returns the exit status. */
int selftest_main(int argc, char *const *argv);

#endif
