"""Runs passes by name; a pass `x` is the function `x` of the file `x.py`."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable

from npuc.dialects.tosa import Limits
from npuc.ir import Graph, pause_collection

Pass = Callable[[Graph, Limits], Graph]


def find_pass(name: str) -> Pass:
    """The pass called `name`. Raises LookupError where there is none."""
    try:
        module = importlib.import_module(f"npuc.passes.{name}")
        return getattr(module, name)  # type: ignore[no-any-return]
    except (ModuleNotFoundError, AttributeError):
        raise LookupError(f"there is no pass {name!r} in npuc.passes") from None


def run_passes(
    graph: Graph, names: Iterable[str], limits: Limits,
    after: Callable[[str, Graph], None] | None = None,
) -> Graph:  # fmt: skip
    """`graph` after the passes `names` in order; `after(name, graph)` is called after each."""
    with pause_collection():
        for name in names:
            graph = find_pass(name)(graph, limits)
            if after is not None:
                after(name, graph)
    return graph
