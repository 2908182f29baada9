"""3-D convolutions on Ethos-U55: one 2-D convolution per output depth, the depth in channels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.emit_convolution import (
    Convolution,
    emit_convolution,
    join_channels,
    merge_groups,
    split_groups,
)
from npuc.lowering.aten_to_tosa.take import join
from npuc.lowering.tosa_builder import TosaBuilder

Emit = Callable[[TosaBuilder, Convolution], Value]


def emit_by_depth(b: TosaBuilder, conv: Convolution, emit: Emit) -> Value:
    """A 3-D convolution; `emit` emits the 2-D ones. Depths in the padding are left out."""
    if conv.groups > 1:
        parts = split_groups(b, merge_groups(b, conv))
        return join_channels(b, [emit_by_depth(b, part, emit) for part in parts])
    if not conv.weights.kernel.is_const:
        return emit_convolution(b, conv)
    n, depth = conv.out.ints[:2]
    images = [_at_depth(b, conv, i, d, emit) for i in range(n) for d in range(depth)]
    return b.reshape(join(b, images, 0), conv.out.ints)


def _at_depth(b: TosaBuilder, conv: Convolution, image: int, depth: int, emit: Emit) -> Value:
    """Output `depth` of one image: the input depths that its window covers, as channels."""
    _, size, h, w, c = conv.x.type.ints
    o, depths, kh, kw, _ = conv.weights.kernel.type.ints
    start = depth * conv.stride[0] - conv.pad[0]
    covered = [
        (tap, start + tap * conv.dilation[0])
        for tap in range(depths)
        if 0 <= start + tap * conv.dilation[0] < size
    ]
    taps = conv.weights.kernel.array[:, [tap for tap, _ in covered]]
    if not covered:  # all in the padding: the bias is left
        covered = [(0, 0)]
        taps = np.full((o, 1, kh, kw, c), conv.weights.zero_point, taps.dtype)
    slices = [
        b.reshape(b.slice(conv.x, (image, d, 0, 0, 0), (1, 1, h, w, c)), (1, h, w, c))
        for _, d in covered
    ]
    kernel = taps.transpose(0, 2, 3, 1, 4).reshape(o, kh, kw, len(covered) * c)
    weights = replace(conv.weights, kernel=b.const(kernel, conv.weights.kernel.type.dtype))
    plane = replace(
        conv, x=join_channels(b, slices), weights=weights, stride=conv.stride[1:],
        pad=conv.pad[2:], dilation=conv.dilation[1:],
        out=conv.out.with_(shape=(1, *conv.out.ints[2:])),
    )  # fmt: skip
    return emit(b, plane)
