#!/usr/bin/env python3
"""What runs leave behind, recomputed from the documents: logs of three parties, and the bundles of the same run.

    test_run.py UVCC MAKE_RUN [--verbose]

1. `uvcc train --record --audit`: every sealed frame is opened, every message checked, and the three transcripts
   of every step are made of them. Taken from the bundles are the rows of the op tables (their ids are derived
   again) and the digests of what was opened to an edge by two messages: that needs a component that nobody sends.
   Everything else is recomputed: leaves, roots, audit roots, signatures, bundles to the byte.
2. MAKE_RUN's programs are known op by op (known.py), the large ones segment by segment (large.py), so nothing but
   the op tables' rows is taken.
Exit status 77: not run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import cut
    import evidence
    import known
    import large
    import run
    import wire
except ImportError as e:
    print("skipped: %s (Debian: python3-cryptography)" % e)
    sys.exit(77)

from wire import Wrong, le32, need, u8

HERE = os.path.dirname(os.path.abspath(__file__))


def read(*path):
    with open(os.path.join(*path), "rb") as fh:
        return fh.read()


def read_run(top):
    return run.Run([read(top, "party%d.uvlog" % p) for p in range(3)])


def bundles_of(top, r, step):
    out = []
    for p in range(3):
        path = "party-%d/r%ds%dt%d/run-%06d/step-%08d.bundle" % ((p,) + r.place + (r.run, step))
        out.append(evidence.Bundle(read(top, path)))
        out[-1].path = path
    return out


def check_step(r, number, shapes, optable, bundles, make):
    """The bundles of a step are what the logs give, to the byte. Returns the Step."""
    for b in bundles:
        need((b.sid_job, b.R, b.S, b.T, b.r, b.s, b.t) == (r.sid_job, r.R, r.S, r.T) + r.place, "a bundle's head")
        need((b.step, b.run, b.policy, b.program) == (number, r.run, r.policy, r.program), "a bundle's head")
        need(b.rows == bundles[0].rows, "the bundles' op tables differ")
    step = make(r, number, bundles[0].rows)
    need(wire.optable_hash(step.rows) == optable, "STEP's H(op table)")
    leaves = step.transcripts(shapes, [[b.whole(x) for x in b.leaves] for b in bundles])
    for p, b in enumerate(bundles):
        said, ours = {b.whole(x) for x in b.leaves}, set(leaves[p])
        for what, some in (("lacks", ours - said), ("has without reason", said - ours)):
            need(not some, "step %d: party %d %s %s" % (number, p, what,
                                                         sorted(wire.LEAVES[x[0]] for x in some)))
        rows = {row[5]: i for i, row in enumerate(step.rows)}

        def place(leaf):
            op = int.from_bytes(leaf[33:37], "little")
            return (rows.get(op, 0) if leaf[0] != 0x70 else 0, leaf)

        order = sorted(ours, key=place)
        need([b.whole(x) for x in b.leaves] == order, "step %d: the order of party %d's leaves" % (number, p))
        need(b.step_root == wire.merkle([wire.H(x) for x in order]), "step %d: a step root" % number)
    return step


def check_run(r, top, make):
    """All steps of a run: transcripts, roots, statements, AUDIT messages, bundles."""
    proposed, audits = {}, {}
    for m in r.control:
        if m.name == "STEP":
            step = run.ReadStep(m.payload)
            need(step.program == r.program, "STEP's H(program)")
            need(proposed.setdefault(step.number, step).payload == m.payload, "two STEPs that differ")
        elif m.name == "AUDIT":
            audits[m.src, m.dst, int.from_bytes(m.payload[1:5], "little")] = m.payload
        elif m.name == "BYE":
            need(m.payload == bytes(2), "a BYE with a reason")
    need(sorted(proposed) == list(range(r.first, r.first + len(proposed))), "steps without gaps")
    r.check_lineages(proposed)
    trees, steps = [[], [], []], []
    for number in sorted(proposed):
        optable, shapes = proposed[number].optable, proposed[number].shapes
        bundles = bundles_of(top, r, number)
        steps.append(check_step(r, number, shapes, optable, bundles, make))
        need(proposed[number].given == steps[-1].given(), "step %d: which triples were given" % number)
        check_roots(r, number, bundles, trees, audits)
    return steps


def check_roots(r, number, bundles, trees, audits):
    roots = []
    for p, b in enumerate(bundles):
        trees[p].append(wire.worker_root(r.sid_job, r.place[0], number, b.step_root))
        root = evidence.Root.make(1, trees[p][-1], wire.merkle(trees[p]), version=b.version)
        root.signature = wire.sign(r.cfg[p]["sign_seed"], evidence.statement(b, p, root))
        roots.append(root)
        for q in range(3):
            said = audits.get((p, q, number))
            need(q == p or said == u8(p) + le32(number) + b"".join(root.fields()[1:]), "the AUDIT %d -> %d" % (p, q))
    for b in bundles:
        data = b.data
        b.roots = roots
        need(b.encode() == data, "step %d: the bundle of party %d to the byte" % (number, b.party))


def train(uvcc, work, options):
    csv, logs, top = (os.path.join(work, x) for x in ("rows.csv", "logs", "evidence"))
    with open(csv, "w", encoding="ascii") as fh:
        fh.writelines("%g,%g,%d\n" % (i % 7 / 7, i % 3 / 3, i % 2) for i in range(10))
    subprocess.run([uvcc, "train", "--data", csv, "--hidden", "2", "--batch", "4", "--epochs", "1", "--record", logs,
                    "--audit", top] + options, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return read_run(logs), top


def tell(what, r, steps):
    made = sum(len(leaves) for s in steps for leaves in s.out)
    taken = sum(how == "taken" for s in steps for leaves in s.out for how in leaves.values())
    checked = sum(getattr(s, "checked", 0) for s in steps)
    print("%s: suite %d, %d sealed frames opened, %d steps, %d leaves of which %d have digests taken from bundles, "
          "%d values of ops" % (what, r.suite, r.opened, len(steps), made, taken, checked))


def main():
    a = argparse.ArgumentParser()
    a.add_argument("uvcc")
    a.add_argument("make_run")
    o = a.parse_args()
    with tempfile.TemporaryDirectory() as work:
        for n, options in enumerate(([], ["--truncation", "sr"], ["--truncation", "ars-dcf"],
                                     ["--compare", "circuit", "--products", "beaver"])):
            sub = os.path.join(work, str(n))
            os.mkdir(sub)
            r, top = train(o.uvcc, sub, options)
            steps = check_run(r, top, run.Step)
            tell("train " + " ".join(options), r, steps)
            found = evidence.verify_tree(top)
            need(found.usable and not found.faults, "the tree of a training")
        top = os.path.join(work, "made")
        subprocess.run([o.make_run, top], check=True)
        maker = read_run(os.path.join(top, "logs-3"))
        need(maker.opened > 0 and not any(m.name == "AUDIT" for m in maker.control), "a maker of triples")
        for number, of in ((4, None), (5, maker)):
            r = read_run(os.path.join(top, "logs-%d" % number))
            steps = check_run(r, os.path.join(top, "evidence"), lambda *x, of=of: known.KnownStep(*x, of))
            need(all(not s.taken for s in steps), "digests that were taken")
            tell("run %d of the known program" % number, r, steps)
        found = evidence.verify_tree(os.path.join(top, "evidence"), r.signers)
        need(found.usable and not found.faults, "the tree of the known program: %s" % (found.faults or "unusable")[0])
        top = os.path.join(top, "large")
        r = read_run(os.path.join(top, "logs-6"))
        steps = check_run(r, os.path.join(top, "evidence"), large.LargeStep)
        need(all(not s.taken for s in steps), "digests that were taken")
        tell("the program of large ops", r, steps)
    with open(os.path.join(HERE, "..", "vectors", "segments.json"), encoding="ascii") as fh:
        need(json.load(fh) == cut.vectors(), "tests/vectors/segments.json is not what cut.py makes")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Wrong as e:
        print("wrong: %s" % e)
        sys.exit(1)
