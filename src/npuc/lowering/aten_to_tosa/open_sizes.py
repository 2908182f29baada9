"""Sizes known only at run time as numbers in tensors: what means and variances divide by.

TOSA turns no shape into a tensor. But a TILE repeats a one as often as a shape says, and the sum
of these ones is the size.
"""

from __future__ import annotations

from math import ceil, log2

import numpy as np

from npuc.ir import DType, SymDim, Value
from npuc.ir.size_terms import Symbol, terms_of
from npuc.ir.symbolic import largest, smallest
from npuc.lowering.aten_to_tosa.carry import carried
from npuc.lowering.tosa_builder import TosaBuilder

#: FP32 counts exactly up to this
LARGEST_COUNT = 2**24
#: longest constant of which a symbolic size takes a part
LONGEST = 2**20
#: fraction bits of an integer reciprocal
RECIPROCAL_BITS = 30


def size_tensor(b: TosaBuilder, size: int, dtype: DType, rank: int = 0) -> Value:
    """`size` as an FP32 or INT32 tensor of one element, of `rank` axes."""
    if isinstance(size, int):
        return b.scalar(size, dtype, rank)
    factors = _factors(size)
    values = [_counted(b, f, dtype) for f in factors]
    product = values[0]
    for value in values[1:]:
        product = b.MUL(product, value, b.scalar(0, DType.INT8, 1))
    return b.reshape(product, (1,) * rank)


def _factors(size: SymDim) -> list[int]:
    """Symbols whose product the size is, where it is one: fewer ones are to be summed."""
    ((monomial, factor), *more) = terms_of(size).items()
    if more or factor != 1 or not all(isinstance(a, Symbol) for a in monomial):
        return [size]  # type: ignore[list-item]
    return [SymDim(s.name, s.lo, s.hi) for s in monomial]  # type: ignore[misc, union-attr]


def _counted(b: TosaBuilder, size: int, dtype: DType) -> Value:
    """The number as a [1] tensor. A size that may be 0 or less is counted from 1."""
    lowest = min(smallest(size) - 1, 0)
    b.require(
        not isinstance(size, SymDim) or size.hi is None or size.hi < LARGEST_COUNT,
        f"the size {size} as a number; it reaches {LARGEST_COUNT} elements",
    )
    kind = dtype if dtype.is_float or b.limits.integers else DType.FP32
    ones = b.TILE(b.const(np.ones(1, kind.numpy), kind), (size - lowest,))
    count = b.REDUCE_SUM(ones, axis=0)
    if lowest:
        count = b.ADD(count, b.scalar(lowest, kind, 1))
    return count if kind is dtype else b.CAST(count, dtype=dtype)


def inverse_size(b: TosaBuilder, size: int, rank: int) -> Value:
    """1 / size in FP32, of `rank` axes."""
    if isinstance(size, int):
        return b.scalar(1 / size, DType.FP32, rank)
    return b.RECIPROCAL(size_tensor(b, size, DType.FP32, rank))  # type: ignore[no-any-return]


def divided(b: TosaBuilder, total: Value, size: int, most: float) -> tuple[Value, int]:
    """Integers `total` / `size` as INT32 with as many fraction bits as are returned.

    `most` bounds the magnitude of the quotient.
    """
    return divided_by(b, total, size_tensor(b, size, DType.INT32, total.type.rank), most)


def divided_by(b: TosaBuilder, total: Value, count: Value, most: float) -> tuple[Value, int]:
    """The same by numbers in a tensor."""
    one = b.scalar(2**RECIPROCAL_BITS, DType.INT32, total.type.rank)
    inverse = b.INTDIV(one, count)
    shift = max(ceil(log2(most)), 0)
    product = b.MUL(total, inverse, b.scalar(shift, DType.INT8, 1))
    return product, RECIPROCAL_BITS - shift


def positions(b: TosaBuilder, count: int, dtype: DType) -> Value:
    """0, 1, ... count - 1: of a symbolic count a SLICE of the longest one."""
    most = largest(count)
    b.require(
        isinstance(count, int) or most <= LONGEST,
        f"a count up to {most}; constants have up to {LONGEST} elements",
    )
    longest = b.const(np.arange(most).astype(dtype.numpy), dtype)
    return carried(b, lambda v: b.slice(v, (0,), (count,)), longest, by="SLICE", bound=most)
