"""Where PyTorch's upsampling reads: indices, positions and weights of one axis, as it rounds them.

Formulas: aten/src/ATen/native/UpSample.h (area_pixel_compute_scale, nearest_idx,
area_pixel_compute_source_index, get_cubic_upsample_coefficients).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.float64]

#: coefficient of PyTorch's bicubic kernel
CUBIC_A = -0.75
#: coefficient of the one with antialias, which is Pillow's
ANTIALIAS_CUBIC_A = -0.5


def _step(size: int, out: int, scale: float | None) -> np.float32:
    """Distance of two samples: 1 / scale where the scale is given, else size / out, in float32."""
    if scale is not None and scale > 0:
        return np.float32(1.0 / scale)
    return np.float32(size) / np.float32(out)


def nearest_index(size: int, out: int, scale: float | None, exact: bool) -> npt.NDArray[np.int64]:
    """floor(o * step), exact: floor((o + 1/2) * step), rounded to float32 where PyTorch rounds.

    The exact form is floor(source + 0.5) of the source index step * (o + 0.5) - 0.5, a fused
    multiply-add in PyTorch's builds.
    """
    step, places = _step(size, out, scale), np.arange(out)
    if exact:
        source = ((places + 0.5) * np.float64(step) - 0.5).astype(np.float32)
        at = (np.maximum(source, 0).astype(np.float64) + 0.5).astype(np.float32)
    else:
        at = places.astype(np.float32) * step
    return np.minimum(np.floor(at).astype(np.int64), size - 1)


def linear_positions(
    size: int, out: int, align_corners: bool, scale: float | None, cubic: bool = False
) -> Positions:
    """Positions of the samples; those before the first element count as it unless `cubic`."""
    places = np.arange(out, dtype=np.float64)
    if align_corners:
        return places * ((size - 1) / (out - 1)) if out > 1 else places * 0
    at = (places + 0.5) * float(_step(size, out, scale)) - 0.5
    return at if cubic else np.clip(at, 0, size - 1)


def linear_weights(size: int, out: int, align_corners: bool, scale: float | None) -> Positions:
    """[out, size]: row o has the weights of the elements that sample o is made of."""
    at = linear_positions(size, out, align_corners, scale)
    low = np.minimum(np.floor(at).astype(np.int64), size - 1)
    high = np.minimum(low + 1, size - 1)
    part = at - low
    weights = np.zeros((out, size))
    np.add.at(weights, (np.arange(out), low), 1 - part)
    np.add.at(weights, (np.arange(out), high), part)
    return weights


def cubic_weights(size: int, out: int, align_corners: bool, scale: float | None) -> Positions:
    """[out, size] of bicubic interpolation; positions outside count as the nearest element."""
    at = linear_positions(size, out, align_corners, scale, cubic=True)
    base = np.floor(at).astype(np.int64)
    weights = np.zeros((out, size))
    for offset in (-1, 0, 1, 2):
        places = np.clip(base + offset, 0, size - 1)
        np.add.at(weights, (np.arange(out), places), _cubic(at - base - offset, CUBIC_A))
    return weights


def _cubic(x: Positions, a: float) -> Positions:
    """The cubic convolution kernel with coefficient `a`, 0 from 2 on."""
    d = np.abs(x)
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def antialias_weights(
    size: int, out: int, align_corners: bool, scale: float | None, cubic: bool = False
) -> Positions:
    """[out, size] with antialias=True: the kernel is as wide as the step of the samples.

    Formula: aten/src/ATen/native/cpu/UpSampleKernel.cpp, _compute_indices_min_size_weights_aa.
    """
    step = float(_step(size, out, scale))
    if align_corners:
        step = (size - 1) / (out - 1) if out > 1 else 0.0
    wide = max(step, 1.0)
    center = step * (np.arange(out)[:, None] + 0.5)
    support = wide * (2 if cubic else 1)
    first = np.maximum((center - support + 0.5).astype(np.int64), 0)
    end = np.minimum((center + support + 0.5).astype(np.int64), size)
    places = np.arange(size)
    distance = (places - center + 0.5) / wide
    linear = np.maximum(1 - np.abs(distance), 0)
    weights = _cubic(distance, ANTIALIAS_CUBIC_A) if cubic else linear
    weights = np.where((places >= first) & (places < end), weights, 0.0)
    return weights / weights.sum(axis=1, keepdims=True)
