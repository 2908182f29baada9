"""div with every rounding mode, remainder, fmod: floats, integers and numbers as the divisor."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.arithmetic import multiply, scaled, tabulated
from npuc.lowering.aten_to_tosa.formula import Term, in_fp32
from npuc.lowering.aten_to_tosa.integers_as_floats import floored
from npuc.lowering.aten_to_tosa.operands import is_scalar, steps, terms
from npuc.lowering.aten_to_tosa.quotient import quotient, quotient_remainder, whole_quotient
from npuc.lowering.aten_to_tosa.rounding import shift_right, truncated_fixed
from npuc.lowering.aten_to_tosa.table import tabulate
from npuc.lowering.aten_to_tosa.unary import narrowed, real_constant, torch_function
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.div.Tensor", "aten.div.Tensor_mode")
def div(b: TosaBuilder, x: Value, y: Value, *, rounding_mode: str | None = None) -> Value:
    """div -> RECIPROCAL, MUL (floats), INTDIV (integers).

    Quantized by a number: RESCALE or TABLE; by a tensor: MUL by a normalised reciprocal from a
    16-bit TABLE, at most a step off. A quantized divisor of zero counts as half a step.
    """
    out = b.out[0]
    if out.quant is not None:
        return _div_quantized(b, x, y, rounding_mode, out)
    if out.dtype.is_float:
        left, right = terms(b, x, y, dtype=out.dtype)
        if rounding_mode is None:
            return _divided(left, right).value
        whole = floor_divided if rounding_mode == "floor" else trunc_divided
        return in_fp32(b, whole, left.value, right.value)
    left, right = terms(b, x, y, dtype=_integer(out.dtype))
    divide = integer_floor if rounding_mode == "floor" else integer_trunc
    return narrowed(divide(left, right), out.dtype)


def _integer(dtype: DType) -> DType:
    return dtype if dtype is DType.INT64 else DType.INT32


def _divided(x: Term, y: Term) -> Term:
    """x / y; a constant's reciprocal is computed here."""
    if not y.value.is_const:
        return x / y
    with np.errstate(all="ignore"):
        inverse = (1 / y.value.array.astype(np.float64)).astype(y.dtype.numpy)
    return x * Term(x.b, x.b.const(inverse, y.dtype))


def floor_parts(x: Term, y: Term) -> tuple[Term, Term]:
    """(floor(x / y), x minus that multiple of y) as exact arithmetic gives them.

    The estimate from the reciprocal is off by one at most; the exact remainder tells.
    """
    quotient = _divided(x, y).floor()
    left = (x - quotient * y) - product_error(quotient, y)
    divisor, negative = y.abs(), y < 0.0
    left = negative.select(-left, left)
    low, high = left < 0.0, left >= divisor
    quotient = high.select(quotient + 1.0, low.select(quotient - 1.0, quotient))
    left = high.select(left - divisor, low.select(left + divisor, left))
    return quotient, negative.select(-left, left)


def product_error(x: Term, y: Term) -> Term:
    """x * y minus its rounding to float32, exactly (Dekker): products of halves are exact."""
    (a, b), (c, d) = _halves(x), _halves(y)
    return ((a * c - x * y) + a * d + b * c) + b * d


def _halves(x: Term) -> tuple[Term, Term]:
    """The upper 12 bits of a float32's significand and the rest (Veltkamp)."""
    wide = x * 4097.0
    high = wide - (wide - x)
    return high, x - high


def floor_divided(x: Term, y: Term) -> Term:
    """floor(x / y)."""
    return floor_parts(x, y)[0]


def trunc_divided(x: Term, y: Term) -> Term:
    """x / y rounded towards zero."""
    magnitude = floor_divided(x.abs(), y.abs())
    return ((x < 0.0) ^ (y < 0.0)).select(-magnitude, magnitude)


def floor_remainder(x: Term, y: Term) -> Term:
    """x - floor(x / y) * y."""
    return floor_parts(x, y)[1]


def trunc_remainder(x: Term, y: Term) -> Term:
    """x - trunc(x / y) * y: that of the magnitudes with the sign of x."""
    left = floor_parts(x.abs(), y.abs())[1]
    return (x < 0.0).select(-left, left)


def integer_trunc(x: Term, y: Term) -> Term:
    return x._binary("INTDIV", x, y)


def integer_floor(x: Term, y: Term) -> Term:
    """INTDIV rounds towards zero: one less where there is a remainder of the other sign."""
    quotient = integer_trunc(x, y)
    left = x - quotient * y
    if not x.b.limits.integers:
        return floored(quotient, left, y)
    lower = ~left.equals(0) & ((left < 0) ^ (y < 0))
    return lower.select(quotient - 1, quotient)


@lowers("aten.remainder.Tensor", "aten.remainder.Scalar")
def remainder(b: TosaBuilder, x: Value, y: Value) -> Value:
    """remainder -> x - floor(x / y) * y, the divisor's sign; quantized by a number: int8 TABLE,
    int16 the fraction of x / y in fixed point."""
    return _remainder(b, x, y, "floor")


@lowers("aten.fmod.Tensor", "aten.fmod.Scalar")
def fmod(b: TosaBuilder, x: Value, y: Value) -> Value:
    """fmod -> x - trunc(x / y) * y, the dividend's sign; quantized as remainder."""
    return _remainder(b, x, y, "trunc")


def _remainder(b: TosaBuilder, x: Value, y: Value, mode: str) -> Value:
    out = b.out[0]
    if out.quant is not None:
        found = tabulated(b, x, y, out)
        if found is not None:
            return found
        if is_scalar(y):
            return _remainder_of_number(b, x, float(real_constant(y).flat[0]), mode, out)
        return quotient_remainder(b, x, y, mode, out)
    if out.dtype.is_float:
        formula = floor_remainder if mode == "floor" else trunc_remainder
        left, right = terms(b, x, y, dtype=out.dtype)
        return in_fp32(b, formula, left.value, right.value)
    left, right = terms(b, x, y, dtype=_integer(out.dtype))
    quotient = integer_floor(left, right) if mode == "floor" else integer_trunc(left, right)
    return narrowed(left - quotient * right, out.dtype)


def _div_quantized(
    b: TosaBuilder, x: Value, y: Value, mode: str | None, out: TensorType
) -> Value:  # fmt: skip
    kwargs: dict[str, Any] = {"rounding_mode": mode}
    if mode is None and is_scalar(y) and float(real_constant(y).flat[0]) > 0:
        return scaled(b, x, 1 / float(real_constant(y).flat[0]), out)
    found = tabulated(b, x, y, out, **kwargs)
    if found is not None:
        return found
    if is_scalar(x) and mode is None:
        return tabulate(b, b.match_rank(y, out.rank), torch_function(b, y, (x, y), kwargs), out)
    if mode is None and y.is_const:
        return multiply(b, x, _inverse(b, y), out)
    if mode is None:
        value, step = quotient(b, x, y)
        return b.requantize(value, step, out)
    if not is_scalar(y):
        return b.requantize(whole_quotient(b, x, y, mode)[0].value, 1.0, out)
    fixed, bits = _fixed_quotient(b, x, float(real_constant(y).flat[0]), out.rank)
    whole = shift_right(b, fixed, bits, 1) if mode == "floor" else truncated_fixed(b, fixed, bits)
    return b.requantize(whole, 1.0, out)


def _inverse(b: TosaBuilder, y: Value) -> Value:
    """The reciprocals of a constant, quantized to 16 bits by the product that reads them."""
    with np.errstate(all="ignore"):
        inverse = 1 / real_constant(y)
    b.require(np.all(np.isfinite(inverse)), "division by a constant that contains zero")
    return b.const(inverse.astype(np.float32))


def _fixed_quotient(b: TosaBuilder, x: Value, divisor: float, rank: int) -> tuple[Value, int]:
    """x / divisor as INT32 and its number of fractional bits."""
    b.require(divisor != 0 and math.isfinite(divisor), f"division by {divisor}")
    assert x.type.quant is not None
    scale = x.type.quant.s / abs(divisor)
    largest = 2.0**16 * scale
    bits = int(np.clip(29 - np.ceil(np.log2(largest)), 0, 24))
    fixed = steps(b, x, scale * 2.0**bits, rank)
    if divisor < 0:
        fixed = b.SUB(b.scalar(0, DType.INT32, rank), fixed)
    return fixed, bits


def _remainder_of_number(
    b: TosaBuilder, x: Value, divisor: float, mode: str, out: TensorType
) -> Value:
    fixed, bits = _fixed_quotient(b, x, divisor, out.rank)
    whole = shift_right(b, fixed, bits, 1) if mode == "floor" else truncated_fixed(b, fixed, bits)
    rank = out.rank
    fraction = b.SUB(fixed, b.LOGICAL_LEFT_SHIFT(whole, b.scalar(bits, DType.INT32, rank)))
    if divisor < 0:
        fraction = b.SUB(b.scalar(0, DType.INT32, rank), fraction)
    return b.requantize(fraction, abs(divisor) * 2.0**-bits, out)
