# SPDX-License-Identifier: Apache-2.0
"""Commands with --compute gpu beside --compute inline: generate, nonlinear, replay; selftest; what is said of devices.

usage: tool.py UVCC; exit status 77 where there is no card
"""
import json
import os
import subprocess
import sys
import tempfile

UVCC = os.path.abspath(sys.argv[1])
SKIPPED = 77
MODEL = ("train --model transformer --text t.txt --dim 8 --heads 2 --context 4 --batch 4 --steps 2 --warmup 0 "
         "--truncation ars --index exact")


def run(words, want=0, **env):
    p = subprocess.run([UVCC, *words.split()], capture_output=True, encoding="utf-8", errors="backslashreplace", timeout=240,
                       env={**os.environ, **env})
    if p.returncode != want:
        sys.exit(f"{words} {env}: status {p.returncode}, not {want}: {p.stderr}{p.stdout}")
    return p


def both(words):
    """What the CPU and the card give."""
    return [run(f"{words} --compute {how}").stdout for how in ("inline", "gpu")]


def nonlinear(words):
    """All but the speed and what fast functions are compared with, for their masks lie on the card. The same seed makes the
    same masks, so errors are equal to the last digit."""
    other = ("per_s", "compared_with")
    kept = []
    for text in both(f"nonlinear {words} --json -"):
        kept.append([{k: v for k, v in f.items() if k not in other} for f in json.loads(text)["functions"]])
    return kept


def same(what, pair):
    if pair[0] != pair[1]:
        sys.exit(f"{what}: {pair[1]}, not {pair[0]}")
    print("equal:", what)


def says(text, words, want, **env):
    p = run(words, want, **env)
    if text not in p.stderr:
        sys.exit(f"{words} {env}: does not say '{text}': {p.stderr}")
    print("says:", text)


def traced():
    """Under a trace the parties of a card keep their threads, and what they train is the same."""
    run(f"{MODEL} --compute gpu --parties threads --profile --trace trace.json --json traced.json")
    with open("traced.json", encoding="utf-8") as f:
        told = json.load(f)
    if not 0 < told["overlap"]["fss_s"] <= told["overlap"]["sessions_s"]:
        sys.exit(f"overlap: {told['overlap']}")
    with open("trace.json", encoding="utf-8") as f:
        parts = {e["args"].get("part") for e in json.load(f)["traceEvents"]}
    if not {"fss", "gemm", "packing"} <= parts:
        sys.exit(f"trace: parts {parts}")
    return told["weights_sha256"]


def main():
    p = subprocess.run([UVCC, "selftest", "--backend", "gpu", "--rounds", "1", "--json", "-"], capture_output=True, text=True,
                       timeout=240)
    if p.returncode == 2 and "--backend gpu: " in p.stderr:
        print("skipped:", p.stderr.strip())
        sys.exit(SKIPPED)
    if p.returncode != 0 or not json.loads(p.stdout)["right"]:
        sys.exit(f"selftest: {p.stderr}{p.stdout}")
    print(p.stdout)
    with open("t.txt", "w", encoding="ascii") as f:
        f.write("three parties train together, and none of them sees. " * 6)
    same("nonlinear", nonlinear("gelu softmax layernorm argmax --inputs 512"))
    run(f"{MODEL} --reveal no --checkpoint kept")
    same("generate", [text.encode() for text in both("generate kept --length 6 --temperature 0")])
    run(f"{MODEL} --reveal no --checkpoint kept --steps 3 --extend --compute gpu")  # goes on, on the card
    same("replay of the CPU's log", both_logs("inline", "cpu"))
    same("replay of the card's log", both_logs("gpu", "gpu"))
    same("trained under a trace", [json.loads(run(f"{MODEL} --json -").stdout)["weights_sha256"], traced()])
    run(f"{MODEL} --replicas 2 --record many")
    says("several workers", "replay many/party0-r0-s0-t0.uvlog --compute gpu", 2)
    says("give fewer workers", f"{MODEL} --replicas 2 --compute gpu", 2, UVCC_NCCL_LIBRARY="./none.so")
    says("there is no CUDA device 4096", "nonlinear relu --compute gpu --device 4096", 2)
    says("there is no CUDA device 4095", "nonlinear relu --compute gpu", 2, UVCC_GPU_ID="4095")
    says("raise UVCC_GPU_BYTES", f"{MODEL} --compute gpu", 1, UVCC_GPU_BYTES="1MiB")
    run(f"{MODEL}", UVCC_FSS_BACKEND="auto", UVCC_GPU_BYTES="4GiB")
    says("there is no CUDA device 4094", "nonlinear relu", 2, UVCC_FSS_BACKEND="gpu", UVCC_GPU_ID="4094")


def both_logs(how, name):
    run(f"{MODEL} --record {name} --compute {how}")
    digests = [json.loads(text) for text in both(f"replay {name}/party1.uvlog --json -")]
    if not all(d["equal"] for d in digests):
        sys.exit(f"replay of {name}: {digests}")
    return [d["digest"] for d in digests]


with tempfile.TemporaryDirectory() as directory:
    os.chdir(directory)
    main()
