"""BATCH_MATMUL reads an operand transposed by itself: its adj attributes instead of a TRANSPOSE."""

from __future__ import annotations

from npuc.dialects.tflite import TfliteLimits, TfliteOpBuilder
from npuc.ir import Graph, Op, Value, sweep


def fold_transposes_into_matmul(graph: Graph, limits: TfliteLimits) -> Graph:
    """BATCH_MATMUL(x, TRANSPOSE(y)) -> BATCH_MATMUL(x, y, adj_y=True), of the last two axes."""

    def rewrite(
        b: TfliteOpBuilder, op: Op, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        if op.kind != "tflite.BATCH_MATMUL":
            return None
        attrs, found = dict(op.attrs), list(operands)
        for k, name in enumerate(("adj_x", "adj_y")):
            maker = found[k].op
            if (
                maker is not None
                and maker.kind == "tflite.TRANSPOSE"
                and _swaps(maker.attrs["perms"])
            ):
                found[k], attrs[name] = maker.operands[0], not attrs[name]
        types = [r.type for r in op.results]
        if limits.reason(op.name, found, attrs, types) is not None:
            return None
        return b.emit(op.kind, found, attrs, types, loc=op.loc)

    return sweep(graph, rewrite, limits.op_builder())


def _swaps(perms: tuple[int, ...]) -> bool:
    """Whether only the last two axes change places."""
    rank = len(perms)
    return perms == (*range(rank - 2), rank - 1, rank - 2)
