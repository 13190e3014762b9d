/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_killed.c - parties whose hosts keep everything in stores, ended by SIGKILL, with and
 * without what the disk had not been told: nothing is lost but steps that not all had, no run comes
 * again, and the weights are those of a job that nobody disturbed.
 *
 * First all three in one process, over a loopback network, ended before each call that changes a
 * directory; then in processes of their own, over socket pairs, each ended somewhere, many times
 * (UVCC_STORE_KILLS says how often; a few dozen if it is not there). */
#define _DEFAULT_SOURCE
#include "disk.h"
#include "store_job.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uvcc/host.h>

enum { STEPS = 4, KILLS = 40, LONG_STEPS = 24, CALLS_MOST = 90, ENDED_EARLY = 3, WRONG = 4 };

/* What the parties of a job ever saw, of use to nobody but the test. */
typedef struct seen {
    bool any_run[3];
    uint32_t run[3];     /* the last that a store gave */
    uint32_t ready[3];   /* the last that a session was READY with, and one more */
    uint32_t started[3]; /* the last step that began, and one more */
    uint32_t finished[3];
    char fault[256];
} seen;
static seen *saw;

static char place[] = "/tmp/uvcc-killed-XXXXXX";

static void fresh(void) {
    test_remove_all("jobs");
    assert_int_equal(mkdir("jobs", 0700), 0);
    memset(saw, 0, sizeof *saw);
    memset(disk, 0, sizeof *disk);
}

/* In a child: what is wrong, for the parent to read. */
__attribute__((format(printf, 1, 2))) static void wrong(const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(saw->fault, sizeof saw->fault, format, args);
    va_end(args);
    _exit(WRONG);
}

static void must(bool good, const char *what) {
    if (!good)
        wrong("%s", what);
}

/* A run that a store gave is above all before, of whatever party. */
static void new_run(unsigned party, uint32_t run) {
    if (saw->any_run[party] && run <= saw->run[party])
        wrong("party %u: run %u comes again after %u", party, run, saw->run[party]);
    saw->any_run[party] = true;
    saw->run[party] = run;
}

static void on_event(void *user, unsigned party, const uvcc_event *e) {
    const unsigned *every = user;
    if (e->kind == UVCC_EVENT_READY) {
        if (e->run + 1 <= saw->ready[party])
            wrong("party %u: READY with run %u again", party, e->run);
        saw->ready[party] = e->run + 1;
        /* That a step began says that all have the checkpoint of an interval before. */
        for (unsigned p = 0; p < 3; p++)
            if (saw->started[p] > *every &&
                e->step < (saw->started[p] - 1 - *every) / *every * *every)
                wrong("step %u began, and the parties go on at %u", saw->started[p] - 1, e->step);
    } else if (e->kind == UVCC_EVENT_STEP_STARTED) {
        if (e->step + 1 > saw->started[party])
            saw->started[party] = e->step + 1;
    } else if (e->kind == UVCC_EVENT_STEP_FINISHED) {
        saw->finished[party] = e->step + 1;
    } else if (e->kind == UVCC_EVENT_MISMATCH) {
        wrong("party %u: MISMATCH, %s", party, e->text);
    } else if (e->kind == UVCC_EVENT_ABORTED) {
        wrong("party %u aborted: %s", party, e->text);
    }
}

/* How a child ended: 0 well, ENDED_EARLY, or -1 killed. */
static int end_of(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return -1;
    }
    if (WEXITSTATUS(status) == WRONG)
        fail_msg("%s", saw->fault);
    assert_true(WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == ENDED_EARLY);
    return WEXITSTATUS(status);
}

/* ---- all in one process ---- */

static void whole_job(unsigned every) {
    const job_options o = {
        .dir = "jobs", .steps = STEPS, .every = every, .on_event = on_event, .user = &every};
    static job j;
    const uvcc_allocator al = uvcc_host_allocator();
    must(uvcc_loopback_new(&j.net, &al, UVCC_PARTIES, false, 5) == 0, "no network");
    for (uint8_t p = 0; p < UVCC_PARTIES; p++) {
        if (job_open(&j.host[p], &o, p) != 0)
            wrong("party %u: %s", p, j.host[p].why);
        new_run(p, j.host[p].run);
    }
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        must(uvcc_session_start(j.host[p].session, 0) == 0, "no start");
    must(job_drive(&j, STEPS), "the steps do not come");
    must(job_close(&j), "no end");
    job_kill(&j);
    _exit(0);
}

static int run_whole(unsigned kill_at, unsigned every) {
    disk->calls = 0;
    disk->kill_at = kill_at;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        whole_job(every);
    return end_of(child);
}

static void at_every_call(void **state) {
    static const char *const parties[] = {"party-0", "party-1", "party-2"};
    (void)state;
    for (unsigned every = 1; every <= 2; every++) {
        fresh();
        assert_int_equal(run_whole(0, every), 0);
        const unsigned all = disk->calls;
        assert_true(all > 60);
        for (unsigned at = 1; at <= all; at++) {
            fresh();
            assert_int_equal(run_whole(at, every), -1);
            disk_lose(parties + at % 3, at / 3 % (4 - at % 3)); /* of none, one or more */
            if (at % 2 == 0) {
                (void)run_whole(1 + at * 7 % 60, every);
                disk_lose(parties, 3);
            }
            if (run_whole(0, every) != 0)
                fail_msg("killed before call %u: it does not go on", at);
            assert_int_equal(disk->torn, 0);
            for (unsigned p = 0; p < 3; p++)
                assert_int_equal(saw->finished[p], STEPS);
        }
    }
}

/* ---- in processes of their own ---- */

static size_t send_some(int fd, const uvcc_transmit *tx) {
    size_t sent = 0;
    for (uint32_t i = 0; i < tx->slice_count; i++) {
        const uvcc_slice *slice = &tx->slices[i];
        const ssize_t n = send(fd, slice->data, slice->len, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (n > 0)
            sent += (size_t)n;
        if (n < 0 || (size_t)n < slice->len)
            break;
    }
    return sent;
}

/* A peer that is gone before the end ends this process too: all three begin anew. */
static void feed(job_host *h, int fd[3], bool gone[3], uint64_t now) {
    static uint8_t bytes[65536];
    for (uint8_t peer = 0; peer < 3; peer++) {
        if (peer == h->party || gone[peer])
            continue;
        const ssize_t n = recv(fd[peer], bytes, sizeof bytes, MSG_DONTWAIT);
        if (n > 0)
            must(uvcc_session_feed(h->session, peer, bytes, (size_t)n, now) == 0, "feed");
        if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR)))
            continue;
        gone[peer] = true;
        uvcc_peer_info info = {.size = sizeof info};
        must(uvcc_session_peer_info(h->session, peer, &info) == 0, "peer_info");
        if (!info.bye)
            _exit(ENDED_EARLY);
        must(uvcc_session_peer_closed(h->session, peer, now) == 0, "peer_closed");
    }
}

static void send_all(job_host *h, const int fd[3], bool full[3], uint64_t now) {
    uvcc_transmit tx;
    memset(full, 0, 3 * sizeof full[0]);
    while (uvcc_session_poll_transmit(h->session, &tx, now) == 1) {
        const size_t n = send_some(fd[tx.peer], &tx);
        must(uvcc_session_transmit_done(h->session, tx.peer, tx.id, n, now) == 0, "done");
        full[tx.peer] = n < tx.total;
        if (full[tx.peer])
            return;
    }
}

static void wait_for(const job_host *h, const int fd[3], const bool gone[3], const bool full[3]) {
    struct pollfd fds[3];
    nfds_t n = 0;
    for (unsigned peer = 0; peer < 3; peer++)
        if (peer != h->party && !gone[peer])
            fds[n++] = (struct pollfd){.fd = fd[peer],
                                       .events = (short)(POLLIN | (full[peer] ? POLLOUT : 0))};
    (void)poll(fds, n,
               uvcc_host_timeout_ms(uvcc_session_next_deadline(h->session), uvcc_host_now_ns()));
}

static void one_party(uint8_t party, int fd[3], unsigned every) {
    const job_options o = {
        .dir = "jobs", .steps = LONG_STEPS, .every = every, .on_event = on_event, .user = &every};
    static job_host h;
    bool gone[3] = {false}, full[3];
    uvcc_completion done;
    const uvcc_job *work;
    if (job_open(&h, &o, party) != 0)
        wrong("party %u: %s", party, h.why);
    new_run(party, h.run);
    must(uvcc_session_start(h.session, uvcc_host_now_ns()) == 0, "start");
    for (uint8_t peer = 0; peer < 3; peer++)
        if (peer != party)
            must(uvcc_session_peer_open(h.session, peer, uvcc_host_now_ns()) == 0, "open");
    while (!h.closed) {
        const uint64_t now = uvcc_host_now_ns();
        feed(&h, fd, gone, now);
        while (uvcc_cpu_poll(h.cpu, &done) == 1)
            must(uvcc_session_complete(h.session, &done, now) == 0, "complete");
        if (now >= uvcc_session_next_deadline(h.session))
            must(uvcc_session_on_timer(h.session, now) == 0, "timer");
        job_turn(&h, now);
        if (h.ready && h.finished == LONG_STEPS && !h.closing) {
            h.closing = true;
            must(uvcc_session_close(h.session, now) == 0, "close");
        }
        while (uvcc_session_poll_job(h.session, &work) == 1)
            must(uvcc_cpu_submit(h.cpu, work) == 0, "submit");
        send_all(&h, fd, full, now);
        if (uvcc_cpu_pending(h.cpu) == 0 && !h.closed)
            wait_for(&h, fd, gone, full);
    }
    job_free(&h);
    _exit(0);
}

static void close_all(int fd[3][3], unsigned but) {
    for (unsigned p = 0; p < 3; p++)
        for (unsigned q = 0; q < 3; q++)
            if (p != but && q != p)
                (void)close(fd[p][q]);
}

/* Each with its own calls until its end; 0: none. How many were killed; -1: all ended well. */
static int run_three(const unsigned kill_at[3], unsigned every) {
    int fd[3][3], killed = 0, early = 0;
    pid_t child[3];
    for (unsigned a = 0; a < 3; a++)
        for (unsigned b = 0; b < a; b++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
            fd[a][b] = pair[0];
            fd[b][a] = pair[1];
        }
    for (uint8_t p = 0; p < 3; p++) {
        child[p] = fork();
        assert_true(child[p] >= 0);
        if (child[p] != 0)
            continue;
        static disk_state own; /* its calls are its own; names are not taken back here */
        own.kill_at = kill_at[p];
        disk = &own;
        close_all(fd, p);
        one_party(p, fd[p], every);
    }
    close_all(fd, 3);
    for (unsigned p = 0; p < 3; p++) {
        const int end = end_of(child[p]);
        killed += end < 0;
        early += end == ENDED_EARLY;
    }
    return killed == 0 && early == 0 ? -1 : killed;
}

static void many_times(void **state) {
    const char *wanted = getenv("UVCC_STORE_KILLS");
    const int want = wanted != NULL ? atoi(wanted) : KILLS;
    static const unsigned whole[3];
    uint64_t seed = 11;
    int kills = 0;
    (void)state;
    for (unsigned every = 1; kills < want; every = 1 + every % 2) {
        fresh();
        unsigned rounds = 0;
        for (; kills < want; rounds++) {
            unsigned at[3];
            for (unsigned p = 0; p < 3; p++) /* often one alone */
                at[p] = test_rand(&seed) % 2 == 0 ? 1 + test_rand(&seed) % CALLS_MOST : 0;
            at[test_rand(&seed) % 3] = 1 + test_rand(&seed) % CALLS_MOST;
            const int killed = run_three(at, every);
            if (killed < 0)
                break;
            kills += killed;
        }
        assert_int_equal(run_three(whole, every), -1);
        for (unsigned p = 0; p < 3; p++)
            assert_int_equal(saw->finished[p], LONG_STEPS);
        print_message("%u rounds, %d kills\n", rounds, kills);
    }
}

/* Two at once: one gets the directory, the other is told who has it, and takes nothing. */
static void two_at_once(void **state) {
    (void)state;
    fresh();
    int report[2];
    assert_int_equal(pipe(report), 0);
    enum { EACH = 20, PROCESSES = 4 };
    for (unsigned i = 0; i < PROCESSES; i++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child != 0)
            continue;
        disk = NULL;
        for (unsigned taken = 0; taken < EACH;) {
            uvcc_store_config c;
            uvcc_store *st;
            uint32_t run;
            char why[UVCC_STORE_TEXT_BYTES];
            uvcc_store_config_default(&c);
            c.dir = "jobs/shared";
            const int rc = uvcc_store_open(&st, &c, why, sizeof why);
            if (rc == UVCC_ERR_STATE)
                continue;
            if (rc != 0 || uvcc_store_next_run(st, &run) != 0)
                _exit(1);
            must(write(report[1], &run, sizeof run) == (ssize_t)sizeof run, "pipe");
            uvcc_store_free(st);
            taken++;
        }
        _exit(0);
    }
    bool had[PROCESSES * EACH] = {false};
    (void)close(report[1]);
    for (unsigned i = 0; i < PROCESSES * EACH; i++) {
        uint32_t run;
        assert_true(read(report[0], &run, sizeof run) == (ssize_t)sizeof run);
        assert_true(run < PROCESSES * EACH);
        assert_false(had[run]);
        had[run] = true;
    }
    (void)close(report[0]);
    for (unsigned i = 0; i < PROCESSES; i++) {
        int status;
        assert_true(wait(&status) > 0);
        assert_int_equal(status, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_every_call),
        cmocka_unit_test(many_times),
        cmocka_unit_test(two_at_once),
    };
    if (mkdtemp(place) == NULL || chdir(place) != 0)
        return 2;
    disk_begin();
    saw = mmap(NULL, sizeof *saw, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (saw == MAP_FAILED)
        return 2;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    if (chdir("/") != 0)
        return 2;
    test_remove_all(place);
    return failed;
}
