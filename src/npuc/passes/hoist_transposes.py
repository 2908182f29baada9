"""Transposes at the borders of branches and loops move out, where others may cancel them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, Value, before_transpose, sweep
from npuc.passes.assign_layout import assign_layout
from npuc.passes.layout.behaviour import reads_sizes
from npuc.passes.layout.build_problem import captured_values, count_bytes

Perm = tuple[int, ...]


def hoist_transposes(graph: Graph, limits: Limits) -> Graph:
    """Branches and loops take and give tensors in the order in which they compute with them.

    Where a region transposes its input or its output, that happens outside of it, and undone in the
    regions that do not. Then the layout of all is assigned again; the result is taken if it
    transposes fewer bytes.
    """
    if not any(op.regions for op in graph.ops):
        return graph
    try:
        hoisted = _hoist(graph, limits)
    except Unsupported:  # the chip does not take one of the transposes
        return graph
    hoisted = assign_layout(hoisted, limits)
    return hoisted if _bytes_moved(hoisted) < _bytes_moved(graph) else graph


def _bytes_moved(graph: Graph) -> float:
    moves = [op for op in graph.walk() if op.kind == "tosa.TRANSPOSE"]
    return sum(count_bytes(op.result.type) for op in moves)


def _hoist(graph: Graph, limits: Limits) -> Graph:
    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not op.regions or any(captured_values(region) for region in op.regions):
            return None
        is_loop = op.name == "WHILE_LOOP"
        regions = [_hoist(region, limits) for region in op.regions]
        perms = _of_loop(regions) if is_loop else _of_branches(regions)
        first = len(operands) - len(perms.inputs)  # behind the condition of a COND_IF
        outputs = [[None] if is_loop else perms.outputs, perms.outputs]
        regions = [
            _rebuilt(region, perms.inputs, out, limits)
            for region, out in zip(regions, outputs, strict=True)
        ]
        given = [_moved(b, v, p) for v, p in zip(operands[first:], perms.inputs, strict=True)]
        types = [v.type for v in (given if is_loop else regions[0].outputs)]
        results = b.emit(op.kind, [*operands[:first], *given], op.attrs, types, regions, op.loc)
        return [_moved(b, v, p) for v, p in zip(results, perms.outputs, strict=True)]

    return sweep(graph, rewrite, OpBuilder(limits))


@dataclass
class _Perms:
    """`inputs[j]`: what input j is transposed by outside; `outputs[i]`: what output i is. None: the
    tensor stays."""

    inputs: list[Perm | None]
    outputs: list[Perm | None]


def _of_branches(regions: Sequence[Graph]) -> _Perms:
    """The TRANSPOSEs that a branch has at its inputs and outputs."""
    inputs = [_first([_reads(r, j) for r in regions]) for j in range(len(regions[0].inputs))]
    outputs = [_first([_makes(r, i) for r in regions]) for i in range(len(regions[0].outputs))]
    return _Perms(inputs, outputs)


def _of_loop(regions: Sequence[Graph]) -> _Perms:
    """The TRANSPOSEs that a body has at its inputs; what it gives back is undone."""
    inputs = [_first([_reads(r, j) for r in regions]) for j in range(len(regions[0].inputs))]
    return _Perms(inputs, [None if p is None else _inverse(p) for p in inputs])


def _first(perms: Sequence[Perm | None]) -> Perm | None:
    return next((p for p in perms if p is not None), None)


def _reads(region: Graph, index: int) -> Perm | None:
    """The permutation of the TRANSPOSEs that alone read an input."""
    readers = [r for r in region.readers().get(region.inputs[index], ()) if not reads_sizes(r)]
    found = {op.attrs["perms"] if op.kind == "tosa.TRANSPOSE" else None for op in readers}
    return found.pop() if len(found) == 1 else None


def _makes(region: Graph, index: int) -> Perm | None:
    """The permutation of the TRANSPOSE that makes an output."""
    op = region.outputs[index].op
    return op.attrs["perms"] if op is not None and op.kind == "tosa.TRANSPOSE" else None


def _rebuilt(
    region: Graph, inputs: Sequence[Perm | None], outputs: Sequence[Perm | None], limits: Limits
) -> Graph:
    """The region with inputs and outputs in the other order."""
    b = OpBuilder(limits)
    new: dict[Value, Value] = {}
    taken: dict[Value, tuple[Value, Perm]] = {}
    for value, perm in zip(region.inputs, inputs, strict=True):
        if perm is None:
            new[value] = b.input(value.type, value.name)
            continue
        made = b.input(value.type.transposed(perm), value.name)
        taken[value] = (made, perm)
        new[value] = b.transpose(made, _inverse(perm))
    for op in region.ops:
        b.loc = op.loc
        operands = [new[v] for v in op.operands]
        types = [r.type for r in op.results]
        results = b.emit(op.kind, operands, op.attrs, types, op.regions, op.loc)
        for old, made in zip(op.results, results, strict=True):
            new[old] = made
            made.name = made.name or old.name
    given = [
        new[v] if p is None else b.transpose(new[v], _inverse(p))
        for v, p in zip(region.outputs, outputs, strict=True)
    ]
    origins = {name: (new[v], moves) for name, (v, moves) in region.origins.items()}
    for name, (value, moves) in region.origins.items():
        if value in taken:
            made, order = taken[value]
            origins[name] = (made, before_transpose(_inverse(order), moves))
    return b.finish(given, region.name, origins)


def _moved(b: OpBuilder, value: Value, perm: Perm | None) -> Value:
    return value if perm is None else b.transpose(value, perm)


def _inverse(perm: Perm) -> Perm:
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))
