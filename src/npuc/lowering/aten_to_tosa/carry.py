"""Data movement of any element type: through one that the target moves, to the result's type."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from npuc.dialects.tosa import DEFINITIONS, Limits
from npuc.ir import DType, Quant, TensorType, Value
from npuc.ir.symbolic import smallest
from npuc.lowering.aten_to_tosa.operands import requantized
from npuc.lowering.integers_by_floats import joined, split
from npuc.lowering.tosa_builder import TosaBuilder

Move = Callable[..., Value]

#: types that hold every value of another one exactly, in order of preference
CARRIERS = {
    DType.BOOL: (DType.INT8, DType.FP32),
    DType.INT8: (DType.FP16, DType.FP32),
    DType.INT16: (DType.INT32, DType.FP32),
}

#: integers up to this magnitude are exact in FP32
EXACT_IN_FP32 = 2**24


def carry(
    b: TosaBuilder, move: Move, *values: Value, by: str = "RESHAPE", bound: int | None = None
) -> Value:
    """`move(*values)` as a value of exactly `b.out[0]`.

    `move` only moves data, with operators that take the types of RESHAPE and of the operator `by`.
    Where the target does not move the values' type, they go through one that holds them exactly;
    `bound` is the largest magnitude of INT32 values, where it is known. Quantized values whose
    parameters differ from the result's are requantized: a single one where it has fewer elements.
    """
    out = b.out[0]
    grows = len(values) > 1 or values[0].is_const or smallest(out.size - values[0].type.size) >= 0
    if grows:
        values = tuple(matched(b, v, out) for v in values)
    return settle(b, carried(b, move, *values, by=by, bound=bound), out)


def carried(
    b: TosaBuilder, move: Move, *values: Value, by: str = "RESHAPE", bound: int | None = None
) -> Value:
    """`move(*values)` in the values' own type, through another one where the target needs it."""
    dtype = values[0].type.dtype
    if moves(b.limits, dtype, by):
        return move(*values)
    for carrier in CARRIERS.get(dtype, ()):
        if moves(b.limits, carrier, by):
            quant = values[0].type.quant
            return convert(b, move(*[convert(b, v, carrier) for v in values]), dtype, quant)
    if dtype is not DType.INT32 or not moves(b.limits, DType.FP32, by):
        return move(*values)  # the operator itself says what is missing
    if bound is not None and bound <= EXACT_IN_FP32:
        return convert(b, move(*[convert(b, v, DType.FP32) for v in values]), dtype)
    return _in_halves(b, move, values)


def _in_halves(b: TosaBuilder, move: Move, values: tuple[Value, ...]) -> Value:
    """Move high and low parts of INT32 values as FP32, and put them together again."""
    pairs = [split(b, v) for v in values]
    high, low = (
        convert(b, move(*[convert(b, pair[i], DType.FP32) for pair in pairs]), DType.INT32)
        for i in (0, 1)
    )
    return joined(b, high, low)


def convert(b: TosaBuilder, x: Value, dtype: DType, quant: Quant | None = None) -> Value:
    """`x` in another element type that holds its values; BOOL becomes 0 and 1."""
    source = x.type.dtype
    if source is dtype:
        return x
    if x.is_const:
        return b.const(x.array.astype(dtype.numpy), dtype, quant)
    one = b.scalar(1, dtype, x.type.rank)
    if source is DType.BOOL and dtype.is_float:
        return b.SELECT(x, one, b.scalar(0, dtype, x.type.rank))  # type: ignore[no-any-return]
    if dtype is DType.BOOL and source.is_float:
        return b.GREATER(x, b.scalar(0.5, source, x.type.rank))  # type: ignore[no-any-return]
    return b.CAST(x, dtype=dtype, quant=quant)  # type: ignore[no-any-return]


@cache
def _moves(name: str, dtype: DType, offered: frozenset[str], version: tuple[int, int]) -> bool:
    return any(
        mode.types.get("in_out_t") is dtype
        and mode.types.get("index_t", DType.INT32) is DType.INT32
        and mode.since <= version
        and any(needs <= offered for needs in mode.any_of_all)
        for mode in DEFINITIONS[name].modes
    )


def moves(limits: Limits, dtype: DType, by: str = "RESHAPE") -> bool:
    """Whether the target has RESHAPE and the operator `by` for `dtype`."""
    return all(_moves(n, dtype, limits.offered, limits.version) for n in ("RESHAPE", by))


# -- the result's type ----------------------------------------------------------------------------


def matched(b: TosaBuilder, x: Value, out: TensorType) -> Value:
    """`x` with the element type and quantization parameters of `out`; its shape stays."""
    if out.quant is not None:
        return requantized(b, x, out)
    b.require(x.type.quant is None, "a quantized tensor is moved to a result that is not quantized")
    return convert(b, x, out.dtype) if x.is_const else x


def settle(b: TosaBuilder, x: Value, out: TensorType) -> Value:
    """`x`, of the shape of `out`, as a value of exactly the type `out`."""
    return x if x.type == out else matched(b, x, out)
