"""Writes or adds rows at an index: SCATTER, or one-hot products where that does not do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.carry import carried, convert
from npuc.lowering.aten_to_tosa.open_sizes import positions, size_tensor
from npuc.lowering.aten_to_tosa.rows import one_hot
from npuc.lowering.tosa_builder import TosaBuilder

#: write(b, rows [N, K, C], indices [N, W], src [N, W, C]) -> rows with src at the indices
Write = Callable[[TosaBuilder, Value, Value, Value], Value]

#: sums of INT32 by a mask compare and multiply this many elements at most
MOST_ELEMENTS = 2**22

#: fractional bits of a sum of quantized rows before it is rounded
FRACTION = 8


def replaced_rows(b: TosaBuilder, rows: Value, indices: Value, src: Value) -> Value:
    """SCATTER; no two indices of a batch may be equal."""
    return carried(
        b, lambda v, w: b.SCATTER(v, indices, w, quant=v.type.quant), rows, src, by="SCATTER"
    )


def replaced_rows_by_mask(b: TosaBuilder, rows: Value, indices: Value, src: Value) -> Value:
    """INT8 rows without SCATTER: rows * (1 - hit) + mask^T src, in stored codes.

    The mask has a 1 where entry w names row k; `hit` tells whether any entry does.
    """
    b.require(
        rows.type.dtype is DType.INT8,
        f"writing {rows.type.dtype.name} rows at an index computed at run time; "
        f"{b.limits.name} has no SCATTER, and its products take INT8",
    )
    n, size, _ = rows.type.ints
    mask = _last_of_equal(b, _mask_of_rows(b, indices, size))  # [N, K, W]
    zero = b.const(np.zeros(1, np.int8))
    written = b.MATMUL(mask, src, zero, zero)
    ones = b.const(np.ones((n, mask.type.ints[2], 1), np.int8))
    hit = b.rescale(b.MATMUL(mask, ones, zero, zero), 1.0, DType.INT8)
    stay = b.MUL(rows, _is_zero(b, hit), zero)
    return b.rescale(b.ADD(stay, written), 1.0, DType.INT8, quant=rows.type.quant)


def _last_of_equal(b: TosaBuilder, mask: Value) -> Value:
    """The mask [N, K, W] with the last 1 of each row only.

    A convolution counts the ones behind each entry; a TABLE tells none from some.
    """
    n, size, width = mask.type.ints
    if width == 1:
        return mask
    behind = np.triu(np.ones((width, width), np.int8), 1).reshape(width, 1, 1, width)
    zero, bias = b.const(np.zeros(1, np.int8)), b.const(np.zeros(1, np.int32))
    image = b.reshape(mask, (1, 1, n * size, width))
    later = b.CONV2D(image, b.const(behind), bias, zero, zero, acc_type=DType.INT32)
    last = b.MUL(image, _is_zero(b, b.rescale(later, 1.0, DType.INT8)), zero)
    return b.reshape(b.rescale(last, 1.0, DType.INT8), (n, size, width))


def _is_zero(b: TosaBuilder, count: Value) -> Value:
    """1 where an INT8 count, which is not negative, is 0, else 0."""
    table = np.zeros(256, np.int8)
    table[128] = 1
    return b.TABLE(count, b.const(table), dtype=DType.INT8)  # type: ignore[no-any-return]


def _mask_of_rows(b: TosaBuilder, indices: Value, size: int) -> Value:
    """INT8 [N, K, W]: 1 where entry w of the index names row k."""
    return b.transpose(one_hot(b, indices, size), (0, 2, 1))


def added_rows(b: TosaBuilder, rows: Value, indices: Value | None, src: Value) -> Value:
    """rows with src added at the indices (None: row by row); entries of one index add up."""
    if rows.type.quant is not None:
        return _added_quantized(b, rows, indices, src)
    dtype = rows.type.dtype
    if indices is None:
        return b.ADD(rows, src)  # type: ignore[no-any-return]
    if dtype.is_float:
        mask = convert(b, _equal(b, indices, rows.type.ints[1]), dtype)
        zero = b.const(np.zeros(1, dtype.numpy), dtype)
        wide = DType.FP32 if dtype is DType.BF16 else dtype
        sums = b.MATMUL(mask, src, zero, zero, dtype=wide)
        return b.ADD(rows, convert(b, sums, dtype))  # type: ignore[no-any-return]
    b.require(dtype is DType.INT32, f"sums of {dtype.name} rows")
    n, width, channels = src.type.ints
    size = rows.type.ints[1]
    elements = n * size * width * channels
    b.require(
        elements <= MOST_ELEMENTS,
        f"a sum of integer rows compares {elements} elements, above {MOST_ELEMENTS}",
    )
    mask = convert(b, _equal(b, indices, size), DType.INT32)
    mask = b.reshape(mask, (n, size, width, 1))
    each = b.MUL(mask, b.reshape(src, (n, 1, width, channels)), b.const(np.zeros(1, np.int8)))
    return b.ADD(rows, b.reshape(b.REDUCE_SUM(each, axis=2), rows.type.ints))  # type: ignore[no-any-return]


def apart_from_repeats(b: TosaBuilder, index: Value, size: int) -> Value:
    """An index [1, W] of rows 0..size-1 in which no two entries are equal.

    The last of equal entries stays; entry w before it becomes size + w.
    """
    width = index.type.ints[1]
    dtype = DType.INT32 if b.limits.integers else DType.FP32
    row = convert(b, index, dtype)
    same = b.EQUAL(b.reshape(row, (1, width, 1)), b.reshape(row, (1, 1, width)))
    later = _behind(b, width, dtype)
    repeated = b.REDUCE_ANY(b.LOGICAL_AND(same, later), axis=2)
    places = b.reshape(positions(b, width, dtype), (1, width))
    spare = b.ADD(places, size_tensor(b, size, dtype, 2))
    picked = b.SELECT(b.reshape(repeated, (1, width)), spare, row)
    return convert(b, picked, index.type.dtype)


def _behind(b: TosaBuilder, width: int, dtype: DType) -> Value:
    """BOOL [1, W, W]: whether the second entry stands behind the first."""
    if isinstance(width, int):
        return b.const(np.triu(np.ones((1, width, width), bool), 1))
    places = positions(b, width, dtype)
    rows, columns = b.reshape(places, (1, width, 1)), b.reshape(places, (1, 1, width))
    return b.GREATER(columns, rows)  # type: ignore[no-any-return]


def _equal(b: TosaBuilder, indices: Value, size: int) -> Value:
    """BOOL [N, K, W]: whether entry w of the index is k; in FP32 where INT32 has no EQUAL."""
    n, width = indices.type.ints
    dtype = DType.INT32 if b.limits.integers else DType.FP32
    row = b.reshape(convert(b, indices, dtype), (n, 1, width))
    if row.is_const:
        return b.const(row.array == np.arange(size).reshape(1, size, 1))
    numbers = np.arange(size).astype(dtype.numpy).reshape(1, size, 1)
    return b.EQUAL(b.const(numbers, dtype), row)  # type: ignore[no-any-return]


def _added_quantized(b: TosaBuilder, rows: Value, indices: Value | None, src: Value) -> Value:
    """The sum in INT32, rounded once; rows, src and result share their parameters."""
    quant = rows.type.quant
    assert quant is not None
    b.require(rows.type.dtype is DType.INT8, f"sums of quantized {rows.type.dtype.name} rows")
    base = b.to_int32(rows)
    if indices is None:
        total = b.ADD(base, b.to_int32(src))
    else:
        zero = b.const(np.zeros(1, np.int8))
        mask = _mask_of_rows(b, indices, rows.type.ints[1])
        total = b.ADD(base, b.MATMUL(mask, src, zero, b.zero_point(src)))
    y = b.rescale(total, 1.0, DType.INT8, out_zp=quant.zp, quant=quant)
    return b.clamp_codes(y, quant)
