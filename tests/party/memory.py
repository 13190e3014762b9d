#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a party of `uvcc party` and the process of `uvcc infer` have resident at most, against what weights' shares take: 16 bytes
a weight in each party.

What a pass takes beside its weights is known of the same model with public weights, which take 4 bytes a weight here. Secret ones may
take 1.3 of their shares more than that, of those that come layer by layer of a layer's and of what belongs to none; and each peak is within 1.3 of the shares and the session's bound (`uvcc plan`) together.

memory.py --uvcc TOOL [CASE...]
"""
import argparse
import array
import json
import os
import random
import shutil
import struct
import subprocess
import sys
import tempfile

from job import Job, Service, WAIT_S

WIDTH, VOCABULARY, TOKENS, LAYERS = 320, 512, 8, 12
IDS = ','.join(str(7 * i % VOCABULARY) for i in range(TOKENS))
NUMBERS = {'gives': 'last', 'value_bits': 7, 'inner_bits': 7}
MOST = 1.3


def shapes_of():
    w = WIDTH
    yield from {'wte.weight': [VOCABULARY, w], 'wpe.weight': [TOKENS, w], 'ln_f.weight': [w], 'ln_f.bias': [w]}.items()
    for n in range(LAYERS):
        for name, rows, cols in (('ln_1', 0, w), ('ln_2', 0, w), ('attn.c_attn', w, 3 * w), ('attn.c_proj', w, w),
                                 ('mlp.c_fc', w, 4 * w), ('mlp.c_proj', 4 * w, w)):
            yield f'h.{n}.{name}.weight', [rows, cols] if rows else [cols]
            yield f'h.{n}.{name}.bias', [cols]


def write_model(directory):
    """A GPT-2, and how many weights it has."""
    rng = random.Random(1)
    some = array.array('f', (rng.gauss(0, 0.05) for _ in range((1 << 14) + 1)))
    header, at = {}, 0
    for name, shape in shapes_of():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        header[name] = {'dtype': 'F32', 'shape': shape, 'data_offsets': [at, at + 4 * count]}
        at += 4 * count
    text = json.dumps(header).encode()
    os.mkdir(directory)
    with open(f'{directory}/model.safetensors', 'wb') as f:
        f.write(struct.pack('<Q', len(text)) + text)
        for one in header.values():
            count = (one['data_offsets'][1] - one['data_offsets'][0]) // 4
            f.write((some * (count // len(some) + 1))[:count].tobytes())
    with open(f'{directory}/config.json', 'w', encoding='utf-8') as f:
        json.dump({'model_type': 'gpt2', 'n_embd': WIDTH, 'n_layer': LAYERS, 'n_head': 5, 'vocab_size': VOCABULARY,
                   'n_positions': TOKENS, 'activation_function': 'gelu_new', 'layer_norm_epsilon': 1e-5,
                   'tie_word_embeddings': True}, f)
    return at // 4


def in_layers():
    """Weights of the layers."""
    return sum(shape[0] * (shape[1] if len(shape) == 2 else 1) for name, shape in shapes_of() if name.startswith('h.'))


def measured(process):
    """Notes at its end what a process had resident at most, in bytes."""
    popen = process.process

    def wait(timeout=None):
        del timeout
        if popen.returncode is None:
            _, status, usage = os.wait4(popen.pid, 0)
            popen.returncode = os.waitstatus_to_exitcode(status)
            process.peak = usage.ru_maxrss << 10
        return popen.returncode
    popen.wait = wait


def bound_of(uvcc, directory, run):
    """What the session of a party takes at most."""
    with open(f'{directory}/plan.json', 'w', encoding='utf-8') as f:
        json.dump({'job': {'name': 'a plan', 'run': run}}, f)
    said = subprocess.run([uvcc, 'plan', '--config', f'{directory}/plan.json', '--json', '-'], check=True, capture_output=True)
    return json.loads(said.stdout)['memory_bytes']


def run_of(kind, model, weights):
    with open(f'{model}/config.json', encoding='utf-8') as f:
        run = {'kind': kind, 'model': json.load(f), 'tokens': TOKENS, 'weights': weights, **NUMBERS}
    return run | ({'takes': 'hidden'} if kind == 'serve' else {})


def data_of(model, weights):
    if weights in ('shared', 'streamed'):
        return {p: {'shares': f'shares/party-{p}.shares'} for p in range(3)}
    return {p: {'model': model} for p in (range(3) if weights == 'public' else [1])}


def start(job, model):
    """With files of shares, if they are to be, made by the weights' owner."""
    if job.config[1]['job']['run']['weights'] in ('shared', 'streamed'):
        with open(f'{job.directory}/share.json', 'w', encoding='utf-8') as f:
            json.dump(job.config[1] | {'data': {'model': model}}, f)
        subprocess.run([job.uvcc, 'party', '--config', 'share.json', '--share', 'shares'], cwd=job.directory, check=True,
                       stdout=subprocess.DEVNULL)
    for p in range(3):
        job.start(p)
        measured(job.parties[p])


def infers(uvcc, directory, model, weights):
    data = data_of(model, weights)
    data[0] = data.get(0, {}) | {'ids': IDS}
    job = Job(uvcc, directory, run_of('infer', model, weights), 'unix', data)
    try:
        start(job, model)
        assert job.finish() == [0, 0, 0]
        return [process.peak for process in job.parties]
    finally:
        job.end()


def serves(uvcc, directory, model, weights):
    """Two requests of a client: the first may leave nothing behind."""
    key = subprocess.run([uvcc, 'keygen', '--out', f'{directory}/alice.key'], check=True, stdout=subprocess.PIPE, text=True).stdout
    run = run_of('serve', model, weights)
    clients = {p: {'clients': {'listen': f'unix:clients-{p}.sock', 'list': [{'name': 'alice', 'key': key.strip()}]}} for p in range(3)}
    s = Service(uvcc, directory, run, 'unix', data_of(model, weights), {'name': 'a service'}, clients)
    with open(f'{directory}/client.json', 'w', encoding='utf-8') as f:
        json.dump({'job': 'a service', 'identity': 'alice.key', 'run': run, 'model': model, 'parties':
                   [{'address': f'unix:clients-{p}.sock', 'key': s.config[p]['parties'][p]['key']} for p in range(3)]}, f)
    try:
        start(s, model)
        client = subprocess.Popen([uvcc, 'client', '--config', 'client.json', '--ids', f'{IDS};{IDS}', '--output', 'answer.json', '--patience',
                                   str(int(WAIT_S))], cwd=directory, stderr=subprocess.DEVNULL)
        s.clients.append(client)
        while client.poll() is None:
            s.hear(0.05)
        assert client.returncode == 0
        s.stop()
        return [process.peak for process in s.parties]
    finally:
        s.end()


def one_process(uvcc, directory, model, weights):
    """All three parties."""
    words = [uvcc, 'infer', '--model', model, '--ids', IDS, '--gives', 'last', '--value-bits', '7', '--inner-bits', '7',
             '--weights', weights]
    process = subprocess.Popen(words, cwd=directory, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    return [(usage.ru_maxrss << 10) / 3]


CASES = {'infers': ('infer', infers, ['secret', 'shared', 'streamed']), 'serves': ('serve', serves, ['secret', 'shared', 'streamed']),
         'one_process': ('infer', one_process, ['secret'])}


def holds(uvcc, directory, name, model, weights):
    kind, runs, secret = CASES[name]
    peaks = {}
    for how in ['public'] + secret:
        os.mkdir(f'{directory}/{name}-{how}')
        peaks[how] = runs(uvcc, f'{directory}/{name}-{how}', model, how)
    good, known = True, 4 * weights
    for how in secret:
        shares = 16 * (in_layers() // LAYERS + weights - in_layers() if how == 'streamed' else weights)
        bound = bound_of(uvcc, directory, run_of(kind, model, how))
        for p, (peak, public) in enumerate(zip(peaks[how], peaks['public'])):
            beside = public - known
            print(f'{name}, {how}, party {p}: {peak / 1e6:.0f} MB, with public weights {public / 1e6:.0f}; shares {shares / 1e6:.0f}, '
                  f'the rest of a pass {beside / 1e6:.0f}: weights take {(peak - beside) / shares:.2f} of their shares; '
                  f'bound {bound / 1e6:.0f}')
            good = good and peak <= MOST * shares + beside and peak <= MOST * (shares + bound)
    return good


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True, type=os.path.abspath)
    ap.add_argument('cases', nargs='*')
    a = ap.parse_args()
    directory = tempfile.mkdtemp()
    try:
        weights = write_model(f'{directory}/model')
        return 0 if all([holds(a.uvcc, directory, name, f'{directory}/model', weights) for name in a.cases or CASES]) else 1
    finally:
        shutil.rmtree(directory)


if __name__ == '__main__':
    sys.exit(main())
