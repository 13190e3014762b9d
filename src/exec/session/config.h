/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - a session's configuration: defaults, what is refused, and what it says of links. */
#ifndef UVCCI_CONFIG_H
#define UVCCI_CONFIG_H

#include <uvcc/link.h>
#include <uvcc/session.h>

#define UVCCI_LEAVES_USUAL                                                                         \
    (1u << 22) /* limits.leaves_max, or what the program has if it has more */

/* 0, or why the caller's configuration is refused, which goes to its log by name: UVCC_ERR_USAGE
 * (NULL, or the size of no version), UVCC_ERR_CONFIG. */
int uvcci_config_check(const uvcc_config *cfg);
/* A checked one with all defaults filled in. */
void uvcci_config_take(uvcc_config *out, const uvcc_config *in);
/* What it says of the links, but for capacities and hooks; of a taken one. */
void uvcci_config_link(const uvcc_config *cfg, uvcc_link_config *out);

#endif
