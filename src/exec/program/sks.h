/* sks.h - SKS, the integrity check of a product C = op(A) op(B) before truncation (Freivalds, with
 * random bit matrices; docs/protocols.md).
 *
 * Two ops. SKS_START reads A, B and C: it makes the check's own triple, commits to all of them,
 * tosses a coin, and if the coin selects this product multiplies the tensors by the bit matrices U
 * and V that the coin gives. Then the tensors are free. SKS_GEMM_CHECK with the same three tensors
 * waits for the verdict, and only the end of the step waits for it. What START makes belongs to
 * START's run; the check's run uses it and frees it. */
#ifndef UVCCI_SKS_H
#define UVCCI_SKS_H

#include "exec/program/program.h"
#include "proto/coin.h"

enum {
    UVCCI_SKS_T = 64, /* columns of U and V */
    UVCCI_SKS_TT = UVCCI_SKS_T * UVCCI_SKS_T,
    UVCCI_SKS_PERMILLE_MAX = 1000,
};

/* Of op(A), rows x inner, and op(B), inner x cols; op: SKS_START or a GEMM_SS. */
typedef struct uvcci_sks_shape {
    uint32_t rows, inner, cols;
} uvcci_sks_shape;
uvcci_sks_shape uvcci_sks_shape_of(const uvcc_program *p, const uvcc_op_desc *op);

/* liveness.c: op i is an SKS_GEMM_CHECK. The SKS_START before it with the same tensors that no
 * other check waits for, or UVCCI_NO_OP. */
uint32_t uvcci_sks_start_of(const uvcci_entry *e, uint32_t i);
/* Op i is an SKS_START, and its versions are known: whether `writer`, which made the C that it
 * reads, is the untruncated product of the A and B that it reads. UVCC_ERR_PROGRAM names it. */
int uvcci_sks_check_start(const uvcci_entry *e, uint32_t i, uint32_t writer,
                          const uvcci_message *m);
/* UVCC_ERR_PROGRAM names an SKS_START of the entry that no SKS_GEMM_CHECK waits for. */
int uvcci_sks_check_waits(const uvcci_entry *e, const uvcci_message *m);

struct uvcc_session;
struct uvcci_instance;
struct uvcci_builder;

/* ---- in a session: both ops ---- */

/* What came for the present turn; false: it is wrong, and the session was aborted. */
bool uvcci_sks_take(struct uvcc_session *s, struct uvcci_instance *r);
/* The coin did not select the product: the SKS_GEMM_CHECK is done without a message. */
bool uvcci_sks_skips(const struct uvcci_instance *r);
/* A peer sent what it could not know yet, or what nobody should send. */
bool uvcci_sks_refuses(const struct uvcci_instance *r, unsigned round);
bool uvcci_sks_build(struct uvcci_builder *b);
/* After the turn's job, before its messages go out: leaves and the checks of what was computed.
 * False: the session was aborted. */
bool uvcci_sks_done(struct uvcc_session *s, struct uvcci_instance *r);
/* The run is done: gives back what no later turn reads. */
void uvcci_sks_end(struct uvcc_session *s, struct uvcci_instance *r);
/* The step goes: gives back all that an SKS_START made. */
void uvcci_sks_free(struct uvcc_session *s, struct uvcci_instance *r);

#endif
