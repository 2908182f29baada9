"""Convolutions in the forms that Ethos-U runs fast: no wide strides, dilations or multipliers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.convolution import read_convolution, to_model
from npuc.lowering.aten_to_tosa.emit_convolution import (
    CHANNELS_AT_ONCE,
    Convolution,
    emit_convolution,
    join_channels,
    merge_groups,
    split_groups,
)
from npuc.lowering.aten_to_tosa.ethos_u_depth import emit_by_depth
from npuc.lowering.aten_to_tosa.ethos_u_fold import (
    blocks_by_dilation,
    extend,
    fold_height_into_batch,
    fold_height_into_channels,
    fold_width_into_channels,
    repeat_channels,
    restore_blocks,
    rows_by_dilation,
)
from npuc.lowering.aten_to_tosa.ethos_u_transposed import emit_sub_pixel
from npuc.lowering.aten_to_tosa.pool import Window, max_window
from npuc.lowering.aten_to_tosa.transposed_convolution import spread_taps
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: a convolution with a larger stride is cut into one per output position
LARGEST_STRIDE = 3

#: one with a larger dilation is cut into several
LARGEST_DILATION = 2

#: up to this dilation a depthwise kernel filled with zeros costs less than moving the input
FILLED = 4

#: registers of the padding, before and after
LARGEST_PAD = (127, 255)

#: largest axis that the hardware addresses
LARGEST_AXIS = 2**16

FoldHeight = Callable[[TosaBuilder, Convolution], Convolution]


@lowers("aten.convolution", target="ethos-u")
def convolution(
    b: TosaBuilder, x: Value, weight: Value, bias: Value | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """convolution -> CONV2D, DEPTHWISE_CONV2D or CONV3D within strides of 3 and dilations of 2."""
    conv = read_convolution(b, x, weight, bias, stride, padding, dilation, transposed, groups)
    y = emit_sub_pixel(b, conv, _emit_u85) if transposed else _emit_u85(b, conv)
    return to_model(b, y, x.type.rank)


@lowers("aten.convolution", target="ethos-u55")
def convolution_u55(
    b: TosaBuilder, x: Value, weight: Value, bias: Value | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """convolution -> CONV2D or DEPTHWISE_CONV2D; the depth of a 3-D kernel becomes channels."""
    conv = read_convolution(b, x, weight, bias, stride, padding, dilation, transposed, groups)
    y = emit_sub_pixel(b, conv, _emit_u55) if transposed else _emit_u55(b, conv)
    return to_model(b, y, x.type.rank)


def _emit_u85(b: TosaBuilder, conv: Convolution) -> Value:
    if len(conv.stride) == 3:
        return emit_convolution(b, conv)
    return emit_planar(b, conv, fold_height_into_batch)


def _emit_u55(b: TosaBuilder, conv: Convolution) -> Value:
    if len(conv.stride) == 3:
        return emit_by_depth(b, conv, _emit_u55)
    return emit_planar(b, conv, fold_height_into_channels)


def emit_planar(b: TosaBuilder, conv: Convolution, fold_height: FoldHeight) -> Value:
    """A 2-D convolution, rewritten one step at a time until the chip runs it as it is."""

    def again(changed: Convolution) -> Value:
        return emit_planar(b, changed, fold_height)

    if conv.groups > 1 and not conv.is_depthwise:
        parts = split_groups(b, merge_groups(b, conv))
        return join_channels(b, [again(part) for part in parts])
    if not conv.weights.kernel.is_const or not conv.x.type.is_static:
        return emit_convolution(b, conv)
    if _is_column(conv):
        return b.reshape(again(_laid_down(b, conv)), conv.out.ints)
    if conv.is_depthwise and conv.weights.channels > conv.groups:
        return again(_without_multiplier(b, conv))
    if conv.is_depthwise and max(conv.stride) > LARGEST_STRIDE:
        return _subsampled(b, conv, again)
    if max(conv.dilation) > LARGEST_DILATION or _folds_dilated(conv):
        return _undilated(b, conv, again)
    if conv.stride[1] > LARGEST_STRIDE or _wastes_channels(conv):
        return again(fold_width_into_channels(b, conv))
    if conv.stride[0] > LARGEST_STRIDE:
        return b.reshape(again(fold_height(b, conv)), conv.out.ints)
    if _is_pointwise_batch(conv):
        n, h, w, c = conv.x.type.ints
        flat = replace(conv, x=b.reshape(conv.x, (1, n * h, w, c)),
                       out=conv.out.with_(shape=(1, n * h, w, conv.out.ints[3])))  # fmt: skip
        return b.reshape(again(flat), conv.out.ints)
    return emit_convolution(b, _within_padding(b, conv))


def _is_column(conv: Convolution) -> bool:
    """One pixel wide: half of the array would idle."""
    _, h, w, _ = conv.x.type.ints
    return w == 1 and h > 1 and conv.kernel_size[1] == 1 and conv.out.ints[2] == 1


def _laid_down(b: TosaBuilder, conv: Convolution) -> Convolution:
    """[N, H, 1, C] as [N, 1, H, C]."""
    n, h, _, c = conv.x.type.ints
    o, kh, _, width = conv.weights.kernel.type.ints
    weights = replace(conv.weights, kernel=b.reshape(conv.weights.kernel, (o, 1, kh, width)))
    return replace(
        conv, x=b.reshape(conv.x, (n, 1, h, c)), weights=weights, stride=conv.stride[::-1],
        dilation=conv.dilation[::-1], pad=(0, 0, *conv.pad[:2]),
        out=conv.out.with_(shape=(n, 1, conv.out.ints[1], o)),
    )  # fmt: skip


def _without_multiplier(b: TosaBuilder, conv: Convolution) -> Convolution:
    """Depthwise with M results per channel: each channel M times, then one result per channel."""
    times = conv.weights.channels // conv.groups
    x = repeat_channels(b, conv.x, np.repeat(np.arange(conv.groups), times).tolist())
    return replace(conv, x=x, groups=conv.weights.channels)


def _subsampled(b: TosaBuilder, conv: Convolution, again: Callable[[Convolution], Value]) -> Value:
    """A depthwise convolution at every position, then those on the stride."""
    n, h, w, o = conv.out.ints
    sy, sx = (s if s > LARGEST_STRIDE else 1 for s in conv.stride)
    every = replace(
        conv, stride=(conv.stride[0] // sy, conv.stride[1] // sx),
        out=conv.out.with_(shape=(n, (h - 1) * sy + 1, (w - 1) * sx + 1, o)),
    )  # fmt: skip
    return max_window(b, again(every), Window(1, sy, 0, h), Window(1, sx, 0, w))


def _folds_dilated(conv: Convolution) -> bool:
    """Whether an axis whose stride will be folded is dilated."""
    return any(
        s > LARGEST_STRIDE and d > 1 for s, d in zip(conv.stride, conv.dilation, strict=True)
    )


def _undilated(b: TosaBuilder, conv: Convolution, again: Callable[[Convolution], Value]) -> Value:
    """Without dilation: the input rearranged, or zeros in the kernel."""
    n, h, _w, o = conv.out.ints
    if conv.stride != (1, 1) or (conv.is_depthwise and max(conv.dilation) <= FILLED):
        kernel = conv.weights.kernel
        filled = spread_taps(kernel.array, conv.dilation, conv.weights.zero_point)
        weights = replace(conv.weights, kernel=b.const(filled, kernel.type.dtype))
        return again(replace(conv, weights=weights, dilation=(1, 1)))
    if conv.kernel_size[0] == 1 and conv.pad[:2] == (0, 0) and conv.x.type.ints[1] == h:
        y = again(rows_by_dilation(b, conv))
        y = b.reshape(y, (n, h, prod(y.type.ints) // (n * h * o), o))
        return b.slice(y, (0, 0, 0, 0), conv.out.ints)
    changed, blocks = blocks_by_dilation(b, conv)
    return restore_blocks(b, again(changed), blocks, conv)


def _wastes_channels(conv: Convolution) -> bool:
    """Few channels and a stride: the chip computes 8 channels in the time of one."""
    step, before = conv.stride[1], conv.pad[2]
    if step == 1 or conv.groups > 1 or conv.dilation[1] > 1:
        return False
    taps = -(-(-before % step + conv.kernel_size[1]) // step)
    return conv.x.type.ints[3] * step <= CHANNELS_AT_ONCE and taps < conv.kernel_size[1]


def _is_pointwise_batch(conv: Convolution) -> bool:
    """1x1 over several images: they are one."""
    n, h, _, _ = conv.x.type.ints
    plain = set(conv.kernel_size) == set(conv.stride) == {1} and not any(conv.pad)
    return plain and n > 1 and n * h <= LARGEST_AXIS and conv.out.ints[1:3] == conv.x.type.ints[1:3]


def _within_padding(b: TosaBuilder, conv: Convolution) -> Convolution:
    """More padding than the registers hold becomes part of the input."""
    for i in range(2):
        size, before, out = conv.x.type.ints[1 + i], conv.pad[2 * i], conv.out.ints[1 + i]
        reach = (out - 1) * conv.stride[i] + (conv.kernel_size[i] - 1) * conv.dilation[i] + 1
        after = max(reach - before - size, 0)
        if before <= LARGEST_PAD[0] and after <= LARGEST_PAD[1]:
            continue
        pad = list(conv.pad)
        pad[2 * i] = 0
        conv = replace(conv, x=extend(b, conv.x, 1 + i, before, after), pad=tuple(pad))
    return conv
