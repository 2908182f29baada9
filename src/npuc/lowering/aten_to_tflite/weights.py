"""Weights and biases of convolutions and linear layers as TFLite takes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tflite.operands import wide_type
from npuc.lowering.tflite_builder import TfliteBuilder, real_values

#: a bias above this many accumulator steps leaves no room for the products
LARGEST_BIAS = 2**30
#: element type of a layer's input -> of its bias
BIAS_TYPE = {DType.FP32: DType.FP32, DType.INT8: DType.INT32, DType.INT16: DType.INT64}


@dataclass(frozen=True)
class Weights:
    """A weight [O, ...] (or [O/g, ...]), output channels first, and its bias [O]."""

    filter: Value
    bias: Value

    @property
    def channels(self) -> int:
        return self.filter.type.ints[0]


def one_width(b: TfliteBuilder, x: Value, out: TensorType) -> tuple[Value, TensorType]:
    """The input and the result's type of a weighted operator, which has one activation type: INT16
    where one of the two is. `b.requantize` turns its result into `out`."""
    if out.quant is None or x.type.quant is None or x.type.dtype is out.dtype:
        return x, out
    return b.widened(x), wide_type(out)


def read_weights(b: TfliteBuilder, x: Value, weight: Value, bias: Value | None) -> Weights:
    """Weight [O, ...] and bias [O] of an op on `x`.

    Raises Unsupported when TFLite has no kernel for these types.
    """
    dtype = x.type.dtype
    channels = weight.type.ints[0]
    if dtype.is_float or x.type.quant is None:
        b.require(
            dtype is DType.FP32 and weight.type.dtype is dtype,
            f"LiteRT has no kernel for {dtype.name} input and {weight.type.dtype.name} weight",
        )
        zeros = np.zeros(channels, np.float32)
        return Weights(weight, b.const(zeros) if bias is None else bias)
    b.require(dtype in BIAS_TYPE, f"LiteRT has no kernel for {dtype.name} input")
    weight = _symmetric(b, weight, dtype)
    return _with_bias(b, weight, bias, x.type.quant, BIAS_TYPE[dtype])


def _symmetric(b: TfliteBuilder, weight: Value, activation: DType) -> Value:
    """The weight as INT8 (or INT4 where its values and the target allow it) with zero point 0."""
    quant = weight.type.quant
    b.require(quant is not None, f"the weight is {weight.type.dtype.name} and not quantized")
    assert quant is not None
    if not weight.is_const:
        b.require(
            not np.any(quant.zero_point) and weight.type.dtype is DType.INT8,
            f"computed weights of {weight.type.dtype.name} with zero point {quant.zp}; "
            "TFLite's weights have zero point 0",
        )
        return weight
    shape = [1] * weight.type.rank
    if quant.axis is not None:
        shape[quant.axis] = -1
    codes = weight.array
    if np.any(quant.zero_point):
        codes = codes.astype(np.int32) - quant.zero_point.reshape(shape)
    low, high = int(codes.min(initial=0)), int(codes.max(initial=0))
    if low < -128 or high > 127:
        return b.real_const(weight.type.quant.dequantize(weight.array), DType.INT8)  # type: ignore[union-attr]
    narrow = b.limits.int4 and activation is DType.INT8 and weight.type.dtype is DType.INT4
    kept = DType.INT4 if narrow and low >= -8 and high <= 7 else DType.INT8
    quant = Quant(quant.scale, 0, quant.axis, *kept.range)
    return b.const(codes.astype(np.int8, copy=False), kept, quant)


def _with_bias(
    b: TfliteBuilder, weight: Value, bias: Value | None, x: Quant, dtype: DType
) -> Weights:
    """The bias at the scale of the accumulator.

    A channel with tiny weights beside a large bias gets coarser weights, so that the bias fits.
    """
    channels = weight.type.ints[0]
    quant = weight.type.quant
    assert quant is not None
    step = x.s * quant.scale
    real = np.zeros(channels)
    if bias is not None:
        b.require(bias.is_const, "the bias is computed; TFLite's quantized layers take constants")
        real = np.broadcast_to(real_values(bias), channels)
    if dtype is DType.INT32 and np.abs(real / step).max(initial=0) > LARGEST_BIAS:
        b.require(weight.is_const, "the bias exceeds the accumulator and the weights are computed")
        wide = np.maximum(np.broadcast_to(step, channels), np.abs(real) / LARGEST_BIAS)
        ratio = (step / wide).reshape(-1, *[1] * (weight.type.rank - 1))
        quant = Quant(wide / x.s, 0, 0, quant.qmin, quant.qmax)
        weight = b.const(np.rint(weight.array * ratio).astype(np.int8), weight.type.dtype, quant)
        step = x.s * quant.scale
    codes = np.rint(real / step).astype(dtype.numpy)
    return Weights(weight, b.const(codes, dtype, Quant(step, 0, 0, *dtype.range)))


def slice_channels(
    b: TfliteBuilder, weights: Weights, start: int, size: int, step: int = 1
) -> Weights:
    """Those of `size` output channels, every `step`-th from `start` on."""
    found, part = [], slice(start, start + size * step, step)
    for value in (weights.filter, weights.bias):
        b.require(value.is_const, "grouped convolutions with computed weights")
        quant = value.type.quant
        if quant is not None and quant.axis == 0:
            quant = Quant(quant.scale[part], 0, 0, quant.qmin, quant.qmax)
        found.append(b.const(value.array[part], value.type.dtype, quant))
    return Weights(*found)
