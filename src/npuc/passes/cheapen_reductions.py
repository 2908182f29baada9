"""Reductions in the form that Ethos-U runs best."""

from __future__ import annotations

import math

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.uses import count_uses

MERGED = ("REDUCE_SUM", "REDUCE_MAX", "REDUCE_MIN")
#: searched for the largest element of each row: slow along the last axis
SEARCHED = ("REDUCE_MAX", "REDUCE_MIN")


def cheapen_reductions(graph: Graph, limits: Limits) -> Graph:
    """Two reductions over neighbouring axes -> one; the largest of each row -> of each column.

    REDUCE_MAX over the last axis of [64, 256] costs four times as much as a TRANSPOSE and a
    REDUCE_MAX over the axis before (Vela 5.2). Integers only: sums of floats would change.
    """
    uses = count_uses(graph)

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if not op.kind.startswith("tosa.") or op.name not in MERGED:
            return None
        x, axis = operands[0], op.attrs["axis"]
        if not x.type.is_static or not x.type.dtype.is_integer:
            return None
        inner, start = x.op, axis
        if inner is not None and inner.kind == op.kind and uses[op.operands[0]] == 1:
            other = inner.attrs["axis"]
            if abs(other - axis) == 1:
                x, start = inner.operands[0], min(axis, other)
        end = axis + 1 if x is operands[0] else start + 2
        try:
            return _reduce(b, op, x, start, end, merged=x is not operands[0])
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def _reduce(
    b: OpBuilder, op: Op, x: Value, start: int, end: int, merged: bool
) -> tuple[Value, ...] | None:
    """Reduce the axes start..end of `x`; None where the op is best as it is."""
    shape, result = x.type.ints, op.results[0].type
    outer, size, inner = (math.prod(s) for s in (shape[:start], shape[start:end], shape[end:]))
    attrs = {k: v for k, v in op.attrs.items() if k != "axis"}
    if op.name in SEARCHED and inner == 1 and outer > 1 and size > 1:
        y = b.transpose(b.reshape(x, (1, outer, size)), (0, 2, 1))
        return (b.reshape(b.tosa(op.name, y, axis=1, quant=result.quant, **attrs), result.ints),)
    if not merged:
        return None
    y = b.reshape(x, (*shape[:start], size, *shape[end:]))
    y = b.tosa(op.name, y, axis=start, quant=result.quant, **attrs)
    return (b.reshape(y, result.ints),)
