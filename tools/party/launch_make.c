/* SPDX-License-Identifier: Apache-2.0 */
/* launch_make.c - what three parties need before they can start, made in one place: for trying, as
 * the keys of all three are in one hand. A machine of each party has its own directory only. */
#define _XOPEN_SOURCE 700 /* realpath() */

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uvcc/store.h>

#include "../files.h"
#include "../flags_json.h"
#include "../report.h"
#include "launch.h"

enum { PORT_TRIES = 200, WORKERS_MAX = 64 };

/* ---- the file ---- */

/* A member of the file for all three, or a list of one for each; NULL: none. */
static const json_t *part_of(const json_t *root, const char *name, unsigned p) {
    const json_t *v = json_object_get(root, name);
    v = json_is_array(v) ? json_array_get(v, p) : v;
    return json_is_null(v) ? NULL : v;
}

static int check_file(const json_t *root, const char *file) {
    static const char *const known[] = {"job", "data", "output", "all", NULL};
    const char *name;
    json_t *v;
    if (!json_is_object(json_object_get(root, "job")))
        return report_error(EXIT_BAD_INPUT,
                            "%s: job is missing; give {\"job\": {...}, \"data\": [{...}, {...}, "
                            "null]}, as docs/operations.md shows",
                            file);
    json_object_foreach((json_t *)(uintptr_t)root, name, v) {
        size_t i = 0;
        while (known[i] != NULL && strcmp(known[i], name) != 0)
            i++;
        if (known[i] == NULL)
            return report_error(EXIT_BAD_INPUT,
                                "%s: %.40s: there is no such member here; it has job, data, "
                                "output, all (members for the files of all three parties)",
                                file, name);
        if (i != 0 && !json_is_object(v) && !(json_is_array(v) && json_array_size(v) == 3))
            return report_error(EXIT_BAD_INPUT,
                                "%s: %s: give an object for all parties, or a list of three", file,
                                name);
    }
    return EXIT_DONE;
}

static uint32_t workers_of(const json_t *job) {
    static const char *const names[] = {"replicas", "stages", "tensor_ranks"};
    uint64_t n = 1;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const json_int_t v = json_integer_value(json_object_get(job, names[i]));
        n *= v > 0 && v <= WORKERS_MAX ? (uint64_t)v : 1;
    }
    return n <= WORKERS_MAX ? (uint32_t)n : 0;
}

/* Texts that name a file which is there, seen from the launch file, name it from anywhere. */
static json_t *resolved(const json_t *data, const char *dir) {
    json_t *out = json_deep_copy(data), *v;
    const char *name;
    char path[LAUNCH_PATH_BYTES], full[PATH_MAX];
    json_object_foreach(out, name, v) {
        const char *text = json_string_value(v);
        if (text == NULL || *text == '/' ||
            snprintf(path, sizeof path, "%s/%s", dir, text) >= (int)sizeof path ||
            access(path, F_OK) != 0 || realpath(path, full) == NULL)
            continue;
        (void)json_string_set(v, full);
    }
    return out;
}

/* ---- addresses ---- */

static bool is_free(unsigned party, uint32_t port) {
    const int one = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK + party);
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    const bool free_now = bind(fd, (const struct sockaddr *)&at, sizeof at) == 0;
    (void)close(fd);
    return free_now;
}

/* The first of `count` ports that are free at the three addresses; 0: none was found. */
static uint32_t find_ports(uint32_t count) {
    for (unsigned i = 0; i < PORT_TRIES; i++) {
        const uint32_t base = 20000 + randombytes_uniform(40000 - count);
        uint32_t n = 0;
        while (n < UVCC_PARTIES * count && is_free(n % UVCC_PARTIES, base + n / UVCC_PARTIES))
            n++;
        if (n == UVCC_PARTIES * count)
            return base;
    }
    return 0;
}

/* ---- directories ---- */

static int join(char out[LAUNCH_PATH_BYTES], const char *dir, const char *name) {
    if (snprintf(out, LAUNCH_PATH_BYTES, "%s/%s", dir, name) < (int)LAUNCH_PATH_BYTES)
        return EXIT_DONE;
    return report_error(EXIT_BAD_INPUT, "%s: the path is too long", dir);
}

static int make_dir(const char *path) {
    const int why = dir_make(path);
    return why == 0 ? EXIT_DONE
                    : report_error(EXIT_BAD_INPUT, "%s cannot be made: %s", path, strerror(why));
}

/* Where a party's files are. */
static int name_party(const char *dir, unsigned p, launch_party *out) {
    char name[16];
    (void)snprintf(name, sizeof name, "party%u", p);
    memset(out, 0, sizeof *out);
    const int status = join(out->dir, dir, name);
    return status == EXIT_DONE ? join(out->config, out->dir, "config.json") : status;
}

/* An identity that is there stays. */
static int make_key(const launch_party *at, char hex[65]) {
    char path[LAUNCH_PATH_BYTES], why[UVCC_STORE_TEXT_BYTES];
    uint8_t seed[32], pk[crypto_sign_PUBLICKEYBYTES], sk[crypto_sign_SECRETKEYBYTES];
    int status = join(path, at->dir, "identity.key");
    if (status != EXIT_DONE)
        return status;
    int rc;
    if (access(path, F_OK) == 0) {
        rc = uvcc_key_read(path, UVCC_KEY_IDENTITY, seed, why, sizeof why);
    } else {
        randombytes_buf(seed, sizeof seed);
        rc = uvcc_key_write(path, UVCC_KEY_IDENTITY, seed, why, sizeof why);
    }
    if (rc != 0)
        return report_error(EXIT_BAD_INPUT, "%s", why);
    (void)crypto_sign_seed_keypair(pk, sk, seed);
    (void)sodium_bin2hex(hex, 65, pk, sizeof pk);
    sodium_memzero(sk, sizeof sk);
    sodium_memzero(seed, sizeof seed);
    return EXIT_DONE;
}

/* ---- configurations ---- */

typedef struct made {
    const json_t *root;
    char from[LAUNCH_PATH_BYTES]; /* directory of the launch file */
    char key[UVCC_PARTIES][65];
    uint32_t base, workers;
} made;

static json_t *parties_of(const made *m) {
    json_t *list = json_array();
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        char address[32];
        (void)snprintf(address, sizeof address, "tcp:127.0.0.%u", p + 1);
        (void)json_array_append_new(list,
                                    json_pack("{s:s, s:s}", "address", address, "key", m->key[p]));
    }
    return list;
}

static json_t *config_of(const made *m, unsigned p) {
    static const char *const own[] = {"data", "output"};
    char status[64];
    (void)snprintf(status, sizeof status, "127.0.0.%u:%u", p + 1, m->base + m->workers);
    json_t *o =
        json_pack("{s:O, s:i, s:o, s:i, s:s, s:s, s:s, s:{s:s, s:s}}", "job",
                  json_object_get(m->root, "job"), "party", (int)p, "parties", parties_of(m),
                  "base_port", (int)m->base, "identity", "identity.key", "store", "store", "status",
                  status, "log", "file", "log.jsonl", "format", "json");
    for (size_t i = 0; i < 2 && o != NULL; i++)
        if (part_of(m->root, own[i], p) != NULL)
            (void)json_object_set_new(o, own[i], resolved(part_of(m->root, own[i], p), m->from));
    const json_t *all = part_of(m->root, "all", p);
    if (o != NULL && all != NULL)
        (void)json_object_update(o, (json_t *)(uintptr_t)all);
    return o;
}

static int write_config(const made *m, unsigned p, const launch_party *at) {
    json_t *o = config_of(m, p);
    char *text = o != NULL ? json_dumps(o, JSON_INDENT(1)) : NULL;
    json_decref(o);
    const int why = text != NULL ? file_write(at->config, text, strlen(text)) : ENOMEM;
    free(text);
    return why == 0
               ? EXIT_DONE
               : report_error(EXIT_FAILED, "%s cannot be written: %s", at->config, strerror(why));
}

/* ---- what is there ---- */

static json_t *load(const char *file) {
    char message[512] = "";
    json_t *o = flags_json_load(file, &(flag_message){message, sizeof message});
    if (o == NULL)
        (void)report_error(EXIT_BAD_INPUT, "%s", message);
    else if (!json_is_object(o)) {
        (void)report_error(EXIT_BAD_INPUT, "%s: give an object, {...}", file);
        json_decref(o);
        o = NULL;
    }
    return o;
}

static void read_page(const json_t *o, launch_party *out) {
    const char *status = json_string_value(json_object_get(o, "status"));
    (void)snprintf(out->status, sizeof out->status, "%s", status != NULL ? status : "");
    out->workers = workers_of(json_object_get(o, "job"));
}

/* 1: there is one, of this job; 0: none; negative: an exit status after reporting. */
static int read_there(launch_party *at, const json_t *job, const char *file) {
    if (access(at->config, F_OK) != 0)
        return 0;
    json_t *o = load(at->config);
    if (o == NULL)
        return -EXIT_BAD_INPUT;
    const bool same = json_equal(json_object_get(o, "job"), job);
    read_page(o, at);
    json_decref(o);
    return same ? 1
                : -report_error(EXIT_BAD_INPUT,
                                "%s is of another job than %s says; give another directory",
                                at->config, file);
}

static void directory_of(const char *file, char out[LAUNCH_PATH_BYTES]) {
    const char *slash = strrchr(file, '/');
    (void)snprintf(out, LAUNCH_PATH_BYTES, "%.*s", slash != NULL ? (int)(slash - file + 1) : 1,
                   slash != NULL ? file : ".");
}

static int make_all(made *m, launch_party out[UVCC_PARTIES]) {
    int status = EXIT_DONE;
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        status = make_dir(out[p].dir);
        if (status == EXIT_DONE)
            status = make_key(&out[p], m->key[p]);
    }
    m->workers = workers_of(json_object_get(m->root, "job"));
    if (status == EXIT_DONE && m->workers == 0)
        status = report_error(EXIT_BAD_INPUT, "the job has more than %d workers for each party",
                              WORKERS_MAX);
    m->base = status == EXIT_DONE ? find_ports(2 * m->workers) : 0;
    if (status == EXIT_DONE && m->base == 0)
        status = report_error(EXIT_FAILED, "no free ports were found on this machine");
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        json_t *o;
        status = write_config(m, p, &out[p]);
        if (status == EXIT_DONE && (o = load(out[p].config)) != NULL) {
            read_page(o, &out[p]);
            json_decref(o);
        }
    }
    return status;
}

int launch_make(const char *dir, const char *file, launch_party out[UVCC_PARTIES]) {
    made m = {.root = load(file)};
    if (m.root == NULL)
        return EXIT_BAD_INPUT;
    directory_of(file, m.from);
    int status = check_file(m.root, file), there = 0;
    if (status == EXIT_DONE)
        status = make_dir(dir);
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        status = name_party(dir, p, &out[p]);
        const int one =
            status == EXIT_DONE ? read_there(&out[p], json_object_get(m.root, "job"), file) : 0;
        if (one < 0)
            status = -one;
        there += one > 0;
    }
    if (status == EXIT_DONE && there != UVCC_PARTIES)
        status = make_all(&m, out);
    json_decref((json_t *)(uintptr_t)m.root);
    return status;
}

int launch_take(const char *const file[UVCC_PARTIES], const char *dir,
                launch_party out[UVCC_PARTIES]) {
    bool there[UVCC_PARTIES] = {false};
    json_t *job = NULL;
    int status = EXIT_DONE;
    for (unsigned i = 0; i < UVCC_PARTIES && status == EXIT_DONE; i++) {
        json_t *o = load(file[i]);
        const json_t *party = o != NULL ? json_object_get(o, "party") : NULL;
        const json_int_t p = json_is_integer(party) ? json_integer_value(party) : -1;
        if (o == NULL) {
            status = EXIT_BAD_INPUT;
        } else if (p < 0 || p >= UVCC_PARTIES || there[p]) {
            status = report_error(EXIT_BAD_INPUT,
                                  "%s: party: give the files of parties 0, 1 and 2, one of each",
                                  file[i]);
        } else {
            there[p] = true;
            status = name_party(dir, (unsigned)p, &out[p]);
            (void)snprintf(out[p].config, sizeof out[p].config, "%s", file[i]);
            read_page(o, &out[p]);
            if (status == EXIT_DONE)
                status = make_dir(out[p].dir);
        }
        if (job != NULL && o != NULL && status == EXIT_DONE &&
            !json_equal(job, json_object_get(o, "job")))
            status = report_error(EXIT_BAD_INPUT,
                                  "%s: job: is another one than in %s; it is the same at all three",
                                  file[i], file[0]);
        if (i == 0 && o != NULL)
            job = json_incref(json_object_get(o, "job"));
        json_decref(o);
    }
    json_decref(job);
    return status;
}
