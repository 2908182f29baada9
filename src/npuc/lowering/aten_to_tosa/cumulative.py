"""cumsum and cumprod."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.ir import DType, TensorType, Value
from npuc.ir.symbolic import largest
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.operands import steps
from npuc.lowering.aten_to_tosa.order import inverse
from npuc.lowering.aten_to_tosa.quantize import by_floats
from npuc.lowering.aten_to_tosa.reduce import largest_step
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: a quantized axis up to this length is one convolution with a triangle of ones
LONGEST_TRIANGLE = 512


@lowers("aten.cumsum")
def cumsum(b: TosaBuilder, x: Value, dim: int) -> Value:
    """cumsum -> additions of the tensor shifted by 1, 2, 4 ...; quantized: CONV2D with a triangle
    of ones, exact in INT32."""
    out = b.out[0]
    if out.quant is not None:
        return _quantized_cumsum(b, x, dim, out)
    return _scan(b, x, dim, Term.__add__)


@lowers("aten.cumprod")
def cumprod(b: TosaBuilder, x: Value, dim: int) -> Value:
    """cumprod -> products of the tensor with itself shifted by 1, 2, 4 ..."""
    if b.out[0].quant is not None:
        reason = "the range of a quantized running product is that of its last element only"
        axis = dim % max(x.type.rank, 1)
        return by_floats(b, reason, lambda t: scanned(b, t, axis, Term.__mul__), x)
    return _scan(b, x, dim, Term.__mul__)


def _scan(b: TosaBuilder, x: Value, dim: int, combine: Callable[[Term, Term], Term]) -> Value:
    """Floats in FP32, integers in INT32: a log2 number of steps (Hillis and Steele)."""
    b.require(x.type.quant is None, "the operand is quantized but the result is not")
    if x.type.rank == 0:
        return x
    out = b.out[0].dtype
    wide = DType.FP32 if out.is_float else out if out is DType.INT64 else DType.INT32
    y = Term(b, x).cast(wide)
    return scanned(b, y, dim % x.type.rank, combine).cast(out).value


def scanned(b: TosaBuilder, x: Term, axis: int, combine: Callable[[Term, Term], Term]) -> Term:
    """Each element combined with all before it along `axis`."""
    shape = x.value.type.ints
    size, distance = shape[axis], 1
    if not isinstance(size, int):
        return _open_scan(b, x, axis, combine)

    def part(v: Value, first: int, count: int) -> Value:
        start = [0] * len(shape)
        start[axis] = first
        return b.slice(v, start, (*shape[:axis], count, *shape[axis + 1 :]))

    while distance < size:
        head = part(x.value, 0, distance)
        early = Term(b, part(x.value, 0, size - distance))
        late = Term(b, part(x.value, distance, size - distance))
        x = Term(b, b.CONCAT(head, combine(late, early).value, axis=axis))
        distance *= 2
    return x


def _open_scan(b: TosaBuilder, x: Term, axis: int, combine: Callable[[Term, Term], Term]) -> Term:
    """The same along an axis whose size is known only at run time: what is shifted in changes
    nothing."""
    shape, distance = x.value.type.ints, 1
    neutral = b.const(np.full(1, combine is Term.__mul__).astype(x.dtype.numpy), x.dtype)
    while distance < largest(shape[axis]):
        pads = [0] * (2 * len(shape))
        pads[2 * axis] = distance
        shifted = b.slice(b.PAD(x.value, pads, neutral), [0] * len(shape), shape)
        x = combine(x, Term(b, shifted))
        distance *= 2
    return x


def _quantized_cumsum(b: TosaBuilder, x: Value, dim: int, out: TensorType) -> Value:
    quant, rank = x.type.quant, x.type.rank
    b.require(quant is not None, "the operand is not quantized but the result is")
    assert quant is not None
    if rank == 0:
        return b.requantize(steps(b, x, 1.0, 0), quant.s, out)
    axis = dim % rank
    size = x.type.ints[axis]
    if x.type.dtype is DType.INT8 and isinstance(size, int) and size <= LONGEST_TRIANGLE:
        return _by_triangle(b, x, axis, out)
    b.require(
        largest(size) * largest_step(quant, x.type.dtype) < 2**31,
        f"a running sum of {size} {x.type.dtype.name} values exceeds INT32",
    )
    total = scanned(b, Term(b, steps(b, x, 1.0, rank)), axis, Term.__add__)
    return b.requantize(total.value, quant.s, out)


def _by_triangle(b: TosaBuilder, x: Value, axis: int, out: TensorType) -> Value:
    """The axis as channels of [1, 1, rows, N], and a 1x1 CONV2D with a triangle of ones."""
    size, quant = x.type.ints[axis], x.type.quant
    assert quant is not None
    order = [i for i in range(x.type.rank) if i != axis] + [axis]
    moved = b.transpose(x, order)
    image = b.reshape(moved, (1, 1, x.type.size // size, size))
    ones = np.tril(np.ones((size, size), np.int8)).reshape(size, 1, 1, size)
    weight = b.const(ones)
    total = b.CONV2D(
        image, weight, b.const(np.zeros(size, np.int32)), b.zero_point(image), b.zero_point(weight),
        acc_type=DType.INT32,
    )  # fmt: skip
    y = b.reshape(b.requantize(total, quant.s, out), moved.type.ints)
    return b.transpose(y, inverse(order))
