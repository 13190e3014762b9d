/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - the loop of a client: sockets, a dialog with each party, one request at a time. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <uvcc/dialog.h>
#include <uvcc/host.h>

#include "../interrupt.h"
#include "../report.h"
#include "../serving.h"
#include "client.h"

#define NS_PER_S UINT64_C(1000000000)
#define SAY_NS   (5 * NS_PER_S) /* between lines that say who is waited for */
#define BUSY_NS  NS_PER_S       /* before a party that is busy is asked again */
#define NAME_NS  NS_PER_S       /* before a name that nobody knows is looked up again */
enum { WHY_BYTES = 640, TEXT_BYTES = 3 * WHY_BYTES + 8 };
/* Start it again later: no party said that the request is wrong. */
enum { EXIT_LATER = 75 };

typedef struct party_end {
    struct client *of;
    uvcc_dialog *dialog;
    bool in_net, open;
    uint64_t name_at; /* its name is looked up again; UVCC_NEVER: it need not be */
    char name_line[UVCC_NET_ADDRESS_BYTES + 160]; /* the address, and why it is none now */
    char line[160];                               /* what the dialog refused last */
} party_end;

struct client {
    const client_config *c;
    uint64_t patience_ns;
    int lock; /* the identity's file; negative: none */
    uvcc_net *net;
    party_end party[UVCC_PARTIES];
    uvcc_request *request;
    char net_line[UVCC_NET_ADDRESS_BYTES + 160]; /* what the net refused last */
};

/* ---- its life ---- */

static void keep_line(void *user, uvcc_log_level level, const char *line) {
    party_end *e = user;
    if (level <= UVCC_LOG_WARN)
        (void)snprintf(e->line, sizeof e->line, "%s", line);
}

static void keep_net_line(void *user, uvcc_log_level level, const char *line) {
    client *c = user;
    if (level <= UVCC_LOG_ERROR)
        (void)snprintf(c->net_line, sizeof c->net_line, "%s", line);
}

/* The net's line ends with the address and what is wrong with it. A name that is not known is as a
 * party that is away: it may be known soon. */
static int bad_address(client *c, unsigned p, const char *address, int rc) {
    party_end *e = &c->party[p];
    const char *at = strstr(c->net_line, address);
    if (at != NULL)
        (void)snprintf(e->name_line, sizeof e->name_line, "%s", at);
    else
        (void)snprintf(e->name_line, sizeof e->name_line, "%s: %s", address, uvcc_error_text(rc));
    if (rc == UVCC_ERR_IO) {
        e->name_at = uvcc_host_now_ns() + NAME_NS;
        return EXIT_DONE;
    }
    return report_error(rc == UVCC_ERR_CONFIG ? EXIT_BAD_INPUT : EXIT_FAILED,
                        "%s: parties[%u].address: %s", c->c->parties.file, p, e->name_line);
}

static int add_link(client *c, unsigned p) {
    char address[UVCC_NET_ADDRESS_BYTES];
    party_end *e = &c->party[p];
    if (!config_place(&c->c->parties, c->c->parties.address[p], CONFIG_CLIENTS_PORT, address))
        return report_error(EXIT_BAD_INPUT, "%s: parties[%u].address: is too long",
                            c->c->parties.file, p);
    const uvcc_net_link how = {.size = sizeof how,
                               .me = UVCC_DIALOG_ME(true),
                               .peer = UVCC_DIALOG_PEER(true),
                               .sid_tag = uvcc_dialog_sid_tag(e->dialog),
                               .address = address};
    e->name_at = UVCC_NEVER;
    const int rc = uvcc_net_add_link(c->net, uvcc_dialog_link(e->dialog), &how);
    e->in_net = rc == 0;
    return rc == 0 ? EXIT_DONE : bad_address(c, p, address, rc);
}

static int open_dialog(client *c, unsigned p) {
    party_end *e = &c->party[p];
    uvcc_dialog_config d;
    uvcc_dialog_config_default(&d);
    d.alloc = uvcc_host_allocator();
    d.random = uvcc_host_random();
    d.log = (uvcc_logger){keep_line, e};
    d.client = true;
    d.party = (uint8_t)p;
    d.suite = (uint8_t)(c->c->suite + 1);
    memcpy(d.sid_job, c->c->sid_job, sizeof d.sid_job);
    memcpy(d.sign_seed, c->c->seed, sizeof d.sign_seed);
    memcpy(d.peer_key, c->c->party_key[p], sizeof d.peer_key);
    const int rc = uvcc_dialog_new(&e->dialog, &d, uvcc_host_now_ns());
    sodium_memzero(d.sign_seed, sizeof d.sign_seed);
    return rc == 0 ? add_link(c, p)
                   : report_error(EXIT_FAILED, "party %u: %s", p, uvcc_error_text(rc));
}

/* The lock of the identity's file, which ends with this process, however it ends. A party talks
 * with one process of an identity at a time, so two would take its dialogs from each other. Where
 * files cannot be locked the parties tell of it: why_not(). */
static int take_identity(client *c) {
    const party_config *p = &c->c->parties;
    char path[PARTY_PATH_BYTES];
    if (!config_path(p, p->identity, path))
        return report_error(EXIT_BAD_INPUT, "%s: identity: the path is too long", p->file);
    c->lock = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (c->lock < 0 || flock(c->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return EXIT_DONE;
    return report_error(EXIT_LATER,
                        "%s: identity: another uvcc client asks with %s now, and a party talks "
                        "with one at a time: wait for its end, or give this one an identity of its "
                        "own (uvcc keygen), which the parties list too",
                        p->file, path);
}

int client_open(client **out, const client_config *config, uint32_t patience_s) {
    uvcc_net_config n;
    client *c = calloc(1, sizeof *c);
    *out = c;
    if (c == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    c->c = config;
    c->lock = -1;
    c->patience_ns = patience_s * NS_PER_S;
    int status = take_identity(c);
    if (status != EXIT_DONE)
        return status;
    uvcc_net_config_default(&n);
    n.alloc = uvcc_host_allocator();
    n.random = uvcc_host_random();
    n.log = (uvcc_logger){keep_net_line, c};
    n.retry_max_ns = NS_PER_S; /* somebody waits */
    const int rc = uvcc_net_new(&c->net, &n);
    if (rc != 0)
        status = report_error(EXIT_FAILED, "the net: %s", uvcc_error_text(rc));
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
        status = open_dialog(c, p);
    return status;
}

void client_close(client *c) {
    if (c == NULL)
        return;
    uvcc_request_free(c->request);
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        if (c->party[p].in_net)
            (void)uvcc_net_remove_link(c->net, uvcc_dialog_link(c->party[p].dialog));
        uvcc_dialog_free(c->party[p].dialog);
    }
    uvcc_net_free(c->net);
    if (c->lock >= 0)
        (void)close(c->lock);
    free(c);
}

/* ---- a turn ---- */

static int take_events(client *c, unsigned p) {
    party_end *e = &c->party[p];
    uvcc_dialog_event v;
    int status = EXIT_DONE;
    while (status == EXIT_DONE && uvcc_dialog_poll_event(e->dialog, &v) == 1) {
        e->open = v.kind == UVCC_DIALOG_OPEN;
        if (e->open) {
            e->line[0] = '\0';
            (void)uvcc_request_opened(c->request, (uint8_t)p);
            continue;
        }
        (void)uvcc_net_remove_link(c->net, v.old_link);
        uvcc_link_free(v.old_link);
        e->in_net = false;
        status = add_link(c, p);
    }
    return status;
}

static int turn(client *c) {
    int rc = uvcc_net_turn(c->net);
    const uint64_t now = uvcc_host_now_ns();
    for (unsigned p = 0; p < UVCC_PARTIES && rc >= 0; p++) {
        rc = uvcc_dialog_turn(c->party[p].dialog, now);
        int status = take_events(c, p);
        if (status == EXIT_DONE && now >= c->party[p].name_at)
            status = add_link(c, p);
        if (status != EXIT_DONE)
            return status;
        if (rc == 0)
            rc = uvcc_request_turn(c->request, (uint8_t)p, c->party[p].dialog, now);
        if (rc == UVCC_ERR_NOMEM) /* its answer is lost, and comes once more */
            rc = uvcc_request_opened(c->request, (uint8_t)p);
    }
    if (rc >= 0)
        rc = uvcc_net_turn(c->net); /* what these made goes out */
    return rc >= 0 ? EXIT_DONE : report_error(EXIT_FAILED, "%s", uvcc_error_text(rc));
}

static void wait_for_work(const client *c, uint64_t until) {
    uint64_t at = uvcc_net_deadline(c->net);
    at = until < at ? until : at;
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        const uint64_t of = uvcc_dialog_deadline(c->party[p].dialog);
        at = of < at ? of : at;
        at = c->party[p].name_at < at ? c->party[p].name_at : at;
    }
    struct pollfd fd = {.fd = uvcc_net_fd(c->net), .events = POLLIN};
    (void)poll(&fd, 1, uvcc_host_timeout_ms(at, uvcc_host_now_ns()));
}

/* ---- what is said ---- */

/* A connection came about, and the other end made an end of it. */
static bool hung_up(const char *why) {
    static const char *const known[] = {"the peer closed it", "Connection reset by peer",
                                        "Broken pipe"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strstr(why, known[i]) != NULL)
            return true;
    return false;
}

/* Why a party has not answered, as far as anybody here knows. */
static void why_not(const client *c, unsigned p, char out[WHY_BYTES]) {
    const party_end *e = &c->party[p];
    uvcc_net_peer net = {.size = sizeof net};
    const bool known = uvcc_net_link_info(c->net, uvcc_dialog_link(e->dialog), &net) == 0;
    if (!e->in_net)
        (void)snprintf(out, WHY_BYTES, "party %u is not connected (%s)", p, e->name_line);
    else if (*e->line != '\0')
        (void)snprintf(out, WHY_BYTES, "party %u proves another key than parties[%u].key (%s)", p,
                       p, e->line);
    else if (!e->open && known && hung_up(net.why))
        (void)snprintf(out, WHY_BYTES,
                       "party %u (%s) takes no calls of this client: is its public key in "
                       "clients.list there, is \"job\" that job's name, and does no other uvcc "
                       "client ask with this identity now?",
                       p, net.address);
    else if (known && !net.connected)
        (void)snprintf(out, WHY_BYTES, "party %u is not connected (%s%s%s)", p, net.address,
                       *net.why != '\0' ? ": " : "", net.why);
    else if (!e->open)
        (void)snprintf(out, WHY_BYTES, "party %u is to prove its key", p);
    else
        (void)snprintf(out, WHY_BYTES, "party %u has not answered yet", p);
}

static void who_is_missing(const client *c, const uvcc_request_state *st, char out[TEXT_BYTES]) {
    char one[WHY_BYTES];
    size_t n = 0;
    out[0] = '\0';
    for (unsigned p = 0; p < UVCC_PARTIES; p++) {
        if ((st->missing >> p & 1) == 0)
            continue;
        why_not(c, p, one);
        n += (size_t)snprintf(out + n, TEXT_BYTES - n, "%s%s", n != 0 ? "; " : "", one);
        n = n < TEXT_BYTES ? n : TEXT_BYTES - 1;
    }
}

static bool several(uint8_t bits) {
    return (bits & (bits - 1)) != 0;
}

/* "party 0", "parties 0 and 2" of the bits of parties. */
static const char *parties_of(uint8_t bits, char out[32]) {
    const char *before = several(bits) ? "parties " : "party ";
    size_t n = 0;
    out[0] = '\0';
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if ((bits >> p & 1) != 0) {
            n += (size_t)snprintf(out + n, 32 - n, "%s%u", before, p);
            before = " and ";
        }
    return out;
}

static uint8_t who_said(const uvcc_request_state *st, uvcc_request_status status) {
    uint8_t bits = 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        if ((st->missing >> p & 1) == 0 && st->status[p] == status)
            bits |= (uint8_t)(1u << p);
    return bits;
}

/* ---- a request ---- */

/* The parties say by what members. */
static int refused(const client *c, const uvcc_request_state *st, uint8_t by) {
    char who[32], names[SERVING_NAMES_BYTES];
    serving_names(st->why[0] | st->why[1] | st->why[2], c->c->run != NULL ? "run." : "", names);
    return report_error(EXIT_BAD_INPUT,
                        "%s %s the request: %s of %s %s another one than in job.run there; copy "
                        "what the parties have",
                        parties_of(by, who), several(by) ? "refuse" : "refuses", names,
                        c->c->parties.file, strchr(names, ',') != NULL ? "are each" : "is");
}

/* What a request came to that failed: EXIT_LATER asks for another one. */
static int judge(const client *c, const uvcc_request_state *st, uint64_t *wait_ns) {
    char who[32];
    uint8_t by;
    *wait_ns = 0;
    if (st->suspects != 0)
        return report_error(EXIT_FAILED,
                            "the answers differ in a share that two parties both have: %s%s "
                            "sent a wrong one; nothing of it is used",
                            several(st->suspects) ? "one of " : "", parties_of(st->suspects, who));
    if ((by = who_said(st, UVCC_REQUEST_MISMATCH)) != 0)
        return report_error(
            EXIT_FAILED,
            "the parties compared the shares of this request and they differ (%s %s so): this "
            "program sent all three the same, so one of the parties changed its own",
            parties_of(by, who), several(by) ? "say" : "says");
    if ((by = who_said(st, UVCC_REQUEST_REFUSED)) != 0)
        return refused(c, st, by);
    if (who_said(st, UVCC_REQUEST_BUSY) != 0)
        *wait_ns = BUSY_NS;
    return EXIT_LATER;
}

static int new_request(client *c, const int64_t *values, const int64_t *numbers, uint32_t units) {
    uvcc_request_config r = {.size = sizeof r,
                             .alloc = uvcc_host_allocator(),
                             .random = uvcc_host_random(),
                             .shape = serving_request(&c->c->form, units),
                             .values = values,
                             .numbers = numbers};
    memcpy(r.sid_job, c->c->sid_job, sizeof r.sid_job);
    uvcc_request_free(c->request);
    c->request = NULL;
    int rc = uvcc_request_new(&c->request, &r);
    for (uint8_t p = 0; p < UVCC_PARTIES && rc == 0; p++)
        if (c->party[p].open)
            rc = uvcc_request_opened(c->request, p);
    return rc == 0 ? EXIT_DONE : report_error(EXIT_FAILED, "the request: %s", uvcc_error_text(rc));
}

/* One that failed at a party may wait at the others still: asking anew before they have dropped it
 * would take more and more of what this client may have there. */
static bool over(const uvcc_request_state *st) {
    return st->kind == UVCC_REQUEST_DONE ||
           (st->kind == UVCC_REQUEST_FAILED &&
            (st->missing == 0 || st->suspects != 0 || who_said(st, UVCC_REQUEST_MISMATCH) != 0 ||
             who_said(st, UVCC_REQUEST_REFUSED) != 0));
}

/* Until it is answered, or `until`: EXIT_LATER then. */
static int drive(client *c, uint64_t until, uvcc_request_state *st) {
    uint64_t say_at = uvcc_host_now_ns() + SAY_NS;
    char text[TEXT_BYTES];
    for (;;) {
        const int status = turn(c);
        if (status != EXIT_DONE || uvcc_request_get_state(c->request, st) != 0)
            return status;
        const uint64_t now = uvcc_host_now_ns();
        if (over(st))
            return EXIT_DONE;
        if (interrupted())
            return EXIT_INTERRUPTED;
        if (now >= until)
            return EXIT_LATER;
        if (now >= say_at) {
            who_is_missing(c, st, text);
            report_line(true, "waiting: %s", text);
            say_at = now + SAY_NS;
        }
        wait_for_work(c, say_at < until ? say_at : until);
    }
}

static int out_of_patience(const client *c, const uvcc_request_state *st, bool asked_again) {
    char text[TEXT_BYTES];
    who_is_missing(c, st, text);
    if (*text == '\0')
        (void)snprintf(text, sizeof text, "%s", "the parties ask to be asked again");
    return report_error(EXIT_LATER, "no answer after %.0f s%s: %s",
                        (double)c->patience_ns / (double)NS_PER_S,
                        asked_again ? ", in which the parties were asked again" : "", text);
}

/* The dialogs are turned meanwhile: who is busy still has to answer others. */
static void pause_for(client *c, uint64_t wait_ns) {
    const uint64_t until = uvcc_host_now_ns() + wait_ns;
    while (uvcc_host_now_ns() < until && !interrupted() && turn(c) == EXIT_DONE)
        wait_for_work(c, until);
}

int client_ask(client *c, const int64_t *values, const int64_t *numbers, uint32_t units,
               int64_t *out) {
    const uvcc_request_shape s = serving_request(&c->c->form, units);
    const uint64_t until = uvcc_host_now_ns() + c->patience_ns;
    for (bool again = false;; again = true) {
        uvcc_request_state st = {0};
        uint64_t wait_ns = 0;
        int status = new_request(c, values, numbers, units);
        if (status == EXIT_DONE)
            status = drive(c, until, &st);
        if (status == EXIT_LATER)
            return out_of_patience(c, &st, again);
        if (status != EXIT_DONE)
            return status;
        if (st.kind == UVCC_REQUEST_DONE) {
            const int rc = uvcc_request_output(c->request, out, (size_t)s.out_rows * s.out_cols);
            return rc == 0 ? EXIT_DONE
                           : report_error(EXIT_FAILED, "the answer: %s", uvcc_error_text(rc));
        }
        status = judge(c, &st, &wait_ns);
        if (status != EXIT_LATER)
            return status;
        if (uvcc_host_now_ns() >= until)
            return out_of_patience(c, &st, again);
        report_line(true, "%s: asking again",
                    wait_ns != 0 ? "a party is busy with other requests of this client"
                                 : "not all parties had the request when its turn came");
        pause_for(c, wait_ns);
    }
}
