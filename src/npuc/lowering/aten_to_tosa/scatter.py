"""Rules that write at index tensors: index_put, index_copy, scatter and their sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from npuc.ir import DType, Value
from npuc.ir.symbolic import largest
from npuc.lowering.aten_to_tosa.carry import carried, matched, settle
from npuc.lowering.aten_to_tosa.index import NO_GATHER
from npuc.lowering.aten_to_tosa.joint_index import joint_index
from npuc.lowering.aten_to_tosa.pool import is_static
from npuc.lowering.aten_to_tosa.rows import (
    affine,
    checked,
    element_index,
    reshaped_index,
    spread_index,
)
from npuc.lowering.aten_to_tosa.slice import placed
from npuc.lowering.aten_to_tosa.take import MAX_PIECES, cut, join, needs, split, take, tiled
from npuc.lowering.aten_to_tosa.write_rows import (
    Write,
    added_rows,
    apart_from_repeats,
    replaced_rows,
    replaced_rows_by_mask,
)
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

NO_SCATTER = NO_GATHER


def lowers_by_writing(kind: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register a rule with SCATTER, and with one-hot products for chips that lack it."""

    def register(rule: Callable[..., Value]) -> Callable[..., Value]:
        lowers(kind)(partial(rule, replaced_rows))
        lowers(kind, target=NO_SCATTER)(partial(rule, replaced_rows_by_mask))
        return rule

    return register


@lowers_by_writing("aten.index_put")
def index_put(
    write: Write, b: TosaBuilder, x: Value, indices: Sequence[Value | None], values: Value,
    accumulate: bool = False,
) -> Value:  # fmt: skip
    """x[indices] = values -> CONCAT where the index is constant, else SCATTER; a boolean mask:
    SELECT."""
    masks = [v for v in indices if v is not None and v.type.dtype is DType.BOOL]
    if masks:
        return _masked(b, x, indices, values, accumulate)
    joint = joint_index(b, x, indices)
    shape = (*joint.head, *joint.picked, *joint.tail)
    flat = (joint.before, joint.count, joint.after)
    src = carried(b, lambda v: b.reshape(broadcast_to(b, v, shape), flat), _alike(b, values))
    rows = carried(b, lambda v: joint.view(b, v), _alike(b, x))
    y = _written(write, b, rows, joint.index, src, accumulate)
    return settle(b, carried(b, lambda v: joint.restore(b, v, x.type.ints), y), b.out[0])


def _alike(b: TosaBuilder, x: Value) -> Value:
    """`x` with the parameters of the result."""
    return matched(b, x, b.out[0])


def broadcast_to(b: TosaBuilder, x: Value, shape: Sequence[int]) -> Value:
    """`x` broadcast to `shape`, of the same rank or a higher one."""
    x = b.match_rank(x, len(shape))
    return tiled(b, x, [n if d == 1 else 1 for d, n in zip(x.type.ints, shape, strict=True)])


def _masked(
    b: TosaBuilder, x: Value, indices: Sequence[Value | None], values: Value, accumulate: bool
) -> Value:
    """x[mask] = v, v the same for all chosen rows -> SELECT."""
    places = [(d, v) for d, v in enumerate(indices) if v is not None]
    b.require(len(places) == 1, "a boolean mask together with other indices")
    b.require(not accumulate, "a boolean mask with accumulate")
    (dim, mask), rank = places[0], x.type.rank
    behind = rank - dim - mask.type.rank
    value = b.match_rank(values, max(dim + 1 + behind, values.type.rank))
    b.require(
        value.type.ints[dim] == 1,
        f"values {values.type.shape} for a boolean mask: how many are used depends on the data",
        "give one value for all places, or use torch.where",
    )
    shape = value.type.ints
    value = b.reshape(value, (*shape[:dim], *([1] * mask.type.rank), *shape[dim + 1 :]))
    mask = b.reshape(mask, (*([1] * dim), *mask.type.ints, *([1] * behind)))
    y = b.SELECT(mask, _alike(b, value), _alike(b, x), quant=b.out[0].quant)
    return settle(b, y, b.out[0])


def _written(
    write: Write, b: TosaBuilder, rows: Value, index: Value, src: Value, accumulate: bool
) -> Value:
    """rows [N, K, C] with src [N, W, C] at index [1, W], the same for all N."""
    if index.is_const:
        places, last = _last_of_each(np.asarray(index.array).reshape(-1), rows.type.ints[1], b)
        unique = len(places) == index.array.size
        if unique or not accumulate:
            return _placed_rows(write, b, rows, places, last, src, accumulate)
    if accumulate:
        return added_rows(b, rows, _for_all(b, index, rows), src)
    if index.type.ints[1] == 1 or write is not replaced_rows:
        return write(b, rows, _for_all(b, index, rows), src)
    # of two entries with the same index the last one stays, as in PyTorch on a CPU; SCATTER leaves
    # that open, so the earlier ones go to rows that are cut off afterwards
    size, count = rows.type.ints[1], index.type.ints[1]
    index = apart_from_repeats(b, index, size)
    zero = b.scalar(0, rows.type.dtype, 3)
    spare = tiled(b, zero, (rows.type.ints[0], count, rows.type.ints[2]))
    longer = carried(b, lambda v, w: join(b, [v, w], 1), rows, spare)
    y = write(b, longer, _for_all(b, index, rows), src)
    return carried(b, lambda v: cut(b, v, 1, 0, size), y)


def _for_all(b: TosaBuilder, index: Value, rows: Value) -> Value:
    """The index [1, W] for each batch of the rows."""
    return spread_index(b, index, (rows.type.ints[0], index.type.ints[1]))


def _last_of_each(index: np.ndarray, size: int, b: TosaBuilder) -> tuple[np.ndarray, np.ndarray]:
    """The positions written, ascending, and for each the last entry of the index that names it."""
    index = checked(b, index, size)
    places, first_from_end = np.unique(index[::-1], return_index=True)
    return places, index.size - 1 - first_from_end


def _placed_rows(
    write: Write, b: TosaBuilder, rows: Value, places: np.ndarray, last: np.ndarray, src: Value,
    accumulate: bool,
) -> Value:  # fmt: skip
    """CONCAT of `src` with the rows between where the places form few pieces, else SCATTER."""

    def picked(v: Value, index: np.ndarray) -> Value:
        return carried(b, lambda w: take(b, w, 1, index), v, by=needs(index))

    src = picked(src, last)
    if accumulate:
        src = added_rows(b, picked(rows, places), None, src)
    if len(split(places)) <= MAX_PIECES or write is not replaced_rows:
        return carried(b, lambda v, w: placed(b, v, 1, places, w), rows, src)
    picks = b.const(np.broadcast_to(places.astype(np.int32), (rows.type.ints[0], len(places))))
    return write(b, rows, picks, src)


@lowers_by_writing("aten.index_copy")
def index_copy(
    write: Write, b: TosaBuilder, x: Value, dim: int, index: Value, source: Value
) -> Value:
    """index_copy -> index_put along one dimension."""
    return _along(write, b, x, dim, index, source, accumulate=False)


@lowers_by_writing("aten.index_add")
def index_add(
    write: Write, b: TosaBuilder, x: Value, dim: int, index: Value, source: Value, alpha: float = 1
) -> Value:
    """index_add -> index_put along one dimension that adds."""
    b.require(alpha == 1, f"index_add with alpha {alpha}", "multiply the source by it before")
    return _along(write, b, x, dim, index, source, accumulate=True)


def _along(
    write: Write, b: TosaBuilder, x: Value, dim: int, index: Value, source: Value, accumulate: bool
) -> Value:
    flat = index if index.type.rank == 1 else b.reshape(index, (1,))
    if source.type.rank == 0:
        source = b.reshape(source, (1,) * max(x.type.rank, 1))
    return index_put(write, b, x, [None] * dim + [flat], source, accumulate)


@lowers_by_writing("aten.scatter.src")
def scatter(write: Write, b: TosaBuilder, x: Value, dim: int, index: Value, src: Value) -> Value:
    """scatter -> SCATTER of single elements, or CONCAT where the index is constant."""
    return _elements(write, b, x, dim, index, src, accumulate=False)


@lowers_by_writing("aten.scatter_add")
def scatter_add(
    write: Write, b: TosaBuilder, x: Value, dim: int, index: Value, src: Value
) -> Value:
    """scatter_add -> a product with the one-hot index, added."""
    return _elements(write, b, x, dim, index, src, accumulate=True)


def _elements(
    write: Write, b: TosaBuilder, x: Value, dim: int, index: Value, src: Value, accumulate: bool
) -> Value:
    """x at (.., index[i, j, ..], ..) becomes src[i, j, ..]: elements of the flattened tensor."""
    shape, picks = x.type.ints, index.type.ints
    if x.type.rank == 0:
        return settle(b, _alike(b, src), b.out[0])
    count = math.prod(picks)
    flat = _flat_places(b, index, dim, shape)
    window = carried(b, lambda v: b.slice(v, [0] * len(picks), picks), _alike(b, src))
    column = carried(b, lambda v: b.reshape(v, (1, count, 1)), window)
    rows = carried(b, lambda v: b.reshape(v, (1, v.type.size, 1)), _alike(b, x))
    y = _written(write, b, rows, flat, column, accumulate)
    return settle(b, carried(b, lambda v: b.reshape(v, shape), y), b.out[0])


def _flat_places(b: TosaBuilder, index: Value, dim: int, shape: Sequence[int]) -> Value:
    """Where the elements (.., index[i, j, ..], ..) of a tensor of `shape` lie in memory: [1, W]."""
    picks = index.type.ints
    count = math.prod(picks)
    strides = [math.prod(shape[d + 1 :]) for d in range(len(shape))]
    others = [d for d in range(len(picks)) if d != dim]
    if not is_static(picks, strides):
        places = element_index(b, index, dim, strides, others)
        return reshaped_index(b, places, (1, count), largest(math.prod(shape)))
    offset = np.zeros(picks, np.int64)
    for d in others:
        offset += (np.arange(picks[d]) * strides[d]).reshape((-1,) + (1,) * (len(picks) - 1 - d))
    flat = reshaped_index(b, index, (1, count), shape[dim])
    return affine(b, flat, strides[dim], offset.reshape(1, -1).astype(np.int32))
