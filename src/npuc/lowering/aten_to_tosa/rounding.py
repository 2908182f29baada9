"""Rounding to whole numbers: floor, ceil, round, trunc, frac, sign."""

from __future__ import annotations

import numpy as np

from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.unary import unary
from npuc.lowering.tosa_builder import TosaBuilder


def _same(x: Term, **_: object) -> Term:
    return x


def truncated(x: Term) -> Term:
    """Rounded towards zero."""
    return (x < 0.0).select(x.ceil(), x.floor())


#: floats of at least this magnitude are whole numbers
WHOLE = {DType.FP32: 2.0**23, DType.FP16: 2.0**10, DType.BF16: 2.0**7}


def rounded(x: Term) -> Term:
    """Rounded half to even, as CAST to INT32 does; large values are whole already."""
    limit = WHOLE[x.dtype]
    whole = x.clamp(-limit, limit).cast(DType.INT32).cast(x.dtype)
    return (x.abs() < limit).select(whole, x)


def fixed_point(b: TosaBuilder, x: Value) -> tuple[Value, int]:
    """Quantized `x` as INT32 with as many fractional bits as fit: (value, bits)."""
    q = x.type.quant
    assert q is not None
    largest = max(abs(q.qmin - q.zp), abs(q.qmax - q.zp)) * q.s
    bits = int(np.clip(29 - np.ceil(np.log2(max(largest, 1e-9))), 0, 24))
    return b.to_int32(x, q.s * 2.0**bits), bits


def shift_right(b: TosaBuilder, x: Value, bits: int, add: int) -> Value:
    """(x + add) >> bits, floored. The shift itself rounds half up: Ethos-U55 has no other."""
    add -= (1 << bits) >> 1
    if add:
        x = b.ADD(x, b.scalar(add, DType.INT32, x.type.rank))
    return b.ARITHMETIC_RIGHT_SHIFT(  # type: ignore[no-any-return]
        x, b.scalar(bits, DType.INT32, x.type.rank), round=bits > 0
    )


def _floor16(b: TosaBuilder, x: Value, out: TensorType, ceil: bool = False) -> Value | None:
    """floor of 16-bit values: fixed point, shift, RESCALE. A table would smear every jump.

    What is within 2**-bits of the next whole number counts as that number.
    """
    if x.type.dtype is not DType.INT16:
        return None
    fixed, bits = fixed_point(b, x)
    add = (1 << bits) - 2 if ceil else 1
    return b.requantize(shift_right(b, fixed, bits, max(add, 0)), 1.0, out)


def _ceil16(b: TosaBuilder, x: Value, out: TensorType) -> Value | None:
    return _floor16(b, x, out, ceil=True)


def _round16(b: TosaBuilder, x: Value, out: TensorType) -> Value | None:
    """round of 16-bit values, half to even: floor(x + 1/2) and the same of 1/2 - x, averaged."""
    if x.type.dtype is not DType.INT16:
        return None
    fixed, bits = fixed_point(b, x)
    half = (1 << bits) >> 1
    up = shift_right(b, fixed, bits, half + 1)
    down = shift_right(b, fixed, bits, half - 2)
    # a tie has up = down + 1: the even one of them is 2 * ((up + 0) // 2 rounded half up) of down
    even = b.LOGICAL_LEFT_SHIFT(shift_right(b, up, 1, 0), b.scalar(1, DType.INT32, x.type.rank))
    return b.requantize(b.MAXIMUM(down, b.MINIMUM(up, even)), 1.0, out)


@unary("aten.floor", native=True, integer=_same, exact=_floor16)
def floor(x: Term) -> Term:
    """floor -> FLOOR; int8: TABLE, int16: fixed point and ARITHMETIC_RIGHT_SHIFT."""
    return x.floor()


@unary("aten.ceil", native=True, integer=_same, exact=_ceil16)
def ceil(x: Term) -> Term:
    """ceil -> CEIL; int8: TABLE, int16: fixed point and ARITHMETIC_RIGHT_SHIFT."""
    return x.ceil()


@unary("aten.round", native=True, integer=_same, exact=_round16)
def round_(x: Term) -> Term:
    """round, half to even -> CAST to INT32 and back; int8: TABLE, int16: fixed point."""
    return rounded(x)


@unary("aten.round.decimals")
def round_decimals(x: Term, *, decimals: int) -> Term:
    """round to decimals -> round(x * 10**d) / 10**d; quantized: TABLE."""
    scale = 10.0 ** abs(decimals)
    if decimals >= 0:
        return rounded(x * scale) / scale
    return rounded(x / scale) * scale


def truncated_fixed(b: TosaBuilder, fixed: Value, bits: int) -> Value:
    """Fixed-point numbers rounded towards zero: floor of the positive part, ceil of the other."""
    zero = b.scalar(0, DType.INT32, fixed.type.rank)
    above = shift_right(b, b.MAXIMUM(fixed, zero), bits, 1)
    below = shift_right(b, b.MINIMUM(fixed, zero), bits, max((1 << bits) - 2, 0))
    return b.ADD(above, below)  # type: ignore[no-any-return]


def _trunc16(b: TosaBuilder, x: Value, out: TensorType) -> Value | None:
    if x.type.dtype is not DType.INT16:
        return None
    return b.requantize(truncated_fixed(b, *fixed_point(b, x)), 1.0, out)


@unary("aten.trunc", native=True, integer=_same, exact=_trunc16)
def trunc(x: Term) -> Term:
    """trunc -> CEIL below zero, FLOOR above; int8: TABLE, int16: fixed point."""
    return truncated(x)


@unary("aten.frac")
def frac(x: Term) -> Term:
    """frac -> x - trunc(x); quantized: TABLE."""
    return x - truncated(x)


def _integer_sign(x: Term) -> Term:
    return x.minimum(1).maximum(-1)


@unary("aten.sign", "aten.sgn", native=True, integer=_integer_sign)
def sign(x: Term) -> Term:
    """sign -> two comparisons and SELECTs, 0 for NaN; quantized: TABLE; integers: MIN, MAX."""
    return (x > 0.0).select(1.0, (x < 0.0).select(-1.0, 0.0))
