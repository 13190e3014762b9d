#!/usr/bin/env python3
"""check_tasks.py DIR: recomputes every result of the golden vectors of compute tasks.

A second implementation of docs/compute.md, written from that document and not from the kernels, so
that what the document does not say or gets wrong shows up here. It needs nothing but the standard
library of Python, and is slow and plain on purpose: one element after the other, integers for
words. Section numbers are those of the document; task_checks/ has a file for each.
"""

import hashlib
import json
import os
import sys

from task_checks import circuits, forms, functions, gates, one_hot, rounding
from task_checks.aes import Stream, aes, expand
from task_checks.block import Block
from task_checks.keys import Nodes
from task_checks.words import M64, ROLES, Refused, bytes_of, demand, low, signed

TASKS_B = {
    **gates.TASKS, **functions.TASKS, **circuits.TASKS, **rounding.TASKS, **one_hot.TASKS,
}

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
        if task in forms.TASKS:
            return forms.TASKS[task](case.get("args", {}), operands, wants, self)
        if task == "HASH":
            return forms.hash_item(unit, operands, self)
        if task == "COPY":
            return {"dst": operands["src"]}
        if task == "WIPE":
            return {"dst": bytes(len(operands["dst"]))}
        raise Refused  # there is none of that name

    def run_members(self, case):
        """A collective; it is refused where it does not go to the members' local plane."""
        demand("status" not in case)
        args, units = case.get("args", {}), case["units"]
        members = []
        for i, unit in enumerate(units):
            members.append((unit.get("op", args.get("op", 0)), self.operands(case, unit, i)))
        return forms.collective(members, args.get("phase", 0), args["elems"])

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
                if case["task"] == "COLLECTIVE":
                    outs = self.run_members(case)
                else:
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
