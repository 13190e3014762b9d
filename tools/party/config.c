/* SPDX-License-Identifier: Apache-2.0 */
/* config.c - see config.h. Three tables say what the members are: of the file, of "job", of
 * "faults"; what is no number or text stands below them. */
#include "config.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/tls.h>

#include "../compute.h"
#include "../flags_json.h"

#define WORKERS_MAX 4096u
#define DEVICE_MAX  65535u
#define AT(member)  offsetof(party_config, member)

static const char *const suites[] = {"all", "chacha20-poly1305", "aes-256-gcm", NULL};
static const char *const backends[] = {"auto", "epoll", "io_uring", NULL};
static const char *const keeping[] = {"use", "leave", NULL};
static const char *const computes[] = {"inline", "threads", "gpu", NULL};
static const char *const libraries[] = {"auto", "openssl", "mbedtls", NULL};
_Static_assert(UVCC_TLS_AUTO == 0 && UVCC_TLS_OPENSSL == 1 && UVCC_TLS_MBEDTLS == 2, "libraries[]");
_Static_assert(CONFIG_INLINE == 0 && CONFIG_THREADS == 1 && CONFIG_GPU == 2, "computes[]");
_Static_assert(UVCC_NET_AUTO == 0 && UVCC_NET_EPOLL == 1 && UVCC_NET_URING == 2, "backends[]");

static const flag members[] = {
    {"party", NULL, FLAG_COUNT, AT(party), 0, 2, NULL, NULL},
    {"listen", "an address", FLAG_TEXT, AT(listen), 0, 0, NULL, NULL},
    {"base_port", NULL, FLAG_COUNT, AT(base_port), 1, 65535, NULL, NULL},
    {"identity", "a file", FLAG_TEXT, AT(identity), 0, 0, NULL, NULL},
    {"policy", "a file", FLAG_TEXT, AT(policy), 0, 0, NULL, NULL},
    {"store", "a directory", FLAG_TEXT, AT(store), 0, 0, NULL, NULL},
    {"audit", "a directory", FLAG_TEXT, AT(audit), 0, 0, NULL, NULL},
    {"compute", "inline, threads, gpu", FLAG_CHOICE, AT(compute), 0, 0, computes, NULL},
    {"threads", NULL, FLAG_COUNT, AT(threads), 1, 1024, NULL, NULL},
    {"seal_threads", NULL, FLAG_COUNT, AT(seal_threads), 0, CONFIG_BY_CORES - 1, NULL, NULL},
    {"linger_s", NULL, FLAG_COUNT, AT(linger_s), 1, 86400, NULL, NULL},
    {"silence_s", NULL, FLAG_COUNT, AT(silence_s), 0, 86400, NULL, NULL},
    {"suite", "all, chacha20-poly1305, aes-256-gcm", FLAG_CHOICE, AT(suites), 0, 0, suites, NULL},
    {"backend", "auto, epoll, io_uring", FLAG_CHOICE, AT(backend), 0, 0, backends, NULL},
    {"status", "an address", FLAG_TEXT, AT(status), 0, 0, NULL, NULL},
    {"names", "a file", FLAG_TEXT, AT(names), 0, 0, NULL, NULL},
    {"triples", "use, leave", FLAG_CHOICE, AT(triples), 0, 0, keeping, NULL},
};
static const char *const other_members[] = {"job",    "parties", "tls",     "faults", "data",
                                            "output", "log",     "clients", "device", NULL};

static const flag job_members[] = {
    {"name", "a name", FLAG_TEXT, AT(name), 0, 0, NULL, NULL},
    {"replicas", NULL, FLAG_COUNT, AT(replicas), 1, 1024, NULL, NULL},
    {"stages", NULL, FLAG_COUNT, AT(stages), 1, 1024, NULL, NULL},
    {"tensor_ranks", NULL, FLAG_COUNT, AT(tensor_ranks), 1, 1024, NULL, NULL},
    {"microbatches", NULL, FLAG_COUNT, AT(microbatches), 1, 65535, NULL, NULL},
    {"sks", NULL, FLAG_COUNT, AT(sks), 0, 65535, NULL, NULL},
    {"checkpoint_every", NULL, FLAG_COUNT, AT(checkpoint_every), 0, 1000000, NULL, NULL},
};
static const char *const other_job_members[] = {"run", NULL};

static const flag fault_members[] = {
    {"reset_ms", NULL, FLAG_COUNT, AT(faults.reset_ms), 0, 86400000, NULL, NULL},
    {"seed", NULL, FLAG_SEED, AT(faults.reset_seed), 0, 0, NULL, NULL},
    {"die_after_step", NULL, FLAG_COUNT, AT(faults.die_after), 0, 1000000000, NULL, NULL},
};

static const flag tls_members[] = {
    {"library", "auto, openssl, mbedtls", FLAG_CHOICE, AT(tls.library), 0, 0, libraries, NULL},
    {"tls12", NULL, FLAG_SWITCH, AT(tls.tls12), 0, 0, NULL, NULL},
    {"certificate", "a file", FLAG_TEXT, AT(tls.certificate), 0, 0, NULL, NULL},
    {"key", "a file", FLAG_TEXT, AT(tls.key), 0, 0, NULL, NULL},
    {"authorities", "a file", FLAG_TEXT, AT(tls.authorities), 0, 0, NULL, NULL},
    {"crl", "a file", FLAG_TEXT, AT(tls.crl), 0, 0, NULL, NULL},
};
static const char *const other_tls_members[] = {"names", "pair_keys", NULL};

#define COUNT(table)   (sizeof(table) / sizeof *(table))
#define MEMBERS(table) (&(const flag_set){.flags = (table), .count = COUNT(table)})

/* ---- the file ---- */

/* Texts of three, one for each party; null for the own one. */
static int read_three(const party_config *c, const json_t *object, const char *name,
                      const char *out[UVCC_PARTIES], const flag_message *m) {
    const json_t *list = json_object_get(object, name);
    if (list == NULL)
        return 0;
    if (!json_is_array(list) || json_array_size(list) != UVCC_PARTIES)
        return flag_fail(m, "tls.%s: give a list of three, one for each party", name);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const json_t *v = json_array_get(list, p);
        if (!json_is_string(v) && !(json_is_null(v) && p == c->party))
            return flag_fail(m, "tls.%s[%u]: give a text%s", name, p,
                             p == c->party ? ", or null, for this is party's own" : "");
        out[p] = json_string_value(v);
    }
    return 0;
}

static int read_tls(party_config *c, const flag_message *m) {
    json_t *tls = json_object_get(c->root, "tls");
    if (tls == NULL || json_is_null(tls))
        return 0;
    party_tls_config *t = &c->tls;
    t->given = true;
    if (flags_take_json(MEMBERS(tls_members), NULL, other_tls_members, c, tls, "tls", m) != 0 ||
        read_three(c, tls, "names", t->name, m) != 0 ||
        read_three(c, tls, "pair_keys", t->pair_key, m) != 0)
        return -1;
    const unsigned certificates =
        (t->certificate != NULL) + (t->key != NULL) + (t->authorities != NULL);
    const bool pairs = json_object_get(tls, "pair_keys") != NULL;
    if (certificates != 0 && certificates != 3)
        return flag_fail(m, "tls: certificate, key and authorities belong together; %s is missing",
                         t->certificate == NULL ? "certificate"
                         : t->key == NULL       ? "key"
                                                : "authorities");
    if (t->crl != NULL && certificates != 3)
        return flag_fail(m, "tls.crl: revocation lists are of certificates; give certificate, key "
                            "and authorities too, or leave it out");
    if (pairs == (certificates == 3))
        return flag_fail(m, "tls: give certificate, key and authorities, or pair_keys, a key file "
                            "for each peer (uvcc keygen --pair)");
    return 0;
}

/* An address is "tcp:HOST" too, without its port. */
static int check_address(const char *address, unsigned p, const flag_message *m) {
    if ((strncmp(address, "tcp:", 4) == 0 || strncmp(address, "udp:", 4) == 0 ||
         strncmp(address, "unix:", 5) == 0) &&
        strchr(address, ':')[1] != '\0')
        return 0;
    return flag_fail(m,
                     "parties[%u].address: \"%.100s\" is none; give tcp:HOST, tcp:HOST:PORT, "
                     "udp:HOST, udp:HOST:PORT or unix:PATH",
                     p, address);
}

/* One of the three; addresses of all are of one kind, since packets and streams do not mix. */
static int read_party(party_config *c, const json_t *list, unsigned p, const flag_message *m) {
    struct {
        const char *address, *key;
    } got = {0};
    const flag table[] = {
        {"address", "an address", FLAG_TEXT, 0, 0, 0, NULL, NULL},
        {"key", "a file", FLAG_TEXT, sizeof got.address, 0, 0, NULL, NULL},
    };
    char place[32];
    (void)snprintf(place, sizeof place, "parties[%u]", p);
    if (flags_take_json(MEMBERS(table), NULL, NULL, &got, json_array_get(list, p), place, m) != 0)
        return -1;
    if (got.address == NULL)
        return flag_fail(m,
                         "parties[%u].address is missing; give tcp:HOST, tcp:HOST:PORT, "
                         "udp:HOST:PORT or unix:PATH",
                         p);
    if (check_address(got.address, p, m) != 0)
        return -1;
    if (got.key == NULL && p != c->party)
        return flag_fail(m,
                         "parties[%u].key is missing; give the public key that uvcc keygen "
                         "printed there: 64 hexadecimal digits, or \"@FILE\" with them",
                         p);
    c->address[p] = got.address;
    c->key[p] = got.key;
    return 0;
}

int config_parties(party_config *c, const flag_message *m) {
    const json_t *list = json_object_get(c->root, "parties");
    if (!json_is_array(list) || json_array_size(list) != UVCC_PARTIES)
        return flag_fail(m, "parties: give a list of three, {\"address\": ..., \"key\": ...} for "
                            "parties 0, 1 and 2");
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if (read_party(c, list, p, m) != 0)
            return -1;
    for (unsigned p = 1; p < UVCC_PARTIES; p++)
        if ((strncmp(c->address[p], "udp:", 4) == 0) != (strncmp(c->address[0], "udp:", 4) == 0))
            return flag_fail(m,
                             "parties[%u].address: packets (udp:) and streams do not mix; give "
                             "all three of one kind",
                             p);
    if (c->tls.given && config_datagram(c))
        return flag_fail(m, "tls: goes over tcp: and unix: only; take it away, for packets are "
                            "sealed by the session keys as all frames are");
    return 0;
}

/* Members that hold objects, as they are: who takes them looks into them. */
static int read_object(const party_config *c, const char *name, json_t **out,
                       const flag_message *m) {
    json_t *v = json_object_get(c->root, name);
    *out = json_is_null(v) ? NULL : v;
    if (*out != NULL && !json_is_object(*out))
        return flag_fail(m, "%s: give an object, {...}", name);
    return 0;
}

static int read_job(party_config *c, const flag_message *m) {
    json_t *job = json_object_get(c->root, "job");
    if (job == NULL)
        return flag_fail(m, "job is missing; it says what the three parties compute, and is the "
                            "same at all of them");
    c->job = job;
    const char *kind = json_string_value(json_object_get(json_object_get(job, "run"), "kind"));
    if (kind != NULL && (strcmp(kind, "serve") == 0 || strcmp(kind, "infer") == 0))
        c->checkpoint_every = 0; /* a model comes anew, and checkpoints of it are four times it */
    if (flags_take_json(MEMBERS(job_members), NULL, other_job_members, c, job, "job", m) != 0)
        return -1;
    c->run = json_object_get(job, "run");
    if (!json_is_object(c->run))
        return flag_fail(m, "job.run is missing; give an object with its kind, such as "
                            "{\"kind\": \"mlp\", ...}");
    c->kind = json_string_value(json_object_get(c->run, "kind"));
    if (c->kind == NULL)
        return flag_fail(m, "job.run.kind is missing; give what is computed, such as \"mlp\"");
    if (c->name == NULL)
        return flag_fail(m, "job.name is missing; give a text that no other job of these parties "
                            "has");
    return 0;
}

/* "cpu": no card, whatever the environment says; else the number of a CUDA device. */
static bool cpu_is_said(const party_config *c) {
    const char *text = json_string_value(json_object_get(c->root, "device"));
    return text != NULL && strcmp(text, "cpu") == 0;
}

static int read_device(party_config *c, const flag_message *m) {
    const json_t *v = json_object_get(c->root, "device");
    const json_int_t n = json_is_integer(v) ? json_integer_value(v) : -1;
    if (v == NULL || json_is_null(v) || cpu_is_said(c))
        return cpu_is_said(c) && c->compute == CONFIG_GPU
                   ? flag_fail(m, "device: \"cpu\" and compute: \"gpu\" do not go together; give "
                                  "the number of a CUDA device, or take one of the two away")
                   : 0;
    if (n < 0 || n > DEVICE_MAX)
        return flag_fail(m,
                         "device: give \"cpu\", or a whole number from 0 to %u, the number of a "
                         "CUDA device",
                         DEVICE_MAX);
    c->device = (uint32_t)n;
    return 0;
}

static int read_members(party_config *c, const flag_message *m) {
    json_t *faults = json_object_get(c->root, "faults");
    if (flags_take_json(MEMBERS(members), NULL, other_members, c, c->root, "", m) != 0 ||
        flags_take_json(MEMBERS(fault_members), NULL, NULL, c, faults, "faults", m) != 0 ||
        read_object(c, "data", &c->data, m) != 0 || read_object(c, "output", &c->output, m) != 0 ||
        read_object(c, "log", &c->log, m) != 0 || read_object(c, "clients", &c->clients, m) != 0 ||
        read_device(c, m) != 0)
        return -1;
    return read_job(c, m);
}

/* ---- the environment ---- */

/* 1 and the value, 0: unset, -1 after saying what is wrong. */
static int env_number(config_getenv *env, const char *name, uint32_t min, uint32_t max,
                      uint32_t *out, const flag_message *m) {
    const char *text = env(name);
    uint64_t v = 0;
    size_t n = 0;
    if (text == NULL || *text == '\0')
        return 0;
    for (; text[n] >= '0' && text[n] <= '9' && n < 10; n++)
        v = 10 * v + (uint64_t)(text[n] - '0');
    if (text[n] != '\0' || v < min || v > max)
        return flag_fail(m,
                         "%s=%.40s in the environment: give a whole number from %u to %u, or "
                         "unset it",
                         name, text, min, max);
    *out = (uint32_t)v;
    return 1;
}

/* What the job says of itself is what the environment made of it, so that all see the same. */
static int env_topology(party_config *c, config_getenv *env, const flag_message *m) {
    const struct {
        const char *variable, *member;
        uint32_t *to;
    } of[] = {{"UVCC_R", "replicas", &c->replicas},
              {"UVCC_S", "stages", &c->stages},
              {"UVCC_T", "tensor_ranks", &c->tensor_ranks}};
    for (size_t i = 0; i < COUNT(of); i++) {
        const int got = env_number(env, of[i].variable, 1, 1024, of[i].to, m);
        const size_t n = strlen(c->from_environment), room = sizeof c->from_environment - n;
        if (got < 0)
            return -1;
        if (got == 1)
            (void)snprintf(c->from_environment + n, room, "%s%s=%u", n != 0 ? " " : "",
                           of[i].variable, *of[i].to);
        if (json_object_set_new(c->job, of[i].member, json_integer((json_int_t)*of[i].to)) != 0)
            return flag_fail(m, "out of memory");
    }
    const uint64_t workers = (uint64_t)c->replicas * c->stages * c->tensor_ranks;
    if (workers > WORKERS_MAX)
        return flag_fail(m,
                         "job.replicas, job.stages and job.tensor_ranks: %llu workers; at most "
                         "%u are possible",
                         (unsigned long long)workers, WORKERS_MAX);
    return 0;
}

/* (UVCC_REPLICA_ID, UVCC_STAGE_ID, UVCC_TP_RANK): all of them or none. 1, 0 or -1. */
static int env_coordinate(const party_config *c, config_getenv *env, uint32_t *rank,
                          const flag_message *m) {
    uint32_t r = 0, s = 0, t = 0;
    const int got[3] = {env_number(env, "UVCC_REPLICA_ID", 0, c->replicas - 1, &r, m),
                        env_number(env, "UVCC_STAGE_ID", 0, c->stages - 1, &s, m),
                        env_number(env, "UVCC_TP_RANK", 0, c->tensor_ranks - 1, &t, m)};
    if (got[0] < 0 || got[1] < 0 || got[2] < 0)
        return -1;
    if (got[0] + got[1] + got[2] == 0)
        return 0;
    if (got[0] + got[1] + got[2] != 3)
        return flag_fail(m,
                         "UVCC_REPLICA_ID, UVCC_STAGE_ID and UVCC_TP_RANK belong together; %s "
                         "is not set",
                         got[0] == 0   ? "UVCC_REPLICA_ID"
                         : got[1] == 0 ? "UVCC_STAGE_ID"
                                       : "UVCC_TP_RANK");
    *rank = (r * c->stages + s) * c->tensor_ranks + t;
    return 1;
}

/* Which worker this is, by the first that says it: --worker, uvcc's own variables, a launcher's. */
static int find_worker(party_config *c, int64_t worker, config_getenv *env, const flag_message *m) {
    static const char *const launchers[] = {"SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "RANK"};
    const uint32_t last = config_workers(c) - 1;
    uint32_t coordinate = 0;
    int got = 0;
    c->all_workers = false;
    if (worker > (int64_t)last)
        return flag_fail(m, "--worker %lld: the job has workers 0 to %u", (long long)worker, last);
    if (worker >= 0) {
        c->local_rank = (uint32_t)worker;
        return 0;
    }
    const int by_rank = env_number(env, "UVCC_LOCAL_RANK", 0, last, &c->local_rank, m);
    const int by_place = by_rank < 0 ? -1 : env_coordinate(c, env, &coordinate, m);
    if (by_place < 0)
        return -1;
    if (by_rank == 1 && by_place == 1 && c->local_rank != coordinate)
        return flag_fail(m,
                         "UVCC_LOCAL_RANK=%u in the environment is not the worker of "
                         "UVCC_REPLICA_ID, UVCC_STAGE_ID and UVCC_TP_RANK, which is %u; unset "
                         "one of the two",
                         c->local_rank, coordinate);
    if (by_rank == 0 && by_place == 1)
        c->local_rank = coordinate;
    for (size_t i = 0; i < COUNT(launchers) && by_rank + by_place == 0 && got == 0; i++)
        if ((got = env_number(env, launchers[i], 0, last, &c->local_rank, m)) < 0)
            return -1;
    c->all_workers = by_rank + by_place + got == 0;
    return 0;
}

/* UVCC_FSS_BACKEND counts where the file does not say where jobs run. */
static int env_compute(party_config *c, config_getenv *env, const flag_message *m) {
    compute_wish wish = COMPUTE_CPU;
    const bool said = json_object_get(c->root, "compute") != NULL || cpu_is_said(c);
    if (!said && compute_read_wish(env, &wish, m) != 0)
        return -1;
    if (wish != COMPUTE_CPU)
        c->compute = wish == COMPUTE_GPU ? CONFIG_GPU : CONFIG_AUTO;
    return compute_read_device(env, &c->device, m) != 0 ||
                   compute_read_bytes(env, &c->device_bytes, m) != 0 ||
                   compute_read_keys(env, c->device_bytes, &c->device_keys, m) != 0
               ? -1
               : 0;
}

static int take_environment(party_config *c, int64_t worker, config_getenv *env,
                            const flag_message *m) {
    if (env_number(env, "UVCC_PARTY_ID", 0, UVCC_PARTIES - 1, &c->party, m) < 0)
        return -1;
    if (c->party >= UVCC_PARTIES)
        return flag_fail(m, "party is missing; give 0, 1 or 2, here or as UVCC_PARTY_ID in the "
                            "environment");
    if (env_topology(c, env, m) != 0 || find_worker(c, worker, env, m) != 0)
        return -1;
    return env_compute(c, env, m);
}

/* ---- as a whole ---- */

static void hash(const char *label, const char *text, uint8_t out[32]) {
    crypto_hash_sha256_state h;
    (void)crypto_hash_sha256_init(&h);
    (void)crypto_hash_sha256_update(&h, (const uint8_t *)label, strlen(label));
    (void)crypto_hash_sha256_update(&h, (const uint8_t *)text, strlen(text));
    (void)crypto_hash_sha256_final(&h, out);
}

void config_sid(const char *name, uint8_t out[32]) {
    hash("uvcc job v1", name, out);
}

/* Parties whose jobs have one name meet, and are told what else differs (agree.h). */
static int make_sid(party_config *c, const flag_message *m) {
    char *text = json_dumps(c->job, JSON_COMPACT | JSON_SORT_KEYS);
    if (text == NULL)
        return flag_fail(m, "out of memory");
    config_sid(c->name, c->sid_job);
    hash("uvcc job text v1", text, c->job_hash);
    free(text);
    return 0;
}

static int check(const party_config *c, const flag_message *m) {
    if (c->identity == NULL)
        return flag_fail(m, "identity is missing; name the file that uvcc keygen --out made");
    if (c->store == NULL)
        return flag_fail(m, "store is missing; name a directory for this party's checkpoints and "
                            "runs");
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if (c->tls.given && c->tls.certificate == NULL && p != c->party &&
            c->tls.pair_key[p] == NULL)
            return flag_fail(m, "tls.pair_keys[%u]: name the key file of the pair with party %u", p,
                             p);
    char address[UVCC_NET_ADDRESS_BYTES];
    if (config_datagram(c) && c->all_workers && config_workers(c) > 1 &&
        config_address(c, c->party, 0, address) && strcmp(address, c->address[c->party]) != 0)
        return flag_fail(m,
                         "parties[%u].address: packets of all workers of one process come to "
                         "one port; give it, udp:HOST:PORT, at all three parties",
                         c->party);
    return 0;
}

/* The file's place, and what stays if it says nothing. */
static int begin(party_config *c, json_t *root, const char *file, const flag_message *m) {
    const char *slash = strrchr(file, '/');
    *c = (party_config){.root = root,
                        .party = UVCC_PARTIES,
                        .replicas = 1,
                        .stages = 1,
                        .tensor_ranks = 1,
                        .microbatches = 1,
                        .checkpoint_every = 8,
                        .base_port = 7100,
                        .compute = CONFIG_THREADS,
                        .device = CARD_BY_RANK,
                        .linger_s = 60,
                        .seal_threads = CONFIG_BY_CORES,
                        .faults.reset_seed = 1};
    c->file = strdup(file);
    c->dir = slash == NULL ? strdup(".") : strndup(file, (size_t)(slash - file + 1));
    return c->file != NULL && c->dir != NULL ? 0 : flag_fail(m, "out of memory");
}

int config_take(party_config *c, json_t *root, const char *file, int64_t worker, config_getenv *env,
                const flag_message *m) {
    char text[512] = "";
    const flag_message inner = {text, sizeof text};
    if (begin(c, root, file, m) != 0)
        return -1;
    if (read_members(c, &inner) == 0 && take_environment(c, worker, env, &inner) == 0 &&
        read_tls(c, &inner) == 0 && config_parties(c, &inner) == 0 && check(c, &inner) == 0 &&
        make_sid(c, &inner) == 0)
        return 0;
    return flag_fail(m, "%s: %s", file, text);
}

int config_read(party_config *c, const char *path, int64_t worker, config_getenv *env,
                const flag_message *m) {
    json_t *root = flags_json_load(path, m);
    *c = (party_config){0};
    return root != NULL ? config_take(c, root, path, worker, env, m) : -1;
}

int config_load(party_config *c, const char *path, const flag_message *m) {
    json_t *root = flags_json_load(path, m);
    *c = (party_config){0};
    return root != NULL ? begin(c, root, path, m) : -1;
}

/* The file may say a device beside UVCC_FSS_BACKEND=auto; who gives one by an option wants it. */
int config_options(party_config *c, uint32_t compute, uint32_t device, const flag_message *m) {
    if (compute != CONFIG_AUTO)
        c->compute = compute;
    if (device == CARD_BY_RANK)
        return 0;
    c->device = device;
    return c->compute == CONFIG_GPU || c->compute == CONFIG_AUTO
               ? 0
               : flag_fail(m, "--device does nothing without --compute gpu; leave it out");
}

void config_free(party_config *c) {
    json_decref(c->root);
    free(c->file);
    free(c->dir);
    *c = (party_config){0};
}

uint32_t config_workers(const party_config *c) {
    return c->replicas * c->stages * c->tensor_ranks;
}

uint32_t config_local_workers(const party_config *c) {
    return c->all_workers ? config_workers(c) : 1;
}

bool config_path(const party_config *c, const char *path, char out[PARTY_PATH_BYTES]) {
    const int n = *path == '/' || strcmp(c->dir, ".") == 0
                      ? snprintf(out, PARTY_PATH_BYTES, "%s", path)
                      : snprintf(out, PARTY_PATH_BYTES, "%s%s", c->dir, path);
    return n >= 0 && (size_t)n < PARTY_PATH_BYTES;
}

bool config_own_place(const party_config *c, uint32_t rank, char dir[PARTY_PATH_BYTES]) {
    const uint32_t stages = c->stages, ranks = c->tensor_ranks;
    const size_t n = strlen(dir);
    return snprintf(dir + n, PARTY_PATH_BYTES - n, "/r%u-s%u-t%u", rank / ranks / stages,
                    rank / ranks % stages, rank % ranks) < (int)(PARTY_PATH_BYTES - n);
}

bool config_datagram(const party_config *c) {
    return strncmp(c->address[0], "udp:", 4) == 0;
}

/* A path in the file's directory, with the rank for '%'. */
static bool unix_address(const party_config *c, const char *path, uint32_t rank,
                         char out[UVCC_NET_ADDRESS_BYTES]) {
    char full[PARTY_PATH_BYTES];
    const char *percent = strchr(path, '%');
    if (!config_path(c, path, full))
        return false;
    percent = percent != NULL ? full + strlen(full) - strlen(percent) : NULL;
    const int n = percent == NULL ? snprintf(out, UVCC_NET_ADDRESS_BYTES, "unix:%s", full)
                                  : snprintf(out, UVCC_NET_ADDRESS_BYTES, "unix:%.*s%u%s",
                                             (int)(percent - full), full, rank, percent + 1);
    return n >= 0 && (size_t)n < UVCC_NET_ADDRESS_BYTES;
}

/* "tcp:[::1]" has colons and no port. */
static bool has_port(const char *host) {
    const char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
    return colon != NULL && (bracket == NULL || colon > bracket);
}

/* A host without a port gets this one, '%' in a path the rank. */
static bool full_address(const party_config *c, const char *address, uint32_t port, uint32_t rank,
                         char out[UVCC_NET_ADDRESS_BYTES]) {
    if (strncmp(address, "unix:", 5) == 0)
        return unix_address(c, address + 5, rank, out);
    const int n = has_port(address + 4)
                      ? snprintf(out, UVCC_NET_ADDRESS_BYTES, "%s", address)
                      : snprintf(out, UVCC_NET_ADDRESS_BYTES, "%s:%u", address, port);
    return n >= 0 && (size_t)n < UVCC_NET_ADDRESS_BYTES;
}

bool config_address(const party_config *c, uint32_t party, uint32_t rank,
                    char out[UVCC_NET_ADDRESS_BYTES]) {
    return full_address(c, c->address[party], c->base_port + rank, rank, out);
}

bool config_place(const party_config *c, const char *address, uint32_t port,
                  char out[UVCC_NET_ADDRESS_BYTES]) {
    return full_address(c, address, port, 0, out);
}

bool config_listen(const party_config *c, uint32_t rank, char out[UVCC_NET_ADDRESS_BYTES]) {
    return full_address(c, c->listen != NULL ? c->listen : c->address[c->party],
                        c->base_port + rank, rank, out);
}
