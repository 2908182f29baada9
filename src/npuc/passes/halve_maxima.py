"""The largest of each row in halves, for Ethos-U: MAXIMUM of two halves, then of what is left.

REDUCE_MAX over the last axis is slow, and a TRANSPOSE in front of REDUCE_MAX over the axis before
(see `cheapen_reductions`) moves the whole tensor. Behind a MAXIMUM of the two halves it moves half
of it, and on Ethos-U85 for nothing, because it fuses there. Softmax of [591, 197], the maximum
alone: 92k to 39k cycles (U85-256), 105k to 66k (U55-128), by Vela 5.2. Exact.
"""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.cheapen_rescales import unit_rescale

NARROW = (DType.INT8, DType.INT16)
PAIRWISE = {"REDUCE_MAX": "MAXIMUM", "REDUCE_MIN": "MINIMUM"}
#: rows are halved down to this length; more is no gain where the TRANSPOSE is free
LENGTH, LENGTH_U85 = 32, 100
#: a single row needs no TRANSPOSE: REDUCE_MAX over the last axis, 5 cycles per element
LENGTH_ALONE = 16
#: length of a row and number of elements from which on it pays, and length of a row that is alone
SHORTEST, FEWEST, SHORTEST_ALONE = 32, 1024, 64


def halve_maxima(graph: Graph, limits: Limits) -> Graph:
    """REDUCE_MAX or REDUCE_MIN of long rows -> MAXIMUMs or MINIMUMs of halves, then the same."""
    usual = LENGTH_U85 if limits.name.startswith("ethos-u85") else LENGTH

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if not op.kind.startswith("tosa.") or op.name not in PAIRWISE:
            return None
        type = op.operands[0].type
        if type.dtype not in NARROW or not type.is_static or op.attrs["axis"] != type.rank - 1:
            return None
        size = type.ints[-1]
        is_alone = type.size == size
        if size < (SHORTEST_ALONE if is_alone else SHORTEST):
            return None
        if not is_alone and type.size < FEWEST:
            return None
        length = LENGTH_ALONE if is_alone else usual
        try:
            x = _halved(b, operands[0], PAIRWISE[op.name])
            while x.type.ints[-1] > length:
                x = _halved(b, x, PAIRWISE[op.name])
            return (b.tosa(op.name, x, quant=op.results[0].type.quant, **op.attrs),)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def _halved(b: OpBuilder, x: Value, pairwise: str) -> Value:
    """The larger (or smaller) of the two halves of the last axis, which share an odd middle."""
    *outer, size = x.type.ints
    half = (size + 1) // 2
    first, second = (
        unit_rescale(b, b.SLICE(x, (*[0] * len(outer), start), (*outer, half)))
        for start in (0, size - half)
    )
    larger = b.tosa(pairwise, first, second)
    return unit_rescale(b, larger, dtype=x.type.dtype, quant=x.type.quant)
