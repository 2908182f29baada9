"""MUL takes 8 and 16 bits itself and gives 32: no RESCALE in front of it only to widen."""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.cast_widenings import widens


def narrow_products(graph: Graph, limits: Limits) -> Graph:
    """MUL(RESCALE(x), RESCALE(y)) -> MUL(x, y), where both only widen one type to INT32. Exact.

    On Ethos-U it is the same operator, and the faster one where several read what was widened.
    """

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind != "tosa.MUL" or op.operands[0].type.dtype is not DType.INT32:
            return None
        x, y, shift = operands
        left, right = _before_widening(x), _before_widening(y)
        if left is None or right is None or left.type.dtype is not right.type.dtype:
            return None
        if not shift.is_const or shift.array.any():
            return None
        try:
            return (b.MUL(left, right, shift, quant=op.results[0].type.quant),)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def _before_widening(x: Value) -> Value | None:
    """The operand of a RESCALE by one without zero points, to INT32."""
    op = x.op
    return op.operands[0] if op is not None and op.kind == "tosa.RESCALE" and widens(op) else None
