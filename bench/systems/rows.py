# SPDX-License-Identifier: Apache-2.0
"""Rows: one object of docs/json/bench.schema.json for each measurement, and files of them."""
import csv
import json
import os

BREAKDOWN = ("gelu", "silu", "softmax", "layernorm", "rmsnorm", "matmul", "compare", "truncate", "other")


class Failed(Exception):
    """A run gave nothing that counts; the text says why."""


class TimedOut(Failed):
    """It was ended, since it took too long."""


class Skipped(Exception):
    """A run cannot be here; the text says what it needs."""


def row(run, model, hardware, **more):
    """A row of a system that is not uvcc. `run`: see bench/run_sigma_vs_uvcc.py; null where nothing is known."""
    timing = {"online_time_s_mean": None, "online_time_s_std": None, "preproc_time_s": None, "total_time_s": None,
              "function_time_s_mean": None}
    timing.update(more.get("timing", {}))
    if timing["online_time_s_mean"] is not None:
        timing["total_time_s"] = timing["online_time_s_mean"] + (timing["preproc_time_s"] or 0)
    return {
        "system": run["system"], "backend": run["backend"], "model": run["model"], "seq_len": run["seq_len"],
        "batch_size": run["batch_size"], "n_layers": model.get("n_layers", 0), "n_heads": model.get("n_heads", 0),
        "d_model": model.get("d_model", 0), "n_bits": model.get("n_bits"), "frac_bits": more.get("frac_bits", 12),
        "hardware": hardware, "timing": timing,
        "communication": {"online_bytes": None, "preproc_bytes": None, "rounds": None, **more.get("communication", {})},
        "fss": {"num_jobs": None, "num_flushes": None, "key_bytes": None, "key_bytes_gathered": None, "aes_calls": None, **more.get("fss", {})},
        "memory": {"max_gpu_bytes": None, "max_rss_bytes": None, **more.get("memory", {})},
        "threads": more.get("threads", 1), "nonlinear_breakdown": more.get("breakdown", {}),
        "config_flags": {"eff_bits": None, "ragged_pack": None, "fusion": None, "whole": False, "fold": False, "audit": False,
                         "one_device_each": False, "transport": None, "keys_ahead_mib": None, "keys_gathered_mib": None, "mode": None,
                         "weights": "secret",
                         "ring_bits": 64, "value_bits": None, "inner_bits": None, "index_bits": None, **more.get("flags", {})},
        "command": more["command"], "commit": more.get("commit"), "notes": more.get("notes", ""),
    }


def mean_and_deviation(values):
    middle = sum(values) / len(values)
    squares = sum((v - middle) ** 2 for v in values)
    return middle, (squares / (len(values) - 1)) ** 0.5 if len(values) > 1 else 0.0


def replace(path, text):
    """The file is the old one or the new one, whole."""
    with open(path + ".part", "w", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".part", path)


def read(directory):
    """The rows that are kept in it, by the name of their run."""
    out = {}
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        if name.endswith(".json"):
            with open(os.path.join(directory, name), encoding="utf-8") as f:
                out[name[:-5]] = json.load(f)
    return out


def flat(value, at=""):
    """(column, cell) of all that a row has; lists are JSON."""
    for key, v in value.items():
        if isinstance(v, dict):
            yield from flat(v, at + key + ".")
        else:
            yield at + key, json.dumps(v) if isinstance(v, list) else v


def write_summary(directory, rows):
    """summary.jsonl and summary.csv, whose columns are those of all rows."""
    replace(os.path.join(directory, "summary.jsonl"), "".join(json.dumps(r) + "\n" for r in rows))
    cells = [dict(flat(r)) for r in rows]
    columns = list(dict.fromkeys(c for r in cells for c in r))
    path = os.path.join(directory, "summary.csv")
    with open(path + ".part", "w", encoding="utf-8", newline="") as f:
        table = csv.DictWriter(f, columns, lineterminator="\n")
        table.writeheader()
        table.writerows(cells)
    os.replace(path + ".part", path)
