"""Functions of 8-bit values on NPUs without tables: sums of ramps, as two small layers.

A ramp rises from 0 to 1 between two places and saturates at both ends. The first layer makes a
channel per ramp: its INT8 result goes from 0 to 1 in 255 steps, so that saturation is what clips. The
second adds them up, each times what the function gains in between. A function is within a step of its
table. The first layer may sum as well: then it is a function of a sum that nothing rounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.tflite_builder import Function, TfliteBuilder

#: error in steps of the result that a ramp may make between its ends
TOLERANCE = 0.3
#: steps of the result that one ramp gains at most: its weight has 127 codes
LARGEST_GAIN = 64.0
#: error in steps from which on longer ramps are not tried
FAR = 8.0
#: weight with which a ramp rises within one place
STEEPEST = 127
#: weight of the ramp that gains most; rounding may add one
HEAVIEST = 126
#: result of the first layer
UNIT = Quant(1 / 255, -128, None, -128, 127)
#: places at which a function of a sum is known
PLACES = 1024


@dataclass(frozen=True)
class Ramps:
    """Weights and places where ramps start; steps of the result before them, and gained by each."""

    weights: np.ndarray
    starts: np.ndarray
    first: float
    gains: np.ndarray


def ramps_of(values: np.ndarray) -> Ramps:
    """The ramps whose sum is `values`, in steps of the result, at the places 0, 1, 2 ..."""
    found: list[tuple[int, int, float]] = []
    start, last = 0, len(values) - 1
    while start < last:
        length = _reach(values, start)
        gain = float(values[start + length] - values[start])
        parts = max(int(np.ceil(abs(gain) / LARGEST_GAIN)), 1)
        found += [(_weight(length), start, gain / parts)] * parts
        start += length
    rising = [ramp for ramp in found if ramp[2]] or found[:1]
    weights, starts, gains = zip(*rising, strict=True)
    return Ramps(np.array(weights), np.array(starts), float(values[0]), np.array(gains))


def _weight(length: int) -> int:
    """The weight with which a ramp has risen within `length` places."""
    return -(-STEEPEST // length)


def _reach(values: np.ndarray, start: int) -> int:
    """How many places a ramp from `start` may span."""
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
    given = x.type.quant
    assert given is not None
    y = _layers(
        b, b.reshape(x, (*x.type.ints, 1)), values, (-128 - given.zp) * given.s, given.s, out
    )
    return b.reshape(y, x.type.ints)


def ramps_of_sum(
    b: TfliteBuilder, x: Value, function: Function, ends: tuple[float, float], out: TensorType
) -> Value:
    """`function` of the sums of INT8 `x` along its last axis, which stays with size 1; the sums are
    between `ends`."""
    low, high = ends
    width = (high - low) / (PLACES - 1)
    values = function(low + width * np.arange(PLACES))
    return b.reshape(_layers(b, x, values, low, width, out), (*x.type.ints[:-1], 1))


def _layers(
    b: TfliteBuilder, x: Value, values: np.ndarray, low: float, width: float, out: TensorType
) -> Value:
    """The function of sums along the last axis that has real `values` at low, low + width, ..."""
    given, result = x.type.quant, out.quant
    assert given is not None and result is not None
    steps = np.clip(values / result.s + result.zp, *out.dtype.range)
    ramps = ramps_of(np.nan_to_num(steps, nan=result.zp))
    filter = np.repeat(ramps.weights[:, None], x.type.ints[-1], 1)
    places = (low / width + ramps.starts) * width / given.s
    y = _layer(b, x, filter, 1 / (STEEPEST * width), -ramps.weights * places, UNIT)
    step = max(float(np.abs(ramps.gains).max()), 1.0) / HEAVIEST
    # what is gained up to each ramp is rounded, so that errors do not add up
    gains = np.diff(np.rint(np.cumsum(ramps.gains) / step), prepend=0.0)
    first = (ramps.first - result.zp) / (step * UNIT.s)
    return _layer(b, y, gains[None], step * result.s, np.array([first]), result)


def _layer(
    b: TfliteBuilder, x: Value, codes: np.ndarray, scale: float, bias: np.ndarray, quant: Quant
) -> Value:
    """FULLY_CONNECTED along the last axis with weights of one scale; `bias` in accumulator steps."""
    assert x.type.quant is not None
    filter = b.const(codes.astype(np.int8), DType.INT8, Quant(scale, 0, None, -128, 127))
    step = Quant(x.type.quant.s * scale, 0, None, *DType.INT32.range)
    constant = b.const(np.rint(bias).astype(np.int32), DType.INT32, step)
    return b.FULLY_CONNECTED(x, filter, constant, keep_num_dims=x.type.rank > 2, quant=quant)  # type: ignore[no-any-return]
