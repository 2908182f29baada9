"""Reciprocal, inverse square root and logarithm of integers, one value per row of a tensor.

A value is normalised by its leading zeros and looked up: in a 16-bit TABLE where the target has
one, else in two 8-bit TABLEs (high and low byte) that a Newton step refines.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.table import table16
from npuc.lowering.tosa_builder import TosaBuilder

Function = Callable[[np.ndarray], np.ndarray]


def has_int16_table(b: TosaBuilder) -> bool:
    """Whether the target takes TABLE on INT16."""
    return "EXT-INT16" in b.limits.offered


def multiply(b: TosaBuilder, x: Value, y: Value, shift: int = 0) -> Value:
    """INT32 product, shifted right with rounding; the 64-bit product is not cut before."""
    return b.MUL(x, y, b.scalar(shift, DType.INT8, 1))  # type: ignore[no-any-return]


def number(b: TosaBuilder, like: Value, value: int) -> Value:
    """An INT32 constant that broadcasts against `like`."""
    return b.scalar(value, DType.INT32, like.type.rank)


def shifted_right(b: TosaBuilder, x: Value, amount: Value) -> Value:
    """ARITHMETIC_RIGHT_SHIFT with rounding: Ethos-U55 has no other."""
    return b.ARITHMETIC_RIGHT_SHIFT(x, amount, round=True)  # type: ignore[no-any-return]


def bytes_of_table(b: TosaBuilder, codes: Value, entries: np.ndarray) -> Value:
    """entries[codes + 128], each 0..32767, as INT32: one TABLE for each byte."""
    entries = np.rint(entries).astype(np.int64)
    high = b.TABLE(codes, b.const((entries >> 8).astype(np.int8)))
    low = b.TABLE(codes, b.const(((entries & 255) - 128).astype(np.int8)))
    high = b.LOGICAL_LEFT_SHIFT(b.rescale(high, 1.0, DType.INT32), number(b, high, 8))
    low = b.ADD(b.rescale(low, 1.0, DType.INT32), number(b, low, 128))
    return b.ADD(high, low)  # type: ignore[no-any-return]


def _look_up(b: TosaBuilder, mantissa: Value, function: Function) -> Value:
    """function(mantissa / 2**16) for INT32 `mantissa` in 2**29 .. 2**31 - 1; results 0..32767."""
    if has_int16_table(b):
        return b.CAST(_table_of_mantissa(b, mantissa, function), dtype=DType.INT32)  # type: ignore[no-any-return]
    points = np.maximum(np.arange(256), 64) * 128.0
    codes = b.rescale(mantissa, 2.0**-23, DType.INT8, out_zp=-128)
    return bytes_of_table(b, codes, np.clip(function(points), 0, 32767))


def _table_of_mantissa(b: TosaBuilder, mantissa: Value, function: Function) -> Value:
    """The same as INT16, with a 16-bit table."""
    points = np.maximum(np.arange(513) * 128.0 - 32768, 2**13)
    codes = b.rescale(mantissa, 2.0**-16, DType.INT16)
    return table16(b, codes, np.rint(np.clip(function(points), 0, 32767)))


def _root(mantissa: np.ndarray) -> np.ndarray:
    return 2.0**21 / np.sqrt(mantissa)


def normalized(b: TosaBuilder, v: Value) -> tuple[Value, Value]:
    """(v << n, n) with the leading one of positive INT32 `v` at bit 30."""
    n = b.SUB(b.CLZ(v), number(b, v, 1))
    return b.LOGICAL_LEFT_SHIFT(v, n), n


def reciprocal(b: TosaBuilder, v: Value) -> tuple[Value, Value]:
    """(t, n) with t = 2**45 / (v << n), in 2**14 .. 2**15, for positive INT32 `v`."""
    mantissa, n = normalized(b, v)
    t = _look_up(b, mantissa, lambda m: 2.0**29 / m)
    return (t if has_int16_table(b) else _refined(b, mantissa, t, 15)), n


def precise_reciprocal(b: TosaBuilder, v: Value) -> tuple[Value, Value]:
    """(t, n) with t = 2**60 / (v << n), in 2**29 .. 2**30, by a Newton step after the table."""
    mantissa, n = normalized(b, v)
    return _refined(b, mantissa, _look_up(b, mantissa, lambda m: 2.0**29 / m), 30), n


def _refined(b: TosaBuilder, mantissa: Value, t: Value, bits: int) -> Value:
    """A Newton step for t = 2**45 / mantissa, the result with `bits` instead of 15 bits."""
    one = multiply(b, mantissa, t, 22)  # 2**23 when t is exact
    return multiply(b, t, b.SUB(number(b, mantissa, 2**24), one), 38 - bits)


def inverse_sqrt(b: TosaBuilder, v: Value) -> Value:
    """2**29 / sqrt(v), to 13 bits or better, for positive INT32 `v`."""
    mantissa, h = _even_mantissa(b, v)
    t = _look_up(b, mantissa, _root)
    if not has_int16_table(b):
        t = _refined_root(b, mantissa, t, 0)
    return b.LOGICAL_LEFT_SHIFT(t, h)  # type: ignore[no-any-return]


def narrow_inverse_sqrt(b: TosaBuilder, v: Value) -> tuple[Value, Value]:
    """(t, h) with t = 2**29 / (sqrt(v) << h), for positive INT32 `v`.

    t is INT16 with 16-bit tables, else INT32; it is 2**13.5 .. 2**14.5.
    """
    mantissa, h = _even_mantissa(b, v)
    if has_int16_table(b):
        return _table_of_mantissa(b, mantissa, _root), h
    return _refined_root(b, mantissa, _look_up(b, mantissa, _root), 0), h


def precise_inverse_sqrt(b: TosaBuilder, v: Value) -> Value:
    """2**29 / sqrt(v), rounded, by a Newton step after the table."""
    mantissa, h = _even_mantissa(b, v)
    t = _look_up(b, mantissa, _root)
    t = _refined_root(b, mantissa, t, 15)
    return shifted_right(b, t, b.SUB(number(b, t, 15), h))


def _even_mantissa(b: TosaBuilder, v: Value) -> tuple[Value, Value]:
    """(v << 2h in 2**29 .. 2**31 - 1, h)."""
    n = b.SUB(b.CLZ(v), number(b, v, 1))
    h = b.SUB(n, shifted_right(b, n, number(b, v, 1)))  # the shift rounds up, the rest down
    return b.LOGICAL_LEFT_SHIFT(v, b.ADD(h, h)), h


def _refined_root(b: TosaBuilder, mantissa: Value, t: Value, more_bits: int) -> Value:
    """A Newton step for t = 2**29 / sqrt(mantissa), the result with `more_bits` more."""
    one = multiply(b, mantissa, multiply(b, t, t), 34)  # 2**24 when t is exact
    return multiply(b, t, b.SUB(number(b, mantissa, 3 * 2**24), one), 25 - more_bits)


def logarithm(b: TosaBuilder, v: Value, bits: int) -> Value:
    """ln(v) * 2**bits, rounded, for positive INT32 `v`; bits at most 16."""
    mantissa, n = normalized(b, v)
    t = _look_up(b, mantissa, lambda m: 2.0**15 * np.log(np.maximum(m, 2.0**14) / 2.0**14))
    if not has_int16_table(b):
        # ln(m) = ln(p) + (m - p) / p at the point p of the table; what is left is below 2**-16
        codes = b.rescale(mantissa, 2.0**-23, DType.INT32)
        codes = b.MINIMUM(codes, number(b, v, 255))
        rest = b.SUB(mantissa, b.LOGICAL_LEFT_SHIFT(codes, number(b, v, 23)))
        part, _ = reciprocal(b, codes)  # 2**22 / codes
        t = b.ADD(t, multiply(b, rest, part, 30))
    exponent = multiply(b, b.SUB(number(b, v, 30), n), number(b, v, round(np.log(2) * 2**20)))
    fine = b.ADD(exponent, b.LOGICAL_LEFT_SHIFT(t, number(b, v, 5)))
    return b.rescale(fine, 2.0 ** (bits - 20), DType.INT32)
