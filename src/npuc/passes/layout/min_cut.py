"""Minimum cut of a graph with non-negative capacities, by scipy's maximum flow."""

from __future__ import annotations

import numpy as np

#: scipy's maximum_flow counts in int32; all finite capacities together stay below this
TOP = 2**30


class Cut:
    """A minimum cut problem over binary variables: 0 on the source's side, 1 on the sink's."""

    SOURCE, SINK = 0, 1

    def __init__(self) -> None:
        self.count = 2
        self._edges: list[tuple[int, int, int]] = []
        self._bonds: list[tuple[int, int]] = []

    def variable(self) -> int:
        """A new variable."""
        self.count += 1
        return self.count - 1

    def pay(self, a: int, b: int, cost: int) -> None:
        """`cost` when a is 0 and b is 1. SOURCE is always 0 and SINK always 1."""
        if cost:
            self._edges.append((a, b, cost))

    def imply(self, b: int, a: int) -> None:
        """b = 1 demands a = 1."""
        self._bonds.append((a, b))

    def solve(self) -> np.ndarray:
        """The cheapest values (bool) of all variables; of several the one with most zeros."""
        from scipy.sparse import coo_matrix
        from scipy.sparse.csgraph import breadth_first_order, maximum_flow

        edges = np.array(self._edges, np.int64).reshape(-1, 3)
        total = int(edges[:, 2].sum())
        if total >= TOP:
            unit = total // (TOP // 2) + 1
            edges[:, 2] = np.maximum(edges[:, 2] // unit, 1)
        rows, columns, costs = edges.T
        bonds = np.array(self._bonds, np.int64).reshape(-1, 2)
        shape = (self.count, self.count)
        capacity = coo_matrix(
            (
                np.concatenate([costs, np.full(len(bonds), TOP)]),
                (np.concatenate([rows, bonds[:, 0]]), np.concatenate([columns, bonds[:, 1]])),
            ),
            shape,
        ).tocsr()
        capacity.data = np.minimum(capacity.data, TOP)
        capacity = capacity.astype(np.int32)
        flow = maximum_flow(capacity, self.SOURCE, self.SINK).flow
        residual = capacity - flow
        residual.eliminate_zeros()
        reached = breadth_first_order(residual, self.SOURCE, return_predecessors=False)
        values = np.ones(self.count, bool)
        values[reached] = False
        return values
