"""Bare links: two ends in one thread, over a stream and over datagrams that lose packets."""
import random
import unittest

import uvcc
from uvcc import ErrorCode, FrameKind

MS = 1_000_000
KIND = FrameKind.OPEN_BATCH


def code_of(test, call, *args, **more):
    with test.assertRaises(uvcc.Error) as caught:
        call(*args, **more)
    return caught.exception.code


class Pair:
    """Parties 0 and 1; time is a number."""

    def __init__(self, sealed=True, lossy=0.0, **config):
        self.now = 0
        self.random = random.Random(5)
        self.lossy = lossy
        self.lost = 0
        self.ends = []
        for me in (0, 1):
            link = uvcc.Link(uvcc.LinkConfig(me=me, peer=1 - me, sid_tag=77, **config), random_seed=3)
            link.set_run(2)
            if sealed:
                link.set_keys(uvcc.Suite.SUITE_CHACHA20_POLY1305, b"k" * 32)
            link.stream_opened(0)
            link.start(0)
            self.ends.append(link)

    def move(self, end):
        """All that one end has to send now."""
        moved = False
        while (tx := self.ends[end].poll_transmit(self.now)) is not None:
            data = tx.tobytes()
            self.ends[end].transmit_done(tx, len(data), self.now)
            if self.random.random() < self.lossy:
                self.lost += 1
            else:
                self.ends[1 - end].feed(data, self.now)
            moved = True
        return moved

    def run(self, until):
        """Until a condition holds: bytes move, and where none do time goes on."""
        for _ in range(10000):
            if until():
                return
            if self.move(0) | self.move(1):
                continue
            self.now = max(self.now + 1, min(e.next_deadline() for e in self.ends))
            for e in self.ends:
                e.on_timer(self.now)
        raise AssertionError("no end")

    def take(self, end, got):
        """Every message there is, accepted and released."""
        while (m := self.ends[end].poll_message()) is not None:
            self.ends[end].accept(m, self.now)
            self.ends[end].release(m, self.now)
            got.append(m)
        return got


class Links(unittest.TestCase):
    def test_messages_both_ways(self):
        for more in ({}, {"sealed": False}, {"datagram": True}, {"datagram": True, "lossy": 0.3}):
            with self.subTest(**more):
                pair = Pair(**more)
                sent = [bytes([i]) * (i * 1000) for i in range(20)]
                for i, data in enumerate(sent):
                    pair.ends[0].send(KIND, data, op_id=i, msg_ids=[1000 + i], now=0)
                pair.ends[1].send(FrameKind.STEP, b"back", now=0)
                got, back = [], []
                pair.run(lambda: len(pair.take(1, got)) == 20 and len(pair.take(0, back)) == 1
                         and all(e.settled for e in pair.ends))
                by_op = sorted(got, key=lambda m: m.op_id)
                self.assertEqual([m.data for m in by_op], sent)
                self.assertEqual([m.msg_ids for m in by_op], [(1000 + i,) for i in range(20)])
                self.assertEqual([(m.kind, m.data) for m in back], [(FrameKind.STEP, b"back")])
                stats = pair.ends[0].stats()
                self.assertEqual(stats.messages_tx, 20)
                self.assertEqual(stats.retransmissions > 0, pair.lost > 0)
                self.assertEqual(pair.ends[0].heard, more.get("sealed", True))
                self.assertIsNone(pair.ends[1].violation)
                self.assertTrue(pair.ends[1].gapless)
                self.assertLessEqual(stats.memory_bytes, pair.ends[0].memory_bound)

    def test_what_is_not_accepted_is_not_acknowledged(self):
        pair = Pair()
        pair.ends[0].send(KIND, b"m", now=0)
        found = []
        pair.run(lambda: found or found.extend(filter(None, [pair.ends[1].poll_message()])))
        while pair.move(0) | pair.move(1):
            pass
        self.assertFalse(pair.ends[0].drained)
        pair.ends[1].accept(found[0], pair.now)
        pair.ends[1].release(found[0], pair.now)
        self.assertEqual(code_of(self, pair.ends[1].release, found[0], pair.now), ErrorCode.USAGE)
        pair.run(lambda: pair.ends[0].drained)

    def test_a_new_stream_goes_on(self):
        pair = Pair()
        pair.ends[0].send(KIND, b"m" * 5000, now=0)
        tx = pair.ends[0].poll_transmit(0)
        for e in pair.ends:
            e.stream_closed(0)
        self.assertEqual(code_of(self, tx.tobytes), ErrorCode.STATE)
        self.assertEqual(code_of(self, pair.ends[0].transmit_done, tx, 1, 0), ErrorCode.STATE)
        self.assertIsNone(pair.ends[0].poll_transmit(0))
        for e in pair.ends:
            e.stream_opened(0)
        got = []
        pair.run(lambda: pair.take(1, got))
        self.assertEqual(got[0].data, b"m" * 5000)

    def test_hellos(self):
        pair = Pair()
        self.assertIsNone(pair.ends[1].poll_hello())
        pair.ends[0].send_hello(b"hello")
        pair.move(0)
        self.assertEqual(pair.ends[1].poll_hello(), (b"hello", False))
        pair.ends[0].send_hello(b"sealed", sealed=True)
        pair.move(0)
        self.assertEqual(pair.ends[1].poll_hello(), (b"sealed", True))

    def test_refusals(self):
        for bad in ({"me": 1, "peer": 1}, {"me": 3, "peer": 0}, {"peer": 1, "frame_bytes": 1},
                    {"peer": 1, "congestion": 9}):
            self.assertEqual(code_of(self, uvcc.Link, uvcc.LinkConfig(**bad)), ErrorCode.CONFIG)
        link = uvcc.Link(uvcc.LinkConfig(me=0, peer=1))
        self.assertEqual(code_of(self, link.start, 0), ErrorCode.STATE)
        self.assertEqual(code_of(self, link.set_keys, uvcc.Suite.SUITE_CHACHA20_POLY1305, b"short"),
                         ErrorCode.USAGE)
        link.set_run(0)
        self.assertEqual(code_of(self, link.set_run, 1), ErrorCode.STATE)
        self.assertEqual(code_of(self, link.send, KIND, b"x", msg_ids=[1, 2]), ErrorCode.USAGE)
        self.assertEqual(code_of(self, link.send_hello, b"x" * 9999), ErrorCode.USAGE)
        self.assertEqual(code_of(self, link.feed, b"x", 0, ce=True), ErrorCode.USAGE)
        link.reset()
        link.set_run(1)
        link.free()
        link.free()
        self.assertEqual(code_of(self, link.on_timer, 0), ErrorCode.CLOSED)

    def test_limits(self):
        pair = Pair(tx_online_bytes=3000)
        self.assertEqual(code_of(self, pair.ends[0].send, KIND, b"x" * 9000, now=0), ErrorCode.LIMIT)
        pair.ends[0].send(KIND, b"x" * 2000, now=0)
        self.assertFalse(pair.ends[0].writable(KIND, 2000))
        self.assertEqual(code_of(self, pair.ends[0].send, KIND, b"x" * 2000, now=0), ErrorCode.AGAIN)
        got = []
        pair.run(lambda: pair.take(1, got) and pair.ends[0].writable(KIND, 2000))

    def test_damage_breaks_a_stream(self):
        pair = Pair()
        self.assertEqual(code_of(self, pair.ends[1].feed, b"no frame at all" * 10, 0), ErrorCode.STREAM_BROKEN)


if __name__ == "__main__":
    unittest.main()
