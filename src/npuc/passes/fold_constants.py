"""Ops on constants -> constants. Data movement of constants is a numpy view."""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.execute.kernels import KERNELS
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.ir.builder import SIDE_EFFECTS

#: a result may be this many times larger than the constants it comes from, or this many bytes
GROWTH, SMALL = 2, 65_536


def fold_constants(graph: Graph, limits: Limits) -> Graph:
    """Compute what depends on no input, unless the result is much larger than its operands.

    On a chip the RESCALE that widens a constant stays: Ethos-U runs it within the addition that
    reads it, but an INT32 constant makes the addition five operations.
    """
    return sweep(graph, _fold, OpBuilder(limits))


def _fold(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
    if not op.kind.startswith("tosa.") or op.regions or op.kind in SIDE_EFFECTS:
        return None
    if op.name not in KERNELS or not operands or not all(v.is_const for v in operands):
        return None
    types = [r.type for r in op.results]
    if op.name == "RESCALE" and b.limits.chip and types[0].dtype is DType.INT32:
        return None
    if not all(t.is_static or t.dtype is DType.SHAPE for t in types):
        return None
    before, after = sum(v.type.nbytes for v in operands), sum(t.nbytes for t in types)
    if after > max(GROWTH * before, SMALL):
        return None
    import numpy as np

    with np.errstate(all="ignore"):
        results = KERNELS[op.name](op, *(v.array for v in operands))
    results = results if isinstance(results, tuple) else (results,)
    return tuple([b.const(r, t.dtype, t.quant) for r, t in zip(results, types, strict=True)])
