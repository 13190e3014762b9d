/* main.c - the command `uvcc`. */
#include <stdio.h>
#include <string.h>
#include <uvcc/host.h>
#include <uvcc/types.h>

#include "audit.h"
#include "keygen.h"
#include "lm/generate.h"
#include "nonlinear.h"
#include "pipeline/pipeline.h"
#include "replay.h"
#include "sim/sim.h"
#include "train.h"

static void usage(FILE *to) {
    (void)fputs(
        "Usage: uvcc COMMAND [OPTION...]\n"
        "\n"
        "  uvcc train      three parties train a network on a CSV file or a text; see uvcc train "
        "--help\n"
        "  uvcc generate   samples text from a kept language model; see uvcc generate --help\n"
        "  uvcc replay     runs a recorded session again; see uvcc replay --help\n"
        "  uvcc audit      checks the transcripts of a run; see uvcc audit --help\n"
        "  uvcc keygen     makes key files and shows public keys; see uvcc keygen --help\n"
        "  uvcc nonlinear  measures the nonlinear functions; see uvcc nonlinear --help\n"
        "  uvcc pipeline   a pipeline of stages in simulated time; see uvcc pipeline --help\n"
        "  uvcc sim        runs simulated triangles with faults; see uvcc sim --help\n"
        "  uvcc --version  show the version\n"
        "  uvcc --help     show this\n",
        to);
}

/* A command gets the words after its name and returns the exit status. */
int main(int argc, char **argv) {
    uvcc_host_keep_memory();
    const char *word = argc > 1 ? argv[1] : "";
    if (strcmp(word, "train") == 0)
        return train_main(argc - 2, argv + 2);
    if (strcmp(word, "generate") == 0)
        return generate_main(argc - 2, argv + 2);
    if (strcmp(word, "replay") == 0)
        return replay_main(argc - 2, argv + 2);
    if (strcmp(word, "audit") == 0)
        return audit_main(argc - 2, argv + 2);
    if (strcmp(word, "keygen") == 0)
        return keygen_main(argc - 2, argv + 2);
    if (strcmp(word, "nonlinear") == 0)
        return nonlinear_main(argc - 2, argv + 2);
    if (strcmp(word, "pipeline") == 0)
        return pipeline_main(argc - 2, argv + 2);
    if (strcmp(word, "sim") == 0)
        return sim_main(argc - 2, argv + 2);
    if (strcmp(word, "--version") == 0) {
        (void)printf("uvcc %s\n", uvcc_version());
        return EXIT_DONE;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        usage(stdout);
        return EXIT_DONE;
    }
    if (*word == '\0')
        (void)fputs("uvcc: no command is given; see uvcc --help\n", stderr);
    else
        (void)fprintf(stderr, "uvcc: there is no command '%s'; see uvcc --help\n", word);
    return EXIT_BAD_INPUT;
}
