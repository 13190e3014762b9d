# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu-check with programs that only pretend: what it writes of results that are right, wrong and late, and where there
is no card. No card is needed.

usage: gpu_check.py SCRIPT
"""
import json
import os
import re
import subprocess
import sys
import tempfile

SCRIPT = os.path.abspath(sys.argv[1])
RIGHT = {
    "nvidia-smi": "echo 'NVIDIA H100 80GB HBM3, 580.1, 81559 MiB'",
    "uvcc": 'echo \'{"right": true}\'',
    "test_gpu_tasks": "exit 0",
    "test_gpu_gemm": "echo no card; exit 77",
    "bench_ring_gemm": 'echo \'{"check": "ring_gemm"}\'; echo \'{"bench": "ring_gemm", "ms": 1.5}\'',
    "bench_gpu": "echo a line for people; echo '{\"bench\": \"gpu\", \"ms\": 2}'",
}


def programs(where, what):
    for name, body in what.items():
        path = os.path.join(where, name)
        with open(path, "w", encoding="ascii") as f:
            f.write(f"#!/bin/sh\n{body}\n")
        os.chmod(path, 0o755)


def check(what, *more):
    """The exit status, and the lines of the file; None: there is none."""
    with tempfile.TemporaryDirectory() as where:
        programs(where, what)
        out = os.path.join(where, "out.jsonl")
        p = subprocess.run([sys.executable, SCRIPT, "--no-build", where, "--out", out, *more], capture_output=True, text=True,
                           timeout=60, env={**os.environ, "PATH": where + ":/usr/bin:/bin"})
        if not os.path.exists(out):
            return p.returncode, None
        with open(out, encoding="utf-8") as f:
            lines = [json.loads(line) for line in f]
        assert p.stdout.splitlines() == [json.dumps(line) for line in lines], p.stdout
        return p.returncode, lines


def cases(where):
    """Golden vectors by their names."""
    found = {}
    for name in os.listdir(where):
        with open(os.path.join(where, name), encoding="utf-8") as f:
            found.update((case["name"], case) for case in json.load(f)["cases"])
    return found


def step(lines, name):
    return next(line for line in lines if line.get("step") == name)


def main():
    status, lines = check(RIGHT, "--quick", "--commit", "abc")
    assert status == 0, lines
    assert lines[0]["card"] == "NVIDIA H100 80GB HBM3" and lines[0]["driver"] == "580.1" and lines[0]["commit"] == "abc", lines[0]
    assert {"selftest": {"right": True}} in lines and {"bench": "ring_gemm", "ms": 1.5} in lines, lines
    assert step(lines, "test_gpu_tasks")["result"] == "right" and not any("check" in line for line in lines), lines
    assert step(lines, "test_gpu_gemm")["result"] == "skipped" and "no card" in step(lines, "test_gpu_gemm")["said"], lines
    assert not any(line.get("bench") == "gpu" for line in lines), lines  # --quick
    assert lines[-1]["step"] == "all" and lines[-1]["result"] == "right", lines
    # What fails is named, and the rest is run.
    status, lines = check({**RIGHT, "test_gpu_tasks": "echo word 3 >&2; exit 1"}, "--quick")
    assert status == 1 and step(lines, "test_gpu_tasks")["said"] == "word 3", lines
    assert step(lines, "bench_ring_gemm")["result"] == "right" and lines[-1]["result"] == "failed", lines
    # Under the sanitizer nothing else is run; for races on fewer vectors, whose operands are all there.
    with tempfile.TemporaryDirectory() as kept:
        # compute-sanitizer --tool TOOL --error-exitcode 9 UVCC selftest --backend gpu --rounds 0 --vectors DIR
        keep = f'mkdir {kept}/$2 && cp "${{12}}"/*.json {kept}/$2 && test $2 != initcheck'
        status, lines = check({**RIGHT, "compute-sanitizer": keep}, "--sanitize")
        assert status == 1, lines
        assert [(line["step"], line["result"]) for line in lines[1:]] == [
            ("memcheck", "right"), ("initcheck", "failed"), ("racecheck", "right"), ("all", "failed")], lines
        whole, some = (cases(os.path.join(kept, tool)) for tool in ("memcheck", "racecheck"))
        assert {case["task"] for case in whole.values()} == {case["task"] for case in some.values()}
        assert 2 * len(some) < len(whole) and all(whole[name] == case for name, case in some.items())
        assert all(name in some for case in some.values() for name in re.findall('"case": "([^"]+)"', json.dumps(case)))
    # The whole, without uvcc, whose tests would need a card.
    status, lines = check({name: body for name, body in RIGHT.items() if name != "uvcc"})
    assert status == 0 and {"bench": "gpu", "ms": 2} in lines, lines
    # One that never ends counts as failed when the time is over, and so does all behind it.
    status, lines = check({**RIGHT, "uvcc": "exec sleep 100"}, "--quick", "--limit", "1")
    assert status == 1 and "longer" in step(lines, "selftest")["said"], lines
    assert step(lines, "bench_ring_gemm")["result"] in ("failed", "right"), lines
    status, lines = check({**RIGHT, "nvidia-smi": "exit 9"})
    assert status == 77 and lines is None, (status, lines)
    print("right")


main()
