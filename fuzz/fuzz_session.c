/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_session.c - sessions as a program of inputs: three parties whose network, clock, executors
 * and hooks the fuzzer is. Its bytes choose what each session is fed, when timers fire, how much of
 * a transmit goes out, which jobs complete, late, twice, forged or failed, when clocks step back,
 * hooks fail, the host sets, steps, closes or aborts.
 *
 * Checks: opened values are right and roots agree whatever happened; nothing comes after CLOSED;
 * the answer to one input is bounded; all memory comes back. Where no hook failed, no job failed,
 * nobody stopped and nobody forged, a run without further faults comes to its end. */
#include "sessions.h"

enum { ACTIONS_MAX = 250 };

/* ---- hostile bytes ---- */

static void change(world *w, uint8_t from, uint8_t to, fuzz_in *in) {
    pipe *p = &w->pipe[from][to];
    uint8_t how = fuzz_u8(in), value = fuzz_u8(in);
    uint16_t where = fuzz_u16(in);
    if (p->count == 0)
        return;
    packet *one = &p->p[(how >> 4) % p->count];
    if (one->len < UVCC_FRAME_HEADER_BYTES)
        return;
    one->data[where % one->len] ^= value;
    size_t len = uvcci_ld32(one->data + 48);
    if ((how & 1) != 0 && len <= one->len - UVCC_FRAME_HEADER_BYTES) { /* a right CRC */
        uvcci_st32(one->data + 60,
                   uvcc_frame_crc(one->data, one->data + UVCC_FRAME_HEADER_BYTES, len));
    }
    w->forged = true; /* an unsealed HELLO may be changed for good, a stream may starve */
}

/* ---- the program of inputs ---- */

static void host_call(world *w, uint8_t i, fuzz_in *in) {
    party *a = &w->at[i];
    uint8_t what = fuzz_u8(in);
    const uint8_t *data;
    size_t len;
    uint32_t step;
    uvcc_session_stats stats;
    uint8_t digest[32];
    uint64_t shares[ROWS * COLS] = {0}, got[128];
    switch (what & 15) {
    case 0:
        if (uvcc_session_close(a->s, clock_of(w, i)) == 0)
            a->stopped = true;
        break;
    case 1:
        if (uvcc_session_abort(a->s, fuzz_u8(in), clock_of(w, i)) == 0)
            a->stopped = true;
        break;
    case 2: /* calls out of place: refused, or the same value again */
        (void)uvcc_session_set_public(a->s, what >> 4, KEPT);
        uvcc_session_trim(a->s);
        break;
    case 3:
        if (what >> 4 != T_S) /* shares of something else would be opened */
            (void)uvcc_session_set_shares(a->s, what >> 4, shares, shares);
        (void)uvcc_session_shares(a->s, what >> 4, got, got + 64);
        break;
    case 4:
        FUZZ_CHECK(uvcc_session_step(a->s, 1000, 0, clock_of(w, i)) != 0);
        FUZZ_CHECK(uvcc_session_step(a->s, a->want, 9, clock_of(w, i)) != 0);
        FUZZ_CHECK(uvcc_session_input(a->s, a->want, 99, X, clock_of(w, i)) != 0);
        break;
    case 5:
        if (uvcc_session_checkpoint(a->s, &step, &data, &len) == 0) {
            uint8_t *copy = fuzz_copy(data, len);
            (void)uvcc_session_resume(a->s, copy, len);
            copy[fuzz_u16(in) % len] ^= 1;
            FUZZ_CHECK(uvcc_session_resume(a->s, copy, len) != 0);
            free(copy);
        }
        break;
    case 6:
        data = fuzz_take(in, what >> 4, &len);
        FUZZ_CHECK(uvcc_session_resume(a->s, data, len) != 0);
        break;
    case 7:
        (void)uvcc_session_start(a->s, clock_of(w, i));
        (void)uvcc_session_feed(a->s, i, digest, 0, clock_of(w, i));
        (void)uvcc_session_feed(a->s, 3, digest, 0, clock_of(w, i));
        break;
    default:
        uvcc_session_get_stats(a->s, &stats);
        FUZZ_CHECK(stats.memory_bytes <= stats.memory_peak_bytes);
        FUZZ_CHECK(stats.steps_finished == a->finished || a->aborted ||
                   stats.steps_finished <= STEPS_MAX);
        uvcc_session_digest(a->s, digest);
        (void)uvcc_session_root(a->s, digest);
        break;
    }
}

static void action(world *w, fuzz_in *in) {
    uint8_t op = fuzz_u8(in);
    uint8_t i = (op >> 4) % 3, j = (uint8_t)((i + 1 + (op >> 6 & 1)) % 3);
    party *a = &w->at[i];
    const uint8_t *p;
    uvcc_completion c;
    size_t len;
    uint64_t t;
    switch (op & 15) {
    case 0:
        for (int n = 0; n < 1 + (op >> 4); n++)
            if (!turn(w))
                advance(w);
        break;
    case 1:
        deliver(w, j, i, op >> 7, SIZE_MAX);
        break;
    case 2:
        deliver(w, j, i, op >> 7, fuzz_u8(in));
        break;
    case 3: /* lost, or delivered and kept */
        if (!w->datagram || w->pipe[j][i].count == 0)
            break;
        if (op & 128)
            feed(w, i, j, w->pipe[j][i].p[0].data, w->pipe[j][i].p[0].len);
        else
            pipe_drop(&w->pipe[j][i], 0);
        break;
    case 4:
        change(w, j, i, in);
        break;
    case 5: /* bytes of nobody */
        p = fuzz_take(in, op & 128 ? fuzz_u8(in) : 80, &len);
        w->forged = true;
        feed(w, i, j, p, len);
        break;
    case 6:
        advance(w);
        break;
    case 7:
        w->now += (uint64_t)fuzz_u8(in) << (12 + (op >> 4));
        (void)uvcc_session_on_timer(a->s, clock_of(w, i));
        break;
    case 8: /* its clock steps, and back */
        t = (uint64_t)fuzz_u8(in) << (12 + (op >> 6) * 6);
        if (op & 64)
            a->skew += t;
        else
            a->skew -= a->skew < t ? a->skew : t;
        break;
    case 9:
        if (a->done_count != 0)
            complete(w, i, (op >> 6) % a->done_count, 0);
        break;
    case 10: /* failed, stale or forged */
        if ((op & 64) != 0 && a->done_count != 0) {
            complete(w, i, 0, UVCC_ERR_JOB);
        } else if (a->old_count != 0) {
            c = a->old[fuzz_u8(in) % (a->old_count < OLD_MAX ? a->old_count : OLD_MAX)];
            if (op & 128)
                c.cookie ^= fuzz_u8(in);
            (void)uvcc_session_complete(a->s, &c, clock_of(w, i));
        } else {
            c = (uvcc_completion){.id = fuzz_u8(in), .cookie = 100u + i};
            (void)uvcc_session_complete(a->s, &c, clock_of(w, i));
        }
        break;
    case 11:
        ask(w, i);
        break;
    case 12:
        if (!w->datagram)
            stream(w, i, j, op & 128);
        break;
    case 13:
        if (op & 128)
            a->rng.fail_in = 1 + fuzz_u8(in);
        else
            w->mem.fail_in = 1 + (uint64_t)fuzz_u8(in);
        break;
    case 14:
        host_call(w, i, in);
        break;
    default:
        out(w, i, fuzz_u8(in));
        break;
    }
    settle(w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static world w;
    fuzz_in in = {data, size};
    uint8_t how = fuzz_u8(&in);
    if (!calm_run[how].known) {
        memset(&w, 0, sizeof w);
        begin(&w, how);
        end(&w, true);
        calm_run[how].known = true;
    }
    memset(&w, 0, sizeof w);
    begin(&w, how);
    settle(&w);
    for (int i = 0; i < ACTIONS_MAX && in.left != 0; i++)
        action(&w, &in);
    end(&w, (size & 1) == 0); /* that takes long: only every other size */
    return 0;
}
