"""The same convolution with its stride or dilation folded into other axes. Every fold is exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.emit_convolution import Convolution
from npuc.lowering.aten_to_tosa.weights import ACCUMULATOR, Weights, to_output
from npuc.lowering.tosa_builder import TosaBuilder


def extend(b: TosaBuilder, x: Value, axis: int, before: int, after: int) -> Value:
    """[N, H, W, C] with zeros (the zero point) around an axis.

    CONCAT and not PAD: Vela fuses a PAD into the convolution behind it, and pads with other values.
    """
    shape, zero = x.type.ints, b.zero_point(x).array[0]
    parts = []
    for size in (before, after):
        part = np.full((*shape[:axis], size, *shape[axis + 1 :]), zero, x.type.dtype.numpy)
        parts.append(b.const(part, x.type.dtype, x.type.quant) if size else None)
    operands = [p for p in (parts[0], x, parts[1]) if p is not None]
    if len(operands) == 1:
        return x
    return b.CONCAT(*operands, axis=axis, quant=x.type.quant)  # type: ignore[no-any-return]


def set_length(b: TosaBuilder, x: Value, axis: int, length: int) -> Value:
    """An axis cut, or extended by zeros, at its end."""
    shape = x.type.ints
    if length > shape[axis]:
        return extend(b, x, axis, 0, length - shape[axis])
    return b.slice(x, (0,) * len(shape), (*shape[:axis], length, *shape[axis + 1 :]))


def _blocks(b: TosaBuilder, conv: Convolution, i: int) -> tuple[Value, int, np.ndarray]:
    """Spatial axis `i` cut into blocks of a stride.

    The input with a whole number of blocks, the blocks of padding before it, and the kernel with
    zeros around it up to whole blocks.
    """
    step, size, before = conv.stride[i], conv.kernel_size[i], conv.pad[2 * i]
    padding = -(-before // step)
    lead = padding * step - before
    reach = (conv.out.ints[1 + i] - 1) * step + size - before
    length = -(-min(reach, conv.x.type.ints[1 + i]) // step) * step
    kernel = conv.weights.kernel.array
    wide = list(kernel.shape)
    wide[1 + i] = -(-(lead + size) // step) * step
    filled = np.full(wide, conv.weights.zero_point, kernel.dtype)
    at = [slice(None)] * kernel.ndim
    at[1 + i] = slice(lead, lead + size)
    filled[tuple(at)] = kernel
    return set_length(b, conv.x, 1 + i, length), padding, filled


def _with(
    b: TosaBuilder, conv: Convolution, x: Value, kernel: np.ndarray, i: int, padding: int
) -> Convolution:
    """`conv` with stride 1 along spatial axis `i`."""
    weights = replace(conv.weights, kernel=b.const(kernel, conv.weights.kernel.type.dtype))
    stride, pad, dilation = list(conv.stride), list(conv.pad), list(conv.dilation)
    stride[i], dilation[i] = 1, 1
    pad[2 * i : 2 * i + 2] = [padding, 0]
    return replace(conv, x=x, weights=weights, stride=tuple(stride), pad=tuple(pad),
                   dilation=tuple(dilation))  # fmt: skip


def fold_width_into_channels(b: TosaBuilder, conv: Convolution) -> Convolution:
    """[N, H, W, C] -> [N, H, W / s, s * C]: no data moves."""
    x, padding, kernel = _blocks(b, conv, 1)
    n, h, w, c = x.type.ints
    step = conv.stride[1]
    o, kh, kw, _ = kernel.shape
    folded = kernel.reshape(o, kh, kw // step, step * c)
    return _with(b, conv, b.reshape(x, (n, h, w // step, step * c)), folded, 1, padding)


def fold_height_into_channels(b: TosaBuilder, conv: Convolution) -> Convolution:
    """[N, H, W, C] -> [N, H / s, W, s * C] by one TRANSPOSE (0, 2, 1, 3)."""
    x, padding, kernel = _blocks(b, conv, 0)
    n, h, w, c = x.type.ints
    step = conv.stride[0]
    rows = b.transpose(b.reshape(x, (n * h // step, step, w, c)), (0, 2, 1, 3))
    o, kh, kw, _ = kernel.shape
    folded = kernel.reshape(o, kh // step, step, kw, c).transpose(0, 1, 3, 2, 4)
    folded = folded.reshape(o, kh // step, kw, step * c)
    return _with(b, conv, b.reshape(rows, (n, h // step, w, step * c)), folded, 0, padding)


def fold_height_into_batch(b: TosaBuilder, conv: Convolution) -> Convolution:
    """[N, H, W, C] -> [N * H / s, s, W, C] where windows do not overlap: no data moves.

    Otherwise as `fold_height_into_channels`.
    """
    x, _, kernel = _blocks(b, conv, 0)
    n, h, w, c = x.type.ints
    step = conv.stride[0]
    apart = conv.pad[0] == 0 and conv.kernel_size[0] <= step
    if not apart or h != conv.out.ints[1] * step:
        return fold_height_into_channels(b, conv)
    folded = _with(b, conv, b.reshape(x, (n * h // step, step, w, c)), kernel, 0, 0)
    _, out_h, out_w, o = conv.out.ints
    return replace(folded, out=conv.out.with_(shape=(n * out_h, 1, out_w, o)))


def rows_by_dilation(b: TosaBuilder, conv: Convolution) -> Convolution:
    """Along the width, kernel height 1: [N, H, W, C] -> [N * H, W / d, d, C], undilated over rows.

    The result has up to d - 1 positions more at its end: [N * H, blocks, d, O].
    """
    n, h, _, c = conv.x.type.ints
    taps, step, before = conv.kernel_size[1], conv.dilation[1], conv.pad[2]
    x = conv.x
    if before % step:
        x, before = extend(b, x, 2, before, 0), 0
    blocks = -(-conv.out.ints[2] // step)
    rows = min(-(-x.type.ints[2] // step), blocks + taps - 1 - before // step)
    x = b.reshape(set_length(b, x, 2, rows * step), (n * h, rows, step, c))
    kernel = conv.weights.kernel
    o, _, _, width = kernel.type.ints
    weights = replace(conv.weights, kernel=b.reshape(kernel, (o, taps, 1, width)))
    return replace(
        conv, x=x, weights=weights, pad=(before // step, 0, 0, 0), dilation=(1, 1),
        out=conv.out.with_(shape=(n * h, blocks, step, o)),
    )  # fmt: skip


def blocks_by_dilation(b: TosaBuilder, conv: Convolution) -> tuple[Convolution, tuple[int, ...]]:
    """Stride 1: positions of equal remainder together, so that dilated taps are neighbours.

    [N, H, W, C] -> [N * dx, H / dy, dy * (W / dx + gap), C]; the zeros of a gap are the padding of
    the block behind it. Also the shape (N, dx, H' * width, O) of the result in these blocks.
    """
    n, _, _, c = conv.x.type.ints
    (dy, dx), (top, _, left, _) = conv.dilation, conv.pad
    (kh, kw), (_, out_h, out_w, o) = conv.kernel_size, conv.out.ints
    shift_y, shift_x = top % dy and top, left % dx and left  # padding that makes no whole block
    top, left = (top - shift_y) // dy, (left - shift_x) // dx
    high, wide = -(-out_h // dy), -(-out_w // dx)
    rows = high + kh - 1 - top
    width = wide + kw - 1  # with a gap of `left`
    x = _enlarged(b, conv.x, (shift_y, shift_x), (rows * dy, width * dx))
    x = _swap(b, b.reshape(x, (n, rows * dy * width, dx, c)))
    changed = replace(
        conv, x=b.reshape(x, (n * dx, rows, dy * width, c)), pad=(top, 0, left, 0),
        dilation=(1, 1), out=conv.out.with_(shape=(n * dx, high, dy * width, o)),
    )  # fmt: skip
    return changed, (n, dx, high * dy * width, o)


def _enlarged(b: TosaBuilder, x: Value, before: tuple[int, int], size: tuple[int, int]) -> Value:
    """Height and width cut or padded to `size`. A TRANSPOSE follows, so that PAD is safe here."""
    n, h, w, c = x.type.ints
    kept = tuple(min(d, s - p) for d, p, s in zip((h, w), before, size, strict=True))
    x = b.slice(x, (0, 0, 0, 0), (n, *kept, c))
    after = [s - p - k for s, p, k in zip(size, before, kept, strict=True)]
    pads = (0, 0, before[0], after[0], before[1], after[1], 0, 0)
    if not any(pads):
        return x
    return b.PAD(x, pads, b.zero_point(x), quant=x.type.quant)  # type: ignore[no-any-return]


def restore_blocks(b: TosaBuilder, y: Value, blocks: tuple[int, ...], conv: Convolution) -> Value:
    """The result of `blocks_by_dilation` as that of `conv`."""
    n, high, wide, o = conv.out.ints
    rows = -(-high // conv.dilation[0]) * conv.dilation[0]
    image = b.reshape(_swap(b, b.reshape(y, blocks)), (n, rows, blocks[1] * blocks[2] // rows, o))
    return b.slice(image, (0, 0, 0, 0), (n, high, wide, o))


def _swap(b: TosaBuilder, x: Value) -> Value:
    """[N, A, B, C] -> [N, B, A, C]; without a batch as three axes, which is cheaper."""
    n, rows, columns, c = x.type.ints
    if n > 1:
        return b.transpose(x, (0, 2, 1, 3))
    swapped = b.transpose(b.reshape(x, (rows, columns, c)), (1, 0, 2))
    return b.reshape(swapped, (1, columns, rows, c))


def repeat_channels(b: TosaBuilder, x: Value, order: Sequence[int]) -> Value:
    """The channels `order` of [N, H, W, C], each as often as it is there: an exact 1x1 CONV2D."""
    channels = x.type.ints[3]
    kernel = np.zeros((len(order), 1, 1, channels), np.int8)
    kernel[np.arange(len(order)), 0, 0, list(order)] = 1
    accumulator = ACCUMULATOR[x.type.dtype]
    bias = b.const(np.zeros(len(order), accumulator.numpy), accumulator)
    weights = Weights(b.const(kernel), bias)
    acc = b.CONV2D(x, weights.kernel, bias, b.zero_point(x), b.zero_point(weights.kernel),
                   pad=(0, 0, 0, 0), acc_type=accumulator)  # fmt: skip
    assert x.type.quant is not None
    return to_output(b, acc, x.type.quant.s, x.type)
