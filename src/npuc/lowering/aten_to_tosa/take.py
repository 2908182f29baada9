"""Picks positions of one axis by an index known at compile time, as cheaply as it allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from npuc.dialects.tosa import LEVELS
from npuc.errors import Unsupported
from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.carry import moves
from npuc.lowering.aten_to_tosa.resample import picked_by_product
from npuc.lowering.tosa_builder import TosaBuilder

Index = npt.NDArray[np.int64]

#: an index of more pieces than this is a GATHER where the target has one
MAX_PIECES = 8

#: an index of more pieces than this is refused where it has none
MOST_PIECES = 1024

#: products over longer axes cost more than copies
LONGEST_PRODUCT = 800

#: MAX_POOL2D with a kernel of one element and a stride of 2 or 3, which NPUs have, skips positions
#: of these types exactly
SKIPPED_BY_POOL = (DType.INT8, DType.INT16)


@dataclass(frozen=True)
class Piece:
    """count positions of the axis: start, start + step, ... (step 0: the same one again)."""

    start: int
    step: int
    count: int


def needs(index: npt.ArrayLike) -> str:
    """The operator that decides how `take` by this index carries element types."""
    pieces = split(repetition(np.asarray(index, np.int64))[0])
    return "GATHER" if len(pieces) > MAX_PIECES else "RESHAPE"


def take(b: TosaBuilder, x: Value, axis: int, index: npt.ArrayLike) -> Value:
    """x[..., index, ...] along `axis`.

    Whole axes, runs, steps, reversals and repeats are slices and their like, joined by CONCAT;
    an index without such a form is a GATHER.
    """
    index = np.asarray(index, np.int64)
    size = x.type.ints[axis]
    b.require(index.size > 0, "an empty index; TOSA has no tensors without elements")
    if index.size == size and np.array_equal(index, np.arange(size)):
        return x
    if x.is_const:
        return b.const(np.take(x.array, index, axis), x.type.dtype, x.type.quant)
    base, times, each = repetition(index)
    pieces = split(index)
    reversed_ = pieces[0].step < 0 and index.size > 2
    scattered = each > 1 or len(pieces) > MAX_PIECES or reversed_
    if scattered and _prefers_product(b, x, axis):
        try:
            return picked_by_product(b, x, axis, index)
        except Unsupported:
            pass  # too large for the chip's transpositions
    if times > 1 or each > 1:
        picked = take(b, x, axis, base)
        return tile(b, repeat_each(b, picked, axis, each), axis, times)
    if len(pieces) > MAX_PIECES and moves(b.limits, x.type.dtype, "GATHER"):
        try:
            return _gathered(b, x, axis, index)
        except Unsupported:
            pass  # a chip without GATHER: pieces
    b.require(
        len(pieces) <= MOST_PIECES,
        f"an index of {len(pieces)} separate pieces; without GATHER at most {MOST_PIECES}",
    )
    return join(b, [_piece(b, x, axis, p) for p in pieces], axis)


def _prefers_product(b: TosaBuilder, x: Value, axis: int) -> bool:
    """Whether the chip has no GATHER: its 1x1 convolutions take 1 to 2 cycles per element, copies
    of single elements 8 and more (Vela 5.2, U55)."""
    dtype, size = x.type.dtype, x.type.ints[axis]
    if dtype not in SKIPPED_BY_POOL or not 1 < size <= LONGEST_PRODUCT:
        return False
    values, index = TensorType(dtype, (1, 1, 1)), TensorType(DType.INT32, (1, 1))
    return b.limits.reason("GATHER", (Value(values), Value(index)), {}, (values,)) is not None


def repetition(index: Index) -> tuple[Index, int, int]:
    """base, times, each with index = tile(repeat(base, each), times), as long as possible."""
    changes = np.flatnonzero(np.diff(index)) + 1
    each = math.gcd(*map(int, changes), index.size)
    base = index[::each]
    for period in range(1, base.size // 2 + 1):
        if base.size % period == 0 and np.array_equal(base[period:], base[:-period]):
            return base[:period], base.size // period, each
    return base, 1, each


def split(index: Index) -> list[Piece]:
    """The index as few pieces: first its longest runs upwards, then what is left between them."""
    bounds = [0, *(np.flatnonzero(np.diff(index) != 1) + 1).tolist(), index.size]
    pieces: list[Piece] = []
    single: list[int] = []
    for a, z in pairwise(bounds):
        if z - a == 1:
            single.append(int(index[a]))
            continue
        pieces += _steps(single)
        single = []
        pieces.append(Piece(int(index[a]), 1, z - a))
    return pieces + _steps(single)


def _steps(values: Sequence[int]) -> list[Piece]:
    """Runs of a constant step among single positions."""
    pieces: list[Piece] = []
    at = 0
    while at < len(values):
        end = at + 1
        step = values[end] - values[at] if end < len(values) else 1
        while end < len(values) and values[end] - values[end - 1] == step:
            end += 1
        pieces.append(Piece(values[at], step if end - at > 1 else 1, end - at))
        at = end
    return pieces


def _piece(b: TosaBuilder, x: Value, axis: int, piece: Piece) -> Value:
    start, step, count = piece.start, piece.step, piece.count
    if step == 0:
        return tile(b, cut(b, x, axis, start, 1), axis, count)
    if step < 0:
        return reverse(b, every(b, x, axis, start + step * (count - 1), -step, count), axis)
    return every(b, x, axis, start, step, count)


def cut(b: TosaBuilder, x: Value, axis: int, start: int, size: int) -> Value:
    """The positions start .. start + size - 1 of `axis`."""
    begin, sizes = [0] * x.type.rank, list(x.type.ints)
    begin[axis], sizes[axis] = start, size
    return b.slice(x, begin, sizes)


def every(b: TosaBuilder, x: Value, axis: int, start: int, step: int, count: int) -> Value:
    """The positions start, start + step, ... of `axis`, `count` of them."""
    if step == 1 or count == 1:
        return cut(b, x, axis, start, count)
    factor = next((f for f in (3, 2) if step % f == 0), None)
    if factor and x.type.dtype in SKIPPED_BY_POOL and moves(b.limits, x.type.dtype, "MAX_POOL2D"):
        rest = step // factor
        x = cut(b, x, axis, start, step * (count - 1) + 1)
        return every(b, _skipped(b, x, axis, factor), axis, 0, rest, count)
    shape = x.type.ints
    back = max(0, start + count * step - shape[axis])
    if back > min(step - 1, start):
        last = cut(b, x, axis, start + step * (count - 1), 1)
        return join(b, [every(b, x, axis, start, step, count - 1), last], axis)
    window = cut(b, x, axis, start - back, count * step)
    split = b.reshape(window, (*shape[:axis], count, step, *shape[axis + 1 :]))
    kept = cut(b, split, axis + 1, back, 1)
    return b.reshape(kept, (*shape[:axis], count, *shape[axis + 1 :]))


def _skipped(b: TosaBuilder, x: Value, axis: int, step: int) -> Value:
    """Every `step`-th position from the first to the last: MAX_POOL2D over one element."""
    shape = x.type.ints
    if x.type.rank == 4 and axis in (2, 3):
        stride = (step, 1) if axis == 2 else (1, step)
        y = b.MAX_POOL2D(b.nhwc(x), kernel=(1, 1), stride=stride, quant=x.type.quant)
        return b.nchw(y)
    row = (1, math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :]))
    y = b.MAX_POOL2D(b.reshape(x, row), kernel=(1, 1), stride=(1, step), quant=x.type.quant)
    return b.reshape(y, (*shape[:axis], y.type.ints[2], *shape[axis + 1 :]))


def reverse(b: TosaBuilder, x: Value, axis: int) -> Value:
    """REVERSE; of an axis that the chip does not reverse, between RESHAPEs to a row of pixels."""
    if x.type.ints[axis] == 1:
        return x
    try:
        return b.REVERSE(x, axis=axis, quant=x.type.quant)  # type: ignore[no-any-return]
    except Unsupported:
        shape = x.type.ints
        before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
        row = b.reshape(x, (1, before, shape[axis], after))
        return b.reshape(b.REVERSE(row, axis=2, quant=x.type.quant), shape)


def tile(b: TosaBuilder, x: Value, axis: int, times: int) -> Value:
    """`x`, `times` times one behind the other along `axis`."""
    multiples = [1] * x.type.rank
    multiples[axis] = times
    return tiled(b, x, multiples)


def tiled(b: TosaBuilder, x: Value, multiples: Sequence[int]) -> Value:
    """TILE; of a constant at once."""
    if all(m == 1 for m in multiples):
        return x
    if x.is_const and all(isinstance(m, int) for m in multiples):
        return b.const(np.tile(x.array, multiples), x.type.dtype, x.type.quant)
    return b.TILE(x, tuple(multiples), quant=x.type.quant)  # type: ignore[no-any-return]


def repeat_each(b: TosaBuilder, x: Value, axis: int, times: int) -> Value:
    """Every position of `axis` `times` times in a row."""
    shape = x.type.ints
    if times == 1:
        return x
    if shape[axis] == 1:
        return tile(b, x, axis, times)
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    column = b.reshape(x, (before * shape[axis], 1, after))
    wide = (*shape[:axis], shape[axis] * times, *shape[axis + 1 :])
    return b.reshape(tile(b, column, 1, times), wide)


def _gathered(b: TosaBuilder, x: Value, axis: int, index: Index) -> Value:
    """GATHER along `axis`; the axes before it are its batch."""
    shape = x.type.ints
    before, after = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    values = b.reshape(x, (before, shape[axis], after))
    indices = np.broadcast_to(index.astype(np.int32), (before, index.size))
    y = b.GATHER(values, b.const(indices, DType.INT32), quant=x.type.quant)
    return b.reshape(y, (*shape[:axis], index.size, *shape[axis + 1 :]))


def join(b: TosaBuilder, parts: Sequence[Value], axis: int) -> Value:
    """CONCAT along `axis`, in steps where the level limits its operands; constants at once."""
    merged: list[Value] = []
    for part in parts:
        if merged and merged[-1].is_const and part.is_const:
            both = np.concatenate([merged[-1].array, part.array], axis)
            merged[-1] = b.const(both, part.type.dtype, merged[-1].type.quant)
        else:
            merged.append(part)
    most = LEVELS["8K" if b.limits.level == "8K" else "none"]["max_tensor_list_size"]
    while len(merged) > 1:
        groups = [merged[i : i + most] for i in range(0, len(merged), most)]
        merged = [
            g[0] if len(g) == 1 else b.CONCAT(*g, axis=axis, quant=g[0].type.quant) for g in groups
        ]
    return merged[0]
