"""A host on asyncio: byte streams over TCP, Unix sockets and TLS, that come back when they break.

    async with aio.Host(session, listen="tcp:*:7000",
                        peers={0: "tcp:alice.example:7000"}) as host:
        await host.ready()
        result = await host.step("run", {1: x})
        await host.close()

Of two parties the one of the higher index dials, to the address in `peers`; the other listens, by
`listen` or through a `Server` that several hosts share. The first 24 bytes of a connection, the
call, say who calls whom in which session. They prove nothing: the session's handshake does, and TLS
before it. Without TLS whoever reaches the port can take a peer's place for as long as that peer does
not dial again: a nuisance, not a breach; listen where peers are, or use TLS.

A host belongs to the loop that it was entered in; the calls of its session too. Jobs run in threads
of C unless `cpu` says otherwise."""
from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import random
import socket
import ssl
import stat
import struct
import time
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._api import NEVER, PARTIES, AbortReason, CpuMode, ErrorCode, Event, EventKind
from .compute import Cpu
from .errors import Aborted, Error, usage
from .session import Session, Transmit
from .store import Store
from .values import read_checkpoint

log = logging.getLogger("uvcc.aio")

CALL_BYTES = 24
WRITE_HIGH, WRITE_LOW = 1 << 20, 1 << 18
TURN_BYTES = 4 << 20
BACKLOG = 100
ACCEPT_AGAIN_S = 1.0
BEGUN = "begun"  # the mark of a store: nobody needs the first values any more


# ---- the call ----


def encode_call(caller: int, called: int, sid_tag: int) -> bytes:
    """The first message of a stream."""
    head = struct.pack("<4sBBBBQI", b"UVC1", 1, caller, called, 0, sid_tag, 0)
    return head + struct.pack("<I", zlib.crc32(head))


def decode_call(data: bytes) -> tuple[int, int, int]:
    """(caller, called, sid_tag). `Error` FRAME: it is no call."""
    if len(data) == CALL_BYTES and zlib.crc32(data[:20]) == struct.unpack("<I", data[20:])[0]:
        magic, version, caller, called, zero, tag, more = struct.unpack("<4sBBBBQI", data[:20])
        if (magic, version, zero, more) == (b"UVC1", 1, 0, 0) and caller != called and \
                max(caller, called) < PARTIES:
            return caller, called, tag
    raise Error(ErrorCode.FRAME, "no call")


# ---- addresses and TLS ----


@dataclass(frozen=True)
class Address:
    """ "tcp:HOST:PORT", HOST a name, 192.0.2.1, [2001:db8::1] or *; or "unix:/PATH"."""

    host: str | None
    port: int
    path: str | None

    @classmethod
    def parse(cls, text: str) -> Address:
        kind, _, rest = text.partition(":")
        if kind == "unix" and rest.startswith("/"):
            return cls(None, 0, rest)
        host, _, port = rest.rpartition(":")
        if kind == "tcp" and host and port.isascii() and port.isdigit() and int(port) < 65536:
            if host.startswith("[") == host.endswith("]") and (":" in host) == host.startswith("["):
                return cls(None if host == "*" else host.strip("[]"), int(port), None)
        raise Error(ErrorCode.CONFIG, f"'{text}' is no address: tcp:HOST:PORT or unix:/PATH")


@dataclass
class Tls:
    """Contexts of the ssl module for both ends, and the name (subjectAltName, DNS) that the
    certificate of each party must carry. Tls.load() makes them."""

    client: ssl.SSLContext
    server: ssl.SSLContext
    names: tuple[str, str, str] = ("party-0", "party-1", "party-2")

    @classmethod
    def load(cls, certificate: str, key: str, authorities: str,
             names: tuple[str, str, str] = ("party-0", "party-1", "party-2")) -> Tls:
        """TLS 1.3 by PEM files: this party's chain, its key, whom certificates must come from."""
        made = []
        for purpose in (ssl.PROTOCOL_TLS_CLIENT, ssl.PROTOCOL_TLS_SERVER):
            context = ssl.SSLContext(purpose)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.load_verify_locations(authorities)
            context.load_cert_chain(certificate, key)
            context.verify_mode = ssl.CERT_REQUIRED
            made.append(context)
        return cls(made[0], made[1], names)

    def is_party(self, transport: asyncio.BaseTransport, party: int) -> bool:
        """Whether the other end's certificate, which was verified, is that party's."""
        shown = transport.get_extra_info("peercert") or {}
        return ("DNS", self.names[party]) in shown.get("subjectAltName", ())


# ---- connections ----


class _Connection(asyncio.Protocol):
    """A byte stream: one that called and waits to be told for whom, or that of a host and peer."""

    def __init__(self, server: Server | None, host: Host | None = None, peer: int = -1) -> None:
        self.server = server
        self.host = host
        self.peer = peer
        self.transport: asyncio.Transport | None = None
        self.paused = False
        self.heard = False
        self.held: Transmit | None = None
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._call = b""
        self._timer: asyncio.TimerHandle | None = None
        self._sock: socket.socket | None = None             # until somebody makes a transport of it
        self._arriving: asyncio.Task[None] | None = None    # until there is one
        self._dropped = False

    def arrive(self, sock: socket.socket) -> None:
        """Begins with an accepted socket. It may take `call_s` to call, and TLS is of that."""
        assert self.server is not None
        loop = asyncio.get_running_loop()
        self._sock = sock
        self._timer = loop.call_later(self.server.call_s, self._late)
        self._arriving = loop.create_task(self._arrive(self.server.tls, self.server.call_s))

    async def _arrive(self, tls: Tls | None, call_s: float) -> None:
        loop, sock, self._sock = asyncio.get_running_loop(), self._sock, None
        assert sock is not None
        try:
            if tls is None:
                await loop.connect_accepted_socket(lambda: self, sock)
            else:
                await loop.connect_accepted_socket(lambda: self, sock, ssl=tls.server,
                                                   ssl_handshake_timeout=call_s)
        except OSError as error:
            self._arriving = None
            self.drop(f"it was not secured: {error}")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._arriving = None
        if self._dropped:
            transport.abort()
            return
        transport.set_write_buffer_limits(WRITE_HIGH, WRITE_LOW)
        sock = transport.get_extra_info("socket")
        if sock is not None and sock.family != socket.AF_UNIX:
            idle = self.host.idle_s if self.host else 30.0
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, int(idle / 2)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, int(idle / 6)))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(idle * 1000))
        if self.server is None and self.host is not None:
            transport.write(encode_call(self.host.party, self.peer, self.host.session.sid_tag))
            self.host._up(self)

    def _late(self) -> None:
        self.drop("did not call in time")

    def data_received(self, data: bytes) -> None:
        if self.host is None:
            self._call += data
            if len(self._call) < CALL_BYTES:
                if not b"UVC1".startswith(self._call[:4]):
                    self.drop("no call")
                return
            call, data = self._call[:CALL_BYTES], self._call[CALL_BYTES:]
            if not self._called(call) or not data:
                return
        if self.host is not None:
            self.heard = True
            self.host._fed(self, data)

    def _called(self, call: bytes) -> bool:
        server, transport = self.server, self.transport
        assert server is not None and transport is not None
        try:
            caller, called, tag = decode_call(call)
        except Error as error:
            self.drop(error.detail)
            return False
        host = server._hosts.get((tag, called))
        if host is None or caller < called:
            self.drop("a call for nobody")
        elif server.tls is not None and not server.tls.is_party(transport, caller):
            self.drop(f"its certificate is not that of party {caller}")
        else:
            self.host, self.peer = host, caller
            self._settle()
            host._up(self)
            return True
        return False

    def _settle(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self.server is not None:
            self.server._pending.pop(self, None)

    def drop(self, why: str) -> None:
        """Ends it now."""
        if self.server is not None and self.host is None and not self._dropped:
            self.server.refused += 1
            log.info("a connection was refused: %s", why)
        self._dropped = True
        self._settle()
        if self.transport is not None:
            self.transport.abort()
        elif self._arriving is not None:
            self._arriving.cancel()
        if self._sock is not None:  # a task that never begins closes nothing
            self._sock.close()

    def pause_writing(self) -> None:
        self.paused = True

    def resume_writing(self) -> None:
        self.paused = False
        if self.host is not None:
            self.host._writable(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._settle()
        if not self.lost.done():
            self.lost.set_result(None)
        if self.host is not None:
            self.host._down(self, exc)


class Server:
    """Listens, and gives connections to hosts by their first message. At most `pending_max` that
    have not called yet: when one more comes, the oldest goes; each may take `call_s`, TLS included.

    It accepts by itself: a server of asyncio that is closed between an accept and the next turn of
    the loop forgets the socket and leaves it open (in Python 3.11), so that who called waits for an
    answer as long as this process lives."""

    def __init__(self, address: str, tls: Tls | None = None, *, call_s: float = 10.0,
                 pending_max: int = 256) -> None:
        self.address = Address.parse(address)
        self.tls = tls
        self.call_s = call_s
        self.pending_max = pending_max
        self.refused = 0
        self.port = 0
        self._hosts: dict[tuple[int, int], Host] = {}
        self._pending: OrderedDict[_Connection, None] = OrderedDict()
        self._loop: asyncio.AbstractEventLoop
        self._listeners: list[socket.socket] = []
        self._inode: int | None = None

    async def start(self) -> None:
        """Begins; `port` is the one that it got."""
        loop = self._loop = asyncio.get_running_loop()
        a = self.address
        try:
            if a.path is not None:
                with contextlib.suppress(FileNotFoundError):
                    if stat.S_ISSOCK(os.stat(a.path).st_mode):
                        os.unlink(a.path)  # of one that was killed
                self._listen(socket.AF_UNIX, a.path)
                self._inode = os.stat(a.path).st_ino
            else:
                found = await loop.getaddrinfo(a.host, a.port, type=socket.SOCK_STREAM,
                                               flags=socket.AI_PASSIVE)
                for family, at in dict.fromkeys((f[0], f[4]) for f in found):
                    self._listen(family, at)
                if not self._listeners:
                    raise OSError(f"no address of {a.host or '*'} can be listened at")
                self.port = self._listeners[0].getsockname()[1]
        except BaseException:
            self.close()
            raise

    def _listen(self, family: int, at: Any) -> None:
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            return  # a family that this machine does not have
        self._listeners.append(listener)
        try:
            listener.setblocking(False)
            if family != socket.AF_UNIX:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(at)
            listener.listen(BACKLOG)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL and self.address.host is None:
                self._listeners.remove(listener)
                listener.close()
                return  # a family that is switched off
            raise OSError(error.errno, f"cannot listen at {at}: {error.strerror}") from None
        self._watch(listener)

    def _watch(self, listener: socket.socket) -> None:
        if listener in self._listeners:
            self._loop.add_reader(listener, self._accept, listener)

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(BACKLOG):
            try:
                sock, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:  # no descriptor is left, or no memory
                log.warning("a connection could not be accepted: %s", error)
                self._loop.remove_reader(listener)
                self._loop.call_later(ACCEPT_AGAIN_S, self._watch, listener)
                return
            connection = _Connection(self)
            self._pending[connection] = None
            connection.arrive(sock)
            if len(self._pending) > self.pending_max:
                next(iter(self._pending)).drop("too many have not called yet")

    def close(self) -> None:
        """Listens no more, and ends what has not called; hosts keep their connections."""
        for listener in self._listeners:
            self._loop.remove_reader(listener)
            listener.close()
        self._listeners.clear()
        for connection in list(self._pending):
            connection.drop("the server ends")
        if self._inode is not None and self.address.path is not None:
            with contextlib.suppress(OSError):
                if os.stat(self.address.path).st_ino == self._inode:
                    Path(self.address.path).unlink()
            self._inode = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def _add(self, host: Host) -> None:
        key = (host.session.sid_tag, host.party)
        if key in self._hosts:
            raise Error(ErrorCode.STATE, "a session with this sid_tag is here already")
        self._hosts[key] = host

    def _remove(self, host: Host) -> None:
        for key in [k for k, h in self._hosts.items() if h is host]:
            del self._hosts[key]


# ---- hosts ----


@dataclass
class StepResult:
    """A finished step: its opened outputs by id (those that open to this party), its root."""

    step: int
    outputs: dict[int, NDArray[np.int64]] = field(default_factory=dict)
    root: bytes = b""


class Cancelled(Exception):
    """All three parties dropped the step; tensors are as before it."""

    def __init__(self, step: int) -> None:
        self.step = step
        super().__init__(f"step {step} was dropped")


class Host:
    """Drives one session: bytes, time, jobs, events, checkpoints.

    session: with its program loaded, not started, unless this host's `store` is to have no say in
    where it goes on. peers: addresses of the peers of lower index. listen or server: where those of
    higher index call. store: run numbers are the caller's (resume.next_run = store.next_run());
    checkpoints are kept there by the rules of docs/host.md. A peer that began anew ends the session,
    `Aborted` with reason RESTARTED or, of the third party, PEER: begin a new one, with the next run.
    on_event: hears every event, in order. An exception in it ends the host, and comes out of what
    awaits it."""

    def __init__(self, session: Session, *, peers: Mapping[int, str] | None = None,
                 listen: str | None = None, server: Server | None = None, tls: Tls | None = None,
                 cpu: CpuMode = CpuMode.THREADS, threads: int = 0, store: Store | None = None,
                 on_event: Callable[[Event], object] | None = None, idle_s: float = 30.0,
                 retry_s: tuple[float, float] = (0.05, 5.0), call_s: float = 10.0) -> None:
        self.session = session
        self.party = session.party
        self.idle_s = idle_s
        self.fresh = True       # after READY: the host sets the PERSIST tensors itself
        self.connections_lost = 0
        self.failed_dials = 0
        self._addresses = {p: Address.parse(a) for p, a in (peers or {}).items()}
        for peer in session.peers:
            if peer < self.party and peer not in self._addresses:
                raise usage(f"party {self.party} dials party {peer}, whose address is missing")
        if any(a.host is None and a.path is None for a in self._addresses.values()):
            raise usage("'*' is an address to listen at, not to dial")
        if listen is not None and server is not None:
            raise usage("listen or server, not both")
        self._own_server = Server(listen, tls, call_s=call_s) if listen is not None else None
        self._server = server or self._own_server
        if self.party < PARTIES - 1 and self._server is None:
            raise usage(f"party {self.party} is called, and does not listen")
        self._tls, self._call_s, self._retry_s = tls, call_s, retry_s
        self._mode, self._threads = cpu, threads
        self._store, self._every = store, session.config.resume.checkpoint_every
        self._on_event = on_event
        self._connections: dict[int, _Connection] = {}
        self._steps: dict[int, tuple[StepResult, asyncio.Future[StepResult]]] = {}
        self._next_step = 0
        self._first_step = 0
        self._noted = -1        # the step of the last checkpoint that went to the disk
        self._offered: dict[int, bytes] = {}
        self._failure: BaseException | None = None
        self._over: BaseException | None = None
        self._queues: list[asyncio.Queue[Event | None]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._scheduled = self._stopped = False
        self._entered = False

    # ---- life ----

    async def __aenter__(self) -> Self:
        if self._entered:
            raise Error(ErrorCode.STATE, "a host runs once")
        self._entered = True
        loop = self._loop = asyncio.get_running_loop()
        self._ready: asyncio.Future[int] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._order = asyncio.Lock()
        self._moved = asyncio.Event()
        self._disk = ThreadPoolExecutor(1, "uvcc-store")
        self._writes: asyncio.Future[Any] | None = None
        self._dials: list[asyncio.Task[None]] = []
        self._cpu = Cpu(self._mode, threads=self._threads,
                        wake=self._wake if self._mode == CpuMode.THREADS else None)
        try:
            if self._store is not None:
                self._offer(self._store)
            self.session.start()
            if self._own_server is not None:
                await self._own_server.start()
            if self._server is not None:
                self._server._add(self)
        except BaseException:
            await self._stop()
            raise
        self._dials = [loop.create_task(self._dial(peer)) for peer in self.session.peers
                       if peer < self.party]
        self._schedule()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, value: BaseException | None,
                        trace: TracebackType | None) -> None:
        try:
            if not self._closed.done() and kind is None:
                await self.close()
        finally:
            try:
                if not self._closed.done():
                    await self._give_up()
            finally:  # whoever is cancelled once more while the peers hear of it
                await self._stop()

    async def _give_up(self) -> None:
        """The peers hear that this party ends, and need not wait for it."""
        self._abort(AbortReason.HOST)
        with contextlib.suppress(Exception):
            await asyncio.wait_for(asyncio.shield(self._closed), 5)
            await self._drain()

    async def ready(self) -> int:
        """The number of the first step; the handshakes with both peers are done. `fresh` says
        whether this host sets the PERSIST tensors, by session.set_public() or set_shares()."""
        return await asyncio.shield(self._ready)

    @property
    def next_step(self) -> int:
        return self._next_step

    async def step(self, entry: int | str = 0,
                   inputs: Mapping[int, ArrayLike] | None = None) -> StepResult:
        """Runs a step: agrees to it, gives this party's inputs by their ids, and waits until it is
        finished. `Aborted`, `Cancelled`; errors of Session.step() and Session.input(), after which
        the step stands agreed to: give what is missing by session.input(), or abort. A second call
        while one waits agrees to the step after it."""
        result, finished = await self.agree(entry, inputs)
        del result
        return await asyncio.shield(finished)

    async def agree(self, entry: int | str = 0, inputs: Mapping[int, ArrayLike] | None = None,
                    ) -> tuple[StepResult, asyncio.Future[StepResult]]:
        """As step(), but returns when the step is agreed to, with what will be its result."""
        await self.ready()
        async with self._order:
            while True:
                self._raise()
                number = self._next_step
                if not await self._durable(number):
                    continue
                try:
                    self.session.step(number, entry)
                    break
                except Error as error:  # where it was aborted the event says why: _raise() does
                    if error.code not in (ErrorCode.AGAIN, ErrorCode.ABORTED):
                        raise
                self._moved.clear()
                self._schedule()
                await self._moved.wait()
            self._next_step += 1
            mine = (StepResult(number), self._loop.create_future())
            mine[1].add_done_callback(_seen)
            self._steps[number] = mine
            self._schedule()
            try:
                for id, values in (inputs or {}).items():
                    self.session.input(number, id, values)
            except Error as error:  # what waits for the step hears why
                if error.code != ErrorCode.ABORTED:
                    raise
        return mine

    async def close(self) -> None:
        """Ends the session after its last step: returns when both peers have ended too, or after
        limits.close_ns, and the sockets have taken all bytes."""
        if self._failure is not None:
            raise self._failure
        if self._over is None:
            self.session.close()
            self._schedule()
        await asyncio.shield(self._closed)
        await self._drain()

    async def run(self) -> None:
        """Until CLOSED: for hosts whose on_event does everything."""
        async with self:
            await asyncio.shield(self._closed)
            await self._drain()

    async def events(self) -> AsyncIterator[Event]:
        """Every event from now on, until CLOSED."""
        queue: asyncio.Queue[Event | None] = asyncio.Queue()
        self._queues.append(queue)
        try:
            while not (self._closed.done() and queue.empty()):
                event = await queue.get()
                if event is None:
                    if self._failure is not None:
                        raise self._failure
                    return
                yield event
        finally:
            self._queues.remove(queue)

    async def _drain(self) -> None:
        waits = []
        for connection in self._connections.values():
            if connection.transport is not None:
                connection.transport.close()
                waits.append(connection.lost)
        if waits:
            await asyncio.wait(waits, timeout=5)

    async def _stop(self) -> None:
        """What is open is closed before it waits: it may be cancelled."""
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._dials:
            task.cancel()
        if self._server is not None:
            self._server._remove(self)
        if self._own_server is not None:
            self._own_server.close()
        for connection in list(self._connections.values()):
            if connection.transport is not None and not connection.transport.is_closing():
                if self._closed.done():
                    connection.transport.close()
                else:
                    connection.transport.abort()
        self._fail(Error(ErrorCode.CLOSED, "the host has ended"))
        await asyncio.shield(self._loop.create_task(self._rest()))

    async def _rest(self) -> None:
        if self._dials:
            await asyncio.gather(*self._dials, return_exceptions=True)
        # Both may wait: for jobs that run, for the disk.
        await self._loop.run_in_executor(None, self._disk.shutdown)
        await self._loop.run_in_executor(None, self._cpu.free)

    # ---- the turn ----

    def _schedule(self) -> None:
        if not self._scheduled and not self._stopped:
            self._scheduled = True
            self._loop.call_soon(self._turn)

    def _wake(self) -> None:
        """Called by threads of the executor."""
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._schedule)

    def wake(self) -> None:
        """After calls of the session from outside (input, cancel): a turn soon. Any thread."""
        self._wake()

    def _turn(self) -> None:
        self._scheduled = False
        if self._stopped or self._failure is not None:
            return
        try:
            self._work(time.monotonic_ns())
        except Exception as error:
            self._fail(error)

    def _work(self, now: int) -> None:
        session = self.session
        while (completion := self._cpu.poll()) is not None:
            session.complete(completion, now)
        if now >= session.next_deadline():
            session.on_timer(now)
        for event in session.events():
            self._event(event, now)
        while (job := session.poll_job()) is not None:
            self._cpu.submit(job)
        sent = 0
        while sent < TURN_BYTES and (tx := session.poll_transmit(now)) is not None:
            sent += tx.total
            self._send(tx, now)
        if sent >= TURN_BYTES or (self._mode != CpuMode.THREADS and self._cpu.pending):
            self._schedule()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = session.next_deadline()
        if deadline != NEVER and not self._closed.done():
            wait = max(0, deadline - time.monotonic_ns())
            self._timer = self._loop.call_later(wait / 1e9, self._schedule)

    def _send(self, tx: Transmit, now: int) -> None:
        connection = self._connections.get(tx.peer)
        if connection is None or connection.transport is None or connection.transport.is_closing():
            return  # void when the stream is said to be closed
        if connection.paused:
            connection.held = tx  # until the socket takes bytes: nothing else is offered meanwhile
            return
        connection.transport.write(tx.tobytes())
        self.session.transmit_done(tx, tx.total, now)

    def _event(self, event: Event, now: int) -> None:
        kind = event.kind
        if kind == EventKind.READY:
            self._begin(event)
        elif kind == EventKind.STEP_STARTED:
            self._started(event.step)
        elif kind == EventKind.CHECKPOINT and self._store is not None:
            self._noted, data = self.session.checkpoint()
            self._disk_do(self._store.write, self._noted, data)
        elif kind == EventKind.OUTPUT and event.step in self._steps:
            values = self.session.output(event.step, event.id)
            if values is not None:
                self._steps[event.step][0].outputs[event.id] = values
        elif kind in (EventKind.STEP_FINISHED, EventKind.STEP_CANCELLED):
            self._finished(event)
        elif kind == EventKind.PEER_RESTARTED:
            self._abort(AbortReason.RESTARTED)
        elif kind == EventKind.MISMATCH:
            log.warning("party %d: a HELLO of party %d does not fit: %s", self.party, event.peer,
                        event.text)
        elif kind == EventKind.ABORTED:
            self._end_waits(Aborted(event.reason, event.text, event.peer))
            with contextlib.suppress(Error):  # it may be closing already
                self.session.close(now)
        if self._on_event is not None:
            self._on_event(event)
        for queue in self._queues:
            queue.put_nowait(event)
        if kind == EventKind.CLOSED:
            self._end_waits(Error(ErrorCode.CLOSED, "the session has ended"))
            if not self._closed.done():
                self._closed.set_result(None)
            for queue in self._queues:
                queue.put_nowait(None)
        self._moved.set()

    def _abort(self, reason: AbortReason) -> None:
        with contextlib.suppress(Error):  # it may have ended already
            self.session.abort(reason)
        self._schedule()

    def _finished(self, event: Event) -> None:
        if event.step not in self._steps:
            return
        result, waits = self._steps.pop(event.step)
        if waits.done():
            return
        if event.kind == EventKind.STEP_CANCELLED:
            waits.set_exception(Cancelled(event.step))
        else:
            result.root = event.root
            waits.set_result(result)

    def _raise(self) -> None:
        error = self._failure or self._over
        if error is not None:
            raise error

    def _end_waits(self, error: BaseException) -> None:
        """What waits for something that cannot come any more is told why."""
        if self._over is None:
            self._over = error
        for _, waits in self._steps.values():
            if not waits.done():
                waits.set_exception(error)
        if not self._ready.done():
            self._ready.set_exception(error)
            self._ready.exception()
        self._moved.set()

    def _fail(self, error: BaseException) -> None:
        if self._failure is None:
            self._failure = error
        self._end_waits(error)
        if not self._closed.done():
            self._closed.set_exception(error)
            self._closed.exception()
        for queue in self._queues:
            queue.put_nowait(None)

    # ---- checkpoints ----

    def _offer(self, store: Store) -> None:
        steps = store.checkpoints()[-4:]
        for step in steps:
            self._offered[step] = store.read(step)
            self.session.resume(self._offered[step])
        if steps and not store.marked(BEGUN):
            self.session.resume(None)  # a peer may have died before its first checkpoint was kept

    def _begin(self, event: Event) -> None:
        self._next_step = self._first_step = event.step
        self.fresh = not any(event.root)
        if self._offered and self.fresh:
            self.session.resume(None)
        elif self._offered:
            step = next(s for s, data in self._offered.items()
                        if s == event.step and read_checkpoint(data).lineage == event.root)
            if step != max(self._offered):
                self.session.resume(self._offered[step])
        self._offered = {}
        self._ready.set_result(event.step)

    def _started(self, step: int) -> None:
        if self._store is None or self._every == 0:
            return
        if not self.fresh or step >= self._first_step + self._every:
            self._disk_do(self._store.mark, BEGUN)
        if step >= 2 * self._every:
            self._disk_do(self._store.remove_up_to, step - 2 * self._every)

    async def _durable(self, number: int) -> bool:
        """Before a step is agreed to, the checkpoint of `checkpoint_every` steps before is on the
        disk. False: ask again."""
        if self._store is None or self._every == 0:
            return True
        due = (number - self._every) // self._every * self._every
        if self.fresh and self._first_step <= number - self._every:
            due = max(due, self._first_step)
        if due in self._steps and self._noted < due:  # it comes before that step runs
            self._moved.clear()
            await self._moved.wait()
            return False
        if self._writes is not None:
            await asyncio.shield(self._writes)
        return True

    def _disk_do(self, function: Callable[..., object], *args: object) -> None:
        """On the store's thread, one after the other; agree() waits for the last one."""
        self._writes = self._loop.run_in_executor(self._disk, function, *args)
        self._writes.add_done_callback(self._disk_done)

    def _disk_done(self, done: asyncio.Future[Any]) -> None:
        if not done.cancelled() and done.exception() is not None:
            self._fail(done.exception() or Error(ErrorCode.STATE))

    # ---- streams ----

    async def _dial(self, peer: int) -> None:
        """Keeps a connection to a peer of a lower index."""
        low, high = self._retry_s
        wait, address = low, self._addresses[peer]
        more: dict[str, Any] = {}
        if self._tls is not None:
            more = {"ssl": self._tls.client, "server_hostname": self._tls.names[peer]}

        def make() -> _Connection:
            return _Connection(None, self, peer)

        while not self._closed.done():
            connection: _Connection | None = None
            try:
                async with asyncio.timeout(self._call_s):
                    if address.path is not None:
                        _, connection = await self._loop.create_unix_connection(
                            make, address.path, **more)
                    else:
                        _, connection = await self._loop.create_connection(
                            make, address.host or "", address.port, **more)
            except (OSError, ssl.SSLError, TimeoutError) as error:
                self.failed_dials += 1
                log.info("party %d: dialling party %d failed: %s", self.party, peer, error)
            if connection is not None:
                await asyncio.shield(connection.lost)
                if connection.heard:
                    wait = low
            await asyncio.sleep(wait * random.uniform(0.5, 1.5))
            wait = min(2 * wait, high)

    def _up(self, connection: _Connection) -> None:
        if self._stopped or self._failure is not None:
            connection.drop("the host has ended")
            return
        old = self._connections.pop(connection.peer, None)
        if old is not None:  # the peer knows better whether that one lives
            self.connections_lost += 1
            self.session.peer_closed(connection.peer)
            old.drop("another connection of this peer came")
        self._connections[connection.peer] = connection
        self.session.peer_open(connection.peer)
        self._schedule()

    def _down(self, connection: _Connection, exc: Exception | None) -> None:
        connection.held = None
        if self._connections.get(connection.peer) is not connection:
            return
        del self._connections[connection.peer]
        self.connections_lost += 1
        log.info("party %d: the connection to party %d is gone: %s", self.party, connection.peer,
                 exc or "closed")
        if not self._stopped and not self.session.freed:
            with contextlib.suppress(Error):
                self.session.peer_closed(connection.peer)
        self._schedule()

    def _fed(self, connection: _Connection, data: bytes) -> None:
        if self._stopped or self._connections.get(connection.peer) is not connection:
            return
        try:
            self.session.feed(connection.peer, data)
        except Error as error:
            if error.code != ErrorCode.STREAM_BROKEN:
                self._fail(error)
            connection.drop("the stream is broken")
        self._schedule()

    def _writable(self, connection: _Connection) -> None:
        tx, connection.held = connection.held, None
        if tx is not None and self._connections.get(connection.peer) is connection:
            self._send(tx, time.monotonic_ns())
        self._schedule()


def _seen(waits: asyncio.Future[StepResult]) -> None:
    """Its exception was handed out, whether anybody awaits it or not."""
    if not waits.cancelled():
        waits.exception()
