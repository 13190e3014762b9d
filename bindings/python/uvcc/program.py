"""Programs: tensors, ops, inputs and outputs; their plaintext twin."""
from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _api
from ._api import (ErrorCode, FnKind, IoDesc, Lifetime, Nonlinear, NonlinearInfo, OpCost, OpFlag,
                   Opcode, Phase, Sharing, Truncation)
from ._convert import array_of, at, take, words
from ._load import NULL, ffi, lib
from ._native import Native, Owned
from .errors import Error, check, usage

MESSAGE_BYTES = 512


@dataclass(frozen=True)
class Tensor:
    """A tensor of a program."""

    index: int
    name: str
    shape: tuple[int, int]
    bits: int
    scale: int
    lifetime: Lifetime
    share_shape: tuple[int, int]  # of a component: shape, or of a one-hot tensor its keys in a row


@dataclass(frozen=True)
class Op:
    """An op of an entry, as it stands in program order."""

    name: str
    opcode: Opcode
    phase: Phase
    k: int
    mb: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    shift: int
    flags: OpFlag
    truncation: Truncation
    constant: int


@dataclass
class FnInstr:
    """An instruction of a nonlinear function; fields that its kind does not use are ignored."""

    kind: FnKind
    a: int = _api.FN_NONE
    b: int = _api.FN_NONE
    c: int = _api.FN_NONE
    bits: int = 0
    shift: int = 0
    io: int = _api.FN_NONE
    first: int = 0
    constant: int = 0
    entries: Sequence[int] = ()
    words: Sequence[int] = ()


@dataclass
class NonlinearOptions:
    """Options of a function; 0 means the default. What a function does not use is ignored."""

    scale: int = 0
    in_bits: int = 0
    index_bits: int = 0
    exact: bool = False
    dcf: bool = False
    derivative: bool = False
    causal: bool = False
    shallow: bool = False
    out_scale: int = 0
    cols: int = 0
    saved: bool = False
    headroom: bool = False
    plain: bool = False
    loss: bool = False
    gain: float = 0.0
    epsilon: float = 0.0
    raise_: int = 0
    limit: float = 0.0

    def _struct(self) -> Any:
        out = ffi.new("uvcc_nonlinear_options *")
        out.size = ffi.sizeof("uvcc_nonlinear_options")
        for name, value in vars(self).items():
            setattr(out, name.rstrip("_"), value)
        return out


TensorLike: TypeAlias = Tensor | int | str


def allocator() -> Any:
    """The C host's malloc and free, with locked memory for secrets: uvcc_host_allocator()."""
    return lib.uvcc_host_allocator()


class Program(Owned):
    """A program: built by the same calls at every party, finished, then loaded into sessions.

        p = Program()
        x = p.tensor("X", (2, 3), bits=20, scale=16)
        ...
        p.entry("run")
        p.input(1, x, owner=0)
        p.gemm(x, w, z, shift=16)
        p.output(2, z)
        p.finish()
    """

    def __init__(self) -> None:
        out = ffi.new("uvcc_program **")
        al = ffi.new("uvcc_allocator *", allocator())
        check(lib.uvcc_program_new(out, al))
        self._adopt(out[0])

    def _adopt(self, ptr: Any) -> None:
        super().__init__(Native(ptr, lib.uvcc_program_free))
        self._next_k: dict[tuple[int, int], int] = {}
        self._finished = False

    @classmethod
    def _of(cls, ptr: Any) -> Program:
        """A finished program that a model made."""
        self = cls.__new__(cls)
        self._adopt(ptr)
        self._finished = True
        return self

    # ---- building ----

    def tensor(self, name: str, shape: tuple[int, int], *, bits: int, scale: int = 0,
               lifetime: Lifetime = Lifetime.TRANSIENT, in_buffer_of: TensorLike | None = None,
               sharing: Sharing = Sharing.REPLICATED) -> Tensor:
        """A tensor of rows x cols elements with |value| < 2^bits at `scale` fraction bits."""
        text = ffi.new("char[]", name.encode())
        desc = ffi.new("uvcc_tensor_desc *", {
            "name": text, "rows": shape[0], "cols": shape[1], "bits": bits, "scale": scale,
            "lifetime": int(lifetime), "sharing": int(sharing),
            "in_buffer_of": _api.NO_TENSOR if in_buffer_of is None else self._index(in_buffer_of)})
        index = check(self._call(lib.uvcc_program_tensor, desc), f"tensor {name}")
        return self.tensor_at(index)

    def constant(self, tensor: TensorLike, values: ArrayLike) -> None:
        """The values of a PUBLIC tensor, as part of the program."""
        index = self._index(tensor)
        found = self.tensor_at(index)
        given = words(values, found.shape, found.name)
        check(self._call(lib.uvcc_program_constant, index, at(given, "int64_t *")),
              f"constant {found.name}")

    def entry(self, name: str) -> int:
        """Begins an entry: what one step runs. What follows belongs to it."""
        self._next_k = {}
        return check(self._call(lib.uvcc_program_entry, ffi.new("char[]", name.encode())),
                     f"entry {name}")

    def input(self, id: int, tensor: TensorLike, owner: int, mb: int | None = None) -> int:
        """Party `owner` gives the tensor in each step, under the public id."""
        index = self._index(tensor)
        if mb is None:
            return check(self._call(lib.uvcc_program_input, id, index, owner))
        return check(self._call(lib.uvcc_program_input_mb, id, index, owner, mb))

    def output(self, id: int, tensor: TensorLike, to: int | None = None) -> int:
        """The tensor opens at the end of the step: to all, or to one party only."""
        index = self._index(tensor)
        if to is None:
            return check(self._call(lib.uvcc_program_output, id, index))
        return check(self._call(lib.uvcc_program_output_to, id, index, to))

    def op(self, opcode: Opcode, inputs: Iterable[TensorLike], outputs: Iterable[TensorLike], *,
           name: str | None = None, phase: Phase = Phase.FWD, k: int | None = None, mb: int = 0,
           flags: OpFlag = OpFlag(0), shift: int = 0, truncation: Truncation = Truncation.EXACT,
           lift: int = 0, function: int = 0, constant: int = 0, group: int = 0, heads: int = 0,
           row_groups: int = 0, tile_rows: int = 0, window: int = 0) -> int:
        """An op. k: its place in the entry, phase and microbatch; without one, the next.
        tile_rows: of a product on triples (OpFlag.BEAVER), rows of its result in a tile; 0: by the rule.
        window: of CAUSAL_MASK, how many elements of a row are kept; 0: all up to the diagonal."""
        ins = [self._index(t) for t in inputs]
        outs = [self._index(t) for t in outputs]
        if len(ins) > _api.OP_MAX_IN or len(outs) > _api.OP_MAX_OUT:
            raise usage(f"an op has at most {_api.OP_MAX_IN} inputs and {_api.OP_MAX_OUT} outputs")
        place = (int(phase), mb)
        if k is None:
            k = self._next_k.get(place, 0)
        text = NULL if name is None else ffi.new("char[]", name.encode())
        desc = ffi.new("uvcc_op_desc *", {
            "name": text, "opcode": int(opcode), "phase": int(phase), "k": k,
            "in_count": len(ins), "out_count": len(outs), "in": ins, "out": outs,
            "flags": int(flags), "shift": shift, "truncation": int(truncation), "lift": lift,
            "function": function, "constant": constant, "mb": mb, "group": group, "heads": heads,
            "row_groups": row_groups, "tile_rows": tile_rows, "window": window})
        index = check(self._call(lib.uvcc_program_op, desc), f"op {name or opcode!r}")
        self._next_k[place] = k + 1
        return index

    def gemm(self, a: TensorLike, b: TensorLike, out: TensorLike, *, shift: int = 0,
             **more: Any) -> int:
        """out = a b, truncated by `shift` bits."""
        return self.op(Opcode.GEMM_SS, [a, b], [out], shift=shift, **more)

    def relu(self, x: TensorLike, out: TensorLike, derivative: TensorLike, **more: Any) -> int:
        """out = x where x >= 0, else 0; derivative (1 bit, scale 0) says where."""
        return self.op(Opcode.RELU, [x], [out, derivative], **more)

    def add(self, x: TensorLike, y: TensorLike, out: TensorLike, **more: Any) -> int:
        """out = x + y."""
        return self.op(Opcode.ADD, [x, y], [out], **more)

    def sub(self, x: TensorLike, y: TensorLike, out: TensorLike, **more: Any) -> int:
        """out = x - y."""
        return self.op(Opcode.SUB, [x, y], [out], **more)

    def mul(self, x: TensorLike, y: TensorLike, out: TensorLike, *, shift: int = 0,
            **more: Any) -> int:
        """out = x y, element by element, truncated by `shift` bits."""
        return self.op(Opcode.ELEM_MUL, [x, y], [out], shift=shift, **more)

    def function(self, name: str, instrs: Sequence[FnInstr], inputs: int, outputs: int) -> int:
        """Registers a function for ops of opcode FUNCTION; its index."""
        array = ffi.new("uvcc_fn_instr[]", max(1, len(instrs)))
        kept: list[Any] = []
        for at_, instr in zip(array, instrs):
            entries = ffi.new("int32_t[]", list(instr.entries))
            words_ = ffi.new("int64_t[]", list(instr.words))
            kept += [entries, words_]
            for member in ("kind", "a", "b", "c", "bits", "shift", "io", "first", "constant"):
                setattr(at_, member, int(getattr(instr, member)))
            at_.entry_count, at_.word_count = len(instr.entries), len(instr.words)
            at_.entries = entries if instr.entries else NULL
            at_.words = words_ if instr.words else NULL
        text = ffi.new("char[]", name.encode())
        if not 0 < len(instrs) <= 255:
            raise usage("a function has 1 to 192 instructions")
        f = ffi.new("uvcc_function *", {"name": text, "inputs": inputs, "outputs": outputs,
                                        "instr_count": len(instrs), "instrs": array})
        return check(self._call(lib.uvcc_program_function, f), f"function {name}")

    def nonlinear(self, what: Nonlinear, inputs: Sequence[TensorLike],
                  outputs: Sequence[TensorLike], options: NonlinearOptions | None = None, *,
                  phase: Phase = Phase.FWD, mb: int = 0, prefix: str | None = None) -> None:
        """Emits a function of <uvcc/nonlinear.h> into the open entry. After an error the program is
        of no further use."""
        ins, outs = [self._index(t) for t in inputs], [self._index(t) for t in outputs]
        info = nonlinear_info(what)
        if len(ins) < 1 or len(outs) < 1 or len(ins) > info.inputs:
            raise usage(f"{info.name} has {info.inputs} inputs and {info.outputs} outputs or more")
        # The library reads as many as the options ask for: never beyond what is given.
        ins_array = ffi.new("uint32_t[]", ins + [_api.NO_TENSOR] * 8)
        outs_array = ffi.new("uint32_t[]", outs + [_api.NO_TENSOR] * 8)
        place = (int(phase), mb)
        text = ffi.new("char[]", (prefix or f"nl{self.tensor_count}").encode())
        al = ffi.new("uvcc_allocator *", allocator())
        opt = (options or NonlinearOptions())._struct()
        ptr = self._begin()
        try:
            emit = ffi.new("uvcc_emit *", {
                "program": ptr, "phase": int(phase), "mb": mb, "k": self._next_k.get(place, 0),
                "prefix": text, "alloc": al})
            result = lib.uvcc_emit_nonlinear(emit, int(what), opt, ins_array, outs_array)
            self._next_k[place] = emit.k
        finally:
            self._end()
        check(result, f"nonlinear {info.name}")

    def pipeline(self, stage: int, stages: int, ahead: int = 0) -> None:
        """The open entry is that of a pipeline's stage."""
        check(self._call(lib.uvcc_program_pipeline, stage, stages, ahead))

    def topology(self, replicas: int, stages: int, tp_ranks: int) -> None:
        """The job's replicas, stages and tensor ranks."""
        check(self._call(lib.uvcc_program_topology, replicas, stages, tp_ranks))

    def window(self, size: int) -> None:
        """How many bytes may be at work at one time; the usual is 1 GiB."""
        check(self._call(lib.uvcc_program_window, size))

    def finish(self) -> Program:
        """Checks everything; the program is immutable from now on."""
        message = ffi.new("char[]", MESSAGE_BYTES)
        result = self._call(lib.uvcc_program_finish, message, MESSAGE_BYTES)
        check(result, ffi.string(message).decode("utf-8", "replace"))
        self._finished = True
        return self

    # ---- looking ----

    @property
    def finished(self) -> bool:
        return self._finished

    @property
    def hash(self) -> bytes:
        """H(program), of a finished one."""
        out = ffi.new("uint8_t[32]")
        self._call(lib.uvcc_program_hash, out)
        return bytes(ffi.buffer(out))

    @property
    def tensor_count(self) -> int:
        return int(self._call(lib.uvcc_program_tensor_count))

    def tensor_at(self, which: TensorLike) -> Tensor:
        """A tensor by index or name. NOT_FOUND."""
        index = self._index(which)

        def read(program: Any) -> Tensor:  # while nobody adds tensors
            d = lib.uvcc_program_tensor_at(program, index)
            if d == NULL:
                raise Error(ErrorCode.NOT_FOUND, f"there is no tensor {index}")
            shape = (d.rows, d.cols)
            keys = (1, lib.uvcc_program_share_words(program, index))
            return Tensor(index, ffi.string(d.name).decode("utf-8", "replace"), shape, d.bits,
                          d.scale, Lifetime(d.lifetime),
                          keys if d.sharing == Sharing.ONE_HOT else shape)

        found: Tensor = self._call(read)
        return found

    @property
    def tensors(self) -> list[Tensor]:
        return [self.tensor_at(i) for i in range(self.tensor_count)]

    @property
    def entries(self) -> list[str]:
        n = self._call(lib.uvcc_program_entry_count)
        return [ffi.string(self._call(lib.uvcc_program_entry_name, i)).decode() for i in range(n)]

    def entry_index(self, entry: int | str) -> int:
        """An entry's index by its name. NOT_FOUND."""
        if isinstance(entry, int):
            return entry
        return check(self._call(lib.uvcc_program_find_entry, ffi.new("char[]", entry.encode())),
                     f"there is no entry {entry}")

    def ops(self, entry: int | str = 0) -> list[Op]:
        """The ops of an entry in program order, inputs and outputs included."""
        e = self.entry_index(entry)

        def read(program: Any) -> list[Op]:
            return [_op(lib.uvcc_program_op_at(program, e, i))
                    for i in range(lib.uvcc_program_op_count(program, e))]

        found: list[Op] = self._call(read)
        return found

    def inputs(self, entry: int | str = 0) -> list[IoDesc]:
        return self._io(entry, lib.uvcc_program_input_count, lib.uvcc_program_input_at)

    def outputs(self, entry: int | str = 0) -> list[IoDesc]:
        return self._io(entry, lib.uvcc_program_output_count, lib.uvcc_program_output_at)

    def _io(self, entry: int | str, count: Any, one: Any) -> list[IoDesc]:
        e = self.entry_index(entry)

        def read(program: Any) -> list[IoDesc]:
            return [take(IoDesc, one(program, e, i)) for i in range(count(program, e))]

        found: list[IoDesc] = self._call(read)
        return found

    def memory(self, entry: int | str = 0) -> int:
        """Bytes of TRANSIENT buffers that a step can need at one time."""
        out = ffi.new("uint64_t *")
        check(self._call(lib.uvcc_program_memory, self.entry_index(entry), out))
        return int(out[0])

    def cost(self, op: int, entry: int | str = 0) -> OpCost:
        """What an op costs in one step, over all three parties."""
        out = ffi.new("uvcc_op_cost *")
        check(self._call(lib.uvcc_program_cost, self.entry_index(entry), op, out))
        return take(OpCost, out)

    def rounds(self, entry: int | str = 0) -> int:
        """Rounds of the longest chain of dependent ops of an entry."""
        out = ffi.new("uint32_t *")
        check(self._call(lib.uvcc_program_rounds, self.entry_index(entry), NULL, out))
        return int(out[0])

    def _index(self, which: TensorLike) -> int:
        if isinstance(which, Tensor):
            return which.index
        if isinstance(which, str):
            return check(self._call(lib.uvcc_program_find, ffi.new("char[]", which.encode())),
                         f"there is no tensor {which}")
        return which


def _op(d: Any) -> Op:
    return Op("" if d.name == NULL else ffi.string(d.name).decode("utf-8", "replace"),
              Opcode(d.opcode), Phase(d.phase), d.k, d.mb, tuple(getattr(d, "in")[0:d.in_count]),
              tuple(d.out[0:d.out_count]), d.shift, OpFlag(d.flags), Truncation(d.truncation),
              d.constant)


def nonlinear_info(what: Nonlinear) -> NonlinearInfo:
    """What a function is: a row of nonlinear.def."""
    info = lib.uvcc_nonlinear_at(int(what))
    if info == NULL:
        raise Error(ErrorCode.NOT_FOUND, f"there is no function {what}")
    return take(NonlinearInfo, info)


class Reference(Owned):
    """The plaintext twin: runs the same program in plaintext fixed point, and defines what a secure
    run with exact truncation must give, bit for bit."""

    def __init__(self, program: Program) -> None:
        out = ffi.new("uvcc_reference **")
        al = ffi.new("uvcc_allocator *", allocator())
        ptr = program._begin()
        try:
            check(lib.uvcc_reference_new(out, ptr, al), "the program must be finished")
            native = Native(out[0], lib.uvcc_reference_free, (program._alive,))
        finally:
            program._end()
        super().__init__(native)
        self.program = program

    def set(self, tensor: TensorLike, values: ArrayLike) -> None:
        """Sets a tensor. BOUND: a value is outside its declared bits."""
        t = self.program.tensor_at(tensor)
        array = words(values, t.shape, t.name)
        check(self._call(lib.uvcc_reference_set, t.index, at(array, "int64_t *")), t.name)

    def get(self, tensor: TensorLike) -> NDArray[np.int64]:
        t = self.program.tensor_at(tensor)
        ptr = self._begin()
        try:
            found = lib.uvcc_reference_get(ptr, t.index)
            if found == NULL:
                raise Error(ErrorCode.NOT_FOUND, t.name)
            return array_of(found, t.shape)
        finally:
            self._end()

    def step(self, entry: int | str = 0) -> None:
        """Runs one entry; its inputs must have been set."""
        message = ffi.new("char[]", MESSAGE_BYTES)
        result = self._call(lib.uvcc_reference_step, self.program.entry_index(entry), message,
                            MESSAGE_BYTES)
        check(result, ffi.string(message).decode("utf-8", "replace"))
