"""A RESCALE to INT32 that Ethos-U does not take into a product becomes a product with 1.

Vela fuses it into a MUL only where both factors come from one narrow type. A softmax of [591, 197]
with an INT32 product costs 780k / 212k cycles (U55-128 / U85-256, Vela 5.2) with the RESCALE, 552k
/ 189k with the product. Exact.
"""

from __future__ import annotations

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.cast_widenings import widens


def cheapen_widenings(graph: Graph, limits: Limits) -> Graph:
    """RESCALE that widens a factor of an INT32 product -> MUL with 1, for all readers.

    Runs behind `narrow_products`, which leaves no widened factors where both could be narrow.
    """
    factors = {v for op in graph.ops if op.kind == "tosa.MUL" for v in op.operands}

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind != "tosa.RESCALE" or op.result not in factors or not widens(op):
            return None
        x, type = operands[0], op.result.type
        if not type.is_static or type.size == 1:
            return None
        one = b.const(np.ones((1,) * type.rank, x.type.dtype.numpy), x.type.dtype)
        try:
            return (b.MUL(x, one, b.scalar(0, DType.INT8, 1), quant=type.quant),)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))
