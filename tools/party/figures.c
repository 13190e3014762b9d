/* SPDX-License-Identifier: Apache-2.0 */
/* figures.c - see figures.h. Counters never fall within a process: what a run's sessions had
 * counted is in party_totals when they are gone. */
#include "figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../trace.h"
#include "log.h"
#include "status.h"

#define NS_PER_S 1000000000ull

/* ---- what is known ---- */

static const char *const states[] = {"connecting", "running", "stopping", "done", "ending"};
enum { STATES = sizeof states / sizeof states[0] };

static const char *state_of(const party *p) {
    if (p->interrupted)
        return states[2];
    if (p->finished)
        return states[3];
    if (p->phase != PARTY_RUNNING)
        return states[4];
    return states[p->told];
}

static void worker_name(const worker *w, char out[32]) {
    (void)snprintf(out, 32, "r%u-s%u-t%u", w->place.replica, w->place.stage, w->place.tensor_rank);
}

static const char *worker_state(const worker *w) {
    if (w->session == NULL)
        return "waits";
    if (w->closed)
        return "closed";
    if (w->aborted)
        return "stopped";
    return w->ready ? "ready" : "handshake";
}

static uint32_t steps_done(const party *p) {
    uint32_t step = UINT32_MAX;
    for (uint32_t i = 0; i < p->workers; i++)
        step = p->worker[i].finished < step ? p->worker[i].finished : step;
    return p->told || p->finished ? step : 0;
}

static party_totals totals_of(const party *p) {
    party_totals t = p->totals;
    for (uint32_t i = 0; i < p->workers; i++)
        worker_stats(&p->worker[i], &t);
    return t;
}

/* Sums over the sessions that are here. */
static uvcc_session_stats sessions_of(const party *p) {
    uvcc_session_stats sum = {0};
    for (uint32_t i = 0; i < p->workers; i++) {
        uvcc_session_stats st = {0};
        uvcc_session_get_stats(p->worker[i].session, &st);
        sum.memory_bytes += st.memory_bytes;
        sum.memory_peak_bytes += st.memory_peak_bytes;
        sum.tensor_bytes += st.tensor_bytes;
        sum.tensor_peak_bytes += st.tensor_peak_bytes;
    }
    return sum;
}

static bool is_connected(const party *p, const uvcc_peer_info *info, const uvcc_net_peer *net) {
    return config_datagram(&p->c) ? info->connected : net->connected;
}

/* What is known of a worker's peer; false: nothing. */
static bool peer_of(const worker *w, uint8_t q, uvcc_peer_info *info, uvcc_net_peer *net) {
    *info = (uvcc_peer_info){.size = sizeof *info};
    *net = (uvcc_net_peer){.size = sizeof *net};
    if (w->session == NULL || q == w->party->c.party ||
        uvcc_session_peer_info(w->session, q, info) != 0 ||
        uvcc_net_peer_info(w->party->net, w->session, q, net) != 0)
        return false;
    if (is_connected(w->party, info, net) && party_rests(w->party, info))
        info->waits_for = UVCC_WAIT_NONE;
    return true;
}

static double seconds(uint64_t ns) {
    return (double)ns * 1e-9;
}

static double waited_s(const uvcc_peer_info *info, uint64_t now) {
    return info->waits_for != UVCC_WAIT_NONE && info->wait_since_ns < now
               ? seconds(now - info->wait_since_ns)
               : 0;
}

/* ---- metrics ---- */

static void head(FILE *to, const char *name, const char *type, const char *help) {
    (void)fprintf(to, "# HELP uvcc_%s %s\n# TYPE uvcc_%s %s\n", name, help, name, type);
}

static void value(FILE *to, const party *p, const char *name, const char *labels, double v) {
    (void)fprintf(to, "uvcc_%s{party=\"%u\"%s%s} %.15g\n", name, p->c.party,
                  *labels != '\0' ? "," : "", labels, v);
}

static void one(FILE *to, const party *p, const char *name, const char *type, const char *help,
                double v) {
    head(to, name, type, help);
    value(to, p, name, "", v);
}

static void label_text(FILE *to, const char *text) {
    for (; *text != '\0'; text++)
        if (*text == '\n')
            (void)fputs("\\n", to);
        else
            (void)fprintf(to, "%s%c", *text == '"' || *text == '\\' ? "\\" : "", *text);
}

static void put_job(FILE *to, const party *p) {
    char label[64];
    head(to, "job_info", "gauge", "The job and the version of uvcc.");
    (void)fprintf(to, "uvcc_job_info{party=\"%u\",name=\"", p->c.party);
    label_text(to, p->c.name);
    (void)fprintf(to, "\",kind=\"%s\",version=\"%s\"} 1\n", p->kind->name, uvcc_version());
    head(to, "state", "gauge", "1 for the state that the process is in.");
    for (size_t i = 0; i < STATES; i++) {
        (void)snprintf(label, sizeof label, "state=\"%s\"", states[i]);
        value(to, p, "state", label, strcmp(states[i], state_of(p)) == 0);
    }
    one(to, p, "uptime_seconds", "gauge", "Seconds since the process began.",
        seconds(uvcc_host_now_ns() - p->started_ns));
    one(to, p, "runs_total", "counter", "Runs that this process began.", p->runs);
    one(to, p, "run", "gauge", "The number of the present run.", p->run);
    one(to, p, "steps", "gauge", "Steps of the whole job; 0: it serves, and has no last one.",
        party_steps(p));
    one(to, p, "steps_done", "gauge", "Steps that are finished, those of earlier runs too.",
        steps_done(p));
    one(to, p, "steps_total", "counter", "Steps that this process finished, repeated ones too.",
        p->steps_here);
    one(to, p, "last_step_seconds", "gauge",
        "How long the last step took, from the end of the one before it; 0: none yet.",
        seconds(p->figures.last_step_ns));
}

static void put_traffic(FILE *to, const party *p) {
    const party_totals t = totals_of(p);
    uvcc_net_stats net = {0};
    uvcc_net_get_stats(p->net, &net);
    head(to, "message_bytes_total", "counter",
         "Payload of messages sent, each once: online, or keys and masks ahead of it.");
    value(to, p, "message_bytes_total", "plane=\"online\"", (double)t.bytes_online);
    value(to, p, "message_bytes_total", "plane=\"preprocessing\"", (double)t.bytes_preprocessing);
    one(to, p, "messages_total", "counter", "Messages sent, each once.", (double)t.messages);
    one(to, p, "rounds_total", "counter", "Rounds of finished steps, of one worker.",
        (double)t.rounds);
    one(to, p, "retransmissions_total", "counter", "Frames that were sent again.",
        (double)t.retransmissions);
    head(to, "network_bytes_total", "counter", "Bytes of frames on connections or in packets.");
    value(to, p, "network_bytes_total", "direction=\"rx\"", (double)net.bytes_rx);
    value(to, p, "network_bytes_total", "direction=\"tx\"", (double)net.bytes_tx);
    head(to, "network_packets_total", "counter", "UDP packets.");
    value(to, p, "network_packets_total", "direction=\"rx\"", (double)net.packets_rx);
    value(to, p, "network_packets_total", "direction=\"tx\"", (double)net.packets_tx);
    one(to, p, "connections", "gauge", "Connections that are up.", net.connections);
    one(to, p, "connections_lost_total", "counter", "Connections that ended unasked.",
        (double)net.connections_lost);
    one(to, p, "dials_total", "counter", "Attempts to connect.", (double)net.dials);
    one(to, p, "accepts_total", "counter", "Connections that were accepted.", (double)net.accepts);
    one(to, p, "calls_refused_total", "counter",
        "Callers that were turned away: for no session here, without TLS, too late.",
        (double)net.refused);
}

static void put_load(FILE *to, const party *p) {
    static const char *const what[] = {"peer", "compute", "disk"};
    char label[64], name[32];
    const uvcc_session_stats st = sessions_of(p);
    head(to, "memory_bytes", "gauge", "Memory of the sessions: all of it, and that of tensors.");
    value(to, p, "memory_bytes", "of=\"sessions\"", (double)st.memory_bytes);
    value(to, p, "memory_bytes", "of=\"tensors\"", (double)st.tensor_bytes);
    head(to, "memory_peak_bytes", "gauge", "The most of it in this run.");
    value(to, p, "memory_peak_bytes", "of=\"sessions\"", (double)st.memory_peak_bytes);
    value(to, p, "memory_peak_bytes", "of=\"tensors\"", (double)st.tensor_peak_bytes);
    head(to, "wait_seconds_total", "counter", "Seconds in which the process waited, by what for.");
    for (unsigned i = 0; i < sizeof what / sizeof what[0]; i++) {
        (void)snprintf(label, sizeof label, "reason=\"%s\"", what[i]);
        value(to, p, "wait_seconds_total", label, seconds(p->figures.waited_ns[i]));
    }
    head(to, "jobs_pending", "gauge", "Compute jobs that are queued or running.");
    for (uint32_t i = 0; i < p->workers; i++) {
        worker_name(&p->worker[i], name);
        (void)snprintf(label, sizeof label, "worker=\"%s\"", name);
        const uvcc_cpu *cpu = p->worker[i].cpu;
        value(to, p, "jobs_pending", label, cpu != NULL ? uvcc_cpu_pending(cpu) : 0);
    }
}

typedef enum peer_figure {
    CONNECTED,
    SILENT,
    QUEUED,
    UNACKED,
    WAITED,
    RTT,
    PEER_FIGURES
} peer_figure;

static double peer_figure_of(const party *p, peer_figure which, const uvcc_peer_info *info,
                             const uvcc_net_peer *net) {
    switch (which) {
    case CONNECTED:
        return is_connected(p, info, net);
    case SILENT:
        return info->silent;
    case QUEUED:
        return (double)info->queued_bytes;
    case UNACKED:
        return (double)info->unacked_bytes;
    case WAITED:
        return waited_s(info, uvcc_host_now_ns());
    default:
        return seconds(net->rtt_ns);
    }
}

static void put_peers(FILE *to, const party *p) {
    static const struct {
        const char *name, *help;
    } figure[PEER_FIGURES] = {
        {"peer_connected", "1: there is a connection, or packets came."},
        {"peer_silent", "1: nothing was heard for the configured time."},
        {"peer_queued_bytes", "Payload of messages that were not sent yet."},
        {"peer_unacked_bytes", "Payload of messages that were sent and not acknowledged yet."},
        {"peer_wait_seconds",
         "For how long something of the peer has been waited for; 0: nothing."},
        {"peer_rtt_seconds",
         "Smoothed round trip time, where it is measured: not of Unix sockets."}};
    char label[64], name[32];
    uvcc_peer_info info;
    uvcc_net_peer net;
    for (unsigned f = 0; f < PEER_FIGURES; f++) {
        head(to, figure[f].name, "gauge", figure[f].help);
        for (uint32_t i = 0; i < p->workers; i++)
            for (uint8_t q = 0; q < UVCC_PARTIES; q++) {
                if (!peer_of(&p->worker[i], q, &info, &net) || (f == RTT && net.rtt_ns == 0))
                    continue;
                worker_name(&p->worker[i], name);
                (void)snprintf(label, sizeof label, "peer=\"%u\",worker=\"%s\"", q, name);
                value(to, p, figure[f].name, label, peer_figure_of(p, (peer_figure)f, &info, &net));
            }
    }
}

static void put_metrics(void *user, FILE *to) {
    const party *p = user;
    log_counts c;
    put_job(to, p);
    put_traffic(to, p);
    put_load(to, p);
    put_peers(to, p);
    log_get_counts(p->figures.log, &c);
    head(to, "log_lines_total", "counter", "Lines of the log, by what became of them.");
    value(to, p, "log_lines_total", "result=\"written\"", (double)c.lines);
    value(to, p, "log_lines_total", "result=\"dropped\"", (double)c.dropped);
    value(to, p, "log_lines_total", "result=\"lost\"", (double)c.lost);
}

/* ---- the page for people ---- */

static const char *wait_name(uint8_t waits_for) {
    static const char *const names[] = {
        "",         "handshake", "agreement",       "signed root",
        "messages", "end",       "acknowledgement", "word on a stop"};
    return waits_for < sizeof names / sizeof names[0] ? names[waits_for] : "";
}

/* What others may read too. */
static const char *told_text(const worker *w) {
    return w->party->kind->own_text ? "" : w->text;
}

/* What comes from elsewhere need not be UTF-8: then '?' stands for what JSON cannot say. */
static json_t *any_text(const char *text) {
    char clean[512];
    json_t *o = json_string(text);
    if (o != NULL)
        return o;
    (void)snprintf(clean, sizeof clean, "%s", text);
    for (char *at = clean; *at != '\0'; at++)
        *at = (unsigned char)*at < 0x80 ? *at : '?';
    return json_string(clean);
}

static json_t *peer_page(const worker *w, uint8_t q, uint64_t now) {
    uvcc_peer_info info;
    uvcc_net_peer net;
    if (!peer_of(w, q, &info, &net))
        return NULL;
    json_t *o =
        json_pack("{s:i, s:b, s:o, s:o, s:b, s:f, s:I, s:I, s:s, s:f}", "party", (int)q,
                  "connected", (int)is_connected(w->party, &info, &net), "address",
                  any_text(net.address), "why", any_text(net.why), "silent", (int)info.silent,
                  "rtt_ms", (double)net.rtt_ns * 1e-6, "queued_bytes",
                  (json_int_t)info.queued_bytes, "unacked_bytes", (json_int_t)info.unacked_bytes,
                  "waits_for", wait_name(info.waits_for), "waited_s", waited_s(&info, now));
    if (o != NULL && info.waits_for == UVCC_WAIT_BATCH)
        (void)json_object_set_new(o, "wait_op", json_integer(info.wait_op));
    if (o != NULL && info.waits_for != UVCC_WAIT_NONE)
        (void)json_object_set_new(o, "wait_step", json_integer(info.wait_step));
    return o;
}

static json_t *worker_page(const worker *w, uint64_t now) {
    char name[32];
    uint8_t sid[32];
    json_t *peers = json_array();
    worker_name(w, name);
    for (uint8_t q = 0; q < UVCC_PARTIES; q++) {
        json_t *peer = peer_page(w, q, now);
        if (peer != NULL)
            (void)json_array_append_new(peers, peer);
    }
    json_t *o =
        json_pack("{s:s, s:s, s:i, s:i, s:s, s:o}", "worker", name, "state", worker_state(w), "run",
                  (int)w->run, "step", (int)w->finished, "text", told_text(w), "peers", peers);
    if (o != NULL && uvcc_session_sid_sub(w->session, sid) == 0)
        (void)json_object_set_new(o, "sid_sub", report_hex(sid, sizeof sid));
    return o;
}

static const char *phase_of(const party *p, uint32_t done) {
    const char *name = "";
    bool ahead;
    if (p->told && done < p->kind->steps(p->work))
        (void)p->kind->entry(p->work, &p->worker[0].place, done, &name, &ahead);
    return name;
}

static json_t *make_page(void *user) {
    const party *p = user;
    const uint64_t now = uvcc_host_now_ns();
    const party_totals t = totals_of(p);
    const uvcc_session_stats st = sessions_of(p);
    const uint32_t done = steps_done(p);
    const uint64_t *waited = p->figures.waited_ns;
    char waits[512] = "";
    json_t *workers = json_array();
    for (uint32_t i = 0; i < p->workers; i++)
        (void)json_array_append_new(workers, worker_page(&p->worker[i], now));
    if (p->workers != 0)
        (void)worker_waits(&p->worker[0], now, waits, sizeof waits);
    return json_pack(
        "{s:s, s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:s, s:s, s:f, s:f, s:{s:I, s:I}, s:I, s:I, s:I, "
        "s:{s:f, s:f, s:f}, s:{s:I, s:I}, s:o, s:o, s:o}",
        "uvcc", uvcc_version(), "party", (int)p->c.party, "job", p->c.name, "kind", p->kind->name,
        "state", state_of(p), "run", (int)p->run, "step", (int)done, "steps", (int)party_steps(p),
        "phase", phase_of(p, done), "text", told_text(&p->worker[0]), "uptime_s",
        seconds(now - p->started_ns), "last_step_s", seconds(p->figures.last_step_ns), "bytes",
        "online", (json_int_t)t.bytes_online, "preprocessing", (json_int_t)t.bytes_preprocessing,
        "rounds", (json_int_t)t.rounds, "messages", (json_int_t)t.messages, "retransmissions",
        (json_int_t)t.retransmissions, "seconds", "peer", seconds(waited[WAITS_PEER]), "compute",
        seconds(waited[WAITS_COMPUTE]), "disk", seconds(waited[WAITS_DISK]), "memory", "bytes",
        (json_int_t)st.memory_bytes, "peak", (json_int_t)st.memory_peak_bytes, "waits",
        any_text(waits), "trouble", any_text(p->trouble.text), "workers", workers);
}

/* ---- times ---- */

void figures_step(party *p, uint64_t now) {
    const uint64_t before = p->figures.step_at_ns;
    p->figures.last_step_ns = before != 0 && before < now ? now - before : 0;
    p->figures.step_at_ns = now;
}

/* A session is always a peer's to wake, but for that of a job that serves and that nobody asks. */
static bool waits_for_peers(const worker *w) {
    uvcc_peer_info info;
    uvcc_net_peer net;
    bool any = w->session != NULL && w->party->kind->queue == NULL;
    for (uint8_t q = 0; q < UVCC_PARTIES && !any; q++)
        any = peer_of(w, q, &info, &net) && info.waits_for != UVCC_WAIT_NONE;
    return any;
}

figures_wait figures_waits(const party *p, uint64_t now) {
    bool any = false;
    if (now < p->retry_ns)
        return WAITS_DISK;
    for (uint32_t i = 0; i < p->workers; i++) {
        any |= waits_for_peers(&p->worker[i]);
        if (p->worker[i].cpu != NULL && uvcc_cpu_pending(p->worker[i].cpu) != 0)
            return WAITS_COMPUTE;
    }
    return any ? WAITS_PEER : WAITS_NOTHING;
}

void figures_waited(party *p, figures_wait what, uint64_t ns) {
    if (what != WAITS_NOTHING)
        p->figures.waited_ns[what] += ns;
}

/* ---- the log ---- */

static log_place place_of(const worker *w) {
    log_place at = log_nowhere;
    at.replica = w->place.replica;
    at.stage = w->place.stage;
    at.tensor_rank = w->place.tensor_rank;
    at.sid = uvcc_session_sid_tag(w->session);
    at.run = w->ready ? (int64_t)w->run : -1;
    return at;
}

void figures_line(const party *p, const worker *w, uvcc_log_level level, const char *source,
                  const char *line) {
    log_place at = log_nowhere;
    if (w != NULL && w->session != NULL)
        at = place_of(w);
    log_line(p->figures.log, level, source, &at, line);
}

void figures_say(const party *p, uvcc_log_level level, const char *event, const char *text) {
    log_line(p->figures.log, level, event, NULL, text);
}

void figures_event(const worker *w, const uvcc_event *e) {
    static const struct {
        const char *name;
        uvcc_log_level level;
        bool step, peer;
    } known[] = {[UVCC_EVENT_READY] = {"ready", UVCC_LOG_INFO, true, false},
                 [UVCC_EVENT_STEP_STARTED] = {"step_started", UVCC_LOG_DEBUG, true, false},
                 [UVCC_EVENT_STEP_FINISHED] = {"step_finished", UVCC_LOG_INFO, true, false},
                 [UVCC_EVENT_STEP_CANCELLED] = {"step_cancelled", UVCC_LOG_INFO, true, false},
                 [UVCC_EVENT_AUDIT] = {"audit", UVCC_LOG_DEBUG, true, true},
                 [UVCC_EVENT_CHECKPOINT] = {"checkpoint", UVCC_LOG_DEBUG, true, false},
                 [UVCC_EVENT_PEER_BYE] = {"peer_bye", UVCC_LOG_INFO, false, true},
                 [UVCC_EVENT_ABORTED] = {"aborted", UVCC_LOG_ERROR, true, false},
                 [UVCC_EVENT_CLOSED] = {"closed", UVCC_LOG_INFO, false, false},
                 [UVCC_EVENT_PEER_RESTARTED] = {"peer_restarted", UVCC_LOG_WARN, false, true},
                 [UVCC_EVENT_MISMATCH] = {"mismatch", UVCC_LOG_WARN, false, true},
                 [UVCC_EVENT_PEER_SILENT] = {"peer_silent", UVCC_LOG_WARN, false, true},
                 [UVCC_EVENT_PEER_HEARD] = {"peer_heard", UVCC_LOG_INFO, false, true}};
    if ((size_t)e->kind >= sizeof known / sizeof known[0] || known[e->kind].name == NULL)
        return;
    log_place at = place_of(w);
    at.run = e->run;
    at.step = known[e->kind].step ? (int64_t)e->step : -1;
    at.peer = known[e->kind].peer ? (int64_t)e->peer : -1;
    const char *text = e->text != NULL ? e->text : "";
    if (e->kind == UVCC_EVENT_STEP_FINISHED)
        text = told_text(w);
    const char *reason = e->kind == UVCC_EVENT_ABORTED ? uvcc_abort_text(e->reason) : "";
    log_write(w->party->figures.log, known[e->kind].level, known[e->kind].name, &at, "%s%s%s",
              reason, *reason != '\0' && *text != '\0' ? ": " : "", text);
}

/* ---- life ---- */

static int read_log(const party *p, log_config *c, char path[PARTY_PATH_BYTES]) {
    char text[256];
    const flag_message m = {text, sizeof text};
    if (log_config_read(c, p->c.log, &m) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: %s", p->c.file, text);
    c->party = (uint8_t)p->c.party;
    if (c->file == NULL)
        return EXIT_DONE;
    if (!config_path(&p->c, c->file, path))
        return report_error(EXIT_BAD_INPUT, "%s: log.file: the path is too long", p->c.file);
    c->file = path;
    return EXIT_DONE;
}

/* Several processes of a party have a port each, from the one that is given on; '%' in the path of
 * a Unix socket is the local rank. */
static int status_place(const party *p, char out[256]) {
    char why[300];
    const char *text = p->c.status, *colon = strrchr(text, ':'), *mark = strchr(text, '%');
    const bool path = strncmp(text, "unix:", 5) == 0;
    const uint32_t rank = p->c.all_workers ? 0 : p->c.local_rank;
    const unsigned long port = colon != NULL ? strtoul(colon + 1, NULL, 10) : 0;
    int n;
    if (path && mark != NULL)
        n = snprintf(out, 256, "%.*s%u%s", (int)(mark - text), text, rank, mark + 1);
    else if (!path && rank != 0 && port != 0)
        n = snprintf(out, 256, "%.*s:%lu", (int)(colon - text), text, port + rank);
    else
        n = snprintf(out, 256, "%s", text);
    if (n < 0 || n >= 256)
        return report_error(EXIT_BAD_INPUT, "%s: status: the address is too long", p->c.file);
    if (status_address_check(out, why, sizeof why) != 0)
        return report_error(EXIT_BAD_INPUT, "%s: status: %s", p->c.file, why);
    return EXIT_DONE;
}

int figures_log_path(const party *p, char path[PARTY_PATH_BYTES]) {
    log_config c = {0};
    *path = '\0';
    return p->c.log != NULL ? read_log(p, &c, path) : EXIT_DONE;
}

int figures_check(const party *p) {
    log_config c;
    char path[PARTY_PATH_BYTES], address[256];
    int status = p->c.log != NULL ? read_log(p, &c, path) : EXIT_DONE;
    if (status == EXIT_DONE && p->c.status != NULL)
        status = status_place(p, address);
    return status;
}

/* Of all workers here, under names that differ between parties: traces of several are merged. */
static int open_trace(party *p) {
    int status;
    p->figures.trace =
        trace_new(p->figures.trace_path, p->worker[0].place.program, p->workers, &status);
    for (uint32_t i = 0; i < p->workers && p->figures.trace != NULL; i++) {
        char name[64], place[32];
        worker_name(&p->worker[i], place);
        (void)snprintf(name, sizeof name, "party %u %s", p->c.party, place);
        trace_program(p->figures.trace, i, p->worker[i].place.program);
        trace_hook(p->figures.trace, i, name, NULL, NULL);
    }
    return status;
}

void figures_hook(const worker *w, uvcc_config *session, uvcc_cpu_config *executor) {
    const party *p = w->party;
    if (p->figures.trace != NULL)
        trace_hook(p->figures.trace, (uint32_t)(w - p->worker), NULL, session, executor);
}

void figures_forget(const party *p) {
    for (uint32_t i = 0; i < p->workers && p->figures.trace != NULL; i++)
        trace_forget(p->figures.trace, i);
}

int figures_finish(party *p) {
    return p->figures.trace != NULL ? trace_finish(p->figures.trace, report_stream(p->json))
                                    : EXIT_DONE;
}

int figures_open(party *p) {
    log_config c;
    char path[PARTY_PATH_BYTES], address[256], text[300];
    const flag_message m = {text, sizeof text};
    const status_source source = {put_metrics, make_page, p};
    if (p->c.log != NULL) {
        const int status = read_log(p, &c, path);
        if (status != EXIT_DONE)
            return status;
        if (log_open(&p->figures.log, &c, NULL, NULL, &m) != 0)
            return report_error(EXIT_BAD_INPUT, "%s: %s", p->c.file, text);
    }
    int status = p->figures.trace_path != NULL ? open_trace(p) : EXIT_DONE;
    if (status == EXIT_DONE && p->c.status != NULL)
        status = status_place(p, address);
    if (status != EXIT_DONE || p->c.status == NULL)
        return status;
    if (status_open(&p->figures.page, address, &source, text, sizeof text) != 0)
        return report_error(EXIT_FAILED, "%s: status: %s%s", p->c.file, text, party_in_use(text));
    report_line(true, "status at %s", status_address(p->figures.page));
    return EXIT_DONE;
}

void figures_close(party *p) {
    trace_free(p->figures.trace);
    p->figures.trace = NULL;
    status_close(p->figures.page);
    log_close(p->figures.log);
    p->figures.page = NULL;
    p->figures.log = NULL;
}
