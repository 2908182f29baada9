"""Integer operators that the profile PRO-FP lacks, exact, of those that it has: it adds, multiplies
and divides INT32 and converts it from and to floats, but neither moves, compares nor selects it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from npuc.ir import DType, Value

if TYPE_CHECKING:
    from npuc.lowering.tosa_builder import TosaBuilder

Form = Callable[..., Value]

#: an INT32 is HALF * high + low, both parts exact in FP32
HALF = 2**15

_CONVERTED = {DType.BOOL, DType.INT8, DType.INT16, DType.INT32}


def split(b: TosaBuilder, x: Value) -> tuple[Value, Value]:
    """high, low with x = HALF * high + low; the division rounds towards zero."""
    if x.is_const:
        wide = x.array.astype(np.int64)
        high = np.trunc(wide / HALF).astype(np.int64)
        low = wide - high * HALF
        return b.const(high.astype(np.int32)), b.const(low.astype(np.int32))
    high = b.INTDIV(x, b.scalar(HALF, DType.INT32, x.type.rank))
    return high, b.SUB(x, _times(b, high, HALF))


def joined(b: TosaBuilder, high: Value, low: Value) -> Value:
    """The INT32 of two parts."""
    return b.ADD(_times(b, high, HALF), low)  # type: ignore[no-any-return]


def form_of(
    b: TosaBuilder, name: str, operands: tuple[Any, ...], dtype: DType | None
) -> Form | None:
    """What stands for the operator `name` with a result of `dtype`; None where it stays."""
    if name not in FORMS or b.limits.integers:
        return None
    if name == "CAST":
        return _cast if {operands[0].type.dtype, dtype} <= _CONVERTED else None
    return FORMS[name] if operands[0].type.dtype is DType.INT32 else None


def _times(b: TosaBuilder, x: Value, y: Value | int) -> Value:
    factor = y if isinstance(y, Value) else b.scalar(y, x.type.dtype, x.type.rank)
    return b.MUL(x, factor, b.const(np.zeros(1, np.int8)))  # type: ignore[no-any-return]


def _real(b: TosaBuilder, x: Value) -> Value:
    """An integer as FP32."""
    if x.is_const:
        return b.const(x.array.astype(np.float32))
    return b.tosa("CAST", x, dtype=DType.FP32)  # type: ignore[no-any-return]


def _whole(b: TosaBuilder, condition: Value, yes: int, no: int) -> Value:
    """INT32 numbers where a condition holds and where not."""
    one, other = (b.scalar(v, DType.FP32, condition.type.rank) for v in (yes, no))
    return b.tosa("CAST", b.SELECT(condition, one, other), dtype=DType.INT32)  # type: ignore[no-any-return]


def _move(name: str) -> Form:
    def move(b: TosaBuilder, x: Value, *places: Any, **attrs: Any) -> Value:
        moved = [b.tosa(name, _real(b, part), *places, **attrs) for part in split(b, x)]
        return _together(b, moved)

    return move


def _concat(b: TosaBuilder, *values: Value, **attrs: Any) -> Value:
    halves = zip(*[split(b, v) for v in values], strict=True)
    return _together(b, [b.CONCAT(*[_real(b, part) for part in half], **attrs) for half in halves])


def _together(b: TosaBuilder, moved: list[Value]) -> Value:
    """The INT32 of its two parts in FP32."""
    return joined(b, *[b.tosa("CAST", part, dtype=DType.INT32) for part in moved])


def _difference(b: TosaBuilder, x: Value, y: Value) -> Value:
    """FP32 of the sign of x - y, 0 only where they are equal; x - y itself may exceed INT32."""
    (high, low), (high2, low2) = split(b, x), split(b, y)
    upper = _times(b, _real(b, b.SUB(high, high2)), HALF)
    return b.ADD(upper, _real(b, b.SUB(low, low2)))  # type: ignore[no-any-return]


def _comparison(name: str) -> Form:
    def compare(b: TosaBuilder, x: Value, y: Value, **_: Any) -> Value:
        difference = _difference(b, x, y)
        zero = b.scalar(0, DType.FP32, difference.type.rank)
        return b.tosa(name, difference, zero)  # type: ignore[no-any-return]

    return compare


def _maximum(b: TosaBuilder, x: Value, y: Value, **_: Any) -> Value:
    return _picked(b, b.GREATER(x, y), x, y)


def _minimum(b: TosaBuilder, x: Value, y: Value, **_: Any) -> Value:
    return _picked(b, b.GREATER(y, x), x, y)


def _picked(b: TosaBuilder, condition: Value, x: Value, y: Value) -> Value:
    first, second = _whole(b, condition, 1, 0), _whole(b, condition, 0, 1)
    return b.ADD(_times(b, first, x), _times(b, second, y))  # type: ignore[no-any-return]


def _abs(b: TosaBuilder, x: Value, **_: Any) -> Value:
    real = _real(b, x)
    negative = b.GREATER(b.scalar(0, DType.FP32, x.type.rank), real)
    return _times(b, x, _whole(b, negative, -1, 1))


def _negate(b: TosaBuilder, x: Value, *_: Value) -> Value:
    return b.SUB(b.scalar(0, DType.INT32, x.type.rank), x)  # type: ignore[no-any-return]


def _cast(b: TosaBuilder, x: Value, *, dtype: DType, **_: Any) -> Value:
    """Between BOOL and integers; fewer bits wrap, as in a CAST."""
    source, rank = x.type.dtype, x.type.rank
    if source is DType.BOOL:
        one, zero = (b.scalar(v, DType.FP32, rank) for v in (1, 0))
        return b.tosa("CAST", b.SELECT(x, one, zero), dtype=dtype)  # type: ignore[no-any-return]
    if dtype is DType.BOOL:
        zero = b.scalar(0, DType.FP32, rank)
        return b.LOGICAL_NOT(b.EQUAL(_real(b, x), zero))  # type: ignore[no-any-return]
    span = 2**dtype.bits
    if source is DType.INT32:
        x = b.SUB(x, _times(b, b.INTDIV(x, b.scalar(span, source, rank)), span))
    real = _real(b, x)
    if dtype.bits < source.bits:
        shifted = b.ADD(real, b.scalar(span // 2, DType.FP32, rank))
        turns = b.FLOOR(_times(b, shifted, b.scalar(1 / span, DType.FP32, rank)))
        real = b.SUB(real, _times(b, turns, span))
    return b.tosa("CAST", real, dtype=dtype)  # type: ignore[no-any-return]


FORMS: dict[str, Form] = {
    **{name: _move(name) for name in ("RESHAPE", "SLICE", "TRANSPOSE", "REVERSE", "TILE")},
    **{name: _comparison(name) for name in ("EQUAL", "GREATER", "GREATER_EQUAL")},
    "CAST": _cast, "MAXIMUM": _maximum, "MINIMUM": _minimum, "ABS": _abs, "NEGATE": _negate,
    "CONCAT": _concat,
}  # fmt: skip
