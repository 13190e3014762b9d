/* SPDX-License-Identifier: Apache-2.0 */
/* open.c - what a process of `uvcc party` has before its first run: keys and files, each named with
 * its place in the configuration when it is wrong; then the store, TLS and the net. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uvcc/policy.h>

#include "../files.h"
#include "../nccl_library.h"
#include "clients.h"
#include "figures.h"
#include "keys.h"
#include "names.h"
#include "party.h"

#define MESSAGE_BYTES 1024u

/* ---- keys ---- */

static int bad(const party *p, const char *place, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s: %s: %s", p->c.file, place, why);
}

static int full_path(const party *p, const char *place, const char *path,
                     char out[PARTY_PATH_BYTES]) {
    return config_path(&p->c, path, out) ? EXIT_DONE : bad(p, place, "the path is too long");
}

/* The own one may stand there too: then it says whether the three files are of the same parties. */
static int read_publics(party *p) {
    uint8_t key[32];
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        char place[32];
        (void)snprintf(place, sizeof place, "parties[%u].key", q);
        if (p->c.key[q] == NULL)
            continue;
        const int status =
            keys_public(&p->c, place, p->c.key[q], q == p->c.party ? key : p->public_key[q]);
        if (status != EXIT_DONE)
            return status;
        if (q == p->c.party && memcmp(key, p->public_key[q], sizeof key) != 0)
            return bad(p, place, "is not the public key of \"identity\", which this party has");
    }
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        for (unsigned o = 0; o < q; o++)
            if (memcmp(p->public_key[q], p->public_key[o], 32) == 0)
                return report_error(EXIT_BAD_INPUT,
                                    "%s: parties[%u].key: is the key of party %u too; each party "
                                    "has its own identity",
                                    p->c.file, q, o);
    return EXIT_DONE;
}

static int read_policy(party *p) {
    char path[PARTY_PATH_BYTES], why[200];
    uint8_t *text = NULL;
    if (p->c.policy == NULL)
        return EXIT_DONE;
    int status = full_path(p, "policy", p->c.policy, path);
    if (status == EXIT_DONE)
        status = file_read(path, EXIT_BAD_INPUT, &text, &p->policy_len);
    p->policy = (char *)text;
    if (status == EXIT_DONE && uvcc_policy_check(p->policy, p->policy_len, why, sizeof why) != 0)
        status = bad(p, "policy", why);
    return status;
}

/* ---- TLS ---- */

/* The library's last line of error goes into the message of the failure. */
static void keep_line(void *user, uvcc_log_level level, const char *line) {
    party *p = user;
    figures_line(p, NULL, level, "net", line);
    if (level <= UVCC_LOG_WARN)
        (void)snprintf(p->log_line, sizeof p->log_line, "%s", line);
}

static int read_pairs(party *p, uvcc_tls_config *c) {
    char path[PARTY_PATH_BYTES], why[UVCC_STORE_TEXT_BYTES], place[32];
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        if (q == p->c.party || p->c.tls.pair_key[q] == NULL)
            continue;
        (void)snprintf(place, sizeof place, "tls.pair_keys[%u]", q);
        const int status = full_path(p, place, p->c.tls.pair_key[q], path);
        if (status != EXIT_DONE)
            return status;
        if (uvcc_key_read(path, UVCC_KEY_PAIR, p->psk[q], why, sizeof why) != 0)
            return bad(p, place, why);
        c->psk[q] = p->psk[q];
        c->psk_len[q] = sizeof p->psk[q];
    }
    return EXIT_DONE;
}

/* What the peers would refuse is better known here. Where `names` are given but for the own one, a
 * certificate without any of them may be right. */
static int check_own_names(const party *p, const char *path) {
    char why[PARTY_PATH_BYTES + 400], standard[16];
    const char *const *name = p->c.tls.name, *own = name[p->c.party];
    const uint32_t found = uvcc_tls_own_names(p->tls);
    const bool others = name[p->c.party == 0 ? 1 : 0] != NULL;
    if (found == 1u << p->c.party || (found == 0 && own == NULL && others))
        return EXIT_DONE;
    (void)snprintf(standard, sizeof standard, "party-%u", p->c.party);
    (void)snprintf(why, sizeof why,
                   "%s does not have DNS:%.200s in its subjectAltName, so the peers would refuse "
                   "it; make one that has",
                   path, own != NULL ? own : standard);
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        if (q != p->c.party && (found >> q & 1) != 0)
            (void)snprintf(why, sizeof why,
                           "%s has the name of party %u in its subjectAltName, and this is party "
                           "%u; give this party's own certificate, or mend \"party\"",
                           path, q, p->c.party);
    return bad(p, "tls.certificate", why);
}

int party_open_tls(party *p) {
    char certificate[PARTY_PATH_BYTES], key[PARTY_PATH_BYTES], authorities[PARTY_PATH_BYTES],
        crl[PARTY_PATH_BYTES];
    const party_tls_config *t = &p->c.tls;
    uvcc_tls_config c = {.size = sizeof c,
                         .alloc = uvcc_host_allocator(),
                         .log = {keep_line, p},
                         .library = t->library,
                         .party = (uint8_t)p->c.party,
                         .tls12 = t->tls12};
    if (!t->given)
        return EXIT_DONE;
    if (t->certificate != NULL) {
        if (full_path(p, "tls.certificate", t->certificate, certificate) != EXIT_DONE ||
            full_path(p, "tls.key", t->key, key) != EXIT_DONE ||
            full_path(p, "tls.authorities", t->authorities, authorities) != EXIT_DONE ||
            (t->crl != NULL && full_path(p, "tls.crl", t->crl, crl) != EXIT_DONE))
            return EXIT_BAD_INPUT;
        c.certificate = certificate;
        c.key = key;
        c.authorities = authorities;
        c.crl = t->crl != NULL ? crl : NULL;
        memcpy(c.name, t->name, sizeof c.name);
    } else if (read_pairs(p, &c) != EXIT_DONE) {
        return EXIT_BAD_INPUT;
    }
    const int rc = uvcc_tls_new(&p->tls, &c);
    if (rc != 0)
        return bad(p, "tls", *p->log_line != '\0' ? p->log_line : uvcc_error_text(rc));
    return t->certificate != NULL ? check_own_names(p, certificate) : EXIT_DONE;
}

/* ---- the net ---- */

/* Connections that were refused are told of by who waits for them (waits.c). */
static int open_net(party *p) {
    uvcc_net_config c;
    const char *why = NULL;
    uvcc_net_config_default(&c);
    c.alloc = uvcc_host_allocator();
    c.random = uvcc_host_random();
    c.log = (uvcc_logger){keep_line, p};
    c.backend = p->c.backend;
    crew_share_net(p->crew, &c);
    if (uvcc_net_backend_is_here(c.backend, &why) != 0)
        return bad(p, "backend", why);
    const int rc = uvcc_net_new(&p->net, &c);
    return rc == 0 ? EXIT_DONE : report_error(EXIT_FAILED, "the net: %s", uvcc_error_text(rc));
}

/* Workers of one process may share an address: whoever calls says which one is meant. */
static int listen_all(party *p) {
    char address[UVCC_NET_ADDRESS_BYTES], before[UVCC_NET_ADDRESS_BYTES] = "";
    for (uint32_t i = 0; i < p->workers; i++) {
        if (!config_listen(&p->c, p->worker[i].rank, address))
            return bad(p, p->c.listen != NULL ? "listen" : "parties[].address",
                       "the address is too long");
        if (strcmp(address, before) == 0)
            continue;
        memcpy(before, address, sizeof before);
        p->log_line[0] = '\0';
        const int rc = uvcc_net_listen(p->net, address, p->tls, NULL);
        if (rc != 0)
            return report_error(rc == UVCC_ERR_CONFIG ? EXIT_BAD_INPUT : EXIT_FAILED,
                                "%s: %s: %s%s", p->c.file,
                                p->c.listen != NULL ? "listen" : "parties[].address",
                                *p->log_line != '\0' ? p->log_line : uvcc_error_text(rc),
                                party_in_use(p->log_line));
    }
    return EXIT_DONE;
}

static int open_store(party *p) {
    char why[UVCC_STORE_TEXT_BYTES];
    uvcc_store_config c;
    uvcc_store_config_default(&c);
    c.log = (uvcc_logger){keep_line, p};
    c.dir = p->store_dir;
    c.party = (uint8_t)p->c.party;
    c.leave_triples = p->c.triples == 1;
    c.behind = !p->c.all_workers && config_workers(&p->c) > 1;
    if (uvcc_store_open(&p->store, &c, why, sizeof why) != 0)
        return bad(p, "store", why);
    return EXIT_DONE;
}

/* ---- from the file on ---- */

static int open_work(party *p) {
    p->kind = work_find(p->c.kind);
    if (p->kind == NULL)
        return report_error(EXIT_BAD_INPUT,
                            "%s: job.run.kind: there is no \"%.40s\"; give one of %s", p->c.file,
                            p->c.kind, work_names());
    const work_config c = {.file = p->c.file,
                           .run = p->c.run,
                           .data = p->c.data,
                           .output = p->c.output,
                           .dir = p->c.dir,
                           .party = (uint8_t)p->c.party,
                           .replicas = (uint16_t)p->c.replicas,
                           .stages = (uint16_t)p->c.stages,
                           .tensor_ranks = (uint16_t)p->c.tensor_ranks,
                           .microbatches = p->c.microbatches,
                           .sks = (uint16_t)p->c.sks,
                           .identity = p->sign_seed,
                           .public_key = (const uint8_t(*)[32])p->public_key,
                           .check = p->check_only,
                           .share = p->share_dir != NULL};
    if (p->kind->queue != NULL && p->c.checkpoint_every != 0)
        return bad(p, "job.checkpoint_every",
                   "a job that serves keeps no checkpoints, for its model comes anew with each "
                   "run; give 0, or take it away");
    const int status = p->kind->open(&p->work, &c);
    if (status == EXIT_BAD_INPUT && *p->c.from_environment != '\0')
        (void)report_error(status,
                           "%s in the environment takes the place of what \"job\" says; unset it "
                           "if that is not meant",
                           p->c.from_environment);
    if (status == EXIT_DONE && p->kind->agree != NULL) {
        const char *what = "";
        const uint64_t v = p->kind->agree(p->work, &what);
        if (v != 0)
            agree_add(&p->agree, what, v);
    }
    return status;
}

static int open_workers(party *p) {
    p->workers = config_local_workers(&p->c);
    p->worker = calloc(p->workers, sizeof *p->worker);
    if (p->worker == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    int status = EXIT_DONE;
    for (uint32_t i = 0; i < p->workers && status == EXIT_DONE; i++)
        status = worker_open(&p->worker[i], p, p->c.all_workers ? i : p->c.local_rank);
    return status;
}

/* Processes of one party have directories of their own below the store's and the audit's. */
static int name_store(party *p) {
    int status = full_path(p, "store", p->c.store, p->store_dir);
    if (status == EXIT_DONE && p->c.audit != NULL)
        status = full_path(p, "audit", p->c.audit, p->audit_dir);
    if (status != EXIT_DONE || p->c.all_workers || config_workers(&p->c) == 1)
        return status;
    const char *const dirs[] = {p->store_dir, p->audit_dir};
    for (unsigned i = 0; i < 2 && !p->check_only; i++) {
        const int why = *dirs[i] != '\0' ? dir_make(dirs[i]) : 0;
        if (why != 0)
            return report_error(EXIT_BAD_INPUT, "%s: %s: %s cannot be made: %s", p->c.file,
                                i == 0 ? "store" : "audit", dirs[i], strerror(why));
    }
    if (!config_own_place(&p->c, p->worker[0].rank, p->store_dir) ||
        (p->c.audit != NULL && !config_own_place(&p->c, p->worker[0].rank, p->audit_dir)))
        return bad(p, "store", "the path is too long");
    return EXIT_DONE;
}

/* A core file would hold keys and shares in the clear. One byte is too little for a file, and keeps
 * the kernel from giving the memory to a program that collects them, which 0 does not. */
static void leave_no_core(void) {
    struct rlimit r;
    if (getrlimit(RLIMIT_CORE, &r) != 0)
        return;
    r.rlim_cur = r.rlim_max >= 1 ? 1 : 0;
    (void)setrlimit(RLIMIT_CORE, &r);
}

/* Several workers of a party are on a device each, and exchange shares by NCCL. */
static int settle_several(const party_config *c) {
    const char *why = NULL;
    if (nccl_library_load(&why) == NULL)
        return report_error(EXIT_BAD_INPUT,
                            "%s: compute: \"gpu\": job has %u workers of each party, on a CUDA "
                            "device each: %s; give \"threads\" to do without",
                            c->file, config_workers(c), why);
    if (c->all_workers && c->device != CARD_BY_RANK)
        return report_error(EXIT_BAD_INPUT,
                            "%s: device: %u is for one worker, and this process has all %u of its "
                            "party, which are on a CUDA device each, by their rank; leave it out",
                            c->file, c->device, config_workers(c));
    return EXIT_DONE;
}

static int settle_compute(party *p) {
    party_config *c = &p->c;
    const char *why = NULL;
    const bool alone = config_workers(c) == 1;
    if (c->compute == CONFIG_AUTO)
        c->compute = alone && card_count(NULL) != 0 ? CONFIG_GPU : CONFIG_THREADS;
    if (c->compute != CONFIG_GPU)
        return EXIT_DONE;
    if (card_count(&why) == 0)
        return report_error(
            EXIT_BAD_INPUT,
            "%s: compute: \"gpu\": %s; give \"inline\" or \"threads\" to do without", c->file, why);
    return alone ? EXIT_DONE : settle_several(c);
}

int party_open(party *p, const char *path, int64_t rank, const party_asked *asked) {
    char text[MESSAGE_BYTES];
    p->names = -1;
    leave_no_core();
    const flag_message m = {text, sizeof text};
    if (config_read(&p->c, path, rank, getenv, &m) != 0 ||
        (asked != NULL && config_options(&p->c, asked->compute, asked->device, &m) != 0))
        return report_error(EXIT_BAD_INPUT, "%s", text);
    report_subject(p->c.file); /* of what stands in it */
    int status = settle_compute(p);
    if (status == EXIT_DONE)
        status = agree_make(&p->agree, &p->c) == 0
                     ? keys_identity(&p->c, p->sign_seed, p->public_key[p->c.party])
                     : report_error(EXIT_FAILED, "out of memory");
    if (status == EXIT_DONE)
        status = read_publics(p);
    if (status == EXIT_DONE)
        status = read_policy(p);
    if (status == EXIT_DONE)
        status = open_work(p);
    if (status == EXIT_DONE)
        status = clients_read(p, &p->clients);
    if (status == EXIT_DONE)
        status = open_workers(p);
    if (status == EXIT_DONE)
        status = figures_check(p);
    if (status == EXIT_DONE)
        status = name_store(p);
    report_subject(NULL);
    return status;
}

/* Packets hold less than is worth a thread. */
unsigned party_seal_threads(const party *p) {
    if (config_datagram(&p->c))
        return 0;
    return p->c.seal_threads != CONFIG_BY_CORES ? p->c.seal_threads : crew_threads(p->workers);
}

static int open_crew(party *p) {
    const unsigned threads = party_seal_threads(p);
    return threads == 0 || crew_new(&p->crew, threads) == 0
               ? EXIT_DONE
               : report_error(EXIT_FAILED, "seal_threads: no memory for %u threads", threads);
}

int party_connect(party *p) {
    int status = party_open_tls(p);
    if (status == EXIT_DONE)
        status = open_crew(p);
    if (status == EXIT_DONE)
        status = open_net(p);
    if (status == EXIT_DONE)
        status = listen_all(p);
    return status == EXIT_DONE ? clients_listen(p->clients) : status;
}

int party_open_store(party *p) {
    const int status = names_open(p);
    return status == EXIT_DONE ? open_store(p) : status;
}

void party_close(party *p) {
    for (uint32_t i = 0; i < p->workers && p->worker != NULL; i++)
        worker_close(&p->worker[i]);
    crew_free(p->crew);
    figures_close(p);
    if (p->worker != NULL)
        sodium_memzero(p->worker, p->workers * sizeof *p->worker);
    free(p->worker);
    bundles_close(p->audit);
    names_close(p);
    plane_close(p->plane);
    clients_free(p->clients);
    uvcc_net_free(p->net);
    uvcc_tls_free(p->tls);
    uvcc_store_free(p->store);
    if (p->work != NULL)
        p->kind->close(p->work);
    json_decref(p->result);
    free(p->policy);
    config_free(&p->c);
    sodium_memzero(p->sign_seed, sizeof p->sign_seed);
    sodium_memzero(p->psk, sizeof p->psk);
}
