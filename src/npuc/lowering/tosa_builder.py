"""The builder that lowering rules emit TOSA with: one method per operator, within the target's limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder, multiplier_and_shift
from npuc.ir import DType, Quant, TensorType, Value
from npuc.lowering.integers_by_floats import form_of
from npuc.lowering.rule_builder import NCHW, NHWC, RuleBuilder

__all__ = ["MASK", "NCHW", "NHWC", "TosaBuilder"]

#: what a BOOL value is on a target without BOOL tensors: INT8 of 0 and 1
MASK = Quant(1.0, 0, None, 0, 1)
#: families of targets without BOOL tensors
WITHOUT_BOOL = frozenset({"ethos-u55"})


class TosaBuilder(RuleBuilder, OpBuilder):
    """OpBuilder with what lowering rules need: refusals, layouts, integer arithmetic.

    Every op is checked against `limits`.
    """

    dialect = "tosa"

    def __init__(self, limits: Limits, families: Sequence[str] = ()) -> None:
        super().__init__(limits, check_copies=True)
        self.families = tuple(families)
        self.has_bool = not WITHOUT_BOOL.intersection(families)

    def carried_type(self, type: TensorType) -> TensorType:
        """As for every builder; BOOL as a mask where the target has no BOOL tensors."""
        if type.dtype is DType.BOOL and not self.has_bool:
            return TensorType(DType.INT8, type.shape, MASK)
        return super().carried_type(type)

    def tosa(self, name: str, *operands: Any, **options: Any) -> Any:
        """Emit an operator, or what stands for it where the profile lacks integers."""
        form = form_of(self, name, operands, options.get("dtype"))
        if form is not None:
            return form(self, *operands, **options)
        return super().tosa(name, *operands, **options)

    # -- constants --------------------------------------------------------------------------

    def zero_point(self, x: Value, value: int | None = None) -> Value:
        """The [1] zero point operand for `x`: its quantization's (0 for floats), or `value`."""
        if value is None:
            value = x.type.quant.zp if x.type.quant and not x.type.quant.per_channel else 0
        return self.const(np.full(1, value).astype(x.type.dtype.numpy), x.type.dtype)

    # -- integer arithmetic -----------------------------------------------------------------

    def rescale(
        self, x: Value, scale: Any, dtype: DType, *, in_zp: int = 0, out_zp: int = 0,
        quant: Quant | None = None, input_unsigned: bool = False, output_unsigned: bool = False,
        rounding_mode: str = "SINGLE_ROUND",
    ) -> Value:  # fmt: skip
        """RESCALE: out = round((x - in_zp) * scale) + out_zp, saturated to `dtype`.

        `scale` is a number or, per channel of the last axis, a vector. INT48 input takes 16-bit
        multipliers, as the specification demands.
        """
        scale = np.atleast_1d(np.asarray(scale, np.float64))
        scale32 = x.type.dtype is not DType.INT48
        multiplier, shift = multiplier_and_shift(scale, scale32)
        per_channel = scale.size > 1
        if per_channel and np.all(multiplier == multiplier[0]) and np.all(shift == shift[0]):
            multiplier, shift, per_channel = multiplier[:1], shift[:1], False
        return self.RESCALE(  # type: ignore[no-any-return]
            x,
            self.const(multiplier.astype(np.int32 if scale32 else np.int16)),
            self.const(shift.astype(np.int8)),
            self.const(np.full(1, in_zp).astype(x.type.dtype.numpy), x.type.dtype),
            self.const(np.full(1, out_zp).astype(dtype.numpy), dtype),
            scale32=scale32, rounding_mode=rounding_mode, per_channel=per_channel,
            input_unsigned=input_unsigned, output_unsigned=output_unsigned,
            dtype=dtype, quant=quant,
        )  # fmt: skip

    def CAST(self, x: Value, *, dtype: DType, quant: Quant | None = None) -> Value:
        """CAST; from and to UINT8, which no file can say at a CAST, by RESCALEs over INT8.

        Integers wrap to UINT8, floats saturate, as in a CAST to INT8.
        """
        if x.type.dtype is DType.UINT8:
            x = self.rescale(x, 1.0, DType.INT8, in_zp=128, input_unsigned=True)
            x = self.rescale(x, 1.0, DType.INT32, in_zp=-128)
            if dtype is DType.INT32:
                return x
        if dtype is not DType.UINT8:
            return self.tosa("CAST", x, dtype=dtype, quant=quant)  # type: ignore[no-any-return]
        wraps = x.type.dtype.is_integer
        if x.type.dtype is not DType.INT32:
            x = self.CAST(x, dtype=DType.INT32)
        if wraps:
            x = self.BITWISE_AND(x, self.scalar(255, DType.INT32, x.type.rank))
        x = self.rescale(x, 1.0, DType.INT8, out_zp=-128)
        return self.rescale(x, 1.0, dtype, out_zp=128, quant=quant, output_unsigned=True)

    def to_int32(self, x: Value, scale: float = 1.0) -> Value:
        """Quantized `x` as int32 without its zero point, times `scale`."""
        zp = x.type.quant.zp if x.type.quant else 0
        return self.rescale(x, scale, DType.INT32, in_zp=zp)

    def requantize(self, x: Value, scale: Any, out: TensorType) -> Value:
        """Integer `x` (zero point 0) whose step is worth `scale` (number or vector per channel of
        the last axis) to the quantized type `out` (dtype and quant are used)."""
        if out.quant is None:
            self.refuse("the result is not quantized")
        assert out.quant is not None
        ratio = np.asarray(scale, np.float64) / out.quant.s
        return self.clamp_codes(
            self.rescale(x, ratio, out.dtype, out_zp=out.quant.zp, quant=out.quant), out.quant
        )

    def clamp_codes(self, x: Value, quant: Quant) -> Value:
        """`x` clamped to qmin..qmax where these are narrower than its element type."""
        lo, hi = x.type.dtype.range
        if quant.qmin <= lo and quant.qmax >= hi:
            return x
        return self.CLAMP(  # type: ignore[no-any-return]
            x, min_val=max(quant.qmin, lo), max_val=min(quant.qmax, hi), quant=x.type.quant
        )
