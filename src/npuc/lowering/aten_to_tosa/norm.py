"""Batch, layer, root-mean-square and group normalization."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt

import numpy as np

from npuc.ir import DType, TensorType, Value
from npuc.ir.symbolic import largest
from npuc.lowering.aten_to_tosa.integer_norm import normalize
from npuc.lowering.aten_to_tosa.integer_sums import Rows
from npuc.lowering.aten_to_tosa.norm_affine import Affine, ApplyAffine, multiply_and_add
from npuc.lowering.aten_to_tosa.open_sizes import inverse_size
from npuc.lowering.aten_to_tosa.weights import ACCUMULATOR, affine_weights, to_output
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import NCHW, NHWC, TosaBuilder

#: what PyTorch adds to a mean square when it is told no eps
FP32_EPSILON = 2.0**-23
EPSILON = {DType.FP32: FP32_EPSILON, DType.FP16: 2.0**-10, DType.BF16: 2.0**-7}


@lowers("aten.batch_norm")
def batch_norm(
    b: TosaBuilder, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value,
    eps: float,
) -> Value:  # fmt: skip
    """batch_norm -> MUL and ADD by constants; quantized: a 1x1 DEPTHWISE_CONV2D and RESCALE."""
    gamma, beta = fold_statistics(b, weight, bias, mean, var, eps)
    if x.type.dtype.is_float:
        return _multiply_add(b, x, gamma, beta, 1)
    y = channelwise(b, channels_last(b, x), gamma, beta, b.out[0])
    return channels_first(b, y, x.type.ints)


def fold_statistics(
    b: TosaBuilder, weight: Value | None, bias: Value | None, mean: Value, var: Value, eps: float
) -> tuple[np.ndarray, np.ndarray]:
    """gamma, beta with batch_norm(x) = x * gamma + beta, in float64."""
    gamma = 1 / np.sqrt(real(b, var, "the variance") + eps)
    if weight is not None:
        gamma = gamma * real(b, weight, "the weight")
    beta = -real(b, mean, "the mean") * gamma
    return gamma, beta if bias is None else beta + real(b, bias, "the bias")


def real(b: TosaBuilder, value: Value, what: str) -> np.ndarray:
    """What a constant means, in float64."""
    b.require(value.is_const, f"{what} of the normalization is computed, not constant")
    if value.type.quant is not None:
        return value.type.quant.dequantize(value.array)
    return np.asarray(value.array, np.float64)


def channels_last(b: TosaBuilder, x: Value) -> Value:
    """[N, C, ...] as [N, H, W, C]."""
    shape = x.type.ints
    if len(shape) == 2:
        return b.reshape(x, (1, 1, *shape))
    inner = shape[2:]
    height = 1 if len(inner) == 1 else inner[0]
    moved = b.transpose(x, NHWC[len(shape)])
    return b.reshape(moved, (shape[0], height, prod(inner) // height, shape[1]))


def channels_first(b: TosaBuilder, y: Value, shape: tuple[int, ...]) -> Value:
    """The reverse of `channels_last`, for a result of `shape`."""
    if len(shape) == 2:
        return b.reshape(y, shape)
    return b.transpose(b.reshape(y, (shape[0], *shape[2:], shape[1])), NCHW[len(shape)])


def channelwise(
    b: TosaBuilder, x: Value, gamma: np.ndarray, beta: np.ndarray, out: TensorType
) -> Value:
    """x * gamma + beta per channel of [N, H, W, C], quantized: DEPTHWISE_CONV2D and RESCALE."""
    weights = affine_weights(b, x, gamma, beta)
    kernel = b.reshape(weights.kernel, (1, 1, gamma.size, 1))
    acc = b.DEPTHWISE_CONV2D(
        x, kernel, weights.bias, b.zero_point(x), b.zero_point(kernel, 0),
        pad=(0, 0, 0, 0), acc_type=ACCUMULATOR[x.type.dtype],
    )  # fmt: skip
    return to_output(b, acc, weights.scale, out)


@lowers("aten.layer_norm")
def layer_norm(
    b: TosaBuilder, x: Value, normalized_shape: Sequence[int], weight: Value | None,
    bias: Value | None, eps: float,
) -> Value:  # fmt: skip
    """layer_norm -> mean, variance, RSQRT; quantized: one block of integer arithmetic."""
    if x.type.dtype.is_float:
        return float_layer_norm(b, x, len(normalized_shape), weight, bias, eps)
    return integer_layer_norm(b, x, normalized_shape, weight, bias, eps)


@lowers("aten.rms_norm")
def rms_norm(
    b: TosaBuilder, x: Value, normalized_shape: Sequence[int], weight: Value | None,
    eps: float | None,
) -> Value:  # fmt: skip
    """rms_norm -> mean square, RSQRT; quantized: one block of integer arithmetic."""
    if x.type.dtype.is_float:
        return float_layer_norm(b, x, len(normalized_shape), weight, None, eps, center=False)
    return integer_layer_norm(b, x, normalized_shape, weight, None, eps, center=False)


@lowers("aten.group_norm")
def group_norm(
    b: TosaBuilder, x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float
) -> Value:
    """group_norm -> statistics per channel, then per group (instance norm: one channel each)."""
    if x.type.dtype.is_float:
        return float_group_norm(b, x, groups, weight, bias, eps)
    return integer_group_norm(b, x, groups, weight, bias, eps)


def integer_layer_norm(
    b: TosaBuilder, x: Value, normalized_shape: Sequence[int], weight: Value | None,
    bias: Value | None, eps: float | None, center: bool = True,
    apply: ApplyAffine = multiply_and_add, narrow: bool = False,
) -> Value:  # fmt: skip
    """layer_norm or rms_norm of a quantized value, on rows [1, 1, R, N].

    `apply` emits gamma and beta, `narrow` is that of `normalize`.
    """
    count = prod(normalized_shape)
    image = b.reshape(x, (1, 1, x.type.size // count, count))
    eps = FP32_EPSILON if eps is None else eps
    precise = b.out[0].dtype is not DType.INT8
    z, worth = normalize(b, image, Rows((3,)), eps, center, precise, narrow)
    most = sqrt(largest(count))
    affine = Affine(_vector(b, weight, 1.0), _vector(b, bias, 0.0), 3, most)
    y = apply(b, z, worth, affine, b.out[0].with_(shape=image.type.shape))
    return b.reshape(y, x.type.ints)


def integer_group_norm(
    b: TosaBuilder, x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float,
    apply: ApplyAffine = multiply_and_add, narrow: bool = False,
) -> Value:  # fmt: skip
    """group_norm of a quantized value, in the model's layout."""
    rows = Rows(tuple(range(x.type.rank - 1, 1, -1)), groups)
    precise = b.out[0].dtype is not DType.INT8
    z, worth = normalize(b, x, rows, eps, precise=precise, narrow=narrow)
    most = sqrt(largest(rows.count(x.type.ints)))
    affine = Affine(_vector(b, weight, 1.0), _vector(b, bias, 0.0), 1, most)
    return apply(b, z, worth, affine, b.out[0])


def _vector(b: TosaBuilder, value: Value | None, neutral: float) -> np.ndarray | None:
    """gamma or beta; None where it is all `neutral`, and changes nothing."""
    if value is None:
        return None
    vector = real(b, value, "gamma or beta").reshape(-1)
    return None if np.all(vector == neutral) else vector


def float_layer_norm(
    b: TosaBuilder, x: Value, dims: int, weight: Value | None, bias: Value | None,
    eps: float | None, center: bool = True,
) -> Value:  # fmt: skip
    """(x - mean) * rsqrt(var + eps) * weight + bias in FP32."""
    rank = x.type.rank
    axes = tuple(range(rank - dims, rank))
    eps = EPSILON[x.type.dtype] if eps is None else eps
    z = _standardized(b, _as_fp32(b, x), lambda v: _mean(b, v, axes), eps, center)
    y = _affine(b, z, weight, bias, lambda v: b.match_rank(v, rank))
    return _cast(b, y, x.type.dtype)


def float_group_norm(
    b: TosaBuilder, x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float
) -> Value:
    """Spatial means per channel, then per group; full-size values keep the model's shape."""
    shape = x.type.ints
    members = shape[1] // groups

    def mean(v: Value) -> Value:
        per_channel = _mean(b, v, tuple(range(2, len(shape))))
        if members == 1:
            return per_channel
        kept = per_channel.type.ints
        grouped = _mean(b, b.reshape(per_channel, (shape[0], groups, members)), (2,))
        return b.reshape(b.TILE(grouped, (1, 1, members)), kept)

    z = _standardized(b, _as_fp32(b, x), mean, eps, True)
    along = (1, shape[1], *[1] * (len(shape) - 2))
    y = _affine(b, z, weight, bias, lambda v: b.reshape(v, along))
    return _cast(b, y, x.type.dtype)


def _standardized(
    b: TosaBuilder, x: Value, mean: Callable[[Value], Value], eps: float, center: bool
) -> Value:
    """(x - mean(x)) / sqrt(mean of its square + eps) in FP32."""
    d = b.SUB(x, mean(x)) if center else x
    variance = mean(_times(b, d, d))
    floor = b.scalar(eps, DType.FP32, x.type.rank)
    return _times(b, d, b.RSQRT(b.ADD(variance, floor)))


def _mean(b: TosaBuilder, x: Value, axes: Sequence[int]) -> Value:
    count = prod(x.type.ints[a] for a in axes)
    for axis in axes:
        x = b.REDUCE_SUM(x, axis=axis)
    return x if not axes else _times(b, x, inverse_size(b, count, x.type.rank))


def _affine(
    b: TosaBuilder, y: Value, weight: Value | None, bias: Value | None,
    place: Callable[[Value], Value],
) -> Value:  # fmt: skip
    """y * weight + bias, each reshaped by `place`."""
    if weight is not None:
        y = _times(b, y, _as_fp32(b, place(weight)))
    return y if bias is None else b.ADD(y, _as_fp32(b, place(bias)))


def _multiply_add(
    b: TosaBuilder, x: Value, gamma: np.ndarray, beta: np.ndarray, axis: int
) -> Value:
    dtype, shape = x.type.dtype, [1] * x.type.rank
    shape[axis] = -1
    factor, addend = (
        b.const(v.reshape(shape).astype(dtype.numpy), dtype) for v in (gamma, beta)
    )  # fmt: skip
    return b.ADD(_times(b, x, factor), addend)  # type: ignore[no-any-return]


def _times(b: TosaBuilder, x: Value, y: Value) -> Value:
    return b.MUL(x, y, b.scalar(0, DType.INT8, 1))  # type: ignore[no-any-return]


def _as_fp32(b: TosaBuilder, x: Value) -> Value:
    if x.is_const:
        return b.const(x.array.astype(np.float32))
    return _cast(b, x, DType.FP32)


def _cast(b: TosaBuilder, x: Value, dtype: DType) -> Value:
    return x if x.type.dtype is dtype else b.CAST(x, dtype=dtype)
