"""SLICE of SLICE, of a whole tensor, or of one part of a CONCAT; CONCAT of neighbouring SLICEs."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.ir import Graph, Op, Value, sweep

#: start and size of a SLICE
Window = tuple[tuple[int, ...], tuple[int, ...]]


def merge_slices(graph: Graph, limits: Limits) -> Graph:
    """Read each element straight from the tensor that has it."""
    offsets: dict[Op, list[int]] = {}

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind == "tosa.CONCAT":
            joined = _join(b, op, operands)
            return None if len(joined) == len(operands) else (_concat(b, op, joined),)
        if op.kind != "tosa.SLICE" or not (operands[1].is_const and operands[2].is_const):
            return None
        x, window = _find_source(offsets, operands[0], *_window(operands))
        if x is operands[0]:
            return (b.slice(x, *window),) if window[1] == x.type.shape else None
        return (b.slice(x, *window),)

    return sweep(graph, rewrite, OpBuilder(limits))


def _window(operands: tuple[Value, ...]) -> Window:
    start, size = (tuple(map(int, v.array)) for v in operands[1:3])
    return start, size


def _find_source(
    offsets: dict[Op, list[int]], x: Value, start: tuple[int, ...], size: tuple[int, ...]
) -> tuple[Value, Window]:
    """The tensor furthest up that has the window, and the window in it."""
    while x.op is not None and x.type.is_static:
        inner = x.op
        if inner.kind == "tosa.SLICE" and inner.operands[1].is_const:
            first = inner.operands[1].array
            start = tuple([s + int(f) for s, f in zip(start, first, strict=True)])
            x = inner.operands[0]
        elif inner.kind == "tosa.CONCAT":
            axis = inner.attrs["axis"]
            if inner not in offsets:
                sizes = [v.type.ints[axis] for v in inner.operands]
                offsets[inner] = list(accumulate(sizes, initial=0))
            ends = offsets[inner]
            part = bisect_right(ends, start[axis]) - 1
            if start[axis] + size[axis] > ends[part + 1]:
                break
            start = (*start[:axis], start[axis] - ends[part], *start[axis + 1 :])
            x = inner.operands[part]
        else:
            break
    return x, (start, size)


def _join(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> list[Value]:
    """The operands with neighbouring windows of one tensor as one window."""
    axis, joined = op.attrs["axis"], [operands[0]]
    for value in operands[1:]:
        both = _neighbours(joined[-1], value, axis)
        if both is None:
            joined.append(value)
        else:
            source, (start, size) = both
            joined[-1] = b.slice(source, start, size)
    return joined


def _neighbours(a: Value, c: Value, axis: int) -> tuple[Value, Window] | None:
    """The window of one tensor that is `a` followed by `c` along `axis`."""
    if a.op is None or c.op is None or not a.op.kind == c.op.kind == "tosa.SLICE":
        return None
    if a.op.operands[0] is not c.op.operands[0]:
        return None
    if not all(v.is_const for v in (*a.op.operands[1:], *c.op.operands[1:])):
        return None
    start, size = _window(a.op.operands)
    next_start, next_size = _window(c.op.operands)
    follows = (*start[:axis], start[axis] + size[axis], *start[axis + 1 :])
    if next_start != follows:
        return None
    joined = (*size[:axis], size[axis] + next_size[axis], *size[axis + 1 :])
    return a.op.operands[0], (start, joined)


def _concat(b: OpBuilder, op: Op, joined: list[Value]) -> Value:
    if len(joined) == 1:
        return joined[0]
    return b.CONCAT(*joined, axis=op.attrs["axis"], quant=op.results[0].type.quant)  # type: ignore[no-any-return]
