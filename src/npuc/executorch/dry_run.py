"""Which nodes of an edge program a target takes: the lowering is run and its result thrown away."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import torch
from torch.fx import GraphModule, Node

from npuc.errors import Reason, Unsupported
from npuc.executorch.edge_program import ORIGIN, Constants, Part, part_of
from npuc.executorch.lower_delegate import Delegate, boundary_reasons, lower_delegate
from npuc.executorch.open_sizes import open_sizes
from npuc.frontend.name_sizes import takes_open_sizes
from npuc.frontend.torch_arrays import dtype_of

if TYPE_CHECKING:
    from npuc.targets.target import Target


class DryRun:
    """Judges parts of one graph for one target; each set of nodes once."""

    def __init__(self, gm: GraphModule, constants: Constants, target: Target) -> None:
        self.gm = gm
        self.constants = constants
        self.target = target
        self.place = {node: i for i, node in enumerate(gm.graph.nodes)}
        self.by_name = {node.name: node for node in gm.graph.nodes}
        self.known: dict[frozenset[Node], tuple[dict[Node, Reason], Delegate | None]] = {}
        self.open = {} if takes_open_sizes(target.limits) else open_sizes(gm, target.name)

    def refused(self, nodes: Iterable[Node]) -> dict[Node, Reason]:
        """The nodes that do not lower when all of `nodes` are one delegate, with the reason.

        What is left when they are taken away may be refused in turn: its boundary is another.
        """
        return self._judge(frozenset(nodes))[0]

    def delegate(self, nodes: Iterable[Node]) -> Delegate:
        """The lowered delegate of nodes of which none is refused."""
        delegate = self._judge(frozenset(nodes))[1]
        assert delegate is not None, "nodes are asked for together that were not judged together"
        return delegate

    def _judge(self, nodes: frozenset[Node]) -> tuple[dict[Node, Reason], Delegate | None]:
        if nodes not in self.known:
            self.known[nodes] = self._run(set(nodes))
        return self.known[nodes]

    def _run(self, nodes: set[Node]) -> tuple[dict[Node, Reason], Delegate | None]:
        found = {node: self.open[node] for node in nodes if node in self.open}
        nodes = nodes - set(found)
        while nodes:
            part = self._part(nodes)
            refused = self._unfit(part, nodes)
            delegate = None
            if not refused:
                try:
                    delegate = lower_delegate(part, self.target)
                except Unsupported as error:
                    # The import ends at its first refusal: take that node out and go on.
                    refused = self._named(part, error.reasons, nodes)
            found |= refused
            nodes = nodes - set(refused)
            if delegate is not None:
                reasons = [*delegate.lowered.reasons, *boundary_reasons(delegate)]
                last = self._named(part, reasons, nodes, delegate)
                return found | last, None if found or last else delegate
        return found, None

    def _part(self, nodes: set[Node]) -> Part:
        ordered = sorted(nodes, key=self.place.__getitem__)
        outputs = [n for n in ordered if any(u not in nodes for u in n.users)]
        inputs: dict[Node, None] = {}
        bodies: dict[Node, None] = {}
        for node in ordered:
            for operand in node.all_input_nodes:
                if operand.op == "get_attr":
                    bodies[operand] = None
                elif operand not in nodes and operand not in self.constants:
                    inputs[operand] = None
        ordered = sorted([*ordered, *bodies], key=self.place.__getitem__)
        first = sorted(inputs, key=self.place.__getitem__)
        return part_of(self.gm, self.constants, ordered, first, outputs, "part")

    def _unfit(self, part: Part, nodes: set[Node]) -> dict[Node, Reason]:
        """Nodes whose lists of tensors, sizes or complex numbers would cross the boundary."""
        found = {}
        for node in part.outputs:
            why = _unfit(node)
            if why:
                found[node] = _reason(node, f"its result is read on the host: {why}")
        for node in part.inputs:
            why = _unfit(node)
            if why:
                users = (u for u in node.users if u in nodes)
                found |= {u: _reason(u, f"it reads {node.name}: {why}") for u in users}
        return found

    def _named(
        self, part: Part, reasons: Sequence[Reason], nodes: set[Node],
        delegate: Delegate | None = None,
    ) -> dict[Node, Reason]:  # fmt: skip
        """The nodes that the reasons are about; all of them when a reason names none."""
        names = delegate.nodes if delegate is not None else _origins(part)
        found: dict[Node, Reason] = {}
        for reason in reasons:
            node = self.by_name.get(names.get(reason.name, reason.name))
            if node in nodes:
                found.setdefault(node, reason)
            elif node is not None and node in part.inputs:
                for user in node.users:
                    if user in nodes:
                        found.setdefault(user, reason)
            else:  # something inside of a branch or body, or nothing that has a name
                hosts = [n for n in nodes if isinstance(n.target, torch._ops.HigherOrderOperator)]
                found |= {n: reason for n in hosts or nodes if n not in found}
        return found


def _unfit(node: Node) -> str:
    """Why a value cannot cross the boundary of a delegate."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return "it is no tensor"
    try:
        dtype_of(value.dtype)
    except Unsupported as refusal:
        return refusal.reasons[0].why
    return ""


def _origins(part: Part) -> dict[str, str]:
    nodes = part.program.graph_module.graph.nodes
    return {n.name: n.meta.get(ORIGIN, n.name) for n in nodes}


def _reason(node: Node, why: str) -> Reason:
    from npuc.frontend.source_location import loc_of

    kind = str(node.target)
    return Reason(kind, str(loc_of(node.meta, node.name, kind)), why, "", node.name)
