"""What Ethos-U55 and U65 compute faster in another form: means of whole images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuc.dialects.tflite import same_parameters
from npuc.ir import DType, Value
from npuc.lowering.aten_to_tflite import pool, reduce
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder


@lowers("aten.mean.dim", target="ethos-u55", dialect="tflite")
def mean(b: TfliteBuilder, x: Value, dim: Sequence[int], keepdim: bool) -> Value:
    """mean of an image -> TRANSPOSE, FULLY_CONNECTED by equal weights."""
    if x.type.rank == 4 and {d % 4 for d in dim} == {2, 3} and _has_own_parameters(b, x):
        return _by_weights(b, x)
    return reduce.mean(b, x, dim, keepdim)


@lowers("aten.avg_pool2d", target="ethos-u55", dialect="tflite")
def avg_pool2d(
    b: TfliteBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Value:  # fmt: skip
    """avg_pool2d of the whole image likewise."""
    axes = pool.windows(b, x, kernel, stride, padding)
    whole = all(w.is_whole for w in axes) and divisor_override is None
    if whole and _has_own_parameters(b, x):
        return _by_weights(b, x)
    return pool.avg_pool2d(
        b, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override
    )


def _has_own_parameters(b: TfliteBuilder, x: Value) -> bool:
    """Whether one image of INT8 has a mean with parameters of its own."""
    out = b.out[0]
    int8 = out.quant is not None and x.type.dtype is out.dtype is DType.INT8
    return int8 and x.type.ints[0] == 1 and not same_parameters(x.type.quant, out.quant)


def _by_weights(b: TfliteBuilder, x: Value) -> Value:
    """The mean over height and width of [1, C, H, W]. Vela's MEAN is a depthwise convolution of the
    whole image, which takes two to three times as long."""
    _, c, h, w = x.type.ints
    pixels = b.reshape(b.nhwc(x), (h * w, c))
    matrix = np.full((1, h * w), 1 / (h * w))
    y = pool.by_matrix(b, b.transpose(pixels, (1, 0)), matrix, b.out[0].quant)
    return b.reshape(y, b.out[0].ints)
