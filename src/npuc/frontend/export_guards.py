"""The conditions under which an exported program is right for sizes other than the export's.

torch.export writes them down as text, `(2*(L['x'].size()[2] // 4)) == 4`, and checks them when the
program is called. One that does not hold for all sizes in the bounds means that the export, or
PyTorch's shape inference, has taken the example's size for granted.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator, Mapping
from functools import reduce
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.export import ExportedProgram

from npuc.errors import BadInput
from npuc.frontend.guards import RELATIONS
from npuc.frontend.symbolic import Sizes
from npuc.ir import Dim, SymDim
from npuc.ir.size_terms import symbols_of
from npuc.ir.symbolic import at_least, at_most, describe

_ARITHMETIC = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_EXTREMES = {"max": at_least, "min": at_most}
_SIGNS = {
    ast.Eq: "Equality", ast.NotEq: "Unequality", ast.Lt: "StrictLessThan", ast.LtE: "LessThan",
    ast.Gt: "StrictGreaterThan", ast.GtE: "GreaterThan",
}  # fmt: skip
#: a size as torch writes it: L['x'].size()[2]
_SIZE = re.compile(r"L\['(\w+)'\]((?:\[[^\]]*\])*)\.size\(\)\[(\d+)\]")


def _shape(match: re.Match[str]) -> str:
    """x.shape[2]."""
    return f"{match[1]}{match[2]}.shape[{match[3]}]"


def with_guards(exported: ExportedProgram, symbols: Mapping[str, Dim]) -> dict[str, Dim]:
    """`symbols` with bounds for which all conditions of the export hold.

    torch leaves out sizes of 1 where it has to: their lower bound becomes 2. Raises BadInput where
    a condition holds for few sizes only.
    """
    found = dict(symbols)
    while True:
        broken = next(_broken(exported, Sizes(found)), None)
        if broken is None:
            return found
        text, names = broken
        low = [k for k, d in found.items() if str(d) in names and isinstance(d, SymDim)]
        if not any(found[k].lo == 1 for k in low):  # type: ignore[union-attr]
            break
        for k in low:
            dim: Any = found[k]
            found[k] = SymDim(str(dim), max(dim.lo, 2), dim.hi)
    named = " and ".join(
        describe(s) for d in found.values() for s in symbols_of(d) if s.name in names
    )
    raise BadInput(
        f"the exported program holds only where {_SIZE.sub(_shape, text)}",
        why=f"not for every {named}: torch.export has taken the example's size for granted",
        hint="narrow the Dims, leave these sizes static, or write the model so that torch.export "
        "keeps them open",
    )


def _broken(exported: ExportedProgram, sizes: Sizes) -> Iterator[tuple[str, frozenset[str]]]:
    """The conditions that do not hold for all sizes, and the symbols in them."""
    texts = getattr(exported, "_guards_code", None) or []
    inputs = _inputs(exported, sizes) if texts else {}
    for text in texts:
        for sign, difference in _comparisons(ast.parse(text, mode="eval").body, inputs):
            if not RELATIONS[sign](difference):
                yield text, frozenset(s.name for s in symbols_of(difference))


def _comparisons(node: ast.expr, inputs: Mapping[str, Any]) -> Iterator[tuple[str, Dim]]:
    """The relations of a condition on sizes, and the differences of their sides."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        for value in node.values:
            yield from _comparisons(value, inputs)
    if not isinstance(node, ast.Compare) or type(node.ops[0]) not in _SIGNS:
        return  # not about sizes
    try:
        left, right = (_value(side, inputs) for side in (node.left, node.comparators[0]))
        yield _SIGNS[type(node.ops[0])], left - right
    except (KeyError, IndexError, TypeError):
        return  # not about sizes of tensors


def _value(node: ast.expr, inputs: Mapping[str, Any]) -> Any:
    """Of an expression over sizes. Raises KeyError for one over anything else."""
    match node:
        case ast.Constant():
            return node.value
        case ast.Name(id="L"):
            return inputs
        case ast.Subscript():
            return _value(node.value, inputs)[_value(node.slice, inputs)]
        case ast.UnaryOp(op=ast.USub()):
            return -_value(node.operand, inputs)
        case ast.BinOp():
            sides = (_value(side, inputs) for side in (node.left, node.right))
            return _ARITHMETIC[type(node.op)](*sides)
        case ast.Call(func=ast.Attribute(value=tensor, attr="size"), args=[]):
            return _value(tensor, inputs)  # the shape stands for its tensor
        case ast.Call(func=ast.Name(id=name), args=args):
            return reduce(_EXTREMES[name], (_value(a, inputs) for a in args))
    raise KeyError(ast.unparse(node))


def _inputs(exported: ExportedProgram, sizes: Sizes) -> dict[str, Any]:
    """The program's arguments by name, shapes in place of tensors."""
    leaves: list[Any] = []
    user = set(exported.graph_signature.user_inputs)
    for node in exported.graph_module.graph.nodes:
        if node.op == "placeholder" and node.name in user:
            value = node.meta.get("val")
            is_tensor = isinstance(value, torch.Tensor)
            leaves.append(sizes.shape(value) if is_tensor else value)
    spec = exported.call_spec.in_spec
    if spec is None or spec.num_leaves != len(leaves):
        return {}
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    signature = exported.module_call_graph[0].signature if exported.module_call_graph else None
    names = getattr(signature, "forward_arg_names", None) or []
    return {**dict(zip(names, args, strict=False)), **kwargs}
