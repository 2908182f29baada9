"""Removes RESHAPEs: chains become one, one that undoes another vanishes, across unary ops too."""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.layout.behaviour import RESHAPES
from npuc.passes.unary import replay, unary_chain
from npuc.passes.uses import count_uses


def cancel_reshapes(graph: Graph, limits: Limits) -> Graph:
    """RESHAPE(RESHAPE(x)) -> RESHAPE(x); RESHAPE(unary(RESHAPE(x))) -> RESHAPE(unary(x))."""
    uses = count_uses(graph)
    readers: dict[Value, int] = {}

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        for old, new in zip(op.operands, operands, strict=True):
            readers[new] = uses[old]
        if op.kind not in RESHAPES:
            return None
        x, shape = operands[0], op.results[0].type.ints
        chain, source = unary_chain(x, lambda v: readers.get(v, 1))
        if not is_reshape(source):
            return (b.reshape(x, shape),)
        assert source.op is not None
        inner = source.op.operands[0]
        if inner.type.rank == 0 and chain:
            return None
        return (b.reshape(replay(b, chain, inner), shape),)

    return sweep(graph, rewrite, limits.op_builder())


def is_reshape(value: Value) -> bool:
    return value.op is not None and value.op.kind in RESHAPES
