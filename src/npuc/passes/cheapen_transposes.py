"""TRANSPOSEs in the form that Ethos-U runs with the fewest passes (see `transposition`)."""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.transposition import emit_steps


def cheapen_transposes(graph: Graph, limits: Limits) -> Graph:
    """Axes of size 1 squeezed, neighbours merged, more than three blocks moved in steps."""

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind != "tosa.TRANSPOSE" or not operands[0].type.is_static:
            return None
        try:
            return (emit_steps(b, operands[0], op.attrs["perms"]),)
        except Unsupported:  # a merged axis can be too long for the chip
            return None

    return sweep(graph, rewrite, OpBuilder(limits))
