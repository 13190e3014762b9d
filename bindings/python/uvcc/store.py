"""A party's directory: run numbers and checkpoints that survive a crash (docs/host.md).

The three rules of checkpoints are kept by `uvcc.aio.Host`; here is the disk: files are whole under
their names, and durable when a call returns. CHECKPOINTS HOLD SHARES: they are written with mode
0600, and encrypted only if `seal` and `unseal` are given; else the disk must be."""
from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable
from pathlib import Path

from ._api import ErrorCode
from .errors import Error

NAME = re.compile(r"step-(0|[1-9][0-9]{0,9})\.checkpoint")
RUN_MAX = 2**32 - 1


class Store:
    """The directory of one worker of one party. One process at a time: `Error` STATE if another one
    has it."""

    def __init__(self, directory: str | os.PathLike[str], *,
                 seal: Callable[[bytes], bytes] | None = None,
                 unseal: Callable[[bytes], bytes] | None = None) -> None:
        self.path = Path(directory)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._seal, self._unseal = seal, unseal
        self._fd = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._fd)
            self._fd = -1
            raise Error(ErrorCode.STATE, f"another process uses {self.path}") from None

    def close(self) -> None:
        """Gives the directory back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_fd", -1) >= 0:
            self.close()

    def next_run(self) -> int:
        """The next run number, for resume.next_run: never the same twice, durable before it is
        returned. `Error` STATE: the file `run` is missing beside checkpoints, or damaged."""
        path = self.path / "run"
        try:
            text = path.read_text("ascii")
        except FileNotFoundError:
            if self.checkpoints():
                raise Error(ErrorCode.STATE, f"{path} is missing beside checkpoints: put back "
                            "a number that is at least that of the last run") from None
            run = 0
        else:
            if not re.fullmatch(r"(0|[1-9][0-9]{0,9})\n", text) or int(text) >= RUN_MAX:
                raise Error(ErrorCode.STATE, f"{path} holds no run number that can be counted on")
            run = int(text) + 1
        self._write("run", b"%d\n" % run)
        return run

    def checkpoints(self) -> list[int]:
        """The steps of the checkpoints that are kept, ascending."""
        return sorted(int(m.group(1)) for name in os.listdir(self.path)
                      if (m := NAME.fullmatch(name)))

    def read(self, step: int) -> bytes:
        data = (self.path / f"step-{step}.checkpoint").read_bytes()
        return data if self._unseal is None else self._unseal(data)

    def write(self, step: int, data: bytes) -> None:
        """Durable when it returns."""
        self._write(f"step-{step}.checkpoint", data if self._seal is None else self._seal(data))

    def remove_up_to(self, step: int) -> None:
        """Removes checkpoints of this step and before, but never the last one."""
        kept = self.checkpoints()
        for old in [s for s in kept if s <= step and s != kept[-1]]:
            (self.path / f"step-{old}.checkpoint").unlink()

    def mark(self, name: str) -> None:
        """Notes something for good."""
        if not self.marked(name):
            self._write(name, b"")

    def marked(self, name: str) -> bool:
        return (self.path / name).exists()

    def _write(self, name: str, data: bytes) -> None:
        part = self.path / (name + ".part")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(part, flags, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, self.path / name)
        fd = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
