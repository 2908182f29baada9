"""Repetition as late as possible: element-wise operators run before it, or broadcast instead."""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, TensorType, Value, sweep
from npuc.passes.layout.behaviour import BINARY
from npuc.passes.unary import is_unary

BROADCASTING = frozenset({f"tosa.{name}" for name in (*BINARY, "SELECT")})


def sink_tiles(graph: Graph, limits: Limits) -> Graph:
    """TILE behind a unary operator instead of in front of it; none where the reader broadcasts.

    A reader broadcasts its operand only against another one of the result's whole shape: chips
    that have to broadcast both operands do it with a copy that costs more than the TILE.
    """

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if is_unary(op) and _is_tile(operands[0]):
            try:
                return (_behind(b, op, operands),)
            except Unsupported:  # of a TILE of the result's type
                return None
        if op.kind in BROADCASTING:
            bare = _bare(operands, op.results[0].type)
            if bare != operands:
                return b.emit(op.kind, bare, op.attrs, [op.results[0].type], loc=op.loc)
        return None

    return sweep(graph, rewrite, OpBuilder(limits))


def _is_tile(value: Value) -> bool:
    return value.op is not None and value.op.kind == "tosa.TILE"


def _behind(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> Value:
    """The unary operator on what the TILE repeats, then the TILE."""
    tile = operands[0].op
    assert tile is not None
    source, multiples = tile.operands
    old = op.results[0].type
    type = TensorType(old.dtype, source.type.shape, old.quant)
    (value,) = b.emit(op.kind, (source, *operands[1:]), op.attrs, [type], loc=op.loc)
    return b.TILE(value, multiples, quant=old.quant)  # type: ignore[no-any-return]


def _bare(operands: tuple[Value, ...], result: TensorType) -> tuple[Value, ...]:
    """The operands without the TILEs that broadcasting replaces."""
    bare = list(operands)
    for i, value in enumerate(operands):
        others = bare[:i] + bare[i + 1 :]
        if _is_tile(value) and any(v.type.shape == result.shape for v in others):
            source = value.op.operands[0]  # type: ignore[union-attr]
            pairs = zip(source.type.shape, value.type.shape, strict=True)
            if all(before in (1, after) for before, after in pairs):
                bare[i] = source
    return tuple(bare)
