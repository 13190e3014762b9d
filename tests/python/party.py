"""party.py DIRECTORY PARTY STEPS: a party that adds 2 in each step, and goes on where it was when it
or a peer was killed. Begins the last step when DIRECTORY has a file `last`. Prints the sum."""
import asyncio
import os
import sys
from pathlib import Path

import numpy as np
import uvcc
from support import sum_program
from uvcc import aio
from uvcc.store import Store

where, me, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
raw = bytes.fromhex(os.environ["UVCC_TEST_KEYS"].split(":")[me])
keys = [raw[i:i + 32] for i in range(0, len(raw), 32)]
identity = uvcc.Identity(party=me, sid_job=keys[0], pair_secret=keys[1:4], sign_seed=keys[4],
                         peer_sign_key=keys[5:8])


async def run(store):
    config = uvcc.Config(identity=identity, resume=uvcc.Resume(checkpoint_every=1,
                                                               next_run=store.next_run()))
    config.limits.close_ns = 100_000_000
    session = uvcc.Session(config, sum_program())
    async with aio.Host(session, store=store, listen=f"unix:{where}/p{me}" if me < 2 else None,
                        peers={p: f"unix:{where}/p{p}" for p in range(me)},
                        retry_s=(0.002, 0.05)) as host:
        await host.ready()
        if host.fresh:
            session.set_public("A", np.zeros((4, 4), np.int64))
        value = 0
        while host.next_step < steps:
            while host.next_step == steps - 1 and not (Path(where) / "last").exists():
                await asyncio.sleep(0.005)  # who is killed after that may find nobody any more
            result = await host.step("add", {1: np.full((4, 4), 2)} if me == 0 else {})
            value = int(result.outputs[2][0, 0])
            assert value == 2 * (result.step + 1), (value, result.step)
            (Path(where) / f"done{me}").write_text(str(result.step))
        await host.close()
        return value


with Store(f"{where}/store{me}") as kept:
    while True:
        try:
            print(asyncio.run(run(kept)))
            break
        except uvcc.Aborted as error:
            if error.reason not in (uvcc.AbortReason.RESTARTED, uvcc.AbortReason.PEER):
                raise
