"""Normalization of quantized values in integers: mean, variance and inverse root per row.

All of a row's statistics are INT32 numbers of one element per row; full-size values have 16 bits
where it can be. Precise to a step also for rows that vary by less than one step of the input.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, sqrt

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.fixed_point import (
    inverse_sqrt,
    multiply,
    narrow_inverse_sqrt,
    number,
    precise_inverse_sqrt,
)
from npuc.lowering.aten_to_tosa.integer_sums import SUM_BITS, Rows, Sum, stages, sum_rows
from npuc.lowering.aten_to_tosa.open_norm import open_normalize
from npuc.lowering.tosa_builder import TosaBuilder

#: longer rows are normalized in 32 bits: 16 bits leave too few for most of their elements
LONGEST_NARROW = 2**14

#: the specification defines a RESCALE where its result stays below 2**29
RESCALED_BITS = 28.99


@dataclass(frozen=True)
class Deviation:
    """x - mean in steps of 1 / fine of x's own; `reach` bounds its magnitude."""

    value: Value
    fine: float
    reach: float


def normalize(
    b: TosaBuilder, x: Value, rows: Rows, eps: float, center: bool = True, precise: bool = False,
    narrow: bool = False,
) -> tuple[Value, float]:  # fmt: skip
    """(x - mean) / sqrt(var + eps) of the quantized `x`: an INT32 and what its step is worth.

    Without `center` the mean is left out (root mean square). `precise`: for 16-bit results.
    `narrow`: full-size values have 16 bits where it can be, which is faster on Ethos-U.
    """
    quant = x.type.quant
    if quant is None or x.type.dtype not in (DType.INT8, DType.INT16):
        b.refuse(f"normalization of {x.type.dtype.name} values, not quantized to 8 or 16 bits")
    assert quant is not None
    if not isinstance(rows.count(x.type.ints), int):
        return open_normalize(b, x, rows, eps, center, precise)
    floor = eps / quant.s**2  # eps in squared steps of x
    if narrow and not precise and rows.count(x.type.ints) <= LONGEST_NARROW:
        return _narrow_normalize(b, x, rows, floor, center)
    return _wide_normalize(b, x, rows, floor, center, precise)


def _narrow_normalize(
    b: TosaBuilder, x: Value, rows: Rows, floor: float, center: bool
) -> tuple[Value, float]:
    """Full-size values have 16 bits, as far as Ethos-U multiplies 16 bits faster than 32.

    The deviation is shifted to 16 bits by as much as its row's variance leaves room for, so that
    rows that hardly vary are as precise as others.
    """
    count = rows.count(x.type.ints)
    if x.type.dtype is DType.INT8:
        deviation = deviation_from_mean(b, x, rows, count) if center else _from_zero(b, x)
        largest = 2.0**14 if center else 2.0**16  # of a mean square of codes
        shift = ceil(log2(count * (largest + floor)) - RESCALED_BITS) + 14
        v = _sum_of_squared_codes(b, x, rows, 14 - shift, center)
    else:
        deviation = _halved_deviation(b, x, rows, count) if center else _from_zero(b, x)
        v, shift = _sum_of_squares(b, deviation, rows, floor, center)
    tiny = round(count * floor * deviation.fine**2 * 2.0**-shift)
    v = b.ADD(v, number(b, v, max(tiny, 2)))  # v << shift is the sum of the squared deviations
    t, h = narrow_inverse_sqrt(b, v)  # 2**29 / (sqrt(v) << h), h at least 1
    one = number(b, v, 1)
    factor = b.LOGICAL_LEFT_SHIFT(one, b.SUB(h, one))
    if t.type.dtype is DType.INT16:
        factor = b.rescale(b.rescale(factor, 1.0, DType.INT16), 1.0, DType.INT32)
        t = b.rescale(t, 1.0, DType.INT32)
    # |deviation| <= sqrt(v << shift), so that deviation << (h - cut) has 16 bits
    cut = ceil((shift + 1) / 2)
    d = b.rescale(multiply(b, deviation.value, factor), 2.0 ** (1 - cut), DType.INT16)
    product = multiply(b, b.rescale(d, 1.0, DType.INT32), t)
    return product, sqrt(count) * 2.0 ** (cut - 29 - shift / 2)


def _sum_of_squared_codes(b: TosaBuilder, x: Value, rows: Rows, fine: int, center: bool) -> Value:
    """Sum over rows of (x - mean)**2, or of (x - zero point)**2, times 2**fine, exactly rounded.

    From the sums of the codes and of their squares, which 16 and 32 bits hold exactly.
    """
    assert x.type.quant is not None
    count, zero = rows.count(x.type.ints), x.type.quant.zp
    codes = b.rescale(x, 1.0, DType.INT32)
    squares = b.rescale(multiply(b, codes, codes), 1.0, DType.INT16)
    total = sum_rows(b, Sum(b.rescale(squares, 1.0, DType.INT32), 2.0**14), rows)
    v = b.rescale(total.value, 2.0 ** (fine + total.shift), DType.INT32)
    if not center and zero == 0:
        return v
    linear = sum_rows(b, Sum(codes, 2.0**7), rows)
    if center:
        cut = max(ceil(2 * log2(linear.bound) - SUM_BITS), 0)
        square = multiply(b, linear.value, linear.value, cut)
        scale = 2.0 ** (cut + fine + 2 * linear.shift) / count
        return b.SUB(v, b.rescale(square, scale, DType.INT32))  # type: ignore[no-any-return]
    v = b.ADD(v, number(b, v, round(count * zero**2 * 2.0**fine)))
    mixed = b.rescale(linear.value, 2 * abs(zero) * 2.0 ** (fine + linear.shift), DType.INT32)
    return b.SUB(v, mixed) if zero > 0 else b.ADD(v, mixed)  # type: ignore[no-any-return]


def _wide_normalize(
    b: TosaBuilder, x: Value, rows: Rows, floor: float, center: bool, precise: bool
) -> tuple[Value, float]:
    """In 32 bits."""
    count = rows.count(x.type.ints)
    deviation = _exact_deviation(b, x, rows, count) if center else _wide_from_zero(b, x)
    v, shift = _sum_of_squares(b, deviation, rows, floor, center, early=not precise)
    tiny = round(count * floor * deviation.fine**2 * 2.0**-shift)
    v = b.ADD(v, number(b, v, max(tiny, 1)))
    r = precise_inverse_sqrt(b, v) if precise else inverse_sqrt(b, v)

    # d / sqrt(v << shift) * sqrt(count); |d| is at most sqrt(v << shift), r is 2**29 / sqrt(v)
    cut = ceil(shift / 2)
    product = multiply(b, deviation.value, r, cut)
    return product, sqrt(count) * 2.0 ** (cut - 29 - shift / 2)


def _sum_of_squares(
    b: TosaBuilder, deviation: Deviation, rows: Rows, floor: float, center: bool,
    early: bool = False,
) -> tuple[Value, int]:  # fmt: skip
    """(v, shift): the sum of the squared deviations is v << shift; with eps v is below 2**29.

    `early`: the squares are shifted by as much, so that their sum needs no RESCALE.
    """
    d, square = deviation.value, deviation.reach**2
    shape = d.type.ints
    count = rows.count(shape)
    limit = count * square / (4 if center else 1)  # of the sum: half the range is the most
    length = stages(shape[rows.axes[0]])[0] if rows.axes else shape[1] // max(rows.groups, 1)
    most = max(min(square * length, limit), square)  # of a square and of the first sum
    whole = limit + count * floor * deviation.fine**2
    first = max(ceil(log2(most) - SUM_BITS), ceil(log2(whole) - RESCALED_BITS) if early else 0, 0)
    squares = Sum(multiply(b, d, d, first), square * 2.0**-first, first, limit)
    total = sum_rows(b, squares, rows)
    shift = max(ceil(log2(whole) - RESCALED_BITS), total.shift)
    if shift == total.shift:
        return total.value, shift
    return b.rescale(total.value, 2.0 ** (total.shift - shift), DType.INT32), shift


def deviation_from_mean(b: TosaBuilder, x: Value, rows: Rows, count: int) -> Deviation:
    """x - mean: of 8-bit codes with 7 more bits in 16, of 16-bit ones with 4 more in 32."""
    total = Sum(b.rescale(x, 1.0, DType.INT32), 2.0 ** (x.type.dtype.bits - 1))
    total = sum_rows(b, total, rows)
    if x.type.dtype is DType.INT16:
        mean = b.rescale(total.value, 16.0 * 2.0**total.shift / count, DType.INT32)
        return Deviation(b.SUB(b.rescale(x, 16.0, DType.INT32), mean), 16.0, 2.0**20)
    mean = b.rescale(total.value, 128.0 * 2.0**total.shift / count, DType.INT16)
    codes = b.rescale(b.rescale(x, 128.0, DType.INT16), 1.0, DType.INT32)
    narrow = b.rescale(b.SUB(codes, b.rescale(mean, 1.0, DType.INT32)), 1.0, DType.INT16)
    return Deviation(b.rescale(narrow, 1.0, DType.INT32), 128.0, 2.0**15)


def _exact_deviation(b: TosaBuilder, x: Value, rows: Rows, count: int) -> Deviation:
    """x - mean in 32 bits: count * x - sum, exactly, unless a row is too long for that."""
    bits, codes = x.type.dtype.bits, b.rescale(x, 1.0, DType.INT32)
    total = sum_rows(b, Sum(codes, 2.0 ** (bits - 1)), rows)
    fine, mean = count, total.value
    if total.shift or fine << bits > 2**30:
        fine = 2 ** (29 - bits)
        mean = b.rescale(total.value, fine * 2.0**total.shift / count, DType.INT32)
    deviation = b.SUB(multiply(b, codes, number(b, codes, fine)), mean)
    return Deviation(deviation, fine, fine * 2.0**bits)


def _wide_from_zero(b: TosaBuilder, x: Value) -> Deviation:
    """x itself in 32 bits, for the root mean square."""
    assert x.type.quant is not None
    if x.type.dtype is DType.INT16:
        return Deviation(b.rescale(x, 1.0, DType.INT32), 1.0, 2.0**15)
    return Deviation(b.rescale(x, 128.0, DType.INT32, in_zp=x.type.quant.zp), 128.0, 2.0**15)


def _from_zero(b: TosaBuilder, x: Value) -> Deviation:
    """x itself, for the root mean square."""
    assert x.type.quant is not None
    if x.type.dtype is DType.INT16:
        return Deviation(b.rescale(x, 1.0, DType.INT32), 1.0, 2.0**15)
    narrow = b.rescale(x, 128.0, DType.INT16, in_zp=x.type.quant.zp)
    return Deviation(b.rescale(narrow, 1.0, DType.INT32), 128.0, 2.0**15)


def _halved_deviation(b: TosaBuilder, x: Value, rows: Rows, count: int) -> Deviation:
    """x - mean of 16-bit codes in 16 bits, for 8-bit results."""
    codes = b.rescale(x, 1.0, DType.INT32)
    total = sum_rows(b, Sum(codes, 2.0**15), rows)
    mean = b.rescale(total.value, 2.0**total.shift / count, DType.INT16)
    difference = b.SUB(codes, b.rescale(mean, 1.0, DType.INT32))
    narrow = b.rescale(difference, 0.5, DType.INT16)
    return Deviation(b.rescale(narrow, 1.0, DType.INT32), 0.5, 2.0**15)
