"""Values as views of root tensors, and names for their axes.

TRANSPOSE and RESHAPEs that move axes of size 1 compute nothing: their results are views of a root.
In what order a root's axes lie in memory is what `assign_layout` decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from npuc.ir import Graph, Op, Shape, Value
from npuc.passes.layout.axis_names import AxisNames
from npuc.passes.layout.behaviour import (
    RESHAPES,
    TRANSPOSES,
    Group,
    data_operands,
    fixed_axes,
    free_behaviour,
    hard_axes,
    is_view,
    reshape_groups,
)

#: axes of a root in memory order; None stands for an axis of size 1
Arrangement = tuple["int | None", ...]
#: an arrangement without the axes of size 1: two arrangements with one order hold the same bytes
Order = tuple[int, ...]


@dataclass(frozen=True)
class View:
    """A value as axes of a root tensor. `names` are axes of AxisNames, one per axis."""

    root: Value
    axes: Arrangement
    names: tuple[int, ...]

    @property
    def order(self) -> Order:
        return order_of(self.axes)


@dataclass
class Views:
    """The views of all values of a graph, the names of their axes, and the groups of RESHAPEs."""

    names: AxisNames = field(default_factory=AxisNames)
    of: dict[Value, View] = field(default_factory=dict)
    groups: dict[Op, list[Group]] = field(default_factory=dict)
    #: pairs of axes, one of them of size 1, that are the same if nothing speaks against it
    _soft: list[tuple[int, int]] = field(default_factory=list)

    def __getitem__(self, value: Value) -> View:
        return self.of[value]

    def add_root(self, value: Value, names: Sequence[int]) -> None:
        """A new root tensor whose axes have these names, where no two would be equal."""
        taken: set[int] = set()
        own = list(names)
        hard = hard_axes(value.type.shape)
        for i in hard:
            if self.names.find(own[i]) in taken:
                (own[i],) = self.names.fresh()
            taken.add(self.names.find(own[i]))
        self.names.meet([own[i] for i in hard])
        axes = tuple([i if d != 1 else None for i, d in enumerate(value.type.shape)])
        self.of[value] = View(value, axes, tuple(own))

    def add_view(self, op: Op) -> None:
        """The result of a TRANSPOSE or of a RESHAPE that moves axes of size 1."""
        x, y = self.of[op.operands[0]], op.results[0]
        if op.kind in TRANSPOSES:
            perms = op.attrs["perms"]
            axes = tuple([x.axes[p] for p in perms])
            self.of[y] = View(x.root, axes, tuple([x.names[p] for p in perms]))
            return
        kept = iter([(a, n) for a, n in zip(x.axes, x.names, strict=True) if a is not None])
        found: list[tuple[int | None, int]] = []
        for dim in y.type.shape:
            found.append(next(kept) if dim != 1 else (None, self.names.fresh()[0]))
        self.of[y] = View(x.root, tuple([a for a, _ in found]), tuple([n for _, n in found]))

    def unite(self, a: int, b: int, hard: bool) -> None:
        """Two axes are the same; those of size 1 wait until all others are known."""
        if hard:
            self.names.unite(a, b)
        else:
            self._soft.append((a, b))

    def unite_soft(self) -> None:
        """Unite the axes that waited."""
        for view in self.of.values():
            self.names.meet(view.names)
        for a, b in self._soft:
            self.names.unite(a, b)
        self._soft.clear()


def order_of(axes: Iterable[int | None]) -> Order:
    """The order of an arrangement."""
    return tuple([a for a in axes if a is not None])


def find_views(graph: Graph, outer: Iterable[Value] = ()) -> Views:
    """Views of all values; `outer` are values of an enclosing graph that this one reads."""
    views = Views()
    for value in (*graph.inputs, *outer):
        views.add_root(value, views.names.fresh(value.type.rank))
    for op in graph.ops:
        if is_view(op):
            views.add_view(op)
            continue
        if free_behaviour(op) is not None:
            _name_free(views, op)
        elif op.kind in RESHAPES:
            _name_reshape(views, op)
        else:
            _name_fixed(views, op)
    _name_blocks(views)
    views.unite_soft()
    return views


def _name_free(views: Views, op: Op) -> None:
    """Axes at the same position are the same axis, results included."""
    free = free_behaviour(op)
    assert free is not None
    tensors = data_operands(op, free)
    chosen = []
    for i in range(tensors[0].type.rank):
        names = [(v.type.shape[i] != 1, views[v].names[i]) for v in tensors]
        hard = [n for is_hard, n in names if is_hard]
        name = hard[0] if hard else names[0][1]
        for is_hard, other in names:
            if other != name:
                views.unite(name, other, is_hard and bool(hard))
        chosen.append(name)
    if free.drops_axis:
        del chosen[op.attrs["axis"]]
    views.add_root(op.results[0], chosen)


def _name_reshape(views: Views, op: Op) -> None:
    """An axis that a RESHAPE leaves whole keeps its name."""
    x, y = op.operands[0], op.results[0]
    groups = reshape_groups(x.type.shape, y.type.shape)
    names = views.names.fresh(y.type.rank)
    if groups is not None:
        views.groups[op] = groups
        for ins, outs in groups:
            if len(ins) == len(outs) == 1:
                names[outs[0]] = views[x].names[ins[0]]
    views.add_root(y, names)


def _name_fixed(views: Views, op: Op) -> None:
    """Axes of operators with one layout are named by their role."""
    letters, result = fixed_axes(op)
    known: dict[str, int] = {}
    for value, word in zip(op.operands, letters, strict=False):
        for letter, name, dim in zip(word, views[value].names, value.type.shape, strict=True):
            if letter in known:
                views.unite(known[letter], name, dim != 1)
            known.setdefault(letter, name)
    for y in op.results:
        names = [known.get(c) for c in result] if len(result) == y.type.rank else []
        names = names or [None] * y.type.rank
        views.add_root(y, [views.names.fresh()[0] if n is None else n for n in names])


def _name_blocks(views: Views) -> None:
    """Equal splits of one axis (and equal merges into one) have equal parts.

    Without it each head split of a transformer would bring names of its own.
    """
    parts: dict[tuple[int, Shape], list[int]] = {}
    for op, groups in views.groups.items():
        x, y = op.operands[0], op.results[0]
        for ins, outs in groups:
            whole, split, tensor = (x, outs, y) if len(ins) == 1 else (y, ins, x)
            if len(ins) == len(outs) or min(len(ins), len(outs)) != 1:
                continue
            axis = ins[0] if len(ins) == 1 else outs[0]
            sizes = tuple([tensor.type.shape[i] for i in split])
            names = [views[tensor].names[i] for i in split]
            key = (views.names.find(views[whole].names[axis]), sizes)
            for a, b in zip(parts.setdefault(key, names), names, strict=True):
                views.names.unite(a, b)
