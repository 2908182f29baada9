"""Branches and loops while a graph is quantized: each body has observers of its own.

torchao looks at one flat graph. So `hide` replaces each `cond` and `while_loop` by a call of a
`Flow`, which runs the bodies with their observers, and `show` puts the op with the converted
bodies back.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch.fx import GraphModule, Node

from npuc.errors import NpucError
from npuc.frontend.source_location import loc_of
from npuc.frontend.splice import fetch

if TYPE_CHECKING:
    from npuc.quantizer.calibrate import Prepared

#: calibration steps whose operands are kept for a body that no sample reaches
KEPT = 8
#: iterations after which a loop counts as endless
MAX_ITERATIONS = 100_000

#: a prepared graph (None: the one around) and a place of an observer in it
Border = tuple[Any, Any]


class Flow:
    """What stands for a `cond` or `while_loop` while the graph around it is quantized.

    node: the call of this object, with the operands that are tensors as arguments; bodies: the
    prepared sub-graphs in the order of the op's arguments.
    """

    names: tuple[str, str]

    def __init__(self, node: Node, bodies: Sequence[Prepared]) -> None:
        self.__name__ = node.name
        self.node = node
        self.op = node.target
        self.bodies = list(bodies)
        self.runs = [0] * len(self.bodies)
        self.seen: list[Sequence[Any]] = []
        self.loc = loc_of(node.meta, node.name, self.names[0])

    def run(self, index: int, operands: Sequence[Any]) -> Sequence[Any]:
        """The results of a body; its observers see what is in it."""
        prepared = self.bodies[index]
        self.runs[index] += 1
        results = prepared.means.run(*operands)
        return results if isinstance(results, (tuple, list)) else (results,)

    def remember(self, operands: Sequence[Any]) -> None:
        if len(self.seen) < KEPT:
            self.seen.append(list(operands))

    def cover(self) -> None:
        """Give ranges to the bodies that no sample has reached: from the operands that another
        body got. Warns, as these may not be what the body is for."""
        for index, (prepared, name) in enumerate(zip(self.bodies, self.names, strict=True)):
            if not self.runs[index] and self.seen:
                warnings.warn(
                    f"no calibration sample reaches the {name} at {self.loc}: its ranges come from "
                    "the samples at hand; add one that reaches it",
                    stacklevel=5,
                )
                for operands in self.seen:
                    self.run(index, operands)
            for flow in prepared.flows:
                flow.cover()

    def borders(self) -> Iterator[list[Border]]:
        """Groups of places that are one value, for a prepared graph."""
        raise NotImplementedError


class Branches(Flow):
    """A `cond`."""

    names = ("true branch", "false branch")

    def __call__(self, condition: torch.Tensor, operands: Sequence[Any]) -> Sequence[Any]:
        """The results of the branch that the condition chooses."""
        self.remember(operands)
        return self.run(0 if bool(condition) else 1, operands)

    def borders(self) -> Iterator[list[Border]]:
        for i, operand in enumerate(map(_observed, self.node.args[1])):  # type: ignore[arg-type]
            inside: list[Border] = [(p, _inputs(p)[i]) for p in self.bodies]
            yield [(None, (operand, self.node)), *inside]
        for i, item in _items(self.node):
            yield [(None, item), *((p, _outputs(p)[i]) for p in self.bodies)]
            for p in self.bodies:  # an operand that a branch hands on
                if _outputs(p)[i] in _inputs(p):
                    operand = _observed(self.node.args[1][_inputs(p).index(_outputs(p)[i])])
                    yield [(None, item), (None, (operand, self.node))]


class Loop(Flow):
    """A `while_loop`."""

    names = ("condition of the loop", "body of the loop")

    def __call__(self, carried: Sequence[Any], extra: Sequence[Any]) -> Sequence[Any]:
        """What the loop carries when its condition no longer holds."""
        self.remember([*carried, *extra])
        for _ in range(MAX_ITERATIONS):
            if not bool(self.run(0, [*carried, *extra])[0]):
                return tuple(carried)
            carried = self.run(1, [*carried, *extra])
        raise NpucError("calibration", str(self.loc), f"the loop runs {MAX_ITERATIONS} times")

    def borders(self) -> Iterator[list[Border]]:
        items = dict(_items(self.node))
        carried, extra = self.node.args
        for i, operand in enumerate(map(_observed, [*carried, *extra])):  # type: ignore[misc]
            inside: list[Border] = [(p, _inputs(p)[i]) for p in self.bodies]
            if i < len(carried):
                inside.append((self.bodies[1], _outputs(self.bodies[1])[i]))
            if i in items:
                inside.append((None, items[i]))
            yield [(None, (operand, self.node)), *inside]


def hide(gm: GraphModule, prepare_body: Callable[[GraphModule], Prepared]) -> list[Flow]:
    """Replace the `cond`s and `while_loop`s of a graph by calls of `Flow`s, in place."""
    flows: list[Flow] = []
    for node in gm.graph.nodes:
        if not isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        name = getattr(node.target, "_name", "")
        if name not in ("cond", "while_loop"):
            continue
        at = (1, 2) if name == "cond" else (0, 1)
        bodies = [prepare_body(fetch(gm, str(node.args[i].target))) for i in at]
        flow = Branches(node, bodies) if name == "cond" else Loop(node, bodies)
        operands = tuple(node.args[3]) if len(node.args) > 3 else ()
        node.args = (node.args[0 if name == "cond" else 2], operands)
        node.target = flow
        flows.append(flow)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return flows


def show(gm: GraphModule, convert_body: Callable[[Prepared], GraphModule]) -> None:
    """Replace the calls of `Flow`s of a converted graph, in place, by the ops they stand for."""
    found = False
    for node in list(gm.graph.nodes):
        flow = node.target
        if not isinstance(flow, Flow):
            continue
        found = True
        bodies = []
        for i, prepared in enumerate(flow.bodies):
            name = f"{node.name}_body_{i}"
            setattr(gm, name, convert_body(prepared))
            with gm.graph.inserting_before(node):
                bodies.append(gm.graph.get_attr(name))
        first, operands = node.args
        node.target = flow.op
        node.args = (first, *bodies, operands)
        if isinstance(flow, Loop):
            node.args = (*bodies, first, operands)
    if found:
        gm.recompile()


def _items(node: Node) -> list[tuple[int, Node]]:
    return [(user.args[1], user) for user in node.users if user.target is operator.getitem]  # type: ignore[misc]


def _inputs(prepared: Prepared) -> list[Node]:
    return [n for n in prepared.graph.graph.nodes if n.op == "placeholder"]


def _outputs(prepared: Prepared) -> list[Any]:
    """The values that a prepared graph returns."""
    results: Any = prepared.graph.graph.output_node().args[0]
    return list(map(_observed, results if isinstance(results, (tuple, list)) else [results]))


def _observed(value: Any) -> Any:
    """The value in front of its observers."""
    while isinstance(value, Node) and value.op == "call_module":
        value = value.args[0]
    return value
