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
            conv = _folded(b, conv, axis)
    return conv


def _folded(b: TfliteBuilder, conv: Convolution, axis: int) -> Convolution:
    stride, kernel = conv.stride[axis], conv.kernel[axis]
    blocks = -(-kernel // stride)
    size = (conv.out.ints[1 + axis] - 1 + blocks) * stride
    x = _fitted(b, conv.x, 1 + axis, conv.pad[2 * axis], size)
    filter = conv.weights.filter
    fill = [(0, 0)] * 4
    fill[1 + axis] = (0, blocks * stride - kernel)
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
    pad[2 * axis : 2 * axis + 2] = [0, 0]
    strides[axis] = 1
    return replace(
        conv,
        x=x,
        weights=Weights(constant, conv.weights.bias),
        pad=tuple(pad),
        stride=tuple(strides),
    )


def _fitted(b: TfliteBuilder, x: Value, axis: int, before: int, size: int) -> Value:
    """`x` with `before` zeros in front, and an end that brings it to `size`."""
    after = size - before - x.type.ints[axis]
    if after < 0:
        shape = list(x.type.ints)
        shape[axis] += after
        x = b.slice(x, [0] * len(shape), shape)
    pads = [0] * (2 * x.type.rank)
    pads[2 * axis : 2 * axis + 2] = [before, max(after, 0)]
    return b.PAD(x, paddings=pads) if any(pads) else x
