# SPDX-License-Identifier: Apache-2.0
"""MP-SPDZ: programs that the user compiled in `mp_spdz_root` for replicated secret sharing mod 2^64, by the names of
`mp_spdz_programs`: {model or function: program}. docs/benchmark.md has what they are to do."""
import os
import re

from . import machine
from .rows import Failed, Skipped, mean_and_deviation, row


def plan(c, run, _directory):
    if run["backend"] != "cpu" or run["flags"]:
        raise Skipped("MP-SPDZ runs on the CPU, without uvcc's flags")
    program = c["mp_spdz_programs"].get(run["model"])
    if program is None:
        raise Skipped(f"mp_spdz_programs has none for {run['model']}")
    script = os.path.join(c["mp_spdz_root"], "Scripts", "ring.sh")
    if not os.access(script, os.X_OK):
        raise Skipped(f"mp_spdz_root {c['mp_spdz_root']}: there is no Scripts/ring.sh")
    return {"script": os.path.abspath(script), "program": program}


def parse(text):
    """Of the last run in it: seconds (the program's first timer, if it has one), bytes of all, rounds of party 0."""
    def last(pattern):
        found = re.findall(pattern, text, re.M)
        return found[-1] if found else None

    whole, timer = last(r"^Time = ([0-9.e+-]+) seconds"), last(r"^Time1 = ([0-9.e+-]+) seconds")
    sent, rounds = last(r"^Global data sent = ([0-9.e+-]+) MB"), last(r"^Data sent = [0-9.e+-]+ MB in ~([0-9]+) rounds")
    if whole is None or sent is None:
        raise Failed("MP-SPDZ printed no time or no bytes")
    return {"online": float(timer or whole), "bytes": int(float(sent) * 1e6), "rounds": int(rounds) if rounds else None}


def measure(c, run, made, log, _directory, timeout_s):
    passes = []
    for _ in range(c["n_iters"]):
        at = os.path.getsize(log) if os.path.exists(log) else 0
        group = machine.Group(timeout_s)
        group.start("MP-SPDZ", [made["script"], made["program"]], log, c["mp_spdz_root"])
        group.wait()
        with open(log, "rb") as f:
            f.seek(at)
            passes.append(parse(f.read().decode(errors="backslashreplace")))
    mean, deviation = mean_and_deviation([p["online"] for p in passes])
    return row(run, c["models_known"].get(run["model"], {"d_model": run["width"]}), c["hardware"], threads=1, frac_bits=16,
               timing={"online_time_s_mean": mean, "online_time_s_std": deviation},
               communication={"online_bytes": passes[-1]["bytes"], "rounds": passes[-1]["rounds"]},
               command=f"Scripts/ring.sh {made['program']}",
               notes="three processes, one corruption; preprocessing is in the online time; bytes of all parties; the "
                     "program is the user's")
