"""The open sizes of a program: their bounds, and the names that the user gave them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from npuc.errors import BadInput, Reason, Unsupported
from npuc.ir import Dim, Graph, SymDim
from npuc.ir.symbolic import describe

#: torch.export's "no upper bound" is an integer near this one
_UNBOUNDED = 2**31


def symbols_of(gm: GraphModule, ranges: Mapping[Any, Any]) -> dict[str, Dim]:
    """The symbols of the inputs' sizes: torch's name -> open size.

    ranges: bounds that the export keeps (`ExportedProgram.range_constraints`); where it has none,
    those of its tracing. A size is at least 1: targets have no empty tensors.
    """
    found: dict[str, Dim] = {}
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder" or not isinstance(value, torch.Tensor):
            continue
        for size in value.shape:
            if not isinstance(size, int) and size.node.maybe_as_int() is None:
                for symbol in size.node.expr.free_symbols:
                    bound = ranges.get(symbol) or size.node.shape_env.var_to_range.get(symbol)
                    bounds = _widened(symbol, _bounds(bound), ranges)
                    found[str(symbol)] = SymDim(str(symbol), *bounds)
    return found


def _widened(
    symbol: Any, bounds: tuple[int, int | None], ranges: Mapping[Any, Any]
) -> tuple[int, int | None]:
    """The bounds with those of derived sizes, 4 * symbol: torch starts symbols of its own at 2."""
    for expr, bound in ranges.items():
        factor, offset = expr.coeff(symbol, 1), expr.coeff(symbol, 0)
        if expr == symbol or not factor.is_Integer or not offset.is_Integer:
            continue
        lowest = _finite(bound.lower)
        if factor > 0 and expr == factor * symbol + offset and lowest is not None:
            bounds = min(bounds[0], max(-(-(lowest - int(offset)) // int(factor)), 1)), bounds[1]
    return bounds


def symbols_between(ranges: Mapping[Any, Any]) -> dict[str, Dim]:
    """torch's symbols with the bounds of its tracing."""
    return {str(s): SymDim(str(s), *_bounds(bound)) for s, bound in ranges.items()}


def renamed(
    symbols: Mapping[str, Dim], dynamic_shapes: Any, forward: Any, inputs: Any,
    tensors: Sequence[torch.Tensor], values: Sequence[torch.Tensor],
) -> dict[str, Dim]:  # fmt: skip
    """`symbols` under the names of the user's `torch.export.Dim`s.

    dynamic_shapes: as the user gave it for `forward` and the example inputs (args, kwargs);
    tensors: their leaves, as which the graph has the (fake) `values`.
    """
    named = dict(_leaves(dynamic_shapes, _arguments(dynamic_shapes, forward, inputs)))
    names: dict[str, str] = {}
    for tensor, value in zip(tensors, values, strict=False):
        for axis, name in named.get(id(tensor), {}).items():
            if not -tensor.dim() <= axis < tensor.dim():  # torch.export says nothing
                raise BadInput(
                    f"dynamic_shapes names axis {axis} ({name})",
                    why=f"of an input of shape {tuple(tensor.shape)}",
                )
            size = value.shape[axis]
            if not isinstance(size, int) and len(size.node.expr.free_symbols) == 1:
                names[str(*size.node.expr.free_symbols)] = name
    return {k: _with_name(d, names.get(k)) for k, d in symbols.items()}


def _with_name(dim: Dim, name: str | None) -> Dim:
    if name is None or isinstance(dim, int):
        return dim
    return SymDim(name, dim.lo, dim.hi)


def _arguments(dynamic_shapes: Any, forward: Any, inputs: Any) -> Any:
    """The example inputs in the structure of `dynamic_shapes`: by name, or positional."""
    args, kwargs = inputs
    if not isinstance(dynamic_shapes, Mapping):
        return args
    return inspect.signature(forward).bind(*args, **kwargs).arguments


def _leaves(spec: Any, value: Any) -> Iterator[tuple[int, dict[int, str]]]:
    """(id of a tensor, names of its axes) for each tensor with named axes."""
    if isinstance(value, torch.Tensor):
        axes = spec.items() if isinstance(spec, Mapping) else enumerate(spec or ())
        yield id(value), {a: n for a, d in axes if (n := _name(d)) is not None}
    elif isinstance(spec, Mapping) and isinstance(value, Mapping):
        for key in value:
            yield from _leaves(spec.get(key), value[key])
    elif isinstance(spec, (tuple, list)) and isinstance(value, (tuple, list)):
        for inner, part in zip(spec, value, strict=False):
            yield from _leaves(inner, part)


def _name(dim: Any) -> str | None:
    """The name of a Dim; of a derived one (2 * batch) that of its root."""
    name = getattr(getattr(dim, "root", dim), "__name__", None)
    return name if isinstance(dim, torch.export.Dim) else None


def _bounds(bound: Any) -> tuple[int, int | None]:
    if bound is None:
        return 1, None
    return max(_finite(bound.lower) or 1, 1), _finite(bound.upper)


def _finite(bound: Any) -> int | None:
    """A bound of torch's as a number; None where it stands for no bound."""
    if not getattr(bound, "is_Integer", False) or abs(int(bound)) >= _UNBOUNDED:
        return None
    return int(bound)


def takes_open_sizes(limits: Any) -> bool:
    """Whether a target computes with sizes known only at run time: TOSA 1.1's shape extension."""
    return "EXT-SHAPE" in getattr(limits, "extensions", ())


def refuse_open_sizes(graph: Graph, target: str) -> None:
    """Raise Unsupported, naming inputs, axes and symbols, unless all inputs have fixed sizes."""
    reasons = []
    for value in graph.inputs:
        open_dims = [(a, d) for a, d in enumerate(value.type.shape) if isinstance(d, SymDim)]
        if open_dims:
            axes = ", ".join(f"axis {axis} is {_size(dim)}" for axis, dim in open_dims)
            symbols = dict.fromkeys(s for _, dim in open_dims for s in dim.symbols)
            example = ", ".join(f"{s.name!r}: {s.hi or s.lo}" for s in symbols)
            options = " ".join(f"--size {s.name}={s.hi or s.lo}" for s in symbols)
            reasons.append(Reason(
                f"input {value.name}", "",
                f"{axes}, known only at run time, and {target} takes fixed sizes",
                f"compile once per size with sizes={{{example}}} (npuc compile {options}), "
                "or without dynamic_shapes",
            ))  # fmt: skip
    if reasons:
        raise Unsupported(reasons)


def _size(dim: SymDim) -> str:
    named = " and ".join(map(describe, dim.symbols))
    return named if dim.symbol is not None else f"{dim} with {named}"
