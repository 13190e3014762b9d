#!/usr/bin/env python3
"""Writes dialog.json, the vectors of a client's dialog with a party (docs/wire.md, section 10), from nothing
but hashlib, hmac and the package `cryptography`:

    pip install cryptography && python3 make_dialog.py > dialog.json
"""
import hashlib
import hmac
import json
import struct

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

CALL, OFFER, PROOF, ACCEPT = range(4)


def seeded(*words):
    """32 bytes that stand for random ones."""
    return hashlib.sha256(b"dialog vectors " + " ".join(str(w) for w in words).encode()).digest()


def head(kind, party, suite=0):
    return b"UVCD" + bytes([1, kind, party, suite])


def public(key):
    return key.public_key().public_bytes_raw()


def case(name, party, suite, known):
    sid_job = seeded("sid_job", name)
    client, host = (Ed25519PrivateKey.from_private_bytes(seeded("sign", name, who)) for who in ("client", "party"))
    x_client, x_host = (X25519PrivateKey.from_private_bytes(seeded("ephemeral", name, who))
                        for who in ("client", "party"))
    who = sid_job + public(client) + public(host)

    call = head(CALL, party) + seeded("nonce", name) + known
    offered = head(OFFER, party) + public(x_host)
    offer = offered + host.sign(b"UVCC_DIALOG_V1/OFFER" + who + call + offered)
    proved = head(PROOF, party, suite) + call[8:] + public(x_client)
    proof = proved + client.sign(b"UVCC_DIALOG_V1/PROOF" + who + call + offered + proved)
    dialog_id = hashlib.sha256(b"UVCC_DIALOG_V1/ID" + who + call + offered + proof).digest()
    shared = x_client.exchange(X25519PublicKey.from_public_bytes(public(x_host)))
    prk = hmac.new(dialog_id, shared, hashlib.sha256).digest()
    tag = hashlib.sha256(b"UVCC_DIALOG_V1/TAG" + sid_job + bytes([party]) + public(client)).digest()[:8]
    return {
        "name": name, "party": party, "suite": suite, "sid_job": sid_job.hex(),
        "client_seed": seeded("sign", name, "client").hex(), "client_key": public(client).hex(),
        "party_seed": seeded("sign", name, "party").hex(), "party_key": public(host).hex(),
        "sid_tag": "%016x" % (struct.unpack("<Q", tag)[0] | 1),
        "nonce": seeded("nonce", name).hex(),
        "client_ephemeral": seeded("ephemeral", name, "client").hex(),
        "party_ephemeral": seeded("ephemeral", name, "party").hex(),
        "call": call.hex(), "offer": offer.hex(), "proof": proof.hex(),
        "id": dialog_id.hex(), "prk": prk.hex(),
        "accept": (head(ACCEPT, party) + dialog_id).hex(),
    }


def main():
    cases = [case("chacha20-poly1305", 0, 1, bytes(32)), case("aes-256-gcm", 2, 2, bytes(32))]
    print(json.dumps({"cases": cases}, indent=1))


if __name__ == "__main__":
    main()
