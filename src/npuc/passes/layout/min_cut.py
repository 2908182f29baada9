"""Minimum cut of a graph with non-negative capacities, by Dinic's maximum flow.

Written out rather than taken from scipy: loading scipy takes longer than the flows of a whole
network, whose augmenting paths are short.
"""

from __future__ import annotations

#: capacity of an edge that is never cut
ENDLESS = 1 << 62


class Cut:
    """A minimum cut problem over binary variables: 0 on the source's side, 1 on the sink's."""

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        #: edges come in pairs, e and e ^ 1 being each other's reverse
        self._target: list[int] = []
        self._capacity: list[int] = []
        self._edges: list[list[int]] = [[], []]

    def variable(self) -> int:
        """A new variable."""
        self._edges.append([])
        return len(self._edges) - 1

    def pay(self, a: int, b: int, cost: int) -> None:
        """`cost` when a is 0 and b is 1. SOURCE is always 0 and SINK always 1."""
        if cost:
            self._edges[a].append(len(self._target))
            self._edges[b].append(len(self._target) + 1)
            self._target += [b, a]
            self._capacity += [cost, 0]

    def imply(self, b: int, a: int) -> None:
        """b = 1 demands a = 1."""
        self.pay(a, b, ENDLESS)

    def solve(self) -> list[int]:
        """The cheapest values of all variables; of several solutions the one with most ones."""
        while (levels := self._levels())[self.SINK] >= 0:
            self._saturate(levels)
        return [int(level < 0) for level in levels]

    def _levels(self) -> list[int]:
        """Distance of every variable from the source along edges with capacity left; -1: none."""
        levels = [-1] * len(self._edges)
        levels[self.SOURCE] = 0
        front = [self.SOURCE]
        while front:
            reached = []
            for v in front:
                for e in self._edges[v]:
                    w = self._target[e]
                    if self._capacity[e] and levels[w] < 0:
                        levels[w] = levels[v] + 1
                        reached.append(w)
            front = reached
        return levels

    def _saturate(self, levels: list[int]) -> None:
        """Send as much as possible along edges that lead one level further (a blocking flow)."""
        target, capacity = self._target, self._capacity
        untried = [list(edges) for edges in self._edges]
        path: list[int] = []
        v = self.SOURCE
        while True:
            if v == self.SINK:
                amount = min(capacity[e] for e in path)
                for e in path:
                    capacity[e] -= amount
                    capacity[e ^ 1] += amount
                full = next(i for i, e in enumerate(path) if not capacity[e])
                v = target[path[full] ^ 1]
                del path[full:]
                continue
            edges = untried[v]
            deeper = levels[v] + 1
            while edges and not (capacity[edges[-1]] and levels[target[edges[-1]]] == deeper):
                edges.pop()
            if edges:
                path.append(edges[-1])
                v = target[edges[-1]]
            elif path:
                v = target[path.pop() ^ 1]
                untried[v].pop()
            else:
                return
