#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/run_sigma_vs_uvcc.py - the same models, lengths and precision in uvcc and SIGMA, one table.

usage: bench/run_sigma_vs_uvcc.py [--config FILE] [--uvcc TOOL] [--sigma-root DIR] [--results DIR]
                                  [--limit SECONDS] [--again] [--dry-run]

Runs every combination of the configuration's models, lengths, batches and back ends in each system that is there, and
keeps a row of docs/json/bench.schema.json for each: RESULTS/rows/NAME.json as it comes, and of all of them
RESULTS/summary.jsonl and summary.csv. What has a row is not run again, so that a run which was interrupted goes on where
it was. Before a combination begins it is looked at what it needs of memory, devices and disk; what does not fit is skipped,
and said. One that fails costs none of the others. Logs are in RESULTS/logs.

  --config FILE      what to run (bench/configs/sigma_vs_uvcc.json); docs/benchmark.md has its members
  --uvcc TOOL        the command (build/tools/uvcc)
  --sigma-root DIR   where a built SIGMA is, in place of the configuration's sigma_root
  --results DIR      in place of results_dir
  --limit SECONDS    begin nothing after so long, and end what still runs
  --again            run what has a row already, too
  --dry-run          say what would run and what would be skipped
  --help             this text

Exit status: 0 all is done or skipped, 1 something failed or was not begun in time, 2 wrong use, 130 interrupted.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from systems import mp_spdz, rows, sigma, spu, uvcc  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SYSTEMS = {"uvcc": uvcc, "sigma": sigma, "mp-spdz": mp_spdz, "spu": spu}
NEEDED = {"models": list, "seq_lens": list, "batch_sizes": list, "backends": list, "n_iters": int, "mode": str,
          "results_dir": str}
DEFAULTS = {"sigma_root": None, "uvcc": "build/tools/uvcc", "threads": 4, "timeout_s": 3600, "processes": False, "weights": {},
            "fewer_layers": {}, "seq_lens_of": {}, "flags": [[]], "micros": [], "widths": [768, 4096], "party": 0, "peer": None,
            "key_dir": "/tmp", "hardware": None, "mp_spdz_root": None, "mp_spdz_programs": {}, "spu_root": None,
            "spu_scripts": {}}


class Wrong(Exception):
    """The configuration is not one."""


def options():
    ap = argparse.ArgumentParser(add_help=False)
    ap.add_argument("--config", default=os.path.join(ROOT, "bench", "configs", "sigma_vs_uvcc.json"))
    for name in ("--uvcc", "--sigma-root", "--results"):
        ap.add_argument(name)
    ap.add_argument("--limit", type=float, default=float("inf"))
    for name in ("--again", "--dry-run", "--help"):
        ap.add_argument(name, action="store_true")
    ap.add_argument("-h", dest="help", action="store_true")
    return ap.parse_args()


def read_config(o):
    try:
        with open(o.config, encoding="utf-8") as f:
            given = json.load(f)
    except (OSError, ValueError) as e:
        raise Wrong(f"{o.config}: {e}") from e
    for name, kind in NEEDED.items():
        if not isinstance(given.get(name), kind):
            raise Wrong(f"{o.config}: give \"{name}\", a {kind.__name__}")
    for name in given:
        if name not in NEEDED and name not in DEFAULTS:
            raise Wrong(f"{o.config}: there is no \"{name}\"; there are {', '.join([*NEEDED, *DEFAULTS])}")
    c = {**DEFAULTS, **given}
    if c["mode"] not in ("LAN", "Loopback"):
        raise Wrong(f"{o.config}: \"mode\" is LAN or Loopback")
    for backend in c["backends"]:
        if backend not in ("cpu", "gpu"):
            raise Wrong(f"{o.config}: \"backends\" are cpu and gpu")
    if not isinstance(c["processes"], bool):
        raise Wrong(f"{o.config}: \"processes\" is true or false")
    c["uvcc"] = os.path.abspath(o.uvcc or os.path.join(ROOT, c["uvcc"]))
    c["sigma_root"] = o.sigma_root or c["sigma_root"]
    c["results_dir"] = o.results or os.path.join(ROOT, c["results_dir"])
    if not os.access(c["uvcc"], os.X_OK):
        raise Wrong(f"{c['uvcc']}: there is no such command; build it (ninja -C build), or give --uvcc")
    return c


def describe(c, where, network):
    """What this machine is, and of which commit this is."""
    c["hardware_file"] = c["hardware"] and os.path.join(ROOT, c["hardware"])
    if c["hardware_file"] is None:
        c["hardware_file"] = os.path.join(where, "hardware.json")
        if not os.path.exists(c["hardware_file"]):
            subprocess.run([os.path.join(ROOT, "scripts", "describe-hardware"), "--out", c["hardware_file"],
                            *([] if network else ["--no-network"])], check=True)
    with open(c["hardware_file"], encoding="utf-8") as f:
        c["hardware"] = json.load(f)
    p = subprocess.run(["git", "-C", ROOT, "describe", "--always", "--dirty", "--exclude=*"], capture_output=True, text=True,
                       check=False)
    c["commit"] = p.stdout.strip() or "unknown"
    c["models_known"] = uvcc.models(c["uvcc"])
    for name in c["models"]:
        if name not in c["models_known"] and "/" not in name:
            raise Wrong(f"there is no model {name}; see uvcc bench --list")


def combinations(c):
    """In the order of the configuration. A run is what all systems are given."""
    systems = ["uvcc"] + [name for name, root in (("sigma", "sigma_root"), ("mp-spdz", "mp_spdz_root"), ("spu", "spu_root"))
                          if c[root] is not None]
    for backend in c["backends"]:
        for model in c["models"]:
            for seq_len in c["seq_lens_of"].get(model, c["seq_lens"]):
                for batch_size in c["batch_sizes"]:
                    for flags in c["flags"]:
                        for system in systems:
                            yield {"system": system, "backend": backend, "model": model, "micro": False, "width": 0,
                                   "seq_len": seq_len, "batch_size": batch_size, "flags": flags}
        for micro in c["micros"]:
            for width in c["widths"]:
                for system in systems:
                    yield {"system": system, "backend": backend, "model": micro, "micro": True, "width": width, "seq_len": 128,
                           "batch_size": 1, "flags": []}


def name_of(c, run):
    parts = [run["system"], run["backend"], run["model"].replace("/", "_"), str(run["seq_len"]), str(run["batch_size"])]
    parts += [f"d{run['width']}"] if run["micro"] else []
    parts += ["processes"] if c["processes"] and run["system"] == "uvcc" else []
    return "-".join(parts + [flag.removeprefix("--") for flag in run["flags"]])


class Table:
    def __init__(self, o, c, scratch):
        self.o, self.c, self.scratch, self.end = o, c, scratch, time.monotonic() + o.limit
        self.rows_dir = os.path.join(c["results_dir"], "rows")
        self.counts = {"would run" if o.dry_run else "done": 0, "kept": 0, "skipped": 0, "failed": 0}

    def say(self, outcome, name, text=""):
        self.counts[outcome] += 1
        print(f"{outcome:8} {name}{': ' if text else ''}{text}", flush=True)

    def keep(self, name, row):
        rows.replace(os.path.join(self.rows_dir, name + ".json"), json.dumps(row, indent=1) + "\n")
        rows.write_summary(self.c["results_dir"], list(rows.read(self.rows_dir).values()))

    def measure(self, run):
        name, system = name_of(self.c, run), SYSTEMS[run["system"]]
        if not self.o.again and os.path.exists(os.path.join(self.rows_dir, name + ".json")):
            return self.say("kept", name)
        left = self.end - time.monotonic()
        log = os.path.join(self.c["results_dir"], "logs", name + ".log")
        try:
            made = system.plan(self.c, run, self.scratch)
            if self.o.dry_run:
                return self.say("would run", name, " ".join(made) if isinstance(made, list) else "")
            if left <= 0:
                raise rows.Failed("there was no time left to begin it")
            row = system.measure(self.c, run, made, log, self.scratch, min(self.c["timeout_s"], left))
        except rows.Skipped as e:
            return self.say("skipped", name, str(e))
        except rows.Failed as e:
            return self.say("failed", name, str(e))
        self.keep(name, row)
        timing = row["timing"]
        return self.say("done", name, f"online {timing['online_time_s_mean']:.4g} s, "
                                      f"preprocessing {timing['preproc_time_s'] or 0:.4g} s")


def main():
    o = options()
    if o.help:
        print(__doc__.strip())
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        try:
            c = read_config(o)
            if not o.dry_run:
                for name in ("logs", "rows"):
                    os.makedirs(os.path.join(c["results_dir"], name), exist_ok=True)
            describe(c, scratch if o.dry_run else c["results_dir"], not o.dry_run)
        except (Wrong, OSError, subprocess.SubprocessError) as e:
            print(f"bench/run_sigma_vs_uvcc.py: {e}", file=sys.stderr)
            return 2
        table = Table(o, c, scratch)
        try:
            for run in combinations(c):
                table.measure(run)
        except KeyboardInterrupt:
            print("interrupted: run it again, and it goes on here", file=sys.stderr)
            return 130
    print(", ".join(f"{n} {what}" for what, n in table.counts.items()))
    return 1 if table.counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
