#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Clients of a transformer that three processes of `uvcc party` serve: they get what `uvcc infer` says, to the bit, and of what
they asked nothing is at the parties.

serve_model.py --uvcc TOOL --odd PROGRAM --models DIR [CASE...]
"""
import argparse
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import traceback

from infer import forgotten, memory_has, read_json
from job import Service, WAIT_S, changed

LISTS = [[71, 5, 88, 23, 61, 14, 96, 42, 9, 77, 30], [17, 66, 2, 91, 58, 12, 35, 84], [44, 19, 73, 50, 8, 95, 27, 60, 33]]
TOKENS = 14
NUMBERS = {'mode': 'exact', 'value_bits': 7, 'inner_bits': 7}


def words_of(lists):
    return ';'.join(','.join(map(str, ids)) for ids in lists)


def forms(ids):
    """Tokens as somebody might hold them: text; integers of 8, 4 and 2 bytes, and bytes."""
    return [words_of([ids]).encode(), *(struct.pack(f'<{len(ids)}{kind}', *ids) for kind in 'qiHB')]


class Transformer(Service):
    """The three parties, and a client."""

    def __init__(self, a, model, directory, changes=None, **run):
        self.model = f'{a.models}/{model}'
        known = [{'name': 'alice', 'key': self.made(a.uvcc, f'{directory}/alice.key')}]
        run = {'kind': 'serve', 'model': read_json(f'{self.model}/config.json'), 'tokens': TOKENS, **NUMBERS, **run}
        owners = range(3) if run.get('weights') == 'public' else [1]
        common = {p: {'clients': {'listen': f'unix:clients-{p}.sock', 'list': known}, 'audit': f'evidence-{p}', **(changes or {})}
                  for p in range(3)}
        super().__init__(a.uvcc, directory, run, 'unix', {p: {'model': self.model} for p in owners}, {'name': 'a service'}, common)
        self.public = [self.keygen(f'identity-{p}.key') for p in range(3)]
        self.run, self.good = run, json.loads(json.dumps(self.config[0]))

    @staticmethod
    def made(uvcc, path):
        return subprocess.run([uvcc, 'keygen', '--out', path], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()

    def ask(self, *words, **changes):
        config = {'job': 'a service', 'identity': 'alice.key', 'run': self.run,
                  'parties': [{'address': f'unix:clients-{p}.sock', 'key': self.public[p]} for p in range(3)], **changes}
        path = f'client-{len(self.clients)}'
        with open(f'{self.directory}/{path}.json', 'w', encoding='utf-8') as f:
            json.dump({key: value for key, value in config.items() if value is not None}, f)
        with open(f'{self.directory}/{path}.out', 'w', encoding='utf-8') as to:
            process = subprocess.Popen([self.uvcc, 'client', '--config', f'{path}.json', '--patience', str(int(WAIT_S)), *words],
                                       cwd=self.directory, stdout=to, stderr=subprocess.STDOUT)
        process.said = f'{self.directory}/{path}.out'
        self.clients.append(process)
        return process

    def ended(self, process, each=None):
        """Its status and what it said."""
        turn = 0
        while process.poll() is None:
            self.hear(0.05)
            turn += 1
            if each is not None and turn & (turn - 1) == 0: # a few times
                each(process)
        with open(process.said, encoding='utf-8') as f:
            return process.returncode, f.read()

    def wanted(self, lists, gives, *words):
        """The same passes in one process."""
        path = f'{self.directory}/want.json'
        numbers = [word for key, value in NUMBERS.items() for word in (f'--{key.replace("_", "-")}', str(value))]
        subprocess.run([self.uvcc, 'infer', '--model', self.model, '--ids', words_of(lists), '--gives', gives, *numbers, *words,
                        '--output', path], check=True, stdout=subprocess.DEVNULL)
        return read_json(path)

    def answered(self, lists, gives, *words, asked=None, each=None, **changes):
        process = self.ask(*(asked or ['--ids', words_of(lists)]), '--output', 'answer.json', **changes)
        status, said = self.ended(process, each)
        assert status == 0, (status, said)
        want, got = self.wanted(lists, gives, *words), read_json(f'{self.directory}/answer.json')
        assert got == want, (got, want)
        return want

    def left_behind(self, p):
        """What party p wrote and said."""
        yield 'its words', (self.parties[p].out + self.parties[p].err).encode()
        for kind in ('store', 'evidence'):
            for path, _, files in os.walk(f'{self.directory}/{kind}-{p}'):
                for name in files:
                    with open(f'{path}/{name}', 'rb') as f:
                        yield f'{path}/{name}', f.read()


def secret(a, directory):
    """Secret weights: tokens as keys, a text and its padding. Memory, stores, evidence and logs of the parties have
    neither the tokens nor the answer; the client's memory has them, so that looking is known to find."""
    s = Transformer(a, 'bert_labels', directory, padding=True, gives='labels')
    seen = [[], [], [], []]

    def look(process):
        for p in range(3):
            if s.alive(p):
                seen[p].append(memory_has(s.parties[p].process, forms(LISTS[0])))
        seen[3].append(memory_has(process, forms(LISTS[0])))

    try:
        s.start_all()
        want = s.answered(LISTS[:1], 'labels', '--tokens', str(TOKENS), each=look)
        s.stop()
        opened = struct.pack(f'<{len(want["logits"][0])}q', *(round(v * 2 ** 16) for v in want['logits'][0]))
        for p in range(3):
            assert True not in seen[p], f'party {p} had the tokens in its memory'
            assert not [where for where, found in s.left_behind(p) if any(form in found for form in [opened, *forms(LISTS[0])])], p
        assert True in seen[3] or None in seen[3], 'the tokens were not found in the memory of the client'
    finally:
        s.end()


def batches(a, directory):
    """Five texts where a request takes three; the answer for people."""
    s = Transformer(a, 'bert_labels', directory, padding=True, gives='labels', sequences=3)
    try:
        s.start_all()
        s.answered(LISTS + LISTS[:2], 'labels', '--tokens', str(TOKENS))
        status, said = s.ended(s.ask('--ids', words_of(LISTS[:1])))
        assert status == 0 and 'sequence 1' in said and '%' in said, (status, said)
        s.stop()
    finally:
        s.end()


def forms_of_tokens(a, directory, model, gives, takes, weights):
    s = Transformer(a, model, directory, gives=gives, tokens=len(LISTS[0]), takes=takes, weights=weights)
    try:
        s.start_all()
        s.answered(LISTS[:1], gives, '--weights', weights)
        s.stop()
    finally:
        s.end()


def alone(a, directory):
    """Keys and nothing else: no padding, no types."""
    forms_of_tokens(a, directory, 'gpt2', 'last', 'tokens', 'secret')


def public_keys(a, directory):
    """Keys of rows of a table that all know."""
    forms_of_tokens(a, directory, 'bert_labels', 'labels', 'tokens', 'public')


def rows(a, directory):
    """Whole rows, as shares."""
    forms_of_tokens(a, directory, 'bert_labels', 'labels', 'one-hot', 'secret')


def odd(a, directory):
    """Keys that stand for nothing get an answer that says nothing, unlike ones at two parties none; who asks next is served."""
    s = Transformer(a, 'bert_labels', directory, padding=True, gives='labels')
    try:
        s.start_all()
        s.answered(LISTS[:1], 'labels', '--tokens', str(TOKENS))
        for how, said in (('trees', '0 0 0'), ('differ', '3 3 3'), ('trees', '0 0 0')):
            process = subprocess.Popen([a.odd, 'client-0.json', how], cwd=directory, stdout=subprocess.PIPE, text=True)
            while process.poll() is None:
                s.hear(0.05)
            assert process.returncode == 0 and process.stdout.read().strip() == said, how
            process.stdout.close()
        s.answered(LISTS[1:2], 'labels', '--tokens', str(TOKENS))
        s.stop()
    finally:
        s.end()


def forgets(a, directory):
    """Keys of a request that is over are in the memory of no party, though nobody asks anything else."""
    tokens = len(LISTS[0])
    s = Transformer(a, 'gpt2', directory, gives='last', tokens=tokens)
    # Behind the id and three salts six blocks of roots, of which the first bit is not drawn.
    roots = [(112 + 16 * tokens * block + 1, 15) for block in range(6)]
    try:
        s.start_all()
        s.answered(LISTS[:1], 'last')
        process = subprocess.Popen([a.odd, 'client-0.json', 'known'], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        while process.poll() is None:
            s.hear(0.05)
        out, err = process.communicate()
        assert (process.returncode, out) == (0, '0 0 0\n'), (process.returncode, out, err)
        forgotten(s, int(err), roots)
        s.stop()
    finally:
        s.end()


def public(a, directory):
    """Public weights: the client embeds, by its own copy of the checkpoint or somewhere else. A party that has died begins
    anew with them."""
    s = Transformer(a, 'gpt2', directory, gives='last', weights='public', tokens=len(LISTS[0]))
    try:
        s.start(0)
        s.start(2, '--die-after-step', '1')
        s.start(1)
        first = s.ask('--ids', words_of(LISTS[:1]), model=s.model)
        s.wait(lambda: not s.alive(2), 'a party dies')
        s.start(2)
        status, said = s.ended(first)
        assert status == 0, said
        want = s.answered(LISTS[:1], 'last', '--weights', 'public', model=s.model)
        rows = embedded(s.model, LISTS[0])
        save(f'{directory}/rows.safetensors', 'inputs_embeds', 'F64', [1, len(rows), len(rows[0])],
             b''.join(struct.pack(f'<{len(row)}d', *row) for row in rows))
        got = s.answered(LISTS[:1], 'last', '--weights', 'public', asked=['--input', 'rows.safetensors'])
        assert got == want
        s.stop()
    finally:
        s.end()


def copies(a, directory):
    """Public weights of which one party has others: no request is served, and all are told where to look."""
    s = Transformer(a, 'bert_labels', directory, padding=True, gives='labels', weights='public')
    try:
        shutil.copytree(s.model, f'{directory}/other')
        with open(f'{directory}/other/model.safetensors', 'r+b') as f:
            head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
            at = f.tell() + head['classifier.weight']['data_offsets'][0]
            f.seek(at)
            least = f.read(1)[0]
            f.seek(at)
            f.write(bytes([least ^ 1]))
        s.config[2]['data']['model'] = 'other'
        s.write(2)
        s.start_all()
        codes = s.finish()
        said = [s.parties[p].err for p in range(3)]
        assert codes == [1, 1, 1] and all('compare the files of data.model' in err for err in said), (codes, said)
    finally:
        s.end()


def fast(a, directory):
    """Mode fast, several requests one after the other: as near to the exact mode as its roundings are. What a step takes is
    known beforehand."""
    s = Transformer(a, 'bert_labels', directory, padding=True, gives='labels', mode='fast')
    try:
        planned = subprocess.run([s.uvcc, 'plan', '--config', 'party-0.json'], cwd=directory, check=True, stdout=subprocess.PIPE,
                                 text=True).stdout
        assert all(f'\n{entry} ' in planned for entry in ('weights 0', 'choose', 'forward')), planned
        s.start_all()
        status, said = s.ended(s.ask('--ids', words_of(LISTS), '--output', 'answer.json'))
        assert status == 0, said
        want, got = s.wanted(LISTS, 'labels', '--tokens', str(TOKENS)), read_json(f'{directory}/answer.json')
        off = max(abs(x - y) for one, other in zip(want['logits'], got['logits']) for x, y in zip(one, other))
        assert 0 < off < 5e-3, off
        s.stop()
    finally:
        s.end()


def save(path, name, kind, shape, values):
    """A safetensors file of one tensor."""
    head = json.dumps({name: {'dtype': kind, 'shape': shape, 'data_offsets': [0, len(values)]}}).encode()
    with open(path, 'wb') as f:
        f.write(struct.pack('<Q', len(head)) + head + values)


def embedded(model, ids):
    """Rows of `wte` of a checkpoint in F32 or F16."""
    with open(f'{model}/model.safetensors', 'rb') as f:
        head = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        name = next(key for key in head if key.endswith('wte.weight'))
        begin, (_, width) = f.tell() + head[name]['data_offsets'][0], head[name]['shape']
        rows = []
        size, kind = {'F32': (4, 'f'), 'F16': (2, 'e')}[head[name]['dtype']]
        for token in ids:
            f.seek(begin + size * width * token)
            rows.append(struct.unpack(f'<{width}{kind}', f.read(size * width)))
    return rows


def refusals(a, directory):
    """What does not fit is named, at the parties before they call anybody and at the client."""
    s = Transformer(a, 'bert_labels', directory, padding=True, gives='labels')
    try:
        party = [(['job', 'run', 'gives'], None, 'job.run.gives is missing'),
                 (['job', 'run', 'takes'], 'ids', 'job.run.takes'),
                 (['job', 'run', 'input_owner'], 0, 'job.run.input_owner'),
                 (['job', 'run', 'to'], 'all', 'job.run.to'),
                 (['job', 'run'], {**without(s.run, 'padding'), 'sequences': 50000}, 'job.run: a request has '),
                 (['job', 'run'], {**without(s.run, 'padding'), 'sequences': 10000}, 'clients.mib: 64 MiB do not hold a request and its answer'),
                 (['job', 'replicas'], 2, 'one worker for each party'),
                 (['data'], {'model': s.model}, "data.model: the weights are another party's"),
                 (['job', 'run', 'weights'], 'public', 'data.model is missing'),
                 (['clients', 'mib'], 1, None)]
        for path, value, words in party:
            s.config[0] = changed(s.config[0], path, value)
            s.write(0)
            checked = subprocess.run([s.uvcc, 'party', '--check', '--config', 'party-0.json'], cwd=directory,
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
            assert (checked.returncode == 2 and words in checked.stderr) if words else checked.returncode == 0, (path, checked)
            s.config[0] = json.loads(json.dumps(s.good))
        ids = ['--ids', words_of(LISTS[:1])]
        save(f'{directory}/longer.safetensors', 'input_ids', 'I64', [1, TOKENS + 1], struct.pack(f'<{TOKENS + 1}q', *([1] * (TOKENS + 1))))
        client = [(ids, {'model': s.model}, 'model does nothing with run.takes "tokens"'),
                  (ids, {'model': s.model, 'run': {**s.run, 'takes': 'one-hot'}}, 'model does nothing with run.takes "one-hot"'),
                  (ids, {'features': 3}, 'features does nothing with run'),
                  (ids, {'run': None, 'model': 'x'}, 'model does nothing without run'),
                  (ids, {'run': {**s.run, 'model': None}}, 'run.model'),
                  (ids, {'run': without(s.run, 'model')}, 'run.model is missing'),
                  (ids, {'run': {**s.run, 'takes': 'hidden'}}, 'give "model", the directory'),
                  (['--ids', '1,2,3000'], {}, 'uvcc client: --ids: token 3000 is not one'),
                  (['--ids', ','.join(['1'] * 15)], {}, '--ids: run.tokens 14: there is a sequence of 15'),
                  (['--input', 'longer.safetensors'], {}, 'has sequences of 15 tokens, but run.tokens is 14'),
                  (['--text', 'x'], {}, 'text is for models over bytes'),
                  ([*ids, '--text', 'x'], {}, 'give one of --input, --text and --ids'),
                  ([], {}, '--input FILE is missing')]
        for words, changes, why in client:
            status, said = s.ended(s.ask(*words, **changes))
            assert status == 2 and why in said, (words, changes, status, said)
    finally:
        s.end()


def differs(a, directory):
    """A client whose `run` is another one than the parties' is refused, by the member's name, at both ends; whatever it is."""
    s = Transformer(a, 'bert_labels', directory, padding=True, gives='labels')
    other = {'value_bits': 8, 'inner_bits': 6, 'index_bits': 8, 'weight_bits': 5, 'frac_bits': 15, 'mode': 'exact-dcf', 'sequences': 2,
             'weights_owner': 2, 'gives': 'pooled', 'tokens': TOKENS - 1,
             'model': {**s.run['model'], 'num_hidden_layers': s.run['model']['num_hidden_layers'] + 1}}
    try:
        s.start_all()
        for name, value in other.items():
            status, said = s.ended(s.ask('--ids', words_of([LISTS[0][:5]]), run={**s.run, name: value}))
            assert status == 2 and f' the request: run.{name} of client-' in said, (name, status, said)
            s.wait(lambda: any(f'client alice: refused, its run is another one than job.run: {name}\n' in p.err for p in s.parties),
                   f'a party says that {name} is another one')
        status, said = s.ended(s.ask('--ids', words_of(LISTS[:1]), run={**s.run, 'value_bits': 8, 'inner_bits': 8}))
        assert status == 2 and 'run.value_bits, run.inner_bits of client-' in said and 'are each' in said, (status, said)
        s.answered(LISTS[:1], 'labels', '--tokens', str(TOKENS))
        s.stop()
    finally:
        s.end()


def without(members, name):
    return {key: value for key, value in members.items() if key != name}


CASES = [secret, batches, alone, public_keys, rows, odd, forgets, public, copies, fast, differs, refusals]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True, type=os.path.abspath)
    ap.add_argument('--odd', required=True, type=os.path.abspath)
    ap.add_argument('--models', required=True, type=os.path.abspath)
    ap.add_argument('case', nargs='*')
    a = ap.parse_args()
    failed = []
    for test in CASES:
        if a.case and test.__name__ not in a.case:
            continue
        directory = tempfile.mkdtemp()
        try:
            test(a, directory)
            print(f'{test.__name__}: as it should be', flush=True)
        except (AssertionError, SystemExit):
            traceback.print_exc(file=sys.stdout)
            failed.append(test.__name__)
        finally:
            shutil.rmtree(directory)
    if failed:
        print('failed:', *failed)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
