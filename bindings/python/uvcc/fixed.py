"""Fixed point: real numbers as integers of `frac_bits` fraction bits."""
from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import usage


def to_fixed(values: ArrayLike, frac_bits: int) -> NDArray[np.int64]:
    """values * 2^frac_bits, rounded to the nearest, ties to even. `Error` USAGE: a value is no
    number, or does not fit 64 bits."""
    _check(frac_bits)
    real = np.asarray(values, dtype=np.float64)
    scaled: NDArray[np.float64] = np.rint(np.ldexp(real, frac_bits))
    if not np.all(np.isfinite(scaled)) or np.any(np.abs(scaled) >= 2.0**63):
        raise usage(f"a value is no number or does not fit 64 bits at {frac_bits} fraction bits")
    return scaled.astype(np.int64)


def from_fixed(values: ArrayLike, frac_bits: int) -> NDArray[np.float64]:
    """values / 2^frac_bits."""
    _check(frac_bits)
    return np.ldexp(np.asarray(values, dtype=np.int64).astype(np.float64), -frac_bits)


def _check(frac_bits: int) -> None:
    if not 0 <= frac_bits <= 63:
        raise usage("fraction bits are 0 to 63")
