/* SPDX-License-Identifier: Apache-2.0 */
/* The protocols as tables: what roles send whom, rounds and bytes, every order in which messages
 * may come, and those that none may. */
#include "support.h"

#include "proto/engine.h"

enum { H = UVCCI_HEAD, T = UVCCI_TAIL, O = UVCCI_OTHER };

static void roles(void **state) {
    (void)state;
    for (uint8_t e = 0; e < 3; e++) {
        assert_int_equal(uvcci_party_of(UVCCI_HEAD, e), e);
        assert_int_equal(uvcci_party_of(UVCCI_TAIL, e), (e + 1) % 3);
        assert_int_equal(uvcci_party_of(UVCCI_OTHER, e), (e + 2) % 3);
        for (uint8_t p = 0; p < 3; p++)
            assert_int_equal(uvcci_party_of(uvcci_role_of(p, e), e), p);
    }
}

static void table(void **state) {
    (void)state;
    unsigned total = 0;
    for (unsigned p = 0; p < UVCCI_PROTO_COUNT; p++) {
        unsigned n, hops = uvcci_protocol_hops((uvcci_protocol)p);
        const uvcci_flow *f = uvcci_protocol_flows((uvcci_protocol)p, &n);
        assert_non_null(uvcci_protocol_name((uvcci_protocol)p));
        assert_in_range(n, 1, 8); /* a bit each in an engine's masks */
        /* The table stands in the order of the protocols, so none is split or missing. */
        assert_ptr_equal(f, uvcci_flows + total);
        total += n;
        unsigned hops_seen = 0;
        for (unsigned i = 0; i < n; i++) {
            assert_int_equal(f[i].protocol, p);
            assert_true(f[i].from <= O && f[i].to <= O && f[i].from != f[i].to);
            assert_true(f[i].hop < hops);
            hops_seen |= 1u << f[i].hop;
            assert_non_null(uvcc_tlv_name(f[i].tlv));
            assert_ptr_equal(uvcci_flow_find((uvcci_protocol)p, (uvcci_role)f[i].from,
                                             (uvcci_role)f[i].to, f[i].hop, f[i].tlv),
                             &f[i]);
            /* What is waited for comes in an earlier hop. */
            assert_int_equal(f[i].after != 0, f[i].hop != 0);
            bool supplied = f[i].after == 0;
            for (unsigned k = 0; k < n; k++)
                supplied |=
                    f[k].to == f[i].from && f[k].from + 1 == f[i].after && f[k].hop < f[i].hop;
            assert_true(supplied);
        }
        assert_int_equal(hops_seen, (1u << hops) - 1);
    }
    assert_int_equal(total, uvcci_flow_count);
    assert_int_equal(uvcci_protocol_hops(UVCCI_PROTO_LIFT_PARALLEL), 1);
    assert_int_equal(uvcci_protocol_hops(UVCCI_PROTO_LIFT_SEQUENTIAL), 2);
    assert_int_equal(uvcci_protocol_hops(UVCCI_PROTO_COUNT), 0);
    assert_null(uvcci_protocol_name(UVCCI_PROTO_COUNT));
    assert_string_equal(uvcci_protocol_name(UVCCI_PROTO_OPEN_ALL), "OPEN_ALL");
}

/* Elements on the wire per protocol, all parties together (protocols.md 3 to 5). */
static void costs(void **state) {
    (void)state;
    static const unsigned vectors[UVCCI_PROTO_COUNT] = {
        [UVCCI_PROTO_INPUT] = 2,         [UVCCI_PROTO_OPEN2] = 2,
        [UVCCI_PROTO_OPEN4] = 4,         [UVCCI_PROTO_OPEN_ALL] = 3,
        [UVCCI_PROTO_OPEN_ONE] = 1,      [UVCCI_PROTO_RESHARE] = 3,
        [UVCCI_PROTO_LIFT_PARALLEL] = 2, [UVCCI_PROTO_LIFT_SEQUENTIAL] = 2,
        [UVCCI_PROTO_LIFT_EXCHANGE] = 2, [UVCCI_PROTO_KEYS] = 2,
        [UVCCI_PROTO_CIRCUIT_HEAD] = 4,  [UVCCI_PROTO_CIRCUIT_TOP] = 2,
        [UVCCI_PROTO_SR_OPEN] = 4,       [UVCCI_PROTO_SR_SEND] = 3,
        [UVCCI_PROTO_SR2] = 4,
    };
    for (unsigned p = 0; p < UVCCI_PROTO_COUNT; p++) {
        unsigned n, got = 0;
        const uvcci_flow *f = uvcci_protocol_flows((uvcci_protocol)p, &n);
        for (unsigned i = 0; i < n; i++)
            got += f[i].tlv != UVCC_TLV_DIGEST;
        assert_int_equal(got, vectors[p]);
    }
}

/* Every order of {local, each awaited flow} for one protocol and role. `lazy`: take only at the
 * end. */
static void walk_orders(uvcci_protocol p, uvcci_role role, bool lazy) {
    unsigned n;
    const uvcci_flow *f = uvcci_protocol_flows(p, &n);
    unsigned in[8], n_in = 0;
    uint8_t own = 0;
    for (unsigned i = 0; i < n; i++) {
        if (f[i].to == role)
            in[n_in++] = i;
        if (f[i].from == role)
            own |= (uint8_t)(1u << i);
    }
    unsigned events = n_in + 1, orders = 1;
    for (unsigned k = 2; k <= events; k++)
        orders *= k;
    for (unsigned o = 0; o < orders; o++) {
        /* The o-th permutation; event n_in is the local share. */
        unsigned left[9], rest = o;
        for (unsigned k = 0; k < events; k++)
            left[k] = k;
        uvcci_engine e;
        uvcci_engine_init(&e, p, role);
        bool local = false;
        uint8_t got = 0, taken = 0;
        for (unsigned k = 0; k < events; k++) {
            assert_false(uvcci_engine_done(&e));
            unsigned pick = rest % (events - k);
            rest /= events - k;
            unsigned ev = left[pick];
            left[pick] = left[events - k - 1];
            if (ev == n_in) {
                assert_int_equal(uvcci_engine_local(&e), 0);
                local = true;
            } else {
                const uvcci_flow *g = &f[in[ev]];
                assert_int_equal(uvcci_engine_receive(&e, (uvcci_role)g->from, g->hop, g->tlv), 0);
                got |= (uint8_t)(1u << in[ev]);
            }
            uint8_t allowed = 0;
            for (unsigned i = 0; i < n; i++) {
                bool waited = f[i].after == 0;
                for (unsigned m = 0; m < n; m++)
                    waited |= (got >> m & 1) != 0 && f[m].from + 1 == f[i].after;
                if (local && waited && (own >> i & 1) != 0)
                    allowed |= (uint8_t)(1u << i);
            }
            assert_int_equal(e.may_send, allowed & ~taken);
            if (!lazy) {
                assert_int_equal(uvcci_engine_take_sends(&e), allowed & ~taken);
                assert_int_equal(uvcci_engine_take_sends(&e), 0);
                taken = allowed;
            }
        }
        if (lazy && own != 0) {
            assert_false(uvcci_engine_done(&e));
            assert_int_equal(uvcci_engine_take_sends(&e), own);
        }
        assert_true(uvcci_engine_done(&e));
        assert_int_equal(uvcci_engine_local(&e), UVCC_ERR_STATE);
    }
}

static void every_order(void **state) {
    (void)state;
    for (unsigned p = 0; p < UVCCI_PROTO_COUNT; p++)
        for (unsigned role = 0; role < 3; role++) {
            walk_orders((uvcci_protocol)p, (uvcci_role)role, false);
            walk_orders((uvcci_protocol)p, (uvcci_role)role, true);
        }
}

/* In every reachable set of received flows: what is not awaited, or came already, is refused and
 * changes nothing. */
static void refuses_unexpected(void **state) {
    (void)state;
    for (unsigned p = 0; p < UVCCI_PROTO_COUNT; p++)
        for (unsigned role = 0; role < 3; role++) {
            unsigned n;
            const uvcci_flow *f = uvcci_protocol_flows((uvcci_protocol)p, &n);
            for (unsigned have = 0; have < 1u << n; have++) {
                uvcci_engine e;
                uvcci_engine_init(&e, (uvcci_protocol)p, (uvcci_role)role);
                bool reachable = true;
                for (unsigned i = 0; i < n; i++)
                    if ((have >> i & 1) != 0)
                        reachable &=
                            f[i].to == role && uvcci_engine_receive(&e, (uvcci_role)f[i].from,
                                                                    f[i].hop, f[i].tlv) == 0;
                if (!reachable)
                    continue;
                for (unsigned from = 0; from < 3; from++)
                    for (unsigned hop = 0; hop < 4; hop++)
                        for (unsigned tlv = 0; tlv < 256; tlv++) {
                            bool awaited = false;
                            for (unsigned i = 0; i < n; i++)
                                awaited |= f[i].to == role && f[i].from == from &&
                                           f[i].hop == hop && f[i].tlv == tlv &&
                                           (have >> i & 1) == 0;
                            uvcci_engine was = e, copy = e;
                            int err =
                                uvcci_engine_receive(&copy, (uvcci_role)from, hop, (uint8_t)tlv);
                            assert_int_equal(err, awaited ? 0 : UVCC_ERR_PROTOCOL);
                            if (!awaited)
                                assert_memory_equal(&copy, &was, sizeof copy);
                        }
            }
        }
}

/* ---- arithmetic: three parties, the flow table, random pads ---- */

typedef struct sim {
    uint64_t pad[3][3]; /* lane 0 of the pair, by roles, symmetric */
    uint64_t own;       /* OTHER's s */
    uint64_t x[3];      /* a, b, c of an RSS value */
    uint64_t z[3];      /* additive shares by role */
    uint64_t y[3];      /* y_h, y_t, 0 */
    uint64_t in[8];     /* what came, by flow */
} sim;

static uint64_t rho(const sim *s, unsigned i, unsigned j) {
    return s->pad[i][j];
}
static uint64_t digest(uint64_t v) {
    return v * 0x9E3779B97F4A7C15u ^ 0x55;
}

/* What the role `from` of the flow puts on the wire. It reads only what that role knows. */
static uint64_t build(const sim *s, const uvcci_flow *f) {
    switch (f->protocol) {
    case UVCCI_PROTO_INPUT: /* HEAD owns x[0] + x[1] + x[2], which only it knows */
        return s->x[0] + s->x[1] + s->x[2] - rho(s, H, O) - rho(s, H, T);
    case UVCCI_PROTO_OPEN2:
        return f->from == H ? s->x[0] + rho(s, H, O) : s->x[2] + rho(s, T, O);
    case UVCCI_PROTO_OPEN4:
        return s->z[f->from] + (f->from == O ? s->own : rho(s, f->from, O));
    case UVCCI_PROTO_OPEN_ALL: /* edge 0: role = party; it stores x[p] and x[p + 1] */
        return f->tlv == UVCC_TLV_OPEN_VEC ? s->x[f->from] : digest(s->x[(f->from + 1) % 3]);
    case UVCCI_PROTO_OPEN_ONE:
        return f->from == T ? s->x[2] : digest(s->x[2]);
    case UVCCI_PROTO_RESHARE:
        return s->z[f->from];
    case UVCCI_PROTO_LIFT_PARALLEL:
        return f->from == H ? s->y[H] - rho(s, H, O) : s->y[T] - rho(s, H, T);
    case UVCCI_PROTO_LIFT_SEQUENTIAL: /* flow 0 is m */
        return f->from == H ? s->y[H] - rho(s, H, O) : s->in[0] + s->y[T] - rho(s, H, T);
    case UVCCI_PROTO_LIFT_EXCHANGE:
        return s->y[f->from] + rho(s, f->from, O);
    case UVCCI_PROTO_CIRCUIT_HEAD: /* f = a + b, g = c */
        if (f->from == H)
            return s->x[0] + s->x[1] - rho(s, H, O) - rho(s, H, T);
        return rho(s, H, f->from) * s->x[2] + (f->from == T ? 1 : UINT64_MAX) * rho(s, T, O);
    case UVCCI_PROTO_CIRCUIT_TOP:
        return s->z[f->from];
    case UVCCI_PROTO_SR_OPEN: /* what HEAD has of a bit, and what TAIL makes of its half */
        if (f->to == O)
            return f->from == H ? s->own - rho(s, H, T) : rho(s, H, T) * s->x[2] + s->y[T];
        return f->from == T ? s->z[T] + rho(s, T, O) + s->x[2] : s->z[O] - rho(s, T, O);
    case UVCCI_PROTO_SR_SEND:
        return f->from == O ? s->y[H] : f->to == O ? s->x[0] - rho(s, H, T) : s->own;
    case UVCCI_PROTO_SR2: /* f = a + b, g = c: HEAD's is split among all three */
        if (f->from == H)
            return s->x[0] + s->x[1] - rho(s, H, O) - rho(s, H, T);
        return rho(s, H, f->from) * s->x[2] + (f->from == T ? s->y[T] : s->y[H]);
    case UVCCI_PROTO_DIGEST_ALL: /* under the key of the two */
        return digest(s->own + rho(s, f->from, f->to));
    default: /* KEYS: the dealer's bytes */
        return s->own;
    }
}

/* Runs a protocol in a random order of events. */
static void run(sim *s, uvcci_protocol p, uint64_t *seed) {
    unsigned n, sent = 0, came = 0;
    const uvcci_flow *f = uvcci_protocol_flows(p, &n);
    uvcci_engine e[3];
    for (unsigned r = 0; r < 3; r++)
        uvcci_engine_init(&e[r], p, (uvcci_role)r);
    for (unsigned turn = 0;
         !(uvcci_engine_done(&e[0]) && uvcci_engine_done(&e[1]) && uvcci_engine_done(&e[2]));
         turn++) {
        assert_true(turn < 100000);
        unsigned pick = (unsigned)(test_rand(seed) % (3 + n));
        if (pick < 3) {
            if (!e[pick].local)
                assert_int_equal(uvcci_engine_local(&e[pick]), 0);
            sent |= uvcci_engine_take_sends(&e[pick]);
            continue;
        }
        pick -= 3;
        if ((sent >> pick & 1) == 0 || (came >> pick & 1) != 0)
            continue;
        s->in[pick] = build(s, &f[pick]);
        came |= 1u << pick;
        assert_int_equal(uvcci_engine_receive(&e[f[pick].to], (uvcci_role)f[pick].from, f[pick].hop,
                                              f[pick].tlv),
                         0);
    }
    assert_int_equal(came, (1u << n) - 1);
}

/* The word that role `to` got from `from`. */
static uint64_t got(const sim *s, uvcci_protocol p, unsigned from, unsigned to, unsigned hop,
                    uint8_t tlv) {
    unsigned n;
    const uvcci_flow *f = uvcci_flow_find(p, (uvcci_role)from, (uvcci_role)to, hop, tlv);
    assert_non_null(f);
    return s->in[f - uvcci_protocol_flows(p, &n)];
}

#define EQ(x, y) assert_true((x) == (y))

static void check(const sim *s, uvcci_protocol p, uint64_t value) {
    const uint8_t V = UVCC_TLV_OPEN_VEC;
    uint64_t a = s->x[0], b = s->x[1], c = s->x[2];
    uint64_t rho_ho = rho(s, H, O), rho_to = rho(s, T, O), rho_ht = rho(s, H, T);
    switch (p) {
    case UVCCI_PROTO_INPUT:
        /* a = pad of HEAD and OTHER, b = pad of HEAD and TAIL, c came to TAIL and OTHER. */
        EQ(got(s, p, H, T, 0, UVCC_TLV_INPUT_U64VEC), got(s, p, H, O, 0, UVCC_TLV_INPUT_U64VEC));
        EQ(rho_ho + rho_ht + got(s, p, H, T, 0, UVCC_TLV_INPUT_U64VEC), value);
        break;
    case UVCCI_PROTO_OPEN2: {
        uint64_t r = rho_ho + rho_to;
        EQ(a + rho_ho + b + got(s, p, T, H, 0, V), value + r);
        EQ(c + rho_to + b + got(s, p, H, T, 0, V), value + r);
        break;
    }
    case UVCCI_PROTO_OPEN4: {
        uint64_t r = rho_ho + rho_to + s->own;
        uint64_t z = s->z[0] + s->z[1] + s->z[2];
        uint64_t at_head = s->z[H] + rho_ho + got(s, p, T, H, 0, V) + got(s, p, O, H, 0, V);
        uint64_t at_tail = s->z[T] + rho_to + got(s, p, H, T, 0, V) + got(s, p, O, T, 0, V);
        EQ(at_head, z + r);
        EQ(at_tail, z + r);
        if (s->own == 0) /* opened z = value + 2^62: RSS of value stays behind */
            EQ(-rho_ho + (at_head - (UINT64_C(1) << 62)) + -rho_to, value);
        break;
    }
    case UVCCI_PROTO_OPEN_ALL:
        for (unsigned q = 0; q < 3; q++) {
            uint64_t lacked = got(s, p, (q + 2) % 3, q, 0, V);
            EQ(s->x[q] + s->x[(q + 1) % 3] + lacked, value);
            EQ(got(s, p, (q + 1) % 3, q, 0, UVCC_TLV_DIGEST), digest(lacked));
        }
        break;
    case UVCCI_PROTO_OPEN_ONE:
        EQ(a + b + got(s, p, T, H, 0, V), value);
        EQ(got(s, p, O, H, 0, UVCC_TLV_DIGEST), digest(got(s, p, T, H, 0, V)));
        break;
    case UVCCI_PROTO_RESHARE: {
        /* Party q stores (z_q, what q + 1 sent): both holders of a component have the same. */
        uint64_t sum = 0;
        for (unsigned q = 0; q < 3; q++) {
            EQ(got(s, p, (q + 1) % 3, q, 0, UVCC_TLV_RESHARE_U64VEC), s->z[(q + 1) % 3]);
            sum += s->z[q];
        }
        EQ(sum, s->z[0] + s->z[1] + s->z[2]);
        break;
    }
    case UVCCI_PROTO_LIFT_PARALLEL: {
        uint64_t m = got(s, p, H, T, 0, UVCC_TLV_LIFT_M_U64VEC);
        uint64_t c1 = got(s, p, T, O, 0, UVCC_TLV_LIFT_COMP_U64VEC);
        uint64_t b_head = s->y[H] - rho_ho + rho_ht, b_tail = m + rho_ht;
        EQ(b_head, b_tail);
        EQ(c1, s->y[T] - rho_ht); /* TAIL's own c' */
        EQ(rho_ho + b_tail + c1, s->y[H] + s->y[T]);
        break;
    }
    case UVCCI_PROTO_LIFT_SEQUENTIAL: {
        uint64_t c1 = got(s, p, T, O, 1, UVCC_TLV_LIFT_COMP_U64VEC);
        EQ(rho_ho + rho_ht + c1, s->y[H] + s->y[T]);
        break;
    }
    case UVCCI_PROTO_LIFT_EXCHANGE: {
        uint64_t y = s->y[H] + s->y[T], r = rho_ho + rho_to;
        uint64_t yh = s->y[H] + rho_ho + got(s, p, T, H, 0, UVCC_TLV_LIFT_X_U64VEC);
        EQ(yh, y + r);
        EQ(yh, s->y[T] + rho_to + got(s, p, H, T, 0, UVCC_TLV_LIFT_X_U64VEC));
        EQ(-rho_ho + yh + -rho_to, y);
        break;
    }
    case UVCCI_PROTO_CIRCUIT_HEAD: { /* HEAD has two components of f g, the others the third */
        const uint8_t R = UVCC_TLV_RESHARE_U64VEC;
        uint64_t masked = got(s, p, H, T, 0, R);
        EQ(masked, got(s, p, H, O, 0, R));
        EQ(got(s, p, O, H, 0, R) + got(s, p, T, H, 0, R) + masked * c, (a + b) * c);
        break;
    }
    case UVCCI_PROTO_CIRCUIT_TOP:
        EQ(got(s, p, T, H, 0, UVCC_TLV_RESHARE_U64VEC), s->z[T]);
        EQ(got(s, p, O, T, 0, UVCC_TLV_RESHARE_U64VEC), s->z[O]);
        break;
    case UVCCI_PROTO_SR_OPEN: { /* HEAD: z and the mask that the others know; OTHER: the product */
        const uint8_t R = UVCC_TLV_RESHARE_U64VEC;
        EQ(s->z[H] + got(s, p, T, H, 0, R) + got(s, p, O, H, 0, R),
           s->z[0] + s->z[1] + s->z[2] + c);
        EQ(got(s, p, H, O, 0, R) * c + got(s, p, T, O, 0, R) - s->y[T], s->own * c);
        break;
    }
    case UVCCI_PROTO_SR_SEND:
        EQ(got(s, p, H, O, 0, UVCC_TLV_RESHARE_U64VEC) + rho_ht, a);
        EQ(got(s, p, H, T, 0, UVCC_TLV_RESHARE_U64VEC), s->own);
        EQ(got(s, p, O, T, 0, UVCC_TLV_RESHARE_U64VEC), s->y[H]);
        break;
    case UVCCI_PROTO_SR2: { /* TAIL and OTHER have the third component of f g, HEAD the masks */
        const uint8_t R = UVCC_TLV_RESHARE_U64VEC;
        uint64_t split = got(s, p, H, T, 0, R);
        EQ(split, got(s, p, H, O, 0, R));
        EQ(split * c + got(s, p, T, O, 0, R) + got(s, p, O, T, 0, R) - s->y[T] - s->y[H],
           (a + b) * c);
        break;
    }
    case UVCCI_PROTO_DIGEST_ALL:
        for (unsigned q = 0; q < 6; q++)
            EQ(got(s, p, q / 2, (q / 2 + 1 + q % 2) % 3, 0, UVCC_TLV_DIGEST),
               digest(s->own + rho(s, q / 2, (q / 2 + 1 + q % 2) % 3)));
        break;
    default:
        EQ(got(s, p, O, H, 0, UVCC_TLV_KEY_CHUNK), got(s, p, O, T, 0, UVCC_TLV_KEY_CHUNK));
        break;
    }
}

static void arithmetic(void **state) {
    (void)state;
    static const uint64_t edge[] = {0, 1, UINT64_MAX, UINT64_C(1) << 63, UINT64_C(1) << 62};
    uint64_t seed = 5;
    for (unsigned p = 0; p < UVCCI_PROTO_COUNT; p++)
        for (unsigned round = 0; round < 500; round++) {
            sim s = {.own = test_rand(&seed)};
            uint64_t value = round < 5 ? edge[round] : test_rand(&seed);
            for (unsigned i = 0; i < 3; i++)
                for (unsigned j = 0; j < i; j++)
                    s.pad[i][j] = s.pad[j][i] = test_rand(&seed);
            s.x[0] = test_rand(&seed);
            s.x[1] = test_rand(&seed);
            s.x[2] = value - s.x[0] - s.x[1];
            s.y[H] = test_rand(&seed);
            s.y[T] = value - s.y[H];
            /* A native product's share, or the value itself with 2^62 when the opening shall leave
             * RSS behind (s = 0). Both carry a zero share. */
            uint64_t zero[3];
            for (unsigned q = 0; q < 3; q++)
                zero[q] = s.pad[q][(q + 1) % 3] - s.pad[(q + 2) % 3][q];
            EQ(zero[0] + zero[1] + zero[2], 0);
            uint64_t w[3] = {test_rand(&seed), test_rand(&seed), test_rand(&seed)};
            for (unsigned q = 0; q < 3; q++)
                s.z[q] = s.x[q] * (w[q] + w[(q + 1) % 3]) + s.x[(q + 1) % 3] * w[q] + zero[q];
            EQ(s.z[0] + s.z[1] + s.z[2], value * (w[0] + w[1] + w[2]));
            if (p == UVCCI_PROTO_OPEN4 && round % 2 == 1) {
                s.own = 0;
                for (unsigned q = 0; q < 3; q++)
                    s.z[q] = s.x[q] + zero[q];
                s.z[0] += UINT64_C(1) << 62;
            }
            run(&s, (uvcci_protocol)p, &seed);
            check(&s, (uvcci_protocol)p, value);
        }
}

/* What one party sees of an opening or a lift is covered by a pad that it does not know: another
 * value with other pads gives it the same words. */
static void covered(void **state) {
    (void)state;
    uint64_t seed = 9;
    for (int round = 0; round < 200; round++) {
        sim s = {.own = 0}, t;
        for (unsigned i = 0; i < 3; i++)
            for (unsigned j = 0; j < i; j++)
                s.pad[i][j] = s.pad[j][i] = test_rand(&seed);
        s.x[0] = test_rand(&seed);
        s.x[1] = test_rand(&seed);
        s.x[2] = test_rand(&seed);
        s.y[H] = test_rand(&seed);
        s.y[T] = test_rand(&seed);
        uint64_t delta = test_rand(&seed);

        /* OTHER's view of both one-round lifts does not change with y_t when the HEAD-TAIL pad,
         * which it lacks, moves along. */
        t = s;
        t.y[T] += delta;
        t.pad[H][T] += delta;
        t.pad[T][H] += delta;
        run(&s, UVCCI_PROTO_LIFT_PARALLEL, &seed);
        run(&t, UVCCI_PROTO_LIFT_PARALLEL, &seed);
        EQ(got(&s, UVCCI_PROTO_LIFT_PARALLEL, T, O, 0, UVCC_TLV_LIFT_COMP_U64VEC),
           got(&t, UVCCI_PROTO_LIFT_PARALLEL, T, O, 0, UVCC_TLV_LIFT_COMP_U64VEC));

        /* TAIL's view of OPEN2 does not change with a when rho_HO, which it lacks, moves along. */
        t = s;
        t.x[0] += delta;
        t.pad[H][O] -= delta;
        t.pad[O][H] -= delta;
        run(&s, UVCCI_PROTO_OPEN2, &seed);
        run(&t, UVCCI_PROTO_OPEN2, &seed);
        EQ(got(&s, UVCCI_PROTO_OPEN2, H, T, 0, UVCC_TLV_OPEN_VEC),
           got(&t, UVCCI_PROTO_OPEN2, H, T, 0, UVCC_TLV_OPEN_VEC));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roles),
        cmocka_unit_test(table),
        cmocka_unit_test(costs),
        cmocka_unit_test(every_order),
        cmocka_unit_test(refuses_unexpected),
        cmocka_unit_test(arithmetic),
        cmocka_unit_test(covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
