"""What the tests of the package share: a small program, and three sessions driven in one thread."""
import time

import uvcc

IN_X, IN_W, OUT_Y = 1, 2, 3
X = [[1.5, -2.0, 0.25], [0.5, 1.0, -1.0]]
W = [[1.0, -0.5], [2.0, 0.25], [-4.0, 8.0]]
Y = [[0.0, 0.75], [6.5, 0.0]]
LIMIT_S = 30


def relu_program():
    p = uvcc.Program()
    x = p.tensor("X", (2, 3), bits=20, scale=16)
    w = p.tensor("W", (3, 2), bits=20, scale=16)
    z = p.tensor("Z", (2, 2), bits=26, scale=16)
    y = p.tensor("Y", (2, 2), bits=26, scale=16)
    d = p.tensor("D", (2, 2), bits=1)
    p.entry("relu(XW)")
    p.input(IN_X, x, owner=0)
    p.input(IN_W, w, owner=1)
    p.gemm(x, w, z, shift=16, name="Z = X W")
    p.relu(z, y, d, name="Y = relu(Z)")
    p.output(OUT_Y, y)
    return p.finish()


def sum_program():
    """A += B in each step, B of party 0; A opens to all."""
    p = uvcc.Program()
    a = p.tensor("A", (4, 4), bits=40, lifetime=uvcc.Lifetime.PERSIST)
    b = p.tensor("B", (4, 4), bits=30)
    p.entry("add")
    p.input(1, b, owner=0)
    p.add(a, b, a, phase=uvcc.Phase.UPD)
    p.output(2, a)
    return p.finish()


def configs(**groups):
    return [uvcc.Config(identity=identity, **groups) for identity in uvcc.provision()]


class Triangle:
    """Three parties in one thread; bytes go straight from one to the other."""

    def __init__(self, program, made=None, mode=uvcc.CpuMode.INLINE):
        self.sessions = [uvcc.Session(c, program) for c in made or configs()]
        self.cpus = [uvcc.Cpu(mode, threads=2) for _ in self.sessions]
        self.events = [[], [], []]
        for s in self.sessions:
            s.start()
            for peer in s.peers:
                s.peer_open(peer)

    def turn(self):
        for s, cpu, heard in zip(self.sessions, self.cpus, self.events):
            while (done := cpu.poll()) is not None:
                s.complete(done)
            if time.monotonic_ns() >= s.next_deadline():
                s.on_timer()
            heard += s.events()
            while (job := s.poll_job()) is not None:
                cpu.submit(job)
            while (tx := s.poll_transmit()) is not None:
                data = tx.tobytes()
                s.transmit_done(tx, len(data))
                self.sessions[tx.peer].feed(s.party, data)

    def until(self, kind, step=None):
        """Turns until all three have had such an event; the events."""
        end = time.monotonic() + LIMIT_S
        while True:
            found = [[e for e in heard if e.kind == kind and step in (None, e.step)]
                     for heard in self.events]
            if all(found):
                return [f[-1] for f in found]
            for heard in self.events:
                for e in heard:
                    if e.kind == uvcc.EventKind.ABORTED and kind != e.kind:
                        raise AssertionError(e)
            if time.monotonic() > end:
                raise AssertionError(f"no {kind!r} in {LIMIT_S} s")
            self.turn()

    def relu(self, step=0):
        for s in self.sessions:
            s.step(step, "relu(XW)")
        self.sessions[0].input(step, IN_X, uvcc.to_fixed(X, 16))
        self.sessions[1].input(step, IN_W, uvcc.to_fixed(W, 16))
        return self.until(uvcc.EventKind.STEP_FINISHED, step)

    def close(self):
        for s in self.sessions:
            s.close()
        self.until(uvcc.EventKind.CLOSED)
        for s in self.sessions:
            s.free()
        for cpu in self.cpus:
            cpu.free()
