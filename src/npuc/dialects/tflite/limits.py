"""What a TFLite target takes: element types, ranks, and a chip's own restrictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from npuc.dialects.tflite.definition import DEFINITIONS, Definition
from npuc.dialects.tflite.infer import InvalidOp
from npuc.dialects.tflite.quantization import check_quantization, same_parameters
from npuc.errors import Unsupported
from npuc.ir import DType, Quant, TensorType, Value

if TYPE_CHECKING:
    from npuc.dialects.tflite.op_builder import TfliteOpBuilder

Attrs = Mapping[str, Any]
ChipPolicy = Callable[[str, Sequence[Value], Attrs, Sequence[TensorType]], "str | None"]


@dataclass(frozen=True)
class TfliteLimits:
    """Limits of a target that takes TFLite files.

    floats: whether operators on floats may stand in the file (DEQUANTIZE and QUANTIZE at its ends
    are always allowed). int4: whether weights of 4 bits may. grouped: whether CONV_2D takes
    groups. steps: whether STRIDED_SLICE takes steps. tables: whether CAST and GATHER from a table
    run where the rest does. ramps: whether functions of 8 bits are sums of ramps, where nothing
    looks up a table. max_stride: of convolutions that run as one operation. channels_at_once: input
    channels that cost as much as one. int16: whether values may have 16 bits. depth_multiplier:
    whether a depthwise convolution takes several filters per channel. spreads: whether TILE, and
    operands that both broadcast, are taken. per_channel_linear: whether FULLY_CONNECTED takes a
    scale per output channel. has_control_flow: whether IF and WHILE are.
    `chip` returns why the chip refuses an op that LiteRT has.
    """

    name: str = "tflite"
    floats: bool = True
    int4: bool = True
    grouped: bool = True
    steps: bool = True
    tables: bool = True
    ramps: bool = False
    max_stride: int = 2**31
    channels_at_once: int = 1
    int16: bool = True
    depth_multiplier: bool = True
    spreads: bool = True
    per_channel_linear: bool = True
    has_control_flow: bool = False
    chip: ChipPolicy | None = None
    _types: dict[Any, str | None] = field(default_factory=dict, compare=False, repr=False)

    @property
    def dialect(self) -> str:
        return "tflite"

    @property
    def has_int64(self) -> bool:
        """Whether the model's INT64 stays: no, TFLite Micro and NPUs have INT32 only."""
        return False

    @property
    def has_int16(self) -> bool:
        """Whether values of 16 bits can stand between values of 8."""
        return self.int16

    def op_builder(self) -> TfliteOpBuilder:
        """A builder for passes."""
        from npuc.dialects.tflite.op_builder import TfliteOpBuilder

        return TfliteOpBuilder(self)

    def check(
        self, name: str, operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
    ) -> None:
        """Raise Unsupported with the rule and its number when an op is outside the limits.

        Raises InvalidOp where quantization parameters break the operator's rule.
        """
        reason = self.reason(name, operands, attrs, results)
        if reason is not None:
            raise Unsupported(f"{name}: {reason}")
        check_quantization(name, [v.type for v in operands], results)

    def reason(
        self, name: str, operands: Sequence[Value], attrs: Attrs, results: Sequence[TensorType]
    ) -> str | None:
        """Why an op is outside the limits, or None."""
        definition = DEFINITIONS[name]
        if not definition.signatures:  # IF and WHILE take anything
            return self.chip(name, operands, attrs, results) if self.chip else None
        key = (name, *[v.type.dtype for v in operands], *[t.dtype for t in results])
        if key not in self._types:
            self._types[key] = self._type_reason(definition, operands, results)
        return (
            self._types[key]
            or _size_reason(definition, operands, results)
            or _scale_reason(name, operands, results)
            or (self.chip(name, operands, attrs, results) if self.chip else None)
        )

    def _type_reason(
        self, definition: Definition, operands: Sequence[Value], results: Sequence[TensorType]
    ) -> str | None:
        dtypes = tuple(v.type.dtype for v in operands)
        least = sum(not n.endswith("?") for n in definition.operands)
        if definition.is_variadic:
            if len(set(dtypes)) > 1:
                raise InvalidOp(f"{definition.name}: operands of types {dtypes}")
            dtypes, least = dtypes[:1], 1
        if not least <= len(dtypes) <= len(definition.operands):
            raise InvalidOp(f"{definition.name} takes {definition.operands}, not {len(dtypes)}")
        fits = any(
            s[: len(dtypes)] == dtypes and r is results[0].dtype for s, r in definition.signatures
        )
        if not fits:
            names = ", ".join(dict.fromkeys(d.name for d in (*dtypes, results[0].dtype)))
            return f"LiteRT has no kernel for {names}"
        boundary = definition.name in ("QUANTIZE", "DEQUANTIZE", "CAST")
        if not self.floats and not boundary and dtypes[0] is DType.FP32:
            return f"{self.name} takes no operators on floats"
        return None


def _size_reason(
    definition: Definition, operands: Sequence[Value], results: Sequence[TensorType]
) -> str | None:
    for t in (*[v.type for v in operands], *results):
        if not t.is_static:
            return f"shape {t.shape} has symbolic dimensions; TFLite targets take static shapes"
        if t.rank > definition.max_rank:
            return f"rank {t.rank} exceeds {definition.max_rank}"
        if 0 in t.shape:
            return f"tensor {t.shape} is empty"
    return None


#: what LiteRT's quantized comparisons resolve, in real values
SMALLEST_STEP = 1 / 256
COMPARISONS = frozenset({"EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"})
#: headroom of sums in bits: kernels abort where an operand's scale is this much coarser than the
#: result's
SUM_BITS = {DType.INT8: 19, DType.UINT8: 19, DType.INT16: 14}


def _comparison_reason(quants: Sequence[Quant]) -> str | None:
    """Why LiteRT, which compares in steps of 1/256, cannot tell apart what differs."""
    low, high = min(q.s for q in quants), max(q.s for q in quants)
    if high >= 1:
        return f"operand scale {high:g}; comparisons take scales below 1"
    same = all(same_parameters(q, quants[0]) for q in quants)
    least = SMALLEST_STEP if same else 8 * SMALLEST_STEP
    return f"operand scale {low:g}; comparisons are in steps of 1/256" if low < least else None


def _scale_reason(
    name: str, operands: Sequence[Value], results: Sequence[TensorType]
) -> str | None:
    """Scales that LiteRT's kernels do not survive."""
    out = results[0].quant
    if name in COMPARISONS:
        quants = [v.type.quant for v in operands if v.type.quant is not None]
        return _comparison_reason(quants) if quants else None
    if name not in ("ADD", "SUB") or out is None or results[0].dtype not in SUM_BITS:
        return None
    for v in operands:
        quant, bits = v.type.quant, SUM_BITS[results[0].dtype]
        if quant is not None and quant.s >= out.s * 2**bits:
            return f"operand scale {quant.s:g} is more than 2**{bits} times the result's {out.s:g}"
    return None
