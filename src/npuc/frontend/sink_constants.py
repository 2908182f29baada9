"""Constants that branches and loops read move into them; the exporter hands them in."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch.fx import GraphModule, Node

from npuc.frontend.splice import fetch


def sink_constants(gm: GraphModule) -> None:
    """Move the constant operands of `cond` and `while_loop` into their sub-graphs, in place.

    Parameters become `get_attr` nodes there as they are elsewhere, numbers are written where they
    are read. What a loop carries from step to step stays.
    """
    found = False
    for node in list(gm.graph.nodes):
        if not isinstance(node.target, torch._ops.HigherOrderOperator):
            continue
        name = getattr(node.target, "_name", "")
        if name not in ("cond", "while_loop"):
            continue
        found = True
        bodies = [fetch(gm, str(a.target)) for a in node.args if _is_body(gm, a)]
        first = len(node.args[2]) if name == "while_loop" else 0
        operands = list(node.args[3]) if len(node.args) > 3 else []
        kept = [a for a in operands if not _is_constant(a)]
        for body in bodies:
            _take(gm, body, operands, first)
        node.args = (*node.args[:3], tuple(kept))
        for body in bodies:
            sink_constants(body)
    if found:
        for node in list(gm.graph.nodes):
            if node.op == "get_attr" and not node.users:
                gm.graph.erase_node(node)
        gm.recompile()


def _is_body(gm: GraphModule, argument: Any) -> bool:
    is_attribute = isinstance(argument, Node) and argument.op == "get_attr"
    return is_attribute and isinstance(fetch(gm, str(argument.target)), GraphModule)


def _is_constant(argument: Any) -> bool:
    if isinstance(argument, Node):
        return argument.op == "get_attr"
    return isinstance(argument, (bool, int, float))


def _take(gm: GraphModule, body: GraphModule, operands: list[Any], first: int) -> None:
    """Replace the placeholders (from number `first` on) of the constants among `operands`."""
    places = [n for n in body.graph.nodes if n.op == "placeholder"][first:]
    for place, operand in zip(places, operands, strict=True):
        if not _is_constant(operand) or not place.users:
            continue
        if isinstance(operand, Node):
            name = _attach(body, str(operand.target), fetch(gm, str(operand.target)))
            with body.graph.inserting_after(places[-1]):
                made: Any = body.graph.get_attr(name)
            made.meta = dict(place.meta)
            place.replace_all_uses_with(made)
        else:
            for user in list(place.users):
                user.args = _replaced(user.args, place, operand)
                user.kwargs = _replaced(user.kwargs, place, operand)
    for place, operand in zip(places, operands, strict=True):
        if _is_constant(operand):
            body.graph.erase_node(place)
    body.recompile()


def _replaced(arguments: Any, place: Node, operand: Any) -> Any:
    return torch.fx.map_arg(arguments, lambda n: operand if n is place else n)


def _attach(body: GraphModule, target: str, tensor: torch.Tensor) -> str:
    """Register a tensor of the graph around `body` in it; the name it has there."""
    name = base = re.sub(r"\W", "_", target)
    number = 0
    while hasattr(body, name):
        number += 1
        name = f"{base}_{number}"
    if isinstance(tensor, torch.nn.Parameter):
        body.register_parameter(name, tensor)
    else:
        body.register_buffer(name, tensor)
    return name
