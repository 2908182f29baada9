"""The builder of canonical graphs: emits movements and conversions, folding those of constants."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from npuc.frontend.fold_constants import is_dequantize
from npuc.ir import Builder, Dim, DType, Op, Quant, Shape, SymDim, TensorType, Value, pack
from npuc.ir.symbolic import at_least

#: constants are expanded at once up to this many elements
FOLDED_ELEMENTS = 2**14


class Speller(Builder):
    """A builder with the helpers that spellings are written with.

    `out` are the result types of the op that is being respelled, `unused` tells which of its
    results nobody reads.
    """

    out: tuple[TensorType, ...] = ()
    op: Op
    read: frozenset[Value] = frozenset()

    def is_used(self, index: int) -> bool:
        """Whether result `index` of the op is read by anyone."""
        return self.op.results[index] in self.read

    def make(self, kind: str, type: TensorType, *args: Any, **kwargs: Any) -> Value:
        """Emit an aten op with one result. `args` hold Values, lists of them and numbers."""
        operands, attrs = pack(args, kwargs)
        return self.emit(kind, operands, attrs, (type,))[0]

    def number(self, value: Any, dtype: DType) -> Value:
        """A 0-d constant."""
        if isinstance(value, SymDim):
            size = self.make("aten.scalar_tensor", TensorType(DType.INT64, ()), value)
            return self.to(size, dtype)
        if dtype.is_integer and isinstance(value, float):
            value = int(value)
        with np.errstate(over="ignore"):
            return self.const(np.asarray(value).astype(dtype.numpy), dtype)

    # data movement -----------------------------------------------------------------------------

    def view(self, x: Value, shape: Sequence[Dim]) -> Value:
        """`x` in another shape of as many elements; views of views and constants are folded."""
        shape = tuple(shape)
        if shape == x.type.shape:
            return x
        if x.is_const:
            return self._constant(x, x.array.reshape(_ints(shape)), _viewed(x.type, shape))
        earlier = _maker(x, "aten.view")
        source = x if earlier is None else earlier.operands[0]
        inner = _dequantized(source)
        if inner is not None and _keeps_axis(inner.type, shape):
            return self._requantized(source, self.view(inner, shape))
        if shape == source.type.shape:
            return source
        return self.make("aten.view", _viewed(source.type, shape), source, shape)

    def permute(self, x: Value, dims: Sequence[int]) -> Value:
        """`x` transposed; permutes of permutes and constants are folded."""
        dims = tuple(dims)
        if dims == tuple(range(x.type.rank)):
            return x
        if x.is_const:
            return self._constant(x, x.array.transpose(dims), x.type.transposed(dims))
        earlier = _maker(x, "aten.permute")
        if earlier is not None:
            inner = earlier.attrs["args"][1]
            return self.permute(earlier.operands[0], [inner[d] for d in dims])
        source = _dequantized(x)
        if source is not None:
            return self._requantized(x, self.permute(source, dims))
        return self.make("aten.permute", x.type.transposed(dims), x, dims)

    def expand(self, x: Value, shape: Sequence[Dim]) -> Value:
        """`x` with its dims of size 1 repeated; a higher rank is raised by a view."""
        shape = tuple(shape)
        x = self.view(x, (1,) * (len(shape) - x.type.rank) + x.type.shape)
        if shape == x.type.shape:
            return x
        if (
            x.is_const
            and x.type.quant is None
            and x.type.is_static
            and _count(shape) <= FOLDED_ELEMENTS
        ):
            array = np.ascontiguousarray(np.broadcast_to(x.array, _ints(shape)))
            return self._constant(x, array, _moved(x.type, shape))
        return self.make("aten.expand", _moved(x.type, shape), x, shape)

    def slice(self, x: Value, dim: int, start: Dim, end: Dim, step: int = 1) -> Value:
        """Elements start, start + step, ... below end along `dim`."""
        size = x.type.shape[dim]
        if (start, end, step) == (0, size, 1):
            return x
        length = at_least(0, -(-(end - start) // step))
        shape = (*x.type.shape[:dim], length, *x.type.shape[dim + 1 :])
        if x.is_const and x.type.quant is None and isinstance(start, int) and isinstance(end, int):
            index = (slice(None),) * dim + (slice(start, end, step),)
            return self._constant(x, x.array[index], _moved(x.type, shape))
        return self.make("aten.slice", _moved(x.type, shape), x, dim, start, end, step)

    def cat(self, values: Sequence[Value], dim: int) -> Value:
        """Concatenation; of one value, the value itself."""
        if len(values) == 1:
            return values[0]
        length = sum([v.type.shape[dim] for v in values])
        first = values[0].type
        shape = (*first.shape[:dim], length, *first.shape[dim + 1 :])
        same = all(v.type.quant == first.quant for v in values)
        type = TensorType(first.dtype, shape, first.quant if same else None)
        return self.make("aten.cat", type, list(values), dim)

    # element types -----------------------------------------------------------------------------

    def to(self, x: Value, dtype: DType) -> Value:
        """`x` converted to `dtype` as PyTorch converts."""
        if x.type.dtype is dtype:
            return x
        if x.is_const and x.type.quant is None:
            with np.errstate(invalid="ignore", over="ignore"):
                array = x.array.astype(dtype.numpy)
            return self._constant(x, array, TensorType(dtype, x.type.shape))
        return self.make("aten.to", TensorType(dtype, x.type.shape), x, dtype)

    def _constant(self, like: Value, array: np.ndarray, type: TensorType) -> Value:
        return self.const(array, type.dtype, type.quant, like.name)

    def _requantized(self, dequantized: Value, moved: Value) -> Value:
        """The dequantize of a constant, on the constant moved."""
        op: Any = dequantized.op
        type = TensorType(dequantized.type.dtype, moved.type.shape)
        return self.make(op.kind, type, moved)


def is_constant(x: Value | None) -> bool:
    """Whether a value is a constant, perhaps quantized and dequantized again."""
    return x is not None and (x.is_const or _dequantized(x) is not None)


def _count(shape: Shape) -> float:
    return math.prod(d if isinstance(d, int) else math.inf for d in shape)


def _ints(shape: Shape) -> tuple[int, ...]:
    """A shape of a constant: its sizes are known."""
    return tuple(int(d) for d in shape)  # type: ignore[arg-type]


def _maker(x: Value, kind: str) -> Op | None:
    """The op that made a value, if it is of this kind."""
    return x.op if x.op is not None and x.op.kind == kind else None


def _dequantized(x: Value) -> Value | None:
    """The quantized constant whose dequantization `x` is."""
    if x.op is None or not is_dequantize(x.op.kind) or len(x.op.operands) != 1:
        return None
    source = x.op.operands[0]
    return source if source.is_const and source.type.quant is not None else None


def _keeps_axis(type: TensorType, shape: Shape) -> bool:
    return type.quant is None or type.quant.axis is None or _new_axis(type, shape) is not None


def _new_axis(type: TensorType, shape: Shape) -> int | None:
    """Where the channel axis of a quantized type is after a view; None when it is split."""
    quant: Any = type.quant
    before = int(np.prod(type.ints[: quant.axis]))
    size = type.ints[quant.axis]
    done = 1
    for axis, dim in enumerate(shape):
        if done == before and dim == size:
            return axis
        done *= dim  # type: ignore[operator, assignment]
    return None


def _viewed(type: TensorType, shape: Shape) -> TensorType:
    quant = type.quant
    if quant is not None and quant.axis is not None:
        axis = _new_axis(type, shape)
        if axis is None:
            raise ValueError(f"a view of {type} as {shape} splits its quantized channels")
        quant = Quant(quant.scale, quant.zero_point, axis, quant.qmin, quant.qmax)
    return TensorType(type.dtype, shape, quant)


def _moved(type: TensorType, shape: Shape) -> TensorType:
    return TensorType(type.dtype, shape, type.quant)
