"""Emits convolutions in TFLite's layout: CONV_2D, DEPTHWISE_CONV_2D, CONV_3D, groups in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from npuc.dialects.tflite import same_padding
from npuc.ir import TensorType, Value
from npuc.lowering.aten_to_tflite.fold_stride import fold_axis, fold_stride, wastes_channels
from npuc.lowering.aten_to_tflite.weights import Weights, slice_channels
from npuc.lowering.tflite_builder import TfliteBuilder


@dataclass(frozen=True)
class Convolution:
    """A convolution in TFLite's layout, not yet emitted.

    x: [N, spatial..., C]. weights.filter: [O, kernel..., C / groups]. pad: (before, after) per
    spatial dimension; out: the result's type in this layout.
    """

    x: Value
    weights: Weights
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    out: TensorType

    @property
    def kernel(self) -> tuple[int, ...]:
        return self.weights.filter.type.ints[1:-1]

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.x.type.shape[-1] and len(self.stride) == 2


def emit_convolution(b: TfliteBuilder, conv: Convolution) -> Value:
    """The operators of a convolution, as few as its groups and the target allow."""
    if len(conv.stride) == 3:
        return _three_dimensional(b, conv)
    if conv.is_depthwise:
        return _depthwise(b, conv)
    if conv.groups > 1 and not b.limits.grouped:
        return _grouped(b, conv)
    most = b.limits.max_stride
    plain = conv.groups == 1 and set(conv.dilation) == {1} and conv.weights.filter.is_const
    if max(conv.stride) > most and plain:
        conv = fold_stride(b, conv, most)
    if plain and wastes_channels(conv, b.limits.channels_at_once):
        conv = fold_axis(b, conv, 1)
    x, padding = fit_padding(b, conv)
    return b.CONV_2D(  # type: ignore[no-any-return]
        x, conv.weights.filter, conv.weights.bias, padding=padding, stride=conv.stride,
        dilation=conv.dilation, quant=conv.out.quant,
    )  # fmt: skip


def _depthwise(b: TfliteBuilder, conv: Convolution) -> Value:
    o = conv.weights.channels
    if o > conv.groups and not b.limits.depth_multiplier:
        return _one_per_channel(b, conv, o // conv.groups)
    x, padding = fit_padding(b, conv)
    filter = b.transpose(conv.weights.filter, (3, 1, 2, 0))
    return b.DEPTHWISE_CONV_2D(  # type: ignore[no-any-return]
        x, filter, conv.weights.bias, padding=padding, stride=conv.stride,
        dilation=conv.dilation, depth_multiplier=o // conv.groups, quant=conv.out.quant,
    )  # fmt: skip


def _one_per_channel(b: TfliteBuilder, conv: Convolution, count: int) -> Value:
    """A depthwise convolution per filter of a channel, its results side by side."""
    out = conv.out.with_(shape=(*conv.out.shape[:-1], conv.groups))
    parts = []
    for k in range(count):
        weights = slice_channels(b, conv.weights, k, conv.groups, count)
        y = _depthwise(b, replace(conv, weights=weights, out=out))
        parts.append(b.reshape(y, (*out.ints, 1)))
    return b.reshape(b.CONCATENATION(*parts, axis=4), conv.out.ints)


def _grouped(b: TfliteBuilder, conv: Convolution) -> Value:
    """One convolution per group, then CONCATENATION."""
    parts = [emit_convolution(b, part) for part in split_groups(b, conv)]
    return b.CONCATENATION(*parts, axis=parts[0].type.rank - 1)  # type: ignore[no-any-return]


def split_groups(b: TfliteBuilder, conv: Convolution) -> list[Convolution]:
    """Each group as a convolution of its own."""
    width, height = conv.weights.filter.type.ints[-1], conv.weights.channels // conv.groups
    parts = []
    for group in range(conv.groups):
        start = [0] * (conv.x.type.rank - 1) + [group * width]
        x = b.slice(conv.x, start, (*conv.x.type.ints[:-1], width))
        weights = slice_channels(b, conv.weights, group * height, height)
        out = conv.out.with_(shape=(*conv.out.shape[:-1], height))
        parts.append(replace(conv, x=x, weights=weights, groups=1, out=out))
    return parts


def fit_padding(b: TfliteBuilder, conv: Convolution) -> tuple[Value, str]:
    """The input and SAME or VALID, without loss: a PAD only where neither says the same.

    VALID drops an end that no window covers, so only what the windows need counts as padding.
    """
    sizes, outs = conv.x.type.ints[1:-1], conv.out.ints[1:-1]
    pads = []
    fits_same = True
    for i, kernel in enumerate(conv.kernel):
        extent = (kernel - 1) * conv.dilation[i] + 1
        before = conv.pad[2 * i]
        after = max((outs[i] - 1) * conv.stride[i] + extent - before - sizes[i], 0)
        pads.append((before, after))
        same = same_padding(sizes[i], kernel, conv.stride[i], conv.dilation[i])
        fits_same &= same == (before, after) and -(-sizes[i] // conv.stride[i]) == outs[i]
    if not any(map(any, pads)):
        return conv.x, "VALID"
    if fits_same:
        return conv.x, "SAME"
    return pad_spatial(b, conv.x, pads), "VALID"


def pad_spatial(b: TfliteBuilder, x: Value, pads: Sequence[tuple[int, int]]) -> Value:
    """PAD of the axes between the first and the last; quantized with the zero point."""
    if not any(map(any, pads)):
        return x
    entries = [0, 0, *(n for pair in pads for n in pair), 0, 0]
    return b.PAD(x, paddings=entries)  # type: ignore[no-any-return]


def _three_dimensional(b: TfliteBuilder, conv: Convolution) -> Value:
    """CONV_3D for floats; otherwise the taps along the depth become channels of a CONV_2D, which
    is exact."""
    if conv.x.type.dtype.is_float and conv.groups == 1:
        x, padding = fit_padding(b, conv)
        filter = b.transpose(conv.weights.filter, (1, 2, 3, 4, 0))
        return b.CONV_3D(  # type: ignore[no-any-return]
            x, filter, conv.weights.bias, padding=padding, stride=conv.stride,
            dilation=conv.dilation,
        )  # fmt: skip
    if conv.groups > 1:
        return _grouped(b, conv)
    depth = conv.kernel[0]
    needed = (conv.out.ints[1] - 1) * conv.stride[0] + (depth - 1) * conv.dilation[0] + 1
    after = needed - conv.pad[0] - conv.x.type.ints[1]
    x = pad_spatial(b, conv.x, [(conv.pad[0], max(after, 0)), (0, 0), (0, 0)])
    return _depth_as_channels(b, replace(conv, x=x))


def _depth_as_channels(b: TfliteBuilder, conv: Convolution) -> Value:
    """A 3-D convolution of an input that is padded in depth, on [N * D, H, W, taps * C]."""
    n, _, h, w, c = conv.x.type.ints
    out = conv.out.ints
    taps = []
    for k in range(conv.kernel[0]):
        begin, step = k * conv.dilation[0], conv.stride[0]
        end = begin + (out[1] - 1) * step + 1
        taps.append(strided(b, conv.x, 1, begin, end, step))
    x = b.CONCATENATION(*taps, axis=4) if len(taps) > 1 else taps[0]
    x = b.reshape(x, (n * out[1], h, w, len(taps) * c))
    o, kd, kh, kw, i = conv.weights.filter.type.ints
    filter = b.transpose(conv.weights.filter, (0, 2, 3, 1, 4))
    filter = b.reshape(filter, (o, kh, kw, kd * i))
    flat = Convolution(
        x, Weights(filter, conv.weights.bias), conv.stride[1:], conv.pad[2:], conv.dilation[1:], 1,
        conv.out.with_(shape=(n * out[1], *out[2:])),
    )  # fmt: skip
    return b.reshape(emit_convolution(b, flat), out)


def strided(b: TfliteBuilder, x: Value, axis: int, begin: int, end: int, step: int) -> Value:
    """x[begin:end:step] along an axis."""
    shape = x.type.ints
    if step == 1:
        start, size = [0] * len(shape), list(shape)
        start[axis], size[axis] = begin, end - begin
        return b.slice(x, start, size)
    if not b.limits.steps:
        return _stepped(b, x, axis, begin, end, step)
    begins, ends, steps = [0] * len(shape), list(shape), [1] * len(shape)
    begins[axis], ends[axis], steps[axis] = begin, end, step
    return b.STRIDED_SLICE(x, begin=begins, end=ends, strides=steps)  # type: ignore[no-any-return]


def _stepped(b: TfliteBuilder, x: Value, axis: int, begin: int, end: int, step: int) -> Value:
    """x[begin:end:step] as the first of each block of `step` elements."""
    shape = x.type.ints
    count = -(-(end - begin) // step)
    stop = begin + count * step
    if stop > shape[axis]:
        pads = [0] * (2 * len(shape))
        pads[2 * axis + 1] = stop - shape[axis]
        x = b.PAD(x, paddings=pads)
    x = strided(b, x, axis, begin, stop, 1)
    blocks = b.reshape(x, (prod(shape[:axis]), count, step, prod(shape[axis + 1 :])))
    first = strided(b, blocks, 2, 0, 1, 1)
    return b.reshape(first, (*shape[:axis], count, *shape[axis + 1 :]))
