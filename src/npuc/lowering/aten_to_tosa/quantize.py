"""Explicit quantize, dequantize and requantize: PyTorch's arithmetic to the last bit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from npuc.ir import DType, TensorType, Value
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
    """requantize -> RESCALE; CLAMP where only the range differs."""
    out, q = b.out[0], x.type.quant
    r = out.quant
    assert q is not None and r is not None
    if x.type == out:
        return x
    if same_codes(x, out):
        return clamped(b, x, r.qmin, r.qmax, r)
    return b.clamp_codes(rescaled(b, x, 1.0, out), r)


def by_floats(b: TosaBuilder, reason: str, formula: Callable[..., Term], *values: Value) -> Value:
    """A quantized op without an integer form: dequantize, `formula` of FP32, quantize; refused for
    `reason` where the target has no floats."""
    b.require("PRO-FP" in b.limits.profiles, reason, "keep this op in float")
    rank = broadcast_rank(*values)
    terms = [Term(b, b.match_rank(dequantized(b, v), rank)) for v in values]
    return quantized_floats(b, formula(*terms).value, b.out[0])


def _require_floats(b: TosaBuilder, what: str) -> None:
    b.require(
        "PRO-FP" in b.limits.profiles,
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
    """FP32 `x` as `out`: clamp(round(x * (1/scale)) + zero_point), as quantized_decomposed does."""
    _require_floats(b, "the operand")
    quant, rank = out.quant, x.type.rank
    assert quant is not None
    inverse = _along((1.0 / quant.scale).astype(np.float32), quant.axis, rank)
    steps = Term(b, x) * Term(b, b.const(inverse))
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
