"""Make an exported FX graph functional in place: no gradient regions, no in-place ops.

Only rewrites that are provably right without tracing are done here. `make_functional` returns
the node that needs more (a write through a view, into an input or into a buffer): for such
programs `ExportedProgram.run_decompositions({})` is the tool.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from npuc.frontend.splice import fetch, kind_of, replace

# They hand their operand on although their schema does not say so.
_ALSO_ALIASES = ("aten.dropout", "aten.feature_dropout", "aten.alpha_dropout", "getitem")


def inline_grad_regions(gm: GraphModule) -> bool:
    """Inline every `torch.no_grad` / `enable_grad` region; true when there was one."""
    region = torch.ops.higher_order.wrap_with_set_grad_enabled
    calls = [node for node in gm.graph.nodes if node.target is region]
    for call in calls:
        _, reader, *operands = call.args
        body = fetch(gm, str(reader.target))
        inline_grad_regions(body)
        replace(call, _copy_body(gm, call, body, operands))
        if not reader.users:
            gm.graph.erase_node(reader)
            gm.delete_submodule(str(reader.target))
    for child in gm.children():
        if isinstance(child, GraphModule):
            inline_grad_regions(child)
    if calls:
        gm.recompile()
    return bool(calls)


def _copy_body(
    gm: GraphModule, call: Node, body: GraphModule, operands: list[Any]
) -> tuple[Any, ...]:
    """Copy the nodes of a region in front of its call; the nodes of its results."""
    ours: dict[Node, Any] = {}
    given = iter(operands)
    for node in body.graph.nodes:
        if node.op == "placeholder":
            ours[node] = next(given)
        elif node.op == "output":
            results = torch.fx.map_arg(node.args[0], ours.__getitem__)
            return results if isinstance(results, tuple) else tuple(results)
        else:
            if node.op == "get_attr":
                _adopt(gm, body, str(node.target))
            with gm.graph.inserting_before(call):
                ours[node] = gm.graph.node_copy(node, ours.__getitem__)
    raise AssertionError("a graph ends with its output")


def _adopt(gm: GraphModule, body: GraphModule, name: str) -> None:
    """Give `gm` the attribute `name` of a region's body; names are unique in one export."""
    if not hasattr(gm, name):
        setattr(gm, name, fetch(body, name))


def make_functional(gm: GraphModule) -> Node | None:
    """Replace in-place ops by their functional forms; None, or the node that needs a re-trace.

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
    return getattr(packet, op._overloadname, None) if packet is not None else None


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
