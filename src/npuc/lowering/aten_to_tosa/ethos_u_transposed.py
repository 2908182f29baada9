"""Transposed convolutions on Ethos-U: ordinary convolutions whose results interleave.

Vela fuses no RESCALE into TRANSPOSE_CONV2D. Output row s * m + r takes every s-th row of the
kernel: one convolution for each r gives those rows, with the s columns in its channels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.emit_convolution import (
    Convolution,
    join_channels,
    merge_groups,
    split_groups,
)
from npuc.lowering.aten_to_tosa.ethos_u_fold import repeat_channels
from npuc.lowering.aten_to_tosa.take import join
from npuc.lowering.aten_to_tosa.transposed_convolution import as_ordinary, spread_kernel
from npuc.lowering.tosa_builder import TosaBuilder

Emit = Callable[[TosaBuilder, Convolution], Value]


@dataclass(frozen=True)
class Phase:
    """Result positions s * m + r of one axis.

    taps: (index into the kernel, offset): they are sums of kernel[index] * x[m + offset].
    """

    taps: tuple[tuple[int, int], ...]

    @staticmethod
    def of(r: int, kernel: int, stride: int, before: int) -> Phase:
        """The phase `r` of a transposed convolution whose result loses `before` positions."""
        first = (r + before) % stride
        taps = ((k, (r + before - k) // stride) for k in range(first, kernel, stride))
        return Phase(tuple(taps))


def emit_sub_pixel(b: TosaBuilder, conv: Convolution, emit: Emit) -> Value:
    """A transposed convolution; `emit` emits ordinary ones. `conv.pad` is cut off the result."""
    if len(conv.stride) == 3 or set(conv.stride) == {1} or not conv.weights.kernel.is_const:
        return emit(b, as_ordinary(b, conv))
    if conv.groups > 1 and not conv.is_depthwise:
        parts = split_groups(b, merge_groups(b, conv))
        return join_channels(b, [emit_sub_pixel(b, part, emit) for part in parts])
    kernel = spread_kernel(b, conv).array
    (sy, sx), (top, _, left, _) = conv.stride, conv.pad
    n, out_h, out_w, o = conv.out.ints
    high, wide = -(-out_h // sy), -(-out_w // sx)
    columns = [Phase.of(r, kernel.shape[2], sx, left) for r in range(sx)]
    rows = [Phase.of(r, kernel.shape[1], sy, top) for r in range(sy)]
    if conv.is_depthwise:
        channels = conv.x.type.ints[3]
        x = repeat_channels(b, conv.x, np.tile(np.arange(channels), sx).tolist())
        conv = replace(conv, x=x, groups=sx * channels)
    groups = [columns] if conv.is_depthwise or _alike(columns) else [[c] for c in columns]
    bands = []
    for row in rows:
        phases = []
        for group in groups:
            phase = _phase_convolution(b, conv, kernel, row, group)
            out = conv.out.with_(shape=(n, high, wide, len(group) * o))
            phases.append(emit(b, replace(phase, out=out)))
        bands.append(join_channels(b, phases))
    # along the width: in memory the rows of all bands alternate. Vela writes it in place;
    # one along the channels, behind RESHAPEs, is a copy
    whole = b.reshape(join(b, bands, 2), (n, high * sy, wide * sx, o))
    return b.slice(whole, (0, 0, 0, 0), conv.out.ints)


def _alike(phases: list[Phase]) -> bool:
    """Whether one kernel for all phases is no larger than the largest of them."""
    return _span(phases)[1] <= max(_span([phase])[1] for phase in phases)


def _phase_convolution(
    b: TosaBuilder, conv: Convolution, kernel: np.ndarray, row: Phase, columns: list[Phase]
) -> Convolution:
    """The convolution for one phase of the rows and all phases of the columns."""
    low_y, size_y = _span([row])
    low_x, size_x = _span(columns)
    o, _, _, c = kernel.shape
    taps = np.full((len(columns), o, size_y, size_x, c), conv.weights.zero_point, kernel.dtype)
    for i, column in enumerate(columns):
        for ky, y in row.taps:
            for kx, x in column.taps:
                taps[i, :, y - low_y, x - low_x] = kernel[:, ky, kx]
    flat = taps.reshape(len(columns) * o, size_y, size_x, c)
    weights, times = conv.weights, len(columns)
    bias, scale = weights.bias, weights.scale
    weights = replace(
        weights, kernel=b.const(flat, weights.kernel.type.dtype),
        bias=b.const(np.tile(bias.array, times), bias.type.dtype),
        scale=scale if scale is None or scale.size == 1 else np.tile(scale, times),
    )  # fmt: skip
    return replace(conv, weights=weights, stride=(1, 1), dilation=(1, 1),
                   pad=(-low_y, 0, -low_x, 0))  # fmt: skip


def _span(phases: list[Phase]) -> tuple[int, int]:
    """Lowest offset (0 or less: it becomes padding) and the number of offsets."""
    offsets = [offset for phase in phases for _, offset in phase.taps] + [0]
    return min(offsets), max(offsets) - min(offsets) + 1
