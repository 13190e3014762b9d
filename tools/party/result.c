/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - which job a store is of, and what it came to, so that a party that is started again
 * knows that it is done, or that its job is another one now: STORE/result, JSON. */
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../files.h"
#include "party.h"

#define FORMAT "uvcc party result v1"

static bool path_of(const party *p, char out[PARTY_PATH_BYTES]) {
    const int n = snprintf(out, PARTY_PATH_BYTES, "%s/result", p->store_dir);
    return n > 0 && (size_t)n < PARTY_PATH_BYTES;
}

/* ---- writing ---- */

/* 0 or errno. */
static int keep(const party *p) {
    char path[PARTY_PATH_BYTES];
    json_t *o = json_pack("{s:s, s:o, s:b, s:O*}", "format", FORMAT, "job",
                          report_hex(p->c.job_hash, sizeof p->c.job_hash), "settled", p->settled,
                          "result", p->result);
    char *text = o != NULL ? json_dumps(o, JSON_INDENT(2) | JSON_SORT_KEYS) : NULL;
    json_decref(o);
    if (text == NULL || !path_of(p, path)) {
        free(text);
        return ENOMEM;
    }
    const int why = file_write(path, text, strlen(text));
    free(text);
    return why;
}

static int add_root(const party *p, json_t *o) {
    uint8_t root[32], (*roots)[32] = calloc(p->workers, sizeof *roots);
    int rc = roots != NULL ? 0 : UVCC_ERR_NOMEM;
    if (!p->c.all_workers && config_workers(&p->c) > 1) { /* the other processes have the rest */
        free(roots);
        return EXIT_DONE;
    }
    for (uint32_t i = 0; rc == 0 && i < p->workers; i++)
        memcpy(roots[i], p->worker[i].step_root, sizeof roots[i]);
    if (rc == 0)
        rc = uvcc_audit_global_root(p->c.sid_job, p->worker[0].finished - 1,
                                    (uint16_t)p->c.replicas, (uint16_t)p->c.stages,
                                    (uint16_t)p->c.tensor_ranks, roots[0], root);
    free(roots);
    if (rc != 0 || json_object_set_new(o, "global_root", report_hex(root, sizeof root)) != 0)
        return report_error(EXIT_FAILED, "the root: %s", uvcc_error_text(rc));
    return EXIT_DONE;
}

/* Names as in the result of `uvcc train` (docs/training.md), of this party alone. */
static int add_counters(const party *p, json_t *o) {
    party_totals t = p->totals;
    for (uint32_t i = 0; i < p->workers; i++)
        worker_stats(&p->worker[i], &t);
    const struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"party", json_integer((json_int_t)p->c.party)},
        {"kind", json_string(p->kind->name)},
        {"job", json_string(p->c.name)},
        {"steps", json_integer((json_int_t)p->worker[0].finished)},
        {"run", json_integer((json_int_t)p->run)},
        {"runs", json_integer((json_int_t)p->runs)},
        {"bytes_online", json_integer((json_int_t)t.bytes_online)},
        {"bytes_preprocessing", json_integer((json_int_t)t.bytes_preprocessing)},
        {"messages", json_integer((json_int_t)t.messages)},
        {"rounds", json_integer((json_int_t)t.rounds)},
        {"retransmissions", json_integer((json_int_t)t.retransmissions)},
        {"time_s", json_real((double)(uvcc_host_now_ns() - p->started_ns) * 1e-9)},
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        if (json_object_get(o, members[i].key) == NULL)
            bad |= json_object_set_new(o, members[i].key, members[i].value);
        else
            json_decref(members[i].value);
    return bad == 0 ? EXIT_DONE : report_error(EXIT_FAILED, "out of memory");
}

static void free_parts(uint8_t **part, size_t *lens, size_t parts) {
    for (size_t i = 0; part != NULL && i < parts; i++)
        free(part[i]);
    free(part);
    free(lens);
}

/* The parts of all processes of the party at the first of them. */
static int collect(party *p, json_t *o) {
    uint8_t *bytes = NULL, **part = NULL;
    size_t len = 0, *lens = NULL, parts = 0;
    int status = p->gathering ? EXIT_DONE : p->kind->part(p->work, &bytes, &len);
    if (status != EXIT_DONE)
        return status;
    const int rc = plane_gather(p->plane, bytes, len, &part, &lens, &parts);
    free(bytes);
    p->gathering = rc == UVCC_ERR_AGAIN;
    if (p->gathering) /* other processes of the party are not there yet */
        return EXIT_DONE;
    if (rc != 0)
        return report_error(EXIT_FAILED, "the results of the workers: %s", uvcc_error_text(rc));
    if (part != NULL)
        status = p->kind->merge(p->work, (const uint8_t *const *)part, lens, parts, o);
    free_parts(part, lens, parts);
    return status;
}

int party_result_make(party *p) {
    int status = EXIT_DONE;
    if (p->result == NULL) {
        json_t *o = json_object();
        status = o != NULL ? collect(p, o) : report_error(EXIT_FAILED, "out of memory");
        if (status == EXIT_DONE && p->gathering) {
            json_decref(o);
            return EXIT_DONE;
        }
        if (status == EXIT_DONE)
            status = add_root(p, o);
        if (status == EXIT_DONE)
            status = add_counters(p, o);
        if (status != EXIT_DONE) {
            json_decref(o);
            return status;
        }
        p->result = o;
    }
    const int why = keep(p);
    if (why != 0)
        party_trouble(p, "%s/result cannot be written: %s; trying again", p->store_dir,
                      strerror(why));
    p->finished = why == 0;
    return EXIT_DONE;
}

/* It is there already; without the mark the next start looks for the peers again. */
int party_result_settle(party *p) {
    const int why = keep(p);
    if (why != 0)
        report_line(true, "%s/result cannot be written: %s", p->store_dir, strerror(why));
    return EXIT_DONE;
}

/* ---- reading ---- */

/* 1: it is there and says that the job is done, 0: it is not, negative: as party_result_read(). */
static int take(party *p, const char *path, const json_t *o) {
    const char *format = json_string_value(json_object_get(o, "format"));
    const char *job = json_string_value(json_object_get(o, "job"));
    json_t *result = json_object_get(o, "result");
    char own[65];
    if (format == NULL || strcmp(format, FORMAT) != 0 || job == NULL)
        return -report_error(EXIT_BAD_INPUT,
                             "%s: says nothing of a job, or is damaged; take it away if the store "
                             "is of this job",
                             path);
    (void)sodium_bin2hex(own, sizeof own, p->c.job_hash, sizeof p->c.job_hash);
    if (strcmp(own, job) != 0)
        return -report_error(EXIT_BAD_INPUT,
                             "%s: the store is of a job in which \"job\" was another than in %s; "
                             "put it back as it was, or give another store",
                             path, p->c.file);
    if (result == NULL)
        return 0;
    const json_t *of = json_object_get(result, "party");
    if (json_integer_value(of) != (json_int_t)p->c.party || !json_is_integer(of))
        return -report_error(EXIT_BAD_INPUT,
                             "%s: the store is another party's; give this party a store of its own",
                             path);
    p->result = json_incref(result);
    p->settled = json_is_true(json_object_get(o, "settled"));
    p->finished = true;
    return 1;
}

int party_result_read(party *p) {
    char path[PARTY_PATH_BYTES];
    if (!path_of(p, path) || access(path, F_OK) != 0)
        return 0;
    json_t *o = json_load_file(path, 0, NULL);
    const int there = take(p, path, o);
    json_decref(o);
    return there;
}

int party_result_begin(const party *p) {
    char path[PARTY_PATH_BYTES];
    if (!path_of(p, path) || access(path, F_OK) == 0)
        return EXIT_DONE;
    const int why = keep(p);
    return why == 0 ? EXIT_DONE
                    : report_error(EXIT_FAILED, "%s cannot be written: %s", path, strerror(why));
}

/* ---- showing ---- */

static void show_number(FILE *to, const json_t *o, const char *key, const char *name) {
    const json_t *v = json_object_get(o, key);
    if (json_is_integer(v))
        (void)fprintf(to, "%-16s %lld\n", name, (long long)json_integer_value(v));
    else if (json_is_real(v))
        (void)fprintf(to, "%-16s %.4f\n", name, json_real_value(v));
    else if (json_is_string(v))
        (void)fprintf(to, "%-16s %s\n", name, json_string_value(v));
}

void party_result_show(const party *p, const char *heading) {
    static const struct {
        const char *key, *name;
    } first[] = {{"test_accuracy", "test accuracy"}, {"loss", "loss"}},
      last[] = {{"weights_sha256", "weights sha256"}};
    const json_t *o = p->result;
    FILE *to = report_stream(p->json);
    (void)fprintf(to, "%-16s %s of %s, party %u: %lld steps in %.2f s\n", heading, p->kind->name,
                  p->c.name, p->c.party, (long long)json_integer_value(json_object_get(o, "steps")),
                  json_real_value(json_object_get(o, "time_s")));
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        show_number(to, o, first[i].key, first[i].name);
    (void)fprintf(to, "traffic          %.1f MB online, %.1f MB preprocessing, %lld messages\n",
                  (double)json_integer_value(json_object_get(o, "bytes_online")) * 1e-6,
                  (double)json_integer_value(json_object_get(o, "bytes_preprocessing")) * 1e-6,
                  (long long)json_integer_value(json_object_get(o, "messages")));
    (void)fprintf(to, "rounds           %lld, retransmissions %lld\n",
                  (long long)json_integer_value(json_object_get(o, "rounds")),
                  (long long)json_integer_value(json_object_get(o, "retransmissions")));
    for (size_t i = 0; i < sizeof last / sizeof last[0]; i++)
        show_number(to, o, last[i].key, last[i].name);
    report_flush(to);
}
