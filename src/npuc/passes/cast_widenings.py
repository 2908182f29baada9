"""RESCALE by one to a wider integer -> CAST, which says what it is."""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.merge_rescales import scale_of, zero_points

NARROW = (DType.INT8, DType.INT16)


def cast_widenings(graph: Graph, limits: Limits) -> Graph:
    """RESCALE of INT8 or INT16 by one, without zero points, to INT32 -> CAST. Exact.

    Not for Ethos-U, which fuses the RESCALE into the next operator and runs the CAST by itself.
    """

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind != "tosa.RESCALE" or not widens(op):
            return None
        try:
            return (b.CAST(operands[0], dtype=DType.INT32, quant=op.results[0].type.quant),)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def widens(op: Op) -> bool:
    """Whether a RESCALE only changes the type, from INT8 or INT16 to INT32."""
    types = op.operands[0].type.dtype, op.results[0].type.dtype
    if types[0] not in NARROW or types[1] is not DType.INT32:
        return False
    if op.attrs["per_channel"] or op.attrs["input_unsigned"] or op.attrs["output_unsigned"]:
        return False
    if not all(v.is_const for v in op.operands[1:]) or any(zero_points(op)):
        return False
    return float(scale_of(op)[0]) == 1.0
