"""Find the ops of a converted graph that still compute in float."""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from npuc.frontend.splice import kind_of
from npuc.quantizer.fx_values import is_float
from npuc.quantizer.policy import LAYOUT, WEIGHTED, Role, op_name, role_of


def left_float(gm: GraphModule) -> list[Node]:
    """The nodes whose float operands are not all dequantized values or constants, or whose float
    result is read by something else than a quantize.

    Between an op and its quantize there may be clamps and changes of layout: they act on codes.
    """
    return [node for node in gm.graph.nodes if _computes(node) and not _is_integer(node)]


def _computes(node: Node) -> bool:
    """Whether a node is an op on floats, not a quantize, a dequantize or a constant."""
    if node.op != "call_function" or _is_qdq(node) or kind_of(node.target) == "getitem":
        return False
    if not node.all_input_nodes or node.op == "get_attr":
        return False
    if all(operand.op == "get_attr" for operand in node.all_input_nodes):
        return False  # evaluated at compile time
    return bool(_float_operands(node)) or is_float(node)


def _float_operands(node: Node) -> list[Node]:
    """Float operands; the dequantizes that torchao makes have no meta["val"]."""
    return [v for v in node.all_input_nodes if is_float(v) or _is_dequantize(v)]


def _is_integer(node: Node) -> bool:
    kind = kind_of(node.target)
    if role_of(kind) is Role.FLOAT:
        return False
    if _has_float_weight(node, op_name(kind)):
        return False
    operands = all(
        operand.op == "get_attr" or _is_dequantize(operand) or _is_inner(operand)
        for operand in _float_operands(node)
    )
    return operands and _is_read_quantized(node)


def _has_float_weight(node: Node, name: str) -> bool:
    """A float constant beside quantized operands can be quantized; a layer's weight cannot."""
    if name not in WEIGHTED:
        return False
    weight = node.args[WEIGHTED[name][0]]
    return isinstance(weight, Node) and weight.op == "get_attr"


def _is_qdq(node: Any) -> bool:
    return node.op == "call_function" and "quantize" in kind_of(node.target)


def _is_dequantize(node: Node) -> bool:
    return _is_qdq(node) and "dequantize" in kind_of(node.target)


def _is_inner(node: Node) -> bool:
    """Whether a value lies between an op and its quantize."""
    return node.op == "call_function" and _is_read_quantized(node)


def _is_read_quantized(node: Node) -> bool:
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        return all(_is_read_quantized(user) for user in node.users if is_float(user))
    if not is_float(node):
        return True
    return all(_quantizes(user) for user in node.users)


def _quantizes(user: Node) -> bool:
    if user.op != "call_function":
        return False
    if _is_qdq(user):
        return not _is_dequantize(user)
    kind = kind_of(user.target)
    moves = role_of(kind) is Role.CLAMP or op_name(kind) in LAYOUT
    return moves and _is_read_quantized(user)
