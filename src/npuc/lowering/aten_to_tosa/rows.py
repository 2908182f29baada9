"""Picks rows by an index known at run time only: GATHER, or one-hot products without it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.carry import carried
from npuc.lowering.aten_to_tosa.open_sizes import positions, size_tensor
from npuc.lowering.tosa_builder import TosaBuilder

#: rows(b, values [N, K, C], indices INT32 [N, W] in 0..K-1) -> [N, W, C] of the values' type
Rows = Callable[[TosaBuilder, Value, Value], Value]

#: a digit of an index: the others are worth this much
DIGIT = 64


def gathered_rows(b: TosaBuilder, values: Value, indices: Value) -> Value:
    """GATHER, through a type that it has."""
    return carried(b, lambda v: b.GATHER(v, indices, quant=v.type.quant), values, by="GATHER")


# -- without GATHER -------------------------------------------------------------------------------


def one_hot_rows(b: TosaBuilder, values: Value, indices: Value) -> Value:
    """Rows of INT8 as the product of a 0-1 mask, one per row and index, with the values.

    The table of an embedding is the constant kernel of a 1x1 convolution over the mask; values
    computed at run time are the right side of a MATMUL. Both give the stored codes exactly.
    """
    n, size, channels = values.type.ints
    b.require(
        values.type.dtype is DType.INT8,
        f"a look-up by an index computed at run time in {values.type.dtype.name} values; "
        f"{b.limits.name} has no GATHER, and its products take INT8",
        "quantize the table to int8",
    )
    mask = one_hot(b, indices, size)
    if values.is_const and n == 1:
        codes = _times_table(b, mask, values)
    else:
        zero = b.const(np.zeros(1, np.int8))
        codes = b.MATMUL(mask, values, zero, zero)
    picked = b.rescale(codes, 1.0, DType.INT8, quant=values.type.quant)
    return b.reshape(picked, (n, indices.type.ints[1], channels))


def _times_table(b: TosaBuilder, mask: Value, table: Value) -> Value:
    """[1, W, K] times a constant [1, K, C]: CONV2D 1x1 along the width."""
    _, width, size = mask.type.ints
    kernel = table.array[0].T.reshape(-1, 1, 1, size)
    zero, bias = b.const(np.zeros(1, np.int8)), b.const(np.zeros(1, np.int32))
    image = b.reshape(mask, (1, 1, width, size))
    return b.CONV2D(  # type: ignore[no-any-return]
        image, b.const(kernel), bias, zero, zero, acc_type=DType.INT32
    )


def one_hot(b: TosaBuilder, indices: Value, size: int) -> Value:
    """INT8 mask [N, W, size] with a 1 at each index of 0..size-1.

    One 1x1 convolution computes index - k for every k from the index's INT8 digits, with bias -k;
    a TABLE tells 0 from all others.
    """
    n, width = indices.type.ints
    digits, weights, offset = _digits(b, b.reshape(indices, (1, 1, n * width, 1)), size)
    kernel = np.broadcast_to(np.array(weights, np.int8), (size, 1, 1, len(weights)))
    bias = b.const((offset - np.arange(size)).astype(np.int32))
    zero = b.const(np.zeros(1, np.int8))
    apart = b.CONV2D(digits, b.const(kernel), bias, zero, zero, acc_type=DType.INT32)
    hit = np.zeros(256, np.int8)
    hit[128] = 1
    mask = b.TABLE(b.rescale(apart, 1.0, DType.INT8), b.const(hit), dtype=DType.INT8)
    return b.reshape(mask, (n, width, size))


def _digits(b: TosaBuilder, index: Value, size: int) -> tuple[Value, list[int], int]:
    """INT8 digits [1, 1, W, D] of an index, weights and an offset: the index is their sum."""
    if size <= 256:
        return _saturated(b, index, 128), [1], 128
    rank = index.type.rank
    # (2 * index + 1) / 128 is never half-way between two numbers: no rounding mode matters
    doubled = affine(b, index, 2, 1 - DIGIT)
    high = b.rescale(doubled, 0.5 / DIGIT, DType.INT32)
    low = b.SUB(index, affine(b, high, DIGIT))
    parts = math.ceil((size - 1) // DIGIT / 255)
    digits = [_saturated(b, high, 128 + 255 * i) for i in range(parts)]
    digits.append(_saturated(b, low, 0))
    joined = b.CONCAT(*digits, axis=rank - 1)
    return joined, [DIGIT] * parts + [1], DIGIT * 128 * parts


def _saturated(b: TosaBuilder, x: Value, offset: int) -> Value:
    """x - offset as INT8, saturated."""
    return b.rescale(affine(b, x, 1, -offset), 1.0, DType.INT8)


# -- indices --------------------------------------------------------------------------------------


def non_negative(b: TosaBuilder, index: Value, size: int) -> Value:
    """The index with `size` added where it is negative, as PyTorch's indexing means it.

    Nothing where the index cannot be negative. -1 >> 31 as a mask would need shifts that some
    profiles lack; a comparison needs PRO-INT; (index + size) modulo size is right everywhere else.
    """
    if index.is_const:
        return b.const(checked(b, index.array, size), index.type.dtype)
    if never_negative(index):
        return index
    rank, wide = index.type.rank, index.type.dtype
    by = b.scalar(size, wide, rank)
    if not b.limits.integers:
        lifted = b.ADD(index, by)
        turns = b.MUL(b.INTDIV(lifted, by), by, b.const(np.zeros(1, np.int8)))
        return b.SUB(lifted, turns)  # type: ignore[no-any-return]
    # 1 where negative: the chips without BOOL have MAXIMUM and MINIMUM
    zero, one = b.scalar(0, wide, rank), b.scalar(1, wide, rank)
    negative = b.MINIMUM(b.MAXIMUM(b.SUB(zero, index), zero), one)
    return b.ADD(index, b.MUL(negative, by, b.const(np.zeros(1, np.int8))))  # type: ignore[no-any-return]


#: operators whose result is never negative, and those that only move their operands
NEVER_NEGATIVE = frozenset({"ARGMAX", "ABS", "CLZ"})
MOVING = frozenset({"RESHAPE", "TRANSPOSE", "SLICE", "CONCAT", "TILE", "REVERSE", "IDENTITY"})


def never_negative(value: Value) -> bool:
    """Whether the graph shows that an integer value is nowhere negative."""
    if value.is_const:
        return bool(value.array.size == 0 or value.array.min() >= 0)
    if value.op is None:
        return False
    if value.op.name in NEVER_NEGATIVE:
        return True
    if value.op.name == "CAST":
        source = value.op.operands[0]
        return source.type.dtype is DType.BOOL or never_negative(source)
    if value.op.name in MOVING:
        data = [v for v in value.op.operands if v.type.dtype is not DType.SHAPE]
        return all(never_negative(v) for v in data)
    return False


def reshaped_index(b: TosaBuilder, index: Value, shape: tuple[int, ...], bound: int) -> Value:
    """RESHAPE of an index whose magnitude is at most `bound`."""
    if index.type.ints == shape:
        return index
    return carried(b, lambda v: b.reshape(v, shape), index, bound=bound)


def spread_index(b: TosaBuilder, index: Value, shape: tuple[int, ...]) -> Value:
    """The index broadcast to `shape` of the same rank: ADD of zeros, which every profile has."""
    if index.type.ints == shape:
        return index
    if not all(isinstance(n, int) for n in shape):
        times = [1 if d == n else n for d, n in zip(index.type.ints, shape, strict=True)]
        return carried(b, lambda v: b.TILE(v, times), index, by="TILE")
    if index.is_const:
        return b.const(np.broadcast_to(index.array, shape), index.type.dtype)
    zeros = np.zeros([n if d == 1 else 1 for d, n in zip(index.type.ints, shape, strict=True)])
    return b.ADD(index, b.const(zeros, index.type.dtype))  # type: ignore[no-any-return]


def affine(b: TosaBuilder, index: Value, factor: int, offset: np.ndarray | int = 0) -> Value:
    """index * factor + offset in the index's type; `offset` broadcasts, of the same rank."""
    if index.is_const:
        return b.const(index.array * factor + offset, index.type.dtype)
    if factor != 1:
        by = b.scalar(factor, index.type.dtype, index.type.rank)
        index = b.MUL(index, by, b.const(np.zeros(1, np.int8)))
    offset = np.asarray(offset)
    if not offset.any():
        return index
    if offset.ndim == 0:
        offset = offset.reshape((1,) * index.type.rank)
    return b.ADD(index, b.const(offset, index.type.dtype))  # type: ignore[no-any-return]


def element_index(
    b: TosaBuilder, index: Value, dim: int, strides: Sequence[int], axes: Sequence[int]
) -> Value:
    """Where the elements (.., index[i, j, ..], ..) lie: the index times the stride of `dim`, plus
    the position along each of `axes` times its stride. Sizes and strides may be symbolic."""
    total = _scaled(b, index, strides[dim])
    for axis in axes:
        places = b.reshape(
            positions(b, index.type.ints[axis], index.type.dtype),
            [n if d == axis else 1 for d, n in enumerate(index.type.ints)],
        )
        total = b.ADD(total, _scaled(b, places, strides[axis]))
    return total


def _scaled(b: TosaBuilder, index: Value, factor: int) -> Value:
    if isinstance(factor, int):
        return affine(b, index, factor)
    by = size_tensor(b, factor, index.type.dtype, index.type.rank)
    return b.MUL(index, by, b.scalar(0, DType.INT8, 1))  # type: ignore[no-any-return]


def checked(b: TosaBuilder, index: np.ndarray, size: int) -> np.ndarray:
    """A constant index with negative entries wrapped; refused where it is out of range."""
    if index.size:
        lo, hi = int(index.min()), int(index.max())
        b.require(-size <= lo and hi < size, f"index {lo}..{hi} is outside 0..{size - 1}")
    if not (index < 0).any():
        return index
    return np.where(index < 0, index + size, index)
