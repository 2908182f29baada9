"""Replace the in-place ops of a small traced graph by functional ones.

Whole programs become functional in `functional_copy.py`; here are the traces of PyTorch's
decompositions, which write into tensors of their own.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from npuc.frontend.splice import kind_of

# They hand their operand on although their schema does not say so.
_ALSO_ALIASES = ("aten.dropout", "aten.feature_dropout", "aten.alpha_dropout", "getitem")


def make_functional(gm: GraphModule) -> Node | None:
    """Replace in-place ops by their functional forms; None, or the node where that fails.

    An in-place op is replaced when no other alias of the tensor it writes is read afterwards:
    then nobody can tell the difference, and later readers of the tensor read the new value.
    """
    writes = [node for node in gm.graph.nodes if _written(node) is not None]
    if not writes:
        return None
    position = {node: i for i, node in enumerate(gm.graph.nodes)}
    family = _alias_families(gm)
    for node in writes:
        target = _written(node)
        if target is None or not _replace_write(node, target, position, family):
            return node
    gm.recompile()
    return None


def _replace_write(
    node: Node, target: Node, position: dict[Node, int], family: dict[Node, list[Node]]
) -> bool:
    functional = functional_overload(node.target)
    members = family[target]
    if functional is None or any(member.op != "call_function" for member in members):
        return False
    made = [member for member in members if position[member] < position[node]]
    later = {
        user
        for member in made
        for user in member.users
        if position[user] > position[node] and member is not target
    }
    if later:
        return False
    node.target = functional
    target.replace_all_uses_with(node, delete_user_cb=lambda user: position[user] > position[node])
    return True


def functional_overload(op: Any) -> Any:
    """The functional overload of an in-place op (`add_.Tensor` -> `add.Tensor`), or None."""
    namespace, _, name = op._schema.name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name.removesuffix("_"), None)
    found = getattr(packet, op._overloadname, None) if packet is not None else None
    return None if found is None or found._schema.is_mutable else found


def _written(node: Node) -> Node | None:
    """The tensor that a node writes in place, if it does."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    for index, argument in enumerate(node.target._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = node.args[index] if index < len(node.args) else node.kwargs.get(argument.name)
            return value if isinstance(value, Node) else None
    return None


def _alias_families(gm: GraphModule) -> dict[Node, list[Node]]:
    """For each node the list, shared by its members, of all nodes that may be the same memory."""
    family: dict[Node, list[Node]] = {}
    for node in gm.graph.nodes:
        source = _aliased(node)
        members = family.get(source) if source is not None else None
        family[node] = members if members is not None else []
        family[node].append(node)
    return family


def _aliased(node: Node) -> Node | None:
    """The operand whose memory a node's result shares, or may share."""
    source = node.args[0] if node.args else None
    if node.op != "call_function" or not isinstance(source, Node):
        return None
    if node.target is operator.getitem or kind_of(node.target) in _ALSO_ALIASES:
        return source
    if not isinstance(node.target, torch._ops.OpOverload):
        return None
    shares = any(result.alias_info is not None for result in node.target._schema.returns)
    return source if shares else None
