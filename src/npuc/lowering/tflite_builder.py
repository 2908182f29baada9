"""The builder that rules emit TFLite with: one method per operator, within the target's limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from npuc.dialects.tflite import TfliteLimits, TfliteOpBuilder, same_parameters
from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.rule_builder import RuleBuilder

#: real values (float64 array) -> real values
Function = Callable[[np.ndarray], np.ndarray]
Function2 = Callable[[np.ndarray, np.ndarray], np.ndarray]

#: truth values where there is no BOOL
TRUTH = Quant(1.0, 0, None, *DType.INT8.range)
#: codes that a narrower range of the model may be passed by before it is clamped
SLACK = 1


class TfliteBuilder(RuleBuilder, TfliteOpBuilder):
    """TfliteOpBuilder with what lowering rules need. Every op is checked against `limits`.

    Values have the ranges of their element types, which is all that a TFLite file can say: the
    model's UINT8 is INT8 here with its zero point moved by 128 (but at the graph's ends), its BOOL
    is INT8 on NPUs that have nothing else, and a narrower range is clamped where it is more than a
    step away.
    """

    dialect = "tflite"

    def __init__(self, limits: TfliteLimits, families: Sequence[str] = ()) -> None:
        super().__init__(limits, check_copies=True)
        self.families = tuple(families)

    # -- the model's types ------------------------------------------------------------------

    def carried_type(self, type: TensorType) -> TensorType:
        type = super().carried_type(type)
        quant = type.quant
        if type.dtype is DType.BOOL and self.limits.ramps:
            return type.with_(dtype=DType.INT8, quant=TRUTH)
        if quant is None:
            return type
        zero, dtype = quant.zero_point, type.dtype
        if dtype is DType.UINT8:
            zero, dtype = zero - 128, DType.INT8
        return type.with_(dtype=dtype, quant=Quant(quant.scale, zero, quant.axis, *dtype.range))

    def carried_data(self, array: np.ndarray, type: TensorType) -> np.ndarray:
        if type.quant is not None and type.dtype is DType.UINT8:
            return (array.astype(np.int16) - 128).astype(np.int8)
        return array

    def admit(self, types: Sequence[TensorType]) -> None:
        for type in types:
            quant = type.quant
            if quant is None or not type.dtype.is_integer:
                continue
            self.require(
                type.dtype is not DType.INT16 or not np.any(quant.zero_point),
                f"zero point {quant.zero_point.flat[0]} of INT16 values; TFLite kernels take 0",
                "quantize 16-bit values symmetrically",
            )

    def take_input(self, type: TensorType, name: str) -> Value:
        if type.dtype is DType.UINT8 and type.quant is not None:
            given = self.input(type.with_(quant=_whole_range(type)), name)
            return self.requantize(given, self.carried_type(type))
        return super().take_input(type, name)

    def give_output(self, value: Value, type: TensorType) -> Value:
        if type.dtype is DType.UINT8 and type.quant is not None:
            return self.requantize(value, type.with_(quant=_whole_range(type)))
        return value

    def takes(self, name: str, dtype: DType) -> bool:
        """Whether the target takes an operator of one operand for this element type."""
        x = Value(TensorType(dtype, (1,)))
        return self.limits.reason(name, [x], {}, [x.type]) is None

    # -- constants --------------------------------------------------------------------------

    def real_const(self, real: Any, dtype: DType, quant: Quant | None = None) -> Value:
        """A constant of real values: quantized by `quant`, or to its own range (None)."""
        real = np.asarray(real, np.float64)
        if dtype.is_float:
            return self.const(real.astype(dtype.numpy), dtype)
        quant = quant or covering(real, dtype)
        return self.const(quant.quantize(real).astype(dtype.numpy), dtype, quant)

    # -- parameters -------------------------------------------------------------------------

    def requantize(self, x: Value, out: TensorType) -> Value:
        """Quantized `x` with the element type and parameters of `out`: QUANTIZE, or nothing."""
        quant = out.quant
        assert quant is not None
        if x.is_const:
            return self.real_const(real_values(x), out.dtype, quant)
        if x.type.dtype is out.dtype and same_parameters(x.type.quant, quant):
            return x
        return self.QUANTIZE(x, dtype=out.dtype, quant=quant)  # type: ignore[no-any-return]

    def as_result(self, x: Value) -> Value:
        """`x` with the parameters of the op's result, whatever its shape."""
        out = self.out[0]
        if x.type.dtype is out.dtype and x.type.quant == out.quant:
            return x
        if out.quant is None or x.type.quant is None:
            what = "quantized and the result" if out.quant is None else "float and the result"
            other = "is not" if out.quant is None else "is quantized"
            self.refuse(f"the operand is {what} {other}", "quantize this op as a whole")
        return self.requantize(x, out)

    def operand(self, x: Value, out: TensorType | None = None) -> Value:
        """A tensor operand of a quantized op; a plain constant is quantized to its own range."""
        out = out or self.out[0]
        if x.type.quant is not None:
            self.require(not x.type.quant.per_channel, "a per-channel quantized operand")
            return x
        self.require(
            x.is_const, f"a {x.type.dtype.name} operand of a quantized op is not quantized"
        )
        return self.real_const(real_values(x), out.dtype)

    def widened(self, x: Value, quant: Quant | None = None) -> Value:
        """Quantized `x` as INT16, for arithmetic with less rounding."""
        if x.type.dtype is DType.INT16 and quant is None:
            return x
        quant = quant or wide_quant(x)
        return self.requantize(x, x.type.with_(dtype=DType.INT16, quant=quant))

    # -- functions of one tensor ------------------------------------------------------------

    def lookup(
        self, x: Value, function: Function, out: TensorType, low: int | None = None
    ) -> Value:
        """`function` of 8-bit or 16-bit `x`, exactly: GATHER from a table of all codes from `low`
        (default: the smallest) on. On NPUs without tables within a step: a sum of ramps.

        TFLite has no table operator. CAST takes the codes as they are, ADD makes them indices.
        """
        quant, result = x.type.quant, out.quant
        assert quant is not None and result is not None
        first, high = x.type.dtype.range
        low = first if low is None else low
        codes = np.arange(low, high + 1)
        real = (codes - quant.zp).astype(np.float32) * np.float32(quant.s)
        with np.errstate(all="ignore"):
            values = _finite(function(real.astype(np.float64)), result)
        if self.limits.ramps:
            from npuc.lowering.aten_to_tflite.ramps import sum_of_ramps

            self.require(x.type.dtype is out.dtype is DType.INT8, "a function of 16-bit values")
            return sum_of_ramps(self, x, values, out)
        entries = result.quantize(values)
        return self.gather(x, self.const(entries.astype(out.dtype.numpy), out.dtype, result), low)

    def gather(self, x: Value, table: Value, low: int | None = None) -> Value:
        """The entries of a table for the codes of `x`, of which `low` has the first."""
        low = x.type.dtype.range[0] if low is None else low
        index = self.CAST(x, dtype=DType.INT32)
        if low:
            index = self.ADD(index, self.scalar(-low, DType.INT32, x.type.rank))
        return self.GATHER(table, index)  # type: ignore[no-any-return]

    def lookup_pair(self, x: Value, y: Value, function: Function2, out: TensorType) -> Value:
        """`function` of two 8-bit values of equal rank, exactly: GATHER from a table of pairs."""
        q, r, result = x.type.quant, y.type.quant, out.quant
        assert q is not None and r is not None and result is not None
        codes = np.arange(-128, 128)
        left, right = (
            ((codes - p.zp).astype(np.float32) * np.float32(p.s)).astype(np.float64) for p in (q, r)
        )
        with np.errstate(all="ignore"):
            real = function(*np.meshgrid(left, right, indexing="ij"))
        entries = result.quantize(_finite(real, result)).reshape(-1)
        table = self.const(entries.astype(out.dtype.numpy), out.dtype, result)
        high = self.MUL(self.CAST(x, dtype=DType.INT32), self.scalar(256, DType.INT32, x.type.rank))
        low = self.ADD(
            self.CAST(y, dtype=DType.INT32), self.scalar(128 * 257, DType.INT32, y.type.rank)
        )
        return self.GATHER(table, self.ADD(high, low))  # type: ignore[no-any-return]


def _whole_range(type: TensorType) -> Quant:
    assert type.quant is not None
    return Quant(type.quant.scale, type.quant.zero_point, None, *type.dtype.range)


def _finite(real: np.ndarray, quant: Quant) -> np.ndarray:
    """Infinities as values that saturate; NaN stays, which is code 0 as in PyTorch."""
    limit = quant.s * 2.0**20
    return np.clip(real, -limit, limit)


def real_values(x: Value) -> np.ndarray:
    """The real values of a constant, in float64."""
    if x.type.quant is not None:
        return x.type.quant.dequantize(x.array)
    return x.array.astype(np.float64)


def covering(real: np.ndarray, dtype: DType) -> Quant:
    """Symmetric parameters whose largest code is the largest magnitude, which is then exact."""
    low, high = dtype.range
    return Quant(max(float(np.abs(real).max(initial=0.0)), 1e-30) / high, 0, None, low, high)


def symmetric(largest: float, dtype: DType = DType.INT16) -> Quant:
    """Symmetric parameters for values up to `largest`."""
    return Quant(largest / dtype.range[1], 0, None, *dtype.range)


def largest_magnitude(quant: Quant) -> float:
    """The largest magnitude that a quantized value can have."""
    return quant.s * max(abs(quant.qmin - quant.zp), abs(quant.qmax - quant.zp))


def wide_quant(x: Value) -> Quant:
    """INT16 parameters that hold every value of quantized `x` exactly (a power of two finer)."""
    quant = x.type.quant
    assert quant is not None
    if x.type.dtype is DType.INT16:
        return quant
    steps = max(abs(quant.qmin - quant.zp), abs(quant.qmax - quant.zp))
    finer = 2.0 ** np.floor(np.log2(2**15 - 1) - np.log2(steps))
    return Quant(quant.s / finer, 0, None, *DType.INT16.range)
