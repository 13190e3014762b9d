# SPDX-License-Identifier: Apache-2.0
"""Training with --compute gpu beside --compute inline: the same weights and the same roots.

usage: training.py UVCC SCRATCH-DIR [several]; exit status 77 where there is no card

several: jobs of two workers, each on a card of its own; their weights are those of one worker, too.
"""
import json
import os
import random
import subprocess
import sys

UVCC, SCRATCH = sys.argv[1:3]
SEVERAL = sys.argv[3:] == ["several"]
SKIPPED = 77


def rows(path):
    random.seed(1)
    with open(path, "w", encoding="ascii") as f:
        print(*[f"f{i}" for i in range(8)], "label", sep=",", file=f)
        for r in range(200):
            c = r % 3
            mean = [c if i % 3 == c else 0 for i in range(8)]
            print(*[f"{random.gauss(m, 0.6):.3f}" for m in mean], c, sep=",", file=f)


def train(compute, args):
    out = os.path.join(SCRATCH, f"gpu-training-{compute}.json")
    p = subprocess.run([UVCC, "train", *args, "--compute", compute, "--json", out],
                       capture_output=True, text=True, timeout=600)
    if "--compute gpu: " in p.stderr:
        print("skipped:", p.stderr.strip())
        sys.exit(SKIPPED)
    if p.returncode != 0:
        sys.exit(f"{compute} {args}: {p.stderr}")
    with open(out, encoding="utf-8") as f:
        return json.load(f)


def several():
    exact = ["--model", "transformer", "--steps", "2", "--batch", "4", "--truncation", "ars-dcf",
             "--index", "exact"]
    for args, split in ((exact, ["--replicas", "2"]), (exact, ["--tensor", "2"]),
                        (exact + ["--layers", "2", "--microbatches", "2"], ["--stages", "2"]),
                        (exact + ["--block", "gpt2", "--optimizer", "adam-mini"], ["--replicas", "2"])):
        gpu, cpu, alone = train("gpu", args + split), train("inline", args + split), train("inline", args)
        for what in ("weights_sha256", "global_root"):
            if gpu[what] != cpu[what]:
                sys.exit(f"{args} {split}: {what} is {gpu[what]}, not {cpu[what]}")
        if gpu["weights_sha256"] != alone["weights_sha256"]:
            sys.exit(f"{args} {split}: other weights than those of one worker")
        print("equal:", *args, *split, gpu["weights_sha256"], flush=True)


def main():
    if SEVERAL:
        several()
        return
    data = os.path.join(SCRATCH, "gpu-training.csv")
    rows(data)
    jobs = [["--data", data, "--epochs", "1", "--compare", c, "--truncation", t]
            for c, t in (("fss", "ars"), ("circuit", "sr"), ("fss", "ars-dcf"))]
    jobs += [["--model", "transformer", "--steps", "2", "--batch", "4", *more]
             for more in ([], ["--block", "gpt2", "--optimizer", "adam-mini"],
                          ["--products", "beaver", "--truncation", "sr"])]
    for args in jobs:
        gpu, cpu = train("gpu", args), train("inline", args)
        for what in ("weights_sha256", "global_root"):
            if gpu[what] != cpu[what]:
                sys.exit(f"{args}: {what} is {gpu[what]}, not {cpu[what]}")
        print("equal:", *args)


main()
