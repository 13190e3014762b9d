#!/usr/bin/env python3
"""bench "party": a step of training a language model by three processes over TCP, beside one process.

party.py --uvcc TOOL [--rounds N] [--splits RxSxT ...] [--steps N]

One process is `uvcc train --model transformer --compute threads`: the same sessions over the loopback network, each
worker of each party with a thread of its own for its jobs, as the processes' workers have (threads: 1). Each is run with
two steps and with N + 2, a process's figures are the difference by N, so that keys, handshakes and the opening do not
count. Interleaved, medians over rounds; JSON lines. Addresses are 127/8 of this process's number.
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time

FIRST = 2 # steps that both runs have
TEXT = ('three parties train together, and none of them sees. ' * 400)[:20000]
MODEL = {'layers': 2, 'dim': 16, 'heads': 2, 'context': 8, 'batch': 8, 'truncation': 'ars', 'index': 'exact'}


def measure(command, directory):
    """Starts all, waits for all: seconds, CPU seconds, the greatest resident memory, threads of each at most."""
    began = time.monotonic()
    running = [subprocess.Popen(words, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for words in command]
    threads = [0] * len(running)
    cpu, memory = [], []
    for i, process in enumerate(running):
        while True:
            pid, status, used = os.wait4(process.pid, os.WNOHANG)
            for k, other in enumerate(running):
                try:
                    threads[k] = max(threads[k], len(os.listdir(f'/proc/{other.pid}/task')))
                except OSError:
                    pass
            if pid != 0:
                break
            time.sleep(0.02)
        process.returncode = os.waitstatus_to_exitcode(status)
        cpu.append(used.ru_utime + used.ru_stime)
        memory.append(used.ru_maxrss * 1024)
    for process in running:
        said = process.stderr.read().decode()
        if process.returncode != 0:
            raise SystemExit(f'exit {process.returncode}: {said}')
    return time.monotonic() - began, cpu, memory, threads


def words_of(options):
    return [word for name, value in options.items() for word in (f'--{name.replace("_", "-")}', str(value))]


def one_process(uvcc, directory, split, steps):
    words = [uvcc, 'train', '--model', 'transformer', '--text', 't.txt', '--compute', 'threads', *words_of(MODEL), '--steps',
             str(steps), '--replicas', str(split[0]), '--stages', str(split[1]), '--tensor', str(split[2]), '--json', 'one.json']
    figures = measure([words], directory)
    return figures, read_hash(f'{directory}/one.json')


def read_hash(path):
    with open(path) as f:
        return json.load(f)['weights_sha256']


def parties(uvcc, directory, split, steps, every):
    """A new job: stores of their own."""
    with tempfile.TemporaryDirectory(dir=directory) as d:
        public = [subprocess.run([uvcc, 'keygen', '--out', f'{d}/identity-{p}.key'], check=True, stdout=subprocess.PIPE,
                                 text=True).stdout.strip() for p in range(3)]
        pid = os.getpid()
        hosts = [f'tcp:127.{pid >> 14 & 255}.{pid >> 6 & 255}.{(pid << 2 | p + 1) & 255}' for p in range(3)]
        for p in range(3):
            config = {'job': {'name': 'bench', 'replicas': split[0], 'stages': split[1], 'tensor_ranks': split[2],
                              'checkpoint_every': every,
                              'run': {'kind': 'transformer', 'text_bytes': len(TEXT), 'steps': steps, **MODEL}},
                      'party': p, 'parties': [{'address': hosts[q], 'key': public[q]} for q in range(3)],
                      'identity': f'identity-{p}.key', 'store': f'store-{p}', 'threads': 1}
            if p == 0:
                config['data'] = {'text': '../t.txt'}
            with open(f'{d}/party-{p}.json', 'w') as f:
                json.dump(config, f)
        commands = [[uvcc, 'party', '--config', f'party-{p}.json', '--json', f'{p}.json'] for p in range(3)]
        figures = measure(commands, d)
        return figures, read_hash(f'{d}/0.json')


def difference(long, short, steps):
    """Of two runs, by step; memory and threads are of the long one."""
    return {'s_per_step': (long[0] - short[0]) / steps, 'cpu_s_per_step': (sum(long[1]) - sum(short[1])) / steps,
            'memory_bytes': max(long[2]), 'threads': max(long[3])}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--rounds', type=int, default=3)
    ap.add_argument('--steps', type=int, default=4)
    ap.add_argument('--splits', nargs='*', default=['1x1x1', '2x1x1', '2x2x2'])
    a = ap.parse_args()
    a.uvcc = os.path.abspath(a.uvcc)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ways = {'one process': lambda d, split, steps: one_process(a.uvcc, d, split, steps),
            'three processes, checkpoint_every 0': lambda d, split, steps: parties(a.uvcc, d, split, steps, 0),
            'three processes, checkpoint_every 1': lambda d, split, steps: parties(a.uvcc, d, split, steps, 1)}
    with tempfile.TemporaryDirectory() as directory:
        with open(f'{directory}/t.txt', 'w') as f:
            f.write(TEXT)
        for text in a.splits:
            split = [int(n) for n in text.split('x')]
            found, hashes = {name: [] for name in ways}, set()
            for _ in range(a.rounds):
                for name, run in ways.items():
                    short, _ = run(directory, split, FIRST)
                    long, weights = run(directory, split, FIRST + a.steps)
                    found[name].append(difference(long, short, a.steps))
                    hashes.add(weights)
            if len(hashes) != 1:
                raise SystemExit(f'the weights are not the same: {hashes}')
            for name, runs in found.items():
                line = {'bench': 'party', 'split': text, 'what': name, 'rounds': a.rounds}
                line.update({key: round(statistics.median(run[key] for run in runs), 4) for key in runs[0]})
                print(json.dumps(line), flush=True)


main()
