"""A copy where Vela would lose an output: it lets the writer of y write TRANSPOSE(RESHAPE(y)) at once and
forgets that y is wanted too (5.2)."""

from __future__ import annotations

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.ir import DType, Graph, Op, Value, sweep

COPIED = (DType.INT8, DType.INT16, DType.INT32)


def copy_outputs(graph: Graph, limits: Limits) -> Graph:
    """RESHAPE(y) -> RESHAPE(RESCALE(y) by one), for y an output and RESHAPE(y) transposed."""
    affected: set[Op] = set()
    for g in (graph, *(region for op in graph.walk() for region in op.regions)):
        affected |= _affected(g)

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op not in affected:
            return None
        return (b.reshape(_copied(b, operands[0]), op.result.type.ints),)

    return sweep(graph, rewrite, limits.op_builder()) if affected else graph


def _affected(graph: Graph) -> set[Op]:
    """The RESHAPEs of outputs that are transposed, maybe behind further RESHAPEs."""
    readers, outputs = graph.readers(), set(graph.outputs)
    moved: set[Op] = set()
    for op in reversed(graph.ops):
        behind = readers.get(op.result, ()) if op.kind == "tosa.RESHAPE" else ()
        if any(r.kind == "tosa.TRANSPOSE" or r in moved for r in behind):
            moved.add(op)
    sources = {op: op.operands[0] for op in moved}
    return {op for op, y in sources.items() if y in outputs and y.type.dtype in COPIED}


def _copied(b: OpBuilder, x: Value) -> Value:
    """RESCALE by one: an IDENTITY would be taken out."""
    one, shift = b.const(np.array([2**30], np.int32)), b.const(np.array([30], np.int8))
    zero = b.scalar(0, x.type.dtype, 1)
    return b.RESCALE(  # type: ignore[no-any-return]
        x, one, shift, zero, zero, scale32=True, dtype=x.type.dtype, quant=x.type.quant
    )
