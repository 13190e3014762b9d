/* SPDX-License-Identifier: Apache-2.0 */
/* watch.c - see watch.h. */
#include "watch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const watch_family_names[FAMILIES] = {
#define UVCC_FAMILY(NAME, name, what) name,
#include "families.def"
#undef UVCC_FAMILY
};

/* ---- families ---- */

static watch_family function_family(const char *name, watch_family norm) {
    static const struct {
        const char *name;
        watch_family family;
    } known[] = {{"gelu", FAMILY_GELU},       {"gelu_tanh", FAMILY_GELU}, {"silu", FAMILY_SILU},
                 {"softmax", FAMILY_SOFTMAX}, {"max", FAMILY_SOFTMAX},    {"exp", FAMILY_SOFTMAX},
                 {"relu", FAMILY_COMPARE},    {"sign", FAMILY_COMPARE}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strcmp(known[i].name, name) == 0)
            return known[i].family;
    return strcmp(name, "rsqrt") == 0 ? norm : FAMILY_OTHER;
}

/* Of an op that says by itself what it is of; FAMILIES: it does not. */
static watch_family own_family(const uvcc_program *p, const uvcc_op_desc *d, watch_family norm) {
    switch (d->opcode) {
    case UVCC_OP_FUNCTION:
        return function_family(uvcc_program_function_at(p, d->function)->name, norm);
    case UVCC_OP_GEMM_SS:
    case UVCC_OP_GEMM_PART:
        return FAMILY_MATMUL;
    case UVCC_OP_ROW_DOT:
    case UVCC_OP_ROW_MUL:
    case UVCC_OP_COL_MUL:
    case UVCC_OP_ROW_SUM:
    case UVCC_OP_ROW_SUB:
        return norm;
    case UVCC_OP_RELU:
        return FAMILY_COMPARE;
    case UVCC_OP_TRUNCATE:
    case UVCC_OP_RESHARE:
        return FAMILIES;
    default:
        return FAMILY_OTHER;
    }
}

uint8_t *watch_families(const uvcc_program *p, watch_family norm, uint64_t calls[FAMILIES]) {
    const uint32_t ops = uvcc_program_op_count(p, 0), tensors = uvcc_program_tensor_count(p);
    uint8_t *of = calloc(ops + (size_t)tensors + 1, 1), *writer = of != NULL ? of + ops : NULL;
    memset(calls, 0, FAMILIES * sizeof *calls);
    if (of == NULL)
        return NULL;
    memset(writer, FAMILY_OTHER, tensors);
    for (uint32_t i = 0; i < ops; i++) {
        const uvcc_op_desc *d = uvcc_program_op_at(p, 0, i);
        watch_family f = own_family(p, d, norm);
        if (f == FAMILIES) { /* of what made its input */
            f = writer[d->in[0]];
            f = f == FAMILY_OTHER ? FAMILY_TRUNCATE : f;
            calls[f] += f == FAMILY_TRUNCATE;
        } else {
            const bool part = f == norm && d->opcode != UVCC_OP_FUNCTION;
            calls[f] += !part;
        }
        of[i] = (uint8_t)f;
        for (unsigned o = 0; o < d->out_count; o++)
            writer[d->out[o]] = (uint8_t)f;
    }
    return of;
}

/* ---- AES calls ---- */

static double levels_of(unsigned n) {
    return n > 7 ? n - 7 : 0;
}

static double dpf_made(unsigned n) {
    return 4 * levels_of(n) + 2;
}

static double dpf_point(unsigned n) {
    return levels_of(n) + 1;
}

/* Nodes that `len` neighbours are expected to have above them where a node has 2^span of them, of
 * 2^all nodes: their first one lies anywhere. */
static double nodes(unsigned span, unsigned all, double len) {
    double each = 1, most = 1;
    for (unsigned i = 0; i < span; i++)
        each *= 2;
    for (unsigned i = 0; i < all; i++)
        most *= 2;
    const double some = 1 + (len - 1) / each;
    return some < most ? some : most;
}

/* A terminal block has 2^7 values; each node costs a call, and each terminal block one more. */
static double dpf_window(unsigned n, double len) {
    double sum = n > 7 ? nodes(7, n - 7, len) : 1;
    for (unsigned span = 7; span < n; span++)
        sum += nodes(span, n - span, len);
    return sum;
}

static double dcf_made(unsigned n, unsigned words) {
    const unsigned values = (words + 1) / 2;
    return n * (4.0 + 4 * values) + 2 * values;
}

static double dcf_point(unsigned n, unsigned words) {
    const unsigned values = (words + 1) / 2;
    return n * (1.0 + values) + values;
}

/* Two calls for the value of either party's node at a scale, or of each of its 3 cells cells. The
 * nodes of a level are those of all scales at or below it: in cells of its scale k from
 * cells / 4^k to 4 cells back. */
static double multiscale(const uvcc_fn_args *fn, bool made) {
    const unsigned cells = (unsigned)fn->first, depth = fn->bits;
    const unsigned scales = cells != 0 ? fn->word_count / (9 * cells) : 0;
    if (made)
        return 4.0 * depth + 4.0 * scales;
    double sum = 2.0 * 3 * cells * scales, nearest = cells;
    for (unsigned k = 0, above = 0; above < depth; above++) { /* levels from the finest up */
        sum += nodes(above - 2 * k, depth - above, 4.0 * cells - nearest);
        if (above % 2 == 1 && k + 1 < scales) {
            k++;
            nearest /= 4;
        }
    }
    return sum;
}

static double of_gate(const uvcc_task *t, bool made) {
    const unsigned f = t->u.vec.shift, n = t->u.vec.bits;
    switch (t->u.vec.gate) {
    case UVCC_GATE_TRUNC_ARS:
        return made ? dpf_made(f) : dpf_point(f);
    case UVCC_GATE_RELU:
        return made ? dpf_made(n) : dpf_point(n);
    case UVCC_GATE_TRUNC_DCF:
        return made ? dcf_made(f, 1) : dcf_point(f, 1);
    default:
        return 0;
    }
}

/* Of an element, and whether it is made. */
static double of_element(const uvcc_task *t, bool *made) {
    const uvcc_fn_args *fn = t->u.vec.fn;
    *made = true;
    switch (t->kind) {
    case UVCC_TASK_DEAL:
        return of_gate(t, true);
    case UVCC_TASK_FN_DEAL_KEY:
        return dpf_made(fn->bits);
    case UVCC_TASK_FN_DEAL_MULTISCALE:
        return multiscale(fn, true);
    case UVCC_TASK_FN_DEAL_FLOOR:
        return dcf_made(fn->shift, 1);
    case UVCC_TASK_FN_DEAL_SPLINE:
        return dcf_made(fn->bits, (unsigned)fn->first + 1);
    default:
        break;
    }
    *made = false;
    switch (t->kind) {
    case UVCC_TASK_LESS_MASK:
        return of_gate(t, false);
    case UVCC_TASK_FN_COMPARE:
        return fn->word_count * dpf_point(fn->bits);
    case UVCC_TASK_FN_TABLE:
        return dpf_window(fn->bits, fn->entry_count);
    case UVCC_TASK_FN_MULTISCALE:
        return multiscale(fn, false);
    case UVCC_TASK_FN_FLOOR:
        return dcf_point(fn->shift, 1);
    case UVCC_TASK_FN_SPLINE: {
        const unsigned words = (unsigned)fn->first + 1;
        const unsigned knots = (fn->word_count - words) / (words + 1);
        return knots * dcf_point(fn->bits, words);
    }
    default:
        return 0;
    }
}

/* AES-128 calls that the definitions of compute.md 4 take for the task's keys: made by OTHER, used
 * by HEAD and TAIL, each point by a path of its own, a table by the nodes that its window is
 * expected to have. Key streams (PRG words) are not in it. */
static double aes_calls(const uvcc_task *t) {
    bool made;
    if (t->kind == UVCC_TASK_MAP || t->kind == UVCC_TASK_GEMM || t->kind == UVCC_TASK_HASH ||
        t->kind == UVCC_TASK_COPY || t->kind == UVCC_TASK_WIPE || t->kind == UVCC_TASK_BIT_SUMS ||
        t->kind == UVCC_TASK_COLLECTIVE)
        return 0; /* no blocks */
    const double each = of_element(t, &made);
    double count = 0;
    for (uint32_t i = 0; each > 0 && i < t->u.vec.count; i++) {
        const uvcc_block *b = &t->u.vec.blocks[i];
        count += (b->role == UVCC_OTHER) == made ? b->count : 0;
    }
    return each * count;
}

/* ---- hooks ---- */

static double clock_now(clockid_t which) {
    struct timespec t;
    (void)clock_gettime(which, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void watch_begin(watch *w, const uint8_t *family, bool device) {
    memset(w, 0, sizeof *w);
    w->device = device;
    w->family = family;
    (void)pthread_mutex_init(&w->lock, NULL);
}

void watch_end(watch *w) {
    if (w->family != NULL)
        (void)pthread_mutex_destroy(&w->lock);
}

void watch_counts(watch *w, bool on) {
    (void)pthread_mutex_lock(&w->lock);
    w->counts = on;
    (void)pthread_mutex_unlock(&w->lock);
}

void watch_times(watch *w, bool on) {
    (void)pthread_mutex_lock(&w->lock);
    w->times = on;
    if (on)
        w->first = w->last = 0;
    (void)pthread_mutex_unlock(&w->lock);
}

/* Where an op begins, and where it is done, and not where its jobs do: a party that only deals keys
 * for a function has none before the result comes to it. */
static void note_ends(watch *w, const uvcc_op_trace *t) {
    if (!w->times || w->family[t->op] == FAMILY_OTHER)
        return;
    if (t->kind == UVCC_TRACE_BEGIN && w->first == 0)
        w->first = clock_now(CLOCK_MONOTONIC);
    if (t->kind == UVCC_TRACE_DONE)
        w->last = clock_now(CLOCK_MONOTONIC);
}

void watch_op(void *user, const uvcc_op_trace *t) {
    watch *w = user;
    (void)pthread_mutex_lock(&w->lock);
    note_ends(w, t);
    if (t->kind == UVCC_TRACE_JOB_OUT) {
        w->job[t->job % WATCH_SLOTS].id = t->job;
        w->job[t->job % WATCH_SLOTS].family =
            t->work == UVCC_TRACE_HASH ? FAMILY_OTHER : w->family[t->op];
    }
    (void)pthread_mutex_unlock(&w->lock);
}

void watch_job(void *user, const uvcc_job *job, bool done) {
    watch *w = user;
    /* On the CPU a job begins and ends in one thread, whose time other load does not count in. */
    const double at = clock_now(w->device ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID);
    (void)pthread_mutex_lock(&w->lock);
    const unsigned slot = (unsigned)(job->id % WATCH_SLOTS);
    const bool known = w->job[slot].id == job->id;
    if (!done) {
        for (uint32_t i = 0; w->counts && i < job->count; i++)
            w->aes += aes_calls(&job->tasks[i]);
        w->job[slot].from = at;
        if (!known)
            w->job[slot].family = FAMILY_OTHER;
        w->job[slot].id = job->id;
    } else if (w->times && known) {
        watch_time *const sums[] = {&w->families[w->job[slot].family],
                                    &w->kinds[job->tasks[0].kind % WATCH_KINDS]};
        for (unsigned i = 0; i < 2; i++) {
            sums[i]->seconds += at - w->job[slot].from;
            sums[i]->jobs++;
        }
    }
    (void)pthread_mutex_unlock(&w->lock);
}
