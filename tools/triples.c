/* SPDX-License-Identifier: Apache-2.0 */
/* triples.c - see triples.h. `make` is party/make.c's; `list` and `check` open a store and nothing
 * else, and what they say has no secrets in it. */
#include "triples.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <uvcc/host.h>
#include <uvcc/store.h>

#include "flags.h"
#include "party/make.h"
#include "report.h"

#define MESSAGE_BYTES UVCC_STORE_TEXT_BYTES
#define PATH_BYTES    4096u
#define NO_PARTY      3u
#define NO_WORKER     UINT32_MAX

typedef struct triples_options {
    const char *config, *steps, *store, *json; /* NULL: not given */
    uint32_t party, worker;                    /* NO_...: not given */
    bool progress, help;
} triples_options;

#define AT(member) offsetof(triples_options, member)
static const flag options[] = {
    {"config", "FILE", FLAG_TEXT, AT(config), 0, 0, NULL,
     "the file of uvcc party: the job, this party's part in it, its store"},
    {"steps", "FIRST..LAST", FLAG_TEXT, AT(steps), 0, 0, NULL,
     "make: of these steps, counted from 0, the same at all three parties (all)"},
    {"worker", "N", FLAG_COUNT, AT(worker), 0, 65535, NULL,
     "the worker of a process that runs one alone, as in uvcc party"},
    {"store", "DIR", FLAG_TEXT, AT(store), 0, 0, NULL,
     "list, check: a party's store, instead of --config"},
    {"party", "0|1|2", FLAG_COUNT, AT(party), 0, 2, NULL, "check: whose store it is"},
    {"progress", NULL, FLAG_SWITCH, AT(progress), 0, 0, NULL,
     "make: show progress even where standard error is no terminal"},
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "write the same as JSON; with -, alone on standard output"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
#undef AT
static const flag_set set = {"triples", options, sizeof options / sizeof options[0],
                             offsetof(triples_options, help)};

static void print_help(void) {
    (void)fputs("Usage: uvcc triples make --config FILE [--steps FIRST..LAST]\n"
                "       uvcc triples list --config FILE | --store DIR\n"
                "       uvcc triples check --config FILE | --store DIR --party N\n"
                "\n",
                stdout);
    flags_text(stdout,
               "Triples are products of random numbers that the parties make before they know what "
               "to multiply (docs/triples.md). A store keeps them for the runs to come, each for "
               "one step, once.");
    (void)fputs("\n", stdout);
    flags_text(stdout, " make   fills the stores of all three parties, which all run it at once");
    flags_text(stdout, " list   what there is, by worker and by the run that made it");
    flags_text(stdout, " check  reads all of it, and tells what is damaged, missing or used");
    (void)fputs("\nOptions:\n", stdout);
    flags_print(&set, stdout);
    (void)fputs("\nExit status: 0 done, 1 the making failed or check found something\n"
                "wrong, 2 wrong options, configuration or files, 130 interrupted.\n",
                stdout);
}

static int bad(const char *text) {
    return report_error(EXIT_BAD_INPUT, "%s", text);
}

/* ---- the store ---- */

/* uvcc_store_open() would make one. */
static bool is_store(const char *dir) {
    static const char *const names[] = {"run", "key"};
    char path[PATH_BYTES];
    struct stat st;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, names[i]) < sizeof path &&
            stat(path, &st) == 0)
            return true;
    return false;
}

/* NULL after reporting. */
static uvcc_store *open_store(const triples_options *o) {
    char why[MESSAGE_BYTES];
    uvcc_store_config c;
    uvcc_store *st;
    if (!is_store(o->store)) {
        (void)report_error(EXIT_BAD_INPUT, "%s: is no store; name a party's", o->store);
        return NULL;
    }
    uvcc_store_config_default(&c);
    c.dir = o->store;
    c.party = (uint8_t)(o->party == NO_PARTY ? 0 : o->party);
    if (uvcc_store_open(&st, &c, why, sizeof why) == 0)
        return st;
    (void)report_error(EXIT_BAD_INPUT, "%s", why);
    return NULL;
}

/* ---- list ---- */

static json_t *as_json(const uvcc_store_triples *t) {
    return json_pack("{s:i, s:i, s:i, s:I, s:I, s:I, s:I, s:I, s:b, s:b, s:I}", "replica",
                     t->replica, "stage", t->stage, "tensor_rank", t->tp_rank, "run",
                     (json_int_t)t->run, "steps", (json_int_t)t->steps, "first",
                     (json_int_t)t->first, "last", (json_int_t)t->last, "used_below",
                     (json_int_t)t->next, "marked", t->marked, "copied", t->copied, "bytes",
                     (json_int_t)t->bytes);
}

static void show_heading(FILE *to) {
    (void)fprintf(to, "%-16s %10s %23s %8s %11s %12s\n", "worker", "made in run", "steps", "there",
                  "used below", "bytes");
}

static void show(FILE *to, const uvcc_store_triples *t) {
    char worker[32], steps[32], used[16];
    (void)snprintf(worker, sizeof worker, "r%u s%u t%u", t->replica, t->stage, t->tp_rank);
    (void)snprintf(steps, sizeof steps, "%u..%u", t->first, t->last);
    (void)snprintf(used, sizeof used, t->marked ? "%u" : "?", t->next);
    (void)fprintf(to, "%-16s %11u %23s %8u %11s %12" PRIu64 "\n", worker, t->run, steps, t->steps,
                  used, t->bytes);
}

/* ---- check ---- */

/* What was found in one set. */
typedef struct found {
    uint64_t triples, products;
    uint32_t good, bad, missing, used; /* steps */
} found;

/* A fault of some steps, below the set's line. */
static void fault(FILE *to, uint32_t from, uint32_t end, const char *what) {
    if (end - from == 1)
        (void)fprintf(to, "  step %u: %s\n", from, what);
    else
        (void)fprintf(to, "  steps %u..%u: %s\n", from, end - 1, what);
}

static int check_set(uvcc_store *st, const uvcc_store_triples *t, FILE *to, found *f) {
    uint32_t next = t->next > t->first ? t->next : t->first;
    *f = (found){0};
    if (t->copied)
        (void)fprintf(to, "  it is from a copy of earlier times, and may have been used since: "
                          "nothing of it will be; take the files away, and make new ones\n");
    else if (!t->marked)
        (void)fprintf(to, "  its mark is missing or damaged: nothing of it will be used; take the "
                          "files away\n");
    for (uint32_t step = t->first; step <= t->last; step++) {
        uvcc_triple_info info;
        uint32_t count = 0, products = 0;
        const int rc = uvcc_store_triples_check(st, t, &step, &count, &products, &info);
        if (rc == 0)
            break;
        if (rc == UVCC_ERR_IO || rc == UVCC_ERR_NOMEM)
            return report_error(EXIT_FAILED, "%s", uvcc_store_error(st));
        if (step < next) {
            f->used++;
            continue;
        }
        if (step > next) {
            fault(to, next, step, "missing");
            f->missing += step - next;
        }
        next = step + 1;
        if (rc < 0)
            fault(to, step, step + 1, uvcc_store_error(st));
        f->bad += rc < 0;
        f->good += rc > 0;
        f->triples += count;
        f->products += products;
    }
    (void)fprintf(to, "  %u steps with %" PRIu64 " triples are whole", f->good, f->triples);
    if (f->products != f->triples)
        (void)fprintf(to, " (tiles of %" PRIu64 " products)", f->products);
    if (f->used != 0)
        (void)fprintf(to, "; %u were used, and are destroyed at the next run", f->used);
    (void)fprintf(to, "\n");
    return f->bad == 0 && f->missing == 0 && t->marked ? EXIT_DONE : EXIT_FAILED;
}

/* ---- both ---- */

static bool add_found(json_t *o, const found *f) {
    return json_object_set_new(o, "whole", json_integer(f->good)) == 0 &&
           json_object_set_new(o, "triples", json_integer((json_int_t)f->triples)) == 0 &&
           json_object_set_new(o, "products", json_integer((json_int_t)f->products)) == 0 &&
           json_object_set_new(o, "damaged", json_integer(f->bad)) == 0 &&
           json_object_set_new(o, "missing", json_integer(f->missing)) == 0 &&
           json_object_set_new(o, "used", json_integer(f->used)) == 0;
}

/* All sets in turn. The worst status; sets go to `list`. */
static int each_set(uvcc_store *st, bool check, FILE *to, json_t *list) {
    uvcc_store_triples t;
    int rc, status = EXIT_DONE;
    uint32_t n = 0;
    for (; (rc = uvcc_store_triples_at(st, n, &t)) == 1; n++) {
        json_t *o = as_json(&t);
        found f = {0};
        if (n == 0)
            show_heading(to);
        show(to, &t);
        const int one = check ? check_set(st, &t, to, &f) : EXIT_DONE;
        status = one != EXIT_DONE ? one : status;
        if (o == NULL || (check && !add_found(o, &f)) || json_array_append_new(list, o) != 0)
            return report_error(EXIT_FAILED, "out of memory");
    }
    if (rc < 0)
        return report_error(EXIT_FAILED, "%s", uvcc_store_error(st));
    if (n == 0)
        (void)fputs("no triples\n", to);
    return status;
}

static int run(const triples_options *o, bool check) {
    report_json *json = NULL;
    if (o->json != NULL && (json = report_json_open(o->json)) == NULL)
        return EXIT_BAD_INPUT;
    uvcc_store *st = open_store(o);
    json_t *list = json_array();
    int status = st != NULL && list != NULL ? EXIT_DONE : EXIT_BAD_INPUT;
    if (status == EXIT_DONE)
        status = each_set(st, check, report_stream(o->json), list);
    if (json != NULL && status != EXIT_BAD_INPUT) {
        const int put = report_json_put(json, json_pack("{s:O}", "triples", list));
        status = put != EXIT_DONE ? put : status;
    }
    json_decref(list);
    uvcc_store_free(st);
    report_json_close(json);
    return status;
}

/* ---- the command ---- */

/* "FIRST..LAST". */
static bool parse_steps(const char *text, make_options *m) {
    uint64_t n[2] = {0};
    const char *at = text;
    for (unsigned i = 0; i < 2; i++) {
        const char *digits = at;
        for (; *at >= '0' && *at <= '9' && n[i] < UINT32_MAX; at++)
            n[i] = 10 * n[i] + (uint64_t)(*at - '0');
        if (at == digits || n[i] >= UINT32_MAX)
            return false;
        if (i == 0 && strncmp(at, "..", 2) != 0)
            return false;
        at += i == 0 ? 2 : 0;
    }
    m->first = (uint32_t)n[0];
    m->end = (uint32_t)n[1] + 1;
    return *at == '\0' && n[0] <= n[1];
}

static int make(const triples_options *o) {
    make_options m = {.config = o->config,
                      .worker = o->worker == NO_WORKER ? -1 : (int64_t)o->worker,
                      .all = o->steps == NULL,
                      .progress = o->progress};
    if (o->config == NULL)
        return bad("--config FILE is missing; name the file of uvcc party");
    if (o->steps != NULL && !parse_steps(o->steps, &m))
        return report_error(EXIT_BAD_INPUT, "--steps %.40s: give FIRST..LAST, as 0..99", o->steps);
    return make_triples(&m);
}

static int look(triples_options *o, bool check) {
    static char dir[PARTY_PATH_BYTES];
    if ((o->config == NULL) == (o->store == NULL))
        return bad(o->store == NULL ? "--config FILE or --store DIR is missing; name one"
                                    : "--config and --store both name a store; give one");
    if (check && o->config == NULL && o->party == NO_PARTY)
        return bad("--party N is missing; files of one party are none of another's");
    if (o->config != NULL) {
        const int status = make_find_store(
            o->config, o->worker == NO_WORKER ? -1 : (int64_t)o->worker, dir, &o->party);
        if (status != EXIT_DONE)
            return status;
        o->store = dir;
    }
    return run(o, check);
}

int triples_main(int argc, char *const *argv) {
    triples_options o = {.party = NO_PARTY, .worker = NO_WORKER};
    char text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    const char *word = argc > 0 ? argv[0] : "";
    const bool makes = strcmp(word, "make") == 0, list = strcmp(word, "list") == 0,
               check = strcmp(word, "check") == 0, help = strncmp(word, "-h", 2) == 0;
    if (help || strcmp(word, "--help") == 0) {
        print_help();
        return EXIT_DONE;
    }
    if (!makes && !list && !check)
        return bad(*word == '\0' ? "make, list or check is missing; see uvcc triples --help"
                                 : "there are make, list and check; see uvcc triples --help");
    if (flags_parse(&set, &o, argc - 1, argv + 1, NULL, NULL, &m) != 0)
        return bad(text);
    const flag_idle idle[] = {{"steps", !makes, "without make"},
                              {"progress", !makes, "without make"},
                              {"worker", o.config == NULL, "without --config"},
                              {"store", makes, "with make"},
                              {"party", makes, "with make"},
                              {"json", makes, "with make"}};
    if (flags_refuse_idle(&set, argc - 1, argv + 1, idle, sizeof idle / sizeof idle[0], &m) != 0)
        return bad(text);
    if (o.help) {
        print_help();
        return EXIT_DONE;
    }
    return makes ? make(&o) : look(&o, check);
}
