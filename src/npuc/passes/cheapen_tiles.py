"""Repetition on Ethos-U: a convolution with kernels of one 1 instead of one copy per repeat.

Vela copies once per repeat, at 1.1 to 2.2 cycles per element, up to 8 where the last axis repeats.
A 1x1 convolution from one channel to n writes each element n times at 0.5 / 0.25 cycles (U55, U85);
where the repeats belong in front of other axes, a transposition of the last two follows. Exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder
from npuc.errors import Unsupported
from npuc.ir import DType, Graph, Op, Value, sweep

#: accumulators of the convolutions
ACCUMULATORS = {DType.INT8: DType.INT32, DType.INT16: DType.INT48}

#: fewer repeats than this are copies: the convolution and its transposition cost as much
FEWEST = 8


def cheapen_tiles(graph: Graph, limits: Limits) -> Graph:
    """TILE of int8 or int16 -> CONV2D of ones per repeated axis, a TRANSPOSE if not last."""

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        type = op.results[0].type
        if op.kind != "tosa.TILE" or type.dtype not in ACCUMULATORS or not type.is_static:
            return None
        runs = _runs(operands[0].type.ints, operands[1].array.tolist())
        if operands[0].is_const or all(times < FEWEST for _, times in runs):
            return None
        try:
            x = operands[0]
            for axis, times in runs:
                x = repeated(b, x, axis, times)
            return (b.RESHAPE(x, type.ints, quant=type.quant),)
        except Unsupported:
            return None  # too large for the chip's convolution or transposition

    return sweep(graph, rewrite, OpBuilder(limits))


def _runs(shape: Sequence[int], multiples: Sequence[int]) -> list[tuple[int, int]]:
    """(axis, repeats) of the repeated axes; neighbours of size 1 are repeated as one."""
    runs: list[tuple[int, int]] = []
    joins = False
    for axis, (size, times) in enumerate(zip(shape, multiples, strict=True)):
        if times > 1 and joins and size == 1:
            runs[-1] = (runs[-1][0], runs[-1][1] * times)
        elif times > 1:
            runs.append((axis, times))
        joins = size == 1 and bool(runs) and (times > 1 or joins)
    return runs


def repeated(b: OpBuilder, x: Value, axis: int, times: int) -> Value:
    """`x` repeated as a block along `axis`; its other axes may come back merged."""
    shape, dtype = x.type.ints, x.type.dtype
    if times < FEWEST:
        multiples = [times if i == axis else 1 for i in range(len(shape))]
        return b.TILE(x, multiples, quant=x.type.quant)  # type: ignore[no-any-return]
    before, rest = math.prod(shape[:axis]), math.prod(shape[axis:])
    wide = ACCUMULATORS[dtype]
    zero, no_weight_zero = b.scalar(0, dtype, 1), b.scalar(0, DType.INT8, 1)
    ones = b.const(np.ones((times, 1, 1, 1), np.int8), DType.INT8)
    column = b.reshape(x, (1, 1, before * rest, 1))
    y = b.CONV2D(column, ones, b.scalar(0, wide, 1), zero, no_weight_zero, acc_type=wide)
    y = b.reshape(_unit_rescale(b, y, dtype), (before, rest, times))
    y = b.transpose(y, (0, 2, 1)) if rest > 1 else y
    return b.reshape(y, (*shape[:axis], times * shape[axis], *shape[axis + 1 :]))


def _unit_rescale(b: OpBuilder, x: Value, dtype: DType) -> Value:
    """The accumulator as `dtype`, times one."""
    scale32 = x.type.dtype is not DType.INT48
    bits = 30 if scale32 else 14
    multiplier = np.full(1, 1 << bits, np.int32 if scale32 else np.int16)
    return b.RESCALE(  # type: ignore[no-any-return]
        x, b.const(multiplier), b.scalar(bits, DType.INT8, 1), b.scalar(0, x.type.dtype, 1),
        b.scalar(0, dtype, 1), scale32=scale32, dtype=dtype,
    )  # fmt: skip
