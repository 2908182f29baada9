"""TFLite reductions that keep their axes, and a RESHAPE that drops them, become one operator."""

from __future__ import annotations

from npuc.dialects.tflite import TfliteLimits, TfliteOpBuilder
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.layout.tflite_operators import REDUCTIONS


def drop_reduced_axes(graph: Graph, limits: TfliteLimits) -> Graph:
    """RESHAPE(MEAN(x, keep_dims=True)) -> MEAN(x, keep_dims=False)."""

    def rewrite(b: TfliteOpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        maker = operands[0].op if op.kind == "tflite.RESHAPE" else None
        if maker is None or maker.kind[7:] not in REDUCTIONS or not maker.attrs["keep_dims"]:
            return None
        axes, shape = set(maker.attrs["axes"]), maker.results[0].type.ints
        if tuple(d for i, d in enumerate(shape) if i not in axes) != op.results[0].type.shape:
            return None
        attrs = {**maker.attrs, "keep_dims": False}
        return b.emit(maker.kind, maker.operands, attrs, [op.results[0].type], loc=maker.loc)

    return sweep(graph, rewrite, limits.op_builder())
