"""Normalization on Ethos-U: 16 bits where they suffice, and constants as the chip likes them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tosa.norm import (
    channels_first,
    channels_last,
    channelwise,
    integer_group_norm,
    integer_layer_norm,
)
from npuc.lowering.aten_to_tosa.norm_affine import (
    Affine,
    ApplyAffine,
    narrow_multiply_and_add,
)
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.layer_norm", target="ethos-u")
def layer_norm(
    b: TosaBuilder, x: Value, normalized_shape: Sequence[int], weight: Value | None,
    bias: Value | None, eps: float,
) -> Value:  # fmt: skip
    """layer_norm -> one block of integer arithmetic, full-size values with 16 bits."""
    return integer_layer_norm(
        b, x, normalized_shape, weight, bias, eps, apply=affine_form(b), narrow=True
    )


@lowers("aten.rms_norm", target="ethos-u")
def rms_norm(
    b: TosaBuilder, x: Value, normalized_shape: Sequence[int], weight: Value | None,
    eps: float | None,
) -> Value:  # fmt: skip
    """rms_norm -> one block of integer arithmetic, full-size values with 16 bits."""
    return integer_layer_norm(
        b, x, normalized_shape, weight, None, eps, center=False, apply=affine_form(b), narrow=True
    )


@lowers("aten.group_norm", target="ethos-u")
def group_norm(
    b: TosaBuilder, x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float
) -> Value:
    """group_norm -> one block of integer arithmetic, full-size values with 16 bits."""
    return integer_group_norm(b, x, groups, weight, bias, eps, apply=affine_form(b), narrow=True)


def affine_form(b: TosaBuilder) -> ApplyAffine:
    """How gamma and beta are applied: Ethos-U55 and U65 read element-wise constants slowly."""
    return depthwise_affine if "ethos-u55" in b.families else narrow_multiply_and_add


def depthwise_affine(
    b: TosaBuilder, z: Value, worth: float, affine: Affine, out: TensorType
) -> Value:
    """z * gamma + beta as a depthwise convolution of 16-bit z, whose accumulator has 48 bits."""
    gamma, beta = affine.gamma, affine.beta
    if out.quant is None or out.dtype is not DType.INT8 or (gamma is None and beta is None):
        return narrow_multiply_and_add(b, z, worth, affine, out)
    step = affine.useful(out.quant) / 32767
    z16 = b.rescale(z, worth / step, DType.INT16, quant=Quant(step, 0, None, -(2**15), 2**15 - 1))
    channels = z.type.ints[affine.axis]
    gamma = np.ones(channels) if gamma is None else gamma
    beta = np.zeros(channels) if beta is None else beta
    if affine.axis == 1:
        y = channelwise(b, channels_last(b, z16), gamma, beta, out)
        return channels_first(b, y, z.type.ints)
    rows = b.reshape(z16, (1, 1, prod(z.type.ints[:-1]), channels))
    return b.reshape(channelwise(b, rows, gamma, beta, out), z.type.ints)
