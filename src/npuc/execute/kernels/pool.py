"""Pooling. Windows are separable: first along the height, then along the width."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from npuc.execute.kernels.registry import Array, kernel, stored, wide
from npuc.ir import Op


def _windows(size: int, kernel: int, stride: int, before: int, after: int) -> tuple[Array, Array]:
    """Start and end of each window, inside the input."""
    count = (size + before + after - kernel) // stride + 1
    start = np.arange(count) * stride - before
    return np.maximum(start, 0), np.minimum(start + kernel, size)


def _window_sums(x: Array, axis: int, start: Array, end: Array) -> Array:
    """Exact integer sums of x[start:end] along an axis, by differences of running sums."""
    shape = list(x.shape)
    shape[axis] = 1
    running = np.concatenate([np.zeros(shape, np.int64), np.cumsum(x, axis, np.int64)], axis)
    return running.take(end, axis) - running.take(start, axis)


def _combine_taps(
    x: Array, axis: int, kernel: int, stride: int, before: int, after: int, neutral: float,
    combine: Callable[[Array, Array], Array],
) -> Array:  # fmt: skip
    """Each window of an axis combined tap by tap; padding is `neutral`."""
    count = (x.shape[axis] + before + after - kernel) // stride + 1
    if before or after:
        widths = [(0, 0)] * x.ndim
        widths[axis] = (before, after)
        x = np.pad(x, widths, constant_values=neutral)
    index: list[slice] = [slice(None)] * x.ndim
    result = None
    for tap in range(kernel):
        index[axis] = slice(tap, tap + (count - 1) * stride + 1, stride)
        part = x[tuple(index)]
        result = part.copy() if result is None else combine(result, part)
    assert result is not None
    return result


def _average(
    op: Op, x: Array, x_zp: Array, y_zp: Array, kernel: Sequence[int], stride: Sequence[int],
    pad: Sequence[int],
) -> Array:  # fmt: skip
    """The mean over the elements of each window that are not padding."""
    rows = _windows(x.shape[1], kernel[0], stride[0], pad[0], pad[1])
    columns = _windows(x.shape[2], kernel[1], stride[1], pad[2], pad[3])
    count = ((rows[1] - rows[0])[:, None] * (columns[1] - columns[0]))[None, :, :, None]
    if x.dtype.kind != "i":
        sums = _combine_taps(wide(x), 1, kernel[0], stride[0], pad[0], pad[1], 0.0, np.add)
        sums = _combine_taps(sums, 2, kernel[1], stride[1], pad[2], pad[3], 0.0, np.add)
        return stored(op, sums / count.astype(sums.dtype))
    sums = _window_sums(_window_sums(x, 1, *rows), 2, *columns)
    sums -= count * int(x_zp.reshape(-1)[0])
    multiplier, shift = _reciprocal_scale(count)
    value = (sums * multiplier + (np.int64(1) << (shift - 1))) >> shift
    low, high = op.results[0].type.dtype.range
    return stored(op, np.clip(value + int(y_zp.reshape(-1)[0]), low, high))


def _reciprocal_scale(count: Array) -> tuple[Array, Array]:
    """Multiplier and shift of 1 / count, as the specification's reciprocal_scale."""
    bits = np.array([int(c - 1).bit_length() for c in count.reshape(-1)]).reshape(count.shape)
    return ((np.int64((1 << 30) + 1) << bits) // count), 30 + bits


@kernel("AVG_POOL2D")
def avg_pool2d(op: Op, x: Array, x_zp: Array, y_zp: Array) -> Array:
    """The mean of each window."""
    attrs = op.attrs
    return _average(op, x, x_zp, y_zp, attrs["kernel"], attrs["stride"], attrs["pad"])


@kernel("AVG_POOL2D_ADAPTIVE")
def avg_pool2d_adaptive(
    op: Op, x: Array, x_zp: Array, y_zp: Array, kernel: Array, stride: Array, pad: Array
) -> Array:
    """AVG_POOL2D with the window as operands."""
    return _average(op, x, x_zp, y_zp, kernel.tolist(), stride.tolist(), pad.tolist())


def _maximum(
    op: Op, x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int]
) -> Array:
    """The largest element of each window; padding never wins, not even against NaN."""
    dtype = op.results[0].type.dtype
    ignore = op.attrs["nan_mode"] == "IGNORE" and dtype.is_float
    x = wide(x)
    neutral = dtype.range[0] if not dtype.is_float else np.nan if ignore else -np.inf
    combine = np.fmax if ignore else np.maximum
    x = _combine_taps(x, 1, kernel[0], stride[0], pad[0], pad[1], neutral, combine)
    x = _combine_taps(x, 2, kernel[1], stride[1], pad[2], pad[3], neutral, combine)
    return stored(op, x)


@kernel("MAX_POOL2D")
def max_pool2d(op: Op, x: Array) -> Array:
    """The largest of each window."""
    return _maximum(op, x, op.attrs["kernel"], op.attrs["stride"], op.attrs["pad"])


@kernel("MAX_POOL2D_ADAPTIVE")
def max_pool2d_adaptive(op: Op, x: Array, kernel: Array, stride: Array, pad: Array) -> Array:
    """MAX_POOL2D with the window as operands."""
    return _maximum(op, x, kernel.tolist(), stride.tolist(), pad.tolist())
