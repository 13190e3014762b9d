/* SPDX-License-Identifier: Apache-2.0 */
/* train_report.c - see train_report.h. */
#include "train_report.h"

#include <stdio.h>
#include <uvcc/host.h>

#include "report.h"

static double share(uint32_t part, uint32_t whole) {
    return (double)part / (double)whole;
}

/* ---- progress ---- */

void train_progress_start(train_progress *p, const train_options *o, uint32_t steps_per_epoch) {
    *p = (train_progress){
        .epochs = o->net.epochs, .steps_per_epoch = steps_per_epoch, .batch = o->net.batch};
    report_pace_start(&p->pace, o->run.progress);
}

static bool epoch_ends(const train_progress *p, uint32_t steps) {
    return steps > 0 && steps % p->steps_per_epoch == 0;
}

/* The ends of a hundred epochs at most, the first and the last among them, whatever the time is. */
bool train_progress_due(train_progress *p, uint32_t steps) {
    const uint32_t every = (p->epochs + 99) / 100, epoch = steps / p->steps_per_epoch;
    const bool shows = epoch == 1 || epoch == p->epochs || epoch % every == 0;
    return steps != 0 && report_pace_due(&p->pace, epoch_ends(p, steps) && shows);
}

void train_progress_show(train_progress *p, uint32_t steps, double loss, uint64_t bytes,
                         uint64_t rounds) {
    const double elapsed = report_pace_elapsed(&p->pace);
    report_line(epoch_ends(p, steps) && p->epochs <= 100,
                "epoch %u/%u  step %u/%u  reference loss %.4f  %.0f samples/s  %.1f MB  "
                "%llu rounds  %s",
                (steps - 1) / p->steps_per_epoch + 1, p->epochs,
                (steps - 1) % p->steps_per_epoch + 1, p->steps_per_epoch, loss,
                elapsed > 0 ? (double)steps * p->batch / elapsed : 0.0, (double)bytes * 1e-6,
                (unsigned long long)rounds,
                report_pace_left(&p->pace, steps, (double)p->epochs * p->steps_per_epoch));
}

/* ---- results ---- */

/* Names are what scripts read (docs/training.md): they do not change. */
json_t *train_report_json(const train_result *r) {
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

void train_report_summary(const train_options *o, const train_result *r) {
    FILE *to = report_stream(o->run.json);
    (void)fprintf(to, "trained          %u steps of %u rows in %.2f s\n", r->steps, o->net.batch,
                  r->time_s);
    (void)fprintf(to, "test accuracy    %.4f (%u of %u held-out rows)\n",
                  share(r->test_right, r->test_rows), r->test_right, r->test_rows);
    (void)fprintf(to, "plaintext run    %.4f, weights %s\n",
                  share(r->reference_right, r->test_rows),
                  r->reference_equal ? "equal bit for bit"
                  : o->net.truncation == UVCC_TRUNC_STOCHASTIC
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
    report_flush(to);
}
