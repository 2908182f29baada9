"""Reductions: sum, mean, amax, amin, prod, any, all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod as product

import numpy as np

from npuc.errors import Unsupported
from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tosa.average_pool import mean_as_avg_pool
from npuc.lowering.aten_to_tosa.carry import carried, convert
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.integer_sums import Rows, Sum, sum_rows
from npuc.lowering.aten_to_tosa.integers_as_floats import extreme, total
from npuc.lowering.aten_to_tosa.logical import as_bool
from npuc.lowering.aten_to_tosa.open_sizes import divided, inverse_size
from npuc.lowering.aten_to_tosa.operands import requantized, steps
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: (builder, tensor, axis) -> the tensor reduced to size 1 on that axis
Reduce = Callable[[TosaBuilder, Value, int], Value]


def axes_of(x: Value, dim: Sequence[int] | int | None) -> tuple[int, ...]:
    """The axes that `dim` means, without those of size 1, which need no reduction."""
    rank = x.type.rank
    dims = range(rank) if dim is None else (dim,) if isinstance(dim, int) else dim
    axes = sorted({d % rank for d in dims} if rank else ())
    return tuple(a for a in axes if x.type.shape[a] != 1)


def merged(b: TosaBuilder, x: Value, axes: Sequence[int]) -> tuple[Value, tuple[int, ...]]:
    """Neighbouring axes to be reduced as one, by RESHAPE; not of rank 4 and more, where the layout
    of the reshaped value would be fixed."""
    if x.type.rank > 3 or len(axes) < 2 or axes[-1] - axes[0] != len(axes) - 1:
        return x, tuple(axes)
    shape = x.type.ints
    first, last = axes[0], axes[-1] + 1
    count = product(shape[first:last])
    return b.reshape(x, (*shape[:first], count, *shape[last:])), (first,)


def reduced(b: TosaBuilder, x: Value, dim: Sequence[int] | int | None, reduce: Reduce) -> Value:
    """`x` reduced over `dim`, in the shape of the op's result."""
    x, axes = merged(b, x, axes_of(x, dim))
    for axis in axes:
        x = reduce(b, x, axis)
    return b.reshape(x, b.out[0].ints)


@lowers("aten.sum.dim_IntList", "aten.sum")
def sum_(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    """sum -> REDUCE_SUM; 16-bit floats are summed in FP32, quantized values in INT32."""
    out = b.out[0]
    if out.quant is not None:
        return _quantized_sum(b, x, dim, 1.0, out)
    return _plain_sum(b, x, dim, 1.0)


@lowers("aten.mean.dim", "aten.mean")
def mean(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    """mean -> AVG_POOL2D over axes that are positions of an image, else REDUCE_SUM and a factor
    (folded into the RESCALE when quantized)."""
    out = b.out[0]
    axes = axes_of(x, dim)
    count = product(x.type.ints[a] for a in axes)
    if not axes and x.type.quant == out.quant:
        return b.reshape(x, out.ints)
    if _is_image(x, axes):
        try:
            return b.reshape(mean_as_avg_pool(b, x, axes, out), out.ints)
        except Unsupported:
            pass  # the window is too large for the target: sums take any length
    if not isinstance(count, int):
        return _open_mean(b, x, dim, count)
    if out.quant is not None:
        return _quantized_sum(b, x, dim, 1.0 / count, out)
    return _plain_sum(b, x, dim, 1.0 / count)


def _open_mean(b: TosaBuilder, x: Value, dim: Sequence[int] | None, count: int) -> Value:
    """The mean over axes whose size is known only at run time."""
    out = b.out[0]
    if out.quant is not None:
        total, step = integer_sum(b, x, dim)
        assert x.type.quant is not None
        mean, bits = divided(b, total, count, largest_step(x.type.quant, x.type.dtype))
        return b.reshape(b.requantize(mean, step * 2.0**-bits, out), out.ints)
    b.require(out.dtype.is_float, f"the mean of {x.type.dtype.name} values")
    total = reduced(b, Term(b, x).cast(DType.FP32).value, dim, _reduce_sum)
    factor = Term(b, inverse_size(b, count, total.type.rank))
    return (Term(b, total) * factor).cast(out.dtype).value


def _is_image(x: Value, axes: Sequence[int]) -> bool:
    """Whether the axes are neighbours and positions: spatial ones of [N, C, H, W], or not last."""
    if not axes or axes[-1] - axes[0] != len(axes) - 1 or x.type.dtype is DType.INT32:
        return False
    if axes[-1] == x.type.rank - 1:
        return x.type.rank == 4 and axes[0] >= 2
    return axes[0] > 0


def _reduce_sum(b: TosaBuilder, x: Value, axis: int) -> Value:
    return b.REDUCE_SUM(x, axis=axis)  # type: ignore[no-any-return]


def _sum_by_floats(b: TosaBuilder, x: Value, dim: Sequence[int] | None) -> Value:
    """A sum of integers or BOOL on a target that only sums floats."""

    def add(b: TosaBuilder, v: Value) -> Value:
        return reduced(b, v, dim, _reduce_sum)

    count = product(x.type.ints[a] for a in axes_of(x, dim))
    if x.type.dtype is DType.INT32:
        return total(b, x, count, add)
    ones = convert(b, x, DType.FP32)  # small: FP32 counts to 2**24
    return Term(b, add(b, ones)).cast(DType.INT32).value


def _plain_sum(b: TosaBuilder, x: Value, dim: Sequence[int] | None, factor: float) -> Value:
    b.require(x.type.quant is None, "the operand is quantized but the result is not")
    out = b.out[0].dtype
    b.require(factor == 1 or out.is_float, f"the mean of {x.type.dtype.name} values")
    if out is DType.INT32 and not b.limits.integers:
        return _sum_by_floats(b, x, dim)
    wide = DType.FP32 if out.is_float else out if out is DType.INT64 else DType.INT32
    total = Term(b, reduced(b, Term(b, x).cast(wide).value, dim, _reduce_sum))
    return (total if factor == 1 else total * factor).cast(out).value


def _quantized_sum(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None, factor: float, out: TensorType
) -> Value:
    total, step = integer_sum(b, x, dim)
    return b.reshape(b.requantize(total, step * factor, out), out.ints)


def integer_sum(b: TosaBuilder, x: Value, dim: Sequence[int] | None) -> tuple[Value, float]:
    """The sum of quantized values as INT32 (reduced axes kept), and what its step is worth."""
    wide, axes = merged(b, steps(b, x, 1.0, x.type.rank), axes_of(x, dim))
    quant = x.type.quant
    assert quant is not None
    total = sum_rows(b, Sum(wide, largest_step(quant, x.type.dtype)), Rows(axes))
    return total.value, quant.s * 2.0**total.shift


def largest_step(quant: Quant, dtype: DType) -> float:
    """The largest magnitude of a code without its zero point."""
    low, high = dtype.range
    return float(max(high - quant.zp, quant.zp - low))


@lowers("aten.amax", "aten.max")
def amax(b: TosaBuilder, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    """amax -> REDUCE_MAX (of codes where quantized)."""
    return _extreme(b, x, dim, "REDUCE_MAX")


@lowers("aten.amin", "aten.min")
def amin(b: TosaBuilder, x: Value, dim: Sequence[int] = (), keepdim: bool = False) -> Value:
    """amin -> REDUCE_MIN (of codes where quantized)."""
    return _extreme(b, x, dim, "REDUCE_MIN")


def _extreme(b: TosaBuilder, x: Value, dim: Sequence[int], name: str) -> Value:
    def reduce(b: TosaBuilder, x: Value, axis: int) -> Value:
        return b.tosa(name, x, axis=axis, quant=x.type.quant)  # type: ignore[no-any-return]

    out = b.out[0]
    if x.type.dtype is DType.INT32 and not b.limits.integers:
        return _integer_extreme(b, x, dim or None, name)
    result = carried(b, lambda v: reduced(b, v, dim or None, reduce), x, by=name)
    return result if out.quant is None else requantized(b, result, out)


def _integer_extreme(b: TosaBuilder, x: Value, dim: Sequence[int] | None, name: str) -> Value:
    """On a target without INT32 reductions: of FP32 parts, moved and reduced as floats."""
    axes = axes_of(x, dim)

    def reduce(b: TosaBuilder, x: Value) -> Value:
        for axis in axes:
            x = b.tosa(name, x, axis=axis)
        return x

    return extreme(b, x, reduce, name == "REDUCE_MIN")


@lowers("aten.any.dims", "aten.any.dim", "aten.any")
def any_(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    """any -> REDUCE_ANY."""
    return reduced(b, as_bool(b, x), dim, lambda b, x, axis: b.REDUCE_ANY(x, axis=axis))


@lowers("aten.all.dims", "aten.all.dim", "aten.all")
def all_(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    """all -> REDUCE_ALL."""
    return reduced(b, as_bool(b, x), dim, lambda b, x, axis: b.REDUCE_ALL(x, axis=axis))


@lowers("aten.prod.dim_int", "aten.prod")
def prod(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    """prod -> REDUCE_PRODUCT; integers and quantized values: products of halves, MUL by MUL."""
    out = b.out[0]
    if out.quant is not None:
        return _quantized_prod(b, x, dim, out)
    b.require(x.type.quant is None, "the operand is quantized but the result is not")
    if not out.dtype.is_float:
        wide = Term(b, x).cast(out.dtype if out.dtype is DType.INT64 else DType.INT32).value
        return Term(b, reduced(b, wide, dim, _product_of_halves)).cast(out.dtype).value
    wide = Term(b, x).cast(DType.FP32).value
    total = reduced(b, wide, dim, lambda b, x, axis: b.REDUCE_PRODUCT(x, axis=axis))
    return Term(b, total).cast(out.dtype).value


def halves(b: TosaBuilder, x: Value, axis: int) -> tuple[Value, Value, Value | None]:
    """Two equal slices along `axis`, and the odd one that is left over."""
    shape = x.type.ints
    count, half = shape[axis], shape[axis] // 2

    def part(first: int, size: int) -> Value:
        start = [0] * len(shape)
        start[axis] = first
        return b.slice(x, start, (*shape[:axis], size, *shape[axis + 1 :]))

    return part(0, half), part(half, half), part(count - 1, 1) if count % 2 else None


def _product_of_halves(b: TosaBuilder, x: Value, axis: int) -> Value:
    while x.type.ints[axis] > 1:
        first, second, odd = halves(b, x, axis)
        x = (Term(b, first) * Term(b, second)).value
        if odd is not None:
            x = b.CONCAT(x, odd, axis=axis)
    return x


def _quantized_prod(b: TosaBuilder, x: Value, dim: Sequence[int] | None, out: TensorType) -> Value:
    """Partial products in 16 bits, each scaled to the largest that it can be."""
    axes, quant, result = axes_of(x, dim), x.type.quant, out.quant
    b.require(quant is not None, "the operand is not quantized but the result is")
    assert quant is not None and result is not None
    count = product(x.type.ints[a] for a in axes)
    largest = largest_step(quant, x.type.dtype) * quant.s
    error = largest**count * 2.0**-15 * np.log2(max(count, 2)) if count > 2 else 0.0
    b.require(
        error <= result.s * (2 if out.dtype is DType.INT8 else 16),
        f"the product of {count} values up to {largest:.3g} needs more than the 16 bits of its "
        f"partial products for results in steps of {result.s:.3g}",
    )
    y, scale = steps(b, x, 1.0, x.type.rank), quant.s
    for axis in axes:
        while y.type.ints[axis] > 1:
            y, scale, largest = _multiply_halves(b, y, axis, scale, largest)
    return b.reshape(b.requantize(y, scale, out), out.ints)


def _multiply_halves(
    b: TosaBuilder, x: Value, axis: int, scale: float, largest: float
) -> tuple[Value, float, float]:
    """Products of pairs along `axis`, in 15 bits and a sign: (INT32, scale, largest)."""
    if x.type.ints[axis] % 2:  # one more factor of 1
        shape = [d if i != axis else 1 for i, d in enumerate(x.type.ints)]
        one = b.const(np.full(shape, round(1 / scale), np.int32))
        x, largest = b.CONCAT(x, one, axis=axis), max(largest, 1.0)
    first, second, _ = halves(b, x, axis)
    step = largest**2 / 32767
    result = (Term(b, first) * Term(b, second)).value
    if x.type.ints[axis] == 2 and scale**2 * 2**30 >= largest**2:
        return result, scale**2, largest**2
    return b.rescale(result, scale**2 / step, DType.INT32), step, largest**2
