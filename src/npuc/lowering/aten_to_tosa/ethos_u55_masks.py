"""BOOL on Ethos-U55 and U65, which have no such tensors: INT8 masks of 0 and 1.

The builder carries a BOOL value of the model as such a mask (`TosaBuilder.carried_type`). A
comparison is a difference and a TABLE of its sign, one operation; a choice takes the smaller of
each side and a mask of extremes, and then the larger of both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.arithmetic import common_sum
from npuc.lowering.aten_to_tosa.cast import to
from npuc.lowering.aten_to_tosa.compare import KINDS, MIRRORED, code_comparison, comparison
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.operands import (
    as_quantized,
    broadcast_rank,
    is_scalar,
    requantized,
    same_scale,
    terms,
)
from npuc.lowering.aten_to_tosa.reduce import reduced
from npuc.lowering.aten_to_tosa.table import real_values, table16
from npuc.lowering.aten_to_tosa.unary import real_constant
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import MASK, TosaBuilder

CODES = np.arange(-128, 128)
#: differences below this part of a step count as none, because scales are rounded
NEAR = 2.0**-15


def mask_table(b: TosaBuilder, x: Value, yes: Any) -> Value:
    """The mask that is 1 for the codes (-128..127) where `yes` holds."""
    return b.TABLE(x, b.const(np.asarray(yes).astype(np.int8)), quant=MASK)  # type: ignore[no-any-return]


@lowers(*KINDS, target="ethos-u55")
def compare_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """eq, ne, gt, ge, lt, le -> SUB saturated to INT8 and TABLE; int8 with a number: one TABLE."""
    assert b.op is not None
    name = b.op.name.partition(".")[0]
    if is_scalar(x) and not y.is_const:
        name, x, y = MIRRORED[name], y, x
    quantized = x.type.quant is not None or y.type.quant is not None
    if quantized and is_scalar(y):
        return _compare_number(b, name, x, float(real_constant(y).flat[0]))
    if quantized:
        like = x.type if x.type.quant is not None else y.type
        x, y = as_quantized(b, x, like), as_quantized(b, y, like)
        difference, step = common_sum(b, x, y, -1)
        assert x.type.quant is not None and y.type.quant is not None
        exact = same_scale(step, x.type.quant.s)
        fine = 1.0 if exact else NEAR * max(x.type.quant.s, y.type.quant.s) / step
        # RESCALE by 2**-2 takes values up to 2**31 (specification: apply_scale_32)
        return _sign_table(b, name, difference, 1.0 if exact else min(1.0 / fine, 0.25))
    left, right = terms(b, x, y, dtype=DType.INT32)
    return _sign_table(b, name, (left - right).value, 1.0)


def _sign_table(b: TosaBuilder, name: str, difference: Value, scale: float) -> Value:
    """Saturation to INT8 keeps the sign, which is all that a comparison with 0 needs."""
    narrow = b.rescale(difference, scale, DType.INT8)
    return mask_table(b, narrow, comparison(name)(CODES, 0))


def _compare_number(b: TosaBuilder, name: str, x: Value, number: float) -> Value:
    quant = x.type.quant
    b.require(quant is not None, f"a comparison of {x.type.dtype.name} values with {number:g}")
    assert quant is not None
    x = b.match_rank(x, b.out[0].rank)
    if x.type.dtype is DType.INT8:
        return mask_table(b, x, comparison(name)(real_values(CODES, quant), np.float32(number)))
    codes = Term(b, b.rescale(x, 1.0, DType.INT32))
    name, codes, code = code_comparison(name, x, number, codes)
    limit = int(code.value.array.flat[0])
    low, high = x.type.dtype.range
    if not low <= limit <= high:  # holds for no code or for all
        always = comparison(name)(0, limit)
        return mask_table(b, b.rescale(codes.value, 1.0, DType.INT8), np.full(256, always))
    # a RESCALE of a constant, because Ethos-U fuses that and no INT32 constant
    short = b.rescale(b.scalar(limit, x.type.dtype, x.type.rank), 1.0, DType.INT32)
    return _sign_table(b, name, (codes - Term(b, short)).value, 1.0)


def _masks(b: TosaBuilder, *values: Value) -> list[Term]:
    """Masks of equal rank as INT32 terms; other operands are compared with 0."""
    rank = broadcast_rank(*values)
    return [Term(b, b.rescale(b.match_rank(as_mask(b, v), rank), 1.0, DType.INT32)) for v in values]


def as_mask(b: TosaBuilder, x: Value) -> Value:
    """x != 0 as a mask."""
    if x.type.quant == MASK:
        return x
    if x.type.quant is None:
        narrow = b.rescale(Term(b, x).cast(DType.INT32).value, 1.0, DType.INT8)
        return mask_table(b, narrow, CODES != 0)
    if x.type.dtype is DType.INT8:
        return mask_table(b, x, x.type.quant.zp != CODES)
    narrow = b.rescale(b.to_int32(x), 1.0, DType.INT8)
    return mask_table(b, narrow, CODES != 0)


def _as_result(b: TosaBuilder, x: Term) -> Value:
    return b.rescale(x.value, 1.0, DType.INT8, quant=MASK)


@lowers("aten.logical_and", "aten.bitwise_and.Tensor", target="ethos-u55")
def logical_and_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """logical_and -> MINIMUM of masks."""
    _require_mask(b, "BITWISE_AND")
    left, right = _masks(b, x, y)
    return _as_result(b, left.minimum(right))


@lowers("aten.logical_or", "aten.bitwise_or.Tensor", target="ethos-u55")
def logical_or_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """logical_or -> MAXIMUM of masks."""
    _require_mask(b, "BITWISE_OR")
    left, right = _masks(b, x, y)
    return _as_result(b, left.maximum(right))


@lowers("aten.logical_xor", "aten.bitwise_xor.Tensor", target="ethos-u55")
def logical_xor_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """logical_xor -> SUB of masks, TABLE of what is not 0."""
    _require_mask(b, "BITWISE_XOR")
    left, right = _masks(b, x, y)
    return mask_table(b, b.rescale((left - right).value, 1.0, DType.INT8), CODES != 0)


@lowers("aten.logical_not", "aten.bitwise_not", target="ethos-u55")
def logical_not_u55(b: TosaBuilder, x: Value) -> Value:
    """logical_not -> TABLE."""
    _require_mask(b, "BITWISE_NOT")
    return mask_table(b, as_mask(b, x), CODES == 0)


def _require_mask(b: TosaBuilder, name: str) -> None:
    b.require(b.out[0].quant == MASK, f"{name} of integers: the chip has no bitwise operators")


@lowers("aten.isnan", "aten.isinf", "aten.isfinite", target="ethos-u55")
def is_special(b: TosaBuilder, x: Value) -> Value:
    """isnan, isinf -> 0, isfinite -> 1: integers are neither NaN nor infinite."""
    assert b.op is not None
    return b.const(np.full(b.out[0].ints, b.op.name == "isfinite", np.int8), quant=MASK)


@lowers("aten.any.dims", target="ethos-u55")
def any_u55(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    """any -> REDUCE_MAX of masks."""
    return reduced(b, as_mask(b, x), dim, lambda b, x, axis: b.REDUCE_MAX(x, axis=axis, quant=MASK))


@lowers("aten.all.dims", target="ethos-u55")
def all_u55(
    b: TosaBuilder, x: Value, dim: Sequence[int] | None = None, keepdim: bool = False
) -> Value:
    """all -> REDUCE_MIN of masks."""
    return reduced(b, as_mask(b, x), dim, lambda b, x, axis: b.REDUCE_MIN(x, axis=axis, quant=MASK))


@lowers("aten.to", target="ethos-u55")
def to_u55(b: TosaBuilder, x: Value, dtype: DType) -> Value:
    """to -> as elsewhere; to and from BOOL as masks."""
    if b.out[0].quant == MASK:
        return as_mask(b, x)
    if x.type.quant == MASK and b.out[0].quant is None and b.out[0].dtype is DType.INT32:
        return b.rescale(x, 1.0, DType.INT32)
    return to(b, x, dtype)


@lowers("aten.where", target="ethos-u55")
def where_u55(b: TosaBuilder, condition: Value, x: Value, y: Value) -> Value:
    """where, masked_fill -> max(min(x, m), min(y, n)) of codes: where the condition holds m is the
    largest and n the smallest code, elsewhere the reverse. A number is one TABLE of the mask."""
    out = b.out[0]
    if out.quant is None:
        return _where_integers(b, condition, x, y)
    x, y = requantized(b, x, out), requantized(b, y, out)
    if is_scalar(x) and is_scalar(y):
        yes, no = (int(v.array.flat[0]) for v in (x, y))
        return b.reshape(_choice(b, condition, yes, no, out), out.ints)
    left, right = _side(b, condition, x, True, out), _side(b, condition, y, False, out)
    if left is None or right is None:
        found = left or right
        assert found is not None
        return found
    return _extreme(b, "MAXIMUM", left, right, out)


def _side(b: TosaBuilder, condition: Value, x: Value, where: bool, out: TensorType) -> Value | None:
    """`x` where the condition is `where`, the smallest code elsewhere; None if all are smallest."""
    low, high = out.dtype.range
    if is_scalar(x):
        code = int(x.array.flat[0])
        if code == low:
            return None
        return _choice(b, condition, *((code, low) if where else (low, code)), out)
    mask = _choice(b, condition, *((high, low) if where else (low, high)), out)
    return _extreme(b, "MINIMUM", x, mask, out)


def _choice(b: TosaBuilder, condition: Value, yes: int, no: int, out: TensorType) -> Value:
    """The code `yes` or `no` by the condition, a value of the condition's shape."""
    if condition.is_const:
        codes = np.where(condition.array != 0, yes, no).astype(out.dtype.numpy)
        return b.const(codes, out.dtype, out.quant)
    mask = as_mask(b, condition)
    if out.dtype is DType.INT8:
        table = b.const(np.where(CODES > 0, yes, no).astype(np.int8))
        return b.TABLE(mask, table, quant=out.quant)  # type: ignore[no-any-return]
    # four cells apart, so that the slope between any two codes fits 16 bits
    entries = np.rint(np.interp(np.arange(513), [256, 260], [no, yes]))
    return table16(b, b.rescale(mask, 512.0, DType.INT16), entries, out.quant)


def _extreme(b: TosaBuilder, name: str, x: Value, y: Value, out: TensorType) -> Value:
    """MAXIMUM or MINIMUM of codes, which unit RESCALEs make one operation."""
    rank = broadcast_rank(x, y)
    left, right = (b.rescale(b.match_rank(v, rank), 1.0, DType.INT32) for v in (x, y))
    return b.rescale(b.tosa(name, left, right), 1.0, out.dtype, quant=out.quant)


def _where_integers(b: TosaBuilder, condition: Value, x: Value, y: Value) -> Value:
    """y + mask * (x - y) in INT32."""
    b.require(
        b.out[0].dtype is DType.INT32, f"a choice between {b.out[0].dtype.name} values on this chip"
    )
    left, right = terms(b, x, y, dtype=DType.INT32)
    mask = Term(b, b.rescale(as_mask(b, condition), 1.0, DType.INT32))
    return (right + mask * (left - right)).value
