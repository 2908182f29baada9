"""Emits a convolution in TOSA's layout: CONV2D, DEPTHWISE_CONV2D, CONV3D, by parts if grouped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from npuc.ir import TensorType, Value
from npuc.ir.symbolic import at_most, largest, smallest
from npuc.lowering.aten_to_tosa.take import join
from npuc.lowering.aten_to_tosa.weights import ACCUMULATOR, Weights, to_output
from npuc.lowering.tosa_builder import TosaBuilder

#: fewer input channels than this per operator waste an NPU's dot product
CHANNELS_AT_ONCE = 8


@dataclass(frozen=True)
class Convolution:
    """A convolution in TOSA's layout, not yet emitted.

    x: [N, H, W, C] or [N, D, H, W, C]. weights.kernel: [O, k..., C / groups].
    pad: (before, after) per spatial dimension; out: the result's type in this layout.
    """

    x: Value
    weights: Weights
    stride: tuple[int, ...]
    pad: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int
    out: TensorType

    @property
    def kernel_size(self) -> tuple[int, ...]:
        return self.weights.kernel.type.ints[1:-1]

    @property
    def is_depthwise(self) -> bool:
        return self.groups > 1 and self.groups == self.x.type.shape[-1] and len(self.stride) == 2


def emit_convolution(b: TosaBuilder, conv: Convolution) -> Value:
    """The operators of a convolution, as few as its groups allow."""
    if conv.groups == 1:
        return to_output(b, _dense(b, conv), conv.weights.scale, conv.out)
    if conv.is_depthwise:
        return to_output(b, _depthwise(b, conv), conv.weights.scale, conv.out)
    return _grouped(b, conv)


def _dense(b: TosaBuilder, conv: Convolution) -> Value:
    x, pad = fit_window(b, conv)
    operator = b.CONV2D if len(conv.stride) == 2 else b.CONV3D
    return operator(  # type: ignore[no-any-return]
        x, conv.weights.kernel, conv.weights.bias, b.zero_point(x),
        b.zero_point(conv.weights.kernel, conv.weights.zero_point),
        pad=pad, stride=conv.stride, dilation=conv.dilation, acc_type=ACCUMULATOR[x.type.dtype],
    )  # fmt: skip


def _depthwise(b: TosaBuilder, conv: Convolution) -> Value:
    x, pad = fit_window(b, conv)
    o, kh, kw, _ = conv.weights.kernel.type.ints
    kernel = b.reshape(conv.weights.kernel, (conv.groups, o // conv.groups, kh, kw))
    kernel = b.transpose(kernel, (2, 3, 0, 1))
    return b.DEPTHWISE_CONV2D(  # type: ignore[no-any-return]
        x, kernel, conv.weights.bias, b.zero_point(x),
        b.zero_point(kernel, conv.weights.zero_point),
        pad=pad, stride=conv.stride, dilation=conv.dilation, acc_type=ACCUMULATOR[x.type.dtype],
    )  # fmt: skip


def _grouped(b: TosaBuilder, conv: Convolution) -> Value:
    """One convolution per part of the channels, then CONCAT."""
    conv = merge_groups(b, conv)
    parts = [emit_convolution(b, part) for part in split_groups(b, conv)]
    return join_channels(b, parts)


def merge_groups(b: TosaBuilder, conv: Convolution) -> Convolution:
    """Fewer groups by weights filled with zeros, exact on integers: at least 8 channels in each."""
    width = conv.weights.kernel.type.ints[-1]
    factor = next(
        f for f in range(1, conv.groups + 1)
        if conv.groups % f == 0 and (f * width >= CHANNELS_AT_ONCE or f == conv.groups)
    )  # fmt: skip
    if factor == 1 or conv.weights.scale is None or not conv.weights.kernel.is_const:
        return conv
    kernel = conv.weights.kernel
    merged = b.const(
        block_diagonal(kernel.array, conv.groups, factor, conv.weights.zero_point),
        kernel.type.dtype,
    )
    weights = replace(conv.weights, kernel=merged)
    return replace(conv, weights=weights, groups=conv.groups // factor)


def block_diagonal(kernel: np.ndarray, groups: int, factor: int, zero: int = 0) -> np.ndarray:
    """[O, k..., c] of `groups` groups as [O, k..., factor * c] of groups / factor groups."""
    o, width = kernel.shape[0], kernel.shape[-1]
    wide = np.full((*kernel.shape[:-1], factor * width), zero, kernel.dtype)
    per_group = o // groups
    for group in range(groups):
        rows = slice(group * per_group, (group + 1) * per_group)
        start = group % factor * width
        wide[rows, ..., start : start + width] = kernel[rows]
    return wide


def split_groups(b: TosaBuilder, conv: Convolution) -> list[Convolution]:
    """Each group as a convolution of its own."""
    width, height = conv.weights.kernel.type.ints[-1], conv.weights.channels // conv.groups
    parts = []
    for group in range(conv.groups):
        start = [0] * (conv.x.type.rank - 1) + [group * width]
        x = b.slice(conv.x, start, (*conv.x.type.ints[:-1], width))
        weights = slice_weights(b, conv.weights, group * height, height)
        out = conv.out.with_(shape=(*conv.out.shape[:-1], height))
        parts.append(replace(conv, x=x, weights=weights, groups=1, out=out))
    return parts


def slice_weights(b: TosaBuilder, weights: Weights, start: int, size: int) -> Weights:
    """Those of `size` output channels."""
    kernel, bias, scale = weights.kernel, weights.bias, weights.scale
    at = [start] + [0] * (kernel.type.rank - 1)
    kernel = b.slice(kernel, at, (size, *kernel.type.ints[1:]))
    if bias.type.ints[0] > 1:
        bias = b.slice(bias, (start,), (size,))
    if scale is not None and scale.size > 1:
        scale = scale[start : start + size]
    return replace(weights, kernel=kernel, bias=bias, scale=scale)


def join_channels(b: TosaBuilder, parts: Sequence[Value]) -> Value:
    """CONCAT on the last axis."""
    return join(b, parts, parts[0].type.rank - 1)


def reach_input(b: TosaBuilder, conv: Convolution) -> Convolution:
    """Where all windows of an axis lie in the padding: taps of zero that reach the input."""
    kernel = conv.weights.kernel
    if not kernel.is_const or not conv.out.is_static:
        return conv
    more = [(0, 0)] * kernel.type.rank
    for i, size in enumerate(conv.kernel_size):
        last = (conv.out.ints[1 + i] - 1) * conv.stride[i] + (size - 1) * conv.dilation[i]
        missing = conv.pad[2 * i] - last
        more[1 + i] = (0, max(-(-missing // conv.dilation[i]), 0))
    if not any(after for _, after in more):
        return conv
    longer = np.pad(kernel.array, more, constant_values=conv.weights.zero_point)
    weights = replace(conv.weights, kernel=b.const(longer, kernel.type.dtype))
    return replace(conv, weights=weights)


def fit_window(b: TosaBuilder, conv: Convolution) -> tuple[Value, tuple[int, ...]]:
    """Input and padding for which the output size divides, as TOSA demands.

    The trailing padding shrinks by the remainder; where it is too small the input loses its end.
    """
    shape, positions = conv.x.type.ints, conv.out.ints
    pad: list[int] = []
    size, more = list(shape), [0] * (2 * len(shape))
    for i, kernel in enumerate(conv.kernel_size):
        before, length = conv.pad[2 * i], shape[1 + i]
        needed = (positions[1 + i] - 1) * conv.stride[i] + (kernel - 1) * conv.dilation[i] + 1
        after = needed - before - length
        most = largest(after)
        b.require(
            smallest(length + at_most(after, 0)) > 0,
            f"padding {before} before an axis of {length} holds the whole kernel of {kernel}",
        )
        size[1 + i] = length + at_most(after, 0)
        pad += [before, max(most, 0) if isinstance(after, int) else 0]
        if not isinstance(after, int) and most > 0:  # an attribute holds no symbolic size
            more[2 * i + 3] = most
            size[1 + i] = length + after
    x = conv.x
    if any(more):
        x = b.PAD(x, more, b.zero_point(x), quant=x.type.quant)
    return b.slice(x, [0] * len(size), size), tuple(pad)
