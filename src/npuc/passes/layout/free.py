"""How an operator that runs in any layout sees its axes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Free:
    """An operator that runs on its tensors in any layout, the same for all of them.

    The first `data` operands (None: all) are the tensors; others are taken as they are, except
    the `shapes`, constant shapes with one or two entries per axis. `axis`: the attribute of that
    name is renumbered. `drops_axis`: the result has no such axis any more. `axes` names attributes
    that list axes, `per_axis` attributes with one or two entries per axis. `last`: the last axis
    stays the last.
    """

    data: int | None = 1
    axis: bool = False
    shapes: tuple[int, ...] = ()
    drops_axis: bool = False
    axes: tuple[str, ...] = ()
    per_axis: tuple[str, ...] = ()
    last: bool = False
