/* SPDX-License-Identifier: Apache-2.0 */
/* clients.c - see clients.h. */
#include "clients.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/dialog.h>
#include <uvcc/request.h>

#include "../flags_json.h"
#include "../serving.h"
#include "figures.h"
#include "keys.h"
#include "serve_queue.h"

#define MESSAGE_BYTES 512u
#define CLIENTS_MAX   4096u
#define NS_PER_S      UINT64_C(1000000000)
#define MIB           UINT64_C(1048576)
#define DIALOG_MIB    32u /* of a dialog, each way: messages being sent, and not yet taken */

typedef struct client {
    struct clients *all;
    const char *name;
    uvcc_dialog *dialog;
    uint32_t number;   /* in the service: its index here */
    bool in_net, told; /* told: of what it sends, since its dialog opened */
} client;

struct clients {
    party *p;
    const char *listen;
    uint32_t waiting, kept, wait_s, mib;
    uint32_t count;
    client *client;
    uint8_t (*key)[32];
    uvcc_service *service;
    serve_queue *queue;   /* the work's */
    uvcc_service_job job; /* that the queue had no memory for; `held` */
    bool held;
    client *turn; /* whose messages the service takes now */
};

#define AT(member) offsetof(clients, member)
static const flag members[] = {
    {"listen", "an address", FLAG_TEXT, AT(listen), 0, 0, NULL, NULL},
    {"waiting", NULL, FLAG_COUNT, AT(waiting), 1, 1024, NULL, NULL},
    {"kept", NULL, FLAG_COUNT, AT(kept), 1, 1024, NULL, NULL},
    {"mib", NULL, FLAG_COUNT, AT(mib), 1, 1u << 20, NULL, NULL},
    {"wait-s", NULL, FLAG_COUNT, AT(wait_s), 1, 86400, NULL, NULL},
};
#undef AT
static const char *const other_members[] = {"list", NULL};
static const flag_set set = {.flags = members, .count = sizeof members / sizeof members[0]};

/* ---- who they are ---- */

static int bad(const clients *c, const char *place, const char *why) {
    return report_error(EXIT_BAD_INPUT, "%s: %s: %s", c->p->c.file, place, why);
}

static int read_client(clients *c, const json_t *list, uint32_t i) {
    struct {
        const char *name, *key;
    } got = {0};
    const flag table[] = {{"name", "a name", FLAG_TEXT, 0, 0, 0, NULL, NULL},
                          {"key", "a key", FLAG_TEXT, sizeof got.name, 0, 0, NULL, NULL}};
    char place[48], text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    (void)snprintf(place, sizeof place, "clients.list[%u]", i);
    if (flags_take_json(&(const flag_set){.flags = table, .count = 2}, NULL, NULL, &got,
                        json_array_get(list, i), place, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: %s", c->p->c.file, text);
    if (got.name == NULL || got.key == NULL)
        return bad(c, place,
                   "give {\"name\": ..., \"key\": ...}; the key is what uvcc keygen "
                   "--public prints at the client");
    c->client[i] = (client){.all = c, .name = got.name};
    (void)snprintf(place, sizeof place, "clients.list[%u].key", i);
    const int status = keys_public(&c->p->c, place, got.key, c->key[i]);
    for (uint32_t k = 0; k < i && status == EXIT_DONE; k++)
        if (memcmp(c->key[k], c->key[i], 32) == 0)
            return bad(c, place, "is another client's too; each client has its own identity");
    for (unsigned q = 0; q < UVCC_PARTIES && status == EXIT_DONE; q++)
        if (memcmp(c->p->public_key[q], c->key[i], 32) == 0)
            return bad(c, place, "is the key of a party; a client has an identity of its own");
    return status;
}

static int read_list(clients *c, const json_t *list) {
    if (!json_is_array(list) || json_array_size(list) == 0 || json_array_size(list) > CLIENTS_MAX)
        return bad(c, "clients.list",
                   "give a list of 1 to 4096 clients, {\"name\": ..., "
                   "\"key\": ...}");
    c->count = (uint32_t)json_array_size(list);
    c->client = calloc(c->count, sizeof *c->client);
    c->key = calloc(c->count, sizeof *c->key);
    int status = c->client != NULL && c->key != NULL ? EXIT_DONE
                                                     : report_error(EXIT_FAILED, "out of memory");
    for (uint32_t i = 0; i < c->count && status == EXIT_DONE; i++)
        status = read_client(c, list, i);
    return status;
}

static int check_listen(clients *c) {
    if (c->listen == NULL)
        return bad(c, "clients.listen",
                   "is missing; give the address where clients call, such as tcp:*:7200");
    if (strncmp(c->listen, "tcp:", 4) != 0 && strncmp(c->listen, "unix:", 5) != 0)
        return bad(c, "clients.listen", "give tcp:HOST:PORT or unix:PATH");
    return EXIT_DONE;
}

/* One for which there is never room would be BUSY for ever. */
static int check_room(const clients *c) {
    const uint64_t bytes = c->p->kind->request_bytes(c->p->work);
    if (bytes <= c->mib * MIB)
        return EXIT_DONE;
    return report_error(EXIT_BAD_INPUT,
                        "%s: clients.mib: %u MiB do not hold a request and its answer, which "
                        "take up to %llu; give more",
                        c->p->c.file, c->mib, (unsigned long long)((bytes + MIB - 1) / MIB));
}

int clients_read(party *p, clients **out) {
    char text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    *out = NULL;
    if (p->kind->queue == NULL)
        return p->c.clients == NULL
                   ? EXIT_DONE
                   : report_error(EXIT_BAD_INPUT,
                                  "%s: clients: a job of kind %s serves none; take it away",
                                  p->c.file, p->kind->name);
    if (p->c.clients == NULL)
        return report_error(EXIT_BAD_INPUT,
                            "%s: clients is missing; give {\"listen\": ..., \"list\": [...]}, who "
                            "is served and where they call",
                            p->c.file);
    clients *c = calloc(1, sizeof *c);
    if (c == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    *c = (clients){.p = p, .waiting = 4, .kept = 8, .wait_s = 30, .mib = 64};
    *out = c;
    if (flags_take_json(&set, NULL, other_members, c, p->c.clients, "clients", &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: %s", p->c.file, text);
    int status = check_listen(c);
    if (status == EXIT_DONE)
        status = check_room(c);
    return status == EXIT_DONE ? read_list(c, json_object_get(p->c.clients, "list")) : status;
}

void clients_describe(const clients *c) {
    if (c != NULL)
        (void)printf("clients          %u, they call at %s; %.15g MiB at most for all of them\n",
                     c->count, c->listen, (double)c->count * (c->mib + 2 * DIALOG_MIB));
}

/* ---- dialogs ---- */

static void write_log(void *user, uvcc_log_level level, const char *line) {
    const client *of = user;
    char text[256];
    (void)snprintf(text, sizeof text, "client %s: %s", of->name, line);
    if (level <= UVCC_LOG_WARN)
        figures_say(of->all->p, level, "client", text);
}

static int add_link(client *of) {
    const uvcc_net_link how = {.size = sizeof how,
                               .me = UVCC_DIALOG_ME(false),
                               .peer = UVCC_DIALOG_PEER(false),
                               .sid_tag = uvcc_dialog_sid_tag(of->dialog)};
    const int rc = uvcc_net_add_link(of->all->p->net, uvcc_dialog_link(of->dialog), &how);
    of->in_net = rc == 0;
    return rc;
}

static int open_dialog(client *of, uint32_t i) {
    clients *c = of->all;
    uvcc_dialog_config d;
    uvcc_dialog_config_default(&d);
    d.alloc = uvcc_host_allocator();
    d.random = uvcc_host_random();
    d.log = (uvcc_logger){write_log, of};
    d.party = (uint8_t)c->p->c.party;
    d.tx_bytes = d.rx_bytes = DIALOG_MIB * MIB;
    memcpy(d.sid_job, c->p->c.sid_job, sizeof d.sid_job);
    memcpy(d.sign_seed, c->p->sign_seed, sizeof d.sign_seed);
    memcpy(d.peer_key, c->key[i], sizeof d.peer_key);
    int rc = uvcc_service_add(c->service, c->key[i], &of->number);
    if (rc == 0)
        rc = uvcc_dialog_new(&of->dialog, &d, uvcc_host_now_ns());
    sodium_memzero(d.sign_seed, sizeof d.sign_seed);
    return rc == 0 ? add_link(of) : rc;
}

/* A line for each dialog: a client does not fill this party's log. */
static void tell_of(void *user, uvcc_log_level level, const char *line) {
    clients *c = user;
    if (level > UVCC_LOG_WARN || c->turn == NULL || c->turn->told)
        return;
    c->turn->told = true;
    party_trouble(c->p, "client %s: %s", c->turn->name, line);
}

static int open_service(clients *c) {
    uvcc_service_config s;
    uvcc_service_config_default(&s);
    s.alloc = uvcc_host_allocator();
    s.log = (uvcc_logger){tell_of, c};
    s.party = (uint8_t)c->p->c.party;
    s.clients_max = c->count;
    s.waiting_max = c->waiting;
    s.kept_max = c->kept;
    s.client_bytes = c->mib * MIB;
    return uvcc_service_new(&c->service, &s);
}

static int answer(void *user, uint64_t token, uvcc_request_status status, const uint64_t *lo,
                  const uint64_t *hi, size_t n) {
    const clients *c = user;
    return uvcc_service_answer(c->service, token, status, lo, hi, n);
}

/* The job that is being put into the queue. */
static int refuse(void *user, uint64_t token, uint32_t why) {
    const clients *c = user;
    char names[SERVING_NAMES_BYTES];
    const int rc = uvcc_service_refuse(c->service, token, why);
    serving_names(why, "", names);
    if (rc == 0)
        party_trouble(c->p, "client %s: refused, its run is another one than job.run: %s",
                      c->client[c->job.client].name, names);
    return rc;
}

int clients_listen(clients *c) {
    char address[UVCC_NET_ADDRESS_BYTES];
    if (c == NULL)
        return EXIT_DONE;
    party *p = c->p;
    int rc = open_service(c);
    for (uint32_t i = 0; i < c->count && rc == 0; i++)
        rc = open_dialog(&c->client[i], i);
    if (rc != 0)
        return report_error(EXIT_FAILED, "the clients: %s", uvcc_error_text(rc));
    c->queue = p->kind->queue(p->work);
    serve_queue_attach(c->queue, &(serve_replies){answer, refuse, c}, c->wait_s * NS_PER_S);
    if (!config_place(&p->c, c->listen, CONFIG_CLIENTS_PORT, address))
        return bad(c, "clients.listen", "the address is too long");
    p->log_line[0] = '\0';
    rc = uvcc_net_listen(p->net, address, NULL, NULL);
    return rc == 0
               ? EXIT_DONE
               : report_error(rc == UVCC_ERR_CONFIG ? EXIT_BAD_INPUT : EXIT_FAILED,
                              "%s: clients.listen: %s cannot be listened at: %s", p->c.file,
                              address, *p->log_line != '\0' ? p->log_line : uvcc_error_text(rc));
}

void clients_free(clients *c) {
    if (c == NULL)
        return;
    for (uint32_t i = 0; i < c->count && c->client != NULL; i++) {
        client *of = &c->client[i];
        if (of->in_net)
            (void)uvcc_net_remove_link(c->p->net, uvcc_dialog_link(of->dialog));
        uvcc_dialog_free(of->dialog);
    }
    uvcc_service_free(c->service);
    free(c->client);
    free(c->key);
    free(c);
}

/* ---- a turn ---- */

/* The client began anew: another link takes the old one's place. */
static int change_link(client *of, uvcc_link *old) {
    if (of->in_net)
        (void)uvcc_net_remove_link(of->all->p->net, old);
    uvcc_link_free(old);
    return add_link(of);
}

static void take_events(client *of) {
    uvcc_dialog_event e;
    int rc = 0;
    while (uvcc_dialog_poll_event(of->dialog, &e) == 1)
        if (e.kind == UVCC_DIALOG_LINK)
            rc = change_link(of, e.old_link);
        else if ((rc = uvcc_service_opened(of->all->service, of->number)) == 0) {
            of->told = false;
            figures_say(of->all->p, UVCC_LOG_INFO, "client", of->name);
        }
    if (rc != 0)
        party_trouble(of->all->p, "client %s: %s", of->name, uvcc_error_text(rc));
}

static void pass_on(clients *c) {
    while (c->held || uvcc_service_next(c->service, &c->job) == 1) {
        c->held = !serve_queue_put(c->queue, &c->job, c->key[c->job.client]);
        if (c->held)
            return;
    }
}

/* Errors are of memory, and the client asks again what is lost by them. */
void clients_turn(clients *c, uint64_t now) {
    int rc = 0;
    for (uint32_t i = 0; c != NULL && i < c->count; i++) {
        client *of = &c->client[i];
        rc = uvcc_dialog_turn(of->dialog, now);
        take_events(of);
        c->turn = of;
        if (rc == 0)
            rc = uvcc_service_turn(c->service, of->number, of->dialog, now);
        if (rc != 0)
            party_trouble(c->p, "client %s: %s", of->name, uvcc_error_text(rc));
    }
    if (c != NULL)
        pass_on(c);
}

uint64_t clients_deadline(const clients *c) {
    uint64_t at = UVCC_NEVER;
    for (uint32_t i = 0; c != NULL && i < c->count; i++) {
        const uint64_t of = uvcc_dialog_deadline(c->client[i].dialog);
        at = of < at ? of : at;
    }
    return at;
}
