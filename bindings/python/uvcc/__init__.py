"""uvcc: three parties compute on data that none of them sees.

The library is sans I/O: a `Session` says which bytes to send and what to compute next. `uvcc.aio`
is a host that does it on asyncio; bindings/python/examples/relu.py is a program of three parties.

Every call that the library refuses raises `Error`; arrays are NumPy arrays of int64, fixed-point
integers (to_fixed, from_fixed), copied in and out, so that nothing here points into memory that the
library may free."""
from __future__ import annotations

from . import audit
from ._api import (BLOCK_ELEMS, NEVER, PARTIES, TO_ALL, VERSION, AbortReason, AuditFault,
                   CheckpointInfo, Checks, CollectiveActionKind, CollectiveOp, Compare, Congestion, CpuBackend, CpuMode, ErrorCode, Event,
                   EventKind, FaultKind, FnKind, FrameKind, Group, Handshake, Identity, IoDesc, Kem, LeafType,
                   LiftKind, Lifetime, Limits, LinkConfig, Links, LinkStats, LogLevel, MemoryBound, MemoryTerm, MlpConfig, MlpInput, MlpOutput,
                   ModelConfig, ModelCosts, ModelFf, ModelHead, ModelId, ModelInput, ModelMask,
                   ModelMode, ModelNorm, ModelOrder, ModelPool, ModelPositions, ModelWeight, ModelWeightKind,
                   ModelWeightsAre,
                   Nonlinear, NonlinearInfo, OpCost, Opcode, OpFlag, Optimizer, PeerInfo, Phase,
                   Place, Plane, PolicyKind, PolicyRule, Products, Resume, SessionStats, Sharing,
                   Suite, TransformerBlock, TransformerConfig, TransformerCut, TransformerId,
                   TransformerNorm, TransformerPart, TransformerWeight, TransformerWorker, Triples,
                   Truncation, Wait)
from ._load import LIBRARY
from .collective import Collective, CollectiveAction, CollectiveOrder, CollectiveTag
from .compute import Completion, Cpu, Job, backends
from .errors import Aborted, Error
from .fixed import from_fixed, to_fixed
from .keys import KeyKind, new_secret, provision, public_key, read_key, write_key
from .link import Link, Message
from .models import Mlp, Model, StateTensor, Transformer
from .policy import Policy
from .program import FnInstr, NonlinearOptions, Op, Program, Reference, Tensor, nonlinear_info
from .session import Config, Session, Transmit, memory_bound
from .values import (Replay, checkpoint_tensor, combine, deal, read_checkpoint, replay, split)

__version__ = VERSION


def version() -> str:
    """The library's version; the package is of the same."""
    return VERSION


__all__ = [name for name in dir() if not name.startswith("_") and name != "annotations"]
