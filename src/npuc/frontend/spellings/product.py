"""Spellings of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from npuc.frontend.spellings.registry import spells
from npuc.frontend.spellings.shape import as_tuple
from npuc.frontend.spellings.speller import Speller, is_constant
from npuc.ir import Dim, TensorType, Value

_PRODUCT = "linear matmul"
_SUM = f"{_PRODUCT} add.Tensor"


@spells("linear", into=_SUM)
def linear(c: Speller, x: Value, weight: Value, bias: Value | None) -> Value:
    dtype = c.out[0].dtype
    if is_constant(weight) and weight.type.rank == 2 and (bias is None or _is_bias(bias, weight)):
        return _linear(c, x, weight, bias)
    made = matmul(c, x, c.permute(weight, range(weight.type.rank)[::-1]))
    if bias is None:
        return made
    return c.make("aten.add.Tensor", c.out[0], made, c.to(bias, dtype), alpha=1)


def _is_bias(bias: Value, weight: Value) -> bool:
    return is_constant(bias) and bias.type.size in (1, weight.type.shape[0])


def _linear(c: Speller, x: Value, weight: Value, bias: Value | None) -> Value:
    """`weight` [out, in] is a constant; a vector `x` becomes one row."""
    out = c.out[0]
    x, weight = c.to(x, out.dtype), c.to(weight, out.dtype)
    rows = c.view(x, (1, *x.type.shape)) if x.type.rank == 1 else x
    features = weight.type.ints[0]
    if bias is not None:
        bias = c.to(c.view(bias, (bias.type.size,)), out.dtype)
        bias = c.expand(bias, (features,))
    type = TensorType(out.dtype, (*rows.type.shape[:-1], features))
    return c.view(c.make("aten.linear", type, rows, weight, bias), out.shape)


@spells("matmul mm bmm dot vdot mv inner", into=_PRODUCT)
def matmul(c: Speller, a: Value, b: Value) -> Value:
    """Products of any ranks; a constant matrix on the right is a linear layer's weight."""
    if is_constant(b) and b.type.rank <= 2 and not is_constant(a):
        columns = b if b.type.rank == 2 else c.view(b, (*b.type.shape, 1))
        return _linear(c, a, c.permute(columns, (1, 0)), None)
    return _matmul(c, a, b)


def _matmul(c: Speller, a: Value, b: Value) -> Value:
    out = c.out[0]
    a, b = c.to(a, out.dtype), c.to(b, out.dtype)
    left = (1, *a.type.shape) if a.type.rank == 1 else a.type.shape
    right = (*b.type.shape, 1) if b.type.rank == 1 else b.type.shape
    rank = max(len(left), len(right))
    left, right = (1,) * (rank - len(left)) + left, (1,) * (rank - len(right)) + right
    batch = tuple(_wider(m, n) for m, n in zip(left[:-2], right[:-2], strict=True))
    type = TensorType(out.dtype, (*batch, left[-2], right[-1]))
    return c.view(c.make("aten.matmul", type, c.view(a, left), c.view(b, right)), out.shape)


def _wider(m: Dim, n: Dim) -> Dim:
    return n if m == 1 else m


@spells("addmm", into=_SUM)
def addmm(c: Speller, bias: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1) -> Value:
    is_layer = is_constant(b) and not is_constant(a) and beta == 1 and alpha == 1
    if is_layer and is_constant(bias) and bias.type.size in (1, b.type.shape[1]):
        return _linear(c, a, c.permute(b, (1, 0)), bias)
    return _plus(c, bias, matmul(c, a, b), beta, alpha)


@spells("baddbmm addbmm addmv", into=_SUM)
def baddbmm(
    c: Speller, bias: Value, a: Value, b: Value, *, beta: Any = 1, alpha: Any = 1
) -> Value | None:
    if c.op.kind == "aten.addbmm":
        return None
    return _plus(c, bias, matmul(c, a, b), beta, alpha)


def _plus(c: Speller, bias: Value, product: Value, beta: Any, alpha: Any) -> Value:
    """beta * bias + alpha * product."""
    out = c.out[0]
    bias = c.to(bias, out.dtype)
    if alpha != 1:
        factor = c.number(alpha, out.dtype)
        product = c.make("aten.mul.Tensor", product.type, product, factor)
    return c.make("aten.add.Tensor", out, product, bias, alpha=beta) if beta != 0 else product


# convolutions --------------------------------------------------------------------------------


@spells("conv1d conv2d conv3d conv1d.padding conv2d.padding conv3d.padding", into="convolution")
def conv(
    c: Speller, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any,
    dilation: Any, groups: int,
) -> Value:  # fmt: skip
    count = weight.type.rank - 2
    zeros = (0,) * count
    return _convolution(c, x, weight, bias, stride, padding, dilation, False, zeros, groups)


@spells("conv_transpose1d conv_transpose2d.input conv_transpose3d.input", into="convolution")
def conv_transpose(
    c: Speller, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any,
    output_padding: Any, groups: int, dilation: Any,
) -> Value:  # fmt: skip
    return _convolution(c, x, weight, bias, stride, padding, dilation, True, output_padding, groups)


@spells("convolution _convolution _convolution.deprecated", into="convolution")
def convolution(c: Speller, x: Value, weight: Value, bias: Value | None, *rest: Any) -> Value:
    return _convolution(c, x, weight, bias, *rest[:6])


def _convolution(
    c: Speller, x: Value, weight: Value, bias: Value | None, stride: Any, padding: Any,
    dilation: Any, transposed: bool, output_padding: Any, groups: int,
) -> Value:  # fmt: skip
    out = c.out[0]
    count = weight.type.rank - 2
    x, weight = c.to(x, out.dtype), c.to(weight, out.dtype)
    bias = None if bias is None else c.to(bias, out.dtype)
    dilation = as_tuple(dilation, count)
    pairs = _pairs(padding, weight.type.ints[2:], dilation)
    batched = x.type.rank == weight.type.rank
    shape = out.shape if batched else (1, *out.shape)
    made = c.make(
        "aten.convolution", TensorType(out.dtype, shape),
        x if batched else c.view(x, (1, *x.type.shape)), weight, bias,
        as_tuple(stride, count), pairs, dilation, transposed,
        as_tuple(output_padding, count), groups,
    )  # fmt: skip
    return c.view(made, out.shape)


def _pairs(padding: Any, kernel: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """Padding as (before, after) per spatial dim; of 'same' the odd element goes after."""
    if padding == "valid":
        return (0, 0) * len(kernel)
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return tuple(p for t in totals for p in (t // 2, t - t // 2))
    return tuple(p for n in as_tuple(padding, len(kernel)) for p in (n, n))
