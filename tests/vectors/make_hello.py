#!/usr/bin/env python3
"""Writes hello.json, the vectors of the handshake (docs/wire.md, section 5), from nothing but hashlib,
hmac and the package `cryptography`:

    pip install cryptography && python3 make_hello.py > hello.json
"""
import hashlib
import hmac
import json
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey


VERSION = 5


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def mac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


def le16(*xs):
    return struct.pack("<%dH" % len(xs), *xs)


def le32(*xs):
    return struct.pack("<%dI" % len(xs), *xs)


def seeded(*words):
    """32 bytes that stand for random ones."""
    return sha(b"hello vectors ", " ".join(str(w) for w in words).encode())


KEM_X25519 = 0x0020


def dhkem(dh, enc, pk):
    """ExtractAndExpand of RFC 9180, 4.1, for DHKEM(X25519, HKDF-SHA256)."""
    suite = b"KEM" + struct.pack(">H", KEM_X25519)
    prk = mac(b"", b"HPKE-v1" + suite + b"eae_prk" + dh)
    return mac(prk, struct.pack(">H", 32) + b"HPKE-v1" + suite + b"shared_secret" + enc + pk + b"\x01")


def lineage(*words):
    return seeded("lineage", *words)


def offer_bytes(offers):
    free = 4 - len(offers)
    return b"".join(le32(s) + l for s, l in offers) + free * (le32(0xFFFFFFFF) + bytes(32))


def case(name, exchange, suites, offers, next_run, kem=0, policy=bytes(32), bound=False, parts=()):
    R, S, T, replica, stage, tp = topology = (4, 3, 2, 3, 2, 1)
    sid_job = seeded("sid_job", name)
    sid_rep = sha(b"UVCC_SID_REPLICA_V1", sid_job, le32(replica))
    sid_sub = sha(b"UVCC_SID_SUB_V1", sid_rep, bytes([stage]), le16(tp))
    h_program = seeded("program", name)
    signed = exchange == "x25519"

    n = [seeded("n", name, p) for p in range(3)]
    secret = {(a, b): seeded("secret", name, a, b) for a in range(3) for b in range(a + 1, 3)}
    ephemeral = [seeded("ephemeral", name, p) for p in range(3)]
    x_secret = [X25519PrivateKey.from_private_bytes(e) for e in ephemeral]
    x_public = [k.public_key().public_bytes_raw() for k in x_secret]
    seed = [seeded("identity", name, p) for p in range(3)]
    identity = [Ed25519PrivateKey.from_private_bytes(s) for s in seed]
    ident_public = [k.public_key().public_bytes_raw() for k in identity]

    kem_seed = [[seeded("kem", name, p, q) for q in range(3)] for p in range(3)]
    dk = [X25519PrivateKey.from_private_bytes(kem_seed[p][p]) for p in range(3)]
    ek = [k.public_key().public_bytes_raw() for k in dk]
    ek[2] = b""
    hello1 = [
        bytes([1, suites[p], p, VERSION]) + sid_job + le16(*topology) + h_program
        + le32(next_run[p]) + n[p] + (x_public[p] if signed else bytes(32)) + offer_bytes(offers[p])
        + policy + struct.pack("<16Q", *parts, *[0] * (16 - len(parts))) + (le16(kem, len(ek[p])) + ek[p] if kem else b"")
        for p in range(3)
    ]
    assert kem or all(len(m) == 452 for m in hello1)
    run = max(next_run)
    step, agreed = max(set(offers[0]) & set(offers[1]) & set(offers[2]))
    suite = max(i for i in (1, 2) if all(s >> (i - 1) & 1 for s in suites))

    pairs = []
    for a in range(3):
        for b in range(a + 1, 3):
            if signed:
                ikm = x_secret[a].exchange(X25519PublicKey.from_public_bytes(x_public[b]))
                assert ikm == x_secret[b].exchange(X25519PublicKey.from_public_bytes(x_public[a]))
            else:
                ikm = secret[a, b]
            info = b"uvcc/session" + sid_job + le32(run) + bytes([a, b])
            k_ab = mac(mac(n[a] + n[b], ikm), info + b"\x01")
            tail = b""
            if kem:
                eph = X25519PrivateKey.from_private_bytes(mac(kem_seed[b][a], ek[a]))
                ct = eph.public_key().public_bytes_raw()
                ss = dhkem(eph.exchange(X25519PublicKey.from_public_bytes(ek[a])), ct, ek[a])
                assert ss == dhkem(dk[a].exchange(X25519PublicKey.from_public_bytes(ct)), ct, ek[a])
                tail = le16(len(ct)) + ct
                info = (b"uvcc/hybrid" + sha(hello1[a], hello1[b], tail) + le16(kem) + le32(run)
                        + bytes([a, b]))
                k_ab = mac(mac(n[a] + n[b], ikm + ss), info + b"\x01")
            prk = mac(sid_sub, k_ab)
            proof_key = mac(mac(b"UVCC_PROOF_V1", secret[a, b]),
                            b"uvcc/proof" + sid_job + bytes([a, b]) + b"\x01")
            ids = ident_public[a] + ident_public[b] if signed else bytes(64)
            hello2 = []
            for signer in (a, b):
                mine = tail if signer == b else b""
                text = (b"UVCC_HELLO_V2" + (b"/KEM" if kem else b"") + hello1[a] + hello1[b] + bytes([suite]) + le32(run, step)
                        + ids + bytes([signer]) + mine)
                hello2.append(
                    bytes([2, suite]) + le16(0) + le32(run, step) + sha(hello1[a], hello1[b])
                    + (identity[signer].sign(text) if signed else mac(proof_key, text) + bytes(32))
                    + mine)
            assert kem or all(len(m) == 108 for m in hello2)
            binding = seeded("binding", name, a, b)
            channel = sha(b"UVCC_CHANNEL_V1", binding) if bound else bytes(32)
            hello3 = bytes([3]) + sha(*hello2) + channel
            pairs.append({
                "a": a, "b": b, "ikm": ikm.hex(), "k_ab": k_ab.hex(), "prk": prk.hex(),
                "hello2_a": hello2[0].hex(), "hello2_b": hello2[1].hex(), "hello3": hello3.hex(),
                **({"binding": binding.hex()} if bound else {}),
            })

    parties = []
    for p in range(3):
        party = {"suites": suites[p], "next_run": next_run[p],
                 "offers": [{"step": s, "lineage": l.hex()} for s, l in offers[p]],
                 "n": n[p].hex()}
        if signed:
            party["ephemeral"] = ephemeral[p].hex()
            party["identity_seed"] = seed[p].hex()
            party["identity"] = ident_public[p].hex()
        if kem:
            party["kem_seed"] = [x.hex() for x in kem_seed[p]]
        party["hello1"] = hello1[p].hex()
        parties.append(party)
    return {
        "name": name, "exchange": exchange, **({"kem": kem} if kem else {}), "sid_job": sid_job.hex(), "sid_sub": sid_sub.hex(),
        "topology": list(topology), "h_program": h_program.hex(), "policy": policy.hex(), "parts": ["%016x" % x for x in parts], "parties": parties, "run": run,
        "step": step, "lineage": agreed.hex(), "run_nonce": sha(b"UVCC_RUN_V1", *n).hex(),
        "suite": suite, "pairs": pairs,
    }


POLICY = sha(b"uvcc policy v1\nprogram any\n")
PARTS = [int.from_bytes(sha(b"UVCC_AGREE_V1", b"item %d" % i)[:8], "little") for i in range(16)]
FRESH = [[(0, bytes(32))]] * 3


def kept(*steps, of=0):
    """Checkpoints of one history."""
    return [(s, lineage(of, s)) for s in steps]


print(json.dumps({"cases": [
    case("provisioned, first start", "provisioned", [3, 3, 3], FRESH, [0, 0, 0]),
    case("provisioned, resumed", "provisioned", [3, 1, 3],
         [kept(7, 6, 5), kept(9, 8, 7, 6), kept(8, 7)], [2, 5, 4], policy=POLICY, parts=PARTS[:3]),
    case("x25519, first start", "x25519", [3, 3, 3], FRESH, [0, 0, 0], bound=True, parts=PARTS),
    case("x25519, resumed", "x25519", [1, 3, 3],
         [kept(4294967294, 70000), kept(70000), kept(70001, 70000)], [16777215, 3, 4]),
    case("x25519, one suite", "x25519", [2, 2, 3], [[(1, bytes(32))]] * 3, [9, 9, 9], policy=POLICY),
    case("provisioned, two histories", "provisioned", [3, 3, 3],
         [kept(4, of=1) + kept(4, 3), kept(4, 3, 2), kept(4, of=1) + kept(3, 2)], [7, 7, 7], bound=True),
    case("provisioned, with a KEM", "provisioned", [3, 3, 3], FRESH, [1, 0, 0], KEM_X25519),
    case("x25519, with a KEM", "x25519", [1, 3, 3], [kept(7, 8), kept(9, 8), kept(8)], [2, 5, 4],
         KEM_X25519, POLICY, parts=PARTS[:1]),
]}, indent=1))
