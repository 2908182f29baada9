"""SLICE of five and more axes -> of four, for Ethos-U55 and U65.

Vela 5.2 overflows its stack where such a slice loses a leading axis of size 1 behind it.
"""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.dialects.tosa.infer import contents
from npuc.ir import Graph, Op, Value, sweep

RANK = 4


def lower_slice_ranks(graph: Graph, limits: Limits) -> Graph:
    """Take leading axes of size 1 away in front of a SLICE instead of behind it."""

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind == "tosa.RESHAPE" and _is_reshape(operands[0]):
            source = operands[0].op.operands[0]  # type: ignore[union-attr]
            return (b.reshape(source, op.results[0].type.shape),)
        if op.kind != "tosa.SLICE":
            return None
        x, shape = operands[0], operands[0].type.shape
        dropped = next((i for i, d in enumerate(shape) if d != 1), len(shape))
        dropped = min(dropped, len(shape) - RANK)
        if dropped <= 0:
            return None
        start, size = (contents(v)[dropped:] for v in operands[1:])
        part = b.slice(b.reshape(x, shape[dropped:]), start, size)
        return (b.reshape(part, op.results[0].type.shape),)

    return sweep(graph, rewrite, limits.op_builder())


def _is_reshape(x: Value) -> bool:
    return x.op is not None and x.op.kind == "tosa.RESHAPE"
