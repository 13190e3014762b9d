#!/usr/bin/env python3
"""`uvcc triples make|list|check`, then `uvcc party` on what was made: the weights of a job that makes its triples
itself, with restarts too, and less preprocessing.

triples.py --uvcc TOOL --data FILE [--over tcp|unix|udp] [--kills N] [--split R,S,T] [--keep DIR]

--split: a transformer by so many workers of each party, instead of a perceptron.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

from job import Job, disturb, last_hash

SMALL = {'layers': 2, 'dim': 8, 'heads': 2, 'context': 4, 'batch': 4, 'warmup': 0, 'truncation': 'ars', 'index': 'exact'}
TEXT = ('three parties train together, and none of them sees. ' * 8)[:300]


def need(good, what):
    if not good:
        raise SystemExit(what)


def make_all(a, job, *more):
    """`uvcc triples make` at all three; exit statuses."""
    for p in range(3):
        job.parties[p].command = [a.uvcc, 'triples', 'make', '--config', f'party-{p}.json', *more]
        job.parties[p].out = job.parties[p].err = ''
    return job.run()


def party_all(a, job):
    for p in range(3):
        job.parties[p].command = [a.uvcc, 'party', '--config', f'party-{p}.json', '--progress', '--json', f'out-{p}.json']
        job.parties[p].out = job.parties[p].err = ''


def sets(a, directory, p, word='list'):
    out = subprocess.run([a.uvcc, 'triples', word, '--config', f'party-{p}.json', '--json', '-'], cwd=directory,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    need(out.returncode == 0, f'triples {word}: {out.returncode} {out.stderr.decode()}')
    return json.loads(out.stdout)['triples']


def result(directory, p):
    with open(f'{directory}/out-{p}.json') as f:
        return json.load(f)


def new_job(a, directory, name, **more):
    if a.split is not None:
        with open(f'{directory}/t.txt', 'w') as f:
            f.write(TEXT)
        replicas, stages, ranks = a.split
        run = {'kind': 'transformer', **SMALL, 'steps': 4, 'text_bytes': len(TEXT), 'reveal': True, 'products': 'beaver'}
        return Job(a.uvcc, directory, run, a.over, {0: {'text': 't.txt'}},
                   {'name': name, 'checkpoint_every': 2, 'replicas': replicas, 'stages': stages, 'tensor_ranks': ranks}, **more)
    run = {'kind': 'mlp', 'rows': 1797, 'features': 64, 'classes': 10, 'hidden': [16], 'batch': 256, 'epochs': 2,
           'products': 'beaver'}
    data = {0: {'file': a.data}, 1: {'file': a.data}}
    return Job(a.uvcc, directory, run, a.over, data, {'name': name, 'checkpoint_every': 2}, **more)


def tried(a, directory, kills):
    steps = 8 if a.split is None else 4
    job = new_job(a, directory, 'triples')
    try:
        need(make_all(a, job, '--steps', f'0..{steps - 1}') == [0, 0, 0], 'make failed' + job.parties[0].err)
        need(f'for steps 0..{steps - 1}' in job.parties[0].out, job.parties[0].out)
        for p in range(3):
            for made in sets(a, directory, p):
                need((made['first'], made['last'], made['steps'], made['used_below']) == (0, steps - 1, steps, 0), made)
            workers = sets(a, directory, p, 'check')
            need(len(workers) == (a.split[0] * a.split[1] * a.split[2] if a.split else 1), workers)
            need(all(made['whole'] == steps and made['damaged'] == made['missing'] == 0 for made in workers), workers)
        party_all(a, job)
        if kills:
            disturb(job, random.Random(3), kills, 6)
            codes = job.finish()
        else:
            codes = job.run()
        need(codes == [0, 0, 0], f'{codes} {job.parties[0].err}')
        if not kills:
            for p in range(3):
                need(sets(a, directory, p) == [], 'not used')
        return {last_hash(process.out) for process in job.parties}, result(directory, 0)
    finally:
        job.end()


def plain(a, directory):
    """With triples in the store, which it is told to leave; of one name, so that who deals which keys is the same."""
    job = new_job(a, directory, 'triples', changes={p: {'triples': 'leave'} for p in range(3)})
    need(make_all(a, job, '--steps', '0..1') == [0, 0, 0], 'make failed' + job.parties[0].err)
    party_all(a, job)
    try:
        need(job.run() == [0, 0, 0], job.parties[0].err)
        need(all(s['steps'] == 2 for p in range(3) for s in sets(a, directory, p)), 'they were used')
        return {last_hash(process.out) for process in job.parties}, result(directory, 0)
    finally:
        job.end()


def refused(a, directory):
    """Parties that are told other steps do not meet; steps that the job has not are refused."""
    job = new_job(a, directory, 'refused')
    try:
        codes = make_all(a, job, '--steps', '3..99999')
        need(codes == [2, 2, 2] and 'the job has steps 0..' in job.parties[1].err, job.parties[1].err)
        for p in range(3):
            job.parties[p].command = [a.uvcc, 'triples', 'make', '--config', f'party-{p}.json', '--steps',
                                      '0..3' if p else '0..2']
            job.start(p)
        job.wait(lambda: 'its --steps is another' in job.parties[0].err, 'a difference is told')
    finally:
        job.end()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--data', required=True)
    ap.add_argument('--over', default='tcp')
    ap.add_argument('--kills', type=int, default=0)
    ap.add_argument('--split', type=lambda text: [int(n) for n in text.split(',')])
    ap.add_argument('--keep')
    a = ap.parse_args()
    a.uvcc = os.path.abspath(a.uvcc)
    top = a.keep or tempfile.mkdtemp()
    places = [tempfile.mkdtemp(dir=top) for _ in range(3)]
    try:
        refused(a, places[0])
        want, without = plain(a, places[1])
        got, with_them = tried(a, places[2], a.kills)
        need(want == got and len(got) == 1, f'{got} is not {want}')
        if with_them['run'] == without['run'] == 1: # after the maker's; a slow machine may have had others
            need(with_them['bytes_preprocessing'] < without['bytes_preprocessing'], f'nothing was saved: {with_them} {without}')
        return 0
    finally:
        if a.keep is None:
            shutil.rmtree(top)


if __name__ == '__main__':
    sys.exit(main())
