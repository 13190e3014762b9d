#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A pretrained model between three processes of `uvcc party`: the answer of `uvcc infer`, and nothing of the input elsewhere.

infer.py --uvcc TOOL --model DIR [--over tcp|unix|udp] [--dies] [--public]

Looks for the input in the memory of the two parties that do not own it while they run, and in all that they leave behind:
what they say, their stores, bundles and results. Its owner's memory has it, so that looking is known to find.
--dies: the owner of the weights gets SIGKILL when it has given them, and goes on from its store.
--public: all three have the checkpoint, and the input's owner embeds.
"""
import argparse
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile

from job import Job

IDS, TOKENS = [71, 5, 88, 23, 61, 14, 96, 42, 9, 77, 30], 14
TEXT = ','.join(map(str, IDS))
LARGE = 1 << 26 # bytes: more is what a sanitizer keeps of all memory
NUMBERS = {'gives': 'labels', 'mode': 'exact', 'value_bits': 7, 'inner_bits': 7, 'index_bits': 6}


def wanted(a, directory):
    """The same pass in one process."""
    words = [word for key, value in NUMBERS.items() for word in (f'--{key.replace("_", "-")}', str(value))]
    path = f'{directory}/want.json'
    subprocess.run([a.uvcc, 'infer', '--model', a.model, '--ids', TEXT, '--tokens', str(TOKENS), *words, '--weights',
                    'public' if a.public else 'secret', '--output', path],
                   check=True, stdout=subprocess.DEVNULL)
    return read_json(path)


def read_json(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)


def forms():
    """The input as a party might hold it: text; tokens as integers of 8, 4 and 2 bytes."""
    return [TEXT.encode(), *(struct.pack(f'<{len(IDS)}{kind}', *IDS) for kind in 'qiHB')]


def memory_has(process, what):
    """None: it may not be looked at, or is gone."""
    try:
        process.send_signal(signal.SIGSTOP)
        with open(f'/proc/{process.pid}/maps', encoding='ascii') as maps, open(f'/proc/{process.pid}/mem', 'rb') as mem:
            for line in maps:
                place, rights = line.split()[:2]
                if not rights.startswith('rw') or line.rstrip().endswith(('[vvar]', '[vsyscall]')):
                    continue
                begin, end = (int(x, 16) for x in place.split('-'))
                if end - begin > LARGE:
                    continue
                mem.seek(begin)
                found = mem.read(end - begin)
                if any(form in found for form in what):
                    return True
        return False
    except (OSError, ValueError):
        return None
    finally:
        process.send_signal(signal.SIGCONT)


def drawn(seed, begin, count):
    """Bytes that odd_client.c draws, from this one on."""
    some = bytearray()
    for _ in range(begin + count):
        seed = (seed * 6364136223846793005 + 1) % 2**64
        some.append(seed >> 56)
    return bytes(some[begin:])


def forgotten(service, seed, secrets):
    """Sooner or later no party has any of these bytes of a request that is over."""
    what = [drawn(seed, begin, count) for begin, count in secrets]
    service.wait(lambda: all(memory_has(p.process, what) is not True for p in service.parties), 'a party has a request that is over')


def look(job, seen):
    for p in range(3):
        process = job.parties[p].process
        if job.alive(p) and process.poll() is None:
            seen[p].append(memory_has(process, forms()))


def left_behind(directory, p, job):
    """What party p wrote and said."""
    yield 'its words', (job.parties[p].out + job.parties[p].err).encode()
    for path, _, files in os.walk(f'{directory}/store-{p}'):
        for name in files:
            with open(f'{path}/{name}', 'rb') as f:
                yield f'{path}/{name}', f.read()


def private(directory, job, seen, answer):
    good = True
    opened = struct.pack(f'<{len(answer)}q', *(round(v * 2 ** 16) for v in answer))
    for p in range(1, 3):
        for where, found in left_behind(directory, p, job):
            if any(form in found for form in [opened, *forms()]):
                print(f'party {p} has the input, or the answer, in {where}')
                good = False
        if True in seen[p]:
            print(f'party {p} had the input in its memory')
            good = False
    if None not in seen[0] and True not in seen[0]:
        print('the input was not found in the memory of its owner')
        good = False
    return good


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--model', required=True, type=os.path.abspath)
    ap.add_argument('--over', default='unix')
    ap.add_argument('--dies', action='store_true')
    ap.add_argument('--public', action='store_true')
    a = ap.parse_args()
    directory = tempfile.mkdtemp()
    run = {'kind': 'infer', 'model': read_json(f'{a.model}/config.json'), 'tokens': TOKENS, 'padding': True, **NUMBERS}
    changes = {0: {'output': {'answer': 'answer.json'}}}
    data = {0: {'ids': TEXT}, 1: {'model': a.model}}
    if a.public:
        run['weights'] = 'public'
        data = {p: {'model': a.model, **data.get(p, {})} for p in range(3)}
    job = Job(a.uvcc, directory, run, a.over, data, {'checkpoint_every': 1}, changes)
    seen = [[], [], []]
    try:
        for p in range(3):
            job.start(p, *(['--die-after-step', '1'] if a.dies and p == 1 else []))
        if a.dies:
            job.wait(lambda: not job.alive(1), 'a party dies')
            job.start(1)
        turn = 0
        while job.select.get_map():
            job.hear(0.05)
            turn += 1
            if turn & (turn - 1) == 0: # from the beginning to the end, and a few times
                look(job, seen)
        codes = [process.ended for process in job.parties]
        if codes != [0, 0, 0]:
            print(f'exit {codes}')
            job.show()
            return 1
        want, got = wanted(a, directory), read_json(f'{directory}/answer.json')
        if got != want:
            print(f'wanted: {want}; got: {got}')
            return 1
        if not private(directory, job, seen, want['logits'][0]):
            return 1
        print(f'the answer of one process; memory looked at {[len(one) for one in seen]} times')
        return 0
    finally:
        job.end()
        shutil.rmtree(directory)


if __name__ == '__main__':
    sys.exit(main())
