"""Sums of integers over the rows of a tensor, within 32 bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2, prod

from npuc.ir import DType, Value
from npuc.ir.symbolic import largest
from npuc.lowering.tosa_builder import TosaBuilder

#: an axis is summed in two stages above this length, so that less is rounded away before
LONGEST_STAGE = 1024

#: tensors of level 8K have no more axes
MAX_RANK = 6

#: sums stay below 2**SUM_BITS
SUM_BITS = 30.99


@dataclass(frozen=True)
class Rows:
    """What is normalized together.

    axes: of the value, reduced in this order. groups: 0, or how many groups the channels (axis 1)
    form, in which case the channels of a group are reduced as well.
    """

    axes: tuple[int, ...]
    groups: int = 0

    def count(self, shape: Sequence[int]) -> int:
        """Number of elements in a row."""
        return prod(shape[a] for a in self.axes) * (shape[1] // self.groups if self.groups else 1)


@dataclass
class Sum:
    """A sum in the making: `value` << shift, of magnitude `bound` << shift.

    limit: bound of the whole sum, where it is known to be less than what its addends could give.
    """

    value: Value
    bound: float
    shift: int = 0
    limit: float = float("inf")

    def make_room(self, b: TosaBuilder, count: int) -> None:
        """Shift right, so that `count` addends cannot overflow."""
        most = min(self.bound * count, self.limit * 2.0**-self.shift)
        less = max(ceil(log2(most) - SUM_BITS), 0)
        if less:
            self.value = b.rescale(self.value, 2.0**-less, DType.INT32)
        self.shift += less
        self.bound = min(self.bound * count, self.limit * 2.0 ** (less - self.shift)) * 2.0**-less


def sum_rows(b: TosaBuilder, total: Sum, rows: Rows) -> Sum:
    """INT32 values summed over rows. Addends are shifted right before a stage could overflow."""
    for axis in rows.axes:
        for part in stages(total.value.type.ints[axis]):
            total.make_room(b, largest(part))
            shape = total.value.type.ints
            if len(shape) == MAX_RANK and part == shape[axis]:
                total.value = b.REDUCE_SUM(total.value, axis=axis)
                continue
            split = (*shape[:axis], shape[axis] // part, part, *shape[axis + 1 :])
            x = b.REDUCE_SUM(b.reshape(total.value, split), axis=axis + 1)
            total.value = b.reshape(x, (*shape[:axis], shape[axis] // part, *shape[axis + 1 :]))
    if rows.groups:
        _sum_groups(b, total, rows.groups)
    return total


def _sum_groups(b: TosaBuilder, total: Sum, groups: int) -> None:
    """[N, C, 1...] summed over the channels of each group, and repeated for each of them."""
    shape = total.value.type.ints
    members = shape[1] // groups
    if members == 1:
        return
    total.make_room(b, members)
    x = b.REDUCE_SUM(b.reshape(total.value, (shape[0], groups, members)), axis=2)
    total.value = b.reshape(b.TILE(x, (1, 1, members)), shape)


def stages(length: int) -> tuple[int, ...]:
    """Lengths of the sums that together make up one over `length`."""
    if not isinstance(length, int) or length <= LONGEST_STAGE:
        return (length,)
    first = max(d for d in range(1, LONGEST_STAGE + 1) if length % d == 0)
    return (length,) if first == 1 else (first, *stages(length // first))
