"""Evidence: bundles of finished steps, what an auditor checks of them, proofs of single leaves
(docs/audit.md). A party's bundles go to an auditor, NEVER to another party."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import _api
from ._api import AuditFault, ErrorCode, FaultKind, LeafType
from ._convert import take, view
from ._load import NULL, ffi, lib
from .errors import Error, check, usage


class AuditError(Error):
    """What an audit found wrong: `fault` is the first that it found."""

    def __init__(self, code: int, fault: AuditFault) -> None:
        self.fault = fault
        text = ffi.string(lib.uvcc_fault_text(int(fault.kind))).decode()
        where = f"party {fault.party}: " if fault.party != _api.NO_PARTY else ""
        super().__init__(code, where + text)

    def __reduce__(self) -> Any:
        return type(self), (int(self.code), self.fault)


@dataclass(frozen=True)
class Leaf:
    """A leaf of a transcript."""

    index: int
    row: int
    type: LeafType
    src: int | None
    dst: int | None
    op_id: int
    digest: bytes | None
    data: bytes
    hash: bytes


def _keys(keys: Sequence[bytes]) -> Any:
    if len(keys) != 3 or any(len(k) != 32 for k in keys):
        raise usage("the keys of an audit are three of 32 bytes")
    return ffi.new("uvcc_audit_keys *", {"key": [list(k) for k in keys]})


def _checked(result: int, fault: Any) -> int:
    if result < 0:
        if fault.kind != FaultKind.NONE:
            raise AuditError(result, take(AuditFault, fault))
        raise Error(result)
    return result


def _bytes32(ptr: Any) -> bytes:
    return b"" if ptr == NULL else bytes(ffi.buffer(ptr, 32))


class Bundle:
    """The transcript of a finished step at one party, decoded and checked in itself. `AuditError`
    FRAME: it is damaged; which byte is in the fault."""

    def __init__(self, data: bytes) -> None:
        self.data = bytes(data)
        self._view, length = view(self.data)
        self._c = ffi.new("uvcc_bundle *")
        fault = ffi.new("uvcc_audit_fault *")
        _checked(lib.uvcc_bundle_decode(self._c, self._view, length, fault), fault)
        b = self._c
        self.party: int = b.party
        self.step: int = b.step
        self.run: int = b.run
        self.first: int = b.first
        self.leaf_count: int = b.leaf_count
        self.sid_job = _bytes32(b.sid_job)
        self.program_hash = _bytes32(b.h_program)
        self.policy_hash = _bytes32(b.policy_hash)
        self.step_root = _bytes32(b.step_root)
        self.sid_sub = bytes(ffi.buffer(b.sid_sub))
        self.roots: tuple[bytes, ...] = tuple(_bytes32(a.root) for a in b.audit)

    def check(self, keys: Sequence[bytes]) -> None:
        """Its leaves give its root, and every statement in it is signed."""
        fault = ffi.new("uvcc_audit_fault *")
        _checked(lib.uvcc_bundle_check(self._c, _keys(keys), fault), fault)

    def leaves(self) -> Iterator[Leaf]:
        reader, leaf = ffi.new("uvcc_leaf_reader *"), ffi.new("uvcc_leaf *")
        out, digest = ffi.new("uint8_t[]", _api.LEAF_MAX_BYTES), ffi.new("uint8_t[32]")
        lib.uvcc_leaf_reader_init(reader, self._c)
        while check(lib.uvcc_leaf_next(reader, leaf)) == 1:
            n = lib.uvcc_leaf_bytes(self._c, leaf, out)
            lib.uvcc_leaf_hash(self._c, leaf, digest)
            yield Leaf(leaf.index, leaf.row, LeafType(leaf.type),
                       None if leaf.src == _api.NO_PARTY else leaf.src,
                       None if leaf.dst == _api.NO_PARTY else leaf.dst, leaf.op_id,
                       _bytes32(leaf.digest) or None, bytes(ffi.buffer(out, n)),
                       bytes(ffi.buffer(digest)))

    def prove(self, leaf: int) -> bytes:
        """The proof that a leaf is under the root that this worker's party signed."""
        cap = lib.uvcc_proof_max_bytes(NULL)
        out = ffi.new("uint8_t[]", cap)
        n = check(lib.uvcc_proof_make(self._c, leaf, NULL, out, cap), f"leaf {leaf}")
        return bytes(ffi.buffer(out, n))


def verify(bundles: Sequence[Bundle], keys: Sequence[bytes]) -> None:
    """The bundles of parties 0, 1 and 2 of one worker and step: each by itself, and against each
    other. `AuditError` AUTH: the fault names the first that is wrong."""
    if len(bundles) != 3:
        raise usage("an audit has three bundles, of parties 0, 1 and 2")
    three = ffi.new("uvcc_bundle[3]")
    for i, b in enumerate(bundles):
        three[i] = b._c[0]
    fault = ffi.new("uvcc_audit_fault *")
    _checked(lib.uvcc_bundle_verify(three, _keys(keys), fault), fault)


class Proof:
    """A proof that a leaf is in a transcript that a party signed."""

    def __init__(self, data: bytes) -> None:
        self.data = bytes(data)
        self._view, length = view(self.data)
        self._c = ffi.new("uvcc_proof *")
        fault = ffi.new("uvcc_audit_fault *")
        _checked(lib.uvcc_proof_decode(self._c, self._view, length, fault), fault)
        self.party: int = self._c.party
        self.step: int = self._c.step
        self.run: int = self._c.run
        self.index: int = self._c.index
        self.leaf = bytes(ffi.buffer(self._c.leaf, self._c.leaf_len))

    def check(self, keys: Sequence[bytes]) -> None:
        """`AuditError` AUTH: it does not lead to a root that the party signed."""
        fault = ffi.new("uvcc_audit_fault *")
        _checked(lib.uvcc_proof_check(self._c, _keys(keys), fault), fault)


__all__ = ["AuditError", "Bundle", "ErrorCode", "Leaf", "Proof", "verify"]
