/* SPDX-License-Identifier: Apache-2.0 */
/* `uvcc audit` and `uvcc train --audit` as a user runs them. */
#include "damage.h"
#include "run_tool.h"
#include "triangle.h"

#include "bundles.h"
#include "proto/bundle.h"
#include "report.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DAMAGES = 1000 };
#define TRAIN "train --data t.csv --hidden 3 --batch 4 --epochs 1 "

/* ---- files ---- */

static void write_csv(void) {
    FILE *f = fopen("t.csv", "wb");
    uint64_t rnd = 1;
    assert_non_null(f);
    for (unsigned i = 0; i < 15; i++)
        fprintf(f, "%u,%u,%u\n", (unsigned)(test_rand(&rnd) % 9), (unsigned)(test_rand(&rnd) % 9),
                i % 3);
    assert_int_equal(fclose(f), 0);
}

static void path_of(char out[200], const char *dir, unsigned party, uint32_t step) {
    char name[BUNDLE_NAME_BYTES];
    bundle_name(&(bundle_place){.party = (uint8_t)party, .step = step}, name);
    snprintf(out, 200, "%s/%s", dir, name);
}

static file read_file(const char *path) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return (file){.bytes = (uint8_t *)read_all(path), .len = (size_t)st.st_size};
}

static void write_bytes(const char *path, const file *f) {
    write_file(path, (const char *)f->bytes, f->len);
}

static int leave_files(void **state) {
    remove_tree("ev");
    remove_tree("logs");
    (void)unlink("t.csv");
    (void)unlink("proof");
    (void)unlink("keys");
    (void)unlink("saved");
    return leave(state);
}

/* ---- running ---- */

static void good(const char *words) {
    outcome o = run_tool(words);
    if (o.status != 0)
        fail_msg("uvcc %s: status %d\n%s%s", words, o.status, o.out, o.err);
    forget(&o);
}

/* Exit status 1 and one line that has both parts. */
static void faulty(const char *words, const char *path, const char *part) {
    outcome o = run_tool(words);
    if (o.status != 1 || lines(o.err) != 1 || strstr(o.err, path) == NULL ||
        strstr(o.err, part) == NULL)
        fail_msg("uvcc %s: status %d, wanted '%s' and '%s'\n%s%s", words, o.status, path, part,
                 o.out, o.err);
    forget(&o);
}

static json_t *verify_json(int status) {
    return json_of("audit verify ev", status);
}

/* Bundles of a run under faults of the network. */
static audit_run train_and_read(void) {
    audit_run r = {0};
    char path[200];
    write_csv();
    good(TRAIN "--audit ev --drop 0.1 --reorder 0.2 --compute deferred");
    json_t *j = verify_json(0);
    r.steps = (uint32_t)test_u64(j, "steps");
    assert_true(r.steps >= 4 && r.steps <= AUDIT_STEPS_MAX);
    assert_int_equal(test_u64(j, "bundles"), 3 * r.steps);
    assert_true(json_is_true(json_object_get(j, "good")));
    assert_true(json_is_false(json_object_get(j, "unfinished")));
    assert_true(json_is_null(json_object_get(j, "fault")));
    assert_int_equal(json_array_size(json_object_get(j, "audit_root")), 3);
    for (uint32_t m = 0; m < r.steps; m++)
        for (unsigned p = 0; p < 3; p++) {
            path_of(path, "ev", p, m);
            r.f[m][p] = read_file(path);
        }
    json_decref(j);
    return r;
}

/* ---- the tests ---- */

static uint32_t number_or(const json_t *o, const char *key, uint32_t other) {
    const json_t *v = json_object_get(o, key);
    assert_non_null(v);
    return json_is_null(v) ? other : (uint32_t)json_integer_value(v);
}

static void names_random_damage(void **state) {
    (void)state;
    audit_run r = train_and_read();
    uint64_t rnd = 77;
    /* A thousand processes take a sanitizer a long time. */
    const char *sanitized = getenv("UVCC_SANITIZED");
    const unsigned turns = sanitized != NULL && *sanitized == '1' ? DAMAGES / 8 : DAMAGES;
    for (unsigned turn = 0; turn < turns; turn++) {
        char path[200];
        damage d = damage_make(&r, &rnd);
        path_of(path, "ev", d.party, d.step);
        write_bytes(path, &d.f);
        json_t *j = verify_json(1);
        const json_t *f = json_object_get(j, "fault");
        uvcc_audit_fault fault = {.kind = (uvcc_fault_kind)test_u64(f, "kind"),
                                  .leaf = number_or(f, "leaf", UVCC_NO_LEAF),
                                  .other = (uint8_t)number_or(f, "other_party", UVCC_NO_PARTY),
                                  .other_leaf = number_or(f, "other_leaf", UVCC_NO_LEAF)};
        if (strcmp(test_str(f, "file"), path) != 0 || test_u64(f, "party") != d.party ||
            test_u64(f, "step") != d.step)
            fail_msg("%s: %s is named: %s", d.what, test_str(f, "file"), test_str(f, "what"));
        if (d.leaf != UVCC_NO_LEAF && !damage_names_leaf(&d, &r, &fault))
            fail_msg("%s: %s", d.what, test_str(f, "what"));
        write_bytes(path, &r.f[d.step][d.party]);
        json_decref(j);
        free(d.f.bytes);
    }
    good("audit verify ev");
    audit_run_free(&r);
    remove_tree("ev");
}

static void exchange(const char *a, const char *b) {
    assert_int_equal(rename(a, "saved"), 0);
    assert_int_equal(rename(b, a), 0);
    assert_int_equal(rename("saved", b), 0);
}

static void names_files_out_of_place(void **state) {
    (void)state;
    audit_run r = train_and_read();
    char a[200], b[200];
    path_of(a, "ev", 1, 2);
    path_of(b, "ev", 1, 3);
    exchange(a, b);
    faulty("audit verify ev", a, "its header says party 1, worker r0s0t0, run 0, step 3");
    exchange(a, b);
    path_of(b, "ev", 2, 2);
    exchange(a, b);
    faulty("audit verify ev", a, "its header says party 2");
    exchange(a, b);

    assert_int_equal(rename(a, "saved"), 0); /* one party's bundle of a middle step */
    faulty("audit verify ev", a, "is missing");
    faulty("audit verify ev --unfinished", a, "is missing");
    assert_int_equal(rename("saved", a), 0);
    for (unsigned p = 0; p < 3; p++) { /* all of a middle step */
        path_of(a, "ev", p, 2);
        assert_int_equal(unlink(a), 0);
    }
    path_of(a, "ev", 0, 2);
    faulty("audit verify ev --unfinished", a, "is missing: the next step is 3");
    for (unsigned p = 0; p < 3; p++) {
        path_of(a, "ev", p, 2);
        write_bytes(a, &r.f[2][p]);
    }
    path_of(a, "ev", 2, r.steps - 1); /* the last step at one party: as after an interruption */
    assert_int_equal(unlink(a), 0);
    faulty("audit verify ev", a, "is missing");
    outcome o = run_tool("audit verify ev --unfinished");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "cut short"));
    forget(&o);
    write_bytes(a, &r.f[r.steps - 1][2]);

    write_file("ev/party-0/r0s0t0/run-000000/step-00000001.bundle.77.part", "x", 1); /* not whole */
    good("audit verify ev");
    write_file("ev/party-0/r0s0t0/run-000000/step-1.bundle", "x", 1);
    faulty("audit verify ev", "run-000000/step-1.bundle", "does not belong there");
    assert_int_equal(unlink("ev/party-0/r0s0t0/run-000000/step-1.bundle"), 0);
    assert_int_equal(mkdir("ev/party-2/r00s0t0", 0700), 0);
    faulty("audit verify ev", "ev/party-2/r00s0t0", "does not belong there");
    remove_tree("ev/party-2/r00s0t0");
    good("audit verify ev");
    audit_run_free(&r);
    remove_tree("ev");
}

/* Another key than the party's: its signature is not good. The directory's own list may lie. */
static void needs_the_right_keys(void **state) {
    (void)state;
    audit_run r = train_and_read();
    char *keys = read_all("ev/public-keys");
    assert_non_null(strstr(keys, "uvcc public keys v1\n0 "));
    char *digit = strchr(keys, '\n') + 3;
    *digit = *digit == '0' ? '1' : '0';
    write_file("keys", keys, strlen(keys));
    faulty("audit verify ev --keys keys", "party-0/r0s0t0/run-000000/step-00000000.bundle",
           "not signed by the party's key");
    keys[strlen(keys) - 1] = ' ';
    write_file("keys", keys, strlen(keys));
    refused("audit verify ev --keys keys", "keys: is no list of public keys");
    refused("audit verify ev --keys none", "none: cannot be opened");
    free(keys);
    audit_run_free(&r);
    remove_tree("ev");
}

static void proves_leaves(void **state) {
    (void)state;
    audit_run r = train_and_read();
    uvcc_bundle b;
    assert_int_equal(uvcc_bundle_decode(&b, r.f[1][2].bytes, r.f[1][2].len, NULL), 0);
    for (uint32_t i = 0; i < b.leaf_count; i += 9) {
        char words[200], hash[65];
        uint8_t h[32];
        uvcc_leaf l = leaf_at(&r.f[1][2], i);
        uvcc_leaf_hash(&b, &l, h);
        for (unsigned k = 0; k < 32; k++)
            snprintf(hash + 2 * k, 3, "%02x", h[k]);
        snprintf(words, sizeof words, "audit prove ev 2/1/%u --out proof", i);
        good(words);
        file by_place = read_file("proof");
        snprintf(words, sizeof words, "audit prove ev %s", hash);
        outcome o = run_tool(words);
        assert_int_equal(o.status, 0);
        write_file("proof", o.out, strlen(o.out)); /* as hexadecimal */
        forget(&o);
        o = run_tool("audit check proof --keys ev/public-keys");
        assert_int_equal(o.status, 0);
        assert_non_null(strstr(o.out, uvcc_leaf_name(l.type)));
        assert_non_null(
            strstr(o.out, "party 2 signed a transcript of step 1 of run 0 with this leaf"));
        forget(&o);
        json_t *j = json_of("audit check proof --keys ev/public-keys", 0);
        assert_true(json_is_true(json_object_get(j, "good")));
        assert_string_equal(test_str(j, "type"), uvcc_leaf_name(l.type));
        assert_int_equal(test_u64(j, "party"), 2);
        assert_int_equal(test_u64(j, "step"), 1);
        assert_int_equal(test_u64(j, "first_step"), 0);
        assert_int_equal(test_u64(j, "index"), i);
        assert_int_equal(strlen(test_str(j, "leaf")), 2 * (l.stored_len + 32));
        assert_true(json_is_null(json_object_get(j, "error")));
        json_decref(j);
        by_place.bytes[by_place.len / 2] ^= 1;
        write_bytes("proof", &by_place);
        faulty("audit check proof --keys ev/public-keys", "proof", "checksum");
        j = json_of("audit check proof --keys ev/public-keys", 1);
        assert_true(json_is_false(json_object_get(j, "good")));
        assert_int_equal(test_u64(j, "kind"), UVCC_FAULT_CHECKSUM);
        assert_non_null(strstr(test_str(j, "error"), "checksum"));
        json_decref(j);
        uvcci_sum_put(by_place.bytes, by_place.len);
        write_bytes("proof", &by_place);
        faulty("audit check proof --keys ev/public-keys", "proof", "");
        free(by_place.bytes);
    }
    char words[200];
    snprintf(words, sizeof words, "audit prove ev 2/1/%u", b.leaf_count);
    refused(words, "so no leaf");
    refused("audit prove ev 2/999/0", "2/999/0: ev has no step 999: its steps are 0 to ");
    refused("audit prove ev 2/1/0 --run 1", "ev has no run 1: its runs are 0 to 0");
    refused("audit prove ev 2/1/0 --worker r1s0t0",
            "ev has no worker r1s0t0: they are r0s0t0 to r0s0t0");
    outcome o = run_tool("audit show ev/party-2/r0s0t0/run-000000/step-00000001.bundle --leaves");
    assert_int_equal(o.status, 0);
    assert_true(lines(o.out) >= b.leaf_count);
    forget(&o);
    audit_run_free(&r);
    remove_tree("ev");
}

/* What finished before Ctrl-C is there, and is good. */
static void keeps_what_finished(void **state) {
    (void)state;
    write_csv();
    outcome o = interrupt_tool(
        "train --data t.csv --hidden 3 --batch 2 --epochs 10000 --progress --audit ev", "stderr");
    assert_int_equal(o.status, 130);
    assert_non_null(strstr(o.err, "the bundles of finished steps are kept"));
    forget(&o);
    assert_int_equal(access("ev/party-2/r0s0t0/run-000000/step-00000003.bundle", F_OK), 0);
    good("audit verify ev --unfinished");
    refused(TRAIN "--audit ev", "there are bundles already");
    remove_tree("ev");
    refused(TRAIN "--audit t.csv", "--audit t.csv");
    refused(TRAIN "--audit no/such", "cannot be made");
}

/* Two processes would each see that the other wrote nothing yet. */
static void one_writer_at_a_time(void **state) {
    (void)state;
    write_csv();
    assert_int_equal(mkdir("ev", 0700), 0);
    int fd = open("ev/lock", O_RDWR | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    refused(TRAIN "--audit ev", "ev: another process uses it");
    assert_int_equal(close(fd), 0);
    good(TRAIN "--audit ev");
    good("audit verify ev"); /* the file that is locked is in nobody's way */
    remove_tree("ev");
    assert_int_equal(mkdir("ev", 0700), 0);
    assert_int_equal(symlink("/etc/passwd", "ev/lock"), 0);
    outcome o = run_tool(TRAIN "--audit ev");
    assert_int_equal(o.status, 2);
    assert_non_null(strstr(o.err, "ev/lock: cannot be locked"));
    forget(&o);
    remove_tree("ev");
}

/* Files that end in .part, or bundles that are not whole, below a directory. */
static unsigned torn_files(const char *dir) {
    unsigned n = 0;
    char path[400];
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat st;
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        assert_int_equal(stat(path, &st), 0);
        if (S_ISDIR(st.st_mode))
            n += torn_files(path);
        else if (strstr(path, ".bundle") != NULL) {
            uvcc_bundle b;
            file f = read_file(path);
            n += uvcc_bundle_decode(&b, f.bytes, f.len, NULL) != 0;
            free(f.bytes);
        } else
            n += strcmp(e->d_name, "lock") != 0 && strcmp(e->d_name, "public-keys") != 0;
    }
    assert_int_equal(closedir(d), 0);
    return n;
}

/* A file may not grow over some size: as on a disk that is full, a write ends in the middle. */
static void full_disk(void **state) {
    (void)state;
    struct rlimit was, small;
    write_csv();
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    for (rlim_t size = 100; size < 8000; size = size * 3 / 2) {
        small = (struct rlimit){.rlim_cur = size, .rlim_max = was.rlim_max};
        assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        outcome o = run_tool(TRAIN "--audit ev");
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        assert_true(signal(SIGXFSZ, SIG_DFL) != SIG_ERR);
        if (o.status != 1 && o.status != 2)
            fail_msg("%lu bytes: status %d\n%s", (unsigned long)size, o.status, o.err);
        if (strstr(o.err, "cannot be written") == NULL)
            fail_msg("%lu bytes: %s", (unsigned long)size, o.err);
        forget(&o);
        assert_int_equal(torn_files("ev"), 0);
        remove_tree("ev");
    }
}

/* A recorded run with bundles is made again, bundles and all. */
static void recorded_too(void **state) {
    (void)state;
    write_csv();
    good(TRAIN "--audit ev --record logs");
    good("replay logs/party1.uvlog");
    good("audit verify ev");
    remove_tree("ev");
    remove_tree("logs");
}

/* A job that goes on in another run writes beside the first; steps that it ran again count once. */
static void follows_runs(void **state) {
    (void)state;
    static const char model[] = "train --model transformer --dim 8 --heads 2 --context 4 --batch 2 "
                                "--layers 1 --checkpoint logs --audit ev --steps";
    char words[300];
    snprintf(words, sizeof words, "%s 2", model);
    good(words);
    json_t *j = verify_json(0);
    assert_int_equal(test_u64(j, "steps"), 3); /* and one that opened the weights */
    json_decref(j);
    snprintf(words, sizeof words, "%s 4 --extend", model);
    good(words);
    j = verify_json(0);
    assert_int_equal(test_u64(j, "steps"), 5);
    assert_int_equal(test_u64(j, "bundles"), 3 * (3 + 3));
    json_decref(j);
    good("audit prove ev 0/2/0 --run 0 --out proof");
    good("audit prove ev 0/2/0 --run 1 --out proof");
    refused("audit prove ev 0/2/0 --run 2", "0/2/0: ev has no run 2: its runs are 0 to 1");
    refused("audit prove ev 0/99/0 --run 1", "ev has no step 99 of this run: its steps are ");
    refused("audit prove ev 0000000000000000000000000000000000000000000000000000000000000000",
            "no leaf in ev has this hash");
    remove_tree("logs"); /* without checkpoints it would be another run 0 */
    refused(words, "there are bundles already");
    remove_tree("logs");
    for (unsigned p = 0; p < 3; p++) {
        char dir[64];
        snprintf(dir, sizeof dir, "ev/party-%u/r0s0t0/run-000000", p);
        remove_tree(dir);
    }
    good("audit verify ev"); /* from step 2 on: it says so */
    j = verify_json(0);
    assert_int_equal(test_u64(j, "first_step"), 2);
    json_decref(j);
    remove_tree("ev");
}

static void refuses_options(void **state) {
    (void)state;
    static const char *const cases[][2] = {
        {"audit", "give one of verify"},
        {"audit look", "no command 'look'"},
        {"audit verify", "give one DIR"},
        {"audit verify a b", "give one DIR"},
        {"audit verify a b c", "'c' is one word too many"},
        {"audit verify nowhere", "nowhere: No such file"},
        {"audit verify .", "no bundles in it (no party-0); name a directory"},
        {"audit verify none", "none: No such file or directory; name a directory"},
        {"audit verify . --key x", "no option --key"},
        {"audit verify . --keys", "--keys needs a value"},
        {"audit verify . --unfinished=1", "--unfinished takes no value"},
        {"audit prove .", "give DIR and LEAF"},
        {"audit prove . 1/2", "PARTY/STEP/INDEX"},
        {"audit prove . 3/0/0", "PARTY/STEP/INDEX"},
        {"audit prove . 0/0/0x", "PARTY/STEP/INDEX"},
        {"audit prove . 0/0/0 --worker r0", "--worker r0"},
        {"audit prove . 0/0/0 --run x", "--run x"},
        {"audit check", "give one PROOF"},
        {"audit check x", "--keys FILE is missing"},
        {"audit show", "give one FILE"},
        {"audit show none", "none: cannot be opened"},
        {"audit show .", "no regular file"},
        {"audit show /etc/passwd", "is no bundle, no proof and no root over several workers"},
        {"audit show /dev/null", "no regular file"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        refused(cases[i][0], cases[i][1]);
    json_t *j = json_of("audit check x", 2); /* the object is there whatever happened */
    assert_true(json_is_false(json_object_get(j, "good")));
    assert_true(json_is_null(json_object_get(j, "kind")));
    json_decref(j);
    write_file("proof", "", 0);
    refused("audit show proof", "is no bundle");
    write_file("proof", "uvccprf\2", 8);
    faulty("audit show proof", "proof", "it ends too early");
    outcome o = run_tool("audit --help");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "verify"));
    forget(&o);
}

/* ---- several workers ---- */

enum { R = 2, S = 1, T = 2 };

typedef struct worker {
    bundles *b;
    bundle_place at;
} worker;
static bundle_place coordinate; /* of the triangle in the making */

static void set_coordinate(uvcc_config *c) {
    c->place.replicas = R;
    c->place.stages = S;
    c->place.tp_ranks = T;
    c->place.replica = coordinate.r;
    c->place.stage = coordinate.s;
    c->place.tp_rank = coordinate.t;
}

static void take_event(void *user, unsigned party, const uvcc_session *s, const uvcc_event *e) {
    worker *w = user;
    w->at.party = (uint8_t)party;
    assert_int_equal(bundles_event(w->b, s, &w->at, e), 0);
}

static uvcc_program *add_program(const uvcc_allocator *al) {
    uvcc_program *p;
    assert_int_equal(uvcc_program_new(&p, al), 0);
    uvcc_tensor_desc d = {.name = "X",
                          .rows = 2,
                          .cols = 2,
                          .bits = 20,
                          .lifetime = UVCC_TRANSIENT,
                          .in_buffer_of = UVCC_NO_TENSOR};
    int x = uvcc_program_tensor(p, &d);
    assert_int_equal(uvcc_program_entry(p, "run"), 0);
    assert_int_equal(uvcc_program_input(p, 1, (uint32_t)x, 0), 0);
    assert_int_equal(uvcc_program_output(p, 2, (uint32_t)x), 0);
    assert_int_equal(uvcc_program_finish(p, NULL, 0), 0);
    return p;
}

/* The steps of one worker after those of another: a step's job root comes with its last worker. */
static void run_worker(bundles *b, uint32_t steps) {
    test_alloc mem = {0};
    uvcc_allocator al = test_allocator(&mem);
    uvcc_program *p = add_program(&al);
    worker w = {.b = b, .at = coordinate};
    triangle t;
    triangle_options opt = {
        .tweak = set_coordinate, .on_event = take_event, .user = &w, .seed = coordinate.r};
    const int64_t v[4] = {1, 2, 3, 4};
    triangle_open(&t, p, &opt);
    triangle_ready(&t);
    for (uint32_t m = 0; m < steps; m++) {
        for (unsigned i = 0; i < 3; i++)
            assert_int_equal(uvcc_session_step(t.s[i], m, 0, 0), 0);
        assert_int_equal(uvcc_session_input(t.s[0], m, 1, v, 0), 0);
        triangle_finish(&t, m + 1);
    }
    while (bundles_waiting(b) != 0)
        assert_true(triangle_turn(&t));
    triangle_close(&t);
    triangle_free(&t);
    uvcc_program_free(p);
}

static void audits_many_workers(void **state) {
    (void)state;
    bundles_config c = {.dir = "ev", .replicas = R, .stages = S, .tp_ranks = T};
    for (unsigned p = 0; p < 3; p++) { /* the seeds of triangle.c */
        uint8_t sk[64];
        memset(c.sign_seed[p], 0x40 + (int)p, 32);
        uvcci_sign_keypair(c.sign_seed[p], c.keys.key[p], sk);
    }
    bundles *b = bundles_open(&c);
    assert_non_null(b);
    for (unsigned i = 0; i < R * S * T; i++) {
        coordinate = (bundle_place){.r = (uint16_t)(i / T), .t = (uint16_t)(i % T)};
        run_worker(b, 3);
    }
    bundles_close(b);
    json_t *j = verify_json(0);
    assert_int_equal(test_u64(j, "workers"), R * S * T);
    assert_int_equal(test_u64(j, "steps"), 3);
    assert_int_equal(test_u64(j, "bundles"), 3 * 3 * R * S * T);
    json_decref(j);
    good("audit prove ev 1/2/4 --worker r1s0t1 --out proof");
    refused("audit prove ev 1/2/4 --worker r9s0t1",
            "ev has no worker r9s0t1: they are r0s0t0 to r1s");
    outcome o = run_tool("audit check proof --keys ev/public-keys");
    assert_int_equal(o.status, 0);
    assert_non_null(strstr(o.out, "root over all its workers"));
    forget(&o);
    good("audit show ev/party-1/job/run-000000/step-00000002.root");

    /* A worker's files in another's place; a worker that is not there; a root over others. */
    exchange("ev/party-1/r0s0t0", "ev/party-1/r1s0t1");
    faulty("audit verify ev", "party-1/r0s0t0", "its header says party 1, worker r1s0t1");
    exchange("ev/party-1/r0s0t0", "ev/party-1/r1s0t1");
    const char *root = "ev/party-2/job/run-000000/step-00000001.root";
    exchange(root, "ev/party-2/job/run-000000/step-00000002.root");
    faulty("audit verify ev", root, "than its place");
    exchange(root, "ev/party-2/job/run-000000/step-00000002.root");
    file f = read_file(root), save = copy_of(&f), job = copy_of(&f);
    f.bytes[UVCCI_HEAD_BYTES + 3] ^= 1;
    write_bytes(root, &f);
    faulty("audit verify ev", root, "checksum");
    uvcci_sum_put(f.bytes, f.len);
    write_bytes(root, &f);
    faulty("audit verify ev", root, "do not give the signed global root");
    uvcc_job_root decoded; /* the party signs another step root than its worker did */
    assert_int_equal(uvcc_job_root_decode(&decoded, f.bytes, f.len, NULL), 0);
    uvcc_audit_tree tree;
    uvcc_audit_tree_init(&tree);
    for (uint32_t i = decoded.first; i < decoded.step; i++)
        assert_int_equal(uvcc_audit_tree_add(&tree, decoded.global.root), 0);
    assert_int_equal(uvcc_job_root_encode(&decoded, &tree, c.sign_seed[2], save.bytes, save.len),
                     0);
    write_bytes(root, &save);
    faulty("audit verify ev", root, "step root of worker r0s0t0 is not that of its bundle");
    /* over its workers' roots, with an audit root that is not that of the run */
    assert_int_equal(uvcc_job_root_decode(&decoded, job.bytes, job.len, NULL), 0);
    uvcc_audit_tree_init(&tree);
    for (uint32_t i = decoded.first; i < decoded.step; i++)
        assert_int_equal(uvcc_audit_tree_add(&tree, decoded.global.root), 0);
    assert_int_equal(uvcc_job_root_encode(&decoded, &tree, c.sign_seed[2], save.bytes, save.len),
                     0);
    write_bytes(root, &save);
    faulty("audit verify ev", root, "the signed audit root is not over the roots");
    write_bytes(root, &job);
    good("audit verify ev");
    free(job.bytes);
    assert_int_equal(unlink(root), 0);
    faulty("audit verify ev", root, "is missing");
    for (unsigned p = 0; p < 3; p++) {
        char dir[32];
        snprintf(dir, sizeof dir, "ev/party-%u/r1s0t0", p);
        remove_tree(dir);
    }
    faulty("audit verify ev", "party-0/r0s0t0", "the job has 4 workers");
    free(f.bytes);
    free(save.bytes);
    remove_tree("ev");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_random_damage),
        cmocka_unit_test(names_files_out_of_place),
        cmocka_unit_test(needs_the_right_keys),
        cmocka_unit_test(proves_leaves),
        cmocka_unit_test(keeps_what_finished),
        cmocka_unit_test(recorded_too),
        cmocka_unit_test(follows_runs),
        cmocka_unit_test(refuses_options),
        cmocka_unit_test(audits_many_workers),
        cmocka_unit_test(one_writer_at_a_time),
        cmocka_unit_test(full_disk),
    };
    if (argc != 2 || !find_tool(argv[1])) {
        (void)fprintf(stderr, "usage: test_audit_tool PATH_OF_UVCC\n");
        return 2;
    }
    return cmocka_run_group_tests_name("audit_tool", tests, enter, leave_files);
}
