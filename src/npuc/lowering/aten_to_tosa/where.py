"""where and masked_fill: SELECT between values of one type."""

from __future__ import annotations

from npuc.ir import Value
from npuc.lowering.aten_to_tosa.carry import carried
from npuc.lowering.aten_to_tosa.operands import broadcast_rank, requantized, terms
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.where", "aten.where.self")
def where(b: TosaBuilder, condition: Value, x: Value, y: Value) -> Value:
    """where, masked_fill -> SELECT. Quantized: both sides get the result's parameters first; a
    constant such as -inf becomes the nearest code."""
    out = b.out[0]
    if out.quant is None:
        left, right = terms(b, x, y, dtype=out.dtype)
        x, y = left.value, right.value
    else:
        x, y = requantized(b, x, out), requantized(b, y, out)
    rank = broadcast_rank(condition, x, y)
    condition = b.match_rank(condition, rank)

    def choose(x: Value, y: Value) -> Value:
        return b.SELECT(  # type: ignore[no-any-return]
            condition, b.match_rank(x, rank), b.match_rank(y, rank), quant=out.quant
        )

    # floats carry integers where the target does not select these
    by_floats = out.quant is None and out.dtype.is_integer
    return carried(b, choose, x, y, by="SELECT") if by_floats else choose(x, y)
