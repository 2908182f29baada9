"""The table of kernels: TOSA operator name -> function that computes it on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from npuc.ir import DType, Op

Array = np.ndarray
Kernel = Callable[..., Any]

#: `kernel(op, *arrays)` returns an array, or a tuple of arrays for several results
KERNELS: dict[str, Kernel] = {}


def kernel(*names: str) -> Callable[[Kernel], Kernel]:
    """Register a function as the kernel of the named operators."""

    def register(function: Kernel) -> Kernel:
        for name in names:
            if name in KERNELS:
                raise ValueError(f"{name} has two kernels")
            KERNELS[name] = function
        return function

    return register


def wide(x: Array) -> Array:
    """Floats of less than 32 bits as float32, in which they are computed; others as they are."""
    if x.dtype.itemsize < 4 and x.dtype.kind not in "biu":
        return x.astype(np.float32)
    return x


def stored(op: Op, y: Array) -> Array:
    """A computed result in the storage type of the op's result.

    Floats are rounded to nearest even, integers wrap (INT48 to 48 bits).
    """
    return as_stored(y, op.results[0].type.dtype)


def as_stored(y: Array, dtype: DType) -> Array:
    """`y` in the storage type of `dtype`."""
    if dtype is DType.INT48:
        return (y.astype(np.int64, copy=False) << 16) >> 16
    return np.asarray(y).astype(dtype.numpy, copy=False)


def as_tensor(x: Array) -> Any:
    """A torch tensor of the same elements, without a copy where torch allows it.

    torch shares only memory that may be written, and warns about other memory (constants that were
    read from a file).
    """
    import torch

    x = np.ascontiguousarray(x)
    return torch.from_numpy(x if x.flags.writeable else x.copy())
