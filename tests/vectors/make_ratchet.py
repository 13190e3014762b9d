#!/usr/bin/env python3
"""Writes ratchet.json, the vectors of the keys within a session (docs/wire.md, section 4), from nothing but
hashlib and hmac:

    python3 make_ratchet.py > ratchet.json
"""
import hashlib
import hmac
import json
import struct


def mac(key, text):
    return hmac.new(key, text, hashlib.sha256).digest()


def expand(key, info, length):
    """HKDF-Expand of at most one hash."""
    return mac(key, info + b"\x01")[:length]


def of_step(label, step, run):
    return label + b"\0" + struct.pack("<QI", step, run)


def seeded(*words):
    """32 bytes that stand for random ones."""
    return hashlib.sha256(b"ratchet vectors " + " ".join(str(w) for w in words).encode()).digest()


def session(name, first, run):
    prk = seeded("prk", name)
    chain = expand(prk, of_step(b"uvcc/chain", first, run), 32)
    steps = []
    for step in range(first, first + 4):
        frames = []
        for src, dst, epoch in ((0, 1, 0), (1, 0, 0), (0, 1, 1), (2, 0, 4194303)):
            info = of_step(b"uvcc/frame", step, run) + bytes([src, dst])
            if epoch != 0:
                info += struct.pack("<I", epoch)
            frames.append({"src": src, "dst": dst, "epoch": epoch,
                           "key": expand(chain, info, 32).hex()})
        steps.append({
            "step": step, "chain": chain.hex(), "frames": frames,
            "mask": expand(chain, of_step(b"uvcc/mask", step, run), 16).hex(),
            "leaf_salt": expand(chain, of_step(b"uvcc/leaf", step, run), 32).hex(),
        })
        chain = expand(chain, of_step(b"uvcc/ratchet", step + 1, run), 32)
    return {"name": name, "prk": prk.hex(), "run": run, "steps": steps}


print(json.dumps({"sessions": [
    session("first start", 0, 0),
    session("resumed", 70000, 9),
    session("at the end of the numbers", 4294967292, 16777215),
]}, indent=1))
