#!/usr/bin/env python3
"""What `uvcc party` does with what goes wrong, in three processes: configurations that differ, wrong keys,
interruptions, jobs that are done.

cases.py --uvcc TOOL --data FILE [CASE...]
"""
import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback

from job import Job, address, last_hash

RUN = {'kind': 'mlp', 'rows': 1797, 'features': 64, 'classes': 10, 'hidden': [16], 'batch': 32, 'epochs': 1,
       'lr_shift': 2, 'seed': 1}


class Case:
    def __init__(self, a):
        self.a, self.directory = a, tempfile.mkdtemp()

    def job(self, **more):
        data = {0: {'file': self.a.data}, 1: {'file': self.a.data}}
        return Job(self.a.uvcc, self.directory, RUN, **{'over': 'unix', 'data': data, **more})


def says(job, p, text, what):
    job.wait(lambda: text in job.parties[p].err, f'{what}: party {p} says "{text}"')


def names(job, p, other, name, place):
    """Of two members that share a part of the comparison both are named."""
    line = re.compile(f'party {other} does not fit: its {place.rsplit(".", 1)[0]}[.][a-z_ ]*\\b{name}\\b')
    job.wait(lambda: line.search(job.parties[p].err), f'party {p} names {place}')


def differs(case):
    """Another value at one party is named at the others, and mended the job goes on."""
    for where, name, value in (('run', 'lr_shift', 3), ('run', 'seed', 7), ('run', 'epochs', 2), ('run', 'compare', 'fss'),
                               ('job', 'checkpoint_every', 4)):
        job = case.job()
        try:
            config = job.config[2]
            before = json.dumps(config)
            (config['job']['run'] if where == 'run' else config['job'])[name] = value
            job.write(2)
            for p in range(3):
                job.start(p)
            place = f'job.run.{name}' if where == 'run' else f'job.{name}'
            for p in range(2):
                if name in job.config[p]['job'].get('run', {}) or where == 'job':
                    names(job, p, 2, name, place)
                else:
                    says(job, p, '(or a member that is not here)', place)
                    names(job, 2, p, name, place)
            job.kill(2)
            job.config[2] = json.loads(before)
            job.write(2)
            shutil.rmtree(f'{case.directory}/store-2')
            job.start(2)
            assert job.finish() == [0, 0, 0], job.show()
        finally:
            job.end()
        for p in range(3):
            shutil.rmtree(f'{case.directory}/store-{p}')


def wrong_key(case):
    """A peer that has another identity than the file says; a key file that is none."""
    job = case.job()
    try:
        job.keygen('other.key')
        job.config[1]['identity'] = 'other.key'
        for p in range(3): # its own entry would say so
            job.config[1]['parties'][1].pop('key', None)
        job.write(1)
        for p in range(3):
            job.start(p)
        says(job, 0, 'party 1 does not fit: identity', 'another identity')
        for p in range(3):
            job.kill(p)
        for change, text in (({'identity': 'none.key'}, 'identity: '), ({'identity': 'party-1.json'}, 'identity: '),
                             ({'parties': [{'address': 'unix:0', 'key': '@party-1.json'}] + job.config[1]['parties'][1:]},
                              'parties[0].key: '),
                             ({'parties': [{'address': 'unix:0', 'key': '12'}] + job.config[1]['parties'][1:]},
                              'parties[0].key: is no public key'),
                             ({'parties': [{'address': 'unix:0'}] + job.config[1]['parties'][1:]},
                              'parties[0].key is missing')):
            kept = json.dumps(job.config[1])
            job.config[1].update(change)
            job.write(1)
            job.start(1)
            job.wait(lambda: not job.alive(1), text)
            assert job.parties[1].ended == 2 and 'party-1.json: ' + text in job.parties[1].err, (text, job.show())
            job.config[1] = json.loads(kept)
    finally:
        job.end()


def interrupted(case):
    """SIGTERM to one, then to all: what was done is kept, and they go on from it; the hash is the same."""
    job = case.job(job={'checkpoint_every': 2})
    want = subprocess.run([case.a.uvcc, 'train', '--data', case.a.data, '--hidden', '16', '--batch', '32', '--epochs',
                           '1', '--json', '-'], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        for p in range(3):
            job.start(p)
        says(job, 1, 'from step 1 of', 'the first run')
        while not any('step-6' in name for name in os.listdir(f'{case.directory}/store-1')):
            job.hear(0.01)
        job.kill(1, signal.SIGTERM)
        job.wait(lambda: not job.alive(1), 'party 1 ends')
        assert job.parties[1].ended == 130 and 'is kept' in job.parties[1].err, job.show()
        for p in (0, 2):
            says(job, p, 'ended the run: a new run follows', 'nobody began anew')
            assert 'began anew' not in job.parties[p].err, job.show()
        job.start(1)
        job.wait(lambda: job.parties[1].err.count('from step') == 2, 'the second run')
        assert 'from step 1 of' not in job.parties[1].err.split('is kept')[1], job.show()
        for p in range(3):
            job.kill(p, signal.SIGINT)
        job.wait(lambda: not any(job.alive(p) for p in range(3)), 'all end')
        assert [process.ended for process in job.parties] == [130] * 3, job.show()
        assert job.run() == [0, 0, 0], job.show()
        for process in job.parties:
            assert last_hash(process.out) == json.loads(want.stdout)['weights_sha256'], job.show()
    finally:
        job.end()


def check_refuses(case, p, text, user=None):
    """--check says it too, before anything runs."""
    check = subprocess.run([case.a.uvcc, 'party', '--config', f'{case.directory}/party-{p}.json', '--check'],
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, user=user)
    assert check.returncode == 2 and text in check.stderr, check
    assert check.stderr.startswith(f'uvcc party: {case.directory}/party-{p}.json: ') or '/result: ' in check.stderr, check


def done(case):
    """Started again a finished job says what the result was; with another job, or another party's store, it refuses."""
    job = case.job(changes={2: {'output': {'weights': 'weights.bin'}}})
    try:
        assert job.run() == [0, 0, 0], job.show()
        want = last_hash(job.parties[0].out)
        with open(f'{case.directory}/weights.bin', 'rb') as f:
            assert hashlib.sha256(f.read()).hexdigest() == want
        job.start(0)
        job.wait(lambda: not job.alive(0), 'it ends')
        assert job.parties[0].ended == 0 and 'done before' in job.parties[0].out, job.show()
        assert job.parties[0].out.count(want) == 2, job.show()
        store = job.config[0]['store']
        job.config[0]['store'] = job.config[1]['store']
        job.write(0)
        job.start(0)
        job.wait(lambda: not job.alive(0), 'it ends')
        assert job.parties[0].ended == 2 and "another party's" in job.parties[0].err, job.show()
        job.config[0]['store'] = store
        job.config[0]['job']['run'] = {**RUN, 'epochs': 2}
        job.write(0)
        job.start(0)
        job.wait(lambda: not job.alive(0), 'it ends')
        assert job.parties[0].ended == 2 and 'another store' in job.parties[0].err, job.show()
        check_refuses(case, 0, 'another store')
    finally:
        job.end()


def killed_at_the_end(case):
    """A party that dies right after the last step comes back to peers that are done, and gets its result."""
    job = case.job()
    try:
        job.start(0)
        job.start(1, '--die-after-step', '46')
        job.start(2)
        job.wait(lambda: not job.alive(1), 'party 1 dies')
        job.start(1)
        assert job.finish() == [0, 0, 0], job.show()
        assert len({last_hash(process.out) for process in job.parties}) == 1, job.show()
        assert job.parties[1].starts == 2
    finally:
        job.end()


def killed_before_the_result(case):
    """One that is killed behind the last checkpoint, before its result is on the disk, still gets it."""
    job = case.job(job={'checkpoint_every': 1})
    result = f'{case.directory}/store-1/result'
    try:
        job.start(0)
        job.start(1)
        job.wait(lambda: os.path.exists(f'{case.directory}/store-1/run') and os.path.exists(result), 'party 1 begins')
        os.rename(result, f'{case.directory}/of-party-1')
        os.makedirs(f'{result}/in-the-way')
        job.start(2)
        says(job, 1, 'result cannot be written', 'party 1 has finished and says what it waits for')
        job.wait(lambda: len(job.parties[1].err.split('result cannot be written')) > 2, 'it tries again')
        job.kill(1)
        shutil.rmtree(result)
        os.rename(f'{case.directory}/of-party-1', result)
        job.start(1)
        assert job.finish() == [0, 0, 0], job.show()
        assert len({last_hash(process.out) for process in job.parties}) == 1, job.show()
    finally:
        job.end()


def missing(case):
    """A peer that is not there is named, with why."""
    job = case.job()
    try:
        job.start(1)
        job.start(2)
        says(job, 1, 'party 0 is not connected', 'party 0 is missing')
        says(job, 2, 'party 0 is not connected', 'party 0 is missing')
        job.start(0)
        assert job.finish() == [0, 0, 0], job.show()
    finally:
        job.end()


def audited(case):
    """The evidence of three parties, one of which was killed, together as an auditor gets it."""
    changes = {p: {'audit': f'audit-{p}'} for p in range(3)}
    job = case.job(job={'checkpoint_every': 4}, changes=changes)
    try:
        job.start(0)
        job.start(1, '--die-after-step', '21')
        job.start(2)
        job.wait(lambda: not job.alive(1), 'party 1 dies')
        job.start(1)
        assert job.finish() == [0, 0, 0], job.show()
        whole = f'{case.directory}/all'
        shutil.copytree(f'{case.directory}/audit-0', whole)
        for p in (1, 2):
            shutil.copytree(f'{case.directory}/audit-{p}/party-{p}', f'{whole}/party-{p}')
        checked = subprocess.run([case.a.uvcc, 'audit', 'verify', whole, '--unfinished'], stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True)
        assert checked.returncode == 0 and '3 workers' in checked.stdout, checked.stdout
    finally:
        job.end()


def evidence_waits(case):
    """What cannot be written of the evidence is tried again, and the job goes on when it can be."""
    job = case.job(changes={p: {'audit': f'evidence-{p}'} for p in range(3)})
    there, away = f'{case.directory}/evidence-1', f'{case.directory}/away'
    try:
        job.start(0)
        job.start(1)
        job.wait(lambda: os.path.exists(f'{there}/public-keys'), 'a run begins')
        os.rename(there, away)
        job.start(2)
        says(job, 1, 'step-00000000.bundle: cannot be written: No such file', 'what is wrong')
        assert all(process.ended is None for process in job.parties), job.show()
        os.rename(away, there)
        assert job.finish() == [0, 0, 0], job.show()
        steps = [len(os.listdir(f'{case.directory}/evidence-{p}/party-{p}/r0s0t0/run-000000')) for p in range(3)]
        assert steps[0] == steps[1] == steps[2], steps
    finally:
        job.end()


def no_core(case):
    """A process that dies leaves no core file: keys and shares would be in it."""
    most = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (most, most))
    job = case.job(options=('--json', 'result.json'))
    try:
        job.start(0)
        says(job, 0, 'waiting for', 'it runs')
        with open(f'/proc/{job.parties[0].process.pid}/limits') as f:
            line = next(line for line in f if line.startswith('Max core file size'))
        assert line.split()[4] == str(min(1, most) if most >= 0 else 1), line
        modes = [os.stat(f'{case.directory}/{name}').st_mode & 0o777
                 for name in os.listdir(case.directory) if name.startswith('result.json')]
        assert modes == [0o600], modes
    finally:
        job.end()


def own_alone(case):
    """What a party alone may know is in its output, and neither in its log nor on its page."""
    model = {'name': 'm', 'run': {'kind': 'transformer', 'text_bytes': 100, 'layers': 1, 'dim': 8, 'heads': 2,
                                  'context': 4}}
    run = {'kind': 'generate', 'length': 3, 'weights': 'initial', 'prompt_bytes': 9, 'model': model}
    changes = {0: {'output': {'text': 'sampled.txt'}, 'status': f'unix:{case.directory}/page', 'linger_s': 1,
                   'log': {'file': 'log.jsonl', 'format': 'json', 'level': 'debug'}}}
    job = Job(case.a.uvcc, case.directory, run, 'unix', {0: {'prompt': 'my secret'}},
              {'name': 'text', 'checkpoint_every': 0}, changes)
    try:
        job.start(0)
        job.start(1)
        job.start(2, '--die-after-step', '3')
        job.wait(lambda: job.parties[2].ended is not None, 'a party dies')
        page = subprocess.run([case.a.uvcc, 'status', '--json', f'unix:{case.directory}/page'], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        job.start(2)
        assert job.finish() == [0, 0, 0], job.show()
        with open(f'{case.directory}/sampled.txt', 'rb') as f:
            assert f.read().startswith(b'my secret')
        with open(f'{case.directory}/log.jsonl') as f:
            log = f.read()
        assert 'step_finished' in log and 'secret' not in log, log
        assert '"steps"' in page and 'secret' not in page, page
    finally:
        job.end()


def policies(case):
    """The same text at all three lets the job run; one that allows less is refused by name, another is named."""
    texts = {'good': 'uvcc policy v1\nprogram any\nopen * * to all\nopen * * to 0\nsteps * 1000\ninput * * 2000\n'}
    texts['other'] = texts['good'].replace('1000', '999')
    texts['none'] = texts['good'].replace('open * * to all\n', '')
    for name, text in texts.items():
        with open(f'{case.directory}/{name}.txt', 'w') as f:
            f.write(text)
    job = case.job(changes={p: {'policy': 'good.txt'} for p in range(3)})
    try:
        job.config[2]['policy'] = 'none.txt'
        job.write(2)
        job.start(2)
        job.wait(lambda: not job.alive(2), 'it refuses')
        assert job.parties[2].ended != 0 and 'policy' in job.parties[2].err, job.show()
        shutil.rmtree(f'{case.directory}/store-2') # it counts what one policy allows
        job.config[2]['policy'] = 'other.txt'
        job.write(2)
        for p in range(3):
            job.start(p)
        says(job, 0, 'party 2 does not fit: policy', 'another policy')
        job.kill(2)
        shutil.rmtree(f'{case.directory}/store-2')
        job.config[2]['policy'] = 'good.txt'
        job.write(2)
        job.start(2)
        assert job.finish() == [0, 0, 0], job.show()
    finally:
        job.end()


def certify(directory, p, authority, days):
    def openssl(*words):
        subprocess.run(['openssl', *words], cwd=directory, check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
    if not os.path.exists(f'{directory}/{authority}.crt'):
        openssl('req', '-x509', '-newkey', 'ed25519', '-nodes', '-keyout', f'{authority}.key', '-out',
                f'{authority}.crt', '-subj', f'/CN={authority}', '-days', '30')
    openssl('req', '-newkey', 'ed25519', '-nodes', '-keyout', f'{p}.key', '-out', f'{p}.csr', '-subj', f'/CN=party-{p}',
            '-addext', f'subjectAltName=DNS:party-{p}')
    openssl('x509', '-req', '-in', f'{p}.csr', '-CA', f'{authority}.crt', '-CAkey', f'{authority}.key',
            '-copy_extensions', 'copy', '-days', str(days), '-out', f'{p}.crt')


def revoke(directory, certificate):
    """The authority's list, of that certificate alone."""
    with open(f'{directory}/list.cnf', 'w') as f:
        f.write('[ca]\ndefault_ca=a\n[a]\ndatabase=index.txt\ndefault_md=default\ndefault_crl_days=30\n')
    with open(f'{directory}/index.txt', 'w') as f:
        f.write('')
    for words in (('-revoke', certificate), ('-gencrl', '-out', 'ca.crl')):
        subprocess.run(['openssl', 'ca', '-config', 'list.cnf', '-cert', 'ca.crt', '-keyfile', 'ca.key', *words], cwd=directory,
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificates(case):
    """One that has expired, or is another authority's, is named; with a good one the job goes on."""
    if shutil.which('openssl') is None:
        print('certificates: there is no openssl to make some')
        return
    changes = {p: {'tls': {'certificate': f'{p}.crt', 'key': f'{p}.key', 'authorities': 'ca.crt', 'library': 'openssl'}}
               for p in range(3)}
    for p in (0, 2):
        certify(case.directory, p, 'ca', 30)
    certify(case.directory, 1, 'ca', -1)
    job = case.job(changes=changes)
    try:
        os.chmod(f'{case.directory}/0.key', 0o644) # before any party reads it
        check_refuses(case, 0, 'chmod 600')
        os.chmod(f'{case.directory}/0.key', 0o600)
        own = dict(job.config[2]['tls'])
        job.config[2]['tls'].update(certificate='0.crt', key='0.key') # another party's
        job.write(2)
        check_refuses(case, 2, 'has the name of party 0')
        job.config[2]['tls'] = own
        job.write(2)
        for p in range(3):
            job.start(p)
        if any('not built in' in process.err for process in job.parties):
            return
        job.wait(lambda: 'party 1 is not connected' in job.parties[2].err, 'party 1 is missing')
        says(job, 2, 'expired', 'the reason')
        job.wait(lambda: 'turned away a caller from ' in job.parties[0].err and
                 'expired; it needs a new one' in job.parties[0].err, 'the called end says whom it refused and why')
        job.kill(1)
        certify(case.directory, 1, 'other', 30)
        before = len(job.parties[2].err)
        job.start(1)
        job.wait(lambda: 'is not connected' in job.parties[2].err[before:] and
                 ('issuer' in job.parties[2].err[before:] or 'authorit' in job.parties[2].err[before:]), 'the other reason')
        job.kill(1)
        certify(case.directory, 1, 'ca', 30)
        job.start(1)
        assert job.finish() == [0, 0, 0], job.show()
    finally:
        job.end()


def full_disk(case):
    """A checkpoint that cannot be written is told of, and written when there is room."""
    job = case.job(job={'checkpoint_every': 2})
    try:
        for p in (0, 2):
            job.start(p)
        job.parties[1].limit = 20000 # bytes of a file: less than a checkpoint
        job.start(1)
        says(job, 1, 'trying again', 'party 1 says what it waits for')
        assert 'step-' in job.parties[1].err, job.show()
        says(job, 0, 'party 1 is to agree to step', 'party 0 waits')
        resource.prlimit(job.parties[1].process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        assert job.finish() == [0, 0, 0], job.show()
    finally:
        job.end()


def stopped(case):
    """A peer that stands still is told of; the job goes on with it."""
    job = case.job(changes={p: {'silence_s': 1} for p in range(3)})
    try:
        for p in range(3):
            job.start(p)
        says(job, 0, 'run 0', 'it began')
        job.kill(2, signal.SIGSTOP)
        says(job, 0, 'party 2: nothing was heard of it', 'silence')
        job.kill(2, signal.SIGCONT)
        assert job.finish() == [0, 0, 0], job.show()
    finally:
        job.end()


def revoked(case):
    """A certificate on the list of its authority is refused by who has the list, and the reason said at both ends."""
    if shutil.which('openssl') is None:
        print('revoked: there is no openssl to make some')
        return
    for p in range(3):
        certify(case.directory, p, 'ca', 30)
    revoke(case.directory, '1.crt')
    changes = {p: {'tls': {'certificate': f'{p}.crt', 'key': f'{p}.key', 'authorities': 'ca.crt', 'crl': 'ca.crl',
                           'library': 'openssl'}} for p in range(3)}
    del changes[1]['tls']['crl'] # the thief has no list
    job = case.job(changes=changes)
    try:
        for p in range(3):
            job.start(p)
        if any('not built in' in process.err for process in job.parties):
            return
        says(job, 0, 'turned away a caller from', 'party 0 refuses party 1')
        says(job, 0, 'certificate revoked; by the list in "crl" here', 'party 0 says why')
        says(job, 1, 'certificate revoked', 'party 1 hears why')
        says(job, 2, 'certificate revoked', 'party 2 refuses party 1')
        job.kill(1)
        certify(case.directory, 1, 'ca', 30)
        job.start(1)
        assert job.finish() == [0, 0, 0], job.show()
    finally:
        job.end()


def strangers(case):
    """A caller with another job.name, or with TLS where there is none, or without where there is: the called end says
    whom it turned away and what to compare, the caller what it may be."""
    pairs = [None, 'pair-0-1.key', 'pair-0-2.key']
    for change, called, calls in (
            ({'job': {'name': 'another', 'run': dict(RUN)}}, 'another job.name', 'another job.name there'),
            ({'tls': {'pair_keys': ['pair-0-2.key', 'pair-1-2.key', None]}}, '"tls" is for both ends', 'its own line says why'),
            (None, '"tls" is for both ends', 'TLS at that end alone')):
        job = case.job(over='tcp')
        try:
            for p, q in ((0, 1), (0, 2), (1, 2)):
                job.pair(p, q)
            if change is None: # TLS at the called end
                change, at = {'tls': {'pair_keys': pairs}}, 0
            else:
                at = 2
            job.config[at].update(change)
            job.write(at)
            job.start(0)
            job.start(2)
            if 'not built in' in job.parties[at].err:
                return
            says(job, 0, 'turned away a caller from tcp:', 'the called end')
            says(job, 0, called, 'the called end says why')
            says(job, 2, calls, 'the caller says what it may be')
        finally:
            job.end()
        for p in (0, 2):
            shutil.rmtree(f'{case.directory}/store-{p}')


def places(case):
    """--check sees what cannot be written; nothing is made."""
    job = case.job()
    for change, text in (({'store': 'none/store'}, 'store: '), ({'audit': 'none/audit'}, 'audit: '),
                         ({'log': {'file': 'none/log'}}, 'log.file: '), ({'store': 'party-0.json'}, 'is no directory'),
                         ({'log': {'file': '.'}}, 'is a directory')):
        kept = dict(job.config[0])
        job.config[0].update(change)
        job.write(0)
        check_refuses(case, 0, text)
        job.config[0] = kept
    names = set(os.listdir(case.directory))
    assert not names & {'store-0', 'none'}, names
    if os.geteuid() == 0 and os.access(case.a.uvcc, os.X_OK): # as somebody else, to whom the directory does not belong
        os.chmod(case.directory, 0o755)
        job.config[0]['data'] = {'file': 'data.csv'}
        shutil.copy(case.a.data, f'{case.directory}/data.csv')
        os.makedirs(f'{case.directory}/given')
        for name in ('identity-0.key', 'party-0.json', 'data.csv', 'given'):
            if name == 'party-0.json':
                job.write(0)
            os.chown(f'{case.directory}/{name}', 65534, 65534)
        try:
            check_refuses(case, 0, 'cannot be made there (Permission denied)', user=65534)
        except PermissionError: # the command itself is where others may not go
            return
        for change, text in (({'audit': '.'}, 'cannot be written in (Permission denied)'),
                             ({'log': {'file': 'party-1.json'}}, 'cannot be written (Permission denied)')):
            job.config[0].pop('audit', None)
            job.config[0].update({'store': 'given', **change})
            job.write(0)
            check_refuses(case, 0, text, user=65534)


def in_use(case):
    """A port that somebody has: the same status for both kinds, and what to look at."""
    job = case.job(over='tcp', changes={0: {'status': '127.0.0.1:0'}})
    with socket.socket() as taken:
        host = job.config[0]['parties'][0]['address'].removeprefix('tcp:')
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1) # of connections that an earlier case had there
        taken.bind((host, 7100))
        taken.listen()
        for member in ('parties[].address', 'status'):
            job.start(0)
            job.wait(lambda: not job.alive(0), 'it ends')
            line = job.parties[0].err.strip().split('\n')[-1]
            assert job.parties[0].ended == 1 and f'party-0.json: {member}: ' in line and 'run already?' in line, job.show()
            job.config[0]['status'] = f'anywhere:{host}:7100'
            job.write(0)
    job.end()


def texts(case):
    """Messages name the file, the path as one would write it, and what the environment did; each line is one write."""
    job = case.job()
    os.makedirs(f'{case.directory}/below')

    def party(config, status=2, **env):
        reading, writing = os.pipe2(os.O_DIRECT) # a packet for each write
        ended = subprocess.run([os.path.abspath(case.a.uvcc), 'party', '--config', config, '--check'], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=writing, timeout=60, env={**os.environ, **env},
                               cwd=case.directory, check=False)
        os.close(writing)
        lines = list(iter(lambda: os.read(reading, 65536).decode(), ''))
        os.close(reading)
        assert ended.returncode == status and all(line.endswith('\n') and line.count('\n') == 1 for line in lines), lines
        return ''.join(lines)

    said = party('below')
    assert said == "uvcc party: below: is a directory; name the configuration's file in it\n", said
    job.config[0].update(identity='../identity-0.key', data={'file': 'none.csv'})
    with open(f'{case.directory}/below/job.json', 'w') as f:
        json.dump(job.config[0], f)
    said = party('below/job.json')
    assert said.startswith('uvcc party: below/job.json: ') and 'below/none.csv' in said and '//' not in said, said
    job.config[0]['data'] = {'file': case.a.data}
    job.config[0]['identity'] = 'identity-0.key'
    job.write(0)
    said = party('party-0.json', UVCC_R='2')
    assert 'UVCC_R=2 in the environment' in said, said
    assert 'in the environment' not in party('party-0.json', 0, UVCC_R='1'), said
    for run, text in (({'kind': 'nonlinear', 'inputs': 0}, 'job.run.inputs'), ({'kind': 'transformer'}, 'text'),
                      ({'kind': 'generate'}, 'job.run.model')):
        job.config[0]['job']['run'] = run
        job.config[0].pop('data', None)
        job.write(0)
        said = party('party-0.json')
        assert said.startswith('uvcc party: party-0.json: ') and text in said, said


def computing(case):
    """--check says where jobs run: by the option, the file, the environment, in this order; and what cannot be."""
    job = case.job()

    def party(*more, **env):
        ended = subprocess.run([os.path.abspath(case.a.uvcc), 'party', '--config', 'party-0.json', '--check', *more],
                               capture_output=True, text=True, timeout=60, env={**os.environ, **env}, cwd=case.directory,
                               check=False)
        line = [line.split(maxsplit=1)[1] for line in ended.stdout.splitlines() if line.startswith('compute ')]
        return (ended.returncode, line[0] if line else ended.stderr)

    def config(**members):
        job.config[0].update(members)
        job.write(0)

    assert party() == (0, 'threads, 2 for each worker'), party()
    assert party('--compute', 'inline') == (0, 'inline'), party('--compute', 'inline')
    assert party(UVCC_FSS_BACKEND='cpu', UVCC_GPU_BYTES='1GiB') == (0, 'threads, 2 for each worker')
    status, said = party(UVCC_FSS_BACKEND='cuda')
    assert status == 2 and 'party-0.json: UVCC_FSS_BACKEND=cuda in the environment: give' in said, said
    status, said = party('--device', '1')
    assert status == 2 and '--device does nothing without --compute gpu' in said, said
    # There may be a card here; that there is none is said in words.
    for more, env in ((['--compute', 'gpu', '--device', '0'], {}), ([], {'UVCC_FSS_BACKEND': 'gpu', 'UVCC_GPU_ID': '0'})):
        status, said = party(*more, UVCC_GPU_BYTES='2GiB', **env)
        assert (status == 0 and said == 'gpu, device 0, at most 2147.5 MB') or \
            (status == 2 and 'party-0.json: compute: "gpu": ' in said and 'to do without' in said), said
    config(compute='inline', threads=1)
    assert party(UVCC_FSS_BACKEND='gpu') == (0, 'inline')
    assert party('--compute', 'threads') == (0, 'threads, 1 for each worker')
    config(compute='gpu')
    job.config[0]['job'].update(run={'kind': 'transformer', 'text_bytes': 300, 'reveal': True}, replicas=2)
    config(data={'text': case.a.data})
    status, said = party()
    assert (status == 0 and said == 'gpu, by local rank') or (status == 2 and 'to do without' in said), said
    status, said = party('--device', '0')
    assert status == 2 and ('device: 0 is for one worker' in said or 'to do without' in said), said
    del job.config[0]['compute']
    config()
    status, said = party(UVCC_FSS_BACKEND='auto')
    assert 'gpu' not in said, said


def sealed_beside(case):
    """Threads that seal are the party's own affair: it cuts its messages into more frames, and the weights are the same."""
    run = {**RUN, 'hidden': [64], 'batch': 512}
    frames, weights = [], []
    for threads in (0, 3):
        job = Job(case.a.uvcc, case.directory, run, 'unix', {0: {'file': case.a.data}, 1: {'file': case.a.data}}, changes={
            p: {'names': f'names-{p}', 'seal_threads': threads if p == 0 else 0, 'store': f'store-{threads}-{p}'} for p in range(3)})
        try:
            check = subprocess.run([job.uvcc, 'party', '--config', 'party-0.json', '--check'], cwd=case.directory, check=True,
                                   capture_output=True, text=True)
            said = "3 threads beside the process's own" if threads == 3 else "the process's own thread"
            assert f'seals            {said}\n' in check.stdout, check.stdout
            packets = {**job.config[0], 'parties': [{**q, 'address': address('udp', 0)} for q in job.config[0]['parties']]}
            with open(f'{case.directory}/packets.json', 'w') as f:
                json.dump(packets, f)
            check = subprocess.run([job.uvcc, 'party', '--config', 'packets.json', '--check'], cwd=case.directory, check=True,
                                   capture_output=True, text=True)
            assert "seals            the process's own thread\n" in check.stdout, check.stdout
            assert job.run() == [0, 0, 0], job.show()
        finally:
            job.end()
        weights.append({last_hash(process.out) for process in job.parties})
        counts = []
        for p in range(3):
            with open(f'{case.directory}/names-{p}') as f:
                counts.append(sum(line.startswith('frame ') for line in f))
            os.remove(f'{case.directory}/names-{p}')
        frames.append(counts)
    assert len(weights[0]) == 1 and weights[0] == weights[1], weights
    assert frames[0][1:] == frames[1][1:] and frames[1][0] > 1.2 * frames[0][0], frames


def predictions(case):
    """They come to the file of the party to which they open, whole although it was killed among them, and are those of
    one process; nobody else may name a file for them."""
    job = case.job(job={'checkpoint_every': 1}, changes={0: {'output': {'predictions': 'predictions.csv'}}})
    with open(case.a.data) as f:
        labels = [int(line.split(',')[-1]) for line in f]
    out = subprocess.run([case.a.uvcc, 'train', '--data', case.a.data, '--hidden', '16', '--batch', '32', '--epochs', '1',
                          '--json', '-'], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    want = json.loads(out.stdout)['test_accuracy']
    try:
        job.config[1]['output'] = {'predictions': 'mine.csv'}
        job.write(1)
        check_refuses(case, 1, 'open to party 0 alone')
        del job.config[1]['output']
        job.write(1)
        with open(f'{case.directory}/predictions.csv', 'w') as f:
            f.write('row,class\n1,1\n2,2\n') # of another job
        job.start(0, '--die-after-step', '45') # of 46; the last one opens the weights
        job.start(1)
        job.start(2)
        job.wait(lambda: not job.alive(0), 'party 0 is killed')
        job.start(0)
        assert job.finish() == [0, 0, 0], job.show()
        with open(f'{case.directory}/predictions.csv') as f:
            head, *lines = f.read().split('\n')
        assert head == 'row,class' and lines.pop() == '', lines
        rows = [[int(v) for v in line.split(',')] for line in lines]
        assert [row for row, _ in rows] == list(range(5, len(labels) + 1, 5)), rows
        right = sum(labels[row - 1] == said for row, said in rows)
        assert abs(right / len(rows) - want) < 1e-9, (right, len(rows), want)
    finally:
        job.end()


def round_trips(case):
    """They are said once they are measured, and stand on the page and among the metrics; Unix sockets have none."""
    for over in ('tcp', 'udp', 'unix'):
        pages = [f'unix:{case.directory}/{p}.page' for p in range(3)]
        job = case.job(over=over, changes={p: {'status': pages[p]} for p in range(3)})
        try:
            for p in range(3): # longer than the test
                job.config[p]['job']['run']['epochs'] = 200
                job.write(p)
                job.start(p)
            for p in range(3):
                job.wait(lambda: re.search(', round trips .*\n', job.parties[p].err), f'round trips over {over}')
                line = re.search(', round trips (.*)\n', job.parties[p].err)[1]
                said = re.findall(r'(\S+ ms|not measured) to party', line)
                assert len(said) == 2 and all((text == 'not measured') == (over == 'unix') for text in said), line
                assert all(float(text.split()[0]) > 0 for text in said if text != 'not measured'), line
                page = subprocess.run([case.a.uvcc, 'status', '--json', pages[p]], check=True, capture_output=True, text=True)
                peers = json.loads(page.stdout)['workers'][0]['peers']
                assert len(peers) == 2 and all((peer['rtt_ms'] > 0) == (over != 'unix') for peer in peers), page
                with socket.socket(socket.AF_UNIX) as s:
                    s.connect(pages[p][len('unix:'):])
                    s.sendall(b'GET /metrics HTTP/1.0\r\n\r\n')
                    metrics = b''.join(iter(lambda: s.recv(65536), b'')).decode()
                assert metrics.count('\nuvcc_peer_rtt_seconds{') == (0 if over == 'unix' else 2), metrics
        finally:
            job.end()
        for p in range(3):
            shutil.rmtree(f'{case.directory}/store-{p}')


CASES = [certificates, revoked, strangers, places, in_use, texts, computing, sealed_beside, predictions, full_disk, stopped, round_trips, audited,
         evidence_waits, no_core, own_alone, policies, differs, wrong_key, interrupted,
         done, killed_at_the_end, killed_before_the_result, missing]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument('--uvcc', required=True)
    ap.add_argument('--data', required=True, type=os.path.abspath)
    ap.add_argument('case', nargs='*')
    a = ap.parse_args()
    failed = []
    for test in CASES:
        if a.case and test.__name__ not in a.case:
            continue
        case = Case(a)
        try:
            test(case)
            print(f'{test.__name__}: as it should be', flush=True)
        except (AssertionError, SystemExit):
            traceback.print_exc(file=sys.stdout)
            failed.append(test.__name__)
        finally:
            shutil.rmtree(case.directory)
    if failed:
        print('failed:', *failed)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
