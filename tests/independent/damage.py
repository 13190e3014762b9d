"""Damages to trees of bundles, drawn from a seed. Some are accidents (bits, cuts, lost and exchanged files);
others are what somebody with a party's signing key can do: change what was said, and make checksums, roots and
signatures right again.
"""

import os
import random

import evidence
import wire
from evidence import Bundle, JobRoot
from wire import u8


class Tree:
    """A tree in memory: path -> bytes."""

    def __init__(self, top=None):
        self.files = {}
        for base, _, names in os.walk(top) if top else ():
            for name in sorted(set(names) - {"lock"}):
                path = os.path.join(base, name)
                with open(path, "rb") as fh:
                    self.files[os.path.relpath(path, top)] = fh.read()

    def copy(self):
        t = Tree()
        t.files = dict(self.files)
        return t

    def write(self, top):
        for path, data in self.files.items():
            path = os.path.join(top, path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as fh:
                fh.write(data)

    def bundles(self):
        return sorted(p for p in self.files if p.endswith(".bundle"))

    def jobs(self):
        return sorted(p for p in self.files if p.endswith(".root"))


def adopt(tree, seeds):
    """The tree as if the parties' keys were of these seeds: every root signed anew."""
    lines = b"".join(b"%d %s\n" % (p, wire.public_key(seeds[p]).hex().encode()) for p in range(3))
    tree.files["public-keys"] = b"uvcc public keys v1\n" + lines
    ends = {}
    for path in tree.bundles():
        b = Bundle(tree.files[path])
        for p, root in enumerate(b.roots):
            if root.here:
                # A run that goes on from an earlier one says so.
                where = (p, b.r, b.s, b.t)
                ends[where, b.run, b.step] = root.audit_root
                earlier = [run for at, run, step in ends if at == where and run < b.run and step == b.first - 1]
                if earlier and b.version == 2:
                    root.before = ends[where, max(earlier), b.first - 1]
                root.signature = wire.sign(seeds[p], evidence.statement(b, p, root))
        tree.files[path] = b.encode()
    for path in tree.jobs():
        j = JobRoot(tree.files[path])
        j.own.signature = wire.sign(seeds[j.party], evidence.statement(j, j.party, j.own))
        tree.files[path] = j.encode()


class Hand:
    """Somebody who has all signing keys, and changes a tree."""

    def __init__(self, tree, seeds, other, rng):
        self.tree, self.seeds, self.other, self.rng = tree, seeds, other, rng

    def pick(self, paths=None):
        return self.rng.choice(paths or self.tree.bundles())

    def read(self, path):
        return Bundle(self.tree.files[path])

    def put(self, path, b):
        self.tree.files[path] = b.encode()

    def place(self, path, party=None, step=None):
        parts = path.split("/")
        if party is not None:
            parts[0] = "party-%d" % party
        if step is not None:
            parts[-1] = "step-%08d.%s" % (step, parts[-1].split(".")[1])
        return "/".join(parts)

    # ---- accidents ----

    def flip(self):
        path = self.pick(sorted(self.tree.files))
        data = bytearray(self.tree.files[path])
        for _ in range(self.rng.choice((1, 1, 1, 2, 8))):
            bit = self.rng.randrange(8 * len(data))
            data[bit // 8] ^= 1 << bit % 8
        self.tree.files[path] = bytes(data)
        return path

    def cut(self):
        path = self.pick(sorted(self.tree.files))
        data = self.tree.files[path]
        self.tree.files[path] = data[:self.rng.randrange(len(data))]
        return path

    def lengthen(self):
        path = self.pick(sorted(self.tree.files))
        self.tree.files[path] += self.rng.randbytes(self.rng.randint(1, 40))
        return path

    def zero_part(self):
        path = self.pick()
        data = bytearray(self.tree.files[path])
        at = self.rng.randrange(len(data))
        n = min(len(data) - at, self.rng.choice((1, 4, 32, 512)))
        data[at:at + n] = bytes(n)
        self.tree.files[path] = bytes(data)
        return path

    def drop_file(self):
        path = self.pick()
        del self.tree.files[path]
        return path

    def drop_step(self):
        path = self.pick()
        for p in range(3):
            self.tree.files.pop(self.place(path, p), None)
        return path

    def exchange_files(self):
        a, b = self.pick(), self.pick()
        f = self.tree.files
        f[a], f[b] = f[b], f[a]
        return a + " " + b

    def exchange_parties(self):
        """Two parties' bundles of one step."""
        path = self.pick()
        p = int(path[6])
        return self.swap(path, self.place(path, (p + self.rng.randint(1, 2)) % 3))

    def swap(self, a, b):
        f = self.tree.files
        if a in f and b in f:
            f[a], f[b] = f[b], f[a]
        return a + " " + b

    def exchange_steps(self):
        """All of two steps of a run, at all parties."""
        path, other = self.pick(), self.pick()
        step = int(other.split("step-")[1].split(".")[0])
        for p in range(3):
            self.swap(self.place(path, p), self.place(path, p, step))
        return "%s with step %d" % (path, step)

    def foreign_job(self):
        """A bundle of another job in this one's place."""
        path = self.pick([p for p in self.tree.bundles() if p in self.other.files] or None)
        self.tree.files[path] = self.other.files.get(path, b"")
        return path

    def foreign_file(self):
        path = self.place(self.pick()) + self.rng.choice(("~", ".old", "x"))
        self.tree.files[path] = b"x"
        return path

    # ---- what a holder of keys can do ----

    def resign(self, path, b, tell=True):
        """Makes step root, global root and signature of b right again, here and, if told, in the peers' bundles; the
        audit roots of the later steps too, mostly."""
        b.sub = wire.sid_sub(b.sid_job, b.r, b.s, b.t)
        b.step_root = wire.merkle(b.hashes())
        b.roots[b.party].root = b.own_root()
        self.put(path, b)
        self.chain(path, b.party, tell, self.rng.random() < 0.7)
        self.retell_job(path, b)

    def same_run(self, path):
        """The paths of a run of a worker and party, by step."""
        return sorted(p for p in self.tree.files if p.rsplit("/", 1)[0] == path.rsplit("/", 1)[0])

    def chain(self, path, party, tell, later=True):
        """Signs the party's statements from this step on, or of this step alone, over audit roots made anew."""
        roots = []
        for at in self.same_run(path):
            try:
                b = self.read(at)
            except evidence.Fault:
                continue
            root = b.roots[b.party % 3]
            roots.append(root.root)
            if at < path or (at > path and not later):
                continue
            root.audit_root = wire.merkle(roots)
            self.state(at, b, party, tell)

    def state(self, path, b, party, tell):
        """Signs a bundle's own statement, and puts it into the peers' bundles."""
        root = b.roots[party]
        root.signature = wire.sign(self.seeds[party], evidence.statement(b, party, root))
        self.put(path, b)
        for p in range(3):
            peer = self.place(path, p)
            if tell and p != party and peer in self.tree.files:
                o = self.read(peer)
                if o.roots[party].here:
                    o.roots[party] = root
                    self.put(peer, o)

    def retell_job(self, path, b):
        parts = path.split("/")
        job = "/".join((parts[0], "job", parts[2], parts[3].replace(".bundle", ".root")))
        if job in self.tree.files:
            j = JobRoot(self.tree.files[job])
            n = (b.r * b.S + b.s) * b.T + b.t
            if n < len(j.step_roots):
                j.step_roots[n] = b.step_root
            self.sign_job(job, j)

    def sign_job(self, path, j):
        j.own.root = j.root()
        self.tree.files[path] = j.encode()
        roots = []
        for at in self.same_run(path):
            j = JobRoot(self.tree.files[at])
            roots.append(j.own.root)
            j.own.audit_root = wire.merkle(roots)
            j.own.signature = wire.sign(self.seeds[j.party], evidence.statement(j, j.party, j.own))
            self.tree.files[at] = j.encode()

    def sort(self, b):
        rows = {r[5]: i for i, r in enumerate(b.rows)}

        def key(x):
            op = int.from_bytes(x[1:5], "little")
            return (0 if x[:1] == b"p" else rows.get(op, 0), x)

        b.leaves.sort(key=key)

    def leaf_digest(self):
        """Another digest, all else made right: only the counterpart tells."""
        path = self.pick()
        b = self.read(path)
        i = self.rng.randrange(1, len(b.leaves))
        x = bytearray(b.leaves[i])
        x[-1 - self.rng.randrange(min(32, len(x) - 5))] ^= 1 << self.rng.randrange(8)
        b.leaves[i] = bytes(x)
        self.sort(b)
        self.resign(path, b, self.rng.random() < 0.8)
        return "%s leaf %d" % (path, i)

    def leaf_field(self):
        """Any byte of a leaf, all else made right."""
        path = self.pick()
        b = self.read(path)
        i = self.rng.randrange(len(b.leaves))
        x = bytearray(b.leaves[i])
        x[self.rng.randrange(len(x))] ^= 1 << self.rng.randrange(8)
        b.leaves[i] = bytes(x)
        if self.rng.random() < 0.7:
            self.sort(b)
        self.resign(path, b)
        return "%s leaf %d" % (path, i)

    def leaf_dropped(self):
        path = self.pick()
        b = self.read(path)
        i = self.rng.randrange(len(b.leaves))
        del b.leaves[i]
        self.resign(path, b)
        return "%s leaf %d" % (path, i)

    def leaf_twice(self):
        path = self.pick()
        b = self.read(path)
        i = self.rng.randrange(len(b.leaves))
        x = bytearray(b.leaves[i])
        if self.rng.random() < 0.5:
            x[-1] ^= 1
        b.leaves.insert(i + 1, bytes(x))
        self.sort(b)
        self.resign(path, b)
        return "%s leaf %d" % (path, i)

    def leaf_order(self):
        path = self.pick()
        b = self.read(path)
        i = self.rng.randrange(len(b.leaves) - 1)
        b.leaves[i], b.leaves[i + 1] = b.leaves[i + 1], b.leaves[i]
        self.resign(path, b)
        return "%s leaf %d" % (path, i)

    def leaf_pair(self):
        """Both ends of a message tell another digest: consistent, and so good."""
        path = self.pick()
        b = self.read(path)
        ways = [i for i, x in enumerate(b.leaves) if x[0] in evidence.SENT]
        if not ways:
            return "nothing sent"
        i = self.rng.choice(ways)
        x = b.leaves[i]
        peer = self.place(path, x[6])
        o = self.read(peer)
        j = o.leaves.index(u8(x[0] + 1) + x[1:])
        new = x[1:-1] + u8(x[-1] ^ 1)
        b.leaves[i], o.leaves[j] = u8(x[0]) + new, u8(x[0] + 1) + new
        self.sort(b)
        self.sort(o)
        self.resign(path, b)
        o.roots[b.party] = b.roots[b.party]
        self.resign(peer, o)
        return "%s leaf %d and %s leaf %d" % (path, i, peer, j)

    def leaf_pair_dropped(self):
        """A message that both ends leave out: good too, as docs/audit.md says."""
        path = self.pick()
        b = self.read(path)
        ways = [i for i, x in enumerate(b.leaves) if x[0] in evidence.SENT]
        if not ways:
            return "nothing sent"
        i = self.rng.choice(ways)
        x = b.leaves[i]
        peer = self.place(path, x[6])
        o = self.read(peer)
        o.leaves.remove(u8(x[0] + 1) + x[1:])
        del b.leaves[i]
        self.resign(path, b)
        o.roots[b.party] = b.roots[b.party]
        self.resign(peer, o)
        return "%s leaf %d, and at %s" % (path, i, peer)

    def leaves_of_peer(self):
        """A party's bundle with the leaves of another step or party."""
        path, other = self.pick(), self.pick()
        b, o = self.read(path), self.read(other)
        b.leaves = o.leaves
        self.resign(path, b)
        return "%s has the leaves of %s" % (path, other)

    def header(self):
        path = self.pick()
        b = self.read(path)
        what = self.rng.choice(("party", "flags", "R", "S", "T", "r", "s", "t", "step", "run", "sid_job", "policy",
                                "program"))
        old = getattr(b, what)
        if isinstance(old, bytes):
            new = bytes([old[0] ^ 1]) + old[1:]
        else:
            new = max(0, min(255, old + self.rng.choice((-1, 1, 2, 200))))
        setattr(b, what, new)
        if self.rng.random() < 0.5 and b.party < 3:
            self.resign(path, b)
        else:
            self.put(path, b)
        return "%s %s" % (path, what)

    def table(self):
        path = self.pick()
        b = self.read(path)
        i = self.rng.randrange(len(b.rows))
        row = list(b.rows[i])
        j = self.rng.randrange(6)
        row[j] ^= 1 << self.rng.randrange(3 if j == 0 else 8)
        b.rows[i] = tuple(row)
        if self.rng.random() < 0.5:
            del b.rows[i]
        self.resign(path, b)
        return "%s row %d" % (path, i)

    def unsigned(self):
        """A peer's root is taken out, or any root's bytes changed."""
        path = self.pick()
        b = self.read(path)
        p = self.rng.randrange(3)
        way = self.rng.randrange(4)
        if way == 0:
            b.roots[p] = evidence.Root(version=b.version)
        elif way == 1:
            b.roots[p].root = bytes([b.roots[p].root[0] ^ 1]) + b.roots[p].root[1:]
        elif way == 2:
            b.roots[p].signature = b.roots[p].signature[:63] + u8(b.roots[p].signature[63] ^ 1)
        else:
            b.roots[p].here = self.rng.choice((0, 2, 255))
        self.put(path, b)
        return "%s root of %d, way %d" % (path, p, way)

    def false_signature(self):
        """A root signed by another party's key."""
        path = self.pick()
        b = self.read(path)
        p = self.rng.randrange(3)
        if b.roots[p].here:
            b.roots[p].signature = wire.sign(self.seeds[(p + 1) % 3], evidence.statement(b, p, b.roots[p]))
        self.put(path, b)
        return "%s root of %d" % (path, p)

    def another_root(self):
        """A peer's signed root of another place: step, run, worker or party."""
        path, other = self.pick(), self.pick()
        b, o = self.read(path), self.read(other)
        p = self.rng.randrange(3)
        b.roots[p] = o.roots[self.rng.choice((p, p, self.rng.randrange(3)))]
        self.put(path, b)
        return "%s root of %d from %s" % (path, p, other)

    def two_roots(self):
        """A party signed another root for a peer than that of its bundle."""
        path = self.pick()
        b = self.read(path)
        p = (b.party + self.rng.randint(1, 2)) % 3
        root = b.roots[p]
        if root.here:
            root.root = self.rng.randbytes(32)
            if b.step == b.first:
                root.audit_root = self.rng.choice((root.audit_root, root.root, root.root))
            root.signature = wire.sign(self.seeds[p], evidence.statement(b, p, root))
        self.put(path, b)
        return "%s root of %d" % (path, p)

    def stated(self):
        """A party states another audit root, history or first step than is so: of a step, or of its whole run."""
        path = self.pick()
        b = self.read(path)
        what = self.rng.choice(("audit_root", "before", "before", "first"))
        paths = self.same_run(path) if self.rng.random() < 0.6 else [path]
        new, tell = self.rng.randbytes(32), self.rng.random() < 0.8
        for at in paths:
            b = self.read(at)
            if what == "first":
                b.first = min(b.step, b.first + 1) if b.first == 0 else b.first - 1
            else:
                setattr(b.roots[b.party], what, new)
            self.state(at, b, b.party, tell)
        return "%s %s, %d steps, told %s" % (path, what, len(paths), tell)

    def first_steps(self):
        """A run without its first step; or all parties agree on another first step, and sign it."""
        path = self.pick()
        all_sign = self.rng.random() < 0.5
        for p in range(3):
            paths = self.same_run(self.place(path, p))
            if not all_sign:
                del self.tree.files[paths[0]]
                continue
            for at in paths:
                b = self.read(at)
                b.first = min(b.step, b.first + 1)
                for q, root in enumerate(b.roots):
                    if root.here:
                        root.signature = wire.sign(self.seeds[q], evidence.statement(b, q, root))
                self.put(at, b)
        return "%s, signed %s" % (path, all_sign)

    def another_run(self):
        """A whole run under the number of another, or a run left out."""
        path = self.pick()
        run = path.split("/")[-2]
        other = "run-%06d" % (int(run[4:]) + 1)
        left_out = self.rng.random() < 0.5
        for at in sorted(self.tree.files):
            if "/" + run + "/" in at:
                data = self.tree.files.pop(at)
                if not left_out:
                    self.tree.files[at.replace(run, other)] = data
        return "%s, left out %s" % (run, left_out)

    def step_root(self):
        path = self.pick()
        b = self.read(path)
        b.step_root = self.rng.randbytes(32)
        self.put(path, b)
        return path

    def renumber(self):
        """A party's whole step under another step's name, signed anew: ids no longer fit."""
        path = self.pick()
        b = self.read(path)
        b.step += 1
        target = self.place(path, step=b.step)
        self.resign(target, b, False)
        return "%s as step %d" % (path, b.step)

    def job_root(self):
        paths = self.tree.jobs()
        if not paths:
            return self.step_root()
        path = self.pick(paths)
        way = self.rng.randrange(5)
        if way == 0:
            del self.tree.files[path]
        elif way == 1:
            other = self.pick(paths)
            f = self.tree.files
            f[path], f[other] = f[other], f[path]
        else:
            j = JobRoot(self.tree.files[path])
            if way == 2:
                i = self.rng.randrange(len(j.step_roots))
                j.step_roots[i] = self.rng.randbytes(32)
                self.sign_job(path, j)
            elif way == 3:
                j.own.root = self.rng.randbytes(32)
                self.tree.files[path] = j.encode()
            else:
                j.own.signature = self.rng.randbytes(64)
                self.tree.files[path] = j.encode()
        return "%s way %d" % (path, way)

    WAYS = ("flip", "cut", "lengthen", "zero_part", "drop_file", "drop_step", "exchange_files", "exchange_parties",
            "exchange_steps", "foreign_job", "foreign_file", "leaf_digest", "leaf_field", "leaf_dropped", "leaf_twice",
            "leaf_order", "leaf_pair", "leaf_pair_dropped", "leaves_of_peer", "header", "table", "unsigned",
            "false_signature", "another_root", "two_roots", "step_root", "renumber", "job_root", "stated", "first_steps",
            "another_run")


def damage(tree, seeds, other, number, seed):
    """Damage `number` of a seed: (the damaged tree, what was done)."""
    rng = random.Random("%d %d" % (seed, number))
    hand = Hand(tree.copy(), seeds, other, rng)
    way = Hand.WAYS[number % len(Hand.WAYS)]
    return hand.tree, "%s: %s" % (way, getattr(hand, way)())
