"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npuc.dialects.tflite import same_parameters
from npuc.ir import DType, Quant, Value
from npuc.lowering.aten_to_tflite.compare import truth
from npuc.lowering.aten_to_tflite.operands import wide_type
from npuc.lowering.aten_to_tflite.pool import Window, by_matrix, own_mean
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder, largest_magnitude, symmetric


@lowers("aten.mean.dim", dialect="tflite")
def mean(b: TfliteBuilder, x: Value, dim: Sequence[int], keepdim: bool) -> Value:
    """mean -> MEAN; of a small image with parameters of its own a DEPTHWISE_CONV_2D."""
    out = b.out[0]
    image = x.type.rank == 4 and {d % 4 for d in dim} == {2, 3}
    if image and out.quant is not None and x.type.dtype is out.dtype is DType.INT8:
        rows, columns = (Window(n, n, 1, 0, 0, 1) for n in x.type.ints[2:])
        y = own_mean(b, b.nhwc(x), rows, columns, prod(x.type.ints[2:]), out.quant)
        return b.reshape(b.nchw(y), out.ints)
    return _own(b, "MEAN", x, dim)


@lowers("aten.sum.dim_IntList", dialect="tflite")
def sum_(b: TfliteBuilder, x: Value, dim: Sequence[int], keepdim: bool) -> Value:
    """sum -> SUM."""
    if x.type.dtype is DType.BOOL:
        x = b.CAST(x, dtype=DType.INT32)
    return _own(b, "SUM", x, dim)


def _own(b: TfliteBuilder, name: str, x: Value, dim: Sequence[int]) -> Value:
    """MEAN or SUM, which have parameters of their own."""
    out = b.out[0]
    if out.quant is None:
        b.require(x.type.quant is None, "the operand is quantized but the result is not")
        return reduced(b, name, x, dim)
    x = b.operand(x)
    if x.type.dtype is out.dtype:
        return reduced(b, name, x, dim, out.quant)
    return b.requantize(reduced(b, name, b.widened(x), dim, wide_type(out).quant), out)


@lowers("aten.amax", dialect="tflite")
def amax(b: TfliteBuilder, x: Value, dim: Sequence[int], keepdim: bool) -> Value:
    """amax -> REDUCE_MAX."""
    return b.as_result(reduced(b, "REDUCE_MAX", x, dim))


@lowers("aten.amin", dialect="tflite")
def amin(b: TfliteBuilder, x: Value, dim: Sequence[int], keepdim: bool) -> Value:
    """amin -> REDUCE_MIN."""
    return b.as_result(reduced(b, "REDUCE_MIN", x, dim))


def reduced(
    b: TfliteBuilder, name: str, x: Value, dim: Sequence[int], quant: Quant | None = None
) -> Value:
    """A reduction in the shape of the op's result.

    It keeps its axes, so that it runs in any layout; `drop_reduced_axes` joins the RESHAPE with it.
    Axes of size 1 that stay need no reduction.
    """
    if not x.type.rank:
        return b.reshape(x, b.out[0].ints)
    keeps = quant is None or same_parameters(x.type.quant, quant)
    if keeps and x.type.shape == b.out[0].shape:
        return x
    y = b.tflite(name, x, axes=dim, keep_dims=True, quant=quant)
    return b.reshape(y, b.out[0].ints)


@lowers("aten.any.dims", "aten.all.dims", dialect="tflite")
def any_all(b: TfliteBuilder, x: Value, dim: Sequence[int], keepdim: bool) -> Value:
    """any, all -> REDUCE_ANY, REDUCE_ALL."""
    assert b.op is not None
    name = "REDUCE_ANY" if ".any" in b.op.kind else "REDUCE_ALL"
    return reduced(b, name, truth(b, x), dim)


@lowers("aten.prod.dim_int", dialect="tflite")
def prod_(b: TfliteBuilder, x: Value, dim: Sequence[int] | int, keepdim: bool) -> Value:
    """prod -> REDUCE_PROD."""
    b.require(b.out[0].quant is None, "a quantized product", "leave this op float")
    dims = (dim,) if isinstance(dim, int) else dim
    return reduced(b, "REDUCE_PROD", x, dims)


@lowers("aten.argmax", "aten.argmin", dialect="tflite")
def arg(b: TfliteBuilder, x: Value, dim: int, keepdim: bool) -> Value:
    """argmax, argmin -> ARG_MAX, ARG_MIN (the first of equal elements)."""
    assert b.op is not None
    name = "ARG_MAX" if "argmax" in b.op.kind else "ARG_MIN"
    if x.type.dtype is DType.INT16:
        x = b.CAST(x, dtype=DType.INT32)  # the codes, whose order is that of the values
    return b.reshape(b.tflite(name, x, axis=dim), b.out[0].ints)


@lowers("aten.var.correction", dialect="tflite")
def var(
    b: TfliteBuilder, x: Value, dim: Sequence[int], *, correction: float = 1, keepdim: bool = False
) -> Value:
    """var -> MEAN of the squares of the differences from the MEAN; quantized in INT16."""
    return b.reshape(_variance(b, x, dim, correction, False), b.out[0].ints)


@lowers("aten.std.correction", dialect="tflite")
def std(
    b: TfliteBuilder, x: Value, dim: Sequence[int], *, correction: float = 1, keepdim: bool = False
) -> Value:
    """std -> the square root of var."""
    return b.reshape(_variance(b, x, dim, correction, True), b.out[0].ints)


def _variance(
    b: TfliteBuilder, x: Value, dim: Sequence[int], correction: float, root: bool
) -> Value:
    out, count = b.out[0], prod(x.type.ints[d] for d in dim)
    b.require(count > correction, f"variance of {count} elements with correction {correction}")
    factor = count / (count - correction)
    if out.quant is None:
        squares = b.SQUARE(b.SUB(x, b.MEAN(x, axes=dim, keep_dims=True)))
        y = b.MEAN(squares, axes=dim, keep_dims=True)
        if factor != 1:
            y = b.MUL(y, b.scalar(factor, DType.FP32, y.type.rank))
        return b.SQRT(y) if root else y  # type: ignore[no-any-return]
    _difference, y = spread(b, b.operand(x), dim)
    if not root and out.dtype is DType.INT16 and factor == 1:
        return b.requantize(y, out)
    return b.lookup(y, (lambda v: np.sqrt(v * factor)) if root else (lambda v: v * factor), out)


def spread(
    b: TfliteBuilder, x: Value, dim: Sequence[int], largest_variance: float | None = None
) -> tuple[Value, Value]:
    """Differences from the mean along `dim`, and their mean square, of quantized `x`, in INT16.

    The variance of values in a range of width r is at most r*r/4.
    """
    wide = b.widened(x)
    quant = x.type.quant
    assert quant is not None
    width = quant.s * (quant.qmax - quant.qmin)
    mean_value = b.MEAN(wide, axes=dim, keep_dims=True, quant=wide.type.quant)
    span = symmetric(min(width, 2 * largest_magnitude(quant)))
    difference = b.SUB(wide, mean_value, quant=span)
    largest = largest_variance or width**2 / 4
    square = b.MUL(difference, difference, quant=symmetric(4 * largest))
    return difference, b.MEAN(square, axes=dim, keep_dims=True, quant=symmetric(largest))


@lowers("aten.cumsum", dialect="tflite")
def cumsum(b: TfliteBuilder, x: Value, dim: int) -> Value:
    """cumsum -> CUMSUM; quantized: FULLY_CONNECTED by a triangle of ones."""
    out = b.out[0]
    if out.quant is None:
        if not x.type.dtype.is_float and x.type.dtype is not DType.INT32:
            x = b.CAST(x, dtype=DType.INT32)
        return b.CUMSUM(x, axis=dim)  # type: ignore[no-any-return]
    x, rank = b.operand(x), x.type.rank
    order = [*(i for i in range(rank) if i != dim), dim]
    triangle = np.tril(np.ones((x.type.ints[dim],) * 2))
    y = b.reshape(b.transpose(x, order), (-(-x.type.size // x.type.ints[dim]), x.type.ints[dim]))
    result = out.quant if y.type.dtype is out.dtype else wide_type(out).quant
    if y.type.dtype is not out.dtype:
        y = b.widened(y)
    y = by_matrix(b, y, triangle, result)
    y = b.reshape(y, [x.type.ints[i] for i in order])
    back = [order.index(i) for i in range(rank)]
    return b.requantize(b.transpose(y, back), out)


@lowers("aten.cumprod", dialect="tflite")
def cumprod(b: TfliteBuilder, x: Value, dim: int) -> Value:
    """cumprod -> log2(n) products of the tensor with itself shifted."""
    b.require(b.out[0].quant is None, "a quantized cumulative product", "leave this op float")
    if not x.type.dtype.is_float:
        x = b.CAST(x, dtype=DType.INT32) if x.type.dtype is not DType.INT32 else x
    size, shift = x.type.ints[dim], 1
    while shift < size:
        head = list(x.type.ints)
        head[dim] = size - shift
        pads = [0] * (2 * x.type.rank)
        pads[2 * dim] = shift
        part = b.slice(x, [0] * x.type.rank, head)
        x = b.MUL(x, b.PADV2(part, b.scalar(1, x.type.dtype, 1), paddings=pads))
        shift *= 2
    return x
