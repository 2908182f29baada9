"""Decisions on open sizes while an op is expanded: one that bounds do not settle is refused.

Code that runs on fake values (PyTorch's decompositions, our formulas) may ask whether a size is 8.
torch answers for the size that the export saw. The expansion would then be wrong for others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._subclasses import FakeTensorMode

from npuc.errors import Reason, Unsupported
from npuc.frontend.name_sizes import symbols_between
from npuc.frontend.symbolic import Sizes
from npuc.ir import Dim, SymbolicShape
from npuc.ir.symbolic import smallest


@contextmanager
def no_guesses(mode: FakeTensorMode, sizes: Sizes | None = None) -> Iterator[None]:
    """Raise Unsupported when what runs inside decides something that holds for some sizes only.

    `sizes`: what the program's symbols are; None: as torch knows them.
    """
    env = mode.shape_env
    if env is None:
        yield
        return
    frozen, count, replacements = env.frozen, len(env.guards), dict(env.replacements)
    env.frozen = False  # a frozen one decides without a record
    try:
        yield
    finally:
        guards = [guard.expr for guard in env.guards[count:]]
        del env.guards[count:]
        env.replacements.clear()
        env.replacements.update(replacements)
        env.frozen = frozen
    if guards and sizes is None:
        sizes = Sizes(symbols_between(env.var_to_range))
    for guard in guards:
        if sizes is not None and not holds(guard, sizes):
            raise Unsupported(
                Reason("", "", f"its expansion holds only where {_written(guard, sizes)}",
                       "compile for fixed sizes with sizes={name: number}")
            )  # fmt: skip


def _written(expr: Any, sizes: Sizes) -> str:
    """A condition in the user's names."""
    sign = {"Equality": "==", "Unequality": "!="}.get(type(expr).__name__)
    if sign is None:
        return str(expr)
    return f"{sizes.of(expr.args[0])} {sign} {sizes.of(expr.args[1])}"


def holds(expr: Any, sizes: Sizes) -> bool:
    """Whether a condition on sizes holds for all sizes in their bounds."""
    kind = type(expr).__name__
    if kind == "And":
        return all(holds(a, sizes) for a in expr.args)
    if kind == "Or":
        return any(holds(a, sizes) for a in expr.args)
    compare = RELATIONS.get(kind)
    if compare is None:
        return bool(expr == True)  # noqa: E712 - sympy's true
    try:
        return compare(sizes.of(expr.args[0]) - sizes.of(expr.args[1]))
    except (SymbolicShape, Unsupported):
        return False


#: whether the difference of both sides has the sign that the relation asks for
RELATIONS: dict[str, Callable[[Dim], bool]] = {
    "Equality": lambda d: d == 0,
    "Unequality": lambda d: smallest(d) > 0 or smallest(-d) > 0,
    "StrictLessThan": lambda d: smallest(-d) > 0,
    "LessThan": lambda d: smallest(-d) >= 0,
    "StrictGreaterThan": lambda d: smallest(d) > 0,
    "GreaterThan": lambda d: smallest(d) >= 0,
}
