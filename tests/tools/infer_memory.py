#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `uvcc infer` takes beside the weights' shares while it splits them: a few times the largest weight, and no copy of the
checkpoint.

infer_memory.py TOOL
"""
import array
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

WIDTH, VOCABULARY, TOKENS = 256, 12000, 8
LARGEST = 8 * WIDTH * VOCABULARY # of the embeddings, in words
OWN = 48 << 20 # of a process without a model, its threads and stacks


def write_model(directory):
    """A GPT-2 of one layer, whose embeddings are most of it."""
    w = WIDTH
    shapes = {'wte.weight': [VOCABULARY, w], 'wpe.weight': [TOKENS, w], 'ln_f.weight': [w], 'ln_f.bias': [w],
              'h.0.ln_1.weight': [w], 'h.0.ln_1.bias': [w], 'h.0.ln_2.weight': [w], 'h.0.ln_2.bias': [w],
              'h.0.attn.c_attn.weight': [w, 3 * w], 'h.0.attn.c_attn.bias': [3 * w], 'h.0.attn.c_proj.weight': [w, w],
              'h.0.attn.c_proj.bias': [w], 'h.0.mlp.c_fc.weight': [w, 4 * w], 'h.0.mlp.c_fc.bias': [4 * w],
              'h.0.mlp.c_proj.weight': [4 * w, w], 'h.0.mlp.c_proj.bias': [w]}
    rng = random.Random(1)
    some = array.array('f', (rng.gauss(0, 0.05) for _ in range(1 << 14)))
    header, data = {}, bytearray()
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = (some * (count // len(some) + 1))[:count]
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [len(data), len(data) + 4 * count]}
        data += values.tobytes()
    text = json.dumps(header).encode()
    with open(f'{directory}/model.safetensors', 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text + data)
    with open(f'{directory}/config.json', 'w', encoding='utf-8') as f:
        json.dump({'model_type': 'gpt2', 'n_embd': w, 'n_layer': 1, 'n_head': 4, 'vocab_size': VOCABULARY, 'n_positions': TOKENS,
                   'activation_function': 'gelu_new', 'layer_norm_epsilon': 1e-5, 'tie_word_embeddings': True}, f)


def peak_of(command):
    """Bytes that were resident at most."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, status
    return usage.ru_maxrss << 10


def main():
    tool, directory, good = sys.argv[1], tempfile.mkdtemp(), True
    try:
        write_model(directory)
        # Values in plaintext, two components, and those two in the session that is given them; public: nothing but two.
        for weights, copies in (('secret', 6), ('public', 4)):
            peak = peak_of([tool, 'infer', '--model', directory, '--ids', '1,2,3,4', '--gives', 'hidden', '--value-bits', '7',
                            '--inner-bits', '7', '--weights', weights, '--json', f'{directory}/result.json'])
            with open(f'{directory}/result.json', encoding='utf-8') as f:
                tensors = 3 * json.load(f)['tensor_peak_bytes']
            most = tensors + copies * LARGEST + OWN
            print(f'{weights}: {peak / 1e6:.0f} MB; tensors of three parties {tensors / 1e6:.0f}, at most {most / 1e6:.0f}')
            good = good and peak <= most
    finally:
        shutil.rmtree(directory)
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
