"""Expansions of our own for small ops that PyTorch expands clumsily or not at all.

PyTorch's decompositions end in `prims`, its lowest level; what has an ATen name gets it back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import Node

from npuc.errors import Unsupported
from npuc.frontend.splice import Splice, kind_of

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


def one_hot(s: Splice, x: Node, num_classes: int = -1) -> Node:
    """one_hot: comparison with every class; PyTorch's has an assertion about the values."""
    classes = s(aten.arange.default, num_classes, dtype=torch.int64)
    return s(
        aten.to.dtype, s(aten.eq.Tensor, s(aten.unsqueeze.default, x, -1), classes), torch.int64
    )


#: differences of all pairs up to this many elements are formed, more distances come from a product
MOST_DIFFERENCES = 2**22


def cdist(s: Splice, x: Node, y: Node, p: float, compute_mode: int | None = None) -> Node:
    """cdist: norms of the differences of all pairs of rows [..., n, d] and [..., m, d].

    Many pairs at p = 2 by |x|^2 + |y|^2 - 2 x y, as PyTorch does from 25 rows on.
    """
    count = s.value(x).numel() * s.value(y).shape[-2]
    if p == 2 and isinstance(count, int) and count > MOST_DIFFERENCES:
        product = s(aten.matmul.default, x, s(aten.transpose.int, y, -1, -2))
        squares = [s(aten.sum.dim_IntList, s(aten.mul.Tensor, v, v), [-1], True) for v in (x, y)]
        both = s(aten.add.Tensor, squares[0], s(aten.transpose.int, squares[1], -1, -2))
        rest = s(aten.sub.Tensor, both, s(aten.mul.Scalar, product, 2.0))
        return s(aten.sqrt.default, s(aten.clamp_min.default, rest, 0.0))
    rows, columns = s(aten.unsqueeze.default, x, -2), s(aten.unsqueeze.default, y, -3)
    difference = s(aten.sub.Tensor, rows, columns)
    if p == 2:
        squares = s(aten.mul.Tensor, difference, difference)
        return s(aten.sqrt.default, s(aten.sum.dim_IntList, squares, [-1]))
    size = s(aten.abs.default, difference)
    if p == 1:
        return s(aten.sum.dim_IntList, size, [-1])
    if p == float("inf"):
        return s(aten.amax.default, size, [-1])
    if p == 0:
        nonzero = s(aten.to.dtype, s(aten.ne.Scalar, difference, 0.0), s.value(difference).dtype)
        return s(aten.sum.dim_IntList, nonzero, [-1])
    powers = s(aten.sum.dim_IntList, s(aten.pow.Tensor_Scalar, size, p), [-1])
    return s(aten.pow.Tensor_Scalar, powers, 1.0 / p)


def embedding_bag(
    s: Splice, weight: Node, indices: Node, offsets: Node, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False, per_sample_weights: Node | None = None,
    include_last_offset: bool = False, padding_idx: int | None = None,
) -> tuple[Node | None, ...]:  # fmt: skip
    """embedding_bag: sum (mode 0), mean or maximum of the rows of bags of one size."""
    size = _bag_size(s, offsets)
    if size is None or include_last_offset or (padding_idx is not None and padding_idx >= 0):
        raise Unsupported("bags of different sizes, which are known at run time only; "
                          "give EmbeddingBag a 2-D input without padding_idx")  # fmt: skip
    rows = s(aten.embedding.default, weight, s(aten.view.default, indices, [-1, size]))
    if per_sample_weights is not None:
        factors = s(aten.view.default, per_sample_weights, [-1, size, 1])
        rows = s(aten.mul.Tensor, rows, factors)
    if mode == 2:
        return s(aten.amax.default, rows, [1]), None, None, None
    reduce = (aten.sum.dim_IntList, aten.mean.dim)[mode]
    return s(reduce, rows, [1]), None, None, None


def _bag_size(s: Splice, offsets: Node) -> int | None:
    """The distance of the bags' beginnings where they are 0, n, 2 n ..."""
    known = s.parameter(offsets)
    if known is None and kind_of(offsets.target) == "aten.arange.start_step":
        begin, _, step = offsets.args[:3]
        return step if begin == 0 and isinstance(step, int) else None
    if known is None or known.numel() < 2:
        return None
    size = int(known[1])
    return size if torch.equal(known, torch.arange(len(known)) * size) else None


FORMULAS: dict[str, Callable[..., Any]] = {
    "aten.one_hot": one_hot,
    "aten.cdist": cdist,
    "aten._cdist_forward": cdist,
    "aten.embedding_bag": embedding_bag,
    "aten.embedding_bag.padding_idx": embedding_bag,
    "aten._embedding_bag": embedding_bag,
    "aten._embedding_bag_forward_only": embedding_bag,
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
