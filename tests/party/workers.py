#!/usr/bin/env python3
"""Workers of one party in processes of their own, with what does not fit together: they say so and end. One that waits for
another ends when it is asked to.

workers.py --uvcc TOOL --mpirun SCRIPT. Exit 77: there is no mpirun, or uvcc has no MPI.
"""
import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from job import Job, WAIT_S

RUN = {'kind': 'transformer', 'layers': 1, 'dim': 8, 'heads': 2, 'context': 4, 'batch': 4, 'steps': 1, 'text_bytes': 60}
TWO = '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && shift; exec "$0" party --config "$1"'


def started(a, directory, workers, *words):
    """Status and errors of party 1's workers; TWO gives the second of them the second file."""
    got = subprocess.run([a.mpirun, str(workers), 'sh', '-c', TWO, a.uvcc, *words], cwd=directory, timeout=240,
                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return got.returncode, got.stdout


# The second process never becomes a worker; the first one tells which process it is.
ALONE = '[ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" = 1 ] && exec sleep 1200; echo $$ >pid; exec "$0" party --config "$1"'


def interrupted(a, directory):
    """SIGINT to a worker that waits in MPI for one that does not come. Its exit status is mpirun's."""
    shutil.rmtree(f'{directory}/store-1')
    with subprocess.Popen([a.mpirun, '2', 'sh', '-c', ALONE, a.uvcc, 'party-1.json'], cwd=directory, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            end = time.monotonic() + WAIT_S
            while not os.path.exists(f'{directory}/store-1/r0-s0-t0/key') and process.poll() is None:
                if time.monotonic() > end:
                    return False, 'it does not come to its store'
                time.sleep(0.05) # until it is there
            with open(f'{directory}/pid') as f:
                os.kill(int(f.read()), signal.SIGINT)
            out, _ = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()
    return process.returncode == 130, f'{process.returncode} {out}'


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--mpirun', required=True)
    a = ap.parse_args()
    if shutil.which('mpirun') is None:
        print('no mpirun: skipped')
        return 77
    directory = tempfile.mkdtemp()
    try:
        job = Job(a.uvcc, directory, RUN, job={'replicas': 2})
        other = json.loads(json.dumps(job.config[1]))
        other['job']['name'] = 'another'
        with open(f'{directory}/other.json', 'w') as f:
            json.dump(other, f)
        for workers, words, said in ((2, ('party-1.json', 'other.json'), 'job: is another one than at other workers'),
                                     (1, ('party-1.json',), '2 replicas x 1 stages x 1 tensor ranks are 2')):
            status, out = started(a, directory, workers, *words)
            if status != 2 or said not in out:
                print(f'{words}: status {status}, not "{said}":\n{out}')
                return 1
        ended, out = interrupted(a, directory)
        if not ended:
            print(f'interrupted: {out}')
            return 1
        return 0
    finally:
        shutil.rmtree(directory)


if __name__ == '__main__':
    sys.exit(main())
