"""gamma and beta of a quantized normalization, from the integers that `normalize` gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tosa.fixed_point import multiply
from npuc.lowering.tosa_builder import TosaBuilder


@dataclass(frozen=True)
class Affine:
    """gamma and beta per channel (axis `axis`; None: 1 and 0), and the largest |z| there can be."""

    gamma: np.ndarray | None
    beta: np.ndarray | None
    axis: int
    largest: float

    def useful(self, out: Quant) -> float:
        """The largest |z| that makes a difference: beyond it every result is saturated."""
        ends = out.dequantize(np.array([out.qmin, out.qmax]))
        reach = np.abs(ends).max() + (0 if self.beta is None else np.abs(self.beta))
        gamma = np.ones(1) if self.gamma is None else np.abs(self.gamma)
        matters = gamma * self.largest > out.s / 4
        with np.errstate(divide="ignore"):
            needed = np.where(matters, reach / gamma, 0.0)
        return float(min(max(needed.max(), out.s), self.largest))


ApplyAffine = Callable[[TosaBuilder, Value, float, Affine, TensorType], Value]


def multiply_and_add(
    b: TosaBuilder, z: Value, worth: float, affine: Affine, out: TensorType
) -> Value:
    """z * gamma + beta as MUL and ADD of INT32; `worth` is that of a step of z."""
    gamma, beta = affine.gamma, affine.beta
    room = 0.0 if beta is None else float(np.abs(beta).max())
    if gamma is None and room > worth * 2.0**29:
        gamma = np.ones(1)
    y = z  # below 2**29, and so is each addend
    if gamma is not None:
        factor, scale = _factor(b, z, gamma, affine.axis)
        shift = 16 + max(ceil(log2(max(room / (worth * scale * 2.0**16), 1.0)) - 29), 0)
        y = multiply(b, z, b.rescale(factor, 1.0, DType.INT32), shift)
        worth *= scale * 2.0**shift
    if beta is not None:
        y = b.ADD(y, _along(b, z, np.rint(beta / worth), affine.axis, DType.INT32))
    return b.requantize(y, np.float64(worth), out)


def narrow_multiply_and_add(
    b: TosaBuilder, z: Value, worth: float, affine: Affine, out: TensorType
) -> Value:
    """The same with products and sums of 16 bits, which Ethos-U fuses, for 8-bit results."""
    assert out.quant is not None
    if out.dtype is not DType.INT8:
        return multiply_and_add(b, z, worth, affine, out)
    gamma, beta = affine.gamma, affine.beta
    y = z
    if gamma is not None:
        step = affine.useful(out.quant) / 32767
        z16 = b.rescale(z, worth / step, DType.INT16)
        factor, scale = _factor(b, z, gamma, affine.axis)
        y = multiply(b, b.rescale(z16, 1.0, DType.INT32), b.rescale(factor, 1.0, DType.INT32))
        worth = step * scale
    if beta is None:
        return b.requantize(y, np.float64(worth), out)
    ends = out.quant.dequantize(np.array([out.quant.qmin, out.quant.qmax]))
    step = (float(np.abs(ends).max()) + float(np.abs(beta).max())) / 32767
    y16 = b.rescale(y, worth / step, DType.INT16)
    addend = _along(b, z, np.rint(beta / step), affine.axis, DType.INT16)
    y = b.ADD(b.rescale(y16, 1.0, DType.INT32), b.rescale(addend, 1.0, DType.INT32))
    return b.requantize(y, np.float64(step), out)


def _factor(b: TosaBuilder, like: Value, gamma: np.ndarray, axis: int) -> tuple[Value, float]:
    """gamma as 16-bit constant, and what its step is worth."""
    scale = max(float(np.abs(gamma).max()), 1e-30) / 32767
    return _along(b, like, np.rint(gamma / scale), axis, DType.INT16), scale


def _along(b: TosaBuilder, like: Value, values: np.ndarray, axis: int, dtype: DType) -> Value:
    """A vector as a constant along `axis` of `like`."""
    shape = [1] * like.type.rank
    shape[axis] = -1
    return b.const(values.astype(dtype.numpy).reshape(shape))
