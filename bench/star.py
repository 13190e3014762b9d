#!/usr/bin/env python3
"""bench "star": a step of a job between three machines that are far apart, beside what `uvcc plan` says of it.

star.py --uvcc TOOL --star uvcc-star --data DIGITS.csv [--jobs mlp transformer small] [--over tcp udp] [--mbit N] [--rtt MS]
        [--loss P] [--steps N]

The machines are network namespaces whose lines are uvcc-star: the kernel's TCP and UDP, on real clocks (root). A step's time
is the median of those between two lines "step_finished" of party 0's log, without the first two. Computing is in it, and not in
the plan: `idle_s` is what the same job takes by step without a network between, three processes over 127/8, so
`of_plan_and_idle` is a sum that is too much where the two overlap. JSON lines; `late_mean_ms` is how late the lines themselves were:
where that is not far below a millisecond the machine was too busy.
"""
import argparse
import datetime
import json
import os
import shlex
import statistics
import subprocess
import tempfile

TEXT = ('three parties train together, and none of them sees. ' * 400)[:20000]
MLP = {'kind': 'mlp', 'rows': 1797, 'features': 64, 'classes': 10, 'hidden': [16], 'batch': 32, 'epochs': 1}
TRANSFORMER = {'kind': 'transformer', 'layers': 2, 'dim': 16, 'heads': 2, 'context': 8, 'batch': 8, 'truncation': 'ars',
               'index': 'exact', 'text_bytes': len(TEXT)}
SMALL = {**TRANSFORMER, 'dim': 8, 'context': 4, 'batch': 4}
JOBS = {'mlp': MLP, 'transformer': TRANSFORMER, 'small': SMALL}
SKIPPED = 77


def job_of(a, name):
    run = {**JOBS[name], **({} if name == 'mlp' else {'steps': a.steps})}
    return {'name': 'bench', 'checkpoint_every': 0, 'run': run}


def write(a, directory, name, hosts, port):
    public = [subprocess.run([a.uvcc, 'keygen', '--out', f'{directory}/identity-{p}.key'], check=True, stdout=subprocess.PIPE,
                             text=True).stdout.strip() for p in range(3)]
    for p in range(3):
        config = {'job': job_of(a, name), 'party': p,
                  'parties': [{'address': hosts[q] + port, 'key': public[q]} for q in range(3)],
                  'identity': f'identity-{p}.key', 'store': f'store-{p}', 'threads': 1,
                  'log': {'file': f'log-{p}.jsonl', 'format': 'json', 'rate': 0}}
        if name == 'mlp' and p < 2:
            config['data'] = {'file': os.path.abspath(a.data)}
        elif name != 'mlp' and p == 0:
            config['data'] = {'text': f'{directory}/t.txt'}
        with open(f'{directory}/party-{p}.json', 'w') as f:
            json.dump(config, f)
    with open(f'{directory}/t.txt', 'w') as f:
        f.write(TEXT)


def command(a, directory, p):
    return [a.uvcc, 'party', '--config', f'{directory}/party-{p}.json', '--json', f'{directory}/{p}.json']


def step_time(directory):
    """Of the steps that most are alike: the others are the job's end."""
    at = []
    with open(f'{directory}/log-0.jsonl') as f:
        for line in f:
            line = json.loads(line)
            if line['event'] == 'step_finished':
                at.append(datetime.datetime.fromisoformat(line['time'].replace('Z', '+00:00')).timestamp())
    return statistics.median(b - a for a, b in list(zip(at, at[1:]))[1:-1])


def far(a, name, over):
    """Over the star; None: it is not allowed here."""
    with tempfile.TemporaryDirectory() as d:
        write(a, d, name, [f'{over}:10.78.0.{q + 1}' for q in range(3)], ':7100')
        commands = [shlex.join(command(a, d, p)) + ' >/dev/null 2>&1' for p in range(3)]
        star = subprocess.run([a.star, '--rate', str(a.mbit * 125000), '--delay', str(a.rtt / 2), '--loss', str(a.loss),
                               *commands], stderr=subprocess.PIPE, text=True)
        if star.returncode == SKIPPED:
            return None
        if star.returncode != 0:
            raise SystemExit(f'exit {star.returncode}: {star.stderr}')
        plan = subprocess.run([a.uvcc, 'plan', '--config', f'{d}/party-0.json', '--mbit', str(a.mbit), '--rtt', str(a.rtt),
                               '--json', '-'], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        entry = max(json.loads(plan.stdout)['entries'], key=lambda e: e['steps'])
        return step_time(d), entry, json.loads(star.stderr)


def near(a, name):
    with tempfile.TemporaryDirectory() as d:
        pid = os.getpid()
        write(a, d, name, [f'tcp:127.{pid >> 14 & 255}.{pid >> 6 & 255}.{(pid << 2 | q + 1) & 255}' for q in range(3)], ':7100')
        running = [subprocess.Popen(command(a, d, p), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for p in range(3)]
        if [process.wait() for process in running] != [0, 0, 0]:
            raise SystemExit('a party failed')
        return step_time(d)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--star', required=True)
    ap.add_argument('--data', required=True)
    ap.add_argument('--jobs', nargs='*', choices=JOBS, default=['mlp', 'transformer'])
    ap.add_argument('--over', nargs='*', default=['tcp', 'udp'])
    ap.add_argument('--mbit', type=float, default=1000)
    ap.add_argument('--rtt', type=float, default=20)
    ap.add_argument('--loss', type=float, default=0)
    ap.add_argument('--steps', type=int, default=6)
    a = ap.parse_args()
    a.uvcc, a.star = os.path.abspath(a.uvcc), os.path.abspath(a.star)
    for name in a.jobs:
        idle = near(a, name)
        for over in a.over:
            found = far(a, name, over)
            if found is None:
                print('{"bench": "star", "skipped": "network namespaces and /dev/net/tun are needed"}')
                return
            took, entry, lines = found
            print(json.dumps({'bench': 'star', 'job': name, 'over': over, 'mbit': a.mbit, 'rtt_ms': a.rtt, 'loss': a.loss,
                              's_per_step': round(took, 4), 'planned_s': round(entry['step_s'], 4),
                              'of_plan': round(took / entry['step_s'], 3), 'idle_s': round(idle, 4),
                              'of_plan_and_idle': round(took / (entry['step_s'] + idle), 3), 'rounds': entry['rounds'],
                              'lost': lines['lost'], 'overflowed': lines['overflowed'],
                              'late_mean_ms': lines['late_mean_ms']}), flush=True)


main()
