"""Bundles, job roots and trees of them, read and checked from docs/wire.md and docs/audit.md alone."""

import struct
import zlib

import wire
from wire import H, le16, le32, le64, u8

NONE, CUT, LEFT_OVER, MAGIC, CHECKSUM, HEADER, TABLE, FORM, FIELD, OP, ORDER, TWICE, BEGIN, ROOT, GLOBAL = range(15)
SIGNATURE, OTHER_STEP, DIFFERS, NO_COUNTERPART, MISSING, TWO_ROOTS, PATH = range(15, 22)


class Fault(Exception):
    def __init__(self, code, what, leaf=None, other=None, other_leaf=None):
        super().__init__(what)
        self.code, self.what, self.leaf, self.other, self.other_leaf = code, what, leaf, other, other_leaf
        self.file = None


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        if len(self.data) - self.at < n:
            raise Fault(CUT, "it ends too early")
        self.at += n
        return self.data[self.at - n:self.at]

    def num(self, n):
        return int.from_bytes(self.take(n), "little")


def crc(*parts):
    return zlib.crc32(b"".join(parts))


class Bundle:
    """The fields of a bundle; only what is needed to find the fields is checked: lengths, magic, checksums."""

    def __init__(self, data):
        c = Cursor(data)
        self.data = data
        if c.take(8) != b"uvccbdl\1":
            raise Fault(MAGIC, "it is of another kind or version")
        (self.party, self.flags, self.R, self.S, self.T, self.r, self.s, self.t, self.sid_job, self.step, self.run,
         self.policy, self.program, rows, leaves) = struct.unpack("<BB6H32sII32s32sII", c.take(126))
        if c.num(4) != crc(data[:134]):
            raise Fault(CHECKSUM, "the header's checksum")
        at = c.at
        self.rows = [struct.unpack("<BHHHHI", c.take(13)) for _ in range(rows)]
        if c.num(4) != crc(data[at:at + 13 * rows]):
            raise Fault(CHECKSUM, "the op table's checksum")
        self.leaves = []
        for i in range(leaves):
            n = c.num(1)
            body = c.take(n)
            if c.num(4) != crc(le32(i), u8(n), body):
                raise Fault(CHECKSUM, "a leaf's checksum", leaf=i)
            self.leaves.append(body)
        at = c.at
        self.step_root = c.take(32)
        self.roots = [(c.num(1), c.take(32), c.take(64)) for _ in range(3)]
        if c.num(4) != crc(data[at:c.at - 4]):
            raise Fault(CHECKSUM, "the end's checksum")
        if c.at != len(data):
            raise Fault(LEFT_OVER, "there is more than its header says")
        self.sub = wire.sid_sub(self.sid_job, self.r, self.s, self.t)

    def whole(self, leaf):
        return leaf[:1] + self.sub + leaf[1:]
