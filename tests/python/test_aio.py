"""The host on asyncio over real sockets: connections that are cut, full, wrong or silent, TLS,
checkpoints, kill -9."""
import asyncio
import contextlib
import errno
import gc
import os
import random
import signal
import socket
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import zlib
from pathlib import Path

import numpy as np
import uvcc
from support import IN_W, IN_X, LIMIT_S, OUT_Y, W, X, Y, configs, relu_program, sum_program
from uvcc import ErrorCode, EventKind, aio
from uvcc.store import Store

INPUTS = {0: {IN_X: uvcc.to_fixed(X, 16)}, 1: {IN_W: uvcc.to_fixed(W, 16)}}


class Proxy:
    """Carries bytes to an address, and cuts connections after numbers of bytes drawn from a seed."""

    def __init__(self, path, target, seed, cuts, least=1, most=3000):
        self.path, self.target, self.cuts, self.made = path, target, cuts, 0
        self._random, self._range = random.Random(seed), (least, most)

    async def __aenter__(self):
        self._server = await asyncio.start_unix_server(self._serve, self.path)
        return self

    async def __aexit__(self, *_):
        self._server.close()

    async def _serve(self, reader, writer):
        self.made += 1
        left = [self._random.randint(*self._range) if self.cuts > 0 else 1 << 60]
        self.cuts -= 1
        try:
            there, back = await asyncio.open_unix_connection(self.target)
        except OSError:
            writer.close()
            return

        async def copy(source, sink):
            with contextlib.suppress(OSError):
                while (data := await source.read(65536)) and left[0] > 0:
                    sink.write(data[:left[0]])
                    left[0] -= len(data)
                    await sink.drain()
                    if left[0] <= 0:
                        break
            for w in (writer, back):
                w.transport.abort()  # what was written may be lost: a cut, not an end

        await asyncio.gather(copy(reader, back), copy(there, writer))


class Trial(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.dir = made.name

    def address(self, party):
        return f"unix:{self.dir}/p{party}"

    def host(self, config, program, **more):
        me = config.identity.party
        more.setdefault("peers", {p: self.address(p) for p in range(me)})
        if "server" not in more and me < 2:
            more.setdefault("listen", self.address(me))
        more.setdefault("retry_s", (0.001, 0.05))
        return aio.Host(uvcc.Session(config, program), **more)

    async def relu(self, config, program=None, steps=1, **more):
        async with self.host(config, program or relu_program(), **more) as host:
            await host.ready()
            for _ in range(steps):
                result = await host.step("relu(XW)", INPUTS.get(host.party))
                self.assertEqual(uvcc.from_fixed(result.outputs[OUT_Y], 16).tolist(), Y)
            await host.close()
            return host

    async def all(self, *parties):
        return await asyncio.wait_for(asyncio.gather(*parties), LIMIT_S)


class Streams(Trial):
    async def test_unix(self):
        hosts = await self.all(*(self.relu(c, steps=3) for c in configs()))
        self.assertEqual([h.session.stats().steps_finished for h in hosts], [3, 3, 3])
        self.assertEqual(os.listdir(self.dir), [], "its socket's file is gone")

    async def test_inline(self):
        await self.all(*(self.relu(c, cpu=uvcc.CpuMode.INLINE) for c in configs()))

    async def test_tcp_and_one_server_for_two_sessions(self):
        first, second = configs(), configs()
        async with aio.Server("tcp:127.0.0.1:0") as s0, aio.Server("tcp:[::1]:0") as s1:
            peers = {0: f"tcp:127.0.0.1:{s0.port}", 1: f"tcp:[::1]:{s1.port}"}
            await self.all(*(self.relu(c, server=[s0, s1, None][p], peers={q: peers[q] for q in range(p)})
                             for job in (first, second) for p, c in enumerate(job)))

    async def test_cut_in_the_middle(self):
        """Every connection is cut after some bytes, in the handshake too, 60 times."""
        made = configs()
        lost = 0
        async with contextlib.AsyncExitStack() as stack:
            proxies = [await stack.enter_async_context(
                Proxy(f"{self.dir}/x{i}", f"{self.dir}/p{to}", i, 20)) for i, to in enumerate((0, 0, 1))]
            peers = [{}, {0: f"unix:{self.dir}/x0"}, {0: f"unix:{self.dir}/x1", 1: f"unix:{self.dir}/x2"}]
            hosts = await self.all(*(self.relu(c, steps=25, peers=peers[p]) for p, c in enumerate(made)))
            self.assertTrue(all(p.made > 20 for p in proxies), [p.made for p in proxies])
            lost = sum(h.connections_lost for h in hosts)
        self.assertGreaterEqual(lost, 60)

    async def test_a_full_socket_holds_what_goes_there_and_nothing_else(self):
        """Party 0 reads nothing for a while: bytes for it wait in the session, not in a buffer without
        bound, and what the other two send each other goes on."""
        p = uvcc.Program()
        x, y = p.tensor("X", (1200, 1200), bits=30), p.tensor("Y", (1200, 1200), bits=31)
        p.entry("e")
        p.input(1, x, owner=2)
        p.add(x, x, y)
        p.output(2, y)
        p.finish()
        made, full = configs(), asyncio.Event()
        most = 0

        def started(event):
            if event.kind == EventKind.STEP_STARTED:
                for connection in hosts[0]._connections.values():
                    connection.transport.pause_reading()

        hosts = [self.host(c, p, on_event=started if c is made[0] else None) for c in made]

        async def party(host):
            nonlocal most
            async with host:
                await host.ready()
                if host.party == 0:
                    waits = asyncio.ensure_future(host.step())
                    await full.wait()
                    for connection in host._connections.values():
                        connection.transport.resume_reading()
                    result = await waits
                else:
                    sent = host._connections[0]
                    pause = sent.pause_writing
                    sent.pause_writing = lambda: (pause(), full.set())
                    give = {1: np.full((1200, 1200), 7)} if host.party == 2 else {}
                    waits = asyncio.ensure_future(host.step(0, give))
                    while not waits.done():
                        most = max(most, sent.transport.get_write_buffer_size())
                        await asyncio.sleep(0)
                    result = await waits
                self.assertTrue((result.outputs[2] == 14).all())
                await host.close()

        await self.all(*(party(h) for h in hosts))
        self.assertTrue(full.is_set())
        self.assertLess(most, aio.WRITE_HIGH + (64 << 16) + 65536)

    async def test_steps_that_wait_for_each_other(self):
        async def party(config):
            async with self.host(config, sum_program()) as host:
                await host.ready()
                host.session.set_public("A", np.zeros((4, 4), np.int64))
                give = {1: np.ones((4, 4), np.int64)} if host.party == 0 else {}
                results = await asyncio.gather(*(host.step("add", give) for _ in range(9)))
                self.assertEqual([int(r.outputs[2][0, 0]) for r in results], list(range(1, 10)))

        await self.all(*(party(c) for c in configs()))

    async def test_events(self):
        heard = []

        async def party(config):
            host = self.host(config, relu_program(), on_event=lambda e: heard.append((config, e.kind)))
            async with host:
                seen = []

                async def listen():
                    async for event in host.events():
                        seen.append(event.kind)

                task = asyncio.ensure_future(listen())
                await host.ready()
                await host.step(0, INPUTS.get(host.party))
                await host.close()
                await task
                self.assertEqual(seen[-1], EventKind.CLOSED)
                self.assertIn(EventKind.STEP_FINISHED, seen)

        await self.all(*(party(c) for c in configs()))
        self.assertEqual([k for _, k in heard].count(EventKind.CLOSED), 3)

    async def test_run(self):
        def make(config):
            def on_event(event):
                s = host.session
                if event.kind == EventKind.READY:
                    s.step(event.step)
                    for id, values in INPUTS.get(s.party, {}).items():
                        s.input(event.step, id, values)
                elif event.kind == EventKind.STEP_FINISHED:
                    results.append(uvcc.from_fixed(s.output(event.step, OUT_Y), 16).tolist())
                    s.close()

            host = self.host(config, relu_program(), on_event=on_event)
            return host

        results = []
        await self.all(*(make(c).run() for c in configs()))
        self.assertEqual(results, [Y] * 3)


class Wrong(Trial):
    async def test_calls(self):
        call = aio.encode_call(2, 0, 0x1122334455667788)
        self.assertEqual(call[:20].hex(), "55564331" "01020000" "8877665544332211" "00000000")
        self.assertEqual(call[20:], struct.pack("<I", zlib.crc32(call[:20])))
        self.assertEqual(aio.decode_call(call), (2, 0, 0x1122334455667788))
        for i in range(24):
            with self.assertRaises(uvcc.Error):
                aio.decode_call(call[:i] + bytes([call[i] ^ 1]) + call[i + 1:])
        for bad in (b"", call[:23], call + b"x"):
            with self.assertRaises(uvcc.Error):
                aio.decode_call(bad)

    async def test_strangers(self):
        """Scans, half calls, calls for nobody, of the wrong direction, and one that says nothing."""
        made = configs()
        sessions = [uvcc.Session(c, relu_program()) for c in made]
        tag = sessions[0].sid_tag
        server = aio.Server(self.address(0), call_s=0.2, pending_max=8)
        good = aio.encode_call(1, 0, tag)
        strange = [b"GET / HTTP/1.1\r\n\r\n", b"\0", good[:10], aio.encode_call(1, 0, tag ^ 1),
                   aio.encode_call(2, 1, tag), aio.encode_call(0, 2, tag), good[:23] + b"!", b"U" * 100]

        async def stranger(data):
            reader, writer = await asyncio.open_unix_connection(self.dir + "/p0")
            writer.write(data)
            with contextlib.suppress(ConnectionError):
                self.assertEqual(await reader.read(), b"")
            writer.close()

        async with server:
            hosts = [aio.Host(s, server=server if p == 0 else None, listen=self.address(1) if p == 1 else None,
                              peers={q: self.address(q) for q in range(p)}) for p, s in enumerate(sessions)]

            async def party(host):
                async with host:
                    await host.ready()
                    await asyncio.gather(*(stranger(d) for d in strange * 5)) if host.party == 0 else None
                    result = await host.step(0, INPUTS.get(host.party))
                    self.assertEqual(uvcc.from_fixed(result.outputs[OUT_Y], 16).tolist(), Y)
                    await host.close()

            await self.all(*(party(h) for h in hosts), stranger(b""))
            self.assertGreaterEqual(server.refused, 40)
            self.assertEqual(len(server._pending), 0)

    async def test_a_server_that_ends_leaves_nobody_waiting(self):
        """Whatever a connection had come to when its server was closed, it is closed too, and not
        only when Python collects garbage."""
        gc.disable()
        self.addCleanup(gc.enable)
        for tls in (None, ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)):
            for turns in range(8):
                server = aio.Server(self.address(0), tls and aio.Tls(tls, tls))
                await server.start()
                with socket.socket(socket.AF_UNIX) as caller:
                    caller.connect(f"{self.dir}/p0")
                    caller.setblocking(False)
                    for _ in range(turns):
                        await asyncio.sleep(0)  # the loop turns once
                    server.close()
                    for _ in range(8):
                        await asyncio.sleep(0)
                    try:
                        self.assertEqual(caller.recv(1), b"")
                    except BlockingIOError:
                        self.fail(f"a connection stays open: {turns} turns, {tls}")
                    except ConnectionError:
                        pass
                self.assertFalse(server._pending)

    async def test_a_family_that_is_switched_off(self):
        """'*' listens at the addresses that there are; one that was named must be there."""
        bind = socket.socket.bind

        def no_ipv6(sock, at):
            if sock.family == socket.AF_INET6:
                raise OSError(errno.EADDRNOTAVAIL, "not here")
            bind(sock, at)

        with unittest.mock.patch.object(socket.socket, "bind", no_ipv6):
            async with aio.Server("tcp:*:0") as server:
                self.assertEqual([s.family for s in server._listeners], [socket.AF_INET])
                self.assertNotEqual(server.port, 0)
            with self.assertRaisesRegex(OSError, "cannot listen at"):
                await aio.Server("tcp:[::1]:0").start()

    async def test_who_is_cancelled_twice_ends_too(self):
        """Once in its work, and once while its peers hear of it: it listens no more, and its threads
        have ended."""
        made = []

        async def party():
            async with self.host(configs()[0], relu_program()) as host:
                made.append(host)
                await host.ready()

        task = asyncio.create_task(party())
        while not made:
            await asyncio.sleep(0)
        hearing = asyncio.Event()
        made[0]._drain = made[0]._abort = lambda *_: hearing.set()
        task.cancel()
        await asyncio.wait_for(hearing.wait(), LIMIT_S)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        with self.assertRaises(OSError), socket.socket(socket.AF_UNIX) as caller:
            caller.connect(f"{self.dir}/p0")
        self.assertTrue(made[0]._cpu.freed)

    async def test_who_takes_a_peers_place_only_delays(self):
        """Without TLS anybody may call in a peer's name: the peer dials again, and is back."""
        made = configs()
        tag = uvcc.Session(made[0], relu_program()).sid_tag

        async def intruder():
            for _ in range(20):
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_unix_connection(self.dir + "/p0")
                    writer.write(aio.encode_call(1, 0, tag) + os.urandom(64))
                    await asyncio.sleep(0.005)
                    writer.close()
                await asyncio.sleep(0.005)

        hosts = await self.all(*(self.relu(c, steps=10) for c in made), intruder())
        self.assertEqual(len(hosts), 4)

    async def test_an_exception_ends_all_three(self):
        async def party(config):
            async with self.host(config, relu_program()) as host:
                await host.ready()
                if host.party == 1:
                    raise KeyError("mine")
                await host.step(0, INPUTS.get(host.party))

        results = await asyncio.wait_for(asyncio.gather(*(party(c) for c in configs()),
                                                        return_exceptions=True), LIMIT_S)
        self.assertIsInstance(results[1], KeyError)
        for p in (0, 2):
            self.assertIsInstance(results[p], uvcc.Aborted)
            self.assertEqual(results[p].reason, uvcc.AbortReason.PEER)

    async def test_who_calls_before_the_host_heard_of_the_end(self):
        """A session that was aborted a moment ago: the calls of its host say why all the same."""
        async def party(config):
            async with self.host(config, relu_program()) as host:
                await host.ready()
                step, abort = host.session.step, host.session.abort
                if host.party == 1:
                    abort(uvcc.AbortReason.RESTARTED)  # and no turn yet
                elif host.party == 2:
                    host.session.step = lambda *a: (step(*a), abort(uvcc.AbortReason.RESTARTED))
                await host.step(0, {IN_X: INPUTS[0][IN_X]} if host.party == 2 else {})

        made = configs()
        for alone in (1, 2):
            done = await asyncio.wait_for(asyncio.gather(
                *(party(c) if p == alone else self.relu(c) for p, c in enumerate(made)),
                return_exceptions=True), LIMIT_S)
            self.assertIsInstance(done[alone], uvcc.Aborted, done)
            self.assertEqual(done[alone].reason, uvcc.AbortReason.RESTARTED)

    async def test_an_event_handler_that_raises(self):
        def on_event(event):
            if event.kind == EventKind.STEP_STARTED:
                raise ZeroDivisionError

        made = configs()
        hosts = [self.host(c, relu_program(), on_event=on_event if p == 2 else None)
                 for p, c in enumerate(made)]

        async def party(host):
            async with host:
                await host.ready()
                await host.step(0, INPUTS.get(host.party))

        tasks = [asyncio.ensure_future(party(h)) for h in hosts]
        with self.assertRaises(ZeroDivisionError):
            await asyncio.wait_for(tasks[2], LIMIT_S)
        for task in tasks[:2]:
            task.cancel()
        done = await asyncio.wait_for(asyncio.gather(*tasks[:2], return_exceptions=True), LIMIT_S)
        self.assertTrue(all(isinstance(e, BaseException) for e in done))

    async def test_cancelled_steps(self):
        async def party(config):
            async with self.host(config, relu_program()) as host:
                await host.ready()
                if host.party == 1:
                    number = host.next_step
                    _, finished = await host.agree(0)  # without its input: it would wait for ever
                    host.session.cancel(number)
                    host.wake()
                    with self.assertRaises(aio.Cancelled):
                        await finished
                else:
                    with self.assertRaises(aio.Cancelled):
                        await host.step(0, INPUTS.get(host.party))
                result = await host.step(0, INPUTS.get(host.party))
                self.assertEqual(uvcc.from_fixed(result.outputs[OUT_Y], 16).tolist(), Y)

        await self.all(*(party(c) for c in configs(resume=uvcc.Resume(cancellable=1))))

    async def test_wrong_use(self):
        made = configs()
        session = uvcc.Session(made[1], relu_program())
        for bad in ({}, {"peers": {0: "tcp:x"}}, {"peers": {0: "tcp:*:1"}, "listen": "unix:/x"},
                    {"peers": {0: "unix:/x"}}, {"peers": {0: "unix:/x"}, "listen": "udp:x:1"}):
            with self.assertRaises(uvcc.Error):
                aio.Host(session, **bad)
        for bad in ("", "tcp:", "tcp:h", "tcp:h:65536", "tcp:h:-1", "unix:x", "tcp:[::1:5", "tcp:::1:5"):
            with self.assertRaises(uvcc.Error, msg=bad):
                aio.Address.parse(bad)
        self.assertEqual(aio.Address.parse("tcp:[2001:db8::1]:5"), aio.Address("2001:db8::1", 5, None))

    async def test_a_host_that_is_left_alone_ends(self):
        async with self.host(configs()[0], relu_program()) as host:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(host.ready(), 0.05)
            host.session.config.limits.close_ns = 1
        self.assertTrue(host._cpu.freed)


class Secured(Trial):
    def certificates(self, names):
        def openssl(*args):
            subprocess.run(["openssl", *args], cwd=self.dir, check=True, capture_output=True)

        try:
            openssl("req", "-x509", "-newkey", "ed25519", "-nodes", "-keyout", "ca.key", "-out", "ca.pem",
                    "-days", "2", "-subj", "/CN=test")
        except OSError:
            self.skipTest("no openssl")
        for i, name in enumerate(names):
            Path(self.dir, "ext").write_text(f"subjectAltName=DNS:{name}\n")
            openssl("req", "-newkey", "ed25519", "-nodes", "-keyout", f"{i}.key", "-out", f"{i}.csr",
                    "-subj", "/CN=x")
            openssl("x509", "-req", "-in", f"{i}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                    "-CAcreateserial", "-out", f"{i}.pem", "-days", "2", "-extfile", "ext")
        return [aio.Tls.load(*(f"{self.dir}/{f}" for f in (f"{i}.pem", f"{i}.key", "ca.pem")))
                for i in range(len(names))]

    async def test_tls(self):
        tls = self.certificates(["party-0", "party-1", "party-2"])
        hosts = await self.all(*(self.relu(c, steps=3, tls=tls[p]) for p, c in enumerate(configs())))
        self.assertEqual([h.connections_lost for h in hosts if h.connections_lost > 2], [])

    async def test_who_is_another(self):
        """Party 1 shows the certificate of party 2: nobody speaks with it."""
        tls = self.certificates(["party-0", "party-2", "party-2"])
        made = configs()
        heard = []
        hosts = [self.host(c, relu_program(), tls=tls[p],
                           on_event=lambda e: heard.append(e)) for p, c in enumerate(made)]
        async with hosts[0], hosts[1]:
            end = asyncio.get_running_loop().time() + LIMIT_S
            while hosts[0]._own_server.refused < 5:
                self.assertLess(asyncio.get_running_loop().time(), end)
                await asyncio.sleep(0.01)
            self.assertFalse(hosts[0].session.peer_info(1).hello)
            for h in hosts[:2]:
                h.session.abort()
                h.wake()

    async def test_who_is_slow_to_secure_takes_no_more_room(self):
        """Connections that say nothing of TLS count as those that have not called."""
        tls = self.certificates(["party-0", "party-1"])
        async with aio.Server(self.address(0), tls[0], pending_max=4, call_s=LIMIT_S) as server:
            async def caller(**more):
                return await asyncio.open_unix_connection(self.dir + "/p0", **more)

            silent = [await caller() for _ in range(12)]
            for reader, _ in silent[:8]:
                with contextlib.suppress(ConnectionError):
                    self.assertEqual(await asyncio.wait_for(reader.read(), LIMIT_S / 2), b"")
            self.assertEqual((len(server._pending), server.refused), (4, 8))
            good = await caller(ssl=tls[1].client, server_hostname="party-0")
            self.assertFalse(good[1].is_closing())
            for _, writer in [*silent, good]:
                writer.close()
            while server._pending:
                await asyncio.sleep(0)

    async def test_plaintext_is_refused(self):
        tls = self.certificates(["party-0"])
        async with aio.Server(self.address(0), tls[0], call_s=2):
            reader, writer = await asyncio.open_unix_connection(self.dir + "/p0")
            writer.write(aio.encode_call(1, 0, 5))
            with contextlib.suppress(ConnectionError):
                await asyncio.wait_for(reader.read(), LIMIT_S)
            writer.close()


class Checkpoints(Trial):
    async def test_going_on(self):
        """Three hosts end without a word, again and again: the sums go on as if nothing was."""
        identities = uvcc.provision()
        rng = random.Random(3)

        async def party(identity, steps):
            with Store(f"{self.dir}/store{identity.party}") as store:
                config = uvcc.Config(identity=identity, resume=uvcc.Resume(
                    checkpoint_every=2, next_run=store.next_run()))
                host = self.host(config, sum_program(), store=store)
                await host.__aenter__()
                try:
                    first = await host.ready()
                    if host.fresh:
                        host.session.set_public("A", np.zeros((4, 4), np.int64))
                    result = None
                    for step in range(first, first + steps):
                        give = {1: np.full((4, 4), 2**step)} if host.party == 0 else {}
                        result = await host.step("add", give)
                        self.assertEqual(int(result.outputs[2][1, 1]), 2**(step + 1) - 1)
                    self.assertLessEqual(len(store.checkpoints()), 4)
                    return first
                finally:
                    await host._stop()  # no BYE: as if it had been killed, but that sockets close

        firsts = []
        for _ in range(6):
            steps = rng.randrange(1, 6)
            got = await self.all(*(party(i, steps) for i in identities))
            self.assertEqual(len(set(got)), 1)
            firsts.append(got[0])
        self.assertEqual(firsts, sorted(firsts))
        self.assertGreater(firsts[-1], 6)

    async def test_a_step_is_agreed_to_when_the_checkpoint_is_kept(self):
        """Rule 1 of docs/host.md, with steps asked for ahead and a disk that is slow."""
        class Slow(Store):
            def write(self, step, data):
                gate.wait(0.02)  # an event that never comes
                super().write(step, data)
                durable[self].add(step)

        async def party(config, every):
            store = Slow(f"{self.dir}/store{every}-{config.identity.party}")
            durable[store] = set()
            host = self.host(config, sum_program(), store=store)
            agree = host.session.step

            def step(number, entry):
                due = (number - every) // every * every
                if due >= 0:
                    self.assertIn(due, durable[store])
                agree(number, entry)

            host.session.step = step
            async with host:
                await host.ready()
                host.session.set_public("A", np.zeros((4, 4), np.int64))
                give = {1: np.ones((4, 4), np.int64)} if host.party == 0 else {}
                results = await asyncio.gather(*(host.step("add", give) for _ in range(9)))
                self.assertEqual(int(results[-1].outputs[2][0, 0]), 9)

        gate, durable = threading.Event(), {}
        for every in (1, 2, 3):
            made = configs()
            for c in made:
                c.resume = uvcc.Resume(checkpoint_every=every)
            await self.all(*(party(c, every) for c in made))

    async def test_a_disk_that_is_full(self):
        class Full(Store):
            def write(self, step, data):
                raise OSError(28, "No space left on device")

        async def party(config, store):
            async with self.host(config, sum_program(), store=store) as host:
                await host.ready()
                host.session.set_public("A", np.zeros((4, 4), np.int64))
                for _ in range(9):
                    await host.step("add", {1: np.ones((4, 4), np.int64)} if host.party == 0 else {})

        made = configs(resume=uvcc.Resume(checkpoint_every=1))
        stores = [(Full if p == 1 else Store)(f"{self.dir}/store{p}") for p in range(3)]
        tasks = [asyncio.ensure_future(party(c, s)) for c, s in zip(made, stores)]
        with self.assertRaises(OSError):
            await asyncio.wait_for(tasks[1], LIMIT_S)
        for task in (tasks[0], tasks[2]):
            task.cancel()
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), LIMIT_S)
        self.assertLessEqual(max([0, *stores[0].checkpoints()]), 3, "the others waited for it")

    async def test_store(self):
        path = f"{self.dir}/s"
        with Store(path) as store:
            with self.assertRaises(uvcc.Error) as caught:
                Store(path)
            self.assertEqual(caught.exception.code, ErrorCode.STATE)
            self.assertEqual([store.next_run() for _ in range(3)], [0, 1, 2])
            for step in (0, 2, 4):
                store.write(step, b"%d" % step)
            self.assertEqual(store.read(2), b"2")
            store.remove_up_to(2)
            self.assertEqual(store.checkpoints(), [4])
            store.remove_up_to(9)
            self.assertEqual(store.checkpoints(), [4], "the last one stays")
            self.assertEqual({p.stat().st_mode & 0o77 for p in Path(path).iterdir()}, {0})
            for bad in ("", "x\n", "3", "4294967295\n"):
                Path(path, "run").write_text(bad)
                with self.assertRaises(uvcc.Error):
                    store.next_run()
            Path(path, "run").unlink()
            with self.assertRaises(uvcc.Error):
                store.next_run()
        sealed = Store(f"{self.dir}/t", seal=lambda b: b[::-1], unseal=lambda b: b[::-1])
        sealed.write(1, b"abc")
        self.assertEqual(Path(self.dir, "t", "step-1.checkpoint").read_bytes(), b"cba")
        self.assertEqual(sealed.read(1), b"abc")
        sealed.close()

    async def test_kill_9(self):
        """Three processes, of which one is killed again and again; the last sums are right."""
        env = {**os.environ, "UVCC_TEST_KEYS": ":".join(
            "".join(x.hex() for x in (i.sid_job, *i.pair_secret, i.sign_seed, *i.peer_sign_key))
            for i in uvcc.provision())}
        script, steps, rng = str(Path(__file__).with_name("party.py")), 60, random.Random(11)

        async def start(p):
            return await asyncio.create_subprocess_exec(
                sys.executable, "-B", script, self.dir, str(p), str(steps), env=env,
                stdout=asyncio.subprocess.PIPE)

        def progress():
            return sum(int((Path(self.dir) / f"done{p}").read_text() or 0) for p in range(3)
                       if (Path(self.dir) / f"done{p}").exists())

        parties = [await start(p) for p in range(3)]
        try:
            for k in range(5):
                end = asyncio.get_running_loop().time() + LIMIT_S
                while progress() < 10 * (k + 1):  # it got on since the last time
                    self.assertLess(asyncio.get_running_loop().time(), end)
                    await asyncio.sleep(0.005)
                p = rng.randrange(3)
                if parties[p].returncode is None:
                    parties[p].send_signal(signal.SIGKILL)
                    await parties[p].wait()
                    parties[p] = await start(p)
            (Path(self.dir) / "last").touch()
            lines = await asyncio.wait_for(asyncio.gather(*(x.communicate() for x in parties)), LIMIT_S)
            self.assertEqual([out.decode().split()[0] for out, _ in lines], [str(2 * steps)] * 3)
            self.assertEqual([x.returncode for x in parties], [0, 0, 0])
        finally:
            for x in parties:
                if x.returncode is None:
                    x.kill()
                    await x.wait()


if __name__ == "__main__":
    unittest.main()
