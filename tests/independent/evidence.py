"""Bundles, job roots and trees of them, read and checked from docs/wire.md and docs/audit.md alone.

verify_tree() gives every fault that it finds, not the first: which of several faults an auditor names is
not laid down, so the tool's fault must be one of these (agree()).
"""

import os
import re
import struct
import zlib

import wire
from wire import H, le32, u8

TREE, CUT, LEFT_OVER, MAGIC, CHECKSUM, HEADER, TABLE, FORM, FIELD, OP, ORDER, TWICE, BEGIN, ROOT, GLOBAL = range(15)
SIGNATURE, OTHER_STEP, DIFFERS, NO_COUNTERPART, MISSING, TWO_ROOTS, PATH, AUDIT_ROOT, BEFORE, FIRST = range(15, 25)
CANCELLED, RECEIVER = 26, 27

# Leaf without its sid, by type: the form of what follows the type (docs/wire.md 8).
FORMS = {
    0x70: "<IIHHH32s32s32s", 0x71: "<IBBI32s", 0x72: "<IBBI32s", 0x73: "<IQH32s", 0x74: "<IBBI32s",
    0x75: "<IBBI32s", 0x76: "<IBB32s", 0x77: "<IBBI32s", 0x78: "<IBBI32s", 0x79: "<I32s", 0x7A: "<IB",
    0x7B: "<IQB32s", 0x7C: "<IQI", 0x7E: "<IQ",
    0x7F: "<I",
}
SENT, RECEIVED = (0x71, 0x74, 0x77), (0x72, 0x75, 0x78)
BATCH_KINDS = {0x71: ("OPEN_BATCH",), 0x74: ("RESHARE_BATCH", "INPUT_BATCH"), 0x77: ("LIFT_BATCH",)}


class Fault(Exception):
    """kind: a number of docs/audit.md; file: whose bundle or job root, None for the tree; leaf: its index there.
    A fault between two bundles has other, the other party, and other_leaf."""

    def __init__(self, kind, what, leaf=None, other=None, other_leaf=None, kinds=()):
        super().__init__(what)
        self.kind, self.what, self.leaf, self.other, self.other_leaf = kind, what, leaf, other, other_leaf
        self.kinds = (kind,) + tuple(kinds)  # kinds between which the documents do not decide
        self.file = self.party = self.step = self.run = None

    def __str__(self):
        return "%s: kind %s, leaf %s, other %s leaf %s: %s" % (
            self.file, "/".join(map(str, self.kinds)), self.leaf, self.other, self.other_leaf, self.what)


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

    def form(self, form):
        return struct.unpack(form, self.take(struct.calcsize(form)))


def crc(*parts):
    return zlib.crc32(b"".join(parts))


class Head:
    """What bundles, job roots and proofs begin with. Version 1 has no `first`."""

    seen = 0

    def read_head(self, c, magic):
        name = c.take(8)
        if name[:7] != magic or name[7] not in (1, 2):
            raise Fault(MAGIC, "it is of another kind or version")
        self.version = Head.seen = name[7]
        (self.party, self.flags, self.R, self.S, self.T, self.r, self.s, self.t, self.sid_job, self.step,
         self.run) = c.form("<BB6H32sII")
        self.first = c.num(4) if self.version == 2 else 0
        self.policy = c.take(32)

    def write_head(self, magic):
        return magic + u8(self.version) + struct.pack(
            "<BB6H32sII", self.party, self.flags, self.R, self.S, self.T, self.r, self.s, self.t, self.sid_job, self.step,
            self.run) + (le32(self.first) if self.version == 2 else b"") + self.policy

    def check_head(self):
        if not (self.party < 3 and self.flags == 0 and self.R and self.T and 1 <= self.S <= 256
                and self.r < self.R and self.s < self.S and self.t < self.T and self.run < 1 << 24
                and self.first <= self.step):
            raise Fault(HEADER, "a field of the header is out of range")


class Root:
    """What a party states of a step: a bundle has one of each party, a job root its own."""

    def __init__(self, here=0, root=bytes(32), audit_root=bytes(32), before=bytes(32), signature=bytes(64), version=2):
        self.here, self.root, self.audit_root, self.before = here, root, audit_root, before
        self.signature, self.version = signature, version

    @classmethod
    def read(cls, c, version, here=None):
        here = c.num(1) if here is None else here
        if version == 1:
            return cls(here, c.take(32), signature=c.take(64), version=1)
        return cls(here, *c.form("<32s32s32s64s"))

    @classmethod
    def make(cls, here, root, audit_root, before=bytes(32), version=2):
        return cls(here, root, audit_root, before, version=version)

    def fields(self):
        """Its bytes: here, then what an AUDIT has."""
        if self.version == 1:
            return u8(self.here), self.root, self.signature
        return u8(self.here), self.root, self.audit_root, self.before, self.signature


def statement(head, party, root):
    """What is signed of a step: of a worker (scope 1), or of all workers of a party (scope 2, a job root)."""
    if head.version == 1:
        return b"UVCC_AUDIT_SIG_V1" + u8(party) + root.root + head.policy
    scope = 2 if isinstance(head, JobRoot) else 1
    place = struct.pack("<6H", head.R, head.S, head.T, head.r, head.s, head.t)
    return (b"UVCC_AUDIT_V2" + u8(scope) + u8(party) + head.sid_job + place + le32(head.run) + le32(head.step)
            + le32(head.first) + root.root + root.audit_root + root.before + head.policy)


class Bundle(Head):
    MAGIC = b"uvccbdl"

    def __init__(self, data):
        c = Cursor(data)
        self.read_head(c, self.MAGIC)
        self.data = data
        self.program, rows, leaves = c.form("<32sII")
        at = c.at
        if c.num(4) != crc(data[:at]):
            raise Fault(CHECKSUM, "the header's checksum")
        self.check_head()
        at = c.at
        self.rows = [c.form("<BHHHHI") for _ in range(rows)]
        if c.num(4) != crc(data[at:at + 13 * rows]):
            raise Fault(CHECKSUM, "the op table's checksum")
        self.sub = wire.sid_sub(self.sid_job, self.r, self.s, self.t)
        self.leaves = []
        for i in range(leaves):
            try:
                n = c.num(1)
                body = c.take(n)
                if c.num(4) != crc(le32(i), u8(n), body):
                    raise Fault(CHECKSUM, "a leaf's checksum")
            except Fault as f:
                f.leaf = i
                raise
            self.leaves.append(body)
        at = c.at
        self.step_root = c.take(32)
        self.roots = [Root.read(c, self.version) for _ in range(3)]
        if c.num(4) != crc(data[at:c.at - 4]):
            raise Fault(CHECKSUM, "the end's checksum")
        if c.at != len(data):
            raise Fault(LEFT_OVER, "there is more than its header says")

    def encode(self):
        """The bytes again, with checksums that are right."""
        head = self.write_head(self.MAGIC) + struct.pack("<32sII", self.program, len(self.rows), len(self.leaves))
        rows = b"".join(struct.pack("<BHHHHI", *r) for r in self.rows)
        leaves = b"".join(u8(len(x)) + x + le32(crc(le32(i), u8(len(x)), x)) for i, x in enumerate(self.leaves))
        end = self.step_root + b"".join(b"".join(r.fields()) for r in self.roots)
        return head + le32(crc(head)) + rows + le32(crc(rows)) + leaves + end + le32(crc(end))

    def whole(self, leaf):
        return leaf[:1] + self.sub + leaf[1:]

    def hashes(self):
        return [H(self.whole(x)) for x in self.leaves]

    def own_root(self):
        return wire.worker_root(self.sid_job, self.r, self.step, self.step_root)

    # ---- alone ----

    def check_table(self):
        last, ids = None, set()
        for i, (phase, mb, k, b, attempt, op) in enumerate(self.rows):
            order = (phase, mb, k, b)
            ok = phase < 3 and (mb == 0 or phase < 2) and (last is None or last < order)
            ok = ok and (b == 0 or (last is not None and last == (phase, mb, k, b - 1)))
            ok = ok and op == wire.op_id(self.sub, self.step, phase, mb, k, b, attempt) and op and op not in ids
            if not ok:
                raise Fault(TABLE, "row %d of the op table" % i)
            ids.add(op)
            last = order

    def read_leaf(self, i):
        """(row, name) of a leaf by itself; the name is what its counterparts share."""
        x = self.leaves[i]
        form = FORMS.get(x[0]) if x else None
        if x and x[0] == 0x7D:
            raise Fault(OP, "an ABORT leaf", leaf=i)
        if form is None or len(x) != 1 + struct.calcsize(form):
            raise Fault(FORM, "no leaf", leaf=i)
        kind, v = x[0], struct.unpack(form, x[1:])
        if kind == 0x70:
            return 0, (kind,)
        if kind == 0x7F:
            if v[0] != self.step or len(self.leaves) != 2:
                raise Fault(CANCELLED, "beside the leaf of a dropped step, or of another step")
            return 0, (kind,)
        op = v[0]
        if kind == 0x7A and op == 0:
            if v[1] != 2:
                raise Fault(FIELD, "a verdict of no op", leaf=i, kinds=(OP,))
            return 0, (kind, op)
        if op not in self.row_of:
            raise Fault(OP, "an op id of no row", leaf=i)
        row = self.row_of[op]
        phase, mb, k, b = self.rows[row][:4]
        if kind not in SENT + RECEIVED and b != 0:
            raise Fault(OP, "an op id of a row with b > 0", leaf=i)
        if kind in SENT + RECEIVED:
            src, dst, mid = v[1:4]
            own, peer = (src, dst) if kind in SENT else (dst, src)
            sent = kind if kind in SENT else kind - 1
            ids = (wire.msg_id(self.sub, wire.kind_code(name), op, src & 255, dst & 255, 0, n)
                   for name in BATCH_KINDS[sent] for n in range(1, 10))
            if own != self.party or peer == own or peer > 2 or mid not in ids:
                raise Fault(FIELD, "its source, destination or message id", leaf=i)
            name = (kind, op, src, dst)
        elif kind == 0x76:
            src, dst = v[1:3]
            if src > 2 or dst > 2 or src == dst or self.party not in (src, dst):
                raise Fault(FIELD, "its source or destination", leaf=i)
            name = (kind, op, src, dst)
        elif kind == 0x7A:
            if v[1] != 1:
                raise Fault(FIELD, "a verdict that no finished step has", leaf=i)
            name = (kind, op)
        elif kind == 0x7B:
            if v[2] not in (self.party, (self.party + 1) % 3):
                raise Fault(FIELD, "its component", leaf=i)
            name = (kind, op, v[1], v[2])
        elif kind == 0x73:
            name = (kind, op, v[1], v[2])
        elif kind in (0x7C, 0x7E):
            if kind == 0x7C and not 1 <= v[2] <= wire.BLOCK:
                raise Fault(FIELD, "a block of so many elements", leaf=i)
            name = (kind, op, v[1])
        else:
            name = (kind, op)
        return row, name

    def check_begin(self):
        first = self.leaves[0] if self.leaves else b""
        begin = struct.unpack(FORMS[0x70], first[1:]) if first[:1] == b"p" and len(first) == 111 else None
        if begin is None or begin[:6] != (self.step, self.run, self.R, self.S, self.T, self.program) \
                or begin[7] != wire.optable_hash(self.rows):
            return [Fault(BEGIN, "the first leaf is not a STEP_BEGIN that agrees", leaf=0 if self.leaves else None)]
        return []

    def check_alone(self, keys):
        """Faults of this bundle by itself. With one of form there is no more to compare: it has no roots."""
        self.check_table()
        self.row_of = {r[5]: i for i, r in enumerate(self.rows)}
        self.names, last = {}, None
        faults = self.check_begin()
        for i, x in enumerate(self.leaves):
            try:
                row, name = self.read_leaf(i)
            except Fault as f:
                return faults + [f]
            if name in self.names:
                faults.append(Fault(TWICE, "it is there twice, or another leaf has its name", leaf=i, kinds=(ORDER,)))
            if last is not None and (row, x) <= last:
                faults.append(Fault(ORDER, "it is out of the canonical order", leaf=i))
            last = (row, x)
            self.names[name] = i
        if faults:
            return faults
        if wire.merkle(self.hashes()) != self.step_root:
            faults.append(Fault(ROOT, "the leaves do not give the step root"))
        for p, root in enumerate(self.roots):
            if root.here > 1 or (p == self.party and not root.here):
                faults.append(Fault(HEADER, "the root of party %d is not here" % p, kinds=(SIGNATURE, FORM, GLOBAL)))
            elif not root.here and any(b"".join(root.fields())):
                faults.append(Fault(HEADER, "bytes of a root that is not here", kinds=(SIGNATURE, FORM)))
            elif root.here and not self.root_signed(p, root, keys):
                faults.append(Fault(SIGNATURE, "the root of party %d is not signed" % p,
                                    other=None if p == self.party else p))
            elif root.here and self.version == 2 and self.step == self.first and root.root != root.audit_root:
                faults.append(Fault(AUDIT_ROOT, "the audit root of a run's first step is another than its root",
                                    other=None if p == self.party else p))
        own = self.roots[self.party]
        if own.here == 1 and own.root != self.own_root():
            faults.append(Fault(GLOBAL, "the step root does not give the global root"))
        return faults

    def root_signed(self, p, root, keys):
        return wire.verify(keys[p], root.signature, statement(self, p, root))


# ---- against the two others ----

def is_output(b, op):
    phase, _, k, _ = b.rows[b.row_of[op]][:4]
    return phase == 2 and 256 * 254 <= k <= 256 * 254 + 255


def is_output_to_one(b, op):
    phase, _, k, _ = b.rows[b.row_of[op]][:4]
    return phase == 2 and k >= 256 * 255


def check_receivers(bundles):
    """Of each output to one party: all OPEN_SENT go to it, and it alone has an OPEN_DONE."""
    faults = []
    a = bundles[0]
    ops = [r[5] for r in a.rows if r[0] == 2 and r[2] >= 256 * 255 and r[3] == 0]
    for op in ops:
        mine = {r[5] for r in a.rows if r[:3] == a.rows[a.row_of[op]][:3]}
        sent = [(b, n, i) for b in bundles for n, i in b.names.items() if n[0] == 0x71 and n[1] in mine]
        done = [(b, n, i) for b in bundles for n, i in b.names.items() if n[0] == 0x73 and n[1] == op]
        to = {n[3] for _, n, _ in sent}
        if len(to) != 1 or {b.party for b, _, _ in done} != to or len(done) != 1 or len(sent) < 2:
            for b, _, i in sent + done:
                faults.append(pin(Fault(RECEIVER, "not an opening to one party alone", leaf=i), b))
            faults.append(tree_fault(None, "an opening to one party, without its leaves"))
            faults[-1].kinds = (RECEIVER, MISSING, NO_COUNTERPART)
    return faults


def holders(b, name):
    """Who must have the counterpart of a leaf: a list of parties, or None for "all who have it, at least two"."""
    kind, me = name[0], b.party
    if kind in (0x70, 0x79, 0x7C, 0x7E, 0x7F):
        return [0, 1, 2]
    if kind == 0x7A:
        return [me] if name[1] == 0 else [0, 1, 2]
    if kind in SENT + RECEIVED + (0x76,):
        return [name[2], name[3]]
    if kind == 0x73:
        if is_output_to_one(b, name[1]):
            return [me]
        return [0, 1, 2] if is_output(b, name[1]) else None
    return [name[3], (name[3] + 2) % 3]


def counterpart(name, own, other):
    """The name under which party other has the leaf that own calls so."""
    if name[0] in SENT:
        return (name[0] + 1,) + name[1:]
    if name[0] in RECEIVED:
        return (name[0] - 1,) + name[1:]
    return name


def compare(bundles):
    faults = []
    a = bundles[0]
    for b in bundles[1:]:
        for what in ("sid_job", "R", "S", "T", "r", "s", "t", "step", "run", "policy", "program", "rows"):
            if getattr(a, what) != getattr(b, what):
                f = Fault(OTHER_STEP, "they differ in " + what)
                faults.append(pin(f, b))
                faults.append(pin(Fault(OTHER_STEP, "they differ in " + what), a))
        if a.first != b.first:
            faults += [pin(Fault(FIRST, "they differ in the run's first step"), x) for x in (a, b)]
    if faults:
        return faults
    for b in bundles:
        for name, i in b.names.items():
            want = holders(b, name)
            here = [o for o in bundles if o is not b and counterpart(name, b, o) in o.names]
            for o in here:
                j = o.names[counterpart(name, b, o)]
                if b.leaves[i][1:] != o.leaves[j][1:]:
                    faults.append(pin(Fault(DIFFERS, "it differs", leaf=i, other=o.party, other_leaf=j), b))
            absent = [o for o in bundles if o is not b and o not in here]
            if want is None:
                if not here:
                    f = Fault(NO_COUNTERPART, "nobody else has it", leaf=i)
                    f.any_other = True
                    faults.append(pin(f, b))
                continue
            for o in absent:
                if o.party in want:
                    faults.append(pin(Fault(NO_COUNTERPART, "no counterpart", leaf=i, other=o.party), b))
                    faults.append(pin(Fault(MISSING, "missing", other=b.party, other_leaf=i), o))
    faults += check_receivers(bundles)
    for b in bundles:
        for o in bundles:
            root = b.roots[o.party]
            own = o.roots[o.party]
            if o is not b and root.here and (root.root, root.audit_root, root.before) != (
                    own.root, own.audit_root, own.before):
                faults.append(pin(Fault(TWO_ROOTS, "another root", other=o.party), b))
    return faults


def pin(fault, b):
    fault.file, fault.party, fault.step, fault.run = b.path, b.party, b.step, b.run
    return fault


class JobRoot(Head):
    MAGIC = b"uvccjob"

    def __init__(self, data):
        c = Cursor(data)
        self.read_head(c, self.MAGIC)
        if not (self.R and self.T and 1 <= self.S <= 256 and self.party < 3 and self.flags == 0
                and self.r == self.s == self.t == 0 and self.run < 1 << 24):
            bad = Fault(HEADER, "a field of the header is out of range", kinds=(CHECKSUM, CUT, LEFT_OVER))
            raise bad
        # Its only checksum is its last bytes, so a cut or longer one has a wrong checksum too.
        n = 32 * self.R * self.S * self.T
        if len(data) != c.at + n + (100 if self.version == 1 else 164):
            raise Fault(CUT if len(data) < c.at + n + 164 else LEFT_OVER, "its length", kinds=(CHECKSUM, HEADER))
        self.step_roots = [c.take(32) for _ in range(self.R * self.S * self.T)]
        self.own = Root.read(c, self.version, 1)
        if c.num(4) != crc(data[:c.at - 4]):
            raise Fault(CHECKSUM, "its checksum")

    def encode(self):
        data = self.write_head(self.MAGIC) + b"".join(self.step_roots) + b"".join(self.own.fields()[1:])
        return data + le32(crc(data))

    def root(self):
        per = self.S * self.T
        return wire.global_root(self.sid_job, self.step, [
            wire.replica_root(self.sid_job, r, self.step, self.step_roots[r * per:(r + 1) * per])
            for r in range(self.R)])

    def check_alone(self, keys):
        faults = []
        if self.own.root != self.root():
            faults.append(Fault(GLOBAL, "the step roots do not give the global root"))
        if not wire.verify(keys[self.party], self.own.signature, statement(self, self.party, self.own)):
            faults.append(Fault(SIGNATURE, "not signed by the party's key"))
        return faults


# ---- trees ----

BUNDLE_PATH = re.compile(r"party-([012])/r(0|[1-9]\d*)s(0|[1-9]\d*)t(0|[1-9]\d*)/run-(\d{6,})/step-(\d{8,})\.bundle")
JOB_PATH = re.compile(r"party-([012])/job/run-(\d{6,})/step-(\d{8,})\.root")


def read_keys(text):
    lines = text.split(b"\n")
    if len(text) != 221 or len(lines) != 5 or lines[0] != b"uvcc public keys v1" or lines[4]:
        return None
    keys = []
    for p in range(3):
        m = re.fullmatch(rb"%d ([0-9a-fA-F]{64})" % p, lines[1 + p])
        if not m:
            return None
        keys.append(bytes.fromhex(m.group(1).decode()))
    return keys


class Outcome:
    def __init__(self):
        self.usable, self.faults, self.audit_root = True, [], [None] * 3
        self.leaves = self.bundles = 0
        self.steps, self.unknown = [], []


def tree_fault(path, what):
    f = Fault(TREE, what)
    f.file = path
    return f


def load(path, rel, kind, place, out):
    """A file read and checked alone; None if nothing more can be said of it."""
    with open(path, "rb") as fh:
        data = fh.read()
    try:
        b = kind(data)
        b.path = rel
        faults = b.check_alone(out.keys)
        out.faults += [pin(f, b) for f in faults]
        if any(f.kinds[0] < ROOT for f in faults):
            return None
    except Fault as f:
        f.file, (f.party, f.run, f.step) = rel, place[:3]
        out.faults.append(f)
        return None
    mine = (b.party, b.run, b.step) + ((b.r, b.s, b.t) if kind is Bundle else ())
    if mine != place:
        f = tree_fault(rel, "it stands in another's place")
        f.kinds = (TREE, OTHER_STEP)
        out.faults.append(f)
        return None
    return b


def verify_tree(top, keys=None, unfinished=False):
    out = Outcome()
    try:
        with open(os.path.join(top, "public-keys"), "rb") as fh:
            out.keys = keys or read_keys(fh.read())
    except OSError:
        out.keys = keys
    if out.keys is None:
        out.usable = False
        return out
    found, job_files = {}, {}
    for base, _, names in sorted(os.walk(top)):
        for name in sorted(names):
            rel = os.path.relpath(os.path.join(base, name), top)
            if rel in ("public-keys", "lock") or name.endswith(".part"):
                continue
            m, j = BUNDLE_PATH.fullmatch(rel), JOB_PATH.fullmatch(rel)
            if m:
                p, r, s, t, run, step = map(int, m.groups())
                found[(r, s, t), run, step, p] = rel
            elif j:
                p, run, step = map(int, j.groups())
                job_files[run, step, p] = rel
            else:
                out.faults.append(tree_fault(rel, "a foreign file"))
    if unfinished:
        pass_over(found, job_files)
    bundles = {k: load(os.path.join(top, rel), rel, Bundle, (k[3], k[1], k[2]) + k[0], out)
               for k, rel in found.items()}
    jobs = {k: load(os.path.join(top, rel), rel, JobRoot, (k[2], k[0], k[1]), out) for k, rel in job_files.items()}
    if not bundles:
        out.usable = False
        return out
    check_steps(bundles, jobs, out)
    return out


def pass_over(found, job_files):
    """A run that was cut short: its last step, if somebody lacks it, is not looked at, and in no root."""
    workers = {k[0] for k in found}
    for run in {k[1] for k in found}:
        step = max(k[2] for k in found if k[1] == run)
        whole = all((w, run, step, p) in found for w in workers for p in range(3))
        if whole and (len(workers) == 1 or all((run, step, p) in job_files for p in range(3))):
            continue
        for files in (found, job_files):
            for k in [k for k in files if k[-3:-1] == (run, step)]:
                del files[k]


def check_steps(bundles, jobs, out):
    some = next((b for b in bundles.values() if b), None)
    runs = sorted({k[1] for k in bundles})
    if some:
        for b in list(bundles.values()) + list(jobs.values()):
            for what in ("sid_job", "policy", "R", "S", "T"):
                if b and getattr(b, what) != getattr(some, what):
                    out.faults.append(pin(Fault(OTHER_STEP, "the tree's files differ in " + what, kinds=(TREE,)), b))
                    out.faults.append(tree_fault(None, "the tree's files differ in " + what))
    workers = [(r, s, t) for r in range(some.R) for s in range(some.S) for t in range(some.T)] if some else []
    for w in {k[0] for k in bundles} - set(workers):
        out.faults.append(tree_fault(None, "a worker that the topology does not have"))
    signed = [dict() for _ in range(3)]
    parents = check_histories(bundles, jobs, out) if some and some.version == 2 else None
    for run in runs:
        steps = sorted({k[2] for k in bundles if k[1] == run})
        if steps != list(range(steps[0], steps[-1] + 1)):
            out.faults.append(tree_fault(None, "a gap in the steps"))
        for step in steps:
            for w in workers:
                got = [bundles.get((w, run, step, p)) for p in range(3)]
                lack = [p for p in range(3) if (w, run, step, p) not in bundles]
                if lack:
                    out.faults.append(tree_fault(None, "step %d of run %d lacks party %s" % (step, run, lack)))
                for b in got:
                    for p in range(3):
                        if b and not b.roots[p].here and p != b.party and step < steps[-1] - 1:
                            out.faults.append(pin(Fault(TREE, "a peer's root is missing", other=p), b))
                if all(got):
                    out.faults += compare(got)
            for p in range(3):
                root = check_job(run, step, p, workers, bundles, jobs, out)
                if root:
                    signed[p][run, step] = root
    out.steps = sorted({step for _, step in signed[0]})
    out.bundles = len(bundles)
    out.leaves = sum(len(b.leaves) for b in bundles.values() if b)
    for p in range(3):
        out.audit_root[p] = wire.merkle(history(runs, parents, signed[p]))
    for key in jobs:
        if key[0] not in runs:
            out.faults.append(tree_fault(None, "a job root of no run"))


def check_job(run, step, p, workers, bundles, jobs, out):
    """The root that a party signed for a step, of all its workers; None if it is not known."""
    mine = [bundles.get((w, run, step, p)) for w in workers]
    if len(workers) == 1:
        if (run, step, p) in jobs:
            out.faults.append(tree_fault(None, "a job root of one worker"))
        return mine[0].roots[p].root if mine[0] else None
    job = jobs.get((run, step, p))
    if (run, step, p) not in jobs:
        out.faults.append(tree_fault(None, "a job root is missing"))
        return None
    if job and all(mine) and [b.step_root for b in mine] != job.step_roots:
        out.faults.append(pin(Fault(ROOT, "its step roots are not those of the bundles",
                                    kinds=(TREE, GLOBAL, OTHER_STEP, DIFFERS)), job))
    return job.own.root if job else None


# ---- histories: what the statements of a run say of its steps, and of the run before ----

def check_histories(bundles, jobs, out):
    """Of each worker and party, and of each party's job roots: audit roots, first steps, and what runs go on from.
    Gives run -> the run that it goes on from, or None."""
    lines = {}
    for (w, run, step, p), b in bundles.items():
        lines.setdefault((w, p), {}).setdefault(run, {})[step] = (b, b and b.roots[p])
    for (run, step, p), j in jobs.items():
        lines.setdefault((None, p), {}).setdefault(run, {})[step] = (j, j and j.own)
    for line in lines.values():
        for run, steps in line.items():
            check_run(run, steps, out)
    workers = {at: line for at, line in lines.items() if at[0] is not None}
    parents, every = {}, sorted({run for line in workers.values() for run in line})
    for n, run in enumerate(every):
        check_parent(run, every[:n], workers, parents, out)
    return parents


def check_run(run, steps, out):
    """One run of a worker or of a party's job roots: first step, what is before it, and audit roots."""
    first = before = None
    roots, whole = [], True
    for step in sorted(steps):
        b, own = steps[step]
        if b is None:
            whole = False
            continue
        if first is None:
            first, before = b.first, own.before
            if step != first and step == min(steps):
                out.faults.append(tree_fault(None, "run %d lacks its first steps" % run))
                out.faults.append(pin(Fault(FIRST, "its run's first step is not here", kinds=(TREE, AUDIT_ROOT)), b))
                whole = False
        if b.first != first:
            out.faults.append(pin(Fault(FIRST, "another first step than the run's", kinds=(TREE, OTHER_STEP)), b))
        if own.before != before:
            out.faults.append(pin(Fault(BEFORE, "another audit root before the run", kinds=(OTHER_STEP,)), b))
        roots.append(own.root)
        if whole and own.audit_root != wire.merkle(roots):
            out.faults.append(pin(Fault(AUDIT_ROOT, "the audit root is not over the run's roots"), b))


ZEROS, UNKNOWN = "zeros", "unknown"


def parent_of(run, earlier, line, parents):
    """What one worker of one party says that a run goes on from: a run, ZEROS, UNKNOWN; None if it cannot be told."""
    b, own = line[run][min(line[run])]
    if b is None or b.step != b.first:
        return None
    blind = False
    for old in reversed(earlier):
        end, said = line.get(old, {}).get(b.first - 1, (None, None))
        if end and said.audit_root == own.before:
            return old
        blind = blind or end is None
    for old in reversed(earlier):
        begin, said = line.get(old, {}).get(b.first, (None, None))
        if begin and begin.first == b.first and said.before == own.before and parents.get(old) is not None:
            return parents[old]
    if own.before == bytes(32):
        return ZEROS
    return UNKNOWN


def check_parent(run, earlier, workers, parents, out):
    said = []
    for at in sorted(workers, key=lambda a: (a[1], a[0])):
        if run in workers[at]:
            said.append((parent_of(run, earlier, workers[at], parents), workers[at][run][min(workers[at][run])][0], at))
    told = [x for x in said if x[0] is not None]
    if not told:
        parents[run] = None
        return
    kinds = {x[0] for x in told}
    parents[run] = min(kinds, key=lambda k: (k in (ZEROS, UNKNOWN), str(k)))
    b = told[0][1]
    if b.first == 0 and kinds != {ZEROS}:
        # Before step 0 there is nothing to go on from: who says otherwise is named.
        parents[run] = ZEROS
        out.faults += [pin(Fault(BEFORE, "it begins with step 0"), x) for parent, x, _ in told if parent != ZEROS]
        return
    if len(kinds) > 1:
        # An earlier step that a party lacks says nothing; the documents name the first file that is otherwise.
        for parent, x, at in told:
            lost = isinstance(parents[run], int) and workers[at].get(parents[run], {}).get(x.first - 1) is None
            if parent != parents[run] and lost and parent == UNKNOWN:
                continue
            out.faults.append(pin(Fault(BEFORE, "the parties' runs go on from different ones"), x))
        return
    bad = (parents[run] == ZEROS and b.first > 0 and earlier) or (
        parents[run] == UNKNOWN and earlier == list(range(run)))
    if bad:
        out.faults += [pin(Fault(BEFORE, "it goes on from no earlier run"), x) for _, x, _ in told]
    elif parents[run] == UNKNOWN:
        out.unknown.append(run)


def history(runs, parents, roots):
    """The global roots of the last run, and before them those of the runs that it goes on from."""
    if parents is None:  # version 1: of the last run that has the step
        return [root for _, root in sorted({step: root for (_, step), root in sorted(roots.items())}.items())]
    out, upto, run = [], None, max(runs)
    while isinstance(run, int):
        steps = sorted(s for r, s in roots if r == run and (upto is None or s < upto))
        out = [roots[run, s] for s in steps] + out
        first = min([s for r, s in roots if r == run], default=None)
        if first is None:
            break
        upto, run = first if upto is None else min(first, upto), parents.get(run)
    return out


# ---- agreement with the tool ----

def agree(outcome, fault):
    """Whether fault, of the tool's JSON, is one of the outcome's."""
    for f in outcome.faults:
        if fault["kind"] not in f.kinds:
            continue
        if fault["kind"] == TREE:
            return True
        if f.file is not None and not fault["file"].endswith(f.file):
            continue
        if f.leaf is not None and fault["leaf"] is not None and f.leaf != fault["leaf"]:
            continue
        if f.other is not None and f.other != fault["other_party"]:
            continue
        if f.other_leaf is not None and fault["other_leaf"] is not None and f.other_leaf != fault["other_leaf"]:
            continue
        return True
    return False
