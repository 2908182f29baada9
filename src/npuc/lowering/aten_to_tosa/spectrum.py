"""The rule for rfft2: RFFT2D, or products with cosines and sines."""

from __future__ import annotations

from math import prod

import numpy as np

from npuc.errors import Unsupported
from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.matmul import batched_product
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.fft_rfft2")
def rfft2(b: TosaBuilder, x: Value) -> tuple[Value, ...]:
    """rfft2 -> RFFT2D (EXT-FFT, sizes of powers of two), else MATMULs by the transform's matrices.

    x [..., H, W] -> real and imaginary part, FP32 [..., H, W / 2 + 1].
    """
    h, w = x.type.ints[-2:]
    images = b.reshape(x, (prod(x.type.ints[:-2]), h, w))
    parts = _by_operator(b, images) or _by_products(b, images)
    return tuple(b.reshape(p, t.ints) for p, t in zip(parts, b.out, strict=True))


def _by_operator(b: TosaBuilder, images: Value) -> tuple[Value, ...] | None:
    if any(n & (n - 1) for n in images.type.ints[1:]):
        return None
    try:
        return tuple(b.RFFT2D(images))
    except Unsupported:
        return None


def _by_products(b: TosaBuilder, images: Value) -> tuple[Value, ...]:
    """Rows by [W, 2K] (cosines beside sines), then columns of both parts at once by [2H, 2H]."""
    n, h, w = images.type.ints
    k = w // 2 + 1
    cos, sin = _waves(w, k)
    rows = b.reshape(images, (1, n * h, w))
    halves = batched_product(b, rows, _matrix(b, np.concatenate([cos, -sin], 1)))
    halves = b.transpose(b.reshape(halves, (n, h, 2, k)), (2, 1, 0, 3))
    columns = b.reshape(halves, (1, 2 * h, n * k))
    cos, sin = _waves(h, h)
    both = batched_product(b, _matrix(b, np.block([[cos, sin], [-sin, cos]])), columns)
    both = b.transpose(b.reshape(both, (2, h, n, k)), (0, 2, 1, 3))
    return tuple(b.slice(both, (i, 0, 0, 0), (1, n, h, k)) for i in (0, 1))


def _waves(size: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of 2 pi s c / size, [size, count]; the product is reduced first, to be exact."""
    turns = np.outer(np.arange(size), np.arange(count)) % size
    angle = 2 * np.pi * turns / size
    return np.cos(angle), np.sin(angle)


def _matrix(b: TosaBuilder, matrix: np.ndarray) -> Value:
    return b.const(matrix[None].astype(np.float32), DType.FP32)
