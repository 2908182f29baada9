"""A choice or another order of the channels of an image is a 1x1 convolution by ones, for Ethos-U85.

A TRANSPOSE inside of the channels moves single bytes: a channel shuffle of 32 channels costs 4.1
cycles per element (U85-256, Vela 5.2), the convolution 0.2, and a CONCAT takes its result without a
copy. On U55 it would cost 0.5, the TRANSPOSE 0.4. Exact.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.cheapen_rescales import unit_rescale
from npuc.passes.split_heads import MOVES, moved
from npuc.passes.uses import count_uses

#: channels up to which the products cost less than the moves
CHANNELS = 64

Index = npt.NDArray[np.int64]


def cheapen_shuffles(graph: Graph, limits: Limits) -> Graph:
    """TRANSPOSE of parts of the channels, between RESHAPEs and SLICEs -> CONV2D by ones."""
    found = _find_all(graph)
    new: dict[Value, Value] = {}

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        new.update(zip(op.operands, operands, strict=True))
        if op not in found:
            return None
        source, channels = found[op]
        try:
            y = _chosen(b, new[source], channels)
            return (b.RESHAPE(y, op.result.type.ints, quant=op.result.type.quant),)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def _find_all(graph: Graph) -> dict[Op, tuple[Value, Index]]:
    """The last moves of what chooses channels of an image, with the image and the channels."""
    uses, readers = count_uses(graph), graph.readers()
    found = {}
    for op in graph.ops:
        source = op.operands[0] if op.kind in MOVES else None
        if source is None or (source.op is not None and source.op.kind in MOVES):
            continue
        type = source.type
        if type.dtype is not DType.INT8 or type.rank != 4 or not type.is_static:
            continue
        if type.ints[0] == 1 and type.ints[3] <= CHANNELS:
            found.update(_chosen_from(source, op, uses, readers))
    return found


def _chosen_from(
    source: Value, first: Op, uses: Mapping[Value, int], readers: Mapping[Value, list[Op]]
) -> dict[Op, tuple[Value, Index]]:
    """What is chosen of the channels of `source` behind its reader `first`, not in one piece."""
    places = np.arange(source.type.size, dtype=np.int64).reshape(source.type.ints)
    found, todo = {}, [(first, moved(places, first))]
    while todo:
        op, index = todo.pop()
        further = [r for r in readers.get(op.result, []) if r.kind in MOVES]
        if further and len(further) == uses[op.result]:
            todo += [(move, moved(index, move)) for move in further]
            continue
        channels = _channels(index, source.type.ints[3])
        if channels is not None and np.any(np.diff(channels) != 1):
            found[op] = source, channels
    return found


def _channels(index: Index, count: int) -> Index | None:
    """k, where `index` is that of channels k of every position of an image of `count` channels."""
    positions = index.max(initial=0) // count + 1
    if not index.size or index.size % positions or index.size > positions * count:
        return None
    rows = index.reshape(positions, -1)
    expected = rows[0] + np.arange(positions)[:, None] * count
    return rows[0] if rows[0].max() < count and np.array_equal(rows, expected) else None


def _chosen(b: OpBuilder, x: Value, channels: Index) -> Value:
    """Channels of an int8 image [1, H, W, C], by a convolution that copies them."""
    weights = np.zeros((channels.size, 1, 1, x.type.ints[3]), np.int8)
    weights[np.arange(channels.size), 0, 0, channels] = 1
    bias, zero = b.const(np.zeros(channels.size, np.int32)), b.scalar(0, DType.INT8, 1)
    wide = b.CONV2D(x, b.const(weights), bias, zero, zero, acc_type=DType.INT32)
    return unit_rescale(b, wide, dtype=DType.INT8, quant=x.type.quant)
