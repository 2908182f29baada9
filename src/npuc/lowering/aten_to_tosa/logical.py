"""Logical operators on BOOL, bitwise operators and shifts on integers."""

from __future__ import annotations

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.operands import promoted, terms
from npuc.lowering.aten_to_tosa.unary import narrowed
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


def as_bool(b: TosaBuilder, x: Value) -> Value:
    """x != 0 as BOOL."""
    if x.type.dtype is DType.BOOL:
        return x
    if x.type.quant is not None:
        x = b.to_int32(x)
    if not x.type.dtype.is_integer:
        return (~Term(b, x).equals(0.0)).value
    return b.CAST(x, dtype=DType.BOOL)  # type: ignore[no-any-return]


def _logical(b: TosaBuilder, x: Value, y: Value, name: str) -> Value:
    left, right = terms(b, as_bool(b, x), as_bool(b, y))
    return left._binary(name, left, right).value


@lowers("aten.logical_and")
def logical_and(b: TosaBuilder, x: Value, y: Value) -> Value:
    """logical_and -> LOGICAL_AND; operands that are not BOOL are compared with 0."""
    return _logical(b, x, y, "LOGICAL_AND")


@lowers("aten.logical_or")
def logical_or(b: TosaBuilder, x: Value, y: Value) -> Value:
    """logical_or -> LOGICAL_OR; operands that are not BOOL are compared with 0."""
    return _logical(b, x, y, "LOGICAL_OR")


@lowers("aten.logical_xor")
def logical_xor(b: TosaBuilder, x: Value, y: Value) -> Value:
    """logical_xor -> LOGICAL_XOR; operands that are not BOOL are compared with 0."""
    return _logical(b, x, y, "LOGICAL_XOR")


@lowers("aten.logical_not")
def logical_not(b: TosaBuilder, x: Value) -> Value:
    """logical_not -> LOGICAL_NOT; an operand that is not BOOL is compared with 0."""
    return b.LOGICAL_NOT(as_bool(b, x))  # type: ignore[no-any-return]


def _bitwise(b: TosaBuilder, x: Value, y: Value, name: str) -> Value:
    if promoted(x, y) is DType.BOOL:
        return _logical(b, x, y, name.replace("BITWISE", "LOGICAL"))
    left, right = terms(b, x, y, dtype=b.out[0].dtype)
    return left._binary(name, left, right).value


@lowers("aten.bitwise_and.Tensor")
def bitwise_and(b: TosaBuilder, x: Value, y: Value) -> Value:
    """bitwise_and -> BITWISE_AND (LOGICAL_AND on BOOL)."""
    return _bitwise(b, x, y, "BITWISE_AND")


@lowers("aten.bitwise_or.Tensor")
def bitwise_or(b: TosaBuilder, x: Value, y: Value) -> Value:
    """bitwise_or -> BITWISE_OR (LOGICAL_OR on BOOL)."""
    return _bitwise(b, x, y, "BITWISE_OR")


@lowers("aten.bitwise_xor.Tensor")
def bitwise_xor(b: TosaBuilder, x: Value, y: Value) -> Value:
    """bitwise_xor -> BITWISE_XOR (LOGICAL_XOR on BOOL)."""
    return _bitwise(b, x, y, "BITWISE_XOR")


@lowers("aten.bitwise_not")
def bitwise_not(b: TosaBuilder, x: Value) -> Value:
    """bitwise_not -> BITWISE_NOT (LOGICAL_NOT on BOOL)."""
    name = "LOGICAL_NOT" if x.type.dtype is DType.BOOL else "BITWISE_NOT"
    return b.tosa(name, x)  # type: ignore[no-any-return]


@lowers("aten.bitwise_left_shift.Tensor")
def bitwise_left_shift(b: TosaBuilder, x: Value, y: Value) -> Value:
    """bitwise_left_shift -> LOGICAL_LEFT_SHIFT. The shift must be within 0 and the width - 1."""
    _check_shift(b, y)
    left, right = terms(b, x, y, dtype=b.out[0].dtype)
    return left._binary("LOGICAL_LEFT_SHIFT", left, right).value


@lowers("aten.bitwise_left_shift.Tensor", target="ethos-u55")
def bitwise_left_shift_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """bitwise_left_shift -> LOGICAL_LEFT_SHIFT of INT32, the chip has no other."""
    _check_shift(b, y)
    left, right = terms(b, x, y, dtype=DType.INT32)
    return narrowed(left._binary("LOGICAL_LEFT_SHIFT", left, right), b.out[0].dtype)


@lowers("aten.bitwise_right_shift.Tensor")
def bitwise_right_shift(b: TosaBuilder, x: Value, y: Value) -> Value:
    """bitwise_right_shift -> ARITHMETIC_RIGHT_SHIFT without rounding."""
    _check_shift(b, y)
    left, right = terms(b, x, y, dtype=b.out[0].dtype)
    return _shifted(left, right, rounded=False)


@lowers("aten.bitwise_right_shift.Tensor", target="ethos-u55")
def bitwise_right_shift_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """x >> s -> (2x - 2**s) shifted by s + 1 in INT32: this chip always rounds.

    INT32 has no bit to spare for 2x; by a constant x - 2**(s-1) is shifted instead.
    """
    _check_shift(b, y)
    out = b.out[0]
    left, right = terms(b, x, y, dtype=DType.INT32)
    if out.dtype is not DType.INT32:
        power = right._binary("LOGICAL_LEFT_SHIFT", 1, right)
        shifted = _shifted(left + left - power, right + 1, rounded=True)
        return b.rescale(shifted, 1.0, out.dtype)
    b.require(
        y.is_const and y.array.size == 1,
        "a right shift of INT32 by anything but a number: this chip's shift rounds",
    )
    bits = int(y.array.flat[0])
    if bits == 0:
        return left.value
    return _shifted(left - (1 << (bits - 1)), right, rounded=True)


def _shifted(x: Term, by: Term, rounded: bool) -> Value:
    return x.b.ARITHMETIC_RIGHT_SHIFT(x.value, by.value, round=rounded)  # type: ignore[no-any-return]


def _check_shift(b: TosaBuilder, y: Value) -> None:
    if not y.is_const or not y.array.size:
        return
    low, high, bits = int(y.array.min()), int(y.array.max()), b.out[0].dtype.bits
    b.require(low >= 0 and high < bits, f"shift by {low}..{high} of {bits}-bit values")
