"""Quotients of two quantized tensors by normalised reciprocals; no integer division is needed.

A divisor is brought to 15 significant bits, a table gives its reciprocal with the same relative
precision, and the quotient is shifted back. A divisor of zero counts as half a step or one.
"""

from __future__ import annotations

import numpy as np

from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.fixed_point import (
    has_int16_table,
    multiply,
    precise_reciprocal,
    reciprocal,
    shifted_right,
)
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.operands import as_quantized, broadcast_rank, steps
from npuc.lowering.aten_to_tosa.rounding import shift_right
from npuc.lowering.aten_to_tosa.table import gentle, table16
from npuc.lowering.tosa_builder import TosaBuilder

#: fractional bits of the quotient from which whole ones are estimated
FRACTION = 12
#: a remainder is computed in steps of the dividend divided by this
HEAD = 2.0**13
#: rounding of scales in these fine steps
NEAR = 4


def quotient(b: TosaBuilder, x: Value, y: Value) -> tuple[Value, float]:
    """x / y as INT32, and what one step of it is worth."""
    like = y.type if y.type.quant is not None else x.type
    x, y = as_quantized(b, x, like), as_quantized(b, y, like)
    assert x.type.quant is not None and y.type.quant is not None
    by_code = x.type.dtype is y.type.dtype is DType.INT8 and has_int16_table(b)
    value, step = _by_code(b, x, y) if by_code else _by_clz(b, x, y)
    return value, step * x.type.quant.s / y.type.quant.s


def _by_code(b: TosaBuilder, x: Value, y: Value) -> tuple[Value, float]:
    """int8: tables give the mantissa and the exponent of each of the 256 divisors' reciprocals.

    |x * mantissa| < 2**23 and the shift is at most 8, where the mantissa is 2**14: no overflow.
    """
    assert y.type.quant is not None
    divisors = np.arange(-128, 128) - y.type.quant.zp
    rank = broadcast_rank(x, y)
    y = b.match_rank(y, rank)
    magnitude = np.maximum(np.abs(divisors), 0.5)
    exponent = np.ceil(np.log2(np.maximum(magnitude, 1)))
    mantissa = np.where(divisors < 0, -1, 1) * np.rint(2.0 ** (14 + exponent) / magnitude)
    mantissa = np.clip(mantissa, -(2**15) + 1, 2**15 - 1)
    left = np.where(divisors == 0, 7, 8 - exponent)

    places = np.clip(np.arange(513) - 256, -128, 127) + 128
    factor = table16(b, b.rescale(y, 128.0, DType.INT16), gentle(mantissa[places]))
    shift = b.CAST(b.TABLE(y, b.const(left.astype(np.int8))), dtype=DType.INT32)
    assert x.type.quant is not None
    wide = b.rescale(b.match_rank(x, rank), 1.0, DType.INT16, in_zp=x.type.quant.zp)
    product = Term(b, b.rescale(wide, 1.0, DType.INT32)) * Term(
        b, b.rescale(factor, 1.0, DType.INT32)
    )
    return b.LOGICAL_LEFT_SHIFT(product.value, shift), 2.0**-22


def _by_clz(b: TosaBuilder, x: Value, y: Value) -> tuple[Value, float]:
    """|y| << n has its leading one at bit 30; its reciprocal comes from tables, the sign from y."""
    rank = broadcast_rank(x, y)
    left, right = Term(b, steps(b, x, 1.0, rank)), Term(b, steps(b, y, 1.0, rank))
    inverse, n = reciprocal(b, right.abs().maximum(1).value)
    product = left * _sign(right) * Term(b, inverse)
    return shifted_right(b, product.value, (30 - Term(b, n)).value), 2.0**-15


def whole_quotient(b: TosaBuilder, x: Value, y: Value, mode: str) -> tuple[Term, Term]:
    """(x / y rounded down or, mode "trunc", towards zero; x minus that multiple of y in steps of
    x / HEAD), both INT32.

    The remainder corrects the quotient, so that it is exact but for the rounding of y's scale to
    x's; remainders within NEAR steps of a multiple are that multiple.
    """
    like = y.type if y.type.quant is not None else x.type
    x, y = as_quantized(b, x, like), as_quantized(b, y, like)
    assert x.type.quant is not None and y.type.quant is not None
    rank, ratio = broadcast_rank(x, y), y.type.quant.s / x.type.quant.s
    value, step = quotient(b, x, y)
    fixed = b.rescale(value, step * 2.0**FRACTION, DType.INT32)

    divisor = Term(b, steps(b, y, 1.0, rank))
    sign, divisor = _sign(divisor), divisor.abs()
    dividend = Term(b, steps(b, x, HEAD, rank)) * sign
    negated = _sign(dividend)
    if mode == "trunc":
        sign = sign * negated
        dividend, fixed = dividend.abs(), Term(b, fixed).abs().value
    whole = Term(b, shift_right(b, fixed, FRACTION, 1))

    def scaled(steps_of_y: Term) -> Term:
        return Term(b, b.rescale(steps_of_y.value, HEAD * ratio, DType.INT32))

    left = dividend - scaled(whole * divisor)
    whole = whole - _indicator(-NEAR - left) + _indicator(left - scaled(divisor) + (NEAR + 1))
    left = dividend - scaled(whole * divisor)
    return (whole * negated if mode == "trunc" else whole), left * sign


def integer_quotient(x: Term, y: Term, mode: str) -> tuple[Term, Term]:
    """(x / y rounded down or towards zero, the remainder) of INT32 terms without INTDIV.

    The reciprocal has 30 bits: a first estimate, taken a little too small so that no product
    overflows, a second one of what it leaves over, and a correction by one. A divisor of zero
    counts as one.
    """
    b = x.b
    dividend, divisor = x.abs(), y.abs().maximum(1)
    inverse, n = precise_reciprocal(b, divisor.value)
    back = (30 - Term(b, n)).value
    half = Term(b, shifted_right(b, divisor.value, divisor.like(1).value))

    def estimate(left: Term) -> Term:
        product = multiply(b, (left - half).value, inverse, 30)
        return Term(b, shifted_right(b, product, back))  # rounded: half a divisor less, down

    whole = (estimate(dividend) - 4).maximum(0)
    left = dividend - whole * divisor
    more = estimate(left)
    left = left - more * divisor
    one = _indicator(left.maximum(-1) - divisor + 1) - _indicator(-left)
    whole, left = whole + more + one, left - one * divisor
    negative = _sign(x) * _sign(y)
    if mode == "trunc":
        return whole * negative, left * _sign(x)
    down = _indicator(left) * _indicator(-negative)  # 1 where a remainder has to be made up
    left = (left * _sign(x)) + down * y
    return whole * negative - down, left


def _sign(x: Term) -> Term:
    return x.minimum(1).maximum(-1)


def _indicator(x: Term) -> Term:
    """1 where x > 0, else 0."""
    return x.maximum(0).minimum(1)


def quotient_remainder(b: TosaBuilder, x: Value, y: Value, mode: str, out: TensorType) -> Value:
    """x - whole(x / y) * y."""
    scale = (x if x.type.quant is not None else as_quantized(b, x, y.type)).type.quant
    assert scale is not None
    _, left = whole_quotient(b, x, y, mode)
    return b.requantize(left.value, scale.s / HEAD, out)
