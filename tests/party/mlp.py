#!/usr/bin/env python3
"""A perceptron in three processes of `uvcc party`: the weights of `uvcc train`, whatever happens.

mlp.py --uvcc TOOL --data FILE --over tcp|unix|udp|openssl|mbedtls [--kills N] [--seed N] [--epochs N]
       [--own-columns] [--resets MS] [--compute inline|threads|gpu] [--keep DIR]

--kills: so many times a party gets SIGKILL at a random time, or after a random step, and starts again.
Exit 77: something is not built.
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

HIDDEN, BATCH = 16, 32


def wanted(a):
    report = subprocess.run([a.uvcc, 'train', '--data', a.data, '--hidden', str(HIDDEN), '--batch', str(BATCH),
                             '--epochs', str(a.epochs), '--json', '-'], check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    return json.loads(report.stdout)['weights_sha256']


def columns(a, directory):
    """Each its own columns alone."""
    if not a.own_columns:
        return {0: {'file': a.data}, 1: {'file': a.data}}
    with open(a.data) as f, open(f'{directory}/x.csv', 'w') as x, open(f'{directory}/y.csv', 'w') as y:
        for line in f:
            features, label = line.strip().rsplit(',', 1)
            x.write(features + '\n')
            y.write(label + '\n')
    return {0: {'file': 'x.csv'}, 1: {'file': 'y.csv'}}


def check(a, job, codes, want):
    good = codes == [0, 0, 0]
    for process in job.parties:
        good = good and last_hash(process.out) == want
        good = good and 'runtime error' not in process.err and 'Sanitizer' not in process.err
    return good


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--data', required=True, type=os.path.abspath)
    ap.add_argument('--over', default='tcp')
    ap.add_argument('--kills', type=int, default=0)
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--epochs', type=int, default=1)
    ap.add_argument('--every', type=int, default=8)
    ap.add_argument('--own-columns', action='store_true')
    ap.add_argument('--resets', type=int, default=0)
    ap.add_argument('--compute')
    ap.add_argument('--keep')
    a = ap.parse_args()
    rng = random.Random(a.seed)
    directory = a.keep or tempfile.mkdtemp()
    run = {'kind': 'mlp', 'rows': 1797, 'features': 64, 'classes': 10, 'hidden': [HIDDEN], 'batch': BATCH,
           'epochs': a.epochs}
    changes = {p: {'faults': {'reset_ms': a.resets, 'seed': a.seed + p}} for p in range(3)} if a.resets else None
    job = Job(a.uvcc, directory, run, a.over, columns(a, directory), {'checkpoint_every': a.every}, changes,
              ['--compute', a.compute] if a.compute else ())
    try:
        kills = 0
        if a.kills:
            kills = disturb(job, rng, a.kills, 30)
            codes = job.finish()
        else:
            codes = job.run()
        want = wanted(a)
        if any('not built in' in process.err or no_card(process) for process in job.parties):
            print(job.parties[0].err)
            return 77
        if not check(a, job, codes, want) or (a.kills and not any('step 1 of' not in line for process in job.parties
                                                                  for line in process.err.splitlines()
                                                                  if line.startswith('run '))):
            print(f'wanted: {want}; exit {codes}; {kills} kills')
            job.show()
            return 1
        starts = [process.starts for process in job.parties]
        print(f'{a.over}: {want}, {kills} kills, {starts} starts')
        return 0
    finally:
        job.end()
        if not a.keep:
            shutil.rmtree(directory)


if __name__ == '__main__':
    sys.exit(main())
