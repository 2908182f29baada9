"""Functions of two tensors: power, atan2, prelu."""

from __future__ import annotations

import math

import numpy as np

from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.arithmetic import tabulated
from npuc.lowering.aten_to_tosa.elementary import ATAN, pow_scalar
from npuc.lowering.aten_to_tosa.formula import Term, in_fp32
from npuc.lowering.aten_to_tosa.operands import is_scalar, steps, terms
from npuc.lowering.aten_to_tosa.quantize import by_floats
from npuc.lowering.aten_to_tosa.table import tabulate
from npuc.lowering.aten_to_tosa.unary import real_constant, torch_function
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.pow.Tensor_Tensor")
def pow_tensor(b: TosaBuilder, x: Value, y: Value) -> Value:
    """pow of two tensors -> POW of |x| and |y| with sign, NaN and reciprocal as PyTorch has them;
    quantized: TABLE, where one of the two is a number."""
    out = b.out[0]
    if out.quant is not None:
        return _quantized_pow(b, x, y, out)
    b.require(
        out.dtype.is_float, f"a power of {out.dtype.name} tensors", "convert the base to float"
    )
    base, exponent = terms(b, x, y, dtype=out.dtype)
    if is_scalar(y):
        number = float(real_constant(y).flat[0])
        return in_fp32(b, lambda t: pow_scalar(t, number), base.value)
    if is_scalar(x) and float(real_constant(x).flat[0]) > 0:
        return in_fp32(b, Term.pow, base.value, exponent.value)
    return in_fp32(b, _signed_power, base.value, exponent.value)


def _signed_power(x: Term, y: Term) -> Term:
    """POW is defined for a positive base, or a base of 0 and a positive exponent."""
    base = y.equals(0.0).select(1.0, x.abs())
    magnitude = base.pow(y.abs())
    power = (y < 0.0).select(magnitude.reciprocal(), magnitude)
    half = y * 0.5
    odd = ~half.floor().equals(half)
    whole = y.floor().equals(y)
    negative = whole.select(odd.select(-power, power), math.nan)
    return (x < 0.0).select(negative, power)


def _quantized_pow(b: TosaBuilder, x: Value, y: Value, out: TensorType) -> Value:
    found = tabulated(b, x, y, out)
    if found is not None:
        return found
    variable = x if is_scalar(y) else y if is_scalar(x) else None
    if variable is None:
        reason = "a power of two quantized tensors has no integer form"
        return by_floats(b, reason, _signed_power, x, y)
    function = torch_function(b, variable, (x, y), {})
    return tabulate(b, b.match_rank(variable, out.rank), function, out)


@lowers("aten.atan2")
def atan2(b: TosaBuilder, y: Value, x: Value) -> Value:
    """atan2 -> a polynomial of the smaller magnitude over the larger, mapped to its octant."""
    out = b.out[0]
    if out.quant is not None:
        return by_floats(b, "atan2 of quantized tensors has no integer form", _angle, y, x)
    rise, run = terms(b, y, x, dtype=out.dtype)
    return in_fp32(b, _angle, rise.value, run.value)


def _angle(y: Term, x: Term) -> Term:
    rise, run = y.abs(), x.abs()
    larger = rise.maximum(run)
    t = rise.minimum(run) / larger.equals(0.0).select(1.0, larger)
    angle = t * (t * t).polynomial(ATAN)
    angle = (rise > run).select(math.pi / 2 - angle, angle)
    angle = (x < 0.0).select(math.pi - angle, angle)
    return (y < 0.0).select(-angle, angle)


@lowers("aten.prelu")
def prelu(b: TosaBuilder, x: Value, weight: Value) -> Value:
    """prelu -> SELECT(x > 0, x, weight * x); quantized: TABLE for one weight, else the positive
    part plus the weighted negative part, in INT32 and one RESCALE."""
    out = b.out[0]
    if out.quant is None:
        values = Term(b, x)
        slope = Term(b, _per_channel(b, weight, x.type.rank))
        return (values > 0.0).select(values, values * slope).value
    slopes = slopes_of(b, weight)
    if slopes.size == 1:
        only = float(slopes[0])
        return tabulate(b, x, lambda real: np.where(real > 0, real, real * only), out)
    quant = x.type.quant
    b.require(quant is not None, "the operand is not quantized but the result is")
    assert quant is not None
    scale = max(float(np.abs(slopes).max()), 1.0) / 2**14
    factor = b.const(np.rint(slopes / scale).astype(np.int32))
    values = Term(b, steps(b, x, 1.0, x.type.rank))
    below = values.minimum(0) * Term(b, _per_channel(b, factor, x.type.rank))
    above = Term(b, b.rescale(values.maximum(0).value, 1 / scale, DType.INT32))
    return b.requantize((above + below).value, quant.s * scale, out)


def slopes_of(b: TosaBuilder, weight: Value) -> np.ndarray:
    """The real weights of a prelu."""
    b.require(weight.is_const, "a prelu weight that is not constant")
    return real_constant(weight).reshape(-1)


def _per_channel(b: TosaBuilder, weight: Value, rank: int) -> Value:
    """A vector along axis 1 of a tensor of `rank`."""
    if weight.type.size == 1:
        return b.reshape(weight, (1,) * rank)
    return b.reshape(
        weight, [weight.type.size if i == min(1, rank - 1) else 1 for i in range(rank)]
    )
