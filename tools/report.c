/* report.c - see report.h. Progress and errors go to standard error; results to standard output. */
#include "report.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uvcc/host.h>

#include "atomic_file.h"

#define TERMINAL_EVERY_S 0.1
#define LINES_EVERY_S    5.0

static const char *command = "train";

void report_command(const char *name) {
    command = name;
}

int report_error(int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)fprintf(stderr, "uvcc %s: ", command);
    (void)vfprintf(stderr, format, args);
    (void)fputc('\n', stderr);
    va_end(args);
    return status;
}

/* ---- JSON ---- */

struct report_json {
    atomic_file *out; /* NULL: nothing is asked for */
};

report_json *report_json_open(const char *path) {
    int status;
    report_json *j = calloc(1, sizeof *j);
    if (j == NULL) {
        (void)report_error(EXIT_FAILED, "out of memory");
        return NULL;
    }
    if (path != NULL && (j->out = atomic_file_open("json", path, &status)) == NULL) {
        report_json_close(j);
        return NULL;
    }
    return j;
}

json_t *report_hex(const uint8_t *bytes, size_t len) {
    char text[2 * 32 + 1] = "";
    for (size_t i = 0; i < len && i < 32; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    return json_string(text);
}

static double share(uint32_t part, uint32_t whole) {
    return (double)part / (double)whole;
}

static json_t *to_json(const train_result *r) {
    json_t *roots = json_array(), *o = json_object();
    int bad = 0;
    for (unsigned p = 0; p < UVCC_PARTIES; p++)
        bad |= json_array_append_new(roots, report_hex(r->global_root[p], 32));
    const struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"test_accuracy", json_real(share(r->test_right, r->test_rows))},
        {"reference_test_accuracy", json_real(share(r->reference_right, r->test_rows))},
        {"reference_equal", json_boolean(r->reference_equal)},
        {"weights_sha256", report_hex(r->weights_sha256, 32)},
        {"global_root", roots},
        {"steps", json_integer((json_int_t)r->steps)},
        {"bytes_online", json_integer((json_int_t)r->bytes_online)},
        {"bytes_preprocessing", json_integer((json_int_t)r->bytes_preprocessing)},
        {"messages", json_integer((json_int_t)r->messages)},
        {"rounds", json_integer((json_int_t)r->rounds)},
        {"time_s", json_real(r->time_s)},
        {"retransmissions", json_integer((json_int_t)r->retransmissions)},
    };
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        bad |= json_object_set_new(o, members[i].key, members[i].value);
    if (bad == 0)
        return o;
    json_decref(o);
    return NULL;
}

int report_json_write(report_json *j, const train_result *r, json_t *profile) {
    json_t *o = j->out == NULL ? NULL : to_json(r);
    if (o != NULL && profile != NULL && json_object_update(o, profile) != 0) {
        json_decref(o);
        o = NULL;
    }
    json_decref(profile);
    return j->out == NULL ? EXIT_DONE : report_json_put(j, o);
}

int report_json_put(report_json *j, json_t *o) {
    if (j->out == NULL) {
        json_decref(o);
        return EXIT_DONE;
    }
    if (o == NULL)
        return report_error(EXIT_FAILED, "out of memory");
    FILE *to = atomic_file_stream(j->out); /* which remembers a write that failed */
    if (json_dumpf(o, to, JSON_INDENT(2)) == 0)
        (void)fputc('\n', to);
    else if (!ferror(to)) {
        json_decref(o);
        return report_error(EXIT_FAILED, "out of memory");
    }
    json_decref(o);
    return atomic_file_finish(j->out);
}

void report_json_close(report_json *j) {
    if (j == NULL)
        return;
    atomic_file_close(j->out);
    free(j);
}

/* ---- progress ---- */

static double now_s(void) {
    return (double)uvcc_host_now_ns() * 1e-9;
}

void progress_start(progress *p, const train_options *o, uint32_t steps_per_epoch) {
    *p = (progress){.terminal = isatty(STDERR_FILENO) == 1,
                    .epochs = o->epochs,
                    .steps_per_epoch = steps_per_epoch,
                    .batch = o->batch,
                    .start_s = now_s()};
    p->on = p->terminal || o->progress;
    p->last_s = p->start_s;
}

static bool epoch_ends(const progress *p, uint32_t steps) {
    return steps > 0 && steps % p->steps_per_epoch == 0;
}

bool progress_due(const progress *p, uint32_t steps) {
    if (!p->on || steps == 0)
        return false;
    return epoch_ends(p, steps) ||
           now_s() - p->last_s >= (p->terminal ? TERMINAL_EVERY_S : LINES_EVERY_S);
}

void progress_show(progress *p, uint32_t steps, double loss, uint64_t bytes, uint64_t rounds) {
    p->last_s = now_s();
    double elapsed = p->last_s - p->start_s;
    (void)fprintf(stderr,
                  "%sepoch %u/%u  step %u/%u  reference loss %.4f  %.0f samples/s  %.1f MB  "
                  "%llu rounds",
                  p->line_open ? "\r\033[K" : "", (steps - 1) / p->steps_per_epoch + 1, p->epochs,
                  (steps - 1) % p->steps_per_epoch + 1, p->steps_per_epoch, loss,
                  elapsed > 0 ? (double)steps * p->batch / elapsed : 0.0, (double)bytes * 1e-6,
                  (unsigned long long)rounds);
    p->line_open = true;
    if (!p->terminal || epoch_ends(p, steps))
        progress_end(p);
    (void)fflush(stderr);
}

void progress_end(progress *p) {
    if (p->line_open)
        (void)fputc('\n', stderr);
    p->line_open = false;
}

/* ---- summary ---- */

FILE *report_stream(const char *json) {
    return json != NULL && strcmp(json, "-") == 0 ? stderr : stdout;
}

void report_summary(const train_options *o, const train_result *r) {
    FILE *to = report_stream(o->json);
    (void)fprintf(to, "trained          %u steps of %u rows in %.2f s\n", r->steps, o->batch,
                  r->time_s);
    (void)fprintf(to, "test accuracy    %.4f (%u of %u held-out rows)\n",
                  share(r->test_right, r->test_rows), r->test_right, r->test_rows);
    (void)fprintf(to, "plaintext run    %.4f, weights %s\n",
                  share(r->reference_right, r->test_rows),
                  r->reference_equal ? "equal bit for bit"
                  : o->truncation == UVCC_TRUNC_STOCHASTIC
                      ? "differ in last bits, as stochastic truncation does"
                      : "DIFFER");
    (void)fprintf(to, "traffic          %.1f MB online, %.1f MB preprocessing, %llu messages\n",
                  (double)r->bytes_online * 1e-6, (double)r->bytes_preprocessing * 1e-6,
                  (unsigned long long)r->messages);
    (void)fprintf(to, "rounds           %llu, retransmissions %llu\n",
                  (unsigned long long)r->rounds, (unsigned long long)r->retransmissions);
    (void)fputs("weights sha256   ", to);
    for (unsigned i = 0; i < 32; i++)
        (void)fprintf(to, "%02x", r->weights_sha256[i]);
    (void)fputc('\n', to);
    (void)fflush(to);
}
