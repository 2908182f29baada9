"""Variance, standard deviation and vector norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from math import ceil, log2
from math import prod as product

from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.fixed_point import inverse_sqrt, multiply, number
from npuc.lowering.aten_to_tosa.formula import Number, Term
from npuc.lowering.aten_to_tosa.integer_norm import deviation_from_mean
from npuc.lowering.aten_to_tosa.integer_sums import SUM_BITS, Rows, Sum, sum_rows
from npuc.lowering.aten_to_tosa.open_norm import FINE, open_variance
from npuc.lowering.aten_to_tosa.open_sizes import inverse_size, size_tensor
from npuc.lowering.aten_to_tosa.operands import steps
from npuc.lowering.aten_to_tosa.quantize import by_floats
from npuc.lowering.aten_to_tosa.reduce import Reduce, axes_of, largest_step, merged, reduced
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.var.correction")
def var(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None = None, *, correction: Number | None = 1,
    keepdim: bool = False,
) -> Value:  # fmt: skip
    """var -> sums of x and of (x - mean)**2; quantized: in integers, one RESCALE at the end."""
    return _spread(b, x, dim, 1 if correction is None else correction, root=False)


@lowers("aten.std.correction")
def std(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None = None, *, correction: Number | None = 1,
    keepdim: bool = False,
) -> Value:  # fmt: skip
    """std -> the root of var; quantized: by a normalised table of 1/sqrt."""
    return _spread(b, x, dim, 1 if correction is None else correction, root=True)


def _spread(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None, correction: Number, root: bool
) -> Value:
    out, axes = b.out[0], axes_of(x, dim)
    count = product(x.type.ints[a] for a in axes)
    if out.quant is None:
        return _float_spread(b, x, axes, count, correction, root)
    b.require(count > correction, f"the variance of {count} values with correction {correction}")
    if not isinstance(count, int):
        return _open_spread(b, x, axes, count, correction, root)
    wide, axes = merged(b, x, axes)
    total, step = _sum_of_squares(b, wide, axes, center=True)
    return _finish(b, total, step / (count - correction), root, out)


def _float_spread(
    b: TosaBuilder, x: Value, axes: Sequence[int], count: int, correction: Number, root: bool
) -> Value:
    b.require(x.type.quant is None, "the operand is quantized but the result is not")
    wide, axes = merged(b, Term(b, x).cast(DType.FP32).value, axes)
    values = Term(b, wide)
    left = values - _sum(values, axes) * Term(b, inverse_size(b, count, wide.type.rank))
    squares = _sum(left * left, axes)
    if isinstance(count, int):
        free = max(count - correction, 0.0)
        result = squares * (1.0 / free if free else math.inf)
    else:
        size = Term(b, size_tensor(b, count, DType.FP32, wide.type.rank))
        result = squares * (size - correction).maximum(0.0).reciprocal()
    result = result.sqrt() if root else result
    return b.reshape(result.cast(b.out[0].dtype).value, b.out[0].ints)


def _open_spread(
    b: TosaBuilder, x: Value, axes: Sequence[int], count: int, correction: Number, root: bool
) -> Value:
    """The same of quantized values where the number of values is known only at run time."""
    b.require(correction == int(correction), f"correction {correction} of a symbolic size")
    b.require(x.type.quant is not None, "the operand is not quantized but the result is")
    assert x.type.quant is not None
    _, variance, scale = open_variance(b, x, Rows(tuple(axes)), count - int(correction))
    unit = (x.type.quant.s / FINE[x.type.dtype]) ** 2 * scale
    return _finish(b, variance, unit, root, b.out[0])


def _sum(x: Term, axes: Sequence[int]) -> Term:
    for axis in axes:
        x = Term(x.b, x.b.REDUCE_SUM(x.value, axis=axis))
    return x


def _sum_of_squares(
    b: TosaBuilder, x: Value, axes: Sequence[int], center: bool
) -> tuple[Value, float]:
    """Sum of (x - mean)**2, or of x**2, as INT32 (axes kept), and what its step is worth."""
    quant, rows = x.type.quant, Rows(tuple(axes))
    b.require(quant is not None, "the operand is not quantized but the result is")
    assert quant is not None
    count = rows.count(x.type.ints)
    if center:
        found = deviation_from_mean(b, x, rows, count)
        d, fine, reach = found.value, found.fine, found.reach
    else:
        d, fine, reach = steps(b, x, 1.0, x.type.rank), 1.0, largest_step(quant, x.type.dtype)
    first = max(ceil(2 * log2(reach) - SUM_BITS), 0)  # a square has to fit before it is summed
    limit = count * reach**2 / (4 if center else 1)  # half the range is the most
    squares = Sum(multiply(b, d, d, first), reach**2 * 2.0**-first, first, limit)
    total = sum_rows(b, squares, rows)
    return total.value, (quant.s / fine) ** 2 * 2.0**total.shift


def _finish(b: TosaBuilder, total: Value, step: float, root: bool, out: TensorType) -> Value:
    """`total` steps, or their square root, as the quantized result."""
    if not root:
        return b.reshape(b.requantize(total, step, out), out.ints)
    roots = square_root(b, total)
    return b.reshape(b.requantize(roots, math.sqrt(step) * 2.0**-15, out), out.ints)


def square_root(b: TosaBuilder, v: Value) -> Value:
    """sqrt(v) * 2**15 of non-negative INT32 `v` as v / sqrt(v), to 13 bits or better."""
    inverse = inverse_sqrt(b, b.MAXIMUM(v, number(b, v, 1)))  # 2**29 / sqrt(v)
    return multiply(b, v, inverse, 14)


@lowers("aten.linalg_vector_norm")
def vector_norm(
    b: TosaBuilder, x: Value, ord: Number = 2, dim: Sequence[int] | None = None,
    keepdim: bool = False, *, dtype: DType | None = None,
) -> Value:  # fmt: skip
    """vector_norm of order 1, 2, inf, -inf (floats: any) -> sums or extremes of magnitudes."""
    out = b.out[0]
    if out.quant is not None:
        return _quantized_norm(b, x, float(ord), dim, out)
    b.require(x.type.quant is None, "the operand is quantized but the result is not")
    values = Term(b, x).cast(DType.FP32)
    return b.reshape(_float_norm(b, values, float(ord), dim).cast(out.dtype).value, out.ints)


def _float_norm(b: TosaBuilder, x: Term, order: float, dim: Sequence[int] | None) -> Term:
    def over(term: Term, name: str) -> Term:
        def reduce(b: TosaBuilder, x: Value, axis: int) -> Value:
            return b.tosa(name, x, axis=axis)  # type: ignore[no-any-return]

        return Term(b, reduced(b, term.value, dim, reduce))

    magnitude = x.abs()
    if math.isinf(order):
        return over(magnitude, "REDUCE_MAX" if order > 0 else "REDUCE_MIN")
    if order == 0:
        return over(magnitude.equals(0.0).select(0.0, 1.0), "REDUCE_SUM")
    if order == 1:
        return over(magnitude, "REDUCE_SUM")
    if order == 2:
        return over(x * x, "REDUCE_SUM").sqrt()
    b.require(order > 0, f"a vector norm of order {order:g}")
    return over(magnitude.pow(order), "REDUCE_SUM").pow(1.0 / order)


def _quantized_norm(
    b: TosaBuilder, x: Value, order: float, dim: Sequence[int] | None, out: TensorType
) -> Value:
    quant = x.type.quant
    b.require(quant is not None, "the operand is not quantized but the result is")
    if order not in (1, 2, math.inf, -math.inf):
        reason = f"a quantized vector norm of order {order:g}"
        return by_floats(b, reason, lambda t: _float_norm(b, t, order, dim), x)
    assert quant is not None
    if order == 2:
        wide, axes = merged(b, x, axes_of(x, dim))
        return _finish(b, *_sum_of_squares(b, wide, axes, center=False), True, out)
    magnitude = b.ABS(steps(b, x, 1.0, x.type.rank))
    if order == 1:
        wide, axes = merged(b, magnitude, axes_of(x, dim))
        total = sum_rows(b, Sum(wide, largest_step(quant, x.type.dtype)), Rows(axes))
        return b.reshape(b.requantize(total.value, quant.s * 2.0**total.shift, out), out.ints)
    name = "REDUCE_MAX" if order > 0 else "REDUCE_MIN"
    narrow = b.rescale(magnitude, 1.0, DType.INT16)  # chips reduce 8 and 16 bits only
    reduce: Reduce = lambda b, x, axis: b.tosa(name, x, axis=axis)  # noqa: E731
    found = b.rescale(reduced(b, narrow, dim, reduce), 1.0, DType.INT32)
    return b.requantize(found, quant.s, out)
