"""Linear layers as FULLY_CONNECTED, matrix products as BATCH_MATMUL."""

from __future__ import annotations

import math

from npuc.ir import Value
from npuc.lowering.aten_to_tflite.emit_linear import emit_linear
from npuc.lowering.aten_to_tflite.operands import wide_type
from npuc.lowering.aten_to_tflite.weights import one_width, read_weights
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder

#: ranks that BATCH_MATMUL takes
MAX_RANK = 5


@lowers("aten.linear", dialect="tflite")
def linear(b: TfliteBuilder, x: Value, weight: Value, bias: Value | None) -> Value:
    """linear -> FULLY_CONNECTED, which keeps the leading dimensions; else CONV_2D of pixels."""
    x, out = one_width(b, x, b.out[0])
    weights = read_weights(b, x, weight, bias)
    return b.as_result(emit_linear(b, x, weights, out.quant))


@lowers("aten.matmul", dialect="tflite")
def matmul(b: TfliteBuilder, x: Value, y: Value) -> Value:
    """matmul -> BATCH_MATMUL; batch dimensions broadcast."""
    out = b.out[0]
    if out.quant is not None:
        x, y = b.operand(x), b.operand(y)
        if x.type.dtype is not y.type.dtype or x.type.dtype is not out.dtype:
            wide = max((x.type, y.type, out), key=lambda t: t.dtype.bits)
            x, y = (v if v.type.dtype is wide.dtype else b.widened(v) for v in (x, y))
    rank = x.type.rank
    if rank > MAX_RANK:
        same = x.type.shape[:-2] == y.type.shape[:-2]
        b.require(same, f"batch dimensions that broadcast at rank {rank} (LiteRT: {MAX_RANK})")
        x, y = (b.reshape(v, (math.prod(v.type.ints[:-2]), *v.type.ints[-2:])) for v in (x, y))
    result = out if out.quant is None or x.type.dtype is out.dtype else wide_type(out)
    return b.as_result(b.reshape(b.BATCH_MATMUL(x, y, quant=result.quant), out.ints))
