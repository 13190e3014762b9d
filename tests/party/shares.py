#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Weights that their owner shared once, in files: three processes of `uvcc party` infer and serve with them, to the bit as with
weights that come with each run, and without the checkpoint; a file that is damaged, or is not this party's of this sharing, is
refused by what it is.

shares.py --uvcc TOOL --models DIR [CASE...]
"""
import argparse
import fcntl
import hashlib
import json
import os
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback

from job import Job, Service, WAIT_S, changed

IDS, TOKENS = '71,5,88,23,61,14,96,42', 8
NUMBERS = {'mode': 'exact', 'value_bits': 7, 'inner_bits': 7}
HEAD, PIECE, OWNER = 336, 65536, 1


def read_json(path):
    with open(path, encoding='utf-8') as f:
        return json.load(f)


class Shared(Service):
    """The three parties, whose weights are shared: made() makes the files, and data names them."""

    def __init__(self, a, directory, kind='infer', model='gpt2', **run):
        self.model, self.clients = f'{a.models}/{model}', []
        run = {'kind': kind, 'model': read_json(f'{self.model}/config.json'), 'tokens': TOKENS, 'gives': 'last', 'weights': 'shared',
               **NUMBERS, **run}
        data = {p: {'shares': f'shares/party-{p}.shares'} for p in range(3)}
        changes = {}
        if kind == 'serve':
            known = [{'name': name, 'key': subprocess.run([a.uvcc, 'keygen', '--out', f'{directory}/{name}.key'], check=True,
                                                          stdout=subprocess.PIPE, text=True).stdout.strip()} for name in ('alice', 'bob')]
            changes = {p: {'clients': {'listen': f'unix:clients-{p}.sock', 'list': known}} for p in range(3)}
        else:
            data[0]['ids'] = IDS
            changes[0] = {'output': {'answer': 'answer.json'}}
        super().__init__(a.uvcc, directory, run, 'unix', data, {'name': 'shared'}, changes)
        self.run_of = run

    def path(self, p, name='shares'):
        return f'{self.directory}/{name}/party-{p}.shares'

    def made(self, name='shares', **changes):
        """What `--share` says."""
        config = json.loads(json.dumps(self.config[OWNER]))
        config['data'] = {'model': self.model}
        config['job']['run'].update(changes)
        with open(f'{self.directory}/share.json', 'w', encoding='utf-8') as f:
            json.dump(config, f)
        return subprocess.run([self.uvcc, 'party', '--config', 'share.json', '--share', name], cwd=self.directory, check=True,
                              stdout=subprocess.PIPE, text=True).stdout

    def checked(self, p):
        """Status and words of --check."""
        done = subprocess.run([self.uvcc, 'party', '--config', f'party-{p}.json', '--check'], cwd=self.directory, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        return done.returncode, done.stderr

    def wanted(self, ids=IDS):
        numbers = [word for key, value in NUMBERS.items() for word in (f'--{key.replace("_", "-")}', str(value))]
        subprocess.run([self.uvcc, 'infer', '--model', self.model, '--ids', ids, '--gives', self.run_of['gives'], *numbers, '--output', 'want.json'],
                       cwd=self.directory, check=True, stdout=subprocess.DEVNULL)
        return read_json(f'{self.directory}/want.json')

    def asks(self, name='alice', ids=IDS, **run):
        """A client that has begun."""
        config = {'job': 'shared', 'identity': f'{name}.key', 'run': {**self.run_of, **run}, 'parties':
                  [{'address': f'unix:clients-{p}.sock', 'key': self.config[p]['parties'][p]['key']} for p in range(3)]}
        with open(f'{self.directory}/{name}.json', 'w', encoding='utf-8') as f:
            json.dump(config, f)
        client = subprocess.Popen([self.uvcc, 'client', '--config', f'{name}.json', '--ids', ids, '--output', f'{name}.answer.json',
                                   '--patience', str(int(WAIT_S))], cwd=self.directory)
        client.answer = f'{self.directory}/{name}.answer.json'
        self.clients.append(client)
        return client

    def told(self, client):
        while client.poll() is None:
            self.hear(0.05)
        assert client.returncode == 0, client.returncode
        return read_json(client.answer)

    def asked(self):
        """What a client is told."""
        return self.told(self.asks())


def weights_of(model):
    """Of a checkpoint without heads: positions beyond the tokens are no weights of a pass."""
    with open(f'{model}/model.safetensors', 'rb') as f:
        header = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
    sizes = {}
    for name, one in header.items():
        if name != '__metadata__':
            rows = TOKENS if name.endswith('wpe.weight') else None
            shape = ([rows] + one['shape'][1:]) if rows else one['shape']
            sizes[name] = 1
            for n in shape:
                sizes[name] *= n
    return sum(size for name, size in sizes.items() if not name.endswith(('.attn.bias', 'masked_bias', 'lm_head.weight')))


def infers(a, directory):
    """The answer of one process; each file's bytes: 8 a weight, or none; the files say nothing twice."""
    s = Shared(a, directory)
    try:
        said = s.made()
        sizes = [os.path.getsize(s.path(p)) for p in range(3)]
        words = weights_of(s.model)
        sealed = HEAD + 8 * words + 16 * -(-words // PIECE)
        assert sizes == [HEAD, sealed, sealed], (sizes, sealed)
        assert [line.split()[-2] for line in said.splitlines()] == [str(size) for size in sizes], said
        assert [os.stat(s.path(p)).st_mode & 0o777 for p in range(3)] == [0o600] * 3
        bodies = []
        for p in (1, 2):
            with open(s.path(p), 'rb') as f:
                bodies.append(f.read()[HEAD:])
        assert bodies[0] != bodies[1], 'the same component under the same key'
        codes = s.run()
        if codes != [0, 0, 0]:
            s.show()
        assert codes == [0, 0, 0], codes
        assert read_json(f'{directory}/answer.json') == s.wanted()
        s.made('again')
        with open(s.path(1), 'rb') as f, open(s.path(1, 'again'), 'rb') as g:
            assert hashlib.sha256(f.read()).digest() != hashlib.sha256(g.read()).digest(), 'two sharings are alike'
        print(f'{words} weights: files of {sizes} bytes')
    finally:
        s.end()


def streams(a, directory):
    """A layer's weights at a time, of every architecture: layers that are alike and layers of two windows, padding, all that stands
    before and behind them. A party is killed between two layers."""
    for model, gives, more in (('gpt2', 'logits', {}), ('gpt_neo', 'last', {}), ('llama', 'last', {}), ('bert', 'pooled', {}),
                               ('bert_labels', 'labels', {'padding': True})):
        place = f'{directory}/{model}'
        os.mkdir(place)
        s = Shared(a, place, model=model, gives=gives, weights='streamed', **more)
        try:
            s.made()
            if model == 'gpt2':
                for p in range(3):
                    s.start(p, *(['--die-after-step', '2'] if p == 2 else []))
                s.wait(lambda s=s: not s.alive(2), 'a party dies')
                s.start(2)
                codes = s.finish()
            else:
                codes = s.run()
            if codes != [0, 0, 0]:
                s.show()
            assert codes == [0, 0, 0], (model, codes)
            assert read_json(f'{place}/answer.json') == s.wanted(), model
        finally:
            s.end()


def serves(a, directory):
    """A service that is started again needs neither checkpoint nor owner's file of it."""
    s = Shared(a, directory, 'serve', takes='one-hot')
    try:
        s.made()
        for _ in range(2):
            s.start_all()
            assert s.asked() == s.wanted()
            s.stop()
        s.start_all()
        assert s.asked() == s.wanted()
        s.kill(2)
        s.start(2)
        assert s.asked() == s.wanted()
        s.stop()
    finally:
        s.end()


def serves_streamed(a, directory):
    """A layer's weights at a time, for each request: keys of tokens, padding, layers of two windows; a layer's alone. Two clients
    at once. A party is killed between two layers of a request."""
    other = ','.join(reversed(IDS.split(',')))
    for model, gives, more in (('gpt2', 'logits', {}), ('gpt_neo', 'last', {}), ('bert_labels', 'labels', {'padding': True})):
        place = f'{directory}/{model}'
        os.mkdir(place)
        s = Shared(a, place, 'serve', model=model, gives=gives, weights='streamed', **more)
        try:
            s.made()
            planned = subprocess.run([s.uvcc, 'plan', '--config', 'party-0.json'], cwd=place, check=True, stdout=subprocess.PIPE, text=True).stdout
            assert all(f'\n{entry} ' in planned for entry in ('choose', 'embed', 'layer', 'head')), planned
            assert ('\nwindow ' in planned) == (model == 'gpt_neo'), planned
            s.start(0)
            s.start(1)
            s.start(2, *(['--die-after-step', '3'] if model == 'gpt2' else []))
            clients = [s.asks(), s.asks('bob', other, weights='secret')] # another word for secret ones
            if model == 'gpt2':
                s.wait(lambda s=s: not s.alive(2), 'a party dies')
                s.start(2)
            assert [s.told(client) for client in clients] == [s.wanted(), s.wanted(other)], model
            assert s.asked() == s.wanted(), model
            s.stop()
        finally:
            s.end()


def other_sharings(a, directory):
    """A party with a file of another sharing waits, and says so."""
    s = Shared(a, directory)
    try:
        s.made()
        s.made('other')
        s.config[2]['data']['shares'] = 'other/party-2.shares'
        s.write(2)
        s.start_all()
        s.wait(lambda: any('data.shares of one sharing' in q.err for q in s.parties), 'a sharing that does not fit')
        s.kill(2)
        s.config[2]['data']['shares'] = 'shares/party-2.shares'
        s.write(2)
        s.start(2)
        codes = s.finish()
        assert codes == [0, 0, 0], codes
        assert read_json(f'{directory}/answer.json') == s.wanted()
    finally:
        s.end()


def damaged(s):
    """Each kind of harm, by what is said of it."""
    with open(s.path(2), 'rb') as f:
        good = f.read()

    def with_byte(at, bit=1):
        return good[:at] + bytes([good[at] ^ bit]) + good[at + 1:]
    yield good[:100], 'holds no shares of weights'
    yield b'', 'holds no shares of weights'
    yield good[:-1], 'is damaged'
    yield good + b'\0', 'is damaged'
    yield good[:HEAD], 'is damaged'
    yield with_byte(0), 'holds no shares of weights'
    yield with_byte(8), 'is of version'
    for at in (14, 20, 60, 115, 130, 250, 280, 335): # the head's fields are signed
        yield with_byte(at), 'is damaged'
    yield with_byte(HEAD), 'is damaged' # a value, its seal
    yield with_byte(len(good) - 1), 'is damaged'


def damaged_later(a, directory):
    """A file that is damaged under the parties: streamed weights are never wrong ones, the party that reads it ends, with its
    name, and its peers say whose it was; in memory weights are what they were."""
    for weights in ('shared', 'streamed'):
        place = f'{directory}/{weights}'
        os.mkdir(place)
        s = Shared(a, place, 'serve', gives='logits', weights=weights)
        try:
            s.made()
            for p in range(3):
                s.start(p)
            assert s.asked() == s.wanted(), weights
            path = s.path(2)
            with open(path, 'r+b') as f:
                f.seek(HEAD + 100)
                byte = f.read(1)
                f.seek(HEAD + 100)
                f.write(bytes([byte[0] ^ 1]))
            status, said = s.checked(2)
            assert status == 2 and 'is damaged' in said, (status, said)
            if weights == 'shared':
                assert s.asked() == s.wanted()
                s.stop()
                continue
            client = s.asks()
            s.wait(lambda s=s: not any(s.alive(p) for p in range(3)), 'all parties end')
            codes = [p.process.returncode for p in s.parties]
            assert codes == [1, 1, 2] and '.shares: is damaged' in s.parties[2].err, (codes, s.parties[2].err)
            heard = ['party 2 stopped: a host cannot read its own data' in s.parties[p].err for p in range(2)]
            assert any(heard), [p.err for p in s.parties]
            for p in range(2): # the other one may have heard it from that one first
                assert heard[p] or f'party {1 - p} stopped: a peer aborted' in s.parties[p].err, s.parties[p].err
            client.kill()
            client.wait()
        finally:
            s.end()


def refusals(a, directory):
    s = Shared(a, directory)
    try:
        s.made()
        assert s.checked(2)[0] == 0, s.checked(2)
        for data, says in damaged(s):
            with open(f'{directory}/bad.shares', 'wb') as f:
                f.write(data)
            s.config[2]['data']['shares'] = 'bad.shares'
            s.write(2)
            status, said = s.checked(2)
            assert status == 2 and f'data.shares: ./bad.shares: {says}' in said, (status, said, says)
        s.made('model', frac_bits=14)
        shutil.copytree(f'{directory}/shares', f'{directory}/swapped')
        for path, says in (('model/party-2.shares', 'is of another model'), ('shares/party-1.shares', 'is of party 1, and this is party 2'),
                           ('missing', 'cannot be read')):
            s.config[2]['data']['shares'] = path
            s.write(2)
            status, said = s.checked(2)
            assert status == 2 and f'data.shares: ./{path}: {says}' in said, (status, said, says)
        strange = Shared(a, tempfile.mkdtemp(dir=directory))
        strange.made()
        s.config[2]['data']['shares'] = strange.path(2)
        s.write(2)
        status, said = s.checked(2)
        assert status == 2 and 'was made for other parties' in said, (status, said)
        # What is damaged behind the head is found when it is read, too.
        s.config[2]['data']['shares'] = 'bad.shares'
        s.write(2)
        codes = s.run()
        assert codes[2] == 2 and 'bad.shares: is damaged' in s.parties[2].err, (codes, s.parties[2].err)
    finally:
        s.end()


def words(a, directory):
    """What a configuration says wrong of shares."""
    s = Shared(a, directory)
    good = json.loads(json.dumps(s.config[1]))
    s.made()
    for path, value, says in ((['data', 'shares'], None, 'data.shares is missing'),
                              (['data', 'model'], 'x', None), # its owner's, for --share
                              (['job', 'run', 'weights'], 'secret', 'data.shares does nothing'),
                              (['job', 'run', 'weights'], 'known', 'give one of "secret", "public", "shared"')):
        s.config[1] = changed(good, path, value)
        if path[-1] == 'weights':
            s.config[1]['data'].update({'model': s.model})
        s.write(1)
        status, said = s.checked(1)
        assert (status == 0 if says is None else status == 2 and says in said), (path, status, said)
    for p, says in ((0, 'job.run.weights_owner'), (2, 'job.run.weights_owner')):
        done = subprocess.run([s.uvcc, 'party', '--config', f'party-{p}.json', '--share', 'x'], cwd=directory, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert done.returncode == 2 and says in done.stderr, done.stderr


def full(a, directory):
    """Where one of the three files cannot be written the others are not either: a sharing that is there stays whole."""
    s = Shared(a, directory)
    try:
        s.made()

        def bytes_of():
            return {name: open(f'{directory}/shares/{name}', 'rb').read() for name in sorted(os.listdir(f'{directory}/shares')) if name != 'lock'}
        before = bytes_of()
        done = subprocess.run([s.uvcc, 'party', '--config', 'share.json', '--share', 'shares', '--force'], cwd=directory, check=False,
                              restore_signals=False, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4 * HEAD, 4 * HEAD)), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        assert done.returncode == 1 and 'party-1.shares: cannot be written: File too large' in done.stderr, (done.returncode, done.stderr)
        assert done.stdout == '', done.stdout
        assert bytes_of() == before, 'files of two sharings'
    finally:
        s.end()


def again(a, directory):
    """Files of a sharing are not replaced but by --force. What a process that was killed left is in nobody's way."""
    s = Shared(a, directory)
    names = [f'party-{p}.shares' for p in range(3)]

    def run(*words):
        return subprocess.run([s.uvcc, 'party', '--config', 'share.json', '--share', 'shares', *words], cwd=directory, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def bytes_of():
        return [open(f'{directory}/shares/{name}', 'rb').read() for name in names]

    def there():
        return sorted(os.listdir(f'{directory}/shares'))
    try:
        s.made('other') # writes share.json
        os.mkdir(f'{directory}/shares')
        for name in ('party-0.shares.71.tmp', 'party-1.shares.71.tmp', 'party-1.shares.old'): # of one that was killed, and somebody's own
            with open(f'{directory}/shares/{name}', 'wb') as f:
                f.write(b'half')
        assert run().returncode == 0
        assert there() == sorted(['lock', *names, 'party-1.shares.old']), there()
        os.remove(f'{directory}/shares/party-1.shares.old')
        first = bytes_of()
        with open(f'{directory}/shares/party-2.shares.71.tmp', 'wb') as f: # of one with --force, and this one is refused
            f.write(b'half')
        refused = run()
        assert there() == ['lock', *names], there()
        assert refused.returncode == 2 and 'party-0.shares is there already' in refused.stderr and '--force' in refused.stderr, refused.stderr
        assert bytes_of() == first
        os.remove(f'{directory}/shares/party-0.shares') # brought to party 0
        refused = run()
        assert refused.returncode == 2 and 'party-1.shares is there already' in refused.stderr, refused.stderr
        assert run('--force').returncode == 0
        second = bytes_of()
        assert not any(x == y for x, y in zip(first, second)) and there() == ['lock', *names]
        # killed when one of the files had its name
        with open(f'{directory}/shares/unfinished', 'wb'), open(f'{directory}/shares/party-2.shares.1.tmp', 'wb'):
            os.remove(f'{directory}/shares/party-1.shares')
        done = run()
        assert done.returncode == 0, done.stderr
        assert there() == ['lock', *names], there()
        assert not any(x == y for x, y in zip(second, bytes_of()))
        # killed before the first file had its name, or after the last: a sharing that is whole stays
        third = bytes_of()
        with open(f'{directory}/shares/unfinished', 'wb'):
            refused = run()
        assert refused.returncode == 2 and 'party-0.shares is there already' in refused.stderr, refused.stderr
        assert bytes_of() == third and there() == ['lock', *names], there()
        # or with the first file's name
        shutil.copy(f'{directory}/other/party-0.shares', f'{directory}/shares')
        with open(f'{directory}/shares/unfinished', 'wb'):
            assert run().returncode == 0
        assert not any(x == y for x, y in zip(third, bytes_of())) and there() == ['lock', *names]
        # a mark that leads elsewhere, or waits for a reader
        for make in (lambda path: os.symlink('../share.json', path), os.mkfifo):
            make(f'{directory}/shares/unfinished')
            before, config = bytes_of(), os.path.getsize(f'{directory}/share.json')
            refused = run('--force')
            assert refused.returncode == 1 and 'unfinished: cannot be written' in refused.stderr, refused
            assert bytes_of() == before and os.path.getsize(f'{directory}/share.json') == config != 0
            os.remove(f'{directory}/shares/unfinished')
        with open(f'{directory}/shares/lock', 'rb') as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            refused = run('--force')
            assert refused.returncode == 2 and 'another process uses it' in refused.stderr, refused.stderr
        idle = subprocess.run([s.uvcc, 'party', '--config', 'share.json', '--force'], cwd=directory, check=False, stderr=subprocess.PIPE, text=True)
        assert idle.returncode == 2 and '--force does nothing without --share' in idle.stderr, idle.stderr
    finally:
        s.end()


def raced(a, directory):
    """Three processes split into the same directory at a time, and some are killed at one step or another of theirs: what has names
    is of one sharing, or the next sharing replaces it and takes away what is left."""
    s = Shared(a, directory)
    names = [f'party-{p}.shares' for p in range(3)]
    s.made('other') # writes share.json
    sizes = [os.path.getsize(f'{directory}/other/{name}') for name in names]
    place = f'{directory}/shares'

    def start(*words):
        return subprocess.Popen([s.uvcc, 'party', '--config', 'share.json', '--share', 'shares', *words], cwd=directory, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, text=True)

    def ids():
        """Of each file that is there, which is as long as it should be: files get their names when they are whole."""
        found = []
        for name, size in zip(names, sizes):
            if os.path.exists(f'{place}/{name}'):
                with open(f'{place}/{name}', 'rb') as f:
                    data = f.read()
                assert len(data) == size, (name, len(data))
                found.append(data[16:48])
        return found

    def whole():
        return len(ids()) == 3 and len(set(ids())) == 1
    steps = [None, 'lock', '{pid}.tmp', 'unfinished', 'party-0.shares', 'party-1.shares', 'party-2.shares']
    for turn in range(2 * len(steps)):
        if turn % 3 != 2:
            shutil.rmtree(place, ignore_errors=True)
        had = whole()
        forces = [(turn + i) % 3 == 0 for i in range(3)] if turn % 2 else [False] * 3
        all_of = [start(*['--force'] * force) for force in forces]
        ends = [steps[(turn * (i + 1) + i) % len(steps)] for i in range(3)]
        while any(p.poll() is None for p in all_of):
            there = os.listdir(place) if os.path.isdir(place) else []
            for process, end in zip(all_of, ends):
                if end is not None and any(name.endswith(end.format(pid=process.pid)) for name in there):
                    process.kill()
        said = [p.communicate()[1] for p in all_of]
        codes = [p.returncode for p in all_of]
        for code, words_of in zip(codes, said):
            assert code in (0, -9) or (code == 2 and ('another process uses it' in words_of or 'is there already' in words_of)), (codes, said)
        assert any(forces) or codes.count(0) <= (not had), (codes, had, said)
        left = ids()
        assert os.path.exists(f'{place}/unfinished') or not left or whole(), (turn, ends, codes)
        kept = whole()
        last = start()
        said = last.communicate()[1]
        assert last.returncode == (2 if kept else 0), (turn, ends, codes, said)
        assert whole() and (not kept or ids() == left), (turn, ends, codes)
        assert sorted(os.listdir(place)) == ['lock', *names], (turn, ends, codes, os.listdir(place))
        if turn % 5 == 0:
            for p in range(3):
                s.write(p)
                status, said = s.checked(p)
                assert status == 0, said


CASES = {'infers': infers, 'streams': streams, 'serves': serves, 'serves_streamed': serves_streamed,
         'other_sharings': other_sharings, 'damaged_later': damaged_later, 'refusals': refusals, 'words': words, 'full': full,
         'again': again, 'raced': raced}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True, type=os.path.abspath)
    ap.add_argument('--models', required=True, type=os.path.abspath)
    ap.add_argument('cases', nargs='*')
    a = ap.parse_args()
    bad = 0
    for name in a.cases or CASES:
        directory = tempfile.mkdtemp()
        try:
            CASES[name](a, directory)
            print(f'{name}: ok')
        except (AssertionError, SystemExit):
            traceback.print_exc()
            print(f'{name}: FAILED')
            bad += 1
        finally:
            shutil.rmtree(directory)
    return 1 if bad else 0


if __name__ == '__main__':
    sys.exit(main())
