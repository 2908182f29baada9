"""A value wanted in 16 and in 8 bits is rescaled to both from the accumulator, not to one and on.

For TOSA alone: on Ethos-U the second RESCALE of an accumulator would be a second accumulation.
"""

from __future__ import annotations

from npuc.dialects.tosa import InvalidOp, Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.count_waste import is_lone
from npuc.passes.merge_rescales import is_plain, is_rescale, merge_closely, merge_exactly


def unchain_rescales(graph: Graph, limits: Limits) -> Graph:
    """RESCALE(RESCALE(x)) to a narrow type, whose inner one others read too -> RESCALE(x).

    As exact as `merge_rescales`, which leaves no others.
    """

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        inner = operands[0].op if operands else None
        if op.kind != "tosa.RESCALE" or not is_plain(op) or not is_lone(op):
            return None
        if inner is None or not is_rescale(inner):
            return None
        try:
            merged = merge_exactly(b, inner, op) or merge_closely(b, inner, op)
        except (Unsupported, InvalidOp):
            return None
        return None if merged is None else (merged,)

    return sweep(graph, rewrite, OpBuilder(limits))
