"""torchao quantization specs for the data types of a recipe."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torchao.quantization.pt2e import FakeQuantize
from torchao.quantization.pt2e.observer import (
    MovingAverageMinMaxObserver,
    MovingAveragePerChannelMinMaxObserver,
)
from torchao.quantization.pt2e.quantizer import (
    DerivedQuantizationSpec,
    FixedQParamsQuantizationSpec,
    QuantizationSpec,
)

from npuc.quantizer.observers import (
    FunctionObserver,
    PoolObserver,
    RangeObserver,
    WeightObserver,
)
from npuc.quantizer.recipe import Recipe

INT32_MAX = 2**31 - 1

# 8 bits with zero point 0, as operands of matrix products may need it.
SYMMETRIC = "int8_symmetric"

# Name of a type in a recipe -> torch type, lowest and highest code, scheme.
ACTIVATIONS: dict[str, tuple[torch.dtype, int, int, torch.qscheme]] = {
    "int8": (torch.int8, -128, 127, torch.per_tensor_affine),
    "uint8": (torch.uint8, 0, 255, torch.per_tensor_affine),
    SYMMETRIC: (torch.int8, -127, 127, torch.per_tensor_symmetric),
    # All codes: saturation needs no clamp.
    "int16": (torch.int16, -32768, 32767, torch.per_tensor_symmetric),
}
_WEIGHT_MAX = {"int8": 127, "int4": 7}


@dataclass(frozen=True)
class Hint:
    """What is known about the values of a group: see `observers.RangeObserver`."""

    depth: float | None = None
    axis: int = -1
    shape: tuple[int, ...] | None = None
    floor: float | None = None
    saturates: tuple[float, float] = (-math.inf, math.inf)
    margin: bool = True
    headroom: bool = True
    whole: bool = False


@dataclass
class Kind:
    """How the parameters of a group of values are found."""

    ends: tuple[float, float] | None = None  # the function's range, when it has one
    hint: Hint = field(default_factory=Hint)
    is_pool: bool = False


def activation(name: str, recipe: Recipe, kind: Kind) -> Any:
    """The spec of an activation of type `name`."""
    dtype, low, high, scheme = ACTIVATIONS[name]
    if recipe.is_qat:
        return _trained_activation(name, kind)
    if kind.ends is not None:
        observer = FunctionObserver.with_args(ends=kind.ends, fixed=recipe.fixed_ranges)
    else:
        hint = kind.hint
        watch = PoolObserver if kind.is_pool else RangeObserver
        observer = watch.with_args(
            ranges=recipe.ranges,
            depth=hint.depth,
            axis=hint.axis,
            shape=hint.shape,
            floor=hint.floor,
            saturates=hint.saturates,
            margin=hint.margin,
            headroom=hint.headroom,
            whole=hint.whole,
        )
    return QuantizationSpec(
        dtype, observer, quant_min=low, quant_max=high, qscheme=scheme, is_dynamic=False
    )


# The plain FakeQuantize: the fused one computes scales that differ from the converted ones by
# 1/255, and takes no channel axis but 0.
def _trained_activation(name: str, kind: Kind) -> Any:
    dtype, low, high, scheme = ACTIVATIONS[name]
    if kind.ends is not None:
        levels = 2 ** (8 if name != "int16" else 16)
        symmetric = kind.ends[0] < 0 or scheme == torch.per_tensor_symmetric
        scale, zero = (2 / levels, 0) if symmetric else (1 / levels, low)
        return FixedQParamsQuantizationSpec(dtype, scale, zero, low, high, scheme)
    observer = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, eps=2**-16)
    return QuantizationSpec(dtype, observer, quant_min=low, quant_max=high, qscheme=scheme)


def weight(recipe: Recipe, axis: int) -> QuantizationSpec:
    """The spec of a constant weight whose output channels are `axis`."""
    high = _WEIGHT_MAX[recipe.weights]
    scheme = torch.per_channel_symmetric if recipe.per_channel else torch.per_tensor_symmetric
    if not recipe.is_qat:
        observer = WeightObserver.with_args(ranges=recipe.ranges, ch_axis=axis)
    elif recipe.per_channel:
        observer = FakeQuantize.with_args(
            observer=MovingAveragePerChannelMinMaxObserver, eps=2**-16
        )
    else:
        observer = FakeQuantize.with_args(observer=MovingAverageMinMaxObserver, eps=2**-16)
    return QuantizationSpec(
        torch.int8,
        observer,
        quant_min=-high,
        quant_max=high,
        qscheme=scheme,
        ch_axis=axis if recipe.per_channel else None,
    )


def bias(operand: Any, weight_edge: Any, channels: int, per_channel: bool) -> Any:
    """The spec of a bias: int32 with the scale of the accumulator."""

    def derive(observers: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        x, _ = observers[0].calculate_qparams()
        w, _ = observers[1].calculate_qparams()
        scale = (x * w).float()
        if per_channel and scale.numel() != channels:
            scale = scale.repeat(channels // scale.numel())  # a grouped transposed convolution
        return scale, torch.zeros_like(scale, dtype=torch.int64)

    return DerivedQuantizationSpec(
        derived_from=[operand, weight_edge],
        derive_qparams_fn=derive,
        dtype=torch.int32,
        quant_min=-INT32_MAX,
        quant_max=INT32_MAX,
        qscheme=torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric,
        ch_axis=0 if per_channel else None,
    )


def scaled(operand: Any, factor: float, name: str) -> Any:
    """The spec of `operand * factor`, factor > 0: the same codes under another scale."""
    dtype, low, high, scheme = ACTIVATIONS[name]

    def derive(observers: list[Any]) -> tuple[torch.Tensor, torch.Tensor]:
        scale, zero_point = observers[0].calculate_qparams()
        return scale * factor, zero_point

    return DerivedQuantizationSpec(
        derived_from=[operand],
        derive_qparams_fn=derive,
        dtype=dtype,
        quant_min=low,
        quant_max=high,
        qscheme=scheme,
    )
