"""What the nodes of an FX graph are to quantization: float values, operands, modules around."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch.fx import GraphModule, Node

from npuc.frontend.splice import kind_of
from npuc.quantizer.policy import LAYOUT, ONE_OPERAND_MOVES, op_name

_FLOATS = (torch.float32, torch.float16, torch.bfloat16)


def name_of(node: Any) -> str:
    """ATen op name of a call ("add"), empty for anything else."""
    if not isinstance(node, Node) or node.op != "call_function":
        return ""
    return op_name(kind_of(node.target))


def moves(node: Any) -> bool:
    """Whether an op only moves the elements of one tensor, whose type it keeps."""
    return name_of(node) in LAYOUT or name_of(node) in ONE_OPERAND_MOVES


def is_float(node: Any) -> bool:
    """Whether a node's value is one floating-point tensor."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dtype in _FLOATS


def float_operands(node: Node) -> list[Node]:
    """The operands that are floating-point tensors, each once."""
    return [operand for operand in node.all_input_nodes if is_float(operand)]


def float_results(node: Node) -> list[Node]:
    """The nodes that hold the float results of an op: itself, or the `getitem`s that pick them."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return [node] if is_float(node) else []
    return [user for user in node.users if user.target is operator.getitem and is_float(user)]


def modules_of(node: Node) -> list[tuple[str, str]]:
    """Path and class name of the modules around a node, outermost first."""
    found = []
    for path, class_name in node.meta.get("nn_module_stack", {}).values():
        path = str(path).removeprefix("L['self'].").removeprefix("L['self']")
        path = path.removeprefix("_export_root.").removeprefix("_export_root")
        name = class_name if isinstance(class_name, str) else _qualified(class_name)
        found.append((path, name))
    return found


def _qualified(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def is_spatial_mean(node: Node) -> bool:
    """Whether a mean runs over exactly the spatial dims of [N, C, ...]: an average pool."""
    if name_of(node) != "mean":
        return False
    value = node.args[0].meta["val"]  # type: ignore[union-attr]
    dims = node.args[1] if len(node.args) > 1 else None
    if not isinstance(dims, (list, tuple)) or value.ndim not in (3, 4):
        return False
    return sorted(d % value.ndim for d in dims) == list(range(2, value.ndim))


def find_parameters(gm: GraphModule) -> set[Any]:
    """The nodes that depend on parameters and buffers only (in training they may be computed)."""
    found: set[Any] = set()
    for node in gm.graph.nodes:
        operands = node.all_input_nodes
        computed = node.op == "call_function" and operands and found.issuperset(operands)
        if node.op == "get_attr" or computed:
            found.add(node)
    return found
