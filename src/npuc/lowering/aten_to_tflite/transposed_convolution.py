"""Transposed convolutions: TRANSPOSE_CONV, or an ordinary convolution of a stuffed input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from npuc.ir import Quant, Value
from npuc.lowering.aten_to_tflite.emit_convolution import (
    Convolution,
    emit_convolution,
    pad_spatial,
    split_groups,
)
from npuc.lowering.aten_to_tflite.weights import Weights
from npuc.lowering.tflite_builder import TfliteBuilder


def transposed_filter(b: TfliteBuilder, weight: Value, groups: int) -> Value:
    """[I, O / g, kernel...] as [O, I / g, kernel...], output channels first."""
    i, o, *kernel = weight.type.ints
    swap = (1, 0, *range(2, 2 + len(kernel)))
    if groups == 1:
        return b.transpose(weight, swap)
    b.require(weight.is_const, "grouped transposed convolutions with computed weights")
    array = weight.array.reshape(groups, i // groups, o, *kernel).swapaxes(1, 2)
    quant = weight.type.quant
    if quant is not None and quant.axis == 1:
        scale = np.tile(quant.scale, groups)
        quant = Quant(scale, np.tile(quant.zero_point, groups), 0, quant.qmin, quant.qmax)
    elif quant is not None and quant.axis == 0:
        b.refuse("the weight has a scale per input channel", "quantize it per output channel")
    return b.const(array.reshape(groups * o, i // groups, *kernel), weight.type.dtype, quant)


def emit_transposed(b: TfliteBuilder, conv: Convolution) -> Value:
    """TRANSPOSE_CONV with SAME where that is the padding, else whole and a SLICE of it."""
    if conv.groups > 1:
        parts = [emit_transposed(b, part) for part in split_groups(b, conv)]
        return b.CONCATENATION(*parts, axis=parts[0].type.rank - 1)  # type: ignore[no-any-return]
    if len(conv.stride) == 3:
        return _stuffed(b, conv)
    conv = _without_dilation(b, conv)
    sizes, out = conv.x.type.ints[1:3], conv.out.ints
    whole = [(n - 1) * s + k for n, s, k in zip(sizes, conv.stride, conv.kernel, strict=True)]
    cut = [max(w - o, 0) for w, o in zip(whole, out[1:3], strict=True)]
    before = [c // 2 for c in cut]
    same = all(-(-o // s) == n for o, s, n in zip(out[1:3], conv.stride, sizes, strict=True))
    if same and before == [conv.pad[0], conv.pad[2]] and any(cut):
        return _emit(b, conv, out[1:3], "SAME")
    needed = [
        max(w, p + o) for w, p, o in zip(whole, (conv.pad[0], conv.pad[2]), out[1:3], strict=True)
    ]
    reach = [min(n, w + s - 1) for n, w, s in zip(needed, whole, conv.stride, strict=True)]
    y = _emit(b, conv, reach, "VALID")
    y = _extended(b, conv, y, [n - r for n, r in zip(needed, reach, strict=True)])
    start = (0, conv.pad[0], conv.pad[2], 0)
    return b.slice(y, start, out)


def _emit(
    b: TfliteBuilder, conv: Convolution, size: list[int] | tuple[int, ...], padding: str
) -> Value:
    shape = (conv.x.type.ints[0], *size, conv.weights.channels)
    return b.TRANSPOSE_CONV(  # type: ignore[no-any-return]
        conv.weights.filter, conv.x, conv.weights.bias, output_shape=shape, padding=padding,
        stride=conv.stride, quant=conv.out.quant,
    )  # fmt: skip


def _extended(b: TfliteBuilder, conv: Convolution, y: Value, more: list[int]) -> Value:
    """`y` with further rows and columns that no input reaches: they hold the bias."""
    b.require(
        not any(more),
        f"output_padding reaches {max(more)} beyond the stride {conv.stride}",
        "use an output_padding below the stride",
    )
    return y


def _without_dilation(b: TfliteBuilder, conv: Convolution) -> Convolution:
    """Dilation as zeros between the taps of the filter."""
    if all(d == 1 for d in conv.dilation):
        return conv
    b.require(conv.weights.filter.is_const, "dilated transposed convolutions with computed weights")
    array = conv.weights.filter.array
    o, *kernel, i = array.shape
    wide = [(k - 1) * d + 1 for k, d in zip(kernel, conv.dilation, strict=True)]
    stuffed = np.zeros((o, *wide, i), array.dtype)
    stuffed[(slice(None), *(slice(None, None, d) for d in conv.dilation))] = array
    filter = conv.weights.filter
    filter = b.const(stuffed, filter.type.dtype, filter.type.quant)
    return replace(
        conv, weights=Weights(filter, conv.weights.bias), dilation=(1,) * len(conv.dilation)
    )


def _stuffed(b: TfliteBuilder, conv: Convolution) -> Value:
    """An ordinary convolution, stride 1, of the input with zeros between its elements."""
    b.require(conv.weights.filter.is_const, "3-D transposed convolutions with computed weights")
    x = conv.x
    for axis, stride in enumerate(conv.stride, 1):
        x = _spread(b, x, axis, stride)
    reach = [(k - 1) * d for k, d in zip(conv.kernel, conv.dilation, strict=True)]
    pads, cuts = [], []
    for i, r in enumerate(reach):
        size = x.type.ints[1 + i]
        before = r - conv.pad[2 * i]
        after = conv.out.ints[1 + i] + r - before - size
        pads.append((max(before, 0), max(after, 0)))
        cuts.append((max(-before, 0), size - max(-before, 0) - max(-after, 0)))
    n, c = x.type.ints[0], x.type.ints[-1]
    x = b.slice(x, (0, *(s for s, _ in cuts), 0), (n, *(s for _, s in cuts), c))
    x = pad_spatial(b, x, pads)
    filter = conv.weights.filter
    flipped = filter.array[(slice(None), *[slice(None, None, -1)] * len(reach))]
    weights = Weights(b.const(flipped, filter.type.dtype, filter.type.quant), conv.weights.bias)
    ones, zeros = (1,) * len(reach), (0,) * (2 * len(reach))
    return emit_convolution(b, replace(conv, x=x, weights=weights, stride=ones, pad=zeros))


def _spread(b: TfliteBuilder, x: Value, axis: int, stride: int) -> Value:
    """`stride` - 1 zeros between the elements of an axis, by PAD of an axis of size 1."""
    if stride == 1:
        return x
    shape = x.type.ints
    outer, size = int(np.prod(shape[:axis])), shape[axis]
    inner = int(np.prod(shape[axis + 1 :]))
    y = b.reshape(x, (outer, size, 1, inner))
    y = b.PAD(y, paddings=(0, 0, 0, 0, 0, stride - 1, 0, 0))
    y = b.reshape(y, (outer, size * stride, inner))
    y = b.slice(y, (0, 0, 0), (outer, size * stride - stride + 1, inner))
    return b.reshape(y, (*shape[:axis], size * stride - stride + 1, *shape[axis + 1 :]))
