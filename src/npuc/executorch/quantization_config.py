"""Quantization configs under the names of ExecuTorch's Arm backend; each stands for a Recipe."""

from __future__ import annotations

from dataclasses import dataclass, field

from npuc.errors import BadInput
from npuc.quantizer.recipe import Recipe

#: lowest and highest code
Range = tuple[int, int]

_FULL: dict[str, Range] = {"int8": (-128, 127), "int16": (-32768, 32767), "uint8": (0, 255)}


@dataclass(frozen=True)
class QuantizationConfig:
    """How to quantize what a quantizer's setter selects.

    recipe: types of activations and weights. act_range, weight_range: codes that may be used. io:
    the type of tensors at the model's boundary, for `set_io`.
    """

    recipe: Recipe
    act_range: Range
    weight_range: Range
    io: str
    label: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.label


def get_symmetric_quantization_config(
    is_per_channel: bool = True,
    is_qat: bool = False,
    is_dynamic: bool = False,
    act_qmin: int = -128,
    act_qmax: int = 127,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
    eps: float = 2**-16,
) -> QuantizationConfig:
    """int8 activations (affine), int8 weights (symmetric).

    `eps`, the smallest scale, is accepted; observers here keep scales above what float32 resolves.
    Raises BadInput for ranges that int8 does not have, and for `is_dynamic`.
    """
    return _config(
        "int8", "int8", is_per_channel, is_qat, is_dynamic, (act_qmin, act_qmax),
        (weight_qmin, weight_qmax),
    )  # fmt: skip


def get_symmetric_a16w8_quantization_config(
    is_per_channel: bool = True,
    is_qat: bool = False,
    is_dynamic: bool = False,
    weight_qmin: int = -127,
    weight_qmax: int = 127,
    epsilon: float = 2**-12,
) -> QuantizationConfig:
    """int16 activations (symmetric), int8 weights. Raises as for int8 activations."""
    return _config(
        "int16", "int8", is_per_channel, is_qat, is_dynamic, _FULL["int16"],
        (weight_qmin, weight_qmax),
    )  # fmt: skip


def get_symmetric_a8w4_quantization_config(
    is_per_channel: bool = True,
    is_qat: bool = True,
    is_dynamic: bool = False,
    weight_qmin: int = -7,
    weight_qmax: int = 7,
    eps: float = 2**-16,
) -> QuantizationConfig:
    """int8 activations, int4 weights. Raises as for int8 weights."""
    return _config(
        "int8", "int4", is_per_channel, is_qat, is_dynamic, _FULL["int8"],
        (weight_qmin, weight_qmax),
    )  # fmt: skip


def get_uint8_io_quantization_config(
    is_qat: bool = False, is_dynamic: bool = False, eps: float = 2**-16
) -> QuantizationConfig:
    """uint8 tensors at the model's boundary, for `set_io` only."""
    config = _config("int8", "int8", True, is_qat, is_dynamic, _FULL["int8"], (-127, 127))
    return QuantizationConfig(config.recipe, _FULL["uint8"], (-127, 127), "uint8", "uint8 io")


def get_vgf_snorm_quantization_config(
    is_per_channel: bool = True, is_qat: bool = False, is_dynamic: bool = False
) -> QuantizationConfig:
    """int8 activations in -127..127, as signed normalized images have them."""
    return _config("int8", "int8", is_per_channel, is_qat, is_dynamic, (-127, 127), (-127, 127))


def _config(
    activations: str, weights: str, per_channel: bool, is_qat: bool, is_dynamic: bool,
    act_range: Range, weight_range: Range,
) -> QuantizationConfig:  # fmt: skip
    if is_dynamic:
        raise BadInput(
            "dynamic quantization",
            why="parameters that are found at run time have no integer form on these targets",
            hint="calibrate: is_dynamic=False",
        )
    _check_range("activation", act_range, _FULL[activations])
    _check_range("weight", weight_range, (-8, 7) if weights == "int4" else _FULL["int8"])
    recipe = Recipe(
        activations=activations, weights=weights, per_channel=per_channel, is_qat=is_qat
    )
    words = [activations, f"weights {weights}", "per channel" if per_channel else "per tensor"]
    label = ", ".join(words + (["qat"] if is_qat else []))
    return QuantizationConfig(recipe, act_range, weight_range, activations, label)


def _check_range(what: str, given: Range, full: Range) -> None:
    if not full[0] <= given[0] < given[1] <= full[1]:
        raise BadInput(
            f"{what} codes {given[0]}..{given[1]}", why=f"there are {full[0]}..{full[1]}"
        )
