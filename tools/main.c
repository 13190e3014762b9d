/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the command `uvcc`: gives its arguments to the subcommand that they name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>
#include <uvcc/types.h>

#include "audit.h"
#include "bench/bench.h"
#include "client/client.h"
#include "infer/infer.h"
#include "interrupt.h"
#include "keygen.h"
#include "lm/generate.h"
#include "model/model.h"
#include "nonlinear.h"
#include "party/launch.h"
#include "party/party.h"
#include "party/show.h"
#include "pipeline/pipeline.h"
#include "plan.h"
#include "replay.h"
#include "report.h"
#include "selftest/selftest.h"
#include "sim/sim.h"
#include "trace_join.h"
#include "train.h"
#include "triples.h"

static void usage(FILE *to) {
    (void)fputs("Usage: uvcc COMMAND [OPTION...]\n"
                "\n"
                "  uvcc train      three parties train a network on a CSV file or a text\n"
                "  uvcc party      one of the three parties of a job, over the network\n"
                "  uvcc client     asks the parties of a job that serves\n"
                "  uvcc launch     all three parties of a job on this machine\n"
                "  uvcc plan       says what a job takes before it runs\n"
                "  uvcc status     what running parties say of themselves\n"
                "  uvcc infer      a pretrained model's answer to a secret input\n"
                "  uvcc generate   samples text from a kept language model\n"
                "  uvcc replay     runs a recorded session again\n"
                "  uvcc audit      checks the transcripts of a run\n"
                "  uvcc trace      joins traces of several processes\n"
                "  uvcc keygen     makes key files and shows public keys\n"
                "  uvcc triples    makes triples ahead and shows what is kept of them\n"
                "  uvcc model      looks at checkpoints of transformers and converts them\n"
                "  uvcc bench      measures forward passes of transformers\n"
                "  uvcc nonlinear  measures the nonlinear functions\n"
                "  uvcc pipeline   a pipeline of stages in simulated time\n"
                "  uvcc selftest   checks this machine's compute kernels\n"
                "  uvcc sim        runs simulated triangles with faults\n"
                "  uvcc --version  show the version\n"
                "  uvcc --help     show this; uvcc COMMAND --help: of a command\n",
                to);
}

/* A command gets the words after its name and returns the exit status. `broken`: its status if what
 * it says cannot be written, where 1 means something else. */
static const struct command {
    const char *name;
    int (*main)(int argc, char *const *argv);
    int broken;
} commands[] = {
    {"train", train_main, EXIT_FAILED},       {"generate", generate_main, EXIT_FAILED},
    {"replay", replay_main, EXIT_BAD_INPUT},  {"audit", audit_main, EXIT_BAD_INPUT},
    {"keygen", keygen_main, EXIT_FAILED},     {"nonlinear", nonlinear_main, EXIT_FAILED},
    {"pipeline", pipeline_main, EXIT_FAILED}, {"selftest", selftest_main, EXIT_FAILED},
    {"sim", sim_main, EXIT_FAILED},           {"party", party_main, EXIT_FAILED},
    {"triples", triples_main, EXIT_FAILED},   {"status", show_main, EXIT_FAILED},
    {"plan", plan_main, EXIT_FAILED},         {"launch", launch_main, EXIT_FAILED},
    {"trace", trace_join_main, EXIT_FAILED},  {"client", client_main, EXIT_FAILED},
    {"model", model_main, EXIT_FAILED},       {"infer", infer_main, EXIT_FAILED},
    {"bench", bench_main, EXIT_FAILED},
};

/* Of CUDA devices. A stream waits for what stands before it in the queue that it shares with
 * others, and CUDA gives a process 8 of them unless it asks for more, 32 at most. It reads this
 * when it begins; the environment may be changed here, since there are no other threads yet. */
static void ask_for_queues(void) {
    (void)setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

int main(int argc, char **argv) {
    ask_for_queues();
    report_begin();
    interrupt_begin();
    uvcc_host_keep_memory();
    const char *word = argc > 1 ? argv[1] : "";
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(word, commands[i].name) == 0) {
            report_command(word);
            return report_output_end(commands[i].main(argc - 2, argv + 2), commands[i].broken);
        }
    int status = EXIT_DONE;
    report_command("");
    if (strcmp(word, "--version") == 0)
        (void)printf("uvcc %s\n", uvcc_version());
    else if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
        usage(stdout);
    else if (*word == '\0')
        status = report_error(EXIT_BAD_INPUT, "no command is given; see uvcc --help");
    else
        status = report_error(EXIT_BAD_INPUT, "there is no command '%s'; see uvcc --help", word);
    return report_output_end(status, EXIT_FAILED);
}
