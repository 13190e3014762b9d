#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/make-model-fixtures.py - small checkpoints of the models that people run, and what they give.

usage: scripts/make-model-fixtures.py [DIR]

Writes DIR (tests/data/models)/NAME/, one for each architecture, as save_pretrained of the library
`transformers` writes it: config.json, model.safetensors or its shards with their index. expected.safetensors
beside them has fixed inputs and what PyTorch computes from them in float32 with the weights as they stand
in the files: the last hidden states, logits, pooled rows. Values follow from a seed; the sizes are odd on purpose. Needs
PyTorch and transformers (pip); the results are committed, so that tests do not.
"""
import os
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file

SEED, VOCABULARY, WIDTH, TOKENS, SEQUENCES = 20, 97, 24, 7, 2
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def draw(model):
    """Weights under which every part of the model shows in the result: those that models start with are too small."""
    for name, p in sorted(model.named_parameters()):
        with torch.no_grad():
            if p.dim() == 2:
                spread = 1.0 if "emb" in name or "wte" in name or "wpe" in name else 1.2 / WIDTH ** 0.5
                p.copy_(torch.randn(p.shape) * spread)
            else:
                gain = name.endswith("weight")
                p.copy_(torch.randn(p.shape) * 0.2 + (1.0 if gain else 0.0))


def inputs_of(kind):
    ids = torch.randint(0, VOCABULARY, (SEQUENCES, TOKENS))
    out = {"input_ids": ids}
    if kind.startswith("bert"):
        out["attention_mask"] = torch.ones(SEQUENCES, TOKENS, dtype=torch.long)
        out["attention_mask"][0, TOKENS - 2:] = 0
        out["token_type_ids"] = torch.randint(0, 2, (SEQUENCES, TOKENS))
    return out


def make(directory, name, cls, config, dtype, shard=None):
    path = os.path.join(directory, name)
    shutil.rmtree(path, ignore_errors=True)
    torch.manual_seed(SEED)
    config._attn_implementation = "eager"
    model = cls(config).eval()
    draw(model)
    model = model.to(dtype)
    model.save_pretrained(path, **({"max_shard_size": shard} if shard else {}))
    pathlib.Path(path, "generation_config.json").unlink(missing_ok=True)  # of sampling
    model = model.to(torch.float32)  # the weights as they stand in the file
    base = getattr(model, model.base_model_prefix, model)
    given = inputs_of(config.model_type)
    with torch.no_grad():
        out = {**base(**given), **model(**given)}
    given.update({k: out[k] for k in ("last_hidden_state", "pooler_output", "logits") if out.get(k) is not None})
    save_file({k: v.contiguous() for k, v in given.items()}, os.path.join(path, "expected.safetensors"))
    for key, v in load_file(os.path.join(path, "expected.safetensors")).items():
        print("%s: %s: %s %s, greatest %.3f" % (name, type(model).__name__, key, tuple(v.shape), v.abs().max()))


def main():
    if len(sys.argv) > 2 or (len(sys.argv) == 2 and sys.argv[1].startswith("-")):
        sys.stderr.write(__doc__)
        return 2
    directory = sys.argv[1] if len(sys.argv) == 2 else os.path.join(ROOT, "tests", "data", "models")
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    print("torch %s, transformers %s" % (torch.__version__, transformers.__version__))
    t = transformers
    make(directory, "bert", t.BertModel,
         t.BertConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=3,
                      intermediate_size=40, max_position_embeddings=16, type_vocab_size=2), torch.float32)
    make(directory, "bert_labels", t.BertForSequenceClassification,
         t.BertConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=3,
                      intermediate_size=40, max_position_embeddings=16, type_vocab_size=2, num_labels=3),
         torch.bfloat16)
    make(directory, "gpt2", t.GPT2LMHeadModel,
         t.GPT2Config(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=2, n_head=3, n_inner=40, n_positions=16),
         torch.float16)
    make(directory, "gpt_neo", t.GPTNeoForCausalLM,
         t.GPTNeoConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_layers=2, num_heads=3, intermediate_size=40,
                        attention_types=[[["global", "local"], 1]], window_size=4, max_position_embeddings=16),
         torch.bfloat16)
    make(directory, "llama", t.LlamaForCausalLM,
         t.LlamaConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, num_hidden_layers=2, num_attention_heads=3,
                       num_key_value_heads=1, head_dim=10, intermediate_size=40, max_position_embeddings=16),
         torch.float32, shard="24KB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
