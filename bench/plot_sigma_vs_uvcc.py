#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/plot_sigma_vs_uvcc.py - pictures and tables of the rows that bench/run_sigma_vs_uvcc.py made.

usage: bench/plot_sigma_vs_uvcc.py [--out DIR] [--seq-len L] FILE...
       bench/plot_sigma_vs_uvcc.py --tables DOCUMENT [--check]

FILE is a summary.jsonl. Pictures, each as SVG and PNG, go to DIR (bench/plots): models (online time, bytes and keys by model
and system), length (online time against the length), breakdown (what jobs were of, by function), network (time by a line's
rate and round trip). What the rows say nothing of is left out, and said.

  --out DIR          where pictures go; it is made
  --seq-len L        of pictures that compare models (128)
  --tables DOCUMENT  writes the tables of rows into the document: behind each line <!-- rows: FILE... --> (files beside the
                     document's own) the table that follows is made anew
  --check            writes nothing; status 1 if a table is not what the rows say
  --help             this text

Exit status: 0 done, 1 a table differs, 2 wrong use, 77 no matplotlib (Debian: python3-matplotlib).
"""
import argparse
import json
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTIES = {"uvcc": 3, "sigma": 2, "mp-spdz": 3, "spu": 3}
TITLES = {"uvcc": "uvcc (3 parties)", "sigma": "SIGMA (2 and a dealer)", "mp-spdz": "MP-SPDZ (3 parties)", "spu": "SPU (3 parties)"}
COLOURS = {"uvcc": "#0072b2", "sigma": "#d55e00", "mp-spdz": "#009e73", "spu": "#cc79a7"}
SHADES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#999999", "#000000", "#f0e442"]
FAMILIES = ["matmul", "gelu", "silu", "softmax", "layernorm", "rmsnorm", "truncate", "compare", "other"]
NETWORKS = [("10 Gbit/s, 0.1 ms", 10e9, 0.1e-3), ("1 Gbit/s, 1 ms", 1e9, 1e-3), ("200 Mbit/s, 40 ms", 200e6, 40e-3)]


def read(paths):
    rows = []
    for path in paths:
        with open(path, encoding="utf-8") as f:
            rows += [json.loads(line) for line in f if line.strip()]
    return rows


def plain(row):
    """As it comes: no ablation, no part of a model."""
    flags = row["config_flags"]
    return all(flags[name] is not False for name in ("eff_bits", "ragged_pack", "fusion")) and not flags["fold"] and row["n_layers"] > 0


def online(row):
    return row["timing"]["online_time_s_mean"]


def bits(value, unit):
    """Three digits."""
    return "" if value is None else f"{value / unit:.3g}"


# ---- tables ----

COLUMNS = ["system", "on", "model", "tokens", "online, s", "deviation", "preprocessing, s", "processor, s", "GB online", "GB of keys", "rounds",
           "GB of memory", "of a device", "notes"]


def remarks(row):
    """What is not as it comes."""
    flags = row["config_flags"]
    out = [name.replace("_", " ") + " off" for name in ("eff_bits", "ragged_pack", "fusion") if flags[name] is False]
    out += ["gains folded"] if flags["fold"] else []
    out += ["public weights"] if flags["weights"] == "public" else []
    out += [f"{flags['keys_ahead_mib']} MiB of keys ahead, the others dealt online"] if flags["keys_ahead_mib"] else []
    gathered = row["fss"].get("key_bytes_gathered")  # older rows have none
    out += [f"{gathered / 1e6:.0f} MB of keys on devices before the input"] if gathered and row["backend"] == "gpu" else []
    out += [f"{row['n_layers']} layers"] if row["command"].find("--layers") >= 0 else []
    out += [f"batch of {row['batch_size']}"] if row["batch_size"] != 1 else []
    out += [f"width {row['d_model']}"] if row["n_layers"] == 0 else []
    return "; ".join(out)


def processor(row):
    """Seconds of all threads in a pass, of notes of uvcc."""
    m = re.search(r"([0-9.e+-]+) s of processor time", row["notes"])
    return bits(float(m[1]), 1) if m and row["backend"] == "cpu" else ""


def cells(row):
    t, c = row["timing"], row["communication"]
    return [row["system"], row["backend"].upper(), row["model"], str(row["seq_len"]), bits(online(row), 1),
            bits(t["online_time_s_std"] or None, 1), bits(t["preproc_time_s"], 1), processor(row), bits(c["online_bytes"], 1e9),
            bits(row["fss"]["key_bytes"], 1e9), "" if c["rounds"] is None else str(c["rounds"]),
            bits(row["memory"]["max_rss_bytes"], 1e9), bits(row["memory"]["max_gpu_bytes"], 1e9), remarks(row)]


def order(row):
    return (row["n_layers"] == 0, row["model"], row["backend"], row["seq_len"], row["batch_size"], row["d_model"], row["system"], remarks(row))


def table(rows):
    """In Markdown; columns that nobody fills are left out."""
    lines = [cells(row) for row in sorted(rows, key=order)]
    used = [i for i in range(len(COLUMNS)) if any(line[i] for line in lines)]
    out = ["| " + " | ".join(COLUMNS[i] for i in used) + " |", "|" + "---|" * len(used)]
    return out + ["| " + " | ".join(line[i] for i in used) + " |" for line in lines]


def tables(document, check):
    """The document's lines with their tables made anew; 1 if `check` and something differs."""
    with open(document, encoding="utf-8") as f:
        old = f.read().split("\n")
    new, at = [], 0
    while at < len(old):
        new.append(old[at])
        at += 1
        if not new[-1].startswith("<!-- rows: "):
            continue
        files = new[-1].removeprefix("<!-- rows: ").removesuffix(" -->").split()
        while at < len(old) and old[at].startswith("|"):
            at += 1
        new += table(read(os.path.join(os.path.dirname(os.path.abspath(document)), name) for name in files))
    if check:
        for line in sorted(set(old) ^ set(new)):
            print(f"{document}: not as the rows have it: {line}")
        return int(old != new)
    with open(document, "w", encoding="utf-8") as f:
        f.write("\n".join(new))
    return 0


# ---- pictures ----

class Plots:
    def __init__(self, plt, out):
        self.plt, self.out = plt, out
        os.makedirs(out, exist_ok=True)

    def save(self, figure, name):
        for kind in ("svg", "png"):
            figure.savefig(os.path.join(self.out, f"{name}.{kind}"), dpi=120, bbox_inches="tight",
                           metadata={"Date": None} if kind == "svg" else None)
        self.plt.close(figure)
        print(f"{name}.svg, {name}.png")

    def log_scale(self, axes, values):
        """From one 1, 2 or 5 below all values to one above, with plain numbers."""
        from matplotlib import ticker
        steps = [m * 10.0**e for e in range(-6, 7) for m in (1, 2, 5)]
        axes.set_yscale("log")
        axes.set_ylim(max(s for s in steps if s < 0.8 * min(values)), min(s for s in steps if s > 1.25 * max(values)))
        few = max(values) < 200 * min(values)
        axes.yaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if few else (1,)))
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda y, _: f"{y:g}"))
        axes.yaxis.set_minor_locator(ticker.NullLocator())

    def tidy(self, axes, title, unit):
        axes.set_title(title, loc="left", fontsize=11)
        axes.set_ylabel(unit)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)


def groups(rows):
    """(labels of models with their back end, kinds of systems) of rows of one length."""
    labels = list(dict.fromkeys((r["model"], r["backend"]) for r in sorted(rows, key=lambda r: (r["backend"], online(r)))))
    return labels, [s for s in PARTIES if any(r["system"] == s for r in rows)]


def by_model(p, rows, seq_len):
    rows = [r for r in rows if r["seq_len"] == seq_len and r["batch_size"] == 1]
    if not rows:
        return print(f"models: no row of {seq_len} tokens")
    labels, systems = groups(rows)
    what = [("Online time", "s", online), ("Bytes online, all parties", "GB", lambda r: scaled(r["communication"]["online_bytes"])),
            ("Keys, all parties", "GB", lambda r: scaled(r["fss"]["key_bytes"]))]
    figure, axes = p.plt.subplots(1, 3, figsize=(max(11, 1.3 * len(labels) * 3), 4.2))
    for ax, (title, unit, value) in zip(axes, what):
        found = {(r["model"], r["backend"], r["system"]): value(r) for r in rows if value(r)}
        for i, (model, backend) in enumerate(labels):
            here = [s for s in systems if (model, backend, s) in found]
            for k, system in enumerate(here):
                y = found[model, backend, system]
                bar = ax.bar(i + (k - (len(here) - 1) / 2) * 0.4, y, 0.38, color=COLOURS[system])
                ax.bar_label(bar, [f"{y:.3g}"], fontsize=8, padding=1)
        p.log_scale(ax, found.values())
        ax.set_xticks(range(len(labels)), [f"{m}\n{b.upper()}" for m, b in labels], fontsize=9)
        p.tidy(ax, title, unit)
    for system in systems:
        axes[0].bar(0, 0, color=COLOURS[system], label=TITLES[system])
    figure.tight_layout()
    figure.legend(frameon=False, fontsize=9, loc="lower right", ncols=4, bbox_to_anchor=(1, 1))
    figure.suptitle(f"{seq_len} tokens, batch of 1", x=0.01, y=1.04, ha="left", fontsize=12)
    return p.save(figure, "models")


def scaled(value):
    return None if value is None else value / 1e9


def by_length(p, rows):
    lines = {}
    for r in rows:
        lines.setdefault((r["system"], r["backend"], r["model"]), []).append((r["seq_len"], online(r), r["timing"]["online_time_s_std"]))
    lines = {k: sorted(v) for k, v in lines.items() if len({at[0] for at in v}) > 1}
    if not lines:
        return print("length: no model has rows of two lengths")
    figure, ax = p.plt.subplots(figsize=(7.5, 4.8))
    for i, (name, points) in enumerate(sorted(lines.items())):
        xs, ys, errors = zip(*points)
        ax.errorbar(xs, ys, [e or 0 for e in errors], color=SHADES[i % len(SHADES)], marker="o", markersize=5, capsize=3,
                    linestyle="-" if name[0] == "uvcc" else "--", label=f"{name[2]}, {name[0]}, {name[1].upper()}")
    ticks = sorted({at[0] for points in lines.values() for at in points})
    ax.set_xscale("log", base=2)
    ax.set_xticks(ticks, ticks)
    p.log_scale(ax, [at[1] for points in lines.values() for at in points])
    ax.set_xlabel("tokens")
    p.tidy(ax, "Online time by length of the sequence", "s")
    ax.legend(frameon=False, fontsize=9)
    figure.tight_layout()
    return p.save(figure, "length")


def by_function(p, rows, seq_len):
    rows = [r for r in rows if r["seq_len"] == seq_len and r["batch_size"] == 1 and
            any(k.endswith("_seconds") for k in r["nonlinear_breakdown"])]
    if not rows:
        return print(f"breakdown: no row of {seq_len} tokens has one")
    rows.sort(key=lambda r: (r["backend"], r["system"], online(r)), reverse=True)
    figure, ax = p.plt.subplots(figsize=(9, 1.4 + 0.6 * len(rows)))
    left = [0.0] * len(rows)
    sums = [sum(r["nonlinear_breakdown"].get(f"{f}_seconds") or 0 for f in FAMILIES) for r in rows]
    for f, colour in zip(FAMILIES, SHADES):
        parts = [100 * (r["nonlinear_breakdown"].get(f"{f}_seconds") or 0) / s for r, s in zip(rows, sums)]
        if not any(parts):
            continue
        bars = ax.barh(range(len(rows)), parts, 0.66, left=left, color=colour, label=f)
        dark = colour in ("#0072b2", "#d55e00", "#009e73", "#000000")
        ax.bar_label(bars, [f"{x:.0f}%" if x >= 5 else "" for x in parts], label_type="center", fontsize=8,
                     color="white" if dark else "black")
        left = [a + b for a, b in zip(left, parts)]
    ax.set_yticks(range(len(rows)), [f"{r['model']}, {r['system']}, {r['backend'].upper()}\n{s:.3g} s" for r, s in zip(rows, sums)],
                  fontsize=9)
    ax.set_xlim(0, 100)
    ax.set_xlabel("% of the time of jobs (summed over parties) or, of SIGMA, of one party's parts")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(f"What the online time is of, {seq_len} tokens", loc="left", fontsize=11, pad=28)
    ax.legend(frameon=False, fontsize=9, ncols=9, loc="lower left", bbox_to_anchor=(0, 1.0), columnspacing=1, handlelength=1)
    return p.save(figure, "breakdown")


def network_parts(row, rate, rtt):
    """Seconds of compute, bytes, rounds and keys: a party sends its part of all bytes; rounds follow one another, and each is one
    way of a message."""
    share = 8 / PARTIES[row["system"]] / rate
    rounds = row["communication"]["rounds"]
    return [online(row), (row["communication"]["online_bytes"] or 0) * share, (rounds or 0) * rtt / 2,
            (row["communication"]["preproc_bytes"] or 0) * share]


def network_panel(p, ax, rows, title, rate, rtt):
    names = ["compute", "online bytes / rate", "rounds x half a round trip"]
    parts = [network_parts(r, rate, rtt) for r in rows]
    low = [0.0] * len(rows)
    for k, (name, colour) in enumerate(zip(names, ["#0072b2", "#e69f00", "#009e73"])):
        heights = [part[k] for part in parts]
        ax.bar(range(len(rows)), heights, 0.66, bottom=low, color=colour, label=name)
        low = [a + b for a, b in zip(low, heights)]
    for i, (r, y, part) in enumerate(zip(rows, low, parts)):
        star = "" if r["communication"]["rounds"] is not None else "*"
        ax.annotate(f"{y:.3g}{star}", (i, y), ha="center", va="bottom", fontsize=9, xytext=(0, 11), textcoords="offset points")
        ax.annotate(f"keys {part[3]:.3g}", (i, y), ha="center", va="bottom", fontsize=7.5, color="#777777", xytext=(0, 2),
                    textcoords="offset points")
    ax.set_ylim(0, max(low) * 1.18)
    ax.set_xlim(-0.6, max(len(rows), 4) - 0.4)
    ax.set_xticks(range(len(rows)), [f"{r['model']}\n{r['system']}" for r in rows], fontsize=8)
    p.tidy(ax, title, "s")


def by_network(p, rows, seq_len):
    rows = [r for r in rows if r["seq_len"] == seq_len and r["batch_size"] == 1]
    backends = [b for b in ("gpu", "cpu") if any(r["backend"] == b for r in rows)]
    if not backends:
        return print(f"network: no row of {seq_len} tokens")
    widest = max(sum(r["backend"] == b for r in rows) for b in backends)
    figure, axes = p.plt.subplots(len(backends), len(NETWORKS), figsize=(max(11, 0.9 * widest * 3), 3.6 * len(backends)),
                                  squeeze=False)
    for line, backend in zip(axes, backends):
        some = sorted((r for r in rows if r["backend"] == backend), key=lambda r: (r["model"], r["system"]))
        for ax, (title, rate, rtt) in zip(line, NETWORKS):
            network_panel(p, ax, some, f"{backend.upper()}, {title}", rate, rtt)
    unknown = "; *: rounds not known, counted as 0" if any(r["communication"]["rounds"] is None for r in rows) else ""
    figure.tight_layout()
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, frameon=False, fontsize=9, loc="lower right", ncols=3, bbox_to_anchor=(1, 1))
    figure.suptitle(f"Online time by rate and round trip, {seq_len} tokens; grey: what sending the keys takes, before{unknown}",
                    x=0.01, y=1.045, ha="left", va="bottom", fontsize=11)
    return p.save(figure, "network")


def pictures(o):
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("there is no matplotlib for this python3 (Debian: python3-matplotlib)", file=sys.stderr)
        return 77
    matplotlib.rcParams.update({"svg.hashsalt": "uvcc", "svg.fonttype": "none"})  # the same text of the same rows
    rows = [r for r in read(o.files) if plain(r) and online(r)]
    p = Plots(plt, o.out)
    by_model(p, rows, o.seq_len)
    by_length(p, rows)
    by_function(p, rows, o.seq_len)
    by_network(p, rows, o.seq_len)
    return 0


def main():
    ap = argparse.ArgumentParser(add_help=False)
    ap.add_argument("files", nargs="*")
    ap.add_argument("--out", default=os.path.join(ROOT, "bench", "plots"))
    ap.add_argument("--seq-len", type=int, default=128)
    ap.add_argument("--tables")
    ap.add_argument("--check", action="store_true")
    ap.add_argument("-h", "--help", action="store_true")
    o = ap.parse_args()
    if o.help:
        print(__doc__.strip())
        return 0
    if bool(o.files) == bool(o.tables):
        print("give the files of rows, or --tables DOCUMENT; see --help", file=sys.stderr)
        return 2
    try:
        return tables(o.tables, o.check) if o.tables else pictures(o)
    except (OSError, ValueError, KeyError) as e:
        print(f"bench/plot_sigma_vs_uvcc.py: {e!r}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
