"""Rules that put the elements of a tensor in another order, or repeat them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from npuc.ir import DType, Quant, Value
from npuc.lowering.aten_to_tosa.carry import carried, carry
from npuc.lowering.aten_to_tosa.open_axes import rolled
from npuc.lowering.aten_to_tosa.take import cut, every, join, reverse, take
from npuc.lowering.registry import find_rule, lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.flip")
def flip(b: TosaBuilder, x: Value, dims: Sequence[int]) -> Value:
    """flip -> REVERSE of each dimension."""

    def move(v: Value) -> Value:
        for dim in dims:
            axis = dim % v.type.rank
            size = v.type.shape[axis]
            if isinstance(size, int):
                v = take(b, v, axis, np.arange(size)[::-1])
            else:
                v = reverse(b, v, axis)
        return v

    return carry(b, move, x)


@lowers("aten.roll")
def roll(b: TosaBuilder, x: Value, shifts: Sequence[int], dims: Sequence[int] = ()) -> Value:
    """roll -> two SLICEs and a CONCAT per dimension; without dims, of the flattened tensor."""

    def move(v: Value) -> Value:
        shape = v.type.ints
        y = v if len(dims) else b.reshape(v, (v.type.size,))
        for shift, dim in zip(shifts, dims if len(dims) else (0,), strict=True):
            axis = dim % y.type.rank
            size = y.type.shape[axis]
            if isinstance(size, int):
                y = take(b, y, axis, np.roll(np.arange(size), shift))
            else:
                y = rolled(b, y, axis, shift)
        return b.reshape(y, shape)

    return carry(b, move, x)


@lowers("aten.pixel_shuffle")
def pixel_shuffle(b: TosaBuilder, x: Value, factor: int) -> Value:
    """pixel_shuffle -> with channels last: TRANSPOSE of (C, r*r), then of (W, r).

    Two transpositions that keep a long innermost axis instead of one of six axes.
    """
    r = factor

    def move(v: Value) -> Value:
        n, c, h, w = v.type.ints
        c //= r * r
        y = b.nhwc(v)
        y = b.transpose(b.reshape(y, (n, h * w, c, r * r)), (0, 1, 3, 2)) if c > 1 else y
        y = b.transpose(b.reshape(y, (n * h, w, r, r * c)), (0, 2, 1, 3))
        return b.nchw(b.reshape(y, (n, h * r, w * r, c)))

    return carry(b, move, x)


@lowers("aten.pixel_unshuffle")
def pixel_unshuffle(b: TosaBuilder, x: Value, factor: int) -> Value:
    """pixel_unshuffle -> the transpositions of pixel_shuffle, backwards."""
    r = factor

    def move(v: Value) -> Value:
        n, c, h, w = v.type.ints
        h, w = h // r, w // r
        y = b.transpose(b.reshape(b.nhwc(v), (n * h, r, w, r * c)), (0, 2, 1, 3))
        y = b.reshape(y, (n, h * w, r * r, c))
        y = b.transpose(y, (0, 1, 3, 2)) if c > 1 else y
        return b.nchw(b.reshape(y, (n, h, w, c * r * r)))

    return carry(b, move, x)


@lowers("aten.unfold")
def unfold(b: TosaBuilder, x: Value, dimension: int, size: int, step: int) -> Value:
    """Tensor.unfold -> RESHAPE where windows do not overlap, else the windows, or their j-th
    elements, joined; a GATHER where both are many."""

    def move(v: Value) -> Value:
        axis = dimension % v.type.rank
        shape = v.type.ints
        count = (shape[axis] - size) // step + 1
        head, tail = shape[:axis], shape[axis + 1 :]
        flat = b.reshape(v, (math.prod(head), shape[axis], math.prod(tail)))
        y = _windows(b, flat, size, step, count)  # [head, count, size, tail]
        y = b.transpose(y, (0, 1, 3, 2))
        return b.reshape(y, (*head, count, *tail, size))

    if step == size or min(size, b.out[0].ints[dimension % x.type.rank]) <= 8:
        return carry(b, move, x)
    return carry(b, move, x, by="GATHER")


def _windows(b: TosaBuilder, x: Value, size: int, step: int, count: int) -> Value:
    """Windows of axis 1 of a rank 3 tensor: [before, count, size, after]."""
    before, _, after = x.type.ints
    if step == size:
        return b.reshape(cut(b, x, 1, 0, count * size), (before, count, size, after))
    if count <= size:
        index = (np.arange(count)[:, None] * step + np.arange(size)).reshape(-1)
        return b.reshape(take(b, x, 1, index), (before, count, size, after))
    if size <= 8:
        columns = [every(b, x, 1, j, step, count) for j in range(size)]
        return join(b, [b.reshape(c, (before, count, 1, after)) for c in columns], 2)
    index = (np.arange(size)[:, None] + np.arange(count) * step).reshape(-1)
    y = b.reshape(take(b, x, 1, index), (before, size, count, after))
    return b.transpose(y, (0, 2, 1, 3))


@lowers("aten.im2col")
def im2col(
    b: TosaBuilder, x: Value, kernel: Sequence[int], dilation: Sequence[int],
    padding: Sequence[int], stride: Sequence[int],
) -> Value:  # fmt: skip
    """im2col (nn.Unfold) -> the image shifted to every position of the kernel, joined."""
    out = b.out[0]

    def move(v: Value, zero: Value) -> Value:
        n, c, _, _ = v.type.ints
        if any(padding):
            pads = (0, 0, 0, 0, padding[0], padding[0], padding[1], padding[1])
            v = b.PAD(v, pads, zero, quant=v.type.quant)
        sizes = [
            (v.type.ints[2 + i] - dilation[i] * (kernel[i] - 1) - 1) // stride[i] + 1
            for i in (0, 1)
        ]
        rows = [every(b, v, 2, y * dilation[0], stride[0], sizes[0]) for y in range(kernel[0])]
        parts = [
            every(b, row, 3, x * dilation[1], stride[1], sizes[1])
            for row in rows
            for x in range(kernel[1])
        ]
        y = join(b, [b.reshape(p, (n, c, 1, math.prod(sizes))) for p in parts], 2)
        return b.reshape(y, out.ints)

    code = out.quant.zp if out.quant is not None else 0
    zero = b.const(np.full(1, code).astype(out.dtype.numpy), out.dtype, out.quant)
    return carry(b, move, x, zero)


@lowers("aten.col2im")
def col2im(
    b: TosaBuilder, x: Value, output_size: Sequence[int], kernel: Sequence[int],
    dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int],
) -> Value:  # fmt: skip
    """col2im (nn.Fold) -> a transposed convolution whose kernels have one 1: overlaps add up."""
    n, columns, _ = x.type.ints
    area = math.prod(kernel)
    channels = columns // area
    spans = [output_size[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1 for i in (0, 1)]
    sizes = [span // step + 1 for span, step in zip(spans, stride, strict=True)]
    missing = [span % step for span, step in zip(spans, stride, strict=True)]
    ones = np.eye(area).reshape(area, *kernel)
    weight = np.zeros((channels, area, channels, *kernel))
    weight[np.arange(channels), :, np.arange(channels)] = ones
    weight = weight.reshape(columns, channels, *kernel)
    quantized = x.type.quant is not None
    dtype = DType.INT8 if quantized else x.type.dtype
    quant = Quant(1.0, 0, None, -127, 127) if quantized else None
    constant = b.const(weight.astype(dtype.numpy), dtype, quant)
    image = carried(b, lambda v: b.reshape(v, (n, columns, *sizes)), x)
    pads = [p for p in padding for _ in (0, 1)]
    convolution = find_rule("aten.convolution", b.families)
    assert convolution is not None
    return convolution(b, image, constant, None, stride, pads, dilation, True, missing, 1)  # type: ignore[no-any-return]
