"""softmax and log_softmax."""

from __future__ import annotations

from functools import cache

import numpy as np

from npuc.dialects.tflite import fixed_quant, same_parameters
from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tflite.operands import wide_type
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder, largest_magnitude, symmetric

#: scale of a result below which the 2**-15 steps of SOFTMAX are too coarse
FINE = 2.0**-10


@lowers("aten.softmax", dialect="tflite")
def softmax(b: TfliteBuilder, x: Value, dim: int) -> Value:
    """softmax -> SOFTMAX of the last axis; in INT16 where its fixed parameters are not the result's."""
    return along_last(b, x, dim, _softmax)


def along_last(b: TfliteBuilder, x: Value, dim: int, emit: object) -> Value:
    """`emit(b, x, out)` on `x` with axis `dim` moved to the end, and back."""
    rank = max(x.type.rank, 1)
    order = [*(i for i in range(rank) if i != dim), dim]
    moved = b.transpose(x, order) if x.type.rank else b.reshape(x, (1,))
    y = emit(b, moved, b.out[0].transposed(order) if x.type.rank else b.out[0].with_(shape=(1,)))  # type: ignore[operator]
    if not x.type.rank:
        return b.reshape(y, ())
    return b.transpose(y, [order.index(i) for i in range(rank)])


def _softmax(b: TfliteBuilder, x: Value, out: TensorType) -> Value:
    if out.quant is None:
        return b.SOFTMAX(x)  # type: ignore[no-any-return]
    x = b.operand(x)
    fixed = fixed_quant("SOFTMAX", out.dtype)
    if x.type.dtype is out.dtype and same_parameters(fixed, out.quant):
        return b.SOFTMAX(x)  # type: ignore[no-any-return]
    if b.limits.tables and x.type.dtype is DType.INT8 and out.quant.s < FINE:
        return _fine_softmax(b, x, out)
    return b.requantize(b.SOFTMAX(b.widened(x) if b.limits.int16 else x), out)


def _fine_softmax(b: TfliteBuilder, x: Value, out: TensorType) -> Value:
    """exp(x - max) * (1 / sum) for results that are all small: SOFTMAX of INT16 has steps of 2**-15
    only. The sum is large then, so INT16 holds it well."""
    quant, count, last = x.type.quant, x.type.ints[-1], (x.type.rank - 1,)
    assert quant is not None
    below = Quant(quant.s, 127, None, *DType.INT8.range)  # x - max, exactly
    difference = b.SUB(x, b.REDUCE_MAX(x, axes=last, keep_dims=True), quant=below)
    powers = b.lookup(
        difference, np.exp, difference.type.with_(dtype=DType.INT16, quant=symmetric(1.0))
    )
    total = b.SUM(powers, axes=last, keep_dims=True, quant=symmetric(float(count)))
    table = b.const(inverses(count), DType.INT16, symmetric(1.0))
    inverse = b.GATHER(table, b.CAST(total, dtype=DType.INT32))
    return b.requantize(b.MUL(powers, inverse, quant=wide_type(out).quant), out)


@cache
def inverses(count: int) -> np.ndarray:
    """Codes of 1 / t for the codes 0..32767 of a sum t in 0..count, which is at least 1."""
    total = np.maximum(np.arange(2**15) * symmetric(float(count)).s, 1.0)
    return symmetric(1.0).quantize(1 / total).astype(np.int16)


@lowers("aten.log_softmax", dialect="tflite")
def log_softmax(b: TfliteBuilder, x: Value, dim: int) -> Value:
    """log_softmax -> LOG_SOFTMAX; quantized: x - max - log(sum(exp(x - max))) in INT16."""
    return along_last(b, x, dim, _log_softmax)


def _log_softmax(b: TfliteBuilder, x: Value, out: TensorType) -> Value:
    if out.quant is None:
        return b.LOG_SOFTMAX(x)  # type: ignore[no-any-return]
    x = b.operand(x)
    fixed = fixed_quant("LOG_SOFTMAX", out.dtype)
    if x.type.dtype is out.dtype is DType.INT8 and same_parameters(fixed, out.quant):
        return b.LOG_SOFTMAX(x)  # type: ignore[no-any-return]
    wide, count = b.widened(x), x.type.ints[-1]
    assert x.type.quant is not None and out.quant is not None
    span = symmetric(2 * largest_magnitude(x.type.quant))
    last = (x.type.rank - 1,)
    below = b.SUB(wide, b.REDUCE_MAX(wide, axes=last, keep_dims=True), quant=span)
    powers = b.lookup(below, np.exp, below.type.with_(quant=symmetric(1.0)))
    total = b.SUM(powers, axes=last, keep_dims=True, quant=symmetric(float(count)))
    log = b.lookup(total, _log, total.type.with_(quant=symmetric(max(np.log(count), 1e-3))))
    result = symmetric(largest_magnitude(span) + np.log(count))
    return b.requantize(b.SUB(below, log, quant=result), out)


def _log(real: np.ndarray) -> np.ndarray:
    """The sum is at least 1."""
    return np.log(np.maximum(real, 1.0))
