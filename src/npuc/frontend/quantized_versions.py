"""The forms in which one value of a program exists while q/dq pairs are folded."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from npuc.frontend.quantized_constants import quantized, real_constant
from npuc.frontend.quantized_demand import Stored, stored
from npuc.frontend.spellings.quantize import DEQUANTIZE, QUANTIZE
from npuc.ir import Builder, Loc, TensorType, Value, pack

REQUANTIZE = "quantized_decomposed.requantize"


class Versions:
    """Builds, once each, the forms of the old graph's values that somebody reads."""

    def __init__(self) -> None:
        self.builder = Builder()
        #: old value -> new one of the same type
        self.plain: dict[Value, Value] = {}
        #: old float value -> the quantized value that it is the dequantization of
        self.carrier: dict[Value, Value] = {}
        #: old quantized value -> the new one with signed codes
        self.signed: dict[Value, Value] = {}
        #: old float value -> its quantization in each form
        self.coded: dict[Value, dict[Stored, Value]] = {}
        #: old float value -> where the program dequantizes it
        self.dequantized_at: dict[Value, Loc] = {}

    def versions(self, value: Value) -> list[Value]:
        """The forms built so far, the one that stands for the value first."""
        found = [known[value] for known in (self.carrier, self.plain) if value in known]
        return found + list(self.coded.get(value, {}).values())

    def real(self, value: Value) -> Value:
        """The new value with the old one's own type; carried ones are dequantized."""
        found = self.plain.get(value)
        if found is not None:
            return found
        carried = self.carrier[value]
        if carried.is_const:
            made = real_constant(self.builder, carried, value.type.dtype)
        else:
            made = self.one(DEQUANTIZE, [carried], value.type, self.dequantized_at.get(value))
        self.plain[value] = made
        return made

    def in_form(self, value: Value, form: Stored) -> Value:
        """The old float value quantized as `form` says."""
        carried = self.carrier.get(value)
        if carried is not None and stored(carried.type) == form:
            return carried
        versions = self.coded.setdefault(value, {})
        found = versions.get(form)
        if found is not None:
            return found
        type = form.of(value.type.shape)
        if carried is not None and not carried.is_const:
            made = self.one(REQUANTIZE, [carried], type)
        elif self.real(value).is_const:
            made = quantized(self.builder, self.real(value), form)
        else:
            made = self.one(QUANTIZE, [self.real(value)], type)
        versions[form] = made
        return made

    def is_coded(self, value: Value) -> bool:
        """Whether a quantized version of a float value exists already, or is free (a constant)."""
        return value in self.carrier or bool(self.coded.get(value)) or self.is_constant(value)

    def is_constant(self, value: Value) -> bool:
        """Whether an old value is a float constant."""
        found = self.plain.get(value)
        return found is not None and found.is_const

    def one(
        self, kind: str, operands: Sequence[Value], type: TensorType, loc: Loc | None = None
    ) -> Value:
        """Emit an op with one result and no other arguments than its operands."""
        values, attrs = pack(operands, {})
        return self.builder.emit(kind, values, attrs, (type,), (), loc)[0]

    def as_type(self, value: Value, type: TensorType) -> Value:
        """A quantized value with the codes (signed or not) of `type`."""
        return value if value.type == type else self.one(REQUANTIZE, [value], type)

    def signed_value(self, value: Value) -> Value:
        """The new value of an old quantized one, with signed codes."""
        found = self.signed.get(value)
        if found is None:
            given = self.plain[value]
            form = stored(given.type)
            if given.is_const and form.dtype is not given.type.dtype:
                codes = (given.array.astype(np.int16) - 128).astype(np.int8)
                found = self.builder.const(codes, form.dtype, form.quant, given.name)
            else:
                found = self.as_type(given, form.of(given.type.shape))
            self.signed[value] = found
        return found
