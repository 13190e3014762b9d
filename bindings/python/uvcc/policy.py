"""Policies: what a party consents to (docs/policy.md)."""
from __future__ import annotations

from . import _api
from ._api import PolicyRule
from ._convert import take
from ._load import ffi, lib
from .errors import check
from .program import MESSAGE_BYTES, Program


class Policy:
    """A policy, checked. `Error` CONFIG: the text is none; the detail names the line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._data = text.encode()
        message = ffi.new("char[]", MESSAGE_BYTES)
        check(lib.uvcc_policy_check(self._data, len(self._data), message, MESSAGE_BYTES),
              ffi.string(message).decode("utf-8", "replace"))

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Policy) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def hash(self) -> bytes:
        """identity.policy_hash of a session that has it."""
        out = ffi.new("uint8_t[32]")
        lib.uvcc_policy_hash(self._data, len(self._data), out)
        return bytes(ffi.buffer(out))

    @property
    def rules(self) -> list[PolicyRule]:
        """The rules in the order of the text."""
        place, rule = ffi.new("size_t *"), ffi.new("uvcc_policy_rule *")
        found = []
        while check(lib.uvcc_policy_next(self._data, len(self._data), place, rule)) == 1:
            found.append(take(PolicyRule, rule))
        return found

    def check(self, program: Program) -> None:
        """Whether a session with it loads the finished program. `Error` REFUSED: the detail names
        what is not allowed."""
        message = ffi.new("char[]", MESSAGE_BYTES)
        result = program._call(lambda p: lib.uvcc_policy_program(
            self._data, len(self._data), p, message, MESSAGE_BYTES))
        check(result, ffi.string(message).decode("utf-8", "replace"))


TEXT_MAX = _api.POLICY_BYTES_MAX
