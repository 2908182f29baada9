"""softmax and log_softmax: exact within a step on quantized values, in integers throughout."""

from __future__ import annotations

from math import prod

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.ir.symbolic import largest
from npuc.lowering.aten_to_tosa.fixed_point import (
    bytes_of_table,
    has_int16_table,
    logarithm,
    multiply,
    number,
    precise_reciprocal,
    reciprocal,
    shifted_right,
)
from npuc.lowering.aten_to_tosa.table import table16
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: what exp(0) is as an integer
ONE = 32767

#: exp of less than this is below half a step of ONE
LOWEST = -11.2

#: with an output step below this a reciprocal of 16 bits is off by more than a fourth of a step
FINE_STEP = 2.0**-14

#: rows longer than this could overflow an INT32 sum
LONGEST_ROW = 2**16


def reduce_max(b: TosaBuilder, rows: Value) -> Value:
    """Largest of each row of [1, R, N]."""
    return b.REDUCE_MAX(rows, axis=2, quant=rows.type.quant)  # type: ignore[no-any-return]


@lowers("aten.softmax")
def softmax(b: TosaBuilder, x: Value, dim: int) -> Value:
    """softmax -> EXP, RECIPROCAL; quantized: exp table, integer sum, CLZ-normalised reciprocal."""
    if x.type.dtype.is_float:
        return float_softmax(b, x, dim)
    return integer_softmax(b, x, dim)


@lowers("aten.log_softmax")
def log_softmax(b: TosaBuilder, x: Value, dim: int) -> Value:
    """log_softmax -> EXP and LOG; quantized: exp table, integer sum and its logarithm by table."""
    if x.type.dtype.is_float:
        return float_log_softmax(b, x, dim)
    return integer_log_softmax(b, x, dim)


def float_softmax(b: TosaBuilder, x: Value, dim: int) -> Value:
    """REDUCE_MAX, SUB, EXP, REDUCE_SUM, RECIPROCAL, MUL; 16-bit floats compute in FP32."""
    shifted = _less_maximum(b, x, dim)
    powers = b.EXP(shifted)
    total = b.RECIPROCAL(b.REDUCE_SUM(powers, axis=dim))
    return _narrow(b, b.MUL(powers, total, b.scalar(0, DType.INT8, 1)), x.type.dtype)


def float_log_softmax(b: TosaBuilder, x: Value, dim: int) -> Value:
    """REDUCE_MAX, SUB, EXP, REDUCE_SUM, LOG, SUB."""
    shifted = _less_maximum(b, x, dim)
    total = b.LOG(b.REDUCE_SUM(b.EXP(shifted), axis=dim))
    return _narrow(b, b.SUB(shifted, total), x.type.dtype)


def _less_maximum(b: TosaBuilder, x: Value, dim: int) -> Value:
    if x.type.dtype is not DType.FP32:
        x = b.CAST(x, dtype=DType.FP32)
    return b.SUB(x, b.REDUCE_MAX(x, axis=dim))  # type: ignore[no-any-return]


def _narrow(b: TosaBuilder, y: Value, dtype: DType) -> Value:
    return y if y.type.dtype is dtype else b.CAST(y, dtype=dtype)


def integer_softmax(b: TosaBuilder, x: Value, dim: int) -> Value:
    """Form A of the measured ones: full-size tensors of 16 bits, 32 bits only per row.

    e = exp(x - max) * 32767 by table; s = sum of e; y = e * 2**30 / s * 2**-30 / scale.
    """
    _, out = _parameters(b, x)
    assert out.quant is not None
    rows = as_rows(b, x, dim)
    e = _exponentials(b, rows, reduce_max(b, rows))
    total = b.REDUCE_SUM(_as_int32(b, e), axis=2)
    y = (_fine_quotients if out.quant.s < FINE_STEP else _quotients)(b, e, total, out)
    return from_rows(b, y, x.type.ints, dim)


def _quotients(b: TosaBuilder, e: Value, total: Value, out: TensorType) -> Value:
    """e / total as `out`, by a reciprocal of 16 bits for each row."""
    t, n = reciprocal(b, total)
    twice = b.LOGICAL_LEFT_SHIFT(t, number(b, t, 1))
    r = shifted_right(b, twice, b.SUB(number(b, t, 16), n))  # 2**30 / total
    if e.type.dtype is DType.INT16:
        r = _as_int32(b, b.rescale(r, 1.0, DType.INT16))
    return b.requantize(multiply(b, _as_int32(b, e), r), np.float64(2.0**-30), out)


def _fine_quotients(b: TosaBuilder, e: Value, total: Value, out: TensorType) -> Value:
    """e / total as `out`, by a reciprocal of 30 bits for each row.

    1 / step of `out` is part * 2**exponent. `part` goes into the reciprocal, the rest is the shift
    of the product: Ethos-U takes no other scale into a product of INT32.
    """
    assert out.quant is not None
    part, exponent = np.frexp(1 / out.quant.s)
    t, n = precise_reciprocal(b, total)
    t = multiply(b, t, number(b, t, round(part * 2**30)), 30)
    r = shifted_right(b, t, b.SUB(number(b, t, 16), n))  # 2**44 / total * part
    shift = max(int(44 - exponent), 14)  # with less, INT32 might overflow
    product = multiply(b, _as_int32(b, e), r, shift)
    return b.requantize(product, out.quant.s * 2.0 ** (float(exponent) + shift - 44), out)


def integer_log_softmax(b: TosaBuilder, x: Value, dim: int) -> Value:
    """x - max - log(sum of exp(x - max)), the per-row part as one 16-bit number."""
    quant, out = _parameters(b, x)
    rows = as_rows(b, x, dim)
    largest = reduce_max(b, rows)
    e = _exponentials(b, rows, largest)
    total = b.REDUCE_SUM(_as_int32(b, e), axis=2)
    log_total = logarithm(b, total, 16)  # of total, which is 32767 times the sum
    offset = b.SUB(log_total, number(b, total, round(np.log(ONE) * 2**16)))
    if e.type.dtype is DType.INT16 and rows.type.dtype is DType.INT8:
        codes = b.rescale(_difference(b, rows, largest), 128.0, DType.INT16)
        y, unit = _less_offset(b, codes, quant.s / 128, offset)
    else:
        span = np.log(LONGEST_ROW) + quant.s * 2.0**rows.type.dtype.bits
        unit = span * 2.0**-29
        x_part = b.rescale(rows, quant.s / unit, DType.INT32, in_zp=quant.zp)
        m_part = b.rescale(largest, quant.s / unit, DType.INT32, in_zp=quant.zp)
        y = b.SUB(x_part, b.ADD(m_part, b.rescale(offset, 2.0**-16 / unit, DType.INT32)))
    return from_rows(b, b.requantize(y, np.float64(unit), out), x.type.ints, dim)


def _less_offset(b: TosaBuilder, codes: Value, step: float, offset: Value) -> tuple[Value, float]:
    """16-bit `codes` of `step` less `offset` (2**16 per unit) of each row, and the result's step.

    The operand with the larger step is scaled by 2**14, which Ethos-U takes into the SUB.
    """
    offset_step = np.log(LONGEST_ROW) / 32000
    narrow = b.rescale(offset, 2.0**-16 / offset_step, DType.INT16)
    unit = max(step, offset_step) * 2.0**-14
    left = b.rescale(codes, step / unit, DType.INT32)
    return b.SUB(left, b.rescale(narrow, offset_step / unit, DType.INT32)), unit


def _parameters(b: TosaBuilder, x: Value) -> tuple[Quant, TensorType]:
    quant, out = x.type.quant, b.out[0]
    if quant is None or out.quant is None:
        b.refuse(f"softmax of {x.type.dtype.name} values that are not quantized")
    assert quant is not None
    narrow = x.type.dtype in (DType.INT8, DType.INT16)
    b.require(narrow, f"softmax takes INT8 and INT16, not {x.type.dtype.name}")
    return quant, out


def as_rows(b: TosaBuilder, x: Value, dim: int) -> Value:
    """[1, R, N] with the axis `dim` last."""
    length = x.type.ints[dim]
    most = largest(length)
    b.require(most <= LONGEST_ROW, f"softmax over {most} elements; sums take {LONGEST_ROW}")
    order = [i for i in range(x.type.rank) if i != dim] + [dim]
    moved = b.transpose(x, order)
    return b.reshape(moved, (1, x.type.size // length, length))


def from_rows(b: TosaBuilder, y: Value, shape: tuple[int, ...], dim: int) -> Value:
    """The reverse of `as_rows`."""
    rest = [d for i, d in enumerate(shape) if i != dim]
    back = list(range(len(shape) - 1))
    back.insert(dim, len(shape) - 1)
    assert prod(rest) * shape[dim] == y.type.size
    return b.transpose(b.reshape(y, (*rest, shape[dim])), back)


def _as_int32(b: TosaBuilder, x: Value) -> Value:
    """The codes as they are; zero points cancel in differences."""
    return x if x.type.dtype is DType.INT32 else b.rescale(x, 1.0, DType.INT32)


def _difference(b: TosaBuilder, rows: Value, largest: Value) -> Value:
    """x - max in steps of x, 0 or less."""
    return b.SUB(_as_int32(b, rows), _as_int32(b, largest))  # type: ignore[no-any-return]


def _exponentials(b: TosaBuilder, rows: Value, largest: Value) -> Value:
    """exp(x - max) * 32767 by table, INT16, or INT32 without 16-bit tables.

    Differences of 8-bit codes hit the table's entries exactly.
    """
    quant = rows.type.quant
    assert quant is not None
    if quant.qmax > 127 or quant.qmin < -128:
        return _wide_exponentials(b, rows, largest, quant.s)
    difference = _difference(b, rows, largest)
    if has_int16_table(b):
        steps = np.minimum(np.arange(513) - 256, 0)
        codes = b.rescale(difference, 128.0, DType.INT16)
        return table16(b, codes, np.rint(ONE * np.exp(quant.s * steps)))
    codes = b.rescale(difference, 1.0, DType.INT8, out_zp=127)
    return bytes_of_table(b, codes, ONE * np.exp(quant.s * np.arange(-255, 1)))


def _wide_exponentials(b: TosaBuilder, rows: Value, largest: Value, scale: float) -> Value:
    """The same for 16-bit codes: the range in which exp is not 0 spans the table."""
    top = 127 * 256 + 128  # the last but one entry stands for the maximum
    middle = max(round(top * -LOWEST / (top + 32768) / scale), 1)  # in steps of x
    width = middle * scale / top
    below = b.SUB(_as_int32(b, largest), number(b, largest, middle))
    difference = b.SUB(_as_int32(b, rows), below)
    codes = b.rescale(difference, scale / width, DType.INT16)
    points = np.arange(513) * 128 - 32768
    entries = ONE * np.exp(np.minimum(points - top, 0) * width)
    # linear interpolation lies above exp: half of that is taken off the points
    entries = np.where(entries < ONE, entries * (1 - (128 * width) ** 2 / 16), entries)
    return table16(b, codes, np.rint(entries))
