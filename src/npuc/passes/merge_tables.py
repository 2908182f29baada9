"""A chain of int8 functions with a TABLE in it -> one TABLE."""

from __future__ import annotations

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.execute.kernels import KERNELS
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.unary import is_unary
from npuc.passes.uses import count_uses


def merge_tables(graph: Graph, limits: Limits) -> Graph:
    """TABLE, CLAMP, RESCALE, NEGATE ... of int8 to int8, one behind the other, as one TABLE.

    Exact: the new table is what the chain gives for all 256 inputs. An NPU runs one function
    behind an operator for free and each further one as a pass over the tensor.
    """
    uses = count_uses(graph)

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if not _is_function(op) or uses[op.operands[0]] != 1:
            return None
        inner = operands[0].op
        if inner is None or not _is_function(inner) or "TABLE" not in (op.name, inner.name):
            return None
        codes = np.arange(-128, 128).astype(np.int8)
        for step, constants in ((inner, inner.operands[1:]), (op, operands[1:])):
            codes = KERNELS[step.name](step, codes, *(v.array for v in constants))
        table = b.const(codes, DType.INT8)
        return (b.TABLE(inner.operands[0], table, quant=op.results[0].type.quant),)

    return sweep(graph, rewrite, OpBuilder(limits))


def _is_function(op: Op) -> bool:
    """Whether `op` is a function of one int8 element to an int8 with constant parameters."""
    types = (op.operands[0].type.dtype, op.results[0].type.dtype) if op.operands else ()
    if types != (DType.INT8, DType.INT8) or not is_unary(op):
        return False
    return all(v.is_const for v in op.operands[1:])
