"""Convolutions of the model: read into TFLite's layout, emitted, and turned back."""

from __future__ import annotations

from collections.abc import Sequence

from npuc.ir import Value
from npuc.lowering.aten_to_tflite.emit_convolution import Convolution, emit_convolution
from npuc.lowering.aten_to_tflite.transposed_convolution import emit_transposed, transposed_filter
from npuc.lowering.aten_to_tflite.weights import Weights, one_width, read_weights
from npuc.lowering.registry import lowers
from npuc.lowering.rule_builder import NCHW, NHWC
from npuc.lowering.tflite_builder import TfliteBuilder


@lowers("aten.convolution", dialect="tflite")
def convolution(
    b: TfliteBuilder, x: Value, weight: Value, bias: Value | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """convolution -> CONV_2D, DEPTHWISE_CONV_2D, CONV_3D, TRANSPOSE_CONV; 1-D ones of height 1."""
    rank = x.type.rank
    filter = transposed_filter(b, weight, groups) if transposed else weight
    x, result = one_width(b, x, b.out[0])
    weights = read_weights(b, x, filter, bias)
    weights = Weights(b.transpose(weights.filter, NHWC[rank]), weights.bias)
    out = result.transposed(NHWC[rank])
    x = b.nhwc(x)
    if rank == 3:
        (n, t, c), (o, k, i) = x.type.ints, weights.filter.type.ints
        x = b.reshape(x, (n, 1, t, c))
        weights = Weights(b.reshape(weights.filter, (o, 1, k, i)), weights.bias)
        out = out.with_(shape=(out.shape[0], 1, *out.shape[1:]))
        stride, padding, dilation = (1, *stride), (0, 0, *padding), (1, *dilation)
    conv = Convolution(x, weights, tuple(stride), tuple(padding), tuple(dilation), groups, out)
    if transposed:
        y = emit_transposed(b, conv)
    elif is_column(conv):
        y = b.reshape(emit_convolution(b, as_row(b, conv)), out.ints)
    else:
        y = emit_convolution(b, conv)
    if rank == 3:
        y = b.reshape(y, (y.type.ints[0], *y.type.ints[2:]))
    return b.as_result(b.transpose(y, NCHW[rank]))


def is_column(conv: Convolution) -> bool:
    """Whether a 2-D convolution runs along the height only, of an image of width 1."""
    return (
        len(conv.stride) == 2
        and conv.x.type.shape[2] == 1
        and conv.kernel[1] == 1
        and (conv.kernel[0] > 1 and conv.out.shape[2] == 1 and conv.pad[2:] == (0, 0))
    )


def as_row(b: TfliteBuilder, conv: Convolution) -> Convolution:
    """A column as a row: no data moves, and NPUs take longer kernels along the width."""
    n, h, _, c = conv.x.type.ints
    o, kh, _, i = conv.weights.filter.type.ints
    _, oh, _, oc = conv.out.ints
    return Convolution(
        b.reshape(conv.x, (n, 1, h, c)),
        Weights(b.reshape(conv.weights.filter, (o, 1, kh, i)), conv.weights.bias),
        (1, conv.stride[0]), (0, 0, *conv.pad[:2]), (1, conv.dilation[0]), conv.groups,
        conv.out.with_(shape=(n, 1, oh, oc)),
    )  # fmt: skip
