"""The minimum cut against scipy's maximum flow and against all assignments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from npuc.passes.layout.min_cut import Cut


def random_cut(seed: int, variables: int, edges: int) -> tuple[Cut, list[tuple[int, int, int]]]:
    rng = np.random.default_rng(seed)
    cut = Cut()
    for _ in range(variables):
        cut.variable()
    added = []
    for _ in range(edges):
        a, b = (int(v) for v in rng.choice(variables + 2, 2, replace=False))
        added.append((a, b, int(rng.integers(1, 20))))
        cut.pay(*added[-1])
    return cut, added


def cost(values: list[int], edges: list[tuple[int, int, int]]) -> int:
    return sum(c for a, b, c in edges if not values[a] and values[b])


@pytest.mark.parametrize("seed", range(100))
def test_no_assignment_is_cheaper(seed: int) -> None:
    cut, edges = random_cut(seed, 8, 25)
    values = cut.solve()
    assert (values[Cut.SOURCE], values[Cut.SINK]) == (0, 1)
    best = min(cost([0, 1, *rest], edges) for rest in itertools.product((0, 1), repeat=8))
    assert cost(values, edges) == best


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_scipy_on_large_graphs(seed: int) -> None:
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import maximum_flow

    cut, edges = random_cut(seed, 500, 3000)
    a, b, c = np.array(edges).T
    capacity = coo_matrix((c, (a, b)), (502, 502)).tocsr().astype(np.int32)
    flow = maximum_flow(capacity, Cut.SOURCE, Cut.SINK).flow_value
    assert cost(cut.solve(), edges) == flow


def test_what_one_variable_demands_of_another_is_never_cut() -> None:
    cut = Cut()
    x, y = cut.variable(), cut.variable()
    cut.pay(x, Cut.SINK, 10)  # x wants to be 1
    cut.imply(x, y)
    cut.pay(Cut.SOURCE, y, 7)  # y does not
    assert cut.solve()[2:] == [1, 1]
