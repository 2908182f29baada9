"""CONCAT of CONCATs along one axis -> one CONCAT: an NPU copies the inner one's result again."""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.uses import count_uses


def flatten_concats(graph: Graph, limits: Limits) -> Graph:
    """Inline each CONCAT whose only reader is a CONCAT along the same axis.

    One with more readers stays: its operands would have more readers then, and be copied each.
    """
    uses = count_uses(graph)

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind != "tosa.CONCAT":
            return None
        axis: int = op.attrs["axis"]
        flat: list[Value] = []
        for old, new in zip(op.operands, operands, strict=True):
            inner = new.op
            is_inner = inner is not None and inner.kind == "tosa.CONCAT" and uses[old] == 1
            flat += inner.operands if inner and is_inner and inner.attrs["axis"] == axis else [new]
        if len(flat) == len(operands):
            return None
        try:
            return (b.CONCAT(*flat, axis=axis, quant=op.results[0].type.quant),)
        except Unsupported:  # more operands than the level allows
            return None

    return sweep(graph, rewrite, OpBuilder(limits))
