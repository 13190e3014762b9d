# SPDX-License-Identifier: Apache-2.0
"""uvcc: `uvcc bench`, which writes the row itself."""
import json
import os
import socket
import subprocess

from . import machine
from .rows import Failed, Skipped, TimedOut

SCRATCH = 4 << 30  # of devices, beside tensors
KEYS_AHEAD_MIB = 128


def models(tool):
    """What `uvcc bench --list` has: {name: {column: value}}."""
    out = subprocess.run([tool, "bench", "--list"], capture_output=True, text=True, check=True).stdout.splitlines()
    head = out[0].split()
    return {line.split()[0]: {k: int(v) if v.isdigit() else v for k, v in zip(head, line.split())} for line in out[1:]}


def words(c, run):
    out = [c["uvcc"], "bench", "--backend", run["backend"], "--seq-len", str(run["seq_len"]), "--batch-size",
           str(run["batch_size"]), "--n-iters", str(c["n_iters"])]
    if run["micro"]:
        out += ["--micro", run["model"], "--width", str(run["width"])]
    else:
        out += ["--model", run["model"], "--weights", c["weights"].get(run["model"], "secret")]
    if run["backend"] == "cpu":
        out += ["--threads", str(c["threads"])]
    return out + run["flags"]


def attempts(c, run, devices):
    """Ways to have it run, the fullest first: what is added to the words."""
    ways = [[], ["--keys-ahead", str(KEYS_AHEAD_MIB)]]
    if run["backend"] == "gpu" and devices >= 3 and not c["processes"]:
        ways = [w + s for s in ([], ["--spread"]) for w in ways]
    layers = c["fewer_layers"].get(run["model"])
    if layers:
        ways += [w + ["--layers", str(layers)] for w in ways]
    return ways


def estimate(command, directory):
    """What it would take: a row of nulls and bytes."""
    path = os.path.join(directory, "estimate.json")
    p = subprocess.run([*command, "--dry-run", "--json", path], capture_output=True, text=True, check=False)
    if p.returncode == 2:
        raise Skipped(p.stderr.strip().removeprefix("uvcc bench: "))
    if p.returncode != 0:
        raise Failed(p.stderr.strip())
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def lacks(need, free_host, free_devices):
    """What is not there; "" if all is."""
    host, device = need["memory"]["max_rss_bytes"], need["memory"]["max_gpu_bytes"]
    if host > free_host:
        return f"it needs {host / 1e9:.1f} GB of memory, {free_host / 1e9:.1f} GB are free"
    if device is None:
        return ""
    least = min(free_devices[:3] if need["config_flags"]["one_device_each"] else free_devices[:1], default=0)
    if device + SCRATCH > least:
        return f"it needs {(device + SCRATCH) / 1e9:.1f} GB of a device, {least / 1e9:.1f} GB are free"
    return ""


def make_job(directory):
    """The file of --job for three processes here, at ports that are free now."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    path = os.path.join(directory, "job.json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"parties": [{"address": f"tcp:127.0.0.1:{s.getsockname()[1]}"} for s in held], "wait_s": 60}, f)
    for s in held:
        s.close()
    return path


def plan(c, run, directory):
    """The words that fit here, those of party 0 where each is a process; or Skipped."""
    job = ["--job", make_job(directory), "--party", "0"] if c["processes"] else []
    devices = machine.gpu_free() if run["backend"] == "gpu" else []
    free, why = machine.memory_free(), ""
    if c["processes"] and run["backend"] == "gpu" and len(devices) < 3:
        raise Skipped(f"each of three processes takes a device, and {len(devices)} are here")
    for more in attempts(c, run, len(devices)):
        command = words(c, run) + more + job
        lack = lacks(estimate(command, directory), free, devices)
        if not lack:
            return command
        why = why or lack
    raise Skipped(why)


def measure(c, run, command, log, directory, timeout_s):
    path = os.path.join(directory, "row.json")
    if os.path.exists(path):
        os.remove(path)
    group = machine.Group(timeout_s, interrupts=True)
    for p in (1, 2) if c["processes"] else ():
        group.start(f"uvcc bench of party {p}", command[:-1] + [str(p)], log)
    group.start("uvcc bench", command + ["--hardware", c["hardware_file"], "--commit", c["commit"], "--json", path], log)
    try:
        group.wait()
    except TimedOut:
        if not os.path.exists(path):
            raise
    try:
        with open(path, encoding="utf-8") as f:
            row = json.load(f)
    except (OSError, ValueError) as e:
        raise Failed(f"uvcc bench left no row: {e}") from e
    row["command"] = " ".join(["uvcc", *(os.path.basename(w) if w.endswith("/job.json") else w for w in command[1:])])
    return row
