"""One observer for a value that several graphs have: inside and outside of a branch or loop."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from npuc.quantizer.observers import FunctionObserver, PoolObserver, RangeObserver

if TYPE_CHECKING:
    from npuc.quantizer.calibrate import Prepared


def unify_observers(prepared: Prepared) -> None:
    """Let the values that cross the border of a branch or loop have the same parameters on both
    sides, so that nothing is requantized there. In place, in `prepared` and all graphs in it."""
    graphs = list(_all(prepared))
    classes = _Classes()
    for outer in graphs:
        for flow in outer.flows:
            for group in flow.borders():
                found = [(p or outer).quantizer.observers.get(place) for p, place in group]
                _join(classes, [o for o in found if o is not None])
    merged: dict[int, Any] = {}
    for members in classes.all():
        one = _one(members, prepared.quantizer.recipe.ranges)
        merged.update((id(member), one) for member in members)
    for graph in graphs if merged else ():
        _substitute(graph, merged)


def _all(prepared: Prepared) -> Iterator[Prepared]:
    yield prepared
    for flow in prepared.flows:
        for body in flow.bodies:
            yield from _all(body)


class _Classes:
    """Observers that are to be one, by union-find."""

    def __init__(self) -> None:
        self.members: dict[int, list[Any]] = {}

    def join(self, a: Any, b: Any) -> None:
        first, second = (self.members.setdefault(id(o), [o]) for o in (a, b))
        if first is second:
            return
        first += second
        for observer in second:
            self.members[id(observer)] = first

    def all(self) -> list[list[Any]]:
        return list({id(members): members for members in self.members.values()}.values())


def _join(classes: _Classes, observers: list[Any]) -> None:
    """Join those of one type: a value may have 16 bits outside and 8 inside."""
    by_type: dict[Any, Any] = {}
    for observer in observers:
        key = (observer.dtype, observer.quant_min, observer.quant_max, observer.qscheme)
        classes.join(by_type.setdefault(key, observer), observer)


def _one(members: list[Any], ranges: str) -> Any:
    """The observer for all of these: a function's range holds when all have it."""
    first = members[0]
    if isinstance(first, FunctionObserver):
        ends = (first.ends, first.fixed)
        if all(isinstance(m, FunctionObserver) and (m.ends, m.fixed) == ends for m in members):
            return first
    low, high = first.quant_min, first.quant_max
    # Bodies run as often as they like: calls say nothing about samples.
    return RangeObserver(first.dtype, first.qscheme, low, high, ranges, margin=False)


def _substitute(prepared: Prepared, merged: dict[int, Any]) -> None:
    """Replace observers in a graph, and where other observers or the quantizer refer to them."""
    gm, observers = prepared.graph, prepared.quantizer.observers
    for name, child in list(gm._modules.items()):  # one observer may have several names
        if id(child) in merged:
            setattr(gm, name, merged[id(child)])
    for place, observer in observers.items():
        observers[place] = merged.get(id(observer), observer)
    for observer in _derived([*gm.children(), *observers.values()]):
        if isinstance(observer, PoolObserver):
            observer.follow(merged.get(id(observer.source), observer.source))
        else:
            observer.obs_or_fqs = [merged.get(id(o), o) for o in observer.obs_or_fqs]


def _derived(observers: Iterable[Any]) -> list[Any]:
    """Those that look at other observers, each once."""
    found = {}
    for observer in observers:
        if hasattr(observer, "obs_or_fqs") or getattr(observer, "source", None) is not None:
            found[id(observer)] = observer
    return list(found.values())
