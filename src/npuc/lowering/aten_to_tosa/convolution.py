"""Convolutions of the model: read into TOSA's layout, emitted, and turned back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.emit_convolution import (
    Convolution,
    emit_convolution,
    reach_input,
)
from npuc.lowering.aten_to_tosa.transposed_convolution import emit_transposed, transposed_kernel
from npuc.lowering.aten_to_tosa.weights import read_weights
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import NCHW, NHWC, TosaBuilder


@lowers("aten.convolution")
def convolution(
    b: TosaBuilder, x: Value, weight: Value, bias: Value | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool,
    output_padding: Sequence[int], groups: int,
) -> Value:  # fmt: skip
    """convolution -> CONV2D, DEPTHWISE_CONV2D, CONV3D or TRANSPOSE_CONV2D, and one RESCALE."""
    conv = read_convolution(b, x, weight, bias, stride, padding, dilation, transposed, groups)
    emit = emit_transposed if transposed else emit_convolution
    return to_model(b, emit(b, conv), x.type.rank)


def read_convolution(
    b: TosaBuilder, x: Value, weight: Value, bias: Value | None, stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], transposed: bool, groups: int,
) -> Convolution:  # fmt: skip
    """The operands of `aten.convolution` in TOSA's layout, 1-D ones as 2-D of height 1."""
    rank = x.type.rank
    if transposed:
        kernel, quant = transposed_kernel(b, weight, groups)
    else:
        kernel, quant = b.transpose(weight, NHWC[rank]), weight.type.quant
    weights = read_weights(b, x, kernel, bias, quant)
    out = b.out[0].transposed(NHWC[rank])
    if rank == 3:
        o, k, c = kernel.type.ints
        weights = replace(weights, kernel=b.reshape(weights.kernel, (o, 1, k, c)))
        out = out.with_(shape=(out.shape[0], 1, *out.shape[1:]))
        stride, padding, dilation = (1, *stride), (0, 0, *padding), (1, *dilation)
    conv = Convolution(
        to_channels_last(b, x), weights, tuple(stride), tuple(padding), tuple(dilation), groups, out
    )
    return conv if transposed else reach_input(b, conv)


def to_channels_last(b: TosaBuilder, x: Value) -> Value:
    """The model's [N, C, ...] as TOSA's [N, ..., C]; [N, C, T] as [N, 1, T, C]."""
    if x.type.rank != 3:
        return b.nhwc(x)
    n, c, t = x.type.ints
    return b.reshape(b.nhwc(x), (n, 1, t, c))


def to_model(b: TosaBuilder, y: Value, rank: int) -> Value:
    """The reverse of `to_channels_last`, for a model's value of this rank."""
    if rank == 3:
        n, _, t, c = y.type.ints
        y = b.reshape(y, (n, t, c))
    return b.transpose(y, NCHW[rank])
