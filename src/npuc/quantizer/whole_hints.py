"""Tell the observers of whole numbers (results of floor, and sums of them) that they are whole.

An index that is computed from such a value has to be exact; with a scale of 6/255 a 3 is read as
2.99 and truncated to 2.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx import GraphModule, Node

from npuc.frontend.splice import fetch
from npuc.quantizer.choose_types import Types
from npuc.quantizer.fx_values import float_operands, float_results, is_float, moves, name_of
from npuc.quantizer.groups import Groups
from npuc.quantizer.specs import Hint

_ROUNDING = frozenset({"floor", "ceil", "round", "trunc", "fix"})
_ARITHMETIC = frozenset(
    {"add", "sub", "mul", "neg", "abs", "maximum", "minimum", "clamp", "clamp_min", "clamp_max"}
)


def add_whole_hints(gm: GraphModule, types: Types, groups: Groups, fused: set[Node]) -> None:
    """Give hints to the groups all of whose values are whole numbers."""
    whole: set[Node] = set()
    for node in gm.graph.nodes:
        if _is_whole(gm, node, whole):
            whole.update(float_results(node) or [node])
    for _, group in groups.all():
        members = {place for place in group.places if isinstance(place, Node)}
        if members and members <= whole:
            group.hints.insert(0, Hint(whole=True))


def _is_whole(gm: GraphModule, node: Node, whole: set[Node]) -> bool:
    """Whether the floats that a node gives are whole numbers where those of `whole` are."""
    if node.op == "get_attr":
        value = fetch(gm, str(node.target))
        return is_float(node) and bool(torch.equal(value, value.round()))
    name = name_of(node)
    if name in _ROUNDING:
        return not node.kwargs.get("decimals")
    if name not in _ARITHMETIC and not moves(node):
        return False
    operands = float_operands(node)
    numbers = [*node.args[1:], *node.kwargs.values()] if name in _ARITHMETIC else []
    return bool(operands) and whole.issuperset(operands) and all(map(_is_whole_number, numbers))


def _is_whole_number(value: Any) -> bool:
    return not isinstance(value, float) or value.is_integer()
