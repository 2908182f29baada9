"""A few planes of a graph's input to channels last, for Ethos-U85: a product by one per plane.

A TRANSPOSE of [3, 50176] to [50176, 3] writes pixels of 3 bytes, for which Vela 5.2 counts 8 (402k
cycles). Three multiplications by one, each of which writes its plane into a CONCAT's result, count
the bytes they write: 38k. Ethos-U55 transposes such images at 0.375 cycles per element; there the
products would be slower.
"""

from __future__ import annotations

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.cheapen_rescales import unit_rescale

#: planes at most, and elements of a plane at least
PLANES, ELEMENTS = 16, 128
NARROW = (DType.INT8, DType.INT16)


def interleave_planes(graph: Graph, limits: Limits) -> Graph:
    """TRANSPOSE [1, C, N] -> [1, N, C] of an input -> CONCAT of the C planes, each times one."""

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind != "tosa.TRANSPOSE" or tuple(op.attrs["perms"]) != (0, 2, 1):
            return None
        x = operands[0]
        if not x.type.is_static or x.type.dtype not in NARROW or not _is_input(x):
            return None
        outer, planes, elements = x.type.ints
        if outer != 1 or not 1 < planes <= PLANES or elements < ELEMENTS:
            return None
        try:
            return (_interleaved(b, x, op.results[0]),)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def _is_input(x: Value) -> bool:
    """Whether nothing computes `x`: behind an operator a TRANSPOSE is free."""
    while x.op is not None and x.op.kind == "tosa.RESHAPE":
        x = x.op.operands[0]
    return x.op is None


def _interleaved(b: OpBuilder, x: Value, result: Value) -> Value:
    _, planes, elements = x.type.ints
    image = b.reshape(x, (1, planes, elements, 1))
    one, shift = b.scalar(1, x.type.dtype, 4), b.scalar(0, DType.INT8, 1)
    rows = [b.SLICE(image, (0, k, 0, 0), (1, 1, elements, 1)) for k in range(planes)]
    copies = [unit_rescale(b, b.MUL(row, one, shift), dtype=x.type.dtype) for row in rows]
    return b.reshape(b.CONCAT(*copies, axis=3, quant=result.type.quant), result.type.ints)
