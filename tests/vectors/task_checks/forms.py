"""Tasks that do not work on blocks: section 9 of docs/compute.md."""

import hashlib
import hmac
import struct

from .aes import Stream
from .words import bit, bytes_of, demand, words_of


PAIRS4 = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))


def map_component(op, x, y, rows, cols, index, args):
    """form "both" of a component."""
    constant, at = args.get("constant", 0), lambda i, j: x[i * cols + j]
    fill = constant if index == 0 else 0
    block = args.get("block", cols)
    window = args.get("part", 0) or cols + 1
    sees = lambda last, j: last - window < j <= last
    every = [(i, j) for i in range(rows) for j in range(cols)]
    element = {
        "ADD": lambda i, j: at(i, j) + y[i * cols + j],
        "SUB": lambda i, j: at(i, j) - y[i * cols + j],
        "ADD_ROW": lambda i, j: at(i, j) + y[j],
        "COPY": at,
        "SHL": lambda i, j: at(i, j) << args.get("shift", 0),
        "ADD_COL": lambda i, j: at(i, j) + y[i],
        "SUB_COL": lambda i, j: at(i, j) - y[i],
        "RSUB_COL": lambda i, j: y[i] - at(i, j),
        "SCALE": lambda i, j: constant * at(i, j),
        "ADD_PUBLIC": lambda i, j: at(i, j) + fill,
        "CAUSAL": lambda i, j: at(i, j) if sees(i % block - block + cols, j) else fill,
        "SPREAD": lambda i, j: x[i],
    }
    if op in element:
        return [element[op](i, j) for i, j in every]
    if op in ("SLICE_ROWS", "PUT_ROWS", "ADD_ROWS"):
        return map_rows(op, x, y, rows, cols, args)
    if op == "ROTATE":
        return map_rotate(x, y, rows, cols, block, args["part"])
    if op == "SUM_ROWS":
        return [sum(at(i, j) for i in range(rows)) for j in range(cols)]
    if op == "SUM_COLS":
        return [sum(at(i, j) for j in range(cols)) for i in range(rows)]
    last, out = cols - 1, []
    for i in range(rows):
        for j in range(0, cols, 2 if op.startswith("PAIR") else 4):
            if op == "PAIR_DIFF":
                out.append(at(i, j) - at(i, min(j + 1, last)))
            elif op == "PAIR_SECOND":
                out.append(at(i, min(j + 1, last)))
            elif op == "QUAD_LAST":
                out.append(at(i, min(j + 3, last)))
            else:
                out += [at(i, min(j + a, last)) - at(i, min(j + b, last)) for a, b in PAIRS4]
    return out


def map_rotate(x, y, rows, cols, tokens, head):
    """Pairs as complex numbers, turned by those of row i mod tokens of y."""
    half, out = head // 2, [0] * (rows * cols)
    for i in range(rows):
        for first in range(i * cols, (i + 1) * cols, head):
            for j in range(half):
                re, im = x[first + j], x[first + half + j]
                cos, sin = y[i % tokens * head + j], y[i % tokens * head + half + j]
                out[first + j] = re * cos - im * sin
                out[first + half + j] = im * cos + re * sin
    return out


def map_rows(op, x, y, rows, cols, args):
    """Rows `constant` .. `constant` + `part` - 1 of each block of `block` rows."""
    block, part, first = args["block"], args["part"], args["constant"]
    out = []
    for i in range(rows):
        here = i % block - first
        inside = 0 <= here < part
        old = x[i * cols : (i + 1) * cols] if x is not None else [0] * cols
        row = i // block * part + here
        new = y[row * cols : (row + 1) * cols] if inside and y is not None else [0] * cols
        if op == "SLICE_ROWS":
            out += old if inside else []
        elif op == "PUT_ROWS":
            out += new if inside else old
        else:
            out += [a + b for a, b in zip(old, new)]
    return out


MAPS_BOTH = """ADD SUB ADD_ROW SUM_ROWS COPY SHL PAIR_DIFF PAIR_SECOND ADD_COL SUB_COL RSUB_COL
SUM_COLS SCALE
ADD_PUBLIC CAUSAL QUAD_DIFF QUAD_LAST SPREAD SLICE_ROWS PUT_ROWS ADD_ROWS
ROTATE""".split()


def map_three(op, x, y, rows, cols, args):
    def product(a, b):
        return x[0][a] * (y[0][b] + y[1][b]) + x[1][a] * y[0][b]

    each = range(rows * cols)
    if op == "MUL":
        return [product(a, a) for a in each]
    if op == "MUL_COL":
        return [product(a, a // cols) for a in each]
    if op == "MUL_ROW":
        return [product(a, a % cols) for a in each]
    constant = args.get("constant", 0)
    return [
        constant * sum(product(i * cols + j, i * cols + j) for j in range(cols))
        for i in range(rows)
    ]


def t_map(args, with_, wants, file):
    op, rows, cols, party = args["op"], args["rows"], args["cols"], args.get("party", 0)
    get = lambda name: words_of(with_[name]) if name in with_ else None
    out = {}
    if op in ("PUBLIC", "INDEX"):
        for i, name in enumerate(("out.lo", "out.hi")):
            if name not in wants:
                continue
            value = get("x.lo") if op == "PUBLIC" else [2 * j + 1 for j in range(cols)] * rows
            out[name] = value if (party + i) % 3 == 0 else [0] * (rows * cols)
    elif op in ("MUL", "MUL_COL", "MUL_ROW", "DOT_ROWS"):
        x, y = (get("x.lo"), get("x.hi")), (get("y.lo"), get("y.hi"))
        out["out.lo"] = map_three(op, x, y, rows, cols, args)
    else:
        demand(op in MAPS_BOTH)
        for i, part in enumerate(("lo", "hi")):
            if "out." + part in wants:
                x, y = get("x." + part), get("y.lo" if op == "ROTATE" else "y." + part)
                out["out." + part] = map_component(op, x, y, rows, cols, (party + i) % 3, args)
    return {name: bytes_of(words) for name, words in out.items()}


def t_gemm(args, with_, wants, file):
    m, n, k = args["m"], args["n"], args["k"]
    tx, ty = args.get("trans_x", False), args.get("trans_y", False)
    groups, heads = args.get("groups", 0), args.get("heads", 0)
    y_bytes, public, second = args.get("y_bytes", 0), "y.hi" not in with_, "z_hi" in {*with_, *wants}
    demand(y_bytes in (0, 2, 4) and (public or not (y_bytes or second)))
    demand(not second or "x.hi" in with_)
    x = [words_of(with_[s]) if s in with_ else None for s in ("x.lo", "x.hi")]
    if y_bytes:
        y = list(struct.unpack("<%d%s" % (len(with_["y.lo"]) // y_bytes, {2: "h", 4: "i"}[y_bytes]), with_["y.lo"]))
    else:
        y = words_of(with_["y.lo"])
    if not public:
        both = [a + b for a, b in zip(y, words_of(with_["y.hi"]))]
    lx, ly, lz = [m if tx else k, 0, 0], [k if ty else n, 0, 0], [n, 0, 0]
    if groups:
        lx, ly, lz = args["lx"], args["ly"], args["lz"]

    def product(name, terms):
        z = words_of(with_[name]) if name in with_ else [0] * (m * n)
        for g in range(groups or 1):
            for h in range(heads if groups else 1):
                ax, ay, az = (of[1] * g + of[2] * h for of in (lx, ly, lz))
                for i in range(m):
                    for j in range(n):
                        s = 0
                        for p in range(k):
                            a = ax + (p * lx[0] + i if tx else i * lx[0] + p)
                            b = ay + (j * ly[0] + p if ty else p * ly[0] + j)
                            s += sum(left[a] * right[b] for left, right in terms)
                        at = az + i * lz[0] + j
                        z[at] = s + (z[at] if args.get("accumulate") else 0)
        return bytes_of(z)

    if public:
        out = {"z": product("z", [(x[0], y)])}
        if second:
            out["z_hi"] = product("z_hi", [(x[1], y)])
        return out
    return {"z": product("z", [(x[0], both)] + ([(x[1], y)] if x[1] is not None else []))}


def t_bit_sums(args, with_, wants, file):
    rows, cols = args.get("rows", 0), args.get("cols", 0)
    demand(rows >= 1 and cols >= 1)
    stream, out = Stream(bytes.fromhex(args["key"])), {}
    ordinal, call = file.root["ordinal"], file.call
    bits = [stream.word(ordinal, call, 0, args.get("lane", 0), i) for i in range(rows)]
    for part in ("lo", "hi"):
        if "x." + part not in with_:
            continue
        x, sums = words_of(with_["x." + part]), []
        at = lambda i, j: x[j * rows + i] if args.get("trans") else x[i * cols + j]
        for a in range(64):
            for j in range(cols):
                sums.append(sum(at(i, j) for i in range(rows) if bit(bits[i], a)))
        out["out." + part] = bytes_of(sums)
    return out


def hash_item(unit, with_, file):
    key, prefix = file.value(unit["key"]), file.value(unit["prefix"])
    data, mode = with_["data"], unit["mode"]
    if mode == 0:
        return {"digest": hashlib.sha256(prefix + data).digest()}
    tree = hashlib.sha256(b"UVCC_TREE_V1" + struct.pack("<Q", len(data)))
    for at in range(0, len(data), 4096):
        tree.update(hashlib.sha256(data[at:at + 4096]).digest())
    text = prefix + tree.digest()
    return {"digest": hmac.new(key, text, hashlib.sha256).digest() if mode == 1 else hashlib.sha256(text).digest()}


def collective(members, phase, elems):
    """members: (op, operands) of each; what each gives."""
    outs, size = [], elems // len(members)
    for i, (op, _) in enumerate(members):
        out = {}
        for part in ("lo", "hi"):
            have = [words_of(of["in." + part]) for _, of in members if "in." + part in of]
            if not have or op == 1:
                continue
            if op == 2:  # from the stage before (FWD), or the next one (BWD)
                sender = members[i - 1 if phase == 0 else i + 1]
                demand(sender[0] == 1)
                words = words_of(sender[1]["in." + part])
            elif op == 3:
                words = [sum(column) for column in zip(*have)][i * size : (i + 1) * size]
            else:
                demand(op == 4)
                words = [x for of in have for x in of]
            out["out." + part] = bytes_of(words)
        outs.append(out)
    return outs


TASKS = {"MAP": t_map, "GEMM": t_gemm, "BIT_SUMS": t_bit_sums}
