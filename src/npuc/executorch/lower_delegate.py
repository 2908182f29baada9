"""Lowers a part of a program that becomes one delegate, with the boundary ExecuTorch sees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from npuc.errors import Reason, Unsupported
from npuc.executorch.edge_program import ORIGIN, Part, order_of
from npuc.frontend.torch_arrays import dtype_of
from npuc.ir import DType, Graph, TensorType
from npuc.lowering.lower import Lowered, lower

if TYPE_CHECKING:
    from torch.fx import Node

    from npuc.targets.target import Artifact, Target


#: why the host keeps nodes of which the lowering leaves nothing
HANDS_ON = "its partition is not worth a delegate: it would only hand on what it is given"


@dataclass
class Delegate:
    """One partition: the imported graph, what it was lowered to, and how nodes map to ops.

    nodes: name in the program's graph -> name of the node of the edge program. optimized: the graph
    after the target's passes, set by `finish_delegate` before the target's tools run.
    """

    part: Part
    imported: Graph
    lowered: Lowered
    nodes: dict[str, str]
    optimized: Graph | None = None


def lower_delegate(part: Part, target: Target) -> Delegate:
    """Import and lower `part`; refused ops are in `lowered.reasons`.

    Raises Unsupported for what cannot be imported.
    """
    from npuc.frontend.import_model import import_model
    from npuc.lowering.registry import known_kinds

    program = part.program
    imported = import_model(program, known_kinds(target.dialect), keep_boundary=True)
    lowered = lower(imported, target.limits, target.families)
    nodes = {n.name: n.meta.get(ORIGIN, n.name) for n in program.graph_module.graph.nodes}
    return Delegate(part, imported, lowered, nodes)


def finish_delegate(delegate: Delegate, target: Target) -> tuple[Graph, Artifact]:
    """The optimized graph and the target's file.

    Tensors cross the boundary as they lie in ExecuTorch's memory: a channels-last one has its
    channels last in the artifact. Raises Unsupported for what was refused.
    """
    from npuc.passes.pipeline import run_passes
    from npuc.passes.set_io_layout import set_io_orders

    reasons = [*delegate.lowered.reasons, *boundary_reasons(delegate)]
    if reasons:
        raise Unsupported(reasons)
    inputs = [order_of(n.meta["val"]) for n in delegate.part.inputs]
    outputs = [order_of(n.meta["val"]) for n in delegate.part.outputs]
    limits = target.limits
    graph = set_io_orders(delegate.lowered.graph, inputs, outputs, limits)
    delegate.optimized = graph = run_passes(graph, target.passes, limits)
    ordered = replace(target, orders=(tuple(inputs), tuple(outputs)))
    return graph, target.finish(graph, ordered)


def boundary_reasons(delegate: Delegate) -> list[Reason]:
    """Why a tensor cannot cross the boundary: the target stores it as another type, or the
    delegate would only hand it on."""
    part, graph = delegate.part, delegate.lowered.graph
    found = []
    for node, value in zip(part.inputs, graph.inputs, strict=True):
        found.append((node, _type_reason(node, value.type)))
    for node, value in zip(part.outputs, graph.outputs, strict=True):
        if value in graph.inputs or value.is_const:
            found += [(n, HANDS_ON) for n in _only_for(node, part)]
        found.append((node, _type_reason(node, value.type)))
    return [Reason(node.name, "", why, "", node.name) for node, why in found if why]


def _only_for(output: Node, part: Part) -> list[Node]:
    """The nodes of `part` that nothing but this output needs, with the output itself."""
    found = {output: None}
    todo = [output]
    while todo:
        for node in todo.pop().all_input_nodes:
            inside = node.op == "call_function" and node not in part.inputs
            if inside and node not in part.outputs and all(u in found for u in node.users):
                found[node] = None
                todo.append(node)
    return list(found)


def _type_reason(node: Node, carried: TensorType) -> str:
    dtype = dtype_of(node.meta["val"].dtype)
    if dtype.numpy == carried.dtype.numpy:
        return ""
    if dtype is DType.BOOL and carried.dtype is DType.INT8:
        return ""  # the same bytes: 0 and 1
    return f"it is {dtype.name} on the host, the target carries it as {carried.dtype.name}: cast it"
