"""DPF, DCF and multi-scale keys: section 4 of docs/compute.md."""

from .aes import aes, expand
from .words import M64, TAIL, bit, bytes_of, low, words_of


class Nodes:
    """The node PRG. A node is (seed, control bit)."""

    def __init__(self, left, right):
        self.keys = (expand(left), expand(right))

    def mmo(self, side, x):
        return aes(self.keys[side], x) ^ x

    def child(self, node, side, cw, tau):
        s, t = node
        y = self.mmo(side, s)
        return (y & ~1) ^ (cw & ~1 if t else 0), y & 1 ^ (t & tau[side])

    def values(self, side, seed, w):
        out = []
        for k in range((w + 1) // 2):
            y = self.mmo(side, seed ^ (2 * k + 1))
            out += [y & M64, y >> 64]
        return out[:w]

    def make_level(self, pair, a):
        """(CW, tau) of a level, and both parties' nodes on the path."""
        y = [[self.mmo(d, s) for d in (0, 1)] for s, _ in pair]
        cw = (y[0][1 - a] ^ y[1][1 - a]) & ~1
        tau = ((y[0][0] ^ y[1][0]) & 1 ^ a ^ 1, (y[0][1] ^ y[1][1]) & 1 ^ a)
        nodes = []
        for p, (_, t) in enumerate(pair):
            nodes.append(((y[p][a] & ~1) ^ (cw if t else 0), y[p][a] & 1 ^ (t & tau[a])))
        return cw, tau, nodes


def control_bytes(taus):
    string = 0
    for i, (left, right) in enumerate(taus):
        string |= left << (2 * i) | right << (2 * i + 1)
    return string.to_bytes((2 * len(taus) + 7) // 8, "little")


class Levels:
    """Correction words and control bits of one element of a key."""

    def __init__(self, levels, bits, depth, count, i):
        tb = (2 * depth + 7) // 8
        self.cw = []
        for level in range(depth):
            at = 16 * (level * count + i)
            self.cw.append(int.from_bytes(levels[at : at + 16], "little"))
        string = int.from_bytes(bits[i * tb : (i + 1) * tb], "little")
        self.tau = [(bit(string, 2 * k), bit(string, 2 * k + 1)) for k in range(depth)]


def dpf_depth(n):
    return max(n - 7, 0)


def dpf_sections(n, count):
    """Bytes of the levels, final words and control bits."""
    depth = dpf_depth(n)
    return 16 * depth * count, 16 * count, (2 * depth + 7) // 8 * count


def dpf_make(nodes, n, alphas, roots):
    """Section 4.1: the three arrays, and HEAD's terminal bits at alpha."""
    depth = dpf_depth(n)
    cws, finals, bits, heads = [[] for _ in range(depth)], [], [], []
    for alpha, pair in zip(alphas, roots):
        taus = []
        for level in range(depth):
            cw, tau, pair = nodes.make_level(pair, bit(alpha, n - 1 - level))
            cws[level].append(cw)
            taus.append(tau)
        at = alpha % 128 if n >= 7 else alpha % (1 << n)
        y = [nodes.mmo(0, s) for s, _ in pair]
        fw = y[0] ^ y[1] ^ (1 << at)
        finals.append(fw)
        bits.append(control_bytes(taus))
        heads.append(bit(y[0] ^ (fw if pair[0][1] else 0), at))
    levels = b"".join(x.to_bytes(16, "little") for level in cws for x in level)
    return levels, b"".join(x.to_bytes(16, "little") for x in finals), b"".join(bits), heads


class Dpf:
    """One party's key of one element."""

    def __init__(self, nodes, n, root, parts, count, i):
        levels, finals, bits = parts
        self.nodes, self.n, self.depth = nodes, n, dpf_depth(n)
        self.of = Levels(levels, bits, self.depth, count, i)
        self.fw = int.from_bytes(finals[16 * i : 16 * i + 16], "little")
        self.known = {(0, 0): root}
        self.blocks = {}

    def node(self, level, prefix):
        """The node below `level` levels whose path are the bits of prefix."""
        if (level, prefix) not in self.known:
            above = self.node(level - 1, prefix >> 1)
            cw, tau = self.of.cw[level - 1], self.of.tau[level - 1]
            self.known[level, prefix] = self.nodes.child(above, prefix & 1, cw, tau)
        return self.known[level, prefix]

    def terminal(self, x):
        prefix = x >> (self.n - self.depth)
        if prefix not in self.blocks:
            s, t = self.node(self.depth, prefix)
            self.blocks[prefix] = self.nodes.mmo(0, s) ^ (self.fw if t else 0)
        return self.blocks[prefix]

    def index(self, x):
        return x % 128 if self.n >= 7 else x % (1 << self.n)

    def bit(self, x):
        x = low(x, self.n)
        return bit(self.terminal(x), self.index(x))

    def prefix_share(self, x):
        x = low(x, self.n)
        p = bin(self.terminal(x) & ((2 << self.index(x)) - 1)).count("1") & 1
        for level in range(self.depth):
            if bit(x, self.n - 1 - level):
                above = self.node(level, x >> (self.n - level))
                right = self.node(level + 1, x >> (self.n - level - 1))
                p ^= above[1] ^ right[1]
        return p


def dcf_bytes(n, w, count):
    return count * (16 * n + 8 * w * n + 8 * w + (2 * n + 7) // 8)


def dcf_make(nodes, n, w, alphas, betas, roots):
    """Section 4.2."""
    cws, values = [[] for _ in range(n)], [[] for _ in range(n)]
    finals, bits = [], []
    for alpha, beta, pair in zip(alphas, betas, roots):
        taus, sums = [], [0] * w
        for level in range(n):
            a = bit(alpha, n - 1 - level)
            v = [[nodes.values(d, s, w) for d in (0, 1)] for s, _ in pair]
            minus = pair[1][1]
            for j in range(w):
                keep = v[0][a][j] - v[1][a][j]
                lose = v[0][1 - a][j] - v[1][1 - a][j]
                x = (beta[j] if a else 0) - lose - sums[j]
                sums[j] += keep + x
                values[level].append(-x if minus else x)
            cw, tau, pair = nodes.make_level(pair, a)
            cws[level].append(cw)
            taus.append(tau)
        v = [nodes.values(0, s, w) for s, _ in pair]
        for j in range(w):
            f = v[1][j] - v[0][j] - sums[j]
            finals.append(-f if pair[1][1] else f)
        bits.append(control_bytes(taus))
    out = b"".join(x.to_bytes(16, "little") for level in cws for x in level)
    for level in values:
        out += bytes_of(level)
    return out + bytes_of(finals) + b"".join(bits)


def dcf_share(nodes, n, w, key, count, i, root, party, x):
    values_at = 16 * n * count
    finals_at = values_at + 8 * w * n * count
    of = Levels(key, key[finals_at + 8 * w * count :], n, count, i)
    out, node = [0] * w, root
    for level in range(n):
        d = bit(x, n - 1 - level)
        s, t = node
        at = values_at + 8 * ((level * count + i) * w)
        correction = words_of(key[at : at + 8 * w])
        for j, v in enumerate(nodes.values(d, s, w)):
            out[j] += v + (correction[j] if t else 0)
        node = nodes.child(node, d, of.cw[level], of.tau[level])
    s, t = node
    at = finals_at + 8 * i * w
    final = words_of(key[at : at + 8 * w])
    for j, v in enumerate(nodes.values(0, s, w)):
        out[j] += v + (final[j] if t else 0)
    return [-x & M64 if party == TAIL else x & M64 for x in out]


def top(x, s):
    return low(x, s) >> (s - 12) if s >= 12 else low(x, s) << (12 - s)


class Mst:
    """Section 4.3."""

    def __init__(self, nodes, depth, scales, shift, cells):
        self.nodes, self.depth, self.scales = nodes, depth, scales
        self.shift, self.cells = shift, cells

    def limits_hold(self):
        return (
            2 <= self.cells <= 16
            and 1 <= self.scales <= 32
            and 2 * (self.scales - 1) < self.depth
            and self.shift + self.depth <= 64
        )

    def words(self, seed):
        y = self.nodes.mmo(0, seed ^ 1)
        return [y & M64, y >> 64, self.nodes.mmo(0, seed ^ 3) & M64]

    def make(self, masks, roots):
        cws, scales = [[] for _ in range(self.depth)], [[] for _ in range(self.scales)]
        bits = []
        for r, pair in zip(masks, roots):
            alpha, taus = low(r >> self.shift, self.depth), []
            for level in range(self.depth):
                cw, tau, pair = self.nodes.make_level(pair, bit(alpha, self.depth - 1 - level))
                cws[level].append(cw)
                taus.append(tau)
                below = self.depth - 1 - level
                if below % 2 or below // 2 >= self.scales:
                    continue
                q = top(r, self.shift + below)
                v = [self.words(s) for s, _ in pair]
                for j, beta in enumerate((1, q, q * q)):
                    x = beta - v[0][j] + v[1][j]
                    scales[below // 2].append(-x if pair[1][1] else x)
            bits.append(control_bytes(taus))
        out = b"".join(x.to_bytes(16, "little") for level in cws for x in level)
        for scale in scales:
            out += bytes_of(scale)
        return out + b"".join(bits)

    def share(self, key, count, i, root, party, xh, words):
        scales_at = 16 * self.depth * count
        of = Levels(key, key[scales_at + 24 * self.scales * count :], self.depth, count, i)
        known = {(0, 0): root}

        def node(level, number):
            if (level, number) not in known:
                above = node(level - 1, number >> 1)
                cw, tau = of.cw[level - 1], of.tau[level - 1]
                known[level, number] = self.nodes.child(above, number & 1, cw, tau)
            return known[level, number]

        total = 0
        for k in range(self.scales):
            s_k, level = self.shift + 2 * k, self.depth - 2 * k
            z, lo = xh >> s_k, top(xh, s_k)
            at = scales_at + 24 * (k * count + i)
            scale = words_of(key[at : at + 24])
            for cell in range(self.cells, 4 * self.cells):
                if k + 1 < self.scales and z // 4 - (z - cell) // 4 >= self.cells:
                    continue
                s, t = node(level, (z - cell) % (1 << level))
                u = [v + (scale[j] if t else 0) for j, v in enumerate(self.words(s))]
                a = [words[(3 * k + j) * 3 * self.cells + cell - self.cells] for j in range(3)]
                total += a[0] * u[0] - a[1] * u[1] + a[2] * u[2]
                total += lo * (a[1] * u[0] - 2 * a[2] * u[1] + lo * a[2] * u[0])
        return -total & M64 if party == TAIL else total & M64
