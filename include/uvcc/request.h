/* SPDX-License-Identifier: Apache-2.0 */
/* uvcc/request.h - what a client asks of the three parties and what it gets, over its dialogs with
 * them (<uvcc/dialog.h>), sans I/O: a private input goes out as shares, an output comes back opened
 * to the client alone.
 *
 * A client makes one object for a request, and has one dialog with each party:
 *
 *     uvcc_request_new(&r, &cfg);
 *     ... after uvcc_dialog_turn(d[p], now), for each party p:
 *     on UVCC_DIALOG_OPEN:  uvcc_request_opened(r, p);
 *     uvcc_request_turn(r, p, d[p], now);
 *     if (uvcc_request_get_state(r, &st) == 0 && st.kind == UVCC_REQUEST_DONE)
 *         uvcc_request_output(r, values, n);
 *
 * A party has one service for all its clients, and a dialog with each:
 *
 *     on UVCC_DIALOG_OPEN:  uvcc_service_opened(s, client);
 *     uvcc_service_turn(s, client, d, now);
 *     while (uvcc_service_next(s, &job) == 1)
 *         ...;      // agree with the other parties on it, run it
 *     uvcc_service_answer(s, job.token, status, lo, hi, n);
 *
 * Either may vanish at any point and come back: what was under way is sent again when the dialog is
 * open again; a request that a party has already is not taken twice, and its answer comes again.
 * docs/clients.md says what it promises. One owner at a time; nothing blocks. */
#ifndef UVCC_REQUEST_H
#define UVCC_REQUEST_H

#include <uvcc/dialog.h>
#include <uvcc/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Greatest request and answer, in values, or words of keys: 2^24 less a few. */
#define UVCC_REQUEST_VALUES_MAX ((UINT32_C(1) << 24) - 64)

typedef struct uvcc_request_shape {
    uint32_t entry;              /**< of the parties' program, or whatever they agreed to call it */
    uint32_t in_rows, in_cols;   /**< of the client's values, which go as shares */
    uint32_t out_rows, out_cols; /**< of the output */
    /** Numbers of rows of a table, such as tokens, that go as keys (uvcc_client_deal): in_rows rows
     * of so many, each below 2^key_bits, 1 to 32; both 0: none. Then in_cols may be 0. */
    uint32_t key_cols, key_bits;
    /** What else of the program a client and the parties want alike, as their hosts agreed to write
     * it; zeros: nothing. It travels with the request and is in its digests; hosts compare it. */
    uint8_t terms[12];
} uvcc_request_shape;

typedef enum uvcc_request_status {
    UVCC_REQUEST_OK = 0,
    UVCC_REQUEST_DROPPED = 1,  /**< not all parties had it when they came to it: ask anew */
    UVCC_REQUEST_REFUSED = 2,  /**< they do not serve this entry, or not in this shape, or on other
                                    terms */
    UVCC_REQUEST_MISMATCH = 3, /**< the parties have different shares: somebody changed some */
    UVCC_REQUEST_BUSY = 4,     /**< too much is under way for this client: ask later */
    UVCC_REQUEST_GONE = 5,     /**< it was answered before, and the answer is not kept any more */
    UVCC_REQUEST_STATUSES = 6,
} uvcc_request_status;

/* ---- the client ---- */

typedef struct uvcc_request_config {
    size_t size; /**< sizeof(uvcc_request_config) */
    uvcc_allocator alloc;
    uvcc_random random;
    uvcc_request_shape shape;
    const int64_t *values;  /**< in_rows * in_cols, as the program reads them (fixed point) */
    const int64_t *numbers; /**< in_rows * key_cols; NULL where the shape has none */
    uint8_t sid_job[32];    /**< of the parties' job, as the dialogs have it, for keys */
} uvcc_request_config;
typedef struct uvcc_request uvcc_request;

/** Splits the values into shares and deals keys of the numbers, which are the same however often
 * they are sent. UVCC_ERR_USAGE; UVCC_ERR_LIMIT: a shape with no values and numbers or too many;
 * UVCC_ERR_BOUND: a number is not below 2^key_bits; UVCC_ERR_RANDOM; UVCC_ERR_NOMEM. */
UVCC_API int uvcc_request_new(uvcc_request **out, const uvcc_request_config *cfg) UVCC_MUST_USE;
/** Wipes the shares and the output. */
UVCC_API void uvcc_request_free(uvcc_request *r);
/** The dialog with this party is open, or open anew: what it has not answered goes out again. */
UVCC_API int uvcc_request_opened(uvcc_request *r, uint8_t party);
/** Sends what can be sent and takes what came. Messages that are no answer to this request are
 * dropped. 0 or an error of the dialog; UVCC_ERR_NOMEM: the answer is lost, uvcc_request_opened()
 * asks for it again. */
UVCC_API int uvcc_request_turn(uvcc_request *r, uint8_t party, uvcc_dialog *d, uint64_t now);

typedef enum uvcc_request_kind {
    UVCC_REQUEST_WAITING = 0, /**< for the parties of `missing` */
    UVCC_REQUEST_DONE = 1,    /**< all answered, and what two parties have of a share is the same */
    UVCC_REQUEST_FAILED = 2,  /**< `status` of a party is not OK; or the parties of `suspects` are
                                   two one of whom (at least) sent a wrong share */
} uvcc_request_kind;
typedef struct uvcc_request_state {
    uvcc_request_kind kind;
    uint8_t missing;  /**< bit p: party p has not answered */
    uint8_t suspects; /**< bits of parties; 0: none */
    uvcc_request_status status[UVCC_PARTIES];
    uint32_t why[UVCC_PARTIES]; /**< of REFUSED: see uvcc_service_refuse(); else 0 */
} uvcc_request_state;
UVCC_API int uvcc_request_get_state(const uvcc_request *r, uvcc_request_state *out);
/** Its 16 bytes, for logs. */
UVCC_API int uvcc_request_id(const uvcc_request *r, uint8_t out[16]);
/** The n = out_rows * out_cols values, once it is DONE; else UVCC_ERR_STATE. */
UVCC_API int uvcc_request_output(const uvcc_request *r, int64_t *values, size_t n);

/* ---- a party ---- */

typedef struct uvcc_service_config {
    size_t size; /**< sizeof(uvcc_service_config) */
    uvcc_allocator alloc;
    uvcc_logger log; /**< may be NULL; WARN: what a client sent that is none of this */
    uint8_t party;
    uint32_t clients_max; /**< 0: 64 */
    uint32_t waiting_max; /**< requests of one client that are not answered; 0: 4 */
    uint32_t kept_max;    /**< answers kept for one client; 0: 8. Of eight times as many it is still
                               known that there was one */
    uint64_t client_bytes; /**< requests and answers of one client; 0: 64 MiB */
} uvcc_service_config;
typedef struct uvcc_service uvcc_service;

UVCC_API void uvcc_service_config_default(uvcc_service_config *cfg);
UVCC_API int uvcc_service_new(uvcc_service **out, const uvcc_service_config *cfg) UVCC_MUST_USE;
/** Wipes what it has. */
UVCC_API void uvcc_service_free(uvcc_service *s);
/** A client, by its Ed25519 key: *client is its number in the calls below. UVCC_ERR_LIMIT. */
UVCC_API int uvcc_service_add(uvcc_service *s, const uint8_t key[32], uint32_t *client);
/** The dialog with this client is open, or open anew: what it had sent of a request that is not
 * whole is forgotten; answers that it may not have got are kept until it asks. */
UVCC_API int uvcc_service_opened(uvcc_service *s, uint32_t client);
/** As uvcc_request_turn(); UVCC_ERR_NOMEM: a request may have been dropped, then its client is
 * told BUSY. */
UVCC_API int uvcc_service_turn(uvcc_service *s, uint32_t client, uvcc_dialog *d, uint64_t now);

/** A request that is whole. The pointers hold until it is answered. */
typedef struct uvcc_service_job {
    uint64_t token;
    uint32_t client;
    uint8_t id[16];
    uvcc_request_shape shape;
    const uint64_t *lo, *hi; /**< in_rows * in_cols each: components `party` and `party` + 1 */
    /** in_rows * key_cols keys each, one behind the other, and behind them so many roots: what
     * uvcc_session_set_shares takes for a one-hot tensor of that size. Nothing says that they are
     * any; NULL where the shape has none. */
    const uint64_t *keys_lo, *keys_hi;
    /** Of either component with everything that the request says, hidden by a salt that only the
     * client and the component's two holders know: party p's `digest_hi` must be party p + 1's
     * `digest_lo`. */
    uint8_t digest_lo[32], digest_hi[32];
} uvcc_service_job;
/** 1 and the next request that was not handed out yet, in the order in which they became whole; 0.
 */
UVCC_API int uvcc_service_next(uvcc_service *s, uvcc_service_job *out);
/** Answers it; lo and hi, n = out_rows * out_cols each, are copied; NULL and 0 if status is not OK.
 * UVCC_ERR_NOT_FOUND: no such job, or it is answered; UVCC_ERR_USAGE: another n; UVCC_ERR_NOMEM:
 * try again. */
UVCC_API int uvcc_service_answer(uvcc_service *s, uint64_t token, uvcc_request_status status,
                                 const uint64_t *lo, const uint64_t *hi, size_t n);
/** Answers it with REFUSED, and says why: bits that the hosts of both ends agreed on, such as one
 * for each thing that differs; 0: nothing. Errors as of uvcc_service_answer(). */
UVCC_API int uvcc_service_refuse(uvcc_service *s, uint64_t token, uint32_t why);

#ifdef __cplusplus
}
#endif
#endif
