/* SPDX-License-Identifier: Apache-2.0 */
/* result.c - see result.h. */
#include "result.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "../report.h"

enum { RING_BITS = 64 };

static double mean(const double *v, uint32_t n) {
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += v[i];
    return n != 0 ? sum / n : 0;
}

/* Of a sample. */
static double deviation(const double *v, uint32_t n) {
    const double middle = mean(v, n);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += (v[i] - middle) * (v[i] - middle);
    return n > 1 ? sqrt(sum / (n - 1)) : 0;
}

static bool on_gpu(const subject *s) {
    return s->o->run.compute == RUN_COMPUTE_GPU;
}

/* Keys that are on their way or wait at their receivers. */
static uint64_t keys_at_once(const subject *s, const subject_cost *c) {
    const uint64_t ahead = 6 * ((uint64_t)s->o->keys_ahead << 20);
    return ahead != 0 && ahead < c->key_bytes ? ahead : c->key_bytes;
}

/* Weights and tensors of three parties, on the host or on devices; keys at their receivers; those
 * that are being made and sent, and buffers that links and sessions keep, as measured: no more than
 * 900 MiB, for a sender's queue has an end (RUN_KEYS_QUEUED). */
static uint64_t at_work(uint64_t keys) {
    const uint64_t most = (uint64_t)900 << 20;
    return keys / 4 + (5 * keys / 2 < most ? 5 * keys / 2 : most);
}

uint64_t result_host_bytes(const subject *s, const subject_cost *c) {
    const uint64_t once = s->o->job == NULL ? 2 * c->public_bytes : 0;
    const uint64_t tensors = on_gpu(s) ? 0 : 3 * c->tensor_bytes - once, keys = keys_at_once(s, c);
    const uint64_t all = tensors + keys + at_work(keys) + c->online_bytes / 4 + 2 * c->input_bytes;
    const bool elsewhere = s->o->job != NULL && !bench_job_one_machine(s->o->job);
    return (elsewhere ? all / UVCC_PARTIES : all) + ((uint64_t)192 << 20);
}

/* Whether no two parties share a device. */
static bool one_device_each(const subject *s) {
    return on_gpu(s) && (s->o->spread || s->o->job != NULL);
}

uint64_t result_party_bytes(const subject *s, const subject_cost *c) {
    const uint64_t keys = c->key_bytes / 3, room = s->o->run.device_keys;
    return on_gpu(s) ? c->tensor_bytes + (keys < room ? keys : room) : 0;
}

/* Memory of one device that a run takes. */
static uint64_t device_bytes(const subject *s, const subject_cost *c) {
    const uint64_t one = result_party_bytes(s, c);
    return !on_gpu(s) || one_device_each(s) ? one : 3 * one - 2 * c->public_bytes;
}

/* ---- JSON ---- */

static json_t *number(bool known, double v) {
    return known ? json_real(v) : json_null();
}

static json_t *whole(bool known, uint64_t v) {
    return known ? json_integer((json_int_t)v) : json_null();
}

static json_t *text(const char *v) {
    return v != NULL ? json_string(v) : json_null();
}

static json_t *timing(const figures *f) {
    const bool some = f != NULL && f->iters != 0;
    const double online = some ? mean(f->online_s, f->iters) : 0;
    const double preproc = some ? mean(f->preproc_s, f->iters) : 0;
    const double function = some ? mean(f->function_s, f->iters) : 0;
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "online_time_s_mean", number(some, online),
                     "online_time_s_std",
                     number(some && f->iters > 1, some ? deviation(f->online_s, f->iters) : 0),
                     "preproc_time_s", number(some, preproc), "total_time_s",
                     number(some, online + preproc), "function_time_s_mean",
                     number(function > 0, function));
}

static json_t *communication(const result *r) {
    const figures *f = r->f;
    return json_pack("{s:I, s:I, s:I}", "online_bytes",
                     (json_int_t)(f != NULL ? f->online_bytes : r->cost->online_bytes),
                     "preproc_bytes",
                     (json_int_t)(f != NULL ? f->preproc_bytes : r->cost->key_bytes), "rounds",
                     (json_int_t)(f != NULL ? f->rounds : r->cost->rounds));
}

static json_t *fss(const result *r) {
    const figures *f = r->f;
    const bool ran = f != NULL;
    return json_pack("{s:o, s:o, s:I, s:o, s:o}", "num_jobs", whole(ran, ran ? f->jobs : 0),
                     "num_flushes", whole(ran, ran ? f->flushes : 0), "key_bytes",
                     (json_int_t)r->cost->key_bytes, "key_bytes_gathered",
                     whole(ran, ran ? f->gathered_bytes : 0), "aes_calls",
                     whole(ran, ran ? (uint64_t)f->aes_calls : 0));
}

/* Of the families that the pass has, how many calls, and seconds of jobs of all parties. */
static json_t *breakdown(const result *r) {
    json_t *o = json_object();
    const figures *f = r->f;
    for (unsigned i = 0; f != NULL && i < FAMILIES; i++) {
        char name[48];
        (void)snprintf(name, sizeof name, "%s_calls", watch_family_names[i]);
        if (i != FAMILY_OTHER)
            json_object_set_new(o, name, json_integer((json_int_t)f->calls[i]));
        (void)snprintf(name, sizeof name, "%s_seconds", watch_family_names[i]);
        if (f->iters != 0 && (f->calls[i] != 0 || i == FAMILY_OTHER))
            json_object_set_new(o, name, json_real(f->families[i].seconds / f->iters));
    }
    return o;
}

static json_t *flags_of(const subject *s) {
    static const char *const modes[] = {"fast", "exact", "exact-dcf"};
    const bench_options *o = s->o;
    const char *transport = o->job != NULL ? bench_job_transport(o->job) : "memory";
    return json_pack(
        "{s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:s, s:o, s:f, s:s, s:s, s:i, s:i, s:i, s:o}",
        "eff_bits", !o->no_eff_bits, "ragged_pack", !o->no_ragged_pack, "fusion", !o->no_fusion,
        "whole", o->whole, "fold", o->fold, "audit", o->audit, "one_device_each",
        one_device_each(s), "transport", transport, "keys_ahead_mib",
        whole(o->keys_ahead != 0, o->keys_ahead), "keys_gathered_mib",
        (double)o->run.device_keys / (1 << 20), "mode", modes[o->mode], "weights",
        o->public_weights != 0 ? "public" : "secret", "ring_bits", RING_BITS, "value_bits",
        (int)s->value_bits, "inner_bits", (int)s->inner_bits, "index_bits",
        whole(s->index_bits != 0, s->index_bits));
}

static void notes(const result *r, char *to, size_t cap) {
    const bench_options *o = r->s->o;
    size_t n = 0;
#define SAY(...) n += n < cap ? (size_t)snprintf(to + n, cap - n, __VA_ARGS__) : 0
    if (o->job != NULL)
        SAY("three parties, each a process, over %s; times are the longest of one, memory the most "
            "of one, bytes of all",
            bench_job_transport(o->job));
    else
        SAY("three parties as threads of one process, sealed links in memory; bytes of all "
            "parties");
    if (r->f == NULL)
        SAY("; an estimate by the program's tables: nothing ran");
    else
        SAY("; %u of %u passes, %u to warm up, %.4g s of processor time a pass, keys included",
            r->f->iters, o->n_iters, o->warmup, r->f->processor_s);
    if (r->interrupted)
        SAY("; interrupted");
    if (o->keys_ahead != 0)
        SAY("; %u MiB of keys at most are dealt ahead for each peer, the others online",
            o->keys_ahead);
    if (r->f != NULL && r->f->gathered_bytes != 0)
        SAY("; %.4g MB of keys lay %s before the input was there",
            1e-6 * (double)r->f->gathered_bytes, on_gpu(r->s) ? "on devices" : "with tensors");
    if (r->f != NULL && r->f->checked)
        SAY("; the output is what plaintext gives, bit for bit");
    if (r->load >= 0)
        SAY("; load average %.2f when it began", r->load);
#undef SAY
}

json_t *result_json(const result *r) {
    const subject *s = r->s;
    const bench_options *o = s->o;
    const figures *f = r->f;
    char note[512];
    notes(r, note, sizeof note);
    const uint64_t gpu = f != NULL ? f->gpu_bytes : device_bytes(s, r->cost);
    const uint64_t rss = f != NULL ? f->rss_bytes : result_host_bytes(s, r->cost);
    const uint32_t tokens = s->is_model ? s->config.tokens : o->seq_len != 0 ? o->seq_len : 128;
    return json_pack(
        "{s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:o, s:i, s:O, s:o, s:o, s:o, s:o, s:i, s:o, "
        "s:o, s:s, s:o, s:s}",
        "system", "uvcc", "backend", on_gpu(s) ? "gpu" : "cpu", "model", s->name, "seq_len",
        (int)tokens, "batch_size", (int)o->batch_size, "n_layers", (int)s->n_layers, "n_heads",
        (int)s->n_heads, "d_model", (int)s->d_model, "n_bits", whole(s->n_bits != 0, s->n_bits),
        "frac_bits", (int)s->frac_bits, "hardware", r->hardware, "timing", timing(f),
        "communication", communication(r), "fss", fss(r), "memory",
        json_pack("{s:o, s:I}", "max_gpu_bytes", whole(on_gpu(s), gpu), "max_rss_bytes",
                  (json_int_t)rss),
        "threads", on_gpu(s) ? 1 : (int)o->threads, "nonlinear_breakdown", breakdown(r),
        "config_flags", flags_of(s), "command", r->command, "commit", text(o->commit), "notes",
        note);
}

/* ---- the summary ---- */

static void show_tasks(const figures *f, FILE *to) {
    static const char *const names[WATCH_KINDS] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = #name,
#include <uvcc/tasks.def>
#undef UVCC_TASK
    };
    for (unsigned k = 0; k < WATCH_KINDS; k++)
        if (f->kinds[k].jobs != 0)
            (void)fprintf(to, "  %-20s %10.1f jobs %11.3f ms in jobs that begin with it\n",
                          names[k] != NULL ? names[k] : "?", (double)f->kinds[k].jobs / f->iters,
                          1e3 * f->kinds[k].seconds / f->iters);
}

static void show_families(const figures *f, FILE *to) {
    for (unsigned i = 0; i < FAMILIES; i++)
        if (f->families[i].jobs != 0)
            (void)fprintf(to, "  %-12s %8" PRIu64 " calls %9.1f jobs %11.3f ms of jobs\n",
                          watch_family_names[i], f->calls[i],
                          (double)f->families[i].jobs / f->iters,
                          1e3 * f->families[i].seconds / f->iters);
}

void result_show(const result *r, FILE *to) {
    const subject *s = r->s;
    const figures *f = r->f;
    (void)fprintf(to, "%s on the %s, ", s->name, on_gpu(s) ? "GPU" : "CPU");
    if (s->n_layers != 0) /* a function has none */
        (void)fprintf(to, "%u layers, ", s->n_layers);
    (void)fprintf(to, "width %u, frac_bits %u\n", s->d_model, s->frac_bits);
    if (f == NULL) {
        (void)fprintf(to,
                      "takes        %.4g MB online and %.4g MB of keys, all parties, in %u rounds\n"
                      "needs        %.4g GB of the host's memory",
                      1e-6 * (double)r->cost->online_bytes, 1e-6 * (double)r->cost->key_bytes,
                      r->cost->rounds, 1e-9 * (double)result_host_bytes(s, r->cost));
        if (on_gpu(s))
            (void)fprintf(to, " and %.4g GB of %s", 1e-9 * (double)device_bytes(s, r->cost),
                          one_device_each(s) ? "each of three devices" : "the device");
        (void)fputc('\n', to);
        return;
    }
    if (f->iters == 0)
        return;
    char spread[16] = "none"; /* one pass has none */
    if (f->iters > 1)
        (void)snprintf(spread, sizeof spread, "%.2g", deviation(f->online_s, f->iters));
    (void)fprintf(to,
                  "online       %.4g s, deviation %s, of %u passes\n"
                  "keys         dealt in %.4g s; %.4g MB lay %s before the input was there\n"
                  "processor    %.4g s a pass, online and keys\n"
                  "bytes        %.4g MB online, %.4g MB of keys, all parties; %" PRIu64 " rounds\n"
                  "jobs         %" PRIu64 ", %" PRIu64 " messages, %.4g AES calls of keys\n",
                  mean(f->online_s, f->iters), spread, f->iters, mean(f->preproc_s, f->iters),
                  1e-6 * (double)f->gathered_bytes, on_gpu(s) ? "on devices" : "with tensors",
                  f->processor_s, 1e-6 * (double)f->online_bytes, 1e-6 * (double)f->preproc_bytes,
                  f->rounds, f->jobs, f->flushes, f->aes_calls);
    if (mean(f->function_s, f->iters) > 0)
        (void)fprintf(to, "function     %.4g s, from when all parties have its input\n",
                      mean(f->function_s, f->iters));
    (void)fprintf(to, "memory       %.4g GB of %s", 1e-9 * (double)f->rss_bytes,
                  s->o->job != NULL ? "the largest process" : "the process");
    if (on_gpu(s))
        (void)fprintf(to, ", %.4g GB of devices", 1e-9 * (double)f->gpu_bytes);
    (void)fprintf(to, "\n%s", f->checked ? "checked      bit for bit with plaintext\n" : "");
    if (f->digest != 0)
        (void)fprintf(to, "output       %016" PRIx64 "\n", f->digest);
    show_families(f, to);
    if (s->o->tasks)
        show_tasks(f, to);
}
