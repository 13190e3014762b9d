"""Bytes of uvcc, written from docs/wire.md and docs/protocols.md alone: ids, frames, seals, batches,
PRG words. Nothing here was taken from the C code; where the two differ, one of them or the document
is wrong. Needs python3-cryptography for AES, ChaCha20-Poly1305, X25519 and Ed25519 only.
"""

import hashlib
import hmac
import struct
import zlib

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

M64 = (1 << 64) - 1
BLOCK = 4096
FWD, BWD, UPD = 0, 1, 2
IO_FIRST = 256 * 254  # k of the first input or output

KINDS = {
    0x60: ("ACK", None), 0x61: ("HELLO", None), 0x62: ("BYE", b"UVCC_MSGID_BYE_V1"), 0x63: ("PING", None),
    0x64: ("STEP", b"UVCC_MSGID_STEP_V1"), 0x65: ("OPEN_BATCH", b"UVCC_MSGID_OPENBATCH_V1"),
    0x66: ("LIFT_BATCH", b"UVCC_MSGID_LIFTBATCH_V1"), 0x67: ("RESHARE_BATCH", b"UVCC_MSGID_RESHAREBATCH_V1"),
    0x68: ("KEYS_BATCH", b"UVCC_MSGID_KEYSBATCH_V1"), 0x69: ("AUDIT", b"UVCC_MSGID_AUDIT_V1"),
    0x6A: ("INPUT_BATCH", b"UVCC_MSGID_INPUTBATCH_V1"), 0x6B: ("CANCEL", b"UVCC_MSGID_CANCEL_V1"),
}
CONTROL = (0x60, 0x61, 0x63)
BATCHES = ("OPEN_BATCH", "LIFT_BATCH", "RESHARE_BATCH", "KEYS_BATCH", "INPUT_BATCH")
NAMES = ("GEMM_E", "GEMM_F", "TRUNC", "MASK", "SCALAR", "BIT", "OUT", "INPUT", "COIN", "SKS_E", "SKS_F", "SKS_Z")
TAGS = ("mask", "lift", "zero", "tripleA", "tripleB", "trunc", "root", "select", "input", "salt", "own")


class Wrong(Exception):
    """What was read is not as the documents say."""


def need(ok, what):
    if not ok:
        raise Wrong(what)


# ---- numbers and hashes ----

def H(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def mac(key, *parts):
    return hmac.new(key, b"".join(parts), hashlib.sha256).digest()


def tree(data):
    """T of wire.md 8."""
    return H(b"UVCC_TREE_V1", le64(len(data)), *(H(data[i:i + 4096]) for i in range(0, len(data), 4096)))


def u8(x):
    return struct.pack("<B", x)


def le16(x):
    return struct.pack("<H", x)


def le32(x):
    return struct.pack("<I", x)


def le64(x):
    return struct.pack("<Q", x & M64)


def words(data):
    return list(struct.unpack("<%dQ" % (len(data) // 8), data))


def pack_words(values):
    return struct.pack("<%dQ" % len(values), *[v & M64 for v in values])


def first32(h):
    return int.from_bytes(h[:4], "little")


def first64(h):
    return int.from_bytes(h[:8], "little")


def extract(salt, ikm):
    return mac(salt, ikm)


def expand(prk, info, n=32):
    out, t, i = b"", b"", 1
    while len(out) < n:
        t = mac(prk, t, info, u8(i))
        out += t
        i += 1
    return out[:n]


def hkdf(salt, ikm, info, n=32):
    return expand(extract(salt, ikm), info, n)


def sign(seed, message):
    return Ed25519PrivateKey.from_private_bytes(seed).sign(message)


def public_key(seed):
    return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def verify(public, signature, message):
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


# ---- ids (section 1) ----

def sid_rep(sid_job, r):
    return H(b"UVCC_SID_REPLICA_V1", sid_job, le32(r))


def sid_sub(sid_job, r, s, t):
    return H(b"UVCC_SID_SUB_V1", sid_rep(sid_job, r), u8(s), le16(t))


def sid_tag(sub):
    return first64(H(b"UVCC_SIDTAG_V1", sub))


def op_id(sub, step, phase, mb, k, b=0, attempt=0):
    tail = le16(b) + le16(attempt) if b or attempt else b""
    return first32(H(b"UVCC_OPID_V1", sub, le32(step), u8(phase), le16(mb), le16(k), tail))


def fss_id(sub, step, op, call, block):
    return first64(H(b"UVCC_FSSID_V1", sub, le32(step), le32(op), le16(call), le32(block)))


def stream_id(sub, step, op, name, call, tile):
    return first64(H(b"UVCC_OPEN_V1", sub, le32(step), le32(op), u8(len(name)), name.encode(), le16(call), le32(tile)))


def triple_id(sub, step, op, tile=0):
    return first64(H(b"UVCC_TRIPLE_V1", sub, le32(step), le32(op), le32(tile)))


def msg_id(sub, kind, op, src, dst, chunk, chunks):
    return first32(H(KINDS[kind][1], sub, le32(op), u8(src), u8(dst), le16(chunk), le16(chunks)))


def kind_code(name):
    return next(code for code, (n, _) in KINDS.items() if n == name)


def chunk_count(msg_len):
    return max(1, -(-msg_len >> 20) if msg_len & 0xFFFFF else msg_len >> 20)


def edge_of(sub, step, op, block):
    return fss_id(sub, step, op, 0, block) % 3


def optable_hash(rows):
    return H(b"".join(struct.pack("<BHHHHI", *row) for row in rows))


# ---- keys (section 4 and 5, protocols.md 1) ----

class Pair:
    """What the two parties of a pair know in one run: chain values, keys, PRG words."""

    def __init__(self, k_ab, sub, run, first_step):
        self.run, self.sub = run, sub
        self.prk = extract(sub, k_ab)
        self.first = first_step
        self.chain = {first_step: expand(self.prk, b"uvcc/chain\0" + le64(first_step) + le32(run))}
        self.prgs = {}

    def c(self, step):
        if step not in self.chain:
            last = max(s for s in self.chain if s < step)
            for m in range(last, step):
                self.chain[m + 1] = expand(self.chain[m], b"uvcc/ratchet\0" + le64(m + 1) + le32(self.run))
        return self.chain[step]

    def frame_key(self, step, src, dst, epoch):
        info = b"uvcc/frame\0" + le64(step) + le32(self.run) + u8(src) + u8(dst)
        return expand(self.c(step), info + (le32(epoch) if epoch else b""))

    def control_key(self, src, dst):
        return expand(self.prk, b"uvcc/ctl\0" + le32(self.run) + u8(src) + u8(dst))

    def leaf_salt(self, step):
        return expand(self.c(step), b"uvcc/leaf\0" + le64(step) + le32(self.run))

    def prg_key(self, tag, step):
        return expand(self.c(step), b"uvcc/" + tag.encode() + b"\0" + le64(step) + le32(self.run), 16)

    def F(self, tag, lane, step, ordinal, call, block, count, first=0):
        key = self.prgs.get((tag, step))
        if key is None:
            key = self.prgs[(tag, step)] = self.prg_key(tag, step)
        return prg_words(key, lane, ordinal, call, block, count, first)


def prg_words(key, lane, ordinal, call, block, count, first=0):
    """Words first .. of a lane: AES-128 of LE32 ordinal || LE16 call || LE32 block || LE48 counter."""
    head, tail = le32(ordinal) + le16(call) + le32(block), u8(lane)
    blocks = b"".join([head + n.to_bytes(5, "little") + tail for n in range(first // 2, (first + count + 1) // 2)])
    enc = Cipher(algorithms.AES(key), modes.ECB()).encryptor()
    out = words(enc.update(blocks) + enc.finalize())
    return out[first % 2:first % 2 + count]


def session_key(n_a, n_b, ikm, sid_job, run, a, b):
    return hkdf(n_a + n_b, ikm, b"uvcc/session" + sid_job + le32(run) + u8(a) + u8(b))


def proof_key(secret, sid_job, a, b):
    return hkdf(b"UVCC_PROOF_V1", secret, b"uvcc/proof" + sid_job + u8(a) + u8(b))


# ---- frames (section 2) ----

class Frame:
    FIELDS = struct.Struct("<4sBBBBQQIIIHHIIIQI")

    def __init__(self, data, at=0):
        need(len(data) - at >= 64, "a frame ends within its header")
        (magic, version, self.kind, route, self.flags, self.tag, self.seq, self.step, self.op_id, self.msg_id,
         self.chunk, self.chunks, self.msg_len, self.offset, self.payload_len, self.ack,
         self.crc) = self.FIELDS.unpack_from(data, at)
        need(magic == b"UVF1" and version == 1, "a frame has another magic or version")
        need(self.kind in KINDS, "a frame of no known kind")
        self.src, self.dst = route >> 4, route & 15
        need(self.src < 3 and self.dst < 3 and self.src != self.dst, "a frame with a wrong route")
        need(self.flags in (0, 1), "a frame with unknown flags")
        need(len(data) - at >= 64 + self.payload_len, "a frame ends within its payload")
        self.head = bytes(data[at:at + 64])
        self.wire = bytes(data[at + 64:at + 64 + self.payload_len])
        need(zlib.crc32(self.head[:60] + self.wire) == self.crc, "a frame with a wrong CRC")
        self.sealed = bool(self.flags & 1)
        self.control = self.kind in CONTROL
        self.name = KINDS[self.kind][0]
        self.payload = None if self.sealed else self.wire
        self.size = 64 + self.payload_len

    def check_header(self):
        """The rules of the table in section 2 that need no state."""
        need(self.msg_len <= 9 << 20, "a message of more than 9 MiB")
        if self.control:
            need(self.seq == 0 and self.op_id == 0, "a control frame with a seq or an op")
            need(self.payload_len <= 65507, "a long control frame")
            if self.sealed:
                need((self.msg_id, self.offset, self.chunk, self.chunks) == (0, 0, 0, 1), "a cut control frame")
                need(self.payload_len == self.msg_len + 40, "a control frame's lengths")
        else:
            need(self.chunk == self.offset >> 20 and self.chunks == chunk_count(self.msg_len), "chunk arithmetic")
            n = self.payload_len - (16 if self.sealed else 0)
            need(0 <= n and (n > 0 or self.msg_len == 0), "an empty piece")
            need(self.offset + n <= min(self.msg_len, (self.chunk + 1) << 20), "a piece that crosses a chunk")
            if self.name in ("STEP", "AUDIT", "BYE", "CANCEL"):
                need(self.op_id == 0, "a frame of no op with an op_id")
        if self.sealed:
            need(self.ack == 0, "a sealed frame with an ack")

    def unseal(self, pair, suite):
        ad = self.head[:52]
        try:
            if self.control:
                key = pair.control_key(self.src, self.dst)
                self.payload = xchacha_open(key, self.wire[:24], self.wire[24:], ad)
                need(len(self.payload) == self.msg_len, "a control frame's msg_len")
            else:
                key = pair.frame_key(self.step, self.src, self.dst, (self.seq & ((1 << 40) - 1)) >> 18)
                box = ChaCha20Poly1305(key) if suite == 1 else AESGCM(key)
                self.payload = box.decrypt(bytes(4) + le64(self.seq), self.wire, ad)
        except InvalidTag:
            raise Wrong("a %s frame %d -> %d, step %d, seq %x does not open"
                        % (self.name, self.src, self.dst, self.step, self.seq)) from None


def hchacha20(key, nonce16):
    state = list(struct.unpack("<4I", b"expand 32-byte k") + struct.unpack("<8I", key) + struct.unpack("<4I", nonce16))
    mask = 0xFFFFFFFF

    def quarter(a, b, c, d):
        for x, y, z, n in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) & mask
            v = state[z] ^ state[x]
            state[z] = (v << n | v >> (32 - n)) & mask

    for _ in range(10):
        for i in range(4):
            quarter(i, 4 + i, 8 + i, 12 + i)
        for i in range(4):
            quarter(i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4)
    return struct.pack("<8I", *(state[:4] + state[12:]))


def xchacha_open(key, nonce24, sealed, ad):
    return ChaCha20Poly1305(hchacha20(key, nonce24[:16])).decrypt(bytes(4) + nonce24[16:], sealed, ad)


# ---- BLV1 batches (section 7) ----

class Tlv:
    def __init__(self, kind, value):
        self.type, self.value = kind, value

        def at(fmt):
            need(len(value) >= struct.calcsize(fmt), "a TLV that is too short")
            return struct.unpack_from(fmt, value)

        if kind in (1, 2, 3):
            self.id, self.count, self.where, zero1, zero2 = at("<QIBBH")
            need(zero1 == 0 and zero2 == 0 and self.where < 3, "a lift's reserved fields")
            self.first, self.words = 0, value[16:]
            self.order = (kind, self.id, self.where, 0)
            need(len(self.words) == 8 * self.count and 1 <= self.count <= BLOCK, "a lift's count")
        elif kind == 0x11:
            self.id, self.round, self.bits, self.target, self.first, self.count = at("<QHBBII")
            self.packed = value[20:]
            self.order = (kind, self.id, self.round, self.first)
            need(1 <= self.bits <= 64 and 1 <= self.count <= BLOCK and self.first % BLOCK == 0, "an OPEN_VEC's fields")
            need(self.target in (0xFF, 0, 1, 2, 0x10, 0x11, 0x12), "an OPEN_VEC's target")
            need(len(self.packed) == (self.count * self.bits + 7) // 8, "an OPEN_VEC's length")
            need(pack_bits(self.elements(), self.bits) == self.packed, "unused bits that are not 0")
        elif kind == 0x21:
            self.id, self.first, self.count, zero = at("<IIII")
            self.words = value[16:]
            self.order = (kind, self.id, 0, self.first)
            need(zero == 0 and self.first % BLOCK == 0 and 1 <= self.count <= BLOCK, "a RESHARE's fields")
            need(len(self.words) == 8 * self.count, "a RESHARE's length")
        elif kind == 0x31:
            self.id, self.gate, zero, self.offset = at("<QHHI")
            self.bytes = value[16:]
            self.order = (kind, self.id, self.gate, self.offset)
            need(zero == 0 and self.offset % 32768 == 0 and 1 <= len(self.bytes) <= 32768, "a KEY_CHUNK's fields")
        elif kind == 0x41:
            self.id, self.first, self.count = at("<QII")
            self.words = value[16:]
            self.order = (kind, self.id, 0, self.first)
            need(self.first % BLOCK == 0 and 1 <= self.count <= BLOCK, "an INPUT's fields")
            need(len(self.words) == 8 * self.count, "an INPUT's length")
        elif kind == 0x51:
            self.id, self.what, zero1, zero2 = at("<QBBH")
            self.digest = value[12:]
            self.order = (kind, self.id, self.what, 0)
            need(zero1 == 0 and zero2 == 0 and self.what < 4 and len(self.digest) == 32, "a DIGEST's fields")
        else:
            raise Wrong("a TLV of unknown type 0x%02x" % kind)

    def elements(self):
        if self.bits == 64:
            return words(self.packed)
        n, mask = int.from_bytes(self.packed, "little"), (1 << self.bits) - 1
        return [n >> (i * self.bits) & mask for i in range(self.count)]


def pack_bits(values, bits):
    if bits == 64:
        return pack_words(values)
    n = 0
    for i, v in enumerate(values):
        n |= v << (i * bits)
    return n.to_bytes((len(values) * bits + 7) // 8, "little")


def read_batch(data):
    need(len(data) >= 16, "a batch shorter than its header")
    magic, version, flags, zero, count, size = struct.unpack_from("<4sBBHII", data)
    need((magic, version, flags, zero) == (b"BLV1", 1, 0, 0), "a batch's header")
    need(size == len(data) - 16, "a batch's tlv_bytes")
    out, at = [], 16
    for _ in range(count):
        need(at + 4 <= len(data), "a batch ends within a TLV")
        kind, tflags, n = struct.unpack_from("<BBH", data, at)
        pad = -n % 4
        need(tflags == 0 and at + 4 + n + pad <= len(data), "a TLV's flags or length")
        need(not any(data[at + 4 + n:at + 4 + n + pad]), "padding that is not 0")
        out.append(Tlv(kind, data[at + 4:at + 4 + n]))
        at += 4 + n + pad
    need(at == len(data), "bytes left over in a batch")
    for a, b in zip(out, out[1:]):
        need(a.order < b.order, "TLVs out of order or twice")
    return out


# ---- the transcript (section 8) ----

LEAVES = {
    0x70: "STEP_BEGIN", 0x71: "OPEN_SENT", 0x72: "OPEN_RECEIVED", 0x73: "OPEN_DONE", 0x74: "SHARE_SENT",
    0x75: "SHARE_RECEIVED", 0x76: "KEYS_DONE", 0x77: "LIFT_SENT", 0x78: "LIFT_RECEIVED", 0x79: "SKS_COIN",
    0x7A: "SKS_VERDICT", 0x7B: "COMPONENT_COMMIT", 0x7C: "LIFT_DONE", 0x7D: "ABORT", 0x7E: "TRIPLE_CONSUMED",
    0x7F: "STEP_CANCELLED",
}


def merkle(hashes):
    if not hashes:
        return H(b"UVCC_EMPTY_V1")
    level = list(hashes)
    while len(level) > 1:
        up = [H(b"\1", level[i], level[i + 1]) for i in range(0, len(level) - 1, 2)]
        level = up + ([level[-1]] if len(level) % 2 else [])
    return level[0]


def replica_root(sid_job, r, step, step_roots):
    return H(b"UVCC_REPLICA_ROOT_V1", sid_rep(sid_job, r), le32(step), *step_roots)


def global_root(sid_job, step, replica_roots):
    return H(b"UVCC_GLOBAL_ROOT_V1", sid_job, le32(step), *replica_roots)


def worker_root(sid_job, r, step, step_root):
    """What a session signs: the global root over one replica root over one step root."""
    return global_root(sid_job, step, [replica_root(sid_job, r, step, [step_root])])
