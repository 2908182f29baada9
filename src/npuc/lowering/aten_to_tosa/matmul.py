"""Matrix products: linear layers as 1x1 CONV2D, products of computed matrices as MATMUL."""

from __future__ import annotations

from math import prod

from npuc.ir import DType, Value
from npuc.lowering.aten_to_tosa.take import tiled
from npuc.lowering.aten_to_tosa.weights import ACCUMULATOR, read_weights, to_output
from npuc.lowering.registry import lowers
from npuc.lowering.tosa_builder import TosaBuilder


@lowers("aten.linear")
def linear(b: TosaBuilder, x: Value, weight: Value, bias: Value | None) -> Value:
    """linear -> 1x1 CONV2D on [1, 1, N, C]: rows along the width fill an NPU's array best."""
    rows, channels = prod(x.type.ints[:-1]), x.type.ints[-1]
    image = b.reshape(x, (1, 1, rows, channels))
    y = linear_on_image(b, image, weight, bias)
    return b.reshape(y, b.out[0].ints)


def linear_on_image(b: TosaBuilder, image: Value, weight: Value, bias: Value | None) -> Value:
    """The product of the last axis of [N, H, W, C] with `weight` [O, C], as the result's type."""
    weights = read_weights(b, image, weight, bias, weight.type.quant)
    o, c = weight.type.ints
    kernel = b.reshape(weights.kernel, (o, 1, 1, c))
    acc = b.CONV2D(
        image, kernel, weights.bias, b.zero_point(image), b.zero_point(kernel, weights.zero_point),
        pad=(0, 0, 0, 0), acc_type=ACCUMULATOR[image.type.dtype],
    )  # fmt: skip
    return to_output(b, acc, weights.scale, b.out[0])


@lowers("aten.matmul")
def matmul(b: TosaBuilder, a: Value, c: Value) -> Value:
    """matmul -> MATMUL of [B, M, K] and [B, K, N]; a constant matrix is a linear layer's weight."""
    if is_weight(c) and not is_weight(a):
        return linear(b, a, weight_of(b, c, (1, 0)), None)
    if is_weight(a):
        return _weight_on_the_left(b, a, c)
    out, (m, k), n = b.out[0], a.type.ints[-2:], c.type.ints[-1]
    left, right = a.type.ints[:-2], c.type.ints[:-2]
    if prod(right) == 1:  # one right matrix for all: its left rows are one matrix
        a, c = b.reshape(a, (1, prod(left) * m, k)), b.reshape(c, (1, k, n))
    else:
        batch = out.ints[:-2]
        a = b.reshape(repeat_batch(b, a, batch), (prod(batch), m, k))
        c = b.reshape(repeat_batch(b, c, batch), (prod(batch), k, n))
    return b.reshape(batched_product(b, a, c), out.ints)


def is_weight(value: Value) -> bool:
    """Whether a matrix can be the weight of a convolution: constant, alone, 8 bits or float."""
    shape, quant = value.type.shape, value.type.quant
    narrow = quant is None or (value.type.dtype is DType.INT8 and not quant.per_channel)
    return value.is_const and all(d == 1 for d in shape[:-2]) and narrow


def weight_of(b: TosaBuilder, matrix: Value, perms: tuple[int, int]) -> Value:
    """A constant [1..., R, S] as [R, S] or, with perms (1, 0), [S, R]."""
    return b.transpose(b.reshape(matrix, matrix.type.ints[-2:]), perms)


def _weight_on_the_left(b: TosaBuilder, a: Value, c: Value) -> Value:
    """a @ c with constant a [M, K]: a linear layer over the axis K of c [B, K, N]."""
    k, n = c.type.ints[-2:]
    batch = prod(c.type.ints[:-2])
    columns = b.transpose(b.reshape(c, (batch, k, n)), (0, 2, 1))
    image = b.reshape(columns, (1, 1, batch * n, k))
    y = linear_on_image(b, image, weight_of(b, a, (0, 1)), None)
    y = b.reshape(y, (batch, n, y.type.ints[-1]))
    return b.reshape(b.transpose(y, (0, 2, 1)), b.out[0].ints)


def repeat_batch(b: TosaBuilder, x: Value, batch: tuple[int, ...]) -> Value:
    """[..., M, N] with its batch dimensions of size 1 repeated to `batch`."""
    have = x.type.ints[:-2]
    if have == batch:
        return x
    multiples = tuple(w // h for w, h in zip(batch, have, strict=True))
    return tiled(b, x, (*multiples, 1, 1))


def batched_product(b: TosaBuilder, a: Value, c: Value) -> Value:
    """[B, M, K] x [B, K, N] in the type of the result: MATMUL, then RESCALE or CAST."""
    out, dtype = b.out[0], a.type.dtype
    b.require(dtype in ACCUMULATOR, f"TOSA has no MATMUL of {dtype.name}")
    b.require(
        c.type.dtype is dtype,
        f"matmul of {dtype.name} by {c.type.dtype.name}; they have to be equal",
    )
    wide = DType.FP32 if dtype is DType.FP16 else ACCUMULATOR[dtype]
    if dtype.is_float:
        product = b.MATMUL(a, c, b.zero_point(a), b.zero_point(c), dtype=wide)
        return to_output(b, product, None, out)
    if a.type.quant is None or c.type.quant is None:
        b.refuse(f"matmul of {dtype.name} values that are not quantized")
    assert a.type.quant is not None and c.type.quant is not None
    for quant in (a.type.quant, c.type.quant):
        b.require(not quant.per_channel, "matmul of an operand with a scale per channel")
        b.require(
            dtype is DType.INT8 or quant.zp == 0,
            f"TOSA has no zero point ({quant.zp}) for {dtype.name} operands",
            "quantize 16-bit activations symmetrically",
        )
    product = b.MATMUL(a, c, b.zero_point(a), b.zero_point(c), dtype=wide)
    return to_output(b, product, a.type.quant.s * c.type.quant.s, out)
