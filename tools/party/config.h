/* SPDX-License-Identifier: Apache-2.0 */
/* config.h - what `uvcc party` is told: a JSON file (docs/party.md) and the environment, which
 * beats the file. Nothing is opened here but the file itself; the files that it names are the
 * caller's. */
#ifndef UVCC_TOOLS_PARTY_CONFIG_H
#define UVCC_TOOLS_PARTY_CONFIG_H

#include <jansson.h>
#include <uvcc/net.h>
#include <uvcc/types.h>

#include "../card.h"
#include "../flags.h"

#define PARTY_PATH_BYTES 4096u
#define PARTY_NAME_BYTES 64u

/* Faults that this party makes on purpose, to try what they do. */
typedef struct party_faults {
    uint32_t reset_ms;   /* connections are closed about so often; 0: never */
    uint64_t reset_seed; /* of the times */
    uint32_t die_after;  /* SIGKILL after so many finished steps of this process; 0: never */
} party_faults;

typedef struct party_tls_config {
    bool given;
    uint32_t library; /* UVCC_TLS_* */
    bool tls12;
    const char *certificate, *key, *authorities, *crl; /* as written; NULL: not given */
    const char *name[UVCC_PARTIES], *pair_key[UVCC_PARTIES];
} party_tls_config;

enum { CONFIG_BY_CORES = 1025 };

/* Where jobs run. AUTO comes of the environment alone: a CUDA device if there is one that can be
 * used, else threads. */
typedef enum config_compute {
    CONFIG_INLINE,
    CONFIG_THREADS,
    CONFIG_GPU,
    CONFIG_AUTO
} config_compute;

/* Texts are the JSON text's, paths as they stand there: config_path(). */
typedef struct party_config {
    json_t *root; /* owns all texts; "job" is as the environment left it */
    char *file, *dir;
    /* the job, the same at all three */
    json_t *job, *run;
    const char *name, *kind;
    uint32_t replicas, stages, tensor_ranks, microbatches, sks, checkpoint_every;
    /* this party */
    uint32_t party;
    const char *address[UVCC_PARTIES], *key[UVCC_PARTIES]; /* key: as written */
    const char *listen, *identity, *policy, *store, *audit;
    uint32_t seal_threads; /* CONFIG_BY_CORES: not given */
    uint32_t base_port, threads, linger_s, silence_s, suites, backend;
    party_tls_config tls;
    party_faults faults;
    json_t *data, *output, *log, *clients; /* NULL: not given */
    uint32_t triples;                      /* 1: those that the store keeps are left there */
    const char *status;                    /* address of the counters; NULL: none */
    const char *names;                     /* a file for what is used once; NULL: none */
    /* which workers run here */
    bool all_workers;
    char from_environment[64]; /* of the topology: "UVCC_R=2 UVCC_T=2"; "": nothing */
    uint32_t local_rank;       /* without all_workers */
    uint32_t compute;          /* config_compute */
    uint32_t device;           /* a CUDA device's number; CARD_BY_RANK: not given */
    uint64_t device_bytes;     /* that a worker may take of it; 0: no limit */
    uint64_t device_keys;      /* of these for keys ahead of use */
    uint8_t sid_job[32];       /* of job.name */
    uint8_t job_hash[32];      /* of all of "job" */
} party_config;

/* Where the environment's values come from; getenv() is one. */
typedef char *config_getenv(const char *name);

/* Reads the file. worker: what --worker said, negative: nothing. 0, or -1 and one line in the
 * message: the place in the file (or the variable), what is wrong, what to give. config_free()
 * follows in any case. */
int config_read(party_config *c, const char *path, int64_t worker, config_getenv *env,
                const flag_message *m);
/* The same of a text that was parsed already, which it takes; `file` is for messages. */
int config_take(party_config *c, json_t *root, const char *file, int64_t worker, config_getenv *env,
                const flag_message *m);
void config_free(party_config *c);
/* Of a client's file, which has "parties" too: reads the text, and then the three parties, all with
 * their keys; "party" stays UVCC_PARTIES, for it is none of them. As config_read(). */
int config_load(party_config *c, const char *path, const flag_message *m);
int config_parties(party_config *c, const flag_message *m);
/* What the parties of a job of this name call it. */
void config_sid(const char *name, uint8_t out[32]);

/* What options say, which beats both: `compute` CONFIG_AUTO and `device` CARD_BY_RANK if they are
 * not given. 0, or -1 and one line in the message; a device alone is an error where no card is
 * used. */
int config_options(party_config *c, uint32_t compute, uint32_t device, const flag_message *m);
/* Workers of a party in the job, and in this process. */
uint32_t config_workers(const party_config *c);
uint32_t config_local_workers(const party_config *c);

/* A path relative to the file's directory. False: too long. */
bool config_path(const party_config *c, const char *path, char out[PARTY_PATH_BYTES]);
/* Appends the directory that the worker of a local rank has of its own, where the workers of a
 * party are processes: false if it does not fit. */
bool config_own_place(const party_config *c, uint32_t rank, char dir[PARTY_PATH_BYTES]);
/* The address of a party's worker. A host without a port gets base_port + the worker's local rank;
 * '%' in the path of a Unix socket is the local rank. False: too long. */
bool config_address(const party_config *c, uint32_t party, uint32_t rank,
                    char out[UVCC_NET_ADDRESS_BYTES]);
/* Where clients call: an address, with this port if it names none, and a path relative to the
 * file's directory. */
enum { CONFIG_CLIENTS_PORT = 7200 };
bool config_place(const party_config *c, const char *address, uint32_t port,
                  char out[UVCC_NET_ADDRESS_BYTES]);
/* Where this process listens for a worker. */
bool config_listen(const party_config *c, uint32_t rank, char out[UVCC_NET_ADDRESS_BYTES]);
bool config_datagram(const party_config *c);

#endif
