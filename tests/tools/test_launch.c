/* SPDX-License-Identifier: Apache-2.0 */
/* test_launch.c - `uvcc launch` and `uvcc status` as a user runs them: argv[1] is the binary,
 * argv[2] how often a process is killed at least (5). Three processes train a small network, and
 * come to the weights of `uvcc train`. */
#include "run_tool.h"
#include "trace_check.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROWS = 200, EPOCHS = 4 };
#define TRAIN "--data t.csv --label 5 --hidden 6 --epochs 4 --batch 8"
static unsigned kills = 5;
static char hash[65];

/* Rows of four features and a label that follows from them. */
static void make_data(void) {
    char text[ROWS * 32];
    size_t n = 0;
    uint64_t seed = 4;
    for (unsigned i = 0; i < ROWS; i++) {
        const unsigned a = test_rand(&seed) % 16, b = test_rand(&seed) % 16,
                       c = test_rand(&seed) % 16, d = test_rand(&seed) % 16;
        n += (size_t)snprintf(text + n, sizeof text - n, "%u,%u,%u,%u,%u\n", a, b, c, d,
                              (a + b > 16) + (c > d));
    }
    write_file("t.csv", text, n);
}

static void write_text(const char *path, const char *text) {
    write_file(path, text, strlen(text));
}

#define RUN                                                                                        \
    "{\"kind\": \"mlp\", \"rows\": 200, \"features\": 4, \"classes\": 3, \"hidden\": [6], "        \
    "\"epochs\": 4, \"batch\": 8}"
#define JOB(name)                                                                                  \
    "{\"job\": {\"name\": \"" name "\", \"checkpoint_every\": 1, \"run\": " RUN "}, "              \
    "\"data\": [{\"file\": \"t.csv\", \"label\": \"5\"}, {\"file\": \"t.csv\", \"label\": "        \
    "\"5\"}, "                                                                                     \
    "null], \"all\": {\"linger_s\": 10, \"threads\": 1}}"

static int begin(void **state) {
    const int rc = enter(state);
    make_data();
    write_text("job.json", JOB("one"));
    json_t *j = results(TRAIN);
    (void)snprintf(hash, sizeof hash, "%s",
                   json_string_value(json_object_get(j, "weights_sha256")));
    assert_int_equal(strlen(hash), 64);
    json_decref(j);
    return rc;
}

static int end(void **state) {
    remove_tree("t.csv");
    remove_tree("job.json");
    return leave(state);
}

/* The result of a launch with these words: the weights are those of one process. Returns how often
 * processes were started again. */
static unsigned launched(const char *words) {
    char all[256];
    unsigned restarts = 0;
    (void)snprintf(all, sizeof all, "launch %s", words);
    json_t *j = json_of(all, 0), *one;
    size_t q;
    assert_int_equal(json_array_size(json_object_get(j, "parties")), 3);
    json_array_foreach(json_object_get(j, "parties"), q, one) {
        const char *is = json_string_value(json_object_get(one, "weights_sha256"));
        if (is == NULL || strcmp(is, hash) != 0)
            fail_msg("party %zu: %s, not %s", q, is != NULL ? is : "nothing", hash);
        assert_int_equal(number(one, "party"), q);
        restarts += (unsigned)number(one, "restarts");
    }
    json_decref(j);
    return restarts;
}

static unsigned mode_of(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (unsigned)(st.st_mode & 07777);
}

static void one_file(void **state) {
    (void)state;
    assert_int_equal(launched("--dir d job.json"), 0);
    assert_int_equal(mode_of("d/party1/identity.key"), 0600);
    char *log = read_all("d/party2/log.jsonl");
    assert_non_null(strstr(log, "\"event\":\"step_finished\""));
    free(log);
    /* Again: it is done, and says the same; and so do the three files by themselves. */
    assert_int_equal(launched("--dir d job.json"), 0);
    assert_int_equal(launched("--dir e d/party2/config.json d/party0/config.json "
                              "d/party1/config.json"),
                     0);
    outcome o = run_tool("launch --dir d job.json");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, hash));
    assert_non_null(strstr(o.out, "(3 of 3 parties, the same)"));
    forget(&o);
    /* One command at a time. */
    const int lock = open("d/lock", O_RDWR);
    assert_true(lock >= 0 && flock(lock, LOCK_EX | LOCK_NB) == 0);
    assert_true(ftruncate(lock, 0) == 0 && dprintf(lock, "%ld\n", (long)getpid()) > 0);
    refused("launch --dir d job.json", "another process uses it");
    (void)close(lock);
    /* Another job does not go on from these files. */
    write_text("other.json", JOB("two"));
    refused("launch --dir d other.json", "is of another job");
    remove_tree("other.json");
    remove_tree("d");
    remove_tree("e");
}

/* Processes are killed at any moment, and the weights are the same. */
static void killed(void **state) {
    (void)state;
    char words[128];
    unsigned restarts = 0, every_ms = 700; /* sooner where a run is over before its first kill */
    for (unsigned seed = 1; restarts < kills && seed < 100; seed++) {
        (void)snprintf(words, sizeof words, "--dir k%u --kill-every %u --seed %u job.json", seed,
                       every_ms, seed);
        const unsigned more = launched(words);
        restarts += more;
        if (more == 0 && every_ms > 100)
            every_ms -= every_ms / 4;
        (void)snprintf(words, sizeof words, "k%u", seed);
        remove_tree(words);
    }
    assert_true(restarts >= kills);
}

/* A model on t.txt, which has 600 bytes, by two workers of each party. */
static void write_lm(unsigned text_bytes) {
    char text[601], job[600];
    memset(text, 0, sizeof text);
    for (unsigned i = 0; i < 600; i++)
        text[i] = (char)('a' + i * i % 7);
    write_text("t.txt", text);
    (void)snprintf(job, sizeof job,
                   "{\"job\": {\"name\": \"lm\", \"tensor_ranks\": 2, \"checkpoint_every\": 1, "
                   "\"run\": {\"kind\": \"transformer\", \"layers\": 1, \"dim\": 4, \"heads\": 2, "
                   "\"hidden\": 8, \"context\": 2, \"batch\": 2, \"steps\": 2, \"text_bytes\": %u, "
                   "\"truncation\": \"ars\", \"index\": \"exact\"}}, \"data\": [{\"text\": "
                   "\"t.txt\"}, null, null], \"all\": {\"threads\": 1, \"linger_s\": 10}}",
                   text_bytes);
    write_text("lm.json", job);
}

/* Of the workers of a party that fails it is told what the first of them said, and not what mpirun
 * makes of it. */
static void processes_that_fail(void **state) {
    (void)state;
    const bool here = system("command -v mpirun >/dev/null") == 0;
    write_lm(601);
    outcome o = run_tool("launch --dir bad --processes lm.json");
    assert_int_not_equal(o.status, 0);
    if (here && (strstr(o.err, "job.run.text_bytes: is 601") == NULL ||
                 strstr(o.err, "mpirun") != NULL || strstr(o.err, "-----") != NULL))
        fail_msg("%s", o.err);
    forget(&o);
    remove_tree("bad");
    remove_tree("t.txt");
    remove_tree("lm.json");
}

/* A process for each worker, where there is an MPI: the same weights as with one for each party. */
static void processes(void **state) {
    (void)state;
    char weights[2][65];
    write_lm(600);
    static const char *const words[] = {"launch --dir one lm.json --json -",
                                        "launch --dir each --processes lm.json --json -"};
    bool here = system("command -v mpirun >/dev/null") == 0;
    for (unsigned i = 0; i < 1u + here; i++) {
        outcome o = run_tool(words[i]);
        if (i == 1 && o.status != 0 && strstr(o.err, "uvcc-mpi") != NULL)
            here = false; /* this build has none */
        else if (o.status != 0)
            fail_msg("%s: %d: %s", words[i], o.status, o.err);
        json_t *j = here || i == 0 ? json_loads(o.out, 0, NULL) : NULL;
        const json_t *first = json_array_get(json_object_get(j, "parties"), 0);
        const char *hash_of = json_string_value(json_object_get(first, "weights_sha256"));
        (void)snprintf(weights[i], sizeof weights[i], "%s", hash_of != NULL ? hash_of : "");
        json_decref(j);
        forget(&o);
    }
    remove_tree("one");
    remove_tree("each");
    remove_tree("t.txt");
    remove_tree("lm.json");
    if (!here)
        skip();
    assert_int_equal(strlen(weights[0]), 64);
    assert_string_equal(weights[0], weights[1]);
}

/* ---- while it runs ---- */

static pid_t start_launch(const char *dir) {
    outcome o = run_tool("--version");
    assert_int_equal(o.status, 0);
    forget(&o);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (freopen("launch.out", "w", stdout) == NULL ||
            freopen("launch.err", "w", stderr) == NULL)
            _exit(126);
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM); /* a test that fails leaves nothing running */
        (void)signal(SIGINT, SIG_DFL);          /* nohup and shells' & leave it ignored */
        (void)execl(tool_path(), "uvcc", "launch", "--dir", dir, "slow.json", (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* The address of a party's page, once its configuration is there. */
static void page_of(const char *dir, unsigned p, char out[64]) {
    char path[64];
    (void)snprintf(path, sizeof path, "%s/party%u/config.json", dir, p);
    for (unsigned i = 0; i < 6000; i++) {
        json_t *o = json_load_file(path, 0, NULL);
        const char *at = json_string_value(json_object_get(o, "status"));
        (void)snprintf(out, 64, "%s", at != NULL ? at : "");
        json_decref(o);
        if (*out != '\0')
            return;
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("%s does not come", path);
}

/* Until the process at `at` says that its job runs, in its text for people. */
static void wait_for_running(const char *at) {
    char words[96];
    (void)snprintf(words, sizeof words, "status %s", at);
    for (unsigned i = 0; i < 3000; i++) {
        outcome o = run_tool(words);
        const bool there = o.status == 0 && strstr(o.out, ": running, run ") != NULL;
        if (there) {
            assert_non_null(strstr(o.out, "party 1 of job slow (mlp)"));
            assert_non_null(strstr(o.out, "r0-s0-t0 ready, step "));
            assert_non_null(strstr(o.out, "party 0 connected"));
            assert_non_null(strstr(o.out, " ms"));
        }
        forget(&o);
        if (there)
            return;
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("%s does not run", at);
}

/* What a party tells of stands here too, where somebody looks: a limit on the size of files, which
 * processes inherit, stands for a disk that is full. */
static void troubles_are_told(void **state) {
    (void)state;
    struct rlimit old;
    write_text(
        "full.json",
        "{\"job\": {\"name\": \"full\", \"checkpoint_every\": 1, \"run\": {\"kind\": \"mlp\", "
        "\"rows\": 200, \"features\": 4, \"classes\": 3, \"hidden\": [300]}}, \"data\": "
        "[{\"file\": \"t.csv\", \"label\": \"5\"}, {\"file\": \"t.csv\", \"label\": \"5\"}, "
        "null]}");
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    const struct rlimit low = {8192, old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    outcome o = interrupt_tool("launch --dir f full.json", "stderr");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(o.status, 130);
    assert_int_equal(strncmp(o.err, "party ", 6), 0);
    assert_non_null(strstr(o.err, "cannot be written: File too large; trying again\n"));
    forget(&o);
    remove_tree("f");
    remove_tree("full.json");
}

/* Ctrl-C ends all in order; the same command goes on from there. */
static void shown_and_interrupted(void **state) {
    (void)state;
    char at[64], words[160];
    int how;
    write_text("slow.json",
               "{\"job\": {\"name\": \"slow\", \"checkpoint_every\": 1, \"run\": {\"kind\": "
               "\"mlp\", \"rows\": 200, \"features\": 4, \"classes\": 3, \"hidden\": [6], "
               "\"epochs\": 1000, \"batch\": 8}}, \"data\": [{\"file\": \"t.csv\", \"label\": "
               "\"5\"}, {\"file\": \"t.csv\", \"label\": \"5\"}, null]}");
    const pid_t pid = start_launch("s");
    page_of("s", 1, at);
    wait_for_running(at);
    (void)snprintf(words, sizeof words, "status --json %s 127.0.0.1:1", at);
    outcome o = run_tool(words);
    assert_int_equal(o.status, 1); /* for the second one */
    json_t *page = json_loads(o.out, 0, NULL);
    assert_non_null(page);
    assert_int_equal(number(page, "party"), 1);
    assert_int_equal(number(page, "steps"), 20002);
    assert_int_equal(json_array_size(json_object_get(page, "workers")), 1);
    json_decref(page);
    assert_non_null(strstr(o.err, "127.0.0.1:1: no process answers"));
    forget(&o);
    assert_int_equal(kill(pid, SIGINT), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 130);
    char *err = read_all("launch.err");
    assert_non_null(strstr(err, "interrupted; what was done is kept in s"));
    free(err);
    for (unsigned p = 0; p < 3; p++) { /* each ended in order */
        char path[32];
        (void)snprintf(path, sizeof path, "s/party%u/output.log", p);
        char *text = read_all(path);
        assert_non_null(strstr(text, "interrupted after step"));
        free(text);
    }
    (void)snprintf(words, sizeof words, "status %s", at);
    o = run_tool(words);
    assert_int_equal(o.status, 1);
    forget(&o);
    remove_tree("s");
    remove_tree("slow.json");
    remove_tree("launch.out");
    remove_tree("launch.err");
}

/* Until the launch has said so. */
static void wait_for_text(const char *part) {
    for (unsigned i = 0; i < 6000; i++) {
        char *err = access("launch.err", F_OK) == 0 ? read_all("launch.err") : NULL;
        const bool there = err != NULL && strstr(err, part) != NULL;
        free(err);
        if (there)
            return;
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("launch does not say: %s", part);
}

/* Until a party has its store. */
static void wait_for_party(const char *dir) {
    char path[64];
    (void)snprintf(path, sizeof path, "%s/party1/store/run", dir);
    for (unsigned i = 0; i < 6000 && access(path, F_OK) != 0; i++)
        (void)nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    assert_int_equal(access(path, F_OK), 0);
}

/* The lock of `k` is had by a process whose parent took it and is gone, until what this returns is
 * closed. */
static int hold_lock(void) {
    int ends[2], how;
    char byte;
    assert_int_equal(pipe(ends), 0);
    (void)fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    (void)fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    const pid_t first = fork();
    assert_true(first >= 0);
    if (first == 0) {
        const int lock = open("k/lock", O_RDWR | O_CREAT, 0600);
        if (lock < 0 || flock(lock, LOCK_EX) != 0 || dprintf(lock, "%ld\n", (long)getpid()) < 0)
            _exit(1);
        if (fork() != 0)
            _exit(0);
        for (int fd = 0; fd < 64; fd++) /* nobody waits for what it might say */
            if (fd != lock && fd != ends[0])
                (void)close(fd);
        _exit(read(ends[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(first, &how, 0), first);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    (void)close(ends[0]);
    return ends[1];
}

/* What a launch leaves behind that was killed ends by itself, and has the addresses and stores till
 * then: the same command waits for it. */
static void after_a_kill(void **state) {
    (void)state;
    int how;
    write_text("slow.json", JOB("killed"));
    assert_int_equal(mkdir("k", 0700), 0);
    const int left = hold_lock();
    const pid_t pid = start_launch("k");
    wait_for_text("still runs; waiting for its end");
    assert_int_equal(access("k/party0", F_OK), -1);
    assert_int_equal(close(left), 0);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    remove_tree("k");
    /* and its processes have the lock: a launch that is killed, and at once another one */
    const pid_t killed = start_launch("k");
    wait_for_party("k");
    assert_int_equal(kill(killed, SIGKILL), 0);
    assert_int_equal(waitpid(killed, &how, 0), killed);
    (void)launched("--dir k slow.json --json -");
    remove_tree("k");
    remove_tree("slow.json");
    remove_tree("launch.out");
    remove_tree("launch.err");
}

/* What a store says of its job's end, made what it would be had the party been killed earlier:
 * before it heard that its peers are done, or before it had its result. */
static void take_back(unsigned party, bool result) {
    char path[64];
    (void)snprintf(path, sizeof path, "k/party%u/store/result", party);
    json_t *o = test_load_json(path);
    assert_true(json_is_true(json_object_get(o, "settled")));
    assert_int_equal(json_object_set_new(o, "settled", json_false()), 0);
    if (result)
        assert_int_equal(json_object_del(o, "result"), 0);
    assert_int_equal(json_dump_file(o, path, 0), 0);
    json_decref(o);
    (void)snprintf(path, sizeof path, "k/party%u/store/r0-s0-t0.step-82", party);
    if (result) /* which comes after it */
        assert_int_equal(unlink(path), 0);
}

#define LAST_JOB                                                                                   \
    "{\"job\": {\"name\": \"last\", \"checkpoint_every\": 1, \"run\": " RUN "}, \"data\": "        \
    "[{\"file\": \"t.csv\", \"label\": \"5\"}, {\"file\": \"u.csv\", \"label\": \"5\"}, null], "   \
    "\"all\": {\"linger_s\": 2, \"threads\": 1}}"

/* A job that is done, in k. */
static void run_last(void) {
    char *rows = read_all("t.csv");
    write_text("u.csv", rows);
    free(rows);
    write_text("slow.json", LAST_JOB);
    (void)launched("--dir k slow.json");
}

static void forget_last(void) {
    static const char *const names[] = {"k", "u.csv", "slow.json"};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
        remove_tree(names[i]);
}

/* A party was killed after its peers had heard that it has its result, and before it had heard so
 * of them. They do not come again, so it waits alone, as long as nobody kills it. */
static void killed_at_last(void **state) {
    (void)state;
    run_last();
    take_back(1, false);
    (void)launched("--dir k --kill-every 100 slow.json");
    forget_last();
}

/* A party comes for the last steps when its peers have waited for it and are gone. */
static void called_back(void **state) {
    (void)state;
    int how;
    run_last();
    for (unsigned p = 0; p < 3; p++)
        take_back(p, p == 1);
    char *rows = read_all("u.csv");
    remove_tree("u.csv");
    assert_int_equal(mkfifo("u.csv", 0600), 0); /* party 1 stands before it */
    const pid_t pid = start_launch("k");
    wait_for_text("party 0 is done, and another may need the last steps of it; it starts again");
    wait_for_text("party 2 is done, and another may need the last steps of it; it starts again");
    write_text("u.csv", rows);
    assert_int_equal(waitpid(pid, &how, 0), pid);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
    remove_tree("u.csv");
    write_text("u.csv", rows);
    free(rows);
    (void)launched("--dir k slow.json"); /* done, by all three */
    forget_last();
    remove_tree("launch.out");
    remove_tree("launch.err");
}

/* A party that cannot run is named, with what it said; the others end. */
static void one_fails(void **state) {
    (void)state;
    write_text("bad.json",
               "{\"job\": {\"name\": \"bad\", \"run\": " RUN "}, \"data\": [{\"file\": \"t.csv\", "
               "\"label\": \"5\"}, {\"file\": \"nowhere.csv\"}, null]}");
    outcome o = run_tool("launch --dir b bad.json");
    assert_int_equal(o.status, 2);
    assert_non_null(strstr(o.err, "party 1 ended with 2"));
    assert_non_null(strstr(o.err, "nowhere.csv"));
    forget(&o);
    remove_tree("b");
    remove_tree("bad.json");
}

/* ---- traces ---- */

static size_t events_of(const char *path, uint64_t *begun) {
    json_t *o = test_load_json(path);
    const size_t n = json_array_size(json_object_get(o, "traceEvents"));
    *begun = (uint64_t)number(json_object_get(o, "otherData"), "begun_unix_ns");
    json_decref(o);
    return n;
}

/* Two runs, one after the other: all is there, under numbers of its own, and the later one is
 * later. */
static void traces_joined(void **state) {
    (void)state;
    json_decref(results(TRAIN " --trace a.json"));
    json_decref(results(TRAIN " --trace b.json"));
    uint64_t at[3];
    const size_t a = events_of("a.json", &at[0]), b = events_of("b.json", &at[1]);
    assert_true(at[0] < at[1]);
    outcome o = run_tool("trace --out both.json b.json a.json");
    assert_int_equal(o.status, 0);
    forget(&o);
    assert_int_equal(events_of("both.json", &at[2]), a + b);
    assert_true(at[2] == at[0]);
    assert_int_equal(trace_check("both.json").processes, 6);
    json_t *both = test_load_json("both.json"), *e;
    size_t i;
    double first[8] = {0};
    json_array_foreach(json_object_get(both, "traceEvents"), i, e) {
        const unsigned pid = (unsigned)number(e, "pid");
        assert_in_range(pid, 1, 6); /* three of each */
        if (json_object_get(e, "ts") != NULL && (first[pid] == 0 || number(e, "ts") < first[pid]))
            first[pid] = number(e, "ts");
    }
    for (unsigned pid = 1; pid <= 3; pid++) /* those of b, which came first on the line */
        assert_true(first[pid] > (double)(at[1] - at[0]) * 1e-3 && first[pid + 3] > 0 &&
                    first[pid + 3] < first[pid]);
    json_decref(both);
    write_text("no.json", "{\"traceEvents\": []}");
    refused("trace --out c.json a.json no.json", "no.json: is no trace that says when it began");
    refused("trace --out c.json nowhere.json", "nowhere.json");
    refused("trace a.json", "give --out FILE");
    assert_int_equal(access("c.json", F_OK), -1);
    static const char *const files[] = {"a.json", "b.json", "both.json", "no.json"};
    for (i = 0; i < sizeof files / sizeof files[0]; i++)
        remove_tree(files[i]);
}

static void wrong_use(void **state) {
    (void)state;
    refused("launch job.json", "--dir DIR is missing");
    refused("launch --dir x", "give one file");
    refused("launch --dir x a b", "give one file");
    refused("launch --dir x nowhere.json", "nowhere.json");
    write_text("w.json", "{\"jbo\": {}}");
    refused("launch --dir x w.json", "job is missing");
    write_text("w.json", "{\"job\": {}, \"date\": []}");
    refused("launch --dir x w.json", "date: there is no such member");
    write_text("w.json", "{\"job\": {}, \"data\": [1]}");
    refused("launch --dir x w.json", "data: give an object");
    write_text("w.json", "[]");
    refused("launch --dir x w.json", "give an object");
    remove_tree("w.json");
    refused("status", "give the ADDRESS");
    refused("status --nothing 127.0.0.1:1", "--nothing");
    remove_tree("x");
}

int main(int argc, char **argv) {
    if (argc < 2 || !find_tool(argv[1]))
        return 2;
    kills = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : kills;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_file),          cmocka_unit_test(killed),
        cmocka_unit_test(processes),         cmocka_unit_test(processes_that_fail),
        cmocka_unit_test(troubles_are_told), cmocka_unit_test(shown_and_interrupted),
        cmocka_unit_test(after_a_kill),      cmocka_unit_test(killed_at_last),
        cmocka_unit_test(called_back),       cmocka_unit_test(one_fails),
        cmocka_unit_test(traces_joined),     cmocka_unit_test(wrong_use),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
