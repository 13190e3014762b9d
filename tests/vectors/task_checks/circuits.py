"""Comparison without keys: section 7 of docs/compute.md."""

from .words import BLOCK, M64, TAIL, bit, bytes_of, demand


class Circuit:
    def __init__(self, t):
        n = t.bits
        demand(1 <= n <= 63)
        self.t, self.n, self.levels = t, n, 0
        while 4 * (1 << self.levels) < n:
            self.levels += 1
        self.groups = 1 << self.levels
        self.s = 2 * self.groups - 1
        self.w = (t.c + 63) // 64
        self.group = []
        for j in range(self.groups):
            self.group.append(range(j * n // self.groups, (j + 1) * n // self.groups))

    # A plane is a number of 64 w bits.

    def ones(self):
        return (1 << (64 * self.w)) - 1

    def pad(self, pair, k):
        words = [self.t.prg_at(pair, "zero", 3, self.w * k + i) for i in range(self.w)]
        return int.from_bytes(bytes_of(words), "little")

    def word_pad(self, pair, k, i):
        return self.t.prg_at(pair, "zero", 3, BLOCK * k + i)

    def plane(self, x, k):
        return sum(bit(v & M64, k) << i for i, v in enumerate(x))

    def products(self, x, group):
        """x_s for all subsets s of the group."""
        planes = [self.plane(x, k) for k in group]
        out = [self.ones()]
        for s in range(1, 1 << len(planes)):
            p = self.ones()
            for b, plane in enumerate(planes):
                if bit(s, b):
                    p &= plane
            out.append(p)
        return out

    def planes_of(self, data):
        size = 8 * self.w
        return [int.from_bytes(data[i : i + size], "little") for i in range(0, len(data), size)]

    def bytes_of(self, planes):
        return b"".join(p.to_bytes(8 * self.w, "little") for p in planes)

    def state(self, name="out[0]"):
        planes = self.planes_of(self.t.in_[name])
        return planes[: self.s], planes[self.s :]

    def keep(self, lo, hi):
        self.t.out["out[0]"] = self.bytes_of(lo + hi)

    def send(self, name, data, piece=8 * BLOCK):
        """In pieces, into what was there."""
        out, at, gap = bytearray(self.t.in_.get(name) or bytes(len(data))), 0, self.t.gap
        for i in range(0, len(data), piece):
            part = data[i : i + piece]
            out[at : at + len(part)] = part
            at += len(part) + gap
        self.t.out[name] = bytes(out)

    def fetch(self, data, size):
        out, at, piece = b"", 0, 8 * BLOCK
        while len(out) < size:
            n = min(piece, size - len(out))
            out += data[at : at + n]
            at += n + self.t.gap
        return out

    def common(self):
        """c, and the component that HEAD has too."""
        lo, hi = self.t.words("in[0]"), self.t.words("in[1]")
        return (hi, lo) if self.t.role == TAIL else (lo, hi)

    def u(self):
        return [(x + y) & M64 for x, y in zip(self.t.words("in[0]"), self.t.words("in[1]"))]

    def carries(self, c, u_of, empty):
        """g and p of all groups, in the order of the state's planes."""
        out, number = [], 0
        for j, group in enumerate(self.group):
            k = len(group)
            every, c_s = (1 << k) - 1, self.products(c, group)
            u = [empty] + [u_of(number + s - 1) for s in range(1, 1 << k)]
            number += every
            g = p = 0
            for s in range(1 << k):
                p ^= u[s] & c_s[every & ~s]
                if s == 0:
                    continue
                lowest = s & -s
                above = every & ~s & ~(2 * lowest - 1)
                g ^= u[s] & c_s[lowest] & c_s[above]
            out += [g] if j == 0 else [g, p]
        return out


def t_bool_share(t):
    k = Circuit(t)
    if t.head():
        planes, number, u = [], 0, k.u()
        for group in k.group:
            products = k.products(u, group)
            for s in range(1, 1 << len(group)):
                planes.append(products[s] ^ k.pad("HO", number) ^ k.pad("HT", number))
                number += 1
        for name in ("wire_out[0]", "wire_out[1]"):
            k.send(name, k.bytes_of(planes))
        return
    c, _ = k.common()
    pair = "HT" if t.role == TAIL else "HO"
    made = k.carries(c, lambda number: k.pad(pair, number), 0)
    first = k.s if t.role == TAIL else 0
    made = [x ^ k.pad("TO", first + i) for i, x in enumerate(made)]
    lo, hi = k.state()
    k.keep(*((made, hi) if t.role == TAIL else (lo, made)))
    k.send("wire_out[0]", k.bytes_of(made))


def t_bool_join(t):
    k = Circuit(t)
    if t.head():
        k.keep(k.planes_of(t.in_["wire_in[0]"]), k.planes_of(t.in_["wire_in[1]"]))
        return
    c, _ = k.common()
    shared = sum((1 << len(group)) - 1 for group in k.group)
    came = k.planes_of(k.fetch(t.in_["wire_in[0]"], 8 * k.w * shared))
    made = k.carries(c, lambda number: came[number], k.ones())
    made = [x ^ k.pad("TO", i) ^ k.pad("TO", k.s + i) for i, x in enumerate(made)]
    lo, hi = k.state()
    k.keep(*((lo, made) if t.role == TAIL else (made, hi)))


def t_bool_merge(t):
    k, level = Circuit(t), t.shift
    demand(1 <= level <= k.levels)
    lo, hi = k.state()

    def product(x, y):
        return (lo[x] & (lo[y] ^ hi[y])) ^ (hi[x] & lo[y])

    made = []
    for j in range(k.groups >> level):
        g1, p1 = 4 * j + 1, 4 * j + 2  # of group 2j + 1
        g0, p0 = (4 * j - 1, 4 * j) if j > 0 else (0, None)
        made.append(lo[g1] ^ product(p1, g0))
        if j > 0:
            made.append(product(p1, p0))
    made = [x ^ k.pad("NEXT", i) ^ k.pad("PREV", i) for i, x in enumerate(made)]
    k.keep(made + lo[len(made) :], hi)
    if t.wants("wire_out[0]"):
        k.send("wire_out[0]", k.bytes_of(made))


def t_bool_receive(t):
    k, level = Circuit(t), t.shift
    demand(1 <= level <= k.levels)
    lo, hi = k.state()
    came = t.in_.get("wire_in[0]")
    if came is not None:
        came = k.planes_of(came)
        hi = came + hi[len(came) :]
    k.keep(lo, hi)


def select_bits(k):
    """HEAD's q, the others' v."""
    t = k.t
    lo, hi = k.state("in[2]")
    if t.head():
        return [1 ^ bit(lo[0] ^ hi[0], i) ^ bit(u, k.n) for i, u in enumerate(k.u())]
    own = hi[0] if t.role == TAIL else lo[0]
    return [bit(own, i) ^ bit(c, k.n) for i, c in enumerate(k.common()[0])]


def t_bool_select_mask(t):
    k = Circuit(t)
    demand(1 <= t.gate <= 3)
    want_bit, want_product = t.gate & 1, t.gate & 2
    v, pad = select_bits(k), k.word_pad
    if t.head():
        out = []
        if want_product:
            u = k.u()
            out += [v[i] * u[i] - pad("HO", 0, i) - pad("HT", 0, i) for i in range(t.c)]
        out += [v[i] - pad("HO", 1, i) - pad("HT", 1, i) for i in range(t.c)]
        for name in ("wire_out[0]", "wire_out[1]"):
            k.send(name, bytes_of(out), 8 * t.c)
        return
    c, x = k.common()
    pair, r = ("HT", 1) if t.role == TAIL else ("HO", 0)
    if want_product:
        out = [
            (1 - 2 * v[i]) * (pad(pair, 0, i) + pad(pair, 1, i) * c[i])
            + v[i] * x[i]
            + pad("TO", r, i)
            for i in range(t.c)
        ]
        t.put("out[0]", out)
        t.put("wire_out[0]", out)
    if want_bit:
        out = [(1 - 2 * v[i]) * pad(pair, 1, i) + pad("TO", 2 + r, i) for i in range(t.c)]
        t.put("out[1]", out)
        t.put("wire_out[1]", out)


def t_bool_select_finish(t):
    k = Circuit(t)
    demand(t.gate in (1, 2))
    if t.head():
        t.put("out[0]", t.words("wire_in[0]"))
        t.put("out[1]", t.words("wire_in[1]"))
        return
    v, pad, c = select_bits(k), k.word_pad, k.common()[0]
    out = []
    for i in range(t.c):
        s = 1 - 2 * v[i]
        if t.gate == 2:
            e0, e1 = t.words_at("wire_in[0]", i), t.words_at("wire_in[1]", i)
            x = s * (e0 + e1 * c[i]) + v[i] * c[i] - pad("TO", 0, i) - pad("TO", 1, i)
        else:
            x = s * t.words_at("wire_in[0]", i) + v[i] - pad("TO", 2, i) - pad("TO", 3, i)
        out.append(x)
    t.put("out[1]" if t.role == TAIL else "out[0]", out)


TASKS = {
    "BOOL_SHARE": t_bool_share,
    "BOOL_JOIN": t_bool_join,
    "BOOL_MERGE": t_bool_merge,
    "BOOL_RECEIVE": t_bool_receive,
    "BOOL_SELECT_MASK": t_bool_select_mask,
    "BOOL_SELECT_FINISH": t_bool_select_finish,
}
