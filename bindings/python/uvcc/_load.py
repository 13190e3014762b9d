"""Finds the library and loads it: `ffi`, `lib`.

In this order: what the environment's UVCC_LIBRARY names; the copy that a wheel carries beside this
file; the system's. The declarations are of one version, so the library must be of the same."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from . import _api
from ._cdef import ffi as _ffi

ffi: Any = _ffi
NULL: Any = ffi.NULL
SYSTEM = ("libuvcc.so." + ".".join(_api.VERSION.split(".")[:2]), "libuvcc.so")


def _open() -> tuple[Any, str]:
    named = os.environ.get("UVCC_LIBRARY")
    carried = Path(__file__).with_name(SYSTEM[0])
    names = [named] if named else [str(carried)] if carried.exists() else list(SYSTEM)
    tried = []
    for name in names:
        try:
            return ffi.dlopen(name), name
        except OSError as error:
            tried.append(str(error))
    raise ImportError("libuvcc was not found (UVCC_LIBRARY may name it): " + "; ".join(tried))


lib, LIBRARY = _open()
_found = ffi.string(lib.uvcc_version()).decode()
if _found != _api.VERSION:
    raise ImportError(f"{LIBRARY} is uvcc {_found}, and this package is of uvcc {_api.VERSION}")


def open_io() -> Any:
    """The second library, libuvcc-io, if it is here, else None."""
    name = Path(LIBRARY).name.replace("libuvcc", "libuvcc-io")
    try:
        return ffi.dlopen(str(Path(LIBRARY).with_name(name)) if "/" in LIBRARY else name)
    except OSError:
        return None
