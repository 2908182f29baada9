"""Inputs for a program where the user gave none."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from npuc.frontend.program import Program
from npuc.frontend.symbolic import hint_of
from npuc.ir.fit_sizes import misfit


def random_inputs(program: Program) -> Any:
    """Inputs of the program's shapes, always the same: normal floats, zeros for integers.

    Open sizes are those that the user compiles for, or that the export saw.
    """
    generator = torch.Generator().manual_seed(0)
    nodes = iter(program.placeholders)
    seen = _sizes_seen(program)
    leaves: list[Any] = []
    for spec in program.inputs:
        if not spec.is_tensor:
            leaves.append(spec.constant)
            continue
        value = next(nodes).meta["val"]
        shape = [d if isinstance(d, int) else d.at(seen) for d in program.sizes.shape(value)]
        if value.is_floating_point():
            leaves.append(torch.randn(shape, generator=generator).to(value.dtype))
        else:
            leaves.append(torch.zeros(shape, dtype=value.dtype))
    args, kwargs = pytree.tree_unflatten(leaves, program.in_spec)
    return (args, kwargs) if kwargs else tuple(args)


def _sizes_seen(program: Program) -> dict[str, int]:
    """The size of each symbol that the export saw."""
    seen: dict[str, int] = {}
    for node in program.placeholders:
        value = node.meta["val"]
        misfit(program.sizes.shape(value), [hint_of(d) for d in value.shape], seen)
    return seen
