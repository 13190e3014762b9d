/* train.h - `uvcc train`: three sessions over a loopback network, and the plaintext run beside
 * them. */
#ifndef UVCC_TOOLS_TRAIN_H
#define UVCC_TOOLS_TRAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <uvcc/types.h>

/* Exit statuses of the tool. */
enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_BAD_INPUT = 2, EXIT_INTERRUPTED = 130 };

/* What a run has to say at its end; names as in the JSON output. */
typedef struct train_result {
    uint32_t steps, test_rows, test_right, reference_right;
    bool reference_equal;
    uint8_t weights_sha256[32];
    uint8_t global_root[UVCC_PARTIES][32];                                 /* of the last step */
    uint64_t bytes_online, bytes_preprocessing, messages, retransmissions; /* of all parties */
    uint64_t rounds;                                                       /* of party 0 */
    double time_s;
} train_result;

/* The words after `uvcc train`; returns the exit status. */
int train_main(int argc, char *const *argv);

#endif
