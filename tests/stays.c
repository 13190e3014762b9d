/* SPDX-License-Identifier: Apache-2.0 */
/* stays.c - see stays.h. */
#include "stays.h"

#include "support.h"

#include <stdio.h>
#include <stdlib.h>

enum { WATCHED = 16 }; /* the last ones: they are read soon */

struct stays_message {
    const uint8_t *at;
    size_t len;
    uint8_t *copy;
    uint64_t looked; /* the job for which it was last compared */
    struct stays_message *next;
};

void stays_begin(stays_watch *w) {
    *w = (stays_watch){0};
    (void)pthread_mutex_init(&w->lock, NULL);
}

static void drop(stays_watch *w, struct stays_message **at) {
    struct stays_message *m = *at;
    *at = m->next;
    w->count--;
    free(m->copy);
    free(m);
}

void stays_end(stays_watch *w) {
    while (w->first != NULL)
        drop(w, &w->first);
    (void)pthread_mutex_destroy(&w->lock);
}

/* The lock is held. */
static void forget(stays_watch *w, const uint8_t *p, size_t bytes) {
    for (struct stays_message **at = &w->first; *at != NULL;)
        if ((*at)->at < p + bytes && p < (*at)->at + (*at)->len)
            drop(w, at);
        else
            at = &(*at)->next;
}

void stays_freed(void *watch, const void *p, size_t bytes) {
    stays_watch *w = watch;
    (void)pthread_mutex_lock(&w->lock);
    forget(w, p, bytes);
    (void)pthread_mutex_unlock(&w->lock);
}

static void note(stays_watch *w, const uvcc_hash_item *h) {
    forget(w, h->data, h->len);
    if (!h->stays || h->len == 0)
        return;
    struct stays_message *m = calloc(1, sizeof *m);
    assert_non_null(m);
    *m = (struct stays_message){.at = h->data, .len = h->len, .next = w->first};
    m->copy = malloc(h->len);
    assert_non_null(m->copy);
    memcpy(m->copy, h->data, h->len);
    w->first = m;
    w->hashed++;
    struct stays_message **last = &w->first;
    while ((*last)->next != NULL)
        last = &(*last)->next;
    if (++w->count > WATCHED)
        drop(w, last);
}

static void look(stays_watch *w, const uvcc_job *job, const uint8_t *p) {
    for (struct stays_message *m = w->first; m != NULL; m = m->next) {
        if (p == NULL || (size_t)(p - m->at) >= m->len)
            continue;
        w->read++;
        if (m->looked != job->id && memcmp(m->at, m->copy, m->len) != 0) {
            (void)fprintf(stderr, "a message changed between its hash and its use\n");
            abort(); /* an executor's thread fails no test */
        }
        m->looked = job->id;
    }
}

static bool has_blocks(const uvcc_task *t) {
    static const char forms[UVCC_TASK_KIND_END] = {
#define UVCC_TASK(name, number, form, roles, what) [number] = #form[0],
#include <uvcc/tasks.def>
#undef UVCC_TASK
    };
    return t->kind < UVCC_TASK_KIND_END && forms[t->kind] == 'B';
}

void stays_job(void *watch, const uvcc_job *job, bool done) {
    stays_watch *w = watch;
    if (done)
        return;
    (void)pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < job->count; i++) {
        const uvcc_task *t = &job->tasks[i];
        for (uint32_t k = 0; t->kind == UVCC_TASK_HASH && k < t->u.hash.count; k++)
            note(w, &t->u.hash.items[k]);
        for (uint32_t k = 0; has_blocks(t) && k < 2 * t->u.vec.count; k++)
            look(w, job, t->u.vec.blocks[k / 2].wire_in[k % 2]);
    }
    (void)pthread_mutex_unlock(&w->lock);
}
