"""RESIZE: sampling along the height and the width."""

from __future__ import annotations

import numpy as np

from npuc.execute.kernels.registry import Array, kernel, stored, wide
from npuc.ir import Op


def _source(
    size: int, numerator: int, denominator: int, offset: int, border: int
) -> tuple[Array, Array, Array]:
    """For each output position: lower and upper source index, and the distance from the lower."""
    count = ((size - 1) * numerator - offset + border) // denominator + 1
    position = np.arange(count) * denominator + offset
    lower = position // numerator
    distance = position - lower * numerator
    return np.maximum(lower, 0), np.minimum(lower + 1, size - 1), distance


@kernel("RESIZE")
def resize(op: Op, x: Array, scale: Array, offset: Array, border: Array) -> Array:
    """NEAREST_NEIGHBOR picks, BILINEAR weighs; integers are weighed exactly, without division."""
    yn, yd, xn, xd = scale.tolist()
    y0, y1, dy = _source(x.shape[1], yn, yd, int(offset[0]), int(border[0]))
    x0, x1, dx = _source(x.shape[2], xn, xd, int(offset[1]), int(border[1]))
    if op.attrs["mode"] == "NEAREST_NEIGHBOR":
        return x[:, np.where(2 * dy >= yn, y1, y0)][:, :, np.where(2 * dx >= xn, x1, x0)]
    if op.results[0].type.dtype.is_float:
        x = wide(x)
        wy, wx = (dy / np.float32(yn)).astype(x.dtype), (dx / np.float32(xn)).astype(x.dtype)
        one_y = one_x = x.dtype.type(1)
    else:
        x = x.astype(np.int64)
        wy, wx, one_y, one_x = dy, dx, yn, xn
    wy, wx = wy[None, :, None, None], wx[None, None, :, None]
    rows = x[:, y0] * (one_y - wy) + x[:, y1] * wy
    return stored(op, rows[:, :, x0] * (one_x - wx) + rows[:, :, x1] * wx)
