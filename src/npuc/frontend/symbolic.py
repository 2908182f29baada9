"""Sizes of exported programs that are known only at run time, as SymDim with their bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from npuc.errors import Reason, Unsupported
from npuc.ir import Dim, Graph, SymDim

#: torch.export's "no upper bound" is an integer near this one
_UNBOUNDED = 2**31


def dim_of(size: Any, known: Mapping[Any, int] | None = None) -> Dim:
    """A size as an int, or as a SymDim when the program leaves it open.

    `known` gives the values of symbols that were found since (sizes of constant selections).
    """
    if isinstance(size, int):
        return size
    node = size.node
    fixed = node.maybe_as_int()
    if fixed is not None:
        return int(fixed)
    if known:
        value = node.expr.subs(known)
        if value.is_Integer:
            return int(value)
    lo, hi = _range(node)
    return SymDim(str(node.expr), lo, hi)


def bind_sizes(sizes: Sequence[Any], values: Sequence[int], known: dict[Any, int]) -> None:
    """Note in `known` the values of those sizes that are a symbol."""
    for size, value in zip(sizes, values, strict=False):
        if not isinstance(size, int) and size.node.expr.is_Symbol:
            known[size.node.expr] = int(value)


def hint_of(size: Any) -> int:
    """The size that the export saw, without fixing an open one to it (as int() would)."""
    if isinstance(size, int):
        return size
    hint = size.node.hint
    return int(hint) if hint is not None else 2


def _range(node: Any) -> tuple[int, int | None]:
    """Bounds of a symbolic expression; (1, None) where nothing is known."""
    env = node.shape_env
    bound = env.bound_sympy(node.expr) if env is not None else None
    if bound is None:
        return 1, None
    return _finite(bound.lower, 0) or 0, _finite(bound.upper, None)


def _finite(bound: Any, default: int | None) -> int | None:
    try:
        value = int(bound)
    except (TypeError, ValueError, OverflowError):
        return default
    return value if abs(value) < _UNBOUNDED else default


def refuse_open_sizes(graph: Graph, target: str) -> None:
    """Raise Unsupported for inputs with sizes that are known only at run time."""
    reasons = [
        Reason(
            f"input {value.name}",
            "",
            f"its shape {value.type.shape} has sizes that are known only at run time, {target} "
            "takes fixed ones",
            "compile without dynamic_shapes, once per size",
        )
        for value in graph.inputs
        if not value.type.is_static
    ]
    if reasons:
        raise Unsupported(reasons)


def bounds_of(gm: GraphModule) -> dict[str, tuple[int, int | None]]:
    """Name and bounds of each symbolic size of the graph's inputs."""
    found: dict[str, tuple[int, int | None]] = {}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder" or not isinstance(value, torch.Tensor):
            continue
        for size in value.shape:
            dim = dim_of(size)
            if isinstance(dim, SymDim):
                found[dim.name] = (dim.lo, dim.hi)
    return found
