"""Ops step by step, for targets of 8 bits only: each step gets a range of its own when the model is
quantized, where the op as a whole would need wider values in between."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch.fx import Node

from npuc.frontend.splice import Splice, kind_of

aten = torch.ops.aten

#: directions from which a length is seen: it is right to 0.25 %
DIRECTIONS = 16


def layer_norm(
    s: Splice, x: Node, shape: Sequence[int], weight: Node | None = None, bias: Node | None = None,
    eps: float = 1e-5, *_: Any,
) -> Node:  # fmt: skip
    """(x - mean) / sqrt(variance + eps) * weight + bias over the last axes."""
    return _affine(s, _normal(s, x, _last(shape), eps)[0], weight, bias)


def native_layer_norm(
    s: Splice, x: Node, shape: Sequence[int], weight: Node | None, bias: Node | None, eps: float
) -> tuple[Node, Node, Node]:
    """The same; also the mean and 1 / sqrt(variance + eps)."""
    y, mean, inverse = _normal(s, x, _last(shape), eps)
    return _affine(s, y, weight, bias), mean, inverse


def rms_norm(
    s: Splice, x: Node, shape: Sequence[int], weight: Node | None = None, eps: float | None = None
) -> Node:
    """x / sqrt(mean of squares + eps) * weight over the last axes."""
    eps = torch.finfo(s.value(x).dtype).eps if eps is None else eps
    return _affine(s, s(aten.mul.Tensor, x, _inverse(s, x, _last(shape), eps)), weight, None)


def group_norm(
    s: Splice, x: Node, groups: int, weight: Node | None = None, bias: Node | None = None,
    eps: float = 1e-5, *_: Any,
) -> Node:  # fmt: skip
    """layer_norm of groups of channels; weight and bias per channel."""
    shape = list(s.value(x).shape)
    grouped = s(aten.reshape.default, x, [shape[0], groups, -1])
    y = s(aten.reshape.default, _normal(s, grouped, [-1], eps)[0], shape)
    channels = [shape[1], *[1] * (len(shape) - 2)]
    weight, bias = (
        None if v is None else s(aten.reshape.default, v, channels) for v in (weight, bias)
    )
    return _affine(s, y, weight, bias)


def native_group_norm(
    s: Splice, x: Node, weight: Node | None, bias: Node | None, n: int, channels: int, size: int,
    groups: int, eps: float,
) -> tuple[Node, None, None]:  # fmt: skip
    """group_norm; nobody reads its statistics at inference."""
    return group_norm(s, x, groups, weight, bias, eps), None, None


def instance_norm(
    s: Splice, x: Node, weight: Node | None, bias: Node | None, mean: Any, var: Any,
    use_input_stats: bool, momentum: float, eps: float, *_: Any,
) -> Node | None:  # fmt: skip
    """group_norm with a group per channel; None for the form that keeps statistics."""
    if not use_input_stats:
        return None
    return group_norm(s, x, s.value(x).shape[1], weight, bias, eps)


def _last(shape: Sequence[int]) -> list[int]:
    return list(range(-len(shape), 0))


def _normal(s: Splice, x: Node, axes: list[int], eps: float) -> tuple[Node, Node, Node]:
    """(x - mean) / sqrt(variance + eps), the mean, and 1 / sqrt(variance + eps)."""
    mean = s(aten.mean.dim, x, axes, True)
    difference = s(aten.sub.Tensor, x, mean)
    inverse = _inverse(s, difference, axes, eps)
    return s(aten.mul.Tensor, difference, inverse), mean, inverse


def _inverse(s: Splice, x: Node, axes: list[int], eps: float) -> Node:
    squares = s(aten.mean.dim, s(aten.mul.Tensor, x, x), axes, True)
    return s(aten.rsqrt.default, s(aten.add.Tensor, squares, eps))


def _affine(s: Splice, x: Node, weight: Node | None, bias: Node | None) -> Node:
    x = x if weight is None else s(aten.mul.Tensor, x, weight)
    return x if bias is None else s(aten.add.Tensor, x, bias)


def div(s: Splice, x: Node, y: Any) -> Node | None:
    """x * (1 / y); None for a number, whose product needs no range of its own."""
    if not isinstance(y, Node) or (y.op == "get_attr" and s.value(y).numel() == 1):
        return None
    return s(aten.mul.Tensor, x, s(aten.reciprocal.default, y))


def mul(s: Splice, x: Node, y: Any) -> Node | None:
    """x where a truth value y says so, else 0; None for other products."""
    if not isinstance(y, Node):
        return None
    x, y = (x, y) if s.value(y).dtype is torch.bool else (y, x)
    if s.value(y).dtype is not torch.bool or not s.value(x).is_floating_point():
        return None
    return s(aten.where.ScalarOther, y, x, 0.0)


def sqrt(s: Splice, x: Node) -> Node | None:
    """Of a*a + b*b, whose squares would take all steps from what is small: the length of (a, b) from
    its shadows in DIRECTIONS, sum(|a * cos + b * sin|) / (about) 2/pi * DIRECTIONS. None for others.
    """
    a, b = _squared(x, 0), _squared(x, 1)
    if a is None or b is None or s.value(a).shape != s.value(b).shape:
        return None
    step = math.pi / DIRECTIONS
    angles = step * torch.arange(DIRECTIONS)
    towards = s.constant(torch.stack([angles.cos(), angles.sin()], 1), "directions")
    # the sum of the shadows of length 1 is between 1 / tan(step / 2) and 1 / sin(step / 2)
    middle = (1 / math.tan(step / 2) + 1 / math.sin(step / 2)) / 2
    mean = s.constant(torch.full((1, DIRECTIONS), 1 / middle), "mean_of_shadows")
    shadows = s(aten.linear.default, s(aten.stack.default, [a, b], -1), towards)
    length = s(aten.linear.default, s(aten.abs.default, shadows), mean)
    return s(aten.squeeze.dim, length, -1)


def _squared(x: Node, place: int) -> Node | None:
    """What summand `place` of x is the square of."""
    if kind_of(x.target) != "aten.add.Tensor" or x.kwargs.get("alpha", 1) != 1:
        return None
    y = x.args[place]
    if not isinstance(y, Node) or y.op != "call_function":
        return None
    kind, args = kind_of(y.target), y.args
    is_square = kind == "aten.square" or (
        (kind == "aten.mul.Tensor" and args[0] is args[1])
        or (kind == "aten.pow.Tensor_Scalar" and args[1] == 2)
    )
    return args[0] if is_square else None  # type: ignore[return-value]


def log_softmax(s: Splice, x: Node, dim: int, *_: Any) -> Node:
    """x - max - log(sum(exp(x - max)))."""
    below = s(aten.sub.Tensor, x, s(aten.amax.default, x, [dim], True))
    total = s(aten.sum.dim_IntList, s(aten.exp.default, below), [dim], True)
    return s(aten.sub.Tensor, below, s(aten.log.default, total))


def var(
    s: Splice, x: Node, dim: Sequence[int] | None = None, *, correction: float | None = None,
    keepdim: bool = False,
) -> Node:  # fmt: skip
    """The mean of the squared differences from the mean, times n / (n - correction)."""
    rank = s.value(x).dim()
    axes = [d % rank for d in dim] if dim else list(range(rank))
    count = prod(s.value(x).shape[d] for d in axes)
    rest = count - (1 if correction is None else correction)
    difference = s(aten.sub.Tensor, x, s(aten.mean.dim, x, axes, True))
    y = s(aten.mean.dim, s(aten.mul.Tensor, difference, difference), axes, keepdim)
    return y if count == rest else s(aten.mul.Tensor, y, count / rest)


def std(s: Splice, x: Node, dim: Sequence[int] | None = None, **kwargs: Any) -> Node:
    """The square root of var, which stays whole where it is known."""
    return s(aten.sqrt.default, s(aten.var.correction, x, dim, **kwargs))


def _biased(formula: Callable[..., Node]) -> Callable[..., Node]:
    """The form of var or std with `unbiased` in place of `correction`."""

    def of_dims(
        s: Splice, x: Node, dim: Any = None, unbiased: bool = True, keepdim: bool = False
    ) -> Node:
        return formula(s, x, dim, correction=int(unbiased), keepdim=keepdim)

    return of_dims


FORMULAS: dict[str, Callable[..., Any]] = {
    "aten.div.Tensor": div,
    "aten.mul.Tensor": mul,
    "aten.sqrt": sqrt,
    "aten.log_softmax.int": log_softmax,
    "aten._log_softmax": log_softmax,
    "aten.var.correction": var,
    "aten.std.correction": std,
    "aten.var.dim": _biased(var),
    "aten.std.dim": _biased(std),
    "aten.var": lambda s, x, unbiased=True: var(s, x, correction=int(unbiased)),
    "aten.std": lambda s, x, unbiased=True: std(s, x, correction=int(unbiased)),
    "aten.layer_norm": layer_norm,
    "aten.native_layer_norm": native_layer_norm,
    "aten.rms_norm": rms_norm,
    "aten.group_norm": group_norm,
    "aten.native_group_norm": native_group_norm,
    "aten.instance_norm": instance_norm,
}
