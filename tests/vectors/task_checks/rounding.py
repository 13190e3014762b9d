"""Stochastic truncation without keys: section 5 of docs/compute.md."""

from .words import (
    HEAD, M64, OTHER, TAIL, bit, bytes_of, demand, low, pack, unpack, words_of,
)


def packed_words(values, n):
    """n-bit values, packed, in whole words."""
    data = pack(values, n)
    return data + bytes(-len(data) % 8)


def shift_of(t):
    demand(1 <= t.shift <= 62)
    return t.shift


def own_bit(t, i):
    return bit(t.prg_at("OWN", "own", 2, i // 64), i % 64)


def send_component(t, component, rest):
    """To OTHER, with a gap that is not written."""
    out = bytearray(t.in_["wire_out[1]"])
    assert len(out) == 8 * t.c + t.gap + len(rest)
    out[: 8 * t.c] = bytes_of(component)
    out[8 * t.c + t.gap :] = rest
    t.out["wire_out[0]"], t.out["wire_out[1]"] = rest, bytes(out)


def t_sr_open(t):
    f = shift_of(t)
    if t.role == OTHER:
        t.put("wire_out[0]", [z - s for z, s in zip(t.words("in[0]"), t.prg("TO", "zero", 0))])
        return
    q = t.prg("HT", "trunc", 3)
    if t.role == HEAD:
        t.out["wire_out[0]"] = packed_words([own_bit(t, i) - x for i, x in enumerate(q)], f)
        return
    r = t.prg("TO", "trunc", 0)
    t.put("wire_out[0]", [z + s + x for z, s, x in zip(t.words("in[0]"), t.prg("TO", "zero", 0), r)])
    w = [x * (y >> 63) + p for x, y, p in zip(q, r, t.prg("HT", "trunc", 4))]
    t.out["wire_out[1]"] = packed_words(w, f)


def t_sr_send(t):
    f = shift_of(t)
    if t.role == HEAD:
        zh = [
            (z + a + b + (1 << 62)) & M64
            for z, a, b in zip(t.words("in[0]"), t.words("wire_in[0]"), t.words("wire_in[1]"))
        ]
        b = t.prg("HT", "lift", 0)
        a = [(z >> f) - x for z, x in zip(zh, b)]
        e = [(z >> 63) ^ own_bit(t, i) for i, z in enumerate(zh)]
        send_component(t, a, packed_words(e, 1))
        for name, x, pair in (("out[0]", a, "HO"), ("out[1]", b, "HT")):
            w = t.prg(pair, "trunc", 4)
            t.put(name, [v + (1 - 2 * k) * p * (1 << (64 - f)) for v, k, p in zip(x, e, w)])
    elif t.role == OTHER:
        q, r = unpack(t.in_["wire_in[0]"], t.c, f), t.prg("TO", "trunc", 0)
        w = [x * (y >> 63) + p for x, y, p in zip(q, r, t.prg("HO", "trunc", 4))]
        t.out["wire_out[0]"] = packed_words(w, f)
        t.put("out[0]", [low(x + y, f) for x, y in zip(w, unpack(t.in_["wire_in[1]"], t.c, f))])


def third(t, f, e, w):
    r = t.prg("TO", "trunc", 0)
    return [
        -(x >> f) - (1 << (62 - f)) + ((x >> 63) * (1 - k) - (1 - 2 * k) * v) * (1 << (64 - f))
        for x, k, v in zip(r, e, w)
    ]


def t_sr_finish(t):
    f = shift_of(t)
    if t.role == HEAD:
        return
    e = unpack(t.in_["wire_in[0]" if t.role == TAIL else "wire_in[1]"], t.c, 1)
    if t.role == OTHER:
        w, a = t.prg("HO", "trunc", 4), t.words("wire_in[0]")
        t.put("out[0]", third(t, f, e, t.words("in[0]")))
        t.put("out[1]", [x + (1 - 2 * k) * p * (1 << (64 - f)) for x, k, p in zip(a, e, w)])
        return
    w, r = t.prg("HT", "trunc", 4), t.prg("TO", "trunc", 0)
    own = [x * (y >> 63) + p for x, y, p in zip(t.prg("HT", "trunc", 3), r, w)]
    both = [x + y for x, y in zip(own, unpack(t.in_["wire_in[1]"], t.c, f))]
    b = t.prg("HT", "lift", 0)
    t.put("out[0]", [x + (1 - 2 * k) * p * (1 << (64 - f)) for x, k, p in zip(b, e, w)])
    t.put("out[1]", third(t, f, e, both))


def half(t):
    """TAIL's or OTHER's words of the wrap, and what they are of."""
    pair, c = ("HT", t.words("in[1]")) if t.role == TAIL else ("HO", t.words("in[0]"))
    q, p = t.prg(pair, "trunc", 3), t.prg(pair, "trunc", 4)
    return c, [x * (1 - (y >> 63)) + z for x, y, z in zip(q, c, p)]


def t_sr2_send(t):
    f = shift_of(t)
    if t.role != HEAD:
        t.out["wire_out[0]"] = packed_words(half(t)[1], f)
        return
    u = [
        (a + b + (1 << 62) + (1 << f) - 1) & M64 for a, b in zip(t.words("in[0]"), t.words("in[1]"))
    ]
    b = t.prg("HT", "lift", 0)
    a = [(x >> f) - y for x, y in zip(u, b)]
    d = [
        1 - (x >> 63) - y - z
        for x, y, z in zip(u, t.prg("HT", "trunc", 3), t.prg("HO", "trunc", 3))
    ]
    send_component(t, a, packed_words(d, f))
    for name, x, pair in (("out[0]", a, "HO"), ("out[1]", b, "HT")):
        t.put(name, [v - p * (1 << (64 - f)) for v, p in zip(x, t.prg(pair, "trunc", 4))])


def t_sr2_finish(t):
    f = shift_of(t)
    if t.role == HEAD:
        return
    c, w = half(t)
    from_head, came = t.in_["wire_in[0]"], unpack(t.in_["wire_in[1]"], t.c, f)
    if t.role == OTHER:
        a, from_head = words_of(from_head[: 8 * t.c]), from_head[8 * t.c + t.gap :]
        t.put("out[1]", [x - (p << (64 - f)) for x, p in zip(a, t.prg("HO", "trunc", 4))])
    else:
        b = t.prg("HT", "lift", 0)
        t.put("out[0]", [x - (p << (64 - f)) for x, p in zip(b, t.prg("HT", "trunc", 4))])
    y = [
        (x >> f) - (1 << (62 - f)) + (k * (1 - (x >> 63)) + v + m - 1) * (1 << (64 - f))
        for x, k, v, m in zip(c, unpack(from_head, t.c, f), w, came)
    ]
    t.put("out[1]" if t.role == TAIL else "out[0]", y)


TASKS = {
    "SR_OPEN": t_sr_open,
    "SR_SEND": t_sr_send,
    "SR_FINISH": t_sr_finish,
    "SR2_SEND": t_sr2_send,
    "SR2_FINISH": t_sr2_finish,
}
