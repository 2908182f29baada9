"""Makes the channels the last axis of a graph's image inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence

from npuc.dialects.tosa import Limits
from npuc.errors import BadInput
from npuc.ir import Graph, Value, finish_mapped, sweep_ops

NHWC = (0, 2, 3, 1)

Order = tuple[int, ...] | None


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
    inputs = [NHWC if v.type.rank == 4 else None for v in graph.inputs]
    outputs = [NHWC if v.type.rank == 4 else None for v in graph.outputs]
    return set_io_orders(graph, inputs, outputs, limits)


def set_io_orders(
    graph: Graph, inputs: Sequence[Order], outputs: Sequence[Order], limits: Limits
) -> Graph:
    """`graph` whose inputs and outputs lie in memory with their axes in the given orders.

    An order names the axes from the outermost to the innermost; None leaves a tensor as it is.
    """
    builder = limits.op_builder()
    new: dict[Value, Value] = {}
    for value, order in zip(graph.inputs, inputs, strict=True):
        if order is None:
            new[value] = builder.input(value.type, value.name)
            continue
        given = builder.input(value.type.transposed(order), value.name)
        new[value] = builder.transpose(given, tuple(map(order.index, range(len(order)))))
    sweep_ops(graph, lambda b, op, operands: None, builder, new)
    moved = finish_mapped(graph, builder, new)
    results = [
        v if order is None else builder.transpose(v, order)
        for v, order in zip(moved.outputs, outputs, strict=True)
    ]
    return builder.finish(results, graph.name, moved.origins)
