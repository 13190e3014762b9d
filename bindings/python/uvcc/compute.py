"""Compute jobs and the CPU executor."""
from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from . import _api
from ._api import CpuBackend, CpuMode, ErrorCode, Plane
from ._load import NULL, ffi, lib
from ._native import Native, Owned
from .errors import Error, check, usage
from .hooks import unraisable
from .program import allocator


@dataclass(frozen=True)
class Completion:
    """What a job came to: status 0 or ErrorCode.JOB."""

    id: int
    cookie: int
    status: int = 0


class Job:
    """A job that a session handed out. It runs once; its memory is the session's, and stays until
    the completion was handed in."""

    __slots__ = ("id", "cookie", "rank", "plane", "tasks", "_ptr", "_session", "_state")

    def __init__(self, ptr: Any, session: Native) -> None:
        self.id: int = ptr.id
        self.cookie: int = ptr.cookie
        self.rank: int = ptr.rank
        self.plane = Plane(ptr.plane)
        self.tasks: int = ptr.count
        self._ptr = ptr
        self._session = session
        # "new", "running" at an executor, "over". A list: taking the word out is atomic.
        self._state = ["new"]

    def _begin(self) -> object:
        """Whoever runs it: a token of the session's memory."""
        try:
            state = self._state.pop()
        except IndexError:
            state = "running"
        if state != "new":
            self._state.append(state)
            raise Error(ErrorCode.STATE, f"job {self.id} is {state} already")
        try:
            token = self._session.hold()
        except Error:
            self._state.append("over")
            raise
        self._state.append("running")
        return token

    def _ran(self) -> None:
        self._state[:] = ["over"]

    @property
    def _running(self) -> bool:
        return self._state[-1:] == ["running"] or not self._state

    def __repr__(self) -> str:
        return f"<Job {self.id} of {self.cookie}: {self.tasks} tasks, {self.plane.name}>"


@ffi.callback("void(void *)")  # type: ignore[untyped-decorator]
def _wake(user: Any) -> None:
    try:
        hook = ffi.from_handle(user)
        hook[0]()
    except BaseException as error:  # noqa: B902 - nothing may leave a thread of C
        unraisable(error, "the wake hook of an executor")


_live: weakref.WeakSet[Cpu] = weakref.WeakSet()


class Cpu(Owned):
    """A CPU executor: takes jobs, gives completions.

    mode INLINE runs a job in submit(); THREADS in `threads` workers, which call `wake` after each
    (from their threads: asyncio's loop.call_soon_threadsafe is made for it; it must not call this
    package). Calls of one executor come from one thread at a time."""

    def __init__(self, mode: CpuMode = CpuMode.INLINE, *, threads: int = 0, queue_jobs: int = 0,
                 seed: int = 0, backend: CpuBackend = CpuBackend.AUTO,
                 wake: Callable[[], object] | None = None) -> None:
        if mode == CpuMode.TIMED:
            raise usage("the TIMED executor is for simulations in C")
        hook = [wake]
        handle = ffi.new_handle(hook)
        cfg = ffi.new("uvcc_cpu_config *", {
            "size": ffi.sizeof("uvcc_cpu_config"), "alloc": allocator(), "mode": int(mode),
            "threads": threads, "queue_jobs": queue_jobs, "seed": seed, "backend": int(backend),
            "wake": NULL if wake is None else _wake, "wake_user": handle})
        out = ffi.new("uvcc_cpu **")
        check(lib.uvcc_cpu_new(out, cfg))
        self._out: dict[tuple[int, int], tuple[Job, Native, object]] = {}
        held = self._out

        def free(ptr: Any) -> None:
            lib.uvcc_cpu_free(ptr)  # finishes what runs
            while held:
                _, (job, session, token) = held.popitem()
                job._ran()
                session.drop(token)

        super().__init__(Native(out[0], free, (), (hook, handle)))
        _live.add(self)

    def submit(self, job: Job) -> None:
        """Runs a job of plane COMPUTE. AGAIN: too many are out."""
        if job.plane != Plane.COMPUTE:
            raise usage("a job of the local plane is a collective's, not an executor's")
        ptr = self._begin()
        try:
            token = job._begin()
            self._out[job.cookie, job.id] = (job, job._session, token)
            result = lib.uvcc_cpu_submit(ptr, job._ptr)
            if result < 0:
                del self._out[job.cookie, job.id]
                job._state[:] = ["new"]
                job._session.drop(token)
        finally:
            self._end()
        check(result)

    def poll(self) -> Completion | None:
        """The next completion, or None."""
        out = ffi.new("uvcc_completion *")
        ptr = self._begin()
        try:
            if check(lib.uvcc_cpu_poll(ptr, out)) == 0:
                return None
            job, session, token = self._out.pop((out.cookie, out.id))
            job._ran()
        finally:
            self._end()
        session.drop(token)
        return Completion(out.id, out.cookie, out.status)

    @property
    def pending(self) -> int:
        """Jobs whose completion was not polled yet."""
        return int(self._call(lib.uvcc_cpu_pending))

    def wait(self) -> None:
        """THREADS: blocks until a completion is ready or nothing is pending."""
        self._call(lib.uvcc_cpu_wait)


@atexit.register
def _end() -> None:
    """Workers of C must not call into an interpreter that ends."""
    for cpu in list(_live):
        cpu.free()


def backends() -> list[CpuBackend]:
    """The kernels that this CPU can run."""
    return [b for b in CpuBackend if lib.uvcc_cpu_backend_is_here(int(b))]


STACK_BYTES = _api.TASK_STACK_BYTES
