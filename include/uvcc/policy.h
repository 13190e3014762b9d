/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/policy.h - what a party consents to, as text: which programs its sessions run, what may open
 * to whom, how many steps, how often an input is given. docs/policy.md has the form.
 *
 * A session that is given a policy (uvcc_config.consent) enforces it by itself: what is not allowed
 * is refused with UVCC_ERR_REFUSED, and nothing has changed. These functions are pure and allocate
 * nothing; a host needs them only to look at a policy without a session. */
#ifndef UVCC_POLICY_H
#define UVCC_POLICY_H

#include <uvcc/program.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of a policy at most, and lines in it that count something. */
#define UVCC_POLICY_BYTES_MAX  4096u
#define UVCC_POLICY_LIMITS_MAX 32u

typedef enum uvcc_policy_kind {
    UVCC_POLICY_PROGRAM = 1,     /**< `program`: a program that may be loaded */
    UVCC_POLICY_OPEN = 2,        /**< `open`: outputs that may open */
    UVCC_POLICY_STEPS = 3,       /**< `steps`: a limit */
    UVCC_POLICY_INPUT = 4,       /**< `input`: a limit */
    UVCC_POLICY_CHECKPOINTS = 5, /**< `checkpoints no` */
} uvcc_policy_kind;

/** A line of a policy. */
typedef struct uvcc_policy_rule {
    uvcc_policy_kind kind;
    uint32_t line;        /**< from 1 */
    bool any;             /**< PROGRAM: any program; the others: any entry */
    uint8_t program[32];  /**< PROGRAM: its hash */
    char entry[64];       /**< OPEN, STEPS, INPUT */
    uint32_t first, last; /**< OPEN, INPUT: ids, both included */
    uint8_t receiver;     /**< OPEN: the one party, or UVCC_TO_ALL, which allows one party too */
    uint64_t limit;       /**< STEPS, INPUT */
} uvcc_policy_rule;

/** Whether the text is a policy: 0, or UVCC_ERR_CONFIG with one line in `message` (may be NULL)
 * that names the line. */
UVCC_API int uvcc_policy_check(const char *text, size_t len, char *message, size_t message_cap);
/** The rules one by one, in the order of the text; *at is 0 at first. 1 and *rule, 0 at the end,
 * UVCC_ERR_CONFIG in a text that is no policy, UVCC_ERR_USAGE for NULL. */
UVCC_API int uvcc_policy_next(const char *text, size_t len, size_t *at, uvcc_policy_rule *rule);
/** SHA-256 of the text: uvcc_config_identity.policy_hash of a session that has it. */
UVCC_API void uvcc_policy_hash(const char *text, size_t len, uint8_t out[32]);
/** Whether a session with the policy loads the (finished) program: 0, or UVCC_ERR_REFUSED with one
 * line that names what is not allowed; UVCC_ERR_CONFIG for a text that is no policy. */
UVCC_API int uvcc_policy_program(const char *text, size_t len, const uvcc_program *p, char *message,
                                 size_t message_cap);

#ifdef __cplusplus
}
#endif
#endif
