"""TFLite reductions that keep their axes, and a RESHAPE that drops them, become one operator."""

from __future__ import annotations

from npuc.dialects.tflite import TfliteLimits, TfliteOpBuilder
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.layout.tflite_operators import REDUCTIONS


def drop_reduced_axes(graph: Graph, limits: TfliteLimits) -> Graph:
    """RESHAPE(MEAN(x, keep_dims=True)) -> MEAN(x, keep_dims=False), where nothing else reads it."""
    readers, outputs = graph.readers(), set(graph.outputs)

    def rewrite(
        b: TfliteOpBuilder, op: Op, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        if op.kind == "tflite.RESHAPE" and operands[0].type.shape == op.results[0].type.shape:
            return operands
        if op.kind.partition(".")[2] not in REDUCTIONS or not op.attrs["keep_dims"]:
            return None
        (result,), axes = op.results, set(op.attrs["axes"])
        shape = tuple(d for i, d in enumerate(result.type.ints) if i not in axes)
        found = readers.get(result, [])
        if result in outputs or not found or any(not _makes(r, shape) for r in found):
            return None
        attrs = {**op.attrs, "keep_dims": False}
        return b.emit(op.kind, operands, attrs, [result.type.with_(shape=shape)], loc=op.loc)

    return sweep(graph, rewrite, limits.op_builder())


def _makes(reader: Op, shape: tuple[int, ...]) -> bool:
    return reader.kind == "tflite.RESHAPE" and reader.results[0].type.shape == shape
