"""The rule for grid_sample: GATHER of the elements around each position, and their weighted sum."""

from __future__ import annotations

import numpy as np

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.integer_grid_sample import (
    BICUBIC,
    BILINEAR,
    NEAREST,
    REFLECTION,
    ZEROS,
    grid_sample_of_codes,
)
from npuc.lowering.aten_to_tosa.quantize import dequantized, quantized_floats
from npuc.lowering.aten_to_tosa.sampling import CUBIC_A
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: a tap of the interpolation: whole offset from the position's floor, and its weight
Tap = tuple[int, Term]


@lowers("aten.grid_sampler_2d", "aten.grid_sampler")
def grid_sampler(
    b: TosaBuilder, x: Value, grid: Value, interpolation_mode: int, padding_mode: int,
    align_corners: bool,
) -> Value:  # fmt: skip
    """grid_sample -> positions in FP32, GATHER of 1, 4 or 16 elements each, MUL and ADD.

    On a target without floats: TABLEs of the positions' codes.

    Padding by zeros is a border of zeros that all positions outside are clamped to.
    Formulas: aten/src/ATen/native/GridSampler.h.
    """
    b.require(
        x.type.rank == 4, f"grid_sample of rank {x.type.rank}; it is made for images (rank 4)"
    )
    if not b.limits.floats and b.out[0].quant is not None:
        return grid_sample_of_codes(b, x, grid, interpolation_mode, padding_mode, align_corners)
    out = b.out[0]
    image = b.nhwc(dequantized(b, x) if x.type.quant is not None else x)
    places = dequantized(b, grid) if grid.type.quant is not None else grid
    n, h, w, c = image.type.ints
    border = 1 if padding_mode == ZEROS else 0
    if border:
        zero = b.const(np.zeros(1, image.type.dtype.numpy), image.type.dtype)
        image = b.PAD(image, (0, 0, 1, 1, 1, 1, 0, 0), zero)
    axes = [
        _Axis(size, border, padding_mode, align_corners, _coordinate(b, places, i))
        for i, size in ((1, h), (0, w))
    ]
    rows = b.reshape(image, (n, image.type.size // n // c, c))
    y = _sampled(b, rows, axes[0], axes[1], w + 2 * border, interpolation_mode)
    picture = b.reshape(y.cast(image.type.dtype).value, (n, *out.ints[2:], c))
    result = b.nchw(picture)
    return quantized_floats(b, result, out) if out.quant is not None else result


def _coordinate(b: TosaBuilder, grid: Value, which: int) -> Term:
    """One coordinate of all positions, FP32 [N, P]."""
    n, h, w, _ = grid.type.ints
    part = b.reshape(b.slice(grid, (0, 0, 0, which), (n, h, w, 1)), (n, h * w))
    return Term(b, part).cast(DType.FP32)


class _Axis:
    """One axis of the image: its padding, and the positions on it in elements."""

    def __init__(
        self, size: int, border: int, padding: int, align_corners: bool, coordinate: Term
    ) -> None:
        self.size, self.border = size, border
        self.padding, self.align_corners = padding, align_corners
        if align_corners:
            self.position = (coordinate + 1.0) * ((size - 1) / 2)
        else:
            self.position = (coordinate + 1.0) * (size / 2) - 0.5

    def inside(self, position: Term) -> Term:
        """The position as the padding mode maps it into the image, or onto its border of zeros."""
        if self.padding == REFLECTION:
            position = self._reflected(position)
        return position.clamp(float(-self.border), float(self.size - 1 + self.border))

    def _reflected(self, position: Term) -> Term:
        """A wave between the centres (align_corners) or the edges of the outer elements."""
        low = 0.0 if self.align_corners else -0.5
        span = self.size - 1.0 if self.align_corners else float(self.size)
        if span == 0:
            return position * 0.0
        turns = (position - low) * (1 / span)
        return (turns - (turns * 0.5 + 0.5).floor() * 2.0).abs() * span + low


def _sampled(b: TosaBuilder, rows: Value, y: _Axis, x: _Axis, pitch: int, mode: int) -> Term:
    """FP32 [N, P, C]: the interpolated elements of the rows [N, H * W, C]."""
    if mode == NEAREST:
        down, right = (axis.inside(axis.position).cast(DType.INT32) for axis in (y, x))
        return _elements(b, rows, (down + y.border) * pitch + (right + x.border))
    b.require(mode in (BILINEAR, BICUBIC), f"grid_sample with interpolation mode {mode}")
    # bilinear maps the position into the image, bicubic every element around it
    first = mode == BILINEAR
    starts, taps = [], []
    for axis in (y, x):
        position = axis.position
        if first and axis.padding != ZEROS:
            position = axis.inside(position)
        starts.append(position.floor())
        taps.append((_linear if first else _cubic)(position - starts[-1]))
    total: Term | None = None
    for dy, weight_y in taps[0]:
        row = y.inside(starts[0] + float(dy)) + float(y.border)
        for dx, weight_x in taps[1]:
            column = x.inside(starts[1] + float(dx)) + float(x.border)
            index = (row * float(pitch) + column).cast(DType.INT32)
            part = _elements(b, rows, index) * _as_column(b, weight_y * weight_x)
            total = part if total is None else total + part
    assert total is not None
    return total


def _linear(part: Term) -> list[Tap]:
    return [(0, -part + 1.0), (1, part)]


def _cubic(part: Term) -> list[Tap]:
    a = CUBIC_A

    def near(d: Term) -> Term:
        return (d * (a + 2) - (a + 3)) * d * d + 1.0

    def far(d: Term) -> Term:
        return ((d * a - 5 * a) * d + 8 * a) * d - 4 * a

    rest = -part + 1.0
    return [(-1, far(part + 1.0)), (0, near(part)), (1, near(rest)), (2, far(rest + 1.0))]


def _elements(b: TosaBuilder, rows: Value, index: Term) -> Term:
    return Term(b, b.GATHER(rows, index.value)).cast(DType.FP32)


def _as_column(b: TosaBuilder, weights: Term) -> Term:
    return Term(b, b.reshape(weights.value, (*weights.value.type.ints, 1)))
