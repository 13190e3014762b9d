/* SPDX-License-Identifier: Apache-2.0 */
/* Three processes train over sockets, each with a store, and are ended by SIGKILL again and again,
 * in any turn and at any event: the weights are those of a run that nobody disturbed. Argument: the
 * transport. UVCC_NET_KILLS: how often; a few times if it is not there. */
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "world.h"

enum { KILLS = 12, STEPS = 12, PLACES = 400 };
#define LOOK_NS     20000000ull   /* how often it looks whether all are done */
#define PATIENCE_NS 5000000000ull /* a process that waits so long says for what */

static const transport *over;
static char place[] = "/tmp/uvcc-net-killed-XXXXXX";
static uint64_t *hashes; /* of the parties, in memory that all processes share */
static unsigned until;   /* turns and events of this process before it is killed; 0: it is not */

static uint64_t last_event;

static void one_more(void) {
    if (until != 0 && --until == 0)
        (void)raise(SIGKILL);
}

static void on_event(const uvcc_event *e) {
    (void)e;
    last_event = uvcc_host_now_ns();
    one_more();
}

/* 127.0.0.0/8 is all this machine's: an address of this process tree's own, so ports are free. */
static void address_of(unsigned party, pid_t root, char out[UVCC_NET_ADDRESS_BYTES]) {
    if (strncmp(over->listen, "unix:", 5) == 0)
        snprintf(out, UVCC_NET_ADDRESS_BYTES, "unix:%s/p%u", place, party);
    else
        snprintf(out, UVCC_NET_ADDRESS_BYTES, "%.4s127.%u.%u.%u:%u", over->listen,
                 1 + ((unsigned)root >> 16) % 250, ((unsigned)root >> 8) & 255,
                 (unsigned)root & 255, 4001 + party);
}

/* Who has ended is of no use to a party that is killed after its last step: so all stay, and begin
 * anew with whoever does, until everybody has seen the end. */
static bool all_done(void) {
    bool all = true;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        all &= __atomic_load_n(&hashes[p], __ATOMIC_ACQUIRE) != 0;
    return all;
}

static void party_runs(unsigned party, pid_t root) {
    static world w;
    job j;
    char dir[128], why[UVCC_STORE_TEXT_BYTES];
    uint32_t run;
    uvcc_store_config c;
    host *h = &w.hosts[0][party];
    world_init(&w, over);
    job_mlp(&j, STEPS);
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        address_of(p, root, w.address[p]);
    world_open_one(&w, party);
    snprintf(dir, sizeof dir, "%s/party-%u", place, party);
    uvcc_store_config_default(&c);
    c.dir = dir;
    c.party = (uint8_t)party;
    if (uvcc_store_open(&h->store, &c, why, sizeof why) != 0)
        fail_msg("%s", why);
    h->heard = on_event;
    do {
        if (h->s != NULL) {
            assert_int_equal(uvcc_net_remove(w.net[party], h->s), 0);
            uvcc_session_free(h->s);
        }
        assert_int_equal(uvcc_store_next_run(h->store, &run), 0);
        w.workers = 1;
        host_start(&w, 0, party, &j, run);
        host_add(h);
        last_event = uvcc_host_now_ns();
        while (!h->closed && !all_done()) {
            host_offer(h, uvcc_host_now_ns());
            const uint64_t end = last_event + PATIENCE_NS;
            assert_true(uvcc_net_wait(w.net[party], uvcc_host_now_ns() + LOOK_NS) >= 0);
            if (h->done)
                __atomic_store_n(&hashes[party], h->hash, __ATOMIC_RELEASE);
            if (uvcc_host_now_ns() >= end) {
                world_tell(&w);
                last_event = uvcc_host_now_ns();
            }
            one_more();
        }
    } while (!all_done());
    assert_true(h->aborted == 0 || h->restarted);
    uvcc_store_free(h->store);
    host_drop(h);
    uvcc_net_free(w.net[party]);
    uvcc_tls_free(w.tls[party]);
    job_free(&j);
    _exit(0);
}

static pid_t spawn(unsigned party, unsigned kill_at) {
    const pid_t root = getpid(), pid = fork();
    assert_true(pid >= 0);
    if (pid != 0)
        return pid;
    until = kill_at;
    (void)alarm(200); /* it is not left behind */
    party_runs(party, root);
    _exit(1);
}

static void test_killed(void **state) {
    (void)state;
    const char *wanted = getenv("UVCC_NET_KILLS");
    const unsigned want = wanted != NULL ? (unsigned)atoi(wanted) : KILLS;
    uint64_t seed = 21;
    unsigned kills = 0, rounds = 0;
    job j;
    job_mlp(&j, STEPS);
    const uint64_t hash = job_hash(&j);
    job_free(&j);
    for (; kills < want; rounds++) { /* each a job from its beginning to its end */
        pid_t child[UVCC_PARTIES];
        unsigned living = UVCC_PARTIES;
        assert_int_equal(mkdir(place, 0700), 0);
        memset(hashes, 0, UVCC_PARTIES * sizeof *hashes);
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            child[p] = spawn(p, 1 + (unsigned)(test_rand(&seed) % PLACES));
        while (living != 0) {
            int status = 0;
            const pid_t pid = wait(&status);
            unsigned p = 0;
            while (p < UVCC_PARTIES && child[p] != pid)
                p++;
            assert_true(p < UVCC_PARTIES);
            if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
                kills++;
                child[p] = spawn(p, kills < want && test_rand(&seed) % 4 != 0
                                        ? 1 + (unsigned)(test_rand(&seed) % PLACES)
                                        : 0);
                continue;
            }
            if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
                fail_msg("party %u ended with status %d", p, status);
            living--;
        }
        for (unsigned p = 0; p < UVCC_PARTIES; p++)
            assert_true(hashes[p] == hash);
        test_remove_all(place);
    }
    print_message("%u kills in %u jobs\n", kills, rounds);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_killed)};
    over = argc > 1 ? transport_named(argv[1]) : NULL;
    if (over == NULL)
        return 2;
    const char *why = transport_missing(over);
    if (why != NULL) {
        fprintf(stderr, "skipped: %s\n", why);
        return 77;
    }
    hashes = mmap(NULL, UVCC_PARTIES * sizeof *hashes, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (hashes == MAP_FAILED || mkdtemp(place) == NULL || rmdir(place) != 0)
        return 2;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
