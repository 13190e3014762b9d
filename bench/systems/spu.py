# SPDX-License-Identifier: Apache-2.0
"""SPU: scripts of the user's in `spu_root`, by the names of `spu_scripts`: {model or function: [words]}, which run one pass
with profiling switched on (enable_pphlo_profile), so that its log has times and bytes. docs/benchmark.md has what they are
to do."""
import os
import re

from . import machine
from .rows import Failed, Skipped, mean_and_deviation, row


def plan(c, run, _directory):
    if run["backend"] != "cpu" or run["flags"]:
        raise Skipped("SPU runs on the CPU, without uvcc's flags")
    words = c["spu_scripts"].get(run["model"])
    if words is None:
        raise Skipped(f"spu_scripts has none for {run['model']}")
    if not os.path.isdir(c["spu_root"]):
        raise Skipped(f"spu_root {c['spu_root']}: there is no such directory")
    return {"words": words}


def parse(text, parties=3):
    """Of the last pass in a log that several parties write, one "Link details" each: seconds of the slowest, bytes that all
    sent."""
    times = [float(t) for t in re.findall(r"execution took ([0-9.e+-]+)s", text)]
    sent = [int(n) for n in re.findall(r"Link details: total send bytes ([0-9]+)", text)]
    if not times or not sent:
        raise Failed("SPU's log has no \"execution took\" or no \"Link details\": is enable_pphlo_profile on?")
    return {"online": max(times[-parties:]), "bytes": sum(sent[-parties:])}


def measure(c, run, made, log, _directory, timeout_s):
    passes = []
    for _ in range(c["n_iters"]):
        at = os.path.getsize(log) if os.path.exists(log) else 0
        group = machine.Group(timeout_s)
        group.start("SPU", made["words"], log, c["spu_root"])
        group.wait()
        with open(log, "rb") as f:
            f.seek(at)
            passes.append(parse(f.read().decode(errors="backslashreplace")))
    mean, deviation = mean_and_deviation([p["online"] for p in passes])
    return row(run, c["models_known"].get(run["model"], {"d_model": run["width"]}), c["hardware"], threads=1, frac_bits=18,
               timing={"online_time_s_mean": mean, "online_time_s_std": deviation},
               communication={"online_bytes": passes[-1]["bytes"]}, command=" ".join(made["words"]),
               notes="three parties, one corruption; preprocessing is in the online time; bytes of all parties; the script is "
                     "the user's")
