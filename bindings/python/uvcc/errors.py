"""Errors of the library as exceptions."""
from __future__ import annotations

from . import _api
from ._api import ErrorCode
from ._load import ffi, lib


class Error(Exception):
    """A call that the library refused. `code` says what kind of thing is wrong (an `ErrorCode`,
    which a program decides by), `name` is its name, `detail` a line for a person ("" if there is
    none). Unless its documentation says otherwise, a call that failed has changed nothing."""

    def __init__(self, code: int, detail: str = "") -> None:
        self.code: int = ErrorCode(code) if code in _CODES else code
        self.name: str = ffi.string(lib.uvcc_error_name(code)).decode()
        self.detail = detail
        text = ffi.string(lib.uvcc_error_text(code)).decode()
        super().__init__(f"{self.name}: {detail or text}")

    def __reduce__(self) -> tuple[type[Error], tuple[int, str]]:
        return type(self), (int(self.code), self.detail)


class Aborted(Error):
    """The session was aborted; `reason` is an `AbortReason`, `peer` whom the event names."""

    def __init__(self, reason: int, text: str, peer: int = 255) -> None:
        self.reason = _api.AbortReason(reason)
        self.peer = peer
        super().__init__(ErrorCode.ABORTED, f"{self.reason.name}: {text}")

    def __reduce__(self) -> tuple[type[Error], tuple[int, str]]:
        return type(self), (self.reason, self.detail)


_CODES = frozenset(int(c) for c in ErrorCode)


def check(result: int, detail: str = "") -> int:
    """The result, or the exception that a negative one stands for."""
    if result < 0:
        raise Error(result, detail)
    return result


def usage(detail: str) -> Error:
    """Wrong use that this package found before the library was called."""
    return Error(ErrorCode.USAGE, detail)
