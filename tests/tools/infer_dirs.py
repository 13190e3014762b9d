#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""infer_dirs.py UVCC: checkpoints that nobody here tried, in `uvcc infer`.

Directories of all four kinds, as save_pretrained of the library transformers writes them, with widths, depths, vocabularies,
types of values and numbers of files that a seed draws. Each is run, and equals its plaintext twin to the bit, or is refused by
the name of what it asks for.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

UVCC = os.path.abspath(sys.argv[1])
RUNS, SEED = 10, 3


def packed(kind, values):
    if kind == "BF16":
        return b"".join(struct.pack("<f", v)[2:] for v in values)
    return struct.pack("<%d%s" % (len(values), {"F16": "e", "F32": "f", "F64": "d"}[kind]), *values)


def write(path, tensors):
    header, body = {}, b""
    for name, (kind, shape, raw) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(body), len(body) + len(raw)]}
        body += raw
    head = json.dumps(header).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(head)) + head + body)


class Checkpoint:
    """A directory: tensors are drawn so that every part of the model shows."""

    def __init__(self, rng, config, kind):
        self.rng, self.config, self.kind, self.tensors = rng, config, kind, {}

    def add(self, name, *shape, about=0.0, spread=None):
        spread = spread if spread is not None else 0.2 if len(shape) == 1 else 1.0 / shape[-1] ** 0.5
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = [about + spread * self.rng.uniform(-1.7, 1.7) for _ in range(count)]
        self.tensors[name] = (self.kind, list(shape), packed(self.kind, values))

    def linear(self, name, inputs, outputs, bias=True, turned=False):
        self.add(name + ".weight", *((inputs, outputs) if turned else (outputs, inputs)), spread=1 / inputs ** 0.5)
        if bias:
            self.add(name + ".bias", outputs)

    def norm(self, name, width, shift=True):
        self.add(name + ".weight", width, about=1.0)
        if shift:
            self.add(name + ".bias", width)

    def save(self, directory, files):
        os.mkdir(directory)
        with open(os.path.join(directory, "config.json"), "w", encoding="utf-8") as f:
            json.dump(self.config, f)
        names = list(self.tensors)
        self.rng.shuffle(names)
        if files == 1:
            write(os.path.join(directory, "model.safetensors"), {n: self.tensors[n] for n in names})
            return
        where = {}
        for i in range(files):
            path = "model-%05d-of-%05d.safetensors" % (i + 1, files)
            part = names[i::files]
            where.update(dict.fromkeys(part, path))
            write(os.path.join(directory, path), {n: self.tensors[n] for n in part})
        with open(os.path.join(directory, "model.safetensors.index.json"), "w", encoding="utf-8") as f:
            json.dump({"metadata": {}, "weight_map": where}, f)


def bert(c, size):
    layers, width, heads, units, words, positions = size
    c.config |= {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": units,
                 "vocab_size": words, "max_position_embeddings": positions, "type_vocab_size": 3, "hidden_act": "gelu",
                 "id2label": {"0": "a", "1": "b", "2": "c", "3": "d"}}
    for name, rows in (("word", words), ("position", positions), ("token_type", 3)):
        c.add("bert.embeddings.%s_embeddings.weight" % name, rows, width, spread=0.5)
    c.norm("bert.embeddings.LayerNorm", width)
    for n in range(layers):
        at = "bert.encoder.layer.%d." % n
        for name in ("attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense"):
            c.linear(at + name, width, width)
        c.norm(at + "attention.output.LayerNorm", width)
        c.linear(at + "intermediate.dense", width, units)
        c.linear(at + "output.dense", units, width)
        c.norm(at + "output.LayerNorm", width)
    c.linear("bert.pooler.dense", width, width)
    c.linear("classifier", width, 4)


def gpt2(c, size):
    layers, width, heads, units, words, positions = size
    c.config |= {"n_embd": width, "n_layer": layers, "n_head": heads, "n_inner": units, "vocab_size": words, "n_positions": positions}
    c.add("transformer.wte.weight", words, width, spread=0.4)
    c.add("transformer.wpe.weight", positions, width, spread=0.4)
    for n in range(layers):
        at = "transformer.h.%d." % n
        c.norm(at + "ln_1", width)
        c.linear(at + "attn.c_attn", width, 3 * width, turned=True)
        c.linear(at + "attn.c_proj", width, width, turned=True)
        c.norm(at + "ln_2", width)
        c.linear(at + "mlp.c_fc", width, units, turned=True)
        c.linear(at + "mlp.c_proj", units, width, turned=True)
    c.norm("transformer.ln_f", width)


def gpt_neo(c, size):
    layers, width, heads, units, words, positions = size
    c.config |= {"hidden_size": width, "num_layers": layers, "num_heads": heads, "intermediate_size": units, "vocab_size": words,
                 "max_position_embeddings": positions, "window_size": 3,
                 "attention_layers": ["local" if n % 2 else "global" for n in range(layers)]}
    c.add("transformer.wte.weight", words, width, spread=0.4)
    c.add("transformer.wpe.weight", positions, width, spread=0.4)
    for n in range(layers):
        at = "transformer.h.%d." % n
        c.norm(at + "ln_1", width)
        for name in ("q_proj", "k_proj", "v_proj"):
            c.linear(at + "attn.attention." + name, width, width, bias=False)
        c.linear(at + "attn.attention.out_proj", width, width)
        c.norm(at + "ln_2", width)
        c.linear(at + "mlp.c_fc", width, units)
        c.linear(at + "mlp.c_proj", units, width)
    c.norm("transformer.ln_f", width)


def llama(c, size):
    layers, width, heads, units, words, positions = size
    shared, columns = heads // 2 if heads % 2 == 0 else heads, 6
    c.config |= {"hidden_size": width, "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": shared,
                 "head_dim": columns, "intermediate_size": units, "vocab_size": words, "max_position_embeddings": positions,
                 "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False}
    c.add("model.embed_tokens.weight", words, width, spread=0.5)
    for n in range(layers):
        at = "model.layers.%d." % n
        c.norm(at + "input_layernorm", width, shift=False)
        for name, outputs in (("q_proj", heads * columns), ("k_proj", shared * columns), ("v_proj", shared * columns)):
            c.linear(at + "self_attn." + name, width, outputs, bias=False)
        c.linear(at + "self_attn.o_proj", heads * columns, width, bias=False)
        c.norm(at + "post_attention_layernorm", width, shift=False)
        for name in ("gate_proj", "up_proj"):
            c.linear(at + "mlp." + name, width, units, bias=False)
        c.linear(at + "mlp.down_proj", units, width, bias=False)
    c.norm("model.norm", width, shift=False)
    c.linear("lm_head", width, words, bias=False)


KINDS = {"bert": bert, "gpt2": gpt2, "gpt_neo": gpt_neo, "llama": llama}


def drawn(rng, name):
    heads = rng.randint(1, 5)
    width = heads * rng.randint(2, 9)
    c = Checkpoint(rng, {"model_type": name}, rng.choice(["F16", "BF16", "F32", "F64"]))
    size = (rng.randint(1, 4), width, heads, rng.randint(3, 50), rng.randint(2, 300), rng.randint(6, 40))
    KINDS[name](c, size)
    return c, size


def infer(directory, words):
    return subprocess.run([UVCC, "infer", "--model", directory, *words], capture_output=True, check=False)


def runs(rng, number):
    name = sorted(KINDS)[number % len(KINDS)]
    c, size = drawn(rng, name)
    directory = "%s%d" % (name, number)
    files = rng.randint(1, 4)
    c.save(directory, files)
    tokens = rng.randint(1, min(6, size[-1]))
    ids = ";".join(",".join(str(rng.randrange(size[4])) for _ in range(tokens)) for _ in range(rng.randint(1, 2)))
    words = ["--ids", ids, "--mode", rng.choice(["exact", "exact-dcf"]), "--weights", rng.choice(["secret", "public"]), "--check", "--json", "-"]
    out = infer(directory, words)
    what = "%s: %s in %d files, %s" % (name, c.kind, files, size)
    if out.returncode != 0:
        raise SystemExit("%s: %s: status %d: %s" % (what, " ".join(words), out.returncode, out.stderr.decode()))
    check = json.loads(out.stdout)["check"]
    print("%s: off double precision by %.2g" % (what, check["error"]))
    if not check["twin_equal"] or check["error"] > 0.02:
        raise SystemExit("%s: %s" % (what, check))


REFUSALS = [
    ("gpt2", {"vocab_size": 9}, None, "wte.weight"),
    ("gpt2", {"activation_function": "swiglu"}, None, "activation_function"),
    ("llama", {"num_attention_heads": 7, "num_key_value_heads": 2}, None, "num_key_value_heads"),
    ("llama", {"rope_scaling": {"type": "yarn", "factor": 2.0}}, None, "rope_scaling"),
    ("bert", {"num_hidden_layers": 9}, None, "encoder.layer."),
    ("bert", {"model_type": "roberta"}, None, "model_type"),
    ("gpt_neo", {"novel_part": 1}, None, "novel_part"),
    ("gpt_neo", {}, "transformer.extra.weight", "transformer.extra.weight"),
]


def refused(rng, number):
    name, more, extra, says = REFUSALS[number]
    c, _ = drawn(rng, name)
    c.config |= more
    if extra is not None:
        c.add(extra, 3)
    directory = "refused%d" % number
    c.save(directory, 1)
    out = infer(directory, ["--ids", "0,1"])
    if out.returncode != 2 or says not in out.stderr.decode() or out.stdout != b"":
        raise SystemExit("%s with %s: status %d, not 2, or does not name %s: %s" %
                         (name, more or extra, out.returncode, says, out.stderr.decode()))


def main():
    rng = random.Random(SEED)
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for number in range(RUNS):
            runs(rng, number)
        for number in range(len(REFUSALS)):
            refused(rng, number)
        os.chdir("/")
    return 0


if __name__ == "__main__":
    sys.exit(main())
