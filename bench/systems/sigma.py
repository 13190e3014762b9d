# SPDX-License-Identifier: Apache-2.0
"""SIGMA (EzPC GPU-MPC): a dealer of keys for either party, then two evaluators. Nothing of it is here: `sigma_root`
holds one that its own README built (docs/benchmark.md)."""
import os
import re
import subprocess

from . import machine
from .rows import Failed, Skipped, mean_and_deviation, row

NAMES = {"bert-tiny": "bert-tiny", "bert-base": "bert-base", "bert-large": "bert-large", "gpt2": "gpt2",
         "gpt-neo-1.3b": "gpt-neo", "llama2-7b": "llama7b", "llama2-13b": "llama13b"}
# The buffers that it takes for a party's keys at 128 tokens: bounds for disk and memory.
KEYS_GB = {"bert-tiny": 1, "bert-base": 20, "bert-large": 50, "gpt2": 20, "gpt-neo": 80, "llama7b": 300, "llama13b": 450}


def binary(root):
    for path in (os.path.join(root, "GPU-MPC", "experiments", "sigma", "sigma"),
                 os.path.join(root, "experiments", "sigma", "sigma"), os.path.join(root, "sigma")):
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise Skipped(f"sigma_root {root}: there is no built experiments/sigma/sigma; docs/benchmark.md says how to build it")


def parties(c):
    return [0, 1] if c["mode"] == "Loopback" else [c["party"]]


def plan(c, run, _directory):
    """What it needs is here: {program, name}; or Skipped."""
    if run["backend"] != "gpu":
        raise Skipped("SIGMA's README builds it for NVIDIA GPUs only")
    if run["micro"] or run["model"] not in NAMES:
        raise Skipped(f"SIGMA has no model {run['model']}")
    if run["batch_size"] != 1:
        raise Skipped("SIGMA's command has no batch size")
    if run["flags"]:
        raise Skipped("the flags are uvcc's")
    if run["seq_len"] & (run["seq_len"] - 1):
        raise Skipped("SIGMA takes sequence lengths that are powers of 2")
    if c["mode"] == "LAN" and c["peer"] is None:
        raise Skipped("mode LAN wants peer, the address of the other party, and party, 0 or 1")
    program, name = binary(c["sigma_root"]), NAMES[run["model"]]
    longer = run["seq_len"] / 128  # scores grow by its square
    keys = KEYS_GB[name] * 10**9 * max(longer, longer**2) * len(parties(c))
    if machine.disk_free(c["key_dir"]) < keys:
        raise Skipped(f"keys may take {keys / 1e9:.0f} GB in key_dir {c['key_dir']}, "
                      f"{machine.disk_free(c['key_dir']) / 1e9:.0f} GB are free")
    if machine.memory_free() < keys:
        raise Skipped(f"keys may take {keys / 1e9:.0f} GB of memory, {machine.memory_free() / 1e9:.0f} GB are free")
    return {"program": program, "name": name}


# ---- what it writes ----

def numbers(text):
    """{what stands before "=", in small letters: the number behind it}; bytes without their "(.. GB)"."""
    out = {}
    for line in text.splitlines():
        m = re.match(r"\s*([A-Za-z0-9 ]+?)\s*[=:]\s*([0-9.]+)", line)
        if m:
            out[m[1].lower()] = float(m[2])
    return out


def one(values, *ends):
    for name, value in values.items():
        if any(name.endswith(end) for end in ends):
            return value
    return None


def parse_dealer(text):
    """(seconds, bytes of one party's keys): times are in microseconds, whatever the file says."""
    values = numbers(text)
    time, size = one(values, "time"), one(values, "key size", "size")
    if time is None or size is None:
        raise Failed(f"dealer.txt has no time or no size of keys: {text.strip()[:200]!r}")
    return time / 1e6, int(size)


def parse_evaluator(text):
    """{"online": seconds, "bytes": sent and received, "seconds" and "family_bytes": by family}."""
    values = numbers(text)
    if "total time" not in values or "total comm" not in values:
        raise Failed(f"evaluator.txt has no total time or no total comm: {text.strip()[:200]!r}")
    seconds = {f: values[f"{f} time"] / 1e6 for f in ("gelu", "softmax", "layernorm", "matmul", "truncate")
               if f"{f} time" in values}
    of = {f: int(values[f"{f} comm"]) for f in ("gelu", "softmax", "layernorm") if f"{f} comm" in values}
    return {"online": values["total time"] / 1e6, "bytes": int(values["total comm"]), "seconds": seconds, "family_bytes": of}


def breakdown(model, found):
    """By uvcc's names: what it calls gelu is SiLU in Llama, and layernorm an RMS norm."""
    names = {"gelu": "silu", "layernorm": "rmsnorm"} if model.startswith("llama") else {}
    out = {f"{names.get(f, f)}_seconds": v for f, v in found["seconds"].items()}
    out.update({f"{names.get(f, f)}_bytes": v for f, v in found["family_bytes"].items()})
    return out


# ---- runs ----

class Run:
    def __init__(self, c, run, made, log, timeout_s):
        self.c, self.run, self.program, self.name, self.log, self.timeout_s = c, run, made["program"], made["name"], log, timeout_s
        self.cwd = os.path.dirname(self.program)
        self.keys = os.path.join(os.path.abspath(c["key_dir"]), "")

    def output(self, party, name):
        return os.path.join(self.cwd, "output", f"P{party}", "models", f"{self.name}-{self.run['seq_len']}", name)

    def read(self, party, name):
        path = self.output(party, name)
        try:
            with open(path, encoding="utf-8") as f:
                return f.read()
        except OSError as e:
            raise Failed(f"SIGMA wrote no {os.path.relpath(path, self.cwd)}: {machine.tail(self.log)}") from e

    def clear(self, party, name):
        """No row may come of an older run's file."""
        path = self.output(party, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if os.path.exists(path):
            os.remove(path)

    def words(self, role, party):
        out = [self.program, self.name, str(self.run["seq_len"]), str(role), str(party), self.keys]
        peer = "127.0.0.1" if self.c["mode"] == "Loopback" else self.c["peer"]
        return out + ([peer, str(self.c["threads"])] if role == 1 else [])

    def device(self, party):
        """A device for each of two parties on a host that has two."""
        return {"CUDA_VISIBLE_DEVICES": str(party if len(machine.gpu_free()) > 1 else 0)}

    def deal(self):
        found = []
        for party in parties(self.c):
            self.clear(party, "dealer.txt")
            group = machine.Group(self.timeout_s)
            group.start(f"SIGMA's dealer of party {party}", self.words(0, party), self.log, self.cwd, self.device(party))
            group.wait()
            found.append(parse_dealer(self.read(party, "dealer.txt")))
        return found

    def evaluate(self):
        group = machine.Group(self.timeout_s)
        for party in parties(self.c):
            self.clear(party, "evaluator.txt")
            group.start(f"SIGMA's evaluator of party {party}", self.words(1, party), self.log, self.cwd, self.device(party))
        rss = group.wait()
        return parse_evaluator(self.read(parties(self.c)[0], "evaluator.txt")), rss

    def remove_keys(self):
        for name in os.listdir(self.keys):
            if name.startswith(f"{self.name}_inference_key"):
                os.remove(os.path.join(self.keys, name))


def commit_of(root):
    p = subprocess.run(["git", "-C", root, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return p.stdout.strip() or None


def measure(c, run, made, log, _directory, timeout_s):
    r = Run(c, run, made, log, timeout_s)
    with machine.GpuPeak(run["backend"] == "gpu") as gpu:
        try:
            dealt = r.deal()
            passes = [r.evaluate() for _ in range(c["n_iters"])]
        finally:
            r.remove_keys()
    mean, deviation = mean_and_deviation([found["online"] for found, _ in passes])
    found = passes[-1][0]
    keys = sum(size for _, size in dealt) * 2 // len(dealt)
    here = "both parties on this host" if c["mode"] == "Loopback" else f"party {c['party']} of two hosts"
    return row(run, c["models_known"][run["model"]], c["hardware"], threads=c["threads"],
               timing={"online_time_s_mean": mean, "online_time_s_std": deviation, "preproc_time_s": dealt[0][0]},
               communication={"online_bytes": found["bytes"], "preproc_bytes": keys}, fss={"key_bytes": keys},
               memory={"max_gpu_bytes": gpu.bytes(), "max_rss_bytes": max(rss for _, rss in passes)},
               breakdown=breakdown(made["name"], found),
               flags={"ring_bits": c["models_known"][run["model"]]["n_bits"]},
               command=" ".join(["sigma", *r.words(1, parties(c)[0])[1:5]]), commit=commit_of(c["sigma_root"]),
               notes=f"two parties and a trusted dealer; {here}; bytes of both parties; keys of both, which a dealer would "
                     f"send; preprocessing is one party's dealer; {len(passes)} passes on the same keys")
