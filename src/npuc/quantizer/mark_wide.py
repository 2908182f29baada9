"""Mark the values that keep 16 bits between ops of 8 bits.

Roots, logarithms and reciprocals are steep near zero: what eight bits of their operand cannot
tell apart lies far apart in their result. A layer norm stretches what it reads, and the residual
stream in front of it adds up the rounding of every block. The sums, squares and layers in front
of these functions have 32-bit accumulators, so 16 bits of their results cost nothing to make.
"""

from __future__ import annotations

from typing import Any

from torch.fx import GraphModule, Node

from npuc.frontend.splice import kind_of
from npuc.quantizer.policy import LAYOUT, ONE_OPERAND_MOVES, names, op_name

_STEEP = names("sqrt rsqrt log log2 log10 log1p reciprocal")
_NORMS = names("layer_norm native_layer_norm rms_norm _fused_rms_norm")
_MOVES = LAYOUT | ONE_OPERAND_MOVES
# What takes 16-bit values without tables (and clamps) of them.
ARITHMETIC = names(
    """
    add sub mul sum cat linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d matmul mm bmm
    layer_norm native_layer_norm rms_norm _fused_rms_norm
    """
)
_CLAMPS = names("clamp clamp_min clamp_max relu")
_SUMS = names("add sub sum mean") | _CLAMPS
_PRODUCTS = names(
    """
    conv1d conv2d conv3d conv_transpose1d conv_transpose2d linear matmul mm bmm mul add sub sum
    """
)


def mark_wide(gm: GraphModule, tables16: bool) -> None:
    """Set meta["quant_wide"] on values that keep 16 bits, and meta["quant_takes_wide"] on the ops
    that read them as such; meta["quant_steep"] on the sums and squares in front of a steep
    function, where resolution near zero is worth more than what their own errors say.
    `tables16`: the target has tables and clamps of 16-bit values."""
    for node in gm.graph.nodes:
        name = _name(node)
        reads_wide = name in _NORMS and _mark_stream(node.args[0])
        if is_steep(node):
            reads_wide = _mark_sum(node.args[0], _SUMS if tables16 else _SUMS & ARITHMETIC)
        if reads_wide:
            node.meta["quant_takes_wide"] = True


def is_steep(node: Node) -> bool:
    """Whether a node is a function that is steep near zero."""
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


def _mark_stream(value: Any) -> bool:
    """Mark a residual stream: the additions in front of a norm and the layers they add.

    An addition of which one summand has 8 bits (another norm's result) reads both with 8: summands
    of one type are one operation. The stream may begin with a concatenation (a class token).
    """
    name = _name(value)
    if value.meta.get("quant_wide"):
        return True
    if name == "add":
        _mark(value)
        summands = value.all_input_nodes
        if all(_is_wide_source(s) for s in summands):
            for summand in summands:
                _mark_stream(summand)
        return True
    if name == "cat":
        for operand in value.all_input_nodes:
            _mark_product(operand)
        return _mark(value)
    return _mark_product(value)


def _is_wide_source(value: Node, joins: bool = True) -> bool:
    """Whether a value is a constant, or can have 16 bits for nothing; `joins`: so can what joins
    such values."""
    while _name(value) in _MOVES:
        value = value.args[0]  # type: ignore[assignment]
    if _name(value) == "cat":
        return joins and all(_is_wide_source(v, False) for v in value.all_input_nodes)
    return value.op == "get_attr" or _name(value) in _PRODUCTS


def _mark_sum(value: Any, sums: frozenset[str]) -> bool:
    """Mark the operand of a steep function and the sums and squares it is made of."""
    name = _name(value)
    if name in _MOVES:
        return _mark_sum(value.args[0], sums) and _mark(value)
    if _is_square(value, name):
        value.meta["quant_steep"] = True
        _mark_product(value.args[0])
        return _mark(value)
    if name in sums:
        value.meta["quant_steep"] = True
        for operand in value.all_input_nodes:
            _mark_sum(operand, sums)
        return _mark(value)
    return _mark_product(value)


def _mark_product(value: Any) -> bool:
    """Mark the result of one layer, sum or product; what is in front of it stays as it is."""
    name = _name(value)
    if name in _MOVES:
        return _mark_product(value.args[0]) and _mark(value)
    return name in _PRODUCTS and _mark(value)


def _is_square(value: Any, name: str) -> bool:
    if name == "square":
        return True
    if name == "pow":
        return value.args[1] == 2  # type: ignore[no-any-return]
    return name == "mul" and value.args[0] is value.args[1]
