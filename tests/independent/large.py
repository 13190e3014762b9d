"""The program of large ops of make_run.c, segment by segment: where each is cut (cut.py), which row of the op table,
ordinal, pads and blocks it has, what it sent, and what its values are (docs/wire.md, "Segments"). The window in which
it ran is no part of that."""

import cut
import wire
from known import Values, add, elementwise, local_product, sub
from wire import BLOCK, FWD, IO_FIRST, M64, UPD, need

SIDE, LONG, ROWS, COLS, F = 769, 530001, 400, 500, 16
C, T, U, D, V = range(5)  # k
INPUTS = (("A", SIDE, 1), ("B", 1, SIDE), ("X", 1, LONG), ("G", ROWS, 1), ("H", 1, COLS))
OUT_U, OUT_V, OUT_C = (UPD, IO_FIRST), (UPD, IO_FIRST + 1), (UPD, IO_FIRST + 256 + 2)

OPS = {
    (FWD, C): cut.case("GEMM_SS", SIDE, SIDE),
    (FWD, T): cut.case("TRUNCATE", 1, LONG, shift=7, truncation=cut.STOCHASTIC),
    (FWD, U): cut.case("ELEM_MUL", 1, LONG, shift=5, truncation=cut.STOCHASTIC),
    (FWD, D): cut.case("GEMM_SS", ROWS, COLS),
    (FWD, V): cut.case("TRUNCATE", ROWS, COLS, shift=F),
    OUT_U: cut.case("OUTPUT", 1, LONG),
    OUT_V: cut.case("OUTPUT", ROWS, COLS),
    OUT_C: cut.case("OUTPUT_TO", SIDE, SIDE),
}
OPS.update({(FWD, IO_FIRST + i): cut.case("INPUT", rows, cols) for i, (_, rows, cols) in enumerate(INPUTS)})
CUTS = {at: cut.Cut(op) for at, op in OPS.items()}


def outer(a, b):
    return [x * y & M64 for x in a for y in b]


def signed(values):
    return [v - (v >> 63 << 64) for v in values]


class LargeStep(Values):
    def batches(self, phase, mb, k):
        return CUTS[phase, k].batches

    def __init__(self, run, number, rows):
        super().__init__(run, number, rows)
        self.points = {}
        self.by_place = {}
        for op in self.ops:
            self.by_place.setdefault((op.phase, op.k), []).append(op)
        need(sorted(self.by_place) == sorted(CUTS), "ops that the program does not have")
        for place, ops in self.by_place.items():
            self.check_rows(CUTS[place], ops)

    def check_rows(self, c, ops):
        """Segments have the rows and elements that the cut gives them."""
        self.want(len(ops), len(c.segments), "the number of segments")
        for op, (first, _, elements, b, batches) in zip(ops, c.segments):
            have = sum(o is op for o in self.op_of.values())
            self.want((op.b, have), (b, batches), "the rows of a segment")
            op.first, op.count = first * c.unit, elements
            if op is not ops[0]:
                before = ops[ops.index(op) - 1]
                self.want(op.ordinal, before.ordinal + 1, "a segment's ordinal")

    def segments(self, place):
        return self.by_place[place]

    def part(self, op, comps):
        return [c[op.first:op.first + op.count] for c in comps]

    def over(self, place, one):
        """Components of the whole: those of its segments, one after the other."""
        parts = [one(op) for op in self.segments(place)]
        return [sum((p[c] for p in parts), []) for c in range(3)]

    def long_words(self, p, q, tag, lane, op):
        """A pad of all elements of a segment, which has a stream for each block."""
        return sum((self.words(self.pair(p, q), tag, lane, op, 0, b, min(BLOCK, op.count - b * BLOCK))
                    for b in range(-(-op.count // BLOCK))), [])

    def sent(self, op, kind, src, dst, tlv_type):
        ts = [t for m in self.messages if self.op_of[m.op_id] is op and m.name == kind and (m.src, m.dst) == (src, dst)
              for t in m.tlvs if t.type == tlv_type]
        need([t.first for t in sorted(ts, key=lambda t: t.first)] == list(range(0, op.count, BLOCK)), "blocks from 0 on")
        return sum((wire.words(t.words) for t in sorted(ts, key=lambda t: t.first)), [])

    def transcripts(self, shapes, known):
        for i, (name, _, _) in enumerate(INPUTS):
            self.input(name, i, i % 3)
        x = self.tensors
        x[C] = self.over((FWD, C), lambda op: self.product(op, x["A"], x["B"]))
        x[D] = self.over((FWD, D), lambda op: self.product(op, x["G"], x["H"]))
        x[T] = self.over((FWD, T), lambda op: self.by_block(op, self.part(op, x["X"]), 7, self.rounded_here))
        x[U] = self.over((FWD, U), self.square)
        return super().transcripts(shapes, known)

    def input(self, name, i, owner):
        def one(op):
            rest = self.sent(op, "INPUT_BATCH", owner, (owner + 1) % 3, 0x41)
            self.want(rest, self.sent(op, "INPUT_BATCH", owner, (owner + 2) % 3, 0x41), "an input, to both others")
            comps = {owner: self.long_words(owner, owner - 1, "input", 0, op),
                     (owner + 1) % 3: self.long_words(owner, owner + 1, "input", 0, op), (owner + 2) % 3: rest}
            return [comps[c] for c in range(3)]

        comps = self.over((FWD, IO_FIRST + i), one)
        given = next(r.fields[3] for r in self.run.records[owner]
                     if r.name == "INPUT" and (r.fields[1], r.fields[2]) == (self.number, 1 + i))
        self.want(add(*comps), wire.words(given), "the components of input %s" % name)
        self.tensors[name] = comps

    def product(self, op, a, b):
        """Rows of a product of one column and one row, reshared."""
        cols = len(b[0])
        z = local_product([c[op.first // cols:(op.first + op.count) // cols] for c in a], b, outer)
        out = []
        for p in range(3):
            zero = sub(self.long_words(p, p + 1, "zero", 0, op), self.long_words(p, p + 2, "zero", 0, op))
            out.append(self.sent(op, "RESHARE_BATCH", p, (p + 2) % 3, 0x21))
            self.want(out[-1], add(z[p], zero), "the reshare of a product")
        return out

    def square(self, op):
        t = self.part(op, self.tensors[T])
        return self.by_block(op, local_product(t, t, elementwise), 5, self.rounded)

    # ---- the exact truncation, on keys ----

    def component(self, op, call, block, c):
        """Of what is opened to an edge, which only it does."""
        first = op.first + block * BLOCK
        return self.tensors[D][c][first:min(first + BLOCK, op.first + op.count)]

    def gate_of(self, op):
        return 2

    def opened_to_edge(self, op, sid, t, name, call, tile, vecs):
        super().opened_to_edge(op, sid, t, name, call, tile, vecs)
        head, tail, other = self.roles(op, tile)
        if name == "TRUNC":
            a, b, c = [self.component(op, call, tile, x) for x in (head, tail, other)]
            pads = [self.words(self.pair(p, other), "mask", 0, op, call, tile, t.count) for p in (head, tail)]
            self.want(vecs[head, tail], add(a, pads[0]), "HEAD's part of an OPEN2")
            self.want(vecs[tail, head], add(c, pads[1]), "TAIL's part of an OPEN2")
            self.points[op.id, tile, "x"] = add(vecs[head, tail], vecs[tail, head], b)
        else:
            self.points[op.id, tile, "bits"] = vecs

    def open_leaves(self):
        super().open_leaves()
        for op in self.segments((FWD, V)):
            for block in range(-(-op.count // BLOCK)):
                self.bits(op, block)

    def bits(self, op, block):
        """Of a block's first and last element, since trees are slow here."""
        head, tail, other = self.roles(op, block)
        x, sent = self.points[op.id, block, "x"], self.points[op.id, block, "bits"]
        c = len(x)
        for p, peer, side in ((head, tail, 0), (tail, head, 1)):
            key = self.key_stream(op, other, p, 0, block)
            pad = self.words(self.pair(p, other), "mask", 2, op, 0, block, c)
            roots = self.words(self.pair(p, other), "root", 0, op, 0, block, 2 * c)
            for i in (0, c - 1):
                le = self.dpf(key, F, c, i, roots[2 * i:2 * i + 2], side, x[i] & (1 << F) - 1, 24 * side)
                bit = le ^ (1 - side) ^ pad[i // 64] >> i % 64 & 1
                self.want(sent[p, peer][i], bit, "the bit of element %d, block %d" % (i, block))

    # ---- outputs ----

    def opened_to_all(self, op, sid, t, name, vecs):
        super().opened_to_all(op, sid, t, name, vecs)
        comps = self.sealed_values[op.id, sid]
        if (op.phase, op.k) == OUT_U:
            self.want(comps, self.part(op, self.tensors[U]), "output U")
            return
        lifted = self.over((FWD, V), lambda s: [sum((self.sealed_values[s.id, 0, b][c]
                                                     for b in range(-(-s.count // BLOCK))), []) for c in range(3)])
        self.want(comps, lifted, "output V")
        self.want(signed(add(*comps)), [v >> F for v in signed(add(*self.tensors[D]))], "an exact truncation")

    def opened_components(self, op, to):
        """Of C, whose opening to one party is all that is left to it."""
        return [self.part(op, self.tensors[C])[c] for c in (to, (to + 1) % 3)]
