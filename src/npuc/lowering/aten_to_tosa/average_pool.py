"""Average pooling: AVG_POOL2D where padding does not count, else sums by DEPTHWISE_CONV2D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log2, prod

import numpy as np

from npuc.ir import Dim, DType, Quant, TensorType, Value
from npuc.ir.symbolic import at_least, largest
from npuc.lowering.aten_to_tosa.open_sizes import divided, divided_by
from npuc.lowering.aten_to_tosa.pool import (
    Window,
    check_type,
    fit,
    is_static,
    recode,
    windows,
)
from npuc.lowering.aten_to_tosa.take import join
from npuc.lowering.aten_to_tosa.weights import ACCUMULATOR, to_output
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import NCHW, NHWC, TosaBuilder

#: fraction bits of reciprocals of the divisors, and of the averages that come of them
RECIPROCAL_BITS, AVERAGE_BITS = 30, 14


@lowers("aten.avg_pool2d")
def avg_pool2d(
    b: TosaBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Value:  # fmt: skip
    """avg_pool2d -> AVG_POOL2D; DEPTHWISE_CONV2D of ones where the divisor is another one."""
    axes, image = windows(b, kernel, stride, padding), b.nhwc(x)
    out = b.out[0].transposed(NHWC[4])
    if not is_static(kernel, x.type.ints[2:]):
        return b.nchw(open_average(b, image, axes, count_include_pad, divisor_override, out))
    sizes = x.type.ints[2:]
    counts = [divisors(w, s, count_include_pad) for w, s in zip(axes, sizes, strict=True)]
    if divisor_override is not None:
        counts = [np.ones(axes[0].out), np.full(axes[1].out, divisor_override)]
    return b.nchw(average_window(b, image, axes, counts, out))


@lowers("aten.avg_pool3d")
def avg_pool3d(
    b: TosaBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Value:  # fmt: skip
    """avg_pool3d -> the average over height and width, then over depth."""
    depth, rows, columns = windows(b, kernel, stride, padding)
    sizes = x.type.ints[2:]
    axes = (depth, rows, columns)
    counts = [divisors(w, s, count_include_pad) for w, s in zip(axes, sizes, strict=True)]
    if divisor_override is not None:
        plane = float(rows.kernel * columns.kernel)
        counts = [np.full(depth.out, divisor_override / plane), np.full(rows.out, plane),
                  np.ones(columns.out)]  # fmt: skip
    image = b.transpose(x, NHWC[5])
    n, d, h, w, c = image.type.ints
    image = b.reshape(image, (n * d, h, w, c))
    area = Window(1, 1, 0, rows.out * columns.out)
    out = b.out[0].with_(shape=(n, depth.out, area.out, c))
    if same_codes(x.type, out) and (out.quant is None or divisor_override is None):
        # two roundings, of half a step each
        plane_type = x.type.with_(shape=(n * d, rows.out, columns.out, c))
        y = average_window(b, image, (rows, columns), counts[1:], plane_type)
        y = b.reshape(y, (n, d, area.out, c))
        y = average_window(b, y, (depth, area), [counts[0], np.ones(area.out)], out)
    else:
        sums = accumulate(b, image, (rows, columns), 1)
        if sums.type.dtype is DType.INT48:  # 48-bit values cannot be moved
            sums = b.rescale(sums, 1.0, DType.INT32)
        sums = _sum_depth(b, b.reshape(sums, (n, d, area.out, c)), depth)
        divisor = np.outer(counts[0], np.outer(counts[1], counts[2]))
        y = divide(b, sums, divisor.reshape(1, depth.out, area.out, 1), x.type, out)
    y = b.reshape(y, (n, depth.out, rows.out, columns.out, c))
    return b.transpose(y, NCHW[5])


def _sum_depth(b: TosaBuilder, sums: Value, depth: Window) -> Value:
    """Integer sums over the windows of axis 1 of [N, D, A, C]: one ADD per tap."""
    n, d, area, c = sums.type.ints
    span = depth.out * depth.stride + depth.kernel - 1
    pads = (0, 0, depth.before, max(span - depth.before - d, 0), 0, 0, 0, 0)
    if any(pads):
        sums = b.PAD(sums, pads, b.scalar(0, DType.INT32, 1))
    total = None
    for tap in range(depth.kernel):
        taken = b.slice(sums, (0, tap, 0, 0), (n, depth.out * depth.stride, area, c))
        taken = b.reshape(taken, (n * depth.out, depth.stride, area, c))
        taken = b.slice(taken, (0, 0, 0, 0), (n * depth.out, 1, area, c))
        total = taken if total is None else b.ADD(total, taken)
    assert total is not None
    return b.reshape(total, (n, depth.out, area, c))


@lowers("aten.adaptive_avg_pool2d")
def adaptive_avg_pool2d(b: TosaBuilder, x: Value, output_size: Sequence[int]) -> Value:
    """adaptive_avg_pool2d -> one average per run of equally spaced windows, and CONCAT."""
    return adaptive_average(b, x, output_size)


def adaptive_average(
    b: TosaBuilder, x: Value, output_size: Sequence[int], longest_step: int | None = None
) -> Value:
    """The same; windows further apart than `longest_step` are averaged one by one."""
    image, (h, w) = b.nhwc(x), x.type.ints[2:]
    out = b.out[0].transposed(NHWC[4])
    bands = []
    for top, rows in adaptive_runs(h, output_size[0], longest_step):
        cells = []
        for left, columns in adaptive_runs(w, output_size[1], longest_step):
            size = (image.type.ints[0], rows.needed, columns.needed, image.type.ints[3])
            part = b.slice(image, (0, top, left, 0), size)
            shape = (size[0], rows.out, columns.out, size[3])
            counts = [np.full(a.out, a.kernel) for a in (rows, columns)]
            cells.append(average_window(b, part, (rows, columns), counts, out.with_(shape=shape)))
        bands.append(join(b, cells, 2))
    return b.nchw(join(b, bands, 1))


def adaptive_runs(size: int, out: int, longest_step: int | None = None) -> list[tuple[int, Window]]:
    """The windows of adaptive pooling, floor(i * size / out) .. ceil((i + 1) * size / out).

    Grouped into (start, Window) of neighbours with one size and one distance.
    """
    starts = [i * size // out for i in range(out)]
    sizes = [-((-(i + 1) * size) // out) - starts[i] for i in range(out)]
    runs, i = [], 0
    while i < out:
        j, step = i + 1, 1
        if j < out and sizes[j] == sizes[i]:
            step = max(starts[j] - starts[i], 1)
        if longest_step is not None and step > longest_step:
            step = 1
        while j < out and sizes[j] == sizes[i] and starts[j] - starts[j - 1] == step:
            j += 1
        runs.append((starts[i], Window(sizes[i], step, 0, j - i)))
        i = j
    return runs


def divisors(window: Window, size: int, include_pad: bool) -> np.ndarray:
    """By how many elements PyTorch divides at each position, along one axis.

    Padding counts when `include_pad`; what ceil_mode adds beyond the padding never does.
    """
    start = np.arange(window.out) * window.stride - window.before
    end = np.minimum(start + window.kernel, size + window.before)
    if include_pad:
        return end - start
    return np.minimum(end, size) - np.maximum(start, 0)


def average_window(
    b: TosaBuilder, x: Value, axes: Sequence[Window], counts: Sequence[np.ndarray],
    out: TensorType,
) -> Value:  # fmt: skip
    """Sum of each window of [N, H, W, C] over counts[0][row] * counts[1][column], as type `out`."""
    check_type(b, x)
    sizes = x.type.ints[1:3]
    elements = [divisors(w, s, False) for w, s in zip(axes, sizes, strict=True)]
    of_elements = all(np.array_equal(c, e) for c, e in zip(counts, elements, strict=True))
    if of_elements and same_codes(x.type, out):
        return recode(b, _average(b, x, axes), out)
    divisor = np.outer(counts[0], counts[1]).astype(np.float64)
    if x.type.dtype.is_float and np.all(divisor == divisor[0, 0]):
        return accumulate(b, x, axes, 1 / divisor[0, 0])
    sums = _whole_sum(b, x) if _is_whole(x, axes) else accumulate(b, x, axes, 1)
    return divide(b, sums, divisor.reshape(1, *divisor.shape, 1), x.type, out)


def open_average(
    b: TosaBuilder, x: Value, axes: Sequence[Window], include_pad: bool, divisor: int | None,
    out: TensorType,
) -> Value:  # fmt: skip
    """Average of each window of [N, H, W, C] of symbolic size or with symbolic windows.

    Padding that counts is laid around the image first. A window that ceil_mode lets reach beyond
    it is refused: its count depends on the position.
    """
    check_type(b, x)
    before = [a.before for a in axes]
    if include_pad and any(before):
        for axis, window in enumerate(axes, 1):
            beyond = largest(window.after(x.type.ints[axis]) - window.before)
            b.require(beyond <= 0, f"ceil_mode over the symbolic axis {x.type.shape[axis]}")
        x, axes = _with_padding(b, x, axes, [n for n in before for _ in (0, 1)])
    if divisor is None and same_codes(x.type, out):
        return recode(b, _average(b, x, axes), out)
    after = [at_least(a.after(n), 0) for a, n in zip(axes, x.type.ints[1:3], strict=True)]
    whole = all(a == 0 for a in (*after, *(a.before for a in axes)))
    area = axes[0].kernel * axes[1].kernel if divisor is None else divisor
    if divisor is None and not whole and not x.type.dtype.is_float:
        return _counted_average(b, x, axes, after, out)
    if not is_static((area,)):
        return _block_average(b, x, axes, out)
    x, axes = _with_padding(b, x, axes, [axes[0].before, after[0], axes[1].before, after[1]])
    if x.type.dtype.is_float:
        return accumulate(b, x, axes, 1 / area)
    return divide(b, accumulate(b, x, axes, 1), np.full((1, 1, 1, 1), area), x.type, out)


def _block_average(b: TosaBuilder, x: Value, axes: Sequence[Window], out: TensorType) -> Value:
    """Windows of symbolic size side by side: sums over the axes of [N, H, h, W, w, C]."""
    n, h, w, c = x.type.ints
    rows, columns = axes
    for a, size in zip(axes, (h, w), strict=True):
        b.require(
            a.kernel == a.stride or a.out == 1,
            f"overlapping windows of the symbolic size {a.kernel} over quantized values",
        )
        b.require(a.out * a.kernel == size, f"windows of {a.kernel} that do not cover {size}")
    quant = _quantized(b, x.type, out)
    blocks = b.reshape(b.to_int32(x), (n, rows.out, rows.kernel, columns.out, columns.kernel, c))
    sums = b.REDUCE_SUM(b.REDUCE_SUM(blocks, axis=4), axis=2)
    sums = b.reshape(sums, (n, rows.out, columns.out, c))
    mean, bits = divided(b, sums, rows.kernel * columns.kernel, 2.0**x.type.dtype.bits)
    return to_output(b, mean, quant.s * 2.0**-bits, out)


def _with_padding(
    b: TosaBuilder, x: Value, axes: Sequence[Window], pads: Sequence[Dim]
) -> tuple[Value, list[Window]]:
    """The image with zeros around it, and windows that begin at its edge."""
    if any(p != 0 for p in pads):
        x = b.PAD(x, (0, 0, *pads, 0, 0), b.zero_point(x), quant=x.type.quant)
    return x, [replace(a, before=0) for a in axes]


def _counted_average(
    b: TosaBuilder, x: Value, axes: Sequence[Window], after: Sequence[Dim], out: TensorType
) -> Value:
    """Sums over the numbers of elements, which the same windows find in an image of ones."""
    quant = _quantized(b, x.type, out)
    pads = [axes[0].before, after[0], axes[1].before, after[1]]
    one = b.const(np.ones((1, 1, 1, 1), np.int8))
    ones, _ = _with_padding(b, b.TILE(one, (1, *x.type.shape[1:3], 1)), axes, pads)
    x, axes = _with_padding(b, x, axes, pads)
    counts = accumulate(b, ones, axes, 1)
    sums = accumulate(b, x, axes, 1)
    if sums.type.dtype is DType.INT48:
        sums = b.rescale(sums, 1.0, DType.INT32)
    mean, bits = divided_by(b, sums, counts, 2.0**x.type.dtype.bits)
    return to_output(b, mean, quant.s * 2.0**-bits, out)


def _is_whole(x: Value, axes: Sequence[Window]) -> bool:
    """One window over a whole image of integers, whose sum fits in INT32."""
    shape = x.type.ints
    covered = all(a.out == 1 and a.kernel == s for a, s in zip(axes, shape[1:3], strict=True))
    bits = log2(prod(shape[1:3])) + x.type.dtype.bits
    return covered and not x.type.dtype.is_float and x.type.quant is not None and bits < 31


def _whole_sum(b: TosaBuilder, x: Value) -> Value:
    """REDUCE_SUM over the positions as one axis: cheaper than a kernel of ones that large."""
    n, h, w, c = x.type.ints
    rows = b.reshape(x, (n, h * w, c))
    return b.reshape(b.REDUCE_SUM(b.to_int32(rows), axis=1), (n, 1, 1, c))


def same_codes(have: TensorType, want: TensorType) -> bool:
    """Whether a code means the same in both types; all floats do."""
    if have.quant is None or want.quant is None:
        return have.dtype.is_float
    return (have.dtype, have.quant.s, have.quant.zp) == (want.dtype, want.quant.s, want.quant.zp)


def _average(b: TosaBuilder, x: Value, axes: Sequence[Window]) -> Value:
    x, pad = fit(b, x, axes)
    zero, acc = b.zero_point(x), DType.FP32 if x.type.dtype.is_float else DType.INT32
    kernel, stride = tuple(a.kernel for a in axes), tuple(a.stride for a in axes)
    if not is_static(kernel, pad):
        return b.AVG_POOL2D_ADAPTIVE(  # type: ignore[no-any-return]
            x, zero, zero, kernel, stride, pad, acc_type=acc, quant=x.type.quant
        )
    return b.AVG_POOL2D(  # type: ignore[no-any-return]
        x, zero, zero, kernel=kernel, stride=stride, pad=pad, acc_type=acc, quant=x.type.quant
    )


def accumulate(b: TosaBuilder, x: Value, axes: Sequence[Window], weight: float) -> Value:
    """Sums of the windows, each element times `weight` (1 for integers)."""
    x, pad = fit(b, x, axes)
    dtype, channels = x.type.dtype, x.type.ints[3]
    kernel_type = dtype if dtype.is_float else DType.INT8
    shape = (axes[0].kernel, axes[1].kernel, channels, 1)
    kernel = b.const(np.full(shape, weight, kernel_type.numpy), kernel_type)
    acc = ACCUMULATOR[dtype]
    bias_type = dtype if dtype.is_float else acc
    return b.DEPTHWISE_CONV2D(  # type: ignore[no-any-return]
        x, kernel, b.const(np.zeros(channels, bias_type.numpy), bias_type), b.zero_point(x),
        b.zero_point(kernel), pad=pad, stride=tuple(a.stride for a in axes), acc_type=acc,
    )  # fmt: skip


def divide(
    b: TosaBuilder, sums: Value, divisor: np.ndarray, x: TensorType, out: TensorType
) -> Value:
    """Sums of elements of type `x` over `divisor`: in the RESCALE where it is one, else by MUL."""
    if sums.type.dtype.is_float:
        factor = b.const((1 / divisor).astype(sums.type.dtype.numpy))
        return b.MUL(sums, factor, b.scalar(0, DType.INT8, 1))  # type: ignore[no-any-return]
    step = _quantized(b, x, out).s
    if np.all(divisor == divisor.flat[0]):
        return to_output(b, sums, step / float(divisor.flat[0]), out)
    bits = AVERAGE_BITS if x.dtype is DType.INT8 else AVERAGE_BITS - 8
    if sums.type.dtype is DType.INT48:
        sums = b.rescale(sums, 1.0, DType.INT32)
    reciprocal = np.rint(2.0**RECIPROCAL_BITS / divisor).astype(np.int32)
    shift = b.scalar(RECIPROCAL_BITS - bits, DType.INT8, 1)
    product = b.MUL(sums, b.const(reciprocal), shift)
    return to_output(b, product, step * 2.0**-bits, out)


def _quantized(b: TosaBuilder, x: TensorType, out: TensorType) -> Quant:
    if x.quant is None or out.quant is None:
        b.refuse(f"pooling of {x.dtype.name} values that are not quantized")
    assert x.quant is not None
    return x.quant


def mean_as_avg_pool(b: TosaBuilder, x: Value, axes: Sequence[int], out: TensorType) -> Value:
    """Mean over neighbouring `axes` (kept, size 1) as AVG_POOL2D, in the dtype and quant of `out`.

    Axes that reach to the end are the spatial ones of a channels-first value. One rounding, to the
    step of `out`. Raises Unsupported where the window exceeds the target's largest kernel.
    """
    shape, first, last = x.type.ints, min(axes), max(axes) + 1
    count = prod(shape[first:last])
    outer, inner = prod(shape[:first]), prod(shape[last:])
    rows = _rows(shape[first:last])
    kept = tuple(1 if first <= i < last else d for i, d in enumerate(shape))
    if last < len(shape):
        image = b.reshape(x, (outer, rows, count // rows, inner))
    else:
        n = shape[0] if first > 1 else 1
        channels = outer // n
        image = b.nhwc(b.reshape(x, (n, channels, rows, count // rows)))
    window = (Window(rows, 1, 0, 1), Window(count // rows, 1, 0, 1))
    type = TensorType(out.dtype, (image.type.ints[0], 1, 1, image.type.ints[3]), out.quant)
    if is_static(shape[first:last]):
        counts = [np.full(1, rows), np.full(1, count // rows)]
        y = average_window(b, image, window, counts, type)
    else:
        y = open_average(b, image, window, True, None, type)
    return b.reshape(y, kept) if last < len(shape) else b.reshape(b.nchw(y), kept)


def _rows(dims: Sequence[int]) -> int:
    """The height of the window of a mean over `dims`."""
    return 1 if len(dims) == 1 else dims[0]
