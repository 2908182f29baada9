"""Kernels of the TOSA operators on numpy arrays; torch does convolutions and matrix products."""

from npuc.execute.kernels import (  # noqa: F401 - importing a module registers its kernels
    block_scaled,
    conv,
    convert,
    elementwise,
    fft,
    layout,
    pool,
    reduce,
    resize,
    shape,
)
from npuc.execute.kernels.registry import KERNELS

__all__ = ["KERNELS"]
