"""Channels-last inputs and outputs of a Neutron payload: who transposes them, the NPU or the host."""

from __future__ import annotations

from collections.abc import Sequence

from npuc.dialects.tflite import TfliteLimits
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, Value, finish_mapped, sweep_ops
from npuc.targets.target import Order

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
Flags = list[bool]


def channels_last(orders: Sequence[Order], count: int) -> Flags:
    """Which of `count` tensors lie in memory with their channels last.

    Raises Unsupported for another order: the runtime knows none.
    """
    for order in orders:
        if order not in (None, NHWC):
            raise Unsupported(
                f"a tensor at the boundary lies in memory with its axes as {order}; Neutron's runtime "
                "takes contiguous and channels-last ones"
            )
    return [order == NHWC for order in orders] if orders else [False] * count


def leave_transposes(graph: Graph, limits: TfliteLimits) -> tuple[Graph, Flags, Flags]:
    """`graph` without the TRANSPOSEs that only bring inputs and outputs to channels-last and back,
    and which these are: the host transposes them, or has them in this order already."""
    readers: dict[Value, list[object]] = {v: [] for v in graph.inputs}
    for op in graph.ops:
        for v in op.operands:
            if v in readers:
                moves = op.kind == "tflite.TRANSPOSE" and op.attrs["perms"] == NHWC
                readers[v].append(op if moves else None)
    inputs = [
        bool(readers[v]) and None not in readers[v] and v not in graph.outputs for v in graph.inputs
    ]
    builder = limits.op_builder()
    new: dict[Value, Value] = {}
    for value, bare in zip(graph.inputs, inputs, strict=True):
        given = builder.input(value.type.transposed(NHWC) if bare else value.type, value.name)
        new[value] = builder.TRANSPOSE(given, perms=NCHW, quant=given.type.quant) if bare else given
    sweep_ops(graph, lambda b, op, operands: _cancelled(op, operands), builder, new)
    moved = finish_mapped(graph, builder, new)
    results, outputs = [], []
    for value in moved.outputs:
        source = _channels_last_source(value, moved)
        outputs.append(source is not None)
        results.append(source or value)
    return builder.finish(results, graph.name, {}), inputs, outputs


def _channels_last_source(value: Value, graph: Graph) -> Value | None:
    """What an output is the TRANSPOSE of, where that can be the output instead."""
    maker = value.op
    if maker is None or maker.kind != "tflite.TRANSPOSE" or maker.attrs["perms"] != NCHW:
        return None
    source = maker.operands[0]
    taken = source in graph.inputs or source in graph.outputs or graph.outputs.count(value) > 1
    return None if taken else source


def _cancelled(op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
    """NHWC of the NCHW that stands for a bare input is the input."""
    maker = operands[0].op if operands else None
    if op.kind != "tflite.TRANSPOSE" or op.attrs["perms"] != NHWC or maker is None:
        return None
    if maker.kind == "tflite.TRANSPOSE" and maker.attrs["perms"] == NCHW:
        return (maker.operands[0],)
    return None
