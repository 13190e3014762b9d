"""Functions: section 6 of docs/compute.md."""

from .gates import opened2
from .keys import Mst, dcf_make, dcf_share, dpf_make
from .words import M64, bit, demand, low, pack, signed, unpack


def t_fn_open_mask(t):
    demand(1 <= t.fn.bits <= 64)
    if t.edge():
        t.out["wire_out[0]"] = pack(opened2(t), t.fn.bits)


def fn_combine(t, combine):
    m = t.fn.bits
    demand(1 <= m <= 64)
    if not t.edge():
        return
    came = unpack(t.in_["wire_in[0]"], t.c, m)
    out = [low(combine(x, y), m) for x, y in zip(t.words("in[0]"), came)]
    t.put("out[0]", out)
    if t.wants("out_bits"):
        t.out["out_bits"] = pack(out, m)


def t_fn_open_finish(t):
    fn_combine(t, lambda x, y: x + y)


def t_fn_open_bits(t):
    fn_combine(t, lambda x, y: x ^ y)


def t_fn_pads(t):
    at = ("lift", 2) if t.fn.exchange else ("mask", 0)
    if t.edge():
        t.put("out[0]", t.prg("XO", *at))
    else:
        t.put("out[0]", [x + y for x, y in zip(t.prg("HO", *at), t.prg("TO", *at))])


def t_fn_shift(t):
    demand(1 <= t.fn.bits <= 64 and 0 <= t.fn.shift <= 63)
    t.put("out[0]", [low(x, t.fn.bits) >> t.fn.shift for x in t.words("in[0]")])


def t_fn_compare(t):
    m, count = t.fn.bits, t.fn.word_count
    demand(1 <= m <= 63 and 1 <= count <= 64)
    if not t.edge():
        return
    dpf, pads = t.dpf_keys(m, t.split_cw(m), t.fn.call_key), t.prg("XO", "mask", 2)
    out = []
    for i, xh in enumerate(t.words("in[0]")):
        d = 0
        for j in range(count):
            z = (xh - t.fn.words[j]) & M64
            p = dpf[i].prefix_share(low(z, m))
            d |= (p ^ (bit(z, m) if t.head() else 0)) << j
        out.append(d ^ low(pads[i], count))
    t.put("out[0]", out)
    t.out["wire_out[0]"] = pack(out, count)


def t_fn_select(t):
    count = t.fn.word_count
    demand(1 <= count <= 64)
    if not t.edge():
        return
    xh, p, e, e2 = (t.words("in[%d]" % k) for k in range(4))
    x_of = lambda i, v: v * (xh[i] - p[i]) if t.head() else -v * p[i]
    k = [t.w(t.fn.call_bits, 0, j, "words[0]") for j in range(count)]
    out = [0] * t.c
    if e2 is None:
        kr = [t.w(t.call, 1, j, "words[1]") for j in range(count)]
        for i in range(t.c):
            for j in range(count):
                b = bit(e[i], j)
                share = x_of(i, b) + (1 - 2 * b) * (k[j][i] * xh[i] - kr[j][i])
                out[i] += t.fn.words[j] * share
        t.put("out[0]", out)
        return
    w = [t.w(t.call, 2, q, "words[1]") for q in range(2 + 3 * count)]
    for i in range(t.c):
        kx = lambda a, b: a[i] * xh[i] - b[i]
        f = e2[i] & 1
        one = x_of(i, f) + (1 - 2 * f) * kx(w[0], w[1])
        for j in range(count):
            b = bit(e[i], j)
            kr, kk, kkr = w[2 + 3 * j : 5 + 3 * j]
            rest = f * kx(k[j], kr) + (1 - 2 * f) * kx(kk, kkr)
            out[i] += t.fn.words[j] * (b * one + (1 - 2 * b) * rest)
    t.put("out[0]", out)


def t_fn_bits(t):
    count = t.fn.word_count
    demand(1 <= count <= 64)
    if not t.edge():
        return
    out = [0] * t.c
    for j in range(count):
        k = t.w(t.fn.call_bits, 0, j, "words[0]")
        for i, e in enumerate(t.words("in[2]")):
            b = bit(e, j)
            out[i] += t.fn.words[j] * ((1 - 2 * b) * k[i] + (b if t.head() else 0))
    t.put("out[0]", out)


def shifted(x, s):
    """x >>> s of a word."""
    return signed(x & M64) >> s


def factor(w, value, s):
    z = w[3]
    for k in (2, 1, 0):
        z = w[k] + shifted(value * z, s)
    return z


def t_fn_table(t):
    m, n, s = t.fn.bits, t.fn.entry_count, t.fn.shift
    demand(1 <= m <= 64 and 1 <= n <= 65536 and n <= 1 << m and 0 <= s <= 63)
    if not t.edge():
        return
    dpf, pads = t.dpf_keys(m, t.split_cw(m), t.fn.call_key), t.prg("XO", "mask", 1)
    out = []
    for i, xh in enumerate(t.words("in[0]")):
        v = 0
        z = factor(t.fn.words, low(t.words("in[1]")[i], s), s) if s > 0 else None
        for k in range(n):
            if dpf[i].bit(xh - t.fn.first - k):
                v += t.fn.entries[k] if s == 0 else shifted(t.fn.entries[k] * z, 30)
        out.append((v if t.head() else -v) + pads[i])
    t.put("out[0]", out)
    t.put("wire_out[0]", out)
    b = t.words("in[2]")
    if b is not None:
        out = [x + y for x, y in zip(b, t.prg("XO", "mask", 0))]
        t.put("out[1]", out)
        t.put("wire_out[1]", out)


def t_fn_scalar(t):
    if not t.edge():
        return
    vh, bh, e = t.words("in[0]"), t.words("in[1]"), t.words("in[2]")

    def y(q):
        w = [t.w(t.call, 2, q + k, "words[0]") for k in range(2 if bh is None else 4)]
        if bh is None:
            return [w[0][i] * vh[i] - w[1][i] for i in range(t.c)]
        return [
            w[0][i] * vh[i] * bh[i] - w[1][i] * bh[i] - w[2][i] * vh[i] + w[3][i]
            for i in range(t.c)
        ]

    out = y(0)
    if e is not None:
        second = y(2 if bh is None else 4)
        out = [(f & 1) * a + (1 - 2 * (f & 1)) * b for f, a, b in zip(e, out, second)]
    t.put("out[0]", out)


def t_fn_add(t):
    if not t.edge():
        return
    x, y, p = (t.words("in[%d]" % k) for k in range(3))
    out = []
    for i in range(t.c):
        s = x[i] + (t.fn.constant if t.head() else 0)
        if y is not None and p is None:
            s += y[i]
        elif y is not None:
            s += (y[i] if t.head() else 0) - p[i]
        out.append(s)
    t.put("out[0]", out)


def both(t, data):
    t.out["out_bytes[0]"] = t.out["out_bytes[1]"] = data


def t_fn_deal_key(t):
    m = t.fn.bits
    demand(1 <= m <= 64)
    alphas = [low(r, m) for r in t.words("in[0]")]
    parts = dpf_make(t.file.nodes, m, alphas, t.both_roots(t.fn.call_key))
    both(t, b"".join(parts[:3]))
    if t.wants("out[0]"):
        t.put("out[0]", [1 if b else -1 for b in parts[3]])


def t_fn_deal_bits(t):
    m, count = t.fn.bits, t.fn.word_count
    demand(1 <= m <= 63 and 1 <= count <= 64)
    ho, to = t.prg("HO", "mask", 2), t.prg("TO", "mask", 2)
    every = (1 << count) - 1
    k = [
        low(a ^ b, count) ^ (every if bit(r, m) else 0)
        for a, b, r in zip(ho, to, t.words("in[0]"))
    ]
    if t.wants("out[0]"):
        t.put("out[0]", k)
    for j in range(count):
        t.deal(0, j, [bit(x, j) for x in k])


def t_fn_deal_select(t):
    count = t.fn.word_count
    demand(1 <= count <= 64)
    k, r, k2 = (t.words("in[%d]" % n) for n in range(3))
    if k2 is None:
        for j in range(count):
            t.deal(1, j, [bit(x, j) * y for x, y in zip(k, r)])
        return
    k2 = [x & 1 for x in k2]
    t.deal(2, 0, k2)
    t.deal(2, 1, [x * y for x, y in zip(k2, r)])
    for j in range(count):
        kj = [bit(x, j) for x in k]
        t.deal(2, 2 + 3 * j, [x * y for x, y in zip(kj, r)])
        t.deal(2, 3 + 3 * j, [x * y for x, y in zip(kj, k2)])
        t.deal(2, 4 + 3 * j, [x * y * z for x, y, z in zip(kj, k2, r)])


def t_fn_deal_scalar(t):
    s = t.fn.shift
    demand(0 <= s <= 63 and (s == 0 or 0 <= t.fn.constant <= 63))
    ops = [t.words("in[%d]" % n) for n in range(4)]
    scale = list(ops[0])
    if t.fn.by_table:
        scale = [x * y for x, y in zip(scale, ops[1])]
    if s > 0:
        for i in range(t.c):
            z = factor(t.fn.words[4:], low(ops[1][i], s), s)
            scale[i] *= shifted(z, t.fn.constant)
    sum_of = lambda lane, call=None: [
        x + y for x, y in zip(t.prg("HO", "mask", lane, call), t.prg("TO", "mask", lane, call))
    ]
    rho, rho_b = sum_of(1), None
    if t.fn.times:
        rho_b = sum_of(0)
    elif t.fn.by_table:
        rho_b = sum_of(1, t.fn.call_bits)
    elif ops[2] is not None:
        rho_b = ops[2]
    words = [scale, [x * y for x, y in zip(scale, rho)]]
    if rho_b is not None:
        words.append([x * y for x, y in zip(scale, rho_b)])
        words.append([x * y for x, y in zip(words[1], rho_b)])
    if ops[3] is not None:
        words += [[x * (k & 1) for x, k in zip(word, ops[3])] for word in words]
    for q, word in enumerate(words):
        t.deal(2, q, word)


def t_fn_mul(t):
    if not t.edge():
        return
    xh, p, yh, q = (t.words("in[%d]" % n) for n in range(4))
    w = t.w(t.call, 2, 0, "words[0]")
    t.put(
        "out[0]",
        [
            (xh[i] * yh[i] if t.head() else 0) + w[i] - xh[i] * q[i] - yh[i] * p[i]
            for i in range(t.c)
        ],
    )


def t_fn_deal_mul(t):
    t.deal(2, 0, [x * y for x, y in zip(t.words("in[0]"), t.words("in[1]"))])


def t_fn_trunc(t):
    s = t.fn.shift
    demand(1 <= s <= 62)
    if not t.edge():
        return
    w, out = [t.w(t.call, 2, b, "words[0]") for b in (0, 1)], []
    for i, xh in enumerate(t.words("in[0]")):
        zh = (xh + (1 << 62)) & M64
        out.append(w[zh >> 63][i] + ((zh >> s) - (1 << (62 - s)) if t.head() else 0))
    t.put("out[0]", out)


def t_fn_deal_trunc(t):
    s = t.fn.shift
    demand(1 <= s <= 62)
    for b in (0, 1):
        t.deal(
            2, b, [(1 - b) * (r >> 63) * (1 << (64 - s)) - (r >> s) for r in t.words("in[0]")]
        )


CANDIDATES = (((0, 1, 2), (0, 0, 0), 2), ((0, 3, 4), (1, 0, 0), 4), ((1, 3, 5), (1, 1, 0), 5))


def t_fn_best(t):
    if not t.edge():
        return
    xh, p, e = (t.words("in[%d]" % n) for n in range(3))
    out = [0] * t.c
    for n, (pairs, inverted, less_last) in enumerate(CANDIDATES):
        h = [t.w(t.call, 2, 14 * n + v, "words[0]") for v in range(7)]
        d = [t.w(t.call, 2, 14 * n + 7 + v, "words[0]") for v in range(7)]
        for i in range(t.c):
            index = 0
            for j in range(3):
                index |= (1 ^ e[6 * i + pairs[j]] & 1 ^ inverted[j]) << j
            if index < 7:
                a, b = h[index][i], d[index][i]
            else:
                a = (1 if t.head() else 0) - sum(x[i] for x in h)
                b = p[6 * i + less_last] - sum(x[i] for x in d)
            out[i] += a * xh[6 * i + less_last] - b
    t.put("out[0]", out)


def t_fn_deal_best(t):
    k, r = t.words("in[0]"), t.words("in[1]")
    for n, (pairs, _, less_last) in enumerate(CANDIDATES):
        point = []
        for i in range(t.c):
            point.append(sum((k[6 * i + pairs[j]] & 1) << j for j in range(3)))
        for v in range(7):
            t.deal(2, 14 * n + v, [int(x == v) for x in point])
        for v in range(7):
            t.deal(
                2, 14 * n + 7 + v, [(x == v) * r[6 * i + less_last] for i, x in enumerate(point)]
            )


def mst_of(t):
    cells = t.fn.first
    demand(cells >= 1)
    of = Mst(t.file.nodes, t.fn.bits, t.fn.word_count // (9 * cells), t.fn.shift, cells)
    demand(t.fn.words is not None and of.limits_hold())
    return of


def t_fn_multiscale(t):
    of = mst_of(t)
    if not t.edge():
        return
    out = []
    for i, xh in enumerate(t.words("in[0]")):
        root = t.own_root(i, t.fn.call_key)
        x = of.share(t.in_["key"], t.c, i, root, t.role, xh, t.fn.words)
        out.append(x + (t.fn.constant if t.head() else 0))
    t.put("out[0]", out)


def t_fn_deal_multiscale(t):
    both(t, mst_of(t).make(t.words("in[0]"), t.both_roots(t.fn.call_key)))


def t_fn_floor(t):
    s = t.fn.shift
    demand(1 <= s <= 62)
    if not t.edge():
        return
    out = []
    for i, (xh, y) in enumerate(zip(t.words("in[0]"), t.words("in[1]"))):
        root = t.own_root(i, t.fn.call_key)
        x = low(xh, s)
        out.append(
            y - dcf_share(t.file.nodes, s, 1, t.in_["key"], t.c, i, root, t.role, x)[0]
        )
    t.put("out[0]", out)


def t_fn_deal_floor(t):
    s = t.fn.shift
    demand(1 <= s <= 62)
    alphas = [low(r, s) for r in t.words("in[0]")]
    roots = t.both_roots(t.fn.call_key)
    both(t, dcf_make(t.file.nodes, s, 1, alphas, [[1]] * t.c, roots))


def binomial(n, k):
    out = 1
    for i in range(k):
        out = out * (n - i) // (i + 1)
    return out


def t_fn_spline(t):
    m, d, words = t.fn.bits, t.fn.first, t.fn.words
    demand(1 <= m <= 63 and 0 <= d <= 3)
    knots = (t.fn.word_count - d - 1) // (d + 2)
    demand(1 <= knots <= 64 and t.fn.word_count == knots + (knots + 1) * (d + 1))
    if not t.edge():
        return
    piece = [words[knots + k * (d + 1) : knots + (k + 1) * (d + 1)] for k in range(knots + 1)]
    u = [t.w(t.call, 2, j, "words[0]") for j in range(d + 1)]
    v = [[1 if t.head() else 0] * t.c]
    if d >= 1:
        v.append(t.words("in[1]"))
    v += [t.w(t.call, 2, d - 1 + j, "words[0]") for j in range(2, d + 1)]

    def q(c, xh, j):
        s = sum(binomial(i, j) * c[i] * pow(xh, i - j) for i in range(j, d + 1))
        return -s if j % 2 else s

    out = []
    for i, xh in enumerate(t.words("in[0]")):
        root = t.own_root(i, t.fn.call_key)
        y = sum(q(piece[0], xh, j) * v[j][i] for j in range(d + 1))
        for k in range(knots):
            z = (xh - words[k]) & M64
            key = t.in_["key"]
            share = dcf_share(t.file.nodes, m, d + 1, key, t.c, i, root, t.role, low(z, m))
            step = [a - b for a, b in zip(piece[k + 1], piece[k])]
            for j in range(d + 1):
                part = u[j][i] + share[j]
                if bit(z, m):
                    part = v[j][i] - part
                y += q(step, xh, j) * part
        out.append(y)
    t.put("out[0]", out)


def t_fn_deal_spline(t):
    m, d = t.fn.bits, t.fn.first
    demand(1 <= m <= 63 and 0 <= d <= 3)
    r = t.words("in[0]")
    betas = [[(2 * bit(x, m) - 1) * pow(x, j, 1 << 64) for j in range(d + 1)] for x in r]
    alphas, roots = [low(x, m) for x in r], t.both_roots(t.fn.call_key)
    both(t, dcf_make(t.file.nodes, m, d + 1, alphas, betas, roots))


def t_fn_deal_powers(t):
    m, d = t.fn.bits, t.fn.first
    demand(1 <= m <= 63 and 0 <= d <= 3)
    r = t.words("in[0]")
    for j in range(d + 1):
        t.deal(2, j, [(1 - bit(x, m)) * pow(x, j, 1 << 64) for x in r])
    for j in range(2, d + 1):
        t.deal(2, d - 1 + j, [pow(x, j, 1 << 64) for x in r])


TASKS = {
    "FN_OPEN_MASK": t_fn_open_mask,
    "FN_OPEN_FINISH": t_fn_open_finish,
    "FN_PADS": t_fn_pads,
    "FN_SHIFT": t_fn_shift,
    "FN_COMPARE": t_fn_compare,
    "FN_OPEN_BITS": t_fn_open_bits,
    "FN_SELECT": t_fn_select,
    "FN_BITS": t_fn_bits,
    "FN_TABLE": t_fn_table,
    "FN_SCALAR": t_fn_scalar,
    "FN_ADD": t_fn_add,
    "FN_DEAL_KEY": t_fn_deal_key,
    "FN_DEAL_BITS": t_fn_deal_bits,
    "FN_DEAL_SELECT": t_fn_deal_select,
    "FN_DEAL_SCALAR": t_fn_deal_scalar,
    "FN_MUL": t_fn_mul,
    "FN_DEAL_MUL": t_fn_deal_mul,
    "FN_TRUNC": t_fn_trunc,
    "FN_DEAL_TRUNC": t_fn_deal_trunc,
    "FN_BEST": t_fn_best,
    "FN_DEAL_BEST": t_fn_deal_best,
    "FN_MULTISCALE": t_fn_multiscale,
    "FN_DEAL_MULTISCALE": t_fn_deal_multiscale,
    "FN_FLOOR": t_fn_floor,
    "FN_DEAL_FLOOR": t_fn_deal_floor,
    "FN_SPLINE": t_fn_spline,
    "FN_DEAL_SPLINE": t_fn_deal_spline,
    "FN_DEAL_POWERS": t_fn_deal_powers,
}
