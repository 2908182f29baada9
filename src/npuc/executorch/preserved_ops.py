"""Which ops ExecuTorch must not decompose: those that the target lowers whole."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import Node

from npuc.executorch.dry_run import DryRun
from npuc.executorch.edge_program import constants_of
from npuc.executorch.partition_graph import keep_lists_together, refuse_until_stable
from npuc.frontend.fx_targets import aten_op
from npuc.frontend.splice import kind_of

if TYPE_CHECKING:
    from npuc.errors import Reason
    from npuc.targets.target import Target

Answer = tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]


class PreservedOps:
    """Answers for one program after the other; the last answer is kept, as ExecuTorch asks twice.

    custom: ops that the user wants whole. asked: what ExecuTorch was asked to keep so far.
    """

    def __init__(self, target: Target, check: Callable[[Node], str | None]) -> None:
        self.target = target
        self.check = check
        self.custom: set[Any] = set()
        self.asked: set[Any] = set()
        self.last: tuple[Any, Answer] = (None, ([], None))

    def ops_of(self, program: Any) -> Answer:
        """The ops of `program` to keep, and, where the target refuses some of their nodes, which
        nodes to keep. A program in the edge dialect is past its decompositions: nothing."""
        if any(aten_op(n.target) is not n.target for n in program.graph.nodes):
            return [], None
        if self.last[0] is not program:
            self.last = (program, self._answer(program))
        return self.last[1]

    def is_preserved(self, node: Node) -> bool:
        """Whether a node of an edge program is there whole only because the target wanted it."""
        return aten_op(node.target) in self.asked

    def _answer(self, program: Any) -> Answer:
        kinds = _known(self.target.dialect)
        table = _decomposed_by_default()
        wanted = {}
        for node in program.graph.nodes:
            op = node.target
            if node.op != "call_function" or not isinstance(op, torch._ops.OpOverload):
                continue
            if op in self.custom or (op in table and kind_of(op) in kinds and _is_functional(op)):
                wanted[node] = op
        if not wanted:
            return [], None
        refused = self._refused(program)
        kept = {op: None for node, op in wanted.items() if node not in refused}
        self.asked |= set(kept)
        if not any(node in refused for node, op in wanted.items() if op in kept):
            return list(kept), None  # ExecuTorch's quicker and safer way
        return list(kept), lambda node: node not in refused

    def _refused(self, program: Any) -> dict[Node, Reason]:
        nodes = [n for n in program.graph.nodes if n.op == "call_function"]
        run = DryRun(program.graph_module, constants_of(program), self.target)
        refused: dict[Node, Reason] = {}
        for node in nodes:
            if self.check(node) is not None:
                refused[node] = None  # type: ignore[assignment]
        keep_lists_together(nodes, refused)
        refuse_until_stable(run, nodes, refused)
        return refused


@cache
def _known(dialect: str) -> frozenset[str]:
    from npuc.frontend.canonicalize import spelled_kinds
    from npuc.lowering.registry import known_kinds

    return frozenset(spelled_kinds(known_kinds(dialect)))


@cache
def _decomposed_by_default() -> frozenset[Any]:
    """The ops that ExecuTorch decomposes unless it is told not to."""
    from executorch.exir.tracer import _default_decomposition_table

    return frozenset(_default_decomposition_table())


def _is_functional(op: torch._ops.OpOverload) -> bool:
    """Whether an op writes nothing and returns nothing that shares memory with its operands."""
    schema = op._schema
    return not schema.is_mutable and all(r.alias_info is None for r in schema.returns)
