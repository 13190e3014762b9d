# SPDX-License-Identifier: Apache-2.0
"""uvcc train --compute gpu with several workers of each party in one process, on cards that are
memory of it: what the parties exchange goes the way that it goes between cards, up to NCCL's calls.

usage: cards.py UVCC LIBRARY SCRATCH-DIR
"""
import json
import os
import re
import subprocess
import sys

UVCC, LIBRARY, SCRATCH = sys.argv[1:4]
MODEL = ["--model", "transformer", "--dim", "8", "--heads", "2", "--context", "4", "--batch", "4",
         "--steps", "3", "--truncation", "ars-dcf"]


def train(compute, split, **env):
    out = os.path.join(SCRATCH, "cards.json")
    p = subprocess.run([UVCC, "train", *MODEL, *split, "--compute", compute, "--json", out], text=True,
                       capture_output=True, timeout=300, env=dict(os.environ, UVCC_NCCL_LIBRARY=LIBRARY, **env))
    if p.returncode != 0:
        return p.returncode, p.stderr
    with open(out, encoding="utf-8") as f:
        return 0, json.load(f)


for split in (["--replicas", "4"], ["--tensor", "2"], ["--stages", "2", "--layers", "2", "--microbatches", "2"],
              ["--replicas", "2", "--tensor", "2"]):
    results = [train(compute, split) for compute in ("gpu", "inline")]
    for status, said in results:
        if status != 0:
            sys.exit(f"{split}: exit {status}: {said}")
    for what in ("weights_sha256", "global_root"):
        if results[0][1][what] != results[1][1][what]:
            sys.exit(f"{split}: {what} is {results[0][1][what]}, not {results[1][1][what]}")
    print("equal:", *split, results[0][1]["weights_sha256"])

# One of the three parties fails, and says why; the others hear of it from nobody.
status, said = train("gpu", ["--replicas", "2"], UVCC_TEST_NCCL_FAILS="1")
if status != 1 or not re.search(r"party \d, worker r\d s0 t0 stopped: .*: (worker 1: )?the device is on fire", said):
    sys.exit(f"a device that fails: exit {status}: {said}")
print("reason:", said.strip())
