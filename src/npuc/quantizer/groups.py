"""Groups of values that have one set of quantization parameters, by union-find."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from torch.fx import Node

from npuc.quantizer.fx_values import float_results
from npuc.quantizer.specs import Hint

# A value under one type: an int8 value that one reader wants as int16 is two of these.
Key = tuple[Node, str]
# A place where torchao puts an observer: the result of a node, or an edge (operand, reader).
Place = Any


@dataclass
class Group:
    """What is known about the values of one group."""

    places: list[Place] = field(default_factory=list)
    # Ranges of the functions whose results are in the group; None: some range of its own.
    sources: list[tuple[float, float] | None] = field(default_factory=list)
    # A value that is another place's value times a positive number, and nothing else.
    scaled: list[tuple[Place, float]] = field(default_factory=list)
    hints: list[Hint] = field(default_factory=list)
    # Places of the operands of averages in the group.
    pooled: list[Place] = field(default_factory=list)
    # Whether a reader wants zero point 0.
    symmetric: bool = False

    def absorb(self, other: Group) -> None:
        self.places += other.places
        self.sources += other.sources
        self.scaled += other.scaled
        self.hints += other.hints
        self.pooled += other.pooled
        self.symmetric |= other.symmetric

    @property
    def ends(self) -> tuple[float, float] | None:
        """The range of the function, when all that is in the group comes from one kind of it."""
        if self.scaled or not self.sources:
            return None
        first = self.sources[0]
        return first if all(source == first for source in self.sources) else None


def readers(group: Group) -> set[Node]:
    """What reads the values of a group and is not itself in it."""
    members = {place for place in group.places if isinstance(place, Node)}
    found = {place[1] for place in group.places if not isinstance(place, Node)}
    found |= {user for member in members for user in member.users}
    return {node for node in found if not _is_within(node, members)}


def _is_within(node: Node, members: set[Node]) -> bool:
    results = float_results(node)
    return bool(results) and all(result in members for result in results)


class Groups:
    """A partition of keys; the data of joined groups is joined."""

    def __init__(self) -> None:
        self._parent: dict[Key, Key] = {}
        self._data: dict[Key, Group] = {}

    def __getitem__(self, key: Key) -> Group:
        root = self._root(key)
        return self._data.setdefault(root, Group())

    def join(self, keys: Iterable[Key]) -> None:
        """Put all keys into one group."""
        roots = list(dict.fromkeys(self._root(key) for key in keys))
        for other in roots[1:]:
            self[roots[0]].absorb(self._data.pop(other, Group()))
            self._parent[other] = roots[0]

    def all(self) -> list[tuple[str, Group]]:
        """Type and data of every group that has a place."""
        return [(root[1], group) for root, group in self._data.items() if group.places]

    def _root(self, key: Key) -> Key:
        self._parent.setdefault(key, key)
        while self._parent[key] != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key
