/* SPDX-License-Identifier: Apache-2.0 */
/* service.c - a party's side of its clients' requests, see uvcc/request.h.
 *
 * A request is known by its client and its id. It comes, is whole, is taken by the host, is
 * answered; after a while its answer is forgotten, and later that there was one. A client that asks
 * for one that is there gets its answer once more; it is never taken twice. What one client has
 * here is bounded, so none takes another's place. */
#include "exec/host/request.h"

#include <assert.h>
#include <string.h>

#include "proto/bytes.h"
#include "proto/crypto.h"

typedef enum stage { COMING, WHOLE, TAKEN, ANSWERED, FORGOTTEN } stage;

typedef struct asked {
    struct asked *next; /* of this client, younger */
    uint8_t id[16];
    stage stage;
    uint64_t token;
    uint64_t order; /* when it was whole */
    uint64_t held;  /* bytes that count against the client's */
    uvcc_request_shape shape;
    uvcci_body asks, answer;
    uint8_t digest_lo[32], digest_hi[32];
} asked;

typedef struct client {
    uint8_t key[32];
    asked *first;
    uint64_t bytes;
    bool owed; /* BUSY, to this request: there was no memory for it, nor to say so */
    uint8_t owed_id[16];
} client;

struct uvcc_service {
    uvcc_service_config cfg;
    client *clients;
    uint32_t count;
    uint64_t tokens, orders;
};

/* ---- its life ---- */

void uvcc_service_config_default(uvcc_service_config *cfg) {
    if (cfg != NULL)
        *cfg = (uvcc_service_config){.size = sizeof *cfg};
}

int uvcc_service_new(uvcc_service **out, const uvcc_service_config *cfg) {
    if (out == NULL || cfg == NULL || cfg->size != sizeof *cfg || cfg->alloc.alloc == NULL ||
        cfg->alloc.free == NULL || cfg->party >= UVCC_PARTIES)
        return UVCC_ERR_USAGE;
    uvcc_service_config c = *cfg;
    c.clients_max = c.clients_max != 0 ? c.clients_max : 64;
    c.waiting_max = c.waiting_max != 0 ? c.waiting_max : 4;
    c.kept_max = c.kept_max != 0 ? c.kept_max : 8;
    c.client_bytes = c.client_bytes != 0 ? c.client_bytes : UINT64_C(64) << 20;
    if (c.clients_max > 1u << 20 || c.kept_max > 1u << 20)
        return UVCC_ERR_LIMIT;
    uvcc_service *s = c.alloc.alloc(c.alloc.user, sizeof *s, UVCC_MEM_STATE);
    if (s == NULL)
        return UVCC_ERR_NOMEM;
    *s = (uvcc_service){.cfg = c};
    s->clients = c.alloc.alloc(c.alloc.user, c.clients_max * sizeof *s->clients, UVCC_MEM_STATE);
    if (s->clients == NULL) {
        c.alloc.free(c.alloc.user, s, sizeof *s, UVCC_MEM_STATE);
        return UVCC_ERR_NOMEM;
    }
    *out = s;
    return 0;
}

/* The request that *at points to. */
static void drop(uvcc_service *s, client *c, asked **at) {
    asked *q = *at;
    assert(c->bytes >= q->held); /* the sum of its requests' */
    *at = q->next;
    c->bytes -= q->held;
    uvcci_body_free(&q->asks, &s->cfg.alloc);
    uvcci_body_free(&q->answer, &s->cfg.alloc);
    s->cfg.alloc.free(s->cfg.alloc.user, q, sizeof *q, UVCC_MEM_STATE);
}

void uvcc_service_free(uvcc_service *s) {
    if (s == NULL)
        return;
    for (uint32_t i = 0; i < s->count; i++)
        while (s->clients[i].first != NULL)
            drop(s, &s->clients[i], &s->clients[i].first);
    const uvcc_service_config c = s->cfg;
    c.alloc.free(c.alloc.user, s->clients, c.clients_max * sizeof *s->clients, UVCC_MEM_STATE);
    c.alloc.free(c.alloc.user, s, sizeof *s, UVCC_MEM_STATE);
}

int uvcc_service_add(uvcc_service *s, const uint8_t key[32], uint32_t *number) {
    if (s == NULL || key == NULL || number == NULL)
        return UVCC_ERR_USAGE;
    for (uint32_t i = 0; i < s->count; i++)
        if (memcmp(s->clients[i].key, key, 32) == 0) {
            *number = i;
            return 0;
        }
    if (s->count == s->cfg.clients_max)
        return UVCC_ERR_LIMIT;
    *number = s->count++;
    client *c = &s->clients[*number];
    *c = (client){.bytes = 0};
    memcpy(c->key, key, 32);
    return 0;
}

int uvcc_service_opened(uvcc_service *s, uint32_t number) {
    if (s == NULL || number >= s->count)
        return UVCC_ERR_USAGE;
    client *c = &s->clients[number];
    for (asked **at = &c->first; *at != NULL;) {
        asked *q = *at;
        q->answer.sent = q->answer.total; /* until it asks */
        if (q->stage == COMING)
            drop(s, c, at);
        else
            at = &q->next;
    }
    return 0;
}

/* ---- answers ---- */

/* Answers beyond kept_max are forgotten, the oldest first, and then that there were any. */
static void forget(uvcc_service *s, client *c) {
    uint32_t answers = 0, all = 0;
    for (const asked *q = c->first; q != NULL; q = q->next) {
        answers += q->stage == ANSWERED;
        all += q->stage == ANSWERED || q->stage == FORGOTTEN;
    }
    for (asked **at = &c->first; *at != NULL;) {
        asked *q = *at;
        if (q->stage == ANSWERED && answers > s->cfg.kept_max) {
            answers--;
            assert(c->bytes >= q->held);
            uvcci_body_free(&q->answer, &s->cfg.alloc);
            c->bytes -= q->held;
            q->held = 0;
            q->stage = FORGOTTEN;
        }
        if (q->stage == FORGOTTEN && all > 8 * s->cfg.kept_max) {
            all--;
            drop(s, c, at);
        } else
            at = &q->next;
    }
}

/* UVCC_ERR_NOMEM changes nothing. */
static int answer(uvcc_service *s, client *c, asked *q, uvcc_request_status status, uint32_t why,
                  const uint64_t *lo, const uint64_t *hi) {
    const uint64_t total = uvcci_answer_bytes(&q->shape, status);
    uint8_t *b = s->cfg.alloc.alloc(s->cfg.alloc.user, total, UVCC_MEM_SECRET);
    if (b == NULL)
        return UVCC_ERR_NOMEM;
    uvcci_st32(b, (uint32_t)status);
    uvcci_st32(b + 4, status == UVCC_REQUEST_OK ? q->shape.out_rows : 0);
    uvcci_st32(b + 8, status == UVCC_REQUEST_OK ? q->shape.out_cols : 0);
    uvcci_st32(b + 12, why);
    const size_t n = (size_t)(total - UVCCI_ANSWER_HEAD) / 2;
    assert(n == 0 || (lo != NULL && hi != NULL));
    assert(c->bytes >= q->held);
    if (n != 0) {
        memcpy(b + UVCCI_ANSWER_HEAD, lo, n);
        memcpy(b + UVCCI_ANSWER_HEAD + n, hi, n);
    }
    uvcci_body_free(&q->asks, &s->cfg.alloc);
    uvcci_body_free(&q->answer, &s->cfg.alloc);
    q->answer = (uvcci_body){.bytes = b, .total = total};
    assert(c->bytes >= q->held);
    c->bytes = c->bytes - q->held + total;
    q->held = total;
    if (q->stage != FORGOTTEN)
        q->stage = ANSWERED;
    return 0;
}

/* Of a request that was handed out. */
static int answer_job(uvcc_service *s, uint64_t token, uvcc_request_status status, uint32_t why,
                      const uint64_t *lo, const uint64_t *hi, size_t n) {
    for (uint32_t i = 0; i < s->count; i++)
        for (asked *q = s->clients[i].first; q != NULL; q = q->next) {
            if (q->token != token || q->stage != TAKEN)
                continue;
            const bool ok = status == UVCC_REQUEST_OK;
            if (n != (ok ? uvcci_request_values(q->shape.out_rows, q->shape.out_cols) : 0) ||
                (ok && (lo == NULL || hi == NULL)))
                return UVCC_ERR_USAGE;
            const int rc = answer(s, &s->clients[i], q, status, why, lo, hi);
            if (rc == 0)
                forget(s, &s->clients[i]);
            return rc;
        }
    return UVCC_ERR_NOT_FOUND;
}

int uvcc_service_answer(uvcc_service *s, uint64_t token, uvcc_request_status status,
                        const uint64_t *lo, const uint64_t *hi, size_t n) {
    if (s == NULL || (uint32_t)status >= UVCC_REQUEST_STATUSES)
        return UVCC_ERR_USAGE;
    return answer_job(s, token, status, 0, lo, hi, n);
}

int uvcc_service_refuse(uvcc_service *s, uint64_t token, uint32_t why) {
    return s != NULL ? answer_job(s, token, UVCC_REQUEST_REFUSED, why, NULL, NULL, 0)
                     : UVCC_ERR_USAGE;
}

/* ---- requests ---- */

static void whole(uvcc_service *s, client *c, asked *q) {
    const uint8_t *b = q->asks.bytes, *lo = b + UVCCI_REQUEST_HEAD, p = s->cfg.party;
    assert(q->asks.total > UVCCI_REQUEST_HEAD && (q->asks.total - UVCCI_REQUEST_HEAD) % 16 == 0);
    const uint8_t *hi = lo + (q->asks.total - UVCCI_REQUEST_HEAD) / 2;
    assert(b != NULL && q->asks.total == uvcci_request_bytes(&q->shape));
    uvcci_request_digest(q->id, c->key, &q->shape, p, b + UVCCI_REQUEST_SHAPE, lo, q->digest_lo);
    uvcci_request_digest(q->id, c->key, &q->shape, (p + 1) % 3, b + UVCCI_REQUEST_SHAPE + 32, hi,
                         q->digest_hi);
    q->stage = WHOLE;
    q->order = ++s->orders;
}

static void warn(const uvcc_service *s, const char *line) {
    if (s->cfg.log.write != NULL)
        s->cfg.log.write(s->cfg.log.user, UVCC_LOG_WARN, line);
}

/* All pieces are there: is it a request, and is there room for its answer? */
static int judge(uvcc_service *s, client *c, asked *q) {
    if (!uvcci_get_shape(&q->shape, q->asks.bytes, q->asks.total)) {
        warn(s, "service: a request whose head and length are none, which is refused");
        return answer(s, c, q, UVCC_REQUEST_REFUSED, 0, NULL, NULL);
    }
    const uint64_t more = uvcci_answer_bytes(&q->shape, UVCC_REQUEST_OK);
    if (c->bytes + more > s->cfg.client_bytes)
        return answer(s, c, q, UVCC_REQUEST_BUSY, 0, NULL, NULL);
    q->held += more;
    c->bytes += more;
    whole(s, c, q);
    return 0;
}

/* One for which there is no room is answered at once. */
static int begin(uvcc_service *s, client *c, const uvcci_piece *p, asked **out) {
    uint32_t waiting = 0;
    asked **at = &c->first;
    for (; *at != NULL; at = &(*at)->next)
        waiting += (*at)->stage < ANSWERED;
    asked *q = s->cfg.alloc.alloc(s->cfg.alloc.user, sizeof *q, UVCC_MEM_STATE);
    if (q == NULL)
        return UVCC_ERR_NOMEM;
    *q = (asked){.token = ++s->tokens};
    memcpy(q->id, p->id, sizeof q->id);
    *at = *out = q;
    const bool room = waiting < s->cfg.waiting_max && p->total <= s->cfg.client_bytes &&
                      c->bytes <= s->cfg.client_bytes - p->total;
    if (room)
        q->asks.bytes = s->cfg.alloc.alloc(s->cfg.alloc.user, p->total, UVCC_MEM_SECRET);
    if (q->asks.bytes == NULL)
        return answer(s, c, q, UVCC_REQUEST_BUSY, 0, NULL, NULL);
    q->asks.total = p->total;
    q->held = p->total;
    c->bytes += p->total;
    return 0;
}

/* There is no memory for it: it is gone, and its client will hear so. */
static void owe(uvcc_service *s, client *c, const uint8_t id[16]) {
    for (asked **at = &c->first; *at != NULL; at = &(*at)->next)
        if (memcmp((*at)->id, id, 16) == 0) {
            if ((*at)->stage == COMING)
                drop(s, c, at);
            break;
        }
    c->owed = true;
    memcpy(c->owed_id, id, sizeof c->owed_id);
}

/* 1: nothing is owed. */
static int pay(const uvcc_service *s, client *c, uvcc_dialog *d, uint64_t now) {
    uint8_t body[UVCCI_ANSWER_HEAD] = {UVCC_REQUEST_BUSY};
    uvcci_body b = {.bytes = body, .total = sizeof body};
    const int rc = !c->owed ? 1
                            : uvcci_body_send(&b, UVCCI_REQUEST_ANSWERS, s->cfg.party, c->owed_id,
                                              &s->cfg.alloc, d, now);
    c->owed = rc != 1;
    return rc;
}

/* A message of this client; by the stage of the request that it is of. */
static int take(uvcc_service *s, client *c, const uvcc_dialog_message *m) {
    uvcci_piece p;
    if (!uvcci_piece_read(&p, m->data, m->len) || p.kind != UVCCI_REQUEST_ASKS ||
        p.party != s->cfg.party || p.total < UVCCI_REQUEST_HEAD) {
        warn(s, uvcci_piece_of_other_version(m->data, m->len)
                    ? "service: a request of another version, which gets no answer; "
                      "the client and the parties need the same"
                    : "service: a message of another form, which gets no answer");
        return 0;
    }
    asked *q = c->first;
    while (q != NULL && memcmp(q->id, p.id, sizeof p.id) != 0)
        q = q->next;
    int rc = 0;
    if (q == NULL) {
        rc = begin(s, c, &p, &q);
        if (rc != 0)
            owe(s, c, p.id);
        forget(s, c);
        if (rc != 0 || q->stage != COMING)
            return rc;
    }
    if (q->stage == ANSWERED && p.offset == 0 && q->answer.sent == q->answer.total)
        q->answer.sent = 0;
    else if (q->stage == FORGOTTEN && p.offset == 0 && q->answer.sent == q->answer.total)
        rc = answer(s, c, q, UVCC_REQUEST_GONE, 0, NULL, NULL);
    else if (q->stage == COMING && q->asks.total == p.total && uvcci_body_place(&q->asks, &p)) {
        rc = judge(s, c, q);
        if (rc == 0)
            forget(s, c);
    }
    if (rc != 0)
        owe(s, c, p.id);
    return rc;
}

int uvcc_service_turn(uvcc_service *s, uint32_t number, uvcc_dialog *d, uint64_t now) {
    uvcc_dialog_message m;
    int got, rc = 0;
    if (s == NULL || number >= s->count || d == NULL)
        return UVCC_ERR_USAGE;
    client *c = &s->clients[number];
    while (rc == 0 && (got = uvcc_dialog_receive(d, &m, now)) != 0) {
        if (got < 0)
            return got;
        rc = take(s, c, &m);
        const int done = uvcc_dialog_release(d, &m, now);
        rc = rc != 0 ? rc : done;
    }
    if (rc == 0)
        rc = pay(s, c, d, now);
    for (asked *q = c->first; q != NULL && rc == 1; q = q->next) {
        if (q->answer.sent == q->answer.total)
            continue;
        rc = uvcci_body_send(&q->answer, UVCCI_REQUEST_ANSWERS, s->cfg.party, q->id, &s->cfg.alloc,
                             d, now);
        if (rc == 1 && q->stage == FORGOTTEN) {
            c->bytes -= q->held;
            q->held = 0;
            uvcci_body_free(&q->answer, &s->cfg.alloc);
        }
    }
    return rc < 0 ? rc : 0;
}

/* Of those that were not handed out the first that was whole, and whose it is; NULL: none. */
static asked *next_of(const uvcc_service *s, uint32_t *of) {
    asked *oldest = NULL;
    for (uint32_t i = 0; i < s->count; i++)
        for (asked *q = s->clients[i].first; q != NULL; q = q->next)
            if (q->stage == WHOLE && (oldest == NULL || q->order < oldest->order)) {
                oldest = q;
                *of = i;
            }
    return oldest;
}

int uvcc_service_next(uvcc_service *s, uvcc_service_job *out) {
    uint32_t of = 0;
    if (s == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    *out = (uvcc_service_job){0};
    asked *oldest = next_of(s, &of);
    if (oldest == NULL)
        return 0;
    uvcci_request_part part;
    (void)uvcci_request_part_of(&oldest->shape, &part); /* it is one: judge() looked */
    assert(oldest->asks.total == UVCCI_REQUEST_HEAD + 16 * uvcci_request_part_words(&part));
    oldest->stage = TAKEN;
    out->token = oldest->token;
    out->client = of;
    out->shape = oldest->shape;
    out->lo = (const uint64_t *)(const void *)(oldest->asks.bytes + UVCCI_REQUEST_HEAD);
    out->hi = out->lo + uvcci_request_part_words(&part);
    if (part.keys != 0) {
        out->keys_lo = out->lo + part.values;
        out->keys_hi = out->hi + part.values;
    }
    memcpy(out->id, oldest->id, sizeof out->id);
    memcpy(out->digest_lo, oldest->digest_lo, 32);
    memcpy(out->digest_hi, oldest->digest_hi, 32);
    return 1;
}
