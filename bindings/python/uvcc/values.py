"""Shares of clients, checkpoints without a session, logs that are run again."""
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _api
from ._api import CheckpointInfo
from ._convert import Shares, at, take, view
from ._load import ffi, lib
from .compute import Cpu
from .errors import check, usage
from .program import Program, Tensor, allocator


def split(values: ArrayLike) -> tuple[Shares, Shares, Shares]:
    """The three components of values' shares. Party p is given components p and p + 1 (mod 3)."""
    array = np.asarray(values)
    if array.dtype.kind != "i":
        raise usage(f"elements of type {array.dtype} are no fixed-point integers")
    v = np.ascontiguousarray(array, np.int64)
    a, b, c = (np.zeros(v.shape, np.uint64) for _ in range(3))
    random = ffi.new("uvcc_random *", lib.uvcc_host_random())
    check(lib.uvcc_client_split(at(v, "int64_t *"), v.size, random, *(
        at(x, "uint64_t *") for x in (a, b, c))))
    return a, b, c


def deal(sid_job: bytes, numbers: ArrayLike, bits: int) -> tuple[tuple[Shares, Shares], ...]:
    """Keys of numbers below 2^bits for the parties of a job: what parties 0, 1 and 2 set as the two
    components of a one-hot PERSIST tensor of so many elements."""
    array = np.asarray(numbers)
    if array.dtype.kind != "i" or len(sid_job) != 32:
        raise usage("numbers are integers, and sid_job has 32 bytes")
    v = np.ascontiguousarray(array, np.int64)
    count = v.size * (lib.uvcc_client_key_words(bits) + 2)
    parts = [[np.zeros((1, count), np.uint64) for _ in range(2)] for _ in range(3)]
    to = ffi.new("uint64_t *[3][2]", [[at(x, "uint64_t *") for x in pair] for pair in parts])
    random = ffi.new("uvcc_random *", lib.uvcc_host_random())
    check(lib.uvcc_client_deal(ffi.from_buffer("uint8_t[]", sid_job), bits, at(v, "int64_t *"),
                               v.size, random, to))
    return tuple((lo, hi) for lo, hi in parts)


def combine(a: Shares, b: Shares, c: Shares) -> NDArray[np.int64]:
    """The values of three components."""
    if not a.shape == b.shape == c.shape or any(x.dtype != np.uint64 for x in (a, b, c)):
        raise usage("components are arrays of uint64 of one shape")
    kept = [np.ascontiguousarray(x) for x in (a, b, c)]
    out = np.zeros(a.shape, np.int64)
    lib.uvcc_client_combine(*(at(x, "uint64_t *") for x in kept), out.size, at(out, "int64_t *"))
    return out


def read_checkpoint(data: bytes) -> CheckpointInfo:
    """What a checkpoint is of; all of it is checked. MISMATCH: it is none; AUTH: it is damaged."""
    out = ffi.new("uvcc_checkpoint_info *")
    buffer, length = view(data)
    check(lib.uvcc_checkpoint_read(buffer, length, out))
    return take(CheckpointInfo, out)


def checkpoint_tensor(data: bytes, tensor: Tensor) -> tuple[Shares, Shares]:
    """The two components of a tensor, for Session.set_shares()."""
    lo, hi = np.zeros(tensor.share_shape, np.uint64), np.zeros(tensor.share_shape, np.uint64)
    buffer, length = view(data)
    check(lib.uvcc_checkpoint_tensor(buffer, length, tensor.index, at(lo, "uint64_t *"),
                                     at(hi, "uint64_t *"), lo.size))
    return lo, hi


@dataclass(frozen=True)
class Replay:
    """What a replay found; `what` is "" if all was equal."""

    equal: bool
    records: int
    steps: int
    what: str
    offset: int


def replay(log: bytes, program: Program, cpu: Cpu) -> Replay:
    """Runs a recording again and compares, byte for byte. FRAME: it is cut or altered."""
    opt = ffi.new("uvcc_replay_options *", {"size": ffi.sizeof("uvcc_replay_options"),
                                            "alloc": allocator(), "until": _api.NEVER})
    out = ffi.new("uvcc_replay_result *")
    buffer, length = view(log)
    executor, p = cpu._begin(), program._alive
    token = p.hold()
    try:
        opt.executor = executor
        result = lib.uvcc_replay(buffer, length, p.ptr, opt, out)
    finally:
        p.drop(token)
        cpu._end()
    what = ffi.string(out.what).decode("utf-8", "replace")
    check(result, what)
    return Replay(result == 0, out.records, out.steps, what, out.offset)


__all__ = ["Replay", "checkpoint_tensor", "combine", "read_checkpoint", "replay", "split"]
