"""Collectives of a party's workers: in a run of two workers of each party, and by themselves."""
import time
import unittest

import numpy as np
import uvcc
from support import LIMIT_S
from uvcc import CollectiveActionKind, CollectiveOp, ErrorCode, EventKind, Opcode, Plane

RANKS = 2
IN_A, OUT_ALL, OUT_SUM = 1, 2, 3


def code_of(test, call, *args, **more):
    with test.assertRaises(uvcc.Error) as caught:
        call(*args, **more)
    return caught.exception.code


def program():
    """The workers' vectors, one behind the other, open at all of them; and the sum of their squares,
    of which each has its slice."""
    p = uvcc.Program()
    p.topology(1, 1, RANKS)
    a = p.tensor("A", (2, 2), bits=10)
    whole = p.tensor("ALL", (4, 2), bits=10)
    part = p.tensor("PART", (2, 2), bits=24, sharing=uvcc.Sharing.ADDITIVE)
    slice_ = p.tensor("SLICE", (1, 2), bits=25, sharing=uvcc.Sharing.ADDITIVE)
    total = p.tensor("SUM", (1, 2), bits=25)
    p.entry("both")
    p.input(IN_A, a, owner=1)
    p.op(Opcode.ALL_GATHER, [a], [whole], group=uvcc.Group.TP)
    p.op(Opcode.GEMM_PART, [a, a], [part])
    p.op(Opcode.REDUCE_SCATTER, [part], [slice_], group=uvcc.Group.TP)
    p.op(Opcode.RESHARE, [slice_], [total])
    p.output(OUT_ALL, whole)
    p.output(OUT_SUM, total)
    return p.finish()


class Workers:
    """Two triangles, the workers 0 and 1 of each party, and a collective for each party."""

    def __init__(self):
        made = program()
        identities = uvcc.provision()
        self.session = {}
        for rank in range(RANKS):
            for identity in identities:
                place = uvcc.Place(replicas=1, stages=1, tp_ranks=RANKS, tp_rank=rank)
                self.session[identity.party, rank] = uvcc.Session(
                    uvcc.Config(identity=identity, place=place), made)
        self.cpu = {at: uvcc.Cpu() for at in self.session}
        self.plane = [uvcc.Collective(tp_ranks=RANKS) for _ in identities]
        self.heard = {at: [] for at in self.session}
        for s in self.session.values():
            s.start()
            for peer in s.peers:
                s.peer_open(peer)

    def turn(self):
        for (party, rank), s in self.session.items():
            for done in (self.cpu[party, rank].poll, lambda: self.plane[party].poll(rank)):
                while (completion := done()) is not None:
                    s.complete(completion)
            if time.monotonic_ns() >= s.next_deadline():
                s.on_timer()
            self.heard[party, rank] += s.events()
            while (job := s.poll_job()) is not None:
                if job.plane == Plane.LOCAL:
                    self.plane[party].submit(rank, job)
                else:
                    self.cpu[party, rank].submit(job)
            while (tx := s.poll_transmit()) is not None:
                data = tx.tobytes()
                s.transmit_done(tx, len(data))
                self.session[tx.peer, rank].feed(s.party, data)

    def until(self, kind):
        end = time.monotonic() + LIMIT_S
        while not all(any(e.kind == kind for e in heard) for heard in self.heard.values()):
            if time.monotonic() > end:
                raise AssertionError(f"no {kind!r} in {LIMIT_S} s")
            self.turn()


class Runs(unittest.TestCase):
    def test_two_workers(self):
        w = Workers()
        values = [np.array([[1, -2], [3, 4]]), np.array([[5, 6], [-7, 8]])]
        w.until(EventKind.READY)
        for (party, rank), s in w.session.items():
            s.step(0, "both")
            if party == 1:
                s.input(0, IN_A, values[rank])
        w.until(EventKind.STEP_FINISHED)
        total = values[0] @ values[0] + values[1] @ values[1]
        for (party, rank), s in w.session.items():
            np.testing.assert_array_equal(s.output(0, OUT_ALL), np.concatenate(values))
            np.testing.assert_array_equal(s.output(0, OUT_SUM), total[rank:rank + 1])
            self.assertEqual(w.plane[party].pending(rank), 0)
        self.assertIsNone(w.plane[0].why)
        for s in w.session.values():
            s.close()
        w.until(EventKind.CLOSED)
        memory = [s._native for s in w.session.values()]
        for s in w.session.values():
            s.free()
        self.assertTrue(all(native.ptr is None for native in memory))  # no plane has a job's still

    def first_local(self, w):
        """A local job of party 0 that its plane has not had: of worker 0."""
        s, found = w.session[0, 0], []
        taken = w.plane[0].submit
        w.plane[0].submit = lambda rank, job: found.append((rank, job))
        for (party, rank), session in w.session.items():
            session.step(0, "both")
            if party == 1:
                session.input(0, IN_A, np.ones((2, 2), np.int64))
        end = time.monotonic() + LIMIT_S
        while not any(rank == 0 for rank, _ in found) and time.monotonic() < end:
            w.turn()
        w.plane[0].submit = taken
        self.assertEqual(s.party, 0)
        return next(job for rank, job in found if rank == 0)

    def test_wrong_use_and_the_end(self):
        w = Workers()
        w.until(EventKind.READY)
        job = self.first_local(w)
        tag = uvcc.CollectiveTag.of(job)
        self.assertIn((tag.op, tag.elems), [(CollectiveOp.ALL_GATHER, 8), (CollectiveOp.REDUCE_SCATTER, 4)])
        plane = w.plane[0]
        self.assertEqual(code_of(self, w.cpu[0, 0].submit, job), ErrorCode.USAGE)
        self.assertEqual(code_of(self, plane.submit, 2, job), ErrorCode.USAGE)
        self.assertEqual(code_of(self, plane.poll, -1), ErrorCode.USAGE)
        plane.submit(0, job)
        self.assertEqual(plane.pending(0), 1)
        self.assertIsNone(plane.poll(0))  # the other worker's has not come
        self.assertEqual(code_of(self, plane.submit, 0, job), ErrorCode.STATE)
        plane.fail()
        self.assertEqual(plane.poll(0), uvcc.Completion(job.id, job.cookie, ErrorCode.JOB))
        self.assertIsNotNone(plane.why)
        self.assertEqual(code_of(self, uvcc.CollectiveTag.of, job), ErrorCode.USAGE)

    def test_freed_while_a_job_is_out(self):
        w = Workers()
        w.until(EventKind.READY)
        job = self.first_local(w)
        w.plane[0].submit(0, job)
        memory = w.session[0, 0]._native
        w.session[0, 0].free()
        w.cpu[0, 0].free()
        self.assertIsNotNone(memory.ptr)  # it stays for the plane
        w.plane[0].free()
        self.assertIsNone(memory.ptr)
        self.assertEqual(code_of(self, w.plane[0].poll, 0), ErrorCode.CLOSED)


class Order(unittest.TestCase):
    def tag(self, k, **more):
        return uvcc.CollectiveTag(step=3, phase=uvcc.Phase.FWD, mb=0, k=k,
                                  op=CollectiveOp.ALL_GATHER, **{"elems": 8, **more})

    def issued(self, order):
        found = []
        while (action := order.poll()) is not None:
            found.append(action)
        return found

    def test_all_ranks_in_the_leaders_order(self):
        leader, other = uvcc.CollectiveOrder(0), uvcc.CollectiveOrder(1)
        leader.submit(self.tag(2), 20)
        leader.submit(self.tag(1), 10)
        other.submit(self.tag(1), 11)
        self.assertEqual(self.issued(other), [])
        actions = self.issued(leader)
        self.assertEqual([a.id for a in actions if a.kind == CollectiveActionKind.ISSUE], [20, 10])
        for a in actions:
            if a.kind == CollectiveActionKind.TOKEN:
                other.token(a.tag)
        self.assertEqual(self.issued(other), [])  # the first is not ready here
        other.submit(self.tag(2), 21)
        self.assertEqual([a.id for a in self.issued(other)], [21, 11])

    def test_who_disagrees_is_refused(self):
        leader, other = uvcc.CollectiveOrder(0), uvcc.CollectiveOrder(1)
        self.assertEqual(code_of(self, leader.token, self.tag(1)), ErrorCode.USAGE)
        leader.submit(self.tag(1), 1)
        self.assertEqual(code_of(self, leader.submit, self.tag(1), 2), ErrorCode.STATE)
        other.submit(self.tag(1, elems=9), 1)
        self.assertEqual(code_of(self, other.token, self.tag(1)), ErrorCode.MISMATCH)
        self.assertEqual(self.issued(other), [])


if __name__ == "__main__":
    unittest.main()
