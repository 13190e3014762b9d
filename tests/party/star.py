#!/usr/bin/env python3
"""A language model trained by three parties that are far apart: each in a network namespace of its own, behind a line
with a rate, a delay and losses. The weights are those of one process.

star.py --uvcc TOOL --star uvcc-star [--over tcp|udp] [--split R,S,T] [--mpirun SCRIPT] [--steps N]
        [--rate BYTES_PER_S] [--delay MS] [--loss P]

--mpirun: a process for each worker, under mpirun. Exit 77: namespaces are not allowed here, or there is no mpirun.
"""
import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile

SMALL = {'layers': 2, 'dim': 8, 'heads': 2, 'context': 4, 'batch': 4, 'warmup': 0, 'truncation': 'ars', 'index': 'exact'}
TEXT = ('three parties train together, and none of them sees. ' * 8)[:300]
AGAIN, SKIPPED = 75, 77


def wanted(a, directory):
    words = [word for key, value in SMALL.items() for word in (f'--{key}', str(value))]
    report = subprocess.run([a.uvcc, 'train', '--model', 'transformer', '--text', 't.txt', *words, '--steps', str(a.steps),
                             '--json', '-'], cwd=directory, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return json.loads(report.stdout)['weights_sha256']


def configure(a, directory, split):
    public = [subprocess.run([a.uvcc, 'keygen', '--out', f'{directory}/identity-{p}.key'], check=True, stdout=subprocess.PIPE,
                             text=True).stdout.strip() for p in range(3)]
    # workers of one process share a port; of several, each has its own
    port = ':7100' if a.over == 'udp' and not a.mpirun else ''
    for p in range(3):
        config = {'job': {'name': 'a test', 'replicas': split[0], 'stages': split[1], 'tensor_ranks': split[2],
                          'checkpoint_every': 1,
                          'run': {'kind': 'transformer', **SMALL, 'steps': a.steps, 'text_bytes': len(TEXT)}},
                  'party': p, 'parties': [{'address': f'{a.over}:10.78.0.{q + 1}{port}', 'key': public[q]} for q in range(3)],
                  'identity': f'identity-{p}.key', 'store': f'store-{p}'}
        if p == 0:
            config['data'] = {'text': 't.txt'}
        with open(f'{directory}/party-{p}.json', 'w') as f:
            json.dump(config, f)


def command(a, directory, split, party):
    """Started again while it asks for it: a peer of several processes that came late."""
    words = [a.uvcc, 'party', '--config', f'party-{party}.json']
    if a.mpirun:
        words = [a.mpirun, str(split[0] * split[1] * split[2]), *words]
    text = shlex.join(words)
    return (f'cd {shlex.quote(directory)}; while {text} >>out-{party} 2>&1; s=$?; [ $s = {AGAIN} ]; do :; done; '
            f'exit $s')


def last_hash(path):
    with open(path) as f:
        lines = [line.split()[-1] for line in f if line.startswith('weights sha256')]
    return lines[-1] if lines else None


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--star', required=True)
    ap.add_argument('--mpirun')
    ap.add_argument('--over', default='udp')
    ap.add_argument('--split', default='1,1,1')
    ap.add_argument('--steps', type=int, default=2)
    ap.add_argument('--rate', type=float, default=125e6)
    ap.add_argument('--delay', type=float, default=10)
    ap.add_argument('--loss', type=float, default=0.01)
    a = ap.parse_args()
    a.uvcc, a.star = os.path.abspath(a.uvcc), os.path.abspath(a.star)
    if a.mpirun and shutil.which('mpirun') is None:
        print('no mpirun: skipped')
        return SKIPPED
    split = [int(n) for n in a.split.split(',')]
    with tempfile.TemporaryDirectory() as directory:
        with open(f'{directory}/t.txt', 'w') as f:
            f.write(TEXT)
        configure(a, directory, split)
        star = subprocess.run([a.star, '--rate', str(a.rate), '--delay', str(a.delay), '--loss', str(a.loss), '--seed', '1',
                               *(command(a, directory, split, p) for p in range(3))],
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        said = star.stderr.strip()
        if star.returncode == SKIPPED:
            print(f'skipped: {said}')
            return SKIPPED
        want = wanted(a, directory)
        hashes = [last_hash(f'{directory}/out-{p}') for p in range(3)]
        good = star.returncode == 0 and hashes == [want] * 3 and (a.loss == 0 or json.loads(said)['lost'] > 0)
        if not good:
            print(f'wanted: {want}; {hashes}; exit {star.returncode}')
            for p in range(3):
                with open(f'{directory}/out-{p}') as f:
                    print(f'--- party {p}\n{f.read()[-3000:]}')
        print(f'{a.over}, {a.split}: {want}; {said}')
        return 0 if good else 1


if __name__ == '__main__':
    sys.exit(main())
