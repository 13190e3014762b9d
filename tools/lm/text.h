/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - the bytes that a language model learns from. */
#ifndef UVCC_TOOLS_LM_TEXT_H
#define UVCC_TOOLS_LM_TEXT_H

#include <stddef.h>
#include <stdint.h>

typedef struct lm_text {
    uint8_t *bytes;
    size_t len;
} lm_text;

/* Reads a file of at least `least` bytes; path NULL: the corpus that the tool was built with,
 * looked for beside the sources and in the installed data. `what` named it: "--text". An exit
 * status after reporting. */
int lm_text_read(lm_text *t, const char *what, const char *path, size_t least);
void lm_text_free(lm_text *t);

#endif
