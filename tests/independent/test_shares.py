#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files of shares of weights, read as docs/files.md describes them: those of any two parties give the weights of the checkpoint,
rounded; what stands in a file says nothing of them, and is signed.

test_shares.py UVCC MODELS
"""
import hashlib
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

from cryptography.hazmat.primitives import poly1305
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from wire import M64, need, public_key, xchacha_open

HEAD, PIECE, OWNER, TOKENS, FRAC = 336, 65536, 1, 8, 16
P = 2 ** 255 - 19


# ---- a sealed box of libsodium: X25519, BLAKE2b, XSalsa20-Poly1305 ----

def salsa(key, nonce16, hashed):
    """The core on 16 bytes of input; hashed: HSalsa20, without the last sum."""
    k, n, c = struct.unpack('<8I', key), struct.unpack('<4I', nonce16), struct.unpack('<4I', b'expand 32-byte k')
    first = [c[0], *k[:4], c[1], *n, c[2], *k[4:], c[3]]
    x = list(first)

    def quarter(a, b, d, e):
        for to, left, right, by in ((b, a, e, 7), (d, b, a, 9), (e, d, b, 13), (a, e, d, 18)):
            v = x[left] + x[right] & 0xFFFFFFFF
            x[to] ^= (v << by | v >> 32 - by) & 0xFFFFFFFF

    for _ in range(10):
        for group in ((0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11)):
            quarter(*group)
        for group in ((0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14)):
            quarter(*group)
    if hashed:
        return struct.pack('<8I', *(x[i] for i in (0, 5, 10, 15, 6, 7, 8, 9)))
    return struct.pack('<16I', *(a + b & 0xFFFFFFFF for a, b in zip(x, first)))


def box_open(sealed, seed):
    """By the identity's seed: its scalar is the clamped half of SHA-512(seed), its public key that of the Montgomery form."""
    own = X25519PrivateKey.from_private_bytes(hashlib.sha512(seed).digest()[:32])
    public = own.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    y = int.from_bytes(public_key(seed), 'little') & (1 << 255) - 1
    need(public == ((1 + y) * pow(1 - y, P - 2, P) % P).to_bytes(32, 'little'), 'the two forms of a public key')
    ephemeral = sealed[:32]
    nonce = hashlib.blake2b(ephemeral + public, digest_size=24).digest()
    key = salsa(salsa(own.exchange(X25519PublicKey.from_public_bytes(ephemeral)), bytes(16), True), nonce[:16], True)
    tag, body = sealed[32:48], sealed[48:]
    stream = b''.join(salsa(key, nonce[16:] + struct.pack('<Q', i), False) for i in range(len(body) // 64 + 2))
    poly1305.Poly1305.verify_tag(stream[:32], body, tag)
    return bytes(a ^ b for a, b in zip(body, stream[32:]))


# ---- a file ----

def expand(seed, count):
    zeros = Cipher(algorithms.ChaCha20(seed, bytes(16)), None).encryptor().update(bytes(8 * count))
    return struct.unpack(f'<{count}Q', zeros)


class File:
    def __init__(self, data, seed, owner_key, keys):
        head = data[:HEAD]
        need(head[:8] == b'UVCCSHAR' and struct.unpack('<I', head[8:12])[0] == 1, 'magic and version')
        self.party, self.owner, sealed, zero = head[12:16]
        need(zero == 0 and head[124:128] == bytes(4), 'reserved bytes')
        self.id, self.model = head[16:48], head[48:80]
        need(head[80:112] == hashlib.sha256(b'UVCC_SHARES_V1' + b''.join(keys)).digest(), 'the parties')
        self.words, piece = struct.unpack('<QI', head[112:124])
        need(piece == PIECE, 'words of a piece')
        Ed25519PublicKey.from_public_bytes(owner_key).verify(head[272:336], b'UVCC_SHARES_V1' + head[:272])
        secrets = box_open(head[128:272], seed)
        key, ad = secrets[:32], hashlib.sha256(head).digest()
        at, values = HEAD, []
        for i in range(-(-self.words // PIECE) if sealed else 0):
            n = 8 * min(PIECE, self.words - i * PIECE) + 16
            values += struct.unpack(f'<{n // 8 - 2}Q', xchacha_open(key, struct.pack('<Q', i) + bytes(16), data[at:at + n], ad))
            at += n
        need(at == len(data), 'bytes behind the pieces')
        self.component = {}
        for i in range(2):
            known = secrets[32 + 32 * i:64 + 32 * i]
            need((sealed >> i & 1) == (known == bytes(32)), 'a component by a seed or in the file')
            self.component[(self.party + i) % 3] = list(values) if sealed >> i & 1 else list(expand(known, self.words))
        need(sealed == {self.owner: 2, (self.owner + 1) % 3: 1, (self.owner + 2) % 3: 0}[self.party], 'whose component stands where')


# ---- what they are of ----

def checkpoint_weights(path):
    """A GPT-2's, in the order of docs/models.md."""
    with open(path, 'rb') as f:
        header = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
        data = f.read()

    def tensor(name):
        one = next(one for key, one in header.items() if key in (name, f'transformer.{name}'))
        kind, size = {'F16': ('e', 2), 'F32': ('f', 4), 'F64': ('d', 8)}[one['dtype']]
        raw = data[one['data_offsets'][0]:one['data_offsets'][1]]
        return struct.unpack(f'<{len(raw) // size}{kind}', raw), one['shape']

    yield tensor('wte.weight')[0]
    values, shape = tensor('wpe.weight')
    yield values[:TOKENS * shape[1]]
    layers = len([name for name in header if name.endswith('ln_1.weight')])
    for n in range(layers):
        at = f'h.{n}.'
        for norm, products in (('ln_1', ('attn.c_attn', 'attn.c_proj')), ('ln_2', ('mlp.c_fc', 'mlp.c_proj'))):
            yield tensor(f'{at}{norm}.weight')[0]
            yield tensor(f'{at}{norm}.bias')[0]
            for name in products:
                (w, shape), (b, _) = tensor(f'{at}{name}.weight'), tensor(f'{at}{name}.bias')
                parts, cols = (3, shape[1] // 3) if name == 'attn.c_attn' else (1, shape[1])
                for part in range(parts):
                    yield [w[r * shape[1] + part * cols + c] for r in range(shape[0]) for c in range(cols)]
                    yield b[part * cols:(part + 1) * cols]
    yield tensor('ln_f.weight')[0]
    yield tensor('ln_f.bias')[0]


def main():
    uvcc, models = (os.path.abspath(word) for word in sys.argv[1:3])
    model = f'{models}/gpt2'
    with open(f'{model}/config.json', encoding='utf-8') as f:
        config = json.load(f)
    rng = random.Random(5)
    with tempfile.TemporaryDirectory() as place:
        seeds = [rng.randbytes(32) for _ in range(3)]
        keys = [public_key(seed) for seed in seeds]
        with open(os.open(f'{place}/identity.key', os.O_WRONLY | os.O_CREAT, 0o600), 'w', encoding='ascii') as f:
            f.write(f'uvcc identity v1\n{seeds[OWNER].hex()}\n')
        with open(f'{place}/party.json', 'w', encoding='utf-8') as f:
            json.dump({'job': {'name': 'shares', 'run': {'kind': 'infer', 'model': config, 'tokens': TOKENS, 'gives': 'last',
                                                         'value_bits': 7, 'inner_bits': 7, 'weights': 'shared'}},
                       'party': OWNER, 'parties': [{'address': f'unix:{p}.sock', 'key': keys[p].hex()} for p in range(3)],
                       'identity': 'identity.key', 'store': 'store', 'data': {'model': model}}, f)
        subprocess.run([uvcc, 'party', '--config', f'{place}/party.json', '--share', f'{place}/shares'], check=True,
                       stdout=subprocess.DEVNULL)
        files = []
        for p in range(3):
            with open(f'{place}/shares/party-{p}.shares', 'rb') as f:
                files.append(File(f.read(), seeds[p], keys[OWNER], keys))
    need(len({f.id for f in files}) == 1 and len({f.model for f in files}) == 1, 'one sharing')
    want = [round(value * 2 ** FRAC) for weight in checkpoint_weights(f'{model}/model.safetensors') for value in weight]
    need(all(f.words == len(want) for f in files), 'as many words as weights')
    for p in range(3):
        a, b = files[p], files[(p + 1) % 3]
        shared, c = (p + 1) % 3, (p + 2) % 3
        need(a.component[shared] == b.component[shared], 'a component is the same at both who hold it')
        need([x + y + z & M64 for x, y, z in zip(a.component[p], a.component[shared], b.component[c])] == [v & M64 for v in want],
             'the weights')
        need(len(set(a.component[p])) > 0.99 * len(want), 'a component is random')
    print(f'{len(want)} weights')
    return 0


if __name__ == '__main__':
    sys.exit(main())
