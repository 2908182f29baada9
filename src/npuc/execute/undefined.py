"""Where the TOSA specification leaves a result undefined for the values at hand.

`evaluate` wraps integers there, the reference model reports UNPREDICTABLE, and a chip does what it
likes. A compiler must not produce graphs for which any of this happens on a model's data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.execute.kernels import KERNELS
from npuc.execute.kernels.convert import read_as, scaled
from npuc.ir import DType, Op

Array = np.ndarray
Check = Callable[..., str]


def undefined_reason(op: Op, operands: list[Array], results: list[Array]) -> str:
    """Which requirement of the specification `op` breaks on these arrays, or an empty text."""
    check = CHECKS.get(op.name)
    return check(op, operands, results[0]) if check is not None and results else ""


def _range(x: Array) -> str:
    return f"{x.min()}..{x.max()}"


def _differs(op: Op, exact: Array, result: Array) -> str:
    """Exact values that the result, which wraps, does not hold."""
    if result.dtype.kind != "i" or np.array_equal(exact, result):
        return ""
    return f"values {_range(exact)} overflow {op.results[0].type.dtype.name}"


def _overflow(op: Op, overflows: Array) -> str:
    count = int(np.count_nonzero(overflows))
    return f"{count} values overflow {op.results[0].type.dtype.name}" if count else ""


def _add(op: Op, operands: list[Array], result: Array) -> str:
    a, b = operands
    return _overflow(op, (a ^ result) & (b ^ result) < 0) if a.dtype.kind == "i" else ""


def _sub(op: Op, operands: list[Array], result: Array) -> str:
    a, b = operands
    return _overflow(op, (a ^ b) & (a ^ result) < 0) if a.dtype.kind == "i" else ""


def _mul(op: Op, operands: list[Array], result: Array) -> str:
    a, b, shift = operands
    if op.results[0].type.dtype is not DType.INT32:
        return ""
    exact, places = a.astype(np.int64) * b, int(shift.reshape(-1)[0])
    if places:
        exact = (exact + (1 << (places - 1))) >> places
    return _differs(op, exact, result)


def _most_negative(op: Op, operands: list[Array], result: Array) -> str:
    x = operands[0]
    if x.dtype.kind != "i" or x.dtype.itemsize < 4:
        return ""
    return _overflow(op, x == np.iinfo(x.dtype).min)


def _reduce_sum(op: Op, operands: list[Array], result: Array) -> str:
    x = operands[0]
    if x.dtype != np.int32:
        return ""
    return _differs(op, x.sum(op.attrs["axis"], np.int64, keepdims=True), result)


def _accumulate(op: Op, operands: list[Array], result: Array) -> str:
    """Sums of products in INT32: computed again in 48 bits when they could be too large."""
    dtype = op.results[0].type.dtype
    if dtype is not DType.INT32 or _fits(op, operands):
        return ""
    wide = Op(op.kind, op.operands, op.attrs, (op.results[0].type.with_(dtype=DType.INT48),))
    return _differs(op, KERNELS[op.name](wide, *operands), result)


def _fits(op: Op, operands: list[Array]) -> bool:
    """Whether no sum can reach 31 bits, from the number of products alone."""
    a, w = operands[:2]
    if op.name.startswith("MATMUL"):
        products, bias = a.shape[2], 0
    else:
        results = w.shape[2] * w.shape[3] if op.name == "DEPTHWISE_CONV2D" else w.shape[0]
        products, bias = w.size // results, int(np.abs(operands[2].astype(np.int64)).max())
    return products * 255 * 255 + bias < 2**31


def _rescale(op: Op, operands: list[Array], result: Array) -> str:
    x, multiplier, shift, x_zp, y_zp = operands
    if shift.min() < 2 or shift.max() > 62:
        return f"shifts {_range(shift)} are not all in 2..62"
    if multiplier.min() < 0:
        return f"multipliers {_range(multiplier)} are negative"
    unsigned = op.attrs["input_unsigned"]
    value = read_as(x, unsigned).astype(np.int64) - int(read_as(x_zp, unsigned).reshape(-1)[0])
    limit = np.int64(1) << (shift.astype(np.int64) - 1)
    if op.attrs["scale32"] and np.any((value < -limit) | (value >= limit)):
        return f"values {_range(value)} exceed what shift {int(shift.min())} allows"
    exact = scaled(op, x, multiplier, shift, x_zp)
    zero = int(read_as(y_zp, op.attrs["output_unsigned"]).reshape(-1)[0])
    for name, v in (("scaled values", exact), ("values with the zero point", exact + zero)):
        if v.size and (v.min() < -(2**31) or v.max() >= 2**31):
            return f"{name} {_range(v)} exceed 32 bits"
    return ""


def _intdiv(op: Op, operands: list[Array], result: Array) -> str:
    a, b = operands
    return _overflow(op, (a == np.iinfo(a.dtype).min) & (b == -1))


def _shift(op: Op, operands: list[Array], result: Array) -> str:
    b = operands[1]
    most = operands[0].dtype.itemsize * 8 - 1
    inside = b.min(initial=0) >= 0 and b.max(initial=0) <= most
    return "" if inside else f"shifts {_range(b)} are not all in 0..{most}"


def _table(op: Op, operands: list[Array], result: Array) -> str:
    entries = operands[1].astype(np.int64)
    if operands[0].dtype != np.int16:
        return ""
    slope = np.diff(entries)
    steep = slope.min() < -(2**15) or slope.max() >= 2**15
    return f"table entries differ by {_range(slope)}, more than 16 bits" if steep else ""


def _scatter(op: Op, operands: list[Array], result: Array) -> str:
    rows = np.sort(operands[1], axis=1)
    twice = np.any(rows[:, 1:] == rows[:, :-1])
    return "an index is written twice" if twice else ""


def _pow(op: Op, operands: list[Array], result: Array) -> str:
    base, exponent = (x.astype(np.float32) for x in operands)
    wrong = np.any((base < 0) | ((base == 0) & (exponent <= 0)))
    return "a base is negative, or 0 with an exponent that is not positive" if wrong else ""


CHECKS: dict[str, Check] = {
    "ADD": _add,
    "SUB": _sub,
    "MUL": _mul,
    "ABS": _most_negative,
    "NEGATE": _most_negative,
    "REDUCE_SUM": _reduce_sum,
    "CONV2D": _accumulate,
    "CONV3D": _accumulate,
    "DEPTHWISE_CONV2D": _accumulate,
    "TRANSPOSE_CONV2D": _accumulate,
    "MATMUL": _accumulate,
    "MATMUL_T": _accumulate,
    "RESCALE": _rescale,
    "INTDIV": _intdiv,
    "ARITHMETIC_RIGHT_SHIFT": _shift,
    "LOGICAL_LEFT_SHIFT": _shift,
    "LOGICAL_RIGHT_SHIFT": _shift,
    "TABLE": _table,
    "SCATTER": _scatter,
    "POW": _pow,
}
