/* SPDX-License-Identifier: Apache-2.0 */
/* worker.c - one worker of the process: its session's configuration, its events, its steps. */
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "figures.h"
#include "make.h"
#include "names.h"
#include "party.h"

#define NS_PER_S 1000000000u

/* Sessions log errors and what hosts should see; the last line goes into the message of a failure.
 */
static void write_log(void *user, uvcc_log_level level, const char *line) {
    worker *w = user;
    party *p = w->party;
    figures_line(p, w, level, "session", line);
    if (level <= UVCC_LOG_WARN)
        (void)snprintf(p->log_line, sizeof p->log_line, "%s", line);
}

static void place_text(const worker *w, char out[48]) {
    (void)snprintf(out, 48, "worker r%u s%u t%u", w->place.replica, w->place.stage,
                   w->place.tensor_rank);
}

/* ---- what happens ---- */

static void failed(worker *w, const char *what, const char *why) {
    char place[48];
    place_text(w, place);
    party_fail(w->party, report_error(EXIT_FAILED, "%s: %s: %s", place, what, why));
}

static void on_ready(worker *w, const uvcc_event *e) {
    w->ready = true;
    w->run = w->place.run = e->run;
    w->first = w->agreed = w->prepared = w->given = w->finished = e->step;
    w->inputs = 0;
}

static void on_finished(worker *w, const uvcc_event *e, uint64_t now) {
    party *p = w->party;
    w->finished = e->step + 1;
    memcpy(w->step_root, e->step_root, sizeof w->step_root);
    const int status = p->kind->finished(p->work, &w->place, w->session, e->step, w->text);
    if (status != EXIT_DONE)
        party_fail(p, status);
    if (w->rank == p->worker[0].rank)
        figures_step(p, now);
    if (w->rank == p->worker[0].rank && ++p->steps_here == p->c.faults.die_after)
        (void)kill(getpid(), SIGKILL);
}

/* Nobody has proved whose the HELLO was: the handshake waits on for one that fits. */
static void on_mismatch(party *p, const uvcc_event *e) {
    static const struct {
        const char *text, *advice;
    } known[] = {
        {"sid_job", "its job.name is another one: compare the three files"},
        {"version", "it runs another version of uvcc"},
        {"program",
         "its \"job\" is the same and makes another program: it runs another build of uvcc"},
        {"policy", "its policy is another text, or it has none: compare \"policy\""},
        {"identity",
         "its HELLO is signed by another key than parties[].key says: compare the keys"},
        {"lineage", "it has no checkpoint of a step that this party has one of too: a store is of "
                    "another job or from a copy"},
        {"channel", "somebody relays between the two ends of its connection, or one end alone "
                    "speaks TLS: compare \"tls\""},
        {"topology", "its replicas, stages or tensor_ranks are others"},
        {"suites", "it allows other ciphers: compare \"suite\""},
    };
    const char *advice = "compare the configurations";
    if (strncmp(e->text, "job: ", 5) == 0) {
        const bool run = strncmp(e->text + 5, "job.run", 7) == 0;
        const bool shares = strstr(e->text, "data.shares") != NULL;
        party_trouble(p,
                      "party %u does not fit: its %s%s is another one: compare the files, in which "
                      "\"job\" must be the same%s; waiting for one that fits",
                      e->peer, e->text + 5, run ? " (or a member that is not here)" : "",
                      shares ? ", and data.shares of one sharing: of three files that one "
                               "`uvcc party --share` made"
                             : "");
        return;
    }
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(e->text, known[i].text) == 0)
            advice = known[i].advice;
    party_trouble(p, "party %u does not fit: %s: %s; waiting for one that fits", e->peer, e->text,
                  advice);
}

/* What a person can look at where the parties' public weights are not the same: the session knows
 * them as values alone. Who does not see that himself hears of it from a peer, or that a peer
 * heard. */
static const char *public_weights(const party *p, const uvcc_event *e) {
    const char *known = json_string_value(json_object_get(p->c.run, "weights"));
    const char *of = e->reason == UVCC_ABORT_PEER && e->text != NULL ? e->text : "";
    if (known == NULL || strcmp(known, "public") != 0 ||
        (e->reason != UVCC_ABORT_STEP && strcmp(of, uvcc_abort_text(UVCC_ABORT_STEP)) != 0 &&
         strcmp(of, uvcc_abort_text(UVCC_ABORT_PEER)) != 0))
        return NULL;
    return "with run.weights \"public\" all three parties need the same checkpoint: compare the "
           "files of data.model, by sha256sum";
}

static void on_aborted(worker *w, const uvcc_event *e, uint64_t now) {
    party *p = w->party;
    char place[48], by[32];
    w->aborted = true;
    (void)uvcc_session_close(w->session, now);
    if (e->reason == UVCC_ABORT_RESTARTED) {
        party_again(p, "party %u ended the run", e->peer);
        return;
    }
    if (p->phase == PARTY_ENDING || e->reason == UVCC_ABORT_HOST || e->reason == UVCC_ABORT_DATA)
        return;
    place_text(w, place);
    if (e->reason == UVCC_ABORT_JOB && party_plane_failed(p))
        return;
    const char *why = e->reason == UVCC_ABORT_JOB ? plane_why(p->plane, NULL) : NULL;
    char room[CARD_TEXT_BYTES];
    if (why == NULL && card_refused(w->card) != 0 &&
        (e->reason == UVCC_ABORT_JOB || e->reason == UVCC_ABORT_MEMORY)) {
        card_memory_line(w->card, room);
        why = room;
    } else if (why == NULL && e->reason == UVCC_ABORT_JOB && *card_trouble(w->card) != '\0') {
        why = card_trouble(w->card);
    } else if (why == NULL && w->finished == 0) {
        why = public_weights(p, e);
    }
    if (e->reason == UVCC_ABORT_PEER) /* the text is of that peer's reason */
        (void)snprintf(by, sizeof by, "party %u stopped", e->peer);
    party_fail(p, report_error(EXIT_FAILED, "%s stopped: %s%s%s%s%s", place,
                               e->reason == UVCC_ABORT_PEER ? by : uvcc_abort_text(e->reason),
                               e->text != NULL ? ": " : "", e->text != NULL ? e->text : "",
                               why != NULL ? ": " : "", why != NULL ? why : ""));
}

/* What must be on the disk before is there before anything else is done about an event. */
static void take_store(worker *w, const uvcc_event *e) {
    party *p = w->party;
    const int rc = uvcc_store_event(p->store, w->session, e);
    if (rc == UVCC_STORE_SET)
        w->unset = true;
    else if (rc == UVCC_ERR_IO || rc == UVCC_ERR_NOMEM)
        party_trouble(p, "%s; trying again", uvcc_store_error(p->store));
    else if (rc != 0 && rc != UVCC_ERR_ABORTED && rc != UVCC_ERR_CLOSED) /* it ended meanwhile */
        failed(w, "the store", uvcc_store_error(p->store));
}

void worker_keep_last(worker *w) {
    if (w->last_waits)
        take_store(w, &w->last);
    w->last_waits = false;
}

static void take_audit(worker *w, const uvcc_event *e) {
    party *p = w->party;
    const bundle_place at = {.party = (uint8_t)p->c.party,
                             .r = w->place.replica,
                             .s = w->place.stage,
                             .t = w->place.tensor_rank};
    const int status = bundles_event(p->audit, w->session, &at, e);
    if (status != EXIT_DONE)
        party_fail(p, status);
}

static void on_event(void *user, uvcc_session *s, const uvcc_event *e, uint64_t now) {
    worker *w = user;
    party *p = w->party;
    (void)s;
    if (e->kind != UVCC_EVENT_STEP_FINISHED)
        figures_event(w, e);
    const bool last = e->kind == UVCC_EVENT_CHECKPOINT && !p->finished && !p->make &&
                      e->step == p->kind->steps(p->work);
    if (last) {
        w->last = *e;
        w->last_waits = true;
    } else {
        take_store(w, e);
    }
    if (p->audit != NULL)
        take_audit(w, e);
    switch (e->kind) {
    case UVCC_EVENT_READY:
        on_ready(w, e);
        break;
    case UVCC_EVENT_STEP_FINISHED:
        on_finished(w, e, now);
        figures_event(w, e); /* with what is known of it now */
        break;
    case UVCC_EVENT_PEER_RESTARTED:
        party_again(p, "party %u began anew", e->peer);
        break;
    case UVCC_EVENT_ABORTED:
        on_aborted(w, e, now);
        break;
    case UVCC_EVENT_MISMATCH:
        on_mismatch(p, e);
        break;
    case UVCC_EVENT_PEER_BYE:
        w->bye[e->peer] = true;
        break;
    case UVCC_EVENT_PEER_SILENT:
        report_line(true, "party %u: nothing was heard of it for %.0f s", e->peer,
                    (double)(now - e->since_ns) * 1e-9);
        break;
    case UVCC_EVENT_CLOSED:
        w->closed = true;
        break;
    default:
        break;
    }
}

static int on_job(void *user, uvcc_session *s, const uvcc_job *job) {
    const worker *w = user;
    (void)s;
    return plane_submit(w->party->plane, w->rank, job);
}

bool worker_trips_known(const worker *w) {
    for (uint8_t q = 0; q < UVCC_PARTIES; q++) {
        uvcc_net_peer net = {.size = sizeof net};
        if (q != w->party->c.party && uvcc_net_peer_info(w->party->net, w->session, q, &net) == 0 &&
            net.rtt_ns == 0)
            return false;
    }
    return true;
}

/* Nobody measures those of Unix sockets. */
void worker_introduce(const worker *w) {
    char place[48], trips[160] = "", hex[65];
    uint8_t sid_sub[32];
    size_t n = 0;
    place_text(w, place);
    for (uint8_t q = 0; q < UVCC_PARTIES; q++) {
        uvcc_net_peer net = {.size = sizeof net};
        if (q == w->party->c.party || uvcc_net_peer_info(w->party->net, w->session, q, &net) != 0)
            continue;
        n += (size_t)(net.rtt_ns != 0
                          ? snprintf(trips + n, sizeof trips - n, ", %.3f ms to party %u",
                                     (double)net.rtt_ns * 1e-6, q)
                          : snprintf(trips + n, sizeof trips - n, ", not measured to party %u", q));
    }
    if (uvcc_session_sid_sub(w->session, sid_sub) == 0)
        report_line(true, "%s (local rank %u): sid_sub %s, round trips%s", place, w->rank,
                    sodium_bin2hex(hex, sizeof hex, sid_sub, sizeof sid_sub), trips + 1);
}

/* ---- sessions ---- */

static void configure(const worker *w, uvcc_config *cfg) {
    party *p = w->party;
    const party_config *c = &p->c;
    static const uint8_t suites[] = {UVCC_SUITES_ALL, UVCC_SUITE_CHACHA20_POLY1305,
                                     UVCC_SUITE_AES256_GCM};
    cfg->alloc = w->card != NULL ? card_allocator(w->card) : uvcc_host_allocator();
    cfg->limits.keys_gathered_bytes = w->card != NULL ? c->device_keys : 0;
    cfg->random = uvcc_host_random();
    cfg->log = (uvcc_logger){write_log, &p->worker[w - p->worker]};
    cfg->identity.party = (uint8_t)c->party;
    cfg->identity.exchange_x25519 = true;
    memcpy(cfg->identity.sid_job, c->sid_job, sizeof c->sid_job);
    memcpy(cfg->identity.sign_seed, p->sign_seed, sizeof p->sign_seed);
    memcpy(cfg->identity.peer_sign_key, p->public_key, sizeof p->public_key);
    cfg->place = (uvcc_config_place){.replicas = (uint16_t)c->replicas,
                                     .stages = (uint16_t)c->stages,
                                     .tp_ranks = (uint16_t)c->tensor_ranks,
                                     .replica = w->place.replica,
                                     .stage = w->place.stage,
                                     .tp_rank = w->place.tensor_rank};
    cfg->links.datagram = config_datagram(c);
    cfg->links.suites = suites[c->suites];
    crew_share_frames(p->crew, cfg);
    cfg->links.silence_ns = (uint64_t)c->silence_s * NS_PER_S;
    cfg->limits.close_ns = (uint64_t)c->linger_s * NS_PER_S;
    cfg->resume.checkpoint_every = c->checkpoint_every;
    cfg->checks.bundles = p->audit != NULL;
    cfg->agree = p->agree.parts;
    cfg->consent.policy = p->policy;
    cfg->consent.policy_len = p->policy_len;
    if (p->make)
        make_configure(p, cfg);
}

static int add_to_net(worker *w) {
    party *p = w->party;
    char address[UVCC_PARTIES][UVCC_NET_ADDRESS_BYTES];
    uvcc_net_session how = {.size = sizeof how,
                            .party = (uint8_t)p->c.party,
                            .tls = p->tls,
                            .cpu = w->cpu,
                            .job = on_job,
                            .event = on_event,
                            .user = w};
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        if (q != p->c.party && config_address(&p->c, q, w->rank, address[q]))
            how.address[q] = address[q];
    const int rc = uvcc_net_add(p->net, w->session, &how);
    w->in_net = rc == 0;
    return rc;
}

void worker_reset(worker *w) {
    if (!w->in_net || w->closed || uvcc_net_remove(w->party->net, w->session) != 0)
        return;
    w->in_net = false;
    if (add_to_net(w) != 0)
        failed(w, "faults.reset_ms", w->party->log_line);
    w->party->resets++;
}

/* What a card has no room for it will not have later. */
static int begin_failed(worker *w, const char *what, int rc, const char *why) {
    char room[CARD_TEXT_BYTES];
    if (rc == UVCC_ERR_NOMEM && card_refused(w->card) != 0) {
        card_memory_line(w->card, room);
        party_fail(w->party, report_error(EXIT_FAILED, "%s: %s", what, room));
        return UVCC_ERR_JOB;
    }
    if (rc == UVCC_ERR_IO || rc == UVCC_ERR_NOMEM)
        party_trouble(w->party, "%s: %s; trying again", what, why);
    else
        party_fail(w->party, report_error(EXIT_FAILED, "%s: %s", what, why));
    return rc;
}

int worker_begin(worker *w, plane_offer *offer) {
    party *p = w->party;
    plane_offer own = {0};
    int rc = uvcc_config_default(&w->cfg, sizeof w->cfg);
    w->ready = w->unset = w->aborted = w->closed = w->last_waits = false;
    memset(w->bye, 0, sizeof w->bye);
    if (rc == 0) {
        configure(w, &w->cfg);
        figures_hook(w, &w->cfg, NULL);
        names_hook(w, &w->cfg);
        rc = uvcc_store_configure(p->store, &w->cfg);
        if (rc != 0)
            return begin_failed(w, "the store", rc, uvcc_store_error(p->store));
    }
    if (rc == 0 && p->make)
        return 0;
    if (rc == 0)
        rc = uvcc_store_list(p->store, &w->cfg, own.kept, PLANE_CHECKPOINTS_MAX, &own.anew);
    if (rc < 0)
        return begin_failed(w, "the store", rc, uvcc_store_error(p->store));
    own.count = (uint32_t)rc < PLANE_CHECKPOINTS_MAX ? (uint32_t)rc : PLANE_CHECKPOINTS_MAX;
    if (w == &p->worker[0])
        *offer = own;
    else
        plane_offer_both(offer, &own);
    return 0;
}

int worker_start(worker *w, const plane_offer *offer) {
    party *p = w->party;
    int rc = uvcc_session_new(&w->session, &w->cfg);
    if (rc == 0)
        rc = uvcc_session_load_program(w->session, w->place.program);
    if (rc != 0)
        return begin_failed(w, rc == UVCC_ERR_REFUSED ? "the policy" : "a session cannot begin", rc,
                            *p->log_line != '\0' ? p->log_line : uvcc_error_text(rc));
    rc = p->make ? uvcc_store_make(p->store, w->session, &w->cfg)
                 : uvcc_store_offer_common(p->store, w->session, &w->cfg, offer->kept, offer->count,
                                           offer->anew);
    if (rc != 0)
        return begin_failed(w, "the store", rc, uvcc_store_error(p->store));
    rc = uvcc_session_start(w->session, uvcc_host_now_ns());
    if (rc == 0)
        rc = add_to_net(w);
    return rc == 0 ? 0
                   : begin_failed(w, "the session", rc,
                                  *p->log_line != '\0' ? p->log_line : uvcc_error_text(rc));
}

/* The card's memory is the session's until that is gone. */
static void end_executor(worker *w) {
    uvcc_cpu_free(w->cpu);
    w->cpu = NULL;
    card_close(w->card);
    w->card = NULL;
}

/* The net asks the executor no more before that ends its jobs, and their memory is the session's.
 */
void worker_end(worker *w) {
    party *p = w->party;
    if (w->session == NULL) {
        end_executor(w);
        return;
    }
    if (p->audit != NULL) {
        const bundle_place at = {.party = (uint8_t)p->c.party,
                                 .r = w->place.replica,
                                 .s = w->place.stage,
                                 .t = w->place.tensor_rank};
        (void)bundles_flush(p->audit, w->session, &at);
    }
    worker_stats(w, &p->totals);
    if (w->in_net)
        (void)uvcc_net_remove(p->net, w->session);
    w->in_net = false;
    uvcc_cpu_free(w->cpu);
    w->cpu = NULL;
    uvcc_session_free(w->session);
    w->session = NULL;
    end_executor(w);
}

/* Rounds are those of one worker: the others' run beside them. */
void worker_stats(const worker *w, party_totals *sum) {
    uvcc_session_stats st = {0};
    if (w->session == NULL)
        return;
    uvcc_session_get_stats(w->session, &st);
    sum->bytes_online += st.bytes_online;
    sum->bytes_preprocessing += st.bytes_preprocessing;
    sum->messages += st.messages;
    sum->retransmissions += st.retransmissions;
    sum->rounds += w == &w->party->worker[0] ? st.rounds : 0;
}

int worker_open(worker *w, party *p, uint32_t rank) {
    const uint32_t stages = p->c.stages, ranks = p->c.tensor_ranks;
    *w = (worker){.party = p,
                  .rank = rank,
                  .place = {.replica = (uint16_t)(rank / ranks / stages),
                            .stage = (uint16_t)(rank / ranks % stages),
                            .tensor_rank = (uint16_t)(rank % ranks)}};
    return p->kind->program(p->work, &w->place, &w->place.program);
}

void worker_close(worker *w) {
    worker_end(w);
    uvcc_program_free(w->place.program);
    w->place.program = NULL;
}

void worker_abort(worker *w, uint16_t reason, uint64_t now) {
    if (w->session == NULL || w->aborted || w->closed)
        return;
    if (uvcc_session_abort(w->session, reason, now) != 0) /* it closes already */
        (void)uvcc_session_close(w->session, now);
}

/* ---- steps ---- */

static void refused(worker *w, uint32_t step, const char *what) {
    char text[64];
    (void)snprintf(text, sizeof text, "%s of step %u is refused", what, step + 1);
    failed(w, text, uvcc_store_error(w->party->store));
}

/* 0: it is given or not this party's; UVCC_ERR_AGAIN: later. */
static int give_one(worker *w, const uvcc_io_desc *in, uint64_t now) {
    party *p = w->party;
    if (in->owner != p->c.party)
        return 0;
    const int64_t *v = p->kind->input(p->work, &w->place, w->given, in->id);
    if (v == NULL) {
        party_fail_by(p, EXIT_FAILED, UVCC_ABORT_DATA);
        return UVCC_ERR_STATE;
    }
    const int rc = uvcc_store_input(p->store, w->session, w->given, in->id, v, now);
    if (rc != 0 && rc != UVCC_ERR_AGAIN && rc != UVCC_ERR_ABORTED)
        refused(w, w->given, "an input");
    return rc;
}

void worker_give(worker *w, uint64_t now) {
    party *p = w->party;
    if (p->make)
        return;
    for (; w->given < w->agreed; w->given++, w->inputs = 0) {
        const char *name;
        bool ahead;
        const uint32_t entry = p->kind->entry(p->work, &w->place, w->given, &name, &ahead);
        if (p->kind->ready != NULL && !p->kind->ready(p->work, &w->place, w->session, w->given))
            return;
        for (; w->inputs < uvcc_program_input_count(w->place.program, entry); w->inputs++)
            if (give_one(w, uvcc_program_input_at(w->place.program, entry, w->inputs), now) != 0)
                return;
    }
}

/* False: later. First values and those of a step wait for what is being set still: the tensors of a
 * checkpoint. */
static bool set_values(worker *w, uint32_t step) {
    party *p = w->party;
    int status = EXIT_DONE;
    if (w->unset)
        status = p->kind->first_values(p->work, &w->place, w->session);
    w->unset = w->unset && status != EXIT_DONE;
    if (status == EXIT_DONE && p->kind->prepare != NULL && w->prepared == step)
        status = p->kind->prepare(p->work, &w->place, w->session, step);
    if (status == EXIT_DONE)
        w->prepared = step + 1;
    else if (status != WORK_LATER)
        party_fail(p, status);
    return status == EXIT_DONE;
}

/* Public values are set between two steps, so a kind that has some lets no step be agreed ahead. */
bool worker_step(worker *w, uint32_t step, uint64_t now) {
    party *p = w->party;
    const char *name;
    bool ahead = false;
    const uint32_t entry = p->kind->entry(p->work, &w->place, step, &name, &ahead);
    if (w->aborted || w->agreed != step || step > w->finished + ahead)
        return true;
    if (!set_values(w, step))
        return true;
    const int rc = uvcc_store_step(p->store, w->session, step, entry, now);
    if (rc == UVCC_ERR_AGAIN || rc == UVCC_ERR_ABORTED)
        return true;
    if (rc == UVCC_ERR_IO || rc == UVCC_ERR_NOMEM) {
        p->retry_ns = now + NS_PER_S;
        party_trouble(p, "step %u waits: %s; trying again", step + 1, uvcc_store_error(p->store));
        return true;
    }
    if (rc != 0) {
        refused(w, step, "the agreement");
        return true;
    }
    w->agreed++;
    worker_give(w, now);
    return false;
}
