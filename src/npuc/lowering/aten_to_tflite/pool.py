"""Pooling of every form: MAX_POOL_2D, AVERAGE_POOL_2D, and what they do not say by rearrangement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from npuc.dialects.tflite import same_padding, same_parameters
from npuc.ir import DType, Quant, Value
from npuc.lowering.aten_to_tflite.emit_convolution import pad_spatial, strided
from npuc.lowering.aten_to_tflite.emit_linear import emit_linear
from npuc.lowering.aten_to_tflite.weights import read_weights
from npuc.lowering.registry import lowers
from npuc.lowering.rule_builder import NCHW, NHWC
from npuc.lowering.tflite_builder import TfliteBuilder

#: elements from which on MEAN errs upwards in less than one of 30 results
MANY = 32


@dataclass(frozen=True)
class Window:
    """Kernel, stride and leading padding of a pool with `out` positions along an axis of `size`."""

    size: int
    kernel: int
    stride: int
    before: int
    after: int
    out: int
    dilation: int = 1

    @property
    def extent(self) -> int:
        return (self.kernel - 1) * self.dilation + 1

    @property
    def needed(self) -> int:
        """Trailing padding that the last window reaches."""
        return max((self.out - 1) * self.stride + self.extent - self.before - self.size, 0)

    @property
    def is_same(self) -> bool:
        """Whether SAME says this padding."""
        pads = same_padding(self.size, self.kernel, self.stride, self.dilation)
        return pads == (self.before, self.needed) and -(-self.size // self.stride) == self.out

    @property
    def is_whole(self) -> bool:
        """Whether the one window is the axis."""
        return self.out == 1 and self.before == self.needed == 0 and self.kernel == self.size

    def counts(self, include_pad: bool) -> np.ndarray:
        """Elements that each position averages over, as PyTorch counts them."""
        low, high = (-self.before, self.size + self.after) if include_pad else (0, self.size)
        first = np.arange(self.out) * self.stride - self.before
        return np.minimum(first + self.kernel, high) - np.maximum(first, low)


def windows(
    b: TfliteBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int] | None = None,
) -> list[Window]:  # fmt: skip
    """One Window per spatial axis of the op that is being lowered."""
    sizes = x.type.ints[2:]
    dilation = dilation or (1,) * len(sizes)
    rows = zip(sizes, kernel, stride, padding, b.out[0].ints[2:], dilation, strict=True)
    return [Window(n, k, s, p, p, o, d) for n, k, s, p, o, d in rows]


Pool = Callable[[Value, Window, Window], Value]


@lowers("aten.max_pool2d", dialect="tflite")
def max_pool2d(
    b: TfliteBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool,
) -> Value:  # fmt: skip
    """max_pool2d -> MAX_POOL_2D; dilated: MAXIMUM of slices."""
    rows, columns = windows(b, x, kernel, stride, padding, dilation)
    return b.as_result(b.nchw(max_window(b, b.nhwc(x), rows, columns)))


@lowers("aten.max_pool3d", dialect="tflite")
def max_pool3d(
    b: TfliteBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool,
) -> Value:  # fmt: skip
    """max_pool3d -> MAX_POOL_2D over height and width, then over depth."""
    axes = windows(b, x, kernel, stride, padding, dilation)
    y = _over_depth(b, b.transpose(x, NHWC[5]), axes, lambda v, r, c: max_window(b, v, r, c))
    return b.as_result(b.transpose(y, NCHW[5]))


def _over_depth(b: TfliteBuilder, x: Value, axes: Sequence[Window], pool: Pool) -> Value:
    """A pool of [N, D, H, W, C] as one over height and width and one over depth."""
    depth, rows, columns = axes
    n, d, h, w, c = x.type.ints
    y = pool(b.reshape(x, (n * d, h, w, c)), rows, columns)
    flat = rows.out * columns.out
    y = b.reshape(y, (n, d, flat, c))
    y = pool(y, depth, Window(flat, 1, 1, 0, 0, flat))
    return b.reshape(y, (n, depth.out, rows.out, columns.out, c))


def max_window(b: TfliteBuilder, x: Value, rows: Window, columns: Window) -> Value:
    """Largest of each window of [N, H, W, C], with the parameters of `x`."""
    if rows.dilation > 1 or columns.dilation > 1:
        return _dilated(b, _padded_lowest(b, x, rows, columns), rows, columns)
    padding = _padding(rows, columns)
    if padding == "VALID":
        x = _padded_lowest(b, x, rows, columns)
    return b.MAX_POOL_2D(  # type: ignore[no-any-return]
        x, kernel=(rows.kernel, columns.kernel), stride=(rows.stride, columns.stride),
        padding=padding,
    )  # fmt: skip


def _padding(rows: Window, columns: Window) -> str:
    """SAME where something is padded and that says it, else VALID."""
    pads = any((rows.before, rows.needed, columns.before, columns.needed))
    return "SAME" if pads and rows.is_same and columns.is_same else "VALID"


def _padded_lowest(b: TfliteBuilder, x: Value, rows: Window, columns: Window) -> Value:
    pads = [0, 0, rows.before, rows.needed, columns.before, columns.needed, 0, 0]
    if not any(pads):
        return x
    dtype = x.type.dtype
    lowest = np.finfo(np.float32).min if dtype.is_float else dtype.range[0]
    return b.PADV2(x, b.scalar(lowest, dtype, 1, x.type.quant), paddings=pads)  # type: ignore[no-any-return]


def _dilated(b: TfliteBuilder, x: Value, rows: Window, columns: Window) -> Value:
    for axis, window in ((1, rows), (2, columns)):
        taps = []
        for k in range(window.kernel):
            begin = k * window.dilation
            end = begin + (window.out - 1) * window.stride + 1
            taps.append(strided(b, x, axis, begin, end, window.stride))
        x = taps[0]
        for tap in taps[1:]:
            x = b.MAXIMUM(x, tap)
    return x


@lowers("aten.avg_pool2d", dialect="tflite")
def avg_pool2d(
    b: TfliteBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Value:  # fmt: skip
    """avg_pool2d -> AVERAGE_POOL_2D, with parameters of its own MEAN or DEPTHWISE_CONV_2D; where it
    divides by other counts, corrected by a MUL."""
    rows, columns = windows(b, x, kernel, stride, padding)
    y, quant = b.nhwc(x), b.out[0].quant
    if quant is not None and x.type.dtype is b.out[0].dtype is DType.INT8:
        divisors = window_divisors(rows, columns, count_include_pad, divisor_override)
        plain = same_parameters(x.type.quant, quant) and divisors.flat[0] == prod(kernel)
        if divisors.min() == divisors.max() and not plain:
            return b.nchw(own_mean(b, y, rows, columns, float(divisors.flat[0]), quant))
    if quant is not None and not _keeps_parameters(b, y):
        y = b.widened(y)  # a finer result needs the fractions
    y = mean_window(b, y, rows, columns, count_include_pad, divisor_override)
    return b.as_result(b.nchw(y))


def _keeps_parameters(b: TfliteBuilder, x: Value) -> bool:
    return x.type.dtype is b.out[0].dtype and same_parameters(x.type.quant, b.out[0].quant)


def window_divisors(
    rows: Window, columns: Window, include_pad: bool, override: int | None
) -> np.ndarray:
    """What the sum of each window is divided by."""
    if override is not None:
        return np.full((rows.out, columns.out), override)
    return np.outer(rows.counts(include_pad), columns.counts(include_pad))


def own_mean(
    b: TfliteBuilder, x: Value, rows: Window, columns: Window, divisor: float, quant: Quant
) -> Value:
    """Sums over windows of INT8 [N, H, W, C] by one divisor, with parameters `quant`.

    MEAN rounds twice: its sum times a factor to an integer, and that by a power of two about as
    large as the window. Of a small one many results are a step too high, so a DEPTHWISE_CONV_2D,
    whose constant weights make its sums long, takes its place.
    """
    area = rows.kernel * columns.kernel
    if rows.is_whole and columns.is_whole and divisor == area >= MANY:
        return b.MEAN(x, axes=(1, 2), keep_dims=True, quant=quant)  # type: ignore[no-any-return]
    x = pad_spatial(b, x, [(w.before, w.needed) for w in (rows, columns)])
    codes = np.full((x.type.ints[3], 1, rows.kernel, columns.kernel), 127, np.int8)
    constant = b.const(codes, DType.INT8, Quant(1 / divisor / 127, 0, None, -128, 127))
    weights = read_weights(b, x, constant, None)
    return b.DEPTHWISE_CONV_2D(  # type: ignore[no-any-return]
        x, b.transpose(weights.filter, (1, 2, 3, 0)), weights.bias,
        stride=(rows.stride, columns.stride), quant=quant,
    )  # fmt: skip


@lowers("aten.avg_pool3d", dialect="tflite")
def avg_pool3d(
    b: TfliteBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], ceil_mode: bool, count_include_pad: bool,
    divisor_override: int | None,
) -> Value:  # fmt: skip
    """avg_pool3d -> AVERAGE_POOL_2D over height and width, then over depth, quantized in INT16."""
    axes = windows(b, x, kernel, stride, padding)
    y = b.transpose(x, NHWC[5])
    y = b.widened(y) if y.type.quant is not None else y
    y = _over_depth(b, y, axes, lambda v, r, c: mean_window(b, v, r, c, count_include_pad, None))
    if divisor_override is not None:
        counts = [w.counts(count_include_pad) for w in axes]
        factor = np.einsum("a,b,c->abc", *counts)[None, ..., None] / divisor_override
        y = times(b, y, factor)
    return b.as_result(b.transpose(y, NCHW[5]))


def mean_window(
    b: TfliteBuilder,
    x: Value,
    rows: Window,
    columns: Window,
    include_pad: bool,
    divisor: int | None,
) -> Value:
    """Mean of each window of [N, H, W, C]."""
    axes = (rows, columns)
    counts = [w.counts(include_pad) for w in axes]
    wanted = (
        1.0 / np.outer(*counts)
        if divisor is None
        else np.full((rows.out, columns.out), 1 / divisor)
    )
    kernel, stride = (rows.kernel, columns.kernel), (rows.stride, columns.stride)
    inside = np.outer(*[w.counts(False) for w in axes])
    if _padding(rows, columns) == "SAME" and np.allclose(wanted * inside, 1):
        return b.AVERAGE_POOL_2D(x, kernel=kernel, stride=stride, padding="SAME")  # type: ignore[no-any-return]
    padded = pad_spatial(b, x, [(w.before, w.needed) for w in axes])
    factor = wanted * prod(kernel)
    if np.allclose(factor, 1):
        return b.AVERAGE_POOL_2D(padded, kernel=kernel, stride=stride)  # type: ignore[no-any-return]
    if padded.type.quant is not None:
        padded = b.widened(padded)
    y = b.AVERAGE_POOL_2D(padded, kernel=kernel, stride=stride)
    return times(b, y, factor[None, :, :, None])


def times(b: TfliteBuilder, x: Value, factor: np.ndarray) -> Value:
    """x times constants, with the range that this needs."""
    quant = x.type.quant
    if quant is None:
        return b.MUL(x, b.const(factor.astype(np.float32)))  # type: ignore[no-any-return]
    largest = float(np.abs(factor).max())
    out = Quant(quant.s * max(largest, 1.0), 0, None, *x.type.dtype.range)
    return b.MUL(x, b.real_const(factor, x.type.dtype), quant=out)  # type: ignore[no-any-return]


@lowers("aten.adaptive_avg_pool2d", dialect="tflite")
def adaptive_avg_pool2d(b: TfliteBuilder, x: Value, output_size: Sequence[int]) -> Value:
    """adaptive_avg_pool2d that does not divide -> FULLY_CONNECTED by the constant matrix of means."""
    n, c, h, w = x.type.ints
    rows, columns = (means(size, out) for size, out in zip((h, w), b.out[0].ints[2:], strict=True))
    matrix = np.kron(rows, columns)
    out = b.out[0]
    y = b.reshape(x, (n * c, h * w))
    if x.type.dtype is not out.dtype:
        return b.as_result(b.reshape(by_matrix(b, b.widened(y), matrix), out.ints))
    return b.reshape(by_matrix(b, y, matrix, out.quant), out.ints)


def means(size: int, out: int) -> np.ndarray:
    """[out, size]: the windows of adaptive pooling."""
    matrix = np.zeros((out, size))
    for i in range(out):
        start, end = i * size // out, -(-(i + 1) * size // out)
        matrix[i, start:end] = 1 / (end - start)
    return matrix


def by_matrix(b: TfliteBuilder, x: Value, matrix: np.ndarray, quant: Quant | None = None) -> Value:
    """x @ matrix.T along the last axis, as FULLY_CONNECTED; each row of the matrix has its scale."""
    if x.type.quant is None:
        weight = b.const(matrix.astype(np.float32))
    else:
        scale = np.maximum(np.abs(matrix).max(axis=1), 1e-12) / 127
        codes = np.rint(matrix / scale[:, None]).astype(np.int8)
        weight = b.const(codes, DType.INT8, Quant(scale, 0, 0, -128, 127))
    return emit_linear(b, x, read_weights(b, x, weight, None), quant or x.type.quant)


@lowers("aten.adaptive_max_pool2d", dialect="tflite")
def adaptive_max_pool2d(b: TfliteBuilder, x: Value, output_size: Sequence[int]) -> Value:
    """adaptive_max_pool2d that does not divide -> REDUCE_MAX of slices, CONCATENATION."""
    y = b.nhwc(x)
    for axis, out in ((1, b.out[0].ints[2]), (2, b.out[0].ints[3])):
        size = y.type.ints[axis]
        parts = [
            b.REDUCE_MAX(
                strided(b, y, axis, i * size // out, -(-(i + 1) * size // out), 1), axes=(axis,),
                keep_dims=True,
            )
            for i in range(out)
        ]  # fmt: skip
        y = b.CONCATENATION(*parts, axis=axis) if out > 1 else parts[0]
    return b.as_result(b.nchw(y))
