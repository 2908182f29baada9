"""Rules that cut parts out of a tensor, or put parts into one, at places known at compile time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.carry import carry
from npuc.lowering.aten_to_tosa.open_axes import every_from
from npuc.lowering.aten_to_tosa.take import cut, every, join
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.slice", "aten.slice.Tensor")
def slice_(
    b: TosaBuilder, x: Value, dim: int, start: int | None, end: int | None, step: int = 1
) -> Value:
    """slice -> SLICE; a step > 1: MAX_POOL2D over one element or RESHAPE and SLICE."""
    first, last = start or 0, x.type.ints[dim] if end is None else end
    count = -(-(last - first) // step)
    pick = every if isinstance(count, int) or step == 1 else every_from
    return carry(b, lambda v: pick(b, v, dim, first, step, count), x)


@lowers("aten.slice_scatter")
def slice_scatter(
    b: TosaBuilder,
    x: Value,
    src: Value,
    dim: int,
    start: int | None,
    end: int | None,
    step: int = 1,
) -> Value:
    """slice_scatter -> CONCAT of `src` with the parts of `x` around and between it."""
    places = np.arange(x.type.ints[dim])[start:end:step]
    return carry(b, lambda v, w: placed(b, v, dim, places, w), x, src)


def placed(b: TosaBuilder, x: Value, axis: int, places: np.ndarray, src: Value) -> Value:
    """`x` with position `places[i]` of `axis` replaced by position i of `src`; places ascend."""
    count = len(places)
    if count == 0:
        return x
    step = int(places[1] - places[0]) if count > 1 else 1
    start, size = int(places[0]), x.type.ints[axis]
    if count > 1 and step > 1 and np.all(np.diff(places) == step) and start + count * step <= size:
        middle = _interleaved(b, x, axis, start, step, src)
        end = start + count * step
        return join(b, _around(b, x, axis, start, [middle], end), axis)
    parts, at = [], 0
    bounds = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), count]
    for a, z in pairwise(bounds):
        first = int(places[a])
        parts += [cut(b, x, axis, at, first - at)] if first > at else []
        parts.append(cut(b, src, axis, a, z - a))
        at = first + z - a
    parts += [cut(b, x, axis, at, size - at)] if at < size else []
    return join(b, parts, axis)


def _interleaved(b: TosaBuilder, x: Value, axis: int, start: int, step: int, src: Value) -> Value:
    """Of every `step` positions the first from `src`, the others from `x`."""
    shape, count = x.type.ints, src.type.ints[axis]
    head, tail = shape[:axis], shape[axis + 1 :]
    window = cut(b, x, axis, start, count * step)
    rows = b.reshape(window, (*head, count, step, *tail))
    kept = cut(b, rows, axis + 1, 1, step - 1)
    both = join(b, [b.reshape(src, (*head, count, 1, *tail)), kept], axis + 1)
    return b.reshape(both, window.type.ints)


def _around(
    b: TosaBuilder, x: Value, axis: int, start: int, middle: list[Value], end: int
) -> list[Value]:
    """`middle` between what `x` has before `start` and from `end` on."""
    size = x.type.ints[axis]
    before = [cut(b, x, axis, 0, start)] if start > 0 else []
    after = [cut(b, x, axis, end, size - end)] if end < size else []
    return before + middle + after
