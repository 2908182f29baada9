"""Groups the nodes that a target takes into few delegates, none of which waits for itself.

Each node gets a level that never falls along an edge and rises where an edge leaves or enters the
target. The target's nodes of one level are one group: a path that leaves it comes back on a higher
level only, so that groups can run one after the other. One walk in each direction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Node = TypeVar("Node")
Edges = Callable[[Node], Sequence[Node]]


def group_nodes(
    ordered: Sequence[Node],
    taken: Callable[[Node], bool],
    operands: Edges[Node],
    users: Edges[Node],
    is_movable: Callable[[Node], bool],
) -> list[list[Node]]:
    """Groups of the taken nodes in the order in which they can run.

    ordered: all nodes that are computed, operands first. `operands` and `users` may name others
    (inputs, the output): they do not count. Nodes that `is_movable` (constants, dequantizers) join
    their earliest reader. Of the earliest and the latest levels those with fewer groups are used.
    """
    earliest = _earliest(ordered, taken, operands)
    late = _sunk(ordered, taken, users, earliest, lambda node: True)
    early = _sunk(ordered, taken, users, earliest, is_movable)
    return min((_by_level(ordered, taken, level) for level in (early, late)), key=len)


def _earliest(
    ordered: Sequence[Node], taken: Callable[[Node], bool], operands: Edges[Node]
) -> dict[Node, int]:
    level: dict[Node, int] = {}
    for node in ordered:
        mine = taken(node)
        level[node] = max(
            (level[p] + (taken(p) != mine) for p in operands(node) if p in level), default=0
        )
    return level


def _sunk(
    ordered: Sequence[Node],
    taken: Callable[[Node], bool],
    users: Edges[Node],
    level: dict[Node, int],
    is_movable: Callable[[Node], bool],
) -> dict[Node, int]:
    """Levels where nodes that may move are as late as their readers allow."""
    level = dict(level)
    for node in reversed(ordered):
        bounds = [level[u] - (taken(u) != taken(node)) for u in users(node) if u in level]
        if bounds and (is_movable(node) or not taken(node)):
            level[node] = max(level[node], min(bounds))
    return level


def _by_level(
    ordered: Sequence[Node], taken: Callable[[Node], bool], level: dict[Node, int]
) -> list[list[Node]]:
    groups: dict[int, list[Node]] = {}
    for node in ordered:
        if taken(node):
            groups.setdefault(level[node], []).append(node)
    return [groups[key] for key in sorted(groups)]
