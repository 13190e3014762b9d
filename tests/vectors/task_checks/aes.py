"""AES-128 (FIPS 197) with tables, and the PRG (section 2). Blocks are little-endian numbers."""

from .words import M64


def _aes_tables():
    def double(x):
        return (x << 1) ^ (0x11B if x & 0x80 else 0)

    inverse, power, log = [0] * 256, [0] * 256, [0] * 256
    x = 1
    for i in range(255):
        power[i], log[x] = x, i
        x = double(x) ^ x
    for i in range(1, 256):
        inverse[i] = power[(255 - log[i]) % 255]
    sbox = []
    for i in range(256):
        b = inverse[i]
        s = 0x63
        for k in range(5):
            s ^= (b << k | b >> (8 - k)) & 0xFF
        sbox.append(s)
    # A column is four bytes, row 0 lowest: what a byte of each row adds to it.
    tables = [[], [], [], []]
    for s in sbox:
        two = double(s) & 0xFF if s < 0x80 else double(s)
        three = two ^ s
        column = [two, s, s, three]
        for r in range(4):
            tables[r].append(sum(column[(i - r) % 4] << (8 * i) for i in range(4)))
    return sbox, tables


SBOX, (T0, T1, T2, T3) = _aes_tables()


def expand(key):
    w = [int.from_bytes(key[i : i + 4], "little") for i in range(0, 16, 4)]
    rcon = 1
    for i in range(4, 44):
        x = w[i - 1]
        if i % 4 == 0:
            x = x >> 8 | (x & 0xFF) << 24
            x = sum(SBOX[x >> (8 * k) & 0xFF] << (8 * k) for k in range(4)) ^ rcon
            rcon = (rcon << 1) ^ (0x11B if rcon & 0x80 else 0)
        w.append(w[i - 4] ^ x)
    return w


def aes(w, block):
    """AES-128 of a block; w: the expanded key. Blocks are little-endian numbers."""
    a = block & 0xFFFFFFFF ^ w[0]
    b = block >> 32 & 0xFFFFFFFF ^ w[1]
    c = block >> 64 & 0xFFFFFFFF ^ w[2]
    d = block >> 96 ^ w[3]
    for r in range(4, 40, 4):
        a, b, c, d = (
            T0[a & 255] ^ T1[b >> 8 & 255] ^ T2[c >> 16 & 255] ^ T3[d >> 24] ^ w[r],
            T0[b & 255] ^ T1[c >> 8 & 255] ^ T2[d >> 16 & 255] ^ T3[a >> 24] ^ w[r + 1],
            T0[c & 255] ^ T1[d >> 8 & 255] ^ T2[a >> 16 & 255] ^ T3[b >> 24] ^ w[r + 2],
            T0[d & 255] ^ T1[a >> 8 & 255] ^ T2[b >> 16 & 255] ^ T3[c >> 24] ^ w[r + 3],
        )
    s, out = SBOX, 0
    for k, (p, q, t, u) in enumerate(((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c))):
        x = s[p & 255] | s[q >> 8 & 255] << 8 | s[t >> 16 & 255] << 16 | s[u >> 24] << 24
        out |= (x ^ w[40 + k]) << (32 * k)
    return out


class Stream:
    """Words of a key in counter mode (section 2)."""

    def __init__(self, key):
        self.key, self.blocks = expand(key), {}

    def word(self, ordinal, call, block, lane, j):
        at = (ordinal, call, block, lane, j >> 1)
        if at not in self.blocks:
            counter = lane * (1 << 40) + (j >> 1)
            data = ordinal | call << 32 | block << 48 | counter << 80
            self.blocks[at] = aes(self.key, data)
        return self.blocks[at] >> (64 * (j & 1)) & M64
