"""Makes a RELU behind a TFLite operator its fused activation."""

from __future__ import annotations

import math

from npuc.dialects.tflite import DEFINITIONS, TfliteLimits, TfliteOpBuilder, same_parameters
from npuc.ir import Graph, Op, TensorType, Value, sweep
from npuc.passes.merge_quantizes import ends
from npuc.passes.uses import count_uses

#: activation -> smallest and largest value that it gives
ACTIVATIONS = {"RELU": (0.0, math.inf), "RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0)}


def fuse_activations(graph: Graph, limits: TfliteLimits) -> Graph:
    """RELU(CONV_2D(x)) -> CONV_2D(x, activation=RELU), for every operator that has one.

    The result takes the parameters of the activation's: the value in between is not rounded.
    """
    uses = count_uses(graph)
    readers: dict[Value, int] = {}

    def rewrite(
        b: TfliteOpBuilder, op: Op, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        for old, new in zip(op.operands, operands, strict=True):
            readers[new] = uses[old]
        if op.kind.partition(".")[2] not in ACTIVATIONS or readers[operands[0]] != 1:
            return None
        maker = operands[0].op
        if maker is None or not _takes(maker, op.results[0].type, limits) or _clips(maker, op):
            return None
        attrs = {**maker.attrs, "activation": op.name}
        return b.emit(maker.kind, maker.operands, attrs, [op.results[0].type], loc=maker.loc)

    return sweep(graph, rewrite, limits.op_builder())


def _clips(maker: Op, op: Op) -> bool:
    """Whether the value in between clips what the activation lets through."""
    between, result = maker.results[0].type.quant, op.results[0].type.quant
    if between is None or result is None:
        return False
    low, high = ends(between)
    top = min(ends(result)[1], ACTIVATIONS[op.name][1])
    bottom = max(ends(result)[0], ACTIVATIONS[op.name][0])
    return low > bottom + result.s / 2 or high < top - result.s / 2


def _takes(maker: Op, result: TensorType, limits: TfliteLimits) -> bool:
    """Whether the operator can have an activation and a result of this type."""
    if not maker.kind.startswith("tflite.") or maker.attrs.get("activation") != "NONE":
        return False
    if maker.results[0].type.dtype is not result.dtype:
        return False
    keeps = DEFINITIONS[maker.name].quant == "same"
    if keeps and not same_parameters(maker.results[0].type.quant, result.quant):
        return False
    attrs = {**maker.attrs, "activation": "RELU"}
    return limits.reason(maker.name, maker.operands, attrs, [result]) is None
