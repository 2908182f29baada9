"""Bounds of the elements of a value, from the op that made it."""

from __future__ import annotations

import math

from npuc.ir import Op, Value
from npuc.passes.unary import commutes

#: ranges of functions of floats
FLOAT_RANGES = {
    "SIGMOID": (0.0, 1.0), "TANH": (-1.0, 1.0), "ERF": (-1.0, 1.0), "SIN": (-1.0, 1.0),
    "COS": (-1.0, 1.0), "EXP": (0.0, math.inf), "ABS": (0.0, math.inf),
}  # fmt: skip
#: ops to look through at most: the search stays linear
DEPTH = 8


def value_range(value: Value, depth: int = DEPTH) -> tuple[float, float]:
    """The smallest and the largest value that an element can have (NaN aside)."""
    dtype = value.type.dtype
    widest = dtype.range if dtype.is_integer else (-math.inf, math.inf)
    op = value.op
    if op is None or depth == 0:
        return widest
    if op.kind == "const" and value.array.size:
        return _limits(value)
    found = _range_of(op, depth)
    if found is None:
        return widest
    return max(found[0], widest[0]), min(found[1], widest[1])


def _range_of(op: Op, depth: int) -> tuple[float, float] | None:
    if commutes(op):
        return value_range(op.operands[0], depth - 1)
    if op.name == "CLAMP":
        lo, hi = value_range(op.operands[0], depth - 1)
        bounds = op.attrs["min_val"], op.attrs["max_val"]
        return min(max(lo, bounds[0]), bounds[1]), min(max(hi, bounds[0]), bounds[1])
    if op.name == "TABLE" and op.operands[1].is_const and op.results[0].type.dtype.bits == 8:
        return _limits(op.operands[1])
    if op.name == "CONCAT":
        # one level only: operands of operands of operands would be exponentially many
        ranges = [value_range(v, min(depth - 1, 1)) for v in op.operands]
        return min(lo for lo, _ in ranges), max(hi for _, hi in ranges)
    return FLOAT_RANGES.get(op.name) if op.results[0].type.dtype.is_float else None


def _limits(constant: Value) -> tuple[float, float]:
    """Range of a constant's elements; unknown where some are NaN."""
    lo, hi = float(constant.array.min()), float(constant.array.max())
    return (lo, hi) if lo == lo else (-math.inf, math.inf)
