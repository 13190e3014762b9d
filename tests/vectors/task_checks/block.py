"""A block of a form B task: sections 2 and 4.4 of docs/compute.md."""

from .keys import Dpf, dcf_bytes, dpf_sections
from .words import (
    ARS, BLOCK, DCF, HEAD, RELU, ROLES, TAIL, bytes_of, demand, words_of,
)


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
        self.cols, self.step = args.get("cols", 0), args.get("step", 0)
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
