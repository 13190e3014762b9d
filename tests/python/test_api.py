"""The calls of the package: values, errors, hooks, and who owns what."""
import dataclasses
import gc
import logging
import os
import pickle
import random
import socket
import subprocess
import sys
import tempfile
import threading
import unittest
import weakref
from pathlib import Path

import numpy as np
import uvcc
from support import IN_W, IN_X, OUT_Y, W, X, Y, Triangle, configs, relu_program, sum_program
from uvcc import ErrorCode, EventKind, audit


def code_of(test, call, *args, **more):
    with test.assertRaises(uvcc.Error) as caught:
        call(*args, **more)
    return caught.exception.code


class Fixed(unittest.TestCase):
    def test_there_and_back(self):
        v = np.array([[1.5, -2.25], [0.0, 2.0**-16]])
        f = uvcc.to_fixed(v, 16)
        self.assertEqual(f.dtype, np.int64)
        self.assertEqual(f.tolist(), [[98304, -147456], [0, 1]])
        np.testing.assert_array_equal(uvcc.from_fixed(f, 16), v)

    def test_rounds_to_nearest(self):
        self.assertEqual(uvcc.to_fixed([0.4, 0.6, -0.6, 0.5, 1.5], 0).tolist(), [0, 1, -1, 0, 2])

    def test_refuses_what_does_not_fit(self):
        for bad in (np.inf, np.nan, 2.0**63, -(2.0**64)):
            self.assertEqual(code_of(self, uvcc.to_fixed, [bad], 0), ErrorCode.USAGE)
        self.assertEqual(code_of(self, uvcc.to_fixed, [1.0], 64), ErrorCode.USAGE)


class Programs(unittest.TestCase):
    def test_what_it_says_of_itself(self):
        p = relu_program()
        self.assertEqual([t.name for t in p.tensors], ["X", "W", "Z", "Y", "D"])
        self.assertEqual(p.entries, ["relu(XW)"])
        self.assertEqual([op.opcode.name for op in p.ops()], ["INPUT", "INPUT", "GEMM_SS", "RELU", "OUTPUT"])
        self.assertEqual([(i.id, i.owner) for i in p.inputs()], [(IN_X, 0), (IN_W, 1)])
        self.assertEqual(p.outputs()[0].receiver, uvcc.TO_ALL)
        self.assertEqual(len(p.hash), 32)
        self.assertEqual(p.hash, relu_program().hash)
        self.assertGreater(p.rounds(), 2)
        self.assertGreater(p.cost(2).online_bytes, 0)
        self.assertGreater(p.memory(), 0)

    def test_is_the_program_of_the_c_example(self):
        ref = uvcc.Reference(relu_program())
        ref.set("X", uvcc.to_fixed(X, 16))
        ref.set("W", uvcc.to_fixed(W, 16))
        ref.step()
        self.assertEqual(uvcc.from_fixed(ref.get("Y"), 16).tolist(), Y)

    def test_errors_name_what_is_wrong(self):
        p = uvcc.Program()
        a = p.tensor("A", (2, 2), bits=60)
        b = p.tensor("B", (2, 2), bits=60)
        p.entry("e")
        p.input(1, a, 0)
        p.mul(a, a, b, name="too wide")
        with self.assertRaises(uvcc.Error) as caught:
            p.finish()
        self.assertIn("too wide", caught.exception.detail)
        self.assertEqual(caught.exception.name, caught.exception.code.name)
        twice = uvcc.Program()
        for _ in range(2):
            twice.tensor("A", (2, 2), bits=1)
        self.assertEqual(code_of(self, twice.finish), ErrorCode.PROGRAM)
        self.assertEqual(code_of(self, p.tensor_at, "none"), ErrorCode.NOT_FOUND)
        self.assertEqual(code_of(self, p.tensor_at, 99), ErrorCode.NOT_FOUND)
        self.assertEqual(code_of(self, uvcc.Session, configs()[0], p), ErrorCode.USAGE)
        self.assertEqual(code_of(self, p.op, uvcc.Opcode.ADD, [a] * 7, [b]), ErrorCode.USAGE)

    def test_a_function_of_its_own(self):
        """floor(x / 4) by instructions: opened, floored, lifted."""
        p = uvcc.Program()
        x, y = p.tensor("X", (1, 4), bits=20), p.tensor("Y", (1, 4), bits=21)
        k = uvcc.FnKind
        f = p.function("quarter", [uvcc.FnInstr(k.OPEN, io=0, bits=64), uvcc.FnInstr(k.FLOOR, a=0, shift=2),
                                   uvcc.FnInstr(k.LIFT, a=1, io=0)], 1, 1)
        p.entry("e")
        p.input(1, x, 0)
        p.op(uvcc.Opcode.FUNCTION, [x], [y], function=f)
        p.output(2, y)
        p.finish()
        ref = uvcc.Reference(p)
        ref.set(x, [[9, -9, 4, -1]])
        ref.step()
        self.assertEqual(ref.get(y).tolist(), [[2, -3, 1, -1]])

    def test_nonlinear(self):
        p = uvcc.Program()
        x = p.tensor("X", (1, 3), bits=20, scale=16)
        y = p.tensor("Y", (1, 3), bits=30, scale=16)
        p.entry("e")
        p.input(1, x, 0)
        p.nonlinear(uvcc.Nonlinear.TANH, [x], [y], uvcc.NonlinearOptions(exact=True))
        p.output(2, y)
        p.finish()
        ref = uvcc.Reference(p)
        ref.set(x, uvcc.to_fixed([[0.5, -1.0, 3.0]], 16))
        ref.step()
        np.testing.assert_allclose(uvcc.from_fixed(ref.get(y), 16), np.tanh([[0.5, -1.0, 3.0]]), atol=2e-3)
        self.assertEqual(uvcc.nonlinear_info(uvcc.Nonlinear.TANH).name, "tanh")
        wrong = uvcc.Program()
        wrong.entry("e")
        self.assertEqual(code_of(self, wrong.nonlinear, uvcc.Nonlinear.RMSNORM, [7], [8]), ErrorCode.USAGE)


class Runs(unittest.TestCase):
    def test_a_step(self):
        for mode in (uvcc.CpuMode.INLINE, uvcc.CpuMode.DEFERRED, uvcc.CpuMode.THREADS):
            t = Triangle(relu_program(), mode=mode)
            t.until(EventKind.READY)
            finished = t.relu()
            self.assertEqual(len({e.root for e in finished}), 3)
            for s in t.sessions:
                y = s.output(0, OUT_Y)
                self.assertEqual(uvcc.from_fixed(y, 16).tolist(), Y)
                self.assertIsNone(s.output(0, 77))
                self.assertIsNone(s.output(5, OUT_Y))
                self.assertEqual(s.stats().steps_finished, 1)
                kept = s.stats().memory_bytes
                s.trim()
                self.assertLess(s.stats().memory_bytes, kept)
                self.assertTrue(s.peer_info(s.peers[0]).connected)
                self.assertEqual(s.root(), finished[s.party].root)
            t.close()
            self.assertEqual(uvcc.from_fixed(y, 16).tolist(), Y, "a copy outlives its session")

    def test_x25519(self):
        t = Triangle(relu_program(), [uvcc.Config(identity=i) for i in uvcc.provision(x25519=True)])
        t.until(EventKind.READY)
        t.relu()
        t.close()

    def test_wrong_use(self):
        made = configs()
        s = uvcc.Session(made[0])
        self.assertEqual(code_of(self, s.step, 0), ErrorCode.STATE)
        self.assertEqual(code_of(self, s.start), ErrorCode.STATE)
        self.assertNotEqual(s.error_detail, "")
        s.load_program(relu_program())
        self.assertEqual(code_of(self, s.feed, 1, b"x"), ErrorCode.STATE)
        t = Triangle(relu_program())
        t.until(EventKind.READY)
        a = t.sessions[0]
        self.assertEqual(code_of(self, a.feed, 0, b"x"), ErrorCode.USAGE)
        self.assertEqual(code_of(self, a.step, 7), ErrorCode.USAGE)
        self.assertEqual(code_of(self, a.step, 0, "no such entry"), ErrorCode.NOT_FOUND)
        self.assertEqual(code_of(self, a.input, 0, IN_X, np.zeros((2, 3), np.int64)), ErrorCode.NOT_FOUND)
        a.step(0)
        give = a.input
        self.assertEqual(code_of(self, give, 0, IN_X, np.zeros((3, 3), np.int64)), ErrorCode.USAGE)
        self.assertEqual(code_of(self, give, 0, IN_X, np.zeros(6, np.int64)), ErrorCode.USAGE)
        self.assertEqual(code_of(self, give, 0, IN_X, np.zeros((2, 3))), ErrorCode.USAGE)
        self.assertEqual(code_of(self, give, 0, IN_X, np.full((2, 3), 2**64 - 1, np.uint64)), ErrorCode.USAGE)
        self.assertEqual(code_of(self, give, 0, IN_X, np.full((2, 3), 1 << 40)), ErrorCode.BOUND)
        self.assertIn("X", a.error_detail)
        self.assertEqual(code_of(self, give, 0, IN_W, np.zeros((3, 2), np.int64)), ErrorCode.USAGE)
        self.assertEqual(code_of(self, give, 0, 9, np.zeros((3, 2), np.int64)), ErrorCode.NOT_FOUND)
        # Not in order, and of another integer type: what is given is what the array says.
        give(0, IN_X, np.asfortranarray(uvcc.to_fixed(X, 16).astype(np.int32)))
        self.assertEqual(code_of(self, give, 0, IN_X, np.zeros((2, 3), np.int64)), ErrorCode.STATE)
        self.assertEqual(code_of(self, a.cancel, 0), ErrorCode.STATE)
        t.sessions[1].step(0)
        t.sessions[2].step(0)
        t.sessions[1].input(0, IN_W, uvcc.to_fixed(W, 16))
        t.until(EventKind.STEP_FINISHED)
        self.assertEqual(uvcc.from_fixed(a.output(0, OUT_Y), 16).tolist(), Y)
        self.assertEqual(code_of(self, a.bundle, 0), ErrorCode.NOT_FOUND)
        self.assertEqual(code_of(self, a.checkpoint), ErrorCode.STATE)
        a.abort()
        self.assertEqual(t.until(EventKind.ABORTED)[1].peer, 0)
        self.assertEqual(code_of(self, a.step, 1), ErrorCode.ABORTED)

    def test_a_configuration_is_refused_by_name(self):
        with self.assertRaises(uvcc.Error) as caught:
            uvcc.Session(uvcc.Config())
        self.assertEqual(caught.exception.code, ErrorCode.CONFIG)
        self.assertIn("sid_job", caught.exception.detail)
        with self.assertRaises(uvcc.Error) as caught:
            uvcc.Session(uvcc.Config(identity=uvcc.Identity(sid_job=b"short")))
        self.assertIn("sid_job", caught.exception.detail)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((again.code, str(again)), (caught.exception.code, str(caught.exception)))

    def test_memory_bound(self):
        bound = uvcc.memory_bound(configs()[0], relu_program())
        t = Triangle(relu_program())
        t.until(EventKind.READY)
        t.relu()
        self.assertLess(t.sessions[0].stats().memory_peak_bytes, bound.bytes)
        self.assertEqual(sum(bound.term), bound.bytes)

    def test_transmits_end(self):
        t = Triangle(relu_program())
        a = t.sessions[0]
        tx = a.poll_transmit()
        left, right = socket.socketpair()
        with left, right:
            sent = tx.sendmsg(left)
            self.assertEqual(right.recv(1 << 20), tx.tobytes()[:sent])
        self.assertEqual(code_of(self, a.transmit_done, tx, tx.total + 1), ErrorCode.USAGE)
        a.transmit_done(tx, 0)
        self.assertEqual(code_of(self, a.transmit_done, tx, 0), ErrorCode.STATE)
        self.assertEqual(code_of(self, tx.tobytes), ErrorCode.STATE)
        tx = a.poll_transmit()
        a.peer_closed(tx.peer)
        self.assertEqual(code_of(self, tx.tobytes), ErrorCode.STATE)
        a.peer_open(tx.peer)
        tx = a.poll_transmit()
        a.free()
        self.assertEqual(code_of(self, tx.tobytes), ErrorCode.CLOSED)

    def test_checkpoint_and_resume(self):
        program = sum_program()
        made = configs(resume=uvcc.Resume(checkpoint_every=1, cancellable=1))
        t = Triangle(program, made)
        t.until(EventKind.READY)
        start = np.arange(16).reshape(4, 4)
        for s in t.sessions:
            s.set_public("A", start)
        for step in range(2):
            for s in t.sessions:
                s.step(step, "add")
            t.sessions[0].input(step, 1, np.full((4, 4), 10))
            t.until(EventKind.STEP_FINISHED, step)
        t.until(EventKind.CHECKPOINT, 2)
        kept = [s.checkpoint() for s in t.sessions]
        self.assertEqual({step for step, _ in kept}, {2})
        infos = [uvcc.read_checkpoint(data) for _, data in kept]
        self.assertEqual(len({i.lineage for i in infos}), 1)
        self.assertEqual(code_of(self, uvcc.read_checkpoint, kept[0][1][:-1]), ErrorCode.AUTH)
        lo0, hi0 = uvcc.checkpoint_tensor(kept[0][1], program.tensor_at("A"))
        lo1, hi1 = uvcc.checkpoint_tensor(kept[1][1], program.tensor_at("A"))
        np.testing.assert_array_equal(hi0, lo1)
        np.testing.assert_array_equal(uvcc.combine(lo0, lo1, hi1), start + 20)
        del t
        for c in made:
            c.resume.next_run = 1
        again = Triangle.__new__(Triangle)
        again.sessions = [uvcc.Session(c, program) for c in made]
        again.cpus, again.events = [uvcc.Cpu() for _ in made], [[], [], []]
        for s, (_, data) in zip(again.sessions, kept):
            s.resume(data)
            s.start()
            for peer in s.peers:
                s.peer_open(peer)
        self.assertEqual([e.step for e in again.until(EventKind.READY)], [2, 2, 2])
        for s in again.sessions:
            s.step(2, "add")
        again.sessions[0].input(2, 1, np.full((4, 4), 5))
        again.until(EventKind.STEP_FINISHED, 2)
        np.testing.assert_array_equal(again.sessions[2].output(2, 2), start + 25)
        again.sessions[1].step(3, "add")
        again.sessions[1].cancel(3)
        for p in (0, 2):
            again.sessions[p].step(3, "add")
        again.until(EventKind.STEP_CANCELLED, 3)
        again.close()

    def test_shares_of_a_client(self):
        v = np.array([[1, -2, 3, 4]] * 4)
        c = uvcc.split(v)
        np.testing.assert_array_equal(uvcc.combine(*c), v)
        t = Triangle(sum_program())
        t.until(EventKind.READY)
        for p, s in enumerate(t.sessions):
            s.set_shares("A", c[p], c[(p + 1) % 3])
            self.assertEqual(code_of(self, s.set_shares, "A", v, v), ErrorCode.USAGE)
            self.assertEqual(code_of(self, s.shares, "A"), ErrorCode.AGAIN) # it is being set
        t.turn()
        t.turn() # it is set
        for s in t.sessions:
            self.assertEqual(code_of(self, s.shares, "A"), ErrorCode.AGAIN) # on their way
        t.turn()
        t.turn()
        for p, s in enumerate(t.sessions):
            np.testing.assert_array_equal(s.shares("A"), (c[p], c[(p + 1) % 3]))
        for s in t.sessions:
            s.step(0)
        t.sessions[0].input(0, 1, np.zeros((4, 4), np.int64))
        t.until(EventKind.STEP_FINISHED)
        np.testing.assert_array_equal(t.sessions[1].output(0, 2), v)


    def test_keys_of_a_client(self):
        p = uvcc.Program()
        ids = p.tensor("ids", (2, 2), bits=4, lifetime=uvcc.Lifetime.PERSIST, sharing=uvcc.Sharing.ONE_HOT)
        table = p.tensor("table", (11, 3), bits=20)
        p.entry("look up")
        p.input(1, table, 1)
        z = p.tensor("z", (2, 3), bits=21, sharing=uvcc.Sharing.ADDITIVE)
        y = p.tensor("y", (2, 3), bits=21)
        p.op(uvcc.Opcode.EMBED, [ids, table], [z], constant=9)
        p.op(uvcc.Opcode.RESHARE, [z], [y])
        p.output(2, y)
        p.finish()
        self.assertEqual(ids.share_shape, (1, 4 * (9 + 2)))
        self.assertEqual(table.share_shape, table.shape)
        rows, numbers = np.arange(33).reshape(11, 3) - 7, np.array([[8, 0], [3, 1]])
        made = configs()
        dealt = uvcc.deal(made[0].identity.sid_job, numbers, 4)
        t = Triangle(p, made=made)
        t.until(EventKind.READY)
        for s, (lo, hi) in zip(t.sessions, dealt):
            self.assertEqual(code_of(self, s.set_shares, ids, lo[:, 1:], hi[:, 1:]), ErrorCode.USAGE)
            s.set_shares(ids, lo, hi)
        t.turn()
        t.turn()
        for s in t.sessions:
            s.step(0)
        t.sessions[1].input(0, 1, rows)
        t.until(EventKind.STEP_FINISHED)
        np.testing.assert_array_equal(t.sessions[2].output(0, 2), rows[numbers[:, 0]] + rows[9 + numbers[:, 1]])
        self.assertEqual(code_of(self, uvcc.deal, made[0].identity.sid_job, numbers, 3), ErrorCode.BOUND)
        self.assertEqual(code_of(self, uvcc.deal, made[0].identity.sid_job, numbers, 33), ErrorCode.USAGE)
        self.assertEqual(code_of(self, uvcc.deal, b"", numbers, 4), ErrorCode.USAGE)


class Evidence(unittest.TestCase):
    def test_bundles(self):
        made = configs(checks=uvcc.Checks(bundles=True))
        keys = [uvcc.public_key(c.identity.sign_seed) for c in made]
        t = Triangle(relu_program(), made)
        self.assertEqual([s.public_key for s in t.sessions], keys)
        t.until(EventKind.READY)
        t.relu()
        t.until(EventKind.BUNDLE)
        raw = [s.bundle(0) for s in t.sessions]
        t.close()
        bundles = [audit.Bundle(data) for data in raw]
        for b in bundles:
            b.check(keys)
        audit.verify(bundles, keys)
        leaves = list(bundles[1].leaves())
        self.assertEqual(len(leaves), bundles[1].leaf_count)
        self.assertEqual(leaves[0].type, uvcc.LeafType.STEP_BEGIN)
        proof = audit.Proof(bundles[1].prove(3))
        proof.check(keys)
        self.assertEqual(proof.leaf, leaves[3].data)
        with self.assertRaises(audit.AuditError) as caught:
            proof.check(keys[::-1][1:] + keys[:1])
        self.assertEqual(caught.exception.fault.kind, uvcc.FaultKind.SIGNATURE)
        with self.assertRaises(audit.AuditError) as caught:
            audit.verify(bundles, keys[1:] + keys[:1])
        self.assertEqual(caught.exception.code, ErrorCode.AUTH)
        with self.assertRaises(audit.AuditError) as caught:
            audit.Bundle(raw[0][:100])
        self.assertEqual(caught.exception.fault.kind, uvcc.FaultKind.CUT)
        self.assertEqual(code_of(self, audit.verify, bundles[:2], keys), ErrorCode.USAGE)
        self.assertEqual(code_of(self, bundles[0].prove, 10**6), ErrorCode.USAGE)

    def test_policy(self):
        p = relu_program()
        text = f"uvcc policy v1\nprogram {p.hash.hex()}\nopen * {OUT_Y} to all\nsteps * 1\n"
        policy = uvcc.Policy(text)
        policy.check(p)
        self.assertEqual([r.kind.name for r in policy.rules], ["PROGRAM", "OPEN", "STEPS"])
        self.assertEqual(len(policy.hash), 32)
        with self.assertRaises(uvcc.Error) as caught:
            policy.check(sum_program())
        self.assertEqual(caught.exception.code, ErrorCode.REFUSED)
        self.assertNotEqual(caught.exception.detail, "")
        with self.assertRaises(uvcc.Error) as caught:
            uvcc.Policy("uvcc policy v1\nnonsense\n")
        self.assertIn("2", caught.exception.detail)
        t = Triangle(p, configs(policy=policy))
        t.until(EventKind.READY)
        t.relu()
        self.assertEqual(t.sessions[0].policy_used(), [1])
        self.assertEqual(code_of(self, t.sessions[0].step, 1), ErrorCode.REFUSED)

    def test_agree(self):
        made = configs()
        for i, c in enumerate(made):
            c.agree = {"lr": b"0.1", "seed": b"2" if i == 1 else b"3"}
        t = Triangle(relu_program(), made)
        events = t.until(EventKind.MISMATCH)
        self.assertEqual([(e.text, e.id) for e in events], [("job: seed", 1)] * 3)
        self.assertEqual(code_of(self, t.sessions[0].step, 0), ErrorCode.STATE)
        made[0].agree = {str(i): b"" for i in range(17)}
        with self.assertRaises(ValueError):
            Triangle(relu_program(), made)

    def test_record_and_replay(self):
        logs = [[], [], []]
        made = configs()
        for c, pieces in zip(made, logs):
            c.record, c.app = pieces.append, b"hello"
        program = relu_program()
        t = Triangle(program, made)
        t.until(EventKind.READY)
        t.relu()
        t.close()
        log = b"".join(logs[0])
        found = uvcc.replay(log, program, uvcc.Cpu())
        self.assertEqual((found.equal, found.what, found.steps), (True, "", 1))
        self.assertEqual(code_of(self, uvcc.replay, log[:-5], program, uvcc.Cpu()), ErrorCode.FRAME)
        self.assertEqual(code_of(self, uvcc.replay, log, sum_program(), uvcc.Cpu()), ErrorCode.MISMATCH)


class Keys(unittest.TestCase):
    def test_files(self):
        with tempfile.TemporaryDirectory() as where:
            path = Path(where) / "key"
            key = uvcc.new_secret()
            uvcc.write_key(path, uvcc.KeyKind.PAIR, key)
            self.assertEqual(path.stat().st_mode & 0o777, 0o600)
            self.assertEqual(uvcc.read_key(path, uvcc.KeyKind.PAIR), key)
            with self.assertRaises(FileExistsError):
                uvcc.write_key(path, uvcc.KeyKind.PAIR, key)
            for break_it in (lambda: None, lambda: path.chmod(0o640), lambda: path.write_text("x\n")):
                break_it()
                self.assertEqual(code_of(self, uvcc.read_key, path, uvcc.KeyKind.IDENTITY), ErrorCode.USAGE)

    def test_those_of_rfc_8032(self):
        seed = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
        self.assertEqual(uvcc.public_key(seed).hex(),
                         "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a")


class Models(unittest.TestCase):
    def test_mlp(self):
        mlp = uvcc.Mlp(uvcc.MlpConfig(features=4, classes=2, hidden=[3], batch=4, predict_rows=2,
                                      lr_shift=3, frac_bits=13, x_owner=0, y_owner=1))
        self.assertEqual(mlp.program.entries, ["train", "predict", "reveal"])
        self.assertEqual([mlp.shape(i) for i in range(mlp.layers)], [(4, 3), (3, 2)])
        self.assertEqual(sorted(mlp.order(1, 0, 8).tolist()), list(range(8)))
        self.assertEqual(code_of(self, mlp.shape, 2), ErrorCode.USAGE)
        ref = uvcc.Reference(mlp.program)
        for name, values in mlp.initial_state(7):
            ref.set(name, values)
        rng = np.random.default_rng(1)
        ref.set(mlp.program.inputs("train")[0].tensor, uvcc.to_fixed(rng.random((4, 4)), 13))
        ref.set(mlp.program.inputs("train")[1].tensor, uvcc.to_fixed(np.eye(2)[[0, 1, 0, 1]], 13))
        before = ref.get("W0")
        ref.step("train")
        self.assertTrue((ref.get("W0") != before).any())
        self.assertEqual(code_of(self, lambda: uvcc.Mlp(uvcc.MlpConfig(features=4, hidden=[1] * 17))),
                         ErrorCode.USAGE)
        self.assertEqual(code_of(self, lambda: uvcc.Mlp(uvcc.MlpConfig(features=4)).program),
                         ErrorCode.CONFIG)

    def test_transformer(self):
        model = uvcc.Transformer(uvcc.TransformerConfig(context=8, dim=16, heads=2, layers=1, batch=2))
        self.assertEqual(model.heads, 2)
        program = model.program()
        self.assertIn("train", program.entries)
        weights = model.initial(3)
        self.assertEqual(sum(w.rows * w.cols for w in model.weights), model.parameters)
        self.assertEqual(len(model.weights_hash(weights)), 32)
        ref = uvcc.Reference(program)
        for state in model.state(program, weights):
            ref.set(state.tensor, state.values)
        ref.set("rate", model.rate(0))
        text = b"three parties and a text" * 2
        for mb in range(model.microbatches):
            rows = model.rows(mb)
            at = model.sequence(1, 0, 0, len(text))
            one_hot = model.one_hot(text[at:at + 8] * (len(rows) // 8))
            for io in program.inputs("train"):
                ref.set(io.tensor, one_hot)
        ref.step("train")
        self.assertEqual(code_of(self, uvcc.Transformer, uvcc.TransformerConfig(context=7)), ErrorCode.CONFIG)
        with self.assertRaises(AttributeError):
            model.no_such_member

    def ends(self, config):
        """Tokens come in, logits of the last one out; weights are public."""
        config = dataclasses.replace(
            config, padding=0, input=uvcc.ModelInput.ONE_HOT, vocabulary=9,
            positions=uvcc.ModelPositions.ROTARY, head=uvcc.ModelHead.TIED, logits_last=1,
            weights=uvcc.ModelWeightsAre.PUBLIC_WEIGHTS, mask=uvcc.ModelMask.WINDOW, window=2,
            window_period=2, window_layers=2)
        model = uvcc.Model(config)
        self.assertEqual(model.weights[0].name, "E")
        rng = np.random.default_rng(8)
        flat = rng.integers(-2 ** 15, 2 ** 15, model.parameters)
        y = model.reference(flat, np.eye(9, dtype=np.int64)[[1, 8, 0, 3, 3]])
        self.assertEqual(y.shape, (1, 9))
        self.assertTrue(y.any())
        ids = uvcc.Model(dataclasses.replace(config, input=uvcc.ModelInput.TOKENS))
        self.assertEqual(ids.reference(flat, [[1], [8], [0], [3], [3]]).tolist(), y.tolist())
        self.assertEqual(code_of(self, ids.reference, flat, [[1], [9], [0], [3], [3]]),
                         ErrorCode.BOUND)

    def test_constant(self):
        """A quarter of a turn for every second row, then a window of one."""
        p = uvcc.Program()
        x, z, m = (p.tensor(n, (2, 2), bits=9) for n in "XZM")
        t = p.tensor("T", (2, 2), bits=2, lifetime=uvcc.Lifetime.PERSIST,
                     sharing=uvcc.Sharing.PUBLIC)
        p.constant(t, [[1, 0], [0, 1]])
        self.assertEqual(code_of(self, p.constant, t, [[1, 0], [0, 1]]), ErrorCode.USAGE)
        self.assertEqual(code_of(self, p.constant, t, [1]), ErrorCode.USAGE)
        p.entry("turn")
        p.input(1, x, 0)
        p.op(uvcc.Opcode.ROTATE, [x, t], [z])
        p.op(uvcc.Opcode.CAUSAL_MASK, [z], [m], constant=-9, window=1)
        p.output(2, m)
        p.finish()
        ref = uvcc.Reference(p)
        ref.set("X", [[3, 4], [5, 6]])
        ref.step("turn")
        self.assertEqual(ref.get("Z").tolist(), [[3, 4], [-6, 5]])
        self.assertEqual(ref.get("M").tolist(), [[3, -9], [-9, 5]])

    def test_model(self):
        """The twin of a small BERT layer, of a program and of one that a caller builds by layers."""
        config = uvcc.ModelConfig(layers=2, width=12, heads=3, ff_width=20, tokens=5, padding=1,
                                  mode=uvcc.ModelMode.EXACT)
        model = uvcc.Model(config)
        self.assertEqual((model.width, model.biases), (12, 1))
        self.assertEqual(model.weights[0].name, "L0.G1")
        self.assertEqual(sum(w.rows * w.cols for w in model.weights), model.parameters)
        rng = np.random.default_rng(7)
        values = [rng.integers(-2 ** 15, 2 ** 15, (w.rows, w.cols)) for w in model.weights]
        flat = np.concatenate([v.reshape(-1) for v in values])
        x, pad = rng.integers(-2 ** 17, 2 ** 17, (5, 12)), np.array([[0, 0, 0, 0, 1]])
        expected = model.reference(flat, x, pad)
        built = uvcc.Program()
        tensors = model.add_weights(built, "a.")
        built.entry("forward")
        inputs = [built.tensor("X", (5, 12), bits=23, scale=16),
                  built.tensor("PADDING", (1, 5), bits=1)]
        y = inputs[0]
        for layer in range(2):
            y = model.emit(built, tensors, y, inputs[1], layer=layer)
        for program, out in (model.program(0), None), (built, y):
            if out is not None:
                program.input(1, inputs[0], 0)
                program.input(2, inputs[1], 0)
                program.output(3, out)
                program.finish()
            ref = uvcc.Reference(program)
            for w, v in zip(model.weights, values):
                ref.set(("" if out is None else "a.") + w.name, v)
            ref.set("X", x)
            ref.set("PADDING", pad)
            ref.step("forward")
            opened = program.outputs("forward")[0].tensor
            self.assertTrue((ref.get(opened) == expected).all())
        cost = model.cost()
        self.assertTrue(cost.rounds > 0 and cost.key_bytes > cost.online_bytes > 0)
        self.assertEqual(cost.weight_bytes, 16 * model.parameters)
        for wrong in ({"heads": 5}, {"vocabulary": 9}, {"rope_theta": 10000.}):
            self.assertEqual(code_of(self, uvcc.Model, uvcc.ModelConfig(**wrong)), ErrorCode.CONFIG)
        self.ends(config)
        self.assertEqual(code_of(self, model.reference, flat, x), ErrorCode.USAGE)
        self.assertEqual(code_of(self, model.reference, flat, x.T, pad), ErrorCode.USAGE)
        self.assertEqual(code_of(self, model.reference, flat[1:], x, pad), ErrorCode.USAGE)
        self.assertEqual(code_of(self, model.emit, uvcc.Program(), tensors[1:], 0), ErrorCode.USAGE)
        with self.assertRaises(AttributeError):
            model.no_such_member


class Hooks(unittest.TestCase):
    def test_logging(self):
        name = "uvcc.test"
        with self.assertLogs(name, logging.DEBUG) as seen:
            s = uvcc.Session(configs(log=logging.getLogger(name))[0])
            code_of(self, s.step, 0)
            code_of(self, s.start)
        self.assertTrue(seen.records)

    def test_a_logger_that_raises(self):
        heard = []
        old, sys.unraisablehook = sys.unraisablehook, lambda what: heard.append(what.exc_value)
        self.addCleanup(setattr, sys, "unraisablehook", old)

        def log(level, line):
            raise RuntimeError(line)

        t = Triangle(relu_program(), configs(log=log))
        t.until(EventKind.READY)
        t.relu()
        code_of(self, t.sessions[0].step, 9)
        t.close()
        self.assertTrue(all(isinstance(e, RuntimeError) for e in heard))
        self.assertTrue(heard)

    def test_a_recorder_that_raises(self):
        pieces = []

        def record(data):
            pieces.append(data)
            if len(pieces) == 3:
                raise OSError("no space left")

        s = uvcc.Session(configs(record=record)[0])
        with self.assertRaises(OSError):
            for _ in range(9):
                code_of(self, s.start)
        self.assertEqual(len(pieces), 3, "a log with a hole is not gone on with")
        self.assertEqual(code_of(self, s.start), ErrorCode.STATE)

    def test_a_call_out_of_a_hook(self):
        caught = []

        def log(level, line):
            try:
                box[0].stats()
            except uvcc.Error as error:
                caught.append(error.code)

        box = [uvcc.Session(configs(log=log)[0])]
        code_of(self, box[0].start)
        self.assertEqual(set(caught), {ErrorCode.USAGE})

    def test_wake(self):
        woken = threading.Semaphore(0)
        cpu = uvcc.Cpu(uvcc.CpuMode.THREADS, threads=2, wake=woken.release)
        s, job = session_with_a_job()
        cpu.submit(job)
        self.assertTrue(woken.acquire(timeout=60))
        s.complete(cpu.poll())
        self.assertEqual(cpu.pending, 0)


def session_with_a_job():
    """A session that has a job to run, alone: a public value to be set."""
    t = Triangle(sum_program())
    t.until(EventKind.READY)
    s = t.sessions[0]
    s.set_public("A", np.ones((4, 4), np.int64))
    job = s.poll_job()
    assert job is not None
    return s, job


class Ownership(unittest.TestCase):
    def test_jobs(self):
        s, job = session_with_a_job()
        cpu = uvcc.Cpu(uvcc.CpuMode.DEFERRED)
        cpu.submit(job)
        self.assertEqual(code_of(self, cpu.submit, job), ErrorCode.STATE)
        self.assertEqual(code_of(self, s.complete, uvcc.Completion(job.id, job.cookie)), ErrorCode.STATE)
        s.free()
        self.assertTrue(s.freed)
        while cpu.pending:
            cpu.poll()  # the session's memory is there until now
        self.assertEqual(code_of(self, cpu.submit, job), ErrorCode.STATE)
        self.assertEqual(code_of(self, s.stats), ErrorCode.CLOSED)
        s.free()
        s, job = session_with_a_job()
        s.free()
        self.assertEqual(code_of(self, cpu.submit, job), ErrorCode.CLOSED)
        s, job = session_with_a_job()
        s.complete(uvcc.Completion(job.id, job.cookie, ErrorCode.JOB))
        self.assertEqual(code_of(self, cpu.submit, job), ErrorCode.STATE)

    def test_a_program_is_freed_before_its_session(self):
        p = relu_program()
        made = configs()
        t = Triangle(p, made)
        p.free()
        self.assertEqual(code_of(self, lambda: p.hash), ErrorCode.CLOSED)
        del p
        t.until(EventKind.READY)
        t.sessions[0].free()
        gc.collect()

    def test_every_order(self):
        """Objects of steps that are cut short go in every order, by del, by free() and in cycles."""
        rng = random.Random(5)
        for _ in range(60):
            p = relu_program()
            t = Triangle(p, mode=rng.choice([uvcc.CpuMode.THREADS, uvcc.CpuMode.DEFERRED]))
            t.until(EventKind.READY)
            for s in t.sessions:
                s.step(0)
            t.sessions[0].input(0, IN_X, uvcc.to_fixed(X, 16))
            for _ in range(rng.randrange(4)):
                t.turn()
            things = [p, uvcc.Reference(p), *t.sessions, *t.cpus]
            things += [x for s in t.sessions for x in (s.poll_transmit(), s.poll_job()) if x]
            for x in things:
                if hasattr(x, "__dict__"):
                    x.ring = things  # one cycle of all: the collector ends them in its own order
            rng.shuffle(things)
            alive = weakref.ref(t)
            del s, p, t
            for x in things[:rng.randrange(len(things))]:
                if hasattr(x, "free") and rng.random() < 0.5:
                    x.free()
            del x, things
            gc.collect(rng.randrange(3))
            self.assertIsNone(alive())
        gc.collect()

    def test_memory_does_not_grow(self):
        def pages():
            return int(Path("/proc/self/statm").read_text().split()[1])

        def run():
            t = Triangle(relu_program())
            t.until(EventKind.READY)
            t.relu()
            t.close()

        for _ in range(30):
            run()
        gc.collect()
        before = pages()
        for _ in range(150):
            run()
        gc.collect()
        self.assertLess(pages() - before, 2048)  # 8 MiB; 150 sessions of three would be 130 MiB

    def test_threads(self):
        """One session called by many threads at once, and freed under them."""
        for _ in range(5):
            t = Triangle(relu_program(), mode=uvcc.CpuMode.THREADS)
            t.until(EventKind.READY)
            wrong = []
            go = threading.Barrier(5)

            def ask(s=t.sessions[0]):
                go.wait()
                try:
                    for _ in range(300):
                        s.stats()
                        s.digest()
                        s.next_deadline()
                        s.peer_info(1)
                except uvcc.Error as error:
                    if error.code != ErrorCode.CLOSED:
                        wrong.append(error)
                except BaseException as error:
                    wrong.append(error)

            threads = [threading.Thread(target=ask) for _ in range(4)]
            for thread in threads:
                thread.start()
            go.wait()
            t.relu()
            t.sessions[0].free()
            for thread in threads:
                thread.join()
            self.assertEqual(wrong, [])

    def test_parallel_triangles(self):
        """Sessions of one program in several threads."""
        p = relu_program()
        done = []

        def run():
            t = Triangle(p, mode=uvcc.CpuMode.THREADS)
            t.until(EventKind.READY)
            t.relu()
            done.append(uvcc.from_fixed(t.sessions[1].output(0, OUT_Y), 16).tolist())
            t.close()

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(done, [Y] * 4)

    def test_the_interpreter_ends_while_jobs_run(self):
        script = ("import sys; sys.path.insert(0, %r)\n"
                  "import uvcc, test_api\n"
                  "kept = []\n"
                  "for i in range(20):\n"
                  "    s, job = test_api.session_with_a_job()\n"
                  "    cpu = uvcc.Cpu(uvcc.CpuMode.THREADS, threads=4, wake=lambda: sum(range(1000)))\n"
                  "    cpu.submit(job)\n"
                  "    kept.append((s, job, cpu))\n" % str(Path(__file__).parent))
        for _ in range(3):
            ended = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True,
                                   timeout=120, check=False)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))


class Loading(unittest.TestCase):
    def test_another_version_is_refused(self):
        script = "import uvcc._api; uvcc._api.VERSION = '9.9'"
        # The package's own import comes first, so the version is changed under a fresh one.
        script = ("import importlib.util, sys, types, os\n"
                  "spec = importlib.util.find_spec('uvcc')\n"
                  "pkg = types.ModuleType('uvcc'); pkg.__path__ = list(spec.submodule_search_locations)\n"
                  "sys.modules['uvcc'] = pkg\n"
                  "import uvcc._api as api; api.VERSION = '9.9'\n"
                  "import uvcc._load\n")
        ended = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, check=False)
        self.assertIn("this package is of uvcc 9.9", ended.stderr)

    def test_no_library(self):
        ended = subprocess.run([sys.executable, "-B", "-c", "import uvcc"], capture_output=True, text=True,
                               env={**os.environ, "UVCC_LIBRARY": "/nowhere"}, check=False)
        self.assertIn("UVCC_LIBRARY may name it", ended.stderr)

    def test_errors(self):
        self.assertEqual(str(uvcc.Error(ErrorCode.AGAIN)),
                         "AGAIN: not now: try again after the next event")
        self.assertEqual(uvcc.Error(-12345).name, "UNKNOWN")
        aborted = pickle.loads(pickle.dumps(uvcc.Aborted(19, "text", 2)))
        self.assertEqual((aborted.reason, aborted.code), (uvcc.AbortReason.LIMIT, ErrorCode.ABORTED))


if __name__ == "__main__":
    unittest.main()
