"""Reductions and divisions of integers on targets of the profile PRO-FP only, exact by way of FP32;
what stands for single operators is in `integers_by_floats`."""

from __future__ import annotations

from collections.abc import Callable

from npuc.ir import DType, Value
from npuc.ir.symbolic import largest
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.integers_by_floats import HALF
from npuc.lowering.tosa_builder import TosaBuilder

#: FP32 holds the sum of so many parts
MOST_HALVES = 2**9


def floored(quotient: Term, remainder: Term, divisor: Term) -> Term:
    """A quotient that was rounded towards zero, rounded down instead."""
    left, right = remainder.cast(DType.FP32), divisor.cast(DType.FP32)
    lower = ~left.equals(0.0) & ((left < 0.0) ^ (right < 0.0))
    return quotient - lower.select(1.0, 0.0).cast(DType.INT32)


def total(
    b: TosaBuilder, x: Value, count: int, reduce: Callable[[TosaBuilder, Value], Value]
) -> Value:
    """The sum of INT32 values, by way of their upper and lower parts. `reduce` sums up `count` FP32
    values and gives the op's shape.
    """
    b.require(
        largest(count) <= MOST_HALVES,
        f"the sum of {count} integers in FP32, which is exact up to {MOST_HALVES}",
    )
    upper = Term(b, b.INTDIV(x, b.scalar(HALF, DType.INT32, x.type.rank)))
    lower = Term(b, x) - upper * HALF
    high, low = (
        Term(b, reduce(b, part.cast(DType.FP32).value)).cast(DType.INT32) for part in (upper, lower)
    )
    return (high * HALF + low).value


def extreme(
    b: TosaBuilder, x: Value, reduce: Callable[[TosaBuilder, Value], Value], smallest: bool
) -> Value:
    """The extreme of INT32 values, in the shape of the op's result: of their upper parts, then of
    the lower parts beside that one. `reduce` reduces FP32 values and keeps the axes.
    """
    upper = Term(b, b.INTDIV(x, b.scalar(HALF, DType.INT32, x.type.rank)))
    low = (Term(b, x) - upper * HALF).cast(DType.FP32)  # of the sign of x: the division truncates
    high = upper.cast(DType.FP32)
    high, low = (low < 0.0).select(high - 1.0, high), (low < 0.0).select(low + HALF * 1.0, low)
    top = Term(b, reduce(b, high.value))
    beside = high.equals(top).select(low, HALF * 2.0 if smallest else -1.0)
    rest = Term(b, reduce(b, beside.value))
    upper, lower = (
        Term(b, b.reshape(part.value, b.out[0].ints)).cast(DType.INT32) for part in (top, rest)
    )
    return (upper * HALF + lower).value
