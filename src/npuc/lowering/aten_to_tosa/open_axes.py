"""Movements along an axis whose size is known only at run time: slices with symbolic places."""

from __future__ import annotations

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.take import cut, join, reverse, tile
from npuc.lowering.tosa_builder import TosaBuilder


def rolled(b: TosaBuilder, x: Value, axis: int, shift: int) -> Value:
    """The axis rotated by `shift` positions, 0 <= shift < size: its end comes first."""
    size = x.type.ints[axis]
    end = cut(b, x, axis, size - shift, shift)
    return join(b, [end, cut(b, x, axis, 0, size - shift)], axis)


def padded(b: TosaBuilder, x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    """The axis continued by its own data: "reflect", "replicate" or "circular"."""
    size = x.type.ints[axis]

    def piece(count: int, start: int) -> list[Value]:
        return [] if count == 0 else [cut(b, x, axis, start, count)]

    if mode == "circular":
        parts = [*piece(before, size - before), x, *piece(after, 0)]
    elif mode == "reflect":
        first = [reverse(b, v, axis) for v in piece(before, 1)]
        parts = [*first, x, *(reverse(b, v, axis) for v in piece(after, size - 1 - after))]
    else:
        ends = [(before, 0), (after, size - 1)]
        repeated = [[tile(b, cut(b, x, axis, i, 1), axis, n)] if n else [] for n, i in ends]
        parts = [*repeated[0], x, *repeated[1]]
    return join(b, parts, axis)


def every_from(b: TosaBuilder, x: Value, axis: int, start: int, step: int, count: int) -> Value:
    """The positions start, start + step, ... of the axis, `count` up to its end.

    The end is padded, so that the axis is whole blocks of `step`.
    """
    shape = x.type.ints
    pads = [0] * (2 * len(shape))
    pads[2 * axis + 1] = start + count * step - shape[axis]
    zero = b.const(np.zeros(1, x.type.dtype.numpy), x.type.dtype, x.type.quant)
    window = cut(b, b.PAD(x, pads, zero, quant=x.type.quant), axis, start, count * step)
    blocks = b.reshape(window, (*shape[:axis], count, step, *shape[axis + 1 :]))
    kept = cut(b, blocks, axis + 1, 0, 1)
    return b.reshape(kept, (*shape[:axis], count, *shape[axis + 1 :]))
