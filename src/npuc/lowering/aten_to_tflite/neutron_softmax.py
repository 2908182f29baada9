"""Softmax on Neutron, whose operator has steps of 1/256, where all results are smaller than that."""

from __future__ import annotations

from npuc.dialects.tflite import fixed_quant, same_parameters
from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.aten_to_tflite import softmax as common
from npuc.lowering.aten_to_tflite.ramps import UNIT, ramps_of_sum
from npuc.lowering.registry import lowers
from npuc.lowering.tflite_builder import TfliteBuilder, largest_magnitude


@lowers("aten.softmax", target="neutron", dialect="tflite")
def softmax(b: TfliteBuilder, x: Value, dim: int) -> Value:
    """softmax -> SOFTMAX; of small results exp(x - max) * (1 / sum)."""
    quant = b.out[0].quant
    fixed = fixed_quant("SOFTMAX", DType.INT8)
    if quant is None or same_parameters(quant, fixed) or x.type.dtype is not DType.INT8:
        return common.softmax(b, x, dim)
    return common.along_last(b, x, dim, _of_small_results)


def _of_small_results(b: TfliteBuilder, x: Value, out: TensorType) -> Value:
    given, result, last = x.type.quant, out.quant, x.type.rank - 1
    assert given is not None and result is not None
    below = Quant(given.s, 127, None, -128, 127)  # x - max, exactly
    difference = b.SUB(x, b.REDUCE_MAX(x, axes=(last,), keep_dims=True), quant=below)
    powers = b.EXP(difference, quant=UNIT)
    # the largest power is 1: no sum is below 1, and the largest result is 1 / sum
    largest, count = largest_magnitude(result), float(x.type.ints[last])
    ends = min(1 / largest, count), count + 1
    inverse = powers.type.with_(quant=Quant(largest / 255, -128, None, -128, 127))
    factor = ramps_of_sum(b, powers, lambda t: 1 / t, ends, inverse)
    return b.requantize(b.MUL(powers, factor, quant=result), out)
