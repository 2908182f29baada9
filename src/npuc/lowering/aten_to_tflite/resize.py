"""Resizing: TFLite's operators in the coordinates that PyTorch means, else by constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from npuc.dialects.tflite import same_parameters
from npuc.ir import DType, Quant, Value
from npuc.lowering.aten_to_tflite.operands import wide_type
from npuc.lowering.aten_to_tosa.sampling import (
    antialias_weights,
    cubic_weights,
    linear_weights,
    nearest_index,
)
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder

#: steps of the weights of RESIZE_BILINEAR on INT16
FRACTION_16 = 1024
KINDS = ("aten.upsample_nearest2d", "aten._upsample_nearest_exact2d")


@lowers(*KINDS, dialect="tflite")
def nearest(
    b: TfliteBuilder, x: Value, output_size: Sequence[int], scales_h: float | None = None,
    scales_w: float | None = None,
) -> Value:  # fmt: skip
    """upsample_nearest -> RESIZE_NEAREST_NEIGHBOR; where it picks other elements, GATHER."""
    assert b.op is not None
    exact = "exact" in b.op.kind
    sizes, outs = x.type.ints[2:], b.out[0].ints[2:]
    wanted = [
        nearest_index(n, o, s, exact)
        for n, o, s in zip(sizes, outs, (scales_h, scales_w), strict=True)
    ]
    theirs = [_resize_index(n, o, exact) for n, o in zip(sizes, outs, strict=True)]
    y = b.nhwc(x)
    if all(np.array_equal(w, t) for w, t in zip(wanted, theirs, strict=True)):
        y = b.RESIZE_NEAREST_NEIGHBOR(y, size=outs, half_pixel_centers=exact)
    else:
        for axis, index in ((1, wanted[0]), (2, wanted[1])):
            y = b.GATHER(y, b.const(index.astype(np.int32)), axis=axis)
    return b.as_result(b.nchw(y))


def _resize_index(size: int, out: int, half_pixels: bool) -> np.ndarray:
    """The source of each position of RESIZE_NEAREST_NEIGHBOR."""
    step = np.float32(size) / np.float32(out)
    place = np.arange(out).astype(np.float32) + np.float32(0.5 if half_pixels else 0)
    return np.minimum(np.floor(place * step).astype(np.int64), size - 1)


@lowers("aten.upsample_bilinear2d", dialect="tflite")
def bilinear(
    b: TfliteBuilder, x: Value, output_size: Sequence[int], align_corners: bool,
    scales_h: float | None = None, scales_w: float | None = None,
) -> Value:  # fmt: skip
    """upsample_bilinear -> RESIZE_BILINEAR; with a scale that is not out/in: BATCH_MATMULs."""
    sizes, outs = x.type.ints[2:], b.out[0].ints[2:]
    scales = (None, None) if align_corners else (scales_h, scales_w)
    weights = [
        linear_weights(n, o, align_corners, s) for n, o, s in zip(sizes, outs, scales, strict=True)
    ]
    other_scale = any(
        s and abs(n / o * s - 1) > 1e-6 for n, o, s in zip(sizes, outs, scales, strict=True)
    )
    rounded = any(np.any(w * FRACTION_16 % 1) for w in weights) and x.type.dtype is DType.INT16
    if other_scale or rounded:
        return by_matrices(b, x, weights)
    if x.type.quant is not None and not same_parameters(x.type.quant, b.out[0].quant):
        x = b.widened(x)  # a finer result needs the fractions
    y = b.RESIZE_BILINEAR(
        b.nhwc(x), size=outs, align_corners=align_corners, half_pixel_centers=not align_corners
    )
    return b.as_result(b.nchw(y))


#: kind -> weights [out, size] of an axis
SMOOTH: dict[str, Callable[[int, int, bool, float | None], np.ndarray]] = {
    "aten.upsample_bicubic2d": cubic_weights,
    "aten._upsample_bilinear2d_aa": antialias_weights,
    "aten._upsample_bicubic2d_aa": partial(antialias_weights, cubic=True),
}


@lowers(*SMOOTH, dialect="tflite")
def smooth(
    b: TfliteBuilder, x: Value, output_size: Sequence[int], align_corners: bool,
    scales_h: float | None = None, scales_w: float | None = None,
) -> Value:  # fmt: skip
    """upsample_bicubic, antialias -> BATCH_MATMUL by constant weights, of the height and width."""
    assert b.op is not None
    weights_of, sizes, outs = SMOOTH[b.op.kind], x.type.ints[2:], b.out[0].ints[2:]
    weights = [
        weights_of(n, o, align_corners, s)
        for n, o, s in zip(sizes, outs, (scales_h, scales_w), strict=True)
    ]
    return by_matrices(b, x, weights)


def by_matrices(b: TfliteBuilder, x: Value, weights: Sequence[np.ndarray]) -> Value:
    """rows @ x @ columns.T for every channel of [N, C, H, W]; quantized in INT16, with twice the
    range in between: a cubic curve leaves it."""
    out, (rows, columns) = b.out[0], weights
    if out.quant is None:
        y = b.BATCH_MATMUL(x, b.const(columns.T[None, None].astype(np.float32)))
        return b.BATCH_MATMUL(b.const(rows[None, None].astype(np.float32)), y)  # type: ignore[no-any-return]
    wide, quant = b.widened(b.operand(x)), wide_type(out).quant
    assert quant is not None
    roomy = Quant(2 * quant.s, quant.zp)
    y = b.BATCH_MATMUL(wide, b.real_const(columns.T[None, None], DType.INT16), quant=roomy)
    y = b.BATCH_MATMUL(b.real_const(rows[None, None], DType.INT16), y, quant=quant)
    return b.requantize(y, out)
