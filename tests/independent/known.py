"""The program of make_run.c, op by op: what its values are made of. With it a step's transcripts follow from
the logs as a whole, and so do what parties sent: pads, shares of comparison bits by the DPF's keys, products on
triples, and the check of a product (docs/protocols.md 5 to 8 and 11)."""

import wire
from run import Step
from wire import BLOCK, H, M64, le16, le32, le64, mac, need, pack_words, u8

GEMM, START, TRUNC, RELU, BEAVER_DCF, TRUNC_SR, BEAVER, FUNCTION, ELEM, ROUND, CIRCUIT, CHECK = range(12)  # k
TILES = {BEAVER: 2}  # of one row each
F, T = 16, 64
Z_BITS = 26
FN_FIRST = {2: 2, 4: 4}  # of the function: instruction that owns a key -> call of its key stream


def add(*vs):
    return [sum(x) & M64 for x in zip(*vs)]


def sub(a, b):
    return [x - y & M64 for x, y in zip(a, b)]


def matmul(a, b, n, k, m):
    return [sum(a[i * k + q] * b[q * m + j] for q in range(k)) & M64 for i in range(n) for j in range(m)]


def transpose(a, n, m):
    return [a[i * m + j] for j in range(m) for i in range(n)]


def elementwise(a, b):
    return [i * j & M64 for i, j in zip(a, b)]


def packed(values, bits):
    """Some bits of each value, in whole words."""
    data = wire.pack_bits([v & (1 << bits) - 1 for v in values], bits)
    return wire.words(data + bytes(-len(data) % 8))


def local_product(x, y, prod):
    """The three summands z_p = x_p (y_p + y_(p+1)) + x_(p+1) y_p."""
    return [add(prod(x[p], add(y[p], y[(p + 1) % 3])), prod(x[(p + 1) % 3], y[p])) for p in range(3)]


class Values(Step):
    """A step of a program that is known op by op: its values, and what was sent of them."""

    def __init__(self, run, number, rows):
        self.checked, self.tensors = 0, {}
        super().__init__(run, number, rows)

    def pair(self, a, b):
        return self.run.pairs[a % 3, b % 3]

    def words(self, pair, tag, lane, op, call, block, n):
        return pair.F(tag, lane, self.number, op.ordinal, call, block, n)

    def want(self, a, b, what):
        need(a == b, "step %d: %s" % (self.number, what))
        self.checked += 1

    # ---- stochastic truncations without keys (docs/protocols.md, 7), block by block ----

    def pieces(self, op, src, dst):
        """The words that src sent to dst in RESHARE_BATCHes, by (batch, block, first)."""
        return {(self.rows[self.row_of[m.op_id]][3] - op.b, t.id, t.first): wire.words(t.words)
                for m in self.messages if self.op_of[m.op_id] is op and m.name == "RESHARE_BATCH"
                and (m.src, m.dst) == (src, dst) for t in m.tlvs}

    def by_block(self, op, comps, f, one):
        """What `one` makes of each block of the components, and that the op's messages are what it sends. A round
        is one batch here."""
        sent, out = {}, [[], [], []]
        for block in range(-(-len(comps[0]) // BLOCK)):
            part = [c[block * BLOCK:(block + 1) * BLOCK] for c in comps]
            new, messages = one(op, block, part, f)
            for way, rounds in messages.items():
                for turn, vectors in rounds:
                    for i, v in enumerate(vectors):
                        sent.setdefault(way, {})[turn, block, i * BLOCK] = v
            for p in range(3):
                out[p] += new[p]
        for p in range(3):
            for q in range(3):
                self.want(self.pieces(op, p, q), sent.get((p, q), {}), "what %d sends %d in a truncation" % (p, q))
        return out

    def roles(self, op, block):
        e = self.edge(op, block)
        return e, (e + 1) % 3, (e + 2) % 3

    def pads_of(self, op, block, n):
        return lambda p, q, tag, lane: self.words(self.pair(p, q), tag, lane, op, 0, block, n)

    def rounded_here(self, op, block, comps, f):
        """Of a replicated value, which nobody opens: new components, and (turn, vectors) of each way."""
        head, tail, other = self.roles(op, block)
        a, b, c = comps[head], comps[tail], comps[other]
        low, top = (1 << f) - 1, 64 - f
        pad = self.pads_of(op, block, len(a))
        q_b, q_a = pad(head, tail, "trunc", 3), pad(head, other, "trunc", 3)
        w_b, w_a = pad(head, tail, "trunc", 4), pad(head, other, "trunc", 4)
        keep = pad(head, tail, "lift", 0)
        u = [x + y + (1 << 62) + low & M64 for x, y in zip(a, b)]
        v = [1 - (x >> 63) for x in c]
        d = [1 - (x >> 63) - s - t & low for x, s, t in zip(u, q_a, q_b)]
        w_tail = [s * t + w & low for s, t, w in zip(q_b, v, w_b)]
        w_other = [s * t + w & low for s, t, w in zip(q_a, v, w_a)]
        given = [(x >> f) - y & M64 for x, y in zip(u, keep)]
        sent = {(head, other): [(0, [given, packed(d, f)])], (head, tail): [(0, [packed(d, f)])],
                (tail, other): [(0, [packed(w_tail, f)])], (other, tail): [(0, [packed(w_other, f)])]}
        new = {head: [x - (w << top) & M64 for x, w in zip(given, w_a)],
               tail: [x - (w << top) & M64 for x, w in zip(keep, w_b)],
               other: [(x >> f) - (1 << (62 - f)) + ((s * t + y + z - 1) << top) & M64
                       for x, s, t, y, z in zip(c, d, v, w_tail, w_other)]}
        value = [x + low - (y & low) & M64 for x, y in zip(add(a, b, c), c)]
        self.want(add(*new.values()), [(x - (x >> 63 << 64) >> f) & M64 for x in value], "a truncation where it is")
        return new, sent

    def rounded(self, op, block, z, f):
        """Of a 3-additive value, which HEAD opens."""
        head, tail, other = self.roles(op, block)
        n, low, top = len(z[0]), (1 << f) - 1, 1 << (64 - f)
        pad = self.pads_of(op, block, n)
        own = self.run.own[head].F("own", 2, self.number, op.ordinal, 0, block, -(-n // 64))
        k = [own[i // 64] >> i % 64 & 1 for i in range(n)]
        s, r, q = pad(tail, other, "zero", 0), pad(tail, other, "trunc", 0), pad(head, tail, "trunc", 3)
        ht, ho, b = pad(head, tail, "trunc", 4), pad(head, other, "trunc", 4), pad(head, tail, "lift", 0)
        rb = [v >> 63 for v in r]
        q_other = [u - v & low for u, v in zip(k, q)]
        m_tail = [u * v + w & low for u, v, w in zip(q, rb, ht)]
        m_other = [u * v + w & low for u, v, w in zip(q_other, rb, ho)]
        zh = [u + v + (1 << 62) & M64 for u, v in zip(add(*z), r)]
        e = [u >> 63 ^ v for u, v in zip(zh, k)]
        a = [(u >> f) - v & M64 for u, v in zip(zh, b)]
        sent = {(tail, head): [(0, [add(z[tail], s, r)])], (other, head): [(0, [sub(z[other], s)])],
                (head, other): [(0, [packed(q_other, f)]), (1, [a, packed(e, 1)])],
                (tail, other): [(0, [packed(m_tail, f)])], (head, tail): [(1, [packed(e, 1)])],
                (other, tail): [(1, [packed(m_other, f)])]}
        sign = [1 - 2 * u for u in e]
        wrap = [(u - u * v) - w * (m + o) for u, v, w, m, o in zip(rb, e, sign, m_tail, m_other)]
        new = {head: [u + v * w * top & M64 for u, v, w in zip(a, sign, ho)],
               tail: [u + v * w * top & M64 for u, v, w in zip(b, sign, ht)],
               other: [v * top - (u >> f) - (1 << (62 - f)) & M64 for u, v in zip(r, wrap)]}
        value = [((u + (v & low)) & M64) for u, v in zip(add(*z), r)]
        self.want(add(*new.values()), [(v - (v >> 63 << 64) >> f) & M64 for v in value], "a stochastic truncation")
        return new, sent

    # ---- comparison bits, by the DPF's keys ----

    def key_stream(self, op, src, dst, call, block=0):
        fss = wire.fss_id(self.run.sub, self.number, op.id, call, block)
        ts = [t for m in self.messages if self.op_of[m.op_id] is op and (m.src, m.dst) == (src, dst) for t in m.tlvs
              if t.type == 0x31 and t.id == fss]
        need(ts and ts[0].offset == 0, "a key stream under the documented id")
        self.want({t.gate for t in ts}, {self.gate_of(op)}, "the number of a gate")
        return b"".join(t.bytes for t in sorted(ts, key=lambda t: t.offset))

    def mmo(self, side, x):
        k = H(b"UVCC_DPF_V1", self.run.sub, le32(self.number))
        enc = wire.Cipher(wire.algorithms.AES(k[16 * side:16 * side + 16]), wire.modes.ECB()).encryptor()
        return bytes(a ^ b for a, b in zip(enc.update(x), x))

    def dpf(self, key, n, c, i, root, side, x, tail_words):
        """A party's XOR share of [alpha <= x] by a DPF key on n bits of a block of c elements; tail_words: bytes of
        dealt words that stand before its bits, for an element."""
        levels = max(n - 7, 0)
        bits_at = 16 * c * (levels + 1) + tail_words * c
        per = (2 * levels + 7) // 8
        cbits = int.from_bytes(key[bits_at + per * i:bits_at + per * (i + 1)], "little")
        s, t, out = pack_words(root), side, 0
        s = bytes([s[0] & 254]) + s[1:]
        for level in range(levels):
            cw = key[16 * (level * c + i):16 * (level * c + i) + 16]
            kids = []
            for right in (0, 1):
                y = self.mmo(right, s)
                kt = y[0] & 1 ^ (t & cbits >> (2 * level + right) & 1)
                ks = bytes([y[0] & 254]) + y[1:]
                kids.append((bytes(a ^ b for a, b in zip(ks, cw)) if t else ks, kt))
            go = x >> (n - 1 - level) & 1
            if go:
                out ^= t ^ kids[1][1]
            s, t = kids[go]
        last = self.mmo(0, s)
        if t:
            f = key[16 * (levels * c + i):16 * (levels * c + i) + 16]
            last = bytes(a ^ b for a, b in zip(last, f))
        low = x % 128 if n >= 7 else x
        terminal = int.from_bytes(last, "little") & (1 << (low + 1)) - 1
        return out ^ bin(terminal).count("1") & 1


class KnownStep(Values):
    def __init__(self, run, number, rows, maker=None):
        super().__init__(run, number, rows)
        self.maker = maker  # the run of a session that made the triples, if there is one
        self.by_k = {op.k: op for op in self.ops if op.phase == 0}

    def given(self):
        """What STEP says of the triples of the step's two products on them."""
        ops = sorted(self.by_k[k].ordinal for k in (BEAVER_DCF, BEAVER))
        return H(b"UVCC_GIVEN_V1", self.run.sub, le32(self.number),
                 *(le32(o) + le32(self.maker.run) for o in ops)) if self.maker else bytes(32)

    def transcripts(self, shapes, known):
        self.inputs()
        self.products()
        return super().transcripts(shapes, known)

    def vector(self, op, kind, src, dst, tlv_type, run=None, tile=0):
        """The words of a whole vector that src sent to dst, or of one tile of it."""
        messages = run.messages[self.number] if run else self.messages
        ts = [t for m in messages if self.op_of[m.op_id] is op and m.name == kind and (m.src, m.dst) == (src, dst)
              for t in m.tlvs if t.type == tlv_type and (tlv_type != 0x21 or t.id == tile)]
        need(len(ts) == 1, "%d vectors where one is due" % len(ts))
        return wire.words(ts[0].words)

    # ---- inputs and products ----

    def inputs(self):
        """An input's components, of the owner's PRG words and its message; their sum is what the host gave."""
        for i, (name, owner) in enumerate((("X", 0), ("W", 1), ("V", 2))):
            op = self.by_k[wire.IO_FIRST + i]
            p = owner
            given = [r.fields for r in self.run.records[p] if r.name == "INPUT"]
            value = next(wire.words(f[3]) for f in given if f[1] == self.number and f[2] == i + 1)
            n = len(value)
            rest = self.vector(op, "INPUT_BATCH", p, (p + 1) % 3, 0x41)
            self.want(rest, self.vector(op, "INPUT_BATCH", p, (p + 2) % 3, 0x41), "an input, to both others")
            comps = {p: self.words(self.pair(p, p - 1), "input", 0, op, 0, 0, n),
                     (p + 1) % 3: self.words(self.pair(p, p + 1), "input", 0, op, 0, 0, n), (p + 2) % 3: rest}
            self.want(add(*comps.values()), value, "the components of input %s" % name)
            self.tensors[name] = [comps[c] for c in range(3)]

    def reshared(self, op, run=None, tile=0):
        """Component p of a reshared value is what p sent to p - 1."""
        return [self.vector(op, "RESHARE_BATCH", p, (p + 2) % 3, 0x21, run, tile) for p in range(3)]

    def zero_shares(self, op, lane, n, call=0, run=None, block=0):
        pairs = (run or self.run).pairs
        return [sub(self.words(pairs[p, (p + 1) % 3], "zero", lane, op, call, block, n),
                    self.words(pairs[p, (p + 2) % 3], "zero", lane, op, call, block, n)) for p in range(3)]

    def products(self):
        op = self.by_k[GEMM]
        c = self.tensors["C"] = self.reshared(op)
        z = local_product(self.tensors["X"], self.tensors["W"], lambda a, b: matmul(a, b, 2, 3, 2))
        zs = self.zero_shares(op, 0, 4)
        for p in range(3):
            self.want(c[p], add(z[p], zs[p]), "the reshare of a product")

    # ---- openings by two messages ----

    def sequential(self, op):
        return op.k == TRUNC_SR

    def component(self, op, call, block, c):
        """OPEN2: the value's components, and that HEAD and TAIL sent theirs under their pads with OTHER."""
        if op.k in (TRUNC, TRUNC_SR):
            comps = self.tensors["C"]
        elif op.k in (RELU, FUNCTION):
            comps = self.lifted(TRUNC)
        elif op.k == BEAVER_DCF:
            comps = self.on_triple(op, self.lifted(RELU), self.tensors["V"])
        else:
            return None
        return comps[c]

    def lifted(self, k, call=0):
        got = self.sealed_values[self.by_k[k].id, call, 0]
        return [got[c] for c in range(3)]

    def opened_to_edge(self, op, sid, t, name, call, tile, vecs):
        super().opened_to_edge(op, sid, t, name, call, tile, vecs)
        e = self.edge(op, tile)
        head, tail, other = e, (e + 1) % 3, (e + 2) % 3
        pads = [self.words(self.pair(p, other), "mask", 0, op, call, tile, t.count) for p in (head, tail)]
        if name in ("TRUNC", "MASK") and (other, head) not in vecs:
            a, b, c = [self.component(op, call, tile, x) for x in (head, tail, other)]
            self.want(vecs[head, tail], add(a, pads[0]), "HEAD's part of an OPEN2")
            self.want(vecs[tail, head], add(c, pads[1]), "TAIL's part of an OPEN2")
            xh = add(vecs[head, tail], vecs[tail, head], b)
            self.opened(op, call, e, xh, pads, name)
        if name == "BIT":
            self.later.append((op, call, e, vecs))

    def open_leaves(self):
        self.later = []
        super().open_leaves()
        for args in self.later:
            self.bits(*args)

    def opened(self, op, call, e, xh, pads, name):
        if name == "TRUNC":
            xh = [x + (1 << 62) & M64 for x in xh]
        self.tensors[op.k, "xh"] = xh, add(*pads)

    # ---- comparison bits, by the DPF's keys ----

    def bits(self, op, call, e, vecs):
        """What HEAD and TAIL sent is their share of the bit, by root, key and point, under 1-bit pads."""
        head, tail, other = e, (e + 1) % 3, (e + 2) % 3
        xh, _ = self.tensors[op.k, "xh"]
        if op.k == FUNCTION and call == 2:
            xh = [xh[i] - xh[i + 1] & M64 for i in range(0, len(xh), 2)]
        n = {TRUNC: F, RELU: Z_BITS, FUNCTION: 30 if call == 2 else 29}[op.k]
        for p, peer, side in ((head, tail, 0), (tail, head, 1)):
            key = self.key_stream(op, other, p, call if op.k == FUNCTION else 0)
            c = len(xh)
            pad = self.words(self.pair(p, other), "mask", 2, op, call, 0, c)
            roots = self.words(self.pair(p, other), "root", 0, op, call, 0, 2 * c)
            for i, x in enumerate(xh):
                dealt = 0 if side == 0 else {TRUNC: 24, RELU: 16, FUNCTION: 0}[op.k]
                le = self.dpf(key, n, c, i, roots[2 * i:2 * i + 2], side, x & (1 << n) - 1, dealt)
                if op.k == FUNCTION:
                    # A share of [alpha <= z], HEAD's XOR bit n of z; one word, so one bit of word i of the pad.
                    bit = le ^ (x >> n & 1 if side == 0 else 0) ^ pad[i] & 1
                else:
                    # [z < alpha] is 1 XOR that, the 1 taken by HEAD; bit i mod 64 of word i / 64 of the pad.
                    bit = le ^ (1 - side) ^ pad[i // 64] >> i % 64 & 1
                self.want(vecs[p, peer][i], bit, "the bit of element %d, op %d, call %d" % (i, op.k, call))

    # ---- products on triples ----

    def masks(self, tag, op, n):
        """Component p of a mask is the word that p shares with p - 1, of the session that makes the triple."""
        pairs = (self.maker or self.run).pairs
        return [self.words(pairs[p, (p + 2) % 3], tag, 0, op, 1, 0, n) for p in range(3)]

    def stream(self, op, name, call=0):
        return wire.stream_id(self.run.sub, self.number, op.id, name, call, 0)

    def to_all(self, op, name, call):
        """Components of what an op opened to all."""
        sid = self.stream(op, name, call)
        return [[v for m in self.messages if self.op_of[m.op_id] is op and (m.src, m.dst) == (p, (p + 1) % 3)
                 for t in m.tlvs if t.type == 0x11 and t.id == sid for v in t.elements()] for p in range(3)]

    def on_triple(self, op, x, y):
        first = self.by_k[BEAVER_DCF]  # it is the first that reads V on a triple
        n = len(x[0])
        a, b = self.masks("tripleA", op, n), self.masks("tripleB", first, n)
        e, f = self.to_all(op, "GEMM_E", 1), self.to_all(first, "GEMM_F", 1)
        for p in range(3):
            self.want(e[p], sub(x[p], a[p]), "component %d of X - A" % p)
            self.want(f[p], sub(y[p], b[p]), "component %d of Y - B" % p)

        def prod(u, v):
            return [i * j & M64 for i, j in zip(u, v)]

        # a tile has a C of its own, and here one block, which goes on from those of the tiles before
        tiles = TILES.get(op.k, 1)
        c, zs = [[], [], []], [[], [], []]
        for tile in range(tiles):
            part, zero = self.reshared(op, self.maker, tile), self.zero_shares(op, 1, n // tiles, 1, self.maker, tile)
            for p in range(3):
                c[p] += part[p]
                zs[p] += zero[p]
            body = le32(op.id) + le64(wire.triple_id(self.run.sub, self.number, op.id, tile))
            need(all(self.leaf(0x7E, body) in self.known[p] for p in range(3)), "a tile's triple without a leaf")
        z = local_product(a, b, prod)
        for p in range(3):
            self.want(c[p], add(z[p], zs[p]), "C of a triple")
        ee, ff = add(*e), add(*f)
        out = [add(c[p], prod(ee, b[p]), prod(a[p], ff)) for p in range(3)]
        out[0] = add(out[0], prod(ee, ff))
        return out

    def gate_of(self, op):
        return {TRUNC: 2, RELU: 3, FUNCTION: 4}[op.k]

    # ---- outputs ----

    def opened_to_all(self, op, sid, t, name, vecs):
        super().opened_to_all(op, sid, t, name, vecs)
        comps = self.sealed_values[op.id, sid]
        n = op.k - wire.IO_FIRST
        if name == "OUT" and n == 2:
            self.want(comps, self.on_triple(self.by_k[BEAVER], self.lifted(TRUNC), self.tensors["V"]), "output E")
        elif name == "OUT" and n == 5:
            z = local_product(self.lifted(TRUNC), self.tensors["V"], elementwise)
            want = self.by_block(self.by_k[ELEM], z, F, self.rounded)
            self.want(comps, want, "output N")
        elif name == "OUT" and n == 7:
            self.want(comps, self.by_block(self.by_k[ROUND], self.lifted(TRUNC), 5, self.rounded_here), "output R")
        elif name == "OUT":
            k, call = {0: (BEAVER_DCF, 0), 1: (TRUNC_SR, 0), 3: (FUNCTION, 6), 4: (FUNCTION, 7)}.get(n, (None, 0))
            if k is not None:
                self.want(comps, self.lifted(k, call), "output %d" % n)

    # ---- the check of a product ----

    def digests_check(self):
        """Commitments, coin, E and F, verdicts; and the leaves that they leave."""
        start, check = self.by_k[START], self.by_k[CHECK]
        sid = self.stream(start, "COIN")
        hashes = [b"", b"", b""]
        for call, name in enumerate(("X", "W", "C")):
            fss = wire.fss_id(self.run.sub, self.number, start.id, call, 0)
            for c in range(3):
                salt = pack_words(self.words(self.pair(c, c + 2), "salt", 0, start, call, 0, 4))
                k = mac(salt, b"COMMIT", wire.tree(pack_words(self.tensors[name][c])))
                hashes[c] += k
                self.add((c, (c + 2) % 3), 0x7B, le32(start.id) + le64(fss) + u8(c) + k)
        roots = [H(b"UVCC_CHECK_V2", le64(sid), u8(c), wire.tree(hashes[c])) for c in range(3)]
        shares = [pack_words(self.run.own[p].F("own", 1, self.number, start.ordinal, 0, 0, 4)) for p in range(3)]
        commits = [H(b"UVCC_COIN_V1", self.run.sub, le32(self.number), le32(self.run.run), le32(start.id), u8(p),
                     shares[p]) for p in range(3)]
        for p in range(3):
            for q in ((p + 1) % 3, (p + 2) % 3):
                for what, digest in ((0, roots[p]), (1, commits[p]), (2, shares[p])):
                    self.want(self.digest_tlv(start, sid, p, q, what), digest, "SKS_START's digest %d" % what)
        seed = H(b"UVCC_COIN_SEED_V1", *commits, *shares, *roots)
        self.add((0, 1, 2), 0x79, le32(start.id) + seed)
        need(1000 * int.from_bytes(seed[16:20], "little") >> 32 < 1000, "a product that is always selected")
        self.verdict(start, check, seed)

    def verdict(self, start, check, seed):
        a, b, c = self.tensors["X"], self.tensors["W"], self.tensors["C"]
        rows, inner, cols = 2, 3, 2
        key = seed[:16]
        u, v = [wire.prg_words(key, lane, start.ordinal, 0, 0, n) for lane, n in ((0, rows), (1, cols))]
        ut = [x >> j & 1 for j in range(T) for x in u]  # T x rows
        vm = [x >> j & 1 for x in v for j in range(T)]  # cols x T
        n = T * inner
        x, y = ([self.words(self.pair(p, p - 1), tag, 0, start, 0, 0, n) for p in range(3)]
                for tag in ("tripleA", "tripleB"))
        e = [sub(matmul(ut, a[p], T, rows, inner), x[p]) for p in range(3)]
        y = [transpose(w, T, inner) for w in y]  # its words are those of Y^T
        bv = [matmul(b[p], vm, inner, cols, T) for p in range(3)]
        f = [transpose(sub(bv[p], y[p]), inner, T) for p in range(3)]
        self.want(self.to_all(check, "SKS_E", 0), e, "E of a check")
        self.want(self.to_all(check, "SKS_F", 0), f, "F of a check")
        xy, zs = self.reshared(start), self.zero_shares(start, 1, T * T)

        def prod(p, q):
            return matmul(p, q, T, inner, T)

        z = local_product(x, y, prod)
        for p in range(3):
            self.want(xy[p], add(z[p], zs[p]), "X Y of a check")
        ee, ff = add(*e), transpose(add(*f), T, inner)
        comps = []
        for p in range(3):
            t = matmul(matmul(ut, c[p], T, rows, cols), vm, T, cols, T)
            comps.append(sub(t, add(xy[p], prod(ee, y[p]), prod(x[p], ff))))
        comps[0] = sub(comps[0], prod(ee, ff))
        self.want(add(*comps), [0] * (T * T), "Z of a right product")
        z = b"".join(pack_words(comps[p]) for p in range(3))
        sid = self.stream(check, "SKS_Z")
        for p in range(3):
            for q in ((p + 1) % 3, (p + 2) % 3):
                salt = self.run.pairs[p, q].leaf_salt(self.number)
                self.want(self.digest_tlv(check, sid, p, q, 3), mac(salt, b"SKS", u8(p), le32(check.id), wire.tree(z)), "a verdict")
        self.add((0, 1, 2), 0x7A, le32(check.id) + u8(1))

    # ---- key rounds of the function ----

    def key_leaves(self):
        super().key_leaves()
        op = self.by_k[FUNCTION]
        for m in self.messages:
            if self.op_of[m.op_id] is op and m.name == "KEYS_BATCH":
                b = self.rows[self.row_of[m.op_id]][3]
                call, _ = self.find_fss(op, m.tlvs[0].id)
                # The round of the width whose instructions have keys first comes first: b = 0 has call 2.
                self.want(FN_FIRST[call], {0: 2, 1: 4}[b], "the key rounds of a function")
