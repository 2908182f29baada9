"""Reductions along the last axis in the forms that Vela's TFLite reader runs fast."""

from __future__ import annotations

from math import prod

import numpy as np

from npuc.dialects.tflite import TfliteLimits, TfliteOpBuilder
from npuc.ir import DType, Graph, Op, Quant, Value, sweep

#: element type -> of the bias of a layer that reads it
BIAS = {DType.INT8: DType.INT32, DType.INT16: DType.INT64}


def cheapen_rows(graph: Graph, limits: TfliteLimits) -> Graph:
    """REDUCE_MAX of rows -> TRANSPOSE, REDUCE_MAX of columns; MEAN of rows -> FULLY_CONNECTED by
    equal weights, exactly rounded. Each takes a quarter of the time or less."""

    def rewrite(
        b: TfliteOpBuilder, op: Op, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        if op.kind not in ("tflite.REDUCE_MAX", "tflite.MEAN"):
            return None
        x, out = operands[0], op.results[0].type
        rows = x.type.ints[:-1]
        if op.attrs["axes"] != (len(rows),) or prod(rows) == 1:
            return None
        if x.type.dtype not in BIAS or x.type.quant is None or out.quant is None:
            return None
        y = _largest(b, x) if op.name == "REDUCE_MAX" else _mean(b, x, out.quant)
        return (b.reshape(y, out.ints),)

    return sweep(graph, rewrite, limits.op_builder())


def _largest(b: TfliteOpBuilder, x: Value) -> Value:
    *rows, size = x.type.ints
    columns = b.transpose(b.reshape(x, (prod(rows), size)), (1, 0))
    return b.REDUCE_MAX(columns, axes=(0,), keep_dims=True)  # type: ignore[no-any-return]


def _mean(b: TfliteOpBuilder, x: Value, quant: Quant) -> Value:
    *rows, size = x.type.ints
    assert x.type.quant is not None
    scale, dtype = 1 / (127 * size), BIAS[x.type.dtype]
    weight = b.const(np.full((1, size), 127, np.int8), quant=Quant(scale, 0, None, -128, 127))
    bias = b.const(np.zeros(1, dtype.numpy), quant=Quant(scale * x.type.quant.s, 0))
    flat = b.reshape(x, (prod(rows), size))
    return b.FULLY_CONNECTED(flat, weight, bias, quant=quant)  # type: ignore[no-any-return]
