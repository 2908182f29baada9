"""Transposes at the borders of branches and loops move out, where others may cancel them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.assign_layout import assign_layout
from npuc.passes.layout.build_problem import captured_values

Perm = tuple[int, ...]


def hoist_transposes(graph: Graph, limits: Limits) -> Graph:
    """Branches and loops take and give tensors in the order in which they compute with them.

    A TRANSPOSE of a region's input, or one that makes its output, becomes one of the tensor
    outside; then the layout of the whole is assigned again.
    """
    if not any(op.regions for op in graph.ops):
        return graph
    hoisted: list[Op] = []
    graph = _hoist(graph, limits, hoisted)
    return assign_layout(graph, limits) if hoisted else graph


def _hoist(graph: Graph, limits: Limits, hoisted: list[Op]) -> Graph:
    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not op.regions or any(captured_values(region) for region in op.regions):
            return None
        regions = [_hoist(region, limits, hoisted) for region in op.regions]
        first = len(operands) - len(regions[0].inputs)  # behind the condition of a COND_IF
        perms = _branches(regions) if op.name == "COND_IF" else _loop(regions)
        if not any([*perms.inputs, *perms.outputs]):
            types = [r.type for r in op.results]
            return b.emit(op.kind, operands, op.attrs, types, regions, op.loc)
        hoisted.append(op)
        regions = [_rebuilt(region, perms, limits) for region in regions]
        given = [_moved(b, v, p) for v, p in zip(operands[first:], perms.inputs, strict=True)]
        types = [v.type for v in (given if op.name == "WHILE_LOOP" else regions[0].outputs)]
        results = b.emit(op.kind, [*operands[:first], *given], op.attrs, types, regions, op.loc)
        return [_moved(b, v, p) for v, p in zip(results, perms.outputs, strict=True)]

    return sweep(graph, rewrite, OpBuilder(limits))


@dataclass
class _Perms:
    """`inputs[j]`: what the regions transpose input j by; `outputs[i]`: what makes output i. None:
    the tensor stays."""

    inputs: list[Perm | None]
    outputs: list[Perm | None]


def _branches(regions: Sequence[Graph]) -> _Perms:
    """For each input and output the TRANSPOSE that all branches have there."""
    inputs = [
        _read_by([r.inputs[j] for r in regions], regions) for j in range(len(regions[0].inputs))
    ]
    outputs = [_made_by(regions, i) for i in range(len(regions[0].outputs))]
    while True:
        wrong = [
            (j, i) for j, i in _passed(regions)
            if inputs[j] is not outputs[i]
            and (inputs[j] is None or outputs[i] is None or _inverse(inputs[j]) != outputs[i])
        ]  # fmt: skip
        if not wrong:
            return _Perms(inputs, outputs)
        for j, i in wrong:
            inputs[j] = outputs[i] = None


def _loop(regions: Sequence[Graph]) -> _Perms:
    """For each carried value the TRANSPOSE that reads it, if the body's own undoes it."""
    _, body = regions
    found: list[Perm | None] = []
    for j in range(len(body.inputs)):
        perm = _read_by([r.inputs[j] for r in regions], regions)
        passes = body.outputs[j] is body.inputs[j]
        back = body.outputs.count(body.inputs[j]) == passes and (
            passes or (perm is not None and _made_by([body], j) == _inverse(perm))
        )
        found.append(perm if back else None)
    return _Perms(found, [None if p is None else _inverse(p) for p in found])


def _read_by(values: Sequence[Value], regions: Sequence[Graph]) -> Perm | None:
    """The permutation of the TRANSPOSEs that alone read an input of the regions."""
    found = set()
    for value, region in zip(values, regions, strict=True):
        for op in region.readers().get(value, ()):
            found.add(op.attrs["perms"] if op.kind == "tosa.TRANSPOSE" else None)
    return found.pop() if len(found) == 1 else None


def _made_by(regions: Sequence[Graph], index: int) -> Perm | None:
    """The permutation of the TRANSPOSEs that make an output; inputs that are handed on aside."""
    found = set()
    for region in regions:
        value = region.outputs[index]
        if value not in region.inputs:
            is_transposed = value.op is not None and value.op.kind == "tosa.TRANSPOSE"
            found.add(value.op.attrs["perms"] if is_transposed else None)  # type: ignore[union-attr]
    return found.pop() if len(found) == 1 else None


def _passed(regions: Sequence[Graph]) -> list[tuple[int, int]]:
    """Pairs of an input and an output that is the input."""
    return [
        (region.inputs.index(value), i)
        for region in regions
        for i, value in enumerate(region.outputs)
        if value in region.inputs
    ]


def _rebuilt(region: Graph, perms: _Perms, limits: Limits) -> Graph:
    """The region with inputs and outputs in the other order. (The condition of a loop has an output
    of its own.)"""
    b = OpBuilder(limits)
    new: dict[Value, Value] = {}
    moved: dict[Value, Perm] = {}
    for value, perm in zip(region.inputs, perms.inputs, strict=True):
        type = value.type if perm is None else value.type.transposed(perm)
        new[value] = b.input(type, value.name)
        if perm is not None:
            moved[value] = perm
    for op in region.ops:
        b.loc = op.loc
        if op.operands and op.operands[0] in moved:
            new[op.result] = new[op.operands[0]]
            continue
        types = [r.type for r in op.results]
        operands = [new[v] for v in op.operands]
        for old, made in zip(
            op.results, b.emit(op.kind, operands, op.attrs, types, op.regions, op.loc), strict=True
        ):
            new[old] = made
            made.name = made.name or old.name
    outputs = []
    is_condition = len(region.outputs) != len(perms.outputs)
    for value, perm in zip(region.outputs, [None] if is_condition else perms.outputs, strict=True):
        made_by_transpose = perm is not None and value not in moved
        outputs.append(new[value.op.operands[0] if made_by_transpose else value])  # type: ignore[union-attr]
    origins = {}
    alive = _alive(b, outputs)
    for name, (value, perm) in region.origins.items():
        made = new[value]
        if value in moved:
            perm = _after(perm, moved[value])
        elif made not in alive and value.op is not None and value.op.kind == "tosa.TRANSPOSE":
            made = new[value.op.operands[0]]
            perm = _before(perm, value.op.attrs["perms"])
        origins[name] = (made, perm)
    return b.finish(outputs, region.name, origins)


def _alive(b: OpBuilder, outputs: Sequence[Value]) -> set[Value]:
    graph = b.finish(outputs)
    return {*graph.inputs, *(r for op in graph.ops for r in op.results)}


def _moved(b: OpBuilder, value: Value, perm: Perm | None) -> Value:
    return value if perm is None else b.transpose(value, perm)


def _inverse(perm: Perm | None) -> Perm:
    assert perm is not None
    return tuple(sorted(range(len(perm)), key=perm.__getitem__))


def _after(origin: Perm | None, perm: Perm) -> Perm:
    """The permutation against the model's value when what has `origin` is transposed by `perm`."""
    return perm if origin is None else tuple([origin[p] for p in perm])


def _before(origin: Perm | None, perm: Perm) -> Perm:
    """The permutation against the model's value of what a TRANSPOSE by `perm` gives `origin`."""
    return _after(origin, _inverse(perm))
