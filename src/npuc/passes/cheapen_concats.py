"""What a CONCAT has to copy, copied by the fastest operator, for Ethos-U.

A CONCAT is free where each operand's maker writes into the result, which takes an operand that
nothing else reads. Anything else Vela copies: 1.0 / 0.5 cycles per element (U55 / U85). A depthwise
convolution with weights of one, or a product by one, does the same at 0.5 / 0.25 (Vela 5.2).
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.cheapen_rescales import unit_rescale
from npuc.passes.uses import count_uses

#: elements of a map from which on it pays, and positions that pay the weights of a convolution
ELEMENTS, POSITIONS = 1024, 64
#: with so few MACs the convolution is no faster than the copy
SLOW = ("ethos-u55-32",)
COPIED = (DType.INT8, DType.INT16)


def cheapen_concats(graph: Graph, limits: Limits) -> Graph:
    """An operand of a CONCAT that something else reads, or that is an input -> times one. Exact."""
    if limits.name in SLOW:
        return graph
    uses, joined = count_uses(graph), _concats_of(graph)
    copy = _product if limits.name.startswith("ethos-u85") else _convolution

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        if op.kind != "tosa.CONCAT":
            return None
        is_copied = [_is_copied(v, uses) and joined[v] == 1 for v in op.operands]
        if not any(is_copied):
            return None
        try:
            parts = [copy(b, v) if c else v for v, c in zip(operands, is_copied, strict=True)]
            return (b.CONCAT(*parts, axis=op.attrs["axis"], quant=op.results[0].type.quant),)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def _concats_of(graph: Graph) -> Counter[Value]:
    """How many CONCATs read a value: equal copies for two would be one value, copied twice."""
    return Counter(v for op in graph.walk() if op.kind == "tosa.CONCAT" for v in op.operands)


def _is_copied(x: Value, uses: Counter[Value]) -> bool:
    """Whether Vela copies an operand of a CONCAT."""
    type = x.type
    if x.is_const or type.dtype not in COPIED or not type.is_static or type.size < ELEMENTS:
        return False
    return uses[x] > 1 or x.op is None


def _product(b: OpBuilder, x: Value) -> Value:
    one = b.scalar(1, x.type.dtype, x.type.rank)
    product = b.MUL(x, one, b.scalar(0, DType.INT8, 1))
    return unit_rescale(b, product, dtype=x.type.dtype, quant=x.type.quant)


def _convolution(b: OpBuilder, x: Value) -> Value:
    """`x` by a depthwise convolution with weights of one, where it is an image of 8 bits."""
    shape = x.type.ints
    if x.type.dtype is not DType.INT8 or len(shape) != 4 or shape[0] != 1:
        return x
    if math.prod(shape[:3]) < POSITIONS:
        return x
    return convolved_by_one(b, x)


def convolved_by_one(b: OpBuilder, x: Value) -> Value:
    """An int8 image [N, H, W, C] through a depthwise convolution that changes nothing."""
    channels = x.type.ints[3]
    ones = b.const(np.ones((1, 1, channels, 1), np.int8))
    bias, zero = b.const(np.zeros(channels, np.int32)), b.scalar(0, DType.INT8, 1)
    wide = b.DEPTHWISE_CONV2D(x, ones, bias, zero, zero, acc_type=DType.INT32)
    return unit_rescale(b, wide, dtype=DType.INT8, quant=x.type.quant)
