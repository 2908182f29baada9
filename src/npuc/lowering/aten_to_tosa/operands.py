"""Brings the operands of one op to one type: element types, ranks, integer steps, parameters."""

from __future__ import annotations

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.table import tabulate
from npuc.lowering.aten_to_tosa.unary import real_constant
from npuc.lowering.tosa_builder import TosaBuilder

#: PyTorch's promotion for tensors: the later wins
ORDER = (DType.BOOL, DType.UINT8, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.FP16,
         DType.BF16, DType.FP32)  # fmt: skip


def promoted(*values: Value) -> DType:
    """The element type of the result that PyTorch computes from tensors of these types."""
    dtypes = {v.type.dtype for v in values}
    if dtypes == {DType.FP16, DType.BF16}:
        return DType.FP32
    if dtypes == {DType.UINT8, DType.INT8}:
        return DType.INT16
    return max(dtypes, key=ORDER.index)


def broadcast_rank(*values: Value) -> int:
    return max(v.type.rank for v in values)


def terms(b: TosaBuilder, *values: Value, dtype: DType | None = None) -> list[Term]:
    """The operands as terms of one element type (default: the promoted one) and rank."""
    dtype = dtype or promoted(*values)
    rank = broadcast_rank(*values)
    return [Term(b, b.match_rank(converted(b, v, dtype), rank)) for v in values]


def converted(b: TosaBuilder, x: Value, dtype: DType) -> Value:
    """`x` as another element type by value-preserving conversion; a constant at once."""
    if x.type.quant is not None:
        b.refuse("one operand is quantized and the result is not", "quantize this op as a whole")
    if x.type.dtype is dtype:
        return x
    if x.is_const:
        return b.const(x.array.astype(dtype.numpy), dtype)
    if x.type.dtype is DType.BOOL and dtype.is_float:
        one, zero = (b.scalar(v, dtype, x.type.rank) for v in (1, 0))
        return b.SELECT(x, one, zero)  # type: ignore[no-any-return]
    return b.CAST(x, dtype=dtype)  # type: ignore[no-any-return]


def is_scalar(x: Value) -> bool:
    """Whether `x` is a constant of one element."""
    return x.is_const and x.array.size == 1


def steps(b: TosaBuilder, x: Value, scale: float, rank: int) -> Value:
    """Quantized `x` of `rank` as INT32 without its zero point, times `scale`."""
    _require_rescalable(b, x)
    return b.to_int32(b.match_rank(x, rank), scale)


def rescaled(b: TosaBuilder, x: Value, factor: float, out: TensorType) -> Value:
    """factor * x with the element type and parameters of `out`, factor > 0: one RESCALE, which may
    leave qmin..qmax."""
    _require_rescalable(b, x)
    q, r = x.type.quant, out.quant
    assert q is not None and r is not None
    return b.rescale(x, q.s * factor / r.s, out.dtype, in_zp=q.zp, out_zp=r.zp, quant=r)


def _require_rescalable(b: TosaBuilder, x: Value) -> None:
    quant = x.type.quant
    b.require(
        quant is not None, f"a {x.type.dtype.name} operand of a quantized op is not quantized"
    )
    assert quant is not None
    b.require(not quant.per_channel, "a per-channel quantized operand")
    b.require(
        x.type.dtype is DType.INT8 or quant.zp == 0,
        f"zero point {quant.zp} of {x.type.dtype.name} values; RESCALE takes 0 for them",
        "quantize 16-bit values symmetrically",
    )


def as_quantized(b: TosaBuilder, x: Value, out: TensorType) -> Value:
    """`x` as a quantized operand beside others of `out`'s width; a plain constant is quantized."""
    if x.type.quant is not None:
        b.require(not x.type.quant.per_channel, "a per-channel quantized operand")
        return x
    b.require(x.is_const, f"a {x.type.dtype.name} operand of a quantized op is not quantized")
    real = real_constant(x)
    lo, hi = out.dtype.range
    largest = float(np.abs(real).max()) or 1.0
    quant = Quant(largest / hi, 0, None, lo, hi)
    return b.const(quant.quantize(real).astype(out.dtype.numpy), out.dtype, quant)


def requantized(b: TosaBuilder, x: Value, out: TensorType) -> Value:
    """`x` (quantized, or a constant) with the element type and parameters of `out`.

    Nothing where they agree, a constant at once, int8 -> int8 by TABLE (free behind most operators
    on Ethos-U and rounded once), else RESCALE.
    """
    quant = out.quant
    assert quant is not None
    if x.is_const:
        codes = quant.quantize(real_constant(x)).astype(out.dtype.numpy)
        return b.const(codes, out.dtype, quant)
    if x.type == out.with_(shape=x.type.shape):
        return x
    if same_codes(x, out):
        return clamped(b, x, quant.qmin, quant.qmax, quant)
    if x.type.dtype is out.dtype is DType.INT8:
        return tabulate(b, x, lambda real: real, out)
    return b.clamp_codes(rescaled(b, x, 1.0, out), quant)


def same_codes(x: Value, out: TensorType) -> bool:
    """Whether equal codes of the two types mean equal values."""
    q, r = x.type.quant, out.quant
    if q is None or r is None or x.type.dtype is not out.dtype or q.per_channel or r.per_channel:
        return False
    return q.zp == r.zp and same_scale(q.s, r.s)


def same_scale(a: float, b: float) -> bool:
    """Whether scales differ by less than float32 resolves."""
    return abs(a / b - 1) < 2.0**-23


def clamped(b: TosaBuilder, x: Value, low: int, high: int, quant: Quant | None) -> Value:
    """CLAMP of codes, with new parameters."""
    lo, hi = x.type.dtype.range
    low, high = max(low, lo), min(high, hi)
    return b.CLAMP(x, min_val=low, max_val=high, quant=quant)  # type: ignore[no-any-return]
