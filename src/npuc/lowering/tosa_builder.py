"""The builder that lowering rules emit TOSA with: one method per operator, within the target's limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from npuc.dialects.tosa import DEFINITIONS, Limits, infer
from npuc.errors import Unsupported
from npuc.ir import Builder, DType, Op, Quant, Shape, TensorType, Value
from npuc.lowering.rescale import multiplier_and_shift

NHWC = {3: (0, 2, 1), 4: (0, 2, 3, 1), 5: (0, 2, 3, 4, 1)}
NCHW = {3: (0, 2, 1), 4: (0, 3, 1, 2), 5: (0, 4, 1, 2, 3)}


class TosaBuilder(Builder):
    """`b.CONV2D(x, w, bias, x_zp, w_zp, pad=...)` emits an op and returns its result.

    Positional arguments are the operands in the specification's order; a tuple or list of ints
    stands for a constant shape. Keywords are attributes, or `dtype`, `shape` and `quant` of the
    result. Raises Unsupported outside `limits`.
    """

    def __init__(self, limits: Limits, families: Sequence[str] = ()) -> None:
        super().__init__(verify=self._check)
        self.limits = limits
        self.families = tuple(families)
        #: result types of the op that is being lowered
        self.out: tuple[TensorType, ...] = ()
        #: the op of the model that is being lowered
        self.op: Op | None = None

    def _check(
        self, kind: str, operands: Sequence[Value], attrs: Mapping[str, Any],
        results: Sequence[TensorType],
    ) -> None:  # fmt: skip
        if kind.startswith("tosa."):
            self.limits.check(kind[5:], operands, attrs, results)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in DEFINITIONS:
            raise AttributeError(name)

        def emit(*operands: Any, **attrs: Any) -> Any:
            return self.tosa(name, *operands, **attrs)

        self.__dict__[name] = emit
        return emit

    def tosa(
        self, name: str, *operands: Any, dtype: DType | None = None, shape: Shape | None = None,
        quant: Quant | None = None, **attrs: Any,
    ) -> Any:  # fmt: skip
        """Emit operator `name`; a single result is returned bare, several as a tuple."""
        definition = DEFINITIONS[name]
        values = [v if isinstance(v, Value) else self.shape(v) for v in operands]
        attrs = {**definition.defaults, **attrs}
        types = infer(name, values, attrs, dtype, shape)
        if quant is not None:
            types = tuple(t.with_(quant=quant) for t in types)
        results = self.emit("tosa." + name, values, attrs, types)
        return results[0] if len(results) == 1 else results

    # -- refusals ---------------------------------------------------------------------------

    def require(self, condition: Any, reason: str, hint: str = "") -> None:
        """Raise Unsupported(reason) unless `condition` holds. The text is what the user reads."""
        if not condition:
            self.refuse(reason, hint)

    def refuse(self, reason: str, hint: str = "") -> None:
        """Raise Unsupported."""
        from npuc.errors import Reason

        raise Unsupported(Reason("", "", reason, hint))

    # -- constants --------------------------------------------------------------------------

    def shape(self, dims: Sequence[int]) -> Value:
        """A constant of shape type."""
        return self.const(np.asarray(tuple(dims), np.int64), DType.SHAPE)

    def scalar(self, value: Any, dtype: DType, rank: int = 0, quant: Quant | None = None) -> Value:
        """A constant with one element, of `rank` dimensions of size 1."""
        return self.const(np.full((1,) * rank, value).astype(dtype.numpy), dtype, quant)

    def zero_point(self, x: Value, value: int | None = None) -> Value:
        """The [1] zero point operand for `x`: its quantization's (0 for floats), or `value`."""
        if value is None:
            value = x.type.quant.zp if x.type.quant and not x.type.quant.per_channel else 0
        return self.const(np.full(1, value).astype(x.type.dtype.numpy), x.type.dtype)

    # -- data movement ----------------------------------------------------------------------

    def transpose(self, x: Value, perms: Sequence[int]) -> Value:
        """TRANSPOSE; of a constant at once, as a view."""
        perms = tuple(int(p) for p in perms)
        if perms == tuple(range(x.type.rank)):
            return x
        if x.is_const:
            quant = x.type.quant.transposed(perms) if x.type.quant else None
            return self.const(x.array.transpose(perms), x.type.dtype, quant)
        quant = x.type.quant.transposed(perms) if x.type.quant else None
        return self.TRANSPOSE(x, perms=perms, quant=quant)  # type: ignore[no-any-return]

    def nhwc(self, x: Value) -> Value:
        """Channels from axis 1 to the last axis."""
        return self.transpose(x, NHWC[x.type.rank])

    def nchw(self, x: Value) -> Value:
        """Channels from the last axis to axis 1."""
        return self.transpose(x, NCHW[x.type.rank])

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """RESHAPE; of a constant at once. Keeps a per-tensor quantization."""
        shape = tuple(int(d) for d in shape)
        if shape == x.type.shape:
            return x
        if x.is_const:
            return self.const(x.array.reshape(shape), x.type.dtype, x.type.quant)
        return self.RESHAPE(x, shape, quant=x.type.quant)  # type: ignore[no-any-return]

    def match_rank(self, x: Value, rank: int) -> Value:
        """`x` with leading dimensions of size 1 up to `rank` (PyTorch's broadcasting)."""
        return self.reshape(x, (1,) * (rank - x.type.rank) + x.type.ints)

    def slice(self, x: Value, start: Sequence[int], size: Sequence[int]) -> Value:
        """SLICE; of a constant at once, the whole tensor as it is."""
        start, size = tuple(map(int, start)), tuple(map(int, size))
        if size == x.type.shape:
            return x
        if x.is_const:
            window = tuple(slice(s, s + n) for s, n in zip(start, size))
            return self.const(x.array[window], x.type.dtype, x.type.quant)
        return self.SLICE(x, start, size, quant=x.type.quant)  # type: ignore[no-any-return]

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
