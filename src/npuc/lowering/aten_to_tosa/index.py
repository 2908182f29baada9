"""Rules that read at index tensors: embedding, index_select, gather, index.Tensor."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from npuc.ir import DType, Value
from npuc.ir.symbolic import largest
from npuc.lowering.aten_to_tosa.carry import carried, carry, matched, settle
from npuc.lowering.aten_to_tosa.joint_index import joint_index
from npuc.lowering.aten_to_tosa.pool import is_static
from npuc.lowering.aten_to_tosa.rows import (
    Rows,
    affine,
    checked,
    element_index,
    gathered_rows,
    non_negative,
    one_hot_rows,
    reshaped_index,
    spread_index,
)
from npuc.lowering.aten_to_tosa.take import needs, take
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: chips without GATHER pick rows by one-hot products
NO_GATHER = "ethos-u55"


def lowers_by_rows(kind: str) -> Callable[[Callable[..., Value]], Callable[..., Value]]:
    """Register a rule with GATHER, and with one-hot products for chips that lack it."""

    def register(rule: Callable[..., Value]) -> Callable[..., Value]:
        lowers(kind)(partial(rule, gathered_rows))
        lowers(kind, target=NO_GATHER)(partial(rule, one_hot_rows))
        return rule

    return register


@lowers_by_rows("aten.embedding")
def embedding(rows: Rows, b: TosaBuilder, weight: Value, indices: Value, *_: object) -> Value:
    """embedding -> GATHER of rows of the table; constant ids are picked at compile time."""
    if indices.is_const:
        return _constant_rows(b, weight, 0, indices)
    size, width = weight.type.ints
    table = matched(b, _widened(b, weight), b.out[0])
    flat = reshaped_index(b, indices, (1, indices.type.size), size)
    y = rows(b, b.reshape(table, (1, size, width)), flat)
    return _result(b, y)


def _widened(b: TosaBuilder, weight: Value) -> Value:
    """A constant table of INT4 as INT8: GATHER has no INT4."""
    if weight.is_const and weight.type.dtype is DType.INT4:
        return b.const(weight.array, DType.INT8, weight.type.quant)
    return weight


def _constant_rows(b: TosaBuilder, x: Value, dim: int, index: Value) -> Value:
    """Rows of `dim` by a constant index of any rank."""
    size, out = x.type.ints[dim], b.out[0]
    flat = checked(b, np.asarray(index.array, np.int64).reshape(-1), size)
    return carry(b, lambda v: b.reshape(take(b, v, dim, flat), out.ints), x, by=needs(flat))


def _result(b: TosaBuilder, y: Value) -> Value:
    """The picked rows in the result's shape and type."""
    out = b.out[0]
    y = carried(b, lambda v: b.reshape(v, out.ints), y)
    return settle(b, y, out)


@lowers_by_rows("aten.index_select")
def index_select(rows: Rows, b: TosaBuilder, x: Value, dim: int, index: Value) -> Value:
    """index_select -> GATHER, the dimensions before `dim` as batch; a constant index: slices."""
    if index.is_const:
        return _constant_rows(b, x, dim, index)
    shape = x.type.ints
    before, size, after = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    # index[...] of one tensor arrives here, and may count from the end
    picks = non_negative(b, reshaped_index(b, index, (1, index.type.size), size), size)
    picks = spread_index(b, picks, (before, index.type.size))
    values = carried(b, lambda v: b.reshape(v, (before, size, after)), x)
    return _result(b, rows(b, values, picks))


@lowers_by_rows("aten.gather")
def gather(rows: Rows, b: TosaBuilder, x: Value, dim: int, index: Value) -> Value:
    """gather -> GATHER: whole rows where the index repeats along the dimensions after `dim`, else
    of single elements."""
    if x.type.rank == 0:
        return _result(b, x)
    index, repeated = _repeated(b, index, dim)
    shape, picks = x.type.ints, index.type.ints
    limits = [
        n if i == dim else p for i, (n, p) in enumerate(zip(shape, b.out[0].ints, strict=True))
    ]
    x = carried(b, lambda v: b.slice(v, [0] * len(limits), limits), x)
    before, size, after = math.prod(limits[:dim]), limits[dim], math.prod(limits[dim + 1 :])
    if index.is_const:
        checked(b, np.asarray(index.array), size)
    count = picks[dim]
    if repeated or after == 1:
        flat = reshaped_index(b, index, (before, count), size)
        values = carried(b, lambda v: b.reshape(v, (before, size, after)), x)
        return _result(b, rows(b, values, flat))
    # element (k, c) of a batch stands at k * after + c
    values = carried(b, lambda v: b.reshape(v, (before, size * after, 1)), x)
    if not is_static((count, after)):
        strides = [math.prod(limits[d + 1 :]) for d in range(len(limits))]
        places = element_index(b, index, dim, strides, range(dim + 1, len(limits)))
        flat = reshaped_index(b, places, (before, count * after), largest(size * after))
        return _result(b, rows(b, values, flat))
    flat = reshaped_index(b, index, (before, count * after), size)
    column = np.tile(np.arange(after), count).reshape(1, -1)
    return _result(b, rows(b, values, affine(b, flat, after, column)))


def _repeated(b: TosaBuilder, index: Value, dim: int) -> tuple[Value, bool]:
    """The index without its repetition along the dimensions after `dim`, if it is one."""
    shape = index.type.ints
    single = (*shape[: dim + 1], *([1] * (len(shape) - dim - 1)))
    if single == shape:
        return index, False
    if index.is_const:
        first = index.array[tuple(slice(0, n) for n in single)]
        if np.array_equal(np.broadcast_to(first, shape), index.array):
            return b.const(first), True
        return index, False
    source = index.op.operands[0] if index.op and index.op.name == "TILE" else None
    if source is not None and source.type.shape == single:
        return source, True
    return index, False


@lowers_by_rows("aten.index.Tensor")
def index_tensor(rows: Rows, b: TosaBuilder, x: Value, indices: Sequence[Value | None]) -> Value:
    """x[i, :, j, ...] -> the indexed dimensions as neighbours, one GATHER by their joint index."""
    joint = joint_index(b, x, indices)
    if joint.index.is_const:
        places, shape = joint.index.array.reshape(-1), b.out[0].ints

        def move(v: Value) -> Value:
            return b.reshape(take(b, joint.view(b, v), 1, places), shape)

        return carry(b, move, x, by=needs(places))
    values = carried(b, lambda v: joint.view(b, v), x)
    picks = spread_index(b, joint.index, (joint.before, joint.count))
    return _result(b, rows(b, values, picks))
