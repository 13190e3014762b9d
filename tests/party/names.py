#!/usr/bin/env python3
"""Whether anything is used twice that must not be, over all processes and restarts of a job: the lists that "names" of the
parties' files leaves (names.c). And whether anything secret lies readable in what a party leaves on the disk.

names.py FILE...                            looks at lists, one party's each; 1 if a name comes twice
names.py --uvcc TOOL --kills N [--seed N]   a job whose parties get SIGKILL so often: the weights of nobody's death, no name
                                            twice, nothing secret readable; and then a job begun anew under its old name,
                                            which must be seen
"""
import argparse
import array
import base64
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import zlib

from job import Job, last_hash

ROWS, FEATURES, EPOCHS = 200, 4, 12
RUN = {'kind': 'mlp', 'rows': ROWS, 'features': FEATURES, 'classes': 3, 'hidden': [6], 'epochs': EPOCHS, 'batch': 8,
       'products': 'beaver'}
STEPS = EPOCHS * 20 # at least: a tenth of the rows is held out
AHEAD = 60          # of these steps the triples are made ahead


# ---- names ----

def names_of(line):
    """What a line says that no other line may: by the run, and by the key."""
    what, key = line.split(' key ') if ' key ' in line else (line, None)
    words = what.split(' ')
    if words[0] == 'triple': # whatever run uses it
        return [' '.join(words[:3] + words[7:])]
    place = ' '.join(words[5:] if words[0] == 'control' else words[7:])
    return [what, f'{words[0]} {words[1]} {place} key {key}']


def lines_of(path):
    """But for what a process wrote in part when it ended."""
    with open(path) as f:
        for line in f:
            if line.endswith('\n'):
                yield line[:-1]


def twice(path):
    """Names of one party that come twice, and how many lines there are."""
    hashes, count = array.array('q'), 0
    for line in lines_of(path):
        count += 1
        hashes.extend(hash(name) for name in names_of(line))
    again, last = set(), None
    for value in sorted(hashes):
        if value == last:
            again.add(value)
        last = value
    seen, found = set(), []
    for line in lines_of(path) if again else []:
        for name in names_of(line):
            if hash(name) in again:
                if name in seen:
                    found.append(line)
                seen.add(name)
    return found, count


def look(paths):
    """True: no name comes twice."""
    good, counts = True, []
    for path in paths:
        found, count = twice(path)
        counts.append(count)
        for line in found[:3]:
            print(f'{path}: used twice: {line}')
        if found:
            print(f'{path}: {len(found)} names of {count} come twice')
        good = good and not found and count > 0
    print(f'{sum(counts)} names, {counts} of the parties: {"none" if good else "some"} twice')
    return good


def planted(directory):
    """The look finds each kind of name that comes twice, in another run too, and nothing else."""
    words = 'words 0 r0-s0-t0 run 1 step 2 op 3 task 4 stream mask.0.0 call 5 block 6 key 00000000000000aa'
    frame = 'frame 0 r0-s0-t0 run 1 step 2 to 1 seq 7 key 00000000000000bb'
    control = 'control 0 r0-s0-t0 run 1 to 1 nonce 0011 key 00000000000000cc'
    triple = 'triple 0 r0-s0-t0 run 1 step 2 made 0 id 00000000000000dd'
    base = [words, frame, control, triple]
    good = [words.replace('run 1', 'run 2').replace('aa', 'ab'), frame.replace('seq 7', 'seq 8'),
            control.replace('0011', '0012'), triple.replace('made 0', 'made 1'), words.replace('task 4', 'task 5'),
            frame.replace('to 1', 'to 2').replace('bb', 'bc'), 'words 0 r0-s0-t0 run 9 st']
    bad = [words, frame, control, triple, words.replace('aa', 'ab'), frame.replace('bb', 'bc'),
           words.replace('run 1', 'run 2'), frame.replace('run 1 step 2', 'run 2 step 3'),
           control.replace('run 1', 'run 2'), triple.replace('run 1', 'run 2')]
    path = f'{directory}/planted'
    for more, want in [([line], False) for line in bad] + [(good, True)]:
        with open(path, 'w') as f:
            f.write('\n'.join(base + more) + ('\n' if more != good else ''))
        found, _ = twice(path)
        if (not found) != want:
            print(f'planted: {more} gives {found}')
            return False
    return True


# ---- what lies on the disk ----

def forms(secret):
    """Bytes as they are, and as people and formats write them."""
    return [secret, secret.hex().encode(), secret.hex().upper().encode(), base64.b64encode(secret).rstrip(b'=')]


def key_bytes(path):
    """The secret of a key file: its longest run of hexadecimal digits, or all of its last 32 bytes."""
    with open(path, 'rb') as f:
        data = f.read()
    digits = max(re.findall(rb'[0-9a-fA-F]+', data), key=len)
    return bytes.fromhex(digits[:64].decode()) if len(digits) >= 64 else data[-32:]


def needles(directory, rows):
    """Of all parties: keys, where each belongs, rows of the table as text and as numbers, opened weights."""
    out = {}
    for p in range(3):
        for path in (f'identity-{p}.key', f'store-{p}/key'):
            for form in forms(key_bytes(f'{directory}/{path}')):
                out[form] = path
    for row in rows:
        for shift in (0, 8, 12, 13, 16, 20):
            out[b''.join((value << shift).to_bytes(8, 'little') for value in row[:FEATURES])] = 'a row of the table'
    for n in range(0, ROWS - 3, 3):
        out['\n'.join(','.join(map(str, row)) for row in rows[n:n + 3]).encode()] = 'rows of the table'
    weights = b''
    if os.path.exists(f'{directory}/weights.bin'):
        with open(f'{directory}/weights.bin', 'rb') as f:
            weights = f.read()
    for n in range(0, len(weights) - 32, 32):
        if any(weights[n:n + 32]):
            out[weights[n:n + 32]] = 'the weights'
    return {needle: what for needle, what in out.items() if len(set(needle)) > 4}


def readable(directory, rows):
    """What is found where it must not be; how many files of a store are sealed."""
    wanted, found, sealed = needles(directory, rows), [], 0
    for top, _, files in os.walk(directory):
        for name in files:
            path = os.path.relpath(os.path.join(top, name), directory)
            if path in ('t.csv', 'weights.bin'):
                continue
            try:
                with open(f'{directory}/{path}', 'rb') as f:
                    data = f.read()
            except OSError: # a socket, or gone meanwhile
                continue
            found += [f'{path} has {what}' for needle, what in wanted.items() if what != path and needle in data]
            if re.search(r'\.(step-\d+|triples-\d+-\d+)$', name):
                sealed += 1
                if len(zlib.compress(data, 9)) < 0.99 * len(data):
                    found.append(f'{path} can be compressed: it is not sealed')
    return found, sealed


def seen(directory, rows):
    """What is looked for is found where it is put."""
    with open(f'{directory}/weights.bin', 'rb') as f:
        weights = f.read()
    row = b''.join((value << 13).to_bytes(8, 'little') for value in rows[7][:FEATURES])
    key = key_bytes(f'{directory}/store-1/key')
    for n, secret in enumerate([row, b'x' + ','.join(map(str, rows[3])).encode() + b'\n' +
                                ','.join(map(str, rows[4])).encode() + b'\n' + ','.join(map(str, rows[5])).encode(),
                                weights[:64], *forms(key), *forms(key_bytes(f'{directory}/identity-2.key')),
                                bytes(100)]):
        path = f'{directory}/r0-s0-t0.step-7'
        with open(path, 'wb') as f:
            f.write(b'something ' + secret)
        found, _ = readable(directory, rows)
        os.unlink(path)
        if not found:
            print(f'what was put there is not found: {n}')
            return False
    return True


# ---- a job ----

def table(rng):
    rows = []
    for _ in range(ROWS):
        row = [rng.randrange(16) for _ in range(FEATURES)]
        rows.append(row + [(row[0] + row[1] > 16) + (row[2] > row[3])])
    return rows


def new_job(a, directory, rows):
    with open(f'{directory}/t.csv', 'w') as f:
        f.write(''.join(','.join(map(str, row)) + '\n' for row in rows))
    data = {p: {'file': 't.csv', 'label': '5'} for p in range(2)}
    changes = {p: {'names': f'names-{p}', 'audit': f'audit-{p}', 'threads': 1, 'log': {'file': f'log-{p}', 'level': 'debug'},
                   **({'output': {'weights': 'weights.bin'}} if p == 0 else {})} for p in range(3)}
    return Job(a.uvcc, directory, RUN, a.over, data, {'name': 'names', 'checkpoint_every': 1}, changes)


def wanted(a, directory):
    words = '--data t.csv --label 5 --hidden 6 --batch 8 --json -'.split() + ['--epochs', str(EPOCHS)]
    report = subprocess.run([a.uvcc, 'train', *words], cwd=directory, check=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL)
    return json.loads(report.stdout)['weights_sha256']


def under_way(job, heard):
    """A run has begun at all three that live since they were last heard."""
    return all('from step' in process.err[at:] for process, at in zip(job.parties, heard))


def kill_some(a, job, rng, between):
    """SIGKILL to one of the three, or to several at once: at any time of a run, while it begins, or by itself after a step.
    How many were killed. between() is called in the middle, while somebody is dead."""
    done, heard = 0, [0, 0, 0]
    for p in range(3):
        job.start(p)
    while done < a.kills and not any(process.ended == 0 for process in job.parties):
        if rng.random() < 0.8: # else while they meet
            job.wait(lambda: under_way(job, heard) or any(process.ended is not None for process in job.parties), 'a run')
        until = time.monotonic() + rng.random() * a.apart
        while time.monotonic() < until and job.hear(max(0, until - time.monotonic())):
            pass
        heard = [len(process.err) for process in job.parties]
        for p in rng.sample(range(3), rng.choice((1, 1, 1, 2, 3))):
            if job.alive(p) and job.parties[p].ended is None:
                job.kill(p)
                done += job.parties[p].ended == -9
        if between is not None and 2 * done >= a.kills:
            between()
            between = None
        for p in range(3):
            if not job.alive(p) and job.parties[p].ended != 0:
                job.start(p, *(('--die-after-step', str(rng.randrange(1, 4))) if rng.random() < 0.3 else ()))
        for process in job.parties:
            if process.ended is not None and process.ended not in (0, -9):
                raise SystemExit(f'a party ended with {process.ended}: {process.err[-1000:]}')
        if a.verbose and done % 10 == 0:
            print(f'{done} kills', flush=True)
    while any(process.ended != 0 for process in job.parties):
        job.wait(lambda: any(process.ended is not None for process in job.parties), 'the end')
        for p, process in enumerate(job.parties):
            if process.ended == -9:
                done += 1
                job.start(p)
            elif process.ended not in (None, 0):
                raise SystemExit(f'party {p} ended with {process.ended}: {process.err[-1000:]}')
        if all(process.ended in (None, 0) for process in job.parties):
            job.wait(lambda: all(process.ended == 0 for process in job.parties) or
                     any(process.ended not in (None, 0) for process in job.parties), 'the end')
    return done


def make_ahead(a, job):
    party = [process.command for process in job.parties]
    for p in range(3):
        job.parties[p].command = [a.uvcc, 'triples', 'make', '--config', f'party-{p}.json', '--steps', f'0..{AHEAD - 1}']
    codes = job.run()
    if codes != [0, 0, 0]:
        raise SystemExit(f'triples make: {codes} {job.parties[0].err}')
    for p in range(3):
        job.parties[p].command, job.parties[p].err = party[p], ''


def killed(a, directory):
    rng = random.Random(a.seed)
    rows = table(rng)
    job = new_job(a, directory, rows)
    found, sealed = [], 0

    def look_at_disk():
        nonlocal found, sealed
        more, count = readable(directory, rows)
        found, sealed = found + more, sealed + count

    try:
        make_ahead(a, job)
        done = kill_some(a, job, rng, look_at_disk)
    finally:
        job.end()
    want, got = wanted(a, directory), {last_hash(process.out) for process in job.parties}
    look_at_disk()
    print(f'{done} kills, {[process.starts for process in job.parties]} starts; {sealed} sealed files; weights {want}')
    if got != {want}:
        print(f'the weights are {got}')
    for line in found[:10]:
        print(line)
    with open(f'{directory}/names-0') as f:
        ahead = any(line.startswith('triple') and ' made 0 ' in line for line in f)
    if not ahead:
        print('no triple that was made ahead was used')
    return seen(directory, rows) and look([f'{directory}/names-{p}' for p in range(3)]) and got == {want} and not found and sealed > 0 and ahead


def again(a, directory):
    """All three begin anew in empty stores under the job's old name, so that a run comes again: names come twice."""
    job = new_job(a, directory, table(random.Random(a.seed)))
    try:
        for p in range(3):
            del job.config[p]['audit'] # which would refuse that
            job.write(p)
        for _ in range(2):
            for p in range(3):
                job.start(p, '--die-after-step', '3')
            job.wait(lambda: any(process.ended is not None for process in job.parties), 'a party dies')
            for p in range(3):
                if job.alive(p):
                    job.kill(p)
                shutil.rmtree(f'{directory}/store-{p}')
            if any(process.ended != -9 for process in job.parties):
                print('again: ' + ''.join(process.err for process in job.parties))
                return False
    finally:
        job.end()
    if look([f'{directory}/names-{p}' for p in range(3)]):
        print('a run came twice, and no name did')
        return False
    return True


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('file', nargs='*')
    ap.add_argument('--uvcc')
    ap.add_argument('--kills', type=int, default=20)
    ap.add_argument('--seed', type=int, default=1)
    ap.add_argument('--over', default='unix')
    ap.add_argument('--apart', type=float, default=0.5) # seconds at most from the begin of a run to a kill
    ap.add_argument('--epochs', type=int, default=EPOCHS)
    ap.add_argument('--keep')
    ap.add_argument('--verbose', action='store_true')
    a = ap.parse_args()
    if a.file:
        return 0 if look(a.file) else 1
    globals()['EPOCHS'] = RUN['epochs'] = a.epochs
    top = a.keep or tempfile.mkdtemp()
    os.makedirs(top, exist_ok=True)
    places = [tempfile.mkdtemp(dir=top) for _ in range(3)]
    a.uvcc = os.path.abspath(a.uvcc)
    try:
        return 0 if planted(places[0]) and killed(a, places[1]) and again(a, places[2]) else 1
    finally:
        if a.keep is None:
            shutil.rmtree(top)


if __name__ == '__main__':
    sys.exit(main())
