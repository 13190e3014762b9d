/* SPDX-License-Identifier: Apache-2.0 */
/* job.c - see job.h. Who is killed at any time starts again with the same options: the store has
 * what it goes on from, and the two others, who hear of it, begin a new run with it.
 *
 * Nothing is here about connections: a net dials again by itself, and writes when a socket has
 * room. */
#include "job.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/store.h>
#include <uvcc/uvcc.h>

#include "work.h"

#define PATH_BYTES 1024

struct job {
    const char *name, *keys, *dir, *data, *listen, *tls_name, *backend;
    const char *address[UVCC_PARTIES];
    uint8_t party;
    work work;
    uvcc_store *store;
    uvcc_tls *tls;
    uint8_t psk[UVCC_PARTIES][32];
    uvcc_net *net;
    uvcc_cpu *cpu;
    uvcc_config cfg;
    uvcc_session *session;
    uint32_t step;              /* the next to agree to */
    bool running, again, ended; /* again: the run is over, and a new one is to begin */
    bool done;
    int rc;
};

static void usage(void) {
    fputs("Options, of which all three parties need the same where (same) stands:\n"
          "  --party P         0, 1 or 2\n"
          "  --addresses A,A,A of the three parties, in their order (same): tcp:HOST:PORT,\n"
          "                    udp:HOST:PORT or unix:/PATH\n"
          "  --listen A        where this party listens, if that is not its address: tcp:*:PORT\n"
          "  --keys DIR        identity.key of `uvcc keygen --out`, and party-0.pub, party-1.pub\n"
          "                    and party-2.pub, which it printed; with --tls pair-P.key of\n"
          "                    `uvcc keygen --pair --out` for each peer P, the same at both\n"
          "  --store DIR       of this party alone: checkpoints, the number of the last run\n"
          "  --job relu|mlp    (relu) (same)\n"
          "  --data FILE       mlp, parties 0 and 1: digits.csv\n"
          "  --tls auto|openssl|mbedtls   for tcp: and unix: (none) (same: with or without)\n"
          "  --backend auto|epoll|uring   (auto)\n",
          stderr);
}

static void write_log(void *user, uvcc_log_level level, const char *line) {
    (void)user;
    if (level <= UVCC_LOG_INFO)
        fprintf(stderr, "%s\n", line);
}

static int fail(job *j, const char *what, const char *why) {
    fprintf(stderr, "party %u: %s: %s\n", j->party, what, why);
    return UVCC_ERR_CONFIG;
}

/* ---- the session ---- */

/* Agrees to steps as far as it may, and gives their inputs. AGAIN: an event is to come first, and
 * this is called after every one. */
static void advance(job *j, uint64_t now) {
    while (j->running && j->rc == 0 && j->step < j->work.steps) {
        j->rc = uvcc_store_step(j->store, j->session, j->step, work_entry(&j->work, j->step), now);
        if (j->rc == UVCC_ERR_AGAIN) {
            j->rc = 0;
            return;
        }
        if (j->rc == 0)
            j->rc = work_inputs(&j->work, j->store, j->session, j->step, now);
        j->step += j->rc == 0;
    }
}

static void on_event(void *user, uvcc_session *s, const uvcc_event *e, uint64_t now) {
    job *j = user;
    int rc = uvcc_store_event(j->store, s, e);
    if (rc == UVCC_STORE_SET)
        rc = work_first_values(&j->work, s);
    if (rc != 0 && rc != UVCC_ERR_IO && rc != UVCC_ERR_NOMEM) /* these two are tried again */
        j->rc = rc;
    switch (e->kind) {
    case UVCC_EVENT_READY:
        printf("run %u from step %u\n", e->run, e->step);
        j->step = e->step;
        j->running = true;
        break;
    case UVCC_EVENT_STEP_FINISHED:
        printf("step %u\n", e->step);
        work_outputs(&j->work, s, e->step);
        j->done = e->step + 1 == j->work.steps;
        if (j->done)
            j->rc = uvcc_session_close(s, now);
        break;
    case UVCC_EVENT_PEER_RESTARTED: /* nothing of this run can go on */
        j->running = false;
        (void)uvcc_session_abort(s, UVCC_ABORT_RESTARTED, now);
        break;
    case UVCC_EVENT_ABORTED:
        fprintf(stderr, "party %u: aborted: %s\n", j->party, e->text);
        j->running = false;
        j->again = e->reason == UVCC_ABORT_RESTARTED;
        (void)uvcc_session_close(s, now);
        break;
    case UVCC_EVENT_MISMATCH: /* it waits on for one that fits */
        fprintf(stderr, "party %u: party %u has another %s\n", j->party, e->peer, e->text);
        break;
    case UVCC_EVENT_CLOSED:
        j->running = false;
        j->ended = true;
        break;
    default:
        break;
    }
    advance(j, now);
    (void)fflush(stdout);
}

/* A new run: the first one, and after a peer was gone. */
static int begin(job *j) {
    uvcc_net_session how = {.size = sizeof how,
                            .party = j->party,
                            .tls = j->tls,
                            .cpu = j->cpu,
                            .event = on_event,
                            .user = j};
    uint32_t run;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        how.address[p] = p == j->party ? NULL : j->address[p];
    j->again = j->ended = false;
    int rc = uvcc_store_next_run(j->store, &run);
    if (rc == 0)
        rc = uvcc_store_configure(j->store, &j->cfg);
    if (rc == 0)
        rc = uvcc_session_new(&j->session, &j->cfg);
    if (rc == 0)
        rc = uvcc_session_load_program(j->session, j->work.program);
    if (rc == 0)
        rc = uvcc_store_offer(j->store, j->session, &j->cfg);
    if (rc != 0)
        return fail(j, uvcc_error_text(rc), uvcc_store_error(j->store));
    rc = uvcc_session_start(j->session, uvcc_host_now_ns());
    if (rc == 0)
        rc = uvcc_net_add(j->net, j->session, &how);
    return rc != 0 ? fail(j, "the session", uvcc_error_text(rc)) : 0;
}

static void end(job *j) {
    if (j->session != NULL)
        (void)uvcc_net_remove(j->net, j->session);
    uvcc_session_free(j->session);
    j->session = NULL;
}

static bool turned(job *j, int rc) {
    if (rc < 0 && j->rc == 0)
        j->rc = rc;
    if (j->rc == 0 && j->ended && j->again) {
        end(j);
        j->rc = begin(j);
    }
    return j->rc == 0 && !j->ended;
}

bool job_turn(job *j) {
    return turned(j, uvcc_net_turn(j->net));
}

bool job_wait(job *j) {
    return turned(j, uvcc_net_wait(j->net, UVCC_NEVER));
}

/* ---- what it is made of ---- */

static int take_addresses(job *j, char *text) {
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        j->address[p] = strtok(p == 0 ? text : NULL, ",");
    return j->address[UVCC_PARTIES - 1] != NULL ? 0 : fail(j, "--addresses", "three are needed");
}

static int take_options(job *j, int argc, char **argv) {
    static const char *const names[] = {"--job",    "--keys", "--store",   "--data",
                                        "--listen", "--tls",  "--backend", NULL};
    const char **const to[] = {&j->name,   &j->keys,     &j->dir,    &j->data,
                               &j->listen, &j->tls_name, &j->backend};
    int rc = 0;
    for (int i = 1; i < argc && rc == 0; i += 2) {
        unsigned n = 0;
        while (names[n] != NULL && strcmp(names[n], argv[i]) != 0)
            n++;
        if (i + 1 == argc)
            rc = UVCC_ERR_USAGE;
        else if (names[n] != NULL)
            *to[n] = argv[i + 1];
        else if (strcmp(argv[i], "--party") == 0 && strspn(argv[i + 1], "012") == 1)
            j->party = (uint8_t)(argv[i + 1][0] - '0');
        else if (strcmp(argv[i], "--addresses") == 0)
            rc = take_addresses(j, argv[i + 1]);
        else
            rc = UVCC_ERR_USAGE;
    }
    if (rc == 0 && j->party < UVCC_PARTIES && j->keys != NULL && j->dir != NULL &&
        j->address[0] != NULL)
        return 0;
    usage();
    return UVCC_ERR_USAGE;
}

/* The identity, and the peers' public keys. All else that the session is told stands here too. */
static int configure(job *j) {
    char path[PATH_BYTES], why[UVCC_STORE_TEXT_BYTES], hex[65] = "";
    uvcc_config *c = &j->cfg;
    int rc = uvcc_config_default(c, sizeof *c);
    c->alloc = uvcc_host_allocator();
    c->random = uvcc_host_random();
    c->log.write = write_log;
    c->identity.party = j->party;
    c->identity.exchange_x25519 = true;
    (void)snprintf((char *)c->identity.sid_job, 32, "example %s", j->name);
    c->links.datagram = strncmp(j->address[j->party], "udp:", 4) == 0;
    c->resume.checkpoint_every = 8;
    (void)snprintf(path, sizeof path, "%s/identity.key", j->keys);
    if (rc == 0)
        rc = uvcc_key_read(path, UVCC_KEY_IDENTITY, c->identity.sign_seed, why, sizeof why);
    if (rc != 0)
        return fail(j, "--keys", why);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        size_t len = 0;
        (void)snprintf(path, sizeof path, "%s/party-%u.pub", j->keys, p);
        FILE *f = fopen(path, "r");
        if (f == NULL || fscanf(f, "%64s", hex) != 1 ||
            sodium_hex2bin(c->identity.peer_sign_key[p], 32, hex, 64, NULL, &len, NULL) != 0 ||
            len != 32)
            rc = fail(j, path, "not a public key as `uvcc keygen` prints it");
        if (f != NULL)
            (void)fclose(f);
    }
    return rc;
}

/* TLS by the key of each pair. With certificates: `certificate`, `key` and `authorities` instead.
 */
static int open_tls(job *j) {
    char path[PATH_BYTES], why[UVCC_STORE_TEXT_BYTES];
    uvcc_tls_config c = {.size = sizeof c,
                         .alloc = uvcc_host_allocator(),
                         .log.write = write_log,
                         .party = j->party};
    if (j->tls_name == NULL)
        return 0;
    while (uvcc_tls_name(c.library) != NULL && strcmp(uvcc_tls_name(c.library), j->tls_name) != 0)
        c.library++;
    if (uvcc_tls_name(c.library) == NULL)
        return fail(j, "--tls", "it is openssl, mbedtls or auto");
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        (void)snprintf(path, sizeof path, "%s/pair-%u.key", j->keys, p);
        if (p != j->party && uvcc_key_read(path, UVCC_KEY_PAIR, j->psk[p], why, sizeof why) != 0)
            return fail(j, "--tls", why);
        c.psk[p] = j->psk[p];
        c.psk_len[p] = sizeof j->psk[p];
    }
    const int rc = uvcc_tls_new(&j->tls, &c);
    return rc != 0 ? fail(j, "--tls", uvcc_error_text(rc)) : 0;
}

static int open_net(job *j) {
    uvcc_net_config c;
    uvcc_net_config_default(&c);
    c.alloc = uvcc_host_allocator();
    c.random = uvcc_host_random();
    c.log.write = write_log;
    while (j->backend != NULL && uvcc_net_backend_name(c.backend) != NULL &&
           strcmp(uvcc_net_backend_name(c.backend), j->backend) != 0)
        c.backend++;
    const char *why = "";
    if (uvcc_net_backend_is_here(c.backend, &why) != 0)
        return fail(j, "--backend", why);
    int rc = uvcc_net_new(&j->net, &c);
    if (rc == 0)
        rc = uvcc_net_listen(j->net, j->listen != NULL ? j->listen : j->address[j->party], j->tls,
                             NULL);
    return rc != 0 ? fail(j, "the network", uvcc_error_text(rc)) : 0;
}

/* Jobs run on a thread, which wakes the loop when one is done. */
static int open_cpu(job *j) {
    const uvcc_cpu_config c = {.size = sizeof c,
                               .alloc = uvcc_host_allocator(),
                               .mode = UVCC_CPU_THREADS,
                               .threads = 1,
                               .wake = uvcc_net_wake,
                               .wake_user = j->net};
    const int rc = uvcc_cpu_new(&j->cpu, &c);
    return rc != 0 ? fail(j, "the executor", uvcc_error_text(rc)) : 0;
}

static int open_store(job *j) {
    char why[UVCC_STORE_TEXT_BYTES];
    uvcc_store_config c;
    uvcc_store_config_default(&c);
    c.dir = j->dir;
    c.party = j->party;
    c.log.write = write_log;
    const int rc = uvcc_store_open(&j->store, &c, why, sizeof why);
    return rc != 0 ? fail(j, "--store", why) : 0;
}

job *job_open(int argc, char **argv) {
    job *j = calloc(1, sizeof *j);
    if (j == NULL)
        return NULL;
    j->name = "relu";
    j->party = UVCC_PARTIES;
    int rc = take_options(j, argc, argv);
    if (rc == 0)
        rc = work_open(&j->work, j->name, j->party, j->data);
    if (rc == 0)
        rc = configure(j);
    if (rc == 0)
        rc = open_store(j);
    if (rc == 0)
        rc = open_tls(j);
    if (rc == 0)
        rc = open_net(j);
    if (rc == 0)
        rc = open_cpu(j);
    if (rc == 0)
        rc = begin(j);
    if (rc == 0)
        return j;
    j->rc = rc;
    (void)job_close(j);
    return NULL;
}

uvcc_net *job_net(const job *j) {
    return j->net;
}

int job_close(job *j) {
    if (j->rc != 0)
        fprintf(stderr, "party %u: %s %s\n", j->party, uvcc_error_text(j->rc),
                uvcc_store_error(j->store)); /* its last error, if it had one */
    const int status = j->rc == 0 && j->done ? EXIT_SUCCESS : EXIT_FAILURE;
    uvcc_cpu_free(j->cpu); /* its thread wakes the net, and works on the session's memory */
    end(j);
    uvcc_net_free(j->net);
    uvcc_tls_free(j->tls);
    uvcc_store_free(j->store);
    work_close(&j->work);
    sodium_memzero(j->psk, sizeof j->psk);
    sodium_memzero(&j->cfg, sizeof j->cfg);
    free(j);
    return status;
}
