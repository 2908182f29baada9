"""Rules for upsample: RESIZE with PyTorch's sampling positions, else slices or products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from npuc.errors import Unsupported
from npuc.ir import DType, Value
from npuc.ir.symbolic import largest
from npuc.lowering.aten_to_tosa.carry import carry, settle
from npuc.lowering.aten_to_tosa.open_resize import is_open, linear_of, nearest_of
from npuc.lowering.aten_to_tosa.open_sizes import divided
from npuc.lowering.aten_to_tosa.resample import resampled
from npuc.lowering.aten_to_tosa.resize_axis import AxisResize, linear_axis, nearest_axis
from npuc.lowering.aten_to_tosa.sampling import (
    antialias_weights,
    cubic_weights,
    linear_weights,
    nearest_index,
)
from npuc.lowering.aten_to_tosa.take import take
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: a symbolic factor of bilinear sums up to this is divided out exactly enough
LARGEST_OPEN_SCALE = 2**18

#: weights [out, size] of an axis from its size, the new size, align_corners and the scale
WeightsOf = Callable[[int, int, bool, "float | None"], npt.NDArray[np.float64]]

#: what bilinear RESIZE makes of an element type
WIDENED = {DType.INT8: DType.INT32, DType.INT16: DType.INT48}


@lowers("aten.upsample_nearest2d", "aten.upsample_nearest3d")
def upsample_nearest(
    b: TosaBuilder, x: Value, output_size: Sequence[int], *scales: float | None
) -> Value:
    """upsample_nearest -> RESIZE at floor(o * size / out), bit for bit, else slices and repeats."""
    return _nearest(b, x, output_size, scales, exact=False)


@lowers("aten._upsample_nearest_exact2d", "aten._upsample_nearest_exact3d")
def upsample_nearest_exact(
    b: TosaBuilder, x: Value, output_size: Sequence[int], *scales: float | None
) -> Value:
    """_upsample_nearest_exact -> RESIZE at floor((o + 1/2) * size / out)."""
    return _nearest(b, x, output_size, scales, exact=True)


def _nearest(
    b: TosaBuilder,
    x: Value,
    output_size: Sequence[int],
    scales: Sequence[float | None],
    exact: bool,
) -> Value:
    sizes = x.type.ints[2:]
    wanted = list(zip(sizes, output_size, scales, strict=True))
    if is_open(*sizes, *output_size):
        b.require(len(wanted) == 2, "a 3-D resize of a symbolic size")
        rows, columns = (nearest_of(b, *w, exact) for w in wanted)
        return carry(b, lambda v: _resize_nearest(b, v, rows, columns), x)
    index = [nearest_index(n, out, scale, exact) for n, out, scale in wanted]

    def move(v: Value) -> Value:
        axes = [nearest_axis(i, n, s) for i, n, s in zip(index, sizes, scales, strict=True)]
        if len(axes) == 2 and axes[0] is not None and axes[1] is not None:
            try:
                return _resize_nearest(b, v, axes[0], axes[1])
            except Unsupported:
                pass  # a type without RESIZE, a level or chip with less of it
        for axis, places in enumerate(index, 2):
            v = take(b, v, axis, places)
        return v

    return carry(b, move, x)


def _resize_nearest(b: TosaBuilder, x: Value, y_axis: AxisResize, x_axis: AxisResize) -> Value:
    """RESIZE of an image; a batch as one tall image where a chip takes no batches."""
    n, c, h, w = x.type.ints
    try:
        return b.nchw(resize(b, b.nhwc(x), y_axis, x_axis, "NEAREST_NEIGHBOR", x.type.dtype))
    except Unsupported:
        repeats = y_axis.den == 2 and y_axis.num % 2 == 0 and y_axis.offset == 1 - y_axis.num // 2
        if n == 1 or not repeats:
            raise
    tall = b.reshape(b.nhwc(x), (1, n * h, w, c))
    factor = y_axis.num // 2
    y = resize(b, tall, y_axis, x_axis, "NEAREST_NEIGHBOR", x.type.dtype)
    return b.nchw(b.reshape(y, (n, h * factor, y.type.ints[2], c)))


def resize(
    b: TosaBuilder, x: Value, y_axis: AxisResize, x_axis: AxisResize, mode: str, dtype: DType
) -> Value:
    """RESIZE of an image [N, H, W, C]; keeps quantization parameters where it keeps the type."""
    return b.RESIZE(  # type: ignore[no-any-return]
        x,
        (y_axis.num, y_axis.den, x_axis.num, x_axis.den),
        (y_axis.offset, x_axis.offset),
        (y_axis.border, x_axis.border),
        mode=mode, dtype=dtype, quant=x.type.quant if dtype is x.type.dtype else None,
    )  # fmt: skip


# -- bilinear -------------------------------------------------------------------------------------


@lowers("aten.upsample_bilinear2d")
def upsample_bilinear(
    b: TosaBuilder, x: Value, output_size: Sequence[int], align_corners: bool,
    scales_h: float | None = None, scales_w: float | None = None,
) -> Value:  # fmt: skip
    """upsample_bilinear -> RESIZE (int8: and RESCALE), else a product with the weights per axis."""
    wanted = list(zip(x.type.ints[2:], output_size, (scales_h, scales_w), strict=True))
    if is_open(*x.type.ints[2:], *output_size):
        rows, columns = (linear_of(b, n, out, align_corners, s) for n, out, s in wanted)
        return _interpolated(b, x, lambda v: _resize_bilinear(b, v, rows, columns))
    axes = [linear_axis(n, out, align_corners, s) for n, out, s in wanted]
    weights = [linear_weights(n, out, align_corners, s) for n, out, s in wanted]

    def move(v: Value) -> Value:
        if axes[0] is not None and axes[1] is not None:
            try:
                return _resize_bilinear(b, v, axes[0], axes[1])
            except Unsupported:
                pass  # a level or chip with less of RESIZE
        return resampled(b, v, weights)

    return _interpolated(b, x, move)


def _interpolated(b: TosaBuilder, x: Value, move: Callable[[Value], Value]) -> Value:
    """The result of `move(x)`, of floats or in stored codes, as the op's result."""
    b.require(
        x.type.quant is not None or x.type.dtype.is_float,
        f"interpolation of {x.type.dtype.name} that is not quantized",
    )
    if x.type.quant is None:
        return carry(b, move, x)
    return settle(b, move(x), b.out[0])  # in its own range: the result's may be narrower


def _resize_bilinear(b: TosaBuilder, x: Value, y_axis: AxisResize, x_axis: AxisResize) -> Value:
    dtype = WIDENED.get(x.type.dtype, x.type.dtype)
    y = resize(b, b.nhwc(x), y_axis, x_axis, "BILINEAR", dtype)
    if dtype is not x.type.dtype:
        # the sum is worth num_y * num_x times the code; the zero point has no part in it
        y = _unscaled(b, y, y_axis.num * x_axis.num, x)
    return b.nchw(y)


def _unscaled(b: TosaBuilder, y: Value, scale: int, x: Value) -> Value:
    """`y` / scale in the type of `x`."""
    if isinstance(scale, int):
        return b.rescale(y, 1.0 / scale, x.type.dtype, quant=x.type.quant)
    most = largest(scale)
    b.require(
        most <= LARGEST_OPEN_SCALE,
        f"the factor {scale} of the resize, which reaches {most} > {LARGEST_OPEN_SCALE}",
    )
    b.require(
        y.type.dtype is DType.INT32, f"a resize of {x.type.dtype.name} by the symbolic {scale}"
    )
    codes, bits = divided(b, y, scale, 2.0**x.type.dtype.bits)
    return b.rescale(codes, 2.0**-bits, x.type.dtype, quant=x.type.quant)


@lowers("aten.upsample_trilinear3d")
def upsample_trilinear(
    b: TosaBuilder, x: Value, output_size: Sequence[int], align_corners: bool, *scales: float | None
) -> Value:
    """upsample_trilinear -> a product with the weights of each axis."""
    return _by_weights(b, x, output_size, align_corners, scales, linear_weights)


@lowers("aten.upsample_bicubic2d")
def upsample_bicubic(
    b: TosaBuilder, x: Value, output_size: Sequence[int], align_corners: bool, *scales: float | None
) -> Value:
    """upsample_bicubic -> a product with the weights of each axis."""
    return _by_weights(b, x, output_size, align_corners, scales, cubic_weights)


@lowers("aten._upsample_bilinear2d_aa")
def upsample_bilinear_aa(
    b: TosaBuilder, x: Value, output_size: Sequence[int], align_corners: bool, *scales: float | None
) -> Value:
    """upsample_bilinear with antialias -> a product with the weights of each axis."""
    return _by_weights(b, x, output_size, align_corners, scales, antialias_weights)


@lowers("aten._upsample_bicubic2d_aa")
def upsample_bicubic_aa(
    b: TosaBuilder, x: Value, output_size: Sequence[int], align_corners: bool, *scales: float | None
) -> Value:
    """upsample_bicubic with antialias -> a product with the weights of each axis."""
    weights_of = partial(antialias_weights, cubic=True)
    return _by_weights(b, x, output_size, align_corners, scales, weights_of)


def _by_weights(
    b: TosaBuilder, x: Value, output_size: Sequence[int], align_corners: bool,
    scales: Sequence[float | None], weights_of: WeightsOf,
) -> Value:  # fmt: skip
    sizes = zip(x.type.ints[2:], output_size, scales, strict=True)
    weights = [weights_of(n, out, align_corners, s) for n, out, s in sizes]
    return _interpolated(b, x, lambda v: resampled(b, v, weights))
