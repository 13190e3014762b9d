/* SPDX-License-Identifier: Apache-2.0 */
/* mutant.h - planted bugs, for the proof that the simulator finds them (tests/sim/mutants.sh). In a
 * normal build every UVCCI_MUTANT(n) is the constant 0. */
#ifndef UVCCI_MUTANT_H
#define UVCCI_MUTANT_H

#ifdef UVCC_MUTANT
#define UVCCI_MUTANT(n) ((n) == UVCC_MUTANT)
#else
#define UVCCI_MUTANT(n) 0
#endif

#endif
