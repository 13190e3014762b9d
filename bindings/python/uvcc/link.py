"""Links: reliable, sealed messages to one peer over a byte stream or datagrams, sans I/O, without a
session. <uvcc/link.h> says what each call promises; keys and run numbers are the caller's to
agree on."""
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import _api
from ._api import ErrorCode, FrameKind, LinkConfig, LinkStats
from ._convert import fill, take, view
from ._load import NULL, ffi, lib
from ._native import Native, Owned
from .errors import Error, check, usage
from .program import allocator
from .session import Transmit, _time


@dataclass(frozen=True)
class Message:
    """A message that is whole, copied. The peer forgets it when it was accepted; its place in the
    link is free when it was released."""

    token: int
    kind: FrameKind
    step: int
    op_id: int
    msg_ids: tuple[int, ...]
    data: bytes


class Link(Owned):
    """A link to one peer. Life: new, set_run(), set_keys() (else nothing is sealed), start(), messages
    both ways, free(). Streams: stream_opened() and stream_closed().

    Times are nanoseconds of one monotonic clock; without one, time.monotonic_ns() is read. Threads may
    call it, one at a time. random_seed: TESTS ONLY, nonces that everybody can know."""

    def __init__(self, config: LinkConfig, *, random_seed: int | None = None) -> None:
        cfg = ffi.new("uvcc_link_config *")
        lib.uvcc_link_config_default(cfg)
        kept: list[Any] = [cfg]
        cfg.alloc = allocator()
        if random_seed is None:
            cfg.random = lib.uvcc_host_random()
        else:
            state = ffi.new("uvcc_seeded_random *")
            kept.append(state)
            cfg.random = lib.uvcc_seeded(state, random_seed, config.me)
        kept += fill(cfg, config)
        out = ffi.new("uvcc_link **")
        check(lib.uvcc_link_new(out, cfg), "a link's configuration is out of range")
        self.config = config
        self._transmit: Transmit | None = None
        super().__init__(Native(out[0], lib.uvcc_link_free, (), kept))

    def _do(self, function: Any, *args: Any, what: str = "") -> int:
        return check(self._call(function, *args), what)

    # ---- life ----

    def set_run(self, run: int) -> None:
        """Numbers this run's frames; once, before anything is sent."""
        self._do(lib.uvcc_link_set_run, run, what="the run is set already, or above 2^24 - 1")

    def set_keys(self, suite: _api.Suite, prk: bytes) -> None:
        """Seals from now on, under keys derived from prk (32 bytes), which the link does not keep."""
        if len(prk) != 32:
            raise usage(f"prk is {len(prk)} bytes long, not 32")
        self._do(lib.uvcc_link_set_keys, int(suite), prk, what="no run is set, or no such suite")

    def set_step(self, step: int) -> None:
        """The first unfinished step, never falling."""
        self._do(lib.uvcc_link_set_step, step, what="the step falls")

    def reset(self) -> None:
        """Forgets run, step and keys: before start(), and with no message sent."""
        self._do(lib.uvcc_link_reset, what="the link is started, or sent messages")

    def start(self, now: int | None = None) -> None:
        """Messages may flow."""
        self._do(lib.uvcc_link_start, _time(now), what="no run is set, or the link is started")

    # ---- sending ----

    def send(self, kind: FrameKind, data: bytes | bytearray | memoryview, *, step: int = 0,
             op_id: int = 0, msg_ids: Sequence[int] | None = None, order: int = 0,
             now: int | None = None) -> None:
        """Queues a message, copied. msg_ids: one per MiB begun, without them zeros; order: lower goes
        first. AGAIN: the limit of what is unacknowledged is reached; LIMIT: it can never fit."""
        source, length = view(data)
        chunks = max(1, -(-length // _api.CHUNK_BYTES))
        ids = [0] * chunks if msg_ids is None else list(msg_ids)
        if len(ids) != chunks:
            raise usage(f"{length} bytes take {chunks} msg_ids, not {len(ids)}")
        when = _time(now)
        words = ffi.new("uint32_t[]", ids)
        out = ffi.new("uvcc_link_msg **")
        link = self._begin()
        try:
            check(lib.uvcc_link_msg_new(link, int(kind), length, out), "no room for a message")
            ffi.memmove(lib.uvcc_link_msg_data(out[0]), source, length)
            result = lib.uvcc_link_send(link, out[0], step, op_id, words, order, when)
            if result != 0:
                lib.uvcc_link_msg_drop(link, out[0])
            check(result, "the message is of no step that has keys, or cannot be sent now")
        finally:
            self._end()

    def writable(self, kind: FrameKind, length: int) -> bool:
        """Whether a message of that kind and length would be taken now."""
        return bool(self._call(lib.uvcc_link_writable, int(kind), length))

    def send_hello(self, payload: bytes, sealed: bool = False) -> None:
        """A HELLO, which is not numbered nor repeated; a newer one takes the place of one that waits."""
        self._do(lib.uvcc_link_send_hello, payload, len(payload), sealed,
                 what="a HELLO is too long, or there are no keys to seal it")

    def poll_transmit(self, now: int | None = None) -> Transmit | None:
        """The next bytes to send, one transmit at a time, or None."""
        tx = ffi.new("uvcc_transmit *")
        if self._do(lib.uvcc_link_poll_transmit, tx, _time(now)) == 0:
            return None
        self._transmit = Transmit(self, tx)
        return self._transmit

    def transmit_done(self, transmit: Transmit, sent: int, now: int | None = None) -> None:
        """`sent` bytes of it went out; on a stream the rest is offered next."""
        if self._transmit is not transmit or not transmit._alive:
            raise Error(ErrorCode.STATE, "this transmit is over")
        if not 0 <= sent <= transmit.total:
            raise usage(f"{sent} of {transmit.total} bytes were sent")
        self._do(lib.uvcc_link_transmit_done, transmit.id, sent, _time(now))
        self._over()

    def _over(self) -> None:
        transmit, self._transmit = self._transmit, None
        if transmit is not None:
            transmit._alive = False

    # ---- receiving ----

    def feed(self, data: bytes | bytearray | memoryview, now: int | None = None, *,
             ce: bool | None = None) -> None:
        """Bytes of the peer: a piece of its stream, or one datagram (ce: what its IP header said).
        STREAM_BROKEN: close the stream and connect again."""
        buffer, length = view(data)
        if ce is None:
            self._do(lib.uvcc_link_feed, buffer, length, _time(now), what="the stream is broken")
        else:
            self._do(lib.uvcc_link_feed_ecn, buffer, length, ce, _time(now),
                     what="ECN marks packets: this link is a stream")

    def poll_message(self) -> Message | None:
        """The next whole message that was not offered yet, or None."""
        rx = ffi.new("uvcc_link_rx *")
        link = self._begin()
        try:
            if check(lib.uvcc_link_poll_message(link, rx)) == 0:
                return None
            return Message(rx.token, FrameKind(rx.kind), rx.step, rx.op_id,
                           tuple(rx.msg_ids[i] for i in range(rx.chunk_cnt)),
                           bytes(ffi.buffer(rx.data, rx.len)))
        finally:
            self._end()

    def accept(self, message: Message, now: int | None = None) -> None:
        """Only now is it acknowledged."""
        self._do(lib.uvcc_link_accept, message.token, _time(now), what="no such message is here")

    def release(self, message: Message, now: int | None = None) -> None:
        """Its memory goes back, and the peer may send more. One that was not accepted is never
        acknowledged."""
        self._do(lib.uvcc_link_release, message.token, _time(now), what="no such message is here")

    def poll_hello(self) -> tuple[bytes, bool] | None:
        """The next HELLO, and whether it came sealed and verified; or None."""
        out = ffi.new("uint8_t[]", _api.HELLO_MAX_BYTES)
        sealed = ffi.new("bool *")
        length = self._call(lib.uvcc_link_poll_hello, out, sealed)
        return None if length == 0 else (bytes(ffi.buffer(out, length)), bool(sealed[0]))

    @property
    def violation(self) -> str | None:
        """Why a sealed and authentic frame was wrong in itself, for good; None: none was."""
        text = self._call(lib.uvcc_link_violation)
        return None if text == NULL else ffi.string(text).decode()

    # ---- streams, time, what is known ----

    def stream_opened(self, now: int | None = None) -> None:
        """A new byte stream is up: what is unacknowledged is sent again."""
        self._call(lib.uvcc_link_stream_opened, _time(now))
        self._over()

    def stream_closed(self, now: int | None = None) -> None:
        """It is gone; a transmit that is out is void."""
        self._call(lib.uvcc_link_stream_closed, _time(now))
        self._over()

    def next_deadline(self) -> int:
        """When to call on_timer(), then poll_transmit(): by the clock of `now`; NEVER."""
        return int(self._call(lib.uvcc_link_next_deadline))

    def on_timer(self, now: int | None = None) -> None:
        """To be called when next_deadline() has come."""
        self._call(lib.uvcc_link_on_timer, _time(now))

    @property
    def heard(self) -> bool:
        """A sealed, authentic frame of this run came."""
        return bool(self._call(lib.uvcc_link_heard))

    @property
    def drained(self) -> bool:
        """Nothing is queued, nothing unacknowledged."""
        return bool(self._call(lib.uvcc_link_drained))

    @property
    def settled(self) -> bool:
        """The same, and no ACK of ours is due: the peer has all that it can want."""
        return bool(self._call(lib.uvcc_link_settled))

    @property
    def gapless(self) -> bool:
        """Nothing is missing of what the peer sent up to the last frame that came."""
        return bool(self._call(lib.uvcc_link_gapless))

    @property
    def memory_bound(self) -> int:
        """The most memory that this link may ever take, in bytes."""
        return int(self._call(lib.uvcc_link_memory_bound))

    def stats(self) -> LinkStats:
        """What happened so far."""
        out = ffi.new("uvcc_link_stats *")
        self._call(lib.uvcc_link_get_stats, out)
        return take(LinkStats, out)
