"""Max pooling that also says where each maximum was."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.average_pool import adaptive_runs
from npuc.lowering.aten_to_tosa.pool import Window, max_window, pad_axis, recode, windows
from npuc.lowering.aten_to_tosa.take import join
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.max_pool2d_with_indices")
def max_pool2d_with_indices(
    b: TosaBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool,
) -> tuple[Value, Value]:  # fmt: skip
    """max_pool2d_with_indices -> MAX_POOL2D, and a GREATER and SELECT per element of the window."""
    rows, columns = windows(b, kernel, stride, padding, dilation)
    image = b.nhwc(x)
    y = max_window(b, image, rows, columns)
    where = indices_of_maxima(b, image, (0, 0), rows, columns)
    return recode(b, b.nchw(y), b.out[0]), b.nchw(where)


@lowers("aten.adaptive_max_pool2d")
def adaptive_max_pool2d(
    b: TosaBuilder, x: Value, output_size: Sequence[int]
) -> tuple[Value, Value]:
    """adaptive_max_pool2d -> one maximum per run of equally spaced windows, and CONCAT."""
    image, (h, w) = b.nhwc(x), x.type.ints[2:]
    bands, places = [], []
    for top, rows in adaptive_runs(h, output_size[0]):
        cells, spots = [], []
        for left, columns in adaptive_runs(w, output_size[1]):
            size = (image.type.ints[0], rows.needed, columns.needed, image.type.ints[3])
            part = b.slice(image, (0, top, left, 0), size)
            cells.append(max_window(b, part, rows, columns))
            spots.append(indices_of_maxima(b, image, (top, left), rows, columns))
        bands.append(join(b, cells, 2))
        places.append(join(b, spots, 2))
    y = b.nchw(join(b, bands, 1))
    return recode(b, y, b.out[0]), b.nchw(join(b, places, 1))


def indices_of_maxima(
    b: TosaBuilder, x: Value, start: tuple[int, int], rows: Window, columns: Window
) -> Value:
    """row * W + column of the first maximum of each window of [N, H, W, C], as INT32.

    `start`: where the first window begins. Padding is never the maximum.
    """
    _n, h, w, _c = x.type.ints
    padded = x
    for axis, (window, first, size) in enumerate(
        zip((rows, columns), start, (h, w), strict=True), 1
    ):
        after = first + window.needed - window.before - size
        padded = pad_axis(b, padded, axis, window.before, max(after, 0))
    best, where = None, None
    for ky, kx in product(range(rows.kernel), range(columns.kernel)):
        at = (start[0] + ky * rows.dilation, start[1] + kx * columns.dilation)
        candidate = _strided(b, padded, at, rows, columns)
        place = _places(at, rows, columns, (h, w), start)
        if best is None or where is None:
            best, where = candidate, b.const(np.broadcast_to(place, candidate.type.ints).copy())
            continue
        greater = b.GREATER(candidate, best)
        best = b.SELECT(greater, candidate, best)
        where = b.SELECT(greater, b.const(place), where)
    assert where is not None
    return where


def _strided(
    b: TosaBuilder, padded: Value, at: tuple[int, int], rows: Window, columns: Window
) -> Value:
    """One element of every window; integers as INT32, which GREATER takes."""
    n, _, _, c = padded.type.ints
    spans = [(w.out - 1) * w.stride + 1 for w in (rows, columns)]
    part = b.slice(padded, (0, *at, 0), (n, *spans, c))
    single = (Window(1, w.stride, 0, w.out) for w in (rows, columns))
    taken = max_window(b, part, *single)
    return taken if taken.type.dtype.is_float else b.rescale(taken, 1.0, DType.INT32)


def _places(
    at: tuple[int, int], rows: Window, columns: Window, size: tuple[int, int],
    start: tuple[int, int],
) -> np.ndarray:  # fmt: skip
    """Index of the element at `at` of each window; of padding, that of the first real element."""
    lines = []
    for window, offset, length, first in zip((rows, columns), at, size, start, strict=True):
        position = np.arange(window.out) * window.stride - window.before
        taken, begin = position + offset, position + first
        skipped = -(-np.maximum(-begin, 0) // window.dilation)  # elements in the padding
        begin = begin + skipped * window.dilation
        lines.append((taken, begin, (taken < 0) | (taken >= length)))
    (y, first_y, out_y), (x, first_x, out_x) = lines
    outside = out_y[:, None] | out_x[None, :]
    inside = y[:, None] * size[1] + x[None, :]
    default = first_y[:, None] * size[1] + first_x[None, :]
    return np.where(outside, default, inside).astype(np.int32)[None, :, :, None]
