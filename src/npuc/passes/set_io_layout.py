"""Makes the channels the last axis of a graph's image inputs and outputs."""

from __future__ import annotations

from npuc.dialects.tosa import Limits
from npuc.errors import BadInput
from npuc.ir import Graph, Value, finish_mapped, sweep_ops

NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def set_io_layout(graph: Graph, io_layout: str, limits: Limits) -> Graph:
    """`graph` with inputs and outputs in `io_layout`.

    "contiguous" leaves it as it is. "channels_last" re-types every input and output of rank 4 from
    [N, C, H, W] to [N, H, W, C] and puts TRANSPOSEs between them and their readers and writers,
    which `assign_layout` then cancels where the network runs channels-last inside.
    """
    if io_layout == "contiguous":
        return graph
    if io_layout != "channels_last":
        raise BadInput(f"io_layout {io_layout!r}", hint='it is "contiguous" or "channels_last"')
    builder = limits.op_builder()
    new: dict[Value, Value] = {}
    for value in graph.inputs:
        if value.type.rank != 4:
            new[value] = builder.input(value.type, value.name)
            continue
        given = builder.input(value.type.transposed(NHWC), value.name)
        new[value] = builder.transpose(given, NCHW)
    sweep_ops(graph, lambda b, op, operands: None, builder, new)
    moved = finish_mapped(graph, builder, new)
    outputs = [builder.transpose(v, NHWC) if v.type.rank == 4 else v for v in moved.outputs]
    return builder.finish(outputs, graph.name, moved.origins)
