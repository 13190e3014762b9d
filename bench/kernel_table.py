#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/kernel_table.py - which kernels a device ran in a stretch of time, for the tables of docs/benchmark.md.

usage: bench/kernel_table.py [--last MS] [--before MS] [--of TEXT] LIST

LIST is what `nsys stats --report cuda_gpu_trace --format csv` prints of a profile of `uvcc bench --backend gpu`, or a list of
kernels as bench/gpu/kernel_trace.c writes it: lines "N number name", and "K start end stream number", in nanoseconds. Prints one JSON
object: how long the device had a kernel to run, how long all kernels took together, and each kind of kernel by its sum.

  --last MS     only what ran in the last MS milliseconds, such as one pass (all)
  --before MS   of a stretch that ended so long before the last kernel did (0)
  --of TEXT     what was measured, for the object
  --help        this text

Exit status: 0 done, 2 wrong use.
"""
import argparse
import collections
import csv
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def tasks():
    """Names of tasks by their numbers, which are in names of kernels."""
    with open(os.path.join(ROOT, "include", "uvcc", "tasks.def"), encoding="utf-8") as f:
        return {m[2]: m[1] for m in re.finditer(r"UVCC_TASK\((\w+),\s*(\d+)", f.read())}


def demangled(names):
    """Of C++; as they are where there is no c++filt."""
    try:
        p = subprocess.run(["c++filt", "-p"], input="\n".join(names), capture_output=True, text=True, check=True)
        return p.stdout.split("\n")
    except (OSError, subprocess.SubprocessError):
        return names


def short(name, known):
    """The task of a kernel of blocks, else the kernel's name."""
    name = re.sub(r"\(anonymous namespace\)::", "", name)
    m = re.search(r"(vec|parts)_kernel<\(?(?:unsigned int\))?(\d+)u?>", name)
    if m:
        return known.get(m[2], m[2]) + (", parts" if m[1] == "parts" else "")
    return name.split("(")[0].removeprefix("void ")


def read_csv(lines):
    for row in csv.DictReader(lines):
        column = {key.split(" (")[0]: value for key, value in row.items() if key}
        if not column["Name"].startswith("["):  # copies and memsets of CUDA's own
            start = int(column["Start"])
            yield start, start + int(column["Duration"]), column["Name"]


def read_list(lines):
    names, kernels = {}, []
    for words in (line.split() for line in lines):
        if words and words[0] == "N":
            names[words[1]] = words[2]
        elif words and words[0] == "K":
            kernels.append((int(words[1]), int(words[2]), words[-1]))
    plain = dict(zip(names, demangled(list(names.values()))))
    return [(start, end, plain[number]) for start, end, number in kernels]


def busy(kernels):
    """How long at least one ran."""
    total, until = 0, 0
    for start, end, _ in sorted(kernels):
        total += max(0, end - max(start, until))
        until = max(until, end)
    return total


def table(kernels, last_ms, before_ms, of):
    end = max(k[1] for k in kernels) - 1e6 * before_ms
    begin = end - 1e6 * last_ms if last_ms else min(k[0] for k in kernels)
    known, sums = tasks(), collections.defaultdict(list)
    some = [k for k in kernels if k[1] > begin and k[0] < end]
    for start, stop, name in some:
        sums[short(name, known)].append(stop - start)
    kinds = [{"kernel": name, "launches": len(t), "ms": round(sum(t) / 1e6, 3), "mean_us": round(sum(t) / len(t) / 1e3, 1),
              "max_us": round(max(t) / 1e3, 1)} for name, t in sums.items()]
    return {"of": of, "window_ms": round((end - begin) / 1e6, 1), "busy_ms": round(busy(some) / 1e6, 1),
            "sum_ms": round(sum(k["ms"] for k in kinds), 1), "kernels": sorted(kinds, key=lambda k: (-k["ms"], k["kernel"]))}


def main():
    ap = argparse.ArgumentParser(add_help=False)
    ap.add_argument("list", nargs="?")
    ap.add_argument("--last", type=float, default=0)
    ap.add_argument("--before", type=float, default=0)
    ap.add_argument("--of", default="")
    ap.add_argument("-h", "--help", action="store_true")
    o = ap.parse_args()
    if o.help:
        print(__doc__.strip())
        return 0
    try:
        with open(o.list or "", encoding="utf-8") as f:
            lines = f.read().splitlines()
        head = next((i for i, line in enumerate(lines) if line.startswith("Start (")), None)
        kernels = list(read_csv(lines[head:]) if head is not None else read_list(lines))
        if not kernels:
            raise ValueError("no kernels are in it")
    except (OSError, ValueError, KeyError) as e:
        print(f"bench/kernel_table.py: {o.list or 'give a LIST, see --help'}: {e}", file=sys.stderr)
        return 2
    print(json.dumps(table(kernels, o.last, o.before, o.of), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
