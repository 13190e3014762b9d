"""How ops are cut into segments, written from docs/wire.md ("Batches, rounds and parts", "Segments") alone.

    cut.py > ../vectors/segments.json      the vectors of it, which test_segments holds the library to

An op is what it sends for so many of its units: rounds, each of a frame kind, with the most bytes that a block of it
can add to a message. The same rules give its batches.
"""

import json
import sys

BLOCK, MESSAGE, ELEMS, KEYS, PARTS, BATCHES = 4096, 8 << 20, 1 << 19, 1 << 25, 64, 1 << 16
EXACT, STOCHASTIC = 0, 1


def up(a, b):
    return -(-a // b)


class Round:
    """A set of vectors of equal length: `bits` of each element, or a block's key stream, or what one message has."""

    def __init__(self, kind, elements, bits=None, key_bytes=None, words=None):
        self.kind, self.blocks, self.keys = kind, up(elements, BLOCK), key_bytes is not None
        count = min(elements, BLOCK)
        if bits is not None:
            self.most = 512 * bits + 32
        elif self.keys:
            stream = key_bytes * count
            self.most = stream + 24 * (stream // 32768 + 2)
        else:
            n, tlvs = words(count)
            self.most = 8 * n + 24 * tlvs
        room = (MESSAGE - 16 - 48) // self.most
        self.parts = up(self.blocks, room) if room else PARTS + 1

    def key_bytes(self):
        return self.blocks * self.most + 128 * self.parts if self.keys else 0


def packed(count, bits):
    """Words that `bits` bits of each element take."""
    return up(count * bits, 64)


def dpf_bytes(f):
    """TAIL's key stream of an exact truncation by f bits: the tree, three dealt words."""
    levels = max(f - 7, 0)
    return 16 * (levels + 1) + up(2 * levels, 8) + 24


def rounds_of(op, elements):
    """Of an op that makes so many elements. op: kind, shift, truncation."""
    kind, f, how = op["op"], op.get("shift", 0), op.get("truncation", EXACT)
    if kind == "INPUT":
        return [Round("INPUT", elements, bits=64)]
    if kind in ("OUTPUT", "OUTPUT_TO"):
        return [Round("OPEN", elements, bits=64)]
    if f == 0:
        return [Round("RESHARE", elements, bits=64)]
    if how == STOCHASTIC and kind == "TRUNCATE":
        return [Round("RESHARE", elements, words=lambda c: (c + packed(c, f), 2))]
    if how == STOCHASTIC:
        return [Round("RESHARE", elements, words=lambda c: (c, 1)),
                Round("RESHARE", elements, words=lambda c: (c + packed(c, 1), 2))]
    if kind != "TRUNCATE":
        raise ValueError("what this op sends is not written down here")
    return [Round("OPEN", elements, bits=64), Round("OPEN", elements, bits=1), Round("LIFT", elements, bits=64),
            Round("KEYS", elements, key_bytes=dpf_bytes(f))]


class Cut:
    """segments: (first unit, units, elements, first b, batches) of each."""

    def __init__(self, op):
        self.op = op
        rows, cols = op["rows"], op["cols"]
        by_row = op["op"] == "GEMM_SS"
        self.units, self.unit = (rows, cols) if by_row else (rows * cols, 1)
        self.least = 1 if by_row else BLOCK
        self.per = self.units if self.is_small(self.units) and self.fits(self.units) else self.find()
        count = up(self.units, self.per)
        self.batches = self.batches_of(self.per)
        if self.batches * count > BATCHES:
            raise ValueError("too many batches")
        self.segments = []
        for s in range(count):
            n = min(self.per, self.units - s * self.per)
            self.segments.append((s * self.per, n, n * self.unit, s * self.batches, self.batches_of(n)))

    def rounds(self, units):
        return rounds_of(self.op, units * self.unit)

    def fits(self, units):
        return all(r.parts <= PARTS for r in self.rounds(units))

    def is_small(self, units):
        return units * self.unit <= ELEMS and sum(r.key_bytes() for r in self.rounds(units)) <= KEYS

    def rounded(self, units):
        return max(units - units % self.least, self.least)

    def find(self):
        n = min(self.rounded(ELEMS // self.unit), self.units)
        while not (self.is_small(n) and self.fits(n)) and n > self.least:
            n = self.rounded(n // 2)
        return n

    def batches_of(self, units):
        """The greatest number that any kind of frame counts to."""
        by_kind = {}
        for r in self.rounds(units):
            by_kind[r.kind] = by_kind.get(r.kind, 0) + r.parts
        return max(by_kind.values())


def case(op, rows, cols, **more):
    return dict({"op": op, "rows": rows, "cols": cols, "shift": 0, "truncation": EXACT}, **more)


CASES = [
    case("INPUT", 1, ELEMS), case("INPUT", 1, ELEMS + 1), case("INPUT", 3, 530001),
    case("OUTPUT", 1, 530001), case("OUTPUT_TO", 769, 769),
    case("ELEM_MUL", 1, ELEMS), case("ELEM_MUL", 1030, 520), case("ELEM_MUL", 1 << 15, 1 << 16),
    case("GEMM_SS", 1024, 512), case("GEMM_SS", 769, 769), case("GEMM_SS", 1025, 512), case("GEMM_SS", 3, 600000),
    case("GEMM_SS", 2, 300000),
] + [case("ELEM_MUL", 1, n, shift=f, truncation=STOCHASTIC) for n, f in ((ELEMS, 1), (ELEMS + 1, 16), (530001, 5))] + [
    case("TRUNCATE", 1, n, shift=f, truncation=STOCHASTIC) for n, f in ((ELEMS, 16), (530001, 7), (1 << 22, 60))] + [
    case("TRUNCATE", 1, n, shift=f)
    for n, f in ((1, 16), (43 * BLOCK, 16), (43 * BLOCK + 1, 16), (200000, 16), (1 << 20, 1), (1 << 20, 8), (1 << 18, 40),
                 (BLOCK, 62), (1 << 22, 62))]


def vectors():
    out = []
    for op in CASES:
        c = Cut(op)
        # the ordinal counts segments where it counts ops; the op is its entry's first
        out.append(dict(op, count=len(c.segments), batches=c.batches, units=c.per, last={
            "ordinal": len(c.segments) - 1, "first_unit": c.segments[-1][0], "units": c.segments[-1][1],
            "elements": c.segments[-1][2], "first_b": c.segments[-1][3], "batches": c.segments[-1][4]}))
    return {"cases": out}


if __name__ == "__main__":
    json.dump(vectors(), sys.stdout, indent=1)
    print()
