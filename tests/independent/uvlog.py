"""Logs of sessions, read from docs/replay.md alone: records, configuration, and the frames in them."""

import struct
import zlib

import wire
from wire import need

RECORDS = {
    1: ("HEADER", "DDD"), 2: ("RANDOM", "nrD"), 3: ("NOMEM", "n"), 4: ("RESULT", "rD"), 5: ("STEP_END", "nHH"),
    6: ("END", "HH"), 16: ("LOAD_PROGRAM", "H"), 17: ("START", "t"), 18: ("FEED", "tpD"), 19: ("PEER_OPEN", "tp"),
    20: ("PEER_CLOSED", "tp"), 21: ("ON_TIMER", "t"), 22: ("COMPLETE", "tinr"), 23: ("POLL_TRANSMIT", "t"),
    24: ("TRANSMIT_DONE", "tpin"), 25: ("POLL_JOB", ""), 26: ("POLL_EVENT", ""), 27: ("STEP", "tse"),
    28: ("INPUT", "tsiD"), 29: ("SET_PUBLIC", "iD"), 30: ("SET_SHARES", "iDD"), 31: ("RESUME", "D"),
    32: ("CLOSE", "t"), 33: ("ABORT", "tn"), 34: ("LOAD_TRIPLES", "D"), 35: ("FEED_ECN", "tpnD"),
}

# The table "The configuration": name and form of each member, without gaps.
CONFIG = (
    ("flags", "I"), ("party", "B"), ("suites", "B"), ("sid_job", "32s"), ("replicas", "H"), ("stages", "H"),
    ("tp_ranks", "H"), ("replica", "H"), ("stage", "H"), ("tp_rank", "H"), ("pair_secret", "96s"),
    ("sign_seed", "32s"), ("peer_sign_key", "96s"), ("policy_hash", "32s"), ("next_step", "I"), ("next_run", "I"),
    ("datagram", "B"), ("audit_off", "B"), ("frame_bytes", "I"), ("datagram_bytes", "I"), ("rx_online_bytes", "Q"),
    ("rx_keys_bytes", "Q"), ("tx_online_bytes", "Q"), ("tx_keys_bytes", "Q"), ("keys_ahead_bytes", "Q"),
    ("tensor_bytes", "Q"), ("jobs_max", "I"), ("leaves_max", "I"), ("cookie", "Q"), ("rto_initial_ns", "Q"),
    ("rto_min_ns", "Q"), ("rto_max_ns", "Q"), ("ack_delay_ns", "Q"), ("keepalive_ns", "Q"), ("hello_repeat_ns", "Q"),
    ("checkpoint_every", "I"), ("exchange_x25519", "B"), ("rx_messages_max", "I"), ("rx_ranges_max", "I"),
    ("suspicious_max", "I"), ("suspicious_window_ns", "Q"), ("triples_ahead_bytes", "Q"), ("triples_only", "B"),
    ("triples_run", "I"), ("bundles", "B"), ("sks_refused", "B"), ("sks_override", "B"), ("sks_step", "I"),
    ("close_ns", "Q"), ("silence_ns", "Q"), ("silence_abort_ns", "Q"), ("kem", "Q"), ("congestion", "I"),
    ("rate_bytes_per_s", "Q"),
)


def read_config(data):
    size = struct.calcsize("<" + "".join(form for _, form in CONFIG))
    need(len(data) == size, "the configuration has %d bytes, docs/replay.md says %d" % (len(data), size))
    values = struct.unpack("<" + "".join(form for _, form in CONFIG), data)
    return dict(zip((name for name, _ in CONFIG), values))


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
    import hashlib
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
        if r.name in ("PEER_CLOSED", "PEER_OPEN"):
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
