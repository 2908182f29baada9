"""Gives every reader of a widening RESCALE its own: Vela fuses one into an operator only then."""

from __future__ import annotations

from npuc.dialects.tosa import Limits
from npuc.ir import DType, Graph, Op, Value


def separate_rescales(graph: Graph, limits: Limits) -> Graph:
    """One RESCALE (8 or 16 bits to INT32) with n readers -> n equal ones with one reader each.

    Has to be the last pass: a builder would merge them again. Regions stay as they are.
    """
    shared = {v.op for v, readers in graph.readers().items() if len(readers) > 1 and _widens(v)}
    new: dict[Value, Value] = {}
    taken: set[Op | None] = set()
    ops: list[Op] = []
    for op in graph.ops:
        operands = []
        for v in op.operands:
            if v.op in taken and v.op is not None:
                copy = _rebuilt(v.op, tuple(new.get(o, o) for o in v.op.operands))
                ops.append(copy)
                v = copy.result
            elif v.op in shared:
                taken.add(v.op)
            operands.append(new.get(v, v))
        changed = any(a is not b for a, b in zip(operands, op.operands, strict=True))
        ops.append(_rebuilt(op, tuple(operands)) if changed else op)
        new.update(zip(op.results, ops[-1].results, strict=True))
    origins = {name: (new.get(v, v), moves) for name, (v, moves) in graph.origins.items()}
    outputs = tuple(new.get(v, v) for v in graph.outputs)
    return Graph(graph.name, graph.inputs, tuple(ops), outputs, origins)


def _widens(value: Value) -> bool:
    op = value.op
    if op is None or op.kind != "tosa.RESCALE" or value.type.dtype is not DType.INT32:
        return False
    return op.operands[0].type.dtype in (DType.INT8, DType.INT16)


def _rebuilt(op: Op, operands: tuple[Value, ...]) -> Op:
    copy = Op(op.kind, operands, op.attrs, tuple(r.type for r in op.results), op.regions, op.loc)
    for old, value in zip(op.results, copy.results, strict=True):
        value.name = old.name
    return copy
