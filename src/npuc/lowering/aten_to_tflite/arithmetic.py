"""add, sub, mul, div, maximum, minimum and their kin."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tflite.operands import (
    aligned,
    binary,
    converted,
    number,
    promoted,
    wide_type,
)
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder, largest_magnitude, real_values, symmetric

Number = int | float

#: error of a quotient, in its steps, that a single reciprocal may cause
NEGLIGIBLE = 0.2


@lowers("aten.add.Tensor", dialect="tflite")
def add(b: TfliteBuilder, x: Value, y: Value, *, alpha: Number = 1) -> Value:
    """add -> ADD; alpha is a MUL."""
    return _sum(b, x, y, alpha)


@lowers("aten.sub.Tensor", dialect="tflite")
def sub(b: TfliteBuilder, x: Value, y: Value, *, alpha: Number = 1) -> Value:
    """sub -> SUB; alpha is a MUL."""
    return _sum(b, x, y, -alpha)


def _sum(b: TfliteBuilder, x: Value, y: Value, alpha: Number) -> Value:
    """x + alpha * y."""
    out = b.out[0]
    if abs(alpha) != 1:
        y = _times(b, y, abs(alpha), out)
    name = "ADD" if alpha >= 0 else "SUB"
    return binary(b, name, x, y, out, _working_type(b, x, y, out))


def _working_type(b: TfliteBuilder, x: Value, y: Value, out: TensorType) -> DType | None:
    """Integers narrower than INT32 have no plain arithmetic; BOOLs count."""
    if out.quant is not None:
        return None
    dtype = promoted(b, x, y)
    return dtype if dtype.is_float or dtype is DType.INT64 else DType.INT32


def _times(b: TfliteBuilder, x: Value, factor: Number, out: TensorType) -> Value:
    """factor * x, factor >= 0. Quantized: the same codes under another scale, which is exact."""
    if out.quant is None:
        dtype = _working_type(b, x, x, out)
        assert dtype is not None
        x = converted(b, x, dtype)
        return b.MUL(x, b.scalar(factor, dtype, x.type.rank))  # type: ignore[no-any-return]
    x = b.operand(x)
    if x.is_const or factor == 0:
        real = real_values(x) * factor if x.is_const else np.zeros((1,) * x.type.rank)
        return b.real_const(real, x.type.dtype)
    return scaled(b, x, factor, x.type.with_(quant=_scaled_quant(x, factor)))


def _scaled_quant(x: Value, factor: Number) -> object:
    from npuc.ir import Quant

    quant = x.type.quant
    assert quant is not None
    return Quant(quant.s * factor, quant.zp, None, quant.qmin, quant.qmax)


def scaled(b: TfliteBuilder, x: Value, factor: Number, out: TensorType) -> Value:
    """factor * x with the parameters of `out`, as MUL by a constant that is exact."""
    constant = b.real_const(np.full((1,) * x.type.rank, factor), x.type.dtype)
    return b.MUL(x, constant, quant=out.quant)  # type: ignore[no-any-return]


@lowers("aten.mul.Tensor", dialect="tflite")
def mul(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """mul -> MUL."""
    out = b.out[0]
    return binary(b, "MUL", x, y, out, _working_type(b, x, y, out))


@lowers("aten.maximum", "aten.fmax", dialect="tflite")
def maximum(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """maximum -> MAXIMUM; quantized: both get the parameters of the result first."""
    return extreme(b, "MAXIMUM", x, y, b.out[0])


@lowers("aten.minimum", "aten.fmin", dialect="tflite")
def minimum(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """minimum -> MINIMUM; quantized: both get the parameters of the result first."""
    return extreme(b, "MINIMUM", x, y, b.out[0])


def extreme(b: TfliteBuilder, name: str, x: Value, y: Value, out: TensorType) -> Value:
    """MAXIMUM or MINIMUM."""
    if out.quant is None:
        return binary(b, name, x, y, out, _working_type(b, x, y, out))
    x, y = (b.requantize(b.operand(v), out) for v in (x, y))
    return b.tflite(name, *aligned(b, x, y))  # type: ignore[no-any-return]


@lowers("aten.div.Tensor", dialect="tflite")
def div(b: TfliteBuilder, x: Value, y: Value, *, rounding_mode: str | None = None) -> Value:
    """div -> DIV, FLOOR_DIV; quantized: MUL by the reciprocal in 16 bits, as two factors where the
    divisor has a wide range."""
    out = b.out[0]
    if out.quant is not None:
        return _quantized_div(b, x, y) if rounding_mode is None else _of_pair(b, x, y)
    if rounding_mode == "floor":
        return _floor_div(b, x, y)
    if out.dtype.is_float:
        quotient = binary(b, "DIV", x, y, out, DType.FP32)
        return _truncated(b, quotient) if rounding_mode == "trunc" else quotient
    b.require(rounding_mode == "trunc", "a division of integers that does not round")
    return binary(b, "DIV", x, y, out, DType.INT32)


def _truncated(b: TfliteBuilder, x: Value) -> Value:
    down, up = b.FLOOR(x), b.CEIL(x)
    negative = b.LESS(x, b.scalar(0, DType.FP32, x.type.rank))
    return b.SELECT_V2(negative, up, down)  # type: ignore[no-any-return]


def _floor_div(b: TfliteBuilder, x: Value, y: Value) -> Value:
    out = b.out[0]
    if out.dtype.is_float:
        return b.FLOOR(binary(b, "DIV", x, y, out, DType.FP32))  # type: ignore[no-any-return]
    return binary(b, "FLOOR_DIV", x, y, out, DType.INT32)


def _quantized_div(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """x / y: by a constant a MUL; else MUL of INT16 by tables of reciprocals."""
    out = b.out[0]
    x, y = b.operand(x), b.operand(y)
    if y.is_const:
        return _divided_by_constant(b, x, y)
    wide, result = b.widened(x), wide_type(out).quant
    inverse = reciprocal_type(y)
    assert wide.type.quant and y.type.quant and out.quant and inverse.quant
    if inverse.quant.s * largest_magnitude(wide.type.quant) < NEGLIGIBLE * out.quant.s:
        factor = b.lookup(y, lambda real: 1.0 / real, inverse)
        return b.requantize(b.MUL(*aligned(b, wide, factor), quant=result), out)
    mantissas, powers = reciprocals(y.type.dtype, y.type.quant.zp)
    first = b.gather(y, b.const(mantissas, DType.INT16, symmetric(1.0)))
    unit = Quant(2.0**-14 / y.type.quant.s, 0, None, *DType.INT16.range)
    product = b.MUL(*aligned(b, wide, first), quant=wide.type.quant)
    second = b.gather(y, b.const(powers, DType.INT16, unit))
    return b.requantize(b.MUL(*aligned(b, product, second), quant=result), out)


def _divided_by_constant(b: TfliteBuilder, x: Value, y: Value) -> Value:
    out = b.out[0]
    factors = 1.0 / real_values(y)
    b.require(np.all(np.isfinite(factors)), "a division by zero")
    if number(y) is not None and factors.min() > 0 and x.type.dtype is out.dtype:
        return scaled(b, b.match_rank(x, out.rank), float(factors.min()), out)
    if number(y) is not None:
        return binary(b, "MUL", x, b.real_const(factors, x.type.dtype), out)
    factor = b.real_const(factors, DType.INT16)
    product = b.MUL(*aligned(b, b.widened(x), factor), quant=wide_type(out).quant)
    return b.requantize(product, out)


@cache
def reciprocals(dtype: DType, zero_point: int) -> tuple[np.ndarray, np.ndarray]:
    """Codes of m and p of all codes of a type, so that 1 / (code - zero point) = m * p: m in steps
    of 1/32767 with a magnitude in 0.5..1, p a power of two in steps of 2**-14."""
    low, high = dtype.range
    steps = np.arange(low, high + 1) - zero_point
    size = np.clip(np.abs(steps), 1, 2**15 - 1)
    octave = np.floor(np.log2(size))
    mantissas = np.rint(np.where(steps < 0, -32767, 32767) * 2.0**octave / size)
    return mantissas.astype(np.int16), (2.0 ** (14 - octave)).astype(np.int16)


def _of_pair(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """The op of `b` on two quantized tensors, by a table of all pairs of codes, or of one operand's
    codes where the other is a number."""
    out = b.out[0]
    numbers = number(x), number(y)
    x, y = (b.match_rank(b.operand(v), out.rank) for v in (x, y))
    function = _torch_function(b)
    if numbers[1] is not None and x.type.dtype in (DType.INT8, DType.INT16):
        value = numbers[1]
        return b.lookup(x, lambda real: function(real, np.full_like(real, value)), out)
    if numbers[0] is not None and y.type.dtype in (DType.INT8, DType.INT16):
        first = numbers[0]
        return b.lookup(y, lambda real: function(np.full_like(real, first), real), out)
    b.require(
        x.type.dtype is y.type.dtype is DType.INT8,
        f"{x.type.dtype.name} and {y.type.dtype.name} operands: a table of all pairs takes INT8",
        "leave this op float",
    )
    return b.lookup_pair(x, y, function, out)


def _torch_function(b: TfliteBuilder) -> Any:
    """PyTorch's op of `b` as a function of two arrays of real values."""
    import torch

    assert b.op is not None
    call = getattr(torch.ops.aten, b.op.name.partition(".")[0])
    kwargs = dict(b.op.attrs["kwargs"])

    def function(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        left, right = (torch.from_numpy(np.ascontiguousarray(v)) for v in (x, y))
        return call(left, right, **kwargs).to(torch.float64).numpy()  # type: ignore[no-any-return]

    return function


def reciprocal_type(y: Value) -> TensorType:
    """INT16 for 1 / y: up to the reciprocal of the smallest magnitude above zero."""
    quant = y.type.quant
    assert quant is not None
    smallest = quant.s * (1 if y.type.dtype is DType.INT8 else 16)
    return y.type.with_(dtype=DType.INT16, quant=symmetric(1.0 / smallest))


@lowers("aten.remainder.Tensor", dialect="tflite")
def remainder(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """remainder -> FLOOR_MOD, which has the sign of the divisor as PyTorch's."""
    out = b.out[0]
    if out.quant is not None:
        return _of_pair(b, x, y)
    return binary(b, "FLOOR_MOD", x, y, out, DType.FP32 if out.dtype.is_float else DType.INT32)


@lowers("aten.fmod.Tensor", dialect="tflite")
def fmod(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """fmod -> x - y * trunc(x / y)."""
    out = b.out[0]
    if out.quant is not None:
        return _of_pair(b, x, y)
    dtype = DType.FP32 if out.dtype.is_float else DType.INT32
    x, y = converted(b, x, dtype), converted(b, y, dtype)
    whole = binary(b, "DIV", x, y, out.with_(dtype=dtype), dtype)
    whole = _truncated(b, whole) if out.dtype.is_float else whole
    product = binary(b, "MUL", whole, y, out.with_(dtype=dtype), dtype)
    return binary(b, "SUB", x, product, out, dtype)


@lowers("aten.pow.Tensor_Tensor", dialect="tflite")
def pow_tensor(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """pow of two tensors -> POW."""
    out = b.out[0]
    if out.quant is not None:
        return _of_pair(b, x, y)
    return binary(b, "POW", x, y, out, DType.FP32 if out.dtype.is_float else DType.INT32)


@lowers("aten.atan2", dialect="tflite")
def atan2(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """atan2 -> ATAN2, which does not broadcast."""
    from npuc.lowering.aten_to_tflite.move import broadcast_to

    out = b.out[0]
    if out.quant is not None:
        return _of_pair(b, x, y)
    x, y = (broadcast_to(b, b.match_rank(v, out.rank), out.ints) for v in (x, y))
    return b.ATAN2(x, y)  # type: ignore[no-any-return]


def largest(x: Value) -> float:
    """The largest magnitude that quantized `x` can have."""
    assert x.type.quant is not None
    return largest_magnitude(x.type.quant)
