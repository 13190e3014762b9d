# SPDX-License-Identifier: Apache-2.0
"""uvcc train --compute gpu with several workers of each party in one process, on cards that are
memory of it: what the parties exchange goes the way that it goes between cards, up to NCCL's calls.

usage: cards.py UVCC LIBRARY SCRATCH-DIR
"""
import json
import os
import re
import shutil
import subprocess
import sys

UVCC, LIBRARY, SCRATCH = map(os.path.abspath, sys.argv[1:4])
MODEL = ["--model", "transformer", "--dim", "8", "--heads", "2", "--context", "4", "--batch", "4",
         "--steps", "3", "--truncation", "ars-dcf"]


QUEUES = "CUDA_DEVICE_MAX_CONNECTIONS"


def run(*words, **env):
    before = {name: value for name, value in os.environ.items() if name != QUEUES}
    return subprocess.run([UVCC, *words], text=True, capture_output=True, timeout=300,
                          env=dict(before, UVCC_NCCL_LIBRARY=LIBRARY, **env))


def launch(name):
    """A process for each party. Of all of them what they say."""
    place = os.path.join(SCRATCH, "cards")
    shutil.rmtree(place, ignore_errors=True)
    os.mkdir(place)
    with open(os.path.join(place, "t.txt"), "w", encoding="ascii") as f:
        f.write("three parties train together")
    what = {"kind": "transformer", "dim": 8, "heads": 2, "context": 4, "batch": 4, "steps": 2, "text_bytes": 28}
    with open(os.path.join(place, "job.json"), "w", encoding="ascii") as f:
        json.dump({"job": {"name": name, "checkpoint_every": 0, "replicas": 2, "run": what},
                   "data": [{"text": "t.txt"}, None, None], "all": {"compute": "gpu"}}, f)
    p = run("launch", "--dir", os.path.join(place, "d"), "--restarts", "0", os.path.join(place, "job.json"),
            **({"UVCC_TEST_NCCL_FAILS": "1"} if name == "fails" else {}))
    for i in range(3):
        with open(os.path.join(place, "d", f"party{i}", "output.log"), encoding="utf-8") as f:
            p.stderr += f.read()
    return p.returncode, p.stdout, p.stderr


def train(compute, split, **env):
    p = run("train", *MODEL, *split, "--compute", compute, "--json", "-", **env)
    return p.returncode, p.stderr if p.returncode != 0 else json.loads(p.stdout)


SPLITS = (["--replicas", "4"], ["--tensor", "2"], ["--stages", "2", "--layers", "2", "--microbatches", "2"],
          ["--replicas", "2", "--tensor", "2"])
for split in SPLITS[:1] if os.environ.get("UVCC_SANITIZED") == "1" else SPLITS:
    results = [train(compute, split) for compute in ("gpu", "inline")]
    for status, said in results:
        if status != 0:
            sys.exit(f"{split}: exit {status}: {said}")
    for what in ("weights_sha256", "global_root"):
        if results[0][1][what] != results[1][1][what]:
            sys.exit(f"{split}: {what} is {results[0][1][what]}, not {results[1][1][what]}")
    print("equal:", *split, results[0][1]["weights_sha256"])

status, said, trouble = launch("goes")
if status != 0 or "3 of 3 parties, the same" not in said:
    sys.exit(f"launch: exit {status}: {said} {trouble}")
print("launched:", said.strip())

for asked, got in (({}, "32"), ({QUEUES: "5"}, "5")):
    p = run("train", *MODEL, "--tensor", "2", "--compute", "gpu", **asked)
    if p.returncode != 0 or f"queues: {got}\n" not in p.stderr:
        sys.exit(f"queues of {asked}: exit {p.returncode}: {p.stderr}")

status, said = train("gpu", ["--replicas", "16", "--batch", "16", "--dim", "16", "--context", "32"])
if status != 2 or "16 workers take a CUDA device each, and this machine has 8; give fewer workers" not in said:
    sys.exit(f"more workers than devices: exit {status}: {said}")

# Whose device failed says why.
REASON = r"worker r\d s0 t0 stopped: .*: worker 1: the device is on fire"
status, said = train("gpu", ["--replicas", "2"], UVCC_TEST_NCCL_FAILS="1")
if status != 1 or not re.search(r"party \d, " + REASON, said):
    sys.exit(f"a device that fails: exit {status}: {said}")
print("reason:", said.strip())
status, _, said = launch("fails")
if status != 1 or not re.search(REASON, said):
    sys.exit(f"launch, a device that fails: exit {status}: {said}")
