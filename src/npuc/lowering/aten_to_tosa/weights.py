"""Weights and biases of convolutions and linear layers as TOSA takes them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.tosa_builder import TosaBuilder

#: element type of a convolution's input -> of its accumulator
ACCUMULATOR = {
    DType.INT8: DType.INT32, DType.INT16: DType.INT48, DType.FP32: DType.FP32,
    DType.FP16: DType.FP32, DType.BF16: DType.FP32, DType.FP8E4M3: DType.FP16,
    DType.FP8E5M2: DType.FP16,
}  # fmt: skip

#: a bias above this many accumulator steps leaves no room for the products
LARGEST_BIAS = 2**30


@dataclass(frozen=True)
class Weights:
    """The weight operand and what belongs to it.

    kernel: codes (or floats) without quantization, the axis of the output channels first.
    bias: [O] or [1] in the type the operator takes. scale: real worth of one accumulator step, one
    number or one per output channel; None for floats.
    """

    kernel: Value
    bias: Value
    scale: np.ndarray | None = None
    zero_point: int = 0

    @property
    def channels(self) -> int:
        """Number of output channels."""
        return self.kernel.type.ints[0]


def read_weights(
    b: TosaBuilder, x: Value, weight: Value, bias: Value | None, weight_quant: Quant | None
) -> Weights:
    """Weight [O, ...] quantized by `weight_quant` (None for floats) and bias [O] of an op on `x`.

    Raises Unsupported when TOSA has no convolution for these types.
    """
    dtype, quant = x.type.dtype, x.type.quant
    b.require(dtype in ACCUMULATOR, f"TOSA has no convolution of {dtype.name}")
    channels = weight.type.ints[0]
    if dtype.is_float:
        b.require(
            weight.type.dtype is dtype,
            f"input is {dtype.name} and weight {weight.type.dtype.name}; they have to be equal",
        )
        return Weights(weight, _float_bias(b, bias, dtype, channels))
    if quant is None or weight_quant is None:
        what, value = ("input", x) if quant is None else ("weight", weight)
        b.refuse(f"the {what} is {value.type.dtype.name} and not quantized")
    assert quant is not None and weight_quant is not None
    b.require(
        dtype is DType.INT8 or quant.zp == 0,
        f"TOSA has no zero point ({quant.zp}) for {dtype.name} activations",
        "quantize 16-bit activations symmetrically",
    )
    kernel, zero_point = _weight_codes(b, weight, weight_quant, dtype)
    step = quant.s * weight_quant.scale
    kernel, step, codes = _quantized_bias(b, kernel, bias, step, channels)
    return Weights(kernel, _accumulator_bias(b, codes, ACCUMULATOR[dtype]), step, zero_point)


def _float_bias(b: TosaBuilder, bias: Value | None, dtype: DType, channels: int) -> Value:
    dtype = DType.FP16 if dtype.bits == 8 else dtype
    if bias is None:
        return b.const(np.zeros(channels, dtype.numpy), dtype)
    if bias.is_const and bias.type.dtype is not dtype:
        return b.const(bias.array.astype(dtype.numpy), dtype)
    return bias


def _weight_codes(
    b: TosaBuilder, weight: Value, quant: Quant, activation: DType
) -> tuple[Value, int]:
    """The stored integers as INT8 (INT4 where the target has it), and their zero point."""
    zeros = np.unique(quant.zero_point)
    if not weight.is_const:
        b.require(not quant.per_channel, "computed weights have a scale per channel")
        b.require(
            weight.type.dtype is DType.INT8, f"weights are {weight.type.dtype.name}, not INT8"
        )
        return weight, int(zeros[0])
    if zeros.size == 1 and weight.type.dtype in (DType.INT8, DType.INT4):
        codes, zero_point = weight.array, int(zeros[0])
    else:
        shape = [1] * weight.type.rank
        if quant.axis is not None:
            shape[quant.axis] = -1
        codes = weight.array.astype(np.int64) - quant.zero_point.reshape(shape)
        zero_point = 0
        if codes.size and (codes.min() < -128 or codes.max() > 127):
            middle = 128 - int(zeros[0]) if zeros.size == 1 else 0
            codes, zero_point = codes - middle, -middle
        lo, hi = int(codes.min()), int(codes.max())
        b.require(
            lo >= -128 and hi <= 127,
            f"weights minus their zero points reach {lo}..{hi}; TOSA's weights have 8 bits",
            "quantize the weights symmetrically",
        )
        codes = codes.astype(np.int8)
    narrow = quant.qmin >= -8 and quant.qmax <= 7 and activation is DType.INT8
    if narrow and zero_point == 0 and "EXT-INT4" in b.limits.offered and int(codes.min()) >= -7:
        return b.const(codes, DType.INT4), 0
    return b.const(codes, DType.INT8), zero_point


def _quantized_bias(
    b: TosaBuilder, kernel: Value, bias: Value | None, step: np.ndarray, channels: int
) -> tuple[Value, np.ndarray, np.ndarray | Value]:
    """Bias codes at the accumulator's scale `step`.

    A channel with tiny weights beside a large bias gets coarser weights, so that the bias fits.
    """
    if bias is None:
        return kernel, step, np.zeros(channels, np.int64)
    if bias.type.quant is not None and np.array_equal(
        np.broadcast_to(bias.type.quant.scale, channels), np.broadcast_to(step, channels)
    ) and not np.any(bias.type.quant.zero_point):  # fmt: skip
        return kernel, step, bias.array if bias.is_const else bias
    b.require(
        bias.is_const,
        f"the bias is computed and not at the scale of the accumulator, {float(step[0]):g}",
    )
    real = np.asarray(bias.array, np.float64)
    if bias.type.quant is not None:
        real = bias.type.quant.dequantize(bias.array)
    codes = np.rint(real / step)
    if np.abs(codes).max(initial=0) > LARGEST_BIAS:
        b.require(kernel.is_const, "the bias exceeds the accumulator and the weights are computed")
        wide = np.maximum(np.broadcast_to(step, channels), np.abs(real) / LARGEST_BIAS)
        ratio = (step / wide).reshape(-1, *[1] * (kernel.type.rank - 1))
        kernel = b.const(np.rint(kernel.array * ratio).astype(np.int8), kernel.type.dtype)
        step, codes = wide, np.rint(real / wide)
    return kernel, step, codes.astype(np.int64)


def _accumulator_bias(b: TosaBuilder, codes: np.ndarray | Value, accumulator: DType) -> Value:
    if isinstance(codes, Value):
        b.require(
            codes.type.dtype is accumulator,
            f"the bias is {codes.type.dtype.name}, the accumulator {accumulator.name}",
        )
        return codes
    if codes.dtype != accumulator.numpy:
        codes = codes.astype(accumulator.numpy)
    return b.const(codes, accumulator)


def to_output(
    b: TosaBuilder, acc: Value, scale: np.ndarray | float | None, out: TensorType
) -> Value:
    """The accumulator as the op's result: one RESCALE, per channel where `scale` is a vector."""
    if scale is not None:
        return b.requantize(acc, scale, out)
    if acc.type.dtype is out.dtype:
        return acc
    return b.CAST(acc, dtype=out.dtype)  # type: ignore[no-any-return]


def affine_weights(b: TosaBuilder, x: Value, gamma: np.ndarray, beta: np.ndarray) -> Weights:
    """x * gamma + beta per channel as weights [C] with a scale per channel: gamma is exact."""
    quant, dtype = x.type.quant, x.type.dtype
    b.require(
        quant is not None and dtype in (DType.INT8, DType.INT16),
        f"normalization of {dtype.name} values that are not quantized to 8 or 16 bits",
    )
    assert quant is not None
    b.require(dtype is DType.INT8 or quant.zp == 0, f"zero point {quant.zp} of {dtype.name} values")
    tiny = np.finfo(np.float32).tiny / quant.s
    step = quant.s * np.maximum(np.abs(gamma) / 127, tiny)
    step = np.maximum(step, np.abs(beta) / LARGEST_BIAS)
    codes = np.rint(gamma * quant.s / step).astype(np.int8)
    bias = _accumulator_bias(b, np.rint(beta / step).astype(np.int64), ACCUMULATOR[dtype])
    return Weights(b.const(codes), bias, step)
