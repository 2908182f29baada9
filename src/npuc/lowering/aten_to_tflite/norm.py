"""Normalizations: formulas of floats; quantized in INT16 with a table for 1 / sqrt(variance)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tflite.operands import wide_type
from npuc.lowering.aten_to_tflite.reduce import spread
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import (
    TfliteBuilder,
    largest_magnitude,
    real_values,
    symmetric,
)


@lowers("aten.batch_norm", dialect="tflite")
def batch_norm(
    b: TfliteBuilder, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value,
    eps: float,
) -> Value:  # fmt: skip
    """batch_norm that follows no convolution -> MUL, ADD; quantized: a depthwise 1x1 convolution."""
    channels = x.type.ints[1]
    b.require(all(v is None or v.is_const for v in (weight, bias, mean, var)), "computed statistics")
    scale = 1 / np.sqrt(real_values(var) + eps)
    if weight is not None:
        scale = scale * real_values(weight)
    shift = -real_values(mean) * scale + (real_values(bias) if bias is not None else 0)
    if b.out[0].quant is None:
        shape = (channels,) + (1,) * (x.type.rank - 2)
        y = b.MUL(x, b.const(scale.reshape((1, *shape)).astype(np.float32)))
        return b.ADD(y, b.const(shift.reshape((1, *shape)).astype(np.float32)))  # type: ignore[no-any-return]
    return _affine_channels(b, b.operand(x), scale, shift)


def _affine_channels(b: TfliteBuilder, x: Value, scale: np.ndarray, shift: np.ndarray) -> Value:
    """scale * x + shift per channel (axis 1), exact to the last step: a depthwise convolution."""
    from npuc.ir import Quant
    from npuc.lowering.aten_to_tflite.emit_convolution import Convolution, emit_convolution
    from npuc.lowering.aten_to_tflite.weights import Weights, read_weights

    out, shape = b.out[0], x.type.ints
    n, c, inner = shape[0], shape[1], prod(shape[2:])
    step = np.maximum(np.abs(scale), 1e-12) / 127
    codes = np.rint(scale / step).astype(np.int8).reshape(c, 1, 1, 1)
    weight = b.const(codes, DType.INT8, Quant(step, 0, 0, -128, 127))
    wide = x if x.type.dtype is out.dtype else b.widened(x)
    weights = read_weights(b, wide, weight, b.const(shift.astype(np.float32)))
    rank = len(shape)
    moved = b.transpose(wide, (0, *range(2, rank), 1))
    image = b.reshape(moved, (n, 1, inner, c)) if rank != 4 else moved
    result = out if wide.type.dtype is out.dtype else wide_type(out)
    conv = Convolution(
        image, Weights(weights.filter, weights.bias), (1, 1), (0, 0, 0, 0), (1, 1), c,
        result.with_(shape=image.type.shape),
    )  # fmt: skip
    y = b.reshape(emit_convolution(b, conv), moved.type.ints)
    return b.requantize(b.transpose(y, (0, rank - 1, *range(1, rank - 1))), out)


@lowers("aten.layer_norm", dialect="tflite")
def layer_norm(
    b: TfliteBuilder, x: Value, shape: Sequence[int], weight: Value | None, bias: Value | None,
    eps: float,
) -> Value:  # fmt: skip
    """layer_norm -> MEAN, SUB, MUL, MEAN, 1/sqrt, MUL, weight and bias."""
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    return b.reshape(_normalized(b, x, axes, weight, bias, eps, True), b.out[0].ints)


@lowers("aten.rms_norm", dialect="tflite")
def rms_norm(
    b: TfliteBuilder, x: Value, shape: Sequence[int], weight: Value | None, eps: float | None
) -> Value:
    """rms_norm -> MEAN of squares, 1/sqrt, MUL, weight."""
    axes = tuple(range(x.type.rank - len(shape), x.type.rank))
    eps = float(np.finfo(np.float32).eps) if eps is None else eps
    return b.reshape(_normalized(b, x, axes, weight, None, eps, False), b.out[0].ints)


@lowers("aten.group_norm", dialect="tflite")
def group_norm(
    b: TfliteBuilder, x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float
) -> Value:
    """group_norm, instance_norm -> the same on [N, groups, channels, elements]."""
    shape = x.type.ints
    n, c = shape[:2]
    grouped = b.reshape(x, (n, groups, c // groups, prod(shape[2:])))

    def per_channel(v: Value | None) -> Value | None:
        return None if v is None else b.reshape(v, (groups, c // groups, 1))

    y = _normalized(b, grouped, (2, 3), per_channel(weight), per_channel(bias), eps, True)
    return b.reshape(y, shape)


def _normalized(
    b: TfliteBuilder, x: Value, axes: Sequence[int], weight: Value | None, bias: Value | None,
    eps: float, centered: bool,
) -> Value:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias; weight and bias broadcast at the end."""
    if b.out[0].quant is not None:
        return _quantized(b, b.operand(x), axes, weight, bias, eps, centered)
    difference = b.SUB(x, b.MEAN(x, axes=axes, keep_dims=True)) if centered else x
    variance = b.MEAN(b.SQUARE(difference), axes=axes, keep_dims=True)
    rank = x.type.rank
    inverse = b.RSQRT(b.ADD(variance, b.scalar(eps, DType.FP32, rank)))
    y = b.MUL(difference, inverse)
    y = y if weight is None else b.MUL(y, b.match_rank(weight, rank))
    return y if bias is None else b.ADD(y, b.match_rank(bias, rank))  # type: ignore[no-any-return]


def _quantized(
    b: TfliteBuilder, x: Value, axes: Sequence[int], weight: Value | None, bias: Value | None,
    eps: float, centered: bool,
) -> Value:  # fmt: skip
    out, rank = b.out[0], x.type.rank
    b.require(all(v is None or v.is_const for v in (weight, bias)), "computed weights of a norm")
    assert x.type.quant is not None and out.quant is not None
    if centered:
        difference, variance = spread(b, x, axes)
    else:
        difference = b.widened(x)
        largest = largest_magnitude(x.type.quant) ** 2
        square = b.MUL(difference, difference, quant=symmetric(largest))
        variance = b.MEAN(square, axes=axes, keep_dims=True, quant=symmetric(largest))
    assert variance.type.quant is not None
    # Below one step of the variance nothing is known: the smallest that counts is half of it.
    floor = max(eps, variance.type.quant.s / 2)
    inverse = b.lookup(
        variance, lambda v: 1 / np.sqrt(np.maximum(v, 0) + floor),
        variance.type.with_(quant=symmetric(1 / np.sqrt(floor))),
    )  # fmt: skip
    count = prod(x.type.ints[a] for a in axes)
    normal = symmetric(min(np.sqrt(count), 16.0))
    y = b.MUL(difference, inverse, quant=normal)
    result = wide_type(out).quant
    if weight is not None:
        factor = b.real_const(b.match_rank(weight, rank).array, DType.INT16)
        y = b.MUL(y, factor, quant=result)
    if bias is not None:
        y = b.ADD(y, b.real_const(b.match_rank(bias, rank).array, DType.INT16), quant=result)
    return b.requantize(y, out)
