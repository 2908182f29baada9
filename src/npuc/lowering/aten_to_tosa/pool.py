"""Max pooling: MAX_POOL2D; dilated, 3-D and adaptive forms by exact rearrangements of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from npuc.ir import DType, TensorType, Value
from npuc.ir.symbolic import at_least, at_most
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import NCHW, NHWC, TosaBuilder


@dataclass(frozen=True)
class Window:
    """Kernel, stride and leading padding of a pool with `out` positions along one axis."""

    kernel: int
    stride: int
    before: int
    out: int
    dilation: int = 1

    @property
    def extent(self) -> int:
        """Elements from the first to the last that a kernel covers."""
        return (self.kernel - 1) * self.dilation + 1

    @property
    def needed(self) -> int:
        """Elements, with padding, that all positions together cover."""
        return (self.out - 1) * self.stride + self.extent

    def after(self, size: int) -> int:
        """Trailing padding for an axis of `size`; negative where its end is not used."""
        return self.needed - self.before - size


def windows(
    b: TosaBuilder, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int] | None = None,
) -> list[Window]:  # fmt: skip
    """One Window per spatial axis of the op that is being lowered."""
    sizes = b.out[0].ints[2:]
    dilation = dilation or (1,) * len(sizes)
    return [
        Window(k, s if n != 1 else 1, p, n, d)
        for k, s, p, n, d in zip(kernel, stride, padding, sizes, dilation, strict=True)
    ]


def fit(b: TosaBuilder, x: Value, axes: Sequence[Window]) -> tuple[Value, tuple[int, ...]]:
    """[N, H, W, C] without the end that no window covers, and the padding of both axes."""
    size, pad = list(x.type.ints), []
    for i, window in enumerate(axes, 1):
        after = window.after(size[i])
        pad += [window.before, at_least(after, 0)]
        size[i] += at_most(after, 0)
    if tuple(size) != x.type.shape:
        x = b.slice(x, [0] * len(size), size)
    return x, tuple(pad)  # type: ignore[arg-type]


def recode(b: TosaBuilder, y: Value, out: TensorType) -> Value:
    """A quantized value with the parameters of `out`: as it is where they are equal, or RESCALE."""
    have, want = y.type.quant, out.quant
    if have == want and y.type.dtype is out.dtype:
        return y
    if have is None or want is None:
        b.refuse(f"the input is {'not ' if have is None else ''}quantized, the result is not alike")
    assert have is not None and want is not None
    same = have.s == want.s and have.zp == want.zp and y.type.dtype is out.dtype
    if not same:
        y = b.rescale(y, have.s / want.s, out.dtype, in_zp=have.zp, out_zp=want.zp, quant=want)
        return b.clamp_codes(y, want)
    return b.CLAMP(  # type: ignore[no-any-return]
        y, min_val=want.qmin, max_val=want.qmax, quant=want
    )


@lowers("aten.max_pool2d")
def max_pool2d(
    b: TosaBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool,
) -> Value:  # fmt: skip
    """max_pool2d -> MAX_POOL2D; dilated: one axis at a time on [N, H / d, d, ...]."""
    rows, columns = windows(b, kernel, stride, padding, dilation)
    return recode(b, b.nchw(max_window(b, b.nhwc(x), rows, columns)), b.out[0])


@lowers("aten.max_pool3d")
def max_pool3d(
    b: TosaBuilder, x: Value, kernel: Sequence[int], stride: Sequence[int],
    padding: Sequence[int], dilation: Sequence[int], ceil_mode: bool,
) -> Value:  # fmt: skip
    """max_pool3d -> MAX_POOL2D over height and width, then over depth."""
    return max_volume(b, x, windows(b, kernel, stride, padding, dilation), max_window)


def max_volume(
    b: TosaBuilder, x: Value, axes: Sequence[Window],
    pool: Callable[[TosaBuilder, Value, Window, Window], Value],
) -> Value:  # fmt: skip
    """Maxima over depth, height and width of [N, C, D, H, W], by 2-D ones: `pool`."""
    depth, rows, columns = axes
    y = b.transpose(x, NHWC[5])
    n, d, h, w, c = y.type.ints
    y = pool(b, b.reshape(y, (n * d, h, w, c)), rows, columns)
    y = b.reshape(y, (n, d, rows.out * columns.out, c))
    y = pool(b, y, depth, Window(1, 1, 0, rows.out * columns.out))
    y = b.reshape(y, (n, depth.out, rows.out, columns.out, c))
    return recode(b, b.transpose(y, NCHW[5]), b.out[0])


def max_window(b: TosaBuilder, x: Value, rows: Window, columns: Window) -> Value:
    """Largest of each window of [N, H, W, C], with the quantization of `x`."""
    check_type(b, x)
    if rows.dilation > 1 or columns.dilation > 1:
        return _dilated(b, x, rows, columns)
    x, pad = fit(b, x, (rows, columns))
    kernel, stride = (rows.kernel, columns.kernel), (rows.stride, columns.stride)
    if not is_static(kernel, pad):
        return b.MAX_POOL2D_ADAPTIVE(x, kernel, stride, pad, quant=x.type.quant)  # type: ignore[no-any-return]
    return b.MAX_POOL2D(x, kernel=kernel, stride=stride, pad=pad, quant=x.type.quant)  # type: ignore[no-any-return]


def is_static(*sizes: Sequence[int]) -> bool:
    """Whether windows can be attributes; symbolic ones are operands of the adaptive operators."""
    return all(isinstance(n, int) for numbers in sizes for n in numbers)


def check_type(b: TosaBuilder, x: Value) -> None:
    """Refuse what TOSA's pools do not take."""
    dtype = x.type.dtype
    fits = dtype.is_float or dtype in (DType.INT8, DType.INT16)
    b.require(fits, f"TOSA has no pooling of {dtype.name}")


def _dilated(b: TosaBuilder, x: Value, rows: Window, columns: Window) -> Value:
    """Every position along each axis in turn, then those on the stride."""
    for axis, window in ((1, rows), (2, columns)):
        x = _dilated_axis(b, x, axis, window)
    if rows.stride == columns.stride == 1:
        return x
    stride = (Window(1, rows.stride, 0, rows.out), Window(1, columns.stride, 0, columns.out))
    return max_window(b, x, *stride)


def _dilated_axis(b: TosaBuilder, x: Value, axis: int, window: Window) -> Value:
    """Stride-1 maximum along one axis: as [blocks, dilation] it is an undilated one over blocks."""
    shape, dilation = x.type.ints, window.dilation
    positions = (window.out - 1) * window.stride + 1
    blocks = -(-positions // dilation)
    padded = (blocks + window.kernel - 1) * dilation
    x = pad_axis(b, x, axis, window.before, padded - window.before - shape[axis])
    outer, inner = prod(shape[:axis]), prod(shape[axis + 1 :])
    x = b.reshape(x, (outer, padded // dilation, dilation, inner))
    x = max_window(b, x, Window(window.kernel, 1, 0, blocks), Window(1, 1, 0, dilation))
    x = b.reshape(x, (*shape[:axis], blocks * dilation, *shape[axis + 1 :]))
    size = (*shape[:axis], positions, *shape[axis + 1 :])
    return b.slice(x, (0,) * 4, size)


def pad_axis(b: TosaBuilder, x: Value, axis: int, before: int, after: int) -> Value:
    """PAD with the lowest value; a negative `after` cuts the end off."""
    shape = x.type.ints
    if after < 0:
        shape = (*shape[:axis], shape[axis] + after, *shape[axis + 1 :])
        x = b.slice(x, (0,) * len(shape), shape)
        after = 0
    if before == after == 0:
        return x
    pads = [0] * (2 * len(shape))
    pads[2 * axis : 2 * axis + 2] = [before, after]
    dtype = x.type.dtype
    lowest = -np.inf if dtype.is_float else dtype.range[0]
    return b.PAD(  # type: ignore[no-any-return]
        x, pads, b.const(np.full(1, lowest).astype(dtype.numpy), dtype), quant=x.type.quant
    )
