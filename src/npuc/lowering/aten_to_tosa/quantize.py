"""Explicit quantize, dequantize and requantize: PyTorch's arithmetic to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.operands import broadcast_rank, clamped, rescaled, same_codes
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("quantized_decomposed.quantize_per_tensor", "quantized_decomposed.quantize_per_channel")
def quantize(b: TosaBuilder, x: Value, *_: object) -> Value:
    """quantize -> MUL by 1/scale, CLAMP, CAST (rounds half to even), ADD of the zero point."""
    return quantized_floats(b, x, b.out[0])


@lowers("quantized_decomposed.dequantize_per_tensor", "quantized_decomposed.dequantize_per_channel")
def dequantize(b: TosaBuilder, x: Value, *_: object) -> Value:
    """dequantize -> CAST, SUB of the zero point, MUL by the scale."""
    return Term(b, dequantized(b, x)).cast(b.out[0].dtype).value


@lowers("quantized_decomposed.requantize")
def requantize(b: TosaBuilder, x: Value, *_: object) -> Value:
    """requantize -> RESCALE; CLAMP where only the range differs.

    Codes of 8 unsigned bits become signed ones, or come from them, in a RESCALE of their own: there
    is none from or to wider integers.
    """
    out = b.out[0]
    if x.type.dtype is DType.UINT8:
        x = b.rescale(x, 1.0, DType.INT8, in_zp=128, quant=_signed(x.type), input_unsigned=True)
    if out.dtype is not DType.UINT8:
        return _requantized(b, x, out)
    x = _requantized(b, x, out.with_(dtype=DType.INT8, quant=_signed(out)))
    return b.rescale(x, 1.0, DType.UINT8, out_zp=128, quant=out.quant, output_unsigned=True)


def _signed(type: TensorType) -> Quant:
    """The parameters of 8-bit unsigned codes when 128 is taken from them."""
    q = type.quant
    assert q is not None
    return Quant(q.scale, q.zero_point - 128, q.axis, q.qmin - 128, q.qmax - 128)


def _requantized(b: TosaBuilder, x: Value, out: TensorType) -> Value:
    q, r = x.type.quant, out.quant
    assert q is not None and r is not None
    if x.type == out:
        return x
    if same_codes(x, out):
        return clamped(b, x, r.qmin, r.qmax, r)
    return b.clamp_codes(rescaled(b, x, 1.0, out), r)


def by_floats(b: TosaBuilder, reason: str, formula: Callable[..., Term], *values: Value) -> Value:
    """A quantized op without an integer form: dequantize, `formula` of FP32, quantize; refused for
    `reason` where the target has no floats."""
    b.require(b.limits.floats, reason, "keep this op in float")
    rank = broadcast_rank(*values)
    terms = [Term(b, b.match_rank(dequantized(b, v), rank)) for v in values]
    return quantized_floats(b, formula(*terms).value, b.out[0])


def _require_floats(b: TosaBuilder, what: str) -> None:
    b.require(
        b.limits.floats,
        f"{what} is float here and {b.limits.name} has integers only",
        "quantize the op that makes or reads it",
    )


def _along(vector: np.ndarray, axis: int | None, rank: int) -> np.ndarray:
    """Parameters shaped so that they broadcast against a tensor of `rank`."""
    shape = [1] * rank
    if axis is not None:
        shape[axis] = -1
    return vector.reshape(shape) if rank else vector.reshape(())


def quantized_floats(b: TosaBuilder, x: Value, out: TensorType) -> Value:
    """Float `x` as `out`: clamp(round(x * (1/scale)) + zero_point), as quantized_decomposed does."""
    _require_floats(b, "the operand")
    quant, rank = out.quant, x.type.rank
    assert quant is not None
    inverse = _along((1.0 / quant.scale).astype(np.float32), quant.axis, rank)
    steps = Term(b, x).cast(DType.FP32) * Term(b, b.const(inverse))
    low, high = quant.qmin - quant.zero_point, quant.qmax - quant.zero_point
    # one range that holds all channels' keeps the CAST within INT32; the exact one follows
    steps = steps.clamp(float(low.min()), float(high.max()))
    if not quant.per_channel and quant.zp == 0:
        return b.CAST(steps.value, dtype=out.dtype, quant=quant)  # type: ignore[no-any-return]
    zero = b.const(_along(quant.zero_point, quant.axis, rank), DType.INT32)
    whole = steps.cast(DType.INT32) + Term(b, zero)
    if quant.per_channel and low.min() != low.max():
        whole = whole.maximum(quant.qmin).minimum(quant.qmax)
    return b.CAST(whole.value, dtype=out.dtype, quant=quant)  # type: ignore[no-any-return]


def dequantized(b: TosaBuilder, x: Value) -> Value:
    """Quantized `x` as FP32: (float(x) - zero_point) * scale."""
    _require_floats(b, "the result")
    quant, rank = x.type.quant, x.type.rank
    b.require(quant is not None, "the operand is not quantized")
    assert quant is not None
    real = Term(b, x).cast(DType.FP32)
    if np.any(quant.zero_point):
        real = real - Term(
            b, b.const(_along(quant.zero_point.astype(np.float32), quant.axis, rank))
        )
    scale = _along(quant.scale.astype(np.float32), quant.axis, rank)
    return (real * Term(b, b.const(scale))).value
