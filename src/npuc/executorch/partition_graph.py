"""Decides what of one graph becomes delegates: dry run, groups, and what is worth it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch.fx import GraphModule, Node

from npuc.errors import Reason
from npuc.executorch.dry_run import DryRun
from npuc.executorch.edge_program import Constants
from npuc.executorch.group_nodes import group_nodes
from npuc.executorch.lower_delegate import HANDS_ON
from npuc.frontend.fx_targets import aten_op
from npuc.frontend.quantized_versions import REQUANTIZE
from npuc.frontend.spellings.quantize import ASSUME, DEQUANTIZE, QUANTIZE
from npuc.frontend.splice import fetch, kind_of

if TYPE_CHECKING:
    from npuc.ir import Graph
    from npuc.targets.target import Target

#: ops that compute nothing: a delegate of these alone costs two copies and saves no arithmetic
_MOVES = frozenset({
    "const", "aten.view", "aten.permute", "aten.expand", "aten.repeat", "aten.slice.Tensor",
    "aten.cat", "aten.flip", "aten.pad", "aten.roll", "aten.pixel_shuffle",
    "aten.pixel_unshuffle", "aten.unfold", QUANTIZE, DEQUANTIZE, REQUANTIZE, ASSUME,
})  # fmt: skip


@dataclass
class Partition:
    """What became of one graph: groups of nodes, refused nodes, nodes of dropped groups."""

    gm: GraphModule
    nodes: list[Node]
    groups: list[list[Node]] = field(default_factory=list)
    refused: dict[Node, Reason] = field(default_factory=dict)
    dropped: dict[Node, str] = field(default_factory=dict)


def partition_graph(
    gm: GraphModule,
    constants: Constants,
    target: Target,
    check: Callable[[Node], str | None],
    preserved: Callable[[Node], bool],
) -> Partition:
    """The delegates of a graph. `check`: a further condition, the reason when it fails.

    preserved: a node that ExecuTorch would have decomposed if the target had not wanted it whole:
    the host has no kernel for it, so that its group is never dropped.
    """
    nodes = [n for n in gm.graph.nodes if n.op == "call_function"]
    found = Partition(gm, nodes)
    for node in nodes:
        why = check(node)
        if why is not None:
            found.refused[node] = _checked(node, why)
    run = DryRun(gm, constants, target)
    keep_lists_together(nodes, found.refused)
    refuse_until_stable(run, nodes, found.refused)
    while True:
        found.groups = _groups(nodes, found.refused, constants)
        new = {n: r for group in found.groups for n, r in run.refused(group).items()}
        if not new:
            break
        found.refused |= new
        keep_lists_together(nodes, found.refused)
    handed_on = {n: r.why for n, r in found.refused.items() if r.why == HANDS_ON}
    found.refused = {n: r for n, r in found.refused.items() if n not in handed_on}
    found.dropped |= handed_on
    _drop(run, found, preserved)
    return found


def bodies_on_host(found: Partition) -> list[GraphModule]:
    """Branches and loop bodies of the ops that stay on the host: parts of them may be delegated."""
    delegated = {n for group in found.groups for n in group}
    attributes = [
        operand
        for node in found.nodes
        if node not in delegated and isinstance(node.target, torch._ops.HigherOrderOperator)
        for operand in node.all_input_nodes
        if operand.op == "get_attr"
    ]
    bodies = (fetch(found.gm, str(a.target)) for a in dict.fromkeys(attributes))
    return [body for body in bodies if isinstance(body, GraphModule)]


def refuse_until_stable(run: DryRun, nodes: Sequence[Node], refused: dict[Node, Reason]) -> None:
    """Add to `refused` until all other nodes together lower."""
    while True:
        rest = [n for n in nodes if n not in refused]
        new = run.refused(rest)
        if not new:
            return
        refused |= new
        keep_lists_together(nodes, refused)


def keep_lists_together(nodes: Sequence[Node], refused: dict[Node, Reason]) -> None:
    """An op with several results and the nodes that take these apart are refused together."""
    for node in nodes:
        if isinstance(node.meta.get("val"), torch.Tensor):
            continue
        family = [node, *(u for u in node.users if u.op == "call_function")]
        reasons = [refused[n] for n in family if n in refused]
        if reasons and isinstance(node.meta.get("val"), (tuple, list)):
            for member in family:
                refused.setdefault(member, reasons[0])


def _groups(
    nodes: Sequence[Node], refused: dict[Node, Reason], constants: Constants
) -> list[list[Node]]:
    computed = set(nodes)
    fixed: set[Node] = set()  # nodes that only constants decide
    for node in nodes:
        operands = node.all_input_nodes
        if all(p in constants or p in fixed or p.op == "get_attr" for p in operands):
            fixed.add(node)

    def is_movable(node: Node) -> bool:
        return node in fixed or ".dequantize_" in kind_of(aten_op(node.target))

    return group_nodes(
        nodes,
        lambda n: n in computed and n not in refused,
        lambda n: n.all_input_nodes,
        lambda n: list(n.users),
        is_movable,
    )


def _drop(run: DryRun, found: Partition, preserved: Callable[[Node], bool]) -> None:
    """Give groups back to the host that compute nothing."""
    kept = []
    for group in found.groups:
        delegate = run.delegate(group)
        why = _not_worth(delegate.imported) or _idle(delegate.lowered.graph, run.target)
        if why and not any(preserved(n) for n in group):
            found.dropped |= dict.fromkeys(group, why)
        else:
            kept.append(group)
    found.groups = kept


def _idle(graph: Graph, target: Target) -> str:
    """Why the target makes nothing of what is left after its passes."""
    if target.idle is None:
        return ""
    from npuc.passes.pipeline import run_passes

    return target.idle(run_passes(graph, target.passes, target.limits)) or ""


def _not_worth(graph: Graph) -> str:
    kinds = {op.kind for op in graph.walk()}
    if kinds - _MOVES:
        return ""
    moves = sorted(k.split(".")[1] for k in kinds if k != "const")
    what = f"only data movement ({', '.join(moves)})" if moves else "it computes nothing"
    return f"its partition is not worth a delegate: {what}"


def _checked(node: Node, why: str) -> Reason:
    from npuc.frontend.source_location import loc_of

    kind = kind_of(aten_op(node.target))
    return Reason(kind, str(loc_of(node.meta, node.name, kind)), why, "", node.name)
