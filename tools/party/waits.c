/* SPDX-License-Identifier: Apache-2.0 */
/* waits.c - what a process waits for, in one line for people: which peer, since when, and why its
 * connection is not there. */
#include <stdio.h>
#include <string.h>

#include "figures.h"
#include "party.h"
#include "serve_queue.h"

#define NS_PER_S   1000000000ull
#define QUIET_NS   (3 * NS_PER_S)  /* without progress, before anything is said */
#define CHANGED_NS (5 * NS_PER_S)  /* between lines that differ */
#define AGAIN_NS   (60 * NS_PER_S) /* between lines that are the same */

/* Grows with everything that a run has only so much of. */
static uint64_t progress_of(const party *p) {
    uint64_t sum = p->runs;
    for (uint32_t i = 0; i < p->workers; i++) {
        const worker *w = &p->worker[i];
        uvcc_session_stats st = {0};
        if (w->session != NULL)
            uvcc_session_get_stats(w->session, &st);
        sum += st.messages + st.jobs + st.steps_finished + w->ready + w->closed + w->finished;
    }
    if (p->kind->queue != NULL) { /* requests that came: until one does, nobody waits */
        serve_counts n = {0};
        serve_queue_counts(p->kind->queue(p->work), &n);
        sum += n.waiting + n.served + n.dropped + n.mismatched + n.refused;
    }
    return sum;
}

static const char *needed(const uvcc_peer_info *info, char out[64]) {
    switch (info->waits_for) {
    case UVCC_WAIT_HELLO:
        if (!info->hello)
            return "has not begun this job";
        return info->handshake < UVCC_HANDSHAKE_HELLO3 ? "is to begin the new run"
                                                       : "is to prove its keys";
    case UVCC_WAIT_STEP:
        (void)snprintf(out, 64, "is to agree to step %u", info->wait_step + 1);
        return out;
    case UVCC_WAIT_AUDIT:
        (void)snprintf(out, 64, "is to sign the root of step %u", info->wait_step + 1);
        return out;
    case UVCC_WAIT_BATCH:
        (void)snprintf(out, 64, "is to send %u messages of step %u", info->wait_messages,
                       info->wait_step + 1);
        return out;
    case UVCC_WAIT_BYE:
    case UVCC_WAIT_ACK:
        return "is to end too";
    default:
        return NULL;
    }
}

bool party_rests(const party *p, const uvcc_peer_info *info) {
    serve_counts n = {0};
    if (p->kind->queue == NULL || info->waits_for != UVCC_WAIT_BATCH)
        return false;
    serve_queue_counts(p->kind->queue(p->work), &n);
    return n.waiting == 0;
}

/* The connection first: without it nothing else moves. */
static size_t one_peer(const worker *w, uint8_t q, uint64_t now, char *out, size_t cap) {
    const party *p = w->party;
    uvcc_peer_info info = {.size = sizeof info};
    uvcc_net_peer net = {.size = sizeof net};
    char text[64];
    if (uvcc_session_peer_info(w->session, q, &info) != 0 ||
        uvcc_net_peer_info(p->net, w->session, q, &net) != 0)
        return 0;
    const bool down = !net.connected && !config_datagram(&p->c);
    const char *need = needed(&info, text);
    if (need == NULL || (!down && party_rests(p, &info)))
        return 0;
    int n;
    if (down)
        n = snprintf(out, cap, "party %u is not connected (%s%s%s)", q,
                     net.dials ? net.address : "it calls here", *net.why != '\0' ? ": " : "",
                     net.why);
    else
        n = snprintf(out, cap, "party %u %s", q, need);
    (void)now;
    return n > 0 ? (size_t)n : 0;
}

size_t worker_waits(const worker *w, uint64_t now, char *out, size_t cap) {
    size_t n = 0;
    for (uint8_t q = 0; q < UVCC_PARTIES && w->session != NULL; q++) {
        if (q == w->party->c.party || n + 4 >= cap)
            continue;
        const size_t before = n;
        n += n != 0 ? (size_t)snprintf(out + n, cap - n, "; ") : 0;
        const size_t more = one_peer(w, q, now, out + n, cap - n);
        n = more != 0 ? n + more : before;
        n = n < cap ? n : cap - 1;
    }
    out[n] = '\0';
    return n;
}

/* Who was turned away is said at once: what is wrong may be this end's, and the caller cannot see
 * it. The same reason once a minute. */
static void say_refusals(party *p, uint64_t now) {
    struct party_refusals *r = &p->refusals;
    uvcc_net_refusal last = {.size = sizeof last};
    if (uvcc_net_refused(p->net, &last) != 0 || last.count == r->count)
        return;
    const bool same = strcmp(last.why, r->why) == 0;
    if (r->said_ns != 0 && now < r->said_ns + (same ? AGAIN_NS : CHANGED_NS))
        return;
    r->count = last.count;
    r->said_ns = now;
    (void)snprintf(r->why, sizeof r->why, "%s", last.why);
    report_line(true, "turned away a caller from %s: %s", last.address, last.why);
}

void party_say_waits(party *p, uint64_t now) {
    struct party_wait *wait = &p->wait;
    const uint64_t progress = progress_of(p);
    char text[sizeof wait->text] = "";
    say_refusals(p, now);
    if (progress != wait->progress || wait->since_ns == 0) {
        wait->progress = progress;
        wait->since_ns = now;
        wait->text[0] = '\0';
        return;
    }
    if (now < wait->since_ns + QUIET_NS || p->phase == PARTY_ENDING)
        return;
    for (uint32_t i = 0; i < p->workers && *text == '\0'; i++)
        (void)worker_waits(&p->worker[i], now, text, sizeof text);
    if (*text == '\0')
        return;
    const bool same = strcmp(text, wait->text) == 0;
    if (wait->said_ns != 0 && now < wait->said_ns + (same ? AGAIN_NS : CHANGED_NS))
        return;
    (void)snprintf(wait->text, sizeof wait->text, "%s", text);
    wait->said_ns = now;
    figures_say(p, UVCC_LOG_WARN, "waits", text);
    report_line(true, "waiting for %.0f s: %s", (double)(now - wait->since_ns) * 1e-9, text);
}
