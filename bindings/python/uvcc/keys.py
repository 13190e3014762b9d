"""Key files of `uvcc keygen`, public keys, secrets of a pair; and all of a job's for tests."""
from __future__ import annotations

import os
import secrets
import stat
from enum import Enum
from pathlib import Path

from ._api import Checks, Identity
from .errors import usage
from .session import Config, Session


class KeyKind(Enum):
    """The header of a key file (docs/files.md)."""

    IDENTITY = "uvcc identity v1"
    PAIR = "uvcc pair secret v1"
    STORAGE = "uvcc storage key v1"


def new_secret() -> bytes:
    """32 bytes of the operating system's generator: a seed, a secret of a pair, a sid_job."""
    return secrets.token_bytes(32)


def public_key(sign_seed: bytes) -> bytes:
    """The Ed25519 public key of a seed."""
    identity = Identity(sid_job=b"\1" * 32, sign_seed=sign_seed,
                        pair_secret=(bytes(32), b"\1" * 32, b"\2" * 32))
    with Session(Config(identity=identity)) as session:
        return session.public_key


def write_key(path: str | os.PathLike[str], kind: KeyKind, key: bytes) -> None:
    """A new key file, mode 0600. FileExistsError: none is overwritten."""
    if len(key) != 32:
        raise usage(f"a key is 32 bytes long, not {len(key)}")
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "w", encoding="ascii", newline="\n") as file:
            file.write(f"{kind.value}\n{key.hex()}\n")
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        Path(path).unlink(missing_ok=True)
        raise


def read_key(path: str | os.PathLike[str], kind: KeyKind) -> bytes:
    """The key of a file. `Error` USAGE: no key file of this kind, or not its owner's alone."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        what = os.fstat(file.fileno())
        if not stat.S_ISREG(what.st_mode) or what.st_uid != os.geteuid():
            raise usage(f"{path} is no file of this user")
        if stat.S_IMODE(what.st_mode) != 0o600:
            raise usage(f"{path} has mode {stat.S_IMODE(what.st_mode):04o}, not 0600")
        data = file.read(256)
    head = kind.value.encode() + b"\n"
    digits = data.removeprefix(head)
    if not data.startswith(head) or len(digits) != 65 or digits[64:] != b"\n" or \
            digits[:64].strip(b"0123456789abcdef"):
        raise usage(f"{path} is no key file of the kind '{kind.value}'")
    return bytes.fromhex(digits[:64].decode())


def provision(x25519: bool = False) -> tuple[Identity, Identity, Identity]:
    """Identities of all three parties of a new job, made in one place: for tests and trials. Where
    nobody is trusted with all of it, each party makes its own seed, and each pair its secret."""
    sid_job = new_secret()
    seeds = [new_secret() for _ in range(3)]
    keys = tuple(public_key(seed) for seed in seeds)
    pair = {(a, b): new_secret() for a in range(3) for b in range(a)}
    made = []
    for p in range(3):
        mine = tuple(bytes(32) if q == p else pair[max(p, q), min(p, q)] for q in range(3))
        made.append(Identity(party=p, sid_job=sid_job, sign_seed=seeds[p], peer_sign_key=keys,
                             exchange_x25519=x25519, pair_secret=() if x25519 else mine))
    return made[0], made[1], made[2]


__all__ = ["Checks", "KeyKind", "new_secret", "provision", "public_key", "read_key", "write_key"]
