"""grid_sample without floats: what an axis does with a position is a TABLE of its 8-bit code.

A position has 256 values, so the elements beside it and their weights are computed here, in the
float32 that PyTorch uses, for every padding mode alike. What remains is GATHER and a weighted sum
of INT32.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.formula import Term
from npuc.lowering.aten_to_tosa.sampling import CUBIC_A
from npuc.lowering.aten_to_tosa.table import real_values
from npuc.lowering.tosa_builder import TosaBuilder

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

BILINEAR, NEAREST, BICUBIC = 0, 1, 2
ZEROS, REFLECTION = 0, 2  # 1: the border's elements are repeated

#: fractional bits of a weight by the image's type: sums of two axes' products stay below 2**31
WEIGHT_BITS = {DType.INT8: 10, DType.INT16: 7}
#: bits of a number in the lower of two tables
LOW_BITS = 7


@dataclass(frozen=True)
class Taps:
    """For each code of a position: the elements that are read along one axis, and their weights
    (none: the one element)."""

    places: list[Integers]
    weights: list[Floats]


def grid_sample_of_codes(
    b: TosaBuilder, x: Value, grid: Value, mode: int, padding: int, align_corners: bool
) -> Value:
    """The sampled image [N, C, H, W] of a quantized image and quantized positions, as `b.out[0]`."""
    quant, out = x.type.quant, b.out[0]
    _check_types(b, x, grid, mode)
    assert quant is not None
    image = b.nhwc(x)
    if padding == ZEROS:
        zero = b.zero_point(x)
        image = b.PAD(image, (0, 0, 1, 1, 1, 1, 0, 0), zero, quant=quant)
    n, h, w, c = image.type.ints
    rows = b.reshape(image, (n, h * w, c))
    codes = [_codes(b, grid, which) for which in (1, 0)]
    taps = [
        taps_of(_positions(grid, size, align_corners), size, mode, padding, align_corners)
        for size in x.type.ints[2:]
    ]
    bits = WEIGHT_BITS[x.type.dtype] if mode != NEAREST else 0
    places = [[_lookup(b, v, p) for p in t.places] for v, t in zip(codes, taps, strict=True)]
    weights = [_weights(b, v, t, bits) for v, t in zip(codes, taps, strict=True)]
    total: Term | None = None
    for i, row in enumerate(places[0]):
        for k, column in enumerate(places[1]):
            part = Term(b, b.to_int32(b.GATHER(rows, (row * w + column).value, quant=quant)))
            if mode != NEAREST:
                weight = (weights[0][i] * weights[1][k]).value
                part = part * Term(b, b.reshape(weight, (*weight.type.ints, 1)))
            total = part if total is None else total + part
    assert total is not None
    picture = b.reshape(total.value, (n, *out.ints[2:], c))
    return b.nchw(b.requantize(picture, quant.s * 2.0 ** (-2 * bits), out))


def _check_types(b: TosaBuilder, x: Value, grid: Value, mode: int) -> None:
    for value, what in ((x, "image"), (grid, "grid")):
        b.require(
            value.type.quant is not None,
            f"grid_sample of a {value.type.dtype.name} {what} that is not quantized",
        )
    b.require(
        grid.type.dtype is DType.INT8,
        f"grid_sample at {grid.type.dtype.name} positions; tables take those of 8 bits",
        "quantize the grid to int8, or use a target with floats",
    )
    b.require(mode in (BILINEAR, NEAREST, BICUBIC), f"grid_sample with interpolation mode {mode}")


def _codes(b: TosaBuilder, grid: Value, which: int) -> Value:
    """One coordinate of all positions as INT8 [N, P]."""
    n, h, w, _ = grid.type.ints
    return b.reshape(b.slice(grid, (0, 0, 0, which), (n, h, w, 1)), (n, h * w))


def _weights(b: TosaBuilder, codes: Value, taps: Taps, bits: int) -> list[Term]:
    """The weights as INT32 [N, P], times 2**bits; their sum is 2**bits for every position."""
    rounded = [np.rint(w.astype(np.float64) * 2**bits).astype(np.int64) for w in taps.weights]
    if rounded:
        rounded[0] += 2**bits - sum(rounded)
    return [_lookup(b, codes, weight) for weight in rounded]


def _lookup(b: TosaBuilder, codes: Value, entries: Integers) -> Term:
    """A number of up to 14 bits for each code: one TABLE, or one for each half."""
    if entries.min() >= -128 and entries.max() <= 127:
        return Term(b, _table(b, codes, entries))
    low = _table(b, codes, entries & (2**LOW_BITS - 1))
    return Term(b, _table(b, codes, entries >> LOW_BITS)) * 2**LOW_BITS + Term(b, low)


def _table(b: TosaBuilder, codes: Value, entries: Integers) -> Value:
    return b.rescale(b.TABLE(codes, b.const(entries.astype(np.int8))), 1.0, DType.INT32)


# what PyTorch does along one axis (aten/src/ATen/native/GridSampler.h) ---------------------------


def _positions(grid: Value, size: int, align_corners: bool) -> Floats:
    """The position in elements of each code -128..127."""
    assert grid.type.quant is not None
    real = real_values(np.arange(-128, 128), grid.type.quant).astype(np.float32)
    one, half = np.float32(1), np.float32(0.5)
    if align_corners:
        return (real + one) * np.float32((size - 1) / 2)
    return (real + one) * np.float32(size / 2) - half


def taps_of(position: Floats, size: int, mode: int, padding: int, align_corners: bool) -> Taps:
    """The elements and weights of positions; of a border of zeros element 0 is the border's."""

    def inside(at: Floats) -> Floats:
        low = -1 if padding == ZEROS else 0
        if padding == REFLECTION:
            at = _reflected(at, size, align_corners)
        return np.clip(at, low, size - 1 - low)

    def element(at: Floats) -> Integers:
        return inside(at).astype(np.int64) + (padding == ZEROS)

    if mode == NEAREST:
        return Taps([element(np.rint(inside(position)))], [])
    if mode == BILINEAR and padding != ZEROS:
        position = inside(position)
    first = np.floor(position)
    weights = _linear(position - first) if mode == BILINEAR else _cubic(position - first)
    before = 0 if mode == BILINEAR else 1
    places = [element(first + np.float32(i - before)) for i in range(len(weights))]
    return Taps(places, weights)


def _reflected(at: Floats, size: int, align_corners: bool) -> Floats:
    """A wave between the centres (align_corners) or the edges of the outer elements."""
    low = np.float32(0.0 if align_corners else -0.5)
    wave = np.float32(2 * (size - 1 if align_corners else size))
    if wave == 0:
        return np.zeros_like(at)
    distance = np.abs(at - low)
    rest = distance - np.trunc(distance / wave) * wave
    return np.minimum(rest, wave - rest) + low


def _linear(part: Floats) -> list[Floats]:
    return [1 - part, part]


def _cubic(part: Floats) -> list[Floats]:
    a = np.float32(CUBIC_A)

    def near(d: Floats) -> Floats:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Floats) -> Floats:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [far(part + 1), near(part), near(1 - part), far(2 - part)]
