"""Block-scaled (MX) operators: blocks of the last axis share a power-of-two scale."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from npuc.execute.kernels.conv import convolve, product
from npuc.execute.kernels.layout import row_gather
from npuc.execute.kernels.registry import Array, as_stored, kernel, stored, wide
from npuc.ir import DType, Op

E8M0 = DType.FP8UE8M0.numpy


#: MXINT8 is a fixed-point number: an int8 of 64ths
MXINT8_ONE = 64


def unscaled(data: Array, scale: Array, block_size: int) -> Array:
    """The values of block-scaled data as float32."""
    values = data.astype(np.float32)
    if data.dtype == np.int8:
        values /= MXINT8_ONE
    return values * np.repeat(scale.astype(np.float32), block_size, axis=-1)


@kernel("CAST_FROM_BLOCK_SCALED")
def cast_from_block_scaled(op: Op, data: Array, scale: Array) -> Array:
    """data * scale, rounded to the type of the result."""
    return stored(op, unscaled(data, scale, op.attrs["block_size"]))


@kernel("CAST_TO_BLOCK_SCALED")
def cast_to_block_scaled(op: Op, x: Array) -> tuple[Array, Array]:
    """The scale of a block is the smallest power of two with which its largest element, rounded to
    the precision of the type, fits. A block with NaN or infinity gets the scale NaN."""
    dtype, size = op.results[0].type.dtype, op.attrs["block_size"]
    blocks = wide(x).astype(np.float64).reshape(*x.shape[:-1], -1, size)
    largest = np.abs(blocks).max(axis=-1)
    most, mantissa_bits = _precision(dtype)
    power = np.frexp(largest)[1] - 1 - int(np.floor(np.log2(most)))
    step = np.ldexp(1.0, np.frexp(largest)[1] - 1 - mantissa_bits)
    power = power + (np.rint(largest / step) * step > np.ldexp(most, power))
    scale = np.ldexp(1.0, np.clip(np.where(largest == 0, -127, power), -127, 127))
    reduced = np.clip(blocks / scale[..., None], -most, most).astype(np.float32)
    scale = np.where(np.isfinite(largest), scale, np.nan)
    if dtype is DType.MXINT8:
        reduced = np.rint(np.nan_to_num(reduced * MXINT8_ONE))
    return as_stored(reduced.reshape(x.shape), dtype), scale.astype(E8M0)


def _precision(dtype: DType) -> tuple[float, int]:
    """The largest number of a type, and its bits behind the leading one."""
    if dtype is DType.MXINT8:
        return 127 / MXINT8_ONE, 6
    info = ml_dtypes.finfo(dtype.numpy)
    return float(info.max), int(info.nmant)


@kernel("MATMUL_T_BLOCK_SCALED")
def matmul_t_block_scaled(op: Op, a: Array, a_scale: Array, b: Array, b_scale: Array) -> Array:
    """[N, H, C] x [D, W, C] transposed, D being N or 1, in float32."""
    size = op.attrs["block_size"]
    b = unscaled(b, b_scale, size).transpose(0, 2, 1)
    return stored(op, product(unscaled(a, a_scale, size), b))


@kernel("CONV2D_BLOCK_SCALED")
def conv2d_block_scaled(
    op: Op, x: Array, x_scale: Array, w: Array, w_scale: Array, bias: Array, pad: Array,
    stride: Array, dilation: Array,
) -> Array:  # fmt: skip
    size = op.attrs["block_size"]
    x, w = unscaled(x, x_scale, size), unscaled(w, w_scale, size)
    y = convolve(x, w, stride.tolist(), pad.tolist(), dilation.tolist())
    return stored(op, y + bias)


@kernel("RESHAPE_BLOCK_SCALED")
def reshape_block_scaled(op: Op, *operands: Array) -> tuple[Array, ...]:
    """Data, with a block size above 1 also the scales, and the new shape of the data."""
    *parts, shape = operands
    dims = tuple(shape.tolist())
    shapes = [dims, (*dims[:-1], dims[-1] // op.attrs["block_size"])]
    return tuple(part.reshape(s) for part, s in zip(parts, shapes, strict=False))


@kernel("ROW_GATHER_BLOCK_SCALED")
def row_gather_block_scaled(op: Op, *operands: Array) -> tuple[Array, ...]:
    """ROW_GATHER of the data and, with a block size above 1, of the scales."""
    *parts, indices, row_count = operands
    return tuple(row_gather(op, part, indices, row_count) for part in parts)
