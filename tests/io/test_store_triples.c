/* SPDX-License-Identifier: Apache-2.0 */
/* test_store_triples.c - triples that stores keep for later runs: made, used once each whatever
 * ends the process and whatever copies there are, in memory a step at a time; disks that are full,
 * files that are damaged, foreign or without a mark. */
#define _DEFAULT_SOURCE
#include "disk.h"
#include "store_job.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uvcc/host.h>

enum { MADE = 4, STEPS = 6, WRONG = 4, RUNS_MAX = 64, STEPS_MAX = 128 };

/* Of all processes: whose triples a session has, and which were used. */
typedef struct seen {
    uint8_t loaded[3]; /* the party's present session has been given some, of ... */
    uint32_t loaded_run[3], loaded_step[3];
    uint8_t used[3][RUNS_MAX][STEPS_MAX]; /* by party, run of the maker, step */
    uint32_t given;                       /* steps that a session was given triples for */
    uint32_t finished[3], ends[3];
    uint64_t preprocessing[3];
    char fault[256];
} seen;
static seen *saw;
static pid_t parent;

static char place[] = "/tmp/uvcc-triples-XXXXXX";

__attribute__((format(printf, 1, 2))) static void wrong(const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(saw->fault, sizeof saw->fault, format, args);
    va_end(args);
    if (getpid() == parent)
        fail_msg("%s", saw->fault);
    _exit(WRONG);
}

/* ---- what sessions are given ---- */

int __real_uvcc_session_load_triples(uvcc_session *s, const uint8_t *data, size_t len);
int __real_uvcc_session_step(uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now);
int __wrap_uvcc_session_load_triples(uvcc_session *s, const uint8_t *data, size_t len);
int __wrap_uvcc_session_step(uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now);

int __wrap_uvcc_session_load_triples(uvcc_session *s, const uint8_t *data, size_t len) {
    const int rc = __real_uvcc_session_load_triples(s, data, len);
    uvcc_triple_info t;
    if (rc != 0 || saw == NULL || uvcc_triple_read(data, len, &t) != 0)
        return rc;
    saw->loaded[t.party] = 1;
    saw->loaded_run[t.party] = t.maker_run;
    saw->loaded_step[t.party] = t.step;
    return rc;
}

/* The triples of a step that is agreed to are used: each once, by all processes ever. */
static void use(unsigned party, uint32_t step) {
    if (!saw->loaded[party] || saw->loaded_step[party] != step)
        return;
    const uint32_t run = saw->loaded_run[party];
    saw->loaded[party] = 0;
    if (run >= RUNS_MAX || step >= STEPS_MAX || saw->used[party][run][step] != 0)
        wrong("party %u: the triples of step %u, made in run %u, are used twice", party, step, run);
    saw->used[party][run][step] = 1;
    saw->given++;
}

static job the_job;

int __wrap_uvcc_session_step(uvcc_session *s, uint32_t step, uint32_t entry, uint64_t now) {
    const int rc = __real_uvcc_session_step(s, step, entry, now);
    for (unsigned p = 0; p < 3 && rc == 0 && saw != NULL; p++)
        if (the_job.host[p].session == s)
            use(p, step);
    return rc;
}

/* ---- jobs ---- */

static void fresh(void) {
    test_remove_all("jobs");
    assert_int_equal(mkdir("jobs", 0700), 0);
    memset(saw, 0, sizeof *saw);
    memset(disk, 0, sizeof *disk);
}

static const job_options maker = {.dir = "jobs", .steps = MADE, .beaver = true, .make = true};
static const job_options user = {.dir = "jobs", .steps = STEPS, .every = 2, .beaver = true};

static void tell(void) {
    for (unsigned p = 0; p < 3; p++) {
        uvcc_session_stats st;
        uvcc_session_get_stats(the_job.host[p].session, &st);
        saw->preprocessing[p] = st.bytes_preprocessing;
        saw->finished[p] = the_job.host[p].finished;
    }
}

/* In this process, from the stores' opening to their end. */
static void whole(const job_options *o) {
    memset(saw->loaded, 0, sizeof saw->loaded);
    job_start(&the_job, o);
    if (!job_drive(&the_job, o->steps))
        wrong("the steps do not come: %s", uvcc_store_error(the_job.host[0].store));
    tell();
    if (!job_close(&the_job))
        wrong("no end");
    job_kill(&the_job);
}

/* In a child that is killed before call kill_at; 0: never. True: it came to its end. */
static bool in_child(const job_options *o, unsigned kill_at) {
    int status;
    disk->calls = 0;
    disk->kill_at = kill_at;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        whole(o);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    disk->kill_at = 0;
    if (WIFSIGNALED(status)) {
        assert_int_equal(WTERMSIG(status), SIGKILL);
        return false;
    }
    if (status != 0)
        fail_msg("%s", saw->fault);
    return true;
}

static uint32_t used_by(unsigned party) {
    uint32_t n = 0;
    for (unsigned r = 0; r < RUNS_MAX; r++)
        for (unsigned m = 0; m < STEPS_MAX; m++)
            n += saw->used[party][r][m];
    return n;
}

static unsigned files_of(const char *dir, const char *part) {
    unsigned n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        n += strstr(e->d_name, part) != NULL;
    (void)closedir(d);
    return n;
}

/* ---- tests ---- */

/* Made, kept over an end of all processes, used, destroyed; what is not there is made. */
static void kept_and_used(void **state) {
    (void)state;
    fresh();
    whole(&maker);
    for (unsigned p = 0; p < 3; p++) {
        char dir[64];
        (void)snprintf(dir, sizeof dir, "jobs/party-%u", p);
        assert_int_equal(files_of(dir, ".triples-"), MADE + 1);
    }
    whole(&user);
    for (unsigned p = 0; p < 3; p++) {
        char dir[64];
        (void)snprintf(dir, sizeof dir, "jobs/party-%u", p);
        assert_int_equal(used_by(p), MADE);
        assert_int_equal(files_of(dir, ".triples-"), 1); /* the mark, until the next time */
    }
    const uint64_t with = saw->preprocessing[0];
    fresh();
    whole(&user);
    assert_int_equal(saw->given, 0);
    /* two steps of six made their own: a third of the bytes */
    assert_true(saw->preprocessing[0] == 3 * with);
}

/* A run that ends in the middle and one that goes on from a checkpoint: what the first took is made
 * by the second, the rest comes from the store. */
static void over_restarts(void **state) {
    (void)state;
    fresh();
    whole(&maker);
    job_options some = user;
    some.every = 4;
    some.steps = 2;
    whole(&some); /* no checkpoint but the first one: steps 0 and 1 come again */
    whole(&user);
    for (unsigned p = 0; p < 3; p++)
        assert_int_equal(used_by(p), MADE);
    whole(&(job_options){.dir = "jobs", .steps = 9, .every = 2, .beaver = true});
    assert_int_equal(saw->given, 3 * MADE);
    assert_int_equal(files_of("jobs/party-0", ".triples-"), 0);
}

/* The process of all three is killed before each call that changes a directory, while it makes and
 * while it uses (every second, of which each party has its share, unless UVCC_STORE_KILLS is set);
 * what the disk was not told is lost or not. Nothing is used twice, and what was not taken is still
 * used. */
static void at_every_call(void **state) {
    static const char *const parties[] = {"party-0", "party-1", "party-2"};
    const unsigned stride = getenv("UVCC_STORE_KILLS") != NULL ? 1 : 2;
    (void)state;
    fresh();
    assert_true(in_child(&maker, 0));
    const unsigned making = disk->calls;
    assert_true(in_child(&user, 0));
    const unsigned using = disk->calls;
    assert_true(making > 3 * 4 * MADE && using > making);
    for (unsigned at = 1; at <= making; at += stride) {
        fresh();
        assert_false(in_child(&maker, at));
        disk_lose(parties + at % 3, at / 3 % (4 - at % 3));
        assert_true(in_child(&maker, 0)); /* another maker, of the same steps */
        assert_true(in_child(&user, 0));
        assert_int_equal(disk->torn, 0);
        for (unsigned p = 0; p < 3; p++)
            assert_int_equal(used_by(p), MADE);
    }
    for (unsigned at = 1; at <= using; at += stride) {
        fresh();
        assert_true(in_child(&maker, 0));
        assert_false(in_child(&user, at));
        disk_lose(parties + at % 3, at / 3 % (4 - at % 3));
        if (at % 2 == 0)
            (void)in_child(&user, 1 + at * 7 % 60);
        disk_lose(parties, at % 4);
        assert_true(in_child(&user, 0));
        assert_int_equal(disk->torn, 0);
        for (unsigned p = 0; p < 3; p++) {
            assert_true(used_by(p) + 2 * (1 + (at % 2 == 0)) >= MADE); /* two steps are open */
            assert_int_equal(saw->finished[p], STEPS);
        }
    }
}

static uvcc_store *open_party(unsigned p) {
    static char why[UVCC_STORE_TEXT_BYTES];
    char dir[64];
    uvcc_store_config c;
    uvcc_store *st;
    (void)snprintf(dir, sizeof dir, "jobs/party-%u", p);
    uvcc_store_config_default(&c);
    c.dir = dir;
    c.party = (uint8_t)p;
    if (uvcc_store_open(&st, &c, why, sizeof why) != 0)
        fail_msg("%s", why);
    return st;
}

/* The name of the file of a step, or the mark (step < 0), whatever the maker's run was. */
static void name_of(unsigned p, int step, char out[256]) {
    char dir[64], end[32];
    (void)snprintf(dir, sizeof dir, "jobs/party-%u", p);
    (void)snprintf(end, sizeof end, step < 0 ? ".used" : "-%d", step);
    DIR *d = opendir(dir);
    assert_non_null(d);
    out[0] = '\0';
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        const size_t len = strlen(e->d_name), n = strlen(end);
        if (strstr(e->d_name, ".triples-") != NULL && len > n &&
            strcmp(e->d_name + len - n, end) == 0)
            (void)snprintf(out, 256, "%s/%s", dir, e->d_name);
    }
    (void)closedir(d);
    assert_true(out[0] != '\0');
}

static void copy_file(const char *from, const char *to) {
    static char bytes[1 << 16];
    const int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const ssize_t n = read(in, bytes, sizeof bytes);
    assert_true(n > 0 && n < (ssize_t)sizeof bytes);
    assert_int_equal(write(out, bytes, (size_t)n), n);
    (void)close(in);
    (void)close(out);
}

static void write_text(const char *path, const char *text) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* Copies of files that were used: with the mark there they are destroyed, without it left alone;
 * with an old copy of the mark too, at one party, of the same run as now, the others have none, and
 * everything is made. */
static void copies(void **state) {
    (void)state;
    for (unsigned how = 0; how < 3; how++) {
        char file[256], mark[256];
        fresh();
        whole(&maker);
        name_of(1, 0, file);
        copy_file(file, "old-file");
        name_of(1, -1, mark);
        job_options some = user;
        some.every = 4;
        some.steps = 2;
        whole(&some);
        assert_int_equal(used_by(1), 2);
        copy_file("old-file", file);
        if (how == 1)
            assert_int_equal(unlink(mark), 0);
        if (how == 2) {
            write_text(mark, "0 1\n");
            memset(saw->used[1], 0, sizeof saw->used[1]); /* it is given, and not used */
        }
        whole(&user); /* steps 0 and 1 come again */
        assert_int_equal(used_by(0), 4);
        assert_int_equal(used_by(1), how == 1 ? 2 : how == 2 ? 3 : 4);
        assert_int_equal(access(file, F_OK), how == 1 ? 0 : -1);
    }
}

/* A party's triples with their mark, as a copy has them. */
static void copy_triples(const char *from, const char *to) {
    char dir[2][64], name[2][512];
    (void)snprintf(dir[0], sizeof dir[0], "%s", from);
    (void)snprintf(dir[1], sizeof dir[1], "%s", to);
    (void)mkdir(to, 0700);
    DIR *d = opendir(from);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (strstr(e->d_name, ".triples-") == NULL)
            continue;
        for (unsigned i = 0; i < 2; i++)
            (void)snprintf(name[i], sizeof name[i], "%s/%s", dir[i], e->d_name);
        copy_file(name[0], name[1]);
    }
    (void)closedir(d);
}

/* What was used comes back from a copy at all three, marks and all, while the number of the run is
 * that of now: no other party knows better, and still none of it is used. Copies of which runs were
 * between are refused too, and what is made after them is used. */
static void copies_at_all(void **state) {
    (void)state;
    fresh();
    whole(&maker);
    for (unsigned p = 0; p < 3; p++) {
        char dir[64], old[64];
        (void)snprintf(dir, sizeof dir, "jobs/party-%u", p);
        (void)snprintf(old, sizeof old, "jobs/old-%u", p);
        copy_triples(dir, old);
    }
    job_options some = user;
    some.every = 4;
    some.steps = 2;
    whole(&some); /* no checkpoint but the first one: steps 0 and 1 come again */
    assert_int_equal(saw->given, 3 * 2);
    for (unsigned p = 0; p < 3; p++) {
        char dir[64], old[64];
        (void)snprintf(dir, sizeof dir, "jobs/party-%u", p);
        (void)snprintf(old, sizeof old, "jobs/old-%u", p);
        copy_triples(old, dir);
    }
    uvcc_store *st = open_party(0);
    uvcc_store_triples set;
    assert_int_equal(uvcc_store_triples_at(st, 0, &set), 1);
    assert_true(set.copied && !set.marked);
    uvcc_store_free(st);
    whole(&some);
    assert_int_equal(saw->given, 3 * 2);
    for (unsigned p = 0; p < 3; p++) { /* nothing is destroyed that somebody put there */
        char dir[64];
        (void)snprintf(dir, sizeof dir, "jobs/party-%u", p);
        assert_int_equal(files_of(dir, ".triples-"), MADE + 1);
    }
    whole(&maker);
    whole(&some);
    assert_int_equal(saw->given, 3 * 4);
}

static unsigned warned;
static char warning[1024];
static void on_log(void *user_, uvcc_log_level level, const char *text) {
    (void)user_;
    warned += level == UVCC_LOG_WARN;
    (void)snprintf(warning, sizeof warning, "%s", text);
}

/* A file that is damaged or another step's is told of, not used, and in nobody's way. */
static void damaged(void **state) {
    (void)state;
    for (unsigned how = 0; how < 3; how++) {
        char file[256], other[256], mark[256];
        fresh();
        whole(&maker);
        name_of(2, 1, file);
        name_of(2, 3, other);
        name_of(2, -1, mark);
        if (how == 0) {
            const int fd = open(file, O_RDWR);
            uint8_t byte = 0;
            assert_int_equal(pread(fd, &byte, 1, 100), 1);
            byte ^= 4;
            assert_int_equal(pwrite(fd, &byte, 1, 100), 1);
            (void)close(fd);
        } else if (how == 1) {
            copy_file(other, file);
        } else {
            write_text(mark, "04 0\n");
        }
        warned = 0;
        job_options o = user;
        o.log = (uvcc_logger){.write = on_log};
        whole(&o);
        assert_true(warned == 1);
        assert_non_null(strstr(warning, how == 2 ? "mark is missing or damaged" : "is damaged"));
        assert_int_equal(used_by(0), MADE);
        assert_int_equal(used_by(2), how == 2 ? 0 : MADE - 1);
        assert_int_equal(saw->finished[2], STEPS);
    }
}

/* Another program's: told once, and left alone. */
static void foreign(void **state) {
    (void)state;
    fresh();
    job_options plain = user;
    plain.beaver = false;
    plain.log = (uvcc_logger){.write = on_log};
    whole(&maker);
    warned = 0;
    whole(&plain);
    assert_int_equal(saw->given, 0);
    assert_int_equal(warned, 3);
    assert_int_equal(files_of("jobs/party-1", ".triples-"), MADE + 1);
    test_remove_all("jobs/party-1/x");
    /* asked to leave them */
    fresh();
    whole(&maker);
    job_options leave = user;
    leave.leave_triples = true;
    whole(&leave);
    assert_int_equal(saw->given, 0);
    assert_int_equal(files_of("jobs/party-1", ".triples-"), MADE + 1);
}

static bool drive_on(uint32_t until) {
    for (unsigned p = 0; p < 3; p++)
        the_job.host[p].event_rc = the_job.host[p].step_rc = 0;
    return job_drive(&the_job, until);
}

/* A disk that is full: nothing is made or used that is not on it, the error names the file, and all
 * goes on when there is room. */
static void full_disk(void **state) {
    static const unsigned calls[] = {DISK_WRITE, DISK_FSYNC, DISK_RENAME};
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        fresh();
        job_start(&the_job, &maker);
        assert_true(job_drive(&the_job, 1));
        disk->fail = calls[i];
        disk->fail_errno = ENOSPC;
        assert_false(drive_on(MADE));
        for (unsigned p = 0; p < 3; p++) {
            assert_int_equal(the_job.host[p].step_rc, UVCC_ERR_IO);
            assert_non_null(strstr(uvcc_store_error(the_job.host[p].store), ".triples-"));
            assert_true(the_job.host[p].at <= 3);
        }
        disk->fail = 0;
        assert_true(drive_on(MADE));
        assert_true(job_close(&the_job));
        job_kill(&the_job);
        assert_int_equal(files_of("jobs/party-0", ".triples-"), MADE + 1);
        assert_int_equal(files_of("jobs/party-0", ".part"), 0);

        memset(saw->loaded, 0, sizeof saw->loaded);
        job_options o = user;
        o.every = 0;
        job_start(&the_job, &o);
        assert_true(job_drive(&the_job, 1));
        const uint32_t given = saw->given;
        disk->fail = calls[i];
        assert_false(drive_on(STEPS));
        for (unsigned p = 0; p < 3; p++) {
            assert_int_equal(the_job.host[p].step_rc, UVCC_ERR_IO);
            assert_non_null(strstr(uvcc_store_error(the_job.host[p].store), ".used"));
        }
        assert_int_equal(saw->given, given);
        disk->fail = 0;
        assert_true(drive_on(STEPS));
        assert_int_equal(saw->given, 3 * MADE);
        assert_true(job_close(&the_job));
        job_kill(&the_job);
    }
}

/* Files that cannot be deleted are destroyed later, and not used meanwhile. */
static void not_deleted(void **state) {
    (void)state;
    fresh();
    whole(&maker);
    disk->fail = DISK_UNLINK;
    disk->fail_errno = EIO;
    job_options o = user;
    o.every = 0;
    o.steps = 3;
    whole(&o);
    assert_int_equal(used_by(0), 3);
    assert_int_equal(files_of("jobs/party-0", ".triples-"), MADE + 1);
    disk->fail = 0;
    o.steps = STEPS;
    whole(&o); /* without checkpoints: all steps again */
    for (unsigned p = 0; p < 3; p++)
        assert_int_equal(used_by(p), MADE);
}

/* What list and check read. */
static void listed(void **state) {
    (void)state;
    uvcc_store_triples set;
    uvcc_triple_info info;
    uint32_t step, count, products;
    char file[256];
    fresh();
    whole(&maker);
    job_options later = maker;
    later.first = 100;
    later.steps = 103;
    whole(&later);
    job_options some = user;
    some.steps = 1;
    whole(&some);
    uvcc_store *st = open_party(0);
    assert_int_equal(uvcc_store_triples_at(st, 0, &set), 1);
    assert_int_equal(set.replica + set.stage + set.tp_rank, 0);
    assert_true(set.marked);
    assert_int_equal(set.next, 1);
    assert_int_equal(set.steps, MADE - 1);
    assert_int_equal(set.first, 1);
    assert_int_equal(set.last, MADE - 1);
    assert_true(set.bytes > 100 * set.steps);
    uvcc_store_triples other;
    assert_int_equal(uvcc_store_triples_at(st, 1, &other), 1);
    assert_true(other.run > set.run);
    assert_int_equal(other.first, 100);
    assert_int_equal(other.last, 102);
    assert_int_equal(other.next, 100);
    assert_int_equal(uvcc_store_triples_at(st, 2, &other), 0);
    for (step = 0; uvcc_store_triples_check(st, &set, &step, &count, &products, &info) == 1;
         step++) {
        assert_int_equal(count, JOB_ELEMS); /* tiles of one element */
        assert_int_equal(products, 1);
        assert_int_equal(info.step, step);
        assert_int_equal(info.maker_run, set.run);
    }
    assert_int_equal(step, MADE);
    uvcc_store_free(st);
    name_of(0, 2, file);
    assert_int_equal(truncate(file, 90), 0);
    st = open_party(0);
    step = 0;
    assert_int_equal(uvcc_store_triples_check(st, &set, &step, &count, &products, &info), 1);
    step++;
    assert_int_equal(uvcc_store_triples_check(st, &set, &step, &count, &products, &info),
                     UVCC_ERR_AUTH);
    assert_int_equal(step, 2);
    assert_non_null(strstr(uvcc_store_error(st), "-2: is damaged"));
    uvcc_store_free(st);
    /* The key is of these files too. */
    char why[UVCC_STORE_TEXT_BYTES];
    uvcc_store_config c;
    uvcc_store_config_default(&c);
    c.dir = "jobs/party-0";
    assert_int_equal(unlink("jobs/party-0/key"), 0);
    assert_int_equal(uvcc_store_open(&st, &c, why, sizeof why), UVCC_ERR_NOT_FOUND);
}

/* ---- memory ---- */

static size_t live, most;
static void *counted_alloc(void *u, size_t bytes, uvcc_mem_class cls) {
    (void)u;
    (void)cls;
    live += bytes;
    most = live > most ? live : most;
    return malloc(bytes);
}
static void counted_free(void *u, void *p, size_t bytes, uvcc_mem_class cls) {
    (void)u;
    (void)cls;
    live -= bytes;
    free(p);
}

/* A store of a hundred steps takes as much memory as one of two. */
static void bounded(void **state) {
    (void)state;
    size_t peak[2];
    for (unsigned big = 0; big < 2; big++) {
        fresh();
        job_options many = maker;
        many.steps = big ? 100 : 2;
        whole(&many);
        uvcc_store_config c;
        uvcc_store *st;
        uvcc_store_config_default(&c);
        c.dir = "jobs/party-0";
        c.alloc = (uvcc_allocator){.alloc = counted_alloc, .free = counted_free};
        live = most = 0;
        assert_int_equal(uvcc_store_open(&st, &c, NULL, 0), 0);
        uvcc_store_triples set;
        uvcc_triple_info info;
        uint32_t count, products, n = 0;
        assert_int_equal(uvcc_store_triples_at(st, 0, &set), 1);
        for (uint32_t step = 0;
             uvcc_store_triples_check(st, &set, &step, &count, &products, &info) == 1; step++)
            n++;
        assert_int_equal(n, many.steps);
        uvcc_store_free(st);
        assert_int_equal(live, 0);
        peak[big] = most;
    }
    assert_int_equal(peak[0], peak[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_and_used), cmocka_unit_test(over_restarts), cmocka_unit_test(copies),
        cmocka_unit_test(copies_at_all), cmocka_unit_test(damaged),       cmocka_unit_test(foreign),
        cmocka_unit_test(full_disk),     cmocka_unit_test(not_deleted),   cmocka_unit_test(listed),
        cmocka_unit_test(bounded),       cmocka_unit_test(at_every_call),
    };
    if (mkdtemp(place) == NULL || chdir(place) != 0)
        return 2;
    parent = getpid();
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
