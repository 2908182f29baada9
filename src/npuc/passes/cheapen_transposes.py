"""TRANSPOSEs in the form that Ethos-U runs with the fewest passes (see `transposition`)."""

from __future__ import annotations

from collections.abc import Mapping

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.transposition import emit_steps
from npuc.passes.unary import is_rename
from npuc.passes.uses import count_uses

#: what Ethos-U85 fuses any TRANSPOSE of [1, H, W, C] behind, with the RESCALE of its accumulator
MAKERS = ("CONV2D", "DEPTHWISE_CONV2D", "AVG_POOL2D", "MAX_POOL2D")
#: with fewer channels a TABLE is not fused, and a convolution writes whole groups of this many
#: unless a TRANSPOSE follows
CHANNELS = 8


def cheapen_transposes(graph: Graph, limits: Limits) -> Graph:
    """Axes of size 1 squeezed, neighbours merged, more than three blocks moved in steps.

    On Ethos-U85 a TRANSPOSE stays as it is behind an operator that does it as it writes.
    """
    uses = count_uses(graph)
    fuses = limits.name.startswith("ethos-u85")

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind != "tosa.TRANSPOSE" or not operands[0].type.is_static:
            return None
        try:
            if fuses and is_fused(op, uses):
                return _before_table(b, op, operands[0])
            return (emit_steps(b, operands[0], op.attrs["perms"]),)
        except Unsupported:  # a merged axis can be too long for the chip
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def is_fused(transpose: Op, uses: Mapping[Value, int]) -> bool:
    """Whether Ethos-U85 transposes as it writes the result of a convolution or pool."""
    x = transpose.operands[0]
    while x.op is not None and uses[x] == 1:
        op = x.op
        if not op.kind.startswith("tosa."):
            return False
        if op.name in MAKERS:
            return op.results[0].type.ints[0] == 1
        is_step = op.name in ("CLAMP", "TABLE", "RESCALE") or is_rename(op)
        if not is_step or not op.operands[0].type.is_static:
            return False
        x = op.operands[0]
    return False


def _before_table(b: OpBuilder, op: Op, x: Value) -> tuple[Value, ...] | None:
    """TABLE and TRANSPOSE of few channels in the other order; None: as they are."""
    table = x.op
    if table is None or table.kind != "tosa.TABLE" or x.type.ints[-1] >= CHANNELS:
        return None
    y = b.transpose(table.operands[0], op.attrs["perms"])
    return (b.TABLE(y, table.operands[1], quant=op.results[0].type.quant),)
