"""A chain of int8 functions with a TABLE in it -> one TABLE."""

from __future__ import annotations

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.execute.kernels import KERNELS
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.unary import is_unary
from npuc.passes.uses import count_uses

#: functions before a TABLE that join it at most: the search stays linear
LONGEST = 8


def merge_tables(graph: Graph, limits: Limits) -> Graph:
    """TABLE, CLAMP, RESCALE, NEGATE ... of int8 to int8, one behind the other, as one TABLE.

    Exact: the new table is what the chain gives for all 256 inputs. An NPU runs one function
    behind an operator for free and each further one as a pass over the tensor.
    """
    uses = count_uses(graph)
    readers: dict[Value, int] = {}

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if not _is_function(op):
            return None
        readers[operands[0]] = uses[op.operands[0]]
        chain, source = _walk_up(operands[0], readers)
        if not chain or not any(step.name == "TABLE" for step in (op, *chain)):
            return None
        codes = np.arange(-128, 128).astype(np.int8)
        for step in reversed(chain):
            codes = KERNELS[step.name](step, codes, *(v.array for v in step.operands[1:]))
        codes = KERNELS[op.name](op, codes, *(v.array for v in operands[1:]))
        table = b.const(codes, DType.INT8)
        return (b.TABLE(source, table, quant=op.results[0].type.quant),)

    return sweep(graph, rewrite, OpBuilder(limits))


def _walk_up(value: Value, readers: dict[Value, int]) -> tuple[list[Op], Value]:
    """The functions with one reader each that end in `value`, last first, and their source."""
    chain: list[Op] = []
    while value.op is not None and _is_function(value.op) and readers.get(value, 1) == 1:
        if len(chain) == LONGEST:
            break
        chain.append(value.op)
        value = value.op.operands[0]
    return chain, value


def _is_function(op: Op) -> bool:
    """Whether `op` is a function of one int8 element to an int8 with constant parameters."""
    types = (op.operands[0].type.dtype, op.results[0].type.dtype) if op.operands else ()
    if types != (DType.INT8, DType.INT8) or not is_unary(op):
        return False
    return all(v.is_const for v in op.operands[1:])
