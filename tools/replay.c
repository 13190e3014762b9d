/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - see replay.h. The log is read whole; the program is built from what `uvcc train` put
 * in its header. */
#include "replay.h"

#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uvcc/record.h>
#include <uvcc/uvcc.h>

#include "card.h"
#include "files.h"
#include "lm/manifest.h"
#include "memory.h"
#include "report.h"
#include "runflags.h"
#include "uvlog.h"

#define MESSAGE_BYTES 512u

enum { EXIT_EQUAL = 0, EXIT_DIFFERENCE = 1, EXIT_UNUSABLE = 2 };

typedef struct replay_options {
    const char *file, *json;
    uint64_t until;
    run_options run; /* compute, device, device_bytes */
    bool print, help;
} replay_options;

typedef struct log_file {
    uint8_t *bytes;
    size_t len;
} log_file;

/* ---- options ---- */

#define AT(member) offsetof(replay_options, member)
static const flag flags[] = {
    {"until", "N", FLAG_SEED, AT(until), 0, 0, NULL,
     "stop after the call that record N belongs to"},
    {"print", NULL, FLAG_SWITCH, AT(print), 0, 0, NULL,
     "list the records, one per line, and run nothing; secrets are shown by their lengths only"},
    {"compute", "inline|deferred|threads|gpu", FLAG_CHOICE, AT(run.compute), 0, 0, run_computes,
     "when jobs run: at once, late and shuffled, on threads, or on a CUDA device (inline)"},
    RUN_DEVICE_FLAG(AT(run.device)),
    {"json", "FILE|-", FLAG_TEXT, AT(json), 0, 0, NULL,
     "write the outcome as JSON; with -, alone on standard output"},
    {"help", NULL, FLAG_SWITCH, AT(help), 0, 0, NULL, "show this"},
};
static const flag_set set = {"replay", flags, sizeof flags / sizeof flags[0], AT(help)};

static void print_help(void) {
    flags_text(stdout, "Usage: uvcc replay FILE [OPTION...]\n"
                       "\n"
                       "Runs a session again from its log (uvcc train --record) and compares all "
                       "that comes out with what came out then.\n"
                       "\n"
                       "A log holds the party's secrets and shares: keep it as you keep keys.\n"
                       "\n"
                       "Options (defaults in parentheses):\n");
    flags_print(&set, stdout);
    flags_text(stdout, "\nExit status: 0 equal, 1 a difference, 2 wrong options or a file that "
                       "cannot be used.\n");
}

static int check(replay_options *o, int words, int argc, char *const *argv, const flag_message *m) {
    if (words == 0)
        return flag_fail(m, "no log is given; see uvcc replay --help");
    if (words > 1)
        return flag_fail(m, "%d logs are given; one log at a time", words);
    if (o->print && o->json != NULL)
        return flag_fail(m, "--print has no JSON; leave --json out");
    if (o->print && flags_given(&set, argc, argv, "compute"))
        return flag_fail(m, "--print runs nothing; leave --compute out");
    const flag_idle idle[] = {
        {"device", o->run.compute != RUN_COMPUTE_GPU, "without --compute gpu"}};
    return flags_refuse_idle(&set, argc, argv, idle, 1, m) != 0
               ? -1
               : run_options_compute(&o->run, true, 1, m); /* a log says how it was made */
}

/* 0 or an exit status after reporting. */
static int parse(replay_options *o, int argc, char *const *argv) {
    char text[MESSAGE_BYTES];
    const flag_message m = {text, sizeof text};
    const char **words = calloc((size_t)argc + 1, sizeof *words);
    int count = 0;
    *o = (replay_options){.until = UVCC_NEVER, .run = RUN_DEFAULTS};
    if (words == NULL)
        return report_error(EXIT_UNUSABLE, "out of memory");
    int rc = flags_parse(&set, o, argc, argv, words, &count, &m);
    if (rc == 0 && !o->help)
        rc = check(o, count, argc, argv, &m);
    o->file = words[0];
    free(words);
    return rc == 0 ? 0 : report_error(EXIT_UNUSABLE, "%s", text);
}

/* ---- the file ---- */

static void forget_log(log_file *l) {
    if (l->bytes != NULL)
        sodium_memzero(l->bytes, l->len);
    free(l->bytes);
}

static int unusable(const char *path, uint64_t record, uint64_t offset, const char *what) {
    return report_error(EXIT_UNUSABLE, "%s: record %llu at byte %llu: %s", path,
                        (unsigned long long)record, (unsigned long long)offset, what);
}

/* Nothing would stop there: a record that is looked for is not in this log. */
static int past_end(const replay_options *o, uint64_t records) {
    return report_error(EXIT_UNUSABLE, "--until %llu: %s has %llu records, the last one is %llu",
                        (unsigned long long)o->until, o->file, (unsigned long long)records,
                        (unsigned long long)records - 1);
}

/* ---- records as text ---- */

/* Frames are sealed, so they may be told apart by a hash; a hash of a guessable value would give it
 * away. */
static void print_bytes(const uvcc_record *r, unsigned i) {
    (void)printf(" %zu bytes", r->data[i].len);
    if ((r->type != UVCC_RECORD_FEED && r->type != UVCC_RECORD_FEED_ECN) || r->data[i].len == 0)
        return;
    uint8_t h[crypto_hash_sha256_BYTES];
    (void)crypto_hash_sha256(h, r->data[i].data, r->data[i].len);
    (void)printf(" sha256 %02x%02x%02x%02x...", h[0], h[1], h[2], h[3]);
}

/* Not secret: digests, hashes, the version and the host's bytes of the header. */
static void print_hash(const uvcc_slice *d) {
    (void)putchar(' ');
    for (size_t i = 0; i < d->len; i++)
        (void)printf("%02x", d->data[i]);
}

static void print_text(const uvcc_slice *d) {
    (void)putchar(' ');
    for (size_t i = 0; i < d->len; i++)
        (void)putchar(d->data[i] >= ' ' && d->data[i] < 127 ? d->data[i] : '.');
}

/* The fields are those that the codec lists for the type: a new type needs nothing here. Secrets
 * stay out, see print_bytes(). */
static void print_record(const uvcc_record *r) {
    unsigned d = 0;
    (void)printf("%llu @%llu %s", (unsigned long long)r->index, (unsigned long long)r->offset,
                 uvcc_record_name(r->type));
    for (const char *f = uvcc_record_fields(r->type); *f != '\0'; f++) {
        switch (*f) {
        case 't':
            (void)printf(" t=%llu", (unsigned long long)r->now);
            break;
        case 'p':
            (void)printf(" peer=%u", r->peer);
            break;
        case 'i':
            (void)printf(" id=%llu", (unsigned long long)r->id);
            break;
        case 'n':
            (void)printf(" n=%llu", (unsigned long long)r->number);
            break;
        case 's':
            (void)printf(" step=%u", r->step);
            break;
        case 'e':
            (void)printf(" entry=%u", r->entry);
            break;
        case 'r':
            (void)printf(" status=%d", r->status);
            break;
        default:
            if (r->type == UVCC_RECORD_HEADER && d != 1)
                print_text(&r->data[d++]);
            else if (*f == 'H' || r->type == UVCC_RECORD_RESULT)
                print_hash(&r->data[d++]);
            else
                print_bytes(r, d++);
            break;
        }
    }
    (void)putchar('\n');
}

/* As far as the log is good. */
static int print_log(const replay_options *o, const log_file *l) {
    uvcc_record_reader rd;
    uvcc_record r;
    int rc = 0;
    uvcc_record_reader_init(&rd, l->bytes, l->len);
    while (rd.index <= o->until && (rc = uvcc_record_next(&rd, &r)) == 1)
        print_record(&r);
    if (report_output(EXIT_UNUSABLE) != 0)
        return EXIT_UNUSABLE;
    if (rc < 0)
        return unusable(o->file, rd.index, rd.offset, rd.why);
    if (o->until == UVCC_NEVER && uvcc_record_check(&rd, l->bytes, l->len) != 0)
        return unusable(o->file, rd.index, rd.offset, rd.why);
    return o->until == UVCC_NEVER || rc == 1 ? EXIT_EQUAL : past_end(o, rd.index);
}

/* ---- replaying ---- */

/* One object whatever happens, as `uvcc audit verify` does: of a log that cannot be replayed it
 * holds what was said. NULL without memory. */
static json_t *to_json(const log_file *l, int status, const uvcc_replay_result *r) {
    char digest[65];
    const bool ran = status != EXIT_UNUSABLE;
    for (unsigned i = 0; i < 32; i++)
        (void)snprintf(digest + 2 * i, 3, "%02x", r->digest[i]);
    json_t *first = status != EXIT_DIFFERENCE
                        ? json_null()
                        : json_pack("{s:I, s:I, s:s}", "record", (json_int_t)r->record, "offset",
                                    (json_int_t)r->offset, "what", r->what);
    return json_pack("{s:o, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "equal",
                     ran ? json_boolean(status == EXIT_EQUAL) : json_null(), "records",
                     (json_int_t)r->records, "records_equal", (json_int_t)r->equal, "bytes",
                     (json_int_t)l->len, "steps", (json_int_t)r->steps, "digest",
                     ran ? json_string(digest) : json_null(), "first_difference", first, "error",
                     ran ? json_null() : json_string(report_last()));
}

static int show(const replay_options *o, const log_file *l, int status, const uvcc_replay_result *r,
                report_json *json) {
    char digest[65];
    for (unsigned i = 0; i < 32; i++)
        (void)snprintf(digest + 2 * i, 3, "%02x", r->digest[i]);
    if (status != EXIT_UNUSABLE)
        (void)fprintf(report_stream(o->json),
                      "log              %llu records, %zu bytes\n"
                      "made again       %llu records, %llu finished steps\n"
                      "session digest   %s\n",
                      (unsigned long long)r->records, l->len, (unsigned long long)r->equal,
                      (unsigned long long)r->steps, digest);
    if (report_json_put(json, to_json(l, status, r)) != EXIT_DONE)
        return EXIT_UNUSABLE;
    if (status != EXIT_DIFFERENCE)
        return status;
    return report_error(EXIT_DIFFERENCE,
                        "%s: the first difference is at record %llu, byte %llu: %s", o->file,
                        (unsigned long long)r->record, (unsigned long long)r->offset, r->what);
}

/* What a replay without memory makes differs from the log, and says nothing of it. */
static int no_memory(const replay_options *o, const memory *m) {
    char why[MEMORY_LINE_BYTES];
    memory_line(m, "raise it", why);
    return report_error(EXIT_UNUSABLE, "%s: out of memory: %s", o->file, why);
}

static int build_program(const replay_options *o, const log_file *l, const uvcc_allocator *al,
                         const memory *mem, uvcc_program **out) {
    uvcc_record_reader rd;
    uvcc_record header;
    char message[MESSAGE_BYTES] = "";
    uvcc_mlp_config mlp;
    if (uvcc_record_check(&rd, l->bytes, l->len) != 0)
        return unusable(o->file, rd.index, rd.offset, rd.why);
    if (o->until != UVCC_NEVER && o->until >= rd.index)
        return past_end(o, rd.index);
    uvcc_record_reader_init(&rd, l->bytes, l->len);
    (void)uvcc_record_next(&rd, &header);
    const uvcc_slice *app = &header.data[2];
    const int lm = lm_manifest_app_program(out, app->data, app->len, al, message, sizeof message);
    if (memory_failed(mem) != 0)
        return no_memory(o, mem);
    if (lm != UVCC_ERR_NOT_FOUND)
        return lm == 0 ? 0
                       : report_error(EXIT_UNUSABLE, "%s: the program cannot be built: %s", o->file,
                                      message);
    if (uvlog_app_read(header.data[2].data, header.data[2].len, &mlp, message, sizeof message) != 0)
        return report_error(EXIT_UNUSABLE, "%s: %s", o->file, message);
    int rc = uvcc_mlp_program(out, &mlp, al, message, sizeof message);
    if (rc != 0 && memory_failed(mem) != 0)
        return no_memory(o, mem);
    if (rc != 0)
        return report_error(EXIT_UNUSABLE, "%s: the program cannot be built: %s", o->file,
                            *message != '\0' ? message : uvcc_error_text(rc));
    return 0;
}

static int run(const replay_options *o, const log_file *l, uvcc_cpu *cpu, const uvcc_program *p,
               const uvcc_allocator *al, const memory *m, uvcc_replay_result *r) {
    const uvcc_replay_options opt = {
        .size = sizeof opt, .alloc = *al, .executor = cpu, .until = o->until};
    const int rc = uvcc_replay(l->bytes, l->len, p, &opt, r);
    if (rc != 0 && memory_failed(m) != 0)
        return no_memory(o, m);
    if (rc >= 0)
        return rc == 0 ? EXIT_EQUAL : EXIT_DIFFERENCE;
    return *r->what != '\0' ? unusable(o->file, r->record, r->offset, r->what)
                            : report_error(EXIT_UNUSABLE, "%s: %s", o->file, uvcc_error_text(rc));
}

/* Whether it is of one of several workers: what their collectives gave stands in it, and the replay
 * puts it where the session has its tensors. */
static bool has_collectives(const log_file *l) {
    uvcc_record_reader at;
    uvcc_record r;
    uvcc_record_reader_init(&at, l->bytes, l->len);
    while (uvcc_record_next(&at, &r) == 1)
        if (r.type == UVCC_RECORD_COMPLETE_LOCAL)
            return true;
    return false;
}

static int open_card(const replay_options *o, const log_file *l, uvcc_cpu_config *x, card **out) {
    const card_config c = {.device = o->run.device, .bytes = o->run.device_bytes};
    char why[CARD_TEXT_BYTES];
    if (o->run.compute != RUN_COMPUTE_GPU)
        return 0;
    if (has_collectives(l))
        return report_error(EXIT_UNUSABLE,
                            "%s: this is a log of one of several workers, whose collectives no "
                            "CUDA device can replay; give --compute inline or threads",
                            o->file);
    if (card_open(out, &c, x, why) == 0)
        return 0;
    return report_error(EXIT_UNUSABLE, "--compute gpu: %s; give inline or threads to do without",
                        why);
}

/* An exit status after reporting, but for a difference. */
static int replay(const replay_options *o, const log_file *l, memory *m, uvcc_replay_result *r) {
    const uvcc_allocator system = uvcc_host_allocator(), al = memory_counted(m, &system);
    uvcc_program *p = NULL;
    uvcc_cpu *cpu = NULL;
    uvcc_cpu_config x = {.size = sizeof x, .alloc = al, .mode = (uvcc_cpu_mode)o->run.compute};
    card *on = NULL;
    int status = build_program(o, l, &al, m, &p);
    if (status == 0)
        status = open_card(o, l, &x, &on);
    if (status == 0 && uvcc_cpu_new(&cpu, &x) != 0)
        status = memory_failed(m) != 0 ? no_memory(o, m)
                                       : report_error(EXIT_UNUSABLE, "the executor cannot begin");
    const uvcc_allocator of_session = on != NULL ? card_allocator(on) : al;
    if (status == 0)
        status = run(o, l, cpu, p, &of_session, m, r);
    uvcc_cpu_free(cpu);
    card_close(on);
    uvcc_program_free(p);
    return status;
}

int replay_main(int argc, char *const *argv) {
    replay_options o;
    report_command("replay");
    int status = parse(&o, argc, argv);
    if (status != 0)
        return status;
    if (o.help) {
        print_help();
        return EXIT_EQUAL;
    }
    if (sodium_init() < 0)
        return report_error(EXIT_UNUSABLE, "libsodium cannot start");
    log_file l = {0};
    status = file_read(o.file, EXIT_UNUSABLE, &l.bytes, &l.len);
    if (status == 0 && o.print) {
        status = print_log(&o, &l);
    } else if (status == 0) {
        report_json *json = report_json_open(o.json);
        memory m;
        uvcc_replay_result r = {.what = ""};
        status = json == NULL ? EXIT_UNUSABLE : show(&o, &l, replay(&o, &l, &m, &r), &r, json);
        report_json_close(json);
    }
    forget_log(&l);
    return status;
}
