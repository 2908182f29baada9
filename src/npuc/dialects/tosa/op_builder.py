"""A builder with one method per TOSA operator, within the limits of a target."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from npuc.dialects.op_builder import DialectBuilder, add_operators
from npuc.dialects.tosa.definition import DEFINITIONS
from npuc.dialects.tosa.infer import InvalidOp, infer
from npuc.dialects.tosa.limits import Limits
from npuc.dialects.tosa.shape_values import shape_value
from npuc.ir import Dim, DType, Quant, Shape, TensorType, Value
from npuc.ir.symbolic import open_size, size_of


class OpBuilder(DialectBuilder):
    """`b.CLAMP(x, min_val=0, max_val=6)` emits an operator and returns its result.

    Positional arguments are the operands in the specification's order; a tuple or list of ints
    stands for a constant shape. Keywords are attributes, or `dtype`, `shape` and `quant` of the
    result. Raises Unsupported outside `limits`.
    """

    prefix = "tosa."
    limits: Limits

    def tosa(
        self, name: str, *operands: Any, dtype: DType | None = None, shape: Shape | None = None,
        quant: Quant | None = None, **attrs: Any,
    ) -> Any:  # fmt: skip
        """Emit operator `name`; a single result is returned bare, several as a tuple."""
        values = [v if isinstance(v, Value) else self.shape(v) for v in operands]
        attrs = {**DEFINITIONS[name].defaults, **attrs}
        types = self._infer(name, values, attrs, dtype, shape)
        if quant is not None:
            types = tuple(t.with_(quant=quant) for t in types)
        return self.checked(name, values, attrs, types)

    def _infer(
        self, name: str, operands: Sequence[Value], attrs: Mapping[str, Any], dtype: DType | None,
        shape: Shape | None,
    ) -> tuple[TensorType, ...]:  # fmt: skip
        try:
            return infer(name, operands, attrs, dtype, shape)
        except InvalidOp as error:
            if all(v.type.is_static for v in operands):
                raise
            open_sizes = [d for v in operands for d in v.type.shape]
            raise open_size(f"{name}: {error}", *open_sizes) from None

    def shape(self, dims: Sequence[Dim]) -> Value:
        """A value of shape type: a constant, or computed where a size is symbolic."""
        return shape_value(self, tuple(map(size_of, dims)))

    def reshape(self, x: Value, shape: Sequence[Dim]) -> Value:
        """RESHAPE; of a constant at once. Keeps a per-tensor quantization."""
        shape = tuple(map(size_of, shape))
        if shape == x.type.shape:
            return x
        if x.is_const:
            return self.const(x.array.reshape(shape), x.type.dtype, x.type.quant)
        return self.RESHAPE(x, shape, quant=x.type.quant)  # type: ignore[no-any-return]

    def reshape_form(self, x: Value, shape: Sequence[Dim]) -> tuple[list[Value], dict[str, Any]]:
        """Operands and attributes of a RESHAPE."""
        return [x, self.shape(shape)], {}

    def slice(self, x: Value, start: Sequence[Dim], size: Sequence[Dim]) -> Value:
        """SLICE; of a constant at once, the whole tensor as it is."""
        start, size = tuple(map(size_of, start)), tuple(map(size_of, size))
        if size == x.type.shape:
            return x
        if x.is_const and all(isinstance(d, int) for d in (*start, *size)):
            window = tuple(slice(s, s + n) for s, n in zip(start, size, strict=True))  # type: ignore[operator]
            return self.const(x.array[window], x.type.dtype, x.type.quant)
        return self.SLICE(x, start, size, quant=x.type.quant)  # type: ignore[no-any-return]


add_operators(OpBuilder, "tosa", DEFINITIONS)
