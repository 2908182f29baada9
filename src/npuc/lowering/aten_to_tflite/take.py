"""Indexing: GATHER, GATHER_ND, SCATTER_ND, TOPK_V2."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npuc.ir import DType, Value
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder


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
    linear: Value | None = None
    for k, v in enumerate(found):
        part = _wrapped(b, _index(b, v), sizes[k])
        part = _linear(b, part, prod(sizes[k + 1 : len(axes)]), np.zeros((), np.int64))
        linear = part if linear is None else b.ADD(*_ranked(b, linear, part))
    assert linear is not None
    flat = b.reshape(moved, (prod(sizes[: len(axes)]), *sizes[len(axes) :]))
    y = b.GATHER(flat, linear, axis=0)
    together = axes == list(range(axes[0], axes[0] + len(axes)))
    if together and axes[0] > 0:
        rank, count = linear.type.rank, axes[0]
        front = [rank + i for i in range(count)]
        y = b.transpose(y, [*front, *range(rank), *range(rank + count, y.type.rank)])
    return b.as_result(y)


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
    b.require(x.type.quant is None, "the smallest elements of a quantized tensor")
    values, places = b.TOPK_V2(b.NEG(moved), k=(k,))
    return b.NEG(b.transpose(values, back)), b.transpose(places, back)


@lowers("aten.index_put", dialect="tflite")
def index_put(
    b: TfliteBuilder, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool
) -> Value:
    """index_put along the leading axes -> SCATTER_ND of the values, SELECT_V2 by a mask; or ADD."""
    found = [v for v in indices if v is not None]
    b.require(
        list(indices[: len(found)]) == found and all(v.type.dtype is not DType.BOOL for v in found),
        "index_put with a mask or along inner axes",
    )
    if x.type.quant is not None:
        x, values = b.as_result(x), b.requantize(b.operand(values), b.out[0])
    parts = [_wrapped(b, _index(b, v), n) for v, n in zip(found, x.type.ints, strict=False)]
    parts = _ranked(b, *parts)
    places = tuple(np.broadcast_shapes(*[p.type.ints for p in parts]))
    columns = [b.reshape(_spread(b, p, places), (*places, 1)) for p in parts]
    where = b.CONCATENATION(*columns, axis=len(places)) if len(columns) > 1 else columns[0]
    rows = (*places, *x.type.ints[len(found) :])
    return _scattered(b, x, where, _spread(b, values, rows), accumulate)


def _spread(b: TfliteBuilder, x: Value, shape: Sequence[int]) -> Value:
    from npuc.lowering.aten_to_tflite.move import broadcast_to

    return broadcast_to(b, b.match_rank(x, len(shape)), shape)


def _scattered(b: TfliteBuilder, x: Value, where: Value, rows: Value, accumulate: bool) -> Value:
    """`x` with `rows` at `where`. SCATTER_ND adds what falls on one place."""
    if accumulate:
        b.require(x.type.quant is None, "an accumulating index_put of quantized values")
        return b.ADD(x, b.SCATTER_ND(where, rows, shape=x.type.ints))  # type: ignore[no-any-return]
    unique = where.is_const and len(
        np.unique(where.array.reshape(-1, where.type.ints[-1]), axis=0)
    ) == (where.type.size // where.type.ints[-1])
    b.require(unique, "index_put at computed or repeated places")
    flags = np.zeros(x.type.ints, np.bool_)
    flags[tuple(np.moveaxis(where.array, -1, 0))] = True
    made = b.SCATTER_ND(where, rows, shape=x.type.ints)
    return b.SELECT_V2(b.const(flags), made, x)  # type: ignore[no-any-return]


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
    if x.type.quant is not None:
        x, source = b.as_result(x), b.requantize(b.operand(source), b.out[0])
    source = b.slice(source, [0] * source.type.rank, wanted)
    count = prod(wanted)
    flat = _scattered(
        b, b.reshape(x, (x.type.size,)), b.reshape(linear, (count, 1)), b.reshape(source, (count,)),
        b.op.kind == "aten.scatter_add",
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
