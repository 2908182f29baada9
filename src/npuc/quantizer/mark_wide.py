"""Mark the values that need 16 bits between ops of 8 bits, whatever the target: a square root of
a sum of squares, a logarithm of a spectrum, a norm.

Roots, logarithms and reciprocals are steep near zero: what eight bits of their operand cannot
tell apart lies far apart in their result. The sums and squares in front of them keep 16 bits
(32-bit accumulators rescaled to int16), and the function reads those.
"""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from npuc.frontend.splice import kind_of
from npuc.quantizer.policy import LAYOUT, op_name

_STEEP = frozenset("sqrt rsqrt log log2 log10 log1p reciprocal".split())
_MOVES = LAYOUT | frozenset("slice select narrow split split_with_sizes chunk getitem".split())
_SUMS = frozenset("add sub sum mean clamp clamp_min clamp_max maximum relu".split())
_PRODUCTS = frozenset(
    """conv1d conv2d conv3d conv_transpose1d conv_transpose2d linear matmul mm bmm mul add sub
    sum""".split()
)


def mark_wide(gm: GraphModule) -> None:
    """Set meta["quant_wide"] on values that keep 16 bits, and meta["quant_takes_wide"] on the ops
    that read them as such."""
    for node in gm.graph.nodes:
        if node.op != "call_function" or not _is_steep(node):
            continue
        if _mark_sum(node.args[0]):
            node.meta["quant_takes_wide"] = True


def _is_steep(node: Node) -> bool:
    name = _name(node)
    if name == "pow" and len(node.args) > 1 and isinstance(node.args[1], (int, float)):
        return node.args[1] < 1
    return name in _STEEP


def _name(value: Any) -> str:
    if not isinstance(value, Node) or value.op != "call_function":
        return ""
    return op_name(kind_of(value.target))


def _mark(node: Node) -> bool:
    node.meta["quant_wide"] = node.meta["quant_takes_wide"] = True
    return True


def _mark_sum(value: Any) -> bool:
    """Mark the operand of a steep function and the sums and squares it is made of."""
    name = _name(value)
    if name in _MOVES:
        return _mark_sum(value.args[0]) and _mark(value)
    if _is_square(value):
        _mark_product(value.args[0])
        return _mark(value)
    if name in _SUMS:
        for operand in value.all_input_nodes:
            _mark_sum(operand)
        return _mark(value)
    return _mark_product(value)


def _mark_product(value: Any) -> bool:
    """Mark the result of one layer, sum or product; what is in front of it stays as it is."""
    name = _name(value)
    if name in _MOVES:
        return _mark_product(value.args[0]) and _mark(value)
    return name in _PRODUCTS and _mark(value)


def _is_square(value: Any) -> bool:
    name = _name(value)
    if name == "square":
        return True
    if name == "pow":
        return value.args[1] == 2
    return name == "mul" and value.args[0] is value.args[1]
