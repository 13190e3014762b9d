"""Openings, gates, lifts, triples: sections 5 and 8 of docs/compute.md."""

from .keys import dcf_make, dpf_make
from .words import (
    ARS, DCF, HEAD, M64, OTHER, RELU, SR, TAIL, bit, bytes_of, demand, low, pack, unpack, words_of,
)


def t_input(t):
    if t.role == HEAD:
        lo, hi = t.prg("PREV", "input", 0), t.prg("NEXT", "input", 0)
        rest = [x - a - b for x, a, b in zip(t.words("in[0]"), lo, hi)]
        t.put("out[0]", lo)
        t.put("out[1]", hi)
        t.put("wire_out[0]", rest)
        t.put("wire_out[1]", rest)
    elif t.role == TAIL:
        t.put("out[0]", t.prg("PREV", "input", 0))
        t.put("out[1]", t.words("wire_in[0]"))
    else:
        t.put("out[0]", t.words("wire_in[0]"))
        t.put("out[1]", t.prg("NEXT", "input", 0))


def t_open4_mask(t):
    demand(1 <= t.shift <= 62)
    s = [z + zs for z, zs in zip(t.words("in[0]"), t.zero_share())]
    if t.edge():
        p = t.prg("XO", "trunc", 0)
        s = [x + (y << t.shift) for x, y in zip(s, p)]
        t.put("wire_out[0]", s)
        t.put("out[0]", s)
    else:
        own = t.prg("OWN", "own", 0)
        s = [x + low(y, t.shift) for x, y in zip(s, own)]
        t.put("wire_out[0]", s)
        t.put("wire_out[1]", s)


def opened2(t):
    p = t.prg("XO", "mask", 0)
    lo, hi = t.words("in[0]"), t.words("in[1]")
    mine, other = (lo, hi) if t.head() else (hi, lo)
    sent = [x + y for x, y in zip(mine, p)]
    t.put("out[0]", [x + y for x, y in zip(sent, other)])
    return sent


def t_open2_mask(t):
    if t.edge():
        t.put("wire_out[0]", opened2(t))


def t_open_finish(t):
    if not t.edge():
        return
    a, b = t.words("wire_in[0]"), t.words("wire_in[1]") or [0] * t.c
    t.put("out[0]", [x + y + z + t.constant for x, y, z in zip(t.words("in[0]"), a, b)])


def t_trunc(t):
    f = t.shift
    demand(1 <= f <= 62)
    if not t.edge():
        return
    zh, key = t.words("in[0]"), t.gate_key()
    if t.head():
        pads = [t.prg("HO", "trunc", 1), t.prg("HO", "trunc", 2)]
        w = [[low(x, f) for x in p] if t.compact else p for p in pads]
    elif t.compact:
        w = [unpack(key["corr%d" % m], t.c, f) for m in (0, 1)]
    else:
        w = [words_of(key["w%d" % m]) for m in (0, 1)]
    g = [w[z >> 63][i] for i, z in enumerate(zh)]
    if t.compact:
        p = t.prg("XO", "trunc", 0)
        g = [(x << (64 - f)) - low(y, 64 - f) for x, y in zip(g, p)]
    if t.head():
        g = [x + (z >> f) - (1 << (62 - f)) for x, z in zip(g, zh)]
    t.put("out[0]", g)


def bit_pad(t, pair, i):
    return bit(t.prg_at(pair, "mask", 2, i // 64), i % 64)


def t_less_mask(t):
    demand(t.gate in (ARS, RELU))
    n = t.bits if t.gate == RELU else t.shift
    demand(1 <= n <= (63 if t.gate == RELU else 62))
    if not t.edge():
        return
    key = t.gate_key()
    dpf = t.dpf_keys(n, (key["levels"], key["finals"], key["bits"]), t.call)
    out = []
    for i, xh in enumerate(t.words("in[0]")):
        p = dpf[i].prefix_share(low(xh, n))
        out.append((1 ^ p if t.head() else p) ^ bit_pad(t, "XO", i))
    t.out["out_bits"] = t.out["wire_out[0]"] = pack(out, 1)


def opened_bits(t):
    a, b = unpack(t.in_["in_bits"], t.c, 1), unpack(t.in_["wire_in[0]"], t.c, 1)
    return [x ^ y for x, y in zip(a, b)]


def t_trunc_exact(t):
    if not t.edge():
        return
    v, y = opened_bits(t), t.words("in[0]")
    q = t.prg("HO", "select", 0) if t.head() else words_of(t.gate_key()["rho"])
    out = []
    for i in range(t.c):
        x = (1 - 2 * v[i]) * q[i]
        out.append(y[i] - (x + v[i] if t.head() else x))
    t.put("out[0]", out)


def t_relu(t):
    n = t.bits
    demand(1 <= n <= 63)
    if not t.edge():
        return
    xh, v, p = t.words("in[0]"), opened_bits(t), t.prg("XO", "mask", 0)
    if t.head():
        k, kr = t.prg("HO", "select", 0), t.prg("HO", "select", 1)
    else:
        key = t.gate_key()
        k, kr = words_of(key["k"]), words_of(key["kr"])
    d, dx = [], []
    for i in range(t.c):
        w = 1 ^ bit(xh[i], n) ^ v[i]
        s = 1 - 2 * w
        d.append(s * k[i] + (w if t.head() else 0))
        masked = w * (xh[i] - p[i]) if t.head() else -w * p[i]
        dx.append(masked + s * (k[i] * xh[i] - kr[i]))
    t.put("out[1]", d)
    t.put("out[0]", dx)


def t_lift_mask(t):
    if not t.edge():
        return
    y = t.words("in[0]")
    if t.lift == 2:
        p = t.prg("XO", "lift", 2)
        s = [a + b for a, b in zip(y, p)]
        minus, plus = ("out[0]", "out[1]") if t.head() else ("out[1]", "out[0]")
        t.put(minus, [-x for x in p])
        t.put(plus, s)
        t.put("wire_out[0]", s)
        return
    ht = t.prg("HT", "lift", 1)
    if t.head():
        a = t.prg("HO", "lift", 0)
        m = [x - b for x, b in zip(y, a)]
        t.put("wire_out[0]", m)
        t.put("out[0]", a)
        t.put("out[1]", [x + b for x, b in zip(m, ht)] if t.lift == 0 else ht)
    else:
        s = [x - b for x, b in zip(y, ht)]
        if t.lift != 0:
            s = [m + x for m, x in zip(t.words("wire_in[0]"), s)]
            t.put("out[0]", ht)
        t.put("out[1]", s)
        t.put("wire_out[0]", s)


def t_lift_finish(t):
    came = t.words("wire_in[0]")
    if t.lift == 2:
        if t.role == OTHER:
            t.put("out[0]", [-x for x in t.prg("TO", "lift", 2)])
            t.put("out[1]", [-x for x in t.prg("HO", "lift", 2)])
        else:
            name = "out[1]" if t.head() else "out[0]"
            t.put(name, [x + y for x, y in zip(t.words(name), came)])
    elif t.role == OTHER:
        t.put("out[0]", came)
        t.put("out[1]", t.prg("HO", "lift", 0))
    elif t.role == TAIL and t.lift == 0:
        t.put("out[0]", [x + y for x, y in zip(came, t.prg("HT", "lift", 1))])


def t_reshare_mask(t, lane=0):
    s = [z + x for z, x in zip(t.words("in[0]"), t.zero_share(lane))]
    t.put("out[0]", s)
    t.put("wire_out[0]", s)


def t_unpack(t):
    t.put("out[0]", t.words("wire_in[0]"))


def t_pack(t):
    t.put("wire_out[0]", t.words("in[0]"))


def t_open_all_finish(t):
    parts = t.words("in[0]"), t.words("in[1]"), t.words("wire_in[0]")
    t.put("out[0]", [x + y + z for x, y, z in zip(*parts)])


def t_deal(t):
    f, n, c = t.shift, t.bits, t.c
    demand(t.gate in (SR, ARS, RELU, DCF))
    demand(1 <= n <= 63 if t.gate == RELU else 1 <= f <= 62)
    pads = lambda tag, lane: (t.prg("HO", tag, lane), t.prg("TO", tag, lane))
    rho = [bit_pad(t, "HO", i) ^ bit_pad(t, "TO", i) for i in range(c)]
    tail = {}
    if t.gate == RELU or not t.compact:
        r = [(a + b) & M64 for a, b in zip(*pads("mask", 0))]
    if t.gate == RELU:
        kappa = [x ^ bit(y, n) for x, y in zip(rho, r)]
        tail["k"] = bytes_of(x - y for x, y in zip(kappa, t.prg("HO", "select", 0)))
        head = t.prg("HO", "select", 1)
        tail["kr"] = bytes_of(x * y - z for x, y, z in zip(kappa, r, head))
        alpha, bits = [low(x, n) for x in r], n
    else:
        bits = f
        if t.compact:
            s = [low(a, 64 - f) + low(b, 64 - f) for a, b in zip(*pads("trunc", 0))]
            alpha = [low(x, f) for x in t.prg("OWN", "own", 0)]
        else:
            alpha = [low(x, f) for x in r]
        for m in (0, 1):
            head = t.prg("HO", "trunc", 1 + m)
            if t.compact:
                corr = [
                    (x >> (64 - f)) + (1 - m) * bit(x, 63 - f) - h for x, h in zip(s, head)
                ]
                tail["corr%d" % m] = pack(corr, f)
            else:
                tail["w%d" % m] = bytes_of(
                    (1 - m) * (x >> 63) * (1 << (64 - f)) - (x >> f) - h for x, h in zip(r, head)
                )
        if t.gate == ARS:
            tail["rho"] = bytes_of(x - y for x, y in zip(rho, t.prg("HO", "select", 0)))
    common = {}
    if t.gate in (ARS, RELU):
        parts = dpf_make(t.file.nodes, bits, alpha, t.both_roots(t.call))
        common = dict(zip(("levels", "finals", "bits"), parts))
    if t.gate == DCF:
        common["dcf"] = dcf_make(t.file.nodes, f, 1, alpha, [[1]] * c, t.both_roots(0))
    order = ("dcf", "levels", "finals", "rho", "k", "kr", "w0", "w1", "bits", "corr0", "corr1")
    for name, have in (("out_bytes[0]", common), ("out_bytes[1]", {**common, **tail})):
        stream = b"".join(have.get(section, b"") for section in order)
        if stream:
            t.out[name] = stream


def t_open_bits(t):
    n = (t.c + 7) // 8
    t.out["out_bits"] = bytes(a ^ b for a, b in zip(t.in_["in_bits"][:n], t.in_["wire_in[0]"]))


def triple(t, tag):
    for k, pair in enumerate(("PREV", "NEXT")):
        name = "out[%d]" % k
        if not t.wants(name):
            continue
        mask = t.prg(pair, tag, 0)
        if t.in_.get("in[0]") is not None:
            mask = [x - m for x, m in zip(t.words("in[%d]" % k), mask)]
        t.put(name, mask)
    if t.wants("wire_out[0]"):
        t.out["wire_out[0]"] = t.out["out[0]"]


def t_triple_a(t):
    triple(t, "tripleA")


def t_triple_b(t):
    triple(t, "tripleB")


def t_triple_c(t):
    t_reshare_mask(t, 1)


def t_random(t):
    demand(1 <= t.bits <= 62)
    for k, pair in enumerate(("PREV", "NEXT")):
        t.put("out[%d]" % k, [low(x, t.bits) for x in t.prg(pair, "input", 1)])


TASKS = {
    "INPUT": t_input,
    "OPEN4_MASK": t_open4_mask,
    "OPEN2_MASK": t_open2_mask,
    "OPEN_FINISH": t_open_finish,
    "TRUNC": t_trunc,
    "LESS_MASK": t_less_mask,
    "TRUNC_EXACT": t_trunc_exact,
    "RELU": t_relu,
    "LIFT_MASK": t_lift_mask,
    "LIFT_FINISH": t_lift_finish,
    "RESHARE_MASK": t_reshare_mask,
    "UNPACK": t_unpack,
    "PACK": t_pack,
    "OPEN_ALL_FINISH": t_open_all_finish,
    "DEAL": t_deal,
    "OPEN_BITS": t_open_bits,
    "TRIPLE_A": t_triple_a,
    "TRIPLE_B": t_triple_b,
    "TRIPLE_C": t_triple_c,
    "RANDOM": t_random,
}
