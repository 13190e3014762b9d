/* SPDX-License-Identifier: Apache-2.0 */
/* function.c - functions as data: names, and copies that a program owns. */
#include "exec/program/function.h"

#include "exec/program/fn_class.h"
#include "exec/program/program.h"

#include <assert.h>
#include <string.h>

const char *uvcci_fn_kind_name(uint8_t kind) {
    const uvcci_fn_class *class = uvcci_fn_class_of(kind);
    return class != NULL ? class->name : "?";
}

bool uvcci_fn_has_third(uint8_t kind) {
    const uvcci_fn_class *class = uvcci_fn_class_of(kind);
    return class != NULL && class->third != NULL;
}

uvcc_fn_instr uvcci_fn_canonical(const uvcc_fn_instr *s) {
    static const uvcci_fn_class unknown = {.name = "?"};
    const uvcci_fn_class *known = uvcci_fn_class_of(s->kind);
    const uvcci_fn_class *class = known != NULL ? known : &unknown;
    unsigned uses = class->uses;
    if ((uses & UVCCI_FN_USES_FACTORS) != 0 && s->shift != 0)
        uses |= UVCCI_FN_USES_WORDS | UVCCI_FN_USES_CONSTANT;
    return (uvcc_fn_instr){
        .kind = s->kind,
        .a = class->a != NULL ? s->a : UVCC_FN_NONE,
        .b = class->b != NULL ? s->b : UVCC_FN_NONE,
        .c = class->third != NULL ? s->c : UVCC_FN_NONE,
        .bits = uses & UVCCI_FN_USES_BITS ? s->bits : 0,
        .shift = uses & UVCCI_FN_USES_SHIFT ? s->shift : 0,
        .io = uses & UVCCI_FN_USES_IO ? s->io : UVCC_FN_NONE,
        .first = uses & UVCCI_FN_USES_FIRST ? s->first : 0,
        .constant = uses & UVCCI_FN_USES_CONSTANT ? s->constant : 0,
        .entry_count = uses & UVCCI_FN_USES_ENTRIES ? s->entry_count : 0,
        .word_count = uses & UVCCI_FN_USES_WORDS ? s->word_count : 0,
        .entries = uses & UVCCI_FN_USES_ENTRIES ? s->entries : NULL,
        .words = uses & UVCCI_FN_USES_WORDS ? s->words : NULL,
    };
}

/* ---- copies ---- */

static int check_copyable(const uvcc_function *f) {
    if (f->instr_count > UVCC_FN_INSTRS_MAX)
        return UVCC_ERR_LIMIT;
    if ((f->instrs == NULL && f->instr_count != 0) ||
        (f->name != NULL && strnlen(f->name, UVCCI_NAME_BYTES) == UVCCI_NAME_BYTES))
        return UVCC_ERR_USAGE;
    for (unsigned i = 0; i < f->instr_count; i++) {
        const uvcc_fn_instr s = uvcci_fn_canonical(&f->instrs[i]);
        const uvcci_fn_class *class = uvcci_fn_class_of(s.kind);
        const uint32_t own = class != NULL ? class->words_most : 0;
        const uint32_t words_max = own != 0 ? own : UVCCI_FN_WORDS_MOST;
        if (s.entry_count > UVCC_FN_ENTRIES_MAX || s.word_count > words_max)
            return UVCC_ERR_LIMIT;
        if ((s.entry_count != 0 && s.entries == NULL) || (s.word_count != 0 && s.words == NULL))
            return UVCC_ERR_USAGE;
    }
    return 0;
}

/* The copy is one block: the head, instructions, words, entries, name, each aligned by what comes
 * before it. */
int uvcci_fn_copy(uvcci_function **out, const uvcc_function *f, const uvcc_allocator *al) {
    int err = check_copyable(f);
    if (err != 0)
        return err;
    const size_t name_bytes = f->name != NULL ? strlen(f->name) + 1 : 0;
    size_t entries = 0, words = 0;
    for (unsigned i = 0; i < f->instr_count; i++) {
        const uvcc_fn_instr s = uvcci_fn_canonical(&f->instrs[i]);
        entries += s.entry_count;
        words += s.word_count;
    }
    const size_t bytes = sizeof **out + f->instr_count * sizeof(uvcc_fn_instr) +
                         words * sizeof(int64_t) + entries * sizeof(int32_t) + name_bytes;
    uvcci_function *copy = al->alloc(al->user, bytes, UVCC_MEM_STATE);
    if (copy == NULL)
        return UVCC_ERR_NOMEM;
    uvcc_fn_instr *instr = (uvcc_fn_instr *)(copy + 1);
    int64_t *word = (int64_t *)(instr + f->instr_count);
    int32_t *entry = (int32_t *)(word + words);
    char *name = (char *)(entry + entries);
    *copy = (uvcci_function){.f = *f, .bytes = bytes};
    copy->f.instrs = instr;
    copy->f.name = name_bytes != 0 ? memcpy(name, f->name, name_bytes) : NULL;
    for (unsigned i = 0; i < f->instr_count; i++, instr++) {
        *instr = uvcci_fn_canonical(&f->instrs[i]);
        if (instr->word_count != 0)
            instr->words = memcpy(word, instr->words, instr->word_count * sizeof *word);
        if (instr->entry_count != 0)
            instr->entries = memcpy(entry, instr->entries, instr->entry_count * sizeof *entry);
        word += instr->word_count;
        entry += instr->entry_count;
    }
    assert((const char *)entry == name);
    *out = copy;
    return 0;
}
