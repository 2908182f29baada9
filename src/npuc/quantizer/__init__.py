"""Quantization of float models: recipes, annotation, calibration, conversion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from npuc.quantizer.recipe import Recipe

if TYPE_CHECKING:
    from npuc.quantizer.annotate import NpucQuantizer
    from npuc.quantizer.calibrate import quantize

__all__ = ["NpucQuantizer", "Recipe", "quantize"]


def __getattr__(name: str) -> Any:
    """`quantize` and `NpucQuantizer` need torch, which is imported when they are used."""
    if name == "quantize":
        from npuc.quantizer.calibrate import quantize

        return quantize
    if name == "NpucQuantizer":
        from npuc.quantizer.annotate import NpucQuantizer

        return NpucQuantizer
    raise AttributeError(name)
