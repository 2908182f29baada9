"""clamp, relu and their kin: CLAMP, or nothing where the result's range implies it."""

from __future__ import annotations

import math

import numpy as np

from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.formula import Number, Term
from npuc.lowering.aten_to_tosa.operands import clamped, rescaled, same_codes
from npuc.lowering.aten_to_tosa.table import tabulate
from npuc.lowering.aten_to_tosa.unary import in_int32
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.clamp")
def clamp(b: TosaBuilder, x: Value, low: Number | None = None, high: Number | None = None) -> Value:
    """clamp, relu, relu6, hardtanh -> CLAMP.

    Quantized with equal parameters: CLAMP of codes, nothing where the range implies it; other
    parameters: TABLE (int8), RESCALE and CLAMP (int16). INT32: MAXIMUM, MINIMUM.
    """
    if low is not None and high is not None:
        low = min(low, high)  # PyTorch: the upper bound wins
    out = b.out[0]
    if out.quant is not None:
        return _clamp_quantized(b, x, low, high, out)
    b.require(x.type.quant is None, "the operand is quantized but the result is not")
    if low is None and high is None:
        return x
    if x.type.dtype.is_float:
        bounds = (
            -math.inf if low is None else float(low),
            math.inf if high is None else float(high),
        )
        return Term(b, x).clamp(*bounds).value
    return in_int32(b, lambda t: _clamp_integers(t, low, high), x)


def _clamp_integers(x: Term, low: Number | None, high: Number | None) -> Term:
    if low is not None:
        x = x.maximum(int(max(math.ceil(low), -(2**31))))
    return x if high is None else x.minimum(int(min(math.floor(high), 2**31 - 1)))


def _clamp_quantized(
    b: TosaBuilder, x: Value, low: Number | None, high: Number | None, out: TensorType
) -> Value:
    def function(real: np.ndarray) -> np.ndarray:
        real = real if low is None else np.maximum(real, low)
        return real if high is None else np.minimum(real, high)

    q, r = x.type.quant, out.quant
    b.require(q is not None, "the operand is not quantized but the result is")
    assert q is not None and r is not None
    first = r.qmin if low is None else int(r.quantize(low))
    last = r.qmax if high is None else int(r.quantize(high))
    if same_codes(x, out):
        if first <= q.qmin and last >= q.qmax and x.type == out:
            return x
        return clamped(b, x, first, last, r)
    if x.type.dtype is DType.INT8:
        return tabulate(b, x, function, out)
    return clamped(b, rescaled(b, x, 1.0, out), first, last, r)
