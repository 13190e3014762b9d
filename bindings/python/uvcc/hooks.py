"""Hooks: what C calls of Python. Nothing that is raised in one may go through C."""
from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

from ._api import LogLevel
from ._load import NULL, ffi

Logger: TypeAlias = logging.Logger | Callable[[LogLevel, str], object]
Recorder: TypeAlias = Callable[[bytes], object]
LEVELS = {LogLevel.ERROR: logging.ERROR, LogLevel.WARN: logging.WARNING,
          LogLevel.INFO: logging.INFO, LogLevel.DEBUG: logging.DEBUG}


def unraisable(error: BaseException, where: str) -> None:
    """For what cannot be raised: sys.unraisablehook, as Python does for __del__."""
    try:
        sys.unraisablehook(SimpleNamespace(
            exc_type=type(error), exc_value=error, exc_traceback=error.__traceback__,
            err_msg=f"Exception ignored in {where}", object=None))
    except BaseException:  # noqa: B902 - a hook of a hook
        pass


class Hooks:
    """The hooks of one session."""

    def __init__(self, log: Logger | None, record: Recorder | None) -> None:
        self.log = log
        self.record = record
        self.last = ""            # the last line of a warning or an error
        self.broken: BaseException | None = None
        self.handle = ffi.new_handle(self)

    def line(self, level: LogLevel, text: str) -> None:
        if level <= LogLevel.WARN:
            self.last = text
        if isinstance(self.log, logging.Logger):
            self.log.log(LEVELS[level], "%s", text)
        elif self.log is not None:
            self.log(level, text)

    def raise_broken(self) -> None:
        """A recorder that raised: its exception comes out of the next call, once."""
        if self.broken is not None:
            error, self.broken = self.broken, None
            raise error


@ffi.callback("void(void *, uvcc_log_level, const char *)")  # type: ignore[untyped-decorator]
def log_hook(user: Any, level: int, line: Any) -> None:
    try:
        ffi.from_handle(user).line(LogLevel(level), ffi.string(line).decode("utf-8", "replace"))
    except BaseException as error:  # noqa: B902
        unraisable(error, "the logger of a session")


@ffi.callback("void(void *, const uint8_t *, size_t)")  # type: ignore[untyped-decorator]
def record_hook(user: Any, data: Any, length: int) -> None:
    hooks = ffi.from_handle(user)
    try:
        if hooks.record is not None:
            hooks.record(bytes(ffi.buffer(data, length)))
    except BaseException as error:  # noqa: B902
        hooks.broken = error
        hooks.record = None  # a log with a hole is none


def logger_struct(hooks: Hooks) -> dict[str, Any]:
    return {"write": log_hook, "user": hooks.handle}


__all__ = ["Hooks", "Logger", "Recorder", "NULL"]
