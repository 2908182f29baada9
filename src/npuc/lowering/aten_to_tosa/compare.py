"""Comparisons of floats, integers, booleans and quantized values; tests for NaN and infinity."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.arithmetic import common_sum
from npuc.lowering.aten_to_tosa.formula import Condition, Term
from npuc.lowering.aten_to_tosa.operands import as_quantized, is_scalar, promoted, terms
from npuc.lowering.aten_to_tosa.table import real_values
from npuc.lowering.aten_to_tosa.unary import real_constant
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

Compare = Callable[[Any, Any], Any]

#: comparison -> the same with its operands swapped
MIRRORED = {"gt": "lt", "lt": "gt", "ge": "le", "le": "ge", "eq": "eq", "ne": "ne"}
KINDS = tuple(f"aten.{name}.Tensor" for name in MIRRORED)


def comparison(name: str) -> Compare:
    """The Python operator: works on numbers, arrays and (but for eq and ne) on terms."""
    return getattr(operator, name)  # type: ignore[no-any-return]


@lowers(*KINDS)
def compare(b: TosaBuilder, x: Value, y: Value) -> Value:
    """eq, ne, gt, ge, lt, le -> EQUAL, GREATER, GREATER_EQUAL, LOGICAL_NOT, operands swapped.

    Quantized: the sign of the difference at a common INT32 scale; with a number: a comparison of
    codes with the code where PyTorch's result changes. BOOL eq and ne: LOGICAL_XOR.
    """
    assert b.op is not None
    name = b.op.name.partition(".")[0]
    if x.type.quant is not None or y.type.quant is not None:
        return _compare_quantized(b, name, x, y)
    dtype = promoted(x, y)
    if dtype is DType.BOOL and name in ("eq", "ne"):
        left, right = terms(b, x, y)
        differ = left._binary("LOGICAL_XOR", left, right)
        return differ.value if name == "ne" else differ._unary("LOGICAL_NOT").value
    wide = dtype if dtype.is_float or dtype is DType.INT64 else DType.INT32
    if wide is DType.INT32 is not dtype and not b.limits.integers:
        wide = DType.FP32  # exact
    return emit(name, *terms(b, x, y, dtype=wide)).value


def emit(name: str, x: Term, y: Term) -> Condition:
    """A comparison of two terms."""
    if name in ("eq", "ne"):
        equal = x.equals(y)
        return ~equal if name == "ne" else equal
    return comparison(name)(x, y)  # type: ignore[no-any-return]


def _compare_quantized(b: TosaBuilder, name: str, x: Value, y: Value) -> Value:
    if is_scalar(x):
        return _compare_quantized(b, MIRRORED[name], y, x)
    if is_scalar(y):
        return compare_codes(b, name, x, float(real_constant(y).flat[0]))
    out = x.type if x.type.quant is not None else y.type
    x, y = as_quantized(b, x, out), as_quantized(b, y, out)
    difference, _ = common_sum(b, x, y, -1)
    term = Term(b, difference)
    return emit(name, term, term.like(0)).value


def compare_codes(b: TosaBuilder, name: str, x: Value, number: float) -> Value:
    """Quantized `x` against a number, as a comparison of codes."""
    codes = Term(b, b.rescale(b.match_rank(x, b.out[0].rank), 1.0, DType.INT32))
    return emit(*code_comparison(name, x, number, codes)).value


def code_comparison(name: str, x: Value, number: float, codes: Term) -> tuple[str, Term, Term]:
    """(comparison, codes, code): where PyTorch's float32 comparison with `number` changes."""
    quant = x.type.quant
    assert quant is not None
    low, high = x.type.dtype.range
    all_codes = np.arange(low, high + 1)
    real = real_values(all_codes, quant)
    if name in ("eq", "ne"):
        holds = all_codes[real == np.float32(number)]
        return name, codes, codes.like(int(holds[0]) if holds.size else high + 1)
    holds = all_codes[comparison(name)(real, np.float32(number))]
    if name in ("gt", "ge"):
        return "ge", codes, codes.like(int(holds[0]) if holds.size else high + 1)
    return "le", codes, codes.like(int(holds[-1]) if holds.size else low - 1)


@lowers("aten.isnan")
def isnan(b: TosaBuilder, x: Value) -> Value:
    """isnan -> x != x; false for integers."""
    return (
        _always(b, False) if not x.type.dtype.is_float else (~Term(b, x).equals(Term(b, x))).value
    )


@lowers("aten.isinf")
def isinf(b: TosaBuilder, x: Value) -> Value:
    """isinf -> ABS(x) = infinity; false for integers."""
    return (
        _always(b, False) if not x.type.dtype.is_float else Term(b, x).abs().equals(math.inf).value
    )


@lowers("aten.isfinite")
def isfinite(b: TosaBuilder, x: Value) -> Value:
    """isfinite -> infinity > ABS(x), which NaN fails too; true for integers."""
    return _always(b, True) if not x.type.dtype.is_float else (Term(b, x).abs() < math.inf).value


def _always(b: TosaBuilder, value: bool) -> Value:
    return b.const(np.full(b.out[0].ints, value))
