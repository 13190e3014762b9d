#!/usr/bin/env python3
"""Writes tiles.json, the vectors of how products on triples are cut (docs/triples.md) and of the ids of their tiles'
triples (docs/wire.md, section 3), from nothing but hashlib:

    python3 make_tiles.py > tiles.json
"""
import hashlib
import json
import struct

BLOCK, ELEMS, MOST = 4096, 1 << 20, 64


def divided_up(a, b):
    return -(-a // b)


def cut(rows, cols, unit, tile_rows):
    """Tiles of a result of rows x cols, of whole units of rows."""
    if tile_rows == 0:
        units = rows // unit
        tile_rows = unit * min(units, max(ELEMS // (unit * cols), 1, divided_up(units, MOST)))
    tiles, first_block = [], 0
    for first in range(0, rows, tile_rows):
        n = min(tile_rows, rows - first)
        tiles.append({"first_row": first, "rows": n, "first_block": first_block})
        first_block += divided_up(n * cols, BLOCK)
    return tile_rows, tiles


def triple_id(sub, step, op, tile):
    text = b"UVCC_TRIPLE_V1" + sub + struct.pack("<III", step, op, tile)
    return hashlib.sha256(text).digest()[:8]


def case(rows, cols, groups, tile_rows, step=3, op=0x19d2de0f):
    sub = hashlib.sha256(b"tiles %d %d" % (rows, cols)).digest()
    rows_of_tile, tiles = cut(rows, cols, rows // groups if groups else 1, tile_rows)
    for i, t in enumerate(tiles):
        t["triple_id"] = triple_id(sub, step, op, i)[::-1].hex()
    return {"rows": rows, "cols": cols, "row_groups": groups, "tile_rows": tile_rows, "step": step,
            "op_id": "%08x" % op, "sid_sub": sub.hex(), "cut_rows": rows_of_tile, "tiles": tiles}


print(json.dumps({"cases": [
    case(1, 1, 0, 0), case(1024, 1024, 0, 0), case(1025, 1024, 0, 0), case(2048, 16384, 0, 0),
    case(3, (1 << 20) + 1, 0, 0), case(65, 1 << 20, 0, 0), case(129, 1000000, 0, 0),
    case(96, 1 << 16, 6, 0), case(96, 1 << 14, 6, 0), case(50, 100, 0, 10), case(10, 3, 0, 3),
    case(64, 5000, 0, 1), case(12, 3, 3, 8), case(7, 5, 0, 9),
]}, indent=1))
