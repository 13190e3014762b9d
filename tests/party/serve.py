#!/usr/bin/env python3
"""Clients of three processes of `uvcc party`: what they get is what the network of the weights says, to the bit.

serve.py --uvcc TOOL --odd PROGRAM [CASE...]
"""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

from infer import drawn, forgotten, memory_has
from job import Service, WAIT_S, address, changed

FEATURES, HIDDEN, CLASSES, FRAC, ROWS, SCALE = 6, 5, 3, 12, 4, 2
RUN = {'kind': 'serve', 'features': FEATURES, 'classes': CLASSES, 'hidden': [HIDDEN], 'frac_bits': FRAC, 'rows': ROWS}


class Model:
    """Weights, and what the network gives, in whole numbers."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.w = [[[rng.randrange(-5000, 5000) for _ in range(cols)] for _ in range(rows)]
                  for rows, cols in ((FEATURES, HIDDEN), (HIDDEN, CLASSES))]
        self.b = [[rng.randrange(-2000, 2000) for _ in range(cols)] for cols in (HIDDEN, CLASSES)]

    def write(self, path):
        with open(path, 'wb') as f:
            for w, b in zip(self.w, self.b):
                for row in (*w, b):
                    for v in row:
                        f.write(v.to_bytes(8, 'little', signed=True))

    def predict(self, row):
        for layer in range(2):
            columns = range(len(self.b[layer]))
            row = [(sum(x * self.w[layer][i][j] for i, x in enumerate(row)) >> FRAC) + self.b[layer][j] for j in columns]
            if layer == 0:
                row = [max(0, v) for v in row]
        return row


class Perceptron(Service):
    """The three parties, and clients."""

    def __init__(self, uvcc, directory, clients=('alice', 'bob'), wait_s=2, **limits):
        self.uvcc, self.directory = os.path.abspath(uvcc), directory
        self.model = Model(7)
        self.model.write(f'{directory}/weights.bin')
        self.client_key = {name: self.keygen(f'{name}.key') for name in clients}
        known = [{'name': name, 'key': key} for name, key in self.client_key.items()]
        changes = {p: {'clients': {'listen': f'unix:clients-{p}.sock', 'list': known, 'wait_s': wait_s, **limits}}
                   for p in range(3)}
        super().__init__(uvcc, directory, RUN, 'unix', {0: {'weights': 'weights.bin'}}, {'name': 'a service'}, changes)
        self.public = [self.keygen(f'identity-{p}.key') for p in range(3)]

    def client_config(self, name, **changes):
        config = {'job': 'a service', 'identity': f'{name}.key', 'features': FEATURES, 'classes': CLASSES, 'rows': ROWS,
                  'frac_bits': FRAC, 'scale': SCALE,
                  'parties': [{'address': f'unix:clients-{p}.sock', 'key': self.public[p]} for p in range(3)], **changes}
        with open(f'{self.directory}/{name}.json', 'w') as f:
            json.dump(config, f)

    def keep(self, name, text):
        """A file, written over where it is there: other processes may have it."""
        with open(f'{self.directory}/{name}', 'w') as f:
            f.write(text)

    def ask(self, name, rows, *more, config=None, under=()):
        """A client that asks: its process."""
        self.client_config(name, **(config or {}))
        path = f'{name}-{len(self.clients)}'
        with open(f'{self.directory}/{path}.csv', 'w') as f:
            f.writelines(','.join(str(v * SCALE / 2**FRAC) for v in row) + '\n' for row in rows)
        return self.run_client([*under, self.uvcc, 'client', '--config', f'{name}.json', '--input', f'{path}.csv', '--patience',
                                str(int(WAIT_S)), *more])

    def run_client(self, command):
        """What it says goes into files: nobody reads while it runs."""
        path = f'{self.directory}/client-{len(self.clients)}'
        with open(f'{path}.out', 'w') as out, open(f'{path}.err', 'w') as err:
            process = subprocess.Popen(command, cwd=self.directory, stdout=out, stderr=err)
        process.said = path
        self.clients.append(process)
        return process

    def says(self, process, words):
        """It says so, sooner or later."""
        self.wait(lambda: words in read(f'{process.said}.err') or process.poll() is not None, f'a client says: {words}')
        assert words in read(f'{process.said}.err'), read(f'{process.said}.err')

    def answered(self, process, rows):
        """It got what the model makes of the rows."""
        status, out, err = self.ended(process)
        assert status == 0, (status, err)
        lines = out.splitlines()[1:]
        assert len(lines) == len(rows), (out, err)
        for line, row in zip(lines, rows):
            numbers = line.split(',')
            want = self.model.predict(row)
            assert [float(v) * 2**FRAC for v in numbers[1:]] == want, (line, want)
            assert int(numbers[0]) == want.index(max(want)), line

    def ended(self, process):
        """Its status and what it said; the parties are heard meanwhile, so that none stands still for a full pipe."""
        self.wait(lambda: process.poll() is not None, 'a client ends')
        return process.returncode, read(f'{process.said}.out'), read(f'{process.said}.err')


def read(path):
    with open(path) as f:
        return f.read()


def rows_of(seed, count):
    rng = random.Random(seed)
    return [[rng.randrange(-2**FRAC, 2**FRAC) for _ in range(FEATURES)] for _ in range(count)]


def one(s):
    """One client, one request of one row."""
    s.start_all()
    rows = rows_of(1, 1)
    s.answered(s.ask('alice', rows), rows)
    s.stop()


def several(s):
    """Two clients at a time, each with more rows than a request takes."""
    s.start_all()
    asked = [(s.ask(name, rows), rows) for name, rows in (('alice', rows_of(2, 9)), ('bob', rows_of(3, 6)))]
    for process, rows in asked:
        s.answered(process, rows)
    assert all('client' not in process.err for process in s.parties), s.show()
    s.stop()


def page_of(s, p):
    """What `uvcc status` shows."""
    return subprocess.run([s.uvcc, 'status', f'unix:{s.directory}/page-{p}'], check=True, stdout=subprocess.PIPE, text=True).stdout


def idle(s):
    """A request that comes after a while in which nobody asked is served. Nobody complains of the wait for it, or counts it."""
    for p in range(3):
        s.config[p]['status'] = f'unix:{s.directory}/page-{p}'
        s.write(p)
    s.start_all()
    rows = rows_of(13, 1)
    for _ in range(2):
        s.answered(s.ask('alice', rows), rows)
        s.wait(lambda: all('waited for' not in page_of(s, p) for p in range(3)), 'all rest')
        waited = [re.search('waited [0-9.]+ s for peers', page_of(s, p))[0] for p in range(3)]
        end = time.monotonic() + 4
        while time.monotonic() < end:
            s.hear(0.2)
        for p in range(3):
            page = page_of(s, p)
            assert waited[p] in page and 'waited for' not in page, (waited, page)
    s.answered(s.ask('bob', rows), rows)
    assert all('waiting for' not in process.err for process in s.parties), s.show()
    s.stop()


def audited(s):
    """Evidence of what was served, and a page that says how much: an auditor finds the three in agreement."""
    for p in range(3):
        s.config[p].update({'audit': 'evidence-' + str(p), 'status': f'unix:{s.directory}/page-{p}'})
        s.write(p)
    s.start_all()
    rows = rows_of(12, 6)
    s.answered(s.ask('alice', rows), rows)
    page = page_of(s, 1)
    assert '2 served' in page and ' of 0 steps' not in page, page
    s.stop()
    whole = f'{s.directory}/evidence-0'
    for p in (1, 2):
        shutil.copytree(f'{s.directory}/evidence-{p}/party-{p}', f'{whole}/party-{p}')
    checked = subprocess.run([s.uvcc, 'audit', 'verify', whole, '--unfinished'], stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True)
    assert checked.returncode == 0, checked.stdout


def unlisted(s):
    """Who is in nobody's list is told what may be wrong; a key that is not the party's is named; others are served."""
    s.start_all()
    s.keygen('mallory.key')
    rows = rows_of(4, 1)
    stranger = s.ask('mallory', rows)
    s.answered(s.ask('alice', rows), rows)
    s.says(stranger, 'party 2 (unix:clients-2.sock) takes no calls of this client')
    keys = [s.public[0], s.client_key['bob'], s.public[2]]
    parties = [{'address': f'unix:clients-{p}.sock', 'key': key} for p, key in enumerate(keys)]
    s.says(s.ask('bob', rows, config={'parties': parties}), 'party 1 proves another key than parties[1].key')
    stranger.kill()
    stranger.wait() # two of them would wait for each other
    status, out, err = s.ended(s.ask('mallory', rows, '--patience', '1'))
    assert status == 75 and out == '' and 'no answer after 1 s' in err, (status, out, err)
    s.stop()


def refused(s):
    """Another shape than the model's is refused, and what to compare is said."""
    s.start_all()
    for name, value in (('classes', CLASSES + 1), ('frac_bits', FRAC + 1), ('rows', ROWS + 1)):
        wrong = {name: value}
        status, out, err = s.ended(s.ask('alice', rows_of(5, ROWS + 1), config=wrong))
        assert status == 2 and f' the request: {name} of alice.json is another one' in err, (wrong, status, out, err)
        s.wait(lambda: any(f'client alice: refused, its run is another one than job.run: {name}\n' in p.err for p in s.parties),
               f'a party says that {name} is another one')
    s.stop()


def killed_client(s):
    """A client that dies in the middle leaves the others served, and is served when it comes again."""
    s.start_all()
    rows = rows_of(6, 40)
    first = s.ask('alice', rows)
    s.wait(lambda: any('served' in p.err for p in s.parties) or first.poll() is not None, 'something is served')
    first.kill()
    first.wait() # the lock of its identity goes with it
    asked = [(s.ask(name, rows), rows) for name in ('alice', 'bob')]
    for process, rows in asked:
        s.answered(process, rows)
    s.stop()


def killed_party(s):
    """Parties die in the middle of their work, and come again: each request is answered in the end, right. The step after
    which one dies may be that of a request, which the others have then answered and it has not: its client asks anew."""
    deaths = [[6, 11, 8], [14, 9], [25]]
    rows, asked = rows_of(8, 40), []
    for p in range(3):
        s.start(p, '--die-after-step', str(deaths[p].pop(0)))
    asked = [s.ask(name, rows) for name in ('alice', 'bob')]
    died = 0
    while any(process.poll() is None for process in asked):
        s.wait(lambda: any(not s.alive(p) for p in range(3)) or all(process.poll() is not None for process in asked),
               'a party dies or all is answered')
        for p in range(3):
            if not s.alive(p):
                assert s.parties[p].ended == -9, s.parties[p].ended
                died += 1
                s.start(p, *(['--die-after-step', str(deaths[p].pop(0))] if deaths[p] else []))
    for process in asked:
        s.answered(process, rows)
    assert died >= 4, died


def away(s):
    """A party that is not there is named; the same client is answered when it comes. A second one of its identity is sent away
    meanwhile."""
    s.start(0)
    s.start(1)
    rows = rows_of(9, 2)
    waiting = s.ask('alice', rows)
    hasty = s.ask('bob', rows, '--patience', '6')
    s.says(waiting, 'party 2 is not connected')
    status, out, err = s.ended(s.ask('alice', rows))
    assert status == 75 and out == '' and 'identity: another uvcc client asks with alice.key now' in err, (status, out, err)
    status, out, err = s.ended(hasty)
    assert status == 75 and out == '' and 'party 2 is not connected' in err, (status, out, err)
    s.start(2)
    s.answered(waiting, rows)
    s.answered(s.ask('bob', rows), rows)
    s.stop()


# A file system of its own, in which names are what the file `hosts` says, and nobody else is asked.
OWN_NAMES = ['unshare', '-rm', 'sh', '-c', 'mount --bind hosts /etc/hosts && mount --bind nsswitch.conf /etc/nsswitch.conf'
             ' && exec "$@"', 'sh']


def unknown_name(s):
    """A name that nobody knows is as a party that is away: it is looked up again, by clients and by parties."""
    s.keep('nsswitch.conf', 'hosts: files\n')
    s.keep('hosts', '')
    if subprocess.run([*OWN_NAMES, 'true'], cwd=s.directory, check=False).returncode != 0:
        print('unknown_name: namespaces are not allowed here, so nothing was tried')
        return
    host = address('tcp', 0).removeprefix('tcp:')
    s.config[0]['clients']['listen'] = f'tcp:{host}'
    s.config[0]['listen'] = f'tcp:{host}'
    for p in range(3):
        s.config[p]['parties'][0]['address'] = 'tcp:party-0.example'
        s.write(p)
        s.parties[p].command = [*OWN_NAMES, *s.parties[p].command]
    s.start_all()
    for p in (1, 2):
        s.wait(lambda: 'tcp:party-0.example:7100: Name or service not known; trying again' in s.parties[p].err, 'no name')
    parties = [{'address': f'unix:clients-{p}.sock', 'key': key} for p, key in enumerate(s.public)]
    parties[0]['address'] = 'tcp:party-0.example'
    rows = rows_of(14, 2)
    process = s.ask('alice', rows, config={'parties': parties}, under=OWN_NAMES)
    s.says(process, 'party 0 is not connected (tcp:party-0.example:7200: Name or service not known)')
    hasty = s.ask('bob', rows, '--patience', '1', config={'parties': parties}, under=OWN_NAMES)
    status, out, err = s.ended(hasty)
    assert status == 75 and out == '' and 'tcp:party-0.example:7200: Name or service' in err, (status, out, err)
    s.keep('hosts', f'{host} party-0.example\n')
    s.answered(process, rows)
    s.stop()


def odd(s, name, how):
    s.client_config(name)
    return s.run_client([s.odd_client, f'{name}.json', how])


def mismatch(s):
    """A client that gives one party other shares than the others gets no answer, and is told so by all three."""
    s.start_all()
    status, out, err = s.ended(odd(s, 'alice', 'differ'))
    assert (status, out) == (0, '3 3 3\n'), (status, out, err)
    rows = rows_of(10, 5)
    s.answered(s.ask('alice', rows), rows)
    s.stop()


def old(s):
    """A request of another version gets no answer, and the party says whose it was: once, whatever else comes."""
    s.start_all()
    status, out, err = s.ended(odd(s, 'alice', 'old'))
    assert status == 0, (status, out, err)
    said = 'client alice: service: a request of another version'
    s.wait(lambda: said in s.parties[0].err, 'a party says that a request is of another version')
    rows = rows_of(12, 2)
    s.answered(s.ask('alice', rows), rows)
    assert s.parties[0].err.count('client alice: service:') == 1, s.parties[0].err
    s.stop()


# Of a request of a row: behind its id and three salts two components, which are drawn.
COMPONENTS = [(112, 8 * FEATURES), (112 + 8 * FEATURES, 8 * FEATURES)]


def forgets(s):
    """Shares of a request that is over are in the memory of no party, though nobody asks anything else; of one that waits they are."""
    s.start_all()
    for _ in range(2):
        status, out, err = s.ended(odd(s, 'alice', 'known'))
        assert (status, out) == (0, '0 0 0\n'), (status, out, err)
        forgotten(s, int(err), COMPONENTS)
    status, out, err = s.ended(odd(s, 'alice', 'alone'))
    assert status == 0, (status, out, err)
    waiting = [drawn(int(err), *COMPONENTS[0])]
    s.wait(lambda: memory_has(s.parties[0].process, waiting) is not False, 'a request that waits is in memory')
    s.stop()


def session_bytes(s):
    """What each party's session has, as its page says."""
    pages = [subprocess.run([s.uvcc, 'status', f'unix:{s.directory}/page-{p}', '--json'], check=True, stdout=subprocess.PIPE).stdout
             for p in range(3)]
    return [json.loads(page)['memory']['bytes'] for page in pages]


def trims(s):
    """Memory that steps took goes back when nobody asks: a session has then as much after each request, and as its peers."""
    for p in range(3):
        s.config[p]['status'] = f'unix:{s.directory}/page-{p}'
        s.write(p)
    s.start_all()
    seen = set()

    def as_before():
        now = set(session_bytes(s))
        if len(seen | now) != 1:
            return False
        seen.update(now)
        return True

    for seed, count in ((15, ROWS), (16, 1), (17, ROWS)):
        rows = rows_of(seed, count)
        s.answered(s.ask('alice', rows), rows)
        s.wait(as_before, 'sessions have what they had after the request before')
    s.stop()


def stuck(s):
    """A request that one party alone has holds up nobody else, and its own client until it is dropped."""
    s.start_all()
    status, out, err = s.ended(odd(s, 'alice', 'alone'))
    assert status == 0, (status, out, err)
    rows = rows_of(11, 9)
    s.answered(s.ask('bob', rows), rows)
    process = s.ask('alice', rows)
    s.answered(process, rows)
    s.stop()


def wrong_party(s):
    """What is wrong in a party's file is named with its place."""
    wrong = [
        (['clients'], None, 'clients is missing'),
        (['clients', 'listen'], None, 'clients.listen: is missing'),
        (['clients', 'listen'], 'udp:localhost:1', 'clients.listen: give tcp:HOST:PORT or unix:PATH'),
        (['clients', 'list'], [], 'clients.list: give a list'),
        (['clients', 'list', 0], {'name': 'x'}, 'clients.list[0]: give'),
        (['clients', 'list', 0, 'key'], 'abc', 'clients.list[0].key: is no public key'),
        (['clients', 'list', 0, 'key'], 64 * '0', 'clients.list[0].key: is no public key'),
        (['clients', 'list', 1, 'key'], s.client_key['alice'], "clients.list[1].key: is another client's too"),
        (['clients', 'list', 1, 'key'], s.public[2], 'clients.list[1].key: is the key of a party'),
        (['clients', 'list', 1, 'age'], 7, 'clients.list[1].age'),
        (['clients', 'waiting'], 0, 'clients.waiting'),
        (['clients', 'wait_s'], 'long', 'clients.wait_s'),
        (['clients', 'size'], 1, 'clients.size'),
        (['job', 'checkpoint_every'], 3, 'job.checkpoint_every: a job that serves keeps no checkpoints'),
        (['job', 'replicas'], 2, 'one worker for each party'),
        (['job', 'run', 'features'], None, 'job.run.features is missing'),
        (['job', 'run', 'classes'], None, 'job.run.classes is missing'),
        (['job', 'run', 'hidden'], [HIDDEN + 1], 'data.weights: '),
        (['job', 'run', 'rows'], 0, 'job.run.rows'),
        (['job', 'run', 'frac_bits'], 4, 'job.run.frac_bits that of the training'),
        (['data'], None, 'data.weights is missing'),
        (['data', 'weights'], 'none.bin', 'none.bin'),
        (['data', 'file'], 'x', 'data.file'),
        (['job', 'run', 'weights_owner'], 1, "the weights are another party's"),
        (['output'], {'weights': 'x'}, 'output: a job that serves writes none'),
        (['job', 'run'], {'kind': 'mlp', 'rows': 10, 'features': 2, 'classes': 2}, None),
    ]
    good = s.config[0]
    for path, value, words in wrong:
        s.config[0] = changed(good, path, value)
        s.write(0)
        checked = subprocess.run([s.uvcc, 'party', '--check', '--config', 'party-0.json'], cwd=s.directory,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert checked.returncode == 2 and (words is None or words in checked.stderr), (path, value, checked)
    s.config[0] = good
    s.write(0)
    checked = subprocess.run([s.uvcc, 'party', '--check', '--config', 'party-0.json'], cwd=s.directory, check=True,
                             stdout=subprocess.PIPE, text=True)
    assert 'clients          2, they call at unix:clients-0.sock; 256 MiB at most' in checked.stdout, checked
    planned = subprocess.run([s.uvcc, 'plan', '--config', 'party-0.json'], cwd=s.directory, check=True,
                             stdout=subprocess.PIPE, text=True).stdout
    assert all(f'\n{entry} ' in planned for entry in ('weights', 'choose', 'serve')), planned
    made = subprocess.run([s.uvcc, 'triples', 'make', '--config', 'party-0.json'], cwd=s.directory,
                          stderr=subprocess.PIPE, text=True)
    assert made.returncode == 2 and 'job that serves' in made.stderr, made


def wrong_client(s):
    """What is wrong in a client's file, rows or options is named with its place, and nobody is called."""
    s.client_config('alice')
    with open(f'{s.directory}/alice.json') as f:
        good = json.load(f)
    with open(f'{s.directory}/rows.csv', 'w') as f:
        f.write(','.join('1' for _ in range(FEATURES)) + '\n')
    wrong = [
        (['job'], None, 'job is missing'),
        (['identity'], None, 'identity is missing'),
        (['identity'], 'none.key', 'identity: '),
        (['features'], None, 'features is missing'),
        (['classes'], None, 'classes is missing'),
        (['features'], FEATURES + 1, 'rows.csv'),
        (['rows'], 0, 'rows'),
        (['frac_bits'], 60, 'frac_bits'),
        (['scale'], 0, 'scale: give a number above 0'),
        (['scale'], 0.001, 'rows.csv:1:1: this value, divided by scale'),
        (['suite'], 'rot13', 'suite'),
        (['party'], 0, 'party'),
        (['parties'], [], 'parties: give a list of three'),
        (['parties', 1, 'key'], None, 'parties[1].key is missing'),
        (['parties', 1, 'key'], 'abc', 'parties[1].key: is no public key'),
        (['parties', 1, 'key'], '@none.pub', 'parties[1].key: none.pub: '),
        (['parties', 2, 'address'], 'here', 'parties[2].address'),
        (['parties', 2, 'address'], 'tcp:localhost:many', 'parties[2].address: tcp:localhost:many: '),
        (['parties'], [{**p, 'address': 'udp:localhost:7000'} for p in good['parties']], 'clients call by tcp: or unix:'),
    ]

    def refuses(words, *options):
        asked = subprocess.run([s.uvcc, 'client', *options], cwd=s.directory, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        assert asked.returncode == 2 and words in asked.stderr and asked.stdout == '', (words, options, asked)

    for path, value, words in wrong:
        with open(f'{s.directory}/wrong.json', 'w') as f:
            json.dump(changed(good, path, value), f)
        refuses(words, '--config', 'wrong.json', '--input', 'rows.csv')
    refuses('--config FILE is missing', '--input', 'rows.csv')
    refuses('--input FILE is missing', '--config', 'alice.json')
    refuses('none.csv', '--config', 'alice.json', '--input', 'none.csv')
    refuses('none.json', '--config', 'none.json', '--input', 'rows.csv')
    refuses('--patience', '--config', 'alice.json', '--input', 'rows.csv', '--patience', '0')
    refuses('--output', '--config', 'alice.json', '--input', 'rows.csv', '--output', 'no/where/x.csv')
    os.symlink('rows.csv', f'{s.directory}/link.csv')
    for path, of in (('rows.csv', '--input'), ('./link.csv', '--input'), ('alice.json', '--config'), ('alice.key', 'identity')):
        refuses(f'--output {path}: is the file of {of}', '--config', 'alice.json', '--input', 'rows.csv', '--output', path)
    one = ','.join('1' for _ in range(FEATURES))
    for text, words in ((f'{one},1\n', f'bad.csv:1: {FEATURES + 1} columns; give the {FEATURES} of the model'),
                        (f'{one}\n{one},1\n', f'bad.csv:2:{FEATURES + 1}: '),
                        (f'nan{one[1:]}\n', "'nan' is not a finite number"), ('', 'give rows of numbers'),
                        ('a,b,c,d,e,f\n', 'no rows follow the header; give rows of numbers')):
        with open(f'{s.directory}/bad.csv', 'w') as f:
            f.write(text)
        refuses(words, '--config', 'alice.json', '--input', 'bad.csv')


CASES = [wrong_party, wrong_client, one, several, idle, audited, unlisted, refused, killed_client, killed_party, away, unknown_name, mismatch,
         old, forgets, trims, stuck]
LIMITS = {'stuck': {'waiting': 1}}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--odd', type=os.path.abspath)
    ap.add_argument('case', nargs='*')
    a = ap.parse_args()
    failed = []
    for test in CASES:
        if a.case and test.__name__ not in a.case:
            continue
        directory, service = tempfile.mkdtemp(), None
        try:
            service = Perceptron(a.uvcc, directory, **LIMITS.get(test.__name__, {}))
            service.odd_client = a.odd
            test(service)
            print(f'{test.__name__}: as it should be', flush=True)
        except (AssertionError, SystemExit):
            traceback.print_exc(file=sys.stdout)
            service.show()
            failed.append(test.__name__)
        finally:
            service.end()
            shutil.rmtree(directory)
    if failed:
        print('failed:', *failed)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
