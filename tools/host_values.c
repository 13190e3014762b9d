/* SPDX-License-Identifier: Apache-2.0 */
/* host_values.c - values and shares of PERSIST tensors, into the sessions of a host and out of them
 * (host_loop.h). A session that still has something out does not take or give any: then the host
 * drives it until nothing moves. */
#include "host_loop.h"

/* A value that was set is with the session in two places until its job is done: of a large one and
 * several parties at a time that would be the most of all memory. What is set last is the caller's
 * to settle. */
static int settle_large(host *h, const host_worker *w, uint32_t tensor, unsigned party) {
    enum { LARGE = 1 << 19 };
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(w->program, tensor);
    const bool large = d != NULL && (uint64_t)d->rows * d->cols >= LARGE;
    return large && party + 1 < UVCC_PARTIES ? host_settle(h) : EXIT_DONE;
}

/* Of a public tensor that a party borrows party 0 has the value already. */
static int set_at(const host_worker *w, unsigned p, uint32_t tensor, const int64_t *v) {
    const uvcc_tensor_desc *d = uvcc_program_tensor_at(w->program, tensor);
    return w->party[p].borrows && d != NULL && d->sharing == UVCC_PUBLIC
               ? uvcc_session_set_borrowed(w->party[p].session, tensor)
               : uvcc_session_set_public(w->party[p].session, tensor, v);
}

int host_set_public(host *h, host_worker *w, uint32_t tensor, const int64_t *v) {
    int rc = 0, status = EXIT_DONE;
    for (unsigned p = 0; p < UVCC_PARTIES && rc == 0 && status == EXIT_DONE; p++) {
        while ((rc = set_at(w, p, tensor, v)) == UVCC_ERR_AGAIN)
            if ((status = host_wait(h)) != EXIT_DONE) /* what is out must end first */
                return status;
        if (rc == 0)
            status = settle_large(h, w, tensor, p);
    }
    return rc == 0 ? status : host_failed(h, "a public value", rc);
}

int host_set_shares(host *h, host_worker *w, unsigned party, uint32_t tensor, const uint64_t *lo,
                    const uint64_t *hi) {
    int rc;
    while ((rc = uvcc_session_set_shares(w->party[party].session, tensor, lo, hi)) ==
           UVCC_ERR_AGAIN) {
        const int status = host_wait(h);
        if (status != EXIT_DONE)
            return status;
    }
    return rc == 0 ? settle_large(h, w, tensor, party) : host_failed(h, "shares of a value", rc);
}

int host_set_components(host *h, host_worker *w, uint32_t tensor,
                        uint64_t *const part[UVCC_PARTIES]) {
    int status = EXIT_DONE;
    for (unsigned p = 0; p < UVCC_PARTIES && status == EXIT_DONE; p++)
        status = host_set_shares(h, w, p, tensor, part[p], part[(p + 1) % UVCC_PARTIES]);
    return status;
}

int host_shares(host *h, host_worker *w, unsigned party, uint32_t tensor, uint64_t *lo,
                uint64_t *hi) {
    int rc;
    while ((rc = uvcc_session_shares(w->party[party].session, tensor, lo, hi)) == UVCC_ERR_AGAIN) {
        const int status = host_wait(h);
        if (status != EXIT_DONE)
            return status;
    }
    return rc == 0 ? EXIT_DONE : host_failed(h, "shares of a value", rc);
}
