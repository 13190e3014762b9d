"""One-hot rows by DPF keys: sections 4.5 and 5 of docs/compute.md."""

from .keys import control_bytes
from .words import HEAD, M64, OTHER, TAIL, bit, demand, low

LEAF = 4


def depth_of(n):
    return max(n - 2, 0)


def key_words(n):
    return 2 * depth_of(n) + LEAF + (1 if depth_of(n) else 0)


def leaf_words(nodes, seed):
    return nodes.values(0, seed, LEAF)


def make_key(nodes, n, point, pair):
    """Section 4.5: the words of a key."""
    words, taus = [], []
    for level in range(depth_of(n)):
        cw, tau, pair = nodes.make_level(pair, bit(point, n - 1 - level))
        words += [cw & M64, cw >> 64]
        taus.append(tau)
    v = [leaf_words(nodes, s) for s, _ in pair]
    for j in range(LEAF):
        x = (1 if point % LEAF == j else 0) - v[0][j] + v[1][j]
        words.append(-x & M64 if pair[1][1] else x & M64)
    if taus:
        words.append(int.from_bytes(control_bytes(taus), "little"))
    return words


class Key:
    """A holder's key of one row."""

    def __init__(self, nodes, n, words, root):
        self.nodes, self.n, self.words, self.depth = nodes, n, words, depth_of(n)
        self.known, self.leaves = {(0, 0): root}, {}

    def node(self, level, number):
        if (level, number) not in self.known:
            above, at = self.node(level - 1, number >> 1), level - 1
            cw = self.words[2 * at] | self.words[2 * at + 1] << 64
            control = self.words[2 * self.depth + LEAF]
            tau = (bit(control, 2 * at), bit(control, 2 * at + 1))
            self.known[level, number] = self.nodes.child(above, number & 1, cw, tau)
        return self.known[level, number]

    def share(self, x):
        s, t = self.node(self.depth, x // LEAF)
        if s not in self.leaves:
            self.leaves[s] = leaf_words(self.nodes, s)
        return self.leaves[s][x % LEAF] + (self.words[2 * self.depth + x % LEAF] if t else 0)


def bits_of(t):
    demand(1 <= t.bits <= 32)
    return t.bits


def t_one_hot_keys(t):
    n = bits_of(t)
    if t.role != HEAD:
        pair = "HT" if t.role == TAIL else "HO"
        t.put("out[0]", [t.prg_at(pair, "root", 0, j) for j in range(2 * t.c)])
        return
    words = []
    points = [low(x, n) for x in t.words("in[0]")]
    for i, point in enumerate(points):
        pair = [(t.root("HT", i, t.call) & ~1, 0), (t.root("HO", i, t.call) & ~1, 1)]
        words += make_key(t.file.nodes, n, point, pair)
    t.put("out[0]", words)
    t.put("out[1]", points)


def t_one_hot_rows(t):
    n, first = bits_of(t), t.constant
    demand(t.cols and t.step and first + t.cols <= 1 << n)
    given, out = t.words("in[0]"), []
    for i in range(t.c):
        at = i * t.step
        if t.role == HEAD:
            out += [1 if low(given[at], n) == first + j else 0 for j in range(t.cols)]
            continue
        r, size = t.words("in[1]")[2 * at : 2 * at + 2], key_words(n)
        root = ((r[0] | r[1] << 64) & ~1, 1 if t.role == OTHER else 0)
        key = Key(t.file.nodes, n, given[at * size : (at + 1) * size], root)
        shares = [key.share(first + j) for j in range(t.cols)]
        out += [-x if t.role == OTHER else x for x in shares]
    t.put("out[0]", out)


TASKS = {"ONE_HOT_KEYS": t_one_hot_keys, "ONE_HOT_ROWS": t_one_hot_rows}
