"""Pooling on Ethos-U: a stride above 3 is one operation per position, so it is taken in steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.average_pool import (
    accumulate,
    adaptive_average,
    average_window,
    divide,
    divisors,
    same_codes,
)
from npuc.lowering.aten_to_tosa.pool import (
    Window,
    max_volume,
    max_window,
    pad_axis,
    recode,
    windows,
)
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import NHWC, TosaBuilder

#: larger strides are cut into one operation per position, and refused together with padding
LARGEST_STRIDE = 3

#: larger averages with padding are refused by Ethos-U55
LARGEST_PADDED_AVERAGE = 8


@lowers("aten.max_pool2d", target="ethos-u")
def max_pool2d(
    b: TosaBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool,
) -> Value:  # fmt: skip
    """max_pool2d -> MAX_POOL2D with strides up to 3: 4x4 windows are 2x2 windows of 2x2 ones."""
    rows, columns = windows(b, kernel, stride, padding, dilation)
    return recode(b, b.nchw(stepwise_max(b, b.nhwc(x), rows, columns)), b.out[0])


@lowers("aten.max_pool3d", target="ethos-u")
def max_pool3d(
    b: TosaBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool,
) -> Value:  # fmt: skip
    """max_pool3d -> MAX_POOL2D with strides up to 3, over height and width, then over depth."""
    return max_volume(b, x, windows(b, kernel, stride, padding, dilation), stepwise_max)


def stepwise_max(b: TosaBuilder, y: Value, rows: Window, columns: Window) -> Value:
    """Largest of each window of [N, H, W, C]."""
    axes = [rows, columns]
    for axis, window in enumerate(axes, 1):
        if window.stride > LARGEST_STRIDE and window.dilation == 1:
            y, axes[axis - 1] = _in_steps(b, y, axis, window)
    if max(w.stride for w in axes) > LARGEST_STRIDE and max(w.dilation for w in axes) == 1:
        for axis, window in enumerate(axes, 1):  # no padding beside such a stride
            y = pad_axis(b, y, axis, window.before, window.after(y.type.ints[axis]))
            axes[axis - 1] = replace(window, before=0)
    return max_window(b, y, *axes)


def _in_steps(b: TosaBuilder, y: Value, axis: int, window: Window) -> tuple[Value, Window]:
    """Maxima of parts of the windows along an axis, and the window that is left of them.

    Windows side by side shrink by a factor of 2 or 3 at a time.
    """
    whole = Window(1, 1, 0, y.type.ints[3 - axis])
    while window.stride > LARGEST_STRIDE and window.kernel == window.stride:
        step = next((f for f in (2, 3) if window.stride % f == 0 and window.before < f), None)
        if step is None:
            break
        left = window.stride // step
        most = -(-(y.type.ints[axis] + window.before) // step)  # the rest lies in the padding
        part = Window(step, step, window.before, min(window.out * left, most))
        y = max_window(b, y, *((part, whole) if axis == 1 else (whole, part)))
        window = Window(left, left, 0, window.out)
    return y, window


@lowers("aten.adaptive_avg_pool2d", target="ethos-u")
def adaptive_avg_pool2d(b: TosaBuilder, x: Value, output_size: Sequence[int]) -> Value:
    """adaptive_avg_pool2d -> averages with strides up to 3, and CONCAT."""
    return adaptive_average(b, x, output_size, LARGEST_STRIDE)


@lowers("aten.avg_pool2d", target="ethos-u55")
def avg_pool2d(
    b: TosaBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Value:  # fmt: skip
    """avg_pool2d -> AVG_POOL2D; where it is refused, sums by DEPTHWISE_CONV2D at every position."""
    axes = windows(b, kernel, stride, padding)
    out, image = b.out[0].transposed(NHWC[4]), b.nhwc(x)
    sizes = x.type.ints[2:]
    padded = any(w.before or w.after(s) > 0 for w, s in zip(axes, sizes, strict=True))
    pooled = same_codes(x.type, out) and divisor_override is None and not padded
    dense = [
        replace(w, stride=1, out=(w.out - 1) * w.stride + 1)
        if w.stride > LARGEST_STRIDE and not pooled else w
        for w in axes
    ]  # fmt: skip
    counts = [divisors(w, s, count_include_pad) for w, s in zip(dense, sizes, strict=True)]
    if divisor_override is not None:
        counts = [np.ones(dense[0].out), np.full(dense[1].out, divisor_override)]
    out = out.with_(shape=(out.shape[0], dense[0].out, dense[1].out, out.shape[3]))
    if padded and max(kernel) > LARGEST_PADDED_AVERAGE:
        divisor = np.outer(*counts).astype(np.float64)[None, :, :, None]
        y = divide(b, accumulate(b, image, dense, 1), divisor, x.type, out)
    else:
        y = average_window(b, image, dense, counts, out)
    if dense != axes:
        y = max_window(b, y, *(Window(1, w.stride if w != d else 1, 0, w.out)
                               for w, d in zip(axes, dense, strict=True)))  # fmt: skip
    return b.nchw(y)
