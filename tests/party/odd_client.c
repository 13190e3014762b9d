/* SPDX-License-Identifier: Apache-2.0 */
/* odd_client.c - a client that does not do as it should, for tests/party/serve.py and
 * serve_model.py.
 *
 *     odd_client CONFIG differ   sends party 2 another request of the same id; prints the statuses
 *     odd_client CONFIG known    does as it should
 *     odd_client CONFIG trees    sends keys of another job's trees, which stand for nothing
 *     odd_client CONFIG alone    sends party 0 alone a request, and is gone when it is there
 *     odd_client CONFIG old      the same, a request of version 1, and no request
 *
 * It says the seed of its random bytes (same_bytes()) on standard error. */
#include <stdio.h>
#include <string.h>
#include <uvcc/dialog.h>
#include <uvcc/host.h>

#include "client/client.h"
#include "serving.h"

enum { ROWS = 1 };

typedef struct end {
    uvcc_dialog *d;
    bool in_net, open, sent;
} end;

/* The same bytes for each request: so the ids, the salts and two of the components are the same. */
static int same_bytes(void *user, void *out, size_t bytes) {
    uint64_t *at = user;
    for (size_t i = 0; i < bytes; i++)
        ((uint8_t *)out)[i] = (uint8_t)((*at = *at * 6364136223846793005u + 1) >> 56);
    return 0;
}

static uvcc_request *request(const client_config *c, uint64_t seed, int64_t value, bool trees) {
    enum { VALUES = 64 };
    int64_t v[VALUES], none[VALUES] = {0};
    uvcc_request *r = NULL;
    uint64_t state = seed;
    for (size_t i = 0; i < VALUES; i++)
        v[i] = value;
    const bool keys = c->form.key_cols != 0;
    uvcc_request_config q = {.size = sizeof q,
                             .alloc = uvcc_host_allocator(),
                             .random = {same_bytes, &state},
                             .shape = serving_request(&c->form, ROWS),
                             .values = keys ? none : v, /* no padding */
                             .numbers = keys ? v : NULL};
    memcpy(q.sid_job, c->sid_job, sizeof q.sid_job);
    q.sid_job[0] ^= trees;
    return c->form.in_rows * (c->form.in_cols + c->form.key_cols) <= VALUES &&
                   uvcc_request_new(&r, &q) == 0
               ? r
               : NULL;
}

static int add(uvcc_net *net, const client_config *c, unsigned p, end *e) {
    char address[UVCC_NET_ADDRESS_BYTES];
    uvcc_dialog_config d;
    uvcc_dialog_config_default(&d);
    d.alloc = uvcc_host_allocator();
    d.random = uvcc_host_random();
    d.client = true;
    d.party = (uint8_t)p;
    memcpy(d.sid_job, c->sid_job, 32);
    memcpy(d.sign_seed, c->seed, 32);
    memcpy(d.peer_key, c->party_key[p], 32);
    if (!config_place(&c->parties, c->parties.address[p], CONFIG_CLIENTS_PORT, address) ||
        uvcc_dialog_new(&e->d, &d, uvcc_host_now_ns()) != 0)
        return -1;
    const uvcc_net_link how = {.size = sizeof how,
                               .me = UVCC_DIALOG_ME(true),
                               .peer = UVCC_DIALOG_PEER(true),
                               .sid_tag = uvcc_dialog_sid_tag(e->d),
                               .address = address};
    e->in_net = uvcc_net_add_link(net, uvcc_dialog_link(e->d), &how) == 0;
    return e->in_net ? 0 : -1;
}

static int turn(unsigned p, end *e, uvcc_request *r) {
    uvcc_dialog_event v;
    const uint64_t now = uvcc_host_now_ns();
    if (uvcc_dialog_turn(e->d, now) != 0)
        return -1;
    while (uvcc_dialog_poll_event(e->d, &v) == 1) {
        if (v.kind != UVCC_DIALOG_OPEN || (r != NULL && uvcc_request_opened(r, (uint8_t)p) != 0))
            return -1;
        e->open = true;
    }
    return r != NULL ? uvcc_request_turn(r, (uint8_t)p, e->d, now) : 0;
}

/* And another one that is no request at all: a line is enough. */
static int send_old(uvcc_dialog *d) {
    uint8_t piece[57] = {'U', 'V', 'R', 'Q', 1};
    int rc = 0;
    piece[24] = sizeof piece - 40;
    for (unsigned i = 0; i < 2 && rc == 0; i++) {
        rc = uvcc_dialog_send(d, piece, sizeof piece, uvcc_host_now_ns());
        piece[0] = 'X';
    }
    return rc;
}

/* Each request has the answers of those that it went to. */
static bool over(const end *e, uvcc_request *const *r, bool alone) {
    uvcc_request_state st[2];
    if (alone)
        return e[0].open && uvcc_dialog_drained(e[0].d);
    for (unsigned i = 0; i < 2; i++)
        if (uvcc_request_get_state(r[i], &st[i]) != 0)
            return false;
    if ((st[0].missing & 3) != 0 || (st[1].missing & 4) != 0)
        return false;
    (void)printf("%d %d %d\n", (int)st[0].status[0], (int)st[0].status[1], (int)st[1].status[2]);
    return true;
}

static int talk(const client_config *c, const char *how) {
    const uint64_t seed = uvcc_host_now_ns();
    const bool old = strcmp(how, "old") == 0, alone = old || strcmp(how, "alone") == 0;
    const bool trees = strcmp(how, "trees") == 0;
    const int64_t other = trees || strcmp(how, "known") == 0 ? 5 : 6;
    uvcc_request *r[2] = {request(c, seed, 5, trees), request(c, seed, other, trees)};
    end e[UVCC_PARTIES] = {0};
    uvcc_net_config n;
    uvcc_net *net = NULL;
    uvcc_net_config_default(&n);
    n.alloc = uvcc_host_allocator();
    n.random = uvcc_host_random();
    int rc = r[0] != NULL && r[1] != NULL && uvcc_net_new(&net, &n) == 0 ? 0 : -1;
    const unsigned count = alone ? 1 : UVCC_PARTIES;
    for (unsigned p = 0; p < count && rc == 0; p++)
        rc = add(net, c, p, &e[p]);
    bool sent = !old;
    (void)fprintf(stderr, "%llu\n", (unsigned long long)seed);
    while (rc == 0 && !(sent && over(e, r, alone))) {
        if (!sent && e[0].open)
            sent = (rc = send_old(e[0].d)) == 0;
        for (unsigned p = 0; p < count && rc == 0; p++)
            rc = turn(p, &e[p], old ? NULL : r[p == 2]);
        if (uvcc_net_wait(net, uvcc_host_now_ns() + 100000000u) < 0)
            rc = -1;
    }
    for (unsigned p = 0; p < count; p++) {
        if (e[p].in_net)
            (void)uvcc_net_remove_link(net, uvcc_dialog_link(e[p].d));
        uvcc_dialog_free(e[p].d);
    }
    uvcc_net_free(net);
    uvcc_request_free(r[0]);
    uvcc_request_free(r[1]);
    return rc;
}

int main(int argc, char **argv) {
    client_config c;
    if (argc != 3)
        return 2;
    int rc = client_config_read(&c, argv[1]);
    if (rc == 0)
        rc = talk(&c, argv[2]) == 0 ? 0 : 1;
    client_config_free(&c);
    return rc;
}
