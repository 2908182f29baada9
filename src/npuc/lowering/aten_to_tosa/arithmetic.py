"""add, sub, mul, maximum, minimum: integer forms that Ethos-U runs as one operation."""

from __future__ import annotations

from typing import Any

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tosa.formula import Number, Term
from npuc.lowering.aten_to_tosa.operands import (
    as_quantized,
    broadcast_rank,
    is_scalar,
    requantized,
    rescaled,
    same_scale,
    steps,
    terms,
)
from npuc.lowering.aten_to_tosa.table import tabulate
from npuc.lowering.aten_to_tosa.unary import narrowed, real_constant, torch_function
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: factor of the larger operand of an addition by element type: with exactly these Ethos-U55 fuses
#: the RESCALEs into the addition, and the result is exact (vela.md section 4)
HEADROOM = {DType.INT8: 2.0**19, DType.INT16: 2.0**14}


@lowers("aten.add.Tensor")
def add(b: TosaBuilder, x: Value, y: Value, *, alpha: Number = 1) -> Value:
    """add -> ADD. Quantized: the operands RESCALEd to a common INT32 scale, ADD, RESCALE."""
    return _sum(b, x, y, alpha, alpha)


@lowers("aten.sub.Tensor")
def sub(b: TosaBuilder, x: Value, y: Value, *, alpha: Number = 1) -> Value:
    """sub -> SUB. Quantized: the operands RESCALEd to a common INT32 scale, SUB, RESCALE."""
    return _sum(b, x, y, -alpha, alpha)


def _sum(b: TosaBuilder, x: Value, y: Value, alpha: Number, given: Number) -> Value:
    """x + alpha * y; `given` is the alpha of the op itself."""
    out = b.out[0]
    if out.quant is None:
        left, right = terms(b, x, y, dtype=_working_type(out.dtype))
        if abs(alpha) != 1:
            right = right * abs(alpha)
        return narrowed(left + right if alpha > 0 else left - right, out.dtype)
    found = tabulated(b, x, y, out, alpha=given)
    if found is not None:
        return found
    return weighted_sum(b, x, y, alpha, out)


def _working_type(dtype: DType) -> DType:
    """ADD, SUB, MAXIMUM ... of integers exist in INT32 only."""
    return dtype if dtype.is_float or dtype is DType.INT64 else DType.INT32


def weighted_sum(b: TosaBuilder, x: Value, y: Value, alpha: Number, out: TensorType) -> Value:
    """x + alpha * y of quantized values, in one operation of Ethos-U."""
    x, y = as_quantized(b, x, out), as_quantized(b, y, out)
    total, step = common_sum(b, x, y, alpha)
    return b.requantize(total, step, out)


def common_sum(b: TosaBuilder, x: Value, y: Value, alpha: Number) -> tuple[Value, float]:
    """x + alpha * y as INT32, and what one step of it is worth."""
    x, y = _wide_constant(b, x, y), _wide_constant(b, y, x)
    assert x.type.quant is not None and y.type.quant is not None
    scales = x.type.quant.s, y.type.quant.s * abs(alpha)
    rank = broadcast_rank(x, y)
    if alpha == 0:
        scales = scales[0], 0.0
    largest = max(scales)
    unit = same_scale(largest, scales[1]) and same_scale(largest, scales[0])
    head = 1.0 if unit else min(HEADROOM[v.type.dtype] for v in (x, y))
    left, right = (
        steps(b, v, 1.0 if unit else head * s / largest, rank)
        for v, s in zip((x, y), scales, strict=True)
    )
    total = b.ADD(left, right) if alpha >= 0 else b.SUB(left, right)
    return total, largest / head


def _wide_constant(b: TosaBuilder, x: Value, other: Value) -> Value:
    """An 8-bit constant beside a 16-bit value with 16 bits: two types are two more operations."""
    quant = x.type.quant
    if not x.is_const or (x.type.dtype, other.type.dtype) != (DType.INT8, DType.INT16):
        return x
    if quant is None or quant.per_channel:
        return x
    codes = (x.array.astype(np.int16) - quant.zp) * 2**7
    wide = Quant(quant.s / 2**7, 0, None, -(2**15), 2**15 - 1)
    return b.const(codes.astype(np.int16), DType.INT16, wide)


def tabulated(b: TosaBuilder, x: Value, y: Value, out: TensorType, **kwargs: Any) -> Value | None:
    """The op of `b` as one TABLE where it depends on a single int8 tensor; else None.

    None too for a 16-bit result where the target has no 16-bit tables: arithmetic gives it.
    """
    if out.dtype is not DType.INT8 and "EXT-INT16" not in b.limits.offered:
        return None
    if x is y or is_scalar(y):
        variable = x
    elif is_scalar(x):
        variable = y
    else:
        return None
    if variable.type.quant is None or variable.type.dtype is not DType.INT8 or variable.is_const:
        return None
    variable_at_rank = b.match_rank(variable, out.rank)
    function = torch_function(b, variable, (x, y), kwargs)
    return tabulate(b, variable_at_rank, function, out)


@lowers("aten.mul.Tensor")
def mul(b: TosaBuilder, x: Value, y: Value) -> Value:
    """mul -> MUL. Quantized: unit RESCALEs to INT32, MUL, RESCALE; by a number > 0: RESCALE."""
    out = b.out[0]
    if out.quant is None:
        left, right = terms(b, x, y, dtype=_working_type(out.dtype))
        return narrowed(left * right, out.dtype)
    for tensor, factor in ((x, y), (y, x)):
        if is_scalar(factor) and not tensor.is_const and float(real_constant(factor).flat[0]) > 0:
            return scaled(b, tensor, float(real_constant(factor).flat[0]), out)
    found = tabulated(b, x, y, out)
    return found if found is not None else multiply(b, x, y, out)


def scaled(b: TosaBuilder, x: Value, factor: float, out: TensorType) -> Value:
    """x * factor, factor > 0: a RESCALE, which merges with the one that made x."""
    assert out.quant is not None
    return b.clamp_codes(rescaled(b, b.match_rank(x, out.rank), factor, out), out.quant)


def multiply(b: TosaBuilder, x: Value, y: Value, out: TensorType) -> Value:
    """x * y of quantized values: exact INT32 product, one RESCALE."""
    x, y = as_quantized(b, x, out), as_quantized(b, y, out)
    assert x.type.quant is not None and y.type.quant is not None
    rank = broadcast_rank(x, y)
    left, right = Term(b, steps(b, x, 1.0, rank)), Term(b, steps(b, y, 1.0, rank))
    return b.requantize((left * right).value, x.type.quant.s * y.type.quant.s, out)


@lowers("aten.maximum", "aten.fmax")
def maximum(b: TosaBuilder, x: Value, y: Value) -> Value:
    """maximum -> MAXIMUM. Quantized: both RESCALEd to the result's steps first, which is exact."""
    return _extreme(b, x, y, "MAXIMUM")


@lowers("aten.minimum", "aten.fmin")
def minimum(b: TosaBuilder, x: Value, y: Value) -> Value:
    """minimum -> MINIMUM. Quantized: both RESCALEd to the result's steps first, which is exact."""
    return _extreme(b, x, y, "MINIMUM")


def _extreme(b: TosaBuilder, x: Value, y: Value, name: str) -> Value:
    out = b.out[0]
    nan_mode = "IGNORE" if b.op is not None and b.op.name.startswith("fm") else "PROPAGATE"
    if out.quant is None:
        left, right = terms(b, x, y, dtype=_working_type(out.dtype))
        result = b.tosa(name, left.value, right.value, nan_mode=nan_mode)
        return narrowed(Term(b, result), out.dtype)
    found = tabulated(b, x, y, out)
    return found if found is not None else extreme_of_codes(b, x, y, name, out)


def extreme_of_codes(b: TosaBuilder, x: Value, y: Value, name: str, out: TensorType) -> Value:
    """Rounding is monotone: the extreme of the rounded values is the rounded extreme."""
    assert out.quant is not None
    sides = []
    for v in (x, y):
        v = requantized(b, v, out) if v.is_const else v
        assert v.type.quant is not None
        ratio = v.type.quant.s / out.quant.s
        unit = same_scale(ratio, 1.0)
        sides.append(steps(b, v, 1.0 if unit else ratio, broadcast_rank(x, y)))
    return b.requantize(b.tosa(name, *sides), out.quant.s, out)
