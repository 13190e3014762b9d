"""Logs of sessions, read from docs/replay.md alone: records, configuration, and the frames in them. Its
tables of records and of the configuration are read from the document itself."""

import hashlib
import math
import os
import re
import struct
import zlib

import wire
from wire import need

DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs")


def tables(page):
    """The rows of all tables of a document, cell by cell."""
    with open(os.path.join(DOCS, page), encoding="utf-8") as fh:
        return [[c.strip() for c in line.strip().strip("|").split("|")] for line in fh if line.startswith("|")]


def read_records():
    """Code -> (name, letters of the fields), of the table of docs/replay.md."""
    rows = [r for r in tables("replay.md") if len(r) == 4 and r[0].isdigit() and re.fullmatch("[A-Za-z]*", r[2])]
    return {int(r[0]): (r[1], r[2]) for r in rows}


def read_config_table():
    """(name, bytes) of each member, of the table "The configuration"."""
    out = []
    for sizes, names in (r for r in tables("replay.md") if len(r) == 2 and re.fullmatch(r"[\d, *]+( each)?", r[0])):
        names = [n.split(":")[0].strip() for n in re.split("[,;]", names)]
        names = [n for n in names if re.fullmatch("[a-z][a-z0-9_]*", n)]
        if sizes.endswith("each"):
            sizes = [sizes.split()[0]] * len(names)
        sizes = [math.prod(int(x) for x in s.split("*")) for s in (sizes if isinstance(sizes, list) else sizes.split(","))]
        need(len(sizes) == len(names), "the configuration's table: %s" % names)
        out += list(zip(names, sizes))
    return out


RECORDS = read_records()
CONFIG = read_config_table()


def read_config(data):
    """Members of up to 8 bytes as numbers, longer ones as bytes."""
    size = sum(n for _, n in CONFIG)
    need(len(data) == size, "the configuration has %d bytes, docs/replay.md says %d" % (len(data), size))
    out, at = {}, 0
    for name, n in CONFIG:
        raw = data[at:at + n]
        out[name] = int.from_bytes(raw, "little") if n <= 8 else raw
        at += n
    return out


class Record:
    def __init__(self, number, name, fields):
        self.number, self.name, self.fields = number, name, fields


def varint(data, at):
    value, shift, start = 0, 0, at
    while True:
        need(at < len(data) and at - start < 10, "a varint is cut or too long")
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if not byte & 128:
            break
    need(value <= wire.M64 and (byte != 0 or at - start == 1), "a varint that is not the shortest form")
    return value, at


def zigzag(v):
    return v >> 1 if v % 2 == 0 else -(v + 1 >> 1)


def read_log(data):
    """All records of a log, checked: checksums, forms, END's hash. Times are made absolute."""
    need(data[:8] == b"uvcclog\1", "the magic of a log")
    at, number, now, out = 8, 0, 0, []
    while at < len(data):
        begin = at
        length, body = varint(data, at)
        end = body + length
        need(length >= 1 and end + 4 <= len(data), "record %d is cut" % number)
        crc = struct.unpack_from("<I", data, end)[0]
        need(zlib.crc32(struct.pack("<Q", number) + data[begin:end]) == crc, "record %d: its checksum" % number)
        need(data[body] in RECORDS, "record %d: unknown type %d" % (number, data[body]))
        name, form = RECORDS[data[body]]
        at, fields = body + 1, []
        for letter in form:
            if letter == "H":
                fields.append(data[at:at + 32])
                at += 32
            else:
                value, at = varint(data, at)
                if letter == "D":
                    fields.append(data[at:at + value])
                    at += value
                elif letter == "t":
                    now = now + zigzag(value) & wire.M64
                    fields.append(now)
                else:
                    fields.append(zigzag(value) if letter == "r" else value)
        need(at == end, "record %d: its length" % number)
        out.append(Record(number, name, fields))
        if name == "END":
            need(fields[1] == hashlib.sha256(data[:begin]).digest(), "END's hash of the log")
        at, number = end + 4, number + 1
    need(out and out[0].name == "HEADER" and out[-1].name == "END", "HEADER first, END last")
    return out


def frames_of(records):
    """The frames that came, of streams: (peer, Frame), in the order of the log."""
    pending, out = {0: b"", 1: b"", 2: b""}, []
    for r in records:
        if r.name in ("PEER_CLOSED", "PEER_OPEN", "PEER_OPEN_BOUND"):
            pending[r.fields[1]] = b""
        if r.name not in ("FEED", "FEED_ECN"):
            continue
        peer, data = r.fields[1], pending[r.fields[1]] + r.fields[-1]
        at = 0
        while len(data) - at >= 64:
            size = 64 + struct.unpack_from("<I", data, at + 48)[0]
            if len(data) - at < size:
                break
            out.append((peer, wire.Frame(data, at)))
            at += size
        pending[peer] = data[at:]
    return out
