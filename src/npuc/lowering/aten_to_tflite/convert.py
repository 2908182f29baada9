"""Casts, and explicit quantize, dequantize and requantize."""

from __future__ import annotations

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tflite.compare import truth
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder, real_values


@lowers("aten.to", "aten.to.dtype", dialect="tflite")
def to(b: TfliteBuilder, x: Value, dtype: object = None, *_: object, **__: object) -> Value:
    """to -> CAST; QUANTIZE and DEQUANTIZE where a side is quantized."""
    out = b.out[0]
    if x.type.quant is not None:
        return _from_quantized(b, x, out)
    if out.quant is not None:
        return _to_quantized(b, x, out)
    if out.dtype is DType.BOOL:
        return truth(b, x)
    if x.type.dtype is out.dtype:
        return x
    if x.is_const:
        return b.const(x.array.astype(out.dtype.numpy), out.dtype)
    return b.CAST(x, dtype=out.dtype)  # type: ignore[no-any-return]


def _from_quantized(b: TfliteBuilder, x: Value, out: TensorType) -> Value:
    if out.quant is not None:
        return b.requantize(x, out)
    if out.dtype is DType.BOOL:
        return truth(b, x)
    real = dequantized(b, x)
    return real if out.dtype is DType.FP32 else b.CAST(real, dtype=out.dtype)


def _to_quantized(b: TfliteBuilder, x: Value, out: TensorType) -> Value:
    """BOOL: SELECT_V2 of two codes; integers: QUANTIZE of INT32, whose step is 1."""
    if x.type.dtype.is_float:
        return quantized(b, x, out)
    if x.type.dtype is DType.BOOL:
        one, zero = (
            b.real_const(np.full((1,) * x.type.rank, v), out.dtype, out.quant) for v in (1.0, 0.0)
        )
        return b.SELECT_V2(x, one, zero)  # type: ignore[no-any-return]
    return b.QUANTIZE(_steps_of_one(b, x), dtype=out.dtype, quant=out.quant)  # type: ignore[no-any-return]


def _steps_of_one(b: TfliteBuilder, x: Value) -> Value:
    """Integers as quantized INT32 with scale 1: an ADD of zero, whose result says so."""
    quant = Quant(1.0, 0, None, *DType.INT32.range)
    if x.type.dtype is not DType.INT32:
        return b.CAST(x, dtype=DType.INT32, quant=quant)  # type: ignore[no-any-return]
    return b.ADD(x, b.scalar(0, DType.INT32, x.type.rank), quant=quant)  # type: ignore[no-any-return]


@lowers("quantized_decomposed.quantize_per_tensor", dialect="tflite")
def quantize(b: TfliteBuilder, x: Value, *_: object) -> Value:
    """quantize -> QUANTIZE."""
    return quantized(b, x, b.out[0])


@lowers("quantized_decomposed.dequantize_per_tensor", dialect="tflite")
def dequantize(b: TfliteBuilder, x: Value, *_: object) -> Value:
    """dequantize -> DEQUANTIZE."""
    return dequantized(b, x)


@lowers("quantized_decomposed.dequantize_per_channel", dialect="tflite")
def dequantize_per_channel(b: TfliteBuilder, x: Value, *_: object) -> Value:
    """dequantize of a constant per channel -> a float constant."""
    b.require(x.is_const, "per-channel quantized activations")
    return b.const(real_values(x).astype(np.float32))


@lowers("quantized_decomposed.requantize", dialect="tflite")
def requantize(b: TfliteBuilder, x: Value, *_: object) -> Value:
    """requantize -> QUANTIZE."""
    return b.as_result(x)


def quantized(b: TfliteBuilder, x: Value, out: TensorType) -> Value:
    """FP32 `x` as `out`."""
    b.require(x.type.dtype is DType.FP32, f"QUANTIZE of {x.type.dtype.name}")
    if x.is_const:
        return b.real_const(x.array, out.dtype, out.quant)
    return b.QUANTIZE(x, dtype=out.dtype, quant=out.quant)  # type: ignore[no-any-return]


def dequantized(b: TfliteBuilder, x: Value) -> Value:
    """Quantized `x` as FP32."""
    if x.is_const:
        return b.const(real_values(x).astype(np.float32))
    if x.type.dtype is DType.INT32:
        return _float_steps(b, x)
    return b.DEQUANTIZE(x, dtype=DType.FP32)  # type: ignore[no-any-return]


def _float_steps(b: TfliteBuilder, x: Value) -> Value:
    quant = x.type.quant
    assert quant is not None
    real = b.CAST(x, dtype=DType.FP32)
    if quant.zp:
        real = b.SUB(real, b.scalar(quant.zp, DType.FP32, x.type.rank))
    return b.MUL(real, b.scalar(quant.s, DType.FP32, x.type.rank))  # type: ignore[no-any-return]
