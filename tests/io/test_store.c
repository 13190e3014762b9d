/* SPDX-License-Identifier: Apache-2.0 */
/* test_store.c - <uvcc/store.h>: key files, a directory's lock, runs, checkpoints by the rules of
 * docs/host.md, marks and counts; what is damaged, missing, foreign, full. Processes that are
 * killed are in test_store_killed.c. The system's calls are disk.h's. */
#define _DEFAULT_SOURCE
#include "disk.h"
#include "store_job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uvcc/checkpoint.h>
#include <uvcc/host.h>

static char place[] = "/tmp/uvcc-store-XXXXXX";
static char why[UVCC_STORE_TEXT_BYTES];

static int enter(void **state) {
    (void)state;
    memset(disk, 0, sizeof *disk);
    (void)strcpy(strrchr(place, '-'), "-XXXXXX");
    return mkdtemp(place) == NULL || chdir(place) != 0;
}

static int leave(void **state) {
    (void)state;
    const unsigned torn = disk->torn;
    memset(disk, 0, sizeof *disk);
    if (chdir("/") != 0)
        return -1;
    test_remove_all(place);
    return torn != 0 ? -1 : 0; /* of every test: no name stood for bytes that were not flushed */
}

static bool there(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

static void put(const char *path, const char *text, size_t len) {
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_true(write(fd, text, len) == (ssize_t)len);
    assert_int_equal(fsync(fd), 0);
    assert_int_equal(close(fd), 0);
}

static void put_text(const char *path, const char *text) {
    put(path, text, strlen(text));
}

static size_t get(const char *path, char *text, size_t cap) {
    const int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    const ssize_t n = read(fd, text, cap - 1);
    assert_true(n >= 0);
    text[n] = '\0';
    assert_int_equal(close(fd), 0);
    return (size_t)n;
}

static void has_text(const char *path, const char *want) {
    char text[4096];
    (void)get(path, text, sizeof text);
    assert_string_equal(text, want);
}

static void says(const char *text, const char *part) {
    if (strstr(text, part) == NULL)
        fail_msg("'%s' does not say '%s'", text, part);
}

static void no_parts(const char *dir) {
    DIR *d = opendir(dir);
    struct dirent *e;
    assert_non_null(d);
    while ((e = readdir(d)) != NULL)
        if (strstr(e->d_name, ".part") != NULL)
            fail_msg("%s/%s was left", dir, e->d_name);
    (void)closedir(d);
}

/* The steps of the checkpoints of a directory, ascending, as "2 3 ". */
static void steps_in(const char *dir, char out[128]) {
    size_t n = 0;
    out[0] = '\0';
    for (uint32_t step = 0; step < 64; step++) {
        char path[256];
        (void)snprintf(path, sizeof path, "%s/r0-s0-t0.step-%u", dir, step);
        if (there(path))
            n += (size_t)snprintf(out + n, 128 - n, "%u ", step);
    }
}

static void steps_are(const char *dir, const char *want) {
    char got[128];
    steps_in(dir, got);
    assert_string_equal(got, want);
}

/* ---- keys ---- */

static void refuse_key(const char *path, uvcc_key_kind kind, int rc, const char *part) {
    uint8_t key[32];
    assert_int_equal(uvcc_key_read(path, kind, key, why, sizeof why), rc);
    says(why, part);
    assert_int_equal(uvcc_key_read(path, kind, key, NULL, 0), rc);
}

static void keys(void **state) {
    static const char *const heads[] = {"uvcc identity v1\n", "uvcc pair secret v1\n",
                                        "uvcc storage key v1\n"};
    uint8_t key[32], back[32];
    char text[256];
    struct stat st;
    (void)state;
    for (unsigned i = 0; i < 32; i++)
        key[i] = (uint8_t)(8 * i + 3);
    for (unsigned kind = 0; kind < 3; kind++) {
        const mode_t mask = umask(0277); /* a mode must not hang on it */
        assert_int_equal(uvcc_key_write("k", (uvcc_key_kind)kind, key, why, sizeof why), 0);
        (void)umask(mask);
        assert_int_equal(stat("k", &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
        (void)get("k", text, sizeof text);
        assert_memory_equal(text, heads[kind], strlen(heads[kind]));
        says(text, "030b131b232b333b434b535b636b737b838b939ba3abb3bbc3cbd3dbe3ebf3fb\n");
        assert_int_equal(uvcc_key_read("./k", (uvcc_key_kind)kind, back, why, sizeof why), 0);
        assert_memory_equal(back, key, 32);
        refuse_key("k", (uvcc_key_kind)((kind + 1) % 3), UVCC_ERR_MISMATCH, "is needed here");
        assert_int_equal(uvcc_key_write("k", (uvcc_key_kind)kind, back, why, sizeof why),
                         UVCC_ERR_STATE);
        says(why, "never overwritten");
        no_parts(".");
        assert_int_equal(unlink("k"), 0);
    }
    assert_int_equal(uvcc_key_make("k", UVCC_KEY_PAIR, key, why, sizeof why), 0);
    assert_int_equal(uvcc_key_make("k", UVCC_KEY_PAIR, back, why, sizeof why), 0);
    assert_memory_equal(back, key, 32);
    assert_int_equal(uvcc_key_make("k", UVCC_KEY_STORAGE, back, why, sizeof why),
                     UVCC_ERR_MISMATCH);
    assert_int_equal(uvcc_key_make("no/k", UVCC_KEY_PAIR, back, why, sizeof why),
                     UVCC_ERR_NOT_FOUND);
    says(why, "no/k");
}

static void keys_that_are_none(void **state) {
    char text[256];
    uint8_t key[32] = {1};
    (void)state;
    refuse_key("k", UVCC_KEY_PAIR, UVCC_ERR_NOT_FOUND, "k: is not there");
    refuse_key("", UVCC_KEY_PAIR, UVCC_ERR_CONFIG, "no path");
    refuse_key("/k-that-is-not", UVCC_KEY_PAIR, UVCC_ERR_NOT_FOUND, "/k-that");
    assert_true(why[0] == '/' && why[1] == 'k');
    refuse_key("./k", UVCC_KEY_PAIR, UVCC_ERR_NOT_FOUND, "./k: ");
    refuse_key("/", UVCC_KEY_PAIR, UVCC_ERR_CONFIG, "");
    assert_int_equal(uvcc_key_read("k", (uvcc_key_kind)3, key, why, sizeof why), UVCC_ERR_USAGE);
    assert_int_equal(uvcc_key_write("k", UVCC_KEY_PAIR, key, NULL, 0), 0);
    assert_int_equal(symlink("k", "link"), 0);
    refuse_key("link", UVCC_KEY_PAIR, UVCC_ERR_CONFIG, "symbolic link");
    assert_int_equal(chmod("k", 0640), 0);
    refuse_key("k", UVCC_KEY_PAIR, UVCC_ERR_CONFIG, "mode 0640");
    assert_int_equal(chmod("k", 0600), 0);
    if (chown("k", 12345, (gid_t)-1) == 0) { /* root may */
        refuse_key("k", UVCC_KEY_PAIR, UVCC_ERR_CONFIG, "another user (12345)");
        assert_int_equal(chown("k", geteuid(), (gid_t)-1), 0);
    }
    assert_int_equal(mkfifo("pipe", 0600), 0);
    refuse_key("pipe", UVCC_KEY_PAIR, UVCC_ERR_CONFIG, "no regular file"); /* and no waiting */
    refuse_key(".", UVCC_KEY_PAIR, UVCC_ERR_CONFIG, "no regular file");
    const size_t len = get("k", text, sizeof text);
    for (size_t n = 0; n < len; n++) {
        put("cut", text, n);
        assert_int_equal(uvcc_key_read("cut", UVCC_KEY_PAIR, key, why, sizeof why),
                         n < strlen("uvcc pair secret v1\n") ? UVCC_ERR_MISMATCH : UVCC_ERR_AUTH);
        says(why, "cut: is");
    }
    text[len - 2] = 'F';
    put("k", text, len);
    refuse_key("k", UVCC_KEY_PAIR, UVCC_ERR_AUTH, "damaged");
    text[len - 2] = 'f';
    text[len] = '\n';
    put("k", text, len + 1);
    refuse_key("k", UVCC_KEY_PAIR, UVCC_ERR_AUTH, "damaged");
}

static void keys_and_a_bad_disk(void **state) {
    static const struct {
        unsigned call;
        int error;
        const char *part;
    } cases[] = {{DISK_WRITE, ENOSPC, "No space left on device; make room"},
                 {DISK_FSYNC, EIO, "Input/output error"},
                 {DISK_LINK, EROFS, "Read-only file system; give a place"},
                 {DISK_FCHMOD, EPERM, "not permitted"}};
    uint8_t key[32];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        disk->fail = cases[i].call;
        disk->fail_errno = cases[i].error;
        assert_int_equal(uvcc_key_make("k", UVCC_KEY_PAIR, key, why, sizeof why), UVCC_ERR_IO);
        says(why, "k: cannot be written");
        says(why, cases[i].part);
        disk->fail = 0;
        assert_false(there("k"));
        no_parts(".");
    }
}

/* ---- the directory ---- */

static int open_at(const char *dir, uvcc_store **st) {
    uvcc_store_config c;
    uvcc_store_config_default(&c);
    c.dir = dir;
    return uvcc_store_open(st, &c, why, sizeof why);
}

static void must_open(const char *dir, uvcc_store **st) {
    if (open_at(dir, st) != 0)
        fail_msg("%s", why);
}

static void refuse_open(const char *dir, int rc, const char *part) {
    uvcc_store *st;
    assert_int_equal(open_at(dir, &st), rc);
    assert_null(st);
    says(why, dir);
    says(why, part);
}

static void directories(void **state) {
    struct stat st;
    uvcc_store *s;
    (void)state;
    must_open("d", &s);
    assert_int_equal(stat("d", &st), 0);
    assert_int_equal(st.st_mode & 07777, 0700);
    uvcc_store_free(s);
    must_open("d/", &s);
    uvcc_store_free(s);
    assert_int_equal(chmod("d", 0770), 0);
    refuse_open("d", UVCC_ERR_CONFIG, "mode 0770");
    assert_int_equal(chmod("d", 0700), 0);
    if (chown("d", 12345, (gid_t)-1) == 0) {
        refuse_open("d", UVCC_ERR_CONFIG, "another user (12345)");
        assert_int_equal(chown("d", geteuid(), (gid_t)-1), 0);
    }
    put_text("file", "");
    refuse_open("file", UVCC_ERR_CONFIG, "Not a directory");
    refuse_open("no/d", UVCC_ERR_IO, "cannot be made");
    assert_int_equal(mkfifo("pipe", 0600), 0);
    refuse_open("pipe", UVCC_ERR_CONFIG, "");
    assert_int_equal(unlink("d/lock"), 0);
    assert_int_equal(mkfifo("d/lock", 0600), 0);
    refuse_open("d", UVCC_ERR_CONFIG, "no regular file");
    assert_int_equal(unlink("d/lock"), 0);
    assert_int_equal(symlink("/tmp/uvcc-nowhere", "d/lock"), 0);
    refuse_open("d", UVCC_ERR_CONFIG, "d/lock");
    assert_false(there("/tmp/uvcc-nowhere"));
    assert_int_equal(unlink("d/lock"), 0);
    assert_int_equal(unlink("d/key"), 0);
    assert_int_equal(mkfifo("d/key", 0600), 0);
    refuse_open("d", UVCC_ERR_CONFIG, "d/key: is no regular file");
    assert_int_equal(open_at(NULL, &s), UVCC_ERR_USAGE);
    assert_int_equal(open_at("", &s), UVCC_ERR_CONFIG);
}

static void one_process_at_a_time(void **state) {
    uvcc_store *a, *b;
    char pid[64];
    int status;
    (void)state;
    must_open("d", &a);
    (void)snprintf(pid, sizeof pid, "(%ld) uses it", (long)getpid());
    refuse_open("d", UVCC_ERR_STATE, pid);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(open_at("d", &b) == UVCC_ERR_STATE && strstr(why, pid) != NULL ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(unlink("d/lock"), 0); /* no way around it */
    refuse_open("d", UVCC_ERR_STATE, "uses it");
    uvcc_store_free(a);
    must_open("d", &b);
    uvcc_store_free(b);
}

/* ---- runs ---- */

static uint32_t next_run(uvcc_store *s) {
    uint32_t run = 0;
    if (uvcc_store_next_run(s, &run) != 0)
        fail_msg("%s", uvcc_store_error(s));
    return run;
}

static void runs(void **state) {
    uvcc_store *s;
    uvcc_config c;
    uint32_t run;
    (void)state;
    must_open("d", &s);
    assert_int_equal(uvcc_config_default(&c, sizeof c), 0);
    assert_int_equal(uvcc_store_configure(s, &c), UVCC_ERR_STATE);
    assert_int_equal(next_run(s), 0);
    has_text("d/run", "0\n");
    assert_int_equal(uvcc_store_configure(s, &c), 0);
    assert_int_equal(c.resume.next_run, 0);
    assert_int_equal(uvcc_store_configure(s, &c), UVCC_ERR_STATE); /* never the same twice */
    says(uvcc_store_error(s), "uvcc_store_next_run");
    c.place.replica = 1; /* but of another worker */
    assert_int_equal(uvcc_store_configure(s, &c), 0);
    assert_int_equal(next_run(s), 1);
    assert_int_equal(uvcc_store_configure(s, &c), 0);
    assert_int_equal(c.resume.next_run, 1);
    c.identity.party = 1;
    assert_int_equal(uvcc_store_configure(s, &c), UVCC_ERR_CONFIG);
    uvcc_store_free(s);
    must_open("d", &s);
    assert_int_equal(next_run(s), 2);
    static const unsigned calls[] = {DISK_WRITE, DISK_FSYNC, DISK_RENAME};
    for (size_t i = 0; i < 3; i++) {
        disk->fail = calls[i];
        disk->fail_errno = ENOSPC;
        assert_int_equal(uvcc_store_next_run(s, &run), UVCC_ERR_IO);
        says(uvcc_store_error(s), "d/run: cannot be written");
        disk->fail = 0;
        has_text("d/run", "2\n");
        no_parts("d");
    }
    assert_int_equal(next_run(s), 3);
    uvcc_store_free(s);
    static const char *const bad[] = {
        "", "4", "04\n", "-1\n", "4 \n", "4294967295\n", "99999999999\n", "x\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        put_text("d/run", bad[i]);
        refuse_open("d", UVCC_ERR_AUTH, "d/run: is not the number");
    }
    put_text("d/run", "16777214\n");
    must_open("d", &s);
    assert_int_equal(next_run(s), 16777215);
    assert_int_equal(uvcc_store_next_run(s, &run), UVCC_ERR_LIMIT);
    uvcc_store_free(s);
}

/* ---- a job ---- */

static job j;

static void run_job(const job_options *o, uint32_t until) {
    job_options now = *o;
    now.steps = until;
    job_start(&j, &now);
    if (!job_drive(&j, until))
        fail_msg("step %u does not come: %s", until, uvcc_store_error(j.host[0].store));
    job_kill(&j);
}

/* What a directory has while a job runs: the rules, looked at in each event. */
typedef struct watch {
    uint32_t every, behind;
    unsigned events;
} watch;

static bool kept(unsigned party, uint32_t step) {
    char path[64];
    (void)snprintf(path, sizeof path, "jobs/party-%u/r0-s0-t0.step-%u", party, step);
    return there(path);
}

static void watch_event(void *user, unsigned party, const uvcc_event *e) {
    watch *w = user;
    if (e->kind == UVCC_EVENT_CHECKPOINT)
        assert_true(kept(party, e->step));
    if (e->kind != UVCC_EVENT_STEP_STARTED)
        return;
    w->events++;
    /* All agreed to it, so all have (rule 1) the last that was due an interval before; */
    for (unsigned p = 0; p < 3 && e->step >= w->every; p++)
        assert_true(kept(p, (e->step - w->every) / w->every * w->every));
    /* what is older is gone, and nothing younger (rule 2). */
    for (uint32_t m = 0; m <= e->step; m += w->every)
        assert_int_equal(kept(party, m), m + 2 * w->every + w->behind > e->step);
}

static void rules(void **state) {
    static const uint32_t every[] = {1, 2, 3};
    (void)state;
    for (size_t i = 0; i < 6; i++) {
        watch w = {.every = every[i / 2], .behind = i % 2};
        job_options o = {.dir = "jobs",
                         .every = w.every,
                         .behind = w.behind,
                         .on_event = watch_event,
                         .user = &w};
        assert_int_equal(mkdir("jobs", 0700), 0);
        run_job(&o, 11);
        assert_int_equal(w.events, 33);
        assert_int_equal(j.host[0].set, 1);
        no_parts("jobs/party-0");
        test_remove_all("jobs");
    }
}

/* Rule 1, before there is a checkpoint: a step that must come after it waits. */
static void waits(void **state) {
    (void)state;
    for (uint32_t every = 1; every <= 2; every++) {
        job_options o = {.dir = "jobs", .every = every, .first = 3};
        assert_int_equal(mkdir("jobs", 0700), 0);
        job_start(&j, &o); /* no steps: READY alone */
        assert_true(job_drive(&j, 3));
        uvcc_store *st = j.host[2].store;
        uvcc_session *s = j.host[2].session;
        assert_int_equal(uvcc_store_may_agree(st, s, 2 + every), 0);
        assert_int_equal(uvcc_store_may_agree(st, s, 3 + every), UVCC_ERR_AGAIN);
        says(uvcc_store_error(st), "waits for the checkpoint of step 3");
        job_kill(&j);
        run_job(&o, 4);
        job_start(&j, &o); /* it is there now */
        assert_true(job_drive(&j, 4));
        st = j.host[2].store;
        s = j.host[2].session;
        assert_int_equal(uvcc_store_may_agree(st, s, 4), 0);
        assert_int_equal(uvcc_store_may_agree(st, s, 6), every == 1 ? UVCC_ERR_AGAIN : 0);
        assert_int_equal(uvcc_store_may_agree(st, s, 8), UVCC_ERR_AGAIN);
        job_kill(&j);
        test_remove_all("jobs");
    }
}

static void goes_on(void **state) {
    job_options o = {.dir = "jobs", .every = 1, .steps = 20};
    char run[32];
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    run_job(&o, 3);
    steps_are("jobs/party-1", "1 2 3 ");
    o.must_resume = true;
    run_job(&o, 5);
    for (unsigned p = 0; p < 3; p++) {
        assert_int_equal(j.host[p].begun_at, 3);
        assert_int_equal(j.host[p].set, 0);
        assert_int_equal(j.host[p].run, 1);
    }
    /* Party 2 lost its last: all go on one step before, from what is not the newest of two. */
    assert_int_equal(unlink("jobs/party-2/r0-s0-t0.step-5"), 0);
    put_text("jobs/party-1/run", "40\n");
    run_job(&o, 7);
    for (unsigned p = 0; p < 3; p++)
        assert_int_equal(j.host[p].begun_at, 4);
    for (unsigned p = 0; p < 3; p++) { /* the run of all is the greatest, and each one's to know */
        (void)snprintf(run, sizeof run, "jobs/party-%u/run", p);
        has_text(run, "41\n");
    }
    /* One party has nothing: there is nothing in common, and nobody begins anew in silence. */
    for (uint32_t step = 5; step <= 7; step++) {
        char path[64];
        (void)snprintf(path, sizeof path, "jobs/party-1/r0-s0-t0.step-%u", step);
        assert_int_equal(unlink(path), 0);
    }
    o.must_resume = false;
    job_start(&j, &o);
    assert_false(job_drive(&j, 8));
    assert_false(j.host[0].ready || j.host[1].ready || j.host[2].ready);
    job_kill(&j);
    steps_are("jobs/party-0", "5 6 7 ");
    o.must_resume = true;
    job_host h;
    assert_int_equal(job_open(&h, &o, 1), UVCC_ERR_NOT_FOUND);
    says(h.why, "no checkpoint of worker r0 s0 t0");
    job_free(&h);
}

/* As after PEER_RESTARTED: another session on the same store, with a run above all heard of. */
static void again_in_one_process(void **state) {
    job_options o = {.dir = "jobs", .every = 1, .steps = 9};
    const uvcc_event restarted = {.kind = UVCC_EVENT_PEER_RESTARTED, .run = 50};
    const uvcc_allocator al = uvcc_host_allocator();
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    job_start(&j, &o);
    assert_true(job_drive(&j, 3));
    uvcc_loopback_free(j.net);
    assert_int_equal(uvcc_loopback_new(&j.net, &al, 3, false, 6), 0);
    job_host *h = &j.host[1];
    assert_int_equal(uvcc_store_event(h->store, h->session, &restarted), 0);
    uvcc_session *old = h->session;
    for (unsigned p = 0; p < 3; p++)
        assert_int_equal(job_again(&j.host[p]), 0);
    assert_int_equal(h->run, 51);
    assert_int_equal(j.host[0].run, 1);
    if (old != h->session) /* of which the store knows no more */
        assert_int_equal(uvcc_store_event(h->store, old, &restarted), UVCC_ERR_NOT_FOUND);
    for (unsigned p = 0; p < 3; p++)
        assert_int_equal(uvcc_session_start(j.host[p].session, 0), 0);
    assert_true(job_drive(&j, 9));
    for (unsigned p = 0; p < 3; p++)
        assert_true(j.host[p].begun_at >= 2 && j.host[p].set == 0);
    job_kill(&j);
    has_text("jobs/party-0/run", "51\n");
}

/* Rule 3: who lost the first checkpoint begins anew with the others, who offer that too; and a
 * first step that is no multiple of the interval. */
static void begins_anew(void **state) {
    (void)state;
    for (uint32_t first = 0; first < 4; first += 3) {
        job_options o = {.dir = "jobs", .every = 2, .first = first, .steps = 20};
        char path[64];
        assert_int_equal(mkdir("jobs", 0700), 0);
        run_job(&o, first + 1);
        (void)snprintf(path, sizeof path, "jobs/party-1/r0-s0-t0.step-%u", first);
        assert_int_equal(unlink(path), 0);
        (void)unlink("jobs/party-1/r0-s0-t0.step-4"); /* an interval begins there */
        run_job(&o, first + 3);
        for (unsigned p = 0; p < 3; p++) {
            assert_int_equal(j.host[p].begun_at, first);
            assert_int_equal(j.host[p].set, 1);
        }
        run_job(&o, first + 9);
        assert_int_equal(j.host[0].set, 0);
        test_remove_all("jobs");
    }
}

static unsigned warned;
static void hear(void *user, uvcc_log_level level, const char *line) {
    (void)user;
    (void)level;
    says(line, "set aside as r0-s0-t0.step-3.damaged");
    warned++;
}

static void flip(const char *path) {
    char text[4096];
    const size_t n = get(path, text, sizeof text);
    text[n / 2] ^= 1;
    put(path, text, n);
}

static void damaged(void **state) {
    job_options o = {.dir = "jobs", .every = 1, .steps = 20};
    job_host h;
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    run_job(&o, 3);
    flip("jobs/party-0/r0-s0-t0.step-3");
    assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_AUTH);
    says(h.why, "jobs/party-0/r0-s0-t0.step-3: is damaged");
    job_free(&h);
    steps_are("jobs/party-0", "1 2 3 ");
    /* One of another step in its place is none, nor one of another party. */
    assert_int_equal(rename("jobs/party-0/r0-s0-t0.step-3", "away"), 0);
    assert_int_equal(link("jobs/party-0/r0-s0-t0.step-2", "jobs/party-0/r0-s0-t0.step-3"), 0);
    assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_AUTH);
    job_free(&h);
    assert_int_equal(rename("away", "jobs/party-0/r0-s0-t0.step-3"), 0);
    o.set_aside = true;
    o.log = (uvcc_logger){.write = hear};
    warned = 0;
    run_job(&o, 4);
    assert_int_equal(warned, 1);
    assert_int_equal(j.host[0].begun_at, 2);
    assert_true(there("jobs/party-0/r0-s0-t0.step-3.damaged"));
    /* Under another key none opens: that is the key's fault, and nothing is set aside. */
    assert_int_equal(rename("jobs/party-0/key", "away"), 0);
    uint8_t key[32];
    assert_int_equal(uvcc_key_make("jobs/party-0/key", UVCC_KEY_STORAGE, key, NULL, 0), 0);
    assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_AUTH);
    says(h.why, "not sealed under jobs/party-0/key");
    job_free(&h);
    steps_are("jobs/party-0", "2 3 4 ");
    assert_int_equal(rename("away", "jobs/party-0/key"), 0);
    run_job(&o, 6);
}

static void other_job(uvcc_config *c) {
    memset(c->identity.sid_job, 10, 32);
}

static void foreign(void **state) {
    job_options o = {.dir = "jobs", .every = 1, .steps = 20};
    job_host h;
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    run_job(&o, 3);
    job_options other = o;
    other.tweak = other_job;
    other.set_aside = true;
    assert_int_equal(job_open(&h, &other, 0), UVCC_ERR_MISMATCH);
    says(h.why, "is of another job");
    job_free(&h);
    static const struct {
        const char *path, *part;
    } parts[] = {{"jobs/party-0/key", "sealed under it"}, {"jobs/party-0/run", "which runs were"}};
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(rename(parts[i].path, "away"), 0);
        assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_NOT_FOUND);
        says(h.why, parts[i].path);
        says(h.why, parts[i].part);
        job_free(&h);
        assert_false(there(parts[i].path));
        assert_int_equal(rename("away", parts[i].path), 0);
    }
    assert_int_equal(rename("jobs/party-0/r0-s0-t0.step-2", "away"), 0);
    assert_int_equal(symlink("../../away", "jobs/party-0/r0-s0-t0.step-2"), 0);
    assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_CONFIG);
    says(h.why, "r0-s0-t0.step-2: is a symbolic link");
    job_free(&h);
    assert_int_equal(unlink("jobs/party-0/r0-s0-t0.step-2"), 0);
    assert_int_equal(mkfifo("jobs/party-0/r0-s0-t0.step-2", 0600), 0);
    assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_CONFIG);
    says(h.why, "r0-s0-t0.step-2: is no regular file");
    job_free(&h);
    assert_int_equal(unlink("jobs/party-0/r0-s0-t0.step-2"), 0);
    if (chown("away", 12345, (gid_t)-1) == 0) {
        assert_int_equal(rename("away", "jobs/party-0/r0-s0-t0.step-2"), 0);
        assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_CONFIG);
        says(h.why, "another user");
        job_free(&h);
    }
}

/* What all workers of a party have, and no more, is offered. */
typedef struct common {
    uvcc_store_kept kept[4], found[4];
    uint32_t count;
    int listed;
    bool anew, may_begin;
} common;

static int offer_common(void *user, uvcc_store *st, uvcc_session *s, const uvcc_config *cfg) {
    common *c = user;
    c->listed = uvcc_store_list(st, cfg, c->found, 4, &c->may_begin);
    return c->listed < 0 ? c->listed
                         : uvcc_store_offer_common(st, s, cfg, c->kept, c->count, c->anew);
}

static void goes_on_from_what_workers_have_in_common(void **state) {
    common c = {.anew = true};
    job_options o = {.dir = "jobs", .every = 1, .steps = 20, .offer = offer_common, .user = &c};
    job_host h;
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    run_job(&o, 1); /* nothing is there, so they begin */
    assert_int_equal(c.listed, 0);
    assert_true(c.may_begin);
    run_job(&o, 1); /* what is there may be left out */
    assert_int_equal(c.listed, 2);
    assert_int_equal(j.host[0].begun_at, 0);
    c = (common){.kept = {{1, 1}}, .count = 1};
    run_job(&o, 5);
    assert_int_equal(j.host[1].begun_at, 1);
    steps_are("jobs/party-1", "3 4 5 ");
    c = (common){.kept = {{4, 2}, {5, 1}}, .count = 2, .anew = true}; /* 5 is of run 2 */
    run_job(&o, 6);
    assert_int_equal(j.host[2].begun_at, 4);
    assert_int_equal(c.listed, 3);
    assert_false(c.may_begin);
    assert_int_equal(c.found[0].step, 5);
    assert_int_equal(c.found[0].run, 2);
    assert_int_equal(c.found[2].step, 3);
    c = (common){.kept = {{4, 1}}, .count = 1, .anew = true};
    assert_int_equal(job_open(&h, &o, 0),
                     UVCC_ERR_NOT_FOUND); /* not even to begin: it is past that */
    says(h.why, "no checkpoint of worker r0 s0 t0 that all workers of the party have");
    job_free(&h);
    c.count = 0;
    assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_NOT_FOUND);
    job_free(&h);
}

/* More of them than a session takes: those of the run that was last go first. */
static void more_than_fit(void **state) {
    job_options o = {.dir = "jobs", .every = 1, .steps = 20};
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    assert_int_equal(mkdir("old", 0700), 0);
    run_job(&o, 9);
    for (uint32_t step = 7; step <= 9; step++) {
        char from[64], to[64];
        (void)snprintf(from, sizeof from, "jobs/party-0/r0-s0-t0.step-%u", step);
        (void)snprintf(to, sizeof to, "old/%u", step);
        assert_int_equal(rename(from, to), 0);
    }
    for (unsigned p = 1; p < 3; p++)
        for (uint32_t step = 7; step <= 9; step++) {
            char path[64];
            (void)snprintf(path, sizeof path, "jobs/party-%u/r0-s0-t0.step-%u", p, step);
            assert_int_equal(unlink(path), 0);
        }
    run_job(&o, 4); /* another history */
    for (uint32_t step = 7; step <= 9; step++) {
        char from[64], to[64];
        (void)snprintf(to, sizeof to, "jobs/party-0/r0-s0-t0.step-%u", step);
        (void)snprintf(from, sizeof from, "old/%u", step);
        assert_int_equal(rename(from, to), 0);
    }
    steps_are("jobs/party-0", "2 3 4 7 8 9 ");
    run_job(&o, 14);
    assert_int_equal(j.host[0].begun_at, 4);
    steps_are("jobs/party-0", "12 13 14 ");
}

/* ---- a disk that is full ---- */

static void full_disk(void **state) {
    job_options o = {.dir = "jobs", .every = 1, .steps = 20};
    static const struct {
        unsigned call;
        int error;
    } cases[] = {{DISK_WRITE, ENOSPC}, {DISK_FSYNC, EIO}, {DISK_RENAME, EROFS}};
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    job_start(&j, &o);
    assert_true(job_drive(&j, 2));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint32_t at = j.host[0].finished;
        disk->fail = cases[i].call;
        disk->fail_errno = cases[i].error;
        assert_false(job_drive(&j, at + 3)); /* it stands, and nobody agrees to more */
        for (unsigned p = 0; p < 3; p++) {
            assert_int_equal(j.host[p].step_rc, UVCC_ERR_IO);
            assert_int_equal(j.host[p].event_rc, UVCC_ERR_IO);
            says(uvcc_store_error(j.host[p].store), strerror(cases[i].error));
            says(uvcc_store_error(j.host[p].store), "jobs/party-");
            assert_true(j.host[p].at <= j.host[p].finished + 1);
            j.host[p].event_rc = 0;
        }
        no_parts("jobs/party-0");
        disk->fail = 0;
        assert_true(job_drive(&j, at + 3)); /* there is room again */
    }
    assert_true(job_drive(&j, 20));
    assert_true(job_close(&j));
    job_kill(&j);
    run_job(&o, 20);
}

/* Nor can anything be opened: it is said, and tried again. */
static void descriptors_run_out(void **state) {
    job_options o = {.dir = "jobs", .every = 1, .steps = 20};
    struct rlimit was, none;
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    job_start(&j, &o);
    assert_true(job_drive(&j, 2));
    const uint32_t at = j.host[0].finished;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const bool went = job_drive(&j, at + 3);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_false(went);
    for (unsigned p = 0; p < 3; p++) {
        assert_int_equal(j.host[p].step_rc, UVCC_ERR_IO);
        says(uvcc_store_error(j.host[p].store), strerror(EMFILE));
        says(uvcc_store_error(j.host[p].store), "jobs/party-");
        assert_true(j.host[p].at <= j.host[p].finished + 1);
        j.host[p].event_rc = 0;
    }
    assert_true(job_drive(&j, 20));
    assert_true(job_close(&j));
    job_kill(&j);
    run_job(&o, 20);
}

/* What a full disk left is enough to go on from. */
static void full_disk_and_an_end(void **state) {
    job_options o = {.dir = "jobs", .every = 2, .steps = 20};
    (void)state;
    for (unsigned after = 0; after < 16; after++) {
        assert_int_equal(mkdir("jobs", 0700), 0);
        run_job(&o, 4);
        job_options more = o;
        job_start(&j, &more);
        assert_true(job_drive(&j, 4));
        disk->fail = after % 2 == 0 ? DISK_WRITE : DISK_FSYNC;
        disk->fail_errno = ENOSPC;
        disk->fail_after = after;
        (void)job_drive(&j, 9);
        uint32_t most = 0;
        for (unsigned p = 0; p < 3; p++)
            most = j.host[p].finished > most ? j.host[p].finished : most;
        disk->fail = disk->fail_after = 0;
        job_kill(&j);
        run_job(&o, 12);
        assert_true(j.host[0].begun_at + 4 >= most);
        test_remove_all("jobs");
    }
}

/* Deleting is no duty: it is said, and tried again. */
static unsigned grumbled;
static void grumble(void *user, uvcc_log_level level, const char *line) {
    (void)user;
    (void)level;
    says(line, "cannot be deleted");
    grumbled++;
}

static void undeletable(void **state) {
    job_options o = {.dir = "jobs", .every = 1, .steps = 20, .log = {.write = grumble}};
    (void)state;
    grumbled = 0;
    assert_int_equal(mkdir("jobs", 0700), 0);
    job_start(&j, &o);
    assert_true(job_drive(&j, 1));
    disk->fail = DISK_UNLINK;
    disk->fail_errno = EACCES;
    assert_true(job_drive(&j, 5));
    assert_true(grumbled > 0);
    disk->fail = 0;
    assert_true(job_drive(&j, 20));
    job_kill(&j);
    steps_are("jobs/party-0", "18 19 20 ");
}

/* ---- marks and counts ---- */

static void refused_step(void **state) {
    job_options o = {.dir = "jobs", .every = 1, .steps = 20};
    const uvcc_event other = {.kind = UVCC_EVENT_ABORTED, .reason = UVCC_ABORT_HOST, .step = 9};
    const uvcc_event sks = {.kind = UVCC_EVENT_ABORTED, .reason = UVCC_ABORT_SKS, .step = 5};
    job_host h;
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    assert_int_equal(job_open(&h, &o, 0), 0);
    assert_false(h.cfg.checks.sks_refused);
    assert_int_equal(uvcc_store_event(h.store, h.session, &other), 0);
    assert_false(there("jobs/party-0/sks-refused"));
    disk->fail = DISK_WRITE;
    disk->fail_errno = ENOSPC;
    assert_int_equal(uvcc_store_event(h.store, h.session, &sks), UVCC_ERR_IO);
    disk->fail = 0;
    assert_int_equal(uvcc_store_event(h.store, h.session, &sks), 0);
    assert_int_equal(uvcc_store_event(h.store, (uvcc_session *)&h, &sks), UVCC_ERR_NOT_FOUND);
    assert_int_equal(uvcc_store_may_agree(h.store, h.session, 0), UVCC_ERR_STATE);
    job_free(&h);
    has_text("jobs/party-0/sks-refused", "5\n");
    assert_int_equal(job_open(&h, &o, 0), 0);
    assert_true(h.cfg.checks.sks_refused);
    assert_int_equal(h.cfg.checks.sks_step, 5);
    job_free(&h);
    put_text("jobs/party-0/sks-refused", "5");
    assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_AUTH);
    says(h.why, "sks-refused");
    job_free(&h);
}

#define POLICY "uvcc policy v1\nprogram any\nopen * * to all\nsteps run 6\ninput run * 9\n"

static void counts(void **state) {
    job_options o = {.dir = "jobs", .every = 1, .policy = POLICY};
    char text[512], want[512], hex[65];
    uint8_t hash[32];
    job_host h;
    (void)state;
    uvcc_policy_hash(POLICY, strlen(POLICY), hash);
    for (unsigned i = 0; i < 32; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", hash[i]);
    assert_int_equal(mkdir("jobs", 0700), 0);
    run_job(&o, 4);
    for (unsigned p = 0; p < 3; p++) {
        char path[64];
        (void)snprintf(path, sizeof path, "jobs/party-%u/r0-s0-t0.used", p);
        (void)snprintf(want, sizeof want, "uvcc policy counts v1\n%s\n4\n%d\n", hex,
                       p == 0 ? 4 : 0);
        has_text(path, want);
    }
    o.steps = 20;
    job_start(&j, &o);
    assert_int_equal(j.host[0].cfg.consent.used_count, 2);
    assert_int_equal(j.host[0].cfg.consent.used[0], 4);
    assert_false(job_drive(&j, 7)); /* six steps in all, over restarts */
    assert_int_equal(j.host[1].step_rc, UVCC_ERR_REFUSED);
    says(uvcc_store_error(j.host[1].store), "line 4 allows no further step");
    assert_int_equal(j.host[1].finished, 6);
    job_kill(&j);
    /* Damaged, of another policy, missing. */
    const size_t n = get("jobs/party-0/r0-s0-t0.used", text, sizeof text);
    for (size_t cut = 1; cut < n; cut++) {
        put("jobs/party-0/r0-s0-t0.used", text, cut);
        assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_AUTH);
        job_free(&h);
    }
    put("jobs/party-0/r0-s0-t0.used", text, n);
    job_options other = o;
    other.policy = POLICY "# of another text\n";
    assert_int_equal(job_open(&h, &other, 0), UVCC_ERR_MISMATCH);
    says(h.why, "of another policy");
    job_free(&h);
    other.policy = "uvcc policy v2\n";
    assert_int_equal(job_open(&h, &other, 0), UVCC_ERR_CONFIG);
    job_free(&h);
    assert_int_equal(unlink("jobs/party-0/r0-s0-t0.used"), 0);
    assert_int_equal(job_open(&h, &o, 0), UVCC_ERR_NOT_FOUND);
    says(h.why, "what the policy counted");
    job_free(&h);
    put_text("jobs/party-0/r0-s0-t0.used", "");
    assert_int_equal(job_open(&h, &o, 0), 0);
    assert_int_equal(h.cfg.consent.used[0], 0);
    job_free(&h);
}

static void counts_and_a_full_disk(void **state) {
    job_options o = {.dir = "jobs", .every = 0, .policy = POLICY};
    char text[512];
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    job_start(&j, &o); /* no steps: READY alone */
    assert_true(job_drive(&j, 0));
    disk->fail = DISK_WRITE;
    disk->fail_errno = ENOSPC;
    uvcc_store *st = j.host[1].store;
    assert_int_equal(uvcc_store_step(st, j.host[1].session, 0, 0, 0), UVCC_ERR_IO);
    says(uvcc_store_error(st), "was taken, and is not counted on the disk");
    says(uvcc_store_error(st), "No space left");
    disk->fail = 0;
    assert_int_equal(uvcc_store_step(st, j.host[1].session, 1, 0, 0), 0);
    (void)get("jobs/party-1/r0-s0-t0.used", text, sizeof text);
    says(text, "\n2\n0\n");
    assert_int_equal(uvcc_store_step(st, j.host[1].session, 5, 0, 0), UVCC_ERR_USAGE);
    job_kill(&j);
}

/* ---- the rest ---- */

static void left_overs(void **state) {
    uvcc_store *s;
    (void)state;
    must_open("d", &s);
    uvcc_store_free(s);
    static const char *const ours[] = {"d/run.part", "d/key.123.part", "d/r0-s0-t0.step-4.part",
                                       "d/sks-refused.part", "d/r1-s0-t0.used.part"};
    static const char *const not_ours[] = {"d/notes.part", "d/r0-s0-t0.step-04.part", "d/part"};
    for (size_t i = 0; i < 5; i++)
        put_text(ours[i], "x");
    for (size_t i = 0; i < 3; i++)
        put_text(not_ours[i], "x");
    must_open("d", &s);
    uvcc_store_free(s);
    for (size_t i = 0; i < 5; i++)
        assert_false(there(ours[i]));
    for (size_t i = 0; i < 3; i++)
        assert_true(there(not_ours[i]));
}

static void memory(void **state) {
    job_options o = {.dir = "jobs", .every = 1};
    (void)state;
    assert_int_equal(mkdir("jobs", 0700), 0);
    run_job(&o, 3);
    bool done = false;
    for (size_t at = 1; !done; at++) {
        test_alloc mem = {.fail_at = at};
        uvcc_store *st = NULL;
        uvcc_store_config c;
        uvcc_store_config_default(&c);
        c.alloc = test_allocator(&mem);
        c.dir = "jobs/party-0";
        job_host h;
        assert_int_equal(job_open(&h, &o, 0), 0);
        uvcc_store_free(h.store);
        h.store = NULL;
        uint32_t run;
        uvcc_config cfg = h.cfg;
        int rc = uvcc_store_open(&st, &c, why, sizeof why);
        if (rc == 0)
            rc = uvcc_store_next_run(st, &run);
        if (rc == 0)
            rc = uvcc_store_configure(st, &cfg);
        uvcc_session *s = NULL;
        if (rc == 0) {
            assert_int_equal(uvcc_session_new(&s, &cfg), 0);
            assert_int_equal(uvcc_session_load_program(s, h.program), 0);
            rc = uvcc_store_offer(st, s, &cfg);
        }
        done = rc == 0;
        assert_true(done || rc == UVCC_ERR_NOMEM);
        uvcc_session_free(s);
        uvcc_store_free(st);
        job_free(&h);
        assert_int_equal(mem.live_blocks, 0);
        assert_true(at < 50);
    }
}

static void timeouts(void **state) {
    const uint64_t ms = 1000000;
    (void)state;
    assert_int_equal(uvcc_host_timeout_ms(UVCC_NEVER, 0), -1);
    assert_int_equal(uvcc_host_timeout_ms(UVCC_NEVER, UVCC_NEVER), -1);
    assert_int_equal(uvcc_host_timeout_ms(5, 5), 0);
    assert_int_equal(uvcc_host_timeout_ms(4, 5), 0);
    assert_int_equal(uvcc_host_timeout_ms(6, 5), 1);
    assert_int_equal(uvcc_host_timeout_ms(5 + ms, 5), 1);
    assert_int_equal(uvcc_host_timeout_ms(6 + ms, 5), 2);
    assert_int_equal(uvcc_host_timeout_ms(UVCC_NEVER - 1, 0), INT_MAX);
    assert_int_equal(uvcc_host_timeout_ms((uint64_t)INT_MAX * ms, 0), INT_MAX);
    assert_int_equal(uvcc_host_timeout_ms((uint64_t)INT_MAX * ms - ms, 0), INT_MAX - 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, enter, leave)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(keys),
        TEST(keys_that_are_none),
        TEST(keys_and_a_bad_disk),
        TEST(directories),
        TEST(one_process_at_a_time),
        TEST(runs),
        TEST(rules),
        TEST(waits),
        TEST(goes_on),
        TEST(goes_on_from_what_workers_have_in_common),
        TEST(again_in_one_process),
        TEST(begins_anew),
        TEST(damaged),
        TEST(foreign),
        TEST(more_than_fit),
        TEST(full_disk),
        TEST(descriptors_run_out),
        TEST(full_disk_and_an_end),
        TEST(undeletable),
        TEST(refused_step),
        TEST(counts),
        TEST(counts_and_a_full_disk),
        TEST(left_overs),
        TEST(memory),
        TEST(timeouts),
    };
    disk_begin();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
