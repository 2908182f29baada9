"""argmax, argmin, sort and topk."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npuc.ir import DType, Value
from npuc.ir.symbolic import largest, smallest
from npuc.lowering.aten_to_tosa.formula import Condition, Term
from npuc.lowering.aten_to_tosa.open_sizes import positions
from npuc.lowering.aten_to_tosa.operands import requantized
from npuc.lowering.aten_to_tosa.take import tiled
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: elements of the comparison of each element with each other
MOST_PAIRS = 2**24


@lowers("aten.argmax")
def argmax(b: TosaBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """argmax -> ARGMAX (the first of equal ones), INT64 results carried as INT32."""
    x, axis = _along(b, x, dim)
    return _argmax(b, _comparable(b, x), axis)


@lowers("aten.argmin")
def argmin(b: TosaBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """argmin -> ARGMAX of the negated operand; codes are reversed by a TABLE."""
    x, axis = _along(b, x, dim)
    return _argmax(b, reversed_order(b, _comparable(b, x)), axis)


def _argmax(b: TosaBuilder, x: Value, axis: int) -> Value:
    """ARGMAX in the shape of the op's result. The profile PRO-FP does not reshape integers: there
    the axis that is kept is put in front of the reduced one."""
    if b.limits.integers:
        return b.reshape(b.ARGMAX(x, axis=axis), b.out[0].ints)
    shape = b.out[0].ints
    if len(shape) == x.type.rank:
        x, axis = b.reshape(x, (*x.type.ints[:axis], 1, *x.type.ints[axis:])), axis + 1
    elif len(shape) != x.type.rank - 1:  # keepdim over all elements
        x, axis = b.reshape(x, (*shape, x.type.size)), len(shape)
    return b.ARGMAX(x, axis=axis)  # type: ignore[no-any-return]


@lowers("aten.argmax", target="ethos-u55")
def argmax_u55(b: TosaBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """argmax -> ARGMAX over the last axis, the only one that this chip has it for."""
    return b.reshape(_last_argmax(b, *_along(b, x, dim)), b.out[0].ints)


@lowers("aten.argmin", target="ethos-u55")
def argmin_u55(b: TosaBuilder, x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """argmin -> ARGMAX over the last axis of codes reversed by a TABLE."""
    x, axis = _along(b, x, dim)
    return b.reshape(_last_argmax(b, reversed_order(b, x), axis), b.out[0].ints)


def _last_argmax(b: TosaBuilder, x: Value, axis: int) -> Value:
    order = [i for i in range(x.type.rank) if i != axis]
    moved = b.transpose(x, [*order, axis])
    rows = b.reshape(moved, (1, 1, prod(moved.type.ints[:-1]), moved.type.ints[-1]))
    return b.ARGMAX(rows, axis=3)  # type: ignore[no-any-return]


def _along(b: TosaBuilder, x: Value, dim: int | None) -> tuple[Value, int]:
    """The operand and the axis; without one all elements in a row."""
    if dim is None:
        return b.reshape(x, (prod(x.type.ints),)), 0
    if x.type.rank == 0:
        return b.reshape(x, (1,)), 0
    return x, dim % x.type.rank


def _comparable(b: TosaBuilder, x: Value) -> Value:
    """A type that ARGMAX takes: BOOL and integers that are not quantized become floats."""
    if x.type.dtype is DType.BOOL:
        return b.CAST(x, dtype=DType.INT8)  # type: ignore[no-any-return]
    if x.type.dtype is DType.INT32:
        b.refuse("ARGMAX takes floats, INT8 and INT16, not INT32", "convert the operand to float")
    return x


def reversed_order(b: TosaBuilder, x: Value) -> Value:
    """A value whose largest element is the smallest of `x`."""
    if x.type.dtype.is_float:
        return (-Term(b, x)).value
    if x.type.dtype is DType.INT8:
        table = b.const(np.arange(127, -129, -1).astype(np.int8))
        return b.TABLE(x, table)  # type: ignore[no-any-return]
    zero = b.zero_point(x, 0)
    return b.NEGATE(x, zero, zero)  # type: ignore[no-any-return]


@lowers("aten.sort", "aten.sort.default")
def sort(b: TosaBuilder, x: Value, dim: int = -1, descending: bool = False) -> Sequence[Value]:
    """sort -> the rank of each element (how many come before it), SCATTER to its place; stable."""
    return _ordered(b, x, dim, descending, None)


@lowers("aten.sort.stable")
def sort_stable(
    b: TosaBuilder, x: Value, *, stable: bool | None = None, dim: int = -1, descending: bool = False
) -> Sequence[Value]:
    """sort.stable -> as sort, which is stable."""
    return _ordered(b, x, dim, descending, None)


@lowers("aten.topk")
def topk(
    b: TosaBuilder, x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Sequence[Value]:
    """topk -> as sort, of which the first k are kept."""
    return _ordered(b, x, dim, largest, k)


def _ordered(
    b: TosaBuilder, x: Value, dim: int, descending: bool, keep: int | None
) -> tuple[Value, Value]:
    """(values, indices) along `dim`, in order."""
    b.require(
        b.has_bool,
        f"elements are put in order by comparisons and SCATTER, which {b.limits.name} does not have",
        "amax and argmax give the largest one; or compile for an Ethos-U85",
    )
    shape, rank = x.type.ints, x.type.rank
    dim %= max(rank, 1)
    count = shape[dim] if rank else 1
    pairs = largest(x.type.size * count)
    b.require(
        pairs <= MOST_PAIRS,
        f"ordering {x.type.size // count} x {count} elements compares {pairs} pairs > {MOST_PAIRS}",
    )
    order = [i for i in range(rank) if i != dim] + ([dim] if rank else [])
    rows = b.reshape(b.transpose(x, order), (x.type.size // count, count))
    places = _places(b, rows, descending)
    size = rows.type.ints[0]
    number = np.int32 if b.limits.integers else np.float32
    indices = tiled(b, b.reshape(positions(b, count, DType.of(number)), (1, count)), (size, 1))
    outputs = []
    for source in (rows, indices):
        y = _scattered(b, b.reshape(source, (size, count, 1)), places)
        if keep is not None and smallest(count - keep) > 0:
            y = b.slice(y, (0, 0, 0), (size, keep, 1))
        moved = b.reshape(y, [*(shape[i] for i in order[:-1]), keep or count] if rank else ())
        outputs.append(b.transpose(moved, inverse(order)))
    values = requantized(b, outputs[0], b.out[0]) if b.out[0].quant is not None else outputs[0]
    return values, Term(b, outputs[1]).cast(b.out[1].dtype).value


def inverse(order: Sequence[int]) -> list[int]:
    """The permutation that undoes `order`."""
    return [int(i) for i in np.argsort(order)]


def _scattered(b: TosaBuilder, source: Value, places: Value) -> Value:
    zero = b.scalar(0, source.type.dtype, source.type.rank)
    onto = tiled(b, zero, source.type.ints)
    return b.SCATTER(onto, places, source, quant=source.type.quant)  # type: ignore[no-any-return]


def _earlier(b: TosaBuilder, count: int) -> Value:
    """[1, count, count], true where the last position comes before the middle one."""
    if isinstance(count, int):
        places = np.arange(count)
        return b.const(places.reshape(1, 1, count) < places.reshape(1, count, 1))
    places = Term(b, positions(b, count, DType.FP32 if not b.limits.integers else DType.INT32))
    before = Term(b, b.reshape(places.value, (1, 1, count)))
    return (before < Term(b, b.reshape(places.value, (1, count, 1)))).value


def _places(b: TosaBuilder, rows: Value, descending: bool) -> Value:
    """For each element of [R, N] how many of its row come before it: larger (or smaller) ones, and
    equal ones with a smaller index."""
    size, count = rows.type.ints
    values = Term(b, rows)
    if not values.dtype.is_float:
        values = values.cast(DType.INT32)
    mine = Term(b, b.reshape(values.value, (size, count, 1)))
    other = Term(b, b.reshape(values.value, (size, 1, count)))
    before = other > mine if descending else other < mine
    tie = other.equals(mine) & Condition(Term(b, _earlier(b, count)), mine)
    holds = (before | tie).value
    if b.limits.integers:
        ones = b.CAST(holds, dtype=DType.INT32)
        return b.reshape(b.REDUCE_SUM(ones, axis=2), (size, count))
    one, zero = (b.scalar(v, DType.FP32, 3) for v in (1, 0))
    total = b.REDUCE_SUM(b.SELECT(holds, one, zero), axis=2)
    return b.CAST(b.reshape(total, (size, count)), dtype=DType.INT32)  # type: ignore[no-any-return]
