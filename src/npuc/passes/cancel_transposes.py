"""Removes TRANSPOSEs: pairs become one or none, those that move axes of size 1 only a RESHAPE."""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.layout.behaviour import TRANSPOSES
from npuc.passes.unary import replay, unary_chain
from npuc.passes.uses import count_uses


def cancel_transposes(graph: Graph, limits: Limits) -> Graph:
    """TRANSPOSE(TRANSPOSE(x)) -> one or none, also with unary ops between the two."""
    uses = count_uses(graph)
    readers: dict[Value, int] = {}

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        for old, new in zip(op.operands, operands, strict=True):
            readers[new] = uses[old]
        if op.kind not in TRANSPOSES:
            return None
        (x,), perms = operands, op.attrs["perms"]
        chain, source = unary_chain(x, lambda v: readers.get(v, 1))
        if is_transpose(source):
            assert source.op is not None
            first = source.op.attrs["perms"]
            joined = compose(first, perms)
            back = tuple([first.index(i) for i in range(len(first))])
            moved = replay(b, chain, source.op.operands[0], back)
            return (move_axes(b, moved, joined),)
        return (move_axes(b, x, perms),)

    return sweep(graph, rewrite, limits.op_builder())


def is_transpose(value: Value) -> bool:
    return value.op is not None and value.op.kind in TRANSPOSES


def compose(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation of TRANSPOSE by `first` and then by `second`."""
    return tuple([first[p] for p in second])


def moves_nothing(x: Value, perms: tuple[int, ...]) -> bool:
    """Whether TRANSPOSE of `x` by `perms` leaves all elements where they are in memory."""
    hard = [p for p in perms if x.type.shape[p] != 1]
    return hard == sorted(hard)


def move_axes(b: OpBuilder, x: Value, perms: tuple[int, ...]) -> Value:
    """TRANSPOSE, as a RESHAPE where that is the same."""
    if moves_nothing(x, perms):
        return b.reshape(x, [x.type.ints[p] for p in perms])
    return b.transpose(x, perms)
