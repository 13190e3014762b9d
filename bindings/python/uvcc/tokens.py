"""Texts as tokens, for `uvcc model check` and `uvcc infer`: the owner of a text runs this, nobody else.

    python3 -m uvcc.tokens encode DIR --text "An answer." --text "Another one." --out tokens.safetensors
    python3 -m uvcc.tokens decode DIR --ids 464,3280

DIR is a checkpoint as the library transformers saves it. Its `tokenizer.json` (or `vocab.txt`, or `vocab.json` with
`merges.txt`) is read by the package `tokenizers` (PyPI), which is needed for nothing else; a model of 256
tokens without such files has a token for each byte. The file has `input_ids`, `attention_mask` where texts
differ in length, and `token_type_ids` where there are pairs, all of 64-bit integers; it is as secret as the
texts, and written with mode 0600."""
from __future__ import annotations

import argparse
import json
import os
import struct
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._api import ErrorCode
from .errors import Error, usage

Ids = NDArray[np.int64]
BYTES = 256
HEADER_MAX = 100 << 20
DTYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "<i1",
          "U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "<u1", "BOOL": "?"}


# ---- files ----

def write_safetensors(path: str | os.PathLike[str], tensors: Mapping[str, NDArray[Any]]) -> None:
    """A file of these arrays, mode 0600: whole under its name, or not there. `OSError` as usual."""
    names = {np.dtype(code): name for name, code in DTYPES.items()}
    header: dict[str, Any] = {}
    data = b""
    for name, array in tensors.items():
        dtype = names.get(array.dtype.newbyteorder("<"))
        if dtype is None:
            raise usage(f"{name}: a file of tensors has no {array.dtype}")
        raw = np.ascontiguousarray(array.astype(array.dtype.newbyteorder("<"))).tobytes()
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path = Path(path)
    part = path.with_name(path.name + ".part")
    fd = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(fd, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text + data)
            f.flush()
            os.fsync(f.fileno())
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """All tensors of a file, but for those of types that NumPy has not (BF16, F8_..). `Error` USAGE: it is none."""
    raw = Path(path).read_bytes()
    length = struct.unpack("<Q", raw[:8])[0] if len(raw) >= 8 else HEADER_MAX + 1
    if length > min(HEADER_MAX, len(raw) - 8):
        raise usage(f"{path}: no safetensors file")
    try:
        header = json.loads(raw[8:8 + length])
        data = raw[8 + length:]
        out = {}
        for name, t in header.items():
            if name == "__metadata__" or t["dtype"] not in DTYPES:
                continue
            begin, end = t["data_offsets"]
            if not 0 <= begin <= end <= len(data) or any(n < 0 for n in t["shape"]):
                raise ValueError("numbers outside of the file")
            out[name] = np.frombuffer(data[begin:end], DTYPES[t["dtype"]]).reshape(t["shape"]).copy()
        return out
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise usage(f"{path}: no safetensors file: {error}") from None


# ---- tokens ----

@dataclass(frozen=True)
class Tokens:
    """A batch: sequences x tokens. `mask` is 1 where there is a token, `types` the kind of each; None: not asked."""

    ids: Ids
    mask: Ids | None = None
    types: Ids | None = None

    def write(self, path: str | os.PathLike[str]) -> None:
        """As `uvcc model check --input` and `uvcc infer --input` read it."""
        tensors = {"input_ids": self.ids}
        if self.mask is not None:
            tensors["attention_mask"] = self.mask
        if self.types is not None:
            tensors["token_type_ids"] = self.types
        write_safetensors(path, tensors)


def _load(directory: Path) -> Any:
    """An object of the package `tokenizers`, or None: the model's tokens are bytes."""
    files = [directory / name for name in ("tokenizer.json", "vocab.txt", "vocab.json")]
    found = next((f for f in files if f.exists()), None)
    if found is None:
        return None
    try:
        import tokenizers  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise Error(ErrorCode.NOT_FOUND, f"{found} needs the package tokenizers: pip install tokenizers") from None
    try:
        if found.name == "tokenizer.json":
            return tokenizers.Tokenizer.from_file(str(found))
        if found.name == "vocab.txt":
            lower = bool(_json(directory / "tokenizer_config.json").get("do_lower_case", True))
            return tokenizers.BertWordPieceTokenizer(str(found), lowercase=lower)
        return tokenizers.ByteLevelBPETokenizer(str(found), str(directory / "merges.txt"))
    except Exception as error:  # whatever the package raises: it has no class of its own
        raise usage(f"{found}: {error}") from None


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    try:
        value = json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise usage(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise usage(f"{path}: no JSON object")
    return value


class Tokenizer:
    """The tokens of a checkpoint's directory. `Error` NOT_FOUND: the package `tokenizers` is missing; USAGE: what
    is wrong with the directory."""

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        path = Path(directory)
        config = _json(path / "config.json")
        if not config:
            raise usage(f"{path / 'config.json'} is missing: {path} is no checkpoint")
        self.vocabulary = int(config.get("vocab_size", 0))
        self.positions = int(config.get("max_position_embeddings", config.get("n_positions", 0)))
        self._pad = int(config.get("pad_token_id") or 0)
        self._typed = int(config.get("type_vocab_size", 0)) > 1
        self._of_file = _load(path)
        if self._of_file is None and self.vocabulary != BYTES:
            raise usage(f"{path}: neither tokenizer.json nor vocab.txt nor vocab.json, and {self.vocabulary} tokens "
                        f"are not the {BYTES} of a model of bytes")
        if self._of_file is not None and hasattr(self._of_file, "no_truncation"):
            self._of_file.no_truncation()
            self._of_file.no_padding()

    def _one(self, text: str, pair: str | None) -> tuple[list[int], list[int]]:
        if self._of_file is not None:
            done = self._of_file.encode(text, pair)
            return list(done.ids), list(done.type_ids)
        if pair is not None:
            raise usage("a model of bytes has no pairs of texts")
        ids = list(text.encode())
        return ids, [0] * len(ids)

    def encode(self, texts: Sequence[str], pairs: Sequence[str] | None = None, *, tokens: int = 0) -> Tokens:
        """A sequence for each text (and the text at the same place of `pairs`), all as long as the longest, or of
        `tokens` tokens: behind those that are shorter come tokens that the mask takes out. What is longer
        than `tokens`, or than the model has positions, is `Error` USAGE: nothing is cut off silently."""
        if not texts or (pairs is not None and len(pairs) != len(texts)):
            raise usage("there is no text" if not texts else f"{len(pairs or ())} second texts for {len(texts)}")
        rows = [self._one(t, None if pairs is None else pairs[i]) for i, t in enumerate(texts)]
        most = min(n for n in (tokens, self.positions, sys.maxsize) if n > 0)
        for i, (ids, _) in enumerate(rows):
            if not ids:
                raise usage(f"text {i + 1} has no token")
            if len(ids) > most:
                raise usage(f"text {i + 1} has {len(ids)} tokens, {most} are possible: give a shorter one")
            if max(ids) >= self.vocabulary:
                raise usage(f"text {i + 1} has token {max(ids)}, which is not one of the model's {self.vocabulary}")
        length = tokens or max(len(ids) for ids, _ in rows)
        out = np.full((3, len(rows), length), self._pad, np.int64)
        out[1:] = 0
        for i, (ids, types) in enumerate(rows):
            out[0, i, :len(ids)], out[1, i, :len(ids)], out[2, i, :len(ids)] = ids, 1, types
        return Tokens(out[0], None if out[1].all() else out[1], out[2] if self._typed and pairs is not None else None)

    def decode(self, ids: Iterable[int]) -> str:
        """The text of tokens, special ones left out."""
        row = [int(i) for i in ids]
        if any(not 0 <= i < self.vocabulary for i in row):
            raise usage(f"a token is not one of the model's {self.vocabulary}")
        if self._of_file is None:
            return bytes(row).decode("utf-8", "replace")
        return str(self._of_file.decode(row))


# ---- the command ----

def _texts(a: argparse.Namespace) -> list[str]:
    lines: list[str] = list(a.text)
    if a.file is not None:
        f = sys.stdin if a.file == "-" else open(a.file, encoding="utf-8")
        with f:
            lines += [line.rstrip("\n") for line in f if line.strip()]
    return lines


def _options() -> argparse.ArgumentParser:
    ap = argparse.ArgumentParser(prog="python3 -m uvcc.tokens", description="texts as tokens of a checkpoint, and back")
    sub = ap.add_subparsers(dest="what", required=True)
    e = sub.add_parser("encode", help="texts to a file of tokens")
    e.add_argument("dir", metavar="DIR", help="a checkpoint: config.json and the tokenizer's files")
    e.add_argument("--text", action="append", default=[], help="a text; may be given again, for a batch")
    e.add_argument("--file", help="a text in each line; - reads standard input")
    e.add_argument("--pair", action="append", default=[], help="the second text of a pair, one for each text")
    e.add_argument("--tokens", type=int, default=0, metavar="N", help="pads to N tokens (default: the longest text's)")
    e.add_argument("--out", required=True, metavar="FILE", help="the file to write")
    d = sub.add_parser("decode", help="tokens to text")
    d.add_argument("dir", metavar="DIR")
    d.add_argument("--ids", required=True, help="numbers of tokens, by commas")
    return ap


def main(argv: Sequence[str] | None = None) -> int:
    """The command; the exit status."""
    a = _options().parse_args(argv)
    try:
        tokenizer = Tokenizer(a.dir)
        if a.what == "decode":
            print(tokenizer.decode(int(i) for i in a.ids.split(",")))
            return 0
        batch = tokenizer.encode(_texts(a), a.pair or None, tokens=a.tokens)
        batch.write(a.out)
        print(f"{a.out}: {batch.ids.shape[0]} x {batch.ids.shape[1]} tokens")
        return 0
    except Error as error:
        print(f"uvcc.tokens: {error.detail or error}", file=sys.stderr)
    except (OSError, ValueError) as error:
        print(f"uvcc.tokens: {error}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
