"""A builder with one method per TOSA operator, within the limits of a target."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from npuc.dialects.tosa.definition import DEFINITIONS
from npuc.dialects.tosa.infer import InvalidOp, infer
from npuc.dialects.tosa.limits import Limits
from npuc.dialects.tosa.shape_values import shape_value
from npuc.ir import Builder, Dim, DType, Quant, Shape, TensorType, Value
from npuc.ir.symbolic import open_size, size_of


class OpBuilder(Builder):
    """`b.CLAMP(x, min_val=0, max_val=6)` emits an operator and returns its result.

    Positional arguments are the operands in the specification's order; a tuple or list of ints
    stands for a constant shape. Keywords are attributes, or `dtype`, `shape` and `quant` of the
    result. Raises Unsupported outside `limits`. Ops that are copied (`emit`) are checked too
    where `check_copies` says so; passes copy what was checked before.
    """

    def __init__(self, limits: Limits, check_copies: bool = False) -> None:
        super().__init__(verify=self._check if check_copies else None)
        self.limits = limits

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Callable[..., Any]: ...

    def _check(
        self, kind: str, operands: Sequence[Value], attrs: Mapping[str, Any],
        results: Sequence[TensorType],
    ) -> None:  # fmt: skip
        if kind.startswith("tosa."):
            self.limits.check(kind[5:], operands, attrs, results)

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
        if self.verify is None:
            self._check("tosa." + name, values, attrs, types)
        results = self.emit("tosa." + name, values, attrs, types)
        return results[0] if len(results) == 1 else results

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

    # -- constants --------------------------------------------------------------------------

    def shape(self, dims: Sequence[Dim]) -> Value:
        """A value of shape type: a constant, or computed where a size is symbolic."""
        return shape_value(self, tuple(map(size_of, dims)))

    def scalar(self, value: Any, dtype: DType, rank: int = 0, quant: Quant | None = None) -> Value:
        """A constant with one element, of `rank` dimensions of size 1."""
        return self.const(np.full((1,) * rank, value).astype(dtype.numpy), dtype, quant)

    # -- data movement ----------------------------------------------------------------------

    def transpose(self, x: Value, perms: Sequence[int]) -> Value:
        """TRANSPOSE; of a constant at once, as a view."""
        perms = tuple(int(p) for p in perms)
        if perms == tuple(range(x.type.rank)):
            return x
        quant = x.type.quant.transposed(perms) if x.type.quant else None
        if x.is_const:
            return self.const(x.array.transpose(perms), x.type.dtype, quant)
        return self.TRANSPOSE(x, perms=perms, quant=quant)  # type: ignore[no-any-return]

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


def _operator(name: str) -> Callable[..., Any]:
    def emit(self: OpBuilder, *operands: Any, **attrs: Any) -> Any:
        return self.tosa(name, *operands, **attrs)

    emit.__name__ = name
    return emit


# Methods of the class, not of one builder: a region's builder is a copy of its parent's.
for _name in DEFINITIONS:
    setattr(OpBuilder, _name, _operator(_name))
