"""clamp, relu and their kin: an activation operator, MINIMUM and MAXIMUM, or nothing."""

from __future__ import annotations

import math

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder

Number = int | float

#: bounds -> activation
ACTIVATIONS = {
    (0, None): "RELU", (0, 6): "RELU6", (-1, 1): "RELU_N1_TO_1", (0, 1): "RELU_0_TO_1",
}  # fmt: skip


@lowers("aten.clamp", dialect="tflite")
def clamp(
    b: TfliteBuilder, x: Value, low: Number | None = None, high: Number | None = None
) -> Value:
    """clamp, relu, relu6, hardtanh -> RELU, RELU6, RELU_0_TO_1, RELU_N1_TO_1, else MAXIMUM and
    MINIMUM; nothing where the range of the quantized result implies it."""
    if low is not None and high is not None:
        low = min(low, high)  # PyTorch: the upper bound wins
    out = b.out[0]
    if out.quant is not None:
        return _quantized(b, b.operand(x), low, high, out)
    b.require(x.type.quant is None, "the operand is quantized but the result is not")
    name = ACTIVATIONS.get((low, high))  # type: ignore[arg-type]
    if name is not None and x.type.dtype is DType.FP32:
        return b.tflite(name, x)  # type: ignore[no-any-return]
    if not x.type.dtype.is_float:
        low = None if low is None else int(max(math.ceil(low), -(2**31)))
        high = None if high is None else int(min(math.floor(high), 2**31 - 1))
    return _bounded(b, x, low, high)


def _bounded(b: TfliteBuilder, x: Value, low: Number | None, high: Number | None) -> Value:
    if low is not None:
        x = b.MAXIMUM(x, b.scalar(low, x.type.dtype, x.type.rank))
    return x if high is None else b.MINIMUM(x, b.scalar(high, x.type.dtype, x.type.rank))


def _quantized(
    b: TfliteBuilder, x: Value, low: Number | None, high: Number | None, out: TensorType
) -> Value:
    quant, result = x.type.quant, out.quant
    assert quant is not None and result is not None
    first = result.qmin if low is None else int(result.quantize(low))
    last = result.qmax if high is None else int(result.quantize(high))
    if _binds_not(quant, low, high):
        return b.requantize(x, out)
    name = ACTIVATIONS.get((low, high))  # type: ignore[arg-type]
    narrow = name in ("RELU", "RELU6") or (name == "RELU_0_TO_1" and x.type.dtype is DType.INT8)
    if name is not None and narrow and x.type.dtype is out.dtype:
        return b.tflite(name, x, quant=result)  # type: ignore[no-any-return]
    x = b.requantize(x, out)
    if first > result.qmin:
        x = b.MAXIMUM(x, b.scalar(first, out.dtype, x.type.rank, result))
    return (
        x if last >= result.qmax else b.MINIMUM(x, b.scalar(last, out.dtype, x.type.rank, result))
    )


def _binds_not(quant: Quant, low: Number | None, high: Number | None) -> bool:
    """Whether every value of the operand is within the bounds, up to half a step."""
    smallest, largest = (quant.s * (code - quant.zp) for code in (quant.qmin, quant.qmax))
    half = quant.s / 2
    return (low is None or smallest >= low - half) and (high is None or largest <= high + half)
