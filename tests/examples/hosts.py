#!/usr/bin/env python3
"""Three hosts of examples/ as three processes: they open what `uvcc train` opens over loopback.

hosts.py --uvcc TOOL --data FILE --over tcp|unix|udp|openssl|mbedtls [--backend B]
         [--job relu|mlp] [--kill P@STEP,...] HOST [HOST HOST]

HOST: programs of parties 0, 1 and 2, or one for all. --kill: party P gets SIGKILL when it has said
that STEP is over, and starts again at once with the same options. Exit 77: something is not built.
"""
import argparse
import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time

WAIT_S = float(os.environ.get('UVCC_HOSTS_WAIT_S', 240)) # for the next line of anybody; slow machines, sanitizers
RELU = 'relu(X W) = 0 0.75 6.5 0'


def addresses(over, directory):
    """Nobody else's: a directory is new, and addresses of 127/8 are of this process's number."""
    if over == 'unix':
        return [f'unix:{directory}/{p}.sock' for p in range(3)]
    pid = os.getpid()
    kind = 'udp' if over == 'udp' else 'tcp'
    return [f'{kind}:127.{pid >> 14 & 255}.{pid >> 6 & 255}.{(pid << 2 | p + 1) & 255}:7100' for p in range(3)]


def keys(uvcc, directory, tls):
    public = []
    for p in range(3):
        os.mkdir(f'{directory}/keys-{p}')
        made = subprocess.run([uvcc, 'keygen', '--out', f'{directory}/keys-{p}/identity.key'],
                              check=True, stdout=subprocess.PIPE)
        public.append(made.stdout)
    for p in range(3):
        for q in range(3):
            with open(f'{directory}/keys-{p}/party-{q}.pub', 'wb') as f:
                f.write(public[q])
            if tls and q < p:
                subprocess.run([uvcc, 'keygen', '--pair', '--out', f'{directory}/keys-{p}/pair-{q}.key'],
                               check=True)
                shutil.copy(f'{directory}/keys-{p}/pair-{q}.key', f'{directory}/keys-{q}/pair-{p}.key')


class Party:
    def __init__(self, command, name):
        self.command, self.name, self.runs = command, name, 0
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.runs += 1
        self.out, self.said, self.errors = b'', [], b''

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()


class Job:
    def __init__(self, commands, kills):
        self.kills, self.failed = list(kills), False
        self.select = selectors.DefaultSelector()
        self.parties = []
        for p, command in enumerate(commands):
            self.parties.append(Party(command, f'party {p}'))
            self.watch(self.parties[p])

    def watch(self, party):
        self.select.register(party.process.stdout, selectors.EVENT_READ, (party, True))
        self.select.register(party.process.stderr, selectors.EVENT_READ, (party, False))

    def forget(self, party):
        for f in (party.process.stdout, party.process.stderr):
            if f in self.select.get_map():
                self.select.unregister(f)

    def restart(self, party):
        self.forget(party)
        party.kill()
        party.start()
        self.watch(party)

    def line(self, party, text):
        party.said.append(text)
        p = self.parties.index(party)
        for kill in self.kills:
            if kill[0] == p and text == f'step {kill[1]}':
                self.kills.remove(kill)
                self.restart(party)
                return

    def heard(self, key):
        party, out = key.data
        data = os.read(key.fd, 65536)
        if not data:
            self.select.unregister(key.fileobj)
            if out and party.process.wait() != 0: # the others would wait for it
                self.failed = True
        elif not out:
            party.errors += data
        else:
            party.out += data
            started = party.runs
            while b'\n' in party.out and party.runs == started:
                line, party.out = party.out.split(b'\n', 1)
                self.line(party, line.decode())

    def run(self):
        while self.select.get_map() and not self.failed:
            ready = self.select.select(WAIT_S)
            if not ready:
                self.failed = True
            for key, _ in ready:
                if key.fileobj in self.select.get_map(): # a party that was killed meanwhile is not
                    self.heard(key)

    def end(self):
        for party in self.parties:
            party.process.kill()
            party.process.wait()

    def show(self):
        for party in self.parties:
            print(f'--- {party.name}, start {party.runs}: {party.said[-3:]}')
            print(party.errors.decode(errors='replace')[-3000:])


def wanted(a):
    """The last line that everybody says."""
    if a.job == 'relu':
        return RELU
    report = subprocess.run([a.uvcc, 'train', '--data', a.data, '--hidden', '16', '--batch', '32', '--epochs', '1',
                             '--json', '-'], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return 'weights ' + json.loads(report.stdout)['weights_sha256']


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--data', required=True)
    ap.add_argument('--over', default='unix')
    ap.add_argument('--backend', default='auto')
    ap.add_argument('--job', default='mlp')
    ap.add_argument('--kill', default='')
    ap.add_argument('host', nargs='+')
    a = ap.parse_args()
    kills = [tuple(int(n) for n in k.split('@')) for k in a.kill.split(',') if k]
    tls = a.over if a.over in ('openssl', 'mbedtls') else None
    hosts = a.host * 3 if len(a.host) == 1 else a.host
    with tempfile.TemporaryDirectory() as directory:
        keys(a.uvcc, directory, tls)
        where = ','.join(addresses(a.over, directory))
        commands = [[hosts[p], '--party', str(p), '--addresses', where, '--keys', f'{directory}/keys-{p}',
                     '--store', f'{directory}/store-{p}', '--job', a.job, '--data', a.data,
                     '--backend', a.backend] + (['--tls', tls] if tls else []) for p in range(3)]
        before = time.monotonic()
        job = Job(commands, kills)
        try:
            job.run()
            codes = [party.process.poll() if job.failed else party.process.wait() for party in job.parties]
        finally:
            job.end()
        want = wanted(a)
        errors = [party.errors for party in job.parties]
        missing = [e for e in errors if b'--backend: ' in e or b'--tls: ' in e]
        if missing and job.failed:
            print(f'{a.over}, {a.backend}: {missing[0].decode().strip()}')
            return 77
        good = codes == [0, 0, 0] and not job.kills and not any(b'runtime error' in e for e in errors)
        for p, party in enumerate(job.parties):
            good = good and party.said[-1:] == [want] and party.runs == 1 + sum(k[0] == p for k in kills)
            if max((k[1] for k in kills), default=0) > 8: # a run that goes on, and not one that begins anew
                good = good and party.said[0].startswith('run ') and any(
                    s.startswith('run ') and not s.endswith(' step 0') for s in party.said)
        if not good:
            print(f'wanted: {want}; exit {codes}; kills that were not: {job.kills}')
            job.show()
            return 1
        print(f'{a.over}, {a.backend}: {want}, {time.monotonic() - before:.1f} s')
        return 0


if __name__ == '__main__':
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    sys.exit(main())
