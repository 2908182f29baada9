"""Compile a program whose sizes are open for the numbers that the user names."""

from __future__ import annotations

from collections.abc import Mapping

from npuc.errors import BadInput
from npuc.frontend.program import Program
from npuc.frontend.random_inputs import random_inputs
from npuc.ir.fit_sizes import misfit
from npuc.ir.size_terms import symbols_of
from npuc.ir.symbolic import describe


def fix_sizes(program: Program, sizes: Mapping[str, int]) -> None:
    """Fix open sizes, called by the user's name or torch's, at these numbers.

    Example inputs of other sizes give way to random ones. Raises BadInput for a name that is no
    open size and for a number outside of its bounds.
    """
    for name, number in sizes.items():
        program.fixed[_symbol(program, name, number)] = number
    known: dict[str, int] = {}
    shapes = [program.sizes.shape(n.meta["val"]) for n in program.placeholders]
    tensors = program.flatten_inputs(program.example_inputs)
    if any(misfit(s, t.shape, known) for s, t in zip(shapes, tensors, strict=False)):
        program.example_inputs = random_inputs(program)


def _symbol(program: Program, name: str, number: int) -> str:
    """Torch's name of the size."""
    for symbol, dim in program.symbols.items():
        if name in (symbol, str(dim)):
            why = misfit((dim,), (number,), {})
            if why:
                raise BadInput(f"size {name}={number}", why=why)
            return symbol
    known = ", ".join(describe(s) for d in program.symbols.values() for s in symbols_of(d))
    raise BadInput(
        f"size {name}={number}",
        why=f"{program.name} has {f'open sizes {known}' if known else 'none'}",
    )
