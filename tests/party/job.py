"""Three processes of `uvcc party`: keys, configurations, starting, killing, what they say."""
import json
import os
import resource
import selectors
import signal
import subprocess
import time

WAIT_S = float(os.environ.get('UVCC_PARTY_WAIT_S', 240)) # for the next line of anybody; slow machines, sanitizers

SHOW, BEGAN = 'UVCC_PARTY_SHOW' in os.environ, time.monotonic()


def address(over, party):
    """Nobody else's: addresses of 127/8 are of this process's number; paths stand in its directory."""
    if over == 'unix':
        return f'unix:{party}.sock'
    pid = os.getpid()
    host = f'127.{pid >> 14 & 255}.{pid >> 6 & 255}.{(pid << 2 | party + 1) & 255}'
    return f'udp:{host}:7100' if over == 'udp' else f'tcp:{host}'


class Process:
    def __init__(self, command, directory, env):
        self.command, self.directory, self.env = command, directory, env
        self.starts, self.out, self.err, self.process, self.ended = 0, '', '', None, None
        self.limit = None # bytes of a file, if there is one

    def start(self, *more):
        self.process = subprocess.Popen(self.command + list(more), cwd=self.directory, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env={**os.environ, **self.env}, preexec_fn=self.limits)
        self.starts += 1
        self.ended = None

    def limits(self):
        if self.limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


class Job:
    """directory: a new one. run: the member job.run; changes: by party, what its file has instead."""

    def __init__(self, uvcc, directory, run, over='tcp', data=None, job=None, changes=None, options=(), env=None):
        self.uvcc, self.directory, self.over = os.path.abspath(uvcc), directory, over
        self.select = selectors.DefaultSelector()
        public = [self.keygen(f'identity-{p}.key') for p in range(3)]
        kind = 'tcp' if over in ('openssl', 'mbedtls') else over
        self.config = []
        for p in range(3):
            c = {'job': {'name': 'a test', **(job or {}), 'run': dict(run)}, 'party': p,
                 'parties': [{'address': address(kind, q), 'key': public[q]} for q in range(3)],
                 'identity': f'identity-{p}.key', 'store': f'store-{p}'}
            if data and p in data:
                c['data'] = data[p]
            if kind != over:
                c['tls'] = {'library': over, 'pair_keys': [None if q == p else self.pair(p, q) for q in range(3)]}
            c.update((changes or {}).get(p, {}))
            self.config.append(c)
            self.write(p)
        self.parties = [Process([self.uvcc, 'party', '--config', f'party-{p}.json', '--progress', *options], directory,
                                (env or {}).get(p, {})) for p in range(3)]

    def keygen(self, name, *more):
        path = f'{self.directory}/{name}'
        words = ['--public', path] if os.path.exists(path) else [*more, '--out', path]
        made = subprocess.run([self.uvcc, 'keygen', *words], check=True, stdout=subprocess.PIPE, text=True)
        return made.stdout.strip()

    def pair(self, p, q):
        name = f'pair-{min(p, q)}-{max(p, q)}.key'
        if not os.path.exists(f'{self.directory}/{name}'):
            self.keygen(name, '--pair')
        return name

    def write(self, p):
        with open(f'{self.directory}/party-{p}.json', 'w') as f:
            json.dump(self.config[p], f, indent=1)

    def start(self, p, *more):
        process = self.parties[p]
        process.start(*more)
        self.select.register(process.process.stdout, selectors.EVENT_READ, (p, 'out'))
        self.select.register(process.process.stderr, selectors.EVENT_READ, (p, 'err'))

    def kill(self, p, number=9):
        """SIGKILL, and what it said before is read."""
        process = self.parties[p]
        process.process.send_signal(number)
        if number == 9:
            process.process.wait()
            self.drain(p)

    def drain(self, p):
        while self.alive(p):
            self.hear(0.01)

    def hear(self, timeout):
        """Takes what was said, waiting for it at most so long; False: nothing."""
        ready = self.select.select(timeout)
        for key, _ in ready:
            if key.fileobj not in self.select.get_map():
                continue
            p, to = key.data
            process = self.parties[p]
            data = os.read(key.fd, 65536).decode(errors='replace')
            if data:
                if SHOW:
                    print(f'{time.monotonic() - BEGAN:.3f} {p}: {data.strip()}', flush=True)
                setattr(process, to, getattr(process, to) + data)
                continue
            self.forget_one(key.fileobj)
            if not self.alive(p):
                process.ended = process.process.wait()
        return bool(ready)

    def forget_one(self, f):
        self.select.unregister(f)
        f.close()

    def alive(self, p):
        """Some of its outputs are open still."""
        return any(key.data[0] == p for key in self.select.get_map().values())

    def wait(self, until, what):
        """Hears all until something is true."""
        end = time.monotonic() + WAIT_S
        while not until():
            if not self.hear(1) and time.monotonic() > end:
                self.show()
                raise SystemExit(f'no more is heard: {what}')
            if not self.select.get_map() and not until():
                self.show()
                raise SystemExit(f'all have ended: {what}')

    def run(self):
        """All three to their ends; their exit statuses."""
        for p in range(3):
            self.start(p)
        return self.finish()

    def finish(self):
        self.wait(lambda: not self.select.get_map(), 'the parties end')
        return [process.ended for process in self.parties]

    def end(self):
        for process in self.parties:
            if process.process is not None and process.process.poll() is None:
                process.process.kill()
                process.process.wait()
        for key in list(self.select.get_map().values()):
            self.forget_one(key.fileobj)

    def show(self):
        for p, process in enumerate(self.parties):
            print(f'--- party {p}, {process.starts} starts, ended with {process.ended}')
            print(process.out[-1500:])
            print(process.err[-3000:])


def last_hash(text):
    """Of the weights, as the last summary has it."""
    lines = [line.split()[-1] for line in text.splitlines() if line.startswith('weights sha256')]
    return lines[-1] if lines else None


def no_card(process):
    """What --compute gpu says where there is none: the test is skipped."""
    return 'compute: "gpu": ' in process.err


def disturb(job, rng, kills, steps):
    """Kills until enough are dead or somebody is done; how many were."""
    done = 0
    for p in range(3):
        job.start(p)
    while done < kills and not any(process.ended == 0 for process in job.parties):
        p = rng.randrange(3)
        if rng.random() < 0.5: # by itself, when it has finished so many steps
            if job.alive(p):
                job.kill(p)
                done += 1
            job.start(p, '--die-after-step', str(rng.randrange(1, steps + 1)))
            job.wait(lambda: not job.alive(p) or any(q.ended == 0 for q in job.parties), 'a party dies')
            done += job.parties[p].ended == -9
        else: # whatever it does then
            until = time.monotonic() + rng.random()
            while time.monotonic() < until and job.hear(max(0, until - time.monotonic())):
                pass
            if job.alive(p):
                job.kill(p)
                done += 1
        if not job.alive(p) and job.parties[p].ended != 0:
            job.start(p)
    return done


def changed(config, path, value):
    """A copy in which one member, named by its path, is another, or is not there."""
    copy = json.loads(json.dumps(config))
    at = copy
    for key in path[:-1]:
        at = at[key]
    if value is None:
        del at[path[-1]]
    else:
        at[path[-1]] = value
    return copy


class Service(Job):
    """The three parties, and clients, whose processes are in `clients`."""

    def __init__(self, *words):
        self.clients = []
        super().__init__(*words)

    def start_all(self):
        for p in range(3):
            self.start(p)

    def stop(self):
        """An interruption ends them in order."""
        for p in range(3):
            self.kill(p, signal.SIGTERM)
        codes = self.finish()
        assert codes == [130, 130, 130], codes

    def end(self):
        super().end()
        for process in self.clients:
            if process.poll() is None:
                process.kill()
            process.wait()
