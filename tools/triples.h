/* SPDX-License-Identifier: Apache-2.0 */
/* triples.h - the command `uvcc triples`: what a party's store keeps of triples. */
#ifndef UVCC_TOOLS_TRIPLES_H
#define UVCC_TOOLS_TRIPLES_H

/* The words after `uvcc triples`; returns the exit status. */
int triples_main(int argc, char *const *argv);

#endif
