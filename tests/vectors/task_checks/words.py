"""Words, bits and packed values; sections 1 and 2 of docs/compute.md."""

M64 = (1 << 64) - 1
BLOCK = 4096
HEAD, TAIL, OTHER = 0, 1, 2
ROLES = {"HEAD": HEAD, "TAIL": TAIL, "OTHER": OTHER}
SR, ARS, RELU, DCF = 1, 2, 3, 5  # gates


def low(x, n):
    return x & ((1 << n) - 1)


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def bit(x, k):
    return x >> k & 1


def words_of(data):
    return [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]


def bytes_of(words):
    return b"".join((w & M64).to_bytes(8, "little") for w in words)


def pack(values, n):
    """n-bit values, packed (section 2)."""
    string = 0
    for i, v in enumerate(values):
        string |= low(v, n) << (i * n)
    return string.to_bytes((len(values) * n + 7) // 8, "little")


def unpack(data, count, n):
    string = int.from_bytes(data[: (count * n + 7) // 8], "little")
    return [low(string >> (i * n), n) for i in range(count)]


class Refused(Exception):
    """The task is not within its limits: UVCC_ERR_JOB."""


def demand(holds):
    if not holds:
        raise Refused
