/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c - see peers.h. Nothing here looks at the clock to find out whether others are done: that
 * nothing moves anywhere follows from two exchanges of numbers. */
#include "peers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/host.h>
#include <uvcc/net.h>
#include <uvcc/uvcc.h>

#include "../crew.h"
#include "../interrupt.h"
#include "../report.h"
#include "../seeded.h"

#define MS      1000000ull
#define S       (1000 * MS)
#define LOOK_NS (100 * MS) /* between looks at the connections */
#define TELL_NS (3 * S)    /* before a peer that is away is told of */
#define BYE_NS  (2 * S)    /* of a run that failed: until the others were told */

typedef struct peers_end { /* one of the two sessions */
    uvcc_session *s;
    uvcc_cpu *cpu;
    bool in_net, ready, closed;
    uint32_t finished;
} peers_end;

struct peers {
    const bench_job *job;
    unsigned party;
    uvcc_net *net;
    crew *crew; /* NULL: there are not enough cores */
    uvcc_program *program;
    uvcc_seeded_random random;
    session_log log;
    char net_line[256];
    peers_end numbers, work;
    uint32_t exchanges;
    peers_hooks hooks;
    int status; /* of a hook, or of an event that ends all */
    bool over;  /* ends are expected */
    atomic_bool given_up;
    uint64_t away_since[UVCC_PARTIES], look_at;
    bool told[UVCC_PARTIES];
};

uint64_t peers_now(void) {
    return uvcc_host_now_ns();
}

static int failed(const peers *x, const char *what, int rc) {
    const char *line = *x->net_line != '\0' ? x->net_line : x->log.line;
    return report_error(rc == UVCC_ERR_CONFIG ? EXIT_BAD_INPUT : EXIT_FAILED, "%s: %s%s%s", what,
                        uvcc_error_text(rc), *line != '\0' ? ": " : "", line);
}

/* ---- the net ---- */

static void keep_line(void *user, uvcc_log_level level, const char *line) {
    peers *x = user;
    if (level <= UVCC_LOG_WARN)
        (void)snprintf(x->net_line, sizeof x->net_line, "%s", line);
}

/* Whether a peer is not there, and a line on that. */
static bool is_away(const peers *x, unsigned q, char out[PEERS_TEXT_BYTES]) {
    const peers_end *end = x->work.in_net ? &x->work : &x->numbers;
    uvcc_net_peer at = {.size = sizeof at};
    if (q == x->party || uvcc_net_peer_info(x->net, end->s, (uint8_t)q, &at) != 0 || at.connected)
        return false;
    const char *why = *at.why != '\0' ? at.why : at.dials ? "no answer" : "it has not called";
    (void)snprintf(out, PEERS_TEXT_BYTES, "party %u is not connected (%s: %s)", q,
                   x->job->address[q], why);
    return true;
}

/* Whether a peer is there and was not heard for half of the time after which that is an end: the
 * other one may see it first, and end. */
static bool is_quiet(const peers *x, unsigned q, char out[PEERS_TEXT_BYTES]) {
    uvcc_peer_info at = {.size = sizeof at};
    if (q == x->party || !x->numbers.in_net ||
        uvcc_session_peer_info(x->numbers.s, (uint8_t)q, &at) != 0 || at.heard_ns == UVCC_NEVER ||
        peers_now() - at.heard_ns < x->job->wait_s * S / 2)
        return false;
    (void)snprintf(out, PEERS_TEXT_BYTES, "party %u (%s) is connected and says nothing", q,
                   x->job->address[q]);
    return true;
}

void peers_away(const peers *x, char out[PEERS_TEXT_BYTES]) {
    *out = '\0';
    for (unsigned q = 0; x != NULL && q < UVCC_PARTIES; q++)
        if (is_away(x, q, out))
            return;
    for (unsigned q = 0; x != NULL && q < UVCC_PARTIES; q++)
        if (is_quiet(x, q, out))
            return;
}

/* For as long as the job lets it: it never comes back, since a run is not begun anew. */
static int missing(const peers *x, unsigned q) {
    char why[PEERS_TEXT_BYTES];
    const uint32_t s = x->job->wait_s;
    if (is_away(x, q, why))
        return report_error(EXIT_FAILED,
                            "%s, for %u s now: start all three processes, with the same --job", why,
                            s);
    return report_error(EXIT_FAILED,
                        "party %u (%s) is connected and says nothing, for %u s now: its process "
                        "was stopped, or its machine or the way there is gone",
                        q, x->job->address[q], s);
}

static int on_event(peers *x, peers_end *end, const uvcc_event *e) {
    char away[PEERS_TEXT_BYTES];
    end->ready = end->ready || e->kind == UVCC_EVENT_READY;
    end->closed = end->closed || e->kind == UVCC_EVENT_CLOSED;
    end->finished += e->kind == UVCC_EVENT_STEP_FINISHED;
    if (x->over || x->status != EXIT_DONE /* which was said */ ||
        (e->kind != UVCC_EVENT_ABORTED && e->kind != UVCC_EVENT_MISMATCH &&
         e->kind != UVCC_EVENT_PEER_SILENT))
        return EXIT_DONE;
    if (interrupted()) /* so were the others, which were sooner */
        return EXIT_INTERRUPTED;
    if (e->kind == UVCC_EVENT_PEER_SILENT)
        return missing(x, e->peer);
    if (e->kind == UVCC_EVENT_MISMATCH)
        return report_error(EXIT_BAD_INPUT,
                            "party %u does not fit: another %s; give all three processes the same "
                            "command, of the same version, but for --party",
                            e->peer, e->text);
    peers_away(x, away);
    return report_error(EXIT_FAILED, "the run is over: %s%s%s%s%s", uvcc_abort_text(e->reason),
                        e->text != NULL ? ": " : "", e->text != NULL ? e->text : "",
                        *away != '\0' ? "; " : "", away);
}

static void on_numbers(void *user, uvcc_session *s, const uvcc_event *e, uint64_t now) {
    peers *x = user;
    (void)s, (void)now;
    const int status = on_event(x, &x->numbers, e);
    x->status = x->status != EXIT_DONE ? x->status : status;
}

static void on_work(void *user, uvcc_session *s, const uvcc_event *e, uint64_t now) {
    peers *x = user;
    (void)s, (void)now;
    int status = x->over || x->status != EXIT_DONE ? EXIT_DONE : x->hooks.event(x->hooks.user, e);
    if (status == EXIT_DONE)
        status = on_event(x, &x->work, e);
    x->status = x->status != EXIT_DONE ? x->status : status;
}

static int add(peers *x, peers_end *end,
               void (*event)(void *, uvcc_session *, const uvcc_event *, uint64_t)) {
    uvcc_net_session how = {
        .size = sizeof how, .party = (uint8_t)x->party, .cpu = end->cpu, .event = event, .user = x};
    for (unsigned q = 0; q < UVCC_PARTIES; q++)
        how.address[q] = q != x->party ? x->job->address[q] : NULL;
    const int rc = uvcc_net_add(x->net, end->s, &how);
    end->in_net = rc == 0;
    return rc == 0 ? EXIT_DONE : failed(x, "the net", rc);
}

/* Where it listens. */
static const char *own_address(const peers *x) {
    const char *own = x->job->listen[x->party];
    return own != NULL ? own : x->job->address[x->party];
}

/* NULL: it has none. */
static const char *socket_file(const char *address) {
    return strncmp(address, "unix:", 5) == 0 ? address + 5 : NULL;
}

static int open_net(peers *x) {
    uvcc_net_config c;
    uvcc_net_config_default(&c);
    c.alloc = uvcc_host_allocator();
    c.random = uvcc_host_random();
    c.log = (uvcc_logger){keep_line, x};
    crew_share_net(x->crew, &c);
    int rc = uvcc_net_new(&x->net, &c);
    if (rc != 0)
        return failed(x, "the net", rc);
    const char *own = own_address(x);
    rc = uvcc_net_listen(x->net, own, NULL, NULL);
    if (rc == 0 && socket_file(own) != NULL)
        temporary_begin(socket_file(own));
    if (rc == 0)
        return EXIT_DONE;
    return *x->net_line != '\0' ? report_error(EXIT_FAILED, "%s", x->net_line) : failed(x, own, rc);
}

/* ---- waiting ---- */

static int look_at_peers(peers *x, uint64_t now) {
    char why[PEERS_TEXT_BYTES];
    for (unsigned q = 0; q < UVCC_PARTIES; q++) {
        if (!is_away(x, q, why)) {
            x->away_since[q] = 0;
            x->told[q] = false;
            continue;
        }
        if (x->away_since[q] == 0)
            x->away_since[q] = now;
        const uint64_t away = now - x->away_since[q];
        if (away >= x->job->wait_s * S)
            return missing(x, q);
        if (away >= TELL_NS && !x->told[q])
            report_line(true, "waiting: %s", why);
        x->told[q] = x->told[q] || away >= TELL_NS;
    }
    return EXIT_DONE;
}

/* One turn of the net, which waits until something comes. */
static int turn(peers *x) {
    const uint64_t now = peers_now();
    if (interrupted())
        return EXIT_INTERRUPTED;
    if (now >= x->look_at) {
        const int status = x->over ? EXIT_DONE : look_at_peers(x, now);
        if (status != EXIT_DONE)
            return status;
        x->look_at = now + LOOK_NS;
    }
    const int rc = uvcc_net_wait(x->net, x->look_at);
    return rc < 0 && !x->over ? failed(x, "a session", rc) : x->status;
}

typedef struct errand {
    peers *x;
    int (*work)(void *user);
    void *user;
    int status;
    atomic_bool done;
} errand;

static void *run_errand(void *user) {
    errand *e = user;
    e->status = e->work(e->user);
    atomic_store(&e->done, true);
    uvcc_net_wake(e->x->net);
    return NULL;
}

bool peers_given_up(const peers *x) {
    return x != NULL && atomic_load(&x->given_up);
}

int peers_meanwhile(peers *x, int (*work)(void *user), void *user) {
    errand e = {.x = x, .work = work, .user = user};
    pthread_t thread;
    int status = x->status;
    if (pthread_create(&thread, NULL, run_errand, &e) != 0)
        return report_error(EXIT_FAILED, "a thread cannot be made");
    while (status == EXIT_DONE && !atomic_load(&e.done))
        status = turn(x);
    atomic_store(&x->given_up, status != EXIT_DONE);
    (void)pthread_join(thread, NULL);
    return status != EXIT_DONE ? status : e.status;
}

int peers_run(peers *x) {
    int status = x->status;
    while (status == EXIT_DONE && !x->hooks.reached(x->hooks.user))
        status = turn(x);
    return status;
}

/* ---- numbers ---- */

static int make_program(peers *x) {
    const uvcc_allocator al = uvcc_host_allocator();
    char name[UVCC_PARTIES][8];
    int rc = uvcc_program_new(&x->program, &al);
    if (rc == 0)
        rc = uvcc_program_entry(x->program, "numbers");
    for (uint8_t p = 0; p < UVCC_PARTIES && rc >= 0; p++) {
        (void)snprintf(name[p], sizeof name[p], "of %u", p);
        const uvcc_tensor_desc d = {.name = name[p],
                                    .rows = 1,
                                    .cols = PEERS_NUMBERS,
                                    .bits = PEERS_NUMBER_BITS,
                                    .lifetime = UVCC_TRANSIENT,
                                    .in_buffer_of = UVCC_NO_TENSOR};
        rc = uvcc_program_tensor(x->program, &d);
        if (rc >= 0)
            rc = uvcc_program_input(x->program, p, p, p);
        if (rc >= 0)
            rc = uvcc_program_output(x->program, p, p);
    }
    return rc < 0 ? rc : uvcc_program_finish(x->program, NULL, 0);
}

static int open_numbers(peers *x) {
    const uvcc_allocator al = uvcc_host_allocator();
    const uvcc_cpu_config cpu = {.size = sizeof cpu, .alloc = al, .mode = UVCC_CPU_INLINE};
    uvcc_config c;
    int rc = make_program(x);
    if (rc == 0)
        rc = uvcc_config_default(&c, sizeof c);
    if (rc != 0)
        return failed(x, "numbers", rc);
    seeded_session(&c, &al, "bench numbers", 0, x->party, NULL, &x->log);
    c.random = uvcc_seeded(&x->random, 0, x->party);
    c.checks.audit_off = true;
    c.links.keepalive_ns = 0; /* in time for silence_ns */
    c.links.silence_ns = x->job->wait_s * S;
    rc = uvcc_cpu_new(&x->numbers.cpu, &cpu);
    if (rc == 0)
        rc = uvcc_session_new(&x->numbers.s, &c);
    if (rc == 0)
        rc = uvcc_session_load_program(x->numbers.s, x->program);
    if (rc == 0)
        rc = uvcc_session_start(x->numbers.s, peers_now());
    return rc == 0 ? add(x, &x->numbers, on_numbers) : failed(x, "numbers", rc);
}

int peers_exchange(peers *x, const uint64_t own[PEERS_NUMBERS],
                   uint64_t out[UVCC_PARTIES][PEERS_NUMBERS]) {
    const uint32_t step = x->exchanges++;
    int status = x->status;
    int rc = uvcc_session_step(x->numbers.s, step, 0, peers_now());
    if (rc == 0)
        rc = uvcc_session_input(x->numbers.s, step, x->party, (const int64_t *)own, peers_now());
    if (rc != 0)
        return failed(x, "numbers", rc);
    while (status == EXIT_DONE && x->numbers.finished <= step)
        status = turn(x);
    for (uint8_t p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
        const int64_t *v = uvcc_session_output(x->numbers.s, step, p);
        if (v == NULL)
            return report_error(EXIT_FAILED, "numbers of party %u did not open", p);
        memcpy(out[p], v, sizeof out[p]);
    }
    return status;
}

/* ---- nothing moves ---- */

/* Neither jobs nor anything that a peer has not acknowledged; what it gives no credit for waits,
 * but the first message does not for long: credit is on its way then. */
static bool quiet(const peers *x) {
    uvcc_session_stats st;
    if (uvcc_cpu_pending(x->work.cpu) != 0)
        return false;
    uvcc_session_get_stats(x->work.s, &st);
    for (uint8_t q = 0; q < UVCC_PARTIES; q++) {
        uvcc_peer_info at = {.size = sizeof at};
        if (q == x->party)
            continue;
        if (uvcc_session_peer_info(x->work.s, q, &at) != 0 || at.unacked_messages != 0 ||
            (at.queued_messages != 0 && (!at.blocked || st.messages == 0)))
            return false;
    }
    return true;
}

/* Goes on as long as there is something to do at once, and waits while this party is not quiet. */
static int until_quiet(peers *x) {
    int status = x->status;
    while (status == EXIT_DONE) {
        const int rc = uvcc_net_turn(x->net);
        if (rc < 0)
            return failed(x, "a session", rc);
        status = interrupted() ? EXIT_INTERRUPTED : x->status;
        if (rc != 0 || status != EXIT_DONE)
            continue;
        if (quiet(x))
            break;
        status = turn(x);
    }
    return status;
}

/* Each tells when it is quiet what its session did until then, twice: where nobody did anything
 * from the one time to the other, all three were quiet in between, with nothing on its way. */
int peers_settle(peers *x) {
    uint64_t own[PEERS_NUMBERS] = {0}, before[UVCC_PARTIES][2] = {{0}};
    uint64_t(*all)[PEERS_NUMBERS] = calloc(UVCC_PARTIES, sizeof *all);
    int status = all != NULL ? x->status : report_error(EXIT_FAILED, "out of memory");
    bool same = false;
    for (unsigned told = 0; !same && status == EXIT_DONE; told++) {
        uvcc_session_stats st;
        status = until_quiet(x);
        if (status != EXIT_DONE)
            break;
        uvcc_session_get_stats(x->work.s, &st);
        own[0] = st.jobs;
        own[1] = st.messages;
        status = peers_exchange(x, own, all);
        same = status == EXIT_DONE && told != 0;
        for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++) {
            same = same && memcmp(before[p], all[p], sizeof before[p]) == 0;
            memcpy(before[p], all[p], sizeof before[p]);
        }
    }
    free(all);
    return status;
}

/* ---- the beginning and the end ---- */

int peers_open(peers **out, const bench_job *j, unsigned party) {
    peers *x = *out = calloc(1, sizeof *x);
    if (x == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    x->job = j;
    x->party = party;
    /* Processes of one machine share its cores. */
    const unsigned here = bench_job_one_machine(j) ? UVCC_PARTIES : 1;
    const unsigned helpers = crew_threads(here) / here;
    int status = helpers == 0 || crew_new(&x->crew, helpers) == 0
                     ? open_net(x)
                     : report_error(EXIT_FAILED, "no memory for %u threads", helpers);
    if (status == EXIT_DONE)
        status = open_numbers(x);
    while (status == EXIT_DONE && !x->numbers.ready)
        status = turn(x);
    return status;
}

void peers_configure(peers *x, uvcc_cpu_config *executor) {
    executor->wake = uvcc_net_wake;
    executor->wake_user = x->net;
}

void peers_share_frames(peers *x, uvcc_config *session) {
    crew_share_frames(x->crew, session);
}

int peers_join(peers *x, uvcc_session *s, uvcc_cpu *executor, const peers_hooks *hooks) {
    x->hooks = *hooks;
    x->work.s = s;
    x->work.cpu = executor;
    return add(x, &x->work, on_work);
}

static bool all_closed(const peers *x) {
    return (!x->work.in_net || x->work.closed) && (!x->numbers.in_net || x->numbers.closed);
}

void peers_close(peers *x, bool well) {
    if (x == NULL)
        return;
    const uint64_t until = peers_now() + (well ? x->job->wait_s * S : BYE_NS);
    x->over = true;
    peers_end *const ends[] = {&x->work, &x->numbers};
    for (unsigned i = 0; i < 2; i++) {
        if (!ends[i]->in_net)
            continue;
        if (!well)
            (void)uvcc_session_abort(ends[i]->s, UVCC_ABORT_HOST, peers_now());
        (void)uvcc_session_close(ends[i]->s, peers_now());
    }
    while (x->net != NULL && !all_closed(x) && peers_now() < until &&
           uvcc_net_wait(x->net, peers_now() + LOOK_NS) >= 0) {
    }
}

void peers_free(peers *x) {
    if (x == NULL)
        return;
    uvcc_net_free(x->net);
    if (socket_file(own_address(x)) != NULL)
        temporary_end(socket_file(own_address(x)));
    uvcc_cpu_free(x->numbers.cpu);
    uvcc_session_free(x->numbers.s);
    uvcc_program_free(x->program);
    crew_free(x->crew);
    free(x);
}
