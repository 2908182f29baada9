"""Inputs for a program where the user gave none."""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree

from npuc.frontend.program import Program
from npuc.frontend.symbolic import hint_of
from npuc.ir import SymDim
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
    """The size that the export saw of each symbol that is still open."""
    seen: dict[str, int] = {}
    for node in program.placeholders:
        value = node.meta["val"]
        sizes = zip(program.sizes.shape(value), map(hint_of, value.shape), strict=True)
        still_open = [(dim, hint) for dim, hint in sizes if isinstance(dim, SymDim)]
        misfit([dim for dim, _ in still_open], [hint for _, hint in still_open], seen)
    return seen
