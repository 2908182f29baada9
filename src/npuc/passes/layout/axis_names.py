"""Which axes of which tensors are the same axis: classes of axes that never meet in one tensor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class AxisNames:
    """Union-find over axes. Two axes of one tensor conflict and never get the same name."""

    def __init__(self) -> None:
        self._parent: list[int] = []
        self._conflicts: list[set[int]] = []

    def fresh(self, count: int = 1) -> list[int]:
        """New axes, each a name of its own."""
        first = len(self._parent)
        added = list(range(first, first + count))
        self._parent += added
        self._conflicts += [set() for _ in added]
        return added

    def find(self, axis: int) -> int:
        """The name of an axis."""
        parent = self._parent
        while parent[axis] != axis:
            parent[axis] = parent[parent[axis]]
            axis = parent[axis]
        return axis

    def of(self, axes: Iterable[int]) -> tuple[int, ...]:
        return tuple([self.find(a) for a in axes])

    def meet(self, axes: Sequence[int]) -> None:
        """Note that `axes` belong to one tensor."""
        names = self.of(axes)
        for i, a in enumerate(names):
            for b in names[:i]:
                if a != b:
                    self._conflicts[a].add(b)
                    self._conflicts[b].add(a)

    def unite(self, a: int, b: int) -> bool:
        """Give two axes one name; False when some tensor has both."""
        a, b = self.find(a), self.find(b)
        if a == b:
            return True
        if b in self._conflicts[a]:
            return False
        # the smaller set of conflicts is renamed: n log n in all
        if len(self._conflicts[a]) < len(self._conflicts[b]):
            a, b = b, a
        self._parent[b] = a
        for other in self._conflicts[b]:
            self._conflicts[other].discard(b)
            self._conflicts[other].add(a)
        self._conflicts[a] |= self._conflicts[b]
        self._conflicts[b] = set()
        return True
