"""Comparisons, logic, bits, selection."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from npuc.dialects.tflite import same_parameters
from npuc.ir import DType, Value
from npuc.lowering.aten_to_tflite.operands import aligned, binary, converted, promoted
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import (
    TfliteBuilder,
    largest_magnitude,
    real_values,
    symmetric,
)

COMPARISONS = {
    "aten.eq.Tensor": "EQUAL", "aten.ne.Tensor": "NOT_EQUAL", "aten.lt.Tensor": "LESS",
    "aten.le.Tensor": "LESS_EQUAL", "aten.gt.Tensor": "GREATER", "aten.ge.Tensor": "GREATER_EQUAL",
}  # fmt: skip


@lowers(*COMPARISONS, dialect="tflite")
def compare(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """eq, ne, lt, le, gt, ge -> EQUAL ...; quantized operands keep their own parameters."""
    assert b.op is not None
    name = COMPARISONS[b.op.kind]
    quantized = next((v for v in (x, y) if v.type.quant is not None), None)
    if quantized is None:
        dtype = promoted(b, x, y)
        if dtype is DType.BOOL and name not in ("EQUAL", "NOT_EQUAL"):
            dtype = DType.INT32
        x, y = converted(b, x, dtype), converted(b, y, dtype)
        return b.tflite(name, *aligned(b, x, y))  # type: ignore[no-any-return]
    return _quantized(b, name, x, y)


#: comparison -> the one that holds when the operands change places
SWAPPED = {
    "EQUAL": "EQUAL", "NOT_EQUAL": "NOT_EQUAL", "LESS": "GREATER", "GREATER": "LESS",
    "LESS_EQUAL": "GREATER_EQUAL", "GREATER_EQUAL": "LESS_EQUAL",
}  # fmt: skip
#: a code that no value has
NOWHERE = 2**20


def _quantized(b: TfliteBuilder, name: str, x: Value, y: Value) -> Value:
    """Of codes: with a constant, with equal parameters, and else as INT16 with common parameters.
    LiteRT's quantized kernels know no steps below 1/256 and no scales from 1 on."""
    if x.is_const and not y.is_const:
        name, x, y = SWAPPED[name], y, x
    x = b.operand(x)
    if y.is_const:
        return _with_codes(b, name, x, _thresholds(name, x, real_values(y)))
    y = b.operand(y)
    assert x.type.quant is not None and y.type.quant is not None
    if x.type.dtype is not y.type.dtype or not same_parameters(x.type.quant, y.type.quant):
        largest = max(largest_magnitude(x.type.quant), largest_magnitude(y.type.quant))
        x, y = (b.widened(v, symmetric(largest)) for v in (x, y))
    return _of_codes(b, name, x, y)


def _of_codes(b: TfliteBuilder, name: str, x: Value, y: Value) -> Value:
    """A comparison of two values with the same parameters."""
    operands = aligned(b, x, y)
    result = b.out[0].with_(dtype=DType.BOOL, quant=None)
    if b.limits.reason(name, operands, {}, [result]) is not None:
        operands = aligned(b, *(b.CAST(v, dtype=DType.INT32) for v in (x, y)))
    return b.tflite(name, *operands)  # type: ignore[no-any-return]


def _thresholds(name: str, x: Value, real: np.ndarray) -> np.ndarray:
    """The codes of `x` that constants stand for: the last below, or the first above, each."""
    quant = x.type.quant
    assert quant is not None
    steps = real / quant.s + quant.zp
    near = np.rint(steps)
    steps = np.where(np.abs(steps - near) < 1e-6 * np.maximum(1, np.abs(near)), near, steps)
    if name in ("EQUAL", "NOT_EQUAL"):
        codes = np.where(steps == near, near, NOWHERE)
    else:
        codes = np.floor(steps) if name in ("GREATER", "LESS_EQUAL") else np.ceil(steps)
    return np.clip(np.nan_to_num(codes, nan=NOWHERE), -NOWHERE, NOWHERE).astype(np.int32)


def _with_codes(b: TfliteBuilder, name: str, x: Value, codes: np.ndarray) -> Value:
    low, high = x.type.dtype.range
    quant = x.type.quant
    if codes.min() >= low and codes.max() <= high:
        return _of_codes(b, name, x, b.const(codes.astype(x.type.dtype.numpy), x.type.dtype, quant))
    x, constant = b.CAST(x, dtype=DType.INT32), b.const(codes)
    return b.tflite(name, *aligned(b, x, constant))  # type: ignore[no-any-return]


@lowers("aten.logical_and", dialect="tflite")
def logical_and(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """logical_and -> LOGICAL_AND."""
    return b.LOGICAL_AND(*aligned(b, truth(b, x), truth(b, y)))  # type: ignore[no-any-return]


@lowers("aten.logical_or", dialect="tflite")
def logical_or(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """logical_or -> LOGICAL_OR."""
    return b.LOGICAL_OR(*aligned(b, truth(b, x), truth(b, y)))  # type: ignore[no-any-return]


@lowers("aten.logical_xor", dialect="tflite")
def logical_xor(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """logical_xor -> NOT_EQUAL."""
    return b.NOT_EQUAL(*aligned(b, truth(b, x), truth(b, y)))  # type: ignore[no-any-return]


@lowers("aten.logical_not", dialect="tflite")
def logical_not(b: TfliteBuilder, x: Value) -> Value:
    """logical_not -> LOGICAL_NOT."""
    return b.LOGICAL_NOT(truth(b, x))  # type: ignore[no-any-return]


def truth(b: TfliteBuilder, x: Value) -> Value:
    """BOOL: whether elements are not zero."""
    if x.type.dtype is DType.BOOL:
        return x
    if x.type.quant is not None:
        zero = np.zeros((1,) * x.type.rank)
        return _with_codes(b, "NOT_EQUAL", x, _thresholds("NOT_EQUAL", x, zero))
    return b.NOT_EQUAL(x, b.scalar(0, x.type.dtype, x.type.rank))  # type: ignore[no-any-return]


@lowers("aten.bitwise_xor.Tensor", dialect="tflite")
def bitwise_xor(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """bitwise_xor -> BITWISE_XOR."""
    return binary(b, "BITWISE_XOR", x, y, b.out[0], DType.INT32)


@lowers("aten.bitwise_not", dialect="tflite")
def bitwise_not(b: TfliteBuilder, x: Value) -> Value:
    """bitwise_not -> BITWISE_XOR with -1; LOGICAL_NOT of BOOL."""
    if x.type.dtype is DType.BOOL:
        return b.LOGICAL_NOT(x)  # type: ignore[no-any-return]
    ones = b.scalar(-1, DType.INT32, x.type.rank)
    return binary(b, "BITWISE_XOR", x, ones, b.out[0], DType.INT32)


@lowers("aten.bitwise_right_shift.Tensor", dialect="tflite")
def shift_right(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """bitwise_right_shift -> RIGHT_SHIFT."""
    return binary(b, "RIGHT_SHIFT", x, y, b.out[0], DType.INT32)


@lowers("aten.bitwise_and.Tensor", dialect="tflite")
def bitwise_and(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """bitwise_and -> (x + y - (x ^ y)) >> 1, INT32 in two halves that do not overflow."""
    return _by_halves(b, x, y, _and)


@lowers("aten.bitwise_or.Tensor", dialect="tflite")
def bitwise_or(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """bitwise_or -> (x ^ y) + (x & y)."""
    return _by_halves(b, x, y, lambda b, x, y: b.ADD(b.BITWISE_XOR(x, y), _and(b, x, y)))


def _and(b: TfliteBuilder, x: Value, y: Value) -> Value:
    twice = b.SUB(b.ADD(x, y), b.BITWISE_XOR(x, y))
    return b.RIGHT_SHIFT(twice, b.scalar(1, DType.INT32, twice.type.rank))  # type: ignore[no-any-return]


def _by_halves(
    b: TfliteBuilder, x: Value, y: Value, emit: Callable[[TfliteBuilder, Value, Value], Value]
) -> Value:
    """A bitwise operator of integers on their upper and lower 16 bits."""
    narrow = all(v.type.dtype.bits <= 16 for v in (x, y))
    x, y = aligned(b, converted(b, x, DType.INT32), converted(b, y, DType.INT32))
    if narrow:
        return converted(b, emit(b, x, y), b.out[0].dtype)
    rank = x.type.rank
    bits, unit = b.scalar(16, DType.INT32, rank), b.scalar(2**16, DType.INT32, rank)
    upper = [b.RIGHT_SHIFT(v, bits) for v in (x, y)]
    lower = [b.SUB(v, b.MUL(u, unit)) for v, u in zip((x, y), upper, strict=True)]
    result = b.ADD(b.MUL(emit(b, *upper), unit), emit(b, *lower))
    return converted(b, result, b.out[0].dtype)


@lowers("aten.bitwise_left_shift.Tensor", dialect="tflite")
def shift_left(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """bitwise_left_shift -> MUL by powers of two."""
    if y.is_const:
        powers = b.const(np.left_shift(1, y.array.astype(np.int64)).astype(np.int32))
    else:
        distance = converted(b, y, DType.INT32)
        powers = b.POW(b.scalar(2, DType.INT32, y.type.rank), distance)
    return binary(b, "MUL", x, powers, b.out[0], DType.INT32)


@lowers("aten.where", "aten.where.self", dialect="tflite")
def where(b: TfliteBuilder, condition: Value, x: Value, y: Value) -> Value:
    """where, masked_fill, tril ... -> SELECT_V2; quantized: both get the result's parameters."""
    out = b.out[0]
    if out.quant is not None:
        x, y = (b.requantize(b.operand(v), out) for v in (x, y))
    else:
        x, y = converted(b, x, out.dtype), converted(b, y, out.dtype)
    condition, x, y = aligned(b, truth(b, condition), x, y)
    return b.SELECT_V2(condition, x, y)  # type: ignore[no-any-return]


@lowers("aten.isnan", dialect="tflite")
def isnan(b: TfliteBuilder, x: Value) -> Value:
    """isnan -> NOT_EQUAL with itself."""
    return b.NOT_EQUAL(x, x) if x.type.dtype.is_float else _never(b)  # type: ignore[no-any-return]


@lowers("aten.isinf", dialect="tflite")
def isinf(b: TfliteBuilder, x: Value) -> Value:
    """isinf -> EQUAL of ABS and infinity."""
    if not x.type.dtype.is_float:
        return _never(b)
    return b.EQUAL(b.ABS(x), b.scalar(math.inf, x.type.dtype, x.type.rank))  # type: ignore[no-any-return]


@lowers("aten.isfinite", dialect="tflite")
def isfinite(b: TfliteBuilder, x: Value) -> Value:
    """isfinite -> LESS of ABS and infinity."""
    if not x.type.dtype.is_float:
        return b.LOGICAL_NOT(_never(b))  # type: ignore[no-any-return]
    return b.LESS(b.ABS(x), b.scalar(math.inf, x.type.dtype, x.type.rank))  # type: ignore[no-any-return]


def _never(b: TfliteBuilder) -> Value:
    return b.const(np.zeros(b.out[0].ints, np.bool_))
