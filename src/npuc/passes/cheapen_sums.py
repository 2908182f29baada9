"""Sums of two int8 maps as a convolution, for Ethos-U55 and U65: ADD is slow there.

Both maps side by side on the channels are read as a map of twice the width, and a depthwise
convolution with a kernel of 1x2 and that stride adds them; with few channels a 1x1 convolution
does. It takes 0.53 cycles per element, ADD 1.5 (2 where 24 channels fill up to 32), and the CONCAT
is free behind operators without another reader. A map that something else reads as well is copied
by a depthwise convolution (0.53 again). Vela 5.2, U55-128; chips with more than 128 MACs gain
nothing from the copy.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from math import prod

import numpy as np

from npuc.dialects.tosa import Limits, OpBuilder, multiplier_and_shift
from npuc.errors import Unsupported
from npuc.ir import DType, Graph, Op, Value, sweep
from npuc.passes.cheapen_concats import convolved_by_one
from npuc.passes.merge_rescales import scale_of, zero_points
from npuc.passes.uses import count_uses

#: positions from which on the weights pay, without and with the copy of one map
POSITIONS, POSITIONS_COPIED = 32, 48
#: MACs per cycle of the chips that gain from a sum with a copy
COPYING = ("-32", "-64", "-128")
#: up to so many channels a 1x1 convolution of all of them is faster than a depthwise one
DENSE = 32
#: part of a step by which either map may be off at its largest code
PRECISE = 1 / 4
LARGEST = 127


@dataclass(frozen=True)
class Sum:
    """(x - zx) * fx + (y - zy) * fy + zero, rounded: `scales` fx and fy, `zeros` zx and zy."""

    maps: tuple[Value, Value]
    scales: tuple[float, float]
    zeros: tuple[int, int]


def cheapen_sums(graph: Graph, limits: Limits) -> Graph:
    """RESCALEs, ADD or SUB, RESCALE -> CONCAT, a convolution, RESCALE, of [1, H, W, C] int8.

    Two 8-bit weights express the quotient of the two scales, so that a result can differ by one
    step where the sum lies near the middle between two. Exact where the scales are equal.
    """
    uses = count_uses(graph)
    copies = any(limits.name.endswith(macs) for macs in COPYING)

    def rewrite(b: OpBuilder, op: Op, operands: tuple[Value, ...]) -> tuple[Value, ...] | None:
        found = _find(op, uses)
        if found is None:
            return None
        shared = [uses[v] > 1 or not _joins(v) for v in found.maps]
        positions = prod(found.maps[0].type.ints[:-1])
        if all(shared) or positions < (POSITIONS_COPIED if any(shared) else POSITIONS):
            return None
        if any(shared) and not copies:
            return None
        add = operands[0].op
        assert add is not None
        maps = [v.op.operands[0] for v in add.operands if v.op is not None]
        try:
            return _convolve(b, op, found, maps, shared)
        except Unsupported:
            return None

    return sweep(graph, rewrite, OpBuilder(limits))


def _find(op: Op, uses: Counter[Value]) -> Sum | None:
    """The sum that ends in the RESCALE `op`, as it was before the pass."""
    if not _is_plain(op, DType.INT32, DType.INT8) or uses[op.operands[0]] != 1:
        return None
    add = op.operands[0].op
    if add is None or add.kind not in ("tosa.ADD", "tosa.SUB") or any(zero_points(op)[:1]):
        return None
    sides = [v.op for v in add.operands]
    if not all(side is not None and _is_plain(side, DType.INT8, DType.INT32) for side in sides):
        return None
    x, y = (side.operands[0] for side in sides)  # type: ignore[union-attr]
    if x is y or x.type.shape != y.type.shape or x.type.rank != 4 or not x.type.is_static:
        return None
    if x.type.ints[0] != 1 or any(zero_points(side)[1] for side in sides if side is not None):
        return None
    outer = float(scale_of(op)[0])
    fx, fy = (float(scale_of(side)[0]) * outer for side in sides if side is not None)
    zeros = tuple(zero_points(side)[0] for side in sides if side is not None)
    return Sum((x, y), (fx, -fy if add.kind == "tosa.SUB" else fy), zeros)  # type: ignore[arg-type]


def _is_plain(op: Op, source: DType, result: DType) -> bool:
    """A RESCALE by one constant number between the two types, both signed."""
    if op.kind != "tosa.RESCALE" or op.attrs["per_channel"]:
        return False
    types = (op.operands[0].type.dtype, op.results[0].type.dtype)
    signed = not op.attrs["input_unsigned"] and not op.attrs["output_unsigned"]
    return types == (source, result) and signed and all(v.is_const for v in op.operands[1:])


def _joins(value: Value) -> bool:
    """Whether what computes a map can write it into a CONCAT's result by itself."""
    op = value.op
    while op is not None and op.kind in ("tosa.CLAMP", "tosa.TABLE"):
        op = op.operands[0].op
    return op is not None and (
        op.kind in ("tosa.AVG_POOL2D", "tosa.MAX_POOL2D")
        or (op.kind == "tosa.RESCALE" and op.operands[0].type.dtype is DType.INT32)
    )


def weights_for(fx: float, fy: float) -> tuple[int, int, float] | None:
    """(p, q, m) with p * m ~ fx and q * m ~ fy; None where no whole p and q are precise enough."""
    p, q = np.meshgrid(np.arange(LARGEST + 1), np.arange(LARGEST + 1), indexing="ij")
    x, y = abs(fx), abs(fy)
    with np.errstate(invalid="ignore"):
        m = (p * x + q * y) / (p * p + q * q)
    error = np.maximum(np.abs(p * m - x), np.abs(q * m - y)) * 128
    error[0, 0] = np.inf
    best = int(np.argmin(np.round(error, 12)))  # the first, with the smallest weights
    if error.flat[best] > PRECISE:
        return None
    i, j = (int(v) for v in np.unravel_index(best, error.shape))
    return int(np.sign(fx)) * i, int(np.sign(fy)) * j, float(m[i, j])


def _convolve(
    b: OpBuilder, op: Op, found: Sum, maps: list[Value], shared: list[bool]
) -> tuple[Value, ...] | None:
    weights = weights_for(*found.scales)
    if weights is None:
        return None
    p, q, scale = weights
    (zx, zy), channels = found.zeros, maps[0].type.ints[3]
    maps = [
        convolved_by_one(b, v) if is_shared else v
        for v, is_shared in zip(maps, shared, strict=True)
    ]
    both = b.CONCAT(*maps, axis=3)
    add = _dense if channels <= DENSE else _depthwise
    wide = add(b, both, (p, q), zx, b.const(np.full(channels, -q * (zy - zx), np.int32)))
    multiplier, shift = multiplier_and_shift(np.array([scale]))
    result = op.results[0].type
    return (
        b.RESCALE(
            wide, b.const(multiplier.astype(np.int32)), b.const(shift.astype(np.int8)),
            b.scalar(0, DType.INT32, 1), b.const(op.operands[4].array), dtype=DType.INT8,
            quant=result.quant,
            **{**op.attrs, "scale32": True},
        ),
    )  # fmt: skip


def _dense(b: OpBuilder, both: Value, weights: tuple[int, int], zero: int, bias: Value) -> Value:
    """The weighted sum of the two halves of the channels by a 1x1 convolution."""
    kernel = np.concatenate([np.eye(bias.type.size, dtype=np.int8) * w for w in weights], axis=1)
    return b.CONV2D(  # type: ignore[no-any-return]
        both, b.const(kernel[:, None, None, :]), bias, b.scalar(zero, DType.INT8, 1),
        b.scalar(0, DType.INT8, 1), acc_type=DType.INT32,
    )  # fmt: skip


def _depthwise(
    b: OpBuilder, both: Value, weights: tuple[int, int], zero: int, bias: Value
) -> Value:
    """The same by a depthwise convolution of the two as neighbours in a map of twice the width."""
    _, height, width, channels = both.type.ints
    pairs = b.reshape(both, (1, height, 2 * width, channels // 2))
    kernel = np.array(weights, np.int8).repeat(channels // 2).reshape(1, 2, channels // 2, 1)
    return b.DEPTHWISE_CONV2D(  # type: ignore[no-any-return]
        pairs, b.const(kernel), bias, b.scalar(zero, DType.INT8, 1), b.scalar(0, DType.INT8, 1),
        stride=(1, 2), acc_type=DType.INT32,
    )  # fmt: skip
