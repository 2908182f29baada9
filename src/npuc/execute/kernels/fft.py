"""Fourier transforms, computed in float64."""

from __future__ import annotations

import numpy as np

from npuc.execute.kernels.registry import Array, kernel
from npuc.ir import Op


@kernel("FFT2D")
def fft2d(op: Op, real: Array, imag: Array) -> tuple[Array, Array]:
    """Over the last two axes; the inverse is not divided by the number of elements."""
    x = real.astype(np.float64) + 1j * imag.astype(np.float64)
    y = np.fft.ifft2(x, norm="forward") if op.attrs["inverse"] else np.fft.fft2(x)
    return y.real.astype(np.float32), y.imag.astype(np.float32)


@kernel("RFFT2D")
def rfft2d(op: Op, real: Array) -> tuple[Array, Array]:
    """The non-redundant half, W / 2 + 1 columns."""
    y = np.fft.rfft2(real.astype(np.float64))
    return y.real.astype(np.float32), y.imag.astype(np.float32)
