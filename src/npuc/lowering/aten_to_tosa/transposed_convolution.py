"""Transposed convolutions: TRANSPOSE_CONV2D, or an ordinary convolution of a spread-out input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from npuc.ir import Quant, Value
from npuc.lowering.aten_to_tosa.emit_convolution import (
    Convolution,
    emit_convolution,
    join_channels,
    merge_groups,
    reach_input,
    split_groups,
)
from npuc.lowering.aten_to_tosa.weights import ACCUMULATOR, to_output
from npuc.lowering.tosa_builder import TosaBuilder


def transposed_kernel(b: TosaBuilder, weight: Value, groups: int) -> tuple[Value, Quant | None]:
    """PyTorch's [C, O / groups, k...] as [O, k..., C / groups], and its scales per O."""
    quant, shape = weight.type.quant, weight.type.ints
    if quant is not None and quant.per_channel:
        b.require(
            quant.axis == 1,
            f"weights have a scale per channel of axis {quant.axis}; results need one of axis 1",
            "quantize transposed convolutions with ch_axis=1",
        )
        scale, zero_point = np.tile(quant.scale, groups), np.tile(quant.zero_point, groups)
        quant = Quant(scale, zero_point, 0, quant.qmin, quant.qmax)
    if weight.is_const:
        weight = b.const(weight.array, weight.type.dtype)
    c, o, k = shape[0] // groups, shape[1], shape[2:]
    kernel = b.reshape(weight, (groups, c, o, *k))
    kernel = b.transpose(kernel, (0, 2, *range(3, 3 + len(k)), 1))
    return b.reshape(kernel, (groups * o, *k, c)), quant


def emit_transposed(b: TosaBuilder, conv: Convolution) -> Value:
    """The operators of a transposed convolution; `conv.pad` is cut off the result.

    Strides of 1, depthwise and 3-D ones are ordinary convolutions.
    """
    if conv.is_depthwise or len(conv.stride) == 3 or set(conv.stride) == {1}:
        return emit_convolution(b, as_ordinary(b, conv))
    if conv.groups > 1:
        parts = split_groups(b, merge_groups(b, conv))
        return join_channels(b, [emit_transposed(b, part) for part in parts])
    return to_output(b, _transpose_conv2d(b, conv), conv.weights.scale, conv.out)


def _transpose_conv2d(b: TosaBuilder, conv: Convolution) -> Value:
    kernel = spread_kernel(b, conv)
    pad: list[int] = []
    for i, size in enumerate(kernel.type.ints[1:3]):
        before = conv.pad[2 * i]
        b.require(before < size, f"padding {before} is not below the kernel's {size}")
        whole = (conv.x.type.ints[1 + i] - 1) * conv.stride[i] + size
        pad += [-before, conv.out.ints[1 + i] - whole + before]
    return b.TRANSPOSE_CONV2D(  # type: ignore[no-any-return]
        conv.x, kernel, conv.weights.bias, b.zero_point(conv.x),
        b.zero_point(kernel, conv.weights.zero_point),
        out_pad=tuple(pad), stride=conv.stride, acc_type=ACCUMULATOR[conv.x.type.dtype],
    )  # fmt: skip


def as_ordinary(b: TosaBuilder, conv: Convolution) -> Convolution:
    """A convolution with the kernel turned around, of the input with zeros between its elements."""
    kernel = conv.weights.kernel
    b.require(kernel.is_const, "transposed convolution with computed weights")
    pad: list[int] = []
    for i, size in enumerate(conv.kernel_size):
        reach = (size - 1) * conv.dilation[i]
        before = conv.pad[2 * i]
        b.require(before <= reach, f"padding {before} is not below the kernel's {reach + 1}")
        pad += [reach - before, 0]
    turned = np.flip(kernel.array, tuple(range(1, kernel.type.rank - 1)))
    weights = replace(conv.weights, kernel=b.const(turned, kernel.type.dtype))
    x = spread(b, conv.x, conv.stride)
    ordinary = replace(conv, x=x, weights=weights, pad=tuple(pad), stride=(1,) * len(conv.stride))
    return reach_input(b, ordinary)


def spread(b: TosaBuilder, x: Value, stride: Sequence[int]) -> Value:
    """[N, ..., C] with stride - 1 zeros after each element of the spatial axes (PAD)."""
    for axis, step in enumerate(stride, 1):
        if step == 1:
            continue
        shape = x.type.ints
        rows = b.reshape(x, (prod(shape[: axis + 1]), 1, prod(shape[axis + 1 :])))
        zero = b.zero_point(x)
        rows = b.PAD(rows, (0, 0, 0, step - 1, 0, 0), zero, quant=x.type.quant)
        x = b.reshape(rows, (*shape[:axis], shape[axis] * step, *shape[axis + 1 :]))
    return x


def spread_kernel(b: TosaBuilder, conv: Convolution) -> Value:
    """The kernel with dilation - 1 zeros between its taps."""
    kernel = conv.weights.kernel
    if set(conv.dilation) == {1}:
        return kernel
    b.require(kernel.is_const, f"dilation {conv.dilation} of computed weights")
    return b.const(
        spread_taps(kernel.array, conv.dilation, conv.weights.zero_point), kernel.type.dtype
    )


def spread_taps(kernel: np.ndarray, dilation: Sequence[int], zero: int = 0) -> np.ndarray:
    """[O, k..., c] as [O, (k - 1) * dilation + 1 ..., c] with `zero` between the taps."""
    sizes = [(k - 1) * d + 1 for k, d in zip(kernel.shape[1:-1], dilation, strict=True)]
    wide = np.full((kernel.shape[0], *sizes, kernel.shape[-1]), zero, kernel.dtype)
    wide[(slice(None), *(slice(None, None, d) for d in dilation))] = kernel
    return wide
