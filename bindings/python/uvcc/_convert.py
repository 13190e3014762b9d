"""Between C structures and Python values, and NumPy arrays that fit."""
from __future__ import annotations

import dataclasses
import enum
import functools
import sys
import typing
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _api
from ._load import NULL, ffi
from .errors import usage

T = TypeVar("T")
Words = NDArray[np.int64]
Shares = NDArray[np.uint64]


def fill(struct: Any, value: Any) -> list[Any]:
    """Members of a dataclass into a structure; None leaves what is there. Returns what must live as
    long as the structure does."""
    kept: list[Any] = []
    for field in dataclasses.fields(value):
        given = getattr(value, field.name)
        if given is None:
            continue
        kept += _put(struct, field.name, given, type(value).__name__)
    return kept


def _put(struct: Any, name: str, given: Any, owner: str) -> list[Any]:
    kind = dict(ffi.typeof(struct).fields if ffi.typeof(struct).kind == "struct"
                else ffi.typeof(struct).item.fields)[name].type
    where = f"{owner}.{name}"
    if kind.kind == "pointer" and isinstance(given, str):
        text = ffi.new("char[]", given.encode())
        setattr(struct, name, text)
        return [text]
    if kind.kind != "array":
        setattr(struct, name, int(given) if isinstance(given, enum.IntEnum) else given)
        return []
    at = getattr(struct, name)
    if kind.item.kind == "array":
        rows = list(given)
        if rows and len(rows) != kind.length:
            raise usage(f"{where} has {kind.length} entries")
        for i, row in enumerate(rows):
            _bytes(at[i], row, kind.item.length, f"{where}[{i}]")
    elif isinstance(given, (bytes, bytearray, memoryview)):
        _bytes(at, given, kind.length, where)
    else:
        words = [int(w) for w in given]
        if len(words) > kind.length:
            raise usage(f"{where} has {kind.length} entries at most")
        for i, word in enumerate(words):
            at[i] = word
    return []


def _bytes(at: Any, given: Any, length: int, where: str) -> None:
    data = bytes(given)
    if data and len(data) != length:
        raise usage(f"{where} is {len(data)} bytes long, not {length}")
    if data:
        ffi.memmove(at, data, length)


@functools.cache
def _types(cls: Any) -> dict[str, Any]:
    return typing.get_type_hints(cls, vars(sys.modules[_api.__name__]))


def take(cls: type[T], struct: Any) -> T:
    """A dataclass out of a structure, everything copied."""
    types = _types(typing.cast(Any, cls))
    values = {}
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        values[field.name] = _get(getattr(struct, field.name), types[field.name])
    return cls(**values)


def _get(value: Any, want: Any) -> Any:
    if want is bytes:
        return bytes(ffi.buffer(value))
    if want is str:
        return "" if value == NULL else ffi.string(value).decode("utf-8", "replace")
    if isinstance(want, type) and issubclass(want, enum.Enum):
        try:
            return want(value)
        except ValueError:
            return value
    if typing.get_origin(want) is tuple:
        if ffi.typeof(value).item.kind == "array":
            return tuple(bytes(ffi.buffer(row)) for row in value)
        return tuple(value)
    return value


def words(values: ArrayLike, shape: tuple[int, int], what: str) -> Words:
    """rows x cols integers of 64 bits, in order, of their own type: a float is not silently cut."""
    array = np.asarray(values)
    if array.dtype == np.bool_:
        array = array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise usage(f"{what}: elements of type {array.dtype} are no fixed-point integers; "
                    "see uvcc.to_fixed()")
    if array.dtype == np.uint64 and array.size and int(array.max()) > 2**63 - 1:
        raise usage(f"{what}: a value is 2^63 or more")
    flat = array.ndim == 1 and 1 in shape and array.size == shape[0] * shape[1]
    if array.shape != shape and not flat:
        raise usage(f"{what}: the shape is {array.shape}, not {shape}")
    return np.ascontiguousarray(array, dtype=np.int64)


def shares(values: ArrayLike, shape: tuple[int, int], what: str) -> Shares:
    array = np.asarray(values)
    if array.dtype != np.uint64:
        raise usage(f"{what}: components of shares are of type uint64, not {array.dtype}")
    if array.shape != shape:
        raise usage(f"{what}: the shape is {array.shape}, not {shape}")
    return np.ascontiguousarray(array)


def at(array: NDArray[Any], kind: str) -> Any:
    """A pointer to a contiguous array's elements; the array must be kept meanwhile."""
    return ffi.cast(kind, array.ctypes.data)


def array_of(ptr: Any, shape: tuple[int, int], dtype: Any = np.int64) -> NDArray[Any]:
    """A copy of rows x cols elements."""
    n = shape[0] * shape[1]
    copied = np.frombuffer(ffi.buffer(ptr, 8 * n), dtype=dtype, count=n).reshape(shape).copy()
    return copied


def view(data: bytes | bytearray | memoryview) -> Any:
    """(pointer, length) of bytes, without a copy; keep the first while C reads."""
    buffer = ffi.from_buffer("uint8_t[]", data)
    return buffer, len(buffer)
