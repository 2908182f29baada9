"""One pass over a graph in order: each op is copied or replaced, names and origins follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from npuc.ir.builder import Builder
from npuc.ir.graph import Graph, Op, Value
from npuc.ir.moves import before_reshape
from npuc.ir.types import Shape

Rewrite = Callable[[Any, Op, tuple[Value, ...]], Sequence[Value] | None]


def sweep(graph: Graph, rewrite: Rewrite, builder: Builder) -> Graph:
    """Rebuild `graph` in `builder`.

    `rewrite(builder, op, operands)` gets each op with its operands already rebuilt and returns
    None to copy it or the values that stand for its results. A replacement of another shape than
    the original's (dimensions of size 1 aside) loses its entry in `origins`. Regions are swept too,
    before their op.
    """
    new = {v: builder.input(v.type, v.name) for v in graph.inputs}
    sweep_ops(graph, rewrite, builder, new)
    return finish_mapped(graph, builder, new)


def sweep_ops(graph: Graph, rewrite: Rewrite, builder: Builder, new: dict[Value, Value]) -> None:
    """Rebuild the ops of `graph`; `new` maps old values to new ones, the inputs beforehand."""
    for op in graph.ops:
        operands = tuple([new[v] for v in op.operands])
        builder.loc = op.loc
        results = rewrite(builder, op, operands)
        if results is None:
            regions = [_sweep_region(r, rewrite, builder, new) for r in op.regions]
            types = [r.type for r in op.results]
            results = builder.emit(op.kind, operands, op.attrs, types, regions, op.loc, op.frozen)
        for old, value in zip(op.results, results):
            new[old] = value
            if not value.name:
                value.name = old.name


def _sweep_region(
    region: Graph, rewrite: Rewrite, outer: Builder, new: dict[Value, Value]
) -> Graph:
    inner = type(outer).__new__(type(outer))
    inner.__dict__.update(outer.__dict__)
    Builder.__init__(inner, outer.verify)
    mapping = dict(new)
    mapping.update({v: inner.input(v.type, v.name) for v in region.inputs})
    sweep_ops(region, rewrite, inner, mapping)
    return finish_mapped(region, inner, mapping)


def finish_mapped(graph: Graph, builder: Builder, new: dict[Value, Value]) -> Graph:
    """The new graph of `builder`, with the outputs and origins of `graph` mapped through `new`."""
    origins = {}
    for name, (value, moves) in graph.origins.items():
        mapped = new.get(value)
        if mapped is None:
            continue
        now, was = mapped.type.shape, value.type.shape
        if now is was:
            origins[name] = (mapped, moves)
        elif _same_elements(now, was):
            origins[name] = (mapped, before_reshape(now, was, moves))
    return builder.finish([new[v] for v in graph.outputs], graph.name, origins)


def _same_elements(shape: Shape, other: Shape) -> bool:
    """Whether shapes are equal but for dimensions of size 1."""
    return shape == other or [d for d in shape if d != 1] == [d for d in other if d != 1]


def remove_dead(graph: Graph) -> Graph:
    """Drop the ops that no output depends on."""
    return sweep(graph, lambda b, op, operands: None, Builder())
