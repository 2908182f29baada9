"""Normalization of quantized values in integers: mean, variance and inverse root per row.

All of a row's statistics are INT32 numbers of one element per row; full-size values have 16 bits
where it can be. Precise to a step also for rows that vary by less than one step of the input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, log2, sqrt

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tosa.fixed_point import (
    inverse_sqrt,
    multiply,
    number,
    precise_inverse_sqrt,
)
from npuc.lowering.tosa_builder import TosaBuilder

#: an axis is summed in two stages above this length, so that less is rounded away before
LONGEST_STAGE = 1024

#: sums stay below 2**SUM_BITS
SUM_BITS = 30.99


@dataclass(frozen=True)
class Rows:
    """What is normalized together.

    axes: of the value, reduced in this order. groups: 0, or how many groups the channels (axis 1)
    form, in which case the channels of a group are reduced as well.
    """

    axes: tuple[int, ...]
    groups: int = 0

    def count(self, shape: Sequence[int]) -> int:
        """Number of elements in a row."""
        inner = int(np.prod([shape[a] for a in self.axes], dtype=np.int64))
        return inner * (shape[1] // self.groups if self.groups else 1)


@dataclass
class Sum:
    """A sum in the making: `value` << shift, of magnitude `bound` << shift.

    limit: bound of the whole sum, where it is known to be less than what its addends could give.
    """

    value: Value
    bound: float
    shift: int = 0
    limit: float = float("inf")

    def make_room(self, b: TosaBuilder, count: int) -> None:
        """Shift right, so that `count` addends cannot overflow."""
        most = min(self.bound * count, self.limit * 2.0**-self.shift)
        less = max(ceil(log2(most) - SUM_BITS), 0)
        if less:
            self.value = b.rescale(self.value, 2.0**-less, DType.INT32)
        self.shift += less
        self.bound = min(self.bound * count, self.limit * 2.0 ** (less - self.shift)) * 2.0**-less


def sum_rows(b: TosaBuilder, total: Sum, rows: Rows) -> Sum:
    """INT32 values summed over rows. Addends are shifted right before a stage could overflow."""
    for axis in rows.axes:
        for part in _stages(total.value.type.ints[axis]):
            total.make_room(b, part)
            shape = total.value.type.ints
            split = (*shape[:axis], shape[axis] // part, part, *shape[axis + 1 :])
            x = b.REDUCE_SUM(b.reshape(total.value, split), axis=axis + 1)
            total.value = b.reshape(x, (*shape[:axis], shape[axis] // part, *shape[axis + 1 :]))
    if rows.groups:
        _sum_groups(b, total, rows.groups)
    return total


def _sum_groups(b: TosaBuilder, total: Sum, groups: int) -> None:
    """[N, C, 1...] summed over the channels of each group, and repeated for each of them."""
    shape = total.value.type.ints
    members = shape[1] // groups
    if members == 1:
        return
    total.make_room(b, members)
    x = b.REDUCE_SUM(b.reshape(total.value, (shape[0], groups, members)), axis=2)
    total.value = b.reshape(b.TILE(x, (1, 1, members)), shape)


def _stages(length: int) -> tuple[int, ...]:
    """Lengths of the sums that together make up one over `length`."""
    if length <= LONGEST_STAGE:
        return (length,)
    first = max(d for d in range(1, LONGEST_STAGE + 1) if length % d == 0)
    return (length,) if first == 1 else (first, *_stages(length // first))


@dataclass(frozen=True)
class Deviation:
    """x - mean in steps of 1 / fine of x's own; `reach` bounds its magnitude."""

    value: Value
    fine: float
    reach: float


def normalize(
    b: TosaBuilder, x: Value, rows: Rows, eps: float, center: bool = True
) -> tuple[Value, float]:
    """(x - mean) / sqrt(var + eps) of the quantized `x`: an INT32 and what its step is worth.

    Without `center` the mean is left out (root mean square).
    """
    quant = x.type.quant
    if quant is None or x.type.dtype not in (DType.INT8, DType.INT16):
        b.refuse(f"normalization of {x.type.dtype.name} values, not quantized to 8 or 16 bits")
    assert quant is not None
    count = rows.count(x.type.ints)
    deviation = deviation_from_mean(b, x, rows, count) if center else _from_zero(b, x)
    d = deviation.value

    square = deviation.reach**2
    limit = count * square / (4 if center else 1)  # of the sum: half the range is the most
    first = _shift_of_squares(x.type.ints, rows, square, limit)
    squares = Sum(multiply(b, d, d, first), square * 2.0**-first, first, limit)
    total = sum_rows(b, squares, rows)

    floor = count * eps * (deviation.fine / quant.s) ** 2  # eps in units of the sum
    shift = max(ceil(log2(limit + floor) - SUM_BITS), total.shift)
    v = total.value
    if shift > total.shift:
        v = b.rescale(v, 2.0 ** (total.shift - shift), DType.INT32)
    v = b.ADD(v, number(b, v, max(round(floor * 2.0**-shift), 1)))
    r = precise_inverse_sqrt(b, v) if x.type.dtype is DType.INT16 else inverse_sqrt(b, v)

    # d / sqrt(v << shift) * sqrt(count); |d| is at most sqrt(v << shift), r is 2**29 / sqrt(v)
    cut = ceil(shift / 2)
    return multiply(b, d, r, cut), sqrt(count) * 2.0 ** (cut - 29 - shift / 2)


def _shift_of_squares(shape: Sequence[int], rows: Rows, square: float, limit: float) -> int:
    """By how much squares are shifted, so that they and the first sum have room."""
    first = _stages(shape[rows.axes[0]])[0] if rows.axes else shape[1] // max(rows.groups, 1)
    return max(ceil(max(log2(min(square * first, limit)), log2(square)) - SUM_BITS), 0)


def deviation_from_mean(b: TosaBuilder, x: Value, rows: Rows, count: int) -> Deviation:
    """x - mean: as INT16 with 7 more bits than 8-bit codes, as INT32 with 4 more than 16-bit ones."""
    total = Sum(b.rescale(x, 1.0, DType.INT32), 2.0 ** (x.type.dtype.bits - 1))
    total = sum_rows(b, total, rows)
    if x.type.dtype is DType.INT16:
        mean = b.rescale(total.value, 16.0 * 2.0**total.shift / count, DType.INT32)
        return Deviation(b.SUB(b.rescale(x, 16.0, DType.INT32), mean), 16.0, 2.0**20)
    mean = b.rescale(total.value, 128.0 * 2.0**total.shift / count, DType.INT16)
    codes = b.rescale(b.rescale(x, 128.0, DType.INT16), 1.0, DType.INT32)
    narrow = b.rescale(b.SUB(codes, b.rescale(mean, 1.0, DType.INT32)), 1.0, DType.INT16)
    return Deviation(b.rescale(narrow, 1.0, DType.INT32), 128.0, 2.0**15)


def _from_zero(b: TosaBuilder, x: Value) -> Deviation:
    """x itself, for the root mean square."""
    assert x.type.quant is not None
    if x.type.dtype is DType.INT16:
        return Deviation(b.rescale(x, 1.0, DType.INT32), 1.0, 2.0**15)
    narrow = b.rescale(x, 128.0, DType.INT16, in_zp=x.type.quant.zp)
    return Deviation(b.rescale(narrow, 1.0, DType.INT32), 128.0, 2.0**15)


@dataclass(frozen=True)
class Affine:
    """gamma and beta per channel (axis `axis`; None: 1 and 0), and the largest |z| there can be."""

    gamma: np.ndarray | None
    beta: np.ndarray | None
    axis: int
    largest: float

    def useful(self, out: Quant) -> float:
        """The largest |z| that makes a difference: beyond it every result is saturated."""
        ends = out.dequantize(np.array([out.qmin, out.qmax]))
        reach = np.abs(ends).max() + (0 if self.beta is None else np.abs(self.beta))
        gamma = np.ones(1) if self.gamma is None else np.abs(self.gamma)
        matters = gamma * self.largest > out.s / 4
        with np.errstate(divide="ignore"):
            needed = np.where(matters, reach / gamma, 0.0)
        return float(min(max(needed.max(), out.s), self.largest))


ApplyAffine = Callable[[TosaBuilder, Value, float, Affine, TensorType], Value]


def multiply_and_add(
    b: TosaBuilder, z: Value, worth: float, affine: Affine, out: TensorType
) -> Value:
    """z * gamma + beta as MUL and ADD by 16-bit constants; `worth` is that of a step of z."""
    assert out.quant is not None
    if out.dtype is not DType.INT8:
        return _wide_multiply_and_add(b, z, worth, affine, out)
    gamma, beta = affine.gamma, affine.beta
    y = z
    if gamma is not None:
        step = affine.useful(out.quant) / 32767
        z16 = b.rescale(z, worth / step, DType.INT16)
        factor, scale = _factor(b, z, gamma, affine.axis)
        y = multiply(b, b.rescale(z16, 1.0, DType.INT32), b.rescale(factor, 1.0, DType.INT32))
        worth = step * scale
    if beta is None:
        return b.requantize(y, np.float64(worth), out)
    ends = out.quant.dequantize(np.array([out.quant.qmin, out.quant.qmax]))
    step = (float(np.abs(ends).max()) + float(np.abs(beta).max())) / 32767
    y16 = b.rescale(y, worth / step, DType.INT16)
    addend = _along(b, z, np.rint(beta / step), affine.axis, DType.INT16)
    y = b.ADD(b.rescale(y16, 1.0, DType.INT32), b.rescale(addend, 1.0, DType.INT32))
    return b.requantize(y, np.float64(step), out)


def _wide_multiply_and_add(
    b: TosaBuilder, z: Value, worth: float, affine: Affine, out: TensorType
) -> Value:
    """The same in 32 bits, for 16-bit results."""
    y = z
    room = 0.0 if affine.beta is None else float(np.abs(affine.beta).max())
    if affine.gamma is not None:
        factor, scale = _factor(b, z, affine.gamma, affine.axis)
        shift = 16 + max(ceil(log2(max(room / (worth * scale * 2.0**16), 1.0)) - 29), 0)
        y = multiply(b, z, b.rescale(factor, 1.0, DType.INT32), shift)
        worth *= scale * 2.0**shift
    if affine.beta is not None:
        step = max(worth * 2, room / 2.0**29)
        addend = _along(b, z, np.rint(affine.beta / step), affine.axis, DType.INT32)
        y, worth = b.ADD(b.rescale(y, worth / step, DType.INT32), addend), step
    return b.requantize(y, np.float64(worth), out)


def _factor(b: TosaBuilder, like: Value, gamma: np.ndarray, axis: int) -> tuple[Value, float]:
    """gamma as 16-bit constant, and what its step is worth."""
    scale = max(float(np.abs(gamma).max()), 1e-30) / 32767
    return _along(b, like, np.rint(gamma / scale), axis, DType.INT16), scale


def _along(b: TosaBuilder, like: Value, values: np.ndarray, axis: int, dtype: DType) -> Value:
    """A vector as a constant along `axis` of `like`."""
    shape = [1] * like.type.rank
    shape[axis] = -1
    return b.const(values.astype(dtype.numpy).reshape(shape))
