"""Resampling of axes by constant weights: MATMUL of floats, 1x1 convolutions of int8."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial, reduce

import numpy as np
import numpy.typing as npt

from npuc.errors import Unsupported
from npuc.ir import DType, TensorType, Value
from npuc.lowering.aten_to_tosa.carry import convert
from npuc.lowering.tosa_builder import TosaBuilder

Weights = npt.NDArray[np.float64]

#: weights are multiples of 1 / n for an n up to this: they fit INT8
MOST_PARTS = 127
#: others are multiples of 2**-WEIGHT_BITS, in two digits; those of cubic curves stay below 1.5
WEIGHT_BITS = 13
#: bits behind the point that 8-bit codes have between two axes, with room for cubic overshoot
FRACTION_BITS = 6
#: base of digits: all of them fit INT8
BASE = 128


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
    return _of_codes(b, x, todo) if todo else x


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
    """Codes times weights: whole numbers where they fit INT8, else numbers of two digits."""
    try:
        return _by_whole_weights(b, x, todo)
    except Unsupported:
        return _by_digits(b, x, todo)


def _by_whole_weights(b: TosaBuilder, x: Value, todo: Sequence[tuple[int, Weights]]) -> Value:
    """int8 codes: whole numbers as weights, kept exact in INT16 until the last axis is done."""
    b.require(x.type.dtype is DType.INT8, f"whole weights of {x.type.dtype.name}")
    source, parts = x, 1
    for axis, weights in todo[:-1]:
        whole, n = whole_weights(b, weights)
        parts *= n
        exact = 128 * parts < 2**15
        scale, target = (1.0, DType.INT16) if exact else (1.0 / parts, DType.INT8)
        x = _on_last(
            b, x, axis, partial(_convolved, b, whole, partial(b.rescale, scale=scale, dtype=target))
        )
        parts = parts if exact else 1
    axis, weights = todo[-1]
    whole, n = whole_weights(b, weights)
    finish = partial(_finished, b, source.type, 1.0 / (parts * n))
    return _on_last(b, x, axis, partial(_convolved, b, whole, finish))


def _by_digits(b: TosaBuilder, x: Value, todo: Sequence[tuple[int, Weights]]) -> Value:
    """Codes times any weights: the products of digits of both are summed up in INT32.

    Between two axes 8-bit codes get FRACTION_BITS more and are two digits again; 16-bit ones lose
    one bit, for room.
    """
    dtype, digits, bits = x.type.dtype, [x], 0
    for axis, weights in todo[:-1]:
        more = FRACTION_BITS if dtype is DType.INT8 else -1
        y = _sum_of_products(b, digits, axis, weights)
        scale = 2.0 ** (more - bits - WEIGHT_BITS)
        digits = _digits(b, y, scale) if dtype is DType.INT8 else [b.rescale(y, scale, dtype)]
        bits = more
    y = _sum_of_products(b, digits, *todo[-1])
    return _finished(b, x.type, 2.0 ** -(bits + WEIGHT_BITS), y)


def _finished(b: TosaBuilder, source: TensorType, scale: float, y: Value) -> Value:
    """Sums `y` of codes, worth `scale` codes of `source` each, in the result's parameters."""
    out = b.out[0]
    q, r = source.quant, out.quant
    if q is None or r is None or q == r:
        return b.rescale(y, scale, source.dtype, quant=q)
    if q.zp:
        y = _int32(b, 1.0, y)
        y = b.SUB(y, b.scalar(round(q.zp / scale), DType.INT32, y.type.rank))
    return b.requantize(y, scale * q.s, out)


def _sum_of_products(b: TosaBuilder, digits: list[Value], axis: int, weights: Weights) -> Value:
    """INT32 sums along `axis` of numbers (digits from the lowest on) times weights * 2**bits."""
    whole = np.rint(weights * 2**WEIGHT_BITS).astype(np.int64)
    high = (whole + BASE // 2) // BASE
    products = []
    for i, digit in enumerate(digits):
        for j, rows in enumerate((whole - high * BASE, high)):
            if rows.any():
                worth = partial(_int32, b, float(BASE ** (i + j)))
                move = partial(_convolved, b, rows.astype(np.int8), worth)
                products.append(_on_last(b, digit, axis, move))
    return reduce(lambda x, y: b.ADD(x, y), products)


def _int32(b: TosaBuilder, scale: float, y: Value) -> Value:
    """An accumulator times a whole number, as INT32."""
    as_it_is = scale == 1 and y.type.dtype is DType.INT32
    return y if as_it_is else b.rescale(y, scale, DType.INT32)


def _digits(b: TosaBuilder, x: Value, scale: float) -> list[Value]:
    """INT32 `x` * scale as two INT8 digits, the lower one first."""
    x = b.rescale(x, scale, DType.INT32)
    high = b.rescale(x, 1 / BASE, DType.INT8)
    low = b.SUB(x, b.rescale(high, float(BASE), DType.INT32))
    return [b.rescale(low, 1.0, DType.INT8), high]


def picked_by_product(b: TosaBuilder, x: Value, axis: int, index: npt.NDArray[np.int64]) -> Value:
    """x[..., index, ...] of INT8 or INT16: a product with one 1 per row."""
    rows = np.zeros((index.size, x.type.ints[axis]), np.int8)
    rows[np.arange(index.size), index] = 1
    keep = partial(b.rescale, scale=1.0, dtype=x.type.dtype, quant=x.type.quant)
    return _on_last(b, x, axis, partial(_convolved, b, rows, keep))


def whole_weights(b: TosaBuilder, weights: Weights) -> tuple[npt.NDArray[np.int8], int]:
    """Integers and n with weights = integers / n exactly (to 1e-6); every row sums up to n."""
    fractions = {Fraction(float(w)).limit_denominator(4096) for w in np.unique(weights)}
    n = math.lcm(*[f.denominator for f in fractions])
    whole = np.rint(weights * n)
    exact = np.abs(whole / n - weights).max() < 1e-4 and np.all(whole.sum(axis=1) == n)
    b.require(
        exact and np.abs(whole).max() <= MOST_PARTS,
        f"interpolation weights are multiples of 1/{n}, INT8 holds up to 1/{MOST_PARTS}",
    )
    return whole.astype(np.int8), n


def _convolved(
    b: TosaBuilder, whole: npt.NDArray[np.int8], finish: Callable[[Value], Value], x: Value
) -> Value:
    """The last axis times whole weights: CONV2D 1x1, whose accumulator `finish` takes."""
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
    return b.reshape(finish(y), (*head, len(whole)))
