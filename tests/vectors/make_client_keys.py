#!/usr/bin/env python3
"""Writes client_keys.json, the vectors of what a client gives the parties for numbers of rows (docs/clients.md,
"Keys of tokens"), from nothing but hashlib and the package `cryptography`:

    pip install cryptography && python3 make_client_keys.py > client_keys.json
"""
import hashlib
import json
import struct

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

M64 = (1 << 64) - 1


def seeded(count, *words):
    """Bytes that stand for random ones."""
    text = "client keys " + " ".join(str(w) for w in words)
    return hashlib.shake_256(text.encode()).digest(count)


def number(data):
    return int.from_bytes(data, "little")


def words(values):
    return b"".join(struct.pack("<Q", v & M64) for v in values)


# ---- keys ----


class Trees:
    """The two fixed keys of a job's trees."""

    def __init__(self, sid_job):
        self.keys = hashlib.sha256(b"UVCC_CLIENT_DPF_V1" + sid_job).digest()
        self.aes = [Cipher(algorithms.AES(self.keys[k:k + 16]), modes.ECB()).encryptor() for k in (0, 16)]

    def mmo(self, side, x):
        return number(self.aes[side].update(x.to_bytes(16, "little"))) ^ x

    def leaf(self, seed):
        low, high = self.mmo(0, seed ^ 1), self.mmo(0, seed ^ 3)
        return [low & M64, low >> 64, high & M64, high >> 64]

    def deal(self, bits, point, roots):
        """The words of the key that both holders of a pair get; roots: of the holder in place 0, in place 1."""
        depth, key, control = max(bits - 2, 0), [], 0
        s, t = [r & ~1 for r in roots], [0, 1]
        for level in range(depth):
            a = point >> (bits - 1 - level) & 1
            y = [[self.mmo(side, s[p]) for side in (0, 1)] for p in (0, 1)]
            cw = (y[0][1 - a] ^ y[1][1 - a]) & ~1
            tau = [(y[0][0] ^ y[1][0]) & 1 ^ a ^ 1, (y[0][1] ^ y[1][1]) & 1 ^ a]
            key += [cw & M64, cw >> 64]
            control |= tau[0] << 2 * level | tau[1] << 2 * level + 1
            s, t = ([y[p][a] & ~1 ^ (cw if t[p] else 0) for p in (0, 1)],
                    [y[p][a] & 1 ^ (t[p] & tau[a]) for p in (0, 1)])
        v = [self.leaf(s[p]) for p in (0, 1)]
        for j in range(4):
            f = (j == point % 4) - v[0][j] + v[1][j]
            key.append((-f if t[1] else f) & M64)
        return key + [control] if depth else key

    def share(self, bits, key, place, root, x):
        """What the holder in that place has of [x = the point]."""
        depth, s, t = max(bits - 2, 0), root & ~1, place
        for level in range(depth):
            a = x >> (bits - 1 - level) & 1
            y = self.mmo(a, s)
            cw, tau = key[2 * level] | key[2 * level + 1] << 64, key[2 * depth + 4] >> 2 * level + a & 1
            s, t = y & ~1 ^ (cw & ~1 if t else 0), y & 1 ^ (t & tau)
        v = self.leaf(s)[x % 4] + (key[2 * depth + x % 4] if t else 0)
        return (-v if place else v) & M64


def deal_all(trees, bits, numbers, random):
    """Of each pair: the words of its keys, and the roots in places 0 and 1."""
    pairs = []
    for _ in range(3):
        roots = [[number(random.read(16)) for _ in numbers] for _ in (0, 1)]
        keys = [trees.deal(bits, p, pair) for p, pair in zip(numbers, zip(*roots))]
        pairs.append((keys, roots))
    return pairs


def roots_words(roots):
    return [w for r in roots for w in (r & M64, r >> 64)]


class Random:
    """What a client draws, in the order in which it does."""

    def __init__(self, *words):
        self.bytes, self.at = seeded(1 << 14, *words), 0

    def read(self, count):
        self.at += count
        return self.bytes[self.at - count:self.at]

    def read_all(self):
        return self.bytes[:self.at].hex()


def keys_case(bits, numbers):
    sid_job, random = seeded(32, "job", bits), Random("keys", bits)
    trees = Trees(sid_job)
    pairs = deal_all(trees, bits, numbers, random)
    points = sorted({0, (1 << bits) - 1, *numbers, numbers[0] ^ 1, numbers[0] ^ (1 << bits - 1)})
    shares = []
    for keys, roots in pairs:
        both = [[[trees.share(bits, k, place, r, x) for x in points] for k, r in zip(keys, roots[place])]
                for place in (0, 1)]
        for row0, row1, p in zip(*both, numbers):
            assert [(a + b) & M64 for a, b in zip(row0, row1)] == [int(x == p) for x in points]
        shares.append([words(w for row in rows for w in row).hex() for rows in both])
    return {
        "sid_job": sid_job.hex(), "tree_keys": trees.keys.hex(), "bits": bits, "numbers": numbers,
        "random": random.read_all(),
        "share": [[words([w for k in keys for w in k] + roots_words(roots[place])).hex()
                   for (keys, roots), place in ((pairs[p], 1), (pairs[(p + 1) % 3], 0))] for p in range(3)],
        "points": points, "rows": shares,
    }


# ---- requests ----


def request_case(rows, cols, values, key_cols, bits, numbers):
    """All that a client sends of a request with values and numbers, of one piece for each party."""
    sid_job, client, random = seeded(32, "request", bits), seeded(32, "client"), Random("request", bits)
    out_rows, out_cols, entry = 1, 2, 7
    terms = bytes(range(bits, bits + 12))
    head = struct.pack("<8I", entry, rows, cols, out_rows, out_cols, key_cols, bits, 1) + terms + struct.pack("<I", 0)
    request_id, salts = random.read(16), [random.read(32) for _ in range(3)]
    parts = [[number(random.read(8)) for _ in values] for _ in range(2)]
    parts.append([(v - a - b) & M64 for v, a, b in zip(values, *parts)])
    pairs = deal_all(Trees(sid_job), bits, numbers, random)
    component = [words(part) + words(w for k in keys for w in k) for part, (keys, _) in zip(parts, pairs)]
    digest = [hashlib.sha256(b"UVCC_REQUEST_V2/COMPONENT" + salts[c] + request_id + client + head + bytes([c])
                             + component[c]).digest() for c in range(3)]
    sent = []
    for p in range(3):
        q = (p + 1) % 3
        body = head + salts[p] + salts[q]
        body += component[p] + words(roots_words(pairs[p][1][1]))
        body += component[q] + words(roots_words(pairs[q][1][0]))
        sent.append((b"UVRQ" + bytes([2, 0, p, 0]) + request_id + struct.pack("<QQ", len(body), 0) + body).hex())
    return {
        "sid_job": sid_job.hex(), "client_key": client.hex(), "entry": entry, "in_rows": rows, "in_cols": cols,
        "out_rows": out_rows, "out_cols": out_cols, "key_cols": key_cols, "key_bits": bits, "terms": terms.hex(), "values": values,
        "numbers": numbers, "random": random.read_all(), "sent": sent, "digests": [d.hex() for d in digest],
    }


def main():
    keys = [keys_case(bits, numbers) for bits, numbers in (
        (1, [1]), (2, [2, 0]), (3, [5, 7, 0]), (9, [300, 300]), (15, [30521, 101, 0]), (16, [50256]), (32, [4294967295, 7]))]
    requests = [request_case(3, 1, [0, 0, 1], 2, 9, [257, 0, 3, 1, 300, 0]), request_case(2, 0, [], 1, 15, [101, 102])]
    print(json.dumps({"keys": keys, "requests": requests}, indent=1))


if __name__ == "__main__":
    main()
