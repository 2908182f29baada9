"""Groups of nodes: whatever the graph, they can run one after the other, and cost linear time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import networkx as nx
from hypothesis import given, settings
from hypothesis import strategies as st

from npuc.executorch.group_nodes import group_nodes

Edges = dict[int, list[int]]


def group(operands: Edges, taken: Sequence[bool], movable: Sequence[bool] = ()) -> list[list[int]]:
    users: Edges = {n: [] for n in operands}
    for node, sources in operands.items():
        for source in sources:
            users[source].append(node)
    return group_nodes(
        list(operands), taken.__getitem__, operands.__getitem__, users.__getitem__,
        lambda n: bool(movable) and movable[n],
    )  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Edges, list[bool], list[bool]]:
    count = draw(st.integers(1, 14))
    operands = {
        n: sorted(draw(st.sets(st.integers(0, n - 1), max_size=3))) if n else []
        for n in range(count)
    }
    flags = st.lists(st.booleans(), min_size=count, max_size=count)
    return operands, draw(flags), draw(flags)


def runs_in_order(operands: Edges, groups: list[list[int]]) -> bool:
    """Whether the graph with each group as one node has no cycle."""
    of = {n: f"g{i}" for i, members in enumerate(groups) for n in members}
    joined = nx.DiGraph()
    for node, sources in operands.items():
        for source in sources:
            a, b = of.get(source, source), of.get(node, node)
            if a != b:
                joined.add_edge(a, b)
    return nx.is_directed_acyclic_graph(joined)


@settings(max_examples=400, deadline=None)
@given(graphs())
def test_any_graph(given: tuple[Edges, list[bool], list[bool]]) -> None:
    operands, taken, movable = given
    groups = group(operands, taken, movable)
    assert sorted(n for g in groups for n in g) == [n for n in operands if taken[n]]
    assert runs_in_order(operands, groups)


def test_everything_taken_is_one_group() -> None:
    operands = {0: [], 1: [0], 2: [], 3: [2], 4: [1]}
    assert group(operands, [True] * 5) == [[0, 1, 2, 3, 4]]


def test_no_way_around_the_host() -> None:
    """0 -> host 1 -> 2 and 0 -> 2: one group of 0 and 2 would wait for itself."""
    assert group({0: [], 1: [0], 2: [0, 1]}, [True, False, True]) == [[0], [2]]


def test_late_join_needs_one_group() -> None:
    """The host's op 3 depends on the input only: the chain 0-1-2 waits for it, not the reverse."""
    operands = {0: [], 1: [0], 2: [1], 3: [], 4: [2, 3]}
    assert group(operands, [True, True, True, False, True]) == [[0, 1, 2, 4]]


def test_dequantizers_join_their_readers() -> None:
    """0 -> q 1 -> dq 2 -> 4, where 4 waits for the host's 3: the dq must not be cut from 4."""
    operands = {0: [], 1: [0], 5: [1], 3: [5], 2: [1], 4: [2, 3]}
    taken = [True, True, True, False, True, True]
    movable = [False, False, True, False, False, False]
    groups = group(operands, taken, movable)
    assert [2, 4] in groups


def test_linear_in_the_size() -> None:
    def seconds(count: int) -> float:
        operands = {n: [n - 1, n // 2] if n else [] for n in range(count)}
        taken = [n % 7 != 0 for n in range(count)]
        start = time.process_time()
        group(operands, taken)
        return time.process_time() - start

    small = min(seconds(2_000) for _ in range(5))
    assert min(seconds(40_000) for _ in range(3)) < 100 * small + 0.1  # 400 if it were quadratic
