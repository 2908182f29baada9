"""A builder with one method per TFLite operator, within the limits of a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from npuc.dialects.op_builder import DialectBuilder, add_operators
from npuc.dialects.tflite.definition import DEFINITIONS
from npuc.dialects.tflite.infer import InvalidOp, infer
from npuc.dialects.tflite.limits import TfliteLimits
from npuc.dialects.tflite.quantization import fixed_quant
from npuc.ir import DType, Quant, TensorType, Value


class TfliteOpBuilder(DialectBuilder):
    """`b.ADD(x, y, quant=q)` emits an operator and returns its result.

    Positional arguments are the operands, keywords attributes, or `dtype` and `quant` of the
    result. The result of an operator that keeps or fixes its parameters gets them without `quant`.
    Raises Unsupported outside `limits`, InvalidOp where parameters break the operator's rule.
    """

    prefix = "tflite."
    limits: TfliteLimits

    def tflite(
        self, name: str, *operands: Value, dtype: DType | None = None, quant: Quant | None = None,
        **attrs: Any,
    ) -> Any:  # fmt: skip
        """Emit operator `name`; a single result is returned bare, several as a tuple."""
        definition = DEFINITIONS[name]
        attrs = {**definition.attributes, **{k: _plain(v) for k, v in attrs.items()}}
        missing = [k for k, v in attrs.items() if v is ...]
        if missing or attrs.keys() != definition.attributes.keys():
            raise InvalidOp(f"{name}: attributes {sorted(attrs)}, without value: {missing}")
        if all(v.type.is_static for v in operands):
            types = infer(name, operands, attrs, dtype)
        else:  # the check below says why not
            types = (operands[0].type,)
        if quant is None:
            quant = _implied(name, operands, types[0])
        if quant is not None:
            types = (types[0].with_(quant=quant), *types[1:])
        return self.checked(name, operands, attrs, types)

    def reshape(self, x: Value, shape: Sequence[int]) -> Value:
        """RESHAPE; of a constant at once. Keeps a per-tensor quantization."""
        shape = tuple(int(d) for d in shape)
        if shape == x.type.shape:
            return x
        if x.is_const:
            return self.const(x.array.reshape(shape), x.type.dtype, x.type.quant)
        return self.RESHAPE(x, shape=shape)  # type: ignore[no-any-return]

    def reshape_form(self, x: Value, shape: Sequence[int]) -> tuple[list[Value], dict[str, Any]]:
        """Operands and attributes of a RESHAPE."""
        return [x], {"shape": tuple(int(d) for d in shape)}

    def slice(self, x: Value, start: Sequence[int], size: Sequence[int]) -> Value:
        """SLICE; of a constant at once, the whole tensor as it is."""
        start, size = tuple(map(int, start)), tuple(map(int, size))
        if size == x.type.shape:
            return x
        if x.is_const:
            window = tuple(slice(s, s + n) for s, n in zip(start, size, strict=True))
            return self.const(x.array[window], x.type.dtype, x.type.quant)
        return self.SLICE(x, begin=start, size=size)  # type: ignore[no-any-return]


def _implied(name: str, operands: Sequence[Value], result: TensorType) -> Quant | None:
    """Parameters that the operator itself decides."""
    fixed = fixed_quant(name, result.dtype)
    if fixed is not None or DEFINITIONS[name].quant != "same":
        return fixed
    return next((v.type.quant for v in operands if v.type.dtype is result.dtype), None)


def _plain(value: Any) -> Any:
    """Attributes are hashable and of Python's own types."""
    if isinstance(value, (list, tuple)):
        return tuple(int(v) for v in value)
    return value.item() if isinstance(value, np.generic) else value


add_operators(TfliteOpBuilder, "tflite", DEFINITIONS)
