/* SPDX-License-Identifier: Apache-2.0 */
/* names.c - see names.h. A line for each name, written by one write() before what it names is used:
 * a process that is killed has told of all that it used, and several may write to one file. A name
 * that cannot be written would be missed, so the job ends there. */
#include "names.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_BYTES = 256 };

/* What a name is of, and who uses it: in all lines. */
static int put_head(const worker *w, const char *what, const uvcc_name *n, char line[LINE_BYTES]) {
    return snprintf(line, LINE_BYTES, "%s %u r%u-s%u-t%u run %" PRIu32, what, w->party->c.party,
                    w->place.replica, w->place.stage, w->place.tensor_rank, n->run);
}

static int put_words(const uvcc_name *n, char *out, size_t cap) {
    const uvcc_prg_use *u = &n->words;
    return snprintf(out, cap,
                    " step %" PRIu32 " op %" PRIu32
                    " task %u stream %s.%u.%u call %u block %" PRIu32 " key %016" PRIx64 "\n",
                    n->step, u->ordinal, u->kind, uvcc_prg_tag_name(u->tag), u->pair, u->lane,
                    u->call, u->block, n->key);
}

static int put_rest(const uvcc_name *n, char *out, size_t cap) {
    char nonce[2 * sizeof n->nonce + 1];
    switch (n->kind) {
    case UVCC_NAME_FRAME:
        return snprintf(out, cap, " step %" PRIu32 " to %u seq %" PRIu64 " key %016" PRIx64 "\n",
                        n->step, n->peer, n->seq, n->key);
    case UVCC_NAME_CONTROL:
        (void)sodium_bin2hex(nonce, sizeof nonce, n->nonce, sizeof n->nonce);
        return snprintf(out, cap, " to %u nonce %s key %016" PRIx64 "\n", n->peer, nonce, n->key);
    case UVCC_NAME_TRIPLE:
        return snprintf(out, cap, " step %" PRIu32 " made %" PRIu32 " id %016" PRIx64 "\n", n->step,
                        n->maker_run, n->seq);
    case UVCC_NAME_WORDS:
        break;
    }
    return put_words(n, out, cap);
}

static void on_name(void *user, const uvcc_name *n) {
    static const char *const what[] = {[UVCC_NAME_WORDS] = "words",
                                       [UVCC_NAME_FRAME] = "frame",
                                       [UVCC_NAME_CONTROL] = "control",
                                       [UVCC_NAME_TRIPLE] = "triple"};
    const worker *w = user;
    party *p = w->party;
    char line[LINE_BYTES];
    const int head = put_head(w, what[n->kind], n, line);
    const size_t len = (size_t)head + (size_t)put_rest(n, line + head, LINE_BYTES - (size_t)head);
    if (write(p->names, line, len) == (ssize_t)len || p->names_lost)
        return;
    p->names_lost = true; /* a hook may not end a session: the loop does */
}

void names_hook(worker *w, uvcc_config *cfg) {
    if (w->party->names >= 0)
        cfg->names = (uvcc_config_names){.used = on_name, .user = w};
}

int names_open(party *p) {
    char path[PARTY_PATH_BYTES];
    struct stat file;
    if (p->c.names == NULL)
        return EXIT_DONE;
    if (!config_path(&p->c, p->c.names, path))
        return report_error(EXIT_BAD_INPUT, "%s: names: the path is too long", p->c.file);
    p->names = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    if (p->names < 0)
        return report_error(EXIT_BAD_INPUT, "%s: names: %s cannot be written: %s", p->c.file, path,
                            strerror(errno));
    if (fstat(p->names, &file) != 0 || !S_ISREG(file.st_mode))
        return report_error(EXIT_BAD_INPUT, "%s: names: %s is no regular file", p->c.file, path);
    return EXIT_DONE;
}

void names_close(party *p) {
    if (p->names >= 0)
        (void)close(p->names);
    p->names = -1;
}
