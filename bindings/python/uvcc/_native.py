"""Who owns what of the library's memory.

A `Native` is one C object. It is freed once, when the last that needs it lets go: the Python object
that stands for it, and other C objects that use it (a session its program, an executor the sessions
whose jobs are out). This counting is explicit, because the garbage collector ends the objects of a
cycle in any order. Tokens in a set are the count: adding and discarding one is atomic.

An `Owned` is the Python object. One call at a time goes into it: a call by another thread waits, a
call out of one of its own hooks is refused. `free()` may come at any time, in any order, often."""
from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from ._api import ErrorCode
from .errors import Error, usage


class Native:
    """One C object, and what must live as long as it."""

    __slots__ = ("ptr", "_tokens", "_todo", "keep", "__weakref__")

    def __init__(self, ptr: Any, free: Callable[[Any], object], needs: tuple[Native, ...] = (),
                 keep: object = None) -> None:
        self.ptr = ptr
        self.keep = keep
        self._tokens: set[object] = set()
        held = [(n, n.hold()) for n in needs]
        self._todo = [(free, held)]

    def hold(self) -> object:
        """A token: the object lives at least until it is dropped."""
        token = object()
        self._tokens.add(token)
        if not self._todo:
            self._tokens.discard(token)
            raise Error(ErrorCode.CLOSED, "the object was freed")
        return token

    def drop(self, token: object) -> None:
        self._tokens.discard(token)
        if self._tokens:
            return
        try:
            free, held = self._todo.pop()
        except IndexError:
            return
        ptr, self.ptr = self.ptr, None
        free(ptr)
        self.keep = None
        for native, its in held:
            native.drop(its)


class Owned:
    """A Python object that stands for a C object."""

    _native: Native | None = None
    _token: object = None

    def __init__(self, native: Native) -> None:
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._token = native.hold()
        self._native = native

    def free(self) -> None:
        """Gives the C object back. Often, and in any order with other objects: its memory goes when
        nothing needs it any more. Every other call says CLOSED from now on."""
        if self._native is None:
            return
        self._begin(closed=True)
        try:
            native, self._native = self._native, None
        finally:
            self._end()
        if native is not None:
            native.drop(self._token)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.free()

    def __del__(self) -> None:
        native, self._native = self._native, None
        if native is not None:
            native.drop(self._token)

    @property
    def freed(self) -> bool:
        return self._native is None

    def _begin(self, closed: bool = False) -> Any:
        """Begins a call: the pointer. Whoever begins ends."""
        me = threading.get_ident()
        if self._holder == me:
            raise usage(f"{type(self).__name__} was called out of one of its own hooks")
        self._lock.acquire()
        self._holder = me
        native = self._native
        if native is None:
            if closed:
                return None
            self._end()
            raise Error(ErrorCode.CLOSED, f"this {type(self).__name__} was freed")
        return native.ptr

    def _end(self) -> None:
        self._holder = None
        self._lock.release()

    def _call(self, function: Any, *args: Any) -> Any:
        """function(pointer, args...), one at a time."""
        ptr = self._begin()
        try:
            return function(ptr, *args)
        finally:
            self._end()

    @property
    def _alive(self) -> Native:
        native = self._native
        if native is None:
            raise Error(ErrorCode.CLOSED, f"this {type(self).__name__} was freed")
        return native
