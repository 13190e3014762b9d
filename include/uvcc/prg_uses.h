/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/prg_uses.h - which words of which key streams tasks have read, so that none is read for two
 * ends: a pad that is used twice is no pad. For sessions that look (uvcc_config_checks.prg_uses),
 * for simulators and for hosts with tasks of their own.
 *
 * A place is what one block of a task reads of one stream: pair, tag, ordinal, call, block, lane.
 * compute.md says which kinds of tasks read which places. Each kind reads a place at most once, and
 * a place that is a pad, a root or a share of zero is read by one kind only.
 */
#ifndef UVCC_PRG_USES_H
#define UVCC_PRG_USES_H

#include <uvcc/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The places that one party's tasks have read. */
typedef struct uvcc_prg_uses uvcc_prg_uses;

/** A place, and the task that reads it. */
typedef struct uvcc_prg_use {
    uint16_t kind, call; /**< uvcc_task_kind; the call whose words they are */
    uint32_t ordinal;    /**< of the op in its step */
    uint32_t block;      /**< the elements from block * UVCC_BLOCK_ELEMS on, */
    uint32_t count;      /**< so many */
    uint8_t pair;        /**< UVCC_PAIR_* */
    uint8_t tag;         /**< uvcc_prg_tag */
    uint8_t lane;
} uvcc_prg_use;

/** What a place takes; while there come more, up to six times that, and 4 KiB. */
enum { UVCC_PRG_PLACE_BYTES = 32 };

/** by_key: streams are told apart by their keys, so the tasks may be of many steps, runs and
 * sessions. Otherwise by pair and tag alone, for tasks of one step: then no branch and no address
 * depends on a key. Its memory is UVCC_MEM_STATE; *alloc is copied. UVCC_ERR_NOMEM,
 * UVCC_ERR_USAGE. */
UVCC_API int uvcc_prg_uses_new(uvcc_prg_uses **out, const uvcc_allocator *alloc,
                               bool by_key) UVCC_MUST_USE;
/** NULL is allowed. */
UVCC_API void uvcc_prg_uses_free(uvcc_prg_uses *u);
/** Notes what a task reads, which is not touched itself; before or after it runs. UVCC_ERR_REFUSED:
 * *twice was read for another end before, or its kind never reads such words. UVCC_ERR_NOMEM;
 * UVCC_ERR_USAGE: NULL or an unknown kind. After an error a part of it is noted. */
UVCC_API int uvcc_prg_uses_task(uvcc_prg_uses *u, const uvcc_task *task,
                                uvcc_prg_use *twice) UVCC_MUST_USE;
/** Such as "mask", as in the derivation of keys; NULL for anything else. */
UVCC_API const char *uvcc_prg_tag_name(uint8_t tag);

#ifdef __cplusplus
}
#endif
#endif
