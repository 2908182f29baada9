"""CLAMP of CLAMP -> one; a CLAMP that changes nothing -> none; MAXIMUM with a number -> CLAMP."""

from __future__ import annotations

import math
from typing import Any

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import Graph, Op, Value, sweep
from npuc.passes.uses import count_uses
from npuc.passes.value_range import value_range


def merge_clamps(graph: Graph, limits: Limits) -> Graph:
    """As few CLAMPs as possible. A relu of int8 whose zero point is -128 needs none."""
    uses = count_uses(graph)

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind in ("tosa.MAXIMUM", "tosa.MINIMUM"):
            return _bound(b, op, operands)
        if op.kind != "tosa.CLAMP":
            return None
        x, y = operands[0], op.results[0]
        inner = x.op
        lo, hi = op.attrs["min_val"], op.attrs["max_val"]
        one_reader = inner is not None and inner.kind == "tosa.CLAMP" and uses[op.operands[0]] == 1
        if one_reader and inner is not None and inner.attrs["nan_mode"] == op.attrs["nan_mode"]:
            lo, hi = (min(max(v, lo), hi) for v in (inner.attrs["min_val"], inner.attrs["max_val"]))
            x = inner.operands[0]
        known = value_range(x)
        # IGNORE turns NaN into a bound: such a CLAMP does more than limit
        limits_nothing = op.attrs["nan_mode"] == "PROPAGATE" or not x.type.dtype.is_float
        if limits_nothing and lo <= known[0] and known[1] <= hi:
            return (x,)
        if x is operands[0]:
            return None
        return (_clamp(b, x, lo, hi, op.attrs["nan_mode"], y),)

    return sweep(graph, rewrite, OpBuilder(limits))


def _clamp(b: OpBuilder, x: Value, lo: Any, hi: Any, nan_mode: str, y: Value) -> Value:
    return b.CLAMP(x, min_val=lo, max_val=hi, nan_mode=nan_mode, quant=y.type.quant)  # type: ignore[no-any-return]


def _bound(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
    """MAXIMUM or MINIMUM of floats with one number -> CLAMP, which fuses with what comes before."""
    x, bound = operands if operands[1].is_const else operands[::-1]
    y = op.results[0]
    if not bound.is_const or bound.type.size != 1 or not y.type.dtype.is_float:
        return None
    number = float(bound.array.reshape(-1)[0])
    if math.isnan(number) or x.is_const or x.type.shape != y.type.shape:
        return None
    lo, hi = (number, math.inf) if op.name == "MAXIMUM" else (-math.inf, number)
    try:
        return (_clamp(b, x, lo, hi, op.attrs["nan_mode"], y),)
    except Unsupported:
        return None
