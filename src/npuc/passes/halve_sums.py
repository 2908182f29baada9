"""Sums over other axes than the last in halves, for Ethos-U85: ADD of two halves, and so on.

Vela puts a TRANSPOSE of the whole tensor in front of such a REDUCE_SUM. A tree of ADDs takes 0.25
cycles per element: the mean of 7x7x1280 15k cycles instead of 84k, of 8x8x64 1.0k instead of 3.8k
(U85-256, Vela 5.2). Exact: 16 bits hold the sums of up to 128 numbers of 8 bits, then 32 bits do.
"""

from __future__ import annotations

from math import prod

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.cheapen_rescales import unit_rescale
from npuc.passes.merge_rescales import scale_of, zero_points

#: elements behind the axis, and elements in all, from which on it pays
INNER, FEWEST = 8, 256


def halve_sums(graph: Graph, limits: Limits) -> Graph:
    """REDUCE_SUM of widened 8-bit values over an axis that is not the last -> a tree of ADDs."""

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind != "tosa.REDUCE_SUM" or not operands[0].type.is_static:
            return None
        axis, shape = op.attrs["axis"], operands[0].type.ints
        if prod(shape[axis + 1 :]) < INNER or prod(shape) < FEWEST or shape[axis] < 2:
            return None
        widening = operands[0].op
        if widening is None or not _widens(widening):
            return None
        x, zero = widening.operands[0], zero_points(widening)[0]
        try:
            return (_sum(b, x, axis, zero),)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def _widens(op: Op) -> bool:
    """A RESCALE of 8-bit codes by one to INT32."""
    if op.kind != "tosa.RESCALE" or op.attrs["per_channel"] or op.attrs["input_unsigned"]:
        return False
    if op.operands[0].type.dtype is not DType.INT8 or zero_points(op)[1]:
        return False
    return not op.operands[0].is_const and float(scale_of(op)[0]) == 1.0


def _sum(b: OpBuilder, x: Value, axis: int, zero: int) -> Value:
    """The sum of `x` - `zero` over an axis, in INT32, in as many ADDs as the length has bits."""
    largest = max(127 - zero, 128 + zero)  # magnitude of an element
    rows, count = x, 1  # each of `rows` is the sum of `count` elements
    left_over: list[tuple[Value, int]] = []
    while rows.type.ints[axis] > 1:
        size = rows.type.ints[axis]
        if size % 2:
            left_over.append((_part(b, rows, axis, size - 1, 1), count))
        first, second = (_part(b, rows, axis, k * (size // 2), size // 2) for k in range(2))
        count *= 2
        rows = _add(b, first, second, zero, count * largest)
    for row, addends in left_over:
        count += addends
        rows = _add(b, rows, _like(b, row, rows.type.dtype, zero), zero, count * largest)
    return _widened(b, rows, zero)


def _part(b: OpBuilder, x: Value, axis: int, start: int, size: int) -> Value:
    begin = [start if i == axis else 0 for i in range(x.type.rank)]
    shape = [size if i == axis else d for i, d in enumerate(x.type.ints)]
    return b.SLICE(x, tuple(begin), tuple(shape))  # type: ignore[no-any-return]


def _widened(b: OpBuilder, x: Value, zero: int) -> Value:
    """INT32 without zero point, which codes of 8 bits alone have."""
    if x.type.dtype is DType.INT32:
        return x
    return unit_rescale(b, x, b.scalar(zero if x.type.dtype is DType.INT8 else 0, x.type.dtype, 1))


def _add(b: OpBuilder, x: Value, y: Value, zero: int, bound: int) -> Value:
    """x + y in 16 bits where these hold numbers up to `bound`, else in 32."""
    total = b.ADD(_widened(b, x, zero), _widened(b, y, zero))
    return unit_rescale(b, total, dtype=DType.INT16) if bound < 2**15 else total


def _like(b: OpBuilder, row: Value, dtype: DType, zero: int) -> Value:
    """`row` with `dtype`: two types in one ADD are two operations. 8 bits widen as a product."""
    if row.type.dtype is dtype or row.type.dtype is not DType.INT8:
        return row
    one = b.const(np.ones((1,) * row.type.rank, np.int8))
    wide = b.MUL(_widened(b, row, zero), unit_rescale(b, one), b.scalar(0, DType.INT8, 1))
    return unit_rescale(b, wide, dtype=DType.INT16)
