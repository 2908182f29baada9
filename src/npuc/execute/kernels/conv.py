"""Convolutions and matrix products.

Integers are computed in floats, exactly: float32 holds every integer up to 2^24, float64 up to
2^53, so whichever holds the largest possible partial sum is used. Zero points are subtracted
first; padding is then zero, as the specification defines it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from npuc.execute.kernels.registry import Array, as_tensor, kernel, stored, wide
from npuc.ir import DType, Op


@contextmanager
def exact_float32(torch: Any) -> Iterator[None]:
    """Keep torch from computing float32 products in bfloat16, whatever the user has set."""
    precision = torch.get_float32_matmul_precision()
    if precision == "highest":
        yield
        return
    torch.set_float32_matmul_precision("highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)


def operands_as_float(
    op: Op, x: Array, w: Array, x_zp: Array, w_zp: Array, axes: tuple[int, ...]
) -> tuple[Array, Array]:
    """Both operands without their zero points, in a float type that makes the result exact.

    `axes` are those axes of `w` that one result is summed over.
    """
    zero_x, zero_w = x_zp.reshape(-1)[0], w_zp.reshape(-1)[0]
    if x.dtype.kind != "i":
        x, w = wide(x), wide(w)
        return (x - np.float32(zero_x) if zero_x else x), (w - np.float32(zero_w) if zero_w else w)
    low, high = op.operands[0].type.dtype.range
    largest = max(high - int(zero_x), int(zero_x) - low)
    w = w.astype(np.float64) - float(zero_w)
    bound = largest * np.abs(w).sum(axis=axes).max(initial=0.0)
    if bound >= 2.0**53:
        raise OverflowError(f"sums up to {bound:.3g} are not exact in float64")
    dtype = np.float32 if bound < 2.0**24 else np.float64
    x = x.astype(dtype)
    if zero_x:
        x -= dtype(zero_x)
    return x, w.astype(dtype)


def finish(op: Op, y: Array, bias: Array) -> Array:
    """Add the bias in the accumulator's precision and store the result."""
    dtype = op.results[0].type.dtype
    if dtype.is_float:
        return stored(op, y + wide(bias))
    if dtype is DType.INT32 and y.dtype == np.float32:
        return y.astype(np.int32) + bias
    return stored(op, y.astype(np.int64) + bias.astype(np.int64))


def convolve(
    x: Array, w: Array, stride: Sequence[int], pad: Sequence[int], dilation: Sequence[int],
    groups: int = 1,
) -> Array:  # fmt: skip
    """Channels-last `x` [N, *spatial, C] with `w` [O, *kernel, C / groups]."""
    import torch
    import torch.nn.functional as F

    spatial = x.ndim - 2
    before, after = list(pad[::2]), list(pad[1::2])
    if before != after:
        x = np.pad(x, [(0, 0), *zip(before, after, strict=True), (0, 0)])
        before = [0] * spatial
    tx, tw = as_tensor(x), as_tensor(w)
    with exact_float32(torch):
        if groups == 1 and all(k == 1 for k in w.shape[1:-1]) and not any(before):
            if any(s > 1 for s in stride):
                tx = tx[(slice(None), *(slice(None, None, s) for s in stride))]
            return torch.matmul(tx, tw.reshape(w.shape[0], -1).t()).numpy()  # type: ignore[no-any-return]
        function = F.conv2d if spatial == 2 else F.conv3d
        y = function(tx.movedim(-1, 1), tw.movedim(-1, 1), None, stride, before, dilation, groups)
    return y.movedim(1, -1).numpy()  # type: ignore[no-any-return]


@kernel("CONV2D", "CONV3D")
def conv(op: Op, x: Array, w: Array, bias: Array, x_zp: Array, w_zp: Array) -> Array:
    """Weight [OC, *kernel, IC]."""
    x, w = operands_as_float(op, x, w, x_zp, w_zp, tuple(range(1, w.ndim)))
    attrs = op.attrs
    return finish(op, convolve(x, w, attrs["stride"], attrs["pad"], attrs["dilation"]), bias)


@kernel("DEPTHWISE_CONV2D")
def depthwise_conv2d(op: Op, x: Array, w: Array, bias: Array, x_zp: Array, w_zp: Array) -> Array:
    """Weight [KH, KW, C, M]; output channel c * M + m."""
    x, w = operands_as_float(op, x, w, x_zp, w_zp, (0, 1))
    height, width, channels, _multiplier = w.shape
    w = w.reshape(height, width, -1).transpose(2, 0, 1)[..., None]
    attrs = op.attrs
    y = convolve(x, w, attrs["stride"], attrs["pad"], attrs["dilation"], groups=channels)
    return finish(op, y, bias)


@kernel("TRANSPOSE_CONV2D")
def transpose_conv2d(op: Op, x: Array, w: Array, bias: Array, x_zp: Array, w_zp: Array) -> Array:
    """Weight [OC, KH, KW, IC]. Positive `out_pad` widens the result, negative crops it."""
    import torch
    import torch.nn.functional as F

    x, w = operands_as_float(op, x, w, x_zp, w_zp, (1, 2, 3))
    tx = as_tensor(x).movedim(-1, 1)
    tw = as_tensor(w).permute(3, 0, 1, 2)
    top, bottom, left, right = op.attrs["out_pad"]
    with exact_float32(torch):
        y = F.conv_transpose2d(tx, tw, None, op.attrs["stride"])
    y = F.pad(y, (left, right, top, bottom))
    return finish(op, y.movedim(1, -1).numpy(), bias)


def product(a: Array, b: Array) -> Array:
    """Batched matrix product [N, H, C] x [N, C, W]."""
    import torch

    with exact_float32(torch):
        ta, tb = (as_tensor(v) for v in (a, b))
        return torch.matmul(ta, tb).numpy()  # type: ignore[no-any-return]


@kernel("MATMUL")
def matmul(op: Op, a: Array, b: Array, a_zp: Array, b_zp: Array) -> Array:
    """[N, H, C] x [N, C, W]."""
    a, b = operands_as_float(op, a, b, a_zp, b_zp, (1,))
    return stored(op, _whole(op, product(a, b)))


@kernel("MATMUL_T")
def matmul_t(op: Op, a: Array, b: Array, a_zp: Array, b_zp: Array) -> Array:
    """[N, H, C] x [D, W, C] transposed, D being N or 1."""
    a, b = operands_as_float(op, a, b, a_zp, b_zp, (2,))
    return stored(op, _whole(op, product(a, b.transpose(0, 2, 1))))


def _whole(op: Op, y: Array) -> Array:
    """Sums of integers back as integers."""
    return y if op.results[0].type.dtype.is_float else y.astype(np.int64)
