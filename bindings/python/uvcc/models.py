"""Models as programs: the perceptron, the transformer that trains, transformers by description."""
from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _api
from ._api import (ErrorCode, MlpConfig, ModelConfig, ModelCosts, ModelWeight, Phase,
                   TransformerConfig, TransformerPart, TransformerWeight, TransformerWorker)
from ._convert import at, fill, take
from ._load import ffi, lib
from .errors import Error, check, usage
from .program import MESSAGE_BYTES, Program, Tensor, TensorLike, allocator

Words = NDArray[np.int64]


class Mlp:
    """The multi-layer perceptron of docs/training.md; hidden_count follows from `hidden`."""

    def __init__(self, config: MlpConfig) -> None:
        self.config = config
        self._c = ffi.new("uvcc_mlp_config *")
        fill(self._c, config)
        self._c.hidden_count = len(config.hidden)
        self._program: Program | None = None

    @property
    def program(self) -> Program:
        """Its program, made once: entries "train", "predict", "reveal"."""
        if self._program is None:
            out, message = ffi.new("uvcc_program **"), ffi.new("char[]", MESSAGE_BYTES)
            al = ffi.new("uvcc_allocator *", allocator())
            check(lib.uvcc_mlp_program(out, self._c, al, message, MESSAGE_BYTES),
                  ffi.string(message).decode("utf-8", "replace"))
            self._program = Program._of(out[0])
        return self._program

    @property
    def layers(self) -> int:
        return int(lib.uvcc_mlp_layers(self._c))

    def shape(self, layer: int) -> tuple[int, int]:
        """(in, out) of a layer's weights."""
        self._check_layer(layer)
        a, b = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        lib.uvcc_mlp_shape(self._c, layer, a, b)
        return int(a[0]), int(b[0])

    def initial_weights(self, seed: int, layer: int) -> Words:
        """The public initial weights of a layer, the same everywhere."""
        out = np.zeros(self.shape(layer), np.int64)
        lib.uvcc_mlp_initial_weights(self._c, seed, layer, at(out, "int64_t *"))
        return out

    def initial_state(self, seed: int) -> Iterator[tuple[str, Words]]:
        """(tensor, values) of all PERSIST tensors to set before the first step."""
        shift = self.master_shift
        for layer in range(self.layers):
            w = self.initial_weights(seed, layer)
            zeros = np.zeros((1, w.shape[1]), np.int64)
            for name, values in (("W", w), ("b", zeros)):
                yield f"{name}{layer}", values
                yield f"M{name}{layer}", values << shift

    @property
    def master_shift(self) -> int:
        """Bits by which masters are finer than forward weights."""
        _ = self.program
        return int(lib.uvcc_mlp_master_shift(self._c))

    @staticmethod
    def order(seed: int, epoch: int, rows: int) -> NDArray[np.uint32]:
        """The order of the rows in an epoch."""
        out = np.zeros(rows, np.uint32)
        lib.uvcc_mlp_order(seed, epoch, rows, at(out, "uint32_t *"))
        return out

    def _check_layer(self, layer: int) -> None:
        if not 0 <= layer < self.layers <= _api.MLP_MAX_LAYERS:
            raise usage(f"there is no layer {layer}")


@dataclass(frozen=True)
class StateTensor:
    """A PERSIST tensor to set before the first step."""

    tensor: Tensor
    values: Words


class Transformer:
    """The byte-level transformer of docs/transformer.md, as the programs of its workers. `Error`
    CONFIG or BOUND: the detail names the option."""

    def __init__(self, config: TransformerConfig | None = None) -> None:
        self._c = ffi.new("uvcc_transformer_config *")
        check(lib.uvcc_transformer_default(self._c, ffi.sizeof("uvcc_transformer_config")))
        if config is not None:
            fill(self._c, config)
        message = ffi.new("char[]", MESSAGE_BYTES)
        check(lib.uvcc_transformer_check(self._c, message, MESSAGE_BYTES),
              ffi.string(message).decode("utf-8", "replace"))

    def __getattr__(self, name: str) -> Any:
        """Members of the configuration, defaults put in."""
        if name.startswith("_") or name not in TransformerConfig.__dataclass_fields__:
            raise AttributeError(name)
        return getattr(self._c, name)

    def _worker(self, worker: TransformerWorker | None) -> Any:
        w = ffi.new("uvcc_transformer_worker *")
        fill(w, worker or TransformerWorker())
        if w.replica >= self._c.replicas or w.stage >= self._c.stages or \
                w.tensor_rank >= self._c.tensor_ranks:
            raise usage("there is no such worker")
        return w

    def program(self, worker: TransformerWorker | None = None) -> Program:
        """The program of a worker."""
        out, message = ffi.new("uvcc_program **"), ffi.new("char[]", MESSAGE_BYTES)
        al = ffi.new("uvcc_allocator *", allocator())
        check(lib.uvcc_transformer_program(out, self._c, self._worker(worker), al, message,
                                           MESSAGE_BYTES),
              ffi.string(message).decode("utf-8", "replace"))
        return Program._of(out[0])

    def rate(self, step: int) -> Words:
        """The value of the tensor "rate" in a step, 1 x 1."""
        return np.array([[lib.uvcc_transformer_rate(self._c, step)]], np.int64)

    def rows(self, mb: int = 0, worker: TransformerWorker | None = None) -> range:
        """The rows of the step's batch that a worker is given as microbatch mb."""
        if not 0 <= mb < self._c.microbatches:
            raise usage(f"there is no microbatch {mb}")
        first, count = ffi.new("uint32_t *"), ffi.new("uint32_t *")
        lib.uvcc_transformer_rows(self._c, self._worker(worker), mb, first, count)
        return range(first[0], first[0] + count[0])

    @staticmethod
    def one_hot(text: bytes) -> Words:
        """len(text) x 256 values: 1 where column = byte."""
        out = np.zeros((len(text), _api.TRANSFORMER_VOCAB), np.int64)
        lib.uvcc_transformer_one_hot(ffi.from_buffer("uint8_t[]", text), len(text),
                                     at(out, "int64_t *"))
        return out

    def sequence(self, seed: int, step: int, i: int, text_bytes: int) -> int:
        """Where sequence i of a step begins in a text. Public."""
        if text_bytes <= self._c.context:
            raise usage("the text is no longer than a sequence")
        return int(lib.uvcc_transformer_sequence(self._c, seed, step, i, text_bytes))

    @property
    def parameters(self) -> int:
        return int(lib.uvcc_transformer_parameters(self._c))

    @property
    def weights(self) -> list[TransformerWeight]:
        """The weights of the whole model, in the global order."""
        found, out = [], ffi.new("uvcc_transformer_weight *")
        for i in range(lib.uvcc_transformer_weight_count(self._c)):
            check(lib.uvcc_transformer_weight_at(self._c, i, out))
            found.append(take(TransformerWeight, out))
        return found

    def part_of(self, weight: int,
                worker: TransformerWorker | None = None) -> TransformerPart | None:
        """What a worker has of a weight; None: nothing."""
        out = ffi.new("uvcc_transformer_part *")
        if not lib.uvcc_transformer_part_of(self._c, self._worker(worker), weight, out):
            return None
        return take(TransformerPart, out)

    def initial(self, seed: int) -> Words:
        """All initial weights from the seed, one after the other in the global order. Public."""
        out = np.zeros(self.parameters, np.int64)
        place = 0
        for i, w in enumerate(self.weights):
            lib.uvcc_transformer_initial(self._c, seed, i, at(out[place:], "int64_t *"))
            place += w.rows * w.cols
        return out

    def weights_hash(self, weights: Words) -> bytes:
        """SHA-256 of all weights in the global order."""
        flat = self._all(weights)
        out = ffi.new("uint8_t[32]")
        lib.uvcc_transformer_weights_hash(self._c, at(flat, "int64_t *"), out)
        return bytes(ffi.buffer(out))

    def _all(self, weights: Words) -> Words:
        flat = np.ascontiguousarray(weights, np.int64).reshape(-1)
        if flat.size != self.parameters:
            raise usage(f"{flat.size} weights were given, and the model has {self.parameters}")
        return flat

    def state(self, program: Program, weights: Words,
              worker: TransformerWorker | None = None) -> Iterator[StateTensor]:
        """The PERSIST tensors to set before the first step, from all whole weights."""
        flat, w = self._all(weights), self._worker(worker)
        index = ffi.new("uint32_t *")
        room = np.zeros(max(x.rows * x.cols for x in self.weights), np.int64)
        i = 0
        while True:
            try:
                program._call(lambda p: check(lib.uvcc_transformer_state(
                    self._c, w, p, i, at(flat, "int64_t *"), index, at(room, "int64_t *"))))
            except Error as error:
                if error.code == ErrorCode.NOT_FOUND:
                    return
                raise
            tensor = program.tensor_at(int(index[0]))
            n = tensor.shape[0] * tensor.shape[1]
            yield StateTensor(tensor, room[:n].reshape(tensor.shape).copy())
            i += 1


class Model:
    """A transformer's forward pass by its description (docs/models.md). `Error` CONFIG or BOUND:
    the detail names the field."""

    def __init__(self, config: ModelConfig | None = None) -> None:
        self._c = ffi.new("uvcc_model_config *")
        check(lib.uvcc_model_default(self._c, ffi.sizeof("uvcc_model_config")))
        if config is not None:
            fill(self._c, config)
        self._ask(lib.uvcc_model_check)

    def __getattr__(self, name: str) -> Any:
        """Members of the description, defaults put in."""
        if name.startswith("_") or name not in ModelConfig.__dataclass_fields__:
            raise AttributeError(name)
        return getattr(self._c, name)

    def _ask(self, call: Any, *args: Any) -> None:
        """A call about the description that says why it refuses."""
        message = ffi.new("char[]", MESSAGE_BYTES)
        check(call(self._c, *args, message, MESSAGE_BYTES),
              ffi.string(message).decode("utf-8", "replace"))

    @property
    def parameters(self) -> int:
        return int(lib.uvcc_model_parameters(self._c))

    @property
    def weights(self) -> list[ModelWeight]:
        """The weights, in their order."""
        found, out = [], ffi.new("uvcc_model_weight *")
        for i in range(lib.uvcc_model_weight_count(self._c)):
            check(lib.uvcc_model_weight_at(self._c, i, out))
            found.append(take(ModelWeight, out))
        return found

    def program(self, owner: int, to: int | None = None) -> Program:
        """A finished program: entry "forward", whose inputs `owner` gives and whose output opens to
        one party, or to all."""
        out, message = ffi.new("uvcc_program **"), ffi.new("char[]", MESSAGE_BYTES)
        al = ffi.new("uvcc_allocator *", allocator())
        receiver = _api.TO_ALL if to is None else to
        check(lib.uvcc_model_program(out, self._c, owner, receiver, al, message, MESSAGE_BYTES),
              ffi.string(message).decode("utf-8", "replace"))
        return Program._of(out[0])

    def add_weights(self, program: Program, prefix: str = "") -> list[Tensor]:
        """PERSIST tensors for the weights in a program that is being built, in their order."""
        indices = ffi.new("uint32_t[]", max(1, len(self.weights)))
        text = ffi.new("char[]", prefix.encode())
        program._call(lambda p: self._ask(lib.uvcc_model_weights, p, text, indices))
        return [program.tensor_at(int(indices[i])) for i in range(len(self.weights))]

    def emit(self, program: Program, weights: list[Tensor], x: TensorLike,
             padding: TensorLike | None = None, *, layer: int | None = None,
             prefix: str | None = None, phase: Phase = Phase.FWD, mb: int = 0) -> Tensor:
        """The forward pass, or one layer of it, as ops of the open entry; what comes out. After
        an error the program is of no further use."""
        if len(weights) != len(self.weights):
            raise usage(f"{len(weights)} weights were given, and the model has {len(self.weights)}")
        array = ffi.new("uint32_t[]", [program._index(w) for w in weights])
        pad = _api.NO_TENSOR if padding is None else program._index(padding)
        index, place, out = program._index(x), (int(phase), mb), ffi.new("uint32_t *")
        text = ffi.new("char[]", (prefix or f"m{program.tensor_count}.").encode())
        al = ffi.new("uvcc_allocator *", allocator())
        ptr = program._begin()
        try:
            e = ffi.new("uvcc_emit *", {
                "program": ptr, "phase": int(phase), "mb": mb,
                "k": program._next_k.get(place, 0), "prefix": text, "alloc": al})
            if layer is None:
                self._ask(lib.uvcc_model_emit, e, array, index, pad, out)
            else:
                self._ask(lib.uvcc_model_emit_layer, e, layer, array, index, pad, out)
            program._next_k[place] = e.k
        finally:
            program._end()
        return program.tensor_at(int(out[0]))

    def cost(self) -> ModelCosts:
        """What a run of "forward" takes."""
        out = ffi.new("uvcc_model_costs *")
        self._ask(lib.uvcc_model_cost, ffi.new("uvcc_allocator *", allocator()), out)
        return take(ModelCosts, out)

    def reference(self, weights: Words, x: Words, padding: Words | None = None) -> Words:
        """What "forward" opens, in plaintext; weights: all, one after the other."""
        flat = np.ascontiguousarray(weights, np.int64).reshape(-1)
        if flat.size != self.parameters:
            raise usage(f"{flat.size} weights were given, and the model has {self.parameters}")
        inputs, rows_out, cols_out = (ffi.new("uvcc_tensor_desc *"), ffi.new("uint32_t *"),
                                      ffi.new("uint32_t *"))
        check(lib.uvcc_model_inputs(self._c, inputs, ffi.NULL))
        check(lib.uvcc_model_output(self._c, rows_out, cols_out))
        rows = self._shaped(x, (int(inputs.rows), int(inputs.cols)), "x")
        pad = None
        if padding is not None:
            pad = self._shaped(padding, (self.sequences, self.tokens), "padding")
        out = np.zeros((int(rows_out[0]), int(cols_out[0])), np.int64)
        self._ask(lib.uvcc_model_reference, ffi.new("uvcc_allocator *", allocator()),
                  at(flat, "int64_t *"), at(rows, "int64_t *"),
                  ffi.NULL if pad is None else at(pad, "int64_t *"), at(out, "int64_t *"))
        return out

    @staticmethod
    def _shaped(v: Words, shape: tuple[int, int], name: str) -> Words:
        given = np.ascontiguousarray(v, np.int64)
        if given.shape != shape:
            raise usage(f"{name} has shape {given.shape}, not {shape}")
        return given


__all__ = ["Mlp", "Model", "StateTensor", "Transformer"]
