"""Several index tensors on several dimensions as one index into rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from npuc.dialects.tosa.infer import broadcast
from npuc.ir import DType, Shape, TensorType, Value
from npuc.lowering.aten_to_tosa.rows import affine, non_negative, reshaped_index
from npuc.lowering.aten_to_tosa.shape import transposed
from npuc.lowering.tosa_builder import TosaBuilder


@dataclass(frozen=True)
class JointIndex:
    """x[indices] is x.permute(order).view(before, rows, after)[:, index, :].

    `head` and `tail` are the sizes of the dimensions in front of and behind the indexed ones,
    `picked` the shape to which the index tensors broadcast: the result is head + picked + tail.
    index: INT32 (or INT64) [1, count], never negative.
    """

    order: tuple[int, ...]
    head: tuple[int, ...]
    rows: int
    tail: tuple[int, ...]
    picked: tuple[int, ...]
    index: Value

    @property
    def before(self) -> int:
        return math.prod(self.head)

    @property
    def after(self) -> int:
        return math.prod(self.tail)

    @property
    def count(self) -> int:
        return math.prod(self.picked)

    def view(self, b: TosaBuilder, x: Value) -> Value:
        """`x` as [before, rows, after]."""
        return b.reshape(transposed(b, x, self.order), (self.before, self.rows, self.after))

    def restore(self, b: TosaBuilder, rows: Value, shape: Sequence[int]) -> Value:
        """[before, rows, after] back in the dimensions `shape` of x."""
        y = b.reshape(rows, [shape[d] for d in self.order])
        return transposed(b, y, tuple(np.argsort(self.order).tolist()))


def joint_index(b: TosaBuilder, x: Value, indices: Sequence[Value | None]) -> JointIndex:
    """The joint index of `x[indices]`. Dimensions with indices that are not neighbours go to the
    front, as PyTorch orders the result."""
    places = [(d, v) for d, v in enumerate(indices) if v is not None]
    for _, v in places:
        b.require(
            v.type.dtype is not DType.BOOL and v.type.quant is None,
            "a boolean index computed at run time: the size of the result depends on the data",
            "use torch.where, or an index of integers",
        )
    shape, dims = x.type.ints, [d for d, _ in places]
    others = [d for d in range(len(shape)) if d not in dims]
    together = dims[-1] - dims[0] + 1 == len(dims)
    front = [d for d in others if d < dims[0]] if together else []
    back = [d for d in others if d not in front]
    rank = max(v.type.rank for _, v in places)
    wide = TensorType(DType.INT32, broadcast([_with_rank(v.type.shape, rank) for _, v in places]))
    picked = wide.ints
    index = _joined(b, [(v, shape[d]) for d, v in places], rank)
    rows = math.prod(shape[d] for d in dims)
    return JointIndex(
        order=(*front, *dims, *back),
        head=tuple(shape[d] for d in front),
        rows=rows,
        tail=tuple(shape[d] for d in back),
        picked=picked,
        index=reshaped_index(b, index, (1, math.prod(picked)), rows),
    )


def _with_rank(shape: Shape, rank: int) -> Shape:
    return (1,) * (rank - len(shape)) + tuple(shape)


def _joined(b: TosaBuilder, parts: Sequence[tuple[Value, int]], rank: int) -> Value:
    """The sum of the indices, each times the sizes behind it, broadcast against each other."""
    total: Value | None = None
    stride = math.prod(size for _, size in parts)
    for index, size in parts:
        stride //= size
        wide = (1,) * (rank - index.type.rank) + index.type.ints
        term = affine(b, non_negative(b, reshaped_index(b, index, wide, size), size), stride)
        if total is None:
            total = term
        elif total.is_const and term.is_const:
            total = b.const(total.array + term.array, total.type.dtype)
        else:
            total = b.ADD(total, term)
    assert total is not None
    return total
