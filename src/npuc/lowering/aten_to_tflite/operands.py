"""Brings the operands of one op to one type: element types, ranks, parameters."""

from __future__ import annotations

from typing import Any

from npuc.dialects.tflite.limits import SUM_BITS
from npuc.ir import DType, TensorType, Value
from npuc.lowering.tflite_builder import (
    TfliteBuilder,
    largest_magnitude,
    real_values,
    symmetric,
)

#: PyTorch's promotion for tensors: the later wins
ORDER = (DType.BOOL, DType.UINT8, DType.INT8, DType.INT16, DType.INT32, DType.INT64, DType.FP32)


def promoted(b: TfliteBuilder, *values: Value) -> DType:
    """The element type of the result that PyTorch computes from tensors of these types."""
    for v in values:
        b.require(v.type.dtype in ORDER, f"LiteRT has no arithmetic of {v.type.dtype.name}")
    return max((v.type.dtype for v in values), key=ORDER.index)


def converted(b: TfliteBuilder, x: Value, dtype: DType) -> Value:
    """Plain `x` as another element type by value-preserving conversion; a constant at once."""
    if x.type.quant is not None:
        b.refuse("one operand is quantized and the result is not", "quantize this op as a whole")
    if x.type.dtype is dtype:
        return x
    if x.is_const:
        return b.const(x.array.astype(dtype.numpy), dtype)
    return b.CAST(x, dtype=dtype)  # type: ignore[no-any-return]


def number(x: Value) -> float | None:
    """The real value of a constant with one element; None for other values."""
    return float(real_values(x).reshape(())) if x.is_const and x.array.size == 1 else None


def binary(
    b: TfliteBuilder, name: str, x: Value, y: Value, out: TensorType, dtype: DType | None = None,
    **attrs: Any,
) -> Value:  # fmt: skip
    """Operator `name` of two operands that broadcast, with the type of `out`.

    Plain ones are converted to one type (default: the promoted one). Quantized ones of different
    widths are computed in INT16.
    """
    if out.quant is not None:
        return _quantized(b, name, x, y, out, attrs)
    dtype = dtype or promoted(b, x, y)
    x, y = aligned(b, converted(b, x, dtype), converted(b, y, dtype))
    return converted(b, b.tflite(name, x, y, **attrs), out.dtype)


def _quantized(
    b: TfliteBuilder, name: str, x: Value, y: Value, out: TensorType, attrs: dict[str, Any]
) -> Value:
    x, y = b.operand(x), b.operand(y)
    x, y = aligned(b, x, y)
    dtypes = {x.type.dtype, y.type.dtype, out.dtype}
    b.require(
        dtypes <= {DType.INT8, DType.INT16},
        f"LiteRT has no quantized {name} of {', '.join(sorted(d.name for d in dtypes))}",
    )
    result = out
    if len(dtypes) > 1:
        x, y, result = b.widened(x), b.widened(y), wide_type(out)
    if name in ("ADD", "SUB"):
        x, y = _summable(b, x, result), _summable(b, y, result)
    return b.requantize(b.tflite(name, x, y, quant=result.quant, **attrs), out)


def _summable(b: TfliteBuilder, x: Value, out: TensorType) -> Value:
    """An operand whose one step passes the whole range of the sum gets the sum's parameters."""
    quant, result = x.type.quant, out.quant
    assert quant is not None and result is not None
    return b.requantize(x, out) if quant.s >= result.s * 2 ** SUM_BITS[out.dtype] else x


def wide_type(out: TensorType) -> TensorType:
    """An INT16 type that holds what quantized `out` does, finer by some bits."""
    quant = out.quant
    assert quant is not None
    if out.dtype is DType.INT16:
        return out
    return out.with_(dtype=DType.INT16, quant=symmetric(largest_magnitude(quant)))


def aligned(b: TfliteBuilder, *values: Value) -> list[Value]:
    """The values at one rank, the broadcasts in front of them taken off where nothing is lost."""
    rank = max(v.type.rank for v in values)
    values = tuple(b.match_rank(v, rank) for v in values)
    shape = tuple(max(dims) for dims in zip(*[v.type.ints for v in values], strict=True))
    bare = [_without_broadcast(v) for v in values]
    for i in range(len(bare)):
        others = [bare[k] if k <= i else values[k] for k in range(len(values))]
        if tuple(max(dims) for dims in zip(*[v.type.ints for v in others], strict=True)) != shape:
            bare[i] = values[i]
    return bare if b.limits.spreads else _one_sided(b, bare, shape)


def _one_sided(b: TfliteBuilder, values: list[Value], shape: tuple[int, ...]) -> list[Value]:
    """The values, the first one spread where none has the shape of the result."""
    from npuc.lowering.aten_to_tflite.move import spread

    plain = any(v.type.shape == shape or v.type.quant is None for v in values)
    return values if plain else [spread(b, values[0], shape), *values[1:]]


def _without_broadcast(x: Value) -> Value:
    if x.op is None or x.op.kind != "tflite.TILE":
        return x
    source = x.op.operands[0]
    spread = [d for d, m in zip(source.type.ints, x.op.attrs["multiples"], strict=True) if m != 1]
    return source if all(d == 1 for d in spread) else x
