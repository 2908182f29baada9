"""The cost of a layout, and the cheapest one: expansion moves by minimum cut.

Each op that runs in any layout chooses a permutation of its axes. A tensor that some reader wants
in another order than its writer gives it is transposed once per such order. Moving the best set of
ops to one order at once is a minimum cut; with two orders in play the first move is optimal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from npuc.ir import Op, Value
from npuc.passes.layout.behaviour import Group
from npuc.passes.layout.min_cut import Cut
from npuc.passes.layout.views import Order

#: how often all moves are tried at most
MAX_ROUNDS = 4


@dataclass(frozen=True)
class Choice:
    """One way to run an op: what it then reads and writes.

    perm: the permutation of its axes (of its blocks for a RESHAPE; -1: a new axis of size 1).
    result: that of its result.
    groups: a RESHAPE's blocks of axes, each in the order it reads and writes them.
    """

    perm: tuple[int, ...]
    result: tuple[int, ...]
    reads: tuple[tuple[Value, Order], ...]
    writes: Order
    groups: tuple[Group, ...] = ()

    @property
    def effect(self) -> object:
        return self.reads, self.writes


@dataclass
class Node:
    """An op with a choice of layouts: `natural` is the graph's own, `moves` one per order tried."""

    op: Op
    natural: Choice
    moves: list[Choice | None] = field(default_factory=list)


@dataclass
class Tensor:
    """A root tensor: what one transposition costs, who writes it and in which orders it is read.

    `writer` is a node's number or None with the fixed order `written`.
    """

    cost: int
    writer: int | None
    written: Order
    fixed_reads: set[Order] = field(default_factory=set)
    readers: list[tuple[int, int]] = field(default_factory=list)


@dataclass
class Problem:
    """Nodes and tensors; a state is a choice per node."""

    nodes: list[Node] = field(default_factory=list)
    tensors: dict[Value, Tensor] = field(default_factory=dict)

    def cost(self, state: Sequence[Choice]) -> int:
        """Cost of all transpositions."""
        return sum([t.cost * len(self.transposed(t, state)) for t in self.tensors.values()])

    def transposed(self, tensor: Tensor, state: Sequence[Choice]) -> set[Order]:
        """The orders that a tensor has to be transposed to."""
        wanted = set(tensor.fixed_reads)
        wanted.update([state[node].reads[k][1] for node, k in tensor.readers])
        wanted.discard(self.written(tensor, state))
        return wanted

    def written(self, tensor: Tensor, state: Sequence[Choice]) -> Order:
        """The order that a tensor is written in."""
        return tensor.written if tensor.writer is None else state[tensor.writer].writes

    def solve(self) -> list[Choice]:
        """The best state found: all ops in the first order, then moves until none improves."""
        natural = [node.natural for node in self.nodes]
        natural_cost = self.cost(natural)
        count = len(self.nodes[0].moves) if self.nodes else 0
        if not natural_cost or not count:
            return natural
        state = [node.moves[0] or node.natural for node in self.nodes]
        cost, failures = self.cost(state), 0
        moves: list[int | None] = [*range(1, count), 0, None]
        for move in moves * MAX_ROUNDS:
            state, before, cost = self.expand(state, cost, move)
            failures = 0 if cost < before else failures + 1
            if failures == len(moves) or not cost:
                break
        return state if cost < natural_cost else natural

    def expand(
        self, state: list[Choice], cost: int, move: int | None
    ) -> tuple[list[Choice], int, int]:
        """The best state in which each op stays or makes `move` (None: back to its natural form),
        the cost of `state` and the new cost."""
        wanted = [n.natural if move is None else n.moves[move] for n in self.nodes]
        moved = [
            w if w is not None and w.effect != s.effect else None
            for w, s in zip(wanted, state, strict=True)
        ]
        if all(m is None for m in moved):
            return state, cost, cost
        cut = Cut()
        variables = [cut.variable() if m is not None else None for m in moved]
        for tensor in self.tensors.values():
            _add_tensor(cut, tensor, state, moved, variables)
        values = cut.solve()
        found = [
            m if m is not None and v is not None and values[v] else s
            for m, v, s in zip(moved, variables, state, strict=True)
        ]
        found_cost = self.cost(found)
        return (found, cost, found_cost) if found_cost < cost else (state, cost, cost)


@dataclass
class _Wish:
    """Who wants a tensor in one order: always, ops that stay (x = 0), ops that move (x = 1)."""

    always: bool = False
    stay: set[int] = field(default_factory=set)
    move: set[int] = field(default_factory=set)


def _add_tensor(
    cut: Cut, tensor: Tensor, state: Sequence[Choice], moved: Sequence[Choice | None],
    variables: Sequence[int | None],
) -> None:  # fmt: skip
    """Add what the transpositions of one tensor cost, where a move changes it."""
    readers = tensor.readers
    is_still = tensor.writer is None or moved[tensor.writer] is None
    if is_still and all(moved[node] is None for node, _ in readers):
        return
    wishes: dict[Order, _Wish] = {}
    for order in tensor.fixed_reads:
        wishes.setdefault(order, _Wish()).always = True
    for node, k in readers:
        stays, goes, x = state[node].reads[k][1], moved[node], variables[node]
        if goes is None or x is None or goes.reads[k][1] == stays:
            wishes.setdefault(stays, _Wish()).always = True
            continue
        wishes.setdefault(stays, _Wish()).stay.add(x)
        wishes.setdefault(goes.reads[k][1], _Wish()).move.add(x)
    writer, written = tensor.writer, {0: tensor.written, 1: tensor.written}
    x_writer = None
    if writer is not None:
        goes, x_writer = moved[writer], variables[writer]
        written = {0: state[writer].writes, 1: (goes or state[writer]).writes}
    for order, wish in wishes.items():
        free = [value for value in (0, 1) if written[value] == order]
        if len(free) == 2:
            continue
        if not free or x_writer is None:
            _pay_wish(cut, wish, tensor.cost)
        elif free == [1]:
            _pay_unless_moved(cut, wish, x_writer, tensor.cost)
        else:
            _pay_if_moved(cut, wish, x_writer, tensor.cost)


def _pay_wish(cut: Cut, wish: _Wish, cost: int) -> None:
    """Nobody writes this order: pay when anybody wants it (at most twice, an upper bound)."""
    if wish.always:
        return  # a constant
    if wish.move:
        cut.pay(cut.SOURCE, _any_moved(cut, wish.move), cost)
    if wish.stay:
        cut.pay(_all_moved(cut, wish.stay), cut.SINK, cost)


def _pay_unless_moved(cut: Cut, wish: _Wish, writer: int, cost: int) -> None:
    """The writer writes this order if it moves: pay when it stays and anybody wants the order.

    A reader that wants it while it stays counts as one that always wants it: an upper bound,
    exact where an op that moves reads what a moved op writes.
    """
    if wish.always or wish.stay:
        cut.pay(writer, cut.SINK, cost)
    elif wish.move:
        cut.pay(writer, _any_moved(cut, wish.move), cost)


def _pay_if_moved(cut: Cut, wish: _Wish, writer: int, cost: int) -> None:
    """The writer writes this order if it stays: pay when it moves and anybody wants the order."""
    if wish.always or wish.move:
        cut.pay(cut.SOURCE, writer, cost)
    elif wish.stay:
        cut.pay(_all_moved(cut, wish.stay), writer, cost)


def _any_moved(cut: Cut, readers: set[int]) -> int:
    """A variable that is 1 if one of `readers` is (and may be 1 otherwise, at its own cost)."""
    if len(readers) == 1:
        return next(iter(readers))
    some = cut.variable()
    for x in sorted(readers):
        cut.imply(x, some)
    return some


def _all_moved(cut: Cut, readers: set[int]) -> int:
    """A variable that is 0 if one of `readers` is (and may be 0 otherwise, at its own cost)."""
    if len(readers) == 1:
        return next(iter(readers))
    every = cut.variable()
    for x in sorted(readers):
        cut.imply(every, x)
    return every
