/* SPDX-License-Identifier: Apache-2.0 */
/* uvlog.c - see uvlog.h. A log holds secrets: its file is made for its owner alone, and buffers are
 * wiped. */
#include "uvlog.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"
#include "report.h"

#define BUFFER_BYTES 262144u

struct uvlog {
    char *path, *part; /* part: the name so far; NULL once it has its own */
    int fd;
    int why; /* errno of the first write that failed */
    bool force, made;
    uint64_t bytes; /* written */
    size_t len;
    uint8_t buffer[BUFFER_BYTES];
};

/* ---- writing ---- */

static void write_out(uvlog *l, const uint8_t *bytes, size_t len) {
    while (len > 0 && l->why == 0) {
        ssize_t n = write(l->fd, bytes, len);
        if (n < 0 && errno != EINTR)
            l->why = errno;
        if (n > 0) {
            bytes += n;
            len -= (size_t)n;
            l->bytes += (uint64_t)n;
        }
    }
}

static void flush(uvlog *l) {
    write_out(l, l->buffer, l->len);
    l->len = 0;
}

static void keep(void *user, const uint8_t *bytes, size_t len) {
    uvlog *l = user;
    if (len > sizeof l->buffer - l->len)
        flush(l);
    if (len > sizeof l->buffer) {
        write_out(l, bytes, len);
        return;
    }
    memcpy(l->buffer + l->len, bytes, len);
    l->len += len;
}

/* The directory itself is locked: no file of ours stays in it. Where a file system has no such
 * locks there is none, and a log that another process made is seen when it gets its name. */
int uvlog_lock(const char *dir, int *lock) {
    int why = mkdir(dir, 0700) != 0 && errno != EEXIST ? errno : 0;
    *lock = -1;
    if (why != 0)
        return report_error(EXIT_BAD_INPUT, "--record %s: cannot be made: %s; choose another place",
                            dir, strerror(why));
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return report_error(EXIT_BAD_INPUT, "--record %s: %s; choose another place", dir,
                            strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        (void)close(fd);
        return report_error(EXIT_BAD_INPUT,
                            "--record %s: another process writes its logs there; wait for its end, "
                            "or give another directory",
                            dir);
    }
    *lock = fd;
    return EXIT_DONE;
}

/* Made before the run, so that a place that cannot be written costs no training; never through a
 * link, since it will hold secrets. */
uvlog *uvlog_open(const char *dir, const char *name, bool force) {
    size_t room = strlen(dir) + strlen(name) + 64;
    uvlog *l = calloc(1, sizeof *l);
    if (l != NULL) {
        l->fd = -1;
        l->force = force;
        l->path = malloc(room);
        l->part = malloc(room);
    }
    if (l == NULL || l->path == NULL || l->part == NULL) {
        (void)report_error(EXIT_FAILED, "out of memory");
        uvlog_close(l);
        return NULL;
    }
    (void)snprintf(l->path, room, "%s/%s.uvlog", dir, name);
    (void)snprintf(l->part, room, "%s.%ld.part", l->path, (long)getpid());
    struct stat st;
    if (!force && lstat(l->path, &st) == 0) {
        (void)report_error(EXIT_BAD_INPUT,
                           "--record %s: there is a %s already; give --force or another directory",
                           dir, l->path);
    } else if (lstat(l->path, &st) == 0 && !S_ISREG(st.st_mode)) {
        (void)report_error(EXIT_BAD_INPUT,
                           "--record %s: %s is no regular file; --force replaces logs alone", dir,
                           l->path);
    } else {
        l->fd = temporary_make(l->part, 0600);
        l->made = l->fd >= 0;
        if (l->made)
            return l;
        (void)report_error(EXIT_BAD_INPUT,
                           "--record %s: cannot be written: %s; choose another place", dir,
                           strerror(errno));
    }
    uvlog_close(l);
    return NULL;
}

uvcc_recorder uvlog_recorder(uvlog *l) {
    return (uvcc_recorder){.write = keep, .user = l};
}

uint64_t uvlog_bytes(const uvlog *l) {
    return l->bytes;
}

int uvlog_finish(uvlog *l) {
    flush(l);
    if (l->why == 0 && fsync(l->fd) != 0)
        l->why = errno;
    if (close(l->fd) != 0 && l->why == 0)
        l->why = errno;
    l->fd = -1;
    if (l->why == 0 && temporary_name(l->part, l->path, l->force) != 0)
        l->why = errno;
    if (l->why != 0)
        return report_error(EXIT_FAILED, "--record: %s cannot be written: %s", l->path,
                            strerror(l->why));
    free(l->part);
    l->part = NULL;
    return EXIT_DONE;
}

void uvlog_close(uvlog *l) {
    if (l == NULL)
        return;
    if (l->fd >= 0)
        (void)close(l->fd);
    if (l->made && l->part != NULL)
        temporary_remove(l->part);
    free(l->part);
    free(l->path);
    sodium_memzero(l, sizeof *l);
    free(l);
}

/* ---- the header's bytes ---- */

char *uvlog_app_text(const train_options *o, const uvcc_mlp_config *mlp) {
    char seed[24], fault_seed[24], compute_seed[24]; /* JSON readers cut large integers */
    (void)snprintf(seed, sizeof seed, "%llu", (unsigned long long)o->run.seed);
    (void)snprintf(fault_seed, sizeof fault_seed, "%llu", (unsigned long long)o->run.fault_seed);
    (void)snprintf(compute_seed, sizeof compute_seed, "%llu",
                   (unsigned long long)o->run.compute_seed);
    json_t *hidden = json_array();
    int bad = 0;
    for (uint32_t i = 0; i < mlp->hidden_count; i++)
        bad |= json_array_append_new(hidden, json_integer(mlp->hidden[i]));
    json_t *j = json_pack(
        "{s:s, s:{s:I, s:I, s:o, s:I, s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i},"
        " s:{s:s%, s:i, s:s, s:i, s:s, s:f, s:f, s:f, s:f, s:s}}",
        "tool", "uvcc train", "mlp", "features", (json_int_t)mlp->features, "classes",
        (json_int_t)mlp->classes, "hidden", hidden, "batch", (json_int_t)mlp->batch, "predict_rows",
        (json_int_t)mlp->predict_rows, "lr_shift", mlp->lr_shift, "frac_bits", mlp->frac_bits,
        "range_bits", mlp->range_bits, "weight_range_bits", mlp->weight_range_bits, "truncation",
        mlp->truncation, "lift", mlp->lift, "compare", mlp->compare, "products", mlp->products,
        "x_owner", mlp->x_owner, "y_owner", mlp->y_owner, "options", "data", o->data,
        strlen(o->data), "epochs", (int)o->net.epochs, "seed", seed, "compute", (int)o->run.compute,
        "compute_seed", compute_seed, "drop", o->run.faults.drop, "duplicate",
        o->run.faults.duplicate, "reorder", o->run.faults.reorder, "corrupt", o->run.faults.corrupt,
        "fault_seed", fault_seed);
    char *text = j == NULL || bad != 0 ? NULL : json_dumps(j, JSON_COMPACT);
    json_decref(j);
    return text;
}

static int damaged(char *message, size_t cap, const char *what) {
    (void)snprintf(message, cap, "the header does not say how to build the program: %s", what);
    return -1;
}

static bool take_number(const json_t *o, const char *key, uint32_t max, uint32_t *out) {
    const json_t *v = json_object_get(o, key);
    json_int_t n = json_integer_value(v);
    *out = (uint32_t)n;
    return json_is_integer(v) && n >= 0 && n <= (json_int_t)max;
}

static bool take_small(const json_t *o, const char *key, uint8_t *out) {
    uint32_t n;
    bool ok = take_number(o, key, UINT8_MAX, &n);
    *out = (uint8_t)n;
    return ok;
}

static bool take_mlp(const json_t *o, uvcc_mlp_config *m) {
    const json_t *hidden = json_object_get(o, "hidden");
    bool ok = take_number(o, "features", INT32_MAX, &m->features) &&
              take_number(o, "classes", INT32_MAX, &m->classes) &&
              take_number(o, "batch", INT32_MAX, &m->batch) &&
              take_number(o, "predict_rows", INT32_MAX, &m->predict_rows) &&
              take_small(o, "lr_shift", &m->lr_shift) &&
              take_small(o, "frac_bits", &m->frac_bits) &&
              take_small(o, "range_bits", &m->range_bits) &&
              take_small(o, "weight_range_bits", &m->weight_range_bits) &&
              take_small(o, "truncation", &m->truncation) && take_small(o, "lift", &m->lift) &&
              (json_object_get(o, "compare") == NULL || take_small(o, "compare", &m->compare)) &&
              (json_object_get(o, "products") == NULL || take_small(o, "products", &m->products)) &&
              take_small(o, "x_owner", &m->x_owner) && take_small(o, "y_owner", &m->y_owner) &&
              json_is_array(hidden) && json_array_size(hidden) < UVCC_MLP_MAX_LAYERS;
    for (size_t i = 0; ok && i < json_array_size(hidden); i++) {
        json_int_t n = json_integer_value(json_array_get(hidden, i));
        ok = n > 0 && n <= INT32_MAX;
        m->hidden[i] = (uint32_t)n;
        m->hidden_count = (uint32_t)i + 1;
    }
    return ok;
}

int uvlog_app_read(const uint8_t *text, size_t len, uvcc_mlp_config *mlp, char *message,
                   size_t message_cap) {
    memset(mlp, 0, sizeof *mlp);
    json_error_t e;
    json_t *j = json_loadb((const char *)text, len, 0, &e);
    if (j == NULL)
        return damaged(message, message_cap, len == 0 ? "it is empty" : "it is not JSON");
    const char *by = json_string_value(json_object_get(j, "tool"));
    int rc = 0;
    if (by == NULL || strcmp(by, "uvcc train") != 0)
        rc = damaged(message, message_cap, "it is not of uvcc train");
    else if (!take_mlp(json_object_get(j, "mlp"), mlp))
        rc = damaged(message, message_cap, "a number is missing or out of range");
    json_decref(j);
    return rc;
}
