#!/usr/bin/env python3
"""Two workers of each party, whose triangles come together in different runs: one with a process of party 1 that is gone,
the other with the one that came after it. Neither may compute with the other's values: the parties see it and start again.

mixed.py --uvcc TOOL --mpirun SCRIPT. Exit 77: there is no mpirun.
"""
import argparse
import json
import os
import shutil
import signal
import sys
import tempfile

from job import Job
from processes import SMALL, TEXT, workers_of

EACH = '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && shift; exec "$0" party --config "$1" --progress'
SAID = 'the workers go on in other runs'


def ready(directory, p, worker):
    """Its session is, by the log of its party."""
    try:
        with open(f'{directory}/log-{p}') as f:
            return any(f'"{worker}"' in line and '"event":"ready"' in line for line in f)
    except FileNotFoundError:
        return False


def end_workers(job, p):
    for pid in workers_of(job.parties[p].process.pid):
        os.kill(pid, signal.SIGKILL)
    job.wait(lambda: not job.alive(p), 'the end of a party')


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--mpirun', required=True)
    a = ap.parse_args()
    if shutil.which('mpirun') is None:
        print('no mpirun: skipped')
        return 77
    directory = tempfile.mkdtemp()
    with open(f'{directory}/t.txt', 'w') as f:
        f.write(TEXT)
    log = {p: {'log': {'file': f'log-{p}', 'format': 'json', 'rate': 0}} for p in range(3)}
    job = Job(a.uvcc, directory, {'kind': 'transformer', **SMALL, 'steps': 2, 'text_bytes': len(TEXT)}, 'tcp',
              {0: {'text': 't.txt'}}, {'tensor_ranks': 2, 'checkpoint_every': 1}, log)
    alone = json.loads(json.dumps(job.config[1])) # it does not come to party 0
    alone['parties'][0]['address'] = 'tcp:127.0.0.1:1'
    with open(f'{directory}/alone.json', 'w') as f:
        json.dump(alone, f)
    for p, process in enumerate(job.parties):
        files = ['party-1.json', 'alone.json'] if p == 1 else [f'party-{p}.json'] * 2
        process.command = [a.mpirun, '2', 'sh', '-c', EACH, job.uvcc, *files]
    try:
        for p in range(3):
            job.start(p)
        job.wait(lambda: all(ready(directory, p, 'r0-s0-t0') for p in range(3)), 'the first worker is ready')
        end_workers(job, 1)
        job.parties[1].command[-2:] = ['alone.json', 'party-1.json']
        job.start(1)
        job.wait(lambda: any(SAID in job.parties[p].err for p in (0, 2)) or
                 any(job.parties[p].ended is not None for p in (0, 2)), 'they see it')
        job.wait(lambda: any(SAID in job.parties[p].err for p in (0, 2)), 'they say it')
        if any('from step' in process.err for process in job.parties):
            job.show()
            return 1
        return 0
    finally:
        for p in range(3):
            if job.parties[p].process is not None and job.parties[p].process.poll() is None:
                for pid in workers_of(job.parties[p].process.pid):
                    os.kill(pid, signal.SIGKILL)
        job.end()
        shutil.rmtree(directory)


if __name__ == '__main__':
    sys.exit(main())
