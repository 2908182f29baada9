"""Conversions between element types with PyTorch's meaning."""

from __future__ import annotations

from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.logical import as_bool
from npuc.lowering.aten_to_tosa.operands import requantized
from npuc.lowering.aten_to_tosa.quantize import dequantized, quantized_floats
from npuc.lowering.aten_to_tosa.rounding import fixed_point, truncated, truncated_fixed
from npuc.lowering.aten_to_tosa.unary import narrowed
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.to", "aten.to.dtype")
def to(b: TosaBuilder, x: Value, dtype: DType) -> Value:
    """to -> CAST. Floats become integers by truncation (TOSA's CAST rounds), numbers become BOOL by
    comparison with 0. A quantized value keeps its meaning."""
    out = b.out[0]
    if x.type == out:
        return x
    if x.type.quant is not None:
        return _from_quantized(b, x, out)
    if out.quant is not None:
        return _to_quantized(b, x, out)
    if out.dtype is DType.BOOL:
        return as_bool(b, x)
    if x.type.dtype is DType.BOOL:
        return _from_bool(b, x, out.dtype)
    if x.type.dtype.is_float and out.dtype.is_integer:
        return b.CAST(truncated(Term(b, x)).value, dtype=out.dtype)  # type: ignore[no-any-return]
    return narrowed(Term(b, x), out.dtype)


def _from_bool(b: TosaBuilder, x: Value, dtype: DType) -> Value:
    if not dtype.is_float:
        return b.CAST(x, dtype=dtype)  # type: ignore[no-any-return]
    one, zero = (b.scalar(v, dtype, x.type.rank) for v in (1, 0))
    return b.SELECT(x, one, zero)  # type: ignore[no-any-return]


def _from_quantized(b: TosaBuilder, x: Value, out: TensorType) -> Value:
    if out.quant is not None:
        return requantized(b, x, out)
    if out.dtype is DType.BOOL:
        return as_bool(b, x)
    if out.dtype.is_float:
        return Term(b, dequantized(b, x)).cast(out.dtype).value
    whole = truncated_fixed(b, *fixed_point(b, x))
    return narrowed(Term(b, whole), out.dtype)


def _to_quantized(b: TosaBuilder, x: Value, out: TensorType) -> Value:
    """Integers and BOOL as steps of the result; floats are quantized."""
    if x.type.dtype.is_float:
        return quantized_floats(b, Term(b, x).cast(DType.FP32).value, out)
    assert out.quant is not None
    if x.type.dtype is DType.BOOL:
        codes = out.quant.quantize([1.0, 0.0])
        yes, no = (b.scalar(c, out.dtype, x.type.rank) for c in codes)
        return b.SELECT(x, yes, no, quant=out.quant)  # type: ignore[no-any-return]
    return b.requantize(Term(b, x).cast(DType.INT32).value, 1.0, out)
