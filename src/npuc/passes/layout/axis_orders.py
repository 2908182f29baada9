"""The memory orders worth trying: total orders of axis names that the fixed operators ask for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, pairwise

from npuc.ir import Value
from npuc.passes.layout.behaviour import Group
from npuc.passes.layout.views import Views

#: position of each axis name; an axis that a RESHAPE made has its source's and a part number
AxisOrder = dict[int, tuple[int, ...]]
#: a sequence of (name, whether some tensor moves if it does) in memory order
Sequence_ = tuple[tuple[int, bool], ...]

MAX_ORDERS = 6
MAX_SEQUENCES = 64


class _Precedence:
    """A growing set of "a before b" without cycles."""

    def __init__(self) -> None:
        self.after: dict[int, set[int]] = {}

    def reaches(self, start: int, goal: int) -> bool:
        seen, stack = {start}, [start]
        while stack:
            name = stack.pop()
            if name == goal:
                return True
            new = self.after.get(name, set()) - seen
            seen |= new
            stack += new
        return False

    def add(self, names: Sequence[int]) -> bool:
        """Add a chain; False, and nothing is added, where it contradicts the others."""
        if len(set(names)) < len(names):
            return False
        if any(self.reaches(b, a) for a, b in combinations(names, 2)):
            return False
        for name in names:
            self.after.setdefault(name, set())
        for a, b in pairwise(names):
            self.after[a].add(b)
        return True

    def positions(self) -> AxisOrder:
        """A total order; of several possible ones the one that follows the order of arrival."""
        before = dict.fromkeys(self.after, 0)
        for targets in self.after.values():
            for b in targets:
                before[b] += 1
        ready = [n for n, count in before.items() if not count]
        found: AxisOrder = {}
        while ready:
            name = ready.pop(0)
            found[name] = (len(found),)
            for b in self.after[name]:
                before[b] -= 1
                if not before[b]:
                    ready.insert(0, b)
        return found


def axis_orders(weights: Mapping[Sequence_, int], views: Views) -> list[AxisOrder]:
    """Total orders that hold the weighted sequences, the heaviest first.

    Each sequence joins every order that it does not contradict, and starts a new one where it
    contradicts all.
    """
    heaviest = sorted(weights, key=lambda s: -weights[s])[:MAX_SEQUENCES]
    orders: list[_Precedence] = []
    for sequence in heaviest:
        hard = [name for name, is_hard in sequence if is_hard]
        placed = [order for order in orders if order.add(hard)]
        if not placed and len(orders) < MAX_ORDERS:
            orders.append(_Precedence())
            orders[-1].add(hard)
    for sequence in heaviest:
        for order in orders:
            order.add([name for name, _ in sequence])
    found = [order.positions() for order in orders]
    for positions in found:
        _extend(positions, views)
    return found


def _extend(positions: AxisOrder, views: Views) -> None:
    """Give the axes that RESHAPEs merge and split positions beside their other side's."""
    steps = [(op, group) for op, groups in views.groups.items() for group in groups]
    for op, group in steps:
        _extend_group(positions, views, op.operands[0], op.results[0], group)
    for op, (ins, outs) in reversed(steps):
        _extend_group(positions, views, op.results[0], op.operands[0], (outs, ins))


def _extend_group(
    positions: AxisOrder, views: Views, source: Value, target: Value, group: Group
) -> None:
    sources = [views.names.find(views[source].names[i]) for i in group[0]]
    targets = [views.names.find(views[target].names[i]) for i in group[1]]
    if not all(n in positions for n in sources):
        return
    first = positions[sources[0]]
    for k, name in enumerate(targets):
        positions.setdefault(name, (*first, k) if len(targets) > 1 else first)


def sort_axes(
    names: Sequence[int], hard: Iterable[int], positions: AxisOrder
) -> tuple[int, ...] | None:
    """Axis positions 0..n-1 of a tensor in the given order; None where it does not say.

    `names` are found names, `hard` the axes that are not of size 1. The others go where their
    name says, or stay behind their neighbour.
    """
    hard_set = set(hard)
    if not all(names[i] in positions for i in hard_set):
        return None
    return place_axes(names, sorted(hard_set, key=lambda i: (positions[names[i]], i)), positions)


def place_axes(names: Sequence[int], hard: Sequence[int], positions: AxisOrder) -> tuple[int, ...]:
    """All axes of a tensor: those in `hard` in that order, the ones of size 1 among them."""
    result = list(hard)
    for i in range(len(names)):
        if i not in hard:
            result.insert(_place(i, names, result, positions), i)
    return tuple(result)


def _place(axis: int, names: Sequence[int], placed: list[int], positions: AxisOrder) -> int:
    """Where an axis of size 1 goes among those already placed."""
    key = positions.get(names[axis])
    if key is None:
        return placed.index(axis - 1) + 1 if axis - 1 in placed else 0
    for index, other in enumerate(placed):
        known = positions.get(names[other])
        if known is not None and known > key:
            return index
    return len(placed)
