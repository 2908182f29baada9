"""Indexing: GATHER, GATHER_ND, SCATTER_ND, TOPK_V2."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npuc.ir import DType, Quant, Value
from npuc.lowering.aten_to_tflite.operands import wide_type
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder

#: places times rows that are compared to find who writes a row last
MOST_MATCHES = 2**22


@lowers("aten.embedding", dialect="tflite")
def embedding(b: TfliteBuilder, weight: Value, indices: Value, *_: object) -> Value:
    """embedding -> GATHER of rows."""
    weight = b.as_result(weight)
    return b.GATHER(weight, _index(b, indices), axis=0)  # type: ignore[no-any-return]


@lowers("aten.index_select", dialect="tflite")
def index_select(b: TfliteBuilder, x: Value, dim: int, index: Value) -> Value:
    """index_select -> GATHER."""
    if x.is_const:
        x = b.as_result(x)
    index = _wrapped(b, _index(b, index), x.type.ints[dim])
    return b.as_result(b.GATHER(x, b.reshape(index, (index.type.size,)), axis=dim))


def _index(b: TfliteBuilder, index: Value) -> Value:
    """Indices as INT32."""
    if index.type.dtype is DType.INT32:
        return index
    if index.is_const:
        return b.const(index.array.astype(np.int32))
    return b.CAST(index, dtype=DType.INT32)  # type: ignore[no-any-return]


def _wrapped(b: TfliteBuilder, index: Value, size: int) -> Value:
    """Negative indices count from the end; constants at once."""
    if index.is_const:
        array = index.array
        return b.const(np.where(array < 0, array + size, array).astype(np.int32))
    rank = index.type.rank
    negative = b.LESS(index, b.scalar(0, DType.INT32, rank))
    shifted = b.ADD(index, b.scalar(size, DType.INT32, rank))
    return b.SELECT_V2(negative, shifted, index)  # type: ignore[no-any-return]


@lowers("aten.gather", dialect="tflite")
def gather(b: TfliteBuilder, x: Value, dim: int, index: Value) -> Value:
    """gather -> GATHER of the flat tensor by linear indices."""
    shape, wanted = x.type.ints, index.type.ints
    if not shape:
        return b.as_result(b.reshape(x, wanted))
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    grid = np.zeros(wanted, np.int64)
    for axis, stride in enumerate(strides):
        if axis != dim:
            along = [1] * len(wanted)
            along[axis] = -1
            grid = grid + (np.arange(wanted[axis]) * stride).reshape(along)
    linear = _linear(b, _wrapped(b, _index(b, index), shape[dim]), strides[dim], grid)
    flat = b.reshape(x, (x.type.size,))
    return b.as_result(b.GATHER(flat, linear, axis=0))


def _linear(b: TfliteBuilder, index: Value, stride: int, grid: np.ndarray) -> Value:
    """index * stride + grid."""
    if index.is_const:
        return b.const((index.array.astype(np.int64) * stride + grid).astype(np.int32))
    if stride != 1:
        index = b.MUL(index, b.scalar(stride, DType.INT32, index.type.rank))
    return b.ADD(index, b.const(grid.astype(np.int32))) if grid.any() else index


@lowers("aten.index.Tensor", "aten.index", dialect="tflite")
def index(b: TfliteBuilder, x: Value, indices: Sequence[Value | None]) -> Value:
    """x[i, j, ...] -> GATHER along the indexed axes, flattened when there are several."""
    axes = [i for i, v in enumerate(indices) if v is not None]
    found = [v for v in indices if v is not None]
    b.require(
        all(v.type.dtype is not DType.BOOL for v in found),
        "a mask as an index: its size is unknown",
    )
    order = [*axes, *(i for i in range(x.type.rank) if i not in axes)]
    moved = b.transpose(x, order)
    sizes = moved.type.ints
    linear = _linear_index(b, found, sizes[: len(axes)])
    flat = b.reshape(moved, (prod(sizes[: len(axes)]), *sizes[len(axes) :]))
    y = b.GATHER(flat, linear, axis=0)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    if together and axes[0] > 0:
        rank, count = linear.type.rank, axes[0]
        front = [rank + i for i in range(count)]
        y = b.transpose(y, [*front, *range(rank), *range(rank + count, y.type.rank)])
    return b.as_result(y)


def _linear_index(b: TfliteBuilder, indices: Sequence[Value], sizes: Sequence[int]) -> Value:
    """One index into axes of `sizes` taken together; the indices broadcast."""
    linear: Value | None = None
    for k, v in enumerate(indices):
        part = _wrapped(b, _index(b, v), sizes[k])
        part = _linear(b, part, prod(sizes[k + 1 :]), np.zeros((), np.int64))
        if linear is None:
            linear = part
        elif linear.is_const and part.is_const:
            linear = b.const(linear.array + part.array)
        else:
            linear = b.ADD(*_ranked(b, linear, part))
    assert linear is not None
    return linear


def _ranked(b: TfliteBuilder, *values: Value) -> list[Value]:
    rank = max(v.type.rank for v in values)
    return [b.match_rank(v, rank) for v in values]


@lowers("aten.topk", dialect="tflite")
def topk(
    b: TfliteBuilder, x: Value, k: int, dim: int, largest: bool, sorted: bool
) -> tuple[Value, ...]:
    """topk -> TOPK_V2 of the last axis; the smallest ones as the largest of the negated."""
    return _topk(b, x, k, dim, largest)


@lowers("aten.sort", dialect="tflite")
def sort(b: TfliteBuilder, x: Value, dim: int, descending: bool) -> tuple[Value, ...]:
    """sort -> TOPK_V2 of all elements."""
    return _topk(b, x, x.type.ints[dim], dim, descending)


def _topk(b: TfliteBuilder, x: Value, k: int, dim: int, largest: bool) -> tuple[Value, ...]:
    rank = x.type.rank
    order = [*(i for i in range(rank) if i != dim), dim]
    back = [order.index(i) for i in range(rank)]
    moved = b.transpose(x, order)
    if largest:
        values, places = b.TOPK_V2(moved, k=(k,))
        return b.as_result(b.transpose(values, back)), b.transpose(places, back)
    values, places = b.TOPK_V2(_negated(b, moved), k=(k,))
    return b.as_result(_negated(b, b.transpose(values, back))), b.transpose(places, back)


def _negated(b: TfliteBuilder, x: Value) -> Value:
    """-x; quantized with the order of its codes reversed: each of them exactly."""
    quant = x.type.quant
    if quant is None:
        return b.NEG(x)  # type: ignore[no-any-return]
    reversed_ = Quant(quant.s, -quant.zp if x.type.dtype is DType.INT16 else -1 - quant.zp)
    return b.lookup(x, np.negative, x.type.with_(quant=reversed_))


@lowers("aten.index_put", dialect="tflite")
def index_put(
    b: TfliteBuilder, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool
) -> Value:
    """index_put -> SELECT_V2 between a row and the last one written to its place; or a sum."""
    axes = [i for i, v in enumerate(indices) if v is not None]
    found = [v for v in indices if v is not None]
    if any(v.type.dtype is DType.BOOL for v in found):
        return _put_by_mask(b, x, axes, found, values, accumulate)
    if b.out[0].quant is not None:
        x, values = b.operand(x), b.operand(values)
        if not accumulate:
            x, values = b.as_result(x), b.requantize(values, b.out[0])
    order = [*axes, *(i for i in range(x.type.rank) if i not in axes)]
    moved = b.transpose(x, order)
    sizes, rest = moved.type.ints[: len(axes)], moved.type.ints[len(axes) :]
    index = _linear_index(b, found, sizes)
    rows = _rows(b, values, index.type.ints, rest, axes)
    flat = b.reshape(moved, (prod(sizes), *rest))
    made = write_rows(b, flat, b.reshape(index, (index.type.size,)), rows, accumulate)
    back = [order.index(i) for i in range(x.type.rank)]
    return b.transpose(b.reshape(made, moved.type.ints), back)


def _put_by_mask(
    b: TfliteBuilder, x: Value, axes: list[int], found: list[Value], values: Value, accumulate: bool
) -> Value:
    """One mask and one value, or a value for each element of the other axes: SELECT_V2."""
    mask, first = found[0], axes[0]
    rest = x.type.rank - first - mask.type.rank
    inner = values.type.size == 1 or values.type.rank <= rest
    b.require(
        len(found) == 1 and inner and not accumulate and mask.type.dtype is DType.BOOL,
        "index_put by a mask of as many values as it has ones",
    )
    if b.out[0].quant is not None:
        x, values = b.as_result(x), b.requantize(b.operand(values), b.out[0])
    shape = (*(1,) * first, *mask.type.ints, *(1,) * rest)
    mask = b.reshape(mask, shape)
    if values.type.size == 1:
        values = b.reshape(values, ())
    return b.SELECT_V2(mask, b.match_rank(values, x.type.rank), x)  # type: ignore[no-any-return]


def _rows(
    b: TfliteBuilder, values: Value, places: tuple[int, ...], rest: tuple[int, ...], axes: list[int]
) -> Value:
    """The values as [number of places, rest...]. Neighbouring indexed axes keep their position."""
    first = axes[0] if axes == list(range(axes[0], axes[0] + len(axes))) else 0
    shape = (*rest[:first], *places, *rest[first:])
    spread = _spread(b, values, shape)
    count = len(places)
    front = [*range(first, first + count), *range(first), *range(first + count, len(shape))]
    return b.reshape(b.transpose(spread, front), (prod(places), *rest))


def _spread(b: TfliteBuilder, x: Value, shape: Sequence[int]) -> Value:
    from npuc.lowering.aten_to_tflite.move import broadcast_to

    return broadcast_to(b, b.match_rank(x, len(shape)), shape)


def write_rows(b: TfliteBuilder, x: Value, index: Value, rows: Value, accumulate: bool) -> Value:
    """`x` [R, ...] with `rows` [K, ...] written at `index` [K], the later ones over the earlier."""
    count, size = rows.type.ints[0], x.type.ints[0]
    if accumulate:
        where = b.reshape(index, (count, 1))
        if x.type.quant is not None:
            return _quantized_sum(b, x, where, rows)
        return b.ADD(x, b.SCATTER_ND(where, rows, shape=x.type.ints))  # type: ignore[no-any-return]
    if index.is_const:
        last = np.zeros(size, np.int32)
        last[index.array] = np.arange(1, count + 1)
        source: Value = b.const(last)
    else:
        b.require(
            count * size <= MOST_MATCHES, f"{count} computed places of {size} are too many to match"
        )
        places = b.const(np.arange(size, dtype=np.int32).reshape(1, size))
        match = b.EQUAL(b.reshape(index, (count, 1)), places)
        number = b.const(np.arange(1, count + 1, dtype=np.int32).reshape(count, 1))
        source = b.SELECT_V2(match, number, b.scalar(0, DType.INT32, 2))
        source = b.REDUCE_MAX(source, axes=(0,))
    zero, one = (b.scalar(v, DType.INT32, 1) for v in (0, 1))
    if source.is_const:
        written = b.const(source.array > 0)
        source = b.const(np.maximum(source.array - 1, 0))
    else:
        written = b.GREATER(source, zero)
        source = b.MAXIMUM(b.SUB(source, one), zero)
    made = b.GATHER(rows, source, axis=0)
    return b.SELECT_V2(b.reshape(written, (size, *[1] * (x.type.rank - 1))), made, x)  # type: ignore[no-any-return]


def _quantized_sum(b: TfliteBuilder, x: Value, where: Value, rows: Value) -> Value:
    """x plus what falls on each place: sums of codes in INT32, rounded once."""
    quant, out = rows.type.quant, b.out[0]
    assert quant is not None
    steps = b.CAST(rows, dtype=DType.INT32)
    steps = b.SUB(steps, b.scalar(quant.zp, DType.INT32, steps.type.rank))
    unit = Quant(quant.s, 0, None, *DType.INT32.range)
    total = b.SCATTER_ND(where, steps, shape=x.type.ints, quant=unit)
    wide = out.with_(dtype=DType.INT16, shape=total.type.shape, quant=wide_type(out).quant)
    part = b.QUANTIZE(total, dtype=DType.INT16, quant=wide.quant)
    return b.requantize(b.ADD(b.widened(x), part, quant=wide.quant), out)


@lowers("aten.scatter.src", "aten.scatter_add", dialect="tflite")
def scatter(b: TfliteBuilder, x: Value, dim: int, index: Value, source: Value) -> Value:
    """scatter, scatter_add -> SCATTER_ND by linear indices on the flat tensor."""
    assert b.op is not None
    shape, wanted = x.type.ints, index.type.ints
    strides = [prod(shape[i + 1 :]) for i in range(len(shape))]
    grid = sum(
        (np.arange(n) * s).reshape([-1 if i == axis else 1 for i in range(len(wanted))])
        for axis, (n, s) in enumerate(zip(wanted, strides, strict=True)) if axis != dim
    )  # fmt: skip
    linear = _linear(
        b, _wrapped(b, _index(b, index), shape[dim]), strides[dim], np.broadcast_to(grid, wanted)
    )
    adds = b.op.kind == "aten.scatter_add"
    if x.type.quant is not None:
        x, source = b.operand(x), b.operand(source)
        if not adds:
            x, source = b.as_result(x), b.requantize(source, b.out[0])
    source = b.slice(source, [0] * source.type.rank, wanted)
    count = prod(wanted)
    flat = write_rows(
        b, b.reshape(x, (x.type.size,)), b.reshape(linear, (count,)), b.reshape(source, (count,)),
        adds,
    )  # fmt: skip
    return b.reshape(flat, shape)


@lowers("aten.im2col", dialect="tflite")
def im2col(
    b: TfliteBuilder, x: Value, kernel: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], stride: Sequence[int],
) -> Value:  # fmt: skip
    """im2col (nn.Unfold) -> GATHER of every window."""
    from npuc.lowering.aten_to_tflite.move import padded

    pads = (0, 0, 0, 0, padding[0], padding[0], padding[1], padding[1])
    x = padded(b, x, pads, 0)
    n, c, h, w = x.type.ints
    rows, columns = (
        np.arange(k)[:, None] * d + np.arange((size - (k - 1) * d - 1) // s + 1)[None] * s
        for k, d, s, size in zip(kernel, dilation, stride, (h, w), strict=True)
    )
    index = rows[:, None, :, None] * w + columns[None, :, None, :]
    flat = b.reshape(x, (n, c, h * w))
    y = b.GATHER(flat, b.const(index.reshape(-1).astype(np.int32)), axis=2)
    return b.as_result(b.reshape(y, b.out[0].ints))


@lowers("aten.as_strided", dialect="tflite")
def as_strided(
    b: TfliteBuilder,
    x: Value,
    size: Sequence[int],
    stride: Sequence[int],
    storage_offset: int | None,
) -> Value:
    """as_strided of a contiguous tensor -> GATHER from the flat tensor."""
    index = np.full((), storage_offset or 0)
    for n, s in zip(size, stride, strict=True):
        index = index[..., None] + np.arange(n) * s
    flat = b.reshape(x, (x.type.size,))
    return b.as_result(b.GATHER(flat, b.const(index.astype(np.int32)), axis=0))
