"""Shape rules: view, permute, expand, repeat, as_strided."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from npuc.errors import Unsupported
from npuc.ir import Value
from npuc.lowering.aten_to_tosa.carry import carry
from npuc.lowering.aten_to_tosa.take import cut, take, tiled
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.view")
def view(b: TosaBuilder, x: Value, shape: Sequence[int]) -> Value:
    """view, flatten, squeeze, ... -> RESHAPE."""
    return carry(b, lambda v: b.reshape(v, b.out[0].ints), x)


@lowers("aten.permute")
def permute(b: TosaBuilder, x: Value, dims: Sequence[int]) -> Value:
    """permute, transpose, t, ... -> TRANSPOSE."""
    return carry(b, lambda v: transposed(b, v, tuple(dims)), x)


def transposed(b: TosaBuilder, x: Value, dims: Sequence[int]) -> Value:
    """TRANSPOSE; where a chip does not take it, between RESHAPEs that merge what stays together."""
    try:
        return b.transpose(x, dims)
    except Unsupported:
        shape, groups = x.type.ints, _groups(x.type.ints, dims)
        if len(groups) == len(dims):
            raise
        merged = b.reshape(x, [math.prod(shape[i] for i in g) for g in sorted(groups)])
        order = [sorted(groups).index(g) for g in groups]
        return b.reshape(b.transpose(merged, order), [shape[d] for d in dims])


def _groups(shape: Sequence[int], dims: Sequence[int]) -> list[list[int]]:
    """The moved axes in their new order, those that stay neighbours together; without size 1."""
    wide = [d for d in dims if shape[d] > 1]
    rank = {d: i for i, d in enumerate(sorted(wide))}
    groups: list[list[int]] = []
    for d in wide:
        if groups and rank[d] == rank[groups[-1][-1]] + 1:
            groups[-1].append(d)
        else:
            groups.append([d])
    return groups


@lowers("aten.expand")
def expand(b: TosaBuilder, x: Value, shape: Sequence[int], *_: object) -> Value:
    """expand -> TILE of the dimensions that grow; added dimensions are a RESHAPE."""
    sizes = b.out[0].ints

    def move(v: Value) -> Value:
        v = b.match_rank(v, len(sizes))
        return tiled(b, v, [n if d == 1 else 1 for d, n in zip(v.type.ints, sizes, strict=True)])

    return carry(b, move, x)


@lowers("aten.repeat")
def repeat(b: TosaBuilder, x: Value, repeats: Sequence[int]) -> Value:
    """repeat, tile -> TILE."""
    return carry(b, lambda v: tiled(b, b.match_rank(v, len(repeats)), repeats), x)


@lowers("aten.as_strided")
def as_strided(
    b: TosaBuilder, x: Value, size: Sequence[int], stride: Sequence[int],
    storage_offset: int | None = None,
) -> Value:  # fmt: skip
    """as_strided of a contiguous tensor -> SLICE, RESHAPE, TRANSPOSE and TILE where the strides
    divide each other, else a pick of every element."""
    start = storage_offset or 0

    def move(v: Value) -> Value:
        flat = b.reshape(v, (v.type.size,))
        found = _nested(b, flat, size, stride, start)
        if found is not None:
            return found
        index = np.full(tuple(size), start, np.int64)
        for axis, (n, s) in enumerate(zip(size, stride, strict=True)):
            index += (np.arange(n) * s).reshape((-1,) + (1,) * (len(size) - 1 - axis))
        return b.reshape(take(b, flat, 0, index.reshape(-1)), size)

    return carry(b, move, x)


def _nested(
    b: TosaBuilder, flat: Value, size: Sequence[int], stride: Sequence[int], start: int
) -> Value | None:
    """The elements as a box of a nested view of `flat`, where the strides divide each other."""
    wide = [i for i, (n, s) in enumerate(zip(size, stride, strict=True)) if n > 1 and s > 0]
    order = sorted(wide, key=lambda i: -stride[i])
    steps = [stride[i] for i in order] + [1]
    if any(outer % inner for outer, inner in pairwise(steps)):
        return None
    inner = [outer // step for outer, step in pairwise(steps)]
    rows = [flat.type.size // steps[0], *inner]
    offsets, rest = [], start
    for step in steps:
        offsets.append(rest // step)
        rest %= step
    sizes = [size[i] for i in order] + [1]
    if any(o + n > most for o, n, most in zip(offsets, sizes, rows, strict=True)):
        return None
    y = b.slice(b.reshape(cut(b, flat, 0, 0, rows[0] * steps[0]), rows), offsets, sizes)
    y = b.transpose(b.reshape(y, sizes[:-1]), np.argsort(order).tolist())
    y = b.reshape(y, [n if i in wide else 1 for i, n in enumerate(size)])
    return tiled(b, y, [1 if i in wide else n for i, n in enumerate(size)])
