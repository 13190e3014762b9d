"""The local plane: collectives among the workers of one party, which trust one another.

A session of a job with several workers hands out each collective as a job of plane LOCAL. `Collective`
carries them out within one process: submit the job under the worker's local rank, (r S + s) T + t,
and give the completion to that worker's session. Between processes a host moves the bytes itself;
`CollectiveOrder` makes all ranks of a group begin their operations in one order."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ._api import CollectiveActionKind, CollectiveOp, Phase, Plane
from ._load import NULL, ffi, lib
from ._native import Native, Owned
from .compute import Completion, Job
from .errors import check, usage
from .program import allocator


class Collective(Owned):
    """The collectives of all workers of one party, in one thread. What does not fit together (another
    operation, other elements) completes with ErrorCode.JOB at every member; `why` says what it was."""

    def __init__(self, replicas: int = 1, stages: int = 1, tp_ranks: int = 1) -> None:
        cfg = ffi.new("uvcc_collective_config *", {
            "size": ffi.sizeof("uvcc_collective_config"), "alloc": allocator(),
            "replicas": replicas, "stages": stages, "tp_ranks": tp_ranks})
        out = ffi.new("uvcc_collective **")
        check(lib.uvcc_collective_new(out, cfg))
        self.workers = replicas * stages * tp_ranks
        # Of each worker, in the order of submitting: a session's jobs may have other sessions' ids.
        held: list[list[tuple[Job, Native, object]]] = [[] for _ in range(self.workers)]
        self._held = held

        def free(ptr: Any) -> None:
            lib.uvcc_collective_free(ptr)
            for jobs in held:
                while jobs:
                    job, session, token = jobs.pop()
                    job._ran()
                    session.drop(token)

        super().__init__(Native(out[0], free))

    def submit(self, local_rank: int, job: Job) -> None:
        """A job of plane LOCAL of that worker. When the last member's comes, the operation is done."""
        self._check_rank(local_rank)
        if job.plane != Plane.LOCAL:
            raise usage("a job of the compute plane is an executor's, not a collective's")
        ptr = self._begin()
        try:
            token = job._begin()
            result = lib.uvcc_collective_submit(ptr, local_rank, job._ptr)
            if result < 0:
                job._state[:] = ["new"]
                job._session.drop(token)
            else:
                self._held[local_rank].append((job, job._session, token))
        finally:
            self._end()
        check(result)

    def poll(self, local_rank: int) -> Completion | None:
        """The worker's next completion, or None."""
        self._check_rank(local_rank)
        out = ffi.new("uvcc_completion *")
        ptr = self._begin()
        try:
            if check(lib.uvcc_collective_poll(ptr, local_rank, out)) == 0:
                return None
            jobs = self._held[local_rank]
            at = next(i for i, (job, _, _) in enumerate(jobs)
                      if (job.id, job.cookie) == (out.id, out.cookie))
            job, session, token = jobs.pop(at)
            job._ran()
        finally:
            self._end()
        session.drop(token)
        return Completion(out.id, out.cookie, out.status)

    def fail(self) -> None:
        """A worker is gone: what waits and whatever comes later fails, for all workers."""
        self._call(lib.uvcc_collective_fail)

    def pending(self, local_rank: int) -> int:
        """Jobs of the worker whose completion was not polled yet."""
        self._check_rank(local_rank)
        return int(self._call(lib.uvcc_collective_pending, local_rank))

    @property
    def why(self) -> str | None:
        """Why the first operation failed; None: none did."""
        text = self._call(lib.uvcc_collective_why)
        return None if text == NULL else ffi.string(text).decode("utf-8", "replace")

    def _check_rank(self, local_rank: int) -> None:
        if not 0 <= local_rank < self.workers:
            raise usage(f"local rank {local_rank} is none of {self.workers} workers")


@dataclass(frozen=True)
class CollectiveTag:
    """What names an operation in its group, the same at all ranks; op, elems and additive are compared."""

    step: int
    phase: Phase
    mb: int
    k: int
    op: CollectiveOp
    elems: int
    additive: bool = False

    @classmethod
    def of(cls, job: Job) -> CollectiveTag:
        """The tag of a job of plane LOCAL, which has one task."""
        if job.plane != Plane.LOCAL or job._state[-1:] == ["over"]:
            raise usage("the job is over, or none of the local plane")
        return cls._taken(lib.uvcc_collective_tag_of(job._ptr.tasks))

    @classmethod
    def _taken(cls, tag: Any) -> CollectiveTag:
        return cls(tag.step, Phase(tag.phase), tag.mb, tag.k, CollectiveOp(tag.op), tag.elems,
                   tag.additive)

    def _struct(self) -> Any:
        return ffi.new("uvcc_collective_tag *", {
            "step": self.step, "phase": int(self.phase), "mb": self.mb, "k": self.k,
            "op": int(self.op), "additive": self.additive, "elems": self.elems})


@dataclass(frozen=True)
class CollectiveAction:
    """ISSUE: start the operation that was submitted under `id`. TOKEN, at rank 0: send `tag` to every
    other rank of the group, in the order of these."""

    kind: CollectiveActionKind
    id: int
    tag: CollectiveTag


class CollectiveOrder(Owned):
    """The order of one group at one of its ranks, without I/O: rank 0 issues operations as they become
    ready and has a token for each; the others issue them in the order of the tokens."""

    def __init__(self, rank: int) -> None:
        al = ffi.new("uvcc_allocator *", allocator())
        out = ffi.new("uvcc_collective_order **")
        check(lib.uvcc_collective_order_new(out, al, rank))
        super().__init__(Native(out[0], lib.uvcc_collective_order_free))

    def submit(self, tag: CollectiveTag, id: int) -> None:
        """This rank's inputs are ready. STATE: the same operation waits already; MISMATCH: the
        leader's token says another one, and nothing is issued any more."""
        check(self._call(lib.uvcc_collective_order_submit, tag._struct(), id))

    def token(self, tag: CollectiveTag) -> None:
        """A token of rank 0, in the order in which they were sent."""
        check(self._call(lib.uvcc_collective_order_token, tag._struct()))

    def poll(self) -> CollectiveAction | None:
        """What to do next, or None."""
        out = ffi.new("uvcc_collective_action *")
        if check(self._call(lib.uvcc_collective_order_poll, out)) == 0:
            return None
        return CollectiveAction(CollectiveActionKind(out.kind), out.id, CollectiveTag._taken(out.tag))


__all__ = ["Collective", "CollectiveAction", "CollectiveOrder", "CollectiveTag"]
