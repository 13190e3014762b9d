#!/usr/bin/env python3
"""json_schemas.py UVCC ROOT: what every command writes with --json is what docs/json says of it.

Each schema is of JSON Schema 2020-12 and knows all members; every one is used, and refuses an output
that lacks a member, has one more or has one of another type. Skipped (77) without python3-jsonschema.
"""
import copy
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

try:
    from jsonschema import Draft202012Validator
except ImportError:
    print("there is no jsonschema of 2020-12 for python3 (Debian: python3-jsonschema): skipped")
    sys.exit(77)

UVCC, ROOT = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SCHEMAS = os.path.join(ROOT, "docs", "json")
ROWS = "1,2,0\n3,4,1\n1,2,0\n3,4,1\n5,6,1\n"
TRAIN = "train --data t.csv --batch 2 --epochs 1 --hidden 2"
MODEL = ("train --model transformer --text t.csv --dim 4 --heads 1 --context 2 --batch 2 "
         "--microbatches 2")
# (schema, words before --json -, exit status)
CASES = [
    ("train", TRAIN, 0),
    ("train", TRAIN + " --profile --record logs --audit good", 0),
    ("train", TRAIN + " --truncation sr --drop 0.1", 0),
    ("train-transformer", MODEL + " --steps 1 --profile", 0),
    ("train-transformer", MODEL + " --steps 1 --reveal no --transcript off", 0),
    ("train-transformer", MODEL + " --steps 1 --check --checkpoint model", 0),
    ("train-transformer", MODEL + " --steps 1 --checkpoint model", 0),
    ("train-model", "train --model %s/tests/data/models/bert --data rows.safetensors --batch 2 --steps 1 --check "
     "--held-out 2 --profile" % ROOT, 0),
    ("train-model", "train --model %s/tests/data/models/gpt2 --data next.safetensors --method lora --batch 1 --steps 1 "
     "--held-out 1 --checkpoint tuned" % ROOT, 0),
    ("train-model", "train --model %s/tests/data/models/gpt2 --data next.safetensors --method lora --batch 1 --steps 1 "
     "--held-out 1 --checkpoint tuned" % ROOT, 0),
    ("replay", "replay logs/party0.uvlog", 0),
    ("replay", "replay logs/party0.uvlog --until 20", 0),
    ("replay", "replay logs/party0.uvlog --until 99999999", 2),
    ("audit-verify", "audit verify good", 0),
    ("audit-verify", "audit verify bad", 1),
    ("audit-verify", "audit verify one", 1),
    ("audit-check", "audit check proof --keys good/public-keys", 0),
    ("audit-check", "audit check t.csv --keys good/public-keys", 1),
    ("nonlinear", "nonlinear relu softmax --inputs 128", 0),
    ("pipeline", "pipeline --stages 2 --microbatches 2 --ahead 0,1", 0),
    ("pipeline", "pipeline --stages 2 --microbatches 2 --waits random --spread --order 1f1b", 0),
    ("pipeline-sessions", "pipeline --sessions --stages 2 --microbatches 1 --ahead 0", 0),
    ("sim", "sim --seeds 2", 0),
    ("selftest", "selftest --backend auto --rounds 1", 0),
    ("selftest", "selftest --rounds 0", 0),
    ("launch", "launch --dir mlp mlp.json", 0),
    ("party", "party --config mlp/party1/config.json", 0),  # it is done: what it came to
    ("launch", "launch --dir lm lm.json", 0),
    ("party", "party --config lm/party0/config.json", 0),
    ("launch", "launch --dir text text.json", 0),
    ("party", "party --config text/party0/config.json", 0),
    ("launch", "launch --dir measured measured.json", 0),
    ("party", "party --config measured/party2/config.json", 0),
    ("launch", "launch --dir asked asked.json", 0),
    ("party", "party --config asked/party0/config.json", 0),
    ("party", "party --config asked/party2/config.json", 0),
    ("status", "status unix:waiting/page", 0),
    ("model-inspect", "model inspect %s/tests/data/models/bert" % ROOT, 0),
    ("model-inspect", "model inspect %s/tests/data/models/llama --frac-bits 20 --value-bits 12" % ROOT, 0),
    ("model-check", "model check %s/tests/data/models/bert --input %s/tests/data/models/bert/expected.safetensors" %
     (ROOT, ROOT), 0),
    ("model-check", "model check %s/tests/data/models/bert --tokens 2" % ROOT, 0),
    ("model-check", "model check %s/tests/data/models/llama --tokens 2 --value-bits 1" % ROOT, 1),
    ("infer", "infer --model %s/examples/ask --text TLS? --mode exact --view --check" % ROOT, 0),
    ("infer", "infer --model %s/tests/data/models/bert --ids 1,2 --to all --weights public" % ROOT, 0),
    ("infer", "infer --model %s/tests/data/models/gpt2 --input %s/tests/data/models/gpt2/expected.safetensors --check" %
     (ROOT, ROOT), 0),
    ("bench", "bench --model bert-tiny --layers 1 --seq-len 4 --n-iters 1 --threads 1", 0),
    ("bench", "bench --model %s/tests/data/models/llama --seq-len 2 --n-iters 2 --weights public --mode exact --check" % ROOT, 0),
    ("bench", "bench --micro softmax --seq-len 4 --width 64 --n-iters 1 --disable-eff-bits --disable-fusion", 0),
    ("bench", "bench --model gpt2 --dry-run --keys-ahead 64", 0),
]


LM = {"kind": "transformer", "text_bytes": len(ROWS), "dim": 4, "heads": 1, "context": 2, "batch": 2, "steps": 1,
      "reveal": False}
BERT = os.path.join(ROOT, "tests", "data", "models", "bert_labels")
with open(os.path.join(BERT, "config.json"), encoding="utf-8") as f:
    ASKED = {"kind": "infer", "model": json.load(f), "tokens": 2, "gives": "labels", "value_bits": 5, "inner_bits": 5}
JOBS = {
    "asked": (ASKED, [{"ids": "1,2"}, {"model": BERT}, None]),
    "mlp": ({"kind": "mlp", "rows": 5, "features": 2, "classes": 2, "hidden": [2], "batch": 2, "epochs": 1},
            [{"file": "t.csv"}, {"file": "t.csv"}, None]),
    "lm": (LM, [{"text": "t.csv"}, None, None]),
    "text": ({"kind": "generate", "length": 2, "weights": "initial", "model": {"name": "lm", "run": LM}},
             [{"prompt": "1"}, None, None]),
    "measured": ({"kind": "nonlinear", "functions": ["relu"], "inputs": 128}, [None] * 3),
}


def jobs():
    """Files for launch; and a party that waits for its peers, whose page is asked for."""
    for name, (what, data) in JOBS.items():
        with open(name + ".json", "w", encoding="utf-8") as f:
            json.dump({"job": {"name": name, "checkpoint_every": 0, "run": what}, "data": data, "all": {"threads": 1}}, f)
    os.mkdir("waiting")
    with open("waiting/0.pub", "w", encoding="utf-8") as f:
        f.write(run("keygen --out waiting/0.key", 0).decode())
    peers = [run("keygen --out waiting/%d.key" % p, 0).decode().strip() for p in (1, 2)]
    config = {"job": {"name": "waiting", "run": JOBS["measured"][0]}, "party": 0, "identity": "0.key", "store": "store",
              "parties": [{"address": "unix:%d" % p, "key": key} for p, key in enumerate(["@0.pub", *peers])],
              "status": "unix:" + os.path.abspath("waiting/page")}
    with open("waiting/config.json", "w", encoding="utf-8") as f:
        json.dump(config, f)
    process = subprocess.Popen([UVCC, "party", "--config", "waiting/config.json"], stderr=subprocess.PIPE)
    for line in process.stderr:  # it says so when the page is there; the sessions a moment later
        if b"waiting for" in line:
            return process
    raise SystemExit("no party that waits: status %d" % process.wait())


def run(words, status):
    out = subprocess.run([UVCC, *words.split()], capture_output=True, check=False)
    if out.returncode != status:
        raise SystemExit("uvcc %s: status %d, not %d: %s" %
                         (words, out.returncode, status, out.stderr.decode()))
    return out.stdout


def closed(schema, at):
    """Objects of a schema that let members pass which it does not know."""
    bad = []
    if isinstance(schema, dict):
        if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
            bad.append(at)
        for key, value in schema.items():
            bad += closed(value, at + "/" + key)
    elif isinstance(schema, list):
        for i, value in enumerate(schema):
            bad += closed(value, "%s/%d" % (at, i))
    return bad


def spoiled(value):
    """The value with one thing wrong, for each thing."""
    if isinstance(value, dict):
        more = copy.deepcopy(value)
        more["one_more"] = 1
        yield "one more member", more
        for key in value:
            less = {k: v for k, v in value.items() if k != key}
            if key not in ("ops", "overlap", "layers", "entries", "global_root", "sid_sub", "wait_op", "wait_step") and \
                    not re.fullmatch("[a-z]+_(calls|seconds|bytes)", key):  # not in all
                yield "without " + key, less
            yield key + " of another type", {**value, key: {"no": "such"}}
            for what, part in spoiled(value[key]):
                yield key + ": " + what, {**value, key: part}
    elif isinstance(value, list) and value:
        for what, part in spoiled(value[0]):
            yield "first: " + what, [part] + value[1:]


def rows(path, **tensors):
    """A safetensors file of I64 tensors, each a list of rows or of numbers."""
    header, values = {}, b""
    for name, v in tensors.items():
        shape = [len(v), len(v[0])] if isinstance(v[0], list) else [len(v)]
        flat = [x for row in v for x in row] if len(shape) == 2 else v
        header[name] = {"dtype": "I64", "shape": shape, "data_offsets": [len(values), len(values) + 8 * len(flat)]}
        values += struct.pack("<%dq" % len(flat), *flat)
    text = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + values)


def damage():
    """Outputs of runs that find something: a byte changed, bundles missing."""
    shutil.copytree("good", "bad")
    for path, _, names in sorted(os.walk("bad/party-1")):
        for name in sorted(names):
            if name.endswith("00000001.bundle"):
                with open(os.path.join(path, name), "r+b") as f:
                    f.seek(300)
                    byte = f.read(1)
                    f.seek(300)
                    f.write(bytes([byte[0] ^ 1]))
    shutil.copytree("good", "one")
    shutil.rmtree("one/party-2")


def main():
    names = sorted(n for n in os.listdir(SCHEMAS) if n.endswith(".schema.json"))
    validators, bad = {}, []
    for name in names:
        with open(os.path.join(SCHEMAS, name), encoding="utf-8") as f:
            schema = json.load(f)
        Draft202012Validator.check_schema(schema)
        bad += ["%s: %s may have any member" % (name, at) for at in closed(schema, "")]
        validators[name.removesuffix(".schema.json")] = Draft202012Validator(schema)
    unused = set(validators) - {case[0] for case in CASES}
    bad += ["%s.schema.json is of no case of this test" % name for name in sorted(unused)]
    with open("t.csv", "w", encoding="utf-8") as f:
        f.write(ROWS)
    rows("rows.safetensors", input_ids=[[1, 2], [3, 4], [5, 6], [7, 8]], labels=[0, 1, 0, 1])
    rows("next.safetensors", input_ids=[[1, 2, 3], [2, 3, 4]])
    seen = set()
    waiting = jobs()
    try:
        check(validators, seen, bad)
    finally:
        waiting.kill()
        waiting.wait()
    for line in bad:
        print(line)
    return 1 if bad else 0


def check(validators, seen, bad):
    for name, words, status in CASES:
        if "audit verify bad" in words:
            damage()
        if "audit check proof" in words:
            run("audit prove good 0/0/1 --out proof", 0)
        value = json.loads(run(words + (" --json" if name == "status" else " --json -"), status))
        for e in validators[name].iter_errors(value):
            bad.append("uvcc %s: %s: %s" % (words, "/".join(map(str, e.path)), e.message))
        if name in seen:
            continue
        seen.add(name)
        for what, other in spoiled(value):
            if validators[name].is_valid(other):
                bad.append("%s.schema.json takes an output %s" % (name, what))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        STATUS = main()
        os.chdir("/")
    sys.exit(STATUS)
