#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""command.py UVCC ROOT: uvcc bench: what it counts, what it refuses, what is left when it is interrupted."""
import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile

UVCC, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
TINY = "--model bert-tiny --layers 1 --seq-len 4 --n-iters 1 --threads 1"


def check(what, right):
    if not right:
        raise SystemExit(f"not so: {what}")
    print("right:", what)


def run(words, status=0):
    p = subprocess.run([UVCC, "bench", *words.split()], capture_output=True, text=True, check=False)
    if p.returncode != status:
        raise SystemExit(f"{words}: status {p.returncode}, not {status}: {p.stdout}{p.stderr}")
    return p.stdout if status == 0 else p.stderr


def row(words):
    return json.loads(run(words + " --json -"))


def counts():
    """Of functions whose keys and bytes docs/compute.md and docs/protocols.md have in closed form."""
    check("one pass has no deviation", "deviation none, of 1 passes" in run(TINY))
    micro = "--seq-len 8 --width 64 --n-iters 1 --threads 1 --micro "
    check("a function has no layers", run(micro + "compare --dry-run").startswith("compare on the CPU, width 64, frac_bits 12\n"))
    n = 8 * 64
    # RELU on 19 bits: a DPF of 12 levels, 4 calls each and 2 to make it, 12 and 1 to use it, at two parties
    r = row(micro + "compare")
    check("AES calls of a comparison", r["fss"]["aes_calls"] == n * (4 * 12 + 2 + 2 * 13))
    check("bytes of its keys", r["fss"]["key_bytes"] == n * (2 * (16 * 12 + 16 + 3) + 16))
    check("none lay with tensors before the input", r["fss"]["key_bytes_gathered"] == 0)
    r = row(micro + "compare --keys-gathered 4")
    check("all did, in the messages that they came in", r["fss"]["key_bytes_gathered"] == r["communication"]["preproc_bytes"])
    t = r["timing"]
    check("the function alone takes less than with its input", 0 < t["function_time_s_mean"] < t["online_time_s_mean"])
    check("and is shown", "from when all parties have its input" in run(micro + "compare"))
    check("calls of it", r["nonlinear_breakdown"]["compare_calls"] == 1 and r["nonlinear_breakdown"]["gelu_calls"] == 0)
    r = row(micro + "truncate --mode exact")
    check("AES calls of an exact truncation", r["fss"]["aes_calls"] == n * (4 * 5 + 2 + 2 * 6))
    r = row(micro + "truncate --mode exact-dcf")
    check("by a DCF", r["fss"]["aes_calls"] == n * (12 * 8 + 2 + 2 * (12 * 2 + 1)))
    r = row(micro + "gemm")
    check("a product has no keys", r["fss"]["aes_calls"] == 0 and r["fss"]["key_bytes"] == 0)
    check("rounds of a product and of its input", r["communication"]["rounds"] == 3)
    check("a public matrix takes a round less", row(micro + "gemm --weights public")["communication"]["rounds"] == 2)
    # one table: what it uses lies between a path and all of the tree
    check("AES calls of a table", row(micro + "gelu")["fss"]["aes_calls"] > 8 * 256 * (4 * 12 + 2))


def models():
    listed = run("--list").splitlines()
    check("seven models", len(listed) == 8 and listed[0].split()[:4] == ["name", "hf_id", "n_layers", "n_heads"])
    for line in listed[1:]:
        name, _, layers, heads, width, _, _, bits, frac = line.split()
        r = row(f"--model {name} --dry-run")
        check(f"{name} is as listed", [r["n_layers"], r["n_heads"], r["d_model"], r["n_bits"], r["frac_bits"]] ==
              [int(layers), int(heads), int(width), int(bits), int(frac)] and r["timing"]["online_time_s_mean"] is None)
    check("a model has no function's time", row(TINY)["timing"]["function_time_s_mean"] is None)
    said = run(TINY + " --mode exact --check --whole")
    check("with embedding and head it is what plaintext gives", "checked      bit for bit" in said)
    said = run(f"--model {ROOT}/tests/data/models/gpt2 --seq-len 8 --n-iters 2 --threads 2 --mode exact --check "
               "--disable-ragged-pack --disable-fusion")
    check("so it is as padded rows, a job for each task", "checked      bit for bit" in said)
    check("a model without gains too", "bit for bit" in row(f"--model {ROOT}/tests/data/models/gpt2 --seq-len 4 --n-iters 1 "
                                                            "--mode exact --check --fold")["notes"])
    digests = {next(line for line in run(f"{TINY} {how}").splitlines() if line.startswith("output"))
               for how in ("--threads 1", "--threads 3 --keys-gathered 1", "--disable-fusion --keys-gathered 8", "--audit")}
    check("the output is the same, whatever computes", len(digests) == 1)
    r = row(f"--model {ROOT}/tests/data/models/gpt2 --seq-len 4 --n-iters 1 --mode exact-dcf --check --weights public")
    check("a checkpoint's too", "bit for bit" in r["notes"] and r["n_bits"] is None)


def memory():
    """What is said before is enough. Keys lie at their receivers, and few are on their way; weights lie nowhere but in their tensors."""
    for words in ("--model bert-tiny --seq-len 256", "--model gpt2 --layers 2 --seq-len 1"):
        words += " --n-iters 1 --threads 1"
        said, r = row(words + " --dry-run")["memory"]["max_rss_bytes"], row(words)
        took = r["memory"]["max_rss_bytes"]
        check(f"memory: {took / 1e6:.0f} MB of {said / 1e6:.0f}", took < said < 2 * took)
        if "tiny" in words:
            check("less than thrice the keys", took < 3 * r["fss"]["key_bytes"])


def index_bits():
    """Cells of the activation: 2^-7 at f = 12, in a model and in a function; others if one says so, and only where there are any."""
    micro = "--seq-len 8 --width 64 --dry-run --micro "
    for words in (TINY + " --dry-run", micro + "gelu", micro + "silu"):
        plain, same, finer = (row(words + option) for option in ("", " --index-bits 7", " --index-bits 9"))
        check(f"{words}: index_bits are 7 at f = 12", plain["config_flags"]["index_bits"] == 7 and plain["fss"] == same["fss"] and
              finer["config_flags"]["index_bits"] == 9 and finer["fss"]["key_bytes"] > plain["fss"]["key_bytes"])
    for name in ("softmax", "layernorm", "rmsnorm", "gemm", "compare", "truncate"):
        check(f"{name} has none", row(micro + name)["config_flags"]["index_bits"] is None)
        check(f"{name}: --index-bits is refused", "--index-bits does nothing with this --micro" in run(f"{micro}{name} --index-bits 7", 2))
    with tempfile.TemporaryDirectory() as directory:
        model = os.path.join(directory, "relu")
        shutil.copytree(f"{ROOT}/tests/data/models/gpt2", model)
        path = os.path.join(model, "config.json")
        with open(path, encoding="utf-8") as f:
            config = json.load(f)
        with open(path, "w", encoding="utf-8") as f:
            json.dump(config | {"activation_function": "relu"}, f)
        words = f"--model {model} --seq-len 4 --dry-run"
        check("ReLU has none", row(words)["config_flags"]["index_bits"] is None)
        check("ReLU: --index-bits is refused", "whose activation is ReLU" in run(words + " --index-bits 7", 2))


def flags():
    plain, unfused = row(TINY), row(TINY + " --disable-fusion")
    check("without fusion: more jobs, the same bytes and rounds", unfused["fss"]["num_jobs"] > plain["fss"]["num_jobs"] and
          unfused["communication"] == plain["communication"] and not unfused["config_flags"]["fusion"])
    wide = row(TINY + " --disable-eff-bits")
    check("without effective bits: larger keys", wide["fss"]["key_bytes"] > 1.2 * plain["fss"]["key_bytes"] and
          wide["config_flags"]["value_bits"] > 7 and not wide["config_flags"]["eff_bits"])
    gpt = "--model gpt2 --layers 1 --seq-len 64 --dry-run"
    square = row(gpt + " --disable-ragged-pack")
    check("padded rows: more keys", square["fss"]["key_bytes"] > 1.1 * row(gpt)["fss"]["key_bytes"] and
          not square["config_flags"]["ragged_pack"])
    check("folded gains: fewer bytes", row(gpt + " --fold")["communication"]["online_bytes"] <
          0.95 * row(gpt)["communication"]["online_bytes"])
    check("two sequences take twice", row(TINY + " --batch-size 2")["fss"]["key_bytes"] > 1.8 * plain["fss"]["key_bytes"])


def helps():
    listed = run("--help")
    check("help names all functions", "gelu|silu|softmax|layernorm|rmsnorm|gemm|compare|truncate\n" in listed)


def refusals():
    for words, text in (
            ("", "give --model NAME"), ("--model bert-tiny --micro gelu", "not both"), ("--model bert", "see uvcc bench --list"),
            ("--model bert-tiny --seq-len 513", "512 positions"), ("--model bert-tiny --layers 3", "bert-tiny has 2"),
            ("--model bert-tiny --check", "give --mode exact"), ("--micro gelu --mode exact --check", "with --micro"),
            ("--model bert-tiny --disable-ragged-pack", "does nothing with bert-tiny"),
            ("--model bert-tiny --fold", "plain_norms"),
            ("--model bert-tiny --device 1", "without --backend gpu"), ("--model bert-tiny --width 64", "without --micro"),
            ("--model bert-tiny --value-bits 8 --disable-eff-bits", "with --disable-eff-bits"),
            ("--model llama2-13b --seq-len 4096", "GB are free: give a smaller --seq-len"),
            ("--model bert-tiny --hardware /dev/null", "--hardware /dev/null"),
            ("--model ./none", "none"),
            ("--micro softmax --disable-ragged-pack", "whose rows are all full")):
        check(f"'{words}' is refused: {text}", text in run(words, 2))


def interrupted():
    """After the first measured pass; standard error is a terminal, so that lines of progress come at once."""
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "row.json")
        master, slave = pty.openpty()
        p = subprocess.Popen([UVCC, "bench", *TINY.split(), "--n-iters", "1000", "--json", out], stdout=subprocess.DEVNULL,
                             stderr=slave, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))  # our own may be ignored
        os.close(slave)
        said = b""
        while not any(int(n) >= 2 for n in re.findall(rb"pass (\d+) of", said)):  # the first warms up
            said += os.read(master, 4096)
        p.send_signal(signal.SIGINT)
        check("status 130", p.wait() == 130)
        os.close(master)
        with open(out, encoding="utf-8") as f:
            r = json.load(f)
        check("what was measured is there", r["timing"]["online_time_s_mean"] > 0 and "interrupted" in r["notes"] and
              r["communication"]["rounds"] > 40)
        check("no file that is not whole", os.listdir(directory) == ["row.json"])


def interrupted_before():
    """While weights are made nothing is measured, and it ends at once. The pipe says when it begins."""
    with tempfile.TemporaryDirectory() as directory:
        out = os.path.join(directory, "row")
        os.mkfifo(out)
        p = subprocess.Popen([UVCC, "bench", *"--model gpt2 --layers 2 --seq-len 4".split(), "--json", out], stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL))
        with open(out, "rb"):
            p.send_signal(signal.SIGINT)
            said = p.communicate()
        check(f"it ends at once: {said}", p.returncode == 130 and said == ("", "uvcc: interrupted\n"))
        check("nothing is left", os.listdir(directory) == ["row"])


def main():
    counts()
    models()
    if os.environ.get("UVCC_SANITIZED") != "1":  # sanitizers keep what is freed
        memory()
    index_bits()
    flags()
    helps()
    refusals()
    interrupted()
    interrupted_before()


if __name__ == "__main__":
    main()
