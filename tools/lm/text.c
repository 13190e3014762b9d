/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - see text.h. */
#include "text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <uvcc/types.h>

#include "../report.h"

#define TEXT_BYTES_MAX ((size_t)1 << 30)

static const char *const corpora[] = {UVCC_CORPUS, UVCC_CORPUS_INSTALLED};

static const char *corpus(void) {
    struct stat st;
    for (size_t i = 0; i < sizeof corpora / sizeof corpora[0]; i++)
        if (stat(corpora[i], &st) == 0)
            return corpora[i];
    return corpora[0];
}

static int refuse(FILE *f, const char *what, const char *path, const char *why) {
    if (f != NULL)
        (void)fclose(f);
    return report_error(EXIT_BAD_INPUT, "%s %s: %s", what, path, why);
}

int lm_text_read(lm_text *t, const char *what, const char *path, size_t least) {
    struct stat st;
    *t = (lm_text){0};
    if (path == NULL)
        path = corpus();
    FILE *f = fopen(path, "rb");
    if (f == NULL || fstat(fileno(f), &st) != 0)
        return report_error(EXIT_BAD_INPUT, "%s %s: cannot be opened: %s; check the path", what,
                            path, strerror(errno));
    if (!S_ISREG(st.st_mode))
        return refuse(f, what, path, "is no regular file; name a text file");
    if ((size_t)st.st_size < least || (size_t)st.st_size > TEXT_BYTES_MAX) {
        (void)fclose(f);
        return report_error(EXIT_BAD_INPUT,
                            "%s %s has %lld bytes; a context needs at least %zu, and at most %zu "
                            "can be read",
                            what, path, (long long)st.st_size, least, TEXT_BYTES_MAX);
    }
    t->len = (size_t)st.st_size;
    t->bytes = malloc(t->len);
    bool ok = t->bytes != NULL && fread(t->bytes, 1, t->len, f) == t->len;
    if (!ok) {
        lm_text_free(t);
        return refuse(f, what, path, "cannot be read");
    }
    (void)fclose(f);
    return EXIT_DONE;
}

void lm_text_free(lm_text *t) {
    free(t->bytes);
    *t = (lm_text){0};
}
