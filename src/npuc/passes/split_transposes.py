"""Long axes of TRANSPOSEs in two, for Ethos-U85: it moves a matrix of long rows very slowly.

[3, 50176] -> [50176, 3] takes 92 M cycles, as [3, 784, 64] -> [784, 64, 3] 0.4 M (Vela 5.2).
Ethos-U55 is the other way round: two axes take half the time of three.
"""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.cheapen_transposes import is_fused
from npuc.passes.uses import count_uses

#: a row is short enough where it is at most this long, or at most SQUARE times the number of rows
SHORT, SQUARE = 128, 10
#: rows of fewer elements than this: the long axis in front of them is split
NARROW = 8
#: lengths of the inner part that run at full speed, the best first; then any between the last two
LENGTHS = (64, 128, 112, 96, 80, 48, 32, 16)
BETWEEN = range(128, 27, -1)


def split_transposes(graph: Graph, limits: Limits) -> Graph:
    """[A, B] -> [B, A] with a long B, or a long A before a narrow B, as a move of three axes."""
    uses = count_uses(graph)

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind != "tosa.TRANSPOSE" or not operands[0].type.is_static:
            return None
        x = operands[0]
        if x.type.rank != 3 or tuple(op.attrs["perms"]) != (0, 2, 1) or x.type.shape[0] != 1:
            return None
        if is_fused(op, uses):
            return None
        _, rows, columns = x.type.ints
        if columns > max(SHORT, SQUARE * rows):
            inner = _inner_length(columns)
            shape, perms = (rows, columns // max(inner, 1), inner), (1, 2, 0)
        elif columns <= NARROW and rows > SHORT:
            inner = _inner_length(rows)
            shape, perms = (rows // max(inner, 1), inner, columns), (2, 0, 1)
        else:
            return None
        if not inner:
            return None
        return (b.reshape(b.transpose(b.reshape(x, shape), perms), (1, columns, rows)),)

    return sweep(graph, rewrite, OpBuilder(limits))


def _inner_length(size: int) -> int:
    """How long the inner of the two parts is; 0 where `size` has no good divisor."""
    return next((n for n in (*LENGTHS, *BETWEEN) if size % n == 0), 0)
