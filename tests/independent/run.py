"""A run of three sessions from their three logs: handshake, keys, every sealed frame, every message, and
from these the transcripts that the three parties must have. Written from docs/wire.md, docs/protocols.md
and docs/replay.md alone.
"""

import struct
from collections import defaultdict

import uvlog
import wire
from wire import BLOCK, H, M64, Wrong, le16, le32, le64, need, u8

SENT_LEAF = {"OPEN_BATCH": 0x71, "RESHARE_BATCH": 0x74, "INPUT_BATCH": 0x74, "LIFT_BATCH": 0x77}
CALLS = 64  # calls of an op that are tried when an id is looked up


class Message:
    """A whole message: its payload as it is before sealing."""

    def __init__(self, frame, payload):
        self.src, self.dst, self.step, self.op_id = frame.src, frame.dst, frame.step, frame.op_id
        self.kind, self.name, self.msg_id, self.payload = frame.kind, frame.name, None, payload
        self.tlvs = wire.read_batch(payload) if frame.name in wire.BATCHES else []


class ReadStep:
    """The fields of a STEP."""

    def __init__(self, payload):
        need(len(payload) >= 134, "a STEP's length")
        self.number, self.lineage, self.program, self.optable, self.given = struct.unpack_from("<I32s32s32s32s", payload)
        self.shapes = payload[132:]
        need(len(self.shapes) == 2 + 12 * int.from_bytes(self.shapes[:2], "little"), "a STEP's shapes")
        self.payload = payload


class Hello1:
    def __init__(self, p):
        need(len(p) == 452 and p[0] == 1, "a HELLO 1 of the wrong length, or with a second key agreement")
        (_, self.suites, self.party, self.version, self.sid_job, self.R, self.S, self.T, self.r, self.s, self.t,
         self.program, self.next_run, self.n, self.ephemeral) = struct.unpack_from("<BBBB32s6H32sI32s32s", p)
        need(self.version == 5, "HELLO version %d" % self.version)
        offers = [struct.unpack_from("<I32s", p, 148 + 36 * i) for i in range(4)]
        need(all(lineage == bytes(32) for step, lineage in offers if step == NO_STEP), "an offer that is none")
        self.offers = {o for o in offers if o[0] != NO_STEP}
        self.policy = p[292:324]
        self.parts = p[324:452]
        self.bytes = p


NO_STEP = (1 << 32) - 1
FINISHED, DROPPED, SET, PUBLIC = 0, 1, 2, 3  # what moves a lineage on


class Run:
    def __init__(self, logs):
        """logs: the bytes of the three parties' logs, by party."""
        self.records = [uvlog.read_log(data) for data in logs]
        self.cfg = [uvlog.read_config(r[0].fields[1]) for r in self.records]
        c = self.cfg[0]
        for p in range(3):
            need(self.cfg[p]["party"] == p, "the log of another party")
            for name in ("sid_job", "replicas", "stages", "tp_ranks", "replica", "stage", "tp_rank", "policy_hash"):
                need(self.cfg[p][name] == c[name], "the logs differ in " + name)
            need(self.cfg[p]["exchange_x25519"] == 0 and self.cfg[p]["kem"] == 0, "keys are not provisioned")
        self.R, self.S, self.T = max(1, c["replicas"]), max(1, c["stages"]), max(1, c["tp_ranks"])
        self.place = (c["replica"], c["stage"], c["tp_rank"])
        self.sid_job, self.policy = c["sid_job"], c["policy_hash"]
        self.sub = wire.sid_sub(self.sid_job, *self.place)
        self.signers = [wire.public_key(x["sign_seed"]) for x in self.cfg]
        self.frames = [uvlog.frames_of(r) for r in self.records]
        self.opened = 0
        self.read_handshake()
        self.open_frames()
        self.assemble()
        self.votes()

    # ---- the handshake and its keys ----

    def read_handshake(self):
        hello1, hello2 = {}, {}
        for p in range(3):
            for peer, f in self.frames[p]:
                need(f.tag == wire.sid_tag(self.sub), "a frame of another sid_tag")
                need((f.src, f.dst) == (peer, p), "a frame's route is not that of its link")
                if f.name != "HELLO" or f.sealed:
                    continue
                f.check_header()
                need(f.payload_len == f.msg_len and f.offset == 0, "a HELLO in pieces")
                if f.payload[0] == 1:
                    hello1.setdefault(f.src, f.payload)
                    need(hello1[f.src] == f.payload, "two HELLO 1 of one party")
                else:
                    hello2.setdefault((f.src, f.dst), f.payload)
        need(len(hello1) == 3 and len(hello2) == 6, "HELLOs are missing")
        h = {p: Hello1(hello1[p]) for p in range(3)}
        for p in range(3):
            need(h[p].party == p and h[p].sid_job == self.sid_job, "a HELLO 1 of another party or job")
            need((h[p].R, h[p].S, h[p].T, h[p].r, h[p].s, h[p].t) == (self.R, self.S, self.T) + self.place, "topology")
            need(h[p].program == h[0].program, "H(program)")
            need(h[p].ephemeral == bytes(32), "an ephemeral key with provisioned secrets")
            loads = [r.fields[0] for r in self.records[p] if r.name == "LOAD_PROGRAM"]
            if self.cfg[p]["triples_only"]:
                loads = [H(b"UVCC_TRIPLES_V1", x, le32(self.cfg[p]["triples_run"])) for x in loads]
            need(loads and loads[-1] == h[p].program, "HELLO's H(program) is not that of the log")
        need(all(h[p].parts == self.cfg[p]["agree_part"] for p in range(3)), "HELLO 1: the parts of the job")
        need(all(h[p].parts == h[0].parts for p in range(3)), "HELLO 1: the parts of the job differ")
        need(all(h[p].policy == self.policy for p in range(3)), "HELLO 1: H(policy)")
        self.program = h[0].program
        self.run = max(x.next_run for x in h.values())
        common = h[0].offers & h[1].offers & h[2].offers
        need(common, "no common offer")
        self.first, self.offered = max(common)
        self.nonce = H(b"UVCC_RUN_V1", h[0].n, h[1].n, h[2].n)
        common = h[0].suites & h[1].suites & h[2].suites
        need(common != 0, "no common suite")
        self.suite = common.bit_length()
        self.hello1, self.hello2, self.pairs = hello1, hello2, {}
        for a, b in ((0, 1), (0, 2), (1, 2)):
            secret = self.secret(a, b)
            need(secret == self.secret(b, a), "the two parties' secrets of a pair differ")
            k = wire.session_key(h[a].n, h[b].n, secret, self.sid_job, self.run, a, b)
            self.pairs[a, b] = self.pairs[b, a] = wire.Pair(k, self.sub, self.run, self.first)
            proof = wire.proof_key(secret, self.sid_job, a, b)
            for src, dst in ((a, b), (b, a)):
                p = hello2[src, dst]
                need(len(p) == 108, "a HELLO 2's length")
                head = (u8(2) + u8(self.suite) + le16(0) + le32(self.run) + le32(self.first)
                        + H(hello1[a], hello1[b]))
                need(p[:44] == head, "a HELLO 2's fields")
                told = (b"UVCC_HELLO_V2" + hello1[a] + hello1[b] + u8(self.suite) + le32(self.run)
                        + le32(self.first) + bytes(64) + u8(src))
                need(p[44:] == wire.mac(proof, told) + bytes(32), "the proof of HELLO 2 %d -> %d" % (src, dst))
        # K_own: docs say 32 bytes of the random hook; they are the first that a session asks for.
        self.own = []
        for p in range(3):
            first = next(r for r in self.records[p] if r.name == "RANDOM")
            need(first.fields[0] == 32 and first.fields[1] == 0, "the first random bytes are not 32")
            self.own.append(wire.Pair(first.fields[2], self.sub, self.run, self.first))
            nonce = [r.fields[2] for r in self.records[p] if r.name == "RANDOM" and r.fields[0] == 32]
            need(h[p].n in nonce, "HELLO's N is not of the random hook")

    def lineage(self, before, what, step, optable):
        return H(b"UVCC_LINEAGE_V1", before, u8(what), le32(self.run), le32(step), self.nonce, optable)

    def check_lineages(self, steps):
        """STEP m has the lineage before step m - 1, or that of the run's first step; where public values were set since
        step m - 1, that before m. steps: ReadSteps by number."""
        public = [self.public_values(p) for p in range(3)]
        need(public[0] == public[1] == public[2], "the logs differ in public values")
        now = self.offered
        if now == bytes(32):
            now = self.lineage(self.sub, SET, self.first, bytes(32))
        last = now
        for number in sorted(steps):
            if number in public[0]:
                last = now = self.lineage(now, PUBLIC, number, public[0][number])
            need(steps[number].lineage == last, "the lineage of STEP %d" % number)
            last, what = now, DROPPED if number in self.dropped else FINISHED
            now = self.lineage(now, what, number, steps[number].optable)

    def public_values(self, p):
        """Hashes of what a host set before it agreed to a step, by step."""
        out, values, call = {}, {}, None
        for r in self.records[p]:
            if r.name in ("SET_PUBLIC", "STEP"):
                call = r
            if r.name != "RESULT" or call is None:
                continue
            if r.fields[0] == 0 and call.name == "SET_PUBLIC":
                values[call.fields[0]] = call.fields[1]
            elif r.fields[0] == 0 and values:
                told = [H(b"UVCC_PUBLIC_V1", le32(i), wire.tree(values[i])) for i in sorted(values)]
                out[call.fields[1]], values = H(*told), {}
            call = None
        return out

    def secret(self, a, b):
        return self.cfg[a]["pair_secret"][32 * b:32 * b + 32]

    def channels(self, p, peer):
        """What HELLO 3 may say: of the bindings with which p opened its streams to this peer."""
        bound = [r.fields[2] for r in self.records[p] if r.name == "PEER_OPEN_BOUND" and r.fields[1] == peer]
        plain = any(r.name == "PEER_OPEN" and r.fields[1] == peer for r in self.records[p])
        return [H(b"UVCC_CHANNEL_V1", x) for x in bound] + [bytes(32)] * (plain or not bound)

    # ---- frames and messages ----

    def open_frames(self):
        acks = defaultdict(int)
        for p in range(3):
            for _, f in self.frames[p]:
                f.check_header()
                if not f.sealed:
                    need(f.name == "HELLO", "an unsealed " + f.name)
                    continue
                f.unseal(self.pairs[f.src, f.dst], self.suite)
                self.opened += 1
                if f.name == "HELLO":
                    a, b = sorted((f.src, f.dst))
                    need(f.payload[:33] == u8(3) + H(self.hello2[a, b], self.hello2[b, a]), "a HELLO 3")
                    need(f.payload[33:] in self.channels(f.dst, f.src), "a HELLO 3's channel")
                elif f.name == "ACK":
                    counter, cumulative = struct.unpack_from("<QQ", f.payload)
                    need(len(f.payload) == 46 + 16 * struct.unpack_from("<H", f.payload, 44)[0], "an ACK's length")
                    need(counter > acks[f.src, f.dst] and cumulative >> 40 == self.run, "an ACK's counter or run")
                    acks[f.src, f.dst] = counter
                elif f.name != "PING":
                    need(f.seq >> 40 == self.run, "a frame of another run")

    def votes(self):
        """Steps that all three dropped: the votes of CANCEL."""
        said = defaultdict(set)
        for m in self.control:
            if m.name == "CANCEL":
                need(len(m.payload) == 5 and 1 <= m.payload[0] <= 3, "a CANCEL")
                said[int.from_bytes(m.payload[1:], "little")].add((m.src, m.dst, m.payload[0]))
        every = {(a, b, 3) for a in range(3) for b in range(3) if a != b}
        self.dropped = {step for step, votes in said.items() if every <= votes}

    def assemble(self):
        """Messages of all links, each frame's ids checked; exactly once by seq."""
        self.messages, self.control = defaultdict(list), []
        parts, seen = {}, {}
        for p in range(3):
            for _, f in self.frames[p]:
                if f.control:
                    continue
                once = (f.src, f.dst, f.seq)
                if once in seen:
                    need(seen[once] == (f.head[:52], f.payload), "a retransmission with other bytes")
                    continue
                seen[once] = (f.head[:52], f.payload)
                want = wire.msg_id(self.sub, f.kind, f.op_id, f.src, f.dst, f.chunk, f.chunks)
                need(f.msg_id == want, "the msg_id of a %s, step %d, op %08x" % (f.name, f.step, f.op_id))
                if f.op_id == 0:
                    need(len(f.payload) == f.msg_len, "a %s in pieces" % f.name)
                    self.control.append(Message(f, f.payload))
                    continue
                parts.setdefault((f.step, f.op_id, f.kind, f.src, f.dst), []).append(f)
        for (step, op, _, src, dst), frames in sorted(parts.items(), key=lambda kv: kv[0]):
            frames.sort(key=lambda f: f.offset)
            at = 0
            for f in frames:
                need(f.offset == at and f.msg_len == frames[0].msg_len, "pieces that leave a gap or overlap")
                at += len(f.payload)
            need(at == frames[0].msg_len, "a message that is not whole")
            m = Message(frames[0], b"".join(f.payload for f in frames))
            m.msg_id = wire.msg_id(self.sub, m.kind, op, src, dst, 0, frames[0].chunks)
            self.messages[step].append(m)


class Op:
    """An op, or a segment of one: the row of its first batch in the op table, and those that follow."""

    def __init__(self, row, ordinal, phase, mb, k, b, op_id):
        self.row, self.ordinal, self.phase, self.mb, self.k, self.b, self.id = row, ordinal, phase, mb, k, b, op_id


class Step:
    """One step of a run: the leaves of the three parties, made of messages, keys and the op table's rows.

    made counts leaves that are recomputed as a whole, taken those of which only the name is: what was opened
    hangs on components that no message has."""

    def __init__(self, run, number, rows):
        self.run, self.number, self.rows = run, number, rows
        self.messages = run.messages.get(number, [])
        self.row_of, self.op_of = {}, {}
        self.ops = []
        self.check_table()
        self.sealed_values = {}
        self.made, self.taken = 0, []
        self.edges = {}

    def given(self):
        """What STEP says of triples that hosts gave: of none."""
        return bytes(32)

    def batches(self, phase, mb, k):
        """Batches of a segment of an op that is cut; None of one that is not."""
        return None

    def check_table(self):
        """Op ids are derived with the least attempts that give none twice; rows as STEP says."""
        run, used = self.run, set()
        op = None
        need([r[:4] for r in self.rows] == sorted(r[:4] for r in self.rows), "the op table is out of order")
        for i, (phase, mb, k, b, attempt, op_id) in enumerate(self.rows):
            per = self.batches(phase, mb, k)
            first = b == 0 or per is not None and b % per == 0
            for a in range(attempt + 1):
                want = wire.op_id(run.sub, self.number, phase, mb, k, b, a)
                if a < attempt:
                    # A refused attempt is 0, taken, or has colliding blocks; the last needs the op's vectors.
                    need(want == 0 or want in used or first, "an attempt that nothing refuses")
            need(want == op_id and want != 0 and want not in used, "row %d of the op table" % i)
            used.add(want)
            if first:
                op = Op(i, len(self.ops), phase, mb, k, b, op_id)
                self.ops.append(op)
            need(op is not None and (op.phase, op.mb, op.k) == (phase, mb, k), "a row without its b = 0")
            need(b == op.b + i - op.row, "a row that leaves out a batch")
            self.row_of[op_id], self.op_of[op_id] = i, op

    # ---- leaves ----

    def leaf(self, kind, body):
        return u8(kind) + self.run.sub + body

    def digest(self, a, b, data):
        return wire.mac(self.run.pairs[a, b].leaf_salt(self.number), wire.tree(data))

    def transcripts(self, begin_shapes, known):
        """Per party {leaf bytes: how}, how "made" or "taken". known: the leaves of the bundles, by party, of which
        digests are taken where the logs do not have them."""
        self.known = known
        self.out = [dict() for _ in range(3)]
        run = self.run
        begin = (le32(self.number) + le32(run.run) + le16(run.R) + le16(run.S) + le16(run.T) + run.program
                 + H(begin_shapes) + wire.optable_hash(self.rows))
        self.add((0, 1, 2), 0x70, begin)
        if self.number in run.dropped:
            self.add((0, 1, 2), 0x7F, le32(self.number))
            return self.out
        for m in self.messages:
            self.message_leaves(m)
        self.key_leaves()
        self.lift_leaves()
        self.open_leaves()
        self.triple_leaves()
        self.sks_leaves()
        return self.out

    def add(self, parties, kind, body, how="made"):
        for p in parties:
            leaf = self.leaf(kind, body)
            need(leaf not in self.out[p], "a leaf twice")
            self.out[p][leaf] = how

    def message_leaves(self, m):
        need(m.op_id in self.op_of, "a message of no op of its step")
        if m.name not in SENT_LEAF:
            return
        body = (le32(m.op_id) + u8(m.src) + u8(m.dst) + le32(m.msg_id) + self.digest(m.src, m.dst, m.payload))
        self.add((m.src,), SENT_LEAF[m.name], body)
        self.add((m.dst,), SENT_LEAF[m.name] + 1, body)

    def key_leaves(self):
        streams = defaultdict(lambda: defaultdict(list))
        for m in self.messages:
            for t in m.tlvs:
                if t.type == 0x31:
                    streams[self.op_of[m.op_id], m.src, m.dst][t.id].append(t)
        for (op, src, dst), by_id in streams.items():
            whole = b""
            for fss in sorted(by_id):
                chunks = sorted(by_id[fss], key=lambda t: t.offset)
                at = 0
                for t in chunks:
                    need(t.offset == at and (len(t.bytes) == 32768 or t is chunks[-1]), "key chunks with a gap")
                    at += len(t.bytes)
                whole += b"".join(t.bytes for t in chunks)
                call, block = self.find_fss(op, fss)
                need((src, (src + 1) % 3)[0] == (self.edge(op, block) + 2) % 3, "keys of a party that is not OTHER")
            self.add((src, dst), 0x76, le32(op.id) + u8(src) + u8(dst) + self.digest(src, dst, whole))

    def edge(self, op, block):
        return self.edges.get((op.id, block), wire.edge_of(self.run.sub, self.number, op.id, block))

    def find_fss(self, op, fss):
        for block in range(self.blocks(op)):
            for call in range(CALLS):
                if wire.fss_id(self.run.sub, self.number, op.id, call, block) == fss:
                    return call, block
        raise Wrong("fss id %016x is of no call and block of op %08x" % (fss, op.id))

    def blocks(self, op):
        """More blocks than any vector of the op can have: TLVs of its messages count them."""
        if not hasattr(op, "blocks"):
            op.blocks = 1 + max([sum(t.type in (1, 2, 3, 0x11, 0x31) for t in m.tlvs)
                                 for m in self.messages if self.op_of[m.op_id] is op] + [1])
        return op.blocks

    # ---- lifts: both components of each lifted block ----

    def lift_leaves(self):
        lifts = defaultdict(dict)
        for m in self.messages:
            for t in m.tlvs:
                if t.type in (1, 2, 3):
                    role = (t.type, m.src)
                    need(role not in lifts[self.op_of[m.op_id], t.id], "a lift twice")
                    lifts[self.op_of[m.op_id], t.id][role] = (m, t)
        for (op, fss), got in lifts.items():
            call, block = self.find_fss(op, fss)
            e = self.edge(op, block)
            comps = self.lift(op, call, block, e, got)
            n = len(comps[0])
            self.add((0, 1, 2), 0x7C, le32(op.id) + le64(fss) + le32(n))
            for c in range(3):
                # Component c is held by party c (its lo) and party c - 1 (its hi).
                pair = self.run.pairs[c, (c + 2) % 3]
                key = wire.pack_words(pair.F("salt", 0, self.number, op.ordinal, call, block, 4))
                body = le32(op.id) + le64(fss) + u8(c) + wire.mac(key, b"COMMIT", wire.tree(wire.pack_words(comps[c])))
                self.add((c, (c + 2) % 3), 0x7B, body)

    def lift(self, op, call, block, e, got):
        head, tail, other = e, (e + 1) % 3, (e + 2) % 3
        ho, ht, to = self.run.pairs[head, other], self.run.pairs[head, tail], self.run.pairs[tail, other]

        def f(pair, lane, n):
            return pair.F("lift", lane, self.number, op.ordinal, call, block, n)

        if (3, head) in got:
            (m1, t1), (m2, t2) = got[3, head], got[3, tail]
            need(m1.dst == tail and m2.dst == head and t1.where == t2.where == e, "an exchange lift's roles")
            n = t1.count
            h, t = wire.words(t1.words), wire.words(t2.words)
            pads = f(ho, 2, n), f(to, 2, n)
            a, c = [-x & M64 for x in pads[0]], [-x & M64 for x in pads[1]]
            b = [x + y & M64 for x, y in zip(h, t)]
        else:
            (m1, t1), (m2, t2) = got[1, head], got[2, tail]
            need(m1.dst == tail and m2.dst == other, "a lift's roles")
            need(t1.where == e and t2.where == other and t1.count == t2.count, "a lift's edge, component or count")
            n, a, pad = t1.count, None, None
            a, pad, c = f(ho, 0, n), f(ht, 1, n), wire.words(t2.words)
            b = [x + y & M64 for x, y in zip(wire.words(t1.words), pad)]
            if self.sequential(op):
                b = pad
        comps = {head: a, tail: b, other: c}
        self.sealed_values[op.id, call, block] = comps
        return comps

    def sequential(self, op):
        return False

    # ---- openings ----

    def stream_names(self, op):
        names = {}
        for name in wire.NAMES:
            for call in range(CALLS):
                tiles = self.blocks(op) if name in ("TRUNC", "MASK", "SCALAR", "BIT") else 1
                for tile in range(tiles):
                    names[wire.stream_id(self.run.sub, self.number, op.id, name, call, tile)] = (name, call, tile)
        return names

    def open_leaves(self):
        streams, names = defaultdict(dict), {}
        for m in self.messages:
            op = self.op_of[m.op_id]
            for t in m.tlvs:
                if t.type in (0x11, 0x41, 0x51):
                    if op.id not in names:
                        names[op.id] = self.stream_names(op)
                    need(t.id in names[op.id], "a stream id of no name, call and tile")
                    t.named = names[op.id][t.id]
                if t.type == 0x11:
                    streams[op, t.id].setdefault((m.src, m.dst), []).append(t)
        self.digests_check()
        for (op, sid), got in streams.items():
            vecs = {}
            for way, ts in got.items():
                ts.sort(key=lambda t: t.first)
                at = 0
                for t in ts:
                    need(t.first == at, "an opened vector with a gap")
                    at += t.count
                vecs[way] = [v for t in ts for v in t.elements()]
            t = next(iter(got.values()))[0]
            name, call, tile = t.named
            if name in ("COIN", "SKS_Z", "INPUT"):
                continue
            if t.target == 0xFF:
                self.opened_to_all(op, sid, t, name, vecs)
            elif t.target < 3:
                self.opened_to_edge(op, sid, t, name, call, tile, vecs)
            else:
                self.opened_to_one(op, sid, t, name, vecs)

    def opened_to_all(self, op, sid, t, name, vecs):
        """Each party sends its first component to the next: the three messages are the three components."""
        need(sorted(vecs) == [(0, 1), (1, 2), (2, 0)], "an opening to all that is not each to the next")
        comps = [vecs[p, (p + 1) % 3] for p in range(3)]
        value = [sum(x) & M64 for x in zip(*comps)]
        self.sealed_values[op.id, sid] = comps
        data = wire.pack_bits(value, t.bits)
        if name == "OUT":
            need(t.bits == 64 and t.round == 0, "an output's bits and round")
        self.add((0, 1, 2), 0x73, le32(op.id) + le64(sid) + le16(t.round) + H(wire.tree(data)))
        # The one who holds component p + 1 as well sends a digest of it to the one before.
        for p in range(3):
            want = H(b"UVCC_CHECK_V2", le64(sid), u8(p), wire.tree(wire.pack_words(comps[(p + 1) % 3])))
            need(self.digest_tlv(op, sid, p, (p + 2) % 3, 0) == want, "the digest of an opening to all")

    def opened_to_one(self, op, sid, t, name, vecs):
        """The next party sends the receiver the component that it lacks, the one before it a digest of the same."""
        to = t.target - 0x10
        sender, other = (to + 1) % 3, (to + 2) % 3
        need(name == "OUT" and sorted(vecs) == [(sender, to)] and t.bits == 64, "an opening to one party")
        missing = vecs[sender, to]
        want = H(b"UVCC_CHECK_V2", le64(sid), u8(other), wire.tree(wire.pack_words(missing)))
        need(self.digest_tlv(op, sid, other, to, 0) == want, "the digest of an opening to one party")
        body = le32(op.id) + le64(sid) + le16(t.round)
        rest = self.opened_components(op, to)
        if rest is None:
            said = {x[-32:] for x in self.known[to] if x[33:].startswith(body) and x[0] == 0x73}
            need(len(said) == 1, "no OPEN_DONE at the receiver")
            self.add((to,), 0x73, body + said.pop(), "taken")
            self.taken.append((self.number, op.ordinal, name))
            return
        value = [sum(x) & M64 for x in zip(missing, *rest)]
        salts = [self.run.pairs[to, p].leaf_salt(self.number) for p in (sender, other)]
        key = H(b"UVCC_OPEN_TO_ONE_V1", *salts)
        self.add((to,), 0x73, body + wire.mac(key, wire.tree(wire.pack_words(value))))

    def opened_components(self, op, to):
        """The receiver's own two components of what is opened to it, if they are known."""
        return None

    def opened_to_edge(self, op, sid, t, name, call, tile, vecs):
        e = self.edge(op, tile)
        need(t.target == e, "an opening to another edge than its block's")
        head, tail, other = e, (e + 1) % 3, (e + 2) % 3
        body = le32(op.id) + le64(sid) + le16(t.round)
        value = None
        if name == "BIT":
            value = [x ^ y for x, y in zip(vecs[head, tail], vecs[tail, head])]
        elif (other, head) in vecs:
            need(vecs[other, head] == vecs[other, tail], "OTHER sent two things to HEAD and TAIL")
            value = [sum(x) & M64 for x in zip(vecs[head, tail], vecs[tail, head], vecs[other, head])]
        else:
            b = self.component(op, call, tile, tail)
            if b is not None:
                value = [sum(x) & M64 for x in zip(vecs[head, tail], vecs[tail, head], b)]
        if value is None:
            # HEAD and TAIL add component e + 1, which no message has: the digest is what they say, if they agree.
            said = [{x[-32:] for x in self.known[p] if x[33:].startswith(body) and x[0] == 0x73} for p in (head, tail)]
            need(len(said[0]) == 1 and said[0] == said[1], "HEAD and TAIL have different OPEN_DONE")
            self.add((head, tail), 0x73, body + said[0].pop(), "taken")
            self.taken.append((self.number, op.ordinal, name))
            return
        if name == "TRUNC":
            value = [v + (1 << 62) & M64 for v in value]
        self.add((head, tail), 0x73, body + self.digest(head, tail, wire.pack_bits(value, t.bits)))

    def component(self, op, call, block, c):
        """Component c of what op opens by OPEN2, if it is known where it comes from."""
        return None

    def digest_tlv(self, op, sid, src, dst, what):
        found = [t.digest for m in self.messages for t in m.tlvs
                 if self.op_of[m.op_id] is op and (m.src, m.dst) == (src, dst) and t.type == 0x51
                 and t.id == sid and t.what == what]
        need(len(found) == 1, "%d digests where one is due" % len(found))
        return found[0]

    def digests_check(self):
        pass

    def triple_leaves(self):
        """A product on triples is known by what it opens, or else by its leaves: one of each tile, from 0 on."""
        for op in self.ops:
            due = any(t.type == 0x11 and t.named[0] in ("GEMM_E", "GEMM_F")
                      for m in self.messages if self.op_of[m.op_id] is op for t in m.tlvs)
            for tile in range(64):
                body = le32(op.id) + le64(wire.triple_id(self.run.sub, self.number, op.id, tile))
                leaf = self.leaf(0x7E, body)
                if not due and not any(leaf in self.known[p] for p in range(3)):
                    break
                self.add((0, 1, 2), 0x7E, body)
                due = False

    def sks_leaves(self):
        pass
