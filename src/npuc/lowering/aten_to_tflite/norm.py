"""Normalizations: formulas of floats; quantized in INT16 with a table for 1 / sqrt(variance)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod

import numpy as np

from npuc.ir import DType, Quant, Value
from npuc.lowering.aten_to_tflite.operands import wide_type
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import (
    TfliteBuilder,
    largest_magnitude,
    real_values,
    symmetric,
)

#: parameters of rows whose largest magnitude is 1, and of their squares
UNIT = symmetric(1.0)
#: the same with room for RSQRT, whose table is interpolated and errs upwards
LOOSE, LOOSE_SQUARE = symmetric(1.1), symmetric(1.21)
#: 1 / sqrt(v) of the smallest variance v that is told from zero
LARGEST_ROOT = 32.0
#: largest normalized value, where the result's range tells no less
LARGEST = 64.0
#: part of a variance that is left away
NEGLIGIBLE = 2e-4


@lowers("aten.batch_norm", dialect="tflite")
def batch_norm(
    b: TfliteBuilder, x: Value, weight: Value | None, bias: Value | None, mean: Value, var: Value,
    eps: float,
) -> Value:  # fmt: skip
    """batch_norm behind no convolution -> MUL, ADD; quantized: a depthwise 1x1 convolution."""
    channels = x.type.ints[1]
    b.require(
        all(v is None or v.is_const for v in (weight, bias, mean, var)), "computed statistics"
    )
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
    """In INT16. A row is first divided by (about) its largest magnitude, so that its squares fill
    their range whatever the row's variance is: a norm does not see a factor of its row."""
    out, rank = b.out[0], x.type.rank
    b.require(all(v is None or v.is_const for v in (weight, bias)), "computed weights of a norm")
    assert x.type.quant is not None and out.quant is not None
    difference = centered_rows(b, x, axes) if centered else b.widened(x)
    row, offset = _unit_rows(b, difference, axes, eps)
    square = UNIT if b.limits.tables else LOOSE_SQUARE
    variance = b.MEAN(b.MUL(row, row, quant=square), axes=axes, keep_dims=True, quant=square)
    if offset is not None:
        variance = b.ADD(variance, offset, quant=square)
    inverse = _inverse_root(b, variance)
    count = prod(x.type.ints[a] for a in axes)
    result = wide_type(out).quant
    largest = np.asarray(largest_magnitude(out.quant))  # of the products with the weight
    if bias is not None:
        largest = largest + np.abs(real_values(bias))
    scales = np.abs(real_values(weight)) if weight is not None else np.ones(1)
    reach = float((largest / np.maximum(scales, 1e-6)).max())
    y = b.MUL(row, inverse, quant=symmetric(min(np.sqrt(count), reach, LARGEST)))
    if weight is not None:
        factor = b.real_const(b.match_rank(weight, rank).array, DType.INT16)
        y = b.MUL(y, factor, quant=result if bias is None else symmetric(float(largest.max())))
    if bias is not None:
        y = b.ADD(y, b.real_const(b.match_rank(bias, rank).array, DType.INT16), quant=result)
    return b.requantize(y, out)


def _unit_rows(
    b: TfliteBuilder, x: Value, axes: Sequence[int], eps: float
) -> tuple[Value, Value | None]:
    """Rows times a factor f per row that brings their largest magnitude near 1, and eps * f * f
    (None where it is too small to matter).

    f is 1 / m with m of 8 bits; rows below 1/128 of the range all take the same f.
    """
    assert x.type.quant is not None
    if not b.limits.tables:
        return _unit_rows_by_roots(b, x, axes, eps)
    largest = largest_magnitude(x.type.quant)
    smallest = max(largest / 128, 8 * np.sqrt(eps))
    top = b.REDUCE_MAX(b.ABS(x, quant=x.type.quant), axes=axes, keep_dims=True)
    coarse = Quant(largest / 255, -128, None, *DType.INT8.range)
    top = b.requantize(top, top.type.with_(dtype=DType.INT8, quant=coarse))

    def factor(m: np.ndarray) -> np.ndarray:
        return 0.98 / np.maximum(m + coarse.s / 2, smallest)  # m was rounded: no row passes 1

    type = top.type.with_(dtype=DType.INT16, quant=symmetric(0.98 / smallest))
    row = b.MUL(x, b.lookup(top, factor, type), quant=UNIT)
    if eps / smallest**2 < NEGLIGIBLE:
        return row, None
    offset = b.lookup(top, lambda m: eps * factor(m) ** 2, type.with_(quant=UNIT))
    return row, offset


def _unit_rows_by_roots(
    b: TfliteBuilder, x: Value, axes: Sequence[int], eps: float
) -> tuple[Value, Value | None]:
    """The same with f = RSQRT(m) * RSQRT(m): whatever its error, eps takes the same f."""
    assert x.type.quant is not None
    largest = largest_magnitude(x.type.quant)
    smallest = max(largest / 128, 8 * np.sqrt(eps))
    top = b.REDUCE_MAX(b.ABS(x, quant=x.type.quant), axes=axes, keep_dims=True)
    floor = b.real_const(np.full((1,) * x.type.rank, smallest * 1.02), DType.INT16, x.type.quant)
    root = b.RSQRT(b.MAXIMUM(top, floor), quant=symmetric(1 / np.sqrt(smallest)))
    factor = b.MUL(root, root, quant=symmetric(1 / smallest))
    row = b.MUL(x, factor, quant=LOOSE)
    if eps / smallest**2 < NEGLIGIBLE:
        return row, None
    weight = b.real_const(np.full((1,) * x.type.rank, eps), DType.INT16)
    offset = b.MUL(factor, weight, quant=symmetric(eps / smallest))
    return row, b.MUL(offset, factor, quant=LOOSE_SQUARE)


def _inverse_root(b: TfliteBuilder, variance: Value) -> Value:
    """1 / sqrt(variance) of values in 0..1."""
    if not b.limits.tables:
        return b.RSQRT(variance, quant=symmetric(LARGEST_ROOT))  # type: ignore[no-any-return]
    table = b.const(inverse_roots(), DType.INT16, symmetric(LARGEST_ROOT))
    return b.GATHER(table, b.CAST(variance, dtype=DType.INT32))  # type: ignore[no-any-return]


def centered_rows(b: TfliteBuilder, x: Value, axes: Sequence[int]) -> Value:
    """x minus its mean along the axes, as INT16."""
    wide = b.widened(x)
    quant = x.type.quant
    assert quant is not None
    mean = b.MEAN(wide, axes=axes, keep_dims=True, quant=wide.type.quant)
    width = quant.s * (quant.qmax - quant.qmin)
    return b.SUB(wide, mean, quant=symmetric(min(width, 2 * largest_magnitude(quant))))  # type: ignore[no-any-return]


@cache
def inverse_roots() -> np.ndarray:
    """Codes of 1 / sqrt(v) for the codes 0..32767 of v in 0..1; one table for all norms."""
    values = np.maximum(np.arange(2**15), 0.5) * UNIT.s
    return symmetric(LARGEST_ROOT).quantize(1 / np.sqrt(values)).astype(np.int16)
