#!/usr/bin/env python3
"""relu.py [DIRECTORY] - three parties compute relu(X W): party 0 knows X, party 1 knows W, and all
three learn the result and nothing else. The same program as examples/embed.c.

Here the three are tasks of one process and talk through Unix sockets in a directory; each touches
only its own session and sockets, and would do the same on a machine of its own."""
import asyncio
import sys
import tempfile

import numpy as np

import uvcc
from uvcc import aio

FRAC_BITS = 16
IN_X, IN_W, OUT_Y = 1, 2, 3  # public ids of inputs and outputs
X = [[1.5, -2.0, 0.25], [0.5, 1.0, -1.0]]
W = [[1.0, -0.5], [2.0, 0.25], [-4.0, 8.0]]
EXPECTED = [[0.0, 0.75], [6.5, 0.0]]


def make_program() -> uvcc.Program:
    """relu(X W) as data: the same calls at every party."""
    p = uvcc.Program()
    x = p.tensor("X", (2, 3), bits=20, scale=FRAC_BITS)
    w = p.tensor("W", (3, 2), bits=20, scale=FRAC_BITS)
    z = p.tensor("Z", (2, 2), bits=26, scale=FRAC_BITS)
    y = p.tensor("Y", (2, 2), bits=26, scale=FRAC_BITS)
    d = p.tensor("D", (2, 2), bits=1)
    p.entry("relu(XW)")
    p.input(IN_X, x, owner=0)
    p.input(IN_W, w, owner=1)
    p.gemm(x, w, z, shift=FRAC_BITS, name="Z = X W")
    p.relu(z, y, d, name="Y = relu(Z)")
    p.output(OUT_Y, y)
    return p.finish()


async def party(identity: uvcc.Identity, directory: str) -> np.ndarray:
    """One party, from its keys to the result."""
    me = identity.party
    mine = {0: {IN_X: uvcc.to_fixed(X, FRAC_BITS)}, 1: {IN_W: uvcc.to_fixed(W, FRAC_BITS)}}
    session = uvcc.Session(uvcc.Config(identity=identity), make_program())
    async with aio.Host(session,
                        listen=f"unix:{directory}/party-{me}" if me < 2 else None,
                        peers={p: f"unix:{directory}/party-{p}" for p in range(me)}) as host:
        await host.ready()
        result = await host.step("relu(XW)", mine.get(me))
        await host.close()
    return uvcc.from_fixed(result.outputs[OUT_Y], FRAC_BITS)


async def main(directory: str) -> int:
    # In one place, as a trial: really, each pair of parties shares a secret that the third has not.
    parties = [party(identity, directory) for identity in uvcc.provision()]
    results = await asyncio.gather(*parties)
    for p, y in enumerate(results):
        print(f"P{p}: relu(X W) = {y.tolist()}")
    return 0 if all(np.array_equal(y, EXPECTED) for y in results) else 1


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(asyncio.run(main(sys.argv[1])))
    with tempfile.TemporaryDirectory() as made:
        sys.exit(asyncio.run(main(made)))
