#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""stand_in.py MODEL LENGTH ROLE PARTY KEYS [PEER THREADS]: stands in for SIGMA's command in tests: it takes the same words
and writes files of the same form, with figures recorded of GPT-2 at 128 tokens. What the file "do" beside it says, it does
instead: "crash", "nothing", "garbage", "hang ROLE" (tells the pipe "pipe" first). Each call is a line of "calls"."""
import os
import signal
import sys

HERE = os.path.dirname(os.path.abspath(sys.argv[0]))
DEALER = "Total time={}\nKey size=15312345088 B (14.260722 GB)\n"
EVALUATOR = """Total time={}
Comm time=402113
Transfer time=291004
MHA time=612345
Matmul time=101234
Truncate time=98765
Gelu time=204321
Softmax time=301234
Layernorm time=110987

Total Comm=885123456 B (0.824335 GB)
Gelu Comm=163577856 B (0.152344 GB)
Softmax Comm=140509184 B (0.130860 GB)
Layernorm Comm=60123456 B (0.055994 GB)
"""


def main():
    model, length, role, party, keys = sys.argv[1:6]
    with open(os.path.join(HERE, "calls"), "a", encoding="utf-8") as f:
        f.write(" ".join(sys.argv[1:]) + "\n")
    order = ""
    if os.path.exists(os.path.join(HERE, "do")):
        with open(os.path.join(HERE, "do"), encoding="utf-8") as f:
            order = f.read().strip()
    if order == "crash":
        print("CUDA error: out of memory")
        return 3
    if order == f"hang {role}":
        if os.path.exists(os.path.join(HERE, "pipe")):
            with open(os.path.join(HERE, "pipe"), "w", encoding="utf-8") as f:
                f.write("here\n")
        signal.pause()
    key = f"{keys}{model}_inference_key_{party}.dat"
    if role == "0":
        with open(key, "wb") as f:
            f.write(b"keys")
    elif not os.path.exists(key):
        print("no keys")
        return 4
    if order == "nothing":
        return 0
    name = "dealer.txt" if role == "0" else "evaluator.txt"
    text = (DEALER if role == "0" else EVALUATOR).format(1612345 if role == "0" else 1084321 + int(party))
    with open(f"output/P{party}/models/{model}-{length}/{name}", "w", encoding="utf-8") as f:
        f.write("no figures\n" if order == "garbage" else text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
