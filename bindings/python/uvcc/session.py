"""Sessions: one worker of one party, sans I/O. <uvcc/session.h> has the loop of a host; uvcc.aio is
one for asyncio."""
from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _api
from ._api import (Checks, ErrorCode, Event, Identity, Limits, Links, MemoryBound, PeerInfo, Place,
                   Resume, SessionStats, Triples)
from ._convert import array_of, at, fill, shares, take, view, words
from ._load import NULL, ffi, lib
from ._native import Native, Owned
from .compute import Completion, Job
from .errors import Error, check, usage
from .hooks import Hooks, Logger, Recorder, log_hook, record_hook
from .policy import Policy
from .program import Program, Tensor, TensorLike, allocator

_cookies = itertools.count(1)


class Sends(Protocol):
    """A socket."""

    def sendmsg(self, buffers: Any, /) -> int: ...


@dataclass
class Config:
    """What a session is made of, in the groups of uvcc_config; zero and empty mean the default.

    log: a logging.Logger, or a callable (level, line). record: gets a log that holds the session's
    SECRETS AND SHARES, in pieces (<uvcc/record.h>). What a hook raises never reaches C: a logger's
    exception goes to sys.unraisablehook, a recorder's comes out of the session's next call, and
    nothing is recorded any more. app: bytes for the recording's header. policy: a `Policy` or its
    text; used: what `Session.policy_used()` said before. agree: what the hosts want alike, by name, at
    most 16, in the same order at all three (<uvcc/session.h>, uvcc_config_agree). random_seed: TESTS ONLY, random bytes that
    everybody can know."""

    identity: Identity = field(default_factory=Identity)
    place: Place = field(default_factory=Place)
    links: Links = field(default_factory=Links)
    limits: Limits = field(default_factory=Limits)
    resume: Resume = field(default_factory=Resume)
    checks: Checks = field(default_factory=Checks)
    triples: Triples = field(default_factory=Triples)
    policy: Policy | str | None = None
    used: Sequence[int] = ()
    agree: Mapping[str, bytes] = field(default_factory=dict)
    log: Logger | None = None
    record: Recorder | None = None
    app: bytes = b""
    cookie: int | None = None
    random_seed: int | None = None

    def _struct(self, hooks: Hooks) -> tuple[Any, list[Any]]:
        """The C structure, and what must live as long as the session."""
        cfg = ffi.new("uvcc_config *")
        check(lib.uvcc_config_default(cfg, ffi.sizeof("uvcc_config")))
        kept: list[Any] = [cfg, hooks]
        cfg.alloc = allocator()
        if self.random_seed is None:
            cfg.random = lib.uvcc_host_random()
        else:
            state = ffi.new("uvcc_seeded_random *")
            kept.append(state)
            cfg.random = lib.uvcc_seeded(state, self.random_seed, self.identity.party)
        cfg.log.write, cfg.log.user = log_hook, hooks.handle
        if self.record is not None:
            app = ffi.new("uint8_t[]", self.app)
            kept.append(app)
            cfg.record.write, cfg.record.user = record_hook, hooks.handle
            cfg.record.app, cfg.record.app_len = app, len(self.app)
        cfg.cookie = next(_cookies) if self.cookie is None else self.cookie
        for name in ("identity", "place", "links", "limits", "resume", "checks", "triples"):
            kept += fill(getattr(cfg, name), getattr(self, name))
        if self.policy is not None:
            text = str(self.policy).encode()
            data = ffi.new("char[]", text)
            kept.append(data)
            cfg.consent.policy, cfg.consent.policy_len = data, len(text)
            if self.used:
                counts = ffi.new("uint64_t[]", list(self.used))
                kept.append(counts)
                cfg.consent.used, cfg.consent.used_count = counts, len(self.used)
        if len(self.agree) > _api.AGREE_MAX:
            raise ValueError(f"agree has {len(self.agree)} items, at most 16 are possible")
        cfg.agree.count = len(self.agree)
        for i, (what, item) in enumerate(self.agree.items()):
            text_of = ffi.new("char[]", what.encode())
            kept.append(text_of)
            cfg.agree.name[i] = text_of
            cfg.agree.part[i] = lib.uvcc_agree_hash(item, len(item))
        return cfg, kept


class Transmit:
    """Bytes that a session or a link has for a peer. They are its own, until transmit_done() for
    that peer or the end of its stream: from then on this object refuses."""

    __slots__ = ("id", "peer", "total", "_owner", "_slices", "_count", "_alive")

    def __init__(self, owner: Owned, tx: Any) -> None:
        self.id: int = tx.id
        self.peer: int = tx.peer
        self.total: int = tx.total
        self._owner = owner
        self._slices = tx.slices
        self._count = tx.slice_count
        self._alive = True

    def _buffers(self) -> list[Any]:
        if not self._alive:
            raise Error(ErrorCode.STATE, "this transmit is over")
        return [ffi.buffer(self._slices[i].data, self._slices[i].len) for i in range(self._count)]

    def tobytes(self) -> bytes:
        """All of it, copied."""
        self._owner._begin()
        try:
            return b"".join(self._buffers())
        finally:
            self._owner._end()

    def sendmsg(self, sock: Sends) -> int:
        """Straight out of its owner's memory into a socket that does not block: the bytes that it
        took, which go to transmit_done(). BlockingIOError: none."""
        self._owner._begin()
        try:
            return sock.sendmsg(self._buffers())
        finally:
            self._owner._end()


class Session(Owned):
    """A session. Life: new, load_program(), start(), READY, steps, close(), CLOSED, free().

    Times are nanoseconds of one monotonic clock; without one, time.monotonic_ns() is read. Arrays
    are rows x cols of int64, copied in and copied out. Threads may call it, one at a time."""

    def __init__(self, config: Config, program: Program | None = None) -> None:
        hooks = Hooks(config.log, config.record)
        cfg, kept = config._struct(hooks)
        out = ffi.new("uvcc_session **")
        result = lib.uvcc_session_new(out, cfg)
        check(result, hooks.last)
        self.config = config
        self.cookie = int(cfg.cookie)
        self.program: Program | None = None
        self._hooks = hooks
        self._jobs: dict[int, Job] = {}
        self._transmits: dict[int, Transmit] = {}
        self._entries: dict[int, int] = {}

        # The session's memory needs its program: a token that goes when the session's memory goes.
        box: list[tuple[Native, object]] = []
        self._box = box

        def free(ptr: Any) -> None:
            lib.uvcc_session_free(ptr)
            while box:
                native, token = box.pop()
                native.drop(token)

        super().__init__(Native(out[0], free, (), kept))
        if program is not None:
            try:
                self.load_program(program)
            except BaseException:
                self.free()
                raise

    def _do(self, function: Any, *args: Any, what: str = "") -> int:
        """A call whose negative result is an exception, with the session's own words."""
        ptr = self._begin()
        try:
            self._hooks.raise_broken()
            result = function(ptr, *args)
            if result < 0:
                detail = ffi.string(lib.uvcc_session_error_detail(ptr)).decode("utf-8", "replace")
                raise Error(result, detail or what)
            return int(result)
        finally:
            self._end()

    # ---- life ----

    def load_program(self, program: Program) -> None:
        """Loads a finished program, which lives as long as the session's memory. REFUSED: the
        policy does not allow it; LIMIT: the line names the capacity that it needs."""
        native = program._alive
        token = native.hold()
        try:
            p = native.ptr
            self._do(lib.uvcc_session_load_program, p)
        except BaseException:
            native.drop(token)
            raise
        self._box.append((native, token))
        self.program = program

    def start(self, now: int | None = None) -> None:
        """Begins the handshake."""
        self._do(lib.uvcc_session_start, _time(now))

    def close(self, now: int | None = None) -> None:
        """Says BYE; the event CLOSED comes when all is done. Keep the loop turning until then."""
        self._do(lib.uvcc_session_close, _time(now))

    def abort(self, reason: int = _api.AbortReason.HOST, now: int | None = None) -> None:
        """Stops now, and tells the peers why."""
        self._do(lib.uvcc_session_abort, int(reason), _time(now))

    # ---- input from the world ----

    def feed(self, peer: int, data: bytes | bytearray | memoryview, now: int | None = None, *,
             ce: bool | None = None) -> None:
        """Bytes of a peer: a piece of its stream, or one datagram (ce: what its IP header said).
        STREAM_BROKEN: close the stream and connect again."""
        buffer, length = view(data)
        if ce is None:
            self._do(lib.uvcc_session_feed, peer, buffer, length, _time(now))
        else:
            self._do(lib.uvcc_session_feed_ecn, peer, buffer, length, ce, _time(now))

    def peer_open(self, peer: int, now: int | None = None) -> None:
        """A byte stream to the peer is up."""
        self._do(lib.uvcc_session_peer_open, peer, _time(now))

    def peer_closed(self, peer: int, now: int | None = None) -> None:
        """It is gone; a transmit to it that is out is void."""
        self._do(lib.uvcc_session_peer_closed, peer, _time(now))
        self._over(peer)

    def on_timer(self, now: int | None = None) -> None:
        """To be called when next_deadline() has come."""
        self._do(lib.uvcc_session_on_timer, _time(now))

    def complete(self, completion: Completion, now: int | None = None) -> None:
        """One completion per job; a stale one is counted and ignored. STATE: the job runs still."""
        job = self._jobs.get(completion.id) if completion.cookie == self.cookie else None
        if job is not None and job._running:
            raise Error(ErrorCode.STATE, f"job {job.id} runs still")
        c = ffi.new("uvcc_completion *", {"id": completion.id, "cookie": completion.cookie,
                                          "status": completion.status})
        if job is not None:
            job._ran()
            del self._jobs[completion.id]
        self._do(lib.uvcc_session_complete, c, _time(now))

    # ---- output to the world ----

    def poll_transmit(self, now: int | None = None) -> Transmit | None:
        """The next bytes to send, at most one transmit per peer at a time, or None."""
        tx = ffi.new("uvcc_transmit *")
        if self._do(lib.uvcc_session_poll_transmit, tx, _time(now)) == 0:
            return None
        made = Transmit(self, tx)
        self._transmits[made.peer] = made
        return made

    def transmit_done(self, transmit: Transmit, sent: int, now: int | None = None) -> None:
        """`sent` bytes of it went out; on a stream the rest is offered next."""
        if self._transmits.get(transmit.peer) is not transmit or not transmit._alive:
            raise Error(ErrorCode.STATE, "this transmit is over")
        if not 0 <= sent <= transmit.total:
            raise usage(f"{sent} of {transmit.total} bytes were sent")
        self._do(lib.uvcc_session_transmit_done, transmit.peer, transmit.id, sent, _time(now))
        self._over(transmit.peer)

    def _over(self, peer: int) -> None:
        transmit = self._transmits.pop(peer, None)
        if transmit is not None:
            transmit._alive = False

    def poll_job(self) -> Job | None:
        """The next job to run, or None."""
        out = ffi.new("const uvcc_job **")
        ptr = self._begin()
        try:
            self._hooks.raise_broken()
            if check(lib.uvcc_session_poll_job(ptr, out)) == 0:
                return None
            job = Job(out[0], self._alive)
        finally:
            self._end()
        self._jobs[job.id] = job
        return job

    def next_deadline(self) -> int:
        """When to call on_timer(): by the clock of `now`; NEVER."""
        return int(self._call(lib.uvcc_session_next_deadline))

    def poll_event(self) -> Event | None:
        """The next event, or None."""
        out = ffi.new("uvcc_event *")
        if self._do(lib.uvcc_session_poll_event, out) == 0:
            return None
        return take(Event, out)

    def events(self) -> Iterator[Event]:
        """The events that are there."""
        while (event := self.poll_event()) is not None:
            yield event

    # ---- work ----

    def step(self, step: int, entry: int | str = 0, now: int | None = None) -> None:
        """Agrees to run the entry as this step. AGAIN: two steps are open already, or events wait
        to be polled."""
        index = self._loaded.entry_index(entry)
        self._do(lib.uvcc_session_step, step, index, _time(now))
        self._entries[step] = index
        for old in [s for s in self._entries if s + 4 < step]:
            del self._entries[old]

    def input(self, step: int, id: int, values: ArrayLike, now: int | None = None) -> None:
        """This party's private input of a step that it agreed to: integers at the tensor's scale
        (see to_fixed). BOUND: a value is outside the tensor's declared bits."""
        shape = self._shape(step, id, self._loaded.inputs)
        if shape is None:
            raise Error(ErrorCode.NOT_FOUND, f"step {step} has no input {id}, or is not open")
        array = words(values, shape, f"input {id}")
        self._do(lib.uvcc_session_input, step, id, at(array, "int64_t *"), _time(now))

    def output(self, step: int, id: int) -> NDArray[np.int64] | None:
        """An opened output of the last finished or the running step, copied; None: it is not open,
        or opens to another party only."""
        shape = self._shape(step, id, self._loaded.outputs)
        if shape is None:
            return None
        ptr = self._begin()
        try:
            found = lib.uvcc_session_output(ptr, step, id)
            return None if found == NULL else array_of(found, shape)
        finally:
            self._end()

    def _shape(self, step: int, id: int, listed: Any) -> tuple[int, int] | None:
        entry = self._entries.get(step)
        if entry is None:
            return None
        for io in listed(entry):
            if io.id == id:
                return self._loaded.tensor_at(io.tensor).shape
        return None

    def cancel(self, step: int, now: int | None = None) -> None:
        """Asks to drop the step: STEP_CANCELLED or STEP_FINISHED comes, at all three the same."""
        self._do(lib.uvcc_session_cancel, step, _time(now))

    def set_public(self, tensor: TensorLike, values: ArrayLike) -> None:
        """A public value for a PERSIST tensor, the same at all three parties."""
        t = self._tensor(tensor)
        array = words(values, t.shape, t.name)
        self._do(lib.uvcc_session_set_public, t.index, at(array, "int64_t *"))

    def set_shares(self, tensor: TensorLike, lo: ArrayLike, hi: ArrayLike) -> None:
        """This party's two components of a PERSIST tensor, of type uint64: of split(), or of a one-hot tensor of deal()."""
        t = self._tensor(tensor)
        a, b = shares(lo, t.share_shape, t.name), shares(hi, t.share_shape, t.name)
        self._do(lib.uvcc_session_set_shares, t.index, at(a, "uint64_t *"), at(b, "uint64_t *"))

    def shares(self, tensor: TensorLike) -> tuple[Any, Any]:
        """This party's two components of a PERSIST tensor between two steps, of type uint64. SECRET. ErrorCode.AGAIN the
        first time: a job copies them; the same call gives them once the session has turned."""
        t = self._tensor(tensor)
        lo, hi = np.zeros(t.share_shape, np.uint64), np.zeros(t.share_shape, np.uint64)
        self._do(lib.uvcc_session_shares, t.index, at(lo, "uint64_t *"), at(hi, "uint64_t *"))
        return lo, hi

    def _tensor(self, which: TensorLike) -> Tensor:
        return self._loaded.tensor_at(which)

    @property
    def _loaded(self) -> Program:
        if self.program is None:
            raise Error(ErrorCode.STATE, "no program is loaded")
        return self.program

    def checkpoint(self) -> tuple[int, bytes]:
        """(step, the last checkpoint). It holds SHARES: encrypt it at rest."""
        return self._stepped(lib.uvcc_session_checkpoint)

    def triples(self) -> tuple[int, bytes]:
        """(step, triples): what a session with triples.only made of the last step; secret."""
        return self._stepped(lib.uvcc_session_triples)

    def _stepped(self, function: Any) -> tuple[int, bytes]:
        step, data, length = ffi.new("uint32_t *"), ffi.new("uint8_t **"), ffi.new("size_t *")
        ptr = self._begin()
        try:
            check(function(ptr, step, data, length), "there is none")
            return int(step[0]), bytes(ffi.buffer(data[0], length[0])) if length[0] else b""
        finally:
            self._end()

    def bundle(self, step: int) -> bytes:
        """The bundle of a finished step. It goes to an auditor, NEVER to another party."""
        data, length = ffi.new("uint8_t **"), ffi.new("size_t *")
        ptr = self._begin()
        try:
            check(lib.uvcc_session_bundle(ptr, step, data, length), f"no bundle of step {step}")
            return bytes(ffi.buffer(data[0], length[0]))
        finally:
            self._end()

    def resume(self, checkpoint: bytes | None) -> None:
        """A checkpoint to go on from; None: offers to begin anew."""
        if checkpoint is None:
            self._do(lib.uvcc_session_resume, NULL, 0)
        else:
            buffer, length = view(checkpoint)
            self._do(lib.uvcc_session_resume, buffer, length)

    def load_triples(self, data: bytes) -> None:
        """Triples made ahead, of steps that this session has not agreed to yet."""
        buffer, length = view(data)
        self._do(lib.uvcc_session_load_triples, buffer, length)

    def trim(self) -> None:
        """Gives back the memory that is kept for reuse, which wipes what finished steps left there."""
        self._call(lib.uvcc_session_trim)

    def policy_used(self) -> list[int]:
        """How often each limit of the policy was used, in the order of the text."""
        out = ffi.new("uint64_t[]", _api.POLICY_LIMITS_MAX)
        n = self._do(lib.uvcc_session_policy_used, out, _api.POLICY_LIMITS_MAX)
        return [int(out[i]) for i in range(n)]

    # ---- inspection ----

    def stats(self) -> SessionStats:
        out = ffi.new("uvcc_session_stats *")
        self._call(lib.uvcc_session_get_stats, out)
        return take(SessionStats, out)

    def peer_info(self, peer: int) -> PeerInfo:
        """What is known of a peer, and what this session needs of it."""
        out = ffi.new("uvcc_peer_info *", {"size": ffi.sizeof("uvcc_peer_info")})
        self._do(lib.uvcc_session_peer_info, peer, out)
        return take(PeerInfo, out)

    @property
    def party(self) -> int:
        return self.config.identity.party

    @property
    def peers(self) -> tuple[int, int]:
        a, b = (p for p in range(_api.PARTIES) if p != self.party)
        return a, b

    @property
    def sid_tag(self) -> int:
        """The tag of this session's frames and calls."""
        return int(self._call(lib.uvcc_session_sid_tag))

    @property
    def sid_sub(self) -> bytes:
        out = ffi.new("uint8_t[32]")
        self._do(lib.uvcc_session_sid_sub, out)
        return bytes(ffi.buffer(out))

    @property
    def error_detail(self) -> str:
        """Why the last call that was refused was."""
        ptr = self._begin()
        try:
            return str(ffi.string(lib.uvcc_session_error_detail(ptr)).decode("utf-8", "replace"))
        finally:
            self._end()

    def digest(self) -> bytes:
        """Hash of the whole protocol state but timing."""
        out = ffi.new("uint8_t[32]")
        self._call(lib.uvcc_session_digest, out)
        return bytes(ffi.buffer(out))

    def root(self) -> bytes:
        """The global root of the last finished step."""
        out = ffi.new("uint8_t[32]")
        self._do(lib.uvcc_session_root, out)
        return bytes(ffi.buffer(out))

    @property
    def public_key(self) -> bytes:
        """The Ed25519 public key of identity.sign_seed."""
        ptr = self._begin()
        try:
            return bytes(ffi.buffer(lib.uvcc_session_public_key(ptr), 32))
        finally:
            self._end()


def memory_bound(config: Config, program: Program) -> MemoryBound:
    """The most memory that a session of this configuration and program takes at any time."""
    hooks = Hooks(config.log, None)
    cfg, kept = config._struct(hooks)
    cfg.record.write = NULL
    out = ffi.new("uvcc_memory_bound *")
    check(program._call(lambda p: lib.uvcc_session_memory_bound(cfg, p, out)), hooks.last)
    del kept
    return take(MemoryBound, out)


def _time(now: int | None) -> int:
    return time.monotonic_ns() if now is None else now
