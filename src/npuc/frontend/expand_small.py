"""Expansions of our own for small ops that PyTorch expands clumsily or not at all.

PyTorch's decompositions end in `prims`, its lowest level; what has an ATen name gets it back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from npuc.frontend.splice import Splice

aten = torch.ops.aten

# prims with an ATen op of the same meaning.
_SAME_AS = {
    "convert_element_type": aten.to.dtype,
    "bitwise_not": aten.bitwise_not.default,
    "signbit": aten.signbit.default,
    "isfinite": aten.isfinite.default,
    "abs": aten.abs.default,
    "exp": aten.exp.default,
    "log": aten.log.default,
    "neg": aten.neg.default,
    "sign": aten.sign.default,
    "sqrt": aten.sqrt.default,
    "rsqrt": aten.rsqrt.default,
    "erf": aten.erf.default,
    "reciprocal": aten.reciprocal.default,
}
_BINARY = ("add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "fmod", "remainder")


def _same_as(op: Any) -> Callable[..., Node]:
    return lambda s, *args: s(op, *args)


def _binary(name: str) -> Callable[..., Node]:
    """A prim of two operands, of which the second may be a number."""
    packet = getattr(aten, name)

    def formula(s: Splice, a: Any, b: Any) -> Node:
        return s(packet.Tensor if isinstance(b, Node) else packet.Scalar, a, b)

    return formula


def div(s: Splice, a: Node, b: Any) -> Node:
    """prims.div truncates integers."""
    tensor = isinstance(b, Node)
    if s.value(a).dtype.is_floating_point:
        return s(aten.div.Tensor if tensor else aten.div.Scalar, a, b)
    op = aten.div.Tensor_mode if tensor else aten.div.Scalar_mode
    return s(op, a, b, rounding_mode="trunc")


def where(s: Splice, condition: Node, a: Any, b: Any) -> Node:
    """prims.where takes numbers on either side."""
    kinds = (isinstance(a, Node), isinstance(b, Node))
    overloads = {
        (True, True): aten.where.self,
        (True, False): aten.where.ScalarOther,
        (False, True): aten.where.ScalarSelf,
        (False, False): aten.where.Scalar,
    }
    return s(overloads[kinds], condition, a, b)


def prims_sum(s: Splice, x: Node, dims: list[int], **_: Any) -> Node:
    """prims.sum drops the reduced dims."""
    return s(aten.sum.dim_IntList, x, dims, False)


def iota(s: Splice, length: Any, *, start: int, step: int, dtype: Any = None, **_: Any) -> Node:
    """prims.iota: start, start + step, ..."""
    return s(aten.arange.start_step, start, start + length * step, step, dtype=dtype)


def scalar_tensor(s: Splice, value: Any, *, dtype: Any = None, **_: Any) -> Node:
    """prims.scalar_tensor: a 0-d constant."""
    return s(aten.scalar_tensor.default, value, dtype=dtype)


def prims_var(s: Splice, x: Node, dims: list[int], correction: float = 1.0, **_: Any) -> Node:
    """prims.var drops the reduced dims."""
    return s(aten.var.correction, x, dims, correction=correction, keepdim=False)


def broadcast_in_dim(s: Splice, x: Node, shape: list[Any], dims: list[int]) -> Node:
    """prims.broadcast_in_dim: dim i of x becomes dims[i] of shape, the rest is repeated."""
    spread = [1] * len(shape)
    for size, dim in zip(s.value(x).shape, dims, strict=True):
        spread[dim] = size
    return s(aten.expand.default, s(aten.view.default, x, spread), shape)


FORMULAS: dict[str, Callable[..., Any]] = {
    "prims.iota": iota,
    "prims.scalar_tensor": scalar_tensor,
    "prims.div": div,
    "prims.where": where,
    "prims.sum": prims_sum,
    "prims.rev": _same_as(aten.flip.default),
    "prims.var": prims_var,
    "prims.broadcast_in_dim": broadcast_in_dim,
    **{f"prims.{name}": _same_as(op) for name, op in _SAME_AS.items()},
    **{f"prims.{name}": _binary(name) for name in _BINARY},
}
