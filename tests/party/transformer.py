#!/usr/bin/env python3
"""A language model trained by R x S x T workers of each party in one process: the weights of one process.

transformer.py --uvcc TOOL --over tcp|unix|udp [--split R,S,T] [--kills N] [--seed N] [--steps N] [--generate]
               [--compute inline|threads|gpu]

--generate: the weights stay shares; a second job reads them out of the stores, and samples the text that `uvcc generate`
samples from the same weights. --foreign: with party 1's store of another training that is the same in all but its shares,
which must be named.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

from job import Job, disturb, last_hash, no_card

SMALL = {'layers': 2, 'dim': 8, 'heads': 2, 'context': 4, 'batch': 4, 'warmup': 0, 'truncation': 'ars', 'index': 'exact'}
TEXT = ('three parties train together, and none of them sees. ' * 8)[:300]
PROMPT, LENGTH = 'th', 4


def one_process(a, directory, *more):
    words = [word for key, value in SMALL.items() for word in (f'--{key}', str(value))]
    report = subprocess.run([a.uvcc, 'train', '--model', 'transformer', '--text', 't.txt', *words, '--steps', str(a.steps),
                             *more, '--json', '-'], cwd=directory, check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    return json.loads(report.stdout)


def sampled(a, directory):
    one_process(a, directory, '--reveal', 'no', '--checkpoint', 'kept')
    return subprocess.run([a.uvcc, 'generate', 'kept', '--prompt', PROMPT, '--length', str(LENGTH), '--temperature', '0'],
                          cwd=directory, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout


def read(path):
    with open(path, 'rb') as f:
        return f.read()


def compute(a):
    return ['--compute', a.compute] if a.compute else ()


def clean(process):
    return 'runtime error' not in process.err and 'Sanitizer' not in process.err


def train(a, directory, split):
    """The job, or None: it is not what it should be."""
    run = {'kind': 'transformer', **SMALL, 'steps': a.steps, 'text_bytes': len(TEXT), 'reveal': not a.generate}
    top = {'replicas': split[0], 'stages': split[1], 'tensor_ranks': split[2], 'checkpoint_every': a.every}
    changes = {1: {'output': {'weights': 'w.bin'}}} if not a.generate else None
    job = Job(a.uvcc, directory, run, a.over, {0: {'text': 't.txt'}}, top, changes, compute(a))
    try:
        kills = 0
        if a.kills:
            kills = disturb(job, random.Random(a.seed), a.kills, 1 + a.steps // 4)
            codes = job.finish()
        else:
            codes = job.run()
        if any(no_card(process) for process in job.parties):
            print(job.parties[0].err)
            sys.exit(77)
        want = None if a.generate else one_process(a, directory, '--weights', 'want.bin')['weights_sha256']
        good = codes == [0, 0, 0] and all(clean(process) for process in job.parties)
        good = good and (a.generate or all(last_hash(process.out) == want for process in job.parties))
        good = good and (a.generate or read(f'{directory}/w.bin') == read(f'{directory}/want.bin'))
        if not good:
            print(f'wanted: {want}; exit {codes}; {kills} kills')
            job.show()
            return None
        print(f'{a.over}, {a.split}: {want}, {kills} kills, {[process.starts for process in job.parties]} starts')
        return job.config[0]['job']
    finally:
        job.end()


def generate(a, directory, model):
    run = {'kind': 'generate', 'length': LENGTH, 'temperature': 0, 'prompt_bytes': len(PROMPT), 'model': model}
    data = {p: {'store': f'store-{p}'} for p in range(3)}
    data[0]['prompt'] = PROMPT
    changes = {p: {'store': f'sampling-{p}'} for p in range(3)}
    changes[0]['output'] = {'text': 'sample.txt'}
    for p in range(3):
        os.remove(f'{directory}/identity-{p}.key')
    job = Job(a.uvcc, directory, run, a.over, data, {'checkpoint_every': a.generate_every}, changes, compute(a))
    try:
        if a.foreign:
            for p in range(3):
                job.start(p)
            job.wait(lambda: all('shares of the weights' in process.err for process in job.parties[:2]), 'what differs')
            print('foreign shares are named')
            return 0
        codes = job.run()
        text = read(f'{directory}/sample.txt') + b'\n' if codes[0] == 0 else None
        want = sampled(a, directory)
        if codes != [0, 0, 0] or text != want or not all(clean(process) for process in job.parties):
            print(f'wanted: {want}; exit {codes}; {text}')
            job.show()
            return 1
        print(f'{a.over}, {a.split}: {text}')
        return 0
    finally:
        job.end()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--over', default='tcp')
    ap.add_argument('--split', default='2,2,2')
    ap.add_argument('--kills', type=int, default=0)
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--steps', type=int, default=3)
    ap.add_argument('--every', type=int, default=1)
    ap.add_argument('--generate', action='store_true')
    ap.add_argument('--foreign', action='store_true')
    ap.add_argument('--compute')
    ap.add_argument('--generate-every', type=int, default=1)
    a = ap.parse_args()
    a.uvcc, a.generate = os.path.abspath(a.uvcc), a.generate or a.foreign
    split = [int(n) for n in a.split.split(',')]
    with tempfile.TemporaryDirectory() as directory, tempfile.TemporaryDirectory() as other:
        for where in (directory, other):
            with open(f'{where}/t.txt', 'w') as f:
                f.write(TEXT)
        model = train(a, directory, split)
        if a.foreign and model is not None:
            model = train(a, other, split)
            shutil.rmtree(f'{directory}/store-1')
            shutil.move(f'{other}/store-1', directory)
        return 1 if model is None else generate(a, directory, model) if a.generate else 0


if __name__ == '__main__':
    sys.exit(main())
