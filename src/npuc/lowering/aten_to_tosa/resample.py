"""Resampling of axes by constant weights: MATMUL of floats, 1x1 convolutions of int8."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial

import numpy as np
import numpy.typing as npt

from npuc.ir import DType, Quant, Value
from npuc.lowering.aten_to_tosa.carry import convert
from npuc.lowering.tosa_builder import TosaBuilder

Weights = npt.NDArray[np.float64]

#: weights are multiples of 1 / n for an n up to this: they fit INT8
MOST_PARTS = 127


def resampled(b: TosaBuilder, x: Value, weights: Sequence[Weights]) -> Value:
    """x with axis 2 + i replaced by weights[i] @ axis: [out, size] each."""
    identity = [w.shape[0] == w.shape[1] and np.array_equal(w, np.eye(len(w))) for w in weights]
    todo = [
        (2 + i, w) for i, (w, same) in enumerate(zip(weights, identity, strict=True)) if not same
    ]
    todo.sort(key=lambda pair: pair[1].shape[0] / pair[1].shape[1])  # those that shrink come first
    if x.type.dtype.is_float:
        for axis, w in todo:
            x = _on_last(b, x, axis, partial(_product, b, w))
        return x
    return _of_codes(b, x, todo)


def _on_last(b: TosaBuilder, x: Value, axis: int, change: Callable[[Value], Value]) -> Value:
    """change(x with `axis` as the last one), and the axes back in their places."""
    order = [d for d in range(x.type.rank) if d != axis] + [axis]
    y = change(b.transpose(x, order))
    return b.transpose(y, np.argsort(order).tolist())


def _product(b: TosaBuilder, weights: Weights, x: Value) -> Value:
    """The last axis of floats times the weights."""
    *head, size = x.type.ints
    dtype = x.type.dtype
    rows = b.reshape(x, (1, math.prod(head), size))
    matrix = b.const(weights.T[None].astype(dtype.numpy), dtype)
    zero = b.const(np.zeros(1, dtype.numpy), dtype)
    wide = DType.FP32 if dtype is DType.BF16 else dtype
    y = convert(b, b.MATMUL(rows, matrix, zero, zero, dtype=wide), dtype)
    return b.reshape(y, (*head, len(weights)))


def _of_codes(b: TosaBuilder, x: Value, todo: Sequence[tuple[int, Weights]]) -> Value:
    """int8 codes: whole numbers as weights, kept exact in INT16 until the last axis is done."""
    b.require(
        x.type.dtype is DType.INT8,
        f"interpolation of {x.type.dtype.name} without RESIZE; the chip's products take INT8",
    )
    quant, parts = x.type.quant, 1
    for at, (axis, weights) in enumerate(todo):
        whole, n = whole_weights(b, weights)
        parts *= n
        last = at == len(todo) - 1
        exact = not last and 128 * parts < 2**15
        scale = 1.0 if exact else 1.0 / parts
        target = DType.INT16 if exact else DType.INT8
        named = None if exact else quant
        x = _on_last(b, x, axis, partial(_convolved, b, whole, scale, target, named))
        parts = parts if exact else 1
    return x


def picked_by_product(b: TosaBuilder, x: Value, axis: int, index: npt.NDArray[np.int64]) -> Value:
    """x[..., index, ...] of INT8 or INT16: a product with one 1 per row."""
    rows = np.zeros((index.size, x.type.ints[axis]), np.int8)
    rows[np.arange(index.size), index] = 1
    return _on_last(b, x, axis, partial(_convolved, b, rows, 1.0, x.type.dtype, x.type.quant))


def whole_weights(b: TosaBuilder, weights: Weights) -> tuple[npt.NDArray[np.int8], int]:
    """Integers and n with weights = integers / n exactly (to 1e-6); every row sums up to n."""
    fractions = {Fraction(float(w)).limit_denominator(4096) for w in np.unique(weights)}
    n = math.lcm(*[f.denominator for f in fractions])
    whole = np.rint(weights * n)
    exact = np.abs(whole / n - weights).max() < 1e-4 and np.all(whole.sum(axis=1) == n)
    b.require(
        exact and np.abs(whole).max() <= MOST_PARTS,
        f"interpolation weights are multiples of 1/{n}; the chip's 8-bit weights hold up to "
        f"1/{MOST_PARTS}",
        "choose a scale whose numerator is smaller",
    )
    return whole.astype(np.int8), n


def _convolved(
    b: TosaBuilder, whole: npt.NDArray[np.int8], scale: float, dtype: DType, quant: Quant | None,
    x: Value,
) -> Value:  # fmt: skip
    """The last axis times whole weights, a RESCALE behind: CONV2D 1x1."""
    *head, size = x.type.ints
    source = x.type.dtype
    wide = DType.INT32 if source is DType.INT8 else DType.INT48
    image = b.reshape(x, (1, 1, math.prod(head), size))
    zero = b.const(np.zeros(1, source.numpy), source)
    bias = b.const(np.zeros(1, wide.numpy), wide)
    y = b.CONV2D(
        image, b.const(whole.reshape(-1, 1, 1, size)), bias, zero, b.const(np.zeros(1, np.int8)),
        acc_type=wide,
    )  # fmt: skip
    return b.reshape(b.rescale(y, scale, dtype, quant=quant), (*head, len(whole)))
