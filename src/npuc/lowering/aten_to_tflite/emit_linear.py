"""Emits a linear layer: FULLY_CONNECTED, or a convolution of one pixel where that takes its scales."""

from __future__ import annotations

import math

from npuc.ir import Quant, Value
from npuc.lowering.aten_to_tflite.weights import Weights
from npuc.lowering.tflite_builder import TfliteBuilder


def emit_linear(b: TfliteBuilder, x: Value, weights: Weights, quant: Quant | None) -> Value:
    """x @ filter.T + bias along the last axis, with parameters `quant` (None for floats)."""
    scales = weights.filter.type.quant
    if (
        scales is not None
        and not b.limits.per_channel_linear
        and len(set(scales.scale.tolist())) > 1
    ):
        return _as_pixels(b, x, weights, quant)
    return b.FULLY_CONNECTED(  # type: ignore[no-any-return]
        x, weights.filter, weights.bias, keep_num_dims=x.type.rank > 2, quant=quant
    )


def _as_pixels(b: TfliteBuilder, x: Value, weights: Weights, quant: Quant | None) -> Value:
    """CONV_2D of rows as an image of one column."""
    *rows, inner = x.type.ints
    image = b.reshape(x, (1, math.prod(rows), 1, inner))
    filter = b.reshape(weights.filter, (weights.channels, 1, 1, inner))
    y = b.CONV_2D(image, filter, weights.bias, quant=quant)
    return b.reshape(y, (*rows, weights.channels))
