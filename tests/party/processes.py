#!/usr/bin/env python3
"""A language model trained by R x S x T processes of each party, under mpirun: the weights of one process.

processes.py --uvcc TOOL --mpirun SCRIPT --split R,S,T [--over tcp|unix|udp] [--steps N] [--kills N] [--seed N]
             [--launch SCRIPT] [--compute threads|inline|gpu]

--kills: so many times a worker gets SIGKILL; mpirun ends its party, which starts again, and so do the other two,
whose processes end with 75. Exit 77: there is no mpirun, uvcc has no MPI, or --compute gpu lacks cards.
"""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from job import Job, last_hash, no_card
from names import look

SMALL = {'layers': 2, 'dim': 8, 'heads': 2, 'context': 4, 'batch': 4, 'warmup': 0, 'truncation': 'ars', 'index': 'exact'}
TEXT = ('three parties train together, and none of them sees. ' * 8)[:300]
AGAIN = 75


def wanted(a, directory):
    """Of one worker: how the work is split changes no bit."""
    words = [word for key, value in SMALL.items() for word in (f'--{key}', str(value))]
    report = subprocess.run([a.uvcc, 'train', '--model', 'transformer', '--text', f'{directory}/t.txt', *words,
                             '--steps', str(a.steps), '--json', '-'], check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    return json.loads(report.stdout)['weights_sha256']


def workers_of(root):
    """Processes below mpirun that are workers."""
    out = subprocess.run(['ps', '-e', '-o', 'pid=,ppid=,args='], check=True, stdout=subprocess.PIPE, text=True).stdout
    children, words = {}, {}
    for line in out.splitlines():
        pid, parent, *command = line.split(None, 2)
        children.setdefault(int(parent), []).append(int(pid))
        words[int(pid)] = command[0] if command else ''
    found, look = [], [root]
    while look:
        pid = look.pop()
        look += children.get(pid, [])
        if ' party --config' in words.get(pid, '') and 'mpirun' not in words[pid]:
            found.append(pid)
    return found


def run(job, a, rng):
    """All to their ends, started again while they ask for it; how many were killed."""
    kills, deaths, heard = 0, 0, [0, 0, 0]

    def under_way():
        """A run has begun at all three since the last kill."""
        return kills < a.kills and all('from step' in process.err[at:] for process, at in zip(job.parties, heard))

    for p in range(3):
        job.start(p)
    while any(process.ended != 0 for process in job.parties):
        job.wait(lambda: any(process.ended not in (None, 0) for process in job.parties) or
                 all(process.ended == 0 for process in job.parties) or under_way(), 'anything')
        for p, process in enumerate(job.parties):
            if process.ended in (None, 0):
                continue
            if no_card(process):
                print(process.err)
                raise SystemExit(77)
            if process.ended != AGAIN and not (deaths < kills and process.ended in (137, -9)):
                print(f'party {p} ended with {process.ended}')
                job.show()
                raise SystemExit(1)
            deaths += process.ended != AGAIN
            job.start(p)
        if under_way():
            until = time.monotonic() + rng.random() * a.apart
            while time.monotonic() < until and job.hear(max(0, until - time.monotonic())):
                pass
            p = rng.randrange(3)
            there = workers_of(job.parties[p].process.pid) if job.parties[p].ended is None else []
            if there:
                os.kill(rng.choice(there), signal.SIGKILL)
                kills += 1
                heard = [len(process.err) for process in job.parties]
    return kills


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--mpirun', required=True)
    ap.add_argument('--launch', help='examples/launch/mpirun.sh: it starts what ends with 75')
    ap.add_argument('--split', default='2,2,2')
    ap.add_argument('--over', default='tcp')
    ap.add_argument('--steps', type=int, default=3)
    ap.add_argument('--kills', type=int, default=0)
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--apart', type=float, default=3) # seconds from the begin of a run to a kill, at most
    ap.add_argument('--names', action='store_true', help='no name comes twice, of all processes of a party')
    ap.add_argument('--compute')
    ap.add_argument('--keep')
    a = ap.parse_args()
    if shutil.which('mpirun') is None:
        print('no mpirun: skipped')
        return 77
    directory = a.keep or tempfile.mkdtemp()
    os.makedirs(directory, exist_ok=True)
    split = [int(n) for n in a.split.split(',')]
    with open(f'{directory}/t.txt', 'w') as f:
        f.write(TEXT)
    top = {'replicas': split[0], 'stages': split[1], 'tensor_ranks': split[2], 'checkpoint_every': 1}
    job = Job(a.uvcc, directory, {'kind': 'transformer', **SMALL, 'steps': a.steps, 'text_bytes': len(TEXT)}, a.over,
              {0: {'text': 't.txt'}}, top, None, ('--compute', a.compute) if a.compute else ())
    for p, config in enumerate(job.config):
        if a.names:
            config['names'] = f'names-{p}'
        for q, party in enumerate(config['parties']):
            if a.over == 'unix': # a socket for each worker
                party['address'] = f'unix:{q}-%.sock'
            elif a.over == 'udp': # a port for each worker, where those of one process share one
                party['address'] = party['address'].rpartition(':')[0]
        job.write(p)
    workers = str(split[0] * split[1] * split[2])
    for p, process in enumerate(job.parties):
        if a.launch:
            process.command = [a.mpirun, a.launch, workers, f'party-{p}.json', '--progress']
            process.env['UVCC'] = a.uvcc
        else:
            process.command = [a.mpirun, workers, *process.command]
    try:
        kills = run(job, a, random.Random(a.seed))
        want = wanted(a, directory)
        if any(last_hash(process.out) != want for process in job.parties):
            print(f'wanted: {want}; {kills} kills')
            for q in job.parties: print('=====\n' + q.err)
            job.show()
            return 1
        if a.names and not look([f'{directory}/names-{p}' for p in range(3)]):
            return 1
        print(f'{a.over}, {a.split}: {want}, {kills} kills, {[process.starts for process in job.parties]} starts')
        return 0
    finally:
        job.end()
        if not a.keep:
            shutil.rmtree(directory)


if __name__ == '__main__':
    sys.exit(main())
