#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""orchestrator.py UVCC ROOT: bench/run_sigma_vs_uvcc.py with the real command and a stand-in for SIGMA: rows and their
schema, what is missing, crashes, what is kept over interruptions."""
import csv
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

UVCC, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SCRIPT = os.path.join(ROOT, "bench", "run_sigma_vs_uvcc.py")
sys.path.insert(0, os.path.join(ROOT, "bench"))
from systems import mp_spdz, rows, spu, uvcc  # noqa: E402

try:
    from jsonschema import Draft202012Validator
    with open(os.path.join(ROOT, "docs", "json", "bench.schema.json"), encoding="utf-8") as schema:
        VALIDATOR = Draft202012Validator(json.load(schema))
except ImportError:
    VALIDATOR = None
    print("there is no jsonschema of 2020-12 for python3 (Debian: python3-jsonschema): rows are not held to the schema")

CONFIG = {"models": ["bert-tiny"], "seq_lens": [4], "batch_sizes": [1], "backends": ["cpu", "gpu"], "n_iters": 2, "threads": 1,
          "mode": "Loopback", "results_dir": "results", "sigma_root": "sigma"}


def check(what, right):
    if not right:
        raise SystemExit(f"not so: {what}")
    print("right:", what)


class Place:
    """A directory with a configuration and a stand-in."""

    def __init__(self, directory, **more):
        self.d = directory
        self.sigma = os.path.join(directory, "sigma")
        os.mkdir(self.sigma)
        program = os.path.join(self.sigma, "sigma")
        shutil.copy(os.path.join(ROOT, "tests", "bench", "stand_in.py"), program)
        os.chmod(program, os.stat(program).st_mode | stat.S_IXUSR)
        hardware = os.path.join(directory, "hardware.json")
        with open(hardware, "w", encoding="utf-8") as f:
            json.dump({"hostname": "here", "cpu_model": "one", "cpu_cores": 1, "ram_gb": 1.5, "gpus": [],
                       "network": {"measured_bandwidth_gbps": None, "ping_ms": None}}, f)
        os.mkdir(os.path.join(directory, "keys"))
        self.config = {**CONFIG, "results_dir": os.path.join(directory, "results"), "sigma_root": self.sigma,
                       "key_dir": os.path.join(directory, "keys"), "hardware": hardware, **more}

    def words(self, *more):
        path = os.path.join(self.d, "config.json")
        with open(path, "w", encoding="utf-8") as f:
            json.dump(self.config, f)
        return [sys.executable, SCRIPT, "--config", path, "--uvcc", UVCC, *more]

    def run(self, status, *more):
        p = subprocess.run(self.words(*more), capture_output=True, text=True, check=False)
        if p.returncode != status:
            raise SystemExit(f"status {p.returncode}, not {status}: {p.stdout}{p.stderr}")
        return p.stdout + p.stderr

    def order(self, text):
        with open(os.path.join(self.sigma, "do"), "w", encoding="utf-8") as f:
            f.write(text)

    def calls(self):
        path = os.path.join(self.sigma, "calls")
        if not os.path.exists(path):
            return []
        with open(path, encoding="utf-8") as f:
            return f.read().splitlines()

    def rows(self):
        return rows.read(os.path.join(self.d, "results", "rows"))


def whole(place):
    said = place.run(0)
    found = place.rows()
    check("uvcc has its row", "uvcc-cpu-bert-tiny-4-1" in found)
    check("SIGMA is for GPUs", "skipped  sigma-cpu-bert-tiny-4-1: SIGMA's README builds it for NVIDIA GPUs only" in said)
    r = found["sigma-gpu-bert-tiny-4-1"]
    check("times are microseconds", r["timing"]["preproc_time_s"] == 1.612345 and
          r["timing"]["online_time_s_mean"] == 1.084321 and r["timing"]["online_time_s_std"] == 0)
    check("bytes of both parties", r["communication"]["online_bytes"] == 885123456 and r["fss"]["key_bytes"] == 2 * 15312345088)
    check("families", r["nonlinear_breakdown"]["softmax_seconds"] == 0.301234 and
          r["nonlinear_breakdown"]["gelu_bytes"] == 163577856)
    check("two dealers, then two evaluators a pass", sorted(c.split()[2] for c in place.calls()) == list("001111"))
    check("the words of its README", place.calls()[0] == "bert-tiny 4 0 0 " + os.path.join(place.d, "keys", ""))
    check("its keys are gone", os.listdir(os.path.join(place.d, "keys")) == [])
    with open(os.path.join(place.d, "results", "summary.jsonl"), encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    with open(os.path.join(place.d, "results", "summary.csv"), encoding="utf-8", newline="") as f:
        table = list(csv.DictReader(f))
    check("the summaries have all rows", len(lines) == len(table) == len(found) and lines == list(found.values()))
    check("cells are the rows'", table[0]["hardware.hostname"] == "here" and
          float(table[0]["timing.online_time_s_mean"]) == lines[0]["timing"]["online_time_s_mean"])
    for name, row in found.items():
        for e in VALIDATOR.iter_errors(row) if VALIDATOR else []:
            raise SystemExit(f"{name}: {'/'.join(map(str, e.path))}: {e.message}")
    before = place.calls()
    said = place.run(0)
    check("what has a row is kept", said.count("kept ") == len(found) and place.calls() == before)
    place.run(0, "--again")
    check("--again runs it", len(place.calls()) == 2 * len(before))


def troubles(place):
    place.config["backends"] = ["gpu"]
    for order, text in (("crash", "ended with status 3: "), ("nothing", "SIGMA wrote no "), ("garbage", "dealer.txt has no time")):
        place.order(order)
        said = place.run(1)
        check(f"{order}: it failed, and why", "failed   sigma-gpu-bert-tiny-4-1: " in said and text in said)
        check("no row of it", "sigma-gpu-bert-tiny-4-1" not in place.rows())
        check("its keys are gone", os.listdir(os.path.join(place.d, "keys")) == [])
    check("what it said stands in the line", "CUDA error: out of memory" in (place.order("crash") or place.run(1)))
    place.order("hang 1")
    place.config["timeout_s"] = 1
    check("one that hangs is ended", "took longer than 1 s" in place.run(1))
    place.order("")
    check("then it is run", "done     sigma-gpu-bert-tiny-4-1" in place.run(0))
    place.order("nothing")
    check("figures of an older run are nobody's", "SIGMA wrote no " in place.run(1, "--again"))
    place.order("")
    check("no time left", "there was no time left" in place.run(1, "--again", "--limit", "0"))


def slow(place):
    """uvcc is interrupted first, and what it measured counts."""
    place.config.update(backends=["cpu"], sigma_root=None, n_iters=1000, timeout_s=2)
    place.run(0)
    r = place.rows()["uvcc-cpu-bert-tiny-4-1"]
    check("a run that takes too long leaves what it measured", "of 1000 passes" in r["notes"] and "interrupted" in r["notes"] and
          r["timing"]["online_time_s_mean"] > 0)


def processes(place):
    """Each party a process, over TCP; they are interrupted together, and party 0's row counts."""
    place.config.update(backends=["cpu"], sigma_root=None, processes=True)
    place.run(0)
    r = place.rows()["uvcc-cpu-bert-tiny-4-1-processes"]
    check("three processes make a row", r["config_flags"]["transport"] == "tcp" and r["timing"]["online_time_s_mean"] > 0)
    for e in VALIDATOR.iter_errors(r) if VALIDATOR else []:
        raise SystemExit(f"{'/'.join(map(str, e.path))}: {e.message}")
    place.config.update(n_iters=1000, timeout_s=2)
    place.run(0, "--again")
    r = place.rows()["uvcc-cpu-bert-tiny-4-1-processes"]
    check("what they measured before they were interrupted", "of 1000 passes" in r["notes"] and
          r["timing"]["online_time_s_mean"] > 0)
    place.config.update(backends=["gpu"])
    check("each takes a device", "each of three processes takes a device, and 0 are here" in place.run(0))
    place.config["processes"] = "yes"
    check("yes or no", '"processes" is true or false' in place.run(2))


def missing(place):
    place.config.update(backends=["gpu"], batch_sizes=[2])
    check("a batch is not SIGMA's", "SIGMA's command has no batch size" in place.run(0))
    place.config.update(batch_sizes=[1], seq_lens=[3])
    check("nor are such lengths", "powers of 2" in place.run(0))
    place.config.update(seq_lens=[4], mode="LAN")
    check("a LAN has a peer", "mode LAN wants peer" in place.run(0))
    place.config.update(mode="Loopback", sigma_root=os.path.join(place.d, "keys"))
    check("no SIGMA there", "there is no built experiments/sigma/sigma" in place.run(0))
    place.config.update(sigma_root=None, backends=["cpu"], seq_lens=[4096], models=["llama2-13b"])
    said = place.run(0)
    check("a model that does not fit is skipped", "skipped  uvcc-cpu-llama2-13b-4096-1: it needs " in said and
          "GB are free" in said)
    check("nothing was run", place.rows() == {})
    place.config["colour"] = "red"
    check("unknown members are refused", 'there is no "colour"' in place.run(2))
    del place.config["colour"]
    place.config["models"] = ["bert-giant"]
    check("unknown models too", "there is no model bert-giant" in place.run(2))
    place.config["models"] = ["bert-tiny"]
    place.config["seq_lens"] = [4]
    place.config["batch_sizes"] = [1]
    said = place.run(0, "--dry-run")
    check("--dry-run says it", "would run uvcc-" in said and "done" not in said and place.rows() == {})


def kept():
    """Rows that are kept here have what a row has now."""
    results = os.path.join(ROOT, "bench", "results")
    names = [os.path.join(at, name) for at, _, files in os.walk(results) for name in sorted(files) if name.endswith(".jsonl")]
    seen = 0
    for name in names:
        with open(name, encoding="utf-8") as f:
            for row in filter(lambda r: "fss" in r, (json.loads(line) for line in f if line.startswith("{"))):
                seen += 1
                for e in VALIDATOR.iter_errors(row) if VALIDATOR else []:
                    raise SystemExit(f"{name}: {e.json_path}: {e.message}")
    check("all kept rows are of the schema", seen > 40)


def fits():
    need = {"memory": {"max_rss_bytes": 10**10, "max_gpu_bytes": 5 * 10**10}, "config_flags": {"one_device_each": False}}
    check("memory is looked at", "10.0 GB of memory, 9.0 GB are free" in uvcc.lacks(need, 9 * 10**9, [80 * 10**9]))
    check("devices too", "of a device, 50.0 GB are free" in uvcc.lacks(need, 11 * 10**9, [50 * 10**9]))
    check("what fits, fits", uvcc.lacks(need, 11 * 10**9, [80 * 10**9]) == "")
    need["config_flags"]["one_device_each"] = True
    check("of three devices the smallest", "of a device, 1.0 GB" in uvcc.lacks(need, 11 * 10**9, [80 * 10**9, 10**9, 80 * 10**9]))


def interrupted(place):
    """It ends with its processes, and the next run has what was there."""
    place.config["backends"] = ["cpu", "gpu"]
    place.order("hang 1")
    os.mkfifo(os.path.join(place.sigma, "pipe"))
    p = subprocess.Popen(place.words(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # our own may be ignored
    with open(os.path.join(place.sigma, "pipe"), encoding="utf-8") as f:
        f.readline()
    p.send_signal(signal.SIGINT)
    said = "".join(p.communicate())
    check("status 130", p.returncode == 130 and "goes on here" in said)
    check("a row that was there stays", list(place.rows()) == ["uvcc-cpu-bert-tiny-4-1"])
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    check("no process stays behind", os.path.join(place.sigma, "sigma") not in left)
    check("no keys stay behind", os.listdir(os.path.join(place.d, "keys")) == [])
    place.order("")
    with open(os.path.join(place.d, "results", "rows", "x.json.part"), "w", encoding="utf-8") as f:
        f.write("{")
    said = place.run(0)
    check("it goes on there", "kept     uvcc-cpu-bert-tiny-4-1" in said and "done     sigma-gpu-bert-tiny-4-1" in said)


PROGRAMS = {
    "lscpu": "echo 'Architecture: x86_64'; echo 'Model name:          A Processor'",
    "nvidia-smi": """case "$1" in --query-gpu*) echo 'NVIDIA H200, 143771, 570.1' ;; *) echo '| CUDA Version: 12.8     |' ;; esac""",
    "iperf3": """case "$1" in -s) echo 'Server listening on 5201'; exec cat ;;
*) echo '{"end": {"sum_received": {"bits_per_second": 24123456789.0}}}' ;; esac""",
    "ping": "echo 'rtt min/avg/max/mdev = 0.031/0.042/0.055/0.005 ms'",
}


def machine_described(place):
    """With stand-ins for the programs that it asks, and without them."""
    programs = os.path.join(place.d, "programs")
    os.mkdir(programs)
    for name, text in PROGRAMS.items():
        with open(os.path.join(programs, name), "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\n" + text + "\n")
        os.chmod(os.path.join(programs, name), 0o755)
    found = []
    for path in (programs + ":/usr/bin:/bin", os.path.join(place.d, "keys")):
        p = subprocess.run([sys.executable, os.path.join(ROOT, "scripts", "describe-hardware"), "--out", "-"],
                           capture_output=True, text=True, check=True, env={**os.environ, "PATH": path})
        found.append((json.loads(p.stdout), p.stderr))
    (there, _), (bare, said) = found
    check("a machine is described", there["cpu_model"] == "A Processor" and there["network"] ==
          {"measured_bandwidth_gbps": 24.12, "ping_ms": 0.042} and there["gpus"] ==
          [{"name": "NVIDIA H200", "memory_gb": 150.8, "cuda_driver": "570.1", "cuda_runtime": "12.8"}])
    check("what is not there is null, and said", bare["gpus"] == [] and bare["network"]["ping_ms"] is None and
          "no iperf3 here" in said and "this host's loopback" in said)
    for row in there, bare:
        for e in Draft202012Validator(VALIDATOR.schema["$defs"]["hardware"]).iter_errors(row) if VALIDATOR else []:
            raise SystemExit(e.message)


MP_SPDZ = """Using security parameter 40
Trying to run 64-bit computation
Time = 28.1377 seconds
Time1 = 27.8012 seconds (223.9 MB, 261518 rounds)
Data sent = 224.1 MB in ~261530 rounds (party 0 only; use '-v' for more details)
Global data sent = 759.2 MB (all parties)
"""
SPU = """[2026-01-01 00:00:00.000] [info] [api.cc:163] [Profiling] SPU execution layer completed, input processing took 1.2e-06s, \
execution took {}s, output processing took 1e-06s, total time 6.5s.
[2026-01-01 00:00:00.000] [info] [api.cc:209] Link details: total send bytes {}, recv bytes 1, send actions 9, recv actions 9
"""


def others(place):
    found = mp_spdz.parse(MP_SPDZ)
    check("MP-SPDZ's lines", found == {"online": 27.8012, "bytes": 759200000, "rounds": 261530})
    log = "".join(SPU.format(*at) for at in (("6.4", 200), ("6.25", 210), ("6.1", 218)))
    check("SPU's lines", spu.parse(log) == {"online": 6.4, "bytes": 628})
    for parse, text in ((mp_spdz.parse, "Time = 1 seconds\n"), (spu.parse, "execution took 1s\n")):
        try:
            parse(text)
            raise SystemExit("it took a log without bytes")
        except rows.Failed as e:
            print("right:", e)
    scripts = os.path.join(place.d, "Scripts")
    os.mkdir(scripts)
    for name, text in (("ring.sh", MP_SPDZ), ("pass.sh", log)):
        with open(os.path.join(scripts, name), "w", encoding="utf-8") as f:
            f.write("#!/bin/sh\ncat <<'END'\n" + text + "END\n")
        os.chmod(os.path.join(scripts, name), 0o755)
    place.config.update(backends=["cpu"], models=[], micros=["gelu"], widths=[64], sigma_root=None, mp_spdz_root=place.d,
                        mp_spdz_programs={"gelu": "gelu_393216"}, spu_root=place.d, spu_scripts={"gelu": ["./Scripts/pass.sh"]})
    place.run(0)
    found = place.rows()
    check("a row of each system", sorted(r["system"] for r in found.values()) == ["mp-spdz", "spu", "uvcc"])
    for name, row in found.items():
        for e in VALIDATOR.iter_errors(row) if VALIDATOR else []:
            raise SystemExit(f"{name}: {'/'.join(map(str, e.path))}: {e.message}")


def main():
    fits()
    kept()
    for test in (whole, troubles, slow, processes, missing, interrupted, others, machine_described):
        with tempfile.TemporaryDirectory() as directory:
            test(Place(directory))


if __name__ == "__main__":
    main()
