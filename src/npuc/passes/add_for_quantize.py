"""Makes QUANTIZE between 8-bit types an ADD of zero, for NPUs without QUANTIZE."""

from __future__ import annotations

from npuc.dialects.tflite import TfliteLimits, TfliteOpBuilder
from npuc.ir import DType, Graph, Op, Value, sweep


def add_for_quantize(graph: Graph, limits: TfliteLimits) -> Graph:
    """QUANTIZE(x) -> ADD(x, 0) for INT8 `x` and result: the sum rounds to its own parameters."""

    def rewrite(
        b: TfliteOpBuilder, op: Op, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        result = op.results[0].type if op.results else None
        if op.kind != "tflite.QUANTIZE" or result is None:
            return None
        x = operands[0]
        if x.type.dtype is not DType.INT8 or result.dtype is not DType.INT8:
            return None
        quant = x.type.quant
        assert quant is not None
        zero = b.scalar(quant.zp, DType.INT8, max(x.type.rank, 1), quant)
        return (b.ADD(x, zero, quant=result.quant),)

    return sweep(graph, rewrite, limits.op_builder())
