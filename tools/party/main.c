/* SPDX-License-Identifier: Apache-2.0 */
/* main.c - the command `uvcc party`: its options, --check, and what is said at the end. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../dir_lock.h"
#include "../interrupt.h"
#include "clients.h"
#include "figures.h"
#include "party.h"
#include "share_dir.h"

typedef struct party_options {
    const char *config, *json, *trace, *share; /* NULL: not given */
    uint32_t worker;                           /* NO_WORKER: not given */
    uint32_t die_after;                        /* 0: not given */
    party_asked asked;
    bool check, force, progress, help;
} party_options;
#define NO_WORKER UINT32_MAX

static const char *const computes[] = {"inline", "threads", "gpu", NULL};
_Static_assert(CONFIG_INLINE == 0 && CONFIG_THREADS == 1 && CONFIG_GPU == 2, "computes[]");

#define AT(member) offsetof(party_options, member)
static const flag options[] = {
    {"config", "FILE", FLAG_TEXT, AT(config), 0, 0, NULL,
     "the job and this party's part in it, as JSON (docs/party.md). Required"},
    {"worker", "N", FLAG_COUNT, AT(worker), 0, 65535, NULL,
     "run this worker alone, by its local rank; else the environment says which, or all run here"},
    {"compute", "inline|threads|gpu", FLAG_CHOICE, AT(asked.compute), 0, 0, computes,
     "where jobs run: in this process's one thread, on threads beside it, or on a CUDA device "
     "(\"compute\" of the file, else UVCC_FSS_BACKEND, else threads)"},
    {"device", "N", FLAG_COUNT, AT(asked.device), 0, 65535, NULL,
     "number of the CUDA device (UVCC_GPU_ID, else \"device\" of the file, else the worker's local "
     "rank modulo the number of devices)"},
    {"check", NULL, FLAG_SWITCH, AT(check), 0, 0, NULL,
     "look at the file, the keys and the data only, and say what would be done"},
    {"share", "DIR", FLAG_TEXT, AT(share), 0, 0, NULL,
     "split the weights that this party owns into files of shares for the three parties, and do "
     "nothing else: of jobs whose weights are \"shared\" or \"streamed\" (docs/party-run.md)"},
    {"force", NULL, FLAG_SWITCH, AT(force), 0, 0, NULL,
     "--share may replace files of shares: of all three parties, for those of two sharings do not "
     "fit each other"},
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "write the result as JSON; with -, alone on standard output"},
    {"trace", "FILE", FLAG_TEXT, AT(trace), 0, 0, NULL,
     "write a trace of ops and compute jobs (Perfetto); uvcc trace joins those of several "
     "processes"},
    {"die-after-step", "N", FLAG_COUNT, AT(die_after), 1, 1000000000, NULL,
     "a fault to try: SIGKILL after so many steps of this process"},
    {"progress", NULL, FLAG_SWITCH, AT(progress), 0, 0, NULL,
     "show progress even where standard error is no terminal"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
#undef AT
static const flag_set set = {"party", options, sizeof options / sizeof options[0],
                             offsetof(party_options, help)};

static void print_help(void) {
    flags_text(
        stdout,
        "Usage: uvcc party --config FILE [OPTION...]\n"
        "\n"
        "Runs one of the three parties of a job: all of its workers, or one. The other two run\n"
        "elsewhere, with files of their own in which \"job\" is the same; they find each other by\n"
        "the addresses there, prove who they are by their keys, and compute together.\n"
        "\n"
        "Kill it at any time and start it again: it goes on from what its store has, and the\n"
        "others wait for it. Started again after the job is done it says what the result was.\n"
        "\n"
        "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(
        stdout,
        "\n"
        "Environment, which beats the file: UVCC_PARTY_ID, UVCC_R, UVCC_S, UVCC_T,\n"
        "UVCC_LOCAL_RANK or UVCC_REPLICA_ID, UVCC_STAGE_ID and UVCC_TP_RANK, UVCC_GPU_ID;\n"
        "without them SLURM_PROCID, OMPI_COMM_WORLD_RANK or RANK is the local rank.\n"
        "UVCC_FSS_BACKEND=cpu|gpu|auto says where jobs run if neither the file nor --compute "
        "does (auto: on a CUDA device if there is one); UVCC_GPU_BYTES=40GiB is the most that "
        "a worker takes of it, UVCC_GPU_KEYS_BYTES=1GiB of that for keys ahead of their use.\n"
        "\n"
        "Exit status: 0 done, 1 the job failed, 2 wrong options, configuration or files, 75 "
        "start it again (a peer began anew), 130 interrupted, what was done is kept.\n");
}

/* ---- --check ---- */

static const char *or_none(const char *text) {
    return text != NULL ? text : "none";
}

static void say_compute(const party_config *c) {
    char bytes[64] = "";
    if (c->device_bytes != 0)
        (void)snprintf(bytes, sizeof bytes, ", at most %.1f MB", (double)c->device_bytes * 1e-6);
    if (c->compute == CONFIG_GPU && c->device != CARD_BY_RANK)
        (void)printf("compute          gpu, device %u%s\n", c->device, bytes);
    else if (c->compute == CONFIG_GPU)
        (void)printf("compute          gpu, by local rank%s\n", bytes);
    else if (c->compute == CONFIG_THREADS)
        (void)printf("compute          threads, %u for each worker\n",
                     c->threads != 0 ? c->threads : 2);
    else
        (void)printf("compute          inline\n");
}

static void say_seals(const party *p) {
    const unsigned threads = party_seal_threads(p);
    if (threads != 0)
        (void)printf("seals            %u threads beside the process's own\n", threads);
    else
        (void)printf("seals            the process's own thread\n");
}

/* --check: says what would be done. */
static int describe(const party *p) {
    char sid[65], address[UVCC_NET_ADDRESS_BYTES], of[32];
    const party_config *c = &p->c;
    (void)sodium_bin2hex(sid, sizeof sid, c->sid_job, sizeof c->sid_job);
    if (p->kind->queue == NULL)
        (void)snprintf(of, sizeof of, "%u steps, ", p->kind->steps(p->work));
    (void)printf("job              %s, %s, %ssid_job %s\n", c->name, p->kind->name,
                 p->kind->queue == NULL ? of : "", sid);
    (void)printf("party            %u of 3, %u x %u x %u workers, %u here\n", c->party, c->replicas,
                 c->stages, c->tensor_ranks, p->workers);
    for (uint32_t i = 0; i < p->workers; i++) {
        const worker *w = &p->worker[i];
        if (config_listen(c, w->rank, address))
            (void)printf("worker           r%u s%u t%u, local rank %u, listens at %s\n",
                         w->place.replica, w->place.stage, w->place.tensor_rank, w->rank, address);
    }
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        if (q != c->party && config_address(c, q, p->worker[0].rank, address))
            (void)printf("party %u          %s%s\n", q, address,
                         q < c->party || config_datagram(c) ? "" : ", it calls here");
    clients_describe(p->clients);
    say_compute(c);
    say_seals(p);
    (void)printf("store            %s\n", p->store_dir);
    (void)printf("audit            %s\n", c->audit != NULL ? p->audit_dir : "none");
    (void)printf("policy           %s\n", or_none(c->policy));
    (void)printf("tls              %s\n", c->tls.given ? uvcc_tls_name(c->tls.library) : "none");
    return report_output(EXIT_FAILED);
}

/* ---- the command ---- */

/* An earlier process of this party came to the end. */
static int end_before(party *p, bool *over) {
    const int there = party_result_read(p);
    const bool alone = p->c.all_workers || config_workers(&p->c) == 1; /* else: compare_ends() */
    *over = there < 0 || (p->settled && alone);
    if (there < 0)
        return -there;
    if (there == 1 && !p->settled) {
        report_line(true,
                    "all steps are done here; waiting %u s for peers that may need the last "
                    "ones again",
                    p->c.linger_s);
        p->done_ns = uvcc_host_now_ns();
    }
    return EXIT_DONE;
}

static void say_end(const party *p) {
    char of[32];
    if (p->status == EXIT_INTERRUPTED && p->kind->queue != NULL)
        (void)report_error(p->status, "interrupted after step %u; %s",
                           p->told ? p->worker[0].finished : 0, p->worker[0].text);
    else if (p->status == EXIT_INTERRUPTED)
        (void)report_error(p->status,
                           "interrupted after step %u%s; what is in %s is kept, and "
                           "the same command goes on from it",
                           p->told ? p->worker[0].finished : 0, party_of_steps(p, of),
                           p->store_dir);
    else if (p->finished && !p->settled && p->status == EXIT_DONE)
        report_line(true, "not both peers said that they are done; if one needs the last steps "
                          "again, start this command again");
}

/* With what no file can say that was written before the end: whether the peers need it no more. */
static int put_result(const party *p) {
    json_t *o = json_deep_copy(p->result);
    if (o != NULL && json_object_set_new(o, "settled", json_boolean(p->settled)) != 0) {
        json_decref(o);
        o = NULL;
    }
    return report_json_put(p->json_file, o);
}

static int run(party *p) {
    bool over = false;
    int status = end_before(p, &over);
    if (over && status == EXIT_DONE) {
        party_result_show(p, "done before");
        return put_result(p);
    }
    if (status == EXIT_DONE)
        status = figures_open(p);
    if (status == EXIT_DONE)
        status = party_open_store(p);
    if (status == EXIT_DONE)
        status = party_result_begin(p);
    if (status == EXIT_DONE)
        status = party_connect(p);
    if (status == EXIT_DONE)
        status = party_run(p);
    say_end(p);
    const int traced = figures_finish(p);
    status = status == EXIT_DONE ? traced : status;
    if (status == EXIT_DONE && (p->c.all_workers || p->c.local_rank == 0)) {
        party_result_show(p, "done");
        status = put_result(p);
    }
    return status;
}

static int share(party *p, bool force) {
    int lock;
    if (p->kind->share == NULL)
        return report_error(EXIT_BAD_INPUT,
                            "--share: jobs of kind \"%s\" have no weights to share ahead",
                            p->kind->name);
    int status = share_dir_open(p->share_dir, force, &lock);
    if (status == EXIT_DONE)
        status = p->kind->share(p->work, p->share_dir);
    dir_unlock(lock);
    return status == EXIT_DONE ? report_output(EXIT_FAILED) : status;
}

static int run_party(const party_options *o) {
    party *p = calloc(1, sizeof *p);
    if (p == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    p->json = o->json;
    p->progress = o->progress;
    p->check_only = o->check;
    p->share_dir = o->share;
    p->figures.trace_path = o->trace;
    int status =
        party_open(p, o->config, o->worker == NO_WORKER ? -1 : (int64_t)o->worker, &o->asked);
    if (o->die_after != 0)
        p->c.faults.die_after = o->die_after;
    if (status == EXIT_DONE && o->share != NULL) {
        status = share(p, o->force);
    } else if (status == EXIT_DONE && o->check) {
        const int there = party_result_read(p); /* the store's job */
        status = there < 0 ? -there : party_open_tls(p);
        if (status == EXIT_DONE)
            status = party_check_places(p);
        if (status == EXIT_DONE)
            status = describe(p);
    } else if (status == EXIT_DONE) {
        if (!p->c.all_workers && p->c.local_rank != 0)
            p->json = NULL; /* the first process of a party has the result */
        p->json_file = report_json_open_own(p->json);
        status = p->json_file != NULL ? run(p) : EXIT_BAD_INPUT;
        report_json_close(p->json_file);
    }
    party_close(p);
    free(p);
    return status;
}

int party_main(int argc, char *const *argv) {
    char text[512];
    const flag_message m = {text, sizeof text};
    party_options o = {.worker = NO_WORKER, .asked = {CONFIG_AUTO, CARD_BY_RANK}};
    if (flags_parse(&set, &o, argc, argv, NULL, NULL, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s", text);
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    if (o.config == NULL)
        return report_error(EXIT_BAD_INPUT, "--config FILE is missing; name the job's file, which "
                                            "docs/party.md describes");
    if (o.share != NULL && (o.check || o.json != NULL || o.trace != NULL || o.die_after != 0))
        return report_error(EXIT_BAD_INPUT, "--share runs nothing: give it with --config alone");
    if (o.force && o.share == NULL)
        return report_error(EXIT_BAD_INPUT, "--force does nothing without --share; take it away");
    if (sodium_init() < 0)
        return report_error(EXIT_FAILED, "libsodium cannot start");
    interrupt_catch();
    interrupt_within(INTERRUPT_S);
    return run_party(&o);
}
