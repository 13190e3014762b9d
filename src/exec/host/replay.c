/* SPDX-License-Identifier: Apache-2.0 */
/* replay.c - a log's session again (uvcc_replay in uvcc/record.h).
 *
 * The new session has a recorder too, and what it writes must be the log, byte for byte: the hook
 * compares as the bytes come. One cursor walks the log. The replay reads the next call at it and
 * makes that call; the session's recorder then writes the call, which moves the cursor over it; the
 * random and allocator hooks look at what stands at the cursor and do the same as they did; and the
 * result that the recorder writes is compared in the same way. So nothing that a session does can
 * differ unnoticed, and the first difference has a place.
 *
 * The log is not trusted: it is checked as a whole first, and lengths in it are checked against the
 * program before the session sees them. */
#include "exec/session/calls.h"
#include "exec/session/record.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* A job that is with the executor. */
typedef struct job {
    uint64_t id;
    bool done;
} job;

typedef struct replay {
    const uvcc_program *program;
    const uvcc_replay_options *opt;
    uvcc_replay_result *out;
    uvcc_session *session;
    uvcc_record_reader at; /* the record that comes next */
    uint64_t compared;     /* bytes of the log that were made again */
    bool differs, stopped; /* stopped: what is written now is not compared */
    uvcc_record call;      /* the last call made */
    uint64_t allocs;
    job *jobs;
    size_t job_count, job_room;
    uint8_t *values; /* an input's or a tensor's, aligned */
    size_t values_bytes;
} replay;

/* ---- differences ---- */

/* The first one counts. It stands at the cursor. */
static void differ(replay *r, const char *what) {
    if (r->differs)
        return;
    r->differs = true;
    r->out->record = r->at.index;
    r->out->offset = r->at.offset;
    (void)snprintf(r->out->what, sizeof r->out->what, "%s", what);
}

static bool peek(const replay *r, uvcc_record *out) {
    uvcc_record_reader ahead = r->at;
    return uvcc_record_next(&ahead, out) == 1;
}

static const char *call_name(const replay *r) {
    return r->call.type == UVCC_RECORD_HEADER ? "uvcc_session_new" : uvcc_record_name(r->call.type);
}

/* The session wrote `made` where the log has another record. */
static void explain(replay *r, const uint8_t *bytes, size_t len) {
    uvcc_record want, made;
    char what[128];
    if (r->compared != r->at.offset || !peek(r, &want) ||
        uvcci_record_decode(bytes, len, r->at.now, &made) != 0) {
        differ(r, "the call was not made as it stands in the log");
        return;
    }
    if (want.type != made.type)
        (void)snprintf(what, sizeof what, "%s: the log has %s here, the replay %s", call_name(r),
                       uvcc_record_name(want.type), uvcc_record_name(made.type));
    else if (want.type == UVCC_RECORD_RESULT && want.status != made.status)
        (void)snprintf(what, sizeof what, "%s returned %d in the log, %d in the replay",
                       call_name(r), want.status, made.status);
    else if (want.type == UVCC_RECORD_RESULT)
        (void)snprintf(what, sizeof what, "%s put out something else", call_name(r));
    else if (want.type == UVCC_RECORD_STEP_END &&
             memcmp(want.data[0].data, made.data[0].data, 32) != 0)
        (void)snprintf(what, sizeof what, "the session's digest after %llu steps is another",
                       (unsigned long long)want.number);
    else if (want.type == UVCC_RECORD_RANDOM)
        (void)snprintf(what, sizeof what, "%s asked for %llu random bytes in the log, %llu now",
                       call_name(r), (unsigned long long)want.number,
                       (unsigned long long)made.number);
    else
        (void)snprintf(what, sizeof what, "%s: the replay wrote another %s", call_name(r),
                       uvcc_record_name(want.type));
    differ(r, what);
}

/* What the replayed session records, compared with the log as it comes. */
static void compare(void *user, const uint8_t *bytes, size_t len) {
    replay *r = user;
    assert(r->compared <= r->at.len && r->at.offset <= r->compared);
    if (r->differs || r->stopped)
        return;
    if (len > r->at.len - r->compared || memcmp(bytes, r->at.bytes + r->compared, len) != 0) {
        explain(r, bytes, len);
        return;
    }
    r->compared += len;
    uvcc_record rec;
    uvcc_record_reader ahead = r->at;
    while (uvcc_record_next(&ahead, &rec) == 1 && ahead.offset <= r->compared) {
        r->at = ahead;
        r->out->equal++;
    }
}

/* ---- hooks: the same as in the log ---- */

static int give_random(void *user, void *out, size_t bytes) {
    replay *r = user;
    uvcc_record rec;
    memset(out, 0, bytes);
    if (r->differs || !peek(r, &rec) || rec.type != UVCC_RECORD_RANDOM || rec.number != bytes ||
        rec.data[0].len != (rec.status == 0 ? bytes : 0))
        return UVCC_ERR_RANDOM; /* the recorder's next record shows the difference */
    if (bytes != 0 && rec.status == 0)
        memcpy(out, rec.data[0].data, bytes);
    return rec.status;
}

static void *give_memory(void *user, size_t bytes, uvcc_mem_class cls) {
    replay *r = user;
    uvcc_record rec;
    r->allocs++;
    if (!r->differs && peek(r, &rec) && rec.type == UVCC_RECORD_NOMEM && rec.number == r->allocs)
        return NULL;
    return r->opt->alloc.alloc(r->opt->alloc.user, bytes, cls);
}

static void take_memory(void *user, void *p, size_t bytes, uvcc_mem_class cls) {
    const replay *r = user;
    r->opt->alloc.free(r->opt->alloc.user, p, bytes, cls);
}

/* ---- jobs ---- */

static void poll_jobs(replay *r) {
    uvcc_completion c;
    assert(r->job_count <= r->job_room);
    while (uvcc_cpu_poll(r->opt->executor, &c) == 1)
        for (size_t i = 0; i < r->job_count; i++)
            r->jobs[i].done |= r->jobs[i].id == c.id;
}

static int run_job(replay *r, const uvcc_job *j) {
    if (r->job_count == r->job_room) {
        size_t room = 2 * r->job_room + 64;
        job *more = r->opt->alloc.alloc(r->opt->alloc.user, room * sizeof *more, UVCC_MEM_STATE);
        if (more == NULL)
            return UVCC_ERR_NOMEM;
        if (r->jobs != NULL) {
            memcpy(more, r->jobs, r->job_count * sizeof *more);
            r->opt->alloc.free(r->opt->alloc.user, r->jobs, r->job_room * sizeof *more,
                               UVCC_MEM_STATE);
        }
        r->jobs = more;
        r->job_room = room;
    }
    int rc = 0;
    const bool local = j->plane == UVCC_PLANE_LOCAL; /* what it gave stands in the log */
    while (!local && (rc = uvcc_cpu_submit(r->opt->executor, j)) == UVCC_ERR_AGAIN &&
           uvcc_cpu_pending(r->opt->executor) != 0) {
        uvcc_cpu_wait(r->opt->executor);
        poll_jobs(r);
    }
    assert(r->job_count < r->job_room);
    if (rc == 0)
        r->jobs[r->job_count++] = (job){.id = j->id, .done = local};
    return rc;
}

/* A job that is out must have been run before the session hears that it is done, whatever became of
 * it in the log: only then does its memory go back. */
static void finish_job(replay *r, uint64_t id) {
    size_t i = 0;
    while (i < r->job_count && r->jobs[i].id != id)
        i++;
    if (i == r->job_count)
        return; /* a stale one */
    while (!r->jobs[i].done && uvcc_cpu_pending(r->opt->executor) != 0) {
        uvcc_cpu_wait(r->opt->executor);
        poll_jobs(r);
    }
    assert(i < r->job_count);
    r->jobs[i] = r->jobs[--r->job_count];
}

static void finish_jobs(replay *r) {
    while (uvcc_cpu_pending(r->opt->executor) != 0) {
        uvcc_cpu_wait(r->opt->executor);
        poll_jobs(r);
    }
}

/* ---- calls ---- */

/* As long as the longest tensor, and aligned. Two components lie one behind the other. */
static void *place(replay *r, unsigned which) {
    assert(which < 2 && r->values != NULL);
    return r->values + which * r->values_bytes;
}

/* Values in memory of their own, never shorter than what the session may read. */
static void *values(replay *r, unsigned which, const uvcc_slice *d) {
    uint8_t *at = place(r, which);
    size_t n = d->len < r->values_bytes ? d->len : r->values_bytes;
    memset(at + n, 0, r->values_bytes - n);
    if (n != 0)
        memcpy(at, d->data, n);
    return at;
}

/* The session looks at a collective's result where its job was to put it. */
static void complete(replay *r, const uvcc_record *c) {
    const uvcc_completion done = {.id = c->id, .cookie = c->number, .status = c->status};
    uvcc_shares to;
    size_t bytes;
    if (c->type == UVCC_RECORD_COMPLETE_LOCAL) {
        if (!uvcci_session_local_result(r->session, &done, &to, &bytes) ||
            c->data[0].len != bytes || c->data[1].len != (to.hi != NULL ? bytes : 0)) {
            differ(r, "uvcc_session_complete: the collective gives something else");
            return;
        }
        memcpy(to.lo, c->data[0].data, bytes);
        if (to.hi != NULL)
            memcpy(to.hi, c->data[1].data, bytes);
    }
    finish_job(r, c->id);
    (void)uvcc_session_complete(r->session, &done, c->now);
}

static void feed(uvcc_session *s, const uvcc_record *c) {
    const uvcc_slice *d = &c->data[0];
    if (c->type == UVCC_RECORD_FEED)
        (void)uvcc_session_feed(s, c->peer, d->data, d->len, c->now);
    else
        (void)uvcc_session_feed_ecn(s, c->peer, d->data, d->len, c->number != 0, c->now);
}

static void stop(uvcc_session *s, const uvcc_record *c) {
    if (c->type == UVCC_RECORD_CANCEL)
        (void)uvcc_session_cancel(s, c->step, c->now);
    else if (c->type == UVCC_RECORD_CLOSE)
        (void)uvcc_session_close(s, c->now);
    else
        (void)uvcc_session_abort(s, (uint16_t)c->number, c->now);
}

/* Into a tensor, or out of it. */
static void move_shares(replay *r, const uvcc_record *c) {
    const uint32_t tensor = (uint32_t)c->id;
    if (c->type == UVCC_RECORD_SET_SHARES) {
        const void *lo = values(r, 0, &c->data[0]), *hi = values(r, 1, &c->data[1]);
        (void)uvcc_session_set_shares(r->session, tensor, lo, hi);
    } else {
        uint64_t *lo = place(r, 0), *hi = place(r, 1);
        (void)uvcc_session_shares(r->session, tensor, lo, hi);
    }
}

/* What the call returns is not looked at here: the session records it, and compare() sees that. */
static void make_call(replay *r, const uvcc_record *c) {
    uvcc_session *s = r->session;
    uvcc_transmit tx;
    uvcc_event event;
    const uvcc_job *j;
    switch (c->type) {
    case UVCC_RECORD_LOAD_PROGRAM:
        (void)uvcc_session_load_program(s, r->program);
        break;
    case UVCC_RECORD_START:
        (void)uvcc_session_start(s, c->now);
        break;
    case UVCC_RECORD_FEED:
    case UVCC_RECORD_FEED_ECN:
        feed(s, c);
        break;
    case UVCC_RECORD_PEER_OPEN:
        (void)uvcc_session_peer_open(s, c->peer, c->now);
        break;
    case UVCC_RECORD_PEER_OPEN_BOUND:
        (void)uvcc_session_peer_open_bound(s, c->peer, c->data[0].data, c->now);
        break;
    case UVCC_RECORD_PEER_CLOSED:
        (void)uvcc_session_peer_closed(s, c->peer, c->now);
        break;
    case UVCC_RECORD_ON_TIMER:
        (void)uvcc_session_on_timer(s, c->now);
        break;
    case UVCC_RECORD_COMPLETE:
    case UVCC_RECORD_COMPLETE_LOCAL:
        complete(r, c);
        break;
    case UVCC_RECORD_POLL_TRANSMIT:
        (void)uvcc_session_poll_transmit(s, &tx, c->now);
        break;
    case UVCC_RECORD_TRANSMIT_DONE:
        (void)uvcc_session_transmit_done(s, c->peer, c->id, (size_t)c->number, c->now);
        break;
    case UVCC_RECORD_POLL_JOB:
        if (uvcc_session_poll_job(s, &j) == 1 && run_job(r, j) != 0)
            differ(r, "the executor does not take a job");
        break;
    case UVCC_RECORD_POLL_EVENT:
        (void)uvcc_session_poll_event(s, &event);
        break;
    case UVCC_RECORD_STEP:
        (void)uvcc_session_step(s, c->step, c->entry, c->now);
        break;
    case UVCC_RECORD_INPUT:
        (void)uvcc_session_input(s, c->step, (uint32_t)c->id, values(r, 0, &c->data[0]), c->now);
        break;
    case UVCC_RECORD_SET_PUBLIC:
        (void)uvcc_session_set_public(s, (uint32_t)c->id, values(r, 0, &c->data[0]));
        break;
    case UVCC_RECORD_SET_SHARES:
    case UVCC_RECORD_SHARES:
        move_shares(r, c);
        break;
    case UVCC_RECORD_RESUME:
        (void)uvcc_session_resume(s, c->data[0].len != 0 ? c->data[0].data : NULL, c->data[0].len);
        break;
    case UVCC_RECORD_LOAD_TRIPLES:
        (void)uvcc_session_load_triples(s, c->data[0].data, c->data[0].len);
        break;
    default:
        stop(s, c);
        break;
    }
}

static bool open_session(replay *r, const uvcc_record *header) {
    uvcc_config cfg;
    if (uvcc_config_default(&cfg, sizeof cfg) != 0 ||
        uvcci_record_config_get(&cfg, header->data[1].data, header->data[1].len) != 0)
        return false;
    cfg.alloc = (uvcc_allocator){.alloc = give_memory, .free = take_memory, .user = r};
    cfg.random = (uvcc_random){.fill = give_random, .user = r};
    cfg.record = (uvcc_recorder){
        .write = compare, .user = r, .app = header->data[2].data, .app_len = header->data[2].len};
    assert(r->session == NULL);
    r->call = *header;
    int rc = uvcci_session_new_recorded(&r->session, &cfg, header->data[0]);
    if (rc == UVCC_ERR_NOMEM && r->compared == 0)
        differ(r, "out of memory");
    uvcci_wipe(&cfg, sizeof cfg);
    return true;
}

static void play(replay *r) {
    uvcc_record c;
    if (!peek(r, &c) || !open_session(r, &c))
        return;
    while (!r->differs && r->at.index <= r->opt->until && peek(r, &c) &&
           c.type != UVCC_RECORD_END) {
        r->call = c;
        if (r->session == NULL) {
            differ(r, "calls follow where no session was made");
            break;
        }
        if (r->opt->progress != NULL)
            r->opt->progress(r->opt->progress_user, &c);
        make_call(r, &c);
        if (!r->differs && (r->at.in_call || r->at.index == c.index)) {
            char what[128];
            (void)snprintf(what, sizeof what, "%s: %s", call_name(r),
                           c.type == UVCC_RECORD_POLL_JOB     ? "there is no job"
                           : c.type == UVCC_RECORD_POLL_EVENT ? "there is no event"
                                                              : "it was refused unrecorded");
            differ(r, what);
        }
    }
}

/* ---- the log as a whole ---- */

static int unusable(uvcc_replay_result *out, int rc, uint64_t record, uint64_t offset,
                    const char *what) {
    out->record = record;
    out->offset = offset;
    (void)snprintf(out->what, sizeof out->what, "%s", what);
    return rc;
}

/* Whole, of this version and of this program? */
static int admit(const uint8_t *log, size_t len, const uvcc_program *p, uvcc_replay_result *out) {
    uvcc_record_reader rd;
    uvcc_record rec;
    int rc = uvcc_record_check(&rd, log, len);
    if (rc != 0)
        return unusable(out, rc, rd.index, rd.offset, rd.why);
    out->records = rd.index;
    uvcc_record_reader_init(&rd, log, len);
    while (uvcc_record_next(&rd, &rec) == 1) {
        if (rec.type == UVCC_RECORD_LOAD_PROGRAM && memcmp(rec.data[0].data, p->hash, 32) != 0)
            return unusable(out, UVCC_ERR_MISMATCH, rec.index, rec.offset,
                            "the log is of another program");
        if (rec.type != UVCC_RECORD_HEADER)
            continue;
        uvcc_config cfg;
        rc = uvcci_record_config_get(&cfg, rec.data[1].data, rec.data[1].len);
        uvcci_wipe(&cfg, sizeof cfg);
        if (rc != 0)
            return unusable(out, rc, rec.index, rec.offset,
                            rc == UVCC_ERR_MISMATCH
                                ? "the configuration is of another version of the library"
                                : "the configuration is malformed");
    }
    return 0;
}

/* The log is admitted as a whole before anything runs. The session ends before its memory is
 * counted as given back, so that what freeing records is compared too. */
int uvcc_replay(const uint8_t *log, size_t len, const uvcc_program *p,
                const uvcc_replay_options *opt, uvcc_replay_result *out) {
    if (log == NULL || p == NULL || !p->finished || opt == NULL || opt->size != sizeof *opt ||
        opt->executor == NULL || opt->alloc.alloc == NULL || opt->alloc.free == NULL || out == NULL)
        return UVCC_ERR_USAGE;
    memset(out, 0, sizeof *out);
    int rc = admit(log, len, p, out);
    if (rc != 0)
        return rc;
    replay r = {.program = p, .opt = opt, .out = out};
    uvcc_record_reader_init(&r.at, log, len);
    for (uint32_t i = 0; i < p->tensor_count; i++) {
        const size_t bytes = (size_t)uvcci_component_words(&p->tensors[i]) * 8;
        r.values_bytes = bytes > r.values_bytes ? bytes : r.values_bytes;
    }
    r.values_bytes = (r.values_bytes + 63) & ~(size_t)63; /* the second one is aligned too */
    r.values = opt->alloc.alloc(opt->alloc.user, 2 * r.values_bytes, UVCC_MEM_SECRET);
    if (r.values == NULL)
        return UVCC_ERR_NOMEM;
    assert(r.values_bytes % 64 == 0);
    play(&r);
    finish_jobs(&r);
    r.stopped = r.at.index > opt->until;
    if (r.session != NULL) {
        uvcc_session_stats st;
        uvcc_session_get_stats(r.session, &st);
        out->steps = st.steps_finished;
        uvcc_session_digest(r.session, out->digest);
    }
    uvcc_session_free(r.session);
    if (!r.differs && !r.stopped && out->equal != out->records)
        differ(&r, "the replay ended before the log");
    uvcci_wipe(r.values, 2 * r.values_bytes);
    opt->alloc.free(opt->alloc.user, r.values, 2 * r.values_bytes, UVCC_MEM_SECRET);
    if (r.jobs != NULL)
        opt->alloc.free(opt->alloc.user, r.jobs, r.job_room * sizeof r.jobs[0], UVCC_MEM_STATE);
    return r.differs ? 1 : 0;
}
