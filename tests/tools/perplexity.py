#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Perplexity of a model that has learned the project's corpus, on a part that it has not seen: float32 beside secure.

perplexity.py TOOL MODEL CORPUS

MODEL has expected.json of scripts/train-text-model, which says what PyTorch computes in float32.
"""
import json
import math
import os
import shutil
import struct
import subprocess
import sys
import tempfile

# The greatest part of the perplexity by which a secure run may differ from float32, by fraction bits.
MOST = {16: 5e-5, 12: 1e-3}


def write_ids(path, rows):
    ids = [token for row in rows for token in row]
    header = json.dumps({'input_ids': {'dtype': 'I64', 'shape': [len(rows), len(rows[0])], 'data_offsets': [0, 8 * len(ids)]}})
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(header)) + header.encode() + struct.pack(f'<{len(ids)}q', *ids))


def read_logits(path):
    with open(path, 'rb') as f:
        header = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))['logits']
        sequences, tokens, words = header['shape']
        values = struct.unpack(f'<{sequences * tokens * words}d', f.read())
    return [values[i:i + words] for i in range(0, len(values), words)]


def perplexity(logits, targets):
    loss = 0
    for row, target in zip(logits, targets):
        most = max(row)
        loss += math.log(sum(math.exp(v - most) for v in row)) + most - row[target]
    return math.exp(loss / len(targets))


def main():
    tool, model, corpus = sys.argv[1:4]
    with open(f'{model}/expected.json', encoding='utf-8') as f:
        expected = json.load(f)
    with open(corpus, 'rb') as f:
        text = f.read()
    tokens, directory, good = expected['tokens'], tempfile.mkdtemp(), True
    try:
        windows = [text[i:i + tokens + 1] for i in expected['starts']]
        write_ids(f'{directory}/ids.safetensors', [window[:-1] for window in windows])
        targets = [token for window in windows for token in window[1:]]
        print(f'float32: {expected["perplexity"]:.5f}')
        for bits, mode in ((16, 'fast'), (16, 'exact'), (12, 'fast'), (12, 'exact')):
            subprocess.run([tool, 'infer', '--model', model, '--input', f'{directory}/ids.safetensors', '--gives', 'logits',
                            '--mode', mode, '--frac-bits', str(bits), '--value-bits', '7', '--inner-bits', '6',
                            '--output', f'{directory}/y.safetensors'], check=True, stdout=subprocess.DEVNULL)
            got = perplexity(read_logits(f'{directory}/y.safetensors'), targets)
            off = abs(got / expected['perplexity'] - 1)
            print(f'f = {bits}, {mode}: {got:.5f}, off by {off:.1e}')
            good = good and off <= MOST[bits]
            os.remove(f'{directory}/y.safetensors')
    finally:
        shutil.rmtree(directory)
    return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
