#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""plots.py ROOT: bench/plot_sigma_vs_uvcc.py: the tables of docs/benchmark.md are those of the rows, pictures show what the
rows say. Skipped (77) without matplotlib, after the tables."""
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

ROOT = os.path.abspath(sys.argv[1])
SCRIPT = os.path.join(ROOT, "bench", "plot_sigma_vs_uvcc.py")
sys.path.insert(0, os.path.join(ROOT, "bench"))
from systems import rows  # noqa: E402


def check(what, right):
    if not right:
        raise SystemExit(f"not so: {what}")
    print("right:", what)


def run(status, *words, python=sys.executable):
    p = subprocess.run([python, SCRIPT, *words], capture_output=True, text=True, check=False)
    if p.returncode != status:
        raise SystemExit(f"{words}: status {p.returncode}, not {status}: {p.stdout}{p.stderr}")
    return p.stdout + p.stderr


def row(system, backend, model, seq_len, online, rounds, **flags):
    made = rows.row({"system": system, "backend": backend, "model": model, "seq_len": seq_len, "batch_size": 1},
                    {"n_layers": 12, "n_heads": 12, "d_model": 768, "n_bits": 50}, {"hostname": "here"}, command="none",
                    timing={"online_time_s_mean": online, "online_time_s_std": 0.01, "preproc_time_s": 0.5},
                    communication={"online_bytes": 885000000, "preproc_bytes": 3000000000, "rounds": rounds},
                    fss={"key_bytes": 3000000000}, breakdown={"gelu_seconds": 0.3, "matmul_seconds": 0.1}, flags=flags)
    return json.dumps(made) + "\n"


def kernels(directory):
    """Of the two kinds of lists, which say the same: two kernels beside each other, one later, one before the pass."""
    at = [(10, 500010, "vec_kernel<2u>"), (1000000, 3000000, "gemm"), (1500000, 2500000, "map_kernel"), (3500000, 4000000, "map_kernel")]
    with open(os.path.join(ROOT, "include", "uvcc", "tasks.def"), encoding="utf-8") as f:
        number = re.search(r"UVCC_TASK\(GEMM,\s*(\d+)", f.read())[1]
    at[1] = (*at[1][:2], f"void (anonymous namespace)::vec_kernel<{number}u>(vec_task, step_keys)")
    texts = ["Generating\n\nStart (ns),Duration (ns),CorrId,Name\n" +
             "".join(f'{a},{b - a},1,"{name}"\n' for a, b, name in at) + "7,1,1,[CUDA memset]\n",
             "".join(f"N {i} {name.replace(' ', '')}\n" for i, (_, _, name) in enumerate(at)) +
             "".join(f"K {a} {b} 14 1 1 1 1 1 16 {i}\n" for i, (a, b, _) in enumerate(at))]
    said = []
    for text in texts:
        path = os.path.join(directory, "list")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        said.append(subprocess.run([sys.executable, os.path.join(ROOT, "bench", "kernel_table.py"), "--last", "3", "--of", "a pass", path],
                                   capture_output=True, text=True, check=True).stdout)
    check("both lists are read", said[0] == said[1])
    found = json.loads(said[0])
    check("of the pass alone", (found["window_ms"], found["busy_ms"], found["sum_ms"]) == (3, 2.5, 3.5))
    return said[0]


def tables(directory):
    run(0, "--tables", os.path.join(ROOT, "docs", "benchmark.md"), "--check")
    print("right: docs/benchmark.md has the tables of its rows")
    with open(os.path.join(directory, "rows.jsonl"), "w", encoding="utf-8") as f:
        f.write(row("uvcc", "gpu", "gpt2", 128, 0.654, 515) + row("uvcc", "gpu", "gpt2", 128, 0.9, 515, fusion=False) +
                row("uvcc", "cpu", "gpt2", 128, 9, 515, transport="tcp"))
    document = os.path.join(directory, "d.md")
    with open(document, "w", encoding="utf-8") as f:
        f.write("before\n<!-- rows: rows.jsonl -->\n| old |\n|---|\n\n<!-- work: gpt2 128 rows.jsonl -->\n"
                "<!-- kernels: kernels.json -->\n\nbehind\n")
    with open(os.path.join(directory, "kernels.json"), "w", encoding="utf-8") as f:
        f.write(kernels(directory))
    check("a table that is old is found", "| old |" in run(1, "--tables", document, "--check"))
    run(0, "--tables", document)
    with open(document, encoding="utf-8") as f:
        text = f.read()
    check("its rows are written", "| uvcc | GPU | gpt2 | 128 | 0.654 | 0.01 | 0.5 | 0.885 | 3 | 515 |  |\n" in text and
          "| fusion off |" in text and "| three processes over tcp |" in text and "| old |" not in text and text.endswith("|\n\nbehind\n"))
    check("what jobs were of is", "| gelu |  | 300 | 75 |\n| matmul |  | 100 | 25 |\n| all | | 400 | of 654 ms online |\n" in text)
    check("kernels are", "| GEMM | 1 | 2.0 | 2000 |\n| map_kernel | 2 | 1.5 | 750 |\n| 0 others | 0 | 0.0 | |\n"
          "| a pass | 3 | 4 | busy 2 of 3 ms |\n" in text)
    run(0, "--tables", document, "--check")


def words_of(path):
    return [e.text.strip() for e in xml.etree.ElementTree.parse(path).iter() if e.tag.endswith("text") and e.text]


def pictures(directory, python):
    path, out = os.path.join(directory, "p.jsonl"), os.path.join(directory, "plots")
    with open(path, "w", encoding="utf-8") as f:
        f.write(row("uvcc", "gpu", "gpt2", 128, 0.654, 515) + row("sigma", "gpu", "gpt2", 128, 1.085, None) +
                row("uvcc", "gpu", "gpt2", 64, 0.4, 515) + row("uvcc", "cpu", "bert-tiny", 128, 2, 89) +
                row("uvcc", "gpu", "gpt2", 128, 77, 515, eff_bits=False))
    run(0, "--out", out, path, python=python)
    names = sorted(os.listdir(out))
    check("four pictures, twice", names == sorted(f"{n}.{k}" for n in ("models", "length", "breakdown", "network")
                                                  for k in ("png", "svg")))
    for name in names:
        with open(os.path.join(out, name), "rb") as f:
            head = f.read(24)
        if name.endswith("png"):
            width, height = struct.unpack(">II", head[16:24])
            check(f"{name} has a size", head[:4] == b"\x89PNG" and 600 < width < 4000 and 250 < height < 2000)
    said = words_of(os.path.join(out, "models.svg"))
    check("models shows either system's time", "0.654" in said and ("1.08" in said or "1.09" in said) and "SIGMA (2 and a dealer)" in said)
    check("ablations are not in it", "77" not in said)
    said = words_of(os.path.join(out, "network.svg"))
    # 0.654 s, a third of 885 MB at 1 Gbit/s, 515 times half a millisecond
    check("network adds up", f"{0.654 + 0.885 * 8 / 3 + 515 * 0.5e-3:.3g}" in said and "keys 8" in said)
    check("rounds that nobody knows are marked", f"{1.085 + 0.885 * 8 / 2:.3g}*" in said)
    check("breakdown has shares", "75%" in words_of(os.path.join(out, "breakdown.svg")))
    check("length has the lengths", {"64", "128"} <= set(words_of(os.path.join(out, "length.svg"))))
    check("a length that nobody has", "no row of 7 tokens" in run(0, "--out", out, "--seq-len", "7", path, python=python))
    run(2, python=python)
    run(2, os.path.join(directory, "none"), python=python)


def main():
    with tempfile.TemporaryDirectory() as directory:
        tables(directory)
        for python in (sys.executable, "/usr/bin/python3"):
            if subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
                return pictures(directory, python)
    print("there is no matplotlib for python3 (Debian: python3-matplotlib): pictures are skipped")
    return 77


if __name__ == "__main__":
    sys.exit(main())
