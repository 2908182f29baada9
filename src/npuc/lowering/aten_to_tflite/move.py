"""Ops that only move data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tflite.emit_convolution import strided
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder


@lowers("aten.view", dialect="tflite")
def view(b: TfliteBuilder, x: Value, shape: Sequence[int]) -> Value:
    """view, reshape, flatten, squeeze ... -> RESHAPE."""
    return b.as_result(b.reshape(x, b.out[0].ints))


@lowers("aten.permute", dialect="tflite")
def permute(b: TfliteBuilder, x: Value, dims: Sequence[int]) -> Value:
    """permute, transpose -> TRANSPOSE."""
    return b.as_result(b.transpose(x, dims))


@lowers("aten.expand", dialect="tflite")
def expand(b: TfliteBuilder, x: Value, shape: Sequence[int]) -> Value:
    """expand -> TILE, which more NPUs take than BROADCAST_TO."""
    return b.as_result(broadcast_to(b, x, b.out[0].ints))


def broadcast_to(b: TfliteBuilder, x: Value, shape: Sequence[int]) -> Value:
    """`x` of equal or lower rank, repeated along its axes of size 1; a constant at once."""
    if x.type.shape == tuple(shape):
        return x
    if x.is_const:
        return b.const(np.broadcast_to(x.array, tuple(shape)), x.type.dtype, x.type.quant)
    x = b.match_rank(x, len(shape))
    if not b.limits.spreads and x.type.quant is not None:
        return spread(b, x, shape)
    return b.TILE(x, multiples=[n // d for n, d in zip(shape, x.type.ints, strict=True)])  # type: ignore[no-any-return]


def spread(b: TfliteBuilder, x: Value, shape: Sequence[int]) -> Value:
    """Quantized `x` repeated along its axes of size 1, as a sum with zeros of that shape."""
    quant = x.type.quant
    assert quant is not None
    zeros = np.broadcast_to(np.array(quant.zp, x.type.dtype.numpy), tuple(shape))
    return b.ADD(x, b.const(zeros, x.type.dtype, quant), quant=quant)  # type: ignore[no-any-return]


@lowers("aten.repeat", dialect="tflite")
def repeat(b: TfliteBuilder, x: Value, repeats: Sequence[int]) -> Value:
    """repeat, tile -> TILE."""
    if all(r == 1 for r in repeats):
        return b.as_result(x)
    return b.as_result(b.TILE(x, multiples=repeats))


@lowers("aten.cat", dialect="tflite")
def cat(b: TfliteBuilder, tensors: Sequence[Value], dim: int) -> Value:
    """cat, stack -> CONCATENATION; parts with other parameters are requantized first."""
    return concatenated(b, [b.as_result(t) for t in tensors], dim)


def concatenated(b: TfliteBuilder, parts: Sequence[Value], axis: int) -> Value:
    """CONCATENATION of at least one part."""
    return parts[0] if len(parts) == 1 else b.CONCATENATION(*parts, axis=axis)


@lowers("aten.slice", "aten.slice.Tensor", dialect="tflite")
def slice_(b: TfliteBuilder, x: Value, dim: int, start: int, end: int, step: int) -> Value:
    """slice -> SLICE, STRIDED_SLICE where it has a step."""
    return b.as_result(strided(b, x, dim, start, end, step))


@lowers("aten.slice_scatter", dialect="tflite")
def slice_scatter(
    b: TfliteBuilder, x: Value, source: Value, dim: int, start: int, end: int, step: int
) -> Value:
    """slice_scatter with a step -> CONCATENATION of the elements between and those given."""
    x, source = b.as_result(x), b.as_result(source)
    size, parts = x.type.ints[dim], []
    place = 0
    for k, at in enumerate(range(start, end, step)):
        if at > place:
            parts.append(strided(b, x, dim, place, at, 1))
        parts.append(strided(b, source, dim, k, k + 1, 1))
        place = at + 1
    if place < size:
        parts.append(strided(b, x, dim, place, size, 1))
    return concatenated(b, parts, dim)


@lowers("aten.flip", dialect="tflite")
def flip(b: TfliteBuilder, x: Value, dims: Sequence[int]) -> Value:
    """flip -> REVERSE_V2, one axis at a time."""
    for dim in dims:
        if x.type.shape[dim] != 1:
            x = b.REVERSE_V2(x, axes=(dim,))
    return b.as_result(x)


@lowers("aten.roll", dialect="tflite")
def roll(b: TfliteBuilder, x: Value, shifts: Sequence[int], dims: Sequence[int]) -> Value:
    """roll -> two SLICEs and a CONCATENATION per axis."""
    for shift, dim in zip(shifts, dims, strict=True):
        size = x.type.ints[dim]
        first = -shift % size
        if first:
            parts = strided(b, x, dim, first, size, 1), strided(b, x, dim, 0, first, 1)
            x = b.CONCATENATION(*parts, axis=dim)
    return b.as_result(x)


@lowers("aten.pad", dialect="tflite")
def pad(b: TfliteBuilder, x: Value, pads: Sequence[int], mode: str, value: float) -> Value:
    """pad -> PAD, PADV2, MIRROR_PAD (reflect), CONCATENATION of edges (replicate, circular)."""
    if mode == "constant":
        return padded(b, x, pads, value)
    x = b.as_result(x)
    if mode == "reflect":
        return b.MIRROR_PAD(x, paddings=pads) if any(pads) else x
    for axis in range(x.type.rank):
        before, after = pads[2 * axis], pads[2 * axis + 1]
        if before or after:
            x = _edges(b, x, axis, before, after, mode)
    return x


def padded(b: TfliteBuilder, x: Value, pads: Sequence[int], value: float) -> Value:
    """PAD (its value is zero) or PADV2, with the parameters of the op's result.

    Raises Unsupported for a rank above 5, as LiteRT's kernels have it.
    """
    if x.type.quant is not None or b.out[0].quant is not None:
        x = b.as_result(x)
    if not any(pads):
        return x
    x, pads, shape = _collapsed(b, x, pads)
    if value == 0:
        return b.reshape(b.PAD(x, paddings=pads), shape)
    fill = np.full(1, value)
    dtype, quant = x.type.dtype, x.type.quant
    constant = (
        b.real_const(fill, dtype, quant) if quant else b.const(fill.astype(dtype.numpy), dtype)
    )
    return b.reshape(b.PADV2(x, constant, paddings=pads), shape)


def _collapsed(
    b: TfliteBuilder, x: Value, pads: Sequence[int]
) -> tuple[Value, Sequence[int], tuple[int, ...]]:
    """Neighbouring axes without padding merged where the rank is above 5; the shape afterwards."""
    shape = tuple(d + p + q for d, p, q in zip(x.type.ints, pads[::2], pads[1::2], strict=True))
    if x.type.rank <= 5:
        return x, pads, shape
    sizes: list[int] = []
    merged: list[tuple[int, int]] = []
    for d, p, q in zip(x.type.ints, pads[::2], pads[1::2], strict=True):
        if merged and merged[-1] == (p, q) == (0, 0):
            sizes[-1] *= d
        else:
            sizes.append(d)
            merged.append((p, q))
    return b.reshape(x, sizes), [n for pair in merged for n in pair], shape


def _edges(b: TfliteBuilder, x: Value, axis: int, before: int, after: int, mode: str) -> Value:
    size, parts = x.type.ints[axis], [x]
    if mode == "circular":
        b.require(
            max(before, after) <= size, f"circular padding {max(before, after)} of size {size}"
        )
        head = strided(b, x, axis, size - before, size, 1) if before else None
        tail = strided(b, x, axis, 0, after, 1) if after else None
    else:
        b.require(mode == "replicate", f"padding mode {mode!r}")
        head = _repeated(b, strided(b, x, axis, 0, 1, 1), axis, before)
        tail = _repeated(b, strided(b, x, axis, size - 1, size, 1), axis, after)
    parts = [part for part in (head, x, tail) if part is not None]
    return concatenated(b, parts, axis)


def _repeated(b: TfliteBuilder, edge: Value, axis: int, count: int) -> Value | None:
    if count < 2:
        return edge if count else None
    shape = list(edge.type.ints)
    shape[axis] = count
    return broadcast_to(b, edge, shape)


@lowers("aten.pixel_shuffle", dialect="tflite")
def pixel_shuffle(b: TfliteBuilder, x: Value, factor: int) -> Value:
    """pixel_shuffle -> DEPTH_TO_SPACE, after the channels are put in TFLite's order."""
    n, c, h, w = x.type.ints
    if factor == 1:
        return b.as_result(x)
    c //= factor**2
    if not b.takes("DEPTH_TO_SPACE", x.type.dtype):
        blocks = b.reshape(x, (n, c, factor, factor, h, w))
        y = b.reshape(b.transpose(blocks, (0, 1, 4, 2, 5, 3)), (n, c, h * factor, w * factor))
        return b.as_result(y)
    y = swap_channel_blocks(b, b.nhwc(x), c, factor**2)
    return b.as_result(b.nchw(b.DEPTH_TO_SPACE(y, block_size=factor)))


@lowers("aten.pixel_unshuffle", dialect="tflite")
def pixel_unshuffle(b: TfliteBuilder, x: Value, factor: int) -> Value:
    """pixel_unshuffle -> SPACE_TO_DEPTH, then the channels are put in PyTorch's order."""
    n, c, h, w = x.type.ints
    if factor == 1:
        return b.as_result(x)
    if not b.takes("SPACE_TO_DEPTH", x.type.dtype):
        blocks = b.reshape(x, (n, c, h // factor, factor, w // factor, factor))
        y = b.transpose(blocks, (0, 1, 3, 5, 2, 4))
        return b.as_result(b.reshape(y, b.out[0].ints))
    y = b.SPACE_TO_DEPTH(b.nhwc(x), block_size=factor)
    return b.as_result(b.nchw(swap_channel_blocks(b, y, factor**2, c)))


def swap_channel_blocks(b: TfliteBuilder, x: Value, outer: int, inner: int) -> Value:
    """Channels [outer, inner] of [N, H, W, C] as [inner, outer]: a TRANSPOSE of rank 3."""
    if outer == 1 or inner == 1:
        return x
    n, h, w, _ = x.type.ints
    y = b.transpose(b.reshape(x, (n * h * w, outer, inner)), (0, 2, 1))
    return b.reshape(y, x.type.ints)


@lowers("aten.unfold", dialect="tflite")
def unfold(b: TfliteBuilder, x: Value, dim: int, size: int, step: int) -> Value:
    """Tensor.unfold -> GATHER of every window; the window becomes the last axis."""
    count = (x.type.ints[dim] - size) // step + 1
    index = np.arange(count)[:, None] * step + np.arange(size)[None]
    y = b.GATHER(x, b.const(index.astype(np.int32)), axis=dim)
    rank = x.type.rank
    order = [*range(dim + 1), *range(dim + 2, rank + 1), dim + 1]
    return b.as_result(b.transpose(y, order))


@lowers("aten.clone", "aten.alias", "aten.detach", dialect="tflite")
def identity(b: TfliteBuilder, x: Value, *_: object, **__: object) -> Value:
    """clone -> nothing."""
    return b.as_result(x)
