"""Sizes in the arguments of an FX graph as nodes that compute them.

PyTorch's own traces, and expansions that work on fake values, leave symbolic sizes as they are in
the arguments. Run on tensors of another size, such a graph would still use the export's sizes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node
from torch.fx.node import map_aggregate

_OPERATORS: dict[str, Callable[..., Any]] = {
    "Add": operator.add, "Mul": operator.mul, "FloorDiv": operator.floordiv,
    "CleanDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod,
    "Max": torch.sym_max, "Min": torch.sym_min, "Pow": operator.pow,
    "IntTrueDiv": operator.truediv, "FloatTrueDiv": operator.truediv, "ToFloat": torch.sym_float,
    "FloatPow": operator.pow,
}  # fmt: skip


def compute_sizes(gm: GraphModule) -> None:
    """Replace symbolic sizes in the arguments of `gm`, in place, by nodes.

    A size that no input tells stays as it is.
    """
    sources = _sources(gm.graph)
    if not sources:
        return
    known = dict(sources)
    for node in list(gm.graph.nodes):
        if node.op == "call_function":
            node.args = map_aggregate(node.args, lambda a: _replaced(a, gm.graph, known))
            node.kwargs = map_aggregate(node.kwargs, lambda a: _replaced(a, gm.graph, known))


def _sources(graph: Graph) -> dict[Any, tuple[Node, int]]:
    """Expression of a size -> an input and its axis that has it."""
    found: dict[Any, Any] = {}
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder" or not isinstance(value, torch.Tensor):
            continue
        for axis, size in enumerate(value.shape):
            if isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None:
                found.setdefault(size.node.expr, (node, axis))
    return found


def _replaced(argument: Any, graph: Graph, known: dict[Any, Any]) -> Any:
    if not isinstance(argument, (torch.SymInt, torch.SymFloat)):
        return argument
    fixed = argument.node.maybe_as_int() if isinstance(argument, torch.SymInt) else None
    if fixed is not None:
        return int(fixed)
    made = _node_of(argument.node.expr, graph, known)
    return argument if made is None else made


def _node_of(expr: Any, graph: Graph, known: dict[Any, Any]) -> Any:
    """The node (or number) of a sympy expression, behind the inputs; None where there is none."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_number:
        return float(expr)
    found = known.get(expr)
    if isinstance(found, Node):
        return found
    if found is not None:
        return _added(expr, graph, known, torch.ops.aten.sym_size.int, found)
    compute = _OPERATORS.get(type(expr).__name__)
    parts = [_node_of(a, graph, known) for a in expr.args] if compute is not None else [None]
    if expr.is_Symbol:
        return _solved(expr, graph, known)
    if compute is None or None in parts:
        return None
    total = parts[0]
    for part in parts[1:]:
        total = _added(None, graph, known, compute, (total, part))
    known[expr] = total
    return total


def _solved(symbol: Any, graph: Graph, known: dict[Any, Any]) -> Any:
    """A symbol that inputs have in an expression a * s + b only."""
    for expr in list(known):
        if expr.free_symbols == {symbol} and expr != symbol:
            factor, offset = expr.coeff(symbol, 1), expr.coeff(symbol, 0)
            if factor.is_Integer and offset.is_Integer and expr == factor * symbol + offset:
                size = _node_of(expr, graph, known)
                moved = _added(None, graph, known, operator.sub, (size, int(offset)))
                return _added(symbol, graph, known, operator.floordiv, (moved, int(factor)))
    return None


def _added(
    expr: Any, graph: Graph, known: dict[Any, Any], target: Any, args: tuple[Any, ...]
) -> Node:
    """A node behind the inputs and the sizes that were added before."""
    last = next(n for n in reversed(graph.nodes) if n.op == "placeholder" or "npuc_size" in n.meta)
    with graph.inserting_after(last):
        made = graph.call_function(target, args)
    values = [a.meta["val"] if isinstance(a, Node) else a for a in args]
    made.meta["val"] = values[0].shape[values[1]] if target is _SIZE else target(*values)
    made.meta["npuc_size"] = True
    if expr is not None:
        known[expr] = made
    return made


_SIZE = torch.ops.aten.sym_size.int
