#!/usr/bin/env python3
"""Damaged trees of bundles: the verifier of evidence.py and `uvcc audit verify` must agree.

    test_audit.py UVCC CSV [--count N] [--seed N] [--only NUMBER] [--keep DIR]

Both must say that a tree is good, or both that it is bad; of a bad one the tool's fault (kind, file, leaf,
other party and leaf) must be one of those that evidence.py finds. Exit status 77: not run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import damage
    import evidence
    import wire
except ImportError as e:
    print("skipped: %s (Debian: python3-cryptography)" % e)
    sys.exit(77)

SEEDS = [wire.H(b"signing seed of party", bytes([p])) for p in range(3)]


def make_trees(uvcc, work):
    """Trees to damage: a short training (one worker, one run), a job of two workers in two runs, and one of
    another job."""
    csv, text = os.path.join(work, "rows.csv"), os.path.join(work, "text")
    with open(csv, "w", encoding="ascii") as fh:
        fh.writelines("%g,%g,%d\n" % (i % 7 / 7, i % 3 / 3, i % 2) for i in range(10))
    with open(text, "w", encoding="ascii") as fh:
        fh.write("abcabcabdabcabcabcab" * 20)
    mlp = ["train", "--data", csv, "--hidden", "2", "--batch", "4", "--epochs", "1"]
    lm = ["train", "--model", "transformer", "--text", text, "--dim", "4", "--heads", "1", "--hidden", "4",
          "--context", "4", "--batch", "2", "--replicas", "2", "--optimizer", "sgd", "--reveal", "no",
          "--checkpoint", os.path.join(work, "checkpoint")]
    trees = {}
    for name, args in (("mlp", mlp), ("other", mlp + ["--seed", "2"]), ("lm", lm + ["--steps", "2"]),
                       ("lm", lm + ["--steps", "3", "--extend"])):
        top = os.path.join(work, name)
        subprocess.run([uvcc] + args + ["--audit", top], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        trees[name] = top
    return trees


def tool(uvcc, top, extra=()):
    """The tool's (exit status, JSON object)."""
    done = subprocess.run([uvcc, "audit", "verify", top, "--json", "-", *extra], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False)
    try:
        return done.returncode, json.loads(done.stdout)
    except ValueError:
        return done.returncode, None


def judge(uvcc, top, what, extra=(), keys=None, unfinished=False):
    """One line if the two disagree, else None; and what both say."""
    ours = evidence.verify_tree(top, keys, unfinished)
    status, said = tool(uvcc, top, extra)
    if not ours.usable:
        return (None if status == 2 else "%s: cannot be used, the tool says %d" % (what, status)), "unusable"
    if status == 2:
        return "%s: the tool cannot use it, we can" % what, "unusable"
    if status not in (0, 1):
        return "%s: the tool ends with %d" % (what, status), "crash"
    if said is None and status == 1 and evidence.Head.seen == 1 and any(f.kind == evidence.TREE for f in ours.faults):
        return None, "no JSON"  # before bundles of version 2
    if said is None:
        return "%s: no JSON" % what, "crash"
    if status == 1 and said["fault"] is None and any(f.kind == evidence.TREE for f in ours.faults):
        return (None if said["error"] else "%s: no error" % what), "error"
    if said["good"] != (status == 0):
        return "%s: exit status %d and JSON differ" % (what, status), "crash"
    if status == 0:
        if ours.faults:
            return "%s: the tool says good, we: %s" % (what, ours.faults[0]), "good"
        if [r.hex() for r in ours.audit_root] != said["audit_root"]:
            return "%s: the audit roots differ" % what, "good"
        if said.get("goes_on_from_unknown", []) != ours.unknown:
            return "%s: it goes on from %s, we: %s" % (what, said["goes_on_from_unknown"], ours.unknown), "good"
        if (said["bundles"], said["leaves"]) != (ours.bundles, ours.leaves):
            return "%s: numbers of bundles or leaves differ" % what, "good"
        return None, "good"
    if not ours.faults:
        return "%s: we say good, the tool: %s" % (what, said["fault"]), "bad"
    if not evidence.agree(ours, said["fault"]):
        ours_text = "".join("\n    " + str(f) for f in ours.faults[:4])
        return "%s: the tool says %s, we:%s" % (what, said["fault"], ours_text), "bad"
    return None, "kind %d" % said["fault"]["kind"]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("uvcc")
    a.add_argument("--count", type=int, default=120)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--only", type=int)
    a.add_argument("--keep")
    a.add_argument("--verbose", action="store_true")
    o = a.parse_args()
    wrong, tally = [], {}
    with tempfile.TemporaryDirectory() as work:
        tops = make_trees(o.uvcc, work)
        for top in tops.values():
            line, said = judge(o.uvcc, top, "the tree as it was written")
            wrong += [line] if line else []
            if said != "good":
                wrong.append("%s is %s as it was written" % (top, said))
        trees = {name: damage.Tree(top) for name, top in tops.items()}
        for t in trees.values():
            damage.adopt(t, SEEDS)
        for n in range(o.count) if o.only is None else (o.only,):
            base = trees["lm" if n // len(damage.Hand.WAYS) % 5 == 4 else "mlp"]
            tree, what = damage.damage(base, SEEDS, trees["other"], n, o.seed)
            with tempfile.TemporaryDirectory() as top:
                if o.keep:
                    top = o.keep
                tree.write(top)
                line, said = judge(o.uvcc, top, "damage %d, %s" % (n, what), *(
                    (("--unfinished",), None, True) if n % 7 == 3 else ()))
            tally[said] = tally.get(said, 0) + 1
            if o.verbose:
                print(n, what, said)
            if line:
                wrong.append(line)
    for line in wrong:
        print(line)
    print("%d trees: %s; %d disagreements" % (sum(tally.values()),
                                              ", ".join("%s %d" % kv for kv in sorted(tally.items())), len(wrong)))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
