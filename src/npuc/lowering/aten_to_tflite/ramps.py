"""Functions of 8-bit values on NPUs without tables: sums of ramps, as two small layers.

A ramp rises from 0 to 1 between two codes of the operand and saturates at both ends. The first layer
makes a channel per ramp: its INT8 result goes from 0 to 1 in 255 steps, so that saturation is what
clips. The second adds them up, each times what the function gains between these codes. A function
is within a step of its table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.tflite_builder import TfliteBuilder

#: error in steps of the result that a ramp may make between its ends
TOLERANCE = 0.3
#: steps of the result that one ramp gains at most: its weight has 127 codes
LARGEST_GAIN = 64.0
#: error in steps from which on longer ramps are not tried
FAR = 8.0
#: weight with which a ramp rises within one code
STEEPEST = 127
#: weight of the ramp that gains most; rounding may add one
HEAVIEST = 126
#: result of the first layer
UNIT = Quant(1 / 255, -128, None, -128, 127)


@dataclass(frozen=True)
class Ramps:
    """Weights and first codes of ramps; steps of the result before the first, and gained by each."""

    weights: np.ndarray
    starts: np.ndarray
    first: float
    gains: np.ndarray


def ramps_of(values: np.ndarray) -> Ramps:
    """The ramps whose sum is `values` [256], in steps of the result, of the codes from -128 on."""
    found: list[tuple[int, int, float]] = []
    start = 0
    while start < 255:
        length = _reach(values, start)
        gain = float(values[start + length] - values[start])
        parts = max(int(np.ceil(abs(gain) / LARGEST_GAIN)), 1)
        found += [(_weight(length), start - 128, gain / parts)] * parts
        start += length
    rising = [ramp for ramp in found if ramp[2]] or found[:1]
    weights, starts, gains = zip(*rising, strict=True)
    return Ramps(np.array(weights), np.array(starts), float(values[0]), np.array(gains))


def _weight(length: int) -> int:
    """The weight with which a ramp has risen within `length` codes."""
    return -(-STEEPEST // length)


def _reach(values: np.ndarray, start: int) -> int:
    """How many codes a ramp from `start` may span."""
    best, rest = 1, values[start:] - values[start]
    for length in range(2, len(rest)):
        part = np.minimum(np.arange(length + 1) * _weight(length) / STEEPEST, 1.0)
        off = np.abs(rest[length] * part - rest[: length + 1]).max()
        if off <= TOLERANCE and abs(rest[length]) <= LARGEST_GAIN:
            best = length
        elif off > FAR:
            break
    return best


def sum_of_ramps(b: TfliteBuilder, x: Value, values: np.ndarray, out: TensorType) -> Value:
    """The function of INT8 `x` whose real results are `values` [256] for the codes from -128 on."""
    given, result = x.type.quant, out.quant
    assert given is not None and result is not None
    steps = np.clip(values / result.s + result.zp, *out.dtype.range)
    ramps = ramps_of(np.nan_to_num(steps, nan=result.zp))
    # one accumulator step is 1 / STEEPEST of a ramp
    scale = 1 / STEEPEST / given.s
    filter = b.const(ramps.weights.astype(np.int8)[:, None], DType.INT8, _weights(scale))
    bias = -ramps.weights * (ramps.starts - given.zp)
    y = _layer(b, b.reshape(x, (*x.type.ints, 1)), filter, bias, UNIT)
    largest = max(float(np.abs(ramps.gains).max()), 1.0)
    # what is gained up to each ramp is rounded, so that errors do not add up
    step = largest / HEAVIEST
    codes = np.diff(np.rint(np.cumsum(ramps.gains) / step), prepend=0.0).astype(np.int8)
    first = np.rint((ramps.first - result.zp) / (step * UNIT.s))
    second = b.const(codes[None], DType.INT8, _weights(step * result.s))
    y = _layer(b, y, second, np.array([first]), result)
    return b.reshape(y, x.type.ints)


def _weights(scale: float) -> Quant:
    return Quant(scale, 0, None, -128, 127)


def _layer(b: TfliteBuilder, x: Value, filter: Value, bias: np.ndarray, quant: Quant) -> Value:
    """FULLY_CONNECTED along the last axis; `bias` in steps of the accumulator."""
    given, weights = x.type.quant, filter.type.quant
    assert given is not None and weights is not None
    step = Quant(given.s * weights.s, 0, None, *DType.INT32.range)
    constant = b.const(bias.astype(np.int32), DType.INT32, step)
    return b.FULLY_CONNECTED(x, filter, constant, keep_num_dims=x.type.rank > 2, quant=quant)  # type: ignore[no-any-return]
