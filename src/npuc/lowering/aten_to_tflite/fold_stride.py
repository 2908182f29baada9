"""Strides folded into channels: an NPU that takes small strides only runs the rest as stride 1."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tflite.weights import Weights
from npuc.lowering.tflite_builder import TfliteBuilder

if TYPE_CHECKING:
    from npuc.lowering.aten_to_tflite.emit_convolution import Convolution


def fold_stride(b: TfliteBuilder, conv: Convolution, largest: int) -> Convolution:
    """The same convolution with no stride above `largest`.

    Along the width blocks of `stride` elements become channels by a RESHAPE, along the height by a
    TRANSPOSE more; the filter is filled with zeros up to whole blocks and cut alike.
    """
    for axis in (1, 0):
        if conv.stride[axis] > largest:
            conv = fold_axis(b, conv, axis)
    return conv


def wastes_channels(conv: Convolution, at_once: int) -> bool:
    """Whether blocks along the width fit in the channels that an NPU computes at once, and save
    columns of the filter."""
    step = conv.stride[1]
    if step == 1 or conv.x.type.ints[2] % step or conv.x.type.ints[3] * step > at_once:
        return False
    return -(-(-conv.pad[2] % step + conv.kernel[1]) // step) < conv.kernel[1]


def fold_axis(b: TfliteBuilder, conv: Convolution, axis: int) -> Convolution:
    """`conv` with stride 1 along the height (0) or the width (1)."""
    stride, kernel, before = conv.stride[axis], conv.kernel[axis], conv.pad[2 * axis]
    front, lead = -before % stride, -(-before // stride)
    blocks = -(-(front + kernel) // stride)
    reach = (conv.out.ints[1 + axis] - 1 + blocks - lead) * stride
    x = _whole_blocks(b, conv.x, 1 + axis, stride, reach)
    filter = conv.weights.filter
    fill = [(0, 0)] * 4
    fill[1 + axis] = (front, blocks * stride - front - kernel)
    array = np.pad(filter.array, fill)
    o, kh, kw, i = array.shape
    n, h, w, c = x.type.ints
    if axis == 1:
        x = b.reshape(x, (n, h, w // stride, stride * c))
        array = array.reshape(o, kh, blocks, stride * i)
    else:
        rows = b.reshape(x, (n * (h // stride), stride, w, c))
        x = b.reshape(b.transpose(rows, (0, 2, 1, 3)), (n, h // stride, w, stride * c))
        array = array.reshape(o, blocks, stride, kw, i).transpose(0, 1, 3, 2, 4)
        array = array.reshape(o, blocks, kw, stride * i)
    constant = b.const(array, filter.type.dtype, filter.type.quant)
    pad, strides = list(conv.pad), list(conv.stride)
    pad[2 * axis] = lead
    strides[axis] = 1
    return replace(
        conv,
        x=x,
        weights=Weights(constant, conv.weights.bias),
        pad=tuple(pad),
        stride=tuple(strides),
    )


def _whole_blocks(b: TfliteBuilder, x: Value, axis: int, block: int, reach: int) -> Value:
    """The first `reach` elements of an axis; of fewer, zeros behind them up to a whole block."""
    size = x.type.ints[axis]
    if reach <= size:
        shape = list(x.type.ints)
        shape[axis] = reach
        return b.slice(x, [0] * len(shape), shape)
    pads = [0] * (2 * x.type.rank)
    pads[2 * axis + 1] = -size % block
    return b.PAD(x, paddings=pads) if any(pads) else x
