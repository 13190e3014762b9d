#!/usr/bin/env python3
"""check_tasks.py DIR: recomputes every result of the golden vectors of compute tasks.

A second implementation of docs/compute.md, written from that document and not from the kernels, so
that what the document leaves out or gets wrong shows up here. It needs nothing but Python's standard
library, and is slow and plain on purpose: one element after the other, integers for words. Section
numbers are those of the document.
"""

import hashlib
import hmac
import json
import os
import sys

M64 = (1 << 64) - 1
BLOCK = 4096
HEAD, TAIL, OTHER = 0, 1, 2
ROLES = {"HEAD": HEAD, "TAIL": TAIL, "OTHER": OTHER}
SR, ARS, RELU, DCF = 1, 2, 3, 5  # gates


def low(x, n):
    return x & ((1 << n) - 1)


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def bit(x, k):
    return x >> k & 1


def words_of(data):
    return [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]


def bytes_of(words):
    return b"".join((w & M64).to_bytes(8, "little") for w in words)


def pack(values, n):
    """n-bit values, packed (section 2)."""
    string = 0
    for i, v in enumerate(values):
        string |= low(v, n) << (i * n)
    return string.to_bytes((len(values) * n + 7) // 8, "little")


def unpack(data, count, n):
    string = int.from_bytes(data[: (count * n + 7) // 8], "little")
    return [low(string >> (i * n), n) for i in range(count)]


# ---- AES-128 (FIPS 197) ----


def _aes_tables():
    def double(x):
        return (x << 1) ^ (0x11B if x & 0x80 else 0)

    inverse, power, log = [0] * 256, [0] * 256, [0] * 256
    x = 1
    for i in range(255):
        power[i], log[x] = x, i
        x = double(x) ^ x
    for i in range(1, 256):
        inverse[i] = power[(255 - log[i]) % 255]
    sbox = []
    for i in range(256):
        b = inverse[i]
        s = 0x63
        for k in range(5):
            s ^= (b << k | b >> (8 - k)) & 0xFF
        sbox.append(s)
    # A column is four bytes, row 0 lowest: what a byte of each row adds to it.
    tables = [[], [], [], []]
    for s in sbox:
        two = double(s) & 0xFF if s < 0x80 else double(s)
        three = two ^ s
        column = [two, s, s, three]
        for r in range(4):
            tables[r].append(sum(column[(i - r) % 4] << (8 * i) for i in range(4)))
    return sbox, tables


SBOX, (T0, T1, T2, T3) = _aes_tables()


def expand(key):
    w = [int.from_bytes(key[i : i + 4], "little") for i in range(0, 16, 4)]
    rcon = 1
    for i in range(4, 44):
        x = w[i - 1]
        if i % 4 == 0:
            x = x >> 8 | (x & 0xFF) << 24
            x = sum(SBOX[x >> (8 * k) & 0xFF] << (8 * k) for k in range(4)) ^ rcon
            rcon = (rcon << 1) ^ (0x11B if rcon & 0x80 else 0)
        w.append(w[i - 4] ^ x)
    return w


def aes(w, block):
    """AES-128 of a block; w: the expanded key. Blocks are little-endian numbers."""
    a = block & 0xFFFFFFFF ^ w[0]
    b = block >> 32 & 0xFFFFFFFF ^ w[1]
    c = block >> 64 & 0xFFFFFFFF ^ w[2]
    d = block >> 96 ^ w[3]
    for r in range(4, 40, 4):
        a, b, c, d = (
            T0[a & 255] ^ T1[b >> 8 & 255] ^ T2[c >> 16 & 255] ^ T3[d >> 24] ^ w[r],
            T0[b & 255] ^ T1[c >> 8 & 255] ^ T2[d >> 16 & 255] ^ T3[a >> 24] ^ w[r + 1],
            T0[c & 255] ^ T1[d >> 8 & 255] ^ T2[a >> 16 & 255] ^ T3[b >> 24] ^ w[r + 2],
            T0[d & 255] ^ T1[a >> 8 & 255] ^ T2[b >> 16 & 255] ^ T3[c >> 24] ^ w[r + 3],
        )
    s, out = SBOX, 0
    for k, (p, q, t, u) in enumerate(((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c))):
        x = s[p & 255] | s[q >> 8 & 255] << 8 | s[t >> 16 & 255] << 16 | s[u >> 24] << 24
        out |= (x ^ w[40 + k]) << (32 * k)
    return out


class Stream:
    """Words of a key in counter mode (section 2)."""

    def __init__(self, key):
        self.key, self.blocks = expand(key), {}

    def word(self, ordinal, call, block, lane, j):
        at = (ordinal, call, block, lane, j >> 1)
        if at not in self.blocks:
            counter = lane * (1 << 40) + (j >> 1)
            data = ordinal | call << 32 | block << 48 | counter << 80
            self.blocks[at] = aes(self.key, data)
        return self.blocks[at] >> (64 * (j & 1)) & M64


# ---- keys: section 4 ----


class Nodes:
    """The node PRG. A node is (seed, control bit)."""

    def __init__(self, left, right):
        self.keys = (expand(left), expand(right))

    def mmo(self, side, x):
        return aes(self.keys[side], x) ^ x

    def child(self, node, side, cw, tau):
        s, t = node
        y = self.mmo(side, s)
        return (y & ~1) ^ (cw & ~1 if t else 0), y & 1 ^ (t & tau[side])

    def values(self, side, seed, w):
        out = []
        for k in range((w + 1) // 2):
            y = self.mmo(side, seed ^ (2 * k + 1))
            out += [y & M64, y >> 64]
        return out[:w]

    def make_level(self, pair, a):
        """(CW, tau) of a level, and both parties' nodes on the path."""
        y = [[self.mmo(d, s) for d in (0, 1)] for s, _ in pair]
        cw = (y[0][1 - a] ^ y[1][1 - a]) & ~1
        tau = ((y[0][0] ^ y[1][0]) & 1 ^ a ^ 1, (y[0][1] ^ y[1][1]) & 1 ^ a)
        nodes = []
        for p, (_, t) in enumerate(pair):
            nodes.append(((y[p][a] & ~1) ^ (cw if t else 0), y[p][a] & 1 ^ (t & tau[a])))
        return cw, tau, nodes


def control_bytes(taus):
    string = 0
    for i, (left, right) in enumerate(taus):
        string |= left << (2 * i) | right << (2 * i + 1)
    return string.to_bytes((2 * len(taus) + 7) // 8, "little")


class Levels:
    """Correction words and control bits of one element of a key."""

    def __init__(self, levels, bits, depth, count, i):
        tb = (2 * depth + 7) // 8
        self.cw = []
        for level in range(depth):
            at = 16 * (level * count + i)
            self.cw.append(int.from_bytes(levels[at : at + 16], "little"))
        string = int.from_bytes(bits[i * tb : (i + 1) * tb], "little")
        self.tau = [(bit(string, 2 * k), bit(string, 2 * k + 1)) for k in range(depth)]


def dpf_depth(n):
    return max(n - 7, 0)


def dpf_sections(n, count):
    """Bytes of the levels, final words and control bits."""
    depth = dpf_depth(n)
    return 16 * depth * count, 16 * count, (2 * depth + 7) // 8 * count


def dpf_make(nodes, n, alphas, roots):
    """Section 4.1: the three arrays, and HEAD's terminal bits at alpha."""
    depth = dpf_depth(n)
    cws, finals, bits, heads = [[] for _ in range(depth)], [], [], []
    for alpha, pair in zip(alphas, roots):
        taus = []
        for level in range(depth):
            cw, tau, pair = nodes.make_level(pair, bit(alpha, n - 1 - level))
            cws[level].append(cw)
            taus.append(tau)
        at = alpha % 128 if n >= 7 else alpha % (1 << n)
        y = [nodes.mmo(0, s) for s, _ in pair]
        fw = y[0] ^ y[1] ^ (1 << at)
        finals.append(fw)
        bits.append(control_bytes(taus))
        heads.append(bit(y[0] ^ (fw if pair[0][1] else 0), at))
    levels = b"".join(x.to_bytes(16, "little") for level in cws for x in level)
    return levels, b"".join(x.to_bytes(16, "little") for x in finals), b"".join(bits), heads


class Dpf:
    """One party's key of one element."""

    def __init__(self, nodes, n, root, parts, count, i):
        levels, finals, bits = parts
        self.nodes, self.n, self.depth = nodes, n, dpf_depth(n)
        self.of = Levels(levels, bits, self.depth, count, i)
        self.fw = int.from_bytes(finals[16 * i : 16 * i + 16], "little")
        self.known = {(0, 0): root}
        self.blocks = {}

    def node(self, level, prefix):
        """The node below `level` levels whose path are the bits of prefix."""
        if (level, prefix) not in self.known:
            above = self.node(level - 1, prefix >> 1)
            cw, tau = self.of.cw[level - 1], self.of.tau[level - 1]
            self.known[level, prefix] = self.nodes.child(above, prefix & 1, cw, tau)
        return self.known[level, prefix]

    def terminal(self, x):
        prefix = x >> (self.n - self.depth)
        if prefix not in self.blocks:
            s, t = self.node(self.depth, prefix)
            self.blocks[prefix] = self.nodes.mmo(0, s) ^ (self.fw if t else 0)
        return self.blocks[prefix]

    def index(self, x):
        return x % 128 if self.n >= 7 else x % (1 << self.n)

    def bit(self, x):
        x = low(x, self.n)
        return bit(self.terminal(x), self.index(x))

    def prefix_share(self, x):
        x = low(x, self.n)
        p = bin(self.terminal(x) & ((2 << self.index(x)) - 1)).count("1") & 1
        for level in range(self.depth):
            if bit(x, self.n - 1 - level):
                above = self.node(level, x >> (self.n - level))
                right = self.node(level + 1, x >> (self.n - level - 1))
                p ^= above[1] ^ right[1]
        return p


def dcf_bytes(n, w, count):
    return count * (16 * n + 8 * w * n + 8 * w + (2 * n + 7) // 8)


def dcf_make(nodes, n, w, alphas, betas, roots):
    """Section 4.2."""
    cws, values = [[] for _ in range(n)], [[] for _ in range(n)]
    finals, bits = [], []
    for alpha, beta, pair in zip(alphas, betas, roots):
        taus, sums = [], [0] * w
        for level in range(n):
            a = bit(alpha, n - 1 - level)
            v = [[nodes.values(d, s, w) for d in (0, 1)] for s, _ in pair]
            minus = pair[1][1]
            for j in range(w):
                keep = v[0][a][j] - v[1][a][j]
                lose = v[0][1 - a][j] - v[1][1 - a][j]
                x = (beta[j] if a else 0) - lose - sums[j]
                sums[j] += keep + x
                values[level].append(-x if minus else x)
            cw, tau, pair = nodes.make_level(pair, a)
            cws[level].append(cw)
            taus.append(tau)
        v = [nodes.values(0, s, w) for s, _ in pair]
        for j in range(w):
            f = v[1][j] - v[0][j] - sums[j]
            finals.append(-f if pair[1][1] else f)
        bits.append(control_bytes(taus))
    out = b"".join(x.to_bytes(16, "little") for level in cws for x in level)
    for level in values:
        out += bytes_of(level)
    return out + bytes_of(finals) + b"".join(bits)


def dcf_share(nodes, n, w, key, count, i, root, party, x):
    values_at = 16 * n * count
    finals_at = values_at + 8 * w * n * count
    of = Levels(key, key[finals_at + 8 * w * count :], n, count, i)
    out, node = [0] * w, root
    for level in range(n):
        d = bit(x, n - 1 - level)
        s, t = node
        at = values_at + 8 * ((level * count + i) * w)
        correction = words_of(key[at : at + 8 * w])
        for j, v in enumerate(nodes.values(d, s, w)):
            out[j] += v + (correction[j] if t else 0)
        node = nodes.child(node, d, of.cw[level], of.tau[level])
    s, t = node
    at = finals_at + 8 * i * w
    final = words_of(key[at : at + 8 * w])
    for j, v in enumerate(nodes.values(0, s, w)):
        out[j] += v + (final[j] if t else 0)
    return [-x & M64 if party == TAIL else x & M64 for x in out]


def top(x, s):
    return low(x, s) >> (s - 12) if s >= 12 else low(x, s) << (12 - s)


class Mst:
    """Section 4.3."""

    def __init__(self, nodes, depth, rungs, shift, cells):
        self.nodes, self.depth, self.rungs = nodes, depth, rungs
        self.shift, self.cells = shift, cells

    def limits_hold(self):
        return (
            2 <= self.cells <= 16
            and 1 <= self.rungs <= 32
            and 2 * (self.rungs - 1) < self.depth
            and self.shift + self.depth <= 64
        )

    def words(self, seed):
        y = self.nodes.mmo(0, seed ^ 1)
        return [y & M64, y >> 64, self.nodes.mmo(0, seed ^ 3) & M64]

    def make(self, masks, roots):
        cws, rungs = [[] for _ in range(self.depth)], [[] for _ in range(self.rungs)]
        bits = []
        for r, pair in zip(masks, roots):
            alpha, taus = low(r >> self.shift, self.depth), []
            for level in range(self.depth):
                cw, tau, pair = self.nodes.make_level(pair, bit(alpha, self.depth - 1 - level))
                cws[level].append(cw)
                taus.append(tau)
                below = self.depth - 1 - level
                if below % 2 or below // 2 >= self.rungs:
                    continue
                q = top(r, self.shift + below)
                v = [self.words(s) for s, _ in pair]
                for j, beta in enumerate((1, q, q * q)):
                    x = beta - v[0][j] + v[1][j]
                    rungs[below // 2].append(-x if pair[1][1] else x)
            bits.append(control_bytes(taus))
        out = b"".join(x.to_bytes(16, "little") for level in cws for x in level)
        for rung in rungs:
            out += bytes_of(rung)
        return out + b"".join(bits)

    def share(self, key, count, i, root, party, xh, words):
        rungs_at = 16 * self.depth * count
        of = Levels(key, key[rungs_at + 24 * self.rungs * count :], self.depth, count, i)
        known = {(0, 0): root}

        def node(level, number):
            if (level, number) not in known:
                above = node(level - 1, number >> 1)
                cw, tau = of.cw[level - 1], of.tau[level - 1]
                known[level, number] = self.nodes.child(above, number & 1, cw, tau)
            return known[level, number]

        total = 0
        for k in range(self.rungs):
            s_k, level = self.shift + 2 * k, self.depth - 2 * k
            z, lo = xh >> s_k, top(xh, s_k)
            at = rungs_at + 24 * (k * count + i)
            rung = words_of(key[at : at + 24])
            for cell in range(self.cells, 4 * self.cells):
                if k + 1 < self.rungs and z // 4 - (z - cell) // 4 >= self.cells:
                    continue
                s, t = node(level, (z - cell) % (1 << level))
                u = [v + (rung[j] if t else 0) for j, v in enumerate(self.words(s))]
                a = [words[(3 * k + j) * 3 * self.cells + cell - self.cells] for j in range(3)]
                total += a[0] * u[0] - a[1] * u[1] + a[2] * u[2]
                total += lo * (a[1] * u[0] - 2 * a[2] * u[1] + lo * a[2] * u[0])
        return -total & M64 if party == TAIL else total & M64


# ---- a task ----


class Refused(Exception):
    """The task is not within its limits: UVCC_ERR_JOB."""


def demand(holds):
    if not holds:
        raise Refused


class Block:
    """A block of a form B task: operands, parameters, pads, results."""

    def __init__(self, file, case, unit, block, operands):
        self.file, self.case, self.in_ = file, case, operands
        self.role = ROLES[case["role"]]
        self.call = case.get("call", file.root["call"])
        self.block, self.c = block, unit["count"]
        self.out = {}
        args = case.get("args", {})
        self.shift, self.bits = args.get("shift", 0), args.get("bits", 0)
        self.lift, self.gate = args.get("lift", 0), args.get("gate", 0)
        self.compact, self.gap = args.get("compact", False), args.get("gap", 0)
        self.constant = args.get("constant", 0)
        self.fn = file.fn(case)
        demand(1 <= self.c <= BLOCK)

    def edge(self):
        return self.role in (HEAD, TAIL)

    def head(self):
        return self.role == HEAD

    def words(self, name):
        data = self.in_.get(name)
        return None if data is None else words_of(data)

    def put(self, name, words):
        self.out[name] = bytes_of(words)

    # PRG

    PAIRS = {"NEXT": ("HT", "TO", "HO"), "PREV": ("HO", "HT", "TO"), "XO": ("HO", "TO", None)}

    def prg_at(self, pair, tag, lane, j, call=None):
        if pair == "OWN":
            stream = self.file.own[self.role]
        else:
            pair = self.PAIRS[pair][self.role] if pair in self.PAIRS else pair
            stream = self.file.streams[pair, tag]
        call = self.call if call is None else call
        return stream.word(self.file.root["ordinal"], call, self.block, lane, j)

    def prg(self, pair, tag, lane, call=None):
        return [self.prg_at(pair, tag, lane, i, call) for i in range(self.c)]

    def zero_share(self, lane=0):
        a, b = self.prg("NEXT", "zero", lane), self.prg("PREV", "zero", lane)
        return [x - y for x, y in zip(a, b)]

    # dealt words

    def w(self, call, lane, q, section):
        if self.head():
            return [
                self.prg_at("HO", "select", lane, BLOCK * q + i, call) for i in range(self.c)
            ]
        data = self.in_[section]
        return words_of(data[8 * q * self.c : 8 * (q + 1) * self.c])

    def deal(self, lane, q, y):
        """q counts up from 0 in a task."""
        head = [
            self.prg_at("HO", "select", lane, BLOCK * q + i, self.call) for i in range(self.c)
        ]
        have = self.out.get("out_words", b"")
        assert len(have) == 8 * q * self.c
        self.out["out_words"] = have + bytes_of(a - b for a, b in zip(y, head))

    # keys

    def root(self, pair, i, call):
        return self.prg_at(pair, "root", 0, 2 * i, call) | (
            self.prg_at(pair, "root", 0, 2 * i + 1, call) << 64
        )

    def own_root(self, i, call):
        return self.root("XO", i, call) & ~1, self.role

    def both_roots(self, call):
        return [
            [(self.root("HO", i, call) & ~1, 0), (self.root("TO", i, call) & ~1, 1)]
            for i in range(self.c)
        ]

    def dpf_keys(self, n, parts, call):
        nodes = self.file.nodes
        return [Dpf(nodes, n, self.own_root(i, call), parts, self.c, i) for i in range(self.c)]

    def split_cw(self, n):
        key, parts = self.in_["key"], []
        for size in dpf_sections(n, self.c):
            parts.append(key[:size])
            key = key[size:]
        return parts

    def gate_key(self):
        """Section 4.4: the sections of this party's key stream."""
        key, at, c, f = self.in_.get("key", b""), 0, self.c, self.shift
        sizes = []
        tail = self.role == TAIL
        if self.gate == DCF:
            sizes.append(("dcf", dcf_bytes(f, 1, c)))
        if self.gate in (ARS, RELU):
            levels, finals, bits = dpf_sections(f if self.gate == ARS else self.bits, c)
            sizes += [("levels", levels), ("finals", finals)]
        if tail and self.gate == ARS:
            sizes.append(("rho", 8 * c))
        if tail and self.gate == RELU:
            sizes += [("k", 8 * c), ("kr", 8 * c)]
        if tail and self.gate != RELU and not self.compact:
            sizes += [("w0", 8 * c), ("w1", 8 * c)]
        if self.gate in (ARS, RELU):
            sizes.append(("bits", bits))
        if tail and self.gate != RELU and self.compact:
            sizes += [("corr0", (c * f + 7) // 8), ("corr1", (c * f + 7) // 8)]
        out = {}
        for name, size in sizes:
            out[name] = key[at : at + size]
            at += size
        return out


# ---- section 5 ----


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


# ---- section 6 ----


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


# ---- section 7 ----


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


# ---- section 8 ----


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


# ---- section 9 ----

PAIRS4 = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


def map_component(op, x, y, rows, cols, index, args):
    """form "both" of a component."""
    constant, at = args.get("constant", 0), lambda i, j: x[i * cols + j]
    fill = constant if index == 0 else 0
    every = [(i, j) for i in range(rows) for j in range(cols)]
    element = {
        "ADD": lambda i, j: at(i, j) + y[i * cols + j],
        "SUB": lambda i, j: at(i, j) - y[i * cols + j],
        "ADD_ROW": lambda i, j: at(i, j) + y[j],
        "COPY": at,
        "SHL": lambda i, j: at(i, j) << args.get("shift", 0),
        "ADD_COL": lambda i, j: at(i, j) + y[i],
        "SUB_COL": lambda i, j: at(i, j) - y[i],
        "RSUB_COL": lambda i, j: y[i] - at(i, j),
        "SCALE": lambda i, j: constant * at(i, j),
        "ADD_PUBLIC": lambda i, j: at(i, j) + fill,
        "CAUSAL": lambda i, j: fill if j > i % cols else at(i, j),
        "SPREAD": lambda i, j: x[i],
    }
    if op in element:
        return [element[op](i, j) for i, j in every]
    if op == "SUM_ROWS":
        return [sum(at(i, j) for i in range(rows)) for j in range(cols)]
    if op == "SUM_COLS":
        return [sum(at(i, j) for j in range(cols)) for i in range(rows)]
    last, out = cols - 1, []
    for i in range(rows):
        for j in range(0, cols, 2 if op.startswith("PAIR") else 4):
            if op == "PAIR_DIFF":
                out.append(at(i, j) - at(i, min(j + 1, last)))
            elif op == "PAIR_SECOND":
                out.append(at(i, min(j + 1, last)))
            elif op == "QUAD_LAST":
                out.append(at(i, min(j + 3, last)))
            else:
                out += [at(i, min(j + a, last)) - at(i, min(j + b, last)) for a, b in PAIRS4]
    return out


MAPS_BOTH = """ADD SUB ADD_ROW SUM_ROWS COPY SHL PAIR_DIFF PAIR_SECOND ADD_COL SUB_COL RSUB_COL
SUM_COLS SCALE
ADD_PUBLIC CAUSAL QUAD_DIFF QUAD_LAST SPREAD""".split()


def map_three(op, x, y, rows, cols, args):
    def product(a, b):
        return x[0][a] * (y[0][b] + y[1][b]) + x[1][a] * y[0][b]

    each = range(rows * cols)
    if op == "MUL":
        return [product(a, a) for a in each]
    if op == "MUL_COL":
        return [product(a, a // cols) for a in each]
    if op == "MUL_ROW":
        return [product(a, a % cols) for a in each]
    constant = args.get("constant", 0)
    return [
        constant * sum(product(i * cols + j, i * cols + j) for j in range(cols))
        for i in range(rows)
    ]


def t_map(args, with_, wants, file):
    op, rows, cols, party = args["op"], args["rows"], args["cols"], args.get("party", 0)
    get = lambda name: words_of(with_[name]) if name in with_ else None
    out = {}
    if op in ("PUBLIC", "INDEX"):
        for i, name in enumerate(("out.lo", "out.hi")):
            if name not in wants:
                continue
            value = get("x.lo") if op == "PUBLIC" else [2 * j + 1 for j in range(cols)] * rows
            out[name] = value if (party + i) % 3 == 0 else [0] * (rows * cols)
    elif op in ("MUL", "MUL_COL", "MUL_ROW", "DOT_ROWS"):
        x, y = (get("x.lo"), get("x.hi")), (get("y.lo"), get("y.hi"))
        out["out.lo"] = map_three(op, x, y, rows, cols, args)
    else:
        demand(op in MAPS_BOTH)
        for i, part in enumerate(("lo", "hi")):
            if "out." + part in wants:
                x, y = get("x." + part), get("y." + part)
                out["out." + part] = map_component(op, x, y, rows, cols, (party + i) % 3, args)
    return {name: bytes_of(words) for name, words in out.items()}


def t_gemm(args, with_, wants, file):
    m, n, k = args["m"], args["n"], args["k"]
    tx, ty = args.get("trans_x", False), args.get("trans_y", False)
    groups, heads = args.get("groups", 0), args.get("heads", 0)
    x_lo, x_hi, y_lo, y_hi = (words_of(with_[s]) for s in ("x.lo", "x.hi", "y.lo", "y.hi"))
    z = words_of(with_["z"]) if "z" in with_ else [0] * (m * n)
    lx, ly, lz = [m if tx else k, 0, 0], [k if ty else n, 0, 0], [n, 0, 0]
    if groups:
        lx, ly, lz = args["lx"], args["ly"], args["lz"]
    for g in range(groups or 1):
        for h in range(heads if groups else 1):
            ax, ay, az = (of[1] * g + of[2] * h for of in (lx, ly, lz))
            for i in range(m):
                for j in range(n):
                    s = 0
                    for p in range(k):
                        a = ax + (p * lx[0] + i if tx else i * lx[0] + p)
                        b = ay + (j * ly[0] + p if ty else p * ly[0] + j)
                        s += x_lo[a] * (y_lo[b] + y_hi[b]) + x_hi[a] * y_lo[b]
                    at = az + i * lz[0] + j
                    z[at] = s + (z[at] if args.get("accumulate") else 0)
    return {"z": bytes_of(z)}


def t_bit_sums(args, with_, wants, file):
    rows, cols = args.get("rows", 0), args.get("cols", 0)
    demand(rows >= 1 and cols >= 1)
    stream, out = Stream(bytes.fromhex(args["key"])), {}
    ordinal, call = file.root["ordinal"], file.call
    bits = [stream.word(ordinal, call, 0, args.get("lane", 0), i) for i in range(rows)]
    for part in ("lo", "hi"):
        if "x." + part not in with_:
            continue
        x, sums = words_of(with_["x." + part]), []
        at = lambda i, j: x[j * rows + i] if args.get("trans") else x[i * cols + j]
        for a in range(64):
            for j in range(cols):
                sums.append(sum(at(i, j) for i in range(rows) if bit(bits[i], a)))
        out["out." + part] = bytes_of(sums)
    return out


def hash_item(unit, with_, file):
    key, prefix = file.value(unit["key"]), file.value(unit["prefix"])
    data, mode = prefix + with_["data"], unit["mode"]
    if mode == 2:
        return {"digest": hmac.new(key, data, hashlib.sha256).digest()}
    digest = hashlib.sha256(data).digest()
    return {"digest": hmac.new(key, digest, hashlib.sha256).digest() if mode == 1 else digest}


TASKS_B = {
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
    "FN_LADDER": t_fn_multiscale,
    "FN_DEAL_LADDER": t_fn_deal_multiscale,
    "FN_FLOOR": t_fn_floor,
    "FN_DEAL_FLOOR": t_fn_deal_floor,
    "FN_SPLINE": t_fn_spline,
    "FN_DEAL_SPLINE": t_fn_deal_spline,
    "FN_DEAL_POWERS": t_fn_deal_powers,
    "BOOL_SHARE": t_bool_share,
    "BOOL_JOIN": t_bool_join,
    "BOOL_MERGE": t_bool_merge,
    "BOOL_RECEIVE": t_bool_receive,
    "BOOL_SELECT_MASK": t_bool_select_mask,
    "BOOL_SELECT_FINISH": t_bool_select_finish,
    "TRIPLE_A": t_triple_a,
    "TRIPLE_B": t_triple_b,
    "TRIPLE_C": t_triple_c,
}
TASKS_OTHER = {"MAP": t_map, "GEMM": t_gemm, "BIT_SUMS": t_bit_sums}


# ---- section 10: files ----


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & M64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & M64
    return z ^ z >> 31


def seed_words(seed, count):
    return [mix((seed + (j + 1) * 0x9E3779B97F4A7C15) & M64) for j in range(count)]


class Fn:
    """Members of uvcc_fn_args; 0 if the file does not name them."""

    def __init__(self, of):
        for name in "bits shift first constant entry_count word_count call_key call_bits".split():
            setattr(self, name, of.get(name, 0))
        for name in "exchange times by_table".split():
            setattr(self, name, of.get(name, False))
        self.words = self.numbers(of.get("words"), self.word_count)
        self.entries = self.numbers(of.get("entries"), self.entry_count)
        if isinstance(of.get("entries"), dict):
            self.entries = [low(x, 32) for x in self.entries]
            self.entries = [x - (1 << 32) if x >> 31 else x for x in self.entries]

    @staticmethod
    def numbers(of, count):
        if isinstance(of, dict):
            return [signed(x) for x in seed_words(of["seed"], count)]
        return of


class VectorFile:
    def __init__(self, path):
        with open(path, encoding="utf-8") as f:
            self.root = json.load(f)
        keys = self.root["keys"]
        self.streams = {}
        for pair in ("HT", "HO", "TO"):
            for tag, key in keys[pair].items():
                self.streams[pair, tag] = Stream(bytes.fromhex(key))
        self.own = [Stream(bytes.fromhex(keys["own"][role])) for role in ROLES]
        self.nodes = Nodes(*(bytes.fromhex(key) for key in keys["dpf"]))
        self.results, self.problems, self.checked, self.call = {}, [], 0, 0

    @staticmethod
    def fn(case):
        return Fn(case["fn"]) if "fn" in case else None

    def value(self, of, unit=0):
        """The bytes of an operand."""
        if "seed" in of:
            n = of["bytes"]
            data = bytes_of(seed_words(of["seed"], (n + 7) // 8))[:n]
            assert "hex" not in of or bytes.fromhex(of["hex"]) == data, "a seed's hex"
            return data
        if "hex" in of:
            return bytes.fromhex(of["hex"])
        data = self.results[of["case"]][unit][of["gives"]]
        at = of.get("from", 0)
        return data[at : at + of.get("bytes", len(data))]

    def operands(self, case, unit, i):
        out = {}
        for of in (case.get("with", {}), unit.get("with", {})):
            for name, value in of.items():
                out[name] = self.value(value, i)
        for name, other in case.get("same", {}).items():
            out.setdefault(name, out[other])
        return out

    def run_unit(self, case, unit, i):
        task, operands = case["task"], self.operands(case, unit, i)
        wants = unit.get("gives", {})
        if task in TASKS_B:
            t = Block(self, case, unit, self.root["block"] + i, operands)
            t.wants = lambda name: name in wants
            t.words_at = lambda name, k: int.from_bytes(operands[name][8 * k : 8 * k + 8], "little")
            demand(t.fn is not None or not task.startswith("FN_"))
            TASKS_B[task](t)
            return t.out
        self.call = case.get("call", self.root["call"])
        if task in TASKS_OTHER:
            return TASKS_OTHER[task](case.get("args", {}), operands, wants, self)
        if task == "HASH":
            return hash_item(unit, operands, self)
        if task == "COPY":
            return {"dst": operands["src"]}
        if task == "WIPE":
            return {"dst": bytes(len(operands["dst"]))}
        raise Refused  # COLLECTIVE, and what there is not

    def check(self, case, unit, i, out):
        name, wants = "%s, unit %d" % (case["name"], i), unit.get("gives", {})
        if set(out) != set(wants):
            self.problems.append("%s: gives %s, not %s" % (name, sorted(out), sorted(wants)))
        for result in set(out) & set(wants):
            want, data = wants[result], out[result]
            shown = data.hex() if "hex" in want else hashlib.sha256(data).hexdigest()
            self.checked += 1
            if len(data) != want["bytes"] or shown != want.get("hex", want.get("sha256")):
                self.problems.append("%s: %s differs" % (name, result))

    def run(self):
        for case in self.root["cases"]:
            outs, refused = [], False
            try:
                for i, unit in enumerate(case["units"]):
                    outs.append(self.run_unit(case, unit, i))
            except Refused:
                refused = True
            if refused != (case.get("status") == "JOB"):
                self.problems.append("%s: refused: %s" % (case["name"], refused))
            elif not refused:
                for i, unit in enumerate(case["units"]):
                    self.check(case, unit, i, outs[i])
            self.results[case["name"]] = outs


def check_aes():
    key, text = bytes(range(16)), bytes.fromhex("00112233445566778899aabbccddeeff")
    got = aes(expand(key), int.from_bytes(text, "little")).to_bytes(16, "little")
    assert got.hex() == "69c4e0d86a7b0430d8cdb78070b4c55a", "AES-128 is not that of FIPS 197"


def main():
    if len(sys.argv) != 2:
        sys.exit("Usage: check_tasks.py DIR")
    check_aes()
    failed, checked = 0, 0
    names = sorted(n for n in os.listdir(sys.argv[1]) if n.endswith(".json"))
    for name in names:
        f = VectorFile(os.path.join(sys.argv[1], name))
        f.run()
        for problem in f.problems[:20]:
            print("%s: %s" % (name, problem))
        print("%s: %d cases, %d results" % (name, len(f.root["cases"]), f.checked))
        failed += len(f.problems)
        checked += f.checked
    if failed or not checked:
        sys.exit("%d of %d results differ from what docs/compute.md says" % (failed, checked))


if __name__ == "__main__":
    main()
