"""Rules for tensors that are made of sizes known only at run time."""

from __future__ import annotations

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.open_sizes import positions, size_tensor
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.arange")
def arange(b: TosaBuilder, end: int) -> Value:
    """arange of a symbolic size -> SLICE of the longest one."""
    return positions(b, end, b.out[0].dtype)


@lowers("aten.scalar_tensor")
def scalar_tensor(b: TosaBuilder, size: int) -> Value:
    """A symbolic size as a number -> the sum of that many ones."""
    y = size_tensor(b, size, DType.INT32)
    return y if b.out[0].dtype is DType.INT32 else b.CAST(y, dtype=b.out[0].dtype)
