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
    part, a = at - base, CUBIC_A

    def near(d: Positions) -> Positions:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Positions) -> Positions:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    weights = np.zeros((out, size))
    for offset, value in (
        (-1, far(part + 1)),
        (0, near(part)),
        (1, near(1 - part)),
        (2, far(2 - part)),
    ):
        places = np.clip(base + offset, 0, size - 1)
        np.add.at(weights, (np.arange(out), places), value)
    return weights
