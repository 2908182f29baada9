"""Element-wise arithmetic on Ethos-U55 and U65 where the common form costs more than it has to.

A constant operand of more than one element is fetched from flash for every element it is read for
(8 cycles); as weights of a 1x1 depthwise convolution it is fetched once (vela.md section 4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tosa import arithmetic, divide, pairwise
from npuc.lowering.aten_to_tosa.arithmetic import common_sum, tabulated
from npuc.lowering.aten_to_tosa.formula import Number
from npuc.lowering.aten_to_tosa.operands import is_scalar, requantized, terms
from npuc.lowering.aten_to_tosa.quotient import integer_quotient
from npuc.lowering.aten_to_tosa.unary import narrowed, real_constant
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder

#: positions per channel from which the convolution is cheaper
FEWEST_POSITIONS = 2
ACCUMULATOR = {DType.INT8: DType.INT32, DType.INT16: DType.INT48}


@lowers("aten.add.Tensor", target="ethos-u55")
def add_u55(b: TosaBuilder, x: Value, y: Value, *, alpha: Number = 1) -> Value:
    """add -> as elsewhere; a constant along one axis: 1x1 DEPTHWISE_CONV2D with a bias."""
    found = _sum(b, x, y, alpha)
    return found if found is not None else arithmetic.add(b, x, y, alpha=alpha)


@lowers("aten.sub.Tensor", target="ethos-u55")
def sub_u55(b: TosaBuilder, x: Value, y: Value, *, alpha: Number = 1) -> Value:
    """sub -> as elsewhere; a constant along one axis: 1x1 DEPTHWISE_CONV2D with a bias."""
    found = _sum(b, x, y, -alpha)
    return found if found is not None else arithmetic.sub(b, x, y, alpha=alpha)


def _sum(b: TosaBuilder, x: Value, y: Value, alpha: Number) -> Value | None:
    """x + alpha * y where one of them is a vector of constants."""
    for tensor, gain, constant, factor in ((x, 1.0, y, float(alpha)), (y, float(alpha), x, 1.0)):
        vector = Vector.of(b, tensor, constant)
        if vector is not None:
            return vector.affine(b, np.full(vector.values.size, gain), vector.values * factor)
    return None


@lowers("aten.mul.Tensor", target="ethos-u55")
def mul_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """mul -> as elsewhere; by a constant along one axis: 1x1 DEPTHWISE_CONV2D."""
    for tensor, constant in ((x, y), (y, x)):
        vector = Vector.of(b, tensor, constant)
        found = vector.affine(b, vector.values, None) if vector is not None else None
        if found is not None:
            return found
    return arithmetic.mul(b, x, y)


@lowers("aten.div.Tensor", target="ethos-u55")
def div_u55(b: TosaBuilder, x: Value, y: Value, *, rounding_mode: str | None = None) -> Value:
    """div -> as elsewhere; by a constant along one axis: 1x1 DEPTHWISE_CONV2D; of integers: by a
    reciprocal, because the chip has no INTDIV."""
    if b.out[0].quant is None:
        return _of_integers(b, x, y, rounding_mode or "trunc", 0)
    vector = Vector.of(b, x, y) if rounding_mode is None else None
    if vector is not None and np.all(vector.values):
        found = vector.affine(b, 1 / vector.values, None)
        if found is not None:
            return found
    return divide.div(b, x, y, rounding_mode=rounding_mode)


@lowers("aten.remainder.Tensor", target="ethos-u55")
def remainder_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """remainder -> as elsewhere; of integers: by a reciprocal instead of INTDIV."""
    quantized = b.out[0].quant is not None
    return divide.remainder(b, x, y) if quantized else _of_integers(b, x, y, "floor", 1)


@lowers("aten.fmod.Tensor", target="ethos-u55")
def fmod_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """fmod -> as elsewhere; of integers: by a reciprocal instead of INTDIV."""
    quantized = b.out[0].quant is not None
    return divide.fmod(b, x, y) if quantized else _of_integers(b, x, y, "trunc", 1)


def _of_integers(b: TosaBuilder, x: Value, y: Value, mode: str, part: int) -> Value:
    """Quotient (part 0) or remainder (1) of integers."""
    dtype = b.out[0].dtype
    b.require(dtype.is_integer, f"{b.limits.name} divides integers only, not {dtype.name}")
    left, right = terms(b, x, y, dtype=DType.INT32)
    return narrowed(integer_quotient(left, right, mode)[part], dtype)


@lowers("aten.prelu", target="ethos-u55")
def prelu_u55(b: TosaBuilder, x: Value, weight: Value) -> Value:
    """prelu -> TABLE for one weight; else CLAMP and 1x1 DEPTHWISE_CONV2D of the negative part,
    which is added to the positive one: for each element one of them is 0."""
    out, quant = b.out[0], x.type.quant
    rank = x.type.rank
    if quant is None or weight.type.size == 1 or out.quant is None or rank < 2:
        return pairwise.prelu(b, x, weight)
    shape = [-1 if i == 1 else 1 for i in range(rank)]
    slopes = b.const(pairwise.slopes_of(b, weight).astype(np.float32).reshape(shape))
    low, high = x.type.dtype.range
    below = b.CLAMP(x, min_val=low, max_val=min(quant.zp, high), quant=quant)
    vector = Vector.of(b, below, slopes)
    found = vector.affine(b, vector.values, None) if vector is not None else None
    if found is None:
        return pairwise.prelu(b, x, weight)
    above = b.CLAMP(x, min_val=max(quant.zp, low), max_val=high, quant=quant)
    total, step = common_sum(b, requantized(b, above, out), found, 1)
    return b.requantize(total, step, out)


@lowers("aten.maximum", target="ethos-u55")
def maximum_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """maximum -> operands requantized first (TABLE), MAXIMUM of codes as one operation."""
    return _extreme(b, x, y, "MAXIMUM")


@lowers("aten.minimum", target="ethos-u55")
def minimum_u55(b: TosaBuilder, x: Value, y: Value) -> Value:
    """minimum -> operands requantized first (TABLE), MINIMUM of codes as one operation."""
    return _extreme(b, x, y, "MINIMUM")


def _extreme(b: TosaBuilder, x: Value, y: Value, name: str) -> Value:
    out = b.out[0]
    if out.quant is None:
        return arithmetic.maximum(b, x, y) if name == "MAXIMUM" else arithmetic.minimum(b, x, y)
    found = tabulated(b, x, y, out)
    if found is not None:
        return found
    x, y = requantized(b, x, out), requantized(b, y, out)
    return arithmetic.extreme_of_codes(b, x, y, name, out)


@dataclass(frozen=True)
class Vector:
    """A quantized tensor, and constants that vary along its axis `axis` only."""

    x: Value
    values: np.ndarray
    axis: int

    @staticmethod
    def of(b: TosaBuilder, x: Value, constant: Value) -> Vector | None:
        """None where the form does not fit or does not pay."""
        out = b.out[0]
        if out.quant is None or not constant.is_const or is_scalar(constant) or x.is_const:
            return None
        quant = x.type.quant
        if quant is None or quant.per_channel or x.type.shape != out.shape:
            return None
        shape = (1,) * (out.rank - constant.type.rank) + constant.type.ints
        along = [i for i, d in enumerate(shape) if d > 1]
        if len(along) != 1 or not (along[0] == out.rank - 1 or (along[0] == 1 and out.rank == 4)):
            return None
        values = real_constant(constant).reshape(-1)
        if out.size < FEWEST_POSITIONS * values.size:
            return None
        return Vector(x, values, along[0])

    def affine(self, b: TosaBuilder, gain: np.ndarray, offset: np.ndarray | None) -> Value | None:
        """gain * x + offset per channel; None where a bias is too large for the accumulator."""
        x, out, quant = self.x, b.out[0], self.x.type.quant
        assert quant is not None and out.quant is not None
        scale = np.maximum(np.abs(gain), np.abs(gain).max(initial=1e-12) * 2.0**-20) / 127
        accumulator = ACCUMULATOR[x.type.dtype]
        bias = np.zeros(gain.size) if offset is None else np.rint(offset / (quant.s * scale))
        if np.abs(bias).max() >= 2.0 ** (accumulator.bits - 3):
            return None
        last = self.axis == out.rank - 1
        image = b.reshape(x, (1, 1, out.size // gain.size, gain.size)) if last else b.nhwc(x)
        codes = np.rint(gain / scale).astype(np.int8).reshape(1, 1, -1, 1)
        weight = b.const(codes, DType.INT8, Quant(scale, 0, 2, -127, 127))
        total = b.DEPTHWISE_CONV2D(
            image, weight, b.const(bias.astype(np.int64), accumulator), b.zero_point(image),
            b.zero_point(weight), acc_type=accumulator,
        )  # fmt: skip
        y = b.requantize(total, quant.s * scale, TensorType(out.dtype, total.type.shape, out.quant))
        return b.reshape(y, out.ints) if last else b.nchw(y)
